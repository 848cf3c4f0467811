//! `--json`: one document on standard output and nothing else, with the exit code there is without.

use crate::support::program::{Ended, Switch, floating, weir};
use serde_json::{Value, json};

/// With and without: the document, and how it ended.
fn both(args: &[&str]) -> (Value, Ended) {
    let plain = weir(args);
    let json = weir(&[args, &["--json"]].concat());
    assert_eq!(plain.code(), json.code(), "{args:?}: {}{}", plain.stderr, json.stderr);
    (document(&json), json)
}

/// All it said on standard output.
fn document(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}\n{ended:?}"))
}

/// Refused: the document that all commands have for that.
fn refused(args: &[&str]) -> Value {
    let (document, ended) = both(args);
    assert_eq!(ended.code(), Some(2), "{args:?}: {}", ended.stderr);
    assert_eq!(ended.stdout.lines().count(), 1, "as those that stream promise: {}", ended.stdout);
    let keys: Vec<_> = document.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["error", "faults"], "{args:?}: {document:#}");
    let faults = document["faults"].as_array().unwrap();
    assert!(!faults.is_empty(), "{args:?}: {document:#}");
    for fault in faults {
        let said = |key: &str| !fault[key].as_str().unwrap_or_default().trim().is_empty();
        assert!(["path", "detail", "remedy"].into_iter().all(said), "{args:?}: {document:#}");
    }
    let error = document["error"].as_str().unwrap();
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!error.contains('\n') && words(&ended.stderr).contains(&words(error)), "{args:?}: {error}");
    document
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
    assert_eq!((&good["error"], &good["ports"]), (&Value::Null, &2.into()));
    assert_eq!((&good["buffer_bytes"], &good["engines"]), (&(4 << 20).into(), &Value::Array(vec![])));
    assert_eq!(good["warnings"][0]["line"], 3, "{good:#}");
    let name = good["values"].as_array().unwrap().iter().find(|row| row["key"] == "switch.name").unwrap();
    assert_eq!((&name["value"], &name["origin"]), (&"weir".into(), &"default".into()));

    let bad = refused(&["check", &write("bad.toml", &format!("{ports}lcroe = 1\nmtu = 1\n"))]);
    let lines: Vec<_> =
        bad["faults"].as_array().unwrap().iter().map(|f| f["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [10, 11], "{bad:#}");
    assert!(bad["faults"][0]["remedy"].as_str().unwrap().contains("lcore"), "{bad:#}");
    refused(&["check", "/nowhere/at/all.toml"]);
    let text = refused(&["check", &write("none.toml", "][")]);
    assert_eq!(text["faults"][0]["path"], "syntax", "{text:#}");
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

#[test]
fn a_refusal_is_one_document_whatever_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.toml");
    std::fs::write(&bad, "[[port]]\nname = \"a\"\ndevice = \"ring\"\nmtu = 1\n").unwrap();
    let bad = bad.to_str().unwrap();
    let nobody = folder.path().join("no.sock");
    let nobody = nobody.to_str().unwrap();
    for of_file in [
        &["apply", bad][..],
        &["explain", bad, "--port", "a"],
        &["prepare", bad],
        &["config", "show", bad],
        &["config", "export", "sonic", bad],
        &["sim", "replay", bad, "--config", bad],
    ] {
        let document = refused(of_file);
        let is_capture = of_file[1] == "replay";
        assert!(is_capture || document["faults"][0]["line"] == 4, "{of_file:?}: {document:#}");
    }
    // Of each the place, as far as it has one.
    let place = |args: &[&str]| refused(args)["faults"][0].clone();
    let link = ["--rate", "100G", "--cable", "40m"];
    let advised = place(&[&["advise", "--ports", "8", "--buffer", "1KiB"][..], &link].concat());
    assert_eq!(advised["path"], "--buffer");
    assert_eq!(place(&["golden", folder.path().to_str().unwrap()])["path"], folder.path().to_str().unwrap());
    let missing = place(&["check", "/nowhere/at/all.toml"]);
    assert_eq!((&missing["file"], &missing["path"]), (&"/nowhere/at/all.toml".into(), &missing["file"]));
    let other = place(&["sim", bad]);
    assert_eq!(
        other["detail"], "this is the configuration of a switch, not the file of a fabric",
        "{other:#}"
    );
    let half = folder.path().join("half.toml");
    std::fs::write(&half, "[topology]\nkind = \"star\"\n").unwrap();
    let half = half.to_str().unwrap();
    let fabric = place(&["sim", half]);
    assert_eq!((&fabric["file"], &fabric["line"]), (&half.into(), &1.into()), "{fabric:#}");
    refused(&["sim", "/nowhere.toml"]);
    refused(&["sim", "sweep", "--plan", "/nowhere.toml", "--out", "x"]);
    refused(&["check", folder.path().to_str().unwrap()]);
    refused(&["apply", "--dry-run"]);
    refused(&["golden", "/nowhere"]);
    refused(&["config", "import", "sonic", bad, "--device", "\""]);
    refused(&["sim", "replay", "/nowhere.pcapng", "--config", bad]);
    refused(&["config", "import", "sonic", bad]);
    refused(&["sim", "sweep", "--plan", bad, "--out", "x"]);
    refused(&["sim", "merge", folder.path().to_str().unwrap()]);
    refused(&["sim", "compare", "/nowhere", "/nothing"]);
    for asked in [
        &["show", "ports"][..],
        &["show", "flows"],
        &["show", "events"],
        &["show", "interfaces", "status"],
        &["explain", "--port", "a"],
        &["apply", "--confirm"],
        &["inc", "list"],
        &["inc", "end", "7"],
        &["trace", "--port", "a"],
        &["capture", "--port", "a", "-w", "x"],
        &["report"],
        &["config", "show"],
        &["qp", "show"],
        &["qp", "set", "gain=8"],
        &["qp", "trace", "start"],
    ] {
        let refusal = refused(&[asked, &["--socket", nobody]].concat());
        assert_eq!(refusal["faults"][0]["path"], nobody, "{asked:?}: {refusal:#}");
    }
    refused(&["show", "ports", "--name", "nobody"]);
    refused(&["show", "ports", "--mac", "1", "--socket", nobody]);
    refused(&["show", "ports", "--now", "--socket", nobody]);
    refused(&["show", "nothing", "--socket", nobody]);
    refused(&["capture", "--port", "a", "-w", "-", "--socket", nobody]);
    refused(&["qp", "set", "gain", "--socket", nobody]);
    // What is wrong with the command line is a refusal as well.
    refused(&["check"]);
    let rate = place(&["headroom", "--rate", "fast", "--cable", "1m"]);
    assert!(rate["path"].as_str().is_some_and(|path| path.contains("--rate")), "{rate:#}");
    let unknown = place(&["headroom", "--rat", "1G", "--cable", "1m"]);
    assert!(unknown["remedy"].as_str().is_some_and(|remedy| remedy.contains("--rate")), "{unknown:#}");
}

/// What needs a switch: each says one document, and the switch refuses in the same shape as a file does.
#[test]
fn orders_and_questions_to_a_switch_say_one_document() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let write = |name: &str, text: &str| {
        std::fs::write(path(name), text).unwrap();
        path(name)
    };
    let engine = "[[port]]\nname = \"inc0\"\ndevice = \"inc\"\ninc = { mac = \"02:00:00:00:01:00\", ip = \"10.0.0.200\" }\n";
    let ports = |rate: &str| {
        format!(
            "[eal]\nargs = [{:?}]\n[buffer]\nsize = \"16MiB\"\nframes = 16384\n[mgmt]\nlisten = \"off\"\nsocket = {:?}\n\
             [port_defaults]\nrate = \"{rate}\"\nmtu = 1518\n[[port]]\nname = \"a\"\ndevice = \"ring\"\n\
             [[port]]\nname = \"b\"\ndevice = \"ring\"\n{engine}",
            floating(),
            path("s.sock")
        )
    };
    let switch = Switch::start_as_it_is(&ports("1G"));
    let socket = path("s.sock");
    fn of<'a>(socket: &'a str, args: &[&'a str]) -> Vec<&'a str> {
        [args, &["--socket", socket]].concat()
    }

    let (would, _) = both(&of(&socket, &["apply", &write("next.toml", &ports("2G")), "--dry-run"]));
    assert!(would["changed"].as_array().is_some_and(|rows| !rows.is_empty()), "{would:#}");
    let (applied, _) = both(&of(&socket, &["apply", &path("next.toml")]));
    assert!(applied["changed"].is_array(), "{applied:#}");
    let fixed = ports("2G")
        .replace("device = \"ring\"\n[[port]]\nname = \"b\"", "device = \"ring\"\n[[port]]\nname = \"c\"");
    let kept = refused(&of(&socket, &["apply", &write("fixed.toml", &fixed)]));
    assert!(!kept["faults"].as_array().unwrap().is_empty(), "{kept:#}");
    refused(&of(&socket, &["apply", "--confirm"]));

    let child = |rank: u8| {
        json!({ "rank": rank, "qpn": 0x100 + u32::from(rank), "mac": format!("02:00:00:00:00:0{rank}"),
                "ip": format!("10.0.0.{}", rank + 1), "dest_qpn": 17, "send_psn": 0, "recv_psn": 0 })
    };
    let job = |id: u32| {
        let all_reduce = json!({ "kind": "all_reduce", "operator": "sum", "type": "i32" });
        json!({ "id": id, "ranks": 2, "operation": all_reduce, "children": [child(0), child(1)], "window": 32,
                "results": 64, "ack_timeout_ns": 1_000_000_000u64, "patience_ns": 100_000_000_000u64,
                "probe_after_ns": 1_000_000_000u64 })
    };
    let job = write("job.json", &job(7).to_string());
    let added = document(&weir(&of(&socket, &["inc", "add", &job, "--json"])));
    assert_eq!((&added["job"], &added["port"]), (&7.into(), &"inc0".into()), "{added:#}");
    assert!(added["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{added:#}");
    refused(&of(&socket, &["inc", "add", &job]));
    let (list, _) = both(&of(&socket, &["inc", "list"]));
    assert_eq!(list["inc"][0]["job"], 7, "{list:#}");
    let ended = document(&weir(&of(&socket, &["inc", "end", "7", "--json"])));
    assert_eq!(ended["job"], 7, "{ended:#}");
    refused(&of(&socket, &["inc", "end", "8"]));

    let (report, _) = both(&of(&socket, &["report", "--out", &path("page.html")]));
    assert_eq!(report["out"], path("page.html"));
    let capture = ["capture", "--port", "a", "-w", &path("c.pcapng"), "--for", "100ms"];
    let (written, _) = both(&of(&socket, &capture));
    assert_eq!((&written["frames"], &written["missed"]), (&0.into(), &0.into()), "{written:#}");
    refused(&of(&socket, &["capture", "--port", "none", "-w", &path("x.pcapng")]));
    refused(&of(&socket, &["trace", "--port", "none"]));
    refused(&of(&socket, &["trace", "--port", "a", "--dscp", "99"]));
    let nothing = refused(&of(&socket, &["trace", "--port", "a", "--count", "0"]));
    assert!(nothing["error"].as_str().is_some_and(|text| text.contains("1..")), "{nothing:#}");
    for watch in [&[][..], &["--watch"]] {
        let nowhere = refused(&of(&socket, &[&["show", "events", "--port", "none"], watch].concat()));
        let remedy = nowhere["faults"][0]["remedy"].as_str();
        assert!(remedy.is_some_and(|text| text.contains("a, b")), "{nowhere:#}");
    }
    refused(&of(&socket, &["explain", "--port", "none"]));
    refused(&of(&socket, &["show", "ports", "--port", "none"]));
    let (explained, _) = both(&of(&socket, &["explain", "--port", "a", "--to", "b"]));
    assert_eq!(explained["port"], "a", "{explained:#}");
    assert!(both(&of(&socket, &["config", "show"])).0["values"].is_array());
    switch.stop();
}

#[test]
fn foreign_configurations_are_in_the_document_or_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let db = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/sonic/config_db.json");
    let (import, _) = both(&["config", "import", "sonic", db]);
    assert!(import["toml"].as_str().is_some_and(|text| text.contains("[[port]]")), "{import:#}");
    assert!(import["notes"][0]["outcome"].is_string(), "{import:#}");
    let (import, _) = both(&["config", "import", "sonic", db, "--out", &path("c.toml")]);
    assert_eq!(import["out"], path("c.toml"));
    let (export, _) = both(&["config", "export", "sonic", &path("c.toml")]);
    assert!(export["config_db"]["PORT"].is_object() && export["notes"].is_array(), "{export:#}");
}
