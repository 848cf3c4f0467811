//! What arrives.

use super::{Endpoint, Event, FlowControl, Held, MULTICAST, REQUEST, RESPONSE, TIMESTAMP_NS};
use crate::rc::in_order::Turn;
use crate::rclink::cbfc::Update;
use crate::rclink::class::{Class, TcType};
use crate::rclink::frame::{Body, Frame};
use crate::rclink::rh::{Opcode, Rh};
use weir_dataplane::pfc::frame::is_mac_control;
use weir_dataplane::types::Nanos;

impl Endpoint {
    /// Takes a frame from the wire, without FCS. What can not be used is counted.
    pub fn handle_frame(&mut self, bytes: &[u8], now: Nanos) {
        // MAC control before any format (DEV-02).
        if is_mac_control(bytes) {
            self.reaction.receive(bytes, now);
            return;
        }
        let Ok(frame) = self.config.codec.read(bytes) else {
            self.counters.rx_malformed += 1;
            return;
        };
        let here = frame.dst == self.config.codec.station(self.config.station.mac);
        match frame.body {
            Body::Raw(bytes) => self.deliver_to_many(bytes.len(), Event::Raw(bytes.to_vec())),
            Body::Type2(_, payload) => self.multicast_arrived(bytes.len(), frame.src, payload),
            Body::Lite(payload) if frame.tc.kind == TcType::Type2 => {
                self.multicast_arrived(bytes.len(), frame.src, payload);
            }
            _ if !here => self.counters.rx_unknown += 1,
            Body::Lite(payload) if frame.tc.kind == TcType::Credit => self.credit(frame.src, 0, payload, now),
            Body::Lite(payload) => self.lite(&frame, payload, bytes.len(), now),
            Body::Type1(rh, payload) if rh.opcode == Opcode::Credit => {
                self.credit(frame.src, rh.dest_qp, payload, now);
            }
            Body::Type1(rh, payload) => self.reliable(&frame, &rh, payload, bytes.len(), now),
        }
    }

    fn multicast_arrived(&mut self, len: usize, src: u64, payload: &[u8]) {
        self.deliver_to_many(len, Event::Multicast { src, payload: payload.to_vec() });
    }

    fn deliver_to_many(&mut self, len: usize, event: Event) {
        let bytes = len as u64;
        if !self.memories[MULTICAST].take(bytes) {
            self.counters.rx_no_room += 1;
            return;
        }
        self.counters.rx_data += 1;
        self.events.push_back((event, Some(Held { memory: MULTICAST, bytes, credits: None })));
        self.watch_memories();
    }

    /// TYPE1 with a reliability header.
    fn reliable(&mut self, frame: &Frame<'_>, rh: &Rh, payload: &[u8], len: usize, now: Nanos) {
        let at = usize::from(rh.dest_qp);
        let codec = &self.config.codec;
        let known = self.qps.get(at).is_some_and(|qp| {
            !qp.failed && qp.config.pkey == rh.pkey && codec.station(qp.config.peer.mac) == frame.src
        });
        if !known {
            self.counters.rx_unknown += 1;
            return;
        }
        match rh.opcode {
            Opcode::Send => {
                if frame.ce {
                    self.counters.rx_ce += 1;
                    if self.merge.passes(rh.dest_qp, now) {
                        self.cnps.insert(rh.dest_qp);
                    }
                }
                self.data_arrived(at, rh, payload, len, now);
                if self.qps[at].order.owes() {
                    self.owing.insert(rh.dest_qp);
                } else {
                    self.owing.remove(&rh.dest_qp);
                }
            }
            Opcode::Ack => self.answered(at, rh, now),
            Opcode::Cnp => {
                self.counters.rx_cnp += 1;
                if !std::mem::replace(&mut self.qps[at].cnp_reported, true) {
                    self.events.push_back((Event::Cnp(rh.dest_qp), None));
                }
            }
            Opcode::Credit => {}
        }
    }

    fn data_arrived(&mut self, at: usize, rh: &Rh, payload: &[u8], len: usize, now: Nanos) {
        let retransmits = self.retransmits();
        let order = &mut self.qps[at].order;
        if !retransmits {
            self.counters.rx_out_of_sequence += u64::from(rh.psn != order.expected());
            order.follow(rh.psn);
            self.deliver(at, payload, len, now);
            return;
        }
        match order.turn(rh.psn) {
            Turn::Next => {
                if self.deliver(at, payload, len, now) {
                    let qp = &mut self.qps[at];
                    qp.order.taken(1, rh.force_ack);
                    if rh.force_ack {
                        qp.echo = rh.timestamp;
                    }
                }
            }
            Turn::Duplicate => {
                self.counters.rx_duplicates += 1;
                self.refund(at, len, now);
                let qp = &mut self.qps[at];
                qp.order.acknowledge();
                qp.echo = None;
            }
            Turn::Ahead(first) => {
                self.counters.rx_out_of_sequence += 1;
                self.refund(at, len, now);
                if first {
                    self.qps[at].echo = None;
                }
            }
        }
    }

    /// AFH_Lite: the queue pair follows from station and channel; everything is taken (SW-014, SW-015).
    fn lite(&mut self, frame: &Frame<'_>, payload: &[u8], len: usize, now: Nanos) {
        let peer = self.peers.known(frame.src);
        match peer.and_then(|peer| self.qp_to(peer, frame.tc.channel)) {
            Some(at) => {
                self.deliver(at, payload, len, now);
            }
            None => self.counters.rx_unknown += 1,
        }
    }

    /// Puts a message into its receive memory; `false`: there is no room.
    fn deliver(&mut self, at: usize, payload: &[u8], len: usize, now: Nanos) -> bool {
        let qp = &self.qps[at];
        let memory = if qp.config.class == Class::Response { RESPONSE } else { REQUEST };
        let bytes = len as u64;
        if !self.memories[memory].take(bytes) {
            self.counters.rx_no_room += 1;
            self.refund(at, len, now);
            return false;
        }
        let (peer, channel) = (qp.peer, qp.channel);
        let credits = match &self.config.flow_control {
            FlowControl::Pfc { .. } => None,
            FlowControl::Cbfc { credits, .. } => {
                let cost = credits.cost(len);
                self.peers.arrive(peer, self.lane(channel, at as u16), cost);
                Some((peer, channel, cost))
            }
        };
        self.counters.rx_data += 1;
        let event = Event::Received { qp: at as u16, payload: payload.to_vec() };
        self.events.push_back((event, Some(Held { memory, bytes, credits })));
        self.watch_memories();
        true
    }

    /// Data that is not kept gives its credits back at once.
    fn refund(&mut self, at: usize, len: usize, now: Nanos) {
        let FlowControl::Cbfc { credits, .. } = &self.config.flow_control else { return };
        let (cost, peer, channel) = (credits.cost(len), self.qps[at].peer, self.qps[at].channel);
        self.peers.arrive(peer, self.lane(channel, at as u16), cost);
        self.free_credits(peer, channel, cost, now);
    }

    fn answered(&mut self, at: usize, rh: &Rh, now: Nanos) {
        let Some(syndrome) = rh.syndrome() else {
            self.counters.rx_malformed += 1;
            return;
        };
        let qp = &mut self.qps[at];
        if let Some(echo) = rh.timestamp {
            let ticks = ((now / TIMESTAMP_NS) as u16).wrapping_sub(echo);
            qp.round_trip = Some(Nanos::from(ticks) * TIMESTAMP_NS);
        }
        match qp.sender.answer(rh.psn, syndrome, now) {
            Ok(messages) => {
                if messages > 0 {
                    self.events.push_back((Event::Acknowledged { qp: at as u16, messages }, None));
                }
                self.changed(at);
            }
            Err(_) => self.fail(at),
        }
    }

    fn credit(&mut self, src: u64, qp: u16, payload: &[u8], now: Nanos) {
        let FlowControl::Cbfc { interval, .. } = self.config.flow_control else {
            self.counters.rx_unknown += 1;
            return;
        };
        let Some(peer) = self.peers.known(src) else {
            self.counters.rx_unknown += 1;
            return;
        };
        match Update::decode(payload) {
            Some(Update::Freed(counts)) => {
                let sane = self.peers.freed(peer, counts);
                self.counters.rx_credit_ignored += u64::from(!sane);
                self.credits_changed(peer, None);
            }
            Some(Update::Consumed { channel, count }) => {
                self.peers.consumed(peer, self.lane(channel, qp), count, now.saturating_add(interval));
            }
            None => self.counters.rx_malformed += 1,
        }
    }
}
