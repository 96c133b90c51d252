//! A network in memory, where names, connections and time are a test's own: nothing leaves the process, and time stands
//! still until everybody waits for it.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use chrono::{DateTime, TimeDelta, Utc};
use svc_core::Policy;
use svc_server::{Clock, Config, Resolver, Transport};
use tokio::io::{AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::harness::{Received, read_request};

/// What happens to a connection.
#[derive(Clone)]
pub(crate) enum Peer {
    /// Each request is answered with this status line and its headers.
    Answers(String),
    /// Accepts, and never says anything.
    Mute,
    /// Is not there.
    Refuses,
    /// Neither accepts nor refuses.
    Silent,
    /// Is handed to the test.
    Hands(UnboundedSender<DuplexStream>),
}

impl Peer {
    pub(crate) fn answers(line: &str) -> Self {
        Self::Answers(line.to_owned())
    }
}

/// What a receiver in memory got, and when.
pub(crate) struct Arrived {
    pub(crate) at: Instant,
    pub(crate) request: Received,
}

pub(crate) struct Network {
    connections: Arc<Mutex<Vec<SocketAddr>>>,
    names: Arc<Mutex<HashMap<String, Vec<IpAddr>>>>,
    transport: Transport,
    arrivals: UnboundedReceiver<Arrived>,
}

impl Network {
    /// Peers by address, and by how many connections there were before.
    pub(crate) fn new(peer: impl Fn(SocketAddr, usize) -> Peer + Send + Sync + 'static) -> Self {
        let (connections, (tell, arrivals)) = (Arc::new(Mutex::new(Vec::new())), unbounded_channel());
        let log = Arc::clone(&connections);
        let transport = Transport::from_fn(move |address| {
            let before = {
                let mut log = log.lock().unwrap();
                log.push(address);
                log.len() - 1
            };
            let peer = peer(address, before);
            let silent = matches!(peer, Peer::Silent);
            let connected = connect(peer, tell.clone());
            async move {
                if silent {
                    std::future::pending::<()>().await;
                }
                connected
            }
        });
        Self { connections, names: Arc::default(), transport, arrivals }
    }

    /// Gives a name its addresses. Other names have none, and those that begin with `mudo` are never answered for.
    pub(crate) fn name(self, name: &str, addresses: &[&str]) -> Self {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.names.lock().unwrap().insert(name.to_owned(), addresses);
        self
    }

    /// Puts a server into this network and its time, with the address ranges closed as for the world.
    pub(crate) fn hold(&self, config: &mut Config) {
        config.policy = Policy::default();
        config.clock = virtual_clock();
        config.transport = self.transport.clone();
        let names = Arc::clone(&self.names);
        config.resolver = Resolver::from_fn(move |name| {
            let found = names.lock().unwrap().get(&name).cloned();
            async move {
                if name.starts_with("mudo") {
                    std::future::pending::<()>().await;
                }
                found.ok_or_else(|| io::Error::other("no such name"))
            }
        });
    }

    /// Every address that was connected to.
    pub(crate) fn connections(&self) -> Vec<SocketAddr> {
        self.connections.lock().unwrap().clone()
    }

    pub(crate) async fn next(&mut self) -> Arrived {
        self.arrivals.recv().await.unwrap()
    }

    /// What has arrived by now.
    pub(crate) fn arrived(&mut self) -> Vec<Arrived> {
        std::iter::from_fn(|| self.arrivals.try_recv().ok()).collect()
    }
}

fn connect(peer: Peer, tell: UnboundedSender<Arrived>) -> io::Result<DuplexStream> {
    let (ours, theirs) = tokio::io::duplex(16 * 1024);
    match peer {
        Peer::Refuses | Peer::Silent => return Err(io::ErrorKind::ConnectionRefused.into()),
        Peer::Hands(hand) => hand.send(theirs).unwrap(),
        Peer::Mute => {
            tokio::spawn(async move {
                // Held open without a word for as long as the other side wants.
                let mut theirs = theirs;
                let _ = tokio::io::copy(&mut theirs, &mut tokio::io::sink()).await;
            });
        }
        Peer::Answers(line) => {
            tokio::spawn(async move {
                let mut stream = BufReader::new(theirs);
                while let Some(request) = read_request(&mut stream).await {
                    let _ = tell.send(Arrived { at: Instant::now(), request });
                    let answer = format!("{line}\r\ncontent-length: 0\r\n\r\n");
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    }
    Ok(ours)
}

/// The runtime's time as a clock, so that timers and the schedule agree.
pub(crate) fn virtual_clock() -> Clock {
    let (start, base): (Instant, DateTime<Utc>) = (Instant::now(), "2026-11-27T20:31:44.123Z".parse().unwrap());
    Clock::from_fn(move || base + TimeDelta::from_std(start.elapsed()).unwrap())
}

/// Lets time jump from one thing that is waited for to the next, until `seconds` are over; outside of it, time is real.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
    tokio::time::resume();
}
