//! Copies of mirrors for whoever reads them beside the switch, e.g. to write a file: a bounded ring of each shard. What does not
//! fit is lost as `mirror.file_no_room`, and nobody waits for a reader.

use super::{Observer, Switch};
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::types::{Nanos, PortId};
use rtrb::{Consumer, Producer, RingBuffer};

/// Bytes of copies that wait for their reader, with what each is of: a millisecond at 100 Gb/s, some of any link that a disk can
/// follow. So many short copies wait as fit, and a lower `snaplen` makes room for more.
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

/// Bytes of a head in the ring.
const HEAD: usize = 8 + 8 + 2 + 1 + 4 + 4;

impl MirrorHead {
    fn to_bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&self.mirror.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.at.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.port.0.to_le_bytes());
        bytes[18] = self.sent.into();
        bytes[19..23].copy_from_slice(&self.len.to_le_bytes());
        bytes[23..].copy_from_slice(&self.kept.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; HEAD]) -> Self {
        fn part<const N: usize>(bytes: &[u8; HEAD], at: usize) -> [u8; N] {
            std::array::from_fn(|i| bytes[at + i])
        }
        Self {
            mirror: u64::from_le_bytes(part(bytes, 0)),
            at: u64::from_le_bytes(part(bytes, 8)),
            port: PortId(u16::from_le_bytes(part(bytes, 16))),
            sent: bytes[18] != 0,
            len: u32::from_le_bytes(part(bytes, 19)),
            kept: u32::from_le_bytes(part(bytes, 23)),
        }
    }
}

/// The end of a shard.
#[derive(Debug)]
pub(super) struct MirrorQueue(Producer<u8>);

impl MirrorQueue {
    /// False: there is no room.
    pub(super) fn put(&mut self, head: &MirrorHead, bytes: &[u8]) -> bool {
        self.0.slots() >= HEAD + bytes.len()
            && self.0.push_entire_slice(&head.to_bytes()).is_ok()
            && self.0.push_entire_slice(bytes).is_ok()
    }
}

/// The end of whoever reads the copies of a shard.
#[derive(Debug)]
pub struct MirrorReader(Consumer<u8>);

impl MirrorReader {
    /// What the next copy is of, if there is one.
    pub fn peek(&mut self) -> Option<MirrorHead> {
        let mut head = [0; HEAD];
        let chunk = self.0.read_chunk(HEAD).ok()?;
        let (one, two) = chunk.as_slices();
        head[..one.len()].copy_from_slice(one);
        head[one.len()..].copy_from_slice(two);
        let head = MirrorHead::from_bytes(&head);
        // Its bytes are written behind it.
        (self.0.slots() >= HEAD + head.kept as usize).then_some(head)
    }

    /// Takes the next copy, if there is one, and puts its bytes at the end of `bytes`.
    pub fn next_into(&mut self, bytes: &mut Vec<u8>) -> Option<MirrorHead> {
        let head = self.peek()?;
        let chunk = self.0.read_chunk(HEAD + head.kept as usize).ok()?;
        let (one, two) = chunk.as_slices();
        let of_head = HEAD.min(one.len());
        bytes.extend_from_slice(&one[of_head..]);
        bytes.extend_from_slice(&two[HEAD - of_head..]);
        chunk.commit_all();
        Some(head)
    }
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// From now on copies of mirrors to a reader can be read; those of this shard. Sets addresses of 16 MiB aside, of which memory is taken as
    /// it is used: not for a worker to call.
    pub fn read_mirrors(&mut self) -> MirrorReader {
        let (queue, reader) = RingBuffer::new(BYTES);
        self.mirror_queue = Some(Box::new(MirrorQueue(queue)));
        MirrorReader(reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(bytes: usize) -> (MirrorQueue, MirrorReader) {
        let (queue, reader) = RingBuffer::new(bytes);
        (MirrorQueue(queue), MirrorReader(reader))
    }

    fn head(n: u32, kept: usize) -> MirrorHead {
        MirrorHead {
            mirror: u64::MAX - u64::from(n),
            at: 1 << 40 | u64::from(n),
            port: PortId(n as u16),
            sent: n.is_multiple_of(2),
            len: 9000 + n,
            kept: kept as u32,
        }
    }

    #[test]
    fn copies_come_out_as_they_went_in_wherever_the_ring_ends() {
        let (mut queue, mut reader) = ring(300);
        let mut seen = Vec::new();
        for n in 0..1000 {
            let kept = (n as usize * 37) % 120;
            let bytes = vec![n as u8; kept];
            assert!(queue.put(&head(n, kept), &bytes), "{n}");
            assert_eq!(reader.peek(), Some(head(n, kept)));
            seen.clear();
            assert_eq!(reader.next_into(&mut seen), Some(head(n, kept)));
            assert_eq!(seen, bytes);
            assert_eq!((reader.peek(), reader.next_into(&mut seen)), (None, None));
        }
    }

    /// What bounds the ring is bytes: the remedy against a full one is to keep less of each frame.
    #[test]
    fn short_copies_leave_room_for_more() {
        let fit = |kept: usize| {
            let (mut queue, mut reader) = ring(BYTES);
            let bytes = vec![7; kept];
            let fit = (0..).take_while(|n| queue.put(&head(*n, kept), &bytes)).count();
            let mut out = Vec::new();
            let read = std::iter::from_fn(|| reader.next_into(&mut out)).count();
            assert_eq!((read, out.len()), (fit, fit * kept));
            fit
        };
        assert_eq!(fit(64), BYTES / (HEAD + 64));
        assert!(fit(64) > 10 * fit(1500));
    }
}
