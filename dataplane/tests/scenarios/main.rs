//! What a switch does with frames: the scenario tables A to I, and what was found besides.
//!
//! One program: to link each table for itself takes longer than to run it.

#[path = "../harness/mod.rs"]
mod harness;

mod deviations;
mod lossless;
mod table_a;
mod table_b;
mod table_c;
mod table_d;
mod table_e;
mod table_f;
mod table_g;
mod table_h;
mod table_i;
