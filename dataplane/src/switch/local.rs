//! Protocols that end at the switch, LLDP (802.1AB) and the slow protocols with LACP (802.1AX), beside the path of data: what
//! neighbours send goes to whoever reads it, what is sent to them leaves as it is given. IGMP and MLD are read in passing: their frames
//! are data ([`super::snooping`]).
//!
//! As with MAC control, their frames are no data: they are counted apart and take no part in conservation. One that finds no room on its way
//! to the reader is received and dropped like any other frame, by name. Each port has a ring of its own for each of them: a neighbour that
//! sends without end takes nothing from others, and what it says of one protocol nothing from the other one.

use super::receive::ParsedFrame;
use super::{Observer, PortParams, Switch, Wire};
use crate::drops::DropReason;
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::stats::PortStats;
use crate::types::{Nanos, PortId};
use rtrb::{Consumer, Producer, RingBuffer};

/// EtherType of LLDP.
pub const LLDP_ETHERTYPE: u16 = 0x88cc;
/// EtherType of the slow protocols: LACP, marker and others (802.3 annex 57A).
pub const SLOW_ETHERTYPE: u16 = 0x8809;

/// Frames of a port that wait for their reader at most; of hosts behind it, which may all answer one query.
const FRAMES: usize = 16;
const FRAMES_OF_HOSTS: usize = 128;
/// And their bytes: one frame of the greatest MTU fits.
const BYTES: usize = 1 << 14;

/// A protocol that is read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalProtocol {
    /// LLDP.
    Lldp,
    /// LACP, and what else the slow protocols are.
    Lacp,
    /// IGMP, MLD and PIM in VLANs that are snooped, which do not end here.
    Membership,
}

impl LocalProtocol {
    /// What stands at the start of a frame without a tag. LLDP is sent to the nearest bridge, the nearest one that is no two-port MAC
    /// relay, or the nearest customer bridge (802.1AB table 7-1).
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x01, 0x80, 0xc2, 0, 0, 0x0e | 0x03 | 0x00, _, _, _, _, _, _, 0x88, 0xcc, ..] => {
                Some(Self::Lldp)
            }
            [0x01, 0x80, 0xc2, 0, 0, 0x02, _, _, _, _, _, _, 0x88, 0x09, ..] => Some(Self::Lacp),
            _ => None,
        }
    }

    /// That of a frame, if the port speaks it.
    pub(super) fn taken(bytes: &[u8], params: &PortParams) -> Option<Self> {
        Self::of(bytes).filter(|protocol| match protocol {
            Self::Lldp => params.lldp,
            Self::Lacp => params.lacp,
            Self::Membership => false,
        })
    }

    /// Why frames are lost for which there is no room; `None`: they go on.
    fn no_room(self) -> Option<DropReason> {
        match self {
            Self::Lldp => Some(DropReason::ControlLldpNoRoom),
            Self::Lacp => Some(DropReason::ControlLacpNoRoom),
            Self::Membership => None,
        }
    }

    /// Frames that may wait for the reader.
    fn frames(self) -> usize {
        match self {
            Self::Lldp | Self::Lacp => FRAMES,
            Self::Membership => FRAMES_OF_HOSTS,
        }
    }

    /// Frames received and sent.
    fn counters(self, stats: &mut PortStats) -> (&mut u64, &mut u64) {
        match self {
            Self::Lldp => (&mut stats.rx_lldp, &mut stats.tx_lldp),
            Self::Lacp => (&mut stats.rx_lacp, &mut stats.tx_lacp),
            Self::Membership => (&mut stats.rx_igmp, &mut stats.tx_igmp),
        }
    }
}

/// The end of a port.
#[derive(Debug)]
pub(super) struct LocalQueue {
    heads: Producer<(Nanos, u16, usize)>,
    bytes: Producer<u8>,
}

impl LocalQueue {
    /// A frame of this VLAN. `false`: there is no room.
    pub(super) fn put(&mut self, bytes: &[u8], now: Nanos, vid: u16) -> bool {
        if self.heads.is_full() {
            return false;
        }
        let Ok(chunk) = self.bytes.write_chunk_uninit(bytes.len()) else { return false };
        let len = chunk.fill_from_iter(bytes.iter().copied());
        self.heads.push((now, vid, len)).is_ok()
    }
}

/// Where the frames of a port go, by [`LocalProtocol`], if somebody reads them.
pub(super) type LocalQueues = [Option<Box<LocalQueue>>; 3];

/// The end of whoever reads the frames of a protocol at a port.
#[derive(Debug)]
pub struct LocalReader {
    heads: Consumer<(Nanos, u16, usize)>,
    bytes: Consumer<u8>,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFrame {
    /// When it was received.
    pub at: Nanos,
    /// The VLAN it is in; 0: none, or it is of no VLAN.
    pub vid: u16,
    /// From the destination address on, without FCS.
    pub bytes: Vec<u8>,
}

/// Frames there are; more may come after the end.
impl Iterator for LocalReader {
    type Item = LocalFrame;

    fn next(&mut self) -> Option<LocalFrame> {
        let (at, vid, len) = self.heads.pop().ok()?;
        // Bytes are written before their head.
        let bytes = self.bytes.read_chunk(len).map(|chunk| chunk.into_iter().collect());
        Some(LocalFrame { at, vid, bytes: bytes.unwrap_or_default() })
    }
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// From now on frames of a protocol at `port` can be read, if it takes them ([`PortParams::lldp`], [`PortParams::lacp`],
    /// [`Switch::snoop`]). Allocates: not for a worker to call.
    pub fn read_local(&mut self, port: PortId, protocol: LocalProtocol) -> LocalReader {
        let (heads, head_reader) = RingBuffer::new(protocol.frames());
        let (bytes, byte_reader) = RingBuffer::new(BYTES);
        self.ports[port.index()].local[protocol as usize] = Some(Box::new(LocalQueue { heads, bytes }));
        LocalReader { heads: head_reader, bytes: byte_reader }
    }

    /// Sends a frame of a protocol (without FCS) by `port`, ahead of all queues and whatever its peer has paused, as PFC frames are, and
    /// whether or not its LAG lets it carry data. `false`: the link is down, or the wire does not take it now.
    #[cold]
    pub fn send_local(
        &mut self,
        port: PortId,
        protocol: LocalProtocol,
        frame: &[u8],
        wire: &mut impl Wire<F>,
    ) -> bool {
        let port = &mut self.ports[port.index()];
        let sent = port.status.has_link() && wire.send_control(frame);
        *protocol.counters(&mut port.stats).1 += u64::from(sent);
        sent
    }

    /// A frame of a protocol that the port takes.
    #[cold]
    pub(super) fn take_local(
        &mut self,
        port: PortId,
        protocol: LocalProtocol,
        frame: F,
        headers: &ParsedFrame,
    ) {
        let own = &mut self.ports[port.index()];
        let queue = own.local[protocol as usize].as_mut();
        let put = queue.map(|queue| queue.put(frame.bytes(), headers.meta.header.rx_ns, 0));
        if put == Some(true) {
            *protocol.counters(&mut own.stats).0 += 1;
            return;
        }
        self.count_received(port, usize::from(headers.tc), 1, frame.len() as u64);
        let no_room = put.and_then(|_| protocol.no_room());
        let reason = no_room.unwrap_or(DropReason::ControlReserved);
        self.drop_frame(port, reason, frame, &headers.meta.header);
    }
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
