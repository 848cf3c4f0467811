use super::*;
use crate::fake;
use crate::sample::Sampler;
use crate::snapshot::{Link, Reading};

/// Feeds readings, 100 ms apart, and gives the events as `event/phase` of each.
struct Feed {
    sampler: Sampler,
    watcher: Watcher,
    log: Log,
    ms: u64,
    seen: u64,
}

impl Feed {
    fn new() -> Self {
        let sampler = Sampler::new(fake::info());
        Self { sampler, watcher: Watcher::default(), log: Log::default(), ms: 0, seen: 0 }
    }

    fn step(&mut self, reading: &Reading) -> Vec<Value> {
        self.ms += 100;
        let snapshot = self.sampler.sample(reading.clone(), self.ms, self.ms);
        self.watcher.observe(&snapshot, &mut self.log);
        let new: Vec<_> = self.log.after(self.seen).map(|e| e.body.clone()).collect();
        self.seen = self.log.last();
        new
    }
}

fn names(events: &[Value]) -> Vec<String> {
    let text = |e: &Value, key: &str| e[key].as_str().unwrap_or("").to_owned();
    events.iter().map(|e| format!("{}/{}", text(e, "event"), text(e, "phase"))).collect()
}

#[test]
fn a_job_that_waits_is_told_of_unless_it_has_failed() {
    use weir_inc::immediate::Failure;
    use weir_inc::report::State;
    let mut feed = Feed::new();
    let mut reading = fake::reading(7);
    feed.step(&reading);
    let mut step = |waiting: Option<u64>, state: State| {
        let job = &mut reading.engines[0].jobs[0];
        (job.waiting, job.state) = (waiting, state);
        names(&feed.step(&reading))
    };
    assert_eq!(step(Some(1_000_000_000), State::Running), ["inc/straggler"]);
    assert_eq!(step(None, State::Running), ["inc/resumed"]);
    let failed = State::Failed(Failure::Unreachable, 1, 0);
    assert_eq!(step(Some(900_000_000), failed), ["inc/alarm"]);
    assert!(step(Some(1_100_000_000), failed).is_empty());
    assert!(step(None, failed).is_empty());
    assert!(step(None, State::Running).is_empty());
    assert!(step(None, State::Failing(Failure::Stopped, u16::MAX, 0)).is_empty(), "somebody has ended it");
}

#[test]
fn a_first_look_is_no_news_and_quiet_is_quiet() {
    let mut feed = Feed::new();
    let reading = fake::reading(7);
    assert!(feed.step(&reading).is_empty());
    assert!(feed.step(&reading).is_empty());
}

/// Who is behind a pause, a burst and a loss stands in their events.
#[test]
fn events_name_the_flow_behind_most() {
    let mut feed = Feed::new();
    let mut reading = fake::reading(1);
    feed.step(&reading);
    reading.ports[1].gauges.tx_pauses[3] += 1;
    reading.ports[1].gauges.queue_bytes[3] = 90_000;
    reading.ports[1].stats.drops.0[DropReason::EgressQueueFull as usize] += 1;
    let events = feed.step(&reading);
    let of =
        |kind: &str| events.iter().find(|event| event["event"] == kind && event["port"] != "p0").unwrap();
    for kind in ["xoff", "burst"] {
        let told = ["flow", "flow_share", "flow_from"].map(|key| of(kind)[key].clone());
        assert_eq!(told, [json!("10.0.0.7:49152 -> 10.0.0.9 QP 0x17"), json!(0.7), json!("p0")], "{kind}");
    }
    // Nothing is known of losses, and nothing at all of the other port.
    assert!(of("drops")["flow"].is_null());
    assert!(events.iter().all(|event| event["port"] != "p0" || event["flow"].is_null()));
}

#[test]
fn a_loop_is_an_alarm_and_stations_that_move_are_none() {
    let mut feed = Feed::new();
    let mut reading = fake::reading(1);
    feed.step(&reading);
    let mut moves = |n: u64| {
        reading.loops[0].fdb_moved += n;
        names(&feed.step(&reading))
    };
    // A hundred machines that change their place at once, and one that goes on doing so.
    assert_eq!(moves(100), ["fdb/moved"]);
    assert_eq!([moves(0), moves(1), moves(1), moves(1)].concat(), ["fdb/moved"; 3]);
    assert_eq!([moves(900), moves(900)].concat(), ["fdb/moved"; 2]);
    assert_eq!(moves(900), ["loop/alarm", "fdb/moved"]);
    assert_eq!([moves(900), moves(900)].concat(), ["fdb/moved"; 2]);
    // A worker that publishes nothing for a while, and a loop that is slower for a while.
    assert_eq!([moves(0), moves(19), moves(900)].concat(), ["fdb/moved"; 2]);
    assert!([moves(0), moves(0)].concat().is_empty());
    assert_eq!(moves(0), ["loop/end"]);
    assert!(moves(0).is_empty());
    assert_eq!([moves(900), moves(0), moves(900), moves(900)].concat(), ["fdb/moved"; 3]);
    assert_eq!(moves(900), ["loop/alarm", "fdb/moved"]);
}

/// A full table, and a port at its limit.
#[test]
fn stations_that_are_not_learned_are_told_with_what_to_raise() {
    let mut feed = Feed::new();
    let mut reading = fake::reading(1);
    feed.step(&reading);
    let mut step = |refused: u64, entries: u64| {
        reading.loops[0].fdb_refused += refused;
        reading.loops[0].fdb_entries = entries;
        feed.step(&reading)
    };
    let start = step(3, 16384);
    assert_eq!(names(&start), ["fdb_refused/start"]);
    assert_eq!((&start[0]["frames"], &start[0]["capacity"]), (&json!(3), &json!(16384)));
    assert!(start[0]["remedy"].as_str().unwrap().starts_with("raise [fdb] capacity"));
    let told: Vec<_> = (0..30).flat_map(|_| step(1, 16384)).collect();
    assert!(told.len() > 1 && names(&told).iter().all(|name| name == "fdb_refused/update"), "{told:?}");
    // Now and then one.
    let told: Vec<_> = (0..60).flat_map(|n| step(u64::from(n % 7 == 0), 16384)).collect();
    assert!(told.len() > 1 && names(&told).iter().all(|name| name == "fdb_refused/update"), "{told:?}");
    let told: Vec<_> = (0..60).flat_map(|_| step(0, 16384)).collect();
    assert_eq!(names(&told).last().map(String::as_str), Some("fdb_refused/end"));
    assert_eq!(told.last().unwrap()["frames"], json!(33 + 9));
    assert!(step(0, 16384).is_empty());
    assert!(step(1, 9)[0]["remedy"].as_str().unwrap().contains("learn_limit"));
}

/// `loop_moves` and `loop_time`.
#[test]
fn how_many_moves_for_how_long_are_a_loop_is_configured() {
    let run = |moves: u64, ms: u64| {
        let mut feed = Feed::new();
        let mut info = fake::info();
        info.loop_alarm = LoopAlarm { moves, time: ms * 1_000_000 };
        feed.sampler = Sampler::new(info);
        let mut reading = fake::reading(1);
        feed.step(&reading);
        let mut step = |moves: u64| {
            reading.loops[0].fdb_moved += moves;
            names(&feed.step(&reading)).iter().any(|name| name == "loop/alarm")
        };
        (0..20).position(|_| step(50))
    };
    assert_eq!(run(20, 300), Some(2));
    assert_eq!((run(50, 100), run(50, 450), run(51, 100), run(0, 100)), (Some(0), Some(4), None, None));
}

#[test]
fn links_and_storms() {
    let mut feed = Feed::new();
    let mut reading = fake::reading(1);
    feed.step(&reading);
    reading.ports[1].link = Some(Link { up: false, mbps: None });
    reading.ports[0].gauges.storms_detected[3] = 1;
    let events = feed.step(&reading);
    assert_eq!(names(&events), ["storm/detected", "link/down"]);
    assert_eq!((&events[0]["port"], &events[0]["priority"]), (&json!("p0"), &json!(3)));
    reading.ports[0].gauges.storms_restored[3] = 1;
    assert_eq!(names(&feed.step(&reading)), ["storm/restored"]);
}

#[test]
fn h5_a_storm_is_told_with_its_evidence() {
    for (dropping, forwarding, action) in [(1 << 3, 0, "drop"), (0, 1 << 3, "forward"), (0, 0, "alert")] {
        let mut feed = Feed::new();
        let mut reading = fake::reading(1);
        feed.step(&reading);
        let g = &mut reading.ports[1].gauges;
        (g.storms_detected[3], g.stormed_queues, g.storm_dropping, g.storm_forwarding) =
            (1, 1 << 3, dropping, forwarding);
        (g.storm_backlog[3], g.storm_stalled_ns[3]) = (45_000, 200_000_001);
        let event = &feed.step(&reading)[0];
        let want = json!({
            "id": event["id"], "unix_ms": 200, "event": "storm", "phase": "detected", "port": "p\"1\\",
            "priority": 3, "storms": 1, "action": action, "backlog_bytes": 45_000, "stalled_ns": 200_000_001,
        });
        assert_eq!(event, &want);
        let g = &mut reading.ports[1].gauges;
        (g.storms_restored[3], g.stormed_queues, g.storm_dropping, g.storm_forwarding) = (1, 0, 0, 0);
        (g.storm_last_tx_ok[3], g.storm_last_tx_drop[3]) = (1, 2);
        (g.storm_last_rx_ok[3], g.storm_last_rx_drop[3]) = (3, 4);
        let event = &feed.step(&reading)[0];
        let frames = ["tx_ok", "tx_drop", "rx_ok", "rx_drop"].map(|key| event[key].as_u64());
        assert_eq!(
            (names(std::slice::from_ref(event)), frames),
            (vec!["storm/restored".into()], [1, 2, 3, 4].map(Some))
        );
    }
}

#[test]
fn pauses_that_toggle_are_one_episode() {
    let mut feed = Feed::new();
    let mut reading = fake::reading(1);
    feed.step(&reading);
    let mut all = Vec::new();
    for _ in 0..15 {
        reading.ports[0].gauges.tx_pauses[3] += 40;
        reading.ports[0].gauges.tx_paused_ns[3] += 10_000_000;
        all.extend(feed.step(&reading));
    }
    assert_eq!(names(&all), ["xoff/start", "xoff/update"]);
    let end = feed.step(&reading);
    assert_eq!(names(&end), ["xon/end"]);
    assert_eq!((&end[0]["pauses"], &end[0]["paused_ns"]), (&json!(600), &json!(150_000_000)));
    assert_eq!((&end[0]["direction"], &end[0]["since_unix_ms"]), (&json!("tx"), &json!(200)));
    assert!(feed.step(&reading).is_empty());
}

/// Nothing is published while the worker is off its core; a pause that was there then lasts.
#[test]
fn a_pause_lasts_while_its_worker_does_not_run() {
    let mut feed = Feed::new();
    let mut reading = fake::reading(1);
    reading.ports[1].gauges.paused_queues = 0;
    feed.step(&reading);
    let port = &mut reading.ports[1].gauges;
    (port.rx_pauses[3], port.paused_queues) = (port.rx_pauses[3] + 1, 1 << 3);
    assert_eq!(names(&feed.step(&reading)), ["xoff/start"]);
    for _ in 0..3 {
        assert!(feed.step(&reading).is_empty());
        reading.ports[1].gauges.rx_paused_ns[3] += 200_000_000;
        assert!(feed.step(&reading).is_empty());
    }
    reading.ports[1].gauges.paused_queues = 0;
    let end = feed.step(&reading);
    assert_eq!(names(&end), ["xon/end"]);
    assert_eq!((&end[0]["pauses"], &end[0]["paused_ns"]), (&json!(1), &json!(600_000_000)));
}

#[test]
fn a_burst_starts_updates_ends_with_hysteresis() {
    let mut feed = Feed::new();
    let mut reading = fake::reading(1);
    feed.step(&reading);
    let mut at = |depth: u64| {
        reading.ports[0].gauges.queue_bytes[3] = depth;
        let peak = &mut reading.ports[0].gauges.queue_peak[3];
        *peak = depth.max(*peak);
        feed.step(&reading)
    };
    assert_eq!(names(&at(50_000)), ["burst/start"]);
    for _ in 0..9 {
        assert!(at(30_000).is_empty(), "below Kmax, above half of it");
    }
    let update = at(60_000);
    assert_eq!((names(&update), &update[0]["peak_bytes"]), (vec!["burst/update".into()], &json!(60_000)));
    assert_eq!(names(&at(1_000)), ["burst/end"]);
}

#[test]
fn a_burst_between_two_samples_is_seen_by_its_record() {
    let mut feed = Feed::new();
    let mut reading = fake::reading(1);
    feed.step(&reading);
    reading.ports[0].gauges.queue_bytes[3] = 0;
    reading.ports[0].gauges.queue_peak[3] = 90_000;
    let events = feed.step(&reading);
    assert_eq!(names(&events), ["burst/start", "burst/end"]);
    assert_eq!(events[0]["peak_bytes"], json!(90_000));
    assert!(feed.step(&reading).is_empty());
}

#[test]
fn loss_is_an_episode_and_an_alarm_once_a_lossless_frame_is_lost() {
    let mut feed = Feed::new();
    let mut reading = fake::reading(1);
    feed.step(&reading);
    let mut lose = |reason: DropReason, lossless: u64| {
        let stats = &mut reading.ports[0].stats;
        stats.drops.0[reason as usize] += 5;
        stats.lossless.0[reason as usize] += lossless;
        let events = feed.step(&reading);
        let end: Vec<_> = (0..20).flat_map(|_| feed.step(&reading)).collect();
        assert_eq!((names(&end), &end[0]["frames"]), (vec!["drops/end".into()], &json!(5)));
        assert_eq!(end[0]["lossless"], json!(lossless));
        events
    };
    // What counts is the class of the frame, whatever the reason.
    for reason in [DropReason::IngressHeadroom, DropReason::IngressNoSlot, DropReason::EgressPortDown] {
        let first = lose(reason, 3);
        assert_eq!((names(&first), &first[0]["frames"]), (vec!["drops/alarm".into()], &json!(5)));
        assert_eq!((&first[0]["reason"], &first[0]["lossless"]), (&json!(reason.name()), &json!(3)));
        assert_eq!(names(&lose(reason, 0)), ["drops/start"]);
    }
    // What the watchdog drops is told, and told apart.
    let watchdog = lose(DropReason::WatchdogDrop, 5);
    assert_eq!((names(&watchdog), &watchdog[0]["lossless"]), (vec!["drops/start".into()], &json!(5)));
    let mut again = |lossless: u64| {
        let stats = &mut reading.ports[0].stats;
        stats.drops.0[DropReason::EgressQueueFull as usize] += 5;
        stats.lossless.0[DropReason::EgressQueueFull as usize] += lossless;
        feed.step(&reading)
    };
    let told = [again(0), again(0), again(1), again(1)].map(|e| names(&e).join(" "));
    assert_eq!(told, ["drops/start", "", "drops/alarm", ""]);
    // However long it lasts: once a second, with all that was lost since the start.
    let all: Vec<_> = (0..50).flat_map(|_| again(1)).collect();
    assert_eq!(names(&all), ["drops/update"; 5]);
    let last = all.last().unwrap();
    assert_eq!((&last["frames"], &last["lossless"]), (&json!(5 * 53), &json!(51)));
    // An episode of its own when it is over.
    let end: Vec<_> = (0..20).flat_map(|_| feed.step(&reading)).collect();
    assert_eq!(
        (names(&end).last().unwrap().as_str(), &end.last().unwrap()["frames"]),
        ("drops/end", &json!(5 * 54))
    );
    assert!(end.len() <= 2, "{end:?}");
    reading.ports[0].stats.drops.0[DropReason::EgressQueueFull as usize] += 1;
    let begun = feed.step(&reading);
    assert_eq!(
        (names(&begun), &begun[0]["frames"], &begun[0]["lossless"]),
        (vec!["drops/start".into()], &json!(1), &json!(0))
    );
}

#[test]
fn flooding_above_a_limit_is_one_episode_and_lossless_loss_an_alarm_beside_it() {
    let mut feed = Feed::new();
    let mut reading = fake::reading(1);
    feed.step(&reading);
    let mut lose = |frames: u64, lossless: u64| {
        let stats = &mut reading.ports[0].stats;
        stats.drops.0[DropReason::IngressBroadcastLimit as usize] += frames;
        stats.lossless.0[DropReason::IngressBroadcastLimit as usize] += lossless;
        feed.step(&reading)
    };
    let start = lose(5, 0);
    assert_eq!(names(&start), ["rate_limit/start"]);
    let fields = ["port", "kind", "limit"].map(|key| start[0][key].as_str());
    assert_eq!(fields, [Some("p0"), Some("broadcast"), Some("5Kpps")]);
    assert!(start[0]["remedy"].as_str().is_some_and(|remedy| remedy.contains("storm_control")));
    // A second later it says how much that was, although it paused meanwhile.
    let later: Vec<_> = (0..15).flat_map(|n| lose(n % 2, 0)).collect();
    assert_eq!((names(&later), &later[0]["frames"]), (vec!["rate_limit/update".to_owned()], &json!(10)));
    assert_eq!(names(&lose(1, 1)), ["drops/alarm"]);
    let end: Vec<_> = (0..30).flat_map(|_| lose(0, 0)).collect();
    let phases = names(&end);
    assert_eq!(phases.last().map(String::as_str), Some("rate_limit/end"), "{phases:?}");
    assert_eq!(end.last().unwrap()["frames"], json!(13));
    assert_eq!(names(&lose(2, 0)), ["rate_limit/start"]);
}

/// A wall clock that is set back by an hour keeps no event back.
#[test]
fn a_clock_that_is_set_back_silences_nothing() {
    let run = |set_back: i64| {
        let (mut sampler, mut watcher, mut log) =
            (Sampler::new(fake::info()), Watcher::default(), Log::default());
        let mut reading = fake::reading(1);
        for n in 0..40 {
            let unix = 1_700_000_000_000 + n * 100 - if n < 10 { 0 } else { set_back };
            if n != 0 {
                reading.ports[0].gauges.tx_pauses[3] += 1;
            }
            if n % 15 == 8 {
                reading.ports[1].stats.drops.0[DropReason::EgressQueueFull as usize] += 1;
                reading.ports[1].nic.rx_missed += 1;
            }
            reading.ports[0].gauges.queue_bytes[3] = if n % 20 < 15 { 60_000 } else { 0 };
            watcher.observe(&sampler.sample(reading.clone(), unix as u64, n as u64 * 100), &mut log);
        }
        names(&log.after(0).map(|event| event.body.clone()).collect::<Vec<_>>())
    };
    let usual = run(0);
    assert!(usual.contains(&"xoff/update".to_owned()) && usual.contains(&"burst/update".to_owned()));
    assert_eq!(run(3_600_000), usual);
}

#[test]
fn i4_an_overrun_of_the_receive_ring_is_never_silent() {
    for (lossless, begin) in [(1 << 3, "drops/alarm"), (0, "drops/start")] {
        let mut feed = Feed::new();
        let mut info = fake::info();
        info.ports[1].lossless = lossless;
        feed.sampler = Sampler::new(info);
        let mut reading = fake::reading(1);
        // Well after the start of time, so that "never" is long ago.
        (0..20).for_each(|_| drop(feed.step(&reading)));
        let mut all = Vec::new();
        for n in 0..32 {
            if n < 12 {
                let nic = &mut reading.ports[1].nic;
                (nic.rx_missed, nic.rx_no_mbuf) = (nic.rx_missed + 5, nic.rx_no_mbuf + 1);
            }
            all.extend(feed.step(&reading));
        }
        assert_eq!(names(&all), [begin, "drops/update", "drops/update", "drops/end"]);
        assert!(all.iter().all(|e| e["reason"] == "nic.rx_ring" && e["port"] == "p\"1\\"));
        let frames: Vec<_> = all.iter().map(|e| e["frames"].as_u64().unwrap()).collect();
        assert_eq!(frames, [6, 66, 72, 72]);
        // What it took and did not send.
        reading.ports[1].nic.tx_lost += 4;
        let sent = feed.step(&reading);
        assert_eq!(names(&sent), [begin]);
        assert_eq!((&sent[0]["reason"], &sent[0]["frames"]), (&json!("nic.tx"), &json!(4)));
    }
}

#[test]
fn a_pause_names_who_is_to_blame() {
    let mut feed = Feed::new();
    let mut reading = fake::reading(1);
    reading.ports[1].gauges.paused_queues = 0;
    feed.step(&reading);
    reading.ports[0].gauges.tx_pauses[3] += 1;
    let event = &feed.step(&reading)[0];
    assert_eq!((&event["direction"], &event["cause"]), (&json!("tx"), &json!("queue")));
    assert_eq!((&event["cause_port"], &event["cause_queue"]), (&json!("p\"1\\"), &json!(3)));
}

#[test]
fn addresses_that_move_and_phases_that_pass() {
    let mut feed = Feed::new();
    let mut reading = fake::reading(1);
    feed.step(&reading);
    let worker = &mut reading.loops[1];
    (worker.fdb_moved, worker.fdb_move_key, worker.fdb_move_to) = (3, 1 << 60 | 5 << 48 | 0x02_00ab, 1);
    let moved = feed.step(&reading);
    assert_eq!((names(&moved), &moved[0]["moves"]), (vec!["fdb/moved".into()], &json!(3)));
    assert_eq!((&moved[0]["from"], &moved[0]["port"]), (&json!("p0"), &json!("p\"1\\")));
    assert_eq!((&moved[0]["address"], &moved[0]["vlan"]), (&json!("00:00:00:02:00:ab"), &json!(5)));
    assert_eq!(moved[0]["lcore"], json!(2));
    reading.phase = crate::snapshot::Phase::Drain;
    assert_eq!(names(&feed.step(&reading)), ["switch/draining"]);
}

#[test]
fn lost_count_is_an_alarm() {
    let mut feed = Feed::new();
    let mut reading = fake::reading(1);
    feed.step(&reading);
    reading.loops[0].received += 1;
    assert_eq!(names(&feed.step(&reading)), ["conservation/alarm"]);
    assert!(feed.step(&reading).is_empty());
}

#[test]
fn the_log_is_bounded_and_resumable() {
    let mut log = Log::default();
    for _ in 0..KEPT + 10 {
        log.push(Map::new());
    }
    assert_eq!(log.after(0).count(), KEPT);
    assert_eq!(
        log.after(log.last() - 3).map(|e| e.id).collect::<Vec<_>>(),
        [KEPT as u64 + 8, KEPT as u64 + 9, KEPT as u64 + 10]
    );
    assert_eq!(log.after(u64::MAX).count(), 0);
}
