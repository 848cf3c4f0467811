//! A fabric of real switches in virtual time.

use super::FabricError;
use super::collective_report::PauseTotals;
use super::computations::Computations;
use super::play::{Progress, Undivided, bytes_of};
use super::report::Report;
use super::spec::FabricSpec;
use section::Section;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use world::Fabric;

mod core;
mod event_loop;
mod failures;
mod groups;
mod held;
mod numbers;
mod operations;
mod orders;
mod probe;
pub(super) mod section;
mod world;

/// Plays it, and says of how many bytes that is.
fn play(
    fabric: &mut Fabric<'_>,
    threads: usize,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Option<Undivided> {
    let bytes = bytes_of(&fabric.flows);
    fabric.play(threads, &mut |now| progress(Progress { bytes, ..now }))
}

/// Plays `spec` on so many threads at most.
pub(super) fn run(
    spec: &FabricSpec,
    threads: usize,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Report, FabricError> {
    let mut fabric = Fabric::new(spec, None)?;
    let undivided = play(&mut fabric, threads, progress);
    Ok(Report { undivided, ..fabric.report() })
}

/// What of a part of a fabric its report does not say.
pub(super) struct SectionFacts {
    /// For how long hosts of flows that are parts of collectives were held back meanwhile, ns, by the new number of the flow.
    pub paused: BTreeMap<u32, PauseTotals>,
    /// What has become of computations.
    pub computations: Computations,
}

/// Plays a part of `spec` on so many threads at most: the report, in which flows are numbered anew, and what else is known.
pub(super) fn run_section(
    spec: &FabricSpec,
    section: &Section,
    threads: usize,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<(Report, SectionFacts), FabricError> {
    let mut fabric = Fabric::new(spec, Some(section))?;
    let undivided = play(&mut fabric, threads, progress);
    let facts = SectionFacts { paused: fabric.paused.clone(), computations: fabric.computations() };
    Ok((Report { undivided, ..fabric.report() }, facts))
}
