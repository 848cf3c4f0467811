//! Everything a run tells, kept as the tables of the data set keep it.
use crate::models::hpcc::Hpcc;
use weir_dataplane::types::{Nanos, PRIORITIES};
use weir_endpoint::dcqcn::ns3::Step;

use super::acks::{AckLog, names};
use crate::ns3::config::{Config, Control, FlowSpec, Topology};
use crate::ns3::control::Heeded;
use crate::ns3::record::{PfcReceived, PfcSent, RateChange, Recorder};

/// Largest values seen of one (switch, port, queue), in bytes, and counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueuePeaks {
    /// Egress queue.
    pub egress: u32,
    /// Ingress group, headroom included.
    pub ingress: u32,
    /// Ingress group, headroom not included.
    pub used: u32,
    /// Ingress group, headroom.
    pub headroom: u32,
    /// Frames that left by it, and how many of them were marked.
    pub forwarded: u64,
    /// See [`Self::forwarded`].
    pub marks: u64,
    /// Frames that came in by it and were refused.
    pub drops: u64,
    /// Pauses and resumes sent for it.
    pub pauses: u64,
    /// See [`Self::pauses`].
    pub resumes: u64,
}

/// Largest values seen of one switch.
#[derive(Clone, Debug, Default)]
pub struct SwitchPeaks {
    /// Shared part in use.
    pub shared: u32,
    /// All bytes held.
    pub held: u64,
    /// By port and queue, from 0.
    pub queues: Vec<[QueuePeaks; PRIORITIES]>,
}

/// Time a port was paused.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paused {
    since: Option<Nanos>,
    /// Sum of all pauses that ended.
    pub total: Nanos,
}

/// The log of one run. Rows are cells after the name of the scenario.
#[derive(Debug)]
pub struct Log {
    /// Rows of `pfc_events`.
    pub pfc: Vec<Vec<String>>,
    /// Rows of `rate_events`.
    pub rates: Vec<Vec<String>>,
    /// Rows of `qdepth_1us`.
    pub depths: Vec<Vec<String>>,
    /// Rows of `drops_nacks`.
    pub losses: Vec<Vec<String>>,
    /// Flows in the order in which they completed.
    pub completed: Vec<u32>,
    /// Rows of senders driven by acknowledgements.
    pub acks: AckLog,
    /// Maxima by switch.
    pub peaks: Vec<SwitchPeaks>,
    /// Pause times by node, port and priority.
    pub paused: std::collections::BTreeMap<(u32, u16, u8), Paused>,
    /// When the first pause arrived anywhere.
    pub first_pause: Option<Nanos>,
    /// Pauses that arrived at switches.
    pub pauses_at_switches: u64,
    hosts: u32,
    sources: Vec<u32>,
    last_depth: Option<(u32, u32)>,
}

impl Log {
    /// An empty log of a run with these nodes and flows.
    pub fn new(topology: &Topology, flows: &[FlowSpec], config: &Config) -> Self {
        let multi_rate = matches!(config.control, Control::Hpcc(p) if p.multi_rate);
        let mut peaks = vec![SwitchPeaks::default(); topology.switches as usize];
        for end in topology.links.iter().flat_map(|link| [link.a, link.b]) {
            if let Some(peaks) = end.checked_sub(topology.hosts).and_then(|s| peaks.get_mut(s as usize)) {
                peaks.queues.push(Default::default());
            }
        }
        Self {
            pfc: Vec::new(),
            rates: Vec::new(),
            depths: Vec::new(),
            losses: Vec::new(),
            completed: Vec::new(),
            acks: AckLog::new(names(flows), multi_rate),
            peaks,
            paused: std::collections::BTreeMap::new(),
            first_pause: None,
            pauses_at_switches: 0,
            hosts: topology.hosts,
            sources: flows.iter().map(|flow| flow.src).collect(),
            last_depth: None,
        }
    }

    fn queue(&mut self, switch: usize, port: usize, prio: usize) -> &mut QueuePeaks {
        &mut self.peaks[switch].queues[port][prio]
    }
}

fn row(cells: &[&dyn ToString]) -> Vec<String> {
    cells.iter().map(|cell| cell.to_string()).collect()
}

impl Recorder for Log {
    fn pfc_sent(&mut self, e: PfcSent) {
        let state = u8::from(e.pause);
        let (switch, port) = ((e.node - self.hosts) as usize, usize::from(e.port) - 1);
        let counts = self.queue(switch, port, e.prio.into());
        counts.pauses += u64::from(e.pause);
        counts.resumes += u64::from(!e.pause);
        self.pfc.push(row(&[
            &e.at,
            &"S",
            &e.node,
            &e.port,
            &e.prio,
            &state,
            &e.ingress,
            &e.headroom,
            &e.shared,
            &e.threshold,
        ]));
    }

    fn pfc_received(&mut self, e: PfcReceived) {
        let state = u8::from(e.pause);
        self.pfc.push(row(&[&e.at, &"R", &e.node, &e.port, &e.prio, &state, &"", &"", &"", &""]));
        let paused = self.paused.entry((e.node, e.port, e.prio)).or_default();
        if e.pause {
            paused.since.get_or_insert(e.at);
            self.first_pause.get_or_insert(e.at);
            self.pauses_at_switches += u64::from(e.node >= self.hosts);
        } else if let Some(since) = paused.since.take() {
            paused.total += e.at - since;
        }
    }

    fn rate_changed(&mut self, e: RateChange) {
        let event = match e.step {
            Step::First => "first",
            Step::Cut => "dec",
            Step::Raise => "inc",
            Step::Cnp | Step::Alpha | Step::NoCut => return,
        };
        let src = self.sources[e.flow as usize];
        self.rates.push(row(&[&e.at, &src, &event, &e.rate, &e.target, &e.alpha, &e.stage]));
    }

    fn stored(&mut self, _: Nanos, switch: usize, mmu: &Hpcc, in_port: usize, prio: usize, out_port: usize) {
        let peaks = &mut self.peaks[switch];
        peaks.shared = peaks.shared.max(mmu.shared());
        peaks.held = peaks.held.max(mmu.held());
        let ingress = &mut peaks.queues[in_port][prio];
        ingress.ingress = ingress.ingress.max(mmu.used(in_port, prio) + mmu.headroom(in_port, prio));
        ingress.used = ingress.used.max(mmu.used(in_port, prio));
        ingress.headroom = ingress.headroom.max(mmu.headroom(in_port, prio));
        let egress = &mut peaks.queues[out_port][prio].egress;
        *egress = (*egress).max(mmu.egress(out_port, prio));
    }

    fn left(&mut self, _: Nanos, switch: usize, _: &Hpcc, out_port: usize, prio: usize, marked: bool) {
        let counts = self.queue(switch, out_port, prio);
        counts.forwarded += 1;
        counts.marks += u64::from(marked);
    }

    fn refused(&mut self, at: Nanos, switch: usize, in_port: usize, prio: u8) {
        self.queue(switch, in_port, prio.into()).drops += 1;
        let (node, port) = (self.hosts + switch as u32, in_port + 1);
        self.losses.push(row(&[&at, &"drop_at_switch", &node, &port, &prio, &""]));
    }

    fn nack_received(&mut self, at: Nanos, flow: u32, psn: u32) {
        let [src, dst, sport] = self.acks.name(flow);
        self.losses.push(row(&[&at, &"nack_received", &src, &dst, &sport, &psn]));
    }

    fn completed(&mut self, _: Nanos, flow: u32) {
        self.completed.push(flow);
    }

    fn heeded(&mut self, e: &Heeded<'_>) {
        self.acks.heeded(e);
    }

    fn sampled(&mut self, at: Nanos, egress: u32, shared: u32) {
        if self.last_depth != Some((egress, shared)) {
            self.last_depth = Some((egress, shared));
            self.depths.push(row(&[&at, &egress, &shared]));
        }
    }
}
