//! The report as one HTML page.

use super::report::{FlowResult, Report, Spread};
use crate::page::{distribution, fill};
use serde_json::{Value, json};

const HTML: &str = include_str!("../../assets/report.html");
const SCRIPT: &str = include_str!("../../assets/report.js");

/// Ports and flows that are listed.
const ROWS: usize = 200;
/// Upper ends of the size classes, bytes.
const CLASSES: [(u64, &str); 5] = [
    (10_000, "up to 10 KB"),
    (100_000, "to 100 KB"),
    (1_000_000, "to 1 MB"),
    (10_000_000, "to 10 MB"),
    (u64::MAX, "above 10 MB"),
];

impl Report {
    /// The page: queue depths, pauses, rates, completion times, reasons.
    pub fn to_html(&self) -> String {
        fill(HTML, SCRIPT, &format!("{}: weir sim", self.name), &self.page_data())
    }

    fn page_data(&self) -> Value {
        let mut flows: Vec<&FlowResult> = self.flows.iter().collect();
        flows.sort_by_key(|f| (std::cmp::Reverse(slowdown(f)), f.id));
        let listed: Vec<Value> = flows.iter().take(ROWS).map(|f| flow_row(f)).collect();
        let mut ports: Vec<_> = self.ports().collect();
        ports.sort_by_key(|(_, p)| {
            std::cmp::Reverse((p.drops.values().sum::<u64>(), p.queue_max, p.pfc_tx_xoff))
        });
        let ports: Vec<Value> =
            ports.iter().take(ROWS).map(|(s, p)| json!({ "switch": s.name, "port": p })).collect();
        let hosts: Vec<_> = self.hosts.iter().filter(|h| h.pfc_rx > 0).take(ROWS).collect();
        let cdf = distribution(self.flows.iter().filter_map(|f| f.fct_ns).collect());
        json!({
            "name": self.name, "weir": self.weir, "profile": self.profile, "seed": self.seed, "config": self.config_hash,
            "end_ns": self.end_ns, "events": self.events, "summary": self.summary(), "why": self.why,
            "conservation_error": self.conservation_error, "deadlock": self.deadlock, "timeline": self.timeline, "flows": listed,
            "flows_total": self.flows.len(), "ports": ports, "ports_total": self.ports().count(), "hosts": hosts,
            "cdf": cdf, "classes": self.classes(),
        })
    }

    /// Completion times and slowdowns by size of flow.
    fn classes(&self) -> Vec<Value> {
        let mut from = 0;
        let class = |(to, name): (u64, &str)| {
            let low = std::mem::replace(&mut from, to);
            let of = || {
                let done = self.flows.iter().filter(|f| f.fct_ns.is_some());
                done.filter(move |f| f.bytes.is_some_and(|b| b > low && b <= to))
            };
            let fct = Spread::of(of().filter_map(|f| f.fct_ns).collect())?;
            Some(json!({ "name": name, "fct": fct, "slow": Spread::of(of().map(slowdown).collect()) }))
        };
        CLASSES.into_iter().filter_map(class).collect()
    }
}

/// In thousandths; a flow that was not delivered is the slowest of all.
fn slowdown(f: &FlowResult) -> u64 {
    f.fct_ns.map_or(u64::MAX, |fct| (fct * 1000).div_ceil(f.ideal_ns.max(1)))
}

fn flow_row(f: &FlowResult) -> Value {
    json!({
        "id": f.id, "from": f.from, "to": f.to, "bytes": f.bytes, "start": f.start_ns, "fct": f.fct_ns,
        "slow": f.fct_ns.map(|_| slowdown(f)), "resent": f.resent, "marked": f.marked, "cnps": f.cnps,
    })
}

#[cfg(test)]
mod tests {
    use crate::fabric::{load, run};

    #[test]
    fn the_page_needs_nothing_else_and_names_cannot_become_markup() {
        let text = "name = \"</script><b>\"\nuntil = \"1ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"<i>\", \"b\"]\n\
                    switches = [\"s\"]\nlinks = [{ a = \"<i>\", b = \"s\" }, { a = \"b\", b = \"s\" }]\n\
                    [[workload]]\nkind = \"flow\"\nfrom = \"<i>\"\nto = \"b\"\nbytes = 100000\n";
        let page = run(&load("x", text).unwrap()).unwrap().to_html();
        assert!(!page.contains("<b>") && !page.contains("<i>"));
        assert_eq!(page.matches("</script>").count(), 2, "data and code");
        for other in ["http://", "https://", "src=", "@import", "/*css*/", "/*data*/", "/*script*/"] {
            let allowed = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!allowed.contains(other), "{other}");
        }
        let data =
            page.split("type=\"application/json\">").nth(1).unwrap().split("</script>").next().unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["name"], "</script><b>");
        assert_eq!(data["flows"].as_array().unwrap().len(), 1);
        assert!(!data["timeline"]["rates"][0]["values"].as_array().unwrap().is_empty());
    }
}
