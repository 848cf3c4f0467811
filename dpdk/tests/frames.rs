//! Frames, pools and virtual ports. All tests share one EAL, so they run in one process or in one each.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arrayvec::ArrayVec;
use pcap_file::pcap::{PcapPacket, PcapWriter};
use weir_dataplane::frame::Frame;
use weir_dataplane::types::BURST;
use weir_dpdk::{
    Burst, Clock, Eal, EalError, FrameError, LinkWatch, MacControl, Mbuf, Mempool, MempoolError, Port,
    PortConfig, PortError, free_burst, port,
};

fn eal() -> &'static Eal {
    static EAL: OnceLock<Eal> = OnceLock::new();
    EAL.get_or_init(|| {
        Eal::init(&["--no-huge", "--no-shconf", "--no-telemetry", "--file-prefix=weir-test", "-m", "128"])
            .expect("EAL starts")
    })
}

fn pool(count: u32) -> Mempool {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    let name = format!("test{}", NAMES.fetch_add(1, Ordering::Relaxed));
    Mempool::new(eal(), &name, count, 0, 2048).expect("memory for a small pool")
}

/// `len` bytes that tell frames apart.
fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| seed.wrapping_add((i * 7) as u8)).collect()
}

fn started(mut port: Port<weir_dpdk::Stopped>, pool: &Mempool) -> Port<weir_dpdk::Started> {
    port.configure(&PortConfig::default(), pool).expect("port takes the defaults");
    port.start().expect("port starts")
}

#[test]
fn a_second_eal_is_refused_and_the_first_goes_on() {
    let _first = eal();
    assert!(matches!(Eal::init::<&str>(&[]), Err(EalError::AlreadyInitialised)));
    assert_eq!(pool(3).available(), 3);
}

#[test]
fn clashing_memory_options_are_named() {
    let version = eal().version();
    let error = Eal::init(&["--no-huge", "--in-memory"]).unwrap_err();
    if version.as_str() < "DPDK 25.11" {
        assert!(matches!(error, EalError::InMemoryWithoutHugepages), "{error}");
    }
}

#[test]
fn every_frame_comes_home() {
    const ALL: usize = 2 * BURST - 1;
    let pool = pool(ALL as u32);
    assert_eq!((pool.count(), pool.available(), pool.in_use()), (ALL as u32, ALL as u32, 0));
    let mut burst = Burst::new();
    assert!(pool.alloc_burst(&mut burst, BURST));
    assert!(!pool.alloc_burst(&mut burst, 1), "the burst is full");
    let mut held: Vec<Mbuf> = burst.drain(..).collect();
    held.extend(std::iter::from_fn(|| pool.alloc()));
    assert_eq!((held.len(), pool.in_use()), (ALL, ALL as u32));
    assert!(!pool.alloc_burst(&mut burst, 1), "the pool is empty");
    assert_eq!(pool.frame(&[0]).unwrap_err(), FrameError::PoolEmpty);
    burst.extend(held.drain(..20));
    free_burst(&mut burst);
    assert_eq!((burst.len(), pool.in_use()), (0, ALL as u32 - 20));
    drop(held);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_pool_outlived_by_a_frame_keeps_its_memory() {
    let pool = pool(7);
    let frame = pool.frame(&pattern(3, 60)).unwrap();
    drop(pool);
    assert_eq!(frame.bytes(), pattern(3, 60));
}

#[test]
fn a_pool_that_does_not_fit_says_how_much_it_needs() {
    let error = Mempool::new(eal(), "huge", 1 << 20, 0, 2048).unwrap_err();
    let MempoolError::NoMemory { mebibytes, .. } = &error else { panic!("{error}") };
    // Pages of 4 KiB hold one each.
    assert_eq!(*mebibytes, 4096, "{error}");
    assert!(matches!(Mempool::new(eal(), "", 3, 0, 64), Err(MempoolError::Name(_))));
    assert!(matches!(
        Mempool::new(eal(), "a name of far too many letters", 3, 0, 64),
        Err(MempoolError::Name(_))
    ));
    assert!(matches!(Mempool::new(eal(), "cache", 63, 64, 64), Err(MempoolError::Size { .. })));
    let _one = Mempool::new(eal(), "twin", 3, 0, 64).unwrap();
    assert!(matches!(Mempool::new(eal(), "twin", 3, 0, 64), Err(MempoolError::Name(_))));
}

#[test]
fn frames_grow_and_shrink_within_their_buffer() {
    let pool = pool(3);
    let mut frame = pool.frame(b"cdef").unwrap();
    assert!(frame.prepend(b"ab") && frame.append(b"gh"));
    assert_eq!((frame.bytes(), frame.len()), (&b"abcdefgh"[..], 8));
    assert!(frame.trim_front(1) && frame.truncate(5));
    assert_eq!(frame.bytes(), b"bcdef");
    assert!(!frame.trim_front(6) && !frame.truncate(6), "no more than there is");
    assert!(!frame.append(&[0; 2048]) && !frame.prepend(&[0; 200]), "no more than fits");
    assert!(!frame.append(&[0; 70_000]));
    assert_eq!(frame.bytes(), b"bcdef");
    frame.bytes_mut()[0] = b'B';
    assert_eq!(frame.bytes(), b"Bcdef");
    assert_eq!(pool.frame(&[0; 2049]).unwrap_err(), FrameError::TooLong { len: 2049, room: 2048 });
    assert_eq!(pool.frame(&[1; 2048]).unwrap().len(), 2048);
}

#[test]
fn a_tag_goes_into_the_headroom_and_out_again() {
    let pool = pool(2);
    let bytes = pattern(3, 80);
    let mut frame = pool.frame(&bytes).unwrap();
    let tag = [0x81, 0, 1, 2];
    assert!(frame.insert_tag(12, tag));
    assert_eq!(frame.bytes(), [&bytes[..12], &tag, &bytes[12..]].concat());
    assert_eq!(frame.len(), 84);
    let other = frame.share().unwrap();
    assert!(!frame.insert_tag(12, tag) && !frame.remove_tag(12), "others read it");
    assert!(frame.make_unique() && frame.remove_tag(12));
    assert_eq!((frame.bytes(), frame.len(), other.len()), (&bytes[..], 80, 84));
    drop(other);
    assert!(!frame.remove_tag(77) && !frame.insert_tag(81, tag));
    // As often as the headroom allows, and not once more.
    let inserted = (0..1000).take_while(|_| frame.insert_tag(0, tag)).count();
    assert_eq!(frame.len(), 80 + 4 * inserted);
    assert!((1..1000).contains(&inserted) && frame.bytes().ends_with(&bytes));
}

#[test]
fn a_shared_frame_is_written_only_after_a_copy() {
    let pool = pool(3);
    let mut one = pool.frame(&pattern(1, 100)).unwrap();
    let two = one.share().unwrap();
    assert_eq!(pool.in_use(), 1, "sharing takes no memory");
    assert!(!one.is_unique());
    assert!(one.bytes_mut().is_empty() && !one.append(&[0]) && !one.truncate(5), "others read it");
    assert!(one.make_unique());
    assert_eq!(pool.in_use(), 2);
    one.bytes_mut()[0] = 0xff;
    assert!(one.append(&[9]));
    assert_eq!(two.bytes(), pattern(1, 100));
    assert_eq!(one.len(), 101);
    drop(one);
    assert!(two.is_unique(), "the last handle may write");
    drop(two);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn without_memory_a_shared_frame_stays_as_it_is() {
    let pool = pool(1);
    let mut one = pool.frame(&pattern(1, 64)).unwrap();
    let two = one.share().unwrap();
    assert!(!one.make_unique());
    assert_eq!(one.bytes(), two.bytes());
    drop(two);
    assert!(one.make_unique());
}

#[test]
fn shared_handles_may_end_on_any_thread() {
    let pool = pool(15);
    let frame = pool.frame(&pattern(9, 200)).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut mine = frame.share().unwrap();
            std::thread::spawn(move || {
                assert!(mine.make_unique());
                mine.bytes_mut().fill(0);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(frame.bytes(), pattern(9, 200));
    drop(frame);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_ring_pair_delivers_in_order_and_byte_for_byte() {
    let pool = pool(255);
    {
        let (a, b) = port::ring_pair(eal(), "order", 255).unwrap();
        let (a, b) = (started(a, &pool), started(b, &pool));
        let (mut to_b, mut from_a) = (a.tx_queue(0).unwrap(), b.rx_queue(0).unwrap());
        let (mut to_a, mut from_b) = (b.tx_queue(0).unwrap(), a.rx_queue(0).unwrap());
        let mut burst = Burst::new();
        for round in 0..6_u8 {
            burst.extend(
                (0..20).map(|i| pool.frame(&pattern(round * 20 + i, 60 + usize::from(i) * 70)).unwrap()),
            );
            assert_eq!(to_b.transmit(&mut burst), 20);
            assert!(burst.is_empty());
        }
        let mut seen = 0_u8;
        while from_a.receive(&mut burst) > 0 {
            for frame in &burst {
                assert_eq!(frame.bytes(), pattern(seen, 60 + usize::from(seen % 20) * 70));
                seen += 1;
            }
            free_burst(&mut burst);
        }
        assert_eq!(seen, 120);
        assert_eq!(from_b.receive(&mut burst), 0, "nothing comes back");
        burst.push(pool.frame(b"back").unwrap());
        assert_eq!((to_a.transmit(&mut burst), from_b.receive(&mut burst)), (1, 1));
        assert_eq!(burst[0].bytes(), b"back");
        assert_eq!((a.stats().unwrap().tx_frames, b.stats().unwrap().rx_frames), (120, 120));
        // Left in the ring on purpose: closing the ports brings it home.
        assert_eq!(to_b.transmit(&mut burst), 1);
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn frames_are_appended_in_order_wherever_there_is_room() {
    use weir_dataplane::egress::BATCH_MAX;
    let pool = pool(2 * BURST as u32 - 1);
    for n in [0, 1, BATCH_MAX / 2, BATCH_MAX / 2 + 1, BATCH_MAX] {
        for behind in [0, 3, BURST - BATCH_MAX, BURST - BATCH_MAX + 1, BURST - n] {
            let behind = behind.min(BURST - n);
            let numbered = |number: usize| pool.frame(&(number as u32).to_le_bytes()).unwrap();
            let mut to: Burst = (0..behind).map(numbered).collect();
            let mut from: ArrayVec<Mbuf, BATCH_MAX> = (behind..behind + n).map(numbered).collect();
            <Mbuf as Frame>::append(&mut from, &mut to);
            assert!(from.is_empty());
            let all: Vec<_> = to.iter().map(|f| u32::from_le_bytes(f.bytes().try_into().unwrap())).collect();
            assert_eq!(all, (0..(behind + n) as u32).collect::<Vec<_>>());
        }
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn what_a_full_ring_refuses_stays_in_the_burst_in_order() {
    let pool = pool(127);
    let (a, b) = port::ring_pair(eal(), "full", 15).unwrap();
    let (a, b) = (started(a, &pool), started(b, &pool));
    let (mut tx, mut rx) = (a.tx_queue(0).unwrap(), b.rx_queue(0).unwrap());
    let mut burst: Burst = (0..32_u8).map(|i| pool.frame(&[i; 60]).unwrap()).collect();
    let firsts = |burst: &Burst| burst.iter().map(|f| f.bytes()[0]).collect::<Vec<_>>();
    assert_eq!(tx.transmit(&mut burst), 15);
    assert_eq!(firsts(&burst), (15..32).collect::<Vec<u8>>());
    assert_eq!(tx.transmit(&mut burst), 0);
    assert_eq!(burst.len(), 17);
    let mut got = Burst::new();
    assert_eq!(rx.receive(&mut got), 15);
    assert_eq!(tx.transmit(&mut burst), 15);
    assert_eq!(rx.receive(&mut got), 15, "appends to what is there");
    assert_eq!(firsts(&got), (0..30).collect::<Vec<u8>>());
    assert_eq!(firsts(&burst), [30, 31]);
    assert_eq!(rx.receive(&mut got), 0);
}

#[test]
fn a_queue_has_one_owner_and_a_port_runs_while_it_is_used() {
    let pool = pool(31);
    let (a, b) = port::ring_pair(eal(), "owner", 15).unwrap();
    let a = started(a, &pool);
    let mut tx = a.tx_queue(0).unwrap();
    assert!(matches!(a.tx_queue(0), Err(PortError::NoQueue { .. })));
    assert!(matches!(a.rx_queue(1), Err(PortError::NoQueue { .. })));
    let refused = a.stop().unwrap_err();
    assert_eq!(refused.queues, 1);
    let a = refused.port;
    // The port handle goes, the queue stays valid.
    drop(a);
    let mut burst: Burst = [pool.frame(&[1; 60]).unwrap()].into_iter().collect();
    assert_eq!(tx.transmit(&mut burst), 1);
    drop(tx);
    let b = started(b, &pool);
    let rx = b.rx_queue(0).unwrap();
    drop(rx);
    let b = b.stop().unwrap().start().expect("a stopped port starts again");
    let mut rx = b.rx_queue(0).expect("a dropped queue can be taken again");
    assert_eq!(rx.receive(&mut burst), 1);
}

#[test]
fn a_port_that_does_not_start_is_given_back() {
    let pool = pool(31);
    let port = Port::probe(eal(), "net_null7").unwrap();
    let refused = port.start().unwrap_err();
    assert!(matches!(refused.source, PortError::NotConfigured(_)), "{refused}");
    let port = started(refused.port, &pool);
    assert_eq!(port.name(), "net_null7");
    assert!(matches!(Port::probe(eal(), "net_null7"), Err(PortError::InUse(_))), "one owner");
    drop(port);
    Port::probe(eal(), "net_null7").expect("a closed port can be attached again");
}

#[test]
fn what_cannot_be_attached_or_configured_is_explained() {
    assert!(matches!(Port::probe(eal(), "net_nosuch0"), Err(PortError::Probe { .. })));
    assert!(matches!(Port::probe(eal(), ""), Err(PortError::Name(_))));
    assert!(matches!(Port::probe(eal(), "net_null\0"), Err(PortError::Name(_))));
    assert!(matches!(Port::probe(eal(), "0000:00:99.0"), Err(PortError::Probe { .. })));
    let pool = pool(31);
    let mut port = Port::probe(eal(), "net_null8").unwrap();
    let refuse = |port: &mut Port<_>, config: PortConfig| match port.configure(&config, &pool) {
        Err(PortError::Config { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let what = refuse(&mut port, PortConfig { rx_queues: 0, ..PortConfig::default() });
    assert!(what.contains("0 RX queues"), "{what}");
    let what = refuse(&mut port, PortConfig { mtu: Some(9000), ..PortConfig::default() });
    assert!(what.contains("9000") && what.contains("2048"), "{what}");
}

#[test]
fn net_null_gives_and_takes_frames() {
    let pool = pool(4 * BURST as u32 - 1);
    {
        let port = started(Port::probe(eal(), "net_null0,size=128").unwrap(), &pool);
        let (mut rx, mut tx) = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
        let mut burst = Burst::new();
        assert_eq!(rx.receive_at_most(&mut burst, 32), 32);
        assert_eq!(rx.receive(&mut burst), BURST - 32);
        assert_eq!(rx.receive(&mut burst), 0, "a full burst takes no more");
        assert!(burst.iter().all(|f| f.len() == 128));
        assert_eq!(tx.transmit(&mut burst), BURST);
        let stats = port.stats().unwrap();
        assert_eq!((stats.rx_frames, stats.tx_frames, stats.rx_missed), (BURST as u64, BURST as u64, 0));
        let xstats = port.xstats().unwrap();
        assert!(xstats.contains(&("rx_good_packets".to_owned(), BURST as u64)), "{xstats:?}");
        assert_ne!(port.mac().unwrap().to_u64(), 0);
        assert!(port.mtu().unwrap() >= 1500);
        let mut watch = LinkWatch::default();
        assert!(watch.poll(&port).unwrap().expect("the first look tells").up);
        assert_eq!(watch.poll(&port).unwrap(), None);
        let port = {
            drop((rx, tx));
            port.stop().unwrap()
        };
        assert!(!watch.poll(&port).unwrap().expect("stopping is a change").up);
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn net_pcap_replays_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    let frames: Vec<Vec<u8>> = (0..40_u8).map(|i| pattern(i, 60 + usize::from(i))).collect();
    std::fs::write(&input, pcap(&frames)).unwrap();
    let pool = pool(511);
    {
        let devargs = format!("net_pcap0,rx_pcap={},tx_pcap={}", input.display(), output.display());
        let port = started(Port::probe(eal(), &devargs).unwrap(), &pool);
        let (mut rx, mut tx) = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
        let mut burst = Burst::new();
        let mut seen = frames.iter();
        while rx.receive(&mut burst) > 0 {
            for frame in &burst {
                assert_eq!(frame.bytes(), seen.next().unwrap());
            }
            let n = burst.len();
            assert_eq!(tx.transmit(&mut burst), n);
        }
        assert_eq!(seen.len(), 0);
    }
    assert_eq!(pool.in_use(), 0);
    let written = std::fs::read(&output).unwrap();
    assert_eq!(written.len(), pcap(&frames).len());
    assert!(written.ends_with(&frames[39]));
}

/// A capture in the classic format: microseconds, Ethernet.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = PcapWriter::new(Vec::new()).unwrap();
    for frame in frames {
        file.write_packet(&PcapPacket::new(Duration::ZERO, frame.len() as u32, frame)).unwrap();
    }
    file.into_writer()
}

#[test]
fn virtual_ports_are_known_to_see_pfc_frames() {
    let (a, _b) = port::ring_pair(eal(), "caps", 15).unwrap();
    let caps = a.capabilities().unwrap();
    assert_eq!((caps.driver.as_str(), caps.is_virtual), ("net_ring", true));
    assert_eq!((caps.mac_control, caps.kernel_side), (MacControl::Visible, false));
    assert!(caps.max_rx_queues >= 1 && !caps.rx_timestamp && !caps.link_pause);
}

#[test]
fn the_clock_never_goes_back_and_is_about_right() {
    let clock = Clock::new(eal());
    let began = std::time::Instant::now();
    let first = clock.now();
    let mut last = first;
    for _ in 0..10_000 {
        let now = clock.now();
        assert!(now >= last);
        last = now;
    }
    std::thread::sleep(Duration::from_millis(20));
    let slept = clock.now() - first;
    assert!(slept >= 19_000_000, "{slept}");
    assert!(u128::from(slept) < began.elapsed().as_nanos() * 11 / 10);
}

#[test]
fn the_callers_threads_keep_their_cores() {
    let before = std::thread::available_parallelism().unwrap();
    let cores = eal().cores();
    let after = std::thread::spawn(|| std::thread::available_parallelism().unwrap()).join().unwrap();
    assert_eq!((before, cores.len()), (after, after.get()));
}

#[test]
fn a_pool_of_one_lcore_gives_out_what_came_back_last() {
    let pool = Mempool::of_one_lcore(eal(), "own", 63, 0, 2048, None).unwrap();
    let at = |frame: &Mbuf| frame.bytes().as_ptr() as usize;
    let (first, second) = (pool.alloc().unwrap(), pool.alloc().unwrap());
    let places = [at(&first), at(&second)];
    drop(first);
    drop(second);
    let again: Vec<_> = (0..2).map(|_| pool.alloc().unwrap()).collect();
    assert_eq!([at(&again[1]), at(&again[0])], places);
    drop(again);
    assert_eq!((pool.available(), pool.in_use()), (63, 0));
}
