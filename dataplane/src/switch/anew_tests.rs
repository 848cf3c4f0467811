//! A switch that keeps what it decided does, frame by frame, what one does that looks at every frame by itself and keeps nothing:
//! the same frames leave by the same ports in the same order, with the same bytes, and the same is counted.
//!
//! Both are given random frames under random configurations that change, while links come and go, stations move and age, and
//! somebody follows frames. Seeds are fixed. There is room for all frames: how a limit is shared between the queues of a burst is
//! no part of this. Nor is the control pool: CNPs that are charged to it may overtake others of their burst.

use super::super::{Arrival, Key, Record, Tap, TapOrder, TapReader, What};
use super::super::{Change, Filter, MirrorParams, MirrorTo, SwitchParams, UnknownUnicast};
use super::dice::Dice;
use super::{Tap as Out, assert_conserved, params};
use crate::classify::{Classifier, Maps, TrustSource};
use crate::ecn::{MarkAt, ONE_Q32, Wred};
use crate::egress::MicroburstConfig;
use crate::fdb::FdbEntry;
use crate::frame::{Frame, OwnedFrame};
use crate::lag::{LagMember, LagParams};
use crate::parse::{HashFields, Profile, Variant};
use crate::pfc::frame::PfcFrame;
use crate::portset::PortSet;
use crate::rng::Rng;
use crate::storm_control::{FloodLimit, StormControl};
use crate::switch::Tapped;
use crate::types::{BURST, Burst, Mac, Nanos, PortId};
use crate::vlan::PortVlans;
use std::collections::BTreeSet;

#[path = "single_tests.rs"]
mod single;

type Sut = Tapped<OwnedFrame>;

const PORTS: u16 = 7;
/// Where the copies of a mirror go: no other frame is of that class.
const MONITOR: u16 = 5;
const MONITOR_QUEUE: u8 = 7;
/// Of another format, as is port 5 of some switches.
const OTHER_FORMAT: u16 = 6;

fn station(n: usize) -> u64 {
    0x0200_0000_0000 + n as u64
}

/// What stays whatever is applied.
fn fixed(dice: &mut Dice, shards: usize) -> SwitchParams {
    let mut params = params(usize::from(PORTS));
    params.mmu = crate::mmu::MmuParams::lossy(PORTS.into(), 64 << 20);
    (params.frames, params.copied) = (1 << 15, 1 << 14);
    (params.flow_cache, params.fdb_capacity) = (dice.one(&[8, 64, 4096]), dice.one(&[16, 256]));
    for (at, port) in params.ports.iter_mut().enumerate() {
        port.shard = (at % shards) as u8;
        port.tx_per_lcore = dice.one_in(2);
        port.mtu = dice.one(&[150, 200, 9216]);
    }
    let formats = [
        Profile::standard(),
        Profile::standard_rclink(),
        Profile::afh_gen1(),
        Profile::afh_gen2_16b(Variant::Public),
        Profile::afh_lite(Variant::Public),
    ];
    let other = &formats[dice.below(formats.len())];
    params.ports[usize::from(OTHER_FORMAT)].profile = other.clone();
    if dice.one_in(2) {
        params.ports[usize::from(MONITOR)].profile = other.clone();
    }
    params
}

fn vlans(dice: &mut Dice) -> PortVlans {
    let native = dice.one(&[Some(10), Some(20), None]);
    let trunk: Vec<u16> = [10, 20, 30].into_iter().filter(|_| dice.one_in(2)).collect();
    PortVlans { native, members: trunk.into_iter().chain(native).collect() }
}

/// Signals above this depth, and never below: what is drawn does not matter.
fn above(depth: u64, at: MarkAt) -> Option<Wred> {
    Some(Wred { kmin: depth, kmax: depth, pmax: ONE_Q32, at })
}

/// Any configuration that `fixed` can go over to. `depths`: what happens to a frame may depend on how many are before it.
fn configured(dice: &mut Dice, fixed: &SwitchParams, depths: bool) -> SwitchParams {
    let mut params = fixed.clone();
    let (with_vlans, with_limits) = (dice.one_in(2), dice.one_in(3));
    params.ageing = dice.one(&[None, Some(20_000_000)]);
    for port in &mut params.ports {
        let maps = Maps { dscp_to_tc: std::array::from_fn(|dscp| (dscp / 8) as u8), ..Maps::default() };
        let trust = dice.one(&[[TrustSource::Dscp, TrustSource::Pcp], [TrustSource::Pcp, TrustSource::Dscp]]);
        port.classifier = Classifier::new(&maps, &trust).unwrap();
        port.admin_down = dice.one_in(12);
        port.learning = !dice.one_in(5);
        port.learn_limit = dice.one(&[2, 1000, 1000]);
        port.lldp = dice.one_in(3);
        port.link_local = dice.one(&[0, 1, 0xffff]);
        port.unknown_unicast =
            dice.one(&[UnknownUnicast::Flood, UnknownUnicast::Flood, UnknownUnicast::Drop]);
        port.vlans = with_vlans.then(|| vlans(dice));
        port.storm_control = with_limits.then(|| StormControl {
            limits: std::array::from_fn(|_| {
                dice.one(&[None, Some(FloodLimit::Frames(20_000)), Some(FloodLimit::Bits(20_000_000))])
            }),
            burst: 100_000,
        });
        for queue in if depths { 0..7 } else { 0..0 } {
            port.mark[queue] = dice.one(&[None, above(900, MarkAt::Dequeue), above(700, MarkAt::Enqueue)]);
            port.early_drop[queue] = dice.one(&[None, None, above(1500, MarkAt::Enqueue)]);
        }
    }
    if dice.one_in(2) {
        let fields = dice.one(&[HashFields::L2, HashFields::L3, HashFields::L4]);
        params.lags = vec![LagParams { members: [1, 2, 4].map(PortId).into_iter().collect(), fields }];
        let lacp = dice.one_in(2);
        for member in [1, 2, 4] {
            params.ports[member].vlans = params.ports[1].vlans.clone();
            params.ports[member].lacp = lacp;
        }
    }
    let standard = Profile::standard();
    let vid = |dice: &mut Dice| if with_vlans { dice.one(&[10, 20]) } else { 0 };
    for n in 0..dice.below(4) {
        params.stations.push((standard.key(station(20 + n), vid(dice)), PortId(dice.below(4) as u16)));
    }
    for n in 0..dice.below(3) {
        params.groups.push((standard.key(0x0100_5e00_0000 + n as u64, vid(dice)), dice.ports(PORTS.into())));
    }
    if dice.one_in(3) {
        params.mmu.mirror = 1 << 20;
        let filter = dice.one(&[Filter::default(), Filter { dscp: Some(26), ..Filter::default() }]);
        let to = MirrorTo::Port { port: PortId(MONITOR), queue: MONITOR_QUEUE };
        let all: PortSet = (0..MONITOR).map(PortId).collect();
        params.mirrors.push(MirrorParams {
            rx: dice.ports(PORTS.into()).intersection(&all),
            tx: dice.ports(PORTS.into()).intersection(&all),
            filter,
            to,
        });
    }
    params
}

/// A frame of any kind. Bytes from 56 on are not looked at by anybody, and tell it from others.
fn any_frame(dice: &mut Dice, port: u16) -> Vec<u8> {
    if dice.one_in(40) {
        return PfcFrame::uniform(dice.one(&[0, 1 << 3]), 1).encode(Mac::from_u64(2)).to_vec();
    }
    // Mostly its own stations.
    let from = if dice.one_in(6) { dice.below(24) } else { usize::from(port) * 3 + dice.below(3) };
    let dst = match dice.below(16) {
        0 => 0xffff_ffff_ffff,
        1 => 0x0100_5e00_0000 + dice.below(4) as u64,
        2 => 0x0180_c200_0000 + dice.one(&[0, 2, 2, 14, 5]),
        3 => station(100 + dice.below(3)),
        _ => station(dice.below(24)),
    };
    let src = if dice.one_in(30) { 0x0300_0000_0000 } else { station(from) };
    let mut bytes = [&dst.to_be_bytes()[2..], &src.to_be_bytes()[2..]].concat();
    let tag = |tpid: u16, vid: u16, pcp: u16| [tpid.to_be_bytes(), (pcp << 13 | vid).to_be_bytes()].concat();
    for _ in 0..dice.one(&[0, 0, 0, 1, 1, 1, 2, 3]) {
        let tpid = dice.one(&[0x8100, 0x8100, 0x8100, 0x88a8, 0x9100]);
        let vid = dice.one(&[0, 10, 20, 30, 4095]);
        bytes.extend(tag(tpid, vid, dice.below(7) as u16));
    }
    let (tos, len) =
        (dice.one(&[0, 26 << 2, 48 << 2]) | dice.below(4) as u8, dice.one(&[30, 40, 46, 46, 90, 140]));
    let udp = |dice: &mut Dice| {
        let ports = [1000 + dice.below(3) as u16, dice.one(&[4791, 4791, 53])];
        let mut udp = ports.map(u16::to_be_bytes).concat();
        udp.extend([0, 26, 0, 0, dice.one(&[0x81, 0x11, 4]), 0]);
        udp
    };
    match dice.below(8) {
        0 => bytes.extend([8, 6, 0, 1]),
        1 => bytes.extend([0x88, 0x08, 1, 1]),
        2 => bytes.extend(dice.one(&[[0x88, 0xcc], [0x88, 0x09]])),
        3 => {
            bytes.extend([0x86, 0xdd, 0x60 | tos >> 4, tos << 4, 0, 0, 0, dice.one(&[26, 26, 255]), 17, 64]);
            bytes.extend([7; 32]);
            bytes.extend(udp(dice));
        }
        _ => {
            let (total, header) =
                (dice.one(&[30, 40, 46, 46, 46, 1500]), dice.one(&[0x45, 0x45, 0x45, 0x46, 0x25]));
            let fragment = dice.one(&[0, 0, 0, 3]);
            bytes.extend([8, 0, header, tos, 0, total as u8, 0, 0, 0, fragment, 64, 17, 0, 0, 10, 0, 0]);
            bytes.extend([from as u8, 10, 0, 0, dst as u8]);
            bytes.extend(udp(dice));
        }
    }
    // Devices that are no wire do not pad.
    let len = bytes.len().max(dice.one(&[60, 60, 0])) + len - 30;
    bytes.resize(len, 0);
    if dice.one_in(25) {
        bytes.truncate(dice.below(20));
    }
    bytes
}

/// The same frames again and again: what is decided about a kind is of use.
fn pool(dice: &mut Dice) -> Vec<Vec<Vec<u8>>> {
    (0..PORTS).map(|port| (0..12).map(|_| any_frame(dice, port)).collect()).collect()
}

fn numbered(bytes: &[u8], number: u32) -> OwnedFrame {
    let mut bytes = bytes.to_vec();
    if let Some(tail) = bytes.len().checked_sub(4).filter(|at| *at >= 56) {
        bytes[tail..].copy_from_slice(&number.to_be_bytes());
    }
    OwnedFrame::new(bytes)
}

/// A switch in one or two pieces, and what has left it by each port.
struct Played {
    shards: Vec<Sut>,
    out: Vec<Vec<Vec<u8>>>,
    readers: Vec<TapReader>,
    /// What is told of frames, and frames that are followed: who reads knows no others.
    told: Vec<(Key, String)>,
    followed: BTreeSet<Key>,
}

impl Played {
    fn new(params: &SwitchParams, shards: usize) -> Self {
        let shards = Sut::observed_shards(params, shards).unwrap();
        let (out, followed) = (vec![Vec::new(); PORTS.into()], BTreeSet::new());
        Self { shards, out, readers: Vec::new(), told: Vec::new(), followed }
    }

    fn of(&mut self, port: u16) -> &mut Sut {
        let shards = self.shards.len();
        &mut self.shards[usize::from(port) % shards]
    }

    fn transmit(&mut self, port: u16, budget: usize, room: usize, now: Nanos) {
        let mut wire = Out::of(room);
        self.of(port).transmit(PortId(port), budget, now, &mut wire);
        for shard in 0..self.shards.len() {
            if self.shards[shard].has_grants(PortId(port)) {
                self.shards[shard].transmit_granted(PortId(port), budget, now, &mut wire);
            }
        }
        self.out[usize::from(port)].extend(wire.frames);
    }

    fn tick(&mut self, now: Nanos) {
        self.shards.iter_mut().for_each(|shard| shard.tick(now));
        for (at, reader) in self.readers.iter_mut().enumerate() {
            for (Record { key, at: time, len, what, .. }, bytes) in reader {
                let what = match what {
                    What::Arrived(Arrival { class, lookup, lost, copies, aside, .. }) => {
                        self.followed.insert(key);
                        format!("{class:?} {lookup:?} {lost:?} {copies} {aside}")
                    }
                    What::Left { out, queue, marked, .. } => format!("{out:?} {queue} {marked}"),
                    What::Flushed { out, reason } => format!("{out:?} {reason:?}"),
                    What::Lost { reason } => format!("{reason:?}"),
                };
                self.told.push((key, format!("lcore {at}, {time}: {len} bytes, {what}, {bytes:x?}")));
            }
        }
    }

    fn arm(&mut self, order: TapOrder) {
        let taps = Tap::for_workers(order, self.shards.len());
        self.readers.clear();
        for (shard, (tap, reader)) in self.shards.iter_mut().zip(taps) {
            shard.arm(Some(Box::new(tap)));
            self.readers.push(reader);
        }
    }

    /// What a reader makes of it. Where copies are counted is nobody's business, and frames of a burst that are lost are told
    /// reason by reason.
    fn told(&self) -> Vec<&str> {
        let known = |key: &Key| key.slot == u32::MAX || self.followed.contains(key);
        let mut told: Vec<_> =
            self.told.iter().filter(|(key, _)| known(key)).map(|(_, told)| told.as_str()).collect();
        told.sort_unstable();
        told
    }

    fn entries(&self) -> Vec<Vec<FdbEntry>> {
        let entries = |shard: &Sut| {
            let mut entries: Vec<_> = shard.fdb().iter().collect();
            entries.sort_by_key(|entry| entry.key);
            entries
        };
        self.shards.iter().map(entries).collect()
    }
}

/// One of them receives bursts, the other one frame by frame, and forgets before each what it decided before.
fn receive_both(both: &mut [Played; 2], port: u16, frames: Vec<OwnedFrame>, now: Nanos) {
    let [kept, anew] = both;
    let mut burst: Burst<_> = frames.iter().map(|frame| OwnedFrame::new(frame.bytes())).collect();
    kept.of(port).receive(PortId(port), &mut burst, now);
    for frame in frames {
        let switch = anew.of(port);
        switch.invalidate_decisions();
        switch.receive(PortId(port), &mut Burst::from_iter([frame]), now);
    }
}

fn assert_same(both: &mut [Played; 2], what: &str) {
    let [kept, anew] = &*both;
    for port in 0..PORTS {
        let [a, b] = [kept, anew].map(|played| {
            let mut frames: Vec<&[u8]> = played.out[usize::from(port)].iter().map(Vec::as_slice).collect();
            if port == MONITOR {
                // Copies are made of a burst before it is forwarded.
                frames.sort_unstable();
            } else if played.shards.len() > 1 {
                // What comes from another lcore comes in batches, or frame by frame, but those of a kind in order.
                frames.sort_by_key(|bytes| &bytes[..bytes.len().saturating_sub(4)]);
            }
            frames
        });
        assert_eq!(a.len(), b.len(), "{what}: port {port}");
        if let Some(at) = (0..a.len()).find(|at| a[*at] != b[*at]) {
            panic!("{what}: port {port}, frame {at}: {:x?}, not {:x?}", a[at], b[at]);
        }
    }
    for (a, b) in kept.shards.iter().zip(&anew.shards) {
        for port in (0..PORTS).map(PortId).filter(|port| a.owns(*port)) {
            assert_eq!(a.stats(port), b.stats(port), "{what}: port {port:?}");
        }
        assert_eq!(a.fdb().counters(), b.fdb().counters(), "{what}");
        assert_conserved(a);
        assert_conserved(b);
    }
    assert_eq!(kept.entries(), anew.entries(), "{what}");
    assert_eq!(kept.told(), anew.told(), "{what}");
    for played in both {
        played.out.iter_mut().for_each(Vec::clear);
        played.told.clear();
    }
}

/// What LACP may say of a port.
const MEMBER: [LagMember; 4] =
    [LagMember::Detached, LagMember::Collecting, LagMember::Distributing, LagMember::Distributing];

fn tap_order(dice: &mut Dice) -> TapOrder {
    let filter = dice.one(&[
        Filter::default(),
        Filter { udp_port: Some(4791), ..Filter::default() },
        Filter { ethertype: Some(0x0806), ..Filter::default() },
        Filter { dst: Some(Mac::from_u64(station(4))), dscp: Some(26), ..Filter::default() },
    ]);
    let (port, drops) = (PortId(dice.below(5) as u16), dice.one_in(3));
    TapOrder { port, filter, count: if drops { u64::MAX } else { dice.one(&[3, 40]) }, bytes: 20, drops }
}

fn play(seed: u64, shards: usize) {
    let mut dice = Dice(Rng::new(seed));
    let fixed = fixed(&mut dice, shards);
    // What is on its way between lcores goes in batches, or frame by frame: depths are the same once all have left.
    let depths = shards == 1;
    let mut params = configured(&mut dice, &fixed, depths);
    let mut both = [Played::new(&params, shards), Played::new(&params, shards)];
    let (mut frames, mut number, mut now) = (pool(&mut dice), 0, 1_000);
    for step in 0..250 {
        let what = format!("seed {seed}, {shards} shards, step {step}");
        now += dice.one(&[1_000, 20_000, 3_000_000]);
        match dice.below(40) {
            0 => {
                let next = configured(&mut dice, &fixed, depths);
                for played in &mut both {
                    for shard in &mut played.shards {
                        let mut change = Change::between(&params, &next).unwrap();
                        // Where static entries have no place all is as it was, but for those that had.
                        let _ = shard.apply(&mut change, now);
                    }
                }
                params = next;
            }
            1 => {
                let (port, up) = (dice.below(PORTS.into()) as u16, dice.one_in(2));
                both.iter_mut().for_each(|played| played.of(port).set_link(PortId(port), up, now));
            }
            5..8 => {
                let (port, member) = (dice.one(&[1, 2, 4]), dice.one(&MEMBER));
                both.iter_mut().for_each(|played| played.of(port).set_lag_member(PortId(port), member, now));
            }
            2 => frames = pool(&mut dice),
            3 => {
                let order = tap_order(&mut dice);
                both.iter_mut().for_each(|played| played.arm(order));
            }
            4 => {
                let port = dice.below(PORTS.into()) as u16;
                let config = dice.one(&[None, Some(MicroburstConfig { start: 500, end: 100, keep: 4 })]);
                both.iter_mut().for_each(|played| played.of(port).watch_bursts(PortId(port), config));
            }
            _ => {}
        }
        for _ in 0..dice.below(4) {
            let port = dice.below(PORTS.into()) as u16;
            let kinds = &frames[usize::from(port)];
            let few = 1 + dice.below(kinds.len());
            let burst = (0..dice.one(&[1, 5, 40, 90])).map(|_| {
                number += 1;
                numbered(&kinds[dice.below(few)], number)
            });
            receive_both(&mut both, port, burst.collect(), now);
        }
        for _ in 0..dice.below(6) {
            let (port, budget) = (dice.below(PORTS.into()) as u16, dice.one(&[1, 30, BURST]));
            let room = dice.one(&[2, BURST, BURST]);
            both.iter_mut().for_each(|played| played.transmit(port, budget, room, now));
        }
        both.iter_mut().for_each(|played| played.tick(now));
        for _ in 0..if depths { 0 } else { 8 } {
            for played in &mut both {
                (0..PORTS).for_each(|port| played.transmit(port, BURST, BURST, now));
                played.tick(now);
            }
        }
        assert_same(&mut both, &what);
    }
}

#[test]
fn what_is_decided_once_is_what_would_be_decided_anew() {
    for seed in 1..=60 {
        play(seed, 1);
        play(seed, 2);
    }
}
