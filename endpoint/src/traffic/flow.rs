//! What a flow is: where to, how marked, how large, how fast.

use std::net::Ipv4Addr;
use thiserror::Error;
use weir_dataplane::types::{Mac, Nanos, PRIORITIES};

/// A host as others address it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Station or, for a flow to many, group address.
    pub mac: Mac,
    /// IP address.
    pub ip: Ipv4Addr,
}

/// An 802.1Q tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// VLAN id, 0 (priority tag) to 4094.
    pub vid: u16,
    /// Priority code point, 0 to 7.
    pub pcp: u8,
}

/// A stream of equal frames from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Number of the flow, one for each flow of a network; it is the UDP source port on the wire.
    pub id: u16,
    /// Where to.
    pub dst: Peer,
    /// PFC priority that holds this flow back at its sender, 0 to 7. What the switch makes of the frames
    /// follows from `tag` and `dscp`.
    pub priority: u8,
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// VLAN tag, if any.
    pub tag: Option<Tag>,
    /// ECN code point: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE (RFC 3168).
    pub ecn: u8,
    /// Bytes of each frame, tag included, FCS not: at least 60, tagged 64.
    pub frame_bytes: u16,
    /// Bits/s on the wire, preamble, FCS and gap included; `None`: whatever the link leaves.
    pub rate: Option<u64>,
    /// Time of the first frame, ns.
    pub start: Nanos,
    /// Frames to send; `None`: until the host is stopped.
    pub frames: Option<u64>,
}

/// Why a host refuses a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FlowError {
    /// Two flows of one number.
    #[error("flow {0} is there already")]
    Duplicate(u16),
    /// Too short for headers and sequence number, or longer than the host's largest frame.
    #[error("flow {id}: frames of {bytes} bytes; {least} to {most} are possible (without FCS)")]
    Length {
        /// The flow.
        id: u16,
        /// What was asked for.
        bytes: u16,
        /// Shortest frame with this tag.
        least: u16,
        /// Longest frame of the host.
        most: u16,
    },
    /// A field that does not fit its bits.
    #[error("flow {id}: {field} {value} is above {most}")]
    Field {
        /// The flow.
        id: u16,
        /// Name of the field.
        field: &'static str,
        /// What was asked for.
        value: u16,
        /// Its highest value.
        most: u16,
    },
    /// A rate of nothing.
    #[error("flow {0}: a rate of 0 bits/s")]
    Rate(u16),
}

impl Flow {
    /// Shortest frame without FCS that holds the headers, the sequence number and the time.
    pub fn least_bytes(&self) -> u16 {
        if self.tag.is_some() { 64 } else { 60 }
    }

    /// Checks everything against a host whose largest frame is `max_frame` bytes.
    pub(super) fn check(&self, max_frame: u16) -> Result<(), FlowError> {
        let (id, least) = (self.id, self.least_bytes());
        if !(least..=max_frame).contains(&self.frame_bytes) {
            return Err(FlowError::Length { id, bytes: self.frame_bytes, least, most: max_frame });
        }
        let tag = self.tag.unwrap_or(Tag { vid: 0, pcp: 0 });
        for (field, value, most) in [
            ("priority", u16::from(self.priority), PRIORITIES as u16 - 1),
            ("DSCP", u16::from(self.dscp), 63),
            ("ECN code point", u16::from(self.ecn), 3),
            ("PCP", u16::from(tag.pcp), 7),
            ("VLAN id", tag.vid, 4094),
        ] {
            if value > most {
                return Err(FlowError::Field { id, field, value, most });
            }
        }
        if self.rate == Some(0) { Err(FlowError::Rate(id)) } else { Ok(()) }
    }

    /// The VLAN a switch learns in: priority-tagged counts as untagged.
    pub(super) fn vlan(&self) -> Option<u16> {
        self.tag.map(|tag| tag.vid).filter(|vid| *vid != 0)
    }
}
