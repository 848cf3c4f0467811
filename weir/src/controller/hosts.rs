//! Hosts, over TCP: a line of JSON each way at a time.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_inc::controller::desk::{Connection, Event};
use weir_inc::rendezvous::{Answer, LONGEST, Request};

/// Most connections at a time.
const MOST: usize = 4096;
/// Time for the first line: who says nothing goes.
const PATIENCE: Duration = Duration::from_secs(10);
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
        streams.lock().unwrap_or_else(PoisonError::into_inner).insert(connection, kept);
        readers.fetch_add(1, Ordering::Relaxed);
        let reader = move || {
            read(&stream, connection, &events);
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

/// Reads lines until one is none.
fn read(stream: &TcpStream, connection: Connection, events: &Sender<Event>) {
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let mut lines = BufReader::new(stream);
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
        let _ = stream.set_read_timeout(None);
    }
}

fn refuse(mut stream: &TcpStream, error: &serde_json::Error) {
    let answer = Answer::Refused { why: format!("not understood: {error}") };
    if let Ok(line) = serde_json::to_string(&answer) {
        let _ = writeln!(stream, "{line}");
    }
}
