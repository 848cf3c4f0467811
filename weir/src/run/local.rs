//! Frames of protocols that end at the switch: from its worker to the main thread, where the agents are, and back, through rings of each
//! port and protocol.

use super::worker::WorkerPort;
use weir_dataplane::frame::Frame;
use weir_dataplane::switch::{LocalProtocol, LocalReader, Tapped};

/// Frames of a port on their way out, and of those that come back empty. Slow protocols send ten in a second at most (802.3 57A.2), LLDP
/// fewer: all of them find room, though the worker takes some only every 10 ms and markers may come together.
const OUT: usize = 10;
const BACK: usize = 2 * OUT;

/// The worker's end of what a port is to send. What was sent goes back, to be freed where that disturbs nobody.
#[derive(Debug)]
pub struct Outbox {
    frames: rtrb::Consumer<Vec<u8>>,
    sent: rtrb::Producer<Vec<u8>>,
}

impl Outbox {
    /// Sends what there is, as long as `send` takes it.
    pub fn empty(&mut self, mut send: impl FnMut(&[u8]) -> bool) {
        while self.frames.peek().is_ok_and(|frame| send(frame)) {
            // The other end looks before it sends more: there is a place.
            let back = self.frames.pop().map(|frame| self.sent.push(frame));
            debug_assert!(matches!(back, Ok(Ok(()))));
        }
    }
}

/// The main thread's end.
#[derive(Debug)]
pub struct Inbox {
    frames: rtrb::Producer<Vec<u8>>,
    sent: rtrb::Consumer<Vec<u8>>,
}

impl Inbox {
    /// A pair of ends.
    pub fn pair() -> (Self, Outbox) {
        let (frames, out) = rtrb::RingBuffer::new(OUT);
        let (back, sent) = rtrb::RingBuffer::new(BACK);
        (Self { frames, sent }, Outbox { frames: out, sent: back })
    }

    /// `false`: those before are still there.
    pub fn put(&mut self, frame: Vec<u8>) -> bool {
        while self.sent.pop().is_ok() {}
        self.frames.push(frame).is_ok()
    }
}

/// What the agent of a protocol has of a port.
#[derive(Debug)]
pub struct Line {
    /// What has come.
    pub reader: LocalReader,
    /// What is to be sent.
    pub inbox: Inbox,
}

impl Line {
    /// For a protocol at a port of this switch.
    pub fn new<F: Frame, D: super::io::Io<Frame = F>>(
        switch: &mut Tapped<F>,
        port: &mut WorkerPort<D>,
        protocol: LocalProtocol,
    ) -> Self {
        let (inbox, outbox) = Inbox::pair();
        port.outboxes.push((protocol, outbox));
        Self { reader: switch.read_local(port.id, protocol), inbox }
    }
}
