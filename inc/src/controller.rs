//! Who plans jobs for hosts and posts them to switches: what it decides, without sockets, threads and clock.
//!
//! [`topology`] is the fabric as it is written down, [`desk`] takes what hosts and switches say and answers with what is
//! to be done. `weir inc controller` moves the words; [`inccl`] are those of hosts that were made for another controller.

pub mod desk;
pub mod inccl;
pub mod topology;
