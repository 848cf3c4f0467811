//! What would happen to a frame that arrived now. Nothing is computed here: the frame is made, a switch is put into the state that
//! was seen, and takes it ([`crate::switch`]). What is told is what has become of it there, and what its admission policy was asked.
//!
//! Two things are not seen: that no batch or copy count is left ([`DropReason::IngressNoSlot`], [`DropReason::IngressNoCopy`]), and
//! that the switch drains at the end of its run. Copies for mirrors are left out.

mod gate;

pub(crate) use gate::AskedMmu;

use crate::classify::Class;
use crate::drops::DropReason;
use crate::ecn::Wred;
use crate::frame::OwnedFrame;
use crate::mmu::{Held, Mmu, PgIx, PgView, PoolView, QueueView};
use crate::parse::{GROUP_BIT, Kind, NoField, Sample};
use crate::portset::PortSet;
use crate::stats::PortGauges;
use crate::storm_control::{FloodKind, FloodLimit};
use crate::switch::{Switch, SwitchError, SwitchParams};
use crate::types::{PRIORITIES, PortId};
use crate::vlan::Retag;

/// The frame that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Port it arrives on.
    pub port: PortId,
    /// Its destination, as in [`crate::parse::Profile::key`]; `None`: one that fits what else is asked.
    pub dst: Option<u64>,
    /// Ports its station is behind, all of one LAG or one alone; without `dst`, `flood` and `group`, `None` is any but that it arrives
    /// on and those of the same LAG. Of a frame with several copies the one that is told of more closely, if there is one.
    pub to: Option<PortSet>,
    /// Bytes, without FCS.
    pub len: u32,
    /// DSCP, if it is IP.
    pub dscp: Option<u8>,
    /// PCP, if it is tagged.
    pub pcp: Option<u8>,
    /// VID, if it is tagged with one.
    pub vid: Option<u16>,
    /// AFH traffic-class octet, if it has one.
    pub tc: Option<u8>,
    /// ECN code point: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE. `None`: ECT(0) if it is IP.
    pub ecn: Option<u8>,
    /// What it is to the switch: CNP and ACK frames have a class of their own; a reserved one is LLDP for the nearest bridge.
    pub kind: Kind,
    /// Its destination is one that makes it flooded, as this.
    pub flood: Option<FloodKind>,
    /// It is for a multicast group: a copy goes to each of these ports, of which there may be none. A configured group stays what it is.
    pub group: Option<PortSet>,
}

/// What the switch held when it was looked at: `port * 8 + group` and `port * 8 + queue`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Priority groups.
    pub groups: Vec<Held>,
    /// Egress queues, bytes as they are charged.
    pub queues: Vec<u64>,
    /// Egress queues, bytes of their frames; those this does not reach, as they are charged.
    pub depths: Vec<u64>,
    /// Why egress queues take nothing until they have been emptied.
    pub flushing: Vec<Option<DropReason>>,
    /// By port: queues whose frames the watchdog drops, a bit each.
    pub storm_drop: Vec<u8>,
    /// By lcore: bytes in its part of the control pool.
    pub control: Vec<u64>,
    /// By port: kinds of flooded frames ([`FloodKind`]) that are above their limit, a bit each.
    pub flood_exceeded: Vec<u64>,
    /// Ports without a link.
    pub down: PortSet,
    /// Members of LAGs that LACP does not let send, and those of them that take nothing.
    pub not_distributing: PortSet,
    /// See [`Occupancy::not_distributing`].
    pub not_collecting: PortSet,
}

impl Occupancy {
    /// From the published state of all ports, and what is in the part of the control pool of each lcore
    /// ([`crate::stats::LoopStats::control_used`]).
    pub fn of<'a>(gauges: impl Iterator<Item = &'a PortGauges>, control: impl Iterator<Item = u64>) -> Self {
        let mut seen = Self { control: control.collect(), ..Self::default() };
        for gauges in gauges {
            seen.groups.extend((0..PRIORITIES).map(|pg| Held {
                used: gauges.pg_used[pg],
                headroom: gauges.pg_headroom[pg],
                xoff: gauges.pg_xoff >> pg & 1 == 1,
            }));
            seen.queues.extend(gauges.queue_bytes);
            seen.depths.extend(gauges.queue_depth);
            let reason = |word: u64| DropReason::ALL.get(word.checked_sub(1)? as usize).copied();
            seen.flushing.extend(gauges.queue_flushing.map(reason));
            seen.storm_drop.push(gauges.storm_dropping as u8);
            seen.flood_exceeded.push(gauges.flood_exceeded);
        }
        seen
    }
}

/// What would happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// How it is classified; `None`: it ends, or is lost, before it is.
    pub class: Option<Class>,
    /// Its ECN code point, if it has one.
    pub ecn: Option<u8>,
    /// Its VLAN and what is done to its tag, if ports know of VLANs and it is in one.
    pub vlan: Option<(u16, Retag)>,
    /// The ports it was to leave by, if frames can leave by none of them now, and why one to a static station there is lost. Learned
    /// stations there are forgotten: it is flooded.
    pub down: Option<(PortSet, DropReason)>,
    /// Why it goes to many ports; `None`: it goes to one alone, or to a group.
    pub flood: Option<FloodKind>,
    /// The limit of its kind at its port, if it is flooded and there is one, and that it is exceeded.
    pub flood_limit: Option<(FloodLimit, bool)>,
    /// It ends at the switch, which reads it: nothing is charged for it.
    pub consumed: bool,
    /// Why it is lost; if it has several copies, why some of them are. How many frames each.
    pub lost: Vec<(DropReason, u64)>,
    /// What it was charged to, if it came as far as its queue: of several, all together.
    pub group: Option<AskedGroup>,
    /// The copies that came as far as a queue, by port.
    pub copies: Vec<AskedCopy>,
    /// That one of them that was asked for, or else whose queue is the fullest.
    pub shown: Option<AskedCopy>,
    /// The pools before it.
    pub pools: PoolView,
}

/// The priority group of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedGroup {
    /// Which.
    pub ix: PgIx,
    /// It is the control pool, or a CNP that did not fit that.
    pub control: Option<ControlPool>,
    /// Bytes that were to be charged, for all copies; 0: that was not asked any more.
    pub charge: u32,
    /// Before the frame.
    pub before: PgView,
    /// After it.
    pub after: PgView,
    /// The frame brings it to Xoff.
    pub xoff: bool,
    /// Priorities the peer is told to pause while the group is over its line, a bit each.
    pub pauses: u8,
}

/// What a CNP found of the control pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlPool {
    /// Room: the group is the pool.
    Room,
    /// None: it is charged to its own group, but for so many bytes of some of its copies.
    Full(u32),
}

/// A copy of a frame that comes to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedCopy {
    /// Port it leaves by.
    pub out: PortId,
    /// Queue, before the frame.
    pub queue: QueueView,
    /// Why it is lost, if it is.
    pub lost: Option<DropReason>,
    /// Bytes of the frames in the queue before it, as marking counts them: not as they are charged.
    pub depth: u64,
    /// Marking of the queue, and the share of 2^32 frames like it that are marked at the depth there is.
    pub mark: Option<(Wred, u64)>,
    /// Share of 2^32 frames like it that are dropped early there; if not all are, the rest tells of one that is not.
    pub early_drop: u64,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// The parameters make no switch.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// The port takes no such frames.
    #[error(transparent)]
    NoField(#[from] NoField),
}

/// Where frames come from that are asked about, and where they go if it does not matter: addresses of local administration.
const SOURCE: u64 = 0x0200_5745_4952;
const STATION: u64 = 0x0200_5746_0000;
const GROUP: u64 = 0x0300_5746_0000;
const BROADCAST: u64 = 0xffff_ffff_ffff;

impl Asked {
    /// The frame, from a station to the `n`th address of those that will do.
    ///
    /// # Errors
    /// The first field that frames of the port do not have.
    pub fn frame(&self, params: &SwitchParams, n: u64) -> Result<OwnedFrame, NoField> {
        let any = match (self.flood, self.group) {
            (Some(FloodKind::Broadcast), _) => BROADCAST,
            (Some(FloodKind::Multicast), _) | (_, Some(_)) => GROUP | GROUP_BIT | n,
            _ => STATION | n,
        };
        let Self { pcp, vid, dscp, tc, ecn, kind, .. } = *self;
        let (dst, len) = (self.dst.unwrap_or(any), self.len as usize);
        let said = Sample { dst, src: SOURCE, pcp, vid, dscp, tc, ecn, kind, len };
        params.ports[self.port.index()].profile.sample(&said).map(OwnedFrame::new)
    }
}

/// Asks a switch with these parameters, in this state.
///
/// # Errors
/// See [`ExplainError`].
pub fn explain(params: &SwitchParams, seen: &Occupancy, asked: &Asked) -> Result<Explanation, ExplainError> {
    let mut whole = SwitchParams {
        // It holds the copies of one frame, and nobody looks at its counters.
        frames: 2 * params.ports.len() + 2,
        copied: 4,
        flow_cache: 1,
        observed: false,
        flows: None,
        mirrors: Vec::new(),
        ..params.clone()
    };
    whole.ports.iter_mut().for_each(|port| port.shard = 0);
    let mmu = Mmu::new(params.mmu.clone()).map_err(SwitchError::from)?;
    let mut switch = Switch::with_admission(&whole, AskedMmu::new(mmu))?;
    // The control pool is divided among lcores: what is not of that of the port counts as full.
    let (lcores, all) = (seen.control.len().max(1) as u64, params.mmu.control);
    let elsewhere = all - all / lcores;
    let lcore = usize::from(params.ports[asked.port.index()].shard);
    let control = elsewhere + seen.control.get(lcore).copied().unwrap_or(0);
    switch.assume(seen, control).map_err(SwitchError::from)?;
    let mut told = switch.ask(&whole, asked)?;
    if let Some(AskedGroup { control: Some(ControlPool::Room), before, after, .. }) = &mut told.group {
        for view in [before, after] {
            (view.used, view.reserved) = (view.used - elsewhere, view.reserved - elsewhere);
        }
    }
    Ok(told)
}
