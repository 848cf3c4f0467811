//! Polling threads on cores of their own. One test: there are few cores, and each has one worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_dpdk::{Burst, Eal, LaunchError, Mempool, PortConfig, free_burst, port};

#[test]
fn a_worker_moves_frames_and_gives_its_queues_back() {
    let eal = Eal::init(&["--no-huge", "--no-shconf", "--no-telemetry", "--file-prefix=weir-test"]).unwrap();
    let pool = Mempool::new(&eal, "workers", 1023, 64, 2048).unwrap();
    let core = eal.cores()[0];

    let panicked = eal.launch(core, || -> u32 { panic!("on purpose") }).unwrap().join();
    assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "on purpose");

    let (mut a, mut b) = port::ring_pair(&eal, "work", 255).unwrap();
    a.configure(&PortConfig::default(), &pool).unwrap();
    b.configure(&PortConfig::default(), &pool).unwrap();
    let (a, b) = (a.start().unwrap(), b.start().unwrap());
    let (mut tx, mut rx) = (a.tx_queue(0).unwrap(), a.rx_queue(0).unwrap());
    let (mut echo_rx, mut echo_tx) = (b.rx_queue(0).unwrap(), b.tx_queue(0).unwrap());

    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let worker = eal
        .launch(core, move || {
            let mut burst = Burst::new();
            let mut echoed = 0;
            while !stopped.load(Ordering::Relaxed) || !burst.is_empty() {
                echo_rx.receive(&mut burst);
                echoed += echo_tx.transmit(&mut burst);
            }
            (echoed, echo_rx, echo_tx)
        })
        .unwrap();
    let busy = eal.launch(core, || ()).unwrap_err();
    assert!(matches!(&busy, LaunchError::NoLcore { idle, .. } if !idle.contains(&core)), "{busy}");

    let mut burst: Burst = (0..32_u8).map(|i| pool.frame(&[i; 64]).unwrap()).collect();
    assert_eq!(tx.transmit(&mut burst), 32);
    while burst.len() < 32 {
        rx.receive(&mut burst);
        std::thread::yield_now();
    }
    stop.store(true, Ordering::Relaxed);
    let (echoed, echo_rx, echo_tx) = worker.join().unwrap();
    assert_eq!(echoed, 32);
    free_burst(&mut burst);
    assert_eq!(pool.in_use(), 0);

    let refused = b.stop().unwrap_err();
    assert_eq!(refused.queues, 2);
    drop((echo_rx, echo_tx));
    refused.port.stop().unwrap();
    eal.launch(core, || ()).expect("the core is idle again").join().unwrap();
}
