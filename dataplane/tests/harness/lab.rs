//! The event queue: switches, links and testers at exact times. Ties are served in the order they were made.

use super::frames::host;
use super::tester::{Flow, Rx, Storm, Tester};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use weir_dataplane::drops::DropReason;
use weir_dataplane::frame::{Frame, OwnedFrame};
use weir_dataplane::mmu::{Admission, Mmu};
use weir_dataplane::pfc::frame::{Control, PfcFrame, decode};
use weir_dataplane::switch::{Switch, SwitchParams, Wire};
use weir_dataplane::types::{Burst, Nanos, PRIORITIES, PortId};

/// Where a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// Switch and port.
    Switch(usize, u16),
    Tester(usize),
}

/// One direction of a cable.
#[derive(Debug)]
struct Link {
    to: End,
    rate: u64,
    delay: Nanos,
    free_at: Nanos,
    /// What the last frame took beyond whole nanoseconds, in 1/rate ns: back-to-back frames keep the rate exactly.
    remainder: u64,
    up: bool,
    /// Frames under way when a link goes down never arrive.
    epoch: u32,
    /// Every n-th Xoff is lost; 0 for none.
    lose_xoff: u64,
    xoffs: u64,
}

impl Link {
    /// A frame begins at `now`; when its last bit has left.
    fn begin(&mut self, len: usize, now: Nanos) -> Nanos {
        let carried = if self.free_at == now { self.remainder } else { 0 };
        let bits = (len.max(60) as u128 + 24) * 8;
        let exact = bits * 1_000_000_000 + u128::from(carried);
        self.remainder = (exact % u128::from(self.rate)) as u64;
        self.free_at = now + (exact / u128::from(self.rate)) as u64;
        self.free_at
    }
}

#[derive(Debug)]
enum Event {
    Arrive { link: usize, epoch: u32, frame: OwnedFrame },
    Wake(End),
    Obey { tester: usize, received: Nanos, frame: PfcFrame },
    Storm { tester: usize, storm: usize, resume: bool },
}

#[derive(Debug)]
struct Entry {
    at: Nanos,
    nth: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.nth == other.nth
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.nth).cmp(&(other.at, other.nth))
    }
}

/// Takes one frame, as a link does.
#[derive(Default)]
struct OneFrame(Option<OwnedFrame>);

impl Wire<OwnedFrame> for OneFrame {
    fn send(&mut self, frames: &mut Burst<OwnedFrame>) -> usize {
        if self.0.is_some() || frames.is_empty() {
            return 0;
        }
        self.0 = frames.drain(..1).next();
        1
    }

    fn send_control(&mut self, frame: &[u8]) -> bool {
        let free = self.0.is_none();
        if free {
            self.0 = Some(OwnedFrame::new(frame));
        }
        free
    }
}

/// The invariants of weir's own switch: conservation, sums, and never more than the buffer.
pub fn audit_mmu(s: &Switch<OwnedFrame>) {
    let frames = s.conservation();
    assert_eq!(frames.error(), 0, "{frames:?}");
    let mmu = s.admission();
    mmu.audit().unwrap();
    let pools = mmu.pools();
    assert!(mmu.held_bytes() <= mmu.params().total, "{} held of {}", mmu.held_bytes(), mmu.params().total);
    assert!(pools.headroom_used <= pools.headroom_size.max(pools.headroom_peak.peak(0)));
    if frames.copies == 0 {
        assert_eq!(mmu.held_bytes(), mmu.queued_bytes(), "both sides count the same bytes");
    }
}

/// Switches, links and testers.
pub struct Lab<A: Admission = Mmu> {
    pub now: Nanos,
    pub switches: Vec<Switch<OwnedFrame, A>>,
    pub testers: Vec<Tester>,
    links: Vec<Link>,
    out: HashMap<End, usize>,
    queue: BinaryHeap<Reverse<Entry>>,
    wakes: HashMap<End, Nanos>,
    audit: fn(&Switch<OwnedFrame, A>),
    made: u64,
    flows: u32,
    pub events: u64,
}

impl Lab {
    /// One switch with a tester at every port. Links have the rate of their port and `delay` ns.
    pub fn star(params: &SwitchParams, delay: Nanos) -> Self {
        let mut lab = Self::new(audit_mmu);
        lab.add_star(Switch::new(params.clone()).unwrap(), params, delay);
        lab
    }
}

impl<A: Admission> Lab<A> {
    /// An empty laboratory; `audit` looks at a switch after each of its events.
    pub fn new(audit: fn(&Switch<OwnedFrame, A>)) -> Self {
        Self {
            now: 0,
            switches: Vec::new(),
            testers: Vec::new(),
            links: Vec::new(),
            out: HashMap::new(),
            queue: BinaryHeap::new(),
            wakes: HashMap::new(),
            audit,
            made: 0,
            flows: 0,
            events: 0,
        }
    }

    /// A switch with a tester at every port.
    pub fn add_star(&mut self, switch: Switch<OwnedFrame, A>, params: &SwitchParams, delay: Nanos) {
        let s = self.add_switch(switch);
        for (port, p) in params.ports.iter().enumerate() {
            let tester = self.add_tester(Tester::new(host(port as u16)));
            self.connect(End::Switch(s, port as u16), End::Tester(tester), p.generate.rate, delay);
        }
    }

    pub fn add_switch(&mut self, switch: Switch<OwnedFrame, A>) -> usize {
        self.switches.push(switch);
        self.switches.len() - 1
    }

    pub fn add_tester(&mut self, tester: Tester) -> usize {
        self.testers.push(tester);
        self.testers.len() - 1
    }

    /// A cable, both directions.
    pub fn connect(&mut self, a: End, b: End, rate: u64, delay: Nanos) {
        for (from, to) in [(a, b), (b, a)] {
            self.out.insert(from, self.links.len());
            self.links.push(Link {
                to,
                rate,
                delay,
                free_at: 0,
                remainder: 0,
                up: true,
                epoch: 0,
                lose_xoff: 0,
                xoffs: 0,
            });
        }
    }

    /// Tester `from` sends `flow`; its id is returned.
    pub fn flow(&mut self, from: usize, flow: Flow) -> u32 {
        self.flows += 1;
        let at = flow.next_at.max(self.now);
        // Nothing is owed for the time before.
        let start = flow.next_at.max(self.now);
        let stop = flow.stop;
        let mut flow = flow.between(start, stop);
        flow.id = self.flows;
        self.testers[from].flows.push(flow);
        self.wake(End::Tester(from), at);
        self.flows
    }

    /// Tester `from` sends pause frames.
    pub fn storm(&mut self, from: usize, storm: Storm) {
        self.testers[from].storms.push(storm);
        let event = Event::Storm { tester: from, storm: self.testers[from].storms.len() - 1, resume: false };
        self.schedule(storm.start, event);
    }

    /// Tester `from` sends one control frame now.
    pub fn send_control(&mut self, from: usize, frame: &PfcFrame) {
        let bytes = frame.encode(self.testers[from].mac).to_vec();
        self.testers[from].control.push_back(bytes);
        self.pump_tester(from);
    }

    /// Every `k`-th Xoff that leaves `end` is lost on the wire.
    pub fn lose_xoff(&mut self, end: End, k: u64) {
        let link = self.out[&end];
        self.links[link].lose_xoff = k;
    }

    /// The cable at a switch port is pulled, or plugged in.
    pub fn set_link(&mut self, switch: usize, port: u16, up: bool) {
        let here = self.out[&End::Switch(switch, port)];
        let there = self.links[here].to;
        let back = self.out[&there];
        for link in [here, back] {
            self.links[link].up = up;
            self.links[link].epoch += 1;
            self.links[link].free_at = self.now;
        }
        self.switches[switch].set_link(PortId(port), up, self.now);
        match there {
            End::Switch(s, p) => self.switches[s].set_link(PortId(p), up, self.now),
            End::Tester(t) => {
                self.testers[t].paused_until = [0; PRIORITIES];
                self.testers[t].control.clear();
                self.pump_tester(t);
            }
        }
        self.pump_switch(switch);
    }

    /// Lets a change made from outside take effect.
    pub fn touch(&mut self) {
        (0..self.switches.len()).for_each(|s| self.pump_switch(s));
        (0..self.testers.len()).for_each(|t| self.pump_tester(t));
    }

    fn schedule(&mut self, at: Nanos, event: Event) {
        self.made += 1;
        self.queue.push(Reverse(Entry { at, nth: self.made, event }));
    }

    fn wake(&mut self, end: End, at: Nanos) {
        if self.wakes.get(&end).is_some_and(|set| *set <= at && *set >= self.now) {
            return;
        }
        self.wakes.insert(end, at);
        self.schedule(at, Event::Wake(end));
    }

    /// Runs for `ns`.
    pub fn run_for(&mut self, ns: Nanos) {
        self.run_until(self.now + ns);
    }

    /// Runs up to and including `until`.
    pub fn run_until(&mut self, until: Nanos) {
        while self.queue.peek().is_some_and(|Reverse(entry)| entry.at <= until) {
            let Some(Reverse(entry)) = self.queue.pop() else { break };
            self.now = entry.at;
            self.events += 1;
            self.handle(entry.event);
        }
        self.now = until;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Wake(end) => {
                if self.wakes.get(&end) == Some(&self.now) {
                    self.wakes.remove(&end);
                }
                match end {
                    End::Switch(s, _) => self.pump_switch(s),
                    End::Tester(t) => self.pump_tester(t),
                }
            }
            Event::Arrive { link, epoch, frame } => {
                if self.links[link].epoch == epoch {
                    self.arrive(self.links[link].to, self.links[link].rate, frame);
                }
            }
            Event::Obey { tester, received, frame } => {
                let rate = self.links[self.out[&End::Tester(tester)]].rate;
                self.testers[tester].obey(&frame, received, self.now, rate);
                self.pump_tester(tester);
            }
            Event::Storm { tester, storm, resume } => self.storm_now(tester, storm, resume),
        }
    }

    fn storm_now(&mut self, tester: usize, nth: usize, resume: bool) {
        let storm = self.testers[tester].storms[nth];
        let quanta = if resume { 0 } else { storm.quanta };
        let frame = PfcFrame { enable: storm.mask, ..PfcFrame::uniform(storm.mask, quanta) };
        if resume || self.now < storm.stop {
            self.send_control(tester, &frame);
        }
        if !resume && self.now < storm.stop {
            if let Some(after) = storm.xon_after {
                self.schedule(self.now + after, Event::Storm { tester, storm: nth, resume: true });
            }
            self.schedule(self.now + storm.period, Event::Storm { tester, storm: nth, resume: false });
        }
    }

    fn arrive(&mut self, at: End, rate: u64, frame: OwnedFrame) {
        match at {
            End::Switch(s, port) => {
                let mut burst: Burst<_> = [frame].into_iter().collect();
                self.switches[s].receive(PortId(port), &mut burst, self.now);
                self.pump_switch(s);
            }
            End::Tester(t) => {
                let tester = &mut self.testers[t];
                let _ = rate;
                match decode(frame.bytes()) {
                    Control::Pfc(pfc) => {
                        tester.pfc_log.push((self.now, pfc));
                        tester.pfc_from.extend(frame.bytes()[6..].first_chunk());
                        if tester.obeys {
                            let event = Event::Obey { tester: t, received: self.now, frame: pfc };
                            let at = self.now + tester.response;
                            self.schedule(at, event);
                        }
                    }
                    _ => tester.receive_data(frame.bytes(), self.now),
                }
            }
        }
    }

    /// Puts a frame on a link.
    fn launch(&mut self, link: usize, frame: OwnedFrame) {
        let l = &mut self.links[link];
        let arrives = l.begin(frame.len(), self.now) + l.delay;
        let xoff =
            l.lose_xoff > 0 && matches!(decode(frame.bytes()), Control::Pfc(f) if f.time != [0; PRIORITIES]);
        l.xoffs += u64::from(xoff);
        if xoff && l.xoffs.is_multiple_of(l.lose_xoff) {
            return;
        }
        let epoch = l.epoch;
        self.schedule(arrives, Event::Arrive { link, epoch, frame });
    }

    /// Everything a switch can do now.
    fn pump_switch(&mut self, s: usize) {
        self.switches[s].tick(self.now);
        for port in 0..self.switches[s].ports() as u16 {
            self.pump_port(s, port);
        }
        (self.audit)(&self.switches[s]);
    }

    fn pump_port(&mut self, s: usize, port: u16) {
        let end = End::Switch(s, port);
        let Some(&link) = self.out.get(&end) else { return };
        while let Some(at) = self.switches[s].next_event(PortId(port), self.now) {
            let busy = self.links[link].free_at;
            if at > self.now {
                return self.wake(end, at);
            }
            if !self.links[link].up {
                return;
            }
            if busy > self.now {
                return self.wake(end, busy);
            }
            let mut wire = OneFrame::default();
            self.switches[s].transmit(PortId(port), 0, self.now, &mut wire);
            if wire.0.is_none() {
                self.switches[s].transmit(PortId(port), 1, self.now, &mut wire);
            }
            let Some(frame) = wire.0 else {
                panic!("port {port} promised something for {at}, and at {} there was nothing", self.now);
            };
            self.launch(link, frame);
        }
    }

    fn pump_tester(&mut self, t: usize) {
        let end = End::Tester(t);
        let Some(&link) = self.out.get(&end) else { return };
        while self.links[link].up {
            let busy = self.links[link].free_at;
            if busy > self.now {
                return self.wake(end, busy);
            }
            match self.testers[t].next_frame(self.now) {
                Ok(frame) => self.launch(link, OwnedFrame::new(frame)),
                Err(Nanos::MAX) => return,
                Err(at) => return self.wake(end, at),
            }
        }
    }

    /// What arrived of a flow, wherever it arrived.
    pub fn rx(&self, flow: u32) -> Rx {
        self.testers.iter().find_map(|t| t.rx.get(&flow).cloned()).unwrap_or_default()
    }

    /// Frames of a flow that were sent.
    pub fn sent(&self, flow: u32) -> u64 {
        self.testers.iter().flat_map(|t| &t.flows).find(|f| f.id == flow).map_or(0, |f| f.sent)
    }

    /// Frames lost by all switches.
    pub fn lost(&self) -> u64 {
        self.switches.iter().map(|s| s.conservation().dropped).sum()
    }

    /// Frames lost by all switches for one reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        let of = |s: &Switch<OwnedFrame, A>| -> u64 {
            (0..s.ports() as u16).map(|p| s.stats(PortId(p)).drops.0[reason as usize]).sum()
        };
        self.switches.iter().map(of).sum()
    }

    /// Xoff frames (not Xon) testers were sent.
    pub fn xoffs(&self) -> usize {
        let stops = |f: &PfcFrame| f.time.iter().any(|t| *t > 0);
        self.testers.iter().flat_map(|t| &t.pfc_log).filter(|(_, f)| stops(f)).count()
    }

    /// Nothing arrived out of order, and nothing is missing that was not dropped.
    pub fn assert_in_order(&self) {
        for tester in &self.testers {
            for (flow, rx) in &tester.rx {
                assert_eq!(rx.reordered, 0, "flow {flow}: {rx:?}");
            }
        }
    }

    /// No frame was lost, and all arrived in order.
    pub fn assert_lossless(&self) {
        assert_eq!(self.lost(), 0);
        self.assert_in_order();
        for rx in self.testers.iter().flat_map(|t| t.rx.values()) {
            assert_eq!(rx.gaps, 0);
        }
    }
}
