//! Shortest paths by hops. Where several exist a flow keeps to one of them, chosen by hash.
use std::collections::VecDeque;

use weir_dataplane::types::Nanos;

use super::config::Topology;
use super::control::PathTimes;

/// Next hops of every switch towards every host, as global port numbers.
#[derive(Debug)]
pub struct Routes {
    hosts: usize,
    /// One more than there are (switch, host) pairs: where the choices of a pair begin.
    starts: Box<[u32]>,
    choices: Box<[u32]>,
}

/// One end of a link as seen from its node.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Global port number of this end.
    pub port: u32,
    /// Node at the other end.
    pub peer: u32,
    /// Index of the link.
    pub link: usize,
}

/// The ends of the links of every node, in the order of the links: the ports of the node.
///
/// Link `i` has the global ports `2 * i` (end a) and `2 * i + 1` (end b).
pub fn ends(topology: &Topology) -> Vec<Vec<End>> {
    let mut nodes = vec![Vec::new(); (topology.hosts + topology.switches) as usize];
    for (link, l) in topology.links.iter().enumerate() {
        let port = 2 * link as u32;
        nodes[l.a as usize].push(End { port, peer: l.b, link });
        nodes[l.b as usize].push(End { port: port + 1, peer: l.a, link });
    }
    nodes
}

/// Hops from every node to `host`; hosts do not forward.
fn distances(topology: &Topology, ends: &[Vec<End>], host: u32) -> Vec<u32> {
    let mut far = vec![u32::MAX; ends.len()];
    far[host as usize] = 0;
    let mut open = VecDeque::from([host]);
    while let Some(node) = open.pop_front() {
        if node < topology.hosts && node != host {
            continue;
        }
        for end in &ends[node as usize] {
            if far[end.peer as usize] == u32::MAX {
                far[end.peer as usize] = far[node as usize] + 1;
                open.push_back(end.peer);
            }
        }
    }
    far
}

impl Routes {
    /// All next hops of all switches.
    pub fn new(topology: &Topology, ends: &[Vec<End>]) -> Self {
        let (hosts, switches) = (topology.hosts as usize, topology.switches as usize);
        let mut per_pair = vec![Vec::new(); hosts * switches];
        for host in 0..hosts {
            let far = distances(topology, ends, host as u32);
            for switch in 0..switches {
                let node = hosts + switch;
                let nearer = |end: &&End| far[end.peer as usize].checked_add(1) == Some(far[node]);
                per_pair[switch * hosts + host] =
                    ends[node].iter().filter(nearer).map(|end| end.port).collect();
            }
        }
        let mut starts = vec![0];
        let mut choices = Vec::new();
        for pair in per_pair {
            choices.extend_from_slice(&pair);
            starts.push(choices.len() as u32);
        }
        Self { hosts, starts: starts.into(), choices: choices.into() }
    }

    /// The port by which `switch` (counted from 0) sends to `host`. `hash` chooses among equals.
    ///
    /// Panics when there is no path; flows without one are refused when a run is built.
    #[inline]
    pub fn next_hop(&self, switch: u32, host: u32, hash: impl FnOnce() -> u64) -> u32 {
        let pair = switch as usize * self.hosts + host as usize;
        let choices = &self.choices[self.starts[pair] as usize..self.starts[pair + 1] as usize];
        match *choices {
            [only] => only,
            _ => choices[(hash() % choices.len() as u64) as usize],
        }
    }

    /// Whether `switch` (counted from 0) knows a way to `host`.
    pub fn reaches(&self, switch: u32, host: u32) -> bool {
        let pair = switch as usize * self.hosts + host as usize;
        self.starts[pair] < self.starts[pair + 1]
    }
}

/// A path between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Twice the delays plus one transmit time of a payload per link, each cut to ns.
    pub rtt: Nanos,
    /// Its slowest link, bit/s.
    pub rate: u64,
    /// Switches on it.
    pub switches: u32,
}

impl Path {
    /// Round trip times rate, bytes.
    pub fn bdp(&self) -> u64 {
        let bits = u128::from(self.rtt) * u128::from(self.rate) / 1_000_000_000;
        (bits / 8) as u64
    }
}

/// The path between two hosts, or `None` without one.
pub fn path(topology: &Topology, ends: &[Vec<End>], src: u32, dst: u32, payload: u64) -> Option<Path> {
    walk(topology, ends, &distances(topology, ends, src), dst, payload)
}

/// From `node` back to the host that the distances `far` count from.
fn walk(t: &Topology, ends: &[Vec<End>], far: &[u32], mut node: u32, payload: u64) -> Option<Path> {
    let (mut rtt, mut rate, switches) = (0, u64::MAX, far[node as usize].saturating_sub(1));
    while far[node as usize] > 0 {
        let nearer = |end: &&End| far[end.peer as usize].checked_add(1) == Some(far[node as usize]);
        let end = ends[node as usize].iter().find(nearer)?;
        let link = &t.links[end.link];
        rtt += 2 * link.delay + payload * 8_000_000_000 / link.rate;
        rate = rate.min(link.rate);
        node = end.peer;
    }
    Some(Path { rtt, rate, switches })
}

/// The largest round trip and the largest bandwidth-delay product between two hosts.
pub fn largest(topology: &Topology, ends: &[Vec<End>], payload: u64) -> PathTimes {
    let mut largest = PathTimes { rtt: 0, bdp: 0 };
    for src in 0..topology.hosts {
        let far = distances(topology, ends, src);
        let others = (0..topology.hosts).filter(|&dst| dst != src);
        for path in others.filter_map(|dst| walk(topology, ends, &far, dst, payload)) {
            largest = PathTimes { rtt: largest.rtt.max(path.rtt), bdp: largest.bdp.max(path.bdp()) };
        }
    }
    largest
}
