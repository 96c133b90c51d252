//! What a core carries: our server beside bare hyper, which reads the same requests and gives constant answers of the same
//! length; and what a million proposals cost.
//!
//! `cargo build --release && cargo run --release -p svc-benches --bin throughput -- target/release/svc-server`
//!
//! With a kind behind it (`login`, `create`, `replay`, `status`, `confirm`) that load alone, for a profiler to look at.
//!
//! Each server has one processor, the client the other. Rounds alternate between the two; medians of the rounds are
//! printed. A creation's message and all log lines are written too, to nowhere. Notifications wait for the next hour:
//! `deliveries` measures them.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use svc_benches::load::{Load, PLACE, pin_client, pinned, request};
use svc_benches::process::{processor_time, quiet, resident};
use svc_benches::{Http, between, median, quantile};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Child;

const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_secs(2);
const CONNECTIONS: usize = 64;
const MANY: usize = 1_000_000;
const TYPICAL: &str = include_str!("../svc-core/tests/proposals/valid/02_tipica_12x.json");
const PARTNERS_ID: &str = "PX-2026-000002";

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Login,
    Create,
    Replay,
    Status,
    Confirm,
}

/// In an order in which each has what it needs of the ones before.
const KINDS: [Kind; 5] = [Kind::Login, Kind::Create, Kind::Replay, Kind::Status, Kind::Confirm];

/// A server in a process of its own, alone on its processor.
struct Server {
    process: Child,
    address: String,
    token: String,
    ids: Arc<Mutex<Vec<String>>>,
}

/// What one server did with one load.
#[derive(Clone, Copy)]
struct Done {
    rate: f64,
    p99: f64,
    /// The processor's time for it, with what was left to be done afterwards, as a share of the load's.
    busy: f64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bare", port, lengths @ ..] => {
            let lengths = lengths.iter().map(|length| length.parse().expect("a length")).collect();
            // As the server's own runtime is built.
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
            runtime.block_on(bare(port, lengths));
        }
        [program] => {
            pin_client();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                beside_bare(program).await;
                with_many(program).await;
            });
        }
        [program, kind] => {
            pin_client();
            let kind = KINDS.into_iter().find(|known| format!("{known:?}").eq_ignore_ascii_case(kind)).expect("a kind");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(alone(program, kind));
        }
        _ => eprintln!("throughput SVC-SERVER [KIND]"),
    }
}

/// Bare hyper: reads the body, and answers with as many bytes as our server does.
async fn bare(port: &str, lengths: Vec<usize>) {
    let answers: Arc<[Bytes]> = lengths.iter().map(|length| Bytes::from("x".repeat(*length))).collect();
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("a port");
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let answers = Arc::clone(&answers);
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let kind = match request.uri().path() {
                "/v1/login" => Kind::Login,
                "/v1/propostas" => Kind::Create,
                path if path.starts_with("/v1/") => Kind::Status,
                _ => Kind::Confirm,
            };
            let answer = answers[kind as usize].clone();
            async move {
                std::hint::black_box(request.into_body().collect().await.expect("a body").to_bytes());
                let mut response = Response::new(Full::new(answer));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                Ok::<_, Infallible>(response)
            }
        });
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async { drop(connection.await) });
    }
}

impl Server {
    async fn start(program: &str, arguments: impl FnOnce(u16) -> Vec<String>) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let mut process = pinned(program).args(arguments(port)).spawn().expect("a server");
        let address = format!("127.0.0.1:{port}");
        while TcpStream::connect(&address).await.is_err() {
            let ended = process.try_wait().expect("a process of ours");
            assert!(ended.is_none(), "{program} has ended: {ended:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Self { process, address, token: String::new(), ids: Arc::default() }
    }

    async fn ours(program: &str) -> Self {
        let arguments = |port| {
            let listen = format!("127.0.0.1:{port}");
            ["--listen", &listen, "--max-proposals", "100000000", "--retry-schedule", "3600s"].map(str::to_owned).into()
        };
        let mut server = Self::start(program, arguments).await;
        server.token = Http::connect(&server.address).await.login("parceiro-demo", "segredo-demo").await;
        server
    }

    /// With the token and the ids of ours, so that the requests are the same.
    async fn bare(ours: &Self, lengths: &[usize]) -> Self {
        let program = std::env::current_exe().expect("this program");
        let lengths: Vec<_> = lengths.iter().map(usize::to_string).collect();
        let arguments = |port: u16| ["bare".to_owned(), port.to_string()].into_iter().chain(lengths).collect();
        let server = Self::start(program.to_str().expect("text"), arguments).await;
        Self { token: ours.token.clone(), ids: Arc::clone(&ours.ids), ..server }
    }

    /// The load of a kind. Creations go on where the ones before have stopped, and each proposal is answered once.
    fn load(&self, kind: Kind, time: Duration) -> Load {
        let (token, known) = (&self.token, self.ids.lock().expect("whole").clone());
        let login = format!(r#"{{"client_id":"parceiro-demo","client_secret":"segredo-demo{PLACE}"}}"#);
        let proposta = TYPICAL.replace(PARTNERS_ID, PLACE);
        assert!(proposta.contains(PLACE), "the place of the partner's id");
        let partners_id = |number: usize| format!("P{number:012}");
        let around = match kind {
            Kind::Login => request("POST", "/v1/login", "", &login, 0),
            Kind::Create | Kind::Replay => request("POST", "/v1/propostas", token, &proposta, partners_id(0).len()),
            Kind::Status => request("GET", &format!("/v1/propostas/{PLACE}"), token, "", 0),
            Kind::Confirm => request("GET", &format!("/confirmar/{PLACE}?acao=aceitar"), "", "", 0),
        };
        let fill: Box<dyn Fn(usize) -> Option<String> + Send + Sync> = match kind {
            Kind::Login => Box::new(|_| Some(String::new())),
            Kind::Create => Box::new(move |number| Some(partners_id(known.len() + number))),
            Kind::Replay => Box::new(move |number| Some(partners_id(number % known.len()))),
            Kind::Status => Box::new(move |number| Some(known[number % known.len()].clone())),
            Kind::Confirm => Box::new(move |number| known.get(number).cloned()),
        };
        let ids = Arc::clone(&self.ids);
        let look: Box<dyn Fn(&str) + Send + Sync> = match kind {
            Kind::Create => Box::new(move |body| {
                // Bare hyper gives none.
                if body.starts_with('{') {
                    ids.lock().expect("whole").push(between(body, r#""id_proposta_svc":""#).to_owned());
                }
            }),
            Kind::Login | Kind::Replay | Kind::Status | Kind::Confirm => Box::new(|_| {}),
        };
        Load { around, fill, time, look }
    }

    async fn measure(&self, kind: Kind) -> Done {
        quiet(&self.process).await;
        let before = processor_time(&self.process);
        let loaded = self.load(kind, TIME).run(&self.address, CONNECTIONS).await;
        quiet(&self.process).await;
        let (took, busy) = (loaded.took.as_secs_f64(), processor_time(&self.process) - before);
        Done {
            rate: loaded.latencies.len() as f64 / took,
            p99: quantile(&loaded.latencies, 0.99).as_secs_f64(),
            busy: busy.as_secs_f64() / took,
        }
    }

    /// The lengths of the answers, in the order of the kinds, to one request of each.
    async fn lengths(&self) -> Vec<usize> {
        let mut lengths = Vec::new();
        for kind in KINDS {
            let Load { around, fill, look, .. } = self.load(kind, TIME);
            let (length, seen) = (Arc::new(Mutex::new(0)), look);
            let keep = Arc::clone(&length);
            let look = Box::new(move |body: &str| {
                seen(body);
                *keep.lock().expect("whole") = body.len();
            });
            let one = Box::new(move |number| fill(number).filter(|_| number == 0));
            Load { around, fill: one, time: TIME, look }.run(&self.address, 1).await;
            lengths.push(*length.lock().expect("whole"));
        }
        lengths
    }
}

/// One kind alone, on our server, for a profiler to look at.
async fn alone(program: &str, kind: Kind) {
    let ours = Server::ours(program).await;
    ours.load(Kind::Create, 4 * TIME).run(&ours.address, CONNECTIONS).await;
    quiet(&ours.process).await;
    println!("process {}", ours.process.id().expect("it runs"));
    let done = ours.load(kind, 5 * TIME).run(&ours.address, CONNECTIONS).await;
    let of = |share| quantile(&done.latencies, share);
    println!(
        "{kind:?}: {:.0} a second, p50 {:?}, p90 {:?}, p99 {:?}, most {:?}",
        done.latencies.len() as f64 / done.took.as_secs_f64(),
        of(0.5),
        of(0.9),
        of(0.99),
        of(1.0)
    );
}

/// Every kind, on both servers in turn, each round on fresh ones.
async fn beside_bare(program: &str) {
    let mut all = Vec::new();
    for _ in 0..ROUNDS {
        let ours = Server::ours(program).await;
        let bare = Server::bare(&ours, &ours.lengths().await).await;
        for kind in KINDS {
            // The bare one first: a creation changes which requests come next.
            all.push((kind, bare.measure(kind).await, ours.measure(kind).await));
        }
    }
    println!("           req/s    bare  ratio   p99 ms    bare  ratio   busy    bare");
    for kind in KINDS {
        let rounds = || all.iter().filter(|(of, ..)| *of == kind);
        let of =
            |value: &dyn Fn(&Done, &Done) -> f64| median(rounds().map(|(_, bare, ours)| value(ours, bare)).collect());
        println!(
            "{:8} {:7.0} {:7.0} {:6.2} {:8.2} {:7.2} {:6.2} {:6.2} {:7.2}",
            format!("{kind:?}"),
            of(&|ours, _| ours.rate),
            of(&|_, bare| bare.rate),
            of(&|ours, bare| ours.rate / bare.rate),
            of(&|ours, _| ours.p99 * 1e3),
            of(&|_, bare| bare.p99 * 1e3),
            of(&|ours, bare| ours.p99 / bare.p99),
            of(&|ours, _| ours.busy),
            of(&|_, bare| bare.busy),
        );
    }
}

/// What a million proposals take; and creations on that store beside a fresh one, in turn.
async fn with_many(program: &str) {
    let many = Server::ours(program).await;
    many.lengths().await;
    quiet(&many.process).await;
    let empty = resident(&many.process);
    while many.ids.lock().expect("whole").len() < MANY {
        many.load(Kind::Create, TIME).run(&many.address, CONNECTIONS).await;
    }
    quiet(&many.process).await;
    let stored = many.ids.lock().expect("whole").len();
    let each = (resident(&many.process) - empty) as f64 / stored as f64;
    println!("{stored} proposals stored: {each:.0} bytes of memory each");
    let mut all = Vec::new();
    for round in 0..ROUNDS {
        let few = Server::ours(program).await;
        few.load(Kind::Create, TIME / 10).run(&few.address, CONNECTIONS).await;
        // Each is the first in turn.
        all.push(if round % 2 == 0 {
            let few = few.measure(Kind::Create).await.rate;
            (few, many.measure(Kind::Create).await.rate)
        } else {
            let many = many.measure(Kind::Create).await.rate;
            (few.measure(Kind::Create).await.rate, many)
        });
    }
    let of = |value: fn(f64, f64) -> f64| median(all.iter().map(|(few, many)| value(*few, *many)).collect());
    println!(
        "creations a second: {:.0} on a fresh store, {:.0} on this one, ratio {:.2}",
        of(|few, _| few),
        of(|_, many| many),
        of(|few, many| many / few)
    );
}
