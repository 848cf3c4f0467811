//! Shortest paths, spread over equal ones by the address a flow uses.

use super::topology::Plan;
use weir_dataplane::rng::Rng;

const NOWHERE: u16 = u16::MAX;

/// The egress port of every switch for every address.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    hosts: usize,
    paths: usize,
    /// `[switch][host][path]`; [`NOWHERE`]: not reachable.
    ports: Vec<u16>,
}

impl Routes {
    /// Computes all of them.
    pub fn new(plan: &Plan, paths: usize, seed: u64) -> Self {
        let switches = plan.names.len() - plan.hosts;
        let mut ports = vec![NOWHERE; switches * plan.hosts * paths];
        for host in 0..plan.hosts {
            let distance = distances(plan, host);
            for switch in 0..switches {
                let node = plan.hosts + switch;
                let choices = next_hops(plan, node, host, &distance);
                for path in 0..paths {
                    // One draw per place, so that choices at different switches do not depend on each other.
                    let place = ((switch * plan.hosts + host) * paths + path) as u64;
                    let dice = Rng::new(seed ^ place.wrapping_mul(0x9e37_79b9)).next_u64();
                    let pick = (!choices.is_empty()).then(|| choices[dice as usize % choices.len()]);
                    ports[place as usize] = pick.map_or(NOWHERE, |port| port as u16);
                }
            }
        }
        Self { hosts: plan.hosts, paths, ports }
    }

    /// Egress port of `switch` towards address `path` of `host`.
    #[inline]
    pub fn port(&self, switch: usize, host: usize, path: usize) -> Option<usize> {
        let place = (switch * self.hosts + host) * self.paths + path;
        self.ports.get(place).filter(|port| **port != NOWHERE).map(|port| usize::from(*port))
    }
}

fn other_end(plan: &Plan, node: usize, port: usize) -> usize {
    let [a, b] = plan.links[plan.ports[node][port]].ends;
    if a.node == node && a.port == port { b.node } else { a.node }
}

/// Links from each node to `host`; hosts do not forward.
fn distances(plan: &Plan, host: usize) -> Vec<Option<usize>> {
    let mut distance = vec![None; plan.names.len()];
    distance[host] = Some(0);
    let mut queue = std::collections::VecDeque::from([host]);
    while let Some(node) = queue.pop_front() {
        if node < plan.hosts && node != host {
            continue;
        }
        for port in 0..plan.ports[node].len() {
            let next = other_end(plan, node, port);
            if distance[next].is_none() {
                distance[next] = distance[node].map(|d| d + 1);
                queue.push_back(next);
            }
        }
    }
    distance
}

fn next_hops(plan: &Plan, node: usize, host: usize, distance: &[Option<usize>]) -> Vec<usize> {
    let all = 0..plan.ports[node].len();
    if let Some(port) = all.clone().find(|port| other_end(plan, node, *port) == host) {
        return vec![port];
    }
    let switches = plan.names.len() - plan.hosts;
    if plan.clockwise {
        let next = plan.hosts + (node - plan.hosts + 1) % switches;
        return all.filter(|port| other_end(plan, node, *port) == next).collect();
    }
    let closer = |port: &usize| match (distance[other_end(plan, node, *port)], distance[node]) {
        (Some(theirs), Some(ours)) => theirs + 1 == ours && other_end(plan, node, *port) >= plan.hosts,
        _ => false,
    };
    all.filter(closer).collect()
}
