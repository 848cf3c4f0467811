//! Polling threads.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use weir_dpdk_sys as sys;

use crate::Eal;
use crate::error::{LaunchError, reason};

/// A thread of the EAL that waits for work, pinned to its CPUs.
#[derive(Debug)]
pub(crate) struct Lcore {
    pub id: u32,
    pub cpus: Vec<usize>,
}

/// CPUs a bitmap from the shim covers.
const CPU_WORDS: usize = 16;

impl Lcore {
    /// All lcores but the main one.
    pub(crate) fn workers() -> Vec<Self> {
        // SAFETY: plain reads of the EAL's tables, for ids within range.
        unsafe {
            let main = sys::rte_get_main_lcore();
            (0..sys::weir_limit::WEIR_MAX_LCORE)
                .filter(|&id| id != main && sys::rte_lcore_is_enabled(id) != 0)
                .map(|id| Self { id, cpus: cpus_of(id) })
                .collect()
        }
    }
}

/// # Safety
/// The EAL is up.
unsafe fn cpus_of(lcore: u32) -> Vec<usize> {
    let mut map = [0_u64; CPU_WORDS];
    // SAFETY: the shim writes CPU_WORDS words.
    unsafe { sys::weir_lcore_cpus(lcore, map.as_mut_ptr(), CPU_WORDS as u32) };
    (0..CPU_WORDS * 64).filter(|cpu| map[cpu / 64] >> (cpu % 64) & 1 == 1).collect()
}

/// A running worker. [`join`](Worker::join) waits for its result; dropping it waits too and forgets the
/// result, so whoever runs a loop in it must have a way to end the loop.
///
/// Workers run on the EAL's own lcores. Registering threads of our own (`rte_thread_register`) would give
/// them a pool cache as well, but from then on no secondary process may attach: no `dpdk-dumpcap`.
#[derive(Debug)]
pub struct Worker<T> {
    eal: Eal,
    lcore: u32,
    /// `None` once joined.
    result: Option<Receiver<std::thread::Result<T>>>,
}

struct Task<T, F> {
    work: F,
    result: SyncSender<std::thread::Result<T>>,
}

impl Eal {
    /// Runs `work` on the idle worker lcore of `core`, a CPU number.
    ///
    /// # Errors
    /// [`LaunchError::NoLcore`] names the cores that would do.
    pub fn launch<T, F>(&self, core: usize, work: F) -> Result<Worker<T>, LaunchError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let mut state = self.state();
        let idle = || self.lcores().iter().filter(|l| !state.busy.contains(&l.id));
        let Some(lcore) = idle().find(|l| l.cpus.contains(&core)).map(|l| l.id) else {
            return Err(LaunchError::NoLcore { core, idle: idle().flat_map(|l| l.cpus.clone()).collect() });
        };
        let (sender, receiver) = sync_channel(1);
        let task = Box::into_raw(Box::new(Task { work, result: sender }));
        // SAFETY: the trampoline takes the box back, once; the types are those of this call.
        let ret = unsafe { sys::rte_eal_remote_launch(Some(run::<T, F>), task.cast(), lcore) };
        if ret != 0 {
            // SAFETY: the lcore did not take the task, so the box is still ours.
            drop(unsafe { Box::from_raw(task) });
            return Err(LaunchError::Refused { lcore, reason: reason(ret) });
        }
        state.busy.insert(lcore);
        Ok(Worker { eal: self.clone(), lcore, result: Some(receiver) })
    }
}

/// # Safety
/// `task` is a boxed `Task<T, F>` nobody else holds.
unsafe extern "C" fn run<T, F: FnOnce() -> T>(task: *mut c_void) -> c_int {
    // SAFETY: see above.
    let Task { work, result } = *unsafe { Box::from_raw(task.cast::<Task<T, F>>()) };
    let outcome = catch_unwind(AssertUnwindSafe(work));
    // The receiver waits or was forgotten; either way there is nothing more to do here.
    let _ = result.send(outcome);
    0
}

impl<T> Worker<T> {
    /// Waits until the work is done and gives its result, or the payload of its panic.
    ///
    /// # Errors
    /// The work panicked.
    pub fn join(mut self) -> std::thread::Result<T> {
        self.wait().unwrap_or_else(|| Err(Box::new("worker ended without a result") as Box<dyn Any + Send>))
    }

    fn wait(&mut self) -> Option<std::thread::Result<T>> {
        // Sleeps until the result is there; the EAL's own wait spins, here for an instant only.
        let outcome = self.result.take()?.recv().ok();
        // SAFETY: the lcore was launched by us and has nothing left to do but to say so.
        unsafe { sys::rte_eal_wait_lcore(self.lcore) };
        let mut state = self.eal.state();
        state.busy.remove(&self.lcore);
        state.sweep();
        outcome
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.wait();
    }
}
