//! Frames that are dropped at a full queue, where a replay and the switch that was captured send some microseconds apart: which of
//! two frames finds the byte that was just freed is then another one.
//!
//! That explains other frames, not more of them: what was dropped until any moment differs by what a port sends in the
//! time by which the two may be apart, and by a frame at either end. And it moves no limit: a queue that is full is as deep
//! on one side as on the other.

use super::compare::Came;
use super::sides::{hangs_on_others, port_of};
use std::collections::BTreeMap;
use std::fmt;
use weir_config::Config;
use weir_mgmt::admin::comment::FrameHistory;

/// Frames of one class that are lost at one port for one reason, for want of room, on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Losses {
    /// The port they were for; empty where they were for several.
    pub port: String,
    /// Traffic class, priority group, queue.
    pub class: [u8; 3],
    /// The reason.
    pub reason: String,
    /// Frames lost in the capture, and in the replay.
    pub frames: [u64; 2],
    /// The most by which they were apart until any frame, bytes.
    pub apart: u64,
    /// What a difference of phase explains of that, bytes.
    pub explained: u64,
}

/// Frames that either side may lose more in all, beside a twentieth.
const FEW: u64 = 2;

impl Losses {
    /// A difference of phase explains them.
    pub fn agree(&self) -> bool {
        let [was, is] = self.frames;
        self.apart <= self.explained && was.abs_diff(is) <= FEW.max(was.max(is) / 20)
    }
}

/// Port, class and reason of losses.
type Place<'a> = (&'a str, [u8; 3], &'a str);
/// Frames that were lost, by number, and on which side.
type Frames = BTreeMap<u64, [bool; 2]>;

/// The longest frame, bytes.
pub fn longest(came: &BTreeMap<u64, Came>) -> u64 {
    came.values().map(|frame| frame.bytes).max().unwrap_or(0)
}

/// How fast a port sends, bit/s; `None`: as fast as its link, or there is no such port.
pub fn rate_of(config: &Config, port: &str) -> Option<u64> {
    config.port_named(port)?.rate.bps()
}

/// Bytes by which two sides may be apart at a port: what it sends between two looks, and a frame at either end. Of a port that is not known the fastest
/// one.
pub fn explained(config: &Config, port: &str, longest: u64) -> u64 {
    let rates = config.ports.iter().filter(|p| port.is_empty() || p.name == port);
    let rate = rates.filter_map(|port| port.rate.bps()).max().unwrap_or(0);
    2 * longest + (u128::from(rate) * u128::from(config.pfc.poll_gap) / 8_000_000_000) as u64
}

/// All losses for want of room. `came`: each frame by its number.
pub fn losses(config: &Config, sides: [&[FrameHistory]; 2], came: &BTreeMap<u64, Came>) -> Vec<Losses> {
    let longest = longest(came);
    let mut lost: BTreeMap<Place<'_>, Frames> = BTreeMap::new();
    for (side, histories) in sides.iter().enumerate() {
        for history in *histories {
            for (port, reason) in history.losses.iter().filter(|(_, reason)| hangs_on_others(reason)) {
                let port = if port.is_empty() { port_of(history) } else { port };
                let frames = lost.entry((port, history.class.unwrap_or_default(), reason)).or_default();
                frames.entry(history.number).or_default()[side] = true;
            }
        }
    }
    let row = |((port, class, reason), frames): (Place<'_>, Frames)| {
        let (mut counted, mut more, mut apart) = ([0, 0], 0i64, 0);
        for (number, sides) in frames {
            let length = came.get(&number).map_or(longest, |frame| frame.bytes) as i64;
            for (side, sign) in [(0, 1), (1, -1)] {
                counted[side] += u64::from(sides[side]);
                more += if sides[side] { sign * length } else { 0 };
            }
            apart = apart.max(more.unsigned_abs());
        }
        let (port, reason) = (port.to_owned(), reason.to_owned());
        Losses { explained: explained(config, &port, longest), port, class, reason, frames: counted, apart }
    };
    lost.into_iter().map(row).collect()
}

/// A queue that was full at one depth in the capture and is at another one in the replay, or is full on one side alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherLimit {
    /// Its port.
    pub port: String,
    /// Its number.
    pub queue: u8,
    /// The deepest it was with a frame that it took, bytes, in the capture and in the replay.
    pub deepest: [u64; 2],
    /// Whether frames were lost there, in the capture and in the replay: without a loss it was never full, as deep as it was.
    pub full: [bool; 2],
}

impl fmt::Display for OtherLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, queue, deepest: [was, is], full } = self;
        match full {
            [true, true] => {
                write!(
                    f,
                    "queue {queue} of {port} has another limit: full it had {was} bytes, and {is} in the replay"
                )
            }
            [true, false] => write!(
                f,
                "queue {queue} of {port} was full with {was} bytes, and never in the replay, where it had {is} at most"
            ),
            [false, _] => write!(
                f,
                "queue {queue} of {port} was never full, with {was} bytes at most, and is in the replay, with {is}"
            ),
        }
    }
}

/// The first queue of those with `losses` that is not as deep on one side as on the other: as often as it is full it is as deep as its
/// limit allows, but for what frames differ in length.
pub fn other_limit(
    losses: &[Losses],
    sides: [&[FrameHistory]; 2],
    came: &BTreeMap<u64, Came>,
) -> Option<OtherLimit> {
    losses.iter().find_map(|Losses { port, class: [_, _, queue], .. }| {
        let of_queue = |h: &&FrameHistory| h.class.is_some_and(|[_, _, q]| q == *queue) && port_of(h) == port;
        let with_itself = |h: &FrameHistory| Some((h.depth?, came.get(&h.number)?.bytes));
        let [was, is] = sides.map(|side| {
            side.iter().filter(of_queue).filter_map(with_itself).map(|(depth, length)| depth + length).max()
        });
        let of_lengths =
            || sides.into_iter().flatten().filter(of_queue).filter_map(|h| Some(came.get(&h.number)?.bytes));
        let spread = of_lengths().max()? - of_lengths().min()?;
        let deepest = [was?, is?];
        let differs = deepest[0].abs_diff(deepest[1]) > spread;
        let here = |other: &&Losses| other.port == *port && other.class[2] == *queue;
        let full = [0, 1].map(|side| losses.iter().filter(here).any(|losses| losses.frames[side] > 0));
        differs.then(|| OtherLimit { port: port.clone(), queue: *queue, deepest, full })
    })
}
