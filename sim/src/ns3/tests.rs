//! Small networks with known answers.
use weir_endpoint::dcqcn::ns3::Params;

use super::config::{BuildError, Config, Control, FlowSpec, Link, Marking, Topology, WindowRule};
use super::flow::AlphaTicks;
use super::record::{RateChange, Recorder};
use super::sim::Sim;

const G: u64 = 1_000_000_000;

fn star(hosts: u32) -> Topology {
    let link = |host| Link { a: host, b: hosts, rate: 100 * G, delay: 1000 };
    Topology { hosts, switches: 1, links: (0..hosts).map(link).collect(), numbers: Vec::new() }
}

fn flow(src: u32, dst: u32) -> FlowSpec {
    FlowSpec { src, dst, dst_port: 100, prio: 3, bytes: 1_000_000, start: 0 }
}

fn config() -> Config {
    Config {
        buffer: 32 << 20,
        reserve: 4096,
        resume_offset: 3072,
        shift: 3,
        nack_interval: super::flow::NACK_INTERVAL,
        marking: Vec::new(),
        control: Control::None,
        controls: Vec::new(),
        window: WindowRule::None,
        global_t: true,
        rate_bound: true,
        payload: 1000,
        epoch: 0,
        ack_gate: 0,
        stop: G,
        seed: 1,
    }
}

fn last_fct(topology: &Topology, flows: &[FlowSpec], config: &Config) -> u64 {
    let mut sim = Sim::new(topology, flows, config, ()).unwrap();
    sim.run();
    sim.flows().iter().map(|flow| flow.finished.unwrap() - flow.spec.start).max().unwrap()
}

#[test]
fn one_flow_takes_its_closed_form() {
    assert_eq!(last_fct(&star(2), &[flow(0, 1)], &config()), 999 * 83 + 2 * (83 + 1000) + 2 * (4 + 1000));
}

#[test]
fn the_last_of_n_flows_does_not_hang_on_the_buffer() {
    for n in [8u32, 16] {
        let flows: Vec<FlowSpec> = (0..n).map(|src| flow(src, n)).collect();
        for mib in [32, 4, 1] {
            let config = Config { buffer: mib << 20, ..config() };
            let expected = 1083 + (1000 * u64::from(n) - 1) * 83 + 1083 + 2008;
            assert_eq!(last_fct(&star(n + 1), &flows, &config), expected, "{n} flows, {mib} MiB");
        }
    }
}

#[test]
fn an_odd_last_frame_is_shorter() {
    let short = FlowSpec { bytes: 1001, ..flow(0, 1) };
    // The 49 B frame (3 ns) leaves the switch behind the full one and arrives 3 ns after it; its ACK
    // waits for the rest of the first one's 4 ns.
    assert_eq!(last_fct(&star(2), &[short], &config()), 2 * (83 + 1000) + 4 + 2 * (4 + 1000));
}

#[derive(Default)]
struct Rates(Vec<RateChange>);

impl Recorder for Rates {
    fn rate_changed(&mut self, change: RateChange) {
        self.0.push(change);
    }
}

/// Alpha caught up when it is needed is the alpha of one event per tick.
#[test]
fn alpha_without_events_is_alpha_with_events() {
    let flows: Vec<FlowSpec> = (0..8).map(|src| flow(src, 8)).collect();
    for delay in [600, 1000] {
        let mut topology = star(9);
        topology.links.iter_mut().for_each(|link| link.delay = delay);
        let config = Config {
            marking: vec![Marking { rate: 100 * G, kmin: 50_000, kmax: 50_000, pmax: 1.0 }],
            control: Control::Dcqcn(Params::default()),
            ..config()
        };
        let run = |ticks: Option<AlphaTicks>| {
            let mut sim = Sim::new(&topology, &flows, &config, Rates::default()).unwrap();
            for host in &mut sim.hosts {
                host.ticks = ticks.unwrap_or(host.ticks);
            }
            sim.run();
            (sim.events(), sim.recorder().0.clone())
        };
        let (few, lazy) = run(None);
        let (many, eager) = run(Some(AlphaTicks::Events));
        assert!(lazy.len() > 100 && lazy == eager, "delay {delay}");
        assert!(few < many);
    }
}

/// Two leaves and two spines: flows spread over both spines, and each keeps to its own.
#[test]
fn equal_paths_are_shared_by_flows() {
    let mut links: Vec<Link> =
        (0..16).map(|host| Link { a: host, b: 16 + host / 8, rate: 100 * G, delay: 1000 }).collect();
    for (leaf, spine) in [(16, 18), (16, 19), (17, 18), (17, 19)] {
        links.push(Link { a: leaf, b: spine, rate: 400 * G, delay: 1000 });
    }
    let topology = Topology { hosts: 16, switches: 4, links, numbers: Vec::new() };
    let flows: Vec<FlowSpec> = (0..8).map(|src| flow(src, src + 8)).collect();
    let mut sim = Sim::new(&topology, &flows, &config(), ()).unwrap();
    sim.run();
    assert!(sim.flows().iter().all(|flow| flow.finished.is_some()));
    assert_eq!(sim.totals().nacks, 0, "no frame overtakes another");
    let forwarded: Vec<u64> = sim.switches().iter().map(|switch| switch.forwarded).collect();
    assert_eq!((forwarded[0], forwarded[1]), (16_000, 16_000));
    assert_eq!(forwarded[2] + forwarded[3], 16_000);
    assert!(forwarded[2] > 0 && forwarded[3] > 0, "{forwarded:?}");
}

#[test]
fn what_is_no_network_is_refused() {
    let build =
        |topology: &Topology, flows: &[FlowSpec]| Sim::new(topology, flows, &config(), ()).unwrap_err();
    let good = star(3);
    let huge = Topology { hosts: u32::MAX, ..star(3) };
    assert_eq!(build(&huge, &[]), BuildError::Lonely(6));
    assert_eq!(build(&Topology { hosts: 4_000_000_000, ..star(3) }, &[]), BuildError::Lonely(6));
    let mut odd = star(3);
    odd.links[1].b = 1;
    assert_eq!(build(&odd, &[]), BuildError::Link(1));
    odd = star(3);
    odd.links[2].rate = 0;
    assert_eq!(build(&odd, &[]), BuildError::Rate(2));
    odd = star(3);
    odd.links[2].a = 0;
    assert_eq!(build(&odd, &[]), BuildError::Host(0, 2));
    assert_eq!(build(&good, &[flow(0, 3)]), BuildError::Path(0), "a switch receives nothing");
    assert_eq!(build(&good, &[flow(0, 1), flow(2, 2)]), BuildError::Path(1));
    let links = vec![Link { a: 0, b: 1, rate: G, delay: 0 }];
    let pair = Topology { hosts: 2, switches: 0, links, numbers: Vec::new() };
    assert_eq!(build(&pair, &[flow(0, 1)]), BuildError::Path(0), "there is no switch between");
    assert_eq!(build(&good, &[FlowSpec { bytes: 0, ..flow(0, 1) }]), BuildError::Flow(0));
    assert_eq!(build(&good, &[FlowSpec { prio: 0, ..flow(0, 1) }]), BuildError::Flow(0));
    let late = FlowSpec { start: 5, ..flow(0, 1) };
    assert_eq!(build(&good, &[late, flow(1, 0)]), BuildError::Order(1));
}
