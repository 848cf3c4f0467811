//! All-reduce by two binary trees of hosts (after Sanders, Speck, Traff, Parallel Computing 35, 2009): inner hosts of one
//! tree are leaves of the other, so every line carries about the same.

use crate::fabric::graph::{Graph, Message, Part};

/// The place above place `at` > 0 in the first tree, whose root is 0: places in order from left to right.
fn above(n: usize, at: usize) -> usize {
    let bit = at & at.wrapping_neg();
    let up = (at ^ bit) | bit << 1;
    if up < n { up } else { at ^ bit }
}

/// The host at a place of a tree: the second is the first, mirrored or, of an odd number of hosts, turned by one.
fn host(n: usize, tree: usize, at: usize) -> usize {
    match (tree, n % 2) {
        (0, _) => at,
        (_, 0) => n - 1 - at,
        _ => (at + 1) % n,
    }
}

/// The messages of collective 0: `chunks` chunks of `half` the vector in each tree: first up, then down, chunk by chunk. `start`: when a
/// host may send.
pub(super) fn all_reduce(hosts: &[usize], (half, chunks): (u64, u64), start: impl Fn(usize) -> u64) -> Graph {
    let n = hosts.len();
    let mut below = vec![Vec::new(); n];
    (1..n).for_each(|at| below[above(n, at)].push(at));
    let id = |chunk: u64, tree: usize, down: usize, at: usize| {
        (((chunk as usize * 2 + tree) * 2 + down) * (n - 1) + at - 1) as u32
    };
    let mut graph = Graph::default();
    let all = id(chunks, 0, 0, 1);
    for chunk in 0..chunks {
        // What is left is spread over the chunks that are left.
        let until = |chunk: u64| (u128::from(half) * u128::from(chunk) / u128::from(chunks)) as u64;
        let bytes = (until(chunk + 1) - until(chunk)).max(1);
        for (tree, down) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            for at in 1..n {
                let up = above(n, at);
                // Receptions follow all sendings, in the same order.
                let sums_of =
                    |place: usize| below[place].iter().map(|at| all + id(chunk, tree, 0, *at)).collect();
                let (from, to, after) = match (down, up) {
                    (0, _) => (at, up, sums_of(at)),
                    (_, 0) => (up, at, sums_of(0)),
                    _ => (up, at, vec![all + id(chunk, tree, 1, up)]),
                };
                let (from, to) = (host(n, tree, from), host(n, tree, to));
                let message = Message {
                    pair: Some(id(0, tree, down, at)),
                    part: Some(Part { collective: 0, step: chunk as u32 }),
                    ..Message::new(hosts[from], hosts[to], bytes)
                };
                graph.send(message, start(from), after);
            }
        }
    }
    graph.receive_all();
    graph
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_is_inner_in_one_tree_at_most_and_all_hang_together() {
        for n in 2..70 {
            for at in 1..n {
                let (mut up, mut depth) = (at, 0);
                while up != 0 {
                    (up, depth) = (above(n, up), depth + 1);
                    assert!(depth <= n.ilog2() + 1, "{n} {at}");
                }
            }
            for tree in 0..2 {
                let mut hosts: Vec<usize> = (0..n).map(|at| host(n, tree, at)).collect();
                hosts.sort_unstable();
                assert_eq!(hosts, (0..n).collect::<Vec<_>>());
            }
            let graph = all_reduce(&(0..n).collect::<Vec<_>>(), (1000, 3), |_| 0);
            assert_eq!(graph.circle(), None);
            let flows = graph.messages;
            assert_eq!(flows.len(), 12 * (n - 1));
            for part in [0, 1, 2, 3] {
                let one: u64 = flows.chunks(n - 1).skip(part).step_by(4).map(|flows| flows[0].bytes).sum();
                assert_eq!(one, 1000);
            }
            let children =
                |tree: usize, h: usize| (1..n).filter(|at| host(n, tree, above(n, *at)) == h).count();
            assert!((0..n).all(|h| children(0, h) <= 2 && children(1, h) <= 2));
            let twice = (0..n).filter(|h| children(0, *h) > 0 && children(1, *h) > 0).count();
            assert!(twice <= 2, "{n}: {twice} inner hosts of both");
        }
    }
}
