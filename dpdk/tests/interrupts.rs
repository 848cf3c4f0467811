//! A peer that shares memory leaves while frames are under way to it. One test: it wants all cores busy, so that the
//! thread that polls loses its core in the middle of bursts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_dpdk::{Burst, Eal, Interrupts, Mempool, Port, PortConfig, Started, free_burst};

/// How often the peer comes and leaves.
const TIMES: u64 = 40;

fn devargs(role: &str, socket: &Path) -> String {
    let number = u8::from(role == "client");
    format!("net_memif{number},role={role},socket={},socket-abstract=no,bsize=10240", socket.display())
}

fn open(eal: &Eal, devargs: &str, pool: &Mempool) -> Port<Started> {
    let mut port = Port::probe(eal, devargs).unwrap();
    port.configure(&PortConfig::default(), pool).unwrap();
    port.start().unwrap()
}

fn until(what: impl Fn() -> bool) {
    let patience = Instant::now();
    while !what() {
        assert!(patience.elapsed() < Duration::from_secs(30), "it never comes to that");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_peer_that_leaves_takes_nothing_from_a_burst() {
    let args = ["--no-huge", "--no-shconf", "--no-telemetry", "--file-prefix=weir-interrupts", "-m", "256"];
    let eal = Eal::init(&args).unwrap();
    let pool = Mempool::new(&eal, "peers", 4095, 0, 10_240).unwrap();
    let dir = tempfile::tempdir().unwrap();
    // The driver keys its sockets by path, and one of its sockets cannot be both ends: two spellings.
    let [ours, theirs] = ["memif.sock", ".//memif.sock"].map(|name| dir.path().join(name));
    let server = open(&eal, &devargs("server", &ours), &pool);
    assert!(server.capabilities().unwrap().unsafe_interrupts);
    let interrupts = Interrupts::hold(&eal, [&server]).unwrap();

    let stop = Arc::new(AtomicBool::new(false));
    let worker = {
        let (mut rx, mut tx) = (server.rx_queue(0).unwrap(), server.tx_queue(0).unwrap());
        let (polling, stop, pool) = (interrupts.polling(), Arc::clone(&stop), pool.clone());
        eal.launch(eal.cores()[0], move || {
            let (mut burst, mut sent) = (Burst::new(), 0_u64);
            while !stop.load(Relaxed) {
                rx.receive(&mut burst);
                free_burst(&mut burst);
                burst.extend((0..32).map_while(|_| pool.frame(&[7; 9000]).ok()));
                sent += tx.transmit(&mut burst) as u64;
                free_burst(&mut burst);
                polling.between_bursts();
            }
            sent
        })
        .unwrap()
    };
    let hogs: Vec<_> = (0..3)
        .map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || while !stop.load(Relaxed) {})
        })
        .collect();
    let mut received = 0;
    for _ in 0..TIMES {
        let client = open(&eal, &devargs("client", &theirs), &pool);
        until(|| server.link().unwrap().up && client.link().unwrap().up);
        let mut rx = client.rx_queue(0).unwrap();
        let (mut burst, mut came) = (Burst::new(), 0);
        let patience = Instant::now();
        while came < 500 && patience.elapsed() < Duration::from_secs(30) {
            came += rx.receive(&mut burst);
            free_burst(&mut burst);
        }
        received += came as u64;
        drop((rx, client));
        until(|| !server.link().unwrap().up);
    }
    stop.store(true, Relaxed);
    let sent = worker.join().unwrap();
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
    assert!(received >= TIMES * 500 && sent >= received, "{received} of {sent}");
    drop(interrupts);
    drop(server);
    assert_eq!(pool.in_use(), 0);
}
