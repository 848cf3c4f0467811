//! Every table and key of the configuration: the reader refuses what is not here, and the reference section
//! of `docs/config.md` is printed from here, so neither can drift.

use std::fmt::Write;

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it accepts and its default.
    pub form: &'static str,
    /// What it does; in parentheses the SONiC or SAI name, if there is one.
    pub what: &'static str,
}

/// One table of keys.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// As a user writes it: `[[port]]`.
    pub path: &'static str,
    /// What it is for.
    pub what: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
    /// The keys are the user's own names or numbers.
    pub free: bool,
}

impl Table {
    pub(super) fn has(&self, name: &str) -> bool {
        self.free || self.keys.iter().any(|k| k.name == name)
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|k| k.name).collect()
    }

    /// How to write a key that is missing.
    pub(super) fn remedy(&self, name: &str) -> String {
        let form = self.keys.iter().find(|k| k.name == name).map_or("", |k| k.form);
        format!("add `{name}`: {form}")
    }

    /// The known key closest to a misspelt one.
    pub(super) fn nearest(&self, name: &str) -> Option<&'static str> {
        let close = |k: &Key| (distance(k.name, name), k.name);
        self.keys.iter().map(close).min().filter(|(d, k)| *d <= 2.min(k.len() / 2)).map(|(_, k)| k)
    }
}

/// Levenshtein distance; long names are far from everything.
pub(super) fn distance(a: &str, b: &str) -> usize {
    if b.len() > 64 {
        return b.len();
    }
    strsim::levenshtein(a, b)
}

pub(super) const fn key(name: &'static str, form: &'static str, what: &'static str) -> Key {
    Key { name, form, what }
}

pub(super) const fn table(path: &'static str, what: &'static str, keys: &'static [Key]) -> Table {
    Table { path, what, keys, free: false }
}

const fn free(path: &'static str, what: &'static str) -> Table {
    Table { path, what, keys: &[], free: true }
}

macro_rules! tables {
    ($($name:ident = $table:expr;)+) => {
        $(pub(super) static $name: Table = $table;)+
        /// Every table, in the order of the documentation.
        pub static ALL: &[&Table] = &[$(&$name),+];
    };
}

tables! {
    ROOT = table("", "Top level of the file.", &[
        key("switch", "table", "the switch itself"),
        key("eal", "table", "DPDK's environment layer"),
        key("port_defaults", "table", "keys of `[[port]]` for every port that does not set them itself"),
        key("port", "list of tables", "the ports, in order; at least one"),
        key("format", "tables by name", "frame formats of your own"),
        key("fdb", "table", "forwarding table"),
        key("qos", "table", "classification for the whole switch"),
        key("map", "tables by name", "class maps a port chooses by name"),
        key("buffer", "table", "the shared buffer"),
        key("scheduler", "list of tables", "scheduler profiles"),
        key("wred", "list of tables", "marking profiles"),
        key("queue", "list of tables", "which queue uses which scheduler and marking profile"),
        key("lag", "list of tables", "ports that are one to the forwarding table"),
        key("mirror", "list of tables", "copies of frames of some ports to another"),
        key("pfc", "table", "priority flow control"),
        key("watchdog", "table", "the PFC watchdog"),
        key("flows", "table", "which flows are behind marks, losses, pauses and the depth of queues"),
        key("lldp", "table", "who is at the other end of the links, and whether its PFC fits ours"),
        key("lacp", "table", "what the switch is to partners of its LAGs"),
        key("mcast_snooping", "table", "IGMP and MLD snooping: groups go to those who have joined"),
        key("mgmt", "table", "where a running switch may be looked at"),
        key("lab", "table", "traffic of the lab hosts"),
    ]);
    SWITCH = table("[switch]", "The switch itself.", &[
        key("name", "text, default \"weir\"", "name in output and metrics"),
        key("seed", "integer, default 1", "seed of the switch's random generator: same seed and input, same output"),
    ]);
    EAL = table("[eal]", "DPDK's environment layer.", &[
        key("args", "list of texts, default []", "EAL arguments, one per element; those of the command line come after them"),
    ]);
    PORT = table("[[port]]", "One port. Every key but `name` and `device` may also stand in `[port_defaults]`; `pfc` and `storm_control` are merged key by key.", &[
        key("name", "text, required", "unique name: letters, digits and _ - . /, at most 32"),
        key("device", "text, required", "PCI address (`0000:3b:00.0`), DPDK devargs (`net_af_packet0,iface=veth0`), `ring`, or `inc`: an engine that sums ([inc.md](inc.md))"),
        key("rate", "rate from 1M, default 100G on virtual devices, the link's on NICs", "speed; enforced by the egress shaper, never above the link's (PORT.speed). A worker that is kept off its core for longer than `pfc.poll_gap` sends less than the rate: it makes up for one gap only"),
        key("lcore", "integer, default the first worker", "CPU of the lcore that polls the port"),
        key("admin", "\"up\" or \"down\", default \"up\"", "`down` switches the port off, which may change while the switch runs: its link is taken down where the driver can, what waits is dropped as `egress.port_down`, what comes all the same as `ingress.admin_down`. Stations learned there are forgotten: frames to them are flooded or dropped, as `unknown_unicast` of the port they arrive on says; frames to static ones are dropped as `lookup.admin_down` (PORT.admin_status)"),
        key("mtu", "size 64 to 16128, default 9216", "largest frame accepted, without FCS (PORT.mtu)"),
        key("mac", "MAC address, default the device's", "source address of PFC frames"),
        key("format", "text, default \"standard\"", "`standard`, `afh_gen1`, `afh_gen2_16b`, `afh_lite`, `paxi_standard` (standard with RC Link instead of RoCE on UDP port 4791) or the name of a `[format.NAME]`"),
        key("trust", "word or list of words, default that of the format", "sources of the traffic class, first found wins: `dscp`, `pcp`, `tc`, `port`"),
        key("default_tc", "0 to 7, default 0", "class of frames no trusted source speaks for (PORT default priority)"),
        key("learning", "boolean, default true, false for AFH", "learn source addresses"),
        key("learn_limit", "integer, default none", "most addresses learnt on this port"),
        key("unknown_unicast", "\"flood\" or \"drop\", default that of `[fdb]`", "unknown destinations received here"),
        key("cable", "length, default 5m on virtual devices", "cable length, for the headroom (CABLE_LENGTH)"),
        key("peer_response", "size or \"auto\", default \"auto\"", "bytes the peer may still send after a pause has reached it, for the headroom; auto: what 802.3 allows at the rate. A switch in software takes longer: of weir `pause_response` in `weir show ports --json`"),
        key("rx_descriptors", "32 to 32768, default 1024", "frames the device's receive ring holds, fitted to what its driver allows"),
        key("tx_descriptors", "32 to 32768, default 256", "frames the device's transmit ring holds: they cannot be held back when the peer pauses, so it is short"),
        key("pfc", "table", "PFC of the port"),
        key("inc", "table", "the engine of a port whose device is `inc`"),
        key("vlan", "table, default none", "the VLANs of the port; where one port of a switch has it, all have it. Without it tags pass as they are, and stations are known per VLAN"),
        key("storm_control", "table, default none", "limits on what is flooded of the frames received here"),
        key("lldp", "\"both\", \"receive\" or \"off\", default \"both\", \"off\" for engines", "with `[lldp] enable`: whether LLDP frames are received here, and sent (LLDP_PORT.mode)"),
        key("maps", "name or list of names, default []", "`[map.NAME]` tables laid over the switch's maps, later ones win (PORT_QOS_MAP)"),
    ]);
    PORT_PFC = table("pfc = { ... } of a port", "PFC of a port.", &[
        key("enable", "list of 0 to 7, default []", "priorities with PFC (PORT_QOS_MAP.pfc_enable)"),
        key("mode", "\"software\", \"hardware\" or \"auto\", default \"auto\"", "who builds and obeys PFC frames; `hardware`: weir does neither, and keeps no priority lossless in its own buffer"),
        key("visible", "boolean, default what is known of the driver", "PFC frames of the peer reach software, and those of software leave; overrules what `doctor` and `show ports` say is known"),
        key("rx", "\"enabled\", \"all\", \"link\" or \"none\", default \"enabled\"", "pauses obeyed: PFC of enabled priorities, PFC of all eight (asymmetric PFC), 802.3x PAUSE of the whole link instead of PFC, or none"),
        key("tx", "boolean, default true", "send pauses; false with `rx` on is semi-lossless"),
    ]);
    PORT_VLAN = table("vlan = { ... } of a port", "VLAN membership (802.1Q): `access` for an access port, or `trunk` with `native`. A frame for a port that is not a member is dropped by name, flooded ones go to members only, and the tag is pushed or popped as the port it leaves by asks; a pushed one carries the PCP of the class. `mtu` counts the tag.", &[
        key("access", "1 to 4094", "the one VLAN of the port; its frames have no tag (VLAN_MEMBER untagged)"),
        key("trunk", "10, \"10,20-29\", \"*\" or a list of these", "VLANs whose frames have a tag (VLAN_MEMBER tagged)"),
        key("native", "1 to 4094, default none", "VLAN of a trunk's frames without a tag; without it they are dropped (`vlan.untagged`)"),
    ]);
    PORT_STORM_CONTROL = table("storm_control = { ... } of a port", "Storm control: how much of what the port receives may be flooded, as bits on the wire (`\"100M\"`) or frames per second (`\"5Kpps\"`). What is above is dropped and counted by kind. Frames for known stations, for groups of `[[fdb.group]]` and of `link_local` protocols have no limit.", &[
        key("broadcast", "rate, frames per second or \"unlimited\", the default", "frames for ff:ff:ff:ff:ff:ff (PORT_STORM_CONTROL broadcast)"),
        key("unknown_unicast", "rate, frames per second or \"unlimited\", the default", "frames for stations that are not in the forwarding table (PORT_STORM_CONTROL unknown-unicast)"),
        key("multicast", "rate, frames per second or \"unlimited\", the default", "frames for groups without an entry (PORT_STORM_CONTROL unknown-multicast)"),
        key("burst", "time to 10s, default 10ms", "a limit that was not used for this long lets as much more pass at once"),
    ]);
    PORT_INC = table("inc = { ... } of a port", "An engine of in-network aggregation. One per lcore.", &[
        key("mac", "MAC address, required", "where hosts send to; a fixed entry of the forwarding table leads there"),
        key("ip", "IP address, required", "its IP address; ARP requests for it are answered"),
        key("vlan", "0 to 4094, default 0", "VLAN of its frames; 0 untagged"),
        key("jobs", "1 to 1024, default 64", "most jobs at once"),
        key("memory", "size from 64KiB, default 256MiB", "bytes all jobs may take"),
        key("quota", "size, default a quarter of `memory`", "bytes one job may take"),
        key("first_qpn", "2 to 16777215, default 256", "first of its queue pair numbers"),
        key("qpns", "1 to 1048576, default 4160", "how many there are"),
    ]);
    FORMATS = free("[format.NAME]", "A frame format of your own, by name.");
    FORMAT = table("keys of [format.NAME]", "Fields are `{ off = 48, len = 8 }` or `[48, 8]`: first bit, counted from the first wire bit of the frame, and width (1 to 48).", &[
        key("inherit", "name of a built-in format, default \"standard\"", "where unset keys come from"),
        key("variant", "\"public\" or \"rclink\", default \"public\"", "`rclink` swaps the flags and traffic-class octets of the inherited format"),
        key("header_len", "12 to 16 bytes", "bytes before the payload, without VLAN tag"),
        key("dst", "field", "destination address"),
        key("src", "field", "source address"),
        key("flags", "field", "flags octet (W V - - Z Y X M)"),
        key("tc", "field of 8 bits", "traffic-class octet"),
        key("spare", "list of fields", "spare bits, kept as they are"),
        key("fdb_key", "{ dst = field, src = field }, default `dst` and `src`", "bits looked up; both of the same length, at most 48"),
        key("ethertype", "integer or \"absent\"", "EtherType of the format; `absent`: the header has none"),
        key("ethertype_off", "bit offset", "where the EtherType is"),
        key("vlan", "boolean", "VLAN tags may precede the EtherType"),
        key("prio_source", "word or list of words", "default `trust` of ports of this format"),
        key("ecn", "\"none\", \"ecn\" or \"tc\"", "where the ECN field is: nowhere, IP header, low bits of `tc`"),
        key("learning", "boolean", "default `learning` of ports of this format"),
    ]);
    FDB_KEY = table("fdb_key of a format", "Bits looked up.", &[
        key("dst", "field", "in the destination"),
        key("src", "field", "in the source"),
    ]);
    FDB = table("[fdb]", "Forwarding table.", &[
        key("capacity", "16 to 1048576, default 16384", "entries"),
        key("ageing", "time from 10ms, default 300s, 0 never", "learnt entries are forgotten after this silence (FDB aging time)"),
        key("unknown_unicast", "\"flood\" or \"drop\", default \"flood\"", "unknown destinations, where a port does not say otherwise"),
        key("link_local", "word or list of names and numbers, default \"bpdu\"", "frames for 01:80:c2:00:00:00 to :0f (802.1Q table 8-1) that go to every other port; of ports with `vlan` to those that share one with the port they came by, and as they came: no tag is put on or taken off. The others are dropped (`control.reserved_address`). `bpdu`: `stp` alone; `drop`: none; `forward`: all; or a list of `stp` (0), `lacp` (2), `eapol` (3), `elmi` (7), `provider_stp` (8), `provider_mvrp` (13), `lldp` (14) and numbers. Those of 1, MAC control, end at every port"),
        key("loop_moves", "0 to 1000000, default 20", "addresses that change ports in every 100 ms, seen by one lcore, for as long as `loop_time`: the event `loop`. 0: never"),
        key("loop_time", "time 100ms to 60s, default 300ms", "see `loop_moves`"),
        key("static", "list of tables", "fixed entries"),
        key("group", "list of tables", "multicast groups"),
    ]);
    FDB_STATIC = table("[[fdb.static]]", "A fixed entry.", &[
        key("mac", "MAC address", "the address; or use `key`"),
        key("key", "integer", "AFH key"),
        key("vlan", "0 to 4094, default 0", "VLAN id; 0 untagged"),
        key("port", "port name, required", "where it is"),
        key("format", "format name, default that of the port", "key space"),
    ]);
    FDB_GROUP = table("[[fdb.group]]", "A multicast group.", &[
        key("mac", "group MAC address", "the address; or use `key`"),
        key("key", "integer", "AFH key"),
        key("vlan", "0 to 4094, default 0", "VLAN id; 0 untagged"),
        key("ports", "list of port names, required", "members, all of one format"),
    ]);
    QOS = table("[qos]", "Classification for the whole switch.", &[
        key("preset", "\"roce-lossless\", \"roce-semi-lossless\", \"paxi-lite\" or \"paxi-standard\"", "one line that sets a consistent whole; your keys win over it"),
        key("trust", "word or list of words", "`trust` of ports that do not set it"),
        key("control_tc", "0 to 7, default none", "class of CNPs, whatever their marking; ACKs stay in the class their headers say, so that none overtakes a READ response of its queue pair"),
        key("voq", "\"fair\" or \"fifo\", default \"fair\"", "order between ingress ports inside an egress queue: a frame of each in turn, whatever their lengths, or as they came"),
        key("dscp_to_tc", "table, default DSCP / 8", "DSCP to class: `{ \"*\" = 0, \"24-31\" = 3 }` (DSCP_TO_TC_MAP)"),
        key("pcp_to_tc", "table, default identity", "PCP to class (DOT1P_TO_TC_MAP)"),
        key("tc_to_queue", "table, default identity", "class to egress queue (TC_TO_QUEUE_MAP)"),
        key("tc_to_pg", "table, default identity", "class to priority group (TC_TO_PRIORITY_GROUP_MAP)"),
        key("pfc_to_pg", "table, default identity", "PFC priority to the group whose fill sends it (PFC_PRIORITY_TO_PRIORITY_GROUP_MAP)"),
        key("pfc_to_queue", "table, default identity", "PFC priority to the queue it pauses (MAP_PFC_PRIORITY_TO_QUEUE)"),
    ]);
    MAPS = free("[map.NAME]", "Class maps by name, for `maps` of a port.");
    MAP = table("keys of [map.NAME]", "What is not listed keeps the switch's value.", &[
        key("dscp_to_tc", "table", "as in `[qos]`"),
        key("pcp_to_tc", "table", "as in `[qos]`"),
        key("tc_to_queue", "table", "as in `[qos]`"),
        key("tc_to_pg", "table", "as in `[qos]`"),
        key("pfc_to_pg", "table", "as in `[qos]`"),
        key("pfc_to_queue", "table", "as in `[qos]`"),
    ]);
    MAP_TABLE = free("a class map", "From numbers, ranges and lists to a class: `{ \"*\" = 0, \"8-15,20\" = 1, \"26\" = 3 }`.");
    BUFFER = table("[buffer]", "The shared buffer. `size = reserved + headroom + control + mirrors + shared`, exactly.", &[
        key("size", "size, default 16MiB", "bytes in all (BUFFER_POOL.size)"),
        key("frames", "integer, default size / 64", "most frames held at once; each costs an mbuf, and is charged at least size / frames, however short it is"),
        key("cell_bytes", "0 to 4096, default 1", "bytes of one accounting cell; 0 and 1 count bytes"),
        key("control_bytes", "size, default 256KiB", "set aside for CNPs, which use it where `control_tc` gives them a class: without one 0 gives it to all others"),
        key("headroom_pool", "size, default none", "one headroom pool for all lossless groups (BUFFER_POOL.xoff)"),
        key("over_subscribe_ratio", "1 to 64, default none", "pool = sum of headrooms / ratio (DEFAULT_LOSSLESS_BUFFER_PARAMETER)"),
        key("mirror_bytes", "size, default 256KiB with a `[[mirror]]`, else 0", "set aside for copies of mirrors; they take nothing else of the buffer"),
        key("egress_lossy_pool", "size up to 1024GiB, default `size`", "most bytes waiting in lossy queues (egress_lossy_pool)"),
        key("profile", "list of tables", "buffer profiles"),
        key("pg", "list of tables", "which priority group uses which profile"),
        key("queue", "list of tables", "which egress queue uses which profile"),
        key("port", "list of tables", "limits per port"),
    ]);
    PROFILE = table("[[buffer.profile]]", "A buffer profile (BUFFER_PROFILE).", &[
        key("name", "text, required", "its name; that of a preset's profile changes that one"),
        key("direction", "\"ingress\" or \"egress\", default \"ingress\"", "what it limits"),
        key("reserved", "size, default 4KiB ingress, 0 egress", "guaranteed bytes, without headroom (size)"),
        key("dynamic_th", "-8 to 7, default 0", "shared use up to 2^n times the free buffer"),
        key("static_th", "size, or share of the shared buffer", "shared use up to this; instead of `dynamic_th`"),
        key("xon", "size, default 0", "resume at or below this use, once the headroom is empty"),
        key("xon_offset", "size, default 2 frames of the port's mtu", "resume this far below the moving limit, once the headroom is empty"),
        key("xoff", "size or \"auto\", default \"auto\"", "headroom of a lossless ingress profile: bytes accepted after Xoff"),
        key("lossless", "boolean, default false", "frames of it are not dropped by congestion"),
    ]);
    BUFFER_PG = table("[[buffer.pg]]", "Profile of priority groups; later entries win (BUFFER_PG).", &[
        key("ports", "name, list of names or \"*\", default \"*\"", "which ports"),
        key("pgs", "numbers and ranges, required", "which groups: `3`, `\"0-2,5\"`"),
        key("profile", "profile name, required", "an ingress profile"),
    ]);
    BUFFER_QUEUE = table("[[buffer.queue]]", "Profile of egress queues; later entries win (BUFFER_QUEUE).", &[
        key("ports", "name, list of names or \"*\", default \"*\"", "which ports"),
        key("queues", "numbers and ranges, required", "which queues"),
        key("profile", "profile name, required", "an egress profile"),
    ]);
    BUFFER_PORT = table("[[buffer.port]]", "Limits per port (BUFFER_PORT_INGRESS/EGRESS_PROFILE_LIST).", &[
        key("ports", "name, list of names or \"*\", default \"*\"", "which ports"),
        key("ingress_limit", "size, default none", "most shared bytes the port's groups may hold together; a lossless group that it has paused resumes as soon as its headroom is empty: `xon` and `xon_offset` are of its own limit"),
        key("egress_limit", "size, default none", "most shared bytes that may wait for the port in its lossy queues, beyond the reserve of each; lossless ones are held back at their groups"),
    ]);
    SCHEDULER = table("[[scheduler]]", "A scheduler profile (SCHEDULER).", &[
        key("name", "text, required", "its name"),
        key("type", "\"STRICT\", \"DWRR\" or \"WRR\", default \"DWRR\"", "strict, shares in bytes, shares in frames; beside DWRR a frame of WRR counts as 256 bytes"),
        key("weight", "1 to 100, default 1", "share among weighted queues"),
        key("priority", "0 to 7, default the queue number", "level of a strict queue, higher first"),
        key("cir", "rate from 1M, default none", "guaranteed rate, whichever frames of others go before, while the queue has frames and is not paused"),
        key("pir", "rate from 1M, default none", "most rate; a queue that waits for frames of others makes up for seven of them at most. Like that of a port it is missed by a worker that is kept off its core for longer than `pfc.poll_gap`"),
    ]);
    WRED = table("[[wred]]", "A marking profile (WRED_PROFILE).", &[
        key("name", "text, required", "its name"),
        key("kmin", "size, share of the Xoff point when all lossless groups are full, or \"auto\"; default \"auto\"", "nothing is marked up to here (green_min_threshold)"),
        key("kmax", "size, share of the Xoff point when all lossless groups are full, or \"auto\"; default \"auto\"", "everything is marked above (green_max_threshold)"),
        key("pmax", "share, default 20%", "probability at kmax (green_drop_probability)"),
        key("ecn", "\"none\", \"ecn\" or \"tc\", default \"ecn\"", "field that is marked (ecn)"),
        key("mark", "\"dequeue\" or \"enqueue\", default \"dequeue\"", "what decides: the depth a departing frame leaves behind, or the one an arriving frame finds"),
        key("wred_drop", "boolean, default false", "drop what cannot be marked, by the depth that an arriving frame finds whatever `mark` says; lossy queues only (wred_green_enable)"),
    ]);
    QUEUE = table("[[queue]]", "Scheduler and marking of queues; later entries win (QUEUE).", &[
        key("ports", "name, list of names or \"*\", default \"*\"", "which ports"),
        key("queues", "numbers and ranges, required", "which queues"),
        key("scheduler", "scheduler name", "its scheduler"),
        key("wred", "wred name, or \"none\"", "its marking profile"),
    ]);
    LAG = table("[[lag]]", "A link aggregation group, static or with LACP (802.1AX): ports that are one to the forwarding table (PORTCHANNEL). A frame leaves by one of them, chosen by a symmetric hash of its flow.", &[
        key("name", "text, required", "its name"),
        key("members", "name or list of names, required", "its ports, of one format, rate, MTU and VLAN membership, each in no other LAG (PORTCHANNEL_MEMBER)"),
        key("admin", "\"up\" or \"down\", default \"up\"", "`\"down\"` switches all of its members off, whatever their own `admin` says (admin_status)"),
        key("hash", "\"l2\", \"l3\" or \"l4\", default \"l4\"", "what tells flows apart: MAC addresses; IP addresses, where there are any; these and the ports of TCP, UDP, UDP-Lite and SCTP"),
        key("lacp", "\"active\", \"passive\" or \"off\", default \"off\"", "whether LACP says which members carry frames: those that lead to one partner that takes them; `passive` speaks to a partner that does (PORTCHANNEL.static: `off`)"),
        key("lacp_rate", "\"fast\" or \"slow\", default \"slow\"", "with `lacp`: the partner is to speak every second and is given up after 3, or every 30 s and after 90 (PORTCHANNEL.fast_rate)"),
        key("min_links", "1 to 16, default 1", "with `lacp`: with fewer members that lead to the partner none carries frames (PORTCHANNEL.min_links)"),
        key("fallback", "boolean, default false", "with `lacp`: while no member hears of a partner, one of them carries frames as if there were no LACP, so that a host can start from the network (PORTCHANNEL.fallback)"),
        key("lacp_key", "1 to 65535, default the number at the end of the name, or 1", "with `lacp`: tells the LAG from others of the switch (PORTCHANNEL.lacp_key)"),
    ]);
    MIRROR = table("[[mirror]]", "A port mirror (SPAN): frames that ports receive or send are copied to another port (MIRROR_SESSION of type SPAN), or into pcapng files. Copies are lossy, and pause nobody.", &[
        key("name", "text, required", "its name"),
        key("ports", "name, list of names or \"*\", default \"*\": all but `to`", "whose frames are copied (src_port)"),
        key("direction", "\"rx\", \"tx\" or \"both\", default \"both\"", "frames received, as they came; frames sent, as they leave; both: what goes from one of `ports` to another is copied twice (direction)"),
        key("filter", "table, default none", "which of them"),
        key("to", "port name, required unless there is `file`", "where the copies go; it stays a port like any other (dst_port)"),
        key("tc", "0 to 7, default 0", "with `to`: class whose queue the copies wait in there, a lossy one"),
        key("file", "whole path of a .pcapng file, instead of `to`", "where the copies are written; what is there becomes an older file, `.1` behind its name"),
        key("file_size", "size from 64KiB, default 64MiB", "with `file`: where a file would become longer, the next begins"),
        key("files", "1 to 1000, default 2", "with `file`: how many are kept, the one that is written among them; older ones go"),
        key("snaplen", "14 to 16384, default all", "with `file`: bytes of each frame that are kept"),
    ]);
    MIRROR_FILTER = table("filter = { ... } of a mirror", "Which frames: all conditions must hold, as in `weir capture`.", &[
        key("dst", "MAC address", "destination"),
        key("src", "MAC address", "source"),
        key("ethertype", "0 to 65535", "EtherType, behind VLAN tags"),
        key("dscp", "0 to 63", "DSCP of IP"),
        key("udp_port", "0 to 65535", "source or destination port of UDP over IP"),
        key("ip", "address", "source or destination of IP"),
        key("qp", "0 to 16777215", "destination queue pair of RoCE or RC Link"),
    ]);
    PFC = table("[pfc]", "Priority flow control, for the whole switch.", &[
        key("pause_quanta", "1 to 65535, default 65535", "pause time in frames, in units of 512 bit times"),
        key("poll_gap", "time 0 to 1ms, default 10us", "longest gap between two polls that is planned for: a turn of the polling loop takes no more frames than fit into it; with more ports on an lcore than fit into it the gap is longer; enters `xoff = \"auto\"` three times: frames waiting in the RX ring, the way of a pause to the driver, and what stands before it in the TX ring. In `weir sim`, where the default is twice the stages of a switch, `host.pfc_response_delay` and `host.tx_delay`, it enters twice"),
        key("refresh", "share 1% to 90%, default 37.5%", "a running pause is sent again after this share of its time; above 50% one lost frame lets the peer start"),
    ]);
    WATCHDOG = table("[watchdog]", "The PFC watchdog; on if the table is there (PFC_WD).", &[
        key("enable", "boolean, default true", "false switches a preset's watchdog off"),
        key("action", "\"drop\", \"forward\" or \"alert\", default \"drop\"", "what is done with a stormed queue (action)"),
        key("detection_time", "100ms to 5s, default 200ms, more where one pause may last longer (ports below 168M; 5s below 6.8M)", "paused, backlogged and without departures this long is a storm (detection_time)"),
        key("restoration_time", "100ms to 60s, default 200ms", "no PFC frame for this long ends it; a pause that lasts is asked for anew after 3/8 of it, 126 ms at 100M (restoration_time)"),
        key("poll_interval", "100ms to 1s, default 100ms", "interval between looks (POLL_INTERVAL)"),
        key("allow_short", "boolean, default false", "allow times from 10us, for labs"),
        key("big_red_switch", "boolean, default false", "hold every lossless queue in storm state (BIG_RED_SWITCH)"),
        key("reoccurrence", "{ count, window }, default none", "after `count` storms within `window` recovery is manual"),
    ]);
    REOCCURRENCE = table("reoccurrence of the watchdog", "Limit on repeated storms.", &[
        key("count", "1 to 16, required", "storms"),
        key("window", "time, required", "time they are counted over"),
    ]);
    FLOWS = table("[flows]", "Which flows are behind marks, losses, pauses and the depth of queues: `weir show flows`, events, the page.", &[
        key("enable", "boolean, default true, false in `weir sim`", "record them; a frame to which none of this happens costs a thousandth more (docs/performance.md)"),
        key("sample", "1 to 65536, default 512, 1 in `weir sim`", "of each port the first 128 in 10 ms are looked at one by one, of each cause beyond that ever fewer, at random, down to one in so many. Totals are exact in any case"),
        key("export", "address and port, default none", "collector that is told of them by IPFIX over UDP ([management.md](management.md#flows-to-a-collector))"),
        key("export_interval", "time 1s to 3600s, default 10s", "between two exports"),
        key("export_domain", "1 to 4294967295, default 1", "observation domain: tells apart switches that a collector hears from one address"),
        key("export_enterprise", "1 to 4294967295, default 32473", "private enterprise number of the elements for which there is no standard; weir has none of its own, the default is that of examples (RFC 5612)"),
    ]);
    LLDP = table("[lldp]", "LLDP with DCBX (802.1AB, 802.1Qaz): `weir show lldp`, and events where a neighbour's PFC, ETS or frame size differs from ours. What is sent follows from the configuration; weir is never willing.", &[
        key("enable", "boolean, default false", "speak it; without it a switch sends nothing that nobody sent to it but PFC"),
        key("interval", "time 1s to 3600s, default 30s", "between two frames sent by a port (LLDP.hello_time)"),
        key("hold", "1 to 100, default 4", "what is sent holds for so many intervals and a second, at most 65535 s: until then a neighbour that hears nothing keeps it (LLDP.multiplier)"),
        key("system_name", "text of 1 to 255 bytes, default `switch.name`", "system name that is sent (LLDP.system_name)"),
        key("management_address", "IP address, default that of `mgmt.listen`", "management address that is sent; none where `mgmt.listen` is off, on loopback or on every address"),
    ]);
    LACP = table("[lacp]", "What the switch is to partners of its LAGs that speak LACP.", &[
        key("system_priority", "0 to 65535, default 65535", "the system with the lower one decides where partners cannot agree; weir leaves that to others"),
        key("system_id", "MAC address, default the lowest of the ports", "address that the switch is known by; one made of its name where no port has any"),
    ]);
    MCAST_SNOOPING = table("[mcast_snooping]", "IGMP and MLD snooping (RFC 4541; of a Linux bridge `mcast_snooping`): in these VLANs frames for a group go to the ports where hosts have joined it, and to routers. The names are those of Linux; SONiC's own tables have no such thing.", &[
        key("vlans", "10, \"10,20-29\", \"*\" or a list of these, default none", "VLANs that are snooped; `\"*\"`: all of the ports, and on a switch whose ports have no `vlan` its frames without a tag (mcast_snooping)"),
        key("fast_leave", "boolean, default false", "a port leaves a group with the first host that says so, and nobody asks whether others stay: for ports with one host each (fastleave)"),
        key("querier", "boolean, default false", "the switch itself asks for members, unless somebody else does (mcast_querier)"),
        key("querier_address", "IPv4 address, default 0.0.0.0", "source of its IGMP queries: the lowest address is the querier, and any other goes before 0.0.0.0"),
        key("query_interval", "time 1s to 3600s, default 125s", "between two general queries; also how long what hosts and routers have said holds: a member twice this and `query_response_interval`, a querier twice this and half of that (mcast_query_interval)"),
        key("query_response_interval", "time 100ms to 25s, default 10s, or `query_interval` if that is shorter", "hosts answer within this; what is flooded while nobody asks is flooded so long after somebody has (mcast_query_response_interval)"),
        key("max_groups", "1 to 4096, default 512", "most groups of IPv4, and most of IPv6, that a VLAN has; who joins others is refused, and counted (mcast_hash_max)"),
        key("port_max_groups", "1 to 4096, default 128", "most of them at one port (mcast_max_groups)"),
    ]);
    MGMT = table("[mgmt]", "Where a running switch may be looked at: page, JSON, metrics; and orders from its owner.", &[
        key("listen", "address and port, or \"off\"; default \"127.0.0.1:9470\", or any free port if that is taken", "HTTP over TCP; port 0 is any free one; beyond loopback only with `token_file`"),
        key("socket", "path, or \"off\"; default in the run-time folder, named after the switch", "HTTP over a Unix socket, for the owner of the process alone"),
        key("token_file", "path, default none", "file with the token TCP clients present as `Authorization: Bearer`; nobody else may be able to read it"),
        key("operate_token_file", "path, default none", "the same for clients that may also look into frames (`/v1/watch`), and begin and end jobs of in-network aggregation (`/v1/inc/jobs`)"),
        key("admin_token_file", "path, default none", "the same for clients that may do all, and change the configuration; the Unix socket needs none"),
        key("hosts", "list of names, default []", "names that clients may call this machine by (`Host`) without a token, beside addresses and `localhost`"),
        key("tls_cert", "path, default none", "certificate in PEM, with those behind it: TCP speaks TLS, and nothing else; files that are renewed are read again"),
        key("tls_key", "path, default none", "its private key; nobody else may be able to read it"),
        key("dumpcap", "boolean, default false", "let `dpdk-dumpcap` attach (hugepages only): its end can end the switch; `weir capture` cannot"),
    ]);
    LAB = table("[lab]", "Traffic of the hosts `weir lab` attaches to the ports.", &[
        key("pattern", "\"all_to_all\" or \"incast\", default \"all_to_all\"", "incast: every port sends to the first"),
        key("load", "share, default 90%", "offered load of a sending port"),
        key("frame_bytes", "size 330 to mtu, default 1082", "longest data frame without FCS: the largest path MTU that fits is used"),
        key("dscp", "0 to 63, default 26", "DSCP of the frames; RC Link frames carry that of their class"),
        key("dcqcn", "\"paper\", \"connectx\" or \"off\", default \"paper\"", "rate control of the hosts (RC Link: back-off on CNPs); off: they keep to their rates whatever is marked. A lab's hosts are threads that look at their links far less often than an adapter, so every time of either set is 20 times longer, and every increase 20 times larger: rates of `weir host` and `weir sim` are those of the set itself"),
        key("hosts", "\"rocev2\" or \"rclink\", default \"rclink\" with a paxi preset or AFH ports, else \"rocev2\"", "what the hosts speak; RC Link says its class in the PCP"),
        key("flow", "list of tables", "flows of their own, instead of the pattern"),
    ]);
    LAB_FLOW = table("[[lab.flow]]", "One flow.", &[
        key("from", "port name, required", "sender's port"),
        key("to", "port name, required", "receiver's port"),
        key("rate", "rate, default that of the port", "highest rate on the wire"),
        key("frame_bytes", "size, default that of `[lab]`", "longest data frame without FCS"),
        key("dscp", "0 to 63, default that of `[lab]`", "DSCP"),
        key("pcp", "0 to 7, default untagged", "PCP; RC Link: the priority, which says the class, default 3"),
        key("vlan", "1 to 4094, default untagged", "VLAN id"),
    ]);
}

/// The reference section of `docs/config.md`.
pub fn reference() -> String {
    reference_of(ALL)
}

/// A reference of these tables, as it stands in a document.
pub fn reference_of(tables: &[&Table]) -> String {
    let mut text = String::new();
    for table in tables {
        let title = if table.path.is_empty() { "top level" } else { table.path };
        let _ = write!(text, "### `{title}`\n\n{}\n\n", table.what);
        if !table.keys.is_empty() {
            text.push_str("| Key | Value | Meaning |\n| --- | --- | --- |\n");
            for k in table.keys {
                let _ = writeln!(text, "| `{}` | {} | {} |", k.name, k.form, k.what);
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_finds_its_neighbour() {
        assert_eq!(PORT.nearest("lcroe"), Some("lcore"));
        assert_eq!(PORT.nearest("devise"), Some("device"));
        assert_eq!(PORT.nearest("colour"), None);
        assert_eq!(WRED.nearest("k_min"), Some("kmin"));
    }

    #[test]
    fn keys_are_unique_within_their_table() {
        for table in ALL {
            let mut names = table.names();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), table.keys.len(), "{}", table.path);
        }
    }
}
