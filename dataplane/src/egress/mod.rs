//! What waits for a port, and in which order it leaves.

mod batch;
mod header;
mod microburst;
#[cfg(test)]
mod numbered;
mod queues;
mod request;
mod schedule;
mod shaper;
mod totals;
mod tournament;

pub use batch::BATCH_MAX;
pub(crate) use batch::FrameBatch;
pub(crate) use header::{BatchHeader, Meta};
pub(crate) use microburst::Microbursts;
pub use microburst::{Microburst, MicroburstConfig};
#[cfg(test)]
pub(crate) use numbered::Numbered;
pub use queues::VoqOrder;
pub(crate) use queues::{BatchList, Lane, Members, Queues, Standing, VoqTurn};
pub(crate) use request::{BatchBuffer, EnqueueRequest};
pub use schedule::{Discipline, QueuePick, QueueSchedule, Scheduler};
pub(crate) use shaper::Shaper;
pub(crate) use totals::{BatchTotals, Front, Limits};
