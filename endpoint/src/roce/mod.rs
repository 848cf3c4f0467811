//! RoCEv2 reliable connections and unreliable datagrams: frames, queue pairs, memory regions, completion queues.
//!
//! Start at [`hca::Hca`]: frames and times go in, frames, completions and deadlines come out.

pub mod cnp;
pub mod cq;
pub mod frame;
pub mod go_back_n;
pub mod hca;
pub mod head;
pub mod icrc;
pub mod in_order;
pub mod memory;
pub mod pacer;
pub mod psn;
pub mod qp;
mod requester;
mod responder;
pub mod ud;
pub mod verbs;
pub mod wire;
