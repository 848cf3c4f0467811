//! What is told of members, and when.

use super::*;
use crate::events::Watcher;
use crate::fake;
use crate::lacp::LacpReading;
use crate::lacp::fake::{info, reading};
use std::sync::Arc;

/// What is told when what is known goes from one to the other.
fn told(was: LacpReading, is: LacpReading) -> Vec<Map<String, Value>> {
    let (mut watcher, mut log) = (Watcher::default(), Log::default());
    let mut snapshot = fake::snapshot();
    for lacp in [was, is] {
        Arc::make_mut(&mut snapshot.now).lacp = lacp.into();
        watcher.observe(&snapshot, &mut log);
    }
    let all = log.after(0).filter_map(|event| event.body.as_object().cloned());
    all.filter(|event| event["event"].as_str().unwrap().starts_with("lacp")).collect()
}

fn with(change: impl FnOnce(&mut MemberReading)) -> LacpReading {
    let mut reading = reading(1);
    change(&mut reading.lags[0].members[0]);
    reading
}

#[test]
fn members_that_come_and_go_are_told_with_the_reason() {
    assert!(told(reading(1), reading(2)).is_empty(), "counters are no news");
    let down = with(|one| (one.mux, one.why) = (Mux::Attached, Why::PartnerNotInSync));
    let [event] = &told(reading(1), down.clone())[..] else { panic!() };
    assert_eq!(
        (&event["event"], &event["phase"], &event["port"]),
        (&json!("lacp"), &json!("down"), &json!("p0"))
    );
    assert_eq!((&event["lag"], &event["why"]), (&json!("po1"), &json!("partner_not_in_sync")));
    let [event] = &told(down, reading(1))[..] else { panic!() };
    assert_eq!(
        (&event["phase"], &event["partner_system"]),
        (&json!("up"), &json!("65535,02:00:00:00:00:02"))
    );
    let gone = LacpReading::default();
    let ended = told(reading(1), gone.clone());
    let ended: Vec<_> = ended
        .iter()
        .map(|event| [&event["event"], &event["phase"], &event["lag"]].map(|v| v.as_str().unwrap()))
        .collect();
    assert_eq!(ended, [["lacp", "down", "po1"], ["lacp_wrong_partner", "end", "po1"]], "nothing stays open");
    // The same ports in another LAG: what was told of the old one has ended, and all is told of the new one.
    let mut moved = reading(1);
    moved.lags[0].name = "po2".into();
    let moved = told(reading(1), moved);
    let of = |lag: &str| moved.iter().filter(|event| event["lag"] == lag).count();
    assert_eq!((of("po1"), of("po2"), moved.len()), (2, 4, 6), "{moved:?}");
    assert_eq!(told(gone, reading(1)).len(), 4, "a partner each, one sends, one is wrong");
}

#[test]
fn a_cable_that_leads_elsewhere_is_an_alarm_until_it_does_not() {
    let other = with(|one| {
        (one.mux, one.why, one.partner) = (Mux::Detached, Why::OtherPartner, Some(info(3, 1, 5)));
    });
    let events = told(reading(1), other.clone());
    let [partner, down, alarm] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&partner["event"], &partner["phase"]), (&json!("lacp_partner"), &json!("changed")));
    assert_eq!(
        (&partner["partner_system"], &partner["was_system"]),
        (&json!("65535,02:00:00:00:00:03"), &json!("65535,02:00:00:00:00:02"))
    );
    assert_eq!((&down["phase"], &down["why"]), (&json!("down"), &json!("other_partner")));
    assert_eq!((&alarm["event"], &alarm["phase"]), (&json!("lacp_wrong_partner"), &json!("alarm")));
    assert_eq!(alarm["lag_system"], "65535,02:00:00:00:00:02");
    assert!(alarm["remedy"].as_str().unwrap().contains("plug"));
    let ends: Vec<_> = told(other, reading(1)).iter().map(|event| event["phase"].clone()).collect();
    assert_eq!(ends, ["changed", "up", "end"]);
}

/// A partner that flaps without end is told of as often as others can bear.
#[test]
fn a_partner_that_flaps_does_not_drown_the_others() {
    let (mut watcher, mut log) = (Watcher::default(), Log::default());
    let mut snapshot = fake::snapshot();
    for n in 0..1_000u64 {
        snapshot.uptime_ms += 100;
        Arc::make_mut(&mut snapshot.now).lacp =
            with(|one| one.partner = (n % 2 == 0).then(|| info(2, 7, 0x3d))).into();
        watcher.observe(&snapshot, &mut log);
    }
    let told = log.after(0).filter(|event| event.body["event"] == "lacp_partner").count();
    assert!((50..130).contains(&told), "{told}");
}
