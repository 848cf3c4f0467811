//! `[[mirror]]`: copies of frames of some ports to another (SPAN), or into a file.

use super::diag::Span;
use super::fdb::find_port;
use super::host::IP;
use super::port::MAC;
use super::read::{Ctx, Section};
use super::sched::{named, select_ports};
use super::schema;
use super::types::{
    BufferConfig, MirrorConfig, MirrorDirection, MirrorFile, MirrorTarget, PortConfig, queue_of, workers,
};
use super::units::{Bad, Kind, SIZE, TEXT, show_size, wrong_type};
use std::path::{Path, PathBuf};
use weir_dataplane::switch::Filter;
use weir_dataplane::turn::Platform;
use weir_dataplane::types::PortId;

/// Size of a file unless somebody says otherwise, bytes; and the least, in which there is a frame whatever its length.
const FILE_SIZE: u64 = 64 << 20;
const LEAST_FILE: u64 = 64 << 10;

/// A file that nobody keeps anything else in: by its whole name, since a switch does not run where it was configured.
const FILE: Kind<String> = Kind {
    parse: |v| {
        const HELP: &str = "write the whole path of a file for frames, \"/var/log/weir/look.pcapng\"";
        let text = v.as_str().ok_or_else(|| wrong_type(v, HELP))?;
        let named = text.strip_suffix(".pcapng").and_then(|path| path.rsplit_once('/'));
        let fits = named.is_some_and(|(folder, name)| {
            !name.is_empty()
                && (folder.is_empty() || folder.starts_with('/'))
                && !text.chars().any(char::is_control)
        });
        if !fits {
            return Err(Bad::new(format!("`{text}` is not a whole path of a .pcapng file"), HELP));
        }
        if text.split('/').any(|part| part == "..") {
            return Err(Bad::new(format!("`{text}`: `..` may lead to the file of another mirror"), HELP));
        }
        // One file has one spelling: no `//` and no `/./`.
        Ok(Path::new(text).components().collect::<PathBuf>().display().to_string())
    },
    show: |path| path.clone(),
};

/// EtherTypes of IPv4 and IPv6.
const IP_TYPES: [u16; 2] = [0x0800, 0x86dd];

/// Mirrors, and where each stands.
pub(super) fn read(
    ctx: &mut Ctx<'_>,
    root: &Section<'_>,
    ports: &[PortConfig],
    platform: Platform,
) -> Vec<(MirrorConfig, Span)> {
    let mut all: Vec<(MirrorConfig, Span)> = Vec::new();
    for (name, item) in named(ctx, root, "mirror", &schema::MIRROR) {
        let to = read_target(ctx, &item, ports);
        let direction =
            item.or(ctx, "direction", &MirrorDirection::KIND, MirrorDirection::Both, "both ways").v;
        let filter = item.table(ctx, "filter", &schema::MIRROR_FILTER);
        let filter = read_filter(ctx, &filter);
        let mut from: Vec<PortId> =
            select_ports(ctx, &item, ports).into_iter().map(|p| PortId(p as u16)).collect();
        let Some(to) = to else { continue };
        let mut mirror = MirrorConfig { name: name.v, ports: Vec::new(), direction, filter, to };
        if item.raw(ctx, "ports").is_none_or(|listed| listed.v.as_str() == Some("*")) {
            from.retain(|port| mirror.port().is_none_or(|(to, _)| to != *port));
        }
        from.sort_unstable();
        from.dedup();
        item.explain_list(ctx, "ports", from.iter().map(|port| &ports[port.index()].name));
        let at = item.span(ctx);
        if let Some(file) = item.raw(ctx, "file").filter(|_| platform == Platform::Simulated) {
            ctx.error(file.span, "mirror.file", "a simulation writes no frames", "mirror to a port");
        }
        let none_is_named = item.list(ctx, "ports").is_none_or(|listed| listed.is_empty());
        if from.is_empty() && none_is_named {
            let message = format!("mirror `{}` copies frames of no port", mirror.name);
            ctx.error(
                at,
                "mirror.ports",
                message,
                "add ports = [\"p0\"], or leave `ports` out: all but `to`",
            );
        }
        mirror.ports = from;
        all.push((mirror, at));
    }
    for (mirror, at) in &all {
        check(ctx, mirror, *at, ports, &all);
    }
    all
}

/// Keys of a mirror to a file, and of one to a port: those of the other have no effect.
const OF_FILE: [&str; 3] = ["file_size", "files", "snaplen"];
const OF_PORT: [&str; 1] = ["tc"];

fn read_target(ctx: &mut Ctx<'_>, item: &Section<'_>, ports: &[PortConfig]) -> Option<MirrorTarget> {
    let file = item.get(ctx, "file", &FILE);
    let named = |ctx: &mut Ctx<'_>, keys: &[&'static str]| {
        keys.iter().find_map(|key| Some((*key, item.raw(ctx, key)?.span)))
    };
    let (other, whose) = match (item.raw(ctx, "file"), item.raw(ctx, "to")) {
        (Some(_), Some(to)) => {
            let message = "copies go to a port or to a file";
            ctx.error(
                to.span,
                "mirror.file",
                message,
                "leave out `to` or `file`; write a second mirror for the other",
            );
            return None;
        }
        (Some(_), None) => (named(ctx, &OF_PORT), "a port"),
        (None, _) => (named(ctx, &OF_FILE), "a file"),
    };
    if let Some((key, at)) = other {
        let message = format!("{} is for mirrors to {whose}", item.key(key));
        ctx.error(at, "mirror.file", message, format!("leave out `{key}`"));
    }
    if item.raw(ctx, "file").is_none() {
        let port = item.need(ctx, "to", &TEXT).and_then(|to| find_port(ctx, &to, ports));
        let tc = item.int_or(ctx, "tc", 0..=7, 0, "best effort").v as u8;
        return Some(MirrorTarget::Port { port: port?, tc });
    }
    let size = item.or(ctx, "file_size", &SIZE, FILE_SIZE, "a file that others can open");
    let range = LEAST_FILE..=1 << 40;
    let size =
        item.within(ctx, "file_size", size, &range, |n| show_size(*n)).map_or(FILE_SIZE, |size| size.v);
    let files = item.int_or(ctx, "files", 1..=1000, 2, "the last frames, whenever one begins anew").v as u16;
    let snaplen = item.int_or(ctx, "snaplen", 14..=16_384, 16_384, "whole frames").v as u32;
    Some(MirrorTarget::File(MirrorFile { path: file?.v, size, files, snaplen }))
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
    check_filter(ctx, mirror, at);
    let MirrorConfig { name, .. } = mirror;
    let twin = mirror.file().and_then(|file| {
        let before = all.iter().take_while(|(other, _)| other.name != *name);
        before.map(|(other, _)| other).find(|other| other.file().is_some_and(|other| other.path == file.path))
    });
    if let Some(other) = twin {
        let message = format!("mirrors `{}` and `{name}` write one file", other.name);
        ctx.error(at, "mirror.file", message, "give each a file of its own");
    }
    let Some((to, _)) = mirror.port() else { return };
    let monitor = &ports[to.index()];
    let copied = all.iter().find(|(other, _)| other.ports.contains(&to));
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
    let longest = mirror.ports.iter().map(|port| &ports[port.index()]).max_by_key(|port| port.mtu);
    if let Some(port) = longest.filter(|port| port.mtu > monitor.mtu) {
        let message = format!(
            "frames of `{}` have up to {} bytes, those of `{}` {}: copies of longer ones are lost (mirror.too_long)",
            port.name, port.mtu, monitor.name, monitor.mtu
        );
        ctx.warn(at, "mirror.mtu", message, format!("set mtu = {} there", port.mtu));
    }
}

fn check_filter(ctx: &mut Ctx<'_>, mirror: &MirrorConfig, at: Span) {
    let name = &mirror.name;
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
}

/// What only the buffer shows: a lossless queue has no end, and a mirror needs room for a frame.
pub(super) fn check_buffer(
    ctx: &mut Ctx<'_>,
    mirrors: &[(MirrorConfig, Span)],
    ports: &[PortConfig],
    buffer: &BufferConfig,
) {
    for (mirror, at) in mirrors {
        let Some((to, tc)) = mirror.port() else { continue };
        let monitor = &ports[to.index()];
        let queue = queue_of(tc, monitor);
        if monitor.queues[usize::from(queue)].lossless {
            let message = format!(
                "class {} waits in lossless queue {queue} of `{}`: copies are lossy",
                tc, monitor.name
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
