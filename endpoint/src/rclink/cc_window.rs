//! The rate control of RC Link: so many bytes per window, and what was too much is owed (DEV-12).
//!
//! SW-040..042. Bytes are those on the wire, FCS, preamble and gap included, as rates are. Not DCQCN: CNPs are reported
//! upward, and whoever owns the queue pair changes window or threshold.

use thiserror::Error;
use weir_dataplane::types::Nanos;

/// Length of a window: the five the hardware has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// 4.096 us.
    Us4,
    /// 8.192 us.
    Us8,
    /// 16.384 us.
    Us16,
    /// 32.768 us.
    Us32,
    /// 65.536 us.
    Us65,
}

impl Window {
    /// Nanoseconds.
    pub fn ns(self) -> Nanos {
        4096 << self as u32
    }

    /// Bytes that `rate` bit/s bring in a window, at least one.
    pub fn bytes(self, rate: u64) -> u32 {
        let bytes = u128::from(rate) * u128::from(self.ns()) / 8_000_000_000;
        u32::try_from(bytes).unwrap_or(u32::MAX).max(1)
    }
}

/// Highest threshold: 22 bits.
pub const MAX_LENGTH_THR: u32 = (1 << 22) - 1;

/// A threshold outside 1 to 22 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("length_thr {0}: it is 1 to 4194303 bytes per window")]
pub struct ThresholdError(pub u32);

fn check(length_thr: u32) -> Result<u64, ThresholdError> {
    let fits = (1..=MAX_LENGTH_THR).contains(&length_thr);
    fits.then(|| length_thr.into()).ok_or(ThresholdError(length_thr))
}

/// The state of one queue pair.
#[derive(Clone, Copy, Debug)]
pub struct CcWindow {
    window: Window,
    length_thr: u64,
    /// Windows nobody looked at that can be made up for.
    spare: u64,
    /// Bytes of windows that are being made up for.
    saved: u64,
    /// Bytes of this window and those owed from earlier ones.
    used: u64,
    /// Number of the window `used` is about; windows begin at multiples of their length.
    current: u64,
}

impl CcWindow {
    /// `length_thr` bytes per window.
    ///
    /// # Errors
    /// A threshold of zero or of more than 22 bits.
    pub fn new(window: Window, length_thr: u32) -> Result<Self, ThresholdError> {
        let length_thr = check(length_thr)?;
        Ok(Self { window, length_thr, spare: 0, saved: 0, used: 0, current: 0 })
    }

    /// Bytes not sent during the last `slack` ns may be sent later: a thread can not look at every window.
    /// Hardware saves up nothing.
    #[must_use]
    pub fn with_slack(self, slack: Nanos) -> Self {
        Self { spare: slack / self.window.ns(), ..self }
    }

    /// Changes the bytes per window, from the window of `now` on: those that have ended pay what they would have paid.
    ///
    /// # Errors
    /// As for [`Self::new`]; nothing is changed.
    pub fn set_threshold(&mut self, length_thr: u32, now: Nanos) -> Result<(), ThresholdError> {
        let length_thr = check(length_thr)?;
        self.roll(now);
        self.length_thr = length_thr;
        Ok(())
    }

    /// Bytes per window.
    pub fn threshold(&self) -> u32 {
        self.length_thr as u32
    }

    /// The rate this allows, bits/s, rounded down.
    pub fn rate(&self) -> u64 {
        self.length_thr * 8 * 1_000_000_000 / self.window.ns()
    }

    /// Pays off one threshold for each window that has ended.
    fn roll(&mut self, now: Nanos) {
        let window = now / self.window.ns();
        let ended = window.saturating_sub(self.current);
        let paid = ended.saturating_mul(self.length_thr);
        let over = paid.saturating_sub(self.used);
        self.used = self.used.saturating_sub(paid);
        self.saved = self.saved.saturating_add(over).min(self.spare * self.length_thr);
        self.current = self.current.max(window);
    }

    /// A frame that takes `bytes` of the wire left at `now`.
    pub fn sent(&mut self, bytes: u64, now: Nanos) {
        self.roll(now);
        let free = bytes.min(self.saved);
        self.saved -= free;
        self.used = self.used.saturating_add(bytes - free);
    }

    /// When the next frame may leave, 0 for at once: at the end of the window that pays the debt (`cc_mask`, SW-041). Time alone does
    /// not change it.
    pub fn due(&self) -> Nanos {
        match self.used / self.length_thr {
            0 => 0,
            windows => (self.current + windows).saturating_mul(self.window.ns()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl CcWindow {
        /// When the next frame may leave, from `now` on.
        fn ready_at(&self, now: Nanos) -> Nanos {
            self.due().max(now)
        }
    }

    #[test]
    fn sw040_windows_and_rates() {
        let all = [Window::Us4, Window::Us8, Window::Us16, Window::Us32, Window::Us65];
        assert_eq!(all.map(Window::ns), [4096, 8192, 16_384, 32_768, 65_536]);
        // DEV-12: 22 bits at the longest window are 511.99 Gb/s.
        let top = CcWindow::new(Window::Us65, MAX_LENGTH_THR).unwrap().rate();
        assert_eq!(top / 10_000_000, 51_199);
        assert_eq!(CcWindow::new(Window::Us4, 0).unwrap_err(), ThresholdError(0));
        assert!(CcWindow::new(Window::Us4, MAX_LENGTH_THR + 1).is_err());
    }

    #[test]
    fn sw041_debt_is_carried_over() {
        let mut cc = CcWindow::new(Window::Us4, 1000).unwrap();
        cc.sent(999, 10);
        assert_eq!(cc.ready_at(10), 10);
        cc.sent(2500, 10);
        // 3499 bytes: windows 0, 1 and 2 pay 3000, so the frame goes when the third has ended.
        assert_eq!(cc.ready_at(11), 3 * 4096);
        assert_eq!(cc.ready_at(2 * 4096), 3 * 4096);
        cc.sent(600, 3 * 4096);
        assert_eq!(cc.ready_at(3 * 4096), 4 * 4096);
        // A threshold met exactly blocks too, and an idle flow saves up nothing.
        let mut cc = CcWindow::new(Window::Us4, 1000).unwrap();
        cc.sent(1000, 1_000_000);
        assert!(cc.ready_at(1_000_000) > 1_000_000);
    }

    #[test]
    fn windows_that_have_ended_are_paid_for_at_their_own_threshold() {
        let mut cc = CcWindow::new(Window::Us4, 1000).unwrap();
        cc.sent(3500, 10);
        // Two windows have paid 1000 each; 1500 are left for windows of 100.
        cc.set_threshold(100, 2 * 4096 + 5).unwrap();
        assert_eq!(cc.ready_at(2 * 4096 + 5), (2 + 15) * 4096);
    }

    #[test]
    fn windows_nobody_looked_at_are_made_up_for_within_the_slack() {
        let mut cc = CcWindow::new(Window::Us4, 1000).unwrap().with_slack(10 * 4096);
        // A thousand windows later: ten of them, and the present one.
        let now = 1000 * 4096;
        for _ in 0..11 {
            assert_eq!(cc.ready_at(now), now);
            cc.sent(1000, now);
        }
        assert_eq!(cc.ready_at(now), now + 4096);
    }

    proptest! {
        #[test]
        fn sw040_over_time_the_rate_is_the_threshold(thr in 100u32..100_000, frame in 64u64..1500) {
            let mut cc = CcWindow::new(Window::Us8, thr).unwrap();
            let (mut now, mut bytes) = (0, 0);
            while now < 200 * 8192 {
                bytes += frame;
                cc.sent(frame, now);
                now = cc.ready_at(now);
            }
            // Every window but the last was paid in full; at most one frame too much was sent.
            let windows = now / 8192;
            prop_assert!(bytes <= windows * u64::from(thr) + frame);
            prop_assert!(bytes + u64::from(thr) >= windows * u64::from(thr));
        }
    }
}
