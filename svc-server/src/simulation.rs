//! Nothing is lost, shown (C41): whole deployments on a virtual clock, with everything that can happen to them drawn from
//! one number.
//!
//! Several servers share a store. Their outboxes, stores of what is due, attempts, signatures and answers are the program's
//! own code; what is simulated is the world round it: the way to the store, receivers, partners, customers, clocks,
//! crashes. After every step of the store [`world::World::check`] looks at all of it.
//!
//! `SVC_SEEDS=10000 cargo test -p svc-server --lib simulation` runs as many seeds; `SVC_SEED=17` runs one, and prints what
//! happened in it.

mod deployment;
mod link;
mod receiver;
mod seed;
mod world;
pub(crate) use link::Link;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::simulation::deployment::simulate;
use crate::simulation::world::Counts;

/// Seeds of a plain test run.
const SEEDS: u64 = 300;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn c41_nothing_is_lost_whatever_happens() {
    if let Some(seed) = number("SVC_SEED") {
        let told = simulate(seed);
        println!("{}", told.trace.join("\n"));
        assert_eq!(told.violation, None, "seed {seed}");
        return;
    }
    let (first, seeds) = (number("SVC_FIRST_SEED").unwrap_or(0), number("SVC_SEEDS").unwrap_or(SEEDS));
    let (next, totals) = (AtomicU64::new(first), Mutex::new(Counts::default()));
    let worker = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + seeds {
                return;
            }
            let told = simulate(seed);
            if let Some(violation) = told.violation {
                // The others have looked at enough.
                next.store(first + seeds, Ordering::Relaxed);
                panic!("seed {seed}: {violation}\nSVC_SEED={seed} runs it again\n{}", told.trace.join("\n"));
            }
            totals.lock().unwrap().add(&told.counts);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let totals = totals.into_inner().unwrap();
    println!("{seeds} seeds from {first}: {totals:?}");
    totals.assert_rich(seeds);
}

#[test]
fn the_same_seed_is_the_same_story() {
    for seed in 0..(number("SVC_SEEDS").unwrap_or(SEEDS) / 10).max(1) {
        let [first, again] = [simulate(seed).trace, simulate(seed).trace];
        let parted = first.iter().zip(&again).position(|(one, other)| one != other);
        let line = parted.unwrap_or(first.len().min(again.len()));
        assert!(first == again, "seed {seed}, line {line}: {:?} {:?}", first.get(line), again.get(line));
    }
}
