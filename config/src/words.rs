//! Enumerations of the configuration: each value with its word.

/// Declares an enumeration whose variants have a word in the configuration.
macro_rules! words {
    ($($(#[$doc:meta])+ $name:ident { $($(#[$vdoc:meta])+ $variant:ident = $word:literal),+ $(,)? })+) => { $(
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])+ $variant),+ }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word that stands for it in the configuration.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            pub(crate) const KIND: crate::units::Kind<Self> = crate::units::Kind {
                parse: |v| crate::read::word(v, Self::ALL, Self::word),
                show: |w| w.word().to_owned(),
            };
        }
    )+ };
}
pub(super) use words;

words! {
    /// Where a port takes the traffic class of a frame from. The first source the frame has wins.
    Trust {
        /// DSCP of the IP header, through `dscp_to_tc`.
        Dscp = "dscp",
        /// PCP of the outer VLAN tag, through `pcp_to_tc`.
        Pcp = "pcp",
        /// Upper six bits of the AFH traffic-class byte, through `dscp_to_tc`.
        Tc = "tc",
        /// The port's `default_tc`; ends the list.
        Port = "port",
    }
    /// What happens to a frame for a destination nobody has learnt.
    UnknownUnicast {
        /// Sent to every other port of the same format.
        Flood = "flood",
        /// Dropped and counted (`lookup.unknown_unicast`).
        Drop = "drop",
    }
    /// Which frames of a port are copied.
    MirrorDirection {
        /// Those it receives, as they come.
        Rx = "rx",
        /// Those it sends, as they leave.
        Tx = "tx",
        /// All.
        Both = "both",
    }
    /// Whether a port is to carry frames (SONiC: `admin_status`).
    #[derive(Default)]
    AdminStatus {
        /// It carries frames while its link is up.
        #[default]
        Up = "up",
        /// It is switched off: as without a link.
        Down = "down",
    }
    /// What a port does with LLDP.
    LldpMode {
        /// Receives and sends.
        Both = "both",
        /// Receives.
        Receive = "receive",
        /// Neither.
        Off = "off",
    }
    /// What tells flows apart where a LAG chooses a member.
    LagHash {
        /// The two MAC addresses.
        L2 = "l2",
        /// The two IP addresses; MAC addresses where there are none.
        L3 = "l3",
        /// And the ports of TCP, UDP, UDP-Lite and SCTP.
        L4 = "l4",
    }
    /// Whether a LAG speaks LACP (802.1AX).
    LacpMode {
        /// It speaks, whoever is there.
        Active = "active",
        /// It answers a partner that does.
        Passive = "passive",
        /// It is static.
        Off = "off",
    }
    /// How often a LAG wants to hear of its partner.
    LacpRate {
        /// Every second; it gives up after 3.
        Fast = "fast",
        /// Every 30 s; it gives up after 90.
        Slow = "slow",
    }
    /// Who builds and obeys PFC frames on a port.
    PfcMode {
        /// weir itself; the driver must deliver MAC control frames.
        Software = "software",
        /// The NIC.
        Hardware = "hardware",
        /// Software where the driver shows PFC frames, else hardware.
        Auto = "auto",
    }
    /// Which received pauses a port obeys.
    PfcRx {
        /// Those for enabled priorities.
        Enabled = "enabled",
        /// All eight priorities (SONiC: asymmetric PFC).
        All = "all",
        /// 802.3x PAUSE, which stops the whole link; PFC is counted only.
        Link = "link",
        /// None.
        None = "none",
    }
    /// Side of the buffer a profile limits.
    Direction {
        /// Charged to the priority group the frame arrived in.
        Ingress = "ingress",
        /// Charged to the queue the frame waits in.
        Egress = "egress",
    }
    /// How a queue shares the port (SONiC SCHEDULER.type).
    SchedulerType {
        /// Before every weighted queue; among strict queues by `priority`, then by queue number.
        Strict = "STRICT",
        /// Deficit weighted round robin: shares in bytes.
        Dwrr = "DWRR",
        /// Weighted round robin: shares in frames.
        Wrr = "WRR",
    }
    /// Which ECN field a queue marks.
    EcnMode {
        /// None.
        None = "none",
        /// The IP header's.
        Ecn = "ecn",
        /// Bits 1:0 of the AFH traffic-class byte.
        Tc = "tc",
    }
    /// Which depth of its queue decides whether a frame is marked.
    MarkPoint {
        /// The one it leaves behind.
        Dequeue = "dequeue",
        /// The one it finds.
        Enqueue = "enqueue",
    }
    /// Order between ingress ports inside one egress queue.
    Voq {
        /// Round robin over ingress ports.
        Fair = "fair",
        /// Arrival order.
        Fifo = "fifo",
    }
    /// What the watchdog does with a stormed queue (SONiC PFC_WD.action).
    WatchdogAction {
        /// Flushes the queue, drops what comes for it, silences our own pause for it.
        Drop = "drop",
        /// Ignores the received pause.
        Forward = "forward",
        /// Reports only.
        Alert = "alert",
    }
    /// Traffic of the lab hosts.
    LabPattern {
        /// Every port sends to every other.
        AllToAll = "all_to_all",
        /// Every port sends to the first.
        Incast = "incast",
    }
    /// Who decides how fast a host's connection sends.
    CongestionControl {
        /// DCQCN with the parameters of its paper, increases scaled to the rate.
        Paper = "paper",
        /// DCQCN with the defaults of ConnectX adapters.
        Connectx = "connectx",
        /// Nobody: a fixed rate, whatever is marked.
        Off = "off",
    }
    /// Who of an adapter decides how fast a queue pair sends.
    DcqcnScheme {
        /// Scheme 1: hardware computes the rate and keeps it.
        Hardware = "hardware",
        /// Scheme 2: firmware writes the rate, hardware keeps it.
        FirmwareRate = "firmware_rate",
        /// Scheme 3: firmware stops and starts the queue pair.
        Firmware = "firmware",
    }
    /// What firmware of an adapter computes the rate with.
    FirmwareAlgorithm {
        /// DCQCN, as hardware does.
        Dcqcn = "dcqcn",
        /// Half the rate at a CNP, then more step by step.
        Backoff = "backoff",
    }
    /// What the hosts of a lab speak.
    HostProtocol {
        /// RoCEv2.
        Roce = "rocev2",
        /// RC Link, the endpoint side of PAXI.
        RcLink = "rclink",
    }
    /// How a host's messages are sent.
    HostOperation {
        /// SEND.
        Send = "send",
        /// RDMA WRITE.
        Write = "write",
        /// SEND to an engine that sums.
        AllReduce = "allreduce",
    }
}
