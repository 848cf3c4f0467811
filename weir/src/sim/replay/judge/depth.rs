//! How deep the queue of a frame was as it came, of a frame that left by the same port and queue on both sides. With the frames of all ports in
//! the file, and a rate of its port, a queue is as deep in the replay as it was, but for what lies between two looks at the port; so a port of another rate
//! shows. Else what the file does not tell may have made it so ([`excuse`]).

use super::super::others::LCORES;
use super::super::phase::{explained, rate_of};
use super::super::sides::Sides;
use super::{Finding, Known, Past};
use weir_dataplane::mmu::headroom::bytes_in;
use weir_dataplane::types::Nanos;
use weir_mgmt::admin::comment::Departure;

/// How deep a queue of another lcore, or each of several, was when a frame came.
pub const DEPTHS: &str = "the depth of their queue when they came is not known";
/// A replay sends at once by such a port.
pub const NO_RATE: &str = "their port has no `rate`";
/// The depths, or the moments at which a frame left, are no further apart.
pub const PHASE: &str = "their queue is as deep, but for the moment at which its port is looked at";
/// A queue that was deeper, as a frame left after the last one of the file had come.
const AFTER: &str = "frames that came behind the last one of the file are not in it";
/// A queue that was deeper, and has not been as in the replay since the file begins, a frame was flooded, or its port was looked at late.
pub const MORE: &str = "their queue may have held more since the capture began, a frame was flooded, or its port was looked at late";

/// The first frame of a queue that found another depth is a difference; those behind it may follow from that. `None`: there is nothing to compare.
pub fn judge<'a>(known: &Known<'_>, past: &mut Past<'a>, sides: &Sides<'a>) -> Option<Finding> {
    let left = sides.was.departures.first()?;
    let [Some(was), Some(is)] = sides.both().map(|history| history.depth) else {
        return Some(Finding::Unknown(DEPTHS));
    };
    if was == is {
        return Some(Finding::Same);
    }
    match excuse(known, past, left, [was, is], sides.at) {
        Some(Finding::Unknown(PHASE)) => Some(Finding::Same),
        Some(why) => Some(why),
        None => {
            let Departure { port, queue, .. } = left;
            let text = |depth| format!("queue {queue} of {port} held {depth} bytes when it came");
            past.apart.insert((port, *queue)).then(|| Finding::differs("depth", [was, is].map(text)))
        }
    }
}

/// Why the queue that a frame left by may have been deeper, or less deep, than in the replay, by frames that came until then. `None`: the file has all
/// that decides it.
pub fn excuse(
    known: &Known<'_>,
    past: &Past<'_>,
    left: &Departure,
    [was, is]: [u64; 2],
    until: Nanos,
) -> Option<Finding> {
    if known.lacks.own {
        return Some(Finding::Lacks);
    }
    if let Some(why) = past.other_load(known) {
        return Some(Finding::Unknown(why));
    }
    if known.others.missing {
        return Some(Finding::Lacks);
    }
    let why = if !known.has_rate(&left.port) {
        NO_RATE
    } else if was.abs_diff(is) <= near(known, past, &left.port) {
        PHASE
    } else if was > is && until > known.end {
        AFTER
    } else if was > is && !past.is_told(&left.port) {
        MORE
    } else if known.others.unordered {
        LCORES
    } else {
        return None;
    };
    Some(Finding::Unknown(why))
}

/// Bytes by which the depths of a queue may be apart: by what was sent, at the pace of the capture if that is slower, and by who found the last room.
pub fn near(known: &Known<'_>, past: &Past<'_>, port: &str) -> u64 {
    let frames = 2 * known.longest;
    let pace = known.paces.get(port).copied().unwrap_or(1.0);
    let sent = frames + ((explained(known.config, port, known.longest) - frames) as f64 / pace) as u64;
    if past.other_room { 2 * sent } else { sent }
}

/// Whether a frame left at the same moment as in the replay, but for the time in which a port sends what its queue may be apart: a burst that came meanwhile
/// is behind it on one side only.
pub fn left_alike(known: &Known<'_>, past: &Past<'_>, [was, is]: [&Departure; 2]) -> bool {
    rate_of(known.config, &was.port).is_some_and(|rate| {
        let apart = was.queued.abs_diff(is.queued).saturating_sub(was.rounding().max(is.rounding()));
        bytes_in(rate, apart) <= near(known, past, &was.port)
    })
}
