//! What the system knows of a process. Linux only: it is read from /proc.

use std::time::Duration;

use tokio::process::Child;

/// What a process has in memory, in bytes.
pub fn resident(process: &Child) -> u64 {
    memory(process, "VmRSS:")
}

/// The most that it has had.
pub fn highest(process: &Child) -> u64 {
    memory(process, "VmHWM:")
}

fn memory(process: &Child, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid(process))).expect("a process of ours");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of the kernel's");
    line.trim().split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).expect("KiB") * 1024
}

fn pid(process: &Child) -> u32 {
    process.id().expect("it runs")
}

/// The processor's time that a process has used.
pub fn processor_time(process: &Child) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid(process))).expect("a process of ours");
    // Behind the name, which can hold blanks: fields 14 and 15 of proc(5), in hundredths of a second.
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a line").split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

/// Until a process has nothing to do, which is to come within a minute.
pub async fn quiet(process: &Child) {
    for _ in 0..300 {
        let before = processor_time(process);
        tokio::time::sleep(Duration::from_millis(200)).await;
        if processor_time(process) - before <= Duration::from_millis(10) {
            return;
        }
    }
    panic!("still busy after a minute");
}

/// How many files and sockets a process has open.
pub fn descriptors(process: &Child) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", pid(process))).expect("a process of ours").count()
}
