//! `weir sim` from outside: files, a sweep that is killed and goes on, refusals.

use std::path::Path;
use std::process::{Command, Output};

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
    assert!(out(&rest).contains(&format!("{before} were there, 20 of all are broken")), "{rest:?}");
    for i in 1..=3 {
        let done = sweep(&format!("{i}/3"), &format!("part{i}"));
        assert!(out(&done).contains("20 points played, 0 were there"), "{done:?}");
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
    let refused = weir(&["compare", &path("incast"), &path("incast/flows.csv")]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        said.contains("flows.csv: no report of `weir sim`") && said.contains("give a report.json"),
        "{said}"
    );
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
