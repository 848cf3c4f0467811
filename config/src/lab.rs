//! `[lab]`: traffic of the hosts `weir lab` attaches.

use super::fdb::find_port;
use super::format::FormatConfig;
use super::read::{Ctx, Section};
use super::schema;
use super::types::{CongestionControl, HostProtocol, LabConfig, LabFlow, LabPattern, PortConfig};
use super::units::{RATE, SHARE, SIZE, TEXT, show_size};

pub(super) fn read(
    ctx: &mut Ctx<'_>,
    root: &Section<'_>,
    ports: &[PortConfig],
    formats: &[FormatConfig],
) -> LabConfig {
    let s = root.table(ctx, "lab", &schema::LAB);
    let pattern = s.or(ctx, "pattern", &LabPattern::KIND, LabPattern::AllToAll, "every port sees load").v;
    let load = s.or(ctx, "load", &SHARE, 900_000, "below saturation").v;
    let least = ports.iter().map(|p| p.mtu).min().unwrap_or(u16::MAX);
    let frame_bytes = frame(ctx, &s, least.min(1082));
    let dscp = s.int_or(ctx, "dscp", 0..=63, 26, "RoCE's usual code point").v as u8;
    let why = "senders back off when frames are marked";
    let dcqcn = s.or(ctx, "dcqcn", &CongestionControl::KIND, CongestionControl::Paper, why).v;
    let paxi = ctx.preset.is_some_and(|(name, _)| name.starts_with("paxi"))
        || ports.iter().any(|port| formats[port.format].name != "standard");
    let (own, why) = match paxi {
        true => (HostProtocol::RcLink, "what PAXI switches carry"),
        false => (HostProtocol::Roce, "what most fabrics carry"),
    };
    let hosts = s.or(ctx, "hosts", &HostProtocol::KIND, own, why).v;
    if let Some(set) = s.raw(ctx, "frame_bytes")
        && let Some(port) = ports.iter().find(|p| p.mtu < frame_bytes)
    {
        let message = format!("frames of {frame_bytes} bytes, port `{}` accepts {}", port.name, port.mtu);
        ctx.error(
            set.span,
            "lab.frame",
            message,
            format!("use at most {}, or raise the port's mtu", port.mtu),
        );
    }
    let mut flows = Vec::new();
    for item in s.items(ctx, "flow", &schema::LAB_FLOW) {
        let from = item.need(ctx, "from", &TEXT).and_then(|n| find_port(ctx, &n, ports));
        let to = item.need(ctx, "to", &TEXT).and_then(|n| find_port(ctx, &n, ports));
        let at = item.span(ctx);
        let rate = item.get(ctx, "rate", &RATE).and_then(|r| r.v);
        let frame_bytes = frame(ctx, &item, frame_bytes);
        let dscp = item.int(ctx, "dscp", 0..=63).map_or(dscp, |v| v.v as u8);
        let pcp = item.int(ctx, "pcp", 0..=7);
        let vlan = item.int(ctx, "vlan", 1..=4094).map(|v| v.v as u16);
        if hosts == HostProtocol::Roce
            && vlan.is_none()
            && let Some(set) = &pcp
        {
            let message = "RoCEv2 hosts send a PCP in VLAN tags alone, and this flow has none";
            ctx.warn(set.span, "lab.pcp", message, "give it a `vlan`, or remove `pcp`");
        }
        let pcp = pcp.map(|v| v.v as u8);
        let (Some(from), Some(to)) = (from, to) else { continue };
        if from == to {
            let message = format!("`{}` would send to itself", ports[from.index()].name);
            ctx.error(at, "lab.flow", message, "name two different ports");
            continue;
        }
        let mtu = ports[from.index()].mtu.min(ports[to.index()].mtu);
        if frame_bytes > mtu {
            let message = format!("frames of {frame_bytes} bytes, the ports accept {mtu}");
            ctx.error(at, "lab.frame", message, format!("use at most {mtu}, or raise the ports' mtu"));
        }
        flows.push(LabFlow { from, to, rate, frame_bytes, dscp, pcp, vlan });
    }
    LabConfig { pattern, load, frame_bytes, dscp, dcqcn, hosts, flows }
}

fn frame(ctx: &mut Ctx<'_>, s: &Section<'_>, default: u16) -> u16 {
    let Some(val) = s.get(ctx, "frame_bytes", &SIZE) else { return default };
    s.within(ctx, "frame_bytes", val, &(330..=16_128), |n| show_size(*n)).map_or(default, |v| v.v as u16)
}
