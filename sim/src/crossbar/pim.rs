//! Parallel iterative matching (Anderson et al., ACM TOCS 1993): like iSLIP, with dice for pointers.

use super::{Arbiter, ClassOrder, Demand, MAX_CROSSBAR_PORTS, Matching, Pair, ports_of};
use weir_dataplane::rng::Rng;

/// The highest class that asks. An input takes any.
struct Highest;

impl ClassOrder for Highest {
    fn serve(&mut self, _: usize, asking: u8) -> usize {
        7 - asking.leading_zeros() as usize
    }

    fn rank(&self, _: usize, _: usize) -> u8 {
        0
    }

    fn matched(&mut self, _: usize, _: usize) {}
}

/// A PIM arbiter. Its own order of classes is strict: the highest that asks.
#[derive(Clone, Debug)]
pub struct Pim {
    iterations: u32,
    rng: Rng,
}

/// One port of a non-empty set, each as likely as any other.
pub(super) fn any_of(set: u64, rng: &mut Rng) -> usize {
    let nth = (u64::from(rng.next_u32()) * u64::from(set.count_ones())) >> 32;
    let mut rest = set;
    for _ in 0..nth {
        rest &= rest - 1;
    }
    rest.trailing_zeros() as usize
}

impl Pim {
    /// Up to `iterations` iterations per slot.
    pub fn new(iterations: u32, seed: u64) -> Self {
        Self { iterations, rng: Rng::new(seed) }
    }
}

impl Arbiter for Pim {
    fn arbitrate(&mut self, demand: &Demand, free_in: u64, free_out: u64, matching: &mut Matching) {
        self.arbitrate_by(&mut Highest, demand, (free_in, free_out), matching);
    }

    fn arbitrate_by(
        &mut self,
        order: &mut dyn ClassOrder,
        demand: &Demand,
        (mut free_in, mut free_out): (u64, u64),
        matching: &mut Matching,
    ) {
        matching.clear();
        for _ in 0..self.iterations {
            let mut granted = [0u64; MAX_CROSSBAR_PORTS];
            let mut best = [0u8; MAX_CROSSBAR_PORTS];
            let mut class_of = [0u8; MAX_CROSSBAR_PORTS];
            let mut any = 0u64;
            for output in ports_of(free_out) {
                let asking = demand.classes_asking(output, free_in);
                if asking == 0 {
                    continue;
                }
                let class = order.serve(output, asking);
                let input = any_of(demand.inputs_wanting(output, class) & free_in, &mut self.rng);
                let rank = order.rank(output, class);
                if any >> input & 1 == 0 || rank > best[input] {
                    (granted[input], best[input]) = (0, rank);
                }
                granted[input] |= u64::from(rank == best[input]) << output;
                class_of[output] = class as u8;
                any |= 1 << input;
            }
            if any == 0 {
                return;
            }
            for input in ports_of(any) {
                let output = any_of(granted[input], &mut self.rng);
                free_in &= !(1 << input);
                free_out &= !(1 << output);
                order.matched(output, class_of[output].into());
                matching.push(Pair { input: input as u8, output: output as u8, class: class_of[output] });
            }
        }
    }
}
