//! Why a frame was lost: one reason per frame, named `stage.reason`, append-only.
//!
//! The names are the interface (`--summary`, `/v1/drops/reasons`, metrics); the numbers are not.
//! REQ G6: exactly one reason counter per dropped frame.
//!
//! Whether a loss is one of a lossless class is a matter of the frame, not of the reason: it is counted beside
//! each reason ([`crate::stats::PortStats::lossless`]). What such a loss means is a matter of the reason
//! ([`LosslessLoss`]): `alarm`, `watchdog`, `operator`, or `never(why)` for reasons that meet no such frame.

macro_rules! drop_reasons {
    (@lossless alarm) => { LosslessLoss::Alarm };
    (@lossless watchdog) => { LosslessLoss::Watchdog };
    (@lossless operator) => { LosslessLoss::Operator };
    (@lossless never($why:expr)) => { LosslessLoss::Never($why) };
    ($($(#[doc = $doc:literal])+ $variant:ident = (
        $stage:literal, $reason:literal, $side:ident, $remedy:literal, $lossless:ident $(($why:expr))?
    )),+ $(,)?) => {
        /// Stage and reason of a dropped frame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant),+
        }

        impl DropReason {
            /// Every reason, in the order of the list.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant),+];

            /// `stage.reason`, the public name.
            pub fn name(self) -> &'static str {
                match self { $(DropReason::$variant => concat!($stage, ".", $reason)),+ }
            }

            /// The pipeline stage that dropped the frame.
            pub fn stage(self) -> &'static str {
                match self { $(DropReason::$variant => $stage),+ }
            }

            /// The port it is counted at.
            pub fn side(self) -> Side {
                match self { $(DropReason::$variant => Side::$side),+ }
            }

            /// What an operator should look at.
            pub fn remedy(self) -> &'static str {
                match self { $(DropReason::$variant => $remedy),+ }
            }

            /// What it means that a frame of a lossless class is lost for this reason.
            pub fn lossless(self) -> LosslessLoss {
                match self { $(DropReason::$variant => drop_reasons!(@lossless $lossless $(($why))?)),+ }
            }

            /// One sentence on what happened.
            pub fn meaning(self) -> &'static str {
                match self { $(DropReason::$variant => concat!($($doc),+)),+ }
            }
        }
    };
}

/// The port a lost frame is counted at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The one it came in by.
    Arrival,
    /// The one it waited at, or was to leave by.
    Departure,
}

impl Side {
    /// As it is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Departure => "departure",
        }
    }
}

/// What it means that a frame of a lossless class is lost for a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LosslessLoss {
    /// No such frame is, and why.
    Never(&'static str),
    /// It should not have happened: an alarm, and no run with one is good.
    Alarm,
    /// The PFC watchdog dropped it, as configured.
    Watchdog,
    /// An operator has taken away what the frame needed: switched off the port it waited for, or ended the run. It says
    /// nothing about headroom or thresholds, so it is told and counted, and is no alarm. A link that goes down unasked is one.
    Operator,
}

impl LosslessLoss {
    /// As it is shown in `docs/drops.md`.
    pub fn words(self) -> String {
        match self {
            Self::Never(why) => format!("no: {why}"),
            Self::Alarm => "yes: an alarm".to_owned(),
            Self::Watchdog => "yes: by the watchdog".to_owned(),
            Self::Operator => "yes: by the operator".to_owned(),
        }
    }
}

/// What is not parsed has no class.
const UNCLASSIFIED: &str = "dropped before it is classified";
/// What the frame itself is, and where it goes, is no matter of its copy.
const COPY: &str = "a copy for whoever looks, not the frame";
/// A lossless group goes on into its headroom, and has one reason of its own.
const LOSSY: &str = "only a lossy group is refused so";

drop_reasons! {
    /// Shorter than the two addresses and EtherType of its format, or empty.
    ParseTooShort = ("parse", "too_short", Arrival, "the sender or the link cuts frames", never(UNCLASSIFIED)),
    /// A VLAN tag is announced but the frame ends inside it.
    ParseTruncatedVlan = ("parse", "truncated_vlan", Arrival, "the sender or the link cuts frames", never(UNCLASSIFIED)),
    /// Longer than the MTU of the port it arrived on.
    ParseTooLong = ("parse", "too_long", Arrival, "raise the port's mtu; behind an interface of the kernel: ethtool -K PEER tx off",
        never(UNCLASSIFIED)),
    /// The source address is a group address (802.1Q 8.8: never a valid sender).
    ParseGroupSource = ("parse", "group_source", Arrival, "the sender uses a multicast source address", never(UNCLASSIFIED)),
    /// Sent to a reserved address 01-80-C2-00-00-0x, which ends at a bridge (802.1Q table 8-1), and not passed on by `[fdb] link_local`.
    ControlReserved = ("control", "reserved_address", Arrival, "normal: link-local protocols end at the bridge; or set [fdb] link_local",
        never("meant for the bridge itself, not to be forwarded")),
    /// The only port the destination is known on is the one the frame came from.
    LookupSamePort = ("lookup", "same_port", Arrival, "normal on shared media; else a loop or a wrong static entry",
        never("its station is on the wire that it came by")),
    /// Unknown unicast while `unknown_unicast = "drop"`.
    LookupUnknown = ("lookup", "unknown_unicast", Arrival, "add a static entry or set unknown_unicast = \"flood\"", alarm),
    /// No port to flood to: every other port is down, of another format, no member of the frame's VLAN, or absent.
    LookupNoPort = ("lookup", "no_port", Arrival, "check link states, port formats and members of the frame's VLAN", alarm),
    /// The egress port's link is down.
    LookupPortDown = ("lookup", "port_down", Arrival, "check the link of the egress port (show ports)", alarm),
    /// A lossless frame found the headroom of its priority group exhausted. An alarm: see headroom.
    IngressHeadroom = ("ingress", "headroom_exhausted", Arrival, "see whether PFC is sent and obeyed (show pfc, show ports); if it is, raise headroom: the peer answers Xoff too late", alarm),
    /// The priority group is over its shared threshold and has no headroom.
    IngressShared = ("ingress", "shared_exceeded", Arrival, "raise dynamic_th or the pool, or make the class lossless", never(LOSSY)),
    /// The ingress pool limit of the port is reached.
    IngressPortPool = ("ingress", "port_pool_exceeded", Arrival, "raise the per-port pool limit", never(LOSSY)),
    /// The buffer itself is full.
    IngressBufferFull = ("ingress", "buffer_full", Arrival, "the configured buffer is smaller than the load", never(LOSSY)),
    /// Every frame slot is in use: more small frames held than the buffer was sized for.
    IngressNoSlot = ("ingress", "no_slot", Arrival, "raise buffer.frames", alarm),
    /// The frame could not be shared for a further flood copy, or copied to change its tag (out of mbufs or reference count).
    IngressNoCopy = ("ingress", "no_copy", Arrival, "raise the number of mbufs", alarm),
    /// A lossy egress queue is over its limit.
    EgressQueueFull = ("egress", "queue_full", Departure, "normal for a lossy class; else give its queue a lossless profile", alarm),
    /// The egress pool limit of the port is reached.
    EgressPortPool = ("egress", "port_pool_exceeded", Departure, "raise the per-port pool limit", alarm),
    /// WRED dropped a not-ECT frame of a lossy queue.
    EgressWred = ("egress", "wred", Departure, "normal under congestion of a lossy class without ECN", alarm),
    /// The egress port was closed, or its link went down, with the frame queued.
    EgressPortDown = ("egress", "port_down", Departure, "check the link of the egress port (show ports)", alarm),
    /// The PFC watchdog flushed or refused the frame while its queue was in a storm.
    WatchdogDrop = ("watchdog", "storm", Departure, "a peer pauses this queue without end: find it by its PFC counters", watchdog),
    /// The ring to another lcore was full.
    HandoffFull = ("handoff", "ring_full", Arrival, "a sizing fault of weir itself: please report it", alarm),
    /// Frame refused while the switch drains before exit.
    RunDraining = ("run", "draining", Arrival, "normal at the end of a run", operator),
    /// Still queued when the drain time ran out at exit.
    RunUndrained = ("run", "undrained", Departure, "the egress was paused or too slow to drain before exit", operator),
    /// Tagged with VID 4095, which no VLAN has (802.1Q table 9-2).
    VlanReserved = ("vlan", "reserved_vid", Arrival, "the sender uses VID 4095", alarm),
    /// Without a tag, or with a priority tag (VID 0), at a port without a native VLAN.
    VlanUntagged = ("vlan", "untagged", Arrival, "give the port vlan = { native = VID }, or let the sender tag", alarm),
    /// Tagged with a VLAN the port it came by is no member of (802.1Q 8.6.2).
    VlanIngressFiltered = ("vlan", "ingress_filtered", Arrival, "add the VLAN to `trunk` of the port, or take it off the sender", alarm),
    /// The station is known at a port that is no member of the frame's VLAN (802.1Q 8.6.4).
    VlanEgressFiltered = ("vlan", "egress_filtered", Arrival, "the membership of the port has changed: add the VLAN there, or wait until the station is forgotten", alarm),
    /// With the tag that is pushed it would be longer than the MTU of the port it was to leave by.
    VlanTooLong = ("vlan", "too_long", Arrival, "raise mtu of the port it leaves by: 4 bytes above that of the ports without a tag", alarm),
    /// A copy for a mirror found no room in the buffer of mirrors or in its queue.
    MirrorNoRoom = ("mirror", "no_room", Arrival, "the port of the mirror is slower than what is copied: mirror less (filter), or raise buffer.mirror_bytes", never(COPY)),
    /// A copy for a mirror whose port is down.
    MirrorPortDown = ("mirror", "port_down", Arrival, "check the link of the port the mirror sends to", never(COPY)),
    /// A copy for a mirror is longer than the MTU of its port.
    MirrorTooLong = ("mirror", "too_long", Arrival, "raise mtu of the port the mirror sends to", never(COPY)),
    /// Broadcast above the limit of the port it came by.
    IngressBroadcastLimit = ("ingress", "broadcast_limit", Arrival, "find who sends so much of it, or a loop; else raise storm_control = { broadcast } of the port", alarm),
    /// Its station is unknown, and flooding it would be above the limit of the port it came by.
    IngressUnknownUnicastLimit = ("ingress", "unknown_unicast_limit", Arrival, "find the station that never answers (show fdb); else raise storm_control = { unknown_unicast } of the port", alarm),
    /// For a group that is neither configured nor snooped, above the limit of the port it came by.
    IngressMulticastLimit = ("ingress", "multicast_limit", Arrival, "give the group an [[fdb.group]]; else raise storm_control = { multicast } of the port", alarm),
    /// LLDP, faster than management reads it.
    ControlLldpNoRoom = ("control", "lldp_no_room", Arrival, "a neighbour sends far more LLDP than one frame a second: find it (weir show lldp), or set lldp = \"off\" of the port",
        never("meant for the bridge itself, not to be forwarded")),
    /// A copy for the file of a mirror found no room on its way there.
    MirrorFileNoRoom = ("mirror", "file_no_room", Arrival, "the disk is slower than what is copied: mirror less (filter, snaplen)", never(COPY)),
    /// Received by a port that is switched off, whose link could not be taken down or was not yet.
    IngressAdminDown = ("ingress", "admin_down", Arrival, "normal while a port is switched off; else set admin = \"up\" of the port",
        never("nothing is promised to who sends to a port that is switched off")),
    /// The egress port, or each port that a flooded frame could leave by, is switched off.
    LookupAdminDown = ("lookup", "admin_down", Arrival, "normal while a port is switched off; else set admin = \"up\" of the port", operator),
    /// The egress port was switched off with the frame queued, or on its way there.
    EgressAdminDown = ("egress", "admin_down", Departure, "normal when a port is switched off; stop what sends to it first if nothing is to be lost", operator),
    /// LACP and other slow protocols, faster than management reads them.
    ControlLacpNoRoom = ("control", "lacp_no_room", Arrival, "a partner sends far more LACP than three frames a second: find it (weir show lag)",
        never("meant for the bridge itself, not to be forwarded")),
    /// Received by a member of a LAG that LACP has take nothing: its partner sends although the two ends have not agreed.
    IngressLagInactive = ("ingress", "lag_inactive", Arrival, "see why LACP keeps the member out (show lag): the partner is another one, speaks no LACP, or the cable leads elsewhere", alarm),
    /// No member of the LAG that the destination is known at may send, by LACP, or there are only such LAGs to flood to.
    LookupLagInactive = ("lookup", "lag_inactive", Arrival, "see why LACP keeps the members out (show lag)", alarm),
    /// Queued at a member of a LAG when LACP took it out.
    EgressLagInactive = ("egress", "lag_inactive", Departure, "the partner went silent or left: see its events and show lag", alarm),
    /// For a multicast group that has no port but the one the frame came by: nobody has joined it, and no router is known, or its `[[fdb.group]]` says so.
    LookupNoReceiver = ("lookup", "no_receiver", Arrival, "normal: nobody asks for what is sent (show mdb); else see whether the receiver joins the group, and whether anybody asks for members (show mcast)",
        never("nobody has asked for it")),
}

/// Number of drop reasons: the size of a counter array indexed by [`DropReason`].
pub const DROP_REASONS: usize = DropReason::ALL.len();

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_start_with_the_stage() {
        let names: HashSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), DROP_REASONS);
        for (i, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, i);
            assert!(reason.name().starts_with(reason.stage()));
            assert!(!reason.meaning().trim().is_empty() && !reason.remedy().is_empty());
        }
    }
}
