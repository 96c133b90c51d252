//! Nothing acknowledged is lost, shown with processes (C41): three servers on one PostgreSQL are killed, stopped, ended and
//! started again, and so is the database, while partners post proposals through svc-client, customers answer, and a
//! receiver writes down what it gets. At the end the journals and the database must agree.
//!
//! `cargo build --release && cargo run --release -p svc-benches --bin crash -- target/release/svc-server 200 10000`
//!
//! The arguments are the server, how many kills, and how many acknowledged answers there must be at least.

use std::collections::{HashMap, HashSet};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use svc_benches::{Message, receive_answering};
use svc_client::webhook::{Secret, Verifier};
use svc_client::{Acao, Client, NovaProposta, Outcome};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::sleep;

#[path = "../svc-server/tests/api/cluster.rs"]
#[expect(dead_code, reason = "the tests do more to a cluster")]
mod cluster;

const SERVERS: usize = 3;
const PARTNERS: usize = 12;
/// Ten attempts over two and a half minutes: longer than anything is away here.
const SCHEDULE: &str = "0,1s,2s,5s,10s,20s,30s,30s,30s,30s";
/// How long the database is away, once.
const AWAY: Duration = Duration::from_secs(30);
/// A lease is 30 s; who finds it ended looks once a second.
const TAKEN_OVER: Duration = Duration::from_secs(35);
const SECRET: &str = "whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Zj";

/// What was acknowledged.
#[derive(Default)]
struct Journal {
    /// The service's ids, by the partner's.
    created: HashMap<String, HashSet<String>>,
    /// What the customer was told, by the service's id.
    answered: HashMap<String, HashSet<String>>,
}

/// What is shared by those who post and those who break.
struct World {
    database: cluster::Database,
    program: String,
    ports: [u16; SERVERS],
    journal: Mutex<Journal>,
    answers: AtomicUsize,
    stop: AtomicBool,
    random: Mutex<u64>,
}

impl World {
    /// A number below another, the same ones each time.
    fn below(&self, end: u64) -> u64 {
        let mut state = self.random.lock().unwrap();
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % end
    }

    fn millis(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }

    async fn start(&self, which: usize) -> Child {
        let mut command = Command::new(&self.program);
        command.args(["--listen", &format!("127.0.0.1:{}", self.ports[which])]);
        command.env("SVC_DATABASE_URL", self.database.url_text()).env("SVC_RETRY_SCHEDULE", SCHEDULE);
        command.env("SVC_TOKEN_KEY", "a token key of the harness, long enough");
        command.env("SVC_LINK_KEY", "a link key of the harness, long enough.");
        command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().expect("a server");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        // The greeting: it listens. Then the customers' links, read so that the pipe does not fill.
        let _ = lines.next_line().await;
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        child
    }

    /// What is leased, each lease by its event and number: an attempt of it may be under way, or was when its server ended.
    fn leased(&self) -> HashSet<(String, String)> {
        let rows = self.database.sql("SELECT id, fence FROM webhooks WHERE leased_until IS NOT NULL");
        rows.lines()
            .filter_map(|line| line.split_once('|'))
            .map(|(id, fence)| (id.to_owned(), fence.to_owned()))
            .collect()
    }
}

/// A partner posts proposals one after the other, and its customers answer; each call goes to any of the servers, and is
/// made again until it is acknowledged.
async fn partner(world: Arc<World>, number: usize, url: String) {
    let clients = world.ports.map(|port| {
        let client = Client::builder(format!("http://127.0.0.1:{port}"), "parceiro-demo", "segredo-demo");
        client.attempt_timeout(Duration::from_secs(4)).total_timeout(Duration::from_secs(6)).build().expect("a client")
    });
    let any = || clients[usize::try_from(world.below(SERVERS as u64)).unwrap()].clone();
    for n in 0.. {
        if world.stop.load(Ordering::SeqCst) {
            return;
        }
        let id_parceiro = format!("P-{number}-{n}");
        let proposta = NovaProposta::builder(&id_parceiro).nome("Ana Exemplo").cpf("111.444.777-35");
        let proposta = proposta.whatsapp("5511900000018").webhook_url(&url).build().expect("a proposal");
        let id = loop {
            match any().create_proposta(&proposta).await {
                Ok(created) => {
                    let id = created.into_body().id_proposta_svc;
                    let mut journal = world.journal.lock().unwrap();
                    journal.created.entry(id_parceiro.clone()).or_default().insert(id.clone());
                    break id;
                }
                Err(error) => {
                    let refused = error.outcome() == Outcome::Rejected && !error.is_retryable();
                    assert!(!refused, "{error}");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        };
        // Some post it again, and some customers click twice, or change their mind.
        if world.below(10) == 0
            && let Ok(again) = any().create_proposta(&proposta).await
        {
            let mut journal = world.journal.lock().unwrap();
            journal.created.entry(id_parceiro.clone()).or_default().insert(again.into_body().id_proposta_svc);
        }
        let clicks = 1 + world.below(2);
        for _ in 0..clicks {
            let acao = if world.below(2) == 0 { Acao::Aceitar } else { Acao::Recusar };
            loop {
                match any().simulate_answer(&id, acao).await {
                    Ok(told) => {
                        let mut journal = world.journal.lock().unwrap();
                        journal.answered.entry(id.clone()).or_default().insert(told.into_body().status);
                        world.answers.fetch_add(1, Ordering::SeqCst);
                        break;
                    }
                    Err(error) if error.code() == Some("proposta_ja_respondida") => break,
                    Err(error) => {
                        assert!(error.is_retryable(), "{error}");
                        sleep(Duration::from_millis(50)).await;
                    }
                }
            }
        }
    }
}

/// What was done to servers and database.
#[derive(Debug, Default)]
struct Done {
    kills: usize,
    stops: usize,
    ends: usize,
    database_restarts: usize,
    /// Attempts that may have been under way when something was done that can repeat them.
    under_way: HashSet<(String, String)>,
    /// Of each kill, and each stop for longer than a lease, when it was and what was leased then.
    leased: Vec<(Instant, HashSet<(String, String)>)>,
    /// When the database was away.
    away: Vec<(Instant, Instant)>,
}

/// Kills, stops, ends and starts, until there was enough of it.
async fn havoc(world: Arc<World>, kills: usize, answers: usize) -> (Done, Vec<Child>) {
    let mut done = Done::default();
    let mut servers = Vec::new();
    for which in 0..SERVERS {
        servers.push(world.start(which).await);
    }
    let mut was_away = false;
    while done.kills < kills || world.answers.load(Ordering::SeqCst) < answers {
        sleep(world.millis(150, 900)).await;
        if done.kills >= kills {
            // Only the answers are missing.
            continue;
        }
        let which = usize::try_from(world.below(SERVERS as u64)).unwrap();
        let server = &mut servers[which];
        match world.below(100) {
            0..70 => {
                server.kill().await.expect("killed");
                let killed = Instant::now();
                let leased = world.leased();
                done.under_way.extend(leased.iter().cloned());
                done.leased.push((killed, leased));
                done.kills += 1;
                sleep(world.millis(0, 400)).await;
                *server = world.start(which).await;
            }
            70..80 => {
                signal(server, "-STOP").await;
                let time = if world.below(8) == 0 { Duration::from_secs(40) } else { world.millis(500, 3_000) };
                // Stopped for longer than a lease, it comes late with what others have taken over.
                if time > Duration::from_secs(30) {
                    let leased = world.leased();
                    done.under_way.extend(leased.iter().cloned());
                    done.leased.push((Instant::now(), leased));
                }
                sleep(time).await;
                signal(server, "-CONT").await;
                done.stops += 1;
            }
            80..97 => {
                signal(server, "-TERM").await;
                let ended = server.wait().await.expect("an end");
                assert_eq!(ended.code(), Some(0), "a server that is told to end does");
                *server = world.start(which).await;
                done.ends += 1;
            }
            _ => {
                let away = if !was_away && done.kills > kills / 2 { AWAY } else { Duration::ZERO };
                was_away |= !away.is_zero();
                restart(&world, away, &mut done).await;
            }
        }
    }
    if !was_away {
        restart(&world, AWAY, &mut done).await;
    }
    (done, servers)
}

/// The database crashes, is away for a time, and comes back.
async fn restart(world: &World, away: Duration, done: &mut Done) {
    done.under_way.extend(world.leased());
    let began = Instant::now();
    world.database.cluster.stop("immediate");
    sleep(away).await;
    world.database.cluster.start();
    done.under_way.extend(world.leased());
    done.away.push((began, Instant::now()));
    done.database_restarts += 1;
}

async fn signal(child: &Child, signal: &str) {
    let pid = child.id().expect("it runs").to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().await.expect("kill runs").success());
}

/// One in ten is slow, one in twenty fails: so that something is under way when servers are killed.
fn whim(message: &Message) -> (Duration, &'static str) {
    let draw = message.header("webhook-signature").bytes().map(usize::from).sum::<usize>();
    let wait = if draw.is_multiple_of(10) { Duration::from_millis(700) } else { Duration::ZERO };
    (wait, if draw.is_multiple_of(20) { "500 Internal Server Error" } else { "204 No Content" })
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().expect("the path of svc-server");
    let mut number = |otherwise| arguments.next().map_or(otherwise, |text| text.parse().expect("a number"));
    let (kills, answers) = (number(200), number(10_000));
    let Some(database) = cluster::Database::fresh() else { return };
    let world = Arc::new(World {
        database,
        program,
        ports: std::array::from_fn(|_| cluster::free_port()),
        journal: Mutex::default(),
        answers: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        random: Mutex::new(1),
    });
    let (tell, received) = unbounded_channel();
    let address = receive_answering(tell, whim).await;
    let began = Instant::now();
    // One first, so that the schema is there.
    drop(world.start(0).await);
    let mut partners = JoinSet::new();
    for number in 0..PARTNERS {
        partners.spawn(partner(Arc::clone(&world), number, format!("http://{address}/webhook")));
    }
    let (done, servers) = havoc(Arc::clone(&world), kills, answers).await;
    world.stop.store(true, Ordering::SeqCst);
    while let Some(ended) = partners.join_next().await {
        ended.expect("a partner whose calls are acknowledged in the end");
    }
    let quiet = Instant::now();
    while world.database.sql("SELECT count(*) FROM webhooks WHERE due IS NOT NULL") != "0" {
        assert!(quiet.elapsed() < Duration::from_secs(300), "something is never delivered");
        sleep(Duration::from_millis(500)).await;
    }
    println!("{} s; then {} s until nothing waited", began.elapsed().as_secs(), quiet.elapsed().as_secs());
    compare(&world, &done, received);
    drop(servers);
}

/// The journals, and what is stored.
fn compare(world: &World, done: &Done, mut received: UnboundedReceiver<(Instant, Message)>) {
    let journal = world.journal.lock().unwrap();
    let rows = world.database.sql("SELECT id, id_proposta_parceiro, status FROM propostas");
    let stored: HashMap<&str, (&str, &str)> = rows
        .lines()
        .map(|line| {
            let mut columns = line.split('|');
            let mut column = || columns.next().expect("three columns");
            (column(), (column(), column()))
        })
        .collect();
    let verifier = Verifier::new(&Secret::parse(SECRET).expect("a secret")).tolerance(Duration::MAX);
    let mut events: HashMap<String, (Vec<u8>, Vec<Instant>)> = HashMap::new();
    let mut attempts = 0;
    while let Ok((at, message)) = received.try_recv() {
        attempts += 1;
        let pairs: Vec<_> = message.head.lines().filter_map(|line| line.split_once(": ")).collect();
        let told = verifier.parse_at(&pairs, &message.body, SystemTime::now()).expect("a delivery that is believed");
        let event = told.event_id().expect("an event's id").to_owned();
        assert_eq!(event, format!("evt_{}", told.id_proposta_svc), "one id for a proposal's event");
        let (id_parceiro, status) = stored.get(&*told.id_proposta_svc).expect("an event of a stored proposal");
        assert_eq!((told.id_proposta_parceiro.as_str(), told.status.as_str()), (*id_parceiro, *status));
        let (body, times) = events.entry(event).or_insert_with(|| (message.body.clone(), Vec::new()));
        assert_eq!(*body, message.body, "one body for all attempts");
        times.push(at);
    }
    let mut lost = 0;
    for (id_parceiro, ids) in &journal.created {
        assert_eq!(ids.len(), 1, "{id_parceiro} was acknowledged under {ids:?}");
        lost +=
            ids.iter().filter(|id| stored.get(id.as_str()).is_none_or(|(parceiro, _)| parceiro != id_parceiro)).count();
    }
    for (id, told) in &journal.answered {
        assert_eq!(told.len(), 1, "{id} was answered {told:?}");
        lost += told.iter().filter(|told| stored.get(id.as_str()).is_none_or(|(_, status)| status != told)).count();
        lost += usize::from(!events.contains_key(&format!("evt_{id}")));
    }
    let ids: HashSet<&str> = stored.values().map(|(parceiro, _)| *parceiro).collect();
    assert_eq!(ids.len(), stored.len(), "one proposal for a partner's id");
    let answered = stored.values().filter(|(_, status)| *status != "AGUARDANDO_RESPOSTA").count();
    let stored_as = "convert_from(dados, 'UTF8')::json";
    let count = |statement: &str| world.database.sql(statement).parse::<usize>().expect("a count");
    let undelivered = count(&format!("SELECT count(*) FROM webhooks WHERE {stored_as}->>'estado' <> 'entregue'"));
    // Whoever was interrupted between a receiver's answer and its record makes the attempt again.
    let recorded = count(&format!(
        "SELECT count(*) FROM webhooks, json_array_elements({stored_as}->'tentativas') t WHERE t->>2 ~ '^[0-9]'"
    ));
    let repeated = attempts - recorded;
    println!(
        "{} kills, {} stops, {} ends, {} restarts of the database",
        done.kills, done.stops, done.ends, done.database_restarts
    );
    println!(
        "{} proposals and {} answers acknowledged, {answered} answered in the database, {} events, {attempts} attempts",
        journal.created.len(),
        world.answers.load(Ordering::SeqCst),
        events.len(),
    );
    let under_way = done.under_way.len();
    println!(
        "lost {lost}, not delivered {undelivered}; made again {repeated}, of {under_way} under way when interrupted"
    );
    assert_eq!((lost, undelivered, events.len()), (0, 0, answered));
    assert!(repeated <= under_way);
    taken_over(done, &events);
}

/// How long after a kill the killed server's attempts are made again. Where whoever took one over was interrupted in its turn,
/// that interruption counts.
fn taken_over(done: &Done, events: &HashMap<String, (Vec<u8>, Vec<Instant>)>) {
    let mut longest = Duration::ZERO;
    for (killed, leased) in &done.leased {
        let until = *killed + TAKEN_OVER;
        if done.away.iter().any(|(from, to)| *from < until && *to > *killed) {
            continue;
        }
        for (id, fence) in leased {
            let Some((_, times)) = events.get(&format!("evt_{id}")) else { continue };
            let Some(again) = times.iter().filter(|at| *at > killed).min() else { continue };
            let of_another = |(event, other): &(String, String)| event == id && other != fence;
            let interrupted_again =
                done.leased.iter().any(|(at, leased)| at > killed && at < again && leased.iter().any(of_another));
            if !interrupted_again {
                longest = longest.max(*again - *killed);
            }
        }
    }
    println!("made again at most {:.1} s after a kill", longest.as_secs_f64());
    assert!(longest <= TAKEN_OVER);
}
