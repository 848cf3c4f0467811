//! What the system knows about a process, for the programs that measure.

/// This process and the thread that asks, as `/proc` names them. Another process is named by its number.
pub const THIS: &str = "thread-self";

/// Time the first thread of a process, or this thread, has run on a core, where the system tells; else 0.
pub fn cpu_seconds(process: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat")).unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|n| n.parse().ok());
    nanos.unwrap_or(0.0) / 1e9
}

/// High-water mark of the resident set of a process that runs, where the system tells.
pub fn peak_rss_kb(process: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
