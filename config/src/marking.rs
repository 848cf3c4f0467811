//! Marking thresholds per queue, held against the Xoff points they must act before.

use std::collections::HashSet;

use super::diag::Span;
use super::port::PortAt;
use super::read::{Ctx, Origin};
use super::sched::{Marks, Wred};
use super::types::{BufferConfig, DeviceKind, PgConfig, PortConfig, SharedLimit, WredConfig};
use super::units::{SHARE, Threshold, show_rate, show_size};
use weir_dataplane::mmu::headroom::bytes_in;
use weir_dataplane::turn::{Platform, Turns};
use weir_dataplane::types::Nanos;

/// Most bytes one user alone in the buffer may hold: its reserve and its part of the shared buffer,
/// `a / (1 + a)` of it for a dynamic threshold (formats table R5).
pub(super) fn alone(reserved: u64, limit: SharedLimit, shared: u64) -> u64 {
    let part = match limit {
        SharedLimit::Static(bytes) => bytes.min(shared),
        SharedLimit::Dynamic(n) if n >= 0 => ((u128::from(shared) << n) / ((1 << n) + 1)) as u64,
        SharedLimit::Dynamic(n) => shared / ((1 << n.unsigned_abs()) + 1),
    };
    reserved.saturating_add(part)
}

/// Fill at which a group alone in the buffer reaches Xoff: of the shared buffer it has no more than its port may hold.
pub(super) fn xoff_point(port: &PortConfig, pg: &PgConfig, shared: u64) -> u64 {
    let of_port = port.ingress_limit.unwrap_or(u64::MAX).saturating_add(pg.reserved);
    alone(pg.reserved, pg.shared, shared).min(of_port)
}

/// What to raise where a group, to which its port leaves so many shared bytes, reaches Xoff at `xoff` because of a limit in bytes;
/// `None`: it has its part of the buffer.
fn fixed_limit(of_port: u64, pg: &PgConfig, xoff: u64) -> Option<&'static str> {
    let holds = |bytes: u64| xoff == bytes.saturating_add(pg.reserved);
    match pg.shared {
        _ if holds(of_port) => Some("ingress_limit of the port"),
        SharedLimit::Static(bytes) if holds(bytes) => Some("static_th of the group"),
        _ => None,
    }
}

/// Shared bytes of each lossless group of a port when all of them are full, which its `ingress_limit` leaves them together.
fn most_of_group(port: &PortConfig) -> u64 {
    let groups = port.pgs.iter().filter(|pg| pg.lossless).count().max(1) as u64;
    port.ingress_limit.map_or(u64::MAX, |limit| limit / groups)
}

/// A shared buffer when every lossless group of the ports that receive into it is full: those with a static threshold have taken theirs,
/// or as much as there is for each, and N others settle at a / (1 + N a) of what is left (formats table R5).
pub(super) struct Crowd {
    /// Lossless groups.
    groups: usize,
    /// Size of the shared buffer.
    shared: u64,
    /// Shared bytes that there are for each group with a static threshold.
    each: u64,
    /// Bytes nobody holds then: what the shares of groups with a dynamic threshold are multiples of.
    free: u64,
}

impl Crowd {
    pub fn of<'p>(ports: &'p [PortConfig], shared: u64) -> Self {
        let groups = |p: &'p PortConfig| {
            let most = most_of_group(p);
            p.pgs.iter().filter(|pg| pg.lossless).map(move |pg| (pg.shared, most))
        };
        let all: Vec<(SharedLimit, u64)> = ports.iter().flat_map(groups).collect();
        let mut fixed: Vec<u64> = all
            .iter()
            .filter_map(|(limit, most)| match limit {
                SharedLimit::Static(bytes) => Some(*bytes.min(most)),
                SharedLimit::Dynamic(_) => None,
            })
            .collect();
        fixed.sort_unstable();
        let (mut each, mut left) = (u64::MAX, shared);
        for (nth, bytes) in fixed.iter().enumerate() {
            let share = left / (fixed.len() - nth) as u64;
            if *bytes > share {
                (each, left) = (share, 0);
                break;
            }
            left -= bytes;
        }
        // In units of 2^-8, the smallest share there is; and the most that the port leaves each.
        let mut moving: Vec<(u128, u64)> = all
            .iter()
            .filter_map(|(limit, most)| match limit {
                SharedLimit::Dynamic(n) => Some((1u128 << (n.clamp(&-8, &7) + 8), *most)),
                SharedLimit::Static(_) => None,
            })
            .collect();
        let free = loop {
            let shares: u128 = moving.iter().map(|(share, _)| share).sum();
            let free = u128::from(left) * 256 / (256 + shares);
            let before = moving.len();
            // What a port does not let its groups have is left to others, who have more of it then.
            moving.retain(|(share, most)| {
                let is_held = share * free / 256 > u128::from(*most);
                left = left.saturating_sub(if is_held { *most } else { 0 });
                !is_held
            });
            if moving.len() == before {
                break free as u64;
            }
        };
        Self { groups: all.len(), shared, each, free }
    }

    /// Fill at which this group of a port reaches Xoff then: lossless groups share what their port may hold.
    pub fn xoff_point(&self, port: &PortConfig, pg: &PgConfig) -> u64 {
        let part = match pg.shared {
            SharedLimit::Static(bytes) => bytes.min(self.each),
            SharedLimit::Dynamic(n) if n >= 0 => self.free << n,
            SharedLimit::Dynamic(n) => self.free >> n.unsigned_abs(),
        };
        pg.reserved.saturating_add(part.min(most_of_group(port)))
    }
}

/// The limits a queue's traffic runs into.
struct Limits {
    /// Where the first of its lossless groups reaches Xoff, alone in the buffer; of a queue without any its own limit.
    alone: u64,
    /// The same when every lossless group of that buffer is full.
    crowded: u64,
}

/// The lossless groups whose frames wait in `queue` of `egress`, as (port, group).
fn feeders<'p>(
    ports: &'p [PortConfig],
    egress: &'p PortConfig,
    queue: usize,
) -> impl Iterator<Item = (usize, usize)> + 'p {
    let classes = move |tc: &usize| usize::from(egress.maps.tc_to_queue[*tc]) == queue;
    ports.iter().enumerate().flat_map(move |(i, p)| {
        let groups = (0..8).filter(classes).map(|tc| usize::from(p.maps.tc_to_pg[tc]));
        groups.filter(|g| p.pgs[*g].lossless).map(move |g| (i, g))
    })
}

/// Resolves marking profiles for every queue they are bound to.
pub(super) fn resolve(
    ctx: &mut Ctx<'_>,
    (platform, turns): (Platform, &[Turns]),
    buffer: &BufferConfig,
    wreds: &[Wred],
    marks: &Marks,
    ports: &mut [PortConfig],
    at: &[PortAt],
) {
    let mut once = HashSet::new();
    let crowds: Vec<Crowd> = match buffer.of_ports[..] {
        [] => vec![Crowd::of(ports, buffer.shared)],
        ref own => ports.chunks(1).zip(own).map(|(port, own)| Crowd::of(port, own.shared)).collect(),
    };
    // That of the memory a port receives into.
    let crowd = |port: usize| &crowds[port.min(crowds.len() - 1)];
    for port in 0..ports.len() {
        for (queue, mark) in marks[port].iter().enumerate() {
            let Some(wred) = mark.map(|i| &wreds[i]) else { continue };
            let name = ports[port].name.clone();
            let first = feeders(ports, &ports[port], queue)
                .map(|(p, g)| (xoff_point(&ports[p], &ports[p].pgs[g], crowd(p).shared), p, g))
                .min();
            let q = &ports[port].queues[queue];
            let limit = first.map_or_else(|| alone(q.reserved, q.shared, buffer.shared), |f| f.0);
            let full = feeders(ports, &ports[port], queue)
                .map(|(p, g)| (crowd(p).xoff_point(&ports[p], &ports[p].pgs[g]), p, g))
                .min();
            let limits = Limits { alone: limit, crowded: full.map_or(limit, |f| f.0) };
            let lossless = first.is_some() || q.lossless;
            let polls = platform == Platform::Polled && ports[port].kind != DeviceKind::Pci;
            let gap = polls.then_some(turns[port].gap);
            let found = thresholds(ctx, wred, &ports[port], queue, &limits, (gap, at[port].rate));
            let Some((kmin, kmax)) = found else { continue };
            if kmin > kmax && once.insert(("wred.order", wred.at, 0)) {
                let message =
                    format!("`{}` has kmin = {kmin} above kmax = {kmax} on port `{name}`", wred.name);
                ctx.error(wred.at, "wred.order", message, format!("keep kmin <= {kmax}, or raise kmax"));
            } else if let Some((xoff, p, g)) = first
                && buffer.shared > 0
                && kmax >= xoff
            {
                if once.insert(("wred.xoff", wred.at, queue)) {
                    let message = format!(
                        "`{}` marks everything from kmax = {kmax}, but group {g} of port `{}` reaches Xoff at {xoff} even alone: \
                     PFC acts before every frame is marked",
                        wred.name, ports[p].name
                    );
                    let of_port = ports[p].ingress_limit.unwrap_or(u64::MAX);
                    let more =
                        fixed_limit(of_port, &ports[p].pgs[g], xoff).unwrap_or("buffer.size or dynamic_th");
                    let remedy = format!("lower kmax below {xoff}, or raise {more}");
                    ctx.warn(wred.at, "wred.xoff", message, remedy);
                }
            } else if let Some((xoff, p, g)) = full
                && buffer.shared > 0
                && kmin >= xoff
                && once.insert(("wred.crowd", wred.at, queue))
            {
                let message = format!(
                    "`{}` marks nothing up to kmin = {kmin}, but when all {} lossless groups are full, group {g} of port `{}` \
                     reaches Xoff at {xoff}: the more ports are congested, the more PFC acts before ECN",
                    wred.name,
                    crowd(p).groups,
                    ports[p].name
                );
                let more =
                    fixed_limit(most_of_group(&ports[p]), &ports[p].pgs[g], xoff).unwrap_or("buffer.size");
                let remedy =
                    format!("lower kmin below {xoff}, write it as a share or \"auto\", or raise {more}");
                ctx.warn(wred.kmin_at, "wred.crowd", message, remedy);
            }
            if wred.wred_drop && lossless && once.insert(("wred.drop", wred.at, queue)) {
                let message = format!(
                    "`{}` drops what it cannot mark, and queue {queue} of port `{name}` is lossless",
                    wred.name
                );
                let remedy = "set wred_drop = false, or bind it to lossy queues only";
                ctx.error(wred.drop_at, "wred.drop", message, remedy);
            }
            ports[port].queues[queue].wred = Some(WredConfig {
                kmin,
                kmax,
                pmax: wred.pmax,
                ecn: wred.ecn,
                mark: wred.mark,
                wred_drop: wred.wred_drop,
            });
        }
    }
}

/// Frames a polling sender hands over at once.
const POLLED_FRAMES: u64 = 64;
/// Bytes of each of them: of an ordinary MTU.
const POLLED_BYTES: u64 = 1500;

/// Bytes that come at once to a port whose far end is a polling loop and not a wire: a burst, or what waited for the
/// loop.
fn polled_burst(rate: u64, gap: Nanos) -> u64 {
    bytes_in(rate, gap).max(POLLED_FRAMES * POLLED_BYTES)
}

/// Thresholds of the profile in bytes. Shares are of the limit that holds when all lossless groups are full: one of
/// a moving limit has to hold when it is lowest (DEV-29). Automatic ones follow HPCC: kmax 400 KB at 25G, scaled with
/// the rate, at least eight frames of 1500 bytes, at most three quarters of the limit of a group alone; kmin a
/// quarter of kmax, at most half of the limit when all are full. Where the far end polls, once in `gap` ns, kmin is at least the
/// burst of its loop, which is no congestion.
fn thresholds(
    ctx: &mut Ctx<'_>,
    wred: &Wred,
    port: &PortConfig,
    queue: usize,
    limits: &Limits,
    (gap, at): (Option<Nanos>, Span),
) -> Option<(u64, u64)> {
    let key = format!("port.{}.queue.{queue}", port.name);
    let Limits { alone: limit, crowded } = *limits;
    let share = |ppm: u32| (u128::from(crowded) * u128::from(ppm) / 1_000_000) as u64;
    let of = |ppm: u32| {
        format!("{} of {crowded}, the limit when all lossless groups are full", (SHARE.show)(&ppm))
    };
    let said = || format!("as profile `{}` says", wred.name);
    let kmax = match wred.kmax {
        Threshold::Bytes(bytes) => {
            ctx.explain(format!("{key}.kmax"), show_size(bytes), Origin::Derived, said());
            bytes
        }
        Threshold::Share(ppm) => {
            ctx.explain(format!("{key}.kmax"), show_size(share(ppm)), Origin::Derived, of(ppm));
            share(ppm)
        }
        Threshold::Auto => {
            let Some(rate) = port.rate.bps() else {
                let message = format!(
                    "the thresholds of `{}` follow the rate, and that of port `{}` is not known here",
                    wred.name, port.name
                );
                ctx.error(at, "wred.rate", message, "set the port's rate, or kmin and kmax as sizes");
                return None;
            };
            let scaled = u128::from(rate) * 400_000 / 25_000_000_000;
            let scaled = u64::try_from(scaled).unwrap_or(u64::MAX).max(12_000);
            let mut why = format!("400KB at 25G, here {}", show_rate(rate));
            let burst = gap.map_or(0, |gap| polled_burst(rate, gap));
            let wanted = scaled.max(4 * burst);
            if wanted > scaled {
                why = format!(
                    "{why} would be {scaled}; the far end of a virtual port polls: 4 x its burst of {burst}"
                );
            }
            let kmax = wanted.min(limit / 4 * 3);
            if kmax < wanted {
                why = format!("{why} would be {wanted}; held at 3/4 of the limit {limit}");
            }
            ctx.explain(format!("{key}.kmax"), show_size(kmax), Origin::Derived, why);
            kmax
        }
    };
    let kmin = match wred.kmin {
        Threshold::Bytes(bytes) => {
            ctx.explain(format!("{key}.kmin"), show_size(bytes), Origin::Derived, said());
            bytes
        }
        Threshold::Share(ppm) => {
            ctx.explain(format!("{key}.kmin"), show_size(share(ppm)), Origin::Derived, of(ppm));
            share(ppm)
        }
        Threshold::Auto => {
            let kmin = (kmax / 4).min(crowded / 2);
            let why = match kmin < kmax / 4 {
                true => format!("half of {crowded}, the limit when all lossless groups are full"),
                false => "kmax / 4".into(),
            };
            ctx.explain(format!("{key}.kmin"), show_size(kmin), Origin::Derived, why);
            kmin
        }
    };
    Some((kmin, kmax))
}
