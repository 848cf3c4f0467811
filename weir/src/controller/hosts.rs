//! Hosts, over TCP: a line of JSON each way at a time.

use super::sessions;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_inc::controller::desk::{Connection, Event};
use weir_inc::rendezvous::{Answer, LONGEST, Request};

/// Time for the first line, all of it: who says nothing goes.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
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
        let (all, numbers) = (Arc::clone(&streams), AtomicU64::new(1));
        sessions::start(listener, "host", move |_, stream| {
            serve(&stream, numbers.fetch_add(1, Ordering::Relaxed), &all, &events);
        })?;
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

/// Reads what a host says until its connection has ended, which it then says.
fn serve(stream: &TcpStream, connection: Connection, streams: &Streams, events: &Sender<Event>) {
    let Ok(kept) = stream.try_clone() else { return };
    let _ = kept.set_write_timeout(Some(TAKES));
    streams.lock().unwrap_or_else(PoisonError::into_inner).insert(connection, kept);
    read(stream, connection, events, PATIENCE);
    // Who is told that a connection has ended forgets it.
    let _ = stream.shutdown(Shutdown::Both);
    let _ = events.send(Event::Closed(connection));
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
        if line.len() == LONGEST && line.last() != Some(&b'\n') {
            return refuse(stream, format!("a line of more than {} KiB", LONGEST >> 10));
        }
        if line.last() != Some(&b'\n') {
            // Who says nothing more has said all there was to say.
            if read.is_ok() && !line.is_empty() {
                refuse(stream, "a line without its end: each ends with a line feed".to_owned());
            }
            return;
        }
        let request = match serde_json::from_slice::<Request>(&line) {
            Ok(request) => Box::new(request),
            Err(error) => return refuse(stream, format!("not understood: {error}")),
        };
        if events.send(Event::Said(connection, request)).is_err() {
            return;
        }
        lines.get_mut().end = None;
    }
}

fn refuse(mut stream: &TcpStream, why: String) {
    let answer = Answer::Refused { why };
    if let Ok(line) = serde_json::to_string(&answer) {
        let _ = writeln!(stream, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::sessions::GONE;
    use super::*;
    use nix::sys::socket::{getsockopt, sockopt};
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
    fn a_line_that_is_too_long_is_refused_with_words() {
        let (mut host, stream) = pair();
        let (events, _happened) = channel();
        let reader = std::thread::spawn(move || read(&stream, 1, &events, PATIENCE));
        host.write_all(&vec![b' '; LONGEST]).unwrap();
        let mut said = String::new();
        host.read_to_string(&mut said).unwrap();
        reader.join().unwrap();
        assert!(said.contains("refused") && said.contains("a line of more than 64 KiB"), "{said}");
    }

    #[test]
    fn a_line_without_its_end_is_refused_with_words() {
        let (mut host, stream) = pair();
        let (events, happened) = channel();
        let reader = std::thread::spawn(move || read(&stream, 1, &events, PATIENCE));
        host.write_all(b"{\"leave\": {}}").unwrap();
        host.shutdown(Shutdown::Write).unwrap();
        let mut said = String::new();
        host.read_to_string(&mut said).unwrap();
        reader.join().unwrap();
        assert!(said.contains("refused") && said.contains("each ends with a line feed"), "{said}");
        assert!(happened.try_recv().is_err(), "it may lack its end");
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
