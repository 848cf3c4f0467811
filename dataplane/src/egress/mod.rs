//! What waits for a port, and in which order it leaves.

mod queues;
mod schedule;
mod shaper;

pub use queues::{Chain, Meta, Queues, VoqOrder};
pub use schedule::{Discipline, Pick, QueueSchedule, Scheduler};
pub use shaper::Shaper;
