//! Frames of any length through a crossbar (DEV-17: iSLIP itself knows only cells).
//!
//! Cell mode cuts frames into fixed cells; each cell is matched on its own, cells of several frames
//! interleave at an output and are put together there. Packet mode holds a match until its frame has
//! ended: one decision per frame, no reassembly, and only ports that are between frames take part.

use super::{Arbiter, Matching, Pair, Voqs, all_ports};

/// How frames cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A match lasts one cell.
    Cell,
    /// A match lasts one frame.
    Packet,
}

/// A frame that has crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<T> {
    /// Where it came from, where to, its class.
    pub pair: Pair,
    /// Slots from its arrival to the slot of its last cell.
    pub delay: u64,
    /// What it is.
    pub frame: T,
}

#[derive(Clone, Copy, Debug)]
struct Waiting<T> {
    arrived: u64,
    cells_left: u64,
    frame: T,
}

/// A crossbar with its VOQs.
#[derive(Clone, Debug)]
pub struct FrameCrossbar<T, A> {
    mode: Mode,
    cell_bytes: u64,
    voqs: Voqs<Waiting<T>>,
    arbiter: A,
    /// Matches that are in the middle of a frame (packet mode).
    held: Matching,
    slot: u64,
    /// Matches the arbiter has made.
    decisions: u64,
}

impl<T: Copy, A: Arbiter> FrameCrossbar<T, A> {
    /// An empty crossbar whose slots carry `cell_bytes` bytes.
    pub fn new(ports: usize, classes: usize, mode: Mode, cell_bytes: u64, arbiter: A) -> Self {
        Self {
            mode,
            cell_bytes: cell_bytes.max(1),
            voqs: Voqs::new(ports, classes),
            arbiter,
            held: Matching::new(),
            slot: 0,
            decisions: 0,
        }
    }

    /// A frame of `bytes` bytes arrives.
    pub fn push(&mut self, input: usize, output: usize, class: usize, bytes: u64, frame: T) {
        let cells_left = bytes.div_ceil(self.cell_bytes).max(1);
        self.voqs.push(input, output, class, Waiting { arrived: self.slot, cells_left, frame });
    }

    /// One slot: matches, moves a cell per match, hands out the frames that ended.
    pub fn slot(&mut self, mut sent: impl FnMut(Sent<T>)) {
        let everybody = all_ports(self.voqs.demand().ports());
        let (mut free_in, mut free_out) = (everybody, everybody);
        for pair in &self.held {
            free_in &= !(1 << pair.input);
            free_out &= !(1 << pair.output);
        }
        let mut matching = Matching::new();
        self.arbiter.arbitrate(self.voqs.demand(), free_in, free_out, &mut matching);
        self.decisions += matching.len() as u64;
        matching.extend(self.held.drain(..));
        for pair in matching {
            let Some(head) = self.voqs.front_mut(pair) else { continue };
            head.cells_left -= 1;
            if head.cells_left == 0 {
                let Some(done) = self.voqs.pop(pair) else { continue };
                sent(Sent { pair, delay: self.slot - done.arrived, frame: done.frame });
            } else if self.mode == Mode::Packet {
                self.held.push(pair);
            }
        }
        self.slot += 1;
    }

    /// Matches made so far: what the arbiter must keep up with (SW-077).
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.voqs.is_empty()
    }
}
