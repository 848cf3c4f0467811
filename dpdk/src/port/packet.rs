//! What the kernel's packet sockets know and `net_af_packet` of DPDK 22.11 does not tell: frames lost
//! because the ring was full, and whether the interface is up, or gone. And what it does not ask of them.

use std::os::fd::RawFd;

/// packet(7).
const PACKET_STATISTICS: libc::c_int = 6;

/// `struct tpacket_stats`.
#[repr(C)]
#[derive(Default)]
struct PacketStats {
    packets: u32,
    drops: u32,
}

/// This process's packet sockets, ascending.
pub(super) fn sockets() -> Vec<RawFd> {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let mut found: Vec<RawFd> = open
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&fd| interface(fd).is_some())
        .collect();
    found.sort_unstable();
    found
}

/// Interface of a packet socket; `None` for anything else.
fn interface(fd: RawFd) -> Option<libc::c_int> {
    // SAFETY: sockaddr_ll is valid when zero; the call writes at most `len` bytes and refuses what is no
    // socket.
    let address = unsafe {
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        (libc::getsockname(fd, (&raw mut address).cast(), &raw mut len) == 0).then_some(address)?
    };
    (libc::c_int::from(address.sll_family) == libc::AF_PACKET).then_some(address.sll_ifindex)
}

/// A packet socket shows no more of what this machine itself sends by its interface: a port receives what comes in. Kernels before 4.20 go
/// on.
pub(super) fn ignore_outgoing(fd: RawFd) {
    let yes: libc::c_int = 1;
    let len = size_of_val(&yes) as libc::socklen_t;
    // SAFETY: the kernel reads a number of the length given and refuses what is no packet socket.
    unsafe {
        libc::setsockopt(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, (&raw const yes).cast(), len)
    };
}

/// The interface of a packet socket was deleted, or moved to another network namespace: whatever has its name now, or its number,
/// is another one to the socket.
pub(super) fn is_orphan(fd: RawFd) -> bool {
    interface(fd).is_some_and(|index| index <= 0)
}

/// Whether the interface of a packet socket is up and has a carrier; `None` if the kernel does not tell.
pub(super) fn running(fd: RawFd) -> Option<bool> {
    let index = interface(fd)?;
    // SAFETY: ifreq is valid when zero; both calls read and write that struct only, and what they leave in
    // its union is what is read: a name, then flags.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_ifru.ifru_ifindex = index;
        if libc::ioctl(fd, libc::SIOCGIFNAME, &raw mut request) != 0
            || libc::ioctl(fd, libc::SIOCGIFFLAGS, &raw mut request) != 0
        {
            return None;
        }
        Some(libc::c_int::from(request.ifr_ifru.ifru_flags) & libc::IFF_RUNNING != 0)
    }
}

/// Takes the error that waits in a socket since its interface went down: the next call that sends would fail with it, though the
/// interface is up again.
pub(super) fn take_error(fd: RawFd) {
    let mut error: libc::c_int = 0;
    let mut len = size_of_val(&error) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes.
    unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &raw mut len) };
}

/// Frames a socket's ring had no room for since the last call; the kernel starts again at zero.
pub(super) fn new_drops(fd: RawFd) -> u64 {
    let mut stats = PacketStats::default();
    let mut len = size_of::<PacketStats>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes and refuses what is no packet socket.
    let ret = unsafe {
        libc::getsockopt(fd, libc::SOL_PACKET, PACKET_STATISTICS, (&raw mut stats).cast(), &raw mut len)
    };
    if ret == 0 { u64::from(stats.drops) } else { 0 }
}
