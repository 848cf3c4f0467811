//! A run turned into the rows of the data set.
use serde_json::{Map, Value};

use super::acks::AckLog;
use super::dialect::Dialect;
use super::log::{Log, QueuePeaks};
use super::spec::Scenario;
use crate::ns3::config::{BuildError, Control};
use crate::ns3::port::HEADERS;
use crate::ns3::routing::{Neighbours, ends};
use crate::ns3::sim::Sim;

/// A finished run of a scenario.
#[derive(Debug)]
pub struct Run<'a> {
    dialect: &'static Dialect,
    scenario: &'a Scenario,
    sim: Sim<Log>,
}

/// Completion times of the flows that completed, in the order of the flows.
fn times(sim: &Sim<Log>) -> Vec<u64> {
    sim.flows().iter().filter_map(|flow| Some(flow.finished? - flow.spec.start)).collect()
}

impl<'a> Run<'a> {
    /// Builds and runs a scenario with a seed for the marking coin.
    ///
    /// # Errors
    /// When the scenario is not a network.
    pub(super) fn new(
        dialect: &'static Dialect,
        scenario: &'a Scenario,
        seed: u64,
    ) -> Result<Self, BuildError> {
        let config = crate::ns3::config::Config { seed, ..scenario.config.clone() };
        let log = Log::new(&scenario.topology, &scenario.flows, &config);
        let mut sim = Sim::new(&scenario.topology, &scenario.flows, &config, log)?;
        if let Some(sampler) = scenario.sampler {
            sim.sample(sampler);
        }
        sim.run();
        Ok(Self { dialect, scenario, sim })
    }

    /// Rows of `pfc_events` without the name.
    pub fn pfc_events(&self) -> Vec<Vec<String>> {
        let mut rows = self.sim.recorder().pfc.clone();
        let first = self.dialect.pfc_sent_first;
        rows.sort_by_cached_key(|row| (row[0].parse::<u64>().ok(), first && row[1] != "S"));
        rows
    }

    /// Rows of `rate_events` without the name.
    pub fn rate_events(&self) -> &[Vec<String>] {
        &self.sim.recorder().rates
    }

    /// Rows of `qdepth_1us` without the name.
    pub fn depths(&self) -> &[Vec<String>] {
        &self.sim.recorder().depths
    }

    /// Rows of `fct` without the name: one per completed flow.
    pub fn completions(&self) -> Vec<Vec<String>> {
        let columns = self.dialect.columns("fct");
        let Scenario { topology, config, .. } = self.scenario;
        let neighbours = Neighbours::new(topology, &ends(topology));
        let log = self.sim.recorder();
        let row = |i: u32| {
            let flow = &self.sim.flows()[i as usize];
            let spec = flow.spec;
            let fct = flow.finished? - spec.start;
            let path = neighbours.path(spec.src, spec.dst, config.payload.into())?;
            // What congestion control adds to headers is not part of it.
            let frames = u64::from(spec.bytes.div_ceil(config.payload));
            let wire = u64::from(spec.bytes) + frames * u64::from(HEADERS);
            let ideal = u128::from(path.rtt) + u128::from(wire) * 8_000_000_000 / u128::from(path.rate);
            let cell = |column: &&str| match *column {
                "src" => spec.src.to_string(),
                "dst" => spec.dst.to_string(),
                "sport" => log.acks.name(i)[2].to_string(),
                "bytes" => spec.bytes.to_string(),
                "start_ns" => spec.start.to_string(),
                "fct_ns" => fct.to_string(),
                _ => ideal.to_string(),
            };
            Some(columns.iter().map(cell).collect())
        };
        if self.dialect.fct_by_completion {
            log.completed.iter().filter_map(|&i| row(i)).collect()
        } else {
            (0..self.sim.flows().len() as u32).filter_map(row).collect()
        }
    }

    /// Rows of `drops_nacks` without the name.
    pub fn losses(&self) -> &[Vec<String>] {
        &self.sim.recorder().losses
    }

    /// Rows of senders driven by acknowledgements.
    pub fn acks(&self) -> &AckLog {
        &self.sim.recorder().acks
    }

    /// Largest round trip (ns) and bandwidth-delay product (bytes) of the topology.
    pub fn largest(&self) -> [u64; 2] {
        let Scenario { topology, config, .. } = self.scenario;
        let largest = Neighbours::new(topology, &ends(topology)).largest(config.payload.into());
        [largest.rtt, largest.bdp]
    }

    /// One column of `summary`, by name; `None` for a column that says nothing about the model:
    /// `events` counts those of the reference's own queue.
    pub fn summary(&self, column: &str) -> Option<String> {
        let (log, totals, switches) = (self.sim.recorder(), self.sim.totals(), self.sim.switches());
        let times = times(&self.sim);
        let per_switch = |f: fn(&crate::ns3::switch::Switch) -> u64| switches.iter().map(f).sum::<u64>();
        let queues = || log.peaks.iter().flat_map(|peaks| peaks.queues.iter().flatten());
        let paused = || log.paused.values().map(|paused| paused.total);
        let mut sorted = times.clone();
        sorted.sort_unstable();
        let value = match column {
            "deterministic" if matches!(self.scenario.config.control, Control::Pint(_)) => {
                return Some("yes (rand sequence)".to_owned());
            }
            "deterministic" if self.scenario.deterministic => return Some("yes".to_owned()),
            "deterministic" => return Some("no (ECN coin)".to_owned()),
            "flows" => self.scenario.flows.len() as u64,
            "completed" => times.len() as u64,
            "fct_min_ns" | "fct_mean_ns" | "fct_median_ns" | "fct_max_ns" if times.is_empty() => {
                return Some(String::new());
            }
            "fct_min_ns" => sorted[0],
            "fct_mean_ns" => rounded(times.iter().sum(), times.len() as u64),
            "fct_median_ns" => {
                let n = sorted.len();
                rounded(sorted[(n - 1) / 2] + sorted[n / 2], 2)
            }
            "fct_max_ns" => sorted[sorted.len() - 1],
            "ecn_marked_frames" => per_switch(|s| s.marks),
            "acks_with_cnp" => totals.acks_with_cnp,
            "cc_rows" => log.acks.count,
            "pauses_sent" => per_switch(|s| s.pauses),
            "resumes_sent" => per_switch(|s| s.resumes),
            "pauses_received_by_switches" => log.pauses_at_switches,
            "first_pause_rx_ns" => return Some(log.first_pause.map_or(String::new(), |at| at.to_string())),
            "paused_ns_sum" => paused().sum(),
            "paused_ns_max_one" => paused().max().unwrap_or(0),
            "drops" => per_switch(|s| s.drops),
            "nacks" => totals.nacks,
            "data_tx" => totals.data_sent,
            "acks_rx" => totals.acks_received,
            "frames_forwarded" if self.dialect.forwards_pfc => per_switch(|s| s.forwarded),
            "frames_forwarded" => queues().map(|q| q.forwarded).sum(),
            "max_egress_queue_B" => queues().map(|q| q.egress).max().unwrap_or(0).into(),
            "max_ingress_pg_B" => queues().map(|q| self.ingress(q)).max().unwrap_or(0).into(),
            "max_headroom_pg_B" => queues().map(|q| q.headroom).max().unwrap_or(0).into(),
            "max_shared_B" => log.peaks.iter().map(|p| p.shared).max().unwrap_or(0).into(),
            "max_total_B" => log.peaks.iter().map(|p| p.held).max().unwrap_or(0),
            _ => return None,
        };
        Some(value.to_string())
    }

    /// What the run has for an entry of `switch_stats`, key by key.
    pub fn switch_stat(&self, entry: &Map<String, Value>, key: &str) -> Option<u64> {
        let s = self.switch_index(entry, "id")?;
        let (switch, peaks) = (self.sim.switches().get(s)?, self.sim.recorder().peaks.get(s)?);
        Some(match key {
            "id" => entry.get("id")?.as_u64()?,
            "maxshared" => peaks.shared.into(),
            "maxtotal" => peaks.held,
            "drops" => switch.drops,
            "fwd" => switch.forwarded,
            "marks" => switch.marks,
            "pause" => switch.pauses,
            "resume" => switch.resumes,
            "bufsz" => self.scenario.config.buffer.into(),
            "total_hdrm" => switch.params.headroom.iter().map(|&h| u64::from(h)).sum(),
            "total_rsrv" => switch.mmu.ports() as u64 * u64::from(self.scenario.config.reserve),
            "left_shared" => switch.mmu.shared().into(),
            "left_tot" => switch.mmu.held(),
            _ => return None,
        })
    }

    /// What the run has for an entry of `port_queue_stats`, key by key; `None` for the marking, which is
    /// an input.
    pub fn queue_stat(&self, entry: &Map<String, Value>, key: &str) -> Option<u64> {
        let s = self.switch_index(entry, "switch")?;
        let port = usize::try_from(entry.get("port")?.as_u64()?.checked_sub(1)?).ok()?;
        let queue = usize::try_from(entry.get("queue")?.as_u64()?).ok()?;
        let peaks = self.sim.recorder().peaks.get(s)?.queues.get(port)?.get(queue)?;
        let params = &self.sim.switches().get(s)?.params;
        Some(match key {
            "switch" | "port" | "queue" => entry.get(key)?.as_u64()?,
            "max_egress" => peaks.egress.into(),
            "max_ingress" => self.ingress(peaks).into(),
            "max_hdrm" => peaks.headroom.into(),
            "drops" => peaks.drops,
            "marks" => peaks.marks,
            "fwd" => peaks.forwarded,
            "pauses" => peaks.pauses,
            "resumes" => peaks.resumes,
            "hdrm_cfg" => (*params.headroom.get(port)?).into(),
            "shift" => (*params.shift.get(port)?).into(),
            _ => return None,
        })
    }

    fn ingress(&self, peaks: &QueuePeaks) -> u32 {
        if self.dialect.ingress_has_headroom { peaks.ingress } else { peaks.used }
    }

    fn switch_index(&self, entry: &Map<String, Value>, key: &str) -> Option<usize> {
        let id = entry.get(key)?.as_u64()?;
        usize::try_from(id.checked_sub(self.scenario.topology.hosts.into())?).ok()
    }
}

/// `sum / count` to the nearest whole, halves to even.
fn rounded(sum: u64, count: u64) -> u64 {
    let (whole, rest) = (sum / count, sum % count);
    match (2 * rest).cmp(&count) {
        std::cmp::Ordering::Less => whole,
        std::cmp::Ordering::Greater => whole + 1,
        std::cmp::Ordering::Equal => whole + whole % 2,
    }
}
