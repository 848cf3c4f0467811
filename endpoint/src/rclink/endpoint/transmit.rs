//! What leaves: PFC, CNPs, answers and credits, then data, multicast and raw frames.

use super::{Endpoint, FlowControl, Qp, Sent, TIMESTAMP_NS, Transmit};
use crate::rclink::cbfc::{UPDATE_BYTES, Update};
use crate::rclink::class::{Class, TcType, TrafficClass};
use crate::rclink::frame::{Head, MIN_LITE_PAYLOAD, Station};
use crate::rclink::rh::{Opcode, Rh};
use weir_dataplane::types::{Nanos, wire_bytes};

/// ECT(0), on data where ECN is on.
const ECT0: u8 = 2;

impl Endpoint {
    /// The next frame to be sent at `now`, if any.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Transmit<'_>> {
        let (priority, kind) = self.write_frame(now)?;
        Some(Transmit { priority, kind, bytes: &self.frame })
    }

    /// The frame handed out last.
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Writes the next frame and says what it is.
    fn write_frame(&mut self, now: Nanos) -> Option<(u8, Sent)> {
        if let Some(pfc) = self.generator.poll(now) {
            self.counters.tx_pfc += 1;
            self.frame.clear();
            self.frame.extend(pfc.encode(self.config.station.mac));
            return Some((7, Sent::Pfc));
        }
        let paused = self.reaction.paused_mask(now);
        let free = |priority: u8| paused >> priority & 1 == 0;
        let of = |class| Some(self.config.classes.of(class)).filter(|p| free(*p));
        let (cnp, ack) = (of(Class::Cnp), of(Class::Ack));
        let (multicast, raw) = (of(Class::Multicast), of(Class::Raw));
        if let Some(written) = cnp.and_then(|priority| self.cnp(priority)) {
            return Some(written);
        }
        let control = ack.and_then(|priority| self.answer(priority)).or_else(|| self.credits(ack, now));
        if let Some(priority) = control {
            return Some((priority, Sent::Control));
        }
        self.data(paused, now)
            .or_else(|| Some((self.group(multicast?)?, Sent::Multicast)))
            .or_else(|| Some((self.whole(raw?)?, Sent::Raw)))
    }

    fn head(&self, dst: Station, priority: u8, kind: TcType) -> Head {
        let tag = self.config.vlan.map(|vid| (vid, priority));
        let tc = TrafficClass { kind, channel: priority };
        Head { dst, src: self.config.station, tag, tc, ecn: 0 }
    }

    fn cnp(&mut self, priority: u8) -> Option<(u8, Sent)> {
        let qp = self.cnps.pop_first()?;
        let config = self.qps[usize::from(qp)].config;
        let rh = Rh::new(Opcode::Cnp, config.peer_qp, config.pkey);
        let head = self.head(config.peer, priority, TcType::Type1);
        self.config.codec.emit(&head, &rh, &[], &mut self.frame);
        self.counters.tx_cnp += 1;
        Some((priority, Sent::Cnp(qp)))
    }

    fn answer(&mut self, priority: u8) -> Option<u8> {
        let qp = &mut self.qps[usize::from(self.owing.pop_first()?)];
        let (psn, syndrome) = qp.order.answer()?;
        let config = qp.config;
        let rh = Rh {
            psn,
            timestamp: qp.echo.take(),
            length_or_syndrome: Rh::syndrome_code(syndrome),
            ..Rh::new(Opcode::Ack, config.peer_qp, config.pkey)
        };
        let head = self.head(config.peer, priority, TcType::Type1);
        self.config.codec.emit(&head, &rh, &[], &mut self.frame);
        self.counters.tx_acks += 1;
        Some(priority)
    }

    /// A credit message: counts of what was freed go with the ACKs, one that mends losses must stay behind the data
    /// of its queue pair, and so takes its path.
    fn credits(&mut self, ack: Option<u8>, now: Nanos) -> Option<u8> {
        let FlowControl::Cbfc { interval, .. } = self.config.flow_control else { return None };
        let (station, lane, update) = self.peers.next_update(ack.is_some(), now.saturating_add(interval))?;
        let priority = match update {
            Update::Freed(_) => ack?,
            Update::Consumed { channel, .. } => channel,
        };
        let mut payload = [0; MIN_LITE_PAYLOAD];
        payload[..UPDATE_BYTES].copy_from_slice(&update.encode());
        let lite = self.config.codec.lite();
        let len = if lite { MIN_LITE_PAYLOAD } else { UPDATE_BYTES };
        let head = self.head(station, priority, if lite { TcType::Credit } else { TcType::Type1 });
        let rh = Rh::new(Opcode::Credit, lane.map_or(0, |lane| lane.qp), 0);
        self.config.codec.emit(&head, &rh, &payload[..len], &mut self.frame);
        self.counters.tx_credit += 1;
        Some(priority)
    }

    /// Whether credits let a message of so many bytes go.
    pub(super) fn has_credits(&self, qp: &Qp, payload: usize) -> bool {
        match &self.config.flow_control {
            FlowControl::Pfc { .. } => true,
            FlowControl::Cbfc { credits, .. } => {
                let frame = self.config.codec.frame_len(payload, self.config.vlan.is_some());
                self.peers.allow(qp.peer, qp.channel, credits.cost(frame), credits.limit)
            }
        }
    }

    /// The queue pair whose turn it is to send a message.
    fn next_turn(&self, paused: u8, now: Nanos) -> Option<usize> {
        let first = |places| self.times.first_frame(places, paused, now);
        let next = first(self.turn..self.qps.len()).or_else(|| first(0..self.turn));
        debug_assert_eq!(next, self.ask_all(paused, now));
        next
    }

    /// The same, found by asking each of them.
    fn ask_all(&self, paused: u8, now: Nanos) -> Option<usize> {
        let may = |at: &usize| {
            let qp = &self.qps[*at];
            paused >> qp.channel & 1 == 0 && self.when(qp).0 <= now
        };
        (self.turn..self.qps.len()).chain(0..self.turn).find(may)
    }

    /// A message of the queue pair whose turn it is.
    fn data(&mut self, paused: u8, now: Nanos) -> Option<(u8, Sent)> {
        let at = self.next_turn(paused, now)?;
        self.turn = if at + 1 == self.qps.len() { 0 } else { at + 1 };
        let channel = self.qps[at].channel;
        let ecn = if self.config.ecn { ECT0 } else { 0 };
        let head = Head { ecn, ..self.head(self.qps[at].config.peer, channel, TcType::Type1) };
        let retransmits = self.retransmits();
        let qp = &mut self.qps[at];
        let segment = qp.sender.segment()?;
        let rh = Rh {
            force_ack: segment.force_ack && retransmits,
            timestamp: Some((now / TIMESTAMP_NS) as u16),
            psn: segment.psn,
            ..Rh::new(Opcode::Send, qp.config.peer_qp, qp.config.pkey)
        };
        self.config.codec.emit(&head, &rh, segment.payload, &mut self.frame);
        let (force_ack, number, len) = (segment.force_ack, segment.number, self.frame.len());
        self.counters.tx_data += 1;
        qp.sender.cc.sent(wire_bytes(len as u64), now);
        let again = if retransmits {
            qp.sender.sent(force_ack, now)
        } else {
            qp.sender.sent_for_good();
            false
        };
        self.counters.tx_retransmitted += u64::from(again);
        qp.counters.tx_retransmitted += u64::from(again);
        if let FlowControl::Cbfc { credits, interval } = &self.config.flow_control {
            let (peer, at, peer_qp) = (qp.peer, now.saturating_add(*interval), qp.config.peer_qp);
            self.peers.consume(peer, self.lane(channel, peer_qp), credits.cost(len), at);
            self.credits_changed(peer, Some(channel));
        } else {
            self.changed(at);
        }
        Some((channel, Sent::Data { qp: at as u16, number, again }))
    }

    fn group(&mut self, priority: u8) -> Option<u8> {
        let (group, payload) = self.multicast.pop_front()?;
        let rh = Rh { psn: self.multicast_psn, ..Rh::new(Opcode::Send, 0, 0) };
        self.multicast_psn = self.multicast_psn.plus(1);
        let head = self.head(group, priority, TcType::Type2);
        self.config.codec.emit(&head, &rh, &payload, &mut self.frame);
        Some(priority)
    }

    fn whole(&mut self, priority: u8) -> Option<u8> {
        self.frame = self.raw.pop_front()?;
        Some(priority)
    }
}
