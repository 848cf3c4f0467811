//! Ports as one lcore has them: its own whole, of another one's what it takes to send for its owner.

use super::channels::{FrameLine, TxGrant};
use super::stage::Stage;
use super::{OwnPort, PortParams};
use crate::drops::DropReason;
use crate::frame::Frame;
use crate::portset::PortSet;
use crate::types::PortId;
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

/// Whether frames can leave by a port, and if not, whose doing that is. The less it takes until they can, the less it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PortStatus {
    /// They can.
    Up,
    /// There is a link, but LACP does not let the LAG of the port send by it.
    Standby,
    /// There is no link.
    LinkDown,
    /// Switched off by an operator, whatever the link.
    AdminDown,
}

impl PortStatus {
    /// `sends`: LACP lets the port send, or is not asked.
    pub const fn of(link: bool, admin_down: bool, sends: bool) -> Self {
        match (admin_down, link, sends) {
            (true, ..) => Self::AdminDown,
            (false, false, _) => Self::LinkDown,
            (false, true, false) => Self::Standby,
            (false, true, true) => Self::Up,
        }
    }

    #[inline(always)]
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Up)
    }

    /// Frames of the link itself can pass: PFC, LLDP, LACP.
    #[inline(always)]
    pub const fn has_link(self) -> bool {
        matches!(self, Self::Up | Self::Standby)
    }

    /// Why a frame is lost that can be flooded to none of the ports it might leave by: if each of them is switched off, an operator
    /// wanted that; if one has a link, LACP keeps it out.
    pub fn nowhere(ports: impl Iterator<Item = Self>) -> DropReason {
        match ports.min() {
            Some(Self::AdminDown) => DropReason::LookupAdminDown,
            Some(Self::Standby) => DropReason::LookupLagInactive,
            Some(Self::Up | Self::LinkDown) | None => DropReason::LookupNoPort,
        }
    }

    /// Why a frame that waits for the port is lost, if it is.
    pub const fn lost_in_queue(self) -> DropReason {
        match self {
            Self::AdminDown => DropReason::EgressAdminDown,
            Self::Standby => DropReason::EgressLagInactive,
            Self::Up | Self::LinkDown => DropReason::EgressPortDown,
        }
    }

    /// Why a frame whose station is there is lost, if it is.
    pub const fn lost_at_lookup(self) -> DropReason {
        match self {
            Self::AdminDown => DropReason::LookupAdminDown,
            Self::Standby => DropReason::LookupLagInactive,
            Self::Up | Self::LinkDown => DropReason::LookupPortDown,
        }
    }
}

/// A port of another lcore. Its queues, pauses and counters are its owner's; here are the frames that were received by
/// this lcore and that the owner has granted it to send.
#[derive(Debug)]
pub(super) struct RemotePort<F: Frame> {
    pub params: PortParams,
    /// As its owner said last.
    pub status: PortStatus,
    /// Frames handed to the wire and not yet taken by it, with what is known of them.
    pub stage: Stage<F>,
    /// Grants that are not yet in the stage.
    pub grants: VecDeque<TxGrant<F>>,
    /// Frames of those that name no buffer.
    pub loose: VecDeque<FrameLine<F>>,
    /// Frames of those, and of what is staged, that are to be dropped because the link went down.
    pub condemned: usize,
    pub condemned_as: DropReason,
}

impl<F: Frame> RemotePort<F> {
    /// A port whose owner grants at most `grants` frames at a time; 0: it sends all itself.
    pub fn new(params: PortParams, grants: usize) -> Self {
        Self {
            params,
            status: PortStatus::Up,
            stage: Stage::default(),
            grants: VecDeque::with_capacity(grants),
            loose: VecDeque::with_capacity(grants),
            condemned: 0,
            condemned_as: DropReason::EgressPortDown,
        }
    }
}

#[derive(Debug)]
enum Slot<F: Frame> {
    Own(Box<OwnPort<F>>),
    Remote(Box<RemotePort<F>>),
}

/// All ports of the switch, by their index. Indexing is for ports of this lcore: whoever names another one's has mixed
/// them up.
#[derive(Debug)]
pub(super) struct Ports<F: Frame> {
    slots: Vec<Slot<F>>,
    /// Ports of this lcore whose peer may go on because of what left the buffer, until somebody asks.
    pub resumed: PortSet,
    /// Frames that waited have been dropped, until somebody asks.
    pub flushed: bool,
}

impl<F: Frame> Ports<F> {
    /// Ports made by `own` where `is_own`, else by `remote`.
    pub fn new(
        count: usize,
        is_own: impl Fn(usize) -> bool,
        own: impl Fn(usize) -> OwnPort<F>,
        remote: impl Fn(usize) -> RemotePort<F>,
    ) -> Self {
        let slot = |at| match is_own(at) {
            true => Slot::Own(Box::new(own(at))),
            false => Slot::Remote(Box::new(remote(at))),
        };
        Self { slots: (0..count).map(slot).collect(), resumed: PortSet::EMPTY, flushed: false }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Index of every port, whoever owns it.
    pub fn ids(&self) -> impl Iterator<Item = PortId> + use<F> {
        (0..self.slots.len() as u16).map(PortId)
    }

    /// Indices of ports of this lcore.
    pub fn own_ids(&self) -> impl Iterator<Item = PortId> {
        self.ids().filter(|port| self.is_own(*port))
    }

    #[inline(always)]
    pub fn is_own(&self, port: PortId) -> bool {
        matches!(self.slots.get(port.index()), Some(Slot::Own(_)))
    }

    /// Ports of this lcore.
    pub fn own(&self) -> impl Iterator<Item = &OwnPort<F>> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Own(port) => Some(&**port),
            Slot::Remote(_) => None,
        })
    }

    /// A port of this lcore, if it is one.
    #[inline(always)]
    pub fn get_own(&self, port: usize) -> Option<&OwnPort<F>> {
        match self.slots.get(port) {
            Some(Slot::Own(port)) => Some(port),
            _ => None,
        }
    }

    /// A port of this lcore, if it is one.
    #[inline(always)]
    pub fn get_own_mut(&mut self, port: usize) -> Option<&mut OwnPort<F>> {
        match self.slots.get_mut(port) {
            Some(Slot::Own(port)) => Some(port),
            _ => None,
        }
    }

    /// A port of another lcore, if it is one.
    #[inline(always)]
    pub fn remote(&self, port: PortId) -> Option<&RemotePort<F>> {
        match self.slots.get(port.index()) {
            Some(Slot::Remote(port)) => Some(port),
            _ => None,
        }
    }

    /// A port of another lcore, if it is one.
    #[inline(always)]
    pub fn remote_mut(&mut self, port: PortId) -> Option<&mut RemotePort<F>> {
        match self.slots.get_mut(port.index()) {
            Some(Slot::Remote(port)) => Some(port),
            _ => None,
        }
    }

    /// What is configured for any port.
    pub fn params(&self, port: usize) -> &PortParams {
        match &self.slots[port] {
            Slot::Own(port) => &port.params,
            Slot::Remote(port) => &port.params,
        }
    }

    /// Whether frames can leave by a port, any one.
    pub fn status(&self, port: PortId) -> PortStatus {
        match &self.slots[port.index()] {
            Slot::Own(port) => port.status,
            Slot::Remote(port) => port.status,
        }
    }

    /// Frames can leave by a port, any one.
    pub fn is_up(&self, port: PortId) -> bool {
        self.status(port).is_up()
    }

    /// The stage of any port.
    #[inline(always)]
    pub fn stage(&self, port: PortId) -> &Stage<F> {
        match &self.slots[port.index()] {
            Slot::Own(port) => &port.stage,
            Slot::Remote(port) => &port.stage,
        }
    }

    /// The stage of any port.
    #[inline(always)]
    pub fn stage_mut(&mut self, port: PortId) -> &mut Stage<F> {
        match &mut self.slots[port.index()] {
            Slot::Own(port) => &mut port.stage,
            Slot::Remote(port) => &mut port.stage,
        }
    }
}

#[cold]
#[inline(never)]
fn not_own(port: usize) -> ! {
    panic!("port {port} is another lcore's")
}

impl<F: Frame> Index<usize> for Ports<F> {
    type Output = OwnPort<F>;

    #[inline(always)]
    fn index(&self, port: usize) -> &OwnPort<F> {
        match self.get_own(port) {
            Some(own) => own,
            None => not_own(port),
        }
    }
}

impl<F: Frame> IndexMut<usize> for Ports<F> {
    #[inline(always)]
    fn index_mut(&mut self, port: usize) -> &mut OwnPort<F> {
        match self.get_own_mut(port) {
            Some(own) => own,
            None => not_own(port),
        }
    }
}
