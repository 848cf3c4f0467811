//! What a run came to. Serialises to JSON that explains itself; flows and ports also as CSV, flows as Parquet, too.

use super::collective_report::{CollectiveResult, CollectiveSummary};
use super::flow_table::{self, FlowsFormat};
use super::latency::Latency;
use super::level::Level;
use super::orders::{OrderResult, PairTrace};
use super::play::Undivided;
use super::reasons;
use super::spec::{FabricSpec, Profile};
use super::timeline::Timeline;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use weir_config::{Diagnostic, MarkPoint, VERSION};
use weir_dataplane::flows::{Cause, FlowId, PortFlows};
use weir_layout::counted;

/// Version of the layout of a report.
pub(crate) const SCHEMA: u32 = 3;

/// Everything about a run. Times in ns, sizes in bytes, rates in bit/s; frame bytes are without FCS, but for those of links.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Version of this layout.
    pub schema: u32,
    /// Version of weir.
    pub weir: &'static str,
    /// `PASS`, or `FAIL` for what `findings` says.
    pub verdict: &'static str,
    /// Everything that should not have happened, a sentence each. Empty: all is well.
    pub findings: Vec<String>,
    /// Name of the spec.
    pub name: String,
    /// Whose switches and hosts: `weir` or `ns3-hpcc`.
    pub profile: &'static str,
    /// Whether frames were played; absent: they were. At flow level there are no frames, so none is lost, marked or waits, and
    /// neither switches nor hosts have anything to say; at hybrid level they are those of the flows that were played.
    #[serde(skip_serializing_if = "Level::is_packet")]
    pub level: Level,
    /// Hash of the spec with all its defaults.
    pub config_hash: String,
    /// Its seed.
    pub seed: u64,
    /// Units of what follows.
    pub units: &'static str,
    /// Virtual time at the end, ns.
    pub end_ns: u64,
    /// Whether the run was told to stop before its end: what follows is of the time up to there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// Why one thread played it, if more were allowed: not of the result, which is the same for any number.
    #[serde(skip)]
    pub undivided: Option<Undivided>,
    /// Events played.
    pub events: u64,
    /// Flows that have an end, and those of them that were delivered: every byte arrived.
    pub flows_finite: usize,
    /// See `flows_finite`.
    pub flows_done: usize,
    /// Payload bytes that nobody sends again and that never arrived: RC Link in LITE mode, unreliable flows.
    pub bytes_lost: u64,
    /// Flow completion times: start to last byte in order at the receiver.
    pub fct_ns: Option<Spread>,
    /// Completion time over that of the same flow alone on its path, in thousandths.
    pub slowdown_milli: Option<Spread>,
    /// Frames put on links by hosts and switches, each once per link: data, acknowledgements and notifications, not pauses.
    pub frames_sent: u64,
    /// Of those, frames lost on links.
    pub frames_lost: u64,
    /// Frames dropped by switches.
    pub frames_dropped: u64,
    /// Of those dropped by switches, frames of lossless classes, and those of them the watchdog dropped, as it was told to.
    pub lossless_drops: u64,
    /// See `lossless_drops`.
    pub lossless_drops_watchdog: u64,
    /// Frames every switch lost count of, added up: 0, or weir is wrong.
    pub conservation_error: u64,
    /// Switches that in the end waited for each other in a circle, each for the next and the last for the
    /// first: a PFC deadlock. Or hosts, each of which can send no response until the next reads a request, and reads none until it
    /// can send one; or one host that itself holds back the acknowledgements its responses wait for. Empty: none.
    pub deadlock: Vec<String>,
    /// Why there was no PFC, no mark, or a drop: a sentence each. Then what the configuration of switches warns of.
    pub why: Vec<String>,
    /// The same warnings with their places in the file.
    #[serde(skip)]
    pub warnings: Vec<Diagnostic>,
    /// Flows, in the order of their numbers.
    pub flows: Vec<FlowResult>,
    /// Switches.
    pub switches: Vec<SwitchResult>,
    /// Hosts.
    pub hosts: Vec<HostResult>,
    /// Links, both directions.
    pub links: Vec<LinkResult>,
    /// Collectives, in the order of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub collectives: Vec<CollectiveResult>,
    /// What computations had not ended, in a sentence; absent: all had. Of `findings`, too.
    #[serde(skip)]
    pub unfinished: Option<String>,
    /// Who is held back for nothing at the end, a sentence for each switch and priority. Of `findings`, too, if flows wait.
    #[serde(skip)]
    pub held_for_nothing: Vec<String>,
    /// What came of orders to queue pairs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<OrderResult>,
    /// What orders had recorded of queue pairs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<PairTrace>,
    /// Recorded over time, if asked for.
    pub samples: Vec<Sample>,
    /// The course of the run.
    pub timeline: Timeline,
    /// Where the time of frames went, with `latency = true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

/// A run in a few numbers, for comparing many.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// See [`Report::verdict`].
    pub verdict: &'static str,
    /// See [`Report::level`].
    #[serde(skip_serializing_if = "Level::is_packet")]
    pub level: Level,
    /// See [`Report::findings`].
    pub findings: Vec<String>,
    /// See [`Report::bytes_lost`].
    pub bytes_lost: u64,
    /// See [`Report::end_ns`].
    pub end_ns: u64,
    /// See [`Report::events`].
    pub events: u64,
    /// See [`Report::flows_finite`].
    pub flows_finite: usize,
    /// See [`Report::flows_finite`].
    pub flows_done: usize,
    /// When the last of the flows that have an end was delivered, ns; absent: not all were, or there were none.
    pub completion_ns: Option<u64>,
    /// See [`Report::fct_ns`].
    pub fct_ns: Option<Spread>,
    /// See [`Report::slowdown_milli`].
    pub slowdown_milli: Option<Spread>,
    /// Mean time of frames with payload from line to hands, ns, with `latency = true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_delay_mean_ns: Option<u64>,
    /// Payload bytes delivered, all flows.
    pub delivered_bytes: u64,
    /// See [`Report::frames_sent`]; absent, like all of frames and queues that follows: flow level has none.
    pub frames_sent: Option<u64>,
    /// See [`Report::frames_sent`].
    pub frames_lost: Option<u64>,
    /// See [`Report::frames_sent`].
    pub frames_dropped: Option<u64>,
    /// See [`Report::lossless_drops`].
    pub lossless_drops: Option<u64>,
    /// Frames sent again.
    pub frames_resent: Option<u64>,
    /// See [`Report::pauses`].
    pub pfc_pauses: Option<u64>,
    /// See [`Report::host_pfc`]; absent: they sent none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_pfc_frames: Option<u64>,
    /// Longest time one host was held back, ns.
    pub host_paused_ns: Option<u64>,
    /// See [`Report::marks`].
    pub ecn_marks: Option<u64>,
    /// See [`Report::queue_max`].
    pub queue_max_bytes: Option<u64>,
    /// Largest mean depth of a port's queues, if measured.
    pub queue_mean_bytes: Option<u64>,
    /// Most headroom bytes a group held.
    pub headroom_peak_bytes: Option<u64>,
    /// See [`Report::deadlock`].
    pub deadlock: Vec<String>,
    /// See [`Report::why`].
    pub why: Vec<String>,
    /// See [`Report::collectives`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub collectives: Vec<CollectiveSummary>,
}

/// A distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Number of values.
    pub count: u64,
    /// Mean, rounded down.
    pub mean: u64,
    /// Smallest.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest.
    pub max: u64,
}

impl Spread {
    /// Of these values; `None` of none.
    pub fn of(mut values: Vec<u64>) -> Option<Self> {
        values.sort_unstable();
        let n = values.len();
        let (&min, &max) = (values.first()?, values.last()?);
        // Nearest rank, in thousandths.
        let rank = |q: usize| values[(n * q).div_ceil(1000).clamp(1, n) - 1];
        let sum: u128 = values.iter().map(|v| u128::from(*v)).sum();
        Some(Self {
            count: n as u64,
            mean: (sum / n as u128) as u64,
            min,
            p50: rank(500),
            p90: rank(900),
            p99: rank(990),
            p999: rank(999),
            max,
        })
    }
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowResult {
    /// Number.
    pub id: u32,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// Payload bytes; absent: endless.
    pub bytes: Option<u64>,
    /// When it could first send; absent: it never came to that.
    pub start_ns: Option<u64>,
    /// Start to last byte, of all before it, too; absent: not delivered.
    pub fct_ns: Option<u64>,
    /// What it takes alone on its path; absent: endless.
    pub ideal_ns: Option<u64>,
    /// Payload bytes delivered, each once; in order but with `transport = "selective_repeat"`.
    pub delivered: u64,
    /// Payload bytes that were lost on the way and that nobody sends again.
    pub lost: u64,
    /// Frames sent, again or for the first time.
    pub packets: u64,
    /// Frames sent again; of a rank, results that its engine sent again, too.
    pub resent: u64,
    /// Frames that arrived out of turn or twice and were thrown away; absent: not counted.
    pub useless: Option<u64>,
    /// Frames that arrived marked, of a rank at its engine and at itself; absent: not counted.
    pub marked: Option<u64>,
    /// CNPs sent by the receiver; absent: not counted.
    pub cnps: Option<u64>,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Times the last frame was sent again to ask what had arrived; absent: never.
    #[serde(skip_serializing_if = "is_none")]
    pub probes: u64,
    /// Rate the sender was allowed at the end; absent: the link's.
    pub rate_bps: Option<u64>,
    /// Whether its frames were played; absent: those of all flows were, or of none (see [`Report::level`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// Why a rank gets no more results; absent: it gets them, or is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl FlowResult {
    /// When it was delivered, ns; `None`: it was not.
    pub(super) fn end_ns(&self) -> Option<u64> {
        self.start_ns?.checked_add(self.fct_ns?)
    }

    /// Its completion time over what it takes alone, in thousandths; `None`: not delivered.
    pub fn slowdown_milli(&self) -> Option<u64> {
        Some(slowdown_milli(self.fct_ns?, self.ideal_ns?))
    }
}

/// What took `fct_ns` over `ideal_ns`, in thousandths, rounded up: 1000 is as fast as alone.
pub(crate) fn slowdown_milli(fct_ns: u64, ideal_ns: u64) -> u64 {
    u64::try_from((u128::from(fct_ns) * 1000).div_ceil(ideal_ns.max(1).into())).unwrap_or(u64::MAX)
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// One port of a switch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PortResult {
    /// Number.
    pub port: usize,
    /// Node at the other end.
    pub peer: String,
    /// Data frames received and sent.
    pub rx_frames: u64,
    /// See `rx_frames`.
    pub tx_frames: u64,
    /// Bytes waiting in all its queues at most.
    pub queue_max: u64,
    /// Mean over time from `measure_from` on; absent: not measured, as where the run ended before.
    pub queue_mean: Option<u64>,
    /// Frames it marked.
    pub marked: u64,
    /// Frames dropped, by reason.
    pub drops: BTreeMap<&'static str, u64>,
    /// PFC frames sent that pause a priority or more (refreshes counted).
    pub pfc_tx_xoff: u64,
    /// PFC frames sent that resume a priority or more; one that does both is among both.
    pub pfc_tx_xon: u64,
    /// PFC frames received.
    pub pfc_rx: u64,
    /// Time it held its peer back, longest priority, ns; absent: not measured.
    pub tx_paused_ns: Option<u64>,
    /// Time it was held back, longest priority, ns; absent: not measured.
    pub rx_paused_ns: Option<u64>,
    /// Most shared bytes a lossless group held.
    pub pg_peak: u64,
    /// Most headroom bytes that were held by the lossless group that came nearest to holding all of its own.
    pub headroom_peak: u64,
    /// Headroom of that group, of the largest if none was used, bytes.
    pub headroom: u64,
    /// What it receives into, where each input has a memory of its own; absent: that of the switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<InputMemory>,
    /// Storms the watchdog saw.
    pub storms: u64,
    /// Its queues that have a marking profile.
    #[serde(skip)]
    pub marking: Vec<MarkingQueue>,
    /// The flows behind marks, losses, pauses and depth, most of each first; absent: `[flows]` is not enabled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowShare>,
}

/// A queue with a marking profile.
#[derive(Clone, Debug, PartialEq)]
pub struct MarkingQueue {
    /// Its number.
    pub queue: usize,
    /// Bytes of frames that it held at most, as its marking counts them, if `is_alone`; else it held no more: the peak of all queues of the
    /// port at once and, but for crossbars, what it was charged at most bound it.
    pub depth: u64,
    /// No other queue of the port has held anything.
    pub is_alone: bool,
    /// Frames that its marking chose, whether they could be marked or not.
    pub chosen: u64,
    /// Where marking begins: Kmin, with a `pmax` of 0 Kmax.
    pub begins: u64,
    /// Not all that is beyond that is marked.
    pub is_drawn: bool,
    /// What is compared with that.
    pub mark: MarkPoint,
}

/// What a flow is behind at a port of a switch, over the whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowShare {
    /// `mark`, `drop`, `pause` or `depth`.
    pub cause: &'static str,
    /// Queue, or priority group.
    pub priority: u8,
    /// Why frames were dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// Addresses and queue pair.
    pub flow: String,
    /// Part of all there was of this cause at the port, at least: 1000 is all.
    pub share_milli: u64,
}

impl FlowShare {
    /// Flows of each cause that are listed.
    const LISTED: usize = 10;

    /// Those with most of each cause; the parts of a crossbar have seen each a part of the port.
    pub fn of(parts: &[&PortFlows]) -> Vec<Self> {
        let of_cause = |cause: &Cause| {
            let all = || parts.iter().map(|part| &part.current);
            let total = all().map(|seen| seen.totals[*cause as usize]).sum::<u64>().max(1);
            let mut sums: BTreeMap<[u64; 6], u64> = BTreeMap::new();
            for flow in all().flat_map(|seen| seen.flows[*cause as usize].flows()) {
                *sums.entry(flow.id.0).or_default() += flow.count - flow.over;
            }
            let mut flows: Vec<_> = sums.into_iter().map(|(id, least)| (least, FlowId(id))).collect();
            flows.sort_by_key(|(least, _)| std::cmp::Reverse(*least));
            flows.truncate(Self::LISTED);
            let share = |(least, id): (u64, FlowId)| Self {
                cause: cause.word(),
                priority: id.place().priority,
                reason: id.place().reason.map(|reason| reason.name()),
                flow: id.to_string(),
                share_milli: (u128::from(least) * 1000 / u128::from(total)) as u64,
            };
            flows.into_iter().map(share).collect::<Vec<_>>()
        };
        Cause::ALL.iter().flat_map(of_cause).collect()
    }
}

/// One switch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SwitchResult {
    /// Name.
    pub name: String,
    /// Buffer and what of it is shared, bytes. Behind a crossbar each input has as much buffer, and this is the least that one shares.
    pub buffer: u64,
    /// See `buffer`.
    pub shared: u64,
    /// The headroom that its groups share; absent: each has its own. Behind a crossbar it is that of the input with the fullest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headroom_pool: Option<HeadroomPool>,
    /// Ports.
    pub ports: Vec<PortResult>,
}

impl SwitchResult {
    /// What one of its ports receives into.
    pub fn memory_of(&self, port: &PortResult) -> InputMemory {
        let Self { shared, headroom_pool, .. } = *self;
        port.memory.unwrap_or(InputMemory { shared, headroom_pool })
    }
}

/// A memory that frames are received into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct InputMemory {
    /// What of it is shared, bytes.
    pub shared: u64,
    /// The headroom that its groups share; absent: each has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headroom_pool: Option<HeadroomPool>,
}

/// A headroom pool, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HeadroomPool {
    /// Its size.
    pub size: u64,
    /// Most that was in use at once.
    pub peak: u64,
}

/// One host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostResult {
    /// Name.
    pub name: String,
    /// Its first address.
    pub mac: String,
    /// Time each priority was held back, ns.
    pub paused_ns: [u64; 8],
    /// Times each priority was held back.
    pub pauses: [u64; 8],
    /// PFC frames received.
    pub pfc_rx: u64,
    /// PFC frames sent, for a receive memory that fills (RC Link).
    pub pfc_tx: u64,
    /// Most bytes in receive memories (RC Link).
    pub memory_peak: u64,
    /// Frames it threw away because a receive memory was full (RC Link).
    pub no_room: u64,
    /// Time a message of each virtual channel waited for credits, ns (RC Link).
    pub credit_wait_ns: [u64; 8],
    /// Frames that belong to no flow.
    pub unexpected: u64,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkResult {
    /// Sender.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// Port of the sender, by which links between the same two are told apart; 0 of a host.
    pub from_port: usize,
    /// Port of the receiver; 0 of a host.
    pub to_port: usize,
    /// bit/s.
    pub rate_bps: u64,
    /// Frames sent, control included.
    pub frames: u64,
    /// Their bytes on the wire: with preamble, FCS and gap.
    pub bytes: u64,
    /// Share of the run in which it was busy, in thousandths.
    pub busy_milli: u64,
    /// Data frames lost by its `loss`.
    pub lost: u64,
    /// Data frames lost because it was down.
    pub lost_down: u64,
    /// PFC frames lost.
    pub lost_pauses: u64,
    /// Share of the run at flow level in which it had several flows and was the bottleneck of one of them, in thousandths, rounded up;
    /// absent: flow level alone knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bottleneck_milli: Option<u64>,
}

/// The state at one instant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// When, ns.
    pub at_ns: u64,
    /// Payload bytes each flow has delivered so far.
    pub delivered: Vec<u64>,
    /// Bytes waiting in the fullest port of each switch.
    pub queues: Vec<u64>,
}

impl Report {
    /// What is known of a run before it is looked at: nothing but its identity.
    pub(super) fn begin(spec: &FabricSpec, end_ns: u64, events: u64) -> Self {
        Self {
            schema: SCHEMA,
            verdict: "",
            findings: Vec::new(),
            bytes_lost: 0,
            weir: VERSION,
            name: spec.name.clone(),
            profile: match spec.profile {
                Profile::Weir => "weir",
                Profile::Ns3Hpcc => "ns3-hpcc",
            },
            level: spec.level,
            config_hash: spec.hash(),
            seed: spec.seed,
            units: "_ns: nanoseconds; _bps: bit/s; _milli: thousandths; queue, headroom, delivered, buffer: bytes; \
                    frame bytes are without FCS, bytes of links with it, preamble and gap; null: not measured",
            end_ns,
            stopped: false,
            undivided: None,
            events,
            flows_finite: 0,
            flows_done: 0,
            fct_ns: None,
            slowdown_milli: None,
            frames_sent: 0,
            frames_lost: 0,
            frames_dropped: 0,
            lossless_drops: 0,
            lossless_drops_watchdog: 0,
            conservation_error: 0,
            deadlock: Vec::new(),
            why: Vec::new(),
            warnings: Vec::new(),
            flows: Vec::new(),
            switches: Vec::new(),
            hosts: Vec::new(),
            links: Vec::new(),
            collectives: Vec::new(),
            unfinished: None,
            held_for_nothing: Vec::new(),
            orders: Vec::new(),
            traces: Vec::new(),
            samples: Vec::new(),
            timeline: Timeline::default(),
            latency: None,
        }
    }

    /// The run in a few numbers.
    pub fn summary(&self) -> Summary {
        let of_frames = |count: u64| self.level.has_frames().then_some(count);
        Summary {
            verdict: self.verdict,
            level: self.level,
            findings: self.findings.clone(),
            bytes_lost: self.bytes_lost,
            end_ns: self.end_ns,
            events: self.events,
            flows_finite: self.flows_finite,
            flows_done: self.flows_done,
            completion_ns: completion(self.flows.iter().map(|f| (f.bytes, f.start_ns, f.fct_ns))),
            fct_ns: self.fct_ns,
            slowdown_milli: self.slowdown_milli,
            frame_delay_mean_ns: self.latency.as_ref().map(|l| l.end_to_end[0].total.mean_ps / 1000),
            delivered_bytes: self.flows.iter().map(|f| f.delivered).sum(),
            frames_sent: of_frames(self.frames_sent),
            frames_lost: of_frames(self.frames_lost),
            frames_dropped: of_frames(self.frames_dropped),
            lossless_drops: of_frames(self.lossless_drops),
            frames_resent: of_frames(self.flows.iter().map(|f| f.resent).sum()),
            pfc_pauses: of_frames(self.pauses()),
            host_pfc_frames: Some(self.host_pfc()).filter(|frames| *frames > 0),
            host_paused_ns: of_frames(self.hosts.iter().flat_map(|h| h.paused_ns).max().unwrap_or(0)),
            ecn_marks: of_frames(self.marks()),
            queue_max_bytes: of_frames(self.queue_max()),
            queue_mean_bytes: self.ports().filter_map(|(_, p)| p.queue_mean).max(),
            headroom_peak_bytes: of_frames(self.ports().map(|(_, p)| p.headroom_peak).max().unwrap_or(0)),
            deadlock: self.deadlock.clone(),
            why: self.why.clone(),
            collectives: self.collectives.iter().map(CollectiveResult::summary).collect(),
        }
    }

    /// First lines of a table: what it is of, so that the file explains itself.
    fn csv_head(&self, what: &str) -> String {
        let Self { weir, name, profile, seed, config_hash, units, .. } = self;
        let name = name.replace(['\n', '\r'], " ");
        let early = self.early_end().map_or(String::new(), |early| format!("# {early}\n"));
        format!(
            "{TABLE}{weir}, {what} of `{name}`; profile {profile}; seed {seed}; config {config_hash}\n{early}# units: {units}\n"
        )
    }

    /// Fills in what is said in sentences.
    pub(super) fn explained(mut self, context: &reasons::Context) -> Self {
        // Pauses that wait for each other where a run was stopped might have ended a moment later.
        if !self.stopped {
            self.deadlock = reasons::switches(&context.circle);
        }
        if self.deadlock.is_empty() {
            self.deadlock = reasons::circle_of_hosts(&self, context);
        }
        self.why = reasons::sentences(&self, context);
        self
    }

    /// Sums up, and says what went wrong.
    pub(super) fn judged(mut self) -> Self {
        let warning =
            |Diagnostic { message, remedy, .. }: &Diagnostic| format!("{message}. Remedy: {remedy}.");
        self.why.extend(self.warnings.iter().map(warning));
        self.bytes_lost = self.flows.iter().map(|f| f.lost).sum();
        self.findings = self.what_went_wrong();
        self.verdict = if self.findings.is_empty() { "PASS" } else { "FAIL" };
        self
    }

    /// What `why` says of the run itself, without the warnings.
    pub fn causes(&self) -> &[String] {
        &self.why[..self.why.len() - self.warnings.len()]
    }

    /// Where the run was stopped, and that this is not all of it.
    pub(super) fn early_end(&self) -> Option<String> {
        self.stopped.then(|| {
            format!(
                "stopped at {} ns, before its end, with {} of {} not delivered yet: all figures are partial",
                self.end_ns,
                self.flows_finite - self.flows_done,
                counted(self.flows_finite, "flow")
            )
        })
    }

    fn what_went_wrong(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.conservation_error > 0 {
            found.push(format!(
                "switches lost count of {}: please report it",
                counted(self.conservation_error, "frame")
            ));
        }
        if !self.deadlock.is_empty() {
            let of_hosts = self.hosts.iter().any(|host| self.deadlock.contains(&host.name));
            let what = match self.deadlock.len() {
                _ if !of_hosts => "PFC deadlock",
                // Who waits for nobody else.
                1 => "deadlock of requests and acknowledgements",
                _ => "deadlock of requests and responses",
            };
            found.push(format!("{what}: {}", self.deadlock.join(" -> ")));
        }
        if self.lossless_drops > 0 {
            found
                .push(format!("switches lost {} of a lossless class", counted(self.lossless_drops, "frame")));
        }
        if self.lossless_drops_watchdog > 0 {
            let count = counted(self.lossless_drops_watchdog, "frame");
            found.push(format!("the watchdog dropped {count} of a lossless class, as it was told to"));
        }
        let open = self.flows_finite - self.flows_done;
        let flows = counted(self.flows_finite, "flow");
        found.extend(self.early_end());
        if open > 0 && !self.stopped {
            let finite = self.flows.iter().filter_map(|f| Some((f.bytes?, f.delivered, f.fct_ns.is_some())));
            let (all, got) =
                finite.filter(|(.., done)| !done).fold((0u64, 0u64), |(all, got), (bytes, delivered, _)| {
                    (all.saturating_add(bytes), got.saturating_add(delivered))
                });
            found.push(format!(
                "{open} of {flows} not delivered by {} ns, {got} of {} arrived",
                self.end_ns,
                counted(all, "byte")
            ));
        }
        found.extend(self.unfinished.clone().filter(|_| !self.stopped));
        if open > 0 && !self.stopped {
            found.extend(self.held_for_nothing.iter().cloned());
        }
        if let Some((flow, error)) = self.flows.iter().find_map(|f| Some((f, f.error.as_ref()?))) {
            let ranks = self.flows.iter().filter(|f| f.error.is_some()).count();
            let ranks = counted(ranks, "rank");
            found.push(format!("{ranks} without all sums; rank on {}: {error}", flow.from));
        }
        if self.bytes_lost > 0 {
            found.push(format!("{} lost that nobody sends again", counted(self.bytes_lost, "byte")));
        }
        for (nth, order) in (1..).zip(&self.orders) {
            if let Some(why) = &order.refused {
                found.push(format!("order {nth} ({} at {} ns): {why}", order.order, order.at_ns));
            }
        }
        found
    }

    /// Every port of every switch.
    pub fn ports(&self) -> impl Iterator<Item = (&SwitchResult, &PortResult)> {
        self.switches.iter().flat_map(|s| s.ports.iter().map(move |p| (s, p)))
    }

    /// Pause frames all switches sent.
    pub fn pauses(&self) -> u64 {
        self.ports().map(|(_, p)| p.pfc_tx_xoff).sum()
    }

    /// PFC frames, pauses and resumes, that all hosts sent, for receive memories that fill (RC Link).
    pub fn host_pfc(&self) -> u64 {
        self.hosts.iter().map(|host| host.pfc_tx).sum()
    }

    /// Frames all switches marked.
    pub fn marks(&self) -> u64 {
        self.ports().map(|(_, p)| p.marked).sum()
    }

    /// Most bytes that ever waited for one port.
    pub fn queue_max(&self) -> u64 {
        self.ports().map(|(_, p)| p.queue_max).max().unwrap_or(0)
    }

    /// The whole report as JSON.
    pub fn to_json(&self) -> String {
        // Strings and numbers only: this cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// All tables by the names of their files; `None`: this run has no such table, or that of flows has another format.
    ///
    /// # Errors
    /// The library that writes columns refuses: a fault of weir.
    pub fn all_tables(&self, flows: FlowsFormat) -> io::Result<[Table; 8]> {
        let (latency, histogram) = self.latency_csv().unzip();
        let (lines, columns) = match flows {
            FlowsFormat::Csv => (Some(self.flows_csv()), None),
            FlowsFormat::Parquet => (None, Some(self.flows_parquet()?)),
        };
        let texts = [
            (FlowsFormat::Csv.file(), lines),
            ("ports.csv", self.ports().next().map(|_| self.ports_csv())),
            ("latency.csv", latency),
            ("latency_histogram.csv", histogram),
            ("collectives.csv", self.collectives_csv()),
            ("traces.csv", self.traces_csv()),
            ("links.csv", self.links_csv()),
        ];
        let [lines, rest @ ..] = texts.map(|(name, text)| (name, text.map(String::into_bytes)));
        let [ports, latency, histogram, collectives, traces, links] = rest;
        let columns = (FlowsFormat::Parquet.file(), columns);
        Ok([lines, columns, ports, latency, histogram, collectives, traces, links])
    }

    /// Those that there are.
    ///
    /// # Errors
    /// See [`Self::all_tables`].
    pub fn tables(&self, flows: FlowsFormat) -> io::Result<Vec<(&'static str, Vec<u8>)>> {
        Ok(self.all_tables(flows)?.into_iter().filter_map(|(name, table)| Some((name, table?))).collect())
    }

    /// The whole report, as page and as JSON, by the names of their files.
    pub fn pages(&self) -> [(&'static str, String); 2] {
        [("report.html", self.to_html()), ("report.json", self.to_json())]
    }

    /// One line per flow.
    pub fn flows_csv(&self) -> String {
        self.csv_head("flows") + &flow_table::csv(&self.flows)
    }

    /// The same in columns, as a Parquet file.
    ///
    /// # Errors
    /// The library that writes it refuses: a fault of weir.
    pub fn flows_parquet(&self) -> io::Result<Vec<u8>> {
        flow_table::parquet(&self.flows, self.weir, &self.csv_head("flows")).map_err(io::Error::other)
    }

    /// Tables of where the time of frames went: distributions, and their histograms; `None`: nobody wanted to know.
    pub fn latency_csv(&self) -> Option<(String, String)> {
        let latency = self.latency.as_ref()?;
        let histogram = self.csv_head("time of frames, ps, by step") + &latency.histogram_csv();
        Some((self.csv_head("time of frames, ps") + &latency.csv(), histogram))
    }

    /// A line for each step of each collective; `None`: there are no collectives.
    pub fn collectives_csv(&self) -> Option<String> {
        let head = "collective,workload,kind,ranks,bytes,time_ns,algbw_bytes_per_s,busbw_bytes_per_s,step,messages,start_ns,end_ns,straggler,cause,late_ns\n";
        let head = self.csv_head("collectives, step by step") + head;
        let lines = self.collectives.iter().zip(0..).flat_map(|(collective, nth)| collective.csv(nth));
        (!self.collectives.is_empty()).then(|| std::iter::once(head).chain(lines).collect())
    }

    /// A line for each event of each record; `None`: nothing was recorded.
    pub fn traces_csv(&self) -> Option<String> {
        let head = self.csv_head("what moved the rates of queue pairs")
            + "host,"
            + weir_endpoint::dcqcn::trace::CSV_HEADER;
        let lines = self.traces.iter().flat_map(PairTrace::csv);
        (!self.traces.is_empty()).then(|| std::iter::once(head).chain(lines).collect())
    }

    /// One line per direction of a link, at flow level; `None`: ports say more.
    pub fn links_csv(&self) -> Option<String> {
        let head =
            self.csv_head("links") + "from,from_port,to,to_port,rate_bps,bytes,busy_milli,bottleneck_milli\n";
        let line = |l: &LinkResult| {
            let LinkResult {
                from,
                from_port,
                to,
                to_port,
                rate_bps,
                bytes,
                busy_milli,
                bottleneck_milli,
                ..
            } = l;
            let held = bottleneck_milli.map_or(String::new(), |n| n.to_string());
            let (from, to) = (quoted(from), quoted(to));
            format!("{from},{from_port},{to},{to_port},{rate_bps},{bytes},{busy_milli},{held}\n")
        };
        let lines = self.links.iter().map(line);
        (!self.level.is_packet()).then(|| std::iter::once(head).chain(lines).collect())
    }

    /// One line per switch port.
    pub fn ports_csv(&self) -> String {
        let head = "switch,port,peer,rx_frames,tx_frames,queue_max_bytes,queue_mean_bytes,marked,drops,\
                    pfc_tx_xoff,pfc_tx_xon,pfc_rx,tx_paused_ns,rx_paused_ns,headroom_peak_bytes,headroom_pool_bytes,\
                    headroom_pool_peak_bytes,end_ns\n";
        let head = self.csv_head("ports") + head;
        let line = |(s, p): (&SwitchResult, &PortResult)| {
            let drops: u64 = p.drops.values().sum();
            let pool = s.memory_of(p).headroom_pool;
            let numbers = [
                Some(p.rx_frames),
                Some(p.tx_frames),
                Some(p.queue_max),
                p.queue_mean,
                Some(p.marked),
                Some(drops),
                Some(p.pfc_tx_xoff),
                Some(p.pfc_tx_xon),
                Some(p.pfc_rx),
                p.tx_paused_ns,
                p.rx_paused_ns,
                Some(p.headroom_peak),
                pool.map(|pool| pool.size),
                pool.map(|pool| pool.peak),
                Some(self.end_ns),
            ];
            let cells: Vec<String> =
                numbers.iter().map(|n| n.map_or(String::new(), |n| n.to_string())).collect();
            format!("{},{},{},{}\n", quoted(&s.name), p.port, quoted(&p.peer), cells.join(","))
        };
        std::iter::once(head).chain(self.ports().map(line)).collect()
    }
}

/// The name of a table's file, and what is in it, if there is such a table.
pub type Table = (&'static str, Option<Vec<u8>>);

/// How a table begins.
const TABLE: &str = "# weir ";

/// Whether a file is a table of a report: it begins like one, or says that weir has written it.
pub fn is_table(path: &Path) -> bool {
    let begins = |mut file: &File| {
        let mut begin = [0; TABLE.len()];
        file.read_exact(&mut begin).is_ok() && begin == *TABLE.as_bytes()
    };
    path.is_file() && File::open(path).is_ok_and(|file| begins(&file) || flow_table::is_parquet(file))
}

/// When the last of the flows that have an end was delivered, from the size, start and completion time of each.
pub(crate) fn completion(
    flows: impl Iterator<Item = (Option<u64>, Option<u64>, Option<u64>)>,
) -> Option<u64> {
    let finite = flows.filter(|(bytes, ..)| bytes.is_some());
    let mut ends = finite.map(|(_, start, fct)| start?.checked_add(fct?));
    ends.try_fold(None, |last: Option<u64>, end| Some(last.max(Some(end?)))).flatten()
}

/// A name of the user's as a CSV cell.
pub(super) fn quoted(name: &str) -> String {
    if name.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.into()
    }
}
