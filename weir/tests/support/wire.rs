//! Ends of veth pairs: raw sockets that send, `tcpdump` that sees, `tcpreplay` that floods.

use super::frames::read_pcap;
use super::namespace::Namespace;
use super::program::Running;
use super::{run, wait_for};
use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrLike, SockaddrStorage, bind,
    recv, sendto, setsockopt, socket, sockopt::RcvBufForce,
};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A raw socket on an interface.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    address: LinkAddr,
}

impl Socket {
    /// Opens one; frames sent by others on this end are not received.
    pub fn open(namespace: &Namespace, interface: &str) -> Self {
        namespace.enter(|| {
            let address = nix::ifaddrs::getifaddrs()
                .expect("interfaces can be listed")
                .find(|found| found.interface_name == interface && link(found.address).is_some())
                .and_then(|found| link(found.address))
                .unwrap_or_else(|| panic!("no interface {interface}"));
            let fd = socket(
                AddressFamily::Packet,
                SockType::Raw,
                SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
                SockProtocol::EthAll,
            )
            .expect("root may have a raw socket");
            // Room for what arrives while nobody reads: a frame lost here would look like one lost by the switch.
            setsockopt(&fd, RcvBufForce, &(64 << 20)).expect("root may have a large buffer");
            bind(fd.as_raw_fd(), &address).expect("the interface is there");
            Self { fd, address }
        })
    }

    /// Sends a frame as it is.
    pub fn send(&self, frame: &[u8]) {
        let sent = wait_for("room in the socket", || {
            match sendto(self.fd.as_raw_fd(), frame, &self.address, MsgFlags::empty()) {
                Err(nix::Error::ENOBUFS | nix::Error::EAGAIN) => None,
                other => Some(other),
            }
        });
        assert_eq!(sent, Ok(frame.len()));
    }

    /// Takes a frame, if there is one, into `buffer`.
    pub fn receive<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        match recv(self.fd.as_raw_fd(), buffer, MsgFlags::empty()) {
            Ok(bytes) => Some(&buffer[..bytes]),
            Err(_) => None,
        }
    }
}

fn link(address: Option<SockaddrStorage>) -> Option<LinkAddr> {
    address.filter(|a| a.family() == Some(AddressFamily::Packet)).and_then(|a| a.as_link_addr().copied())
}

/// `tcpdump` on an interface, writing what arrives there.
#[derive(Debug)]
pub struct Capture {
    tcpdump: Running,
    file: PathBuf,
}

impl Capture {
    /// Starts it and waits until it listens. `filter` in tcpdump's language.
    pub fn start(namespace: &Namespace, interface: &str, folder: &Path, filter: &str) -> Self {
        let file = folder.join(format!("{interface}.pcap"));
        let mut command = namespace.command("tcpdump");
        // -B: room for what arrives while nobody reads, KiB.
        command.args(["-i", interface, "-Q", "in", "-U", "--immediate-mode", "-s", "0", "-B", "65536"]);
        command.args(["-Z", "root", "-w"]).arg(&file);
        if !filter.is_empty() {
            command.arg(filter);
        }
        let mut tcpdump = Running::start(&mut command);
        tcpdump.says("listening on");
        Self { tcpdump, file }
    }

    /// What has been seen so far.
    pub fn seen(&self) -> Vec<Vec<u8>> {
        read_pcap(&self.file)
    }

    /// Waits until at least this many frames were seen, and shows them.
    pub fn wait(&self, frames: usize) -> Vec<Vec<u8>> {
        wait_for(&format!("{frames} frames in {}", self.file.display()), || {
            let seen = self.seen();
            (seen.len() >= frames).then_some(seen)
        })
    }

    /// Stops looking: all that was seen, nothing missed.
    pub fn stop(self) -> Vec<Vec<u8>> {
        let Self { tcpdump, file } = self;
        let ended = tcpdump.stop(Signal::SIGINT);
        assert!(
            ended.stderr.contains("\n0 packets dropped by kernel"),
            "tcpdump missed frames: {}",
            ended.stderr
        );
        read_pcap(&file)
    }
}

/// Replays a pcap file with `tcpreplay`; its report.
pub fn replay(namespace: &Namespace, interface: &str, file: &Path, options: &[&str]) -> String {
    run(namespace.command("tcpreplay").args(["-q", "-i", interface]).args(options).arg(file))
}
