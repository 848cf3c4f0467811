//! Who has joined which groups of one version of IP in one VLAN, who asks, and where routers are (RFC 4541). A state machine without a
//! wire or a clock: times are ms since some start.
//!
//! A port is a member of a group or not, whatever sources hosts behind it want: who asks for some gets all (RFC 4541 allows that). As in
//! the Linux bridge, nothing is narrowed while nobody asks for members, since nobody would hear of those that stay.

use super::frame::{Message, ROBUSTNESS, Record, Wish, mac_of, version_of};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use weir_dataplane::multicast::{IpVersion, is_for_all};
use weir_dataplane::portset::PortSet;
use weir_dataplane::types::{Mac, PortId};

/// Between queries about a group that was left, and what hosts have to answer each (RFC 3376 8.8).
const LAST_MEMBER_INTERVAL: u64 = 1_000;

/// After a general query that could not be sent by every port, ms.
const AGAIN: u64 = 1_000;

/// What holds for all VLANs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// A port leaves a group at once.
    pub fast_leave: bool,
    /// The switch asks, unless somebody else does.
    pub querier: bool,
    /// Between its general queries, ms.
    pub query_interval: u64,
    /// Hosts answer within this, ms.
    pub response: u64,
    /// Most groups of a VLAN, and of those at one port.
    pub max_groups: usize,
    /// See there.
    pub port_max_groups: usize,
}

impl Rules {
    /// How long a member is one that says nothing more, ms (RFC 3376 8.4). A router is one as long.
    fn membership(&self) -> u64 {
        u64::from(ROBUSTNESS) * self.query_interval + self.response
    }

    /// How long a querier is one, ms (RFC 3376 8.5).
    fn querier_present(&self) -> u64 {
        u64::from(ROBUSTNESS) * self.query_interval + self.response / 2
    }
}

/// Somebody else who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Querier {
    /// Its address.
    pub address: IpAddr,
    /// Where it is.
    pub port: PortId,
    /// Until when it is there, ms.
    pub expires: u64,
}

/// A port with members of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Until when, ms.
    pub expires: u64,
    /// It is asked whether others stay: how often still, and when next.
    asks: (u8, u64),
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Records of groups for which there was no room.
    pub refused: u64,
    /// Records of groups whose frames are for all anyway.
    pub for_all: u64,
}

/// A query to be sent by a port, or by all of the VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// By which; `None`: by all.
    pub port: Option<PortId>,
    /// About which group; `None`: about all.
    pub group: Option<IpAddr>,
    /// Hosts answer within this, ms.
    pub response: u64,
}

/// The groups of one address, and the ports of each.
type Groups = BTreeMap<IpAddr, BTreeMap<PortId, Member>>;

/// One version of IP in one VLAN.
#[derive(Clone, Debug)]
pub struct Vlan {
    version: IpVersion,
    /// Source of own queries.
    own: IpAddr,
    /// After so long the switch begins to ask, so that not all VLANs are asked at once, ms.
    delay: u64,
    querier: Option<Querier>,
    /// Since when somebody asks without a break, the switch or another, ms.
    asked_since: Option<u64>,
    /// When the switch asks next, and how often it still does so in quick succession, ms.
    next_query: Option<(u64, u8)>,
    routers: BTreeMap<PortId, u64>,
    groups: BTreeMap<Mac, Groups>,
    count: usize,
    of_port: BTreeMap<PortId, usize>,
    /// What was narrowed at the last look, and addresses whose ports may have changed since.
    narrows: bool,
    changed: BTreeSet<Mac>,
}

impl Vlan {
    /// Nothing is known yet. `own`: source of queries, which are sent from `delay` ms after the switch has found that it is to ask.
    pub fn new(own: IpAddr, delay: u64) -> Self {
        Self {
            version: version_of(own),
            own,
            delay,
            querier: None,
            asked_since: None,
            next_query: None,
            routers: BTreeMap::new(),
            groups: BTreeMap::new(),
            count: 0,
            of_port: BTreeMap::new(),
            narrows: false,
            changed: BTreeSet::new(),
        }
    }

    /// Another configuration is in force. `at`: the ports where that is known now which was known at a port: none, if it has left the
    /// VLAN, and several, if those of a LAG are no longer one. What is known, the time it is known for and who asks stay otherwise.
    pub fn reconfigure(&mut self, own: IpAddr, delay: u64, at: &dyn Fn(PortId) -> BTreeSet<PortId>) {
        (self.own, self.delay) = (own, delay);
        let querier = self.querier.take();
        self.querier = querier.and_then(|of| Some(Querier { port: at(of.port).first().copied()?, ..of }));
        self.routers = moved(&self.routers, at, |expires| *expires);
        (self.count, self.of_port) = Default::default();
        self.groups.retain(|_, groups| {
            groups.retain(|_, ports| {
                *ports = moved(ports, at, |member| member.expires);
                self.count += usize::from(!ports.is_empty());
                ports.keys().for_each(|port| *self.of_port.entry(*port).or_default() += 1);
                !ports.is_empty()
            });
            !groups.is_empty()
        });
    }

    /// Somebody else who asks.
    pub fn querier(&self) -> Option<&Querier> {
        self.querier.as_ref()
    }

    /// The switch asks.
    pub fn is_querier(&self) -> bool {
        self.next_query.is_some()
    }

    /// Frames of groups go to members, and those of other groups to routers; else to all.
    pub fn narrows(&self) -> bool {
        self.narrows
    }

    /// Ports where routers are.
    pub fn routers(&self) -> PortSet {
        self.routers.keys().copied().collect()
    }

    /// Every group and its ports.
    pub fn groups(&self) -> impl Iterator<Item = (IpAddr, &BTreeMap<PortId, Member>)> {
        self.groups.values().flatten().map(|(group, ports)| (*group, ports))
    }

    /// Their addresses.
    pub fn macs(&self) -> impl Iterator<Item = Mac> {
        self.groups.keys().copied()
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Where frames for an address go; `None`: as those of groups that nobody has joined.
    pub fn ports(&self, mac: Mac) -> Option<PortSet> {
        let groups = self.groups.get(&mac).filter(|_| self.narrows)?;
        let members: PortSet = groups.values().flat_map(|ports| ports.keys().copied()).collect();
        Some(members.union(&self.routers()))
    }

    /// Where frames go that nobody has joined; `None`: to all.
    pub fn unjoined(&self) -> Option<PortSet> {
        self.narrows.then(|| self.routers())
    }

    /// Addresses whose ports may have changed since this was asked last.
    pub fn take_changed(&mut self) -> BTreeSet<Mac> {
        std::mem::take(&mut self.changed)
    }

    /// Somebody at a port has said this.
    pub fn take(&mut self, port: PortId, message: &Message, rules: &Rules, now: u64) -> Took {
        let mut took = Took::default();
        match message {
            Message::Hello(_) => self.note_router(port, rules, now),
            Message::Query { source, group, of_sources, response_ms } => {
                self.note_router(port, rules, now);
                self.note_querier(*source, port, rules, now);
                // Members that want other sources do not answer.
                if let (Some(group), false) = (group, of_sources) {
                    self.is_asked(*group, *response_ms, now);
                }
            }
            Message::Report(records) => {
                for Record { group, wish } in records {
                    if is_for_all(mac_of(*group)) {
                        took.for_all += 1;
                        continue;
                    }
                    match wish {
                        Wish::Join => took.refused += u64::from(!self.join(port, *group, rules, now)),
                        Wish::Leave => self.leave(port, *group, rules, now),
                        Wish::Less => self.want_less(port, *group, now),
                    }
                }
            }
            Message::Other => {}
        }
        took
    }

    fn note_router(&mut self, port: PortId, rules: &Rules, now: u64) {
        // RFC 4541 2.1.1 would not have it from 0.0.0.0. Another switch that asks needs to hear of the members here all the same,
        // or nothing of theirs comes by it.
        if self.routers.insert(port, now + rules.membership()).is_none() {
            self.all_changed();
        }
    }

    fn note_querier(&mut self, address: IpAddr, port: PortId, rules: &Rules, now: u64) {
        let better = |known: &Querier| is_before(address, known.address) || address == known.address;
        if self.querier.as_ref().is_none_or(better) {
            self.querier = Some(Querier { address, port, expires: now + rules.querier_present() });
        }
        self.elect(rules, now);
    }

    /// Whoever has the lowest address asks; the switch gives way to any address if it has none.
    fn elect(&mut self, rules: &Rules, now: u64) {
        let gives_way = self.querier.as_ref().is_some_and(|other| is_before(other.address, self.own));
        match (rules.querier && !gives_way, self.next_query) {
            // RFC 3376 8.6, 8.7: so many queries at start, faster than later ones.
            (true, None) => self.next_query = Some((now + self.delay, ROBUSTNESS)),
            (false, Some(_)) => self.next_query = None,
            // The interval may have become shorter.
            (true, Some((at, left))) => {
                self.next_query = Some((at.min(now + self.delay + rules.query_interval), left));
            }
            (false, None) => {}
        }
        let asks = self.is_querier() || self.querier.is_some();
        match (asks, self.asked_since) {
            (true, None) => self.asked_since = Some(now),
            (false, Some(_)) => self.asked_since = None,
            _ => {}
        }
    }

    fn all_changed(&mut self) {
        self.changed.extend(self.groups.keys());
    }

    /// `false`: there is no room for the group.
    fn join(&mut self, port: PortId, group: IpAddr, rules: &Rules, now: u64) -> bool {
        let mac = mac_of(group);
        let member = Member { expires: now + rules.membership(), asks: (0, 0) };
        let known = self.groups.get_mut(&mac).and_then(|groups| groups.get_mut(&group));
        if let Some(known) = known.and_then(|ports| ports.get_mut(&port)) {
            *known = member;
            return true;
        }
        let is_new = self.groups.get(&mac).is_none_or(|groups| !groups.contains_key(&group));
        let at_port = self.of_port.entry(port).or_default();
        if is_new && self.count >= rules.max_groups || *at_port >= rules.port_max_groups {
            return false;
        }
        *at_port += 1;
        self.count += usize::from(is_new);
        self.groups.entry(mac).or_default().entry(group).or_default().insert(port, member);
        self.changed.insert(mac);
        true
    }

    fn leave(&mut self, port: PortId, group: IpAddr, rules: &Rules, now: u64) {
        let others_ask = self.querier.is_some() && !self.is_querier();
        let Some(member) = self.member_mut(port, group) else { return };
        if rules.fast_leave {
            return self.forget(|at, of| at == port && of == group);
        }
        // Who else asks does so now, and says how long hosts have.
        if !others_ask {
            member.asks = (ROBUSTNESS, now);
        }
    }

    /// A host wants fewer sources, and may be a member still: the switch asks about the group, where RFC 3376 6.4.2 asks about the
    /// sources, since it knows none. Who else asks does so about them, which says nothing of the group.
    fn want_less(&mut self, port: PortId, group: IpAddr, now: u64) {
        if self.is_querier()
            && let Some(member) = self.member_mut(port, group)
        {
            member.asks = (ROBUSTNESS, now);
        }
    }

    fn member_mut(&mut self, port: PortId, group: IpAddr) -> Option<&mut Member> {
        self.groups.get_mut(&mac_of(group))?.get_mut(&group)?.get_mut(&port)
    }

    /// A router asks about a group: who stays says so soon.
    fn is_asked(&mut self, group: IpAddr, response: u64, now: u64) {
        let groups = self.groups.get_mut(&mac_of(group));
        for member in
            groups.and_then(|groups| groups.get_mut(&group)).into_iter().flat_map(|ports| ports.values_mut())
        {
            member.expires = member.expires.min(now + u64::from(ROBUSTNESS) * response);
        }
    }

    /// Takes out the members for which that is true.
    fn forget(&mut self, goes: impl Fn(PortId, IpAddr) -> bool) {
        let Self { groups, of_port, changed, count, .. } = self;
        groups.retain(|mac, of_mac| {
            of_mac.retain(|group, ports| {
                ports.retain(|port, _| {
                    let stays = !goes(*port, *group);
                    if !stays {
                        changed.insert(*mac);
                        if let Some(n) = of_port.get_mut(port) {
                            *n -= 1;
                        }
                    }
                    stays
                });
                *count -= usize::from(ports.is_empty());
                !ports.is_empty()
            });
            !of_mac.is_empty()
        });
        of_port.retain(|_, n| *n > 0);
    }

    /// Time has passed: what is too old is forgotten, and so is what was known at ports that are not `up`. `ask` is told what to send, and
    /// says whether that was taken: else it is asked again, and who has left is a member until then.
    pub fn tick(
        &mut self,
        rules: &Rules,
        now: u64,
        up: &dyn Fn(PortId) -> bool,
        ask: &mut dyn FnMut(Ask) -> bool,
    ) {
        let gone = |port: PortId, expires: u64| now >= expires || !up(port);
        self.querier = self.querier.take().filter(|querier| !gone(querier.port, querier.expires));
        let routers = self.routers.len();
        self.routers.retain(|port, expires| !gone(*port, *expires));
        if self.routers.len() != routers {
            self.all_changed();
        }
        let mut old = BTreeSet::new();
        for (group, port, member) in self.members_mut() {
            if gone(port, member.expires) {
                old.insert((group, port));
            }
        }
        if !old.is_empty() {
            self.forget(|port, group| old.contains(&(group, port)));
        }
        self.elect(rules, now);
        if let Some((at, left)) = self.next_query
            && now >= at
        {
            let sent = ask(Ask { port: None, group: None, response: rules.response });
            self.next_query = Some(match left {
                _ if !sent => (now + AGAIN, left),
                0 | 1 => (now + rules.query_interval, 0),
                _ => (now + rules.query_interval / 4, left - 1),
            });
        }
        let is_querier = self.is_querier();
        for (group, port, member) in self.members_mut() {
            let (left, at) = member.asks;
            if left > 0 && now >= at {
                let about = Ask { port: Some(port), group: Some(group), response: LAST_MEMBER_INTERVAL };
                if is_querier && !ask(about) {
                    continue;
                }
                if left == ROBUSTNESS {
                    member.expires = member.expires.min(now + u64::from(ROBUSTNESS) * LAST_MEMBER_INTERVAL);
                }
                member.asks = (left - 1, now + LAST_MEMBER_INTERVAL);
            }
        }
        // Hosts have had the time to answer.
        let narrows = self.asked_since.is_some_and(|since| now >= since + rules.response);
        if std::mem::replace(&mut self.narrows, narrows) != narrows {
            self.all_changed();
        }
    }

    fn members_mut(&mut self) -> impl Iterator<Item = (IpAddr, PortId, &mut Member)> {
        let groups = self.groups.values_mut().flatten();
        groups.flat_map(|(group, ports)| ports.iter_mut().map(move |(port, member)| (*group, *port, member)))
    }

    /// Of which version its groups are.
    pub fn version(&self) -> IpVersion {
        self.version
    }
}

/// What is known by port, where each is known now; of several at one port that which is known longest.
fn moved<T: Copy>(
    known: &BTreeMap<PortId, T>,
    at: &dyn Fn(PortId) -> BTreeSet<PortId>,
    expires: impl Fn(&T) -> u64,
) -> BTreeMap<PortId, T> {
    let mut moved: BTreeMap<PortId, T> = BTreeMap::new();
    for (port, one) in known.iter().flat_map(|(port, one)| at(*port).into_iter().map(move |at| (at, one))) {
        let known = moved.entry(port).or_insert(*one);
        if expires(one) > expires(known) {
            *known = *one;
        }
    }
    moved
}

/// The first of two addresses wins an election: the lower one, and any before none.
fn is_before(one: IpAddr, other: IpAddr) -> bool {
    !one.is_unspecified() && (other.is_unspecified() || one < other)
}

#[cfg(test)]
#[path = "vlan_tests.rs"]
mod tests;
