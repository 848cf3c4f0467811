//! The ports and queues a frame left by, and where it was lost on the way there. It follows from what was decided on its arrival, and is not
//! judged where that was not; nor can the file tell of frames that still waited as it ended.

use super::super::sides::{Sides, text};
use super::{Finding, Known, Past};

/// `verdict`: what came of the decision on its arrival. `None`: there is nothing to compare.
pub fn judge(
    known: &Known<'_>,
    past: &Past<'_>,
    sides: &Sides<'_>,
    verdict: Option<&Finding>,
) -> Option<Finding> {
    let is_crowded_out = sides.is_crowded_out();
    match verdict {
        Some(why @ (Finding::Lacks | Finding::Unknown(_))) if is_crowded_out && !known.lacks.own => {
            return Some(why.clone());
        }
        // Who found the last room.
        Some(Finding::Differs(other)) if other.phase && is_crowded_out => return None,
        _ => {}
    }
    if sides.is_unfollowed() || sides.was.on_its_way {
        return None;
    }
    if known.lacks.own && is_crowded_out {
        return Some(Finding::Lacks);
    }
    if sides.ended_alike() {
        return Some(Finding::Same);
    }
    if let Some(why) = past.other_load(known).filter(|_| is_crowded_out) {
        return Some(Finding::Unknown(why));
    }
    Some(Finding::differs_in_phase("departure", sides.both().map(text), is_crowded_out))
}
