//! `scenarios.json`: what each scenario is, and what it left behind in its switches.
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use weir_dataplane::types::Nanos;
use weir_endpoint::congestion::{dctcp, hpcc, pint, timely};
use weir_endpoint::dcqcn::ns3::Params;

use crate::models::hpcc::{RESERVE, RESUME_OFFSET};
use crate::ns3::config::{Config, Control, DST_PORT, FlowSpec, Link, Marking, SHIFT, Topology, WindowRule};
use crate::ns3::flow::NACK_INTERVAL;
use crate::ns3::port::PAYLOAD;
use crate::ns3::sim::Sampler;
use crate::ns3::units::{SECOND, bit_rate, delay_ns, seconds};

/// What the reference's clock shows at time 0 of the tables.
const EPOCH: Nanos = 2 * SECOND;

/// No run takes longer than this, in simulated time: a hung flow keeps its timers for ever.
const LONGEST: Nanos = 10 * SECOND;

/// Samples are taken each microsecond of the first four milliseconds.
const SAMPLE_EVERY: Nanos = 1000;
const SAMPLE_UNTIL: Nanos = 4_000_000;

/// The whole description file.
#[derive(Debug, Deserialize)]
pub struct Described {
    base_params: Map<String, Value>,
    scenarios: BTreeMap<String, Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    nodes: u32,
    switches: Vec<u32>,
    links: Vec<(u32, u32, String, String)>,
    flows: Vec<Flow>,
    params: Map<String, Value>,
    #[serde(default = "yes")]
    deterministic: bool,
    max_rtt_ns: Option<u64>,
    #[serde(rename = "max_bdp_B")]
    max_bdp: Option<u64>,
    switch_stats: Vec<Map<String, Value>>,
    port_queue_stats: Vec<Map<String, Value>>,
}

#[derive(Debug, Deserialize)]
struct Flow {
    src: u32,
    dst: u32,
    prio: u8,
    bytes: u32,
    start_s: String,
}

/// One scenario, ready to be built.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// Hosts, switches, links.
    pub topology: Topology,
    /// Transfers, times counted from the first start.
    pub flows: Vec<FlowSpec>,
    /// Everything else.
    pub config: Config,
    /// No random draw happens.
    pub deterministic: bool,
    /// The queue that is sampled, if one is.
    pub sampler: Option<Sampler>,
    /// Logged largest round trip (ns) and bandwidth-delay product (bytes) of the topology.
    pub largest: [Option<u64>; 2],
    /// Logged end state per switch.
    pub switch_stats: Vec<Map<String, Value>>,
    /// Logged maxima per switch, port and queue.
    pub queue_stats: Vec<Map<String, Value>>,
}

impl Described {
    /// Names of all scenarios, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.scenarios.keys().map(String::as_str)
    }

    /// One scenario.
    ///
    /// # Errors
    /// What is missing or odd, in words.
    pub fn scenario(&self, name: &str) -> Result<Scenario, String> {
        let entry = self.scenarios.get(name).ok_or("no such scenario")?;
        let params = Settings { base: &self.base_params, own: &entry.params };
        let topology = entry.topology()?;
        let flows = entry.flows()?;
        let config = params.config()?;
        Ok(Scenario {
            name: name.to_owned(),
            sampler: sampler(&topology, &flows),
            largest: [entry.max_rtt_ns, entry.max_bdp],
            topology,
            flows,
            config,
            deterministic: entry.deterministic,
            switch_stats: entry.switch_stats.clone(),
            queue_stats: entry.port_queue_stats.clone(),
        })
    }
}

impl Entry {
    fn topology(&self) -> Result<Topology, String> {
        let hosts = self.nodes.checked_sub(self.switches.len() as u32).ok_or("more switches than nodes")?;
        if !self.switches.iter().copied().eq(hosts..self.nodes) {
            return Err("hosts do not come first".to_owned());
        }
        let link = |(a, b, rate, delay): &(u32, u32, String, String)| {
            Ok(Link { a: *a, b: *b, rate: bit_rate(rate)?, delay: delay_ns(delay)? })
        };
        let links = self.links.iter().map(link).collect::<Result<_, String>>()?;
        Ok(Topology { hosts, switches: self.switches.len() as u32, links, numbers: Vec::new() })
    }

    fn flows(&self) -> Result<Vec<FlowSpec>, String> {
        let spec = |flow: &Flow| {
            let start = seconds(&flow.start_s)?.checked_sub(EPOCH).ok_or("a flow starts before 2 s")?;
            let Flow { src, dst, prio, bytes, .. } = *flow;
            Ok(FlowSpec { src, dst, dst_port: DST_PORT, prio, bytes, start })
        };
        self.flows.iter().map(spec).collect()
    }
}

/// The receiver's port on the only switch; else the trunk port of the first switch, or the receiver's port
/// on the second when the trunk is faster than the hosts.
fn sampler(topology: &Topology, flows: &[FlowSpec]) -> Option<Sampler> {
    let (a, b) = (topology.hosts, topology.hosts + 1);
    let joins = |link: &Link, x, y| (link.a, link.b) == (x, y) || (link.a, link.b) == (y, x);
    let trunk = topology.links.iter().find(|link| joins(link, a, b));
    let host_rate = topology.links.first()?.rate;
    let (node, peer) = match trunk {
        None => (a, flows.first()?.dst),
        Some(trunk) if trunk.rate > host_rate => (b, flows.first()?.dst),
        Some(_) => (a, b),
    };
    let of_node = topology.links.iter().filter(|link| link.a == node || link.b == node);
    let port = of_node.into_iter().position(|link| joins(link, node, peer))?;
    Some(Sampler { switch: node - a, port: port as u16, every: SAMPLE_EVERY, until: SAMPLE_UNTIL })
}

/// The parameters of one scenario: its own, else those of the base.
struct Settings<'a> {
    base: &'a Map<String, Value>,
    own: &'a Map<String, Value>,
}

impl Settings<'_> {
    fn get(&self, key: &str) -> Result<&Value, String> {
        self.own.get(key).or_else(|| self.base.get(key)).ok_or_else(|| format!("{key} is missing"))
    }

    fn text(&self, key: &str) -> Result<&str, String> {
        self.get(key)?.as_str().ok_or_else(|| format!("{key} is not text"))
    }

    fn int(&self, key: &str) -> Result<u32, String> {
        let n = self.get(key)?.as_u64().and_then(|n| u32::try_from(n).ok());
        n.ok_or_else(|| format!("{key} is not a whole number below 2^32"))
    }

    fn micros(&self, key: &str) -> Result<std::num::NonZeroU64, String> {
        std::num::NonZeroU64::new(u64::from(self.int(key)?) * 1000).ok_or_else(|| format!("{key} is 0"))
    }

    /// A key that older descriptions do not have.
    fn int_or(&self, key: &str, absent: u32) -> Result<u32, String> {
        if self.get(key).is_ok() { self.int(key) } else { Ok(absent) }
    }

    fn flag(&self, key: &str) -> Result<bool, String> {
        Ok(self.int(key)? != 0)
    }

    fn real(&self, key: &str) -> Result<f64, String> {
        let text = self.text(key)?;
        let number = text.parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0);
        number.ok_or_else(|| format!("{key} `{text}` is not a number from 0"))
    }

    fn rate(&self, key: &str) -> Result<u64, String> {
        bit_rate(self.text(key)?)
    }

    fn config(&self) -> Result<Config, String> {
        let stop = seconds(self.text("SIMULATOR_STOP_TIME")?)?;
        let marking = if self.int("ENABLE_QCN")? == 0 { Vec::new() } else { self.marking()? };
        for (key, only) in [("L2_ACK_INTERVAL", 1), ("L2_BACK_TO_ZERO", 0)] {
            let value = self.int_or(key, only)?;
            if value != only {
                return Err(format!("{key} {value} is not part of the profile: it must be {only}"));
            }
        }
        Ok(Config {
            buffer: self.int("BUFFER_SIZE")?.checked_mul(1 << 20).ok_or("BUFFER_SIZE is too large")?,
            reserve: RESERVE,
            resume_offset: RESUME_OFFSET,
            shift: SHIFT,
            nack_interval: NACK_INTERVAL,
            marking,
            control: self.control()?,
            controls: Vec::new(),
            window: self.window()?,
            global_t: self.int_or("GLOBAL_T", 1)? != 0,
            rate_bound: self.int_or("RATE_BOUND", 1)? != 0,
            payload: self.int_or("PACKET_PAYLOAD_SIZE", PAYLOAD)?,
            epoch: EPOCH,
            ack_gate: if self.int("ACK_HIGH_PRIO")? == 1 { 0 } else { 3 },
            stop: stop.saturating_sub(EPOCH).min(LONGEST),
            seed: 1,
        })
    }

    fn window(&self) -> Result<WindowRule, String> {
        match (self.int_or("HAS_WIN", 0)?, self.int_or("VAR_WIN", 0)?) {
            (0, _) => Ok(WindowRule::None),
            (1, 0) => Ok(WindowRule::Fixed),
            (1, 1) => Ok(WindowRule::Variable),
            other => Err(format!("HAS_WIN, VAR_WIN {other:?}: each must be 0 or 1")),
        }
    }

    fn control(&self) -> Result<Control, String> {
        Ok(match self.int("CC_MODE")? {
            0 => Control::None,
            1 => Control::Dcqcn(self.dcqcn()?),
            3 => Control::Hpcc(hpcc::Params {
                target: self.real("U_TARGET")?,
                ai_bps: self.rate("RATE_AI")?,
                min_rate_bps: self.rate("MIN_RATE")?,
                mi_thresh: self.int("MI_THRESH")?,
                fast_react: self.flag("FAST_REACT")?,
                multi_rate: self.flag("MULTI_RATE")?,
                sample_feedback: self.flag("SAMPLE_FEEDBACK")?,
                int_multi: self.int("INT_MULTI")?.max(1).into(),
                ..hpcc::Params::default()
            }),
            7 => Control::Timely(timely::Params {
                ai_bps: self.rate("RATE_AI")?,
                hai_bps: self.rate("RATE_HAI")?,
                min_rate_bps: self.rate("MIN_RATE")?,
                ..timely::Params::default()
            }),
            8 => Control::Dctcp(dctcp::Params {
                g: self.real("EWMA_GAIN")?,
                ai_bps: self.rate("DCTCP_RATE_AI")?,
                min_rate_bps: self.rate("MIN_RATE")?,
                payload: self.int_or("PACKET_PAYLOAD_SIZE", PAYLOAD)?.max(1).into(),
                ..dctcp::Params::default()
            }),
            10 => Control::Pint(pint::Params {
                target: self.real("U_TARGET")?,
                ai_bps: self.rate("RATE_AI")?,
                min_rate_bps: self.rate("MIN_RATE")?,
                mi_thresh: self.int("MI_THRESH")?,
                log_base: Some(self.real("PINT_LOG_BASE")?)
                    .filter(|base| (1.000_2..=16.0).contains(base))
                    .ok_or("PINT_LOG_BASE is not from 1.0002 to 16")?,
                probability: self.real("PINT_PROB")?,
                ..pint::Params::default()
            }),
            other => {
                return Err(format!(
                    "CC_MODE {other} is not part of the profile: 0 (none), 1 (DCQCN), 3 (HPCC), 7 (TIMELY), 8 (DCTCP), \
                     10 (HPCC-PINT) are"
                ));
            }
        })
    }

    fn dcqcn(&self) -> Result<Params, String> {
        Ok(Params {
            g: self.real("EWMA_GAIN")?,
            alpha_period: self.micros("ALPHA_RESUME_INTERVAL")?,
            decrease_period: self.micros("RATE_DECREASE_INTERVAL")?,
            increase_period: self.micros("RP_TIMER")?,
            fast_recovery_steps: self.int("FAST_RECOVERY_TIMES")?,
            ai_bps: self.rate("RATE_AI")?,
            hai_bps: self.rate("RATE_HAI")?,
            min_rate_bps: self.rate("MIN_RATE")?,
            clamp_target: self.flag("CLAMP_TARGET_RATE")?,
            ..Params::default()
        })
    }

    fn marking(&self) -> Result<Vec<Marking>, String> {
        let (kmin, kmax, pmax) = (self.map("KMIN_MAP")?, self.map("KMAX_MAP")?, self.map("PMAX_MAP")?);
        let of = |map: &[(u64, f64)], rate| {
            let found = map.iter().find(|(r, _)| *r == rate);
            found.map(|&(_, v)| v).ok_or_else(|| format!("no marking for rate {rate}"))
        };
        let one = |&(rate, kmin): &(u64, f64)| {
            let (kmin, kmax) = ((kmin * 1000.0) as u32, (of(&kmax, rate)? * 1000.0) as u32);
            Ok(Marking { rate, kmin, kmax, pmax: of(&pmax, rate)? })
        };
        kmin.iter().map(one).collect()
    }

    /// `COUNT RATE VALUE RATE VALUE ..`
    fn map(&self, key: &str) -> Result<Vec<(u64, f64)>, String> {
        let bad = || format!("{key} is not a count followed by that many pairs of numbers");
        let numbers: Vec<&str> = self.text(key)?.split_whitespace().collect();
        let (count, pairs) = numbers.split_first().ok_or_else(bad)?;
        if count.parse() != Ok(pairs.len() / 2) || pairs.len() % 2 != 0 {
            return Err(bad());
        }
        let pair = |p: &[&str]| Some((p[0].parse().ok()?, p[1].parse().ok()?));
        pairs.chunks_exact(2).map(|p| pair(p).ok_or_else(bad)).collect()
    }
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"base_params": {"ENABLE_QCN": 0, "CC_MODE": 0, "BUFFER_SIZE": 4, "ACK_HIGH_PRIO": 1,
        "SIMULATOR_STOP_TIME": "2.05"}, "scenarios": {"x": {"nodes": 3, "switches": [2], "deterministic": true,
        "links": [[0, 2, "100Gbps", "0.001ms"], [1, 2, "25Gbps", "0.00001ms"]],
        "flows": [{"src": 0, "dst": 1, "prio": 3, "bytes": 9, "start_s": "2"},
                  {"src": 1, "dst": 0, "prio": 3, "bytes": 9, "start_s": "2.00004"}],
        "params": {}, "switch_stats": [], "port_queue_stats": []}}}"#;

    fn read(text: &str) -> Result<Scenario, String> {
        serde_json::from_str::<Described>(text).map_err(|e| e.to_string())?.scenario("x")
    }

    #[test]
    fn units_and_times_are_those_of_the_reference() {
        let scenario = read(GOOD).unwrap();
        let link = Link { a: 1, b: 2, rate: 25_000_000_000, delay: 9 };
        assert_eq!(scenario.topology.links[1], link);
        assert_eq!(scenario.flows[1].start, 39_999);
        assert_eq!((scenario.config.stop, scenario.config.buffer), (49_999_999, 4 << 20));
        let sampler = scenario.sampler.unwrap();
        assert_eq!((sampler.switch, sampler.port), (0, 1));
    }

    #[test]
    fn odd_descriptions_are_refused_in_words() {
        for (from, to, part) in [
            ("\"nodes\": 3", "\"nodes\": 0", "more switches than nodes"),
            ("[2]", "[1]", "hosts do not come first"),
            ("100Gbps", "100Gbit", "not a rate"),
            ("100Gbps", "99999999999999999999Gbps", "not a rate"),
            ("0.001ms", "-1ms", "not a delay"),
            ("0.001ms", "1e300ms", "not a delay"),
            ("\"2\"", "\"nan\"", "not a time"),
            ("\"2.00004\"", "\"1\"", "starts before 2 s"),
            ("\"BUFFER_SIZE\": 4", "\"BUFFER_SIZE\": 4096", "too large"),
            ("\"CC_MODE\": 0", "\"CC_MODE\": 4", "not part of the profile"),
            ("\"CC_MODE\": 0", "\"CC_MODE\": 3", "U_TARGET is missing"),
            ("\"params\": {}", "\"params\": {\"L2_ACK_INTERVAL\": 4}", "L2_ACK_INTERVAL 4"),
            ("\"ENABLE_QCN\": 0", "\"ENABLE_QCN\": 1", "KMIN_MAP is missing"),
            (
                "\"params\": {}",
                "\"params\": {\"ENABLE_QCN\": 1, \"KMIN_MAP\": \"2 1 1\"}",
                "pairs of numbers",
            ),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = read(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(part), "{to}: {error}");
        }
    }
}
