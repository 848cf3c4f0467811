//! One host: its flows out, its flows in, its link and its PFC.

use super::clock::{Clock, Step};
use super::flow::{Flow, FlowError, Peer};
use super::frame::{Stamp, Template, announcement, claim, is_arp};
use super::receive::{FlowReport, Receiver};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::pfc::frame::{CONTROL_BYTES, Control, PfcFrame, decode, is_mac_control};
use weir_dataplane::pfc::react::{ReactConfig, Reaction, RxCounters};
use weir_dataplane::types::{Mac, Nanos, PRIORITIES};

/// Frames a flow may fall behind its rate while others use the link, and then make good.
const BACKLOG_FRAMES: u64 = 16;
/// Pauses that can wait for the response delay at one time; beyond that the oldest is obeyed early.
const PENDING: usize = 64;

/// What a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Its address.
    pub mac: Mac,
    /// Its IP address.
    pub ip: Ipv4Addr,
    /// Rate of its link, bits/s: nothing is sent faster, and PFC quanta are measured by it.
    pub rate: u64,
    /// Longest frame it sends, without FCS.
    pub max_frame: u16,
    /// PFC priorities it obeys, one bit each.
    pub obey: u8,
    /// From the arrival of a PFC frame to its effect, ns.
    pub response_delay: Nanos,
    /// Time lost between two calls that is made good, ns: frames that should have gone while nobody
    /// called [`Host::poll_transmit`] go at once. 0 in virtual time.
    pub slack: Nanos,
    /// From which check and content of all frames are made; the same for all hosts of a network.
    pub seed: u64,
}

/// A host gone wrong: it pauses the switch and does not stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    /// Priorities to pause, one bit each.
    pub priorities: u8,
    /// Quanta in each frame.
    pub quanta: u16,
    /// Time between two frames, ns; 0 counts as 1.
    pub interval: Nanos,
    /// First frame, ns.
    pub from: Nanos,
    /// No frame from here on, ns.
    pub until: Nanos,
}

/// What a host saw as a whole; per-flow numbers are in [`FlowReport`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostReport {
    /// Nanoseconds each priority was held back.
    pub paused_ns: [Nanos; PRIORITIES],
    /// Times each priority went from running to held back.
    pub pauses: [u64; PRIORITIES],
    /// PFC and PAUSE frames that have taken effect, by kind.
    pub control: RxCounters,
    /// PFC frames sent, all of a [`Storm`].
    pub pfc_sent: u64,
    /// ARP frames of other hosts.
    pub announcements: u64,
    /// Unicast frames for another address: the switch did not know where it is.
    pub flooded: u64,
    /// Anything else that is not of a flow expected here.
    pub unexpected: u64,
}

/// The sending end of one flow.
#[derive(Clone, Debug)]
struct Sender {
    flow: Flow,
    frames: Template,
    sent: u64,
    /// `None`: as fast as the link goes.
    pace: Option<(Clock, Step)>,
    on_link: Step,
}

impl Sender {
    /// Due time of the next frame, [`NEVER`] when all are sent.
    fn ready(&self) -> Nanos {
        match (&self.pace, self.flow.frames) {
            (_, Some(frames)) if self.sent >= frames => NEVER,
            (Some((clock, _)), _) => clock.ready(),
            (None, _) => self.flow.start,
        }
    }
}

/// A traffic host. Bytes and times in, bytes and times out.
#[derive(Clone, Debug)]
pub struct Host {
    config: HostConfig,
    link: Clock,
    senders: Vec<Sender>,
    /// Sender after the one that sent last.
    turn: usize,
    /// Sorted by flow number.
    receivers: Vec<Receiver>,
    stopped: bool,
    reaction: Reaction,
    /// Pauses that arrived and the time they take effect.
    pending: VecDeque<(Nanos, Control)>,
    paused: u8,
    /// When each priority was last seen to be free again.
    resumed: [Nanos; PRIORITIES],
    /// VLANs to be announced in, and how many have been.
    vlans: Vec<Option<u16>>,
    announced: usize,
    storm: Option<(Storm, Nanos)>,
    control: Vec<u8>,
    pfc_sent: u64,
    announcements: u64,
    flooded: u64,
    unexpected: u64,
}

impl Host {
    /// A host without flows. Its first frame announces it to the switch.
    pub fn new(config: HostConfig) -> Self {
        let reaction = Reaction::new(ReactConfig::host(config.rate, config.obey));
        Self {
            config,
            link: Clock::new(config.rate, 0),
            senders: Vec::new(),
            turn: 0,
            receivers: Vec::new(),
            stopped: false,
            reaction,
            pending: VecDeque::with_capacity(PENDING),
            paused: 0,
            resumed: [0; PRIORITIES],
            vlans: vec![None],
            announced: 0,
            storm: None,
            control: Vec::with_capacity(64),
            pfc_sent: 0,
            announcements: 0,
            flooded: 0,
            unexpected: 0,
        }
    }

    /// How others address this host.
    pub fn address(&self) -> Peer {
        Peer { mac: self.config.mac, ip: self.config.ip }
    }

    /// Adds a flow to send.
    pub fn send(&mut self, flow: Flow) -> Result<(), FlowError> {
        flow.check(self.config.max_frame)?;
        if self.senders.iter().any(|s| s.flow.id == flow.id) {
            return Err(FlowError::Duplicate(flow.id));
        }
        let frames = Template::new(&flow, self.address(), self.config.seed);
        let pace = flow.rate.map(|rate| {
            let clock = Clock::new(rate, flow.start);
            (clock, clock.step(frames.len()))
        });
        let on_link = self.link.step(frames.len());
        self.senders.push(Sender { flow, frames, sent: 0, pace, on_link });
        self.note_vlan(flow.vlan());
        Ok(())
    }

    /// Adds a flow to receive: the same value its sender has.
    pub fn expect(&mut self, flow: Flow) -> Result<(), FlowError> {
        flow.check(u16::MAX)?;
        match self.receivers.binary_search_by_key(&flow.id, |r| r.flow.id) {
            Ok(_) => return Err(FlowError::Duplicate(flow.id)),
            Err(at) => self.receivers.insert(at, Receiver::new(flow)),
        }
        self.note_vlan(flow.vlan());
        Ok(())
    }

    fn note_vlan(&mut self, vlan: Option<u16>) {
        if !self.vlans.contains(&vlan) {
            self.vlans.push(vlan);
        }
    }

    /// Announces the host once more, in every VLAN it has flows in.
    pub fn announce(&mut self) {
        self.announced = 0;
    }

    /// Pauses the switch as `storm` says.
    pub fn storm(&mut self, storm: Storm) {
        self.storm = Some((storm, storm.from));
    }

    /// No more data frames. What is in flight may still arrive.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// All that will come of a flow has come: of `sent` frames the missing ones are lost.
    pub fn finish(&mut self, flow: u16, sent: u64) {
        if let Ok(at) = self.receivers.binary_search_by_key(&flow, |r| r.flow.id) {
            self.receivers[at].finish(sent);
        }
    }

    /// The flows this host sends and the frames of each that were handed out.
    pub fn sent(&self) -> impl Iterator<Item = (&Flow, u64)> {
        self.senders.iter().map(|s| (&s.flow, s.sent))
    }

    /// What arrived, by flow, in the order of their numbers.
    pub fn received(&self) -> impl Iterator<Item = &FlowReport> {
        self.receivers.iter().map(Receiver::report)
    }

    /// What the host saw until `now`.
    pub fn report(&self, now: Nanos) -> HostReport {
        HostReport {
            paused_ns: std::array::from_fn(|p| self.reaction.paused_ns(p, now)),
            pauses: std::array::from_fn(|p| self.reaction.transitions(p)),
            control: *self.reaction.counters(),
            pfc_sent: self.pfc_sent,
            announcements: self.announcements,
            flooded: self.flooded,
            unexpected: self.unexpected,
        }
    }

    /// Takes a frame from the wire, without FCS.
    pub fn handle_frame(&mut self, bytes: &[u8], now: Nanos) {
        if is_mac_control(bytes) {
            return self.handle_control(bytes, now);
        }
        let group = bytes.first().is_some_and(|b| b & 1 == 1);
        if !group && !bytes.starts_with(&self.config.mac.0) {
            *if bytes.len() < 14 { &mut self.unexpected } else { &mut self.flooded } += 1;
            return;
        }
        let Some(claim) = claim(bytes) else {
            *if is_arp(bytes) { &mut self.announcements } else { &mut self.unexpected } += 1;
            return;
        };
        match self.receivers.binary_search_by_key(&claim.flow, |r| r.flow.id) {
            Ok(at) if self.receivers[at].flow.dst.mac == claim.dst => {
                self.receivers[at].frame(&claim, self.config.seed, now);
            }
            _ => self.unexpected += 1,
        }
    }

    #[cold]
    fn handle_control(&mut self, bytes: &[u8], now: Nanos) {
        let control = decode(bytes);
        if let Control::Invalid(_) = control {
            self.reaction.receive(bytes, now);
            return;
        }
        if self.pending.len() == PENDING
            && let Some((_, oldest)) = self.pending.pop_front()
        {
            self.apply(oldest, now);
        }
        self.pending.push_back((now.saturating_add(self.config.response_delay), control));
        self.obey(now);
    }

    fn apply(&mut self, control: Control, at: Nanos) {
        match control {
            Control::Pfc(frame) => self.reaction.on_pfc(&frame, at),
            Control::Pause(frame) => self.reaction.on_pause(frame, at),
            Control::Invalid(_) => {}
        }
    }

    /// Puts into effect what is due, and ends what has ended.
    fn obey(&mut self, now: Nanos) {
        while let Some(&(at, control)) = self.pending.front().filter(|(at, _)| *at <= now) {
            self.pending.pop_front();
            self.apply(control, at);
        }
        let paused = self.reaction.paused_mask(now);
        if paused != self.paused {
            for (priority, resumed) in self.resumed.iter_mut().enumerate() {
                if self.paused & !paused & 1 << priority != 0 {
                    *resumed = now;
                }
            }
            self.paused = paused;
        }
    }

    /// The next frame to put on the wire at `now`, without FCS. It counts as sent: call only with room
    /// for it.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<&[u8]> {
        self.obey(now);
        if self.link.ready() > now {
            return None;
        }
        if self.announced < self.vlans.len() {
            return Some(self.announcement(now));
        }
        if self.storm.is_some_and(|(_, due)| due <= now) && self.storm_frame(now) {
            return Some(&self.control);
        }
        let at = self.in_turn(now)?;
        self.turn = if at + 1 == self.senders.len() { 0 } else { at + 1 };
        let sender = &mut self.senders[at];
        let resumed = self.resumed[usize::from(sender.flow.priority)];
        // When the frame would have gone had somebody called in time, `slack` ago at most.
        let gone = self.link.ready().max(sender.ready()).max(resumed);
        let gone = gone.max(now.saturating_sub(self.config.slack));
        self.link.not_before(gone);
        self.link.advance(sender.on_link);
        if let Some((clock, step)) = &mut sender.pace {
            // A flow does not make good the time it was paused.
            let behind = step.ns.saturating_mul(BACKLOG_FRAMES);
            clock.not_before(resumed.max(gone.saturating_sub(behind)));
            clock.advance(*step);
        }
        let stamp = Stamp { sequence: sender.sent, sent: now };
        sender.sent += 1;
        Some(sender.frames.stamped(stamp))
    }

    /// The sender whose turn it is of those that may send.
    fn in_turn(&self, now: Nanos) -> Option<usize> {
        if self.stopped {
            return None;
        }
        let may = |at: &usize| {
            let sender = &self.senders[*at];
            sender.ready() <= now && self.paused >> sender.flow.priority & 1 == 0
        };
        (self.turn..self.senders.len()).chain(0..self.turn).find(may)
    }

    #[cold]
    fn announcement(&mut self, now: Nanos) -> &[u8] {
        announcement(self.address(), self.vlans[self.announced], &mut self.control);
        self.announced += 1;
        self.on_link(now);
        &self.control
    }

    /// Writes a PFC frame unless the storm is over.
    #[cold]
    fn storm_frame(&mut self, now: Nanos) -> bool {
        let Some((storm, due)) = &mut self.storm else { return false };
        if now >= storm.until {
            self.storm = None;
            return false;
        }
        *due = due.saturating_add(storm.interval.max(1)).max(now.saturating_add(1));
        let frame = PfcFrame::uniform(storm.priorities, storm.quanta);
        self.control.clear();
        self.control.extend(frame.encode(self.config.mac));
        self.pfc_sent += 1;
        self.on_link(now);
        true
    }

    /// The link carries the control frame from `now` on.
    fn on_link(&mut self, now: Nanos) {
        let step = self.link.step(self.control.len().max(CONTROL_BYTES));
        self.link.not_before(now);
        self.link.advance(step);
    }

    /// Earliest time at which [`Host::poll_transmit`] may have a frame if nothing arrives until then.
    /// It may turn out to have none; then ask again. `None`: nothing to send.
    pub fn next_transmit(&mut self, now: Nanos) -> Option<Nanos> {
        self.obey(now);
        let mut next = NEVER;
        if self.announced < self.vlans.len() {
            next = 0;
        }
        if let Some((_, due)) = self.storm.filter(|(storm, due)| *due < storm.until) {
            next = next.min(due);
        }
        let resume = self.pending.front().map_or(NEVER, |(at, _)| *at).min(self.reaction.next_expiry());
        for sender in self.senders.iter().filter(|_| !self.stopped) {
            let paused = self.paused >> sender.flow.priority & 1 == 1;
            // A finished sender stays at NEVER either way.
            next = next.min(if paused { sender.ready().max(resume) } else { sender.ready() });
        }
        (next != NEVER).then(|| next.max(self.link.ready()).max(now))
    }
}
