//! Where the replay of a capture differs from what was written beside its frames.

use std::collections::BTreeMap;
use weir_config::{Config, MarkPoint};
use weir_mgmt::admin::comment::{Departure, FrameHistory};

/// The word of a frame that was not followed beyond its arrival, or went no further.
const CONSUMED: &str = "consumed";
/// The word of a frame that made its group pause the peer.
const XOFF: &str = "admitted, Xoff is sent";

/// Something that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the frame in the capture.
    pub frame: u64,
    /// What: `class`, `lookup`, `verdict`, `pause`, `departure`, `mark`, `order`.
    pub what: &'static str,
    /// As it was captured.
    pub captured: String,
    /// As it is now.
    pub replayed: String,
}

/// What came of a comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// In the order of the frames.
    pub differences: Vec<Difference>,
    /// Marks that differ between Kmin and Kmax, where a draw decides.
    pub drawn: u64,
    /// Frames whose destination was learned only after they had come.
    pub learned_since: u64,
    /// Frames that found another depth in their queue: it held frames that are not in the file.
    pub other_depths: u64,
}

/// Compares the frames of one port. Both in the order in which their stories ended.
pub fn compare(config: &Config, captured: &[FrameHistory], replayed: &[FrameHistory]) -> Comparison {
    let mut found = Comparison::default();
    let now: BTreeMap<u64, &FrameHistory> =
        replayed.iter().map(|history| (history.number, history)).collect();
    for was in captured {
        match now.get(&was.number) {
            Some(is) => found.frame(config, was, is),
            None => found.differ(was.number, "departure", history_text(was), "nothing".into()),
        }
    }
    found.order(captured, replayed);
    found.differences.sort_by_key(|difference| difference.frame);
    found
}

impl Comparison {
    fn differ(&mut self, frame: u64, what: &'static str, captured: String, replayed: String) {
        self.differences.push(Difference { frame, what, captured, replayed });
    }

    fn frame(&mut self, config: &Config, was: &FrameHistory, is: &FrameHistory) {
        let number = was.number;
        self.other_depths += u64::from(was.depth.is_some() && is.depth.is_some() && was.depth != is.depth);
        if was.class != is.class {
            let text = |class: Option<[u8; 3]>| match class {
                Some([tc, pg, queue]) => format!("tc {tc} pg {pg} queue {queue}"),
                None => "none".into(),
            };
            self.differ(number, "class", text(was.class), text(is.class));
        }
        if was.lookup != is.lookup {
            if was.lookup == "unknown" {
                self.learned_since += 1;
            } else {
                self.differ(number, "lookup", was.lookup.clone(), is.lookup.clone());
            }
            // It goes elsewhere: nothing behind it can be compared.
            return;
        }
        let arrival = |history: &FrameHistory| {
            let lost = history.losses.iter().find(|(port, _)| port.is_empty());
            lost.map_or(history.verdict.clone(), |(_, reason)| format!("{}: {reason}", history.verdict))
        };
        let (before, after) = (arrival(was), arrival(is));
        let unfollowed =
            [was, is].iter().any(|history| history.verdict == CONSUMED && history.losses.is_empty());
        if before != after && !unfollowed {
            let what = if before == XOFF || after == XOFF { "pause" } else { "verdict" };
            self.differ(number, what, before, after);
        }
        if unfollowed || was.on_its_way {
            return;
        }
        let gone = |history: &FrameHistory| {
            let mut places: Vec<_> =
                history.departures.iter().map(|left| (left.port.clone(), left.queue)).collect();
            places.sort();
            let losses =
                history.losses.iter().filter(|(port, _)| !port.is_empty()).cloned().collect::<Vec<_>>();
            (places, losses)
        };
        if gone(was) != gone(is) {
            self.differ(number, "departure", history_text(was), history_text(is));
            return;
        }
        for before in &was.departures {
            let after = is.departures.iter().find(|after| after.port == before.port);
            let Some(after) = after.filter(|after| after.marked != before.marked) else { continue };
            if is_drawn(config, was, before) || is_drawn(config, is, after) {
                self.drawn += 1;
            } else {
                let text = |left: &Departure| {
                    format!(
                        "{} at {} with {} bytes behind it",
                        if left.marked { "marked CE" } else { "not marked" },
                        left.port,
                        left.depth
                    )
                };
                self.differ(number, "mark", text(before), text(after));
            }
        }
    }

    /// The order in which frames with one destination left each port.
    fn order(&mut self, captured: &[FrameHistory], replayed: &[FrameHistory]) {
        let by_port = |histories: &[FrameHistory]| {
            let mut ports: BTreeMap<String, Vec<u64>> = BTreeMap::new();
            for history in histories {
                if let [left] = &history.departures[..] {
                    ports.entry(left.port.clone()).or_default().push(history.number);
                }
            }
            ports
        };
        let (was, is) = (by_port(captured), by_port(replayed));
        for (port, before) in &was {
            let Some(after) = is.get(port) else { continue };
            let common = |these: &[u64], those: &[u64]| {
                let those: std::collections::BTreeSet<u64> = those.iter().copied().collect();
                these.iter().copied().filter(|number| those.contains(number)).collect::<Vec<_>>()
            };
            let (before, after) = (common(before, after), common(after, before));
            let pairs = before.iter().zip(&after);
            if let Some((first, other)) = pairs.clone().find(|(first, other)| first != other) {
                let places = pairs.filter(|(before, after)| before != after).count();
                let captured = format!("next by {port}");
                let replayed = format!("frame {other} goes before it; {places} places differ");
                self.differ(*first, "order", captured, replayed);
            }
        }
    }
}

/// Whether chance decided about the mark of a frame that left so.
fn is_drawn(config: &Config, history: &FrameHistory, left: &Departure) -> bool {
    let port = config.ports.iter().find(|port| port.name == left.port);
    let wred = port.and_then(|port| port.queues.get(usize::from(left.queue))?.wred);
    wred.is_some_and(|wred| {
        let depth = match wred.mark {
            MarkPoint::Dequeue => left.depth,
            MarkPoint::Enqueue => history.depth.unwrap_or(0),
        };
        depth > wred.kmin && depth <= wred.kmax
    })
}

fn history_text(history: &FrameHistory) -> String {
    let left = history.departures.iter().map(|left| format!("left {} queue {}", left.port, left.queue));
    let lost = history.losses.iter().map(|(port, reason)| match port.as_str() {
        "" => format!("lost on arrival: {reason}"),
        port => format!("lost at {port}: {reason}"),
    });
    let all: Vec<String> = left.chain(lost).collect();
    if all.is_empty() { "did not leave".into() } else { all.join(", ") }
}
