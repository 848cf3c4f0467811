//! A rank: a host that contributes to a sum and checks every bit of the result.
//!
//! It is the RC endpoint of [`weir_endpoint::roce`] with payloads, as of stock verbs: SENDs of one packet each, a receive buffer
//! for every result. Element i of message m of rank r is `base(m, i) * (r + 1)`, so the sum over n ranks is
//! `base(m, i) * n (n + 1) / 2`, both modulo 2^32.

use weir_dataplane::pfc::react::{ReactConfig, Reaction};
use weir_dataplane::types::Nanos;
use weir_endpoint::dcqcn::firmware::{Dcqcn, RateController};
use weir_endpoint::flow::{Arrival, Flow, Pace, Received, Sent};
use weir_endpoint::roce::cq::CqId;
use weir_endpoint::roce::hca::{Event, Failure, Hca, TxKind};
use weir_endpoint::roce::memory::Access;
use weir_endpoint::roce::qp::{Path, QpConfig};
use weir_endpoint::roce::verbs::{Completion, RecvWr, SendOp, SendWr, Sge, Verb};
use weir_endpoint::roce::wire::Qpn;
use weir_inc::immediate::{Immediate, Status};

/// First registered address.
const BASE: u64 = 0x1_0000;

/// What a rank is made with.
pub(in crate::fabric) struct RankConfig {
    /// Number of its queue pair.
    pub qpn: Qpn,
    /// The way to its engine.
    pub path: Path,
    pub rank: u16,
    pub ranks: u16,
    /// Messages it may be ahead of its results.
    pub window: u32,
    pub cnp_interval: Nanos,
    pub flow: Flow,
}

/// A rank.
#[derive(Debug)]
pub(in crate::fabric) struct Rank {
    hca: Hca,
    cq: CqId,
    qpn: Qpn,
    lkey: u32,
    rank: u16,
    ranks: u16,
    window: u64,
    flow: Flow,
    control: Option<RateController>,
    reaction: Reaction,
    begun: bool,
    posted: u64,
    acknowledged: u64,
    results: u64,
    received: Received,
    cnps: u64,
    error: Option<String>,
    /// What time has brought, not a frame: a failure.
    late: Option<Arrival>,
    /// The last look found something to send.
    sending: bool,
}

/// The word all contributions to element `i` of message `m` are multiples of.
fn base(m: u64, i: usize) -> u32 {
    let word = (m << 12 ^ i as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> 32) as u32
}

/// Whether these are `factor` times the base, element by element.
fn is_multiple(bytes: &[u8], m: u64, factor: u32) -> bool {
    let (words, rest) = bytes.as_chunks::<4>();
    let right = |(i, word): (usize, &[u8; 4])| u32::from_be_bytes(*word) == base(m, i).wrapping_mul(factor);
    rest.is_empty() && words.iter().enumerate().all(right)
}

impl Rank {
    /// A rank that is connected and does not send yet. `None`: a value that was not checked.
    /// `rate`: of its line, bit/s. `obey`: PFC priorities, one bit each.
    pub fn new(config: &RankConfig, rate: u64, obey: u8) -> Option<Self> {
        let &RankConfig { qpn, path, rank, ranks, window, cnp_interval, flow } = config;
        let mut hca = Hca::with_first_qpn(qpn.0);
        let depth = window as usize;
        // A send and a receive of each message, no completion is lost.
        let cq = hca.create_cq(2 * depth + 1);
        let access = Access { local_write: true, ..Access::default() };
        let region = vec![0; 2 * depth * usize::from(flow.payload)];
        let lkey = hca.register(BASE, region, access)?.lkey;
        let control = match flow.pace {
            Pace::Dcqcn(params) => Some(RateController::new(&Dcqcn::plain(params), 0).ok()?),
            Pace::Scheme { dcqcn, .. } => Some(RateController::new(&dcqcn, 0).ok()?),
            Pace::Line | Pace::Fixed(_) | Pace::Acks(_) => None,
        };
        let qp = QpConfig {
            mtu: flow.payload,
            window,
            sq_depth: depth,
            rq_depth: depth,
            ack_timeout: flow.timeout,
            cnp_interval,
            rate: match flow.pace {
                Pace::Fixed(own) => own,
                _ => rate,
            },
            ..QpConfig::new(cq, cq)
        };
        let made = hca.create_qp(qp).ok()?;
        let mut new = Self {
            hca,
            cq,
            qpn: made,
            lkey,
            rank,
            ranks,
            window: u64::from(window),
            flow,
            control,
            reaction: Reaction::new(ReactConfig::host(rate, obey)),
            begun: false,
            posted: 0,
            acknowledged: 0,
            results: 0,
            received: Received::default(),
            cnps: 0,
            error: None,
            late: None,
            sending: false,
        };
        (0..new.window).for_each(|slot| new.post_receive(slot));
        new.hca.connect(made, path).ok()?;
        new.apply_rate();
        Some(new)
    }

    /// It sends from now on.
    pub fn begin(&mut self) {
        self.begun = true;
    }

    fn messages(&self) -> u64 {
        self.flow.bytes.div_ceil(u64::from(self.flow.payload))
    }

    /// Bytes of message `m`.
    fn len(&self, m: u64) -> u32 {
        let payload = u64::from(self.flow.payload);
        (self.flow.bytes - m * payload).min(payload) as u32
    }

    /// A slot of the sending (0) or receiving (1) half.
    fn sge(&self, half: u64, slot: u64, len: u32) -> Sge {
        let addr = BASE + (half * self.window + slot) * u64::from(self.flow.payload);
        Sge { lkey: self.lkey, addr, len }
    }

    fn post_receive(&mut self, slot: u64) {
        let sge = self.sge(1, slot, self.flow.payload.into());
        let posted = self.hca.post_recv(self.qpn, RecvWr { wr_id: slot, sge });
        debug_assert!(posted.is_ok() || self.error.is_some());
    }

    fn post_sends(&mut self) {
        while self.begun
            && self.error.is_none()
            && self.posted < self.messages()
            && self.posted - self.results.min(self.acknowledged) < self.window
        {
            let m = self.posted;
            let sge = self.sge(0, m % self.window, self.len(m));
            let factor = u32::from(self.rank) + 1;
            if let Some(bytes) = self.hca.memory_mut(sge) {
                for (i, word) in bytes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                    *word = base(m, i).wrapping_mul(factor).to_be_bytes();
                }
            }
            if self.hca.post_send(self.qpn, SendWr { wr_id: m, op: SendOp::Send, sge }).is_err() {
                return;
            }
            self.posted += 1;
        }
    }

    /// A result, or the word that there will be none.
    fn result(&mut self, completion: &Completion, now: Nanos) -> Option<Arrival> {
        let word = completion.imm.and_then(Immediate::decode);
        if let Some(Immediate::Failed(why, rank)) = word {
            return self.fail(format!("the job failed: {} (rank {rank})", why.name()), now);
        }
        let (m, n) = (self.results, u32::from(self.ranks));
        let whole = matches!(word, Some(Immediate::Status(Status { count, .. })) if count == self.ranks);
        let sge = self.sge(1, completion.wr_id, completion.len);
        let bytes = self.hca.memory(sge)?;
        let factor = (u64::from(n) * (u64::from(n) + 1) / 2) as u32;
        if completion.len != self.len(m) || !whole || !is_multiple(bytes, m, factor) {
            return self.fail(format!("result {m} is wrong"), now);
        }
        self.results += 1;
        self.received.packets += 1;
        self.received.bytes += u64::from(completion.len);
        self.post_receive(completion.wr_id);
        let last = self.results == self.messages();
        if last {
            self.received.ended = Some(now);
        }
        let bytes = completion.len.into();
        Some(Arrival { flow: self.flow.id, bytes, delivered: last, ended: last.into() })
    }

    /// Nothing more will come.
    fn fail(&mut self, why: String, now: Nanos) -> Option<Arrival> {
        if self.error.is_some() || self.received.ended.is_some() {
            return None;
        }
        self.error = Some(why);
        self.received.missing = self.messages() - self.results;
        self.received.ended = Some(now);
        Some(Arrival { flow: self.flow.id, bytes: 0, delivered: false, ended: 1 })
    }

    /// A PFC frame came to its host.
    pub fn handle_pause(&mut self, bytes: &[u8], now: Nanos) {
        self.reaction.receive(bytes, now);
    }

    /// Takes a frame from the wire; what it brought.
    pub fn handle_frame(&mut self, bytes: &[u8], now: Nanos) -> Option<Arrival> {
        self.hca.handle_frame(bytes, now);
        self.collect(now)
    }

    fn collect(&mut self, now: Nanos) -> Option<Arrival> {
        let mut arrival: Option<Arrival> = None;
        while let Some(event) = self.hca.poll_event() {
            match event {
                Event::Cnp(_) => {
                    self.cnps += 1;
                    if let Some(control) = &mut self.control {
                        control.on_cnp(now);
                        self.apply_rate();
                    }
                }
                Event::QpFailed(_, failure) => {
                    let why = match failure {
                        Failure::Request(status) => format!("its queue pair failed: {status:?}"),
                        Failure::Response => {
                            "its queue pair failed: a request of the engine was refused".into()
                        }
                    };
                    arrival = self.fail(why, now).or(arrival);
                }
            }
        }
        while let Some(completion) = self.hca.poll_cq(self.cq) {
            if completion.status != weir_endpoint::roce::verbs::Status::Success {
                continue; // The failure of the queue pair is an event of its own.
            }
            if completion.verb == Verb::Recv {
                let more = self.result(&completion, now);
                arrival = match (arrival, more) {
                    (Some(a), Some(b)) => Some(Arrival { bytes: a.bytes + b.bytes, ..b }),
                    (a, b) => b.or(a),
                };
            } else {
                self.acknowledged += 1;
            }
        }
        arrival
    }

    fn apply_rate(&mut self) {
        if let Some(control) = &self.control {
            let allowed = control.allowance();
            self.hca.set_rate(self.qpn, allowed.rate);
            self.hca.set_outstanding(self.qpn, allowed.outstanding);
        }
    }

    /// The next frame to put on the wire.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Vec<u8>> {
        self.hca.set_paused(self.reaction.paused_mask(now));
        if let Some(control) = &mut self.control
            && control.next_timeout().is_some_and(|due| due <= now)
        {
            control.handle_timeout(now);
            self.apply_rate();
        }
        self.hca.handle_timeout(now);
        self.late = self.collect(now).or(self.late);
        self.post_sends();
        let frame = self.hca.poll_transmit(now).map(|tx| (tx.kind, tx.bytes.to_vec()));
        if let Some((TxKind::Data, bytes)) = &frame
            && let Some(control) = &mut self.control
        {
            control.on_sent(bytes.len() as u64, now);
            self.apply_rate();
        }
        self.sending = frame.is_some();
        frame.map(|(_, bytes)| bytes)
    }

    /// A failure that time has brought.
    pub fn take_late(&mut self) -> Option<Arrival> {
        self.late.take()
    }

    /// Earliest time after which [`Self::poll_transmit`] may have a frame if nothing arrives until then.
    pub fn next_transmit(&self, now: Nanos) -> Option<Nanos> {
        if self.sending {
            return Some(now);
        }
        let control = self.control.as_ref().and_then(RateController::next_timeout);
        let timers = [self.hca.next_timeout_after(now), control, Some(self.reaction.next_expiry())];
        timers.into_iter().flatten().filter(|at| *at > now && *at != Nanos::MAX).min()
    }

    /// What it has sent, and the rate it may send at.
    pub fn sent(&self) -> (Sent, Option<u64>) {
        let counters = self.hca.counters();
        let sent = Sent {
            packets: counters.tx_data,
            resent: counters.tx_retransmitted,
            timeouts: counters.timeouts,
            ..Sent::default()
        };
        (sent, self.control.as_ref().map(RateController::rate))
    }

    /// What it has received.
    pub fn received(&self) -> Received {
        let counters = self.hca.counters();
        Received {
            useless: counters.rx_duplicates + counters.rx_out_of_sequence,
            marked: counters.rx_ce,
            cnps: self.cnps,
            naks: counters.tx_nak_sequence,
            ..self.received
        }
    }

    /// It may have sent all there is to be sent.
    pub fn has_sent(&self) -> bool {
        self.posted == self.messages()
    }

    /// It does not fail by itself if it has to send again so often without progress.
    pub fn survives(&self, times: u64) -> bool {
        self.error.is_none() && self.hca.survives(times)
    }

    /// Why nothing more will come.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Frames that belong to nothing.
    pub fn unexpected(&self) -> u64 {
        let counters = self.hca.counters();
        counters.rx_no_matching_qp + counters.rx_malformed + counters.rx_bad_icrc + counters.rx_not_roce
    }
}
