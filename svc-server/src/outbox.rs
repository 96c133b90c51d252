//! The loop that works off what a store keeps until it is due: lease, attempt, record.

use std::pin::pin;
use std::sync::Arc;
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

    /// Rings when the outbox is to look: something has become due, or will sooner than it knows of.
    fn wake(&self) -> &Notify;

    /// Whether other servers work off the same.
    fn is_shared(&self) -> bool;

    /// Hands out what is due, as far as there is room, and no more than `most`.
    fn lease(
        &self,
        bounds: &Bounds,
        most: usize,
    ) -> impl Future<Output = Result<Leased<Self::Task>, StoreError>> + Send;

    /// Looks after itself, once a second at least.
    fn tidy(&self) {}

    /// One attempt from its lease to its record. It drops its permit when nobody is called on any more. If it then waits for
    /// something else it rings before, since in its place the next is looked for only at its end.
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
    workers: JoinSet<()>,
}

impl<W: Work> Outbox<W> {
    pub(crate) fn new(work: W) -> Self {
        Self { work: Arc::new(work), bounds: Bounds::new(W::LIMITS), workers: JoinSet::new() }
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
            loop {
                if begins {
                    begins = self.step().await.is_ok() && !self.work.is_shared();
                }
                tokio::select! {
                    biased;
                    ended = self.workers.join_next() => if ended.is_none() { break },
                    () = self.work.wake().notified(), if begins => {}
                }
            }
        });
        let is_late = drained.await.is_err();
        // Of a store that does not last, what waits for its time is lost as well.
        let is_lost =
            !self.work.is_shared() && !matches!(self.work.lease(&self.bounds, 0).await, Ok(Leased { next: None, .. }));
        if is_late || is_lost {
            tracing::warn!(work = W::NAME, cut_off = self.workers.len(), "some of it is not done at the end");
        }
    }

    /// Begins all that is due and has room. Gives the time until more is due.
    async fn step(&mut self) -> Result<Option<Duration>, StoreError> {
        while self.workers.try_join_next().is_some() {}
        self.work.tidy();
        let Leased { leases, next } = self.work.lease(&self.bounds, usize::MAX).await?;
        for mut lease in leases {
            if self.work.is_shared() {
                lease.permit.ring_when_free();
            }
            let mut worker = Box::pin(work_off(Arc::clone(&self.work), self.bounds.clone(), lease));
            // What does not wait, such as a line that is printed, needs no task.
            if poll_once(worker.as_mut()).await.is_pending() {
                self.workers.spawn(worker);
            }
        }
        Ok(next)
    }
}

/// Attempts what was leased, and then in its place what is due next, until nothing is. In a store that is shared the outbox
/// looks for the next, for several places at once.
async fn work_off<W: Work>(work: Arc<W>, bounds: Bounds, mut lease: Lease<W::Task>) {
    loop {
        // However much is due, other things come between; here, where it has its place.
        tokio::task::coop::consume_budget().await;
        // An attempt that panics ends no other.
        let _ = caught(pin!(work.attempt(lease))).await;
        if work.is_shared() {
            return;
        }
        let Ok(Leased { mut leases, next }) = work.lease(&bounds, 1).await else { return };
        if next.is_some_and(|next| next < POLL) {
            work.wake().notify_one();
        }
        match leases.pop() {
            Some(due) => lease = due,
            None => return,
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::partners::{DEMO_CLIENT_ID, Partners};

    /// More than there are places.
    const PANICS: std::ops::Range<usize> = 500..510;

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

        /// Works it off; gives what was done, and how long it took.
        async fn work_off(self: Arc<Self>, stop_at_once: bool) -> (Vec<usize>, Duration) {
            let began = tokio::time::Instant::now();
            let stop = async {
                while !stop_at_once && *self.left.lock().unwrap() > 0 {
                    tokio::task::yield_now().await;
                }
                Instant::now() + Duration::from_secs(60)
            };
            Outbox::new(Arc::clone(&self)).run(stop).await;
            let mut done = std::mem::take(&mut *self.done.lock().unwrap());
            done.sort_unstable();
            (done, began.elapsed())
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
            let more = *left > 0 && room.take(DEMO_CLIENT_ID, "").is_some();
            Ok(Leased { leases, next: more.then_some(Duration::ZERO) })
        }

        async fn attempt(&self, lease: Lease<usize>) {
            if self.waits && lease.task.is_multiple_of(10) {
                tokio::task::yield_now().await;
            }
            assert!(!PANICS.contains(&lease.task), "one that waited, and many that did not");
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
        for (stop_at_once, waits) in [(true, true), (false, true), (true, false), (false, false)] {
            let (done, took) = Pile::of(1_000, waits, Duration::ZERO).work_off(stop_at_once).await;
            assert_eq!(done, (0..1_000).filter(|task| !PANICS.contains(task)).collect::<Vec<_>>());
            assert!(took < POLL, "each place is used again at once");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_something_else_afterwards_holds_up_nothing() {
        let thought = Duration::from_secs(5);
        for stop_at_once in [true, false] {
            let (done, took) = Pile::of(100, true, thought).work_off(stop_at_once).await;
            assert_eq!(done.len(), 100);
            assert!((thought..thought + POLL).contains(&took), "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn however_much_is_due_and_waits_for_nothing_other_things_have_their_turn() {
        let pile = Pile::of(10_000, false, Duration::ZERO);
        let (counted, mut turns, mut most) = (Arc::clone(&pile), 0, 0);
        let stop = async {
            while *counted.left.lock().unwrap() > 0 {
                turns += 1;
                most = most.max(tokio::runtime::Handle::current().metrics().num_alive_tasks());
                tokio::task::yield_now().await;
            }
            Instant::now() + Duration::from_secs(60)
        };
        Outbox::new(Arc::clone(&pile)).run(stop).await;
        assert_eq!(pile.done.lock().unwrap().len(), 10_000 - PANICS.len());
        assert!(turns > 10, "{turns}");
        assert!((1..=4).contains(&most), "{most} workers for four places");
    }
}
