//! A fabric of real switches in virtual time.

use super::FabricError;
use super::play::Progress;
use super::report::Report;
use super::spec::FabricSpec;
use std::ops::ControlFlow;
use world::Fabric;

mod core;
mod event_loop;
mod failures;
mod operations;
mod orders;
mod probe;
mod world;

/// Plays `spec`.
pub(super) fn run(
    spec: &FabricSpec,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Report, FabricError> {
    let mut fabric = Fabric::new(spec)?;
    fabric.play(progress);
    Ok(fabric.report())
}
