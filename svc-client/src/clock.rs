//! The clock (C40): the time of day, a count that never jumps, and waiting, all replaceable in tests.

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

/// The time as a [`Client`](crate::Client) knows it. Programs need no other than the system's; tests pass one that they
/// can move, such as svc-server's `fake` does.
pub trait Clock: Send + Sync + 'static {
    /// The time of day.
    fn now(&self) -> SystemTime;

    /// The time since some moment, which no adjustment of the time of day changes.
    fn elapsed(&self) -> Duration;

    /// Completes when [`elapsed`](Self::elapsed) has come to `at`: how deadlines are kept.
    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// The same for a wait between two attempts, in which nothing else happens: a test's clock may jump to its end.
    fn pause_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.sleep_until(at)
    }
}

/// The operating system's, with tokio's timers.
pub(crate) struct SystemClock(Instant);

impl SystemClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move { tokio::time::sleep(at.saturating_sub(self.elapsed())).await })
    }
}

/// What a future gives, if it gives it in time. One that need not wait costs no timer.
pub(crate) async fn by<T>(clock: &dyn Clock, deadline: Duration, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut passed) = (pin!(future), None);
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => passed.get_or_insert_with(|| clock.sleep_until(deadline)).as_mut().poll(cx).map(|()| None),
    })
    .await
}
