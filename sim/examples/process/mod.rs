//! What the system knows about this process, for the programs that measure.

/// Time this thread has run on a core, where the system tells; else 0.
pub fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|n| n.parse().ok());
    nanos.unwrap_or(0.0) / 1e9
}

/// High-water mark of the resident set, where the system tells.
pub fn peak_rss_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
