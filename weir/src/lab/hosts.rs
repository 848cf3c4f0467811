//! RoCEv2 hosts at the far ends of in-process rings, closed loop: one thread for all of them.

use crate::host::{SETTLE, Seat, Shared, rate_control, work};
use crate::run::FarEnd;
use anyhow::{Context, Result, anyhow};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_dataplane::config::host::HostDcqcn;
use weir_dataplane::config::{Config, CongestionControl, LabFlow, LabPattern, PortRate};
use weir_dataplane::types::{Mac, PortId};
use weir_dpdk::{Clock, Mempool};
use weir_endpoint::roce::frame::ECN_ECT0;
use weir_endpoint::roce::hca::FIRST_QPN;
use weir_endpoint::roce::psn::Psn;
use weir_endpoint::roce::qp::TrafficClass;
use weir_endpoint::roce::wire::Qpn;
use weir_endpoint::station::{
    Operation, PairConfig, PairReport, Peer, Rate, SLOTS, Station, StationConfig, StationReport, Stream,
};

/// Rate of hosts on ports without one, bit/s.
const UNSHAPED: u64 = 1_000_000_000;

/// Time without the processor that a host makes up for, ns.
const SLACK: u64 = 200_000;

/// A pause of the loop when no host had anything to do.
const REST: Duration = Duration::from_micros(50);

/// Ethernet, IPv4, UDP, BTH and ICRC: what a packet of a SEND has around its payload, and a tag more.
const HEADERS: u16 = 58;
const TAG: u16 = 4;

/// What one host has under way at most, by time and by bytes: enough to fill a buffer where nobody backs off.
const IN_FLIGHT_MS: u64 = 40;
const MIN_IN_FLIGHT: u64 = 256 << 10;
const MAX_IN_FLIGHT: u64 = 2 << 20;

/// How many times slower DCQCN runs here than on an adapter. A CNP every 50 us and an increase every 55 us
/// suit a machine that looks at its wire all the time; these hosts are threads that look once in a
/// millisecond when the machine is busy, and between two looks would forget every CNP. Increases are larger by
/// as much, so a rate recovers as fast as ever.
const SLOWER: u64 = 20;

/// Longer than a full buffer takes to leave at the rate of a lab, ns.
const ACK_TIMEOUT: u64 = 4096 << 16;

/// How long the last messages may take to be acknowledged.
const DRAIN: Duration = Duration::from_secs(20);

/// How long frames on their way through the switch may take.
const ON_THE_WAY: Duration = Duration::from_millis(200);

/// How hosts behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manners {
    /// They ignore PFC and CNPs.
    pub deaf: bool,
    /// They ignore CNPs.
    pub no_dcqcn: bool,
    /// They record what moves their rates.
    pub trace: bool,
}

/// The hosts of a lab, running.
#[derive(Debug)]
pub struct Hosts {
    shared: Arc<Shared>,
    thread: JoinHandle<Vec<Seat>>,
    flows: Vec<Flow>,
}

/// One flow: a connection, and which of the two ends sends.
#[derive(Clone, Copy, Debug)]
struct Flow {
    from: usize,
    to: usize,
    class: u8,
    /// Number of its queue pair at the sender and at the receiver.
    qpns: [Qpn; 2],
}

/// What one flow came to.
#[derive(Clone, Debug)]
pub struct FlowResult {
    /// Port whose host sent.
    pub from: usize,
    /// Port whose host received.
    pub to: usize,
    /// Traffic class of its frames.
    pub class: u8,
    /// The sender's end.
    pub sent: PairReport,
    /// The receiver's end.
    pub received: PairReport,
}

/// What all hosts came to.
#[derive(Clone, Debug, Default)]
pub struct HostResults {
    /// By flow.
    pub flows: Vec<FlowResult>,
    /// By port.
    pub hosts: Vec<StationReport>,
    /// What moved the rates, as CSV.
    pub trace: String,
}

fn address(port: usize) -> (Mac, Ipv4Addr) {
    let mac = Mac::from_u64(0x0200_0000_0100 + port as u64);
    (mac, Ipv4Addr::new(10, 0, (port >> 8) as u8, port as u8 + 1))
}

fn link_rate(config: &Config, port: usize) -> u64 {
    match config.ports[port].rate {
        PortRate::Fixed(bps) => bps,
        PortRate::Unlimited | PortRate::Link => UNSHAPED,
    }
}

/// The flows of a lab: those listed, or those of its pattern.
fn flows(config: &Config) -> Vec<LabFlow> {
    if !config.lab.flows.is_empty() {
        return config.lab.flows.clone();
    }
    let n = config.ports.len();
    let pairs: Vec<(usize, usize)> = match config.lab.pattern {
        LabPattern::Incast => (1..n).map(|from| (from, 0)).collect(),
        LabPattern::AllToAll => {
            (0..n).flat_map(|a| (0..n).map(move |b| (a, b))).filter(|(a, b)| a != b).collect()
        }
    };
    let share =
        if config.lab.pattern == LabPattern::AllToAll { (n as u64).saturating_sub(1).max(1) } else { 1 };
    let flow = |(from, to): (usize, usize)| LabFlow {
        from: PortId(from as u16),
        to: PortId(to as u16),
        rate: Some(link_rate(config, from) / 1_000_000 * u64::from(config.lab.load) / share),
        frame_bytes: config.lab.frame_bytes,
        dscp: config.lab.dscp,
        pcp: None,
        vlan: None,
    };
    pairs.into_iter().map(flow).collect()
}

/// Makes one host per port, and both ends of every flow.
///
/// # Errors
/// A flow that no host can send.
fn make(config: &Config, manners: Manners) -> Result<(Vec<Station>, Vec<Flow>)> {
    let station = |port: usize| {
        let (mac, ip) = address(port);
        Station::new(StationConfig {
            mac,
            ip,
            rate: link_rate(config, port),
            obey: if manners.deaf { 0 } else { config.ports[port].pfc.enable },
            slack: SLACK,
            settle: SETTLE,
            first_qpn: FIRST_QPN,
        })
    };
    let mut stations: Vec<Station> = (0..config.ports.len()).map(station).collect();
    let all = flows(config);
    let mut taken = vec![0; stations.len()];
    let mut made = Vec::new();
    for (i, flow) in all.iter().enumerate() {
        let ends = [flow.from.index(), flow.to.index()];
        let qpns = ends.map(|port| {
            taken[port] += 1;
            Qpn(FIRST_QPN + taken[port] - 1)
        });
        let beside = all.iter().filter(|other| other.from == flow.from).count() as u64;
        let (class, pairs) = pairs(config, flow, beside, qpns, manners);
        for (port, pair) in ends.into_iter().zip(pairs) {
            stations[port].add(pair).with_context(|| format!("flow {} of the lab", i + 1))?;
        }
        made.push(Flow { from: ends[0], to: ends[1], class, qpns });
    }
    Ok((stations, made))
}

/// Both ends of a flow that shares its sender with `beside` flows, itself among them, and its class.
fn pairs(
    config: &Config,
    flow: &LabFlow,
    beside: u64,
    qpns: [Qpn; 2],
    manners: Manners,
) -> (u8, [PairConfig; 2]) {
    let (from, to) = (flow.from.index(), flow.to.index());
    let maps = &config.ports[from].maps;
    let class = flow.pcp.map_or(maps.dscp_to_tc[usize::from(flow.dscp)], |p| maps.pcp_to_tc[usize::from(p)]);
    // What a host calls its priority is what stands in its tag, if there is one.
    let priority = flow.vlan.and(flow.pcp).unwrap_or(class);
    let room = flow.frame_bytes - HEADERS - if flow.vlan.is_some() { TAG } else { 0 };
    let mtu = [4096, 2048, 1024, 512].into_iter().find(|mtu| *mtu <= room).unwrap_or(256);
    let link = link_rate(config, from);
    let rate = flow.rate.map_or(link, |rate| rate.clamp(1, link));
    let in_flight = (link / 8_000).saturating_mul(IN_FLIGHT_MS).clamp(MIN_IN_FLIGHT, MAX_IN_FLIGHT);
    // Whole packets, and at least four of them.
    let packets = (in_flight / SLOTS / beside / u64::from(mtu)).max(4);
    let bytes = packets as u32 * u32::from(mtu);
    let backs_off = !manners.deaf && !manners.no_dcqcn;
    let parameters = if backs_off { config.lab.dcqcn } else { CongestionControl::Off };
    let end = |peer: usize, qpn: Qpn| PairConfig {
        peer: Peer { ip: address(peer).1, mac: None, qpn },
        send_psn: Psn::default(),
        recv_psn: Psn::default(),
        vlan: flow.vlan,
        data: TrafficClass { dscp: flow.dscp, ecn: ECN_ECT0, priority },
        cnp: TrafficClass {
            dscp: 48,
            ecn: ECN_ECT0,
            priority: if flow.vlan.is_some() { 6 } else { maps.dscp_to_tc[48] },
        },
        mtu,
        window: 1 << 14,
        ack_timeout: ACK_TIMEOUT,
        retries: u8::MAX,
        cnp_interval: 50_000 * SLOWER,
        rate: Rate::Fixed(link),
        receive_bytes: 0,
        expect: None,
        stream: None,
        trace: false,
    };
    let stream = Stream { operation: Operation::Send, bytes, messages: None, start: 0 };
    let control = slower(rate_control(&HostDcqcn::of(parameters), rate));
    let sender = PairConfig { stream: Some(stream), rate: control, trace: manners.trace, ..end(to, qpns[1]) };
    (class, [sender, PairConfig { receive_bytes: bytes, ..end(from, qpns[0]) }])
}

/// See [`SLOWER`].
fn slower(rate: Rate) -> Rate {
    let Rate::Dcqcn(mut dcqcn) = rate else { return rate };
    let params = &mut dcqcn.params;
    for period in [&mut params.alpha_period, &mut params.cut_period, &mut params.increase_period] {
        *period *= SLOWER;
    }
    for step in [&mut params.additive, &mut params.hyper] {
        *step = step.saturating_mul(SLOWER).min(params.max_rate);
    }
    dcqcn.outstanding.restore_after *= SLOWER;
    Rate::Dcqcn(dcqcn)
}

impl Hosts {
    /// Starts the hosts on the far ends of the ports.
    ///
    /// # Errors
    /// A flow that cannot be, or no thread.
    pub fn start(
        config: &Config,
        far: Vec<FarEnd>,
        pool: Mempool,
        clock: Clock,
        manners: Manners,
    ) -> Result<Self> {
        let (stations, flows) = make(config, manners)?;
        let seats: Vec<Seat> =
            stations.into_iter().zip(far).map(|(station, far)| Seat::new(station, far.rx, far.tx)).collect();
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("hosts".into())
            .spawn(move || work(seats, &pool, &clock, REST, &seen))?;
        Ok(Self { shared, thread, flows })
    }

    /// Sends no new messages, waits until those under way are acknowledged, and then for the frames on their
    /// way through the switch.
    pub fn stop_sending(&self) {
        self.shared.stop_sending();
        wait(DRAIN, || self.shared.is_done());
        self.shared.freeze();
        wait(DRAIN, || self.shared.is_frozen());
        std::thread::sleep(ON_THE_WAY);
    }

    /// Ends the hosts and says what they came to.
    ///
    /// # Errors
    /// The hosts' thread panicked.
    pub fn finish(self, now: u64) -> Result<HostResults> {
        self.shared.end();
        let seats = self.thread.join().map_err(|_| anyhow!("the hosts panicked: please report it"))?;
        let end = |port: usize, qpn: Qpn| seats[port].station.pairs().find(|pair| pair.qpn == qpn);
        let result = |flow: &Flow| {
            let Flow { from, to, class, qpns } = *flow;
            Some(FlowResult { from, to, class, sent: end(from, qpns[0])?, received: end(to, qpns[1])? })
        };
        Ok(HostResults {
            flows: self.flows.iter().filter_map(result).collect(),
            hosts: seats.iter().map(|seat| seat.station.report(now)).collect(),
            trace: crate::host::trace(&seats),
        })
    }
}

/// Waits until something is so, at most this long.
fn wait(most: Duration, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + most;
    while !is_so() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}
