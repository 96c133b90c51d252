//! Work that nobody who waits for it can cut short: done at once as far as it goes, and from there on in a task of its own.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;

use crate::reply::Problem;

/// Runs a change of state to its end, whether or not anybody waits for it. A store in memory lets it wait nowhere.
pub(crate) fn detached<T: Send + 'static>(
    change: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> impl Future<Output = Result<T, Problem>> + Send {
    // Here, and not in the future: that would have room for it, and be copied with it.
    let mut change = Box::pin(change);
    async move {
        let begun = poll_once(pin!(caught(change.as_mut()))).await;
        let ended = match begun {
            Poll::Ready(Ok(done)) => return done,
            Poll::Ready(Err(Panicked)) => Err(true),
            Poll::Pending => tokio::spawn(change).await.map_err(|error| error.is_panic()),
        };
        ended.unwrap_or_else(|panicked| {
            // What a panic says may hold what no log does (C39).
            tracing::error!(panicked, "a change of state did not end");
            Err(Problem::Internal)
        })
    }
}

/// Does work as far as it goes without waiting. What is pending then is to be given to a task, which looks again.
pub(crate) async fn poll_once<F: Future>(mut work: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await
}

/// Work whose panic ends it and nothing else.
pub(crate) async fn caught<F: Future>(mut work: Pin<&mut F>) -> Result<F::Output, Panicked> {
    poll_fn(|context| {
        // Locks of ours recover from a panic, and the work is not looked at again.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.map_or(Poll::Ready(Err(Panicked)), |polled| polled.map(Ok))
    })
    .await
}

/// It ends no more than a task that panics would.
#[derive(Debug)]
pub(crate) struct Panicked;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn what_waits_goes_on_when_its_caller_has_gone() {
        let (go, gone_on) = (Arc::new(Notify::new()), Arc::new((AtomicBool::new(false), Notify::new())));
        let (waits, tells) = (Arc::clone(&go), Arc::clone(&gone_on));
        let mut caller = Box::pin(detached(async move {
            waits.notified().await;
            tells.0.store(true, Ordering::Relaxed);
            tells.1.notify_one();
            Ok(())
        }));
        assert!(poll_once(caller.as_mut()).await.is_pending());
        drop(caller);
        assert!(!gone_on.0.load(Ordering::Relaxed));
        go.notify_one();
        gone_on.1.notified().await;
        assert!(gone_on.0.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn a_panic_before_and_after_the_first_wait_is_a_fault_of_ours_and_ends_nobody_else() {
        let at_once = detached::<()>(async { panic!("at once") }).await;
        let later = detached::<()>(async {
            tokio::task::yield_now().await;
            panic!("later")
        });
        assert!(matches!((at_once, later.await), (Err(Problem::Internal), Err(Problem::Internal))));
        assert!(matches!(detached(async { Ok(7) }).await, Ok(7)));
    }
}
