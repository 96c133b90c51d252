//! A clock that runs with this machine's, and can be put forward.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

/// The time of a [`Fake`](super::Fake). Clones are one and the same.
#[derive(Clone, Debug)]
pub struct FakeClock {
    began: Instant,
    began_at: SystemTime,
    /// How far it is ahead of this machine's.
    ahead: Arc<watch::Sender<Duration>>,
}

impl FakeClock {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), began_at: SystemTime::now(), ahead: Arc::new(watch::channel(Duration::ZERO).0) }
    }

    /// The time of day.
    pub fn now(&self) -> SystemTime {
        self.began_at + self.elapsed()
    }

    /// How far it has been put forward.
    pub fn ahead(&self) -> Duration {
        *self.ahead.borrow()
    }

    /// Puts it forward, by a century in all at most.
    pub fn advance(&self, time: Duration) {
        self.ahead.send_modify(|ahead| *ahead = ahead.saturating_add(time).min(CENTURY));
    }

    /// Puts it forward to a time, if that is still to come.
    fn advance_to(&self, at: Duration) {
        self.advance(at.saturating_sub(self.elapsed()));
    }

    /// Sees when it is put forward.
    pub(crate) fn moved(&self) -> watch::Receiver<Duration> {
        self.ahead.subscribe()
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed() + self.ahead()
    }
}

const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

impl svc_client::Clock for FakeClock {
    fn now(&self) -> SystemTime {
        self.now()
    }

    fn elapsed(&self) -> Duration {
        self.elapsed()
    }

    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let mut moved = self.moved();
            loop {
                let left = at.saturating_sub(self.elapsed());
                if left.is_zero() {
                    return;
                }
                tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    // The sender lives in this clock.
                    _ = moved.changed() => {}
                }
            }
        })
    }

    fn pause_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            // Whoever begins a wait in the same moment begins it before the jump, so that one does not add to another.
            tokio::time::sleep(Duration::from_millis(1)).await;
            self.advance_to(at);
        })
    }
}
