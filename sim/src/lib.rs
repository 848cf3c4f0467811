//! weir sim: switches and endpoints in virtual time.
#![forbid(unsafe_code)]

pub mod golden;
pub mod ns3;
