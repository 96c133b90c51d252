//! What bad receivers cost another partner: 10,000 events of one that hang, some at the other's own host; 64 hosts of a
//! second on a name server that is silent; and ten more partners that hang as much as they may.
//!
//! `cargo run --release -p svc-benches --bin isolation`
//!
//! In one process, since the name server is a seam of the server's library.

use std::io;
use std::time::{Duration, Instant};

use svc_benches::{Http, quantile, receive};
use svc_server::{Config, NewPartner, Partners, Random, Resolver, Sender, run};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::sync::mpsc::UnboundedReceiver;

const HANGING: usize = 10_000;
const HANGING_HOSTS: usize = 100;
const MUTE_HOSTS: usize = 64;
const MORE_PARTNERS: usize = 10;
const EVENTS_OF_MORE: usize = 100;
/// Answers of the other partner's customers, one every tenth of a second.
const SAMPLES: usize = 300;
/// As the system's resolver does, long after anybody waits.
const RESOLVER_GIVES_UP: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() {
    rlimit::increase_nofile_limit(4_096).expect("files");
    let draw = |id: &str| NewPartner::draw(id, &Random::system()).expect("random");
    let [hang, mute, good] = ["pendura", "mudo", "bom"].map(|id| (id, draw(id)));
    let more: Vec<_> = (0..MORE_PARTNERS).map(|i| (format!("mais-{i}"), draw(&format!("mais-{i}")))).collect();
    let all = [&hang.1, &mute.1, &good.1].into_iter().chain(more.iter().map(|(_, partner)| partner));
    let file = format!("[{}]", all.map(|partner| partner.entry.as_str()).collect::<Vec<_>>().join(","));
    let partners = Partners::from_json(file.as_bytes()).expect("partners");
    let mut config = Config::homologacao(partners).expect("random");
    // What customers are sent is not of interest here.
    let (links, _kept) = mpsc::unbounded_channel();
    config.sender = Sender::Channel(links);
    config.resolver = Resolver::from_fn(|_| async {
        tokio::time::sleep(RESOLVER_GIVES_UP).await;
        Err(io::Error::other("no answer"))
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    tokio::spawn(run(listener, config, std::future::pending()));

    let silent = TcpListener::bind("0.0.0.0:0").await.expect("a free port");
    let silent_port = silent.local_addr().expect("bound").port();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = silent.accept().await {
            held.push(stream);
        }
    });
    let (tell, mut arrivals) = mpsc::unbounded_channel();
    let url = format!("http://{}/", receive(tell).await);
    let mut http = Http::connect(&address).await;
    let token = http.login(good.0, &good.1.client_secret).await;
    let quiet = delays(&mut http, &token, "Q", &url, &mut arrivals).await;

    let token_of_hang = http.login(hang.0, &hang.1.client_secret).await;
    for i in 0..HANGING {
        // The first of the hosts is the other partner's.
        let host =
            if i % HANGING_HOSTS == 0 { "127.0.0.1".to_owned() } else { format!("127.0.1.{}", i % HANGING_HOSTS) };
        let url = format!("http://{host}:{silent_port}/");
        let id = http.create(&token_of_hang, &format!("L-{i}"), &url).await;
        http.accept(&id).await;
    }
    let token_of_mute = http.login(mute.0, &mute.1.client_secret).await;
    for i in 0..MUTE_HOSTS {
        let id = http.create(&token_of_mute, &format!("M-{i}"), &format!("http://mudo-{i}.example/")).await;
        http.accept(&id).await;
    }
    for (client_id, partner) in &more {
        let token = http.login(client_id, &partner.client_secret).await;
        for i in 0..EVENTS_OF_MORE {
            let url = format!("http://127.0.2.{}:{silent_port}/", 1 + i % 20);
            let id = http.create(&token, &format!("N-{i}"), &url).await;
            http.accept(&id).await;
        }
    }
    let loaded = delays(&mut http, &token, "C", &url, &mut arrivals).await;
    for (name, delays) in [("quiet", &quiet), ("beside them", &loaded)] {
        println!(
            "{name}: median {:?}, p99 {:?}, most {:?}",
            quantile(delays, 0.5),
            quantile(delays, 0.99),
            quantile(delays, 1.0)
        );
    }
    let more = quantile(&loaded, 1.0).saturating_sub(quantile(&quiet, 0.5));
    println!("at most {more:?} more");
    assert!(more < Duration::from_secs(1), "C34");
}

/// From a customer's answer to its notification, time after time.
async fn delays(
    http: &mut Http,
    token: &str,
    name: &str,
    url: &str,
    arrivals: &mut UnboundedReceiver<(Instant, svc_benches::Message)>,
) -> Vec<Duration> {
    let mut delays = Vec::with_capacity(SAMPLES);
    for i in 0..SAMPLES {
        let id = http.create(token, &format!("{name}-{i}"), url).await;
        let sent = Instant::now();
        http.accept(&id).await;
        let (at, request) = arrivals.recv().await.expect("a notification");
        assert_eq!(request.header("webhook-id"), format!("evt_{id}"));
        delays.push(at - sent);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    delays.sort_unstable();
    delays
}
