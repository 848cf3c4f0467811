//! Flows that arrive at random.

use super::{MAX_FLOWS, Reader};
use crate::fabric::FabricError;
use crate::fabric::graph::{Graph, Message};
use crate::fabric::sizes::SizeDistribution;
use crate::fabric::spec::{FabricSpec, Topology};
use weir_dataplane::rng::Rng;

/// Sizes of flows.
#[derive(Clone, Copy)]
enum Sizes {
    All(u64),
    Drawn(SizeDistribution),
}

impl Sizes {
    fn mean(self) -> f64 {
        match self {
            Self::All(bytes) => bytes as f64,
            Self::Drawn(sizes) => sizes.mean(),
        }
    }

    fn draw(self, rng: &mut Rng) -> u64 {
        match self {
            Self::All(bytes) => bytes,
            Self::Drawn(sizes) => sizes.draw(rng),
        }
    }
}

impl Reader<'_> {
    pub(super) fn poisson(&self, spec: &FabricSpec, rng: &mut Rng) -> Result<Graph, FabricError> {
        let load = self.need("load", self.w.load)?;
        let sizes = match self.w.bytes {
            Some(bytes) => Sizes::All(bytes.0.max(1)),
            None => Sizes::Drawn(self.need("sizes", self.w.sizes)?),
        };
        let duration = self.need("duration", self.w.duration)?.0;
        if !(load > 0.0 && load <= 1.0) {
            return Err(self.wrong(format!("`load` is {load}; it must be above 0 and at most 1")));
        }
        let n = self.plan.stations();
        let to = self.w.to.as_ref().map(|_| self.host("to", &self.w.to)).transpose()?;
        // The load of each sender's link, or of the one receiver's, which all others share.
        let (rate, senders) = match to {
            None => (self.offered_rate(spec)?, 1.0),
            Some(to) => (self.plan.links[self.plan.ports[to][0]].spec.rate.0, (n - 1) as f64),
        };
        let mean_gap = senders * sizes.mean() * 8.0 * 1e9 / (load * rate as f64);
        if n as f64 * duration as f64 / mean_gap > MAX_FLOWS as f64 {
            return Err(self.wrong(format!("more than {MAX_FLOWS} flows; make `duration` shorter")));
        }
        let mut graph = Graph::default();
        for from in (0..n).filter(|from| Some(*from) != to) {
            let mut at = exponential(mean_gap, rng);
            while at < duration {
                let to = to.unwrap_or_else(|| {
                    let other = ((u64::from(rng.next_u32()) * (n as u64 - 1)) >> 32) as usize;
                    if other < from { other } else { other + 1 }
                });
                let bytes = sizes.draw(rng);
                let message = Message::new(from, to, bytes);
                graph.send(message, self.w.start.0 + at, Vec::new());
                at += exponential(mean_gap, rng);
            }
        }
        Ok(graph)
    }

    /// Rate of the links of hosts that all may send, bit/s: that of `[link]`, unless a file has the links.
    fn offered_rate(&self, spec: &FabricSpec) -> Result<u64, FabricError> {
        if !matches!(spec.topology, Topology::HpccFile { .. }) {
            return Ok(spec.link.rate.0);
        }
        let rate = |host: usize| self.plan.links[self.plan.ports[host][0]].spec.rate.0;
        match (1..self.plan.stations()).find(|host| rate(*host) != rate(0)) {
            None => Ok(rate(0)),
            Some(_) => Err(self.wrong("`load` is of links of one rate, and hosts have several; give a `to`")),
        }
    }
}

/// An exponentially distributed time by von Neumann's method: comparisons only, so every machine draws
/// the same.
fn exponential(mean: f64, rng: &mut Rng) -> u64 {
    let mut whole = 0.0;
    loop {
        let first = rng.next_u32();
        let (mut last, mut run) = (first, 1);
        loop {
            let next = rng.next_u32();
            if next >= last {
                break;
            }
            (last, run) = (next, run + 1);
        }
        if run % 2 == 1 {
            return ((whole + f64::from(first) / 4_294_967_296.0) * mean).round() as u64;
        }
        whole += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_times_have_their_mean_and_median() {
        let mut rng = Rng::new(2);
        let mut all: Vec<u64> = (0..100_000).map(|_| exponential(10_000.0, &mut rng)).collect();
        all.sort_unstable();
        let mean = all.iter().sum::<u64>() as f64 / 1e5;
        assert!((mean / 10_000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((all[50_000] as f64 / 6931.0 - 1.0).abs() < 0.02, "{}", all[50_000]);
    }
}
