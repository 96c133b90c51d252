//! Nothing but benches: `cargo bench -p svc-benches`.
