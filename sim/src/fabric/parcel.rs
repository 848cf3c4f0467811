//! A frame on its way: one allocation from the sending host to the receiving one, handed on by pointer.

use weir_dataplane::frame::Frame;
use weir_endpoint::flow::HeaderFrame;

/// Headers and a length, behind a pointer: a buffer slot that is empty costs a switch eight bytes.
#[derive(Clone, Debug)]
pub(super) struct Parcel(Box<HeaderFrame>);

impl From<HeaderFrame> for Parcel {
    fn from(frame: HeaderFrame) -> Self {
        Self(Box::new(frame))
    }
}

impl Frame for Parcel {
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }

    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    fn share(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn make_unique(&mut self) -> bool {
        true
    }
}
