//! Frames on their way to an interface whose link goes down: each is lost under a name, and none of them arrives when the link is back.

use crate::support::frames::plain;
use crate::support::namespace::Namespace;
use crate::support::program::{Switch, weir};
use crate::support::wire::Socket;
use crate::support::{need, wait_for};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use weir_dataplane::types::Mac;

const CONFIG: &str = r#"
[buffer]
size = "8MiB"
frames = 8192
[port_defaults]
rate = "10G"
mtu = 1518
[[port]]
name = "w0"
device = "net_af_packet0,iface=w0"
[[port]]
name = "w1"
device = "net_af_packet1,iface=w1"
"#;

/// Rows of a table.
fn rows(socket: &str, what: &str) -> Vec<Value> {
    let shown = weir(&["show", what, "--json", "--socket", socket]).stdout;
    let mut table: Value = serde_json::from_str(&shown).expect("JSON");
    table[what].as_array_mut().map(std::mem::take).expect("rows")
}

fn count(row: &Value, key: &str) -> u64 {
    let value = &row[key];
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("no {key} in {row}"))
}

/// Frames lost under a name: by the switch, or by its drivers.
fn named(socket: &str) -> u64 {
    let drops: u64 = rows(socket, "drops").iter().map(|row| count(row, "frames")).sum();
    let ports = rows(socket, "ports");
    drops + ports.iter().map(|row| count(row, "nic_tx_errors") + count(row, "nic_missed")).sum::<u64>()
}

/// The same once it grows no more: drivers are asked once a second.
fn settled(socket: &str) -> u64 {
    let mut before = named(socket);
    loop {
        std::thread::sleep(Duration::from_millis(1500));
        let now = named(socket);
        if now == before {
            return now;
        }
        before = now;
    }
}

/// Numbers of the frames that have arrived.
fn arrived(host: &Socket) -> BTreeSet<u32> {
    let mut buffer = [0; 2048];
    let mut numbers = BTreeSet::new();
    while let Some(frame) = host.receive(&mut buffer) {
        if frame[12..14] == [0x88, 0xb5] {
            let number = u32::from_be_bytes(frame[14..18].try_into().expect("four bytes"));
            assert!(numbers.insert(number), "{number} has come twice");
        }
    }
    numbers
}

#[test]
fn frames_for_a_link_that_goes_are_lost_by_name_and_none_of_them_arrives_late() {
    const NEW: u32 = 20;
    let ns = need!(Namespace::new());
    for i in 0..2 {
        need!(ns.veth(&format!("w{i}"), &format!("h{i}"), 1500));
    }
    let mut switch = Switch::start_in(&ns, CONFIG);
    let socket = switch.socket();
    let [from, to] = [0, 1].map(|i| Socket::open(&ns, &format!("h{i}")));
    let mut next = 0;
    let mut send = || {
        from.send(&plain(Mac([0xff; 6]), Mac([2, 0, 0, 0, 0, 1]), 100, next));
        next += 1;
        next
    };
    let link_is = |state: &str| {
        wait_for(state, || {
            rows(&socket, "ports").iter().any(|row| row["port"] == "w1" && row["link"] == state).then_some(())
        });
    };
    // The switch's end of the cable, and that of its peer.
    for end in ["w1", "h1", "w1", "h1"] {
        let (lost, dropped) = (settled(&socket), ns.counts("w1").tx_dropped);
        let (first, mut behind) = (send() - 1, 0);
        std::thread::scope(|scope| {
            let pull = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                ns.set(end, "down");
                std::thread::sleep(Duration::from_millis(100));
            });
            while !pull.is_finished() {
                behind = send();
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        link_is("down");
        let sent = u64::from(behind - first);
        let mut seen = arrived(&to);
        // The kernel alone knows what it loses while it takes an interface down, and counts it.
        let dropped = ns.counts("w1").tx_dropped - dropped;
        wait_for("an account of each frame", || {
            seen.extend(arrived(&to));
            let known = seen.len() as u64 + named(&socket) - lost;
            assert!(known <= sent, "{end}: {known} known, {sent} sent");
            (known + dropped >= sent).then_some(())
        });
        let lost = named(&socket) - lost;
        assert!(lost > 0 && !seen.is_empty(), "{end}: {lost} lost, {} arrived", seen.len());

        ns.set(end, "up");
        link_is("up");
        for _ in 0..NEW {
            send();
        }
        let mut new = BTreeSet::new();
        wait_for("what is sent when the link is back", || {
            new.extend(arrived(&to));
            (new.range(behind..).count() == NEW as usize).then_some(())
        });
        assert_eq!(new.first(), Some(&behind), "{end}: nothing of before");
    }
    drop(switch.stop_with_lost(&["lookup.no_port=", "egress.port_down="]));
}
