//! The tables of a folder of scenarios. Its description does not name them, so they are known by their names.

/// A table: its name, and its columns first to last, of which the first is the scenario.
type Columns = (&'static str, &'static [&'static str]);

/// Which tables a folder has.
#[derive(Debug)]
pub(super) struct Dialect {
    pub(super) tables: &'static [Columns],
    /// Rows of `fct` are in the order of completion, not of the list.
    pub(super) fct_by_completion: bool,
    /// At equal times, PFC frames sent come before those received; else they are in the order of events.
    pub(super) pfc_sent_first: bool,
    /// `frames_forwarded` has PFC frames.
    pub(super) forwards_pfc: bool,
    /// The maximum of an ingress group has its headroom.
    pub(super) ingress_has_headroom: bool,
}

/// `ns3-scenarios`.
pub(super) const SCENARIOS: Dialect = Dialect {
    tables: SCENARIO_TABLES,
    fct_by_completion: false,
    pfc_sent_first: false,
    forwards_pfc: true,
    ingress_has_headroom: true,
};

/// `ns3-cc`: senders driven by acknowledgements.
pub(super) const ACKS: Dialect = Dialect {
    tables: ACK_TABLES,
    fct_by_completion: true,
    pfc_sent_first: true,
    forwards_pfc: false,
    ingress_has_headroom: false,
};

/// Tables of rows of such senders.
pub(super) const SENDER_TABLES: [&str; 4] = ["hpcc_acks", "timely_events", "dctcp_events", "pint_acks"];

impl Dialect {
    /// Whose tables they are: only senders driven by acknowledgements have digests.
    pub(super) fn of<'a>(mut names: impl Iterator<Item = &'a str>) -> &'static Self {
        if names.any(|name| name == "digests") { &ACKS } else { &SCENARIOS }
    }

    /// The columns of a table without the scenario.
    pub(super) fn columns(&self, table: &str) -> &'static [&'static str] {
        self.tables.iter().find(|(name, _)| *name == table).map_or(&[], |(_, columns)| &columns[1..])
    }
}

const PFC_EVENTS: Columns = (
    "pfc_events",
    &["scenario", "time_ns", "dir", "node", "port", "prio", "state", "ingress", "hdrm", "shared", "thr"],
);

const SCENARIO_TABLES: &[Columns] = &[
    PFC_EVENTS,
    ("fct", &["scenario", "src", "dst", "bytes", "start_ns", "fct_ns", "ideal_ns"]),
    ("qdepth_1us", &["scenario", "time_ns", "egress_bytes", "shared_used"]),
    ("rate_events", &["scenario", "time_ns", "src", "event", "rate_bps", "target_bps", "alpha", "stage"]),
    (
        "seeds",
        &[
            "scenario",
            "run",
            "flows",
            "fct_min_ns",
            "fct_mean_ns",
            "fct_median_ns",
            "fct_max_ns",
            "ecn_marked",
            "pauses",
            "drops",
            "max_egress_B",
        ],
    ),
    (
        "speed",
        &[
            "scenario",
            "run",
            "wall_s",
            "cpu_s",
            "frames_forwarded",
            "events",
            "frames_per_wall_s",
            "events_per_wall_s",
            "peak_rss_MB",
            "note",
        ],
    ),
    (
        "summary",
        &[
            "scenario",
            "deterministic",
            "flows",
            "completed",
            "fct_min_ns",
            "fct_mean_ns",
            "fct_median_ns",
            "fct_max_ns",
            "ecn_marked_frames",
            "acks_with_cnp",
            "pauses_sent",
            "resumes_sent",
            "pauses_received_by_switches",
            "first_pause_rx_ns",
            "paused_ns_sum",
            "paused_ns_max_one",
            "drops",
            "nacks",
            "data_tx",
            "acks_rx",
            "frames_forwarded",
            "events",
            "max_egress_queue_B",
            "max_ingress_pg_B",
            "max_headroom_pg_B",
            "max_shared_B",
            "max_total_B",
        ],
    ),
];

const ACK_TABLES: &[Columns] = &[
    PFC_EVENTS,
    ("digests", &["scenario", "rows", "fnv1a64"]),
    ("fct", &["scenario", "src", "dst", "sport", "bytes", "start_ns", "fct_ns", "ideal_ns"]),
    ("drops_nacks", &["scenario", "time_ns", "what", "node_or_src", "port_or_dst", "prio_or_sport", "seq"]),
    (
        "hpcc_acks",
        &[
            "scenario",
            "time_ns",
            "src",
            "dst",
            "sport",
            "kind",
            "ack_seq",
            "snd_nxt",
            "rate_bps",
            "win_B",
            "rc_bps",
            "inc_stage",
            "last_update_seq",
            "U",
            "dt_ns",
            "u",
            "nhop",
            "hops",
        ],
    ),
    (
        "hpcc_updates",
        &[
            "scenario",
            "time_ns",
            "src",
            "dst",
            "sport",
            "kind",
            "ack_seq",
            "snd_nxt",
            "rate_bps",
            "inc_stage",
            "U",
            "dt_ns",
            "u",
        ],
    ),
    (
        "timely_events",
        &[
            "scenario",
            "time_ns",
            "src",
            "dst",
            "sport",
            "kind",
            "ack_seq",
            "snd_nxt",
            "rtt_ns",
            "rtt_diff_new_ns",
            "rtt_diff",
            "gradient",
            "dir",
            "c",
            "rate_bps",
            "win_B",
            "cur_rate_bps",
            "inc_stage",
            "last_update_seq",
            "last_rtt_ns",
        ],
    ),
    (
        "dctcp_events",
        &[
            "scenario",
            "time_ns",
            "src",
            "dst",
            "sport",
            "new_batch",
            "cut",
            "ack_seq",
            "snd_nxt",
            "cnp",
            "ecn_cnt_used",
            "batch_size_used",
            "F",
            "alpha",
            "ecn_cnt",
            "batch_size",
            "cwr",
            "high_seq",
            "last_update_seq",
            "rate_bps",
            "win_B",
        ],
    ),
    (
        "pint_acks",
        &[
            "scenario",
            "time_ns",
            "src",
            "dst",
            "sport",
            "kind",
            "ack_seq",
            "snd_nxt",
            "power",
            "U",
            "max_c",
            "rate_bps",
            "win_B",
            "cur_rate_bps",
            "inc_stage",
            "last_update_seq",
        ],
    ),
    (
        "summary",
        &[
            "scenario",
            "deterministic",
            "flows",
            "completed",
            "fct_min_ns",
            "fct_mean_ns",
            "fct_median_ns",
            "fct_max_ns",
            "ecn_marked_frames",
            "pauses_sent",
            "resumes_sent",
            "drops",
            "nacks",
            "frames_forwarded",
            "cc_rows",
            "max_egress_queue_B",
            "max_ingress_pg_B",
            "max_headroom_pg_B",
            "max_shared_B",
            "max_total_B",
        ],
    ),
];
