//! HPCC, TIMELY, DCTCP and HPCC over PINT of the published simulator: the senders alone. Each row gives what an
//! acknowledgement said; every column of state after it must agree.
#[path = "../../dataplane/tests/harness/published.rs"]
mod published;

use std::collections::HashMap;

use weir_endpoint::congestion::dctcp::{self, Dctcp};
use weir_endpoint::congestion::hpcc::{self, Hpcc};
use weir_endpoint::congestion::pint::{self, Pint};
use weir_endpoint::congestion::telemetry::IntHop;
use weir_endpoint::congestion::timely::{self, Timely};
use weir_endpoint::congestion::{Ack, Moment, UNLIMITED_WINDOW, Window};
use weir_sim::golden::scenarios::replay::DataSet;
use weir_sim::golden::scenarios::spec::Scenario;
use weir_sim::ns3::config::{Control, WindowRule};

fn set() -> Option<DataSet> {
    published::published("ns3-cc").map(|folder| DataSet::read(&folder).unwrap())
}

/// A row, its columns by number, counted from `time_ns`.
struct Row<'a>(&'a [String]);

impl Row<'_> {
    fn uint(&self, column: usize) -> u64 {
        self.0[column].parse().unwrap_or_else(|e| panic!("{column} of {:?}: {e}", self.0))
    }

    fn real(&self, column: usize) -> f64 {
        self.0[column].parse().unwrap_or_else(|e| panic!("{column} of {:?}: {e}", self.0))
    }

    fn ack(&self, acked: usize) -> Ack<'static> {
        Ack {
            now: self.uint(0),
            acked: self.uint(acked),
            next: self.uint(acked + 1),
            rtt: 0,
            marks: 0,
            hops: &[],
            power: 0,
            draw: 0,
        }
    }

    fn flow(&self) -> [u64; 3] {
        [self.uint(1), self.uint(2), self.uint(3)]
    }
}

fn window(scenario: &Scenario) -> Window {
    let bdp = scenario.largest[1].unwrap();
    match scenario.config.window {
        WindowRule::None => Window::None,
        WindowRule::Fixed => Window::Fixed(bdp),
        WindowRule::Variable => Window::Variable(bdp),
    }
}

fn kind(moment: Moment) -> u64 {
    match moment {
        Moment::First => 0,
        Moment::Full => 1,
        Moment::Between => 2,
    }
}

/// Window column: 0 where there is none.
fn shown(window: u64) -> u64 {
    if window == UNLIMITED_WINDOW { 0 } else { window }
}

/// Rows of a table through `play`, which returns what it has for the row, as bits; how many rows there were.
fn replay(table: &str, mut play: impl FnMut(&Scenario, &Row<'_>) -> Vec<(&'static str, u64, u64)>) {
    let Some(set) = set() else { return };
    let mut rows = 0;
    for name in set.described().names() {
        let scenario = set.scenario(name).unwrap();
        for (i, cells) in set.rows(table, name).iter().enumerate() {
            rows += 1;
            for (what, ours, logged) in play(&scenario, &Row(cells)) {
                assert_eq!(ours, logged, "{name} row {}: {what} of {cells:?}", i + 1);
            }
        }
    }
    assert!(rows > 1000, "{table} has {rows} rows");
}

fn line(scenario: &Scenario) -> u64 {
    scenario.topology.links[0].rate
}

#[test]
fn senders_hpcc() {
    let mut flows: HashMap<(String, [u64; 3]), Hpcc> = HashMap::new();
    replay("hpcc_acks", |scenario, row| {
        let Control::Hpcc(params) = scenario.config.control else { panic!("{}", scenario.name) };
        let [base_rtt, bdp] = scenario.largest.map(Option::unwrap);
        let params = hpcc::Params { line_bps: line(scenario), base_rtt, bdp, ..params };
        let sender = flows
            .entry((scenario.name.clone(), row.flow()))
            .or_insert_with(|| Hpcc::new(params, window(scenario)));
        let hops: Vec<Vec<&str>> = row.0[16].split(' ').map(|hop| hop.split(':').collect()).collect();
        let uint = |text: &str| text.parse::<u32>().unwrap();
        let raw: Vec<IntHop> = hops
            .iter()
            .map(|h| IntHop {
                code: uint(h[0]) as u8,
                port: 0,
                time: uint(h[1]),
                bytes: uint(h[2]),
                qlen: uint(h[3]),
            })
            .collect();
        let update = sender.update(&Ack { hops: &raw, ..row.ack(5) }).expect("a row");
        let mut all = vec![
            ("kind", kind(update.moment), row.uint(4)),
            ("rate", sender.rate_bps(), row.uint(7)),
            ("reference", sender.reference_bps(), row.uint(9)),
            ("last update", sender.last_update(), row.uint(11)),
        ];
        if !params.multi_rate {
            all.extend([
                ("stage", sender.stage().into(), row.uint(10)),
                ("U", update.load.to_bits(), row.real(12).to_bits()),
                ("dt", update.over, row.uint(13)),
                ("u", sender.load().to_bits(), row.real(14).to_bits()),
            ]);
        }
        for (hop, logged) in update.hops.iter().zip(&hops) {
            let real = |text: &str| text.parse::<f64>().unwrap().to_bits();
            all.extend([
                ("u of a hop", hop.load.to_bits(), real(logged[4])),
                ("ewma of a hop", hop.ewma.to_bits(), real(logged[5])),
                ("rate of a hop", hop.rate_bps, logged[6].parse().unwrap()),
                ("stage of a hop", hop.stage.into(), logged[7].parse().unwrap()),
            ]);
        }
        all
    });
}

#[test]
fn senders_timely() {
    let mut flows: HashMap<(String, [u64; 3]), Timely> = HashMap::new();
    replay("timely_events", |scenario, row| {
        let Control::Timely(params) = scenario.config.control else { panic!("{}", scenario.name) };
        let params = timely::Params { line_bps: line(scenario), ..params };
        let rule = window(scenario);
        let sender =
            flows.entry((scenario.name.clone(), row.flow())).or_insert_with(|| Timely::new(params, rule));
        let update = sender.update(&Ack { rtt: row.uint(7), ..row.ack(5) }).expect("a row");
        vec![
            ("kind", kind(update.moment), row.uint(4)),
            ("difference", update.difference as u64, row.0[8].parse::<i64>().unwrap() as u64),
            ("smoothed", sender.smoothed().to_bits(), row.real(9).to_bits()),
            ("gradient", update.gradient.to_bits(), row.real(10).to_bits()),
            ("c", update.c.to_bits(), row.real(12).to_bits()),
            ("rate", sender.rate_bps(), row.uint(13)),
            ("window", shown(rule.at(sender.rate_bps(), params.line_bps)), row.uint(14)),
            ("stage", sender.stage().into(), row.uint(16)),
            ("last update", sender.last_update(), row.uint(17)),
            ("last rtt", sender.last_rtt(), row.uint(18)),
        ]
    });
}

#[test]
fn senders_dctcp() {
    let mut flows: HashMap<(String, [u64; 3]), Dctcp> = HashMap::new();
    replay("dctcp_events", |scenario, row| {
        let Control::Dctcp(params) = scenario.config.control else { panic!("{}", scenario.name) };
        let params = dctcp::Params { line_bps: line(scenario), ..params };
        let sender = flows
            .entry((scenario.name.clone(), row.flow()))
            .or_insert_with(|| Dctcp::new(params, window(scenario)));
        let ack = Ack { marks: row.uint(8), ..row.ack(6) };
        // Marks that changed nothing but their own count have no row: the count of this one tells of them.
        let ended = !row.0[11].is_empty();
        let marks = if ended { row.uint(9) } else { row.uint(13) };
        for _ in sender.batch().0 + ack.marks..marks {
            let silent = sender.update(&Ack { acked: 0, marks: 1, ..ack });
            assert_eq!(silent, None, "{:?}", row.0);
        }
        let update = sender.update(&ack).expect("a row");
        let fraction = if ended { row.real(11) } else { -1.0 };
        vec![
            ("batch", update.new_batch.into(), row.uint(4)),
            ("cut", update.cut.into(), row.uint(5)),
            ("fraction", update.fraction.unwrap_or(-1.0).to_bits(), fraction.to_bits()),
            ("alpha", sender.alpha().to_bits(), row.real(12).to_bits()),
            ("marks", sender.batch().0, row.uint(13)),
            ("packets", sender.batch().1, row.uint(14)),
            ("reduced", sender.reduced().0.into(), row.uint(15)),
            ("high", sender.reduced().1, row.uint(16)),
            ("last update", sender.last_update(), row.uint(17)),
            ("rate", sender.rate_bps(), row.uint(18)),
        ]
    });
}

#[test]
fn senders_pint() {
    let mut flows: HashMap<(String, [u64; 3]), Pint> = HashMap::new();
    replay("pint_acks", |scenario, row| {
        let Control::Pint(params) = scenario.config.control else { panic!("{}", scenario.name) };
        let params = pint::Params { line_bps: line(scenario), ..params };
        let sender = flows
            .entry((scenario.name.clone(), row.flow()))
            .or_insert_with(|| Pint::new(params, window(scenario)));
        // Only what was heeded has a row, and a draw of 0 is.
        let update = sender.update(&Ack { power: row.uint(7) as u16, ..row.ack(5) }).expect("a row");
        vec![
            ("kind", kind(update.moment), row.uint(4)),
            ("load", update.load.to_bits(), row.real(8).to_bits()),
            ("c", update.c.to_bits(), row.real(9).to_bits()),
            ("rate", sender.rate_bps(), row.uint(10)),
            ("reference", sender.reference_bps(), row.uint(12)),
            ("stage", sender.stage().into(), row.uint(13)),
            ("last update", sender.last_update(), row.uint(14)),
        ]
    });
}
