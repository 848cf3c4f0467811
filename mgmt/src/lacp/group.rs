//! Which ports of a LAG belong together (802.1AX 6.4.14): those whose links lead to one partner. A LAG has one aggregator; where links
//! lead to several partners the one with the most of them has it, and the others carry nothing.

use super::frame::{PortInfo, State, SystemId};
use super::port::{Mux, Port, PortSettings, Receive};

/// What a LAG is, for all of its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// With fewer ports that have the same partner it carries nothing; at least 1.
    pub min_links: usize,
    /// If no port hears anybody, one of them carries frames as if there were no LACP.
    pub fallback: bool,
}

/// Why a port does not send frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It does.
    Sends,
    /// Its link is down.
    LinkDown,
    /// Nobody speaks LACP at the other end.
    NoPartner,
    /// It hears this switch itself.
    Loop,
    /// The partner has it for a link of its own.
    Individual,
    /// The partner is another one than that of the LAG.
    OtherPartner,
    /// Too few ports have a partner.
    MinLinks,
    /// It waits for others to come along.
    Waiting,
    /// The partner has not attached its end.
    PartnerNotInSync,
    /// The partner does not take frames.
    PartnerNotCollecting,
}

impl Why {
    /// As it is shown; empty if it sends.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sends => "",
            Self::LinkDown => "link_down",
            Self::NoPartner => "no_partner",
            Self::Loop => "loop",
            Self::Individual => "individual",
            Self::OtherPartner => "other_partner",
            Self::MinLinks => "min_links",
            Self::Waiting => "waiting",
            Self::PartnerNotInSync => "partner_not_in_sync",
            Self::PartnerNotCollecting => "partner_not_collecting",
        }
    }

    /// What to do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Sends | Self::Waiting | Self::LinkDown => "",
            Self::NoPartner => {
                "switch LACP on at the other end, or set fallback = true or lacp = \"off\" of the LAG"
            }
            Self::Loop => "the cable leads back to this switch: plug it into the partner",
            Self::Individual => "put the port into an aggregate at the other end",
            Self::OtherPartner => {
                "the cable leads to another system or aggregate than the others of the LAG: plug it into theirs"
            }
            Self::MinLinks => "bring up more links of the LAG, or lower its min_links",
            Self::PartnerNotInSync => "see at the other end why it keeps the port out of its aggregate",
            Self::PartnerNotCollecting => "see at the other end why its port does not collect",
        }
    }
}

/// Whom a LAG can be with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Partner {
    system: SystemId,
    key: u16,
    /// Port at the other end, of a link that the partner has for one of its own.
    alone: Option<u16>,
}

impl Partner {
    fn of(info: &PortInfo) -> Self {
        let alone = (!info.state.has(State::AGGREGATION)).then_some(info.port);
        Self { system: info.system, key: info.key, alone }
    }
}

/// The ports of a LAG.
#[derive(Clone, Debug)]
pub struct Group {
    settings: GroupSettings,
    /// In the order of the configuration.
    pub ports: Vec<Port>,
    partner: Option<Partner>,
    /// The port that is fallen back to.
    fallback: Option<usize>,
}

impl Group {
    /// Ports without links.
    pub fn new(settings: GroupSettings, ports: impl IntoIterator<Item = PortSettings>) -> Self {
        let ports = ports.into_iter().map(Port::new).collect();
        Self { settings, ports, partner: None, fallback: None }
    }

    /// Other settings, for the LAG and its ports, which are as many.
    pub fn configure(&mut self, settings: GroupSettings, ports: &[PortSettings]) {
        self.settings = settings;
        for (port, settings) in self.ports.iter_mut().zip(ports) {
            port.configure(*settings);
        }
    }

    /// Looks at the links, chooses the partner, and lets every port go as far as it can; `up`: the link of a port.
    pub fn tick(&mut self, up: &dyn Fn(usize) -> bool, now: u64) {
        for (i, port) in self.ports.iter_mut().enumerate() {
            port.look(up(i), now);
        }
        self.choose();
        for i in 0..self.ports.len() {
            let selected = self.is_selected(i);
            self.ports[i].step(selected, now);
        }
    }

    /// The system and key that the LAG is with.
    pub fn partner(&self) -> Option<(SystemId, u16)> {
        self.partner.map(|partner| (partner.system, partner.key))
    }

    /// Whom a port could be in a LAG with.
    fn candidate(&self, port: usize) -> Option<Partner> {
        let port = &self.ports[port];
        let partner = port.partner()?;
        (partner.system != port.settings().actor.system).then(|| Partner::of(partner))
    }

    fn count(&self, partner: Partner) -> usize {
        (0..self.ports.len()).filter(|port| self.candidate(*port) == Some(partner)).count()
    }

    fn choose(&mut self) {
        // Who has it keeps it against others with as many links.
        let now = self.partner.map(|partner| (self.count(partner), partner)).filter(|(ports, _)| *ports > 0);
        let all = (0..self.ports.len()).filter_map(|port| self.candidate(port));
        let best = all.fold(now, |best, partner| match (self.count(partner), best) {
            (ports, Some((most, _))) if ports <= most => best,
            (ports, _) => Some((ports, partner)),
        });
        self.partner = best.map(|(_, partner)| partner);
        let defaulted = |port: &usize| self.ports[*port].receive() == Receive::Defaulted;
        let nobody = self.ports.iter().all(|port| port.partner().is_none());
        // One port is all that may carry frames of a partner that does not know of the others.
        let falls_back = self.settings.fallback && self.settings.min_links <= 1 && nobody;
        let kept = self.fallback.filter(defaulted);
        self.fallback = kept.or_else(|| (0..self.ports.len()).find(defaulted)).filter(|_| falls_back);
    }

    fn has_enough(&self) -> bool {
        self.partner.is_some_and(|partner| self.count(partner) >= self.settings.min_links)
    }

    fn is_selected(&self, port: usize) -> bool {
        let with_partner = self.candidate(port).is_some_and(|partner| self.partner == Some(partner));
        with_partner && self.has_enough() || self.fallback == Some(port)
    }

    /// The port carries frames since it is the one that is fallen back to: it waits like others before it does.
    pub fn is_fallback(&self, port: usize) -> bool {
        self.fallback == Some(port) && self.ports[port].mux() == Mux::Distributing
    }

    /// Why a port does not send frames.
    pub fn why(&self, port: usize) -> Why {
        let i = port;
        let port = &self.ports[i];
        match (port.mux(), port.partner()) {
            (Mux::Distributing, _) => Why::Sends,
            _ if port.receive() == Receive::PortDisabled => Why::LinkDown,
            (Mux::Waiting, _) => Why::Waiting,
            (Mux::Attached, _) => Why::PartnerNotInSync,
            (Mux::Collecting, _) => Why::PartnerNotCollecting,
            (Mux::Detached, None) => Why::NoPartner,
            (Mux::Detached, Some(partner)) => match self.candidate(i) {
                None => Why::Loop,
                candidate if candidate == self.partner => Why::MinLinks,
                _ if self.partner() == Some((partner.system, partner.key)) => Why::Individual,
                _ => Why::OtherPartner,
            },
        }
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
