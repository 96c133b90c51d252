//! The loop that works off what a store keeps until it is due: lease, attempt, record.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::bounds::{Bounds, Limits, Permit};
use crate::detached::poll_once;
use crate::store::StoreError;

/// How often to look although nobody rang.
const POLL: Duration = Duration::from_secs(1);

/// So long do places that become free one after the other gather for one look at a store that others share.
const REST: Duration = Duration::from_millis(1);

/// So often is it looked again where all that was due was done at once.
const LOOKS: usize = 16;

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

    /// Hands out what is due, as far as there is room.
    fn lease(&self, bounds: &Bounds) -> impl Future<Output = Result<Leased<Self::Task>, StoreError>> + Send;

    /// One attempt from its lease to its record. Its place is free again when nobody is called on any more.
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
    attempts: JoinSet<()>,
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
                let more = begins && next == Ok(Some(Duration::ZERO));
                if self.attempts.join_next().await.is_none() && !more {
                    break next;
                }
            }
        });
        let drained = drained.await;
        if !self.work.is_shared() && !matches!(drained, Ok(Ok(None))) || !self.attempts.is_empty() {
            tracing::warn!(work = W::NAME, cut_off = self.attempts.len(), "some of it is not done at the end");
        }
    }

    /// Begins all that is due and has room. What ends at once makes room for more, so it is looked again until something waits,
    /// or for long enough: other things want to be heard. Gives the time until more is due.
    async fn step(&mut self) -> Result<Option<Duration>, StoreError> {
        while self.attempts.try_join_next().is_some() {}
        for _ in 0..LOOKS {
            let Leased { leases, next } = self.work.lease(&self.bounds).await?;
            let mut waits = leases.is_empty();
            for mut lease in leases {
                lease.permit.begin();
                let work = Arc::clone(&self.work);
                let mut attempt = Box::pin(async move { work.attempt(lease).await });
                // What does not wait, such as a line that is printed, needs no task.
                if let Ok(Poll::Pending) = poll_once(attempt.as_mut()).await {
                    waits = true;
                    self.attempts.spawn(attempt);
                }
            }
            if waits {
                return Ok(next);
            }
            // However much is due, requests come between.
            tokio::task::yield_now().await;
        }
        Ok(Some(Duration::ZERO))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::partners::{DEMO_CLIENT_ID, Partners};

    /// So many tasks, due at once; every tenth has to wait for something.
    struct Pile {
        partners: Partners,
        left: Mutex<usize>,
        done: Mutex<Vec<usize>>,
        wake: Notify,
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

        async fn lease(&self, bounds: &Bounds) -> Result<Leased<usize>, StoreError> {
            let (room, mut left) = (bounds.room(&self.partners), self.left.lock().unwrap());
            let mut leases = Vec::new();
            while let Some(permit) = (*left > 0).then(|| room.take(DEMO_CLIENT_ID, "")).flatten() {
                *left -= 1;
                leases.push(Lease { task: *left, fence: 1, permit });
            }
            Ok(Leased { leases, next: None })
        }

        async fn attempt(&self, lease: Lease<usize>) {
            if lease.task.is_multiple_of(10) {
                tokio::task::yield_now().await;
            }
            // An attempt that panics ends no other.
            assert_ne!(lease.task, 500);
            self.done.lock().unwrap().push(lease.task);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_is_due_is_done_before_the_end_though_only_a_few_find_a_place_at_a_time() {
        for stop_at_once in [true, false] {
            let pile = Arc::new(Pile {
                partners: Partners::demonstration(),
                left: Mutex::new(1_000),
                done: Mutex::default(),
                wake: Notify::new(),
            });
            let all_done = Arc::clone(&pile);
            let stop = async move {
                while !stop_at_once && all_done.done.lock().unwrap().len() < 999 {
                    tokio::task::yield_now().await;
                }
                Instant::now() + Duration::from_secs(60)
            };
            let began = tokio::time::Instant::now();
            Outbox::new(Arc::clone(&pile)).run(stop).await;
            assert!(began.elapsed() < POLL, "somebody rings for each that was behind a full house");
            let mut done = std::mem::take(&mut *pile.done.lock().unwrap());
            done.sort_unstable();
            assert_eq!(done, (0..1_000).filter(|task| *task != 500).collect::<Vec<_>>());
        }
    }
}
