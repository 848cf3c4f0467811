//! Limits that stand still (`static_th`), held against the file alone: it shows how deep a queue was, whoever else sent frames there, and when.
//! So another limit is found where a replay cannot do as the switch did.
//!
//! - What a queue held as one of its frames was taken, came or left, was no more than its limit.
//! - As a queue refused a frame it held more than its limit without this frame: no more than has left until the next frame of the file left, at
//!   the rate of the port, and stood behind that.
//! - A lossy group has neither headroom nor Xoff, and a queue without `wred_drop` loses nothing by WRED.
//! - A port sends no more than its rate, whoever else sends by it.
//! - The frames of the file that were taken into the share of their group and wait are the least that it holds.
//! - Where the file has all frames of a port, those that were taken into the headroom of a group, less what left the group since, are the
//!   least that it holds there.

use super::compare::Came;
use super::judge::{Finding, Known};
use super::phase::{explained, rate_of};
use super::sides::port_of;
use std::collections::BTreeMap;
use weir_config::{BufferConfig, Config, QueueConfig, SharedLimit};
use weir_dataplane::mmu::headroom::bytes_in;
use weir_dataplane::types::{Nanos, wire_bytes};
use weir_mgmt::admin::comment::{Departure, FrameHistory};
use weir_mgmt::admin::verdict::{ADMITTED, INTO_HEADROOM, XOFF_REACHED};

/// Refusals that must all say the same: a frame of another lcore may reach its queue some time after it came.
const SURE: usize = 8;

/// What contradicts the limits of the configuration: of each queue and each group, the first frame that does. `came`: each frame by its number.
pub fn judge(
    known: &Known<'_>,
    captured: &[FrameHistory],
    came: &BTreeMap<u64, Came>,
) -> Vec<(u64, Finding)> {
    let mut in_order: Vec<Frame<'_>> =
        captured.iter().filter_map(|history| Frame::of(history, came)).collect();
    in_order.sort_by_key(|frame| (frame.came.at, frame.history.number));
    let mut queues: BTreeMap<(&str, u8), Vec<Frame<'_>>> = BTreeMap::new();
    let mut groups: BTreeMap<u8, Vec<Frame<'_>>> = BTreeMap::new();
    for frame in in_order {
        let [_, pg, queue] = frame.class;
        queues.entry((port_of(frame.history), queue)).or_default().push(frame);
        groups.entry(pg).or_default().push(frame);
    }
    let of_ports = {
        let mut ports: BTreeMap<&str, Vec<Frame<'_>>> = BTreeMap::new();
        for ((port, _), frames) in &queues {
            ports.entry(port).or_default().extend(frames);
        }
        ports
            .into_iter()
            .filter_map(|(port, frames)| sent_more(known.config, port, &frames))
            .collect::<Vec<_>>()
    };
    let of_queues = queues.into_iter().filter_map(|((port, queue), frames)| {
        if let Some(found) = dropped_early(known.config, (port, queue), &frames) {
            return Some(found);
        }
        let limit = limit_of_queue(known.config, port, queue)?;
        let name = format!("queue {queue} of {port}");
        let buffer = &known.config.buffer;
        held_more(buffer, &name, limit, &frames)
            .or_else(|| refused_below(known.config, &name, (port, limit), &frames))
    });
    let of_groups = groups.into_iter().filter_map(|(pg, frames)| {
        if let Some(found) = has_headroom(known.config, pg, &frames) {
            return Some(found);
        }
        let port = &frames.first()?.history.port;
        if !known.lacks.own
            && captured.iter().filter(|history| history.class.is_some_and(|[_, of, _]| of == pg)).count()
                == frames.len()
            && let Some(headroom) =
                known.config.port_named(port)?.pgs.get(usize::from(pg)).map(|group| group.xoff)
            && let Some(found) = in_headroom_beyond(&known.config.buffer, pg, headroom, &frames)
        {
            return Some(found);
        }
        let limit = limit_of_group(known.config, port, pg)?;
        taken_beyond(&known.config.buffer, pg, limit, &frames)
    });
    of_queues.chain(of_groups).chain(of_ports).collect()
}

/// A frame with one destination.
#[derive(Clone, Copy)]
struct Frame<'a> {
    history: &'a FrameHistory,
    class: [u8; 3],
    came: Came,
}

impl<'a> Frame<'a> {
    fn of(history: &'a FrameHistory, came: &BTreeMap<u64, Came>) -> Option<Self> {
        let came = *came.get(&history.number)?;
        let one = !port_of(history).is_empty() && history.departures.len() <= 1;
        Some(Self { history, class: history.class.filter(|_| one)?, came })
    }

    fn left(&self) -> Option<&'a Departure> {
        self.history.departures.first()
    }

    /// When it was taken from its queue at the latest, and at the earliest.
    fn taken(&self) -> Option<[Nanos; 2]> {
        let left = self.left()?;
        let taken = self.came.at.saturating_add(left.queued);
        Some([taken.saturating_add(left.rounding()), taken.saturating_sub(left.rounding())])
    }
}

/// The limit of a lossy queue, if it stands still and nothing else can fill it: its bytes, reserve and share.
fn limit_of_queue(config: &Config, port: &str, queue: u8) -> Option<u64> {
    let fixed = |queue: &QueueConfig| match queue.shared {
        SharedLimit::Static(bytes) => Some(bytes),
        SharedLimit::Dynamic(_) => None,
    };
    let lossy = config.ports.iter().flat_map(|port| &port.queues).filter(|queue| !queue.lossless);
    let all = lossy.map(fixed).sum::<Option<u64>>()?;
    let port = config.port_named(port)?;
    let queue = port.queues.get(usize::from(queue)).filter(|queue| !queue.lossless)?;
    Some(queue.reserved + fixed(queue)?).filter(|_| all <= config.buffer.egress_lossy_pool)
}

/// The limit of a lossless group beyond which its frames wait in headroom, if it stands still.
fn limit_of_group(config: &Config, port: &str, pg: u8) -> Option<u64> {
    let port = config.port_named(port).filter(|port| port.ingress_limit.is_none())?;
    let group = port.pgs.get(usize::from(pg)).filter(|group| group.lossless)?;
    match group.shared {
        SharedLimit::Static(bytes) => Some(group.reserved + bytes),
        SharedLimit::Dynamic(_) => None,
    }
}

/// A frame in the headroom of a group that has none.
fn has_headroom(config: &Config, pg: u8, frames: &[Frame<'_>]) -> Option<(u64, Finding)> {
    let port = &frames.first()?.history.port;
    let group = config.port_named(port)?.pgs.get(usize::from(pg))?;
    let exhausted = |(_, reason): &(String, String)| reason == "ingress.headroom_exhausted";
    let is_lossless = |frame: &&Frame<'_>| {
        [XOFF_REACHED, INTO_HEADROOM].contains(&frame.history.verdict.as_str())
            || frame.history.losses.iter().any(exhausted)
    };
    let first = frames.iter().find(is_lossless).filter(|_| !group.lossless)?.history;
    let lost = first.losses.iter().find(|loss| exhausted(loss)).map_or("", |(_, reason)| reason);
    let held = [&*first.verdict, lost].join(if lost.is_empty() { "" } else { ": " });
    let has = format!("priority group {pg} of {port} is lossy, without headroom and Xoff");
    Some((first.number, Finding::differs("limit", [held, has])))
}

/// A frame that was lost by WRED in a queue that loses none so.
fn dropped_early(config: &Config, (port, queue): (&str, u8), frames: &[Frame<'_>]) -> Option<(u64, Finding)> {
    let there = config.port_named(port)?.queues.get(usize::from(queue))?;
    let drops = there.wred.is_some_and(|wred| wred.wred_drop) && !there.lossless;
    let by_wred = |frame: &&Frame<'_>| frame.history.losses.iter().any(|(_, reason)| reason == "egress.wred");
    let first = frames.iter().find(by_wred).filter(|_| !drops)?;
    let has = format!("queue {queue} of {port} drops nothing by WRED");
    Some((first.history.number, Finding::differs("limit", ["egress.wred".into(), has])))
}

/// From some frame of the file that left by a port to a later one it had sent more than it can.
fn sent_more(config: &Config, port: &str, frames: &[Frame<'_>]) -> Option<(u64, Finding)> {
    let rate = rate_of(config, port)?;
    let mut left: Vec<([Nanos; 2], &Frame<'_>)> =
        frames.iter().filter_map(|frame| Some((frame.taken()?, frame))).collect();
    left.sort_unstable_by_key(|(taken, _)| *taken);
    let longest = left.iter().map(|(_, frame)| frame.came.bytes).max()?;
    let apart = explained(config, port, longest);
    // Frames are compared with the one from which on the port had least time for what it sent: when that was taken, and what was sent before.
    let ([_, earliest], _) = *left.first()?;
    let carries = |from: Nanos, until: Nanos| bytes_in(rate, until.saturating_sub(from));
    let (mut sent, mut since) = (0, (earliest, 0));
    for ([latest, from], frame) in left {
        let (begin, before) = since;
        let (in_between, most) = (sent - before, carries(begin, latest) + apart);
        if in_between > most {
            let held = format!(
                "{port} sent {in_between} bytes in {} ns, with what is between frames",
                latest - begin
            );
            let has = format!("at its rate it sends {most} at most");
            return Some((frame.history.number, Finding::differs("limit", [held, has])));
        }
        // Beginning here leaves less room than what came before.
        if sent - before < carries(begin, from) {
            since = (from, sent);
        }
        sent += wire_bytes(frame.came.bytes);
    }
    None
}

fn finding(held: String, limit: u64) -> Finding {
    Finding::differs("limit", [held, format!("its limit is {limit} bytes")])
}

fn held_more(buffer: &BufferConfig, name: &str, limit: u64, frames: &[Frame<'_>]) -> Option<(u64, Finding)> {
    frames.iter().find_map(|frame| {
        let came = frame.history.depth.map(|depth| depth + buffer.charge(frame.came.bytes));
        let left = frame.left().map(|left| left.depth + frame.came.bytes);
        let held = came.max(left).filter(|held| *held > limit)?;
        Some((frame.history.number, finding(format!("{name} held {held} bytes"), limit)))
    })
}

fn refused_below(
    config: &Config,
    name: &str,
    (port, limit): (&str, u64),
    frames: &[Frame<'_>],
) -> Option<(u64, Finding)> {
    let rate = rate_of(config, port)?;
    let longest = frames.iter().map(|frame| frame.came.bytes).max()?;
    let apart = explained(config, port, longest);
    // The shortest frames take the most of a queue for their time on the line.
    let charged = |sent: u64| sent.max(sent.saturating_mul(config.buffer.charge(0)) / wire_bytes(0));
    let mut left: Vec<(Nanos, u64)> = frames
        .iter()
        .filter_map(|frame| {
            let held = config.buffer.charge(frame.came.bytes) + charged(frame.left()?.depth);
            Some((frame.taken()?[0], held))
        })
        .collect();
    left.sort_unstable();
    let is_refused = |frame: &&Frame<'_>| matches!(&frame.history.losses[..], [(port, reason)] if port.is_empty() && reason == "egress.queue_full");
    let held = |frame: &Frame<'_>| {
        let next = left.partition_point(|(taken, _)| *taken < frame.came.at);
        let (taken, held) = left.get(next)?;
        Some(held + charged(bytes_in(rate, taken - frame.came.at)) + apart)
    };
    let refused: Vec<(&Frame<'_>, u64)> =
        frames.iter().filter(is_refused).filter_map(|frame| Some((frame, held(frame)?))).collect();
    let with_itself = |(frame, held): &(&Frame<'_>, u64)| held + config.buffer.charge(frame.came.bytes);
    let below = refused.len() >= SURE && refused.iter().all(|refused| with_itself(refused) <= limit);
    let (first, _) = refused.first().filter(|_| below)?;
    let most = refused.iter().map(|(_, held)| held).max()?;
    let held = format!("{name} held {most} bytes at most as it refused {} frames", refused.len());
    Some((first.history.number, finding(held, limit)))
}

/// What is known of frames, by a time and their numbers.
type ByTime<T> = BTreeMap<(Nanos, u64), T>;

/// Takes those whose time is before `end`, the earliest first.
fn before<T>(all: &mut ByTime<T>, end: Nanos) -> impl Iterator<Item = ((Nanos, u64), T)> {
    std::iter::from_fn(move || {
        all.first_entry().filter(|first| first.key().0 < end).map(|first| first.remove_entry())
    })
}

/// What leaves makes room in headroom first, and what does so while there is nothing in it may have done it later, when there was.
fn in_headroom_beyond(
    buffer: &BufferConfig,
    pg: u8,
    headroom: u64,
    frames: &[Frame<'_>],
) -> Option<(u64, Finding)> {
    // What came before the file begins has left each queue before the first frame of the file there.
    let mut first: BTreeMap<(&str, u8), Nanos> = BTreeMap::new();
    for frame in frames.iter().filter(|frame| frame.history.losses.is_empty()) {
        let until = frame.taken().map_or(Nanos::MAX, |[latest, _]| latest);
        first.entry((port_of(frame.history), frame.class[2])).or_insert(until);
    }
    let begin = first.into_values().max()?;
    // All frames of the group that wait, by when they are taken at the earliest, with when they are at the latest; and of those what found
    // nothing in headroom to make room of, by the latter.
    let (mut waiting, mut spare) = (ByTime::<(u64, Nanos)>::new(), ByTime::<u64>::new());
    let mut held = 0;
    let make_room = |held: &mut u64, charge: u64| {
        let from_headroom = charge.min(*held);
        *held -= from_headroom;
        charge - from_headroom
    };
    for frame in frames.iter().filter(|frame| frame.history.losses.is_empty()) {
        let (at, number) = (frame.came.at, frame.history.number);
        for ((_, number), (charge, latest)) in before(&mut waiting, at + 1) {
            let rest = make_room(&mut held, charge);
            if rest > 0 {
                spare.insert((latest, number), rest);
            }
        }
        before(&mut spare, at).for_each(drop);
        let charge = buffer.charge(frame.came.bytes);
        if frame.history.verdict == INTO_HEADROOM && at >= begin {
            held += charge;
            while let Some(mut first) = spare.first_entry().filter(|_| held > 0) {
                *first.get_mut() = make_room(&mut held, *first.get());
                if *first.get() == 0 {
                    first.remove();
                }
            }
            if held > headroom {
                let held = format!("priority group {pg} held {held} bytes in its headroom");
                let has = format!("it has {headroom} bytes of it");
                return Some((number, Finding::differs("limit", [held, has])));
            }
        }
        // It may have left at once, or be there to the end.
        let [latest, earliest] = frame.taken().unwrap_or([Nanos::MAX, at]);
        waiting.insert((earliest, number), (charge, latest));
    }
    None
}

fn taken_beyond(buffer: &BufferConfig, pg: u8, limit: u64, frames: &[Frame<'_>]) -> Option<(u64, Finding)> {
    // Frames that were taken into the share and wait, by when they are taken at the earliest. They are the least that it holds: what leaves
    // makes room in headroom first.
    let (mut waiting, mut held) = (ByTime::new(), 0);
    for frame in frames.iter().filter(|frame| frame.history.verdict == ADMITTED) {
        held -= before(&mut waiting, frame.came.at + 1).map(|(_, charge)| charge).sum::<u64>();
        let (charge, number) = (buffer.charge(frame.came.bytes), frame.history.number);
        if held + charge > limit {
            let held = format!("priority group {pg} held {} bytes outside its headroom", held + charge);
            return Some((number, finding(held, limit)));
        }
        // Where others are, and until when, is not told.
        if let Some([_, earliest]) = frame.taken() {
            waiting.insert((earliest, number), charge);
            held += charge;
        }
    }
    None
}
