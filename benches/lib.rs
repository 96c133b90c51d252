//! Benches, and programs that measure: `cargo bench -p svc-benches`, and the command at the head of each program.
