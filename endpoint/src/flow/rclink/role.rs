//! What each end of a queue pair does.

use crate::congestion::backoff::Backoff;
use crate::flow::messages::Incoming;
use crate::flow::sender::{Flow, Sent};
use std::collections::VecDeque;
use weir_dataplane::types::Nanos;

/// A flow that is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub flow: Flow,
    /// Number after its last packet, from the first of the queue pair.
    pub end: u64,
    pub posted: u64,
    /// Packets of it that the peer has acknowledged.
    pub acknowledged: u64,
    /// What became of its packets.
    pub sent: Sent,
    /// Answers: as many messages as have been read there may be. `None`: it answers nobody.
    pub asked: Option<u64>,
}

impl Outgoing {
    /// Number of the next packet to be posted, from the first of the queue pair.
    pub fn number(&self) -> u64 {
        self.end - self.flow.packets() + self.posted
    }

    pub fn is_due(&self, now: Nanos) -> bool {
        self.flow.start <= now && self.asked.is_none_or(|asked| self.posted < asked)
    }
}

/// What an end of a queue pair does.
#[derive(Clone, Debug)]
pub(super) enum Role {
    Sends {
        flows: Vec<Outgoing>,
        /// The first flow with packets that are not posted, and the first one with packets that are not acknowledged.
        unposted: usize,
        unacknowledged: usize,
        /// Times that an acknowledgement was overdue.
        timeouts: u64,
        backoff: Option<Backoff>,
    },
    Receives {
        incoming: Incoming,
        /// After the latest packet that came, and the numbers of those that came and were not read: where nobody sends again
        /// there are gaps.
        arrived: u64,
        unread: VecDeque<u64>,
        /// The last packet that came marked: what the next CNP is sent for.
        marked: u64,
        /// The sending end that answers each message with one of its own: only what can be answered is read.
        answers: Option<usize>,
    },
}

impl Role {
    /// The flow whose next packet is to be posted.
    pub fn next(&mut self) -> Option<&mut Outgoing> {
        let Self::Sends { flows, unposted, .. } = self else { return None };
        let of_rest = flows.iter().skip(*unposted);
        *unposted += of_rest.take_while(|out| out.posted == out.flow.packets()).count();
        flows.get_mut(*unposted)
    }

    /// The same at `now`.
    pub fn open(&mut self, now: Nanos) -> Option<&mut Outgoing> {
        self.next().filter(|out| out.is_due(now))
    }

    /// What became of the flow of a packet; of the last flow, if the packet is behind it.
    pub fn sent_of(&mut self, packet: u64) -> Option<&mut Sent> {
        let Self::Sends { flows, .. } = self else { return None };
        let at = flows.partition_point(|out| out.end <= packet).min(flows.len().checked_sub(1)?);
        Some(&mut flows[at].sent)
    }

    /// The flow whose last packet this is.
    pub fn ends_with(&self, packet: u64) -> Option<u32> {
        let Self::Sends { flows, .. } = self else { return None };
        let out = flows.get(flows.partition_point(|out| out.end <= packet))?;
        (out.end == packet + 1).then_some(out.flow.id)
    }

    /// The queue pair has had so many timeouts in all: the latest are of the flow of `packet`.
    pub fn count_timeouts(&mut self, all: u64, packet: u64) {
        if let Self::Sends { timeouts, .. } = self {
            let more = all - std::mem::replace(timeouts, all);
            self.sent_of(packet).into_iter().for_each(|sent| sent.timeouts += more);
        }
    }

    pub fn backoff(&mut self) -> Option<&mut Backoff> {
        if let Self::Sends { backoff, .. } = self { backoff.as_mut() } else { None }
    }
}
