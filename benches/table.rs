//! The table at a benchmark's end: what criterion has just measured, each beside one of them.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

/// Measurements of this run alone: a table begun before them leaves out what an earlier run left behind.
#[derive(Debug)]
pub struct Table {
    since: SystemTime,
    folder: PathBuf,
}

impl Table {
    /// Begins before the first measurement.
    pub fn begin() -> Self {
        // Beside what was built, of which this program is a part: `release/deps/verify-…`.
        let beside = || {
            let program = std::env::current_exe().expect("the path of this program");
            program.ancestors().nth(3).expect("a folder of what was built").join("criterion")
        };
        let folder = std::env::var_os("CRITERION_HOME").map_or_else(beside, PathBuf::from);
        Self { since: SystemTime::now(), folder }
    }

    /// Where criterion is to write. It would look for a place by itself, and find another one than we wherever the build has
    /// a target folder that only cargo was told of, or one for each target.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Prints the medians of groups, each group's fastest first, beside `base`. Prints nothing where nothing is measured, as
    /// in test mode.
    ///
    /// # Panics
    ///
    /// If something is measured, and none of it is found.
    pub fn print(&self, groups: impl IntoIterator<Item: AsRef<str>>, base: &str) {
        let given = |flag: &str| std::env::args().any(|argument| argument == flag);
        if !given("--bench") || ["--test", "--list", "--profile-time"].into_iter().any(given) {
            return;
        }
        let mut found = false;
        for group in groups {
            let group = group.as_ref();
            let mut rows = self.rows(group);
            rows.sort_by(|(_, a), (_, b)| a.total_cmp(b));
            if rows.is_empty() {
                continue;
            }
            found = true;
            // A filter can leave it out.
            let unit = rows.iter().find(|(name, _)| name == base).map(|(_, nanos)| *nanos);
            println!("\n{group:48} median ns  × {base}");
            for (name, nanos) in &rows {
                let ratio = unit.map_or("?".to_owned(), |unit| format!("{:.2}", nanos / unit));
                println!("{name:48} {nanos:9.0}  {ratio}");
            }
        }
        assert!(found, "no measurement of this run in {}", self.folder.display());
    }

    fn rows(&self, group: &str) -> Vec<(String, f64)> {
        let Ok(folders) = std::fs::read_dir(self.folder.join(group)) else { return Vec::new() };
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
