//! Every key of a fabric file has an effect: another legal value gives another report. Which keys there are is asked of
//! the reader itself, so a key without a case here fails.

use super::{FabricError, FabricSpec, load, load_in, run};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// Two leaves, marks, pauses, DCQCN.
pub(super) const BASE: &str = r#"
name = "keys"
stop_time = "1ms"
[topology]
kind = "leaf_spine"
leaves = 2
spines = 2
hosts_per_leaf = 2
[link]
rate = "40G"
delay = "500ns"
[trunk]
rate = "40G"
delay = "500ns"
[switch.config.buffer]
size = "1MiB"
control_bytes = "32KiB"
[switch.config.port_defaults]
mtu = 1600
[[switch.config.wred]]
name = "roce"
kmin = "5KB"
kmax = "50KB"
pmax = "50%"
[[workload]]
kind = "incast"
to = "h3"
bytes = "200KB"
cc = "dcqcn"
"#;

/// What else the base says for one key to mean something: paths and values, as TOML.
pub(super) type More<'a> = &'a [(&'a str, &'a str)];

const PLAIN: More<'_> = &[];
/// Nobody slows down, so groups fill and pauses are sent.
const PAUSES: More<'_> = &[("workload.0.cc", "\"none\""), ("workload.0.bytes", "\"1MB\"")];
const HARDWARE: More<'_> = &[("host.dcqcn.scheme", "\"hardware\"")];
const FIRMWARE: More<'_> = &[("host.dcqcn.scheme", "\"firmware_rate\"")];
/// Several cuts, and rates that rise soon.
const RISES: More<'_> = &[
    ("host.cnp_interval", "\"5us\""),
    ("host.dcqcn.stages", "1"),
    ("host.dcqcn.increase_period", "\"5us\""),
    ("host.dcqcn.byte_threshold", "\"10KB\""),
];
const RCLINK: More<'_> = &[
    ("host.protocol", "\"rclink\""),
    ("workload.0.cc", "\"backoff\""),
    ("switch.config.wred.0.name", "\"request\""),
    ("switch.config.buffer.size", "\"8MiB\""),
];
/// Credits for a few frames.
const CREDITS: More<'_> = &[
    RCLINK[0],
    RCLINK[1],
    RCLINK[2],
    RCLINK[3],
    ("host.rclink.flow_control", "\"cbfc\""),
    ("host.rclink.credits", "24"),
];
/// Memories that fill.
const READER: More<'_> = &[
    RCLINK[0],
    RCLINK[1],
    RCLINK[2],
    RCLINK[3],
    ("host.rclink.read_rate", "\"5G\""),
    ("host.rclink.round_trip", "\"1us\""),
];
/// A group.
const GROUP: (&str, &str) =
    ("workload.0", "{ kind = \"flow\", type = \"type2\", from = \"h0\", bytes = \"200KB\" }");
const RAW: (&str, &str) =
    ("workload.0", "{ kind = \"incast\", type = \"type3\", to = \"h3\", bytes = \"200KB\" }");
const SMALL_BUFFER: (&str, &str) = ("switch.config.buffer.size", "\"2MiB\"");
const POISSON: More<'_> =
    &[("workload.0", "{ kind = \"poisson\", load = 0.3, sizes = \"fb_hadoop\", duration = \"50us\" }")];
const INC: More<'_> = &[("workload.0", "{ kind = \"inc_all_reduce\", bytes = \"50KB\" }")];
const FLOW: More<'_> = &[("workload.0", "{ kind = \"flow\", from = \"h0\", to = \"h3\", bytes = \"50KB\" }")];
const SHIFT: More<'_> = &[("workload.0", "{ kind = \"permutation\", shift = 1, bytes = \"50KB\" }")];
const NS3: More<'_> =
    &[("switch.config", "{}"), ("switch.config.buffer.size", "\"1MiB\""), ("workload.0.cc", "\"none\"")];
/// The same with marks and DCQCN.
const NS3_DCQCN: More<'_> = &[
    ("profile", "\"ns3-hpcc\""),
    ("switch.config", "{}"),
    ("switch.config.buffer.size", "\"1MiB\""),
    ("workload.0.bytes", "\"1MB\""),
];
/// Rates that rise within the run.
const NS3_RISES: More<'_> =
    &[NS3_DCQCN[0], NS3_DCQCN[1], NS3_DCQCN[2], NS3_DCQCN[3], ("ns3.rp_timer", "\"2us\"")];
/// Congestion that ends: one flow rises for long.
const NS3_HYPER: More<'_> = &[
    NS3_DCQCN[0],
    NS3_DCQCN[1],
    NS3_DCQCN[2],
    ("ns3.rp_timer", "\"5us\""),
    ("ns3.clamp_target_rate", "true"),
    (
        "workload",
        "[{ kind = \"incast\", to = \"h3\", bytes = \"500KB\", cc = \"dcqcn\" }, \
          { kind = \"flow\", from = \"h0\", to = \"h3\", bytes = \"2MB\", cc = \"dcqcn\" }]",
    ),
];
/// Several cuts between two increases.
const NS3_CUTS: More<'_> =
    &[NS3_DCQCN[0], NS3_DCQCN[1], NS3_DCQCN[2], NS3_DCQCN[3], ("ns3.rp_timer", "\"100us\"")];
/// Pauses alone.
const NS3_PAUSES: More<'_> =
    &[NS3_DCQCN[0], NS3_DCQCN[1], NS3_DCQCN[2], NS3_DCQCN[3], ("workload.0.cc", "\"none\"")];
/// Headroom of less than a frame: frames are lost, again and again.
const NS3_LOSES: More<'_> = &[
    NS3_DCQCN[0],
    NS3_DCQCN[1],
    NS3_DCQCN[2],
    NS3_DCQCN[3],
    ("workload.0.cc", "\"none\""),
    ("link.delay", "\"10ns\""),
];
/// Round trips count, and those of hosts at one leaf are shorter.
const NS3_WINDOW: More<'_> = &[
    NS3_DCQCN[0],
    NS3_DCQCN[1],
    NS3_DCQCN[2],
    ("workload.0", "{ kind = \"incast\", to = \"h3\", bytes = \"300KB\" }"),
    cc("\"fixed_window\""),
];
/// h3 is paused for what it sends, and acknowledges what it receives.
const NS3_TWO_WAYS: More<'_> =
    &[NS3_DCQCN[0], NS3_DCQCN[1], NS3_DCQCN[2], ("workload", TWO_WAYS), cc("\"none\"")];
/// Three senders under an algorithm, small packets in a small buffer.
const fn cc(algorithm: &str) -> (&str, &str) {
    ("host.congestion_control", algorithm)
}
const BY_HOST: (&str, &str) = ("workload.0", "{ kind = \"incast\", to = \"h3\", bytes = \"300KB\" }");
/// Two senders share the line between leaf and spine.
const ONE_SPINE: (&str, &str) = ("topology.spines", "1");
const HPCC: More<'_> = &[BY_HOST, cc("\"hpcc\"")];
const PINT: More<'_> = &[BY_HOST, cc("\"hpcc-pint\"")];
const TIMELY: More<'_> = &[BY_HOST, cc("\"timely\""), ("host.window", "\"variable\"")];
/// Round trips between the limits.
const GRADIENT: More<'_> =
    &[BY_HOST, cc("\"timely\""), ("host.timely.t_low", "\"5us\""), ("host.window", "\"variable\"")];
const DCTCP: More<'_> = &[BY_HOST, cc("\"dctcp\"")];
const SWIFT: More<'_> = &[BY_HOST, cc("\"swift\""), ("host.swift.base_target", "\"5us\"")];
const NSCC: More<'_> = &[BY_HOST, cc("\"nscc\"")];
const NSCC_LOSES: More<'_> = &[BY_HOST, NSCC[1], ("link.loss", "0.02"), ("host.timeout", "\"50us\"")];
/// Frames that overtake one another, and losses.
const SELECTIVE: More<'_> = &[
    ("host.transport", "\"selective_repeat\""),
    ("routing.mode", "\"spray\""),
    ("link.loss", "0.01"),
    ("host.timeout", "\"50us\""),
];
const ORDERS: More<'_> = &[("order", "[{ at = \"30us\", host = \"h0\", set = { gain = 900 } }]")];
const TO_ALL_DCQCN: (&str, &str) =
    ("workload.0", "{ kind = \"all_to_all\", bytes = \"50KB\", cc = \"dcqcn\" }");
const TO_ALL: (&str, &str) = ("workload.0", "{ kind = \"all_to_all\", bytes = \"50KB\" }");
/// Nothing of links between switches.
const NO_TRUNKS: (&str, &str) = ("trunk", "{}");
const NO_TRUNK: (&str, &str) = ("trunk", "{ delay = \"500ns\" }");
const RAIL: More<'_> =
    &[topology("{ kind = \"rail\", servers = 4, rails = 2, servers_per_unit = 2, spines = 2 }"), TO_ALL];
const DRAGONFLY: More<'_> = &[
    topology(
        "{ kind = \"dragonfly_plus\", groups = 3, leaves = 2, spines = 2, hosts_per_leaf = 1, links_per_pair = 1 }",
    ),
    TO_ALL,
];
const FAILURE: More<'_> = &[
    TO_ALL,
    ("failure", "[{ a = \"s0\", b = \"s2\", at = \"5us\", repair = \"100us\" }]"),
    ("routing.convergence", "\"20us\""),
    ("host.timeout", "\"50us\""),
];
const ISLIP: More<'_> =
    &[("switch.core", "\"islip\""), ("workload.0", "{ kind = \"all_to_all\", bytes = \"50KB\" }")];
const FAST_ISLIP: More<'_> = &[ISLIP[0], ISLIP[1], ONE_SPINE, ("switch.speedup", "4.0")];
const CUSTOM: More<'_> = &[
    (
        "topology",
        "{ kind = \"custom\", hosts = [\"h0\", \"h3\"], switches = [\"s\", \"t\", \"u\"], links = [{ a = \"h0\", b = \"s\" }, \
         { a = \"s\", b = \"t\" }, { a = \"h3\", b = \"t\" }, { a = \"u\", b = \"t\" }, { a = \"s\", b = \"u\" }] }",
    ),
    ("workload.0", "{ kind = \"flow\", from = \"h0\", to = \"h3\", bytes = \"50KB\" }"),
    NO_TRUNKS,
];
/// As the star of the base.
const PAUSED_CUSTOM: More<'_> = &[
    (
        "topology",
        "{ kind = \"custom\", hosts = [\"h0\", \"h1\", \"h2\", \"h3\"], switches = [\"s\"], links = [{ a = \"h0\", b = \"s\" }, \
         { a = \"h1\", b = \"s\" }, { a = \"h2\", b = \"s\" }, { a = \"h3\", b = \"s\" }] }",
    ),
    PAUSES[0],
    PAUSES[1],
    NO_TRUNKS,
];
const PARALLEL: More<'_> = &[
    (
        "topology",
        "{ kind = \"custom\", hosts = [\"a\", \"b\", \"c\", \"d\"], switches = [\"s\", \"t\"], links = [\
         { a = \"a\", b = \"s\" }, { a = \"s\", b = \"t\" }, { a = \"s\", b = \"t\" }, { a = \"b\", b = \"s\" }, \
         { a = \"c\", b = \"t\" }, { a = \"d\", b = \"t\" }] }",
    ),
    TO_ALL,
    NO_TRUNKS,
];

/// h3 is paused for what it sends, and sends CNPs for what it receives.
const TWO_WAYS: &str = "[{ kind = \"incast\", to = \"h3\", bytes = \"1MB\" }, \
                        { kind = \"incast\", to = \"h2\", bytes = \"1MB\" }]";

const fn topology(text: &str) -> (&str, &str) {
    ("topology", text)
}
const TO_H1: (&str, &str) = ("workload.0.to", "\"h1\"");

/// Files beside the fabric, of which each key that names one has two.
const FILES: &[(&str, &str)] = &[
    ("one.cm", "Nodes 4\nConnections 1\n0->3 start 2000000 size 50000\n"),
    ("two.cm", "Nodes 4\nConnections 1\n0->3 start 3000000 size 50000\n"),
    ("one.txt", "3 1 2\n2\n0 2 40Gbps 500ns 0\n1 2 40Gbps 500ns 0\n"),
    ("two.txt", "3 1 2\n2\n0 2 40Gbps 600ns 0\n1 2 40Gbps 500ns 0\n"),
];
const MATRIX: More<'_> = &[("workload.0", "{ kind = \"htsim_matrix\", file = \"one.cm\" }")];
const RING: More<'_> = &[("workload.0", "{ kind = \"all_reduce\", bytes = \"50KB\" }")];
const TREES: More<'_> = &[("workload.0", "{ kind = \"tree_all_reduce\", bytes = \"100KB\" }")];
const GROUPS: More<'_> = &[("workload.0", "{ kind = \"rail_all_reduce\", bytes = \"50KB\", group = 2 }")];
const SIZED: More<'_> = &[(
    "workload.0",
    "{ kind = \"all_to_allv\", matrix = [[0, 1000, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]] }",
)];
const PIPELINE: More<'_> = &[(
    "workload.0",
    "{ kind = \"pipeline\", bytes = \"50KB\", microbatches = 2, forward = \"10us\", backward = \"20us\" }",
)];
const STORAGE: More<'_> =
    &[("workload.0", "{ kind = \"storage\", bytes = \"20KB\", servers = 1, ios = 6, reads = 0.5 }")];
const HPCC_FILE: More<'_> = &[
    topology("{ kind = \"hpcc_file\", file = \"one.txt\" }"),
    ("link", "{}"),
    NO_TRUNKS,
    ("workload.0", "{ kind = \"flow\", from = \"h0\", to = \"h1\", bytes = \"50KB\" }"),
];

/// A key, another value of it, and what the base says besides.
pub(super) const CASES: &[(&str, &str, More<'_>)] = &[
    ("name", "\"other\"", PLAIN),
    ("profile", "\"ns3-hpcc\"", NS3),
    ("level", "\"flow\"", PLAIN),
    ("seed", "2", PLAIN),
    ("stop_time", "\"50us\"", PLAIN),
    ("measure_from", "\"50us\"", PLAIN),
    ("sample", "\"10us\"", PLAIN),
    ("latency", "true", PLAIN),
    ("routing.mode", "\"spray\"", &[TO_ALL]),
    ("routing.convergence", "\"1ms\"", FAILURE),
    ("failure", "[]", &[FAILURE[0], FAILURE[1]]),
    ("failure.0.a", "\"s1\"", FAILURE),
    ("failure.0.b", "\"s3\"", FAILURE),
    ("failure.0.at", "\"10us\"", FAILURE),
    ("failure.0.repair", "\"30us\"", FAILURE),
    ("topology.kind", "\"ring\"", &[topology("{ kind = \"chain\", switches = 3, hosts_per_switch = 2 }")]),
    ("topology.star.hosts", "5", &[topology("{ kind = \"star\", hosts = 4 }"), NO_TRUNKS]),
    ("topology.dumbbell.pairs", "3", &[topology("{ kind = \"dumbbell\", pairs = 2 }")]),
    ("topology.chain.switches", "4", &[topology("{ kind = \"chain\", switches = 3, hosts_per_switch = 2 }")]),
    (
        "topology.chain.hosts_per_switch",
        "3",
        &[topology("{ kind = \"chain\", switches = 2, hosts_per_switch = 2 }")],
    ),
    ("topology.ring.switches", "4", &[topology("{ kind = \"ring\", switches = 3, hosts_per_switch = 2 }")]),
    (
        "topology.ring.hosts_per_switch",
        "3",
        &[topology("{ kind = \"ring\", switches = 3, hosts_per_switch = 2 }")],
    ),
    ("topology.leaf_spine.leaves", "3", PLAIN),
    ("topology.leaf_spine.spines", "3", PLAIN),
    ("topology.leaf_spine.hosts_per_leaf", "3", PLAIN),
    ("topology.leaf_spine.links_per_spine", "2", &[TO_ALL]),
    ("topology.leaf_spine.oversubscription", "3.0", &[NO_TRUNK]),
    ("topology.rail.servers", "5", RAIL),
    ("topology.rail.rails", "3", RAIL),
    ("topology.rail.servers_per_unit", "4", RAIL),
    ("topology.rail.spines", "1", RAIL),
    ("topology.rail.oversubscription", "3.0", &[RAIL[0], RAIL[1], NO_TRUNK]),
    ("topology.dragonfly_plus.groups", "4", DRAGONFLY),
    ("topology.dragonfly_plus.leaves", "3", DRAGONFLY),
    ("topology.dragonfly_plus.spines", "1", DRAGONFLY),
    ("topology.dragonfly_plus.hosts_per_leaf", "2", DRAGONFLY),
    ("topology.dragonfly_plus.links_per_pair", "3", DRAGONFLY),
    ("topology.fat_tree.k", "4", &[topology("{ kind = \"fat_tree\", k = 2 }"), TO_H1]),
    ("topology.custom.hosts", "[\"h3\", \"h0\"]", CUSTOM),
    ("topology.custom.switches", "[\"t\", \"s\", \"u\"]", CUSTOM),
    (
        "topology.custom.links",
        "[{ a = \"h0\", b = \"s\" }, { a = \"s\", b = \"t\" }, { a = \"h3\", b = \"t\" }, { a = \"u\", b = \"t\" }]",
        CUSTOM,
    ),
    ("topology.custom.macs", "{ h0 = \"02:00:00:77:00:00\" }", CUSTOM),
    ("topology.custom.links.1.a", "\"u\"", CUSTOM),
    ("topology.custom.links.0.b", "\"u\"", CUSTOM),
    ("topology.custom.links.0.rate", "\"10G\"", CUSTOM),
    ("topology.custom.links.0.delay", "\"2us\"", CUSTOM),
    ("topology.custom.links.0.loss", "0.1", CUSTOM),
    ("topology.custom.links.0.pause_loss", "0.5", PAUSED_CUSTOM),
    ("topology.custom.links.1.weight", "8", PARALLEL),
    ("link.rate", "\"25G\"", PLAIN),
    ("link.delay", "\"1us\"", PLAIN),
    ("link.loss", "0.01", PLAIN),
    ("link.pause_loss", "0.5", PAUSES),
    ("trunk.rate", "\"25G\"", PLAIN),
    ("trunk.delay", "\"1us\"", PLAIN),
    ("trunk.loss", "0.01", PLAIN),
    (
        "trunk.pause_loss",
        "1.0",
        &[PAUSES[0], PAUSES[1], ("topology.hosts_per_leaf", "4"), ("workload.0.to", "\"h7\"")],
    ),
    ("switch.forwarding", "\"cut_through\"", PLAIN),
    ("switch.core", "\"islip\"", PLAIN),
    ("switch.iterations", "4", ISLIP),
    ("switch.speedup", "2.0", ISLIP),
    ("switch.crossbar_mode", "\"cell\"", ISLIP),
    ("switch.cell", "256", ISLIP),
    ("switch.output_buffer", "\"2KiB\"", FAST_ISLIP),
    ("switch.ingress", "\"100ns\"", PLAIN),
    ("switch.crossbar", "\"100ns\"", PLAIN),
    ("switch.egress", "\"100ns\"", PLAIN),
    ("switch.config", "{ buffer = { size = \"2MiB\" }, port_defaults = { mtu = 1600 } }", PLAIN),
    ("host.protocol", "\"rclink\"", &[PAUSES[0], RCLINK[3]]),
    ("host.pfc_priorities", "[]", PAUSES),
    ("host.pfc_response_delay", "\"2us\"", PAUSES),
    ("host.payload", "512", PLAIN),
    ("host.tx_delay", "\"300ns\"", PLAIN),
    ("host.rx_delay", "\"300ns\"", PLAIN),
    ("host.ack_every", "1", PLAIN),
    ("host.timeout", "\"20us\"", &[("link.loss", "0.02")]),
    ("host.transport", "\"selective_repeat\"", PLAIN),
    ("host.selective_repeat.window", "8", SELECTIVE),
    ("host.selective_repeat.reorder_threshold", "2", SELECTIVE),
    ("host.cnp_interval", "\"10us\"", PLAIN),
    ("host.ack_class", "\"cnp\"", &[("workload", TWO_WAYS)]),
    // What holds CNPs back.
    ("host.cnp_priority", "3", &[("workload", TWO_WAYS), ("host.cnp_interval", "\"1us\"")]),
    // Its frames cannot be marked.
    ("host.rclink.format", "\"afh_gen1\"", &[RCLINK[0], ("workload.0.cc", "\"none\""), RCLINK[2], RCLINK[3]]),
    ("host.rclink.retransmit", "false", &[RCLINK[0], RCLINK[1], RCLINK[2], RCLINK[3], ("link.loss", "0.01")]),
    ("host.rclink.window", "2", RCLINK),
    ("host.rclink.cc_window", "\"65us\"", RCLINK),
    (
        "host.rclink.cut_period",
        "\"1us\"",
        &[RCLINK[0], RCLINK[1], RCLINK[2], RCLINK[3], ("host.cnp_interval", "\"2us\"")],
    ),
    ("host.rclink.raise_period", "\"100us\"", RCLINK),
    ("host.rclink.flow_control", "\"cbfc\"", RCLINK),
    ("host.rclink.credit_bytes", "1024", CREDITS),
    ("host.rclink.credits", "64", CREDITS),
    ("host.rclink.credit_report", "1", CREDITS),
    ("host.rclink.credit_interval", "\"2us\"", CREDITS),
    ("host.rclink.read_rate", "\"10G\"", READER),
    ("host.rclink.round_trip", "\"20us\"", READER),
    (
        "host.rclink.priorities.request",
        "[3, 3, 4, 4]",
        &[
            ("workload", TWO_WAYS),
            READER[0],
            READER[3],
            READER[4],
            READER[5],
            ("workload.0.priority", "4"),
            ("workload.1.priority", "4"),
            ("workload.0.response", "500"),
            ("host.rclink.priorities.response", "3"),
            ("host.rclink.priorities.request", "[4, 4, 4, 4]"),
        ],
    ),
    (
        "host.rclink.priorities.response",
        "3",
        &[("workload", TWO_WAYS), READER[0], READER[3], READER[4], READER[5], ("workload.0.response", "500")],
    ),
    ("host.rclink.priorities.ack", "3", &[("workload", TWO_WAYS), RCLINK[0], RCLINK[3]]),
    (
        "host.rclink.priorities.multicast",
        "3",
        &[GROUP, ("workload.0.bytes", "\"5MB\""), READER[0], READER[4], READER[5], SMALL_BUFFER],
    ),
    ("host.rclink.priorities.raw", "3", &[RAW, READER[0], READER[3], READER[4], READER[5]]),
    ("host.congestion_control", "\"dctcp\"", &[BY_HOST]),
    ("host.window", "\"fixed\"", HPCC),
    ("host.window_bytes", "\"5KB\"", HPCC),
    ("host.base_rtt", "\"30us\"", HPCC),
    ("host.hpcc.target", "0.8", HPCC),
    ("host.hpcc.additive", "\"1G\"", HPCC),
    ("host.hpcc.min_rate", "\"15G\"", HPCC),
    ("host.hpcc.mi_thresh", "5", HPCC),
    ("host.hpcc.fast_react", "false", HPCC),
    ("host.hpcc.multi_rate", "true", &[HPCC[0], HPCC[1], ONE_SPINE]),
    ("host.hpcc.sample_feedback", "true", HPCC),
    ("host.hpcc.int_multi", "16", HPCC),
    ("host.hpcc.log_base", "1.5", PINT),
    ("host.hpcc.probability", "0.3", PINT),
    ("host.timely.alpha", "0.1", GRADIENT),
    ("host.timely.beta", "0.2", GRADIENT),
    ("host.timely.t_low", "\"5us\"", TIMELY),
    ("host.timely.t_high", "\"10us\"", GRADIENT),
    ("host.timely.min_rtt", "\"5us\"", GRADIENT),
    ("host.timely.additive", "\"5G\"", GRADIENT),
    (
        "host.timely.hyper",
        "\"10G\"",
        &[
            BY_HOST,
            GRADIENT[1],
            ("host.timely.t_low", "\"15us\""),
            GRADIENT[3],
            ("workload.0.bytes", "\"3MB\""),
        ],
    ),
    ("host.timely.min_rate", "\"39G\"", GRADIENT),
    ("host.dctcp.gain", "0.9", DCTCP),
    ("host.dctcp.additive", "\"5G\"", DCTCP),
    ("host.dctcp.min_rate", "\"15G\"", DCTCP),
    ("host.swift.base_target", "\"40us\"", SWIFT),
    ("host.swift.hop_scale", "\"3us\"", SWIFT),
    ("host.swift.flow_range", "\"10us\"", SWIFT),
    ("host.swift.flow_min", "1.0", SWIFT),
    ("host.swift.flow_max", "10.0", SWIFT),
    ("host.swift.additive", "5.0", SWIFT),
    ("host.swift.beta", "0.1", SWIFT),
    ("host.swift.max_mdf", "0.05", SWIFT),
    ("host.swift.min_window", "20.0", SWIFT),
    ("host.swift.max_window", "4.0", SWIFT),
    ("host.swift.initial_window", "1.0", SWIFT),
    ("host.nscc.target_delay", "\"30us\"", NSCC),
    ("host.nscc.fair", "20.0", NSCC),
    ("host.nscc.proportional", "20.0", NSCC),
    ("host.nscc.fast", "1.0", NSCC),
    ("host.nscc.eta", "5.0", NSCC),
    ("host.nscc.gamma", "0.1", NSCC),
    ("host.nscc.delay_gain", "0.2", NSCC),
    ("host.nscc.max_window", "3.0", NSCC),
    ("host.nscc.quick_adapt", "false", NSCC_LOSES),
    ("host.nscc.quick_adapt_gate", "0", NSCC_LOSES),
    (
        "host.swift.retx_reset",
        "1",
        &[BY_HOST, SWIFT[1], SWIFT[2], ("link.loss", "0.02"), ("host.timeout", "\"50us\"")],
    ),
    ("host.dcqcn.connectx", "true", PLAIN),
    ("host.dcqcn.gain", "512", PLAIN),
    ("host.dcqcn.initial_alpha", "100", PLAIN),
    ("host.dcqcn.additive", "\"4G\"", RISES),
    ("host.dcqcn.hyper", "\"8G\"", RISES),
    ("host.dcqcn.increase_period", "\"10us\"", PLAIN),
    ("host.dcqcn.alpha_period", "\"5us\"", PLAIN),
    ("host.dcqcn.cut_period", "\"200us\"", PLAIN),
    ("host.dcqcn.byte_threshold", "\"20KB\"", PLAIN),
    ("host.dcqcn.stages", "1", &[("host.dcqcn.increase_period", "\"10us\"")]),
    ("host.dcqcn.rate_shift", "2", PLAIN),
    ("host.dcqcn.min_left_percent", "90", PLAIN),
    ("host.dcqcn.min_rate", "\"30G\"", PLAIN),
    ("host.dcqcn.initial_rate", "\"5G\"", PLAIN),
    ("host.dcqcn.first_cnp_rate", "\"5G\"", PLAIN),
    ("host.dcqcn.scheme", "\"firmware\"", PLAIN),
    ("host.dcqcn.firmware_period", "\"50us\"", FIRMWARE),
    ("host.dcqcn.firmware_algorithm", "\"backoff\"", FIRMWARE),
    ("host.dcqcn.message", "\"4KB\"", HARDWARE),
    (
        "host.dcqcn.outstanding",
        "1",
        &[HARDWARE[0], ("host.dcqcn.outstanding_after_cnp", "1"), ("host.dcqcn.message", "\"4KB\"")],
    ),
    ("host.dcqcn.outstanding_after_cnp", "1", HARDWARE),
    (
        "host.dcqcn.restore_after",
        "\"1us\"",
        &[HARDWARE[0], ("host.dcqcn.outstanding_after_cnp", "1"), ("host.dcqcn.message", "\"4KB\"")],
    ),
    ("inc.switches", "[\"s2\"]", INC),
    ("inc.rate", "\"40G\"", INC),
    ("inc.delay", "\"5us\"", INC),
    ("inc.window", "4", INC),
    ("workload.0.kind", "\"all_to_all\"", &[("workload.0", "{ kind = \"permutation\", bytes = \"50KB\" }")]),
    ("workload.0.bytes", "\"100KB\"", PLAIN),
    ("workload.0.file", "\"two.cm\"", MATRIX),
    ("workload.0.origin", "\"1us\"", MATRIX),
    ("workload.0.start_unit", "\"us\"", MATRIX),
    ("workload.0.hosts", "[\"h3\", \"h1\"]", RING),
    ("workload.0.ranks", "2", RING),
    ("workload.0.placement", "\"spread\"", &[RING[0], ("workload.0.ranks", "2")]),
    ("workload.0.group", "4", GROUPS),
    ("workload.0.chunk", "\"10KB\"", TREES),
    ("workload.0.matrix", "[[0, 1000, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]", SIZED),
    ("workload.0.microbatches", "3", PIPELINE),
    ("workload.0.forward", "\"5us\"", PIPELINE),
    ("workload.0.backward", "\"5us\"", PIPELINE),
    ("workload.0.servers", "2", STORAGE),
    ("workload.0.ios", "7", STORAGE),
    ("workload.0.depth", "2", STORAGE),
    ("workload.0.reads", "0.1", STORAGE),
    ("workload.0.replicas", "2", &[STORAGE[0], ("workload.0.servers", "2")]),
    ("workload.0.service", "\"3us\"", STORAGE),
    ("topology.hpcc_file.file", "\"two.txt\"", HPCC_FILE),
    ("workload.0.start", "\"10us\"", PLAIN),
    ("workload.0.stagger", "\"10us\"", PLAIN),
    ("workload.0.from", "\"h1\"", FLOW),
    ("workload.0.to", "\"h2\"", PLAIN),
    ("workload.0.senders", "2", PLAIN),
    ("workload.0.shift", "2", SHIFT),
    ("workload.0.load", "0.6", POISSON),
    ("workload.0.sizes", "\"websearch\"", POISSON),
    ("workload.0.duration", "\"300us\"", POISSON),
    ("workload.0.reliable", "false", &[PAUSES[0], PAUSES[1], ("link.loss", "0.01")]),
    ("workload.0.cc", "\"none\"", PLAIN),
    ("ns3.reserve", "\"60KB\"", NS3_PAUSES),
    ("ns3.resume_offset", "\"50KB\"", NS3_PAUSES),
    ("ns3.shift", "5", NS3_PAUSES),
    ("ns3.payload", "500", NS3_DCQCN),
    ("ns3.nack_interval", "\"20us\"", NS3_LOSES),
    ("ns3.global_t", "false", NS3_WINDOW),
    ("ns3.rate_bound", "false", NS3_DCQCN),
    ("ns3.ack_gate", "3", NS3_TWO_WAYS),
    ("ns3.ewma_gain", "0.25", NS3_DCQCN),
    ("ns3.alpha_resume_interval", "\"50us\"", NS3_DCQCN),
    ("ns3.rate_decrease_interval", "\"20us\"", NS3_DCQCN),
    ("ns3.rp_timer", "\"3us\"", NS3_DCQCN),
    ("ns3.fast_recovery_times", "8", NS3_RISES),
    ("ns3.rate_ai", "\"2G\"", NS3_RISES),
    ("ns3.rate_hai", "\"5G\"", NS3_HYPER),
    ("ns3.min_rate", "\"5G\"", NS3_DCQCN),
    ("ns3.clamp_target_rate", "true", NS3_CUTS),
    ("workload.0.rate", "\"1G\"", PAUSES),
    ("workload.0.priority", "4", PAUSES),
    ("workload.0.dscp", "0", PAUSES),
    ("workload.0.response", "500", RCLINK),
    (
        "workload.0.type",
        "\"type3\"",
        &[("workload.0", "{ kind = \"incast\", to = \"h3\", bytes = \"200KB\" }"), RCLINK[0], RCLINK[3]],
    ),
    ("workload.0.members", "[\"h1\"]", &[GROUP, RCLINK[0], RCLINK[3]]),
    ("order", "[]", ORDERS),
    ("order.0.at", "\"10us\"", ORDERS),
    ("order.0.host", "\"h1\"", ORDERS),
    ("order.0.qpn", "0", &[TO_ALL_DCQCN, ORDERS[0]]),
    ("order.0.set", "{ min_rate = \"1G\" }", ORDERS),
    ("order.0.trace", "\"stop\"", &[("order", "[{ at = \"30us\", trace = \"start\" }]")]),
    ("order.0.show", "true", &[("order", "[{ at = \"30us\", trace = \"start\" }]")]),
];

pub(super) fn value(text: &str) -> Value {
    let table: Table = format!("x = {text}").parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    table["x"].clone()
}

/// Sets what `path` names. Tables on the way are made.
fn set(at: &mut Value, path: &[&str], to: Value) {
    match (at, path) {
        (Value::Table(table), [key]) => drop(table.insert((*key).into(), to)),
        (Value::Table(table), [key, rest @ ..]) => {
            set(table.entry(*key).or_insert_with(|| Table::new().into()), rest, to);
        }
        (Value::Array(items), [n]) => items[n.parse::<usize>().unwrap()] = to,
        (Value::Array(items), [n, rest @ ..]) => set(&mut items[n.parse::<usize>().unwrap()], rest, to),
        (at, path) => panic!("{path:?} in {at}"),
    }
}

pub(super) fn spec(changes: impl IntoIterator<Item = (String, Value)>) -> String {
    let mut spec = Value::Table(BASE.parse().unwrap());
    for (path, to) in changes {
        set(&mut spec, &path.split('.').collect::<Vec<_>>(), to);
    }
    toml::to_string(&spec).unwrap()
}

pub(super) fn base(more: More<'_>) -> Vec<(String, Value)> {
    more.iter().map(|(path, text)| ((*path).into(), value(text))).collect()
}

/// Reads a file that may name others.
pub(super) fn read(text: &str) -> Result<FabricSpec, FabricError> {
    let dir = tempfile::tempdir().unwrap();
    FILES.iter().for_each(|(name, text)| std::fs::write(dir.path().join(name), text).unwrap());
    load_in("keys.toml", text, dir.path())
}

/// Everything a run says but its identity.
fn said(key: &str, text: &str) -> serde_json::Value {
    let report = read(text).and_then(|spec| run(&spec));
    let report = report.unwrap_or_else(|e| panic!("{key}: {e}\n{text}"));
    without_identity(&report)
}

/// The same of the base with these changes.
pub(super) fn said_with(key: &str, changes: impl IntoIterator<Item = (String, Value)>) -> serde_json::Value {
    said(key, &spec(changes))
}

/// Everything a report says but whose it is.
pub(super) fn without_identity(report: &super::Report) -> serde_json::Value {
    let mut said = serde_json::to_value(report).unwrap();
    for identity in ["config_hash", "seed", "profile", "level"] {
        said.as_object_mut().unwrap().remove(identity);
    }
    said
}

/// Where a key of the list stands: the kind of a topology is no step of the way.
pub(super) fn place(key: &str) -> String {
    match key.split('.').collect::<Vec<_>>()[..] {
        ["topology", _, ref rest @ ..] if !rest.is_empty() => format!("topology.{}", rest.join(".")),
        _ => key.into(),
    }
}

#[test]
fn every_key_of_a_fabric_has_an_effect() {
    let idle = CASES.iter().filter(|(key, other, more)| {
        let plain = said(key, &spec(base(more)));
        plain == said(key, &spec(base(more).into_iter().chain([(place(key), value(other))])))
    });
    let idle: Vec<_> = idle.map(|(key, other, _)| format!("{key} = {other}")).collect();
    assert!(idle.is_empty(), "these change nothing: {idle:?}");
}

const OF_CHAIN: &str = "{ kind = \"chain\", switches = 3, hosts_per_switch = 2 }";
/// Tables: where one stands, what its cases are called, and a base that has it.
const TABLES: &[(&str, &str, More<'_>)] = &[
    ("", "", PLAIN),
    ("topology.", "topology.star.", &[topology("{ kind = \"star\", hosts = 4 }")]),
    ("topology.", "topology.dumbbell.", &[topology("{ kind = \"dumbbell\", pairs = 2 }")]),
    ("topology.", "topology.chain.", &[topology(OF_CHAIN)]),
    ("topology.", "topology.ring.", &[topology("{ kind = \"ring\", switches = 3, hosts_per_switch = 2 }")]),
    ("topology.", "topology.leaf_spine.", PLAIN),
    ("topology.", "topology.rail.", RAIL),
    ("topology.", "topology.dragonfly_plus.", DRAGONFLY),
    ("topology.", "topology.fat_tree.", &[topology("{ kind = \"fat_tree\", k = 2 }")]),
    ("topology.", "topology.hpcc_file.", HPCC_FILE),
    ("topology.", "topology.custom.", CUSTOM),
    ("topology.links.0.", "topology.custom.links.0.", CUSTOM),
    ("link.", "link.", PLAIN),
    ("trunk.", "trunk.", PLAIN),
    ("routing.", "routing.", PLAIN),
    ("failure.0.", "failure.0.", FAILURE),
    ("switch.", "switch.", PLAIN),
    ("host.", "host.", PLAIN),
    ("host.rclink.", "host.rclink.", PLAIN),
    ("host.rclink.priorities.", "host.rclink.priorities.", PLAIN),
    ("host.dcqcn.", "host.dcqcn.", PLAIN),
    ("host.hpcc.", "host.hpcc.", PLAIN),
    ("host.timely.", "host.timely.", PLAIN),
    ("host.dctcp.", "host.dctcp.", PLAIN),
    ("host.swift.", "host.swift.", PLAIN),
    ("host.nscc.", "host.nscc.", PLAIN),
    ("host.selective_repeat.", "host.selective_repeat.", PLAIN),
    ("inc.", "inc.", PLAIN),
    ("order.0.", "order.0.", ORDERS),
    ("ns3.", "ns3.", PLAIN),
    ("workload.0.", "workload.0.", PLAIN),
];

fn with_unknown_key(path: &str, more: More<'_>) -> String {
    let odd = (format!("{path}no_such_key"), Value::Integer(1));
    spec(base(more).into_iter().chain([odd]))
}

/// A file for each case, with the key it is about.
pub(super) fn every_legal_file() -> impl Iterator<Item = (&'static str, String)> {
    let file = |(key, other, more): &(&'static str, &str, More<'_>)| {
        (*key, spec(base(more).into_iter().chain([(place(key), value(other))])))
    };
    CASES.iter().map(file)
}

/// A file for each table, with a key that it does not have.
pub(super) fn every_unknown_key() -> impl Iterator<Item = (&'static str, String)> {
    TABLES.iter().map(|(path, name, more)| (*name, with_unknown_key(path, more)))
}

#[test]
fn every_key_of_a_fabric_has_a_case() {
    // Tables, whose keys have cases of their own.
    let tables_within = [
        "topology",
        "link",
        "trunk",
        "routing",
        "switch",
        "host",
        "workload",
        "host.rclink",
        "host.dcqcn",
        "host.hpcc",
    ];
    let tables_within = tables_within.iter().chain(&[
        "inc",
        "ns3",
        "host.rclink.priorities",
        "host.timely",
        "host.dctcp",
        "host.swift",
        "host.nscc",
        "host.selective_repeat",
    ]);
    let tables_within: Vec<&str> = tables_within.copied().collect();
    let mut missing = Vec::new();
    let mut known = 0;
    for (path, name, more) in TABLES {
        let error = load("keys.toml", &with_unknown_key(path, more)).unwrap_err().to_string();
        // unknown field `no_such_key`, expected one of `a`, `b`
        let (_, expected) = error.split_once("expected ").unwrap_or_else(|| panic!("{error}"));
        let line = expected.lines().next().unwrap();
        let keys: BTreeSet<&str> = line.split('`').skip(1).step_by(2).collect();
        assert!(!keys.is_empty(), "{error}");
        for key in keys.into_iter().map(|key| format!("{name}{key}")) {
            known += 1;
            let covered = CASES.iter().any(|(case, ..)| case.replace("links.1.", "links.0.") == key)
                || tables_within.contains(&&*key);
            // The kind of a topology has one case for all.
            if !covered && !key.ends_with(".kind") {
                missing.push(key);
            }
        }
    }
    assert!(missing.is_empty(), "no case shows what these do: {missing:?}");
    assert!(known > 90, "{known}");
}
