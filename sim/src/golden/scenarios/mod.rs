//! End-to-end runs of the published HPCC simulator, replayed in the ns-3 profile.
//!
//! The folder describes itself (`scenarios.json`). A scenario without a random draw must agree in every
//! cell: each PFC frame with its four counters, each completion time, each rate change (alpha as a
//! double), each queue sample, the maxima of every queue and the summary. A scenario with the marking
//! coin is run with many seeds and compared with the ten logged ones, see [`seeds`].
mod acks;
mod dialect;
mod log;
pub mod replay;
pub mod seeds;
pub mod spec;
pub mod tables;

use super::folder::Folder;
use super::{GoldenError, Kind, Sink};
use replay::DataSet;

/// The kind of these data sets.
pub(super) const KIND: Kind = Kind {
    name: "ns3-scenarios",
    claims: |folder| folder.path.join(replay::DESCRIPTION).is_file(),
    replay: replay_folder,
};

/// One report per scenario and table, named `TABLE/SCENARIO`.
fn replay_folder(folder: &Folder, sink: Sink<'_>) -> Result<(), GoldenError> {
    let set = DataSet::from_folder(folder)?;
    for name in set.described().names() {
        let scenario = set.scenario(name)?;
        let reports =
            if scenario.deterministic { set.replay(&scenario) } else { seeds::replay(&set, &scenario) };
        reports?.into_iter().for_each(&mut *sink);
    }
    Ok(())
}
