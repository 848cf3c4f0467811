//! Plain traffic hosts without I/O: known frames at known rates, checked on arrival.
//!
//! A [`Host`] stands at the far end of one switch port. It sends UDP flows whose every frame carries
//! flow, sequence number, time of sending and a content pattern, obeys PFC (or does not, or storms),
//! and checks what arrives: nothing may be lost, doubled, reordered or changed unseen. The same host
//! runs against real devices and in virtual time.

mod clock;
mod flow;
mod frame;
mod host;
mod receive;
#[cfg(test)]
mod tests;

pub(crate) use clock::Clock;
pub use flow::{Flow, FlowError, Peer, Tag};
pub use frame::UDP_PORT;
pub use host::{Host, HostConfig, HostReport, Storm};
pub use receive::{FlowReport, WINDOW};
