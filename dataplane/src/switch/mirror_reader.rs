//! Copies of mirrors for whoever reads them beside the switch, e.g. to write a file: a bounded ring of each shard. What does not
//! fit is lost as `mirror.file_no_room`, and nobody waits for a reader.

use super::Switch;
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::types::{Nanos, PortId};
use rtrb::{Consumer, Producer, RingBuffer};

/// Copies that wait for their reader at most...
const COPIES: usize = 1 << 15;
/// ...and their bytes: a millisecond at 100 Gb/s, some of any link that a disk can follow.
const BYTES: usize = 1 << 24;

/// What a copy is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorHead {
    /// Number of the mirror ([`super::MirrorTo::Reader`]).
    pub mirror: u64,
    /// When the frame was received or sent.
    pub at: Nanos,
    /// By which port.
    pub port: PortId,
    /// It was sent, not received.
    pub sent: bool,
    /// Its length, without FCS.
    pub len: u32,
    /// Bytes of it that are kept.
    pub kept: u32,
}

/// The end of a shard.
#[derive(Debug)]
pub(super) struct MirrorQueue {
    heads: Producer<MirrorHead>,
    bytes: Producer<u8>,
}

impl MirrorQueue {
    /// False: there is no room.
    pub(super) fn put(&mut self, head: &MirrorHead, bytes: &[u8]) -> bool {
        !self.heads.is_full() && self.bytes.push_entire_slice(bytes).is_ok() && self.heads.push(*head).is_ok()
    }
}

/// The end of whoever reads the copies of a shard.
#[derive(Debug)]
pub struct MirrorReader {
    heads: Consumer<MirrorHead>,
    bytes: Consumer<u8>,
}

impl MirrorReader {
    /// What the next copy is of, if there is one.
    pub fn peek(&self) -> Option<MirrorHead> {
        self.heads.peek().ok().copied()
    }

    /// Takes the next copy, if there is one, and puts its bytes at the end of `bytes`.
    pub fn next_into(&mut self, bytes: &mut Vec<u8>) -> Option<MirrorHead> {
        let head = self.heads.pop().ok()?;
        // Bytes are written before their head.
        if let Ok(chunk) = self.bytes.read_chunk(head.kept as usize) {
            let (one, two) = chunk.as_slices();
            bytes.extend_from_slice(one);
            bytes.extend_from_slice(two);
            chunk.commit_all();
        }
        Some(head)
    }
}

impl<F: Frame, A: Admission> Switch<F, A> {
    /// From now on copies of mirrors to a reader can be read; those of this shard. Sets addresses of 18 MiB aside, of which memory is taken as
    /// it is used: not for a worker to call.
    pub fn read_mirrors(&mut self) -> MirrorReader {
        let (heads, head_reader) = RingBuffer::new(COPIES);
        let (bytes, byte_reader) = RingBuffer::new(BYTES);
        self.mirror_queue = Some(Box::new(MirrorQueue { heads, bytes }));
        MirrorReader { heads: head_reader, bytes: byte_reader }
    }
}
