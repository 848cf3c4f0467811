//! A frame on its way: one allocation from the sending host to the receiving one, handed on by pointer.

use super::latency::Journey;
use weir_dataplane::frame::{Frame, SizedFrames};
use weir_dataplane::vlan::TAG_BYTES;
use weir_endpoint::congestion::telemetry::Stamp;
use weir_endpoint::flow::HeaderFrame;

/// Headers and a length, behind a pointer: a buffer slot that is empty costs a switch eight bytes.
#[derive(Clone, Debug)]
pub(super) struct SimFrame(Box<Inner>);

/// What is represented of a frame.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Headers and a length.
    Headers(HeaderFrame),
    /// Every byte.
    Whole(Vec<u8>),
}

impl From<HeaderFrame> for Body {
    fn from(frame: HeaderFrame) -> Self {
        Self::Headers(frame)
    }
}

impl Body {
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Headers(frame) => frame.bytes(),
            Self::Whole(bytes) => bytes,
        }
    }
}

#[derive(Clone, Debug)]
struct Inner {
    body: Body,
    to: Option<Address>,
    /// The port it leaves the switch it comes to by, once that was asked.
    egress: Option<u16>,
    /// What it carries for congestion control.
    stamp: Option<Box<Stamp>>,
    /// Where its time went, if somebody wants to know.
    journey: Option<Box<Journey>>,
}

/// The receiving host, and a hash of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub host: u32,
    pub flow: u64,
}

impl SimFrame {
    /// A frame to a host; `None`: to the next node only.
    pub fn new(body: impl Into<Body>, to: Option<Address>) -> Self {
        Self(Box::new(Inner { body: body.into(), to, egress: None, stamp: None, journey: None }))
    }

    /// It has a payload; else it is headers and a length.
    #[inline]
    pub fn is_whole(&self) -> bool {
        matches!(self.0.body, Body::Whole(_))
    }

    /// The same with what it carries for congestion control.
    pub fn carrying(mut self, stamp: Option<Stamp>) -> Self {
        self.0.stamp = stamp.map(Box::new);
        self
    }

    /// What it carries for congestion control.
    #[inline]
    pub fn stamp(&self) -> Option<&Stamp> {
        self.0.stamp.as_deref()
    }

    /// Where its time goes.
    #[inline]
    pub fn journey(&mut self) -> &mut Option<Box<Journey>> {
        &mut self.0.journey
    }

    /// The same, for a switch to write into; not on the way back.
    pub fn stamp_mut(&mut self) -> Option<&mut Stamp> {
        self.0.stamp.as_deref_mut().filter(|stamp| !stamp.returns)
    }

    /// The port it leaves the switch it comes to by, once that was asked.
    #[inline]
    pub fn egress(&mut self) -> &mut Option<u16> {
        &mut self.0.egress
    }

    /// Where it goes.
    #[inline]
    pub fn to(&self) -> Option<Address> {
        self.0.to
    }
}

impl Frame for SimFrame {
    /// They come one by one.
    type Row = SizedFrames<Self, 1>;

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.0.body.bytes()
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0.body {
            Body::Headers(frame) => frame.bytes_mut(),
            Body::Whole(bytes) => bytes,
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match &self.0.body {
            Body::Headers(frame) => frame.len(),
            Body::Whole(bytes) => bytes.len(),
        }
    }

    fn share(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn make_unique(&mut self) -> bool {
        true
    }

    fn insert_tag(&mut self, at: usize, tag: [u8; TAG_BYTES]) -> bool {
        match &mut self.0.body {
            Body::Headers(frame) => frame.insert_tag(at, tag),
            Body::Whole(bytes) => {
                let fits = at <= bytes.len();
                if fits {
                    bytes.splice(at..at, tag);
                }
                fits
            }
        }
    }

    fn remove_tag(&mut self, at: usize) -> bool {
        match &mut self.0.body {
            Body::Headers(frame) => frame.remove_tag(at),
            Body::Whole(bytes) => {
                let fits = at + TAG_BYTES <= bytes.len();
                if fits {
                    bytes.drain(at..at + TAG_BYTES);
                }
                fits
            }
        }
    }
}
