//! Which queue of a port sends next: strict levels, and weighted groups within a level.
//!
//! A weighted group serves the queue with the smallest finish tag (start-time fair queueing:
//! a tag advances by `bytes / weight`, or by `1 / weight` per frame). The long-run shares are those
//! of DWRR and WRR, but no queue is ever more than one frame (of small ones: 64 bytes per unit of weight) away
//! from its share, no credit can be hoarded by an idle or paused queue, and weights need no quantum tuned to the MTU.

use super::shaper::Shaper;
use super::tournament::Tournament;
use crate::types::{Nanos, PRIORITIES};
use arrayvec::ArrayVec;

/// How a queue competes (SONiC SCHEDULER `type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Before every weighted queue; among strict queues of a level the higher index first (E5).
    Strict,
    /// Bytes in proportion to the weight, 1..=100.
    Dwrr(u8),
    /// Frames in proportion to the weight, 1..=100.
    Wrr(u8),
}

/// Scheduling of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSchedule {
    /// How it competes with queues of its level.
    pub discipline: Discipline,
    /// Levels are served from the highest to the lowest.
    pub level: u8,
    /// Guaranteed rate in bit/s: below it the queue goes before all others.
    pub cir: Option<u64>,
    /// Most it may send, bit/s.
    pub pir: Option<u64>,
}

impl QueueSchedule {
    /// Strict priority in the order of the queue index, no rates.
    pub const STRICT: QueueSchedule =
        QueueSchedule { discipline: Discipline::Strict, level: 0, cir: None, pir: None };
    /// What a frame of a queue with a weight by frames counts as beside those with weights by bytes, on the wire.
    pub const BYTES_OF_A_FRAME: u64 = 256;
}

/// Tags advance by `TAG_SCALE / weight` per byte (or per frame): exact to 6e-6 at weight 100.
const TAG_SCALE: u64 = 1 << 24;

/// Tags are compared as if they never came round, which holds while none is further behind its group than that. Weight 1
/// gets there with 2^38 bytes: a queue that is idle or paused beside a busy one of 100 Gb/s, in 22 s.
const REACH: u64 = 1 << 62;
/// Tags are looked at once in so many ns, in which a group does not get as far again.
const LOOK: Nanos = 100_000_000;

/// Frames that may go before one of a queue under its cir, where all guarantees together are no more than the line has: the one that is
/// on the line, and what each other queue under its cir may make up for, which is as many again for each of them (network calculus).
const FRAMES_BEFORE_CIR: u64 = 1 << (PRIORITIES - 1);
/// Those for which a queue makes up beyond its pir: one of each other queue. More would be a burst of its own.
const FRAMES_BEFORE_PIR: u64 = PRIORITIES as u64 - 1;

/// How far the tag of a queue moves, and how much it may send in one go.
#[derive(Clone, Copy, Debug)]
struct Weighted {
    per_byte: u64,
    per_frame: u64,
    turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    queues: u8,
    strict: bool,
    /// Tag of the frame last served: where a queue that wakes up starts.
    virtual_time: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    cir: Option<Shaper>,
    pir: Option<Shaper>,
}

/// The scheduler of one port.
#[derive(Clone, Debug)]
pub struct Scheduler {
    levels: ArrayVec<Level, { 2 * PRIORITIES }>,
    level_of: [u8; PRIORITIES],
    /// Finish tags.
    tags: [u64; PRIORITIES],
    weighted: [Weighted; PRIORITIES],
    /// The queues that were ready when a level was looked for, and the first one that has any of them.
    ready: u8,
    first_level: usize,
    /// Among queues of one level.
    tournament: Tournament,
    /// When tags are looked at, ns.
    look_at: Nanos,
    /// `None`: no queue has a rate.
    rates: Option<Box<[Rates; PRIORITIES]>>,
    /// The queues that had frames and might send them when a queue was picked last, those that have got their first frame since time
    /// passed last, and the longest frame sent, bytes on the wire.
    waiting: u8,
    woken: u8,
    longest: u64,
    /// The queues that were ready when the last one was picked because it was under its cir, whoever's turn it was; none if it was in its turn.
    passed_over: u8,
}

/// A scheduling decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePick {
    /// The queue to serve.
    pub queue: usize,
    /// It is served until it is empty or has sent this many wire bytes: one frame at least.
    pub wire_bytes: u64,
}

impl QueuePick {
    /// Nothing else can overtake the queue before it is empty.
    pub const ALONE: u64 = u64::MAX;
    /// What a queue with a weight by bytes may send in one go, per unit of its weight: small frames go
    /// together, which saves a decision for each, and every queue may be ahead by the same time.
    pub const TURN_PER_WEIGHT: u64 = 64;
    const ONE_FRAME: u64 = 0;
}

impl Scheduler {
    /// A scheduler for the eight queues of a port. `burst`: lateness its queue rates make up for, ns.
    pub fn new(queues: &[QueueSchedule; PRIORITIES], burst: Nanos) -> Self {
        let mut levels: ArrayVec<Level, { 2 * PRIORITIES }> = ArrayVec::new();
        let mut level_of = [0; PRIORITIES];
        let mut numbers: ArrayVec<u8, PRIORITIES> = queues.iter().map(|q| q.level).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let mut last = None;
        for number in numbers {
            if last.replace(number) == Some(number) {
                continue;
            }
            for strict in [true, false] {
                let members =
                    |q: &QueueSchedule| q.level == number && (q.discipline == Discipline::Strict) == strict;
                let mask = (0..PRIORITIES).filter(|i| members(&queues[*i])).fold(0, |m, i| m | 1 << i);
                if mask != 0 {
                    for (i, level) in level_of.iter_mut().enumerate() {
                        if mask >> i & 1 == 1 {
                            *level = levels.len() as u8;
                        }
                    }
                    levels.push(Level { queues: mask, strict, virtual_time: 0 });
                }
            }
        }
        let weighted = queues.map(|q| match q.discipline {
            Discipline::Strict => Weighted { per_byte: 0, per_frame: 0, turn: QueuePick::ONE_FRAME },
            Discipline::Dwrr(w) => Weighted {
                per_byte: TAG_SCALE / u64::from(w.max(1)),
                per_frame: 0,
                turn: QueuePick::TURN_PER_WEIGHT * u64::from(w),
            },
            Discipline::Wrr(w) => Weighted {
                per_byte: 0,
                per_frame: QueueSchedule::BYTES_OF_A_FRAME * TAG_SCALE / u64::from(w.max(1)),
                turn: QueuePick::ONE_FRAME,
            },
        });
        let shaper = |rate: Option<u64>| rate.map(|rate| Shaper::new(rate, burst));
        let rates = queues.map(|q| Rates { cir: shaper(q.cir), pir: shaper(q.pir) });
        let any_rate = rates.iter().any(|r| r.cir.is_some() || r.pir.is_some());
        let tournament = Tournament::default();
        Self {
            // Of no queues: there is no such level.
            first_level: levels.len(),
            ready: 0,
            levels,
            level_of,
            tags: [0; PRIORITIES],
            weighted,
            tournament,
            look_at: 0,
            rates: any_rate.then(|| Box::new(rates)),
            waiting: 0,
            woken: 0,
            longest: 0,
            passed_over: 0,
        }
    }

    /// Takes over another set of weights and rates while frames wait (E2): tags restart level, so
    /// the new shares hold from the next frame on.
    pub fn reconfigure(&mut self, queues: &[QueueSchedule; PRIORITIES], burst: Nanos) {
        *self = Self::new(queues, burst);
    }

    /// Time passes. Once per burst.
    #[inline(always)]
    pub fn refill(&mut self, now: Nanos) {
        if now >= self.look_at {
            self.look_at = now + LOOK;
            self.keep_in_reach();
        }
        if self.rates.is_some() {
            self.refill_rates(now);
        }
    }

    /// Who has sent nothing for long is behind its group as before, but not further than can be told.
    #[cold]
    fn keep_in_reach(&mut self) {
        self.tournament.forget();
        for (tag, level) in self.tags.iter_mut().zip(self.level_of) {
            let now = self.levels[usize::from(level)].virtual_time;
            let behind = now.wrapping_sub(*tag) as i64;
            if behind > REACH as i64 {
                *tag = now.wrapping_sub(REACH);
            }
        }
    }

    /// A queue that waits misses nothing of its rates while the line has frames of others; one that was idle or paused saves up nothing.
    #[cold]
    fn refill_rates(&mut self, now: Nanos) {
        let waited = self.waiting & !std::mem::take(&mut self.woken);
        let rates = self.rates.iter_mut().flat_map(|rates| rates.iter_mut());
        for (queue, Rates { cir, pir }) in rates.enumerate() {
            let longest = if waited >> queue & 1 == 1 { self.longest } else { 0 };
            for (shaper, frames) in [(cir, FRAMES_BEFORE_CIR), (pir, FRAMES_BEFORE_PIR)] {
                shaper.iter_mut().for_each(|shaper| shaper.refill_up_to(now, frames * longest));
            }
        }
    }

    /// A queue got its first frame: it joins its group at the group's present time, with no credit
    /// for the time it had nothing to send (E6).
    #[inline(always)]
    pub fn wake(&mut self, queue: usize) {
        self.woken |= 1 << queue;
        let now = self.levels[usize::from(self.level_of[queue])].virtual_time;
        let tag = &mut self.tags[queue];
        if (now.wrapping_sub(*tag) as i64) > 0 {
            *tag = now;
            self.tournament.forget();
        }
    }

    /// Some queue has a rate.
    #[inline(always)]
    pub fn has_rates(&self) -> bool {
        self.rates.is_some()
    }

    /// A frame comes to a port where nothing waits, and leaves it at once: [`Self::wake`], [`Self::refill`], [`Self::pick`] and
    /// [`Self::sent`]. Only if no queue has a rate.
    #[inline(always)]
    pub fn passes(&mut self, queue: usize, wire_bytes: u64, now: Nanos) {
        debug_assert!(!self.has_rates());
        self.wake(queue);
        self.refill(now);
        self.sent_in_turn(queue, 1, wire_bytes, wire_bytes);
    }

    /// The queue to serve among those whose bit is set in `ready`, if any may send now.
    #[inline(always)]
    pub fn pick(&mut self, ready: u8) -> Option<QueuePick> {
        match &self.rates {
            Some(rates) => {
                let (open, guaranteed) = Self::open(rates);
                self.waiting = ready;
                self.pick_rated(ready & open, ready & open & guaranteed)
            }
            None => self.pick_level(ready),
        }
    }

    #[inline(always)]
    fn pick_level(&mut self, ready: u8) -> Option<QueuePick> {
        if self.ready != ready {
            self.first_level = self.levels.iter().position(|level| level.queues & ready != 0)?;
            self.ready = ready;
        }
        let level = self.levels.get(self.first_level)?;
        let candidates = level.queues & ready;
        if level.strict || candidates.is_power_of_two() {
            return Some(QueuePick { queue: candidates.ilog2() as usize, wire_bytes: QueuePick::ALONE });
        }
        let queue = self.tournament.winner(candidates, &self.tags, level.virtual_time);
        Some(QueuePick { queue, wire_bytes: self.weighted[queue].turn })
    }

    /// Queues that are not over their pir, and queues under their cir.
    #[cold]
    fn open(rates: &[Rates; PRIORITIES]) -> (u8, u8) {
        let mask = |open: &dyn Fn(&Rates) -> bool| {
            rates.iter().enumerate().filter(|(_, r)| open(r)).fold(0u8, |m, (q, _)| m | 1 << q)
        };
        (mask(&|r| r.pir.is_none_or(|s| s.open())), mask(&|r| r.cir.is_some_and(|s| s.open())))
    }

    /// Queues over their pir are not ready; queues under their cir go first.
    #[cold]
    fn pick_rated(&mut self, ready: u8, guaranteed: u8) -> Option<QueuePick> {
        self.passed_over = if guaranteed != 0 { ready } else { 0 };
        let pick = self.pick_level(if guaranteed != 0 { guaranteed } else { ready })?;
        Some(QueuePick { wire_bytes: QueuePick::ONE_FRAME, ..pick })
    }

    /// Frames of this queue were sent, one or (as [`QueuePick::wire_bytes`] allows) several: `frames` of
    /// `wire_bytes` together. The group's time is what it was `behind` bytes ago.
    #[inline(always)]
    pub fn sent(&mut self, queue: usize, frames: u64, wire_bytes: u64, behind: u64) {
        if self.rates.is_some() {
            return self.sent_rated(queue, frames, wire_bytes, behind);
        }
        self.sent_in_turn(queue, frames, wire_bytes, behind);
    }

    #[inline(always)]
    fn sent_in_turn(&mut self, queue: usize, frames: u64, wire_bytes: u64, behind: u64) {
        let level = &mut self.levels[usize::from(self.level_of[queue])];
        if !level.strict {
            let (w, tag) = (&self.weighted[queue], &mut self.tags[queue]);
            // Only a queue that could not be served (paused, over its pir) is behind its group: it goes on from the
            // group's present time, with no credit for the time it had to wait (E6).
            if (level.virtual_time.wrapping_sub(*tag) as i64) > 0 {
                *tag = level.virtual_time;
            }
            *tag = tag.wrapping_add(w.per_byte * wire_bytes + w.per_frame * frames);
            level.virtual_time = tag.wrapping_sub(w.per_byte * behind + w.per_frame);
            self.tournament.moved(queue, *tag);
        }
    }

    #[cold]
    fn sent_rated(&mut self, queue: usize, frames: u64, wire_bytes: u64, behind: u64) {
        match self.passed_over {
            0 => self.sent_in_turn(queue, frames, wire_bytes, behind),
            ready => self.sent_out_of_turn(queue, frames, wire_bytes, ready),
        }
        self.longest = self.longest.max(wire_bytes / frames.max(1));
        let Some(Rates { cir, pir }) = self.rates.as_mut().map(|rates| &mut rates[queue]) else { return };
        for shaper in [cir, pir].into_iter().flatten() {
            shaper.pay(wire_bytes);
        }
    }

    /// A queue was served because of its cir. What it sent counts as its share, but makes it no debtor: it is never further ahead of
    /// its group than two such frames. The time of the group is that of whoever is last of those that are `ready`: theirs
    /// is not changed by what others are guaranteed.
    fn sent_out_of_turn(&mut self, queue: usize, frames: u64, wire_bytes: u64, ready: u8) {
        let level = &mut self.levels[usize::from(self.level_of[queue])];
        if level.strict {
            return;
        }
        let (w, now) = (&self.weighted[queue], level.virtual_time);
        let ahead = |tag: u64| (tag.wrapping_sub(now) as i64).max(0) as u64;
        let (cost, before) = (w.per_byte * wire_bytes + w.per_frame * frames, ahead(self.tags[queue]));
        self.tags[queue] = now.wrapping_add(if before > cost { before } else { before + cost });
        let last = crate::pfc::bits(ready & level.queues).map(|q| ahead(self.tags[q])).min();
        level.virtual_time = now.wrapping_add(last.unwrap_or(0));
        self.tournament.forget();
    }

    /// First instant at which one of the `ready` queues may send as far as its pir is concerned.
    pub fn open_at(&self, ready: u8) -> Option<Nanos> {
        let Some(rates) = &self.rates else { return (ready != 0).then_some(0) };
        crate::pfc::bits(ready).map(|q| rates[q].pir.map_or(0, |pir| pir.open_at())).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(discipline: Discipline, level: u8) -> QueueSchedule {
        QueueSchedule { discipline, level, cir: None, pir: None }
    }

    /// Serves `frames` frames from queues that always have frames of `sizes[q]` wire bytes.
    fn serve(s: &mut Scheduler, ready: u8, sizes: [u64; 8], frames: usize) -> ([u64; 8], [u64; 8]) {
        let (mut bytes, mut counts) = ([0; 8], [0; 8]);
        for _ in 0..frames {
            let q = s.pick(ready).unwrap().queue;
            s.sent(q, 1, sizes[q], sizes[q]);
            bytes[q] += sizes[q];
            counts[q] += 1;
        }
        (bytes, counts)
    }

    /// Each share is right to 1 % of itself, or to one frame of `unit` where that is more.
    fn assert_shares(got: [u64; 8], weights: [u8; 8], unit: [u64; 8]) {
        let total: u64 = got.iter().sum();
        let sum: u64 = weights.iter().map(|w| u64::from(*w)).sum();
        for q in 0..8 {
            let want = total * u64::from(weights[q]) / sum;
            assert!(got[q].abs_diff(want) <= unit[q].max(want / 100), "queue {q}: {} for {want}", got[q]);
        }
    }

    #[test]
    fn e1_dwrr_shares_bytes_by_weight() {
        let weights = [1, 2, 5, 10, 14, 15, 50, 100];
        let sizes = [9240, 84, 1538, 300, 4158, 88, 1426, 700];
        let mut s = Scheduler::new(&weights.map(|w| queue(Discipline::Dwrr(w), 0)), 0);
        let (bytes, _) = serve(&mut s, 0xff, sizes, 40_000);
        assert_shares(bytes, weights, sizes);
    }

    /// However long a queue was idle or paused beside busy ones: it has its share at once, neither more nor less.
    #[test]
    fn e6_tags_come_round_and_nobody_waits_for_it() {
        // 50 GB at a time and four busy queues: tags come round with every 88th.
        for (paused, times) in (1..20).flat_map(|n| [(false, 20 * n), (true, 20 * n)]) {
            let mut s = Scheduler::new(&[1; 8].map(|w| queue(Discipline::Dwrr(w), 0)), 0);
            let mut now = 0;
            for _ in 0..times {
                now += LOOK;
                s.refill(now);
                let q = s.pick(0b1111).unwrap().queue;
                s.sent(q, 1, 50_000_000_000, 50_000_000_000);
            }
            if !paused {
                s.wake(5);
            }
            let (bytes, _) = serve(&mut s, 0b10_0001, [1_000_000_000; 8], 400);
            assert!(bytes[5].abs_diff(bytes[0]) <= 51_000_000_000, "{times} {paused} {bytes:?}");
        }
    }

    #[test]
    fn e2_new_weights_hold_at_once() {
        let before = [14; 8];
        let after = [8, 8, 8, 30, 30, 8, 8, 8];
        let mut s = Scheduler::new(&before.map(|w| queue(Discipline::Dwrr(w), 0)), 0);
        serve(&mut s, 0xff, [1538; 8], 5001);
        s.reconfigure(&after.map(|w| queue(Discipline::Dwrr(w), 0)), 0);
        let (bytes, _) = serve(&mut s, 0xff, [1538; 8], 10_800);
        assert_shares(bytes, after, [1538; 8]);
    }

    #[test]
    fn e3_wrr_shares_frames_where_dwrr_shares_bytes() {
        let weights = [10, 20, 30, 40, 0, 0, 0, 0];
        let sizes = [9240, 84, 1538, 300, 84, 84, 84, 84];
        let mut s = Scheduler::new(&weights.map(|w| queue(Discipline::Wrr(w), 0)), 0);
        let (_, frames) = serve(&mut s, 0x0f, sizes, 10_000);
        assert_shares(frames, weights, [1; 8]);
    }

    #[test]
    fn e5_the_higher_strict_queue_starves_the_lower() {
        let mut s = Scheduler::new(&[QueueSchedule::STRICT; 8], 0);
        assert_eq!(s.pick(0b0010_0100).unwrap(), QueuePick { queue: 5, wire_bytes: QueuePick::ALONE });
        let (_, frames) = serve(&mut s, 0b0010_0100, [84; 8], 100);
        assert_eq!((frames[5], frames[2]), (100, 0));
        assert_eq!(s.pick(0), None);
    }

    #[test]
    fn e4_strict_goes_before_weighted_and_levels_before_both() {
        let mut queues = [queue(Discipline::Dwrr(10), 0); 8];
        queues[6] = QueueSchedule::STRICT;
        queues[1] = queue(Discipline::Dwrr(1), 3);
        let mut s = Scheduler::new(&queues, 0);
        assert_eq!(s.pick(0xff).unwrap().queue, 1);
        assert_eq!(s.pick(0xfd).unwrap().queue, 6);
        assert!(s.pick(0b1011_1101).unwrap().wire_bytes < QueuePick::ALONE);
    }

    #[test]
    fn e6_an_idle_queue_hoards_nothing() {
        let mut s = Scheduler::new(&[queue(Discipline::Dwrr(10), 0); 8], 0);
        serve(&mut s, 0b01, [1000; 8], 1000);
        s.wake(1);
        let (bytes, _) = serve(&mut s, 0b11, [1000; 8], 100);
        assert!(bytes[0].abs_diff(bytes[1]) <= 1000, "{bytes:?}");
    }

    #[test]
    fn e6_a_paused_queue_hoards_nothing() {
        let mut s = Scheduler::new(&[queue(Discipline::Dwrr(10), 0); 8], 0);
        serve(&mut s, 0b11, [1000; 8], 10);
        serve(&mut s, 0b01, [1000; 8], 1000);
        let (bytes, _) = serve(&mut s, 0b11, [1000; 8], 100);
        assert!(bytes[0].abs_diff(bytes[1]) <= 2000, "{bytes:?}");
    }

    /// Shares of a line of 100 Mbit/s, in thousandths, of queues that always have frames of `sizes[q]` wire bytes.
    fn shares(queues: &[(u8, u64)], sizes: &[u64]) -> Vec<u64> {
        let mut all = [QueueSchedule::STRICT; 8];
        for (q, (weight, cir)) in all.iter_mut().zip(queues) {
            *q = QueueSchedule {
                cir: (*cir > 0).then_some(cir * 1_000_000),
                ..queue(Discipline::Dwrr(*weight), 0)
            };
        }
        let mut s = Scheduler::new(&all, 1_000_000);
        let (mut sent, mut now) = ([0; 8], 0);
        for _ in 0..60_000 {
            s.refill(now);
            let q = s.pick((1 << queues.len()) - 1).unwrap().queue;
            s.sent(q, 1, sizes[q], sizes[q]);
            sent[q] += sizes[q];
            now += sizes[q] * 80;
        }
        let total: u64 = sent.iter().sum();
        sent[..queues.len()].iter().map(|bytes| (bytes * 1000 + total / 2) / total).collect()
    }

    #[test]
    fn e7_a_cir_leaves_the_rest_to_the_weights_of_others() {
        /// Weight and cir of each queue, Mbit/s, and the shares there should be.
        type Case = (&'static [(u8, u64)], &'static [u64]);
        let cases: [Case; 11] = [
            (&[(50, 0), (1, 10), (50, 0)], &[450, 100, 450]),
            (&[(50, 0), (1, 30), (50, 0)], &[350, 300, 350]),
            (&[(50, 0), (1, 30), (20, 0)], &[500, 300, 200]),
            (&[(80, 0), (1, 5), (20, 0)], &[760, 50, 190]),
            (&[(80, 0), (1, 20), (20, 0)], &[640, 200, 160]),
            (&[(80, 0), (1, 60), (20, 0)], &[320, 600, 80]),
            (&[(20, 0), (1, 20), (80, 0)], &[160, 200, 640]),
            (&[(60, 0), (1, 20), (1, 10), (30, 0)], &[467, 200, 100, 233]),
            // What a guarantee gives counts as share.
            (&[(25, 0), (50, 20), (25, 0)], &[250, 500, 250]),
            (&[(60, 0), (20, 10), (20, 0)], &[600, 200, 200]),
            // More is guaranteed than there is: weights say who gets it.
            (&[(30, 80), (10, 80)], &[750, 250]),
        ];
        for (queues, want) in cases {
            for sizes in [[1024; 4], [1538, 224, 324, 84]] {
                let got = shares(queues, &sizes);
                let near = got.iter().zip(want).all(|(got, want)| got.abs_diff(*want) <= 8);
                assert!(near, "{queues:?} {sizes:?}: {got:?} for {want:?}");
            }
        }
    }

    #[test]
    fn e7_pir_caps_a_queue_and_cir_goes_first() {
        let mut queues = [QueueSchedule::STRICT; 8];
        queues[7].pir = Some(1_000_000_000);
        queues[0].cir = Some(2_000_000_000);
        let mut s = Scheduler::new(&queues, 0);
        let mut sent = [0u64; 8];
        for now in (0..1_000_000).step_by(100) {
            s.refill(now);
            if let Some(pick) = s.pick(0b1000_0011) {
                s.sent(pick.queue, 1, 125, 125);
                sent[pick.queue] += 1;
            }
        }
        // 10 Gb/s of slots for 1 ms: queue 7 at most 1 Gb/s, queue 0 at least 2, queue 1 the rest.
        assert_eq!(sent.iter().sum::<u64>(), 10_000);
        assert!(sent[7].abs_diff(1000) <= 10 && sent[0].abs_diff(2000) <= 20, "{sent:?}");
        assert_eq!(s.open_at(0b1000_0000).map(|at| at > 999_000), Some(true));
    }

    /// Gb/s of queues with frames of these sizes on the wire that always wait for a line of 100 Gb/s, which is asked when it is free.
    fn on_a_line(queues: &[QueueSchedule], sizes: &[u64]) -> Vec<f64> {
        let mut all = [QueueSchedule::STRICT; 8];
        all[..queues.len()].copy_from_slice(queues);
        let (mut s, ready) = (Scheduler::new(&all, 0), ((1u16 << queues.len()) - 1) as u8);
        (0..queues.len()).for_each(|queue| s.wake(queue));
        // Bits that the line could have sent: a hundred in each ns.
        let (mut line, mut sent) = (0u64, vec![0; queues.len()]);
        while line < 1_000_000_000 {
            s.refill(line.div_ceil(100));
            match s.pick(ready) {
                Some(QueuePick { queue, .. }) => {
                    s.sent(queue, 1, sizes[queue], sizes[queue]);
                    sent[queue] += sizes[queue];
                    line += sizes[queue] * 8;
                }
                None => line = s.open_at(ready).unwrap() * 100,
            }
        }
        sent.into_iter().map(|bytes| bytes as f64 * 800.0 / line as f64).collect()
    }

    #[test]
    fn e7_rates_are_kept_however_long_a_frame_of_others_takes() {
        let (strict, dwrr) = (QueueSchedule::STRICT, |weight| queue(Discipline::Dwrr(weight), 0));
        let rate = |gbps: u64| Some(gbps * 1_000_000_000);
        for sizes in [[4202, 4202], [206, 4202], [4202, 206], [1038, 9240]] {
            // A guarantee, two limits in one way and the other, two limits on a line that is not full.
            let cases = [
                ([QueueSchedule { cir: rate(30), ..dwrr(1) }, dwrr(99)], [30.0, 70.0]),
                ([QueueSchedule { pir: rate(30), level: 1, ..strict }, dwrr(1)], [30.0, 70.0]),
                ([QueueSchedule { pir: rate(45), ..dwrr(50) }, dwrr(50)], [45.0, 55.0]),
                (
                    [QueueSchedule { pir: rate(60), ..dwrr(1) }, QueueSchedule { pir: rate(30), ..dwrr(1) }],
                    [60.0, 30.0],
                ),
            ];
            for (queues, want) in cases {
                let got = on_a_line(&queues, &sizes);
                let near = got.iter().zip(want).all(|(got, want)| (got - want).abs() < want / 200.0);
                assert!(near, "{queues:?} {sizes:?}: {got:?} for {want:?}");
            }
        }
    }

    /// Several guarantees of one line, whichever frames go one after the other, and in any order of levels.
    #[test]
    fn e7_every_cir_holds_beside_others() {
        let mut next = 1u64;
        let mut random = |below: u64| {
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (next >> 33) % below
        };
        for _ in 0..60 {
            let count = 2 + random(6) as usize;
            let parts: Vec<u64> = (0..count).map(|_| 1 + random(60)).collect();
            let sum: u64 = parts.iter().sum();
            let mut queues: Vec<QueueSchedule> = parts
                .iter()
                .map(|part| {
                    let cir = Some(part * 99_000_000_000 / sum);
                    let discipline = if random(2) == 0 {
                        Discipline::Strict
                    } else {
                        Discipline::Dwrr(1 + random(99) as u8)
                    };
                    QueueSchedule { cir, ..queue(discipline, random(3) as u8) }
                })
                .collect();
            // Before them all, with no guarantee: it has what they leave.
            queues.push(queue(Discipline::Strict, 7));
            let got = on_a_line(&queues, &[4082; 8]);
            for (queue, got) in queues.iter().zip(&got) {
                let cir = queue.cir.unwrap_or(1_000_000_000) as f64 / 1e9;
                assert!((got - cir).abs() < 0.03 + cir / 500.0, "{queues:?}: {got:?} Gb/s");
            }
        }
    }

    /// One frame of each other queue may go before one that is under its pir.
    #[test]
    fn e7_every_pir_is_reached_beside_others() {
        let pir =
            |gbps: u64| QueueSchedule { pir: Some(gbps * 1_000_000_000), ..queue(Discipline::Dwrr(1), 0) };
        for limits in [&[80, 9, 9][..], &[40, 20, 20, 10], &[30, 12, 11, 10, 9, 9, 8, 7]] {
            let queues: Vec<QueueSchedule> = limits.iter().map(|gbps| pir(*gbps)).collect();
            let got = on_a_line(&queues, &[4082; 8]);
            let near =
                got.iter().zip(limits).all(|(got, want)| (got - *want as f64).abs() < *want as f64 / 200.0);
            assert!(near, "{limits:?}: {got:?} Gb/s");
        }
    }

    /// Who had nothing to send has no more than one frame at once, however long that was.
    #[test]
    fn e7_an_idle_queue_saves_nothing_up() {
        let mut queues = [QueueSchedule::STRICT; 8];
        queues[0].pir = Some(1_000_000_000);
        let mut s = Scheduler::new(&queues, 0);
        for now in [0, 1_000_000, 2_000_000] {
            // Others go on in between.
            s.refill(now);
            s.sent(7, 1, 9240, 9240);
            s.refill(now + 500_000);
            s.wake(0);
            s.refill(now + 500_001);
            assert_eq!(s.pick(1).map(|pick| pick.queue), Some(0));
            s.sent(0, 1, 125, 125);
            assert_eq!((s.pick(1), s.open_at(1)), (None, Some(now + 501_000)));
        }
    }

    #[test]
    fn tags_survive_wrapping() {
        let mut s = Scheduler::new(&[queue(Discipline::Dwrr(1), 0); 8], 0);
        let near_the_end = u64::MAX - 5000 * TAG_SCALE;
        s.tags = [near_the_end; PRIORITIES];
        s.levels.iter_mut().for_each(|level| level.virtual_time = near_the_end);
        let (bytes, _) = serve(&mut s, 0b11, [1500; 8], 1000);
        assert_eq!(bytes[0], bytes[1]);
    }
}
