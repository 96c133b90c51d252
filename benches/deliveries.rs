//! How fast a partner is told, and how many notifications a core sends: our server, and beside it a bare client.
//!
//! `cargo build --release && cargo run --release -p svc-benches --bin deliveries -- target/release/svc-server`
//!
//! How fast: customers answer in an open loop, whoever is due is sent however the ones before fare. The time is from the
//! sending of the customer's answer to the arrival of the notification, so the server's work on the answer is in it.
//!
//! How many: notifications wait until a receiver, which has let the first eight connections stand, begins to answer; from
//! then to the arrival of the last. Beside it hyper's client alone, in loops on as many connections, each sending the same
//! request again and again to the same receiver. The sender has one processor, the receiver the other. Rounds alternate.
//!
//! Each notification is verified and counted, after the clock has stopped.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use svc_benches::load::{pin_client, pinned};
use svc_benches::process::{processor_time, quiet};
use svc_benches::{Http, Message, median, no_content, quantile, receive, receive_on, start_pinned};
use svc_core::{Received, Secret, Verifier};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Child;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Answers a second, and for how many seconds.
const RATES: [(usize, usize); 2] = [(200, 30), (1_000, 10)];
const CUSTOMERS: usize = 32;
/// Many, since a round is a second or less, and a machine that others use has bad ones.
const ROUNDS: usize = 15;
const WAITING: usize = 24_000;
/// As many as the server has under way to one host of a partner.
const IN_FLIGHT: usize = 8;
/// After this something is lost.
const LONGEST: Duration = Duration::from_secs(60);
const DEMO_SECRET: &str = "whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Zj";

/// Our server, and the demonstration partner's way to it.
struct Service {
    process: Child,
    address: String,
    token: String,
    /// So that no two proposals have the same id.
    created: usize,
}

/// What a receiver got, and what it took of the sender.
struct Drained {
    /// Requests a second.
    rate: f64,
    /// The sender's time of its processor, as a share.
    busy: f64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bare", address, request] => {
            // As the server's own runtime is built.
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
            runtime.block_on(bare(address, request));
        }
        [_program] => {
            pin_client();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let mut service = Service::start().await;
                let mut request = String::new();
                for (a_second, seconds) in RATES {
                    request = service.tell(a_second, seconds).await;
                }
                service.beside_bare(&request).await;
            });
        }
        _ => eprintln!("deliveries SVC-SERVER"),
    }
}

impl Service {
    async fn start() -> Self {
        let (process, address) = start_pinned(&[]).await;
        let token = Http::connect(&address).await.login("parceiro-demo", "segredo-demo").await;
        Self { process, address, token, created: 0 }
    }

    async fn create(&mut self, count: usize, url: &str) -> Vec<String> {
        let (mut http, mut ids) = (Http::connect(&self.address).await, Vec::with_capacity(count));
        for _ in 0..count {
            self.created += 1;
            ids.push(http.create(&self.token, &format!("P-{}", self.created), url).await);
        }
        ids
    }

    /// Has each proposal accepted, the next a `gap` after the one before; gives when that was, by the event's id.
    async fn accept(&self, ids: Vec<String>, gap: Duration) -> HashMap<String, Instant> {
        let (give, take) = unbounded_channel::<String>();
        let take = Arc::new(Mutex::new(take));
        let mut customers = JoinSet::new();
        for _ in 0..CUSTOMERS {
            let (mut http, take) = (Http::connect(&self.address).await, Arc::clone(&take));
            customers.spawn(async move {
                while let Some(id) = { take.lock().await.recv().await } {
                    http.accept(&id).await;
                }
            });
        }
        let (mut sent, mut due) = (HashMap::with_capacity(ids.len()), Instant::now());
        for id in ids {
            tokio::time::sleep_until(due.into()).await;
            due += gap;
            sent.insert(format!("evt_{id}"), Instant::now());
            give.send(id).expect("customers wait");
        }
        drop(give);
        customers.join_all().await;
        sent
    }

    /// Prints how long partners wait for notifications; gives the request of one.
    async fn tell(&mut self, a_second: usize, seconds: usize) -> String {
        let (tell, mut arrivals) = unbounded_channel();
        let url = format!("http://{}/webhook", receive(tell).await);
        let ids = self.create(a_second * seconds, &url).await;
        let sent = self.accept(ids, Duration::from_secs(1) / a_second as u32).await;
        let arrived = collect(&mut arrivals, sent.len()).await;
        quiet(&self.process).await;
        assert!(arrivals.try_recv().is_err(), "no event twice");
        let mut times: Vec<_> = arrived.iter().map(|(at, message)| *at - sent[message.header("webhook-id")]).collect();
        times.sort_unstable();
        println!(
            "{a_second} answers a second for {seconds} s, each to its notification: p50 {:?}, p99 {:?}, p99.9 {:?}, most {:?}",
            quantile(&times, 0.5),
            quantile(&times, 0.99),
            quantile(&times, 0.999),
            quantile(&times, 1.0)
        );
        let messages: Vec<_> = arrived.into_iter().map(|(_, message)| message).collect();
        verify(&messages);
        let Message { head, body } = &messages[0];
        format!("{head}{}", str::from_utf8(body).expect("text"))
    }

    /// Prints how many a second our server sends, and the bare client.
    async fn beside_bare(&mut self, request: &str) {
        let mut all = Vec::new();
        for _ in 0..ROUNDS {
            let (listener, url) = listen().await;
            let ids = self.create(WAITING, &url).await;
            self.accept(ids, Duration::ZERO).await;
            let ours = drain(&self.process, listener, verify).await;

            let (listener, address) = listen().await;
            let program = std::env::current_exe().expect("this program");
            let mut process = pinned(program.to_str().expect("text"));
            let process = process.args(["bare", &address, request]).spawn().expect("a process");
            let same = |message: &Message| request.as_bytes() == [message.head.as_bytes(), &message.body].concat();
            let check = |messages: &[Message]| assert!(messages.iter().all(same), "the request of a notification");
            let bare = drain(&process, listener, check).await;
            all.push((ours, bare));
        }
        let of =
            |value: fn(&Drained, &Drained) -> f64| median(all.iter().map(|(ours, bare)| value(ours, bare)).collect());
        let mut ratios: Vec<_> = all.iter().map(|(ours, bare)| ours.rate / bare.rate).collect();
        ratios.sort_by(f64::total_cmp);
        println!(
            "{WAITING} that wait: {:.0} a second, bare {:.0}, ratio {:.2}, half of the rounds between {:.2} and {:.2}; busy {:.2}, bare {:.2}",
            of(|ours, _| ours.rate),
            of(|_, bare| bare.rate),
            of(|ours, bare| ours.rate / bare.rate),
            ratios[ROUNDS / 4],
            ratios[ROUNDS - 1 - ROUNDS / 4],
            of(|ours, _| ours.busy),
            of(|_, bare| bare.busy),
        );
    }
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/webhook", listener.local_addr().expect("bound"));
    (listener, url)
}

/// Takes what waits to be sent to a receiver that has not begun yet. The system takes connections for it, and as many as
/// may be stand with a request on each: for less than the 15 s after which the server would give an attempt up.
async fn drain(sender: &Child, receiver: TcpListener, check: impl Fn(&[Message])) -> Drained {
    let mut connections = Vec::new();
    for _ in 0..IN_FLIGHT {
        connections.push(receiver.accept().await.expect("a connection").0);
    }
    quiet(sender).await;
    let (tell, mut arrivals) = unbounded_channel();
    let (before, began) = (processor_time(sender), Instant::now());
    for stream in connections {
        tokio::spawn(receive_on(stream, tell.clone(), no_content));
    }
    // A receiver that waits asleep is woken at the sender's cost, the more often the slower that is: this one never sleeps.
    let awake = tokio::spawn(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    let arrived = collect(&mut arrivals, WAITING).await;
    awake.abort();
    let took = arrived.iter().map(|(at, _)| *at - began).max().unwrap_or_default().as_secs_f64();
    quiet(sender).await;
    assert!(arrivals.try_recv().is_err(), "no event twice");
    let busy = (processor_time(sender) - before).as_secs_f64() / took;
    check(&arrived.into_iter().map(|(_, message)| message).collect::<Vec<_>>());
    Drained { rate: WAITING as f64 / took, busy }
}

async fn collect(arrivals: &mut UnboundedReceiver<(Instant, Message)>, count: usize) -> Vec<(Instant, Message)> {
    let mut arrived = Vec::with_capacity(count);
    let all = async {
        while arrived.len() < count {
            arrived.push(arrivals.recv().await.expect("receivers"));
        }
    };
    timeout(LONGEST, all).await.expect("every event");
    arrived
}

/// Each is signed by the server, and of another event.
fn verify(messages: &[Message]) {
    let verifier = Verifier::new(&Secret::parse(DEMO_SECRET).expect("a secret")).require_timestamp();
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    for Message { head, body } in messages {
        let headers = head.lines().filter_map(|line| line.split_once(": "));
        let headers = Received::from_pairs(headers.map(|(name, value)| (name, value.as_bytes()))).expect("headers");
        verifier.verify(headers, body, now).expect("signed by the server");
    }
    let ids: HashSet<_> = messages.iter().map(|message| message.header("webhook-id")).collect();
    assert_eq!(ids.len(), messages.len(), "every event once");
}

/// hyper's client and nothing else: loops on connections that are kept, and the same request each time.
async fn bare(url: &str, request: &str) {
    let (head, body) = request.split_once("\r\n\r\n").expect("a request");
    let headers = head.lines().filter_map(|line| line.split_once(": "));
    let request = headers.fold(Request::post("/webhook"), |request, (name, value)| request.header(name, value));
    let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).expect("a request");
    let address = url.trim_start_matches("http://").trim_end_matches("/webhook");
    let mut loops = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let stream = TcpStream::connect(address).await.expect("a receiver");
        stream.set_nodelay(true).expect("a socket");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a connection");
        tokio::spawn(async { drop(connection.await) });
        let request = request.clone();
        loops.spawn(async move {
            for _ in 0..WAITING / IN_FLIGHT {
                sender.ready().await.expect("a connection that is kept");
                let answer = sender.send_request(request.clone()).await.expect("an answer");
                assert_eq!(answer.status(), 204);
                answer.into_body().collect().await.expect("a body");
            }
        });
    }
    loops.join_all().await;
    // Its time is looked at before it is ended.
    std::future::pending::<()>().await;
}
