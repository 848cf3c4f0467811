//! Tables R1 and R2 of the reference, and the properties that make iSLIP what it is.

use super::*;
use weir_dataplane::rng::Rng;

fn near(got: f64, want: f64, share: f64, what: &str) {
    assert!((got - want).abs() <= want * share + 0.002, "{what}: {got:.4}, expected {want}");
}

fn saturated(n: usize, scheme: Scheme, slots: u64) -> f64 {
    measure(n, scheme, Traffic::Saturated, slots, 7).throughput
}

fn delay(scheme: Scheme, load: f64, slots: u64) -> f64 {
    measure(16, scheme, Traffic::Bernoulli(load), slots, 11).delay
}

/// Karol, Hluchyj and Morgan 1987 up to 8.
const FIFO: [(usize, f64); 9] = [
    (2, 0.75),
    (3, 0.6825),
    (4, 0.6553),
    (5, 0.6399),
    (6, 0.6302),
    (7, 0.6234),
    (8, 0.6184),
    (16, 0.601),
    (32, 0.593),
];

#[test]
fn r1_fifo_saturates_at_the_head_of_line_limit() {
    for (n, want) in FIFO {
        near(saturated(n, Scheme::Fifo, 60_000), want, 0.01, &format!("FIFO {n}"));
    }
}

#[test]
fn r1_pim_is_the_63_percent_not_islip() {
    for (k, want) in [(1, 0.6437), (2, 0.8815), (3, 0.9727), (4, 0.9989)] {
        near(saturated(16, Scheme::Pim(k), 20_000), want, 0.005, &format!("PIM {k}"));
    }
    for n in [4, 8, 16, 32, 64] {
        near(saturated(n, Scheme::Islip(1), 8_000), 1.0, 0.0, &format!("iSLIP {n}"));
    }
}

#[test]
fn r1_rrm_pointers_move_in_step() {
    near(saturated(2, Scheme::Rrm(1), 10_000), 0.5, 0.0, "RRM 2x2");
}

#[test]
fn r2_output_queueing_follows_its_formula() {
    for load in [0.1, 0.3, 0.5, 0.7, 0.8, 0.9] {
        let formula = 15.0 / 16.0 * load / (2.0 * (1.0 - load));
        near(delay(Scheme::OutputQueued, load, 200_000), formula, 0.03, &format!("OQ {load}"));
    }
}

#[test]
fn r2_islip_delays() {
    let table = [
        (1, 0.2, 0.149, 60_000),
        (1, 0.5, 1.30, 60_000),
        (1, 0.7, 21.2, 100_000),
        (1, 0.8, 44.4, 150_000),
        (1, 0.9, 114.0, 400_000),
        (2, 0.5, 0.718, 60_000),
        (2, 0.8, 4.59, 100_000),
        (2, 0.9, 24.4, 300_000),
        (4, 0.5, 0.717, 60_000),
        (4, 0.8, 3.76, 100_000),
        (4, 0.9, 9.8, 300_000),
    ];
    for (k, load, want, slots) in table {
        near(delay(Scheme::Islip(k), load, slots), want, 0.03, &format!("iSLIP-{k} at {load}"));
    }
}

#[test]
fn r2_pim_and_fifo_delays() {
    for (load, want, slots) in [(0.3, 0.259, 60_000), (0.6, 1.15, 60_000), (0.8, 3.71, 100_000)] {
        near(delay(Scheme::Pim(4), load, slots), want, 0.03, &format!("PIM-4 at {load}"));
    }
    for (load, want) in [(0.2, 0.150), (0.4, 0.680), (0.5, 1.86)] {
        near(delay(Scheme::Fifo, load, 200_000), want, 0.03, &format!("FIFO at {load}"));
    }
}

#[test]
fn dev14_there_are_ports_squared_times_classes_queues() {
    for (ports, classes, want) in [(8, 4, 256), (16, 4, 1024), (32, 8, 8192), (64, 8, 32768)] {
        assert_eq!(Voqs::<u8>::new(ports, classes).count(), want);
    }
    let mut voqs = Voqs::new(3, 2);
    let everywhere = || (0..3).flat_map(|i| (0..3).flat_map(move |o| (0..2).map(move |c| (i, o, c))));
    everywhere().for_each(|(i, o, c)| voqs.push(i, o, c, (i, o, c)));
    for (i, o, c) in everywhere() {
        let pair = Pair { input: i as u8, output: o as u8, class: c as u8 };
        assert_eq!(voqs.pop(pair), Some((i, o, c)), "each queue holds its own");
    }
    assert!(voqs.is_empty());
}

/// Pairs that ask in every slot, and the longest time each waited for its turn.
fn longest_wait(n: usize, wanted: u64, rule: PointerRule, slots: usize) -> usize {
    let mut demand = Demand::new(n, 1);
    (0..n * n).for_each(|i| demand.set(i / n, i % n, 0, wanted >> i & 1 == 1));
    let mut arbiter = Islip::new(n, 1, n as u32, rule, &Classes::Strict);
    let (mut last, mut longest) = (vec![0; n * n], 0);
    let mut matching = Matching::new();
    for slot in 1..=slots {
        arbiter.arbitrate(&demand, all_ports(n), all_ports(n), &mut matching);
        for pair in &matching {
            let at = usize::from(pair.input) * n + usize::from(pair.output);
            last[at] = slot;
        }
        let waits = demand.pairs(0).map(|(i, o)| slot - last[i * n + o]);
        longest = longest.max(waits.max().unwrap_or(0));
    }
    longest
}

#[test]
fn dev15_pointers_that_move_in_later_iterations_starve_somebody() {
    // All 512 patterns of standing requests of a 3x3 switch.
    let worst = |rule| (0..512).map(|wanted| longest_wait(3, wanted, rule, 200)).max().unwrap();
    assert!(worst(PointerRule::FirstIteration) <= 9, "nobody waits more than N^2 slots");
    assert!(worst(PointerRule::EveryIteration) >= 190, "somebody never gets a turn");
}

#[test]
fn sw075_incast_shares_the_output_and_pointers_part() {
    // All inputs to output 0: exact round robin.
    let n = 8;
    let mut demand = Demand::new(n, 1);
    (0..n).for_each(|input| demand.set(input, 0, 0, true));
    let mut arbiter = Islip::new(n, 1, 1, PointerRule::FirstIteration, &Classes::Strict);
    let mut served = vec![0; n];
    let mut matching = Matching::new();
    for _ in 0..8 * n {
        arbiter.arbitrate(&demand, all_ports(n), all_ports(n), &mut matching);
        matching.iter().for_each(|pair| served[usize::from(pair.input)] += 1);
    }
    assert_eq!(served, vec![8; n]);
    // Everybody to everybody: all pointers start together and point apart soon after.
    (0..n * n).for_each(|i| demand.set(i / n, i % n, 0, true));
    let mut arbiter = Islip::new(n, 1, 1, PointerRule::FirstIteration, &Classes::Strict);
    for _ in 0..2 * n {
        arbiter.arbitrate(&demand, all_ports(n), all_ports(n), &mut matching);
    }
    let mut pointers = arbiter.grant_pointers(0).to_vec();
    pointers.sort_unstable();
    assert_eq!(pointers, (0..n as u8).collect::<Vec<_>>());
    assert_eq!(matching.len(), n);
}

/// Cells of each class that leave a saturated 8x8 crossbar.
fn class_shares(order: &Classes) -> [u64; 4] {
    let n = 8;
    let mut demand = Demand::new(n, 4);
    (0..4).for_each(|class| (0..n * n).for_each(|i| demand.set(i / n, i % n, class, true)));
    let mut arbiter = Islip::new(n, 4, 4, PointerRule::FirstIteration, order);
    let mut served = [0; 4];
    let mut matching = Matching::new();
    for slot in 0..10_000 {
        arbiter.arbitrate(&demand, all_ports(n), all_ports(n), &mut matching);
        let count = if slot >= 1000 { 1 } else { 0 };
        matching.iter().for_each(|pair| served[usize::from(pair.class)] += count);
    }
    served
}

#[test]
fn sw076_strict_and_weighted_classes() {
    let strict = class_shares(&Classes::Strict);
    assert_eq!(strict[..3], [0, 0, 0]);
    near(strict[3] as f64, 9_000.0 * 8.0, 0.001, "the highest class has it all");
    // ACK and CNP 4, requests 2, responses 2, best effort 1.
    let shares = class_shares(&Classes::Weighted(vec![1, 2, 2, 4]));
    let total: u64 = shares.iter().sum();
    for (class, weight) in [1.0, 2.0, 2.0, 4.0].into_iter().enumerate() {
        near(shares[class] as f64 / total as f64, weight / 9.0, 0.05, &format!("class {class}"));
    }
    near(total as f64, 9_000.0 * 8.0, 0.02, "weights cost no throughput");
}

#[test]
fn a_match_is_a_match_whatever_is_asked() {
    let mut rng = Rng::new(3);
    let mut islip = Islip::new(5, 2, 3, PointerRule::FirstIteration, &Classes::Weighted(vec![1, 3]));
    let mut pim = Pim::new(3, 4);
    let mut matching = Matching::new();
    for _ in 0..2000 {
        let mut demand = Demand::new(5, 2);
        let wanted = rng.next_u64() & rng.next_u64();
        (0..50).for_each(|i| demand.set(i / 10, i / 2 % 5, i % 2, wanted >> i & 1 == 1));
        let (free_in, free_out) = (rng.next_u64() & 31, rng.next_u64() & 31);
        for arbiter in [&mut islip as &mut dyn Arbiter, &mut pim] {
            arbiter.arbitrate(&demand, free_in, free_out, &mut matching);
            let (mut ins, mut outs) = (0u64, 0u64);
            for pair in &matching {
                let wants = demand.outputs_wanted(pair.input.into(), pair.class.into());
                assert!(wants >> pair.output & 1 == 1, "nobody is sent what he has not");
                assert!((ins >> pair.input | outs >> pair.output) & 1 == 0, "twice in one match");
                ins |= 1 << pair.input;
                outs |= 1 << pair.output;
            }
            assert!(ins & !free_in == 0 && outs & !free_out == 0, "busy ports are left alone");
        }
    }
}

/// Frames of 64 to 1536 bytes at 0.8 of the cells, 8x8: mean delay in slots, decisions per kilobyte,
/// frames out of order within input and output.
fn variable_frames(mode: Mode) -> (f64, f64, u64) {
    let (n, cell) = (8, 64);
    let arbiter = Islip::new(n, 1, 3, PointerRule::FirstIteration, &Classes::Strict);
    let mut crossbar = FrameCrossbar::new(n, 1, mode, cell, arbiter);
    let mut rng = Rng::new(5);
    let mut next = vec![0u64; n * n];
    let mut number = vec![0u64; n * n];
    let (mut frames, mut delays, mut bytes, mut misordered) = (0u64, 0u64, 0u64, 0u64);
    // Mean length 12.5 cells.
    let start = (0.8 / 12.5 * f64::from(u32::MAX)) as u32;
    for slot in 0..110_000 {
        for input in 0..n {
            if slot < 100_000 && rng.next_u32() < start {
                let output = rng.next_u32() as usize % n;
                let len = cell * u64::from(1 + rng.next_u32() % 24);
                bytes += len;
                crossbar.push(input, output, 0, len, number[input * n + output]);
                number[input * n + output] += 1;
            }
        }
        crossbar.slot(|sent| {
            let flow = usize::from(sent.pair.input) * n + usize::from(sent.pair.output);
            misordered += u64::from(sent.frame != next[flow]);
            next[flow] += 1;
            frames += 1;
            delays += sent.delay;
        });
    }
    assert!(crossbar.is_empty(), "{mode:?}: load 0.8 is carried");
    assert_eq!(number, next, "{mode:?}: every frame arrives");
    (delays as f64 / frames as f64, crossbar.decisions() as f64 * 1024.0 / bytes as f64, misordered)
}

#[test]
fn dev17_cell_mode_and_packet_mode_carry_frames() {
    let (cell_delay, cell_decisions, cell_misordered) = variable_frames(Mode::Cell);
    let (packet_delay, packet_decisions, packet_misordered) = variable_frames(Mode::Packet);
    assert_eq!((cell_misordered, packet_misordered), (0, 0));
    // A decision per cell of 64 bytes is 16 per kilobyte; one per frame is 12.5 times fewer (SW-077).
    near(cell_decisions, 16.0, 0.0, "cell mode");
    near(packet_decisions, 16.0 / 12.5, 0.02, "packet mode");
    assert!(packet_delay > 12.0 && cell_delay > packet_delay, "{cell_delay} {packet_delay}");
}

#[test]
fn dev17_a_held_match_is_not_interrupted() {
    let arbiter = Islip::new(2, 2, 2, PointerRule::FirstIteration, &Classes::Strict);
    let mut crossbar = FrameCrossbar::new(2, 2, Mode::Packet, 64, arbiter);
    crossbar.push(0, 0, 0, 256, "long, low class");
    let mut order = Vec::new();
    crossbar.slot(|_| {});
    crossbar.push(1, 0, 1, 64, "short, high class");
    (0..5).for_each(|_| crossbar.slot(|sent| order.push((sent.frame, sent.delay))));
    assert_eq!(order, [("long, low class", 3), ("short, high class", 3)]);
}
