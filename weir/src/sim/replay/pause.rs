//! Frames that bring their group to Xoff, or wait in its headroom, a little earlier or later than in the replay.
//!
//! A group is as full as frames have come and not yet left. A port of the replay sends at the instant it may; a running switch gives room back
//! when it has looked at the port, after the burst that came meanwhile was decided upon. So it is fuller as a burst comes, by up to what
//! its ports send between two looks, and the line is crossed by an earlier frame of the burst. That explains an Xoff for an Xoff, within those bytes of
//! its group; not one more or less, and no line that is further away.

use super::compare::Came;
use super::phase::{explained, longest};
use super::sides::port_of;
use std::collections::{BTreeMap, BTreeSet};
use weir_config::Config;
use weir_mgmt::admin::comment::FrameHistory;
use weir_mgmt::admin::verdict::{ADMITTED, INTO_HEADROOM, XOFF_REACHED};

/// A frame of a group.
struct Frame<'a> {
    number: u64,
    /// Bytes of the group that came before it.
    before: u64,
    /// What was decided of it, in the capture and in the replay.
    words: [&'a str; 2],
}

/// Frames of which either side alone says that they brought their group to Xoff, or waited in its headroom, where a difference of phase explains
/// that. `came`: each frame by its number.
pub fn shifted(config: &Config, sides: [&[FrameHistory]; 2], came: &BTreeMap<u64, Came>) -> BTreeSet<u64> {
    let now: BTreeMap<u64, &FrameHistory> =
        sides[1].iter().map(|history| (history.number, history)).collect();
    let mut groups: BTreeMap<u8, (BTreeSet<&str>, Vec<Frame<'_>>)> = BTreeMap::new();
    let mut in_order: Vec<&FrameHistory> = sides[0].iter().collect();
    in_order.sort_by_key(|history| came.get(&history.number).map(|came| (came.at, history.number)));
    for was in in_order {
        let (Some(is), Some([_, pg, _])) = (now.get(&was.number), was.class) else { continue };
        let words = [was.verdict.as_str(), is.verdict.as_str()];
        if !words.iter().all(|word| [ADMITTED, XOFF_REACHED, INTO_HEADROOM].contains(word)) {
            continue;
        }
        let (ports, frames) = groups.entry(pg).or_default();
        ports.insert(port_of(was));
        let last =
            frames.last().map_or(0, |last| last.before + came.get(&last.number).map_or(0, |c| c.bytes));
        frames.push(Frame { number: was.number, before: last, words });
    }
    let longest = longest(came);
    groups
        .into_values()
        .flat_map(|(ports, frames)| {
            let most = ports.into_iter().map(|port| explained(config, port, longest)).sum();
            of_group(&frames, most)
        })
        .collect()
}

/// Those of one group, whose two sides may be `most` bytes apart.
fn of_group(frames: &[Frame<'_>], most: u64) -> Vec<u64> {
    let is_near = |a: &Frame<'_>, b: &Frame<'_>| a.before.abs_diff(b.before) <= most;
    // Each Xoff has one of its own on the other side.
    let [was, is] =
        [0, 1].map(|side| frames.iter().filter(|f| f.words[side] == XOFF_REACHED).collect::<Vec<_>>());
    let mut paired = [BTreeSet::new(), BTreeSet::new()];
    let (mut was, mut is) = (was.into_iter().peekable(), is.into_iter().peekable());
    while let (Some(a), Some(b)) = (was.peek(), is.peek()) {
        if is_near(a, b) {
            paired[0].insert(a.number);
            paired[1].insert(b.number);
            was.next();
            is.next();
        } else if a.before < b.before {
            was.next();
        } else {
            is.next();
        }
    }
    let has = |at: usize, word: &str, side: usize| {
        let of = |f: &&Frame<'_>| f.words[side] == word;
        let near = |f: &&Frame<'_>| is_near(f, &frames[at]);
        frames[..at].iter().rev().take_while(near).any(|f| of(&f))
            || frames[at..].iter().take_while(near).any(|f| of(&f))
    };
    let explains = |at: usize| {
        let Frame { number, words, .. } = &frames[at];
        words[0] != words[1]
            && [0, 1].into_iter().all(|side| match words[side] {
                XOFF_REACHED => paired[side].contains(number),
                word => has(at, word, 1 - side),
            })
    };
    (0..frames.len()).filter(|at| explains(*at)).map(|at| frames[at].number).collect()
}
