//! The device behind a port and its queues.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_int};
use std::os::fd::RawFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_dpdk_sys as sys;

use super::PortConfig;
use super::ring::RingPair;
use super::{fanout, packet};
use crate::capabilities::{Capabilities, driver_name, is_virtual};
use crate::eal::State;
use crate::error::{PortError, reason};
use crate::{Eal, Mempool};

/// Shared by the port and its queues; the last of them closes it.
#[derive(Debug)]
pub(super) struct Device {
    pub id: u16,
    pub name: String,
    /// Brought up by us, so taken down by us; devices of EAL arguments are EAL's.
    hotplugged: bool,
    /// A NIC is behind it.
    pub nic: bool,
    setup: Mutex<Setup>,
    /// Frames lost behind the driver, less those it counts as lost and that were not ([`super::tx_ring`]); wraps.
    pub tx_discarded: AtomicU64,
    /// Where frames for this port wait, if it is one of a pair.
    pub rx_ring: Option<super::ring::RxRing>,
    eal: Eal,
}

/// Held during every call of the control path, as drivers do not expect two at once.
#[derive(Debug, Default)]
pub(super) struct Setup {
    pub config: PortConfig,
    pub configured: bool,
    pub started: bool,
    /// The device was given up: DPDK no longer knows the port.
    pub closed: bool,
    /// The driver's answer to `mac_ctrl_frame_fwd`, once asked.
    pub mac_control: Option<bool>,
    pub rx_taken: BTreeSet<u16>,
    pub tx_taken: BTreeSet<u16>,
    /// The kernel's sockets behind a port of `net_af_packet`, and the frames their rings had no room for.
    pub sockets: Vec<RawFd>,
    pub ring_drops: u64,
    /// Frames that could not be sent, as last told.
    pub tx_errors: u64,
    // Dropped in this order: the rings give their frames back before the pool goes.
    _rings: Option<Arc<RingPair>>,
    pool: Option<Mempool>,
}

/// Frame bytes besides the MTU that must fit a buffer: Ethernet header and two VLAN tags.
const L2_OVERHEAD: u32 = 14 + 4 + 4;

impl Device {
    pub(super) fn probe(eal: &Eal, devargs: &str) -> Result<Self, PortError> {
        let c_devargs = c_name(devargs)?;
        // The part EAL finds a device by; what follows are the driver's own arguments.
        let by_class = ["bus=", "class=", "driver="].iter().any(|key| devargs.starts_with(key));
        let name = if by_class { devargs } else { devargs.split(',').next().unwrap_or(devargs) };
        let c_selector = c_name(name)?;

        let mut state = eal.state();
        let free = |ports: &BTreeSet<u16>| ports_of(&c_selector).into_iter().find(|id| !ports.contains(id));
        let mut found = free(&state.ports);
        let hotplugged = found.is_none();
        let before = if hotplugged { packet::sockets() } else { Vec::new() };
        if hotplugged {
            match fanout::probe(&c_devargs) {
                0 => found = free(&state.ports),
                ret if ret == -libc::EEXIST => {}
                ret => {
                    return Err(PortError::Probe { devargs: devargs.to_owned(), reason: reason(ret) });
                }
            }
        }
        let Some(id) = found else { return Err(PortError::InUse(name.to_owned())) };
        let asked = if by_class { "" } else { devargs.get(name.len() + 1..).unwrap_or("") };
        if !hotplugged && !asked.is_empty() {
            let has = devargs_of(id);
            if has != asked {
                return Err(PortError::Devargs { name: name.to_owned(), asked: asked.to_owned(), has });
            }
        }
        let nic = is_nic(id);
        if nic {
            watch_removal(&mut state, id);
        }
        state.ports.insert(id);
        // Under the lock, so what is new is this device's.
        let mut sockets = packet::sockets();
        sockets.retain(|fd| !before.contains(fd));
        sockets.iter().for_each(|&fd| packet::ignore_outgoing(fd));
        // Others (`net_pcap`) read what their sockets count for themselves.
        if !name.contains("af_packet") {
            sockets.clear();
        }
        drop(state);
        let setup = Mutex::new(Setup { sockets, ..Setup::default() });
        let (name, tx_discarded) = (name.to_owned(), AtomicU64::new(0));
        Ok(Self { id, name, hotplugged, nic, setup, tx_discarded, rx_ring: None, eal: eal.clone() })
    }

    /// A port the ring driver has just made.
    pub(super) fn of_rings(
        eal: &Eal,
        id: u16,
        name: String,
        rx: super::ring::RxRing,
        rings: Arc<RingPair>,
    ) -> Self {
        eal.state().ports.insert(id);
        let setup = Setup { _rings: Some(rings), ..Setup::default() };
        Self {
            id,
            name,
            hotplugged: true,
            nic: false,
            setup: Mutex::new(setup),
            tx_discarded: AtomicU64::new(0),
            rx_ring: Some(rx),
            eal: eal.clone(),
        }
    }

    pub(super) fn setup(&self) -> MutexGuard<'_, Setup> {
        self.setup.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same while the device is there.
    pub(super) fn open(&self) -> Result<MutexGuard<'_, Setup>, PortError> {
        let setup = self.setup();
        if setup.closed { Err(PortError::Gone(self.name.clone())) } else { Ok(setup) }
    }

    /// Turns a driver's return value into an error with the call's name.
    pub(super) fn check(&self, step: &'static str, ret: c_int) -> Result<c_int, PortError> {
        if ret >= 0 {
            return Ok(ret);
        }
        Err(PortError::Driver { port: self.name.clone(), step, reason: reason(ret) })
    }

    fn refuse(&self, what: String) -> PortError {
        PortError::Config { port: self.name.clone(), what }
    }

    pub(super) fn info(&self) -> Result<sys::weir_eth_info, PortError> {
        let mut info = sys::weir_eth_info::default();
        // SAFETY: the shim writes the struct; DPDK refuses a port it does not know.
        self.check("device info", unsafe { sys::weir_eth_info_get(self.id, &raw mut info) })?;
        Ok(info)
    }

    pub(super) fn configure(&self, config: &PortConfig, pool: &Mempool) -> Result<(), PortError> {
        let mut setup = self.open()?;
        let info = self.info()?;
        self.check_limits(config, pool, &info)?;
        setup.configured = false;
        let mut config = config.clone();
        // SAFETY: the port is open and stopped, its control path locked; the pool is kept in `setup` for
        // as long as the queues set up with it.
        unsafe {
            let (rx, tx, mtu) = (config.rx_queues, config.tx_queues, config.mtu.unwrap_or(0));
            self.check("configure", sys::weir_eth_configure(self.id, rx, tx, mtu))?;
            self.check(
                "descriptor limits",
                sys::weir_eth_adjust_descriptors(
                    self.id,
                    &raw mut config.rx_descriptors,
                    &raw mut config.tx_descriptors,
                ),
            )?;
            for queue in 0..rx {
                let ret = sys::weir_eth_rx_queue_setup(self.id, queue, config.rx_descriptors, pool.raw());
                self.check("RX queue setup", ret)?;
            }
            for queue in 0..tx {
                let ret = sys::weir_eth_tx_queue_setup(self.id, queue, config.tx_descriptors);
                self.check("TX queue setup", ret)?;
            }
            if mtu != 0 {
                match sys::rte_eth_dev_set_mtu(self.id, mtu) {
                    // Drivers without the call have no limit of their own.
                    ret if ret == -libc::ENOTSUP => {}
                    ret => drop(self.check("set MTU", ret)?),
                }
            }
        }
        setup.config = config;
        setup.pool = Some(pool.clone());
        setup.configured = true;
        Ok(())
    }

    fn check_limits(
        &self,
        config: &PortConfig,
        pool: &Mempool,
        info: &sys::weir_eth_info,
    ) -> Result<(), PortError> {
        let queues =
            [("RX", config.rx_queues, info.max_rx_queues), ("TX", config.tx_queues, info.max_tx_queues)];
        for (direction, asked, max) in queues {
            if asked == 0 || asked > max {
                return Err(self.refuse(format!(
                    "{asked} {direction} queues asked for, driver {} has 1 to {max}",
                    driver_name(info)
                )));
            }
        }
        let Some(mtu) = config.mtu else { return Ok(()) };
        let (min, max) = (info.min_mtu, info.max_mtu);
        if mtu < min || mtu > max {
            return Err(
                self.refuse(format!("MTU {mtu} asked for, driver {} has {min} to {max}", driver_name(info)))
            );
        }
        let room = u32::from(pool.data_bytes());
        if u32::from(mtu) + L2_OVERHEAD > room {
            return Err(self.refuse(format!(
                "MTU {mtu} with {L2_OVERHEAD} bytes of headers does not fit the {room} bytes of the pool's frames; \
                 make the pool's frames larger or the MTU smaller"
            )));
        }
        Ok(())
    }

    pub(super) fn start(&self) -> Result<(), PortError> {
        let mut setup = self.open()?;
        if !setup.configured {
            return Err(PortError::NotConfigured(self.name.clone()));
        }
        // SAFETY: the port is open and configured, its control path locked.
        unsafe {
            self.check("start", sys::rte_eth_dev_start(self.id))?;
            if setup.config.promiscuous {
                let ret = sys::rte_eth_promiscuous_enable(self.id);
                if let Err(e) = self.check("promiscuous mode", if ret == -libc::ENOTSUP { 0 } else { ret }) {
                    sys::rte_eth_dev_stop(self.id);
                    return Err(e);
                }
            }
            if setup.config.mac_control {
                setup.mac_control = Some(sys::weir_eth_software_flow_control(self.id) == 0);
            }
        }
        setup.started = true;
        Ok(())
    }

    /// Stops the port, or says how many queues are in use.
    pub(super) fn stop(&self) -> Result<(), usize> {
        let mut setup = self.setup();
        let taken = setup.rx_taken.len() + setup.tx_taken.len();
        if taken > 0 {
            return Err(taken);
        }
        if setup.started {
            // SAFETY: no queue handle is left, so nobody is in a burst of this port.
            unsafe { sys::rte_eth_dev_stop(self.id) };
            setup.started = false;
        }
        Ok(())
    }

    pub(super) fn is_removed(&self) -> bool {
        // SAFETY: reads a flag.
        unsafe { sys::weir_eth_is_removed(self.id) }
    }

    pub(super) fn is_orphan(&self) -> bool {
        self.setup().sockets.iter().any(|&socket| packet::is_orphan(socket))
    }

    /// Lets go of a device that is being taken away, or says how many queues are in use.
    pub(super) fn give_up(&self) -> Result<(), usize> {
        let mut setup = self.setup();
        let taken = setup.rx_taken.len() + setup.tx_taken.len();
        if taken > 0 {
            return Err(taken);
        }
        if !setup.closed {
            self.close(&mut setup, true);
        }
        Ok(())
    }

    /// Stops and closes the port. Its device is removed, too, if it has no other port and either was brought up by us or
    /// must go.
    fn close(&self, setup: &mut Setup, must_go: bool) {
        let mut state = self.eal.state();
        // SAFETY: no queue handle is left, so this is the last use of the port; the device pointer is
        // taken before the port forgets it and stays valid until removed.
        unsafe {
            let device = sys::weir_eth_device(self.id);
            sys::weir_eth_unwatch_removal(self.id, device);
            if setup.started {
                sys::rte_eth_dev_stop(self.id);
            }
            sys::rte_eth_dev_close(self.id);
            let alone = c_name(&self.name).is_ok_and(|name| ports_of(&name).is_empty());
            if (self.hotplugged || must_go) && alone && !device.is_null() {
                sys::weir_device_remove(device);
            }
        }
        setup.started = false;
        setup.closed = true;
        state.ports.remove(&self.id);
    }

    pub(super) fn capabilities(&self) -> Result<Capabilities, PortError> {
        let setup = self.open()?;
        let info = self.info()?;
        // SAFETY: the port is open, its control path locked; the call only reads.
        let link_pause = unsafe { sys::weir_eth_flow_control_get(self.id) == 0 };
        Ok(Capabilities::new(&info, setup.mac_control, link_pause))
    }

    pub(super) fn socket(&self) -> Option<u32> {
        // SAFETY: reads a number; DPDK answers -1 for a port it does not know.
        u32::try_from(unsafe { sys::weir_eth_socket(self.id) }).ok()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let mut setup = std::mem::take(self.setup.get_mut().unwrap_or_else(PoisonError::into_inner));
        if !setup.closed {
            self.close(&mut setup, false);
        }
    }
}

/// What the driver was told when the device came up.
pub(super) fn devargs_of(port: u16) -> String {
    // SAFETY: a string of the device's, which is there while the port is.
    unsafe {
        let devargs = sys::weir_eth_devargs(port);
        if devargs.is_null() { String::new() } else { CStr::from_ptr(devargs).to_string_lossy().into_owned() }
    }
}

/// The port's driver is one of NICs.
fn is_nic(port: u16) -> bool {
    let mut info = sys::weir_eth_info::default();
    // SAFETY: the shim writes the struct; a port that DPDK does not know is an error.
    let known = unsafe { sys::weir_eth_info_get(port, &raw mut info) } == 0;
    known && !is_virtual(&driver_name(&info))
}

/// Has it noted when the port's device is taken away. Where the kernel does not let us listen, drivers still tell.
fn watch_removal(state: &mut State, port: u16) {
    // SAFETY: the port is open; the shim keeps a flag.
    unsafe {
        sys::weir_eth_watch_removal(port);
        if !state.watches_devices {
            state.watches_devices = sys::weir_watch_devices() == 0;
        }
    }
}

pub(super) fn c_name(name: &str) -> Result<CString, PortError> {
    match CString::new(name) {
        Ok(c) if !name.is_empty() => Ok(c),
        _ => Err(PortError::Name(name.to_owned())),
    }
}

/// Ports of the device of this name; few devices have more than one.
fn ports_of(selector: &CString) -> Vec<u16> {
    let mut ports = [0_u16; 64];
    // SAFETY: the shim writes at most as many as there is room for.
    let n = unsafe { sys::weir_eth_ports_of(selector.as_ptr(), ports.as_mut_ptr(), ports.len() as u32) };
    ports[..n as usize].to_vec()
}
