//! RoCEv2 reliable connections and unreliable datagrams: frames, queue pairs, memory regions, completion queues.
//!
//! Start at [`hca::Hca`]: frames and times go in, frames, completions and deadlines come out.

pub mod cnp;
pub mod cq;
pub mod frame;
pub mod hca;
pub mod head;
pub mod icrc;
pub mod memory;
pub mod pacer;
pub mod qp;
mod requester;
mod responder;
pub mod shape;
pub mod ud;
pub mod verbs;
pub mod wire;
