//! The documents say what the code does: drop reasons, stages, deviations, files and tests they name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use weir_dataplane::drops::DropReason;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// What stands between backticks, code blocks left out.
fn quoted(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.split('`').skip(1).step_by(2)).collect()
}

/// The cells of a table row.
fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split(" | ").map(str::trim).collect()
}

/// Every source file of the workspace, with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    found
}

/// Names of all functions in `text`.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    text.split("fn ").skip(1).filter_map(move |rest| rest.split(|c| !word(c)).next())
}

/// Names of all functions that run as tests: after `#[test]`, inside `proptest!`, or made by a
/// macro of `name: data` lines that puts `#[test]` before each.
fn tests(sources: &[(PathBuf, String)]) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for (_, text) in sources {
        let marked = text.split("#[test]").skip(1).filter_map(|rest| functions(rest).next());
        found.extend(marked);
        let made = text.split("golden! {").skip(1).filter_map(|rest| rest.split('}').next());
        found.extend(made.flat_map(|lines| lines.lines().filter_map(|l| l.trim().split(':').next())));
    }
    found.remove("");
    found
}

fn drops_page() -> String {
    let mut page = "# Drop reasons\n\n\
        Every frame that is lost is lost for one reason, counted once, at one port: a frame that waited in a queue or was\n\
        refused by one at the port it should have left by, any other at the port it came in by. The names are an interface:\n\
        they appear in summaries and metrics, are never renamed, and new ones are added at the end.\n\n\
        A class is lossless where its priority group at the port of arrival is (`[[buffer.profile]] lossless = true`). A frame\n\
        of such a class that was received and not delivered is a *lossless drop*, whatever the stage and the reason, each copy\n\
        of a flooded one by itself: it is counted by its reason as any other, and once more in `lossless_drops`. That is an\n\
        alarm, not a statistic. Two kinds of loss say nothing about headroom, thresholds or PFC and are counted apart:\n\
        frames the PFC watchdog dropped, as configured (`lossless_drops_watchdog`), and those an operator's order cost\n\
        (`lossless_drops_operator`): a port was switched off (`admin = \"down\"`) with frames waiting for it or on their way\n\
        there, or the run was ended. These are no fault of the switch, so no alarm is raised and a verdict does not fail for them;\n\
        they are told by name all the same. A link that goes down unasked is no order: what it costs is a lossless drop.\n\
        The column \"Lossless\" says for which reasons a frame of a lossless class can be lost, and what that means.\n\
        Those with \"no\" never count: a frame that is malformed, too long or for the bridge itself is dropped before it has a\n\
        class, and what a bridge filters is where it should be. `dataplane/tests/scenarios/lossless.rs` makes each of the others happen.\n\n\
        | Name | Meaning | Counted at | Lossless | Remedy |\n| --- | --- | --- | --- | --- |\n"
        .to_owned();
    for reason in DropReason::ALL {
        let meaning = reason.meaning().split_whitespace().collect::<Vec<_>>().join(" ");
        let lossless = reason.lossless().words();
        let (name, side, remedy) = (reason.name(), reason.side().word(), reason.remedy());
        writeln!(page, "| `{name}` | {meaning} | {side} | {lossless} | {remedy} |").unwrap();
    }
    page.push_str(
        "\nThis page is printed from `dataplane/src/drops.rs`: \
         `WEIR_WRITE_DOCS=1 cargo test -p weir-dataplane --test docs`.\n",
    );
    page
}

#[test]
fn the_page_of_drop_reasons_is_the_list_in_the_code() {
    if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
        std::fs::write(root().join("docs/drops.md"), drops_page()).unwrap();
    }
    let hint = "docs/drops.md is stale: run WEIR_WRITE_DOCS=1 cargo test -p weir-dataplane --test docs";
    assert_eq!(read("docs/drops.md"), drops_page(), "{hint}");
}

#[test]
fn the_stages_of_the_architecture_are_those_of_the_drop_reasons() {
    let page = read("docs/architecture.md");
    let section = page.split("## Stages").nth(1).expect("a section on stages");
    let section = section.split("\n## ").next().unwrap();
    let listed: BTreeSet<_> =
        section.lines().filter(|l| l.starts_with("| `")).map(|l| cells(l)[0].trim_matches('`')).collect();
    let known: BTreeSet<_> = DropReason::ALL.iter().map(|reason| reason.stage()).collect();
    assert_eq!(listed, known);
}

/// `stage.reason` anywhere in the documents is a reason there is.
#[test]
fn drop_reasons_named_in_documents_exist() {
    let stages: BTreeSet<_> = DropReason::ALL.iter().map(|reason| reason.stage()).collect();
    let names: BTreeSet<_> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
    for page in ["README.md", "docs/architecture.md", "docs/deviations.md", "docs/inc.md", "docs/testing.md"]
    {
        for word in quoted(&read(page)) {
            let stage = word.split_once('.').map(|(stage, _)| stage);
            let plain = word.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c == '.');
            let file = Path::new(word).extension().is_some_and(|e| e == "rs" || e == "md" || e == "toml");
            if stage.is_some_and(|stage| stages.contains(stage)) && plain && !file {
                assert!(names.contains(word), "{page}: `{word}` is no drop reason");
            }
        }
    }
}

/// Files and folders named with a slash are there.
#[test]
fn files_named_in_documents_exist() {
    let roots = [
        "dataplane",
        "config",
        "dpdk",
        "dpdk-sys",
        "endpoint",
        "inc",
        "sim",
        "weir",
        "docs",
        "configs",
        "scripts",
        ".ci",
        "testpmd-scenarios",
    ];
    for page in ["README.md", "docs/architecture.md", "docs/deviations.md", "docs/inc.md", "docs/testing.md"]
    {
        let mut checked = 0;
        for word in quoted(&read(page)) {
            let Some((first, _)) = word.split_once('/') else { continue };
            if roots.contains(&first) && !word.contains(char::is_whitespace) && !word.contains('*') {
                assert!(root().join(word).exists(), "{page}: there is no `{word}`");
                checked += 1;
            }
        }
        assert!(checked > 0, "{page} names no file");
    }
}

/// The site (`make docs`) has every document once.
#[test]
fn the_summary_of_the_site_names_every_document() {
    let summary = read("docs/SUMMARY.md");
    let mut listed: Vec<_> =
        summary.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect();
    listed.sort();
    let files = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = files.filter_map(|name| name.into_string().ok());
    let mut wanted: Vec<_> = names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect();
    // README, which `scripts/docs` puts beside them.
    wanted.push("index.md".to_owned());
    wanted.sort();
    assert_eq!(listed, wanted);
}

/// How a deviation stands.
const STATES: &[&str] = &["done", "partly", "by design", "words", "not yet"];

#[test]
fn every_deviation_is_listed_once_with_a_test_that_exists() {
    let numbers = (1..=37).chain(40..=49).chain(50..=55).chain(60..=77).chain(80..=85);
    let mut wanted: BTreeSet<String> = numbers.map(|n| format!("DEV-{n:02}")).collect();
    wanted.insert("DEV-49b".into());
    assert_eq!(wanted.len(), 78);

    let (page, sources) = (read("docs/deviations.md"), sources());
    let tests = tests(&sources);
    assert!(tests.len() > 200, "only {} tests found in the tree", tests.len());
    let mut rows = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| DEV-")) {
        let row = cells(line);
        assert_eq!(row.len(), 6, "{line}");
        let (id, state, place, proof) = (row[0], row[3], row[4], row[5]);
        assert!(STATES.contains(&state), "{id}: `{state}`");
        assert!(rows.insert(id.to_owned(), state).is_none(), "{id} is listed twice");
        let named = quoted(proof);
        for name in &named {
            assert!(tests.contains(name), "{id}: there is no test `{name}`");
        }
        let claims = state == "done" || state == "partly";
        assert_eq!(claims, !named.is_empty(), "{id} is `{state}` and names {} tests", named.len());
        assert_eq!(claims, !quoted(place).is_empty(), "{id} is `{state}`: where is it?");
    }
    let listed: BTreeSet<String> = rows.keys().cloned().collect();
    assert_eq!(listed, wanted);

    // The totals in the text are those of the table.
    for state in STATES {
        let count = rows.values().filter(|s| *s == state).count();
        let said = format!("| {state} | {count} |");
        assert!(page.contains(&said), "docs/deviations.md should say `{said}`");
    }
}
