//! From the ports of a configuration to started DPDK ports: memory, probe, configure, start.

use super::af_packet;
use anyhow::{Context, Result, bail};
use weir_dataplane::config::{Config, DeviceKind, PfcMode, PortConfig, PortRate, RING_FRAMES};
use weir_dataplane::types::{BURST, Mac};
use weir_dpdk::port::ring_pair;
use weir_dpdk::{
    Capabilities, Eal, Mempool, Port, PortConfig as DpdkPort, RxQueue, Started, Stopped, TxQueue,
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

/// The pool all frames come from: how many frames, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// Frames.
    pub count: u32,
    /// Bytes per frame.
    pub data_bytes: u16,
}

impl PoolSize {
    /// Enough for the worst case: every slot of every shard in use, every descriptor full, a burst in
    /// hand at every port (design section 4). `extra`: frames that others in this process hold.
    pub fn of(config: &Config, shards: usize, extra: u64) -> Self {
        Self::of_ports(&config.ports, shards, config.buffer.frames * shards as u64 + extra)
    }

    /// The same for ports without a switch: `held` frames beside those of the devices.
    pub fn of_ports(configs: &[PortConfig], lcores: usize, held: u64) -> Self {
        let ports = configs.len() as u64;
        let queues = u64::from(RX_DESCRIPTORS) + u64::from(TX_DESCRIPTORS) + 2 * BURST as u64;
        let caches = (lcores as u64 + 1) * u64::from(POOL_CACHE) * 3 / 2;
        let count = held + ports * queues + caches;
        let longest = configs.iter().map(af_packet::pool_bytes).max().unwrap_or(0);
        Self { count: count.min(u64::from(u32::MAX)) as u32, data_bytes: longest.max(2048) }
    }

    /// Memory it takes, MiB, with what else DPDK needs.
    pub fn mebibytes(self) -> u64 {
        let bytes = u64::from(self.count) * (u64::from(self.data_bytes) + MBUF_OVERHEAD);
        // Rings, queues and the heap's own fragmentation take their part.
        (bytes + bytes / 2) / (1 << 20) + 96
    }
}

/// Starts DPDK with the arguments of the configuration, then those of the command line, and as much
/// memory as the pool needs where nobody says otherwise.
///
/// # Errors
/// DPDK refuses, in its own words and with what to change.
pub fn start_eal(configured: &[String], own: &[String], pool: PoolSize) -> Result<Eal> {
    let mut args: Vec<String> = configured.iter().chain(own).cloned().collect();
    let says = |flag: &str| args.iter().any(|arg| arg == flag || arg.starts_with(&format!("{flag}=")));
    let hugepages = ["--in-memory", "--socket-mem", "--huge-dir", "--huge-unlink", "--numa-mem"];
    let memory_chosen = says("-m") || hugepages.iter().any(|flag| says(flag));
    if !memory_chosen {
        args.extend(["-m".to_owned(), pool.mebibytes().to_string()]);
    }
    Ok(Eal::init(&args)?)
}

/// Makes the pool and opens every port.
///
/// # Errors
/// The first device that cannot be had, with its name and what the driver says; those opened before are
/// closed again.
pub fn open(eal: &Eal, ports: &[PortConfig], pool: PoolSize) -> Result<(Mempool, Vec<OpenPort>)> {
    let mempool = Mempool::new(eal, "weir", pool.count, POOL_CACHE, pool.data_bytes).with_context(|| {
        format!("{} frames of {} bytes: lower buffer.size, buffer.frames or mtu", pool.count, pool.data_bytes)
    })?;
    let ports = ports
        .iter()
        .map(|port| {
            open_one(eal, port, &mempool).with_context(|| format!("port {} ({})", port.name, port.device))
        })
        .collect::<Result<_>>()?;
    Ok((mempool, ports))
}

fn open_one(eal: &Eal, config: &PortConfig, pool: &Mempool) -> Result<OpenPort> {
    let (near, far) = match config.kind {
        DeviceKind::Ring => {
            let (near, far) = ring_pair(eal, &config.name, RING_FRAMES)?;
            (near, Some(far))
        }
        DeviceKind::Pci | DeviceKind::Vdev => {
            (Port::<Stopped>::probe(eal, &af_packet::devargs(config)?)?, None)
        }
    };
    let (port, rx, tx) = start(near, config, pool)?;
    let far = far
        .map(|far| -> Result<FarEnd> {
            let (port, rx, tx) = start(far, config, pool)?;
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
        far,
    })
}

fn start(
    mut port: Port<Stopped>,
    config: &PortConfig,
    pool: &Mempool,
) -> Result<(Port<Started>, RxQueue, TxQueue)> {
    let settings = DpdkPort {
        rx_descriptors: RX_DESCRIPTORS,
        tx_descriptors: TX_DESCRIPTORS,
        mtu: (config.kind == DeviceKind::Pci).then(|| config.mtu - 14),
        mac_control: config.pfc.enable != 0,
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
