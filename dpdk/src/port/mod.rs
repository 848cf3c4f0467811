//! Ports: a NIC by its PCI address, a virtual device by its devargs, or a pair of rings.

mod device;
mod fanout;
mod packet;
mod queue;
mod ring;
mod stats;
mod tx_ring;

use std::marker::PhantomData;
use std::sync::Arc;

use weir_dataplane::types::Mac;

use crate::error::PortError;
use crate::{Capabilities, Eal, Mempool};
use device::Device;

pub use queue::{RxQueue, TxQueue};
pub use ring::ring_pair;
pub use stats::{Link, LinkWatch, Stats};

/// Ports a process can have, as DPDK was built: two of them for a pair of rings.
pub const MAX_PORTS: usize = weir_dpdk_sys::weir_limit::WEIR_MAX_PORTS as usize;

/// State of a port that moves no frames.
#[derive(Debug)]
pub enum Stopped {}
/// State of a port whose queues can be taken.
#[derive(Debug)]
pub enum Started {}

/// A port, owned: there is one handle to each. Stopped and closed on drop, or, if queues of it are still
/// alive, with the last of them.
///
/// Statistics, link and addresses may be read in either state and from any thread.
pub struct Port<S> {
    device: Arc<Device>,
    state: PhantomData<fn() -> S>,
}

impl<S> std::fmt::Debug for Port<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("id", &self.id()).field("name", &self.name()).finish_non_exhaustive()
    }
}

/// What a port is to have. The default is one queue each way, 1024 descriptors, promiscuous, and the MAC
/// asked to hand over PFC frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Receive queues; more than one spread by RSS where the driver can.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// Descriptors of each receive queue, fitted to the driver's limits.
    pub rx_descriptors: u16,
    /// Descriptors of each transmit queue, fitted to the driver's limits. Frames in them cannot be
    /// recalled when the peer pauses us: keep it short on a lossless port.
    pub tx_descriptors: u16,
    /// Largest payload of a frame after its 14 bytes of Ethernet header; `None` keeps the device's.
    pub mtu: Option<u16>,
    /// Receive frames for any address, as a switch must.
    pub promiscuous: bool,
    /// Ask the MAC to hand 802.3x and PFC frames to software (`mac_ctrl_frame_fwd`), and neither to send nor to obey any
    /// by itself. Whether it does is told by [`Capabilities::mac_control`].
    pub mac_control: bool,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            rx_queues: 1,
            tx_queues: 1,
            rx_descriptors: 1024,
            tx_descriptors: 1024,
            mtu: None,
            promiscuous: true,
            mac_control: true,
        }
    }
}

/// The port did not start; it is given back, to be tried again (a `net_memif` client waits for its
/// server) or dropped.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct StartError {
    /// The port, as it was.
    pub port: Port<Stopped>,
    /// What went wrong.
    pub source: PortError,
}

/// The port goes on, since a queue of it is in use; it is given back.
#[derive(Debug, thiserror::Error)]
#[error("port {} cannot stop: {queues} of its queues are in use", .port.name())]
pub struct StopError {
    /// The port, as it was.
    pub port: Port<Started>,
    /// Queues that have an owner.
    pub queues: usize,
}

impl<S> Port<S> {
    fn with(device: Arc<Device>) -> Self {
        Self { device, state: PhantomData }
    }

    /// The device's name, e.g. `net_tap0` or `0000:03:00.0`.
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// DPDK's number of the port, as its tools show it.
    pub fn id(&self) -> u16 {
        self.device.id
    }

    /// The first MAC address.
    ///
    /// # Errors
    /// The driver refused.
    pub fn mac(&self) -> Result<Mac, PortError> {
        self.device.mac()
    }

    /// Largest payload of a frame after its 14 bytes of Ethernet header.
    ///
    /// # Errors
    /// The driver refused.
    pub fn mtu(&self) -> Result<u16, PortError> {
        self.device.mtu()
    }

    /// Receive and transmit descriptors per queue, as configured after fitting to the driver.
    pub fn descriptors(&self) -> (u16, u16) {
        let setup = self.device.setup();
        (setup.config.rx_descriptors, setup.config.tx_descriptors)
    }

    /// Counters the driver has kept since the port came up. They only grow.
    ///
    /// # Errors
    /// The driver refused.
    pub fn stats(&self) -> Result<Stats, PortError> {
        self.device.stats()
    }

    /// The driver's own counters by its own names.
    ///
    /// # Errors
    /// The driver refused.
    pub fn xstats(&self) -> Result<Vec<(String, u64)>, PortError> {
        self.device.xstats()
    }

    /// State of the link now, without waiting for it to settle.
    ///
    /// # Errors
    /// The driver refused.
    pub fn link(&self) -> Result<Link, PortError> {
        self.device.link()
    }

    /// Has the device take its link up or down, which its peer sees.
    ///
    /// # Errors
    /// The driver cannot: those of most virtual devices.
    pub fn set_link(&self, up: bool) -> Result<(), PortError> {
        self.device.set_link(up)
    }

    /// Tells another thread whether the link is up. It keeps the port from nothing: a closed one has no link.
    pub(crate) fn link_probe(&self) -> impl Fn() -> bool + Send + use<S> {
        let device = Arc::downgrade(&self.device);
        move || device.upgrade().is_some_and(|device| device.link().is_ok_and(|link| link.up))
    }

    /// What driver and device can do for a lossless switch.
    ///
    /// # Errors
    /// The driver refused.
    pub fn capabilities(&self) -> Result<Capabilities, PortError> {
        self.device.capabilities()
    }

    /// Memory node of the device, if it has one.
    pub fn socket(&self) -> Option<u32> {
        self.device.socket()
    }

    /// The device is being taken away: unplugged, unbound, or lost to its driver. It stays until [`give_up`](Self::give_up).
    pub fn is_removed(&self) -> bool {
        self.device.is_removed()
    }

    /// The interface of the kernel behind a port of `net_af_packet` was deleted or moved to another network namespace, and
    /// never comes back to it. Other drivers do not tell.
    pub fn is_orphan(&self) -> bool {
        self.device.is_orphan()
    }

    /// Lets go of a device that is being taken away, which the kernel may be waiting for. From now on the port answers with
    /// [`PortError::Gone`].
    ///
    /// # Errors
    /// So many of its queues are in use.
    pub fn give_up(&self) -> Result<(), usize> {
        self.device.give_up()
    }
}

impl Port<Stopped> {
    /// Attaches a device: `net_af_packet0,iface=veth0`, `net_null0`, `0000:03:00.0`. A device that EAL
    /// arguments (`--vdev`, `-a`) brought up already is taken over by its name.
    ///
    /// # Errors
    /// [`PortError::Probe`] if there is no such device, [`PortError::InUse`] if its ports have owners,
    /// [`PortError::Devargs`] if it was brought up with other arguments.
    pub fn probe(eal: &Eal, devargs: &str) -> Result<Self, PortError> {
        Device::probe(eal, devargs).map(|device| Self::with(Arc::new(device)))
    }

    /// Sets up queues whose frames come from `pool`. May be repeated while stopped.
    ///
    /// # Errors
    /// [`PortError::Config`] if device or pool cannot do it, [`PortError::Driver`] if the driver refuses.
    pub fn configure(&mut self, config: &PortConfig, pool: &Mempool) -> Result<(), PortError> {
        self.device.configure(config, pool)
    }

    /// Starts moving frames.
    ///
    /// # Errors
    /// Gives the port back with the reason.
    pub fn start(self) -> Result<Port<Started>, StartError> {
        match self.device.start() {
            Ok(()) => Ok(Port::with(self.device)),
            Err(source) => Err(StartError { port: self, source }),
        }
    }
}

impl Port<Started> {
    /// Receive queue `queue`, which has one owner at a time: it can be taken again once dropped.
    ///
    /// # Errors
    /// [`PortError::NoQueue`].
    pub fn rx_queue(&self, queue: u16) -> Result<RxQueue, PortError> {
        RxQueue::take(&self.device, queue)
    }

    /// Transmit queue `queue`, which has one owner at a time: it can be taken again once dropped.
    ///
    /// # Errors
    /// [`PortError::NoQueue`].
    pub fn tx_queue(&self, queue: u16) -> Result<TxQueue, PortError> {
        TxQueue::take(&self.device, queue)
    }

    /// Stops moving frames.
    ///
    /// # Errors
    /// Gives the port back if a queue of it is in use.
    pub fn stop(self) -> Result<Port<Stopped>, StopError> {
        match self.device.stop() {
            Ok(()) => Ok(Port::with(self.device)),
            Err(queues) => Err(StopError { port: self, queues }),
        }
    }
}
