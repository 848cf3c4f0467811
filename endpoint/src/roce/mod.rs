//! RoCEv2: frames and the invariant CRC.

pub mod frame;
pub mod icrc;
pub mod psn;
pub mod wire;
