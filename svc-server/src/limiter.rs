//! Failed logins: ten a minute for one `client_id` from one address, then a pause (C23).

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};

/// Failures that are let pass in a window.
const MAX_FAILURES: usize = 10;
/// The window.
const WINDOW: TimeDelta = TimeDelta::seconds(60);
/// Most pairs of client and address that are kept; the one that failed longest ago goes first.
const MAX_ENTRIES: usize = 100_000;

/// Counts failures. Keeps no client's text: pairs are known by a keyed hash.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    hasher: RandomState,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Every failure of the window, oldest first.
    failures: VecDeque<(DateTime<Utc>, u64)>,
    /// The times in it of each pair.
    by_pair: HashMap<u64, VecDeque<DateTime<Utc>>>,
}

impl Limiter {
    /// Whether another login may be tried; else the seconds after which it may.
    pub(crate) fn check(&self, client_id: &str, address: IpAddr, now: DateTime<Utc>) -> Result<(), u32> {
        let inner = &mut *self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.forget(now);
        let times = inner.by_pair.get(&self.hasher.hash_one((client_id, address)));
        match times.and_then(|times| times.front().filter(|_| times.len() >= MAX_FAILURES)) {
            None => Ok(()),
            Some(first) => {
                // Rounded up: at the second that is told, the login is let pass.
                let left = (*first + WINDOW - now).num_milliseconds();
                Err(u32::try_from(left.max(1)).unwrap_or(u32::MAX).div_ceil(1_000))
            }
        }
    }

    /// Counts a failed login.
    pub(crate) fn failed(&self, client_id: &str, address: IpAddr, now: DateTime<Utc>) {
        let inner = &mut *self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = self.hasher.hash_one((client_id, address));
        inner.failures.push_back((now, pair));
        inner.by_pair.entry(pair).or_default().push_back(now);
        while inner.by_pair.len() > MAX_ENTRIES {
            inner.forget_first();
        }
    }
}

impl Inner {
    /// Forgets what lies before the window; after a clock that jumped back, also what lies behind it.
    fn forget(&mut self, now: DateTime<Utc>) {
        let outside = |at: DateTime<Utc>| now - at >= WINDOW || at - now >= WINDOW;
        while self.failures.front().is_some_and(|(at, _)| outside(*at)) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some((_, pair)) = self.failures.pop_front() else { return };
        if let Some(times) = self.by_pair.get_mut(&pair) {
            times.pop_front();
            if times.is_empty() {
                self.by_pair.remove(&pair);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    #[test]
    fn the_eleventh_login_waits_until_the_first_failure_is_a_minute_old() {
        let limiter = Limiter::default();
        for second in 0..10 {
            assert_eq!(limiter.check("p", HERE, at(second)), Ok(()));
            limiter.failed("p", HERE, at(second));
        }
        assert_eq!(limiter.check("p", HERE, at(10)), Err(50));
        assert_eq!(limiter.check("q", HERE, at(10)), Ok(()), "another client");
        assert_eq!(limiter.check("p", "192.0.2.1".parse().unwrap(), at(10)), Ok(()), "another address");
        assert_eq!(limiter.check("p", HERE, at(59)), Err(1));
        assert_eq!(limiter.check("p", HERE, at(60)), Ok(()));
        limiter.failed("p", HERE, at(60));
        assert_eq!(limiter.check("p", HERE, at(60)), Err(1), "the second failure is the oldest now");
    }

    #[test]
    fn a_clock_that_jumps_back_locks_nobody_out() {
        let limiter = Limiter::default();
        (0..10).for_each(|_| limiter.failed("p", HERE, at(7_200)));
        assert!(limiter.check("p", HERE, at(7_200)).is_err());
        assert_eq!(limiter.check("p", HERE, at(0)), Ok(()));
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let limiter = Limiter::default();
        for client in 0..MAX_ENTRIES + 10 {
            limiter.failed(&client.to_string(), HERE, at(0));
        }
        let inner = limiter.inner.lock().unwrap();
        assert_eq!((inner.by_pair.len(), inner.failures.len()), (MAX_ENTRIES, MAX_ENTRIES));
    }
}
