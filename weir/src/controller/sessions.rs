//! Hosts that connect, whatever they speak: a thread for each, as many as may be.

use anyhow::Result;
use nix::sys::socket::{setsockopt, sockopt};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Most connections at a time.
const MOST: usize = 4096;
/// Before it is tried again to accept one.
const AGAIN: Duration = Duration::from_millis(200);
/// Silence after which TCP asks a host whether it is there, seconds.
const QUIET: u32 = 15;
/// Time between two such questions, seconds.
const ASKED_AGAIN: u32 = 5;
/// Time without an answer after which a host is not there, seconds: it may have lost its power, and closed nothing.
pub(super) const GONE: u32 = 30;

/// Has `serve` speak with whoever connects, each in a thread of that name.
///
/// # Errors
/// The thread that waits for them cannot be started.
pub(super) fn start(
    listener: TcpListener,
    name: &'static str,
    serve: impl Fn(SocketAddr, TcpStream) + Send + Sync + 'static,
) -> Result<()> {
    let serve = Arc::new(serve);
    let accept = move || {
        let open = Arc::new(AtomicUsize::new(0));
        loop {
            let Ok((stream, who)) = listener.accept() else {
                // No descriptors left, say: others end and give theirs back.
                std::thread::sleep(AGAIN);
                continue;
            };
            if open.load(Ordering::Relaxed) >= MOST || notice_the_dead(&stream).is_err() {
                continue;
            }
            open.fetch_add(1, Ordering::Relaxed);
            let (serve, counted) = (Arc::clone(&serve), Arc::clone(&open));
            let session = move || {
                serve(who, stream);
                counted.fetch_sub(1, Ordering::Relaxed);
            };
            if std::thread::Builder::new().name(name.into()).spawn(session).is_err() {
                open.fetch_sub(1, Ordering::Relaxed);
            }
        }
    };
    std::thread::Builder::new().name(format!("{name}s")).spawn(accept)?;
    Ok(())
}

/// A peer that has gone without a word ends its connection, whether it was to be told something or not.
///
/// # Errors
/// The socket cannot be told.
pub fn notice_the_dead(stream: &TcpStream) -> nix::Result<()> {
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &QUIET)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &ASKED_AGAIN)?;
    setsockopt(stream, sockopt::TcpKeepCount, &((GONE - QUIET) / ASKED_AGAIN))?;
    setsockopt(stream, sockopt::TcpUserTimeout, &(GONE * 1000))
}
