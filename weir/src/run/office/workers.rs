//! The main thread's ends of the rings to and from its workers.

use super::super::control::{Command, Reply};
use super::super::links::Queues;
use weir_dataplane::lag::LagMember;
use weir_dataplane::types::PortId;
use weir_mgmt::mcast::Told;

/// Messages to a worker that may wait.
pub const COMMANDS: usize = 256;

/// Replies of a worker that may wait. It never has to answer more: what it owes is counted here.
pub const REPLIES: usize = 16;

/// What one order may take: itself, and what takes it back.
const MOST: usize = 2;

/// The ends of all workers, in their order.
#[derive(Debug, Default)]
pub struct Workers(Vec<End>);

#[derive(Debug)]
struct End {
    commands: rtrb::Producer<Command>,
    replies: rtrb::Consumer<Reply>,
    /// Replies that are still to come.
    owed: usize,
}

impl Workers {
    /// One more worker; its own ends come back.
    pub fn hire(&mut self) -> (rtrb::Consumer<Command>, rtrb::Producer<Reply>) {
        let (commands, read) = rtrb::RingBuffer::new(COMMANDS);
        let (write, replies) = rtrb::RingBuffer::new(REPLIES);
        self.0.push(End { commands, replies, owed: 0 });
        (read, write)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells of a link that has changed; nobody answers that. `false`: later.
    pub fn link(&mut self, worker: usize, port: PortId, up: bool) -> bool {
        self.0[worker].commands.push(Command::Link(port, up)).is_ok()
    }

    /// Tells what a port carries for its LAG; nobody answers that. `false`: later.
    pub fn lag_member(&mut self, worker: usize, port: PortId, member: LagMember) -> bool {
        self.0[worker].commands.push(Command::LagMember(port, member)).is_ok()
    }

    /// Tells all of them where groups go; nobody answers that. `false`: later. Half of what may wait is left to others.
    pub fn mcast(&mut self, told: Told) -> bool {
        if self.0.iter().any(|end| end.commands.slots() <= COMMANDS / 2) {
            return false;
        }
        self.0.iter_mut().all(|end| end.commands.push(Command::Mcast(told)).is_ok())
    }

    /// Has all workers give back the queues of a port, whose link is down; nobody answers that here. `false`: later.
    pub fn detach(&mut self, owner: usize, port: PortId) -> bool {
        if self.0.iter().any(|end| end.commands.slots() < MOST) {
            return false;
        }
        let down = self.0[owner].commands.push(Command::Link(port, false));
        down.is_ok() && self.0.iter_mut().all(|end| end.commands.push(Command::Detach(port)).is_ok())
    }

    /// Has workers go on with a port, each with its queues; nobody answers that. They come back if there is no room now.
    ///
    /// # Errors
    /// Later.
    pub fn attach(&mut self, queues: Vec<Queues>) -> Result<(), Vec<Queues>> {
        if self.0.iter().any(|end| end.commands.slots() < MOST) {
            return Err(queues);
        }
        for (end, queues) in self.0.iter_mut().zip(queues) {
            let pushed = end.commands.push(Command::Attach(queues));
            debug_assert!(pushed.is_ok(), "there was room");
        }
        Ok(())
    }

    /// Every worker can take an order, and one that takes it back, and answer both. Nobody else sends any, so what
    /// is there now is there then. Replies nobody waits for any more are dropped here.
    pub fn have_room(&mut self) -> bool {
        (0..self.len()).for_each(|worker| while self.hear(worker).is_some() {});
        self.0.iter().all(|end| end.commands.slots() >= MOST && end.owed + MOST <= REPLIES)
    }

    /// Sends an order, for which there is room ([`Self::have_room`]).
    pub fn send(&mut self, worker: usize, command: Command) {
        let end = &mut self.0[worker];
        end.owed += usize::from(end.commands.push(command).is_ok());
    }

    /// The next reply of a worker.
    pub fn hear(&mut self, worker: usize) -> Option<Reply> {
        let end = &mut self.0[worker];
        let reply = end.replies.pop().ok()?;
        end.owed = end.owed.saturating_sub(1);
        Some(reply)
    }
}
