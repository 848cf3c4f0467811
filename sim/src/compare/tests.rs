//! Reports and sweeps as they are written, and files that are none.

use super::course::Course;
use super::*;
use crate::fabric::{FlowsFormat, load, run};
use crate::sweep::{Keep, Orders, Plan, run_shard};
use serde_json::Value;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

fn orders(dir: &Path, keep: Keep, flows: FlowsFormat) -> Orders<'_> {
    Orders { shard: "1/1", dir, keep, flows, jobs: NonZeroUsize::MIN }
}

fn spec(hosts: usize, rate: &str, seed: u64) -> String {
    format!(
        "name = \"base\"\nstop_time = \"1ms\"\nseed = {seed}\n[topology]\nkind = \"star\"\nhosts = {hosts}\n[link]\nrate = \
         \"{rate}\"\n[switch.config.buffer]\nsize = \"1MiB\"\n[switch.config.port_defaults]\nmtu = 1600\n[[workload]]\nkind \
         = \"poisson\"\nbytes = 1000\nload = 0.5\nduration = \"20us\"\n"
    )
}

fn write(dir: &Path, name: &str, spec: &str) -> (PathBuf, crate::fabric::Report) {
    let (to, report) = (dir.join(name), run(&load(name, spec).unwrap()).unwrap());
    std::fs::create_dir_all(&to).unwrap();
    std::fs::write(to.join("report.json"), report.to_json()).unwrap();
    (to, report)
}

/// A sweep over `axes` in folder `name`.
fn sweep_of(dir: &Path, name: &str, rate: &str, axes: &[(&str, &str)]) -> PathBuf {
    std::fs::write(dir.join("base.toml"), spec(4, rate, 1)).unwrap();
    let axes: String =
        axes.iter().map(|(key, values)| format!("[[axis]]\nkey = \"{key}\"\nvalues = {values}\n")).collect();
    let plan = dir.join("plan.toml");
    std::fs::write(&plan, format!("name = \"{name}\"\nbase = \"base.toml\"\n{axes}")).unwrap();
    let to = dir.join(name);
    run_shard(&Plan::read(&plan).unwrap(), &orders(&to, Keep::default(), FlowsFormat::Csv), &|_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    dir.join(name)
}

fn row<'a>(rows: &'a [Vec<String>], name: &str) -> &'a [String] {
    &rows.iter().find(|row| row[0] == name).unwrap()[1..]
}

#[test]
fn a_stored_report_has_the_figures_of_its_summary() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, report) = write(dir.path(), "a", &spec(4, "100G", 7));
    let [side] = &side::read(&folder).unwrap()[..] else { panic!("one") };
    let summary = serde_json::to_value(report.summary()).unwrap();
    let expected: figures::Figures = serde_json::from_value(summary).unwrap();
    assert_eq!(side.runs[&7].figures, expected);
    assert!(expected.completion_ns.unwrap() >= expected.fct_ns.unwrap().max);
    // The spec of a sweep and the report of a run say the same of a topology.
    let spec = load("a", &spec(4, "100G", 7)).unwrap();
    assert_eq!(side.neighbours, crate::fabric::neighbours(&spec).unwrap());
    assert_eq!(side.neighbours.len(), 2 * 4);
    let course = side.course().unwrap();
    assert_eq!(course.fct_ns.len(), report.flows_done);
    let slowdowns: Vec<u64> =
        report.flows.iter().filter_map(crate::fabric::FlowResult::slowdown_milli).collect();
    assert_eq!(course.slowdown_milli, slowdowns);
    let [queues] = &course.queues[..] else { panic!("one run") };
    assert_eq!(queues.peaks.iter().map(|(peak, _)| *peak).max(), Some(report.queue_max()));
    assert_eq!(queues.peaks.iter().map(|(_, length)| *length).sum::<u64>(), report.end_ns);
}

#[test]
fn two_reports_are_compared_in_percent_and_other_topologies_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (a, fast) = write(dir.path(), "a", &spec(4, "100G", 1));
    let (b, slow) = write(dir.path(), "b", &spec(4, "25G", 1));
    let (c, _) = write(dir.path(), "c", &spec(5, "100G", 1));
    let both = compare(&[a.clone(), b.join("report.json")]).unwrap();
    assert!(both.notes().is_empty(), "{:?}", both.notes());
    let (was, is) = (fast.fct_ns.unwrap().p99 as f64, slow.fct_ns.unwrap().p99 as f64);
    let rows = both.rows();
    let [first, second, change] = row(&rows, "FCT p99, us") else { panic!("three cells") };
    assert_eq!(*first, format!("{:.1}", was / 1e3));
    assert_eq!(*second, format!("{:.1}", is / 1e3));
    assert_eq!(*change, format!("{:+.1} %", (is - was) / was * 100.0));
    let same = compare(&[a.clone(), a.clone()]).unwrap();
    for row in same.rows() {
        let none = row[1].starts_with(['1', '2', '3', '4', '5', '6', '7', '8', '9']);
        assert_eq!((&row[2], &*row[3]), (&row[1], if none { "+0.0 %" } else { "-" }), "{row:?}");
    }

    let other = compare(&[a, c]).unwrap();
    let note = "the topology of B is not that of A: nodes: 6, links: 5; of A: nodes: 5, links: 4";
    assert_eq!(other.notes(), [note]);
    assert!(other.text().contains(note));
}

/// PFC frames of hosts are beside those of switches, of reports as of sweeps.
#[test]
fn pauses_of_hosts_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let text = |read: &str| {
        format!(
            "name = \"d\"\nstop_time = \"5ms\"\n[topology]\nkind = \"direct\"\n[host]\nprotocol = \"rclink\"\n[host.rclink]\n\
             read_rate = \"{read}\"\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\nbytes = \"2MB\"\n"
        )
    };
    let ((a, fast), (b, slow)) =
        (write(dir.path(), "a", &text("400G")), write(dir.path(), "b", &text("20G")));
    assert!(fast.host_pfc() == 0 && slow.host_pfc() > 0);
    let rows = compare(&[a, b]).unwrap().rows();
    assert_eq!(row(&rows, "PFC frames of hosts")[..2], ["0".to_owned(), slow.host_pfc().to_string()]);
    std::fs::write(dir.path().join("base.toml"), text("400G")).unwrap();
    let plan = dir.path().join("plan.toml");
    let axis = "[[axis]]\nkey = \"host.rclink.read_rate\"\nvalues = [\"400G\", \"20G\"]\n";
    std::fs::write(&plan, format!("name = \"p\"\nbase = \"base.toml\"\n{axis}")).unwrap();
    let to = dir.path().join("p");
    run_shard(&Plan::read(&plan).unwrap(), &orders(&to, Keep::Figures, FlowsFormat::Csv), &|_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(
        row(&compare(std::slice::from_ref(&to)).unwrap().rows(), "PFC frames of hosts")[..2],
        row(&rows, "PFC frames of hosts")[..2]
    );
    let csv = crate::sweep::merge(&[to]).unwrap().csv();
    assert!(
        csv.contains(",pfc_pauses,host_pfc_frames,host_paused_ns,")
            && csv.contains(&format!(",0,{},", slow.host_pfc())),
        "{csv}"
    );
}

#[test]
fn flow_level_is_compared_in_what_it_knows() {
    let dir = tempfile::tempdir().unwrap();
    let (a, packets) = write(dir.path(), "a", &spec(4, "100G", 1));
    let (b, flows) = write(dir.path(), "b", &format!("level = \"flow\"\n{}", spec(4, "100G", 1)));
    let both = compare(&[a, b]).unwrap();
    assert_eq!(both.notes(), ["B: flow level, which has no frames, queues, marks and pauses"]);
    let rows = both.rows();
    let us = |report: &crate::fabric::Report| format!("{:.1}", report.fct_ns.unwrap().max as f64 / 1e3);
    let [of_packets, of_flows, _] = row(&rows, "FCT max, us") else { panic!("three cells") };
    assert_eq!((of_packets, of_flows), (&us(&packets), &us(&flows)));
    for unknown in ["marks", "longest queue, bytes", "pause frames of switches", "frames sent, each hop"] {
        let [known, unknown, difference] = row(&rows, unknown) else { panic!("three cells") };
        assert!(known != "-" && unknown == "-" && difference == "-", "{known} {unknown} {difference}");
    }
    assert!(both.to_html().contains("flow level"));
    let plan =
        sweep_of(dir.path(), "levels", "100G", &[("level", "[\"packet\", \"flow\"]"), ("seed", "[1, 2]")]);
    let levels = compare(&[plan]).unwrap();
    assert!(levels.notes().iter().any(|note| note.starts_with("B: flow level")), "{:?}", levels.notes());
    assert_eq!(row(&levels.rows(), "marks")[1], "-");
}

#[test]
fn seeds_of_sweeps_are_pairs_with_an_interval() {
    let dir = tempfile::tempdir().unwrap();
    let fast = sweep_of(dir.path(), "fast", "100G", &[("seed", "[1, 2, 3]")]);
    let slow = sweep_of(dir.path(), "slow", "25G", &[("seed", "[2, 3, 4]")]);
    let both = compare(&[fast.clone(), slow.clone()]).unwrap();
    assert_eq!(both.legend()[1], format!("B  {}: 3 seeds, 2 to 4", slow.display()));
    assert!(both.notes()[0].starts_with("B to A: mean difference of 2 pairs"), "{:?}", both.notes());
    // By hand, of seeds 2 and 3; t(0.975, 1) = 12.7062.
    let p50 = |side: &Side, seed| side.runs[&seed].figures.fct_ns.unwrap().p50 as f64;
    let [a, b] = &both.sides[..] else { panic!("two") };
    let (d2, d3) = (p50(b, 2) - p50(a, 2), p50(b, 3) - p50(a, 3));
    let base = f64::midpoint(p50(a, 2), p50(a, 3));
    // s / sqrt(2) of two values is half their distance.
    let (middle, half) =
        (f64::midpoint(d2, d3) / base * 100.0, 12.7062 * (d2 - d3).abs() / 2.0 / base * 100.0);
    let got =
        difference::between(a, b, figures::of(&both.sides).iter().find(|f| f.name == "FCT p50, us").unwrap())
            .unwrap();
    assert!((got.percent - middle).abs() < 1e-9 && (got.half.unwrap() - half).abs() < 1e-3, "{got:?}");
    assert!(row(&both.rows(), "FCT p50, us")[2].contains(" \u{b1} "));

    // One sweep with another axis: a setting for each of its values.
    let one = sweep_of(
        dir.path(),
        "one",
        "100G",
        &[("seed", "[1, 2]"), ("link.rate", "[\"100G\", \"0\", \"25G\"]")],
    );
    let one = compare(&[one]).unwrap();
    assert!(one.legend()[1].contains("link.rate = \"25G\": 2 seeds, 1 to 2"), "{:?}", one.legend());
    assert!(
        one.notes()
            .iter()
            .any(|n| n.starts_with("A: of 6 points of the sweep 0 are missing, 2 broken (point ")),
        "{:?}",
        one.notes()
    );

    // One run has no seed to pair with.
    let (alone, _) = write(dir.path(), "alone", &spec(4, "100G", 9));
    let means = compare(&[fast, alone]).unwrap();
    assert_eq!(means.notes(), ["B to A: fewer than two seeds in common, so the means are compared"]);
    assert!(means.rows().iter().all(|row| !row[3].contains('\u{b1}')));
}

/// A run that is cut off has no completion. Those that are left are the faster ones.
#[test]
fn runs_without_a_figure_are_told_and_not_compared() {
    let dir = tempfile::tempdir().unwrap();
    let ends = |stop: &str| {
        let base = spec(4, "25G", 1).replace("\"1ms\"", &format!("{stop:?}"));
        std::fs::write(dir.path().join("base.toml"), base).unwrap();
        let axes = "[[axis]]\nkey = \"link.delay\"\nvalues = [\"1us\", \"2us\"]\n[[axis]]\nkey = \"seed\"\nvalues = [1, 2, 3, 4]\n";
        std::fs::write(dir.path().join("plan.toml"), format!("name = \"p\"\nbase = \"base.toml\"\n{axes}"))
            .unwrap();
        let (plan, to) = (Plan::read(&dir.path().join("plan.toml")).unwrap(), dir.path().join(stop));
        run_shard(&plan, &orders(&to, Keep::Figures, FlowsFormat::Csv), &|_| ControlFlow::Continue(()))
            .unwrap();
        let of = |side: &Side| -> Vec<u64> {
            side.runs.values().filter_map(|run| run.figures.completion_ns).collect()
        };
        let both = compare(&[to]).unwrap();
        (both.sides.iter().map(of).collect::<Vec<_>>(), both)
    };
    let (all, both) = ends("1ms");
    let rows = both.rows();
    assert!(row(&rows, "completion of all, us")[2].contains('\u{b1}') && all[0].len() == 4, "{rows:?}");
    assert!(!both.notes().iter().any(|note| note.contains("lacks")), "{:?}", both.notes());
    assert!(both.json()["figures"][1]["settings"][1]["difference_percent"].is_number());
    // All but the slowest run of the second setting end.
    let slowest = all[1].iter().max().unwrap();
    let (left, both) = ends(&format!("{}ns", slowest - 1));
    assert_eq!(left.iter().map(Vec::len).collect::<Vec<_>>(), [4, 3]);
    let (rows, notes) = (both.rows(), both.notes());
    let [_, of_b, change] = row(&rows, "completion of all, us") else { panic!("three cells") };
    assert!(of_b.ends_with(" (3 of 4)") && change == "-", "{of_b} {change}");
    let seed = all[1].iter().position(|end| end == slowest).unwrap() + 1;
    let words = format!("B: seed {seed} lacks figures that other runs have");
    assert!(notes.iter().any(|note| note.starts_with(&words)), "{notes:?}");
    let json = &both.json()["figures"][1]["settings"][1];
    assert!(json["runs"] == 3 && json["difference_percent"].is_null(), "{json}");
    assert!(
        row(&rows, "marks")[2] == "-" && row(&rows, "frames sent, each hop")[2].contains('\u{b1}'),
        "{rows:?}"
    );
}

#[test]
fn what_is_no_result_is_refused_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (good, report) = write(dir.path(), "good", &spec(4, "100G", 1));
    std::fs::create_dir(path("empty")).unwrap();
    std::fs::write(path("flows.csv"), report.flows_csv()).unwrap();
    std::fs::write(path("short.json"), &report.to_json()[..2000]).unwrap();
    std::fs::write(path("old.json"), "{ \"schema\": 2 }").unwrap();
    std::fs::write(path("other.json"), "{ \"schema\": 3, \"ports\": [] }").unwrap();
    for (name, what) in [
        ("absent", "cannot read"),
        ("empty", "neither report.json nor plan.json is in it; give a folder"),
        ("flows.csv", "no report of `weir sim`: "),
        ("short.json", "give a report.json that"),
        ("old.json", "layout 2 of reports, and this weir reads 3: play it again"),
        ("other.json", "missing field"),
    ] {
        let refused = compare(&[good.clone(), path(name)]).unwrap_err().to_string();
        assert!(refused.contains(name) && refused.contains(what), "{name}: {refused}");
    }
    let alone = compare(std::slice::from_ref(&good)).unwrap_err().to_string();
    assert!(alone.starts_with("1 setting, and 2 to 16 can be compared: give more folders"), "{alone}");
    let many = compare(&vec![good; 17]).unwrap_err().to_string();
    assert!(many.starts_with("17 settings, and 2 to 16 can be compared: give fewer folders"), "{many}");
    // Points that are refused: all, and one of two.
    let spine = ("topology.kind", "[\"no_such\"]");
    let refused = sweep_of(dir.path(), "refused", "100G", &[spine]);
    let refused = compare(&[refused]).unwrap_err().to_string();
    assert!(
        refused.contains("no point of this sweep has a result: 1 of 1 were refused, point 0: ")
            && refused.contains("no_such"),
        "{refused}"
    );
    let half = sweep_of(dir.path(), "half", "100G", &[("link.rate", "[\"100G\", \"0G\"]")]);
    let half = compare(&[half]).unwrap_err().to_string();
    assert!(
        half.starts_with("1 setting, and 2")
            && half.contains("; of 2 points of the sweep 0 are missing, 1 broken (point 1: "),
        "{half}"
    );
    // A plan that was written before its first point was.
    let sweep = sweep_of(dir.path(), "sweep", "100G", &[("seed", "[1]")]);
    for file in std::fs::read_dir(&sweep).unwrap().map(|e| e.unwrap().path()) {
        if file.is_dir() {
            std::fs::remove_dir_all(file).unwrap();
        } else if !file.ends_with("plan.json") {
            std::fs::remove_file(file).unwrap();
        }
    }
    assert!(matches!(compare(&[sweep]), Err(CompareError::Empty { refused: None, .. })));
}

/// What a page draws.
fn data_of(page: &str) -> Value {
    let data = page.split("type=\"application/json\">").nth(1).unwrap().split("</script>").next().unwrap();
    serde_json::from_str(data).unwrap()
}

#[test]
fn the_page_needs_nothing_else_and_names_cannot_become_markup() {
    let dir = tempfile::tempdir().unwrap();
    let (a, report) = write(dir.path(), "<b>", &spec(4, "100G", 1));
    let (b, _) = write(dir.path(), "b", &spec(4, "25G", 1));
    let page = compare(&[a, b]).unwrap().to_html();
    assert!(!page.contains("<b>"));
    assert_eq!(page.matches("</script>").count(), 2, "data and code");
    for other in
        ["http://", "https://", "src=", "@import", "/*css*/", "/*data*/", "/*script*/", "<!--title-->"]
    {
        assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(other), "{other}");
    }
    let data = data_of(&page);
    assert!(data["sides"][0]["name"].as_str().unwrap().contains("<b>"));
    let last = data["sides"][0]["fct"].as_array().unwrap().last().unwrap();
    assert_eq!(*last, serde_json::json!([report.fct_ns.unwrap().max, 1000]));
    assert_eq!(data["sides"][1]["paused"].as_array().unwrap().len(), 4);
    assert!(data["depths_end_ns"].as_u64() >= Some(report.end_ns));
    assert_eq!(data["rows"].as_array().unwrap().len(), 16);
}

/// A longer run has longer intervals, and so longer queues within them; each weighs as long as it is.
#[test]
fn queues_of_runs_of_different_lengths_are_those_of_intervals_of_one_length() {
    let dir = tempfile::tempdir().unwrap();
    let with = |name: &str, spec: &str, end_ns: u64, period_ns: u64, peaks: &[u64]| {
        let (folder, report) = write(dir.path(), name, spec);
        let mut json: Value = serde_json::from_str(&report.to_json()).unwrap();
        json["end_ns"] = end_ns.into();
        json["timeline"]["period_ns"] = period_ns.into();
        json["timeline"]["depth_max"] = peaks.into();
        std::fs::write(folder.join("report.json"), json.to_string()).unwrap();
        folder
    };
    let packets = spec(4, "100G", 1);
    let short = with("short", &packets, 10, 4, &[5, 1, 9]);
    let long = with("long", &packets, 20, 8, &[2, 7, 3]);
    let idle = with("idle", &packets, 30, 8, &[]);
    let flows = with("flows", &format!("level = \"flow\"\n{packets}"), 40, 16, &[]);
    let page = |paths: &[&PathBuf]| {
        let paths: Vec<PathBuf> = paths.iter().copied().cloned().collect();
        data_of(&compare(&paths).unwrap().to_html())
    };
    let data = page(&[&short, &long, &idle, &flows]);
    assert_eq!(data["queues_period_ns"], 8);
    // 5 within the first 8 ns, 9 in the 2 ns that are left; 2, 7 and 3 in 8, 8 and 4 ns.
    assert_eq!(data["sides"][0]["queues"], serde_json::json!([[5, 800], [9, 1000]]));
    assert_eq!(data["sides"][1]["queues"], serde_json::json!([[2, 400], [3, 600], [7, 1000]]));
    assert_eq!(data["sides"][2]["queues"], serde_json::json!([[0, 1000]]), "a run without a queue");
    assert_eq!(data["sides"][3]["queues"], serde_json::json!([]), "a run that does not know of queues");
    // Over time each has its own.
    assert_eq!(data["sides"][0]["depths"], serde_json::json!({ "values": [5, 1, 9], "period_ns": 4 }));
    assert!(data["sides"][3]["depths"].is_null());
    assert_eq!(data["depths_end_ns"], 30);
    let data = page(&[&short, &short]);
    assert_eq!(data["sides"][0]["queues"], serde_json::json!([[1, 400], [5, 800], [9, 1000]]));

    // Runs of one setting: each as long as it is.
    let of = |folder: &Path| side::read(folder).unwrap()[0].course().unwrap();
    let both = of(&short).join(of(&long)).queues;
    let together = both.iter().flat_map(|run| run.widened(8)).collect();
    let points = [(2, 266), (3, 400), (5, 666), (7, 933), (9, 1000)];
    assert_eq!(crate::page::weighted_distribution(together), points);
}

/// Files of the folders in `dir`.
fn walk(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let folders =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    folders.flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()))
}

/// What a sweep keeps of its points is drawn: flows and ports of tables, queues of reports, all seeds of a setting together.
#[test]
fn a_sweep_has_the_flows_ports_and_queues_it_has_kept() {
    let dir = tempfile::tempdir().unwrap();
    let reports: Vec<Course> = [1, 2]
        .map(|seed| {
            let (folder, _) = write(dir.path(), &format!("report{seed}"), &spec(4, "100G", seed));
            side::read(&folder).unwrap()[0].course().unwrap()
        })
        .into();
    let both = reports[0].clone().join(reports[1].clone());
    assert!(
        both.fct_ns.len() > reports[0].fct_ns.len()
            && both.queues == [&reports[0].queues[0], &reports[1].queues[0]].map(Clone::clone)
    );
    let course = |keep: Keep, flows: FlowsFormat| {
        let to = dir.path().join(format!("{keep:?}{flows:?}"));
        sweep_of(dir.path(), "plan", "100G", &[("seed", "[1, 2]")]);
        let plan = Plan::read(&dir.path().join("plan.toml")).unwrap();
        run_shard(&plan, &orders(&to, keep, flows), &|_| ControlFlow::Continue(())).unwrap();
        let [side] = &side::read(&to).unwrap()[..] else { panic!("one") };
        side.course()
    };
    assert_eq!(course(Keep::Report, FlowsFormat::Csv), Some(both.clone()));
    let of_tables = Course { queues: Vec::new(), ..both };
    assert_eq!(course(Keep::Tables, FlowsFormat::Csv).as_ref(), Some(&of_tables));
    // Cut between two lines, or within one, it is no table of all flows.
    let to = dir.path().join("TablesCsv");
    let table = walk(&to).find(|path| path.ends_with("flows.csv")).unwrap();
    let whole = std::fs::read_to_string(&table).unwrap();
    for cut in [whole.match_indices('\n').nth(3).unwrap().0 + 1, whole.len() / 2] {
        std::fs::write(&table, &whole[..cut]).unwrap();
        let said = side::read(&to).unwrap_err().to_string();
        assert!(said.contains("flows.csv: cut short: ") && said.contains("delete it"), "{said}");
    }
    std::fs::write(&table, &whole).unwrap();
    let ports = table.with_file_name("ports.csv");
    let whole = std::fs::read_to_string(&ports).unwrap();
    std::fs::write(&ports, &whole[..whole.rfind(',').unwrap()]).unwrap();
    let said = side::read(&to).unwrap_err().to_string();
    assert!(said.contains("ports.csv: a line of it cannot be read; delete it"), "{said}");
    assert_eq!(course(Keep::Tables, FlowsFormat::Parquet), Some(of_tables));
    assert_eq!(course(Keep::Figures, FlowsFormat::Csv), None);
}

/// An all-reduce of 1 MB over eight hosts by `kind`.
fn collective(kind: &str, seed: u64) -> String {
    format!(
        "name = \"c\"\nstop_time = \"9ms\"\nseed = {seed}\n[topology]\nkind = \"leaf_spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n\
         [link]\nloss = 0.0005\n[host]\ntimeout = \"100us\"\n[[workload]]\nkind = \"{kind}\"\nbytes = \"1MB\"\n"
    )
}

#[test]
fn collectives_of_one_workload_are_compared_whatever_their_algorithm() {
    let dir = tempfile::tempdir().unwrap();
    let (ring, of_ring) = write(dir.path(), "ring", &collective("all_reduce", 1));
    let (tree, of_tree) = write(dir.path(), "tree", &collective("tree_all_reduce", 1));
    let both = compare(&[ring, tree]).unwrap();
    let rows = both.rows();
    let name = |what: &str| format!("all_reduce / tree_all_reduce: {what}");
    let [a, b] = [&of_ring, &of_tree].map(|report| report.collectives[0].clone());
    let (was, is) = (a.figures.time_ns.unwrap() as f64, b.figures.time_ns.unwrap() as f64);
    let shown = |ns: f64| format!("{:.1}", ns / 1e3);
    assert_eq!(
        row(&rows, &name("time, us")),
        [shown(was), shown(is), format!("{:+.1} %", (is - was) / was * 100.0)]
    );
    let busbw = |c: &crate::fabric::CollectiveResult| {
        format!("{:.2}", c.figures.busbw_bytes_per_s.unwrap() as f64 / 1e9)
    };
    assert_eq!(row(&rows, &name("busbw, GB/s"))[..2], [busbw(&a), busbw(&b)]);
    let late =
        |c: &crate::fabric::CollectiveResult| shown(c.figures.straggler.as_ref().unwrap().late_ns as f64);
    assert_eq!(row(&rows, &name("straggler late by, us"))[..2], [late(&a), late(&b)]);
    assert_eq!(rows.len(), 16 + 4, "time, algbw, busbw, straggler");
    // Where a run has none of a kind there is no number.
    let (plain, _) = write(dir.path(), "plain", &spec(4, "100G", 1));
    let other = compare(&[dir.path().join("ring"), plain]).unwrap();
    assert_eq!(row(&other.rows(), "all_reduce: time, us")[1..], ["-".to_owned(), "-".to_owned()]);
}

/// A sweep keeps a summary of each run, and collectives are in it.
#[test]
fn collectives_of_sweeps_have_an_interval_over_seeds() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("base.toml"), collective("all_reduce", 1)).unwrap();
    let plan = dir.path().join("plan.toml");
    let axes = "[[axis]]\nkey = \"seed\"\nvalues = [1, 2, 3]\n[[axis]]\nkey = \"workload.0.kind\"\nvalues = [\"all_reduce\", \
                \"reduce_scatter\"]\n";
    std::fs::write(&plan, format!("name = \"c\"\nbase = \"base.toml\"\n{axes}")).unwrap();
    let to = dir.path().join("c");
    run_shard(&Plan::read(&plan).unwrap(), &orders(&to, Keep::Figures, FlowsFormat::Csv), &|_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    let both = compare(&[to]).unwrap();
    let rows = both.rows();
    let time = row(&rows, "all_reduce / reduce_scatter: time, us");
    let mean = [1, 2, 3].map(|seed| {
        let report = run(&load("c", &collective("all_reduce", seed)).unwrap()).unwrap();
        report.collectives[0].figures.time_ns.unwrap() as f64 / 3e3
    });
    assert_eq!(time[0], format!("{:.1}", mean.iter().sum::<f64>()));
    // Half of the steps, so about half of the time.
    assert!(time[2].starts_with('-') && time[2].contains(" \u{b1} "), "{time:?}");
}
