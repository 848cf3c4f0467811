//! Seconds that are added up, questions, answers.

use super::*;
use crate::api::documents::{Flows, json};
use crate::api::{self, given::Given};
use crate::fake;
use crate::sample::Sampler;
use crate::show;
use crate::snapshot::Snapshot;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weir_dataplane::drops::DropReason;
use weir_dataplane::flows::Where;
use weir_dataplane::rng::Rng;

fn snapshot_of(readings: &[FlowsReading]) -> Snapshot {
    let mut sampler = Sampler::new(fake::info());
    let mut last = None;
    for (n, flows) in readings.iter().enumerate() {
        let mut reading = fake::reading(n as u64);
        reading.ports[1].flows = Some(Arc::new(flows.clone()));
        last = Some(sampler.sample(reading, 0, n as u64 * 100));
    }
    last.unwrap()
}

fn ask(snapshot: &Snapshot, given: &[(&str, &str)]) -> Result<Value, u16> {
    let escape = |text: &str| text.replace('"', "%22").replace('\\', "%5C");
    let given: Vec<_> = given.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
    let endpoint = api::find("GET", PATH).unwrap();
    let given = Given::read(endpoint, PATH, Some(&given.join("&")), &snapshot.info);
    let query = Query::of(&given.map_err(|refusal| refusal.status().as_u16())?, snapshot);
    Ok(document(snapshot, &query))
}

#[test]
fn flows_are_told_with_shares_and_what_is_left() {
    let snapshot = fake::snapshot();
    let all = ask(&snapshot, &[]).unwrap();
    assert_eq!((&all["recorded"], &all["window"]), (&json!(true), &json!("minute")));
    let rows = all["flows"].as_array().unwrap();
    assert_eq!(rows.len(), 6, "three causes, two flows");
    assert_eq!(
        rows[0],
        json!({
            "port": "p\"1\\", "cause": "mark", "priority": 3, "reason": null, "from": "p0",
            "flow": "10.0.0.7:49152 -> 10.0.0.9 QP 0x17", "src": "10.0.0.7", "dst": "10.0.0.9", "protocol": "udp",
            "src_port": 49152, "dst_port": 4791, "qp": 0x17,
            "share": 0.7, "share_at_most": 0.7, "count": 140, "count_at_most": 140, "unit": "frames",
        })
    );
    // 7 and 3 of 16 looks at two times two pauses; a fifth of the marks of nobody.
    let pause = &rows[2];
    assert_eq!(
        (&pause["share"], &pause["count"], &pause["unit"]),
        (&json!(0.4375), &json!(1.75), &json!("pauses"))
    );
    let depth = &rows[4];
    assert_eq!(
        (&depth["share"], &depth["count"], &depth["unit"]),
        (&json!(0.35), &json!(7000.0), &json!("mean_bytes"))
    );
    assert_eq!(
        all["totals"][0],
        json!({ "port": "p\"1\\", "cause": "mark", "total": 200, "unit": "frames", "looked_at": 200, "other_share": 0.0, "unseen_share": 0.0, "seconds": 2 })
    );
    assert_eq!((&all["totals"][1]["total"], &all["totals"][1]["other_share"]), (&json!(4.0), &json!(0.375)));
    for (given, flows) in [
        (("cause", "pause"), 2),
        (("cause", "drop"), 0),
        (("port", "p0"), 0),
        (("port", "p\"1\\"), 6),
        (("priority", "3"), 6),
        (("priority", "2"), 0),
        (("limit", "1"), 3),
        (("window", "now"), 6),
    ] {
        assert_eq!(ask(&snapshot, &[given]).unwrap()["flows"].as_array().unwrap().len(), flows, "{given:?}");
    }
    assert_eq!(ask(&snapshot, &[("port", "p7")]), Err(404));
    for (parameter, value) in [
        ("cause", "marks"),
        ("cause", ""),
        ("priority", "8"),
        ("priority", "-1"),
        ("window", "hour"),
        ("limit", "0"),
        ("limit", "1001"),
        ("limit", "all"),
    ] {
        assert_eq!(ask(&snapshot, &[(parameter, value)]), Err(400), "{parameter} {value}");
    }
    // The type of the OpenAPI document is what is answered.
    let typed: Flows = serde_json::from_value(all.clone()).unwrap();
    assert_eq!(json(&typed), all);
}

#[test]
fn flows_are_shown_to_people() {
    let typed = |answer: Value| -> Flows { serde_json::from_value(answer).unwrap() };
    let mut answer = ask(&fake::snapshot(), &[]).unwrap();
    let text = show::flows(&typed(answer.clone()));
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["Port", "Cause", "Prio", "From", "Flow", "Share/%", "Count", "Unit", "Reason"]);
    assert_eq!(
        lines[2],
        [
            "p\"1\\",
            "mark",
            "3",
            "p0",
            "10.0.0.7:49152",
            "->",
            "10.0.0.9",
            "QP",
            "0x17",
            "70.0",
            "140",
            "frames"
        ]
    );
    assert!(lines.iter().any(|line| line.ends_with(&["43.8", "1.75", "pauses"])), "{text}");
    assert!(text.contains("p\"1\\ pause: 4 pauses in 2 s, 32 frames looked at, 37.5 % of others"), "{text}");
    answer["totals"] = json!([{
        "port": "p0", "cause": "drop", "total": 300, "unit": "frames", "seconds": 2, "looked_at": 150,
        "other_share": 0.0, "unseen_share": 0.015,
    }]);
    let unseen = show::flows(&typed(answer.clone()));
    assert!(unseen.contains("150 frames looked at, 0.0 % of others, 1.5 % not looked at"), "{unseen}");
    answer["recorded"] = false.into();
    let off = show::flows(&typed(answer));
    assert!(off.contains("[flows] enable"), "{off}");
}

/// What readings of ten a second say of a minute is what was counted, also where some readings are missed; a minute later
/// it is forgotten.
#[test]
fn the_last_minute_is_added_up_and_forgotten() {
    let second = |number: u64| {
        let mut epoch = Epoch {
            number,
            totals: [0, number, 0, 0],
            looked: [0, number, 0, 0],
            looks: 100,
            ..Epoch::default()
        };
        let reason = Some(DropReason::EgressQueueFull);
        let place = Where { in_port: 0, priority: 1, reason };
        epoch.flows[1].add(&fake::flow((number % 7) as u8).at(place), number);
        epoch
    };
    let reading =
        |number: u64| FlowsReading::of(&PortFlows { current: second(number), previous: second(number - 1) });
    let readings: Vec<_> = (1..=200u64).flat_map(|n| std::iter::repeat_n(reading(n), 3)).collect();
    let snapshot = snapshot_of(&readings);
    let total = |snapshot: &Snapshot, window: &str| {
        let all = ask(snapshot, &[("window", window), ("limit", "100")]).unwrap();
        let flows = all["flows"].as_array().unwrap();
        let sum: u64 = flows.iter().map(|flow| flow["count"].as_u64().unwrap()).sum();
        assert_eq!(json!(sum), all["totals"][0]["total"]);
        assert!(flows.iter().all(|flow| flow["reason"] == "egress.queue_full"));
        (sum, all["totals"][0]["seconds"].as_u64().unwrap(), flows.len())
    };
    assert_eq!(total(&snapshot, "minute"), ((140..=200).sum(), 61, 7));
    assert_eq!(total(&snapshot, "now"), (199 + 200, 2, 2));
    // Nobody looked for a while: seconds are missing, and are not counted.
    let gap: Vec<_> = (1..=100).chain(120..=130).map(reading).collect();
    let (sum, seconds, _) = total(&snapshot_of(&gap), "minute");
    assert_eq!((sum, seconds), ((70..=99).sum::<u64>() + (119..=130).sum::<u64>(), 42));
    // It has been quiet for minutes.
    let late: Vec<_> = [reading(5), reading(6), reading(600)].to_vec();
    assert_eq!(total(&snapshot_of(&late), "minute"), (599 + 600, 2, 2));
}

/// Of any seconds, full ones too: a flow has no less and no more than is said.
#[test]
fn bounds_hold_for_sums() {
    let mut rng = Rng::new(4);
    let mut below = |n: u64| rng.next_u64() % n;
    let mut wide = 0;
    for round in 0..300 {
        let mut exact: BTreeMap<u64, u64> = BTreeMap::new();
        let kinds = 4 + below(150);
        let seconds: Vec<Epoch> = (1..=1 + below(25))
            .map(|number| {
                let mut epoch = Epoch { number, ..Epoch::default() };
                for _ in 0..below(300) {
                    // A few come often.
                    let flow = if below(3) == 0 { below(4) } else { below(kinds) };
                    let weight = 1 + below(50);
                    *exact.entry(flow).or_default() += weight;
                    epoch.totals[0] += weight;
                    epoch.flows[0].add(&FlowId([2, 0, flow, 0, 0, 0]), weight);
                }
                epoch
            })
            .collect();
        let mut minute = Minute::default();
        let none = Epoch::default();
        for (previous, current) in std::iter::once(&none).chain(&seconds).zip(&seconds) {
            minute.observe(Arc::new(FlowsReading { previous: previous.into(), current: current.into() }));
        }
        let all = behind(&minute, Cause::Mark, Window::Minute, |_| true);
        assert_eq!((all.total, all.seconds), (exact.values().sum(), seconds.len() as u64), "{round}");
        for share in &all.flows {
            let own = exact[&share.id.0[2]];
            assert!(share.least <= own && own <= share.most, "{share:?} {own}");
            wide += u64::from(share.least < share.most);
        }
        assert!(all.unseen <= all.total / 8, "{round}: {} of {}", all.unseen, all.total);
        assert!(minute.whole.iter().all(|kept| kept.flows[0].len() <= MOST), "{round}");
        for (flow, own) in &exact {
            assert!(*own <= all.unseen || all.flows.iter().any(|share| share.id.0[2] == *flow));
        }
        assert!(all.flows.is_sorted_by(|a, b| a.least >= b.least));
    }
    assert!(wide > 1000, "more flows than are kept: {wide}");
}
