//! The reliable connection, whatever carries it: packet sequence numbers of any width, what is in flight, go-back-N, and the order of
//! a responder (IBTA 9.7; SW-130).
//!
//! RoCEv2 queue pairs ([`crate::roce`], 24 bits), RC Link queue pairs ([`crate::rclink`], 12 bits), flows of headers ([`crate::flow`])
//! and in-network aggregation all stand on it. What a packet is, when it may leave and what becomes of its bytes is for
//! the owner to know.

pub mod answer;
pub mod flight;
pub mod go_back_n;
pub mod in_order;
pub mod psn;
