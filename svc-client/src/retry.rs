//! When a call is made again, and when not: the retry table, its waits, and its budget.
//!
//! | What happened to `POST /v1/propostas` | Without the promise | With it | [`outcome()`](crate::Error::outcome) |
//! |---|---|---|---|
//! | no connection (a wrong certificate is not tried again), login failed | again | again | `NotSent` |
//! | 401 | once more, with a fresh token | the same | `Rejected` |
//! | 429 | again after the wait that it names | the same | `Rejected` |
//! | 400, 403, 404, 409, 413, 415 | stop | stop | `Rejected` |
//! | connection broke or time ran out after bytes went out; 408, 5xx | **stop** | again | `Unknown` |
//! | 2xx with a body that cannot be read | stop | stop | `Accepted` |
//!
//! The *promise* is the service's: the same `id_proposta_parceiro` with the same content gives the first id again and
//! creates nothing (C9). It makes it in the answer to the login; [`Idempotency`] says whether that is believed.
//!
//! The other calls can be repeated without harm and are treated as under the promise: they read, or they ask again for
//! what at-least-once delivery allows anyway.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Whether a proposal whose fate is unknown may be posted again by the client itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idempotency {
    /// If the service promised so in its answer to the login (C9).
    #[default]
    Auto,
    /// Always: somebody else made the promise.
    Guaranteed,
    /// Never.
    None,
}

impl Idempotency {
    pub(crate) const fn holds(self, promised: bool) -> bool {
        match self {
            Self::Auto => promised,
            Self::Guaranteed => true,
            Self::None => false,
        }
    }
}

/// The wait before a retry: anything from nothing to `base`, doubled for each retry before it, at most `cap` ("full
/// jitter").
///
/// `retry` counts from 1; `random` is drawn evenly from all numbers.
///
/// ```
/// use std::time::Duration;
/// use svc_client::retry::backoff;
/// let [base, cap] = [500, 5_000].map(Duration::from_millis);
/// assert_eq!(backoff(base, cap, 1, u64::MAX), base);
/// assert_eq!(backoff(base, cap, 2, u64::MAX / 2).as_millis(), 500); // half of a second
/// assert_eq!(backoff(base, cap, 60, u64::MAX), cap);
/// assert_eq!(backoff(base, cap, 60, 0), Duration::ZERO);
/// ```
pub fn backoff(base: Duration, cap: Duration, retry: u32, random: u64) -> Duration {
    let longest = base.saturating_mul(2u32.saturating_pow(retry.saturating_sub(1))).min(cap);
    let nanos = longest.as_nanos().saturating_mul(u128::from(random) + 1) >> 64;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Keeps a client from making an outage worse: in each minute so many retries as a share of its calls, and always a few.
#[derive(Debug)]
pub(crate) struct Budget {
    percent: u32,
    floor: u32,
    minute: Mutex<Minute>,
}

#[derive(Debug, Default)]
struct Minute {
    began: Duration,
    calls: u32,
    retries: u32,
}

impl Budget {
    pub(crate) fn new(percent: u32, floor: u32) -> Self {
        Self { percent, floor, minute: Mutex::default() }
    }

    /// Counts a call.
    pub(crate) fn called(&self, now: Duration) {
        self.minute(now, |minute| minute.calls = minute.calls.saturating_add(1));
    }

    /// Takes a retry out of it, if there is one left.
    pub(crate) fn take(&self, now: Duration) -> bool {
        self.minute(now, |minute| {
            let share = u64::from(minute.calls) * u64::from(self.percent) / 100;
            let left = u64::from(minute.retries) < share.max(u64::from(self.floor));
            minute.retries += u32::from(left);
            left
        })
    }

    fn minute<T>(&self, now: Duration, change: impl FnOnce(&mut Minute) -> T) -> T {
        let mut minute = self.minute.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(minute.began) >= MINUTE {
            *minute = Minute { began: now, ..Minute::default() };
        }
        change(&mut minute)
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_fifth_of_the_calls_or_ten_a_minute() {
        let budget = Budget::new(20, 10);
        let taken = |now| (0..1_000).filter(|_| budget.take(now)).count();
        assert_eq!(taken(Duration::ZERO), 10);
        (0..100).for_each(|_| budget.called(Duration::from_secs(59)));
        assert_eq!(taken(Duration::from_secs(59)), 10, "twenty in all");
        assert_eq!(taken(Duration::from_secs(60)), 10, "another minute");
        assert!(!Budget::new(0, 0).take(Duration::ZERO));
    }

    #[test]
    fn the_promise_is_believed_as_told() {
        for (idempotency, without, with) in
            [(Idempotency::Auto, false, true), (Idempotency::Guaranteed, true, true), (Idempotency::None, false, false)]
        {
            assert_eq!((idempotency.holds(false), idempotency.holds(true)), (without, with));
        }
    }
}
