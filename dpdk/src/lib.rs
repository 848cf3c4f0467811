//! weir dpdk.
