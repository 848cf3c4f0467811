//! Information elements and templates of what is exported: those of IANA's registry (RFC 7012) where there is one, numbers of
//! our own where there is none. docs/management.md lists the latter; a test holds it to this file.

use super::message::Field;
use weir_dataplane::flows::{Addresses, Cause, FlowId};

/// A field by an element of IANA's registry.
const fn iana(element: u16, length: u16) -> Field {
    Field { element, length, own: false }
}

/// Length of a text: told with each.
pub const VARIABLE: u16 = u16::MAX;

/// An information element for which there is no standard.
#[derive(Debug)]
pub struct Own {
    /// Its number, under the enterprise number.
    pub number: u16,
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// What it counts, by IANA's numbers of units (RFC 5610): 0 nothing, 2 octets, 10 packets, 11 flows.
    pub units: u16,
    /// What it is.
    pub what: &'static str,
}

/// Type of an element: IANA's number of its data type (RFC 5610), its semantics and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// unsigned8, identifier.
    Identifier8,
    /// unsigned32, identifier.
    Identifier32,
    /// unsigned64, deltaCounter.
    Count,
    /// float64, quantity.
    Quantity,
    /// string.
    Text,
}

impl Kind {
    /// IANA's numbers of data type and semantics.
    pub fn numbers(self) -> (u8, u8) {
        match self {
            Self::Identifier8 => (1, 4),
            Self::Identifier32 => (3, 4),
            Self::Count => (4, 3),
            Self::Quantity => (10, 1),
            Self::Text => (13, 0),
        }
    }

    /// Its name in RFC 7012.
    #[cfg(test)]
    pub fn word(self) -> &'static str {
        match self {
            Self::Identifier8 => "unsigned8",
            Self::Identifier32 => "unsigned32",
            Self::Count => "unsigned64",
            Self::Quantity => "float64",
            Self::Text => "string",
        }
    }

    const fn length(self) -> u16 {
        match self {
            Self::Identifier8 => 1,
            Self::Identifier32 => 4,
            Self::Count | Self::Quantity => 8,
            Self::Text => VARIABLE,
        }
    }
}

const PACKETS: u16 = 10;
const OCTETS: u16 = 2;
const NO_UNIT: u16 = 0;

macro_rules! own {
    ($($constant:ident = $number:literal $name:literal $kind:ident $units:ident $what:literal;)+) => {
        $(const $constant: Field = Field { element: $number, length: Kind::$kind.length(), own: true };)+
        /// All of them, in the order of their numbers.
        pub const OWN: &[Own] = &[$(Own { number: $number, name: $name, kind: Kind::$kind, units: $units, what: $what }),+];
    };
}

own! {
    PRIORITY = 1 "weirPriority" Identifier8 NO_UNIT "egress queue; of a pause, and of a loss on arrival, priority group";
    QUEUE_PAIR = 2 "weirDestinationQueuePair" Identifier32 NO_UNIT "destination queue pair of RoCE or RC Link; 0: the frames have none";
    DROP_REASON = 3 "weirDropReason" Text NO_UNIT "why frames were lost, by the names of docs/drops.md";
    MARKED = 4 "weirMarkedPacketDeltaCount" Count PACKETS "frames changed to CE that are surely the flow's";
    MARKED_AT_MOST = 5 "weirMarkedPacketDeltaCountAtMost" Count PACKETS "and at most";
    DROPPED_AT_MOST = 6 "weirDroppedPacketDeltaCountAtMost" Count PACKETS "frames lost, at most; droppedPacketDeltaCount has those that are surely the flow's";
    PAUSES = 7 "weirPauseDeltaCount" Quantity NO_UNIT "times the peer was told to pause, as far as they are surely the flow's: eighths";
    PAUSES_AT_MOST = 8 "weirPauseDeltaCountAtMost" Quantity NO_UNIT "and at most";
    QUEUED = 9 "weirQueuedOctetDeltaSum" Count OCTETS "bytes that waited, summed over the looks at the queues of the port: the mean is this by weirQueueLooks of the port";
    QUEUED_AT_MOST = 10 "weirQueuedOctetDeltaSumAtMost" Count OCTETS "and at most";
    CAUSE = 11 "weirCause" Text NO_UNIT "what totals are of: mark, drop, pause, depth";
    TOTAL = 12 "weirCauseTotal" Quantity NO_UNIT "all there was at the port, exact, whether somebody looked at it or not: packets, packets, pauses, octets summed over looks";
    COVERED = 13 "weirCauseCovered" Quantity NO_UNIT "what of it the frames that were looked at stand for";
    LOOKED_AT = 14 "weirLookedAtPackets" Count PACKETS "frames whose flow was read";
    LOOKS = 15 "weirQueueLooks" Count NO_UNIT "instants at which the queues of the port were looked at";
}

/// flowStartMilliseconds, flowEndMilliseconds.
const TIMES: [Field; 2] = [iana(152, 8), iana(153, 8)];
/// ingressInterface, egressInterface.
pub const INTERFACES: [Field; 2] = [iana(10, 4), iana(14, 4)];
/// sourceIPv4Address, destinationIPv4Address.
const IPV4: [Field; 2] = [iana(8, 4), iana(12, 4)];
/// sourceIPv6Address, destinationIPv6Address.
const IPV6: [Field; 2] = [iana(27, 16), iana(28, 16)];
/// sourceMacAddress, destinationMacAddress.
const STATIONS: [Field; 2] = [iana(56, 6), iana(80, 6)];
/// protocolIdentifier, sourceTransportPort, destinationTransportPort.
const TRANSPORT: [Field; 4] = [iana(4, 1), iana(7, 2), iana(11, 2), QUEUE_PAIR];
/// droppedPacketDeltaCount.
const DROPPED: Field = iana(133, 8);

/// What tells whose frames they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Stations: no IP header.
    Stations,
}

impl Family {
    /// All of them, in the order of their templates.
    pub const ALL: [Self; 3] = [Self::V4, Self::V6, Self::Stations];

    /// That of a flow; one that nobody could tell has stations of zeros.
    pub fn of(id: &FlowId) -> Self {
        match id.addresses() {
            Some(Addresses::Ip(src, _)) if src.is_ipv4() => Self::V4,
            Some(Addresses::Ip(..)) => Self::V6,
            Some(Addresses::Stations(..)) | None => Self::Stations,
        }
    }
}

/// Number of the template of flows of a family behind a cause.
pub fn flow_template(family: Family, cause: Cause) -> u16 {
    256 + 4 * family as u16 + cause as u16
}

/// Fields of a flow of this family behind this cause.
pub fn flow_fields(family: Family, cause: Cause) -> Vec<Field> {
    let mut fields = [TIMES, INTERFACES].concat();
    fields.push(PRIORITY);
    match family {
        Family::V4 => fields.extend(IPV4),
        Family::V6 => fields.extend(IPV6),
        Family::Stations => fields.extend(STATIONS),
    }
    if family != Family::Stations {
        fields.extend(TRANSPORT);
    }
    fields.extend(match cause {
        Cause::Mark => &[MARKED, MARKED_AT_MOST][..],
        Cause::Drop => &[DROPPED, DROPPED_AT_MOST, DROP_REASON],
        Cause::Pause => &[PAUSES, PAUSES_AT_MOST],
        Cause::Depth => &[QUEUED, QUEUED_AT_MOST],
    });
    fields
}

/// An options template (RFC 7011 3.4.2.2): its number, its fields, how many of these are the scope.
pub struct Options {
    /// Number of the template.
    pub id: u16,
    /// Scope first.
    pub fields: &'static [Field],
    /// Fields of the scope.
    pub scope: u16,
}

/// All there was of a cause at an interface, and how much of it was looked at.
pub const TOTALS: Options = Options {
    id: 272,
    fields: &[iana(10, 4), CAUSE, TIMES[0], TIMES[1], TOTAL, COVERED, LOOKED_AT, LOOKS],
    scope: 2,
};

/// Names of interfaces: interfaceName.
pub const NAMES: Options = Options { id: 273, fields: &[iana(10, 4), iana(82, VARIABLE)], scope: 1 };

/// Types of our own elements (RFC 5610): privateEnterpriseNumber, informationElementId, informationElementDataType,
/// informationElementSemantics, informationElementUnits, informationElementName, informationElementDescription.
pub const TYPES: Options = Options {
    id: 274,
    fields: &[
        iana(346, 4),
        iana(303, 2),
        iana(339, 1),
        iana(344, 1),
        iana(345, 2),
        iana(341, VARIABLE),
        iana(340, VARIABLE),
    ],
    scope: 2,
};
