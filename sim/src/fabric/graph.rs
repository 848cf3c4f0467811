//! What is to be done, and what waits for what: the one form of all traffic. A workload is a graph of operations; flows
//! are its messages.

use crate::ns3::config::DST_PORT;
use weir_dataplane::types::Nanos;

/// Number of an operation.
pub(super) type OpId = u32;

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// Sending and receiving host.
    pub from: usize,
    pub to: usize,
    /// Payload bytes.
    pub bytes: u64,
    /// The first message of its queue pair, if that is another.
    pub pair: Option<u32>,
    /// It is a rank, this one of its host, and goes to an engine.
    pub seat: Option<usize>,
    /// What it is a part of.
    pub part: Option<Part>,
    /// It is sent with this message, one frame for both.
    pub copy_of: Option<u32>,
    /// Destination port, of which the published simulator alone takes notice.
    pub dst_port: u16,
}

/// The place of a message in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Number of the collective.
    pub collective: u32,
    /// From 0.
    pub step: u32,
}

/// Messages and computations that are reported together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Collective {
    /// What it is, in the words of a fabric file.
    pub kind: &'static str,
    /// Who takes part.
    pub ranks: usize,
    /// Its size as nccl-tests counts it, bytes; `None`: such a thing has no bandwidth.
    pub bytes: Option<u64>,
    /// Bus bandwidth in that of the algorithm, as a fraction; `None`: there is none.
    pub bus: Option<(u64, u64)>,
}

impl Message {
    /// A message on a queue pair of its own.
    pub fn new(from: usize, to: usize, bytes: u64) -> Self {
        Self { from, to, bytes, pair: None, seat: None, part: None, copy_of: None, dst_port: DST_PORT }
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Sends a message, or a flow: it ends when the sender knows that all bytes have arrived.
    Send(u32),
    /// Ends when all bytes of this message, or flow, are at the receiver.
    Receive(u32),
    /// Takes so many ns on a stream of a host, which does one after the other. It is reported with this collective.
    Compute { host: u32, stream: u32, ns: Nanos, collective: Option<u32> },
    /// Nothing: it ends when it may begin.
    Join,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Op {
    pub work: Work,
    /// It does not begin before this, ns.
    pub start: Nanos,
    /// It waits for the end of so many of these.
    pub needs: u32,
    pub after: Vec<OpId>,
}

/// Messages, and operations on them. Numbers count from 0 within a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Graph {
    pub messages: Vec<Message>,
    pub ops: Vec<Op>,
    pub collectives: Vec<Collective>,
}

impl Op {
    /// Sends a message, or a flow, after all of these.
    pub fn send(message: u32, start: Nanos, after: Vec<OpId>) -> Self {
        Self { work: Work::Send(message), start, needs: after.len() as u32, after }
    }
}

impl Graph {
    fn push(&mut self, work: Work, after: Vec<OpId>) -> OpId {
        self.ops.push(Op { work, start: 0, needs: after.len() as u32, after });
        self.ops.len() as OpId - 1
    }

    /// One more message, and the operation that sends it.
    pub fn send(&mut self, message: Message, start: Nanos, after: Vec<OpId>) -> OpId {
        self.messages.push(message);
        self.ops.push(Op::send(self.messages.len() as u32 - 1, start, after));
        self.ops.len() as OpId - 1
    }

    /// The end of message `message` at its receiver.
    pub fn receive(&mut self, message: u32, after: Vec<OpId>) -> OpId {
        self.push(Work::Receive(message), after)
    }

    /// The ends of all messages at their receivers, in their order: that of message i is operation n + i, where n is the
    /// number of operations before. Returns n.
    pub fn receive_all(&mut self) -> OpId {
        let first = self.ops.len() as OpId;
        (0..self.messages.len() as u32).for_each(|message| {
            self.receive(message, Vec::new());
        });
        first
    }

    /// Computing for `ns` on a stream of a host, no earlier than at `start`, as a part of this collective.
    pub fn compute(
        &mut self,
        (host, stream): (usize, u32),
        (start, ns): (Nanos, Nanos),
        collective: Option<u32>,
        after: Vec<OpId>,
    ) -> OpId {
        let op = self.push(Work::Compute { host: host as u32, stream, ns, collective }, after);
        self.ops[op as usize].start = start;
        op
    }

    /// Lets `op` wait for all of these.
    pub fn wait(&mut self, op: OpId, after: Vec<OpId>) {
        let op = &mut self.ops[op as usize];
        op.needs = after.len() as u32;
        op.after = after;
    }

    /// Lets `op` wait for `before`, too.
    pub fn wait_too(&mut self, op: OpId, before: OpId) {
        let op = &mut self.ops[op as usize];
        op.needs += 1;
        op.after.push(before);
    }

    /// The end of all of these.
    pub fn join(&mut self, after: Vec<OpId>) -> OpId {
        self.push(Work::Join, after)
    }

    /// When each message may be sent at the earliest, ns.
    pub fn starts(&self) -> Vec<Nanos> {
        let mut starts = vec![0; self.messages.len()];
        for op in &self.ops {
            if let Work::Send(message) = op.work {
                starts[message as usize] = op.start;
            }
        }
        starts
    }

    /// Operations that can never begin, each waiting for the next and the last for the first; `None`: all can.
    /// What waits for more than there is counts as waiting for itself.
    pub fn circle(&self) -> Option<Vec<OpId>> {
        let mut waits: Vec<u32> = self.ops.iter().map(|op| op.needs).collect();
        let mut followers = vec![Vec::new(); self.ops.len()];
        let mut senders = vec![OpId::MAX; self.messages.len()];
        for (at, op) in (0..).zip(&self.ops) {
            op.after.iter().for_each(|before| followers[*before as usize].push(at));
            if let Work::Send(message) = op.work {
                senders[message as usize] = at;
            }
        }
        let sender = |op: &Op| match op.work {
            Work::Receive(message) => Some(senders[message as usize]),
            _ => None,
        };
        for (at, op) in (0..).zip(&self.ops) {
            if let Some(before) = sender(op) {
                followers[before as usize].push(at);
                waits[at as usize] += 1;
            }
        }
        let mut open: Vec<OpId> = (0..).zip(&waits).filter(|(_, n)| **n == 0).map(|(at, _)| at).collect();
        let mut begun = vec![false; self.ops.len()];
        while let Some(at) = open.pop() {
            begun[at as usize] = true;
            for follower in &followers[at as usize] {
                let wait = &mut waits[*follower as usize];
                if *wait == 1 {
                    open.push(*follower);
                }
                *wait = wait.saturating_sub(1);
            }
        }
        // From one that cannot begin to one it waits for, until one comes again.
        let mut way: Vec<OpId> = vec![begun.iter().position(|begun| !begun)? as OpId];
        let mut places = vec![None; self.ops.len()];
        loop {
            let at = *way.last()?;
            places[at as usize] = Some(way.len() - 1);
            let op = &self.ops[at as usize];
            let mut before = op.after.iter().copied().chain(sender(op));
            let next = before.find(|before| !begun[*before as usize]).unwrap_or(at);
            if let Some(first) = places[next as usize] {
                return Some(way.split_off(first));
            }
            way.push(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        Message::new(0, 1, 1)
    }

    #[test]
    fn operations_that_wait_for_one_another_are_found() {
        let mut graph = Graph::default();
        let first = graph.send(message(), 0, vec![]);
        let got = graph.receive(0, vec![]);
        let second = graph.send(message(), 0, vec![first, got]);
        assert_eq!(graph.circle(), None);
        // The first waits for what the second brings.
        let back = graph.receive(1, vec![]);
        graph.ops[first as usize].after.push(back);
        graph.ops[first as usize].needs = 1;
        let circle = graph.circle().unwrap();
        assert!(circle.contains(&first) && circle.contains(&second) && circle.contains(&back), "{circle:?}");
        // One of two is enough, and there is one.
        let free = graph.join(vec![]);
        graph.ops[first as usize].after.push(free);
        assert_eq!(graph.circle(), None);
        // More than there are.
        graph.ops[free as usize].needs = 1;
        assert!(graph.circle().is_some_and(|circle| circle == [free] || circle.contains(&first)));
    }
}
