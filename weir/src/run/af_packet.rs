//! Ports on kernel interfaces (`net_af_packet`).
//!
//! The driver's ring frames hold 2048 bytes unless it is told otherwise; the kernel cuts what does not
//! fit, and the driver hands on the rest as if it were the frame. An interface, for its part, refuses
//! frames above its own MTU without a word to the sender. Neither may happen to a frame the port's `mtu`
//! allows, so both are settled before the port opens.

use super::devargs;
use super::mtu::{self, Carries};
use crate::machine::Machine;
use crate::refusal::refuse;
use anyhow::Result;
use std::borrow::Cow;
use weir_config::PortConfig;

/// Ring frame of the driver by default, bytes.
const DEFAULT_FRAME: u32 = 2048;

/// Bytes of a ring frame in front of the Ethernet frame: the kernel aligns `tpacket2_hdr`, `sockaddr_ll`
/// and room for 16 bytes of header to 80, and lets the Ethernet header of 14 end there.
const BEFORE_FRAME: u32 = 66;

/// Bytes of a ring frame the driver does not count when it asks whether the pool's frames hold it.
const DRIVER_HEADER: u32 = 32;

/// Block of the driver by default, bytes. The kernel wants whole pages; the driver takes it that frames
/// follow each other without a gap, so a block must be whole frames too.
const DEFAULT_BLOCK: u32 = 4096;

fn argument<'a>(port: &'a PortConfig, key: &str) -> Option<&'a str> {
    devargs::argument(&port.device, &["net_af_packet", "eth_af_packet"], key)
}

/// The interface, of a port that is one.
pub fn interface(port: &PortConfig) -> Option<&str> {
    argument(port, "iface")
}

/// Least ring frame that shows a frame of `mtu` whole, and a longer one as longer.
fn least(mtu: u16) -> u32 {
    u32::from(mtu) + 1 + BEFORE_FRAME
}

/// Such a ring frame, two of which are whole pages.
fn even(mtu: u16) -> u32 {
    least(mtu).next_multiple_of(DEFAULT_FRAME)
}

/// Ring frame the device will have.
fn ring_frame(port: &PortConfig) -> Option<u32> {
    interface(port)?;
    match argument(port, "framesz") {
        Some(text) => text.parse().ok(),
        None if argument(port, "blocksz").is_some() => Some(DEFAULT_FRAME),
        None => Some(even(port.mtu)),
    }
}

/// Bytes a frame of the pool must hold for the driver to accept it.
pub fn pool_bytes(port: &PortConfig) -> u16 {
    let bytes = ring_frame(port).map_or(0, |frame| frame.saturating_sub(DRIVER_HEADER));
    port.mtu.max(u16::try_from(bytes).unwrap_or(u16::MAX))
}

/// The device as the driver is asked for it: large enough a ring unless its size was chosen.
///
/// # Errors
/// The ring that was chosen is too small for the port's `mtu`.
pub fn devargs(port: &PortConfig) -> Result<Cow<'_, str>> {
    if interface(port).is_none() {
        return Ok(Cow::Borrowed(&port.device));
    }
    let needed = even(port.mtu);
    if let Some(frame) = ring_frame(port).filter(|frame| *frame < least(port.mtu)) {
        let what = format!(
            "mtu = {} needs ring frames of {needed} bytes, the device has {frame} and would cut frames",
            port.mtu
        );
        let remedy = format!(
            "framesz={needed},blocksz={}, or leave both out, or mtu = {}",
            2 * needed,
            frame.saturating_sub(BEFORE_FRAME + 1)
        );
        return Err(refuse("", what, remedy));
    }
    let block = argument(port, "blocksz").map_or(Some(DEFAULT_BLOCK), |text| text.parse().ok());
    if let (Some(frame), Some(block)) = (argument(port, "framesz").and_then(|text| text.parse().ok()), block)
        && !block.is_multiple_of(frame)
    {
        let what = format!(
            "blocksz = {block} is not a multiple of framesz = {frame}, and the driver would read beside the frames"
        );
        return Err(refuse("", what, format!("blocksz={}, or leave both out", 2 * frame)));
    }
    let chosen = ["framesz", "blocksz"].iter().any(|key| argument(port, key).is_some());
    if chosen || needed <= DEFAULT_FRAME {
        return Ok(Cow::Borrowed(&port.device));
    }
    Ok(Cow::Owned(format!("{},framesz={needed},blocksz={}", port.device, 2 * needed)))
}

/// What this process may not do for a port that is an interface of the kernel (CAP_NET_RAW of capabilities(7)), and what to
/// change. Where the system does not tell, the driver has to.
pub fn lacks_rights(port: &PortConfig, machine: &Machine) -> Option<(&'static str, &'static str)> {
    const CAP_NET_RAW: u32 = 13;
    interface(port)?;
    machine.capabilities().filter(|all| all >> CAP_NET_RAW & 1 == 0).map(|_| {
        (
            "net_af_packet opens raw sockets, which this process may not",
            "run as root, or setcap cap_net_raw,cap_net_admin+ep the program",
        )
    })
}

/// What the driver does not say of a socket that it cannot open, and of an interface that loses long frames.
///
/// # Errors
/// This process may not open raw sockets (CAP_NET_RAW of capabilities(7)); the ring or the interface is too small for the
/// port's `mtu`.
pub fn fits(port: &PortConfig, machine: &Machine) -> Result<()> {
    let Some(interface) = interface(port) else { return Ok(()) };
    if let Some((what, remedy)) = lacks_rights(port, machine) {
        return Err(refuse("", what, remedy));
    }
    devargs(port)?;
    match machine.mtu(interface).and_then(|mtu| too_small(port, interface, mtu)) {
        Some((what, remedy)) => Err(refuse("", what, remedy)),
        None => Ok(()),
    }
}

/// That nobody else of this program takes frames of the interface: each would forward them.
///
/// # Errors
/// A process that does.
pub fn is_free(port: &PortConfig, machine: &Machine) -> Result<()> {
    let Some(interface) = interface(port) else { return Ok(()) };
    let Some(process) = machine.other_on(interface) else { return Ok(()) };
    let what = format!(
        "process {process}, a weir too, takes the frames of interface {interface} already: each would be forwarded twice"
    );
    Err(refuse("", what, format!("end it (kill {process}), or name another interface")))
}

/// What an interface with this MTU does to frames of a port, and what to change. `None`: it takes what the port may send.
pub fn too_small(port: &PortConfig, interface: &str, mtu: u32) -> Option<(String, String)> {
    let (own, takes) = (u32::from(port.mtu), mtu::longest(mtu));
    (own > takes).then(|| {
        let what = format!(
            "mtu = {own} counts the Ethernet header, interface {interface} takes {mtu} bytes behind it and would lose longer frames"
        );
        let least = mtu + own - takes;
        (what, format!("ip link set {interface} mtu {least}, or mtu = {takes}"))
    })
}

/// What the interface behind a port takes, where the kernel loses without a word what it does not.
pub fn carries(port: &PortConfig) -> Option<Carries> {
    let carries = Carries::default();
    carries.set(Machine::here().mtu(interface(port)?));
    Some(carries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(device: &str, mtu: u16) -> PortConfig {
        let text = format!("[[port]]\nname = \"a\"\ndevice = {device:?}\nmtu = {mtu}\nrate = \"1G\"\n");
        weir_config::load("test", &text).expect("a good configuration").config.ports.remove(0)
    }

    #[test]
    fn the_ring_follows_the_mtu() {
        let device = |mtu| devargs(&port("net_af_packet0,iface=none0", mtu)).unwrap().into_owned();
        assert_eq!(device(1518), "net_af_packet0,iface=none0");
        assert_eq!(device(9216), "net_af_packet0,iface=none0,framesz=10240,blocksz=20480");
        assert_eq!(device(16128), "net_af_packet0,iface=none0,framesz=16384,blocksz=32768");
        assert_eq!(pool_bytes(&port("net_af_packet0,iface=none0", 9216)), 10208);
    }

    #[test]
    fn a_ring_that_was_chosen_is_kept_or_refused() {
        let large = port("net_af_packet0,iface=none0,framesz=16384,blocksz=65536", 1518);
        assert_eq!(devargs(&large).unwrap(), large.device);
        assert_eq!(pool_bytes(&large), 16352);
        let small = port("net_af_packet0,framesz=2048,iface=none0", 1982);
        let error = devargs(&small).unwrap_err().to_string();
        assert!(error.contains("framesz=4096,blocksz=8192") && error.contains("mtu = 1981"), "{error}");
        assert!(devargs(&port("net_af_packet0,framesz=2048,iface=none0", 1981)).is_ok());
        let gaps = port("net_af_packet0,framesz=9296,blocksz=12288,iface=none0", 9216);
        assert!(devargs(&gaps).unwrap_err().to_string().contains("not a multiple"));
    }

    #[test]
    fn an_interface_has_one_switch() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("sys/class/net/w0/ifindex", "7\n");
        write("sys/class/net/w1/ifindex", "8\n");
        write(
            "proc/net/packet",
            "sk RefCnt Type Proto Iface R Rmem User Inode\n0000 3 3 0003 7 1 0 0 123\n0000 3 3 0003 8 1 0 0 124\n",
        );
        for (process, name, socket) in [(77, "weir", 123), (78, "tcpdump", 124)] {
            write(&format!("proc/{process}/comm"), &format!("{name}\n"));
            let files = root.path().join(format!("proc/{process}/fd"));
            std::fs::create_dir(&files).unwrap();
            std::os::unix::fs::symlink(format!("socket:[{socket}]"), files.join("5")).unwrap();
        }
        let machine = Machine::new(root.path());
        let is_free = |device: &str| is_free(&port(device, 1518), &machine);
        let taken = is_free("net_af_packet0,iface=w0").unwrap_err();
        assert!(format!("{taken:#}").contains("process 77"), "{taken:#}");
        for device in ["net_af_packet0,iface=w1", "net_af_packet0,iface=none", "net_tap0,iface=w0", "ring"] {
            assert!(is_free(device).is_ok(), "{device}");
        }
    }

    #[test]
    fn other_drivers_are_left_alone() {
        for device in ["net_tap0,iface=tap0", "ring", "0000:03:00.0"] {
            let port = port(device, 9216);
            assert_eq!(devargs(&port).unwrap(), device);
            assert_eq!(pool_bytes(&port), 9216);
        }
    }
}
