//! The comments of a capture, written and read: beside a frame what happened to it, in one line; beside all of them which they are.

use super::verdict;
use super::watch::{Watch, departure};
use crate::api::documents::{FrameClass, WatchLine, WatchedArrival};

/// Ends the comment of a frame that has not left yet.
pub const ON_ITS_WAY: &str = "; still on its way when the capture ended";

/// Stands for the depth that a frame found in a queue that is another lcore's, or in several.
const UNKNOWN_DEPTH: &str = "depth not known";

/// Begins the comment of a capture that lacks frames of its port.
const ONLY: &str = "only frames of: ";

/// Which frames of the port an order captures, if not all of them.
pub fn only(watch: &Watch) -> Option<String> {
    let order = watch.json();
    let filter = order["filter"].as_object().into_iter().flatten();
    let mut words: Vec<String> =
        filter.map(|(field, value)| format!("{field} {value}").replace('"', "")).collect();
    words.extend(watch.marked.then(|| "marked".to_owned()));
    words.extend(watch.drops.then(|| "lost".to_owned()));
    (!words.is_empty()).then(|| ONLY.to_owned() + &words.join(", "))
}

/// Whether the comment of a capture says that it lacks frames of its port.
pub fn is_only(comment: &str) -> bool {
    comment.starts_with(ONLY)
}

/// What happened to a frame, in one line, from its events in order.
pub fn comment(events: &[WatchLine]) -> String {
    let mut parts = Vec::new();
    parts.extend(events.first().and_then(WatchLine::frame).map(|number| format!("frame {number}")));
    for event in events {
        match event {
            WatchLine::Arrived(arrival) => {
                let WatchedArrival { port, class: FrameClass { tc, pg, queue }, lookup, verdict, .. } =
                    &**arrival;
                parts.push(format!("arrived {port}; tc {tc} pg {pg} queue {queue}; {lookup}; {verdict}"));
                let stage = arrival.stage.as_deref().unwrap_or_default();
                parts.push(match &arrival.reason {
                    Some(reason) => format!("stage {stage}, reason {reason}"),
                    None => match &arrival.queue {
                        Some(queue) => format!("depth {}", queue.used_bytes[0]),
                        None => UNKNOWN_DEPTH.to_owned(),
                    },
                });
            }
            WatchLine::Left { .. } => parts.push(format!("left {}", departure(event))),
            WatchLine::Flushed { port, stage, reason, .. } | WatchLine::Lost { port, stage, reason, .. } => {
                parts.push(format!("lost at {port}, stage {stage}, reason {reason}"));
            }
            WatchLine::Armed { .. }
            | WatchLine::Engine(_)
            | WatchLine::Missed { .. }
            | WatchLine::End { .. } => {}
        }
    }
    parts.join("; ")
}

/// What a comment says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameHistory {
    /// Its number in the capture, in the order of arrival, from 1.
    pub number: u64,
    /// Port it came to; empty if only its loss is told.
    pub port: String,
    /// Class, priority group, queue.
    pub class: Option<[u8; 3]>,
    /// What the forwarding table said of its destination: `port p1`, `group 3`, `unknown`, `broadcast`, `multicast`, `link-local`.
    pub lookup: String,
    /// What admission decided: `admitted`, `admitted, Xoff reached`, `admitted into headroom`, `dropped`, ...
    pub verdict: String,
    /// Bytes it found in its queue, where that is known.
    pub depth: Option<u64>,
    /// How its copies left, in order.
    pub departures: Vec<Departure>,
    /// Where and why copies were lost: port (none: on arrival) and reason.
    pub losses: Vec<(String, String)>,
    /// It, or a copy, had not left when the capture ended.
    pub on_its_way: bool,
}

/// A copy left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// By this port.
    pub port: String,
    /// From this queue.
    pub queue: u8,
    /// It waited there so long, ns, as far as it is told.
    pub queued: u64,
    /// It left so many bytes behind in its queue.
    pub depth: u64,
    /// It became CE.
    pub marked: bool,
}

impl FrameHistory {
    /// Reads what [`comment`] wrote; `None`: somebody else's.
    pub fn read(comment: &str) -> Option<Self> {
        let (text, on_its_way) = match comment.strip_suffix(ON_ITS_WAY) {
            Some(text) => (text, true),
            None => (comment, false),
        };
        let mut parts = text.split("; ").peekable();
        let number = parts.next()?.strip_prefix("frame ")?.parse().ok()?;
        let mut history = Self { number, on_its_way, ..Self::default() };
        if let Some(port) = parts.peek().and_then(|part| part.strip_prefix("arrived ")) {
            history.port = port.to_owned();
            parts.next();
            history.class = Some(class(parts.next()?)?);
            history.lookup = parts.next()?.to_owned();
            history.verdict = verdict::captured(parts.next()?).to_owned();
            match parts.next()? {
                part if part.starts_with("depth ") => history.depth = part["depth ".len()..].parse().ok(),
                part => history.losses.push((String::new(), part.split_once(", reason ")?.1.to_owned())),
            }
        }
        for part in parts {
            if let Some(left) = part.strip_prefix("left ") {
                history.departures.push(Departure::read(left)?);
            } else {
                let (port, reason) = part.strip_prefix("lost at ")?.split_once(", stage ")?;
                history.losses.push((port.to_owned(), reason.split_once(", reason ")?.1.to_owned()));
            }
        }
        Some(history)
    }
}

/// `tc 3 pg 3 queue 3`.
fn class(text: &str) -> Option<[u8; 3]> {
    let mut words = text.split(' ');
    let mut field = |name: &str| (words.next()? == name).then(|| words.next()?.parse().ok()).flatten();
    Some([field("tc")?, field("pg")?, field("queue")?])
}

impl Departure {
    /// Half a unit of the last digit by which [`Self::queued`] is told, ns.
    pub fn rounding(&self) -> u64 {
        match self.queued {
            0..1_000_000 => 0,
            1_000_000..1_000_000_000 => 500,
            _ => 500_000,
        }
    }

    /// `p1 queue 3 after 2.000us (1.000us queued), 123 bytes behind it, marked CE`.
    fn read(text: &str) -> Option<Self> {
        let (text, marked) = match text.strip_suffix(", marked CE") {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (port, rest) = text.rsplit_once(" queue ")?;
        let (queue, rest) = rest.split_once(" after ")?;
        let (times, depth) = rest.rsplit_once(" queued), ")?;
        let (_, queued) = times.split_once(" (")?;
        Some(Self {
            port: port.to_owned(),
            queue: queue.parse().ok()?,
            queued: weir_config::units::time(queued).ok()?,
            depth: depth.strip_suffix(" bytes behind it")?.parse().ok()?,
            marked,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn line(event: &Value) -> WatchLine {
        serde_json::from_value(event.clone()).unwrap_or_else(|error| panic!("{error}: {event}"))
    }

    fn arrived(more: &Value) -> WatchLine {
        let mut event = json!({ "event": "arrived", "frame": 7, "at_ns": 1, "port": "p 0", "len_bytes": 60, "bytes": "", "lookup": "port p1",
                "verdict": "admitted, Xoff reached", "class": { "tc": 3, "pg": 2, "queue": 4 }, "charge_bytes": 60, "copies": 1, "copies_aside": 0,
                "parsed": { "kind": "data", "malformed_l3": false }, "queue": { "used_bytes": [700, 800] },
                "group": { "control_pool": false, "used_bytes": [0, 0], "shared_bytes": [0, 0], "headroom_bytes": [0, 0], "xoff": [false, false] } });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line(&event)
    }

    #[test]
    fn a_capture_says_which_frames_it_lacks() {
        let of = |order: Value| only(&Watch::from_json(order.to_string().as_bytes()).unwrap());
        assert_eq!(of(json!({ "port": "p0" })), None);
        let some =
            of(json!({ "port": "p0", "filter": { "dst": "02:00:00:00:00:01", "dscp": 26 }, "marked": true }))
                .unwrap();
        assert_eq!(some, "only frames of: dscp 26, dst 02:00:00:00:00:01, marked");
        assert!(is_only(&some) && !is_only("all frames"));
        assert!(of(json!({ "port": "p0", "drops": true })).is_some_and(|text| is_only(&text)));
    }

    #[test]
    fn what_is_written_is_read() {
        let left = json!({ "event": "left", "frame": 7, "at_ns": 2, "port": "p1", "queue": 4, "residence_ns": 2000, "queued_ns": 1500,
                "depth_bytes": 99, "marked": true });
        let lost = json!({ "event": "flushed", "frame": 7, "at_ns": 2, "port": "p2", "residence_ns": 3, "stage": "egress",
                "reason": "egress.link_down", "remedy": "" });
        let text = comment(&[arrived(&json!({})), line(&left), line(&lost)]) + ON_ITS_WAY;
        let departure = Departure { port: "p1".into(), queue: 4, queued: 1500, depth: 99, marked: true };
        let want = FrameHistory {
            number: 7,
            port: "p 0".into(),
            class: Some([3, 2, 4]),
            lookup: "port p1".into(),
            verdict: verdict::XOFF_REACHED.into(),
            depth: Some(700),
            departures: vec![departure],
            losses: vec![("p2".into(), "egress.link_down".into())],
            on_its_way: true,
        };
        assert_eq!(FrameHistory::read(&text).as_ref(), Some(&want), "{text}");
        // As captures had it that told every port to send PFC.
        assert_eq!(FrameHistory::read(&text.replace("Xoff reached", "Xoff is sent")), Some(want));
        let elsewhere = comment(&[arrived(&json!({ "queue": null }))]);
        assert!(elsewhere.ends_with("; depth not known"), "{elsewhere}");
        assert_eq!(FrameHistory::read(&elsewhere).unwrap().depth, None);
        let dropped = arrived(&json!({ "stage": "ingress", "reason": "ingress.full", "verdict": "dropped" }));
        let read = FrameHistory::read(&comment(&[dropped])).unwrap();
        assert_eq!((read.losses, read.depth), (vec![(String::new(), "ingress.full".into())], None));
        let lost = json!({ "event": "lost", "frame": 1, "at_ns": 2, "port": "p0", "len_bytes": 9, "bytes": "", "stage": "parse",
                "reason": "parse.runt", "remedy": "" });
        let read = FrameHistory::read(&comment(&[line(&lost)])).unwrap();
        assert_eq!((read.class, read.losses), (None, vec![("p0".into(), "parse.runt".into())]));
    }

    #[test]
    fn what_others_write_is_not_read() {
        for text in [
            "",
            "frame",
            "frame x; arrived p0",
            "frame 1; arrived p0",
            "frame 1; arrived p0; tc 3",
            "frame 1; left",
        ] {
            assert_eq!(FrameHistory::read(text), None, "{text}");
        }
    }
}
