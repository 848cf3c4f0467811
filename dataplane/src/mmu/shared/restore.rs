//! An MMU in a state that was seen elsewhere: to ask the real arithmetic what it would do there.

use super::Mmu;
use crate::mmu::MmuError;

/// What a priority group held when it was looked at. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// In the guaranteed part and the shared pool.
    pub used: u64,
    /// In headroom.
    pub headroom: u64,
    /// Upstream is stopped.
    pub xoff: bool,
}

impl Mmu {
    /// Holds this much in each group and queue, `port * 8 + i`, instead of what it held. What the slices do not
    /// reach holds nothing. Nothing is checked against a limit: it was seen.
    ///
    /// # Errors
    /// [`MmuError`] if the parameters in force do not add up.
    pub fn restore(&mut self, groups: &[Held], queues: &[u64]) -> Result<(), MmuError> {
        (self.shared_used, self.headroom_used, self.held) = (0, 0, 0);
        self.xoff_groups.clear();
        for (i, pg) in self.pgs.iter_mut().enumerate() {
            let held = groups.get(i).copied().unwrap_or_default();
            pg.account.used = held.used;
            pg.headroom_used = held.headroom;
            pg.xoff = held.xoff;
            self.shared_used += pg.account.shared();
            self.headroom_used += held.headroom;
            self.held += held.used + held.headroom;
            if held.xoff {
                self.xoff_groups.insert(i);
            }
        }
        self.egress_used = [0; 2];
        for (i, queue) in self.queues.iter_mut().enumerate() {
            queue.account.used = queues.get(i).copied().unwrap_or(0);
            self.egress_used[queue.pool as usize] += queue.account.shared();
        }
        // Sums by port follow from the parts.
        let params = self.params.clone();
        self.apply(params)?;
        // What was seen need not be of one instant; it is no reason to hold frames against the whole buffer.
        self.overcommitted = false;
        self.settle();
        Ok(())
    }
}
