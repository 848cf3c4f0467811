//! Workers that run, all of them or none.

use anyhow::{Result, bail};
use weir_dpdk::Eal;

use super::control::{Control, Phase};
use super::worker::Worker;

/// The workers of a switch on their lcores. Dropped, they are told to stop and waited for: whoever gives up between
/// their start and their end is not kept waiting by loops that nobody ends.
#[derive(Debug)]
pub struct Launched {
    control: Control,
    running: Vec<weir_dpdk::Worker<Worker>>,
}

impl Launched {
    /// None yet; `control` is what those to come look at.
    pub fn new(control: Control) -> Self {
        Self { control, running: Vec::new() }
    }

    /// Runs `work` on the lcore of `core`, a CPU number.
    ///
    /// # Errors
    /// There is no idle worker lcore on that core.
    pub fn launch(
        &mut self,
        eal: &Eal,
        core: usize,
        work: impl FnOnce() -> Worker + Send + 'static,
    ) -> Result<()> {
        self.running.push(eal.launch(core, work)?);
        Ok(())
    }

    /// How many run.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Stops them, and gives each with all that it counted, in the order of their launches.
    ///
    /// # Errors
    /// A worker panicked.
    pub fn stop(mut self) -> Result<Vec<Worker>> {
        self.control.enter(Phase::Stop);
        let mut stopped = Vec::new();
        for worker in std::mem::take(&mut self.running) {
            let Ok(worker) = worker.join() else { bail!("a worker panicked: please report it") };
            stopped.push(worker);
        }
        Ok(stopped)
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        self.control.enter(Phase::Stop);
    }
}
