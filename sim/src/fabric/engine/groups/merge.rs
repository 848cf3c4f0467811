//! A window is over: what all groups have asked for gets the numbers it would have if one had played everything.

use super::membership::{Membership, Message, Played};
use crate::event_queue::UNSETTLED;
use crate::fabric::engine::world::Fabric;
use crate::fabric::time::Ps;
use crate::fabric::timeline::TimelineRecorder;

/// What a group has played, up to the event that is looked at.
struct Reading {
    played: Vec<Played>,
    settled: Vec<u32>,
    at: usize,
    /// How many events were asked for in all.
    asked: u32,
}

impl Reading {
    /// Time and number of the event that is looked at; `None`: there is no more.
    fn key(&self, base: u64) -> Option<(Ps, u64)> {
        let played = self.played.get(self.at)?;
        // What asked for it was looked at before.
        let order = match played.order.checked_sub(UNSETTLED) {
            Some(nth) => base + u64::from(self.settled[nth as usize]),
            None => played.order,
        };
        Some((played.time, order))
    }
}

/// Numbers what was asked for from `order` on, as one queue would have: by the time and the number of what asked for it. Pauses are
/// listed in the same order.
pub(super) fn merge(groups: &mut [Fabric<'_>], order: &mut u64, timeline: &mut TimelineRecorder) {
    let base = *order;
    let mut readings: Vec<Reading> = groups
        .iter_mut()
        .filter_map(|group| {
            let asked = group.queue.asked();
            let membership = group.membership.as_mut()?;
            let (played, settled) =
                (std::mem::take(&mut membership.played), std::mem::take(&mut membership.settled));
            Some(Reading { played, settled, at: 0, asked })
        })
        .collect();
    // Groups by what they have played next, the first one last.
    let mut heads: Vec<((Ps, u64), usize)> = Vec::with_capacity(readings.len());
    let place = |heads: &mut Vec<((Ps, u64), usize)>, group: usize, key: Option<(Ps, u64)>| {
        if let Some(key) = key {
            // It is one of the next few, nearly always.
            let before = heads.iter().rposition(|(other, _)| *other > key).map_or(0, |at| at + 1);
            heads.insert(before, (key, group));
        }
    };
    readings.iter().enumerate().for_each(|(at, reading)| place(&mut heads, at, reading.key(base)));
    let mut next = 0;
    while let Some((_, first)) = heads.pop() {
        let others = heads.last().map_or((Ps::MAX, u64::MAX), |(key, _)| *key);
        let reading = &mut readings[first];
        // All of this group before what any other has played.
        let key = loop {
            let Played { asked, ended, .. } = reading.played[reading.at];
            reading.at += 1;
            let upto = reading.played.get(reading.at).map_or(reading.asked, |played| played.asked);
            reading.settled.extend(next..next + (upto - asked));
            next += upto - asked;
            if ended > 0 {
                groups[first].timeline.give_pauses(timeline, ended as usize);
            }
            let key = reading.key(base);
            if key.is_none_or(|key| key > others) {
                break key;
            }
        };
        place(&mut heads, first, key);
    }
    for (group, reading) in groups.iter_mut().zip(readings) {
        if let Some(membership) = &mut group.membership {
            (membership.played, membership.settled, membership.base) =
                (reading.played, reading.settled, base);
        }
    }
    *order += u64::from(next);
}

/// Hands every message to the group it is for.
pub(super) fn exchange(groups: &mut [Fabric<'_>]) {
    for from in 0..groups.len() {
        let Some(Membership { settled, base, outbox, .. }) = groups[from].membership.as_deref_mut() else {
            continue;
        };
        let (base, settled) = (*base, std::mem::take(settled));
        let mut outbox = std::mem::take(outbox);
        for (to, asked, message) in outbox.drain(..) {
            let order = match message {
                Message::Frame { .. } => base + u64::from(settled[asked as usize]),
                Message::Expect { .. } => 0,
            };
            if let Some(other) = &mut groups[usize::from(to)].membership {
                other.inbox.push((order, message));
            }
        }
        if let Some(membership) = &mut groups[from].membership {
            (membership.settled, membership.outbox) = (settled, outbox);
        }
    }
}
