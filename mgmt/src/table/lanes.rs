//! Tables of ports by priority: queues, priority groups, PFC, marking, latency.

use super::Form::{Count, Flag, Maybe, Rate, Share, Text};
use super::columns::{PORT, col};
use super::{Column, count, limit, rate, share};
use crate::snapshot::Blame;
use crate::times::Part;
use serde_json::{Value, json};
use weir_dataplane::stats::CURVE_BINS;

pub(super) const QUEUES: &[Column] = &[
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

pub(super) const PGS: &[Column] = &[
    PORT,
    col("pg", Count, "PG", "priority group", |r| json!(r.i)),
    col("lossless", Flag, "Lossless", "sends Xoff instead of dropping", |r| r.bit(r.info().lossless.into())),
    col(
        "packets",
        Count,
        "Counter/pkts",
        "frames charged to it; one that is flooded with a tag and without is charged as two",
        |r| count(r.port().stats.pg_packets[r.i]),
    ),
    col("drops", Count, "Drop/pkts", "frames refused", |r| count(r.port().stats.pg_drops[r.i])),
    col("used_bytes", Count, "", "bytes in its reserve and in the shared pool", |r| {
        count(r.port().gauges.pg_used[r.i])
    }),
    col("shared_bytes", Count, "Shared/bytes", "bytes in the shared pool", |r| {
        count(r.port().gauges.pg_shared[r.i])
    }),
    col(
        "xoff_bytes",
        Maybe,
        "Xoff at/bytes",
        "the moving Xoff line: most shared bytes it may hold now",
        |r| limit(r.port().gauges.pg_limit[r.i]),
    ),
    col(
        "xon_bytes",
        Maybe,
        "Xon at/bytes",
        "where it would resume now, in shared bytes as `xoff_bytes`; 0: none beyond its reserve",
        |r| limit(r.port().gauges.pg_xon[r.i]),
    ),
    col("headroom_bytes", Count, "Headroom/bytes", "bytes in headroom", |r| {
        count(r.port().gauges.pg_headroom[r.i])
    }),
    col("headroom_size_bytes", Count, "", "most bytes it may hold in headroom", |r| {
        count(r.info().headroom[r.i])
    }),
    col("shared_peak_bytes", Count, "Shared wm/bytes", "most shared bytes since start", |r| {
        count(r.port().gauges.pg_shared_peak[r.i])
    }),
    col("headroom_peak_bytes", Count, "Headroom wm/bytes", "most headroom since start", |r| {
        count(r.port().gauges.pg_headroom_peak[r.i])
    }),
    col("xoff", Flag, "Xoff", "the peer is told to pause on its account", |r| {
        let priorities = u64::from(r.info().pg_priorities[r.i]);
        json!(r.port().gauges.xoff_priorities & priorities != 0)
    }),
];

pub(super) const PFC: &[Column] = &[
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

pub(super) const ECN: &[Column] = &[
    PORT,
    col("queue", Count, "TxQ", "egress queue", |r| json!(r.i)),
    col("kmin_bytes", Maybe, "Kmin/bytes", "nothing is marked up to here; null: no marking", |r| {
        r.marking(|m| m.kmin)
    }),
    col("kmax_bytes", Maybe, "Kmax/bytes", "everything is marked above", |r| r.marking(|m| m.kmax)),
    col("pmax_ppm", Maybe, "Pmax/ppm", "probability at Kmax, parts per million", |r| {
        r.marking(|m| m.pmax.into())
    }),
    col(
        "selected",
        Count,
        "Selected/pkts",
        "frames the law selected to be marked, markable or not (ecn-selected-pkts); not those that `wred_drop` dropped, which are `egress.wred`",
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

pub(super) const MARKING: &[Column] = &[
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
    part!(Residence, "residence", ["p50/ns", "p99/ns", "p99.9/ns", "Max/ns", "Now p99/ns"]);
const QUEUEING: [Column; 8] =
    part!(Queueing, "queueing", ["Queueing p50/ns", "Queueing p99/ns", "", "Queueing max/ns", ""]);
const PAUSE: [Column; 8] = part!(Pause, "pause", ["Pause p50/ns", "Pause p99/ns", "", "Pause max/ns", ""]);

pub(super) const LATENCY: &[Column] = &[
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
