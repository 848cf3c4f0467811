//! A stream whose other side has to keep up: whoever sends half a request, or does not read its answer,
//! loses the connection.

use super::problem::message;
use axum::http::StatusCode;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Each time something is written the patience begins anew; reading does not renew it, so a request that
/// drips in byte by byte has no longer than one that comes at once.
pub(super) struct Paced<S> {
    io: S,
    patience: Duration,
    deadline: Pin<Box<Sleep>>,
    /// Bytes have come since the last answer.
    heard: bool,
    slow: Arc<AtomicU64>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Paced<S> {
    pub fn new(io: S, patience: Duration, slow: Arc<AtomicU64>) -> Self {
        let deadline = Box::pin(tokio::time::sleep(patience));
        Self { io, patience, deadline, heard: false, slow }
    }

    /// Ready once patience has run out.
    fn expired(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        std::task::ready!(self.deadline.as_mut().poll(cx));
        Poll::Ready(io::ErrorKind::TimedOut.into())
    }

    fn wrote<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match written {
            Poll::Ready(Ok(n)) => {
                self.deadline.as_mut().reset(Instant::now() + self.patience);
                self.heard = false;
                Poll::Ready(Ok(n))
            }
            Poll::Ready(error) => Poll::Ready(error),
            Poll::Pending => {
                let error = std::task::ready!(self.expired(cx));
                self.slow.fetch_add(1, Relaxed);
                Poll::Ready(Err(error))
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if read.is_ready() {
            self.heard |= buf.filled().len() > before;
            return read;
        }
        let error = std::task::ready!(self.expired(cx));
        if self.heard {
            // The head never became whole, so nothing else is being written.
            self.slow.fetch_add(1, Relaxed);
            let answer = message(StatusCode::REQUEST_TIMEOUT, "the request did not come whole in time");
            let _ = Pin::new(&mut self.io).poll_write(cx, &answer);
        }
        Poll::Ready(Err(error))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.wrote(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
