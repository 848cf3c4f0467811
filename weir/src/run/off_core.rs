//! How long the thread of a worker could run and had to wait, because its core did something else. The kernel counts
//! that; other threads read it, so that the worker pays nothing.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use weir_mgmt::snapshot::{OFF_CORE_FAULT, OffCore, off_core_words};

/// Says which thread a worker is, once it is one, and lets others ask about it.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Where the kernel counts its time.
    counters: Arc<OnceLock<PathBuf>>,
    start: Instant,
}

impl Thread {
    /// Of a worker that has not come up yet.
    pub fn new() -> Self {
        Self { counters: Arc::default(), start: Instant::now() }
    }

    /// The thread that calls this is the worker's.
    pub fn is_this_one(&self) {
        if let Ok(thread) = std::fs::read_link("/proc/thread-self") {
            let _ = self.counters.set(PathBuf::from("/proc").join(thread).join("schedstat"));
        }
    }

    /// What the kernel says now; `None`: it does not, or the thread has not come up or has ended.
    pub fn off_core(&self) -> Option<OffCore> {
        let text = std::fs::read_to_string(self.counters.get()?).ok()?;
        let at_ns = u64::try_from(self.start.elapsed().as_nanos()).ok()?;
        Some(OffCore { ns: run_delay(&text)?, at_ns })
    }
}

/// `schedstat`: time on a core, time waited for one (both in ns), times it was given one.
fn run_delay(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

/// What one worker's core did otherwise in a whole run.
#[derive(Clone, Copy, Debug)]
pub struct Absence {
    /// The core.
    pub lcore: usize,
    /// Time waited, ns; `None`: not known.
    pub ns: Option<u64>,
}

impl Absence {
    /// What to say of it, if it was more than a polling loop can do without.
    pub fn words(&self, run: Duration) -> Option<String> {
        let share = self.ns? as f64 / run.as_nanos().max(1) as f64;
        (share >= OFF_CORE_FAULT).then(|| format!("lcore {}: {}", self.lcore, off_core_words(share)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_how_long_a_thread_waited() {
        assert_eq!(run_delay("0 2593644 1\n"), Some(2_593_644));
        assert_eq!((run_delay(""), run_delay("12 x 3")), (None, None));
        let thread = Thread::new();
        assert_eq!(thread.off_core(), None, "it has not come up");
        let other = thread.clone();
        let (asked, ask) = std::sync::mpsc::channel::<()>();
        let (up, came_up) = std::sync::mpsc::channel();
        let worker = std::thread::spawn(move || {
            other.is_this_one();
            up.send(()).unwrap();
            ask.recv().unwrap();
        });
        came_up.recv().unwrap();
        let [first, second] = [thread.off_core(), thread.off_core()];
        asked.send(()).unwrap();
        worker.join().unwrap();
        if !std::path::Path::new("/proc/thread-self/schedstat").exists() {
            #[expect(clippy::print_stdout, reason = "a test says why it skips itself")]
            {
                println!("skipped: this kernel has no schedstat");
            }
            return;
        }
        let (first, second) = (first.unwrap(), second.unwrap());
        assert!(second.ns >= first.ns && second.at_ns > first.at_ns);
        assert_eq!(thread.off_core(), None, "it has ended");
    }

    #[test]
    fn a_worker_kept_off_its_core_is_named() {
        let run = Duration::from_secs(10);
        let said = |ns| Absence { lcore: 3, ns }.words(run);
        assert_eq!(
            said(Some(6_000_000_000)).unwrap(),
            "lcore 3: the worker was off its core 60 % of the time"
        );
        assert_eq!((said(Some(1_000_000)), said(None)), (None, None));
    }
}
