//! Virtual time: the switch and its endpoints without hardware, and replay of published models.
#![forbid(unsafe_code)]

pub mod crossbar;
pub mod digest;
pub mod fabric;
pub mod golden;
pub mod models;
pub mod ns3;
pub mod replay;
pub mod sweep;
