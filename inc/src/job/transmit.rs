//! What goes out: answers, CNPs, results, sums for the parent.

use super::Job;
use crate::peer::Next;
use weir_dataplane::types::Nanos;
use weir_endpoint::roce::frame::Frame;
use weir_endpoint::roce::icrc;
use weir_endpoint::roce::wire::{Bth, Extensions, Opcode, Packet};

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A result, a sum, a word or a probe.
    Data,
    /// ACK or NAK.
    Answer,
    /// Congestion notification.
    Cnp,
}

/// A frame in parts, without FCS: one after the other they are what goes on the wire. The payload lies where it is kept, so
/// that a result for many is written once.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// What it is.
    pub kind: Kind,
    /// Priority of its traffic class.
    pub priority: u8,
    /// From the Ethernet header to the last extension header.
    pub head: &'a [u8],
    /// Payload and pad.
    pub payload: &'a [u8],
    /// ICRC.
    pub icrc: [u8; 4],
}

impl Transmit<'_> {
    /// Bytes of the frame, without FCS.
    pub fn len(&self) -> usize {
        self.head.len() + self.payload.len() + self.icrc.len()
    }

    /// No frame is.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The frame in one piece, at the start of `out`. `None`: it is too short.
    pub fn write<'b>(&self, out: &'b mut [u8]) -> Option<&'b mut [u8]> {
        let (head, rest) = out.split_at_mut_checked(self.head.len())?;
        let (payload, rest) = rest.split_at_mut_checked(self.payload.len())?;
        head.copy_from_slice(self.head);
        payload.copy_from_slice(self.payload);
        rest.first_chunk_mut::<4>()?.copy_from_slice(&self.icrc);
        out.get_mut(..self.len())
    }

    /// The frame in one piece, over `out`.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.head);
        out.extend_from_slice(self.payload);
        out.extend_from_slice(&self.icrc);
    }
}

/// What a peer gets next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Cnp,
    Answer,
    Data(Next),
}

/// Where a payload is kept.
#[derive(Clone, Copy, Debug)]
enum Payload {
    Nothing,
    Cnp,
    /// Number in the outbox for children.
    Down(u64),
    /// Number in the outbox for the parent.
    Up(u64),
}

/// A frame whose first part has been written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    kind: Kind,
    priority: u8,
    payload: Payload,
    icrc: [u8; 4],
}

/// Reserved bytes of a CNP (IBTA annex A17.9.3).
const CNP_RESERVED: [u8; 16] = [0; 16];

impl Job {
    /// Who is to be sent what at `now`: answers first, then peers in turn, so that a result goes to all while it is at
    /// hand.
    pub(crate) fn choose(&mut self, now: Nanos) -> Option<(usize, What)> {
        while self.answers != 0 {
            let at = self.answers.trailing_zeros() as usize;
            let peer = &self.peers[at];
            if peer.cnp_due {
                return Some((at, What::Cnp));
            }
            if peer.order.owes() {
                return Some((at, What::Answer));
            }
            self.answers &= !(1 << at);
        }
        while self.ready != 0 {
            let later = self.ready >> self.turn << self.turn;
            let at = if later != 0 { later } else { self.ready }.trailing_zeros() as usize;
            let peer = &self.peers[at];
            let outbox = if at < self.params.children.len() { Some(&self.down) } else { self.up.as_ref() };
            if let Some(next) = outbox.and_then(|outbox| peer.next(outbox, now)) {
                self.turn = at + 1;
                return Some((at, What::Data(next)));
            }
            self.ready &= !(1 << at);
        }
        None
    }

    /// Writes what comes before the payload of that frame over `head`; `id` is its IP identification. `None`: nothing is
    /// to be sent after all.
    pub(crate) fn write(
        &mut self,
        (at, what): (usize, What),
        id: u16,
        head: &mut Vec<u8>,
        now: Nanos,
    ) -> Option<Written> {
        let Self { params, peers, up, down, append, .. } = self;
        let peer = &mut peers[at];
        let is_child = at < params.children.len();
        let outbox = if is_child { &*down } else { up.as_ref()? };
        let answer = if matches!(what, What::Answer) { peer.order.answer() } else { None };
        let path = &peer.path;
        let mut bth = Bth { pkey: params.pkey, ..Bth::new(Opcode::CNP, path.dest_qp, Default::default()) };
        let mut ext = Extensions::default();
        let (mut payload, mut kept): (&[u8], _) = (&[], Payload::Nothing);
        let (kind, class) = match what {
            What::Cnp => {
                bth.becn = true;
                (payload, kept) = (&CNP_RESERVED, Payload::Cnp);
                (Kind::Cnp, path.cnp)
            }
            What::Answer => {
                let (psn, aeth) = answer?;
                (bth.opcode, bth.psn, ext.aeth) = (Opcode::RC_ACK, psn, Some(aeth));
                (Kind::Answer, path.ack)
            }
            What::Data(next) => {
                (bth.psn, bth.ack_req) = peer.stamp(next);
                match next {
                    Next::Probe => bth.opcode = Opcode::RC_SEND_ONLY,
                    Next::Packet(number) => {
                        let entry = outbox.entry(number);
                        let wants = params.status || params.children.get(at).is_none_or(|c| c.engine);
                        ext.imm = entry.imm.filter(|_| entry.named || wants);
                        bth.opcode = entry.shape.opcode(ext.imm.is_some());
                        payload = &outbox.payload(number)[..usize::from(entry.len)];
                        kept = if is_child { Payload::Down(number) } else { Payload::Up(number) };
                    }
                }
                (Kind::Data, path.data)
            }
        };
        let frame = Frame { outer: path.outer(class, id)?, packet: Packet { bth, ext, payload } };
        let ip = frame.emit_head(head);
        let first = icrc::head(&head[ip..], head.len() - ip)?;
        let icrc = match kept {
            Payload::Down(number) | Payload::Up(number) if payload.len() == append.len() => {
                append.join(first, outbox.entry(number).crc)
            }
            Payload::Down(number) | Payload::Up(number) => icrc::extended(first, outbox.payload(number)),
            Payload::Cnp | Payload::Nothing => icrc::extended(first, payload),
        };
        match what {
            What::Cnp => peer.cnp_due = false,
            What::Answer => {}
            What::Data(next) => peer.sent(next, bth.ack_req, now),
        }
        if let Some(event) = peer.next_event(params.patience, now) {
            self.wake = self.wake.min(event);
        }
        Some(Written { kind, priority: class.priority, payload: kept, icrc: icrc.to_le_bytes() })
    }

    /// The frame whose first part is `head`.
    pub(crate) fn frame<'a>(&'a self, written: &Written, head: &'a [u8]) -> Option<Transmit<'a>> {
        let payload = match written.payload {
            Payload::Nothing => &[],
            Payload::Cnp => &CNP_RESERVED[..],
            Payload::Down(number) => self.down.payload(number),
            Payload::Up(number) => self.up.as_ref()?.payload(number),
        };
        let Written { kind, priority, icrc, .. } = *written;
        Some(Transmit { kind, priority, head, payload, icrc })
    }
}
