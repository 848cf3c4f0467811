//! A port mirror: what a port receives and sends is seen at another, byte for byte.

use crate::support::frames::plain;
use crate::support::namespace::Namespace;
use crate::support::program::{Switch, floating, weir};
use crate::support::wire::{Capture, Socket};
use crate::support::{need, tools, wait_for};
use weir_dataplane::types::Mac;

const PORTS: &str = "[buffer]\nsize = \"8MiB\"\nframes = 8192\n[port_defaults]\nrate = \"1G\"\nmtu = 1518\n\
    [[port]]\nname = \"p0\"\ndevice = \"net_af_packet0,iface=w0\"\n\
    [[port]]\nname = \"p1\"\ndevice = \"net_af_packet1,iface=w1\"\n\
    [[port]]\nname = \"probe\"\ndevice = \"net_af_packet2,iface=w2\"\n\
    [[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p0\"\n\
    [[fdb.static]]\nmac = \"02:00:00:00:00:02\"\nport = \"p1\"\n";

const MIRROR: &str =
    "[[mirror]]\nname = \"look\"\nports = \"p0\"\nto = \"probe\"\nfilter = { ethertype = 0x88b5 }\n";

fn mac(n: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, n])
}

#[test]
fn what_a_port_receives_and_sends_is_seen_at_another() {
    need!(tools(&["tcpdump"]));
    let ns = need!(Namespace::new());
    for i in 0..3 {
        need!(ns.veth(&format!("w{i}"), &format!("h{i}"), 1500));
    }
    let mut switch = Switch::start_in(&ns, &format!("{PORTS}{MIRROR}"));
    let folder = tempfile::tempdir().unwrap();
    let probe = Capture::start(&ns, "h2", folder.path(), "ether proto 0x88b5 or ether proto 0x88b6");
    let [one, two] = ["h0", "h1"].map(|host| Socket::open(&ns, host));
    let there: Vec<_> = (0..20).map(|seed| plain(mac(2), mac(1), 60 + 7 * seed as usize, seed)).collect();
    let back: Vec<_> = (0..10).map(|seed| plain(mac(1), mac(2), 200, 100 + seed)).collect();
    there.iter().for_each(|frame| one.send(frame));
    // Of another kind than the filter says.
    let mut other = plain(mac(2), mac(1), 80, 9);
    other[13] = 0xb6;
    one.send(&other);
    back.iter().for_each(|frame| two.send(frame));
    let mut seen = probe.wait(30);
    let mut want = [there, back].concat();
    want.sort();
    seen.sort();
    assert!(seen == want, "{} frames were seen", seen.len());

    let path = switch.socket();
    wait_for("the mirror in `show`", || {
        let shown = weir(&["show", "mirrors", "--socket", &path]).stdout;
        let told =
            shown.contains("ethertype 0x88b5") && shown.lines().any(|row| row.contains(" 30        0 "));
        told.then_some(())
    });
    let next = folder.path().join("next.toml");
    std::fs::write(&next, format!("[eal]\nargs = [{:?}]\n{PORTS}", floating())).unwrap();
    let applied = weir(&["apply", next.to_str().unwrap(), "--socket", &path]);
    assert_eq!(applied.code(), Some(0), "{}{}", applied.stdout, applied.stderr);
    one.send(&plain(mac(2), mac(1), 90, 7));
    let summary = switch.stop();
    assert_eq!(summary.total("copies"), 30);
    assert_eq!(summary.port("probe", "tx_packets"), 30);
    assert_eq!(probe.stop().len(), 30);
}

/// What a port receives and sends, in files: the bytes and interfaces are those of the wire, the copies cost the switch nothing, and
/// all is there after ctrl-C.
#[test]
fn what_a_port_receives_and_sends_is_written() {
    need!(tools(&["tcpdump"]));
    let ns = need!(Namespace::new());
    for i in 0..3 {
        need!(ns.veth(&format!("w{i}"), &format!("h{i}"), 1500));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("look.pcapng");
    let file = |path: &std::path::Path| {
        format!(
            "[[mirror]]\nname = \"look\"\nports = [\"p0\", \"p1\"]\ndirection = \"rx\"\nfile = {path:?}\n\
             file_size = \"64KiB\"\nfiles = 2\nfilter = {{ ethertype = 0x88b5 }}\n"
        )
    };
    let mut switch = Switch::start_in(&ns, &format!("{PORTS}{}", file(&path)));
    let [one, two] = ["h0", "h1"].map(|host| Socket::open(&ns, host));
    let there: Vec<_> = (0..20).map(|seed| plain(mac(2), mac(1), 60 + 7 * seed as usize, seed)).collect();
    let back: Vec<_> = (0..10).map(|seed| plain(mac(1), mac(2), 200, 100 + seed)).collect();
    let socket = switch.socket();
    let written = |n: u64| {
        let shown = weir(&["show", "mirrors", "--json", "--socket", &socket]).stdout;
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        (shown["mirrors"][0]["file_packets"] == n).then_some(shown)
    };
    there.iter().for_each(|frame| one.send(frame));
    wait_for("what p0 received to be written", || written(20));
    back.iter().for_each(|frame| two.send(frame));
    let shown = wait_for("what p1 received to be written", || written(30));
    let row = &shown["mirrors"][0];
    assert_eq!((&row["file_lost_packets"], &row["error"]), (&0.into(), &"".into()), "{row}");
    assert_eq!(row["to"], path.to_str().unwrap());

    // tcpdump reads it while it is written. Its own words, since they name interfaces and directions.
    let read =
        std::process::Command::new("tcpdump").args(["-r"]).arg(&path).args(["-xx", "-n"]).output().unwrap();
    let text = String::from_utf8(read.stdout).unwrap();
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for line in text.lines() {
        match line.trim_start().strip_prefix("0x").and_then(|line| line.split_once(':')) {
            Some((_, hex)) => {
                let digits: String = hex.chars().filter(char::is_ascii_hexdigit).collect();
                let bytes =
                    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap());
                frames.last_mut().unwrap().extend(bytes);
            }
            None => frames.push(Vec::new()),
        }
    }
    assert!(frames == [there, back].concat(), "{} frames were written", frames.len());

    // A mirror that is taken out and put back goes on counting.
    let apply = |mirrors: &str| {
        let next = folder.path().join("next.toml");
        std::fs::write(&next, format!("[eal]\nargs = [{:?}]\n{PORTS}{mirrors}", floating())).unwrap();
        let applied = weir(&["apply", next.to_str().unwrap(), "--socket", &socket]);
        assert_eq!(applied.code(), Some(0), "{}{}", applied.stdout, applied.stderr);
    };
    apply("");
    apply(&file(&path));
    wait_for("what was counted before", || written(30));

    // Another file, in a folder that is not there: told, counted, and the switch forwards.
    let nowhere = folder.path().join("nowhere/look.pcapng");
    apply(&file(&nowhere));
    one.send(&plain(mac(2), mac(1), 90, 7));
    wait_for("the event", || {
        weir(&["show", "events", "--socket", &socket])
            .stdout
            .contains("No such file or directory")
            .then_some(())
    });
    // There it is: what comes now is written, in more files than may stay.
    std::fs::create_dir(nowhere.parent().unwrap()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let many = 300;
    for seed in 0..many {
        one.send(&plain(mac(2), mac(1), 1000, seed));
        if seed % 50 == 49 {
            wait_for("fifty frames to be written", || written(u64::from(seed) + 31));
        }
    }
    let events = weir(&["show", "events", "--socket", &socket]).stdout;
    let end =
        events.lines().find(|line| line.contains("mirror_file  end")).unwrap_or_else(|| panic!("{events}"));
    assert!(end.contains("lost=1"), "{end}");
    let summary = switch.stop();
    assert_eq!((summary.total("copies"), summary.0["conservation_error"].as_u64()), (0, Some(0)));
    let mut names: Vec<_> =
        std::fs::read_dir(nowhere.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["look.pcapng", "look.pcapng.1"]);
    let last = std::process::Command::new("tcpdump")
        .args(["-r"])
        .arg(&nowhere)
        .args(["-xx", "-n"])
        .output()
        .unwrap();
    assert!(last.status.success(), "{}", String::from_utf8_lossy(&last.stderr));
    let digits: String =
        plain(mac(2), mac(1), 1000, many - 1)[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let text: String =
        String::from_utf8(last.stdout).unwrap().chars().filter(|c| !c.is_whitespace()).collect();
    assert!(text.contains(&digits), "the last frame is there");
}
