//! The forwarding table of a running lab, entry by entry.

use crate::running::Lab;
use serde_json::{Value, json};
use std::collections::HashSet;

const STATIC: usize = 8_200;

fn mac(n: usize) -> String {
    format!("02:aa:00:00:{:02x}:{:02x}", n >> 8, n & 0xff)
}

#[test]
fn eight_thousand_entries_are_shown_while_the_lab_forwards() {
    let entry = |n| format!("\n[[fdb.static]]\nmac = \"{}\"\nport = \"p{}\"\n", mac(n), n % 4);
    let lab = Lab::start_with(&(0..STATIC).map(entry).collect::<String>());
    let show = |more: &[&str]| lab.good(&[&["show", "fdb"], more].concat());
    let document =
        |more: &[&str]| -> Value { serde_json::from_str(&show(&[more, &["-j"]].concat())).unwrap() };
    let received = || lab.json("/v1/switch")["switch"][0]["received"].as_u64().unwrap();

    let before = received();
    let whole = document(&[]);
    let rows = whole["fdb"].as_array().unwrap();
    let of = |kind: &str| rows.iter().filter(|row| row["type"] == kind).collect::<Vec<_>>();
    let (fixed, learned) = (of("static"), of("dynamic"));
    let told: HashSet<&str> = fixed.iter().map(|row| row["mac"].as_str().unwrap()).collect();
    assert_eq!((fixed.len(), told.len()), (STATIC, STATIC));
    assert!((0..STATIC).all(|n| told.contains(mac(n).as_str())));
    // The hosts of the lab, one behind each port that has sent.
    assert!(!learned.is_empty() && learned.iter().all(|row| row["age_seconds"].is_number()), "{learned:?}");
    assert!(whole["entries"].as_u64() >= Some(rows.len() as u64));
    assert_eq!(whole["workers"][0]["learned"], json!(learned.len()));

    let text = show(&[]);
    assert!(
        text.contains("No.") && text.contains("MacAddress") && text.contains(" learned, 0 moved, "),
        "{text}"
    );
    assert!(text.contains(&format!("Total number of entries {}\n", rows.len())), "{text}");
    let one = show(&["--mac", &mac(4711)]);
    assert!(one.contains(&format!("{}  p3    Static", mac(4711))) && one.contains("entries 1\n"), "{one}");
    let port = document(&["--port", "p2", "--vlan", "0"]);
    assert!(port["fdb"].as_array().unwrap().iter().all(|row| row["port"] == "p2"));
    assert!(port["fdb"].as_array().unwrap().len() >= STATIC / 4);
    for wrong in [&["--mac", "x"][..], &["--vlan", "4096"], &["--port", "p9"]] {
        assert_eq!(lab.weir(&[&["show", "fdb"], wrong].concat()).code(), Some(2), "{wrong:?}");
    }
    assert_eq!(lab.weir(&["show", "ports", "--mac", &mac(1)]).code(), Some(2));

    // It was read between two turns, not instead of them.
    assert!(received() > before);
    assert_eq!(lab.json("/v1/switch")["switch"][0]["conservation_error"], json!(0));
    lab.stop();
}
