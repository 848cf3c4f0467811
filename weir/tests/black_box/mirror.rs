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
            shown.contains("ethertype 0x88b5") && shown.lines().any(|row| row.ends_with(" 30        0"));
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
