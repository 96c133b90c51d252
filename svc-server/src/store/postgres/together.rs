//! Calls of one kind that come at the same time become one statement, so that they share what each would cost the database
//! and its disk. A call that comes alone goes alone, and at once.

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::call::{BUDGET, Database, Failed, call};
use crate::store::StoreError;

/// While a statement is under way, what comes gathers for the next. If that takes so long, the next does not wait for it: it may
/// have met a row that somebody holds locked.
const PATIENCE: Duration = Duration::from_millis(25);
/// Statements of one kind that are under way at a time, at most.
const STATEMENTS: usize = 4;
/// Most calls of one statement.
const AT_ONCE: usize = 128;

/// A call that can be made together with others of its kind.
pub(crate) trait Call: Send + Sync + Sized + 'static {
    type Answer: Send + 'static;

    /// In which order they are made, so that no two servers wait for each other's rows.
    fn order(&self, _other: &Self) -> Ordering {
        Ordering::Equal
    }

    /// Makes all of them, or none: an answer for each, in their order. It may be made again, so it must come to the same.
    fn make(calls: &[Self], db: &mut Object) -> impl Future<Output = Result<Vec<Self::Answer>, Failed>> + Send;
}

pub(crate) struct Together<C: Call> {
    database: Arc<Database>,
    /// So long does a statement wait for calls to gather, where nobody is kept waiting by that.
    gathers: Duration,
    state: Mutex<State<C>>,
}

struct State<C: Call> {
    waiting: Vec<(C, Reply<C>)>,
    statements: usize,
}

type Reply<C> = oneshot::Sender<Result<<C as Call>::Answer, StoreError>>;

impl<C: Call> Together<C> {
    pub(super) fn new(database: &Arc<Database>, gathers: Duration) -> Arc<Self> {
        let state = State { waiting: Vec::new(), statements: 0 };
        Arc::new(Self { database: Arc::clone(database), gathers, state: Mutex::new(state) })
    }

    /// Makes a call with those that wait. One that nobody waits for any more before it has begun is not made.
    pub(super) async fn call(self: &Arc<Self>, call: C) -> Result<C::Answer, StoreError> {
        let deadline = Instant::now() + BUDGET;
        let (reply, mut answer) = oneshot::channel();
        self.lock().waiting.push((call, reply));
        self.begin(1);
        let answer = match timeout(PATIENCE, &mut answer).await {
            Ok(answer) => answer,
            Err(_) => {
                self.begin(STATEMENTS);
                timeout_at(deadline, answer).await.map_err(|_| StoreError::Away)?
            }
        };
        answer.map_err(|_| StoreError::Away)?
    }

    /// Begins a statement for those that wait, if there are fewer than this. It runs apart, for whoever came first may go
    /// first too, and the others wait on.
    fn begin(self: &Arc<Self>, fewer_than: usize) {
        let mut state = self.lock();
        let begins = state.statements < fewer_than && !state.waiting.is_empty();
        state.statements += usize::from(begins);
        // A runtime that ends drops the task at once, and with it takes the lock.
        drop(state);
        if begins {
            tokio::spawn(Statement { together: Arc::clone(self), counts: true }.run());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<C>> {
        // A push and a count: whole between any two of them.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the statements that may be under way.
struct Statement<C: Call> {
    together: Arc<Together<C>>,
    counts: bool,
}

impl<C: Call> Statement<C> {
    async fn run(mut self) {
        loop {
            if !self.together.gathers.is_zero() {
                sleep(self.together.gathers).await;
            }
            let (calls, replies): (Vec<C>, Vec<Reply<C>>) = {
                let mut state = self.together.lock();
                state.waiting.retain(|(_, reply)| !reply.is_closed());
                if state.waiting.is_empty() {
                    // Under the same lock, so that no call is left to one that has ended.
                    state.statements -= 1;
                    self.counts = false;
                    return;
                }
                let count = state.waiting.len().min(AT_ONCE);
                let mut calls: Vec<_> = state.waiting.drain(..count).collect();
                drop(state);
                calls.sort_by(|(one, _), (other, _)| one.order(other));
                calls.into_iter().unzip()
            };
            match self.make(&calls).await {
                Ok(answers) => replies.into_iter().zip(answers).for_each(|(reply, answer)| {
                    let _ = reply.send(Ok(answer));
                }),
                // One of them is why, and the others have nothing to do with it.
                Err(StoreError::Rejected) if calls.len() > 1 => {
                    for (call, reply) in calls.chunks(1).zip(replies).filter(|(_, reply)| !reply.is_closed()) {
                        let answer = self.make(call).await;
                        let _ = reply.send(answer.map(|mut answers| answers.remove(0)));
                    }
                }
                Err(error) => replies.into_iter().for_each(|reply| {
                    let _ = reply.send(Err(error));
                }),
            }
        }
    }

    async fn make(&self, calls: &[C]) -> Result<Vec<C::Answer>, StoreError> {
        call!(self.together.database, db => { C::make(calls, db).await })
    }
}

impl<C: Call> Drop for Statement<C> {
    fn drop(&mut self) {
        if self.counts {
            self.together.lock().statements -= 1;
        }
    }
}

/// One parameter for all calls.
pub(super) fn column<'c, C, T>(calls: &'c [C], of: impl Fn(&'c C) -> T) -> Vec<T> {
    calls.iter().map(of).collect()
}

impl<C: Call> fmt::Debug for Together<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Together").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{Notify, mpsc};

    use super::*;
    use crate::store::postgres::DatabaseUrl;
    use crate::store::tests::cluster;

    /// Tells how many are made together, waits at its gate, and answers with its number.
    struct Probe {
        number: u32,
        gate: Option<Arc<Notify>>,
        tell: mpsc::UnboundedSender<usize>,
    }

    impl Call for Probe {
        type Answer = u32;

        async fn make(calls: &[Self], _db: &mut Object) -> Result<Vec<u32>, Failed> {
            calls[0].tell.send(calls.len()).unwrap();
            for gate in calls.iter().filter_map(|call| call.gate.as_ref()) {
                gate.notified().await;
            }
            Ok(calls.iter().map(|call| call.number).collect())
        }
    }

    #[tokio::test]
    async fn what_comes_while_a_statement_is_under_way_goes_together_and_each_gets_its_own_answer() {
        let Some(database) = cluster::Database::fresh() else { return };
        let pool = DatabaseUrl::parse(&database.url_text()).unwrap().pool();
        let together = Together::new(&Arc::new(Database { pool, prepared: true.into() }), Duration::ZERO);
        let (tell, mut told) = mpsc::unbounded_channel();
        let gate = Arc::new(Notify::new());
        let probe = |number, gate| together.call(Probe { number, gate, tell: tell.clone() });
        let gated = || Some(Arc::clone(&gate));

        let mut first = Box::pin(probe(1, gated()));
        assert!(tokio::select! { biased; _ = &mut first => false, made = told.recv() => made == Some(1) });
        // One that nobody waits for any more is not made, and the others do not wait for ever.
        drop(Box::pin(timeout(Duration::ZERO, probe(2, None))).await);
        let (third, fourth) = tokio::join!(probe(3, None), probe(4, None));
        assert_eq!((third, fourth, told.recv().await), (Ok(3), Ok(4), Some(2)));
        // As long as it is under way; then it is as it was before.
        gate.notify_one();
        assert_eq!(first.await, Ok(1));
        assert_eq!((probe(5, None).await, told.recv().await), (Ok(5), Some(1)));
        assert!(told.is_empty());
        while together.lock().statements > 0 {
            tokio::task::yield_now().await;
        }
    }
}
