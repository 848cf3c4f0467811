//! `weir qp`: queue pairs of a running host are looked at, changed and recorded, while they send.

use super::host::{Host, memif, number, passed, port, switch_ports};
use crate::support::program::{Switch, WEIR, weir};
use crate::support::wait_for;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn qp(socket: &Path, words: &[&str]) -> crate::support::program::Ended {
    weir(&[&["qp"], words, &["--socket", socket.to_str().unwrap()]].concat())
}

fn rows(socket: &Path, words: &[&str]) -> Vec<Value> {
    let ended = qp(socket, words);
    serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

#[test]
fn queue_pairs_of_a_running_host_are_shown_set_and_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let switch = Switch::start(&switch_ports((1..=2).map(|n| memif(path, n, "server"))));
    // What is there stays, and is said before anything runs.
    std::fs::write(path.join("taken"), "mine").unwrap();
    let file = path.join("early.toml");
    let one = "[[qp]]\nport = \"h1\"\npeer_ip = \"10.0.0.2\"\npeer_qpn = 17\n";
    std::fs::write(&file, port(1, &memif(path, 1, "client")) + one).unwrap();
    let ended = weir(&["host", file.to_str().unwrap(), "--socket", path.join("taken").to_str().unwrap()]);
    assert!(ended.code() == Some(2) && ended.stderr.contains("is not a socket, and stays"), "{ended:?}");
    let qps = |to: u8, what: &str| {
        let of = |peer: u8| {
            format!(
                "[[qp]]\nport = \"h{}\"\npeer_ip = \"10.0.0.{to}\"\npeer_qpn = {peer}\nack_timeout = \"1s\"\nretries = 50\n{what}",
                3 - to
            )
        };
        of(17) + &of(18)
    };
    let receiver = port(2, &memif(path, 2, "client")) + &qps(1, "");
    let receiver = Host::start(Command::new(WEIR), path, "receiver", &receiver);
    let sender = port(1, &memif(path, 1, "client")) + &qps(2, "send = \"send\"\nmessage = \"4KiB\"\n");
    let socket = path.join("qp.sock");
    let more = ["--socket", socket.to_str().unwrap()];
    let sender = Host::start_with(Command::new(WEIR), &more, path, "sender", &sender);
    wait_for("the socket", || socket.exists().then_some(()));
    wait_for("messages", || {
        let rows = rows(&socket, &["show", "--json"]);
        rows.iter().all(|row| number(row, "acknowledged") > 10).then_some(())
    });
    let ended = qp(&socket, &["show"]);
    assert!(ended.stdout.lines().count() == 3 && ended.stdout.contains("h1 18"), "{ended:?}");
    // A parameter of one, with and without quotes, on top of what was set before.
    for set in ["alpha_period=77us", "gain=9", "cut_period = \"66us\""] {
        let ended = qp(&socket, &["set", set, "--qpn", "18"]);
        assert_eq!((ended.code(), ended.stdout.as_str()), (Some(0), "h1 18: set\n"), "{ended:?}");
    }
    let shown = rows(&socket, &["show", "--json"]);
    let of = |row: &Value| ["alpha_period", "gain", "cut_period"].map(|key| number(&row["dcqcn"], key));
    assert_eq!(of(&shown[1]), [77_000, 9, 66_000]);
    assert_ne!(of(&shown[0]), of(&shown[1]));
    // What nobody can set is said, and changes nothing.
    for (set, why) in [
        ("gain=9999", "gain"),
        ("gian=8", "did you mean `gain`"),
        ("gain", "write KEY=VALUE"),
        ("0x600038=1", "no register"),
        ("0x600208=1", "no register"),
        ("0x600010=0x400", "whose bits are 0x3ff"),
        ("0x200218=0", "must not be zero"),
        ("0x60zz=1", "not a number"),
    ] {
        let ended = qp(&socket, &["set", set]);
        assert!(ended.code() == Some(2) && ended.stderr.contains(why), "{set}: {ended:?}");
    }
    // What is refused is said of the one key that was set, not of those of earlier calls.
    let ended = qp(&socket, &["set", "gain=9999", "--qpn", "18"]);
    let why = "`gain` of queue pair 18 of h1: ";
    assert!(ended.code() == Some(2) && ended.stderr.contains(why), "{ended:?}");
    // Of a line of assignments all hold or none, in whatever order.
    for set in [["gain=7", "0x600338=3"], ["0x200218=99", "0x600338=3"], ["0x200218=99", "gain=9999"]] {
        let ended = qp(&socket, &["set", set[0], set[1]]);
        assert!(ended.code() == Some(2) && ended.stdout.is_empty(), "{set:?}: {ended:?}");
    }
    assert_eq!(of(&rows(&socket, &["show", "--json"])[1]), [77_000, 9, 66_000]);
    let ended = qp(&socket, &["show", "--qpn", "99"]);
    assert!(ended.code() == Some(2) && ended.stderr.contains("no such queue pair"), "{ended:?}");
    // One that refuses stands for all.
    let set = ["set", "min_rate=1M", "first_cnp_rate=2M", "--qpn", "18"];
    assert_eq!(qp(&socket, &set).stdout, "h1 18: set\n");
    let least = || {
        rows(&socket, &["show", "--json"])
            .iter()
            .map(|row| number(&row["dcqcn"], "min_rate"))
            .collect::<Vec<_>>()
    };
    let before = least();
    let ended = qp(&socket, &["set", "min_rate=3M"]);
    assert!(ended.code() == Some(2) && ended.stderr.contains("queue pair 18 of h1: "), "{ended:?}");
    assert_eq!((least(), before[1]), (before.clone(), 1_000_000));
    // A key takes back nothing that registers have set: scheme, alpha timer, CNP_TIMER_THRD.
    let registers = ["set", "0x200220=0", "0x200218=99", "0x2000a0=777"];
    let of_both = "h1: 0x200220 is 0x0\nh1: 0x200218 is 0x63\nh1: 0x2000a0 is 0x309\n";
    assert_eq!(qp(&socket, &registers).stdout, of_both);
    // Firmware has a part in that scheme.
    let keys = qp(&socket, &["set", "cnp_interval=55us", "stages=6", "firmware_period=20us"]);
    assert_eq!(keys.stdout, "h1 17: set\nh1 18: set\n", "{keys:?}");
    for row in rows(&socket, &["show", "--json"]) {
        let dcqcn = &row["dcqcn"];
        let times =
            ["alpha_period", "restore_after", "firmware_period", "stages"].map(|key| number(dcqcn, key));
        assert_eq!(
            (dcqcn["scheme"].as_str(), times),
            (Some("firmware"), [99_000, 777_000, 20_000, 6]),
            "{row:#}"
        );
        assert_eq!(number(&row, "cnp_interval"), 55_000);
    }
    assert_eq!(qp(&socket, &["set", "scheme=hardware"]).code(), Some(0));
    // Half the rate by its register, from which it rises by itself: the trace says how.
    assert_eq!(qp(&socket, &["trace", "start", "--qpn", "17"]).stdout, "h1 17: recording\n");
    assert_eq!(qp(&socket, &["set", "0x400000=0x20", "0x600008=0x000d0006"]).code(), Some(0));
    assert_eq!(qp(&socket, &["set", "0x400000=0x20"]).stdout, "h1: 0x400000 is 0x0\n");
    wait_for("an increase", || {
        let trace = &rows(&socket, &["trace", "show", "--json", "--qpn", "17"])[0]["trace"];
        (number(&trace["counts"], "timer") > 0).then_some(())
    });
    assert_eq!(qp(&socket, &["trace", "stop"]).stdout, "h1 17: stopped\nh1 18: stopped\n");
    let ended = qp(&socket, &["trace", "show"]);
    assert!(ended.stdout.contains("h1 17: began at 0.") && ended.stdout.contains("timer."), "{ended:?}");
    // Which was recorded since the start, as its host was told to.
    assert!(ended.stdout.contains("h1 18: began at 0.100 Gb/s, target 0.100 Gb/s, alpha 1023"), "{ended:?}");
    assert_eq!(qp(&socket, &["set", "0x600110=0x155"]).stdout, "h1: 0x600110 is 0x155\n");
    let ended = qp(&socket, &["show", "--registers"]);
    assert!(ended.stdout.contains("ALPHA_MEM"), "{ended:?}");
    // Reactions are switched off, and back on: then as those of a new queue pair.
    let one = |words: &[&str]| rows(&socket, &[words, &["--json", "--qpn", "18"]].concat()).remove(0);
    assert_eq!(qp(&socket, &["set", "parameters=off", "--qpn", "18"]).stdout, "h1 18: set\n");
    let off = one(&["show"]);
    assert!(off["dcqcn"].is_null() && number(&off, "rate_bps") == 100_000_000, "{off:#}");
    assert_eq!(qp(&socket, &["set", "cnp_interval=1ms", "--qpn", "18"]).stdout, "h1 18: set\n");
    for (words, why) in [
        (["set", "gain=7", "--qpn", "18"], "nobody decides"),
        (["set", "initial_rate=1M", "--qpn", "17"], "of the start of a queue pair"),
        (["set", "0x600110=0x155", "--qpn", "17"], "leave it out"),
    ] {
        let ended = qp(&socket, &words);
        assert!(ended.code() == Some(2) && ended.stderr.contains(why), "{words:?}: {ended:?}");
    }
    assert_eq!(qp(&socket, &["set", "parameters=paper", "--qpn", "18"]).stdout, "h1 18: set\n");
    let on = one(&["show"]);
    assert_eq!(number(&on["dcqcn"], "stages"), 5, "{on:#}");
    assert_eq!((number(&on, "cnp_interval"), number(&on["dcqcn"], "max_rate")), (1_000_000, 100_000_000));
    // As it is, not as a register rounds it.
    let shown = rows(&socket, &["show", "--json"]);
    assert!(shown.iter().all(|row| number(row, "target_bps") >= number(row, "rate_bps")), "{shown:#?}");
    assert_eq!(
        (&on["dcqcn"]["scheme"], &on["dcqcn"]["firmware_algorithm"]),
        (&"hardware".into(), &"dcqcn".into())
    );
    assert_eq!(qp(&socket, &["trace", "stop"]).stdout, "h1 17: stopped\nh1 18: nothing was recorded\n");
    // Who connects and says nothing holds up nobody.
    let idle: Vec<_> = (0..20).map(|_| std::os::unix::net::UnixStream::connect(&socket).unwrap()).collect();
    assert_eq!(qp(&socket, &["show"]).code(), Some(0));
    drop(idle);
    sender.program.signal(Signal::SIGINT);
    let sent = sender.ended();
    receiver.program.signal(Signal::SIGINT);
    let received = receiver.ended();
    assert_eq!(number(&passed(&sent)[0], "posted"), number(&passed(&received)[0], "received"));
    assert!(!socket.exists());
    switch.stop_after_links_came_up();
}
