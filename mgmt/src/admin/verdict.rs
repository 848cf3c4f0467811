//! What admission decided about a frame, in words: as `weir trace`, `weir capture` and `weir explain` write them, and `weir sim replay` reads them.

/// It found room in every queue it was for.
pub const ADMITTED: &str = "admitted";
/// It brought its group to Xoff: a pause follows where the port sends PFC.
pub const XOFF_REACHED: &str = "admitted, Xoff reached";
/// It waits in the headroom of its group.
pub const INTO_HEADROOM: &str = "admitted into headroom";
/// It found no room in some of the queues it was for.
pub const SOME_DROPPED: &str = "some copies dropped";
/// It found no room.
pub const DROPPED: &str = "dropped";
/// It ended in the switch, went no further, or was not followed beyond its arrival.
pub const CONSUMED: &str = "consumed";

/// As captures have it: before they left it to the port whether PFC is sent, they said that it was.
pub(super) fn captured(word: &str) -> &str {
    if word == "admitted, Xoff is sent" { XOFF_REACHED } else { word }
}
