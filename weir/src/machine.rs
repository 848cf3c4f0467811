//! Reads `/proc` and `/sys`, or a folder that looks like them.

use anyhow::Context;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A machine, by the folder its files are in.
#[derive(Debug)]
pub struct Machine {
    root: PathBuf,
}

/// Hugepages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hugepages {
    /// The size.
    pub kibibytes: u64,
    /// How many there are.
    pub total: u64,
    /// How many nobody has.
    pub free: u64,
}

/// `0-3,8` as numbers; what is no number is left out.
pub fn list(text: &str) -> Vec<usize> {
    let one = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.trim().parse().ok().zip(last.trim().parse().ok());
        range.map_or(0..0, |(first, last): (usize, usize)| first..last.min(first + 4096) + 1)
    };
    text.split(',').flat_map(one).collect()
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        Self::new(Path::new("/"))
    }

    /// The one whose root folder this is.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The text of a file, if it can be read.
    pub fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(path)).ok()
    }

    /// Writes into a file that is there: a setting of the kernel.
    ///
    /// # Errors
    /// The kernel's own, with the path.
    pub fn set(&self, path: &str, text: &str) -> anyhow::Result<()> {
        let path = self.root.join(path);
        let file = std::fs::OpenOptions::new().write(true).truncate(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write `{text}` to {}", path.display()))
    }

    /// There is such a file or folder.
    pub fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Names in a folder, in order; none if it cannot be read.
    pub fn entries(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Hugepages of each size the machine knows, smallest first.
    pub fn hugepages(&self) -> Vec<Hugepages> {
        const FOLDER: &str = "sys/kernel/mm/hugepages";
        let of = |name: String| {
            let number = |file: &str| self.text(&format!("{FOLDER}/{name}/{file}"))?.trim().parse().ok();
            let kibibytes = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            Some(Hugepages { kibibytes, total: number("nr_hugepages")?, free: number("free_hugepages")? })
        };
        let mut found: Vec<_> = self.entries(FOLDER).into_iter().filter_map(of).collect();
        found.sort_by_key(|pages| pages.kibibytes);
        found
    }

    /// Bytes of memory this process may have beside hugepages, whoever has them now: those of the machine, or the lowest limit
    /// of a control group it is in.
    pub fn memory(&self) -> Option<u64> {
        let text = self.text("proc/meminfo")?;
        let line = |key: &str| {
            text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
        };
        let total: u64 = line("MemTotal:")?;
        let all = (total - line("Hugetlb:").unwrap_or(0).min(total)) << 10;
        let groups = self.text("proc/self/cgroup").unwrap_or_default();
        let limits = groups.lines().flat_map(|line| {
            // Version 2 has one hierarchy, version 1 one for memory.
            let (place, file, own) = match line.split_once(":memory:/") {
                Some((_, own)) => ("memory/", "memory.limit_in_bytes", own),
                None => ("", "memory.max", line.strip_prefix("0::/")?),
            };
            let limit = move |group: &Path| {
                self.text(&format!("sys/fs/cgroup/{place}{}/{file}", group.display()))?.trim().parse().ok()
            };
            Some(Path::new(own).ancestors().filter_map(limit))
        });
        limits.flatten().chain([all]).min()
    }

    /// What a line of this process's status says.
    fn status(&self, key: &str) -> Option<String> {
        let text = self.text("proc/self/status")?;
        text.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned())
    }

    /// CPUs this process may run on, as far as the system tells.
    pub fn allowed_cpus(&self) -> Vec<usize> {
        self.status("Cpus_allowed_list:").as_deref().map(list).unwrap_or_default()
    }

    /// Capabilities this process has, a bit each (capabilities(7)), as far as the system tells.
    pub fn capabilities(&self) -> Option<u64> {
        u64::from_str_radix(&self.status("CapEff:")?, 16).ok()
    }

    /// The driver a PCI device is bound to.
    pub fn driver(&self, address: &str) -> Option<String> {
        let link = self.link(&format!("sys/bus/pci/devices/{address}/driver"))?;
        Some(link.file_name()?.to_str()?.to_owned())
    }

    /// Where a symbolic link leads.
    fn link(&self, path: &str) -> Option<PathBuf> {
        std::fs::read_link(self.root.join(path)).ok()
    }

    /// Another process of this program, by its number, that has a packet socket on an interface of this namespace. Of processes of
    /// other users only root is told.
    pub fn other_on(&self, interface: &str) -> Option<u32> {
        const NAME: &str = env!("CARGO_PKG_NAME");
        let index = self.text(&format!("sys/class/net/{interface}/ifindex"))?;
        // sk RefCnt Type Proto Iface R Rmem User Inode
        let sockets = self.text("proc/net/packet")?;
        let sockets = sockets.lines().skip(1).filter_map(|line| {
            let mut fields = line.split_whitespace();
            let on_it = fields.nth(4)? == index.trim();
            Some(PathBuf::from(format!("socket:[{}]", fields.nth(3)?))).filter(|_| on_it)
        });
        let sockets: Vec<_> = sockets.collect();
        if sockets.is_empty() {
            return None;
        }
        let processes = self.entries("proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
        processes.filter(|process| *process != std::process::id()).find(|process| {
            let files = format!("proc/{process}/fd");
            let has = |file: &String| {
                self.link(&format!("{files}/{file}")).is_some_and(|link| sockets.contains(&link))
            };
            self.text(&format!("proc/{process}/comm")).is_some_and(|name| name.trim() == NAME)
                && self.entries(&files).iter().any(has)
        })
    }

    /// The kernel's interfaces of a PCI device: drivers that share a NIC with DPDK keep theirs.
    pub fn interfaces(&self, address: &str) -> Vec<String> {
        let device = format!("sys/bus/pci/devices/{address}");
        // Between a virtio NIC and its interface is a device of the virtio bus.
        let children = self.entries(&device).into_iter().filter(|name| name.starts_with("virtio"));
        let behind = children.map(|child| format!("{device}/{child}/net"));
        std::iter::once(format!("{device}/net")).chain(behind).flat_map(|net| self.entries(&net)).collect()
    }

    /// `/sys` shows the interfaces of another network namespace than that of this process: that of whoever mounted it.
    pub fn has_foreign_sysfs(&self) -> bool {
        let own = self.text("proc/net/dev").unwrap_or_default();
        let shown = self.entries("sys/class/net");
        let mut own = own.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim()));
        own.any(|name| !shown.iter().any(|shown| shown == name))
    }

    /// Somebody has switched this interface on.
    pub fn is_up(&self, interface: &str) -> bool {
        const IFF_UP: u32 = 1;
        let flags = self.text(&format!("sys/class/net/{interface}/flags"));
        let flags = flags.and_then(|text| u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok());
        flags.is_some_and(|flags| flags & IFF_UP != 0)
    }

    /// MTU of an interface, bytes behind the Ethernet header.
    pub fn mtu(&self, interface: &str) -> Option<u32> {
        self.text(&format!("sys/class/net/{interface}/mtu"))?.trim().parse().ok()
    }

    /// PCI devices of the network class, with their drivers.
    pub fn network_devices(&self) -> Vec<(String, Option<String>)> {
        let devices = self.entries("sys/bus/pci/devices").into_iter().filter(|address| self.is_nic(address));
        devices.map(|address| (address.clone(), self.driver(&address))).collect()
    }

    /// A PCI device is of the network class.
    pub fn is_nic(&self, address: &str) -> bool {
        let class = self.text(&format!("sys/bus/pci/devices/{address}/class"));
        class.is_some_and(|class| class.starts_with("0x02"))
    }

    /// Interrupts with a device behind them that may go to one of these cores, as `number name`.
    pub fn irqs_on(&self, cores: &[usize]) -> Vec<String> {
        let mut numbers: Vec<usize> =
            self.entries("proc/irq").iter().filter_map(|n| n.parse().ok()).collect();
        numbers.sort_unstable();
        let hits = numbers.into_iter().filter_map(|number| {
            // What the hardware was told counts, where the kernel says so.
            let effective = self.text(&format!("proc/irq/{number}/effective_affinity_list"));
            let effective = effective.filter(|text| !text.trim().is_empty());
            let asked = || self.text(&format!("proc/irq/{number}/smp_affinity_list"));
            let goes_to = list(effective.or_else(asked)?.trim());
            let action = self
                .entries(&format!("proc/irq/{number}"))
                .into_iter()
                .find(|name| self.root.join(format!("proc/irq/{number}/{name}")).is_dir())?;
            goes_to.iter().any(|core| cores.contains(core)).then(|| format!("{number} {action}"))
        });
        hits.collect()
    }

    /// Pairs of these cores that are threads of one core.
    pub fn siblings_among(&self, cores: &[usize]) -> Vec<String> {
        let mut shared: Vec<usize> = Vec::new();
        for core in cores {
            let path = format!("sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
            let siblings = self.text(&path).map(|text| list(text.trim())).unwrap_or_default();
            if siblings.iter().any(|other| other != core && cores.contains(other)) {
                shared.push(*core);
            }
        }
        shared.iter().map(usize::to_string).collect()
    }

    fn is_node(name: &str) -> Option<usize> {
        name.strip_prefix("node")?.parse().ok()
    }

    /// Memory nodes.
    pub fn nodes(&self) -> usize {
        self.entries("sys/devices/system/node").iter().filter(|name| Self::is_node(name).is_some()).count()
    }

    /// Node of a PCI device.
    pub fn node_of_device(&self, address: &str) -> Option<usize> {
        self.text(&format!("sys/bus/pci/devices/{address}/numa_node"))?.trim().parse().ok()
    }

    /// Node of a core.
    pub fn node_of_core(&self, core: usize) -> Option<usize> {
        let entries = self.entries(&format!("sys/devices/system/cpu/cpu{core}"));
        entries.iter().find_map(|name| Self::is_node(name))
    }
}
