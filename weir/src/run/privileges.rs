//! What a switch or host that runs may do no longer: its devices and files are open, and what is done later takes few rights.

use super::devargs::address;
use crate::machine::Machine;
use crate::output::say_err;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use weir_config::{DeviceKind, PortConfig};
use weir_dpdk::privileges::{DAC_OVERRIDE, IPC_LOCK, NET_ADMIN, NET_RAW, SYS_NICE, give_up};

/// What devices are opened again with and interfaces changed: those of the unit (`contrib/systemd/weir@.service`).
const LATER: u64 = NET_ADMIN | NET_RAW | IPC_LOCK | SYS_NICE;

/// Drivers of virtual devices of which it is known that they want no more.
const KNOWN: [&str; 11] = [
    "net_af_packet",
    "eth_af_packet",
    "net_memif",
    "net_null",
    "eth_null",
    "net_pcap",
    "eth_pcap",
    "net_ring",
    "net_tap",
    "net_vhost",
    "eth_vhost",
];

/// Gives up, in all threads, what nobody needs once these ports are open, and says where some thread has its rights still. `files`:
/// those that are read or written later.
pub fn give_up_rest<'a>(ports: &'a [PortConfig], files: impl IntoIterator<Item = &'a Path>) {
    if let Err(error) = give_up(kept(ports, files, &Machine::here())) {
        say_err!("weir: {error}");
    }
}

/// Capabilities that are kept, a bit each: all, where it is not known what a driver wants later.
fn kept<'a>(ports: &'a [PortConfig], files: impl IntoIterator<Item = &'a Path>, machine: &Machine) -> u64 {
    if !ports.iter().all(|port| is_known(port, machine)) {
        return u64::MAX;
    }
    let sockets = ports.iter().flat_map(|port| port.device.split(',')).filter_map(|argument| {
        let path = Path::new(argument.split_once('=')?.1);
        path.is_absolute().then_some(path)
    });
    match files.into_iter().chain(sockets).any(is_of_others) {
        true => LATER | DAC_OVERRIDE,
        false => LATER,
    }
}

fn is_known(port: &PortConfig, machine: &Machine) -> bool {
    match port.kind {
        DeviceKind::Ring | DeviceKind::Inc => true,
        // Others want to look up physical addresses, or bring a driver of the kernel's along.
        DeviceKind::Pci => machine.driver(&address(&port.device)).as_deref() == Some("vfio-pci"),
        DeviceKind::Vdev => KNOWN.iter().any(|driver| port.device.starts_with(driver)),
    }
}

/// The file, or a folder on the way to it, is not our user's nor root's: without rights over files of others it may be out of reach.
fn is_of_others(path: &Path) -> bool {
    let owner = |path: &Path| std::fs::metadata(path).ok().map(|meta| meta.uid());
    let ours = [owner(Path::new("/proc/self")), Some(0)];
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.ancestors().filter_map(owner).any(|uid| !ours.contains(&Some(uid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(devices: &[&str]) -> Vec<PortConfig> {
        let port = |(i, device): (usize, &&str)| {
            format!("[[port]]\nname = \"p{i}\"\ndevice = {device:?}\nrate = \"1G\"\n")
        };
        let text: String = devices.iter().enumerate().map(port).collect();
        weir_config::load("t", &text).unwrap_or_else(|e| panic!("{e:?}")).config.ports
    }

    #[test]
    fn what_is_kept_is_what_drivers_and_files_take() {
        let root = tempfile::tempdir().unwrap();
        let device = |address: &str, driver: &str| {
            let folder = root.path().join("sys/bus/pci/devices").join(address);
            std::fs::create_dir_all(&folder).unwrap();
            std::os::unix::fs::symlink(format!("/drivers/{driver}"), folder.join("driver")).unwrap();
        };
        device("0000:3b:00.0", "vfio-pci");
        device("0000:3c:00.0", "mlx5_core");
        let machine = Machine::new(root.path());
        let kept =
            |devices: &[&str], files: &[&Path]| super::kept(&ports(devices), files.iter().copied(), &machine);
        let ours = [Path::new("/proc/self/status"), Path::new("/etc/passwd"), Path::new("/nowhere/s.json")];
        for devices in [
            &["ring", "net_null0"][..],
            &["net_af_packet0,iface=veth0", "0000:3b:00.0"],
            &["net_tap0,iface=t"],
        ] {
            assert_eq!(kept(devices, &ours), LATER, "{devices:?}");
        }
        for devices in [&["ring", "net_af_xdp0,iface=veth0"][..], &["0000:3c:00.0"]] {
            assert_eq!(kept(devices, &ours), u64::MAX, "{devices:?}");
        }
        // A file of somebody else's, as root.
        let theirs = root.path().join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        if std::os::unix::fs::chown(&theirs, Some(65_534), None).is_ok() {
            assert_eq!(kept(&["ring"], &[&theirs.join("leaf.toml")]), LATER | DAC_OVERRIDE);
            let socket = format!("net_memif0,role=server,socket={}/s,socket-abstract=no", theirs.display());
            assert_eq!(kept(&[&socket], &ours), LATER | DAC_OVERRIDE);
        }
    }
}
