//! A frame on both sides, as it was captured and as the replay has it, and what either says of it.

use std::collections::BTreeSet;
use weir_dataplane::types::Nanos;
use weir_mgmt::admin::comment::FrameHistory;
use weir_mgmt::admin::verdict::{CONSUMED, DROPPED};

/// A frame to a group that nobody has joined.
const NO_RECEIVER: &str = "lookup.no_receiver";

/// A frame on both sides.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// As it was captured.
    pub was: &'a FrameHistory,
    /// As the replay has it.
    pub is: &'a FrameHistory,
    /// When it came, ns since 1970.
    pub at: Nanos,
    /// It came with a header that says ECT.
    pub ect: bool,
}

impl<'a> Sides<'a> {
    /// Its number in the capture.
    pub fn number(&self) -> u64 {
        self.was.number
    }

    /// As it was captured, then as the replay has it.
    pub fn both(&self) -> [&'a FrameHistory; 2] {
        [self.was, self.is]
    }

    /// What was decided on its arrival, on either side, with the reason of a loss.
    pub fn arrivals(&self) -> [String; 2] {
        self.both().map(|history| {
            let lost = history.losses.iter().find(|(port, _)| port.is_empty());
            lost.map_or(history.verdict.clone(), |(_, reason)| format!("{}: {reason}", history.verdict))
        })
    }

    /// One side was not followed beyond the arrival.
    pub fn is_unfollowed(&self) -> bool {
        self.both().into_iter().any(|history| history.verdict == CONSUMED && history.losses.is_empty())
    }

    /// One side lost it for want of room.
    pub fn is_crowded_out(&self) -> bool {
        self.both().into_iter().any(is_crowded_out)
    }

    /// One side refused it for what it is itself.
    pub fn is_refused_of_itself(&self) -> bool {
        self.both().into_iter().any(is_refused_of_itself)
    }

    /// It left by the same ports and queues on both sides, and was lost alike behind its arrival.
    pub fn ended_alike(&self) -> bool {
        let [before, after] = self.both().map(|history| {
            let mut left: Vec<(&str, u8)> =
                history.departures.iter().map(|left| (left.port.as_str(), left.queue)).collect();
            left.sort_unstable();
            (left, history.losses.iter().filter(|(port, _)| !port.is_empty()).collect::<Vec<_>>())
        });
        before == after
    }
}

/// Whether a frame is lost for such a reason because of others: of what they hold, or of how many came.
pub fn hangs_on_others(reason: &str) -> bool {
    let (stage, what) = reason.split_once('.').unwrap_or((reason, ""));
    matches!(stage, "ingress" | "egress" | "watchdog" | "handoff") && !what.ends_with("_down")
}

/// Whether a frame was lost for want of room: on arrival, or behind it.
pub fn is_crowded_out(history: &FrameHistory) -> bool {
    history.losses.iter().any(|(_, reason)| hangs_on_others(reason))
}

/// Whether a frame was refused on its arrival for what it is itself.
pub fn is_refused_of_itself(history: &FrameHistory) -> bool {
    let of_itself = |reason: &str| !hangs_on_others(reason) && reason != NO_RECEIVER;
    history.losses.iter().any(|(port, reason)| port.is_empty() && of_itself(reason))
}

/// The port a frame was for; empty: several.
pub fn port_of(history: &FrameHistory) -> &str {
    history.lookup.strip_prefix("port ").unwrap_or_default()
}

/// Ports to which a frame was to go.
pub fn places(history: &FrameHistory) -> BTreeSet<&str> {
    let left = history.departures.iter().map(|left| left.port.as_str());
    let lost = history.losses.iter().map(|(port, _)| port.as_str());
    left.chain(lost).filter(|port| !port.is_empty()).collect()
}

/// A frame that its queue refuses, told as by the lcore that received it: where the queue is another lcore's, this is told behind the
/// arrival, by that one.
pub fn as_of_one_lcore(history: &FrameHistory) -> FrameHistory {
    let mut told = history.clone();
    if let [(port, reason)] = &mut told.losses[..]
        && history.departures.is_empty()
        && reason.starts_with("egress.")
        && hangs_on_others(reason)
        && !history.on_its_way
        && !port_of(history).is_empty()
    {
        port.clear();
        told.verdict = DROPPED.to_owned();
        told.depth = None;
    }
    told
}

/// Where a frame went, and was lost.
pub fn text(history: &FrameHistory) -> String {
    let left = history.departures.iter().map(|left| format!("left {} queue {}", left.port, left.queue));
    let lost = history.losses.iter().map(|(port, reason)| match port.as_str() {
        "" => format!("lost on arrival: {reason}"),
        port => format!("lost at {port}: {reason}"),
    });
    let all: Vec<String> = left.chain(lost).collect();
    if all.is_empty() { "did not leave".into() } else { all.join(", ") }
}
