//! Raw bindings to the DPDK that is installed: the functions crate `weir-dpdk` calls, and the C shim
//! of `shim/shim.h` for what C hides from other languages.
//!
//! Nothing here is written by hand but the shim. Functions that are `static inline` in DPDK are
//! reached out of line; per frame nothing is called, mbuf fields are read at the offsets of
//! [`weir_mbuf_offset`]. Supported: DPDK 22.11 up to, not including, 26.

#![no_std]
#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case)]
#![allow(missing_docs, missing_debug_implementations, unsafe_op_in_unsafe_fn)]
#![allow(clippy::undocumented_unsafe_blocks, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
