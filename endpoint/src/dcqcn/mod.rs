//! DCQCN rate control at the sender: the machine that turns CNPs into a sending rate.
//!
//! [`ns3`] is the sender of the published HPCC simulator, bit for bit; it serves the compatibility
//! profile. It differs from the published algorithm in the five ways listed there.
pub mod ns3;
