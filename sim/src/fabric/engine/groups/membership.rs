//! A group of nodes among others: what it has played of a window, and what it has to tell them.

use crate::fabric::sim_frame::SimFrame;
use crate::fabric::time::Ps;
use std::sync::Arc;
use weir_dataplane::types::Nanos;

/// An event that was played and has asked for others, or ended a pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Played {
    pub time: Ps,
    pub order: u64,
    /// How many were asked for in this window before it.
    pub asked: u32,
    /// Pauses it has ended.
    pub ended: u32,
}

/// What reaches another group.
#[derive(Debug)]
pub(in crate::fabric::engine) enum Message {
    /// A frame on direction `dir`, whose last bit comes at `tail`; at `time` it arrives, or if it may cut through its headers.
    Frame { time: Ps, tail: Ps, dir: u32, is_head: bool, frame: SimFrame },
    /// A flow has started at `start`. `opened`: its queue pair has been opened by this flow, and has this number at its sender.
    Expect { flow: u32, opened: Option<u32>, start: Nanos },
}

/// What a group needs to know of other nodes, and to tell them.
#[derive(Debug)]
pub(in crate::fabric::engine) struct Membership {
    /// The group of every node.
    pub(super) of: Arc<[u8]>,
    pub(super) own: u8,
    /// When this window has begun, ns.
    pub(super) began: Nanos,
    /// This window, in order.
    pub(super) played: Vec<Played>,
    /// Places of what was asked for in this window among all that all groups have asked for in it.
    pub(super) settled: Vec<u32>,
    /// What was asked for before this window, by all.
    pub(super) base: u64,
    /// Groups and what reaches them; of a frame, which it was of all that was asked for.
    pub(super) outbox: Vec<(u8, u32, Message)>,
    /// What has reached this one; of a frame, its number among all that was ever asked for.
    pub(super) inbox: Vec<(u64, Message)>,
}

impl Membership {
    pub(super) fn new(own: u8, of: Arc<[u8]>) -> Self {
        Self {
            of,
            own,
            began: 0,
            played: Vec::new(),
            settled: Vec::new(),
            base: 0,
            outbox: Vec::new(),
            inbox: Vec::new(),
        }
    }

    /// Tells another group, which hears it when the window is over; `asked`: of a frame, which it was of all that was asked for.
    #[inline]
    pub(in crate::fabric::engine) fn send(&mut self, group: u8, asked: u32, message: Message) {
        self.outbox.push((group, asked, message));
    }

    /// The group of a node, if it is another one.
    #[inline]
    pub(in crate::fabric::engine) fn other(&self, node: usize) -> Option<u8> {
        Some(self.of[node]).filter(|of| *of != self.own)
    }
}
