//! Where the server touches the world: the clock and the operating system's random numbers, each replaceable in tests.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};

/// The wall clock (C40).
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>);

impl Clock {
    /// The operating system's.
    pub fn system() -> Self {
        Self::from_fn(Utc::now)
    }

    /// Any other.
    ///
    /// ```
    /// let clock = svc_server::Clock::from_fn(|| chrono::DateTime::UNIX_EPOCH);
    /// assert_eq!(clock.now().timestamp(), 0);
    /// ```
    pub fn from_fn(now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The time.
    pub fn now(&self) -> DateTime<Utc> {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
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
        Self(Arc::new(|bytes| getrandom::fill(bytes).map_err(|_| NoRandomness)))
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

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}
