//! What waits for a port, and in which order it leaves.

mod microburst;
mod queues;
mod schedule;
mod shaper;

pub use microburst::{Microburst, MicroburstConfig, Microbursts};
pub use queues::{Chain, Meta, Queues, VoqOrder};
pub use schedule::{Discipline, Pick, QueueSchedule, Scheduler};
pub use shaper::Shaper;
