//! Rules across tables: the two numbers that clash, the arithmetic, and what would fit.

use std::collections::HashSet;

use super::buffer::{BufferAt, LEAST_CHARGE, Profile};
use super::classes;
use super::diag::Span;
use super::headroom::{explain_response, longest_leaving};
use super::marking::alone;
use super::port::PortAt;
use super::read::{Ctx, Origin};
use super::types::{
    BufferConfig, Config, Direction, EcnMode, PfcRx, PortConfig, PortRate, SchedulerType, Trust, workers,
};
use super::units::{show_rate, show_size, show_time};
use weir_dataplane::egress::QueueSchedule;
use weir_dataplane::turn::{Platform, Turns};
use weir_dataplane::types::{MIN_FRAME_BYTES, Nanos, wire_bytes};

/// Where values shared by all ports stand.
pub(super) struct Places {
    pub buffer: BufferAt,
    pub quanta: Span,
}

/// Everything that needs the whole configuration.
pub(super) fn whole(
    ctx: &mut Ctx<'_>,
    config: &Config,
    at: &[PortAt],
    profiles: &[Profile],
    turns: &[Turns],
    places: &Places,
) {
    if division(ctx, config, &places.buffer) {
        for profile in profiles.iter().filter(|p| p.direction == Direction::Ingress) {
            ordering(ctx, profile, config);
        }
    }
    let mut once = HashSet::new();
    for ((port, at), turns) in config.ports.iter().zip(at).zip(turns) {
        pauses(ctx, config, port, at, (turns.gap, places.quanta), &mut once);
        explain_response(ctx, port, &config.ports, *turns, workers(&config.ports));
        groups(ctx, config, port, at, profiles, &mut once);
        rates(ctx, port, at, &mut once);
        marks_format(ctx, config, port, at);
    }
    weights(ctx, config, at);
    let is_memif = |port: &PortConfig| port.device.strip_prefix("net_memif").is_some_and(|id| !id.is_empty());
    if let Some((_, at)) = config.ports.iter().zip(at).find(|(port, _)| is_memif(port)) {
        let message = "the peer of a net_memif port can write to the memory of the switch: DPDK's driver checks nothing of \
                       what it is given";
        let remedy = "give it to peers you trust with that, and net_vhost to others";
        ctx.warn(at.port, "device.memif", message, remedy);
    }
    classes::follow(ctx, config, at);
}

type Once = HashSet<(&'static str, Span, usize)>;

/// `size = reserved + headroom + control + mirrors + shared`, and enough slots for it, in the memory that has least to share. False
/// if that is nothing, so that limits derived from it mean nothing.
fn division(ctx: &mut Ctx<'_>, config: &Config, places: &BufferAt) -> bool {
    let b = &config.buffer;
    let own = b.of_ports.iter().position(|own| (own.reserved, own.headroom) == (b.reserved, b.headroom));
    let (receivers, whose) = match own {
        None => (&config.ports[..], String::new()),
        Some(port) => {
            (&config.ports[port..=port], format!("in the memory of port `{}`: ", config.ports[port].name))
        }
    };
    let groups = receivers.len() * 8;
    let lossless = receivers.iter().flat_map(|p| &p.pgs).filter(|pg| pg.lossless).count();
    let claimed = b.promised();
    let headroom = if b.headroom_pooled {
        "headroom pool".into()
    } else {
        format!("headroom of {lossless} lossless groups")
    };
    let workers = match b.staleness {
        0 => String::new(),
        bytes => format!(" + staleness of {} workers {bytes}", workers(&config.ports)),
    };
    let mirrors = match b.mirror_bytes {
        0 => String::new(),
        bytes => format!(" + mirrors {bytes}"),
    };
    let largest = config.ports.iter().map(|p| u64::from(p.mtu)).max().unwrap_or(0);
    if claimed > b.size {
        let message = format!(
            "{whose}reserved {} ({groups} groups) + {headroom} {} + control {}{mirrors}{workers} = {claimed}, more than size {}",
            b.reserved, b.headroom, b.control_bytes, b.size
        );
        let fits = claimed.saturating_add(2 * largest).checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX);
        let mut remedy = format!("set buffer.size to at least {}", show_size(fits));
        if !b.headroom_pooled && lossless > 1 {
            let room = b.size.saturating_sub(claimed.saturating_sub(b.headroom));
            match b.headroom.checked_div(room).map(|ratio| ratio.saturating_add(1)) {
                Some(ratio) if (2..=64).contains(&ratio) => {
                    remedy.push_str(&format!(", or share it: over_subscribe_ratio = {ratio}"));
                }
                _ => remedy.push_str(", or lower `reserved` of the profiles"),
            }
        }
        if b.mirror_bytes > claimed - b.size {
            remedy.push_str(", or lower buffer.mirror_bytes");
        }
        if u64::from(b.least_charge()) > b.cell_bytes.max(LEAST_CHARGE) {
            remedy.push_str(", or raise `frames`: headroom is for the shortest frames, too");
        }
        ctx.error(places.size, "buffer.sum", message, remedy);
    } else if b.shared < 2 * largest {
        let message = format!(
            "{whose}{} leaves {} to share: less than two frames of {largest}",
            b.division(),
            b.shared
        );
        ctx.warn(places.size, "buffer.shared", message, "raise buffer.size or lower `reserved`");
    }
    if b.headroom_pooled && b.headroom == 0 && lossless > 0 {
        let message = format!("{lossless} lossless groups share a headroom pool of 0 bytes");
        ctx.error(places.pool, "headroom.pool", message, "raise headroom_pool");
    }
    slots(ctx, b, places);
    let queues = config.ports.iter().flat_map(|p| &p.queues).filter(|q| !q.lossless);
    let reserved = queues.fold(0u64, |sum, q| sum.saturating_add(q.reserved));
    if reserved > b.egress_lossy_pool {
        let message =
            format!("lossy queues reserve {reserved} together, egress_lossy_pool = {}", b.egress_lossy_pool);
        let remedy = format!("raise egress_lossy_pool to {} or more", show_size(reserved));
        ctx.error(places.size, "buffer.egress", message, remedy);
    }
    b.shared > 0
}

/// What few slots mean for short frames.
fn slots(ctx: &mut Ctx<'_>, b: &BufferConfig, places: &BufferAt) {
    let (least, default) = (u64::from(b.least_charge()), b.cell_bytes.max(LEAST_CHARGE));
    if least <= default {
        return;
    }
    let message = format!(
        "{} frames for {} bytes of buffer: even the shortest is charged {least} bytes of them",
        b.frames, b.size
    );
    let enough = b.size.div_ceil(default);
    if least > u64::from(u16::MAX) {
        let fewest = b.size.div_ceil(u64::from(u16::MAX));
        let remedy = format!("set frames to at least {fewest}, or leave it out");
        ctx.error(places.frames, "buffer.frames", format!("{message}, more than any frame has"), remedy);
    } else {
        let remedy = format!("set frames = {enough} or leave it out, if small frames matter");
        ctx.warn(places.frames, "buffer.frames", message, remedy);
    }
}

/// xon below xoff (DEV-24).
fn ordering(ctx: &mut Ctx<'_>, profile: &Profile, config: &Config) {
    let index = config.buffer.profiles.iter().position(|p| *p == profile.name);
    let points = config.ports.iter().enumerate().flat_map(|(port, p)| {
        let shared = config.buffer.of_port(port).shared;
        let groups = p.pgs.iter().filter(|pg| Some(pg.profile) == index && pg.lossless);
        groups.map(move |pg| (alone(pg.reserved, pg.shared, shared), pg))
    });
    let Some((point, pg)) = points.min_by_key(|(point, _)| *point) else {
        return;
    };
    if pg.xon >= point {
        let message = format!(
            "`{}` resumes at xon = {} and pauses at Xoff = {point} when alone: it would never rest",
            profile.name, pg.xon
        );
        ctx.error(profile.xon_at, "profile.xon", message, format!("set xon below {point}"));
    } else if pg.xon > pg.reserved {
        let message = format!(
            "where others have filled the shared buffer `{}` pauses at its reserve of {}, below xon = {}: it would pause and resume in turns",
            profile.name, pg.reserved, pg.xon
        );
        ctx.warn(
            profile.xon_at,
            "profile.xon",
            message,
            format!("set xon to at most {}, or raise reserved", pg.reserved),
        );
    }
    if pg.xon_offset >= point {
        let message = format!(
            "xon_offset = {} reaches below the Xoff point {point} of `{}`: it resumes only {}",
            pg.xon_offset,
            profile.name,
            if pg.xon > 0 { "at `xon`" } else { "when empty" }
        );
        ctx.warn(profile.at, "profile.xon_offset", message, format!("set xon_offset below {point}"));
    }
}

/// Rate, time and classes of a port's pauses.
fn pauses(
    ctx: &mut Ctx<'_>,
    config: &Config,
    port: &PortConfig,
    at: &PortAt,
    (gap, quanta): (Nanos, Span),
    once: &mut Once,
) {
    let pfc = &port.pfc;
    if !pfc.in_use() {
        return;
    }
    if pfc.rx == PfcRx::Link && pfc.tx && pfc.enable != 0 {
        let message = format!(
            "port `{}` obeys 802.3x PAUSE and sends PFC: a peer has the one or the other (802.1Q clause 36)",
            port.name
        );
        ctx.warn(at.enable, "pfc.link", message, "set tx = false, or rx = \"enabled\"");
    }
    let pfc_on = pfc.tx || pfc.rx != PfcRx::None;
    if !pfc_on {
        let message =
            format!("port `{}` enables PFC, but neither sends (tx) nor obeys (rx) pauses", port.name);
        ctx.warn(at.enable, "pfc.off", message, "remove `enable`, or set tx = true or rx = \"enabled\"");
    }
    if port.rate == PortRate::Unlimited {
        let message =
            format!("a pause quantum is 512 bit times of the rate, and port `{}` has none", port.name);
        ctx.error(at.rate, "pfc.rate", message, "set rate to a number, such as \"100G\"");
    }
    if let PortRate::Fixed(rate) = port.rate {
        let time = u128::from(config.pfc.quanta) * 512 * 1_000_000_000 / u128::from(rate.max(1));
        let left = time * u128::from(1_000_000 - config.pfc.refresh) / 1_000_000;
        let (time, left) = (u64::try_from(time).unwrap_or(u64::MAX), u64::try_from(left).unwrap_or(u64::MAX));
        let why = format!(
            "{} quanta x 512 bit times at {}; sent again {} before it ends",
            config.pfc.quanta,
            show_rate(rate),
            show_time(left)
        );
        ctx.explain(format!("port.{}.pause_time", port.name), show_time(time), Origin::Derived, why);
        // It stands behind a frame that is leaving and a pause of another class.
        let before = wire_bytes(longest_leaving(port, &config.ports).into()) + wire_bytes(MIN_FRAME_BYTES);
        let busy = u128::from(before) * 8_000_000_000 / u128::from(rate.max(1));
        let busy = u64::try_from(busy).unwrap_or(u64::MAX);
        let (late, looked_at, remedy) = match config.platform {
            Platform::Polled => (
                busy.saturating_add(gap),
                format!("the port is looked at every {} at least, and ", show_time(gap)),
                "raise pause_quanta, lower refresh, or lower poll_gap",
            ),
            Platform::Simulated => (busy, String::new(), "raise pause_quanta, lower refresh, or lower mtu"),
        };
        if pfc.tx && left <= late && once.insert(("pfc.refresh", quanta, 0)) {
            let message = format!(
                "a refresh on port `{}` is due {} before the pause ends, {looked_at}may find the line busy for {}: the peer could \
                 resume",
                port.name,
                show_time(left),
                show_time(busy)
            );
            ctx.error(at.rate, "pfc.refresh", message, remedy);
        }
    }
    let format = &config.formats[port.format];
    if format.is_lite() && !port.trust.contains(&Trust::Tc) {
        let message = format!(
            "port `{}` speaks `{}` without VLAN tag and does not trust its traffic-class octet: all its frames share one \
             class and pause together (DEV-34)",
            port.name, format.name
        );
        ctx.warn(at.trust, "pfc.lite", message, "set trust = [\"tc\"]");
    }
}

/// PFC and lossless groups belong together, from the priority to the queue.
fn groups(
    ctx: &mut Ctx<'_>,
    config: &Config,
    port: &PortConfig,
    at: &PortAt,
    profiles: &[Profile],
    once: &mut Once,
) {
    let enabled = |p: &usize| port.pfc.tx && port.pfc.enable >> p & 1 == 1;
    for p in (0..8).filter(enabled) {
        let pg = usize::from(port.maps.pfc_to_pg[p]);
        if !port.pgs[pg].lossless && once.insert(("pfc.lossy", at.enable, p)) {
            let name = &config.buffer.profiles[port.pgs[pg].profile];
            let message = format!(
                "port `{}` sends PFC for priority {p}, but group {pg} has the lossy profile `{name}`: no headroom, no Xoff",
                port.name
            );
            let remedy =
                format!("bind group {pg} to a lossless profile with [[buffer.pg]], or set tx = false");
            ctx.error(at.enable, "pfc.lossy", message, remedy);
        }
    }
    for pg in (0..8).filter(|pg| port.pgs[*pg].lossless) {
        let profile = &profiles[port.pgs[pg].profile];
        if !(0..8).filter(enabled).any(|p| usize::from(port.maps.pfc_to_pg[p]) == pg)
            && once.insert(("pfc.silent", profile.at, pg))
        {
            let message =
                format!("group {pg} of port `{}` is lossless, but no priority sends PFC for it", port.name);
            let remedy = match port.pfc.tx {
                true => format!("add {pg} to pfc.enable, or bind a lossy profile"),
                false => "leave out tx = false of pfc, or bind a lossy profile".to_owned(),
            };
            ctx.warn(at.enable, "pfc.silent", message, remedy);
        }
        for tc in (0..8).filter(|tc| usize::from(port.maps.tc_to_pg[*tc]) == pg) {
            for egress in &config.ports {
                let queue = usize::from(egress.maps.tc_to_queue[tc]);
                if egress.queues[queue].lossless || !once.insert(("queue.lossy", profile.at, queue)) {
                    continue;
                }
                let name = &config.buffer.profiles[egress.queues[queue].profile];
                let message = format!(
                    "class {tc} is lossless in group {pg}, but queue {queue} of port `{}` has the lossy profile `{name}` and may \
                     drop it at egress",
                    egress.name
                );
                let remedy = format!("bind queue {queue} to a lossless egress profile with [[buffer.queue]]");
                ctx.error(profile.at, "queue.lossy", message, remedy);
            }
        }
    }
}

/// Guaranteed rates fit the port.
fn rates(ctx: &mut Ctx<'_>, port: &PortConfig, at: &PortAt, once: &mut Once) {
    let Some(rate) = port.rate.bps() else { return };
    let sum = port.queues.iter().filter_map(|q| q.scheduler.cir).fold(0u64, u64::saturating_add);
    if sum > rate && once.insert(("scheduler.cir", at.rate, 0)) {
        let message = format!(
            "the queues of port `{}` are guaranteed {} together, it has {}",
            port.name,
            show_rate(sum),
            show_rate(rate)
        );
        ctx.error(
            at.rate,
            "scheduler.cir",
            message,
            format!("lower the cir values to a sum of {}", show_rate(rate)),
        );
    }
}

/// Weights of queues that get frames are all of bytes, or all of frames.
fn weights(ctx: &mut Ctx<'_>, config: &Config, at: &[PortAt]) {
    let come = config.ports.iter().fold(0, |all, ingress| all | classes::classes(config, ingress));
    let has = |port: &PortConfig, kind: SchedulerType| {
        classes::members(come)
            .any(|tc| port.queues[usize::from(port.maps.tc_to_queue[tc])].scheduler.kind == kind)
    };
    let is_mixed = |port: &PortConfig| has(port, SchedulerType::Dwrr) && has(port, SchedulerType::Wrr);
    let mixed: Vec<_> = config.ports.iter().zip(at).filter(|(port, _)| is_mixed(port)).collect();
    if let Some((first, at)) = mixed.first() {
        let others =
            if mixed.len() > 1 { format!(" and of {} others", mixed.len() - 1) } else { String::new() };
        let message = format!(
            "queues of port `{}`{others} have weights of bytes (DWRR) and of frames (WRR): a frame counts as {} bytes on the wire",
            first.name,
            QueueSchedule::BYTES_OF_A_FRAME
        );
        ctx.warn(at.port, "scheduler.mixed", message, "give all queues with weights one type");
    }
}

/// A queue marks a field the port's format has.
fn marks_format(ctx: &mut Ctx<'_>, config: &Config, port: &PortConfig, at: &PortAt) {
    let format = &config.formats[port.format];
    let wants = |mode: EcnMode| port.queues.iter().position(|q| q.wred.is_some_and(|w| w.ecn == mode));
    let missing = match (wants(EcnMode::Tc), wants(EcnMode::Ecn)) {
        (Some(queue), _) if format.ecn != EcnMode::Tc => Some((queue, "tc")),
        (_, Some(queue)) if format.ecn != EcnMode::Ecn => Some((queue, "ecn")),
        _ => None,
    };
    if let Some((queue, mode)) = missing {
        let message = format!(
            "queue {queue} of port `{}` marks ecn = \"{mode}\", its format `{}` has ecn = \"{}\": nothing is marked",
            port.name,
            format.name,
            format.ecn.word()
        );
        ctx.warn(
            at.port,
            "wred.format",
            message,
            "bind another wred profile to the port's queues, or wred = \"none\"",
        );
    }
}
