//! A switch of the reference: admit, pause, queue, choose, mark, resume. No latency of its own.
use crate::models::hpcc::{Hpcc, HpccParams, MarkLaw, Verdict};

use super::build::FlowKey;
use super::cell::{Cell, Kind};
use super::port::PFC_BYTES;
use super::record::{PfcReceived, PfcSent, Recorder};
use super::rng::SplitMix;
use super::routing::ecmp_hash;
use super::sim::Sim;

/// One switch and what it counted.
#[derive(Debug)]
pub struct Switch {
    /// Buffer state.
    pub mmu: Hpcc,
    /// The marking coin.
    pub rng: SplitMix,
    /// Frames sent, PFC included.
    pub forwarded: u64,
    /// Frames refused by the buffer.
    pub drops: u64,
    /// Frames marked.
    pub marks: u64,
    /// Pauses decided.
    pub pauses: u64,
    /// Resumes decided.
    pub resumes: u64,
    /// Sizes and thresholds of the buffer.
    pub params: HpccParams,
}

impl<R: Recorder> Sim<R> {
    /// Frame `index` arrived at `port` of a switch.
    #[inline]
    pub(super) fn switch_receive(&mut self, index: u32, port: u32) {
        let cell = *self.engine.slab.get(index);
        if matches!(cell.kind, Kind::Pause | Kind::Resume) {
            return self.switch_obey(index, port, &cell);
        }
        let (switch, in_port) = (self.ports[port as usize].owner, self.ports[port as usize].local);
        let spec = &self.flows[cell.flow as usize].spec;
        let to = if cell.kind == Kind::Data { spec.dst } else { spec.src };
        let out = self.next_hop(switch, cell.flow, to);
        let out_port = usize::from(self.ports[out as usize].local);
        let (s, prio) = (switch as usize, usize::from(cell.prio));

        let verdict = self.switches[s].mmu.admit(in_port.into(), prio, out_port, cell.bytes.into());
        if verdict == Verdict::Refused {
            self.switches[s].drops += 1;
            self.recorder.refused(self.engine.now(), s, in_port.into(), cell.prio);
            self.engine.slab.release(index);
            return;
        }
        self.recorder.stored(self.engine.now(), s, &self.switches[s].mmu, in_port.into(), prio, out_port);
        if verdict == Verdict::StoredPause {
            self.send_pfc(port, cell.prio, Kind::Pause);
        }
        self.engine.slab.get_mut(index).in_port = in_port;
        let egress = &mut self.ports[out as usize];
        self.engine.slab.push(&mut egress.queues[prio], index);
        egress.backlog |= 1 << prio;
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.queued(out, cell.bytes);
        }
        self.kick_switch(out);
    }

    /// The port by which `switch` sends what belongs to `flow` to host `to`: its data or, with addresses and ports changed about, its
    /// answers.
    #[inline]
    fn next_hop(&self, switch: u32, flow: u32, to: u32) -> u32 {
        self.routes.next_hop(switch, to, || {
            let FlowKey { dst, tuple: [from_ip, to_ip, ports] } = self.keys[flow as usize];
            let tuple = match to == dst {
                true => [from_ip, to_ip, ports],
                false => [to_ip, from_ip, ports.rotate_left(16)],
            };
            ecmp_hash(tuple, self.switch_numbers[switch as usize])
        })
    }

    /// Links that the data of a flow takes, and those its ACKs take, from the first to the last.
    pub fn ways(&self, flow: u32) -> [Vec<usize>; 2] {
        let spec = &self.flows[flow as usize].spec;
        let way = |from: u32, to: u32| {
            let mut port = self.hosts[from as usize].port;
            let mut links = vec![port as usize / 2];
            loop {
                let far = &self.ports[self.ports[port as usize].peer as usize];
                if far.on_host {
                    return links;
                }
                port = self.next_hop(far.owner, flow, to);
                links.push(port as usize / 2);
            }
        };
        [way(spec.src, spec.dst), way(spec.dst, spec.src)]
    }

    #[cold]
    fn switch_obey(&mut self, index: u32, port: u32, cell: &Cell) {
        self.obey_pfc(index, port, cell);
        if cell.kind == Kind::Resume {
            self.kick_switch(port);
        }
    }

    /// Takes note of a PFC frame, at switch or host.
    pub(super) fn obey_pfc(&mut self, index: u32, port: u32, cell: &Cell) {
        let pause = cell.kind == Kind::Pause;
        let p = &mut self.ports[port as usize];
        p.set_paused(cell.prio, pause);
        let received = PfcReceived {
            at: self.engine.now(),
            node: if p.on_host { p.owner } else { self.hosts.len() as u32 + p.owner },
            port: p.local + 1,
            prio: cell.prio,
            pause,
        };
        self.recorder.pfc_received(received);
        self.engine.slab.release(index);
    }

    /// Sends the next frame of a switch port, if the line is free.
    pub(super) fn kick_switch(&mut self, port: u32) {
        if !self.line_is_free(port) {
            return;
        }
        let p = &mut self.ports[port as usize];
        let sendable = p.sendable();
        if sendable == 0 {
            return;
        }
        let q = p.choose(sendable);
        let index = self.engine.slab.pop(&mut p.queues[q]);
        if p.queues[q].is_empty() {
            p.backlog &= !(1 << q);
        }
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.dequeued(port, self.engine.slab.get(index).bytes);
        }
        if q != 0 {
            self.leave_buffer(port, q, index);
        }
        if let Some(telemetry) = &mut self.telemetry
            && self.engine.slab.get(index).kind == Kind::Data
        {
            telemetry.pass(index, port, self.engine.now());
        }
        let p = &self.ports[port as usize];
        self.switches[p.owner as usize].forwarded += 1;
        let more = p.sendable() != 0;
        self.transmit(port, index);
        if more {
            self.schedule_free(port);
        }
    }

    /// A frame of queue `q` is about to leave: release, mark on the depth left behind, resume.
    #[inline]
    fn leave_buffer(&mut self, port: u32, q: usize, index: u32) {
        let p = &self.ports[port as usize];
        let switch = &mut self.switches[p.owner as usize];
        let now = self.engine.now();
        let cell = self.engine.slab.get_mut(index);
        let (in_port, out_port) = (usize::from(cell.in_port), usize::from(p.local));
        let resume = switch.mmu.release(in_port, q, out_port, cell.bytes.into());
        let mark = match p.ecn.law(switch.mmu.egress(out_port, q)) {
            MarkLaw::Never => false,
            MarkLaw::Always => true,
            MarkLaw::Below(p) => switch.rng.unit() < p,
        };
        if mark {
            switch.marks += 1;
            cell.marked |= cell.kind == Kind::Data;
        }
        self.recorder.left(now, p.owner as usize, &switch.mmu, out_port, q, mark);
        if resume {
            let ingress = self.switch_ports[p.owner as usize][in_port];
            self.send_pfc(ingress, q as u8, Kind::Resume);
        }
    }

    /// Hands a PFC frame to a port: it goes before everything that waits there.
    #[cold]
    fn send_pfc(&mut self, port: u32, prio: u8, kind: Kind) {
        let p = &self.ports[port as usize];
        let switch = &mut self.switches[p.owner as usize];
        let pause = kind == Kind::Pause;
        if pause {
            switch.pauses += 1;
        } else {
            switch.resumes += 1;
        }
        let (local, group) = (usize::from(p.local), usize::from(prio));
        self.recorder.pfc_sent(PfcSent {
            at: self.engine.now(),
            node: self.hosts.len() as u32 + p.owner,
            port: p.local + 1,
            prio,
            pause,
            ingress: switch.mmu.used(local, group),
            headroom: switch.mmu.headroom(local, group),
            shared: switch.mmu.shared(),
            threshold: switch.mmu.threshold(local),
        });
        let index = self.engine.slab.alloc(Cell { prio, bytes: PFC_BYTES, ..Cell::event(kind, 0) });
        if self.line_is_free(port) {
            // An idle port has no other frame it could send: this one goes at once.
            self.switches[self.ports[port as usize].owner as usize].forwarded += 1;
            self.transmit(port, index);
        } else {
            let p = &mut self.ports[port as usize];
            self.engine.slab.push(&mut p.queues[0], index);
            p.backlog |= 1;
            if let Some(telemetry) = &mut self.telemetry {
                telemetry.queued(port, PFC_BYTES);
            }
        }
    }
}
