//! LLDP of a switch that runs: its frames go from the workers to the agent on the main thread and back, through rings of each port.

use std::sync::Arc;
use std::time::Instant;
use weir_dataplane::switch::LldpReader;
use weir_dataplane::types::Mac;
use weir_mgmt::admin::InForce;
use weir_mgmt::board::Board;
use weir_mgmt::lldp::{Agent, LldpReading, Settings};

/// Frames of a port on their way out, and of those that come back empty.
const OUT: usize = 2;
const BACK: usize = 2 * OUT;

/// What is known is told anew this often: so far the time left is late.
const TELL_MS: u64 = 500;

/// The worker's end of what a port is to send. What was sent goes back, to be freed where that disturbs nobody.
#[derive(Debug)]
pub struct Outbox {
    frames: rtrb::Consumer<Vec<u8>>,
    sent: rtrb::Producer<Vec<u8>>,
}

impl Outbox {
    /// Sends what there is, as long as `send` takes it.
    pub fn empty(&mut self, mut send: impl FnMut(&[u8]) -> bool) {
        while self.frames.peek().is_ok_and(|frame| send(frame)) {
            // The other end looks before it sends more: there is a place.
            let back = self.frames.pop().map(|frame| self.sent.push(frame));
            debug_assert!(matches!(back, Ok(Ok(()))));
        }
    }
}

/// The main thread's end.
#[derive(Debug)]
pub struct Inbox {
    frames: rtrb::Producer<Vec<u8>>,
    sent: rtrb::Consumer<Vec<u8>>,
}

impl Inbox {
    /// A pair of ends.
    pub fn pair() -> (Self, Outbox) {
        let (frames, out) = rtrb::RingBuffer::new(OUT);
        let (back, sent) = rtrb::RingBuffer::new(BACK);
        (Self { frames, sent }, Outbox { frames: out, sent: back })
    }

    /// `false`: those before are still there.
    pub fn put(&mut self, frame: Vec<u8>) -> bool {
        while self.sent.pop().is_ok() {}
        self.frames.push(frame).is_ok()
    }
}

/// LLDP at all ports.
#[derive(Debug)]
pub struct Lldp {
    agent: Agent,
    ports: Vec<(LldpReader, Inbox)>,
    /// Addresses of the devices.
    macs: Vec<Mac>,
    board: Board<LldpReading>,
    in_force: Arc<InForce>,
    started: Instant,
    told: u64,
}

impl Lldp {
    /// For ports whose frames come by these readers; the ends of their workers, in order.
    pub fn new(
        readers: Vec<LldpReader>,
        macs: Vec<Mac>,
        in_force: Arc<InForce>,
        board: Board<LldpReading>,
    ) -> (Self, Vec<Outbox>) {
        let (inboxes, outboxes): (Vec<_>, Vec<_>) = readers.iter().map(|_| Inbox::pair()).unzip();
        let ports = readers.into_iter().zip(inboxes).collect();
        let agent = Agent::new(Settings::of(&in_force.config, &macs));
        board.set(agent.reading(0));
        (Self { agent, ports, macs, board, in_force, started: Instant::now(), told: 0 }, outboxes)
    }

    /// Takes what has come, sends what is due; `up`: the link of a port.
    pub fn attend(&mut self, in_force: Arc<InForce>, up: &dyn Fn(usize) -> bool) {
        let now = self.started.elapsed().as_millis() as u64;
        let Self { agent, ports, .. } = self;
        let mut changed = false;
        if !Arc::ptr_eq(&in_force, &self.in_force) {
            let settings = Settings::of(&in_force.config, &self.macs);
            agent.configure(settings, now, &mut |port, frame| ports[port].1.put(frame));
            self.in_force = in_force;
            changed = true;
        }
        for (port, (reader, _)) in ports.iter_mut().enumerate() {
            for frame in reader {
                agent.receive(port, &frame.bytes, now);
                changed = true;
            }
        }
        changed |= agent.tick(now, up, &mut |port, frame| ports[port].1.put(frame));
        if changed || now >= self.told + TELL_MS {
            self.told = now;
            self.board.set(agent.reading(now));
        }
    }

    /// The switch ends.
    pub fn end(&mut self) {
        let Self { agent, ports, .. } = self;
        agent.end(&mut |port, frame| ports[port].1.put(frame));
    }
}
