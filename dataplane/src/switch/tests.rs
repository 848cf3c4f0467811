//! The verbs on a small switch, frame by frame.

use super::mirror::{MirrorParams, MirrorTo};
use super::*;
use crate::classify::{Classifier, Maps, default_trust};
use crate::drops::DropReason;
use crate::egress::{Discipline, QueueSchedule, VoqOrder};
use crate::frame::OwnedFrame;
use crate::mmu::{Limit, MmuParams, PgParams};
use crate::parse::Profile;
use crate::pfc::generate::{GenerateConfig, REFRESH};
use crate::pfc::react::{ReactConfig, RxMode};
use crate::portset::PortSet;
use crate::stats::LoopStats;
use crate::types::{BURST, Burst, Mac};
use std::cell::Cell;
use std::rc::Rc;

#[path = "anew_tests.rs"]
mod anew;
#[path = "dice.rs"]
pub(super) mod dice;
#[path = "early_drop_tests.rs"]
mod early_drop;
#[path = "explain_tests.rs"]
mod explaining;
#[path = "handoff_tests.rs"]
mod handoff;
#[path = "held_tests.rs"]
mod held;
#[path = "lanes_tests.rs"]
mod lanes;
#[path = "shard_bed.rs"]
mod shard_bed;
#[path = "storm_control_tests.rs"]
mod storm_control;
#[path = "walk_tests.rs"]
mod walk;

/// A wire that takes at most `room` frames per call and remembers what it took.
#[derive(Default)]
pub(super) struct Tap {
    room: usize,
    pub(super) frames: Vec<Vec<u8>>,
    control: Vec<Vec<u8>>,
}

impl Tap {
    /// One that takes `room` frames per call.
    pub(super) fn of(room: usize) -> Self {
        Self { room, ..Self::default() }
    }
}

impl Wire<OwnedFrame> for Tap {
    fn send(&mut self, frames: &mut Burst<OwnedFrame>) -> usize {
        let n = frames.len().min(self.room);
        self.frames.extend(frames.drain(..n).map(|f| f.bytes().to_vec()));
        n
    }

    fn send_control(&mut self, frame: &[u8]) -> bool {
        self.control.push(frame.to_vec());
        true
    }
}

fn port(index: usize) -> PortParams {
    let same = std::array::from_fn(|i| i as u8);
    let bits = std::array::from_fn(|i| 1 << i);
    PortParams {
        mac: Mac::from_u64(0x0200_0000_ff00 + index as u64),
        mtu: 9216,
        rate: None,
        admin_down: false,
        burst: 0,
        profile: Profile::standard(),
        complete_checksums: false,
        classifier: Classifier::new(&Maps::default(), &default_trust()).unwrap(),
        unknown_unicast: UnknownUnicast::Flood,
        link_local: 1,
        lldp: false,
        lacp: false,
        storm_control: None,
        vlans: None,
        learning: true,
        learn_limit: 1000,
        queues: [QueueSchedule::STRICT; PRIORITIES],
        mark: [None; PRIORITIES],
        early_drop: [None; PRIORITIES],
        react: ReactConfig {
            rate: 100_000_000_000,
            enabled: 0xff,
            mode: RxMode::Enabled,
            pfc_to_queue: same,
        },
        generate: GenerateConfig { rate: 100_000_000_000, enabled: 0xff, quanta: 0xffff, refresh: REFRESH },
        pg_priorities: bits,
        pg_queues: bits,
        control_pool: false,
        shard: 0,
        tx_per_lcore: false,
    }
}

pub(super) fn params(ports: usize) -> SwitchParams {
    SwitchParams {
        ports: (0..ports).map(port).collect(),
        mmu: MmuParams::lossy(ports, 1 << 20),
        frames: 1024,
        voq: VoqOrder::Fair,
        flow_cache: 256,
        fdb_capacity: 256,
        ageing: None,
        copied: 1024,
        observed: true,
        stations: Vec::new(),
        groups: Vec::new(),
        lags: Vec::new(),
        mirrors: Vec::new(),
        watchdog: None,
        flows: None,
        seed: 1,
    }
}

fn host(n: u64) -> Mac {
    Mac::from_u64(0x0200_0000_0000 + n)
}

/// An IPv4 frame of `len` bytes with this DSCP, from host to host.
pub(super) fn frame(from: u64, to: u64, dscp: u8, len: usize) -> OwnedFrame {
    let mut bytes = vec![0; len];
    bytes[..6].copy_from_slice(&host(to).0);
    bytes[6..12].copy_from_slice(&host(from).0);
    bytes[12..16].copy_from_slice(&[0x08, 0x00, 0x45, dscp << 2 | 2]);
    bytes[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
    OwnedFrame::new(bytes)
}

pub(super) fn receive<O: Observer>(
    switch: &mut Switch<OwnedFrame, Mmu, O>,
    at: u16,
    frames: impl IntoIterator<Item = OwnedFrame>,
    now: Nanos,
) {
    let mut burst: Burst<_> = frames.into_iter().collect();
    switch.receive(PortId(at), &mut burst, now);
    assert!(burst.is_empty());
}

pub(super) fn transmit<O: Observer>(switch: &mut Switch<OwnedFrame, Mmu, O>, at: u16, now: Nanos) -> Tap {
    let mut tap = Tap { room: BURST, ..Tap::default() };
    while switch.transmit(PortId(at), BURST, now, &mut tap) > 0 {}
    tap
}

/// Two shards with a port each; the first one knows that station 2 is behind port 1, which is the second's.
fn two_shards(params: SwitchParams) -> [Switch<OwnedFrame>; 2] {
    let mut params = params;
    params.ports[1].shard = 1;
    let shards = Switch::<OwnedFrame>::sharded(&params, 2).unwrap();
    let [mut a, mut b]: [_; 2] = shards.try_into().unwrap();
    receive(&mut b, 1, [frame(2, 9, 0, 64)], 0);
    a.tick(0);
    transmit(&mut a, 0, 0);
    b.tick(0);
    [a, b]
}

pub(super) fn assert_conserved<O: Observer>(switch: &Switch<OwnedFrame, Mmu, O>) {
    assert_eq!(switch.conservation().error(), 0, "{:?}", switch.conservation());
    switch.admission().audit().unwrap();
}

#[test]
fn unknown_floods_once_known_goes_one_way() {
    let mut s = Switch::new(params(4)).unwrap();
    receive(&mut s, 0, [frame(1, 2, 0, 64)], 0);
    for out in 1..4 {
        assert_eq!(transmit(&mut s, out, 0).frames.len(), 1);
    }
    assert_eq!(transmit(&mut s, 0, 0).frames.len(), 0, "never back to where it came from");
    receive(&mut s, 2, [frame(2, 1, 0, 64)], 0);
    assert_eq!(transmit(&mut s, 0, 0).frames, [frame(2, 1, 0, 64).bytes()]);
    assert_eq!([1, 3].map(|out| transmit(&mut s, out, 0).frames.len()), [0, 0]);
    assert_eq!((s.held(), s.admission().held_bytes()), (0, 0));
    assert_conserved(&s);
}

#[test]
fn b16_a_flooded_frame_is_charged_once_and_released_with_its_last_copy() {
    let mut s = Switch::new(params(4)).unwrap();
    receive(&mut s, 0, [frame(1, 9, 0, 100)], 0);
    assert_eq!((s.admission().held_bytes(), s.admission().queued_bytes()), (100, 300));
    transmit(&mut s, 1, 0);
    transmit(&mut s, 3, 0);
    assert_eq!((s.admission().held_bytes(), s.admission().queued_bytes()), (100, 100));
    transmit(&mut s, 2, 0);
    assert_eq!((s.admission().held_bytes(), s.admission().queued_bytes()), (0, 0));
    assert_conserved(&s);
}

/// Flooded frames share batches, and drivers take parts of those: each frame is released with its own last copy, in
/// whatever order counts come back.
#[test]
fn b16_flooded_frames_leave_together_and_are_released_one_by_one() {
    let mut params = params(4);
    params.ports.iter_mut().for_each(|port| port.queues = std::array::from_fn(weighted));
    let mut s = Switch::new(params).unwrap();
    let (mut rng, mut now) = (crate::rng::Rng::new(7), 0);
    let mut sent = [0; 4];
    let mut lens: Vec<usize> = Vec::new();
    for _ in 0..500 {
        now += 1000;
        let n = rng.next_u32() as usize % 24;
        let runs = rng.next_u32() as usize % 8 + 1;
        let burst: Vec<_> = (0..n).map(|i| frame(1, 9, 0, 100 + i / runs * 10)).collect();
        lens.extend(burst.iter().map(|frame| frame.bytes().len()));
        receive(&mut s, 0, burst, now);
        for out in 1..4 {
            let mut tap = Tap { room: rng.next_u32() as usize % 40, ..Tap::default() };
            sent[out] += s.transmit(PortId(out as u16), rng.next_u32() as usize % 60, now, &mut tap);
            let order: Vec<_> = tap.frames.iter().map(Vec::len).collect();
            assert_eq!(order, lens[sent[out] - order.len()..sent[out]]);
        }
        let left = |out: usize| lens[sent[out]..].iter().sum::<usize>() as u64;
        let most = (1..4).map(left).max().unwrap();
        let all = (1..4).map(left).sum::<u64>();
        assert_eq!((s.admission().held_bytes(), s.admission().queued_bytes()), (most, all));
        assert_conserved(&s);
    }
    (1..4).for_each(|out| drop(transmit(&mut s, out, now)));
    assert_eq!((s.held(), s.admission().held_bytes()), (0, 0));
    assert!(s.copies.are_free() && lens.len() > 5000);
}

/// A frame whose copies sometimes find no memory.
#[derive(Debug)]
struct Scarce(OwnedFrame, Rc<Cell<u64>>);

impl Frame for Scarce {
    type Row = crate::frame::SizedFrames<Self>;
    type Staged = Burst<Self>;

    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
    fn share(&self) -> Option<Self> {
        let asked = self.1.replace(self.1.get() + 1);
        (asked % 7 > 1).then(|| Self(self.0.clone(), Rc::clone(&self.1)))
    }
    fn make_unique(&mut self) -> bool {
        true
    }
}

/// Takes all, and remembers lengths.
struct Lengths(Vec<usize>);

impl Wire<Scarce> for Lengths {
    fn send(&mut self, frames: &mut Burst<Scarce>) -> usize {
        let n = frames.len();
        self.0.extend(frames.drain(..).map(|frame| frame.len()));
        n
    }
    fn send_control(&mut self, _: &[u8]) -> bool {
        true
    }
}

#[test]
fn copies_that_find_no_memory_are_counted_and_the_others_leave_in_order() {
    let mut s = Switch::<Scarce>::new(params(4)).unwrap();
    let asked = Rc::new(Cell::new(0));
    let mut sent = 0;
    for round in 0..100 {
        // Of one length, so that they share batches, or of several.
        let len = |n: usize| if round % 2 == 0 { 100 } else { 100 + n / 3 };
        let of_len = |n| Scarce(frame(1, 9, 0, len(n)), Rc::clone(&asked));
        let mut burst: Burst<_> = (0..round).map(of_len).collect();
        s.receive(PortId(0), &mut burst, round as u64);
        for out in 1..4 {
            let mut wire = Lengths(Vec::new());
            while s.transmit(PortId(out), BURST, round as u64, &mut wire) > 0 {}
            assert!(wire.0.is_sorted());
            sent += wire.0.len() as u64;
        }
        assert_eq!((s.held(), s.admission().held_bytes(), s.admission().queued_bytes()), (0, 0, 0));
        assert_eq!(s.conservation().error(), 0);
    }
    let lost = s.stats(PortId(0)).drops.0[DropReason::IngressNoCopy as usize];
    let frames = (0..100).sum::<u64>();
    assert_eq!((asked.get(), sent + lost), (2 * frames, 3 * frames));
    assert!(lost > frames / 2 && s.copies.are_free());
}

/// What a reader of a mirror lacks is no loss of the class that the frame is of, whatever group 0 of port 0 is.
#[test]
fn a_copy_for_a_reader_that_finds_no_memory_is_no_lossless_loss() {
    let mut p = params(2);
    let limit = Limit::fixed(10_000);
    let pg = PgParams { reserved: 0, limit, headroom: 2000, xon: 500, xon_offset: 0, lossless: true };
    p.mmu.pgs.fill(pg);
    let to = MirrorTo::Reader { number: 1, bytes: 64 };
    let both = [0, 1].map(PortId).into_iter().collect();
    p.mirrors = vec![MirrorParams { rx: PortSet::EMPTY, tx: both, to, filter: Filter::default() }];
    let mut s = Switch::<Scarce>::new(p).unwrap();
    let _reader = s.read_mirrors();
    let asked = Rc::new(Cell::new(0));
    let scarce = |source| Scarce(frame(source, 3 - source, 0, 100), Rc::clone(&asked));
    s.receive(PortId(1), &mut [scarce(2)].into_iter().collect(), 0);
    for now in 1..20 {
        s.receive(PortId(0), &mut [scarce(1)].into_iter().collect(), now);
        s.transmit(PortId(1), BURST, now, &mut Lengths(Vec::new()));
    }
    let stats = s.stats(PortId(1));
    let reason = DropReason::IngressNoCopy as usize;
    assert!(stats.drops.0[reason] > 0, "{stats:?}");
    assert_eq!(stats.lossless.0[reason], 0);
}

#[test]
fn a_driver_that_takes_part_of_a_burst_keeps_the_order() {
    let mut s = Switch::new(params(2)).unwrap();
    receive(&mut s, 1, [frame(2, 9, 0, 64)], 0);
    transmit(&mut s, 0, 0);
    receive(&mut s, 0, (0..20).map(|i| frame(1, 2, 0, 64 + i)), 0);
    let mut tap = Tap { room: 3, ..Tap::default() };
    for _ in 0..7 {
        s.transmit(PortId(1), BURST, 0, &mut tap);
        assert_conserved(&s);
    }
    let lens: Vec<_> = tap.frames.iter().map(Vec::len).collect();
    assert_eq!(lens, (64..84).collect::<Vec<_>>());
    assert_eq!(s.admission().held_bytes(), 0);
}

#[test]
fn flooded_frames_of_a_burst_overtake_nobody() {
    let mut s = Switch::new(params(3)).unwrap();
    receive(&mut s, 1, [frame(2, 9, 0, 64)], 0);
    // Both ends known, so that the next burst finds a decision about every second of its frames.
    receive(&mut s, 0, [frame(1, 2, 0, 64)], 0);
    receive(&mut s, 0, [frame(1, 2, 0, 64)], 0);
    (0..3).for_each(|out| drop(transmit(&mut s, out, 0)));
    receive(&mut s, 0, (0..40).map(|i| frame(1, if i % 2 == 0 { 2 } else { 9 }, 0, 64 + i)), 0);
    let lens: Vec<_> = transmit(&mut s, 1, 0).frames.iter().map(Vec::len).collect();
    assert_eq!(lens, (64..104).collect::<Vec<_>>());
    assert_conserved(&s);
}

/// Queues with weights so different that turns end everywhere within batches.
fn weighted(n: usize) -> QueueSchedule {
    let discipline = Discipline::Dwrr([3, 10, 40, 50, 1, 1, 1, 1][n]);
    QueueSchedule { discipline, level: 0, cir: None, pir: None }
}

/// A burst from station 1 to station 2 of four priorities in turn, of these lengths (0: all differ), with numbers.
fn four_priorities(lens: [usize; 4]) -> impl Iterator<Item = OwnedFrame> {
    (0..BURST).map(move |n| {
        let len = match lens[n % 4] {
            0 => 64 + n,
            len => len,
        };
        let mut bytes = frame(1, 2, (n % 4 * 8) as u8, len).bytes().to_vec();
        bytes[40..42].copy_from_slice(&(n as u16).to_be_bytes());
        OwnedFrame::new(bytes)
    })
}

#[test]
fn frames_in_packs_leave_in_the_order_they_would_one_by_one() {
    // By length: all alike in a queue, so that batches are split, or not.
    for (lens, rate) in
        [([100, 1500, 64, 300], None), ([100, 1500, 64, 0], None), ([64; 4], Some(1_000_000_000))]
    {
        let run = |together: bool| {
            let mut p = params(2);
            p.ports[1].queues = std::array::from_fn(weighted);
            (p.ports[1].rate, p.ports[1].burst) = (rate, 1000);
            let mut s = Switch::new(p).unwrap();
            receive(&mut s, 1, [frame(2, 9, 0, 64)], 0);
            receive(&mut s, 0, [frame(1, 2, 0, 64)], 0);
            (0..2).for_each(|out| drop(transmit(&mut s, out, 0)));
            let frames = four_priorities(lens);
            if together {
                receive(&mut s, 0, frames, 0);
            } else {
                // Each has a time of its own, and so a batch.
                frames.enumerate().for_each(|(n, frame)| receive(&mut s, 0, [frame], n as u64));
            }
            let mut tap = Tap { room: BURST, ..Tap::default() };
            // Budgets end within batches, too.
            for now in (1000..).step_by(1000).take(3000) {
                s.transmit(PortId(1), [7, 1, 40, 256][now as usize / 1000 % 4], now, &mut tap);
                assert_conserved(&s);
            }
            assert_eq!((s.held(), s.admission().held_bytes()), (0, 0));
            tap.frames
        };
        let apart = run(false);
        assert_eq!(apart.len(), BURST);
        assert!(run(true) == apart, "{lens:?}");
    }
}

#[test]
fn frames_refused_together_are_counted_as_they_would_be_one_by_one() {
    // Some fit: the queue may hold half of the buffer, or the group all but a little of it.
    let group = PgParams { limit: Limit::fixed(3000), ..MmuParams::lossy(2, 20_000).pgs[0] };
    for (pg, reason) in [(None, DropReason::EgressQueueFull), (Some(group), DropReason::IngressShared)] {
        for lens in [[64, 64, 64], [64, 1500, 64], [300, 300, 1500]] {
            let run = |together: bool| {
                let mut p = params(2);
                p.mmu = MmuParams::lossy(2, 20_000);
                if let Some(pg) = pg {
                    p.mmu.pgs.fill(pg);
                }
                let mut s = Switch::new(p).unwrap();
                receive(&mut s, 1, [frame(2, 9, 0, 64)], 0);
                transmit(&mut s, 0, 0);
                // Frames of one length come in runs longer than a batch.
                let frames = (0..250).map(|n| frame(1, 2, n as u8 % 2, lens[n / 84]));
                if together {
                    receive(&mut s, 0, frames, 0);
                } else {
                    frames.for_each(|frame| receive(&mut s, 0, [frame], 0));
                }
                assert_conserved(&s);
                let (from, to) = (s.stats(PortId(0)), s.stats(PortId(1)));
                let lost = from.drops.0[reason as usize] + to.drops.0[reason as usize];
                assert!(lost > 50, "{reason:?} {lost}");
                let counted = (from.pg_drops, to.queue_drops, from.drops.0, to.drops.0, s.held());
                (counted, transmit(&mut s, 1, 1).frames)
            };
            let (together, apart) = (run(true), run(false));
            assert!(together == apart, "{lens:?}: {:?}, {:?}", together.0, apart.0);
        }
    }
}

#[test]
fn frames_nobody_may_forward_are_dropped_with_a_reason() {
    let mut p = params(2);
    p.ports[0].mtu = 1514;
    let mut s = Switch::new(p).unwrap();
    receive(&mut s, 1, [frame(2, 9, 0, 64)], 0);
    transmit(&mut s, 0, 0);
    let mut reserved = frame(1, 2, 0, 64).bytes().to_vec();
    reserved[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x0e]);
    let mut group_source = frame(1, 2, 0, 64).bytes().to_vec();
    group_source[6] = 0x03;
    let back = frame(2, 2, 0, 64);
    receive(
        &mut s,
        0,
        [OwnedFrame::new([]), OwnedFrame::new(reserved), OwnedFrame::new(group_source), frame(1, 2, 0, 1515)],
        0,
    );
    receive(&mut s, 1, [back], 0);
    let at = |port, reason: DropReason| s.stats(PortId(port)).drops.0[reason as usize];
    assert_eq!(at(0, DropReason::ParseTooShort), 1);
    assert_eq!(at(0, DropReason::ControlReserved), 1);
    assert_eq!(at(0, DropReason::ParseGroupSource), 1);
    assert_eq!(at(0, DropReason::ParseTooLong), 1);
    assert_eq!(at(1, DropReason::LookupSamePort), 1);
    assert_conserved(&s);
}

/// A bridge without STP lets the BPDUs of others through: it would hide their loops from them. MAC control stays.
#[test]
fn link_local_frames_are_passed_on_as_asked() {
    let reserved = |last: u8, ethertype: u16, len: usize| {
        let mut bytes = vec![0; len];
        bytes[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, last]);
        bytes[6..12].copy_from_slice(&host(1).0);
        bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
        OwnedFrame::new(bytes)
    };
    let with = |at: usize, byte: u8, len: usize| {
        let mut bytes = reserved(0, 46, len).bytes().to_vec();
        bytes[at] = byte;
        OwnedFrame::new(bytes)
    };
    for (link_local, passed) in [(1, vec![0]), (0, vec![]), (!2, (0..16).filter(|last| *last != 1).collect())]
    {
        let mut p = params(3);
        p.ports.iter_mut().for_each(|port| port.link_local = link_local);
        let mut s = Switch::new(p).unwrap();
        receive(&mut s, 0, (0..16).map(|last| reserved(last, 46, 60)), 0);
        let seen: Vec<u8> = transmit(&mut s, 2, 0).frames.iter().map(|f| f[5]).collect();
        assert_eq!((&seen, transmit(&mut s, 1, 0).frames.len()), (&passed, passed.len()));
        assert!(transmit(&mut s, 0, 0).frames.is_empty());
        // PAUSE ends here, wherever it is sent to; what is too long for a port is too long for this, too.
        receive(&mut s, 0, [reserved(0, 0x8808, 60), reserved(1, 0x8808, 60), reserved(0, 46, 9217)], 0);
        assert_eq!(s.stats(PortId(0)).rx_control, 2);
        assert_eq!(s.stats(PortId(0)).drops.0[DropReason::ParseTooLong as usize], 1);
        assert_eq!(
            s.stats(PortId(0)).drops.0[DropReason::ControlReserved as usize],
            16 - passed.len() as u64
        );
        // What is no frame of anybody is none of a bridge.
        receive(&mut s, 0, [with(6, 0x03, 60), reserved(0, 0x8100, 17)], 0);
        let refused = [DropReason::ParseGroupSource, DropReason::ParseTruncatedVlan];
        assert_eq!(refused.map(|reason| s.stats(PortId(0)).drops.0[reason as usize]), [1, 1]);
        // Nobody was learned from them.
        receive(&mut s, 1, [frame(2, 1, 0, 64)], 0);
        assert_eq!(transmit(&mut s, 2, 0).frames.len(), 1);
        transmit(&mut s, 0, 0);
        assert_conserved(&s);
    }
}

#[test]
fn a_filling_group_pauses_its_sender_and_resumes_it() {
    let mut p = params(2);
    let lossless = PgParams {
        reserved: 0,
        limit: Limit::fixed(1000),
        headroom: 2000,
        xon: 500,
        xon_offset: 0,
        lossless: true,
    };
    p.mmu.pgs[3] = lossless;
    p.mmu.queues.iter_mut().for_each(|q| q.limit = Limit::UNLIMITED);
    let mut s = Switch::new(p.clone()).unwrap();
    receive(&mut s, 1, [frame(2, 9, 0, 64)], 0);
    transmit(&mut s, 0, 0);
    receive(&mut s, 0, (0..10).map(|_| frame(1, 2, 24, 100)), 10);
    assert!(transmit(&mut s, 0, 10).control.is_empty(), "at the line is not over it");
    receive(&mut s, 0, [frame(1, 2, 24, 100)], 20);
    let control = transmit(&mut s, 0, 20).control;
    assert_eq!(control.len(), 1);
    assert_eq!((control[0][17], &control[0][24..26]), (1 << 3, &[0xff, 0xff][..]));
    assert_eq!(&control[0][6..12], &port(0).mac.0);
    let cause = s.generator(PortId(0)).cause(3).unwrap();
    assert_eq!((cause.out_port, cause.queue), (1, 3));
    // Whoever fills the group from now on is paused for the same queue.
    let mut others = p.clone();
    others.ports[0].pg_priorities[3] |= 1 << 5;
    s.apply(&mut Change::between(&p, &others).unwrap(), 25).unwrap();
    assert_eq!(s.generator(PortId(0)).cause(5), Some(cause));
    assert_eq!(transmit(&mut s, 0, 25).control[0][17], 1 << 5);
    transmit(&mut s, 1, 30);
    let control = transmit(&mut s, 0, 30).control;
    assert_eq!((control[0][17], &control[0][24..26]), (1 << 3 | 1 << 5, &[0, 0][..]));
    assert_eq!(s.stats(PortId(0)).drops.total(), 0);
    assert_conserved(&s);
}

/// The frame that crosses the line is charged, finds no place and is released: Xoff and Xon in one call.
#[test]
fn a_frame_that_crosses_the_line_and_is_lost_leaves_no_pause_behind() {
    let lossless = PgParams {
        reserved: 0,
        limit: Limit::fixed(1000),
        headroom: 2000,
        xon: 500,
        xon_offset: 0,
        lossless: true,
    };
    // No slot for a frame of a burst; no room in any queue a frame is flooded to.
    for (to, slots, room) in [(2, 11, u64::MAX >> 2), (9, 1024, 1000)] {
        let mut p = params(3);
        p.frames = slots;
        p.mmu.pgs[3] = lossless;
        p.mmu.queues.iter_mut().for_each(|q| q.limit = Limit::fixed(room));
        let mut s = Switch::new(p).unwrap();
        receive(&mut s, 1, [frame(2, 9, 0, 64)], 0);
        (0..3).for_each(|out| drop(transmit(&mut s, out, 0)));
        (1..=10).for_each(|n| receive(&mut s, 0, [frame(1, to, 24, 100)], n));
        assert!(transmit(&mut s, 0, 11).control.is_empty(), "{to}: at the line is not over it");
        let before = s.conservation().dropped;
        receive(&mut s, 0, [frame(1, to, 24, 100), frame(1, to, 24, 100)], 12);
        assert!(s.conservation().dropped > before, "{to}");
        assert!(transmit(&mut s, 0, 13).control.is_empty(), "{to}: nobody is over a line");
        (1..3).for_each(|out| drop(transmit(&mut s, out, 14)));
        assert_eq!((s.admission().held_bytes(), s.generator(PortId(0)).next_deadline()), (0, Nanos::MAX));
        assert_conserved(&s);
    }
}

#[test]
fn a_received_pause_stops_its_queue_alone() {
    let mut s = Switch::new(params(2)).unwrap();
    receive(&mut s, 1, [frame(2, 9, 0, 64)], 0);
    transmit(&mut s, 0, 0);
    let pause = crate::pfc::frame::PfcFrame::uniform(1 << 3, 100).encode(host(2));
    receive(&mut s, 1, [OwnedFrame::new(pause)], 0);
    receive(&mut s, 0, [frame(1, 2, 24, 64), frame(1, 2, 32, 65)], 0);
    let sent = transmit(&mut s, 1, 0).frames;
    assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [65]);
    // 100 quanta of 512 bit times at 100G: 512 ns.
    assert_eq!(s.next_event(PortId(1), 0), Some(512));
    assert_eq!(transmit(&mut s, 1, 511).frames.len(), 0);
    assert_eq!(transmit(&mut s, 1, 512).frames.len(), 1);
    assert_eq!((s.stats(PortId(1)).rx_control, s.stats(PortId(1)).rx_packets), (1, 1));
    assert_conserved(&s);
}

#[test]
fn c14_a_lost_link_drops_what_waits_for_it_and_forgets() {
    let mut s = Switch::new(params(2)).unwrap();
    receive(&mut s, 1, [frame(2, 9, 0, 64)], 0);
    transmit(&mut s, 0, 0);
    receive(&mut s, 0, [frame(1, 2, 0, 64)], 0);
    s.set_link(PortId(1), false, 5);
    assert_eq!(s.stats(PortId(1)).drops.0[DropReason::EgressPortDown as usize], 1);
    receive(&mut s, 0, [frame(1, 2, 0, 64)], 6);
    assert_eq!(s.stats(PortId(0)).drops.0[DropReason::LookupNoPort as usize], 1, "there is no other port");
    assert_eq!((s.held(), s.admission().held_bytes()), (0, 0));
    assert_conserved(&s);
}

/// A queue of port 1 with more frames than one call may drop, which another port would wait for.
#[test]
fn a_lost_link_is_emptied_in_steps_and_takes_nothing_until_it_is_empty() {
    const STEP: usize = flush::FLUSHED_AT_ONCE;
    let mut p = params(3);
    p.frames = 8 * STEP;
    p.mmu = MmuParams::lossy(3, 1 << 24);
    p.mmu.queues.iter_mut().for_each(|q| q.limit = Limit::UNLIMITED);
    let mut s = Switch::new(p).unwrap();
    receive(&mut s, 1, [frame(2, 9, 0, 64)], 0);
    (0..3).for_each(|out| drop(transmit(&mut s, out, 0)));
    for n in 0..6 {
        receive(&mut s, 0, (0..BURST).map(|i| frame(1, 2, (i % 5 * 8) as u8, 64)), n);
    }
    let port_down =
        |s: &Switch<OwnedFrame>| s.stats(PortId(1)).drops.0[DropReason::EgressPortDown as usize] as usize;
    s.set_link(PortId(1), false, 10);
    assert_eq!(port_down(&s), STEP);
    // It is back before they are gone: none of them leaves, and none joins them.
    s.set_link(PortId(1), true, 11);
    let (mut lost, mut refused) = (STEP, 0);
    while s.held() > 0 {
        assert_eq!(transmit(&mut s, 1, 12).frames.len(), 0);
        receive(&mut s, 1, [frame(2, 9, 0, 64)], 12);
        (0..3).for_each(|out| drop(transmit(&mut s, out, 12)));
        receive(&mut s, 0, [frame(1, 2, 32, 64)], 12);
        refused += 1;
        s.tick(13);
        let now = port_down(&s) - refused;
        assert!(now > lost && now - lost <= STEP, "{lost}, then {now}");
        lost = now;
        assert_conserved(&s);
    }
    assert_eq!((lost, refused), (6 * BURST, 5));
    receive(&mut s, 0, [frame(1, 2, 32, 64)], 14);
    assert_eq!(transmit(&mut s, 1, 15).frames.len(), 1);
}

#[test]
fn what_was_learned_on_a_port_is_flooded_when_its_link_is_lost_and_forgotten_in_every_shard() {
    for shard in [0, 1] {
        let mut p = params(4);
        p.ageing = None;
        p.fdb_capacity = 4096;
        p.stations = vec![(Profile::standard().key(host(5).to_u64(), 0), PortId(1))];
        for port in [1, 3] {
            p.ports[port].shard = shard;
        }
        let mut shards = Switch::<OwnedFrame>::sharded(&p, 1 + usize::from(shard)).unwrap();
        let owner = usize::from(shard);
        receive(&mut shards[owner], 1, (10..400).map(|n| frame(n, 9, 0, 64)).take(BURST), 0);
        for now in 0..4 {
            shards.iter_mut().for_each(|s| s.tick(now));
            for out in 0..4u16 {
                let own = if out % 2 == 1 { owner } else { 0 };
                transmit(&mut shards[own], out, now);
            }
        }
        assert_eq!(shards[0].fdb().len(), BURST + 1);
        shards[owner].set_link(PortId(1), false, 5);
        shards[0].tick(5);
        let drops = |s: &Switch<OwnedFrame>, reason: DropReason| s.stats(PortId(0)).drops.0[reason as usize];
        receive(&mut shards[0], 0, [frame(1, 10, 0, 64), frame(1, 5, 0, 64)], 6);
        assert_eq!(transmit(&mut shards[0], 2, 7).frames, [frame(1, 10, 0, 64).bytes()], "flooded");
        assert_eq!(drops(&shards[0], DropReason::LookupPortDown), 1, "a static station stays");
        // A few buckets at a time, however long nothing ages.
        let (mut before, mut ticks) = (shards[0].fdb().len(), 0);
        while shards.iter().any(|s| s.fdb().len() > 2) {
            shards.iter_mut().for_each(|s| s.tick(8));
            let now = shards[0].fdb().len();
            assert!(before - now <= 600 && ticks < 4096, "{before}, then {now}");
            (before, ticks) = (now, ticks + 1);
        }
        assert!(ticks > 100, "{ticks}");
        shards[owner].set_link(PortId(1), true, 9);
        shards[0].tick(9);
        receive(&mut shards[0], 0, [frame(1, 5, 0, 64)], 10);
        assert_eq!(drops(&shards[0], DropReason::LookupPortDown), 1, "and is reached again");
    }
}

#[test]
fn a_pause_for_the_receive_ring_ends_with_it_whatever_was_configured_meanwhile() {
    let (all, some) = (params(2), {
        let mut p = params(2);
        p.ports[0].generate.enabled = 1 << 4;
        p
    });
    let mut s = Switch::new(all.clone()).unwrap();
    s.rx_ring(PortId(0), true);
    let last = |control: &[Vec<u8>]| control.last().map(|f| (f[17], f[24] | f[25], f[26] | f[27]));
    assert_eq!(last(&transmit(&mut s, 0, 0).control), Some((0xff, 0xff, 0xff)), "3 and 4 are paused");
    s.apply(&mut Change::between(&all, &some).unwrap(), 10).unwrap();
    assert_eq!(last(&transmit(&mut s, 0, 10).control).map(|f| (f.1, f.2)), Some((0, 0xff)), "3 may go on");
    s.rx_ring(PortId(0), false);
    transmit(&mut s, 0, 20);
    s.apply(&mut Change::between(&some, &all).unwrap(), 30).unwrap();
    assert!(transmit(&mut s, 0, 30).control.is_empty(), "the ring is empty");
    assert_eq!(
        (s.generator(PortId(0)).paused_mask(), s.generator(PortId(0)).next_deadline()),
        (0, Nanos::MAX)
    );
    // A priority that comes to be paused while the ring is full is paused, too.
    s.apply(&mut Change::between(&all, &some).unwrap(), 40).unwrap();
    s.rx_ring(PortId(0), true);
    s.apply(&mut Change::between(&some, &all).unwrap(), 50).unwrap();
    transmit(&mut s, 0, 50);
    assert_eq!(s.generator(PortId(0)).paused_mask(), 0xff);
}

#[test]
fn two_shards_forward_to_each_other_and_conserve() {
    let mut p = params(4);
    p.ports[2].shard = 1;
    p.ports[3].shard = 1;
    let lossless = PgParams {
        reserved: 0,
        limit: Limit::fixed(1000),
        headroom: 4000,
        xon: 500,
        xon_offset: 0,
        lossless: true,
    };
    p.mmu.pgs[3] = lossless;
    p.mmu.queues.iter_mut().for_each(|q| q.limit = Limit::UNLIMITED);
    let mut shards = Switch::<OwnedFrame>::sharded(&p, 2).unwrap();
    let (a, b) = shards.split_at_mut(1);
    let (a, b) = (&mut a[0], &mut b[0]);
    let books = |shard: &Switch<OwnedFrame>| {
        let mut block = LoopStats::default();
        shard.fill_loop_stats(&mut block);
        (block.conservation_error(), block.held, block.handed_in, block.handed_out)
    };
    receive(b, 2, [frame(2, 9, 0, 64)], 0);
    // One copy waits here, two are on their way: each shard's books balance without the other's.
    assert_eq!((books(a), books(b)), ((0, 0, 0, 0), (0, 1, 0, 2)));
    a.tick(0);
    assert_eq!((books(a), books(b)), ((0, 2, 2, 0), (0, 1, 0, 2)));
    for out in [0, 1] {
        assert_eq!(transmit(a, out, 0).frames.len(), 1, "flooded across");
    }
    assert_eq!(transmit(b, 3, 0).frames.len(), 1);
    b.tick(1);
    // The news has arrived with the flooded frame: a sends to port 2 alone, and is paused for it.
    receive(a, 0, (0..20).map(|_| frame(1, 2, 24, 100)), 10);
    let mut between = a.conservation();
    between.add(&b.conservation());
    assert_eq!((between.error(), between.handed_out - between.handed_in), (0, 20), "in a batch or two");
    assert_eq!(transmit(a, 0, 10).control.len(), 1);
    b.tick(11);
    assert_eq!(transmit(b, 2, 12).frames.len(), 20);
    a.tick(13);
    let resumed = transmit(a, 0, 13).control;
    assert_eq!((resumed.len(), &resumed[0][24..26]), (1, &[0, 0][..]));
    let mut sum = a.conservation();
    sum.add(&b.conservation());
    assert_eq!((sum.error(), sum.held, sum.dropped), (0, 0, 0), "{sum:?}");
    assert_eq!((a.admission().held_bytes(), b.admission().queued_bytes()), (0, 0));
    assert_eq!((books(a), books(b)), ((0, 0, 2, 20), (0, 0, 20, 2)));
}

/// What is kept about frames of a kind is what tables and maps would say now, within a burst too.
#[test]
fn kept_decisions_follow_moves_maps_and_limits() {
    let mut p = params(4);
    p.ports[3].learn_limit = 1;
    let mut s = Switch::new(p).unwrap();
    receive(&mut s, 1, [frame(2, 9, 0, 64)], 0);
    receive(&mut s, 0, [frame(1, 9, 0, 64)], 0);
    (0..4).for_each(|out| drop(transmit(&mut s, out, 0)));
    let to_2 = |n: usize| (0..n).map(|_| frame(1, 2, 0, 64));
    receive(&mut s, 0, to_2(3), 1);
    receive(&mut s, 0, to_2(3), 2);
    assert_eq!(transmit(&mut s, 1, 3).frames.len(), 6);
    // Station 2 moves to port 2, where the next burst goes.
    receive(&mut s, 2, [frame(2, 1, 0, 64)], 4);
    receive(&mut s, 0, to_2(3), 5);
    assert_eq!((transmit(&mut s, 1, 6).frames.len(), transmit(&mut s, 2, 6).frames.len()), (0, 3));
    // It moves again, in the middle of a burst, to the port of that burst.
    let moved = to_2(2).chain([frame(2, 1, 0, 64)]).chain(to_2(2));
    receive(&mut s, 0, moved, 7);
    assert_eq!(transmit(&mut s, 2, 8).frames.len(), 2);
    assert_eq!(s.stats(PortId(0)).drops.0[DropReason::LookupSamePort as usize], 3);
    // Other maps: the same frames wait in another queue.
    receive(&mut s, 2, [frame(2, 9, 0, 64)], 9);
    (0..4).for_each(|out| drop(transmit(&mut s, out, 9)));
    receive(&mut s, 0, to_2(2), 10);
    receive(&mut s, 0, to_2(2), 10);
    let maps = Maps { dscp_to_tc: [5; 64], ..Maps::default() };
    s.reclassify(PortId(0), Classifier::new(&maps, &default_trust()).unwrap());
    receive(&mut s, 0, to_2(2), 11);
    assert_eq!((s.queue_frames(PortId(2), 0), s.queue_frames(PortId(2), 5)), (4, 2));
    // A station that may not be learned is asked about with every frame.
    receive(&mut s, 3, (0..4).map(|_| frame(7, 2, 0, 64)), 12);
    let refused = s.fdb().counters().refused_limit;
    receive(&mut s, 3, (0..4).map(|_| frame(8, 2, 0, 64)), 12);
    receive(&mut s, 3, (0..4).map(|_| frame(8, 2, 0, 64)), 13);
    assert_eq!(s.fdb().counters().refused_limit - refused, 8);
    (0..4).for_each(|out| drop(transmit(&mut s, out, 14)));
    assert_conserved(&s);
}

/// A loop of stations that a full table has no room for: each round is seen, although what is decided about them is kept.
#[test]
fn a_station_that_is_not_learned_is_seen_to_move_each_time() {
    let mut s = Switch::new(SwitchParams { fdb_capacity: 16, ..params(3) }).unwrap();
    receive(&mut s, 2, (10..26).map(|n| frame(n, 9, 0, 64)), 0);
    assert_eq!(s.fdb().len(), 16);
    for round in 0..10 {
        receive(&mut s, (round % 2) as u16, (0..3).map(|_| frame(99, 98, 0, 64)), round);
        assert_eq!(s.fdb().counters().moved, round, "of {round}");
        assert_eq!(s.fdb().counters().refused_full, 3 * (round + 1), "each frame counts");
        (0..3).for_each(|out| drop(transmit(&mut s, out, round)));
    }
}
