//! Hosts, over TCP: a line of JSON each way at a time.

use anyhow::{Context, Result};
use nix::sys::socket::{setsockopt, sockopt};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_inc::controller::desk::{Connection, Event};
use weir_inc::rendezvous::{Answer, LONGEST, Request};

/// Most connections at a time.
pub(super) const MOST: usize = 4096;
/// Time for the first line, all of it: who says nothing goes.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Silence after which TCP asks a host whether it is there, seconds.
const QUIET: u32 = 15;
/// Time between two such questions, seconds.
const AGAIN: u32 = 5;
/// Time without an answer after which a host is not there, seconds: it may have lost its power, and closed nothing.
const GONE: u32 = 30;
/// Time for a host to take a line.
const TAKES: Duration = Duration::from_millis(200);

type Streams = Arc<Mutex<BTreeMap<Connection, TcpStream>>>;

/// All connections.
pub(super) struct Hosts {
    address: SocketAddr,
    streams: Streams,
}

impl Hosts {
    /// Listens. What hosts say are events.
    ///
    /// # Errors
    /// The address cannot be had.
    pub(super) fn listen(address: SocketAddr, events: Sender<Event>) -> Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let streams = Streams::default();
        let all = Arc::clone(&streams);
        std::thread::Builder::new().name("hosts".into()).spawn(move || accept(&listener, &all, &events))?;
        Ok(Self { address, streams })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Says something. Who does not take it, or has gone, is noticed by the reader.
    pub(super) fn say(&self, to: Connection, answer: &Answer) {
        let Ok(mut line) = serde_json::to_string(answer) else { return };
        line.push('\n');
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = streams.get_mut(&to)
            && stream.write_all(line.as_bytes()).is_err()
        {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn hang_up(&self, connection: Connection) {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = streams.get(&connection) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Its reader has ended.
    pub(super) fn forget(&mut self, connection: Connection) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).remove(&connection);
    }
}

fn accept(listener: &TcpListener, streams: &Streams, events: &Sender<Event>) {
    let readers = Arc::new(AtomicUsize::new(0));
    for connection in 1.. {
        let Ok((stream, _)) = listener.accept() else {
            // No descriptors left, say: others end and give theirs back.
            std::thread::sleep(TAKES);
            continue;
        };
        if readers.load(Ordering::Relaxed) >= MOST {
            continue;
        }
        let (events, counted) = (events.clone(), Arc::clone(&readers));
        let Ok(kept) = stream.try_clone() else { continue };
        let _ = kept.set_write_timeout(Some(TAKES));
        if notice_the_dead(&kept).is_err() {
            continue;
        }
        streams.lock().unwrap_or_else(PoisonError::into_inner).insert(connection, kept);
        readers.fetch_add(1, Ordering::Relaxed);
        let reader = move || {
            read(&stream, connection, &events, PATIENCE);
            // Who is told that a connection has ended forgets it.
            let _ = stream.shutdown(Shutdown::Both);
            let _ = events.send(Event::Closed(connection));
            counted.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("host".into()).spawn(reader).is_err() {
            readers.fetch_sub(1, Ordering::Relaxed);
            streams.lock().unwrap_or_else(PoisonError::into_inner).remove(&connection);
        }
    }
}

/// A host that has gone without a word ends its connection, whether it was to be told something or not.
pub(super) fn notice_the_dead(stream: &TcpStream) -> nix::Result<()> {
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &QUIET)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &AGAIN)?;
    setsockopt(stream, sockopt::TcpKeepCount, &((GONE - QUIET) / AGAIN))?;
    setsockopt(stream, sockopt::TcpUserTimeout, &(GONE * 1000))
}

/// A connection that is read until then.
pub(super) struct Until<'a> {
    pub stream: &'a TcpStream,
    /// `None`: for ever.
    pub end: Option<Instant>,
}

impl Read for Until<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(left)?;
        self.stream.read(bytes)
    }
}

/// Reads lines until one is none, or the first is not whole in time.
fn read(stream: &TcpStream, connection: Connection, events: &Sender<Event>, patience: Duration) {
    let mut lines = BufReader::new(Until { stream, end: Some(Instant::now() + patience) });
    loop {
        let mut line = Vec::new();
        let read = (&mut lines).take(LONGEST as u64).read_until(b'\n', &mut line);
        if !matches!(read, Ok(n) if n > 0) || line.last() != Some(&b'\n') {
            return;
        }
        let request = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => Box::new(request),
            Err(error) => return refuse(stream, &error),
        };
        if events.send(Event::Said(connection, request)).is_err() {
            return;
        }
        lines.get_mut().end = None;
    }
}

fn refuse(mut stream: &TcpStream, error: &serde_json::Error) {
    let answer = Answer::Refused { why: format!("not understood: {error}") };
    if let Ok(line) = serde_json::to_string(&answer) {
        let _ = writeln!(stream, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::getsockopt;
    use std::sync::mpsc::channel;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn who_says_little_by_little_goes_too() {
        let (mut host, stream) = pair();
        let (events, happened) = channel();
        let reader = std::thread::spawn(move || read(&stream, 1, &events, Duration::from_millis(50)));
        // Long before the longest line is full.
        let mut said = 0;
        while !reader.is_finished() && said < LONGEST {
            let _ = host.write_all(b" ");
            said += 1;
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(said < LONGEST);
        assert!(happened.try_recv().is_err());
    }

    #[test]
    fn a_host_that_vanishes_is_noticed() {
        let (events, _happened) = channel();
        let hosts = Hosts::listen("127.0.0.1:0".parse().unwrap(), events).unwrap();
        let mut host = TcpStream::connect(hosts.address()).unwrap();
        // Its line is answered by the reader: by then it is among the streams.
        host.write_all(b"no line of JSON\n").unwrap();
        let _ = host.read(&mut [0; 1]).unwrap();
        let streams = hosts.streams.lock().unwrap();
        let stream = streams.get(&1).unwrap();
        assert!(getsockopt(stream, sockopt::KeepAlive).unwrap());
        let silence = getsockopt(stream, sockopt::TcpKeepIdle).unwrap()
            + getsockopt(stream, sockopt::TcpKeepCount).unwrap()
                * getsockopt(stream, sockopt::TcpKeepInterval).unwrap();
        assert_eq!(silence, GONE);
        assert_eq!(getsockopt(stream, sockopt::TcpUserTimeout).unwrap(), GONE * 1000);
    }
}
