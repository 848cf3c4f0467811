//! The two directions of a connection: messages made, messages checked.

use super::config::Stream;
use crate::station::pattern::Pattern;
use crate::station::report::Progress;
use weir_dataplane::types::Nanos;

/// Messages to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub stream: Stream,
    pattern: Pattern,
    stopped: bool,
}

impl Outgoing {
    pub fn new(stream: Stream, pattern: Pattern) -> Self {
        Self { stream, pattern, stopped: false }
    }

    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Nothing will be posted any more.
    pub fn all_posted(&self, posted: u64) -> bool {
        self.stopped || self.stream.messages.is_some_and(|all| posted >= all)
    }

    /// The message after so many.
    pub fn message(&self, posted: u64) -> Vec<u8> {
        let mut message = vec![0; self.stream.bytes as usize];
        self.pattern.fill(posted, &mut message);
        message
    }

    /// The next message was posted.
    pub fn posted(&self, progress: &mut Progress, now: Nanos) {
        progress.posted += 1;
        progress.first_post.get_or_insert(now);
    }

    /// So many messages are acknowledged, or have left where nobody acknowledges.
    pub fn gone(&self, messages: u64, progress: &mut Progress, now: Nanos) {
        progress.acknowledged += messages;
        progress.acknowledged_bytes += messages * u64::from(self.stream.bytes);
        progress.last_ack = now;
    }
}

/// Messages to receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pattern: Pattern,
    next: u64,
    /// What is missing is lost: nobody sends it again.
    gaps: bool,
}

impl Incoming {
    pub fn new(pattern: Pattern, gaps: bool) -> Self {
        Self { pattern, next: 0, gaps }
    }

    pub fn look(&mut self, payload: &[u8], progress: &mut Progress, now: Nanos) {
        let content = self.pattern.check(payload);
        progress.look(content, &mut self.next, payload.len() as u32, self.gaps, now);
    }
}
