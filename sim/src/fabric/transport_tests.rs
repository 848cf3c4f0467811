//! Receivers that take frames in any order: spraying, losses, refusals.

use super::report::Report;
use super::{load, run};
use weir_dataplane::rng::Rng;

const ANY_ORDER: &str = "[host]\ntransport = \"selective_repeat\"\ntimeout = \"1ms\"\n[host.selective_repeat]\nreorder_threshold = 512\n";

fn play(text: &str) -> Report {
    load("test", text).and_then(|spec| run(&spec)).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// One host at each of two leaves, `spines` spines.
fn leaf_spine(spines: usize, more: &str) -> String {
    format!(
        "name = \"t\"\nstop_time = \"20ms\"\n[topology]\nkind = \"leaf_spine\"\nleaves = 2\nspines = {spines}\nhosts_per_leaf = \
         4\n[routing]\nmode = \"spray\"\n{more}\n"
    )
}

/// Every packet is taken once; what was sent and not taken was lost on the way or came for nothing.
fn check_conservation(report: &Report) {
    for flow in &report.flows {
        let packets = flow.bytes.unwrap().div_ceil(1024);
        assert_eq!(flow.packets, packets + flow.resent, "flow {}", flow.id);
        assert_eq!(flow.delivered, flow.bytes.unwrap(), "flow {}", flow.id);
    }
    let resent: u64 = report.flows.iter().map(|f| f.resent).sum();
    let useless: u64 = report.flows.iter().filter_map(|f| f.useless).sum();
    // A timeout and a probe ask by a packet that may have come.
    let asked: u64 = report.flows.iter().map(|f| f.timeouts + f.probes).sum();
    assert!(useless <= asked, "{useless} {asked} {:?}", report.flows);
    // Answers are lost, too, and are not sent again. A probe may be on its way when all is over.
    let probes: u64 = report.flows.iter().map(|f| f.probes).sum();
    assert!(resent - useless <= report.frames_lost + report.frames_dropped + probes, "{resent} - {useless}");
}

#[test]
fn frames_sprayed_over_any_number_of_paths_are_sent_once_and_fill_the_line() {
    for (spines, seed) in [(2, 1), (4, 2), (8, 3), (16, 4)] {
        let report = play(&format!(
            "seed = {seed}\n{}",
            leaf_spine(
                spines,
                &format!(
                    "{ANY_ORDER}[trunk]\nrate = \"{}G\"\n[[workload]]\nkind = \"permutation\"\nshift = 4\nbytes = \"3MB\"",
                    400 / spines
                )
            )
        ));
        assert_eq!((report.flows_done, report.verdict), (8, "PASS"));
        check_conservation(&report);
        assert!(report.flows.iter().all(|f| f.resent == 0 && f.timeouts == 0), "{spines}");
        // Of placement without any collision each flow has a line of its own; spraying makes short queues.
        let slowest =
            report.flows.iter().map(|f| f.fct_ns.unwrap() * 1000 / f.ideal_ns.unwrap()).max().unwrap();
        assert!(slowest < 1110, "{spines} paths: {slowest}");
        // All paths together are as fast as the line, which no flow is faster than.
        assert!(report.flows.iter().all(|f| f.fct_ns.unwrap() >= f.ideal_ns.unwrap()), "{spines} paths");
    }
}

#[test]
fn only_what_a_link_loses_is_sent_again() {
    for seed in 0..6 {
        // Data goes one way alone, so what the first link loses is data.
        let mut rng = Rng::new(seed);
        let loss = f64::from(1 + rng.next_u32() % 50) / 1000.0;
        let report = play(&format!(
            "name = \"t\"\nstop_time = \"90ms\"\nseed = {seed}\n[topology]\nkind = \"direct\"\n{}[link]\nloss = {loss}\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = \"5MB\"\n",
            ANY_ORDER.replace("512", "1")
        ));
        assert_eq!(report.flows_done, 1, "{loss}");
        check_conservation(&report);
        let flow = &report.flows[0];
        let lost = report.links.iter().find(|l| l.from == "h0").unwrap().lost;
        // The one frame a probe asks by may have been lost before, and is sent again once.
        let again = flow.resent - flow.useless.unwrap();
        assert!(lost > 3 && (lost..=lost + flow.probes).contains(&again), "{loss}: {lost} {flow:?}");
    }
}

#[test]
fn losses_behind_sprayed_paths_are_repaired_in_every_kind_of_traffic() {
    for (kind, cc) in [
        ("kind = \"incast\"\nto = \"h5\"\nbytes = \"400KB\"", "dcqcn"),
        ("kind = \"all_to_all\"\nbytes = \"100KB\"", "none"),
        ("kind = \"all_reduce\"\nbytes = \"2MB\"", "nscc"),
        ("kind = \"permutation\"\nshift = 3\nbytes = \"1MB\"", "swift"),
        ("kind = \"permutation\"\nbytes = \"1MB\"", "hpcc-pint"),
    ] {
        let text =
            leaf_spine(4, &format!("{ANY_ORDER}[link]\nloss = 0.003\n[[workload]]\n{kind}\ncc = \"{cc}\""));
        let report = play(&text);
        assert_eq!((report.flows_done, report.verdict), (report.flows.len(), "PASS"), "{kind} {cc}");
        check_conservation(&report);
        assert!(report.frames_lost > 10 && report.flows.iter().any(|f| f.resent > 0), "{kind} {cc}");
        assert_eq!(report, play(&text), "same seed, same bits");
    }
}

#[test]
fn an_adapter_s_work_requests_go_on_when_frames_overtake_one_another() {
    let report = play(&leaf_spine(
        4,
        &format!(
            "{ANY_ORDER}[host.dcqcn]\nscheme = \"hardware\"\n[link]\nloss = 0.002\n[[workload]]\nkind = \"incast\"\nto = \"h5\"\nbytes = \"300KB\"\ncc = \"dcqcn\""
        ),
    ));
    assert_eq!((report.flows_done, report.verdict), (7, "PASS"));
    check_conservation(&report);
}

#[test]
fn what_contradicts_any_order_is_refused_by_place_and_remedy() {
    let base = |host: &str, workload: &str| {
        format!(
            "name = \"t\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n[host]\n{host}\n[[workload]]\nkind = \"incast\"\nto = \"h0\"\nbytes = \"1KB\"\n{workload}\n"
        )
    };
    let any = "transport = \"selective_repeat\"";
    let with = |more: &str| format!("{any}\n[host.selective_repeat]\n{more}");
    for (host, workload, place, says) in [
        (
            "[host.selective_repeat]\nwindow = 8".to_owned(),
            "",
            "t:7: ",
            "set transport = \"selective_repeat\"",
        ),
        (format!("protocol = \"rclink\"\n{any}"), "", "t:8: ", "go-back-N or, in LITE mode"),
        (any.to_owned(), "reliable = false", "t:7: ", "take `reliable = false` out"),
        (with("window = 1"), "", "t:9: ", "2 to 1048576"),
        (with("window = 2000000"), "", "t:9: ", "2 to 1048576"),
        (with("window = 16\nreorder_threshold = 16"), "", "t:10: ", "1 to 15: below window, which is 16"),
        (with("reorder_threshold = 0"), "", "t:9: ", "1 to 4095"),
        ("transport = \"in_order\"".to_owned(), "", "t:7:13", "selective_repeat"),
    ] {
        let refused = load("t", &base(&host, workload)).and_then(|spec| run(&spec)).unwrap_err().to_string();
        let named = refused.starts_with(place) || refused.contains("line 7, column 13");
        assert!(named && refused.contains(says), "{refused}");
    }
    let ns3 = base(any, "").replace("stop_time", "profile = \"ns3-hpcc\"\nstop_time");
    let refused = load("t", &ns3).and_then(|spec| run(&spec)).unwrap_err().to_string();
    assert!(refused.contains("host.transport"), "{refused}");
}

/// The rows of docs/simulation.md, from the file beside them.
#[test]
fn the_table_of_transports_is_what_runs_give() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).unwrap();
    let (file, docs) =
        (read("configs/sim/spray.toml").replace("\"20ms\"", "\"5ms\""), read("docs/simulation.md"));
    let mut missing = Vec::new();
    for (mode, transport, loss, cc) in [
        ("ecmp", "go_back_n", 0.0, "none"),
        ("ecmp", "go_back_n", 0.001, "none"),
        ("ecmp", "selective_repeat", 0.001, "none"),
        ("spray", "go_back_n", 0.0, "none"),
        ("spray", "selective_repeat", 0.0, "none"),
        ("spray", "selective_repeat", 0.001, "none"),
        ("spray", "selective_repeat", 0.0, "nscc"),
    ] {
        let text = file.replace("mode = \"spray\"", &format!("mode = \"{mode}\"")).replace(
            "transport = \"selective_repeat\"",
            &format!("transport = \"{transport}\"\ntimeout = \"200us\"\ncongestion_control = \"{cc}\""),
        );
        let report = play(&format!("{text}[link]\nloss = {loss}\n"));

        let delivered: u64 = report.flows.iter().map(|f| f.delivered).sum();
        let last = report
            .flows
            .iter()
            .map(|f| f.fct_ns)
            .collect::<Option<Vec<_>>>()
            .and_then(|all| all.into_iter().max());
        let row = format!(
            "| `{mode}` | `{transport}` | {loss} | `{cc}` | {:.1} | {} | {} | {:.0} |",
            delivered as f64 / 1e6,
            last.map_or("not done".to_owned(), |ns| format!("{:.0}", ns as f64 / 1e3)),
            report.flows.iter().map(|f| f.resent).sum::<u64>(),
            report.queue_max() as f64 / 1e3,
        );
        if !docs.contains(&row) {
            missing.push(row);
        }
    }
    assert!(missing.is_empty(), "docs/simulation.md has other figures than\n{}", missing.join("\n"));
}
