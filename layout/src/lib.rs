//! How numbers, units and tables look to people: the one place for all crates, below those that show something
//! (configuration, simulator, management, program). It knows none of them, and depends on nothing.
//!
//! | What | For |
//! | --- | --- |
//! | [`Grid`] | text in columns |
//! | [`Unit`] | numbers of one unit, which the heading or the sentence names: `12.5 us` |
//! | [`scaled`], [`time`], [`percent`] | numbers with the unit that fits, rounded: `1.25G`, `1.5us`, `12.5%` |
//! | [`since`], [`grouped`], [`counted`], [`agree`] | how long something lasts, long counts, counts with their noun, and the verb to it |
//! | [`show_rate`], [`show_size`], [`show_time`], [`show_length`], [`show_share`], [`show_frame_rate`] | values of a configuration, exact, as they can be written there: `2.5G`, `12MiB` |
#![forbid(unsafe_code)]

mod exact;
mod grid;
mod number;
mod unit;

pub use exact::{show_frame_rate, show_length, show_rate, show_share, show_size, show_time};
pub use grid::Grid;
pub use number::{agree, counted, grouped, percent, scaled, since, time};
pub use unit::Unit;
