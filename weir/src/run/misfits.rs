//! What a configuration asks for and this machine does not have, known before DPDK is asked, whose words for it are many. `check` tells
//! all of it, a start the first.

use super::{af_packet, devargs, sockets};
use crate::machine::Machine;
use crate::refusal::{at, refuse};
use anyhow::Error;
use std::path::Path;
use weir_config::{Cpus, DeviceKind, Lcores, PortConfig};
use weir_dpdk::{MAX_PORTS, args};
use weir_sim::file::can_put;

/// Where a refusal is that lies in EAL arguments.
const EAL: &str = "eal.args";

/// What there is not, each with its place and what to change. `args`: all EAL arguments.
pub fn misfits(ports: &[PortConfig], args: &[String], machine: &Machine) -> Vec<Error> {
    let arguments = arguments(args, machine).err().into_iter();
    let lcores = arguments.chain(lcores(ports, args, machine).err());
    let devices = ports.iter().filter_map(|port| at(named(port), device(port, ports, machine)).err());
    lcores.chain(too_many(ports)).chain(devices).collect()
}

/// Arguments that start no switch, which DPDK says in words of its own or not at all.
fn arguments(args: &[String], machine: &Machine) -> Result<(), Error> {
    if let Some(help) = args.iter().find(|arg| matches!(arg.as_str(), "-h" | "--help" | "-v" | "--version")) {
        let what = format!("`{help}` has DPDK write a text and end");
        return Err(refuse(EAL, what, "leave it out; dpdk-testpmd -h lists DPDK's options"));
    }
    if args::value(args, "--proc-type") == Some("secondary") {
        let what = "--proc-type=secondary runs in the memory of another process, and a switch has its own";
        return Err(refuse(EAL, what, "leave it out"));
    }
    if let Some(prefix) =
        args::value(args, "--file-prefix").filter(|prefix| prefix.contains('/') || prefix.is_empty())
    {
        let what = format!("--file-prefix={prefix} is no name of a folder");
        return Err(refuse(EAL, what, "write one without `/`, e.g. --file-prefix=leaf1"));
    }
    let pages = machine.hugepages();
    if args::wants_hugepages(args) && !pages.is_empty() && pages.iter().all(|pages| pages.total == 0) {
        let remedy = "reserve some (sysctl vm.nr_hugepages=512, or weir prepare CONFIG), or add --no-huge";
        return Err(refuse(EAL, "these arguments take hugepages, and there are none", remedy));
    }
    Ok(())
}

/// More ports than DPDK was built for. A pair of rings is two of them.
fn too_many(ports: &[PortConfig]) -> Option<Error> {
    let of_rings =
        ports.iter().filter(|port| matches!(port.kind, DeviceKind::Ring | DeviceKind::Inc)).count();
    let all = ports.len() + of_rings;
    (all > MAX_PORTS).then(|| {
        let what = format!(
            "{} ports are {all} of DPDK's, of which there can be {MAX_PORTS}: `ring` and `inc` are two each",
            ports.len()
        );
        refuse(
            "[[port]]",
            what,
            "leave some out, name NICs in place of rings, or build DPDK with a larger RTE_MAX_ETHPORTS",
        )
    })
}

/// A port, for people.
pub fn named(port: &PortConfig) -> String {
    format!("port {} ({})", port.name, port.device)
}

/// CPUs for all lcores, and a worker for each CPU that ports are to be served by.
fn lcores(ports: &[PortConfig], args: &[String], machine: &Machine) -> Result<(), Error> {
    let lcores = match weir_config::lcores(args) {
        Some(lcores) => lcores,
        None if args::places_lcores(args) => return Ok(()),
        None => match machine.allowed_cpus() {
            unknown if unknown.is_empty() => return Ok(()),
            cpus => Lcores::one_for_each(cpus.into_iter().map(|cpu| cpu as u64)),
        },
    };
    let there = |cpu: &u64| machine.exists(&format!("sys/devices/system/cpu/cpu{cpu}"));
    let missing: Vec<u64> = lcores.all().into_iter().filter(|cpu| !there(cpu)).collect();
    if !missing.is_empty() {
        let online = machine.text("sys/devices/system/cpu/online").unwrap_or_default();
        let what =
            format!("lcores on CPUs {missing:?}, which are not there: this machine has {}", online.trim());
        return Err(refuse(EAL, what, "name CPUs of this machine, or leave lcores out"));
    }
    let workers: Cpus = lcores.of_workers();
    let Some(&first) = lcores.workers.first().and_then(Cpus::first) else {
        let main: Vec<u64> = lcores.main.into_iter().collect();
        let what = format!("no worker lcore: the only one, on CPUs {main:?}, is DPDK's main lcore");
        return Err(refuse(EAL, what, "give it one, e.g. --lcores=0@0,1@0 or -l 0-1"));
    };
    let mut asked = Vec::new();
    for port in ports {
        let cpu = port.lcore.map_or(first, u64::from);
        if !workers.contains(&cpu) {
            let what = format!("lcore = {cpu}, but workers can run on CPUs {workers:?}");
            return Err(refuse(
                format!("port {}", port.name),
                what,
                "choose one of these, or extend [eal] args",
            ));
        }
        if !asked.contains(&cpu) {
            asked.push(cpu);
        }
    }
    match lcores.unplaced(asked) {
        Some(cpu) => {
            let what = format!("no idle worker lcore on core {cpu}: each CPU with ports takes one");
            Err(refuse(EAL, what, "give each such CPU an lcore of its own, e.g. --lcores=0@0,1@0,2@1"))
        }
        None => Ok(()),
    }
}

/// The device of a port.
fn device(port: &PortConfig, all: &[PortConfig], machine: &Machine) -> Result<(), Error> {
    match port.kind {
        DeviceKind::Pci => {
            let address = devargs::address(&port.device);
            if !machine.exists(&format!("sys/bus/pci/devices/{address}")) {
                return Err(refuse("", "no such PCI device is here", "`weir doctor` lists those there are"));
            }
        }
        DeviceKind::Vdev => {
            let interface = af_packet::interface(port);
            if interface.is_some() && machine.has_foreign_sysfs() {
                return Err(refuse(
                    "",
                    "/sys shows the interfaces of another network namespace than this one",
                    "start it by `ip netns exec`, or mount one of this namespace first (unshare --mount; mount -t sysfs none /sys)",
                ));
            }
            if let Some(interface) = interface
                && !machine.exists(&format!("sys/class/net/{interface}"))
            {
                let what = format!("no interface {interface} is here");
                return Err(refuse(
                    "",
                    what,
                    "make it first (ip link add), or name one that `ip link` shows",
                ));
            }
            let file = devargs::argument(&port.device, &["net_pcap", "eth_pcap"], "rx_pcap");
            if let Some(file) = file.filter(|file| !Path::new(file).is_file()) {
                let what = match Path::new(file).exists() {
                    true => format!("{file} is no file"),
                    false => format!("no file {file} is here"),
                };
                return Err(refuse("", what, "name a capture that is there"));
            }
            let file = devargs::argument(&port.device, &["net_pcap", "eth_pcap"], "tx_pcap");
            if let Some((file, error)) = file.and_then(|file| Some((file, can_put(Path::new(file)).err()?))) {
                let what = format!("{file} cannot be written: {error}");
                return Err(refuse("", what, "name a file in a folder that is there"));
            }
            if let Some(server) = sockets::missing_server(&port.device, all, machine) {
                let what = format!("no memif server listens at {server}, and a client tries once");
                return Err(refuse(
                    "",
                    what,
                    "start the other side first, or make this one the server (role=server)",
                ));
            }
            af_packet::fits(port, machine)?;
            sockets::fits(port)?;
        }
        DeviceKind::Ring | DeviceKind::Inc => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with CPUs 0, 1 and 4 and the interface `eth0`, whose MTU is 1500.
    fn machine() -> (tempfile::TempDir, Machine) {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for cpu in [0, 1, 4] {
            write(&format!("sys/devices/system/cpu/cpu{cpu}/online"), "1\n");
        }
        write("sys/devices/system/cpu/online", "0-1,4\n");
        write("proc/self/status", "Cpus_allowed_list:\t0-1\nCapEff:\t0000003fffffffff\n");
        write("sys/class/net/eth0/mtu", "1500\n");
        let machine = Machine::new(folder.path());
        (folder, machine)
    }

    fn told(ports: &str, args: &[&str]) -> Vec<String> {
        let (_folder, machine) = machine();
        let ports = weir_config::load("test", ports).unwrap_or_else(|e| panic!("{e:?}")).config.ports;
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        misfits(&ports, &args, &machine).iter().map(|error| format!("{error:#}")).collect()
    }

    fn port(name: &str, device: &str, more: &str) -> String {
        format!("[[port]]\nname = {name:?}\ndevice = {device:?}\nrate = \"1G\"\n{more}\n")
    }

    #[test]
    fn interfaces_of_another_namespace_are_told_from_none() {
        let (folder, machine) = machine();
        let file = format!("{}mtu = 1518\n", port("a", "net_af_packet0,iface=veth0", ""));
        let ports = weir_config::load("test", &file).unwrap_or_else(|e| panic!("{e:?}")).config.ports;
        let told = || {
            misfits(&ports, &["-l".into(), "0-1".into()], &machine)
                .iter()
                .map(|error| format!("{error:#}"))
                .collect::<String>()
        };
        assert!(told().contains("no interface veth0 is here"), "{}", told());
        let names = |names: &str| {
            let rows: String = names.split(' ').map(|name| format!("{name}: 0 0\n")).collect();
            std::fs::create_dir_all(folder.path().join("proc/net")).unwrap();
            std::fs::write(folder.path().join("proc/net/dev"), format!("Inter-|\n face |\n{rows}")).unwrap();
        };
        names("eth0");
        assert!(told().contains("no interface veth0 is here"), "{}", told());
        names("  eth0 veth0");
        assert!(told().contains("of another network namespace"), "{}", told());
    }

    #[test]
    fn lcores_are_on_cpus_that_are_there_and_each_worker_has_one() {
        let ring = port("a", "ring", "");
        for good in
            [&["-l", "0-1,4"][..], &["--lcores", "0@(0,1),1@4"], &["-l", "0-9", "-l", "0,4"], &["-l"], &[]]
        {
            assert_eq!(told(&ring, good), [""; 0], "{good:?}");
        }
        for (args, words) in [
            (&["--no-huge", "-l", "0-3"][..], "CPUs [2, 3], which are not there: this machine has 0-1,4"),
            (&["--lcores=0@(0,7),1@1"], "CPUs [7]"),
            (&["--lcores=0@0"], "no worker lcore"),
        ] {
            let told = told(&ring, args);
            assert!(told.len() == 1 && told[0].contains(words), "{args:?}: {told:?}");
        }
        let two = format!("{}{}", port("a", "ring", "lcore = 0"), port("b", "ring", "lcore = 1"));
        assert_eq!(told(&two, &[]), [""; 0]);
        assert!(told(&two, &["--lcores=0@(0,1),1@(0,1)"])[0].contains("no idle worker lcore on core 1"));
        let beyond = port("a", "ring", "lcore = 4");
        assert!(told(&beyond, &[])[0].contains("lcore = 4, but workers can run on CPUs {0, 1}"));
    }

    #[test]
    fn arguments_that_start_no_switch_are_told() {
        let (folder, machine) = machine();
        let told = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            arguments(&args, &machine).map_err(|error| format!("{error:#}")).err().unwrap_or_default()
        };
        for (args, words) in [
            (&["-h"][..], "has DPDK write a text"),
            (&["--no-huge", "--proc-type=secondary"], "a switch has its own"),
            (&["--file-prefix", "a/b"], "without `/`"),
        ] {
            assert!(told(args).contains(words), "{args:?}: {}", told(args));
        }
        // Where the system does not tell, DPDK has to.
        assert_eq!(told(&["--huge-dir=/dev/hugepages"]), "");
        let pages = folder.path().join("sys/kernel/mm/hugepages/hugepages-2048kB");
        std::fs::create_dir_all(&pages).unwrap();
        for (total, words) in [("0", "vm.nr_hugepages"), ("4", "")] {
            std::fs::write(pages.join("nr_hugepages"), total).unwrap();
            std::fs::write(pages.join("free_hugepages"), total).unwrap();
            let told = told(&["--huge-dir=/dev/hugepages"]);
            assert!(told.contains(words) && told.is_empty() == words.is_empty(), "{told}");
        }
        for good in [&["--no-huge", "--file-prefix=leaf1"][..], &["--proc-type=primary", "--no-huge"], &[]] {
            assert_eq!(told(good), "", "{good:?}");
        }
    }

    #[test]
    fn dpdk_has_room_for_all_ports_of_which_rings_are_two() {
        let ports = |count: usize, device: &str| -> String {
            (0..count).map(|n| port(&format!("p{n}"), &device.replace('N', &n.to_string()), "")).collect()
        };
        for (count, device) in [(MAX_PORTS, "net_nullN"), (MAX_PORTS / 2, "ring")] {
            assert_eq!(told(&ports(count, device), &[]), [""; 0]);
            let told = told(&ports(count + 1, device), &[]);
            assert!(told.len() == 1 && told[0].contains(&format!("can be {MAX_PORTS}")), "{told:?}");
        }
    }

    #[test]
    fn devices_are_there_and_carry_the_longest_frame() {
        let all = [
            port("a", "net_af_packet0,iface=eth0", "mtu = 1518"),
            port("b", "net_af_packet1,iface=eth0.1", ""),
            port("c", "0000:3b:00.0", ""),
            port("d", "net_pcap0,rx_pcap=/nowhere/in.pcap", ""),
            port("e", "net_null0", ""),
            port("f", "net_pcap1,rx_pcap=/proc/self/fd", ""),
            port("g", "net_pcap2,tx_pcap=/nowhere/out.pcap", ""),
            port("h", "net_memif0,role=client,socket=/nowhere/m.sock,socket-abstract=no", ""),
            port("i", "net_vhost0,iface=/nowhere/v.sock", ""),
            port("j", "net_memif1,role=server,socket=/nowhere/s.sock,socket-abstract=no", ""),
            port("k", &format!("net_vhost1,iface=/tmp/{},client=1", "x".repeat(103)), ""),
            port("l", &format!("net_vhost2,iface=/tmp/{}", "x".repeat(102)), ""),
        ];
        let told = told(&all.concat(), &[]);
        let words = [
            "port b (net_af_packet1,iface=eth0.1): no interface eth0.1",
            "port c (0000:3b:00.0)",
            "/nowhere/in.pcap",
            "/proc/self/fd is no file",
            "/nowhere/out.pcap cannot be written",
            "no memif server listens at /nowhere/m.sock",
            "port i (net_vhost0,iface=/nowhere/v.sock): no folder /nowhere is here",
            "port j (net_memif1,role=server,socket=/nowhere/s.sock,socket-abstract=no): no folder /nowhere",
            "the socket's name has 108 bytes, and can have 107",
        ];
        assert_eq!(told.len(), words.len(), "{told:?}");
        for (told, words) in told.iter().zip(words) {
            assert!(told.contains(words), "{words}: {told}");
        }
        let long = self::told(&port("a", "net_af_packet0,iface=eth0", "mtu = 1519"), &[]);
        assert!(long.len() == 1 && long[0].contains("mtu = 1518"), "{long:?}");
    }
}
