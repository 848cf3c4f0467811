//! The table against a map, and the rules of learning one by one.

use super::*;
use crate::parse::Profile;
use proptest::prelude::*;
use std::collections::HashMap;

const P1: PortId = PortId(1);
const P2: PortId = PortId(2);

fn key(n: u64) -> u64 {
    1 << 60 | n
}

/// A table with learning on for the first `ports` ports.
fn fdb(capacity: usize, ageing: u32, ports: u16) -> Fdb {
    let mut fdb = Fdb::new(capacity, ageing, 42);
    for port in 0..ports {
        fdb.set_learning(PortId(port), true, u32::MAX);
    }
    fdb
}

fn seen(key: u64, port: PortId) -> FdbEvent {
    FdbEvent { key, port, kind: FdbEventKind::Seen }
}

/// A whole round of the sweep: everything it has to say.
fn news(fdb: &mut Fdb, tick: u32) -> Vec<FdbEvent> {
    let mut events = Vec::new();
    fdb.age(tick, fdb.buckets(), |event| events.push(event));
    events
}

/// A whole round of the sweep: what it removed.
fn sweep(fdb: &mut Fdb, tick: u32) -> Vec<FdbEvent> {
    news(fdb, tick).into_iter().filter(|event| event.kind == FdbEventKind::Gone).collect()
}

#[test]
fn learns_moves_and_counts() {
    let mut fdb = fdb(16, 0, 3);
    assert_eq!(fdb.lookup(key(7)), Lookup::Miss);
    assert_eq!(fdb.learn(key(7), P1, 0), Learned::New(seen(key(7), P1)));
    assert_eq!(fdb.learn(key(7), P1, 0), Learned::Known);
    assert_eq!(fdb.learn(key(7), P1, 1), Learned::Known);
    assert_eq!(fdb.lookup(key(7)), Lookup::Port(P1));
    assert_eq!(fdb.learn(key(7), P2, 1), Learned::Moved(seen(key(7), P2)));
    assert_eq!(fdb.lookup(key(7)), Lookup::Port(P2));
    assert_eq!((fdb.learned_on(P1), fdb.learned_on(P2), fdb.len()), (0, 1, 1));
    assert_eq!(*fdb.counters(), FdbCounters { learned: 1, moved: 1, ..FdbCounters::default() });
    assert_eq!(fdb.last_move(), Some(FdbMove { key: key(7), from: P1, to: P2 }));
}

#[test]
fn vlans_and_formats_learn_apart() {
    let mut fdb = fdb(16, 0, 3);
    let (mac, lite) = (Profile::standard(), Profile::afh_lite(crate::parse::Variant::Public));
    fdb.learn(mac.key(5, 10), P1, 0);
    assert_eq!(fdb.lookup(mac.key(5, 11)), Lookup::Miss);
    assert_eq!(fdb.lookup(mac.key(5, 0)), Lookup::Miss);
    assert_eq!(fdb.lookup(lite.key(5, 10)), Lookup::Miss);
    fdb.learn(mac.key(5, 11), P2, 0);
    assert_eq!(fdb.lookup(mac.key(5, 10)), Lookup::Port(P1));
}

#[test]
fn dev01_learning_is_off_until_switched_on() {
    let mut fdb = Fdb::new(16, 0, 1);
    assert_eq!(fdb.learn(key(1), P1, 0), Learned::Refused(Refusal::Off));
    assert_eq!(fdb.learn(key(1), PortId(999), 0), Learned::Refused(Refusal::Off));
    fdb.set_learning(PortId(999), true, 1);
    assert!(fdb.is_empty());
}

#[test]
fn a_port_holds_no_more_than_its_limit() {
    let mut fdb = fdb(16, 10, 3);
    fdb.set_learning(P1, true, 2);
    for n in 1..=2 {
        assert!(matches!(fdb.learn(key(n), P1, 0), Learned::New(_)));
    }
    assert_eq!(fdb.learn(key(3), P1, 0), Learned::Refused(Refusal::Limit));
    fdb.learn(key(4), P2, 0);
    assert_eq!(fdb.learn(key(4), P1, 0), Learned::Refused(Refusal::Limit));
    assert_eq!(fdb.lookup(key(4)), Lookup::Port(P2));
    assert_eq!(fdb.counters().refused_limit, 2);
    // A station that leaves makes room.
    fdb.learn(key(1), P2, 0);
    assert!(matches!(fdb.learn(key(3), P1, 0), Learned::New(_)));
    sweep(&mut fdb, 10);
    assert_eq!((fdb.len(), fdb.learned_on(P1), fdb.learned_on(P2)), (0, 0, 0));
}

#[test]
fn a_full_table_refuses_and_counts() {
    let mut fdb = fdb(100, 0, 3);
    for n in 1..=100 {
        assert!(matches!(fdb.learn(key(n), P1, 0), Learned::New(_)), "{n} of 100");
    }
    assert_eq!(fdb.learn(key(101), P1, 0), Learned::Refused(Refusal::Full));
    assert_eq!(fdb.learn(key(100), P1, 0), Learned::Known);
    assert_eq!((fdb.len(), fdb.counters().refused_full), (100, 1));
    assert_eq!(fdb.add_static(key(102), P1), Err(FdbFull));
    assert_eq!(fdb.add_group(key(102), PortSet::EMPTY), Err(FdbFull));
    // A static entry may take the place of what was learned about the same station.
    fdb.add_static(key(100), P2).unwrap();
    assert_eq!((fdb.len(), fdb.lookup(key(100))), (100, Lookup::Port(P2)));
}

#[test]
fn what_a_full_table_refuses_is_seen_to_move() {
    let mut fdb = fdb(100, 0, 3);
    (1..=100).for_each(|n| assert!(matches!(fdb.learn(key(n), P1, 0), Learned::New(_))));
    for (port, moved) in [(P1, 0), (P1, 0), (P2, 1), (P2, 1), (P1, 2)] {
        assert_eq!(fdb.learn(key(101), port, 0), Learned::Refused(Refusal::Full));
        assert_eq!(fdb.counters().moved, moved);
    }
    assert_eq!(fdb.last_move(), Some(FdbMove { key: key(101), from: P2, to: P1 }));
    // Many at once, each where it was: nobody has moved, however few of them are remembered.
    for _ in 0..2 {
        for n in 1_000..3_000 {
            fdb.learn(key(n), if n % 2 == 0 { P1 } else { P2 }, 0);
        }
    }
    assert_eq!((fdb.counters().moved, fdb.len()), (2, 100));
}

/// "Full" means the configured capacity: below it two candidate lines are enough.
#[test]
fn every_address_up_to_the_capacity_finds_a_place() {
    for (capacity, seed) in [(1000, 1), (16_384, 2), (131_072, 3)] {
        for step in [1, 256, 0x1_0000_0001] {
            let mut fdb = Fdb::new(capacity, 0, seed);
            fdb.set_learning(P1, true, u32::MAX);
            for n in 1..=capacity as u64 {
                assert!(matches!(fdb.learn(key(n * step), P1, 0), Learned::New(_)), "{n} * {step}");
            }
            assert_eq!(fdb.counters().refused_full, 0);
        }
    }
}

#[test]
fn static_entries_are_never_learned_over_nor_aged() {
    let mut fdb = fdb(16, 5, 3);
    fdb.add_static(key(1), P1).unwrap();
    assert_eq!(fdb.learn(key(1), P1, 0), Learned::Known);
    assert_eq!(fdb.learn(key(1), P2, 0), Learned::Refused(Refusal::Static));
    assert_eq!(fdb.counters().static_kept, 1);
    assert!(!fdb.apply(seen(key(1), P2), 0));
    assert!(sweep(&mut fdb, 1000).is_empty());
    fdb.flush_port(P1);
    assert!(sweep(&mut fdb, 1001).is_empty());
    assert_eq!(fdb.lookup(key(1)), Lookup::Port(P1));
    assert!(fdb.remove(key(1)) && !fdb.remove(key(1)));
    assert!(!fdb.remove(0) && fdb.is_empty());
}

#[test]
fn groups_come_and_go() {
    let mut fdb = fdb(16, 0, 3);
    let set = |ports: &[u16]| ports.iter().map(|&p| PortId(p)).collect::<PortSet>();
    let one = fdb.add_group(key(1), set(&[1, 2])).unwrap();
    let two = fdb.add_group(key(2), set(&[2, 200])).unwrap();
    assert_ne!(one, two);
    assert_eq!(fdb.lookup(key(2)), Lookup::Group(two));
    assert_eq!(fdb.group(two), set(&[2, 200]));
    assert_eq!(fdb.add_group(key(1), set(&[0])).unwrap(), one);
    assert_eq!((fdb.group(one), fdb.len()), (set(&[0]), 2));
    fdb.add_static(key(1), P1).unwrap();
    assert_eq!((fdb.lookup(key(1)), fdb.group(one)), (Lookup::Port(P1), PortSet::EMPTY));
    assert_eq!(fdb.group(GroupId(999)), PortSet::EMPTY);
    // A source that is configured as a group is not learned over it.
    assert_eq!(fdb.learn(key(2), P1, 0), Learned::Refused(Refusal::Static));
    assert_eq!(fdb.lookup(key(2)), Lookup::Group(two));
}

#[test]
fn ageing_is_bounded_work_and_counts_from_the_last_sighting() {
    let mut fdb = fdb(1000, 10, 3);
    for n in 1..=100 {
        fdb.learn(key(n), P1, 0);
    }
    for n in 1..=50 {
        fdb.learn(key(n), P1, 5);
    }
    assert!(sweep(&mut fdb, 9).is_empty());
    // In steps of a few buckets, one round is enough.
    let mut events = Vec::new();
    for _ in 0..fdb.buckets().div_ceil(7) {
        fdb.age(10, 7, |event| events.push(event));
    }
    events.retain(|event| event.kind == FdbEventKind::Gone);
    assert_eq!((events.len(), fdb.len(), fdb.counters().aged), (50, 50, 50));
    assert!(events.iter().all(|e| e.key > key(50) && e.port == P1));
    assert_eq!(sweep(&mut fdb, 15).len(), 50);
    assert_eq!((fdb.len(), fdb.learned_on(P1)), (0, 0));
}

#[test]
fn ageing_survives_the_wrap_of_the_tick() {
    let mut fdb = fdb(16, 10, 3);
    fdb.learn(key(1), P1, u32::MAX - 2);
    assert!(sweep(&mut fdb, 6).is_empty());
    assert_eq!(sweep(&mut fdb, 7).len(), 1);
}

#[test]
fn a_flushed_port_forgets_what_it_learned_before() {
    let mut fdb = fdb(100, 0, 3);
    for n in 1..=20 {
        fdb.learn(key(n), if n % 2 == 0 { P1 } else { P2 }, 3);
    }
    fdb.flush_port(P1);
    assert_eq!(sweep(&mut fdb, 4).len(), 10);
    assert_eq!(fdb.lookup(key(4)), Lookup::Miss);
    assert_eq!(fdb.learned_on(P2), 10);
}

#[test]
fn shards_agree_by_messages() {
    let (mut a, mut b) = (fdb(16, 5, 8), fdb(16, 5, 8));
    let Learned::New(event) = a.learn(key(1), P1, 0) else { panic!("not new") };
    assert!(b.apply(event, 0));
    assert_eq!(b.lookup(key(1)), Lookup::Port(P1));
    assert_eq!((b.learned_on(P1), b.counters().learned), (0, 0));
    // It moves to a port of the other shard, which is the owner from then on.
    let Learned::Moved(event) = b.learn(key(1), P2, 3) else { panic!("not moved") };
    assert!(a.apply(event, 3));
    assert_eq!((a.lookup(key(1)), a.learned_on(P1)), (Lookup::Port(P2), 0));
    // The owner ages it, and says so.
    assert!(news(&mut a, 8).is_empty());
    let gone = sweep(&mut b, 8);
    assert_eq!(gone.len(), 1);
    assert!(a.apply(gone[0], 8) && !a.apply(gone[0], 8));
    assert!(a.is_empty() && b.is_empty());
}

#[test]
fn the_sweep_keeps_the_entries_of_other_shards_alive() {
    let (mut a, mut b) = (fdb(16, 8, 8), fdb(16, 8, 8));
    let Learned::New(event) = a.learn(key(1), P1, 0) else { panic!("not new") };
    b.apply(event, 0);
    for tick in (4..100).step_by(4) {
        a.learn(key(1), P1, tick);
        for event in news(&mut a, tick) {
            assert!(b.apply(event, tick));
        }
        assert!(news(&mut b, tick).is_empty());
        assert_eq!(b.lookup(key(1)), Lookup::Port(P1));
    }
    // Its shard falls silent without a word: twice the ageing time, then it goes. No word of that.
    assert!(news(&mut b, 96 + 15).is_empty());
    assert_eq!((b.len(), b.counters().aged), (1, 0));
    assert!(news(&mut b, 96 + 16).is_empty());
    assert_eq!((b.len(), b.counters().aged), (0, 1));
}

#[test]
fn crossed_and_lost_news_heals() {
    let (mut a, mut b) = (fdb(16, 5, 8), fdb(16, 5, 8));
    let (Learned::New(from_a), Learned::New(from_b)) = (a.learn(key(1), P1, 0), b.learn(key(1), P2, 0))
    else {
        panic!("not new")
    };
    a.apply(from_b, 0);
    b.apply(from_a, 0);
    assert_eq!((a.learned_on(P1), b.learned_on(P2)), (0, 0));
    // Each believes the other. The next frame settles it...
    let Learned::Moved(event) = b.learn(key(1), P2, 1) else { panic!("not moved") };
    assert!(a.apply(event, 1));
    assert_eq!((a.lookup(key(1)), b.lookup(key(1))), (Lookup::Port(P2), Lookup::Port(P2)));
    // ... and an event that never arrived is said again by the sweep.
    a.remove(key(1));
    for event in news(&mut b, 2) {
        a.apply(event, 2);
    }
    assert_eq!(a.lookup(key(1)), Lookup::Port(P2));
    // Old news of its end is no news about the new owner.
    assert!(!b.apply(FdbEvent { key: key(1), port: P2, kind: FdbEventKind::Gone }, 2));
    assert!(!a.apply(FdbEvent { key: key(1), port: P1, kind: FdbEventKind::Gone }, 2));
    assert_eq!(a.lookup(key(1)), Lookup::Port(P2));
}

#[test]
fn news_of_an_unknown_station_needs_room() {
    let mut fdb = fdb(1, 0, 3);
    assert!(fdb.apply(seen(key(1), P1), 0));
    assert!(!fdb.apply(seen(key(2), P1), 0));
    assert_eq!(fdb.counters().refused_full, 1);
    assert!(!fdb.apply(seen(0, P1), 0));
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Learn(u64, u16),
    Static(u64, u16),
    Group(u64),
    Remove(u64),
    Tick(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (1u64..60, 0u16..4).prop_map(|(k, p)| Op::Learn(k, p)),
        1 => (1u64..60, 0u16..4).prop_map(|(k, p)| Op::Static(k, p)),
        1 => (1u64..60).prop_map(Op::Group),
        1 => (1u64..60).prop_map(Op::Remove),
        2 => (0u8..4).prop_map(Op::Tick),
    ]
}

proptest! {
    /// Every operation, beside a map of key to (target, static, tick).
    #[test]
    fn behaves_like_a_map(ops in prop::collection::vec(op(), 0..300), start in any::<u32>(), seed in any::<u64>()) {
        const CAPACITY: usize = 40;
        const AGEING: u32 = 5;
        const LIMIT: usize = 12;
        let mut fdb = Fdb::new(CAPACITY, AGEING, seed);
        for port in 0..4 {
            fdb.set_learning(PortId(port), true, LIMIT as u32);
        }
        let mut model: HashMap<u64, (Lookup, bool, u32)> = HashMap::new();
        let mut tick = start;
        for op in ops {
            match op {
                Op::Learn(k, p) => {
                    let to = Lookup::Port(PortId(p));
                    let on_port = model.values().filter(|v| v.0 == to && !v.1).count();
                    let got = fdb.learn(key(k), PortId(p), tick);
                    let want = match model.get(&k) {
                        Some((at, true, _)) if *at != to => "static",
                        Some((at, ..)) if *at == to => "known",
                        _ if on_port >= LIMIT => "limit",
                        Some(_) => "moved",
                        None if model.len() >= CAPACITY => "full",
                        None => "new",
                    };
                    let got = match got {
                        Learned::Known => "known",
                        Learned::New(_) => "new",
                        Learned::Moved(_) => "moved",
                        Learned::Refused(Refusal::Limit) => "limit",
                        Learned::Refused(Refusal::Full) => "full",
                        Learned::Refused(Refusal::Off) => "off",
                        Learned::Refused(Refusal::Static) => "static",
                    };
                    prop_assert_eq!(got, want);
                    let is_static = model.get(&k).is_some_and(|v| v.1);
                    if !is_static && matches!(got, "known" | "new" | "moved") {
                        model.insert(k, (to, false, tick));
                    }
                }
                Op::Static(k, p) => {
                    let fits = model.contains_key(&k) || model.len() < CAPACITY;
                    prop_assert_eq!(fdb.add_static(key(k), PortId(p)).is_ok(), fits);
                    if fits {
                        model.insert(k, (Lookup::Port(PortId(p)), true, 0));
                    }
                }
                Op::Group(k) => {
                    let fits = model.contains_key(&k) || model.len() < CAPACITY;
                    let set: PortSet = [PortId(k as u16)].into_iter().collect();
                    let group = fdb.add_group(key(k), set);
                    prop_assert_eq!(group.is_ok(), fits);
                    if let Ok(id) = group {
                        prop_assert_eq!(fdb.group(id), set);
                        model.insert(k, (Lookup::Group(id), true, 0));
                    }
                }
                Op::Remove(k) => prop_assert_eq!(fdb.remove(key(k)), model.remove(&k).is_some()),
                Op::Tick(n) => {
                    tick = tick.wrapping_add(u32::from(n));
                    let mut gone: Vec<u64> = sweep(&mut fdb, tick).iter().map(|e| e.key).collect();
                    let mut want: Vec<u64> = model.iter()
                        .filter(|(_, v)| !v.1 && tick.wrapping_sub(v.2) >= AGEING)
                        .map(|(&k, _)| key(k)).collect();
                    gone.sort_unstable();
                    want.sort_unstable();
                    prop_assert_eq!(&gone, &want);
                    model.retain(|&k, _| !want.contains(&key(k)));
                }
            }
            prop_assert_eq!(fdb.len(), model.len());
        }
        for k in 0..64 {
            let want = model.get(&k).map_or(Lookup::Miss, |v| v.0);
            prop_assert_eq!(fdb.lookup(key(k)), want);
        }
        let all: HashMap<u64, (Lookup, bool, u32)> =
            fdb.iter().map(|e| (e.key & 0xff, (e.target, e.is_static, e.tick))).collect();
        prop_assert_eq!(all, model);
    }
}

/// Frames from anywhere: parse, learn, look up, age. Nothing panics, and the books balance.
#[test]
fn fuzz_learning_from_any_frames() {
    let profile = Profile::standard();
    let mut fdb = fdb(64, 3, 4);
    let mut tick = 0u32;
    bolero::check!().with_iterations(20_000).with_type::<([u8; 20], u8)>().for_each(|(bytes, port)| {
        tick = tick.wrapping_add(1);
        for port in [PortId(u16::from(*port)), PortId(u16::from(*port) / 64)] {
            if let Ok(parsed) = profile.parse(bytes, bytes.len()) {
                fdb.learn(parsed.src_key, port, tick);
                fdb.lookup(parsed.dst_key);
            }
        }
        fdb.age(tick, 3, |_| {});
        assert_eq!(fdb.iter().count(), fdb.len());
    });
}
