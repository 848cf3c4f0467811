//! Long answers go piece by piece, and only so many bytes of them wait for their readers at a time: memory does not
//! depend on how many ask, nor on how slowly they read.

use super::lock;
use crate::text::Text;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Bytes that may wait before the next long answer is made. One answer may go beyond it.
const BUDGET: usize = 8 << 20;

/// For so long an answer may be on its way while others wait.
const LONGEST: Duration = Duration::from_secs(60);

/// Between two looks for room.
const LOOK: Duration = Duration::from_millis(10);

type Pieces = Mutex<VecDeque<Bytes>>;

/// What is being sent.
#[derive(Debug, Default)]
pub(super) struct Sending(Mutex<Vec<(Instant, Weak<Pieces>)>>);

impl Sending {
    /// Bytes that wait for their readers. Where they are too many, answers that have been on their way for `longest`
    /// are given up.
    fn waiting(&self, longest: Duration) -> usize {
        let mut all = lock(&self.0);
        all.retain(|(_, pieces)| pieces.strong_count() > 0);
        let bytes = |pieces: &Weak<Pieces>| {
            pieces.upgrade().map_or(0, |pieces| lock(&pieces).iter().map(Bytes::len).sum::<usize>())
        };
        let sum: usize = all.iter().map(|(_, pieces)| bytes(pieces)).sum();
        if sum < BUDGET {
            return sum;
        }
        for pieces in all.iter().filter(|(since, _)| since.elapsed() >= longest).map(|(_, pieces)| pieces) {
            if let Some(pieces) = pieces.upgrade() {
                lock(&pieces).clear();
            }
        }
        all.iter().map(|(_, pieces)| bytes(pieces)).sum()
    }

    /// Waits until there is room for another long answer. `false`: not within `patience`.
    pub async fn room(&self, patience: Duration) -> bool {
        let start = Instant::now();
        while self.waiting(LONGEST) >= BUDGET {
            if start.elapsed() >= patience {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
        true
    }

    /// A body of this text.
    pub fn body(&self, text: Text) -> Answer {
        let left = text.len() as u64;
        let pieces = Arc::new(Mutex::new(text.into_pieces()));
        lock(&self.0).push((Instant::now(), Arc::downgrade(&pieces)));
        Answer { pieces, left }
    }
}

/// The body of a long answer: each piece goes as soon as it is taken.
#[derive(Debug)]
pub(super) struct Answer {
    pieces: Arc<Pieces>,
    left: u64,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let piece = lock(&self.pieces).pop_front();
        Poll::Ready(match piece {
            Some(piece) => {
                self.left -= piece.len() as u64;
                Some(Ok(Frame::data(piece)))
            }
            None if self.left == 0 => None,
            None => Some(Err(io::ErrorKind::TimedOut.into())),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::task::noop_waker_ref;

    fn next(answer: &mut Answer) -> Option<Result<usize, io::ErrorKind>> {
        let mut cx = Context::from_waker(noop_waker_ref());
        match Pin::new(answer).poll_frame(&mut cx) {
            Poll::Ready(frame) => {
                frame.map(|f| f.map(|f| f.into_data().unwrap().len()).map_err(|e| e.kind()))
            }
            Poll::Pending => panic!("it never waits"),
        }
    }

    fn text(len: usize) -> Text {
        let mut text = Text::default();
        text.push_str(&"x".repeat(len));
        text
    }

    #[test]
    fn what_is_read_or_dropped_makes_room() {
        let sending = Sending::default();
        let mut one = sending.body(text(100_000));
        let two = sending.body(text(50_000));
        assert_eq!((sending.waiting(LONGEST), one.size_hint().exact()), (150_000, Some(100_000)));
        let first = next(&mut one).unwrap().unwrap();
        assert_eq!(sending.waiting(LONGEST), 150_000 - first);
        drop(two);
        assert_eq!(sending.waiting(LONGEST), 100_000 - first);
        assert_eq!((next(&mut one), next(&mut one)), (Some(Ok(100_000 - first)), None));
        assert!(one.is_end_stream() && sending.waiting(LONGEST) == 0);
    }

    #[test]
    fn an_answer_nobody_reads_is_given_up_when_others_wait() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let sending = Sending::default();
        let mut slow = sending.body(text(BUDGET - 1));
        assert!(runtime.block_on(sending.room(Duration::ZERO)));
        // Old, but nobody waits.
        assert_eq!(sending.waiting(Duration::ZERO), BUDGET - 1);
        let mut other = sending.body(text(1));
        assert!(!runtime.block_on(sending.room(Duration::ZERO)), "no room");
        assert_eq!(sending.waiting(Duration::ZERO), 0);
        assert!(runtime.block_on(sending.room(Duration::ZERO)));
        for answer in [&mut slow, &mut other] {
            assert_eq!(next(answer), Some(Err(io::ErrorKind::TimedOut)));
        }
    }
}
