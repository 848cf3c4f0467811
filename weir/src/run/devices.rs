//! From the ports of a configuration to started DPDK ports: memory, probe, configure, start.

use super::{af_packet, memif};
use crate::output::say_err;
use anyhow::{Context, Result, bail};
use weir_dataplane::config::{Config, DeviceKind, PfcMode, PortConfig, PortRate, RING_FRAMES};
use weir_dataplane::types::{BURST, Mac};
use weir_dpdk::port::ring_pair;
use weir_dpdk::{
    Capabilities, Eal, Interrupts, Mempool, Port, PortConfig as DpdkPort, RxQueue, Started, Stopped, TxQueue,
};

/// Descriptors of each receive and each transmit queue. Frames in a transmit queue cannot be recalled
/// when the peer pauses us, so it is short.
const RX_DESCRIPTORS: u16 = 1024;
const TX_DESCRIPTORS: u16 = 256;

/// Frames each lcore's cache of the pool may keep.
const POOL_CACHE: u32 = 512;

/// Headroom DPDK keeps in front of each frame, and the mbuf and pool headers around it.
const MBUF_OVERHEAD: u64 = 128 + 128 + 128;

/// A started port and all that is known of its device.
#[derive(Debug)]
pub struct OpenPort {
    /// The port: statistics, link.
    pub port: Port<Started>,
    /// Its receive queue.
    pub rx: RxQueue,
    /// Its transmit queue.
    pub tx: TxQueue,
    /// Transmit queues for the other lcores, by their number, where all devices have one for each.
    pub tx_of_others: Vec<(usize, TxQueue)>,
    /// The device's address.
    pub mac: Mac,
    /// The device's line rate, if it has one.
    pub rate: Option<u64>,
    /// Software sees PFC frames and sends its own.
    pub software_pfc: bool,
    /// Who does PFC on this port.
    pub pfc: &'static str,
    /// Frames the receive ring holds, where that is known.
    pub ring_size: u32,
    /// The other end, where hosts of this process can be, for in-process rings.
    pub far: Option<FarEnd>,
}

/// Who was `granted` PFC on a port, and on which priorities, for people.
pub fn granted_pfc(granted: &str, config: &PortConfig) -> String {
    match config.pfc.enable {
        0 => granted.to_owned(),
        mask => {
            let set: Vec<_> = (0..8).filter(|p| mask >> p & 1 == 1).map(|p: u8| p.to_string()).collect();
            format!("{granted}, priorities {}", set.join(","))
        }
    }
}

/// The end of an in-process ring that does not belong to the switch.
#[derive(Debug)]
pub struct FarEnd {
    /// Frames the switch has sent.
    pub rx: RxQueue,
    /// Frames for the switch.
    pub tx: TxQueue,
}

/// The pools of a process: how many frames, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// Frames of each, where every lcore has one.
    pub each: u32,
    /// Frames of one that all lcores share.
    pub common: u32,
    /// Bytes per frame.
    pub data_bytes: u16,
}

impl PoolSize {
    /// Enough for the worst case: every slot of every shard in use, or all frames the buffer can hold from one
    /// lcore; every descriptor full, a burst in hand at every port (design section 4). `extra`: frames that others in
    /// this process hold.
    pub fn of(config: &Config, lcores: usize, extra: u64) -> Self {
        let frames = config.buffer.frames;
        Self::of_ports(&config.ports, lcores, frames + extra, frames * lcores as u64 + extra)
    }

    /// The same for ports without a switch: frames that are held beside those of the devices, by each lcore and by all.
    pub fn of_ports(configs: &[PortConfig], lcores: usize, each: u64, all: u64) -> Self {
        let ports = configs.len() as u64;
        let queues = u64::from(RX_DESCRIPTORS) + u64::from(TX_DESCRIPTORS) + 2 * BURST as u64;
        let caches = (lcores as u64 + 1) * u64::from(POOL_CACHE) * 3 / 2;
        let with_devices = |held: u64| (held + ports * queues + caches).min(u64::from(u32::MAX)) as u32;
        let longest = configs.iter().map(af_packet::pool_bytes).max().unwrap_or(0);
        Self { each: with_devices(each), common: with_devices(all), data_bytes: longest.max(2048) }
    }

    /// Memory they take, MiB, with what else DPDK needs.
    pub fn mebibytes(self, lcores: usize) -> u64 {
        let frames = u64::from(self.common).max(lcores as u64 * u64::from(self.each));
        let bytes = frames * (u64::from(self.data_bytes) + MBUF_OVERHEAD);
        // Rings, queues and the heap's own fragmentation take their part.
        (bytes + bytes / 2) / (1 << 20) + 96
    }
}

/// Starts DPDK with the arguments of the configuration, then those of the command line, and as much
/// memory as the pools of so many lcores need where nobody says otherwise.
///
/// # Errors
/// DPDK refuses, in its own words and with what to change.
pub fn start_eal(configured: &[String], own: &[String], pool: PoolSize, lcores: usize) -> Result<Eal> {
    let mut args: Vec<String> = configured.iter().chain(own).cloned().collect();
    let says = |flag: &str| args.iter().any(|arg| arg == flag || arg.starts_with(&format!("{flag}=")));
    let hugepages = ["--in-memory", "--socket-mem", "--huge-dir", "--huge-unlink", "--numa-mem"];
    let memory_chosen = says("-m") || hugepages.iter().any(|flag| says(flag));
    if !memory_chosen {
        args.extend(["-m".to_owned(), pool.mebibytes(lcores).to_string()]);
    }
    Ok(Eal::init(&args)?)
}

/// Makes the pools and opens every port for the lcore, of `lcores`, that is its `owner`. Each lcore has a pool of its own
/// if each has a transmit queue of every port, so that frames are freed where they were received; else they share one.
///
/// # Errors
/// The first device that cannot be had, with its name and what the driver says; those opened before are
/// closed again.
pub fn open(
    eal: &Eal,
    ports: &[PortConfig],
    owner: &[usize],
    lcores: usize,
    size: PoolSize,
) -> Result<(Vec<Mempool>, Vec<OpenPort>)> {
    let named = |port: &PortConfig| format!("port {} ({})", port.name, port.device);
    let probed: Vec<Probed> =
        ports.iter().map(|port| probe(eal, port).with_context(|| named(port))).collect::<Result<_>>()?;
    let tx_per_lcore = lcores > 1 && probed.iter().all(|port| port.tx_queues >= lcores);
    let pools = pools(eal, lcores, tx_per_lcore, size)?;
    let mut opened = Vec::new();
    for ((port, probed), owner) in ports.iter().zip(probed).zip(owner) {
        let tx_queues = if tx_per_lcore { lcores } else { 1 };
        opened
            .push(open_one(port, probed, (*owner, tx_queues), &pools[*owner]).with_context(|| named(port))?);
    }
    Ok((pools, opened))
}

/// Holds DPDK's interrupts back where the drivers of these ports need that.
///
/// # Errors
/// A port does not say what it can do.
pub fn hold_interrupts<'a>(
    eal: &Eal,
    ports: impl IntoIterator<Item = &'a Port<Started>>,
) -> Result<Option<Interrupts>> {
    let mut held = Vec::new();
    for port in ports {
        if port.capabilities()?.unsafe_interrupts {
            held.push(port);
        }
    }
    if held.is_empty() {
        return Ok(None);
    }
    let interrupts = Interrupts::hold(eal, held).inspect_err(|error| {
        say_err!("weir: {error}; a peer of net_memif that leaves may end this process");
    });
    Ok(interrupts.ok())
}

/// A pool for each lcore: its own, or the same for all.
fn pools(eal: &Eal, lcores: usize, own: bool, size: PoolSize) -> Result<Vec<Mempool>> {
    let count = if own { size.each } else { size.common };
    let too_much =
        || format!("{count} frames of {} bytes: lower buffer.size, buffer.frames or mtu", size.data_bytes);
    if !own {
        let shared = Mempool::new(eal, "weir", count, POOL_CACHE, size.data_bytes).with_context(too_much)?;
        return Ok(vec![shared; lcores]);
    }
    let of = |lcore| Mempool::of_one_lcore(eal, &format!("weir{lcore}"), count, POOL_CACHE, size.data_bytes);
    (0..lcores).map(|lcore| of(lcore).with_context(too_much)).collect()
}

/// A device that was found.
struct Probed {
    near: Port<Stopped>,
    /// The other end, of in-process rings.
    far: Option<Port<Stopped>>,
    /// Transmit queues it can have, if it does not matter which of them a frame takes.
    tx_queues: usize,
}

fn probe(eal: &Eal, config: &PortConfig) -> Result<Probed> {
    let (near, far) = match config.kind {
        DeviceKind::Ring => {
            let (near, far) = ring_pair(eal, &config.name, RING_FRAMES)?;
            (near, Some(far))
        }
        DeviceKind::Pci | DeviceKind::Vdev => {
            memif::clear_way(config);
            (Port::<Stopped>::probe(eal, &af_packet::devargs(config)?)?, None)
        }
    };
    let device = near.capabilities()?;
    let tx_queues = if device.one_wire { usize::from(device.max_tx_queues) } else { 1 };
    Ok(Probed { near, far, tx_queues })
}

fn open_one(
    config: &PortConfig,
    Probed { near, far, .. }: Probed,
    (owner, tx_queues): (usize, usize),
    pool: &Mempool,
) -> Result<OpenPort> {
    let (port, rx, tx) = start(near, config, pool, tx_queues as u16)?;
    let others = (0..tx_queues).filter(|lcore| *lcore != owner);
    let tx_of_others = others
        .zip(1..tx_queues as u16)
        .map(|(lcore, queue)| Ok((lcore, port.tx_queue(queue)?)))
        .collect::<Result<_>>()?;
    let far = far
        .map(|far| -> Result<FarEnd> {
            let (port, rx, tx) = start(far, config, pool, 1)?;
            // The port lives as long as its queues.
            drop(port);
            Ok(FarEnd { rx, tx })
        })
        .transpose()?;
    let capabilities = port.capabilities()?;
    let mbps = port.link().ok().and_then(|link| link.mbps).filter(|_| !capabilities.is_virtual);
    let software_pfc = granted(config, &capabilities)?;
    let pfc = match (config.pfc.enable, software_pfc) {
        (0, _) => "off",
        (_, true) => "software",
        (mask, false) if port.set_priority_flow_control(mask, u16::MAX) => "hardware",
        // Not every driver takes it from DPDK.
        (_, false) => "hardware, to be set with the tool of the NIC",
    };
    if config.rate == PortRate::Link && mbps.is_none() {
        bail!("the device does not tell its speed: write the port's rate, e.g. rate = \"100G\"");
    }
    Ok(OpenPort {
        mac: port.mac()?,
        rate: mbps.map(|mbps| u64::from(mbps) * 1_000_000),
        ring_size: if far.is_some() { RING_FRAMES } else { u32::from(port.descriptors().0) },
        software_pfc,
        pfc,
        port,
        rx,
        tx,
        tx_of_others,
        far,
    })
}

fn start(
    mut port: Port<Stopped>,
    config: &PortConfig,
    pool: &Mempool,
    tx_queues: u16,
) -> Result<(Port<Started>, RxQueue, TxQueue)> {
    let settings = DpdkPort {
        tx_queues,
        rx_descriptors: RX_DESCRIPTORS,
        tx_descriptors: TX_DESCRIPTORS,
        mtu: (config.kind == DeviceKind::Pci).then(|| config.mtu - 14),
        mac_control: config.pfc.in_use(),
        ..DpdkPort::default()
    };
    port.configure(&settings, pool)?;
    let port = port.start()?;
    let (rx, tx) = (port.rx_queue(0)?, port.tx_queue(0)?);
    Ok((port, rx, tx))
}

/// Whether PFC of this port is software's, as asked and as the driver allows.
fn granted(config: &PortConfig, capabilities: &Capabilities) -> Result<bool> {
    let visible = capabilities.mac_control.is_visible();
    Ok(match config.pfc.mode {
        PfcMode::Auto => visible,
        PfcMode::Hardware => false,
        PfcMode::Software if visible || config.pfc.enable == 0 => true,
        PfcMode::Software => bail!(
            "pfc.mode = \"software\", but driver {} does not hand PFC frames to software ({:?}): \
             use pfc.mode = \"hardware\" and set PFC on the NIC, or another port",
            capabilities.driver,
            capabilities.mac_control
        ),
    })
}
