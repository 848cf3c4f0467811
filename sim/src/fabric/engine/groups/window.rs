//! A group plays a window, and hears what others have told it.

use super::membership::{Message, Played};
use crate::fabric::engine::event_loop::{Event, Flying};
use crate::fabric::engine::world::Fabric;
use crate::fabric::time::{PS, Ps};
use crate::fabric::workload::Planned;
use weir_endpoint::flow::Flow;

impl Fabric<'_> {
    /// Plays what happens in a group before this time and number.
    pub(super) fn play_window(&mut self, began: Ps, limit: (Ps, u64)) {
        self.hear();
        self.queue.begin_window();
        let Some(membership) = &mut self.membership else { return };
        membership.began = began / PS;
        while let Some((time, order, what)) = self.queue.pop_before(limit) {
            self.set_now(time);
            self.events += 1;
            let (asked, ended) = (self.queue.asked(), self.timeline.ended());
            self.handle(what);
            let ended = (self.timeline.ended() - ended) as u32;
            if (ended > 0 || self.queue.asked() > asked)
                && let Some(membership) = &mut self.membership
            {
                membership.played.push(Played { time, order, asked, ended });
            }
        }
    }

    /// When something happens in it next; what it was told in the last window is not forgotten.
    pub(super) fn next_time(&self) -> Option<Ps> {
        let told = self.membership.iter().flat_map(|membership| &membership.inbox);
        let told = told.filter_map(|(_, message)| match message {
            Message::Frame { time, .. } => Some(*time),
            Message::Expect { .. } => None,
        });
        self.queue.next().map(|(time, _)| time).into_iter().chain(told).min()
    }

    /// What was asked for in the last window gets its numbers, and what others have told in it is heard.
    pub(super) fn hear(&mut self) {
        let Some(membership) = &mut self.membership else { return };
        self.queue.settle(membership.base, &membership.settled);
        membership.settled.clear();
        membership.played.clear();
        let mut inbox = std::mem::take(&mut membership.inbox);
        for (order, message) in inbox.drain(..) {
            match message {
                Message::Frame { time, tail, dir, is_head, frame } => {
                    let slot = self.keep(Flying { frame: Some(frame), tail, dir });
                    let what = if is_head { Event::Head { dir, slot } } else { Event::Arrive { dir, slot } };
                    self.queue.push_as(time, order, what);
                }
                Message::Expect { flow, opened, start } => {
                    let planned = &self.flows[flow as usize];
                    let (to, receiver) = (planned.to, self.numbers.receiver(planned.pair));
                    let flow = Flow { start, ..planned.flow };
                    match opened.map(|sender| (sender, self.opening(planned, flow))) {
                        Some((sender, opening)) => {
                            self.hosts[to].open(&opening, false, [receiver, sender]);
                        }
                        None => self.hosts[to].open_more(flow, false, receiver),
                    }
                }
            }
        }
        if let Some(membership) = &mut self.membership {
            membership.inbox = inbox;
        }
    }

    /// A flow starts here, and its receiver is another group's. It may learn of it when the window is over: no packet is there sooner.
    /// `opened`: it is the first of its queue pair, which has this number here.
    pub(in crate::fabric::engine) fn expect_elsewhere(&mut self, flow: Flow, opened: Option<u32>) {
        let Planned { to, .. } = self.flows[flow.id as usize];
        if let Some(membership) = &mut self.membership
            && let Some(group) = membership.other(to)
        {
            membership.send(group, 0, Message::Expect { flow: flow.id, opened, start: flow.start });
        }
    }
}
