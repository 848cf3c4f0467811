//! Every table and key of a host's file, as [`crate::schema`] has them for a switch.

use crate::schema::{Table, key, table};

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
        key("rclink", "table", "RC Link instead: its frames, its flow control, its connections"),
    ],
);
pub(super) static HOST: Table = table(
    "[host]",
    "The process itself.",
    &[
        key(
            "protocol",
            "\"rocev2\" or \"rclink\", default \"rocev2\"",
            "what the hosts speak: RoCEv2 with `[dcqcn]` and `[[qp]]`, or RC Link with `[rclink]`",
        ),
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
        key(
            "ip",
            "IP address, required unless the format is AFH",
            "address of the host; RC Link has IPv4 alone",
        ),
        key(
            "pfc",
            "list of 0 to 7, default [3]",
            "priorities whose pauses are obeyed; RC Link also pauses them when its memories are full",
        ),
        key(
            "first_qpn",
            "1 to 32767, default 17",
            "number of the port's first connection; the others follow in order. RC Link counts from 0",
        ),
        key("lcore", "integer, default the first worker", "lcore that polls; the same for all ports"),
    ],
);
pub(super) static DCQCN: Table = table(
    "[dcqcn]",
    "DCQCN. What is not set is that of `parameters`, increases scaled to the rate of the connection. \"connectx\" is another form, too: CNPs cut the rate at the end of a `cut_period` in which one came, alpha is looked at once per `alpha_period`, and of cuts in a row the first alone lowers the target.",
    &[
        key(
            "parameters",
            "\"paper\", \"connectx\" or \"off\", default \"paper\"",
            "where unset keys come from; off: fixed rates",
        ),
        key(
            "scheme",
            "\"hardware\", \"firmware_rate\" or \"firmware\", default \"hardware\"",
            "scheme 1: hardware computes the rate; 2: firmware writes it; 3: firmware stops and starts the connection",
        ),
        key(
            "firmware_algorithm",
            "\"dcqcn\" or \"backoff\", default \"dcqcn\"",
            "what firmware computes the rate with, in schemes 2 and 3; backoff: half the rate at a CNP, once per cut_period, then additive more after each increase_period, from min_rate",
        ),
        key(
            "firmware_period",
            "time 1us to 1s, default 10us",
            "how often firmware looks, in schemes 2 and 3; all CNPs between two looks are one",
        ),
        key("initial_rate", "rate, default that of the connection", "rate at the start (RATE_MEM)"),
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
        key("min_left_percent", "0 to 100", "percentage of the rate a cut leaves at least (rpg_min_dec_fac)"),
        key("first_cnp_rate", "rate", "set by the first CNP instead of a cut (rate_to_set_on_first_cnp)"),
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
        key("peer_ip", "IP address, required", "the other end; IPv6 if the port is"),
        key(
            "peer_mac",
            "MAC address, default asked for by ARP; required with IPv6",
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
        key(
            "window",
            "1 to 4194304, default 4096; of a rank 256",
            "packets in flight; a rank is no further ahead of the last sum, nor 16 messages",
        ),
        key("ack_timeout", "time 10us to 10s, default 67ms", "silence after which packets are sent again"),
        key("retries", "0 to 255, default 7", "how often, without progress, before the connection fails"),
        key("rate", "rate, default that of the port", "highest rate on the wire"),
        key(
            "receive",
            "size 16 to 64MiB, default 64KiB",
            "longest message taken; sixteen times that is registered, for peers to write and read",
        ),
        key(
            "memory_address",
            "integer, default n x 2^40 for the n-th connection of the port, from 1",
            "first address of that memory",
        ),
        key(
            "memory_key",
            "0 to 4294967295, default (n - 1) x 512 + 1 for the n-th connection of the port",
            "remote key of that memory",
        ),
        key(
            "verify",
            "true or false, default true",
            "messages are those of a weir host and their content is checked; false takes what comes, as from an RNIC",
        ),
        key("expect", "integer from 1, default none", "messages that will come: the run ends when all have"),
        key(
            "send",
            "\"send\", \"write\" or \"allreduce\", default nothing",
            "messages to send, and how; allreduce: the peer is an engine that sums",
        ),
        key("inc", "table, with send = \"allreduce\"", "which rank this is, and what is summed"),
        key("message", "size 16 to 64MiB, default 64KiB", "bytes of a message"),
        key(
            "messages",
            "integer from 1, default without end",
            "how many: the run ends when all are acknowledged",
        ),
        key("start", "time 0 to 3600s, default 0", "not before this time after the start"),
        key(
            "remote_address",
            "integer, default that of a weir host with the same first_qpn; of an engine 0",
            "first address of the peer's memory, for writes",
        ),
        key(
            "remote_key",
            "integer, default that of a weir host with the same first_qpn; of an engine 0",
            "key of the peer's memory, for writes",
        ),
    ],
);

pub(super) static QP_INC: Table = table(
    "[qp.inc]",
    "A rank of an AllReduce. All ranks of a job say the same but `rank`, and send messages of one length.",
    &[
        key(
            "operator",
            "\"sum\", \"min\", \"max\", \"prod\", \"and\", \"or\" or \"xor\", default \"sum\"",
            "how two elements become one; the last three of integers",
        ),
        key(
            "type",
            "\"u32\", \"i32\", \"i64\", \"f32\", \"f64\", \"f16\" or \"bf16\", default \"f32\"",
            "what an element is",
        ),
        key("byte_order", "\"big\" or \"little\", default \"little\"", "how it lies in a message"),
        key("rank", "0 to 65534, required", "rank of this connection at the engine"),
        key(
            "tree",
            "list, required",
            "who is folded with whom: `[0, 1]` is an engine with two ranks, `[[0, 1], [2, 3]]` two such below a third",
        ),
        key(
            "write",
            "true or false, default false",
            "contributions are RDMA WRITEs with immediate data to `remote_address`, not SENDs: the `write` of this child of the job",
        ),
        key(
            "write_results",
            "true or false, default false",
            "sums are RDMA WRITEs to `memory_address`, not SENDs: the `results_to` of this child of the job",
        ),
    ],
);

pub(super) static RCLINK: Table = table(
    "[rclink]",
    "RC Link, the endpoint side of PAXI. Both ends say the same; the port of the switch has the same format, `paxi_standard` for `standard`.",
    &[
        key(
            "format",
            "\"standard\", \"afh_gen1\", \"afh_gen2_16b\" or \"afh_lite\", default \"standard\"",
            "shape of the frames",
        ),
        key(
            "octets",
            "\"public\" or \"rclink\", default \"public\"",
            "afh_gen2_16b, afh_lite: which of flags and traffic class is in byte 0, which in byte 6",
        ),
        key(
            "crc",
            "true or false, default true",
            "frames with a reliability header end in a CRC of their own",
        ),
        key(
            "udp_checksum",
            "0 to 65535, default 0",
            "standard: constant in the UDP checksum field; 0 is none",
        ),
        key(
            "tag",
            "true or false, default true",
            "frames carry a VLAN tag whose PCP is the priority; never in afh_lite",
        ),
        key("vlan", "0 to 4094, default 0", "VLAN id of the tag"),
        key(
            "reliable",
            "true or false, default true; false in afh_lite",
            "go-back-N; false is LITE mode: all is sent once, what is lost is counted",
        ),
        key("ecn", "true or false, default true", "standard: data can be marked (ECT)"),
        key(
            "cnp_merge",
            "time 0 to 1s, default 50us",
            "CNPs of one connection so far apart at most are one; a receiver remembers the last eight connections it sent any for (DEV-13): of more that are marked at once CNPs can be closer",
        ),
        key("backoff", "table", "what a CNP does to the rate"),
        key(
            "flow_control",
            "\"pfc\" or \"cbfc\", default \"pfc\"",
            "pauses, or credits from end to end (CBFC_EN)",
        ),
        key("credit_bytes", "32, 64, 128, 256, 1024 or 2048, default 256", "cbfc: bytes of a credit"),
        key("credits", "integer, default 4096", "cbfc: credits of each channel and peer (credit_limit)"),
        key(
            "credit_report",
            "1 to 7, default 2",
            "cbfc: freed credits are reported once worth so many longest frames (credit_uf_limit)",
        ),
        key(
            "credit_interval",
            "time 1us to 1s, default 1ms",
            "cbfc: and at least this often, which mends losses",
        ),
        key("priorities", "table", "priority, or virtual channel, of each class"),
        key(
            "round_trip",
            "time 0 to 1s, default 10ms",
            "what the receive memories have room for after a pause was asked for, and release a pause below",
        ),
        key(
            "read_rate",
            "rate, default as they come",
            "messages are read this fast at most: a memory that fills pauses its senders",
        ),
        key(
            "qp_defaults",
            "table",
            "keys of `[[rclink.qp]]` for every connection that does not set them itself",
        ),
        key("qp", "list of tables", "the connections, in order; at least one"),
    ],
);
pub(super) static RCLINK_PRIORITIES: Table = table(
    "[rclink.priorities]",
    "Priority of each class: PCP, PFC priority, and virtual channel with credits.",
    &[
        key("raw", "0 to 7, default 0", "raw Ethernet (TYPE3)"),
        key("multicast", "0 to 7, default 1", "multicast (TYPE2)"),
        key("response", "0 to 7, default 2", "responses"),
        key("request", "list of four, default [3, 3, 4, 4]; cbfc: [3, 4, 5, 6]", "requests by bank"),
        key("ack", "0 to 7, default 6; cbfc: 7", "acknowledgements and credits"),
        key("cnp", "0 to 7, default 5; cbfc: 7", "CNPs"),
    ],
);
pub(super) static RCLINK_BACKOFF: Table = table(
    "[rclink.backoff]",
    "A CNP halves the bytes per window, at most once per period; then they rise step by step.",
    &[
        key("enable", "true or false, default true", "false: CNPs are counted, and that is all"),
        key("cut_period", "time 0 to 1s, default 50us", "one cut per such time"),
        key("raise_period", "time 1us to 1s, default 50us", "one raise per such time without a cut"),
        key("raise", "rate, default a hundredth of that of the connection", "what a raise adds"),
        key("min_rate", "rate, default a hundredth of that of the connection", "no cut goes below"),
    ],
);
pub(super) static RCLINK_QP: Table = table(
    "[[rclink.qp]]",
    "One connection; a message is a frame. Every key but `port` and `peer_qp` may also stand in `[rclink.qp_defaults]`. \
     Queue pairs of a port are numbered from 0 in the order of the file, connections of the other types apart.",
    &[
        key("port", "port name, default the only port", "where it is"),
        key(
            "type",
            "\"type1\", \"type2\" or \"type3\", default \"type1\"",
            "a queue pair; multicast; raw Ethernet. The last two are sent once, and go one way",
        ),
        key(
            "peer_mac",
            "MAC address, required",
            "the other end; where type2 sends the group, where it receives the sender",
        ),
        key(
            "peer_ip",
            "IPv4 address; in standard, required but for type3 and where type2 sends: 224.0.0.1 there",
            "the other end; where type2 sends the group. Other frames have none",
        ),
        key("peer_qp", "0 to 8191, required for type1", "number of the queue pair at the other end"),
        key(
            "class",
            "\"request0\" to \"request3\" or \"response\", default \"request0\"",
            "type1: requests of a bank, or responses",
        ),
        key("pkey", "0 to 255, default 0", "partition"),
        key("window", "1 to 2048, default 512", "packets in flight"),
        key("ack_every", "1 to 2048, default 16", "an acknowledgement is forced every so many packets"),
        key("ack_timeout", "time 10us to 10s, default 67ms", "silence after which packets are sent again"),
        key("retries", "0 to 255, default 7", "how often, without progress, before the connection fails"),
        key(
            "cc_window",
            "\"4us\", \"8us\", \"16us\", \"32us\" or \"65us\", default \"65us\"",
            "the rate is so many bytes per such window (CC_WINDOW)",
        ),
        key("rate", "rate, default that of the port", "highest rate"),
        key("expect", "integer from 1, default none", "messages that will come: the run ends when all have"),
        key("send", "true or false, default false", "messages are sent"),
        key("message", "size 16 to 1344, default 1024; from 48 in afh_lite", "bytes of a message"),
        key(
            "messages",
            "integer from 1, default without end",
            "how many: the run ends when all are acknowledged",
        ),
        key("start", "time 0 to 3600s, default 0", "not before this time after the start"),
    ],
);

/// Every table, in the order of the documentation.
pub static ALL: &[&Table] =
    &[&ROOT, &HOST, &PORT, &DCQCN, &QP, &QP_INC, &RCLINK, &RCLINK_PRIORITIES, &RCLINK_BACKOFF, &RCLINK_QP];
