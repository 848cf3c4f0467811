//! End-to-end runs of the published HPCC simulator, replayed in the ns-3 profile.
//!
//! The folder describes itself (`scenarios.json`). A scenario without a random draw must agree in every
//! cell: each PFC frame with its four counters, each completion time, each rate change (alpha as a
//! double), each queue sample, the maxima of every queue and the summary. A scenario with the marking
//! coin is run with many seeds and compared with the ten logged ones, see [`seeds`].
mod log;
pub mod replay;
pub mod seeds;
pub mod spec;
pub mod tables;
