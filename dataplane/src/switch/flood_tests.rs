//! Bursts in which frames for one port and for several, of any length, class and protocol, come in any order.

use super::super::tests::dice::Dice;
use super::super::tests::{Tap, frame, params};
use super::super::{Conservation, Switch};
use super::*;
use crate::classify::{Classifier, Maps, default_trust};
use crate::frame::OwnedFrame;
use crate::mmu::MmuParams;
use crate::parse::Profile;
use crate::rng::Rng;
use crate::types::{BURST, Burst, Nanos};
use crate::vlan::PortVlans;
use std::collections::BTreeMap;

const PORTS: u16 = 6;
/// Stations are numbered from this address on.
const STATION: u64 = 0x0200_0000_0000;
const EVERYBODY: u64 = 0xffff_ffff_ffff - STATION;
const GROUP: u64 = 0x0300_0000_0000 - STATION;
/// The ports of groups behind [`GROUP`]: some are in several, some in one.
const GROUPS: [&[u16]; 4] = [&[1, 3, 4], &[2, 3, 5], &[4, 5], &[1, 2, 3, 4]];

/// Two classes by DSCP, stations 1 to 3 behind the ports of these numbers, and groups. Of VLAN 10 some ports are members with
/// a tag, the others without; of 11 and 12 the same ports, and of 13 the others, all with a tag.
fn switch(dice: &mut Dice, shards: usize, vlans: bool, buffer: u64) -> Vec<Switch<OwnedFrame>> {
    let mut params = params(PORTS.into());
    let maps = Maps { dscp_to_tc: std::array::from_fn(|dscp| (dscp / 32) as u8), ..Maps::default() };
    for (at, port) in params.ports.iter_mut().enumerate() {
        port.classifier = Classifier::new(&maps, &default_trust()).unwrap();
        port.shard = (at % shards) as u8;
        port.tx_per_lcore = dice.one_in(2);
        let native = (at % 4 < 2).then_some(10);
        let others: &[u16] = if at == 0 {
            &[11, 12, 13]
        } else if at % 2 == 1 {
            &[11, 12]
        } else {
            &[13]
        };
        let members = others.iter().copied().chain([10]).collect();
        port.vlans = vlans.then_some(PortVlans { native, members });
    }
    params.mmu = MmuParams::lossy(PORTS.into(), buffer);
    (params.frames, params.copied) = (8192, 8192);
    let key = |n: u64| Profile::standard().key(STATION + n, if vlans { 10 } else { 0 });
    let group = |(n, ports): (u64, &[u16])| (key(GROUP + n), ports.iter().copied().map(PortId).collect());
    params.groups = (0..).zip(GROUPS).map(group).collect();
    params.stations = (1..=3).map(|n| (key(n), PortId(n as u16))).collect();
    Switch::sharded(&params, shards).unwrap()
}

/// A frame with its number at the end, tagged or not if there are VLANs.
fn any_frame(dice: &mut Dice, number: u32, vlans: bool) -> OwnedFrame {
    let group = GROUP + dice.below(GROUPS.len()) as u64;
    let to = dice.one(&[1, 1, 2, 3, 9, EVERYBODY, EVERYBODY, group, group]);
    let (dscp, len) = (dice.one(&[0, 0, 40]), dice.one(&[60, 60, 128, 301]));
    let mut bytes = frame(8, to, dscp, len).bytes().to_vec();
    if to < GROUP && dice.one_in(4) {
        bytes[12..14].copy_from_slice(&[8, 6]);
    } else {
        bytes[15] |= dice.below(4) as u8;
    }
    bytes[len - 4..].copy_from_slice(&number.to_be_bytes());
    if vlans && dice.one_in(2) {
        // Of the class that it would have by its DSCP.
        let (_, high) = told(&bytes);
        bytes.splice(12..12, [0x81, 0, u8::from(high) << 5, dice.one(&[10, 11, 12, 13])]);
    }
    OwnedFrame::new(bytes)
}

/// The number of a frame, and its class.
fn told(bytes: &[u8]) -> (u32, bool) {
    let at = if bytes[12..14] == [0x81, 0] { 16 } else { 12 };
    let high = bytes[at..at + 2] == [8, 0] && bytes[at + 3] >> 7 == 1;
    (u32::from_be_bytes(*bytes.last_chunk().unwrap()), high)
}

fn play(seed: u64, shards: usize) {
    let mut dice = Dice(Rng::new(seed));
    let (vlans, scarce) = (dice.one_in(3), dice.one_in(3));
    let mut shards = switch(&mut dice, shards, vlans, if scarce { 30_000 } else { 8 << 20 });
    // The last number of each class that left by a port, and who came.
    let mut last: BTreeMap<(u16, bool), u32> = BTreeMap::new();
    let (mut number, mut left) = (0, 0);
    let n = shards.len();
    for now in (1..=60).map(|round: Nanos| round * 1000) {
        let end = now > 50_000;
        let frames = if end { 0 } else { dice.below(120) };
        let mut burst: Burst<_> =
            (0..frames as u32).map(|at| any_frame(&mut dice, number + at, vlans)).collect();
        number += frames as u32;
        shards[0].receive(PortId(0), &mut burst, now);
        shards.iter_mut().rev().for_each(|shard| shard.tick(now));
        for out in 1..PORTS {
            // Budgets and rooms end anywhere within batches.
            let (budget, room) =
                if end { (BURST, BURST) } else { (dice.below(BURST), dice.one(&[0, 7, 40, BURST])) };
            let mut wire = Tap::of(room);
            shards[usize::from(out) % n].transmit(PortId(out), budget, now, &mut wire);
            if shards[0].has_grants(PortId(out)) {
                shards[0].transmit_granted(PortId(out), budget, now, &mut wire);
            }
            for bytes in &wire.frames {
                let (number, high) = told(bytes);
                let before = last.insert((out, high), number);
                assert!(before.is_none_or(|before| before < number), "seed {seed}: {number} at {out}");
            }
            left += wire.frames.len() as u64;
        }
        shards.iter_mut().for_each(|shard| shard.tick(now));
    }
    let mut books = Conservation::default();
    for shard in &shards {
        books.add(&shard.conservation());
        assert_eq!(
            (shard.held(), shard.admission().held_bytes(), shard.admission().queued_bytes()),
            (0, 0, 0)
        );
        assert!(shard.copies.are_free());
    }
    assert_eq!((books.error(), books.held, books.transmitted), (0, 0, left), "seed {seed}");
    assert!(scarce || books.dropped == 0 && left > u64::from(number), "seed {seed}: {books:?}");
}

#[test]
fn frames_for_one_port_and_for_several_leave_in_the_order_in_which_they_came() {
    (0..150).for_each(|seed| play(seed, 1));
    (150..300).for_each(|seed| play(seed, 2));
}

/// Broadcasts of several VLANs share batches where the same ports are members of these.
#[test]
fn frames_of_several_vlans_for_the_same_ports_share_batches() {
    let mut s = switch(&mut Dice(Rng::new(1)), 1, true, 8 << 20).swap_remove(0);
    let mut burst: Burst<_> = (0..40)
        .map(|n| {
            let mut bytes = frame(8, EVERYBODY, 0, 60).bytes().to_vec();
            bytes.splice(12..12, [0x81, 0, 0, 11 + n % 2]);
            OwnedFrame::new(bytes)
        })
        .collect();
    s.receive(PortId(0), &mut burst, 0);
    let batches = [1, 2, 3, 4, 5].map(|out| s.queues.batches(PortId(out), 0));
    assert_eq!(batches, [1, 0, 1, 0, 1], "40 copies each");
}

/// Frames of groups that have some ports in common: each port has those that are for it in one batch, in the order in which they came.
#[test]
fn frames_of_groups_in_any_order_share_batches_port_by_port() {
    for copied in [8192, 1] {
        let mut dice = Dice(Rng::new(1));
        let mut s = switch(&mut dice, 1, false, 8 << 20).swap_remove(0);
        s.copies = crate::switch::copies::Copies::sharded(8192, copied / 64, 1).swap_remove(0);
        let groups: Vec<usize> = (0..40).map(|_| dice.below(GROUPS.len())).collect();
        let of = |n: usize| {
            let mut bytes = frame(8, GROUP + groups[n] as u64, 0, 60).bytes().to_vec();
            bytes[56..].copy_from_slice(&(n as u32).to_be_bytes());
            OwnedFrame::new(bytes)
        };
        let mut burst: Burst<_> = (0..groups.len()).map(of).collect();
        s.receive(PortId(0), &mut burst, 0);
        for out in 1..PORTS {
            let batches = s.queues.batches(PortId(out), 0);
            // Where no list is free copies are queued one by one.
            assert!(if copied > 64 { batches == 1 } else { batches > 1 }, "{batches} at {out}");
            let left = super::super::tests::transmit(&mut s, out, 0);
            let left: Vec<usize> = left.frames.iter().map(|bytes| told(bytes).0 as usize).collect();
            let want = (0..groups.len()).filter(|n| GROUPS[groups[*n]].contains(&out));
            assert_eq!(left, want.collect::<Vec<_>>(), "port {out}");
        }
        assert_eq!((s.held(), s.admission().held_bytes(), s.copies.are_free()), (0, 0, true));
    }
}

/// Where others of their class come between them, frames for several ports share batches all the same, at the ports to which
/// those do not go.
#[test]
fn only_the_port_of_another_frame_gets_its_copies_early() {
    let mut dice = Dice(Rng::new(1));
    let mut s = switch(&mut dice, 1, false, 8 << 20).swap_remove(0);
    let burst = |known: u64| -> Burst<_> {
        let to = |n: u32| if n.is_multiple_of(2) { EVERYBODY } else { known };
        (0..40).map(|n| frame(8, to(n), 0, 60 + n as usize % 7)).collect()
    };
    // So that what is decided about each kind is kept.
    s.receive(PortId(0), &mut burst(1), 0);
    (1..PORTS).for_each(|out| drop(super::super::tests::transmit(&mut s, out, 0)));
    s.receive(PortId(0), &mut burst(1), 1);
    let batches = |s: &Switch<OwnedFrame>, out| s.queues.batches(PortId(out), 0);
    assert_eq!(batches(&s, 5), 1, "20 copies");
    assert_eq!(batches(&s, 1), 40, "20 copies, and a frame behind each");
}
