//! What became of a frame on its arrival, where frames of other ports can have decided it: those that are not in the file, and those of other
//! lcores, of which the file does not tell in which order they came with those of this one.
//!
//! They take room: a group or a queue whose limit is a share of what is free has less of it, without a sign in the file. A
//! limit that stands still is as it was; there they show, by a queue that was deeper, or by a line that was not free. With more
//! room nobody loses a frame: a frame that was taken, and is refused in the replay, was not decided by frames that the file lacks, as long as
//! they have decided nothing before. Of frames that are in the file, in another order, either may find the room.

use super::compare::{Came, Lacks};
use super::judge::{Finding, Known};
use super::order::{self, Signs};
use super::sides::{Sides, port_of};
use std::collections::BTreeMap;
use weir_config::{Config, SharedLimit};
use weir_dataplane::types::Nanos;
use weir_mgmt::admin::comment::FrameHistory;
use weir_mgmt::admin::verdict;

/// When frames of several lcores reached a queue, or gave their room back: each lcore hears of the others once in a turn.
pub const LCORES: &str = "frames of several lcores met, whose times do not tell in which order";

/// What the file tells of frames of other ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherFrames {
    /// Some are not in it.
    pub missing: bool,
    /// The ports are polled by several lcores: times do not tell in which order frames reached a queue.
    pub unordered: bool,
}

impl OtherFrames {
    /// All of them, and when they came.
    pub const TOLD: Self = Self { missing: false, unordered: false };

    /// Of which lcores ports are the configuration says, and the file, where the depth of the queue of a frame is not known to the lcore it came to.
    pub fn of(config: &Config, captured: &[FrameHistory], lacks: &Lacks) -> Self {
        let is_elsewhere = |history: &FrameHistory| {
            history.depth.is_none() && history.losses.is_empty() && !port_of(history).is_empty()
        };
        let unordered = weir_config::workers(&config.ports) > 1 || captured.iter().any(is_elsewhere);
        Self { missing: lacks.others, unordered }
    }
}

/// Where frames of other ports were.
#[derive(Debug)]
pub struct Others<'a> {
    config: &'a Config,
    told: OtherFrames,
    /// When they first show at each port, by its name.
    signs: BTreeMap<&'a str, Signs>,
    /// They have decided about a frame, that of this number: from here on the replay holds what the switch did not, or the other way about.
    decided: Option<(u64, Finding)>,
}

/// How little room there was for a frame.
fn strictness(history: &FrameHistory) -> u8 {
    match history.verdict.as_str() {
        verdict::DROPPED => 4,
        verdict::SOME_DROPPED => 3,
        verdict::INTO_HEADROOM => 2,
        verdict::XOFF_REACHED => 1,
        _ => 0,
    }
}

impl<'a> Others<'a> {
    pub fn new(known: &Known<'a>, sides: [&[FrameHistory]; 2], came: &BTreeMap<u64, Came>) -> Self {
        let (config, told) = (known.config, known.others);
        let signs =
            if told == OtherFrames::TOLD { BTreeMap::new() } else { order::signs(config, sides, came) };
        Self { config, told, signs, decided: None }
    }

    /// Why the replay holds other frames than the switch did, where those in the file have decided about a frame.
    pub fn unordered(&self) -> Option<&'static str> {
        match self.decided {
            Some((_, Finding::Unknown(why))) => Some(why),
            _ => None,
        }
    }

    /// The first frame they have decided about.
    pub fn first(&self) -> Option<u64> {
        self.decided.as_ref().map(|(number, _)| *number)
    }

    /// Whether they can have decided what became of a frame. If so, all that differs behind it can follow from that.
    pub fn decide(&mut self, sides: &Sides<'_>) -> Option<Finding> {
        let Sides { was, is, at, .. } = *sides;
        if self.decided.is_none() {
            let had_less = strictness(was) >= strictness(is);
            let why = if self.told.missing && had_less && self.take_room(was, at) {
                Some(Finding::Lacks)
            } else if self.told.unordered && self.take_room(if had_less { was } else { is }, Nanos::MAX - 1) {
                Some(Finding::Unknown(LCORES))
            } else {
                None
            };
            self.decided = why.map(|why| (sides.number(), why));
        }
        self.decided.as_ref().map(|(_, why)| why.clone())
    }

    /// Whether they can have left too little room for this frame, where they have shown until `at`.
    fn take_room(&self, history: &FrameHistory, at: Nanos) -> bool {
        let Some([_, pg, queue]) = history.class else { return false };
        let is_share = |limit: Option<SharedLimit>| matches!(limit, Some(SharedLimit::Dynamic(_)));
        let port = |name: &str| self.config.port_named(name);
        let group = port(&history.port).and_then(|port| port.pgs.get(usize::from(pg)));
        let to = port_of(history);
        let shown = |of: fn(&Signs, usize) -> Nanos| {
            self.signs.get(to).is_some_and(|signs| of(signs, usize::from(queue)) <= at)
        };
        let (anywhere, in_queue) = (shown(|signs, _| signs.port), shown(|signs, queue| signs.queues[queue]));
        let reason = history.losses.first().map_or("", |(_, reason)| reason.as_str());
        match reason {
            // The group: its limit, or how long its frames stay.
            "" | "ingress.shared_exceeded" => is_share(group.map(|group| group.shared)) || anywhere,
            "ingress.headroom_exhausted" => self.config.buffer.headroom_pooled || anywhere,
            "egress.queue_full" | "egress.wred" => {
                let limit =
                    port(to).and_then(|port| port.queues.get(usize::from(queue))).map(|queue| queue.shared);
                is_share(limit) || in_queue
            }
            "egress.port_pool_exceeded" => anywhere,
            "ingress.buffer_full" | "ingress.no_slot" | "ingress.no_copy" => true,
            _ => false,
        }
    }
}
