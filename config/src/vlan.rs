//! `vlan = { ... }` of a port: the VLANs it is a member of.

use super::diag::Span;
use super::format::FormatConfig;
use super::port::PortAt;
use super::read::{Ctx, Section, number_ranges};
use super::schema;
use super::types::PortConfig;
use super::units::{Bad, COUNT, wrong_type};
use toml::de::DeValue;
use weir_dataplane::types::PortId;
use weir_dataplane::vlan::{PortVlans, TAG_BYTES, VidSet};

/// The last VLAN there can be.
pub(super) const LAST: u16 = 4094;

/// Pairs of ports that a warning names.
const NAMED: usize = 8;

/// The VLANs of a port; what it says itself stands in for all of `[port_defaults]`.
pub(super) fn read(ctx: &mut Ctx<'_>, port: &Section<'_>, format: &FormatConfig) -> Option<PortVlans> {
    let raw = port.raw(ctx, "vlan")?;
    let s = port.table(ctx, "vlan", &schema::PORT_VLAN).nearest();
    if !format.vlan {
        let message = format!("frames of format `{}` have no VLAN tags", format.name);
        ctx.error(raw.span, "port.vlan", message, "remove `vlan` from its ports, or `[port_defaults]`");
        return None;
    }
    let access = s.int(ctx, "access", 1..=LAST.into()).map(|vid| vid.v as u16);
    let native = s.int(ctx, "native", 1..=LAST.into()).map(|vid| vid.v as u16);
    let trunk = vids(ctx, &s, "trunk");
    let (is_access, is_trunk) = (s.raw(ctx, "access").is_some(), s.raw(ctx, "trunk").is_some());
    if is_access == is_trunk || (is_access && s.raw(ctx, "native").is_some()) {
        let message = "a port is an access port of one VLAN, or a trunk of several";
        let remedy = "write vlan = { access = 10 }, or vlan = { trunk = \"10,20-29\", native = 1 } with `native` if frames \
                      without a tag are to pass";
        ctx.error(raw.span, "port.vlan", message, remedy);
    }
    let native = access.or(native);
    Some(PortVlans { native, members: trunk.unwrap_or_default().into_iter().chain(native).collect() })
}

/// VLANs, ranges of them, or a list of both.
pub(super) fn vids(ctx: &mut Ctx<'_>, s: &Section<'_>, key: &str) -> Option<Vec<u16>> {
    let set = s.raw(ctx, key)?;
    let mut all = Vec::new();
    for item in s.list(ctx, key)? {
        match one(item.v) {
            Ok(vids) => all.extend(vids),
            Err(bad) => ctx.error(item.span, "value", format!("{}: {}", s.key(key), bad.message), bad.remedy),
        }
    }
    ctx.explain(s.key(key), show(&all.iter().copied().collect()), set.origin, "");
    Some(all)
}

fn one(value: &DeValue<'_>) -> Result<Vec<u16>, Bad> {
    let vids = match value {
        DeValue::Integer(_) => vec![((COUNT.parse)(value)?, (COUNT.parse)(value)?)],
        DeValue::String(text) if text == "*" => vec![(1, LAST.into())],
        DeValue::String(text) => number_ranges(text)?,
        _ => return Err(wrong_type(value, "write 10, \"10,20-29\" or \"*\"")),
    };
    if let Some((low, high)) = vids.iter().find(|(low, high)| *low == 0 || *high > LAST.into()) {
        let vid = if *low == 0 { low } else { high };
        return Err(Bad::new(format!("{vid} is no VLAN"), format!("use 1 to {LAST}")));
    }
    Ok(vids.into_iter().flat_map(|(low, high)| low as u16..=high as u16).collect())
}

/// As it is written: `"10,20-29"`.
pub fn show(vids: &VidSet) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for vid in vids.iter() {
        match runs.last_mut() {
            Some((_, high)) if *high + 1 == vid => *high = vid,
            _ => runs.push((vid, vid)),
        }
    }
    let run = |(low, high): &(u16, u16)| if low == high { low.to_string() } else { format!("{low}-{high}") };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// What only all ports together show: those of a format know of VLANs or none does, and what a tag makes longer fits.
pub(super) fn check(ctx: &mut Ctx<'_>, ports: &[PortConfig], at: &[PortAt], formats: &[FormatConfig]) {
    let Some(first) = ports.iter().find(|port| port.vlans.is_some()) else { return };
    let silent = ports.iter().zip(at).filter(|(port, _)| port.vlans.is_none() && formats[port.format].vlan);
    for (port, at) in silent {
        let message = format!("port `{}` is in no VLAN, port `{}` is", port.name, first.name);
        let remedy =
            "add vlan = { access = VID } or vlan = { trunk = \"VIDS\" } to it, or to [port_defaults]";
        ctx.error(at.port, "port.vlan", message, remedy);
    }
    let tag = TAG_BYTES as u16;
    let loses = |from: &PortConfig, to: &PortConfig| {
        let native = from.vlans.as_ref().and_then(|vlans| vlans.native).filter(|_| from.pfc.enable != 0);
        let tagged = to
            .vlans
            .as_ref()
            .zip(native)
            .is_some_and(|(vlans, vid)| vlans.native != Some(vid) && vlans.members.contains(vid));
        tagged && to.mtu < from.mtu.saturating_add(tag)
    };
    let pairs: Vec<_> = ports
        .iter()
        .zip(at)
        .flat_map(|from| ports.iter().filter(move |to| loses(from.0, to)).map(move |to| (from, to)))
        .collect();
    let Some(((_, first), _)) = pairs.first() else { return };
    let mut named: Vec<_> = pairs
        .iter()
        .take(NAMED)
        .map(|((from, _), to)| {
            format!(
                "`{}` ({} bytes with the tag) to `{}` (mtu {})",
                from.name,
                from.mtu.saturating_add(tag),
                to.name,
                to.mtu
            )
        })
        .collect();
    if pairs.len() > NAMED {
        named.push(format!("{} more pairs of ports", pairs.len() - NAMED));
    }
    let message = format!(
        "the longest frames would be lost, lossless or not (vlan.too_long), from port {}",
        named.join(", from ")
    );
    let longest = pairs.iter().map(|((from, _), _)| from.mtu.saturating_add(tag)).max().unwrap_or(0);
    let remedy =
        format!("set mtu = {longest} where they leave with a tag, or lower that of the ports they come from");
    ctx.warn(first.port, "port.vlan", message, remedy);
}

/// The VLAN of an entry of the forwarding table at a port: 0 stands for the native one.
pub(super) fn of_entry(ctx: &mut Ctx<'_>, at: Span, vid: u16, port: &PortConfig) -> u16 {
    let Some(vlans) = &port.vlans else { return vid };
    match vlans.native.filter(|_| vid == 0) {
        Some(native) => native,
        None if vlans.members.contains(vid) => vid,
        None => {
            let message = match vid {
                0 => format!("port `{}` has no native VLAN, and the entry no `vlan`", port.name),
                _ => format!("port `{}` is not a member of VLAN {vid}", port.name),
            };
            let remedy = format!("name one of its VLANs: {}", show(&vlans.members));
            ctx.error(at, "fdb.vlan", message, remedy);
            vid
        }
    }
}

/// The VLAN of a group of these ports, all of them members.
pub(super) fn of_group(
    ctx: &mut Ctx<'_>,
    at: Span,
    vid: u16,
    members: &[PortId],
    ports: &[PortConfig],
) -> u16 {
    let found: Vec<u16> = members.iter().map(|port| of_entry(ctx, at, vid, &ports[port.index()])).collect();
    if found.windows(2).any(|pair| pair[0] != pair[1]) {
        let message = "the members of the group have not the same native VLAN";
        ctx.error(at, "fdb.vlan", message, "say with `vlan` which one is meant");
    }
    found.first().copied().unwrap_or(vid)
}
