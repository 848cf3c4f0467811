//! What the forwarding table says of a destination. The file cannot tell where it was before it was known, nor who had joined a group.

use super::super::sides::{Sides, is_crowded_out, is_refused_of_itself, places};
use super::{Finding, GROUPS, Known};
use weir_mgmt::admin::comment::FrameHistory;

/// The place of its destination. Where it is another one nothing behind it can be compared.
pub fn judge(known: &Known<'_>, sides: &Sides<'_>) -> Finding {
    let Sides { was, is, .. } = sides;
    match was.lookup == is.lookup {
        true => Finding::Same,
        false if was.lookup == "unknown" => Finding::LearnedSince,
        false if is_joined(known, was) => Finding::Unknown(GROUPS),
        false => Finding::differs("lookup", [was.lookup.clone(), is.lookup.clone()]),
    }
}

/// Where a frame to a group went to other ports than in the replay, and hosts join groups: who had joined is not known. `place`: that of the group.
pub fn members(known: &Known<'_>, sides: &Sides<'_>, place: &Finding) -> Option<Finding> {
    let [was, is] = sides.both();
    let has_places = |history: &FrameHistory| {
        !(is_refused_of_itself(history) || is_crowded_out(history) && places(history).is_empty())
    };
    let others = *place == Finding::Same
        && is_joined(known, was)
        && !was.on_its_way
        && sides.both().into_iter().all(has_places)
        && places(was) != places(is);
    others.then_some(Finding::Unknown(GROUPS))
}

/// Whether a frame is one of those that go to whoever has joined.
fn is_joined(known: &Known<'_>, history: &FrameHistory) -> bool {
    let is_to_group = history.lookup == "multicast" || history.lookup.starts_with("group ");
    !known.config.mcast.vlans.is_empty() && is_to_group
}
