//! The crossbar as a second fabric: virtual output queues, a match per slot, and what it costs.
//!
//! An ideal output-queued switch (what the shared-buffer pipeline is) needs memory N times as fast as
//! a port. A crossbar does not: each input holds one queue per output and class ([`Voqs`]), and an
//! arbiter finds a conflict-free match of inputs and outputs in every slot ([`Islip`], [`Pim`]).
//! [`measure`] gives throughput and delay of these and of the two classical ends, one FIFO per
//! input and output queueing; [`FrameCrossbar`] carries variable-length frames in cell or packet mode (DEV-17). The
//! switches of a [`crate::fabric`] have such a core where `[switch] core` says so: there frames come from memories with
//! admission, PFC and marking.

mod demand;
mod frames;
mod islip;
mod pim;
mod uniform;

pub use demand::{Demand, Pair, Voqs};
pub use frames::{FrameCrossbar, Mode, Sent};
pub use islip::{Classes, Islip, PointerRule};
pub use pim::Pim;
pub use uniform::{Outcome, Scheme, Traffic, measure};

/// Most inputs (and outputs): a set of ports is one word.
pub const MAX_CROSSBAR_PORTS: usize = 64;

/// A match of one slot: pairs in which no input and no output occurs twice.
pub type Matching = arrayvec::ArrayVec<Pair, MAX_CROSSBAR_PORTS>;

/// Chooses among the classes that ask an output.
pub trait ClassOrder {
    /// The class that `output` serves of those that ask, a bit each: one at least.
    fn serve(&mut self, output: usize, asking: u8) -> usize;
    /// What an input goes by that several outputs grant: the highest is accepted.
    fn rank(&self, output: usize, class: usize) -> u8;
    /// A cell of `class` goes to `output`.
    fn matched(&mut self, output: usize, class: usize);
}

/// What finds a match.
pub trait Arbiter: Send {
    /// Matches inputs of `free_in` with outputs of `free_out` that have something for one another, by an order of classes of its
    /// own, and writes the pairs over `matching`.
    fn arbitrate(&mut self, demand: &Demand, free_in: u64, free_out: u64, matching: &mut Matching);

    /// The same by another order of classes.
    fn arbitrate_by(
        &mut self,
        order: &mut dyn ClassOrder,
        demand: &Demand,
        free: (u64, u64),
        matching: &mut Matching,
    );
}

/// Outputs that grant each input in one iteration. Of several an input knows those of the highest rank alone.
struct Grants {
    granted: [u64; MAX_CROSSBAR_PORTS],
    best: [u8; MAX_CROSSBAR_PORTS],
    class_of: [u8; MAX_CROSSBAR_PORTS],
    /// Inputs that are granted anything.
    inputs: u64,
}

impl Grants {
    /// Every output of a set grants one of the free inputs that ask it: that which `choose` takes of those with its class.
    fn new(
        order: &mut dyn ClassOrder,
        demand: &Demand,
        (free_in, free_out): (u64, u64),
        mut choose: impl FnMut(usize, usize, u64) -> usize,
    ) -> Self {
        let (mut granted, mut inputs) = ([0; MAX_CROSSBAR_PORTS], 0);
        let (mut best, mut class_of) = ([0; MAX_CROSSBAR_PORTS], [0; MAX_CROSSBAR_PORTS]);
        for output in ports_of(free_out) {
            let asking = demand.classes_asking(output, free_in);
            if asking == 0 {
                continue;
            }
            let class = order.serve(output, asking);
            let input = choose(output, class, demand.inputs_wanting(output, class) & free_in);
            let rank = order.rank(output, class);
            if inputs >> input & 1 == 0 || rank > best[input] {
                (granted[input], best[input]) = (0, rank);
            }
            granted[input] |= u64::from(rank == best[input]) << output;
            class_of[output] = class as u8;
            inputs |= 1 << input;
        }
        Self { granted, best, class_of, inputs }
    }
}

/// The set of the first `n` ports.
pub fn all_ports(n: usize) -> u64 {
    if n >= MAX_CROSSBAR_PORTS { u64::MAX } else { (1 << n) - 1 }
}

/// The ports of a set, in order.
pub(crate) fn ports_of(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let port = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(port)
    })
}

#[cfg(test)]
mod tests;
