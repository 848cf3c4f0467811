//! What waits for a port, and in which order it leaves.

mod batch;
mod microburst;
#[cfg(test)]
mod numbered;
mod queues;
mod request;
mod schedule;
mod shaper;

pub use batch::{BATCH_MAX, BatchHeader, BatchTotals, FrameBatch, Front, Meta};
pub use microburst::{Microburst, MicroburstConfig, Microbursts};
#[cfg(test)]
pub(crate) use numbered::Numbered;
pub use queues::{BatchList, Queues, Standing, VoqOrder};
pub use request::{BatchBuffer, EnqueueRequest, RequestFrames};
pub use schedule::{Discipline, QueuePick, QueueSchedule, Scheduler};
pub use shaper::Shaper;
