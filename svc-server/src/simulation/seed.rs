//! Numbers drawn from a seed: the same ones each time.

use std::sync::Mutex;
use std::time::Duration;

/// SplitMix64.
#[derive(Debug)]
pub(super) struct Draw(Mutex<u64>);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    pub(super) fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below another.
    pub(super) fn below(&self, end: u64) -> u64 {
        self.next() % end
    }

    /// True so many times in a thousand.
    pub(super) fn per_mille(&self, times: u64) -> bool {
        self.below(1_000) < times
    }

    /// A time up to this many milliseconds.
    pub(super) fn millis(&self, end: u64) -> Duration {
        Duration::from_millis(self.below(end + 1))
    }

    pub(super) fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }

    pub(super) fn fill(&self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
    }
}
