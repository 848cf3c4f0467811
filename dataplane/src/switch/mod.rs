//! The three verbs. What a switch, or the shard of it that one lcore owns, does with frames:
//!
//! ```text
//! receive(port, burst, now)         parse -> control frames consumed -> classify -> look up, learn
//!                                   -> admit -> enqueue
//! transmit(port, budget, now, wire) PFC first -> schedule (paused mask, SP, weights, shaper)
//!                                   -> ECN mark -> hand to the driver -> release what it took
//! tick(now)                         frames, grants and news from other lcores, resume checks, watchdog,
//!                                   ageing, publish counters
//! ```
//!
//! Whoever drives the switch owns the clock and the wire: a polling loop on DPDK, an event queue in
//! virtual time, a test.

mod admit;
mod apply;
mod batching;
mod chance;
mod channels;
mod control;
mod copies;
mod copying;
mod decide;
mod explain;
mod filter;
mod flood;
mod flow_cache;
mod flows;
mod flush;
mod follow;
mod gate;
mod handoff;
mod held;
mod lag;
mod lanes;
mod local;
mod lost;
mod mirror;
mod mirror_reader;
mod observer;
mod params;
mod ports;
mod receive;
mod single;
mod snooping;
mod stage;
mod tap;
mod tick;
mod transmit;
mod view;
mod vlan;

pub use apply::{ApplyError, Change, ChangeError};
pub use channels::{Peer, peers};
pub use filter::Filter;
pub use handoff::{FRAMES_IN_FLIGHT, bytes_in_flight};
pub use local::{LLDP_ETHERTYPE, LocalFrame, LocalProtocol, LocalReader, SLOW_ETHERTYPE};
pub use mirror::{MirrorParams, MirrorTo};
pub use mirror_reader::{MirrorHead, MirrorReader};
pub use observer::{Arrival, Beside, HandedOn, Interest, Key, Observer, Record, Taken, What, kind_word};
pub use params::{PortParams, SwitchError, SwitchParams, UnknownUnicast};
pub use single::{Dequeued, Passed};
pub use snooping::Unjoined;
pub use tap::{Tap, TapOrder, TapReader, TapSlot, Tapped};
pub use view::Conservation;

use crate::drops::DropReason;
use crate::ecn::Wred;
use crate::egress::{BatchBuffer, Microbursts, Queues, Scheduler, Shaper};
use crate::fdb::Fdb;
use crate::flows::FlowRecorder;
use crate::frame::Frame;
use crate::lag::{LagMember, Lags};
use crate::mmu::{Admission, Mmu};
use crate::pfc::generate::Generator;
use crate::pfc::react::Reaction;
use crate::pfc::watchdog::Watchdog;
use crate::portset::PortSet;
use crate::rng::Rng;
use crate::stats::{LatencyStats, PauseStats, PortStats, Published};
use crate::storm_control::Policers;
use crate::types::{Nanos, PRIORITIES, PortId};
use crate::vlan::Vlans;
use batching::{AdmissionGroup, GROUPS};
use copies::Copies;
use flood::Flood;
use flow_cache::FlowCache;
use local::LocalQueues;
pub(crate) use ports::PortStatus;
use ports::Ports;
use snooping::Snooping;
use stage::Stage;

/// Where frames go when they leave: a driver, a link of the simulator, a test.
pub trait Wire<F: Frame> {
    /// Takes frames from the front of `frames`, in order, and says how many it took. What it does
    /// not take stays, in order, for the next call: a full ring is an ordinary answer.
    fn send(&mut self, frames: &mut F::Staged) -> usize;

    /// Sends one control frame (without FCS) ahead of everything else. `false`: it cannot now, and
    /// nothing was sent.
    fn send_control(&mut self, frame: &[u8]) -> bool;
}

/// A port of this lcore.
#[derive(Debug)]
struct OwnPort<F: Frame> {
    params: PortParams,
    /// Ports a frame from here may be flooded to: same format, link up, not itself.
    flood: PortSet,
    /// Where the stations behind it are known: the first port of its LAG, else itself.
    fdb_port: PortId,
    /// As the driver said last.
    link: bool,
    /// What LACP lets it carry, if that is asked.
    member: LagMember,
    /// Whether frames can leave, and why those that come are lost, if they are.
    status: PortStatus,
    refuses: Option<DropReason>,
    /// Queues an operator holds back (`SAI PKT_DEQUEUE_ENABLE` off), a bit each.
    held_back: u8,
    /// Queues whose frames the watchdog drops, and queues whose pause it ignores.
    storm_drop: u8,
    storm_forward: u8,
    /// Queues that are shut until they have been emptied, and why that is.
    flushing: u8,
    flush_as: [DropReason; PRIORITIES],
    scheduler: Scheduler,
    shaper: Option<Shaper>,
    /// Marking at departure; [`Wred::OFF`] where it is off or done on arrival.
    mark: [Wred; PRIORITIES],
    /// Queues that mark on arrival instead, and queues that drop early, a bit each.
    mark_on_arrival: u8,
    drops_early: u8,
    reaction: Reaction,
    generator: Generator,
    /// Apart: it is large, and asked once in a poll interval.
    watchdog: Option<Box<Watchdog>>,
    /// Watches queue depths for short bursts, where somebody wants to know.
    bursts: Option<Box<Microbursts>>,
    /// Frames handed to the wire and not yet taken by it, with what is known of them.
    stage: Stage<F>,
    /// Queues of which frames leave in turns in this burst, a bit each.
    lanes: u8,
    /// Frames that other lcores were granted to send and have not yet completed, or that are on their way across a crossbar.
    in_flight: usize,
    /// The bytes on the wire of those, and above how many no more are granted.
    in_flight_wire: u64,
    most_in_flight_wire: u64,
    stats: PortStats,
    /// `None`: nobody asks.
    latency: Option<Box<LatencyStats>>,
    /// Frames sent when that was published.
    told_sent: u64,
    /// The part of pauses in the times of `latency`, and that it was added to since it was published.
    pauses: Option<Box<PauseStats>>,
    pauses_new: bool,
    published: Published,
    gauges: Published,
    /// Bytes queued for this port, by input.
    carried: Published,
    /// What of the frames received here may be flooded, where that has limits.
    policers: Option<Box<Policers>>,
    /// Which flows are behind marks, losses, pauses and depth, where somebody wants to know.
    flows: Option<Box<FlowRecorder>>,
    /// Where frames of protocols that end here go.
    local: LocalQueues,
}

/// A switch, or one shard of it.
///
/// What concerns a port is asked of, and said to, the shard that owns it ([`Switch::owns`]): methods that take the index
/// of a port panic on one of another shard, but for those about grants.
///
/// `F` is the frame, `A` the admission policy: weir's own [`Mmu`] unless a published model is compared. `O` looks on: nobody, or on a switch
/// that is looked at while it runs a [`TapSlot`].
#[derive(Debug)]
pub struct Switch<F: Frame, A = Mmu, O = ()> {
    ports: Ports<F>,
    /// Which shard owns each port.
    owner: Vec<u8>,
    /// Queues (a bit each) of each port that a frame may not simply be admitted to.
    slow_path_queues: Vec<u8>,
    shard: u8,
    fdb: Fdb,
    /// The ports of each VLAN; `None`: none of them knows of VLANs.
    vlans: Option<Vlans>,
    /// Ports that are one to the forwarding table.
    lags: Lags,
    /// VLANs whose groups hosts join.
    snooping: Snooping,
    /// Ports whose frames are copied to others.
    mirrors: Vec<MirrorParams>,
    /// Copies on their way to a reader, if there is one.
    mirror_queue: Option<Box<mirror_reader::MirrorQueue>>,
    /// Decisions made from the tables and maps above, while these are what they were.
    flow_cache: FlowCache,
    admission: A,
    queues: Queues<F>,
    /// Scratch of `receive`: what a burst is sorted into.
    groups: [AdmissionGroup; GROUPS],
    /// The same for frames with several destinations.
    flood: Flood<F>,
    /// Ports whose stage holds frames the wire did not take. What a loop asks about every port in every turn must not
    /// take a cache line of each.
    unsent: PortSet,
    /// Ports of which something is to be dropped.
    flushing: PortSet,
    rng: Rng,
    peers: Vec<Option<Peer<F>>>,
    /// Which of them is asked first in a tick, and what was received here since the last one: as much may come from them.
    first_peer: usize,
    received_since_tick: usize,
    /// Buffers for frames that go to other shards.
    buffers: Vec<BatchBuffer<F>>,
    /// Ports of other shards that are to send frames of ours, because their owner said so.
    granted: PortSet,
    /// Frames taken over from other shards, and given to them.
    handed_in: u64,
    handed_out: u64,
    /// Copies of each multicast frame that still wait anywhere, shared by all shards.
    copies: Copies,
    ageing: tick::Ageing,
    /// First instant at which the watchdog of a port is due.
    watch_at: Nanos,
    publish_cursor: usize,
    publish_at: Nanos,
    draining: bool,
    /// Who looks on.
    observer: O,
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Lets `port` send: control frames first, then at most `budget` data frames (`BURST` at most are
    /// staged at a time). As many as `BURST` more are granted to the lcores they came from. Returns how many data frames the wire took.
    #[inline]
    pub fn transmit(&mut self, port: PortId, budget: usize, now: Nanos, wire: &mut impl Wire<F>) -> usize {
        self.transmit_control(port, now, wire);
        if self.mirrors.is_empty() {
            self.stage(port, budget, now);
        } else {
            self.stage_mirrored(port, budget, now);
        }
        self.tell_peers();
        if self.observer.looks_on() {
            return self.hand_over_watched(port, now, wire);
        }
        self.hand_over(port, now, wire)
    }

    /// Frames received here wait to be sent by `port`, which is another shard's: its owner has scheduled them.
    #[inline(always)]
    pub fn has_grants(&self, port: PortId) -> bool {
        self.granted.contains(port)
    }

    /// Sends by a port of another shard what its owner has scheduled of the frames received here, on a transmit queue
    /// of this shard's own: at most `budget` frames (`BURST` at most are staged at a time), or one grant. Returns how many the wire took.
    #[inline]
    pub fn transmit_granted(
        &mut self,
        port: PortId,
        budget: usize,
        now: Nanos,
        wire: &mut impl Wire<F>,
    ) -> usize {
        let before = self.ports.stage(port).len();
        if self.flushing.contains(port) || !self.stage_granted(port, budget) {
            return 0;
        }
        if !self.mirrors.is_empty() {
            self.mirror_staged(port, before, now);
        }
        let sent = if self.observer.looks_on() {
            self.hand_over_watched(port, now, wire)
        } else {
            self.hand_over_granted(port, now, wire)
        };
        self.tell_peers();
        sent
    }

    /// Lets `port` send a control frame, if one is due, and nothing else.
    pub fn transmit_due_control(&mut self, port: PortId, now: Nanos, wire: &mut impl Wire<F>) {
        self.transmit_control(port, now, wire);
    }

    /// Everything that does not happen on account of a frame. Call once per loop turn, or at
    /// [`Switch::next_event`] in virtual time.
    pub fn tick(&mut self, now: Nanos) {
        self.observer.time(now);
        self.take_from_peers(now);
        self.resume_due();
        self.watch(now);
        self.go_on_flushing(now);
        self.age(now);
        self.publish_next(now);
    }
}

#[cfg(test)]
mod tests;
