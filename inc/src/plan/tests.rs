use super::*;
use crate::engine::{Engine, EngineParams};
use crate::immediate::Primitive;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SWITCH: Node = Node::Switch { fan_in: 64 };
const PLAIN: Node = Node::Switch { fan_in: 0 };

/// Hosts first, then switches; `hosts[h]` is the switch of host h.
fn fabric(hosts: &[usize], switches: &[Node], trunks: &[(usize, usize)]) -> Fabric {
    let n = hosts.len();
    let nodes = std::iter::repeat_n(Node::Host, n).chain(switches.iter().copied()).collect();
    let links = hosts.iter().enumerate().map(|(h, s)| (h, n + s));
    let trunks = trunks.iter().map(|(a, b)| (n + a, n + b));
    Fabric { nodes, links: links.chain(trunks).collect() }
}

/// Al-Fares: edges, aggregation, cores.
fn fat_tree(k: usize) -> Fabric {
    let half = k / 2;
    let edges = k * half;
    let hosts: Vec<usize> = (0..edges * half).map(|h| h / half).collect();
    let to_aggregation = (0..edges).flat_map(|e| (0..half).map(move |i| (e, edges + e / half * half + i)));
    let to_core =
        (0..edges).flat_map(|a| (0..half).map(move |i| (edges + a, 2 * edges + a % half * half + i)));
    let trunks: Vec<(usize, usize)> = to_aggregation.chain(to_core).collect();
    fabric(&hosts, &vec![SWITCH; 2 * edges + half * half], &trunks)
}

fn all_hosts(fabric: &Fabric) -> Vec<usize> {
    (0..fabric.nodes.len()).filter(|node| fabric.nodes[*node] == Node::Host).collect()
}

/// Fan-in of each branch.
fn shape(tree: &Tree) -> Vec<usize> {
    tree.branches.iter().map(|branch| branch.children.len()).collect()
}

/// Plans, and lets an engine take each job: what it is told is what it takes.
fn accepted(fabric: &Fabric, tree: &Tree) -> JobPlan {
    let address = |node: usize| {
        let [high, low] = (node as u16).to_be_bytes();
        (Mac([2, 0, 0, 0, high, low]), std::net::Ipv4Addr::new(10, 0, high, low).into())
    };
    let mut ends: BTreeMap<usize, EngineEnd> =
        (0..fabric.nodes.len()).map(|node| (node, EngineEnd::new(address(node), 0x100, 65))).collect();
    let hosts: Vec<HostEnd> =
        (0..tree.seats.len()).map(|h| HostEnd { address: address(h), qpn: Qpn(0x11) }).collect();
    let template = JobParams { window: 4, results: 4, mtu: 256, ..JobParams::new(7, 0, Primitive::Barrier) };
    let mut psn = 0xff_fff0;
    let next_psn = || {
        psn += 3;
        Psn::new(psn)
    };
    let plan = tree.jobs(&template, Marks::default(), &hosts, &mut ends, next_psn).unwrap();
    for (_, job) in &plan.engines {
        Engine::new(EngineParams::default()).add(job.clone()).unwrap();
    }
    plan
}

#[test]
fn one_switch_sums_for_its_hosts() {
    let fabric = fabric(&[0; 5], &[SWITCH], &[]);
    let tree = Tree::over(&fabric, &[4, 1, 2], 0).unwrap();
    assert_eq!(tree.seats, [0, 1, 2], "ranks in the order of names");
    assert_eq!((shape(&tree), tree.levels()), (vec![3], 1));
    let plan = accepted(&fabric, &tree);
    let child = plan.engines[0].1.children[1];
    let seat = plan.seats[1];
    assert_eq!((child.path.send_psn, child.path.recv_psn), (seat.path.recv_psn, seat.path.send_psn));
    assert_eq!((child.path.src, child.path.dst), (seat.path.dst, seat.path.src));
    assert_eq!((seat.path.dest_qp, child.path.dest_qp), (child.qpn, Qpn(0x11)));
    assert_ne!(child.path.send_psn, child.path.recv_psn);
}

#[test]
fn a_fat_tree_has_a_core_an_aggregation_switch_of_each_pod_and_all_edges() {
    for (k, hosts) in [(4, 16), (8, 128), (16, 1024)] {
        let fabric = fat_tree(k);
        let tree = Tree::over(&fabric, &all_hosts(&fabric), 3).unwrap();
        let half = k / 2;
        assert_eq!((tree.seats.len(), tree.levels()), (hosts, 3));
        assert_eq!(tree.branches.len(), 1 + k + k * half);
        assert_eq!(tree.branches[0].children.len(), k);
        assert!(shape(&tree)[1..].iter().all(|fan_in| *fan_in == half));
        let other = Tree::over(&fabric, &all_hosts(&fabric), 4).unwrap();
        assert_ne!(other.branches[0].switch, tree.branches[0].switch, "another root for another stripe");
        let plan = accepted(&fabric, &tree);
        let parents = plan.engines.iter().filter(|(_, job)| job.parent.is_some());
        assert_eq!(parents.count(), tree.branches.len() - 1);
    }
}

#[test]
fn an_engine_without_siblings_to_sum_is_left_out() {
    // A row of five switches, one host at each end and two in the middle.
    let row = fabric(&[0, 2, 2, 4], &[SWITCH; 5], &[(0, 1), (1, 2), (2, 3), (3, 4)]);
    let tree = Tree::over(&row, &all_hosts(&row), 0).unwrap();
    assert_eq!((shape(&tree), tree.levels()), (vec![4], 1), "{tree:?}");
    // Only one end takes part: the root is there.
    let tree = Tree::over(&row, &[1, 2], 0).unwrap();
    assert_eq!(tree.branches[0].switch, 4 + 2);
}

#[test]
fn switches_without_engines_are_passed_through() {
    let fabric = fabric(&[0, 0, 1, 1], &[SWITCH, SWITCH, PLAIN], &[(0, 2), (1, 2)]);
    let tree = Tree::over(&fabric, &[0, 2, 1, 3], 0).unwrap();
    assert_eq!(tree.branches[0].switch, 4);
    // The root's own hosts and, between them by name, the other engine.
    assert_eq!(tree.branches[0].children, [Below::Host(0), Below::Engine(1), Below::Host(2)]);
    assert_eq!(tree.seats, [0, 1, 3, 2]);
    accepted(&fabric, &tree);
}

#[test]
fn partial_results_of_children_come_before_those_of_parents() {
    let fabric = fat_tree(4);
    let tree = Tree::over(&fabric, &all_hosts(&fabric), 0).unwrap();
    let template =
        JobParams { straggler: Straggler::Partial(1000), ..JobParams::new(7, 0, Primitive::Barrier) };
    let mut ends: BTreeMap<usize, EngineEnd> = (0..fabric.nodes.len())
        .map(|n| (n, EngineEnd::new((Mac([2; 6]), std::net::Ipv4Addr::new(10, 0, 0, n as u8).into()), 1, 9)))
        .collect();
    let hosts: Vec<HostEnd> =
        (0..16).map(|h| HostEnd { address: ends[&h].address, qpn: Qpn(0x11) }).collect();
    let plan = tree.jobs(&template, Marks::default(), &hosts, &mut ends, Psn::default).unwrap();
    assert_eq!(plan.engines[0].1.straggler, Straggler::Partial(3000));
    assert_eq!(plan.engines[1].1.straggler, Straggler::Partial(2000));
    assert_eq!(plan.engines[2].1.straggler, Straggler::Partial(1000));
    // What is released can be planned again; what is not there is refused and nothing is lost.
    let full = ends.clone();
    let again = tree.jobs(&template, Marks::default(), &hosts, &mut ends, Psn::default);
    let again = again.and_then(|_| tree.jobs(&template, Marks::default(), &hosts, &mut ends, Psn::default));
    assert_eq!(again.unwrap_err(), PlanError::Numbers(plan.engines[0].0));
    ends = full;
    for (switch, job) in &plan.engines {
        ends.get_mut(switch).unwrap().release(job);
    }
    assert!(ends.values().all(|end| end.used.is_empty()));
}

#[test]
fn numbers_that_were_free_for_long_come_first() {
    let mut end = EngineEnd::new((Mac([2; 6]), std::net::Ipv4Addr::LOCALHOST.into()), 0x100, 3);
    let mut take = |free: Option<u32>| {
        if let Some(qpn) = free {
            end.used.remove(&qpn);
        }
        end.take().map(|qpn| qpn.0)
    };
    assert_eq!([None, Some(0x100), None].map(&mut take), [Some(0x100), Some(0x101), Some(0x102)]);
    assert_eq!([None, None].map(&mut take), [Some(0x100), None]);
    assert_eq!([Some(0x101), Some(0x100)].map(&mut take), [Some(0x101), Some(0x100)]);
}

#[test]
fn what_has_no_tree_is_refused() {
    let two = fabric(&[0, 1], &[SWITCH, SWITCH], &[]);
    assert_eq!(Tree::over(&two, &[0, 1], 0), Err(PlanError::NoEngine(1)));
    assert_eq!(Tree::over(&fabric(&[0, 0], &[PLAIN], &[]), &[0, 1], 0), Err(PlanError::NoEngine(0)));
    let one = fabric(&[0; 5], &[Node::Switch { fan_in: 4 }], &[]);
    assert_eq!(Tree::over(&one, &all_hosts(&one), 0), Err(PlanError::FanIn(5, 5, 4)));
    assert_eq!(Tree::over(&one, &[], 0), Err(PlanError::NoHosts));
    assert_eq!(Tree::over(&one, &[1, 1], 0), Err(PlanError::NotAHost(1)));
    assert_eq!(Tree::over(&one, &[5], 0), Err(PlanError::NotAHost(5)));
    assert_eq!(Tree::over(&one, &[99], 0), Err(PlanError::NotAHost(99)));
}

proptest! {
    /// Any connected fabric: every host sits once, ranks of an engine are neighbours, engines take their jobs, nobody
    /// has a single engine below.
    #[test]
    fn any_fabric_has_a_tree(
        hosts in prop::collection::vec(0usize..8, 1..20),
        engines in prop::collection::vec(any::<bool>(), 8),
        more in prop::collection::vec((0usize..8, 0usize..8), 0..10),
        stripe in 0usize..5,
    ) {
        let mut switches: Vec<Node> = engines.iter().map(|e| if *e { SWITCH } else { PLAIN }).collect();
        switches[0] = SWITCH;
        let spanning = (1..8).map(|s| (s, s / 2));
        let trunks: Vec<(usize, usize)> = spanning.chain(more).collect();
        let fabric = fabric(&hosts, &switches, &trunks);
        let tree = Tree::over(&fabric, &all_hosts(&fabric), stripe).unwrap();
        let mut seats = tree.seats.clone();
        seats.sort_unstable();
        prop_assert_eq!(seats, (0..hosts.len() as u16).collect::<Vec<_>>());
        for (at, branch) in tree.branches.iter().enumerate() {
            prop_assert!(branch.children.len() > 1 || (at == 0 && hosts.len() == 1));
            prop_assert_eq!(fabric.nodes[branch.switch], SWITCH);
        }
        accepted(&fabric, &tree);
    }
}
