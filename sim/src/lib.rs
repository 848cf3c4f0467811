//! weir sim.
