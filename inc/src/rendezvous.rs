//! What hosts and a controller say to one another, over TCP: one JSON object per line, each way.
//!
//! A host says [`Request::Join`] and waits; when all hosts of its job have come, and the switches have taken the job,
//! each gets its [`Answer::Seat`]. The connection stays: the controller says [`Answer::Failed`] when there will be no more
//! results, a host says [`Request::Leave`] when it needs no more. A host whose connection breaks comes back with
//! [`Request::Resume`].

use crate::params::JobParams;
use crate::plan::{Below, Seat as Place, Tree};
use crate::spec::{Operation, Policy, Range};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use weir_dataplane::types::Nanos;

/// Longest line, bytes, its end included.
pub const LONGEST: usize = 64 << 10;

/// What a host says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// It takes part in a job.
    Join(Box<Join>),
    /// It takes part already, and has lost the connection.
    Resume(Resume),
    /// It needs no more results.
    Leave {},
}

/// A host that takes part. All of a job say the same but `index` and what is the host's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// What lets it in.
    pub token: String,
    /// What the job is called by its hosts.
    pub job: String,
    /// Hosts of the job.
    pub hosts: u16,
    /// Which of them this is, from 0.
    pub index: u16,
    /// Its IP address: that of its queue pair, and of a host of the topology.
    pub ip: IpAddr,
    /// Its MAC address.
    pub mac: String,
    /// Its queue pair.
    pub qpn: u32,
    /// What messages are, until one names another operation.
    pub operation: Operation,
    /// Payload of a full packet in bytes: 256, 512, 1024, 2048 or 4096.
    pub mtu: u16,
    /// Packets a rank may be ahead of the slowest; a power of two up to 4096.
    pub window: u32,
    /// What happens when a contribution does not come.
    #[serde(default)]
    pub straggler: Policy,
    /// For `partial` and `abort`: so long after the first contribution, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<Nanos>,
    /// Time without an answer after which the engine gives a rank up, in ns: of what hosts say, the longest. Where nobody
    /// says it, the timers are the defaults of a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience_ns: Option<Nanos>,
    /// First PSN in both directions; whatever the controller makes up unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psn: Option<u32>,
    /// It will contribute by RDMA WRITE, too: [`Seat::memory`] says where to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub write: bool,
    /// Its memory that results are to be written to; left out, they are SENDs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_to: Option<Range>,
    /// Its WRITEs name its own memory (INCCL); no host can say so here.
    #[serde(skip)]
    pub mirror: bool,
}

/// A host that comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// What lets it in.
    pub token: String,
    /// Number of the job, from its seat.
    pub id: u32,
    /// Which host it is, as when it joined.
    pub index: u16,
}

/// What the controller says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// The job has begun: connect the queue pair.
    Seat(Box<Seat>),
    /// The host is known again.
    Resumed {},
    /// It does not take part. The connection ends.
    Refused {
        /// What to change.
        why: String,
    },
    /// There will be no more results. The connection ends.
    Failed {
        /// What happened.
        why: String,
    },
}

/// Where a host sits: everything a queue pair has to be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seat {
    /// Number of the job.
    pub id: u32,
    /// Rank of this host at the engines.
    pub rank: u16,
    /// Ranks of the job.
    pub ranks: u16,
    /// MAC address of its engine.
    pub mac: String,
    /// IP address of its engine.
    pub ip: IpAddr,
    /// Queue pair of its engine.
    pub qpn: u32,
    /// PSN of the first packet to the engine.
    pub send_psn: u32,
    /// PSN of the first packet from it.
    pub recv_psn: u32,
    /// Payload of a full packet.
    pub mtu: u16,
    /// Packets it may be ahead of the slowest.
    pub window: u32,
    /// Memory of the engine that it may write contributions to, if it asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Range>,
    /// DSCP of its packets.
    pub dscp: u8,
    /// Their priority.
    pub priority: u8,
    /// Rank of each host, by index.
    pub order: Vec<u16>,
    /// Who is folded with whom: floats are the same to the bit for whoever folds in this order.
    pub tree: Shape,
}

/// A tree of ranks: `[[0, 1], [2, 3]]` folds 0 with 1, 2 with 3, and these two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Shape {
    /// A host.
    Rank(u16),
    /// An engine with those below, in order.
    Engine(Vec<Self>),
}

impl Shape {
    /// The tree of a plan.
    pub fn of(tree: &Tree) -> Self {
        Self::below(tree, Below::Engine(0))
    }

    /// The ranks in it, from the left.
    pub fn ranks(&self) -> Vec<u16> {
        match self {
            Self::Rank(rank) => vec![*rank],
            Self::Engine(below) => below.iter().flat_map(Self::ranks).collect(),
        }
    }

    fn below(tree: &Tree, below: Below) -> Self {
        match below {
            Below::Host(nth) => Self::Rank(tree.seats[nth]),
            Below::Engine(at) => Self::Engine(
                tree.branches[at].children.iter().map(|below| Self::below(tree, *below)).collect(),
            ),
        }
    }
}

impl Seat {
    /// What a host is told of its place in a planned job.
    pub fn of(job: &JobParams, tree: &Tree, place: &Place) -> Self {
        let path = &place.path;
        Self {
            id: job.id,
            rank: place.rank,
            ranks: job.ranks,
            mac: path.dst.to_string(),
            ip: path.dst_ip,
            qpn: path.dest_qp.0,
            send_psn: path.send_psn.get(),
            recv_psn: path.recv_psn.get(),
            mtu: job.mtu,
            window: job.window,
            memory: None,
            dscp: path.data.dscp,
            priority: path.data.priority,
            order: tree.seats.clone(),
            tree: Shape::of(tree),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Fabric, Node};

    #[test]
    fn lines_are_what_the_documentation_says() {
        let docs = include_str!("../../docs/inc.md");
        let lines = docs.lines().filter_map(|line| line.strip_prefix("host: "));
        let hosts: Vec<Request> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        let lines = docs.lines().filter_map(|line| line.strip_prefix("controller: "));
        let answers: Vec<Answer> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(matches!(hosts[..], [Request::Join(_), Request::Resume(_), Request::Leave {}]), "{hosts:?}");
        use Answer::{Failed, Refused, Resumed, Seat};
        assert!(matches!(answers[..], [Seat(_), Refused { .. }, Failed { .. }, Resumed {}]), "{answers:?}");
        for request in hosts {
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
        }
    }

    #[test]
    fn a_tree_is_said_in_ranks() {
        let nodes = [Node::Host; 3].into_iter().chain([Node::Switch { fan_in: 8 }; 2]).collect();
        let fabric = Fabric { nodes, links: vec![(0, 3), (1, 3), (2, 4), (3, 4)] };
        let tree = Tree::over(&fabric, &[2, 0, 1], 0).unwrap();
        let text = serde_json::to_string(&Shape::of(&tree)).unwrap();
        assert_eq!((text.as_str(), &tree.seats), ("[0,1,2]", &vec![0, 1, 2]));
        let nodes = [Node::Host; 4].into_iter().chain([Node::Switch { fan_in: 8 }; 3]).collect();
        let fabric = Fabric { nodes, links: vec![(0, 4), (1, 5), (2, 4), (3, 5), (4, 6), (5, 6)] };
        let tree = Tree::over(&fabric, &[0, 1, 2, 3], 0).unwrap();
        let text = serde_json::to_string(&Shape::of(&tree)).unwrap();
        assert_eq!(serde_json::from_str::<Shape>(&text).unwrap(), Shape::of(&tree));
        assert!(text.contains("[0,1]") && text.contains("[2,3]"), "{text} {:?}", tree.seats);
    }
}
