//! What happens when: depths, rates and pauses over a run of unknown length, in bounded memory.

use super::buckets::Buckets;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use weir_dataplane::types::Nanos;

/// Buckets a lane is kept in at most. A longer run makes them wider.
const BUCKETS: usize = 512;
/// Buckets are 2^this nanoseconds wide at the start.
const FIRST_SHIFT: u32 = 7;
/// Pauses that are kept.
const MAX_PAUSES: usize = 4096;
/// A port whose queues never held this part of what the longest did is not shown.
const SHOWN_PART: u64 = 50;
/// A rate is taken over so many bytes in the mean: a dozen frames.
const BYTES_PER_RATE: u64 = 16_000;
/// Values of a rate that are left at least, if there were so many.
const FEWEST_RATES: usize = 64;
/// Ports that are shown: those whose queues grew longest.
const MAX_DEPTHS: usize = 12;
/// Flows or hosts whose rates are shown.
pub(super) const MAX_RATES: usize = 16;

/// The course of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Time from one value of a series to the next, ns; the first value is of the time from 0.
    pub period_ns: Nanos,
    /// Longest queue of a port within each period, bytes; the ports with the longest queues.
    pub depths: Vec<Series>,
    /// The same of any port of all; empty: nothing ever waited.
    pub depth_max: Vec<u64>,
    /// The period of `rates`, ns: long enough for several frames.
    pub rate_period_ns: Nanos,
    /// Payload delivered in order within each period, bit/s: of each flow if they are few, else of the
    /// hosts that received most.
    pub rates: Vec<Series>,
    /// When a port held its peer back, in the order of their beginnings.
    pub pauses: Vec<Pause>,
    /// Pauses that are not listed because there were too many.
    pub pauses_left_out: u64,
}

/// One value per period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Of what.
    pub name: String,
    /// The values.
    pub values: Vec<u64>,
}

/// A port held its peer back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    /// The switch, or a host whose memory filled.
    pub node: String,
    /// Its port.
    pub port: usize,
    /// Who was held back.
    pub peer: String,
    /// The priority.
    pub priority: u8,
    /// First pause frame, ns.
    pub from_ns: Nanos,
    /// Resume frame, or the end of the run, ns.
    pub to_ns: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The largest value of a bucket; the last one lasts on.
    Peak,
    /// The sum of a bucket.
    Sum,
}

impl Kind {
    /// The value of two buckets that become one.
    fn together(self, a: u64, b: u64) -> u64 {
        match self {
            Self::Peak => a.max(b),
            Self::Sum => a + b,
        }
    }
}

#[derive(Clone, Debug)]
struct BucketSeries {
    kind: Kind,
    last: u64,
    /// The bucket that is being added to, which knows nothing of it until it is closed, and what it has come to. It is that of the
    /// last value nearly always, and not fetched for each.
    open: Range<Nanos>,
    value: u64,
    buckets: Buckets,
}

/// Series of equal buckets. When one would need more than there may be, all become twice as wide.
#[derive(Clone, Debug)]
struct BucketSeriesSet {
    /// A bucket is 2^this nanoseconds wide.
    shift: u32,
    /// The first so many lanes are of peaks, the others of sums.
    peaks: usize,
    /// `None`: nothing was noted.
    lanes: Vec<Option<Box<BucketSeries>>>,
}

impl BucketSeriesSet {
    fn new(shift: u32, peaks: usize, sums: usize) -> Self {
        Self { shift, peaks, lanes: vec![None; peaks + sums] }
    }

    /// Those of which something was noted.
    fn iter_mut(&mut self) -> impl Iterator<Item = &mut BucketSeries> {
        self.lanes.iter_mut().flatten().map(Box::as_mut)
    }

    #[inline]
    fn bucket(&mut self, now: Nanos) -> usize {
        while now >> self.shift >= BUCKETS as u64 {
            self.widen();
        }
        (now >> self.shift) as usize
    }

    #[cold]
    fn widen(&mut self) {
        self.close();
        self.shift += 1;
        self.iter_mut().for_each(BucketSeries::fold);
    }

    /// Changes the series of a lane, with the bucket of `now` open.
    #[inline]
    fn change(&mut self, lane: usize, now: Nanos, change: impl FnOnce(&mut BucketSeries)) {
        match &mut self.lanes[lane] {
            Some(lane) if lane.open.contains(&now) => change(lane),
            _ => change(self.open(lane, now)),
        }
    }

    /// A peak is `most` now, and lasts on as `last`.
    #[inline]
    fn note(&mut self, lane: usize, now: Nanos, [most, last]: [u64; 2]) {
        debug_assert!(lane < self.peaks);
        self.change(lane, now, |lane| (lane.value, lane.last) = (lane.value.max(most), last));
    }

    /// So much more of a sum.
    #[inline]
    fn add(&mut self, lane: usize, now: Nanos, value: u64) {
        debug_assert!(lane >= self.peaks);
        self.change(lane, now, |lane| lane.value += value);
    }

    /// Opens the bucket of `now` of a lane.
    #[inline(never)]
    fn open(&mut self, lane: usize, now: Nanos) -> &mut BucketSeries {
        let at = self.bucket(now);
        let (kind, shift) = (if lane < self.peaks { Kind::Peak } else { Kind::Sum }, self.shift);
        let lane = self.lanes[lane].get_or_insert_with(|| Box::new(BucketSeries::new(kind)));
        lane.close(shift);
        lane.reach(at);
        lane.value = lane.buckets.get(at);
        lane.open = (at as u64) << shift..(at as u64 + 1) << shift;
        lane
    }

    /// All buckets are as they should be.
    fn close(&mut self) {
        let shift = self.shift;
        self.iter_mut().for_each(|lane| lane.close(shift));
    }
}

impl BucketSeries {
    fn new(kind: Kind) -> Self {
        Self { kind, last: 0, open: 0..0, value: 0, buckets: Buckets::default() }
    }

    fn close(&mut self, shift: u32) {
        let open = std::mem::replace(&mut self.open, 0..0);
        if !open.is_empty() {
            self.buckets.set((open.start >> shift) as usize, self.value);
        }
    }

    fn reach(&mut self, at: usize) {
        if self.buckets.len() <= at {
            let fill = if self.kind == Kind::Peak { self.last } else { 0 };
            self.buckets.grow(at + 1, fill);
        }
    }

    fn fold(&mut self) {
        self.buckets.halve(|a, b| self.kind.together(a, b));
    }

    /// Takes over what another one has recorded of the same, which is a sum.
    fn join(&mut self, other: &Self) {
        self.reach(other.buckets.len().saturating_sub(1));
        let sums = other.buckets.iter().enumerate();
        sums.for_each(|(at, sum)| self.buckets.set(at, self.buckets.get(at) + sum));
    }

    fn total(&self) -> u64 {
        self.buckets.iter().reduce(|a, b| self.kind.together(a, b)).unwrap_or(0)
    }
}

/// A port of a switch, in words.
#[derive(Clone, Debug)]
pub(super) struct PortName {
    pub node: String,
    pub port: usize,
    pub peer: String,
}

/// Writes a [`Timeline`] while a run goes on.
#[derive(Clone, Debug)]
pub(super) struct TimelineRecorder {
    ports: Arc<[PortName]>,
    rates: Arc<[String]>,
    /// Ports first, then rates.
    lanes: BucketSeriesSet,
    /// Since when a port holds back a priority.
    open: BTreeMap<(u32, u8), Nanos>,
    pauses: Vec<Pause>,
    left_out: u64,
    /// Bytes of payload that arrived.
    bytes: u64,
}

impl TimelineRecorder {
    /// For these ports and these flows or hosts.
    pub fn new(ports: Vec<PortName>, rates: Vec<String>) -> Self {
        Self {
            lanes: BucketSeriesSet::new(FIRST_SHIFT, ports.len(), rates.len()),
            open: BTreeMap::new(),
            ports: ports.into(),
            rates: rates.into(),
            pauses: Vec::new(),
            left_out: 0,
            bytes: 0,
        }
    }

    /// Bytes that wait for `port` from now on.
    #[inline]
    pub fn depth(&mut self, port: usize, now: Nanos, bytes: u64) {
        self.depths(port, now, [bytes; 2]);
    }

    /// Bytes that wait for `port` now, and no more that do from now on.
    #[inline]
    pub fn depths(&mut self, port: usize, now: Nanos, depths: [u64; 2]) {
        self.lanes.note(port, now, depths);
    }

    /// `bytes` of payload arrived.
    #[inline]
    pub fn delivered(&mut self, rate: usize, now: Nanos, bytes: u64) {
        let lane = self.ports.len() + rate;
        self.bytes += bytes;
        self.lanes.add(lane, now, bytes);
    }

    /// Bytes of payload that arrived, since a [`Self::split`] if this is a part.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// `bytes` of payload arrived, evenly from one time to a later one.
    pub fn delivered_evenly(&mut self, rate: usize, from: Nanos, to: Nanos, bytes: u64) {
        let lane = self.ports.len() + rate;
        // The buckets are as wide as they need to be to reach the end.
        self.lanes.add(lane, to, 0);
        let (shift, span) = (self.lanes.shift, u128::from((to - from).max(1)));
        let until = |now: Nanos| (u128::from(bytes) * u128::from(now - from) / span) as u64;
        let mut now = from;
        while now < to {
            let next = (((now >> shift) + 1) << shift).min(to);
            self.lanes.add(lane, now, until(next) - until(now));
            now = next;
        }
    }

    /// `port` sends a PFC frame: pause, or resume. Says how many more pauses there are now.
    pub fn pfc(&mut self, port: usize, priority: usize, now: Nanos, pause: bool) -> i8 {
        let key = (port as u32, priority as u8);
        if pause {
            let entry = self.open.entry(key);
            let is_new = matches!(entry, Entry::Vacant(_));
            entry.or_insert(now);
            return i8::from(is_new);
        }
        let Some(from) = self.open.remove(&key) else { return 0 };
        self.close(key, from, now);
        -1
    }

    fn close(&mut self, held: (u32, u8), from: Nanos, to: Nanos) {
        if self.has_room() {
            self.list(held, from, to);
        }
    }

    /// Whether one more pause is listed; counts it if not.
    fn has_room(&mut self) -> bool {
        let room = self.pauses.len() < MAX_PAUSES;
        self.left_out += u64::from(!room);
        room
    }

    /// A host held its switch back, so often, and more times than are told of. Of what has room, what lasts to the end of the run at
    /// `end` has it always.
    pub fn host_pauses(&mut self, pauses: impl Iterator<Item = Pause>, more: u64, end: Nanos) {
        for pause in pauses {
            if pause.to_ns == end || self.has_room() {
                self.pauses.push(pause);
            }
        }
        self.left_out += more;
    }

    fn list(&mut self, (port, priority): (u32, u8), from: Nanos, to: Nanos) {
        let PortName { node, port, peer } = self.ports[port as usize].clone();
        self.pauses.push(Pause { node, port, peer, priority, from_ns: from, to_ns: to });
    }

    /// A recorder for what happens at those ports and those receivers of rates that are `mine`: until [`Self::join`] this one has
    /// nothing of them.
    pub fn split(&mut self, ports_of: impl Fn(usize) -> bool, rates_of: impl Fn(usize) -> bool) -> Self {
        let (ports, rates) = (self.ports.len(), self.rates.len());
        let mut lanes = BucketSeriesSet::new(self.lanes.shift, ports, rates);
        for (at, (own, other)) in self.lanes.lanes.iter_mut().zip(&mut lanes.lanes).enumerate() {
            if at.checked_sub(ports).map_or_else(|| ports_of(at), &rates_of) {
                *other = own.take();
            }
        }
        let all = std::mem::take(&mut self.open).into_iter();
        let (open, rest) = all.partition(|((port, _), _)| ports_of(*port as usize));
        self.open = rest;
        let (ports, rates) = (Arc::clone(&self.ports), Arc::clone(&self.rates));
        Self { ports, rates, lanes, open, pauses: Vec::new(), left_out: 0, bytes: 0 }
    }

    /// Pauses that have ended, since a [`Self::split`] or since they were taken.
    pub fn ended(&self) -> usize {
        self.pauses.len() + self.left_out as usize
    }

    /// Hands the next `count` pauses that have ended to `whole`.
    pub fn give_pauses(&mut self, whole: &mut Self, count: usize) {
        let listed = count.min(self.pauses.len());
        for pause in self.pauses.drain(..listed) {
            if whole.has_room() {
                whole.pauses.push(pause);
            }
        }
        // What this one had no room for comes after as much as the whole has room for.
        let left_out = (count - listed) as u64;
        (self.left_out, whole.left_out) = (self.left_out - left_out, whole.left_out + left_out);
    }

    /// Takes back what a [`Self::split`] made, without the pauses that have ended.
    pub fn join(&mut self, mut part: Self) {
        let shift = self.lanes.shift.max(part.lanes.shift);
        for set in [&mut self.lanes, &mut part.lanes] {
            set.close();
            while set.shift < shift {
                set.widen();
            }
        }
        for (lane, part) in self.lanes.lanes.iter_mut().zip(part.lanes.lanes) {
            match (lane.as_mut(), part) {
                (Some(lane), Some(part)) => lane.join(&part),
                (None, part) => *lane = part,
                (Some(_), None) => {}
            }
        }
        self.open.append(&mut part.open);
        self.bytes += part.bytes;
    }

    /// The timeline of a run that ended at `end`.
    pub fn finish(mut self, end: Nanos) -> Timeline {
        // What lasts to the end is what matters most.
        for (held, from) in std::mem::take(&mut self.open) {
            self.list(held, from, end);
        }
        self.pauses.sort_by(|a, b| {
            (a.from_ns, a.to_ns, &a.node, a.port).cmp(&(b.from_ns, b.to_ns, &b.node, b.port))
        });
        let last = self.lanes.bucket(end);
        self.lanes.close();
        self.lanes.iter_mut().for_each(|lane| lane.reach(last));
        let period_ns = 1 << self.lanes.shift;
        let ports = self.ports.len();
        let (queues, rates) = self.lanes.lanes.split_at(ports);
        let longest = queues.iter().flatten().map(|queue| queue.total()).max().unwrap_or(0);
        let depth_max = |at| queues.iter().flatten().map(|queue| queue.buckets.get(at)).max().unwrap_or(0);
        let depth_max = if longest > 0 { (0..=last).map(depth_max).collect() } else { Vec::new() };
        let queues = largest(queues, MAX_DEPTHS).into_iter();
        let shown = queues.filter(|(_, queue)| queue.total() > longest / SHOWN_PART);
        let depths = shown.map(|(i, queue)| {
            let PortName { node, port, peer } = &self.ports[i];
            Series {
                name: format!("{node} port {port} \u{2192} {peer}"),
                values: queue.buckets.iter().collect(),
            }
        });
        let (rate_period_ns, rates) = rates_of(rates, &self.rates, period_ns, end);
        Timeline {
            period_ns,
            depths: depths.collect(),
            depth_max,
            rate_period_ns,
            rates,
            pauses: self.pauses,
            pauses_left_out: self.left_out,
        }
    }
}

/// The lanes with the largest totals, if they are above 0, with their numbers.
fn largest(lanes: &[Option<Box<BucketSeries>>], most: usize) -> Vec<(usize, &BucketSeries)> {
    let noted = lanes.iter().enumerate().filter_map(|(i, lane)| Some((i, &**lane.as_ref()?)));
    let mut order: Vec<_> = noted.filter(|(_, lane)| lane.total() > 0).collect();
    order.sort_by_key(|(_, lane)| std::cmp::Reverse(lane.total()));
    order.truncate(most);
    order
}

/// Bytes per bucket as rates over as many buckets as make them steady.
fn rates_of(
    lanes: &[Option<Box<BucketSeries>>],
    names: &[String],
    period: Nanos,
    end: Nanos,
) -> (Nanos, Vec<Series>) {
    let mut chosen = largest(lanes, MAX_RATES);
    chosen.sort_unstable_by_key(|(i, _)| *i);
    let (bytes, buckets) = chosen.iter().fold((0, 0), |(bytes, buckets), (_, lane)| {
        let first = lane.buckets.iter().position(|b| b > 0).unwrap_or(0);
        let last = lane.buckets.iter().rposition(|b| b > 0).unwrap_or(0);
        (bytes + lane.total(), buckets + (last + 1 - first) as u64)
    });
    let all = chosen.first().map_or(1, |(_, lane)| lane.buckets.len());
    let mut width = 1;
    while bytes * width < BYTES_PER_RATE * buckets && all as u64 / width > FEWEST_RATES as u64 {
        width *= 2;
    }
    let wide = period * width;
    let rate = |(k, sum): (usize, u64)| {
        // The last one may be cut short by the end of the run.
        let span = wide.min(end.saturating_sub(k as u64 * wide)).max(1);
        (u128::from(sum) * 8_000_000_000 / u128::from(span)) as u64
    };
    let series = chosen.into_iter().map(|(i, lane)| {
        let all: Vec<u64> = lane.buckets.iter().collect();
        let mut sums: Vec<u64> = all.chunks(width as usize).map(|c| c.iter().sum()).collect();
        // A short rest says nothing about a rate.
        if sums.len() > 1 && end.saturating_sub((sums.len() as u64 - 1) * wide) < wide / 2 {
            sums.pop();
        }
        Series { name: names[i].clone(), values: sums.into_iter().enumerate().map(rate).collect() }
    });
    (wide, series.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline() -> TimelineRecorder {
        let port = |i: usize| PortName { node: "s0".into(), port: i, peer: format!("h{i}") };
        TimelineRecorder::new(vec![port(0), port(1)], vec!["a".into()])
    }

    #[test]
    fn buckets_grow_and_keep_peaks_and_sums() {
        let mut timeline = timeline();
        // 512 buckets of 128 ns would be too few, so they are 256 ns wide in the end.
        for i in 0..1000u64 {
            timeline.depth(1, i * 128, i % 10);
            timeline.delivered(0, i * 128, 32);
        }
        let t = timeline.finish(128_000);
        assert_eq!(t.period_ns, 256);
        assert_eq!(t.depths.len(), 1, "a port without a queue is not shown");
        // What waits when a bucket begins counts in it: the 9 of the bucket before, once.
        assert_eq!(t.depths[0].values[..7], [1, 3, 5, 7, 9, 9, 3]);
        // 32 bytes in 128 ns are 2 Gbit/s; so few bytes are taken together.
        assert_eq!((t.rate_period_ns, t.rates[0].values.len()), (2048, 63));
        assert!(t.rates[0].values.iter().all(|r| *r == 2_000_000_000), "{:?}", t.rates);
    }

    #[test]
    fn a_depth_lasts_until_it_changes() {
        let mut timeline = timeline();
        timeline.depth(0, 150, 7);
        timeline.depth(0, 550, 3);
        assert_eq!(timeline.finish(800).depths[0].values, [0, 7, 7, 7, 7, 3, 3]);
    }

    #[test]
    fn the_longest_queue_is_that_of_any_port() {
        let port = |i: usize| PortName { node: "s0".into(), port: i, peer: format!("h{i}") };
        let mut timeline = TimelineRecorder::new((0..20).map(port).collect(), Vec::new());
        (0..16).for_each(|long| timeline.depth(long, 0, 1000));
        (0..16).for_each(|long| timeline.depth(long, 128, 0));
        // Neither is among those that are shown: others had more, and it had too little.
        timeline.depth(16, 260, 900);
        timeline.depth(16, 390, 0);
        timeline.depth(17, 520, 9);
        let t = timeline.finish(600);
        assert_eq!((t.depths.len(), t.depth_max), (MAX_DEPTHS, vec![1000, 1000, 900, 900, 9]));
        assert!(TimelineRecorder::new(vec![port(0)], Vec::new()).finish(600).depth_max.is_empty());
    }

    #[test]
    fn pauses_last_from_the_first_pause_to_the_resume() {
        let mut timeline = timeline();
        timeline.pfc(1, 3, 10, true);
        timeline.pfc(1, 3, 20, true);
        timeline.pfc(0, 3, 30, false);
        timeline.pfc(1, 3, 40, false);
        timeline.pfc(1, 4, 50, true);
        let pauses = timeline.finish(60).pauses;
        let spans: Vec<_> = pauses.iter().map(|p| (p.port, p.priority, p.from_ns, p.to_ns)).collect();
        assert_eq!(spans, [(1, 3, 10, 40), (1, 4, 50, 60)]);
    }

    #[test]
    fn too_many_pauses_are_counted() {
        let mut timeline = timeline();
        for i in 0..MAX_PAUSES as u64 + 5 {
            timeline.pfc(0, 3, 2 * i, true);
            timeline.pfc(0, 3, 2 * i + 1, false);
        }
        let t = timeline.finish(100_000);
        assert_eq!((t.pauses.len(), t.pauses_left_out), (MAX_PAUSES, 5));
    }
}
