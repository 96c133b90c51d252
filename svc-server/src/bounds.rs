//! How much may be under way at a time: in all, for one partner, and of that partner to one host (C34).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::partners::Partners;

/// What is counted, up to its limits.
#[derive(Clone, Debug)]
pub(crate) struct Bounds(Arc<Shared>);

/// Most attempts at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) total: usize,
    pub(crate) per_partner: usize,
    /// Of one partner. Two partners may use the same host, and neither may use up the other's places at it.
    pub(crate) per_host: usize,
}

#[derive(Debug)]
struct Shared {
    limits: Limits,
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    partners: HashMap<Arc<str>, Partner>,
}

#[derive(Debug, Default)]
struct Partner {
    total: usize,
    hosts: HashMap<Arc<str>, usize>,
}

/// The place of one attempt, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    bounds: Arc<Shared>,
    partner: Arc<str>,
    host: Arc<str>,
    /// Whether somebody is told when it is given back.
    rings: bool,
}

impl Permit {
    /// When it is given back, [`Bounds::freed`] tells of it: to whoever looks for the next for several places at once.
    pub(crate) fn ring_when_free(&mut self) {
        self.rings = true;
    }
}

impl Bounds {
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Arc::new(Shared { limits, taken: Mutex::default(), freed: Notify::new() }))
    }

    /// How much is under way.
    pub(crate) fn taken(&self) -> usize {
        self.0.lock().total
    }

    /// Completes when a place that [rings](Permit::ring_when_free) has become free.
    pub(crate) async fn freed(&self) {
        self.0.freed.notified().await;
    }

    /// What there is room for, as long as these are the partners.
    pub(crate) fn room<'a>(&'a self, partners: &'a Partners) -> Room<'a> {
        Room { bounds: self, partners, most: usize::MAX }
    }
}

/// What may be begun now. A store asks it for each piece of work that is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room<'a> {
    bounds: &'a Bounds,
    partners: &'a Partners,
    most: usize,
}

impl Room<'_> {
    /// The same, for no more than this at once.
    pub(crate) const fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// How much may be begun at once at most.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// How much of this partner is under way, if more of it may be begun. Nothing of one that was removed: it stays pending
    /// (C24).
    pub(crate) fn admits(&self, partner: &str) -> Option<usize> {
        let taken = &*self.bounds.0.lock();
        let own = taken.partners.get(partner).map_or(0, |partner| partner.total);
        (self.left(own, taken) > 0 && self.partners.get(partner).is_some()).then_some(own)
    }

    /// Whether this host has a place left for this partner.
    pub(crate) fn admits_host(&self, partner: &str, host: &str) -> bool {
        let taken = self.bounds.0.lock();
        let count = taken.partners.get(partner).and_then(|partner| partner.hosts.get(host));
        count.is_none_or(|count| *count < self.bounds.0.limits.per_host)
    }

    /// Partners that something may be begun for.
    #[cfg(feature = "postgres")]
    pub(crate) fn partners(&self) -> Vec<&str> {
        let taken = &*self.bounds.0.lock();
        let own = |partner| taken.partners.get(partner).map_or(0, |own: &Partner| own.total);
        self.partners.client_ids().filter(|partner| self.left(own(*partner), taken) > 0).collect()
    }

    /// How many places are left, and how many of them at one host at most.
    #[cfg(feature = "postgres")]
    pub(crate) fn look(&self) -> (usize, usize) {
        let Limits { total, per_partner, per_host } = self.bounds.0.limits;
        let free = total.saturating_sub(self.bounds.0.lock().total).min(self.most).max(1);
        (free, per_host.min(per_partner))
    }

    /// Hosts that have no place left for a partner.
    #[cfg(feature = "postgres")]
    pub(crate) fn full_hosts(&self) -> Vec<(String, String)> {
        let per_host = self.bounds.0.limits.per_host;
        let taken = self.bounds.0.lock();
        let hosts = taken.partners.iter().flat_map(|(partner, of)| of.hosts.iter().map(move |host| (partner, host)));
        let full = hosts.filter(|(_, (_, count))| **count >= per_host);
        full.map(|(partner, (host, _))| (partner.to_string(), host.to_string())).collect()
    }

    /// A place for an attempt, if there is one.
    pub(crate) fn take(&self, partner: impl Into<Arc<str>>, host: impl Into<Arc<str>>) -> Option<Permit> {
        let (partner, host) = (partner.into(), host.into());
        self.partners.get(&partner)?;
        let shared = &self.bounds.0;
        let taken = &mut *shared.lock();
        let own = taken.partners.get(&partner);
        let at_host = own.and_then(|own| own.hosts.get(&host)).copied().unwrap_or_default();
        if self.left(own.map_or(0, |own| own.total), taken) == 0 || at_host >= shared.limits.per_host {
            return None;
        }
        taken.total += 1;
        let own = taken.partners.entry(Arc::clone(&partner)).or_default();
        own.total += 1;
        *own.hosts.entry(Arc::clone(&host)).or_default() += 1;
        Some(Permit { bounds: Arc::clone(shared), partner, host, rings: false })
    }

    /// The places left for a partner that has `own`. A quarter of all is kept for those with little under way, less and less
    /// the fewer are free: however much some partners want, the next one finds a place.
    fn left(&self, own: usize, taken: &Taken) -> usize {
        let Limits { total, per_partner, .. } = self.bounds.0.limits;
        let free = total.saturating_sub(taken.total);
        let most = free.saturating_sub(total / 4).max(free.div_ceil(16)).min(per_partner);
        most.saturating_sub(own)
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
        let mut taken = self.bounds.lock();
        let taken = &mut *taken;
        if self.rings {
            self.bounds.freed.notify_one();
        }
        taken.total = taken.total.saturating_sub(1);
        let Some(partner) = taken.partners.get_mut(&self.partner) else { return };
        partner.total = partner.total.saturating_sub(1);
        match partner.hosts.get_mut(&self.host) {
            Some(1) => drop(partner.hosts.remove(&self.host)),
            Some(count) => *count = count.saturating_sub(1),
            None => {}
        }
        if partner.total == 0 {
            taken.partners.remove(&self.partner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partners::{DEMO_CLIENT_ID as DEMO, NewPartner};
    use crate::seams::Random;

    #[test]
    fn c34_a_place_is_taken_within_all_three_bounds_and_given_back() {
        let partners = Partners::demonstration();
        let bounds = Bounds::new(Limits { total: 9, per_partner: 3, per_host: 2 });
        let room = bounds.room(&partners);
        let first = room.take(DEMO, "a").unwrap();
        let second = room.take(DEMO, "a").unwrap();
        assert!(room.take(DEMO, "a").is_none(), "two a host");
        assert!(!room.admits_host(DEMO, "a") && room.admits_host(DEMO, "b") && room.admits_host("outro", "a"));
        let third = room.take(DEMO, "b").unwrap();
        assert!(room.take(DEMO, "c").is_none(), "three a partner");
        assert!(room.take("removido", "c").is_none(), "nobody's");
        drop((first, second));
        assert_eq!(room.admits(DEMO), Some(1));
        assert!(room.take(DEMO, "a").is_some());
        drop(third);
        assert_eq!(bounds.0.lock().total, 0);
        assert!(bounds.0.lock().partners.is_empty(), "nothing is left behind");
    }

    #[tokio::test]
    async fn a_place_tells_that_it_is_free_if_it_is_to() {
        let partners = Partners::demonstration();
        let bounds = Bounds::new(Limits { total: 64, per_partner: 2, per_host: 1 });
        let rings = async || tokio::time::timeout(std::time::Duration::ZERO, bounds.freed()).await.is_ok();
        let take = || bounds.room(&partners).take(DEMO, "a").unwrap();
        drop(take());
        assert!(!rings().await);
        let mut permit = take();
        permit.ring_when_free();
        assert!(!rings().await);
        drop(permit);
        assert!(rings().await);
    }

    #[test]
    fn c34_however_many_want_everything_there_is_a_place_for_the_next() {
        let ids: Vec<_> = (0..64).map(|i| format!("p-{i}")).collect();
        let entries: Vec<_> = ids.iter().map(|id| NewPartner::draw(id, &Random::system()).unwrap().entry).collect();
        let partners = Partners::from_json(format!("[{}]", entries.join(",")).as_bytes()).unwrap();
        let bounds = Bounds::new(Limits { total: 256, per_partner: 64, per_host: 8 });
        let room = bounds.room(&partners);
        let mut held = Vec::new();
        let mut shares = Vec::new();
        for id in &ids[..24] {
            let before = held.len();
            while let Some(permit) = room.take(id.as_str(), format!("host-{}", (held.len() - before) / 8)) {
                held.push(permit);
            }
            shares.push(held.len() - before);
        }
        assert_eq!(shares[..6], [64, 64, 32, 16, 8, 5], "all they may, then ever less");
        assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
        for id in &ids[24..40] {
            held.push(room.take(id.as_str(), "host").expect("a place for whoever has none"));
        }
    }
}
