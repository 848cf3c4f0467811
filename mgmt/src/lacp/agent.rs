//! All LAGs that speak LACP. Driven by whoever has the frames and the time, in ms since some start.

use super::frame::{PortInfo, Slow, SystemId, decode, sent_from};
use super::group::{Group, Why};
use super::port::{FAST_PERIODIC, Mux, Receive};
use super::settings::{LagSettings, Settings};
use std::sync::Arc;
use weir_dataplane::lag::LagMember;
use weir_dataplane::types::PortId;

/// Markers of a port that are answered within [`FAST_PERIODIC`], at most: slow protocols send no more than ten frames (802.3 57A.2).
const MARKERS: u8 = 5;

/// What became of frames, beside those that a port has taken and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// LACPDUs taken.
    pub lacpdus: u64,
    /// Markers received, answered or not.
    pub markers: u64,
    /// Frames thrown away because they are none, as [`super::Malformed`].
    pub malformed: u64,
    /// Frames of other slow protocols, and answers to markers: nobody sends any.
    pub unknown: u64,
    /// Frames that could not be sent when they were due: the link does not take any.
    pub not_sent: u64,
}

/// What is known of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberReading {
    /// Which port it is.
    pub port: PortId,
    /// What it says of itself.
    pub actor: PortInfo,
    /// What its partner says, if there is one.
    pub partner: Option<PortInfo>,
    /// What of that still holds.
    pub receive: Receive,
    /// Whether it takes and sends frames.
    pub mux: Mux,
    /// Why it does not send any.
    pub why: Why,
    /// It carries frames because nobody speaks LACP at any member.
    pub fallback: bool,
    /// It speaks whether or not it is spoken to.
    pub active: bool,
    /// See there.
    pub counters: Counters,
}

/// What is known of a LAG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LagReading {
    /// Its name.
    pub name: String,
    /// The system and key that it is with.
    pub partner: Option<(SystemId, u16)>,
    /// In the order of the configuration.
    pub members: Vec<MemberReading>,
}

/// All that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LacpReading {
    /// LAGs that speak LACP.
    pub lags: Vec<LagReading>,
}

impl LacpReading {
    /// That of a port, if it is a member of a LAG that speaks LACP.
    pub fn member(&self, port: usize) -> Option<&MemberReading> {
        self.lags.iter().flat_map(|lag| &lag.members).find(|member| member.port.index() == port)
    }
}

/// A LAG.
#[derive(Clone, Debug)]
struct Lag {
    group: Group,
    counters: Vec<Counters>,
    /// Markers answered by each port since an instant, ms.
    answered: Vec<(u64, u8)>,
}

/// Takes frames, says what to send and what members carry.
#[derive(Debug, Default)]
pub struct Agent {
    settings: Arc<Settings>,
    lags: Vec<Lag>,
}

/// Takes a frame for a port; `false`: not now.
pub type Send<'a> = &'a mut dyn FnMut(usize, Vec<u8>) -> bool;

impl Lag {
    fn new(settings: &LagSettings) -> Self {
        let ports = settings.members.len();
        Self {
            group: Group::new(settings.group, settings.ports.iter().copied()),
            counters: vec![Counters::default(); ports],
            answered: vec![(0, 0); ports],
        }
    }

    /// Partners are told that nothing is taken or sent any more, as far as `send` takes the frames.
    fn end(&mut self, settings: &LagSettings, now: u64, send: Send<'_>) {
        for (i, port) in self.group.ports.iter_mut().enumerate() {
            let spoken = port.mux() > Mux::Detached;
            port.step(false, now);
            if spoken {
                send(settings.members[i].index(), port.pdu().encode(settings.macs[i]));
            }
        }
    }

    fn reading(&self, settings: &LagSettings) -> LagReading {
        let member = |(i, port): (usize, &PortId)| {
            let machine = &self.group.ports[i];
            MemberReading {
                port: *port,
                actor: machine.actor(),
                partner: machine.partner().copied(),
                receive: machine.receive(),
                mux: machine.mux(),
                why: self.group.why(i),
                fallback: self.group.is_fallback(i),
                active: machine.settings().active,
                counters: self.counters[i],
            }
        };
        LagReading {
            name: settings.name.clone(),
            partner: self.group.partner(),
            members: settings.members.iter().enumerate().map(member).collect(),
        }
    }
}

impl Agent {
    /// Another configuration is in force. LAGs with the same members go on; those that are gone tell their partners.
    pub fn configure(&mut self, settings: Settings, now: u64, send: Send<'_>) {
        if *self.settings == settings {
            return;
        }
        let settings = Arc::new(settings);
        let old = std::mem::replace(&mut self.settings, Arc::clone(&settings));
        let mut gone: Vec<_> = old.lags.iter().zip(std::mem::take(&mut self.lags)).collect();
        for lag in &settings.lags {
            let same = |(was, _): &(&LagSettings, Lag)| was.members == lag.members && was.macs == lag.macs;
            let mut kept = gone.iter().position(same).map(|at| gone.swap_remove(at).1);
            if let Some(kept) = &mut kept {
                kept.group.configure(lag.group, &lag.ports);
            }
            self.lags.push(kept.unwrap_or_else(|| Lag::new(lag)));
        }
        gone.into_iter().for_each(|(settings, mut lag)| lag.end(settings, now, send));
    }

    /// A frame has come.
    pub fn receive(&mut self, port: usize, frame: &[u8], now: u64, send: Send<'_>) {
        let place = |(at, lag): (usize, &LagSettings)| {
            Some((at, lag.members.iter().position(|member| member.index() == port)?))
        };
        let Some((lag, i)) = self.settings.lags.iter().enumerate().find_map(place) else { return };
        let mac = self.settings.lags[lag].macs[i];
        let Lag { group, counters, answered } = &mut self.lags[lag];
        let (counters, (since, answers)) = (&mut counters[i], &mut answered[i]);
        match decode(frame) {
            Err(_) => counters.malformed += 1,
            Ok(Slow::Lacp(pdu)) => {
                counters.lacpdus += 1;
                group.ports[i].take(&pdu, now);
            }
            Ok(Slow::Marker(answer)) => {
                counters.markers += 1;
                if now >= *since + FAST_PERIODIC {
                    (*since, *answers) = (now, 0);
                }
                if *answers < MARKERS {
                    *answers += 1;
                    counters.not_sent += u64::from(!send(port, sent_from(mac, answer)));
                }
            }
            Ok(Slow::MarkerResponse | Slow::Other(_)) => counters.unknown += 1,
        }
    }

    /// Links are as `up` says, all go as far as they can, and what is due is sent. `carry` is told what members carry before partners are.
    pub fn tick(
        &mut self,
        now: u64,
        up: &dyn Fn(usize) -> bool,
        carry: &mut dyn FnMut(PortId, LagMember),
        send: Send<'_>,
    ) {
        for (lag, settings) in self.lags.iter_mut().zip(&self.settings.lags) {
            lag.group.tick(&|i| up(settings.members[i].index()), now);
            for (i, member) in settings.members.iter().enumerate() {
                let port = &mut lag.group.ports[i];
                carry(*member, carried(port.mux()));
                if port.is_due(now) {
                    let sent = send(member.index(), port.pdu().encode(settings.macs[i]));
                    port.has_tried(sent, now);
                    lag.counters[i].not_sent += u64::from(!sent);
                }
            }
        }
    }

    /// The switch ends: partners are told so.
    pub fn end(&mut self, now: u64, send: Send<'_>) {
        for (lag, settings) in self.lags.iter_mut().zip(&self.settings.lags) {
            lag.end(settings, now, send);
        }
    }

    /// All that is known.
    pub fn reading(&self) -> LacpReading {
        let lags = self.lags.iter().zip(&self.settings.lags);
        LacpReading { lags: lags.map(|(lag, settings)| lag.reading(settings)).collect() }
    }
}

/// What a member carries in a state.
fn carried(mux: Mux) -> LagMember {
    match mux {
        Mux::Detached | Mux::Waiting | Mux::Attached => LagMember::Detached,
        Mux::Collecting => LagMember::Collecting,
        Mux::Distributing => LagMember::Distributing,
    }
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
