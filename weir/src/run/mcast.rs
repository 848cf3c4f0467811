//! IGMP and MLD snooping of a switch that runs: the agent on the main thread, which tells workers where groups go.

use super::local::Line;
use super::office::Workers;
use std::sync::Arc;
use std::time::Instant;
use weir_mgmt::admin::InForce;
use weir_mgmt::board::Board;
use weir_mgmt::mcast::{Agent, McastReading, Settings};

/// What is known is told anew this often: so far the time left is late.
const TELL_MS: u64 = 500;

/// Snooping at all ports.
#[derive(Debug)]
pub struct Mcast {
    agent: Agent,
    ports: Vec<Line>,
    board: Board<McastReading>,
    in_force: Option<Arc<InForce>>,
    started: Instant,
    told: u64,
}

impl Mcast {
    /// At ports with these lines.
    pub fn new(ports: Vec<Line>, board: Board<McastReading>) -> Self {
        Self { agent: Agent::default(), ports, board, in_force: None, started: Instant::now(), told: 0 }
    }

    /// Takes what has come, sends what is due, tells workers what is new; `up`: the link of a port.
    pub fn attend(&mut self, in_force: Arc<InForce>, up: &dyn Fn(usize) -> bool, workers: &mut Workers) {
        let now = self.started.elapsed().as_millis() as u64;
        let Self { agent, ports, .. } = self;
        let mut changed = false;
        if self.in_force.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &in_force)) {
            agent.configure(Settings::of(&in_force.config, &in_force.params));
            self.in_force = Some(in_force);
            changed = true;
        }
        for (port, line) in ports.iter_mut().enumerate() {
            for frame in &mut line.reader {
                agent.receive(port, frame.vid, &frame.bytes, now);
                changed = true;
            }
        }
        agent.tick(now, up, &mut |port, frame| ports[port].inbox.put(frame));
        agent.tell(&mut |told| workers.mcast(told));
        if changed || now >= self.told + TELL_MS {
            self.told = now;
            self.board.set(agent.reading(now));
        }
    }
}
