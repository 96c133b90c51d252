//! What stays after an hour: memory, descriptors and latency of a server at half of what it carries.
//!
//! `cargo build --release && cargo run --release -p svc-benches --bin soak -- target/release/svc-server 60`
//!
//! The second argument is minutes; a third, `postgres`, puts a database of its own behind the server. A story is a proposal
//! posted twice, sixteen looks at it by its partner, the customer's page and answer, and the notification; every hundred
//! stories a client connects and logs in anew. First the stories a second are found that clients make who do not wait, then
//! half as many are made on time, however the ones before fare: a latency counts from when a story was due.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use svc_benches::process::{descriptors, resident};
use svc_benches::{Http, quantile, receive, start};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

#[path = "../svc-server/tests/api/cluster.rs"]
#[expect(dead_code, reason = "the tests do more to a cluster")]
mod cluster;

const CLIENTS: usize = 32;
const WARM_UP: Duration = Duration::from_secs(20);
const LOOKS: usize = 16;
const STORIES_A_CONNECTION: usize = 100;

/// What all clients share.
struct World {
    address: String,
    url: String,
    stories: AtomicUsize,
    latencies: Mutex<Vec<Duration>>,
}

/// A client with its connection.
struct Teller {
    world: Arc<World>,
    http: Http,
    token: String,
    told: usize,
}

impl Teller {
    async fn new(world: Arc<World>) -> Self {
        let mut http = Http::connect(&world.address).await;
        let token = http.login("parceiro-demo", "segredo-demo").await;
        Self { world, http, token, told: 0 }
    }

    async fn tell(&mut self, due: Instant) {
        self.told += 1;
        if self.told.is_multiple_of(STORIES_A_CONNECTION) {
            self.http = Http::connect(&self.world.address).await;
            self.token = self.http.login("parceiro-demo", "segredo-demo").await;
        }
        let name = format!("P-{}", self.world.stories.fetch_add(1, Ordering::Relaxed));
        let id = self.http.create(&self.token, &name, &self.world.url).await;
        let again = self.http.create(&self.token, &name, &self.world.url).await;
        assert_eq!(id, again, "a proposal posted twice is one");
        for _ in 0..LOOKS {
            let (status, body) = self.http.send("GET", &format!("/v1/propostas/{id}"), &self.token, "").await;
            assert_eq!(status, 200, "{body}");
        }
        self.http.page(&id).await;
        self.http.accept(&id).await;
        self.world.latencies.lock().await.push(due.elapsed());
    }
}

/// Stories a second of clients that do not wait.
async fn full_load(world: &Arc<World>) -> f64 {
    let (began, before) = (Instant::now(), world.stories.load(Ordering::Relaxed));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let mut teller = Teller::new(Arc::clone(world)).await;
        clients.spawn(async move {
            while began.elapsed() < WARM_UP {
                teller.tell(Instant::now()).await;
            }
        });
    }
    clients.join_all().await;
    (world.stories.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64()
}

/// Stories on time, so many a second, until the end.
async fn half_load(world: &Arc<World>, a_second: f64, end: Instant) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    let wait = Duration::from_secs_f64(CLIENTS as f64 / a_second);
    for client in 0..CLIENTS {
        let mut teller = Teller::new(Arc::clone(world)).await;
        let first = Instant::now() + wait.mul_f64(client as f64 / CLIENTS as f64);
        clients.spawn(async move {
            let mut tick = tokio::time::interval_at(first.into(), wait);
            tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
            while Instant::now() < end {
                let due = tick.tick().await;
                teller.tell(due.into()).await;
            }
        });
    }
    clients
}

#[tokio::main]
async fn main() {
    let minutes: u32 = std::env::args().nth(2).and_then(|minutes| minutes.parse().ok()).expect("minutes");
    let database = (std::env::args().nth(3).as_deref() == Some("postgres"))
        .then(|| cluster::Cluster::own().expect("PostgreSQL on this machine").database());
    let folder = std::env::temp_dir().join(format!("svc-soak-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let mut arguments = vec!["--max-proposals".to_owned(), "100000000".to_owned()];
    if let Some(database) = &database {
        arguments.extend(["--database-url-file".to_owned(), file("url", &database.url_text())]);
        arguments.extend(["--token-key-file".to_owned(), file("token", &"k".repeat(32))]);
        arguments.extend(["--link-key-file".to_owned(), file("link", &"l".repeat(32))]);
    }
    let (server, address) = start(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (tell, mut arrivals) = tokio::sync::mpsc::unbounded_channel();
    let url = format!("http://{}/webhook", receive(tell).await);
    let received = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&received);
    tokio::spawn(async move {
        let mut seen = std::collections::HashSet::new();
        while let Some((_, message)) = arrivals.recv().await {
            assert!(seen.insert(message.header("webhook-id").to_owned()), "a notification came twice");
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let world = Arc::new(World { address, url, stories: AtomicUsize::new(0), latencies: Mutex::new(Vec::new()) });

    let a_second = full_load(&world).await;
    println!("full load: {a_second:.0} stories a second, {} requests each", LOOKS + 4);
    world.latencies.lock().await.clear();
    let began = Instant::now();
    let clients = half_load(&world, a_second / 2.0, began + minutes * Duration::from_secs(60)).await;

    println!("minute  stories  p50 ms  p99 ms  most ms  MiB  bytes a story  descriptors");
    let (mut memory_before, mut stories_before) = (resident(&server), world.stories.load(Ordering::Relaxed));
    for minute in 1..=minutes {
        tokio::time::sleep_until((began + minute * Duration::from_secs(60)).into()).await;
        let mut latencies = std::mem::take(&mut *world.latencies.lock().await);
        latencies.sort_unstable();
        let (memory, stories) = (resident(&server), world.stories.load(Ordering::Relaxed));
        let growth = memory as f64 - memory_before as f64;
        let millis = |share| quantile(&latencies, share).as_secs_f64() * 1e3;
        println!(
            "{minute:6} {stories:8} {:7.2} {:7.2} {:8.2} {:4} {:14.0} {:12}",
            millis(0.5),
            millis(0.99),
            millis(1.0),
            memory >> 20,
            growth / (stories - stories_before) as f64,
            descriptors(&server)
        );
        (memory_before, stories_before) = (memory, stories);
    }
    clients.join_all().await;

    let told = world.stories.load(Ordering::Relaxed);
    let patience = Instant::now() + Duration::from_secs(60);
    while received.load(Ordering::Relaxed) < told && Instant::now() < patience {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // What is idle is closed meanwhile: only what listens, and the way to the database, is open.
    tokio::time::sleep(Duration::from_secs(70)).await;
    let events = received.load(Ordering::Relaxed);
    println!("{told} stories, {events} notifications; afterwards {} descriptors", descriptors(&server));
    drop(server);
    let _ = std::fs::remove_dir_all(folder);
    assert_eq!(events, told, "every notification once");
}
