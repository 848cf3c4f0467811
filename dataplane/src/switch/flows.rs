//! To which flows marks, losses, pauses and depth are put down ([`crate::flows`]). All of it happens where something else
//! has already happened to a frame, or where counters are published.

use super::{Observer, OwnPort, Switch};
use crate::egress::Meta;
use crate::flows::{Cause, FlowId, PAUSE_LOOKS, Where};
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::parse::Profile;
use crate::pfc::bits;
use crate::types::{Nanos, PortId};

/// The flow of a frame seen somewhere.
fn flow_of<F: Frame>(profile: &Profile, frame: &F, place: Where) -> Option<FlowId> {
    profile.flow_id(frame.bytes(), frame.len()).map(|id| id.at(place))
}

impl<F: Frame> OwnPort<F> {
    /// A frame was marked.
    #[cold]
    pub(super) fn attribute_mark(&mut self, frame: &F, meta: &Meta) {
        let Self { flows: Some(flows), params, .. } = self else { return };
        flows.count(Cause::Mark, 1);
        let place = Where { in_port: meta.header.in_port, priority: meta.header.queue, reason: None };
        if let Some((_, weight)) = flows.due(Cause::Mark, 1)
            && let Some(id) = flow_of(&params.profile, frame, place)
        {
            flows.add(Cause::Mark, &id, weight);
        }
    }

    /// Frames are about to be counted as lost here; `frame` has each of them.
    #[cold]
    pub(super) fn attribute_loss<'a>(
        &mut self,
        place: Where,
        frames: u32,
        frame: impl Fn(u32) -> Option<&'a F>,
    ) where
        F: 'a,
    {
        let Self { flows: Some(flows), params, .. } = self else { return };
        let mut next = 0;
        while let Some((at, weight)) = flows.due(Cause::Drop, frames - next) {
            let id = frame(next + at).and_then(|frame| flow_of(&params.profile, frame, place));
            if let Some(id) = id {
                flows.add(Cause::Drop, &id, weight);
            }
            next += at + 1;
        }
    }
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// A group of `port` crossed its line with `frame`, and the queue `cause` is the one that holds most of it. Where that is
    /// not known here the frame has to stand for those that do wait.
    #[cold]
    pub(super) fn attribute_pause(
        &mut self,
        (port, pg): (PortId, usize),
        cause: Option<crate::pfc::generate::Cause>,
        frame: &F,
        in_port: u16,
    ) {
        let Self { ports, queues, .. } = self;
        let OwnPort { flows: Some(flows), params, .. } = &mut ports[port.index()] else { return };
        flows.count(Cause::Pause, PAUSE_LOOKS);
        let Some((_, weight)) = flows.due(Cause::Pause, 1) else { return };
        let place = Where { in_port, priority: pg as u8, reason: None };
        for _ in 0..PAUSE_LOOKS {
            let random = flows.random();
            let waits = cause.and_then(|cause| {
                queues.some_frame(PortId(cause.out_port), usize::from(cause.queue), Some(port), random)
            });
            let frame = waits.map_or(frame, |(frame, _)| frame);
            if let Some(id) = flow_of(&params.profile, frame, place) {
                flows.add(Cause::Pause, &id, weight);
            }
        }
    }

    /// Looks at what waits in the queues of a port, and publishes the flows.
    pub(super) fn publish_flows(&mut self, out: PortId, now: Nanos) {
        let Self { ports, queues, .. } = self;
        let OwnPort { flows: Some(flows), params, .. } = &mut ports[out.index()] else { return };
        for queue in bits(queues.occupied(out)) {
            flows.look_at_queue(queues.bytes(out, queue), |random| {
                let (frame, PortId(in_port)) = queues.some_frame(out, queue, None, random)?;
                flow_of(&params.profile, frame, Where { in_port, priority: queue as u8, reason: None })
            });
        }
        flows.publish(now);
    }
}

#[cfg(test)]
#[path = "flows_tests.rs"]
mod tests;
