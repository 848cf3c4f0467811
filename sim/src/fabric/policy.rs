//! Who may hold how much of a switch's buffer: weir's MMU, or a published model in its place (`buffer.policy`).
//!
//! A model takes sizes, headroom and alphas from the same configuration as weir's MMU, so that runs differ in the policy
//! alone. What a model has no word for is refused, not ignored.

use super::FabricError;
use super::spec::{CoreKind, FabricSpec, FrameType};
use super::units::{Duration, Size};
use crate::models::hpcc::{Hpcc, HpccParams, RESERVE, RESUME_OFFSET};
use crate::models::ns3dc::{AbmParams, DcParams, Ns3Dc, PerQueue};
use crate::models::{Model, Modelled};
use schemars::JsonSchema;
use serde::Deserialize;
use toml::{Table, Value};
use weir_config::{Config, LEAST_CHARGE, PgConfig};
use weir_dataplane::drops::DropReason;
use weir_dataplane::mmu::{
    Admission, AdmitVerdict, Limit, Mmu, PERSISTENT, PgIx, PgParams, PgView, PoolId, QueueIx, QueueView,
};
use weir_dataplane::switch::SwitchParams;
use weir_dataplane::types::PRIORITIES;

/// `buffer.policy` of `[switch.config]`: a name, or a table of `kind` and the constants of that kind.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Policy {
    /// The MMU of the switch on DPDK.
    Weir {},
    /// The MMU of the HPCC simulator.
    Hpcc {
        /// Reserve of each ingress group, taken off the pool once per port (DEV-53).
        #[serde(default = "hpcc_reserve")]
        reserve: Size,
        /// A paused group resumes this far below its threshold.
        #[serde(default = "hpcc_resume_offset")]
        resume_offset: Size,
    },
    /// Dynamic thresholds of ns3-datacenter.
    Dt {},
    /// Active buffer management, of the same.
    Abm {
        /// Rates of queues are measured over windows of this length.
        #[serde(default = "abm_window")]
        window: Duration,
    },
    /// Reverie, of the same.
    Reverie {
        /// Bytes that lossless and lossy frames share; all but the headroom unless given.
        shared_pool: Option<Size>,
    },
}

/// Of the simulator as published.
const fn hpcc_reserve() -> Size {
    Size::of(RESERVE as u64)
}

/// Of the simulator as published.
const fn hpcc_resume_offset() -> Size {
    Size::of(RESUME_OFFSET as u64)
}

/// That of the published run at 25 Gb/s.
const fn abm_window() -> Duration {
    Duration::of(25_000)
}

fn wrong(problem: impl std::fmt::Display) -> FabricError {
    FabricError::Policy(problem.to_string())
}

const NO_CONTROL: &str = "a published model has no pool for CNPs";

/// Takes `buffer.policy` out of a switch configuration: the rest is one that runs on DPDK.
pub(super) fn take(config: &mut Table) -> Option<Value> {
    config.get_mut("buffer")?.as_table_mut()?.remove("policy")
}

/// The words `kind` can be.
pub(super) const KINDS: [&str; 5] = ["weir", "hpcc", "dt", "abm", "reverie"];

/// What a reader says of a table, and of a constant that other policies have: which.
fn of_another(message: &str) -> String {
    let refused = |message: &str| message.strip_prefix("unknown field `").map(str::to_owned);
    let Some(rest) = refused(message) else { return message.to_owned() };
    let key = rest.split('`').next().unwrap_or_default();
    let has = |kind: &&str| {
        let table = [("kind", *kind), (key, "")];
        let table: Table = table.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        table.try_into::<Policy>().err().is_none_or(|error| refused(error.message()).is_none())
    };
    let kinds: Vec<&str> = KINDS.into_iter().filter(has).collect();
    match kinds[..] {
        [] => message.to_owned(),
        _ => format!("{message}; `{key}` is a key of kind {}: choose that, or take it out", kinds.join(", ")),
    }
}

impl Policy {
    /// The policy a spec asks for.
    ///
    /// # Errors
    /// [`FabricError::Policy`]: not a policy, a constant that is not its own, or nothing for this kind of switch.
    pub(super) fn of(spec: &FabricSpec) -> Result<Self, FabricError> {
        let said = match take(&mut spec.switch.config.clone()) {
            None => return Ok(Self::Weir {}),
            Some(Value::String(kind)) => Table::from_iter([("kind".to_owned(), Value::String(kind))]),
            Some(Value::Table(table)) => table,
            Some(_) => {
                return Err(wrong(
                    "write a name, as \"dt\", or a table, as { kind = \"abm\", window = \"25us\" }",
                ));
            }
        };
        let policy: Self = said.try_into().map_err(|e: toml::de::Error| wrong(of_another(e.message())))?;
        match policy {
            Self::Weir {} => {}
            _ if spec.switch.core != CoreKind::OutputQueued => {
                return Err(wrong(
                    "behind a crossbar each input has a memory of its own, and a published model is one buffer: \
                     take `switch.core` out, or the policy",
                ));
            }
            _ if spec.workloads.iter().any(|w| w.frames == FrameType::Type2) => {
                return Err(wrong(
                    "a published model has no word for frames that go to several ports: take the workloads with \
                     `type = \"type2\"` out, or the policy",
                ));
            }
            Self::Abm { window: Duration { 0: 0, .. } } => {
                return Err(wrong("`window` is 0; it must be 1ns or more"));
            }
            _ => {}
        }
        Ok(policy)
    }

    /// The limit of an ingress group, in words.
    pub(super) fn limit(&self) -> &'static str {
        match self {
            Self::Weir {} | Self::Hpcc { .. } | Self::Dt {} => "alpha x free",
            Self::Abm { .. } => {
                "alpha x free, over the congested groups of its priority and by the rate it is sent from at"
            }
            Self::Reverie { .. } => "alpha x free, over the congested groups of its priority",
        }
    }

    /// How often [`Buffer::end_window`] is due.
    pub(super) fn window(&self) -> Option<Duration> {
        match self {
            Self::Abm { window } => Some(*window),
            _ => None,
        }
    }

    /// That limits of profiles which are written (`said` is the configuration as written) have a meaning in the model. Those that a
    /// preset brings are left out where they have none.
    ///
    /// # Errors
    /// [`FabricError::Policy`]: the first that has none.
    pub(super) fn check_limits(&self, said: &Table, config: &Config) -> Result<(), FabricError> {
        let buffer = said.get("buffer");
        let idle_pools: &[(&str, &str)] = match self {
            Self::Weir {} => &[],
            Self::Hpcc { .. } => &[
                ("egress_lossy_pool", "hpcc has one pool, and no limit at egress"),
                ("control_bytes", NO_CONTROL),
            ],
            Self::Reverie { .. } => &[
                ("egress_lossy_pool", "reverie has one pool for lossless and lossy frames, `shared_pool`"),
                ("control_bytes", NO_CONTROL),
            ],
            Self::Dt {} | Self::Abm { .. } => &[("control_bytes", NO_CONTROL)],
        };
        if let Some((key, why)) =
            idle_pools.iter().find(|(key, _)| buffer.is_some_and(|b| b.get(key).is_some()))
        {
            return Err(wrong(format!(
                "`buffer.{key}` has no effect: {why}; take it out, or use another policy"
            )));
        }
        let profiles = buffer.and_then(|buffer| buffer.get("profile")).and_then(Value::as_array);
        for profile in profiles.into_iter().flatten() {
            let name = profile.get("name").and_then(Value::as_str).unwrap_or_default();
            let index = config.buffer.profiles.iter().position(|known| known == name);
            let Some(index) = index else { continue };
            let idle = |key: &str, why: &str, remedy: &str| {
                Err(wrong(format!(
                    "`{key}` of the profile \"{name}\" has no effect: {why}; {remedy}, or use another policy"
                )))
            };
            let queues = || config.ports.iter().flat_map(|port| &port.queues).filter(|q| q.profile == index);
            let groups = || config.ports.iter().flat_map(|port| &port.pgs).filter(|pg| pg.profile == index);
            if let Self::Hpcc { .. } = self
                && let Some(key) = ["xon", "xon_offset"].into_iter().find(|key| profile.get(key).is_some())
            {
                return idle(
                    key,
                    "groups of hpcc resume by its own `resume_offset`",
                    "set that, and take it out",
                );
            }
            if profile.get("reserved").is_some() {
                match self {
                    Self::Weir {} => {}
                    Self::Hpcc { .. } => {
                        return idle(
                            "reserved",
                            "each port of hpcc has its own `reserve`",
                            "set that, and take it out",
                        );
                    }
                    _ if groups().next().is_none() => {
                        return idle("reserved", "a published model has no reserve at egress", "take it out");
                    }
                    _ => {}
                }
            }
            let key = ["dynamic_th", "static_th"].into_iter().find(|key| profile.get(key).is_some());
            let Some(key) = key else { continue };
            let without = |why: &str, remedy: &str| idle(key, why, remedy);
            let mut lossy = config.ports.iter().flat_map(|port| {
                let of_profile = move |pg: &&PgConfig| pg.profile == index && !pg.lossless;
                port.pgs.iter().filter(of_profile).map(move |pg| (port, pg))
            });
            match self {
                Self::Weir {} | Self::Dt {} | Self::Abm { .. } => {}
                Self::Hpcc { .. } if queues().next().is_some() => {
                    return without("hpcc has no limit at egress", "take it out");
                }
                Self::Hpcc { .. }
                    if lossy
                        .any(|(port, pg)| pg.shared != alpha_group(&port.pgs, |pg| pg.lossless).shared) =>
                {
                    return without(
                        "hpcc has one alpha per port, that of lossless groups",
                        "take it out, or give the profile of lossless groups the same",
                    );
                }
                Self::Hpcc { .. } => {}
                Self::Reverie { .. } if lossy.next().is_some() => {
                    return without(
                        "reverie judges lossy frames at egress only",
                        "take it out, and set that of the profile of their queues",
                    );
                }
                Self::Reverie { .. } if queues().any(|queue| queue.lossless) => {
                    return without(
                        "reverie judges lossless frames at ingress only",
                        "take it out, and set that of the profile of their groups",
                    );
                }
                Self::Reverie { .. } => {}
            }
        }
        Ok(())
    }

    /// The buffer of one switch; `rates` are those of its ports in bit/s.
    pub(super) fn build(&self, params: &SwitchParams, rates: &[u64]) -> Result<Buffer, FabricError> {
        let mmu = &params.mmu;
        let model: Box<dyn Model> = match self {
            Self::Weir {} => return Ok(Buffer::Weir(Mmu::new(mmu.clone()).map_err(wrong)?)),
            Self::Hpcc { reserve, resume_offset } => Box::new(hpcc(params, *reserve, *resume_offset)?),
            Self::Dt {} => Box::new(Ns3Dc::dt(dc(params)?).map_err(wrong)?),
            Self::Abm { window } => {
                let port_bps = rates.iter().map(|rate| *rate as f64).collect();
                let window = AbmParams { window_ns: window.0 as f64, port_bps };
                Box::new(Ns3Dc::abm(dc(params)?, window).map_err(wrong)?)
            }
            Self::Reverie { shared_pool } => {
                let dc = dc(params)?;
                let pool = shared_pool.map_or(dc.ingress_pool, |size| size.0);
                if pool > dc.ingress_pool {
                    return Err(wrong(format!(
                        "`shared_pool` is {pool} bytes; {} are left of the buffer beside the headroom",
                        dc.ingress_pool
                    )));
                }
                Box::new(Ns3Dc::reverie(dc, pool).map_err(wrong)?)
            }
        };
        Ok(Buffer::Model(Modelled::new(model, mmu.pgs.iter().map(|pg| pg.lossless))))
    }
}

/// What no model has a word for.
fn check(params: &SwitchParams) -> Result<(), FabricError> {
    let mmu = &params.mmu;
    mmu.shared().map_err(wrong)?;
    if mmu.headroom_pool.is_some() {
        return Err(wrong(
            "a published model has no headroom that groups share: take `buffer.headroom_pool` out, or use policy = \"weir\"",
        ));
    }
    if mmu.cell_bytes != 1 {
        return Err(wrong(
            "a published model counts bytes: take `buffer.cell_bytes` out, or use policy = \"weir\"",
        ));
    }
    if u64::from(mmu.least_charge) > LEAST_CHARGE {
        return Err(wrong(
            "a published model has no slots for frames: take `buffer.frames` out, or use policy = \"weir\"",
        ));
    }
    if mmu.port_ingress_limit.iter().chain(&mmu.port_egress_limit).any(Option::is_some) {
        return Err(wrong(
            "a published model has no limit for a whole port: take the limits of the ports out, or use policy = \"weir\"",
        ));
    }
    for (port, of) in params.ports.iter().enumerate() {
        for (group, queues) in of.pg_queues.iter().enumerate() {
            if mmu.pgs[port * PRIORITIES + group].lossless && *queues & !(1 << group) != 0 {
                return Err(wrong(format!(
                    "in a published model a frame has one priority, its group's and its queue's: lossless group {group} \
                     must have queue {group} and no other (`tc_to_pg`, `tc_to_queue`)"
                )));
            }
        }
    }
    Ok(())
}

/// The group whose frames go to `queue` of a port.
fn group_of(params: &SwitchParams, port: usize, queue: usize) -> usize {
    params.ports[port].pg_queues.iter().position(|queues| queues >> queue & 1 == 1).unwrap_or(queue)
}

/// Limits of that group.
fn pg_of(params: &SwitchParams, port: usize, queue: usize) -> &PgParams {
    &params.mmu.pgs[port * PRIORITIES + group_of(params, port, queue)]
}

/// Alpha of a limit; a constant has none.
fn alpha(limit: Limit, profile: &str) -> Result<f64, FabricError> {
    limit.alpha().ok_or_else(|| {
        wrong(format!(
            "a published model knows thresholds that are a part of what is free: give the {profile} `dynamic_th` instead \
             of `static_th`, or use policy = \"weir\""
        ))
    })
}

/// The group of a port whose alpha is that of the port, in a model that has no other: the first lossless one; where none is, group 0.
fn alpha_group<G>(groups: &[G], lossless: impl Fn(&G) -> bool) -> &G {
    groups.iter().find(|group| lossless(group)).unwrap_or(&groups[0])
}

/// One headroom and one power of two per port, as there.
fn hpcc(params: &SwitchParams, reserve: Size, resume_offset: Size) -> Result<Hpcc, FabricError> {
    check(params)?;
    let mmu = &params.mmu;
    let small = |what: &str, bytes: u64| {
        u32::try_from(bytes).map_err(|_| {
            wrong(format!("{what} is {bytes} bytes; hpcc counts in 32 bits: 4294967295 at most"))
        })
    };
    let of_port = |groups: &[PgParams]| -> Result<(u32, u32), FabricError> {
        let lossless = || groups.iter().filter(|pg| pg.lossless);
        let headroom = small("the headroom of a group", lossless().map(|pg| pg.headroom).max().unwrap_or(0))?;
        let first = alpha_group(groups, |pg| pg.lossless);
        let alpha = alpha(first.limit, "profiles of ingress groups")?;
        if let Some(other) = lossless().find(|pg| pg.limit.alpha() != Some(alpha)) {
            return Err(wrong(format!(
                "hpcc has one alpha per port, the profiles give {alpha} and {}: give all lossless groups of a port the \
                 same `dynamic_th`",
                other.limit.alpha().map_or("a constant".to_owned(), |alpha| alpha.to_string())
            )));
        }
        if alpha > 1.0 {
            return Err(wrong(format!(
                "hpcc shifts what is free to the right, so that alpha is 1 at most, and `dynamic_th` of the profile of the \
                 lossless groups of a port, of its group 0 where none is lossless, gives {alpha}: make it 0 or less, in a \
                 profile of that name if that of a preset has more"
            )));
        }
        Ok((headroom, (-alpha.log2()) as u32))
    };
    let ports = mmu.pgs.chunks(PRIORITIES).map(of_port).collect::<Result<Vec<_>, _>>()?;
    let (headroom, shift): (Vec<u32>, Vec<u32>) = ports.into_iter().unzip();
    let set_apart: u64 = headroom.iter().map(|headroom| u64::from(*headroom) + reserve.0).sum();
    if set_apart > mmu.total {
        return Err(wrong(format!(
            "headroom and `reserve` of {} ports are {set_apart} bytes, the buffer has {}: make `buffer.size` larger or \
             `reserve` smaller",
            headroom.len(),
            mmu.total
        )));
    }
    let params = HpccParams {
        buffer: small("the buffer", mmu.total)?,
        reserve: small("`reserve`", reserve.0)?,
        resume_offset: small("`resume_offset`", resume_offset.0)?,
        headroom,
        shift,
    };
    Hpcc::new(&params).map_err(wrong)
}

/// A part of what is free that no pool reaches, where only the pool is a limit.
const NO_LIMIT: f64 = 1e12;

/// Groups of the models are those of the queues: a lossy group of several queues is several groups there, of which the
/// one with its number has its reserve.
fn dc(params: &SwitchParams) -> Result<DcParams, FabricError> {
    check(params)?;
    let mmu = &params.mmu;
    let ports = mmu.ports();
    let per_queue = |of: &dyn Fn(usize, usize) -> u64| -> PerQueue<u64> {
        (0..ports).map(|port| std::array::from_fn(|queue| of(port, queue))).collect()
    };
    let pg = |port: usize, queue: usize| pg_of(params, port, queue);
    let alphas = |of: &dyn Fn(usize, usize) -> Limit, profile: &str| -> Result<PerQueue<f64>, FabricError> {
        let mut all = vec![[0.0; PRIORITIES]; ports];
        for (port, alphas) in all.iter_mut().enumerate() {
            for (queue, of_queue) in alphas.iter_mut().enumerate() {
                *of_queue = alpha(of(port, queue), profile)?.min(NO_LIMIT);
            }
        }
        Ok(all)
    };
    let lossless: Vec<&PgParams> = mmu.pgs.iter().filter(|pg| pg.lossless).collect();
    let resume = |of: fn(&PgParams) -> u64, key: &str| -> Result<u64, FabricError> {
        let first = lossless.first().map_or(0, |pg| of(pg));
        match lossless.iter().find(|pg| of(pg) != first) {
            None => Ok(first),
            Some(other) => Err(wrong(format!(
                "a published model has one `{key}` for all groups, the profiles give {first} and {}: give all lossless \
                 profiles the same",
                of(other)
            ))),
        }
    };
    let lossy_mask = lossy_queues(params)?;
    // A pool larger than the buffer is none.
    let of_pool = |pool: PoolId, all: u64| mmu.egress_pools[pool as usize].unwrap_or(all).min(mmu.total);
    let ingress_pool = mmu.total - mmu.headroom();
    Ok(DcParams {
        buffer: mmu.total,
        ingress_pool,
        egress_lossless_pool: of_pool(PoolId::Lossless, mmu.total),
        egress_lossy_pool: of_pool(PoolId::Lossy, ingress_pool),
        xoff: per_queue(&|port, queue| if pg(port, queue).lossless { pg(port, queue).headroom } else { 0 }),
        reserve: per_queue(&|port, queue| match group_of(params, port, queue) == queue {
            true => pg(port, queue).reserved,
            false => 0,
        }),
        alpha_ingress: alphas(&|port, queue| pg(port, queue).limit, "profiles of ingress groups")?,
        alpha_egress: alphas(
            &|port, queue| mmu.queues[port * PRIORITIES + queue].limit,
            "profiles of queues",
        )?,
        xon: resume(|pg| pg.xon, "xon")?,
        xon_offset: resume(|pg| pg.xon_offset, "xon_offset")?,
        lossy_mask,
    })
}

/// Queues (a bit each) whose group is lossy, the same at every port.
fn lossy_queues(params: &SwitchParams) -> Result<u8, FabricError> {
    let of_port = |port: usize| {
        let lossy = |queue: &usize| !pg_of(params, port, *queue).lossless;
        (0..PRIORITIES).filter(lossy).fold(0u8, |mask, queue| mask | 1 << queue)
    };
    let mask = of_port(0);
    match (1..params.mmu.ports()).find(|port| of_port(*port) != mask) {
        None => Ok(mask),
        Some(_) => Err(wrong(
            "in a published model a priority is lossy at all ports or at none: give all ports the same lossless groups, or \
             use policy = \"weir\"",
        )),
    }
}

/// [`Buffer::resumes_at`] in a published model, of a group that holds so many bytes besides headroom and in it. The threshold is
/// looked at when a frame of the group leaves, and may have moved by then.
pub(super) fn model_resumes_at(used: u64, headroom: u64) -> u64 {
    used.min((used + headroom).saturating_sub(1))
}

/// The buffer of a switch under one of the policies.
#[expect(
    clippy::large_enum_variant,
    reason = "one for each switch, and no step more to the one in nearly all of them"
)]
pub(super) enum Buffer {
    Weir(Mmu),
    Model(Modelled<Box<dyn Model>>),
}

impl Buffer {
    /// Bytes that groups share in a model; `None`: it is weir's MMU, whose configuration says.
    pub(super) fn shared(&self) -> Option<u64> {
        match self {
            Self::Weir(_) => None,
            Self::Model(model) => Some(model.model().shared_bytes()),
        }
    }

    /// Most bytes of headroom that all groups held together; 0 in a model, whose groups share none.
    pub(super) fn headroom_peak(&self) -> u64 {
        match self {
            Self::Weir(mmu) => mmu.pools().headroom_peak.peak(PERSISTENT),
            Self::Model(_) => 0,
        }
    }

    /// A lossless group holds its upstream back although it holds nothing. Weir's MMU lets go of one that is empty.
    pub(super) fn pauses_for_nothing(&self, pg: PgIx) -> bool {
        let Self::Model(model) = self else { return false };
        let group = model.pg_view(pg);
        group.lossless && group.xoff && group.used + group.headroom == 0
    }

    /// Most bytes a group in Xoff can hold, headroom included, when it resumes. Headroom empties first, so what is more than it holds
    /// outside of it does not resume, however the threshold moves.
    pub(super) fn resumes_at(&self, group: &PgView) -> u64 {
        match self {
            Self::Weir(_) => group.used.min(group.xon_at),
            Self::Model(_) => model_resumes_at(group.used, group.headroom),
        }
    }

    /// Most headroom, bytes, that all groups together can hold when that group resumes: what is left suffices for its next Xoff.
    pub(super) fn headroom_at(&self, group: &PgView) -> u64 {
        match self {
            Self::Weir(mmu) => mmu.pools().headroom_size.saturating_sub(group.headroom_limit),
            Self::Model(_) => u64::MAX,
        }
    }

    /// A measuring window has ended.
    pub(super) fn end_window(&mut self) {
        if let Self::Model(model) = self {
            model.end_window();
        }
    }
}

/// Hands a call to whichever buffer there is.
macro_rules! either {
    ($self:ident, $buffer:ident => $call:expr) => {
        match $self {
            Buffer::Weir($buffer) => $call,
            Buffer::Model($buffer) => $call,
        }
    };
}

/// What concerns several shards stays with the default: a simulated switch has one.
impl Admission for Buffer {
    #[inline]
    fn admit(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> AdmitVerdict {
        either!(self, buffer => buffer.admit(pg, queue, bytes))
    }

    #[inline]
    fn admit_together(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> bool {
        either!(self, buffer => buffer.admit_together(pg, queue, bytes))
    }

    #[inline]
    fn pass(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> bool {
        either!(self, buffer => buffer.pass(pg, queue, bytes))
    }

    fn admit_ingress(&mut self, pg: PgIx, bytes: u32) -> AdmitVerdict {
        either!(self, buffer => buffer.admit_ingress(pg, bytes))
    }

    fn admit_ingress_together(&mut self, pg: PgIx, bytes: u32) -> bool {
        either!(self, buffer => buffer.admit_ingress_together(pg, bytes))
    }

    fn admit_egress(&mut self, queue: QueueIx, bytes: u32) -> Result<(), DropReason> {
        either!(self, buffer => buffer.admit_egress(queue, bytes))
    }

    #[inline]
    fn release_egress(&mut self, queue: QueueIx, bytes: u32) {
        either!(self, buffer => buffer.release_egress(queue, bytes));
    }

    #[inline]
    fn release_ingress(&mut self, pg: PgIx, bytes: u32) -> bool {
        either!(self, buffer => buffer.release_ingress(pg, bytes))
    }

    fn resume_moved(&mut self, resume: &mut dyn FnMut(PgIx)) {
        either!(self, buffer => buffer.resume_moved(resume));
    }

    fn held_bytes(&self) -> u64 {
        either!(self, buffer => buffer.held_bytes())
    }

    #[inline]
    fn charge(&self, len: u32) -> u32 {
        either!(self, buffer => buffer.charge(len))
    }

    fn charge_for_copies(&self, charge: u32, copies: u32) -> u32 {
        either!(self, buffer => buffer.charge_for_copies(charge, copies))
    }

    #[inline]
    fn control_pg(&self) -> Option<PgIx> {
        either!(self, buffer => buffer.control_pg())
    }

    fn is_lossless(&self, pg: PgIx) -> bool {
        either!(self, buffer => buffer.is_lossless(pg))
    }

    fn pg_view(&self, pg: PgIx) -> PgView {
        either!(self, buffer => buffer.pg_view(pg))
    }

    fn queue_view(&self, queue: QueueIx) -> QueueView {
        either!(self, buffer => buffer.queue_view(queue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_those_of_the_enum() {
        let odd = Table::from_iter([("kind".to_owned(), Value::from("odd"))]);
        let refused = odd.try_into::<Policy>().unwrap_err().to_string();
        let listed = KINDS.map(|kind| format!("`{kind}`")).join(", ");
        assert!(refused.contains(&format!("expected one of {listed}\n")), "{refused:?}");
    }
}
