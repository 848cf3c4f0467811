//! The list itself.

use super::Form::{Count, Flag, Maybe, Rate, Share, Text};
use super::inc;
use super::{At, Column, Form, Table, count, limit, rate, share};
use crate::mirror_files::MirrorFileReading;
use crate::snapshot::{Blame, LcoreRates, OffCore, PortInfo, PortRates, PortReading, Snapshot};
use crate::times::{Part, Times};
use serde_json::{Value, json};
use weir_config::{LagConfig, MirrorConfig, show_flood_limit, show_vids};
use weir_dataplane::drops::{DROP_REASONS, DropReason};
use weir_dataplane::stats::{CURVE_BINS, Histogram, LoopStats, MarkingCurve, PortStats, Reasons, Stage};
use weir_dataplane::storm_control::FloodKind;
use weir_dataplane::switch::Filter;
use weir_dataplane::types::PRIORITIES;
use weir_dataplane::vlan::PortVlans;

/// Every table.
pub const ALL: &[Table] = &[
    table("switch", "/v1/switch", "The switch and its books.", SWITCH, false, |_| vec![(0, 0)]),
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
        "Time from reception to the driver taking the frame, and its parts: residence = queueing + pause.",
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
    table("lcores", "/v1/lcores", "Workers: load, turns, books.", LCORES, false, |s| {
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

    fn vlans(&self) -> Option<&'a PortVlans> {
        self.info().vlans.as_ref()
    }

    fn lag(&self) -> &'a LagConfig {
        &self.snapshot.info.lags[self.i]
    }

    fn mirror(&self) -> &'a MirrorConfig {
        &self.snapshot.info.mirrors[self.i]
    }

    /// What became of the file of the mirror, if it has one.
    fn mirror_file(&self) -> Option<&'a MirrorFileReading> {
        let mirror = self.mirror();
        mirror.file()?;
        self.snapshot.now.mirror_files.iter().find(|reading| reading.mirror == mirror.name)
    }

    /// Of all ports whose frames the mirror copies.
    fn of_mirrored(&self, get: impl Fn(&PortStats) -> u64) -> u64 {
        let ports = &self.snapshot.now.ports;
        self.mirror().ports.iter().map(|port| get(&ports[port.index()].stats)).sum()
    }

    fn flood_kind(&self) -> FloodKind {
        FloodKind::ALL[self.i]
    }

    fn port(&self) -> &'a PortReading {
        &self.snapshot.now.ports[self.port]
    }

    fn rates(&self) -> &'a PortRates {
        &self.snapshot.ports[self.port]
    }

    fn worker(&self) -> &'a LoopStats {
        &self.snapshot.now.loops[self.port]
    }

    fn worker_rates(&self) -> &'a LcoreRates {
        &self.snapshot.lcores[self.port]
    }

    fn off_core(&self) -> Option<OffCore> {
        *self.snapshot.now.off_core.get(self.port)?
    }

    fn reason(&self) -> DropReason {
        DropReason::ALL[self.i]
    }

    /// Frames of all ports lost for this reason.
    fn lost_everywhere(&self, of: fn(&PortStats) -> &Reasons) -> u64 {
        self.snapshot.now.ports.iter().map(|port| of(&port.stats).0[self.i]).sum()
    }

    fn bit(&self, mask: u64) -> Value {
        json!(mask >> self.i & 1 == 1)
    }

    fn drops(&self, egress: bool) -> Value {
        let at_egress = |reason: &DropReason| matches!(reason.stage(), "egress" | "watchdog");
        let drops = DropReason::ALL.iter().zip(&self.port().stats.drops.0);
        count(drops.filter(|(reason, _)| at_egress(reason) == egress).map(|(_, n)| n).sum())
    }

    fn times(&self, window: bool) -> &'a Times {
        let all = if window { &self.rates().latency } else { &self.port().latency };
        &all[self.i]
    }

    fn quantile(&self, part: Part, q: f64, window: bool) -> Value {
        self.times(window).quantile(part, q).map_or(Value::Null, count)
    }

    fn curve_depths(&self) -> (u64, Option<u64>) {
        MarkingCurve::depths(self.port().curve.kmax[self.i / CURVE_BINS], self.i % CURVE_BINS)
    }

    fn blame(&self) -> Option<Blame> {
        self.snapshot.blame(self.port, self.i)
    }

    fn stage(&self, stage: Stage) -> Value {
        rate(self.worker_rates().stage_cycles[stage as usize])
    }

    fn marking(&self, get: fn(&crate::snapshot::Marking) -> u64) -> Value {
        self.info().marking[self.i].as_ref().map_or(Value::Null, |m| count(get(m)))
    }
}

/// Upper end of the bucket that holds the value of this rank, ns.
fn quantile(histogram: &Histogram, q: f64) -> Value {
    histogram.quantile(q).map_or(Value::Null, count)
}

pub(super) const PORT: Column = col("port", Text, "Port", "name of the port", |r| json!(r.info().name));

const VLANS: &[Column] = &[
    PORT,
    col("mode", Text, "Mode", "`access`: one VLAN, without tags; or `trunk`", |r| {
        json!(r.vlans().map(|vlans| if vlans.native.is_some() && vlans.members.iter().count() == 1 {
            "access"
        } else {
            "trunk"
        }))
    }),
    col("native", Maybe, "Native", "VLAN of frames without a tag; null: they are dropped", |r| {
        json!(r.vlans().and_then(|vlans| vlans.native))
    }),
    col("tagged", Text, "Tagged", "VLANs whose frames leave with a tag", |r| {
        let tagged = |vlans: &PortVlans| {
            show_vids(&vlans.members.iter().filter(|vid| vlans.native != Some(*vid)).collect())
        };
        json!(r.vlans().map(tagged))
    }),
    col("dropped_packets", Count, "Dropped", "frames received here that VLANs have kept from leaving", |r| {
        let drops = DropReason::ALL.iter().zip(&r.port().stats.drops.0);
        count(drops.filter(|(reason, _)| reason.stage() == "vlan").map(|(_, n)| n).sum())
    }),
];

const STORM_CONTROL: &[Column] = &[
    PORT,
    col("kind", Text, "Kind", "`broadcast`, `unknown_unicast` or `multicast`", |r| {
        json!(r.flood_kind().word())
    }),
    col("limit", Text, "Limit", "bit/s on the wire, or frames per second", |r| {
        let limit = r.info().storm_control.and_then(|limits| limits.limit(r.flood_kind()));
        json!(limit.map(|limit| show_flood_limit(&limit)))
    }),
    col("burst_ns", Count, "Burst", "unused time that lets as much more pass at once", |r| {
        count(r.info().storm_control.map_or(0, |limits| limits.burst))
    }),
    col("exceeded", Flag, "Exceeded", "a frame of this kind would be dropped now", |r| {
        r.bit(r.port().gauges.flood_exceeded)
    }),
    col("dropped_packets", Count, "Dropped", "frames above the limit", |r| {
        count(r.port().stats.drops.0[r.flood_kind().reason() as usize])
    }),
];

const LAGS: &[Column] = &[
    PORT,
    col("name", Text, "LAG", "name of the LAG", |r| json!(r.lag().name)),
    LINK,
    col("hash", Text, "Hash", "what tells flows apart: `l2`, `l3` or `l4`", |r| json!(r.lag().hash.word())),
    col("rx_packets", Count, "RX_OK", "data frames received by this member", |r| {
        count(r.port().stats.rx_packets)
    }),
    col("tx_packets", Count, "TX_OK", "data frames that left by this member", |r| {
        count(r.port().stats.tx_packets)
    }),
    col(
        "lag_changes",
        Count,
        "Changes",
        "times that it left or joined because of its link: flows have moved",
        |r| count(r.port().stats.lag_changes),
    ),
];

const MIRRORS: &[Column] = &[
    col("name", Text, "Name", "name of the mirror", |r| json!(r.mirror().name)),
    col("ports", Text, "Ports", "whose frames are copied", |r| {
        let names = r.mirror().ports.iter().map(|port| r.snapshot.info.ports[port.index()].name.as_str());
        json!(names.collect::<Vec<_>>().join(","))
    }),
    col("direction", Text, "Direction", "`rx`, `tx` or `both`", |r| json!(r.mirror().direction.word())),
    col("filter", Text, "Filter", "which of their frames; empty: all", |r| {
        json!(show_filter(&r.mirror().filter))
    }),
    col("to", Text, "To", "where the copies go: a port, or a file", |r| {
        json!(r.mirror().file().map_or(&r.info().name, |file| &file.path))
    }),
    col("mirrored_packets", Count, "Copies", "copies made of frames of these ports, for any mirror", |r| {
        count(r.of_mirrored(|stats| stats.mirrored + stats.recorded))
    }),
    col(
        "dropped_packets",
        Count,
        "Dropped",
        "copies of frames of these ports that found no room, or were too long",
        |r| {
            let of_mirrors = |stats: &PortStats| {
                let drops = DropReason::ALL.iter().zip(&stats.drops.0);
                drops.filter(|(reason, _)| reason.stage() == "mirror").map(|(_, n)| n).sum()
            };
            count(r.of_mirrored(of_mirrors))
        },
    ),
    col("file_packets", Maybe, "Written", "frames written; null: the copies go to a port", |r| {
        r.mirror_file().map_or(Value::Null, |file| count(file.frames))
    }),
    col("file_bytes", Maybe, "Bytes", "bytes of files written, with what describes the frames", |r| {
        r.mirror_file().map_or(Value::Null, |file| count(file.bytes))
    }),
    col("file_lost_packets", Maybe, "Lost", "frames that could not be written", |r| {
        r.mirror_file().map_or(Value::Null, |file| count(file.lost))
    }),
    col("error", Text, "Error", "why the last ones could not be written; empty: all is well", |r| {
        json!(r.mirror_file().and_then(|file| file.error.as_deref()).unwrap_or_default())
    }),
];

/// As it is asked for on the command line of `weir capture`.
fn show_filter(filter: &Filter) -> String {
    let Filter { dst, src, ethertype, dscp, udp_port, ip, qp } = filter;
    let texts = [
        dst.map(|mac| format!("dst {mac}")),
        src.map(|mac| format!("src {mac}")),
        ethertype.map(|n| format!("ethertype {n:#06x}")),
        dscp.map(|n| format!("dscp {n}")),
        udp_port.map(|n| format!("udp_port {n}")),
        ip.map(|ip| format!("ip {ip}")),
        qp.map(|qp| format!("qp {qp:#x}")),
    ];
    texts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

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
        "frames of lossless classes received and not delivered, whatever the reason; not those of the watchdog",
        |r| count(r.snapshot.lossless_drops()),
    ),
    col(
        "lossless_drops_watchdog",
        Count,
        "By watchdog",
        "frames of lossless classes that the watchdog dropped, as it was told to",
        |r| count(r.snapshot.lossless_drops_watchdog()),
    ),
    col(
        "lossless_drops_possible",
        Count,
        "Possible",
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
        "Error",
        "received + copies - transmitted - dropped - held, absolute, added up over workers; not zero: weir has lost count",
        |r| count(r.snapshot.conservation_error()),
    ),
    col("poll_gap_ns", Count, "", "longest gap between two polls the headroom is planned for", |r| {
        count(r.snapshot.info.poll_gap)
    }),
];

const LINK: Column = col("link", Text, "STATE", "up, down or unknown", |r| {
    json!(r.port().link.map_or("unknown", |link| if link.up { "up" } else { "down" }))
});

const PORTS: &[Column] = &[
    PORT,
    LINK,
    col("device", Text, "", "device, as configured", |r| json!(r.info().device)),
    col("driver", Text, "", "DPDK driver", |r| json!(r.info().driver)),
    col("lcore", Count, "", "core that polls it", |r| json!(r.info().lcore)),
    col("rate_bps", Maybe, "", "bit/s it sends at most: `rate`, or the link's where that is less", |r| {
        r.info().rate.map_or(Value::Null, count)
    }),
    col("link_bps", Maybe, "", "speed of the link, where the driver knows", |r| {
        let mbps = r.port().link.and_then(|link| link.mbps);
        mbps.map_or(Value::Null, |mbps| count(u64::from(mbps) * 1_000_000))
    }),
    col("pfc_priorities", Count, "", "priorities with PFC, a bit each", |r| json!(r.info().pfc)),
    col("pfc_mode", Text, "", "software, not seen by software, or off", |r| {
        json!(match (r.info().pfc, r.info().software_pfc) {
            (0, _) => "off",
            (_, true) => "software",
            (_, false) => "not seen by software",
        })
    }),
    col("pfc_frames", Text, "", "what is known of PFC frames between the wire and software", |r| {
        json!(r.info().pfc_frames)
    }),
    col(
        "pause_response",
        Maybe,
        "",
        "bytes that may still leave after a received pause: what the peer's headroom is to allow for; none where the port obeys \
         none in software or its rate is not known",
        |r| r.info().pause_response.map_or(Value::Null, count),
    ),
    col("rx_packets", Count, "RX_OK", "data frames received", |r| count(r.port().stats.rx_packets)),
    col("rx_bps", Rate, "RX_BPS", "bit/s received, without FCS", |r| rate(r.rates().rx_bps)),
    col("rx_pps", Rate, "", "frames/s received", |r| rate(r.rates().rx_pps)),
    col(
        "rx_utilisation",
        Share,
        "RX_UTIL",
        "share of the line rate received, with FCS, preamble and gap",
        |r| share(r.rates().rx_utilisation),
    ),
    col("rx_bytes", Count, "", "bytes received, without FCS", |r| count(r.port().stats.rx_bytes)),
    col("nic_rx_errors", Maybe, "RX_ERR", "frames received with an error, by the driver", |r| {
        r.port().nic.map_or(Value::Null, |nic| count(nic.rx_errors))
    }),
    col("rx_drops", Count, "RX_DRP", "frames dropped on the way in", |r| r.drops(false)),
    col("nic_missed", Maybe, "RX_OVR", "frames lost for lack of a receive descriptor, by the driver", |r| {
        r.port().nic.map_or(Value::Null, |nic| count(nic.rx_missed))
    }),
    col("nic_no_mbuf", Maybe, "", "receptions without memory, by the driver", |r| {
        r.port().nic.map_or(Value::Null, |nic| count(nic.rx_no_mbuf))
    }),
    col("tx_packets", Count, "TX_OK", "data frames the driver has taken", |r| {
        count(r.port().stats.tx_packets)
    }),
    col("tx_bps", Rate, "TX_BPS", "bit/s sent, without FCS", |r| rate(r.rates().tx_bps)),
    col("tx_pps", Rate, "", "frames/s sent", |r| rate(r.rates().tx_pps)),
    col("tx_utilisation", Share, "TX_UTIL", "share of the line rate sent", |r| {
        share(r.rates().tx_utilisation)
    }),
    col("tx_bytes", Count, "", "bytes sent, without FCS", |r| count(r.port().stats.tx_bytes)),
    col("nic_tx_errors", Maybe, "TX_ERR", "frames that could not be sent, by the driver", |r| {
        r.port().nic.map_or(Value::Null, |nic| count(nic.tx_errors))
    }),
    col("tx_drops", Count, "TX_DRP", "frames dropped on the way out", |r| r.drops(true)),
    col(
        "lossless_drops",
        Count,
        "LOSSLESS",
        "frames of lossless classes lost here, in and out; not those of the watchdog",
        |r| count(r.port().stats.lossless_drops()),
    ),
    col(
        "lossless_drops_watchdog",
        Count,
        "",
        "frames of lossless classes that the watchdog dropped here",
        |r| count(r.port().stats.lossless_drops_watchdog()),
    ),
    col(
        "lossless_drops_possible",
        Count,
        "",
        "frames that the driver lost, if the port has lossless classes: perhaps of one",
        |r| count(r.snapshot.possible_at(r.port)),
    ),
    col(
        "copies",
        Count,
        "",
        "copies made of frames received here, and for mirrors of frames sent here",
        |r| count(r.port().stats.copies),
    ),
    col("mirrored_packets", Count, "", "those of them that were made for mirrors", |r| {
        count(r.port().stats.mirrored)
    }),
    col("recorded_packets", Count, "", "frames received or sent here that mirrors gave to files", |r| {
        count(r.port().stats.recorded)
    }),
    col("flooded", Count, "", "frames flooded for want of a destination", |r| count(r.port().stats.flooded)),
    col("malformed_l3", Count, "", "frames forwarded although their IP header is malformed", |r| {
        count(r.port().stats.malformed_l3)
    }),
    col(
        "checksums_completed",
        Count,
        "",
        "frames whose checksum a host had left to hardware, given one",
        |r| count(r.port().stats.checksums_completed),
    ),
    col("rx_control", Count, "", "MAC control frames received", |r| count(r.port().stats.rx_control)),
    col("tx_control", Count, "", "MAC control frames sent", |r| count(r.port().stats.tx_control)),
    col("pfc_rx_frames", Count, "", "PFC frames received", |r| count(r.port().gauges.pfc_rx_frames)),
    col("pfc_tx_frames", Count, "", "PFC frames sent", |r| count(r.port().gauges.pfc_tx_frames)),
    col("tx_control_no_memory", Count, "", "PFC frames that had to wait for memory", |r| {
        count(r.port().stats.tx_control_no_memory)
    }),
    col("invalid_control", Count, "", "MAC control frames that are neither PAUSE nor PFC", |r| {
        count(r.port().gauges.invalid_control)
    }),
    col("pause_frames", Count, "", "802.3x PAUSE frames received", |r| count(r.port().gauges.pause_frames)),
];

const QUEUES: &[Column] = &[
    PORT,
    col("queue", Count, "TxQ", "egress queue", |r| json!(r.i)),
    col("packets", Count, "Counter/pkts", "frames the driver has taken", |r| {
        count(r.port().stats.queue_packets[r.i])
    }),
    col("bytes", Count, "Counter/bytes", "their bytes", |r| count(r.port().stats.queue_bytes[r.i])),
    col("drops", Count, "Drop/pkts", "frames refused or flushed", |r| count(r.port().stats.queue_drops[r.i])),
    col("bps", Rate, "Rate/bps", "bit/s sent", |r| rate(r.rates().queue_bps[r.i])),
    col("pps", Rate, "", "frames/s sent", |r| rate(r.rates().queue_pps[r.i])),
    col("depth_bytes", Count, "Depth/bytes", "bytes held", |r| count(r.port().gauges.queue_bytes[r.i])),
    col("peak_bytes", Count, "Watermark/bytes", "most bytes held since start", |r| {
        count(r.port().gauges.queue_peak[r.i])
    }),
    col("limit_bytes", Maybe, "", "most bytes it may hold now; null: no limit of its own", |r| {
        limit(r.port().gauges.queue_limit[r.i])
    }),
    col("kmin_bytes", Maybe, "", "nothing is marked up to here", |r| r.marking(|m| m.kmin)),
    col("kmax_bytes", Maybe, "", "everything is marked above", |r| r.marking(|m| m.kmax)),
    col("paused", Flag, "Paused", "the peer has paused it", |r| r.bit(r.port().gauges.paused_queues)),
    col("storm", Flag, "Storm", "the watchdog sees a storm", |r| r.bit(r.port().gauges.stormed_queues)),
];

const PGS: &[Column] = &[
    PORT,
    col("pg", Count, "PG", "priority group", |r| json!(r.i)),
    col("lossless", Flag, "Lossless", "sends Xoff instead of dropping", |r| r.bit(r.info().lossless.into())),
    col("packets", Count, "Counter/pkts", "frames charged to it", |r| count(r.port().stats.pg_packets[r.i])),
    col("drops", Count, "Drop/pkts", "frames refused", |r| count(r.port().stats.pg_drops[r.i])),
    col("used_bytes", Count, "", "bytes in its reserve and in the shared pool", |r| {
        count(r.port().gauges.pg_used[r.i])
    }),
    col("shared_bytes", Count, "Shared/bytes", "bytes in the shared pool", |r| {
        count(r.port().gauges.pg_shared[r.i])
    }),
    col("xoff_bytes", Maybe, "Xoff at", "the moving Xoff line: most shared bytes it may hold now", |r| {
        limit(r.port().gauges.pg_limit[r.i])
    }),
    col("xon_bytes", Maybe, "Xon at", "where it would resume now", |r| limit(r.port().gauges.pg_xon[r.i])),
    col("headroom_bytes", Count, "Headroom/bytes", "bytes in headroom", |r| {
        count(r.port().gauges.pg_headroom[r.i])
    }),
    col("headroom_size_bytes", Count, "", "most bytes it may hold in headroom", |r| {
        count(r.info().headroom[r.i])
    }),
    col("shared_peak_bytes", Count, "Shared wm", "most shared bytes since start", |r| {
        count(r.port().gauges.pg_shared_peak[r.i])
    }),
    col("headroom_peak_bytes", Count, "Headroom wm", "most headroom since start", |r| {
        count(r.port().gauges.pg_headroom_peak[r.i])
    }),
    col("xoff", Flag, "Xoff", "the peer is told to pause on its account", |r| {
        let priorities = u64::from(r.info().pg_priorities[r.i]);
        json!(r.port().gauges.xoff_priorities & priorities != 0)
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
    ("control", |s| s.info.buffer.control, |_| None, |_| None),
    ("mirrors", |s| s.info.buffer.mirrors, |_| None, |_| None),
];

/// Every worker sees the pools of all; the one that saw most is nearest.
fn pool(s: &Snapshot, get: fn(&LoopStats) -> u64) -> u64 {
    s.now.loops.iter().map(get).max().unwrap_or(0)
}

const BUFFER: &[Column] = &[
    col("pool", Text, "Pool", "part of the buffer", |r| json!(POOLS[r.i].0)),
    col("size_bytes", Count, "Bytes", "its size", |r| count(POOLS[r.i].1(r.snapshot))),
    col("used_bytes", Maybe, "Used", "bytes in use; null: not told apart", |r| {
        POOLS[r.i].2(r.snapshot).map_or(Value::Null, count)
    }),
    col("peak_bytes", Maybe, "Watermark", "most bytes in use since start; null: not kept", |r| {
        POOLS[r.i].3(r.snapshot).map_or(Value::Null, count)
    }),
];

const PFC: &[Column] = &[
    PORT,
    col("priority", Count, "Prio", "priority", |r| json!(r.i)),
    col("enabled", Flag, "PFC", "PFC is on", |r| r.bit(r.info().pfc.into())),
    col("rx_packets", Count, "", "data frames received of this priority", |r| {
        count(r.port().stats.rx_priority_packets[r.i])
    }),
    col("rx_bytes", Count, "", "their bytes, without FCS", |r| count(r.port().stats.rx_priority_bytes[r.i])),
    col("rx_xoff", Count, "Rx Xoff", "frames received that paused it", |r| {
        count(r.port().gauges.pfc_rx_xoff[r.i])
    }),
    col("rx_xon", Count, "Rx Xon", "frames received that resumed it", |r| {
        count(r.port().gauges.pfc_rx_xon[r.i])
    }),
    col("tx_xoff", Count, "Tx Xoff", "frames sent that paused the peer or refreshed that", |r| {
        count(r.port().gauges.pfc_tx_xoff[r.i])
    }),
    col("tx_xon", Count, "Tx Xon", "frames sent that resumed the peer", |r| {
        count(r.port().gauges.pfc_tx_xon[r.i])
    }),
    col("rx_pauses", Count, "Rx pauses", "times the peer has paused us", |r| {
        count(r.port().gauges.rx_pauses[r.i])
    }),
    col("tx_pauses", Count, "Tx pauses", "times we have paused the peer", |r| {
        count(r.port().gauges.tx_pauses[r.i])
    }),
    col("rx_paused_ns", Count, "Rx paused/ns", "time the peer has paused us", |r| {
        count(r.port().gauges.rx_paused_ns[r.i])
    }),
    col("tx_paused_ns", Count, "Tx paused/ns", "time we have paused the peer", |r| {
        count(r.port().gauges.tx_paused_ns[r.i])
    }),
    col("rx_paused_share", Share, "Rx paused", "share of the window in which the peer paused us", |r| {
        share(r.rates().rx_paused[r.i])
    }),
    col("tx_paused_share", Share, "Tx paused", "share of the window in which we paused the peer", |r| {
        share(r.rates().tx_paused[r.i])
    }),
    col("rx_paused_bps", Maybe, "", "line rate this pause takes from us, bit/s; null: no line rate", |r| {
        r.info().rate.map_or(Value::Null, |line| count((line as f64 * r.rates().rx_paused[r.i]) as u64))
    }),
    col("xoff", Flag, "", "the peer is told to pause now", |r| r.bit(r.port().gauges.xoff_priorities)),
    col(
        "cause",
        Text,
        "Cause",
        "why the peer was last told to pause: queue, paused_queue (its own peer had paused it), receive_ring; empty: it never was",
        |r| json!(r.blame().map_or("", Blame::word)),
    ),
    col("cause_port", Text, "by", "port of that queue", |r| {
        let port = r.blame().and_then(Blame::queue).and_then(|(port, _)| r.snapshot.info.ports.get(port));
        json!(port.map_or("", |port| port.name.as_str()))
    }),
    col("cause_queue", Maybe, "", "its number", |r| {
        r.blame().and_then(Blame::queue).map_or(Value::Null, |(_, queue)| json!(queue))
    }),
    col("storms_detected", Count, "Storm detected", "storms seen to begin on this queue", |r| {
        count(r.port().gauges.storms_detected[r.i])
    }),
    col("storms_restored", Count, "Storm restored", "storms seen to end on this queue", |r| {
        count(r.port().gauges.storms_restored[r.i])
    }),
    col("storm_tx_ok", Count, "TX OK", "frames it sent, in all its storms", |r| {
        count(r.port().gauges.storm_tx_ok[r.i])
    }),
    col("storm_tx_drop", Count, "TX DROP", "frames flushed from it or refused, in all its storms", |r| {
        count(r.port().gauges.storm_tx_drop[r.i])
    }),
    col(
        "storm_rx_ok",
        Count,
        "RX OK",
        "frames received on its port for its group and admitted, in all its storms",
        |r| count(r.port().gauges.storm_rx_ok[r.i]),
    ),
    col(
        "storm_rx_drop",
        Count,
        "RX DROP",
        "frames received on its port for its group and dropped, in all its storms",
        |r| count(r.port().gauges.storm_rx_drop[r.i]),
    ),
    col("storm_last_tx_ok", Count, "TX LAST OK", "frames it sent, in its present or last storm", |r| {
        count(r.port().gauges.storm_last_tx_ok[r.i])
    }),
    col(
        "storm_last_tx_drop",
        Count,
        "TX LAST DROP",
        "frames flushed from it or refused, in its present or last storm",
        |r| count(r.port().gauges.storm_last_tx_drop[r.i]),
    ),
    col(
        "storm_last_rx_ok",
        Count,
        "RX LAST OK",
        "frames received on its port for its group and admitted, in its present or last storm",
        |r| count(r.port().gauges.storm_last_rx_ok[r.i]),
    ),
    col(
        "storm_last_rx_drop",
        Count,
        "RX LAST DROP",
        "frames received on its port for its group and dropped, in its present or last storm",
        |r| count(r.port().gauges.storm_last_rx_drop[r.i]),
    ),
];

const ECN: &[Column] = &[
    PORT,
    col("queue", Count, "TxQ", "egress queue", |r| json!(r.i)),
    col("kmin_bytes", Maybe, "Kmin", "nothing is marked up to here; null: no marking", |r| {
        r.marking(|m| m.kmin)
    }),
    col("kmax_bytes", Maybe, "Kmax", "everything is marked above", |r| r.marking(|m| m.kmax)),
    col("pmax_ppm", Maybe, "Pmax/ppm", "probability at Kmax, parts per million", |r| {
        r.marking(|m| m.pmax.into())
    }),
    col(
        "selected",
        Count,
        "Selected/pkts",
        "frames the law selected, markable or not (ecn-selected-pkts)",
        |r| count(r.port().stats.ecn_selected[r.i]),
    ),
    col("marked", Count, "EcnMarked/pkts", "frames weir changed to CE (ecn-marked-pkts)", |r| {
        count(r.port().stats.ecn_marked[r.i])
    }),
    col("marked_bytes", Count, "EcnMarked/bytes", "their bytes", |r| {
        count(r.port().stats.ecn_marked_bytes[r.i])
    }),
    col(
        "no_memory",
        Count,
        "NoMemory/pkts",
        "frames selected that stayed unmarked: no memory for a private copy of one that is flooded",
        |r| count(r.port().stats.ecn_no_memory[r.i]),
    ),
    col("seen_ce", Count, "Seen CE/pkts", "frames that were CE already when they left", |r| {
        count(r.port().stats.ecn_seen_ce[r.i])
    }),
    col("marked_pps", Rate, "Marked/s", "frames marked per second", |r| rate(r.rates().marked_pps[r.i])),
    col("depth_bytes", Count, "Depth/bytes", "bytes held", |r| count(r.port().gauges.queue_bytes[r.i])),
];

const MARKING: &[Column] = &[
    PORT,
    col("queue", Count, "TxQ", "egress queue", |r| json!(r.i / CURVE_BINS)),
    col("depth_from_bytes", Count, "From/bytes", "least depth left behind", |r| count(r.curve_depths().0)),
    col("depth_to_bytes", Maybe, "To/bytes", "greater than every depth; null: no end", |r| {
        r.curve_depths().1.map_or(Value::Null, count)
    }),
    col("frames", Count, "Frames", "frames that left at that depth", |r| {
        count(r.port().curve.frames[r.i / CURVE_BINS][r.i % CURVE_BINS])
    }),
    col("selected", Count, "Selected", "those of them the law selected", |r| {
        count(r.port().curve.selected[r.i / CURVE_BINS][r.i % CURVE_BINS])
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
    col("lossless", Flag, "Lossless", "frames of a lossless class are among them: an alarm", |r| {
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
    col("lossless", Flag, "Lossless", "frames of a lossless class are among them: an alarm", |r| {
        json!(r.lost_everywhere(|s| &s.lossless) > 0)
    }),
    col("frames", Count, "Drop/pkts", "frames lost on all ports", |r| count(r.lost_everywhere(|s| &s.drops))),
    col("lossless_frames", Count, "Lossless/pkts", "those of them of a lossless class", |r| {
        count(r.lost_everywhere(|s| &s.lossless))
    }),
    col("lossless_possible", Flag, "", "frames of a lossless class can be lost so", |r| {
        json!(r.reason().never_lossless().is_none())
    }),
    col("meaning", Text, "Meaning", "what happened", |r| json!(r.reason().meaning().trim())),
    col("remedy", Text, "", "what to look at", |r| json!(r.reason().remedy())),
];

/// Quantiles of a part: since start, then of the window. Headings; an empty one is not shown by `weir show`.
macro_rules! part {
    ($part:ident, $name:literal, $heads:expr) => {
        [
            col(concat!($name, "_p50_ns"), Maybe, $heads[0], concat!($name, ": median since start"), |r| {
                r.quantile(Part::$part, 0.5, false)
            }),
            col(concat!($name, "_p99_ns"), Maybe, $heads[1], concat!($name, ": 99 % since start"), |r| {
                r.quantile(Part::$part, 0.99, false)
            }),
            col(concat!($name, "_p999_ns"), Maybe, $heads[2], concat!($name, ": 99.9 % since start"), |r| {
                r.quantile(Part::$part, 0.999, false)
            }),
            col(concat!($name, "_max_ns"), Maybe, $heads[3], concat!($name, ": longest since start"), |r| {
                r.quantile(Part::$part, 1.0, false)
            }),
            col(
                concat!("window_", $name, "_p50_ns"),
                Maybe,
                "",
                concat!($name, ": median of the window"),
                |r| r.quantile(Part::$part, 0.5, true),
            ),
            col(
                concat!("window_", $name, "_p99_ns"),
                Maybe,
                $heads[4],
                concat!($name, ": 99 % of the window"),
                |r| r.quantile(Part::$part, 0.99, true),
            ),
            col(
                concat!("window_", $name, "_p999_ns"),
                Maybe,
                "",
                concat!($name, ": 99.9 % of the window"),
                |r| r.quantile(Part::$part, 0.999, true),
            ),
            col(
                concat!("window_", $name, "_max_ns"),
                Maybe,
                "",
                concat!($name, ": longest of the window"),
                |r| r.quantile(Part::$part, 1.0, true),
            ),
        ]
    };
}

const RESIDENCE: [Column; 8] =
    part!(Residence, "residence", ["p50/ns", "p99/ns", "p99.9/ns", "Max/ns", "Now p99"]);
const QUEUEING: [Column; 8] =
    part!(Queueing, "queueing", ["Queueing p50", "Queueing p99", "", "Queueing max", ""]);
const PAUSE: [Column; 8] = part!(Pause, "pause", ["Pause p50", "Pause p99", "", "Pause max", ""]);

const LATENCY: &[Column] = &[
    PORT,
    col("queue", Count, "TxQ", "egress queue", |r| json!(r.i)),
    col("frames", Count, "Frames", "frames since start", |r| count(r.times(false).frames())),
    col("window_frames", Count, "", "frames of the window", |r| count(r.times(true).frames())),
    RESIDENCE[0],
    RESIDENCE[1],
    RESIDENCE[2],
    RESIDENCE[3],
    RESIDENCE[4],
    RESIDENCE[5],
    RESIDENCE[6],
    RESIDENCE[7],
    QUEUEING[0],
    QUEUEING[1],
    QUEUEING[2],
    QUEUEING[3],
    QUEUEING[4],
    QUEUEING[5],
    QUEUEING[6],
    QUEUEING[7],
    PAUSE[0],
    PAUSE[1],
    PAUSE[2],
    PAUSE[3],
    PAUSE[4],
    PAUSE[5],
    PAUSE[6],
    PAUSE[7],
    col("paused_frames", Count, "Paused", "frames since start that met a pause", |r| {
        count(r.times(false).paused_frames())
    }),
    col("pause_ns", Count, "", "sum of all pause parts since start, exact", |r| {
        count(r.times(false).pause_ns)
    }),
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
    col("rx_driver_cycles", Rate, "RX drv", "cycles per frame received in the driver's receive", |r| {
        r.stage(Stage::RxDriver)
    }),
    col(
        "receive_cycles",
        Rate,
        "Receive",
        "cycles per frame received to parse, look up, admit, queue",
        |r| r.stage(Stage::Receive),
    ),
    col("transmit_cycles", Rate, "Transmit", "cycles per frame sent to schedule, mark, release", |r| {
        r.stage(Stage::Transmit)
    }),
    col("tx_driver_cycles", Rate, "TX drv", "cycles per frame sent in the driver's transmit", |r| {
        r.stage(Stage::TxDriver)
    }),
    col("tick_cycles", Rate, "Tick", "cycles per frame for all that is not done on account of one", |r| {
        r.stage(Stage::Tick)
    }),
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
    col("conservation_error", Count, "Error", "what its books are out by, absolute", |r| {
        count(r.worker().conservation_error().unsigned_abs())
    }),
];
