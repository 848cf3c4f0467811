//! `[mcast_snooping]`: VLANs in which frames of multicast groups go to those alone who have joined.

use super::host::IP;
use super::read::{Ctx, Section};
use super::schema;
use super::types::{FdbConfig, McastConfig, PortConfig};
use super::units::{BOOL, Kind, TIME, show_time};
use super::vlan::vids;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use weir_dataplane::turn::Platform;

const SECOND: u64 = 1_000_000_000;
/// RFC 3376 8.2 and 8.3, RFC 3810 9.2 and 9.3.
const QUERY_INTERVAL: u64 = 125 * SECOND;
const QUERY_RESPONSE_INTERVAL: u64 = 10 * SECOND;
/// Of a VLAN, and of those of one port.
const MAX_GROUPS: u64 = 512;
const PORT_MAX_GROUPS: u64 = 128;
const MOST_GROUPS: u64 = 4096;

const NONE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The address of one host, or [`NONE`].
const SOURCE: Kind<IpAddr> = Kind {
    parse: |v| match v.as_str() == Some("0.0.0.0") {
        true => Ok(NONE),
        false => (IP.parse)(v),
    },
    show: IpAddr::to_string,
};

/// Of a switch with these ports and this table.
pub(super) fn read(
    ctx: &mut Ctx<'_>,
    root: &Section<'_>,
    ports: &[PortConfig],
    fdb: &FdbConfig,
    platform: Platform,
) -> McastConfig {
    let s = root.table(ctx, "mcast_snooping", &schema::MCAST_SNOOPING);
    let vlans = read_vlans(ctx, &s, ports);
    let fast_leave = s.or(ctx, "fast_leave", &BOOL, false, "other hosts behind the port may stay").v;
    let querier = s.or(ctx, "querier", &BOOL, false, "a router asks for members").v;
    let address = s.or(ctx, "querier_address", &SOURCE, NONE, "a bridge needs none (RFC 4541)");
    let querier_address = match address.v {
        IpAddr::V4(v4) => v4,
        other @ IpAddr::V6(_) => {
            let message =
                format!("{} = {other}: IGMP is sent from an IPv4 address", s.key("querier_address"));
            ctx.error(
                address.span,
                "mcast_snooping.address",
                message,
                "write an address of the switch, or 0.0.0.0",
            );
            Ipv4Addr::UNSPECIFIED
        }
    };
    let time = |ctx: &mut Ctx<'_>, key: &str, default: u64, range: std::ops::RangeInclusive<u64>| {
        let time = s.or(ctx, key, &TIME, default, "RFC 3376 and RFC 3810");
        let span = time.span;
        (s.within(ctx, key, time, &range, |n| show_time(*n)).map_or(default, |val| val.v), span)
    };
    let (query_interval, _) = time(ctx, "query_interval", QUERY_INTERVAL, SECOND..=3600 * SECOND);
    let response = (SECOND / 10)..=(25 * SECOND);
    let (query_response_interval, at) =
        time(ctx, "query_response_interval", QUERY_RESPONSE_INTERVAL.min(query_interval), response);
    if query_response_interval > query_interval {
        let message = format!("{} is longer than query_interval", s.key("query_response_interval"));
        ctx.error(
            at,
            "mcast_snooping.interval",
            message,
            "give hosts less time to answer, or ask less often",
        );
    }
    let max_groups = s.int_or(ctx, "max_groups", 1..=MOST_GROUPS, MAX_GROUPS, "anybody can make up groups").v;
    let port_max_groups =
        s.int_or(ctx, "port_max_groups", 1..=MOST_GROUPS, PORT_MAX_GROUPS, "no port takes all of them").v;
    let most = max_groups * vlans.len() as u64;
    if most > fdb.capacity.into() {
        let message =
            format!("{} VLANs may have {most} groups, fdb.capacity is {}", vlans.len(), fdb.capacity);
        let at = s.span(ctx);
        ctx.warn(
            at,
            "mcast_snooping.groups",
            message,
            "stations make room for groups: lower max_groups, or raise fdb.capacity",
        );
    }
    if platform == Platform::Simulated && !vlans.is_empty() {
        let at = s.span(ctx);
        ctx.warn(
            at,
            "mcast_snooping.simulated",
            "nobody speaks IGMP or MLD in virtual time: groups are flooded",
            "give the groups an [[fdb.group]]",
        );
    }
    McastConfig {
        vlans,
        fast_leave,
        querier,
        querier_address,
        query_interval,
        query_response_interval,
        max_groups: max_groups as u32,
        port_max_groups: port_max_groups as u32,
    }
}

/// Those of the ports that are chosen; 0 where ports know of none.
fn read_vlans(ctx: &mut Ctx<'_>, s: &Section<'_>, ports: &[PortConfig]) -> Vec<u16> {
    let Some(set) = s.raw(ctx, "vlans") else { return Vec::new() };
    let of_port =
        |port: &PortConfig| port.vlans.iter().flat_map(|vlans| vlans.members.iter()).collect::<Vec<_>>();
    let there: BTreeSet<u16> = ports.iter().flat_map(of_port).collect();
    let listed: BTreeSet<u16> = vids(ctx, s, "vlans").unwrap_or_default().into_iter().collect();
    match (set.v.as_str() == Some("*"), there.is_empty()) {
        (true, true) => vec![0],
        (true, false) => there.into_iter().collect(),
        (false, none) => {
            if let Some(vid) = listed.difference(&there).next() {
                let message = format!("{}: no port is in VLAN {vid}", s.key("vlans"));
                let remedy = if none {
                    "write \"*\": no port knows of VLANs, and frames without a tag are meant"
                } else {
                    "name VLANs of ports, or write \"*\" for all of them"
                };
                ctx.error(set.span, "mcast_snooping.vlans", message, remedy);
            }
            listed.into_iter().collect()
        }
    }
}
