//! What a port can do for a lossless switch, asked of the driver and, where it cannot be asked, known.

use weir_dpdk_sys as sys;

/// What becomes of PFC and 802.3x frames between the wire and software. A NIC normally consumes those that arrive, and
/// software can do PFC only where they pass both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacControl {
    /// They pass like any frame: virtual devices and those of virtual machines, which have no MAC. (`net_af_packet` and
    /// `net_af_xdp` see what the kernel's interface sees: over veth and VXLAN all, over a NIC what that lets through.
    /// Behind `net_virtio` and `net_vmxnet3` it is the hypervisor's switch that lets through or not.)
    Visible,
    /// A MAC of a family that hands them over when asked, and it was asked and agreed.
    Granted,
    /// A MAC of such a family, not asked yet ([`PortConfig::mac_control`](crate::PortConfig::mac_control),
    /// at start).
    OnRequest,
    /// The MAC keeps those that arrive: the peer cannot pause lossless priorities.
    Hidden,
    /// The driver drops those that software sends: the peer cannot be paused.
    Mute,
    /// Not known for this driver, even if it agreed when asked, as some agree and do nothing.
    Unknown,
}

impl MacControl {
    /// PFC frames can be counted on to pass, both ways.
    pub fn is_visible(self) -> bool {
        matches!(self, Self::Visible | Self::Granted)
    }

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Visible => "PFC frames pass, no MAC consumes them",
            Self::Granted => "the MAC hands PFC frames over, as it was asked to",
            Self::OnRequest => "the MAC hands PFC frames over when asked to",
            Self::Hidden => "the MAC keeps the PFC frames it receives",
            Self::Mute => "the driver drops the PFC frames that software sends",
            Self::Unknown => "not known whether the MAC hands PFC frames over",
        }
    }
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
    /// queue (`net_memif`), the driver wants as many receive queues (`net_tap`), or tells of queues that its device may not
    /// have (`net_e1000_em`).
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
    /// Whether PFC frames pass between wire and software.
    pub mac_control: MacControl,
    /// The kernel's driver keeps the NIC and shares it with DPDK's: what the MAC does by itself, PFC among it, is set with
    /// the kernel's tools (`dcb`, `ethtool`, `mlnx_qos`).
    pub kernel_side: bool,
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

/// Drivers that tell of more transmit queues than some of their devices have: what is sent on the second one of an 82540 is
/// taken and never seen again.
const TOO_MANY_QUEUES: &[&str] = &["net_e1000_em"];

/// Drivers that unmap a peer's memory when it leaves, bursts or not.
const UNSAFE_INTERRUPTS: &[&str] = &["net_memif"];

/// Devices of virtual machines: no MAC of their own, but a link with a speed.
const WITHOUT_MAC: &[&str] = &["net_virtio", "net_virtio_user", "net_vmxnet3"];

/// MACs that hand control frames over when `mac_ctrl_frame_fwd` is set, which their drivers program, and that send what
/// software makes. These tables are read from the source of DPDK 22.11, 23.11, 24.11 and 25.11, which agree.
const FORWARDS: &[&str] = &["net_e1000_em", "net_e1000_igb", "net_igc", "net_ixgbe", "net_ngbe", "net_txgbe"];

/// Drivers that refuse `mac_ctrl_frame_fwd`, or have no call for it (`net_ice`: none before 25.11, and then for E830 with
/// DCB alone).
const KEEPS: &[&str] =
    &["net_cn10k", "net_cn9k", "net_hns3", "net_ice", "net_mvpp2", "net_octeontx", "net_sfc_efx"];

/// Drivers that set a filter of the NIC against PFC frames sent by software when the device comes up, for good.
const MUTE: &[&str] = &["net_i40e"];

/// Drivers beside a kernel's driver.
const KERNEL_SIDE: &[&str] = &["mlx5_auxiliary", "mlx5_pci", "net_mlx4"];

impl Capabilities {
    /// From the driver's own answers: device info, the one to `mac_ctrl_frame_fwd` if it was asked, and whether link pause
    /// can be read.
    pub(crate) fn new(info: &sys::weir_eth_info, asked: Option<bool>, link_pause: bool) -> Self {
        let driver = driver_name(info);
        let is_virtual = is_virtual(&driver);
        Self {
            is_virtual,
            max_rx_queues: info.max_rx_queues,
            max_tx_queues: info.max_tx_queues,
            one_wire: one_wire(&driver),
            unsafe_interrupts: UNSAFE_INTERRUPTS.contains(&driver.as_str()),
            min_mtu: info.min_mtu,
            max_mtu: info.max_mtu,
            tx_ipv4_checksum: info.tx_ipv4_checksum != 0,
            tx_udp_checksum: info.tx_udp_checksum != 0,
            rx_timestamp: info.rx_timestamp != 0,
            rss: info.rss != 0,
            link_pause,
            mac_control: mac_control(&driver, asked),
            kernel_side: KERNEL_SIDE.contains(&driver.as_str()),
            driver,
        }
    }
}

/// The driver's name as text.
pub(crate) fn driver_name(info: &sys::weir_eth_info) -> String {
    let bytes: Vec<u8> = info.driver.iter().map(|&c| c as u8).take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// No driver of a NIC.
pub(crate) fn is_virtual(driver: &str) -> bool {
    VIRTUAL.contains(&driver)
}

fn one_wire(driver: &str) -> bool {
    if is_virtual(driver) { ONE_WIRE.contains(&driver) } else { !TOO_MANY_QUEUES.contains(&driver) }
}

fn mac_control(driver: &str, asked: Option<bool>) -> MacControl {
    match asked {
        _ if is_virtual(driver) || WITHOUT_MAC.contains(&driver) => MacControl::Visible,
        _ if KEEPS.contains(&driver) => MacControl::Hidden,
        _ if MUTE.contains(&driver) => MacControl::Mute,
        _ if !FORWARDS.contains(&driver) => MacControl::Unknown,
        None => MacControl::OnRequest,
        Some(true) => MacControl::Granted,
        Some(false) => MacControl::Hidden,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_without_a_mac_let_pfc_frames_pass_whatever_they_answer() {
        for driver in VIRTUAL.iter().chain(WITHOUT_MAC) {
            for asked in [None, Some(false), Some(true)] {
                assert_eq!(mac_control(driver, asked), MacControl::Visible);
            }
        }
    }

    #[test]
    fn a_nic_is_believed_only_where_its_driver_is_known_to_program_its_mac() {
        assert_eq!(mac_control("net_ixgbe", None), MacControl::OnRequest);
        assert_eq!(mac_control("net_ixgbe", Some(true)), MacControl::Granted);
        assert_eq!(mac_control("net_ixgbe", Some(false)), MacControl::Hidden);
        // Agrees, and has no such register; agrees, and is the driver of a virtual function.
        for driver in ["mlx5_pci", "net_bnxt", "net_e1000_igb_vf", "net_ixgbe_vf"] {
            assert_eq!(mac_control(driver, Some(true)), MacControl::Unknown, "{driver}");
        }
    }

    #[test]
    fn drivers_that_keep_or_drop_pfc_frames_are_not_believed() {
        for asked in [None, Some(true)] {
            assert_eq!(mac_control("net_ice", asked), MacControl::Hidden);
            assert_eq!(mac_control("net_hns3", asked), MacControl::Hidden);
            // It hands over what it receives, but its filter drops what software sends.
            assert_eq!(mac_control("net_i40e", asked), MacControl::Mute);
        }
        assert!(!MacControl::Mute.is_visible() && !MacControl::Hidden.is_visible());
    }

    #[test]
    fn lcores_have_transmit_queues_of_their_own_only_where_all_of_them_are_on_the_wire() {
        for driver in ["net_null", "net_ixgbe", "net_vmxnet3", "mlx5_pci"] {
            assert!(one_wire(driver), "{driver}");
        }
        for driver in ["net_memif", "net_tap", "net_e1000_em"] {
            assert!(!one_wire(driver), "{driver}");
        }
    }

    #[test]
    fn no_driver_is_in_two_tables() {
        let mut all: Vec<_> = [VIRTUAL, WITHOUT_MAC, FORWARDS, KEEPS, MUTE].concat();
        let number = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), number);
    }
}
