//! Command lines of README and docs.

use crate::blocks::{Block, blocks};
use crate::place::{Place, repository};
use crate::support::program::Running;
use crate::support::{need, run, tools};
use nix::sys::signal::Signal;
use std::process::Command;

/// Commands that tests of their own run.
const ELSEWHERE: &[(&str, &str)] = &[
    ("echo /weir/", "weir/tests/management/tools.rs"),
    ("dpdk-proc-info", "weir/tests/management/tools.rs"),
    ("dpdk-dumpcap", "weir/tests/management/tools.rs"),
];

/// The command lines of a block, without comments.
fn lines(block: &Block) -> impl Iterator<Item = &str> {
    block
        .text
        .lines()
        .map(|line| line.split(" #").next().unwrap_or(line).trim())
        .filter(|line| !line.is_empty())
}

/// A block of command lines rather than a drawing or what a program prints.
fn is_shell(block: &Block) -> bool {
    const STARTS: [&str; 8] =
        ["weir ", "make ", "cargo ", "echo ", "dpdk-proc-info", "WEIR_", "PROPTEST_", "BOLERO_"];
    block.kind.is_empty()
        && lines(block).next().is_some_and(|line| STARTS.iter().any(|start| line.starts_with(start)))
}

/// As shown, but for a moment; of a usage line everything that may be given.
fn arguments(line: &str) -> Vec<String> {
    let line = line.replace(['[', ']'], "").replace("NAME", "p0").replace("--vlan N", "--vlan 0");
    let words: Vec<_> = line.split_whitespace().skip(1).map(str::to_owned).collect();
    let is_time = |i: usize| i > 0 && words[i - 1] == "--for";
    words
        .iter()
        .enumerate()
        .map(|(i, word)| if is_time(i) { "300ms".to_owned() } else { word.clone() })
        .collect()
}

/// The commands of one block in one folder, in order. What has no end of its own runs beside the others.
fn play(block: &Block) {
    let simulates = |line: &str| line.starts_with("weir sim ") || !line.starts_with("weir ");
    let place = if lines(block).all(simulates) { Place::at_rest() } else { Place::new() };
    let mut beside = Vec::new();
    if lines(block).any(|line| line.starts_with("weir show")) {
        let mut lab = Running::start(&mut place.weir(&["lab"]));
        lab.says("management on");
        beside.push(lab);
    }
    for line in lines(block).filter(|line| line.starts_with("weir ")) {
        println!("{}: {line}", block.at);
        // Through a pipe goes what the reader needs; the reader is not ours.
        let line = line.split(" | ").next().unwrap_or(line);
        let args = arguments(line);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        if matches!(args[0], "run" | "host") && !args.contains(&"--for") {
            let mut program = Running::start(&mut place.weir(&args));
            program.says(if args[0] == "run" { "switch " } else { "host" });
            beside.push(program);
        } else {
            let ended = place.ends_well(&args);
            // Only a verdict about what was forwarded may depend on the machine.
            let verdict = matches!(args[0], "lab" | "host");
            assert!(verdict || ended.code() == Some(0), "{line}: {}{}", ended.stdout, ended.stderr);
        }
    }
    while let Some(program) = beside.pop() {
        let ended = program.stop(Signal::SIGINT);
        assert!(matches!(ended.code(), Some(0 | 1)), "{}: {}{}", block.at, ended.stdout, ended.stderr);
    }
}

#[test]
fn every_command_of_weir_runs() {
    let mut played = 0;
    for block in blocks().iter().filter(|block| is_shell(block)) {
        if lines(block).any(|line| line.starts_with("weir ")) {
            play(block);
            played += 1;
        }
    }
    assert!(played >= 5, "{played}");
}

#[test]
fn every_target_of_make_is_there() {
    need!(tools(&["make"]));
    let blocks = blocks();
    let targets =
        blocks.iter().filter(|b| is_shell(b)).flat_map(lines).filter_map(|l| l.strip_prefix("make "));
    let targets: Vec<&str> = targets.collect();
    assert!(targets.contains(&"demo") && targets.contains(&"test"), "{targets:?}");
    for target in targets {
        run(Command::new("make").arg("--dry-run").args(target.split_whitespace()).current_dir(repository()));
    }
}

/// A package, a file of tests and a test that are named are there.
#[test]
fn every_command_of_cargo_names_what_is_there() {
    for block in blocks().iter().filter(|block| is_shell(block)) {
        for line in lines(block) {
            let words: Vec<&str> = line.split_whitespace().skip_while(|word| word.contains('=')).collect();
            if words.first() != Some(&"cargo") {
                continue;
            }
            let after =
                |flag: &str| words.iter().position(|w| *w == flag).and_then(|i| words.get(i + 1)).copied();
            let package = after("-p").and_then(|package| package.strip_prefix("weir-")).expect("a package");
            let folder = repository().join(package);
            assert!(folder.join("Cargo.toml").is_file(), "{}: {line}", block.at);
            if let Some(test) = after("--test") {
                let tests = folder.join("tests");
                let there =
                    tests.join(format!("{test}.rs")).is_file() || tests.join(test).join("main.rs").is_file();
                assert!(there, "{}: {line}", block.at);
            }
            // Behind all options stands what the name of a test must contain.
            let named = words[2..].iter().rev().find(|word| !word.starts_with('-'));
            if let Some(name) =
                named.filter(|name| Some(**name) != after("-p") && Some(**name) != after("--test"))
            {
                let name = name.rsplit("::").find(|part| !part.is_empty()).unwrap();
                let known =
                    run(Command::new("grep").args(["-rlE", &format!("(fn|mod) {name}")]).arg(&folder));
                assert!(!known.is_empty(), "{}: {line}", block.at);
            }
        }
    }
}

/// Nothing that is shown goes without a test.
#[test]
fn every_other_command_has_its_test() {
    for block in blocks().iter().filter(|block| is_shell(block)) {
        for line in lines(block) {
            let known = ["weir ", "make ", "cargo "].iter().any(|start| line.starts_with(start))
                || line.contains(" cargo ")
                || ELSEWHERE.iter().any(|(start, test)| {
                    let text = std::fs::read_to_string(repository().join(test)).unwrap();
                    let program = if start.starts_with("echo") { "dpdk-telemetry.py" } else { start };
                    line.starts_with(start) && text.contains(program)
                });
            assert!(known, "{}: `{line}` is shown and never run", block.at);
        }
    }
}
