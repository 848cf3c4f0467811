//! What flow level and hybrid level are measured by beside packets: fabrics without `level`, and how far two runs are apart.

use super::{Report, Spread};

/// A fat tree of `k` ports a switch, 100G, and this traffic.
pub fn fabric(k: usize, traffic: &str) -> String {
    format!(
        "name = \"flow level\"\nstop_time = \"1s\"\n[topology]\nkind = \"fat_tree\"\nk = {k}\n[link]\nrate = \"100G\"\ndelay = \"1us\"\n\
         [host]\npayload = 1000\n[switch.config.buffer]\nsize = \"32MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n\
         [[switch.config.wred]]\nname = \"roce\"\nkmin = \"100KB\"\nkmax = \"400KB\"\npmax = \"20%\"\n{traffic}"
    )
}

/// Names and traffic of the table in docs/simulation.md, for `hosts` hosts.
pub fn cases(hosts: usize) -> Vec<(&'static str, String)> {
    let workload = |rest: &str| format!("[[workload]]\n{rest}\n");
    let poisson = |load: &str, cc: &str| {
        workload(&format!(
            "kind = \"poisson\"\nsizes = \"websearch\"\nload = {load}\nduration = \"1ms\"\ncc = \"{cc}\""
        ))
    };
    let (last, few) = (hosts - 1, (hosts / 16).max(3));
    let neighbours = workload("kind = \"permutation\"\nshift = 1\nbytes = \"2MB\"\ncc = \"dcqcn\"");
    let beside = workload(&format!(
        "kind = \"incast\"\nto = \"h{last}\"\nsenders = {few}\nbytes = \"64KB\"\ncc = \"dcqcn\""
    ));
    vec![
        ("2 MB to the next host, an incast of few, dcqcn", neighbours + &beside),
        ("permutation, 2 MB, none", workload("kind = \"permutation\"\nbytes = \"2MB\"")),
        ("permutation, 2 MB, dcqcn", workload("kind = \"permutation\"\nbytes = \"2MB\"\ncc = \"dcqcn\"")),
        ("permutation, 2 MB, hpcc", workload("kind = \"permutation\"\nbytes = \"2MB\"\ncc = \"hpcc\"")),
        (
            "ring all-reduce, 4 KB steps",
            workload(&format!("kind = \"all_reduce\"\nbytes = {}", 4096 * hosts)),
        ),
        (
            "an all-reduce of a quarter, an incast of few to one of its ranks, dcqcn",
            workload(&format!(
                "kind = \"all_reduce\"\nranks = {}\nbytes = {}\ncc = \"dcqcn\"",
                hosts / 4,
                16384 * hosts
            )) + &workload(&format!(
                "kind = \"incast\"\nto = \"h1\"\nsenders = {few}\nbytes = \"256KB\"\ncc = \"dcqcn\""
            )),
        ),
        ("websearch at 0.3, none", poisson("0.3", "none")),
        ("websearch at 0.3, dcqcn", poisson("0.3", "dcqcn")),
        ("websearch at 0.6, none", poisson("0.6", "none")),
        ("websearch at 0.6, dcqcn", poisson("0.6", "dcqcn")),
        (
            "incast, 64 KB each, none",
            workload(&format!("kind = \"incast\"\nto = \"h{last}\"\nbytes = \"64KB\"")),
        ),
        (
            "incast, 64 KB each, dcqcn",
            workload(&format!("kind = \"incast\"\nto = \"h{last}\"\nbytes = \"64KB\"\ncc = \"dcqcn\"")),
        ),
    ]
}

/// How far a level is from packets, in percent of packets.
#[derive(Clone, Copy, Debug)]
pub struct Error {
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
    /// When the last flow had been delivered.
    pub all: f64,
    /// Mean of what single flows are apart, whichever way.
    pub each: f64,
}

/// Compares two runs of the same traffic, all of which was delivered.
pub fn error(packets: &Report, flows: &Report) -> Error {
    let percent = |of: f64, is: f64| (is - of) / of * 100.0;
    let spread = |report: &Report| report.fct_ns.expect("flows were delivered");
    let (of, is) = (spread(packets), spread(flows));
    let by = |value: fn(&Spread) -> u64| percent(value(&of) as f64, value(&is) as f64);
    let fct = |report: &Report| {
        report.flows.iter().filter_map(|f| f.fct_ns).map(|ns| ns as f64).collect::<Vec<_>>()
    };
    let (a, b) = (fct(packets), fct(flows));
    assert_eq!((a.len(), b.len()), (packets.flows_finite, packets.flows_finite), "all are delivered");
    let each = a.iter().zip(&b).map(|(a, b)| percent(*a, *b).abs()).sum::<f64>() / a.len() as f64;
    let all = percent(packets.end_ns as f64, flows.end_ns as f64);
    Error { mean: by(|s| s.mean), p50: by(|s| s.p50), p99: by(|s| s.p99), all, each }
}
