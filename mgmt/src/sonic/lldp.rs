//! Neighbours.

use super::{Answers, Grid};
use crate::api::documents::{LldpInformation, LldpNeighbour};

/// Letters of capabilities, as SONiC's `lldpshow` has them.
const CODES: &str = "Capability codes: (R) Router, (B) Bridge, (O) Other";

fn code(capability: &str) -> char {
    match capability {
        "router" => 'R',
        "bridge" => 'B',
        _ => 'O',
    }
}

/// Each neighbour, with the port it is at.
fn neighbours(a: &Answers) -> impl Iterator<Item = (&str, &LldpNeighbour)> {
    let ports = a.lldp.iter().flat_map(|lldp| &lldp.ports);
    ports.flat_map(|port| port.neighbours.iter().map(|peer| (port.port.as_str(), peer)))
}

/// `show lldp table`
pub(super) fn table(a: &Answers, _: bool) -> Vec<Grid> {
    let heads = ["LocalPort", "RemoteDevice", "RemotePortID", "Capability", "RemotePortDescr"];
    let row = |(port, peer): (&str, &LldpNeighbour)| {
        let LldpInformation { system_name, port_id, capabilities, port_description, .. } = &peer.information;
        vec![
            port.to_owned(),
            system_name.clone().unwrap_or_default(),
            port_id.clone(),
            capabilities.iter().map(|capability| code(capability)).collect(),
            port_description.clone().unwrap_or_default(),
        ]
    };
    vec![Grid::texts(CODES, &heads, neighbours(a).map(row).collect())]
}

/// `show lldp neighbors`: one after the other.
pub(super) fn neighbors(a: &Answers, _: bool) -> Vec<Grid> {
    let one = |(port, peer): (&str, &LldpNeighbour)| {
        let s = peer.known_seconds;
        let (days, h, m, s) = (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60);
        let title = format!("Interface: {port}, via: LLDP, Time: {days} day, {h:02}:{m:02}:{s:02}");
        let says = &peer.information;
        let named = [
            ("ChassisID", Some(format!("{} {}", says.chassis_kind, says.chassis))),
            ("SysName", says.system_name.clone()),
            ("SysDescr", says.system_description.clone()),
            ("MgmtIP", says.management_address.clone()),
            ("Capability", Some(says.capabilities.join(", ")).filter(|all| !all.is_empty())),
            ("PortID", Some(format!("{} {}", says.port_id_kind, says.port_id))),
            ("PortDescr", says.port_description.clone()),
            ("TTL", Some(says.ttl_seconds.to_string())),
        ];
        let rows = named.into_iter().filter_map(|(name, value)| Some(vec![name.to_owned(), value?]));
        Grid::texts(&title, &["Field", "Value"], rows.collect())
    };
    let all: Vec<Grid> = neighbours(a).map(one).collect();
    match all.is_empty() {
        true => vec![Grid::texts(
            "No neighbors: [lldp] is off, or nobody speaks",
            &["Field", "Value"],
            Vec::new(),
        )],
        false => all,
    }
}
