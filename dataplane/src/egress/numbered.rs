//! A frame that is a number and a length: for tests of order and of totals.

use crate::frame::{Frame, SizedFrames};
use crate::types::Burst;

#[derive(Debug, PartialEq, Eq)]
pub struct Numbered {
    pub n: usize,
    len: u16,
}

impl Numbered {
    pub fn new(n: usize, len: u16) -> Self {
        Self { n, len }
    }
}

impl Frame for Numbered {
    type Row = SizedFrames<Self>;
    type Staged = Burst<Self>;

    fn bytes(&self) -> &[u8] {
        &[]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }

    fn len(&self) -> usize {
        usize::from(self.len)
    }

    fn share(&self) -> Option<Self> {
        None
    }

    fn make_unique(&mut self) -> bool {
        true
    }
}
