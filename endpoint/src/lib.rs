//! weir endpoint.
#![forbid(unsafe_code)]

pub mod dcqcn;
