//! A host with queue pairs and traffic of its own, without I/O: what stands behind `weir host` and the
//! hosts of `weir lab`.
//!
//! A [`Station`] is an endpoint with what a host adds to it: a link of a given rate, obedience to PFC by
//! priority, rate control per connection, messages to send whose content says who sent them and which one they
//! are, and the check of every message received. Frames and times in, frames and times out; the same station
//! runs on DPDK ports and in virtual time. There are two kinds: [`roce`] and [`rclink`].

mod cable;
#[cfg(test)]
mod net;
mod pattern;
pub mod rclink;
mod report;
pub mod roce;

pub use report::{Address, ConnectionReport, EndpointCounters, Kind, Progress, StationReport};

use crate::dcqcn::trace::Trace;
use weir_dataplane::types::Nanos;

/// Shortest message: its number and eight bytes that follow from it.
pub const MIN_MESSAGE: u32 = 16;

/// A host of either kind.
#[derive(Debug)]
pub enum Station {
    /// RoCEv2.
    Roce(Box<roce::Station>),
    /// RC Link.
    RcLink(Box<rclink::Station>),
}

impl From<roce::Station> for Station {
    fn from(station: roce::Station) -> Self {
        Self::Roce(Box::new(station))
    }
}

impl From<rclink::Station> for Station {
    fn from(station: rclink::Station) -> Self {
        Self::RcLink(Box::new(station))
    }
}

impl Station {
    /// Takes a frame from the wire, without FCS.
    pub fn handle_frame(&mut self, bytes: &[u8], now: Nanos) {
        match self {
            Self::Roce(station) => station.handle_frame(bytes, now),
            Self::RcLink(station) => station.handle_frame(bytes, now),
        }
    }

    /// The next frame to put on the wire at `now`, without FCS. It counts as sent: call only with room for it.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<&[u8]> {
        match self {
            Self::Roce(station) => station.poll_transmit(now),
            Self::RcLink(station) => station.poll_transmit(now),
        }
    }

    /// The earliest time after `now` at which [`Self::poll_transmit`] may have a frame if it has none at `now`
    /// and nothing arrives until then.
    pub fn next_event(&mut self, now: Nanos) -> Option<Nanos> {
        match self {
            Self::Roce(station) => station.next_event(now),
            Self::RcLink(station) => station.next_event(now),
        }
    }

    /// No more messages. What is under way is finished.
    pub fn stop(&mut self) {
        match self {
            Self::Roce(station) => station.stop(),
            Self::RcLink(station) => station.stop(),
        }
    }

    /// Every message that was to be sent is acknowledged, every one that was to come has come.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Roce(station) => station.is_done(),
            Self::RcLink(station) => station.is_done(),
        }
    }

    /// How others address this station.
    pub fn address(&self) -> Address {
        match self {
            Self::Roce(station) => Address::Ip(station.address().1),
            Self::RcLink(station) => station.address(),
        }
    }

    /// The connections, in the order they were added.
    pub fn pairs(&self) -> impl Iterator<Item = ConnectionReport> + '_ {
        let (roce, rclink) = match self {
            Self::Roce(station) => (Some(station.pairs()), None),
            Self::RcLink(station) => (None, Some(station.pairs())),
        };
        roce.into_iter().flatten().chain(rclink.into_iter().flatten())
    }

    /// The traces recorded, by number of the queue pair.
    pub fn traces(&self) -> impl Iterator<Item = (u32, &Trace)> {
        let roce = if let Self::Roce(station) = self { Some(station.traces()) } else { None };
        roce.into_iter().flatten()
    }

    /// What the station saw until `now`.
    pub fn report(&self, now: Nanos) -> StationReport {
        match self {
            Self::Roce(station) => station.report(now),
            Self::RcLink(station) => station.report(now),
        }
    }
}
