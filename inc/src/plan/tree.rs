//! Which engines sum for which hosts.
//!
//! The root is the switch nearest to the farthest host, of those the one nearest to all together. Every host walks to
//! it by a shortest way, joining ways that others have gone; engines on the ways are the branches, switches without
//! one are passed through. An engine that would only hand on what one child sends is left out.

use super::{Fabric, Node, PlanError};
use std::collections::{BTreeMap, VecDeque};

/// Who is below an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// A host, by its number among those of the job.
    Host(usize),
    /// An engine, by its number among the branches.
    Engine(usize),
}

/// An engine of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Its switch, a place of the fabric.
    pub switch: usize,
    /// Those below, in the order of their ranks.
    pub children: Vec<Below>,
    /// First rank below it.
    pub first_rank: u16,
    /// How many.
    pub ranks: u16,
    /// 1: all its children are hosts; else one more than the highest of its children.
    pub height: u64,
}

/// Who sums for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Engines; the root first, parents before their children.
    pub branches: Vec<Branch>,
    /// Rank of each host, in the order in which hosts were named.
    pub seats: Vec<u16>,
}

impl Tree {
    /// A tree over these hosts of the fabric (places of [`Fabric::nodes`]). Ranks follow the tree, so that those of one
    /// engine are neighbours; among equals the order in which hosts were named. `stripe` chooses among equally good roots
    /// and ways: trees of different stripes of a job use different switches where there are any.
    ///
    /// # Errors
    /// What of the fabric or the job has no tree.
    pub fn over(fabric: &Fabric, hosts: &[usize], stripe: usize) -> Result<Self, PlanError> {
        if hosts.is_empty() {
            return Err(PlanError::NoHosts);
        }
        if hosts.len() > usize::from(u16::MAX) {
            return Err(PlanError::Ranks(hosts.len()));
        }
        let mut named = vec![false; fabric.nodes.len()];
        for &host in hosts {
            if fabric.nodes.get(host) != Some(&Node::Host) || std::mem::replace(&mut named[host], true) {
                return Err(PlanError::NotAHost(host));
            }
        }
        let graph = Graph::new(fabric);
        let (root, distance) = graph.root(hosts, stripe)?;
        let above = graph.ways(root, &distance, hosts, stripe);
        let mut children = graph.contract(root, hosts, &above);
        let root = prune(&mut children, root);
        let mut tree = Self { branches: Vec::new(), seats: vec![0; hosts.len()] };
        tree.grow(root, &children, &mut 0);
        for branch in &tree.branches {
            let Node::Switch { fan_in } = fabric.nodes[branch.switch] else { continue };
            if branch.children.len() > fan_in {
                return Err(PlanError::FanIn(branch.switch, branch.children.len(), fan_in));
            }
        }
        Ok(tree)
    }

    /// Takes in the engine of `switch` and all below it; its number and height.
    fn grow(&mut self, switch: usize, children: &Children, next_rank: &mut u16) -> (usize, u64) {
        let (at, first_rank) = (self.branches.len(), *next_rank);
        self.branches.push(Branch { switch, children: Vec::new(), first_rank, ranks: 0, height: 1 });
        for place in children.get(&switch).into_iter().flatten() {
            let below = match *place {
                Place::Host(nth) => {
                    self.seats[nth] = *next_rank;
                    *next_rank += 1;
                    Below::Host(nth)
                }
                Place::Switch(lower) => {
                    let (lower, height) = self.grow(lower, children, next_rank);
                    self.branches[at].height = self.branches[at].height.max(height + 1);
                    Below::Engine(lower)
                }
            };
            self.branches[at].children.push(below);
        }
        self.branches[at].ranks = *next_rank - first_rank;
        (at, self.branches[at].height)
    }

    /// Levels of engines.
    pub fn levels(&self) -> u64 {
        self.branches.first().map_or(0, |root| root.height)
    }
}

/// Below an engine, before engines have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Host(usize),
    Switch(usize),
}

/// Those below the engine of each switch, the one with the first host first.
type Children = BTreeMap<usize, Vec<Place>>;

struct Graph<'a> {
    nodes: &'a [Node],
    neighbours: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        let mut neighbours = vec![Vec::new(); fabric.nodes.len()];
        for &(a, b) in &fabric.links {
            if a < neighbours.len() && b < neighbours.len() {
                neighbours[a].push(b);
                neighbours[b].push(a);
            }
        }
        Self { nodes: &fabric.nodes, neighbours }
    }

    fn has_engine(&self, node: usize) -> bool {
        matches!(self.nodes[node], Node::Switch { fan_in } if fan_in > 0)
    }

    /// Links from `from` to every node it reaches; hosts forward nothing.
    fn distances(&self, from: usize) -> Vec<Option<usize>> {
        let mut distance = vec![None; self.nodes.len()];
        distance[from] = Some(0);
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            if self.nodes[node] == Node::Host {
                continue;
            }
            for &next in &self.neighbours[node] {
                if distance[next].is_none() {
                    distance[next] = distance[node].map(|d| d + 1);
                    queue.push_back(next);
                }
            }
        }
        distance
    }

    /// The switch all results come from, and how far everything is from it.
    fn root(&self, hosts: &[usize], stripe: usize) -> Result<(usize, Vec<Option<usize>>), PlanError> {
        let mut best: Option<(usize, usize)> = None;
        let mut equal = Vec::new();
        for node in (0..self.nodes.len()).filter(|node| self.has_engine(*node)) {
            let distance = self.distances(node);
            let reached: Option<Vec<usize>> = hosts.iter().map(|host| distance[*host]).collect();
            let Some(reached) = reached else { continue };
            let cost = (reached.iter().copied().max().unwrap_or(0), reached.iter().sum());
            if best.is_none_or(|best| cost < best) {
                best = Some(cost);
                equal.clear();
            }
            if best == Some(cost) {
                equal.push(node);
            }
        }
        let root = *equal.get(stripe % equal.len().max(1)).ok_or_else(|| self.cut_off(hosts))?;
        Ok((root, self.distances(root)))
    }

    /// No engine reaches all: a host that the engine with the most hosts does not reach.
    fn cut_off(&self, hosts: &[usize]) -> PlanError {
        let missed = |node: usize| -> Vec<usize> {
            let distance = self.distances(node);
            hosts.iter().copied().filter(|host| distance[*host].is_none()).collect()
        };
        let engines = (0..self.nodes.len()).filter(|node| self.has_engine(*node));
        let fewest = engines.map(missed).min_by_key(Vec::len);
        PlanError::NoEngine(fewest.and_then(|missed| missed.first().copied()).unwrap_or(hosts[0]))
    }

    /// The next node towards the root, of every node on the way of a host.
    fn ways(
        &self,
        root: usize,
        distance: &[Option<usize>],
        hosts: &[usize],
        stripe: usize,
    ) -> BTreeMap<usize, usize> {
        let mut above: BTreeMap<usize, usize> = BTreeMap::new();
        for &host in hosts {
            let mut node = host;
            while node != root && !above.contains_key(&node) {
                let closer = |next: &usize| distance[*next].map(|d| d + 1) == distance[node];
                let closer: Vec<usize> = self.neighbours[node]
                    .iter()
                    .copied()
                    .filter(closer)
                    .filter(|n| self.nodes[*n] != Node::Host)
                    .collect();
                // A way that is gone already, else one with an engine, else any.
                let best = |next: usize| (above.contains_key(&next) || next == root, self.has_engine(next));
                let Some(rank) = closer.iter().map(|next| best(*next)).max() else { break };
                let equal: Vec<usize> = closer.into_iter().filter(|next| best(*next) == rank).collect();
                let next = equal[stripe % equal.len()];
                above.insert(node, next);
                node = next;
            }
        }
        above
    }

    /// Engines and those below, without the switches between.
    fn contract(&self, root: usize, hosts: &[usize], above: &BTreeMap<usize, usize>) -> Children {
        let engine_above = |node: usize| -> usize {
            let mut node = node;
            while let Some(&next) = above.get(&node) {
                node = next;
                if self.has_engine(node) {
                    break;
                }
            }
            node
        };
        let mut children = Children::new();
        for (nth, &host) in hosts.iter().enumerate() {
            let (mut place, mut engine) = (Place::Host(nth), engine_above(host));
            loop {
                let list = children.entry(engine).or_default();
                if list.contains(&place) {
                    break;
                }
                list.push(place);
                if engine == root {
                    break;
                }
                (place, engine) = (Place::Switch(engine), engine_above(engine));
            }
        }
        children
    }
}

/// Leaves out engines with one child; the root that remains.
fn prune(children: &mut Children, root: usize) -> usize {
    let lone = |children: &Children, engine: usize| match children.get(&engine).map(Vec::as_slice) {
        Some([only]) => Some(*only),
        _ => None,
    };
    let mut root = root;
    while let Some(Place::Switch(only)) = lone(children, root) {
        children.remove(&root);
        root = only;
    }
    let all: Vec<usize> = children.keys().copied().collect();
    for engine in all {
        let Some(list) = children.get(&engine).cloned() else { continue };
        let replace = |place: Place| {
            let mut place = place;
            while let Place::Switch(lower) = place
                && let Some(only) = lone(children, lower)
            {
                place = only;
            }
            place
        };
        let list: Vec<Place> = list.into_iter().map(replace).collect();
        children.insert(engine, list);
    }
    root
}
