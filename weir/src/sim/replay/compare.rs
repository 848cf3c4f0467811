//! Where the replay of a capture differs from what was written beside its frames.

use super::order;
use super::others::Others;
use super::phase::{self, Losses, OtherLimit, is_crowded_out};
use std::collections::{BTreeMap, BTreeSet};
use weir_config::{Config, MarkPoint, WredConfig};
use weir_mgmt::admin::comment::{Departure, FrameHistory};

/// The word of a frame that was not followed beyond its arrival, or went no further.
const CONSUMED: &str = "consumed";
/// A frame to a group that nobody has joined.
const NO_RECEIVER: &str = "lookup.no_receiver";
/// The word of a frame that made its group pause the peer.
pub const XOFF: &str = "admitted, Xoff is sent";

/// How deep a queue of another lcore, or each of several, was when a frame came.
const DEPTHS: &str = "the depth of their queue when they came is not known";

/// Who had joined a group before the capture began, and which ports had routers; nobody joins in a replay.
const GROUPS: &str = "which ports had joined their groups, or had routers, is not known";

/// What held a port back until its watchdog acted.
const PAUSES: &str = "pauses that came to a port until its watchdog acted are not in the file";

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
    /// It may be one of phase alone: which frame finds the last room of a full queue, or what follows from that.
    pub phase: bool,
}

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing that could be judged differs.
    Pass,
    /// Which frames found the last room of a full queue, and nothing else.
    SameTotals,
    /// Something differs.
    Fail,
    /// Nothing could be judged.
    Undecided,
}

impl Verdict {
    /// As it is printed.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::SameTotals => "SAME TOTALS",
            Self::Fail => "FAIL",
            Self::Undecided => "UNDECIDED",
        }
    }
}

/// How often something was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// So often.
    pub judged: u64,
    /// So often not: it hangs on frames that the capture lacks.
    pub lacking: u64,
}

/// What became of all frames together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many.
    pub frames: u64,
    /// Of those, lost, or a copy of them.
    pub dropped: u64,
    /// Left with CE that they got here.
    pub marked: u64,
    /// Made their group pause the peer.
    pub paused: u64,
}

impl Totals {
    fn of(histories: &[FrameHistory]) -> Self {
        let count = |is_it: fn(&FrameHistory) -> bool| histories.iter().filter(|h| is_it(h)).count() as u64;
        Self {
            frames: histories.len() as u64,
            dropped: count(|history| !history.losses.is_empty()),
            marked: count(|history| history.departures.iter().any(|left| left.marked)),
            paused: count(|history| history.verdict == XOFF),
        }
    }
}

/// A frame that came to the port.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// When, ns since 1970.
    pub at: u64,
    /// Its length without FCS, bytes.
    pub bytes: u64,
}

/// Frames that the switch had, and the file has not.
#[derive(Clone, Debug, Default)]
pub struct Lacks {
    /// Of the port, as the file says.
    pub own: bool,
    /// Of other ports, of which the file says nothing.
    pub others: bool,
    /// Pauses that came to these ports, whose watchdogs acted on them.
    pub pauses: BTreeSet<String>,
}

/// What came of a comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// What the capture lacks.
    pub lacks: Lacks,
    /// Frames that the replay sends elsewhere.
    pub elsewhere: BTreeSet<u64>,
    /// Of those some to groups: from here on the replay holds what the switch did not, or the other way about.
    pub groups_apart: bool,
    /// By what: `class`, `lookup`, `verdict` (`pause` with it), `departure`, `mark`, `order`.
    pub compared: BTreeMap<&'static str, Compared>,
    /// What the file does not tell, and what could not be judged for that, how often.
    pub unknown: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// Of the capture, and of the replay.
    pub totals: [Totals; 2],
    /// In the order of the frames.
    pub differences: Vec<Difference>,
    /// Where differences may be of phase: what was lost for want of room.
    pub losses: Vec<Losses>,
    /// Where they may: a queue whose limit is another one.
    pub other_limit: Option<OtherLimit>,
    /// Marks that differ between Kmin and Kmax, where a draw decides.
    pub drawn: u64,
    /// Frames whose destination was learned only after they had come.
    pub learned_since: u64,
    /// Frames that found another depth in their queue: it held frames that are not in the file.
    pub other_depths: u64,
}

/// Compares the frames of one port. Both in the order in which their stories ended. `came`: each frame by its number. Where frames are
/// lacking what hangs on how full the switch was is compared only as far as that is known.
pub fn compare(
    config: &Config,
    captured: &[FrameHistory],
    replayed: &[FrameHistory],
    came: &BTreeMap<u64, Came>,
    lacks: Lacks,
) -> Comparison {
    let totals = [captured, replayed].map(Totals::of);
    let now: BTreeMap<u64, &FrameHistory> =
        replayed.iter().map(|history| (history.number, history)).collect();
    let signs = if lacks.others { order::signs(config, [captured, replayed], came) } else { BTreeMap::new() };
    let mut others = Others::new(config, signs);
    let mut found = Comparison { lacks, totals, ..Comparison::default() };
    // The order in which they came is that of what was decided about them.
    let mut in_order: Vec<&FrameHistory> = captured.iter().collect();
    in_order.sort_by_key(|history| came.get(&history.number).map(|came| (came.at, history.number)));
    for was in in_order {
        let at = came.get(&was.number).map_or(0, |came| came.at);
        match now.get(&was.number) {
            Some(is) => found.frame(config, was, is, (&mut others, at)),
            None => found.differ(was.number, "departure", history_text(was), "nothing".into()),
        }
    }
    order::compare(&mut found, config, [captured, replayed], came);
    if found.differences.iter().any(|difference| difference.phase) {
        found.losses = phase::losses(config, [captured, replayed], came);
        found.other_limit = phase::other_limit(&found.losses, [captured, replayed], came);
    }
    found.differences.sort_by_key(|difference| difference.frame);
    found
}

impl Comparison {
    /// A frame has its class without a switch: one that was compared no further says nothing.
    pub fn verdict(&self) -> Verdict {
        let judged = |what: &str| self.compared.get(what).is_some_and(|compared| compared.judged > 0);
        let explained = self.other_limit.is_none() && self.losses.iter().all(Losses::agree);
        match self.differences.is_empty() {
            false if explained && self.differences.iter().all(|d| d.phase) => Verdict::SameTotals,
            false => Verdict::Fail,
            true if ["verdict", "departure", "mark", "order"].into_iter().any(judged) => Verdict::Pass,
            true => Verdict::Undecided,
        }
    }

    fn judge(&mut self, what: &'static str) {
        self.compared.entry(what).or_default().judged += 1;
    }

    fn lack(&mut self, what: &'static str) {
        self.compared.entry(what).or_default().lacking += 1;
    }

    /// Not to be judged, for frames that lack or for another reason.
    fn pass_over(&mut self, what: &'static str, why: Option<&'static str>) {
        match why {
            Some(why) => self.do_not_know(what, why, 1),
            None => self.lack(what),
        }
    }

    /// Why the buffer may have been otherwise full than in the replay, but for frames that lack.
    fn other_load(&self) -> Option<&'static str> {
        match self.lacks.pauses.is_empty() {
            true => self.groups_apart.then_some(GROUPS),
            false => Some(PAUSES),
        }
    }

    /// Why frames may have left a port in another order, but for frames that lack.
    pub fn other_turns(&self, port: &str) -> Option<&'static str> {
        match self.lacks.pauses.contains(port) {
            true => Some(PAUSES),
            false => self.groups_apart.then_some(GROUPS),
        }
    }

    /// What could not be judged, for want of something else than frames.
    pub fn do_not_know(&mut self, what: &'static str, why: &'static str, count: u64) {
        *self.unknown.entry(why).or_default().entry(what).or_default() += count;
    }

    /// A difference that nothing explains.
    pub fn differ(&mut self, frame: u64, what: &'static str, captured: String, replayed: String) {
        self.differences.push(Difference { frame, what, captured, replayed, phase: false });
    }

    /// The same of a difference that may be one of phase.
    pub fn differ_in_phase(&mut self, frame: u64, what: &'static str, captured: String, replayed: String) {
        self.differences.push(Difference { frame, what, captured, replayed, phase: true });
    }

    fn frame(
        &mut self,
        config: &Config,
        was: &FrameHistory,
        is: &FrameHistory,
        (others, at): (&mut Others<'_>, u64),
    ) {
        let number = was.number;
        self.other_depths += u64::from(was.depth.is_some() && is.depth.is_some() && was.depth != is.depth);
        self.judge("class");
        if was.class != is.class {
            let text = |class: Option<[u8; 3]>| match class {
                Some([tc, pg, queue]) => format!("tc {tc} pg {pg} queue {queue}"),
                None => "none".into(),
            };
            self.differ(number, "class", text(was.class), text(is.class));
        }
        let is_joined = !config.mcast.vlans.is_empty() && is_to_group(was);
        if was.lookup != is.lookup {
            if was.lookup == "unknown" {
                self.learned_since += 1;
            } else if is_joined {
                self.do_not_know("lookup", GROUPS, 1);
                self.groups_apart = true;
            } else {
                self.judge("lookup");
                self.differ(number, "lookup", was.lookup.clone(), is.lookup.clone());
            }
            // Nothing behind it can be compared.
            self.elsewhere.insert(number);
            return;
        }
        self.judge("lookup");
        let refused_by = refusing_queue(was);
        if refused_by.is_some() && refused_by == refusing_queue(is) {
            for what in ["verdict", "departure"] {
                if self.lacks.own { self.lack(what) } else { self.judge(what) }
            }
            return;
        }
        let arrival = |history: &FrameHistory| {
            let lost = history.losses.iter().find(|(port, _)| port.is_empty());
            lost.map_or(history.verdict.clone(), |(_, reason)| format!("{}: {reason}", history.verdict))
        };
        let (before, after) = (arrival(was), arrival(is));
        let unfollowed =
            [was, is].iter().any(|history| history.verdict == CONSUMED && history.losses.is_empty());
        let refused = |history: &FrameHistory| {
            let of_itself = |reason: &str| !hangs_on_others(reason) && reason != NO_RECEIVER;
            history.losses.iter().any(|(port, reason)| port.is_empty() && of_itself(reason))
        };
        let other_load = self.other_load();
        let has_no_place = |history: &FrameHistory| is_crowded_out(history) && places(history).is_empty();
        let has_place = |history: &FrameHistory| !refused(history) && !has_no_place(history);
        if is_joined && !was.on_its_way && [was, is].into_iter().all(has_place) && places(was) != places(is) {
            self.do_not_know("departure", GROUPS, 1);
            self.groups_apart = true;
            self.elsewhere.insert(number);
            return;
        }
        if !unfollowed {
            if self.lacks.own && !refused(was) && !refused(is) {
                self.lack("verdict");
            } else if before != after
                && !refused(was)
                && !refused(is)
                && (other_load.is_some() || self.lacks.others && others.decide(was, is, at))
            {
                self.pass_over("verdict", other_load);
                if is_crowded_out(was) || is_crowded_out(is) {
                    // Where it went, and how, follows from that.
                    self.pass_over("departure", other_load);
                    return;
                }
            } else {
                self.judge("verdict");
                let crowded_out = is_crowded_out(was) || is_crowded_out(is);
                if before != after
                    && crowded_out
                    && before != XOFF
                    && after != XOFF
                    && !refused(was)
                    && !refused(is)
                {
                    self.differ_in_phase(number, "verdict", before, after);
                    // Where it went, and how, follows from that.
                    return;
                }
                if before != after {
                    let what = if before == XOFF || after == XOFF { "pause" } else { "verdict" };
                    self.differ(number, what, before, after);
                }
            }
        }
        if unfollowed || was.on_its_way {
            return;
        }
        if self.lacks.own && (is_crowded_out(was) || is_crowded_out(is)) {
            self.lack("departure");
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
        let other_room = other_load.filter(|_| is_crowded_out(was) || is_crowded_out(is));
        if let Some(why) = other_room.filter(|_| gone(was) != gone(is)) {
            self.do_not_know("departure", why, 1);
            return;
        }
        self.judge("departure");
        if gone(was) != gone(is) {
            let (before, after) = (history_text(was), history_text(is));
            match is_crowded_out(was) || is_crowded_out(is) {
                true => self.differ_in_phase(number, "departure", before, after),
                false => self.differ(number, "departure", before, after),
            }
            return;
        }
        for before in &was.departures {
            let after = is.departures.iter().find(|after| after.port == before.port);
            let Some(after) = after else { continue };
            let on_arrival = |wred: WredConfig| wred.mark == MarkPoint::Enqueue;
            if was.depth.is_none() && curve(config, before).is_some_and(on_arrival) {
                self.do_not_know("mark", DEPTHS, 1);
                continue;
            }
            let depths = [mark_depth(config, was, before), mark_depth(config, is, after)];
            let is_drawn = |(wred, depth): (WredConfig, u64)| depth > wred.kmin && depth <= wred.kmax;
            let is_another_queue = depths[0].map(|(_, depth)| depth) != depths[1].map(|(_, depth)| depth);
            if self.lacks.own && is_another_queue {
                self.lack("mark");
                continue;
            }
            let differs = before.marked != after.marked;
            if differs && depths.into_iter().flatten().any(is_drawn) {
                self.drawn += 1;
                continue;
            }
            // Frames that are not in the file were in the queue, too: with those the mark is what it must be.
            let must_be = |(wred, depth): (WredConfig, u64)| before.marked == (depth > wred.kmax);
            if differs && is_another_queue && depths[0].is_some_and(must_be) {
                self.pass_over("mark", other_load);
                continue;
            }
            self.judge("mark");
            if differs {
                let text = |left: &Departure, decided: Option<(WredConfig, u64)>| {
                    let mark = if left.marked { "marked CE" } else { "not marked" };
                    let depth = decided.map(|(wred, depth)| match wred.mark {
                        MarkPoint::Dequeue => format!(" with {depth} bytes behind it"),
                        MarkPoint::Enqueue => format!(" with {depth} bytes in its queue when it came"),
                    });
                    format!("{mark} at {}{}", left.port, depth.unwrap_or_default())
                };
                let (was, is) = (text(before, depths[0]), text(after, depths[1]));
                // Each is what the curve makes of its own depth, which other frames before it have moved.
                let follows = |left: &Departure, decided: Option<(WredConfig, u64)>| {
                    decided.is_some_and(|(wred, depth)| left.marked == (depth > wred.kmax))
                };
                match is_another_queue && follows(before, depths[0]) && follows(after, depths[1]) {
                    true => self.differ_in_phase(number, "mark", was, is),
                    false => self.differ(number, "mark", was, is),
                }
            }
        }
    }
}

/// Whether a frame is one of those that go to whoever has joined.
fn is_to_group(history: &FrameHistory) -> bool {
    history.lookup == "multicast" || history.lookup.starts_with("group ")
}

/// Ports to which a frame was to go.
fn places(history: &FrameHistory) -> BTreeSet<&str> {
    let left = history.departures.iter().map(|left| left.port.as_str());
    let lost = history.losses.iter().map(|(port, _)| port.as_str());
    left.chain(lost).filter(|port| !port.is_empty()).collect()
}

/// The curve that decided about the mark of a frame that left so.
fn curve(config: &Config, left: &Departure) -> Option<WredConfig> {
    let port = config.ports.iter().find(|port| port.name == left.port)?;
    port.queues.get(usize::from(left.queue))?.wred
}

/// The curve, and the depth it was asked for, bytes, where that is known.
fn mark_depth(config: &Config, history: &FrameHistory, left: &Departure) -> Option<(WredConfig, u64)> {
    let wred = curve(config, left)?;
    let depth = match wred.mark {
        MarkPoint::Dequeue => left.depth,
        MarkPoint::Enqueue => history.depth?,
    };
    Some((wred, depth))
}

/// The port whose queue refused a frame, and why. Where that is another lcore's it is told behind the arrival, by the lcore that has the queue.
fn refusing_queue(history: &FrameHistory) -> Option<(&str, &str)> {
    let [(port, reason)] = &history.losses[..] else { return None };
    let port = if port.is_empty() { phase::port_of(history) } else { port };
    (history.departures.is_empty() && reason.starts_with("egress.")).then_some((port, reason))
}

/// Whether a frame is lost for such a reason because of others: of what they hold, or of how many came.
pub(super) fn hangs_on_others(reason: &str) -> bool {
    let (stage, what) = reason.split_once('.').unwrap_or((reason, ""));
    matches!(stage, "ingress" | "egress" | "watchdog" | "handoff") && !what.ends_with("_down")
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
