//! Tables of IGMP and MLD snooping.

use super::Form::{Count, Flag, Text};
use super::columns::{PORT, col};
use super::{At, Column, count};
use crate::mcast::agent::{Asker, Counters, GroupReading, VlanReading};
use crate::snapshot::Snapshot;
use serde_json::json;
use weir_dataplane::multicast::IpVersion;
use weir_dataplane::types::PortId;

/// A row of a member is numbered by its VLAN, its group and itself.
const MEMBERS: usize = 1 << 8;
const GROUPS: usize = 1 << 12;

pub(super) fn by_vlan(s: &Snapshot) -> Vec<(usize, usize)> {
    (0..s.now.mcast.vlans.len()).map(|vlan| (0, vlan)).collect()
}

pub(super) fn by_member(s: &Snapshot) -> Vec<(usize, usize)> {
    let mut rows = Vec::new();
    for (v, vlan) in s.now.mcast.vlans.iter().enumerate() {
        for (g, group) in vlan.groups.iter().enumerate() {
            let members = group.members.iter().enumerate();
            rows.extend(members.map(|(m, (port, _))| (port.index(), (v * GROUPS + g) * MEMBERS + m)));
        }
    }
    rows
}

/// Ports, where any VLAN is snooped.
pub(super) fn by_port(s: &Snapshot) -> Vec<(usize, usize)> {
    let ports = if s.now.mcast.vlans.is_empty() { 0 } else { s.now.mcast.ports.len() };
    (0..ports).map(|port| (port, 0)).collect()
}

impl<'a> At<'a> {
    fn snooped(&self) -> &'a VlanReading {
        &self.snapshot.now.mcast.vlans[self.i]
    }

    fn group(&self) -> (&'a VlanReading, &'a GroupReading, u64) {
        let (group, member) = (self.i / MEMBERS, self.i % MEMBERS);
        let vlan = &self.snapshot.now.mcast.vlans[group / GROUPS];
        let group = &vlan.groups[group % GROUPS];
        (vlan, group, group.members[member].1)
    }

    fn mcast(&self) -> &'a Counters {
        &self.snapshot.now.mcast.ports[self.port]
    }

    /// Its name, or that of the LAG that it stands for.
    fn place(&self, port: PortId) -> &'a str {
        let of_port = || self.snapshot.info.ports.get(port.index()).map_or("", |port| port.name.as_str());
        self.snapshot.info.lag_of(port).map_or_else(of_port, |lag| lag.name.as_str())
    }
}

/// The protocol of a version of IP by which hosts join groups.
pub(crate) fn protocol(version: IpVersion) -> &'static str {
    match version {
        IpVersion::V4 => "igmp",
        IpVersion::V6 => "mld",
    }
}

pub(super) const MCAST: &[Column] = &[
    col("vlan", Count, "Vlan", "VLAN; 0: frames without a tag, where ports know of no VLANs", |r| {
        json!(r.snooped().vid)
    }),
    col("protocol", Text, "Protocol", "`igmp` or `mld`", |r| json!(protocol(r.snooped().version))),
    col(
        "narrowed",
        Flag,
        "Narrowed",
        "groups go to members, and what nobody has joined to routers; else all are flooded: nobody asks for members, or not for long",
        |r| json!(r.snooped().narrows),
    ),
    col(
        "querier",
        Text,
        "Querier",
        "who asks for members: an address, `switch` for the switch itself, empty for nobody",
        |r| match r.snooped().asker {
            Asker::Nobody => json!(""),
            Asker::Switch => json!("switch"),
            Asker::Other { address, .. } => json!(address.to_string()),
        },
    ),
    col("querier_port", Text, "Querier port", "port or LAG where it is; empty: none", |r| {
        match r.snooped().asker {
            Asker::Other { port, .. } => json!(r.place(port)),
            Asker::Nobody | Asker::Switch => json!(""),
        }
    }),
    col("routers", Text, "Router ports", "ports and LAGs where routers are, which get all groups", |r| {
        json!(r.snooped().routers.iter().map(|port| r.place(port)).collect::<Vec<_>>().join(","))
    }),
    col("groups", Count, "Groups", "groups that hosts have joined", |r| {
        count(r.snooped().groups.len() as u64)
    }),
];

pub(super) const MDB: &[Column] = &[
    PORT,
    col("lag", Text, "LAG", "the LAG that the port stands for; empty: none", |r| {
        let port = PortId(r.port as u16);
        json!(r.snapshot.info.lag_of(port).map_or("", |lag| lag.name.as_str()))
    }),
    col("vlan", Count, "Vlan", "VLAN; 0: frames without a tag, where ports know of no VLANs", |r| {
        json!(r.group().0.vid)
    }),
    col("group", Text, "Group", "group that a host behind the port has joined", |r| {
        json!(r.group().1.group.to_string())
    }),
    col("mac", Text, "MAC", "its address: groups with the same one go the same way", |r| {
        json!(crate::mcast::frame::mac_of(r.group().1.group).to_string())
    }),
    col("expires_seconds", Count, "Expires/s", "left after so long unless it is said again", |r| {
        count(r.group().2.div_ceil(1000))
    }),
];

pub(super) const MCAST_PORTS: &[Column] = &[
    PORT,
    col("queries", Count, "Queries", "queries taken", |r| count(r.mcast().queries)),
    col("reports", Count, "Reports", "reports and leaves taken", |r| count(r.mcast().reports)),
    col("hellos", Count, "PIM hellos", "hellos of PIM taken", |r| count(r.mcast().hellos)),
    col("other", Count, "Other", "frames of other types: nothing is made of them", |r| {
        count(r.mcast().other)
    }),
    col(
        "malformed",
        Count,
        "Malformed",
        "frames thrown away, each for a reason (`weir_port_mcast_discarded_packets_total`)",
        |r| count(r.mcast().malformed.iter().sum()),
    ),
    col(
        "unread",
        Count,
        "Unread",
        "frames that came faster than they were read: forwarded all the same",
        |r| count(r.port().stats.igmp_unread),
    ),
    col("refused", Count, "Refused", "groups not joined: `max_groups` or `port_max_groups` are there", |r| {
        count(r.mcast().refused)
    }),
    col("for_all", Count, "For all", "groups joined whose frames are flooded anyway", |r| {
        count(r.mcast().for_all)
    }),
    col("tx_queries", Count, "Sent", "queries sent", |r| count(r.port().stats.tx_igmp)),
    col("not_sent", Count, "Not sent", "queries that could not be sent when they were due", |r| {
        count(r.mcast().not_sent)
    }),
];
