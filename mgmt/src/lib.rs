//! Management: a thread that shows everything, and takes orders for the program that runs the switch.
//!
//! [`snapshot`] is the one value everything is made from, [`sample`] takes it. [`table`] lists what
//! there is to see; JSON, OpenAPI and the command line come from that list.
#![forbid(unsafe_code)]

pub mod access;
pub mod admin;
pub mod api;
pub mod board;
pub mod catalogue;
pub mod client;
pub mod credentials;
pub mod events;
pub mod flows;
pub mod history;
pub mod inc;
pub mod lacp;
pub mod latency;
pub mod lldp;
pub mod mcast;
pub mod metrics;
pub mod mirror_files;
pub mod openapi;
pub mod page;
pub mod pcapng;
pub mod sample;
pub mod server;
pub mod show;
pub mod snapshot;
pub mod sonic;
pub mod table;
pub mod telemetry;
pub mod text;
pub mod times;
pub mod token;

#[cfg(test)]
mod fake;
