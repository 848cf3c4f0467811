//! What waits for a port, and in which order it leaves.

mod cargo;
mod microburst;
#[cfg(test)]
mod numbered;
mod pack;
mod queues;
mod schedule;
mod shaper;

pub use cargo::{Cargo, Parcel, Ticket};
pub use microburst::{Microburst, MicroburstConfig, Microbursts};
#[cfg(test)]
pub(crate) use numbered::Numbered;
pub use pack::{Front, Lot, Meta, PACK, Pack, Sums};
pub use queues::{Chain, Queues, Standing, VoqOrder};
pub use schedule::{Discipline, Pick, QueueSchedule, Scheduler};
pub use shaper::Shaper;
