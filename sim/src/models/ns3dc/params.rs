//! Sizes, reserves and alphas of an [`Ns3Dc`](super::Ns3Dc) switch.

use weir_dataplane::types::{MAX_PORTS, PRIORITIES};

/// No size may exceed this many bytes, so that sums of 64-bit counters cannot overflow.
const MAX_BYTES: u64 = 1 << 40;

/// One value per (port, priority).
pub type PerQueue<T> = Vec<[T; PRIORITIES]>;

/// Sizes in bytes and alphas of one switch. Every list has one element per port.
#[derive(Clone, Debug, PartialEq)]
pub struct DcParams {
    /// The buffer of the switch.
    pub buffer: u64,
    /// Ingress pool: reserves and shared part, without headroom.
    pub ingress_pool: u64,
    /// Egress pool of lossless queues.
    pub egress_lossless_pool: u64,
    /// Egress pool of lossy queues.
    pub egress_lossy_pool: u64,
    /// Headroom of each ingress group; 0 for lossy ones.
    pub xoff: PerQueue<u64>,
    /// Reserve of each ingress group.
    pub reserve: PerQueue<u64>,
    /// Alpha of each ingress group.
    pub alpha_ingress: PerQueue<f64>,
    /// Alpha of each egress queue.
    pub alpha_egress: PerQueue<f64>,
    /// A paused group below this resumes, whatever its threshold.
    pub xon: u64,
    /// A paused group this far below its threshold resumes.
    pub xon_offset: u64,
    /// Priority q is lossy when bit q is set.
    pub lossy_mask: u8,
}

/// Why a [`DcParams`] is not a switch.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DcParamsError {
    /// No ports or more than [`MAX_PORTS`].
    #[error("{0} ports; 1 to {MAX_PORTS} are possible")]
    Ports(usize),
    /// A list has another length than `xoff`.
    #[error("`{list}` has {found} ports, `xoff` has {wanted}")]
    Length {
        /// Name of the list.
        list: &'static str,
        /// Its length.
        found: usize,
        /// Length of `xoff`.
        wanted: usize,
    },
    /// A size beyond 1 TiB.
    #[error("`{name}` is {bytes} bytes, more than {MAX_BYTES}")]
    Size {
        /// Name of the size.
        name: &'static str,
        /// The refused value.
        bytes: u64,
    },
    /// The reserves do not fit the ingress pool.
    #[error("the reserves need {reserved} bytes, the ingress pool has {pool}")]
    Reserve {
        /// Sum of all reserves.
        reserved: u64,
        /// The ingress pool.
        pool: u64,
    },
    /// An alpha that is negative, infinite or not a number.
    #[error("`{list}` of port index {port}, priority {prio} is {alpha}")]
    Alpha {
        /// Name of the list.
        list: &'static str,
        /// Port index from 0.
        port: usize,
        /// Priority.
        prio: usize,
        /// The refused value.
        alpha: f64,
    },
}

impl DcParams {
    /// Checks everything the counters rely on.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), DcParamsError> {
        let ports = self.xoff.len();
        if ports == 0 || ports > MAX_PORTS {
            return Err(DcParamsError::Ports(ports));
        }
        let lengths = [
            ("reserve", self.reserve.len()),
            ("alpha_ingress", self.alpha_ingress.len()),
            ("alpha_egress", self.alpha_egress.len()),
        ];
        if let Some(&(list, found)) = lengths.iter().find(|(_, found)| *found != ports) {
            return Err(DcParamsError::Length { list, found, wanted: ports });
        }
        let largest = |list: &PerQueue<u64>| list.iter().flatten().copied().max().unwrap_or(0);
        let sizes = [
            ("buffer", self.buffer),
            ("ingress_pool", self.ingress_pool),
            ("egress_lossless_pool", self.egress_lossless_pool),
            ("egress_lossy_pool", self.egress_lossy_pool),
            ("xoff", largest(&self.xoff)),
            ("reserve", largest(&self.reserve)),
            ("xon", self.xon),
            ("xon_offset", self.xon_offset),
        ];
        if let Some(&(name, bytes)) = sizes.iter().find(|(_, bytes)| *bytes > MAX_BYTES) {
            return Err(DcParamsError::Size { name, bytes });
        }
        let reserved = self.reserve.iter().flatten().sum();
        if reserved > self.ingress_pool {
            return Err(DcParamsError::Reserve { reserved, pool: self.ingress_pool });
        }
        for (list, alphas) in [("alpha_ingress", &self.alpha_ingress), ("alpha_egress", &self.alpha_egress)] {
            for (port, of_port) in alphas.iter().enumerate() {
                if let Some(prio) = of_port.iter().position(|a| !a.is_finite() || *a < 0.0) {
                    return Err(DcParamsError::Alpha { list, port, prio, alpha: of_port[prio] });
                }
            }
        }
        Ok(())
    }
}
