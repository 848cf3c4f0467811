//! Every table and key of a host's file, as [`crate::config::schema`] has them for a switch.

use crate::config::schema::{Table, key, table};

pub(super) static ROOT: Table = table(
    "",
    "Top level of the file.",
    &[
        key("eal", "table", "DPDK's environment layer"),
        key("host", "table", "the process itself"),
        key("port", "list of tables", "the ports, in order; at least one"),
        key("dcqcn", "table", "rate control of every connection that does not switch it off"),
        key("qp_defaults", "table", "keys of `[[qp]]` for every connection that does not set them itself"),
        key("qp", "list of tables", "the connections, in order; at least one"),
    ],
);
pub(super) static HOST: Table = table(
    "[host]",
    "The process itself.",
    &[
        key(
            "rest",
            "time 0 to 10ms, default 0",
            "sleep when there is nothing to do; 0 polls without end, as a NIC needs it",
        ),
        key(
            "slack",
            "time 0 to 10ms, default 200us",
            "time without the processor whose frames are made up for",
        ),
    ],
);
pub(super) static PORT: Table = table(
    "[[port]]",
    "One port: one host.",
    &[
        key("name", "text, required", "unique name"),
        key(
            "device",
            "text, required",
            "PCI address (`0000:3b:00.0`) or DPDK devargs (`net_memif0,role=client,socket=...`)",
        ),
        key(
            "rate",
            "rate, default 100G on virtual devices, the link's on NICs",
            "nothing is sent faster; unit of received pauses",
        ),
        key("mtu", "size 64 to 16128, default 1600", "longest frame, without FCS"),
        key("mac", "MAC address, required", "address of the host"),
        key("ip", "IPv4 address, required", "address of the host"),
        key("pfc", "list of 0 to 7, default [3]", "priorities whose pauses are obeyed"),
        key(
            "first_qpn",
            "1 to 32767, default 17",
            "number of the port's first connection; the others follow in order",
        ),
        key("lcore", "integer, default the first worker", "lcore that polls; the same for all ports"),
    ],
);
pub(super) static DCQCN: Table = table(
    "[dcqcn]",
    "DCQCN. What is not set is that of `parameters`, increases scaled to the rate of the connection.",
    &[
        key(
            "parameters",
            "\"paper\", \"connectx\" or \"off\", default \"paper\"",
            "where unset keys come from; off: fixed rates",
        ),
        key("gain", "0 to 1024", "g in 1024ths (dce_tcp_g is 1024 - g)"),
        key("initial_alpha", "0 to 1023", "alpha at the first CNP, in 1024ths (initial_alpha_value)"),
        key("rate_shift", "0 to 10", "a cut takes alpha / 2^shift (rpg_gd is 10 + shift)"),
        key(
            "alpha_period",
            "time 1us to 1s",
            "alpha decays after each such time without a CNP (dce_tcp_rtt)",
        ),
        key(
            "cut_period",
            "time 0 to 1s",
            "one cut per such time, however many CNPs (rate_reduce_monitor_period)",
        ),
        key("increase_period", "time 1us to 1s", "time between two increases (rpg_time_reset)"),
        key("byte_threshold", "size from 64", "bytes between two increases (rpg_byte_reset)"),
        key("stages", "1 to 100", "increases before the next stage (rpg_threshold)"),
        key("additive", "rate", "R_AI (rpg_ai_rate)"),
        key("hyper", "rate", "R_HAI (rpg_hai_rate)"),
        key("min_rate", "rate", "lowest rate (rpg_min_rate)"),
        key(
            "cnp_interval",
            "time 0 to 1s, default 50us",
            "least time between two CNPs of a connection (min_time_between_cnps)",
        ),
        key("outstanding", "1 to 16, default 16", "messages in flight"),
        key("outstanding_after_cnp", "1 to 16, default 8", "messages in flight for a while after a CNP"),
        key(
            "restore_after",
            "time 1us to 10s, default 300us",
            "from the last CNP to `outstanding` again (CNP_TIMER_THRD)",
        ),
    ],
);
pub(super) static QP: Table = table(
    "[[qp]]",
    "One connection, made without asking: both ends say the same. Every key but `port` and `peer_qpn` may also stand in `[qp_defaults]`.",
    &[
        key("port", "port name, default the only port", "where it is"),
        key("peer_ip", "IPv4 address, required", "the other end"),
        key(
            "peer_mac",
            "MAC address, default asked for by ARP",
            "the other end; if set, sending does not wait for an answer",
        ),
        key("peer_qpn", "0 to 16777215, required", "number of the connection at the other end"),
        key("send_psn", "0 to 16777215, default 0", "sequence number of the first packet sent"),
        key("recv_psn", "0 to 16777215, default 0", "sequence number of the first packet received"),
        key("vlan", "0 to 4094, default untagged", "VLAN id; PCP is the priority"),
        key("priority", "0 to 7, default 3", "PFC priority of data and ACK, and PCP if tagged"),
        key("dscp", "0 to 63, default 26", "DSCP of data and ACK"),
        key("cnp_priority", "0 to 7, default 6", "PFC priority of CNPs (cnp_802p_prio)"),
        key("cnp_dscp", "0 to 63, default 48", "DSCP of CNPs (cnp_dscp)"),
        key("mtu", "256, 512, 1024, 2048 or 4096, default 1024", "path MTU: payload of a packet"),
        key("window", "1 to 4194304, default 4096", "packets in flight"),
        key("ack_timeout", "time 10us to 10s, default 67ms", "silence after which packets are sent again"),
        key("retries", "0 to 255, default 7", "how often, without progress, before the connection fails"),
        key("rate", "rate, default that of the port", "highest rate on the wire"),
        key(
            "receive",
            "size 16 to 64MiB, default 64KiB",
            "longest message taken; sixteen times that is registered",
        ),
        key("expect", "integer from 1, default none", "messages that will come: the run ends when all have"),
        key("send", "\"send\" or \"write\", default nothing", "messages to send, and how"),
        key("message", "size 16 to 64MiB, default 64KiB", "bytes of a message"),
        key(
            "messages",
            "integer from 1, default without end",
            "how many: the run ends when all are acknowledged",
        ),
        key("start", "time 0 to 1h, default 0", "not before this time after the start"),
        key(
            "remote_address",
            "integer, default that of a weir host with the same first_qpn",
            "first address of the peer's memory, for writes",
        ),
        key(
            "remote_key",
            "integer, default that of a weir host with the same first_qpn",
            "key of the peer's memory, for writes",
        ),
    ],
);

/// Every table, in the order of the documentation.
pub static ALL: &[&Table] = &[&ROOT, &HOST, &PORT, &DCQCN, &QP];
