//! The marks of a frame that left by the same ports and queues on both sides. Frames that the file lacks were in the queue, too: with those
//! the mark is what it must be at the depth that the file tells, where that may be another one than in the replay ([`depth::excuse`]). Between Kmin and Kmax a draw decides; and of a queue of another lcore, or of several, it is not known how deep it was
//! when the frame came.

use super::super::sides::Sides;
use super::depth::{self, DEPTHS, PHASE};
use super::{Finding, Known, Past};
use weir_config::{Config, MarkPoint, WredConfig};
use weir_dataplane::types::PRIORITIES;
use weir_mgmt::admin::comment::{Departure, FrameHistory};

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
    let text = |left: &Departure, decided: Option<(WredConfig, u64)>| {
        let mark = if left.marked { "marked CE" } else { "not marked" };
        let depth = decided.map(|(wred, depth)| match wred.mark {
            MarkPoint::Dequeue => format!(" with {depth} bytes behind it"),
            MarkPoint::Enqueue => format!(" with {depth} bytes in its queue when it came"),
        });
        format!("{mark} at {}{}", left.port, depth.unwrap_or_default())
    };
    let is_another_queue = depths[0].map(|(_, depth)| depth) != depths[1].map(|(_, depth)| depth);
    // At the depth it had the curve does not mark it, or does not spare a frame that can be marked: whatever the file lacks.
    let must = depths[0].and_then(|(wred, depth)| match before.marked {
        true if wred.pmax == 0 => {
            (depth <= wred.kmax).then(|| format!("marked above {} bytes alone", wred.kmax))
        }
        true => (depth <= wred.kmin).then(|| format!("marked above {} bytes alone", wred.kmin)),
        false => (depth > wred.kmax && sides.ect).then(|| format!("always marked above {} bytes", wred.kmax)),
    });
    if let Some(must) = must.filter(|_| is_another_queue) {
        return Finding::differs("mark", [text(before, depths[0]), must]);
    }
    let is_drawn =
        |(wred, depth): (WredConfig, u64)| wred.pmax > 0 && depth > wred.kmin && depth <= wred.kmax;
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
    if let [Some((wred, was)), Some((_, is))] = depths
        && was != is
        && must_be(before, depths[0])
    {
        let until = match wred.mark {
            MarkPoint::Enqueue => sides.at,
            MarkPoint::Dequeue => sides.at.saturating_add(before.queued).saturating_add(before.rounding()),
        };
        if let Some(why) = depth::excuse(known, past, before, [was, is], until) {
            return why;
        }
        if wred.mark == MarkPoint::Dequeue && depth::left_alike(known, past, [before, after]) {
            return Finding::Unknown(PHASE);
        }
    }
    Finding::differs("mark", [text(before, depths[0]), text(after, depths[1])])
}

/// The curve that decided about the mark of a frame that left so.
fn curve(config: &Config, left: &Departure) -> Option<WredConfig> {
    let queue = usize::from(left.queue);
    config
        .port_named(&left.port)
        .filter(|_| queue < PRIORITIES)
        .and_then(|port| config.marking_of(port, queue))
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
