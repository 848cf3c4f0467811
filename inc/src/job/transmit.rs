//! What goes out: answers, CNPs, results, sums for the parent.

use super::Job;
use crate::peer::{Next, Peer};
use weir_dataplane::types::Nanos;
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::head::{Fields, Headers};
use weir_endpoint::roce::icrc;
use weir_endpoint::roce::qp::TrafficClass;
use weir_endpoint::roce::shape::Shape;
use weir_endpoint::roce::wire::Opcode;

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

/// What is sent next, and to which peer.
pub(crate) type Chosen = (usize, What);

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
    /// hand. Nothing of the priorities in `held`, a bit each.
    pub(crate) fn choose(&mut self, now: Nanos, held: u8) -> Option<Chosen> {
        let free = |class: TrafficClass| held >> (class.priority & 7) & 1 == 0;
        let mut answers = self.answers;
        while answers != 0 {
            let at = answers.trailing_zeros() as usize;
            answers &= answers - 1;
            let Peer { cnp_due, order, path, .. } = &self.peers[at];
            if *cnp_due && free(path.cnp) {
                return Some((at, What::Cnp));
            }
            if order.owes() && free(path.ack) {
                return Some((at, What::Answer));
            }
            if !cnp_due && !order.owes() {
                self.answers &= !(1 << at);
            }
        }
        let mut ready = self.ready;
        while ready != 0 {
            let later = ready >> self.turn << self.turn;
            let at = if later != 0 { later } else { ready }.trailing_zeros() as usize;
            ready &= !(1 << at);
            let peer = &self.peers[at];
            if !free(peer.path.data) {
                continue;
            }
            let outbox = if at < self.params.children.len() { Some(&self.down) } else { self.up.as_ref() };
            if let Some(next) = outbox.and_then(|outbox| peer.next(outbox, now)) {
                self.turn = at + 1;
                return Some((at, What::Data(next)));
            }
            if let Some(at) = peer.paced(now) {
                self.wake = self.wake.min(at);
            }
            self.ready &= !(1 << at);
        }
        None
    }

    /// Writes what comes before the payload of that frame over `head`; `id` is its IP identification. `None`: nothing is
    /// to be sent after all.
    pub(crate) fn write(
        &mut self,
        (at, what): Chosen,
        id: u16,
        head: &mut Headers,
        now: Nanos,
    ) -> Option<Written> {
        match what {
            What::Cnp => self.write_cnp(at, id, head),
            What::Answer => {
                let peer = &mut self.peers[at];
                let (psn, aeth) = peer.take_answer()?;
                let word = Some(aeth.word());
                let fields =
                    Fields { opcode: Opcode::RC_ACK, psn, ack_req: false, reth: None, word, len: 0, id };
                peer.heads.answer.write(&fields, head);
                let icrc = head.icrc()?.to_le_bytes();
                let (kind, priority) = (Kind::Answer, peer.path.ack.priority);
                Some(Written { kind, priority, payload: Payload::Nothing, icrc })
            }
            What::Data(next) => self.write_data(at, next, id, head, now),
        }
    }

    #[cold]
    fn write_cnp(&mut self, at: usize, id: u16, head: &mut Headers) -> Option<Written> {
        let peer = &mut self.peers[at];
        peer.cnp_due = false;
        let class = peer.path.cnp;
        let (psn, len) = (Psn::default(), CNP_RESERVED.len());
        peer.heads.cnp.write(
            &Fields { opcode: Opcode::CNP, psn, ack_req: false, reth: None, word: None, len, id },
            head,
        );
        let icrc = icrc::extended(head.icrc()?, &CNP_RESERVED);
        let (kind, priority) = (Kind::Cnp, class.priority);
        Some(Written { kind, priority, payload: Payload::Cnp, icrc: icrc.to_le_bytes() })
    }

    fn write_data(
        &mut self,
        at: usize,
        next: Next,
        id: u16,
        head: &mut Headers,
        now: Nanos,
    ) -> Option<Written> {
        let Self { params, peers, up, down, append, .. } = self;
        let peer = &mut peers[at];
        let child = params.children.get(at);
        let outbox = if child.is_some() { &*down } else { up.as_ref()? };
        let (psn, ack_req) = peer.stamp(next);
        let opcode = Opcode::RC_SEND_ONLY;
        let mut fields = Fields { opcode, psn, ack_req, reth: None, word: None, len: 0, id };
        let mut payload = Payload::Nothing;
        if let Next::Packet(number) = next {
            let entry = outbox.entry(number);
            let wants = params.status || child.is_none_or(|c| c.engine);
            // Words alone and other empty messages are SENDs whatever results are.
            let len = Some(entry.len).filter(|len| *len > 0 && !entry.named);
            fields.reth = len.and_then(|len| peer.target(peer.next_index(), params.mtu, len));
            let mut shape = entry.shape;
            if fields.reth.is_some() {
                // How long a message is is not known when it begins: each packet is a WRITE of its own.
                shape = Shape { first: true, last: true, write: true };
                fields.word = entry.imm.filter(|_| peer.remote.results.is_some());
            } else {
                fields.word = entry.imm.filter(|_| entry.named || wants);
            }
            fields.opcode = shape.opcode(fields.word.is_some());
            fields.len = usize::from(entry.len);
            payload = if child.is_some() { Payload::Down(number) } else { Payload::Up(number) };
        }
        peer.heads.data.write(&fields, head);
        let first = head.icrc()?;
        let icrc = match payload {
            Payload::Down(number) | Payload::Up(number) if fields.len == append.len() => {
                append.join(first, outbox.entry(number).crc)
            }
            Payload::Down(number) | Payload::Up(number) => icrc::extended(first, outbox.payload(number)),
            Payload::Cnp | Payload::Nothing => first,
        };
        peer.sent(
            next,
            ack_req,
            head.as_slice().len() + fields.len.next_multiple_of(4) + icrc.to_le_bytes().len(),
            now,
        );
        self.wake = self.wake.min(peer.next_event_of_sent(ack_req, now));
        let priority = peer.path.data.priority;
        Some(Written { kind: Kind::Data, priority, payload, icrc: icrc.to_le_bytes() })
    }

    /// The frame whose first part is `head`.
    pub(crate) fn frame<'a>(&'a self, written: &Written, head: &'a Headers) -> Option<Transmit<'a>> {
        let payload = match written.payload {
            Payload::Nothing => &[],
            Payload::Cnp => &CNP_RESERVED[..],
            Payload::Down(number) => self.down.payload(number),
            Payload::Up(number) => self.up.as_ref()?.payload(number),
        };
        let Written { kind, priority, icrc, .. } = *written;
        Some(Transmit { kind, priority, head: head.as_slice(), payload, icrc })
    }
}
