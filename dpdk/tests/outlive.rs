//! A frame held longer than everything else. One test, as the EAL starts once per process.

use weir_dataplane::frame::Frame;
use weir_dpdk::{Eal, Mempool};

#[test]
fn a_frame_that_outlives_the_eal_keeps_its_memory() {
    let eal = Eal::init(&["--no-huge", "--no-shconf", "--no-telemetry", "--file-prefix=weir-test"]).unwrap();
    let pool = Mempool::new(&eal, "outlive", 63, 0, 2048).unwrap();
    let mut frame = pool.frame(&[7; 60]).unwrap();
    drop((pool, eal));
    let shared = frame.share().unwrap();
    assert!(frame.make_unique(), "its pool is still there");
    frame.bytes_mut()[0] = 8;
    assert_eq!((frame.bytes()[0], shared.bytes()), (8, &[7; 60][..]));
}
