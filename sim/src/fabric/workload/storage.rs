//! Clients read from and write to storage servers.

use super::Reader;
use super::collectives::Builder;
use crate::fabric::FabricError;
use crate::fabric::faults::both;
use crate::fabric::graph::{Graph, OpId};
use weir_dataplane::rng::Rng;

/// Bytes of a request to read, and of the word that something is written.
const COMMAND: u64 = 64;
/// Most I/Os of a client.
const MAX_IOS: usize = 1 << 20;

impl Reader<'_> {
    /// The last `servers` ranks store; each other rank reads and writes, `depth` at a time.
    pub(super) fn storage(&self, hosts: &[usize], rng: &mut Rng) -> Result<Graph, FabricError> {
        let w = self.w;
        let counts = both(self.need("servers", w.servers), self.need("ios", w.ios));
        let (bytes, (servers, ios)) = both(self.need("bytes", w.bytes), counts)?;
        let (bytes, depth) = (bytes.0, w.depth);
        if !(1..hosts.len()).contains(&servers) {
            let problem =
                format!("{servers} `servers` of {} ranks; there must be one, and a client", hosts.len());
            return Err(self.wrong(problem));
        }
        if !(1..=MAX_IOS).contains(&ios) || depth == 0 {
            return Err(self.wrong(format!("{ios} `ios`, `depth` {depth}; 1 to {MAX_IOS}, and 1 at least")));
        }
        let (reads, replicas) = (w.reads, w.replicas);
        if !(0.0..=1.0).contains(&reads) {
            return Err(self.wrong(format!("`reads` is {reads}; it is the share of reads, 0 to 1")));
        }
        if !(1..=servers).contains(&replicas) {
            return Err(self
                .wrong(format!("{replicas} `replicas` on {servers} servers; 1 to {servers} are possible")));
        }
        if replicas > 1 && reads == 1.0 {
            return Err(self.wrong(format!(
                "{replicas} `replicas` are of writes, and all `ios` read; set `reads` below 1, or take it out"
            )));
        }
        self.check_count([hosts.len() - servers, ios, replicas + 1])?;
        // In 2^-32: exact comparisons.
        let reads = (reads * 4_294_967_296.0) as u64;
        let service = w.service.0;
        let (clients, stores) = hosts.split_at(hosts.len() - servers);
        let starts = self.starts(hosts);
        let start = |host: usize| starts.get(&host).copied().unwrap_or_default();
        let mut graph = Graph::default();
        let mut builder = Builder::new(&mut graph, &start);
        let moved = bytes.saturating_mul((clients.len() * ios) as u64);
        builder.begin_transfers(w.kind.word(), hosts.len(), moved);
        // What each client is told last in each of its slots, of which it uses no more than it has operations.
        let depth = depth.min(ios);
        let mut slots: Vec<Vec<Option<OpId>>> = vec![vec![None; depth]; clients.len()];
        for io in 0..ios {
            for (client, slots) in clients.iter().zip(&mut slots) {
                let first = ((u64::from(rng.next_u32()) * servers as u64) >> 32) as usize;
                let is_read = u64::from(rng.next_u32()) < reads;
                let slot = &mut slots[io % depth];
                let mut at = (*client, slot.iter().copied().collect::<Vec<OpId>>());
                let mut pass = |at: &mut (usize, Vec<OpId>), to: usize, bytes: u64| {
                    let after = std::mem::take(&mut at.1);
                    let (_, number) = builder.send(io as u32, (at.0, to, 0), bytes, start(at.0), after);
                    let came = builder.graph.receive(number, Vec::new());
                    *at = (to, vec![came]);
                    if to != *client {
                        at.1 =
                            vec![builder.graph.compute((to, 0), (start(to), service), Some(0), vec![came])];
                    }
                };
                // What is written goes from server to server; the last one answers.
                let way = if is_read { 1 } else { replicas };
                for nth in 0..way {
                    let size = if is_read { COMMAND } else { bytes };
                    pass(&mut at, stores[(first + nth) % servers], size);
                }
                pass(&mut at, *client, if is_read { bytes } else { COMMAND });
                *slot = at.1.pop();
            }
        }
        Ok(graph)
    }
}
