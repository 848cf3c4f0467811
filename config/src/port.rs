//! `[[port]]`, `[port_defaults]` and `[eal]`.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use super::buffer;
use super::device;
use super::diag::Span;
use super::format::FormatConfig;
use super::inc;
use super::lcores::{Cpus, lcores};
use super::lldp;
use super::qos::ClassMaps;
use super::read::{Ctx, Origin, Section, Val, check_name, indices};
use super::schema;
use super::storm_control;
use super::types::{
    AdminStatus, DeviceKind, FdbConfig, PfcMode, PfcRx, PortConfig, PortPfc, PortRate, Trust, UnknownUnicast,
};
use super::units::{
    BOOL, Bad, Kind, LENGTH, LONGEST_CABLE_MM, RATE, SIZE, SIZE_OR_AUTO, TEXT, show_rate, show_size,
    wrong_type,
};
use super::vlan;
use weir_dataplane::types::{MAX_PORTS, Mac};

/// Lcores the packaged DPDK is built for.
pub const MAX_LCORES: u64 = 128;
/// Least rate of a port or a queue, bit/s.
pub const LEAST_RATE: u64 = 1_000_000;
/// `mtu` of a port: its longest frame, bytes without FCS.
pub const MTU: RangeInclusive<u64> = 64..=16_128;
/// Rate of a virtual port that names none.
pub(super) const VIRTUAL_RATE: u64 = 100_000_000_000;
/// Descriptors of a receive and of a transmit ring by default.
pub(super) const RX_DESCRIPTORS: u16 = 1024;
pub(super) const TX_DESCRIPTORS: u16 = 256;
/// Where the values of a port stand, for checks that come later.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortAt {
    pub port: Span,
    pub rate: Span,
    pub cable: Span,
    pub enable: Span,
    pub trust: Span,
    pub storm_control: Span,
}

pub(super) const MAC: Kind<Mac> = Kind {
    parse: |v| {
        let help = "write it as \"02:00:00:00:00:01\"";
        let text = v.as_str().ok_or_else(|| wrong_type(v, help))?;
        text.parse().map_err(|e: String| Bad::new(e, help))
    },
    show: Mac::to_string,
};

/// EAL arguments and the CPUs their workers may run on, if that can be told.
pub(super) fn read_eal(ctx: &mut Ctx<'_>, root: &Section<'_>) -> (Vec<String>, Option<Cpus>) {
    let section = root.table(ctx, "eal", &schema::EAL);
    let mut args: Vec<String> = Vec::new();
    for item in section.list(ctx, "args").unwrap_or_default() {
        let Some(text) = item.v.as_str() else {
            ctx.error(
                item.span,
                "eal.args",
                "an EAL argument is a text",
                "write args = [\"-l\", \"0-1\", \"--no-huge\"]",
            );
            continue;
        };
        if text.contains('\0') {
            ctx.error(item.span, "eal.args", "an argument cannot contain a NUL byte", "remove it");
        }
        let blank = text.find(char::is_whitespace);
        if text.starts_with('-') && blank.is_some_and(|b| !text[..b].contains('=')) {
            let split: Vec<_> = text.split_whitespace().map(|t| format!("\"{t}\"")).collect();
            let message = format!("`{text}` is several arguments in one element");
            ctx.error(item.span, "eal.args", message, format!("write {}", split.join(", ")));
        }
        if text == "--" {
            ctx.error(item.span, "eal.args", "`--` ends the EAL arguments", "list EAL arguments only");
        }
        // EAL answers with its usage text and a complaint about --legacy-mem, which nobody wrote.
        let pair = [("--no-huge", "--in-memory"), ("--in-memory", "--no-huge")];
        if let Some((_, other)) =
            pair.iter().find(|(this, other)| text == *this && args.iter().any(|a| a == other))
        {
            let message = format!("EAL refuses `{text}` together with `{other}`");
            ctx.error(
                item.span,
                "eal.args",
                message,
                "keep --no-huge alone, and tell instances apart by --file-prefix",
            );
        }
        args.push(text.to_owned());
    }
    if !args.is_empty()
        && let Some(set) = section.raw(ctx, "args")
    {
        ctx.explain(section.key("args"), args.join(" "), set.origin, "");
    }
    let lcores = lcores(&args).map(|lcores| lcores.of_workers());
    (args, lcores)
}

/// Everything the ports need from the rest of the file.
pub(super) struct Around<'a> {
    pub formats: &'a [FormatConfig],
    pub maps: &'a ClassMaps,
    pub trust: Option<Val<Vec<Trust>>>,
    pub fdb: &'a FdbConfig,
    pub lcores: Option<Cpus>,
}

/// Who has ports.
pub(super) struct Owner {
    /// What it is.
    pub name: &'static str,
    /// What it is without ports.
    pub without: &'static str,
    /// What its first port needs.
    pub needs: &'static str,
}

/// A port by its name and its device.
pub(super) struct Identity {
    pub name: String,
    pub kind: Option<DeviceKind>,
    pub device: Option<Val<String>>,
}

/// The ports of a file: as many as fit, each with a name and a device that no other has.
pub(super) fn identify<'a>(
    ctx: &mut Ctx<'_>,
    items: Vec<Section<'a>>,
    owner: &Owner,
) -> Vec<(Section<'a>, Identity)> {
    if items.is_empty() {
        let message = format!("a {} without ports {}", owner.name, owner.without);
        ctx.error(Span::default(), "port.none", message, format!("add [[port]] with {}", owner.needs));
    }
    if let Some(extra) = items.get(MAX_PORTS) {
        let message = format!("{} ports, at most {MAX_PORTS} fit one {}", items.len(), owner.name);
        let at = extra.span(ctx);
        ctx.error(at, "port.count", message, format!("remove ports or run a second {}", owner.name));
    }
    let (mut names, mut devices, mut wires) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut ports = Vec::new();
    for (i, mut item) in items.into_iter().take(MAX_PORTS).enumerate() {
        let name = item.need(ctx, "name", &TEXT);
        let device = item.need(ctx, "device", &TEXT);
        if let Some(name) = &name {
            check_name(ctx, name, "a port");
            unique(ctx, &mut names, name, &name.v, "port.name", "port name");
        }
        let kind = device.as_ref().and_then(|device| device::kind(ctx, device));
        if let (Some(device), Some(DeviceKind::Pci | DeviceKind::Vdev)) = (&device, kind) {
            let id = device.v.split(',').next().unwrap_or_default();
            let id = id.strip_prefix("0000:").unwrap_or(id);
            unique(ctx, &mut devices, device, id, "port.device", "device");
            if let Some(wire) = device::wire(&device.v) {
                unique(ctx, &mut wires, device, &wire, "port.device", "interface");
            }
        }
        let name = name.map_or_else(|| format!("port{i}"), |name| name.v);
        item.path = format!("port.{name}");
        ports.push((item, Identity { name, kind, device }));
    }
    ports
}

/// The lcore of a port, among those that are known: by the CPU it runs on.
pub(super) fn read_lcore(ctx: &mut Ctx<'_>, s: &Section<'_>, known: Option<&Cpus>) -> Option<Val<u64>> {
    let lcore = s.int(ctx, "lcore", 0..=MAX_LCORES - 1)?;
    if let Some(known) = known.filter(|known| !known.contains(&lcore.v)) {
        let message =
            format!("lcore {} is not among those that [eal] args give to workers: CPUs {known:?}", lcore.v);
        ctx.error(
            lcore.span,
            "port.lcore",
            message,
            "choose one of these CPUs, or extend `-l`, of which the first lcore moves no frames",
        );
    }
    Some(lcore)
}

/// Refuses a rate at which nothing moves: below 1 Mbit/s a frame of 1500 bytes takes longer than 12 ms.
pub(super) fn enough(
    ctx: &mut Ctx<'_>,
    s: &Section<'_>,
    key: &str,
    rate: Val<Option<u64>>,
) -> Option<Val<Option<u64>>> {
    let Some(bps) = rate.v.filter(|bps| *bps < LEAST_RATE) else { return Some(rate) };
    let message = format!("{} = {}: nothing moves at less than 1M", s.key(key), show_rate(bps));
    ctx.error(rate.span, "range", message, "write a rate of 1M or more, with its unit: \"100G\"");
    None
}

/// A list of priorities as a mask; `None`: not set.
pub(super) fn priorities(ctx: &mut Ctx<'_>, s: &Section<'_>, key: &str) -> Option<u8> {
    let mut mask = 0u8;
    for item in s.list(ctx, key)? {
        match indices(item.v, 8) {
            Ok(list) => mask |= list.iter().fold(0, |bits, n| bits | 1 << n),
            Err(bad) => ctx.error(item.span, "value", format!("{}: {}", s.key(key), bad.message), bad.remedy),
        }
    }
    Some(mask)
}

pub(super) fn read(ctx: &mut Ctx<'_>, root: &Section<'_>, around: &Around<'_>) -> Vec<(PortConfig, PortAt)> {
    let defaults = root.table(ctx, "port_defaults", &schema::PORT);
    for key in ["name", "device", "inc"] {
        if let Some(raw) = defaults.raw(ctx, key) {
            let message = format!("`{key}` belongs to one port, not to all");
            ctx.error(raw.span, "port.defaults", message, "move it to its [[port]]");
        }
    }
    let items = root.items(ctx, "port", &schema::PORT).into_iter().map(|item| item.over(&defaults)).collect();
    let owner =
        Owner { name: "switch", without: "moves nothing", needs: "name = \"p0\" and device = \"ring\"" };
    let identified = identify(ctx, items, &owner).into_iter();
    let one = |(item, Identity { name, kind, device }): (Section<'_>, Identity)| {
        let device = device.map_or_else(String::new, |d| d.v);
        read_one(ctx, &item, name, (kind.unwrap_or(DeviceKind::Ring), device), around)
    };
    identified.map(one).collect()
}

fn read_one(
    ctx: &mut Ctx<'_>,
    s: &Section<'_>,
    name: String,
    (kind, device): (DeviceKind, String),
    around: &Around<'_>,
) -> (PortConfig, PortAt) {
    let here = s.span(ctx);
    let pci = kind == DeviceKind::Pci;

    let rate = s.get(ctx, "rate", &RATE).and_then(|rate| enough(ctx, s, "rate", rate));
    let rate_at = rate.as_ref().map_or(here, |r| r.span);
    let rate = match (rate, pci) {
        (Some(Val { v: Some(bps), .. }), _) => PortRate::Fixed(bps),
        (Some(_), _) => PortRate::Unlimited,
        // It was refused: that it is unknown is no second fault.
        (None, _) if s.raw(ctx, "rate").is_some() => PortRate::Fixed(VIRTUAL_RATE),
        (None, true) => {
            ctx.explain(
                s.key("rate"),
                "that of the link",
                Origin::Default,
                "a NIC reports its speed at start",
            );
            PortRate::Link
        }
        (None, false) => {
            let why = "virtual devices have no line rate; the shaper enforces this one";
            ctx.explain(s.key("rate"), show_rate(VIRTUAL_RATE), Origin::Default, why);
            PortRate::Fixed(VIRTUAL_RATE)
        }
    };

    let lcore = read_lcore(ctx, s, around.lcores.as_ref());
    let admin = s.or(ctx, "admin", &AdminStatus::KIND, AdminStatus::Up, "a port is there to be used").v;

    let mtu = s.or(ctx, "mtu", &SIZE, 9216, "jumbo frames pass; headroom grows with it");
    let mtu = s.within(ctx, "mtu", mtu, &MTU, |n| show_size(*n)).map_or(9216, |m| m.v as u16);

    let format = s.or(ctx, "format", &TEXT, "standard".into(), "plain Ethernet");
    let format = find_format(ctx, &format, around.formats).unwrap_or(0);
    let profile = &around.formats[format];
    let (trust, trust_at) = trust(ctx, s, profile, around);
    let default_tc = s.int_or(ctx, "default_tc", 0..=7, 0, "best effort").v as u8;
    let why = if profile.learning { "a bridge learns" } else { "AFH addresses are assigned, not learnt" };
    let learning = s.or(ctx, "learning", &BOOL, profile.learning, why).v;
    let learn_limit = s.int(ctx, "learn_limit", 1..=u64::from(u32::MAX)).map(|v| v.v as u32);
    let fdb = around.fdb.unknown_unicast;
    let unknown = s.or(ctx, "unknown_unicast", &UnknownUnicast::KIND, fdb, "that of [fdb]").v;
    let mac = s.get(ctx, "mac", &MAC);
    if let Some(mac) = &mac
        && (mac.v.is_group() || mac.v.to_u64() == 0)
    {
        let message = format!("{} cannot be a sender's address", mac.v);
        ctx.error(mac.span, "port.mac", message, "use an individual address such as 02:00:00:00:00:01");
    }

    let cable = s.get(ctx, "cable", &LENGTH);
    let cable_at = cable.as_ref().map_or(here, |c| c.span);
    let cable =
        cable.and_then(|c| s.within(ctx, "cable", c, &(0..=LONGEST_CABLE_MM), LENGTH.show)).map(|c| c.v);
    let peer_response = s.get(ctx, "peer_response", &SIZE_OR_AUTO).and_then(|bytes| bytes.v);
    let cable_mm = match (cable, pci) {
        // It was refused: that it is unknown is no second fault.
        (None, _) if s.raw(ctx, "cable").is_some() => Some(5_000),
        (None, false) => {
            ctx.explain(s.key("cable"), "5m", Origin::Default, "no cable: the length of a short one");
            Some(5_000)
        }
        (cable, _) => cable,
    };

    let [rx_descriptors, tx_descriptors] = [
        ("rx_descriptors", RX_DESCRIPTORS, "what the wire brings while nobody polls"),
        ("tx_descriptors", TX_DESCRIPTORS, "what leaves after the peer has paused us"),
    ]
    .map(|(key, default, why)| descriptors(ctx, s, key, default, why));
    let (pfc, enable_at) = read_pfc(ctx, s);
    let vlans = vlan::read(ctx, s, profile);
    let (storm_control, storm_control_at) = storm_control::read(ctx, s);
    let engine = inc::read(ctx, s, kind == DeviceKind::Inc);
    let lldp = lldp::read_mode(ctx, s, kind == DeviceKind::Inc);
    let (maps, map_names) = around.maps.for_port(ctx, s);
    let at = PortAt {
        port: here,
        rate: rate_at,
        cable: cable_at,
        enable: enable_at,
        trust: trust_at,
        storm_control: storm_control_at,
    };
    let (pg, queue) = buffer::base();
    let port = PortConfig {
        name,
        kind,
        device,
        engine,
        admin,
        rate,
        lcore: lcore.map(|l| l.v as u16),
        mtu,
        mac: mac.map(|m| m.v),
        format,
        trust,
        default_tc,
        learning,
        learn_limit,
        unknown_unicast: unknown,
        vlans,
        storm_control,
        lldp,
        cable_mm,
        peer_response,
        rx_descriptors,
        tx_descriptors,
        pfc,
        maps,
        map_names,
        pgs: [pg; 8],
        queues: [queue; 8],
        ingress_limit: None,
        egress_limit: None,
    };
    (port, at)
}

/// Frames a ring of the device holds. Drivers want a power of two or a multiple of 8, and round by themselves.
fn descriptors(ctx: &mut Ctx<'_>, s: &Section<'_>, key: &str, default: u16, why: &str) -> u16 {
    s.int_or(ctx, key, 32..=32_768, u64::from(default), why).v as u16
}

/// The port's own list; else its format's where that knows better than the switch's; else the switch's.
fn trust(
    ctx: &mut Ctx<'_>,
    s: &Section<'_>,
    format: &FormatConfig,
    around: &Around<'_>,
) -> (Vec<Trust>, Span) {
    let own = s.raw(ctx, "trust");
    if let (Some(own), Some(list)) = (own, trust_list(ctx, s, "trust")) {
        ctx.explain(s.key("trust"), words(&list), own.origin, "");
        return (list, own.span);
    }
    let (list, at, origin, why) = match &around.trust {
        // A preset speaks of Ethernet headers; a format with a class of its own knows better.
        Some(t) if format.tc.is_none() || !matches!(t.origin, Origin::Preset(_)) => {
            (t.v.clone(), t.span, t.origin.clone(), "[qos] trust")
        }
        _ => (format.trust.clone(), s.span(ctx), Origin::Derived, "what its format carries"),
    };
    ctx.explain(s.key("trust"), words(&list), origin, why);
    (list, at)
}

fn words(list: &[Trust]) -> String {
    list.iter().map(|t| t.word()).collect::<Vec<_>>().join(", ")
}

/// A word or a list of words; nothing is trusted twice, and nothing follows `port`.
pub(super) fn trust_list(ctx: &mut Ctx<'_>, s: &Section<'_>, key: &str) -> Option<Vec<Trust>> {
    let mut list = Vec::new();
    for item in s.list(ctx, key)? {
        match (Trust::KIND.parse)(item.v) {
            Ok(t) if list.contains(&t) || list.contains(&Trust::Port) => {
                let message = format!("\"{}\" here never decides anything", t.word());
                ctx.error(item.span, "port.trust", message, "name each source once and `port` last");
            }
            Ok(t) => list.push(t),
            Err(bad) => ctx.error(item.span, "value", format!("{}: {}", s.key(key), bad.message), bad.remedy),
        }
    }
    Some(list)
}

fn read_pfc(ctx: &mut Ctx<'_>, s: &Section<'_>) -> (PortPfc, Span) {
    let pfc = s.table(ctx, "pfc", &schema::PORT_PFC);
    let enable = priorities(ctx, &pfc, "enable").unwrap_or(0);
    let set = pfc.raw(ctx, "enable");
    let at = set.as_ref().map_or_else(|| s.span(ctx), |r| r.span);
    let listed: Vec<_> = (0..8).filter(|p| enable >> p & 1 == 1).map(|p: u8| p.to_string()).collect();
    let shown = if listed.is_empty() { "none".into() } else { listed.join(", ") };
    let origin = set.map_or(Origin::Default, |r| r.origin);
    ctx.explain(pfc.key("enable"), shown, origin, "priorities with PFC");
    let why = "decided by what the driver shows at start";
    let mode = pfc.or(ctx, "mode", &PfcMode::KIND, PfcMode::Auto, why).v;
    let rx = pfc.or(ctx, "rx", &PfcRx::KIND, PfcRx::Enabled, "what is enabled is obeyed").v;
    let tx = pfc.or(ctx, "tx", &BOOL, true, "what is enabled is sent").v;
    let visible = pfc.get(ctx, "visible", &BOOL);
    let found = PortPfc { enable, mode, visible: visible.as_ref().map(|visible| visible.v), rx, tx };
    if let Some(hidden) = visible.filter(|visible| !visible.v && mode == PfcMode::Software && found.in_use())
    {
        let message = format!(
            "{} leaves PFC to software, and visible = false says that PFC frames do not pass",
            pfc.key("mode = \"software\"")
        );
        let remedy = "remove visible = false if they pass, or write mode = \"auto\"";
        ctx.error(hidden.span, "pfc.visible", message, remedy);
    }
    (found, at)
}

pub(super) fn find_format(ctx: &mut Ctx<'_>, name: &Val<String>, formats: &[FormatConfig]) -> Option<usize> {
    let found = formats.iter().position(|f| f.name == name.v);
    if found.is_none() {
        let known: Vec<_> = formats.iter().map(|f| f.name.as_str()).collect();
        let message = format!("there is no format `{}`", name.v);
        ctx.error(name.span, "format.unknown", message, format!("known: {}", known.join(", ")));
    }
    found
}

pub(super) fn unique(
    ctx: &mut Ctx<'_>,
    seen: &mut HashMap<String, Span>,
    val: &Val<String>,
    id: &str,
    rule: &'static str,
    what: &str,
) {
    match seen.get(id) {
        Some(first) => {
            let message = format!("the {what} `{id}` is already used");
            ctx.clash((val.span, *first), rule, message, format!("give every port its own {what}"));
        }
        None => {
            seen.insert(id.to_owned(), val.span);
        }
    }
}
