use super::*;
use crate::controller::topology::{Topology, TopologyError};
use crate::spec::Range;

/// Two leaves with engines, a spine with one, two hosts on each leaf.
const TWO_LEAVES: &str = r#"
[[switch]]
name = "leaf0"
api = "127.0.0.1:1"
engine = { mac = "02:00:00:00:01:00", ip = "10.0.1.0", port = "inc0" }
[[switch]]
name = "leaf1"
api = "127.0.0.1:2"
engine = { mac = "02:00:00:00:01:01", ip = "10.0.1.1" }
[[switch]]
name = "spine"
api = "127.0.0.1:3"
engine = { mac = "02:00:00:00:01:02", ip = "10.0.1.2" }
[[host]]
name = "h0"
ip = "10.0.0.0"
switch = "leaf0"
[[host]]
name = "h1"
ip = "10.0.0.1"
switch = "leaf0"
[[host]]
name = "h2"
ip = "10.0.0.2"
mac = "02:00:00:00:00:02"
switch = "leaf1"
[[host]]
name = "h3"
ip = "10.0.0.3"
switch = "leaf1"
[[link]]
a = "leaf0"
b = "spine"
[[link]]
a = "leaf1"
b = "spine"
"#;

const LEAF0: usize = 4;
const LEAF1: usize = 5;
const SPINE: usize = 6;

fn map() -> Map {
    toml::from_str::<Topology>(TWO_LEAVES).unwrap().map().unwrap()
}

fn desk() -> Desk {
    Desk::new(map(), "s3cret".into(), Saved::default(), 1, 0)
}

fn join(host: u16, index: u16) -> Join {
    serde_json::from_value(serde_json::json!({
        "token": "s3cret", "job": "train", "hosts": 4, "index": index, "ip": format!("10.0.0.{host}"),
        "mac": format!("02:00:00:00:00:0{host}"), "qpn": 17 + host,
        "operation": { "kind": "all_reduce", "operator": "sum", "type": "f32" }, "mtu": 1024, "window": 64,
    }))
    .unwrap()
}

fn say(desk: &mut Desk, connection: Connection, join: Join) -> Vec<Action> {
    desk.handle(Event::Said(connection, Box::new(Request::Join(Box::new(join)))), 0)
}

fn refusal(actions: &[Action]) -> &str {
    match actions {
        [Action::Say(_, Answer::Refused { why }), Action::HangUp(_)] => why,
        other => panic!("{other:?}"),
    }
}

fn posts(actions: &[Action]) -> Vec<(usize, &JobSpec)> {
    let post = |action| match action {
        &Action::Post(switch, ref spec) => Some((switch, &**spec)),
        _ => None,
    };
    actions.iter().filter_map(post).collect()
}

fn ends(actions: &[Action]) -> Vec<(usize, u32)> {
    let end = |action: &Action| match action {
        Action::End(switch, id, _) => Some((*switch, *id)),
        _ => None,
    };
    actions.iter().filter_map(end).collect()
}

fn told(actions: &[Action]) -> Vec<(Connection, &Answer)> {
    let said = |action| match action {
        &Action::Say(to, ref answer) => Some((to, answer)),
        _ => None,
    };
    actions.iter().filter_map(said).collect()
}

/// All four have come, in another order than that of their indices; all switches have taken the job.
fn running() -> (Desk, Vec<Seat>) {
    let mut desk = desk();
    for (connection, index) in [(11, 1), (13, 3), (12, 2)] {
        assert!(say(&mut desk, connection, join(index, index)).is_empty());
    }
    let begun = say(&mut desk, 10, join(0, 0));
    let switches: Vec<usize> = posts(&begun).iter().map(|(switch, _)| *switch).collect();
    assert_eq!(switches, [SPINE, LEAF0, LEAF1]);
    assert!(
        begun.iter().position(|a| *a == Action::Save)
            < begun.iter().position(|a| matches!(a, Action::Post(..)))
    );
    assert!(desk.handle(Event::Posted(LEAF0, 1, Ok(())), 1).is_empty());
    assert!(desk.handle(Event::Posted(SPINE, 1, Ok(())), 1).is_empty());
    let seated = desk.handle(Event::Posted(LEAF1, 1, Ok(())), 1);
    let mut seats = Vec::new();
    for (to, answer) in told(&seated) {
        let Answer::Seat(seat) = answer else { panic!("{answer:?}") };
        seats.push((to, (**seat).clone()));
    }
    let to: Vec<Connection> = seats.iter().map(|(to, _)| *to).collect();
    assert_eq!(to, [10, 11, 12, 13]);
    (desk, seats.into_iter().map(|(_, seat)| seat).collect())
}

fn shown(desk: &mut Desk, switch: usize, states: &[(u32, Option<&str>)], now: u64) -> Vec<Action> {
    let state = |(id, failed): &(u32, Option<&str>)| JobState {
        id: *id,
        failed: failed.map(str::to_owned),
        qpns: Vec::new(),
    };
    desk.handle(Event::Jobs(switch, Ok(states.iter().map(state).collect())), now)
}

#[test]
fn hosts_that_have_all_come_are_seated_when_switches_have_taken_the_job() {
    let (desk, seats) = running();
    let ranks: Vec<u16> = seats.iter().map(|seat| seat.rank).collect();
    assert_eq!((ranks, &seats[0].order), (vec![0, 1, 2, 3], &vec![0, 1, 2, 3]));
    assert_eq!(serde_json::to_string(&seats[0].tree).unwrap(), "[[0,1],[2,3]]");
    assert_eq!((seats[2].mac.as_str(), seats[2].ranks), ("02:00:00:00:01:01", 4));
    // What an engine is told is what its hosts are told, and an engine takes it.
    let job = &desk.jobs[&1];
    let (_, leaf1) = &job.engines[2];
    let child = &leaf1.children[0];
    assert_eq!((child.peer.qpn, child.peer.send_psn), (seats[2].qpn, seats[2].recv_psn));
    assert_eq!((child.peer.dest_qpn, child.rank), (19, 2));
    for (switch, spec) in &job.engines {
        let engine = desk.map.engines[&desk.node(switch).unwrap()][0].end.address;
        let address = crate::spec::Address { mac: engine.0, ip: engine.1, vlan: None };
        let params = spec.params(&address).unwrap();
        assert_eq!(JobSpec::of(&params, spec.port.clone()), *spec);
        crate::engine::Engine::new(crate::engine::EngineParams::default()).add(params).unwrap();
    }
    assert_eq!(job.engines[1].1.port.as_deref(), Some("inc0"));
}

#[test]
fn who_may_not_join_is_told_why() {
    let mut desk = desk();
    say(&mut desk, 1, join(0, 0));
    for (what, change) in [
        ("the token is wrong", (|j| j.token = "s3cre".into()) as fn(&mut Join)),
        ("the token is wrong", |j| j.token = String::new()),
        ("no host of the topology has the address 10.9.9.9", |j| j.ip = [10, 9, 9, 9].into()),
        ("has a host with index 0 already", |j| j.index = 0),
        ("host `h0` takes part in job `train` already", |j| j.ip = [10, 0, 0, 0].into()),
        ("do not agree on `hosts`", |j| j.hosts = 3),
        ("do not agree on `mtu`", |j| j.mtu = 256),
        ("do not agree on `operation`", |j| j.operation.operator = Some(crate::kernels::Operator::Max)),
        ("do not agree on `psn`", |j| j.psn = Some(0)),
        ("patience_ns is 0", |j| j.patience_ns = Some(0)),
        ("psn is 0x1000000", |j| j.psn = Some(1 << 24)),
        ("index is 4 of 4 hosts", |j| j.index = 4),
        ("qpn is 0x1000000", |j| j.qpn = 1 << 24),
        ("qpn is 0x1;", |j| j.qpn = 1),
        ("mac is ff:ff:ff:ff:ff:ff", |j| j.mac = "ff:ff:ff:ff:ff:ff".into()),
        ("a name of 1 to 128 bytes", |j| j.job = String::new()),
        ("without control characters", |j| j.job = "train\njob 9 (`x`) failed".into()),
        ("is of 5 hosts, the topology has 4", |j| j.hosts = 5),
        ("deadline_ns goes with", |j| j.straggler = Policy::Abort),
        ("`operator` is missing", |j| j.operation.operator = None),
        ("is not a MAC", |j| j.mac = "x".into()),
    ] {
        let mut other = join(1, 1);
        change(&mut other);
        let said = say(&mut desk, 2, other);
        assert!(refusal(&said).contains(what), "{said:?} should say {what}");
    }
    let mut third = join(2, 2);
    third.mac = "02:00:00:00:00:77".into();
    let said = say(&mut desk, 3, third);
    assert!(refusal(&said).contains("host `h2` has the MAC address"), "{said:?}");
    // Who goes away before all have come can come again.
    desk.handle(Event::Closed(1), 0);
    assert!(say(&mut desk, 4, join(0, 0)).is_empty());
}

#[test]
fn hosts_that_know_their_first_psn_get_it() {
    let mut desk = desk();
    for index in 0..2 {
        say(&mut desk, u64::from(index), Join { hosts: 2, psn: Some(7), ..join(index, index) });
    }
    let seated = desk.handle(Event::Posted(LEAF0, 1, Ok(())), 0);
    assert_eq!(told(&seated).len(), 2);
    for (_, answer) in told(&seated) {
        let Answer::Seat(seat) = answer else { panic!("{answer:?}") };
        assert_eq!((seat.send_psn, seat.recv_psn), (7, 7));
    }
}

#[test]
fn engines_are_as_patient_as_the_most_patient_host() {
    for (said, patience) in [([Some(5), Some(30)], 30_000), ([None, Some(1)], 1_000), ([None, None], 0)] {
        let mut desk = desk();
        let of = |s: u64| s * 1_000_000_000;
        say(&mut desk, 1, Join { hosts: 2, patience_ns: said[0].map(of), ..join(0, 0) });
        let begun = say(&mut desk, 2, Join { hosts: 2, patience_ns: said[1].map(of), ..join(1, 1) });
        let address = crate::spec::Address { mac: Mac([2; 6]), ip: [10, 0, 1, 0].into(), vlan: None };
        let params = posts(&begun)[0].1.params(&address).unwrap();
        let usual = JobParams::new(1, 2, params.operation);
        if patience == 0 {
            assert_eq!((params.patience, params.retries), (usual.patience, usual.retries));
            continue;
        }
        let patience = patience * 1_000_000;
        assert_eq!(params.patience, patience);
        // Neither timer ends before it, by more than one of its turns.
        let retries = u64::from(params.retries);
        assert!((retries + 1) * params.ack_timeout >= patience, "{params:?}");
        assert!((retries + 2) * params.probe_after >= patience, "{params:?}");
        assert!(params.ack_timeout >= usual.ack_timeout && params.probe_after >= usual.probe_after);
    }
}

#[test]
fn a_job_that_no_engine_can_take_is_refused_to_all() {
    let mut desk = desk();
    let operation: crate::spec::Operation =
        serde_json::from_str(r#"{"kind": "broadcast", "root": 1}"#).unwrap();
    let host = |index| Join { operation, mirror: true, ..join(index, index) };
    for index in 0..3 {
        assert!(say(&mut desk, u64::from(index), host(index)).is_empty());
    }
    let said = say(&mut desk, 3, host(3));
    assert_eq!(told(&said).len(), 4);
    let why = "which AllReduce alone has for each";
    assert!(matches!(told(&said)[0].1, Answer::Refused { why: told } if told.contains(why)), "{said:?}");
    // What one of them shows by itself is said at once.
    for (wrong, why) in
        [(Join { window: 5, ..join(0, 0) }, "window is 5"), (Join { mtu: 1500, ..join(0, 0) }, "1500")]
    {
        let said = say(&mut desk, 0, wrong);
        assert!(refusal(&said).contains(why), "{said:?}");
    }
    assert!(
        desk.map.engines.values().flatten().all(|engine| engine.end.used.is_empty()),
        "numbers are free again"
    );
    // A switch refuses: the others forget, hosts may try again.
    for index in 0..4 {
        say(&mut desk, u64::from(index), join(index, index));
    }
    desk.handle(Event::Posted(LEAF0, 1, Ok(())), 0);
    let said = desk.handle(Event::Posted(SPINE, 1, Err(NotTaken::Refused("no memory".into()))), 0);
    assert!(
        told(&said).iter().all(|(_, a)| **a == Answer::Refused { why: "switch `spine`: no memory".into() })
    );
    assert_eq!(ends(&said), [(LEAF0, 1), (LEAF1, 1)], "what is job 1 at the spine is another's");
    assert!(desk.endings.iter().all(|ending| ending.switch != "spine"));
    assert!(desk.map.engines[&SPINE][0].end.used.is_empty());
    assert!(!desk.map.engines[&LEAF0][0].end.used.is_empty(), "until the switch has forgotten it");
    desk.handle(Event::Ended(LEAF0, 1, Ok(None)), 0);
    assert!(desk.map.engines[&LEAF0][0].end.used.is_empty());
    for index in 0..4 {
        say(&mut desk, u64::from(index), join(index, index));
    }
    assert!(desk.jobs.contains_key(&2));
    // Who does not answer may have taken it.
    let said = desk.handle(Event::Posted(SPINE, 2, Err(NotTaken::Silent("no answer".into()))), 0);
    assert_eq!(ends(&said), [(SPINE, 2), (LEAF0, 2), (LEAF1, 2)]);
}

#[test]
fn jobs_of_a_dead_switch_fail_and_others_go_on() {
    let (mut desk, _) = running();
    // Another job, on leaf 0 alone.
    let alone =
        |host: u16| Join { job: "small".into(), hosts: 2, qpn: 99 + u32::from(host), ..join(host, host) };
    say(&mut desk, 20, alone(0));
    assert_eq!(posts(&say(&mut desk, 21, alone(1))).len(), 1);
    desk.handle(Event::Posted(LEAF0, 2, Ok(())), 2);
    for _ in 1..MISSES {
        assert!(desk.handle(Event::Jobs(SPINE, Err("refused".into())), 3).is_empty());
    }
    let said = desk.handle(Event::Jobs(SPINE, Err("refused".into())), 3);
    let failed = Answer::Failed { why: "switch `spine` does not answer: refused".into() };
    let told: Vec<_> = told(&said);
    assert_eq!(told.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [10, 11, 12, 13]);
    assert!(told.iter().all(|(_, answer)| **answer == failed), "{told:?}");
    assert_eq!(ends(&said), [(SPINE, 1), (LEAF0, 1), (LEAF1, 1)]);
    assert!(shown(&mut desk, LEAF0, &[(1, None), (2, None)], 4).is_empty(), "job 2 goes on");
    // The order is given again until the switch, started anew, has not got the job.
    let again = desk.tick(AGAIN_MS + 3);
    assert_eq!(ends(&again).len(), 3);
    let gone = shown(&mut desk, SPINE, &[], 5);
    assert!(gone.contains(&Action::Save) && desk.map.engines[&SPINE][0].end.used.is_empty());
}

#[test]
fn a_switch_that_was_started_anew_has_lost_its_jobs() {
    let (mut desk, _) = running();
    assert!(
        shown(&mut desk, LEAF1, &[(1, None), (77, None)], 2).is_empty(),
        "jobs of others are not touched"
    );
    // What it shows may be from before it took the job.
    for _ in 1..MISSES {
        assert!(shown(&mut desk, LEAF1, &[], 3).is_empty());
    }
    assert!(shown(&mut desk, LEAF1, &[(1, None)], 3).is_empty());
    for _ in 1..MISSES {
        assert!(shown(&mut desk, LEAF1, &[], 3).is_empty());
    }
    let said = shown(&mut desk, LEAF1, &[(77, None)], 3);
    assert!(matches!(told(&said)[3].1, Answer::Failed { why } if why.contains("`leaf1` has lost the job")));
    assert!(!ends(&said).iter().any(|(_, id)| *id == 77));
    let (mut desk, _) = running();
    let said = shown(&mut desk, LEAF1, &[(1, Some("straggler, rank 2"))], 3);
    assert!(matches!(told(&said)[0].1, Answer::Failed { why } if why == "switch `leaf1`: straggler, rank 2"));
}

#[test]
fn a_job_ends_when_all_have_left_or_one_has_gone() {
    let (mut desk, _) = running();
    for connection in 10..13 {
        let said = desk.handle(Event::Said(connection, Box::new(Request::Leave {})), 5);
        assert!(ends(&said).is_empty());
        desk.handle(Event::Closed(connection), 5);
    }
    let said = desk.handle(Event::Said(13, Box::new(Request::Leave {})), 5);
    assert_eq!(ends(&said).len(), 3);
    assert!(told(&said).is_empty());
    let (mut desk, _) = running();
    desk.handle(Event::Closed(12), 100);
    assert!(told(&desk.tick(100 + AWAY_MS - 1)).is_empty());
    let said = desk.tick(100 + AWAY_MS);
    assert!(
        matches!(told(&said)[0].1, Answer::Failed { why } if why == "host 2 (`h2`) has gone"),
        "{said:?}"
    );
    assert_eq!(told(&said).len(), 3);
}

#[test]
fn a_desk_that_was_closed_goes_on_where_it_was() {
    let (mut desk, _) = running();
    desk.handle(Event::Said(10, Box::new(Request::Leave {})), 5);
    let text = serde_json::to_string(&desk.save()).unwrap();
    let mut desk = Desk::new(map(), "s3cret".into(), serde_json::from_str(&text).unwrap(), 1, 1000);
    assert_eq!(desk.map.engines[&LEAF0][0].end.used.len(), 3, "two children and a parent");
    let resume = |token: &str, id, index| Request::Resume(Resume { token: token.into(), id, index });
    let said = desk.handle(Event::Said(1, Box::new(resume("wrong", 1, 1))), 1000);
    assert!(refusal(&said).contains("token"));
    let said = desk.handle(Event::Said(2, Box::new(resume("s3cret", 8, 1))), 1000);
    assert!(matches!(told(&said)[0].1, Answer::Failed { why } if why == "job 8 has ended"));
    let said = desk.handle(Event::Said(2, Box::new(resume("s3cret", 1, 9))), 1000);
    assert!(matches!(told(&said)[0].1, Answer::Failed { why } if why == "job 1 has no host with index 9"));
    let said = desk.handle(Event::Said(3, Box::new(Request::Leave {})), 1000);
    assert!(refusal(&said).contains("neither joined nor resumed"));
    for index in 1..4 {
        let said =
            desk.handle(Event::Said(30 + u64::from(index), Box::new(resume("s3cret", 1, index))), 1000);
        assert_eq!(told(&said), [(30 + u64::from(index), &Answer::Resumed {})]);
    }
    assert!(ends(&desk.tick(1000 + AWAY_MS)).is_empty(), "who has left is not waited for");
    for connection in 31..34 {
        desk.handle(Event::Said(connection, Box::new(Request::Leave {})), 2000);
    }
    assert!(desk.jobs.is_empty() && desk.endings.len() == 3);
    // Numbers of a job go on from where they were.
    for index in 0..4 {
        say(&mut desk, 50 + u64::from(index), join(index, index));
    }
    assert!(desk.jobs.contains_key(&2));
    // A job that was being posted is none: its switches forget it.
    let saved = desk.save();
    assert!(saved.jobs.is_empty() && saved.endings.len() == 6);
    let mut desk = Desk::new(map(), "s3cret".into(), saved, 1, 9000);
    assert_eq!(ends(&desk.tick(9000)).len(), 6);
}

#[test]
fn the_topology_of_the_documentation_is_one() {
    let docs = include_str!("../../../../docs/inc.md");
    let (_, rest) = docs.split_once("```text\n[[switch]]").unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    let map = toml::from_str::<Topology>(&format!("[[switch]]{block}")).unwrap().map().unwrap();
    assert_eq!((map.hosts.len(), map.engines.len(), map.fabric.links.len()), (2, 1, 3));
}

#[test]
fn a_topology_that_cannot_be_is_refused() {
    let refused = |from: &str, to: &str| {
        let text = TWO_LEAVES.replacen(from, to, 1);
        assert_ne!(text, TWO_LEAVES);
        toml::from_str::<Topology>(&text).unwrap().map().unwrap_err()
    };
    assert_eq!(refused("\"h1\"", "\"h0\""), TopologyError::Twice("h0".into()));
    assert_eq!(refused("10.0.0.1", "10.0.0.0"), TopologyError::Twice("10.0.0.0".into()));
    assert_eq!(
        refused("b = \"spine\"", "b = \"x\""),
        TopologyError::NoSwitch("link leaf0 - x".into(), "x".into())
    );
    let itself = refused("b = \"spine\"", "b = \"leaf0\"");
    assert_eq!(itself, TopologyError::Itself("leaf0".into()));
    assert_eq!(refused("api = \"127.0.0.1:3\"", ""), TopologyError::NoApi("spine".into()));
    assert!(refused("02:00:00:00:01:02", "02").to_string().starts_with("`spine`: "));
    // Addresses of engines are nobody else's either.
    let twice = |from: &str, to: &str| matches!(refused(from, to), TopologyError::Twice(_));
    assert!(twice("02:00:00:00:01:01", "02:00:00:00:01:00"));
    assert!(twice("10.0.1.1", "10.0.1.0") && twice("10.0.1.1", "10.0.0.3"));
    assert!(twice("\"02:00:00:00:00:02\"", "\"02:00:00:00:01:00\""));
    for (from, to) in [
        ("02:00:00:00:01:01", "ff:ff:ff:ff:ff:ff"),
        ("02:00:00:00:00:02", "00:00:00:00:00:00"),
        ("10.0.1.1", "0.0.0.0"),
        ("10.0.0.3", "224.0.0.1"),
    ] {
        assert!(matches!(refused(from, to), TopologyError::Nobody(_, text) if text == to), "{to}");
    }
    for numbers in ["first_qpn = 1", "qpns = 0", "first_qpn = 0xffffff", "qpns = 4294967295"] {
        let error = refused("port = \"inc0\"", numbers);
        assert!(matches!(error, TopologyError::Numbers(..)), "{numbers}: {error}");
    }
    assert_eq!(refused(", port = \"inc0\"", ", fan_in = 65"), TopologyError::FanIn("leaf0".into(), 65));
    let engine = "engine = { mac = \"02:00:00:00:01:01\", ip = \"10.0.1.1\" }";
    let two = |port: &str| {
        let other = "{ port = \"inc1\", mac = \"02:00:00:00:01:09\", ip = \"10.0.1.9\" }";
        refused(
            engine,
            &format!("engine = [{{ mac = \"02:00:00:00:01:01\", ip = \"10.0.1.1\"{port} }}, {other}]"),
        )
    };
    assert_eq!(two(""), TopologyError::Port("leaf1".into()));
    assert_eq!(two(", port = \"inc1\""), TopologyError::Port("leaf1".into()));
    let text = TWO_LEAVES.replacen(engine, "engine = 7", 1);
    let error = toml::from_str::<Topology>(&text).unwrap_err().to_string();
    assert!(error.contains("expected an engine, { mac = ..., ip = ... }, or a list of them"), "{error}");
}

#[test]
fn hosts_and_their_engines_are_told_of_the_same_memory() {
    let mut desk = desk();
    let own = Range { addr: 0x5000, rkey: 7, bytes: 65_536 };
    say(&mut desk, 10, Join { write: true, ..join(0, 0) });
    say(&mut desk, 11, Join { write: true, results_to: Some(own), ..join(1, 1) });
    say(&mut desk, 12, Join { mirror: true, ..join(2, 2) });
    let begun = say(&mut desk, 13, join(3, 3));
    let posts = posts(&begun);
    let hosts: Vec<_> =
        posts.iter().flat_map(|(_, spec)| &spec.children).filter(|c| !c.engine).cloned().collect();
    let engines = posts.iter().flat_map(|(_, spec)| &spec.children).filter(|c| c.engine);
    assert!(engines.into_iter().all(|c| c.write.is_none() && c.results_to.is_none() && !c.mirror));
    let (id, switches) = (posts[0].1.id, posts.iter().map(|(switch, _)| *switch).collect::<Vec<_>>());
    let mut seated = Vec::new();
    for switch in switches {
        seated.extend(desk.handle(Event::Posted(switch, id, Ok(())), 0));
    }
    let seats = told(&seated);
    let of = |n: usize| {
        let Answer::Seat(seat) = seats[n].1 else { panic!("{seated:?}") };
        let child = hosts.iter().find(|child| child.rank == seat.rank).unwrap();
        (seat.memory, child.write, child.results_to, child.mirror)
    };
    let shown = of(0).0.unwrap();
    assert_eq!(shown.bytes, 64 * 1024, "a window of packets");
    assert_eq!(of(0), (Some(shown), Some(shown), None, false));
    let other = of(1).0.unwrap();
    assert_eq!(of(1), (Some(other), Some(other), Some(own), false));
    assert!(other.rkey != shown.rkey && other.addr != shown.addr);
    assert_eq!((of(2), of(3)), ((None, None, None, true), (None, None, None, false)));
    // No host says so over the wire.
    let text = serde_json::to_string(&Join { mirror: true, ..join(0, 0) }).unwrap();
    assert!(!text.contains("mirror"));
    assert!(serde_json::from_str::<Join>(&text.replacen('{', "{\"mirror\": true,", 1)).is_err());
}

#[test]
fn what_one_host_says_wrong_is_refused_to_it_before_others_have_come() {
    let mut desk = desk();
    let short = Range { addr: 0x5000, rkey: 7, bytes: 1000 };
    let said = say(&mut desk, 10, Join { results_to: Some(short), ..join(0, 0) });
    assert!(refusal(&said).contains("memory for results that is shorter than a packet"), "{said:?}");
    let operation = serde_json::json!({ "kind": "broadcast", "root": 4 });
    let operation = serde_json::from_value(operation).unwrap();
    let said = say(&mut desk, 10, Join { operation, ..join(0, 0) });
    assert!(refusal(&said).contains("the root of the operation is no rank; there are 4"), "{said:?}");
    assert!(say(&mut desk, 10, join(0, 0)).is_empty());
}

#[test]
fn a_queue_pair_of_a_host_has_one_job() {
    let (mut desk, _) = running();
    let again = |host, index, qpn| Join { job: "other".into(), hosts: 2, qpn, ..join(host, index) };
    let said = say(&mut desk, 20, again(0, 0, 17));
    assert!(refusal(&said).contains("queue pair 17 of 10.0.0.0 is one of job `train`"), "{said:?}");
    say(&mut desk, 20, again(0, 0, 117));
    assert_eq!(posts(&say(&mut desk, 21, again(1, 1, 17))).len(), 1, "another host's");
}

#[test]
fn what_switches_have_is_not_given_again() {
    let mut desk = desk();
    let alone = |host, index| Join { hosts: 2, ..join(host, index) };
    let first = desk.map.engines[&LEAF0][0].end.first_qpn;
    let others = JobState { id: 1, failed: None, qpns: vec![first, first + 1] };
    desk.handle(Event::Jobs(LEAF0, Ok(vec![others])), 0);
    desk.handle(Event::Jobs(LEAF1, Ok(vec![JobState { id: 2, failed: None, qpns: vec![] }])), 0);
    say(&mut desk, 10, alone(0, 0));
    let begun = say(&mut desk, 11, alone(1, 1));
    let [(LEAF0, spec)] = posts(&begun)[..] else { panic!("{begun:?}") };
    let qpns: Vec<u32> = spec.children.iter().map(|child| child.peer.qpn).collect();
    assert_eq!((spec.id, qpns), (3, vec![first + 2, first + 3]));
    // Once those have gone their numbers are free.
    shown(&mut desk, LEAF0, &[], 0);
    assert_eq!(desk.map.engines[&LEAF0][0].end.used.len(), 2);
}

#[test]
fn jobs_take_the_engines_of_a_switch_in_turn() {
    let one = "engine = { mac = \"02:00:00:00:01:01\", ip = \"10.0.1.1\" }";
    let engine =
        |n: u8| format!("{{ port = \"inc{n}\", mac = \"02:00:00:00:02:0{n}\", ip = \"10.0.2.{n}\" }}");
    let text = TWO_LEAVES.replacen(one, &format!("engine = [{}, {}]", engine(0), engine(1)), 1);
    assert_ne!(text, TWO_LEAVES);
    let map = toml::from_str::<Topology>(&text).unwrap().map().unwrap();
    let mut desk = Desk::new(map, "s3cret".into(), Saved::default(), 1, 0);
    let begin = |desk: &mut Desk, name: &str, first: Connection| {
        let qpn = first as u32 + 100;
        let host = |host, index| Join { hosts: 2, job: name.into(), qpn, ..join(host, index) };
        say(desk, first, host(2, 0));
        let begun = say(desk, first + 1, host(3, 1));
        let (switch, spec) = posts(&begun)[0];
        assert_eq!(switch, LEAF1);
        let port = spec.port.clone().unwrap();
        let seated = desk.handle(Event::Posted(LEAF1, spec.id, Ok(())), 0);
        let Answer::Seat(seat) = told(&seated)[0].1 else { panic!("{seated:?}") };
        assert_eq!(seat.mac[..16], *"02:00:00:00:02:0");
        (spec.id, port, seat.ip.to_string())
    };
    let first = begin(&mut desk, "a", 10);
    let second = begin(&mut desk, "b", 20);
    assert_eq!((first.1.as_str(), first.2.as_str()), ("inc0", "10.0.2.0"));
    assert_eq!((second.1.as_str(), second.2.as_str()), ("inc1", "10.0.2.1"));
    // The one that has become free is the next one.
    for connection in [10, 11] {
        desk.handle(Event::Said(connection, Box::new(Request::Leave {})), 1);
    }
    let orders = desk.tick(10_000);
    assert!(orders.contains(&Action::End(LEAF1, first.0, Some("inc0".into()))), "{orders:?}");
    desk.handle(Event::Ended(LEAF1, first.0, Ok(None)), 1);
    assert_eq!(begin(&mut desk, "c", 30).1, "inc0");
    // What it knew of engines it knows again.
    let (map, saved) = (desk.map.clone(), desk.save());
    let desk = Desk::new(
        Map {
            engines: map
                .engines
                .into_iter()
                .map(|(node, engines)| (node, engines.into_iter().map(blank).collect()))
                .collect(),
            ..map
        },
        "s3cret".into(),
        saved,
        1,
        0,
    );
    assert_eq!(
        desk.map.engines[&LEAF1].iter().map(|engine| engine.end.used.len()).collect::<Vec<_>>(),
        [2, 2]
    );
}

/// An engine that has no jobs.
fn blank(engine: Engine) -> Engine {
    let end = crate::plan::EngineEnd::new(engine.end.address, engine.end.first_qpn, engine.end.qpns);
    Engine { end, ..engine }
}
