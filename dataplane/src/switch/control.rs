//! What an operator may change while frames flow. Nothing here loses a frame of its own accord.

use super::{Observer, Switch};
use crate::classify::Classifier;
use crate::drops::DropReason;
use crate::egress::{MicroburstConfig, Microbursts, QueueSchedule};
use crate::fdb::FdbFull;
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::pfc::bits;
use crate::pfc::watchdog::WatchdogConfig;
use crate::types::{Nanos, PRIORITIES, PortId};

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Frames received from now on are classified by `classifier`; queued ones stay where they are (A7).
    pub fn reclassify(&mut self, port: PortId, classifier: Classifier) {
        self.ports[port.index()].params.classifier = classifier;
        self.invalidate_decisions();
    }

    /// Weights, levels and rates of a port's queues, from the next frame on (E2).
    pub fn set_queues(&mut self, port: PortId, queues: &[QueueSchedule; PRIORITIES]) {
        let port = &mut self.ports[port.index()];
        port.params.queues = *queues;
        port.scheduler.reconfigure(queues, port.params.burst);
    }

    /// Watches a port's queues for short bursts from now on, or no longer; what was seen before is forgotten (G8).
    pub fn watch_bursts(&mut self, port: PortId, config: Option<MicroburstConfig>) {
        self.ports[port.index()].bursts = config.map(|config| Box::new(Microbursts::new(config)));
        self.note_slow_path_queues(port);
    }

    /// A static station, by its key in the forwarding table, is known at another port from now on; of a LAG at its first one.
    ///
    /// # Errors
    /// It was none, and the forwarding table has no room.
    pub fn move_station(&mut self, key: u64, port: PortId) -> Result<(), FdbFull> {
        self.fdb.add_static(key, port)?;
        self.invalidate_decisions();
        Ok(())
    }

    /// Watchdog settings of all ports that have one, at once: a running storm gets the new action (H11), the big
    /// red switch flushes what it stops (H15).
    pub fn set_watchdog(&mut self, config: WatchdogConfig, now: Nanos) {
        self.watch_at = 0;
        for id in self.ports.ids() {
            let Some(port) = self.ports.get_own_mut(id.index()) else { continue };
            let Some(watchdog) = &mut port.watchdog else { continue };
            let flush = watchdog.configure(config, now);
            port.storm_drop = watchdog.drop_queues();
            port.storm_forward = watchdog.forward_queues();
            self.note_slow_path_queues(id);
            self.note_held(id, now);
            for queue in bits(flush) {
                self.flush(id, queue, DropReason::WatchdogDrop);
            }
        }
        self.go_on_flushing(now);
    }

    /// An operator releases a queue that the watchdog holds for too many storms; it is restored by the usual rule
    /// (H17).
    pub fn release_storm(&mut self, port: PortId, queue: usize) {
        if let Some(watchdog) = &mut self.ports[port.index()].watchdog {
            watchdog.release(queue);
        }
    }
}
