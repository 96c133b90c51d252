//! How much may be under way at a time: in all, for one partner, to one host (C34).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::partners::Partners;

/// What is counted, up to its limits.
#[derive(Clone, Debug)]
pub(crate) struct Bounds(Arc<Shared>);

/// Most attempts at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) total: usize,
    pub(crate) per_partner: usize,
    pub(crate) per_host: usize,
}

#[derive(Debug)]
struct Shared {
    limits: Limits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    partners: HashMap<String, usize>,
    hosts: HashMap<String, usize>,
}

/// The place of one attempt, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    bounds: Arc<Shared>,
    partner: String,
    host: String,
}

impl Bounds {
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Arc::new(Shared { limits, taken: Mutex::default() }))
    }

    /// What there is room for, as long as these are the partners.
    pub(crate) fn room<'a>(&'a self, partners: &'a Partners) -> Room<'a> {
        Room { bounds: self, partners }
    }
}

/// What may be begun now. A store asks it for each piece of work that is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room<'a> {
    bounds: &'a Bounds,
    partners: &'a Partners,
}

impl Room<'_> {
    /// Whether anything of this partner may be begun. Nothing of one that was removed: it stays pending (C24).
    pub(crate) fn admits(&self, partner: &str) -> bool {
        let Shared { limits, .. } = &*self.bounds.0;
        let taken = self.bounds.0.lock();
        taken.total < limits.total
            && taken.partners.get(partner).is_none_or(|count| *count < limits.per_partner)
            && self.partners.get(partner).is_some()
    }

    /// Whether this host has a place left.
    pub(crate) fn admits_host(&self, host: &str) -> bool {
        self.bounds.0.lock().hosts.get(host).is_none_or(|count| *count < self.bounds.0.limits.per_host)
    }

    /// A place for an attempt, if there is one.
    pub(crate) fn take(&self, partner: &str, host: &str) -> Option<Permit> {
        if !self.admits(partner) || !self.admits_host(host) {
            return None;
        }
        let shared = &self.bounds.0;
        let mut taken = shared.lock();
        taken.total += 1;
        *taken.partners.entry(partner.to_owned()).or_default() += 1;
        *taken.hosts.entry(host.to_owned()).or_default() += 1;
        drop(taken);
        Some(Permit { bounds: Arc::clone(shared), partner: partner.to_owned(), host: host.to_owned() })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        // Counters are whole between any two of their operations.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let taken = &mut *self.bounds.lock();
        taken.total = taken.total.saturating_sub(1);
        for (counts, name) in [(&mut taken.partners, &self.partner), (&mut taken.hosts, &self.host)] {
            if let Entry::Occupied(mut count) = counts.entry(name.clone()) {
                *count.get_mut() = count.get().saturating_sub(1);
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partners::DEMO_CLIENT_ID as DEMO;

    #[test]
    fn c34_a_place_is_taken_within_all_three_bounds_and_given_back() {
        let partners = Partners::demonstration();
        let bounds = Bounds::new(Limits { total: 3, per_partner: 3, per_host: 2 });
        let room = bounds.room(&partners);
        let first = room.take(DEMO, "a").unwrap();
        let second = room.take(DEMO, "a").unwrap();
        assert!(room.take(DEMO, "a").is_none(), "two a host");
        assert!(!room.admits_host("a") && room.admits_host("b"));
        let third = room.take(DEMO, "b").unwrap();
        assert!(room.take(DEMO, "c").is_none(), "three in all");
        assert!(room.take("removido", "c").is_none(), "nobody's");
        drop((first, second));
        assert_eq!(bounds.0.lock().total, 1);
        assert!(room.take(DEMO, "a").is_some());
        drop(third);
        assert_eq!(bounds.0.lock().total, 0);
        assert!(bounds.0.lock().hosts.is_empty() && bounds.0.lock().partners.is_empty(), "nothing is left behind");
        let narrow = Bounds::new(Limits { total: 9, per_partner: 1, per_host: 9 });
        let _held = narrow.room(&partners).take(DEMO, "a").unwrap();
        assert!(!narrow.room(&partners).admits(DEMO));
    }
}
