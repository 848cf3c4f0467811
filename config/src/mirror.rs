//! `[[mirror]]`: copies of frames of some ports to another (SPAN).

use super::diag::Span;
use super::fdb::find_port;
use super::host::IP;
use super::port::MAC;
use super::read::{Ctx, Section};
use super::sched::{named, select_ports};
use super::schema;
use super::types::{BufferConfig, MirrorConfig, MirrorDirection, PortConfig, workers};
use super::units::{TEXT, show_size};
use weir_dataplane::switch::Filter;
use weir_dataplane::types::PortId;

/// EtherTypes of IPv4 and IPv6.
const IP_TYPES: [u16; 2] = [0x0800, 0x86dd];

/// Mirrors, and where each stands.
pub(super) fn read(ctx: &mut Ctx<'_>, root: &Section<'_>, ports: &[PortConfig]) -> Vec<(MirrorConfig, Span)> {
    let mut all: Vec<(MirrorConfig, Span)> = Vec::new();
    for (name, item) in named(ctx, root, "mirror", &schema::MIRROR) {
        let to = item.need(ctx, "to", &TEXT).and_then(|to| find_port(ctx, &to, ports));
        let direction =
            item.or(ctx, "direction", &MirrorDirection::KIND, MirrorDirection::Both, "both ways").v;
        let tc = item.int_or(ctx, "tc", 0..=7, 0, "best effort").v as u8;
        let filter = item.table(ctx, "filter", &schema::MIRROR_FILTER);
        let filter = read_filter(ctx, &filter);
        let Some(to) = to else { continue };
        let mut from: Vec<PortId> =
            select_ports(ctx, &item, ports).into_iter().map(|p| PortId(p as u16)).collect();
        let written = item.raw(ctx, "ports").map(|listed| (listed.v.as_str() == Some("*"), listed.origin));
        if written.as_ref().is_none_or(|(every, _)| *every) {
            from.retain(|port| *port != to);
        }
        from.sort_unstable();
        from.dedup();
        if let Some((_, origin)) = written {
            let names: Vec<&str> = from.iter().map(|port| ports[port.index()].name.as_str()).collect();
            ctx.explain(item.key("ports"), names.join(", "), origin, "");
        }
        let at = item.span(ctx);
        let none_is_named = item.list(ctx, "ports").is_none_or(|listed| listed.is_empty());
        if from.is_empty() && none_is_named {
            let message = format!("mirror `{}` copies frames of no port", name.v);
            ctx.error(
                at,
                "mirror.ports",
                message,
                "add ports = [\"p0\"], or leave `ports` out: all but `to`",
            );
        }
        all.push((MirrorConfig { name: name.v, ports: from, direction, filter, to, tc }, at));
    }
    for (mirror, at) in &all {
        check(ctx, mirror, *at, ports, &all);
    }
    all
}

fn read_filter(ctx: &mut Ctx<'_>, s: &Section<'_>) -> Filter {
    let mut number = |key: &str, most: u64| s.int(ctx, key, 0..=most).map(|n| n.v as u16);
    let (ethertype, udp_port) = (number("ethertype", 0xffff), number("udp_port", 0xffff));
    let dscp = number("dscp", 63).map(|n| n as u8);
    Filter {
        dst: s.get(ctx, "dst", &MAC).map(|m| m.v),
        src: s.get(ctx, "src", &MAC).map(|m| m.v),
        ethertype,
        dscp,
        udp_port,
        ip: s.get(ctx, "ip", &IP).map(|ip| ip.v),
        qp: s.int(ctx, "qp", 0..=0xff_ffff).map(|n| n.v as u32),
    }
}

fn check(
    ctx: &mut Ctx<'_>,
    mirror: &MirrorConfig,
    at: Span,
    ports: &[PortConfig],
    all: &[(MirrorConfig, Span)],
) {
    let MirrorConfig { name, to, .. } = mirror;
    let monitor = &ports[to.index()];
    let copied = all.iter().find(|(other, _)| other.ports.contains(to));
    if let Some((other, _)) = copied {
        let message = format!(
            "`{}` is where mirror `{name}` sends to, and mirror `{}` copies its frames",
            monitor.name, other.name
        );
        ctx.error(at, "mirror.loop", message, "copies are not copied again: name ports no mirror sends to");
    }
    if monitor.engine.is_some() {
        let message = format!("`{}` is an engine, which looks at no frames but its own", monitor.name);
        ctx.error(at, "mirror.to", message, "send to a port with a device behind it");
    }
    let other_format = mirror.ports.iter().find(|port| ports[port.index()].format != monitor.format);
    if let Some(port) = other_format {
        let message = format!(
            "frames of `{}` are of another format than those of `{}`",
            ports[port.index()].name,
            monitor.name
        );
        ctx.error(at, "mirror.format", message, "mirror ports of one format to a port of that format");
    }
    let not_ip = mirror.filter.ethertype.filter(|kind| !IP_TYPES.contains(kind));
    let Filter { dscp, udp_port, ip, .. } = mirror.filter;
    let of_ip = [("dscp", dscp.is_some()), ("udp_port", udp_port.is_some()), ("ip address", ip.is_some())];
    if let (Some(kind), Some((key, _))) = (not_ip, of_ip.into_iter().find(|(_, asked)| *asked)) {
        let message =
            format!("filter of mirror `{name}`: no frame of EtherType {kind:#06x} has a {key}, so none fits");
        ctx.error(
            at,
            "mirror.filter",
            message,
            "leave out `ethertype`, or set it to 0x0800 (IPv4) or 0x86dd (IPv6)",
        );
    }
    let longest = mirror.ports.iter().map(|port| &ports[port.index()]).max_by_key(|port| port.mtu);
    if let Some(port) = longest.filter(|port| port.mtu > monitor.mtu) {
        let message = format!(
            "frames of `{}` have up to {} bytes, those of `{}` {}: copies of longer ones are lost (mirror.too_long)",
            port.name, port.mtu, monitor.name, monitor.mtu
        );
        ctx.warn(at, "mirror.mtu", message, format!("set mtu = {} there", port.mtu));
    }
}

/// What only the buffer shows: a lossless queue has no end, and a mirror needs room for a frame.
pub(super) fn check_buffer(
    ctx: &mut Ctx<'_>,
    mirrors: &[(MirrorConfig, Span)],
    ports: &[PortConfig],
    buffer: &BufferConfig,
) {
    for (mirror, at) in mirrors {
        let monitor = &ports[mirror.to.index()];
        let queue = mirror.queue(monitor);
        if monitor.queues[usize::from(queue)].lossless {
            let message = format!(
                "class {} waits in lossless queue {queue} of `{}`: copies are lossy",
                mirror.tc, monitor.name
            );
            ctx.error(*at, "mirror.lossless", message, "set `tc` to a class of a lossy queue there");
        }
        let longest = mirror.ports.iter().map(|port| u64::from(ports[port.index()].mtu)).max().unwrap_or(0);
        let (room, each) = (buffer.mirror_bytes / workers(ports) as u64, buffer.charge(longest));
        if room < each {
            let message = format!(
                "a worker has {} of buffer.mirror_bytes, not even one frame of {longest}",
                show_size(room)
            );
            let least = show_size(each * workers(ports) as u64);
            ctx.error(*at, "mirror.buffer", message, format!("set buffer.mirror_bytes to at least {least}"));
        }
    }
}
