//! `weir prepare`: what root does for a switch before it starts, and the unit before each start: hugepages, and drivers that
//! hand NICs to DPDK. What is in place stays as it is; nothing is taken back when the switch ends.

use crate::Outcome;
use crate::check;
use crate::doctor::{DPDK_DRIVERS, hugepage_mebibytes, pages_wanted};
use crate::machine::Machine;
use crate::output::{OUT, say};
use crate::refusal::refuse;
use crate::run::devargs::address;
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use weir_config::{Config, DeviceKind};

/// `weir prepare`
#[derive(Debug, Args)]
pub struct PrepareArgs {
    /// Configuration file.
    pub config: PathBuf,
    /// JSON.
    #[arg(short, long)]
    pub json: bool,
}

pub fn prepare(args: &PrepareArgs) -> Result<Outcome> {
    let config = check::load(&args.config)?.config;
    let done = on(&Machine::here(), &config)?;
    match args.json {
        true => OUT.json(&json!({ "done": done })),
        false => done.iter().for_each(|line| say!("{line}")),
    }
    Ok(Outcome::Good)
}

/// What was done.
fn on(machine: &Machine, config: &Config) -> Result<Vec<String>> {
    let mut done = Vec::new();
    // Before pages are taken from the machine: a device that is refused ends it.
    for port in config.ports.iter().filter(|port| port.kind == DeviceKind::Pci) {
        done.extend(bind(machine, &port.name, &address(&port.device))?);
    }
    done.extend(hugepages(machine, config)?);
    Ok(done)
}

/// Makes up the hugepages that are missing.
fn hugepages(machine: &Machine, config: &Config) -> Result<Option<String>> {
    let Some(mebibytes) = hugepage_mebibytes(config) else { return Ok(None) };
    let pages = machine.hugepages();
    let Some(smallest) = pages.first() else {
        let remedy =
            "boot one with CONFIG_HUGETLBFS, or set [eal] args = [\"--no-huge\"] where no NIC is used";
        return Err(refuse("hugepages", "this kernel has none", remedy));
    };
    let wanted = pages_wanted(&pages, mebibytes);
    if wanted == smallest.total {
        return Ok(None);
    }
    let folder = format!("sys/kernel/mm/hugepages/hugepages-{}kB", smallest.kibibytes);
    machine.set(&format!("{folder}/nr_hugepages"), &wanted.to_string())?;
    let there = machine.hugepages().first().map_or(0, |pages| pages.total);
    if there < wanted {
        let what = format!(
            "{wanted} of {} KiB are wanted and the kernel made {there}: memory is short or in pieces",
            smallest.kibibytes
        );
        let remedy = format!("reserve them at boot (hugepages={wanted}), or choose a smaller [buffer]");
        return Err(refuse("hugepages", what, remedy));
    }
    Ok(Some(format!("hugepages of {} KiB: {} -> {there}", smallest.kibibytes, smallest.total)))
}

/// Hands a device to DPDK, if it is not yet.
fn bind(machine: &Machine, port: &str, address: &str) -> Result<Option<String>> {
    const VFIO: &str = "vfio-pci";
    let wrong = |what: String, remedy: &str| refuse(format!("port {port}"), what, remedy);
    let device = format!("sys/bus/pci/devices/{address}");
    if !machine.exists(&device) {
        return Err(wrong(format!("there is no device {address}"), "lspci lists what there is"));
    }
    let driver = machine.driver(address);
    if driver.as_deref().is_some_and(|driver| DPDK_DRIVERS.contains(&driver)) {
        return Ok(None);
    }
    // A slip of the pen must not take a disk from the machine.
    if !machine.is_nic(address) {
        return Err(wrong(format!("{address} is not a network device"), "lspci lists what there is"));
    }
    // Whoever uses it, perhaps to reach this machine, has to let go of it first.
    if let Some(interface) = machine.interfaces(address).iter().find(|interface| machine.is_up(interface)) {
        let remedy = format!("ip link set {interface} down, and have no network manager bring it up again");
        return Err(wrong(format!("{address} is {interface}, which is up"), &remedy));
    }
    if !machine.exists(&format!("sys/bus/pci/drivers/{VFIO}")) {
        return Err(wrong(format!("the kernel has not loaded {VFIO}"), &format!("modprobe {VFIO}")));
    }
    machine.set(&format!("{device}/driver_override"), VFIO)?;
    if driver.is_some() {
        machine.set(&format!("{device}/driver/unbind"), address)?;
    }
    let probe = || machine.set("sys/bus/pci/drivers_probe", address);
    let probed = probe();
    let was = driver.as_deref().unwrap_or("nothing");
    if machine.driver(address).as_deref() != Some(VFIO) {
        // The driver it had gets it back. An empty line is no override.
        machine.set(&format!("{device}/driver_override"), "\n").and_then(|()| probe())?;
        probed?;
        let what = format!("{VFIO} does not take {address}, which {was} had");
        return Err(wrong(what, "dmesg says why (no IOMMU? weir doctor CONFIG)"));
    }
    Ok(Some(format!("port {port}: {address} bound to {VFIO}, before to {was}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    const DEVICE: &str = "sys/bus/pci/devices/0000:3b:00.0";
    const PAGES: &str = "sys/kernel/mm/hugepages/hugepages-2048kB";

    /// A machine with a NIC that `driver` has.
    struct Made(TempDir);

    impl Made {
        fn new(driver: &str) -> Self {
            let made = Self(tempfile::tempdir().unwrap());
            for (path, text) in [
                (&*format!("{PAGES}/nr_hugepages"), "4096"),
                (&*format!("{PAGES}/free_hugepages"), "4096"),
                (&*format!("{DEVICE}/driver_override"), "(null)"),
                (&*format!("{DEVICE}/class"), "0x020000"),
                (&*format!("{DEVICE}/net/eth7/x"), ""),
                ("sys/class/net/eth7/flags", "0x1002"),
                ("sys/bus/pci/drivers/ixgbe/unbind", ""),
                ("sys/bus/pci/drivers/vfio-pci/unbind", ""),
                ("sys/bus/pci/drivers_probe", ""),
            ] {
                made.write(path, text);
            }
            symlink(format!("../../drivers/{driver}"), made.0.path().join(DEVICE).join("driver")).unwrap();
            made
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn read(&self, path: &str) -> String {
            std::fs::read_to_string(self.0.path().join(path)).unwrap()
        }

        fn prepared(&self) -> Result<Vec<String>, String> {
            let text = "[[port]]\nname = \"a\"\ndevice = \"3b:00.0\"\nrate = \"25G\"\nlcore = 2\ncable = \"5m\"\n\
                        [[port]]\nname = \"b\"\ndevice = \"ring\"\nlcore = 3\n";
            let config = weir_config::load("t.toml", text).unwrap_or_else(|e| panic!("{e:?}")).config;
            on(&Machine::new(self.0.path()), &config).map_err(|error| format!("{error:#}"))
        }
    }

    #[test]
    fn what_is_in_place_stays() {
        for driver in DPDK_DRIVERS {
            let made = Made::new(driver);
            assert_eq!(made.prepared(), Ok(vec![]), "{driver}");
            assert_eq!(made.read(&format!("{DEVICE}/driver_override")), "(null)");
        }
    }

    #[test]
    fn missing_hugepages_are_made_up() {
        let made = Made::new("vfio-pci");
        made.write(&format!("{PAGES}/nr_hugepages"), "10");
        made.write(&format!("{PAGES}/free_hugepages"), "0");
        let done = made.prepared().unwrap();
        let pages: u64 = made.read(&format!("{PAGES}/nr_hugepages")).parse().unwrap();
        assert!(pages > 10, "those in use stay with whoever has them");
        assert_eq!(done, [format!("hugepages of 2048 KiB: 10 -> {pages}")]);
    }

    /// The files of a made-up machine do what they are told and nothing more: here no driver comes.
    #[test]
    fn a_device_is_taken_from_its_driver_and_offered_to_vfio() {
        let made = Made::new("ixgbe");
        let refused = made.prepared().unwrap_err();
        assert!(refused.contains("vfio-pci does not take 0000:3b:00.0, which ixgbe had"), "{refused}");
        assert_eq!(made.read(&format!("{DEVICE}/driver_override")), "\n", "its own driver may have it back");
        assert_eq!(made.read("sys/bus/pci/drivers/ixgbe/unbind"), "0000:3b:00.0");
        assert_eq!(made.read("sys/bus/pci/drivers_probe"), "0000:3b:00.0");
    }

    #[test]
    fn an_interface_in_use_is_left_alone() {
        let made = Made::new("ixgbe");
        made.write("sys/class/net/eth7/flags", "0x1003");
        made.write(&format!("{PAGES}/free_hugepages"), "0");
        let refused = made.prepared().unwrap_err();
        assert!(refused.contains("ip link set eth7 down"), "{refused}");
        assert_eq!(made.read("sys/bus/pci/drivers/ixgbe/unbind"), "");
        assert_eq!(made.read(&format!("{PAGES}/nr_hugepages")), "4096", "nothing else was done either");
    }

    #[test]
    fn an_interface_of_a_virtio_nic_is_left_alone_too() {
        let made = Made::new("virtio-pci");
        let device = made.0.path().join(DEVICE);
        std::fs::create_dir(device.join("virtio0")).unwrap();
        std::fs::rename(device.join("net"), device.join("virtio0/net")).unwrap();
        made.write("sys/class/net/eth7/flags", "0x1003");
        let refused = made.prepared().unwrap_err();
        assert!(refused.contains("ip link set eth7 down"), "{refused}");
    }

    #[test]
    fn what_is_no_nic_is_left_alone() {
        let made = Made::new("ixgbe");
        made.write(&format!("{DEVICE}/class"), "0x010802\n");
        let refused = made.prepared().unwrap_err();
        assert!(refused.contains("0000:3b:00.0 is not a network device"), "{refused}");
        assert_eq!(made.read("sys/bus/pci/drivers/ixgbe/unbind"), "");
        assert_eq!(made.read(&format!("{DEVICE}/driver_override")), "(null)");
    }

    #[test]
    fn what_cannot_be_is_said() {
        let made = Made::new("ixgbe");
        std::fs::remove_dir_all(made.0.path().join("sys/bus/pci/drivers/vfio-pci")).unwrap();
        assert!(made.prepared().unwrap_err().contains("modprobe vfio-pci"));
        std::fs::remove_dir_all(made.0.path().join(DEVICE)).unwrap();
        assert!(made.prepared().unwrap_err().contains("there is no device 0000:3b:00.0"));
    }
}
