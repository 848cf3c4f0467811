//! From text to [`HostConfig`], or every error in it.

use super::schema;
use super::{HostConfig, HostDcqcn, HostPort, HostQp, HostStream, HostTraffic, Loaded, rank, rclink};
use crate::buffer;
use crate::diag::{Diagnostic, Span};
use crate::lcores::Cpus;
use crate::parse;
use crate::port::{
    Identity, MAC, Owner, RX_DESCRIPTORS, TX_DESCRIPTORS, VIRTUAL_RATE, identify, priorities, read_eal,
    read_lcore, unique,
};
use crate::read::{Ctx, Layer, Section, Val};
use crate::schema::Table;
use crate::types::{
    AdminStatus, CongestionControl, DcqcnScheme, DeviceKind, FirmwareAlgorithm, HostOperation, HostProtocol,
    LldpMode, Maps, PfcMode, PfcRx, PortConfig, PortPfc, PortRate, Trust, UnknownUnicast,
};
use crate::units::{BOOL, Bad, COUNT, Kind, RATE, SIZE, TEXT, TIME, show_size, show_time, wrong_type};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use weir_dataplane::types::Mac;

/// Ethernet, one tag, IPv4, UDP, BTH, RETH, immediate data, ICRC: the most a path MTU has around it.
const HEADERS: u64 = 14 + 4 + 20 + 8 + 12 + 16 + 4 + 4;
/// Bytes an IPv6 header has more.
const IPV6: u64 = 20;
/// Numbers of connections end here; those above are of datagrams.
const LAST_QPN: u64 = 0x7fff;
/// Sixteen of the longest messages fit behind it.
const LAST_ADDRESS: u64 = u64::MAX - (1 << 30);
/// 24 bits.
const NUMBERS: RangeInclusive<u64> = 0..=0xff_ffff;
const US: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;

const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

pub(crate) const IP: Kind<IpAddr> = Kind {
    parse: |v| {
        let help = "write it as \"10.0.0.1\" or \"fd00::1\"";
        let text = v.as_str().ok_or_else(|| wrong_type(v, help))?;
        let ip: IpAddr = text.parse().map_err(|_| Bad::new(format!("`{text}` is no IP address"), help))?;
        match ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) || ip.is_unspecified() {
            true => Err(Bad::new(format!("{ip} is not the address of one host"), help)),
            false => Ok(ip),
        }
    },
    show: IpAddr::to_string,
};

/// An IPv4 group, for multicast.
pub(crate) const GROUP_IP: Kind<Ipv4Addr> = Kind {
    parse: |v| {
        let help = "give the connection that sends to a group its own, e.g. \"239.1.1.1\"";
        let text = v.as_str().ok_or_else(|| wrong_type(v, help))?;
        match text.parse::<Ipv4Addr>() {
            Ok(ip) if ip.is_multicast() => Ok(ip),
            _ => Err(Bad::new(format!("`{text}` is no IPv4 address of a group"), help)),
        }
    },
    show: Ipv4Addr::to_string,
};

pub(crate) const HOST_MAC: Kind<Mac> = Kind {
    parse: |v| match (MAC.parse)(v)? {
        mac if mac.is_group() || mac.to_u64() == 0 => Err(Bad::new(
            format!("{mac} is not the address of one host"),
            "use an individual address such as 02:00:00:00:00:01",
        )),
        mac => Ok(mac),
    },
    show: Mac::to_string,
};

/// Where the values of a port stand.
pub(super) struct PortAt {
    pub name: String,
    pub here: Span,
    pub mtu: Span,
    /// Connections so far.
    pub qps: u32,
}

/// Reads and checks the host configuration `text`, calling it `name` in messages.
///
/// # Errors
/// Every error found, and the warnings beside them, in the order of the text.
pub fn load(name: &str, text: &str) -> Result<Loaded, Vec<Diagnostic>> {
    let mut ctx = Ctx::new(name, text);
    let document = parse(&mut ctx);
    if !ctx.found.is_empty() {
        return Err(ctx.in_order());
    }
    let layer = Layer { table: document.get_ref(), at: Span::default(), preset: false };
    let root = Section::new(&mut ctx, &schema::ROOT, String::new(), vec![layer]);
    let config = read(&mut ctx, &root);
    if ctx.found.has_errors() {
        return Err(ctx.in_order());
    }
    Ok(Loaded { config, warnings: ctx.in_order() })
}

fn read(ctx: &mut Ctx<'_>, root: &Section<'_>) -> HostConfig {
    let (eal_args, lcores) = read_eal(ctx, root);
    let host = root.table(ctx, "host", &schema::HOST);
    let rest = time(ctx, &host, "rest", 0..=10_000 * US).unwrap_or(0);
    let slack = time(ctx, &host, "slack", 0..=10_000 * US).unwrap_or(200 * US);
    let why = "what most fabrics carry";
    let protocol = host.or(ctx, "protocol", &HostProtocol::KIND, HostProtocol::Roce, why).v;
    let other: &[&str] = match protocol {
        HostProtocol::Roce => &["rclink"],
        HostProtocol::RcLink => &["dcqcn", "qp_defaults", "qp"],
    };
    for key in other {
        if let Some(raw) = root.raw(ctx, key) {
            let message = format!("[{key}] means nothing where hosts speak \"{}\"", protocol.word());
            ctx.error(raw.span, "host.protocol", message, "set protocol in [host], or remove it");
        }
    }
    let needs_ip = protocol == HostProtocol::Roce || rclink::needs_ip(ctx, root);
    let (ports, mut at): (Vec<_>, Vec<_>) =
        read_ports(ctx, root, lcores.as_ref(), needs_ip).into_iter().unzip();
    let traffic = match protocol {
        HostProtocol::Roce => read_roce(ctx, root, &ports, &mut at),
        HostProtocol::RcLink => HostTraffic::RcLink(rclink::read(ctx, root, &ports, &mut at)),
    };
    HostConfig { eal_args, rest, slack, ports, traffic }
}

/// The connections of a table, with what all of them have in common.
pub(super) fn connections<'a>(
    ctx: &mut Ctx<'_>,
    s: &Section<'a>,
    schema: &'static Table,
    own: &[&str],
    remedy: &str,
) -> Vec<Section<'a>> {
    let defaults = s.table(ctx, "qp_defaults", schema);
    for key in own {
        if let Some(raw) = defaults.raw(ctx, key) {
            let message = format!("`{key}` belongs to one connection, not to all");
            ctx.error(raw.span, "qp.defaults", message, format!("move it to its {}", schema.path));
        }
    }
    let items = s.items(ctx, "qp", schema);
    if items.is_empty() {
        let message = "a host without connections neither sends nor receives";
        ctx.error(Span::default(), "qp.none", message, remedy);
    }
    items.into_iter().map(|item| item.over(&defaults)).collect()
}

fn read_roce(ctx: &mut Ctx<'_>, root: &Section<'_>, ports: &[HostPort], at: &mut [PortAt]) -> HostTraffic {
    let dcqcn = read_dcqcn(ctx, root);
    let remedy = "add [[qp]] with peer_ip and peer_qpn";
    let mut qps = Vec::new();
    for item in connections(ctx, root, &schema::QP, &["port", "peer_qpn"], remedy) {
        qps.extend(read_qp(ctx, &item, ports, at));
    }
    check_rates(ctx, root, &dcqcn, ports, &qps);
    HostTraffic::Roce { dcqcn, qps }
}

pub(super) fn time(ctx: &mut Ctx<'_>, s: &Section<'_>, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
    let val = s.get(ctx, key, &TIME)?;
    s.within(ctx, key, val, &range, |n| show_time(*n)).map(|val| val.v)
}

pub(super) fn size(ctx: &mut Ctx<'_>, s: &Section<'_>, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
    let val = s.get(ctx, key, &SIZE)?;
    s.within(ctx, key, val, &range, |n| show_size(*n)).map(|val| val.v)
}

/// A rate that has a number.
pub(super) fn rate(ctx: &mut Ctx<'_>, s: &Section<'_>, key: &str) -> Option<u64> {
    let val = s.get(ctx, key, &RATE)?;
    if val.v.is_none() {
        let message = format!("{}: a host needs a number here", s.key(key));
        ctx.error(val.span, "value", message, "write a rate, e.g. \"10G\"");
    }
    val.v
}

pub(super) fn small(
    ctx: &mut Ctx<'_>,
    s: &Section<'_>,
    key: &str,
    range: RangeInclusive<u64>,
) -> Option<u32> {
    s.int(ctx, key, range).and_then(|val| u32::try_from(val.v).ok())
}

fn read_ports(
    ctx: &mut Ctx<'_>,
    root: &Section<'_>,
    lcores: Option<&Cpus>,
    needs_ip: bool,
) -> Vec<(HostPort, PortAt)> {
    let items = root.items(ctx, "port", &schema::PORT);
    let owner = Owner { name: "host", without: "reaches nobody", needs: "name, device, mac and ip" };
    let (mut macs, mut ips) = (HashMap::new(), HashMap::new());
    let mut lcore: Option<Val<u64>> = None;
    let mut ports = Vec::new();
    for (item, Identity { name, kind, device }) in identify(ctx, items, &owner) {
        if let Some(device) = device.as_ref().filter(|_| kind.is_some_and(DeviceKind::is_in_process)) {
            let message = "the other end of an in-process ring is in this process";
            let remedy = "use net_memif, or weir lab for hosts on rings";
            ctx.error(device.span, "port.device", message, remedy);
        }
        let mac = item.need(ctx, "mac", &HOST_MAC);
        let ip = if needs_ip { item.need(ctx, "ip", &IP) } else { item.get(ctx, "ip", &IP) };
        for (val, seen, what) in [
            (mac.as_ref().map(text), &mut macs, "MAC address"),
            (ip.as_ref().map(text), &mut ips, "IP address"),
        ] {
            if let Some(val) = val {
                unique(ctx, seen, &val, &val.v, "port.address", what);
            }
        }
        let own = read_lcore(ctx, &item, lcores);
        if let Some(own) = &own {
            one_lcore(ctx, own, lcore.as_ref());
        }
        lcore = lcore.or_else(|| own.clone());
        let (rate, mtu, mtu_at) = read_link(ctx, &item, kind);
        let pfc = priorities(ctx, &item, "pfc").unwrap_or(1 << 3);
        let first_qpn = small(ctx, &item, "first_qpn", 1..=LAST_QPN).unwrap_or(0x11);
        let (kind, device) = (kind.unwrap_or(DeviceKind::Vdev), device.map_or_else(String::new, |d| d.v));
        let mut port = plain(name.clone(), kind, device);
        (port.rate, port.mtu, port.pfc.enable) = (rate, mtu, pfc);
        port.lcore = own.map(|own| own.v as u16);
        let mac = mac.map_or(Mac([0; 6]), |mac| mac.v);
        let ip = ip.map_or(NOWHERE, |ip| ip.v);
        ports.push((
            HostPort { port, mac, ip, first_qpn },
            PortAt { name, here: item.span(ctx), mtu: mtu_at, qps: 0 },
        ));
    }
    ports
}

/// The value as text, for comparison.
fn text<T: ToString>(val: &Val<T>) -> Val<String> {
    Val { v: val.v.to_string(), span: val.span, origin: val.origin.clone() }
}

fn one_lcore(ctx: &mut Ctx<'_>, own: &Val<u64>, first: Option<&Val<u64>>) {
    if let Some(first) = first.filter(|first| first.v != own.v) {
        let message = format!("one lcore polls all ports: {} here, {} before", own.v, first.v);
        ctx.clash(
            (own.span, first.span),
            "port.lcore",
            message,
            "write the same lcore, or run a second host",
        );
    }
}

/// Rate and MTU.
fn read_link(ctx: &mut Ctx<'_>, s: &Section<'_>, kind: Option<DeviceKind>) -> (PortRate, u16, Span) {
    let set = rate(ctx, s, "rate");
    let rate = match (set, kind) {
        (Some(bps), _) => PortRate::Fixed(bps),
        (None, Some(DeviceKind::Pci)) => PortRate::Link,
        (None, _) => PortRate::Fixed(VIRTUAL_RATE),
    };
    let mtu = size(ctx, s, "mtu", 64..=16_128).unwrap_or(1600) as u16;
    let mtu_at = s.raw(ctx, "mtu").map_or_else(|| s.span(ctx), |raw| raw.span);
    (rate, mtu, mtu_at)
}

/// A port with nothing of a switch about it.
fn plain(name: String, kind: DeviceKind, device: String) -> PortConfig {
    let (pg, queue) = buffer::base();
    PortConfig {
        name,
        kind,
        device,
        engine: None,
        admin: AdminStatus::Up,
        rate: PortRate::Unlimited,
        lcore: None,
        mtu: 0,
        mac: None,
        format: 0,
        trust: vec![Trust::Port],
        default_tc: 0,
        learning: false,
        learn_limit: None,
        unknown_unicast: UnknownUnicast::Drop,
        vlans: None,
        storm_control: None,
        lldp: LldpMode::Off,
        cable_mm: None,
        peer_response: None,
        rx_descriptors: RX_DESCRIPTORS,
        tx_descriptors: TX_DESCRIPTORS,
        pfc: PortPfc { enable: 0, mode: PfcMode::Auto, visible: None, rx: PfcRx::Enabled, tx: true },
        maps: Maps::default(),
        map_names: BTreeMap::new(),
        pgs: [pg; 8],
        queues: [queue; 8],
        ingress_limit: None,
        egress_limit: None,
    }
}

fn read_dcqcn(ctx: &mut Ctx<'_>, root: &Section<'_>) -> HostDcqcn {
    let s = root.table(ctx, "dcqcn", &schema::DCQCN);
    let why = "the published algorithm";
    let parameters = s.or(ctx, "parameters", &CongestionControl::KIND, CongestionControl::Paper, why).v;
    let or = HostDcqcn::of(parameters);
    let why = "scheme 1: hardware alone";
    let scheme = s.or(ctx, "scheme", &DcqcnScheme::KIND, DcqcnScheme::Hardware, why).v;
    check_scheme(ctx, &s, parameters, scheme);
    let why = "as hardware does";
    let algorithm = FirmwareAlgorithm::Dcqcn;
    let firmware_algorithm = s.or(ctx, "firmware_algorithm", &FirmwareAlgorithm::KIND, algorithm, why).v;
    if firmware_algorithm == FirmwareAlgorithm::Backoff {
        let why = "firmware_algorithm = \"backoff\" has no such constant";
        OF_DCQCN.iter().for_each(|key| refuse_idle(ctx, &s, key, why));
    }
    HostDcqcn {
        parameters,
        scheme,
        firmware_algorithm,
        firmware_period: time(ctx, &s, "firmware_period", US..=SECOND).unwrap_or(or.firmware_period),
        initial_rate: rate(ctx, &s, "initial_rate"),
        gain: small(ctx, &s, "gain", 0..=1024),
        initial_alpha: small(ctx, &s, "initial_alpha", 0..=1023),
        rate_shift: small(ctx, &s, "rate_shift", 0..=10),
        alpha_period: time(ctx, &s, "alpha_period", US..=SECOND),
        cut_period: time(ctx, &s, "cut_period", 0..=SECOND),
        increase_period: time(ctx, &s, "increase_period", US..=SECOND),
        byte_threshold: size(ctx, &s, "byte_threshold", 64..=1 << 40),
        stages: small(ctx, &s, "stages", 1..=100),
        additive: rate(ctx, &s, "additive"),
        hyper: rate(ctx, &s, "hyper"),
        min_left_percent: small(ctx, &s, "min_left_percent", 0..=100),
        first_cnp_rate: rate(ctx, &s, "first_cnp_rate"),
        min_rate: rate(ctx, &s, "min_rate"),
        cnp_interval: time(ctx, &s, "cnp_interval", 0..=SECOND).unwrap_or(or.cnp_interval),
        outstanding: small(ctx, &s, "outstanding", 1..=16).unwrap_or(or.outstanding),
        outstanding_after_cnp: small(ctx, &s, "outstanding_after_cnp", 1..=16)
            .unwrap_or(or.outstanding_after_cnp),
        restore_after: time(ctx, &s, "restore_after", US..=10 * SECOND).unwrap_or(or.restore_after),
    }
}

/// Constants of DCQCN alone.
const OF_DCQCN: [&str; 9] = [
    "gain",
    "initial_alpha",
    "rate_shift",
    "alpha_period",
    "byte_threshold",
    "stages",
    "hyper",
    "min_left_percent",
    "first_cnp_rate",
];

/// Keys that say nothing under a scheme.
fn check_scheme(ctx: &mut Ctx<'_>, s: &Section<'_>, parameters: CongestionControl, scheme: DcqcnScheme) {
    let idle: &[&'static str] = match (parameters, scheme) {
        (CongestionControl::Off, _) => {
            let of_sender = schema::DCQCN.keys.iter().map(|key| key.name);
            return of_sender
                .filter(|key| !matches!(*key, "parameters" | "cnp_interval"))
                .for_each(|key| refuse_idle(ctx, s, key, "nobody decides: parameters = \"off\""));
        }
        (_, DcqcnScheme::Hardware) => &["firmware_algorithm", "firmware_period"],
        (_, DcqcnScheme::FirmwareRate) => &[],
        (_, DcqcnScheme::Firmware) => &["outstanding", "outstanding_after_cnp", "restore_after"],
    };
    let why = match scheme {
        DcqcnScheme::Hardware => "firmware has no part in scheme = \"hardware\"".to_owned(),
        _ => format!("nothing but the mask holds back messages under scheme = \"{}\"", scheme.word()),
    };
    idle.iter().for_each(|key| refuse_idle(ctx, s, key, &why));
}

fn refuse_idle(ctx: &mut Ctx<'_>, s: &Section<'_>, key: &'static str, why: &str) {
    if let Some(raw) = s.raw(ctx, key) {
        ctx.error(raw.span, "dcqcn.scheme", format!("`{key}`: {why}"), "remove it, or change that key");
    }
}

fn read_qp(ctx: &mut Ctx<'_>, s: &Section<'_>, ports: &[HostPort], at: &mut [PortAt]) -> Option<HostQp> {
    let port = find_port(ctx, s, at);
    let peer_ip = s.need(ctx, "peer_ip", &IP);
    let peer_mac = s.get(ctx, "peer_mac", &HOST_MAC).map(|mac| mac.v);
    s.need(ctx, "peer_qpn", &COUNT);
    let peer_qpn = small(ctx, s, "peer_qpn", NUMBERS);
    let byte = |ctx: &mut Ctx<'_>, key, max, or| s.int(ctx, key, 0..=max).map_or(or, |val| val.v as u8);
    let (priority, dscp) = (byte(ctx, "priority", 7, 3), byte(ctx, "dscp", 63, 26));
    let (cnp_priority, cnp_dscp) = (byte(ctx, "cnp_priority", 7, 6), byte(ctx, "cnp_dscp", 63, 48));
    let mtu = read_mtu(ctx, s, port.map(|port| (&ports[port], &at[port])));
    let stream = read_stream(ctx, s);
    let sums = stream.filter(|stream| stream.operation == HostOperation::AllReduce);
    let rank = match (sums, s.raw(ctx, "inc")) {
        (Some(sums), _) => {
            let at = s.raw(ctx, "message").map_or_else(|| s.span(ctx), |raw| raw.span);
            rank::read(ctx, s, (sums.bytes, at))
        }
        (None, Some(raw)) => {
            let message = "`inc` is about sums this connection takes no part in";
            ctx.error(raw.span, "qp.rank", message, "add send = \"allreduce\", or remove it");
            None
        }
        (None, None) => None,
    };
    let window = if sums.is_some() { 256 } else { 4096 };
    let receive = sums.map_or(64 << 10, |sums| sums.bytes);
    let mut qp = HostQp {
        port: 0,
        qpn: 0,
        peer_ip: NOWHERE,
        peer_mac,
        peer_qpn: 0,
        send_psn: small(ctx, s, "send_psn", NUMBERS).unwrap_or(0),
        recv_psn: small(ctx, s, "recv_psn", NUMBERS).unwrap_or(0),
        vlan: s.int(ctx, "vlan", 0..=4094).map(|val| val.v as u16),
        priority,
        dscp,
        cnp_priority,
        cnp_dscp,
        mtu,
        window: small(ctx, s, "window", 1..=1 << 22).unwrap_or(window),
        ack_timeout: time(ctx, s, "ack_timeout", 10 * US..=10 * SECOND).unwrap_or(4096 << 14),
        retries: byte(ctx, "retries", 255, 7),
        rate: rate(ctx, s, "rate"),
        receive: size(ctx, s, "receive", 16..=64 << 20).map_or(receive, |bytes| bytes as u32),
        memory_address: s.int(ctx, "memory_address", 0..=LAST_ADDRESS).map(|val| val.v),
        memory_key: small(ctx, s, "memory_key", 0..=u64::from(u32::MAX)),
        verify: s.get(ctx, "verify", &BOOL).is_none_or(|val| val.v),
        expect: s.int(ctx, "expect", 1..=u64::MAX).map(|val| val.v),
        stream,
        rank,
    };
    let (port, peer_ip) = (port?, peer_ip?);
    if peer_ip.v == ports[port].ip {
        let message = format!("{} is port `{}` itself", peer_ip.v, at[port].name);
        ctx.error(peer_ip.span, "qp.peer", message, "name the address of the other end");
    } else if peer_ip.v.is_ipv4() != ports[port].ip.is_ipv4() {
        let message =
            format!("{} and port `{}`, {}, are of two families", peer_ip.v, at[port].name, ports[port].ip);
        ctx.error(peer_ip.span, "qp.peer", message, "use IPv4 addresses at both ends, or IPv6");
    } else if peer_ip.v.is_ipv6() && peer_mac.is_none() {
        let message = format!("nothing says where {} is: IPv6 peers are not asked for", peer_ip.v);
        ctx.error(peer_ip.span, "qp.peer", message, "add peer_mac");
    }
    (qp.port, qp.peer_ip, qp.peer_qpn) = (port, peer_ip.v, peer_qpn?);
    qp.qpn = ports[port].first_qpn + at[port].qps;
    at[port].qps += 1;
    let here = s.span(ctx);
    if u64::from(qp.qpn) > LAST_QPN {
        let message = format!("number {} is above {LAST_QPN}", qp.qpn);
        ctx.error(here, "qp.number", message, "lower first_qpn of the port");
    }
    if ports[port].port.pfc.enable >> priority & 1 == 0 && stream.is_some() {
        let message =
            format!("priority {priority} is not among those port `{}` obeys pauses of", at[port].name);
        let at = s.raw(ctx, "priority").map_or(here, |raw| raw.span);
        ctx.warn(
            at,
            "qp.lossy",
            message,
            format!("add {priority} to pfc of the port, or take another priority"),
        );
    }
    if let (Some(own), Some(link)) = (qp.rate, ports[port].port.rate.bps())
        && own > link
        && let Some(set) = s.raw(ctx, "rate")
    {
        let message = format!("{} is more than the port's {}", show(own), show(link));
        ctx.error(
            set.span,
            "qp.rate",
            message,
            format!("use at most {}, or raise the port's rate", show(link)),
        );
    }
    Some(qp)
}

pub(super) fn show(bps: u64) -> String {
    (RATE.show)(&Some(bps))
}

pub(super) fn find_port(ctx: &mut Ctx<'_>, s: &Section<'_>, ports: &[PortAt]) -> Option<usize> {
    let Some(name) = s.get(ctx, "port", &TEXT) else {
        if ports.len() > 1 && s.raw(ctx, "port").is_none() {
            let at = s.span(ctx);
            let message = format!("{} is missing, and there are {} ports", s.key("port"), ports.len());
            ctx.error(at, "required", message, "add `port` with the name of one");
        }
        return (ports.len() == 1).then_some(0);
    };
    let found = ports.iter().position(|port| port.name == name.v);
    if found.is_none() {
        let names: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
        let message = format!("there is no port `{}`", name.v);
        ctx.error(name.span, "port.unknown", message, format!("ports: {}", names.join(", ")));
    }
    found
}

fn read_mtu(ctx: &mut Ctx<'_>, s: &Section<'_>, port: Option<(&HostPort, &PortAt)>) -> u16 {
    let set = s.get(ctx, "mtu", &SIZE);
    // Where nothing is said the port's own MTU is what is too small.
    let here = port.map_or_else(|| s.span(ctx), |(_, at)| at.mtu);
    let (mtu, span) = set.map_or((1024, here), |val| (val.v, val.span));
    if !matches!(mtu, 256 | 512 | 1024 | 2048 | 4096) {
        let message = format!("a path MTU of {mtu} bytes");
        ctx.error(span, "qp.mtu", message, "use 256, 512, 1024, 2048 or 4096");
        return 1024;
    }
    let headers = HEADERS + port.filter(|(port, _)| port.ip.is_ipv6()).map_or(0, |_| IPV6);
    if let Some((port, at)) = port
        && mtu + headers > u64::from(port.port.mtu)
    {
        let longest = mtu + headers;
        let takes = port.port.mtu;
        let message = format!(
            "frames have up to {mtu} + {headers} = {longest} bytes, port `{}` takes {takes}",
            at.name
        );
        ctx.error(span, "qp.mtu", message, format!("set mtu = {longest} on the port, or a smaller path MTU"));
    }
    mtu as u16
}

fn read_stream(ctx: &mut Ctx<'_>, s: &Section<'_>) -> Option<HostStream> {
    let operation = s.get(ctx, "send", &HostOperation::KIND);
    let bytes = size(ctx, s, "message", 16..=64 << 20).map_or(64 << 10, |bytes| bytes as u32);
    let messages = s.int(ctx, "messages", 1..=u64::MAX).map(|val| val.v);
    let start = time(ctx, s, "start", 0..=3600 * SECOND).unwrap_or(0);
    let remote_address = s.get(ctx, "remote_address", &COUNT).map(|val| val.v);
    let remote_key = small(ctx, s, "remote_key", 0..=u64::from(u32::MAX));
    let Some(operation) = operation else {
        let lone = ["messages", "remote_address", "remote_key"];
        if let Some((key, raw)) = lone.into_iter().find_map(|key| Some((key, s.raw(ctx, key)?)))
            && s.raw(ctx, "send").is_none()
        {
            let message = format!("`{key}` is about messages this connection does not send");
            ctx.error(raw.span, "qp.stream", message, "add send = \"write\", \"send\" or \"allreduce\"");
        }
        return None;
    };
    // A rank may write, too, which is looked at with what else it does.
    if operation.v == HostOperation::Send
        && let Some(raw) = s.raw(ctx, "remote_address").or_else(|| s.raw(ctx, "remote_key"))
    {
        let message = "a SEND goes into a receive buffer, not to an address";
        ctx.error(raw.span, "qp.stream", message, "use send = \"write\", or remove it");
    }
    Some(HostStream { operation: operation.v, bytes, messages, start, remote_address, remote_key })
}

/// Rates that clash between `[dcqcn]` and a connection.
fn check_rates(ctx: &mut Ctx<'_>, root: &Section<'_>, dcqcn: &HostDcqcn, ports: &[HostPort], qps: &[HostQp]) {
    let s = root.table(ctx, "dcqcn", &schema::DCQCN);
    let rate = |qp: &HostQp| qp.rate.or_else(|| ports[qp.port].port.rate.bps());
    let slowest = qps.iter().filter_map(rate).min();
    let rates = [
        ("min_rate", dcqcn.min_rate),
        ("initial_rate", dcqcn.initial_rate),
        ("first_cnp_rate", dcqcn.first_cnp_rate),
    ];
    for (key, set) in rates {
        if let (Some(set), Some(slowest)) = (set, slowest)
            && set > slowest
            && let Some(at) = s.raw(ctx, key)
        {
            let message = format!("{key} = {} is above the {} of a connection", show(set), show(slowest));
            ctx.error(at.span, "dcqcn.rates", message, format!("use at most {}", show(slowest)));
        }
    }
    let (after, all) = (dcqcn.outstanding_after_cnp, dcqcn.outstanding);
    if after > all && dcqcn.scheme != DcqcnScheme::Firmware {
        let at = s.raw(ctx, "outstanding_after_cnp").or_else(|| s.raw(ctx, "outstanding"));
        let at = at.map_or_else(|| s.span(ctx), |raw| raw.span);
        let message = format!("{after} messages in flight after a CNP, {all} without");
        ctx.error(at, "dcqcn.outstanding", message, format!("set outstanding_after_cnp to at most {all}"));
    }
}
