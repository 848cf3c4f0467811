//! A limit that is a fraction of what is free (Dynamic Threshold) or a constant.

/// `alpha = 2^n` as a fraction of 256, for `dynamic_th` n in -8..=7 (SONiC, SAI `SHARED_DYNAMIC_TH`).
///
/// `None` outside that range.
pub fn alpha_q8(dynamic_th: i8) -> Option<u32> {
    (-8..=7).contains(&dynamic_th).then(|| 1 << (dynamic_th + 8))
}

/// How much of a pool's free space one holder may use: `alpha * free + fixed`.
///
/// One of the two terms is zero, which keeps the hot path free of a branch: `dynamic_th` gives an
/// alpha, `static_th` a constant, "unlimited" a constant no buffer reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    alpha_q8: u32,
    fixed: u64,
}

impl Limit {
    /// No limit but the pool itself.
    pub const UNLIMITED: Limit = Limit { alpha_q8: 0, fixed: u64::MAX >> 1 };

    /// `2^dynamic_th` of the free space (Choudhury and Hahne 1998; DEV-20).
    ///
    /// `None` if `dynamic_th` is outside -8..=7.
    pub fn dynamic(dynamic_th: i8) -> Option<Limit> {
        alpha_q8(dynamic_th).map(|alpha_q8| Limit { alpha_q8, fixed: 0 })
    }

    /// A constant number of bytes.
    pub fn fixed(bytes: u64) -> Limit {
        Limit { alpha_q8: 0, fixed: bytes.min(Limit::UNLIMITED.fixed) }
    }

    /// The part of what is free, infinite where the pool is the only limit; `None`: a constant number of bytes.
    pub fn alpha(self) -> Option<f64> {
        match self {
            Limit::UNLIMITED => Some(f64::INFINITY),
            Limit { alpha_q8: 0, .. } => None,
            Limit { alpha_q8, .. } => Some(f64::from(alpha_q8) / 256.0),
        }
    }

    /// The limit in bytes while `free` bytes of the pool are free.
    #[inline(always)]
    pub fn bytes(self, free: u64) -> u64 {
        ((free * u64::from(self.alpha_q8)) >> 8) + self.fixed
    }

    /// The least that has to be free of the pool for the limit to be so many bytes, `u64::MAX` if it never is.
    pub fn free_for(self, bytes: u64) -> u64 {
        match bytes.saturating_sub(self.fixed) {
            0 => 0,
            _ if self.alpha_q8 == 0 => u64::MAX,
            more => (u128::from(more) << 8).div_ceil(self.alpha_q8.into()).try_into().unwrap_or(u64::MAX),
        }
    }
}

/// A holder of buffer space: a guaranteed minimum, then a share of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    /// Guaranteed bytes; never part of the pool (DEV-18).
    pub reserved: u64,
    /// Bytes held, guaranteed part first.
    pub used: u64,
    pub limit: Limit,
}

impl Account {
    pub fn new(reserved: u64, limit: Limit) -> Self {
        Self { reserved, used: 0, limit }
    }

    /// Bytes held beyond the guaranteed minimum.
    #[inline(always)]
    pub fn shared(&self) -> u64 {
        self.used.saturating_sub(self.reserved)
    }

    /// Pool bytes that `bytes` more would take: zero while they fit the guaranteed minimum.
    #[inline(always)]
    pub fn growth(&self, bytes: u64) -> u64 {
        (self.used + bytes).saturating_sub(self.reserved) - self.shared()
    }

    /// Would `bytes` more stay within the minimum, or within the limit and the pool's `free` space?
    #[inline(always)]
    pub fn fits(&self, bytes: u64, free: u64) -> bool {
        let growth = self.growth(bytes);
        growth == 0 || (growth <= free && self.shared() + growth <= self.limit.bytes(free))
    }

    /// Takes `bytes` if the holder then still is within its limit as it will be with so much less
    /// `free`; returns how many of them came out of the pool. `None`: nothing taken, and only
    /// [`Account::fits`] can tell.
    #[inline(always)]
    pub fn take_well_within(&mut self, bytes: u64, free: u64) -> Option<u64> {
        let used = self.used + bytes;
        let growth = used.max(self.reserved) - self.used.max(self.reserved);
        let left = free.checked_sub(growth)?;
        if used.saturating_sub(self.reserved) > self.limit.bytes(left) {
            return None;
        }
        self.used = used;
        Some(growth)
    }

    /// Takes `bytes`; returns how many of them came out of the pool.
    #[inline(always)]
    pub fn take(&mut self, bytes: u64) -> u64 {
        let growth = self.growth(bytes);
        self.used += bytes;
        growth
    }

    /// Gives `bytes` back; returns how many of them return to the pool.
    #[inline(always)]
    pub fn give(&mut self, bytes: u64) -> u64 {
        debug_assert!(self.used >= bytes, "release of {bytes} from {}", self.used);
        let before = self.shared();
        self.used = self.used.saturating_sub(bytes);
        before - self.shared()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b3_alpha_is_a_power_of_two() {
        for n in -8..=7i8 {
            let limit = Limit::dynamic(n).unwrap();
            let want = if n >= 0 { 1_000_000u64 << n } else { 1_000_000 >> -n };
            assert_eq!(limit.bytes(1_000_000), want);
        }
        assert!(Limit::dynamic(8).is_none() && Limit::dynamic(-9).is_none());
        assert_eq!(Limit::fixed(5000).bytes(123), 5000);
    }

    #[test]
    fn what_has_to_be_free_for_a_limit_is_the_least_that_gives_it() {
        for limit in (-8..=7).filter_map(Limit::dynamic) {
            for bytes in [1, 2, 255, 256, 257, 1_000_003] {
                let free = limit.free_for(bytes);
                assert!(limit.bytes(free) >= bytes && limit.bytes(free - 1) < bytes, "{limit:?} {bytes}");
            }
            assert_eq!(limit.free_for(0), 0);
        }
        assert_eq!([5000, 5001].map(|bytes| Limit::fixed(5000).free_for(bytes)), [0, u64::MAX]);
    }

    #[test]
    fn the_minimum_is_used_before_the_pool() {
        let mut a = Account::new(100, Limit::fixed(50));
        assert_eq!(a.take(80), 0);
        assert!(a.fits(70, 1000));
        assert_eq!(a.take(70), 50);
        assert!(!a.fits(1, 1000));
        assert_eq!(a.give(60), 50);
        assert_eq!(a.give(90), 0);
        assert_eq!(a.used, 0);
    }

    /// Every account, request and pool of a few bytes, under every limit there is: what is decided is what the definition
    /// says, and what is admitted together would be admitted piece by piece, however it is divided.
    #[test]
    fn small_accounts_are_exact_under_every_limit() {
        const FEW: u64 = 7;
        let limits = (-8..=7).map(|n| Limit::dynamic(n).unwrap()).chain((0..=FEW).map(Limit::fixed));
        for (limit, n) in limits.zip((-8..=7).map(Some).chain(std::iter::repeat(None))) {
            for free in 0..=2 * FEW {
                let most = n.map_or(limit.fixed, |n| if n >= 0 { free << n } else { free >> -n });
                assert_eq!(limit.bytes(free), most);
                for (reserved, used, bytes) in
                    (0..FEW).flat_map(|r| (0..2 * FEW).flat_map(move |u| (0..FEW).map(move |b| (r, u, b))))
                {
                    let account = Account { reserved, used, limit };
                    let beyond = |used: u64| used - used.min(reserved);
                    let growth = beyond(used + bytes) - beyond(used);
                    let fits = growth == 0 || (growth <= free && beyond(used + bytes) <= most);
                    let case = format!("{account:?} {bytes} of {free}");
                    assert_eq!((account.growth(bytes), account.fits(bytes, free)), (growth, fits), "{case}");
                    let mut one = account;
                    assert_eq!((one.take(bytes), one.used), (growth, used + bytes), "{case}");
                    assert_eq!((one.give(bytes), one.used), (growth, used), "{case}");
                    let mut all = account;
                    if let Some(taken) = all.take_well_within(bytes, free) {
                        assert_eq!((taken, all.used), (growth, used + bytes), "{case}");
                        for first in 0..=bytes {
                            let mut piece = account;
                            assert!(piece.fits(first, free), "{case}");
                            let left = free - piece.take(first);
                            assert!(piece.fits(bytes - first, left), "{case}");
                        }
                    } else {
                        assert_eq!(all.used, used, "{case}");
                    }
                }
            }
        }
    }

    /// The largest alpha of 256 times the largest pool that can be configured, 1 TiB.
    #[test]
    fn limits_do_not_overflow() {
        let most = Limit::dynamic(7).unwrap();
        assert_eq!(most.bytes(1 << 48), 1 << 55);
        assert_eq!(Limit::UNLIMITED.bytes(u64::MAX), u64::MAX >> 1);
    }

    #[test]
    fn a_large_alpha_never_exceeds_the_pool() {
        let a = Account::new(0, Limit::dynamic(7).unwrap());
        assert!(a.fits(1000, 1000));
        assert!(!a.fits(1001, 1000));
    }
}
