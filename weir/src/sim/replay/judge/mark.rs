//! The marks of a frame that left by the same ports and queues on both sides. Frames that the file lacks were in the queue, too: with those
//! the mark is what it must be at the depth that the file tells. Where it has the frames of all ports, and a port a rate, its queues are as
//! deep as they were. Between Kmin and Kmax a draw decides; and of a queue of another lcore, or of several, it is not known how deep it was
//! when the frame came.

use super::super::others::LCORES;
use super::super::phase::explained;
use super::super::sides::Sides;
use super::{Finding, Known, Past};
use weir_config::{Config, MarkPoint, WredConfig};
use weir_mgmt::admin::comment::{Departure, FrameHistory};

/// How deep a queue of another lcore, or each of several, was when a frame came.
const DEPTHS: &str = "the depth of their queue when they came is not known";
/// A replay sends at once by such a port.
const NO_RATE: &str = "their port has no `rate`";
/// The depths are no further apart.
const PHASE: &str = "their queue is as deep, but for the moment at which its port is looked at";
/// A queue that was deeper, as a frame left after the last one of the file had come.
const AFTER: &str = "frames that came behind the last one of the file are not in it";
/// A queue that was deeper, and has not been empty since the file begins.
const BEFORE: &str = "frames that waited as the capture began are not in it";

/// What came of each copy that left on both sides.
pub fn judge(known: &Known<'_>, past: &Past<'_>, sides: &Sides<'_>) -> Vec<Finding> {
    let pairs = sides.was.departures.iter().filter_map(|before| {
        Some((before, sides.is.departures.iter().find(|after| after.port == before.port)?))
    });
    pairs.map(|pair| one(known, past, sides, pair)).collect()
}

fn one(
    known: &Known<'_>,
    past: &Past<'_>,
    sides: &Sides<'_>,
    (before, after): (&Departure, &Departure),
) -> Finding {
    let on_arrival = |wred: WredConfig| wred.mark == MarkPoint::Enqueue;
    if sides.was.depth.is_none() && curve(known.config, before).is_some_and(on_arrival) {
        return Finding::Unknown(DEPTHS);
    }
    let depths = [decided(known.config, sides.was, before), decided(known.config, sides.is, after)];
    let is_drawn = |(wred, depth): (WredConfig, u64)| depth > wred.kmin && depth <= wred.kmax;
    let is_another_queue = depths[0].map(|(_, depth)| depth) != depths[1].map(|(_, depth)| depth);
    if known.lacks.own && is_another_queue {
        return Finding::Lacks;
    }
    if before.marked == after.marked {
        return Finding::Same;
    }
    if depths.into_iter().flatten().any(is_drawn) {
        return Finding::Drawn;
    }
    let must_be = |left: &Departure, decided: Option<(WredConfig, u64)>| {
        decided.is_some_and(|(wred, depth)| left.marked == (depth > wred.kmax))
    };
    if is_another_queue
        && must_be(before, depths[0])
        && let Some(why) = other_depth(known, past, sides, before, depths)
    {
        return why;
    }
    let text = |left: &Departure, decided: Option<(WredConfig, u64)>| {
        let mark = if left.marked { "marked CE" } else { "not marked" };
        let depth = decided.map(|(wred, depth)| match wred.mark {
            MarkPoint::Dequeue => format!(" with {depth} bytes behind it"),
            MarkPoint::Enqueue => format!(" with {depth} bytes in its queue when it came"),
        });
        format!("{mark} at {}{}", left.port, depth.unwrap_or_default())
    };
    Finding::differs("mark", [text(before, depths[0]), text(after, depths[1])])
}

/// Why a queue may have been deeper, or less deep, than in the replay. `None`: the file has all that decides it.
fn other_depth(
    known: &Known<'_>,
    past: &Past<'_>,
    sides: &Sides<'_>,
    left: &Departure,
    depths: [Option<(WredConfig, u64)>; 2],
) -> Option<Finding> {
    if let Some(why) = past.other_load(known) {
        return Some(Finding::Unknown(why));
    }
    if known.others.missing {
        return Some(Finding::Lacks);
    }
    let [(wred, was), (_, is)] = [depths[0]?, depths[1]?];
    let has_rate = known.config.ports.iter().any(|port| port.name == left.port && port.rate.bps().is_some());
    let ended = wred.mark == MarkPoint::Dequeue && sides.at.saturating_add(left.queued) > known.end;
    let why = if !has_rate {
        NO_RATE
    } else if was.abs_diff(is) <= explained(known.config, &left.port, known.longest) {
        PHASE
    } else if was > is && ended {
        AFTER
    } else if was > is && !past.free.contains(left.port.as_str()) {
        BEFORE
    } else if known.others.unordered {
        LCORES
    } else {
        return None;
    };
    Some(Finding::Unknown(why))
}

/// The curve that decided about the mark of a frame that left so.
fn curve(config: &Config, left: &Departure) -> Option<WredConfig> {
    let port = config.ports.iter().find(|port| port.name == left.port)?;
    port.queues.get(usize::from(left.queue))?.wred
}

/// The curve, and the depth it was asked for, bytes, where that is known.
fn decided(config: &Config, history: &FrameHistory, left: &Departure) -> Option<(WredConfig, u64)> {
    let wred = curve(config, left)?;
    let depth = match wred.mark {
        MarkPoint::Dequeue => left.depth,
        MarkPoint::Enqueue => history.depth?,
    };
    Some((wred, depth))
}
