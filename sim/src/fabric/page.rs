//! The report as one HTML page.

use super::collective_report::{CollectiveResult, LateBy};
use super::latency::{Distribution, Latency, LatencyOf, PARTS};
use super::orders::OrderResult;
use super::report::{FlowResult, Report, Spread};
use crate::page::{distribution, fill};
use serde_json::{Value, json};

const HTML: &str = include_str!("../../assets/report.html");
const SCRIPT: &str = include_str!("../../assets/report.js");

/// Ports and flows that are listed.
const ROWS: usize = 200;
/// Steps of all collectives together that are drawn.
const STEPS: usize = 8000;
/// Legs whose latency is shown.
const LEGS: usize = 24;
/// Queue pairs of an order that are named.
const NAMED: usize = 6;
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
        let ports: Vec<Value> = ports
            .iter()
            .take(ROWS)
            .map(|(s, p)| json!({ "switch": s.name, "headroom_pool": s.memory_of(p).headroom_pool, "port": p }))
            .collect();
        let mut links: Vec<_> = self.links.iter().filter(|l| l.bottleneck_milli > Some(0)).collect();
        links.sort_by_key(|l| std::cmp::Reverse(l.bottleneck_milli));
        let links_total = links.len();
        links.truncate(ROWS);
        let hosts: Vec<_> = self.hosts.iter().filter(|h| h.pfc_rx + h.pfc_tx > 0).take(ROWS).collect();
        let cdf = distribution(self.flows.iter().filter_map(|f| f.fct_ns).collect());
        json!({
            // Not every seed is a number of JavaScript.
            "name": self.name, "weir": self.weir, "profile": self.profile, "seed": self.seed.to_string(), "config": self.config_hash,
            "end_ns": self.end_ns, "events": self.events, "summary": self.summary(), "stopped": self.early_end(), "why": self.why,
            "conservation_error": self.conservation_error, "deadlock": self.deadlock, "timeline": self.timeline, "flows": listed,
            "flows_total": self.flows.len(), "ports": ports, "ports_total": self.ports().count(), "hosts": hosts,
            "level": self.level, "links": links, "links_total": links_total,
            "cdf": cdf, "classes": self.classes(), "latency": self.latency.as_ref().map(latency),
            "causes": LateBy::ALL.map(LateBy::word), "collectives": self.longest_collectives(), "collectives_total": self.collectives.len(),
            "orders": self.orders.iter().take(ROWS).map(order_row).collect::<Vec<_>>(), "orders_total": self.orders.len(),
        })
    }

    /// Those that took longest first, and before them those that have not ended.
    fn longest_collectives(&self) -> Vec<Value> {
        let mut all: Vec<&CollectiveResult> = self.collectives.iter().collect();
        all.sort_by_key(|c| std::cmp::Reverse(c.figures.time_ns.unwrap_or(u64::MAX)));
        let mut left = STEPS;
        let row = |c: &&CollectiveResult| {
            let steps = &c.steps[..c.steps.len().min(left)];
            left -= steps.len();
            json!({
                "kind": c.identity.kind, "workload": c.identity.workload, "ranks": c.identity.ranks, "bytes": c.identity.bytes, "start_ns": c.start_ns, "time_ns": c.figures.time_ns,
                "algbw_bytes_per_s": c.figures.algbw_bytes_per_s, "busbw_bytes_per_s": c.figures.busbw_bytes_per_s, "straggler": c.figures.straggler,
                "steps": steps, "steps_total": c.steps.len(),
            })
        };
        all.iter().take(ROWS).map(row).collect()
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

/// Of legs those in which frames spent most of their time.
fn latency(all: &Latency) -> Value {
    let mut legs: Vec<&LatencyOf> = all.legs.iter().collect();
    legs.sort_by_key(|of| std::cmp::Reverse(of.total.sum_ps));
    let legs: Vec<Value> = legs.into_iter().take(LEGS).map(latency_of).collect();
    let end_to_end = all.end_to_end.iter().map(|of| {
        let mut row = latency_of(of);
        row["cdf"] = json!(cumulated(&of.total.histogram));
        row
    });
    json!({ "end_to_end": end_to_end.collect::<Vec<_>>(), "legs": legs, "legs_total": all.legs.len() })
}

fn latency_of(of: &LatencyOf) -> Value {
    let figures = |d: &Distribution| json!({ "mean": d.mean_ps, "p50": d.p50_ps, "p90": d.p90_ps, "p99": d.p99_ps, "p999": d.p999_ps, "max": d.max_ps });
    let parts: Vec<Value> =
        PARTS.iter().filter_map(|part| Some(json!([part, figures(of.parts.get(part)?)]))).collect();
    json!({ "name": of.name, "frames": of.frames, "total": figures(&of.total), "parts": parts })
}

/// Steps of a histogram, and how many thousandths of all are at most in that step.
fn cumulated(histogram: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let all: u64 = histogram.iter().map(|(_, n)| n).sum();
    let mut sum = 0;
    let step = |(from, n): &(u64, u64)| {
        sum += n;
        (*from, sum * 1000 / all.max(1))
    };
    histogram.iter().map(step).collect()
}

/// In thousandths; a flow that was not delivered is the slowest of all.
fn slowdown(f: &FlowResult) -> u64 {
    f.slowdown_milli().unwrap_or(u64::MAX)
}

/// `at` is absent of an order that nothing came of.
fn order_row(o: &OrderResult) -> Value {
    let rates = || o.queue_pairs.iter().map(|pair| pair.rate_bps);
    let listed = o.queue_pairs.iter().take(NAMED).map(|pair| format!("{}:{}", pair.host, pair.qpn));
    json!({
        "at": (!o.queue_pairs.is_empty()).then_some(o.at_ns), "planned": o.at_ns, "order": o.order, "pairs": o.queue_pairs.len(),
        "listed": listed.collect::<Vec<_>>(), "rates": rates().min().zip(rates().max()), "refused": o.refused,
    })
}

fn flow_row(f: &FlowResult) -> Value {
    json!({
        "id": f.id, "from": f.from, "to": f.to, "bytes": f.bytes, "start": f.start_ns, "fct": f.fct_ns,
        "slow": f.fct_ns.map(|_| slowdown(f)), "resent": f.resent, "marked": f.marked, "cnps": f.cnps,
    })
}

#[cfg(test)]
mod tests {
    use crate::fabric::{Report, load, run};

    #[test]
    fn the_page_needs_nothing_else_and_names_cannot_become_markup() {
        let text = "name = \"</script><b>\"\nseed = 9007199254740993\nstop_time = \"1ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"<i>\", \"b\"]\n\
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
        assert_eq!((&data["name"], &data["seed"]), (&"</script><b>".into(), &"9007199254740993".into()));
        assert_eq!(data["flows"].as_array().unwrap().len(), 1);
        assert!(!data["timeline"]["rates"][0]["values"].as_array().unwrap().is_empty());
    }

    /// What the page has for the script: text in the element of the data.
    fn data(page: &str) -> serde_json::Value {
        let data =
            page.split("type=\"application/json\">").nth(1).unwrap().split("</script>").next().unwrap();
        serde_json::from_str(data).unwrap()
    }

    #[test]
    fn page_and_tables_of_a_stopped_run_say_so() {
        let text = "name = \"t\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n\
                    [[workload]]\nkind = \"incast\"\nto = \"h2\"\nbytes = \"100KB\"\n";
        let whole = run(&load("x", text).unwrap()).unwrap();
        assert!(data(&whole.to_html())["stopped"].is_null() && !whole.flows_csv().contains("stopped"));
        let stopped = Report { stopped: true, flows_done: 1, ..whole };
        let says = format!(
            "stopped at {} ns, before its end, with 1 of 2 flows not delivered yet: all figures are partial",
            stopped.end_ns
        );
        assert_eq!(data(&stopped.to_html())["stopped"], says);
        for table in [stopped.flows_csv(), stopped.ports_csv()] {
            assert!(table.lines().any(|line| line == format!("# {says}")), "{table}");
        }
    }

    /// `WEIR_PAGE=FOLDER` keeps the page, to be looked at.
    #[test]
    fn the_page_has_the_latency_of_frames_with_its_parts_and_percentiles() {
        let text = |latency: bool| {
            format!(
                "name = \"t\"\nstop_time = \"5ms\"\nlatency = {latency}\n[topology]\nkind = \"leaf_spine\"\nleaves = 2\nspines = 2\n\
                 hosts_per_leaf = 4\n[host]\ntx_delay = \"300ns\"\nrx_delay = \"200ns\"\n[switch]\ningress = \"100ns\"\n\
                 egress = \"80ns\"\n[switch.config.buffer]\nsize = \"4MiB\"\n[[workload]]\nkind = \"incast\"\nto = \"h7\"\nbytes = \"2MB\"\n"
            )
        };
        let played = |latency: bool| run(&load("x", &text(latency)).unwrap()).unwrap();
        assert!(data(&played(false).to_html())["latency"].is_null());
        let report = played(true);
        let page = report.to_html();
        if let Some(folder) = std::env::var_os("WEIR_PAGE") {
            std::fs::write(std::path::Path::new(&folder).join("latency.html"), &page).unwrap();
        }
        let all = &data(&page)["latency"];
        let of = &report.latency.as_ref().unwrap().end_to_end[0];
        let shown = &all["end_to_end"][0];
        assert_eq!((&shown["name"], &shown["frames"]), (&"data".into(), &of.frames.into()));
        assert_eq!(
            (&shown["total"]["p99"], &shown["total"]["p999"]),
            (&of.total.p99_ps.into(), &of.total.p999_ps.into())
        );
        let parts = shown["parts"].as_array().unwrap();
        let names: Vec<&str> = parts.iter().map(|part| part[0].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["tx", "serialization", "propagation", "ingress", "queue", "pause", "egress", "rx"]
        );
        // Means of the parts are cut.
        let sum: u64 = parts.iter().map(|part| part[1]["mean"].as_u64().unwrap()).sum();
        assert!(of.total.mean_ps.abs_diff(sum) <= names.len() as u64, "{sum} {}", of.total.mean_ps);
        let cdf = shown["cdf"].as_array().unwrap();
        assert!(cdf.len() > 20 && cdf.last().unwrap()[1] == 1000, "{cdf:?}");
        let most = |leg: &serde_json::Value| {
            leg["frames"].as_u64().unwrap() * leg["total"]["mean"].as_u64().unwrap()
        };
        let legs: Vec<u64> = all["legs"].as_array().unwrap().iter().map(most).collect();
        assert!(legs.len() > 7 && legs[0] > legs[legs.len() - 1], "{legs:?}");
    }

    #[test]
    fn the_page_has_collectives_the_longest_first_and_orders_where_they_were_carried_out() {
        let workload =
            |kind: &str| format!("[[workload]]\nkind = \"{kind}\"\nbytes = \"200KB\"\ncc = \"dcqcn\"\n");
        let order = |at: &str, more: &str| format!("[[order]]\nat = \"{at}\"\n{more}\n");
        let text = [
            "name = \"t\"\nstop_time = \"5ms\"\n[topology]\nkind = \"star\"\nhosts = 5\n".to_owned(),
            workload("reduce_scatter"),
            workload("all_reduce"),
            order("20us", "host = \"h1\"\nset = { min_rate = \"1G\" }"),
            order("10us", "show = true"),
            order("30us", "qpn = 77\nshow = true"),
        ];
        let report = run(&load("x", &text.concat()).unwrap()).unwrap();
        let page = data(&report.to_html());
        let collectives = page["collectives"].as_array().unwrap();
        let kinds: Vec<_> = collectives.iter().map(|c| c["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["all_reduce", "reduce_scatter"]);
        let all = &report.collectives[1];
        assert_eq!(collectives[0]["time_ns"], all.figures.time_ns.unwrap());
        assert_eq!(collectives[0]["busbw_bytes_per_s"], all.figures.busbw_bytes_per_s.unwrap());
        assert_eq!(collectives[0]["steps"].as_array().unwrap().len(), 8, "2 (n - 1)");
        assert_eq!(collectives[0]["steps"], serde_json::to_value(&all.steps).unwrap());
        // Each has a colour.
        let causes: Vec<_> = page["causes"].as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
        assert!(
            all.steps.iter().all(|s| causes.contains(&s.straggler.as_ref().unwrap().cause)),
            "{causes:?}"
        );
        let orders: Vec<_> = page["orders"]
            .as_array()
            .unwrap()
            .iter()
            .map(|o| (o["at"].as_u64(), o["pairs"].as_u64()))
            .collect();
        assert_eq!(orders.len(), 3);
        assert!(orders[0].0 == Some(20_000) && orders[1].0 == Some(10_000) && orders[1].1 > orders[0].1);
        assert_eq!((orders[2], page["orders"][2]["refused"].is_string()), ((None, Some(0)), true));
    }
}
