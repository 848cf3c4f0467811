//! One connection of a job, to a child or to the parent.

use crate::immediate::Primitive;
use crate::outbox::Outbox;
use crate::remote::{Mirror, Remote, Writes};
use weir_dataplane::types::{Nanos, wire_bytes};
use weir_endpoint::dcqcn::reaction_point::{Params, RateControl};
use weir_endpoint::rc::go_back_n::{GoBackN, Limits, RNR_RETRY_FOREVER};
use weir_endpoint::rc::in_order::InOrder;
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::cnp::NotificationPoint;
use weir_endpoint::roce::head::Head;
use weir_endpoint::roce::pacer::Pacer;
use weir_endpoint::roce::qp::Path;
use weir_endpoint::roce::wire::{Aeth, Nak, Qpn, Reth, Syndrome};

/// Time without a chance to send that a slowed peer is made good, ns: two turns of a polling loop.
const SLACK: Nanos = 20_000;

/// Times the wait for an acknowledgement doubles without progress: sixteen times `ack_timeout` at most. Results that a host was
/// too slow for are only more work for it when they come again.
pub(crate) const DOUBLINGS: u8 = 4;

/// Where a peer stands in what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The operation its messages belong to.
    pub operation: Primitive,
    /// Which message of it comes next.
    pub index: u64,
    /// It is within a message.
    pub open: bool,
    /// What is to come of a WRITE that it is within.
    pub write: Option<Reth>,
    /// Packets with data so far: the number of the next.
    pub number: u64,
}

/// What was seen of a peer; only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCounters {
    /// Packets taken, contributions or results.
    pub taken: u64,
    /// Packets sent, those sent again included.
    pub sent: u64,
    /// Sent again.
    pub retransmitted: u64,
    /// It was told to wait.
    pub rnr_sent: u64,
    /// It asked to wait.
    pub rnr_received: u64,
    /// Gaps in what it sent.
    pub gaps: u64,
    /// Packets it sent twice.
    pub duplicates: u64,
    /// It found gaps in what it was sent.
    pub naks: u64,
    /// It acknowledged nothing in time.
    pub timeouts: u64,
    /// Contributions that came after the result had gone out.
    pub late: u64,
    /// Times it was probed.
    pub probes: u64,
    /// Marks of congestion seen on what it sent.
    pub ce: u64,
    /// CNPs it sent.
    pub cnps: u64,
}

/// What a peer is to be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The packet before the next, empty: a duplicate, which a responder acknowledges and does not look at. Only to hear
    /// whether it is there.
    Probe,
    /// This packet of the outbox.
    Packet(u64),
}

/// Headers of frames of each kind.
#[derive(Clone, Debug)]
pub(crate) struct Heads {
    pub data: Head,
    pub answer: Head,
    pub cnp: Head,
}

/// A connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Queue pair of the engine.
    pub qpn: Qpn,
    /// Way to the peer.
    pub path: Path,
    /// Headers of what it is sent.
    pub(crate) heads: Heads,
    /// Its bit in an outbox.
    pub bit: u64,
    /// WRITEs from it and to it.
    pub(crate) remote: Remote,
    /// If its WRITEs are mirrored.
    pub(crate) mirror: Option<Mirror>,
    /// Receiving half.
    pub order: InOrder,
    /// Where it stands in what it sends.
    pub cursor: Cursor,
    /// Sending half: numbers of packets on the wire.
    window: GoBackN,
    /// Packets for it so far.
    queued: u64,
    /// Packet number and outbox number of the oldest that is not acknowledged. Outbox entries for others lie between.
    oldest: (u64, u64),
    /// The same of the next to be sent.
    next: (u64, u64),
    /// A probe is to be sent.
    probe_due: bool,
    /// Probes since it was last heard.
    unanswered: u16,
    /// When the first of these was asked for, and the last.
    probed: (Nanos, Nanos),
    /// It has been heard, or is not waited for any longer.
    known: bool,
    /// How long it may be silent, or take nothing, once it is known and before, ns.
    patience: (Nanos, Nanos),
    /// Since when it makes no progress, if something is outstanding.
    stuck_since: Option<Nanos>,
    /// Times in a row it was told to wait.
    pub refused: u32,
    /// What it is told for what it sends to a job that has failed.
    pub(crate) refusal: Nak,
    /// What its CNPs allow, while that is less than all.
    rate: RateControl,
    pacer: Pacer,
    /// It will never answer again.
    pub dead: bool,
    /// CNPs to it.
    pub notify: NotificationPoint,
    /// One is due.
    pub cnp_due: bool,
    /// How far its contributions are behind the first of each number: moving average and most, in ns.
    pub lag: (Nanos, Nanos),
    /// What was seen.
    pub counters: PeerCounters,
}

impl Peer {
    /// A peer with this bit, before the first packet either way. `None`: its addresses are of two families.
    pub(crate) fn new(
        qpn: Qpn,
        path: Path,
        bit: u64,
        remote: Remote,
        params: &crate::params::JobParams,
    ) -> Option<Self> {
        let head = |class| Head::new(&path, class, params.pkey);
        let cnp = Head::of_cnps(&path, params.pkey)?;
        let heads = Heads { data: head(path.data)?, answer: head(path.ack)?, cnp };
        let window = params.results.max(params.window);
        let limits = Limits {
            window,
            ack_every: Limits::ack_every_of(window),
            retry_cnt: Some(params.retries),
            rnr_retry: RNR_RETRY_FOREVER,
            ack_timeout: params.ack_timeout,
            doublings: DOUBLINGS,
        };
        Some(Self {
            qpn,
            path,
            heads,
            bit,
            remote,
            mirror: (remote.writes == Writes::Mirrored).then(|| Mirror::new(params.mirror_places())),
            order: InOrder::new(path.recv_psn),
            cursor: Cursor { operation: params.operation, index: 0, open: false, write: None, number: 0 },
            window: GoBackN::new(limits, path.send_psn),
            queued: 0,
            oldest: (0, 0),
            next: (0, 0),
            probe_due: false,
            unanswered: 0,
            probed: (0, 0),
            known: false,
            patience: (params.patience, params.arrival.max(params.patience)),
            stuck_since: None,
            refused: 0,
            refusal: Nak::RemoteOperational,
            rate: RateControl::new(Params::paper(params.line_rate), 0).ok()?,
            pacer: Pacer::new(params.line_rate).with_slack(SLACK),
            dead: false,
            notify: NotificationPoint::new(params.cnp_interval),
            cnp_due: false,
            lag: (0, 0),
            counters: PeerCounters::default(),
        })
    }

    /// A packet for it was put into the outbox.
    pub(crate) fn queue(&mut self, now: Nanos) {
        self.queued += 1;
        self.stuck_since.get_or_insert(now);
    }

    /// Everything for it is acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.oldest.0 == self.queued
    }

    /// A frame of it came.
    pub(crate) fn heard(&mut self, now: Nanos) {
        self.unanswered = 0;
        self.expect_no_more(now);
    }

    /// It has come, or if it has not it need not come any more.
    pub(crate) fn expect_no_more(&mut self, now: Nanos) {
        if !self.known {
            self.known = true;
            // What went out before was not for somebody who could have taken it.
            self.stuck_since = self.stuck_since.map(|_| now);
        }
    }

    /// How long it may be silent or take nothing.
    fn patience(&self) -> Nanos {
        if self.known { self.patience.0 } else { self.patience.1 }
    }

    /// Asks it for a sign of life, if nothing else does: about every `every` ns, as who calls has multiples of that in mind and may be
    /// late once and not the next time. `Err`: it has been asked often enough, for long enough.
    pub(crate) fn probe(&mut self, retries: u8, every: Nanos, now: Nanos) -> Result<bool, ()> {
        if self.dead || !self.is_idle() || now < self.probed.1.saturating_add(every / 2) {
            return Ok(false);
        }
        let first = if self.unanswered == 0 { now } else { self.probed.0 };
        self.probed = (first, now);
        if self.unanswered > u16::from(retries) && now >= first.saturating_add(self.patience()) {
            return Err(());
        }
        self.unanswered = self.unanswered.saturating_add(1);
        self.probe_due = true;
        Ok(true)
    }

    /// What it is to be sent at `now`, if its turn has come.
    pub(crate) fn next(&self, outbox: &Outbox, now: Nanos) -> Option<Next> {
        if self.dead {
            return None;
        }
        if self.probe_due {
            return Some(Next::Probe);
        }
        let open = self.window.is_open(self.queued) && self.window.rnr_until() <= now && !self.is_early(now);
        open.then(|| Next::Packet(outbox.next_for(self.next.1, self.bit)))
    }

    /// Its rate lets nothing go yet.
    fn is_early(&self, now: Nanos) -> bool {
        self.is_slowed() && self.pacer.ready() > now
    }

    fn is_slowed(&self) -> bool {
        self.rate.rate() < self.rate.params().max_rate
    }

    /// When its rate lets the next packet go, if it is that which holds it.
    pub(crate) fn paced(&self, now: Nanos) -> Option<Nanos> {
        (!self.dead && self.is_early(now) && self.window.is_open(self.queued)).then(|| self.pacer.ready())
    }

    /// It has sent a CNP.
    pub(crate) fn slow_down(&mut self, now: Nanos) {
        self.counters.cnps += 1;
        // Timers that were not looked at since then run first.
        self.rate.handle_timeout(now);
        self.rate.on_cnp(now);
        self.pacer.set_rate(self.rate.rate());
    }

    /// PSN of that packet, and whether it asks for an answer: every so often, and the last one there is.
    pub(crate) fn stamp(&self, what: Next) -> (Psn, bool) {
        match what {
            Next::Probe => (self.window.psn().previous(), true),
            Next::Packet(_) => {
                (self.window.psn(), self.window.asks() || self.window.next() + 1 == self.queued)
            }
        }
    }

    /// That packet left, a frame of `len` bytes.
    pub(crate) fn sent(&mut self, what: Next, ack_req: bool, len: usize, now: Nanos) {
        if self.is_slowed() {
            self.pacer.sent(len as u64, now);
            self.rate.on_sent(wire_bytes(len as u64), now);
            self.pacer.set_rate(self.rate.rate());
        }
        match what {
            Next::Probe => {
                self.counters.probes += 1;
                self.probe_due = false;
            }
            Next::Packet(number) => {
                self.counters.sent += 1;
                self.counters.retransmitted += u64::from(self.window.sent(ack_req, now));
                self.next = (self.next.0 + 1, number + 1);
            }
        }
    }

    /// Where packet `index` to it is written, of `len` bytes of a result; `None`: it is a SEND.
    pub(crate) fn target(&self, index: u64, mtu: u16, len: u16) -> Option<Reth> {
        match (&self.remote.results, &self.mirror) {
            (Some(memory), _) => Some(memory.place(index, mtu, len)),
            (None, Some(mirror)) => mirror.target(index, len),
            (None, None) => None,
        }
    }

    /// Packets it was sent so far: the place of the next among them.
    pub(crate) fn next_index(&self) -> u64 {
        self.next.0
    }

    /// The answer that is owed to it. Contributions that are to be acknowledged with their results are not acknowledged by
    /// anything else either: what is said is said of the oldest of them.
    pub(crate) fn take_answer(&mut self) -> Option<(Psn, Aeth)> {
        let (psn, answer) = self.order.answer()?;
        Some(self.told(psn, answer))
    }

    /// The same, which is still owed afterwards.
    pub(crate) fn owed_answer(&self) -> Option<(Psn, Aeth)> {
        self.order.clone().answer().map(|(psn, answer)| self.told(psn, answer))
    }

    fn told(&self, psn: Psn, answer: Syndrome) -> (Psn, Aeth) {
        let syndrome = answer.encode();
        let Some((oldest, msn)) = self.mirror.as_ref().and_then(Mirror::held) else {
            return (psn, Aeth { syndrome, msn: self.order.msn() });
        };
        let oldest = self.path.recv_psn.plus(oldest);
        let acknowledges = matches!(answer, Syndrome::Ack(_));
        (if acknowledges { oldest.previous() } else { oldest }, Aeth { syndrome, msn })
    }

    /// Whether an answer can be about this packet.
    pub(crate) fn has_sent(&self, psn: Psn) -> bool {
        self.window.has_sent(psn)
    }

    /// It answered. `Err`: it will take nothing more.
    pub(crate) fn answer(
        &mut self,
        psn: Psn,
        syndrome: Syndrome,
        outbox: &mut Outbox,
        now: Nanos,
    ) -> Result<(), ()> {
        let result = self.window.answer(psn, syndrome, now);
        self.settle(outbox, now);
        result.map(|_| ()).map_err(|_| ())
    }

    /// Time has passed. `Ok(true)`: something can be sent again. `Err`: it does not answer any more.
    pub(crate) fn handle_timeout(&mut self, outbox: &mut Outbox, now: Nanos) -> Result<bool, ()> {
        if self.dead {
            return Ok(false);
        }
        if self.give_up_at().is_some_and(|at| at <= now) {
            return Err(());
        }
        if !self.known {
            self.window.begin_retries_anew();
        }
        if self.rate.next_timeout().is_some_and(|at| at <= now) {
            self.rate.handle_timeout(now);
            self.pacer.set_rate(self.rate.rate());
        }
        let again = self.window.handle_timeout(now).map_err(|_| ())?;
        self.counters.timeouts += u64::from(again);
        self.settle(outbox, now);
        let waited = self.is_slowed() && !self.is_early(now);
        Ok(again || waited || (self.window.rnr_until() != 0 && self.window.rnr_until() <= now))
    }

    /// Carries what the window learnt over to the outbox.
    fn settle(&mut self, outbox: &mut Outbox, now: Nanos) {
        let progress = self.oldest.0 < self.window.una();
        while self.oldest.0 < self.window.una() {
            let number = outbox.next_for(self.oldest.1, self.bit);
            if let Some(mirror) = self.mirror.as_mut().filter(|_| !outbox.entry(number).named) {
                if mirror.held().is_some() {
                    self.order.acknowledge();
                }
                mirror.release();
            }
            outbox.acknowledge(number, self.bit);
            self.oldest = (self.oldest.0 + 1, number + 1);
        }
        if self.window.next() != self.next.0 {
            // It went back, or forward over what it had gone back for.
            self.next = self.oldest;
        }
        debug_assert_eq!(self.window.next(), self.next.0);
        if self.is_idle() {
            self.stuck_since = None;
        } else if progress {
            self.stuck_since = Some(now);
        }
    }

    /// It is not given up from `now` until `until` if it has to be sent things again no more often than `times`.
    pub(crate) fn survives(&self, times: u64, now: Nanos, until: Nanos) -> bool {
        let given_up = |since: Nanos| since.saturating_add(self.patience.0) <= until;
        let asked = (self.unanswered > 0).then_some(self.probed.0);
        let waits = [Some(now), self.stuck_since, asked];
        !self.dead && self.window.survives(times) && !waits.into_iter().flatten().any(given_up)
    }

    /// It is given up.
    pub(crate) fn bury(&mut self, outbox: &mut Outbox) {
        self.dead = true;
        self.stuck_since = None;
        self.window.abandon(self.queued);
        outbox.abandon(self.bit);
    }

    /// When it next has something to do, unless a frame comes.
    pub(crate) fn next_event(&self, now: Nanos) -> Option<Nanos> {
        if self.dead {
            return None;
        }
        let resume = Some(self.window.rnr_until()).filter(|&at| at > now && self.window.is_open(self.queued));
        let events = [
            self.window.ack_deadline(),
            resume,
            self.give_up_at(),
            self.paced(now),
            self.rate.next_timeout(),
        ];
        events.into_iter().flatten().min()
    }

    /// When it is given up, unless it makes progress.
    fn give_up_at(&self) -> Option<Nanos> {
        self.stuck_since.map(|since| since.saturating_add(self.patience()))
    }

    /// What a packet that was just sent may have moved forward of [`Self::next_event`]; without end: nothing.
    #[inline]
    pub(crate) fn next_event_of_sent(&self, ack_req: bool, now: Nanos) -> Nanos {
        let paced = if self.is_slowed() {
            let events = [self.paced(now), self.rate.next_timeout()];
            events.into_iter().flatten().min().unwrap_or(Nanos::MAX)
        } else {
            Nanos::MAX
        };
        let overdue = if ack_req { self.window.ack_deadline() } else { None };
        overdue.map_or(paced, |at| at.min(paced))
    }

    /// A contribution came so long after the first of its number.
    pub(crate) fn measure(&mut self, lag: Nanos) {
        let (average, most) = &mut self.lag;
        *average = *average - *average / 8 + lag / 8;
        *most = lag.max(*most);
    }

    /// Everything that decides what it does next.
    #[cfg(test)]
    pub(crate) fn hash_state(&self, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;
        let Self { order, cursor, window, queued, oldest, next, known, dead, .. } = self;
        (order, cursor, window, queued, oldest, next, known, dead).hash(hasher);
    }
}
