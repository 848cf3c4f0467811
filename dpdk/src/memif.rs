//! The socket of a `net_memif` server, kept in front of the driver's.
//!
//! The driver (of 22.11, and as later sources read) accepts a connection, registers it for interrupts and greets the peer.
//! If the peer has gone by then it closes the connection and leaves it registered, and DPDK's interrupt thread ends the
//! process over the closed descriptor. Anything that connects and leaves at once does that, such as a client that was
//! killed. So peers connect to a socket of ours, and for each of them we connect to that of the driver, which lies where
//! nobody else comes. Messages and descriptors are passed on both ways; towards the driver a connection stays open until
//! it has been greeted, whatever its peer does.

use std::fs::{File, Permissions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    accept4, bind, connect, listen, recvmsg, sendmsg, socket,
};

use crate::interrupts::{event, set};

/// Most peers at a time; others wait to be accepted.
const MAX_PEERS: usize = 64;
/// Time for a peer to say which interface it wants.
const INTRODUCTION: Duration = Duration::from_secs(10);
/// A message of memif has 128 bytes and one descriptor at most.
const MESSAGE_BYTES: usize = 128;
const MESSAGE_FDS: usize = 1;

/// Where peers of a `net_memif` server connect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemifAddress {
    /// A socket in the file system.
    Path(PathBuf),
    /// A name in the abstract name space of the network namespace, `socket-abstract=yes`.
    Abstract(String),
}

/// Listens at an address until it is dropped, and once it serves connects peers with the driver.
///
/// Two steps, since a driver that is asked for an interface before its device has started agrees, and forgets that when the device starts: the
/// peer would wait for good. Who connects before the second step waits to be accepted.
#[derive(Debug)]
pub struct MemifListener {
    leave: Arc<File>,
    path: Option<PathBuf>,
    /// Until it serves.
    listener: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl MemifListener {
    /// Listens at `address`. Only the owner may connect to a path.
    ///
    /// # Errors
    /// The address is in use, or cannot be had.
    pub fn listen(address: &MemifAddress) -> io::Result<Self> {
        let listener = seqpacket()?;
        let path = match address {
            MemifAddress::Path(path) => {
                bind(listener.as_raw_fd(), &UnixAddr::new(path)?)?;
                // Nobody can connect before it listens.
                std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
                Some(path.clone())
            }
            MemifAddress::Abstract(name) => {
                bind(listener.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
                None
            }
        };
        listen(&listener, Backlog::new(MAX_PEERS as i32)?)?;
        Ok(Self { leave: Arc::new(event()?), path, listener: Some(listener), thread: None })
    }

    /// From now on peers are connected with the driver, which listens at `driver` and whose devices have started.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn serve(&mut self, driver: &Path) -> io::Result<()> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let (left, driver) = (Arc::clone(&self.leave), driver.to_path_buf());
        let relay = move || Relay { listener, driver, connections: Vec::new() }.run(&left);
        self.thread = Some(std::thread::Builder::new().name("memif".into()).spawn(relay)?);
        Ok(())
    }
}

impl Drop for MemifListener {
    fn drop(&mut self) {
        set(&self.leave);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn seqpacket() -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?)
}

/// A peer and what it is for the driver.
#[derive(Debug)]
struct Connection {
    /// `None`: it has gone, and the driver has not greeted it yet.
    peer: Option<OwnedFd>,
    driver: OwnedFd,
    greeted: bool,
    /// It goes then if it has not said what it wants.
    deadline: Option<Instant>,
}

#[derive(Debug)]
struct Relay {
    listener: OwnedFd,
    driver: PathBuf,
    connections: Vec<Connection>,
}

impl Relay {
    fn run(&mut self, leave: &File) {
        loop {
            // One at a time is greeted: the driver's backlog holds one.
            let accepts =
                self.connections.len() < MAX_PEERS && self.connections.iter().all(|one| one.greeted);
            let mut wanted = vec![PollFd::new(leave.as_fd(), PollFlags::POLLIN)];
            if accepts {
                wanted.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
            }
            for one in &self.connections {
                let both = one.peer.iter().chain([&one.driver]);
                wanted.extend(both.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
            }
            if poll(&mut wanted, self.timeout()).is_err() {
                continue;
            }
            let mut ready = wanted.iter().map(|fd| fd.any().unwrap_or(false)).collect::<Vec<_>>().into_iter();
            if ready.next() == Some(true) {
                return;
            }
            let comes = accepts && ready.next() == Some(true);
            self.connections.retain_mut(|one| {
                let peer = one.peer.is_some() && ready.next() == Some(true);
                let driver = ready.next() == Some(true);
                one.serve(peer, driver)
            });
            if comes && let Some(new) = self.accept() {
                self.connections.push(new);
            }
        }
    }

    /// Until somebody's time is up.
    fn timeout(&self) -> PollTimeout {
        let Some(deadline) = self.connections.iter().filter_map(|one| one.deadline).min() else {
            return PollTimeout::NONE;
        };
        let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
    }

    /// A peer; nobody, if it has gone or there is nobody behind us.
    fn accept(&self) -> Option<Connection> {
        let peer = accept4(self.listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC).ok()?;
        // SAFETY: the descriptor was made by the call above, and nobody else knows it.
        let peer = unsafe { OwnedFd::from_raw_fd(peer) };
        let driver = seqpacket().ok()?;
        // A driver that accepts nobody any more keeps nobody waiting.
        fcntl(&driver, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).ok()?;
        connect(driver.as_raw_fd(), &UnixAddr::new(&self.driver).ok()?).ok()?;
        let deadline = Some(Instant::now() + INTRODUCTION);
        Some(Connection { peer: Some(peer), driver, greeted: false, deadline })
    }
}

impl Connection {
    /// Passes on what has come from either side. `false`: it is over.
    fn serve(&mut self, from_peer: bool, from_driver: bool) -> bool {
        if from_driver {
            let Ok(message) = Message::receive(&self.driver) else { return false };
            self.greeted = true;
            if self.peer.take_if(|peer| message.send(peer).is_err()).is_some() {
                return false;
            }
        }
        if from_peer && let Some(peer) = &self.peer {
            match Message::receive(peer) {
                Ok(message) if message.send(&self.driver).is_ok() => self.deadline = None,
                Ok(_) => return false,
                Err(_) => self.peer = None,
            }
        }
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            self.peer = None;
        }
        self.peer.is_some() || !self.greeted
    }
}

/// What one side said.
struct Message {
    bytes: [u8; MESSAGE_BYTES],
    len: usize,
    fds: Vec<OwnedFd>,
}

impl Message {
    /// # Errors
    /// The other end is closed, or says more than memif has words for.
    fn receive(from: &OwnedFd) -> io::Result<Self> {
        let mut bytes = [0; MESSAGE_BYTES];
        let mut space = nix::cmsg_space!([RawFd; MESSAGE_FDS]);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
        let got = recvmsg::<()>(from.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
        let mut fds = Vec::new();
        for control in got.cmsgs()? {
            if let ControlMessageOwned::ScmRights(received) = control {
                // SAFETY: the kernel has made these descriptors for this process, and nobody else knows them.
                fds.extend(received.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
            }
        }
        let (len, cut) = (got.bytes, got.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC));
        match len {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ if cut => Err(io::ErrorKind::InvalidData.into()),
            _ => Ok(Self { bytes, len, fds }),
        }
    }

    /// # Errors
    /// The other end is closed, or does not read.
    fn send(&self, to: &OwnedFd) -> io::Result<()> {
        let fds: Vec<RawFd> = self.fds.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&fds)];
        let control = if fds.is_empty() { &[][..] } else { &rights[..] };
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        sendmsg::<()>(to.as_raw_fd(), &[IoSlice::new(&self.bytes[..self.len])], control, flags, None)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
