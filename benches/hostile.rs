//! What hostile clients cost: 10,000 connections that say nothing and 1,000 slow ones, and how the others fare meanwhile.
//!
//! `cargo build --release && cargo run --release -p svc-benches --bin hostile -- target/release/svc-server`
//!
//! The server runs in a process of its own, so that its memory is its own.

use std::time::{Duration, Instant};

use svc_benches::process::{highest, resident};
use svc_benches::{quantile, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const IDLE: usize = 10_000;
const SLOW_OF_EACH_KIND: usize = 334;
const REQUESTS: usize = 5_000;
/// Leaves time to measure before the first deadlines, at 20 s.
const SETTLE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() {
    rlimit::increase_nofile_limit(20_000).expect("files for 11,000 connections");
    let (server, address) = start(&["--max-connections", "16384"]).await;

    let quiet = latencies(&address).await;
    println!(
        "quiet:  median {:?}, p99 {:?}, memory {} MiB",
        quantile(&quiet, 0.5),
        quantile(&quiet, 0.99),
        resident(&server) >> 20
    );

    let mut idle = JoinSet::new();
    for _ in 0..IDLE {
        let stream = TcpStream::connect(&address).await.expect("room for an idle connection");
        idle.spawn(until_closed(stream));
    }
    let mut slow = JoinSet::new();
    for _ in 0..SLOW_OF_EACH_KIND {
        slow.spawn(drip(address.clone(), "headers", "GET /saude HTTP/1.1\r\n"));
        slow.spawn(drip(address.clone(), "body", "POST /v1/login HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n"));
        slow.spawn(never_read(address.clone()));
    }
    // Until the readers' buffers are full they ask as fast as they can, which is load and not what is measured here.
    tokio::time::sleep(SETTLE).await;
    let loaded = latencies(&address).await;
    println!(
        "loaded: median {:?}, p99 {:?}, memory {} MiB",
        quantile(&loaded, 0.5),
        quantile(&loaded, 0.99),
        resident(&server) >> 20
    );

    let idle = seconds(idle.join_all().await);
    println!("idle connections closed after {} to {} s", idle[0], idle[idle.len() - 1]);
    let slow = slow.join_all().await;
    for kind in ["headers", "body", "reader"] {
        let times = seconds(slow.iter().filter(|(name, _)| *name == kind).map(|(_, time)| *time).collect());
        println!("slow {kind}: {} closed after {} to {} s", times.len(), times[0], times[times.len() - 1]);
    }
    println!(
        "memory at its highest {} MiB; p99 {:.2} times its quiet value",
        highest(&server) >> 20,
        ratio(&loaded, &quiet)
    );
}

/// One request after another on one connection.
async fn latencies(address: &str) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).await.expect("a connection for the healthy client");
    let mut times = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let began = Instant::now();
        stream.write_all(b"GET /saude HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("taken");
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            let mut part = [0; 1024];
            let read = stream.read(&mut part).await.expect("answered");
            assert_ne!(read, 0, "closed");
            answer.extend_from_slice(&part[..read]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        times.push(began.elapsed());
        // A person's pace, so that the measuring is not itself the load.
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    times.sort_unstable();
    times
}

async fn until_closed(mut stream: TcpStream) -> Duration {
    let began = Instant::now();
    let _ = stream.read_to_end(&mut Vec::new()).await;
    began.elapsed()
}

/// Sends the beginning of a request, then a byte a second.
async fn drip(address: String, kind: &'static str, head: &'static str) -> (&'static str, Duration) {
    let mut stream = TcpStream::connect(address).await.expect("room for a slow connection");
    let began = Instant::now();
    stream.write_all(head.as_bytes()).await.expect("taken");
    let mut part = [0; 1024];
    loop {
        match tokio::time::timeout(Duration::from_secs(1), stream.read(&mut part)).await {
            Ok(Ok(0) | Err(_)) => return (kind, began.elapsed()),
            Ok(Ok(_)) => {}
            Err(_) if stream.write_all(b"x").await.is_err() => return (kind, began.elapsed()),
            Err(_) => {}
        }
    }
}

/// Asks again and again, and takes no answer.
async fn never_read(address: String) -> (&'static str, Duration) {
    let mut stream = TcpStream::connect(address).await.expect("room for a slow connection");
    let request = b"GET /openapi.yaml HTTP/1.1\r\nhost: x\r\n\r\n";
    let began = Instant::now();
    loop {
        if let Ok(Err(_)) = tokio::time::timeout(Duration::from_secs(1), stream.write_all(request)).await {
            return ("reader", began.elapsed());
        }
    }
}

fn ratio(loaded: &[Duration], quiet: &[Duration]) -> f64 {
    quantile(loaded, 0.99).as_secs_f64() / quantile(quiet, 0.99).as_secs_f64()
}

fn seconds(times: Vec<Duration>) -> Vec<u64> {
    let mut times: Vec<_> = times.iter().map(Duration::as_secs).collect();
    times.sort_unstable();
    times
}
