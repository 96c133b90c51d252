//! The same notification more than once: the service sends until it hears a 2xx, so each can come again.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// 4 days: how long a [`MemoryDeduper`] remembers. The schedule in production ends after 84 hours at most, unless a receiver asks
/// for longer waits.
pub const REMEMBERED: Duration = Duration::from_secs(4 * 24 * 60 * 60);
/// 60 s: how long a claim lasts that nobody finishes, as when its handler was dropped. The service waits 15 seconds for an answer.
pub const CLAIM: Duration = Duration::from_secs(60);

/// What a receiver has to do with a notification that it believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Work it off, then say [`done`](Deduper::done) and answer 2xx. If that fails, [`release`](Deduper::release) it and
    /// answer 503.
    New,
    /// It is being worked off, by another request: answer 503. That one may still fail, and a 2xx would end the repetitions.
    InProgress,
    /// It was worked off: answer 2xx.
    Done,
}

/// Remembers which events were worked off, and which are being.
///
/// A receiver with a database is better off without this: a unique index over
/// [`dedup_key`](crate::webhook::Notificacao::dedup_key), and one transaction with the work itself, leave no moment between
/// the two.
pub trait Deduper: Send + Sync {
    /// Why it could not be remembered. Answer 503: the service comes again.
    type Error;

    /// Claims an event for [`CLAIM`].
    fn claim(&self, key: &str, now: SystemTime) -> impl Future<Output = Result<Claim, Self::Error>> + Send;

    /// It was worked off.
    fn done(&self, key: &str, now: SystemTime) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// It could not be worked off: the next attempt may.
    fn release(&self, key: &str) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// A [`Deduper`] for one process. Clones are one and the same. What it knows ends with the process.
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// use std::time::SystemTime;
/// use svc_client::webhook::{CLAIM, Claim, Deduper, MemoryDeduper, REMEMBERED};
///
/// let (deduper, now) = (MemoryDeduper::new(), SystemTime::now());
/// assert_eq!(deduper.claim("evt_1", now).await, Ok(Claim::New));
/// assert_eq!(deduper.claim("evt_1", now).await, Ok(Claim::InProgress)); // the work is not done yet
/// deduper.release("evt_1").await.unwrap(); // it failed
/// assert_eq!(deduper.claim("evt_1", now).await, Ok(Claim::New));
/// deduper.done("evt_1", now).await.unwrap();
/// assert_eq!(deduper.claim("evt_1", now).await, Ok(Claim::Done)); // a repetition
/// assert_eq!(deduper.claim("evt_1", now + REMEMBERED).await, Ok(Claim::New)); // forgotten
/// assert_eq!(deduper.claim("evt_1", now + REMEMBERED + CLAIM).await, Ok(Claim::New)); // left lying
/// # });
/// ```
#[derive(Clone, Default)]
pub struct MemoryDeduper(Arc<Mutex<Events>>);

#[derive(Default)]
struct Events {
    known: HashMap<Arc<str>, (SystemTime, bool)>,
    /// The same by their times, to be forgotten from the front.
    by_time: BTreeSet<(SystemTime, Arc<str>)>,
}

impl MemoryDeduper {
    /// Remembers nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events it remembers.
    pub fn len(&self) -> usize {
        self.lock().known.len()
    }

    /// Whether it remembers none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Events> {
        // Whatever of a critical section was done, at worst an event is remembered without a time to forget it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Events {
    /// A clock that went back forgets later, never earlier.
    fn forget(&mut self, now: SystemTime) {
        while let Some((at, key)) = self.by_time.first().filter(|(at, _)| is_past(*at, REMEMBERED, now)).cloned() {
            self.by_time.remove(&(at, Arc::clone(&key)));
            self.known.remove(&key);
        }
    }

    fn set(&mut self, key: &str, at: SystemTime, done: bool) {
        self.remove(key);
        let key: Arc<str> = key.into();
        self.known.insert(Arc::clone(&key), (at, done));
        self.by_time.insert((at, key));
    }

    fn remove(&mut self, key: &str) {
        if let Some((key, (at, _))) = self.known.remove_entry(key) {
            self.by_time.remove(&(at, key));
        }
    }
}

fn is_past(at: SystemTime, time: Duration, now: SystemTime) -> bool {
    now.duration_since(at).is_ok_and(|age| age >= time)
}

impl Deduper for MemoryDeduper {
    type Error = Infallible;

    async fn claim(&self, key: &str, now: SystemTime) -> Result<Claim, Infallible> {
        let mut events = self.lock();
        events.forget(now);
        match events.known.get(key) {
            Some((_, true)) => Ok(Claim::Done),
            Some((at, false)) if !is_past(*at, CLAIM, now) => Ok(Claim::InProgress),
            Some(_) | None => {
                events.set(key, now, false);
                Ok(Claim::New)
            }
        }
    }

    async fn done(&self, key: &str, now: SystemTime) -> Result<(), Infallible> {
        self.lock().set(key, now, true);
        Ok(())
    }

    async fn release(&self, key: &str) -> Result<(), Infallible> {
        let mut events = self.lock();
        // What was done meanwhile stays done.
        if events.known.get(key).is_some_and(|(_, done)| !done) {
            events.remove(key);
        }
        Ok(())
    }
}

impl fmt::Debug for MemoryDeduper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryDeduper").field("events", &self.len()).finish()
    }
}
