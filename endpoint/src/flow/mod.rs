//! RC flows without payload: what a fabric of many hosts needs of an RNIC, and no more.
//!
//! A frame is its real headers (Ethernet, IPv4, UDP 4791, BTH, AETH) and a length; the payload is not
//! represented, so a million packets cost no memory traffic ([`HeaderFrame`]). A [`Sender`] numbers,
//! paces and resends (go-back-N or selective repeat, DCQCN), a [`Receiver`] answers (ACK, NAK, CNP), a [`Nic`] holds the
//! queue pairs of a host behind one PFC-obeying link. A queue pair carries a flow, or several one after the other. Full payloads, memory and verbs are in
//! [`crate::roce`]; the headers are the same, so a switch cannot tell the difference. A [`RcLinkNic`] has the flows of an
//! RC Link endpoint.

mod frame;
mod messages;
mod nic;
mod rclink;
mod receiver;
mod reorder;
mod selective;
mod sender;
mod turns;

pub use frame::{HEADER_ROOM, HeaderFrame, Route};
pub use messages::{Arrival, Received};
pub use nic::{Nic, NicConfig, NicReport};
pub use rclink::{Datagram, HeldBack, RcLinkNic, RcLinkNicConfig, RcLinkNicError, Unanswered};
pub use receiver::Receiver;
pub use sender::{Flow, Pace, SelectiveRepeat, Sender, Sent, Transport};

#[cfg(test)]
mod selective_tests;
#[cfg(test)]
mod tests;
