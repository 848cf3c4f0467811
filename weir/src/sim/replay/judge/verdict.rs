//! What was decided of a frame on its arrival: by itself and the configuration, or by how full group, queue and buffer were. That hangs on frames
//! that the file may lack, or of which it does not tell when they reached their queue, and on who finds the last room.

use super::super::sides::Sides;
use super::{Finding, Known, Past};
use weir_mgmt::admin::verdict::XOFF_REACHED;

/// `None`: one side was not followed so far.
pub fn judge(known: &Known<'_>, past: &mut Past<'_>, sides: &Sides<'_>) -> Option<Finding> {
    if sides.is_unfollowed() {
        return None;
    }
    let is_own = sides.is_refused_of_itself();
    if known.lacks.own && !is_own {
        return Some(Finding::Lacks);
    }
    let words = sides.arrivals();
    if words[0] == words[1] {
        return Some(Finding::Same);
    }
    if is_own {
        return Some(Finding::differs(what(&words), words));
    }
    if let Some(why) = past.explain(known, sides) {
        return Some(why);
    }
    let what = what(&words);
    let last_room = sides.is_crowded_out() && what == "verdict";
    Some(Finding::differs_in_phase(what, words, last_room || known.shifted.contains(&sides.number())))
}

/// What differs: that a frame brought its group to Xoff has a word of its own.
fn what(words: &[String; 2]) -> &'static str {
    if words.iter().any(|word| word == XOFF_REACHED) { "pause" } else { "verdict" }
}
