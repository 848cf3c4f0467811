//! Totals at the end of a run: for people, and as JSON for scripts (`--summary`).

use super::off_core::Absence;
use crate::file::write_file;
use crate::output::{self, OUT, say};
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;
use weir_dataplane::drops::{DropReason, LosslessLoss};
use weir_dataplane::stats::{Histogram, LatencyStats, PortStats, Reasons};
use weir_dataplane::switch::Conservation;
use weir_layout::{Grid, counted};
use weir_mgmt::snapshot::NicStats;

/// What one port counted.
#[derive(Debug)]
pub struct PortTotals {
    /// Its name.
    pub name: String,
    /// Counted by the switch.
    pub stats: PortStats,
    /// How long its frames were here.
    pub latency: LatencyStats,
    /// Some of its priority groups are lossless.
    pub lossless: bool,
    /// Counted by the driver.
    pub nic: NicStats,
    /// PFC frames received and sent.
    pub pfc_rx: u64,
    /// PFC frames sent.
    pub pfc_tx: u64,
    /// MAC control frames received that are neither PAUSE nor PFC, or malformed.
    pub invalid_control: u64,
    /// ns this port was paused by its peer, all priorities added up.
    pub paused_ns: u64,
}

impl PortTotals {
    /// Frames of the switch itself that were sent here: of protocols that end at it, and no frames of the books.
    pub fn own_frames(&self) -> u64 {
        let s = &self.stats;
        s.tx_lldp + s.tx_lacp + s.tx_igmp
    }

    /// Frames the driver lost before the switch saw them or after it had sent them: of a lossless class, perhaps.
    fn lossless_drops_possible(&self) -> u64 {
        if self.lossless { self.nic.lost() } else { 0 }
    }
}

/// What a run came to.
#[derive(Debug)]
pub struct Totals {
    /// By port.
    pub ports: Vec<PortTotals>,
    /// Frames in, out, lost, held.
    pub conservation: Conservation,
    /// By worker: what its core did otherwise.
    pub absences: Vec<Absence>,
    /// Length of the run, s.
    pub seconds: f64,
    /// Longest turn of any worker's loop, ns.
    pub longest_turn: u64,
}

impl Totals {
    /// Frames lost, by reason; only those for which there are some.
    fn drops(&self) -> Vec<(DropReason, u64)> {
        self.by_reason(|stats| &stats.drops)
    }

    /// Frames of lossless classes lost, by reason, of those that mean `meant`.
    fn lossless_reasons(&self, meant: LosslessLoss) -> Vec<(DropReason, u64)> {
        let mut reasons = self.by_reason(|stats| &stats.lossless);
        reasons.retain(|(reason, _)| reason.lossless() == meant);
        reasons
    }

    fn by_reason(&self, of: fn(&PortStats) -> &Reasons) -> Vec<(DropReason, u64)> {
        let sum = |reason: DropReason| self.ports.iter().map(|port| of(&port.stats).0[reason as usize]).sum();
        DropReason::ALL.iter().map(|reason| (*reason, sum(*reason))).filter(|(_, n)| *n > 0).collect()
    }

    /// Frames of lossless classes that were received and not delivered.
    fn lossless_drops(&self) -> u64 {
        self.ports.iter().map(|port| port.stats.lossless_drops()).sum()
    }

    /// By port: whether frames of lossless classes came when their headroom was used up.
    pub fn headroom_exhausted(&self) -> Vec<bool> {
        let reason = DropReason::IngressHeadroom as usize;
        self.ports.iter().map(|port| port.stats.lossless.0[reason] > 0).collect()
    }

    /// Those the watchdog dropped.
    fn lossless_drops_watchdog(&self) -> u64 {
        self.ports.iter().map(|port| port.stats.lossless_drops_watchdog()).sum()
    }

    /// Those an operator's order cost.
    fn lossless_drops_operator(&self) -> u64 {
        self.ports.iter().map(|port| port.stats.lossless_drops_operator()).sum()
    }

    fn lossless_drops_possible(&self) -> u64 {
        self.ports.iter().map(PortTotals::lossless_drops_possible).sum()
    }

    /// What was lost of lossless classes, or may have been, in words. Empty: nothing.
    pub fn lossless_losses(&self) -> Vec<String> {
        let reasons = named(&self.lossless_reasons(LosslessLoss::Alarm));
        let some = |frames: u64, words: String| (frames > 0).then_some(words);
        let (lost, watchdog, possible) =
            (self.lossless_drops(), self.lossless_drops_watchdog(), self.lossless_drops_possible());
        [
            some(lost, format!("{} of lossless classes lost ({reasons})", counted(lost, "frame"))),
            some(
                watchdog,
                format!("{} of lossless classes dropped by the watchdog", counted(watchdog, "frame")),
            ),
            some(
                possible,
                format!(
                    "{} lost by drivers on ports with lossless classes, perhaps of one",
                    counted(possible, "frame")
                ),
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Workers that were kept off their cores, in words.
    pub fn absent_workers(&self) -> Vec<String> {
        let run = Duration::from_secs_f64(self.seconds);
        self.absences.iter().filter_map(|absence| absence.words(run)).collect()
    }

    /// What an operator's orders cost lossless classes, in words: told, and no failure. `None`: nothing.
    pub fn ordered_losses(&self) -> Option<String> {
        let (lost, reasons) = (self.lossless_drops_operator(), self.lossless_reasons(LosslessLoss::Operator));
        (lost > 0).then(|| {
            format!("{} of lossless classes lost as ordered ({})", counted(lost, "frame"), named(&reasons))
        })
    }

    /// Every frame is accounted for, and no frame of a lossless class was lost but for what the watchdog dropped and an operator's
    /// orders cost: both are told, and no failure.
    pub fn is_good(&self) -> bool {
        self.conservation.error() == 0 && self.lossless_drops() == 0
    }

    /// Residence of all frames of all ports.
    pub fn residence(&self) -> Histogram {
        let mut sum = Histogram::default();
        for histogram in self.ports.iter().flat_map(|port| &port.latency.residence) {
            sum.add(histogram);
        }
        sum
    }

    /// Prints the totals.
    pub fn print(&self) {
        let heads = [
            "<port",
            ">rx packets",
            ">tx packets",
            ">rx bytes",
            ">tx bytes",
            ">pfc rx",
            ">pfc tx",
            ">nic missed",
        ];
        let mut grid = Grid::new(&heads);
        for port in &self.ports {
            let s = &port.stats;
            let counts = [s.rx_packets, s.tx_packets, s.rx_bytes, s.tx_bytes, port.pfc_rx, port.pfc_tx];
            let counts = counts.into_iter().chain([port.nic.rx_lost()]).map(|count| count.to_string());
            grid.push(std::iter::once(port.name.clone()).chain(counts));
        }
        OUT.text(&format!("\n{}", grid.text()));
        let mut drops = Grid::new(&["<", ">frames", "<reason", "<remedy"]);
        for (reason, frames) in self.drops() {
            let [name, remedy] = [reason.name(), reason.remedy()].map(str::to_owned);
            drops.push(["dropped".to_owned(), frames.to_string(), name, remedy]);
        }
        let invalid: u64 = self.ports.iter().map(|port| port.invalid_control).sum();
        if invalid > 0 {
            let what = "MAC control that is neither PAUSE nor PFC, or malformed: it ends here, and is no frame of the books";
            drops.push([
                "swallowed".to_owned(),
                invalid.to_string(),
                "invalid_control".to_owned(),
                what.to_owned(),
            ]);
        }
        OUT.text(&drops.body());
        for words in self.lossless_losses().iter().chain(&self.absent_workers()) {
            say!("ALARM: {words}");
        }
        if let Some(words) = self.ordered_losses() {
            say!("{words}");
        }
        let residence = self.residence();
        if let (Some(p50), Some(p99), Some(p999), Some(max)) =
            (residence.quantile(0.5), residence.quantile(0.99), residence.quantile(0.999), residence.max())
        {
            say!("residence p50 {p50} ns, p99 {p99} ns, p99.9 {p999} ns, max {max} ns");
        }
        let c = &self.conservation;
        say!(
            "conservation: received {} + copies {} = transmitted {} + dropped {} + held {}: error {}",
            c.received,
            c.copies,
            c.transmitted,
            c.dropped,
            c.held,
            c.error()
        );
    }

    /// The same as JSON. The keys are an interface.
    pub fn json(&self) -> Value {
        let ports: Vec<Value> = self.ports.iter().map(port_json).collect();
        let by_name = |reasons: Vec<(DropReason, u64)>| -> Map<String, Value> {
            reasons.into_iter().map(|(reason, frames)| (reason.name().to_owned(), json!(frames))).collect()
        };
        let absence = |a: &Absence| json!({ "lcore": a.lcore, "off_core_ns": a.ns });
        let residence = self.residence();
        let at = |q| residence.quantile(q).unwrap_or(0);
        json!({
            "ports": ports,
            "drops": by_name(self.drops()),
            "lossless_drops": self.lossless_drops(),
            "lossless_drops_by_reason": by_name(self.lossless_reasons(LosslessLoss::Alarm)),
            "lossless_drops_watchdog": self.lossless_drops_watchdog(),
            "lossless_drops_operator": self.lossless_drops_operator(),
            "lossless_drops_possible": self.lossless_drops_possible(),
            "lcores": self.absences.iter().map(absence).collect::<Vec<_>>(),
            "received": self.conservation.received,
            "copies": self.conservation.copies,
            "transmitted": self.conservation.transmitted,
            "dropped": self.conservation.dropped,
            "held": self.conservation.held,
            "conservation_error": self.conservation.error(),
            "latency_ns": {
                "p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "max": residence.max().unwrap_or(0),
            },
            "longest_turn_ns": self.longest_turn,
            "seconds": self.seconds,
            "output_lines_lost": output::lost(),
        })
    }

    /// Writes the JSON to a file, whole or not at all; to what is no plain file (a device, a pipe, a link)
    /// as it is, since that must not be replaced.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_file(path, format!("{:#}\n", self.json()))
    }
}

/// `ingress.headroom_exhausted 3, egress.port_down 1`
fn named(reasons: &[(DropReason, u64)]) -> String {
    let each = reasons.iter().map(|(reason, n)| format!("{} {n}", reason.name()));
    each.collect::<Vec<_>>().join(", ")
}

fn port_json(port: &PortTotals) -> Value {
    let s = &port.stats;
    json!({
        "name": port.name,
        "rx_packets": s.rx_packets,
        "tx_packets": s.tx_packets,
        "rx_bytes": s.rx_bytes,
        "tx_bytes": s.tx_bytes,
        "copies": s.copies,
        "malformed_l3": s.malformed_l3,
        "checksums_completed": s.checksums_completed,
        "flooded": s.flooded,
        "rx_control": s.rx_control,
        "rx_lldp": s.rx_lldp,
        "tx_lldp": s.tx_lldp,
        "rx_lacp": s.rx_lacp,
        "tx_lacp": s.tx_lacp,
        "rx_igmp": s.rx_igmp,
        "igmp_unread": s.igmp_unread,
        "tx_igmp": s.tx_igmp,
        "tx_control": s.tx_control,
        "pfc_rx": port.pfc_rx,
        "pfc_tx": port.pfc_tx,
        "invalid_control": port.invalid_control,
        "paused_ns": port.paused_ns,
        "ecn_marked": s.ecn_marked.iter().sum::<u64>(),
        "queue_packets": s.queue_packets,
        "queue_drops": s.queue_drops,
        "pg_drops": s.pg_drops,
        "ecn_no_memory": s.ecn_no_memory.iter().sum::<u64>(),
        "lossless_drops": s.lossless_drops(),
        "lossless_drops_watchdog": s.lossless_drops_watchdog(),
        "lossless_drops_operator": s.lossless_drops_operator(),
        "lossless_drops_possible": port.lossless_drops_possible(),
        "nic_missed": port.nic.rx_missed,
        "nic_no_mbuf": port.nic.rx_no_mbuf,
        "nic_errors": port.nic.rx_errors + port.nic.tx_errors,
    })
}
