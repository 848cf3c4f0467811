//! A switch whose inputs and outputs are joined by a crossbar (`[switch] core`): real frames, real admission.
//!
//! Every input has a memory of its own, as an input-queued switch has: a whole weir switch that receives by this one
//! port. Its queues towards output `o` are the virtual output queues of (input, o), so admission and PFC towards the peer of
//! the input are those of weir. An arbiter of [`crate::crossbar`] matches inputs and outputs slot by slot, each output
//! by the schedule among classes that its port has, whatever input they wait at; what has crossed waits at the [`output`], which
//! grants nothing to a class of which it holds enough. A PFC frame from the peer of an output is obeyed by all inputs. A
//! frame is marked by weir's law as it leaves by the line, by all that waits for that still (DEV-28).

mod inputs;
mod output;
mod turns;

use self::inputs::drop_condemned;
use self::output::Output;
use self::turns::Turns;
use super::event_loop::Event;
use super::world::{Fabric, OneFrameWire};
use crate::crossbar::{
    Arbiter, ClassOrder, Classes, Demand, Islip, MAX_CROSSBAR_PORTS, Matching, Pair, Pim, PointerRule,
    all_ports, ports_of,
};
use crate::fabric::FabricError;
use crate::fabric::sim_frame::SimFrame;
use crate::fabric::spec::{CoreKind, CrossbarMode, FabricSpec, Forwarding};
use crate::fabric::switches::{self, FabricSwitch};
use crate::fabric::time::{PS, Ps};
use std::collections::{BTreeMap, VecDeque};
use toml::Value;
use weir_config::Config;
use weir_config::runtime::queue_schedules;
use weir_dataplane::frame::Frame;
use weir_dataplane::rng::Rng;
use weir_dataplane::switch::Dequeued;
use weir_dataplane::types::{Nanos, PRIORITIES, PortId, wire_bytes};

/// A frame that has left its input.
struct Crossing {
    input: usize,
    output: usize,
    /// Egress queue it was in.
    queue: usize,
    /// `None`: its first cell is at the output already (packet mode).
    frame: Option<Dequeued<SimFrame>>,
    cells_left: u64,
    /// Bytes of the wire that its class has not been charged with: each cell is with its part (cell mode).
    uncharged: u64,
    /// It was matched in this slot.
    moves: bool,
}

/// A frame that reaches its output with the next slot: output, queue, frame.
type Landing = (usize, usize, Dequeued<SimFrame>);

/// A crossbar and what is in it.
pub(super) struct Core {
    mode: CrossbarMode,
    arbiter: Box<dyn Arbiter>,
    /// Time of a slot.
    slot: Ps,
    cell_bytes: u64,
    output_buffer: u64,
    /// Outputs that each input may hold something for, a bit each.
    wanted: Vec<u64>,
    /// One queue per input: output and egress queue of its frames in the order of arrival.
    fifos: Option<Vec<VecDeque<(u8, u8)>>>,
    /// Requests of a slot.
    demand: Demand,
    /// Who is passed over; absent: nobody is, in cell mode and where an input has one queue.
    turns: Option<Turns>,
    crossing: Vec<Crossing>,
    landing: Vec<Landing>,
    outputs: Vec<Output>,
    /// Of marks: as those of a switch without a crossbar.
    rng: Rng,
    /// Begin of the last slot.
    last: Option<Ps>,
    /// The slot that is in the event queue.
    due: Option<Ps>,
}

/// Refuses keys of a crossbar that say nothing, and what it cannot do.
///
/// # Errors
/// The key and what to change.
pub(super) fn check(spec: &FabricSpec) -> Result<(), FabricError> {
    let wrong = |key: &str, got: String, must: &str| {
        Err(FabricError::Range { what: format!("switch.{key}"), got, must: must.into() })
    };
    let s = &spec.switch;
    let set = |key: &str| spec.source.sets(&format!("switch.{key}"));
    if s.core == CoreKind::OutputQueued {
        let keys = ["iterations", "speedup", "cell", "crossbar_mode", "output_buffer"];
        let Some(key) = keys.into_iter().find(|key| set(key)) else { return Ok(()) };
        return wrong(
            key,
            "set".into(),
            "absent: core = \"output_queued\" has no crossbar; set core = \"islip\"",
        );
    }
    if s.core == CoreKind::Fifo && set("iterations") {
        return wrong(
            "iterations",
            "set".into(),
            "absent: the heads of FIFOs are matched in one; set core = \"islip\"",
        );
    }
    if !(1..=16).contains(&s.iterations) {
        return wrong("iterations", s.iterations.to_string(), "1 to 16");
    }
    if !(1.0..=8.0).contains(&s.speedup) {
        return wrong("speedup", s.speedup.to_string(), "1 to 8");
    }
    if !(16..=16_384).contains(&s.cell.0) {
        return wrong("cell", s.cell.0.to_string(), "16 to 16384 bytes");
    }
    if s.output_buffer.0 == 0 {
        return wrong("output_buffer", "0".into(), "at least 1");
    }
    if s.forwarding == Forwarding::CutThrough {
        let must = "store_and_forward with a crossbar: a frame is admitted to the memory of its input first";
        return wrong("forwarding", "cut_through".into(), must);
    }
    let word =
        |table: &str, key: &str| s.config.get(table).and_then(|table| table.get(key)).and_then(Value::as_str);
    if word("qos", "voq") == Some("fifo") {
        let must = "absent: the memory of an input has frames of one port; one queue for all of an input is core = \"fifo\"";
        return wrong("config.qos.voq", "fifo".into(), must);
    }
    Ok(())
}

impl Core {
    /// For the switch of `node` with this configuration and these line rates, bit/s; `None`: its core is output-queued.
    ///
    /// # Errors
    /// More ports than a crossbar has.
    pub fn new(
        spec: &FabricSpec,
        config: &Config,
        rates: &[u64],
        node: usize,
    ) -> Result<Option<Box<Self>>, FabricError> {
        let (s, ports, seed) = (&spec.switch, rates.len(), spec.seed ^ (node as u64) << 32);
        let arbiter: Box<dyn Arbiter> = match s.core {
            CoreKind::OutputQueued => return Ok(None),
            CoreKind::Islip => {
                let rule = PointerRule::FirstIteration;
                Box::new(Islip::new(
                    ports.clamp(1, MAX_CROSSBAR_PORTS),
                    PRIORITIES,
                    s.iterations,
                    rule,
                    &Classes::Strict,
                ))
            }
            CoreKind::Pim => Box::new(Pim::new(s.iterations, seed)),
            // Each input asks for one output alone, which takes one of those that ask at random.
            CoreKind::Fifo => Box::new(Pim::new(1, seed)),
        };
        if ports > MAX_CROSSBAR_PORTS {
            let must = format!("output_queued: a crossbar has at most {MAX_CROSSBAR_PORTS} ports");
            let got = format!("set, of a switch with {ports} ports");
            return Err(FabricError::Range { what: "switch.core".into(), got, must });
        }
        let fastest = rates.iter().copied().max().unwrap_or(1).max(1);
        let slot = s.cell.0 as f64 * 8e12 / (fastest as f64 * s.speedup);
        Ok(Some(Box::new(Self {
            mode: s.crossbar_mode,
            arbiter,
            slot: (slot as Ps).max(1),
            cell_bytes: s.cell.0,
            output_buffer: s.output_buffer.0,
            wanted: vec![0; ports],
            fifos: (s.core == CoreKind::Fifo).then(|| vec![VecDeque::new(); ports]),
            demand: Demand::new(ports.max(1), PRIORITIES),
            turns: (s.crossbar_mode == CrossbarMode::Packet && s.core != CoreKind::Fifo)
                .then(|| Turns::new(ports)),
            crossing: Vec::new(),
            landing: Vec::new(),
            outputs: config.ports.iter().map(|port| Output::new(&queue_schedules(port))).collect(),
            rng: Rng::new(switches::seed_of(spec, node)),
            last: None,
            due: None,
        })))
    }

    /// Takes the watchdogs of the memories: it is outputs that come to a stop.
    pub fn take_watchdogs(&mut self, memories: &mut [FabricSwitch]) {
        for (port, output) in self.outputs.iter_mut().enumerate() {
            for memory in &mut *memories {
                output.watchdog = memory.take_watchdog(PortId(port as u16));
            }
        }
    }

    /// Frames that the line of `output` has sent.
    pub fn sent(&self, output: usize) -> u64 {
        self.outputs[output].sent()
    }

    /// Storms that were seen at `output`.
    pub fn storms(&self, output: usize) -> u64 {
        self.outputs[output].storms()
    }

    /// A queue of `input` for `output` has so many bytes more.
    fn arrived(&mut self, (input, output, queue): (usize, usize, usize), bytes: u64, now: Nanos) {
        self.outputs[output].expect(queue, bytes, now);
        self.wanted[input] |= 1 << output;
        if let Some(fifos) = &mut self.fifos {
            fifos[input].push_back((output as u8, queue as u8));
        }
    }

    /// Output and egress queue of what is in front of the FIFO of `input`; `None`: there is none.
    pub fn head(&self, input: usize) -> Option<(usize, u8)> {
        self.fifos.as_ref()?.get(input)?.front().map(|(output, queue)| (usize::from(*output), *queue))
    }

    /// Bytes that wait for the line of `output`.
    pub fn waiting(&self, output: usize) -> u64 {
        self.outputs[output].waiting().iter().sum()
    }

    /// Outputs that `input` may begin to send something to, one bit each, and the queues from which it may.
    fn wanted(&self, input: usize, memory: &FabricSwitch) -> (u64, u8) {
        let Some(fifos) = &self.fifos else { return (self.wanted[input], u8::MAX) };
        let Some((output, queue)) = fifos[input].front() else { return (0, 0) };
        debug_assert!(memory.waiting(PortId((*output).into())) >> queue & 1 == 1);
        (1 << output, 1 << queue)
    }

    /// What was dropped at inputs leaves its place in their FIFOs: of each queue the oldest went.
    fn forget_dropped(&mut self, memories: &[FabricSwitch]) {
        let Some(fifos) = &mut self.fifos else { return };
        for (fifo, memory) in fifos.iter_mut().zip(memories) {
            let mut gone: BTreeMap<(u8, u8), u32> = BTreeMap::new();
            fifo.iter().for_each(|place| *gone.entry(*place).or_default() += 1);
            for ((output, queue), count) in &mut gone {
                *count -= memory.queue_frames(PortId((*output).into()), (*queue).into());
            }
            fifo.retain(|place| match gone.get_mut(place) {
                Some(count @ 1..) => {
                    *count -= 1;
                    false
                }
                _ => true,
            });
        }
    }

    /// Ports in the middle of a frame that holds them (packet mode).
    fn busy(&self) -> (u64, u64) {
        let held = self.crossing.iter().filter(|_| self.mode == CrossbarMode::Packet);
        held.fold((0, 0), |(i, o), c| (i | 1 << c.input, o | 1 << c.output))
    }
}

impl Fabric<'_> {
    /// Queues of output `port` that its peer has paused.
    fn paused_at(&self, s: usize, port: usize) -> u8 {
        let id = PortId(port as u16);
        let (reaction, ns) = (self.switches[s].part(port).reaction(id), self.ns());
        (0..PRIORITIES).fold(0, |set, queue| set | u8::from(reaction.holds(queue, ns)) << queue)
    }

    /// Something may be able to cross: the next slot is due.
    #[inline(always)]
    pub(super) fn kick_core(&mut self, s: usize) {
        if self.switches[s].core.is_some() {
            self.expect_slot(s);
        }
    }

    #[inline(never)]
    fn expect_slot(&mut self, s: usize) {
        let now = self.now;
        let Some(core) = &mut self.switches[s].core else { return };
        let at = core.last.map_or(now, |last| now.max(last + core.slot));
        if core.due.is_none_or(|due| at < due) {
            core.due = Some(at);
            self.at(at, Event::Slot { switch: s as u32 });
        }
    }

    /// A slot of switch `s` begins: what crossed in the last one is at its output, and a match is made.
    pub(super) fn slot(&mut self, s: usize) {
        let Some(mut core) = self.switches[s].core.take() else { return };
        if core.due != Some(self.now) {
            // It was replaced by an earlier one.
            self.switches[s].core = Some(core);
            return;
        }
        (core.due, core.last) = (None, Some(self.now));
        let mut touched = 0u64;
        for (output, queue, frame) in core.landing.drain(..) {
            core.outputs[output].land(queue, frame);
            touched |= 1 << output;
        }
        let mut dropped = 0u64;
        for output in ports_of(touched) {
            let parts = &mut self.switches[s].parts;
            let any = drop_condemned(&mut core.outputs[output], parts, PortId(output as u16));
            dropped |= u64::from(any) << output;
        }
        let again = self.match_and_move(s, &mut core);
        self.switches[s].core = Some(core);
        let node = self.plan.hosts + s;
        ports_of(dropped).for_each(|output| self.measure(s, output));
        for output in ports_of(touched) {
            self.try_transmit(self.out[node][output]);
        }
        self.frame_left(s);
        if again {
            self.kick_core(s);
        }
    }

    /// Whether another slot is needed whatever happens until then.
    fn match_and_move(&mut self, s: usize, core: &mut Core) -> bool {
        let ports = core.outputs.len();
        let (busy_in, busy_out) = core.busy();
        // Queues that may begin to cross, by output.
        let mut open = [0_u8; MAX_CROSSBAR_PORTS];
        for (output, open) in open.iter_mut().enumerate().take(ports) {
            *open = core.outputs[output].roomy(core.output_buffer) & !self.paused_at(s, output);
        }
        let mut asked = [0_u8; MAX_CROSSBAR_PORTS];
        core.demand.clear();
        // In cell mode a frame that has begun goes on, whatever its output holds.
        if core.mode == CrossbarMode::Cell {
            for Crossing { input, output, queue, .. } in &core.crossing {
                asked[*output] |= 1 << queue;
                core.demand.set(*input, *output, *queue, true);
            }
        }
        for input in 0..ports {
            let memory = self.switches[s].part(input);
            let (outputs, of) = core.wanted(input, memory);
            for output in ports_of(outputs) {
                let waiting = memory.waiting(PortId(output as u16));
                if waiting == 0 {
                    core.wanted[input] &= !(1 << output);
                }
                let queues = waiting & of & open[output];
                asked[output] |= queues;
                for queue in (0..PRIORITIES).filter(|queue| queues >> queue & 1 == 1) {
                    core.demand.set(input, output, queue, true);
                }
            }
        }
        let any = asked.iter().any(|queues| *queues != 0);
        let ns = self.ns();
        for (output, queues) in core.outputs.iter_mut().zip(asked) {
            output.ask(queues, ns);
        }
        let free = (all_ports(ports) & !busy_in, all_ports(ports) & !busy_out);
        if let Some(turns) = &core.turns {
            turns.narrow(&mut core.demand, free.0);
        }
        let mut matching = Matching::new();
        if any {
            let Core { arbiter, outputs, demand, .. } = core;
            arbiter.arbitrate_by(outputs, demand, free, &mut matching);
        }
        for Pair { input, output, class } in matching {
            let voq = (input.into(), output.into(), class.into());
            if core.begun(voq).is_none() {
                let switch = &self.switches[s];
                if let Some(turns) = &mut core.turns {
                    let rank = |queue: usize| core.outputs.rank(output.into(), queue);
                    let level = (0..PRIORITIES).filter(|queue| rank(*queue) >= rank(class.into()));
                    let queues = [1 << class, level.fold(0_u8, |all, queue| all | 1 << queue)];
                    let asking = (0..ports).fold([0; 2], |all, at| {
                        let waiting = switch.part(at).waiting(PortId(output.into()));
                        [0, 1].map(|nth| all[nth] | u64::from(waiting & queues[nth] != 0) << at)
                    });
                    turns.begun((input.into(), output.into()), busy_in, asking);
                }
                self.take(s, core, voq);
            }
            core.begun(voq).into_iter().for_each(|begun| begun.moves = true);
        }
        core.advance();
        any || !core.crossing.is_empty() || !core.landing.is_empty()
    }

    /// The next frame of a queue of an input for an output begins to cross.
    fn take(&mut self, s: usize, core: &mut Core, (input, output, queue): (usize, usize, usize)) {
        let (ns, now, id) = (self.ns(), self.now, PortId(output as u16));
        let memory = self.switches[s].part_mut(input);
        let Some(mut taken) = memory.dequeue_one(id, queue, ns) else { return };
        let held = memory.reaction(id).held_ns(queue, ns);
        if let Some(fifos) = &mut core.fifos {
            fifos[input].pop_front();
        }
        if let Some(journey) = taken.frame.journey() {
            journey.cross(now, output, queue, held);
        }
        let bytes = taken.frame.len() as u64;
        let (cells_left, uncharged) = (bytes.div_ceil(core.cell_bytes).max(1), wire_bytes(bytes));
        let out = &mut core.outputs[output];
        out.leave_input(queue, bytes);
        if core.mode == CrossbarMode::Packet {
            out.charge(queue, 1, uncharged);
        }
        core.crossing.push(Crossing {
            input,
            output,
            queue,
            frame: Some(taken),
            cells_left,
            uncharged,
            moves: false,
        });
    }

    /// The line of a port of a switch with a crossbar is free.
    pub(super) fn try_transmit_core(&mut self, dir: usize, s: usize, port: usize) {
        let (ns, id) = (self.ns(), PortId(port as u16));
        let mut tap = OneFrameWire::default();
        self.switches[s].part_mut(port).transmit_due_control(id, ns, &mut tap);
        if let Some(frame) = tap.control {
            self.note_pfc(s, port, &frame);
            self.start_transmission(dir, frame);
        } else {
            let paused = self.paused_at(s, port);
            if let Some(mut frame) = self.switches[s].depart(port, paused, ns) {
                self.stamp(dir, s, id, &mut frame);
                let (egress, delay) = (self.spec.switch.egress.0 * PS, self.dirs[dir].delay);
                if let Some(journey) = frame.journey() {
                    journey.leave(dir, self.now, egress, delay);
                }
                self.start_transmission(dir, frame);
                self.measure(s, port);
                self.kick_core(s);
            }
        }
        let next = self.next_of_core(s, port);
        self.schedule_next_wake(dir, next);
    }

    /// When the port has something to do although no frame comes.
    fn next_of_core(&self, s: usize, port: usize) -> Option<Nanos> {
        let (node, id, ns) = (&self.switches[s], PortId(port as u16), self.ns());
        let part = node.part(port);
        let paused = self.paused_at(s, port);
        let resume = (paused != 0).then(|| part.reaction(id).next_expiry());
        let output = node.core.as_ref().map(|core| &core.outputs[port]);
        // What waits at the output goes when its line is free.
        let line = output.and_then(|output| output.next_at(paused)).map(|at| at.max(ns));
        let look = output.and_then(Output::next_look);
        let flush = (look.is_some() && node.parts.iter().any(|part| part.is_flushing(id))).then_some(ns + 1);
        let all = [Some(part.generator(id).next_deadline()), look, flush, resume, line];
        all.into_iter().flatten().min().filter(|at| *at != Nanos::MAX)
    }
}

impl Core {
    /// When watchdogs of its outputs look next.
    pub(super) fn looks(&self) -> impl Iterator<Item = Nanos> {
        self.outputs.iter().filter_map(Output::next_look)
    }

    /// The frame that crosses from a queue of an input to an output.
    fn begun(&mut self, voq: (usize, usize, usize)) -> Option<&mut Crossing> {
        self.crossing.iter_mut().find(|c| (c.input, c.output, c.queue) == voq)
    }

    /// A cell of each frame moves: in packet mode of all, in cell mode of those that were matched. A frame is
    /// at its output in the next slot: in packet mode with its first cell, as the crossbar is no slower than the line; in
    /// cell mode with its last.
    fn advance(&mut self) {
        let packet = self.mode == CrossbarMode::Packet;
        for c in &mut self.crossing {
            if c.moves && !packet {
                let cell = c.uncharged / c.cells_left;
                c.uncharged -= cell;
                let frames = u64::from(c.cells_left == 1);
                self.outputs[c.output].charge(c.queue, frames, cell);
            }
            c.cells_left -= u64::from(packet || c.moves);
            c.moves = false;
            if (packet || c.cells_left == 0)
                && let Some(frame) = c.frame.take()
            {
                self.landing.push((c.output, c.queue, frame));
            }
        }
        self.crossing.retain(|c| c.cells_left > 0);
    }
}
