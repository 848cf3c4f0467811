//! `net_af_packet`, and the fan-out group that it puts its socket into.
//!
//! DPDK before 25.03 joins one (`PACKET_FANOUT` of packet(7)) with one queue, too, in a mode in which the kernel reassembles IPv4
//! fragments: a switch would not see the frames that came. It calls the group `(getpid() ^ ifindex) & 0xffff`, which may be another
//! interface's, and then fails. weir reads one queue of a device, which needs no group; no argument of the driver says so. So it is
//! called in a thread for which the kernel takes that one system call for done (seccomp(2)). The filter ends with the thread.

use std::ffi::{CStr, c_int};
use std::mem::offset_of;
use std::thread;
use weir_dpdk_sys as sys;

/// Brings up a device, as [`sys::weir_eth_probe`].
pub(super) fn probe(devargs: &CStr) -> c_int {
    // SAFETY: the EAL is up; the string ends in zero.
    let probe = || unsafe { sys::weir_eth_probe(devargs.as_ptr()) };
    if !devargs.to_bytes().windows(9).any(|word| word == b"af_packet") {
        return probe();
    }
    without_groups(probe)
}

/// What `call` returns where no socket joins a fan-out group. Where the system lets nobody have a filter, they do.
fn without_groups(call: impl Fn() -> c_int + Send + Sync) -> c_int {
    let filtered = || {
        join_none();
        call()
    };
    let done = thread::scope(|scope| {
        let started = thread::Builder::new().name("weir-probe".to_owned()).spawn_scoped(scope, filtered);
        started.map(|thread| thread.join().unwrap_or(-libc::EIO))
    });
    done.unwrap_or_else(|_| call())
}

/// Installs the filter for this thread.
fn join_none() {
    const NUMBER: usize = offset_of!(libc::seccomp_data, nr);
    const ARGUMENTS: usize = offset_of!(libc::seccomp_data, args);
    // The low half of an argument.
    let argument = |n: usize| ARGUMENTS + 8 * n + if cfg!(target_endian = "big") { 4 } else { 0 };
    let of = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let load = |at: usize| of(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, at as u32);
    let skip_unless =
        |value: c_int, skip: u8| of(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, skip, value as u32);
    let end = |action: u32| of(libc::BPF_RET | libc::BPF_K, 0, action);
    let mut filter = [
        load(NUMBER),
        skip_unless(libc::SYS_setsockopt as c_int, 5),
        load(argument(1)),
        skip_unless(libc::SOL_PACKET, 3),
        load(argument(2)),
        skip_unless(libc::PACKET_FANOUT, 1),
        // Error 0.
        end(libc::SECCOMP_RET_ERRNO),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which is there until it has. Both settings are this thread's alone, which ends soon.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    fn set(level: c_int, name: c_int) -> c_int {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let one: c_int = 1;
        // SAFETY: the kernel reads a number of the length given.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                level,
                name,
                (&raw const one).cast(),
                size_of_val(&one) as u32,
            )
        }
    }

    #[test]
    fn a_group_is_joined_in_appearance_only_and_by_the_thread_of_the_driver_only() {
        // No group is for such a socket.
        let join = || set(libc::SOL_PACKET, libc::PACKET_FANOUT);
        assert_eq!(join(), -1);
        assert_eq!(without_groups(join), 0);
        assert_eq!(join(), -1);
        // Other options are what they are.
        for (level, name) in
            [(libc::SOL_PACKET, libc::PACKET_VERSION), (libc::SOL_SOCKET, libc::SO_BROADCAST)]
        {
            let set = || set(level, name);
            assert_eq!(without_groups(set), set());
        }
    }
}
