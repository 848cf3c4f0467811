//! A switch of two ports and two workers for tests: every counter grows by a known step per reading.

use crate::flows::FlowsReading;
use crate::flows::export::ExportReading;
use crate::inc::{EngineInfo, EngineReading};
use crate::mirror_files::MirrorFileReading;
use crate::snapshot::{
    BufferInfo, DeviceState, Link, Marking, NicStats, OffCore, PortInfo, PortReading, Reading, Snapshot,
    Source, SwitchInfo,
};
use crate::times::Times;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use weir_config::{
    AdminStatus, EngineConfig, FlowExport, LagConfig, LagHash, LoopAlarm, MirrorConfig, MirrorDirection,
    MirrorFile, MirrorTarget,
};
use weir_dataplane::flows::{Cause, Epoch, FlowId, PortFlows, Where};
use weir_dataplane::parse::Profile;
use weir_dataplane::pfc::generate::{self, LastCause};
use weir_dataplane::stats::{Histogram, LoopStats, MarkingCurve, PauseStats, PortGauges, PortStats};
use weir_dataplane::storm_control::{FloodLimit, StormControl};
use weir_dataplane::switch::Filter;
use weir_dataplane::types::{Mac, PortId};
use weir_dataplane::vlan::PortVlans;
use weir_endpoint::roce::wire::Qpn;
use weir_inc::engine::{Engine, EngineParams};
use weir_inc::report::ReportPage;
use weir_inc::spec::{Address, JobSpec};

/// What it is.
pub fn info() -> SwitchInfo {
    let mut marking = [None; 8];
    marking[3] = Some(Marking { kmin: 10_000, kmax: 40_000, pmax: 200_000 });
    let port = |name: &str, lcore| PortInfo {
        admin: AdminStatus::Up,
        name: name.into(),
        device: "ring".into(),
        driver: "net_ring".into(),
        rate: Some(1_000_000_000),
        lcore,
        pfc: 1 << 3,
        software_pfc: true,
        pfc_frames: "PFC frames pass, no MAC consumes them",
        pause_response: Some(4_000),
        lossless: 1 << 3,
        pg_priorities: [0, 0, 0, 1 << 3, 0, 0, 0, 0],
        pfc_to_queue: std::array::from_fn(|priority| priority as u8),
        headroom: [0, 0, 0, 60_000, 0, 0, 0, 0],
        dynamic_th: [Some(0); 8],
        vlans: (lcore == 1)
            .then(|| PortVlans { native: Some(1), members: [1, 10, 11].into_iter().collect() }),
        storm_control: Some(StormControl {
            limits: [Some(FloodLimit::Frames(5_000)), None, Some(FloodLimit::Bits(100_000_000))],
            burst: 10_000_000,
        }),
        marking,
    };
    SwitchInfo {
        name: "leaf1".into(),
        version: "0.1.0".into(),
        dpdk: "none".into(),
        poll_gap: 10_000,
        ports: vec![port("p0", 1), port("p\"1\\", 2)],
        loop_alarm: LoopAlarm::default(),
        fdb_capacity: 16384,
        lags: vec![LagConfig {
            name: "po1".into(),
            members: vec![PortId(0), PortId(1)],
            hash: LagHash::L4,
            admin: AdminStatus::Up,
            lacp: None,
        }],
        mirrors: vec![
            MirrorConfig {
                name: "probe".into(),
                ports: vec![PortId(0)],
                direction: MirrorDirection::Both,
                filter: Filter { dscp: Some(26), ..Filter::default() },
                to: MirrorTarget::Port { port: PortId(1), tc: 0 },
            },
            MirrorConfig {
                name: "look".into(),
                ports: vec![PortId(0)],
                direction: MirrorDirection::Rx,
                filter: Filter::default(),
                to: MirrorTarget::File(MirrorFile {
                    path: "/var/log/weir/look.pcapng".into(),
                    size: 64 << 20,
                    files: 2,
                    snaplen: 128,
                }),
            },
        ],
        export: Some(EXPORT),
        buffer: BufferInfo {
            size: 1 << 20,
            reserved: 65_536,
            headroom: 120_000,
            control: 262_144,
            mirrors: 0,
            shared: 600_896,
        },
        lcores: vec![1, 2],
        engines: vec![EngineInfo { port: 1, config: ENGINE }],
        hz: 2_000_000_000,
    }
}

/// Who is told of its flows.
const EXPORT: FlowExport = FlowExport {
    collector: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4739),
    interval: 10_000_000_000,
    domain: 7,
    enterprise: 32_473,
};

/// Where its engine is and what it has.
const ENGINE: EngineConfig = EngineConfig {
    address: Address {
        mac: Mac([2, 0, 0, 0, 1, 0]),
        ip: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 200)),
        vlan: None,
    },
    params: EngineParams { jobs: 4, memory: 1 << 20, quota: 1 << 20, first_qpn: Qpn(0x100), qpns: 260 },
};

/// A job of two hosts.
const JOB: &str = r#"{
    "id": 7, "ranks": 2, "window": 8, "results": 8,
    "operation": { "kind": "all_reduce", "operator": "sum", "type": "f32" },
    "children": [
        { "rank": 0, "qpn": 256, "mac": "02:00:00:00:00:01", "ip": "10.0.0.1", "dest_qpn": 17, "send_psn": 0, "recv_psn": 0 },
        { "rank": 1, "qpn": 257, "mac": "02:00:00:00:00:02", "ip": "10.0.0.2", "dest_qpn": 18, "send_psn": 0, "recv_psn": 0 }
    ]
}"#;

/// Its engine: a job that waits for rank 1, 500 sums for each step, a frame that is none of its own.
fn engine(n: u64) -> EngineReading {
    let mut engine = Engine::new(ENGINE.params);
    let spec: JobSpec = serde_json::from_str(JOB).unwrap();
    engine.add(spec.params(&ENGINE.address).unwrap()).unwrap();
    engine.receive(&[0; 64], 0);
    let mut page = ReportPage::new(engine.capacity());
    while !engine.read(&mut page, n * 100_000_000) {}
    let mut reading = EngineReading::of(&page);
    let job = &mut reading.jobs[0];
    (job.counters.folded, job.counters.folded_bytes) = (n * 500, n * 1_024_000);
    (job.waiting, job.open.0, job.peers[1].missing) = (Some(50_000), 1, true);
    job.peers[1].lag = (40_000, 90_000);
    reading
}

/// RoCEv2 from 10.0.0.`host` to 10.0.0.9, for queue pair 0x10 + `host`.
pub fn flow(host: u8) -> FlowId {
    let mut frame =
        vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, host, 8, 0, 0x45, 2, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0];
    frame.extend([10, 0, 0, host, 10, 0, 0, 9, 0xc0, 0, 0x12, 0xb7, 0, 26, 0, 0]);
    frame.extend([4, 0, 0xff, 0xff, 0, 0, 0, 0x10 + host, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    Profile::standard().flow_id(&frame, frame.len()).unwrap()
}

/// What stands at port 1 in the second that begins with reading `n`: ten marks for each reading, seven of them of host 7.
fn flows(n: u64) -> PortFlows {
    let place = Where { in_port: 0, priority: 3, reason: None };
    let second = |number: u64| {
        let mut epoch = Epoch {
            number,
            looks: 100,
            totals: [100, 0, 16, 2_000_000],
            looked: [100, 0, 16, 400],
            covered: [100, 0, 16, 2_000_000],
            ..Epoch::default()
        };
        for (cause, weight) in [(Cause::Mark, 10), (Cause::Pause, 1), (Cause::Depth, 100_000)] {
            epoch.flows[cause as usize].add(&flow(7).at(place), weight * 7);
            epoch.flows[cause as usize].add(&flow(8).at(place), weight * 3);
        }
        epoch
    };
    PortFlows { current: second(n / 10 + 2), previous: second(n / 10 + 1) }
}

/// The reading at `n` times 100 ms: 1000 frames of 1000 bytes per port and step.
pub fn reading(n: u64) -> Reading {
    let port = |i: u64| {
        let mut stats = PortStats {
            rx_packets: n * 1000,
            rx_bytes: n * 1_000_000,
            tx_packets: n * 1000,
            tx_bytes: n * 1_000_000,
            rx_lldp: n,
            ..PortStats::default()
        };
        stats.queue_packets[3] = n * 1000;
        stats.queue_bytes[3] = n * 1_000_000;
        stats.ecn_marked[3] = n * 10;
        let (mut residence, mut pauses) = (Histogram::default(), PauseStats::default());
        // Every tenth frame was held by a pause for 20 us.
        residence.note(50_000, n * 1000);
        pauses.note(3, 50_000, 20_000, n * 100);
        let mut latency: [Times; 8] = Default::default();
        latency[3] = Times::of(&residence, &pauses, 3);
        let mut gauges = PortGauges { at_ns: n * 100_000_000, pfc_rx_frames: n, ..PortGauges::default() };
        gauges.queue_bytes[3] = 20_000;
        gauges.queue_peak[3] = 30_000;
        gauges.queue_limit = [u64::MAX >> 2; 8];
        (gauges.pg_used[3], gauges.pg_shared[3], gauges.pg_limit[3]) = (24_096, 20_000, 300_000);
        (gauges.rx_paused_ns[3], gauges.tx_paused_ns[3]) = (n * 25_000_000, n * 50_000_000);
        (gauges.pfc_rx_xoff[3], gauges.pfc_tx_xoff[3]) = (n, 2 * n);
        (gauges.rx_pauses[3], gauges.tx_pauses[3]) = (n, n);
        gauges.tx_cause[3] = LastCause::Queue(generate::Cause { out_port: 1, queue: 3 }).word();
        let mut curve = MarkingCurve { kmax: [0, 0, 0, 40_000, 0, 0, 0, 0], ..MarkingCurve::default() };
        curve.note(3, 30_000, n * 100, n * 10);
        PortReading {
            curve,
            stats,
            latency,
            gauges,
            nic: NicStats::default(),
            device: DeviceState::default(),
            link: Some(Link { up: true, mbps: None }),
            carried: vec![i * n * 1_000_000, (1 - i) * n * 1_000_000],
            flows: (i == 1).then(|| Arc::new(FlowsReading::of(&flows(n)))),
        }
    };
    let worker = || {
        let mut block = LoopStats {
            at_ns: n * 100_000_000,
            turns: n * 10_000,
            busy_turns: n * 5_000,
            busy_ns: n * 40_000_000,
            longest_turn_ns: 90_000,
            received: n * 1000 + 3,
            transmitted: n * 1000,
            held: 3,
            shared_used: 40_000,
            shared_peak: 90_000,
            timed_turns: n * 100,
            timed_received: n * 500,
            timed_sent: n * 500,
            stage_ns: [n * 25_000; 8],
            fdb_entries: 2,
            fdb_learned: 2,
            ..LoopStats::default()
        };
        block.turn.note(8_000, n * 10_000);
        block
    };
    Reading {
        phase: Default::default(),
        ports: vec![port(0), port(1)],
        loops: vec![worker(), worker()],
        off_core: vec![None, Some(OffCore { ns: n * 1_000_000, at_ns: n * 100_000_000 })],
        engines: vec![engine(n)],
        lldp: crate::lldp::fake::reading(n).into(),
        lacp: crate::lacp::fake::reading(n).into(),
        mcast: crate::mcast::fake::reading(n).into(),
        mirror_files: Arc::new(vec![MirrorFileReading {
            mirror: "look".into(),
            frames: n * 100,
            bytes: n * 16_000,
            files: 1,
            lost: n,
            failures: 0,
            last_error: String::new(),
            error: Some("/var/log/weir/look.pcapng: No space left on device (os error 28)".into()),
        }]),
    }
}

/// A snapshot of the second reading.
pub fn snapshot() -> Snapshot {
    let mut sampler = crate::sample::Sampler::new(info());
    sampler.sample(reading(1), 1_700_000_000_000, 100);
    let mut snapshot = sampler.sample(reading(2), 1_700_000_000_100, 200);
    snapshot.export = Some(ExportReading {
        settings: EXPORT,
        messages: 40,
        records: 900,
        failed: 2,
        lost: 30,
        missed_seconds: 1,
        error: Some("Connection refused".into()),
    });
    snapshot
}

/// A source whose readings go on, one step each.
#[derive(Debug, Default)]
pub struct Fake(pub u64);

impl Source for Fake {
    fn info(&self) -> SwitchInfo {
        info()
    }

    fn read(&mut self) -> Reading {
        self.0 += 1;
        reading(self.0)
    }
}
