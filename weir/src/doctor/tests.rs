//! Machines made of a few files.

use super::*;
use std::os::unix::fs::symlink;
use tempfile::TempDir;
use weir_dataplane::config;

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
    config::load("t.toml", text).unwrap_or_else(|e| panic!("{e:?}")).config
}

const GOOD: &[(&str, &str)] = &[
    (
        "proc/meminfo",
        "MemTotal: 1 kB\nHugePages_Total:    1024\nHugePages_Free:      512\nHugepagesize:       2048 kB\n",
    ),
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
        ("proc/meminfo", "HugePages_Total: 0\n", "hugepages", Level::Fail),
        ("proc/meminfo", "", "hugepages", Level::Fail),
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
fn devices_without_a_driver_for_dpdk_fail() {
    let (root, machine) = machine(GOOD);
    assert_eq!(level(&examine(&machine, Some(&nic()), None), "driver"), Level::Fail);
    bind(&root, "ixgbe");
    let found = examine(&machine, Some(&nic()), None);
    assert!(found.iter().any(|f| f.remedy == "dpdk-devbind.py -b vfio-pci 0000:3b:00.0"), "{found:?}");
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
    let port = |name: &str, mode: &str| json!({ "port": name, "driver": "net_x", "pfc_mode": mode });
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
        assert!(examine(&machine, config, Some(&json!({ "ports": 3 }))).iter().all(|f| !line(f).is_empty()));
    }
    assert_eq!(list("0-2,7,x,9-"), [0, 1, 2, 7]);
}
