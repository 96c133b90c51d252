//! The table at a benchmark's end: what criterion has just measured, each beside one of them.

use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::Value;

/// Measurements of this run alone: a table begun before them leaves out what an earlier run left behind.
#[derive(Debug)]
pub struct Table {
    since: SystemTime,
}

impl Table {
    /// Begins before the first measurement.
    pub fn begin() -> Self {
        Self { since: SystemTime::now() }
    }

    /// Prints a group's medians, the fastest first, beside `base`. Prints nothing in test mode, which measures nothing.
    pub fn print(&self, group: &str, base: &str) {
        let mut rows = self.rows(group);
        rows.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let Some((_, unit)) = rows.iter().find(|(name, _)| name == base) else { return };
        println!("\n{group:48} median ns  × {base}");
        for (name, nanos) in &rows {
            println!("{name:48} {nanos:9.0}  {:.2}", nanos / unit);
        }
    }

    fn rows(&self, group: &str) -> Vec<(String, f64)> {
        let Ok(folders) = std::fs::read_dir(home().join(group)) else { return Vec::new() };
        let read = |folder: PathBuf| {
            let json = |file| serde_json::from_slice(&std::fs::read(folder.join("new").join(file)).ok()?).ok();
            let written = folder.join("new/estimates.json").metadata().ok()?.modified().ok()?;
            let (benchmark, estimates): (Value, Value) = (json("benchmark.json")?, json("estimates.json")?);
            let nanos = estimates["median"]["point_estimate"].as_f64()?;
            (written >= self.since).then(|| Some((benchmark["function_id"].as_str()?.to_owned(), nanos)))?
        };
        folders.filter_map(|folder| read(folder.ok()?.path())).collect()
    }
}

/// Where criterion writes: beside what was built, of which this program is a part (`release/deps/verify-…`).
fn home() -> PathBuf {
    let target = || Some(std::env::current_exe().ok()?.ancestors().nth(3)?.join("criterion"));
    std::env::var_os("CRITERION_HOME").map(PathBuf::from).or_else(target).unwrap_or_default()
}
