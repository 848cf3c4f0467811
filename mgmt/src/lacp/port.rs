//! The state machines of one port of a LAG (802.1AX 6.4.12 to 6.4.16): what it knows of its partner, when it speaks, and whether it takes
//! and sends frames. Driven by whoever has LACPDUs and the time, in ms since some start.

use super::frame::{Lacpdu, PortInfo, State};

/// Between two LACPDUs of a port whose partner is in a hurry, ms (802.1AX 6.4.4).
pub const FAST_PERIODIC: u64 = 1_000;
/// The same of a partner that is not.
pub const SLOW_PERIODIC: u64 = 30_000;
/// For how long a LACPDU holds that is to come every second: two may be lost.
pub const SHORT_TIMEOUT: u64 = 3 * FAST_PERIODIC;
/// The same of one that comes every 30 s.
pub const LONG_TIMEOUT: u64 = 3 * SLOW_PERIODIC;
/// A port waits so long for others of its LAG before it is attached, so that they are attached together.
pub const AGGREGATE_WAIT: u64 = 2_000;
/// LACPDUs of a port within [`FAST_PERIODIC`], at most (802.1AX 6.4.16).
const AT_ONCE: usize = 3;

/// What is known of the partner (802.1AX figure 6-18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receive {
    /// The link is down: nothing.
    PortDisabled,
    /// It has not been heard for too long; it has another 3 s.
    Expired,
    /// It is not there, or speaks no LACP.
    Defaulted,
    /// What it said last.
    Current,
}

impl Receive {
    /// As it is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::PortDisabled => "port_disabled",
            Self::Expired => "expired",
            Self::Defaulted => "defaulted",
            Self::Current => "current",
        }
    }
}

/// Whether the port is attached to its LAG, takes frames and sends them, each in turn (802.1AX figure 6-21, independent control).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mux {
    /// It is of no LAG.
    Detached,
    /// It will be attached when others have had time to come along.
    Waiting,
    /// It is attached, and waits for its partner.
    Attached,
    /// The partner is attached, too: frames are taken.
    Collecting,
    /// The partner takes frames: they are sent.
    Distributing,
}

impl Mux {
    /// As it is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Detached => "detached",
            Self::Waiting => "waiting",
            Self::Attached => "attached",
            Self::Collecting => "collecting",
            Self::Distributing => "distributing",
        }
    }
}

/// What a port is, and how it speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortSettings {
    /// What it says of itself, but for its state.
    pub actor: PortInfo,
    /// It speaks although nobody has spoken to it.
    pub active: bool,
    /// Its partner is to speak every second.
    pub fast: bool,
}

/// A port.
#[derive(Clone, Debug)]
pub struct Port {
    settings: PortSettings,
    receive: Receive,
    /// When what is known holds no longer, where that is a matter of time.
    current_until: u64,
    partner: PortInfo,
    mux: Mux,
    /// When a port that waits has waited enough.
    wait_until: u64,
    /// There is something to be said (NTT).
    need_to_transmit: bool,
    /// When the next LACPDU is due without that, and how long after the one before.
    periodic: Option<(u64, u64)>,
    /// When the last LACPDUs were sent, the oldest first.
    sent: [Option<u64>; AT_ONCE],
}

/// What stands for a partner that has said nothing: with a LAG that falls back to it, it is in step, takes frames and sends them.
fn unknown_partner() -> PortInfo {
    let state = State::default()
        .with(State::SYNC, true)
        .with(State::COLLECTING, true)
        .with(State::DISTRIBUTING, true);
    PortInfo { state, ..PortInfo::default() }
}

impl Port {
    /// A port without a link.
    pub fn new(settings: PortSettings) -> Self {
        Self {
            settings,
            receive: Receive::PortDisabled,
            current_until: 0,
            partner: unknown_partner(),
            mux: Mux::Detached,
            wait_until: 0,
            need_to_transmit: false,
            periodic: None,
            sent: [None; AT_ONCE],
        }
    }

    /// Other settings. With another identity it begins anew: its partner has agreed with somebody else.
    pub fn configure(&mut self, settings: PortSettings) {
        if self.settings == settings {
            return;
        }
        if !self.settings.actor.is_same_port(&settings.actor) {
            *self = Self { sent: self.sent, ..Self::new(settings) };
        }
        (self.settings, self.need_to_transmit) = (settings, true);
    }

    /// As given.
    pub fn settings(&self) -> &PortSettings {
        &self.settings
    }

    /// What is known of the partner.
    pub fn receive(&self) -> Receive {
        self.receive
    }

    /// Whether it takes and sends frames.
    pub fn mux(&self) -> Mux {
        self.mux
    }

    /// What the partner says of itself, if it has said anything that still holds.
    pub fn partner(&self) -> Option<&PortInfo> {
        (!self.is_defaulted()).then_some(&self.partner)
    }

    fn is_defaulted(&self) -> bool {
        self.partner.is_same_port(&unknown_partner())
    }

    /// What the port says of itself.
    pub fn actor(&self) -> PortInfo {
        let state = State::AGGREGATION
            .with(State::ACTIVITY, self.settings.active)
            .with(State::SHORT_TIMEOUT, self.settings.fast)
            .with(State::SYNC, self.mux >= Mux::Attached)
            .with(State::COLLECTING, self.mux >= Mux::Collecting)
            .with(State::DISTRIBUTING, self.mux >= Mux::Distributing)
            .with(State::DEFAULTED, self.is_defaulted())
            .with(State::EXPIRED, self.receive == Receive::Expired);
        PortInfo { state, ..self.settings.actor }
    }

    /// The next LACPDU.
    pub fn pdu(&self) -> Lacpdu {
        Lacpdu { actor: self.actor(), partner: self.partner }
    }

    /// The link is up or not, and time has passed.
    pub fn look(&mut self, up: bool, now: u64) {
        match (up, self.receive) {
            (false, Receive::PortDisabled) => {}
            // Another one may be at the other end when the link is back.
            (false, _) => (self.receive, self.partner) = (Receive::PortDisabled, unknown_partner()),
            (true, Receive::PortDisabled) => {
                self.expire(now);
                self.need_to_transmit = true;
            }
            (true, Receive::Current) if now >= self.current_until => self.expire(now),
            (true, Receive::Expired) if now >= self.current_until => {
                (self.receive, self.partner) = (Receive::Defaulted, unknown_partner());
            }
            (true, _) => {}
        }
    }

    /// Whoever is there is asked to speak soon, and is out of step until then.
    fn expire(&mut self, now: u64) {
        self.receive = Receive::Expired;
        self.partner.state = self.partner.state.with(State::SYNC, false).with(State::SHORT_TIMEOUT, true);
        self.current_until = now + SHORT_TIMEOUT;
    }

    /// The partner has spoken.
    pub fn take(&mut self, pdu: &Lacpdu, now: u64) {
        if self.receive == Receive::PortDisabled {
            return;
        }
        let own = self.actor();
        // What both ends are to agree on (update_NTT).
        let agreed = State(State::ACTIVITY.0 | State::SHORT_TIMEOUT.0 | State::SYNC.0 | State::AGGREGATION.0);
        let knows_us = pdu.partner.is_same_port(&own);
        if !knows_us || (pdu.partner.state.0 ^ own.state.0) & agreed.0 != 0 {
            self.need_to_transmit = true;
        }
        // It is in step where it means this port, or a link of its own (recordPDU).
        let theirs = pdu.actor.state;
        let means_us =
            knows_us && pdu.partner.state.has(State::AGGREGATION) || !theirs.has(State::AGGREGATION);
        let keeps_on =
            theirs.has(State::ACTIVITY) || self.settings.active && pdu.partner.state.has(State::ACTIVITY);
        let in_step = theirs.has(State::SYNC) && means_us && keeps_on;
        // Whoever was attached was so to somebody else (update_Selected).
        if !self.partner.is_same_port(&pdu.actor) {
            self.mux = Mux::Detached;
        }
        self.partner = PortInfo { state: theirs.with(State::SYNC, in_step), ..pdu.actor };
        self.receive = Receive::Current;
        self.current_until = now + if self.settings.fast { SHORT_TIMEOUT } else { LONG_TIMEOUT };
    }

    /// Goes as far as can be gone now, one state after the other; `selected`: the port may be of its LAG.
    pub fn step(&mut self, selected: bool, now: u64) {
        loop {
            let partner = self.partner.state;
            let in_step = selected && partner.has(State::SYNC);
            let next = match self.mux {
                Mux::Detached if selected => {
                    self.wait_until = now + AGGREGATE_WAIT;
                    Mux::Waiting
                }
                Mux::Waiting if !selected => Mux::Detached,
                Mux::Waiting if now >= self.wait_until => Mux::Attached,
                Mux::Attached if !selected => Mux::Detached,
                Mux::Attached if in_step => Mux::Collecting,
                Mux::Collecting if !in_step => Mux::Attached,
                Mux::Collecting if partner.has(State::COLLECTING) => Mux::Distributing,
                Mux::Distributing if !in_step || !partner.has(State::COLLECTING) => Mux::Collecting,
                _ => return,
            };
            self.mux = next;
            // Whatever the partner can see of it, it is to see.
            self.need_to_transmit |= next != Mux::Waiting;
        }
    }

    /// Between two LACPDUs; `None`: nobody wants any.
    fn interval(&self) -> Option<u64> {
        let spoken = self.settings.active || self.partner.state.has(State::ACTIVITY);
        let short = self.partner.state.has(State::SHORT_TIMEOUT);
        (self.receive != Receive::PortDisabled && spoken).then_some(if short {
            FAST_PERIODIC
        } else {
            SLOW_PERIODIC
        })
    }

    /// A LACPDU is to be sent now ([`Self::pdu`]); [`Self::has_tried`] when that was tried.
    pub fn is_due(&mut self, now: u64) -> bool {
        let Some(interval) = self.interval() else {
            (self.periodic, self.need_to_transmit) = (None, false);
            return false;
        };
        self.periodic = match self.periodic {
            Some((due, before)) if now < due && interval >= before => Some((due, interval)),
            // It has become urgent, or is time.
            Some(_) => {
                self.need_to_transmit = true;
                Some((now + interval, interval))
            }
            None => Some((now + interval, interval)),
        };
        self.need_to_transmit && self.sent[0].is_none_or(|sent| now >= sent + FAST_PERIODIC)
    }

    /// What was due has been sent, or the link took none: then it still is.
    pub fn has_tried(&mut self, sent: bool, now: u64) {
        self.need_to_transmit = !sent;
        self.sent.rotate_left(1);
        self.sent[AT_ONCE - 1] = Some(now);
    }
}

#[cfg(test)]
#[path = "port_tests.rs"]
mod tests;
