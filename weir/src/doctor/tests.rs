//! Machines made of a few files.

use super::*;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// A folder with these files.
fn machine(files: &[(&str, &str)]) -> (TempDir, Machine) {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let machine = Machine::new(root.path());
    (root, machine)
}

fn nic() -> Config {
    let text = "[[port]]\nname = \"a\"\ndevice = \"3b:00.0\"\nrate = \"25G\"\nlcore = 2\ncable = \"5m\"\n\
                [[port]]\nname = \"b\"\ndevice = \"ring\"\nlcore = 3\n[qos]\npreset = \"roce-lossless\"\n";
    weir_config::load("t.toml", text).unwrap_or_else(|e| panic!("{e:?}")).config
}

const GOOD: &[(&str, &str)] = &[
    ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "4096\n"),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "4096\n"),
    ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
    ("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0\n"),
    ("proc/self/limits", "Max locked memory         unlimited            unlimited            bytes\n"),
    ("proc/self/status", "Cpus_allowed_list:\t0-7\n"),
    ("proc/cpuinfo", "flags : constant_tsc nonstop_tsc\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/devices/system/cpu/isolated", "2-3\n"),
    ("sys/devices/system/cpu/nohz_full", "2,3\n"),
    ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2,6\n"),
    ("sys/devices/system/cpu/cpu2/node0/x", ""),
    ("sys/devices/system/node/node0/x", ""),
    ("sys/bus/pci/devices/0000:3b:00.0/numa_node", "0\n"),
    ("sys/bus/pci/drivers/vfio-pci/x", ""),
    ("sys/kernel/iommu_groups/1/x", ""),
    ("proc/irq/30/smp_affinity_list", "0-1\n"),
    ("proc/irq/30/eth0/x", ""),
];

fn bind(root: &TempDir, driver: &str) {
    let link = root.path().join("sys/bus/pci/devices/0000:3b:00.0/driver");
    let _ = std::fs::remove_file(&link);
    symlink(format!("../../drivers/{driver}"), link).unwrap();
}

fn level(found: &[Finding], what: &str) -> Level {
    found
        .iter()
        .filter(|f| f.what == what)
        .map(|f| f.level)
        .max()
        .unwrap_or_else(|| panic!("{what}: {found:?}"))
}

#[test]
fn a_machine_that_is_well_set_up_has_nothing_to_say_but_of_its_driver() {
    let (root, machine) = machine(GOOD);
    bind(&root, "vfio-pci");
    let found = examine(&machine, Some(&nic()), None);
    let bad: Vec<_> = found.iter().filter(|f| f.level > Level::Ok).collect();
    // Whether software sees PFC only the running driver knows.
    assert!(bad.len() == 1 && bad[0].what == "pfc", "{bad:?}");
    assert!(found.iter().all(|f| (f.level == Level::Ok) == f.remedy.is_empty()), "{found:?}");
}

#[test]
fn each_fault_is_found_and_has_its_remedy() {
    for (path, text, what, want) in [
        ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "8\n", "hugepages", Level::Fail),
        ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "", "hugepages", Level::Fail),
        ("proc/self/limits", "Max locked memory         65536  65536 bytes\n", "memory lock", Level::Fail),
        ("proc/self/status", "Cpus_allowed_list:\t0-1\n", "cores", Level::Fail),
        ("sys/devices/system/cpu/isolated", "\n", "isolation", Level::Warn),
        ("sys/devices/system/cpu/nohz_full", "(null)\n", "ticks", Level::Warn),
        ("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave\n", "governor", Level::Warn),
        ("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2-3\n", "siblings", Level::Warn),
        ("proc/irq/30/smp_affinity_list", "0-3\n", "interrupts", Level::Warn),
    ] {
        let mut files = GOOD.to_vec();
        files.retain(|(other, _)| *other != path);
        files.push((path, text));
        let (root, machine) = machine(&files);
        bind(&root, "vfio-pci");
        let found = examine(&machine, Some(&nic()), None);
        assert_eq!(level(&found, what), want, "{path}");
        assert!(found.iter().filter(|f| f.what == what).any(|f| !f.remedy.is_empty()), "{path}");
    }
}

#[test]
fn rights_that_lack_for_an_interface_of_the_kernel_fail() {
    let text = "[[port]]\nname = \"a\"\ndevice = \"net_af_packet0,iface=veth0\"\nrate = \"1G\"\n";
    let config = weir_config::load("t.toml", text).unwrap_or_else(|e| panic!("{e:?}")).config;
    for (held, lacks) in [("0000000000000000", true), ("0000000000002000", false)] {
        let status = format!("Cpus_allowed_list:\t0-7\nCapEff:\t{held}\n");
        let (_root, machine) = machine(&[("proc/self/status", &status)]);
        let found = examine(&machine, Some(&config), None);
        let rights = found.iter().find(|f| f.what == "rights");
        assert_eq!(rights.map(|f| f.level), lacks.then_some(Level::Fail), "{held}: {found:?}");
    }
}

#[test]
fn devices_without_a_driver_for_dpdk_fail() {
    let (root, machine) = machine(GOOD);
    assert_eq!(level(&examine(&machine, Some(&nic()), None), "driver"), Level::Fail);
    bind(&root, "ixgbe");
    let found = examine(&machine, Some(&nic()), None);
    assert!(
        found.iter().any(|f| f.remedy.ends_with("dpdk-devbind.py -b vfio-pci 0000:3b:00.0")),
        "{found:?}"
    );
    std::fs::remove_dir_all(root.path().join("sys/bus/pci/devices")).unwrap();
    assert!(examine(&machine, Some(&nic()), None).iter().any(|f| f.text.contains("no such device")));
}

#[test]
fn two_nodes_and_a_clock_that_wanders_are_told() {
    let mut files = GOOD.to_vec();
    files.retain(|(path, _)| {
        !path.contains("clocksource") && !path.contains("cpuinfo") && !path.contains("numa_node")
    });
    files.extend([
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
        ("sys/devices/system/node/node1/x", ""),
        ("sys/bus/pci/devices/0000:3b:00.0/numa_node", "1\n"),
    ]);
    let (root, machine) = machine(&files);
    bind(&root, "vfio-pci");
    let found = examine(&machine, Some(&nic()), None);
    assert_eq!((level(&found, "clock"), level(&found, "numa")), (Level::Warn, Level::Warn));
}

#[test]
fn a_running_switch_knows_its_cores_and_what_its_drivers_show() {
    let (_root, machine) = machine(GOOD);
    let port = |name: &str, mode: &str| json!({ "port": name, "driver": "net_x", "pfc_mode": mode, "pfc_frames": "so" });
    let ports = [port("a", "software"), port("b", "not seen by software"), port("c", "off")];
    let running = json!({ "lcores": [{ "lcore": 2 }], "ports": ports });
    let found = examine(&machine, None, Some(&running));
    let pfc: Vec<_> = found.iter().filter(|f| f.what == "pfc").map(|f| f.level).collect();
    assert_eq!(pfc, [Level::Ok, Level::Warn, Level::Ok]);
    assert_eq!(level(&found, "isolation"), Level::Ok);
}

#[test]
fn an_empty_machine_is_no_reason_to_panic() {
    let (_root, machine) = machine(&[]);
    for config in [None, Some(&nic())] {
        assert!(
            examine(&machine, config, Some(&json!({ "ports": 3 })))
                .iter()
                .all(|f| !table(std::slice::from_ref(f)).is_empty())
        );
    }
    assert_eq!(list("0-2,7,x,9-"), [0, 1, 2, 7]);
}

#[test]
fn hugepages_are_compared_with_what_the_configuration_takes() {
    let (_root, machine) = machine(GOOD);
    let one = |config: Option<&Config>| hugepages(&machine, config);
    let needed = hugepage_mebibytes(&nic()).expect("a NIC");
    let found = one(Some(&nic()));
    assert_eq!(
        (found.level, found.text.contains(&format!("takes {needed} MiB"))),
        (Level::Ok, true),
        "{found:?}"
    );
    let more = weir_config::load(
        "t.toml",
        "[[port]]\nname = \"a\"\ndevice = \"3b:00.0\"\nrate = \"1G\"\n[buffer]\nsize = \"1GiB\"\n",
    );
    let more = more.unwrap_or_else(|e| panic!("{e:?}")).config;
    let pages = 4096 + (hugepage_mebibytes(&more).unwrap() - 8192).div_ceil(2);
    let found = one(Some(&more));
    assert_eq!(found.level, Level::Fail, "{found:?}");
    assert!(found.remedy.starts_with(&format!("sysctl vm.nr_hugepages={pages} ")), "{found:?}");
    let ring = weir_config::load("t.toml", "[[port]]\nname = \"a\"\ndevice = \"ring\"\n").unwrap().config;
    assert_eq!((hugepage_mebibytes(&ring), one(Some(&ring)).level), (None, Level::Ok));
}

#[test]
fn the_mtu_of_a_port_is_compared_with_what_the_kernel_calls_so() {
    let (_root, machine) = machine(&[("sys/class/net/veth0/mtu", "1500\n")]);
    let of = |mtu: u16| {
        let text = format!(
            "[[port]]\nname = \"a\"\ndevice = \"net_af_packet0,iface=veth0\"\nrate = \"1G\"\nmtu = {mtu}\n"
        );
        let config = weir_config::load("t.toml", &text).unwrap_or_else(|e| panic!("{e:?}")).config;
        mtus(&machine, Some(&config)).remove(0)
    };
    for (mtu, level, remedy) in [
        (9216, Level::Fail, "ip link set veth0 mtu 9198, or mtu = 1518: it loses longer frames"),
        (1518, Level::Ok, ""),
        (1514, Level::Ok, ""),
        (1500, Level::Warn, "mtu = 1518, or ip link set veth0 mtu 1486: longer frames are dropped"),
    ] {
        let found = of(mtu);
        assert_eq!((found.level, found.remedy.as_str()), (level, remedy), "{found:?}");
    }
}

#[test]
fn a_nic_without_a_kernel_interface_is_not_sent_to_the_kernels_tools() {
    let (_root, machine) = machine(&[("sys/bus/pci/devices/0000:3b:00.0/net/eth7/x", "")]);
    assert!(remedy(&machine, "0000:3b:00.0").contains("dcb pfc set dev eth7"));
    assert!(!remedy(&machine, "0000:3b:00.1").contains("dcb"));
}
