//! Flows that arrive at random.

use super::{Carriage, MAX_FLOWS, Reader};
use crate::fabric::faults::both;
use crate::fabric::graph::{Graph, Message};
use crate::fabric::sizes::SizeDistribution;
use crate::fabric::spec::{FabricSpec, FrameType, Pattern, Profile, Workload};
use crate::fabric::{FabricError, congestion, hosts};
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

/// Bytes on the wire of messages.
struct OnTheWire {
    /// Payload of a full frame.
    payload: u64,
    /// By the payload of a last frame: bytes on the wire of all that have so much at most, one of each.
    up_to: Vec<f64>,
}

impl OnTheWire {
    fn new(spec: &FabricSpec, w: &Workload) -> Self {
        let carriage = if w.frames == FrameType::Type3 { Carriage::Raw } else { Carriage::Pair };
        let (payload, more) = (u64::from(spec.host.payload), congestion::header_bytes(spec, w.cc()));
        let mut sum = 0.0;
        let frame = |bytes: u64| {
            sum += hosts::frame_bytes(spec, carriage, bytes + u64::from(more)) as f64;
            sum
        };
        Self { payload, up_to: std::iter::once(0.0).chain((1..=payload).map(frame)).collect() }
    }

    /// Those of one message of each size up to `bytes`.
    fn up_to(&self, bytes: u64) -> f64 {
        let (full, rest) = (bytes / self.payload, (bytes % self.payload) as usize);
        let all = self.up_to[self.payload as usize];
        let frame = all - self.up_to[self.payload as usize - 1];
        let (full, payload) = (full as f64, self.payload as f64);
        payload * frame * full * (full - 1.0) / 2.0
            + full * all
            + rest as f64 * full * frame
            + self.up_to[rest]
    }

    fn mean(&self, sizes: Sizes) -> f64 {
        match sizes {
            Sizes::All(bytes) => self.up_to(bytes) - self.up_to(bytes.saturating_sub(1)),
            Sizes::Drawn(sizes) => sizes.mean_of(|bytes| self.up_to(bytes)),
        }
    }
}

/// What workloads offer, which say it in payload, on the wire.
pub(in crate::fabric) fn offered(spec: &FabricSpec) -> Vec<String> {
    let of = |(index, w): (usize, &Workload)| {
        let sizes = w.bytes.map(|bytes| Sizes::All(bytes.0)).or(w.sizes.map(Sizes::Drawn))?;
        let load = w.load.filter(|_| w.kind == Pattern::Poisson)?;
        let on_the_wire = load * OnTheWire::new(spec, w).mean(sizes) / sizes.mean();
        let too_much = if on_the_wire > 1.0 { ", which is more than a link carries" } else { "" };
        Some(format!(
            "Workload {} (poisson) offers {load:.3} of its links in payload, {on_the_wire:.3} with headers, preambles and \
             gaps{too_much}.",
            index + 1
        ))
    };
    match spec.profile {
        Profile::Weir => spec.workloads.iter().enumerate().filter_map(of).collect(),
        // Frames of the published simulator have no preamble, and it says its figures in them.
        Profile::Ns3Hpcc => Vec::new(),
    }
}

impl Reader<'_> {
    pub(super) fn poisson(&self, rng: &mut Rng) -> Result<Graph, FabricError> {
        let times = both(self.need("load", self.w.load), self.need("duration", self.w.duration));
        let ((load, duration), sizes) = both(times, self.sizes())?;
        let duration = duration.0;
        if !(load > 0.0 && load <= 1.0) {
            return Err(self.wrong(format!("`load` is {load}; it must be above 0 and at most 1")));
        }
        let n = self.plan.stations();
        let to = self.w.to.as_ref().map(|_| self.host("to", &self.w.to)).transpose()?;
        let rate = |station: usize| self.plan.line_of(station) as f64;
        // The load of each sender's own link, or of the one receiver's, which all others share.
        let mean_gap = |from: usize| {
            let offered = to.map_or_else(|| rate(from), |to| rate(to) / (n - 1) as f64);
            sizes.mean() * 8.0 * 1e9 / (load * offered)
        };
        let senders = || (0..n).filter(|from| Some(*from) != to);
        if senders().map(|from| duration as f64 / mean_gap(from)).sum::<f64>() > MAX_FLOWS as f64 {
            return Err(self.wrong(format!("more than {MAX_FLOWS} flows; make `duration` shorter")));
        }
        let mut graph = Graph::default();
        for from in senders() {
            let mean_gap = mean_gap(from);
            // What is rounded are the times, not the gaps, which may be shorter than the clock counts.
            let mut at = exponential(mean_gap, rng);
            while at < duration as f64 {
                let to = to.unwrap_or_else(|| {
                    let other = ((u64::from(rng.next_u32()) * (n as u64 - 1)) >> 32) as usize;
                    if other < from { other } else { other + 1 }
                });
                let bytes = sizes.draw(rng);
                let message = Message::new(from, to, bytes);
                graph.send(message, self.w.start.0 + at.round() as u64, Vec::new());
                at += exponential(mean_gap, rng);
            }
        }
        Ok(graph)
    }

    fn sizes(&self) -> Result<Sizes, FabricError> {
        match self.w.bytes {
            Some(bytes) => Ok(Sizes::All(bytes.0)),
            None => self.need("sizes", self.w.sizes).map(Sizes::Drawn),
        }
    }
}

/// An exponentially distributed time by von Neumann's method: comparisons only, so every machine draws
/// the same.
fn exponential(mean: f64, rng: &mut Rng) -> f64 {
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
            return (whole + f64::from(first) / 4_294_967_296.0) * mean;
        }
        whole += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{load, run};

    fn spec(keys: &str) -> FabricSpec {
        let text = format!(
            "name = \"x\"\nstop_time = \"1s\"\n[topology]\nkind = \"star\"\nhosts = 3\n[link]\nrate = \"400G\"\n\
             [[workload]]\nkind = \"poisson\"\n{keys}"
        );
        load("x.toml", &text).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Messages that follow one another faster than the clock counts are as many as `load` says.
    #[test]
    fn short_messages_come_as_often_as_their_load_says() {
        for (bytes, load) in [(2, 0.05), (64, 0.9), (1500, 0.5)] {
            let spec = spec(&format!("bytes = {bytes}\nload = {load}\nduration = \"20us\"\nto = \"h0\"\n"));
            let plan = crate::fabric::topology::lay_out(&spec).unwrap();
            let collectives = Default::default();
            let reader = Reader { plan: &plan, collectives: &collectives, index: 0, w: &spec.workloads[0] };
            let got: usize =
                (0..20).map(|seed| reader.poisson(&mut Rng::new(seed)).unwrap().messages.len()).sum();
            let want = 20.0 * load * 400.0 * 20_000.0 / 8.0 / f64::from(bytes);
            // Four times the standard deviation of a Poisson count.
            assert!((got as f64 - want).abs() < 4.0 * want.sqrt(), "{bytes} bytes: {got} messages, {want}");
        }
    }

    /// Each sender offers the load of its own link, whatever `[link]` says.
    #[test]
    fn a_load_is_of_the_link_of_its_sender() {
        let text = "name = \"x\"\nstop_time = \"1s\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\"]\nswitches = [\"s\"]\n\
                    links = [{ a = \"a\", b = \"s\", rate = \"10G\" }, { a = \"b\", b = \"s\", rate = \"40G\" }]\n\
                    [[workload]]\nkind = \"poisson\"\nbytes = 1000\nload = 0.5\nduration = \"1ms\"\n";
        let spec = load("x.toml", text).unwrap_or_else(|e| panic!("{e}"));
        let plan = crate::fabric::topology::lay_out(&spec).unwrap();
        let collectives = Default::default();
        let reader = Reader { plan: &plan, collectives: &collectives, index: 0, w: &spec.workloads[0] };
        let graph = reader.poisson(&mut Rng::new(1)).unwrap();
        for (from, want) in [(0, 625.0_f64), (1, 2500.0)] {
            let got = graph.messages.iter().filter(|m| m.from == from).count() as f64;
            assert!((got - want).abs() < 4.0 * want.sqrt(), "sender {from}: {got} messages, {want}");
        }
    }

    #[test]
    fn a_report_says_what_a_load_is_on_the_wire() {
        let said = |keys: &str| offered(&spec(&format!("{keys}duration = \"1us\"\n")))[0].clone();
        // 1024 bytes of payload are 1106 on the wire (58 of headers, 4 of FCS, 8 and 12 of preamble and gap); 64 are 146.
        assert!(
            said("bytes = 1024\nload = 0.5\n").contains("offers 0.500 of its links in payload, 0.540 with")
        );
        assert!(said("bytes = 2048\nload = 0.5\n").contains("0.540 with"));
        assert!(said("bytes = 1088\nload = 0.5\n").contains("0.575 with"));
        let beyond = said("bytes = 64\nload = 0.5\n");
        assert!(beyond.contains("1.141 with") && beyond.contains("more than a link carries"), "{beyond}");
        // That of drawn sizes is the mean over many draws.
        for sizes in [SizeDistribution::FbHadoop, SizeDistribution::Websearch] {
            let word = if sizes == SizeDistribution::FbHadoop { "fb_hadoop" } else { "websearch" };
            let spec = spec(&format!("sizes = \"{word}\"\nload = 0.5\nduration = \"1us\"\n"));
            let (wire, mut rng) = (OnTheWire::new(&spec, &spec.workloads[0]), Rng::new(3));
            let (mut payload, mut all) = (0.0, 0.0);
            for _ in 0..1_000_000 {
                let bytes = sizes.draw(&mut rng);
                payload += bytes as f64;
                all += wire.mean(Sizes::All(bytes));
            }
            let off = wire.mean(Sizes::Drawn(sizes)) / sizes.mean() / (all / payload) - 1.0;
            assert!(off.abs() < 0.001, "{word}: {off}");
        }
        let report = run(&spec("bytes = 1024\nload = 0.5\nduration = \"1us\"\n")).unwrap();
        assert!(report.why.iter().any(|why| why.contains("0.540 with headers")), "{:?}", report.why);
    }

    #[test]
    fn exponential_times_have_their_mean_and_median() {
        let mut rng = Rng::new(2);
        let mut all: Vec<f64> = (0..100_000).map(|_| exponential(10_000.0, &mut rng)).collect();
        all.sort_unstable_by(f64::total_cmp);
        let mean = all.iter().sum::<f64>() / 1e5;
        assert!((mean / 10_000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((all[50_000] / 6931.0 - 1.0).abs() < 0.02, "{}", all[50_000]);
    }
}
