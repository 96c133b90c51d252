//! The same notification more than once: the service sends until it hears a 2xx, so each can come again.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// How long a [`MemoryDeduper`] remembers. The schedule in production ends after 84 hours at most, unless a receiver asks
/// for longer waits.
pub const REMEMBERED: Duration = Duration::from_secs(4 * 24 * 60 * 60);

/// Remembers which events were worked off.
///
/// Claim an event when its notification is believed and before it is worked off; let go of it if that fails, so that the
/// next attempt is worked off instead. Answer a repetition with 2xx.
///
/// A receiver with a database is better off without this: a unique index over
/// [`dedup_key`](crate::webhook::Notificacao::dedup_key) and one transaction with the work itself leave no moment between
/// the two.
pub trait Deduper: Send + Sync {
    /// Why it could not be remembered. Answer 503: the service comes again.
    type Error;

    /// Claims an event; `false` for one that was claimed before.
    fn claim(&self, key: &str, now: SystemTime) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Lets go of an event that could not be worked off.
    fn release(&self, key: &str) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// A [`Deduper`] for one process. Clones are one and the same. What it knows ends with the process.
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// use std::time::SystemTime;
/// use svc_client::webhook::{Deduper, MemoryDeduper, REMEMBERED};
///
/// let (deduper, now) = (MemoryDeduper::new(), SystemTime::now());
/// assert_eq!(deduper.claim("evt_1", now).await, Ok(true));
/// assert_eq!(deduper.claim("evt_1", now).await, Ok(false)); // a repetition
/// deduper.release("evt_1").await.unwrap(); // the work failed
/// assert_eq!(deduper.claim("evt_1", now).await, Ok(true));
/// assert_eq!(deduper.claim("evt_1", now + REMEMBERED).await, Ok(true)); // forgotten
/// # });
/// ```
#[derive(Clone, Default)]
pub struct MemoryDeduper(Arc<Mutex<Claims>>);

#[derive(Default)]
struct Claims {
    at: HashMap<Arc<str>, SystemTime>,
    /// The same in the order of their times, to be forgotten from the front.
    order: VecDeque<(Arc<str>, SystemTime)>,
}

impl MemoryDeduper {
    /// Remembers nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events it remembers.
    pub fn len(&self) -> usize {
        self.lock().at.len()
    }

    /// Whether it remembers none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Claims> {
        // Whatever of a critical section was done, at worst an event is remembered without a time to forget it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claims {
    /// A clock that went back forgets later, never earlier.
    fn forget(&mut self, now: SystemTime) {
        let is_old = |at: SystemTime| now.duration_since(at).is_ok_and(|age| age >= REMEMBERED);
        while self.order.front().is_some_and(|(_, at)| is_old(*at)) {
            let Some((key, at)) = self.order.pop_front() else { return };
            // Released and claimed again since, it has a later time.
            if self.at.get(&key) == Some(&at) {
                self.at.remove(&key);
            }
        }
    }
}

impl Deduper for MemoryDeduper {
    type Error = Infallible;

    async fn claim(&self, key: &str, now: SystemTime) -> Result<bool, Infallible> {
        let mut claims = self.lock();
        claims.forget(now);
        if claims.at.contains_key(key) {
            return Ok(false);
        }
        let key: Arc<str> = key.into();
        claims.at.insert(Arc::clone(&key), now);
        claims.order.push_back((key, now));
        Ok(true)
    }

    async fn release(&self, key: &str) -> Result<(), Infallible> {
        self.lock().at.remove(key);
        Ok(())
    }
}

impl fmt::Debug for MemoryDeduper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryDeduper").field("events", &self.len()).finish()
    }
}
