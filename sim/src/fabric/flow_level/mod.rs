//! A fabric at flow level: flows are rates, max-min fair at any time, and an event is a flow that begins or ends.
//!
//! Topology, routes, workloads and times of links and switches are those of the packet run of the same file. A flow has the bytes
//! of its frames on the wire to send; the last of them arrives after the delays of its path and its own serialization on every
//! further link, so that a flow alone takes what it takes frame by frame. What frames do to one another beside sharing a link
//! (queues, marks, pauses, losses, acknowledgements) is not there, and neither is the way in which congestion control finds
//! its rates.
//!
//! At hybrid level the flows that share a bottleneck are then played frame by frame ([`hybrid`]), with all of their jobs ([`jobs`]), and the others are left as
//! they are.

mod bundle;
mod hybrid;
mod jobs;
mod max_min;
mod report;
mod scope;
mod world;

use super::FabricError;
use super::level::Level;
use super::play::Progress;
use super::report::Report;
use super::spec::FabricSpec;
use std::ops::ControlFlow;
use world::World;

/// Plays `spec`; at hybrid level those of its flows frame by frame that pass a congested link, on so many threads at most.
pub(super) fn run(
    spec: &FabricSpec,
    threads: usize,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Report, FabricError> {
    let mut world = World::new(spec)?;
    // Frames take most of the time of a hybrid run: until they are played nothing has come far.
    let all_to_come = spec.level == Level::Hybrid;
    world.play(spec.stop_time.0, &mut |told| {
        progress(if all_to_come { Progress { now_ns: 0, done: 0, ..told } } else { told })
    });
    let packets = match spec.level {
        Level::Hybrid if !world.stopped => hybrid::play_congested(&world, threads, progress)?,
        _ => None,
    };
    if let Some(packets) = packets.as_ref().filter(|packets| packets.report.stopped) {
        // The report is of the time to which frames were played, and rates were played beyond that.
        drop(world);
        world = World::new(spec)?;
        world.play(packets.report.end_ns, &mut |_| ControlFlow::Continue(()));
    }
    Ok(world.report(packets))
}

#[cfg(test)]
mod hybrid_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod workload_tests;
