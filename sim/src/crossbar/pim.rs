//! Parallel iterative matching (Anderson et al., ACM TOCS 1993): like iSLIP, with dice for pointers.

use super::{Arbiter, ClassOrder, Demand, Grants, Matching, Pair, ports_of};
use weir_dataplane::rng::Rng;

/// The highest class that asks. An input takes any.
struct Highest;

impl ClassOrder for Highest {
    fn serve(&mut self, _: usize, asking: u8) -> usize {
        asking.ilog2() as usize
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
            let rng = &mut self.rng;
            let Grants { granted, class_of, inputs, .. } =
                Grants::new(order, demand, (free_in, free_out), |_, _, asking| any_of(asking, rng));
            if inputs == 0 {
                return;
            }
            for input in ports_of(inputs) {
                let output = any_of(granted[input], &mut self.rng);
                free_in &= !(1 << input);
                free_out &= !(1 << output);
                order.matched(output, class_of[output].into());
                matching.push(Pair { input: input as u8, output: output as u8, class: class_of[output] });
            }
        }
    }
}
