//! Virtual time: the switch and its endpoints without hardware, and replay of published models.
#![forbid(unsafe_code)]

pub mod compare;
pub mod crossbar;
pub mod digest;
mod event_queue;
pub mod fabric;
pub mod file;
pub mod golden;
pub mod models;
pub mod ns3;
mod page;
pub mod replay;
pub mod sweep;
