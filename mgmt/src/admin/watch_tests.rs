//! Orders to follow frames, and the stories put together from records.

use super::*;
use crate::admin::comment::comment;
use crate::api::documents::{WatchOrder, json as as_json};
use crate::fake;
use std::future::Future;
use weir_dataplane::drops::DropReason;
use weir_dataplane::frame::{Frame, OwnedFrame};
use weir_dataplane::switch::{Tap, TapOrder, Tapped, Wire};
use weir_dataplane::types::{BURST, Burst};
use weir_inc::engine::{Engine, EngineParams};
use weir_inc::trace::Follower;

fn line(told: &Value) -> WatchLine {
    serde_json::from_value(told.clone()).unwrap()
}

/// What has happened, as it is told.
fn told(joiner: &mut Joiner, info: &SwitchInfo) -> Vec<Value> {
    joiner.poll(info).iter().map(as_json).collect()
}

#[test]
fn an_order_is_read_as_it_was_written() {
    let watch = Watch {
        port: "p0".into(),
        filter: Filter {
            dst: "02:00:00:00:00:01".parse().ok(),
            dscp: Some(26),
            udp_port: Some(4791),
            ip: "fd00::7".parse().ok(),
            qp: Some(0x1a),
            ..Filter::default()
        },
        count: 3,
        bytes: 64,
        drops: true,
        marked: false,
        engines: false,
        time: Duration::from_millis(1500),
    };
    // The type in the OpenAPI document has the same keys.
    let typed: WatchOrder = serde_json::from_value(watch.json()).unwrap();
    let filter = json!({
        "dst": "02:00:00:00:00:01", "dscp": 26, "udp_port": 4791, "ip": "fd00::7", "qp": 26, "src": null, "ethertype": null,
    });
    assert_eq!(as_json(&typed)["filter"], filter);
    assert_eq!(Watch::from_json(as_json(&typed).to_string().as_bytes()), Ok(watch.clone()));
    assert_eq!(Watch::from_json(watch.json().to_string().as_bytes()), Ok(watch));
    let least = Watch::from_json(b"{\"port\":\"x\"}").unwrap();
    assert_eq!((least.count, least.bytes, least.filter, least.drops), (10, 128, Filter::default(), false));
    assert!(least.engines);
}

#[test]
fn a_bad_order_names_the_path_of_its_fault() {
    for (text, path) in [
        ("{", ""),
        ("[]", ""),
        ("{}", "/port"),
        ("{\"port\":3}", "/port"),
        ("{\"port\":\"a\",\"colour\":1}", "/colour"),
        ("{\"port\":\"a\",\"count\":-1}", "/count"),
        ("{\"port\":\"a\",\"count\":0}", "/count"),
        ("{\"port\":\"a\",\"count\":1e30}", "/count"),
        ("{\"port\":\"a\",\"drops\":\"yes\"}", "/drops"),
        ("{\"port\":\"a\",\"filter\":[]}", "/filter"),
        ("{\"port\":\"a\",\"filter\":{\"dst\":\"2:0\"}}", "/filter/dst"),
        ("{\"port\":\"a\",\"filter\":{\"dscp\":64}}", "/filter/dscp"),
        ("{\"port\":\"a\",\"filter\":{\"vlan\":1}}", "/filter/vlan"),
        ("{\"port\":\"a\",\"filter\":{\"ip\":\"10.0.0\"}}", "/filter/ip"),
        ("{\"port\":\"a\",\"filter\":{\"qp\":16777216}}", "/filter/qp"),
        ("{\"port\":\"a\",\"marked\":1}", "/marked"),
        ("{\"port\":\"a\",\"marked\":true,\"drops\":true}", "/marked"),
    ] {
        let refusal = Watch::from_json(text.as_bytes()).unwrap_err();
        assert_eq!((refusal.status, refusal.faults[0].path.as_str()), (400, path), "{text}");
    }
}

#[derive(Default)]
struct Out(usize);

impl Wire<OwnedFrame> for Out {
    fn send(&mut self, frames: &mut Burst<OwnedFrame>) -> usize {
        let n = frames.len();
        frames.clear();
        self.0 += n;
        n
    }

    fn send_control(&mut self, _: &[u8]) -> bool {
        true
    }
}

fn frame(from: u8, to: u8) -> OwnedFrame {
    let mut bytes = vec![0; 300];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
    bytes[12..18].copy_from_slice(&[8, 0, 0x45, 26 << 2 | 2, 1, 30]);
    bytes[22..24].copy_from_slice(&[64, 17]);
    assert_eq!(bytes.len(), OwnedFrame::new(bytes.clone()).len());
    OwnedFrame::new(bytes)
}

/// A request can end between its order and the answer to it.
#[test]
fn nobody_is_watched_for_who_went_away_before_the_answer() {
    let in_force = crate::server::tests_in_force();
    let (desk, orders) = crate::admin::desk(crate::admin::Shown::new(in_force));
    let watch = Watch::from_json(b"{\"port\":\"p0\"}").unwrap();
    let held = Arc::new(());
    let armed = Arc::downgrade(&held);
    {
        let mut asked = Box::pin(desk.order(crate::admin::Order::Watch(watch)));
        let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(asked.as_mut().poll(&mut nobody).is_pending());
    }
    let call = orders.next(Duration::ZERO).unwrap();
    call.answer(Ok(crate::admin::Done::Watching(Watching {
        readers: vec![],
        engines: Vec::new(),
        anchor: (0, 0),
        held,
    })));
    assert_eq!(armed.strong_count(), 0);
}

#[test]
fn the_story_of_a_frame_is_told_from_port_to_port() {
    let in_force = crate::server::tests_in_force();
    let mut switch = Tapped::<OwnedFrame>::observed(in_force.params).unwrap();
    let order = TapOrder { port: PortId(0), filter: Filter::default(), count: 2, bytes: 20, drops: false };
    let (tap, reader) = Tap::new(order);
    let receive = |switch: &mut Tapped<OwnedFrame>, port: u16, frame: OwnedFrame, now: u64| {
        switch.receive(PortId(port), &mut [frame].into_iter().collect(), now);
    };
    receive(&mut switch, 1, frame(1, 9), 5);
    switch.arm(Some(Box::new(tap)));
    receive(&mut switch, 0, frame(0, 1), 1_000);
    receive(&mut switch, 0, frame(0, 0), 1_000);
    let mut joiner = Joiner::new(
        Watching { readers: vec![reader], engines: Vec::new(), anchor: (7, 3), held: Arc::default() },
        2,
    );
    let info = fake::info();
    let first = told(&mut joiner, &info);
    assert_eq!((first.len(), joiner.is_done()), (2, false));
    assert_eq!(
        (first[0]["lookup"].as_str(), first[0]["verdict"].as_str()),
        (Some("port p\"1\\"), Some("admitted"))
    );
    assert_eq!(
        (first[1]["reason"].as_str(), first[1]["stage"].as_str()),
        (Some("lookup.same_port"), Some("lookup"))
    );
    assert_eq!(unhex(first[0]["bytes"].as_str().unwrap()).unwrap(), frame(0, 1).bytes()[..20]);
    let text = lines(&line(&first[0])).join("\n");
    for wanted in [
        "#1    arrived  p0, 300 bytes",
        "02:00:00:00:00:00 -> 02:00:00:00:00:01, dscp 26, ecn 2, data",
        "queue    0 -> 300",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
    assert!(lines(&line(&first[1])).join("\n").contains("DROPPED  lookup.same_port"));
    switch.transmit(PortId(1), BURST, 51_000, &mut Out::default());
    let then = told(&mut joiner, &info);
    assert_eq!((then.len(), joiner.is_done()), (1, true));
    assert_eq!((&then[0]["frame"], &then[0]["residence_ns"]), (&json!(1), &json!(50_000)));
    let story = comment(&[line(&first[0]), line(&then[0])]);
    assert!(story.contains("admitted; depth 0; left p\"1\\ queue 3 after 50.000us"), "{story}");
    assert!(comment(&[line(&first[1])]).contains("stage lookup, reason lookup.same_port"));
    assert_eq!(as_json(&joiner.foot("count reached"))["missed"], 0);
    assert!(lines(&joiner.foot("count reached"))[0].starts_with("count reached: 2 frames"));
}

/// Frames that were taken.
#[derive(Default)]
struct Taken(Vec<OwnedFrame>);

impl Wire<OwnedFrame> for Taken {
    fn send(&mut self, frames: &mut Burst<OwnedFrame>) -> usize {
        self.0.extend(frames.drain(..));
        self.0.len()
    }

    fn send_control(&mut self, _: &[u8]) -> bool {
        false
    }
}

#[test]
fn the_story_of_a_frame_goes_on_behind_the_port_of_an_engine() {
    let mut switch = Tapped::<OwnedFrame>::observed(crate::server::tests_in_force().params).unwrap();
    let order = TapOrder { port: PortId(0), filter: Filter::default(), count: 1, bytes: 20, drops: false };
    let (tap, reader) = Tap::new(order);
    let (mut follower, told_there) = Follower::new(PortId(1));
    switch.receive(PortId(1), &mut [frame(1, 9)].into_iter().collect(), 5);
    switch.arm(Some(Box::new(tap.hands_on([PortId(1)].into_iter().collect()))));
    switch.receive(PortId(0), &mut [frame(0, 1)].into_iter().collect(), 1_000);
    let watching =
        Watching { readers: vec![reader], engines: vec![told_there], anchor: (7, 3), held: Arc::default() };
    let (mut joiner, info) = (Joiner::new(watching, 1), fake::info());
    let mut wire = Taken::default();
    switch.transmit(PortId(1), BURST, 51_000, &mut wire);
    assert_eq!((told(&mut joiner, &info).len(), joiner.is_done()), (2, false), "it has come and left");
    follower.expect(switch.handed_on(PortId(1)));
    let mut engine = Engine::new(EngineParams::default());
    wire.0.iter().for_each(|frame| follower.receive(&mut engine, frame.bytes(), 52_000));
    let then = told(&mut joiner, &info);
    assert_eq!((then.len(), joiner.is_done()), (1, true), "{then:?}");
    let of = |key: &str| then[0][key].clone();
    assert_eq!((of("event"), of("frame"), of("since_ns")), (json!("engine"), json!(1), json!(51_000)));
    assert_eq!((of("what"), of("reason"), of("last")), (json!("dropped"), json!("malformed"), json!(true)));
    assert_eq!(
        lines(&line(&then[0])),
        ["#1    engine   not used, malformed: lengths or headers that contradict one another"]
    );
}

#[test]
fn what_an_engine_does_is_said_in_words() {
    let said = |more: Value| {
        let mut event = json!({ "event": "engine", "frame": 1, "at_ns": 5, "port": "inc0", "since_ns": 2_000, "last": false, "job": 7,
                                "rank": 1, "qp": 17, "psn": 9 });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        lines(&line(&event)).join("")
    };
    for (event, text) in [
        (
            json!({ "step": "came", "what": "stored", "number": 3, "slot": 1, "waits_for": [0, 2] }),
            "engine   job 7, rank 1, PSN 9: stored as packet 3 in slot 1, waits for ranks 0, 2",
        ),
        (
            json!({ "step": "came", "what": "stored", "number": 3, "slot": 1, "waits_for": [] }),
            "engine   job 7, rank 1, PSN 9: stored as packet 3 in slot 1, it completes the packet",
        ),
        (
            json!({ "step": "came", "what": "dropped", "reason": "late", "text": "too late" }),
            "engine   job 7, rank 1, PSN 9: not used, late: too late",
        ),
        (json!({ "step": "folded", "what": "sum", "ranks": 2 }), "summed   after 2.000us, 2 ranks in it"),
        (json!({ "step": "sent", "what": "ack" }), "sent     ACK of PSN 9 to rank 1 (QP 17) after 2.000us"),
        (
            json!({ "step": "sent", "what": "rnr_nak", "wait_ns": 640_000 }),
            "sent     RNR NAK of PSN 9: to wait 640.000us to rank 1 (QP 17) after 2.000us",
        ),
        (
            json!({ "step": "sent", "what": "nak", "reason": "sequence", "rank": null }),
            "sent     NAK `sequence` of PSN 9 to the engine above (QP 17) after 2.000us",
        ),
        (
            json!({ "step": "sent", "what": "result" }),
            "sent     result, PSN 9, to rank 1 (QP 17) after 2.000us",
        ),
        (
            json!({ "step": "failed", "what": "mismatch" }),
            "FAILED   the job: mismatch, because of rank 1; there will be no sum",
        ),
        (json!({ "step": "over", "what": "" }), ""),
    ] {
        let said = said(event);
        assert_eq!(said.trim_start_matches("#1    "), text);
    }
}

/// Of frames that are followed only those that were marked are told, whole and numbered anew.
#[test]
fn only_marked_frames_are_told() {
    let watching =
        Watching { readers: Vec::new(), engines: Vec::new(), anchor: (0, 0), held: Arc::default() };
    let mut joiner = Joiner::new(watching, 2).only_marked(true);
    let info = fake::info();
    let key = |n: u32| Key { rx_ns: 5, in_port: 0, slot: n };
    let arrive = |joiner: &mut Joiner, n: u32, copies: u32| {
        joiner.frames += 1;
        let number = joiner.frames;
        if copies > 0 {
            joiner.open.insert(key(n), Open { number, copies, at_engines: 0 });
        }
        let stage = String::new;
        let came = WatchLine::Flushed {
            frame: number,
            at_ns: 5,
            port: "p0".into(),
            residence_ns: 0,
            stage: stage(),
            reason: stage(),
            remedy: stage(),
        };
        joiner.choose(vec![came])
    };
    let leave = |joiner: &mut Joiner, n: u32, marked: bool| {
        let left = What::Left { out: PortId(1), queue: 3, taken_at: 6, depth: 0, marked };
        joiner.early.push((Record { key: key(n), at: 9, len: 60, kept: 0, what: left }, 0));
        joiner.poll(&info).iter().map(as_json).collect::<Vec<_>>()
    };
    // One that went nowhere, one that leaves as it came, one with two copies of which the second is marked.
    for (n, copies) in [(0, 0), (1, 1), (2, 2), (3, 1), (4, 1)] {
        assert!(arrive(&mut joiner, n, copies).is_empty());
    }
    assert!(leave(&mut joiner, 1, false).is_empty() && leave(&mut joiner, 2, false).is_empty());
    let told = leave(&mut joiner, 2, true);
    let of = |key: &str| told.iter().map(|event| event[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("event"), [json!("flushed"), json!("left"), json!("left")]);
    assert_eq!(of("frame"), [json!(1), json!(1), json!(1)]);
    assert!(!joiner.is_done());
    assert_eq!((leave(&mut joiner, 3, true).len(), joiner.is_done()), (2, true));
    // What was asked for has been told.
    assert!(leave(&mut joiner, 4, true).is_empty());
    let foot = as_json(&joiner.foot(""));
    assert_eq!((&foot["frames"], &foot["on_their_way"]), (&json!(2), &json!(0)));
}

#[test]
fn a_departure_waits_for_its_arrival_and_strangers_are_forgotten() {
    let mut joiner = Joiner::new(
        Watching { readers: Vec::new(), engines: Vec::new(), anchor: (0, 0), held: Arc::default() },
        1,
    );
    let key = Key { rx_ns: 5, in_port: 0, slot: 3 };
    let left = What::Left { out: PortId(1), queue: 3, taken_at: 6, depth: 0, marked: true };
    joiner.early.push((Record { key, at: 9, len: 60, kept: 0, what: left }, 0));
    let stranger = Key { slot: 4, ..key };
    let flushed = What::Flushed { out: PortId(1), reason: DropReason::EgressPortDown };
    joiner.early.push((Record { key: stranger, at: 9, len: 60, kept: 0, what: flushed }, 0));
    assert!(joiner.poll(&fake::info()).is_empty());
    joiner.open.insert(key, Open { number: 1, copies: 1, at_engines: 0 });
    let told = told(&mut joiner, &fake::info());
    assert_eq!((told.len(), told[0]["marked"].as_bool()), (1, Some(true)));
    (0..EARLY).for_each(|_| assert!(joiner.poll(&fake::info()).is_empty()));
    assert!(joiner.early.is_empty());
}

#[test]
fn bytes_survive_hexadecimal() {
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(unhex(&HEXLOWER.encode(&all)), Some(all));
    assert_eq!((unhex("0"), unhex("0g"), unhex("")), (None, None, Some(vec![])));
}
