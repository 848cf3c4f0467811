//! When a NIC has held its link partner back, as its receive memories filled.

use weir_dataplane::pfc::frame::{Control, decode};
use weir_dataplane::types::{Nanos, PRIORITIES};

/// Times that are kept of each NIC.
const MOST: usize = 4096;

/// A priority was held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// Which one.
    pub priority: u8,
    /// First pause frame, ns.
    pub from: Nanos,
    /// Resume frame, or the time that was asked for, ns.
    pub to: Nanos,
}

/// All times up to now.
#[derive(Clone, Debug, Default)]
pub(super) struct Pauses {
    since: [Option<Nanos>; PRIORITIES],
    ended: Vec<HeldBack>,
    left_out: u64,
}

impl Pauses {
    /// This PFC frame is sent.
    #[cold]
    pub fn sent(&mut self, frame: &[u8], now: Nanos) {
        let Control::Pfc(pfc) = decode(frame) else { return };
        for priority in (0..PRIORITIES).filter(|priority| pfc.enable >> priority & 1 == 1) {
            if pfc.time[priority] > 0 {
                self.since[priority].get_or_insert(now);
            } else {
                self.end(priority, now);
            }
        }
    }

    /// The cable is cut: the link partner forgets what it was told.
    #[cold]
    pub fn end_all(&mut self, now: Nanos) {
        (0..PRIORITIES).for_each(|priority| self.end(priority, now));
    }

    fn end(&mut self, priority: usize, now: Nanos) {
        if let Some(from) = self.since[priority].take() {
            let is_room = self.ended.len() < MOST;
            self.left_out += u64::from(!is_room);
            self.ended.extend(is_room.then_some(HeldBack { priority: priority as u8, from, to: now }));
        }
    }

    /// Since when a priority is held back, ns; `None`: it is not.
    pub fn since(&self, priority: u8) -> Option<Nanos> {
        self.since.get(usize::from(priority)).copied().flatten()
    }

    /// All that are kept, and how many are not; what lasts goes on until `now`.
    pub fn until(&self, now: Nanos) -> (Vec<HeldBack>, u64) {
        let lasting = self.since.iter().zip(0..);
        let lasting =
            lasting.filter_map(|(from, priority)| Some(HeldBack { priority, from: (*from)?, to: now }));
        (self.ended.iter().copied().chain(lasting).collect(), self.left_out)
    }
}
