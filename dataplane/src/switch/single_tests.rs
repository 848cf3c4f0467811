//! Frames that come and go one by one are treated as those of bursts of one: what leaves, what is counted and what the buffer holds is
//! the same, near limits, under pauses, marks, early drops, weights and rates, too.

use super::super::weighted;
use super::*;
use crate::drops::DropReason;
use crate::egress::QueueSchedule;
use crate::mmu::{Limit, MmuParams, PgParams};
use crate::switch::Switch;
use crate::types::PRIORITIES;

/// Little memory, part of it for a lossless group, and ports that are slow or serve by weight.
fn crowded(dice: &mut Dice) -> SwitchParams {
    let mut fixed = fixed(dice, 1);
    fixed.mmu = MmuParams::lossy(PORTS.into(), dice.one(&[9_000, 20_000, 1 << 20]));
    let lossless = PgParams {
        lossless: true,
        limit: Limit::dynamic(dice.one(&[-3, -1])).unwrap(),
        headroom: dice.one(&[200, 600]),
        xon: dice.one(&[0, 200]),
        xon_offset: dice.one(&[0, 150]),
        ..fixed.mmu.pgs[3]
    };
    for port in 0..usize::from(PORTS) {
        fixed.mmu.pgs[port * PRIORITIES + 3] = lossless;
    }
    let mut params = configured(dice, &fixed, true);
    params.mmu.mirror = params.mmu.mirror.min(2_000);
    if dice.one_in(2) {
        (params.mirrors, params.mmu.mirror) = (Vec::new(), 0);
    }
    for port in &mut params.ports {
        port.queues = dice.one(&[[QueueSchedule::STRICT; PRIORITIES], std::array::from_fn(weighted)]);
        port.queues[3].pir = dice.one(&[None, None, Some(50_000_000)]);
        (port.rate, port.burst) = dice.one(&[(None, 0), (None, 0), (Some(100_000_000), 20_000)]);
        for mark in port.mark.iter_mut().chain(&mut port.early_drop).flatten() {
            (mark.kmax, mark.pmax) = (mark.kmin + 1000, dice.one(&[ONE_Q32, ONE_Q32 / 2]));
        }
    }
    params
}

/// Lets a port send control frames that are due, then one data frame.
fn send(switch: &mut Switch<OwnedFrame>, port: PortId, now: Nanos, one: bool) -> Out {
    let mut wire = Out::of(1);
    if switch.generator(port).due(now) {
        switch.transmit(port, 0, now, &mut wire);
    }
    match one && switch.is_plain() {
        true => wire.frames.extend(switch.transmit_one(port, now).map(|frame| frame.bytes().to_vec())),
        false => drop(switch.transmit(port, 1, now, &mut wire)),
    }
    wire
}

/// How often the switches of a case paused, marked, lost and sent.
fn play(seed: u64) -> [u64; 4] {
    let mut dice = Dice(Rng::new(seed));
    let mut params = crowded(&mut dice);
    params.seed = seed;
    let mut both = [(); 2].map(|()| Switch::<OwnedFrame>::new(params.clone()).unwrap());
    let (mut frames, mut number, mut now) = (pool(&mut dice), 0, 1_000);
    for step in 0..3000 {
        let what = format!("seed {seed}, step {step}");
        now += dice.one(&[100, 1_000, 8_000]);
        let (id, up) = (PortId(dice.below(PORTS.into()) as u16), !dice.one_in(3));
        match dice.below(120) {
            0 => both.iter_mut().for_each(|switch| switch.set_link(id, up, now)),
            1 => frames = pool(&mut dice),
            2..8 => {
                let pause = PfcFrame::uniform(1 << 3 | 1, dice.one(&[0, 100, 2000])).encode(Mac::from_u64(2));
                both.iter_mut().for_each(|switch| switch.receive_one(id, OwnedFrame::new(pause), now));
            }
            8..60 => {
                let kinds = &frames[id.index()];
                number += 1;
                let frame = numbered(&kinds[dice.below(3)], number);
                let [burst, one] = &mut both;
                burst.receive(id, &mut Burst::from_iter([OwnedFrame::new(frame.bytes())]), now);
                one.receive_one(id, frame, now);
            }
            60..70 => both.iter_mut().for_each(|switch| switch.tick(now)),
            _ => {
                let [a, b] = [0, 1].map(|at| send(&mut both[at], id, now, at == 1));
                assert_eq!((a.frames, a.control), (b.frames, b.control), "{what}");
            }
        }
        let [a, b] = &both;
        assert_eq!(a.stats(id), b.stats(id), "{what}");
        assert_eq!(a.gauges(id, now), b.gauges(id, now), "{what}");
        assert_eq!(a.conservation(), b.conservation(), "{what}");
        let next = both.each_mut().map(|switch| switch.next_event(id, now));
        assert_eq!(next[0], next[1], "{what}");
    }
    both.iter().for_each(assert_conserved);
    let [_, one] = &both;
    let all =
        |of: fn(&crate::stats::PortStats) -> u64| (0..PORTS).map(|port| of(one.stats(PortId(port)))).sum();
    let pauses = (0..PORTS).map(|port| one.gauges(PortId(port), now).pfc_tx_xoff.iter().sum::<u64>()).sum();
    [pauses, all(|s| s.ecn_marked.iter().sum()), all(|s| s.drops.0.iter().sum()), all(|s| s.tx_packets)]
}

#[test]
fn one_by_one_is_as_in_bursts_of_one() {
    let mut all = [0; 4];
    for seed in 1..=60 {
        all.iter_mut().zip(play(seed)).for_each(|(sum, more)| *sum += more);
    }
    assert!(all.iter().all(|count| *count > 100), "{all:?}");
}

/// A frame that passes leaves everything as if it had been received and sent.
#[test]
fn what_passes_is_as_received_and_sent() {
    let mut all = [0; 2];
    for seed in 1..=40 {
        let mut dice = Dice(Rng::new(seed));
        let mut params = crowded(&mut dice);
        (params.mirrors, params.mmu.mirror) = (Vec::new(), 0);
        // Most stations are known, and stay where they are.
        params.lags.clear();
        for port in &mut params.ports {
            (port.vlans, port.learning, port.admin_down, port.lacp) = (None, false, false, false);
        }
        let key = |n: usize| Profile::standard().key(station(n), 0);
        params.stations = (0..24).map(|n| (key(n), PortId(n as u16 / 3 % PORTS))).collect();
        (params.flow_cache, params.fdb_capacity) = (4096, 256);
        let mut both = [(); 2].map(|()| Switch::<OwnedFrame>::new(params.clone()).unwrap());
        let (frames, mut now) = (pool(&mut dice), 1_000);
        for step in 0..1500 {
            let what = format!("seed {seed}, step {step}");
            now += dice.one(&[100, 1_000, 8_000]);
            let id = PortId(dice.below(PORTS.into()) as u16);
            match dice.below(120) {
                0..4 => {
                    let pause =
                        PfcFrame::uniform(1 << 3 | 1, dice.one(&[0, 100, 2000])).encode(Mac::from_u64(2));
                    both.iter_mut().for_each(|switch| switch.receive_one(id, OwnedFrame::new(pause), now));
                }
                4..10 => both.iter_mut().for_each(|switch| switch.tick(now)),
                10..50 => {
                    let frame = numbered(&frames[id.index()][dice.below(12)], step);
                    let [queued, passing] = &mut both;
                    queued.receive_one(id, frame.clone(), now);
                    // It says itself where it goes.
                    let mut coming = Err(frame);
                    for out in (0..PORTS).map(PortId) {
                        coming = match coming {
                            Err(frame) => passing.pass_one(id, out, frame, now).map(|passed| (out, passed)),
                            other => other,
                        };
                    }
                    match coming {
                        Err(frame) => passing.receive_one(id, frame, now),
                        Ok((out, passed)) => {
                            let sent = queued.transmit_one(out, now).unwrap();
                            assert_eq!(sent.bytes(), passed.frame.bytes(), "{what}");
                            assert_eq!(queued.next_event(out, now), passed.next, "{what}");
                            all[0] += 1;
                        }
                    }
                }
                // What waits for a port leaves it: most have nothing, then.
                _ => {
                    for _ in 0..40 {
                        let [a, b] = both.each_mut().map(|switch| send(switch, id, now, true));
                        assert_eq!((a.frames, a.control), (b.frames, b.control), "{what}");
                    }
                }
            }
            let [a, b] = &both;
            for id in (0..PORTS).map(PortId) {
                assert_eq!(a.stats(id), b.stats(id), "{what}");
                assert_eq!(a.gauges(id, now), b.gauges(id, now), "{what}");
            }
            assert_eq!(a.conservation(), b.conservation(), "{what}");
            let next = both.each_mut().map(|switch| switch.next_event(id, now));
            assert_eq!(next[0], next[1], "{what}");
        }
        both.iter().for_each(assert_conserved);
        let [_, passing] = &both;
        all[1] += (0..PORTS).map(|port| passing.stats(PortId(port)).tx_packets).sum::<u64>();
    }
    assert!(all[0] > 100 && all[1] > 2 * all[0], "{all:?}");
}

/// Lets a port send a data frame, and the other switch give up one of the same queue, which is marked by what is left there.
fn dequeue([one, other]: &mut [Switch<OwnedFrame>; 2], port: PortId, now: Nanos) -> [Vec<Vec<u8>>; 2] {
    let before: Vec<u32> = (0..PRIORITIES).map(|queue| one.queue_frames(port, queue)).collect();
    let sent = one.transmit_one(port, now);
    let queue = (0..PRIORITIES).find(|queue| one.queue_frames(port, *queue) < before[*queue]);
    let dequeued = queue.and_then(|queue| {
        let taken = other.dequeue_one(port, queue, now)?;
        let depth = other.queue_bytes(port, queue);
        assert_conserved(other);
        Some(other.depart(port, taken, (depth, now), &mut Rng::new(1)))
    });
    [sent, dequeued].map(|frame| frame.iter().map(|frame| frame.bytes().to_vec()).collect())
}

/// What is dequeued for a crossbar is counted when it leaves or is lost, one or the other.
#[test]
fn what_was_dequeued_is_sent_or_lost() {
    let mut dice = Dice(Rng::new(1));
    let mut params = crowded(&mut dice);
    (params.mirrors, params.mmu.mirror) = (Vec::new(), 0);
    let mut switch = Switch::<OwnedFrame>::new(params).unwrap();
    let (frames, mut ends) = (pool(&mut dice), [0; 2]);
    for step in 0..400 {
        let id = PortId(dice.below(PORTS.into()) as u16);
        switch.receive_one(id, OwnedFrame::new(frames[id.index()][dice.below(3)].clone()), 1_000);
        let all = (0..PORTS).flat_map(|port| (0..PRIORITIES).map(move |queue| (PortId(port), queue)));
        for (out, queue) in all {
            let Some(taken) = switch.dequeue_one(out, queue, 1_000) else { continue };
            assert_eq!(switch.in_flight(out), 1);
            let before = switch.conservation();
            match step % 2 {
                0 => drop(switch.depart(out, taken, (0, 1_000), &mut Rng::new(1))),
                _ => switch.lose(out, taken, DropReason::WatchdogDrop),
            }
            let after = switch.conservation();
            let counted = [after.transmitted - before.transmitted, after.dropped - before.dropped];
            assert_eq!((counted[step % 2], before.held - after.held), (1, 1));
            assert_conserved(&switch);
            ends[step % 2] += 1;
        }
    }
    assert!(ends.iter().all(|count| *count > 50), "{ends:?}");
}

/// What is dequeued for a crossbar is counted, released and marked as what is sent.
#[test]
fn dequeued_for_a_crossbar_is_as_sent() {
    let mut marked = 0;
    for seed in 1..=30 {
        let mut dice = Dice(Rng::new(seed));
        let mut params = crowded(&mut dice);
        (params.mirrors, params.mmu.mirror) = (Vec::new(), 0);
        for law in params.ports.iter_mut().flat_map(|port| port.mark.iter_mut().chain(&mut port.early_drop)) {
            // What is drawn does not matter.
            law.iter_mut().for_each(|law| (law.kmax, law.pmax) = (law.kmin, ONE_Q32));
        }
        let mut both = [(); 2].map(|()| Switch::<OwnedFrame>::new(params.clone()).unwrap());
        let (frames, mut now) = (pool(&mut dice), 1_000);
        for step in 0..2000 {
            let what = format!("seed {seed}, step {step}");
            now += dice.one(&[100, 1_000, 8_000]);
            let id = PortId(dice.below(PORTS.into()) as u16);
            match dice.below(120) {
                0..4 => {
                    let pause =
                        PfcFrame::uniform(1 << 3 | 1, dice.one(&[0, 100, 2000])).encode(Mac::from_u64(2));
                    both.iter_mut().for_each(|switch| switch.receive_one(id, OwnedFrame::new(pause), now));
                }
                4..60 => {
                    let frame = numbered(&frames[id.index()][dice.below(3)], step);
                    both.iter_mut().for_each(|switch| switch.receive_one(id, frame.clone(), now));
                }
                _ => {
                    let [sent, dequeued] = dequeue(&mut both, id, now);
                    assert_eq!(sent, dequeued, "{what}");
                }
            }
            let [a, b] = &both;
            assert_eq!(a.stats(id), b.stats(id), "{what}");
            assert_eq!(a.conservation(), b.conservation(), "{what}");
            assert_eq!(a.gauges(id, now).pg_used, b.gauges(id, now).pg_used, "{what}");
        }
        both.iter().for_each(assert_conserved);
        let [_, other] = &both;
        marked +=
            (0..PORTS).map(|port| other.stats(PortId(port)).ecn_marked.iter().sum::<u64>()).sum::<u64>();
    }
    assert!(marked > 100, "{marked}");
}
