//! The list of tables, and columns of those that are not of ports.

use super::Form::{Count, Flag, Maybe, Rate, Share, Text};
use super::inc;
use super::lanes::{ECN, LATENCY, MARKING, PFC, PGS, QUEUES};
use super::mcast;
use super::ports::{LAGS, MIRRORS, PORTS, STORM_CONTROL, VLANS};
use super::{At, Column, Form, Table, count, rate, share};
use crate::lacp::{self, MemberReading};
use crate::mirror_files::MirrorFileReading;
use crate::snapshot::{Blame, LcoreRates, OffCore, PortInfo, PortRates, PortReading, Snapshot};
use crate::times::{Part, Times};
use serde_json::{Value, json};
use weir_config::{LagConfig, MirrorConfig};
use weir_dataplane::drops::{DROP_REASONS, DropReason, LosslessLoss};
use weir_dataplane::stats::{CURVE_BINS, Histogram, LoopStats, MarkingCurve, PortStats, Reasons, Stage};
use weir_dataplane::storm_control::FloodKind;
use weir_dataplane::types::PRIORITIES;
use weir_dataplane::vlan::PortVlans;

/// Every table.
pub const ALL: &[Table] = &[
    table("switch", "/v1/switch", "The switch as a whole, and its accounting.", SWITCH, false, |_| {
        vec![(0, 0)]
    }),
    table("ports", "/v1/ports", "Ports: rates, frames, loss outside the switch.", PORTS, true, |s| {
        (0..s.now.ports.len()).map(|port| (port, 0)).collect()
    }),
    table("queues", "/v1/queues", "Egress queues.", QUEUES, true, by_priority),
    table("pgs", "/v1/pgs", "Ingress priority groups.", PGS, true, by_priority),
    table("buffer", "/v1/buffer", "The parts of the shared buffer.", BUFFER, false, |_| {
        (0..POOLS.len()).map(|i| (0, i)).collect()
    }),
    table("pfc", "/v1/pfc", "Priority flow control, both directions.", PFC, true, by_priority),
    table("ecn", "/v1/ecn", "Marking by queue.", ECN, true, by_priority),
    table(
        "marking",
        "/v1/ecn/curve",
        "How queues mark, by depth: seen in the turns that are timed, one of 128.",
        MARKING,
        true,
        |s| {
            let bins = s.now.ports.iter().enumerate().flat_map(|(port, p)| {
                let all = p.curve.frames.iter().flatten().enumerate();
                all.filter(|(_, frames)| **frames > 0).map(move |(bin, _)| (port, bin))
            });
            bins.collect()
        },
    ),
    table(
        "matrix",
        "/v1/matrix",
        "Bytes queued from each port for each port, where there were any.",
        MATRIX,
        true,
        |s| {
            let pairs = s.now.ports.iter().enumerate().flat_map(|(to, port)| {
                let some = port.carried.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
                some.map(move |(from, _)| (to, from))
            });
            pairs.collect()
        },
    ),
    table("vlans", "/v1/vlans", "VLAN membership of ports, where they have any.", VLANS, true, |s| {
        let ports = s.info.ports.iter().enumerate();
        ports.filter(|(_, port)| port.vlans.is_some()).map(|(port, _)| (port, 0)).collect()
    }),
    table(
        "mcast",
        "/v1/mcast",
        "IGMP and MLD snooping: who asks for members, in VLANs that are snooped.",
        mcast::MCAST,
        false,
        mcast::by_vlan,
    ),
    table(
        "mdb",
        "/v1/mcast/groups",
        "IGMP and MLD snooping: which ports have joined which groups.",
        mcast::MDB,
        true,
        mcast::by_member,
    ),
    table(
        "mcast_ports",
        "/v1/mcast/ports",
        "IGMP and MLD snooping: what became of frames, by port.",
        mcast::MCAST_PORTS,
        true,
        mcast::by_port,
    ),
    table(
        "storm_control",
        "/v1/storm_control",
        "Limits on what ports flood of the frames they receive, where they have any.",
        STORM_CONTROL,
        true,
        |s| {
            let limited = |(port, kind): &(usize, usize)| {
                s.info.ports[*port].storm_control.is_some_and(|all| all.limits[*kind].is_some())
            };
            let kinds = |port| (0..FloodKind::ALL.len()).map(move |kind| (port, kind));
            (0..s.info.ports.len()).flat_map(kinds).filter(limited).collect()
        },
    ),
    table("lag", "/v1/lag", "Link aggregation groups, member by member.", LAGS, true, |s| {
        let of = |(i, lag): (usize, &LagConfig)| {
            lag.members.iter().map(move |port| (port.index(), i)).collect::<Vec<_>>()
        };
        s.info.lags.iter().enumerate().flat_map(of).collect()
    }),
    table(
        "mirrors",
        "/v1/mirrors",
        "Port mirrors: whose frames are copied, and where to.",
        MIRRORS,
        false,
        |s| {
            s.info
                .mirrors
                .iter()
                .enumerate()
                .map(|(i, mirror)| (mirror.port().map_or(0, |(to, _)| to.index()), i))
                .collect()
        },
    ),
    table("drops", "/v1/drops", "Frames lost, by port and reason; lossless ones first.", DROPS, true, lost),
    table("reasons", "/v1/drops/reasons", "Why frames can be lost.", REASONS, false, |_| {
        (0..DROP_REASONS).map(|i| (0, i)).collect()
    }),
    table(
        "latency",
        "/v1/latency",
        "Time from reception to the driver taking the frame, and its parts: residence = queueing + pause. Times are kept in buckets, and each number is the upper end of one, up to an eighth above the time it stands for; the longest, too.",
        LATENCY,
        true,
        by_priority,
    ),
    table(
        "inc",
        "/v1/inc/jobs",
        "In-network aggregation: jobs of each engine.",
        inc::JOBS,
        true,
        inc::by_job,
    ),
    table(
        "inc_ranks",
        "/v1/inc/ranks",
        "In-network aggregation: ranks of each job, and the engine above.",
        inc::RANKS,
        true,
        inc::by_peer,
    ),
    table(
        "inc_engines",
        "/v1/inc/engines",
        "In-network aggregation: engines, and what they have.",
        inc::ENGINES,
        true,
        inc::by_engine,
    ),
    table(
        "inc_drops",
        "/v1/inc/drops",
        "In-network aggregation: frames that engines have not used, by reason.",
        inc::DROPS,
        true,
        inc::by_reason,
    ),
    table("lcores", "/v1/lcores", "Workers: load, turns, accounting.", LCORES, false, |s| {
        (0..s.now.loops.len()).map(|lcore| (lcore, 0)).collect()
    }),
];

const fn table(
    name: &'static str,
    path: &'static str,
    what: &'static str,
    columns: &'static [Column],
    by_port: bool,
    rows: fn(&Snapshot) -> Vec<(usize, usize)>,
) -> Table {
    Table { name, path, what, columns, by_port, rows }
}

pub(super) const fn col(
    name: &'static str,
    form: Form,
    head: &'static str,
    what: &'static str,
    get: fn(&At<'_>) -> Value,
) -> Column {
    Column { name, form, head, what, get }
}

fn by_priority(s: &Snapshot) -> Vec<(usize, usize)> {
    (0..s.now.ports.len()).flat_map(|port| (0..PRIORITIES).map(move |i| (port, i))).collect()
}

fn lost(s: &Snapshot) -> Vec<(usize, usize)> {
    let ports = s.now.ports.iter().enumerate();
    let mut rows: Vec<_> = ports
        .flat_map(|(port, p)| (0..DROP_REASONS).filter(|r| p.stats.drops.0[*r] > 0).map(move |r| (port, r)))
        .collect();
    rows.sort_by_key(|(port, reason)| s.now.ports[*port].stats.lossless.0[*reason] == 0);
    rows
}

impl<'a> At<'a> {
    pub(super) fn info(&self) -> &'a PortInfo {
        &self.snapshot.info.ports[self.port]
    }

    pub(super) fn vlans(&self) -> Option<&'a PortVlans> {
        self.info().vlans.as_ref()
    }

    pub(super) fn lag(&self) -> &'a LagConfig {
        &self.snapshot.info.lags[self.i]
    }

    /// The port as a member of a LAG that speaks LACP.
    pub(super) fn lacp(&self) -> Option<&'a MemberReading> {
        self.snapshot.now.lacp.member(self.port)
    }

    /// What LACP knows of the partner of the port.
    pub(super) fn lacp_partner(&self) -> Option<&'a lacp::PortInfo> {
        self.lacp()?.partner.as_ref()
    }

    pub(super) fn mirror(&self) -> &'a MirrorConfig {
        &self.snapshot.info.mirrors[self.i]
    }

    /// What became of the file of the mirror, if it has one.
    pub(super) fn mirror_file(&self) -> Option<&'a MirrorFileReading> {
        let mirror = self.mirror();
        mirror.file()?;
        self.snapshot.now.mirror_files.iter().find(|reading| reading.mirror == mirror.name)
    }

    /// Of all ports whose frames the mirror copies.
    pub(super) fn of_mirrored(&self, get: impl Fn(&PortStats) -> u64) -> u64 {
        let ports = &self.snapshot.now.ports;
        self.mirror().ports.iter().map(|port| get(&ports[port.index()].stats)).sum()
    }

    pub(super) fn flood_kind(&self) -> FloodKind {
        FloodKind::ALL[self.i]
    }

    pub(super) fn port(&self) -> &'a PortReading {
        &self.snapshot.now.ports[self.port]
    }

    pub(super) fn rates(&self) -> &'a PortRates {
        &self.snapshot.ports[self.port]
    }

    pub(super) fn worker(&self) -> &'a LoopStats {
        &self.snapshot.now.loops[self.port]
    }

    pub(super) fn worker_rates(&self) -> &'a LcoreRates {
        &self.snapshot.lcores[self.port]
    }

    pub(super) fn off_core(&self) -> Option<OffCore> {
        *self.snapshot.now.off_core.get(self.port)?
    }

    pub(super) fn reason(&self) -> DropReason {
        DropReason::ALL[self.i]
    }

    /// Frames of all ports lost for this reason.
    pub(super) fn lost_everywhere(&self, of: fn(&PortStats) -> &Reasons) -> u64 {
        self.snapshot.now.ports.iter().map(|port| of(&port.stats).0[self.i]).sum()
    }

    pub(super) fn bit(&self, mask: u64) -> Value {
        json!(mask >> self.i & 1 == 1)
    }

    pub(super) fn drops(&self, egress: bool) -> Value {
        let at_egress = |reason: &DropReason| matches!(reason.stage(), "egress" | "watchdog");
        let drops = DropReason::ALL.iter().zip(&self.port().stats.drops.0);
        count(drops.filter(|(reason, _)| at_egress(reason) == egress).map(|(_, n)| n).sum())
    }

    pub(super) fn times(&self, window: bool) -> &'a Times {
        let all = if window { &self.rates().latency } else { &self.port().latency };
        &all[self.i]
    }

    pub(super) fn quantile(&self, part: Part, q: f64, window: bool) -> Value {
        self.times(window).quantile(part, q).map_or(Value::Null, count)
    }

    pub(super) fn curve_depths(&self) -> (u64, Option<u64>) {
        MarkingCurve::depths(self.port().curve.kmax[self.i / CURVE_BINS], self.i % CURVE_BINS)
    }

    pub(super) fn blame(&self) -> Option<Blame> {
        self.snapshot.blame(self.port, self.i)
    }

    pub(super) fn stage(&self, stage: Stage) -> Value {
        rate(self.worker_rates().stage_cycles[stage as usize])
    }

    pub(super) fn marking(&self, get: fn(&crate::snapshot::Marking) -> u64) -> Value {
        self.info().marking[self.i].as_ref().map_or(Value::Null, |m| count(get(m)))
    }
}

/// Upper end of the bucket that holds the value of this rank, ns.
fn quantile(histogram: &Histogram, q: f64) -> Value {
    histogram.quantile(q).map_or(Value::Null, count)
}

pub(super) const PORT: Column = col("port", Text, "Port", "name of the port", |r| json!(r.info().name));

const SWITCH: &[Column] = &[
    col("name", Text, "Name", "name of the switch", |r| json!(r.snapshot.info.name)),
    col("version", Text, "Version", "version of weir", |r| json!(r.snapshot.info.version)),
    col("dpdk", Text, "DPDK", "version of DPDK", |r| json!(r.snapshot.info.dpdk)),
    col("phase", Text, "Phase", "forwarding, draining or stopping", |r| json!(r.snapshot.now.phase.word())),
    col("ports", Count, "Ports", "number of ports", |r| json!(r.snapshot.info.ports.len())),
    col(
        "lossless_drops",
        Count,
        "Lossless drops",
        "frames of lossless classes received and not delivered, whatever the reason; not those of the watchdog and of the operator",
        |r| count(r.snapshot.lossless_drops()),
    ),
    col(
        "lossless_drops_watchdog",
        Count,
        "Lossless drops by watchdog",
        "frames of lossless classes that the watchdog dropped, as it was told to",
        |r| count(r.snapshot.lossless_drops_watchdog()),
    ),
    col(
        "lossless_drops_operator",
        Count,
        "Lossless drops by operator",
        "frames of lossless classes lost because a port was switched off or the run ended",
        |r| count(r.snapshot.lossless_drops_operator()),
    ),
    col(
        "lossless_drops_possible",
        Count,
        "Lossless drops possible",
        "frames that drivers lost on ports with lossless classes: no class is known of them",
        |r| count(r.snapshot.lossless_drops_possible()),
    ),
    col("health", Text, "Health", "healthy, or what is wrong, worst first", |r| {
        json!(match r.snapshot.faults() {
            faults if faults.is_empty() => "healthy".to_owned(),
            faults => faults.join(", "),
        })
    }),
    col("received", Count, "Received", "data frames received", |r| count(r.snapshot.total(|l| l.received))),
    col("copies", Count, "Copies", "copies made for flooding, beyond the first, and for mirrors", |r| {
        count(r.snapshot.total(|l| l.copies))
    }),
    col("transmitted", Count, "Transmitted", "data frames the drivers have taken", |r| {
        count(r.snapshot.total(|l| l.transmitted))
    }),
    col("dropped", Count, "Dropped", "data frames lost, each with a reason", |r| {
        count(r.snapshot.total(|l| l.dropped))
    }),
    col("held", Count, "Held", "frames queued or staged", |r| count(r.snapshot.total(|l| l.held))),
    col("in_flight", Count, "", "frames between two lcores, nearly", |r| count(r.snapshot.in_flight())),
    col(
        "conservation_error",
        Count,
        "Accounting error",
        "received + copies - transmitted - dropped - held, absolute, added up over workers; not zero: weir has lost count",
        |r| count(r.snapshot.conservation_error()),
    ),
    col("poll_gap_ns", Count, "", "longest gap between two polls the headroom is planned for", |r| {
        count(r.snapshot.info.poll_gap)
    }),
];

/// Parts of the buffer: name, size, what is in use, peak.
type Pool = (&'static str, fn(&Snapshot) -> u64, fn(&Snapshot) -> Option<u64>, fn(&Snapshot) -> Option<u64>);

const POOLS: &[Pool] = &[
    (
        "reserved",
        |s| s.info.buffer.reserved,
        |s| {
            let ports = s.now.ports.iter().map(|port| &port.gauges);
            Some(
                ports
                    .flat_map(|g| (0..PRIORITIES).map(|pg| g.pg_used[pg].saturating_sub(g.pg_shared[pg])))
                    .sum(),
            )
        },
        |_| None,
    ),
    (
        "shared",
        |s| s.info.buffer.shared,
        |s| Some(pool(s, |l| l.shared_used)),
        |s| Some(pool(s, |l| l.shared_peak)),
    ),
    (
        "headroom",
        |s| s.info.buffer.headroom,
        |s| Some(pool(s, |l| l.headroom_used)),
        |s| Some(pool(s, |l| l.headroom_peak)),
    ),
    ("control", |s| s.info.buffer.control, |s| Some(s.total(|l| l.control_used)), |_| None),
    ("mirrors", |s| s.info.buffer.mirrors, |s| Some(s.total(|l| l.mirror_used)), |_| None),
];

/// Every worker sees the pools of all; the one that saw most is nearest.
fn pool(s: &Snapshot, get: fn(&LoopStats) -> u64) -> u64 {
    s.now.loops.iter().map(get).max().unwrap_or(0)
}

const BUFFER: &[Column] = &[
    col("pool", Text, "Pool", "part of the buffer", |r| json!(POOLS[r.i].0)),
    col("size_bytes", Count, "Size/bytes", "its size", |r| count(POOLS[r.i].1(r.snapshot))),
    col("used_bytes", Maybe, "Used/bytes", "bytes in use; null: not told apart", |r| {
        POOLS[r.i].2(r.snapshot).map_or(Value::Null, count)
    }),
    col("peak_bytes", Maybe, "Watermark/bytes", "most bytes in use since start; null: not kept", |r| {
        POOLS[r.i].3(r.snapshot).map_or(Value::Null, count)
    }),
];

const MATRIX: &[Column] = &[
    col("port", Text, "To", "port they were queued for", |r| json!(r.info().name)),
    col("from", Text, "From", "port they came in on", |r| {
        json!(r.snapshot.info.ports.get(r.i).map_or("", |port| port.name.as_str()))
    }),
    col("bytes", Count, "Bytes", "bytes queued, copies of flooded frames included", |r| {
        count(r.port().carried.get(r.i).copied().unwrap_or(0))
    }),
    col("bps", Rate, "Rate/bps", "bit/s queued", |r| {
        rate(r.rates().carried_bps.get(r.i).copied().unwrap_or(0.0))
    }),
];

const DROPS: &[Column] = &[
    PORT,
    col("reason", Text, "Reason", "stage and reason", |r| json!(r.reason().name())),
    col("stage", Text, "", "stage of the pipeline", |r| json!(r.reason().stage())),
    col("lossless", Flag, "Lossless", "frames of a lossless class are among them", |r| {
        json!(r.port().stats.lossless.0[r.i] > 0)
    }),
    col("frames", Count, "Drop/pkts", "frames lost", |r| count(r.port().stats.drops.0[r.i])),
    col("lossless_frames", Count, "Lossless/pkts", "those of them of a lossless class", |r| {
        count(r.port().stats.lossless.0[r.i])
    }),
    col("pps", Rate, "Rate/pps", "frames lost per second", |r| {
        rate(r.rates().drops.get(r.i).copied().unwrap_or(0.0))
    }),
    col(
        "last_unix_ms",
        Count,
        "",
        "when frames were last lost, ms since 1970; 0: before the first sample",
        |r| {
            let ago = |last| r.snapshot.uptime_ms.saturating_sub(last);
            count(
                r.snapshot.last_drop[r.port][r.i].map_or(0, |at| r.snapshot.unix_ms.saturating_sub(ago(at))),
            )
        },
    ),
    col("remedy", Text, "What to check", "what to look at", |r| json!(r.reason().remedy())),
];

const REASONS: &[Column] = &[
    col("reason", Text, "Reason", "stage and reason: the public name", |r| json!(r.reason().name())),
    col("stage", Text, "", "stage of the pipeline", |r| json!(r.reason().stage())),
    col("side", Text, "Counted at", "the port it is counted at: that of arrival or of departure", |r| {
        json!(r.reason().side().word())
    }),
    col("lossless", Flag, "Lossless", "frames of a lossless class are among them", |r| {
        json!(r.lost_everywhere(|s| &s.lossless) > 0)
    }),
    col("frames", Count, "Drop/pkts", "frames lost on all ports", |r| count(r.lost_everywhere(|s| &s.drops))),
    col("lossless_frames", Count, "Lossless/pkts", "those of them of a lossless class", |r| {
        count(r.lost_everywhere(|s| &s.lossless))
    }),
    col("lossless_possible", Flag, "", "frames of a lossless class can be lost so", |r| {
        json!(!matches!(r.reason().lossless(), LosslessLoss::Never(_)))
    }),
    col("meaning", Text, "Meaning", "what happened", |r| json!(r.reason().meaning().trim())),
    col("remedy", Text, "", "what to look at", |r| json!(r.reason().remedy())),
];

const LCORES: &[Column] = &[
    col("lcore", Count, "Lcore", "core of the worker", |r| {
        json!(r.snapshot.info.lcores.get(r.port).copied().unwrap_or(r.port))
    }),
    col("alive", Flag, "Alive", "it has published within the window", |r| json!(r.worker_rates().window > 0)),
    col("turns", Count, "Turns", "turns of the polling loop", |r| count(r.worker().turns)),
    col("busy_turns", Count, "Busy turns", "turns that moved a frame", |r| count(r.worker().busy_turns)),
    col("turns_per_second", Rate, "Turns/s", "turns per second", |r| rate(r.worker_rates().turns)),
    col("busy_share", Share, "Busy", "share of the window spent in turns that moved a frame", |r| {
        share(r.worker_rates().busy)
    }),
    col(
        "off_core_share",
        Share,
        "Off core",
        "share of the window in which its thread could run and its core did something else",
        |r| share(r.worker_rates().off_core.unwrap_or(0.0)),
    ),
    col("off_core_ns", Maybe, "", "the same since start; null: the system does not say", |r| {
        r.off_core().map_or(Value::Null, |off| count(off.ns))
    }),
    col(
        "longest_turn_ns",
        Count,
        "Longest/ns",
        "longest turn since start: the poll gap the headroom has to cover",
        |r| count(r.worker().longest_turn_ns),
    ),
    col("turn_p50_ns", Maybe, "p50/ns", "median turn of the window", |r| {
        quantile(&r.worker_rates().turn, 0.5)
    }),
    col("turn_p99_ns", Maybe, "p99/ns", "99 % of the turns of the window", |r| {
        quantile(&r.worker_rates().turn, 0.99)
    }),
    col("turn_max_ns", Maybe, "Max/ns", "longest turn of the window", |r| {
        quantile(&r.worker_rates().turn, 1.0)
    }),
    col(
        "rx_driver_cycles",
        Rate,
        "RX drv/cycles",
        "cycles per frame received in the driver's receive",
        |r| r.stage(Stage::RxDriver),
    ),
    col(
        "receive_cycles",
        Rate,
        "Receive/cycles",
        "cycles per frame received to parse, look up, admit, queue",
        |r| r.stage(Stage::Receive),
    ),
    col(
        "transmit_cycles",
        Rate,
        "Transmit/cycles",
        "cycles per frame sent to schedule, mark, release",
        |r| r.stage(Stage::Transmit),
    ),
    col("tx_driver_cycles", Rate, "TX drv/cycles", "cycles per frame sent in the driver's transmit", |r| {
        r.stage(Stage::TxDriver)
    }),
    col(
        "tick_cycles",
        Rate,
        "Tick/cycles",
        "cycles per frame for all that is not done on account of one",
        |r| r.stage(Stage::Tick),
    ),
    col("held", Count, "Held", "frames queued or staged", |r| count(r.worker().held)),
    col("fdb_entries", Count, "FDB", "entries of its forwarding table", |r| count(r.worker().fdb_entries)),
    col("fdb_learned", Count, "", "addresses learned", |r| count(r.worker().fdb_learned)),
    col("fdb_moved", Count, "Moved", "addresses that appeared on another port", |r| {
        count(r.worker().fdb_moved)
    }),
    col("fdb_aged", Count, "", "entries that aged out or went with their port", |r| {
        count(r.worker().fdb_aged)
    }),
    col("fdb_refused", Count, "", "addresses not learned for want of room", |r| {
        count(r.worker().fdb_refused)
    }),
    col("handed_in", Count, "", "frames taken over from other lcores", |r| count(r.worker().handed_in)),
    col("handed_out", Count, "", "frames given to other lcores", |r| count(r.worker().handed_out)),
    col(
        "conservation_error",
        Count,
        "Error",
        "its accounting error, absolute; not zero: weir has lost count",
        |r| count(r.worker().conservation_error().unsigned_abs()),
    ),
];
