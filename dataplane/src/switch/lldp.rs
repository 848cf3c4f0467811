//! LLDP (802.1AB) beside the path of data: what neighbours send goes to whoever reads it, what is sent to them leaves as it is
//! given.
//!
//! As with MAC control, its frames are no data: they are counted apart and take no part in conservation. One that finds no room on its way
//! to the reader is received and dropped like any other frame, by name. Each port has a ring of its own: a neighbour that sends without end
//! takes nothing from others.

use super::receive::ParsedFrame;
use super::{Switch, Wire};
use crate::drops::DropReason;
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::types::{Nanos, PortId};
use rtrb::{Consumer, Producer, RingBuffer};

/// EtherType of LLDP.
pub const ETHERTYPE: u16 = 0x88cc;

/// Frames of a port that wait for their reader at most.
const FRAMES: usize = 16;
/// And their bytes: one frame of the greatest MTU fits.
const BYTES: usize = 1 << 14;

/// Sent to the nearest bridge, the nearest one that is no two-port MAC relay, or the nearest customer bridge (802.1AB table 7-1), without a
/// tag.
pub(super) fn is_lldp(bytes: &[u8]) -> bool {
    matches!(bytes, [0x01, 0x80, 0xc2, 0, 0, 0x0e | 0x03 | 0x00, _, _, _, _, _, _, 0x88, 0xcc, ..])
}

/// The end of a port.
#[derive(Debug)]
pub(super) struct LldpQueue {
    heads: Producer<(Nanos, usize)>,
    bytes: Producer<u8>,
}

impl LldpQueue {
    fn put(&mut self, bytes: &[u8], now: Nanos) -> bool {
        if self.heads.is_full() {
            return false;
        }
        let Ok(chunk) = self.bytes.write_chunk_uninit(bytes.len()) else { return false };
        let len = chunk.fill_from_iter(bytes.iter().copied());
        self.heads.push((now, len)).is_ok()
    }
}

/// The end of whoever reads the LLDP frames of a port.
#[derive(Debug)]
pub struct LldpReader {
    heads: Consumer<(Nanos, usize)>,
    bytes: Consumer<u8>,
}

/// A frame of LLDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LldpFrame {
    /// When it was received.
    pub at: Nanos,
    /// From the destination address on, without FCS.
    pub bytes: Vec<u8>,
}

/// Frames there are; more may come after the end.
impl Iterator for LldpReader {
    type Item = LldpFrame;

    fn next(&mut self) -> Option<LldpFrame> {
        let (at, len) = self.heads.pop().ok()?;
        // Bytes are written before their head.
        let bytes = self.bytes.read_chunk(len).map(|chunk| chunk.into_iter().collect());
        Some(LldpFrame { at, bytes: bytes.unwrap_or_default() })
    }
}

impl<F: Frame, A: Admission> Switch<F, A> {
    /// From now on LLDP frames of `port` can be read, if it takes them ([`super::PortParams::lldp`]). Allocates: not for a worker to call.
    pub fn read_lldp(&mut self, port: PortId) -> LldpReader {
        let (heads, head_reader) = RingBuffer::new(FRAMES);
        let (bytes, byte_reader) = RingBuffer::new(BYTES);
        self.ports[port.index()].lldp = Some(Box::new(LldpQueue { heads, bytes }));
        LldpReader { heads: head_reader, bytes: byte_reader }
    }

    /// Sends an LLDP frame (without FCS) by `port`, ahead of all queues and whatever its peer has paused, as PFC frames are. `false`: the link
    /// is down, or the wire does not take it now.
    #[cold]
    pub fn send_lldp(&mut self, port: PortId, frame: &[u8], wire: &mut impl Wire<F>) -> bool {
        let port = &mut self.ports[port.index()];
        let sent = port.status.is_up() && wire.send_control(frame);
        port.stats.tx_lldp += u64::from(sent);
        sent
    }

    /// A frame for which [`is_lldp`] holds, at a port that takes it.
    #[cold]
    pub(super) fn take_lldp(&mut self, port: PortId, frame: F, headers: &ParsedFrame) {
        let own = &mut self.ports[port.index()];
        let put = own.lldp.as_mut().map(|queue| queue.put(frame.bytes(), headers.meta.rx_ns));
        if put == Some(true) {
            own.stats.rx_lldp += 1;
            return;
        }
        self.count_received(port, usize::from(headers.tc), 1, frame.len() as u64);
        let reason = if put.is_none() { DropReason::ControlReserved } else { DropReason::ControlLldpNoRoom };
        self.drop_frame(port, reason, frame, &headers.meta.header());
    }
}

#[cfg(test)]
#[path = "lldp_tests.rs"]
mod tests;
