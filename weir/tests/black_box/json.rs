//! `--json`: one document on standard output and nothing else, with the exit code there is without.

use crate::support::program::{Ended, weir};
use serde_json::Value;

/// With and without: the document, and how it ended.
fn both(args: &[&str]) -> (Value, Ended) {
    let plain = weir(args);
    let json = weir(&[args, &["--json"]].concat());
    assert_eq!(plain.code(), json.code(), "{args:?}: {}{}", plain.stderr, json.stderr);
    let document = serde_json::from_str(&json.stdout);
    (document.unwrap_or_else(|error| panic!("{args:?}: {error}\n{}", json.stdout)), json)
}

#[test]
fn check_is_a_document_whatever_it_finds() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let ports = "[buffer]\nsize = \"4MiB\"\nframes = 4096\n[[port]]\nname = \"a\"\ndevice = \"ring\"\n\
                 [[port]]\nname = \"b\"\ndevice = \"ring\"\n";
    let (good, ended) = both(&["check", &write("good.toml", ports), "--explain"]);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert_eq!((&good["good"], &good["error"], &good["ports"]), (&true.into(), &Value::Null, &2.into()));
    assert_eq!((&good["buffer_bytes"], &good["engines"]), (&(4 << 20).into(), &Value::Array(vec![])));
    let name = good["values"].as_array().unwrap().iter().find(|row| row["key"] == "switch.name").unwrap();
    assert_eq!((&name["value"], &name["origin"]), (&"weir".into(), &"default".into()));

    let (bad, ended) = both(&["check", &write("bad.toml", &format!("{ports}lcroe = 1\nmtu = 1\n"))]);
    assert_eq!(ended.code(), Some(2));
    assert_eq!(bad["good"], false);
    let lines: Vec<_> =
        bad["findings"].as_array().unwrap().iter().map(|f| f["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [3, 10, 11], "a warning and two errors: {bad:#}");
    assert!(
        bad["findings"][1]["remedy"].as_str().unwrap().contains("lcore") && bad["error"].is_string(),
        "{bad:#}"
    );

    let (none, ended) = both(&["check", "/nowhere/at/all.toml"]);
    assert_eq!((ended.code(), &none["good"]), (Some(2), &false.into()));
    let (text, _) = both(&["check", &write("none.toml", "][")]);
    assert_eq!(text["findings"][0]["rule"], "syntax", "{text:#}");
}

#[test]
fn other_commands_say_one_document() {
    let link = ["--rate", "100G", "--cable", "40m"];
    let advise = ["advise", "--ports", "8", "--buffer", "32MiB"];
    let (headroom, _) = both(&[&["headroom"][..], &link].concat());
    assert!(headroom["models"].as_array().is_some_and(|models| models.len() == 3));
    let (toml, ended) = both(&[&advise[..], &link].concat());
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert_eq!(toml["toml"].as_str(), Some(&weir(&[&advise[..], &link].concat()).stdout[..]));
    let (sonic, _) = both(&[&advise[..], &link, &["--sonic"]].concat());
    assert!(sonic["config_db"]["PORT"].is_object() && !sonic["reasons"].as_array().unwrap().is_empty());
    let (found, _) = both(&["doctor"]);
    assert!(found.as_array().is_some_and(|found| !found.is_empty()));
    // Nothing to prepare: devices that are none.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    std::fs::write(&path, "[eal]\nargs = [\"--no-huge\"]\n[[port]]\nname = \"a\"\ndevice = \"ring\"\n")
        .unwrap();
    let (done, _) = both(&["prepare", path.to_str().unwrap()]);
    assert_eq!(done["done"], Value::Array(vec![]));
}
