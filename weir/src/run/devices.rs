//! From the ports of a configuration to started DPDK ports: memory, probe, configure, start.

use super::memory::{POOL_CACHE, PoolSize, engines_fit, frames_fit};
use super::misfits::{misfits, named};
use super::sockets::{self, MemifSockets};
use super::{af_packet, devargs};
use crate::machine::Machine;
use crate::output::say_err;
use crate::refusal::at;
use anyhow::{Context, Result, bail};
use std::time::{Duration, Instant};
use weir_config::{DeviceKind, PfcMode, PortConfig, PortRate, RING_FRAMES};
use weir_dataplane::types::Mac;
use weir_dpdk::args;
use weir_dpdk::port::ring_pair;
use weir_dpdk::{
    Capabilities, Eal, Interrupts, Link, Mempool, Port, PortConfig as DpdkPort, RxQueue, Started, Stopped,
    TxQueue,
};

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
    /// The speed of the device's link in bit/s, if it has one and is up.
    pub rate: Option<u64>,
    /// What the driver can do.
    pub capabilities: Capabilities,
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

/// The arguments of the configuration, then those of the command line, then every NIC among the ports that none of them
/// has allowed, with its devargs: a driver sees these when the device comes up and never again.
///
/// # Errors
/// A NIC is asked for where arguments keep all of them away.
pub fn eal_args(ports: &[PortConfig], configured: &[String], own: &[String]) -> Result<Vec<String>> {
    let mut args: Vec<String> = configured.iter().chain(own).cloned().collect();
    let allowed: Vec<String> = args::allowed(&args).into_iter().map(devargs::address).collect();
    for port in ports.iter().filter(|port| port.kind == DeviceKind::Pci) {
        if args.iter().any(|arg| arg == "--no-pci") {
            bail!(
                "port {} is a NIC ({}), which --no-pci keeps away: remove that from the EAL arguments",
                port.name,
                port.device
            );
        }
        // Whoever blocks some devices has all the others.
        if !args::blocks(&args) && !allowed.contains(&devargs::address(&port.device)) {
            args.extend(["-a".to_owned(), port.device.clone()]);
        }
    }
    Ok(args)
}

/// Starts DPDK for these ports, with as much memory as their pools and so many lcores need.
///
/// # Errors
/// DPDK refuses, in its own words and with what to change.
pub fn start_eal(
    ports: &[PortConfig],
    configured: &[String],
    own: &[String],
    pool: PoolSize,
    lcores: usize,
) -> Result<Eal> {
    let args = eal_args(ports, configured, own)?;
    let machine = Machine::here();
    if let Some(error) = misfits(ports, &args, &machine).into_iter().next() {
        return Err(error);
    }
    for port in ports {
        at(named(port), af_packet::is_free(port, &machine))?;
    }
    pool.fits(&args, lcores)?;
    engines_fit(ports, pool, (&args, lcores), &machine)?;
    frames_fit(pool, (&args, lcores), &machine)?;
    Ok(Eal::init_with(&args, pool.mebibytes(lcores))?)
}

/// Makes the pools and opens every port for the lcore, of `lcores`, that is its `owner`. Each lcore has a pool of its own
/// if each has a transmit queue of every port, so that frames are freed where they were received; else they share one.
/// Peers of memif servers can connect as long as `memif` lives.
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
    memif: &mut MemifSockets,
) -> Result<(Vec<Mempool>, Vec<OpenPort>)> {
    let probed = ports.iter().map(|port| probe(eal, port, memif).with_context(|| named(port)));
    let probed: Vec<Probed> = probed.collect::<Result<_>>()?;
    let tx_per_lcore = lcores > 1 && probed.iter().all(|port| port.tx_queues >= lcores);
    // A pool is on the node of the first device that takes frames from it.
    let node = |lcore| owner.iter().position(|o| *o == lcore).and_then(|i| probed[i].near.socket());
    let nodes: Vec<_> = (0..lcores).map(node).collect();
    let pools = pools(eal, &nodes, tx_per_lcore, size)?;
    let mut opened = Vec::new();
    for ((port, probed), owner) in ports.iter().zip(probed).zip(owner) {
        let tx_queues = if tx_per_lcore { lcores } else { 1 };
        opened
            .push(open_one(port, probed, (*owner, tx_queues), &pools[*owner]).with_context(|| named(port))?);
    }
    memif.serve()?;
    await_links(&mut opened);
    for (port, open) in ports.iter().zip(&opened) {
        check_speed(port, open).with_context(|| named(port))?;
    }
    Ok((pools, opened))
}

/// Opens a port on an interface of the kernel again, once there is one of its name, for the lcore that is its owner and
/// with so many transmit queues.
///
/// # Errors
/// The device cannot be had, with its name and what the driver says.
pub fn reopen(eal: &Eal, port: &PortConfig, owner: (usize, usize), pool: &Mempool) -> Result<OpenPort> {
    // Sockets are not of such devices.
    let probed = probe(eal, port, &mut MemifSockets::default())?;
    open_one(port, probed, owner, pool)
}

/// How long the links of NICs may take to come up before the switch starts without them.
const LINKS: Duration = Duration::from_secs(4);

/// Speed of the link, bit/s; `None` while it is down, for drivers that do not know, and for devices without a wire.
pub fn speed(link: Option<Link>, capabilities: &Capabilities) -> Option<u64> {
    let link = link.filter(|link| link.up && !capabilities.is_virtual)?;
    link.mbps.map(|mbps| u64::from(mbps) * 1_000_000)
}

/// Waits for the links of NICs, which negotiate when their device starts: whoever is up by then has its speed from the
/// first frame on. The others get theirs when they come up.
fn await_links(ports: &mut [OpenPort]) {
    let deadline = Instant::now() + LINKS;
    loop {
        let mut down = 0;
        for port in ports.iter_mut().filter(|port| !port.capabilities.is_virtual) {
            let link = port.port.link().ok();
            port.rate = speed(link, &port.capabilities);
            down += usize::from(link.is_some_and(|link| !link.up));
        }
        if down == 0 || Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Pauses are counted in bit times: a port with PFC must know how long one is.
fn check_speed(config: &PortConfig, open: &OpenPort) -> Result<()> {
    let up = open.port.link().is_ok_and(|link| link.up);
    if config.rate == PortRate::Link && config.pfc.in_use() && up && open.rate.is_none() {
        bail!(
            "driver {} does not tell the speed of the link, by which pauses are counted: write the port's rate, e.g. \
             rate = \"10G\"",
            open.capabilities.driver
        );
    }
    Ok(())
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
fn pools(eal: &Eal, nodes: &[Option<u32>], own: bool, size: PoolSize) -> Result<Vec<Mempool>> {
    let lcores = nodes.len();
    let count = if own { size.each } else { size.common };
    let too_much =
        || format!("{count} frames of {} bytes: lower buffer.size, buffer.frames or mtu", size.data_bytes);
    if !own {
        let node = nodes.iter().copied().find(Option::is_some).flatten();
        let shared =
            Mempool::near(eal, "weir", count, POOL_CACHE, size.data_bytes, node).with_context(too_much)?;
        return Ok(vec![shared; lcores]);
    }
    let of = |lcore: usize| {
        let name = format!("weir{lcore}");
        Mempool::of_one_lcore(eal, &name, count, POOL_CACHE, size.data_bytes, nodes[lcore])
    };
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

fn probe(eal: &Eal, config: &PortConfig, memif: &mut MemifSockets) -> Result<Probed> {
    let (near, far) = match config.kind {
        DeviceKind::Ring | DeviceKind::Inc => {
            let (near, far) = ring_pair(eal, &config.name, RING_FRAMES)?;
            (near, Some(far))
        }
        DeviceKind::Pci | DeviceKind::Vdev => {
            if !memif.accepts(&config.device) {
                sockets::clear_way(config)?;
            }
            af_packet::fits(config, &Machine::here())?;
            let devargs = af_packet::devargs(config)?;
            (Port::<Stopped>::probe(eal, &memif.devargs(eal, &devargs))?, None)
        }
    };
    memif.listen(&config.device)?;
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
    sockets::close_to_others(config);
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
    let software_pfc = granted(config, &capabilities)?;
    let pfc = match (config.pfc.enable, software_pfc, config.pfc.mode) {
        (0, ..) => "off",
        (_, true, _) => "software",
        (_, false, PfcMode::Hardware) => "left to the NIC",
        (_, false, _) => "not kept",
    };
    Ok(OpenPort {
        mac: port.mac()?,
        rate: None,
        ring_size: if far.is_some() { RING_FRAMES } else { u32::from(port.descriptors().0) },
        capabilities,
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
    if config.kind == DeviceKind::Pci {
        carries(config.mtu, &port.capabilities()?)?;
    }
    let settings = DpdkPort {
        tx_queues,
        rx_descriptors: config.rx_descriptors,
        tx_descriptors: config.tx_descriptors,
        mtu: (config.kind == DeviceKind::Pci).then(|| config.mtu - 14),
        mac_control: config.pfc.in_use(),
        ..DpdkPort::default()
    };
    port.configure(&settings, pool)?;
    let port = port.start()?;
    let (rx, tx) = (port.rx_queue(0)?, port.tx_queue(0)?);
    Ok((port, rx, tx))
}

/// The device carries frames as long as the port's `mtu` allows, which counts the Ethernet header as drivers do not.
fn carries(mtu: u16, capabilities: &Capabilities) -> Result<()> {
    let most = capabilities.max_mtu.saturating_add(14);
    if mtu > most {
        bail!("driver {} carries frames of {most} bytes at most: mtu = {most}", capabilities.driver);
    }
    Ok(())
}

/// Whether PFC of this port is software's, as asked and as the driver allows.
fn granted(config: &PortConfig, capabilities: &Capabilities) -> Result<bool> {
    let visible = config.pfc.visible.unwrap_or(capabilities.mac_control.is_visible());
    Ok(match config.pfc.mode {
        PfcMode::Auto => visible,
        PfcMode::Hardware => false,
        PfcMode::Software if visible || !config.pfc.in_use() => true,
        PfcMode::Software => {
            bail!("pfc.mode = \"software\", but driver {}: {}", capabilities.driver, no_pfc(capabilities))
        }
    })
}

/// Why software cannot do PFC on such a device, and what to do about it.
pub fn no_pfc(capabilities: &Capabilities) -> String {
    let otherwise = match capabilities.kernel_side {
        true => {
            "let the NIC obey and send it by itself (pfc.mode = \"hardware\" and `dcb pfc set dev IFACE prio-pfc 3:on`), \
             which does not cover the switch's own buffer"
        }
        false => "use a NIC whose driver does (docs/management.md has the list)",
    };
    format!(
        "{}; {otherwise}, or write pfc.visible = true if you know that PFC frames pass both ways",
        capabilities.mac_control.text()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_dpdk::MacControl;

    fn ports(text: &str) -> Vec<PortConfig> {
        weir_config::load("test", text).unwrap_or_else(|e| panic!("{e:?}")).config.ports
    }

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|arg| (*arg).to_owned()).collect()
    }

    #[test]
    fn nics_are_allowed_once_with_their_devargs_and_take_hugepages() {
        let two = "[[port]]\nname = \"a\"\ndevice = \"3b:00.0,mprq_en=1\"\n[[port]]\nname = \"b\"\ndevice = \"0000:3b:00.1\"\n";
        let given = strings(&["-l", "0-2", "--allow=0000:3b:00.1"]);
        let args = eal_args(&ports(two), &given, &[]).unwrap();
        assert_eq!(args, ["-l", "0-2", "--allow=0000:3b:00.1", "-a", "3b:00.0,mprq_en=1"]);
        assert!(args::wants_hugepages(&args));
        assert_eq!(eal_args(&ports(two), &[], &strings(&["-b", "3b:00.2"])).unwrap(), ["-b", "3b:00.2"]);
        let refused = eal_args(&ports(two), &[], &strings(&["--no-pci"])).unwrap_err().to_string();
        assert!(refused.contains("port a") && refused.contains("--no-pci"), "{refused}");
    }

    fn capabilities(mac_control: MacControl) -> Capabilities {
        Capabilities {
            driver: "net_x".into(),
            is_virtual: false,
            max_rx_queues: 1,
            max_tx_queues: 1,
            one_wire: true,
            unsafe_interrupts: false,
            min_mtu: 68,
            max_mtu: 9216,
            tx_ipv4_checksum: false,
            tx_udp_checksum: false,
            rx_timestamp: false,
            rss: false,
            link_pause: false,
            mac_control,
            kernel_side: false,
        }
    }

    #[test]
    fn software_does_pfc_where_the_driver_is_known_to_let_it_or_the_user_knows_better() {
        let port = |pfc: &str| {
            let text = format!(
                "[[port]]\nname = \"a\"\ndevice = \"3b:00.0\"\nrate = \"1G\"\npfc = {{ enable = [3], tx = false, {pfc} }}\n"
            );
            ports(&text).remove(0)
        };
        let granted = |pfc: &str, mac| granted(&port(pfc), &capabilities(mac));
        assert!(granted("mode = \"auto\"", MacControl::Granted).unwrap());
        for hidden in [MacControl::Hidden, MacControl::Mute, MacControl::Unknown] {
            assert!(!granted("mode = \"auto\"", hidden).unwrap(), "{hidden:?}");
            let refused = granted("mode = \"software\"", hidden).unwrap_err().to_string();
            assert!(refused.contains("net_x") && refused.contains(hidden.text()), "{refused}");
            assert!(granted("mode = \"software\", visible = true", hidden).unwrap(), "{hidden:?}");
        }
        assert!(!granted("visible = false", MacControl::Visible).unwrap());
        assert!(!granted("mode = \"hardware\"", MacControl::Granted).unwrap());
    }

    #[test]
    fn a_link_has_a_speed_while_it_is_up_and_there_is_a_wire() {
        let wire = capabilities(MacControl::Granted);
        let link = |up, mbps| Some(Link { up, mbps, full_duplex: true });
        assert_eq!(speed(link(true, Some(25_000)), &wire), Some(25_000_000_000));
        assert_eq!(speed(link(false, Some(25_000)), &wire), None);
        assert_eq!(speed(link(true, None), &wire), None);
        assert_eq!(speed(None, &wire), None);
        assert_eq!(speed(link(true, Some(10_000)), &Capabilities { is_virtual: true, ..wire }), None);
    }

    #[test]
    fn an_mtu_above_the_devices_is_refused_in_terms_of_the_key() {
        let device = Capabilities { max_mtu: 9000, ..capabilities(MacControl::Visible) };
        assert!(carries(9014, &device).is_ok());
        let refused = carries(9015, &device).unwrap_err().to_string();
        assert!(refused.contains("mtu = 9014"), "{refused}");
    }

    #[test]
    fn virtual_ports_add_nothing() {
        let ring = ports("[[port]]\nname = \"a\"\ndevice = \"ring\"\n");
        let args = eal_args(&ring, &strings(&["-l", "0-1"]), &strings(&["-m", "64"])).unwrap();
        assert_eq!(args, ["-l", "0-1", "-m", "64"]);
        assert!(!args::wants_hugepages(&args));
    }

    #[test]
    fn the_pool_counts_the_rings_that_ports_were_given() {
        let text = |rx: u32, tx: u32| {
            format!(
                "[[port]]\nname = \"a\"\ndevice = \"net_null0\"\nrx_descriptors = {rx}\ntx_descriptors = {tx}\n"
            )
        };
        let count = |rx, tx| PoolSize::of_ports(&ports(&text(rx, tx)), 1, 0, 0).each;
        assert_eq!(count(4096, 256) - count(1024, 256), 3072);
        assert_eq!(count(1024, 1024) - count(1024, 256), 768);
    }
}
