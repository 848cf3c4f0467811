//! Draws of tests that make up random switches.

use crate::portset::PortSet;
use crate::rng::Rng;
use crate::types::PortId;

pub struct Dice(pub Rng);

impl Dice {
    pub fn below(&mut self, n: usize) -> usize {
        self.0.next_u32() as usize % n
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// Each of the first ports, or not.
    pub fn ports(&mut self, of: usize) -> PortSet {
        (0..of as u16).filter(|_| self.one_in(2)).map(PortId).collect()
    }
}
