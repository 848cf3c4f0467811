//! Ports on interfaces of the kernel, and what hosts there leave to a NIC that is none.
//!
//! A host sums up no checksums and cuts TCP into no frames where its interface offers to do both; a veth pair offers and
//! does neither, and the kernel hands a packet socket what it would have handed to a NIC. Checksums the switch makes
//! up (`weir_dataplane::parse::checksum`). A frame of 64 KB it can only drop, and say what to type.

use super::devargs::argument;
use std::time::{Duration, Instant};
use weir_config::PortConfig;
use weir_dataplane::drops::DropReason;
use weir_dataplane::stats::{PortStats, Published};
use weir_layout::counted;

/// Drivers that take frames from an interface of the kernel, as DPDK calls them.
pub const DRIVERS: &[&str] = &["net_af_packet", "net_af_xdp"];

/// How often counters are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// The interface of the kernel that a device takes frames from.
pub fn interface(device: &str) -> Option<&str> {
    let of = |drivers: &[&str], key| argument(device, drivers, key);
    of(&["net_af_packet", "eth_af_packet", "net_af_xdp"], "iface")
        .or_else(|| of(&["net_pcap", "eth_pcap"], "iface"))
        .or_else(|| of(&["net_pcap", "eth_pcap"], "rx_iface"))
}

/// What makes hosts behind an interface send frames as they belong on a wire.
pub fn remedy(interface: &str) -> String {
    format!(
        "ethtool -K PEER tx off, PEER being the other end of {interface} where a host has it; \
         ethtool -K {interface} gro off lro off where {interface} is a NIC"
    )
}

/// Looks for frames that only offloads can have made.
#[derive(Debug)]
pub struct Watch {
    /// Ports that have not been told of: number, name, longest frame, interface.
    quiet: Vec<(usize, String, u16, String)>,
    due: Instant,
}

/// A port that gets such frames.
#[derive(Debug)]
pub struct Found {
    /// Its name.
    pub port: String,
    /// What happened.
    pub detail: String,
    /// What to do.
    pub remedy: String,
}

impl Watch {
    /// Over the ports that are interfaces of the kernel.
    pub fn new(ports: &[PortConfig]) -> Self {
        let of = |(i, port): (usize, &PortConfig)| {
            Some((i, port.name.clone(), port.mtu, interface(&port.device)?.to_owned()))
        };
        Self { quiet: ports.iter().enumerate().filter_map(of).collect(), due: Instant::now() }
    }

    /// The ports that got the first such frames since the last look.
    pub fn look(&mut self, counters: &[Published]) -> Vec<Found> {
        if self.quiet.is_empty() || Instant::now() < self.due {
            return Vec::new();
        }
        self.due = Instant::now() + LOOK;
        let too_long = |port: usize| {
            let stats: PortStats = counters[port].read();
            stats.drops.0[DropReason::ParseTooLong as usize]
        };
        let found = self.quiet.extract_if(.., |(port, ..)| too_long(*port) > 0);
        found
            .map(|(i, port, mtu, interface)| Found {
                detail: format!(
                    "{} longer than mtu = {mtu} dropped: a host leaves cutting its data into frames to a NIC, and \
                     {interface} is none, or its frames are longer than the port's (a VLAN tag is 4 bytes)",
                    counted(too_long(i), "frame")
                ),
                remedy: remedy(&interface),
                port,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_of_the_kernel_are_known_by_their_drivers() {
        for (device, expected) in [
            ("net_af_packet0,iface=veth0,framesz=4096", Some("veth0")),
            ("net_af_xdp1,iface=eth2", Some("eth2")),
            ("net_pcap0,iface=eth0", Some("eth0")),
            ("net_pcap0,rx_iface=eth0,tx_pcap=/tmp/out.pcap", Some("eth0")),
            // What a file says stands as it is; a tap has the kernel make up what it sends there.
            ("net_pcap0,rx_pcap=/tmp/in.pcap", None),
            ("net_tap0,iface=tap0", None),
            ("ring", None),
        ] {
            assert_eq!(interface(device), expected, "{device}");
        }
    }
}
