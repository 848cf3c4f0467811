//! Every dependency may be used under a licence that asks no more than attribution.
//!
//! Reads what cargo knows of the lock file; no network and no further tool. It is a test of the crate that needs least, so that
//! `make lint` compiles little for it.

use serde_json::Value;
use std::process::Command;
use std::sync::LazyLock;

/// SPDX names of licences a dependency may have: those of `deny.toml`.
static ALLOWED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deny.toml");
    let rules: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    rules["licenses"]["allow"].clone().try_into().unwrap()
});

/// Whether an SPDX expression leaves a choice that uses only what is [`ALLOWED`]; `Err` if it is no expression.
fn allows(expression: &str) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let allowed = any_of(&mut words).ok_or(format!("`{expression}` is no licence expression"))?;
    match words.next() {
        None => Ok(allowed),
        Some(word) => Err(format!("`{word}` is left over in `{expression}`")),
    }
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>) -> Option<bool> {
    let mut allowed = all_of(words)?;
    while words.next_if_eq(&"OR").is_some() {
        allowed |= all_of(words)?;
    }
    Some(allowed)
}

fn all_of(words: &mut Words<'_>) -> Option<bool> {
    let mut allowed = one(words)?;
    while words.next_if_eq(&"AND").is_some() {
        allowed &= one(words)?;
    }
    Some(allowed)
}

fn one(words: &mut Words<'_>) -> Option<bool> {
    let word = words.next().filter(|word| !["OR", "AND", "WITH", ")"].contains(word))?;
    if word == "(" {
        let allowed = any_of(words)?;
        return words.next_if_eq(&")").map(|_| allowed);
    }
    if words.next_if_eq(&"WITH").is_some() {
        // An exception grants more, so it does not change whether the licence is allowed.
        words.next()?;
    }
    Some(ALLOWED.iter().any(|allowed| allowed == word))
}

/// What cargo says about the packages built for this machine.
fn packages() -> Vec<Value> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let about = Command::new(rustc).arg("-vV").output().expect("rustc runs");
    let about = String::from_utf8(about.stdout).unwrap();
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml")])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let packages = packages();
    let (ours, foreign): (Vec<_>, Vec<_>) = packages.iter().partition(|p| p["source"].is_null());
    assert!(ours.len() >= 6 && foreign.len() >= 10, "{} and {} packages", ours.len(), foreign.len());
    let mut refused = Vec::new();
    for package in foreign {
        let (name, version) = (package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        let licence = package["license"].as_str().unwrap_or("");
        match allows(licence) {
            Ok(true) => {}
            Ok(false) => refused.push(format!("{name} {version}: {licence}")),
            Err(why) => refused.push(format!("{name} {version}: {why}")),
        }
    }
    assert!(refused.is_empty(), "not on the list of allowed licences:\n{}", refused.join("\n"));
    for package in ours {
        assert_eq!(package["license"], "MIT OR Apache-2.0", "{}", package["name"]);
    }
}

#[test]
fn expressions_are_read_as_spdx_means_them() {
    for (expression, allowed) in [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("GPL-3.0-only OR MIT", true),
        ("Unlicense/MIT", true),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("(MIT OR Apache-2.0) AND GPL-2.0-only", false),
        ("MIT AND GPL-2.0-only OR ISC", true),
        ("GPL-2.0-only WITH Classpath-exception-2.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
    ] {
        assert_eq!(allows(expression), Ok(allowed), "{expression}");
    }
    for expression in ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT Apache-2.0", "MIT WITH"] {
        assert!(allows(expression).is_err(), "`{expression}`");
    }
}
