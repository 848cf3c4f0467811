//! Decisions are found under their key and port, until something they were made from changes.

use super::*;
use crate::parse::{EcnField, EcnPlace, Profile};
use crate::vlan::Retag;

/// More than any test fills.
const ROOM: usize = 8192;

/// The key of untagged IPv4 between two stations.
fn key(src: u64, dst: u64) -> FlowKey {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&dst.to_be_bytes()[2..]);
    frame[6..12].copy_from_slice(&src.to_be_bytes()[2..]);
    frame[12..18].copy_from_slice(&[8, 0, 0x45, 0, 0, 46]);
    Profile::standard().flow_key(&frame, frame.len()).expect("a plain frame")
}

fn decision() -> ForwardingDecision {
    ForwardingDecision::new(PortId(3), 1, (2, false), 0, EcnCode::NONE, Retag::Keep)
}

fn keep(cache: &mut FlowCache, (src, dst): (u64, u64), port: u16) {
    cache.keep(key(src, dst), PortId(port), decision(), [src, dst]);
}

fn is_kept(cache: &FlowCache, (src, dst): (u64, u64), port: u16) -> bool {
    let found = cache.at(cache.probe_key(key(src, dst), cache.stamp(PortId(port))));
    assert!(!found.is_decided() || found == decision());
    found.is_decided()
}

#[test]
fn a_decision_says_what_was_put_into_it() {
    let places =
        [EcnPlace::None, EcnPlace::Ipv4(14), EcnPlace::Ipv6(22), EcnPlace::Tc(3), EcnPlace::Ipv4(63)];
    for (n, place) in places.into_iter().enumerate() {
        let (out, queue, pg, tc) = (PortId(255 - n as u16), 7 - n as u8, 2050 - n as u16, n as u8);
        let ecn = EcnField { place, codepoint: n as u8 & 3 };
        let retag = Retag::from_bits(n as u64);
        let decision = ForwardingDecision::new(out, queue, (pg, n == 2), tc, ecn.code(), retag);
        assert!(decision.is_decided());
        assert_eq!(decision.retag(), retag);
        assert_eq!((decision.ecn(), decision.tc()), (ecn.code(), usize::from(tc)));
        assert_eq!((decision.ecn().place(), decision.ecn().is_ce()), (place, n == 3));
        assert_eq!((decision.out(), decision.queue() % 8, decision.pg()), (out, u32::from(queue), pg));
    }
}

/// Data, ACKs and what else there is of a class are admitted together, whether they can be marked or not.
#[test]
fn frames_that_can_be_marked_and_others_share_a_decision() {
    let code = |codepoint| EcnField { place: EcnPlace::Ipv4(14), codepoint }.code();
    let decision =
        |codepoint| ForwardingDecision::new(PortId(3), 1, (2, false), 0, code(codepoint), Retag::Keep);
    assert!((1..3).all(|codepoint| decision(codepoint) == decision(0)));
    assert_ne!(decision(3), decision(0));
    assert_eq!(decision(3).group(), decision(0).group(), "they stay in order");
}

#[test]
fn a_decision_holds_for_its_key_and_port_until_something_changes() {
    let mut cache = FlowCache::new(ROOM);
    keep(&mut cache, (1, 2), 255);
    assert!(is_kept(&cache, (1, 2), 255));
    assert!(!is_kept(&cache, (1, 2), 254) && !is_kept(&cache, (2, 1), 255));
    cache.sync_epoch(0, 0, &mut Changed::new());
    assert!(is_kept(&cache, (1, 2), 255));
    cache.sync_epoch(1, 0, &mut Changed::new());
    assert!(!is_kept(&cache, (1, 2), 255));
}

#[test]
fn epochs_come_round_and_nothing_comes_back() {
    let mut cache = FlowCache::new(64);
    keep(&mut cache, (1, 2), 1);
    let began = cache.mark();
    for _ in 1..EPOCHS {
        cache.invalidate();
        if cache.mark() == began {
            break;
        }
    }
    assert_eq!(cache.mark(), began, "there are so many epochs");
    assert!(!is_kept(&cache, (1, 2), 1));
    keep(&mut cache, (1, 2), 1);
    cache.sync_epoch(0, 0, &mut Changed::from_iter([2]));
    assert!(!is_kept(&cache, (1, 2), 1));
}

/// Decisions that are in use are counted, not those that were made: a station that moves all the time makes none far.
#[test]
fn a_station_that_moves_leaves_no_more_decisions_behind() {
    let mut cache = FlowCache::new(ROOM);
    for _ in 0..2 * NEAR {
        for src in 2..5 {
            keep(&mut cache, (src, 1), 1);
        }
        keep(&mut cache, (1, 9), 1);
        assert_eq!(cache.kept, 4);
        cache.sync_epoch(0, 0, &mut Changed::from_iter([1]));
        assert_eq!(cache.kept, 0);
    }
    assert!(!cache.is_far());
}

#[test]
fn a_place_that_is_taken_is_given_up_now_and_then() {
    let mut cache = FlowCache::new(64);
    let set = |cache: &FlowCache, pair: (u64, u64)| {
        cache.probe_key(key(pair.0, pair.1), cache.stamp(PortId(1))).set
    };
    // Those of a set have the one beside it, too.
    const PLACES: usize = 2 * WAYS;
    let same: Vec<_> =
        (1..).map(|n| (n, 9)).filter(|pair| set(&cache, *pair) == 5).take(PLACES + 1).collect();
    let (last, first) = same.split_last().unwrap();
    first.iter().for_each(|pair| keep(&mut cache, *pair, 1));
    assert!(first.iter().all(|pair| is_kept(&cache, *pair, 1)), "one in each place");
    let tries = (1..).find(|_| {
        keep(&mut cache, *last, 1);
        is_kept(&cache, *last, 1)
    });
    assert_eq!(tries, Some(PATIENCE));
    assert_eq!(first.iter().filter(|pair| is_kept(&cache, **pair, 1)).count(), PLACES - 1);
    // One that is void is no obstacle.
    cache.invalidate();
    keep(&mut cache, first[0], 1);
    assert!(is_kept(&cache, first[0], 1));
}

/// A station can send to as many groups as it likes.
#[test]
fn frames_to_groups_leave_their_places_to_unicast_and_take_none_of_its() {
    let mut cache = FlowCache::new(64);
    let group = |n: u64| 0x0100_5e00_0000 | n;
    let several = decision().for_several(Several::Flood(FloodKind::Multicast));
    let send = |cache: &mut FlowCache, n| {
        cache.keep(key(7, group(n)), PortId(1), several, [7, group(n)]);
        cache.at(cache.probe_key(key(7, group(n)), cache.stamp(PortId(1)))) == several
    };
    assert!((0..1000).filter(|n| send(&mut cache, *n)).count() > 60, "as long as nobody else is there");
    let pairs: Vec<_> = (0..40).map(|n| (n, n + 100)).collect();
    let kept = |cache: &FlowCache| pairs.iter().filter(|pair| is_kept(cache, **pair, 1)).count();
    let mut empty = FlowCache::new(64);
    for cache in [&mut cache, &mut empty] {
        pairs.iter().for_each(|pair| keep(cache, *pair, 1));
    }
    let before = kept(&cache);
    assert_eq!(before, kept(&empty), "as if no group had been there");
    for n in 0..1000 {
        send(&mut cache, n);
    }
    assert_eq!(kept(&cache), before);
}

#[test]
fn decisions_say_where_frames_go() {
    let several = [
        Several::Flood(FloodKind::Broadcast),
        Several::Flood(FloodKind::Multicast),
        Several::Flood(FloodKind::UnknownUnicast),
        Several::All,
        Several::Group(GroupId(0)),
        Several::Group(GroupId(8191)),
        Several::Group(GroupId(u16::MAX)),
    ];
    let of_one = decision();
    let all = several.map(|several| (of_one.for_several(several), Destination::Several(several))).into_iter();
    let refused =
        DropReason::ALL.iter().map(|reason| (of_one.refused(*reason), Destination::Nowhere(*reason)));
    for (decision, destination) in all.chain(refused) {
        let open = matches!(destination, Destination::Several(_));
        assert_eq!((decision.destination(), decision.is_open()), (destination, open));
        assert_eq!((decision.is_to_one(), decision.is_refused()), (false, !open));
        assert_eq!((decision.queue() % 8, decision.pg(), decision.tc()), (1, 2, 0));
        assert_eq!(decision.by(PortId(3)), of_one);
    }
    assert_eq!((of_one.destination(), of_one.is_open()), (Destination::Port(PortId(3)), false));
}

#[test]
fn decisions_say_why_a_source_is_not_learned_and_what_is_done_to_tags() {
    for why in [Refusal::Full, Refusal::Limit, Refusal::Static] {
        let unlearned = decision().unlearned(Some(why));
        assert_eq!((unlearned.why_unlearned(), unlearned.is_open()), (Some(why), true));
        assert_eq!(unlearned.unlearned(None), decision());
    }
    assert_eq!(decision().why_unlearned(), None);
    let at = |at| EcnField { place: EcnPlace::Ipv4(at), codepoint: 3 }.code();
    let with = |at_byte, retag| {
        ForwardingDecision::new(PortId(9), 4, (5, true), 6, at(at_byte), Retag::Keep).with_retag(retag)
    };
    for (retag, moved) in [(Retag::Push, 18), (Retag::Pop, 10), (Retag::Rewrite, 14), (Retag::Keep, 14)] {
        let decision = with(14, retag);
        assert_eq!((decision.retag(), decision.ecn()), (retag, at(moved)));
        assert_eq!((decision.out(), decision.pg(), decision.tc()), (PortId(9), 5, 6));
    }
}

#[test]
fn thousands_of_pairs_at_random_are_nearly_all_kept() {
    let mut cache = FlowCache::new(ROOM);
    let mut rng = crate::rng::Rng::new(1);
    let mut station = || 0x0200_0000_0000 + rng.next_u64() % 512;
    let pairs: Vec<_> = (0..2048).map(|_| (station(), (1 << 32) + station())).collect();
    pairs.iter().for_each(|pair| keep(&mut cache, *pair, 1));
    let kept = pairs.iter().filter(|pair| is_kept(&cache, **pair, 1)).count();
    assert!(kept > 2048 * 99 / 100, "{kept}");
}

#[test]
fn a_station_that_moves_voids_the_decisions_about_its_own_frames_and_no_others() {
    let mut cache = FlowCache::new(ROOM);
    // 40 stations talk with each other; a decision that found its set taken was not kept.
    let pairs: Vec<_> =
        (1..=40).flat_map(|a| (1..=40).map(move |b| (a, b))).filter(|(a, b)| a != b).collect();
    pairs.iter().for_each(|pair| keep(&mut cache, *pair, 1));
    let kept =
        |cache: &FlowCache| pairs.iter().copied().filter(|pair| is_kept(cache, *pair, 1)).collect::<Vec<_>>();
    let before = kept(&cache);
    assert!(before.len() > 1500, "{}", before.len());
    for station in [7, 9, 7] {
        cache.sync_epoch(0, 0, &mut Changed::from_iter([station]));
    }
    let others: Vec<_> =
        before.into_iter().filter(|(a, b)| ![7, 9].contains(a) && ![7, 9].contains(b)).collect();
    assert!(kept(&cache) == others);
    // Its next frames are decided upon anew, and may be voided again, as often as somebody pretends to be it.
    for _ in 0..100 {
        keep(&mut cache, (7, 1), 1);
        cache.sync_epoch(0, 0, &mut Changed::from_iter([7]));
        assert!(!is_kept(&cache, (7, 1), 1));
    }
    assert!(kept(&cache).iter().all(|pair| others.contains(pair)));
    assert!(kept(&cache).len() + 100 / PATIENCE as usize + 1 >= others.len());
}

#[test]
fn a_station_with_more_decisions_than_can_be_gone_through_voids_all() {
    let mut cache = FlowCache::new(ROOM);
    (2..2000).for_each(|n| keep(&mut cache, (n, 1), 1));
    let epoch = cache.epoch;
    cache.sync_epoch(0, 0, &mut Changed::from_iter([1]));
    assert_ne!(cache.epoch, epoch);
}

/// What the stations of a rack differ in are a few bits, in the same places of both addresses: whichever these are, and
/// whatever priorities and tags come with them, hardly a decision finds no place.
#[test]
fn stations_that_are_numbered_find_places() {
    let frame = |dst: [u8; 6], src: [u8; 6], n: usize| {
        let priority = (n % 8) as u8;
        let tagged =
            [&[0x81, 0, priority << 5, 100, 8, 0, 0x45, priority << 5, 0, 40][..], &[0; 38]].concat();
        let plain = [&[8, 0, 0x45, priority << 5, 0, 40][..], &[0; 42]].concat();
        [&dst[..], &src, if n % 16 < 8 { &tagged } else { &plain }].concat()
    };
    let by_last = |side: u8, n: usize| [2, 0, 0, (n >> 8) as u8, side, n as u8];
    let by_middle = |side: u8, n: usize| [0x98, 0x03, 0x9b, n as u8, (n >> 8) as u8, side];
    let by_vendor = |side: u8, n: usize| [2, n as u8, (n >> 8) as u8, 7, 7, side];
    for address in [by_last, by_middle, by_vendor] {
        for (stations, kinds) in [(64, 1), (64, 2), (24, 16), (512, 1)] {
            let mut cache = FlowCache::new(4 * ROOM);
            let pairs = (0..64 * 64).map(|n| (n % 64 * (stations / 24).min(8), n / 64));
            let keys: Vec<_> = pairs
                .flat_map(|(a, b)| (0..kinds).map(move |kind| (a, b, kind)))
                .take(ROOM)
                .map(|(a, b, kind)| frame(address(0, a % stations), address(1, b % stations), kind))
                .map(|bytes| Profile::standard().flow_key(&bytes, bytes.len()).expect("nothing odd"))
                .collect();
            keys.iter().for_each(|key| cache.keep(*key, PortId(1), decision(), [1, 2]));
            let kept = |key: &&FlowKey| cache.at(cache.probe_key(**key, cache.stamp(PortId(1)))).is_decided();
            let lost = keys.len() - keys.iter().filter(kept).count();
            assert!(lost * 200 < keys.len(), "{lost} of {}: {stations} stations, {kinds} kinds", keys.len());
        }
    }
}

#[test]
fn queues_of_a_port_and_one_queue_of_many_ports_are_told_apart() {
    let place = |out: u16, queue: u8, control: bool| {
        ForwardingDecision::new(PortId(out), queue, (0, control), 0, EcnCode::NONE, Retag::Keep).group()
    };
    for out in [0, 7, 31] {
        let own: std::collections::BTreeSet<_> = (0..8).map(|queue| place(out, queue, false)).collect();
        assert_eq!(own.len(), PRIORITIES);
        assert!((0..8).all(|queue| place(out, queue, true) != place(out, queue, false)));
    }
    for queue in 0..8 {
        let all: std::collections::BTreeSet<_> = (0..32).map(|out| place(out, queue, false)).collect();
        assert_eq!(all.len(), 32);
    }
}
