//! How a port sent in the capture: at which pace, and when it was looked at later than `[pfc] poll_gap` allows.
//!
//! The pace tells a port that is slower than the configuration says: it is so all the time. A worker that was off its core is late now and then. Nothing came to
//! the switch meanwhile, and nothing left it, though a frame waited. The port has lost that time, so that its queues are deeper than in the
//! replay until they are as there again.

use super::compare::Came;
use std::collections::BTreeMap;
use weir_config::Config;
use weir_dataplane::types::{Nanos, wire_bytes};
use weir_mgmt::admin::comment::{Departure, FrameHistory};

/// Looks at a port that tell its pace: where in the first and the last one its frames left is not known.
const LOOKS: u64 = 4;

/// A frame that left a port, times in ns since 1970.
struct Passage {
    came: Nanos,
    /// When it was taken from its queue.
    taken: Nanos,
    /// Its time on the line at the rate of the configuration, ns.
    line: f64,
}

/// How a port sent.
struct Sent<'a> {
    name: &'a str,
    /// In the order in which they came.
    passages: Vec<Passage>,
    pace: f64,
}

/// What the ports of a capture did.
#[derive(Debug)]
pub struct Paces<'a> {
    /// Of each port with a rate, times its frames took, as a multiple of their time on the line at that rate, at least 1.
    pub of: BTreeMap<&'a str, f64>,
    /// The last moment before each late look, ns since 1970, and the port, in order.
    pub late: Vec<(Nanos, &'a str)>,
}

impl<'a> Paces<'a> {
    /// `came`: each frame by its number. `elsewhere`: when frames came to other ports, ns since 1970.
    pub fn new(
        config: &'a Config,
        captured: &[FrameHistory],
        came: &BTreeMap<u64, Came>,
        elsewhere: &[Nanos],
    ) -> Self {
        let taken = |history: &FrameHistory, left: &Departure| {
            Some(came.get(&history.number)?.at.saturating_add(left.queued))
        };
        let left = captured.iter().flat_map(|h| h.departures.iter().filter_map(move |left| taken(h, left)));
        let mut events: Vec<Nanos> =
            elsewhere.iter().copied().chain(came.values().map(|came| came.at)).chain(left).collect();
        events.sort_unstable();
        events.dedup();
        let ports = config.ports.iter().filter_map(|port| Some((port.name.as_str(), port.rate.bps()?)));
        let poll_gap = config.pfc.poll_gap;
        let ports: Vec<Sent<'a>> =
            ports.map(|(name, rate)| Sent::new(name, (rate, poll_gap), captured, came)).collect();
        let late = ports.iter().flat_map(|port| port.late(&events, poll_gap));
        let mut late: Vec<(Nanos, &str)> = late.collect();
        late.sort_unstable();
        Self { of: ports.iter().map(|port| (port.name, port.pace)).collect(), late }
    }
}

/// Of frames that waited for the one before: a port that sends one after the other. Frames of other ports go between most of them, if not all.
fn one_by_one(passages: &[Passage]) -> f64 {
    let waited = passages.windows(2).filter(|pair| pair[1].came <= pair[0].taken);
    let mut paces: Vec<f64> =
        waited.map(|pair| (pair[1].taken - pair[0].taken) as f64 / pair[0].line).collect();
    let quartile = paces.len() / 4;
    if paces.is_empty() { 1.0 } else { *paces.select_nth_unstable_by(quartile, f64::total_cmp).1 }
}

/// Of times in which there was always a frame that waited, and the port was looked at several times: one that sends many in each look. The fastest, as a
/// port may be paused.
fn look_by_look(passages: &[Passage], poll_gap: Nanos) -> f64 {
    let busy = passages.chunk_by(|before, next| next.came <= before.taken);
    let pace = |busy: &[Passage]| {
        let (first, last) = (busy.first()?, busy.last()?);
        let span = last.taken - first.taken;
        let line: f64 = busy.iter().map(|passage| passage.line).sum();
        (span >= LOOKS * poll_gap).then(|| span as f64 / line)
    };
    busy.filter_map(pace).min_by(f64::total_cmp).unwrap_or(1.0)
}

impl<'a> Sent<'a> {
    /// `rate`: that of the configuration, bit/s; `poll_gap`: the time between two looks at the port, ns.
    fn new(
        name: &'a str,
        (rate, poll_gap): (u64, Nanos),
        captured: &[FrameHistory],
        came: &BTreeMap<u64, Came>,
    ) -> Self {
        let passage = |history: &FrameHistory| {
            let left = history.departures.iter().find(|left| left.port == name)?;
            let frame = came.get(&history.number)?;
            Some(Passage {
                came: frame.at,
                taken: frame.at.saturating_add(left.queued),
                line: wire_bytes(frame.bytes) as f64 * 8e9 / rate as f64,
            })
        };
        let mut passages: Vec<Passage> = captured.iter().filter_map(passage).collect();
        passages.sort_by_key(|passage| passage.taken);
        let pace = one_by_one(&passages).max(look_by_look(&passages, poll_gap)).max(1.0);
        passages.sort_by_key(|passage| passage.came);
        Self { name, passages, pace }
    }

    /// `events`: all moments at which a frame came or left, in order.
    fn late(&self, events: &[Nanos], poll_gap: Nanos) -> Vec<(Nanos, &'a str)> {
        let longest = self.passages.iter().map(|passage| passage.line).fold(0.0, f64::max);
        let in_time = poll_gap.saturating_add((longest * self.pace) as Nanos);
        let (mut passages, mut waits_until) = (self.passages.iter().peekable(), 0);
        let mut late = Vec::new();
        for pair in events.windows(2) {
            while let Some(passage) = passages.next_if(|passage| passage.came <= pair[0]) {
                waits_until = waits_until.max(passage.taken);
            }
            if waits_until >= pair[1] && pair[1] - pair[0] > in_time {
                late.push((pair[0], self.name));
            }
        }
        late
    }
}
