//! A spec played by the ns-3 profile: what it may say, how it is translated, what is reported.

use super::collective::Collectives;
use super::deadlock::{self, Holding};
use super::faults::{Faults, both};
use super::graph::Work;
use super::play::{Progress, bytes_of, lanes, port_names};
use super::policy::model_resumes_at;
use super::reasons::{self, CirclePause};
use super::report::{FlowResult, HostResult, PortResult, Report, Spread, SwitchResult};
use super::routes::Routes;
use super::spec::{Congestion, FabricSpec, Pattern, Topology, check_times};
use super::timeline::TimelineRecorder;
use super::topology::{End, Plan, key_of_loss, lay_out};
use super::units::Size;
use super::workload::{self, Planned, Traffic, flows, is_finite};
use super::{FabricError, congestion, source};
use crate::models::hpcc::Hpcc;
use crate::ns3::config::{Config, Control, FlowSpec, Link, Marking, Topology as Network};
use crate::ns3::port::FrameSizes;
use crate::ns3::record::{PfcReceived, PfcSent, Recorder};
use crate::ns3::sim::Sim;
use crate::ns3::units::transmit_ns;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use weir_config::Tables;
use weir_dataplane::types::{Nanos, PRIORITIES};
use weir_layout::counted;

const EVENTS_PER_STEP: u64 = 1 << 16;

/// Keys about which the profile leaves no choice.
const FIXED: [(&str, &str); 24] = [
    ("inc", "switches have no engines"),
    ("order", "queue pairs have no registers"),
    ("switch.core", "the core of a switch is output-queued"),
    ("switch.iterations", "the core of a switch is output-queued"),
    ("switch.speedup", "the core of a switch is output-queued"),
    ("switch.crossbar_mode", "the core of a switch is output-queued"),
    ("switch.cell", "the core of a switch is output-queued"),
    ("switch.output_buffer", "the core of a switch is output-queued"),
    ("latency", "the time of frames is not split"),
    ("routing", "every switch chooses among equal paths by a hash of the flow"),
    ("failure", "links do not fail"),
    ("measure_from", "mean depths are not measured"),
    ("sample", "the timeline is always recorded"),
    ("link.loss", "links lose nothing"),
    ("link.pause_loss", "links lose nothing"),
    ("trunk.loss", "links lose nothing"),
    ("trunk.pause_loss", "links lose nothing"),
    ("switch.forwarding", "switches store and forward"),
    ("switch.ingress", "switches have no latency of their own"),
    ("switch.crossbar", "switches have no latency of their own"),
    ("switch.egress", "switches have no latency of their own"),
    ("host.pfc_response_delay", "hosts obey at once"),
    ("host.payload", "the payload of a full frame is `ns3.payload`"),
    ("host.ack_every", "every frame is acknowledged"),
];

/// Keys of `[host]` that it leaves a choice about.
const HOST_KEYS: [&str; 5] = ["congestion_control", "window", "hpcc", "timely", "dctcp"];

/// Whether the profile leaves a choice about a key of `[host]`.
pub(super) fn has_a_choice(key: &str) -> bool {
    key.split('.').nth(1).is_some_and(|key| HOST_KEYS.contains(&key))
}

/// What `[switch.config]` may say.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchConfig {
    buffer: Option<Buffer>,
    #[serde(default)]
    wred: Vec<Wred>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Buffer {
    size: Size,
}

/// Marking, of all ports alike.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wred {
    #[serde(rename = "name")]
    _name: Option<String>,
    kmin: Size,
    kmax: Size,
    pmax: String,
}

fn fixed(key: &str, why: &str) -> FabricError {
    FabricError::Profile {
        key: key.into(),
        why: format!("{why}; take the key out, or use profile = \"weir\""),
    }
}

fn check(spec: &FabricSpec) -> Result<(), FabricError> {
    let mut faults = Faults::from_iter([check_times(spec)]);
    let mut refuse = |error| faults.add(error);
    for (key, why) in FIXED.iter().filter(|(key, _)| spec.source.sets(key)) {
        refuse(fixed(key, why));
    }
    if let Topology::Custom(custom) = &spec.topology {
        for (at, link) in custom.links.iter().enumerate() {
            if link.pause_loss > Some(0.0) {
                refuse(fixed(&format!("topology.links.{at}.pause_loss"), "links lose nothing"));
            }
            if link.weight != 1 {
                let why =
                    "every switch chooses among equal paths by a hash of the flow, which knows no weights";
                refuse(fixed(&format!("topology.links.{at}.weight"), why));
            }
        }
    }
    match spec.topology {
        Topology::Direct(_) => refuse(fixed("topology.kind", "a host's neighbour is a switch")),
        Topology::Ring(_) => {
            refuse(fixed("topology.kind", "frames take shortest paths, not one direction"));
        }
        _ => {}
    }
    let of_hosts = spec.source.keys("host").into_iter().filter(|key| !HOST_KEYS.contains(&&**key));
    for key in
        of_hosts.map(|key| format!("host.{key}")).filter(|key| !FIXED.iter().any(|(fixed, _)| fixed == key))
    {
        refuse(fixed(&key, "hosts are those of the reference"));
    }
    let cc = spec.workloads.first().map(|w| w.cc());
    let idle: [(_, &[Congestion], _); 2] = [
        ("ns3.global_t", &[Congestion::None, Congestion::Dcqcn], "knows of no round trip and has no window"),
        ("ns3.rate_bound", &[Congestion::None, Congestion::FixedWindow], "has the rate of the line"),
    ];
    for (key, all, why) in idle {
        if let Some(cc) = cc.filter(|cc| all.contains(cc) && spec.source.sets(key)) {
            let must = format!("absent: congestion_control = {} {why}", cc.word());
            refuse(FabricError::Range { what: key.into(), got: "set".into(), must });
        }
    }
    for (index, w) in spec.workloads.iter().enumerate() {
        let mut wrong = |problem: &str| {
            let problem = format!("{problem} in profile = \"ns3-hpcc\"");
            refuse(FabricError::Workload { index: index + 1, kind: w.kind.word(), problem });
        };
        if !w.reliable || w.rate.is_some() {
            wrong("every flow is reliable and begins at line rate: `reliable`, `rate` cannot be set");
        }
        if w.kind == Pattern::IncAllReduce {
            wrong("switches have no engines");
        }
        if spec.source.sets_in(index, "dscp") {
            wrong("frames have a priority and no DSCP: `dscp` cannot be set");
        }
        if w.bytes.is_none() && w.sizes.is_none() && w.file.is_none() && w.kind != Pattern::AllToAllV {
            wrong("every flow has an end: `bytes` is needed");
        }
        if Some(w.cc()) != cc {
            wrong("congestion control is one setting of the network: all workloads must have the same `cc`");
        }
        if w.priority == 0 {
            wrong("a `priority` of 0 is for PFC and ACKs: data needs 1 to 7");
        }
    }
    faults.keep(congestion::check(spec));
    faults.refuse()
}

/// What `[switch.config]` says, as far as this profile knows it.
fn switch_config(spec: &FabricSpec) -> Result<SwitchConfig, FabricError> {
    let text = toml::to_string(&spec.switch.config).map_err(|e| FabricError::Switch(e.to_string()))?;
    let read = toml::Deserializer::parse(&text).and_then(|text| SwitchConfig::deserialize(Tables(text)));
    read.map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let key = [vec!["switch.config".to_owned()], source::path_in(&text, at)].concat().join(".");
        let error = FabricError::Switch(format!(
            "`{key}`: {}; profile = \"ns3-hpcc\" knows `buffer.size` and `[[wred]]` (kmin, kmax, pmax) only",
            error.message()
        ));
        match spec.source.same_line(&text, at, &["switch", "config"]) {
            None => error,
            line => FabricError::At { file: spec.source.file.clone(), line, error: Box::new(error) },
        }
    })
}

/// `MIN_RATE` of the published presets, bit/s, whatever the line.
const PRESET_MIN_RATE: u64 = 1_000_000_000;

/// The table of `[host]` that tells of a sender driven by acknowledgements, and its lowest rate.
fn min_rate_of(control: &mut Control) -> Option<(&'static str, &mut u64)> {
    match control {
        Control::None | Control::Dcqcn(_) => None,
        Control::Hpcc(params) => Some(("hpcc", &mut params.min_rate_bps)),
        Control::Pint(params) => Some(("hpcc", &mut params.min_rate_bps)),
        Control::Timely(params) => Some(("timely", &mut params.min_rate_bps)),
        Control::Dctcp(params) => Some(("dctcp", &mut params.min_rate_bps)),
    }
}

/// Of links of these rates, and senders on `lines`, the fastest one last.
fn config(spec: &FabricSpec, lines: &[u64], rates: &[u64]) -> Result<Config, FabricError> {
    let given = switch_config(spec)?;
    if given.wred.len() > 1 {
        let (what, got) = ("switch.config.wred.1".into(), "a second marking profile".into());
        return Err(FabricError::Range {
            what,
            got,
            must: "absent: all ports have that of the first".into(),
        });
    }
    let cc = spec.workloads.first().map_or(Congestion::None, |w| w.cc());
    let constants = &spec.ns3;
    constants.check()?;
    let fastest = lines.last().copied().unwrap_or(1);
    let of_line = |line: u64| {
        let (mut control, window) = congestion::published(&spec.host, cc, line, constants.payload.0)?;
        if let Control::Hpcc(params) = &mut control {
            params.int_multi = congestion::published_int_multi(&spec.host, fastest);
        }
        if let (Some((table, min_rate)), true) = (min_rate_of(&mut control), line > PRESET_MIN_RATE)
            && !spec.source.sets(&format!("host.{table}.min_rate"))
        {
            *min_rate = PRESET_MIN_RATE;
        }
        let control = constants.control(control)?;
        congestion::below_line_published(&control, line)?;
        Ok((control, window))
    };
    let (control, window) = of_line(fastest)?;
    let controls = lines.iter().map(|line| Ok((*line, of_line(*line)?.0)));
    let controls = controls.collect::<Result<Vec<_>, FabricError>>()?;
    let percent =
        |text: &str| text.strip_suffix('%').and_then(|n| n.trim().parse().ok()).map(|n: f64| n / 100.0);
    let told = given.wred.first().map(|wred| {
        let pmax = percent(&wred.pmax).filter(|p| (0.0..=1.0).contains(p));
        let pmax = pmax.ok_or_else(|| FabricError::Range {
            what: "switch.config.wred.0.pmax".into(),
            got: wred.pmax.clone(),
            must: "a share such as \"20%\"".into(),
        })?;
        Ok::<_, FabricError>((wred.kmin.0, wred.kmax.0, pmax))
    });
    let told = told.transpose()?;
    // The published presets: 4 and 16 bytes per Mbit/s of the port, and a step at 3.
    let published = |rate: u64| match cc {
        Congestion::Dcqcn => Some((rate / 250_000, rate / 62_500, 0.2)),
        Congestion::Dctcp => Some((rate * 3 / 1_000_000, rate * 3 / 1_000_000, 1.0)),
        _ => None,
    };
    let marking = |rate: u64| {
        let (kmin, kmax, pmax) = told.or_else(|| published(rate))?;
        // No buffer holds more.
        let [kmin, kmax] = [kmin, kmax].map(|bytes| bytes.try_into().unwrap_or(u32::MAX));
        Some(Marking { rate, kmin, kmax, pmax })
    };
    let size = given.buffer.map_or(32 << 20, |b| b.size.0);
    let must = || "at most 4 GiB".into();
    let buffer = u32::try_from(size).map_err(|_| FabricError::Range {
        what: "switch.config.buffer.size".into(),
        got: size.to_string(),
        must: must(),
    })?;
    Ok(Config {
        buffer,
        reserve: constants.reserve.0 as u32,
        resume_offset: constants.resume_offset.0 as u32,
        shift: constants.shift,
        nack_interval: constants.nack_interval.0,
        marking: rates.iter().filter_map(|rate| marking(*rate)).collect(),
        control,
        controls,
        window,
        global_t: constants.global_t,
        rate_bound: constants.rate_bound,
        payload: constants.payload.0 as u32,
        epoch: 2_000_000_000,
        // As in the published presets: without a priority of their own ACKs wait with the data.
        ack_gate: constants.ack_gate.unwrap_or(match control {
            Control::Hpcc(_) | Control::Dctcp(_) | Control::Pint(_) => 3,
            _ => 0,
        }),
        stop: spec.stop_time.0,
        seed: spec.seed,
    })
}

fn network(spec: &FabricSpec, plan: &Plan) -> Network {
    // Nodes of a file are named by a letter and their number there.
    let numbers = match spec.topology {
        Topology::HpccFile(_) => plan.names.iter().filter_map(|name| name.get(1..)?.parse().ok()).collect(),
        _ => Vec::new(),
    };
    let link = |wire: &super::topology::Wire| {
        let [a, b] = wire.ends.map(|end| end.node as u32);
        Link { a, b, rate: wire.spec.rate.0, delay: wire.spec.delay.0 }
    };
    Network {
        hosts: plan.hosts as u32,
        switches: (plan.names.len() - plan.hosts) as u32,
        links: plan.links.iter().map(link).collect(),
        numbers,
    }
}

/// Counts of a port.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    received: u64,
    sent: u64,
    marked: u64,
    refused: u64,
    xoff: u64,
    xon: u64,
    pfc_rx: u64,
    queue_max: u64,
    group_peak: u64,
    headroom_peak: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct FlowCount {
    packets: u64,
    resent: u64,
    delivered: u64,
}

/// Everything that is reported and the network itself does not keep.
struct ReportRecorder {
    hosts: usize,
    /// First number of each switch's ports.
    first: Vec<usize>,
    ports: Vec<Count>,
    flows: Vec<FlowCount>,
    lanes: Vec<usize>,
    paused: Vec<[(Option<Nanos>, Nanos, u64); PRIORITIES]>,
    host_pfc: Vec<u64>,
    /// Acknowledgements that hosts sent.
    answers: u64,
    timeline: TimelineRecorder,
}

fn depth(mmu: &Hpcc, port: usize) -> u64 {
    (0..PRIORITIES).map(|q| u64::from(mmu.egress(port, q))).sum()
}

impl Recorder for ReportRecorder {
    fn pfc_sent(&mut self, e: PfcSent) {
        let at = self.first[e.node as usize - self.hosts] + usize::from(e.port) - 1;
        self.ports[at].xoff += u64::from(e.pause);
        self.ports[at].xon += u64::from(!e.pause);
        self.timeline.pfc(at, e.prio.into(), e.at, e.pause);
    }

    fn pfc_received(&mut self, e: PfcReceived) {
        let node = e.node as usize;
        let Some(paused) = self.paused.get_mut(node) else {
            self.ports[self.first[node - self.hosts] + usize::from(e.port) - 1].pfc_rx += 1;
            return;
        };
        self.host_pfc[node] += 1;
        let (since, total, times) = &mut paused[usize::from(e.prio)];
        match (*since, e.pause) {
            (None, true) => (*since, *times) = (Some(e.at), *times + 1),
            (Some(from), false) => (*since, *total) = (None, *total + e.at - from),
            _ => {}
        }
    }

    fn stored(&mut self, at: Nanos, switch: usize, mmu: &Hpcc, in_port: usize, prio: usize, out_port: usize) {
        let first = self.first[switch];
        let (bytes, p) = (depth(mmu, out_port), &mut self.ports[first + in_port]);
        p.received += 1;
        p.group_peak = p.group_peak.max(mmu.used(in_port, prio).into());
        p.headroom_peak = p.headroom_peak.max(mmu.headroom(in_port, prio).into());
        let p = &mut self.ports[first + out_port];
        p.queue_max = p.queue_max.max(bytes);
        self.timeline.depth(first + out_port, at, bytes);
    }

    fn refused(&mut self, _: Nanos, switch: usize, in_port: usize, _: u8) {
        self.ports[self.first[switch] + in_port].refused += 1;
    }

    fn left(&mut self, at: Nanos, switch: usize, mmu: &Hpcc, out_port: usize, _: usize, marked: bool) {
        let port = self.first[switch] + out_port;
        self.ports[port].sent += 1;
        self.ports[port].marked += u64::from(marked);
        self.timeline.depth(port, at, depth(mmu, out_port));
    }

    fn data_sent(&mut self, flow: u32, again: bool) {
        let f = &mut self.flows[flow as usize];
        f.packets += 1;
        f.resent += u64::from(again);
    }

    fn answer_sent(&mut self) {
        self.answers += 1;
    }

    fn delivered(&mut self, at: Nanos, flow: u32, bytes: u32) {
        self.flows[flow as usize].delivered += u64::from(bytes);
        self.timeline.delivered(self.lanes[flow as usize], at, bytes.into());
    }
}

/// Plays `spec`.
pub(super) fn run(
    spec: &FabricSpec,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Report, FabricError> {
    let ((), plan) = both(check(spec), lay_out(spec))?;
    let routes = Routes::new(&plan, spec.seed, |_| true);
    if let Some(link) = plan.links.iter().position(|link| link.spec.loss > 0.0) {
        let why = match spec.topology {
            Topology::HpccFile(_) => "links lose nothing, and one in this file has an error rate",
            _ => "links lose nothing",
        };
        return Err(fixed(&key_of_loss(spec, &plan, link), why));
    }
    let are_hosts = |ends: &[End; 2]| ends.iter().all(|end| end.node < plan.hosts);
    if let Some((at, link)) = plan.links.iter().enumerate().find(|(_, link)| are_hosts(&link.ends)) {
        let key = match spec.topology {
            Topology::Custom(_) => format!("topology.links.{at}"),
            _ => "topology.file".into(),
        };
        let [a, b] = link.ends.map(|end| &plan.names[end.node]);
        let why = format!(
            "a host's neighbour is a switch, and `{a}` and `{b}` are joined; put a switch between them, or use profile = \"weir\""
        );
        return Err(FabricError::Profile { key, why });
    }
    let Traffic { flows: mut planned, ops, collectives } =
        flows(spec, &plan, &routes, &Collectives::default())?;
    if ops.iter().any(|op| matches!(op.work, Work::Compute { .. })) {
        let why = "hosts compute nothing there; take that workload out, or use profile = \"weir\"";
        return Err(FabricError::Profile { key: "workload".into(), why: why.into() });
    }
    let waits = ops.iter().any(|op| !op.after.is_empty());
    if waits {
        let why = "every flow begins at a time of its own there, and some of this file begin when others have ended (steps of \
                   collectives, operations, triggers); take that workload out, or use profile = \"weir\"";
        return Err(FabricError::Profile { key: "workload".into(), why: why.into() });
    }
    if !planned.iter().all(is_finite) {
        let why = "every flow has an end there, and of this file some have none (a size of 0); give them one, or use profile = \"weir\"";
        return Err(FabricError::Profile { key: "workload".into(), why: why.into() });
    }
    planned.sort_by_key(|f| f.flow.start);
    let network = network(spec, &plan);
    let sorted = |rates: &mut Vec<u64>| {
        rates.sort_unstable();
        rates.dedup();
    };
    let mut lines: Vec<u64> = planned.iter().map(|f| plan.line_of(f.from)).collect();
    sorted(&mut lines);
    let mut rates: Vec<u64> = plan.links.iter().map(|l| l.spec.rate.0).collect();
    sorted(&mut rates);
    let config = config(spec, &lines, &rates)?;
    let (names, rate_names) = (port_names(&plan), lanes(&plan, &planned, 0..));
    let mut first = vec![0];
    for ports in &plan.ports[plan.hosts..] {
        first.push(first[first.len() - 1] + ports.len());
    }
    let book = ReportRecorder {
        hosts: plan.hosts,
        ports: vec![Count::default(); names.len()],
        flows: vec![FlowCount::default(); planned.len()],
        lanes: rate_names.1,
        paused: vec![[(None, 0, 0); PRIORITIES]; plan.hosts],
        host_pfc: vec![0; plan.hosts],
        answers: 0,
        timeline: TimelineRecorder::new(names, rate_names.0),
        first,
    };
    let start = |f: &Planned| FlowSpec {
        src: f.from as u32,
        dst: f.to as u32,
        dst_port: f.dst_port,
        prio: f.flow.priority,
        bytes: f.flow.bytes as u32,
        start: f.flow.start,
    };
    let specs: Vec<FlowSpec> = planned.iter().map(start).collect();
    let bytes = bytes_of(&planned);
    let mut sim =
        Sim::new(&network, &specs, &config, book).map_err(|e| FabricError::Switch(e.to_string()))?;
    let mut stopped = false;
    while !stopped && sim.run_some(EVENTS_PER_STEP) {
        let done = sim.flows().iter().filter(|f| f.finished.is_some()).count();
        let at = Progress {
            now_ns: sim.now(),
            until_ns: spec.stop_time.0,
            done,
            flows: specs.len(),
            delivered: sim.flows().iter().map(|f| u64::from(f.acked)).sum(),
            bytes,
            events: sim.events(),
        };
        stopped = progress(at).is_break();
    }
    let mut report = report(spec, &plan, &planned, &config, sim, stopped);
    if !collectives.is_empty() {
        report.why.push("The messages of collectives are reported as flows alone: time, algbw, busbw and straggler are those of profile = \"weir\".".into());
    }
    Ok(report)
}

/// Start to last ACK of a flow of so many bytes that is alone on its links: frames back to back, and an ACK for each on the way
/// back. The last frame may be shorter, and waits behind the full one before it on each link, as its ACK does.
fn ideal(plan: &Plan, [there, back]: &[Vec<usize>; 2], bytes: u64, sizes: FrameSizes) -> Nanos {
    let payload = u64::from(sizes.payload);
    let full_frames = bytes.div_ceil(payload) - 1;
    let last = (bytes - full_frames * payload) as u16 + sizes.headers;
    let there = there.iter().map(|link| (link, sizes.data, last));
    let back = back.iter().map(|link| (link, sizes.ack, sizes.ack));
    // When the first and the last one have come through so many links, and what a full one takes on the slowest of them.
    let (mut first, mut end, mut slowest) = (0, 0, 0);
    for (link, full, last) in there.chain(back) {
        let wire = &plan.links[*link].spec;
        let takes = transmit_ns(full, wire.rate.0);
        slowest = slowest.max(takes);
        let before = full_frames.checked_sub(1).map_or(0, |more| first + takes + more * slowest);
        end = end.max(before) + transmit_ns(last, wire.rate.0) + wire.delay.0;
        first += takes + wire.delay.0;
    }
    end
}

fn report(
    spec: &FabricSpec,
    plan: &Plan,
    planned: &[Planned],
    config: &Config,
    sim: Sim<ReportRecorder>,
    stopped: bool,
) -> Report {
    let finished: Vec<Option<Nanos>> = sim.flows().iter().map(|f| f.finished).collect();
    // While something is not delivered, nothing but the time ends it.
    let is_over = stopped || finished.iter().all(Option::is_some);
    let (end_ns, events) = (if is_over { sim.now() } else { spec.stop_time.0 }, sim.events());
    let sizes = FrameSizes::new(config.payload, config.control.header_bytes());
    let params: Vec<(u32, Vec<u32>)> =
        sim.switches().iter().map(|s| (s.params.buffer, s.params.headroom.clone())).collect();
    let rates: Vec<u64> = sim.flows().iter().map(|f| f.controller.rate_bps()).collect();
    let circle = if stopped { Vec::new() } else { circle(plan, &sim) };
    let alone = |(nth, planned): (usize, &Planned)| {
        is_finite(planned).then(|| ideal(plan, &sim.ways(nth as u32), planned.flow.bytes, sizes))
    };
    let ideals: Vec<Option<Nanos>> = planned.iter().enumerate().map(alone).collect();
    let book = sim.into_recorder();
    let mut flows: Vec<FlowResult> = planned
        .iter()
        .enumerate()
        .map(|(i, p)| FlowResult {
            id: p.flow.id,
            from: plan.names[p.from].clone(),
            to: plan.names[p.to].clone(),
            bytes: is_finite(p).then_some(p.flow.bytes),
            start_ns: Some(p.flow.start).filter(|start| *start < spec.stop_time.0),
            fct_ns: finished[i].map(|at| at - p.flow.start),
            ideal_ns: ideals[i],
            delivered: book.flows[i].delivered,
            lost: 0,
            packets: book.flows[i].packets,
            resent: book.flows[i].resent,
            useless: None,
            marked: None,
            cnps: None,
            timeouts: 0,
            probes: 0,
            rate_bps: (config.control != Control::None).then_some(rates[i]),
            level: None,
            error: None,
        })
        .collect();
    flows.sort_by_key(|f| f.id);
    let port = |s: usize, i: usize| {
        let c = &book.ports[book.first[s] + i];
        let drops: BTreeMap<_, _> =
            (c.refused > 0).then_some(("ns3.refused", c.refused)).into_iter().collect();
        let [a, b] = plan.links[plan.ports[plan.hosts + s][i]].ends;
        let peer = if a.node == plan.hosts + s { b.node } else { a.node };
        PortResult {
            port: i,
            peer: plan.names[peer].clone(),
            rx_frames: c.received + c.refused,
            tx_frames: c.sent,
            queue_max: c.queue_max,
            queue_mean: None,
            marked: c.marked,
            drops,
            pfc_tx_xoff: c.xoff,
            pfc_tx_xon: c.xon,
            pfc_rx: c.pfc_rx,
            tx_paused_ns: None,
            rx_paused_ns: None,
            pg_peak: c.group_peak,
            headroom_peak: c.headroom_peak,
            headroom: params[s].1[i].into(),
            memory: None,
            storms: 0,
            marking: Vec::new(),
            flows: Vec::new(),
        }
    };
    let switch = |s: usize| SwitchResult {
        name: plan.names[plan.hosts + s].clone(),
        buffer: params[s].0.into(),
        shared: u64::from(params[s].0)
            .saturating_sub(params[s].1.iter().map(|h| u64::from(h + config.reserve)).sum()),
        headroom_pool: None,
        ports: (0..plan.ports[plan.hosts + s].len()).map(|i| port(s, i)).collect(),
    };
    let host = |h: usize| HostResult {
        name: plan.names[h].clone(),
        mac: plan.macs[h].to_string(),
        paused_ns: std::array::from_fn(|p| {
            let (since, total, _) = book.paused[h][p];
            total + since.map_or(0, |from| end_ns - from)
        }),
        pauses: std::array::from_fn(|p| book.paused[h][p].2),
        pfc_rx: book.host_pfc[h],
        pfc_tx: 0,
        memory_peak: 0,
        no_room: 0,
        credit_wait_ns: [0; 8],
        unexpected: 0,
    };
    let switches: Vec<SwitchResult> = (0..params.len()).map(switch).collect();
    let hosts = (0..plan.hosts).map(host).collect();
    let fcts: Vec<u64> = flows.iter().filter_map(|f| f.fct_ns).collect();
    let slow = flows.iter().filter_map(FlowResult::slowdown_milli).collect();
    let mut report = Report {
        flows_done: fcts.len(),
        fct_ns: Spread::of(fcts),
        slowdown_milli: Spread::of(slow),
        frames_sent: flows.iter().map(|f| f.packets).sum::<u64>()
            + book.answers
            + book.ports.iter().map(|p| p.sent).sum::<u64>(),
        frames_dropped: book.ports.iter().map(|p| p.refused).sum(),
        // All data has PFC there.
        lossless_drops: book.ports.iter().map(|p| p.refused).sum(),
        flows,
        switches,
        hosts,
        timeline: book.timeline.finish(end_ns),
        stopped,
        ..Report::begin(spec, end_ns, events)
    };
    report.flows_finite = report.flows.len();
    report.deadlock = reasons::switches(&circle);
    report.why = workload::notes(plan, spec.stop_time.0, planned.iter());
    report.why.extend(why(plan, &report, &circle, config));
    report
}

/// Pauses that wait for each other in a circle.
fn circle(plan: &Plan, sim: &Sim<ReportRecorder>) -> Vec<CirclePause> {
    let mut pauses = BTreeMap::new();
    for (s, switch) in sim.switches().iter().enumerate() {
        let (node, mmu) = (plan.hosts + s, &switch.mmu);
        let ports = 0..plan.ports[node].len();
        for (port, prio) in ports.clone().flat_map(|port| (0..PRIORITIES).map(move |prio| (port, prio))) {
            if !mmu.paused(port, prio) {
                continue;
            }
            let by = |out: usize| {
                let End { node, port } = plan.peer(node, out);
                vec![(node, port, prio as u8)]
            };
            let behind = ports.clone().map(|out| (sim.held_back(s, port, out, prio), by(out)));
            let (used, headroom) = (mmu.used(port, prio).into(), mmu.headroom(port, prio).into());
            let holding = Holding {
                resumes_at: model_resumes_at(used, headroom),
                outside_headroom: used,
                memory: (node, 0),
                headroom_at: u64::MAX,
                behind: behind.collect(),
            };
            pauses.insert((node, port, prio as u8), holding);
        }
    }
    deadlock::circle(pauses).into_iter().map(|place| CirclePause::new(place, &plan.names)).collect()
}

fn why(plan: &Plan, report: &Report, circle: &[CirclePause], config: &Config) -> Vec<String> {
    let mut all: Vec<String> = reasons::deadlock(report, circle, None).into_iter().collect();
    if report.pauses() == 0
        && let Some((switch, port)) = report.ports().max_by_key(|(_, p)| p.pg_peak)
    {
        all.push(format!(
            "No PFC was sent: the fullest group ({} port {}) held {} bytes of the {} shared ones, and no group reached \
             its threshold (free bytes / 2^shift).",
            switch.name, port.port, port.pg_peak, switch.shared
        ));
    }
    if report.marks() == 0 {
        let law = |node: usize, port: &PortResult| {
            let rate = plan.links[plan.ports[node][port.port]].spec.rate.0;
            config.marking.iter().find(|law| law.rate == rate)
        };
        let nodes = (plan.hosts..).zip(&report.switches);
        let queues =
            nodes.flat_map(|(node, switch)| switch.ports.iter().map(move |port| (node, switch, port)));
        let queues = queues.filter_map(|(node, switch, port)| Some((switch, port, law(node, port)?)));
        // The one that went furthest beyond where its own marking begins, or was the longest.
        let beyond = |port: &PortResult, law: &Marking| port.queue_max.saturating_sub(law.kmin.into());
        let furthest = queues.max_by_key(|(_, port, law)| (beyond(port, law), port.queue_max));
        all.push(match furthest {
            None => "Nothing was marked: without DCQCN this profile does not mark.".to_owned(),
            Some((switch, port, law)) => {
                let place = format!("the longest queue ({} port {})", switch.name, port.port);
                let (held, kmin) = (port.queue_max, law.kmin);
                match held <= kmin.into() {
                    true => format!("Nothing was marked: {place} had {held} bytes; marking begins above {kmin}."),
                    false => format!(
                        "Nothing was marked although {place} had {held} bytes (marking begins above {kmin}): they were of several \
                         priorities, the last frame made the difference, or chance spared them."
                    ),
                }
            }
        });
    }
    let refusing = report.ports().filter(|(_, p)| !p.drops.is_empty());
    all.extend(refusing.map(|(switch, port)| {
        let refused: u64 = port.drops.values().sum();
        format!(
            "{} port {} refused {}: above the threshold its headroom of {} bytes ({} were the most in use) \
             was too small. The published formula, 3 x rate x delay, has no term for the frames in flight at both \
             ends; profile = \"weir\" has.",
            switch.name,
            port.port,
            counted(refused, "frame"),
            port.headroom,
            port.headroom_peak
        )
    }));
    if report.flows.iter().any(|flow| flow.start_ns.is_some() && flow.fct_ns.is_none()) {
        all.push(
            "What is not delivered by the end stays so: this profile has no retransmission timer.".into(),
        );
    }
    all
}
