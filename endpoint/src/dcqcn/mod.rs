//! DCQCN rate control at the sender: the machine that turns CNPs into a sending rate.
//!
//! [`standard`] is the published algorithm with the parameters of real adapters, [`registers`] and
//! [`trace`] show it the way hardware does.
pub mod registers;
pub mod standard;
pub mod trace;
