//! All VLANs that are snooped. Driven by whoever has the frames and the time, in ms since some start.

use super::frame::{Malformed, Message, QuerySource, decode, query, version_of};
use super::settings::{Settings, VlanPort, VlanSettings};
use super::vlan::{Ask, Vlan};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use weir_dataplane::multicast::IpVersion;
use weir_dataplane::parse::Profile;
use weir_dataplane::portset::PortSet;
use weir_dataplane::switch::Unjoined;
use weir_dataplane::types::{Mac, PortId};

/// From the first query in a VLAN to that in the next one, ms: a port takes some frames every 10 ms, not those of all VLANs at once.
const STAGGER: u64 = 20;

/// What became of the frames of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Queries taken.
    pub queries: u64,
    /// Reports and leaves taken.
    pub reports: u64,
    /// Hellos of PIM taken.
    pub hellos: u64,
    /// Frames of other types: nothing is made of them.
    pub other: u64,
    /// Frames thrown away, by [`Malformed`].
    pub malformed: [u64; Malformed::ALL.len()],
    /// Groups that hosts wanted to join, and for which there was no room.
    pub refused: u64,
    /// Groups that hosts joined whose frames are for all.
    pub for_all: u64,
    /// Queries that could not be sent when they were due: the link does not take any.
    pub not_sent: u64,
}

/// Who asks for members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Nobody: all is flooded.
    Nobody,
    /// The switch.
    Switch,
    /// Somebody else.
    Other {
        /// Its address.
        address: IpAddr,
        /// Where it is.
        port: PortId,
    },
}

/// A group of a VLAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReading {
    /// Its address.
    pub group: IpAddr,
    /// Ports with members and for how long they still are, ms.
    pub members: Vec<(PortId, u64)>,
}

/// One version of IP in a VLAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanReading {
    /// The VLAN; 0: what has no tag.
    pub vid: u16,
    /// The version.
    pub version: IpVersion,
    /// Who asks for members.
    pub asker: Asker,
    /// Groups go to their members and what nobody has joined to routers; else all are flooded.
    pub narrows: bool,
    /// Where routers are.
    pub routers: PortSet,
    /// Its groups, by address.
    pub groups: Vec<GroupReading>,
}

/// All that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McastReading {
    /// VLANs that are snooped, each twice.
    pub vlans: Vec<VlanReading>,
    /// By port.
    pub ports: Vec<Counters>,
}

/// Something for the tables of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// [`weir_dataplane::switch::Switch::snoop`].
    Vlan(u16, Option<Unjoined>),
    /// [`weir_dataplane::switch::Switch::set_members`].
    Group(u64, Option<PortSet>),
}

/// Takes frames, says what to send and which groups have which ports.
#[derive(Debug, Default)]
pub struct Agent {
    settings: Arc<Settings>,
    /// By VLAN and version.
    vlans: BTreeMap<u16, [Vlan; 2]>,
    counters: Vec<Counters>,
    /// What the tables should hold, and what of it has still to be told.
    groups: BTreeMap<u64, PortSet>,
    unjoined: BTreeMap<u16, Unjoined>,
    untold: (BTreeSet<u16>, BTreeSet<u64>),
    /// The group that was told last without cause.
    again: u64,
}

/// Takes a frame for a port; `false`: not now.
pub type Send<'a> = &'a mut dyn FnMut(usize, Vec<u8>) -> bool;

impl Agent {
    /// Another configuration is in force. What is known of a VLAN is forgotten if it is not snooped any more; what is known at a port of it,
    /// if the port has left it. What was known at a LAG, or at a port that joined one, is known wherever its links are known now: hosts
    /// behind them have not heard of it. Rules and addresses hold from now on, and void nothing. All is told anew, since the tables
    /// may have been changed by the configuration.
    pub fn configure(&mut self, settings: Settings) {
        let mut known = std::mem::take(&mut self.vlans);
        self.counters.resize(settings.macs.len(), Counters::default());
        self.untold.0.extend(self.unjoined.keys());
        self.untold.1.extend(self.groups.keys());
        (self.unjoined, self.groups) = Default::default();
        for (VlanSettings { vid, ports, .. }, n) in settings.vlans.iter().zip(0..) {
            let at = |port: PortId| {
                let links = ports.iter().map(|of| of.port);
                let were_there = links.filter(|link| self.settings.known_at.get(link.index()) == Some(&port));
                were_there.map(|link| settings.known_at[link.index()]).collect()
            };
            let delay = n * STAGGER;
            let versions = match known.remove(vid) {
                Some(mut versions) => {
                    for vlan in &mut versions {
                        vlan.reconfigure(settings.addresses[vlan.version() as usize], delay, &at);
                    }
                    versions
                }
                None => [0, 1].map(|version| Vlan::new(settings.addresses[version], delay)),
            };
            self.vlans.insert(*vid, versions);
        }
        self.settings = Arc::new(settings);
        let vids: Vec<u16> = self.vlans.keys().copied().collect();
        for vid in vids {
            let all: BTreeSet<_> = self.vlans[&vid].iter().flat_map(Vlan::macs).collect();
            all.into_iter().for_each(|mac| self.note_group(vid, mac));
            self.note_vlan(vid);
        }
    }

    fn settings_of(&self, vid: u16) -> Option<&VlanSettings> {
        self.settings.vlans.iter().find(|vlan| vlan.vid == vid)
    }

    /// A frame of a VLAN has come.
    pub fn receive(&mut self, port: usize, vid: u16, frame: &[u8], now: u64) {
        let Some(vlans) = self.vlans.get_mut(&vid) else { return };
        let (counters, at) = (&mut self.counters[port], self.settings.known_at[port]);
        let message = match decode(frame) {
            Ok(message) => message,
            Err(malformed) => return counters.malformed[malformed as usize] += 1,
        };
        let version = match &message {
            Message::Query { source, .. } => Some(version_of(*source)),
            Message::Report(records) => records.first().map(|record| version_of(record.group)),
            Message::Hello(version) => Some(*version),
            Message::Other => None,
        };
        *match &message {
            Message::Query { .. } => &mut counters.queries,
            Message::Report(_) => &mut counters.reports,
            Message::Hello(_) => &mut counters.hellos,
            Message::Other => &mut counters.other,
        } += 1;
        let Some(version) = version else { return };
        let took = vlans[version as usize].take(at, &message, &self.settings.rules, now);
        counters.refused += took.refused;
        counters.for_all += took.for_all;
    }

    /// Links are as `up` says, time has passed, and what is due is sent.
    pub fn tick(&mut self, now: u64, up: &dyn Fn(usize) -> bool, send: Send<'_>) {
        let settings = Arc::clone(&self.settings);
        let Self { vlans, counters, .. } = self;
        // Behind a LAG something is there as long as one of its links is.
        let any_up = |known_at: PortId| {
            let mut members = settings.known_at.iter().enumerate().filter(|(_, at)| **at == known_at);
            members.any(|(port, _)| up(port))
        };
        let mut noted = Vec::new();
        for of in &settings.vlans {
            let Some(versions) = vlans.get_mut(&of.vid) else { continue };
            for vlan in versions.iter_mut() {
                let address = settings.addresses[vlan.version() as usize];
                let mut ask = |Ask { port, group, response }: Ask| {
                    let mut all_sent = true;
                    let wanted =
                        |to: &&VlanPort| port.is_none_or(|at| settings.known_at[to.port.index()] == at);
                    for VlanPort { port, tagged } in of.ports.iter().filter(wanted) {
                        let port = port.index();
                        let tag = tagged.then_some(of.vid);
                        let from = QuerySource { mac: settings.macs[port], address, tag };
                        let frame = query(&from, group, response, settings.rules.query_interval);
                        if up(port) && !send(port, frame) {
                            counters[port].not_sent += 1;
                            all_sent = false;
                        }
                    }
                    all_sent
                };
                vlan.tick(&settings.rules, now, &any_up, &mut ask);
                noted.extend(vlan.take_changed().into_iter().map(|mac| (of.vid, mac)));
            }
        }
        noted.into_iter().for_each(|(vid, mac)| self.note_group(vid, mac));
        settings.vlans.iter().for_each(|vlan| self.note_vlan(vlan.vid));
    }

    fn note_group(&mut self, vid: u16, mac: Mac) {
        let is_configured = self.settings_of(vid).is_none_or(|vlan| vlan.configured.contains(&mac));
        let of = |version: IpVersion| self.vlans.get(&vid)?[version as usize].ports(mac);
        let ports = IpVersion::of_group(mac).and_then(of).filter(|_| !is_configured);
        let key = Profile::standard().key(mac.to_u64(), vid);
        let was = match ports {
            Some(ports) => self.groups.insert(key, ports),
            None => self.groups.remove(&key),
        };
        if was != ports {
            self.untold.1.insert(key);
        }
    }

    fn note_vlan(&mut self, vid: u16) {
        let Some(versions) = self.vlans.get(&vid) else { return };
        let is = [0, 1].map(|version| versions[version].unjoined());
        if self.unjoined.insert(vid, is) != Some(is) {
            self.untold.0.insert(vid);
        }
    }

    /// Tells the tables what is new, as long as `tell` takes it; and one group that is not, one after the other: a configuration may have
    /// come and been taken back meanwhile.
    pub fn tell(&mut self, tell: &mut dyn FnMut(Told) -> bool) {
        let again = self.groups.range(self.again + 1..).next().or_else(|| self.groups.iter().next());
        if let Some((key, _)) = again {
            self.again = *key;
            self.untold.1.insert(*key);
        }
        while let Some(vid) = self.untold.0.first().copied() {
            if !tell(Told::Vlan(vid, self.unjoined.get(&vid).copied())) {
                return;
            }
            self.untold.0.pop_first();
        }
        while let Some(key) = self.untold.1.first().copied() {
            if !tell(Told::Group(key, self.groups.get(&key).copied())) {
                return;
            }
            self.untold.1.pop_first();
        }
    }

    /// All that is known.
    pub fn reading(&self, now: u64) -> McastReading {
        let of = |(vid, vlan): (u16, &Vlan)| VlanReading {
            vid,
            version: vlan.version(),
            asker: match vlan.querier() {
                _ if vlan.is_querier() => Asker::Switch,
                Some(querier) => Asker::Other { address: querier.address, port: querier.port },
                None => Asker::Nobody,
            },
            narrows: vlan.narrows(),
            routers: vlan.routers(),
            groups: vlan
                .groups()
                .map(|(group, ports)| GroupReading {
                    group,
                    members: ports.iter().map(|(port, m)| (*port, m.expires.saturating_sub(now))).collect(),
                })
                .collect(),
        };
        let each = self.vlans.iter().flat_map(|(vid, versions)| versions.iter().map(|vlan| (*vid, vlan)));
        McastReading { vlans: each.map(of).collect(), ports: self.counters.clone() }
    }
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
