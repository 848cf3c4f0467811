//! DCQCN rate control at the sender: the machine that turns CNPs into a sending rate.
//!
//! [`reaction_point`] is the published algorithm with the parameters of real adapters, [`registers`] and
//! [`trace`] show it the way hardware does, [`access`] finds registers by their addresses, [`scheme`] says who decides, [`firmware`] decides where hardware does not. [`ns3`] is the sender of the
//! published HPCC simulator, bit for bit; it serves the compatibility profile and differs from the
//! published algorithm in the five ways listed there.
pub mod access;
pub mod firmware;
pub mod ns3;
pub mod reaction_point;
pub mod registers;
pub mod scheme;
pub mod trace;
