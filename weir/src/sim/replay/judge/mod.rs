//! What is judged of a frame, each by its own: class, place of its destination, what the buffer made of it, where it left, how deep its queue
//! was, its mark. A judgement sees both sides of the frame, what the file can tell ([`Known`]), and what it could not tell of frames before ([`Past`]).

pub mod class;
pub mod departure;
pub mod depth;
pub mod lookup;
pub mod mark;
pub mod verdict;

use super::compare::Lacks;
use super::others::{OtherFrames, Others};
use super::phase::rate_of;
use super::sides::Sides;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::vec::IntoIter;
use weir_config::Config;
use weir_dataplane::types::Nanos;

/// Who had joined a group before the capture began, and which ports had routers; nobody joins in a replay.
pub const GROUPS: &str = "which ports had joined their groups, or had routers, is not known";

/// What held a port back until its watchdog acted.
const PAUSES: &str = "pauses that came to a port until its watchdog acted are not in the file";

/// What a judgement comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The same on both sides.
    Same,
    /// Another one.
    Differs(Other),
    /// It hangs on frames that the file lacks.
    Lacks,
    /// It hangs on something else that is not in the file: what.
    Unknown(&'static str),
    /// A draw decides, which is another one.
    Drawn,
    /// A destination that the capture did not know yet, and the replay does.
    LearnedSince,
}

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// See [`super::compare::Difference`].
    pub what: &'static str,
    /// As it was captured.
    pub captured: String,
    /// As it is now.
    pub replayed: String,
    /// It may be one of phase alone: which frame finds the last room, or what follows from that.
    pub phase: bool,
}

impl Finding {
    /// A difference that nothing explains.
    pub fn differs(what: &'static str, sides: [String; 2]) -> Self {
        Self::differs_in_phase(what, sides, false)
    }

    /// One that may be of phase, if `phase`.
    pub fn differs_in_phase(what: &'static str, [captured, replayed]: [String; 2], phase: bool) -> Self {
        Self::Differs(Other { what, captured, replayed, phase })
    }
}

/// What the file can tell, and what the configuration says beside it.
#[derive(Debug)]
pub struct Known<'a> {
    /// The configuration of the replay.
    pub config: &'a Config,
    /// What the file lacks.
    pub lacks: &'a Lacks,
    /// What it tells of frames of other ports.
    pub others: OtherFrames,
    /// The longest frame, bytes.
    pub longest: u64,
    /// When the last frame of the file came, ns since 1970.
    pub end: Nanos,
    /// Frames that brought their group to Xoff, or waited in its headroom, on one side only, as a difference of phase explains.
    pub shifted: BTreeSet<u64>,
    /// A port that has no `rate` sent some of them: it sends at once in the replay.
    pub sends_without_rate: bool,
    /// Times that frames took in the capture, see [`super::pace::Paces`].
    pub paces: BTreeMap<&'a str, f64>,
}

/// What could not be told of frames before: from then on the replay holds what the switch did not, or the other way about.
#[derive(Debug)]
pub struct Past<'a> {
    /// Frames to groups went elsewhere.
    pub groups_apart: bool,
    /// Frames that have decided without the file telling when, or at all.
    pub others: Others<'a>,
    /// Ports whose line was free as a frame came: nothing waits there any more that came before the file begins.
    pub free: BTreeSet<&'a str>,
    /// Queues of each port, and whether a frame found it no deeper than in the replay: since then it holds the same.
    pub queues: BTreeMap<(&'a str, u8), bool>,
    /// Queues of which a frame has been told that found another depth.
    pub apart: BTreeSet<(&'a str, u8)>,
    /// Another frame has found the last room than in the replay.
    pub other_room: bool,
    /// Frames that came while their port may have held some that the file does not tell of.
    pub untold: BTreeSet<u64>,
    /// Looks at a port that are to come too late: since when nothing happened, ns since 1970.
    late: Peekable<IntoIter<(Nanos, &'a str)>>,
}

impl Known<'_> {
    /// The configuration says how fast a port sends.
    pub fn has_rate(&self, name: &str) -> bool {
        rate_of(self.config, name).is_some()
    }
}

impl<'a> Past<'a> {
    pub fn new(others: Others<'a>, late: Vec<(Nanos, &'a str)>) -> Self {
        Self {
            groups_apart: false,
            others,
            free: BTreeSet::new(),
            queues: BTreeMap::new(),
            apart: BTreeSet::new(),
            other_room: false,
            untold: BTreeSet::new(),
            late: late.into_iter().peekable(),
        }
    }

    /// A frame that waited no longer than until its port was looked at found its line free; and one that found its queue as in the replay found nothing
    /// there that came before the file begins, or has stayed there since a late look.
    pub fn note_waiting(&mut self, known: &Known<'_>, sides: &Sides<'a>) {
        let Sides { was, is, at, .. } = *sides;
        while let Some((_, port)) = self.late.next_if(|(since, _)| *since < at) {
            self.free.remove(port);
            self.queues.retain(|(of, _), _| *of != port);
        }
        let left = was.departures.iter().filter(|left| left.queued <= known.config.pfc.poll_gap);
        self.free.extend(left.filter(|_| was.depth == Some(0)).map(|left| left.port.as_str()));
        if let ([left], Some(before), Some(after)) = (&was.departures[..], was.depth, is.depth) {
            let is_same = before <= after.saturating_add(depth::near(known, self, &left.port));
            *self.queues.entry((&left.port, left.queue)).or_default() |= is_same;
        }
        if was.departures.iter().any(|left| !self.is_told(&left.port)) {
            self.untold.insert(was.number);
        }
    }

    /// Frames were flooded, and went to more ports than in the replay.
    pub fn note_flooded(&mut self) {
        self.free.clear();
        self.queues.clear();
    }

    /// Nothing waits at a port that the file does not tell of.
    fn is_told(&self, port: &str) -> bool {
        self.free.contains(port)
            && self.queues.iter().filter(|((of, _), _)| *of == port).all(|(_, is_same)| *is_same)
    }

    /// Why the buffer may have been otherwise full than in the replay, but for frames that lack.
    fn other_load(&self, known: &Known<'_>) -> Option<&'static str> {
        match known.lacks.pauses.is_empty() {
            true if self.groups_apart => Some(GROUPS),
            true => self.others.unordered(),
            false => Some(PAUSES),
        }
    }

    /// Why frames may have left a port in another order, but for frames that lack.
    pub fn other_turns(&self, known: &Known<'_>, port: &str) -> Option<&'static str> {
        match known.lacks.pauses.contains(port) {
            true => Some(PAUSES),
            false => self.groups_apart.then_some(GROUPS),
        }
    }

    /// Why another verdict is none: frames that the file does not tell of, or not exactly, have decided it or one before.
    fn explain(&mut self, known: &Known<'_>, sides: &Sides<'_>) -> Option<Finding> {
        let no_rate = || known.sends_without_rate.then_some(depth::NO_RATE);
        match self.other_load(known).or_else(no_rate) {
            Some(why) => Some(Finding::Unknown(why)),
            None => self.others.decide(sides),
        }
    }
}
