//! What an engine does with single frames that somebody follows, and what it sends for them.
//!
//! Nothing of this runs unless somebody follows frames: then they come in by [`Engine::receive_told`], and what is sent goes out by
//! [`Engine::transmit_told`], which do what [`Engine::receive`] and [`Engine::transmit`] do and look at the job before and after.

mod follower;

pub(crate) use follower::Sum;
pub use follower::{Follower, FollowerReader};

use crate::drops::Drop;
use crate::engine::Engine;
use crate::immediate::{ALL_RANKS, Failure, Immediate, Primitive};
use crate::job::{Choice, Chosen, Job, Transmit};
use crate::outbox::NO_NUMBER;
use crate::peer::Next;
use arrayvec::ArrayVec;
use weir_dataplane::switch::Key;
use weir_dataplane::types::Nanos;
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::frame::Frame;
use weir_endpoint::roce::wire::{Opcode, Packet, Qpn, Syndrome};

/// A peer of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whom {
    /// The job.
    pub job: u32,
    /// Place among its children; behind them the parent.
    at: usize,
    /// First rank; [`ALL_RANKS`]: the engine above.
    pub rank: u16,
    /// Queue pair at the peer.
    pub qpn: Qpn,
}

/// What became of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Became {
    /// A contribution, kept.
    Stored {
        /// The number it contributes to.
        number: u64,
        /// Where that is kept.
        slot: u64,
        /// First ranks of the children that number still waits for; none: it is complete.
        missing: ArrayVec<u16, 64>,
    },
    /// A result of the engine above.
    Result,
    /// A word that names the operation of what follows.
    Names(Primitive),
    /// A word that ends the job.
    Ends,
    /// An answer of a peer to what it was sent.
    Answer(Syndrome),
    /// A congestion notification: its sender is sent less.
    Cnp,
    /// ARP: who asks for the engine is told where it is.
    Arp,
    /// Not used.
    Dropped(Drop),
}

/// What an engine says of a frame that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Opcode, queue pair of the engine and PSN, of a frame that can be read.
    pub packet: Option<(Opcode, Qpn, Psn)>,
    /// Who has that queue pair.
    pub of: Option<Whom>,
    /// What became of it.
    pub became: Became,
    /// The peer is owed an answer now.
    owes: bool,
}

/// What an engine sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An ACK, NAK or RNR NAK.
    Answer(Syndrome),
    /// A result, to a child.
    Result,
    /// A sum, to the engine above.
    Sum,
    /// Something else: a word, a probe, a CNP.
    Other,
}

/// A frame that an engine sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// To whom.
    pub to: Whom,
    /// What it is.
    pub what: What,
    /// Its PSN; of an answer the one it is about.
    pub psn: Psn,
    /// The number that a result or a sum is of.
    number: Option<u64>,
}

/// Something that happened to a frame that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "each is in a ring of its own, made once")]
pub enum Step {
    /// It came.
    Came(Told),
    /// What it contributes to is folded and will go out, with so many ranks in it where the last packet of a message says so.
    Folded(Option<u16>),
    /// This was sent for it.
    Sent(Sent),
    /// Its job has failed, because of this rank ([`ALL_RANKS`]: none); what is missing will not come.
    Failed(Failure, u16),
    /// Its job is gone.
    Gone,
    /// Nothing more comes of it here.
    Over,
}

/// A step, and whether it is the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which frame.
    pub key: Key,
    /// When.
    pub at: Nanos,
    /// What happened.
    pub step: Step,
    /// Nothing more will be told of it.
    pub last: bool,
}

/// What a job looked like before a frame came.
struct Before {
    whom: Whom,
    number: u64,
    failed: bool,
    from_parent: u64,
}

impl Engine {
    /// [`Self::receive`], told.
    pub fn receive_told(&mut self, bytes: &[u8], now: Nanos) -> Told {
        let parsed = Frame::parse(bytes).ok();
        let packet = parsed.as_ref().map(|frame| &frame.packet);
        let whose = packet.and_then(|packet| self.owner(packet.bth.dest_qp));
        let before = whose.and_then(|(job, at)| self.at(job).and_then(|job| job.before(at)));
        let taken = self.accept(bytes, now);
        let job = whose.and_then(|(job, _)| self.at(job));
        let became = match (taken, packet, &before, job) {
            (Err(drop), ..) => Became::Dropped(drop),
            (Ok(()), Some(packet), Some(before), Some(job)) => job.became(packet, before),
            // Whatever is taken belongs to somebody.
            (Ok(()), ..) => Became::Dropped(Drop::UnknownQp),
        };
        let of = before.map(|before| before.whom);
        // An answer that is owed for something else says nothing of what is not a request of this peer.
        let request =
            matches!(became, Became::Stored { .. } | Became::Result | Became::Names(_) | Became::Ends)
                || matches!(&became, Became::Dropped(drop) if drop.is_answered());
        let owes = request && of.zip(job).is_some_and(|(of, job)| job.peers()[of.at].order.owes());
        Told { packet: packet.map(|p| (p.bth.opcode, p.bth.dest_qp, p.bth.psn)), of, became, owes }
    }

    /// [`Self::transmit`], told.
    pub fn transmit_told(&mut self, now: Nanos) -> Option<(Option<Sent>, Transmit<'_>)> {
        let (at, chosen) = self.choose(now)?;
        let sent = self.at(at).and_then(|job| job.about(chosen));
        Some((sent, self.write(at, chosen, now)?))
    }
}

impl Drop {
    /// Who sent it gets an answer.
    fn is_answered(self) -> bool {
        matches!(
            self,
            Self::Duplicate
                | Self::OutOfSequence
                | Self::WindowFull
                | Self::ResultsFull
                | Self::Early
                | Self::InvalidRequest
                | Self::RemoteAccess
                | Self::Mismatch
                | Self::Late
                | Self::JobFailed
        )
    }
}

impl Job {
    fn whom(&self, at: usize) -> Option<Whom> {
        let peer = self.peers().get(at)?;
        let rank = self.params().children.get(at).map_or(ALL_RANKS, |child| child.first_rank);
        Some(Whom { job: self.params().id, at, rank, qpn: peer.path.dest_qp })
    }

    fn before(&self, at: usize) -> Option<Before> {
        Some(Before {
            whom: self.whom(at)?,
            number: self.peers()[at].cursor.number,
            failed: self.failure().is_some(),
            from_parent: self.counters().from_parent,
        })
    }

    /// What is about to be sent.
    fn about(&self, (at, what): Chosen) -> Option<Sent> {
        let (to, peer) = (self.whom(at)?, self.peers().get(at)?);
        let sent = |what, psn, number| Some(Sent { to, what, psn, number });
        match what {
            Choice::Cnp => sent(What::Other, Psn::default(), None),
            Choice::Answer => {
                let (psn, aeth) = peer.owed_answer()?;
                sent(What::Answer(Syndrome::decode(aeth.syndrome)), psn, None)
            }
            Choice::Data(next) => {
                let (psn, _) = peer.stamp(next);
                let number = match next {
                    Next::Probe => NO_NUMBER,
                    Next::Packet(at) => self.kept_for(to.at, at).number,
                };
                match (number, to.rank) {
                    (NO_NUMBER, _) => sent(What::Other, psn, None),
                    (number, ALL_RANKS) => sent(What::Sum, psn, Some(number)),
                    (number, _) => sent(What::Result, psn, Some(number)),
                }
            }
        }
    }

    /// What became of a packet that was taken.
    fn became(&self, packet: &Packet<'_>, before: &Before) -> Became {
        let cursor = &self.peers()[before.whom.at].cursor;
        match packet.bth.opcode {
            Opcode::CNP => Became::Cnp,
            Opcode::RC_ACK => {
                let syndrome = packet.ext.aeth.map_or(0, |aeth| aeth.syndrome);
                Became::Answer(Syndrome::decode(syndrome))
            }
            _ if cursor.number > before.number => {
                let number = before.number;
                let missing = self.missing(number);
                let children = self.params().children.iter().enumerate();
                let missing = children.filter(|(at, _)| missing >> at & 1 == 1).map(|(_, c)| c.first_rank);
                let slot = number & u64::from(self.params().window - 1);
                Became::Stored { number, slot, missing: missing.take(64).collect() }
            }
            _ if self.counters().from_parent > before.from_parent => Became::Result,
            _ if self.failure().is_some() && !before.failed => Became::Ends,
            _ => match packet.ext.imm.and_then(Immediate::decode) {
                Some(Immediate::Operation(operation)) => Became::Names(operation),
                _ => Became::Ends,
            },
        }
    }
}
