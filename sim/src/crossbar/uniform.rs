//! Throughput and delay of a cell switch under uniform traffic: tables R1 and R2 of the reference.
//!
//! Slots; cells arrive before the match of their slot, so a cell served at once has delay 0.

use super::pim::any_of;
use super::{
    Arbiter, Demand, Islip, MAX_CROSSBAR_PORTS, Matching, Pim, PointerRule, Voqs, all_ports, ports_of,
};
use crate::crossbar::Classes;
use std::collections::VecDeque;
use weir_dataplane::rng::Rng;

/// How the switch decides what leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// One FIFO per input; an output takes one of the heads meant for it at random.
    Fifo,
    /// VOQs and PIM with this many iterations.
    Pim(u32),
    /// VOQs and round-robin matching with this many iterations.
    Rrm(u32),
    /// VOQs and iSLIP with this many iterations.
    Islip(u32),
    /// Every cell reaches its output queue at once.
    OutputQueued,
}

/// What arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Traffic {
    /// Every input always has a cell for every output (FIFO: always a cell).
    Saturated,
    /// At each input a cell per slot with this probability, to any output.
    Bernoulli(f64),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Cells per output and slot.
    pub throughput: f64,
    /// Mean delay of the cells that left, slots.
    pub delay: f64,
}

/// Sums over the slots that count.
#[derive(Default)]
struct Tally {
    cells: u64,
    delay: u64,
}

/// Cells that arrive at the inputs.
struct Source {
    rng: Rng,
    /// Probability of an arrival, 2^32 is one.
    load: u64,
    ports: u64,
}

impl Source {
    fn new(ports: usize, load: f64, seed: u64) -> Self {
        Self { rng: Rng::new(seed), load: (load * 4_294_967_296.0) as u64, ports: ports as u64 }
    }

    fn output(&mut self) -> usize {
        ((u64::from(self.rng.next_u32()) * self.ports) >> 32) as usize
    }

    /// The output of the cell that arrives at one input in one slot, if one does.
    fn arrival(&mut self) -> Option<usize> {
        let dice = self.rng.next_u64();
        (dice >> 32 < self.load).then_some((((dice & 0xffff_ffff) * self.ports) >> 32) as usize)
    }
}

/// Runs `slots` slots of an `n` x `n` switch; the first quarter does not count.
pub fn measure(n: usize, scheme: Scheme, traffic: Traffic, slots: u64, seed: u64) -> Outcome {
    let load = if let Traffic::Bernoulli(load) = traffic { Some(load) } else { None };
    let mut source = Source::new(n, load.unwrap_or(1.0), seed);
    let mut tally = Tally::default();
    let warm = slots / 4;
    let islip = |rule, iterations| Islip::new(n, 1, iterations, rule, &Classes::Strict);
    match (scheme, load) {
        (Scheme::Fifo, _) => fifo(n, load.is_none(), &mut source, slots, warm, &mut tally),
        (Scheme::OutputQueued, _) => output_queued(n, &mut source, slots, warm, &mut tally),
        (Scheme::Pim(k), _) => voq(n, Pim::new(k, seed ^ 1), load, &mut source, slots, warm, &mut tally),
        (Scheme::Rrm(k), _) => {
            voq(n, islip(PointerRule::Rrm, k), load, &mut source, slots, warm, &mut tally);
        }
        (Scheme::Islip(k), _) => {
            voq(n, islip(PointerRule::FirstIteration, k), load, &mut source, slots, warm, &mut tally);
        }
    }
    Outcome {
        throughput: tally.cells as f64 / (slots - warm) as f64 / n as f64,
        delay: tally.delay as f64 / tally.cells.max(1) as f64,
    }
}

fn voq(
    n: usize,
    mut arbiter: impl Arbiter,
    load: Option<f64>,
    source: &mut Source,
    slots: u64,
    warm: u64,
    tally: &mut Tally,
) {
    let everybody = all_ports(n);
    let mut matching = Matching::new();
    if load.is_none() {
        let mut demand = Demand::new(n, 1);
        (0..n * n).for_each(|i| demand.set(i / n, i % n, 0, true));
        for slot in 0..slots {
            arbiter.arbitrate(&demand, everybody, everybody, &mut matching);
            tally.cells += if slot >= warm { matching.len() as u64 } else { 0 };
        }
        return;
    }
    let mut voqs = Voqs::new(n, 1);
    for slot in 0..slots {
        for input in 0..n {
            if let Some(output) = source.arrival() {
                voqs.push(input, output, 0, slot);
            }
        }
        arbiter.arbitrate(voqs.demand(), everybody, everybody, &mut matching);
        for &pair in &matching {
            let Some(arrived) = voqs.pop(pair) else { continue };
            tally.note(slot, arrived, warm);
        }
    }
}

impl Tally {
    fn note(&mut self, slot: u64, arrived: u64, warm: u64) {
        if slot >= warm {
            self.cells += 1;
            self.delay += slot - arrived;
        }
    }
}

fn fifo(n: usize, saturated: bool, source: &mut Source, slots: u64, warm: u64, tally: &mut Tally) {
    let mut queues: Vec<VecDeque<(usize, u64)>> = vec![VecDeque::new(); n];
    for slot in 0..slots {
        let mut heads = [0u64; MAX_CROSSBAR_PORTS];
        for (input, queue) in queues.iter_mut().enumerate() {
            if !saturated {
                queue.extend(source.arrival().map(|output| (output, slot)));
            } else if queue.is_empty() {
                queue.push_back((source.output(), slot));
            }
            if let Some(&(output, _)) = queue.front() {
                heads[output] |= 1 << input;
            }
        }
        for inputs in heads.into_iter().filter(|inputs| *inputs != 0) {
            let winner = any_of(inputs, &mut source.rng);
            let arrived = queues[winner].pop_front().map_or(slot, |(_, arrived)| arrived);
            tally.note(slot, arrived, warm);
        }
    }
}

fn output_queued(n: usize, source: &mut Source, slots: u64, warm: u64, tally: &mut Tally) {
    let mut queues: Vec<VecDeque<u64>> = vec![VecDeque::new(); n];
    for slot in 0..slots {
        // Cells of one slot for one output leave in random order: their order does not change the mean.
        for _ in ports_of(all_ports(n)) {
            if let Some(output) = source.arrival() {
                queues[output].push_back(slot);
            }
        }
        for arrived in queues.iter_mut().filter_map(VecDeque::pop_front) {
            tally.note(slot, arrived, warm);
        }
    }
}
