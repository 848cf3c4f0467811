//! What is given up is given up by every thread. Without DPDK: a process of its own, which nobody needs any more.

use std::sync::mpsc::{Receiver, channel};
use weir_dpdk::privileges::{NET_RAW, give_up};

/// Of each thread the capabilities it has and may get, and whether it may get more.
fn threads() -> Vec<(u64, u64, String)> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path().join("status"));
    let status = tasks.map(|path| std::fs::read_to_string(path).unwrap());
    let value = |status: &str, key: &str| {
        status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned()
    };
    let mask = |status: &str, key: &str| u64::from_str_radix(&value(status, key), 16).unwrap();
    status
        .map(|s| (mask(&s, "CapPrm:") | mask(&s, "CapEff:"), mask(&s, "CapBnd:"), value(&s, "NoNewPrivs:")))
        .collect()
}

#[test]
fn every_thread_gives_up_what_it_does_not_need() {
    let before = threads();
    let had_all = before.iter().all(|(held, ..)| held & 1 << 8 != 0);
    // One that waits, one that polls, and one that makes others all the time.
    let (over, wait): (_, Receiver<()>) = channel();
    let polls = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let waits = std::thread::spawn(move || wait.recv().is_err());
    let going = polls.clone();
    let busy = std::thread::spawn(move || {
        while going.load(std::sync::atomic::Ordering::Relaxed) {
            std::thread::spawn(|| ()).join().unwrap();
        }
    });
    give_up(NET_RAW).unwrap();
    polls.store(false, std::sync::atomic::Ordering::Relaxed);
    busy.join().unwrap();
    let after = threads();
    assert!(after.len() >= 3, "{after:?}");
    for (held, bounds, no_new) in &after {
        assert_eq!((held & !NET_RAW, no_new.as_str()), (0, "1"), "{after:?}");
        // Whoever has CAP_SETPCAP takes it from what may be had, too.
        assert!(!had_all || bounds & !NET_RAW == 0, "{after:?}");
    }
    // What is kept is kept, and a second time nothing is left to give up.
    assert!(!had_all || after.iter().all(|(held, ..)| *held == NET_RAW), "{after:?}");
    give_up(u64::MAX).unwrap();
    drop(over);
    assert!(waits.join().unwrap());
}
