//! LACP of a switch that runs: the agent on the main thread, which tells workers what members carry.

use super::local::Line;
use super::office::Workers;
use std::sync::Arc;
use std::time::Instant;
use weir_dataplane::lag::LagMember;
use weir_dataplane::types::{Mac, PortId};
use weir_mgmt::admin::InForce;
use weir_mgmt::board::Board;
use weir_mgmt::lacp::{Agent, LacpReading, Settings};

/// Workers are told anew this often, whatever has changed: a configuration may have come and been taken back meanwhile.
const TELL_MS: u64 = 500;

/// LACP at all ports.
#[derive(Debug)]
pub struct Lacp {
    agent: Agent,
    ports: Vec<Line>,
    /// Worker of each port.
    owner: Vec<usize>,
    /// Addresses of the devices.
    macs: Vec<Mac>,
    board: Board<LacpReading>,
    in_force: Option<Arc<InForce>>,
    started: Instant,
    /// What the worker of each port was told last, and when all were.
    carried: Vec<Option<LagMember>>,
    told: u64,
}

impl Lacp {
    /// At ports with these lines, of these workers.
    pub fn new(ports: Vec<Line>, owner: Vec<usize>, macs: Vec<Mac>, board: Board<LacpReading>) -> Self {
        let carried = vec![None; ports.len()];
        let (agent, started) = (Agent::default(), Instant::now());
        Self { agent, ports, owner, macs, board, in_force: None, started, carried, told: 0 }
    }

    /// Takes what has come, tells workers and partners what is new; `up`: the link of a port.
    pub fn attend(&mut self, in_force: Arc<InForce>, up: &dyn Fn(usize) -> bool, workers: &mut Workers) {
        let now = self.started.elapsed().as_millis() as u64;
        let Self { agent, ports, owner, carried, .. } = self;
        let is_new = self.in_force.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &in_force));
        if is_new {
            let settings = Settings::of(&in_force.config, &self.macs);
            agent.configure(settings, now, &mut |port, frame| ports[port].inbox.put(frame));
            self.in_force = Some(in_force);
        }
        if is_new || now >= self.told + TELL_MS {
            self.told = now;
            carried.fill(None);
        }
        for port in 0..ports.len() {
            while let Some(frame) = ports[port].reader.next() {
                agent.receive(port, &frame.bytes, now, &mut |port, frame| ports[port].inbox.put(frame));
            }
        }
        let mut carry = |port: PortId, member: LagMember| {
            let told = &mut carried[port.index()];
            if *told != Some(member) {
                // What finds no room is told at the next look.
                *told = workers.lag_member(owner[port.index()], port, member).then_some(member);
            }
        };
        agent.tick(now, up, &mut carry, &mut |port, frame| ports[port].inbox.put(frame));
        let reading = agent.reading();
        if reading != *self.board.get() {
            self.board.set(reading);
        }
    }

    /// The switch ends.
    pub fn end(&mut self) {
        let now = self.started.elapsed().as_millis() as u64;
        let Self { agent, ports, .. } = self;
        agent.end(now, &mut |port, frame| ports[port].inbox.put(frame));
    }
}
