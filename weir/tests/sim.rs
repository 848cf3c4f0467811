//! `weir sim` from outside: files, a sweep that is killed and goes on, refusals.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const CONFIGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/sim");

fn weir(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).arg("sim").args(args).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A plan of 60 points in `dir`; its path.
fn plan(dir: &Path) -> String {
    let base = std::fs::read_to_string(format!("{CONFIGS}/incast.toml")).unwrap();
    std::fs::write(dir.join("base.toml"), base).unwrap();
    let seeds: Vec<String> = (1..=20).map(|n| n.to_string()).collect();
    let plan = format!(
        "name = \"kill\"\nbase = \"base.toml\"\n[[axis]]\nkey = \"seed\"\nvalues = [{}]\n[[axis]]\nkey = \
         \"workload.0.senders\"\nvalues = [2, 5, 17]\n",
        seeds.join(", ")
    );
    let path = dir.join("plan.toml");
    std::fs::write(&path, plan).unwrap();
    path.to_str().unwrap().to_owned()
}

fn results(dir: &Path) -> usize {
    let names = std::fs::read_dir(dir).into_iter().flatten().map(|e| e.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().len() == 37).count()
}

/// Why one thread played a run is of interest to who allowed several.
#[test]
fn one_thread_of_one_is_not_told() {
    let file = format!("{CONFIGS}/ns3-incast.toml");
    for (threads, told) in [("1", false), ("2", true)] {
        let done = weir(&[&file, "--threads", threads]);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(said.contains(&format!("one thread of {threads} played it")), told, "{threads}: {said}");
    }
}

/// What the configuration of switches is warned of stands on standard error, as of a switch, and under "why" of the report.
#[test]
fn warnings_of_switches_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("fabric.toml");
    let text = "name = \"f\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n[[workload]]\nkind = \"permutation\"\n\
                bytes = 1000\n[switch.config.buffer]\nsize = \"4MiB\"\n[[switch.config.wred]]\nname = \"roce\"\nkmin = \"4MB\"\n\
                kmax = \"5MB\"\n";
    std::fs::write(&file, text).unwrap();
    let summary = weir(&[file.to_str().unwrap()]);
    let said = String::from_utf8(summary.stderr.clone()).unwrap();
    assert!(
        said.starts_with("warning[wred.xoff]: s0: `roce` marks everything") && said.contains("fabric.toml:1"),
        "{said}"
    );
    assert!(summary.status.success() && !out(&summary).contains("marks everything"), "{summary:?}");
    let json = weir(&[file.to_str().unwrap(), "--json"]);
    assert!(!json.stderr.is_empty() && out(&json).contains("`roce` marks everything from"), "{json:?}");
}

#[test]
fn a_run_leaves_a_page_and_tables() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("result");
    let done = weir(&[&format!("{CONFIGS}/pfc-chain.toml"), "--out", to.to_str().unwrap()]);
    assert!(done.status.success(), "{done:?}");
    // Nothing is drawn where there is no terminal.
    assert!(done.stderr.is_empty(), "{done:?}");
    let read = |name: &str| std::fs::read_to_string(to.join(name)).unwrap();
    assert!(read("report.html").contains("pfc-chain"));
    assert!(read("flows.csv").starts_with("# weir ") && read("ports.csv").starts_with("# weir "));
    let json = weir(&[&format!("{CONFIGS}/pfc-chain.toml"), "--json"]);
    assert_eq!(out(&json).trim_end(), read("report.json").trim_end(), "the same, bit for bit");
}

#[test]
fn flows_are_lines_or_columns_and_a_folder_has_one_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("result");
    let (lines, columns) = (to.join("flows.csv"), to.join("flows.parquet"));
    let play = |format: &str| {
        let file = format!("{CONFIGS}/incast.toml");
        let done = weir(&[&file, "--out", to.to_str().unwrap(), "--flows", format]);
        assert!(done.status.success(), "{done:?}");
        out(&done)
    };
    assert!(play("parquet").contains("/report.html, report.json, flows.parquet, ports.csv"));
    let bytes = std::fs::read(&columns).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1") && !lines.exists());
    assert!(play("csv").contains("flows.parquet, of a run before") && lines.exists() && !columns.exists());
    assert!(play("parquet").contains("flows.csv, of a run before"));
    assert_eq!(std::fs::read(&columns).unwrap(), bytes, "the same, bit for bit");
    // What weir did not write stays.
    std::fs::write(&columns, "PAR1").unwrap();
    assert!(!play("csv").contains("before") && columns.exists());
    let alone = weir(&[&format!("{CONFIGS}/incast.toml"), "--flows", "parquet"]);
    assert!(alone.status.code() == Some(2) && String::from_utf8_lossy(&alone.stderr).contains("--out"));
}

#[test]
fn a_killed_sweep_goes_on_and_any_sharding_has_one_digest() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(dir.path());
    let folder = |name: &str| dir.path().join(name);
    let text = |name: &str| folder(name).to_str().unwrap().to_owned();
    let sweep =
        |shard: &str, to: &str| weir(&["sweep", "--plan", &plan, "--shard", shard, "--out", &text(to)]);
    // Killed while it works: at least one result is there, and not all.
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["sim", "sweep", "--plan", &plan, "--out", &text("cut")])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while results(&folder("cut")) < 2 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = results(&folder("cut"));
    assert!((2..60).contains(&before), "{before} results");
    let missing = weir(&["merge", &text("cut")]);
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(out(&missing).contains("is missing"));
    // 17 senders do not fit 17 hosts: a third of the points is broken, and the sweep goes on.
    let rest = sweep("1/1", "cut");
    assert_eq!(rest.status.code(), Some(1), "{rest:?}");
    assert!(out(&rest).contains(&format!("{before} there before, 20 of all broken")), "{rest:?}");
    let why =
        out(&rest).lines().filter(|line| line.contains("is broken: ") && line.contains("17 senders")).count();
    assert_eq!(why, 10, "the first ten say why: {rest:?}");
    for i in 1..=3 {
        let done = sweep(&format!("{i}/3"), &format!("part{i}"));
        assert!(out(&done).contains("20 points played, 0 there before"), "{done:?}");
    }
    let digest = |args: &[&str]| {
        let merged = weir(args);
        assert_eq!(merged.status.code(), Some(1), "broken points: {merged:?}");
        let text = out(&merged);
        assert!(text.contains("60 of 60 points, 20 broken") && text.contains("17 senders"), "{text}");
        text.lines().find(|line| line.starts_with("digest ")).unwrap().to_owned()
    };
    let whole = digest(&["merge", &text("cut")]);
    assert_eq!(digest(&["merge", &text("part2"), &text("part1"), &text("part3")]), whole);
}

/// Ctrl-C.
fn interrupt(child: &Child) {
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
}

/// A plan of `points` runs with no end but that of the clock, which is far away.
const LONG: &str = "name = \"long\"\nstop_time = \"1000s\"\n[topology]\nkind = \"star\"\nhosts = 4\n[[workload]]\nkind = \
                    \"flow\"\nfrom = \"h0\"\nto = \"h1\"\n[[workload]]\nkind = \"flow\"\nfrom = \"h2\"\nto = \"h1\"\nbytes = \
                    \"1MB\"\n[[workload]]\nkind = \"flow\"\nfrom = \"h2\"\nto = \"h3\"\nstart = \"999s\"\nbytes = \"1MB\"\n";

#[test]
fn a_run_that_is_stopped_shows_how_far_it_is_and_leaves_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let (file, to) = (dir.path().join("long.toml"), dir.path().join("result"));
    std::fs::write(&file, LONG).unwrap();
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["sim".as_ref(), file.as_os_str(), "--out".as_ref(), to.as_os_str()])
        .env("TERM", "xterm")
        .stdout(Stdio::piped())
        .stderr(terminal.slave)
        .spawn()
        .unwrap();
    let mut shown = String::new();
    let mut terminal = std::fs::File::from(terminal.master);
    while !(shown.contains("events/s") && shown.contains(" left")) {
        let mut some = [0; 4096];
        let n = terminal.read(&mut some).unwrap_or_else(|error| panic!("{error}: {shown}"));
        shown.push_str(&String::from_utf8_lossy(&some[..n]));
    }
    assert!(shown.contains("long [") && shown.contains(" ms, ") && shown.contains("/3 flows"), "{shown}");
    interrupt(&child);
    // What it draws has to be taken, or it waits for that.
    let reader = std::thread::spawn(move || while terminal.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {});
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    reader.join().unwrap();
    assert!(said.contains("verdict: FAIL: stopped at ") && said.contains("figures are partial"), "{said}");
    let report = std::fs::read_to_string(to.join("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let end = report["end_ns"].as_u64().unwrap();
    assert!(report["stopped"] == true && (1..999_000_000_000).contains(&end), "{end}");
    assert_eq!((&report["flows_done"], &report["flows_finite"]), (&1.into(), &2.into()));
    // All that was delivered up to there is in it.
    assert!(report["flows"][0]["delivered"].as_u64().unwrap() > 0, "{}", report["flows"]);
    let flows = std::fs::read_to_string(to.join("flows.csv")).unwrap();
    // What it is, that it was stopped, units, keys, and three flows.
    assert_eq!(flows.lines().count(), 4 + 3, "{flows}");
    assert!(flows.lines().nth(1).is_some_and(|line| line.starts_with("# stopped at ")), "{flows}");
}

#[test]
fn a_sweep_that_is_stopped_keeps_what_it_has_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(dir.path());
    let to = dir.path().join("out");
    let start = |jobs: &str| {
        let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
        weir.args(["sim", "sweep", "--plan", &plan, "--jobs", jobs, "--out", to.to_str().unwrap()]);
        weir.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut child = start("2");
    while results(&to) < 2 && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    interrupt(&child);
    let stopped = child.wait_with_output().unwrap();
    let there = results(&to);
    assert_eq!(stopped.status.code(), Some(1), "{stopped:?}");
    assert!((2..60).contains(&there), "{there}");
    assert!(out(&stopped).contains(&format!("stopped: {} points left", 60 - there)), "{stopped:?}");
    let rest = start("3").wait_with_output().unwrap();
    assert!(out(&rest).contains(&format!("{there} there before, 20 of all broken")), "{rest:?}");
    // One thread, and nothing kept but figures: the same digest.
    let alone = dir.path().join("alone");
    let alone = alone.to_str().unwrap();
    weir(&["sweep", "--plan", &plan, "--jobs", "1", "--keep", "figures", "--out", alone]);
    let digest = |dir: &str| out(&weir(&["merge", dir])).lines().last().unwrap().to_owned();
    assert_eq!(digest(to.to_str().unwrap()), digest(alone));
    // The same as documents, with the same exit codes.
    let document = |output: &Output| serde_json::from_str::<serde_json::Value>(&out(output)).unwrap();
    let merged = weir(&["merge", alone, "--json"]);
    let (code, merged) = (merged.status.code(), document(&merged));
    assert_eq!(digest(alone), format!("digest {}", merged["digest"].as_str().unwrap()));
    assert_eq!(
        (code, merged["points"].as_u64(), merged["missing"].as_array().unwrap().len()),
        (Some(1), Some(60), 0)
    );
    assert_eq!(merged["broken"].as_array().unwrap().len(), 20, "{merged:#}");
    let again = weir(&["sweep", "--plan", &plan, "--keep", "figures", "--out", alone, "--json"]);
    let (code, again) = (again.status.code(), document(&again));
    let counts = ["points", "played", "were_there", "left"].map(|key| again[key].as_u64().unwrap());
    assert_eq!((code, counts), (Some(1), [60, 0, 60, 0]));
    assert_eq!(again["broken"], merged["broken"]);
    assert_eq!(std::fs::read_dir(alone).unwrap().count(), 60 + 1);
}

/// A point whose run does not come to an end by itself is left, and no part of it is taken for a result.
#[test]
fn a_point_that_is_stopped_has_no_result() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("base.toml"), LONG).unwrap();
    let plan = dir.path().join("plan.toml");
    std::fs::write(
        &plan,
        "name = \"p\"\nbase = \"base.toml\"\n[[axis]]\nkey = \"stop_time\"\nvalues = [\"2ms\", \"1000s\"]\n",
    )
    .unwrap();
    let to = dir.path().join("out");
    let child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["sim", "sweep", "--plan", plan.to_str().unwrap(), "--out", to.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    while results(&to) < 1 {
        std::thread::yield_now();
    }
    interrupt(&child);
    let stopped = child.wait_with_output().unwrap();
    assert!(
        out(&stopped).contains("1 point played, 0 there before") && out(&stopped).contains("1 point left"),
        "{stopped:?}"
    );
    assert_eq!(results(&to), 1);
    let list = |more: &[&str]| -> serde_json::Value {
        let args = [&["sweep", "--list", "--plan", plan.to_str().unwrap()], more].concat();
        let listed = weir(&args);
        assert!(listed.status.success(), "{listed:?}");
        serde_json::from_str(&out(&listed)).unwrap()
    };
    let all = list(&[]);
    assert_eq!((&all["open"], &all["axes"]), (&serde_json::json!([0, 1]), &serde_json::json!(["stop_time"])));
    let address = all["points"][0]["address"].as_str().unwrap();
    assert!(to.join(format!("{address}.json")).exists() && to.join(address).join("flows.csv").exists());
    let files: Vec<&str> =
        all["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    assert_eq!(files, [plan.to_str().unwrap(), dir.path().join("base.toml").to_str().unwrap()]);
    let to = to.to_str().unwrap();
    assert_eq!(list(&["--out", to])["open"], serde_json::json!([1]));
    assert_eq!(list(&["--out", to, "--keep", "report"])["open"], serde_json::json!([0, 1]));
}

#[test]
fn plans_that_name_no_key_are_refused_with_the_line_and_the_keys_there_are() {
    let dir = tempfile::tempdir().unwrap();
    plan(dir.path());
    let file = dir.path().join("odd.toml");
    let (name, to) = (file.to_str().unwrap(), dir.path().join("out"));
    // In line 3 of the first there is a key that does not exist, in the other in the configuration of its switches.
    std::fs::write(dir.path().join("typing.toml"), "name = \"b\"\nseed = 1\nuntill = \"1ms\"\n").unwrap();
    let base = std::fs::read_to_string(dir.path().join("base.toml")).unwrap();
    let lines = base.lines().count();
    let switch = "\n[[switch.config.buffer.profile]]\nname = \"lossless\"\ndynamic_thh = 1\n";
    std::fs::write(dir.path().join("inner.toml"), base.trim_end().to_owned() + "\n" + switch).unwrap();
    let inner = format!("inner.toml:{}: ", lines + 4);
    let axis = |key: &str, value: &str| {
        format!(
            "name = \"odd\"\nbase = \"base.toml\"\n[[axis]]\nkey = \"seed\"\nvalues = [1]\n[[axis]]\nkey = \"{key}\"\nvalues = [{value}]\n"
        )
    };
    for (text, place, what) in [
        (axis("link.rat", "\"1G\""), ":7: ", "unknown field `rat`, expected one of `rate`, `delay`"),
        (axis("switch.config.buffer.sizze", "1"), ":7: ", "did you mean `size`?"),
        (axis("workload.0.sender", "2"), ":7: ", "unknown field `sender`"),
        (axis("workload.9.senders", "2"), ":7: ", "nothing at `9`"),
        (axis("seed", "2"), ":7: ", "two axes"),
        (axis("x", "1").replace("key = \"x\"\n", ""), "line 6, ", "missing field `key`"),
        (
            axis("link.delay", "1").replace("base.toml", "typing.toml"),
            "typing.toml:3: ",
            "unknown field `untill`",
        ),
        (axis("link.delay", "1").replace("base.toml", "inner.toml"), inner.as_str(), "`dynamic_thh`"),
        (axis("seed", "1").replace("\"base.toml\"", "\"absent.toml\""), "absent.toml: ", "No such file"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let refused = weir(&["sweep", "--plan", name, "--out", to.to_str().unwrap()]);
        let said = String::from_utf8(refused.stderr.clone()).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{text}{refused:?}");
        assert!(said.contains(place) && said.contains(what), "{what}: {said}");
        assert!(!to.exists());
    }
}

/// A run and a sweep in one folder would be two answers to whoever compares it.
#[test]
fn a_folder_has_a_report_or_a_sweep() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    plan(dir.path());
    let two = "name = \"two\"\nbase = \"base.toml\"\n[[axis]]\nkey = \"seed\"\nvalues = [1, 2]\n";
    std::fs::write(path("plan.toml"), two).unwrap();
    let run = |to: &str| weir(&[&path("base.toml"), "--out", &path(to)]);
    let sweep = |to: &str| weir(&["sweep", "--plan", &path("plan.toml"), "--out", &path(to)]);
    let refused = |done: Output, what: &str| {
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(
            done.status.code() == Some(2) && said.contains(what) && said.contains("of its own"),
            "{said}"
        );
    };
    assert!(run("one").status.success() && sweep("all").status.success());
    refused(run("all"), "has a sweep");
    refused(sweep("one"), "has the report of a run");
    assert!(!dir.path().join("all/report.json").exists() && !dir.path().join("one/plan.json").exists());
    assert!(run("one").status.success() && sweep("all").status.success());
}

#[test]
fn two_runs_are_compared_in_a_table_and_on_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for name in ["pfc-chain", "incast"] {
        weir(&[&format!("{CONFIGS}/{name}.toml"), "--out", &path(name)]);
    }
    let done = weir(&["compare", &path("pfc-chain"), &path("incast"), "--out", &path("page.html")]);
    assert!(done.status.success(), "{done:?}");
    for part in ["A  ", "B  ", "the topology of B is not that of A", "B to A", "FCT p99, us"] {
        assert!(out(&done).contains(part), "{part}: {done:?}");
    }
    assert!(std::fs::read_to_string(path("page.html")).unwrap().contains("FCT p99, us"));
    let json = weir(&["compare", &path("pfc-chain"), &path("incast"), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&out(&json)).unwrap();
    let names: Vec<_> = json["figures"].as_array().unwrap().iter().map(|figure| &figure["name"]).collect();
    assert!(names.contains(&&"FCT p99, us".into()), "{names:?}");
    let [a, b] = [0, 1].map(|side| &json["figures"][0]["settings"][side]);
    assert!(
        a["mean"].is_number() && a["difference_percent"].is_null() && b["difference_percent"].is_number(),
        "{json:#}"
    );
    assert_eq!(json["settings"].as_array().unwrap().len(), 2);
    let refused = weir(&["compare", &path("incast"), &path("incast/flows.csv")]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        said.contains("flows.csv: no report of `weir sim`") && said.contains("give a report.json"),
        "{said}"
    );
}

#[test]
fn a_run_at_flow_level_says_what_it_knows() {
    let dir = tempfile::tempdir().unwrap();
    let (file, to) = (format!("{CONFIGS}/flow-level.toml"), dir.path().join("flows"));
    let run = weir(&[&file, "--out", to.to_str().unwrap()]);
    let said = out(&run);
    assert!(run.status.success() && said.contains("flows     136 of 136 delivered"), "{said}");
    assert!(said.contains("Flow level: ") && said.contains("bottlenecks of flows that share them"), "{said}");
    assert!(!said.contains("pause frames") && !said.contains("frames    "), "{said}");
    let links = std::fs::read_to_string(to.join("links.csv")).unwrap();
    assert!(
        links
            .lines()
            .any(|line| line == "from,from_port,to,to_port,rate_bps,bytes,busy_milli,bottleneck_milli"),
        "{links}"
    );
    let text = std::fs::read_to_string(&file).unwrap();
    let odd = dir.path().join("odd.toml");
    std::fs::write(&odd, text.replace("level = \"flow\"", "level = \"flow\"\nlatency = true")).unwrap();
    let refused = weir(&[odd.to_str().unwrap()]);
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && why.contains("odd.toml:7: latency is set"), "{why}");
}

#[test]
fn refusals_are_one_message_with_file_and_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.toml");
    let name = file.to_str().unwrap();
    let good = std::fs::read_to_string(format!("{CONFIGS}/scenario-b.toml")).unwrap();
    for (text, place, what) in [
        (
            good.replace("{ a = \"sw2\", b = \"chip-b\" }", "{ a = \"sw2\", b = \"chip-x\" }"),
            ":14: ",
            "chip-x",
        ),
        (good.replace("rate = \"200G\"", "rate = 0"), ":18: ", "rate 0"),
        (good.replace("kind = \"incast\"", "kind = \"rumour\""), "line 40", "rumour"),
        (good.replace("name =", "profile = \"ns3-hpcc\"\nname ="), ": ", "contradicts profile"),
        (good.split(" },\n  { a = \"sw2\"").next().unwrap().to_owned(), "line 13", "sw2"),
    ] {
        std::fs::write(&file, text).unwrap();
        let refused = weir(&[name]);
        let said = String::from_utf8(refused.stderr.clone()).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(
            said.contains(&format!("{name}:")) && said.contains(place) && said.contains(what),
            "{place} {what}: {said}"
        );
        assert!(out(&refused).is_empty());
    }
    let absent = weir(&["/nowhere.toml"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(String::from_utf8(absent.stderr).unwrap().contains("/nowhere.toml"));
}

/// With `--json` every fault that is of a file names it, and says what the system says once.
#[test]
fn faults_of_files_name_the_file_and_say_once_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    plan(dir.path());
    std::fs::write(path("latin1.toml"), b"# first\nname = \"\xe4\"\n").unwrap();
    std::fs::write(path("text.pcapng"), "no capture").unwrap();
    let axes = "[[axis]]\nkey = \"link.rat\"\nvalues = [1]\n[[axis]]\nkey = \"seed\"\nvalues = []\n";
    std::fs::write(path("odd.toml"), format!("name = \"o\"\nbase = \"base.toml\"\n{axes}")).unwrap();
    std::fs::write(path("typing.toml"), "name = \"o\"\nbase = 7\nbasis = 1\n").unwrap();
    std::fs::write(path("switch.toml"), "").unwrap();
    let to = path("to");
    for (args, file, lines) in [
        (vec!["sweep", "--plan", "odd.toml", "--out", &to], "odd.toml", vec![Some(4), Some(7)]),
        (
            vec!["sweep", "--plan", "typing.toml", "--out", &to],
            "typing.toml",
            vec![Some(1), Some(2), Some(3)],
        ),
        (vec!["sweep", "--plan", "latin1.toml", "--out", &to], "latin1.toml", vec![None]),
        (vec!["sweep", "--plan", "absent.toml", "--out", &to], "absent.toml", vec![None]),
        (vec!["latin1.toml"], "latin1.toml", vec![Some(2)]),
        (vec!["absent.toml"], "absent.toml", vec![None]),
        (vec!["base.toml", "--out", "plan.toml/x"], "plan.toml/x", vec![None]),
        (vec!["compare", "absent", "absent"], "absent", vec![None]),
        (vec!["replay", "absent.pcapng", "--config", "switch.toml"], "absent.pcapng", vec![None]),
        (vec!["replay", "text.pcapng", "--config", "switch.toml"], "text.pcapng", vec![None]),
    ] {
        let told = Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("sim")
            .args(&args)
            .arg("--json")
            .current_dir(dir.path())
            .output()
            .unwrap();
        let text = out(&told);
        let document: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"));
        let faults = document["faults"].as_array().unwrap();
        let found: Vec<_> = faults.iter().map(|fault| fault["line"].as_u64()).collect();
        assert!(told.status.code() == Some(2) && found == lines, "{args:?}: {document:#}");
        assert!(faults.iter().all(|fault| fault["file"] == file), "{args:?}: {document:#}");
        let once =
            |text: &str| text.matches("(os error").count() < 2 && text.matches("valid UTF-8").count() < 2;
        assert!(faults.iter().all(|fault| once(fault["detail"].as_str().unwrap())), "{args:?}: {document:#}");
        assert!(once(&String::from_utf8_lossy(&told.stderr)), "{args:?}: {told:?}");
    }
}

/// A folder holds the report of one run: what an earlier one left goes, what weir did not write stays.
#[test]
fn a_used_folder_has_the_report_of_the_last_run_alone() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("result");
    let folder = to.to_str().unwrap();
    let names = || {
        let mut names: Vec<String> =
            std::fs::read_dir(&to).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert!(weir(&[&format!("{CONFIGS}/flow-level.toml"), "--out", folder]).status.success());
    assert!(names().contains(&"links.csv".to_owned()), "{:?}", names());
    for (name, text) in
        [("notes.txt", "mine"), ("latency.csv", "time,mine\n"), ("collectives.csv", "# mine\n")]
    {
        std::fs::write(to.join(name), text).unwrap();
    }
    let again = weir(&[&format!("{CONFIGS}/pfc-chain.toml"), "--out", folder]);
    assert!(out(&again).contains(&format!("removed   {folder}/links.csv, of a run before")), "{again:?}");
    let expected = [
        "collectives.csv",
        "flows.csv",
        "latency.csv",
        "notes.txt",
        "ports.csv",
        "report.html",
        "report.json",
    ];
    assert_eq!(names(), expected);
    assert_eq!(std::fs::read_to_string(to.join("latency.csv")).unwrap(), "time,mine\n");
    let once_more = weir(&[&format!("{CONFIGS}/pfc-chain.toml"), "--out", folder]);
    assert!(!out(&once_more).contains("removed"), "{once_more:?}");
}

/// Where there is no room for a report all of the one before is left. A file may have so many blocks, as on a disk that is full.
#[test]
fn a_report_that_cannot_be_written_leaves_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let limited = |blocks: u32, args: &[&str]| {
        let program = env!("CARGO_BIN_EXE_weir");
        let script = format!("ulimit -f {blocks}; trap '' XFSZ; exec \"{program}\" sim \"$@\"");
        Command::new("sh").args(["-c", &script, "sh"]).args(args).output().unwrap()
    };
    let content = || {
        let files = std::fs::read_dir(path("result")).unwrap().map(|e| e.unwrap().path());
        files
            .map(|file| (file.clone(), std::fs::read(file).unwrap()))
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    assert!(weir(&[&format!("{CONFIGS}/pfc-chain.toml"), "--out", &path("result")]).status.success());
    assert!(weir(&[&format!("{CONFIGS}/incast.toml"), "--out", &path("other")]).status.success());
    assert!(
        weir(&["compare", &path("result"), &path("other"), "--out", &path("page.html")]).status.success()
    );
    let (before, page) = (content(), std::fs::read(path("page.html")).unwrap());
    let full = limited(8, &[&format!("{CONFIGS}/incast.toml"), "--out", &path("result")]);
    let said = String::from_utf8_lossy(&full.stderr);
    assert!(full.status.code() == Some(2) && said.contains("cannot write"), "{full:?}");
    assert!(content() == before, "{:?}", content().keys());
    let full = limited(8, &["compare", &path("other"), &path("result"), "--out", &path("page.html")]);
    assert_eq!(full.status.code(), Some(2), "{full:?}");
    assert!(std::fs::read(path("page.html")).unwrap() == page);
    // Nothing is left of what there was no room for.
    let full = limited(8, &[&format!("{CONFIGS}/incast.toml"), "--out", &path("new")]);
    assert_eq!(
        (full.status.code(), std::fs::read_dir(path("new")).unwrap().count()),
        (Some(2), 0),
        "{full:?}"
    );
}
