//! The end of the EAL. One test, as it ends once per process.

use weir_dataplane::frame::Frame;
use weir_dpdk::{Eal, EalError, Mempool, Port, PortConfig};

#[test]
fn the_last_handle_ends_the_eal_and_leaves_no_files() {
    let eal = Eal::init(&["-m", "64", "--vdev=net_null0"]).unwrap();
    let folder = eal.runtime_folder();
    assert!(folder.join("dpdk_telemetry.v2").exists(), "telemetry is up in {}", folder.display());
    assert!(!eal.can_capture(), "secondaries cannot attach without hugepages");
    let pool = Mempool::new(&eal, "last", 63, 0, 2048).unwrap();
    // Brought up by the argument; the port is taken over by name.
    let mut port = Port::probe(&eal, "net_null0").unwrap();
    port.configure(&PortConfig::default(), &pool).unwrap();
    let port = port.start().unwrap();
    let queue = port.rx_queue(0).unwrap();
    let frame = pool.frame(&[7; 60]).unwrap();
    drop((eal, pool, port));
    assert!(folder.exists(), "the queue keeps the EAL up");
    assert_eq!(frame.bytes(), [7; 60]);
    drop(frame);
    drop(queue);
    assert!(!folder.exists(), "{} is left", folder.display());
    assert!(matches!(Eal::init::<&str>(&[]), Err(EalError::AlreadyInitialised)));
}
