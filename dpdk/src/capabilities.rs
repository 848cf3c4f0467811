//! What a port can do for a lossless switch, asked of the driver and, where it cannot be asked, known.

use weir_dpdk_sys as sys;

/// Whether software sees the PFC and 802.3x frames a peer sends. A NIC normally consumes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacControl {
    /// They arrive like any frame: virtual devices, which have no MAC. (`net_af_packet` and `net_af_xdp`
    /// see what the kernel's interface sees: over veth and VXLAN all, over a NIC what that lets through.)
    Visible,
    /// A MAC of a family that hands them over when asked, and it was asked and agreed.
    Granted,
    /// A MAC of such a family, not asked yet ([`PortConfig::mac_control`](crate::PortConfig::mac_control),
    /// at start).
    OnRequest,
    /// The MAC keeps them: lossless priorities cannot be paused by the peer.
    Hidden,
    /// Not known for this driver, even if it agreed when asked, as some agree and do nothing.
    Unknown,
}

impl MacControl {
    /// PFC frames can be counted on to arrive.
    pub fn is_visible(self) -> bool {
        matches!(self, Self::Visible | Self::Granted)
    }
}

/// Hardware that sends and obeys PFC by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorityFlowControl {
    /// None: PFC is software's, as always on virtual devices.
    None,
    /// Per priority (`rte_eth_dev_priority_flow_ctrl_set`).
    PerPriority,
    /// Per queue (`rte_eth_dev_priority_flow_ctrl_queue_configure`).
    PerQueue {
        /// Traffic classes the hardware can pause.
        classes: u8,
    },
    /// Set outside DPDK, on the kernel's side of a shared NIC (mlx5: `mlnx_qos`, `dcb pfc`).
    KernelSide,
    /// Not known for this driver.
    Unknown,
}

/// What a port can do. Probed at start, shown to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Driver, e.g. `net_ice`.
    pub driver: String,
    /// A virtual device: no line rate, no MAC.
    pub is_virtual: bool,
    /// Most receive queues.
    pub max_rx_queues: u16,
    /// Most transmit queues.
    pub max_tx_queues: u16,
    /// All transmit queues end on one wire, whoever listens: so it is with NICs, but not where the peer must poll each
    /// queue (`net_memif`) or the driver wants as many receive queues (`net_tap`).
    pub one_wire: bool,
    /// The driver's interrupts take away what a burst may be using: see [`Interrupts`](crate::Interrupts).
    pub unsafe_interrupts: bool,
    /// Smallest MTU.
    pub min_mtu: u16,
    /// Largest MTU.
    pub max_mtu: u16,
    /// The device can compute the IPv4 header checksum of a frame sent.
    pub tx_ipv4_checksum: bool,
    /// The device can compute the UDP checksum of a frame sent.
    pub tx_udp_checksum: bool,
    /// The device can stamp received frames with its own time.
    pub rx_timestamp: bool,
    /// The device spreads flows over receive queues.
    pub rss: bool,
    /// Link-level pause settings (802.3x) can be read.
    pub link_pause: bool,
    /// Whether PFC frames of the peer are seen.
    pub mac_control: MacControl,
    /// PFC in hardware.
    pub pfc: PriorityFlowControl,
}

/// Drivers without a MAC.
const VIRTUAL: &[&str] = &[
    "net_ring",
    "net_memif",
    "net_af_packet",
    "net_af_xdp",
    "net_tap",
    "net_tun",
    "net_vhost",
    "net_pcap",
    "net_null",
];

/// Virtual devices whose transmit queues end in one place.
const ONE_WIRE: &[&str] = &["net_pcap", "net_null"];

/// Drivers that unmap a peer's memory when it leaves, bursts or not.
const UNSAFE_INTERRUPTS: &[&str] = &["net_memif"];

/// MACs that hand control frames over when `mac_ctrl_frame_fwd` is set, which their drivers program.
const FORWARDS: &[&str] = &[
    "net_e1000_em",
    "net_e1000_igb",
    "net_e1000_igb_vf",
    "net_igc",
    "net_ixgbe",
    "net_i40e",
    "net_ice",
    "net_ngbe",
    "net_txgbe",
];

/// Drivers that refuse `mac_ctrl_frame_fwd`.
const KEEPS: &[&str] =
    &["net_hns3", "net_cn9k", "net_cn10k", "net_octeontx", "net_octeontx2", "net_mvpp2", "net_sfc"];

/// Drivers with PFC per priority. i40e has the call and answers that it has not.
const PFC_PER_PRIORITY: &[&str] = &["net_axgbe", "net_hns3", "net_ice", "net_ixgbe", "net_txgbe"];

impl Capabilities {
    /// From the driver's own answers: device info, the one to `mac_ctrl_frame_fwd` if it was asked,
    /// whether link pause can be read, and classes of queue PFC or a negative error.
    pub(crate) fn new(
        info: &sys::weir_eth_info,
        asked: Option<bool>,
        link_pause: bool,
        queue_pfc: i32,
    ) -> Self {
        let driver = driver_name(info);
        let is_virtual = VIRTUAL.contains(&driver.as_str());
        Self {
            is_virtual,
            max_rx_queues: info.max_rx_queues,
            max_tx_queues: info.max_tx_queues,
            one_wire: !is_virtual || ONE_WIRE.contains(&driver.as_str()),
            unsafe_interrupts: UNSAFE_INTERRUPTS.contains(&driver.as_str()),
            min_mtu: info.min_mtu,
            max_mtu: info.max_mtu,
            tx_ipv4_checksum: info.tx_ipv4_checksum != 0,
            tx_udp_checksum: info.tx_udp_checksum != 0,
            rx_timestamp: info.rx_timestamp != 0,
            rss: info.rss != 0,
            link_pause,
            mac_control: mac_control(&driver, asked),
            pfc: pfc(&driver, queue_pfc),
            driver,
        }
    }
}

/// The driver's name as text.
pub(crate) fn driver_name(info: &sys::weir_eth_info) -> String {
    let bytes: Vec<u8> = info.driver.iter().map(|&c| c as u8).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn mac_control(driver: &str, asked: Option<bool>) -> MacControl {
    if VIRTUAL.contains(&driver) {
        return MacControl::Visible;
    }
    if KEEPS.contains(&driver) {
        return MacControl::Hidden;
    }
    match (FORWARDS.contains(&driver), asked) {
        (true, None) => MacControl::OnRequest,
        (true, Some(true)) => MacControl::Granted,
        (true, Some(false)) => MacControl::Hidden,
        (false, _) => MacControl::Unknown,
    }
}

fn pfc(driver: &str, queue_pfc: i32) -> PriorityFlowControl {
    match u8::try_from(queue_pfc) {
        Ok(classes) if classes > 0 => PriorityFlowControl::PerQueue { classes },
        _ if PFC_PER_PRIORITY.contains(&driver) => PriorityFlowControl::PerPriority,
        _ if VIRTUAL.contains(&driver) || driver == "net_i40e" => PriorityFlowControl::None,
        _ if driver == "mlx5_pci" || driver == "net_mlx5" => PriorityFlowControl::KernelSide,
        _ => PriorityFlowControl::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_devices_see_pfc_frames() {
        for driver in VIRTUAL {
            assert_eq!(mac_control(driver, Some(false)), MacControl::Visible);
            assert_eq!(pfc(driver, -95), PriorityFlowControl::None);
        }
    }

    #[test]
    fn a_nic_is_believed_only_where_its_mac_is_known_to_obey() {
        assert_eq!(mac_control("net_ice", None), MacControl::OnRequest);
        assert_eq!(mac_control("net_ice", Some(true)), MacControl::Granted);
        assert_eq!(mac_control("net_ixgbe", Some(false)), MacControl::Hidden);
        assert_eq!(mac_control("net_hns3", None), MacControl::Hidden);
        assert_eq!(mac_control("mlx5_pci", Some(true)), MacControl::Unknown);
        assert!(!mac_control("mlx5_pci", Some(true)).is_visible());
    }

    #[test]
    fn hardware_pfc_is_asked_for_per_queue_and_known_per_priority() {
        assert_eq!(pfc("net_cn10k", 8), PriorityFlowControl::PerQueue { classes: 8 });
        assert_eq!(pfc("net_ice", -95), PriorityFlowControl::PerPriority);
        assert_eq!(pfc("net_i40e", -38), PriorityFlowControl::None);
        assert_eq!(pfc("mlx5_pci", -95), PriorityFlowControl::KernelSide);
        assert_eq!(pfc("net_new", 0), PriorityFlowControl::Unknown);
    }
}
