//! Numbers of the ends of queue pairs at their hosts that are known before the pairs are opened: groups open them at one another's
//! hosts.

use crate::fabric::operations::{Due, Operations};
use crate::fabric::spec::Protocol;
use crate::fabric::workload::{Carriage, Planned};
use weir_endpoint::flow::RcLinkNic;

/// Queue pairs are called by their first flow.
#[derive(Debug)]
pub(super) struct Numbers {
    /// Of the end that receives, of each queue pair.
    receivers: Vec<u32>,
    /// Queue pairs of RC Link, and the numbers of the ends that send, in the order in which their hosts connect them.
    connected: Vec<(u32, u32)>,
}

/// Queue pairs in the order in which their ends are numbered: those of flows that start by themselves as these do, all others as they
/// are listed.
fn in_order(flows: &[Planned], operations: &Operations) -> Vec<u32> {
    let start = |(at, due)| match due {
        Due::Start { flow } => Some((at, flow)),
        Due::Ready { .. } | Due::Computed { .. } => None,
    };
    // Equal times in the order they are asked for.
    let mut starts: Vec<_> = operations.first().into_iter().filter_map(start).collect();
    starts.sort_by_key(|(at, _)| *at);
    let mut is_listed = vec![false; flows.len()];
    let all = starts.into_iter().map(|(_, flow)| flow).chain(0..flows.len() as u32);
    let pairs = all.map(|flow| flows[flow as usize].pair);
    pairs.filter(|pair| !std::mem::replace(&mut is_listed[*pair as usize], true)).collect()
}

impl Numbers {
    /// Those of `flows` between so many `hosts`.
    pub fn new(protocol: Protocol, flows: &[Planned], operations: &Operations, hosts: usize) -> Self {
        let mut numbers = Self { receivers: vec![u32::MAX; flows.len()], connected: Vec::new() };
        let mut next = vec![0; hosts];
        let mut number = |host: usize| {
            next[host] += 1;
            next[host] - 1
        };
        for pair in in_order(flows, operations) {
            let Planned { from, to, seat, carriage, .. } = flows[pair as usize];
            // A rank is seated.
            if seat.is_some() {
                continue;
            }
            numbers.receivers[pair as usize] = match (protocol, carriage) {
                // Ends that receive are numbered by themselves. Who sends numbers its ends as it opens them, and says so.
                (Protocol::Rocev2, _) => number(to),
                // All ends of a host are numbered in one row.
                (Protocol::Rclink, Carriage::Pair) => {
                    numbers.connected.push((pair, number(from)));
                    number(to)
                }
                (Protocol::Rclink, Carriage::Group { copy_of, .. }) => {
                    RcLinkNic::datagram_receiver(copy_of.unwrap_or(pair))
                }
                (Protocol::Rclink, Carriage::Raw) => RcLinkNic::datagram_receiver(pair),
            };
        }
        numbers
    }

    /// Queue pairs that are connected before anything is sent, in order, with the numbers of their ends that send.
    pub fn connected(&self) -> impl Iterator<Item = (u32, u32)> {
        self.connected.iter().copied()
    }

    /// The receiving end of a queue pair.
    pub fn receiver(&self, pair: u32) -> u32 {
        self.receivers[pair as usize]
    }
}
