//! The order in which frames leave a port, on either side, and where frames that are not in the file can have decided it.
//!
//! Which queue is served next is a matter of all frames of the port, whoever sent them. A capture of one port has a share
//! of them; of the others it tells that they were there by a queue that was deeper than its own frames make it, and
//! by the line, which was not free for them when it should have been.

use super::compare::Came;
use super::judge::depth::{MORE, NO_RATE};
use super::judge::{Finding, Known, Past};
use super::others::LCORES;
use std::collections::{BTreeMap, BTreeSet};
use weir_config::{Config, PortConfig, runtime::queue_schedules};
use weir_dataplane::egress::{Discipline, QueuePick, QueueSchedule};
use weir_dataplane::types::{Nanos, PRIORITIES, wire_bytes};
use weir_mgmt::admin::comment::{Departure, FrameHistory};

/// Frames of one destination that left a port on both sides, in the order of either.
struct Place {
    port: String,
    before: Vec<u64>,
    after: Vec<u64>,
}

impl Place {
    /// Whether the order of all others is the same.
    fn is_same_without(&self, these: &BTreeSet<u64>) -> bool {
        let others = |order: &[u64]| {
            order.iter().filter(|number| !these.contains(number)).copied().collect::<Vec<u64>>()
        };
        others(&self.before) == others(&self.after)
    }
}

/// What is judged of the order at a port, or in one of its queues.
#[derive(Debug)]
pub struct Turns {
    /// The first frame it is about.
    pub first: u64,
    pub finding: Finding,
    /// Of so many frames.
    pub count: u64,
}

/// The order in which frames with one destination left each port; each queue, where frames are lacking that had their turns. `phase`: frames
/// differ in phase.
pub fn judge(
    known: &Known<'_>,
    past: &Past<'_>,
    sides: [&[FrameHistory]; 2],
    came: &BTreeMap<u64, Came>,
    elsewhere: &BTreeSet<u64>,
    phase: bool,
) -> Vec<Turns> {
    // None of a queue overtakes another one of it, whoever else is there.
    let queues = places(sides, elsewhere, true);
    let keeps = |port: Option<&str>| {
        let mut of_port = queues.iter().filter(|place| port.is_none_or(|port| place.port == port));
        of_port.all(|place| place.before == place.after)
    };
    let mut found = Vec::new();
    for place in places(sides, elsewhere, known.lacks.own) {
        let Place { port, before, after } = &place;
        let count = before.len() as u64;
        // One alone has no order.
        if count < 2 {
            continue;
        }
        let pairs = || before.iter().zip(after).filter(|(first, other)| first != other);
        let Some((&first, other)) = pairs().next() else {
            found.push(Turns { first: before[0], finding: Finding::Same, count });
            continue;
        };
        let differ = pairs().count() as u64;
        let is_of_others =
            || Port::of(known.config, port, sides, came).is_some_and(|port| port.explains(&place));
        let why = if let Some(why) = past.other_turns(known, port) {
            Some(Finding::Unknown(why))
        } else if known.others.missing && is_of_others() {
            Some(Finding::Lacks)
        } else if known.others.unordered && !known.lacks.own && keeps(Some(port)) {
            Some(Finding::Unknown(LCORES))
        } else if !known.has_rate(port) && keeps(Some(port)) {
            Some(Finding::Unknown(NO_RATE))
        } else if !known.others.missing && place.is_same_without(&past.untold) && keeps(Some(port)) {
            Some(Finding::Unknown(MORE))
        } else {
            None
        };
        let (finding, apart) = match why {
            Some(why) => (why, differ),
            None => {
                let captured = format!("next by {port}");
                let replayed = format!("frame {other} goes before it; {differ} places differ");
                // Where other frames are dropped others have a turn.
                let finding = Finding::differs_in_phase("order", [captured, replayed], phase && keeps(None));
                (finding, 1)
            }
        };
        if count > apart {
            found.push(Turns { first, finding: Finding::Same, count: count - apart });
        }
        found.push(Turns { first, finding, count: apart });
    }
    found
}

/// When other frames first show at a port: never, if they do not.
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    /// At all.
    pub port: Nanos,
    /// By the depth of each queue.
    pub queues: [Nanos; PRIORITIES],
}

/// Those of each port, by its name.
pub fn signs<'a>(
    config: &'a Config,
    sides: [&[FrameHistory]; 2],
    came: &BTreeMap<u64, Came>,
) -> BTreeMap<&'a str, Signs> {
    let of = |name: &'a str| {
        let port = Port::of(config, name, sides, came)?;
        let queues = std::array::from_fn(|queue| port.deeper(queue as u8));
        Some((name, Signs { port: port.first_sign(), queues }))
    };
    config.ports.iter().filter_map(|port| of(&port.name)).collect()
}

/// Of each port, or each of its queues, the frames that left there on both sides.
fn places(sides: [&[FrameHistory]; 2], elsewhere: &BTreeSet<u64>, queues: bool) -> Vec<Place> {
    let [was, mut is] = sides.map(|histories| {
        let mut places: BTreeMap<(String, Option<u8>), Vec<u64>> = BTreeMap::new();
        for history in histories.iter().filter(|history| !elsewhere.contains(&history.number)) {
            if let [left] = &history.departures[..] {
                let place = (left.port.clone(), queues.then_some(left.queue));
                places.entry(place).or_default().push(history.number);
            }
        }
        places
    });
    let both = |(place, before): ((String, Option<u8>), Vec<u64>)| {
        let after = is.remove(&place)?;
        let sets = [&before, &after].map(|these| these.iter().copied().collect::<BTreeSet<u64>>());
        let of = |these: Vec<u64>, those: &BTreeSet<u64>| -> Vec<u64> {
            these.into_iter().filter(|number| those.contains(number)).collect()
        };
        Some(Place { port: place.0, before: of(before, &sets[1]), after: of(after, &sets[0]) })
    };
    was.into_iter().filter_map(both).collect()
}

/// A frame, or a copy of it, at the port.
#[derive(Clone, Copy, Debug)]
struct Passage {
    queue: u8,
    came: Nanos,
    bytes: u64,
    /// When it was taken from its queue; never, if the file does not tell.
    taken: Nanos,
    /// By how much that may be wrong, as it is told.
    rounding: Nanos,
    /// Behind it, bytes.
    behind: Option<u64>,
    /// Before it when it came, bytes.
    before: Option<u64>,
}

impl Passage {
    /// When it was taken, at the latest.
    fn last_there(&self) -> Nanos {
        self.taken.saturating_add(self.rounding)
    }
}

/// All that the file tells of a port, and what the replay did there.
struct Port<'a> {
    config: &'a Config,
    schedules: [QueueSchedule; PRIORITIES],
    captured: BTreeMap<u64, Passage>,
    replayed: BTreeMap<u64, Passage>,
}

impl<'a> Port<'a> {
    fn of(
        config: &'a Config,
        name: &str,
        sides: [&[FrameHistory]; 2],
        came: &BTreeMap<u64, Came>,
    ) -> Option<Self> {
        let port: &PortConfig = config.port_named(name)?;
        let [captured, replayed] = sides.map(|histories| {
            let passage = |history: &FrameHistory| {
                let came = came.get(&history.number)?;
                let left = history.departures.iter().find(|left| left.port == name);
                let stays = history.on_its_way || history.losses.iter().any(|(port, _)| port == name);
                let queue = match left {
                    Some(left) => left.queue,
                    None if stays => history.class?[2],
                    None => return None,
                };
                let passage = Passage {
                    queue,
                    came: came.at,
                    bytes: came.bytes,
                    taken: left.map_or(Nanos::MAX, |left| came.at.saturating_add(left.queued)),
                    rounding: left.map_or(0, Departure::rounding),
                    behind: left.map(|left| left.depth),
                    before: history.depth.filter(|_| left.is_some() && history.departures.len() == 1),
                };
                Some((history.number, passage))
            };
            histories.iter().filter_map(passage).collect()
        });
        Some(Self { config, schedules: queue_schedules(port), captured, replayed })
    }

    /// Whether frames that are not in the file can have decided wherever the order differs.
    fn explains(&self, place: &Place) -> bool {
        let sign = self.first_sign();
        let mut overtook = BTreeSet::new();
        let mut sent = [[0.0; PRIORITIES]; 2];
        let mut after = place.after.iter().peekable();
        for (first, at_once) in place.before.iter().zip(&place.after) {
            let (Some(it), Some(other)) = (self.captured.get(first), self.replayed.get(at_once)) else {
                return false;
            };
            for (sent, passage) in sent.iter_mut().zip([it, other]) {
                sent[usize::from(passage.queue)] += self.cost(passage.queue, passage.bytes);
            }
            while after.next_if(|number| overtook.remove(*number)).is_some() {}
            if after.next_if_eq(&first).is_some() {
                continue;
            }
            overtook.insert(*first);
            let Some(next) = after.peek().and_then(|number| self.replayed.get(number)) else { return false };
            // In the replay it had gone before the first one came: it was not chosen, but in time.
            let had_gone = next.taken < it.came;
            let explained = had_gone || sign <= it.taken || self.is_a_turn([it.queue, next.queue], &sent);
            if next.queue == it.queue || !explained {
                return false;
            }
        }
        true
    }

    /// When other frames first show at the port; never, if they do not.
    fn first_sign(&self) -> Nanos {
        let queues = (0..PRIORITIES as u8).map(|queue| self.deeper(queue));
        queues.chain([self.later()]).min().unwrap_or(Nanos::MAX)
    }

    /// When a queue first is deeper than the frames of the file make it. They pass it in the order in which they came.
    fn deeper(&self, queue: u8) -> Nanos {
        let own: Vec<&Passage> = self.captured.values().filter(|passage| passage.queue == queue).collect();
        let charge = |passage: &Passage| self.config.buffer.charge(passage.bytes);
        let (mut gone, mut behind) = (own.iter().peekable(), own.iter().peekable());
        // Bytes that wait as a frame comes; that came until it goes; that went until then, with it.
        let (mut before, mut come, mut passed) = (0, 0, 0);
        let mut first = Nanos::MAX;
        for passage in &own {
            while let Some(gone) = gone.next_if(|other| other.last_there() < passage.came) {
                before -= charge(gone);
            }
            if passage.before.is_some_and(|depth| depth > before) {
                first = first.min(passage.came);
            }
            while let Some(next) = behind.next_if(|next| next.came <= passage.last_there()) {
                come += charge(next);
            }
            passed += charge(passage);
            if passage.behind.is_some_and(|depth| depth > come - passed) {
                first = first.min(passage.taken);
            }
            before += charge(passage);
        }
        first
    }

    /// When the port first has sent as many bytes later than in the replay by more than lies between two looks at it. In which order its
    /// frames go has no part in that, since it sends while any waits.
    fn later(&self) -> Nanos {
        let [was, is] = [&self.captured, &self.replayed].map(|side| {
            let mut left: Vec<&Passage> = side.values().filter(|passage| passage.behind.is_some()).collect();
            left.sort_by_key(|passage| passage.taken);
            let sent = left.iter().scan(0, |sent, passage| {
                let before = *sent;
                *sent += wire_bytes(passage.bytes);
                Some(before)
            });
            sent.zip(left.iter().copied()).collect::<Vec<_>>()
        });
        let mut is = is.into_iter().peekable();
        for (sent, passage) in was {
            while is.next_if(|(others, _)| *others < sent).is_some() {}
            let Some((_, other)) = is.peek() else { break };
            let until = other.taken.saturating_add(self.config.pfc.poll_gap);
            if passage.taken.saturating_sub(passage.rounding) > until {
                return until;
            }
        }
        Nanos::MAX
    }

    /// By how much a frame moves the tag of its queue, bytes per unit of weight; a frame of a queue whose frames are counted is 256 of them.
    fn cost(&self, queue: u8, bytes: u64) -> f64 {
        match self.schedules[usize::from(queue)].discipline {
            Discipline::Dwrr(weight) => wire_bytes(bytes) as f64 / f64::from(weight),
            Discipline::Wrr(weight) => 256.0 / f64::from(weight),
            Discipline::Strict => 0.0,
        }
    }

    /// Whether both queues have their weighted shares, and either is as little ahead of the other as it may be from frames
    /// that had gone before. `sent`: by each side, until now.
    fn is_a_turn(&self, queues: [u8; 2], sent: &[[f64; PRIORITIES]; 2]) -> bool {
        let weighted = |queue: u8| {
            let schedule = &self.schedules[usize::from(queue)];
            schedule.discipline != Discipline::Strict && schedule.cir.is_none() && schedule.pir.is_none()
        };
        if !queues.into_iter().all(weighted) {
            return false;
        }
        let [more, less] = queues.map(|queue| sent[0][usize::from(queue)] - sent[1][usize::from(queue)]);
        let turn = |queue: u8| {
            let longest = self.captured.values().map(|passage| passage.bytes).max().unwrap_or(0);
            let small = match self.schedules[usize::from(queue)].discipline {
                Discipline::Dwrr(_) => QueuePick::TURN_PER_WEIGHT as f64,
                _ => 0.0,
            };
            self.cost(queue, longest) + small
        };
        // On either side the one or the other can be ahead by so much.
        (more - less).abs() <= 2.0 * queues.map(turn).iter().sum::<f64>()
    }
}
