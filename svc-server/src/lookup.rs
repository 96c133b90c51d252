//! Names of receivers resolved, within bounds: a look-up cannot be called back once it runs (C34).

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout};

use crate::seams::Resolver;

/// How long an attempt waits for the addresses of a name (C32).
const DNS_DEADLINE: Duration = Duration::from_secs(3);
/// Most look-ups of one partner at a time, those included that nobody waits for any more (C34).
const PER_PARTNER: usize = 4;
/// How often the log says that a partner's look-ups are all out.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// All look-ups: one at a time for a name, whoever asks, and four for a partner.
#[derive(Debug)]
pub(crate) struct Lookups {
    resolver: Resolver,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    running: HashMap<String, watch::Receiver<Found>>,
    partners: HashMap<String, Arc<Semaphore>>,
    /// When it was last said that a partner's look-ups are all out.
    said: HashMap<String, Instant>,
}

/// Nothing yet; or the addresses, none of them where the resolver failed.
type Found = Option<Arc<[IpAddr]>>;

/// Why there are no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// The resolver found none.
    Dns,
    /// It took too long.
    Late,
    /// The partner's look-ups are all out: ours is the bound, so this is not the receiver's failure.
    Busy,
}

impl Lookups {
    pub(crate) fn new(resolver: Resolver) -> Self {
        Self { resolver, shared: Arc::default() }
    }

    /// The addresses of a name, asked for in a partner's name; at least one.
    pub(crate) async fn addresses(&self, partner: &str, host: &str) -> Result<Arc<[IpAddr]>, Unresolved> {
        let running = self.lock().running.get(host).cloned();
        let mut found = match running {
            Some(found) => found,
            None => {
                let places = Arc::clone(self.lock().partners.entry(partner.to_owned()).or_insert_with(places));
                let Ok(place) = timeout(DNS_DEADLINE, places.acquire_owned()).await else {
                    self.say_busy(partner);
                    return Err(Unresolved::Busy);
                };
                self.begin(host, place.expect("never closed"))
            }
        };
        // Counted from here: the wait for a place is not the name server's.
        let found = timeout(DNS_DEADLINE, found.wait_for(Option::is_some)).await.map_err(|_| Unresolved::Late)?;
        // By a resolver that did not panic.
        let addresses = found.ok().and_then(|found| found.clone()).ok_or(Unresolved::Dns)?;
        if addresses.is_empty() { Err(Unresolved::Dns) } else { Ok(addresses) }
    }

    /// Says it, but not for each of thousands.
    fn say_busy(&self, partner: &str) {
        let now = Instant::now();
        let said = &mut self.lock().said;
        if said.get(partner).is_none_or(|at| now - *at >= SAY_AGAIN) {
            said.insert(partner.to_owned(), now);
            tracing::warn!(partner, "a partner's look-ups do not end; its webhooks to other names wait, unspent");
        }
    }

    /// Joins the look-up of a name, or begins it; it keeps its place until it ends, however long that takes.
    fn begin(&self, host: &str, place: OwnedSemaphorePermit) -> watch::Receiver<Found> {
        let mut shared = self.lock();
        if let Some(running) = shared.running.get(host) {
            return running.clone();
        }
        let (tell, found) = watch::channel(None);
        shared.running.insert(host.to_owned(), found.clone());
        drop(shared);
        let ended = Running { shared: Arc::clone(&self.shared), host: host.to_owned() };
        let resolver = self.resolver.clone();
        tokio::spawn(async move {
            let result: io::Result<Vec<IpAddr>> = resolver.resolve(&ended.host).await;
            // Whoever asks from here on begins anew.
            drop(ended);
            tell.send_replace(Some(result.unwrap_or_default().into()));
            drop(place);
        });
        found
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }
}

/// A look-up's entry, taken out when it ends, by a panic too.
struct Running {
    shared: Arc<Mutex<Shared>>,
    host: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.shared).running.remove(&self.host);
    }
}

fn places() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(PER_PARTNER))
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // Each critical section is one operation of a map.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A name server that answers names in `known` at once, and no other for a minute; counts what it is asked.
    fn resolver(asked: &Arc<AtomicUsize>) -> Resolver {
        let asked = Arc::clone(asked);
        Resolver::from_fn(move |name| {
            asked.fetch_add(1, Ordering::SeqCst);
            async move {
                if !name.starts_with("known") {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                }
                if name == "known-but-empty" {
                    Err(io::Error::other("no such name"))
                } else {
                    Ok(vec![[192, 0, 2, 1].into()])
                }
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn c34_one_look_up_a_name_and_four_a_partner_even_when_nobody_waits_any_more() {
        let asked = Arc::new(AtomicUsize::new(0));
        let lookups = Arc::new(Lookups::new(resolver(&asked)));
        let began = Instant::now();
        let ask = |partner: &'static str, host: String| {
            let lookups = Arc::clone(&lookups);
            tokio::spawn(async move { lookups.addresses(partner, &host).await })
        };
        // Three each for four mute names, and a fifth name.
        let mute: Vec<_> = (0..12).map(|i| ask("um", format!("mute-{}", i % 4))).collect();
        tokio::task::yield_now().await;
        let fifth = ask("um", "known-5".to_owned());
        assert!(ask("dois", "known-5".to_owned()).await.unwrap().is_ok(), "another partner's look-ups are its own");
        assert_eq!(began.elapsed(), Duration::ZERO);
        for mute in mute {
            assert_eq!(mute.await.unwrap(), Err(Unresolved::Late));
        }
        assert_eq!(began.elapsed().as_secs(), 3);
        assert_eq!(fifth.await.unwrap(), Err(Unresolved::Busy));
        assert_eq!(asked.load(Ordering::SeqCst), 5, "four names and the other partner's one");
        assert_eq!(ask("um", "known-5".to_owned()).await.unwrap(), Err(Unresolved::Busy), "all four still run");
        tokio::time::sleep_until(began + Duration::from_secs(61)).await;
        assert!(ask("um", "known-5".to_owned()).await.unwrap().is_ok(), "they have ended");
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_without_addresses_is_dns_and_a_resolver_that_panics_is_too() {
        let asked = Arc::new(AtomicUsize::new(0));
        let lookups = Lookups::new(resolver(&asked));
        assert_eq!(lookups.addresses("um", "known-but-empty").await, Err(Unresolved::Dns));
        let panics = Lookups::new(Resolver::from_fn(|_| async { panic!("a resolver of somebody's own") }));
        for _ in 0..5 {
            assert_eq!(panics.addresses("um", "x").await, Err(Unresolved::Dns), "and keeps no place");
        }
    }
}
