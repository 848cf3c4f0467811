//! From `[rclink]` to [`HostRcLink`].

use super::read::{GROUP_IP, HOST_MAC, IP, PortAt, connections, find_port, rate, show, size, small, time};
use super::{
    HostBackoff, HostPort, HostRcLink, HostRcQp, HostRcStream, RcClass, RcFlowControl, RcFormat, RcOctets,
    RcPriorities, RcType, RcWindow, schema,
};
use crate::port::MAC;
use crate::read::{Ctx, Section};
use crate::units::{BOOL, COUNT};
use std::net::{IpAddr, Ipv4Addr};

const US: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;
/// Longest payload (SW-007), shortest of AFH_Lite (DEV-22).
const LONGEST: u64 = 1344;
const SHORTEST_LITE: u64 = 48;
/// Ethernet, tag, IPv4, UDP, reliability header, CRC: the most a message has around it.
const HEADERS: u64 = 14 + 4 + 20 + 8 + 8 + 4;
/// What [`HEADERS`] has for raw frames: Ethernet, tag, length.
const RAW_HEADERS: u64 = 14 + 4 + 2;

/// 224.0.0.1: every station of a network (RFC 1112).
const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);

/// The format has IP addresses. What is wrong with it is said by [`read`].
pub(super) fn needs_ip(ctx: &mut Ctx<'_>, root: &Section<'_>) -> bool {
    let s = root.table(ctx, "rclink", &schema::RCLINK);
    s.raw(ctx, "format").is_none_or(|raw| raw.v.as_str() == Some(RcFormat::Standard.word()))
}

pub(super) fn read(
    ctx: &mut Ctx<'_>,
    root: &Section<'_>,
    ports: &[HostPort],
    at: &mut [PortAt],
) -> HostRcLink {
    let s = root.table(ctx, "rclink", &schema::RCLINK);
    let bool = |ctx: &mut Ctx<'_>, key, or, why| s.or(ctx, key, &BOOL, or, why).v;
    let format = s.or(ctx, "format", &RcFormat::KIND, RcFormat::Standard, "frames any switch carries").v;
    let lite = format == RcFormat::AfhLite;
    let octets = s.or(ctx, "octets", &RcOctets::KIND, RcOctets::Public, "the published order").v;
    let tag = bool(ctx, "tag", !lite, "the PCP is the priority");
    let vlan = s.int(ctx, "vlan", 0..=4094).map_or(0, |val| val.v as u16);
    let reliable = bool(ctx, "reliable", !lite, "go-back-N where the format has sequence numbers");
    let alone = [("tag", tag), ("reliable", reliable)];
    for (key, _) in alone.into_iter().filter(|(_, on)| lite && *on) {
        if let Some(raw) = s.raw(ctx, key) {
            let message = format!("{key} = true, but AFH_Lite has no header for it");
            ctx.error(raw.span, "rclink.lite", message, "remove it, or take another format");
        }
    }
    let flow_control =
        s.or(ctx, "flow_control", &RcFlowControl::KIND, RcFlowControl::Pfc, "what switches do, too").v;
    let cbfc = flow_control == RcFlowControl::Cbfc;
    for key in ["credit_bytes", "credits", "credit_report", "credit_interval"] {
        if let Some(raw) = s.raw(ctx, key).filter(|_| !cbfc) {
            let message = format!("`{key}` means nothing without credits");
            ctx.error(raw.span, "rclink.credits", message, "set flow_control = \"cbfc\", or remove it");
        }
    }
    let credit_bytes = small(ctx, &s, "credit_bytes", 32..=2048).unwrap_or(256) as u16;
    if !matches!(credit_bytes, 32 | 64 | 128 | 256 | 1024 | 2048)
        && let Some(raw) = s.raw(ctx, "credit_bytes")
    {
        let message = format!("credits of {credit_bytes} bytes");
        ctx.error(raw.span, "rclink.credits", message, "use 32, 64, 128, 256, 1024 or 2048");
    }
    let mut link = HostRcLink {
        format,
        octets,
        crc: bool(ctx, "crc", true, "what arrives changed is seen at once"),
        udp_checksum: small(ctx, &s, "udp_checksum", 0..=0xffff).unwrap_or(0) as u16,
        vlan: (tag && !lite).then_some(vlan),
        reliable: reliable && !lite,
        ecn: bool(ctx, "ecn", format == RcFormat::Standard, "standard frames can be marked")
            && format == RcFormat::Standard,
        cnp_merge: time(ctx, &s, "cnp_merge", 0..=SECOND).unwrap_or(50 * US),
        backoff: read_backoff(ctx, &s),
        flow_control,
        credit_bytes,
        credits: small(ctx, &s, "credits", 1..=(1 << 19) - 1).unwrap_or(4096),
        credit_report: small(ctx, &s, "credit_report", 1..=7).unwrap_or(2) as u8,
        credit_interval: time(ctx, &s, "credit_interval", US..=SECOND).unwrap_or(1000 * US),
        priorities: read_priorities(ctx, &s, cbfc),
        round_trip: time(ctx, &s, "round_trip", 0..=SECOND).unwrap_or(10_000 * US),
        read_rate: rate(ctx, &s, "read_rate"),
        qps: Vec::new(),
    };
    let remedy = "add [[rclink.qp]] with peer_mac and peer_qp";
    for item in connections(ctx, &s, &schema::RCLINK_QP, &["port", "peer_qp"], remedy) {
        link.qps.extend(read_qp(ctx, &item, &link, ports, at));
    }
    for (port, at) in ports.iter().zip(at.iter()) {
        if format == RcFormat::Standard && port.ip.is_ipv6() {
            let message = format!("port `{}` has an IPv6 address, RC Link frames have IPv4 ones", at.name);
            ctx.error(at.here, "rclink.ip", message, "give it an IPv4 address");
        }
    }
    link
}

fn read_backoff(ctx: &mut Ctx<'_>, s: &Section<'_>) -> Option<HostBackoff> {
    let s = s.table(ctx, "backoff", &schema::RCLINK_BACKOFF);
    let enable = s.or(ctx, "enable", &BOOL, true, "senders back off when frames are marked").v;
    let backoff = HostBackoff {
        cut_period: time(ctx, &s, "cut_period", 0..=SECOND).unwrap_or(50 * US),
        raise_period: time(ctx, &s, "raise_period", US..=SECOND).unwrap_or(50 * US),
        raise: rate(ctx, &s, "raise"),
        min_rate: rate(ctx, &s, "min_rate"),
    };
    enable.then_some(backoff)
}

fn read_priorities(ctx: &mut Ctx<'_>, s: &Section<'_>, cbfc: bool) -> RcPriorities {
    let s = s.table(ctx, "priorities", &schema::RCLINK_PRIORITIES);
    let one = |ctx: &mut Ctx<'_>, key, or| s.int(ctx, key, 0..=7).map_or(or, |val| val.v as u8);
    let mut request = if cbfc { [3, 4, 5, 6] } else { [3, 3, 4, 4] };
    if let Some(list) = s.list(ctx, "request") {
        let read: Vec<u8> = list
            .iter()
            .filter_map(|item| (COUNT.parse)(item.v).ok().filter(|n| *n < 8).map(|n| n as u8))
            .collect();
        match <[u8; 4]>::try_from(read) {
            Ok(four) if list.len() == 4 => request = four,
            _ => {
                let at = s.raw(ctx, "request").map_or_else(|| s.span(ctx), |raw| raw.span);
                let message = "requests have four banks, each with a priority from 0 to 7";
                ctx.error(at, "rclink.priorities", message, "write four numbers, e.g. [3, 3, 4, 4]");
            }
        }
    }
    RcPriorities {
        raw: one(ctx, "raw", 0),
        multicast: one(ctx, "multicast", 1),
        response: one(ctx, "response", 2),
        request,
        ack: one(ctx, "ack", if cbfc { 7 } else { 6 }),
        cnp: one(ctx, "cnp", if cbfc { 7 } else { 5 }),
    }
}

fn read_qp(
    ctx: &mut Ctx<'_>,
    s: &Section<'_>,
    link: &HostRcLink,
    ports: &[HostPort],
    at: &mut [PortAt],
) -> Option<HostRcQp> {
    let port = find_port(ctx, s, at);
    let kind = s.or(ctx, "type", &RcType::KIND, RcType::Type1, "a queue pair").v;
    let sends = s.or(ctx, "send", &BOOL, false, "it listens").v;
    let to_group = kind == RcType::Type2 && sends;
    let peer_mac = s.need(ctx, "peer_mac", if to_group { &MAC } else { &HOST_MAC });
    if let Some(mac) = peer_mac.as_ref().filter(|mac| to_group && !mac.v.is_group()) {
        let message = format!("multicast to {}, which is one host", mac.v);
        ctx.error(mac.span, "rclink.group", message, "name a group, e.g. 03:00:00:00:00:01");
    }
    let with_ip = link.format == RcFormat::Standard && kind != RcType::Type3;
    let peer_ip = match (with_ip, to_group) {
        (false, _) => None,
        (true, true) => Some(s.or(ctx, "peer_ip", &GROUP_IP, ALL_SYSTEMS, "the group of all systems").v),
        (true, false) => read_peer_ip(ctx, s),
    };
    let peer_ip = peer_ip.unwrap_or(Ipv4Addr::UNSPECIFIED);
    warn_of_unused(ctx, s, link, kind, with_ip);
    let peer_qp = match kind {
        RcType::Type1 => {
            s.need(ctx, "peer_qp", &COUNT);
            small(ctx, s, "peer_qp", 0..=8191)?
        }
        RcType::Type2 | RcType::Type3 => 0,
    };
    if kind == RcType::Type3 && link.format == RcFormat::AfhLite {
        let here = s.raw(ctx, "type").map_or_else(|| s.span(ctx), |raw| raw.span);
        let message = "AFH_Lite has no raw frames: it has no EtherType to tell them by";
        ctx.error(here, "rclink.lite", message, "use type1 or type2, or another format");
    }
    let stream = read_stream(ctx, s, link, kind, sends);
    let qp = HostRcQp {
        port: port?,
        kind,
        peer_mac: peer_mac?.v,
        peer_ip,
        peer_qp: peer_qp as u16,
        class: s.or(ctx, "class", &RcClass::KIND, RcClass::Request0, "requests of the first bank").v,
        pkey: small(ctx, s, "pkey", 0..=255).unwrap_or(0) as u8,
        window: small(ctx, s, "window", 1..=2048).unwrap_or(512) as u16,
        ack_every: small(ctx, s, "ack_every", 1..=2048).unwrap_or(16) as u16,
        ack_timeout: time(ctx, s, "ack_timeout", 10 * US..=10 * SECOND).unwrap_or(4096 << 14),
        retries: small(ctx, s, "retries", 0..=255).unwrap_or(7) as u8,
        cc_window: s.or(ctx, "cc_window", &RcWindow::KIND, RcWindow::Us65, "the finest rates").v,
        rate: rate(ctx, s, "rate"),
        expect: s.int(ctx, "expect", 1..=u64::MAX).map(|val| val.v),
        stream,
    };
    check_qp(ctx, s, link, &qp, &ports[qp.port], &at[qp.port]);
    at[qp.port].qps += u32::from(kind == RcType::Type1);
    if at[qp.port].qps > 8192 {
        let here = s.span(ctx);
        ctx.error(here, "qp.number", "a port has 8192 queue pairs at most", "spread them over ports");
    }
    Some(qp)
}

fn read_peer_ip(ctx: &mut Ctx<'_>, s: &Section<'_>) -> Option<Ipv4Addr> {
    let ip = s.need(ctx, "peer_ip", &IP)?;
    match ip.v {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(v6) => {
            let message = format!("{v6}: RC Link frames have IPv4 addresses");
            ctx.error(ip.span, "rclink.ip", message, "use IPv4");
            None
        }
    }
}

/// Keys of its own that nothing reads. Those of the defaults may be for others.
fn warn_of_unused(ctx: &mut Ctx<'_>, s: &Section<'_>, link: &HostRcLink, kind: RcType, with_ip: bool) {
    let own = s.clone().nearest();
    let mut warn = |key, why: &str| {
        if let Some(raw) = own.raw(ctx, key) {
            ctx.warn(raw.span, "key.unused", format!("`{key}` has no effect: {why}"), "remove it");
        }
    };
    if !with_ip {
        warn("peer_ip", "these frames have no IP header");
    }
    if kind != RcType::Type1 {
        for key in ["peer_qp", "class", "pkey", "window", "ack_every", "ack_timeout", "retries", "cc_window"]
        {
            warn(key, "only a connection of type1 is a queue pair");
        }
    } else if !link.reliable {
        for key in ["ack_every", "ack_timeout", "retries"] {
            warn(key, "nothing is acknowledged in LITE mode");
        }
    }
}

/// What clashes with the port.
fn check_qp(
    ctx: &mut Ctx<'_>,
    s: &Section<'_>,
    link: &HostRcLink,
    qp: &HostRcQp,
    port: &HostPort,
    at: &PortAt,
) {
    let here = s.span(ctx);
    let place = |ctx: &Ctx<'_>, key| s.raw(ctx, key).map_or(here, |raw| raw.span);
    if qp.peer_mac == port.mac {
        let at_mac = place(ctx, "peer_mac");
        let message = format!("{} is port `{}` itself", qp.peer_mac, at.name);
        ctx.error(at_mac, "qp.peer", message, "name the address of the other end");
    }
    let Some(stream) = qp.stream else { return };
    let headers = if qp.kind == RcType::Type3 { RAW_HEADERS } else { HEADERS };
    let longest = u64::from(stream.bytes).next_multiple_of(4) + headers;
    if longest > u64::from(port.port.mtu) {
        let span = place(ctx, "message");
        let message =
            format!("frames have up to {longest} bytes, port `{}` takes {}", at.name, port.port.mtu);
        let remedy = format!("set mtu = {longest} on the port, or a shorter message");
        ctx.error(span, "rclink.message", message, remedy);
    }
    let priorities = &link.priorities;
    let priority = match qp.kind {
        RcType::Type1 => priorities.of(qp.class),
        RcType::Type2 => priorities.multicast,
        RcType::Type3 => priorities.raw,
    };
    // Raw Ethernet is nobody's promise.
    let promised = link.flow_control == RcFlowControl::Pfc && qp.kind != RcType::Type3;
    if promised && port.port.pfc.enable >> priority & 1 == 0 {
        let span = place(ctx, "class");
        let message = format!("priority {priority} is not among those port `{}` obeys pauses of", at.name);
        let remedy = format!("add {priority} to pfc of the port, or take another class");
        ctx.warn(span, "qp.lossy", message, remedy);
    }
    if let (Some(own), Some(rate)) = (qp.rate, port.port.rate.bps())
        && own > rate
    {
        let span = place(ctx, "rate");
        let message = format!("{} is more than the port's {}", show(own), show(rate));
        ctx.error(span, "qp.rate", message, format!("use at most {}, or raise the port's rate", show(rate)));
    }
}

fn read_stream(
    ctx: &mut Ctx<'_>,
    s: &Section<'_>,
    link: &HostRcLink,
    kind: RcType,
    sends: bool,
) -> Option<HostRcStream> {
    let least = if link.format == RcFormat::AfhLite { SHORTEST_LITE } else { 16 };
    let bytes = size(ctx, s, "message", least..=LONGEST).map_or(1024, |bytes| bytes as u32);
    let messages = s.int(ctx, "messages", 1..=u64::MAX).map(|val| val.v);
    let start = time(ctx, s, "start", 0..=3600 * SECOND).unwrap_or(0);
    if let Some(raw) = s.raw(ctx, "messages").filter(|_| !sends) {
        let message = "`messages` is about messages this connection does not send";
        ctx.error(raw.span, "qp.stream", message, "add send = true");
    }
    if let Some(raw) = s.raw(ctx, "expect").filter(|_| sends && kind != RcType::Type1) {
        let message = format!("a connection of {} goes one way, and this one sends", kind.word());
        ctx.error(raw.span, "qp.stream", message, "make another that receives");
    }
    sends.then_some(HostRcStream { bytes, messages, start })
}
