//! A frame of which no second handle can be had, as when memory is out.

use weir_dataplane::frame::{Frame, OwnedFrame, SizedFrames};
use weir_dataplane::types::Burst;

/// See the module.
#[derive(Debug)]
pub struct Alone(pub OwnedFrame);

impl Frame for Alone {
    type Row = SizedFrames<Self>;
    type Staged = Burst<Self>;

    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
    fn share(&self) -> Option<Self> {
        None
    }
    fn make_unique(&mut self) -> bool {
        true
    }
}
