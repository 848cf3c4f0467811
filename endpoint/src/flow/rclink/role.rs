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
    pub posted: u64,
    /// Packets of it that the peer has acknowledged.
    pub acknowledged: u64,
    /// What the queue pair had done before this flow began.
    pub before: Sent,
    /// Answers: as many messages as have been read there may be. `None`: it answers nobody.
    pub asked: Option<u64>,
}

impl Outgoing {
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
        sent: Sent,
        backoff: Option<Backoff>,
    },
    Receives {
        incoming: Incoming,
        /// After the last packet that came, and the numbers of those that came and were not read: where nobody sends again
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

    pub fn backoff(&mut self) -> Option<&mut Backoff> {
        if let Self::Sends { backoff, .. } = self { backoff.as_mut() } else { None }
    }
}
