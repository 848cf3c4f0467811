//! Devices of `net_af_packet`, and the fan-out groups of their sockets.
//!
//! The driver puts the sockets of each device into a group (`PACKET_FANOUT` of packet(7)), with one queue too, and calls it
//! `(getpid() ^ ifindex) & 0xffff`; no argument changes that, in DPDK 22.11 or since. A network namespace knows one group of a
//! number, and the kernel refuses it on another interface (EINVAL), so two processes of neighbouring numbers on neighbouring
//! interfaces are in each other's way. As another process gets another number, the driver is then called in one: it shares memory
//! and open files with this one, which waits for it, as after vfork(2).

use std::ffi::{CStr, CString, c_int, c_void};
use weir_dpdk_sys as sys;

/// Numbers that are tried.
const TRIES: u32 = 16;
/// Stack of the other process, bytes. Its other memory is ours.
const STACK: usize = 1 << 20;
/// As the driver has it unless told otherwise; other modes of the same group are refused, too.
const MODE: c_int = libc::PACKET_FANOUT_HASH as c_int
    | libc::PACKET_FANOUT_FLAG_DEFRAG as c_int
    | libc::PACKET_FANOUT_FLAG_ROLLOVER as c_int;

/// A device that is to be brought up.
struct Attempt<'a> {
    devargs: &'a CStr,
    /// Its interface.
    index: c_int,
    /// What the driver said; `None`: the group is another interface's.
    said: Option<c_int>,
}

/// Brings up a device, as [`sys::weir_eth_probe`]. `None`: other processes have every group that was tried for its sockets.
pub(super) fn probe(devargs: &CStr) -> Option<c_int> {
    let index = interface(devargs).and_then(|name| {
        // SAFETY: the name ends in zero.
        c_int::try_from(unsafe { libc::if_nametoindex(name.as_ptr()) }).ok()
    });
    let Some(index) = index.filter(|index| *index > 0) else {
        // Not of this driver, or without an interface, which the driver says.
        // SAFETY: the EAL is up; the string ends in zero.
        return Some(unsafe { sys::weir_eth_probe(devargs.as_ptr()) });
    };
    let mut attempt = Attempt { devargs, index, said: None };
    attempt.run();
    for _ in 1..TRIES {
        if attempt.said.is_some() || !attempt.run_as_another_process() {
            break;
        }
    }
    attempt.said
}

/// The interface of a device of this driver.
fn interface(devargs: &CStr) -> Option<CString> {
    let text = devargs.to_str().ok()?;
    let name = text.split(',').next()?;
    let interface = text.split(',').find_map(|argument| argument.strip_prefix("iface="))?;
    name.contains("af_packet").then(|| CString::new(interface).ok())?
}

impl Attempt<'_> {
    /// Once, with the number this process has.
    fn run(&mut self) {
        if !is_free(self.index) {
            return;
        }
        // SAFETY: the EAL is up; the string ends in zero.
        let said = unsafe { sys::weir_eth_probe(self.devargs.as_ptr()) };
        // Somebody may have been quicker.
        self.said = (said == 0 || is_free(self.index)).then_some(said);
    }

    /// Once, with the number of a new process. `false`: there is none to be had.
    fn run_as_another_process(&mut self) -> bool {
        extern "C" fn run(attempt: *mut c_void) -> c_int {
            // SAFETY: whoever made this process lends it an `Attempt`, and waits.
            unsafe { (*attempt.cast::<Attempt<'_>>()).run() };
            0
        }
        let mut stack = vec![0_u128; STACK / size_of::<u128>()];
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::CLONE_FS | libc::SIGCHLD;
        // SAFETY: the stack grows down from its end and outlives the process, since this thread waits until that has ended
        // (CLONE_VFORK); so does the attempt. Thread-local memory is this thread's, which does not use it meanwhile. Locks are
        // given back before it ends; descriptors it opens stay open (CLONE_FILES).
        unsafe {
            let top = stack.as_mut_ptr_range().end;
            let process = libc::clone(run, top.cast(), flags, (&raw mut *self).cast());
            process > 0 && libc::waitpid(process, std::ptr::null_mut(), 0) == process
        }
    }
}

/// The group of the calling process on an interface is nobody's, or that interface's. Whatever else is in the way is for the
/// driver to say.
fn is_free(index: c_int) -> bool {
    // SAFETY: sockaddr_ll is valid when zero; the kernel reads structs and numbers of the lengths given, and the descriptor is ours
    // to close.
    unsafe {
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return true;
        }
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index;
        let bound = libc::bind(socket, (&raw const address).cast(), size_of_val(&address) as u32) == 0;
        let group = (libc::getpid() ^ index) & 0xffff | MODE << 16;
        let size = size_of_val(&group) as u32;
        let refused =
            libc::setsockopt(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, (&raw const group).cast(), size)
                != 0
                && *libc::__errno_location() == libc::EINVAL;
        libc::close(socket);
        !(bound && refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_the_driver_have_an_interface() {
        let of = |text: &str| interface(&CString::new(text).unwrap()).map(|name| name.into_string().unwrap());
        assert_eq!(of("net_af_packet0,iface=veth0,framesz=4096").as_deref(), Some("veth0"));
        assert_eq!(of("eth_af_packet3,qpairs=1,iface=eth0.7").as_deref(), Some("eth0.7"));
        for other in ["net_tap0,iface=tap0", "net_af_packet0", "0000:03:00.0"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
