//! `[buffer]`: profiles and what they are bound to, and the one division of the buffer.

use super::diag::Span;
use super::headroom::{Charged, auto_headroom, longest_leaving, warn_if_short, xon_offset};
use super::port::PortAt;
use super::read::{Ctx, Origin, Section};
use super::sched::{explained_ports, lookup, named, select, warn_unused};
use super::schema;
use super::types::{
    BufferConfig, Direction, Division, Memories, PgConfig, PortConfig, QueueConfig, SchedulerConfig,
    SchedulerType, SharedLimit, workers,
};
use super::units::{BOOL, BOUND, Bound, SIZE, SIZE_OR_AUTO, show_size};
use std::collections::HashSet;
use weir_dataplane::turn::Turns;

/// Bytes of a frame slot by default, which a frame is charged at least: it is seldom shorter.
pub const LEAST_CHARGE: u64 = 64;

/// Largest buffer.
pub(super) const LARGEST: u64 = 1 << 40;

/// Guaranteed bytes of a priority group (DEV-19).
const PG_RESERVED: u64 = 4096;

/// A limit on shared use as written.
#[derive(Clone, Copy)]
pub(super) enum Written {
    /// `dynamic_th`.
    Dynamic(i8),
    /// `static_th`.
    Static(Bound),
}

impl Written {
    /// With `shared` bytes to share.
    fn resolve(self, shared: u64) -> SharedLimit {
        match self {
            Self::Dynamic(n) => SharedLimit::Dynamic(n),
            Self::Static(Bound::Bytes(bytes)) => SharedLimit::Static(bytes),
            Self::Static(Bound::Share(ppm)) => {
                SharedLimit::Static((u128::from(shared) * u128::from(ppm) / 1_000_000) as u64)
            }
        }
    }
}

/// A profile as written, before it meets a port.
pub(super) struct Profile {
    pub name: String,
    pub direction: Direction,
    pub reserved: u64,
    pub limit: Written,
    pub xon: u64,
    pub xon_offset: Option<u64>,
    /// `None`: computed for each port.
    pub xoff: Option<u64>,
    pub lossless: bool,
    /// Where the limits stand.
    pub at: Span,
    pub xon_at: Span,
    pub xoff_at: Span,
}

/// Where the pools are said, for checks.
pub(super) struct BufferAt {
    pub size: Span,
    pub frames: Span,
    pub pool: Span,
}

/// Limits of groups and queues nobody bound: profiles 0 and 1.
pub(super) fn base() -> (PgConfig, QueueConfig) {
    let shared = SharedLimit::Dynamic(0);
    let pg = PgConfig {
        profile: 0,
        reserved: PG_RESERVED,
        shared,
        xon: 0,
        xon_offset: 0,
        xoff: 0,
        lossless: false,
    };
    let scheduler =
        SchedulerConfig { kind: SchedulerType::Dwrr, weight: 1, priority: None, cir: None, pir: None };
    let queue = QueueConfig {
        profile: 1,
        reserved: 0,
        shared,
        lossless: false,
        scheduler,
        scheduler_profile: None,
        wred: None,
        wred_profile: None,
    };
    (pg, queue)
}

fn base_profiles() -> Vec<Profile> {
    let profile = |name: &str, direction, reserved| Profile {
        name: name.into(),
        direction,
        reserved,
        limit: Written::Dynamic(0),
        xon: 0,
        xon_offset: None,
        xoff: Some(0),
        lossless: false,
        at: Span::default(),
        xon_at: Span::default(),
        xoff_at: Span::default(),
    };
    vec![
        profile("ingress_default", Direction::Ingress, PG_RESERVED),
        profile("egress_default", Direction::Egress, 0),
    ]
}

/// Everything `[buffer]` says, laid over the ports: limits last, since shares are of what is left to share.
pub(super) fn read(
    ctx: &mut Ctx<'_>,
    root: &Section<'_>,
    memories: Memories,
    (ports, at, turns): (&mut [PortConfig], &[PortAt], &[Turns]),
    mirrored: bool,
) -> (BufferConfig, Vec<Profile>, BufferAt) {
    let s = root.table(ctx, "buffer", &schema::BUFFER);
    let mut profiles = base_profiles();
    let mut names = Vec::new();
    for (name, section) in named(ctx, &s, "profile", &schema::PROFILE) {
        if profiles.iter().any(|p| p.name == name.v) {
            let message = format!("`{}` is weir's own profile of unbound groups and queues", name.v);
            ctx.error(name.span, "name.duplicate", message, "choose another name");
            continue;
        }
        profiles.push(read_profile(ctx, &section, name.v.clone()));
        names.push((name, profiles.len() - 1));
    }
    let size = s.or(ctx, "size", &SIZE, 16 << 20, "that of a small data-centre switch");
    let size = s.within(ctx, "size", size, &(64 << 10..=LARGEST), |n| show_size(*n));
    let size_at = s.raw(ctx, "size").map_or_else(|| s.span(ctx), |r| r.span);
    let size = size.map_or(16 << 20, |v| v.v);
    let cell = s.int_or(ctx, "cell_bytes", 0..=4096, 1, "bytes are counted, not cells").v.max(1);
    let smallest = cell.max(LEAST_CHARGE);
    let frames =
        s.int_or(ctx, "frames", 64..=1 << 32, size.div_ceil(smallest), "enough for the smallest frames");
    let control = s.or(ctx, "control_bytes", &SIZE, 256 << 10, "a burst of CNPs never waits for data").v;
    let (mirrors, why) = match mirrored {
        true => (256 << 10, "copies take nothing else of the buffer"),
        false => (0, "there are no mirrors to a port"),
    };
    let mirrors = s.or(ctx, "mirror_bytes", &SIZE, mirrors, why).v;
    let lossy = s.or(ctx, "egress_lossy_pool", &SIZE, size, "all of the buffer");
    let lossy = s.within(ctx, "egress_lossy_pool", lossy, &(0..=LARGEST), |n| show_size(*n));
    let egress_lossy_pool = lossy.map_or(size, |v| v.v);
    let mut buffer = BufferConfig {
        size,
        frames: frames.v,
        cell_bytes: cell,
        control_bytes: control,
        mirror_bytes: mirrors,
        reserved: 0,
        headroom: 0,
        headroom_pooled: false,
        staleness: 0,
        shared: 0,
        of_ports: Vec::new(),
        egress_lossy_pool,
        profiles: profiles.iter().map(|p| p.name.clone()).collect(),
    };
    let why = format!("size {size} / frames {}: what each takes of the memory for frames", frames.v);
    ctx.explain("buffer.least_charge", show_size(buffer.least_charge().into()), Origin::Derived, why);
    bind(ctx, &s, &profiles, ports);
    let groups = ports.iter().flat_map(|port| port.pgs.iter().map(|pg| pg.profile));
    let queues = ports.iter().flat_map(|port| port.queues.iter().map(|queue| queue.profile));
    let in_use: HashSet<usize> = groups.chain(queues).collect();
    let used = names.iter().map(|(name, i)| (name, in_use.contains(i)));
    warn_unused(ctx, "profile", "`profile` of [[buffer.pg]] or [[buffer.queue]]", used);
    let charged = |(port, turns)| Charged { turns, leaving: longest_leaving(port, ports), buffer: &buffer };
    let charged: Vec<Charged<'_>> = ports.iter().zip(turns.iter().copied()).map(charged).collect();
    for ((port, at), charged) in ports.iter_mut().zip(at).zip(&charged) {
        resolve_groups(ctx, &profiles, port, at, *charged);
    }
    for (i, profile) in profiles.iter().enumerate() {
        if let Some(xoff) = profile.xoff.filter(|xoff| *xoff > 0) {
            let bound = |(port, _): &(&PortConfig, Charged<'_>)| port.pgs.iter().any(|pg| pg.profile == i);
            let on = ports.iter().zip(charged.iter().copied()).filter(bound);
            warn_if_short(ctx, (&profile.name, xoff, profile.xoff_at), on);
        }
    }
    for item in s.items(ctx, "port", &schema::BUFFER_PORT) {
        let ingress = item.get(ctx, "ingress_limit", &SIZE).map(|v| v.v);
        let egress = item.get(ctx, "egress_limit", &SIZE).map(|v| v.v);
        for port in explained_ports(ctx, &item, ports) {
            ports[port].ingress_limit = ingress.or(ports[port].ingress_limit);
            ports[port].egress_limit = egress.or(ports[port].egress_limit);
        }
    }

    let receivers: Vec<&[PortConfig]> = match memories {
        Memories::Shared => vec![&*ports],
        Memories::PerPort => ports.chunks(1).collect(),
    };
    let reserved = |ports: &&[PortConfig]| {
        ports.iter().flat_map(|p| &p.pgs).fold(0u64, |sum, pg| sum.saturating_add(pg.reserved))
    };
    let (headrooms, pooled, pool_at) = headrooms(ctx, &s, &receivers);
    let divided = receivers.iter().map(reserved).zip(headrooms);
    let mut divisions: Vec<Division> =
        divided.map(|(reserved, headroom)| Division { reserved, headroom, shared: 0 }).collect();
    buffer.headroom_pooled = pooled;
    buffer.staleness = buffer.staleness_of(ports, workers(ports));
    if buffer.staleness > 0 {
        let why = "a burst of the longest frames for each further worker: what it admits before it says so";
        ctx.explain("buffer.staleness", show_size(buffer.staleness), Origin::Derived, why);
    }
    for Division { reserved, headroom, shared } in &mut divisions {
        (buffer.reserved, buffer.headroom) = (*reserved, *headroom);
        *shared = size.saturating_sub(buffer.promised());
    }
    if let Some(least) = divisions.iter().max_by_key(|d| d.reserved.saturating_add(d.headroom)) {
        Division { reserved: buffer.reserved, headroom: buffer.headroom, shared: buffer.shared } = *least;
    }
    if memories == Memories::PerPort {
        buffer.of_ports = divisions;
    }
    for (i, port) in ports.iter_mut().enumerate() {
        let own = buffer.of_port(i).shared;
        port.pgs.iter_mut().for_each(|pg| pg.shared = profiles[pg.profile].limit.resolve(own));
        // What comes by any port may wait there: a share is one of the least.
        let queues = port.queues.iter_mut();
        queues.for_each(|queue| queue.shared = profiles[queue.profile].limit.resolve(buffer.shared));
    }
    let division = format!("{}: what dynamic_th divides", buffer.division());
    ctx.explain("buffer.shared", show_size(buffer.shared), Origin::Derived, division);
    (buffer, profiles, BufferAt { size: size_at, frames: frames.span, pool: pool_at })
}

fn read_profile(ctx: &mut Ctx<'_>, s: &Section<'_>, name: String) -> Profile {
    let direction = s.or(ctx, "direction", &Direction::KIND, Direction::Ingress, "groups hold frames back").v;
    let ingress = direction == Direction::Ingress;
    let default = if ingress { PG_RESERVED } else { 0 };
    let reserved = s.or(ctx, "reserved", &SIZE, default, "DEV-19: a guarantee of a few frames").v;
    let lossless = s.or(ctx, "lossless", &BOOL, false, "only what is said to be is").v;
    let dynamic = s.signed(ctx, "dynamic_th", -8..=7);
    let fixed = s.get(ctx, "static_th", &BOUND);
    // The user's own threshold replaces that of a preset's profile; two of the same layer contradict.
    let own = |o: &Origin| !matches!(o, Origin::Preset(_));
    let limit = match (&dynamic, &fixed) {
        (Some(d), Some(f)) if own(&d.origin) == own(&f.origin) => {
            let message = format!("`{name}` has dynamic_th = {} and static_th = {}", d.v, (BOUND.show)(&f.v));
            ctx.error(f.span, "profile.threshold", message, "keep one of them");
            Written::Static(f.v)
        }
        (Some(d), f) if f.is_none() || own(&d.origin) => Written::Dynamic(d.v as i8),
        (_, Some(f)) => Written::Static(f.v),
        _ => Written::Dynamic(0),
    };
    let at = fixed.map(|f| f.span).or(dynamic.map(|d| d.span)).unwrap_or_else(|| s.span(ctx));
    let (value, alone) = match limit {
        Written::Dynamic(n) => (
            format!("up to 2^{n} x free shared buffer"),
            format!("N equal users each settle at a/(1 + N a) of it, a = 2^{n}"),
        ),
        Written::Static(Bound::Bytes(n)) => (show_size(n), String::new()),
        Written::Static(share) => (format!("{} of the shared buffer", (BOUND.show)(&share)), String::new()),
    };
    let origin =
        s.raw(ctx, "static_th").or_else(|| s.raw(ctx, "dynamic_th")).map_or(Origin::Default, |r| r.origin);
    if lossless && !ingress && matches!(origin, Origin::File { .. }) {
        let message = format!(
            "the limit of lossless egress profile `{name}` limits nothing: what waits in a lossless queue is held back at \
             its priority groups, and never dropped for want of room in the queue"
        );
        ctx.warn(at, "profile.unlimited", message, "remove it, or write lossless = false");
    }
    ctx.explain(s.key("limit"), value, origin, alone);
    let xon = s.or(ctx, "xon", &SIZE, 0, "the resume point follows the moving limit by xon_offset");
    let xon_offset = s.get(ctx, "xon_offset", &SIZE).map(|v| v.v);
    let xoff = s.get(ctx, "xoff", &SIZE_OR_AUTO);
    if let Some(x) = &xoff
        && !(lossless && ingress)
    {
        let message = format!("`{name}` has headroom but is not a lossless ingress profile");
        ctx.error(
            x.span,
            "profile.headroom",
            message,
            "set lossless = true and direction = \"ingress\", or remove xoff",
        );
    }
    let xoff_at = xoff.as_ref().map_or(at, |x| x.span);
    let xoff = if lossless && ingress { xoff.and_then(|x| x.v) } else { Some(0) };
    if lossless && ingress && xoff == Some(0) {
        let at = s.raw(ctx, "xoff").map_or(at, |r| r.span);
        let message =
            format!("lossless profile `{name}` has no headroom: what is in flight at Xoff would be lost");
        ctx.error(at, "profile.headroom", message, "set xoff = \"auto\" or a size above 0");
    }
    let xon_at = xon.span;
    Profile { name, direction, reserved, limit, xon: xon.v, xon_offset, xoff, lossless, at, xon_at, xoff_at }
}

fn bind(ctx: &mut Ctx<'_>, s: &Section<'_>, profiles: &[Profile], ports: &mut [PortConfig]) {
    for (key, schema, which, wants) in [
        ("pg", &schema::BUFFER_PG, "pgs", Direction::Ingress),
        ("queue", &schema::BUFFER_QUEUE, "queues", Direction::Egress),
    ] {
        for item in s.items(ctx, key, schema) {
            let (on, indices) = (explained_ports(ctx, &item, ports), select(ctx, &item, which));
            let here = item.raw(ctx, "profile").map_or_else(|| item.span(ctx), |r| r.span);
            let found = lookup(ctx, &item, "profile", profiles.iter().map(|p| p.name.as_str()));
            let Some(index) = found else {
                if item.raw(ctx, "profile").is_none() {
                    ctx.error(here, "required", "the binding names no profile", "add profile = \"NAME\"");
                }
                continue;
            };
            let profile = &profiles[index];
            if profile.direction != wants {
                let message = format!(
                    "`{}` is an {} profile, {which} take {} ones",
                    profile.name,
                    profile.direction.word(),
                    wants.word()
                );
                ctx.error(here, "profile.direction", message, "name a profile of the other direction");
                continue;
            }
            for port in on {
                for &i in &indices {
                    let i = usize::from(i);
                    if wants == Direction::Ingress {
                        ports[port].pgs[i].profile = index;
                    } else {
                        let queue = &mut ports[port].queues[i];
                        (queue.profile, queue.reserved, queue.lossless) =
                            (index, profile.reserved, profile.lossless);
                    }
                }
            }
        }
    }
}

/// Fills in a port's groups; an automatic headroom is computed once per port.
fn resolve_groups(
    ctx: &mut Ctx<'_>,
    profiles: &[Profile],
    port: &mut PortConfig,
    at: &PortAt,
    charged: Charged<'_>,
) {
    let mut auto: Option<Option<u64>> = None;
    for pg in 0..8 {
        let profile = &profiles[port.pgs[pg].profile];
        let xoff = match profile.xoff {
            Some(xoff) => xoff,
            None => auto.get_or_insert_with(|| auto_headroom(ctx, port, at, charged)).unwrap_or(0),
        };
        port.pgs[pg] = PgConfig {
            profile: port.pgs[pg].profile,
            reserved: profile.reserved,
            shared: port.pgs[pg].shared,
            xon: profile.xon,
            xon_offset: profile.xon_offset.unwrap_or_else(|| xon_offset(port.mtu.into())),
            xoff,
            lossless: profile.lossless,
        };
    }
}

/// Bytes that each memory sets aside for headroom, by the ports that receive into it, whether it is pooled, and where the pool is said.
fn headrooms(ctx: &mut Ctx<'_>, s: &Section<'_>, receivers: &[&[PortConfig]]) -> (Vec<u64>, bool, Span) {
    let need = |ports: &&[PortConfig]| {
        let groups = ports.iter().flat_map(|p| &p.pgs).filter(|pg| pg.lossless);
        groups.fold((0u64, 0), |(sum, most), pg| (sum.saturating_add(pg.xoff), pg.xoff.max(most)))
    };
    let needs: Vec<(u64, u64)> = receivers.iter().map(need).collect();
    let sum = needs.iter().map(|(sum, _)| *sum).max().unwrap_or(0);
    let pool = s.get(ctx, "headroom_pool", &SIZE);
    let ratio = s.int(ctx, "over_subscribe_ratio", 1..=64);
    let (bytes, at): (Vec<u64>, Span) = match (&pool, &ratio) {
        (Some(pool), Some(ratio)) => {
            let message = format!(
                "headroom_pool = {} and over_subscribe_ratio = {} both size the pool",
                pool.v, ratio.v
            );
            ctx.error(ratio.span, "headroom.pool", message, "keep one of them");
            (vec![pool.v; needs.len()], pool.span)
        }
        (Some(pool), None) => (vec![pool.v; needs.len()], pool.span),
        (None, Some(ratio)) => {
            let bytes = sum.div_ceil(ratio.v);
            let why = format!("sum of headrooms {sum} / ratio {}", ratio.v);
            ctx.explain("buffer.headroom_pool", show_size(bytes), ratio.origin.clone(), why);
            (needs.iter().map(|(sum, _)| sum.div_ceil(ratio.v)).collect(), ratio.span)
        }
        (None, None) => {
            let why = "sum over lossless groups: each has its own";
            ctx.explain("buffer.headroom", show_size(sum), Origin::Derived, why);
            return (needs.iter().map(|(sum, _)| *sum).collect(), false, s.span(ctx));
        }
    };
    let short = bytes.iter().zip(&needs).filter(|(bytes, (_, most))| *bytes < most);
    if let Some((bytes, (_, most))) = short.max_by_key(|(_, (_, most))| *most) {
        let message =
            format!("the headroom pool of {bytes} bytes is smaller than one group's headroom of {most}");
        ctx.error(at, "headroom.pool", message, format!("make the pool at least {}", show_size(*most)));
    }
    (bytes, true, at)
}
