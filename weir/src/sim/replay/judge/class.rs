//! The class of a frame, which it has without a switch: always judged.

use super::super::sides::Sides;
use super::Finding;

pub fn judge(sides: &Sides<'_>) -> Finding {
    let text = |class: Option<[u8; 3]>| match class {
        Some([tc, pg, queue]) => format!("tc {tc} pg {pg} queue {queue}"),
        None => "none".into(),
    };
    match sides.was.class == sides.is.class {
        true => Finding::Same,
        false => Finding::differs("class", sides.both().map(|history| text(history.class))),
    }
}
