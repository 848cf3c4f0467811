//! An observer other than the tap: what the pipeline tells it of a frame, in order.

use super::super::tests::{assert_conserved, frame, params, receive, transmit};
use super::super::{Interest, Key, Observer, Record, Switch, Taken, What};
use crate::drops::DropReason;
use crate::frame::OwnedFrame;
use crate::mmu::Mmu;
use crate::parse::Profile;
use crate::types::PortId;

/// Follows every frame of port 0 and writes down what it is told.
#[derive(Debug, Default)]
struct Diary {
    told: Vec<String>,
    followed: Vec<Key>,
}

impl Observer for Diary {
    fn looks_on(&self) -> bool {
        true
    }

    fn interest(&self, port: PortId, _: &Profile, _: &[u8], _: usize) -> Interest {
        if port.0 == 0 { Interest::Frame } else { Interest::None }
    }

    fn make_room(&mut self, _: impl Fn(Key) -> bool) -> bool {
        true
    }

    fn keep(&mut self, bytes: &[u8]) -> Option<u32> {
        Some(bytes.len() as u32)
    }

    fn arrived(&mut self, record: &Record, is_queued: bool) {
        let What::Arrived(arrival) = &record.what else { panic!("{record:?}") };
        self.told.push(format!("arrived, {} copies, queued {is_queued}", arrival.copies));
        self.followed.extend(is_queued.then_some(record.key));
    }

    fn follows(&self, key: Key, _: bool) -> bool {
        self.followed.contains(&key)
    }

    fn taken(&mut self, taken: Taken) -> Taken {
        self.told.push(format!("taken by {}", taken.out.0));
        taken
    }

    fn left(&mut self, out: PortId, _: &Record, _: usize, is_last: bool) {
        self.told.push(format!("left by {}, last {is_last}", out.0));
    }

    fn flushed(&mut self, out: PortId, _: Key, (len, reason): (u32, DropReason), is_last: bool) {
        self.told.push(format!("{len} bytes flushed at {}: {reason:?}, last {is_last}", out.0));
    }

    fn lost(&mut self, at: PortId, reason: DropReason, _: &Profile, _: &[u8], len: usize) {
        self.told.push(format!("{len} bytes lost at {}: {reason:?}", at.0));
    }
}

#[test]
fn whoever_looks_on_is_told_of_a_frame_in_the_order_of_its_way() {
    let mut switch = Switch::<OwnedFrame, Mmu, Diary>::observed(params(3)).unwrap();
    let told = |switch: &mut Switch<OwnedFrame, Mmu, Diary>| std::mem::take(&mut switch.observer.told);
    // Flooded to two ports; one of them loses its link before the copy has left.
    receive(&mut switch, 0, [frame(1, 2, 0, 64)], 0);
    assert_eq!(told(&mut switch), ["arrived, 2 copies, queued true"]);
    assert_eq!(transmit(&mut switch, 1, 0).frames.len(), 1);
    assert_eq!(told(&mut switch), ["taken by 1", "left by 1, last false"]);
    switch.set_link(PortId(2), false, 0);
    switch.tick(0);
    assert_eq!(
        told(&mut switch),
        ["64 bytes flushed at 2: EgressPortDown, last true", "64 bytes lost at 2: EgressPortDown"]
    );
    // Nothing is told of frames that came by another port, but of their loss.
    receive(&mut switch, 1, [frame(2, 1, 0, 64)], 0);
    transmit(&mut switch, 0, 0);
    assert!(told(&mut switch).is_empty());
    receive(&mut switch, 1, [OwnedFrame::new(vec![0; 10])], 0);
    assert_eq!(told(&mut switch).len(), 1);
    assert_conserved(&switch);
}

#[test]
fn a_switch_that_nobody_looks_at_has_no_room_for_an_observer() {
    assert_eq!(size_of_val(&Switch::<OwnedFrame>::new(params(2)).unwrap().observer), 0);
}
