//! What a port tells about itself.

use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use weir_dataplane::types::Mac;
use weir_dpdk_sys as sys;

use super::Port;
use super::device::Device;
use super::packet;
use crate::error::PortError;

/// A driver's counters since the port came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames received.
    pub rx_frames: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Bytes received, without FCS with most drivers.
    pub rx_bytes: u64,
    /// Bytes sent, without FCS with most drivers.
    pub tx_bytes: u64,
    /// Frames lost because no receive descriptor was free (`imissed`): loss before the switch.
    pub rx_missed: u64,
    /// Frames received with an error (`ierrors`).
    pub rx_errors: u64,
    /// Frames that could not be sent (`oerrors`).
    pub tx_errors: u64,
    /// Those of them that are lost. Most drivers of virtual devices count what they did not take, too, and are offered
    /// it again: 0 for them.
    pub tx_lost: u64,
    /// Receptions that found the pool empty (`rx_nombuf`).
    pub rx_no_mbuf: u64,
}

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Frames can pass.
    pub up: bool,
    /// Speed in Mbit/s; `None` where the driver does not know. Virtual devices invent one.
    pub mbps: Option<u32>,
    /// Both directions at once.
    pub full_duplex: bool,
}

/// Notices changes of a link by looking.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkWatch {
    last: Option<Link>,
}

impl LinkWatch {
    /// The state of the port's link if it differs from the last look; the first look always tells.
    ///
    /// # Errors
    /// The driver refused.
    pub fn poll<S>(&mut self, port: &Port<S>) -> Result<Option<Link>, PortError> {
        let link = port.link()?;
        Ok((self.last.replace(link) != Some(link)).then_some(link))
    }
}

impl Device {
    pub(super) fn mac(&self) -> Result<Mac, PortError> {
        let _control = self.open()?;
        let mut mac = Mac::default();
        // SAFETY: the port is open; the shim writes six bytes.
        self.check("MAC address", unsafe { sys::weir_eth_mac(self.id, mac.0.as_mut_ptr()) })?;
        Ok(mac)
    }

    pub(super) fn mtu(&self) -> Result<u16, PortError> {
        let _control = self.open()?;
        let mut mtu = 0;
        // SAFETY: the port is open; the call writes one number.
        self.check("MTU", unsafe { sys::rte_eth_dev_get_mtu(self.id, &raw mut mtu) })?;
        Ok(mtu)
    }

    pub(super) fn stats(&self) -> Result<Stats, PortError> {
        let mut setup = self.open()?;
        let mut s = sys::weir_eth_stats::default();
        let discarded = self.tx_discarded.load(Relaxed);
        // SAFETY: the port is open; the shim writes the struct.
        self.check("statistics", unsafe { sys::weir_eth_stats(self.id, &raw mut s) })?;
        if setup.started {
            setup.ring_drops += setup.sockets.iter().map(|&fd| packet::new_drops(fd)).sum::<u64>();
        }
        // A transmit queue may be between both counts.
        setup.tx_errors = setup.tx_errors.max(s.tx_errors.wrapping_add(discarded));
        Ok(Stats {
            rx_frames: s.rx_frames,
            tx_frames: s.tx_frames,
            rx_bytes: s.rx_bytes,
            tx_bytes: s.tx_bytes,
            rx_missed: s.rx_missed + setup.ring_drops,
            rx_errors: s.rx_errors,
            tx_errors: setup.tx_errors,
            // A socket of net_af_packet refuses what its interface cannot send.
            tx_lost: if self.nic || !setup.sockets.is_empty() { setup.tx_errors } else { 0 },
            rx_no_mbuf: s.rx_no_mbuf,
        })
    }

    pub(super) fn link(&self) -> Result<Link, PortError> {
        let setup = self.open()?;
        let mut link = sys::weir_eth_link::default();
        // SAFETY: the port is open; the shim writes the struct.
        self.check("link state", unsafe { sys::weir_eth_link(self.id, &raw mut link) })?;
        Ok(Link {
            up: match setup.sockets.first().filter(|_| setup.started) {
                Some(&socket) => {
                    let up = packet::running(socket).unwrap_or(false);
                    if up {
                        packet::take_error(socket);
                    }
                    up
                }
                None => link.up != 0,
            },
            mbps: Some(link.mbps).filter(|&mbps| mbps != 0 && mbps != u32::MAX),
            full_duplex: link.full_duplex != 0,
        })
    }

    pub(super) fn set_link(&self, up: bool) -> Result<(), PortError> {
        let _control = self.open()?;
        // SAFETY: the port is open, and nobody else speaks to its driver meanwhile.
        let done = unsafe {
            match up {
                true => sys::rte_eth_dev_set_link_up(self.id),
                false => sys::rte_eth_dev_set_link_down(self.id),
            }
        };
        self.check("link up or down", done).map(drop)
    }

    pub(super) fn xstats(&self) -> Result<Vec<(String, u64)>, PortError> {
        let _control = self.open()?;
        // SAFETY: the port is open; with no room the call tells the number only.
        let n = unsafe { sys::rte_eth_xstats_get_names(self.id, std::ptr::null_mut(), 0) };
        let n = self.check("xstats", n)?.unsigned_abs();
        let mut names = vec![sys::rte_eth_xstat_name::default(); n as usize];
        let mut values = vec![sys::rte_eth_xstat::default(); n as usize];
        // SAFETY: both arrays have n elements; names end in zero.
        unsafe {
            self.check("xstats", sys::rte_eth_xstats_get_names(self.id, names.as_mut_ptr(), n))?;
            let got = self.check("xstats", sys::rte_eth_xstats_get(self.id, values.as_mut_ptr(), n))?;
            values.truncate(got.unsigned_abs() as usize);
            let named = values.iter().filter_map(|v| {
                let name = names.get(usize::try_from(v.id).ok()?)?;
                Some((CStr::from_ptr(name.name.as_ptr()).to_string_lossy().into_owned(), v.value))
            });
            Ok(named.collect())
        }
    }
}
