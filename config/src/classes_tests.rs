//! Maps that break a class's way, one step each.

use super::*;

const PORTS: &str = "[[port]]\nname = \"a\"\ndevice = \"net_null0\"\nrate = \"25G\"\n\
                     [[port]]\nname = \"b\"\ndevice = \"net_null1\"\nrate = \"25G\"\n";

/// Rules broken by these keys of `[qos]`, and the first message with its remedy.
fn found(qos: &str, more: &str) -> (Vec<&'static str>, String) {
    let text = format!("[qos]\npreset = \"roce-lossless\"\n{qos}\n{PORTS}{more}");
    let found = match load("t.toml", &text) {
        Ok(loaded) => loaded.warnings,
        Err(found) => found,
    };
    let rules = found.iter().map(|d| d.rule).collect();
    (rules, found.first().map_or_else(String::new, |d| format!("{} / {}", d.message, d.remedy)))
}

#[test]
fn a_lossless_class_in_a_lossy_group_is_refused() {
    let (rules, text) = found("tc_to_pg = { \"*\" = 0 }", "");
    assert!(rules.contains(&"class.lossy") && rules.contains(&"pfc.empty_group"), "{rules:?}");
    assert!(
        text.contains("class 3 waits in lossless queue 3") && text.contains("group 0, which is lossy"),
        "{text}"
    );
    assert!(text.contains("to a lossless group (3) in tc_to_pg"), "{text}");
    // A port that pauses nobody may take it as it likes, but is told.
    let (rules, _) =
        found("", "pfc = { enable = [] }\nmaps = \"edge\"\n[map.edge]\ntc_to_pg = { \"3\" = 0 }\n");
    assert!(rules.contains(&"class.lossy"), "{rules:?}");
}

#[test]
fn a_pause_for_an_empty_or_a_foreign_queue_is_refused() {
    let (rules, text) = found("pfc_to_queue = { \"3\" = 5 }", "");
    assert_eq!(rules, ["pfc.missed_queue"]);
    assert!(text.contains("stops queue 5") && text.contains("which is empty"), "{text}");
    assert!(text.contains("map priority 3 to queue 3 in pfc_to_queue"), "{text}");
    let (rules, text) = found("pfc_to_queue = { \"3\" = 0 }", "");
    assert_eq!(rules, ["pfc.missed_queue"]);
    assert!(text.contains("class 3 leaves by queue 3, which no pause stops"), "{text}");
    // The lossy class shares the queue that is stopped; and a lossy class in a lossless queue is told of, too.
    let (rules, _) = found("tc_to_queue = { \"0\" = 3 }", "");
    assert!(rules.contains(&"pfc.foreign_queue"), "{rules:?}");
}

#[test]
fn those_who_fill_a_lossless_group_are_those_who_are_paused() {
    let (rules, text) = found("pcp_to_tc = { \"5\" = 3 }", "");
    assert_eq!(rules, ["pfc.foreign_sender"]);
    assert!(text.contains("PCP 5 enter lossless group 3") && text.contains("priority 3 only"), "{text}");
    assert_eq!(found("pcp_to_tc = { \"5\" = 3 }\ntrust = \"dscp\"", "").0, [""; 0]);
}

#[test]
fn a_class_nobody_can_say_is_not_followed() {
    // Class 5 would be lossless at the queue and lossy at the group, and no frame has it.
    let more = "[[buffer.queue]]\nqueues = 5\nprofile = \"egress_lossless\"\n";
    assert_eq!(found("", more).0, [""; 0]);
    assert_eq!(found("dscp_to_tc = { \"40\" = 5 }", more).0, ["class.lossy"]);
}

#[test]
fn presets_hold_every_class() {
    for (preset, _) in preset::PRESETS {
        let text = format!("[qos]\npreset = \"{preset}\"\n{PORTS}");
        let loaded = load("t.toml", &text).unwrap_or_else(|found| panic!("{preset}: {found:?}"));
        assert!(loaded.warnings.is_empty(), "{preset}: {:?}", loaded.warnings);
    }
}

#[test]
fn a_lossless_class_nobody_is_paused_for_is_told_of() {
    for (pfc, why) in [("mode = \"hardware\"", "leaves it to a NIC"), ("visible = false", "do not pass")] {
        let (rules, text) = found("", &format!("pfc = {{ {pfc} }}\n"));
        assert!(rules.contains(&"pfc.nobody"), "{pfc}: {rules:?}");
        assert!(text.contains("class 3 enters lossless group 3 of port `b`") && text.contains(why), "{text}");
    }
    let (rules, text) = found("", "pfc = { rx = \"none\" }\n");
    assert_eq!(rules, ["pfc.deaf"]);
    assert!(text.contains("port `b` does not obey pauses") && text.contains("lossless queue 3"), "{text}");
}

#[test]
fn lossless_frames_fit_every_port() {
    let (rules, text) = found("", "mtu = 1518\n");
    assert_eq!(rules, ["mtu.differs"]);
    assert!(text.contains("up to 9216 bytes") && text.contains("port `b` is for 1518"), "{text}");
    // A tag that is popped makes room, and frames stay in their VLAN.
    let of_vlans = |access: u16, trunk: u16, more: &str| {
        let port = |name: &str, mtu: u16, vlan: &str| {
            format!(
                "[[port]]\nname = \"{name}\"\ndevice = \"ring\"\nrate = \"25G\"\nmtu = {mtu}\nvlan = {{ {vlan} }}\n"
            )
        };
        let ports = port("b", access, "access = 10") + &port("c", trunk, more);
        let text = format!("[qos]\npreset = \"roce-lossless\"\n{ports}");
        load("t.toml", &text).unwrap().warnings.iter().map(|d| d.rule).collect::<Vec<_>>()
    };
    assert_eq!(of_vlans(1518, 1522, "trunk = \"10,20\""), [""; 0]);
    assert_eq!(of_vlans(1518, 9216, "trunk = \"20,30\""), [""; 0]);
    assert_eq!(of_vlans(1518, 1523, "trunk = \"10,20\""), ["mtu.differs"]);
    assert_eq!(of_vlans(1518, 1522, "trunk = \"10,20\", native = 10"), ["mtu.differs"]);
    // Frames stay with ports of their format, whatever those of another carry.
    let afh = |name: &str, mtu: u16| {
        format!(
            "[[port]]\nname = \"{name}\"\ndevice = \"ring\"\nrate = \"25G\"\nformat = \"afh_gen1\"\nmtu = {mtu}\n"
        )
    };
    // (AFH_GEN1 has no marks, so each of them is warned of that, too.)
    let alone = ["wred.format"; 2];
    assert_eq!(found("", &(afh("c", 2000) + &afh("d", 2000))).0, alone);
    let (rules, _) = found("", &(afh("c", 2000) + &afh("d", 1518)));
    assert!(rules.contains(&"mtu.differs") && rules.len() == 1 + alone.len(), "{rules:?}");
}
