//! Congestion control of a flow in this profile, and what it tells a recorder.
use weir_dataplane::types::Nanos;
use weir_endpoint::congestion::dctcp::{self, Dctcp};
use weir_endpoint::congestion::hpcc::{self, Hpcc};
use weir_endpoint::congestion::pint::{self, Pint};
use weir_endpoint::congestion::timely::{self, Timely};
use weir_endpoint::congestion::{Ack, Window};
use weir_endpoint::dcqcn::ns3::Sender;

use super::config::Control;

/// What a path gives the senders on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathTimes {
    /// Base round trip T, ns.
    pub rtt: Nanos,
    /// Bandwidth-delay product W, bytes.
    pub bdp: u64,
}

/// One sender. DCQCN is driven by CNPs and timers, whose order of arming is part of the reference; all others by
/// acknowledgements.
#[derive(Clone, Debug)]
pub enum Controller {
    /// Line rate, bit/s.
    Line(u64),
    /// `CC_MODE 1`.
    Dcqcn(Sender),
    /// `CC_MODE 3`.
    Hpcc(Box<Hpcc>),
    /// `CC_MODE 7`.
    Timely(Box<Timely>),
    /// `CC_MODE 8`.
    Dctcp(Box<Dctcp>),
    /// `CC_MODE 10`.
    Pint(Box<Pint>),
}

/// What an acknowledgement did to a sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Update {
    /// HPCC.
    Hpcc(hpcc::Update),
    /// TIMELY.
    Timely(timely::Update),
    /// DCTCP.
    Dctcp(dctcp::Update),
    /// HPCC over PINT.
    Pint(pint::Update),
}

/// An acknowledgement that was heeded, for a recorder.
#[derive(Debug)]
pub struct Heeded<'a> {
    /// When.
    pub at: Nanos,
    /// The flow, in the order of the list.
    pub flow: u32,
    /// What it said.
    pub ack: Ack<'a>,
    /// What came of it.
    pub update: Update,
    /// The sender after it.
    pub controller: &'a Controller,
    /// Bytes that may be in flight; 0: any number.
    pub window: u64,
}

impl Controller {
    /// A sender on a link of `line` bit/s.
    pub fn new(control: &Control, line: u64, path: PathTimes, window: Window) -> Self {
        match *control {
            Control::None => Self::Line(line),
            Control::Dcqcn(p) => {
                Self::Dcqcn(Sender::new(&weir_endpoint::dcqcn::ns3::Params { line_bps: line, ..p }))
            }
            Control::Hpcc(p) => {
                let p = hpcc::Params { line_bps: line, base_rtt: path.rtt, bdp: path.bdp, ..p };
                Self::Hpcc(Box::new(Hpcc::new(p, window)))
            }
            Control::Timely(p) => {
                Self::Timely(Box::new(Timely::new(timely::Params { line_bps: line, ..p }, window)))
            }
            Control::Dctcp(p) => {
                Self::Dctcp(Box::new(Dctcp::new(dctcp::Params { line_bps: line, ..p }, window)))
            }
            Control::Pint(p) => Self::Pint(Box::new(Pint::new(pint::Params { line_bps: line, ..p }, window))),
        }
    }

    /// Current rate, bit/s.
    #[inline]
    pub fn rate_bps(&self) -> u64 {
        match self {
            Self::Line(rate) => *rate,
            Self::Dcqcn(sender) => sender.rate_bps(),
            Self::Hpcc(sender) => sender.rate_bps(),
            Self::Timely(sender) => sender.rate_bps(),
            Self::Dctcp(sender) => sender.rate_bps(),
            Self::Pint(sender) => sender.rate_bps(),
        }
    }

    /// Takes an acknowledgement; `None`: it was not heeded.
    pub fn on_ack(&mut self, ack: &Ack<'_>) -> Option<Update> {
        match self {
            Self::Line(_) | Self::Dcqcn(_) => None,
            Self::Hpcc(sender) => sender.update(ack).map(Update::Hpcc),
            Self::Timely(sender) => sender.update(ack).map(Update::Timely),
            Self::Dctcp(sender) => sender.update(ack).map(Update::Dctcp),
            Self::Pint(sender) => sender.update(ack).map(Update::Pint),
        }
    }
}

impl Update {
    /// A frame that is being waited for moves with the new rate: so it is in HPCC, with INT and with PINT. The
    /// others act from the next frame on.
    pub fn moves_next_send(&self) -> bool {
        match self {
            Self::Hpcc(update) => update.rated,
            Self::Pint(update) => update.moment != weir_endpoint::congestion::Moment::First,
            Self::Timely(_) | Self::Dctcp(_) => false,
        }
    }
}
