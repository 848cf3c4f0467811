//! Which nodes are played together, and how far apart in time groups of them are.

use crate::fabric::links::Direction;
use crate::fabric::spec::FabricSpec;
use crate::fabric::time::{PS, Ps};
use crate::fabric::topology::Plan;
use crate::fabric::ways::HEAD_BYTES;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A group has at most so many times the ports that it would have if all had the same, in percent.
const MOST_PERCENT: usize = 150;

/// Groups of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    /// How many groups, 2 at least.
    pub groups: usize,
    /// The group of every node.
    pub of: Vec<u8>,
    /// What a node does reaches no other group sooner.
    pub lookahead: Ps,
}

/// Sets that grow together.
struct Sets(Vec<u32>);

impl Sets {
    fn new(count: usize) -> Self {
        Self((0..count as u32).collect())
    }

    fn find(&mut self, at: usize) -> usize {
        let mut root = at;
        while self.0[root] as usize != root {
            self.0[root] = self.0[self.0[root] as usize];
            root = self.0[root] as usize;
        }
        root
    }

    /// The smallest member names a set.
    fn unite(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b)] = a.min(b) as u32;
    }
}

/// From the decision to send to the first effect at the far end of a direction between switches.
fn lag(spec: &FabricSpec, dir: &Direction) -> Ps {
    let switch = &spec.switch;
    dir.delay + (switch.egress.0 + switch.ingress.0 + switch.crossbar.0) * PS + dir.rate.takes(HEAD_BYTES)
}

impl Partition {
    /// At most `most` groups whose members are as far from one another as possible; `None`: there is one group only.
    ///
    /// `there`: nodes that have something to do. `together`: pairs that depend on one another at once. Numbers above those of nodes are members that have no node.
    pub fn new(
        spec: &FabricSpec,
        plan: &Plan,
        (dirs, there): (&[Direction], &[bool]),
        together: &[(usize, usize)],
        most: usize,
    ) -> Option<Self> {
        let nodes = plan.names.len();
        let members = together.iter().map(|(a, b)| a.max(b) + 1).max().unwrap_or(0).max(nodes);
        let mut sets = Sets::new(members);
        together.iter().for_each(|(a, b)| sets.unite(*a, *b));
        // A host is where its switch is, and so is an engine.
        let is_switch = |node: usize| node >= plan.hosts;
        let dirs = dirs.iter().filter(|d| there[d.from.node] && there[d.to.node]);
        let (trunks, links): (Vec<&Direction>, Vec<&Direction>) =
            dirs.partition(|d| is_switch(d.from.node) && is_switch(d.to.node));
        links.iter().for_each(|d| sets.unite(d.from.node, d.to.node));
        let lags: BTreeSet<Ps> = trunks.iter().map(|d| lag(spec, d)).collect();
        for groups in (2..=most.min(usize::from(u8::MAX))).rev() {
            for lookahead in lags.iter().rev() {
                let mut sets = Sets(sets.0.clone());
                let near = trunks.iter().filter(|d| lag(spec, d) < *lookahead);
                near.for_each(|d| sets.unite(d.from.node, d.to.node));
                if let Some(of) = divide((plan, there), &trunks, &mut sets, groups) {
                    return Some(Self { groups, of, lookahead: *lookahead });
                }
            }
        }
        None
    }
}

/// Divides nodes into groups of about as many ports, sets undivided.
fn divide(
    (plan, there): (&Plan, &[bool]),
    trunks: &[&Direction],
    sets: &mut Sets,
    groups: usize,
) -> Option<Vec<u8>> {
    let nodes = plan.names.len();
    let root: Vec<usize> = (0..nodes).map(|node| sets.find(node)).collect();
    // Ports of each set, and those of its switches that hosts are at.
    let mut sizes: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for (node, set) in root.iter().enumerate().filter(|(node, _)| there[*node]) {
        let size = sizes.entry(*set).or_default();
        size.0 += plan.ports[node].len();
        size.1 += usize::from(node < plan.hosts);
    }
    let mut neighbours: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
    for d in trunks {
        let (a, b) = (root[d.from.node], root[d.to.node]);
        if a != b {
            *neighbours.entry(a).or_default().entry(b).or_default() += 1;
        }
    }
    // Those with hosts in their order, as they are named by neighbourhood.
    let hosts: usize = sizes.values().map(|(_, hosts)| hosts).sum();
    let mut group: BTreeMap<usize, usize> = BTreeMap::new();
    let mut ports = vec![0; groups];
    let mut before = 0;
    for (set, (size, of_hosts)) in sizes.iter().filter(|(_, (_, hosts))| *hosts > 0) {
        let at = ((2 * before + of_hosts) * groups / (2 * hosts)).min(groups - 1);
        before += of_hosts;
        ports[at] += size;
        group.insert(*set, at);
    }
    // The others beside most of their neighbours, and where that says nothing where there is least.
    let mut open: Vec<usize> = sizes.keys().copied().filter(|set| !group.contains_key(set)).collect();
    while !open.is_empty() {
        let before = open.len();
        open.retain(|set| {
            let mut links = vec![0; groups];
            for (other, count) in neighbours.get(set).into_iter().flatten() {
                if let Some(at) = group.get(other) {
                    links[*at] += count;
                }
            }
            let best = (0..groups).max_by_key(|at| (links[*at], Reverse((ports[*at], *at))));
            let Some(at) = best.filter(|at| links[*at] > 0) else { return true };
            ports[at] += sizes[set].0;
            group.insert(*set, at);
            false
        });
        if open.len() == before {
            // Nobody is connected with those.
            group.extend(open.drain(..).map(|set| (set, 0)));
        }
    }
    let (total, largest) = (ports.iter().sum::<usize>(), ports.iter().max()?);
    let even = ports.iter().all(|ports| *ports > 0) && largest * groups * 100 <= total * MOST_PERCENT;
    even.then(|| root.iter().map(|set| group.get(set).map_or(0, |at| *at as u8)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::links::directions;
    use crate::fabric::load;
    use crate::fabric::topology::lay_out;

    fn partition(topology: &str, together: &[(usize, usize)], most: usize) -> Option<(Partition, Plan)> {
        let text = format!(
            "name = \"x\"\nstop_time = \"1ms\"\n[topology]\n{topology}\n[[workload]]\nkind = \"permutation\"\nbytes = \"1KB\"\n"
        );
        let spec = load("x", &text).unwrap();
        let plan = lay_out(&spec).unwrap();
        let dirs = directions(&plan);
        let there = vec![true; plan.names.len()];
        Partition::new(&spec, &plan, (&dirs, &there), together, most).map(|p| (p, plan))
    }

    #[test]
    fn pods_of_a_fat_tree_stay_whole_and_groups_are_even() {
        for most in 2..=4 {
            let (p, plan) = partition("kind = \"fat_tree\"\nk = 4", &[], most).unwrap();
            assert_eq!(p.groups, most);
            let hosts: Vec<u8> = p.of[..plan.hosts].to_vec();
            assert!(hosts.is_sorted(), "{hosts:?}");
            for group in 0..most as u8 {
                let count = hosts.iter().filter(|of| **of == group).count();
                assert!((4..=8).contains(&count), "{hosts:?}");
            }
            // Of a cable of 1 us and a shortest frame.
            assert!(p.lookahead > 1_000_000, "{}", p.lookahead);
        }
    }

    #[test]
    fn what_cannot_be_divided_is_not() {
        assert!(partition("kind = \"star\"\nhosts = 8", &[], 2).is_none());
        assert!(partition("kind = \"direct\"", &[], 2).is_none());
        let dumbbell = "kind = \"dumbbell\"\npairs = 3";
        let (p, plan) = partition(dumbbell, &[], 4).unwrap();
        assert_eq!((p.groups, &p.of[plan.hosts..]), (2, &[0, 1][..]));
        let together = [(0, 40), (3, 40)];
        assert!(partition(dumbbell, &together, 4).is_none(), "they depend on one another");
    }

    #[test]
    fn groups_are_as_far_apart_as_can_be() {
        let near = "kind = \"custom\"\nhosts = [\"a\", \"b\"]\nswitches = [\"s\", \"t\", \"u\", \"v\"]\nlinks = [\n\
            { a = \"a\", b = \"s\" }, { a = \"s\", b = \"t\", delay = \"10ns\" }, { a = \"t\", b = \"u\", delay = \"2us\" }, \
            { a = \"u\", b = \"v\", delay = \"10ns\" }, { a = \"b\", b = \"v\" } ]";
        let (p, plan) = partition(near, &[], 2).unwrap();
        assert_eq!(&p.of[plan.hosts..], [0, 0, 1, 1]);
        assert!(p.lookahead > 2_000_000);
    }
}
