//! Storm control: how much of what a port receives may be flooded, by kind.
//!
//! A token bucket for each kind that has a limit, at the port of arrival. A frame passes while the bucket is not in debt,
//! and then pays for itself; so a bucket smaller than a frame still lets frames pass, at the rate. What passes in any time t
//! is at most `rate * t` + `rate * burst` + one frame. Frames for one port, those for a static group and those of link-local
//! protocols (`link_local`) are no matter of it.

use crate::drops::DropReason;
use crate::egress::Shaper;
use crate::parse::KeyParts;
use crate::types::{Nanos, wire_bytes};

/// Why a frame goes to many ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FloodKind {
    /// It is for the address all ones.
    Broadcast = 0,
    /// Its station is not known.
    UnknownUnicast = 1,
    /// It is for a group without an entry, in a VLAN where nobody asks for members.
    Multicast = 2,
}

impl FloodKind {
    /// Every kind, by number.
    pub const ALL: [Self; 3] = [Self::Broadcast, Self::UnknownUnicast, Self::Multicast];

    /// That of a frame for a group. Only formats whose addresses have 48 bits have a broadcast address.
    pub fn of_group(dst_key: u64) -> Self {
        let is_broadcast = KeyParts::of(dst_key).is_broadcast();
        if is_broadcast { Self::Broadcast } else { Self::Multicast }
    }

    /// The word for it in the configuration and in what is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Broadcast => "broadcast",
            Self::UnknownUnicast => "unknown_unicast",
            Self::Multicast => "multicast",
        }
    }

    /// Why a frame above the limit is lost.
    pub fn reason(self) -> DropReason {
        match self {
            Self::Broadcast => DropReason::IngressBroadcastLimit,
            Self::UnknownUnicast => DropReason::IngressUnknownUnicastLimit,
            Self::Multicast => DropReason::IngressMulticastLimit,
        }
    }
}

/// How much may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloodLimit {
    /// bit/s on the wire, preamble, FCS and gap included, as rates of ports are.
    Bits(u64),
    /// Frames per second.
    Frames(u64),
}

impl FloodLimit {
    /// A frame is paid for like a byte.
    fn tokens_per_second(self) -> u64 {
        match self {
            Self::Bits(rate) => rate,
            Self::Frames(rate) => rate.saturating_mul(8),
        }
    }

    /// Most time, ns, for which a bucket of this rate can save up.
    pub fn longest_burst(self) -> Nanos {
        Shaper::longest_burst(self.tokens_per_second())
    }
}

/// The limits of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StormControl {
    /// By [`FloodKind`]; `None`: no limit.
    pub limits: [Option<FloodLimit>; 3],
    /// Unused time that a bucket saves up, ns.
    pub burst: Nanos,
}

impl StormControl {
    /// The limit of a kind.
    pub fn limit(&self, kind: FloodKind) -> Option<FloodLimit> {
        self.limits[kind as usize]
    }
}

/// The buckets of a port.
#[derive(Debug)]
pub(crate) struct Policers {
    config: StormControl,
    buckets: [Option<Shaper>; 3],
}

impl Policers {
    pub fn new(config: StormControl) -> Self {
        let bucket = |limit: FloodLimit| Shaper::new(limit.tokens_per_second(), config.burst);
        Self { config, buckets: config.limits.map(|limit| limit.map(bucket)) }
    }

    /// Other limits from now on. A bucket whose limit stays keeps what is in it.
    pub fn change(&mut self, config: StormControl) {
        let before = std::mem::replace(self, Self::new(config));
        if before.config.burst == config.burst {
            for kind in FloodKind::ALL.map(|kind| kind as usize) {
                if before.config.limits[kind] == config.limits[kind] {
                    self.buckets[kind] = before.buckets[kind];
                }
            }
        }
    }

    /// A frame of `len` bytes is within the limit of its kind at `now`, and has paid.
    pub fn admits(&mut self, kind: FloodKind, len: u64, now: Nanos) -> bool {
        let kind = kind as usize;
        let (Some(limit), Some(bucket)) = (self.config.limits[kind], &mut self.buckets[kind]) else {
            return true;
        };
        bucket.refill(now);
        let open = bucket.open();
        if open {
            bucket.pay(match limit {
                FloodLimit::Bits(_) => wire_bytes(len),
                FloodLimit::Frames(_) => 1,
            });
        }
        open
    }

    /// Kinds of which a bit is set are above their limit now, as was seen elsewhere.
    pub fn assume(&mut self, exceeded: u64) {
        for (kind, bucket) in self.buckets.iter_mut().enumerate() {
            if let Some(bucket) = bucket.as_mut().filter(|_| exceeded >> kind & 1 == 1) {
                bucket.pay(1 << 16);
            }
        }
    }

    /// Kinds of which no frame would pass at `now`, a bit each.
    pub fn exceeded(&self, now: Nanos) -> u64 {
        let in_debt = |bucket: &Shaper| {
            let mut bucket = *bucket;
            bucket.refill(now);
            !bucket.open()
        };
        let bits = self.buckets.iter().enumerate().filter(|(_, bucket)| bucket.as_ref().is_some_and(in_debt));
        bits.fold(0, |mask, (kind, _)| mask | 1 << kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn only(kind: FloodKind, limit: FloodLimit, burst: Nanos) -> StormControl {
        let mut limits = [None; 3];
        limits[kind as usize] = Some(limit);
        StormControl { limits, burst }
    }

    #[test]
    fn frames_pass_at_the_rate_and_a_burst_before() {
        let mut police = Policers::new(only(FloodKind::Broadcast, FloodLimit::Frames(1_000), 5_000_000));
        let mut passed = |now| (0..20).filter(|_| police.admits(FloodKind::Broadcast, 60, now)).count();
        // Five saved up in 5 ms, and one that brings the bucket into debt.
        assert_eq!(passed(SECOND), 6);
        assert_eq!(passed(SECOND + 999_999), 0);
        assert_eq!(passed(SECOND + 1_000_000), 1);
        assert_eq!(passed(SECOND + 3_000_000), 2);
        assert_eq!(passed(2 * SECOND), 6);
    }

    #[test]
    fn bits_are_those_of_the_wire_and_no_fraction_is_lost() {
        // 84 bytes on the wire for 60: 672 ns at 1 Gb/s.
        let mut police = Policers::new(only(FloodKind::Multicast, FloodLimit::Bits(1_000_000_000), 1));
        let passed = (0..67_200u64).filter(|now| police.admits(FloodKind::Multicast, 60, *now)).count();
        assert_eq!(passed, 100);
        // A third of a nanosecond's tokens each: exact over a long time.
        let mut police = Policers::new(only(FloodKind::Multicast, FloodLimit::Bits(3_000_000), 1));
        let passed =
            (0..7 * SECOND).step_by(1_000).filter(|now| police.admits(FloodKind::Multicast, 60, *now));
        assert_eq!(passed.count() as u64, (7 * 3_000_000u64).div_ceil(672));
    }

    #[test]
    fn each_kind_has_its_own_limit_or_none() {
        let mut config = only(FloodKind::Broadcast, FloodLimit::Frames(1), 1);
        let mut police = Policers::new(config);
        assert!(police.admits(FloodKind::Broadcast, 60, 0));
        assert!((0..9).all(|_| police.admits(FloodKind::UnknownUnicast, 60, 0)));
        assert_eq!((police.exceeded(0), police.exceeded(SECOND)), (1, 0));
        assert!(!police.admits(FloodKind::Broadcast, 60, 5));
        // Another limit comes: the first one is in debt as it was.
        config.limits[FloodKind::Multicast as usize] = Some(FloodLimit::Bits(1_000));
        police.change(config);
        assert!(!police.admits(FloodKind::Broadcast, 60, 5) && police.admits(FloodKind::Multicast, 60, 5));
        assert_eq!(police.exceeded(5), 1 << 2 | 1);
        // And another rate begins with a bucket of its own.
        config.limits[FloodKind::Broadcast as usize] = Some(FloodLimit::Frames(2));
        police.change(config);
        assert!(police.admits(FloodKind::Broadcast, 60, 5));
    }

    #[test]
    fn the_broadcast_address_is_all_ones_in_any_vlan() {
        use crate::parse::{Profile, Variant};
        let (plain, lite) = (Profile::standard(), Profile::afh_lite(Variant::Public));
        assert_eq!(FloodKind::of_group(plain.key(0xffff_ffff_ffff, 9)), FloodKind::Broadcast);
        assert_eq!(FloodKind::of_group(plain.key(0x0100_5e00_0001, 0)), FloodKind::Multicast);
        assert_eq!(FloodKind::of_group(lite.key(0xffff, 0)), FloodKind::Multicast);
    }
}
