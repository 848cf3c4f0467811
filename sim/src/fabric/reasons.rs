//! Why there was no PFC, why nothing was marked, why something was dropped: in sentences, with numbers.

use super::report::{PortResult, Report, SwitchResult};
use weir_dataplane::config::Config;
use weir_dataplane::drops::DropReason;

/// What the sentences need beyond the report.
#[derive(Clone, Debug)]
pub(super) struct Context {
    /// Configuration of the switches; they differ in ports only. `None`: there are none.
    pub config: Option<Config>,
}

pub(super) fn sentences(report: &Report, context: &Context) -> Vec<String> {
    let Some(config) = &context.config else {
        return vec!["No PFC, no mark and no drop: there is no switch.".into()];
    };
    let mut all = Vec::new();
    all.extend(no_pfc(report, config));
    all.extend(no_mark(report, config));
    for (switch, port) in report.ports() {
        all.extend(drops(switch, port));
    }
    let lost: u64 = report.links.iter().map(|l| l.lost).sum();
    if lost > 0 {
        all.push(format!("{lost} data frames were lost on links: their `loss` says so."));
    }
    let unfinished = report.flows_finite - report.flows_done;
    if unfinished > 0 {
        let end = report.end_ns;
        all.push(format!("{unfinished} of {} flows were not delivered by {end} ns.", report.flows_finite));
    }
    all
}

fn fullest(report: &Report, of: impl Fn(&PortResult) -> u64) -> Option<(&SwitchResult, &PortResult)> {
    report.ports().max_by_key(|(_, port)| of(port))
}

fn no_pfc(report: &Report, config: &Config) -> Option<String> {
    if report.pauses() > 0 {
        return None;
    }
    if config.ports.iter().all(|port| port.pfc.enable == 0 || !port.pfc.tx) {
        return Some("No PFC was sent: no port has a priority with PFC enabled.".into());
    }
    let (switch, port) = fullest(report, |p| p.pg_peak)?;
    Some(format!(
        "No PFC was sent: the fullest lossless priority group ({} port {}) held {} shared bytes, and no \
         group reached its limit (alpha x free) of the {} shared bytes.",
        switch.name, port.port, port.pg_peak, switch.shared
    ))
}

fn no_mark(report: &Report, config: &Config) -> Option<String> {
    if report.marks() > 0 {
        return None;
    }
    let kmin = config.ports.iter().flat_map(|p| p.queues.iter().filter_map(|q| q.wred)).map(|w| w.kmin).min();
    let Some(kmin) = kmin else {
        return Some("Nothing was marked: no queue has a marking profile.".into());
    };
    let (switch, port) = fullest(report, |p| p.queue_max)?;
    if port.queue_max <= kmin {
        return Some(format!(
            "Nothing was marked: the longest queue ({} port {}) had {} bytes, marking begins above {kmin}.",
            switch.name, port.port, port.queue_max
        ));
    }
    Some(format!(
        "Nothing was marked although {} port {} held {} bytes (marking begins above {kmin}): the frames are \
         not ECN capable, their queue has no marking profile, or chance spared them.",
        switch.name, port.port, port.queue_max
    ))
}

fn drops<'a>(switch: &'a SwitchResult, port: &'a PortResult) -> impl Iterator<Item = String> + 'a {
    port.drops.iter().map(move |(name, count)| {
        let reason = DropReason::ALL.iter().find(|reason| reason.name() == *name);
        let (meaning, remedy) = reason.map_or(("", ""), |r| (r.meaning().trim(), r.remedy()));
        format!(
            "{} port {} dropped {count} frames ({name}): {meaning} Most headroom in use was {} of {} bytes. \
             Remedy: {remedy}.",
            switch.name, port.port, port.headroom_peak, port.headroom
        )
    })
}
