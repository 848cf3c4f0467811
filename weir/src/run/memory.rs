//! Memory for frames: how much of it a process needs of DPDK, and whether its arguments give it as much. `check` and
//! `run` ask the same function.

use super::af_packet;
use crate::machine::Machine;
use crate::refusal::refuse;
use anyhow::{Result, bail};
use weir_config::{Config, DeviceKind, PortConfig, show_size};
use weir_dataplane::types::BURST;
use weir_dpdk::{Mempool, args};
use weir_layout::counted;

/// Frames each lcore's cache of the pool may keep.
pub const POOL_CACHE: u32 = 512;

/// What DPDK takes for itself, for each pool beside its frames and the list of the free ones (caches of all lcores), and
/// for each port; found with `-m`, rounded up. Bytes.
const OWN: u64 = 2 << 20;
const EACH_POOL: u64 = 2 << 20;
const EACH_PORT: u64 = 1 << 19;
/// What `net_tap` takes besides: a pool of its own, to segment what it never gets.
const EACH_TAP: u64 = 5 << 18;

/// Bytes of a frame that `mtu` does not count: a NIC's buffer must hold two VLAN tags more.
const TAGS: u16 = 8;

/// NICs (igb, ixgbe) count the room of a buffer in steps of so many bytes: what is beyond the last one is not used.
const ROOM_STEP: u16 = 1024;

/// The pools of a process: how many frames, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// Frames of each, where every lcore has one.
    pub each: u32,
    /// Frames of one that all lcores share.
    pub common: u32,
    /// Bytes per frame.
    pub data_bytes: u16,
    /// Ports that take frames from them.
    ports: usize,
    /// Those that are `net_tap`.
    taps: usize,
}

impl PoolSize {
    /// Enough for the worst case: all frames the buffer can hold, which may be from one lcore; every descriptor full, a
    /// burst in hand at every port. `extra`: frames that others in this process hold.
    pub fn of(config: &Config, lcores: usize, extra: u64) -> Self {
        let held = config.buffer.frames + extra;
        Self::of_ports(&config.ports, lcores, held, held)
    }

    /// The same for ports without a switch: frames that are held beside those of the devices, by each lcore and by all.
    pub fn of_ports(configs: &[PortConfig], lcores: usize, each: u64, all: u64) -> Self {
        let of_port = |port: &PortConfig| {
            u64::from(port.rx_descriptors) + u64::from(port.tx_descriptors) + 2 * BURST as u64
        };
        let queues: u64 = configs.iter().map(of_port).sum();
        let caches = (lcores as u64 + 1) * u64::from(POOL_CACHE) * 3 / 2;
        let with_devices = |held: u64| (held + queues + caches).min(u64::from(u32::MAX)) as u32;
        let longest = configs.iter().map(room).max().unwrap_or(0);
        Self {
            each: with_devices(each),
            common: with_devices(all),
            data_bytes: longest.max(2048),
            ports: configs.len(),
            taps: configs.iter().filter(|port| port.device.starts_with("net_tap")).count(),
        }
    }

    /// Frames of each pool of so many lcores.
    fn count(self, lcores: usize) -> u32 {
        if lcores > 1 { self.each } else { self.common }
    }

    /// Memory the process needs of DPDK, MiB: for a pool of each lcore or for one, whichever is more.
    pub fn mebibytes(self, lcores: usize) -> u64 {
        // The list of free frames is a ring of pointers, a power of two of them with one place unused.
        let beside = |frames: u32| EACH_POOL + 8 * (u64::from(frames) + 1).next_power_of_two();
        let pool = |frames: u32| Mempool::memory_bytes(frames, self.data_bytes) + beside(frames);
        // All but the last of several may take more than they need.
        let first = Mempool::reserved_bytes(self.each, self.data_bytes) + beside(self.each);
        let own = if lcores > 1 { (lcores as u64 - 1) * first + pool(self.each) } else { 0 };
        let bytes = own.max(pool(self.common)) + OWN;
        let bytes = bytes + self.ports as u64 * EACH_PORT + self.taps as u64 * EACH_TAP;
        bytes.div_ceil(1 << 20)
    }

    /// The same of memory that is no hugepages, with these arguments; bytes.
    fn beside_hugepages(self, args: &[String], lcores: usize) -> u64 {
        if args::wants_hugepages(args) { 0 } else { self.mebibytes(lcores) << 20 }
    }

    /// Whether DPDK has as much with these arguments. With hugepages it takes more of them when it needs them, and the
    /// machine must have them.
    ///
    /// # Errors
    /// What they give, and what is needed.
    pub fn fits(self, args: &[String], lcores: usize) -> Result<()> {
        let Some(given) = given(args) else { return Ok(()) };
        let needed = self.mebibytes(lcores);
        if given < needed {
            let count = self.count(lcores);
            bail!(
                "DPDK is given {given} MiB of memory, but {count} frames of {} bytes for each of {lcores} workers, and \
                 what is around them, need {needed} MiB: set -m {needed} in the EAL arguments or leave it out, or lower \
                 buffer.size, buffer.frames or mtu",
                self.data_bytes
            );
        }
        Ok(())
    }
}

/// Whether the machine has what the engines of these ports may take for jobs, beside frames that lie in no hugepages. What
/// it has in all counts, not what others leave of it now: jobs come later.
///
/// # Errors
/// The sum, what there is, and what to change.
pub fn engines_fit(
    ports: &[PortConfig],
    pool: PoolSize,
    (args, lcores): (&[String], usize),
    machine: &Machine,
) -> Result<()> {
    let engines = ports.iter().filter_map(|port| Some((&port.name, port.engine?.params.memory)));
    let engines: Vec<_> = engines.collect();
    let Some(there) = machine.memory().filter(|_| !engines.is_empty()) else { return Ok(()) };
    let jobs = engines.iter().fold(0, |sum: u64, (_, memory)| sum.saturating_add(*memory));
    let frames = pool.beside_hugepages(args, lcores);
    let sum = jobs.saturating_add(frames);
    if sum > there {
        let each: Vec<_> =
            engines.iter().map(|(name, memory)| format!("`{name}` {}", show_size(*memory))).collect();
        let beside = if frames > 0 {
            format!(", frames {}: {} in all", show_size(frames), show_size(sum))
        } else {
            String::new()
        };
        bail!(
            "memory for jobs: engine {}{beside}, but {} for this process is all the machine has beside hugepages: lower \
             `memory` of `inc` to {} or less altogether",
            each.join(", "),
            show_size(there & !0xfffff),
            show_size(there.saturating_sub(frames) & !0xfffff)
        );
    }
    Ok(())
}

/// Whether the machine has what frames take, where they lie in no hugepages.
///
/// # Errors
/// What they take, what there is, and what to change.
pub fn frames_fit(pool: PoolSize, (args, lcores): (&[String], usize), machine: &Machine) -> Result<()> {
    let frames = pool.beside_hugepages(args, lcores);
    match machine.memory() {
        Some(there) if frames > there => {
            let count = pool.count(lcores);
            let what = format!(
                "{count} frames of {} bytes for each of {} take {}, but {} for this process is all the machine has beside hugepages",
                pool.data_bytes,
                counted(lcores, "worker"),
                show_size(frames),
                show_size(there & !0xfffff)
            );
            Err(refuse("memory for frames", what, "lower buffer.size, buffer.frames or mtu"))
        }
        _ => Ok(()),
    }
}

/// Bytes a frame of the pool must hold for the port to receive each of its frames in one.
fn room(port: &PortConfig) -> u16 {
    match port.kind {
        DeviceKind::Pci => {
            let room = port.mtu.saturating_add(TAGS);
            room.checked_next_multiple_of(ROOM_STEP).unwrap_or(room)
        }
        DeviceKind::Ring | DeviceKind::Inc | DeviceKind::Vdev => af_packet::pool_bytes(port),
    }
}

/// MiB that arguments give DPDK once and for all: without hugepages. `None`: nobody says, so as much as is needed is
/// asked for, or it may take more.
fn given(args: &[String]) -> Option<u64> {
    if args::wants_hugepages(args) {
        return None;
    }
    let mut said = None;
    let mut args_left = args.iter().map(String::as_str);
    while let Some(arg) = args_left.next() {
        let value = match arg {
            "-m" => args_left.next(),
            _ => arg.strip_prefix("-m"),
        };
        said = value.and_then(|value| value.parse().ok()).or(said);
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(ports: usize, device: &str, mtu: u16, frames: u64) -> PoolSize {
        let mut text =
            format!("[buffer]\nsize = {}\n[port_defaults]\nmtu = {mtu}\nrate = \"10G\"\n", frames * 64);
        for port in 0..ports {
            text += &format!(
                "[[port]]\nname = \"p{port}\"\ndevice = \"{}\"\n",
                device.replace('N', &port.to_string())
            );
        }
        let config = weir_config::load("test", &text).unwrap_or_else(|found| panic!("{found:?}")).config;
        PoolSize::of(&config, 1, 0)
    }

    /// `weir run` with these, by bisection with `-m`: the least that starts.
    #[test]
    fn what_is_needed_is_enough_and_little_more() {
        for (least, pool) in [
            (86, pool(2, "ring", 1518, 16384)),
            (230, pool(4, "ring", 9216, 16384)),
            (1050, pool(2, "ring", 1518, 262_144)),
            (298, pool(4, "net_tapN,iface=tN", 1518, 65536)),
            (399, pool(16, "net_tapN,iface=tN", 1518, 65536)),
        ] {
            let needed = pool.mebibytes(1);
            assert!((least..=least + 8).contains(&needed), "{needed} MiB for {pool:?}, {least} start");
        }
    }

    #[test]
    fn too_little_is_refused_with_the_size_that_does() {
        let pool = pool(2, "ring", 9216, 262_144);
        let needed = pool.mebibytes(1);
        let args = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for little in ["-m 512", "-m512", "--no-huge -m 512", "--no-pci -m 64 -m 512"] {
            let error = pool.fits(&args(little), 1).unwrap_err().to_string();
            assert!(
                error.contains("given 512 MiB") && error.contains(&format!("set -m {needed} ")),
                "{error}"
            );
        }
        assert!(pool.fits(&args(&format!("-m {}", needed - 1)), 1).is_err());
        for enough in [&format!("-m {needed}"), "--no-huge", "--in-memory -m 512", "-a 0000:03:00.0 -m 512"] {
            pool.fits(&args(enough), 1).unwrap();
        }
    }

    #[test]
    fn engines_take_no_more_than_the_machine_has() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let machine = Machine::new(root.path());
        let fits = |memory: &str, args: &str| {
            let text = format!(
                "[[port]]\nname = \"p\"\ndevice = \"ring\"\n[port_defaults]\nrate = \"1G\"\n[buffer]\nsize = \"8MiB\"\n\
                 [[port]]\nname = \"inc0\"\ndevice = \"inc\"\n\
                 inc = {{ mac = \"02:00:00:00:01:00\", ip = \"10.0.0.200\", memory = {memory:?} }}\n"
            );
            let config = weir_config::load("test", &text).unwrap_or_else(|found| panic!("{found:?}")).config;
            let args: Vec<_> = args.split(' ').map(str::to_owned).collect();
            engines_fit(&config.ports, PoolSize::of(&config, 1, 0), (&args, 1), &machine)
                .map_err(|error| error.to_string())
        };
        fits("1024GiB", "--no-huge").expect("a machine that does not say what it has");
        write("proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1 kB\nHugetlb: 4194304 kB\n");
        fits("10GiB", "--no-huge").unwrap();
        fits("12GiB", "--in-memory").unwrap();
        let error = fits("12GiB", "--no-huge").unwrap_err();
        assert!(error.contains("`inc0` 12GiB, frames ") && error.contains("but 12GiB for"), "{error}");
        // The limit of a group it is in, or of one above.
        write("proc/self/cgroup", "0::/system.slice/weir.service\n");
        write("sys/fs/cgroup/system.slice/weir.service/memory.max", "max\n");
        write("sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
        let error = fits("2GiB", "--in-memory").unwrap_err();
        assert!(error.contains("1GiB for this process") && error.contains("to 1GiB or less"), "{error}");
        fits("512MiB", "--in-memory").unwrap();
        // The same of version 1.
        write("proc/self/cgroup", "5:cpu:/a\n4:memory:/docker/b\n0::/\n");
        write("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "2147483648\n");
        write("sys/fs/cgroup/memory/docker/b/memory.limit_in_bytes", "9223372036854771712\n");
        assert!(fits("3GiB", "--in-memory").unwrap_err().contains("2GiB for this process"));
        let frames = |args: &str| {
            let args: Vec<_> = args.split(' ').map(str::to_owned).collect();
            frames_fit(pool(3, "ring", 9216, 1 << 20), (&args, 1), &machine)
        };
        frames("--in-memory").unwrap();
        let error = format!("{:#}", frames("--no-huge").unwrap_err());
        assert!(error.contains("frames of 9216 bytes") && error.contains("but 2GiB"), "{error}");
    }

    #[test]
    fn a_nic_has_room_for_tags_in_whole_steps() {
        assert_eq!(pool(2, "0000:0N:00.0", 9216, 16384).data_bytes, 10240);
        assert_eq!(pool(2, "0000:0N:00.0", 1518, 16384).data_bytes, 2048);
        assert_eq!(pool(2, "0000:0N:00.0", 9208, 16384).data_bytes, 9216);
        assert_eq!(pool(2, "net_nullN", 9216, 16384).data_bytes, 9216);
    }
}
