//! What the pipeline tells whoever looks on: a trace, a capture, a test. One parameter of the switch's type, with methods that do nothing
//! unless an observer says otherwise: a switch that nobody looks at has none of this in its code. [`super::Tap`] is the observer of a running
//! switch.
//!
//! A frame that an observer follows is decided upon by itself and gets a copy count of its own, as a flooded frame has, so that it is known
//! again when it leaves ([`Key`]); what it is charged and when does not change. Whoever looks on changes nothing else.

use super::copies::Copies;
use crate::classify::Class;
use crate::drops::{DROP_REASONS, DropReason};
use crate::egress::BatchHeader;
use crate::fdb::Lookup;
use crate::mmu::{PgView, QueueView};
use crate::parse::{Kind, Parsed, Profile};
use crate::types::{Nanos, PortId};
use crate::vlan::FrameVlan;

/// Looks on while frames pass. In the order of a frame's way: it comes in ([`Observer::interest`]), is followed if there is room
/// ([`Observer::make_room`], [`Observer::keep`]), has arrived ([`Observer::arrived`]), is taken from its queue ([`Observer::taken`]) and has
/// left ([`Observer::left`]) or is lost there ([`Observer::flushed`]). Of every frame that is lost, followed or not, [`Observer::lost`] is
/// told.
pub trait Observer {
    /// It is `now`: what is told from here on happens then, where nothing else is said.
    fn time(&mut self, _now: Nanos) {}

    /// Frames may be followed: each that has a copy count stays apart from others in its queue, and is told by it.
    fn looks_on(&self) -> bool {
        false
    }

    /// What a frame of `len` bytes that comes in by `port`, and of which these can be read, is to it.
    fn interest(&self, _port: PortId, _profile: &Profile, _bytes: &[u8], _len: usize) -> Interest {
        Interest::None
    }

    /// There is room to follow one more frame, once those are forgotten of which no copy is left.
    fn make_room(&mut self, _is_gone: impl Fn(Key) -> bool) -> bool {
        false
    }

    /// Keeps as many bytes of a frame as it wants, and says how many; `None`: there is no room for them.
    fn keep(&mut self, _bytes: &[u8]) -> Option<u32> {
        None
    }

    /// A frame that it wanted to follow is not followed.
    fn missed(&mut self) {}

    /// What is noted while the frame that is followed is on its way in; it begins empty with each.
    fn beside(&mut self) -> Option<&mut Beside> {
        None
    }

    /// A frame that is followed has arrived, and `is_queued`: more will be told of it.
    fn arrived(&mut self, _record: &Record, _is_queued: bool) {}

    /// Whether a queued frame is followed here. Those of other lcores are told by these.
    fn follows(&self, _key: Key, _of_this_shard: bool) -> bool {
        false
    }

    /// The scheduler took a copy of a frame that is followed. Returns what was told when it was taken first: what waits for the wire is
    /// looked at several times.
    fn taken(&mut self, taken: Taken) -> Taken {
        taken
    }

    /// A copy of a frame that is followed has left by a port; its bytes are at `_address` while the driver has it. `_is_last`: no other waits.
    fn left(&mut self, _out: PortId, _record: &Record, _address: usize, _is_last: bool) {}

    /// A copy of a frame that is followed, of so many bytes, is lost in its queue at a port, or may not join it there. `_is_last`: no other
    /// waits.
    fn flushed(&mut self, _out: PortId, _key: Key, _what: (u32, DropReason), _is_last: bool) {}

    /// A frame of `len` bytes is lost at a port.
    fn lost(&mut self, _at: PortId, _reason: DropReason, _profile: &Profile, _bytes: &[u8], _len: usize) {}
}

/// Nobody looks on.
impl Observer for () {}

/// What an observer makes of a frame that comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// It is nothing to it, nor are others of its kind.
    None,
    /// The next one of its kind may be.
    Kind,
    /// It is to be followed.
    Frame,
}

/// What happened on account of a frame that is followed and is no part of its story.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// The frame that is followed is at hand, not another one that is made of it.
    pub at_hand: bool,
    /// Copies with another tag, which are not followed.
    pub copies: u64,
    /// Of these and others, what was lost, by reason.
    pub losses: [u64; DROP_REASONS],
    /// It found no room in the control pool.
    pub control_is_full: bool,
}

impl Default for Beside {
    fn default() -> Self {
        Self { at_hand: false, copies: 0, losses: [0; DROP_REASONS], control_is_full: false }
    }
}

/// A frame that is followed: when and where it came, and the place of its copy count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// When it was received.
    pub rx_ns: Nanos,
    /// Port it came from.
    pub in_port: u16,
    /// Place of its copy count; `u32::MAX` if it was not queued.
    pub slot: u32,
}

impl Key {
    /// Of a frame of this header.
    pub(super) fn of(header: &BatchHeader, copies: &Copies) -> Self {
        let slot = if header.is_single() { u32::MAX } else { copies.count_at(header.copies) };
        Self { rx_ns: header.rx_ns, in_port: header.in_port, slot }
    }
}

/// Something that happened to a frame.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Which frame.
    pub key: Key,
    /// When.
    pub at: Nanos,
    /// Its length.
    pub len: u32,
    /// Bytes of it behind this record.
    pub kept: u32,
    /// What happened.
    pub what: What,
}

/// See [`Record`].
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "records live in a ring of their own, made once")]
pub enum What {
    /// It arrived, was classified and looked up, and admission has decided.
    Arrived(Arrival),
    /// It left by a port.
    Left {
        /// The port.
        out: PortId,
        /// Its queue.
        queue: u8,
        /// When the scheduler took it.
        taken_at: Nanos,
        /// Bytes of its queue it left behind.
        depth: u64,
        /// It became CE on the way.
        marked: bool,
    },
    /// It was lost after it had been queued, or a copy of it, or it itself at another lcore's port, was refused by its queue.
    Flushed {
        /// The port it waited for.
        out: PortId,
        /// Why.
        reason: DropReason,
    },
    /// A frame was lost at a port (taps on drops).
    Lost {
        /// Why.
        reason: DropReason,
    },
}

/// A frame on its way in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// What its headers say.
    pub parsed: Parsed,
    /// Its class.
    pub class: Class,
    /// What the forwarding table says of its destination; of a LAG the member it leaves by.
    pub lookup: Lookup,
    /// Bytes its group is charged, for all its copies; each copy is charged to its queue by itself.
    pub charge: u32,
    /// The group it is charged to, before and after: the control pool, or the one of its class.
    pub pg: [PgView; 2],
    /// That is the control pool.
    pub control_pool: bool,
    /// Its queue before and after; not known where it goes to several ports, or to another lcore's.
    pub queue: Option<[QueueView; 2]>,
    /// Why it was lost, if it was.
    pub lost: Option<DropReason>,
    /// Queues it waits in.
    pub copies: u32,
    /// Its VLAN, if ports know of VLANs.
    pub vlan: Option<FrameVlan>,
    /// Further copies, with a tag or without one where the frame is followed as it came: these are not followed.
    pub aside: u32,
}

/// When the scheduler took a copy of a frame that is followed, and, if it was another lcore's, what it left behind.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Which frame.
    pub key: Key,
    /// The port it leaves by.
    pub out: PortId,
    /// When.
    pub at: Nanos,
    /// Bytes of its queue behind it, where it was another lcore's.
    pub depth: Option<u64>,
}

/// A frame that is followed has left by a port behind which somebody tells what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOn {
    /// The port.
    pub out: PortId,
    /// Which frame.
    pub key: Key,
    /// Where its bytes are, by which it is known again while it exists.
    pub address: usize,
}

/// The word for a kind of frame.
pub fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Data => "data",
        Kind::Cnp => "cnp",
        Kind::Ack => "ack",
        Kind::MacControl => "mac control",
        Kind::Reserved => "reserved",
    }
}

#[cfg(test)]
#[path = "observer_tests.rs"]
mod tests;
