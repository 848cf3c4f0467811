//! Hosts that use INCCL, over TCP: for the desk each of them is one that joins.

use super::hosts::{PATIENCE, Until};
use super::sessions;
use crate::output::say;
use anyhow::{Context, Result, anyhow, bail};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_dataplane::types::Mac;
use weir_inc::controller::desk::{Connection, Event};
use weir_inc::controller::inccl::{self, Host, Request};
use weir_inc::controller::topology::Map;
use weir_inc::rendezvous::{self, Answer, Seat};

/// Hosts of these groups have connections from this number on, others below it.
const FIRST: Connection = 1 << 63;
/// Who speaks for a group may be done before the others are.
pub(super) const LINGER: Duration = Duration::from_secs(30);

/// What the desk says to a host of a group.
#[derive(Debug)]
struct Ear {
    index: usize,
    heard: Sender<(usize, Answer)>,
    stream: TcpStream,
}

/// What all sessions share.
#[derive(Debug)]
struct Shared {
    events: Sender<Event>,
    ears: Mutex<BTreeMap<Connection, Ear>>,
    next: AtomicU64,
    groups: AtomicU32,
    /// Hosts of the fabric that can be met without saying their MAC address.
    macs: BTreeMap<Ipv4Addr, Mac>,
    token: String,
    linger: Duration,
}

/// All groups.
#[derive(Debug)]
pub(super) struct Groups {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Groups {
    /// Listens. What groups say are joins of their hosts, with the token that lets those in. A group leaves `linger` after
    /// its connection has ended.
    ///
    /// # Errors
    /// The address cannot be had, or no host of the fabric can be met in this way.
    pub(super) fn listen(
        address: SocketAddr,
        linger: Duration,
        map: &Map,
        token: String,
        events: Sender<Event>,
    ) -> Result<Self> {
        let macs: BTreeMap<Ipv4Addr, Mac> = map
            .hosts
            .iter()
            .filter_map(|(ip, node)| match ip {
                std::net::IpAddr::V4(ip) => Some((*ip, *map.macs.get(node)?)),
                std::net::IpAddr::V6(_) => None,
            })
            .collect();
        if macs.is_empty() {
            bail!(
                "--inccl: hosts do not say their MAC addresses; give each [[host]] of the topology its `mac`"
            );
        }
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            events,
            ears: Mutex::default(),
            next: AtomicU64::new(FIRST),
            groups: AtomicU32::new(1),
            macs,
            token,
            linger,
        });
        let all = Arc::clone(&shared);
        sessions::start(listener, "group", move |who, stream| serve(&all, who, &stream))?;
        Ok(Self { address, shared })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it is a host of a group that has this connection.
    pub(super) fn has(connection: Connection) -> bool {
        connection >= FIRST
    }

    /// Tells a host. A group that is told of a failure hears it as the end of its connection: it knows no other word.
    pub(super) fn say(&self, to: Connection, answer: Answer) {
        self.shared.say(to, answer);
    }
}

impl Shared {
    fn say(&self, to: Connection, answer: Answer) {
        let ears = self.ears.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(ear) = ears.get(&to) else { return };
        let failed = matches!(answer, Answer::Failed { .. });
        let _ = ear.heard.send((ear.index, answer));
        if failed {
            let _ = ear.stream.shutdown(Shutdown::Both);
        }
    }

    fn forget(&self, connections: &[Connection]) {
        let mut ears = self.ears.lock().unwrap_or_else(PoisonError::into_inner);
        connections.iter().for_each(|connection| drop(ears.remove(connection)));
    }

    /// What a group says until it ends its connection; the connections of its hosts are put into `seated`.
    fn session(&self, who: SocketAddr, stream: &TcpStream, seated: &mut Vec<Connection>) -> Result<()> {
        let mut requests = Until { stream, end: Some(Instant::now() + PATIENCE) };
        let mut group: Option<Vec<(Ipv4Addr, Mac)>> = None;
        let mut communicators = 0;
        while let Some(request) = inccl::read(&mut requests, group.as_ref().map(Vec::len), self.macs.len())? {
            match request {
                Request::Group(addresses) => {
                    let mac = |ip: Ipv4Addr| {
                        let mac = self.macs.get(&ip);
                        let mac = mac.ok_or_else(|| {
                            anyhow!("no host of the topology with a `mac` has the address {ip}")
                        });
                        Ok((ip, *mac?))
                    };
                    group = Some(addresses.into_iter().map(mac).collect::<Result<_>>()?);
                    let number = self.groups.fetch_add(1, Ordering::Relaxed);
                    (&mut &*stream).write_all(&number.to_le_bytes())?;
                    requests.end = None;
                }
                Request::Communicator(qpns) => {
                    communicators += 1;
                    let ends = group.iter().flatten().zip(qpns);
                    let hosts: Vec<Host> = ends.map(|(&(ip, mac), qpn)| Host { ip, mac, qpn }).collect();
                    let seats =
                        self.seats(&format!("inccl {who} {communicators}"), &hosts, stream, seated)?;
                    let file = inccl::file(&hosts, &seats);
                    (&mut &*stream).write_all(&(file.len() as u32).to_be_bytes())?;
                    (&mut &*stream).write_all(file.as_bytes())?;
                }
            }
        }
        Ok(())
    }

    /// The seats of hosts that join, by rank.
    fn seats(
        &self,
        job: &str,
        hosts: &[Host],
        stream: &TcpStream,
        seated: &mut Vec<Connection>,
    ) -> Result<Vec<Seat>> {
        let (heard, answers) = channel();
        for (index, join) in inccl::joins(job, &self.token, hosts).into_iter().enumerate() {
            let connection = self.next.fetch_add(1, Ordering::Relaxed);
            let ear = Ear { index, heard: heard.clone(), stream: stream.try_clone()? };
            self.ears.lock().unwrap_or_else(PoisonError::into_inner).insert(connection, ear);
            seated.push(connection);
            let said = rendezvous::Request::Join(Box::new(join));
            self.events.send(Event::Said(connection, Box::new(said)))?;
        }
        drop(heard);
        gather(&answers, hosts.len())
    }
}

/// Waits for all seats.
fn gather(answers: &Receiver<(usize, Answer)>, hosts: usize) -> Result<Vec<Seat>> {
    let mut seats: Vec<Option<Seat>> = vec![None; hosts];
    while seats.iter().any(Option::is_none) {
        match answers.recv()? {
            (index, Answer::Seat(seat)) => seats[index] = Some(*seat),
            (_, Answer::Refused { why } | Answer::Failed { why }) => bail!("{why}"),
            (_, Answer::Resumed {}) => {}
        }
    }
    Ok(seats.into_iter().flatten().collect())
}

/// A group from its first word to its end.
fn serve(shared: &Shared, who: SocketAddr, stream: &TcpStream) {
    let mut seated = Vec::new();
    let ended = shared.session(who, stream, &mut seated);
    shared.forget(&seated);
    let _ = stream.shutdown(Shutdown::Both);
    if let Err(error) = &ended {
        say!("{who} (INCCL): {error:#}");
    } else if !seated.is_empty() {
        std::thread::sleep(shared.linger);
    }
    for connection in seated {
        let event = match ended {
            Ok(()) => Event::Said(connection, Box::new(rendezvous::Request::Leave {})),
            Err(_) => Event::Closed(connection),
        };
        let _ = shared.events.send(event);
    }
}

#[cfg(test)]
#[path = "inccl_tests.rs"]
mod tests;
