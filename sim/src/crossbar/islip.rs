//! iSLIP (McKeown, "The iSLIP Scheduling Algorithm for Input-Queued Switches", IEEE/ACM ToN 1999).
//!
//! Per iteration, among inputs and outputs not matched yet: every input requests each output it has a
//! cell for; every output grants the first requester at or after its pointer; every input accepts the
//! first granting output at or after its pointer. Pointers move to one past the partner, and only if
//! the grant was accepted, and only in the first iteration (DEV-15): an output goes on offering itself
//! to the same input until that input takes it, which is why nobody starves.
//!
//! With several classes the first grant of a class may come in a later iteration, where an input has refused a higher
//! one. What the first iteration stands for is that the pointer passes over nobody who asks: so pointers move where
//! the input is the first at or after its pointer of all that asked in the slot for this output and class. With one class this is never so in
//! a later iteration, since the first one has granted that input already, and it has gone elsewhere.

use super::{Arbiter, ClassOrder, Demand, Grants, Matching, Pair, ports_of};

/// When pointers move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointerRule {
    /// For matches that pass over no input that asked in the slot, which with one class are those of the first iteration: iSLIP.
    FirstIteration,
    /// For matches of any iteration. For comparison: loses freedom from starvation (DEV-15).
    EveryIteration,
    /// Grant pointers move whether or not the grant is accepted: round-robin matching, RRM. For
    /// comparison: pointers move in step and throughput falls towards 63 %.
    Rrm,
}

/// How an arbiter chooses between classes (SW-076).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Classes {
    /// The highest class that asks: variant A, prioritised iSLIP.
    Strict,
    /// In turn, each class this often per round: variant B. One weight per class, from class 0. The
    /// output chooses the class, the input accepts whatever class it is offered; turns move with every
    /// match, so that an output keeps its shares, pointers as ever.
    Weighted(Vec<u8>),
}

/// Pointers of one side of the crossbar: one per class and port.
#[derive(Clone, Debug)]
struct Pointers {
    ports: usize,
    at: Vec<u8>,
}

/// [`Classes`] as outputs keep to them.
#[derive(Clone, Debug, Default)]
struct Rounds {
    /// The order of classes within a weighted round; empty: strict.
    round: Vec<u8>,
    /// Where each output is in its round.
    turns: Vec<u8>,
}

/// An iSLIP arbiter.
#[derive(Clone, Debug)]
pub struct Islip {
    iterations: u32,
    rule: PointerRule,
    rounds: Rounds,
    grant: Pointers,
    accept: Pointers,
}

/// The port of a non-empty set at or after `pointer`, cyclically.
fn first_from(set: u64, pointer: u8) -> usize {
    let after = set & u64::MAX << pointer;
    (if after != 0 { after } else { set }).trailing_zeros() as usize
}

/// A round in which class `c` occurs `weights[c]` times, as evenly spread as it can be: always the
/// class that is furthest behind its share.
fn spread(weights: &[u8]) -> Vec<u8> {
    let total: i64 = weights.iter().map(|w| i64::from(*w)).sum();
    let mut credit = vec![0i64; weights.len()];
    let mut round = Vec::new();
    for _ in 0..total {
        let mut best = 0;
        for (class, weight) in weights.iter().enumerate() {
            credit[class] += i64::from(*weight);
            if credit[class] > credit[best] {
                best = class;
            }
        }
        credit[best] -= total;
        round.push(best as u8);
    }
    round
}

impl Pointers {
    fn new(ports: usize, classes: usize) -> Self {
        Self { ports, at: vec![0; ports * classes] }
    }

    fn get(&self, port: usize, class: usize) -> u8 {
        self.at[class * self.ports + port]
    }

    fn pass(&mut self, port: usize, class: usize, partner: usize) {
        self.at[class * self.ports + port] = ((partner + 1) % self.ports) as u8;
    }
}

impl Islip {
    /// An arbiter for `ports` ports and `classes` classes that runs up to `iterations` (at least one)
    /// iterations per slot (SW-070).
    pub fn new(ports: usize, classes: usize, iterations: u32, rule: PointerRule, order: &Classes) -> Self {
        let round = match order {
            Classes::Strict => Vec::new(),
            Classes::Weighted(weights) => spread(weights.get(..classes).unwrap_or(weights)),
        };
        Self {
            iterations: iterations.max(1),
            rule,
            rounds: Rounds { round, turns: vec![0; ports] },
            grant: Pointers::new(ports, classes),
            accept: Pointers::new(ports, classes),
        }
    }

    /// The grant pointers of a class, one per output.
    pub fn grant_pointers(&self, class: usize) -> &[u8] {
        &self.grant.at[class * self.grant.ports..][..self.grant.ports]
    }
}

impl ClassOrder for Rounds {
    fn serve(&mut self, output: usize, asking: u8) -> usize {
        let turn = usize::from(self.turns[output]);
        let in_turn = self.round.iter().cycle().skip(turn).take(self.round.len());
        let chosen = in_turn.map(|class| usize::from(*class)).find(|class| asking >> class & 1 == 1);
        chosen.unwrap_or(asking.ilog2() as usize)
    }

    /// Strict: a better class drives out the others. Weighted: the input takes any class.
    fn rank(&self, _: usize, class: usize) -> u8 {
        if self.round.is_empty() { class as u8 } else { 0 }
    }

    /// The turn of an output that served `class` moves past one occurrence of it.
    fn matched(&mut self, output: usize, class: usize) {
        let turn = usize::from(self.turns[output]);
        let mut upcoming = self.round.iter().cycle().skip(turn).take(self.round.len());
        if let Some(skipped) = upcoming.position(|c| usize::from(*c) == class) {
            self.turns[output] = ((turn + skipped + 1) % self.round.len()) as u8;
        }
    }
}

impl Arbiter for Islip {
    fn arbitrate(&mut self, demand: &Demand, free_in: u64, free_out: u64, matching: &mut Matching) {
        let mut rounds = std::mem::take(&mut self.rounds);
        self.arbitrate_by(&mut rounds, demand, (free_in, free_out), matching);
        self.rounds = rounds;
    }

    fn arbitrate_by(
        &mut self,
        order: &mut dyn ClassOrder,
        demand: &Demand,
        (mut free_in, mut free_out): (u64, u64),
        matching: &mut Matching,
    ) {
        matching.clear();
        let asked_in = free_in;
        for iteration in 0..self.iterations {
            let (grant, rule) = (&mut self.grant, self.rule);
            let first = |output: usize, class: usize, asking: u64| {
                let input = first_from(asking, grant.get(output, class));
                if rule == PointerRule::Rrm {
                    grant.pass(output, class, input);
                }
                input
            };
            let Grants { granted, best, class_of, inputs } =
                Grants::new(order, demand, (free_in, free_out), first);
            if inputs == 0 {
                return;
            }
            for input in ports_of(inputs) {
                let row = usize::from(best[input]).min(demand.classes() - 1);
                let output = first_from(granted[input], self.accept.get(input, row));
                let class = usize::from(class_of[output]);
                free_in &= !(1 << input);
                free_out &= !(1 << output);
                matching.push(Pair { input: input as u8, output: output as u8, class: class as u8 });
                order.matched(output, class);
                let moves = match self.rule {
                    PointerRule::FirstIteration => {
                        let asked = demand.inputs_wanting(output, class) & asked_in;
                        first_from(asked, self.grant.get(output, class)) == input
                    }
                    PointerRule::EveryIteration => true,
                    PointerRule::Rrm => iteration == 0,
                };
                if moves {
                    self.accept.pass(input, row, output);
                    if self.rule != PointerRule::Rrm {
                        self.grant.pass(output, class, input);
                    }
                }
            }
        }
    }
}
