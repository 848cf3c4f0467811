//! From a fabric and the hosts of a job to what each engine is told: a tree of engines, ranks, numbers.
//!
//! Two steps. [`Tree::over`] chooses engines and who is whose child; [`Tree::jobs`] hands out queue pair numbers and PSNs and
//! makes a [`JobParams`] for each engine and a [`Seat`] for each host. Both are pure: the same input gives the same plan.

mod tree;

pub use tree::{Below, Branch, Tree};

use crate::params::{Child, JobParams, Parent, Straggler};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use thiserror::Error;
use weir_dataplane::types::Mac;
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::qp::{Path, TrafficClass};
use weir_endpoint::roce::wire::Qpn;

/// What stands at a place of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// It has one or more links and forwards nothing.
    Host,
    /// It forwards, and sums for at most so many children; 0: it has no engine.
    Switch {
        /// Most children of a job.
        fan_in: usize,
    },
}

/// Who is connected with whom.
#[derive(Clone, Debug, Default)]
pub struct Fabric {
    /// Hosts and switches.
    pub nodes: Vec<Node>,
    /// Links, by the places of their ends.
    pub links: Vec<(usize, usize)>,
}

/// Why there is no plan. `N` names a node: its place in [`Fabric::nodes`], or what [`PlanError::map`] makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlanError<N = usize> {
    /// Nobody takes part.
    #[error("the job has no hosts")]
    NoHosts,
    /// A rank for what is no host, or a host twice.
    #[error("{0} is not a host, or takes part twice")]
    NotAHost(N),
    /// No engine reaches all hosts.
    #[error(
        "no switch with an engine reaches all hosts of the job: {0} is cut off from the others, or no switch has an engine"
    )]
    NoEngine(N),
    /// An engine would have too many children.
    #[error(
        "the engine of {0} would have {1} children, it takes {2}; give more switches engines, or take fewer hosts"
    )]
    FanIn(N, usize, usize),
    /// More ranks than can be counted.
    #[error("{0} hosts; a job has at most 65535 ranks")]
    Ranks(usize),
    /// An engine has no queue pair numbers left.
    #[error("the engine of {0} has no queue pair number left; end a job, or give it more numbers")]
    Numbers(N),
}

impl<N> PlanError<N> {
    /// The same with another name of the node.
    pub fn map<M>(self, name: impl FnOnce(N) -> M) -> PlanError<M> {
        match self {
            Self::NoHosts => PlanError::NoHosts,
            Self::NotAHost(node) => PlanError::NotAHost(name(node)),
            Self::NoEngine(node) => PlanError::NoEngine(name(node)),
            Self::FanIn(node, children, most) => PlanError::FanIn(name(node), children, most),
            Self::Ranks(hosts) => PlanError::Ranks(hosts),
            Self::Numbers(node) => PlanError::Numbers(name(node)),
        }
    }
}

/// An engine as its peers address it, and which of its numbers are in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineEnd {
    /// Its addresses.
    pub address: (Mac, IpAddr),
    /// First of its queue pair numbers.
    pub first_qpn: u32,
    /// How many there are.
    pub qpns: u32,
    /// Those that jobs have.
    pub used: BTreeSet<u32>,
    /// Where the next one is looked for, counted from the first.
    next: u32,
}

impl EngineEnd {
    /// An engine without jobs.
    pub fn new(address: (Mac, IpAddr), first_qpn: u32, qpns: u32) -> Self {
        Self { address, first_qpn, qpns, used: BTreeSet::new(), next: 0 }
    }

    /// A number that is free; it is in use from here on. All others come first before one is taken again: an engine has a
    /// job until its ranks have heard that it has ended, and a late frame finds no other job.
    fn take(&mut self) -> Option<Qpn> {
        let turn = (self.next..self.qpns).chain(0..self.next.min(self.qpns));
        let number = |n| self.first_qpn.saturating_add(n);
        let free = turn.into_iter().find(|n| !self.used.contains(&number(*n)))?;
        self.used.insert(number(free));
        self.next = free + 1;
        Some(Qpn(number(free)))
    }

    /// The numbers of a job are free again.
    pub fn release(&mut self, job: &JobParams) {
        let of_parent = job.parent.map(|parent| parent.qpn);
        for qpn in job.children.iter().map(|child| child.qpn).chain(of_parent) {
            self.used.remove(&qpn.0);
        }
    }
}

/// A host's queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostEnd {
    /// Its addresses.
    pub address: (Mac, IpAddr),
    /// Its queue pair.
    pub qpn: Qpn,
}

/// A host's place in a job.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// Its rank: floats are folded in this order.
    pub rank: u16,
    /// The way to its engine, as the host sees it, and the numbers agreed.
    pub path: Path,
}

/// What all connections of a job have in common.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// 802.1Q VLAN id, if frames are tagged.
    pub vlan: Option<u16>,
    /// Marks of data and answers.
    pub data: TrafficClass,
    /// Marks of CNPs.
    pub cnp: TrafficClass,
}

impl Default for Marks {
    /// No tag, DSCP 26 in priority 3, CNPs DSCP 48 in priority 6.
    fn default() -> Self {
        Self { vlan: None, data: TrafficClass::of_data(26, 3), cnp: TrafficClass::of_cnps(48, 6) }
    }
}

/// A whole job.
#[derive(Clone, Debug)]
pub struct JobPlan {
    /// What each engine is told, with its place in the fabric; the root first, parents before children.
    pub engines: Vec<(usize, JobParams)>,
    /// Where each host sits, in the order in which hosts were named.
    pub seats: Vec<Seat>,
}

impl Tree {
    /// Hands out numbers. `template` says all that engines have in common; deadlines for partial results are multiplied
    /// by the height of an engine, so that a child's ends before its parent's. `hosts`: queue pairs in the order in which
    /// hosts were named. `engines`: by place. `psn` makes first PSNs.
    ///
    /// # Errors
    /// [`PlanError::Numbers`]; numbers taken until then are given back.
    pub fn jobs(
        &self,
        template: &JobParams,
        marks: Marks,
        hosts: &[HostEnd],
        engines: &mut BTreeMap<usize, EngineEnd>,
        mut psn: impl FnMut() -> Psn,
    ) -> Result<JobPlan, PlanError> {
        let blank = |branch: &Branch| JobParams {
            ranks: self.seats.len() as u16,
            straggler: match template.straggler {
                Straggler::Partial(after) => Straggler::Partial(after.saturating_mul(branch.height)),
                other => other,
            },
            children: Vec::new(),
            parent: None,
            ..template.clone()
        };
        let mut jobs: Vec<(usize, JobParams)> =
            self.branches.iter().map(|branch| (branch.switch, blank(branch))).collect();
        let before = engines.clone();
        let mut seats: Vec<Option<Seat>> = vec![None; self.seats.len()];
        for (at, branch) in self.branches.iter().enumerate() {
            for below in &branch.children {
                let made = self.connect(branch, *below, marks, hosts, engines, &mut psn);
                let (child, upwards) = match made {
                    Ok(made) => made,
                    Err(error) => {
                        *engines = before;
                        return Err(error);
                    }
                };
                match *below {
                    Below::Host(nth) => {
                        seats[nth] = Some(Seat { rank: child.first_rank, path: upwards.path });
                    }
                    Below::Engine(lower) => jobs[lower].1.parent = Some(upwards),
                }
                jobs[at].1.children.push(child);
            }
        }
        Ok(JobPlan { engines: jobs, seats: seats.into_iter().flatten().collect() })
    }

    /// A connection between an engine and what is below it, from both ends.
    fn connect(
        &self,
        branch: &Branch,
        below: Below,
        marks: Marks,
        hosts: &[HostEnd],
        engines: &mut BTreeMap<usize, EngineEnd>,
        psn: &mut impl FnMut() -> Psn,
    ) -> Result<(Child, Parent), PlanError> {
        let mut take = |switch: usize| {
            let end = engines.get_mut(&switch).ok_or(PlanError::Numbers(switch))?;
            Ok((end.address, end.take().ok_or(PlanError::Numbers(switch))?))
        };
        let (above, qpn) = take(branch.switch)?;
        let (address, lower_qpn) = match below {
            Below::Host(nth) => {
                hosts.get(nth).map(|host| (host.address, host.qpn)).ok_or(PlanError::NotAHost(nth))?
            }
            Below::Engine(lower) => take(self.branches[lower].switch)?,
        };
        let (up, down) = (psn(), psn());
        let marked =
            |path: Path| Path { vlan: marks.vlan, data: marks.data, ack: marks.data, cnp: marks.cnp, ..path };
        let path = Path { send_psn: down, recv_psn: up, ..marked(Path::new(above, address, lower_qpn)) };
        let upwards = Path { send_psn: up, recv_psn: down, ..marked(Path::new(address, above, qpn)) };
        let (first_rank, ranks) = match below {
            Below::Host(nth) => (self.seats[nth], 1),
            Below::Engine(lower) => (self.branches[lower].first_rank, self.branches[lower].ranks),
        };
        let engine = matches!(below, Below::Engine(_));
        let child = Child { qpn, path, first_rank, ranks, engine, remote: Default::default() };
        Ok((child, Parent { qpn: lower_qpn, path: upwards }))
    }
}

#[cfg(test)]
mod tests;
