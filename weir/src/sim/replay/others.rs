//! What became of a frame on its arrival, where frames of other ports, which are not in the file, can have decided it.
//!
//! They take room: a group or a queue whose limit is a share of what is free has less of it, without a sign in the file. A
//! limit that stands still is as it was; there they show, by a queue that was deeper, or by a line that was not free. With more
//! room nobody loses a frame: a frame that was taken, and is refused in the replay, was not theirs to decide, as long as
//! they have decided nothing before.

use super::compare::XOFF;
use super::order::Signs;
use std::collections::BTreeMap;
use weir_config::{Config, SharedLimit};
use weir_dataplane::types::Nanos;
use weir_mgmt::admin::comment::FrameHistory;

/// Where frames of other ports were.
pub struct Others<'a> {
    config: &'a Config,
    /// When they first show at each port, by its name.
    signs: BTreeMap<&'a str, Signs>,
    /// They have decided about a frame: from here on the replay holds what the switch did not, or the other way about.
    decided: bool,
}

/// How little room there was for a frame.
fn strictness(history: &FrameHistory) -> u8 {
    match history.verdict.as_str() {
        "dropped" => 4,
        "some copies dropped" => 3,
        "admitted into headroom" => 2,
        XOFF => 1,
        _ => 0,
    }
}

impl<'a> Others<'a> {
    /// `signs`: when they first show at each port, by its name.
    pub fn new(config: &'a Config, signs: BTreeMap<&'a str, Signs>) -> Self {
        Self { config, signs, decided: false }
    }

    /// Whether they can have decided what became of a frame that came at `at`, and found less room than in the replay. If so, all that
    /// differs behind it can follow from that.
    pub fn decide(&mut self, was: &FrameHistory, is: &FrameHistory, at: Nanos) -> bool {
        self.decided |= strictness(was) >= strictness(is) && self.take_room(was, at);
        self.decided
    }

    /// Whether there was less room for this frame, for them, than for those of the file alone.
    fn take_room(&self, was: &FrameHistory, at: Nanos) -> bool {
        let Some([_, pg, queue]) = was.class else { return false };
        let is_share = |limit: Option<SharedLimit>| matches!(limit, Some(SharedLimit::Dynamic(_)));
        let port = |name: &str| self.config.ports.iter().find(|port| port.name == name);
        let group = port(&was.port).and_then(|port| port.pgs.get(usize::from(pg)));
        let to = was.lookup.strip_prefix("port ").unwrap_or_default();
        let shown = |of: fn(&Signs, usize) -> Nanos| {
            self.signs.get(to).is_some_and(|signs| of(signs, usize::from(queue)) <= at)
        };
        let (anywhere, in_queue) = (shown(|signs, _| signs.port), shown(|signs, queue| signs.queues[queue]));
        let reason = was.losses.first().map_or("", |(_, reason)| reason.as_str());
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
