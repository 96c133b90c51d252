//! Where the server touches the world: clock, names, connections, random numbers, each replaceable in tests.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use zeroize::Zeroize;

/// The clock (C40): the time of day for what is written down, and one that never jumps for what is waited for.
#[derive(Clone)]
pub struct Clock {
    wall: Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>,
    monotonic: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl Clock {
    /// The operating system's two.
    pub fn system() -> Self {
        let start = Instant::now();
        Self { wall: Arc::new(Utc::now), monotonic: Arc::new(move || start.elapsed()) }
    }

    /// Another time of day, by which waits are measured too: for tests, whose clock moves forwards.
    ///
    /// ```
    /// let clock = svc_server::Clock::from_fn(|| chrono::DateTime::UNIX_EPOCH);
    /// assert_eq!(clock.now().timestamp(), 0);
    /// ```
    pub fn from_fn(now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        let (wall, start) = (Arc::new(now), OnceLock::new());
        let other = Arc::clone(&wall);
        let monotonic = move || {
            let now = other();
            now.signed_duration_since(*start.get_or_init(|| now)).to_std().unwrap_or_default()
        };
        Self { wall, monotonic: Arc::new(monotonic) }
    }

    /// Both of them apart, as clocks of simulated servers are.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn simulated(
        wall: impl Fn() -> DateTime<Utc> + Send + Sync + 'static,
        monotonic: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        Self { wall: Arc::new(wall), monotonic: Arc::new(monotonic) }
    }

    /// The time of day.
    pub fn now(&self) -> DateTime<Utc> {
        (self.wall)()
    }

    /// The time since some moment, which no adjustment of the clock changes.
    pub fn monotonic(&self) -> Duration {
        (self.monotonic)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// How the names in webhook URLs are resolved (C31).
#[derive(Clone)]
pub struct Resolver(Arc<Resolve>);

type Resolve = dyn Fn(String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> + Send + Sync;

impl Resolver {
    /// The operating system's.
    pub fn system() -> Self {
        Self::from_fn(|name| async move { Ok(lookup_host((name, 0)).await?.map(|found| found.ip()).collect()) })
    }

    /// Any other; the addresses that it gives are vetted like all others.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let resolver = svc_server::Resolver::from_fn(|_| async { Ok(vec!["192.0.2.1".parse().unwrap()]) });
    /// assert_eq!(resolver.resolve("example.com").await.unwrap().len(), 1);
    /// # });
    /// ```
    pub fn from_fn<F>(resolve: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        Self(Arc::new(move |name| Box::pin(resolve(name))))
    }

    /// The addresses of a name.
    ///
    /// # Errors
    ///
    /// Whatever the resolver says.
    pub async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        (self.0)(name.to_owned()).await
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

/// How connections to receivers are made (C31). The address was vetted before.
#[derive(Clone)]
pub struct Transport(Arc<Connect>);

type Connect = dyn Fn(SocketAddr) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>> + Send + Sync;

/// A connection: what can be read, written, and sent between threads.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Transport {
    /// The operating system's TCP.
    pub fn system() -> Self {
        Self::from_fn(|address| async move {
            let stream = TcpStream::connect(address).await?;
            // A request is written whole; waiting for more to send would only delay it.
            stream.set_nodelay(true)?;
            Ok(stream)
        })
    }

    /// Any other, for tests that count connections, or play the receiver in memory.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let transport = svc_server::Transport::from_fn(|_| async { Ok(tokio::io::duplex(64).0) });
    /// assert!(transport.connect("192.0.2.1:443".parse().unwrap()).await.is_ok());
    /// # });
    /// ```
    pub fn from_fn<F, S>(connect: impl Fn(SocketAddr) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: Stream + 'static,
    {
        Self(Arc::new(move |address| {
            let connecting = connect(address);
            Box::pin(async move { Ok(Box::new(connecting.await?) as Box<dyn Stream>) })
        }))
    }

    /// A connection to this address.
    ///
    /// # Errors
    ///
    /// Whatever the transport says.
    pub async fn connect(&self, address: SocketAddr) -> io::Result<Box<dyn Stream>> {
        (self.0)(address).await
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transport")
    }
}

/// The source of ids and jitter.
#[derive(Clone)]
pub struct Random(Arc<Fill>);

type Fill = dyn Fn(&mut [u8]) -> Result<(), NoRandomness> + Send + Sync;

/// The operating system gave no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no random numbers from the operating system")]
pub struct NoRandomness;

impl Random {
    /// The operating system's (C8).
    pub fn system() -> Self {
        let drawn = Mutex::new(Drawn { bytes: [0; DRAWN], used: DRAWN });
        // What is left after a panic is as random as before.
        Self(Arc::new(move |bytes| drawn.lock().unwrap_or_else(PoisonError::into_inner).fill(bytes)))
    }

    /// Any other, for tests that must know the ids.
    ///
    /// ```
    /// let random = svc_server::Random::from_fn(|bytes| bytes.fill(7));
    /// assert_eq!(random.bytes(), Ok([7; 4]));
    /// ```
    pub fn from_fn(fill: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |bytes| {
            fill(bytes);
            Ok(())
        }))
    }

    /// Fresh random bytes.
    pub fn bytes<const N: usize>(&self) -> Result<[u8; N], NoRandomness> {
        let mut bytes = [0; N];
        (self.0)(&mut bytes)?;
        Ok(bytes)
    }
}

/// So much is asked of the operating system at a time.
const DRAWN: usize = 1_024;

/// Random bytes in advance, since a call of the system for each id and each jitter costs a small request more than the rest of
/// them. A machine that is copied while it runs has them twice; whoever does that starts its servers anew.
struct Drawn {
    bytes: [u8; DRAWN],
    used: usize,
}

impl Drawn {
    fn fill(&mut self, into: &mut [u8]) -> Result<(), NoRandomness> {
        for part in into.chunks_mut(DRAWN) {
            if self.used + part.len() > DRAWN {
                self.used = DRAWN;
                getrandom::fill(&mut self.bytes).map_err(|_| NoRandomness)?;
                self.used = 0;
            }
            let fresh = &mut self.bytes[self.used..self.used + part.len()];
            part.copy_from_slice(fresh);
            // Nobody finds later what was given away: keys are drawn too.
            fresh.zeroize();
            self.used += part.len();
        }
        Ok(())
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn what_is_drawn_in_advance_is_given_once_and_then_gone() {
        let random = Random::system();
        let all: HashSet<[u8; 16]> = (0..1_000).map(|_| random.bytes().unwrap()).collect();
        assert_eq!(all.len(), 1_000);
        let mut drawn = Drawn { bytes: [0; DRAWN], used: DRAWN };
        let mut long = [0; 3 * DRAWN + 1];
        drawn.fill(&mut long).unwrap();
        drawn.fill(&mut [0; 40]).unwrap();
        assert_eq!(long.chunks(64).map(<[u8]>::to_vec).collect::<HashSet<_>>().len(), long.chunks(64).count());
        assert!(drawn.bytes[..drawn.used].iter().all(|byte| *byte == 0));
        assert!(drawn.bytes[drawn.used..].iter().any(|byte| *byte != 0));
    }
}
