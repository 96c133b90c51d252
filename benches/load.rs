//! Load on a server, by the same client for whichever server: connections that are kept, each with one request at a time,
//! the next sent when the answer to the one before is there.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The processor that the measured server has for itself; all that loads it has the other.
const SERVER_CORE: &str = "0";
const CLIENT_CORE: &str = "1";

/// A command whose process stays on the server's processor, and says nothing.
pub fn pinned(program: &str) -> tokio::process::Command {
    let mut command = tokio::process::Command::new("taskset");
    command.args(["-c", SERVER_CORE, program]).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command
}

/// Keeps this process, which has one thread yet, on the other processor.
pub fn pin_client() {
    let pid = std::process::id().to_string();
    let pinned =
        Command::new("taskset").args(["-p", "-c", CLIENT_CORE, &pid]).output().expect("taskset, of util-linux");
    assert!(pinned.status.success(), "two processors are needed");
}

/// Requests that differ in one place.
pub struct Load {
    /// What stands before that place, and behind it.
    pub around: [Vec<u8>; 2],
    /// What stands there in the request of a number, counted from 0; `None` ends the load.
    pub fill: Box<dyn Fn(usize) -> Option<String> + Send + Sync>,
    /// How long.
    pub time: Duration,
    /// Looks at the body of each answer, which is a 200.
    pub look: Box<dyn Fn(&str) + Send + Sync>,
}

/// What came of a load.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// From the first request to the last answer.
    pub took: Duration,
    /// Of each request, sorted.
    pub latencies: Vec<Duration>,
}

impl Load {
    /// Loads a server.
    pub async fn run(self, address: &str, connections: usize) -> Loaded {
        let (load, next, all) = (Arc::new(self), Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let mut streams = Vec::new();
        for _ in 0..connections {
            let stream = TcpStream::connect(address).await.expect("a server that listens");
            stream.set_nodelay(true).expect("a socket");
            streams.push(stream);
        }
        let (began, mut running) = (Instant::now(), JoinSet::new());
        for mut stream in streams {
            let (load, next, all) = (Arc::clone(&load), Arc::clone(&next), Arc::clone(&all));
            running.spawn(async move {
                let (mut request, mut answer, mut latencies) = (Vec::new(), Vec::new(), Vec::new());
                while began.elapsed() < load.time {
                    let Some(filling) = (load.fill)(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    request.clear();
                    for part in [&load.around[0], filling.as_bytes(), &load.around[1]] {
                        request.extend_from_slice(part);
                    }
                    let sent = Instant::now();
                    stream.write_all(&request).await.expect("taken");
                    let head = read(&mut stream, &mut answer).await;
                    latencies.push(sent.elapsed());
                    let (head, body) = str::from_utf8(&answer).expect("text").split_at(head);
                    assert!(head.starts_with("HTTP/1.1 200 "), "{head}{body}");
                    (load.look)(body);
                }
                all.lock().expect("whole").append(&mut latencies);
            });
        }
        // A client that waits asleep is woken by the server's send, at the server's cost, and a faster server pays less of it:
        // this one never sleeps.
        let awake = tokio::spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
        running.join_all().await;
        awake.abort();
        let took = began.elapsed();
        let mut latencies = std::mem::take(&mut *all.lock().expect("whole"));
        latencies.sort_unstable();
        Loaded { took, latencies }
    }
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Load")
    }
}

/// Reads one answer, and gives the length of its head.
async fn read(stream: &mut TcpStream, answer: &mut Vec<u8>) -> usize {
    answer.clear();
    loop {
        assert_ne!(stream.read_buf(answer).await.expect("readable"), 0, "an answer");
        let Some(head) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|at| at + 4) else { continue };
        let text = str::from_utf8(&answer[..head]).expect("text");
        let length = text.split_once("content-length: ").and_then(|(_, rest)| rest.split("\r\n").next());
        let length: usize = length.and_then(|length| length.parse().ok()).expect("a length");
        if answer.len() >= head + length {
            return head;
        }
    }
}

/// Stands in a request where others differ.
pub const PLACE: &str = "@@";

/// A request of HTTP/1.1, cut at its place. What goes into a body's place has so many bytes.
pub fn request(method: &str, path: &str, token: &str, body: &str, width: usize) -> [Vec<u8>; 2] {
    let content = match body.replace(PLACE, &"x".repeat(width)).len() {
        0 => String::new(),
        length => format!("content-type: application/json\r\ncontent-length: {length}\r\n"),
    };
    let credentials = if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
    let request = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{credentials}{content}\r\n{body}");
    let (before, behind) = request.split_once(PLACE).expect("a place");
    [before, behind].map(|part| part.as_bytes().to_vec())
}
