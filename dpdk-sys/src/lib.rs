//! weir dpdk-sys.
