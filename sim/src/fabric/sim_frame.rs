//! A frame on its way: one allocation from the sending host to the receiving one, handed on by pointer.

use super::latency::Journey;
use arrayvec::ArrayVec;
use weir_dataplane::frame::{Frame, SizedFrames};
use weir_dataplane::types::MIN_FRAME_BYTES;
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

/// The same, where it waits: nearly all frames have the headers of RoCEv2 or less, in the bytes of a shortest frame.
#[derive(Clone, Debug)]
enum Kept {
    Short(Short),
    Long(Box<HeaderFrame>),
    Whole(Vec<u8>),
}

/// Headers and a length.
#[derive(Clone, Debug)]
struct Short {
    have: u8,
    len: [u8; 2],
    bytes: [u8; SHORT],
}

const SHORT: usize = MIN_FRAME_BYTES as usize;
/// No host, no port.
const NO_HOST: u32 = u32::MAX;
const NO_PORT: u16 = u16::MAX;

impl Short {
    fn of(frame: &HeaderFrame) -> Option<Self> {
        let (have, len) = (frame.bytes().len(), frame.len() as u16);
        let bytes = *frame.head().filter(|_| have <= SHORT)?;
        Some(Self { have: have as u8, len: len.to_ne_bytes(), bytes })
    }

    /// `false`: that has more headers than there is room for, and nothing is changed.
    #[inline]
    fn become_like(&mut self, frame: &HeaderFrame) -> bool {
        let have = frame.bytes().len();
        let Some(bytes) = frame.head().filter(|_| have <= SHORT) else { return false };
        (self.have, self.len, self.bytes) = (have as u8, (frame.len() as u16).to_ne_bytes(), *bytes);
        true
    }

    #[inline]
    fn len(&self) -> usize {
        u16::from_ne_bytes(self.len).into()
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.have)]
    }
}

impl From<HeaderFrame> for Kept {
    fn from(frame: HeaderFrame) -> Self {
        Short::of(&frame).map_or_else(|| Self::Long(Box::new(frame)), Self::Short)
    }
}

impl Kept {
    /// Lets `change` change headers and length, if it has no payload.
    fn change(&mut self, change: impl FnOnce(&mut HeaderFrame) -> bool) -> bool {
        let mut frame = match self {
            Self::Short(short) => HeaderFrame::new(short.bytes(), short.len()),
            Self::Long(frame) => return change(frame),
            Self::Whole(_) => return false,
        };
        let changed = change(&mut frame);
        *self = frame.into();
        changed
    }
}

/// Small, as there are millions of them.
#[derive(Clone, Debug)]
struct Inner {
    body: Kept,
    extras: Option<Box<Extras>>,
    /// Of [`Address`], or [`NO_HOST`].
    flow: u64,
    host: u32,
    /// The port it leaves the switch it comes to by, once that was asked.
    egress: u16,
}

impl Inner {
    #[inline]
    fn new(body: Body, to: Option<Address>) -> Self {
        let body = match body {
            Body::Headers(frame) => frame.into(),
            Body::Whole(bytes) => Kept::Whole(bytes),
        };
        let Address { host, flow } = to.unwrap_or(Address::NONE);
        Self { body, extras: None, flow, host, egress: NO_PORT }
    }
}

/// What few frames have.
#[derive(Clone, Debug, Default)]
struct Extras {
    /// What it carries for congestion control.
    stamp: Option<Stamp>,
    /// Where its time went, if somebody wants to know.
    journey: Option<Box<Journey>>,
}

/// Frames that have arrived, whose memory those use that are sent.
#[derive(Debug, Default)]
pub(super) struct Spares(Vec<SimFrame>);

impl Spares {
    /// Where nobody answers they would become more and more.
    const MOST: usize = 1024;

    /// [`SimFrame::new`].
    pub fn frame(&mut self, body: Body, to: Option<Address>) -> SimFrame {
        match body {
            Body::Headers(frame) => self.headers(&frame, to),
            whole @ Body::Whole(_) => SimFrame::new(whole, to),
        }
    }

    /// The same of headers and a length.
    #[inline]
    pub fn headers(&mut self, headers: &HeaderFrame, to: Option<Address>) -> SimFrame {
        let Some(mut frame) = self.0.pop() else { return SimFrame::new(*headers, to) };
        let inner = &mut *frame.0;
        // Nearly all are short, after short ones.
        if let Kept::Short(short) = &mut inner.body
            && short.become_like(headers)
        {
            let Address { host, flow } = to.unwrap_or(Address::NONE);
            (inner.flow, inner.host, inner.egress, inner.extras) = (flow, host, NO_PORT, None);
        } else {
            *inner = Inner::new((*headers).into(), to);
        }
        frame
    }

    /// Nobody needs `frame` any more.
    #[inline]
    pub fn put(&mut self, frame: SimFrame) {
        if self.0.len() < Self::MOST {
            self.0.push(frame);
        }
    }
}

/// The receiving host, and a hash of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub host: u32,
    pub flow: u64,
}

impl Address {
    /// That of nobody.
    const NONE: Self = Self { host: NO_HOST, flow: 0 };
}

impl SimFrame {
    /// A frame to a host; `None`: to the next node only.
    pub fn new(body: impl Into<Body>, to: Option<Address>) -> Self {
        Self(Box::new(Inner::new(body.into(), to)))
    }

    /// It has a payload; else it is headers and a length.
    #[inline]
    pub fn is_whole(&self) -> bool {
        matches!(self.0.body, Kept::Whole(_))
    }

    /// The same with what it carries for congestion control.
    pub fn carrying(mut self, stamp: Option<Stamp>) -> Self {
        if stamp.is_some() {
            self.0.extras.get_or_insert_default().stamp = stamp;
        }
        self
    }

    /// What it carries for congestion control.
    #[inline]
    pub fn stamp(&self) -> Option<&Stamp> {
        self.0.extras.as_ref()?.stamp.as_ref()
    }

    /// The same, for a switch to write into; not on the way back.
    pub fn stamp_mut(&mut self) -> Option<&mut Stamp> {
        self.0.extras.as_mut()?.stamp.as_mut().filter(|stamp| !stamp.returns)
    }

    /// Where its time goes.
    #[inline]
    pub fn journey(&mut self) -> Option<&mut Journey> {
        self.0.extras.as_mut()?.journey.as_deref_mut()
    }

    /// From now on somebody wants to know.
    pub fn set_journey(&mut self, journey: Journey) {
        self.0.extras.get_or_insert_default().journey = Some(Box::new(journey));
    }

    /// Where its time went.
    pub fn take_journey(&mut self) -> Option<Box<Journey>> {
        self.0.extras.as_mut()?.journey.take()
    }

    /// The port it leaves the switch it comes to by is this one.
    #[inline]
    pub fn set_egress(&mut self, port: Option<usize>) {
        self.0.egress = port.map_or(NO_PORT, |port| port as u16);
    }

    /// That port, if it was asked, once.
    #[inline]
    pub fn take_egress(&mut self) -> Option<usize> {
        let port = std::mem::replace(&mut self.0.egress, NO_PORT);
        (port != NO_PORT).then_some(port.into())
    }

    /// Where it goes.
    #[inline]
    pub fn to(&self) -> Option<Address> {
        let Inner { host, flow, .. } = *self.0;
        (host != NO_HOST).then_some(Address { host, flow })
    }
}

impl Frame for SimFrame {
    /// They come one by one.
    type Row = SizedFrames<Self, 1>;
    type Staged = ArrayVec<Self, 1>;

    #[inline]
    fn bytes(&self) -> &[u8] {
        match &self.0.body {
            Kept::Short(short) => short.bytes(),
            Kept::Long(frame) => frame.bytes(),
            Kept::Whole(bytes) => bytes,
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0.body {
            Kept::Short(short) => &mut short.bytes[..usize::from(short.have)],
            Kept::Long(frame) => frame.bytes_mut(),
            Kept::Whole(bytes) => bytes,
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match &self.0.body {
            Kept::Short(short) => short.len(),
            Kept::Long(frame) => frame.len(),
            Kept::Whole(bytes) => bytes.len(),
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
            Kept::Whole(bytes) => {
                let fits = at <= bytes.len();
                if fits {
                    bytes.splice(at..at, tag);
                }
                fits
            }
            body => body.change(|frame| frame.insert_tag(at, tag)),
        }
    }

    fn remove_tag(&mut self, at: usize) -> bool {
        match &mut self.0.body {
            Kept::Whole(bytes) => {
                let fits = at + TAG_BYTES <= bytes.len();
                if fits {
                    bytes.drain(at..at + TAG_BYTES);
                }
                fits
            }
            body => body.change(|frame| frame.remove_tag(at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_what_was_made_and_keeps_tags_that_come_and_go() {
        assert_eq!(size_of::<Inner>(), 88, "with the word of an allocator six sixteens");
        let bytes: Vec<u8> = (0..120).collect();
        for have in [14, SHORT - 4, SHORT, SHORT + 1, 90] {
            let made = HeaderFrame::new(&bytes[..have], 1000);
            let mut frame = SimFrame::new(made, Some(Address { host: 3, flow: 7 }));
            assert_eq!((frame.bytes(), frame.len()), (made.bytes(), 1000));
            let mut tagged = made;
            for insert in [true, false] {
                let both = match insert {
                    true => [frame.insert_tag(12, [0x81, 0, 1, 2]), tagged.insert_tag(12, [0x81, 0, 1, 2])],
                    false => [frame.remove_tag(12), tagged.remove_tag(12)],
                };
                assert_eq!(both, [true; 2], "{have}");
                assert_eq!((frame.bytes(), frame.len()), (tagged.bytes(), tagged.len()), "{have}");
            }
            frame.bytes_mut()[0] = 99;
            assert_eq!((frame.bytes()[0], frame.to().map(|to| to.host)), (99, Some(3)));
            frame.set_egress(Some(5));
            assert_eq!([frame.take_egress(), frame.take_egress()], [Some(5), None]);
        }
    }
}
