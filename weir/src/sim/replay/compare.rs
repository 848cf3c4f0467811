//! Where the replay of a capture differs from what was written beside its frames: each frame is judged ([`mod@super::judge`]), in the order in
//! which they came, then the order in which they left, then what the losses come to.

use super::judge::{Finding, GROUPS, Known, Other, Past, class, departure, depth, lookup, mark, verdict};
use super::order::Turns;
use super::others::{OtherFrames, Others};
use super::pace::Paces;
use super::phase::{self, Losses, OtherLimit};
use super::sides::{Sides, as_of_one_lcore, text};
use super::{limits, order, pause};
use std::collections::{BTreeMap, BTreeSet};
use weir_config::Config;
use weir_dataplane::types::Nanos;
use weir_mgmt::admin::comment::FrameHistory;
use weir_mgmt::admin::verdict::XOFF_REACHED;

/// Something that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the frame in the capture.
    pub frame: u64,
    /// What: `class`, `lookup`, `verdict`, `pause`, `departure`, `depth`, `mark`, `order`, `limit`.
    pub what: &'static str,
    /// As it was captured.
    pub captured: String,
    /// As it is now.
    pub replayed: String,
    /// It may be one of phase alone: which frame finds the last room, or what follows from that.
    pub phase: bool,
}

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing that could be judged differs.
    Pass,
    /// Which frames found the last room of a full queue, or brought their group to Xoff, and nothing else.
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
    /// Brought their group to Xoff.
    pub xoff: u64,
}

impl Totals {
    fn of(histories: &[FrameHistory]) -> Self {
        let count = |is_it: fn(&FrameHistory) -> bool| histories.iter().filter(|h| is_it(h)).count() as u64;
        Self {
            frames: histories.len() as u64,
            dropped: count(|history| !history.losses.is_empty()),
            marked: count(|history| history.departures.iter().any(|left| left.marked)),
            xoff: count(|history| history.verdict == XOFF_REACHED),
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
    /// It can be marked: its header says ECT.
    pub ect: bool,
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
    /// By what: `class`, `lookup`, `verdict` (`pause` with it), `departure`, `depth`, `mark`, `order`.
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
    /// Frames that found another depth in their queue.
    pub other_depths: u64,
}

/// Compares the frames of one port, of the capture and of the replay. Both in the order in which their stories ended. `came`: each frame by its number.
/// `elsewhere`: when frames came to other ports, ns since 1970. Where frames are lacking what hangs on how full the switch was is compared only as far as that is known.
pub fn compare(
    config: &Config,
    [captured, replayed]: [&[FrameHistory]; 2],
    came: &BTreeMap<u64, Came>,
    elsewhere: &[Nanos],
    lacks: Lacks,
) -> Comparison {
    let totals = [captured, replayed].map(Totals::of);
    let captured: Vec<FrameHistory> = captured.iter().map(as_of_one_lcore).collect();
    let sides = [&captured[..], replayed];
    let others = OtherFrames::of(config, &captured, &lacks);
    let shifted = pause::shifted(config, sides, came);
    let end = came.values().map(|came| came.at).max().unwrap_or(0);
    let Paces { of: paces, late } = Paces::new(config, &captured, came, elsewhere);
    let longest = phase::longest(came);
    let mut left = captured.iter().flat_map(|history| &history.departures);
    let sends_without_rate = left.any(|left| phase::rate_of(config, &left.port).is_none());
    let known = Known { config, lacks: &lacks, others, longest, end, shifted, sends_without_rate, paces };
    let mut past = Past::new(Others::new(&known, sides, came), late);
    let now: BTreeMap<u64, &FrameHistory> =
        replayed.iter().map(|history| (history.number, history)).collect();
    let mut found = Comparison { totals, ..Comparison::default() };
    // The order in which they came is that of what was decided about them.
    let mut in_order: Vec<&FrameHistory> = captured.iter().collect();
    in_order.sort_by_key(|history| came.get(&history.number).map(|came| (came.at, history.number)));
    let mut elsewhere = BTreeSet::new();
    for was in in_order {
        let (at, ect) = came.get(&was.number).map_or((0, false), |came| (came.at, came.ect));
        match now.get(&was.number) {
            Some(is) => {
                let sides = Sides { was, is, at, ect };
                past.note_waiting(&known, &sides);
                found.frame(&known, &mut past, &sides, &mut elsewhere);
            }
            None => found.note(
                was.number,
                "departure",
                Finding::differs("departure", [text(was), "nothing".into()]),
            ),
        }
    }
    let phase = found.differences.iter().any(|difference| difference.phase);
    for Turns { first, finding, count } in order::judge(&known, &past, sides, came, &elsewhere, phase) {
        found.note_many(first, "order", finding, count);
    }
    // Elsewhere a replay does as the switch did, or differs.
    if known.others != OtherFrames::TOLD || !known.shifted.is_empty() {
        for (frame, finding) in limits::judge(&known, &captured, came) {
            found.note(frame, "limit", finding);
        }
    }
    if found.differences.iter().any(|difference| difference.phase) {
        // What comes behind a frame that others have decided about may follow from that.
        let until = past.others.first().unwrap_or(u64::MAX);
        let judged: [Vec<FrameHistory>; 2] =
            sides.map(|side| side.iter().filter(|history| history.number < until).cloned().collect());
        let sides = [&judged[0][..], &judged[1]];
        found.losses = phase::losses(config, sides, came);
        found.other_limit = phase::other_limit(&found.losses, sides, came);
    }
    found.differences.sort_by_key(|difference| difference.frame);
    found.lacks = lacks;
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

    /// Some frames brought their group to Xoff earlier or later than in the replay.
    pub fn shifts_pauses(&self) -> bool {
        self.differences.iter().any(|difference| difference.what == "pause")
    }

    /// Judges a frame: each judgement follows from those before it. `elsewhere`: frames that went to other places than in the replay.
    fn frame<'a>(
        &mut self,
        known: &Known<'_>,
        past: &mut Past<'a>,
        sides: &Sides<'a>,
        elsewhere: &mut BTreeSet<u64>,
    ) {
        let Sides { was, is, .. } = sides;
        let number = sides.number();
        self.other_depths += u64::from(was.depth.is_some() && is.depth.is_some() && was.depth != is.depth);
        self.note(number, "class", class::judge(sides));
        let place = lookup::judge(known, sides);
        let members = lookup::members(known, sides, &place);
        past.groups_apart |= [Some(&place), members.as_ref()].contains(&Some(&Finding::Unknown(GROUPS)));
        if place == Finding::LearnedSince {
            past.note_flooded();
        }
        let is_there = place == Finding::Same && members.is_none();
        self.note(number, "lookup", place);
        self.note_all(number, "departure", members);
        if !is_there {
            elsewhere.insert(number);
            return;
        }
        let verdict = verdict::judge(known, past, sides);
        let departure = departure::judge(known, past, sides, verdict.as_ref());
        let is_of_phase = |finding: &Finding| matches!(finding, Finding::Differs(other) if other.phase);
        past.other_room |= sides.is_crowded_out() && verdict.iter().chain(&departure).any(is_of_phase);
        let left_alike = departure == Some(Finding::Same);
        self.note_all(number, "verdict", verdict);
        self.note_all(number, "departure", departure);
        if left_alike {
            self.note_all(number, "depth", depth::judge(known, past, sides));
            self.note_all(number, "mark", mark::judge(known, past, sides));
        }
    }

    fn note_all(&mut self, frame: u64, what: &'static str, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|finding| self.note(frame, what, finding));
    }

    fn note(&mut self, frame: u64, what: &'static str, finding: Finding) {
        self.note_many(frame, what, finding, 1);
    }

    /// Counts what was judged so often, or could not be, and keeps what differs.
    fn note_many(&mut self, frame: u64, what: &'static str, finding: Finding, count: u64) {
        match finding {
            Finding::Same => self.compared.entry(what).or_default().judged += count,
            Finding::Differs(Other { what: which, captured, replayed, phase }) => {
                self.compared.entry(what).or_default().judged += count;
                self.differences.push(Difference { frame, what: which, captured, replayed, phase });
            }
            Finding::Lacks => self.compared.entry(what).or_default().lacking += count,
            Finding::Unknown(why) => *self.unknown.entry(why).or_default().entry(what).or_default() += count,
            Finding::Drawn => self.drawn += count,
            Finding::LearnedSince => self.learned_since += count,
        }
    }
}
