//! The document and what people see of it.

use super::*;
use crate::api::documents::Lldp;
use crate::{fake, show};

#[test]
fn neighbours_are_shown_with_what_does_not_fit() {
    let snapshot = fake::snapshot();
    let answer = document(&snapshot, &Query::default());
    // The type of the OpenAPI document is what is answered.
    let typed: Lldp = serde_json::from_value(answer.clone()).unwrap();
    assert_eq!(json(&typed), answer);
    assert!(typed.enabled && typed.ports.len() == 2);
    let peer = &typed.ports[0].neighbours[0];
    assert_eq!((peer.ttl_left_seconds, &peer.information.chassis[..]), (121, "02:00:00:00:ff:07"));
    assert_eq!((&peer.differences.pfc[..], peer.differences.frame_size), (&[4][..], false));
    let ets = peer.information.ets.as_ref().unwrap();
    assert_eq!(
        ets.priorities[3],
        LldpPriority { priority: 3, traffic_class: 3, algorithm: "ets".into(), bandwidth_percent: 30 }
    );
    assert_eq!((typed.ports[1].sent.is_none(), typed.ports[1].mode), (true, LldpPortMode::Receive));
    assert_eq!(answer["ports"][1]["rx_malformed_frames"], 1);
    let one = document(&snapshot, &Query { port: Some(1) });
    assert_eq!(one["ports"].as_array().unwrap().len(), 1);
    let text = show::lldp(&typed);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..6], ["Port", "Who", "Chassis", "Port", "ID", "System"]);
    let ets = "10,10,10,30,10,10,10,10";
    assert_eq!(
        lines[2],
        ["p0", "we", "02:00:00:00:ff:00", "p0", "leaf1", "121", "3", ets, "1518", "no", "-"]
    );
    let host =
        ["p0", "peer", "02:00:00:00:ff:07", "eth0", "host7", "121", "3,4", ets, "1518", "pfc", "pfc", "4"];
    assert_eq!(lines[3], host);
    assert_eq!(lines[4].join(" "), "p\"1\\: 1 malformed frames");
    let off = show::lldp(&Lldp { enabled: false, ports: Vec::new(), ..typed });
    assert!(off.contains("[lldp] enable"), "{off}");
}
