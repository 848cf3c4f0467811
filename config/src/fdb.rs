//! `[fdb]`: read in two steps, since entries name ports and ports take a default from here.

use std::collections::HashMap;

use super::diag::Span;
use super::format::FormatConfig;
use super::link_local;
use super::port::{MAC, find_format};
use super::read::{Ctx, Section, Val};
use super::schema;
use super::types::{FdbConfig, GroupEntry, LoopAlarm, PortConfig, StaticEntry, UnknownUnicast};
use super::units::{COUNT, TEXT, TIME, show_time};
use super::vlan;
use weir_dataplane::types::PortId;

const AGEING: u64 = 300_000_000_000;
/// Least ageing, ns.
const LEAST_AGEING: u64 = 10_000_000;
/// Group addresses 01:80:c2:00:00:00 to 0f: no bridge forwards them by its table (802.1Q table 8-1).
const LINK_LOCAL: std::ops::RangeInclusive<u64> = 0x0180_c200_0000..=0x0180_c200_000f;

/// The table without its entries, and the section they are in.
pub(super) fn read<'a>(ctx: &mut Ctx<'_>, root: &Section<'a>) -> (FdbConfig, Section<'a>) {
    let s = root.table(ctx, "fdb", &schema::FDB);
    let fdb = FdbConfig {
        capacity: s.int_or(ctx, "capacity", 16..=1 << 20, 16_384, "hosts of a rack with room").v as u32,
        ageing: ageing(ctx, &s),
        unknown_unicast: {
            let why = "what a bridge does";
            s.or(ctx, "unknown_unicast", &UnknownUnicast::KIND, UnknownUnicast::Flood, why).v
        },
        link_local: link_local::read(ctx, &s),
        loop_alarm: loop_alarm(ctx, &s),
        statics: vec![],
        groups: vec![],
    };
    (fdb, s)
}

fn loop_alarm(ctx: &mut Ctx<'_>, s: &Section<'_>) -> LoopAlarm {
    let LoopAlarm { moves, time } = LoopAlarm::default();
    let moves = s.int_or(ctx, "loop_moves", 0..=1_000_000, moves, "more than machines that migrate");
    let long = s.or(ctx, "loop_time", &TIME, time, "three looks at the counters");
    let range = 100_000_000..=60_000_000_000;
    let long = s.within(ctx, "loop_time", long, &range, |n| show_time(*n));
    LoopAlarm { moves: moves.v, time: long.map_or(time, |v| v.v) }
}

/// Zero for never, else long enough for an answer to come.
fn ageing(ctx: &mut Ctx<'_>, s: &Section<'_>) -> u64 {
    let ageing = s.or(ctx, "ageing", &TIME, AGEING, "802.1Q table 8-6");
    if (1..LEAST_AGEING).contains(&ageing.v) {
        let message = format!(
            "{} = {}: an address would be forgotten before an answer comes",
            s.key("ageing"),
            show_time(ageing.v)
        );
        ctx.error(ageing.span, "range", message, "write 10ms or more with its unit (\"300s\"), or 0: never");
    }
    ageing.v
}

/// The addresses of engines, then static and group entries, once ports are known; `spans` are those of the ports.
pub(super) fn read_entries(
    ctx: &mut Ctx<'_>,
    s: &Section<'_>,
    fdb: &mut FdbConfig,
    ports: &[PortConfig],
    spans: &[Span],
    formats: &[FormatConfig],
) {
    let mut seen = HashMap::new();
    for (at, port) in ports.iter().enumerate() {
        let Some(engine) = &port.engine else { continue };
        let (key, vlan) = (engine.address.mac.to_u64(), engine.address.vlan.unwrap_or(0));
        if seen.insert((port.format, key, vlan), spans[at]).is_some() {
            let message = format!("{} is the address of another engine, too", engine.address.mac);
            ctx.error(spans[at], "fdb.duplicate", message, "give each engine a MAC address of its own");
        }
        let vlan = vlan::of_entry(ctx, spans[at], vlan, port);
        fdb.statics.push(StaticEntry { key, vlan, format: port.format, port: PortId(at as u16) });
    }
    for item in s.items(ctx, "static", &schema::FDB_STATIC) {
        let port = item.need(ctx, "port", &TEXT).and_then(|p| find_port(ctx, &p, ports));
        let format = item.get(ctx, "format", &TEXT).and_then(|f| find_format(ctx, &f, formats));
        let Some(port) = port else { continue };
        let format = format.unwrap_or(ports[port.index()].format);
        if format != ports[port.index()].format {
            let message = format!(
                "an entry of format `{}` on a port of format `{}`",
                formats[format].name,
                formats[ports[port.index()].format].name
            );
            let at = item.span(ctx);
            ctx.error(at, "fdb.format", message, "leave `format` out, or name a port of that format");
        }
        if let Some((key, vlan)) = address(ctx, &item, &formats[format], format, false, &mut seen) {
            let at = item.span(ctx);
            let vlan = vlan::of_entry(ctx, at, vlan, &ports[port.index()]);
            fdb.statics.push(StaticEntry { key, vlan, format, port });
        }
    }
    for item in s.items(ctx, "group", &schema::FDB_GROUP) {
        let Some(listed) = item.list(ctx, "ports") else {
            let at = item.span(ctx);
            ctx.error(
                at,
                "required",
                "a group without `ports` reaches nobody",
                "add ports = [\"p0\", \"p1\"]",
            );
            continue;
        };
        let (before, mut members) = (ctx.found.noted, Vec::<PortId>::new());
        for name in listed {
            let Some(text) = name.v.as_str() else {
                ctx.error(
                    name.span,
                    "value",
                    "a member is the name of a port",
                    "write ports = [\"p0\", \"p1\"]",
                );
                continue;
            };
            let name = Val { v: text.to_owned(), span: name.span, origin: name.origin };
            let Some(port) = find_port(ctx, &name, ports) else { continue };
            let first = members.first().map(|m| ports[m.index()].format);
            if members.contains(&port) {
                ctx.error(
                    name.span,
                    "fdb.group",
                    format!("`{}` is listed twice", name.v),
                    "name each member once",
                );
            } else if first.is_some_and(|f| f != ports[port.index()].format) {
                let message = format!("`{}` speaks another format than the first member", name.v);
                ctx.error(name.span, "fdb.format", message, "make one group per format");
            } else {
                members.push(port);
            }
        }
        let Some(first) = members.first() else {
            // Where those that are listed were refused, that has been said.
            if ctx.found.noted == before {
                let at = item.span(ctx);
                ctx.error(at, "fdb.group", "the group has no member", "name at least one port");
            }
            continue;
        };
        let format = ports[first.index()].format;
        members.sort_unstable();
        item.explain_list(ctx, "ports", members.iter().map(|port| &ports[port.index()].name));
        if let Some((key, vlan)) = address(ctx, &item, &formats[format], format, true, &mut seen) {
            let at = item.span(ctx);
            let vlan = vlan::of_group(ctx, at, vlan, &members, ports);
            fdb.groups.push(GroupEntry { key, vlan, format, ports: members });
        }
    }
    let entries = fdb.statics.len() + fdb.groups.len();
    if entries > fdb.capacity as usize {
        let message = format!("{entries} static and group entries, capacity {}", fdb.capacity);
        let at = s.span(ctx);
        ctx.error(at, "fdb.capacity", message, format!("set capacity to at least {entries}"));
    }
}

/// The key and VLAN of an entry; refused if it does not fit the format or is there already.
fn address(
    ctx: &mut Ctx<'_>,
    item: &Section<'_>,
    format: &FormatConfig,
    index: usize,
    group: bool,
    seen: &mut HashMap<(usize, u64, u16), Span>,
) -> Option<(u64, u16)> {
    let here = item.span(ctx);
    let vlan = match item.raw(ctx, "vlan") {
        Some(_) => item.int(ctx, "vlan", 0..=4094)?.v as u16,
        None => 0,
    };
    let both = item.raw(ctx, "mac").is_some() && item.raw(ctx, "key").is_some();
    if both || (item.raw(ctx, "mac").is_none() && item.raw(ctx, "key").is_none()) {
        let message =
            if both { "both `mac` and `key` are given" } else { "neither `mac` nor `key` is given" };
        ctx.error(here, "fdb.address", message, "give `mac` for Ethernet addresses or `key` for AFH ones");
        return None;
    }
    let width = u32::from(format.key_dst.len);
    let (key, at, shown) = if let Some(mac) = item.get(ctx, "mac", &MAC) {
        if mac.v.is_group() != group {
            let (is, wants) = if group { ("an individual", "a group") } else { ("a group", "an individual") };
            let message = format!("{} is {is} address, this entry takes {wants} one", mac.v);
            ctx.error(
                mac.span,
                "fdb.address",
                message,
                "use [[fdb.group]] for group addresses, [[fdb.static]] else",
            );
            return None;
        }
        if LINK_LOCAL.contains(&mac.v.to_u64()) {
            let message = format!("{} is for the link alone: frames to it are not looked up", mac.v);
            ctx.error(mac.span, "fdb.address", message, "remove the entry, or name another group address");
            return None;
        }
        (mac.v.to_u64(), mac.span, mac.v.to_string())
    } else {
        let key = item.get(ctx, "key", &COUNT)?;
        (key.v, key.span, format!("{:#x}", key.v))
    };
    if width < 64 && key >> width != 0 {
        let message = format!("{shown} needs more than the {width} bits of format `{}`", format.name);
        ctx.error(at, "fdb.address", message, format!("use a value up to {:#x}", (1u64 << width) - 1));
        return None;
    }
    if let Some(first) = seen.insert((index, key, vlan), at) {
        let message = format!("{shown} in VLAN {vlan} is already placed");
        ctx.clash((at, first), "fdb.duplicate", message, "keep one entry per address and VLAN");
        return None;
    }
    Some((key, vlan))
}

/// The port of a name.
pub(super) fn find_port(ctx: &mut Ctx<'_>, name: &Val<String>, ports: &[PortConfig]) -> Option<PortId> {
    let found = ports.iter().position(|p| p.name == name.v);
    if let (None, Some((lag, members))) = (found, ctx.lags.iter().find(|(lag, _)| *lag == name.v).cloned()) {
        let message = format!("`{lag}` is a LAG, and what is asked for here is a port");
        let remedy = format!("name a member of it: {}", members.join(", "));
        ctx.error(name.span, "port.unknown", message, remedy);
    } else if found.is_none() {
        let known: Vec<_> = ports.iter().take(8).map(|p| p.name.as_str()).collect();
        let more = if ports.len() > 8 { ", ..." } else { "" };
        let message = format!("there is no port `{}`", name.v);
        ctx.error(name.span, "port.unknown", message, format!("ports: {}{more}", known.join(", ")));
    }
    found.map(|i| PortId(i as u16))
}
