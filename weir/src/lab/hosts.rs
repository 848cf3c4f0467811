//! Traffic hosts at the far ends of in-process rings: one thread for all of them.

use crate::run::FarEnd;
use anyhow::{Context, Result};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_dataplane::config::{Config, LabFlow, LabPattern, PortRate};
use weir_dataplane::frame::Frame;
use weir_dataplane::types::{Mac, PortId};
use weir_dpdk::{Burst, Clock, Mempool};
use weir_endpoint::traffic::{Flow, Host, HostConfig, Peer, Tag};

/// Rate of hosts on ports without one, bit/s.
const UNSHAPED: u64 = 1_000_000_000;

/// Time without the processor that a host makes up for, ns.
const SLACK: u64 = 200_000;

/// A pause of the loop when no host had anything to do.
const REST: Duration = Duration::from_micros(50);

/// How far the hosts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    Send = 0,
    Listen = 1,
    Stop = 2,
}

/// One host and its link.
#[derive(Debug)]
struct Station {
    host: Host,
    link: FarEnd,
    /// Frames the ring has not taken yet.
    waiting: Burst,
}

/// The hosts of a lab, running.
#[derive(Debug)]
pub struct Hosts {
    phase: Arc<AtomicU8>,
    thread: JoinHandle<Vec<Station>>,
}

/// What one flow came to.
#[derive(Clone, Debug)]
pub struct FlowResult {
    /// Port whose host sent.
    pub from: usize,
    /// Port whose host received.
    pub to: usize,
    /// The frames' own fields.
    pub flow: Flow,
    /// Frames sent.
    pub sent: u64,
    /// Frames that arrived, right and in order.
    pub received: u64,
    /// Frames that never arrived.
    pub lost: u64,
    /// Frames that arrived wrong: out of order, twice, or changed.
    pub wrong: u64,
    /// Frames that arrived marked CE.
    pub marked: u64,
}

/// What all hosts came to.
#[derive(Clone, Debug, Default)]
pub struct HostResults {
    /// By flow.
    pub flows: Vec<FlowResult>,
    /// Frames no host could explain.
    pub unexpected: u64,
    /// ns hosts were held back by PFC, all priorities added up, by port.
    pub paused_ns: Vec<u64>,
}

fn address(port: usize) -> Peer {
    let mac = Mac::from_u64(0x0200_0000_0100 + port as u64);
    Peer { mac, ip: Ipv4Addr::new(10, 0, (port >> 8) as u8, port as u8 + 1) }
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

/// Makes one host per port with the flows of the lab.
///
/// # Errors
/// A flow that no host can send.
fn make(config: &Config, deaf: bool) -> Result<Vec<Host>> {
    let host = |port: usize| {
        let peer = address(port);
        let enabled = config.ports[port].pfc.enable;
        Host::new(HostConfig {
            mac: peer.mac,
            ip: peer.ip,
            rate: link_rate(config, port),
            max_frame: config.ports[port].mtu,
            obey: if deaf { 0 } else { enabled },
            response_delay: 0,
            slack: SLACK,
            seed: config.seed,
        })
    };
    let mut hosts: Vec<Host> = (0..config.ports.len()).map(host).collect();
    for (i, flow) in flows(config).iter().enumerate() {
        let (from, to) = (flow.from.index(), flow.to.index());
        let maps = &config.ports[from].maps;
        let class =
            flow.pcp.map_or(maps.dscp_to_tc[usize::from(flow.dscp)], |p| maps.pcp_to_tc[usize::from(p)]);
        let flow = Flow {
            id: i as u16 + 1,
            dst: address(to),
            priority: class,
            dscp: flow.dscp,
            tag: flow.vlan.map(|vid| Tag { vid, pcp: flow.pcp.unwrap_or(0) }),
            ecn: 2,
            frame_bytes: flow.frame_bytes,
            rate: flow.rate,
            start: 50_000_000,
            frames: None,
        };
        hosts[from].send(flow).with_context(|| format!("flow {} of the lab", i + 1))?;
        hosts[to].expect(flow).with_context(|| format!("flow {} of the lab", i + 1))?;
    }
    Ok(hosts)
}

impl Station {
    /// Receives and sends what there is; `true` if there was anything.
    fn turn(&mut self, pool: &Mempool, clock: &Clock) -> bool {
        let mut burst = Burst::new();
        let mut busy = self.link.rx.receive(&mut burst) > 0;
        let now = clock.now();
        for frame in &burst {
            self.host.handle_frame(frame.bytes(), now);
        }
        drop(burst);
        while !self.waiting.is_full() && self.host.next_transmit(now).is_some_and(|at| at <= now) {
            // Memory first: a frame the host has made is a frame it has sent.
            let Some(mut mbuf) = pool.alloc() else { break };
            let Some(bytes) = self.host.poll_transmit(now) else { break };
            if !mbuf.append(bytes) {
                break;
            }
            self.waiting.push(mbuf);
        }
        if !self.waiting.is_empty() {
            busy |= self.link.tx.transmit(&mut self.waiting) > 0;
        }
        busy
    }
}

impl Hosts {
    /// Starts the hosts on the far ends of the ports.
    ///
    /// # Errors
    /// A flow that cannot be, or no thread.
    pub fn start(config: &Config, far: Vec<FarEnd>, pool: Mempool, clock: Clock, deaf: bool) -> Result<Self> {
        let hosts = make(config, deaf)?;
        let mut stations: Vec<Station> = hosts
            .into_iter()
            .zip(far)
            .map(|(host, link)| Station { host, link, waiting: Burst::new() })
            .collect();
        let phase = Arc::new(AtomicU8::new(Phase::Send as u8));
        let seen = Arc::clone(&phase);
        let thread = std::thread::Builder::new().name("hosts".into()).spawn(move || {
            let mut sending = true;
            loop {
                let mut busy = false;
                for station in &mut stations {
                    busy |= station.turn(&pool, &clock);
                }
                let phase = seen.load(Relaxed);
                if sending && phase != Phase::Send as u8 {
                    sending = false;
                    stations.iter_mut().for_each(|station| station.host.stop());
                }
                if phase == Phase::Stop as u8 {
                    return stations;
                }
                if !busy {
                    std::thread::sleep(REST);
                }
            }
        })?;
        Ok(Self { phase, thread })
    }

    /// Nothing new is sent; what is on its way is still received.
    pub fn stop_sending(&self) {
        self.phase.store(Phase::Listen as u8, Relaxed);
    }

    /// Stops, and compares what was sent with what arrived.
    ///
    /// # Errors
    /// The hosts' thread panicked.
    pub fn finish(self, now: u64) -> Result<HostResults> {
        self.phase.store(Phase::Stop as u8, Relaxed);
        let stations =
            self.thread.join().map_err(|_| anyhow::anyhow!("the hosts panicked: please report it"))?;
        let mut hosts: Vec<Host> = stations.into_iter().map(|station| station.host).collect();
        let sent: Vec<(usize, Flow, u64)> = hosts
            .iter()
            .enumerate()
            .flat_map(|(from, host)| host.sent().map(move |(flow, sent)| (from, *flow, sent)))
            .collect();
        let mut results = HostResults::default();
        for (from, flow, sent) in sent {
            let Some(to) = hosts.iter().position(|host| host.address().mac == flow.dst.mac) else { continue };
            hosts[to].finish(flow.id, sent);
            let Some(report) = hosts[to].received().find(|report| report.id == flow.id) else { continue };
            results.flows.push(FlowResult {
                from,
                to,
                flow,
                sent,
                received: report.received,
                lost: report.lost,
                wrong: report.reordered + report.duplicated + report.corrupted,
                marked: report.marked,
            });
        }
        for host in &hosts {
            let report = host.report(now);
            results.unexpected += report.unexpected;
            results.paused_ns.push(report.paused_ns.iter().sum());
        }
        Ok(results)
    }
}
