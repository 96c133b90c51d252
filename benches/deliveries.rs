//! How fast an answer reaches its partner: 1,000 customers a second for 30 s, one receiver on loopback.
//!
//! `cargo build --release && cargo run --release -p svc-benches --bin deliveries -- target/release/svc-server`
//!
//! The server runs in a process of its own. Each notification is verified and counted; the time is from the sending of the
//! customer's answer to the arrival of the notification, so the server's work on the answer is in it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use svc_benches::{Http, quantile, receive, start};
use svc_core::{Received, Secret, Verifier};
use tokio::sync::{Mutex, mpsc};
use tokio::time::MissedTickBehavior;

const A_SECOND: usize = 1_000;
const SECONDS: usize = 30;
const EVENTS: usize = A_SECOND * SECONDS;
const CONNECTIONS: usize = 32;
const DEMO_SECRET: &str = "whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Zj";

#[tokio::main]
async fn main() {
    let (_server, address) = start(&[]).await;
    let (tell, mut arrivals) = mpsc::unbounded_channel();
    let url = format!("http://{}/webhook", receive(tell).await);
    let mut http = Http::connect(&address).await;
    let token = http.login("parceiro-demo", "segredo-demo").await;
    let mut ids = Vec::with_capacity(EVENTS);
    for i in 0..EVENTS {
        ids.push(http.create(&token, &format!("P-{i}"), &url).await);
    }

    // An open loop: whoever is due is sent, however the ones before fare.
    let (give, take) = mpsc::unbounded_channel::<String>();
    let take = Arc::new(Mutex::new(take));
    let mut customers = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (mut http, take) = (Http::connect(&address).await, Arc::clone(&take));
        customers.spawn(async move {
            while let Some(id) = { take.lock().await.recv().await } {
                http.accept(&id).await;
            }
        });
    }
    let mut sent = HashMap::with_capacity(EVENTS);
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let began = Instant::now();
    for id in ids {
        tick.tick().await;
        sent.insert(format!("evt_{id}"), Instant::now());
        give.send(id).expect("customers wait");
    }
    drop(give);
    customers.join_all().await;
    let took = began.elapsed();

    let verifier = Verifier::new(&Secret::parse(DEMO_SECRET).expect("a secret")).require_timestamp();
    let mut times = Vec::with_capacity(EVENTS);
    let mut seen = HashMap::<String, usize>::new();
    while let Ok(Some((at, request))) = tokio::time::timeout(Duration::from_secs(5), arrivals.recv()).await {
        let headers = request.head.lines().filter_map(|line| line.split_once(": "));
        let headers = Received::from_pairs(headers.map(|(name, value)| (name, value.as_bytes()))).expect("headers");
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
        verifier.verify(headers, &request.body, now).expect("signed by the server");
        let id = request.header("webhook-id").to_owned();
        times.push(at - sent[&id]);
        *seen.entry(id).or_default() += 1;
    }
    times.sort_unstable();
    let once = seen.values().filter(|count| **count == 1).count();
    println!("{EVENTS} answers in {took:.1?}; {once} events received once, {} in all", times.len());
    println!(
        "from answer to notification: p50 {:?}, p99 {:?}, p99.9 {:?}, most {:?}",
        quantile(&times, 0.5),
        quantile(&times, 0.99),
        quantile(&times, 0.999),
        quantile(&times, 1.0)
    );
    assert_eq!((once, times.len()), (EVENTS, EVENTS), "every event once");
}
