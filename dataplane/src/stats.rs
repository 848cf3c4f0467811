//! Single-writer counters, and how a reader on another thread gets a consistent copy of them.
//!
//! A worker counts in plain `u64`s. Once in a while it copies one port's block into a [`Published`]
//! cell (a sequence lock over relaxed atomics): readers never stop a worker, a worker never waits.
//! Counters only grow; "clear" is a baseline the reader keeps.

use crate::drops::{DROP_REASONS, DropReason, LosslessLoss};
use crate::ecn::Wred;
pub use crate::published::Published;
use crate::types::{Nanos, PRIORITIES};

/// Linear sub-buckets per octave of a latency histogram: values are exact to 1/8.
const SUB_BUCKETS: usize = 8;
/// Octaves above the linear start: up to 8 * 2^32 ns, half a minute; longer times share the last bucket.
const OCTAVES: usize = 32;
/// Buckets of one histogram.
pub const BUCKETS: usize = SUB_BUCKETS * (OCTAVES + 1);

/// The bucket of a time in ns: exact below 8, then 8 equal steps per doubling.
#[inline(always)]
pub fn bucket_of(ns: Nanos) -> usize {
    if ns < SUB_BUCKETS as u64 {
        return ns as usize;
    }
    let octave = (60 - ns.leading_zeros()) as usize;
    let step = (ns >> octave) as usize;
    (octave * SUB_BUCKETS + step).min(BUCKETS - 1)
}

/// Smallest time in ns that falls into this bucket.
pub fn bucket_start(bucket: usize) -> Nanos {
    let (octave, step) = (bucket / SUB_BUCKETS, bucket % SUB_BUCKETS);
    match octave {
        0 => step as u64,
        _ => ((SUB_BUCKETS + step) as u64) << (octave - 1),
    }
}

/// A log-linear histogram of times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram(pub [u64; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Histogram {
    /// Counts `frames` frames that took `ns`.
    #[inline(always)]
    pub fn note(&mut self, ns: Nanos, frames: u64) {
        self.0[bucket_of(ns)] += frames;
    }

    /// Adds another histogram to this one.
    pub fn add(&mut self, other: &Histogram) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Upper end of the bucket that holds the value of rank `q` (0..=1), in ns. `None` when empty.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        let count = self.count();
        let rank = ((count as f64 * q).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        for (bucket, n) in self.0.iter().enumerate() {
            seen += n;
            if seen >= rank && *n > 0 {
                return Some(bucket_start(bucket + 1) - 1);
            }
        }
        None
    }

    /// Upper end of the highest bucket in use, in ns.
    pub fn max(&self) -> Option<Nanos> {
        self.0.iter().rposition(|n| *n > 0).map(|bucket| bucket_start(bucket + 1) - 1)
    }
}

/// Visits every counter of a block in a fixed order, so that one walk serves copying out and in.
pub trait Words: Default {
    /// Calls `f` on all counters, those that stand together at once.
    fn words(&mut self, f: &mut dyn FnMut(&mut [u64]));

    /// Number of counters.
    fn len_words() -> usize {
        let mut n = 0;
        Self::default().words(&mut |words| n += words.len());
        n
    }
}

/// Blocks one behind the other in one cell; who reads the first alone gets the first alone.
impl<A: Words, B: Words> Words for (A, B) {
    fn words(&mut self, f: &mut dyn FnMut(&mut [u64])) {
        self.0.words(f);
        self.1.words(f);
    }
}

macro_rules! counters {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[doc = $doc:literal])+ $field:ident: $kind:tt),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: counters!(@type $kind),)+
        }

        impl $name {
            /// Name of each counter and how many words it has, in the order of [`Words::words`].
            pub const FIELDS: &'static [(&'static str, usize)] = &[
                $((stringify!($field), size_of::<counters!(@type $kind)>() / size_of::<u64>()),)+
            ];
        }

        impl Words for $name {
            fn words(&mut self, f: &mut dyn FnMut(&mut [u64])) {
                $(counters!(@visit $kind, self.$field, f);)+
            }
        }
    };
    (@type one) => { u64 };
    (@type per_priority) => { [u64; PRIORITIES] };
    (@type per_reason) => { Reasons };
    (@type latency) => { [Histogram; PRIORITIES] };
    (@type histogram) => { Histogram };
    (@visit one, $field:expr, $f:expr) => { $f(std::slice::from_mut(&mut $field)) };
    (@visit per_priority, $field:expr, $f:expr) => { $f(&mut $field) };
    (@visit per_reason, $field:expr, $f:expr) => { $f(&mut $field.0) };
    (@visit histogram, $field:expr, $f:expr) => { $f(&mut $field.0) };
    (@visit latency, $field:expr, $f:expr) => { $field.iter_mut().for_each(|h| $f(&mut h.0)) };
}

/// Frames by drop reason, indexed by [`crate::drops::DropReason`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reasons(pub [u64; DROP_REASONS]);

impl Default for Reasons {
    fn default() -> Self {
        Self([0; DROP_REASONS])
    }
}

impl Reasons {
    /// All of them together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

counters! {
    /// Everything counted about one port by the lcore that owns it.
    ///
    /// Frames received are data frames only: PFC and other MAC control is counted apart and never
    /// as data (D10). Conservation over all ports of a switch:
    /// `rx_packets + copies = tx_packets + drops + held`.
    pub struct PortStats {
        /// Data frames received.
        rx_packets: one,
        /// Their bytes, without FCS.
        rx_bytes: one,
        /// Data frames the driver has taken.
        tx_packets: one,
        /// Their bytes, without FCS.
        tx_bytes: one,
        /// Copies made of frames received here, beyond the first, for flooding and multicast, and of frames received or sent
        /// here for mirrors.
        copies: one,
        /// Those of them that were made for mirrors, of frames received or sent here.
        mirrored: one,
        /// Frames received or sent here that mirrors gave to files: no copies that the switch holds.
        recorded: one,
        /// Times that it left or joined its LAG because of its link or of LACP: flows have moved.
        lag_changes: one,
        /// MAC control frames received and consumed.
        rx_control: one,
        /// MAC control frames (PFC) sent.
        tx_control: one,
        /// LLDP frames received and given to management. Like MAC control they are no data frames.
        rx_lldp: one,
        /// LLDP frames sent.
        tx_lldp: one,
        /// Frames of the slow protocols (LACP, marker) received and given to management, and no data frames either.
        rx_lacp: one,
        /// Those sent.
        tx_lacp: one,
        /// Frames of IGMP, MLD and PIM received in a VLAN that is snooped, and read by management. They are data frames, too, but for what
        /// hosts say where no router is to hear it: that ends at the switch.
        rx_igmp: one,
        /// Those that management did not keep up with: they were forwarded and not read.
        igmp_unread: one,
        /// Queries of IGMP and MLD sent by the switch itself. These are no data frames.
        tx_igmp: one,
        /// PFC frames that had to wait because no memory was there for them.
        tx_control_no_memory: one,
        /// Frames forwarded by their Ethernet header although their IP header is malformed.
        malformed_l3: one,
        /// Frames received whose checksum a host had left to hardware, and that were given one.
        checksums_completed: one,
        /// Frames flooded because their destination was unknown.
        flooded: one,
        /// Frames lost, by reason. Ingress reasons count at the port of arrival, egress reasons at
        /// the port of departure.
        drops: per_reason,
        /// Those of them that were of a lossless class. See [`PortStats::lossless_drops`].
        lossless: per_reason,
        /// Data frames received, by priority.
        rx_priority_packets: per_priority,
        /// Their bytes.
        rx_priority_bytes: per_priority,
        /// Frames the driver has taken, by egress queue.
        queue_packets: per_priority,
        /// Their bytes.
        queue_bytes: per_priority,
        /// Frames refused or flushed at an egress queue.
        queue_drops: per_priority,
        /// Frames refused at an ingress priority group.
        pg_drops: per_priority,
        /// Frames charged to an ingress priority group.
        pg_packets: per_priority,
        /// Frames weir changed to CE, by queue (OpenConfig `ecn-marked-pkts`).
        ecn_marked: per_priority,
        /// Their bytes.
        ecn_marked_bytes: per_priority,
        /// Frames the marking law selected, markable or not (OpenConfig `ecn-selected-pkts`).
        ecn_selected: per_priority,
        /// Frames that were CE already when they left.
        ecn_seen_ce: per_priority,
        /// Frames selected for a mark that could not be written for lack of memory for a private copy, by queue.
        ecn_no_memory: per_priority,
    }
}

impl PortStats {
    /// Frames of lossless classes that were received and not delivered, whatever the stage and the reason, but for those
    /// of the two below. An alarm, not a statistic: everything that speaks of lossless drops means this number.
    pub fn lossless_drops(&self) -> u64 {
        self.lossless_of(LosslessLoss::Alarm)
    }

    /// Frames of lossless classes that the PFC watchdog dropped, as the operator told it to.
    pub fn lossless_drops_watchdog(&self) -> u64 {
        self.lossless_of(LosslessLoss::Watchdog)
    }

    /// Frames of lossless classes that an operator's order cost: a port switched off, the end of a run.
    pub fn lossless_drops_operator(&self) -> u64 {
        self.lossless_of(LosslessLoss::Operator)
    }

    fn lossless_of(&self, meant: LosslessLoss) -> u64 {
        let of = |reason: &&DropReason| reason.lossless() == meant;
        DropReason::ALL.iter().filter(of).map(|reason| self.lossless.0[*reason as usize]).sum()
    }
}

counters! {
    /// The latency of a port's queues.
    pub struct LatencyStats {
        /// Time from `receive` to the driver taking the frame, by egress queue.
        residence: latency,
    }
}

counters! {
    /// What received pauses have to do with the latency of a port's queues: kept apart from [`LatencyStats`], because it
    /// changes only while a peer pauses. The time of a frame has two parts, `residence = queueing + pause`.
    pub struct PauseStats {
        /// Frames that received pauses made wait, by the time for which they held the queue while the frame was in
        /// it. Frames that met no pause are not here.
        pause: latency,
        /// How the queueing part of all frames differs from their residence: frames more, or (as a number below
        /// zero would wrap) fewer, in each bucket.
        queueing_shift: latency,
        /// Sum of all pause parts, ns.
        pause_ns: per_priority,
    }
}

impl PauseStats {
    /// Counts `frames` frames that were here for `residence`, for `pause` of which (more than nothing) their queue
    /// was held.
    pub fn note(&mut self, queue: usize, residence: Nanos, pause: Nanos, frames: u64) {
        self.pause[queue].note(pause, frames);
        self.pause_ns[queue] += pause * frames;
        let shift = &mut self.queueing_shift[queue].0;
        for (bucket, change) in [
            (bucket_of(residence), frames.wrapping_neg()),
            (bucket_of(residence.saturating_sub(pause)), frames),
        ] {
            shift[bucket] = shift[bucket].wrapping_add(change);
        }
    }

    /// The pause part of all frames of a queue whose residence is `residence`, zeros included.
    pub fn pause_of(&self, queue: usize, residence: &Histogram) -> Histogram {
        let mut all = self.pause[queue];
        all.0[0] += residence.count().saturating_sub(all.count());
        all
    }

    /// The queueing part of all frames of a queue whose residence is `residence`.
    pub fn queueing_of(&self, queue: usize, residence: &Histogram) -> Histogram {
        let mut all = *residence;
        for (frames, shift) in all.0.iter_mut().zip(&self.queueing_shift[queue].0) {
            *frames = frames.wrapping_add(*shift);
        }
        all
    }
}

counters! {
    /// The state of a port at one instant, and the counters kept by its PFC machines and its buffer.
    /// Bytes and nanoseconds.
    pub struct PortGauges {
        /// When all of it held, ns.
        at_ns: one,
        /// Bytes held by each egress queue, until the driver has taken them.
        queue_bytes: per_priority,
        /// Bytes of the frames that wait in each egress queue, as the laws of marking and early drop count them.
        queue_depth: per_priority,
        /// Why each egress queue takes no frames until it has been emptied: 1 and the number of the [`DropReason`]; 0: it does.
        queue_flushing: per_priority,
        /// Most bytes each egress queue may hold now.
        queue_limit: per_priority,
        /// Highest use of each egress queue since start.
        queue_peak: per_priority,
        /// Bytes of each priority group in its reserve and in the shared pool.
        pg_used: per_priority,
        /// Shared-pool bytes of each priority group.
        pg_shared: per_priority,
        /// Bytes of each priority group in headroom.
        pg_headroom: per_priority,
        /// Priority groups over their line, a bit each.
        pg_xoff: one,
        /// The moving Xoff line: most shared bytes each priority group may hold now.
        pg_limit: per_priority,
        /// Where each priority group would resume now, in shared-pool bytes.
        pg_xon: per_priority,
        /// Highest shared use of each priority group since start.
        pg_shared_peak: per_priority,
        /// Highest headroom use of each priority group since start.
        pg_headroom_peak: per_priority,
        /// Queues paused by the peer, a bit each.
        paused_queues: one,
        /// Priorities the peer was told to pause, a bit each.
        xoff_priorities: one,
        /// Why each priority was last asked to pause: [`crate::pfc::generate::LastCause::word`].
        tx_cause: per_priority,
        /// Queues in a storm, a bit each.
        stormed_queues: one,
        /// Kinds of flooded frames ([`crate::storm_control::FloodKind`]) that are above their limit, a bit each.
        flood_exceeded: one,
        /// PFC frames received, and those that paused or resumed each priority.
        pfc_rx_frames: one,
        /// Frames received that paused this priority.
        pfc_rx_xoff: per_priority,
        /// Frames received that resumed this priority.
        pfc_rx_xon: per_priority,
        /// PFC frames sent.
        pfc_tx_frames: one,
        /// Frames sent that paused this priority or refreshed its pause.
        pfc_tx_xoff: per_priority,
        /// Frames sent that resumed this priority.
        pfc_tx_xon: per_priority,
        /// Time the peer has paused each priority of ours.
        rx_paused_ns: per_priority,
        /// Time we have paused each priority of the peer.
        tx_paused_ns: per_priority,
        /// Times the peer has paused each priority of ours.
        rx_pauses: per_priority,
        /// Times we have paused each priority of the peer.
        tx_pauses: per_priority,
        /// 802.3x PAUSE frames received.
        pause_frames: one,
        /// MAC control frames received that are neither PAUSE nor PFC, or not valid.
        invalid_control: one,
        /// Storms the watchdog has seen begin, by queue.
        storms_detected: per_priority,
        /// Storms the watchdog has seen end, by queue.
        storms_restored: per_priority,
        /// Queues whose frames the watchdog drops now, a bit each.
        storm_dropping: one,
        /// Queues whose pause the watchdog ignores now, a bit each.
        storm_forwarding: one,
        /// Bytes that waited when the last storm of each queue was detected.
        storm_backlog: per_priority,
        /// How long the queue had been stalled by then, ns.
        storm_stalled_ns: per_priority,
        /// Frames sent from each queue during its storms.
        storm_tx_ok: per_priority,
        /// Frames flushed from it or refused by it.
        storm_tx_drop: per_priority,
        /// Frames received on the port for the group of the queue, and admitted.
        storm_rx_ok: per_priority,
        /// Those dropped.
        storm_rx_drop: per_priority,
        /// The same of the present storm, or else the last one: sent.
        storm_last_tx_ok: per_priority,
        /// Flushed or refused.
        storm_last_tx_drop: per_priority,
        /// Received and admitted.
        storm_last_rx_ok: per_priority,
        /// Received and dropped.
        storm_last_rx_drop: per_priority,
    }
}

counters! {
    /// One worker: its polling loop, the frames its shard has seen, and the pools as it sees them.
    ///
    /// The books balance at every instant, shard by shard:
    /// `received + copies + handed_in = transmitted + dropped + held + handed_out`.
    pub struct LoopStats {
        /// When all of it held, ns.
        at_ns: one,
        /// Turns of the loop.
        turns: one,
        /// Turns that moved at least one frame.
        busy_turns: one,
        /// Time spent in turns that moved a frame, ns.
        busy_ns: one,
        /// Longest turn, ns: the poll gap the headroom has to cover.
        longest_turn_ns: one,
        /// Lengths of all turns.
        turn: histogram,
        /// Data frames received.
        received: one,
        /// Copies made for flooding and multicast, beyond the first.
        copies: one,
        /// Data frames the drivers have taken.
        transmitted: one,
        /// Frames lost, each with a reason.
        dropped: one,
        /// Frames queued or staged here.
        held: one,
        /// Frames taken over from other lcores.
        handed_in: one,
        /// Frames given to other lcores.
        handed_out: one,
        /// Bytes of the shared pool in use, all shards.
        shared_used: one,
        /// Bytes of headroom in use, all shards.
        headroom_used: one,
        /// Bytes of the control pool in use by this shard.
        control_used: one,
        /// Bytes in use by its copies for mirrors.
        mirror_used: one,
        /// Highest use of the shared pool since start, as this shard saw it.
        shared_peak: one,
        /// Highest use of headroom since start, as this shard saw it.
        headroom_peak: one,
        /// Entries of this shard's forwarding table, those of other shards included.
        fdb_entries: one,
        /// Addresses learned.
        fdb_learned: one,
        /// Addresses that appeared on another port than before.
        fdb_moved: one,
        /// Entries that aged out or went with their port.
        fdb_aged: one,
        /// Addresses not learned for want of room.
        fdb_refused: one,
        /// The last address that moved, and its ports.
        fdb_move_key: one,
        /// Where it was.
        fdb_move_from: one,
        /// Where it went.
        fdb_move_to: one,
        /// Turns that were timed stage by stage and moved a frame.
        timed_turns: one,
        /// Frames they received.
        timed_received: one,
        /// Frames they sent.
        timed_sent: one,
        /// ns of them in each stage: see [`Stage`].
        stage_ns: per_priority,
    }
}

/// Parts of a marking curve: sixteen up to Kmax, fifteen up to nearly twice that, and one for all above.
pub const CURVE_BINS: usize = 32;

/// How the queues of a port mark: frames that left, and those of them the law selected, by depth.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MarkingCurve {
    /// Kmin of each queue, bytes.
    pub kmin: [u64; PRIORITIES],
    /// Kmax of each queue, bytes; 0: it does not mark.
    pub kmax: [u64; PRIORITIES],
    /// Probability at Kmax, as in [`Wred`].
    pub pmax: [u64; PRIORITIES],
    /// Frames that left, by queue and bin.
    pub frames: [[u64; CURVE_BINS]; PRIORITIES],
    /// Frames the law selected.
    pub selected: [[u64; CURVE_BINS]; PRIORITIES],
}

impl MarkingCurve {
    /// Depths of a bin, `from..to` bytes; the last one has no end.
    pub fn depths(kmax: u64, bin: usize) -> (u64, Option<u64>) {
        let at = |bin: usize| kmax * bin as u64 * 2 / CURVE_BINS as u64;
        (at(bin), (bin + 1 < CURVE_BINS).then(|| at(bin + 1)))
    }

    /// Queues mark by these laws now. The curve of one that has another law begins anew: what was seen under the old one
    /// does not belong to it.
    pub fn follow(&mut self, laws: &[Option<Wred>; PRIORITIES]) {
        for (queue, law) in laws.iter().enumerate() {
            let new = law.map_or((0, 0, 0), |law| (law.kmin, law.kmax, law.pmax));
            if new != (self.kmin[queue], self.kmax[queue], self.pmax[queue]) {
                (self.kmin[queue], self.kmax[queue], self.pmax[queue]) = new;
                (self.frames[queue], self.selected[queue]) = ([0; CURVE_BINS], [0; CURVE_BINS]);
            }
        }
    }

    /// Counts frames that left `queue` at about this depth.
    pub fn note(&mut self, queue: usize, depth: u64, frames: u64, selected: u64) {
        let kmax = self.kmax[queue];
        if kmax == 0 || frames == 0 {
            return;
        }
        let bin = ((depth * CURVE_BINS as u64 / 2 / kmax) as usize).min(CURVE_BINS - 1);
        self.frames[queue][bin] += frames;
        self.selected[queue][bin] += selected;
    }
}

impl Words for MarkingCurve {
    fn words(&mut self, f: &mut dyn FnMut(&mut [u64])) {
        f(&mut self.kmin);
        f(&mut self.kmax);
        f(&mut self.pmax);
        f(self.frames.as_flattened_mut());
        f(self.selected.as_flattened_mut());
    }
}

/// Stages of a turn of the polling loop, indices of [`LoopStats::stage_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The driver's receive.
    RxDriver,
    /// Parse, classify, look up, admit, queue.
    Receive,
    /// Schedule, shape, mark, release.
    Transmit,
    /// The driver's transmit.
    TxDriver,
    /// Other lcores, resumes, watchdog, ageing, publishing.
    Tick,
}

impl Stage {
    /// All of them, in the order of a turn.
    pub const ALL: [Self; 5] = [Self::RxDriver, Self::Receive, Self::Transmit, Self::TxDriver, Self::Tick];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::RxDriver => "rx_driver",
            Self::Receive => "receive",
            Self::Transmit => "transmit",
            Self::TxDriver => "tx_driver",
            Self::Tick => "tick",
        }
    }
}

impl LoopStats {
    /// What the books are out by, frames: zero, or weir has lost count.
    pub fn conservation_error(&self) -> i64 {
        let sum = |terms: &[u64]| terms.iter().map(|n| i128::from(*n)).sum::<i128>();
        let plus = sum(&[self.received, self.copies, self.handed_in]);
        let minus = sum(&[self.transmitted, self.dropped, self.held, self.handed_out]);
        (plus - minus) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_all_times_without_gap_or_overlap() {
        for bucket in 0..BUCKETS {
            let start = bucket_start(bucket);
            assert_eq!(bucket_of(start), bucket);
            if bucket + 1 < BUCKETS {
                assert_eq!(bucket_of(bucket_start(bucket + 1) - 1), bucket);
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_bucket_is_at_most_an_eighth_of_its_start_wide() {
        for bucket in SUB_BUCKETS..BUCKETS - 1 {
            let (start, next) = (bucket_start(bucket), bucket_start(bucket + 1));
            assert!((next - start) * 8 <= start.max(8), "{bucket}");
        }
    }

    #[test]
    fn quantiles_are_upper_bounds() {
        let mut h = Histogram::default();
        assert_eq!((h.quantile(0.5), h.max()), (None, None));
        for ns in 1..=1000 {
            h.note(ns, 1);
        }
        for (q, exact) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let got = h.quantile(q).unwrap();
            assert!(got >= exact && got <= exact + exact / 8 + 1, "{q}: {got}");
        }
        assert_eq!(h.count(), 1000);
    }

    #[test]
    fn a_curve_has_a_bin_for_every_depth() {
        let mut curve = MarkingCurve { kmax: [0, 1600, 0, 0, 0, 0, 0, 0], ..MarkingCurve::default() };
        for (depth, bin) in
            [(0, 0), (99, 0), (100, 1), (1599, 15), (1600, 16), (3099, 30), (3100, 31), (1 << 40, 31)]
        {
            let before = curve.frames[1][bin];
            curve.note(1, depth, 3, 2);
            assert_eq!(curve.frames[1][bin], before + 3, "{depth}");
            let (from, to) = MarkingCurve::depths(1600, bin);
            assert!(depth >= from && to.is_none_or(|to| depth < to), "{depth}");
        }
        curve.note(0, 5, 3, 2);
        assert_eq!((curve.frames[0], curve.selected[1][31]), ([0; CURVE_BINS], 4));
    }

    #[test]
    fn a_curve_begins_anew_with_its_law() {
        let law = |kmin, kmax| Some(Wred { kmin, kmax, ..Wred::OFF });
        let mut laws = [None; PRIORITIES];
        (laws[1], laws[2]) = (law(400, 1600), law(400, 1600));
        let mut curve = MarkingCurve::default();
        curve.follow(&laws);
        [1, 2].into_iter().for_each(|queue| curve.note(queue, 800, 3, 2));
        let before = curve.clone();
        curve.follow(&laws);
        assert_eq!(curve, before, "the same laws");
        for other in [law(500, 1600), law(400, 1700), Some(Wred { pmax: 9, ..laws[1].unwrap() }), None] {
            let mut curve = before.clone();
            laws[1] = other;
            curve.follow(&laws);
            assert_eq!((curve.frames[1], curve.selected[1]), ([0; CURVE_BINS], [0; CURVE_BINS]));
            assert_eq!((curve.frames[2], curve.kmax[1]), (before.frames[2], other.map_or(0, |law| law.kmax)));
        }
    }
}
