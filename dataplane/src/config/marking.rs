//! Marking thresholds per queue, held against the Xoff points they must act before.

use std::collections::HashSet;

use super::diag::Span;
use super::port::PortAt;
use super::read::{Ctx, Origin};
use super::sched::{Marks, Wred};
use super::types::{BufferConfig, PgConfig, PortConfig, SharedLimit, WredConfig};
use super::units::{SHARE, Threshold, show_rate, show_size};

/// Most bytes one user alone in the buffer may hold: its reserve and its part of the shared buffer,
/// `a / (1 + a)` of it for a dynamic threshold (formats table R5).
fn alone(reserved: u64, limit: SharedLimit, shared: u64) -> u64 {
    let part = match limit {
        SharedLimit::Static(bytes) => bytes.min(shared),
        SharedLimit::Dynamic(n) if n >= 0 => ((u128::from(shared) << n) / ((1 << n) + 1)) as u64,
        SharedLimit::Dynamic(n) => shared / ((1 << n.unsigned_abs()) + 1),
    };
    reserved.saturating_add(part)
}

/// Fill at which a group alone in the buffer reaches Xoff.
pub(super) fn xoff_point(pg: &PgConfig, shared: u64) -> u64 {
    alone(pg.reserved, pg.shared, shared)
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
    buffer: &BufferConfig,
    wreds: &[Wred],
    marks: &Marks,
    ports: &mut [PortConfig],
    at: &[PortAt],
) {
    let mut once = HashSet::new();
    for port in 0..ports.len() {
        for (queue, mark) in marks[port].iter().enumerate() {
            let Some(wred) = mark.map(|i| &wreds[i]) else { continue };
            let name = ports[port].name.clone();
            let first = feeders(ports, &ports[port], queue)
                .map(|(p, g)| (xoff_point(&ports[p].pgs[g], buffer.shared), p, g))
                .min();
            let q = &ports[port].queues[queue];
            let limit = first.map_or_else(|| alone(q.reserved, q.shared, buffer.shared), |f| f.0);
            let lossless = first.is_some() || q.lossless;
            let found = thresholds(ctx, wred, &ports[port], queue, limit, at[port].rate);
            let Some((kmin, kmax)) = found else { continue };
            if kmin > kmax && once.insert(("wred.order", wred.at, 0)) {
                let message =
                    format!("`{}` has kmin = {kmin} above kmax = {kmax} on port `{name}`", wred.name);
                ctx.error(wred.at, "wred.order", message, format!("keep kmin <= {kmax}, or raise kmax"));
            } else if let Some((xoff, p, g)) = first
                && buffer.shared > 0
                && kmax >= xoff
                && once.insert(("wred.xoff", wred.at, queue))
            {
                let message = format!(
                    "`{}` marks everything from kmax = {kmax}, but group {g} of port `{}` reaches Xoff at {xoff} even alone: \
                     PFC acts before ECN",
                    wred.name, ports[p].name
                );
                let remedy = format!("lower kmax below {xoff}, or raise buffer.size or dynamic_th");
                ctx.warn(wred.at, "wred.xoff", message, remedy);
            }
            if wred.wred_drop && lossless && once.insert(("wred.drop", wred.at, queue)) {
                let message = format!(
                    "`{}` drops what it cannot mark, and queue {queue} of port `{name}` is lossless",
                    wred.name
                );
                let remedy = "set wred_drop = false, or bind it to lossy queues only";
                ctx.error(wred.at, "wred.drop", message, remedy);
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

/// Thresholds of the profile in bytes. Shares are of `limit`, the fill the queue's traffic runs into (DEV-29).
/// Automatic ones follow HPCC: kmax 400 KB at 25G, scaled with the rate, at least eight frames of 1500 bytes, at
/// most three quarters of the limit; kmin a quarter of kmax.
fn thresholds(
    ctx: &mut Ctx<'_>,
    wred: &Wred,
    port: &PortConfig,
    queue: usize,
    limit: u64,
    at: Span,
) -> Option<(u64, u64)> {
    let key = format!("port.{}.queue.{queue}", port.name);
    let share = |ppm: u32| (u128::from(limit) * u128::from(ppm) / 1_000_000) as u64;
    let of = |ppm: u32| format!("{} of the limit {limit}", (SHARE.show)(&ppm));
    let kmax = match wred.kmax {
        Threshold::Bytes(bytes) => bytes,
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
            let kmax = scaled.min(limit / 4 * 3);
            let mut why = format!("400KB at 25G, here {}", show_rate(rate));
            if kmax < scaled {
                why = format!("{why} would be {scaled}; held at 3/4 of the limit {limit}");
            }
            ctx.explain(format!("{key}.kmax"), show_size(kmax), Origin::Derived, why);
            kmax
        }
    };
    let kmin = match wred.kmin {
        Threshold::Bytes(bytes) => bytes,
        Threshold::Share(ppm) => {
            ctx.explain(format!("{key}.kmin"), show_size(share(ppm)), Origin::Derived, of(ppm));
            share(ppm)
        }
        Threshold::Auto => {
            ctx.explain(format!("{key}.kmin"), show_size(kmax / 4), Origin::Derived, "kmax / 4");
            kmax / 4
        }
    };
    Some((kmin, kmax))
}
