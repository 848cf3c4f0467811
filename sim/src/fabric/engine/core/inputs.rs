//! The inputs of a switch with a crossbar: each has a memory of its own, and all go by what outputs say.

use super::Core;
use super::output::Output;
use crate::crossbar::MAX_CROSSBAR_PORTS;
use crate::fabric::engine::world::SwitchNode;
use crate::fabric::sim_frame::SimFrame;
use crate::fabric::switches::FabricSwitch;
use arrayvec::ArrayVec;
use std::ops::Range;
use weir_dataplane::drops::DropReason;
use weir_dataplane::types::{Nanos, PRIORITIES, PortId};

impl SwitchNode {
    /// [`SwitchNode::receive`] of a frame that may leave by these ports of a switch with a crossbar. The depths it finds are those
    /// of the outputs.
    pub(in crate::fabric::engine) fn receive_to_cross(
        &mut self,
        input: usize,
        outputs: Range<usize>,
        frame: SimFrame,
        ns: Nanos,
    ) {
        let Some(mut core) = self.core.take() else { return };
        let memory = self.part_mut(input);
        let held: ArrayVec<_, MAX_CROSSBAR_PORTS> = outputs
            .clone()
            .map(|output| (output, by_queue(memory, output), *core.outputs[output].waiting()))
            .collect();
        for (output, _, waiting) in &held {
            assume(memory, *output, waiting);
        }
        memory.receive_one(PortId(input as u16), frame, ns);
        for (output, mut own, waiting) in held {
            let now = by_queue(memory, output);
            for queue in (0..PRIORITIES).filter(|queue| now[*queue] > waiting[*queue]) {
                let more = now[queue] - waiting[queue];
                own[queue] += more;
                core.arrived((input, output, queue), more, ns);
            }
            assume(memory, output, &own);
        }
        self.core = Some(core);
    }

    /// Watchdogs of outputs look, if it is time: what they say is done at all inputs.
    pub(in crate::fabric::engine) fn watch(&mut self, ns: Nanos) {
        let Self { core: Some(core), parts, .. } = self else { return };
        let mut any = false;
        for (port, output) in core.outputs.iter_mut().enumerate() {
            let id = PortId(port as u16);
            if let Some([drop, forward]) = output.watch(parts[port].reaction(id), ns) {
                parts.iter_mut().for_each(|part| part.set_storm(id, drop, forward, ns));
                drop_condemned(output, parts, id);
                any = true;
            }
        }
        if any {
            core.forget_dropped(parts);
        }
    }

    /// The line of `port` carries nothing any more, or something again: see [`FabricSwitch::set_carrier`].
    pub(in crate::fabric::engine) fn set_carrier(&mut self, port: usize, carrier: bool, ns: Nanos) {
        if let (Some(core), false) = (&mut self.core, carrier) {
            core.outputs[port].line_down(ns);
        }
        self.parts.iter_mut().for_each(|part| part.set_carrier(PortId(port as u16), carrier, ns));
        self.core.iter_mut().for_each(|core| core.forget_dropped(&self.parts));
    }

    /// What waited at inputs may have been dropped.
    pub(in crate::fabric::engine) fn recount(&mut self) {
        let Self { core: Some(core), parts, .. } = self else { return };
        for (output, out) in core.outputs.iter_mut().enumerate() {
            out.recount(at_inputs(parts, output));
        }
        core.forget_dropped(parts);
    }

    /// Bytes that wait for the line of `port` of a switch with a crossbar, as its memories say.
    pub(in crate::fabric::engine) fn counted(&self, core: &Core, port: usize) -> u64 {
        core.outputs[port].left() + at_inputs(&self.parts, port).iter().sum::<u64>()
    }

    /// The next frame for the line of `port`, of the queues that are not `paused`: it is marked by what it leaves behind.
    pub(super) fn depart(&mut self, port: usize, paused: u8, ns: Nanos) -> Option<SimFrame> {
        let Self { core: Some(core), parts, .. } = self else { return None };
        let Core { outputs, rng, .. } = &mut **core;
        let (next, depth) = outputs[port].next_frame(paused, ns)?;
        Some(parts[next.in_port().index()].depart(PortId(port as u16), next, (depth, ns), rng))
    }
}

/// Drops what has crossed to an output in a storm. Returns whether there was anything.
pub(super) fn drop_condemned(output: &mut Output, memories: &mut [FabricSwitch], port: PortId) -> bool {
    let condemned = output.condemned();
    let any = !condemned.is_empty();
    for lost in condemned {
        memories[lost.in_port().index()].lose(port, lost, DropReason::WatchdogDrop);
    }
    any
}

/// Bytes of a memory for `output`, by queue.
fn by_queue(memory: &FabricSwitch, output: usize) -> [u64; PRIORITIES] {
    std::array::from_fn(|queue| memory.queue_bytes(PortId(output as u16), queue))
}

/// The same of all memories.
fn at_inputs(memories: &[FabricSwitch], output: usize) -> [u64; PRIORITIES] {
    let of = |queue| memories.iter().map(|memory| memory.queue_bytes(PortId(output as u16), queue)).sum();
    std::array::from_fn(of)
}

/// A memory takes so many bytes to be in its queues for `output`.
fn assume(memory: &mut FabricSwitch, output: usize, bytes: &[u64; PRIORITIES]) {
    for (queue, bytes) in bytes.iter().enumerate() {
        memory.assume_queue_bytes(PortId(output as u16), queue, *bytes);
    }
}
