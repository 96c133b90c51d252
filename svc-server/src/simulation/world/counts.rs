//! How much happened in a story.

/// How much happened, so that nothing is shown by nothing happening.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::simulation) struct Counts {
    pub(in crate::simulation) proposals: u64,
    pub(in crate::simulation) replays: u64,
    pub(in crate::simulation) conflicts: u64,
    pub(in crate::simulation) answers: u64,
    pub(in crate::simulation) calls: u64,
    pub(in crate::simulation) repeated: u64,
    pub(in crate::simulation) crashes: u64,
    pub(in crate::simulation) pauses: u64,
    pub(in crate::simulation) jumps: u64,
    pub(in crate::simulation) torn: u64,
    pub(in crate::simulation) resends: u64,
    pub(in crate::simulation) rotations: u64,
    pub(in crate::simulation) forgotten: u64,
    pub(in crate::simulation) given_up: u64,
}

impl Counts {
    pub(in crate::simulation) fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.proposals, other.proposals),
            (&mut self.replays, other.replays),
            (&mut self.conflicts, other.conflicts),
            (&mut self.answers, other.answers),
            (&mut self.calls, other.calls),
            (&mut self.repeated, other.repeated),
            (&mut self.crashes, other.crashes),
            (&mut self.pauses, other.pauses),
            (&mut self.jumps, other.jumps),
            (&mut self.torn, other.torn),
            (&mut self.resends, other.resends),
            (&mut self.rotations, other.rotations),
            (&mut self.forgotten, other.forgotten),
            (&mut self.given_up, other.given_up),
        ];
        for (sum, more) in pairs {
            *sum += more;
        }
    }

    /// Everything happens in a fair number of seeds.
    pub(in crate::simulation) fn assert_rich(&self, seeds: u64) {
        let least = seeds / 10;
        let all = [
            self.proposals,
            self.replays,
            self.conflicts,
            self.answers,
            self.calls,
            self.repeated,
            self.crashes,
            self.pauses,
            self.jumps,
            self.torn,
            self.resends,
            self.rotations,
            self.forgotten,
            self.given_up,
        ];
        assert!(all.iter().all(|count| *count >= least), "{self:?}");
    }
}
