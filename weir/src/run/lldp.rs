//! LLDP of a switch that runs: the agent on the main thread.

use super::local::Line;
use std::sync::Arc;
use std::time::Instant;
use weir_dataplane::types::Mac;
use weir_mgmt::admin::InForce;
use weir_mgmt::board::Board;
use weir_mgmt::lldp::{Agent, LldpReading, Settings};

/// What is known is told anew this often: so far the time left is late.
const TELL_MS: u64 = 500;

/// LLDP at all ports.
#[derive(Debug)]
pub struct Lldp {
    agent: Agent,
    ports: Vec<Line>,
    /// Addresses of the devices.
    macs: Vec<Mac>,
    board: Board<LldpReading>,
    in_force: Arc<InForce>,
    started: Instant,
    told: u64,
}

impl Lldp {
    /// At ports with these lines.
    pub fn new(ports: Vec<Line>, macs: Vec<Mac>, in_force: Arc<InForce>, board: Board<LldpReading>) -> Self {
        let agent = Agent::new(Settings::of(&in_force.config, &macs));
        board.set(agent.reading(0));
        Self { agent, ports, macs, board, in_force, started: Instant::now(), told: 0 }
    }

    /// Takes what has come, sends what is due; `up`: the link of a port.
    pub fn attend(&mut self, in_force: Arc<InForce>, up: &dyn Fn(usize) -> bool) {
        let now = self.started.elapsed().as_millis() as u64;
        let Self { agent, ports, .. } = self;
        let mut changed = false;
        if !Arc::ptr_eq(&in_force, &self.in_force) {
            let settings = Settings::of(&in_force.config, &self.macs);
            agent.configure(settings, now, &mut |port, frame| ports[port].inbox.put(frame));
            self.in_force = in_force;
            changed = true;
        }
        for (port, line) in ports.iter_mut().enumerate() {
            for frame in &mut line.reader {
                agent.receive(port, &frame.bytes, now);
                changed = true;
            }
        }
        changed |= agent.tick(now, up, &mut |port, frame| ports[port].inbox.put(frame));
        if changed || now >= self.told + TELL_MS {
            self.told = now;
            self.board.set(agent.reading(now));
        }
    }

    /// The switch ends.
    pub fn end(&mut self) {
        let Self { agent, ports, .. } = self;
        agent.end(&mut |port, frame| ports[port].inbox.put(frame));
    }
}
