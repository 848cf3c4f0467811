//! The devices behind the ports, which come and go: what those before on the same port have counted stays.

use super::mtu::Carries;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_dpdk::{Port, Started};
use weir_mgmt::snapshot::NicStats;

#[derive(Debug)]
struct Attached {
    port: Port<Started>,
    /// What devices counted that have been let go.
    before: NicStats,
    /// What it was not given since its interface would have lost it.
    carries: Option<Carries>,
}

/// The devices of all ports of a switch, for the main thread and for management.
#[derive(Clone, Debug)]
pub struct Devices(Arc<[Mutex<Attached>]>);

impl Devices {
    /// Those a switch starts with, and what the interfaces behind them take.
    pub fn new(ports: impl Iterator<Item = (Port<Started>, Option<Carries>)>) -> Self {
        let one = |(port, carries)| Mutex::new(Attached { port, before: NicStats::default(), carries });
        Self(ports.map(one).collect())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn lock(&self, port: usize) -> MutexGuard<'_, Attached> {
        self.0[port].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the device of a port.
    pub fn ask<T>(&self, port: usize, question: impl FnOnce(&Port<Started>) -> T) -> T {
        question(&self.lock(port).port)
    }

    /// What the interface behind a port takes, where that is looked at for every frame.
    pub fn carries(&self, port: usize) -> Option<Carries> {
        self.lock(port).carries.clone()
    }

    /// What drivers have counted for a port since the start, and what was lost for them.
    pub fn nic_stats(&self, port: usize) -> NicStats {
        self.lock(port).counted()
    }

    /// Lets go of a device whose queues nobody uses. `false`: somebody does, still.
    pub fn give_up(&self, port: usize) -> bool {
        let mut attached = self.lock(port);
        let counted = attached.by_drivers();
        let gone = attached.port.give_up().is_ok();
        if gone {
            attached.before = counted;
        }
        gone
    }

    /// Another device for a port whose own was let go.
    pub fn replace(&self, port: usize, device: Port<Started>) {
        self.lock(port).port = device;
    }
}

impl Attached {
    fn counted(&self) -> NicStats {
        let too_long = self.carries.as_ref().map_or(0, Carries::too_long);
        let by_drivers = self.by_drivers();
        NicStats {
            tx_errors: by_drivers.tx_errors + too_long,
            tx_lost: by_drivers.tx_lost + too_long,
            ..by_drivers
        }
    }

    fn by_drivers(&self) -> NicStats {
        let Self { port, before, .. } = self;
        // One that is gone has nothing to add.
        let now = port.stats().unwrap_or_default();
        NicStats {
            rx_missed: before.rx_missed + now.rx_missed,
            rx_no_mbuf: before.rx_no_mbuf + now.rx_no_mbuf,
            rx_errors: before.rx_errors + now.rx_errors,
            tx_errors: before.tx_errors + now.tx_errors,
            tx_lost: before.tx_lost + now.tx_lost,
        }
    }
}
