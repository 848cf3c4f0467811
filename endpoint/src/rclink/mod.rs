//! RC Link, the endpoint side of PAXI: TYPE1/2/3 frames in four formats, go-back-N over a 64-bit
//! reliability header, window rate control, CNP merge, and flow control by PFC or by credits.
//!
//! SW-020..044, SW-130..135. Where the published description leaves a field open, the choice made here
//! is in the docstring of the field.

pub mod cbfc;
pub mod cc_window;
pub mod class;
pub mod cnp_merge;
pub mod endpoint;
pub mod frame;
mod requester;
pub mod rh;
pub mod watermark;

pub use requester::Reliability;
