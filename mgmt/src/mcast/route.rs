//! Where a frame for a group goes, as it is known now, and why.

use super::agent::{Asker, McastReading};
use super::frame::mac_of;
use std::fmt;
use std::net::IpAddr;
use weir_config::Config;
use weir_dataplane::multicast::{IpVersion, is_for_all};
use weir_dataplane::portset::PortSet;
use weir_dataplane::types::{Mac, PortId};

/// A group, by whichever address it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its IP address, if it is named by that.
    pub ip: Option<IpAddr>,
    /// The address of its frames.
    pub mac: Mac,
}

impl std::str::FromStr for Group {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return if ip.is_multicast() { Ok(Self { ip: Some(ip), mac: mac_of(ip) }) } else { Err(()) };
        }
        let mac = text.parse::<Mac>().map_err(|_| ())?;
        if mac.is_group() { Ok(Self { ip: None, mac }) } else { Err(()) }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            Some(ip) => ip.fmt(f),
            None => self.mac.fmt(f),
        }
    }
}

/// Why a frame for a group goes where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has an `[[fdb.group]]`.
    Configured,
    /// Its address is that of groups of the link, or it is no group of IP.
    ForAll,
    /// Its VLAN is not snooped.
    NotSnooped,
    /// Nobody asks for members.
    NotAsked,
    /// Somebody does, and hosts have not had the time to answer.
    JustAsked,
    /// Hosts have joined it.
    Joined,
    /// None has.
    NotJoined,
}

impl Why {
    /// As it is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::ForAll => "for_all",
            Self::NotSnooped => "not_snooped",
            Self::NotAsked => "not_asked",
            Self::JustAsked => "just_asked",
            Self::Joined => "joined",
            Self::NotJoined => "not_joined",
        }
    }
}

/// Where a frame for a group goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Why.
    pub why: Why,
    /// Ports with members, or those of the configuration.
    pub members: PortSet,
    /// Ports with routers, where these get it.
    pub routers: PortSet,
}

impl Route {
    /// Of a frame of a VLAN.
    pub fn of(config: &Config, reading: &McastReading, vid: u16, group: &Group) -> Self {
        let flooded = |why| Self { why, members: PortSet::EMPTY, routers: PortSet::EMPTY };
        let configured = config.fdb.groups.iter().find(|g| g.vlan == vid && g.key == group.mac.to_u64());
        if let Some(configured) = configured {
            let members = configured.ports.iter().copied().collect();
            return Self { members, ..flooded(Why::Configured) };
        }
        let Some(version) = IpVersion::of_group(group.mac).filter(|_| !is_for_all(group.mac)) else {
            return flooded(Why::ForAll);
        };
        if !config.mcast.snoops(vid) {
            return flooded(Why::NotSnooped);
        }
        let known = reading.vlans.iter().find(|vlan| vlan.vid == vid && vlan.version == version);
        match known.map(|vlan| (vlan.narrows, vlan.asker, vlan)) {
            None | Some((false, Asker::Nobody, _)) => flooded(Why::NotAsked),
            Some((false, ..)) => flooded(Why::JustAsked),
            Some((true, _, vlan)) => {
                let same = vlan.groups.iter().filter(|known| mac_of(known.group) == group.mac);
                let members: PortSet =
                    same.flat_map(|known| known.members.iter().map(|(port, _)| *port)).collect();
                let why = if members.is_empty() { Why::NotJoined } else { Why::Joined };
                Self { why, members, routers: vlan.routers }
            }
        }
    }

    /// The ports; `None`: it is flooded.
    pub fn ports(&self) -> Option<PortSet> {
        match self.why {
            Why::Configured | Why::Joined | Why::NotJoined => Some(self.members.union(&self.routers)),
            Why::ForAll | Why::NotSnooped | Why::NotAsked | Why::JustAsked => None,
        }
    }

    /// For people, with the names of ports.
    pub fn text(&self, vid: u16, name: impl Fn(PortId) -> String) -> String {
        let names = |ports: PortSet| ports.iter().map(&name).collect::<Vec<_>>().join(", ");
        let routers = match names(self.routers) {
            none if none.is_empty() => "no router is known".to_owned(),
            some => format!("routers at {some}"),
        };
        match self.why {
            Why::Configured => format!("configured ([[fdb.group]]) at {}", names(self.members)),
            Why::ForAll => "for all, whoever has joined".to_owned(),
            Why::NotSnooped if vid == 0 => "flooded: nothing is snooped here ([mcast_snooping])".to_owned(),
            Why::NotSnooped => format!("flooded: VLAN {vid} is not snooped ([mcast_snooping])"),
            Why::NotAsked => "flooded: nobody asks for members (show mcast)".to_owned(),
            Why::JustAsked => "flooded: members were asked for just now, and may still answer".to_owned(),
            Why::Joined => format!("joined at {}; {routers}", names(self.members)),
            Why::NotJoined => format!("nobody has joined it; {routers}"),
        }
    }
}
