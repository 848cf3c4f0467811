//! An engine of in-network aggregation in the place of a device: it sits at the far end of the port's rings, and the worker
//! that owns the port moves it, too, once in every turn. It takes whatever the switch has sent it, so no frame ever waits for
//! another one to be summed; what it sends comes in by the port like any other frame.

use super::control::{JobOrder, Told};
use super::io::{Dpdk, DpdkWire, Io, Receive, Source};
use super::mgmt::EngineWindow;
use std::net::IpAddr;
use weir_config::{EngineConfig, RING_HAND};
use weir_dataplane::frame::{Frame, FrameList};
use weir_dataplane::pfc::react::{ReactConfig, Reaction};
use weir_dataplane::switch::{Tapped, Wire};
use weir_dataplane::types::{Burst, Nanos, PortId};
use weir_dpdk::{Mempool, RxQueue};
use weir_endpoint::station::roce::arp::Arp;
use weir_inc::engine::{Engine, TURN};
use weir_inc::job::Job;
use weir_inc::params::Refusal;
use weir_inc::report::ReportPage;
use weir_inc::spec::Address;
use weir_inc::trace::Follower;
use weir_mgmt::inc::EngineReading;

const MAC_CONTROL: &[u8] = &[0x88, 0x08];
const ARP: &[u8] = &[0x08, 0x06];
const VLAN: &[u8] = &[0x81, 0x00];

/// What a frame that comes from the switch is to an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameKind {
    /// A pause.
    Control,
    /// ARP.
    Arp,
    /// Whatever else.
    Data,
}

#[inline]
fn kind_of(bytes: &[u8]) -> FrameKind {
    match bytes.get(12..14) {
        Some(MAC_CONTROL) => FrameKind::Control,
        Some(ARP) => FrameKind::Arp,
        Some(VLAN) if bytes.get(16..18) == Some(ARP) => FrameKind::Arp,
        _ => FrameKind::Data,
    }
}

/// Frames for the switch that are in hand at most: as many as headroom is reckoned with.
const HAND: usize = RING_HAND as usize;

/// A job that has been ended stays so long for ranks that have not heard of it, ns.
const FAREWELL: Nanos = 2_000_000_000;

/// Time between two looks whether they have, ns.
const LOOK: Nanos = 1_000_000;

/// Jobs on their way to be freed elsewhere.
const GONE: usize = 16;

/// An engine of this configuration behind port `id`, and the window others see it through; `rate` is the port's in bit/s, in
/// whose bit times it is paused.
pub fn behind(
    id: PortId,
    io: (RxQueue, DpdkWire, Mempool),
    config: EngineConfig,
    rate: u64,
) -> (EngineEnd, EngineWindow) {
    let (pages, reader) = Pages::new(config.params.jobs);
    let (gone, jobs) = rtrb::RingBuffer::new(GONE);
    let engine = Engine::new(config.params);
    let end = EngineEnd::new(id, io, (engine, config.address), rate, (pages, gone));
    (end, EngineWindow { pages: reader, gone: jobs, reading: EngineReading::default() })
}

/// An engine, and its end of the rings.
#[derive(Debug)]
pub struct EngineEnd<D: Io = Dpdk> {
    /// Port of the switch.
    pub id: PortId,
    /// What the switch has sent.
    rx: D::Rx,
    /// To the switch.
    wire: D::Tx,
    /// Where its frames come from.
    pool: D::Pool,
    /// The engine.
    engine: Engine,
    /// Where it is.
    address: Address,
    /// Pages to be filled, and those that are.
    pages: Pages,
    /// Jobs that are done with: for another thread to free.
    gone: rtrb::Producer<Box<Job>>,
    /// What the switch has paused.
    pauses: Reaction,
    held: u8,
    /// Sent, and not taken by the ring yet.
    hand: <D::Frame as Frame>::Staged,
    /// Jobs that were ended, and until when they stay at most.
    ending: Vec<(u32, Nanos)>,
    look_at: Nanos,
    arp: Vec<u8>,
    /// Who follows frames into it.
    follower: Option<Box<Follower>>,
}

/// Where reports are asked for: a page comes empty, is filled a job in each turn, and goes back.
#[derive(Debug)]
pub struct Pages {
    asked: rtrb::Consumer<Box<ReportPage>>,
    told: rtrb::Producer<Box<ReportPage>>,
    now: Option<Box<ReportPage>>,
}

/// The other end of [`Pages`].
#[derive(Debug)]
pub struct PageReader {
    ask: rtrb::Producer<Box<ReportPage>>,
    told: rtrb::Consumer<Box<ReportPage>>,
}

impl Pages {
    /// Both ends, with a page under way for an engine of so many jobs.
    pub fn new(jobs: usize) -> (Self, PageReader) {
        let (mut ask, asked) = rtrb::RingBuffer::new(1);
        let (tell, told) = rtrb::RingBuffer::new(1);
        let _ = ask.push(Box::new(ReportPage::new(jobs)));
        (Self { asked, told: tell, now: None }, PageReader { ask, told })
    }

    fn fill(&mut self, engine: &Engine, now: Nanos) {
        if self.now.is_none() {
            self.now = self.asked.pop().ok();
        }
        let Some(page) = &mut self.now else { return };
        if engine.read(page, now)
            && let Some(page) = self.now.take()
        {
            // There is one page, and a place for it.
            let _ = self.told.push(page);
        }
    }
}

impl PageReader {
    /// What was read since last asked, if that is complete; it is then read anew.
    pub fn next<T>(&mut self, take: impl FnOnce(&ReportPage) -> T) -> Option<T> {
        let mut page = self.told.pop().ok()?;
        let taken = take(&page);
        page.rewind();
        let _ = self.ask.push(page);
        Some(taken)
    }
}

impl<D: Io> EngineEnd<D> {
    /// An engine without jobs behind port `id`; `rate` is the port's in bit/s, in whose bit times it is paused.
    pub fn new(
        id: PortId,
        (rx, wire, pool): (D::Rx, D::Tx, D::Pool),
        (engine, address): (Engine, Address),
        rate: u64,
        (pages, gone): (Pages, rtrb::Producer<Box<Job>>),
    ) -> Self {
        let jobs = engine.capacity();
        Self {
            id,
            rx,
            wire,
            pool,
            engine,
            address,
            pages,
            gone,
            pauses: Reaction::new(ReactConfig::host(rate, 0xff)),
            held: 0,
            hand: Default::default(),
            ending: Vec::with_capacity(jobs),
            look_at: 0,
            arp: Vec::with_capacity(64),
            follower: None,
        }
    }

    /// Takes what the switch has sent, does what is due, sends.
    #[inline]
    pub fn turn(&mut self, burst: &mut Burst<D::Frame>, now: Nanos) {
        if self.rx.receive(burst, TURN) > 0 {
            match self.follower.is_some() {
                false => D::Frame::drain(burst).for_each(|frame| self.take(frame.bytes(), now)),
                true => D::Frame::drain(burst).for_each(|frame| self.take_followed(frame.bytes(), now)),
            }
        }
        self.engine.tick(now);
        if let Some(follower) = &mut self.follower {
            follower.look(&self.engine, now);
        }
        let held = self.pauses.paused_mask(now);
        if held != self.held {
            self.held = held;
            self.engine.hold(held);
        }
        self.send(now);
        self.pages.fill(&self.engine, now);
        if !self.ending.is_empty() && now >= self.look_at {
            self.look_at = now + LOOK;
            self.bury(now);
        }
    }

    #[inline]
    fn take(&mut self, bytes: &[u8], now: Nanos) {
        match kind_of(bytes) {
            FrameKind::Control => drop(self.pauses.receive(bytes, now)),
            FrameKind::Arp => self.answer_arp(bytes),
            FrameKind::Data => self.engine.receive(bytes, now),
        }
    }

    /// The same, told if the frame is one that is followed.
    #[cold]
    fn take_followed(&mut self, bytes: &[u8], now: Nanos) {
        match (&mut self.follower, kind_of(bytes)) {
            (Some(follower), FrameKind::Data) => follower.receive(&mut self.engine, bytes, now),
            (follower, kind) => {
                if let (Some(follower), FrameKind::Arp) = (follower, kind) {
                    follower.receive_arp(bytes, now);
                }
                self.take(bytes, now);
            }
        }
    }

    /// Follows these frames of the switch, too, if it follows any.
    #[inline]
    pub fn expect(&mut self, switch: &mut Tapped<D::Frame>) {
        if let Some(follower) = &mut self.follower {
            follower.expect(switch.handed_on(self.id));
        }
    }

    /// Follows frames, or follows them no longer; gives back who did.
    pub fn follow(&mut self, follower: Option<Box<Follower>>) -> Option<Box<Follower>> {
        std::mem::replace(&mut self.follower, follower)
    }

    /// Says where the engine is to whoever asks.
    #[cold]
    fn answer_arp(&mut self, bytes: &[u8]) {
        let Some(asked) = Arp::read(bytes).filter(|arp| !arp.reply) else { return };
        let Address { mac, ip, vlan } = self.address;
        if ip != IpAddr::V4(asked.target.1) || asked.vlan != vlan || self.hand.len() >= HAND {
            return;
        }
        let answer = Arp { reply: true, vlan, sender: (mac, asked.target.1), target: asked.sender };
        answer.write(&mut self.arp);
        if let Some(mut frame) = self.pool.empty()
            && D::Pool::append(&mut frame, &self.arp)
        {
            self.hand.push(frame);
        }
    }

    /// As much as is there, and as the ring takes. What is not written stays with the engine.
    #[inline]
    fn send(&mut self, now: Nanos) {
        while self.hand.len() < HAND && self.engine.has_work() {
            let Some(mut frame) = self.pool.empty() else { break };
            let sent = match &mut self.follower {
                None => self.engine.transmit(now),
                Some(follower) => follower.transmit(&mut self.engine, now),
            };
            let Some(sent) = sent else { break };
            let whole =
                [sent.head, sent.payload, &sent.icrc].iter().all(|part| D::Pool::append(&mut frame, part));
            // A job whose frames are longer than the port's is refused beforehand.
            debug_assert!(whole, "a frame of {} bytes", sent.len());
            self.hand.push(frame);
        }
        if !self.hand.is_empty() {
            self.wire.send(&mut self.hand);
        }
    }

    /// The port has this rate from `now` on, bit/s: quanta of the pauses to come are bit times of it.
    #[cold]
    pub fn keep_rate(&mut self, rate: u64, now: Nanos) {
        self.pauses.configure(ReactConfig::host(rate, 0xff), now);
    }

    /// Carries out an order about jobs.
    #[cold]
    pub fn obey(&mut self, order: JobOrder, now: Nanos) -> Told {
        match order {
            JobOrder::Add(job) => match self.engine.insert(job) {
                Ok(()) => Told::Taken,
                Err((refusal, job)) if self.waits_for_an_end(&refusal) => Told::Ending(job),
                Err((refusal, job)) => Told::Refused(refusal, job),
            },
            JobOrder::End(id) if self.engine.stop(id, now) => {
                if self.ending.iter().all(|(other, _)| *other != id) {
                    self.ending.push((id, now + FAREWELL));
                }
                Told::Taken
            }
            JobOrder::End(_) => Told::Unknown,
        }
    }

    /// What is not to be had may be once jobs that were ended are gone.
    fn waits_for_an_end(&self, refusal: &Refusal) -> bool {
        let ends = |id: u32| self.ending.iter().any(|(ending, _)| *ending == id);
        match refusal {
            Refusal::Exists(id) | Refusal::QpnTaken(_, _, id) | Refusal::EndTaken { other: id, .. } => {
                ends(*id)
            }
            Refusal::Jobs(..) | Refusal::Memory { .. } => !self.ending.is_empty(),
            _ => false,
        }
    }

    /// Lets go of jobs that were ended, once everybody has heard or has had time to.
    #[cold]
    fn bury(&mut self, now: Nanos) {
        let Self { ending, engine, gone, .. } = self;
        ending.retain(|&(id, until)| {
            let done = engine.job(id).is_none_or(|job| now >= until || job.is_drained());
            if !done || gone.is_full() {
                return true;
            }
            // There is a place for it.
            let _ = engine.remove(id).map(|job| gone.push(job));
            false
        });
    }
}

#[cfg(test)]
#[path = "inc_tests.rs"]
mod tests;
