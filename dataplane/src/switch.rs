//! switch.
