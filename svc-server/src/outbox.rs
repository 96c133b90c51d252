//! The loop that works off what a store keeps until it is due: lease, attempt, record.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::bounds::{Bounds, Limits, Permit};
use crate::detached::{caught, poll_once};
use crate::store::StoreError;

/// How often to look although nobody rang.
const POLL: Duration = Duration::from_secs(1);

/// So long do places that become free one after the other gather for one look at a store that others share.
const REST: Duration = Duration::from_millis(1);

/// One kind of work.
pub(crate) trait Work: Send + Sync + 'static {
    /// What is stored and attempted.
    type Task: Send + 'static;
    /// Its name in logs.
    const NAME: &str;
    /// How much of it is under way at a time.
    const LIMITS: Limits;

    /// Rings when something has become due.
    fn wake(&self) -> &Notify;

    /// Whether other servers work off the same.
    fn is_shared(&self) -> bool;

    /// Hands out what is due, as far as there is room, and no more than `most`.
    fn lease(
        &self,
        bounds: &Bounds,
        most: usize,
    ) -> impl Future<Output = Result<Leased<Self::Task>, StoreError>> + Send;

    /// One attempt from its lease to its record. Its place is free again when nobody is called on any more; whoever has
    /// something else to wait for afterwards rings, so that others look for what had found no place.
    fn attempt(&self, lease: Lease<Self::Task>) -> impl Future<Output = ()> + Send;
}

/// What a store hands out, and when it is to be asked again if nothing happens before.
#[derive(Debug)]
pub(crate) struct Leased<T> {
    pub(crate) leases: Vec<Lease<T>>,
    pub(crate) next: Option<Duration>,
}

/// A due task, given to one worker. Whoever holds an older number than the row's has lost it.
#[derive(Debug)]
pub(crate) struct Lease<T> {
    pub(crate) task: T,
    pub(crate) fence: u64,
    pub(crate) permit: Permit,
}

/// The task that does one kind of work.
pub(crate) struct Outbox<W> {
    work: Arc<W>,
    bounds: Bounds,
    attempts: JoinSet<Result<Option<Duration>, StoreError>>,
}

impl<W: Work> Outbox<W> {
    pub(crate) fn new(work: W) -> Self {
        Self { work: Arc::new(work), bounds: Bounds::new(W::LIMITS), attempts: JoinSet::new() }
    }

    /// Works until told to stop; then attempts what is due and waits for what is under way, until `stop` gives a time.
    pub(crate) async fn run(mut self, stop: impl Future<Output = Instant>) {
        let mut stop = pin!(stop);
        let deadline = loop {
            let next = self.step().await;
            let begun = self.bounds.taken();
            let wait = match next {
                Ok(next) => next.unwrap_or(POLL).clamp(Duration::from_millis(1), POLL),
                Err(error) => {
                    tracing::warn!(work = W::NAME, %error, "waits for the store");
                    POLL
                }
            };
            tokio::select! {
                // In this order, not in a drawn one: a simulation is to be repeated from its seed.
                biased;
                deadline = &mut stop => break deadline,
                () = self.work.wake().notified() => {}
                () = tokio::time::sleep(wait) => {}
                () = self.bounds.freed() => {}
            }
            if self.work.is_shared() {
                // Most of what was begun together ends together.
                let _ = tokio::time::timeout(REST, async {
                    while self.bounds.taken() > begun / 4 {
                        self.bounds.freed().await;
                    }
                })
                .await;
            }
        };
        let drained = tokio::time::timeout_at(deadline.into(), async {
            // What the last requests made is begun; in a store that lasts once, for there may be no other server, and the rest
            // is left to the next. When the store is away nothing is begun any more, and what is under way still ends.
            let mut begins = true;
            let mut next = Ok(None);
            loop {
                if begins {
                    next = self.step().await;
                    begins = next.is_ok() && !self.work.is_shared();
                }
                tokio::select! {
                    biased;
                    ended = self.attempts.join_next() => if ended.is_none() { break next },
                    () = self.work.wake().notified(), if begins => {}
                }
            }
        });
        let drained = drained.await;
        if !self.work.is_shared() && !matches!(drained, Ok(Ok(None))) || !self.attempts.is_empty() {
            tracing::warn!(work = W::NAME, cut_off = self.attempts.len(), "some of it is not done at the end");
        }
    }

    /// Begins all that is due and has room. Gives the time until more is due.
    async fn step(&mut self) -> Result<Option<Duration>, StoreError> {
        while self.attempts.try_join_next().is_some() {}
        let Leased { leases, mut next } = self.work.lease(&self.bounds, usize::MAX).await?;
        for lease in leases {
            let mut attempts = Box::pin(work_off(Arc::clone(&self.work), self.bounds.clone(), lease, next));
            // What does not wait, such as a line that is printed, needs no task.
            match poll_once(attempts.as_mut()).await {
                Poll::Ready(seen) => next = seen?,
                Poll::Pending => drop(self.attempts.spawn(attempts)),
            }
        }
        Ok(next)
    }
}

/// Attempts what was leased, and then in its place what is due next, until nothing is. Gives the time until more is, which
/// was `next`.
async fn work_off<W: Work>(
    work: Arc<W>,
    bounds: Bounds,
    mut lease: Lease<W::Task>,
    next: Option<Duration>,
) -> Result<Option<Duration>, StoreError> {
    if work.is_shared() {
        // The next are looked for together.
        lease.permit.ring_when_free();
        let _ = caught(pin!(work.attempt(lease))).await;
        return Ok(next);
    }
    loop {
        // An attempt that panics ends no other.
        let _ = caught(pin!(work.attempt(lease))).await;
        // However much is due, requests come between.
        tokio::task::coop::consume_budget().await;
        let mut looked = work.lease(&bounds, 1).await?;
        if looked.next == Some(Duration::ZERO) {
            work.wake().notify_one();
        }
        match looked.leases.pop() {
            Some(due) => lease = due,
            None => return Ok(looked.next),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::partners::{DEMO_CLIENT_ID, Partners};

    /// So many tasks, due at once.
    struct Pile {
        partners: Partners,
        left: Mutex<usize>,
        done: Mutex<Vec<usize>>,
        wake: Notify,
        /// Whether every tenth has to wait.
        waits: bool,
        /// How long each waits for something else when its place is free again.
        afterwards: Duration,
    }

    impl Pile {
        fn of(left: usize, waits: bool, afterwards: Duration) -> Arc<Self> {
            let (partners, left, wake) = (Partners::demonstration(), Mutex::new(left), Notify::new());
            Arc::new(Self { partners, left, done: Mutex::default(), wake, waits, afterwards })
        }

        /// Works it off; gives what was done, how long it took, and how often something else had its turn.
        async fn work_off(self: Arc<Self>, stop_at_once: bool) -> (Vec<usize>, Duration, usize) {
            let (pile, began, mut turns) = (Arc::clone(&self), tokio::time::Instant::now(), 0);
            let stop = async {
                while !stop_at_once && *pile.left.lock().unwrap() > 0 {
                    turns += 1;
                    tokio::task::yield_now().await;
                }
                Instant::now() + Duration::from_secs(60)
            };
            Outbox::new(Arc::clone(&self)).run(stop).await;
            let mut done = std::mem::take(&mut *self.done.lock().unwrap());
            done.sort_unstable();
            (done, began.elapsed(), turns)
        }
    }

    impl Work for Arc<Pile> {
        type Task = usize;
        const NAME: &str = "pile";
        const LIMITS: Limits = Limits { total: 8, per_partner: 4, per_host: 4 };

        fn wake(&self) -> &Notify {
            &self.wake
        }

        fn is_shared(&self) -> bool {
            false
        }

        async fn lease(&self, bounds: &Bounds, most: usize) -> Result<Leased<usize>, StoreError> {
            let (room, mut left) = (bounds.room(&self.partners), self.left.lock().unwrap());
            let mut leases = Vec::new();
            while let Some(permit) = (leases.len() < most && *left > 0).then(|| room.take(DEMO_CLIENT_ID, "")).flatten()
            {
                *left -= 1;
                leases.push(Lease { task: *left, fence: 1, permit });
            }
            Ok(Leased { leases, next: None })
        }

        async fn attempt(&self, lease: Lease<usize>) {
            if self.waits && lease.task.is_multiple_of(10) {
                tokio::task::yield_now().await;
            }
            assert!(![500, 501].contains(&lease.task), "one that waited, and one that did not");
            self.done.lock().unwrap().push(lease.task);
            drop(lease.permit);
            if self.afterwards > Duration::ZERO {
                self.wake.notify_one();
                tokio::time::sleep(self.afterwards).await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_is_due_is_done_before_the_end_though_only_a_few_find_a_place_and_some_panic() {
        for stop_at_once in [true, false] {
            let (done, took, _) = Pile::of(1_000, true, Duration::ZERO).work_off(stop_at_once).await;
            assert_eq!(done, (0..1_000).filter(|task| ![500, 501].contains(task)).collect::<Vec<_>>());
            assert!(took < POLL, "each place is used again at once");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_something_else_afterwards_holds_up_nothing() {
        let thought = Duration::from_secs(5);
        for stop_at_once in [true, false] {
            let (done, took, _) = Pile::of(100, true, thought).work_off(stop_at_once).await;
            assert_eq!(done.len(), 100);
            assert!((thought..thought + POLL).contains(&took), "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn however_much_is_due_and_waits_for_nothing_other_things_have_their_turn() {
        let (done, _, turns) = Pile::of(10_000, false, Duration::ZERO).work_off(false).await;
        assert_eq!(done.len(), 9_998);
        assert!(turns > 10, "{turns}");
    }
}
