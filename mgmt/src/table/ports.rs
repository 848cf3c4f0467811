//! Tables of ports, and of what ports have: VLANs, limits, LAGs, mirrors.

use super::Form::{Count, Flag, Maybe, Rate, Share, Text};
use super::columns::{PORT, col};
use super::{Column, count, rate, share};
use crate::snapshot::DeviceState;
use serde_json::{Value, json};
use weir_config::{LacpMode, show_flood_limit, show_vids};
use weir_dataplane::drops::DropReason;
use weir_dataplane::stats::PortStats;
use weir_dataplane::switch::Filter;
use weir_dataplane::vlan::PortVlans;

pub(super) const VLANS: &[Column] = &[
    PORT,
    col("mode", Text, "Mode", "`access`: one VLAN, without tags; or `trunk`", |r| {
        json!(r.vlans().map(|vlans| if vlans.native.is_some() && vlans.members.iter().count() == 1 {
            "access"
        } else {
            "trunk"
        }))
    }),
    col("native", Maybe, "Native", "VLAN of frames without a tag; null: they are dropped", |r| {
        json!(r.vlans().and_then(|vlans| vlans.native))
    }),
    col("tagged", Text, "Tagged", "VLANs whose frames leave with a tag", |r| {
        let tagged = |vlans: &PortVlans| {
            show_vids(&vlans.members.iter().filter(|vid| vlans.native != Some(*vid)).collect())
        };
        json!(r.vlans().map(tagged))
    }),
    col("dropped_packets", Count, "Dropped", "frames received here that VLANs have kept from leaving", |r| {
        let drops = DropReason::ALL.iter().zip(&r.port().stats.drops.0);
        count(drops.filter(|(reason, _)| reason.stage() == "vlan").map(|(_, n)| n).sum())
    }),
];

pub(super) const STORM_CONTROL: &[Column] = &[
    PORT,
    col("kind", Text, "Kind", "`broadcast`, `unknown_unicast` or `multicast`", |r| {
        json!(r.flood_kind().word())
    }),
    col("limit", Text, "Limit", "bit/s on the wire, or frames per second", |r| {
        let limit = r.info().storm_control.and_then(|limits| limits.limit(r.flood_kind()));
        json!(limit.map(|limit| show_flood_limit(&limit)))
    }),
    col("burst_ns", Count, "Burst/ns", "unused time that lets as much more pass at once", |r| {
        count(r.info().storm_control.map_or(0, |limits| limits.burst))
    }),
    col("exceeded", Flag, "Exceeded", "a frame of this kind would be dropped now", |r| {
        r.bit(r.port().gauges.flood_exceeded)
    }),
    col("dropped_packets", Count, "Dropped", "frames above the limit", |r| {
        count(r.port().stats.drops.0[r.flood_kind().reason() as usize])
    }),
];

pub(super) const LAGS: &[Column] = &[
    PORT,
    col("name", Text, "LAG", "name of the LAG", |r| json!(r.lag().name)),
    LINK,
    ADMIN,
    col("hash", Text, "Hash", "what tells flows apart: `l2`, `l3` or `l4`", |r| json!(r.lag().hash.word())),
    col("rx_packets", Count, "RX_OK", "data frames received by this member", |r| {
        count(r.port().stats.rx_packets)
    }),
    col("tx_packets", Count, "TX_OK", "data frames that left by this member", |r| {
        count(r.port().stats.tx_packets)
    }),
    col(
        "lag_changes",
        Count,
        "Changes",
        "times that it left or joined because of its link or of LACP: flows have moved",
        |r| count(r.port().stats.lag_changes),
    ),
    col("lacp", Text, "LACP", "whether the LAG speaks it: `active`, `passive` or `off`", |r| {
        json!(match r.lacp() {
            None => LacpMode::Off.word(),
            Some(member) if member.active => LacpMode::Active.word(),
            Some(_) => LacpMode::Passive.word(),
        })
    }),
    col(
        "mux",
        Text,
        "Mux",
        "what LACP has it carry: `collecting` takes frames, `distributing` sends them, too; `detached`, `waiting` and `attached` do \
         neither; empty: it is static",
        |r| json!(r.lacp().map_or("", |member| member.mux.word())),
    ),
    col("why", Text, "Why", "why LACP does not have it send; empty: it does, or is static", |r| {
        json!(r.lacp().map_or("", |member| member.why.word()))
    }),
    col(
        "actor_state",
        Text,
        "Actor",
        "state that it sends (802.1AX): Activity, short Timeout, aGgregation, Synchronization, Collecting, Distributing, deFaulted, Expired",
        |r| json!(r.lacp().map_or_else(String::new, |member| member.actor.state.to_string())),
    ),
    col("partner_state", Text, "Partner", "state that its partner sends; empty: there is none", |r| {
        json!(r.lacp_partner().map_or_else(String::new, |partner| partner.state.to_string()))
    }),
    col("partner_system", Text, "Partner system", "priority and address of its partner", |r| {
        json!(r.lacp_partner().map_or_else(String::new, |partner| partner.system.to_string()))
    }),
    col("partner_key", Maybe, "Key", "which aggregate of its partner the link belongs to", |r| {
        r.lacp_partner().map_or(Value::Null, |partner| json!(partner.key))
    }),
    col("partner_port", Maybe, "Port", "number of the port there", |r| {
        r.lacp_partner().map_or(Value::Null, |partner| json!(partner.port))
    }),
    col("actor_system", Text, "", "priority and address of this switch, as its partner sees it", |r| {
        json!(r.lacp().map_or_else(String::new, |member| member.actor.system.to_string()))
    }),
    col("actor_key", Maybe, "", "key of the LAG", |r| {
        r.lacp().map_or(Value::Null, |member| json!(member.actor.key))
    }),
    col("actor_port", Maybe, "", "its number, as its partner sees it", |r| {
        r.lacp().map_or(Value::Null, |member| json!(member.actor.port))
    }),
    col(
        "receive",
        Text,
        "",
        "what is known of the partner: `current`, `expired`, `defaulted` or `port_disabled`",
        |r| json!(r.lacp().map_or("", |member| member.receive.word())),
    ),
    col("fallback", Flag, "", "it carries frames because nobody speaks LACP at any member", |r| {
        json!(r.lacp().is_some_and(|member| member.fallback))
    }),
    col("rx_lacpdus", Count, "", "LACPDUs taken", |r| {
        count(r.lacp().map_or(0, |member| member.counters.lacpdus))
    }),
    col("rx_markers", Count, "", "markers received", |r| {
        count(r.lacp().map_or(0, |member| member.counters.markers))
    }),
    col("tx_lacp", Count, "", "frames of LACP sent", |r| count(r.port().stats.tx_lacp)),
];

pub(super) const MIRRORS: &[Column] = &[
    col("name", Text, "Name", "name of the mirror", |r| json!(r.mirror().name)),
    col("ports", Text, "Ports", "whose frames are copied", |r| {
        let names = r.mirror().ports.iter().map(|port| r.snapshot.info.ports[port.index()].name.as_str());
        json!(names.collect::<Vec<_>>().join(","))
    }),
    col("direction", Text, "Direction", "`rx`, `tx` or `both`", |r| json!(r.mirror().direction.word())),
    col("filter", Text, "Filter", "which of their frames; empty: all", |r| {
        json!(show_filter(&r.mirror().filter))
    }),
    col("to", Text, "To", "where the copies go: a port, or a file", |r| {
        json!(r.mirror().file().map_or(&r.info().name, |file| &file.path))
    }),
    col("mirrored_packets", Count, "Copies", "copies made of frames of these ports, for any mirror", |r| {
        count(r.of_mirrored(|stats| stats.mirrored + stats.recorded))
    }),
    col(
        "dropped_packets",
        Count,
        "Dropped",
        "copies of frames of these ports that found no room, or were too long",
        |r| {
            let of_mirrors = |stats: &PortStats| {
                let drops = DropReason::ALL.iter().zip(&stats.drops.0);
                drops.filter(|(reason, _)| reason.stage() == "mirror").map(|(_, n)| n).sum()
            };
            count(r.of_mirrored(of_mirrors))
        },
    ),
    col("file_packets", Maybe, "Written", "frames written; null: the copies go to a port", |r| {
        r.mirror_file().map_or(Value::Null, |file| count(file.frames))
    }),
    col("file_bytes", Maybe, "Bytes", "bytes of files written, with what describes the frames", |r| {
        r.mirror_file().map_or(Value::Null, |file| count(file.bytes))
    }),
    col("file_lost_packets", Maybe, "Lost", "frames that could not be written", |r| {
        r.mirror_file().map_or(Value::Null, |file| count(file.lost))
    }),
    col("error", Text, "Error", "why the last ones could not be written; empty: all is well", |r| {
        json!(r.mirror_file().and_then(|file| file.error.as_deref()).unwrap_or_default())
    }),
];

/// As it is asked for on the command line of `weir capture`.
fn show_filter(filter: &Filter) -> String {
    let Filter { dst, src, ethertype, dscp, udp_port, ip, qp } = filter;
    let texts = [
        dst.map(|mac| format!("dst {mac}")),
        src.map(|mac| format!("src {mac}")),
        ethertype.map(|n| format!("ethertype {n:#06x}")),
        dscp.map(|n| format!("dscp {n}")),
        udp_port.map(|n| format!("udp_port {n}")),
        ip.map(|ip| format!("ip {ip}")),
        qp.map(|qp| format!("qp {qp:#x}")),
    ];
    texts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

pub(super) const LINK: Column = col("link", Text, "STATE", "up: frames can pass; down or unknown", |r| {
    json!(r.port().link.map_or("unknown", |link| if link.up { "up" } else { "down" }))
});

const ADMIN: Column = col("admin", Text, "ADMIN", "up, or down: switched off by its configuration", |r| {
    json!(r.info().admin.word())
});

pub(super) const PORTS: &[Column] = &[
    PORT,
    LINK,
    ADMIN,
    col("device", Text, "", "device, as configured", |r| json!(r.info().device)),
    col(
        "device_state",
        Text,
        "DEVICE",
        "present, removing, removed, or refused: the interface that has its name now cannot be used",
        |r| json!(r.port().device.word()),
    ),
    col("device_error", Text, "", "why it is refused", |r| {
        json!(match &r.port().device {
            DeviceState::Refused(why) => why,
            _ => "",
        })
    }),
    col("driver", Text, "", "DPDK driver", |r| json!(r.info().driver)),
    col("lcore", Count, "", "core that polls it", |r| json!(r.info().lcore)),
    col("rate_bps", Maybe, "", "bit/s it sends at most: `rate`, or the link's where that is less", |r| {
        r.info().rate.map_or(Value::Null, count)
    }),
    col("link_bps", Maybe, "", "speed of the link, where the driver knows", |r| {
        let mbps = r.port().link.and_then(|link| link.mbps);
        mbps.map_or(Value::Null, |mbps| count(u64::from(mbps) * 1_000_000))
    }),
    col("pfc_priorities", Count, "", "priorities with PFC, a bit each", |r| json!(r.info().pfc)),
    col("pfc_mode", Text, "", "software, not seen by software, or off", |r| {
        json!(match (r.info().pfc, r.info().software_pfc) {
            (0, _) => "off",
            (_, true) => "software",
            (_, false) => "not seen by software",
        })
    }),
    col("pfc_frames", Text, "", "what is known of PFC frames between the wire and software", |r| {
        json!(r.info().pfc_frames)
    }),
    col(
        "pause_response",
        Maybe,
        "",
        "bytes that may still leave after a received pause: what the peer's headroom is to allow for; none where the port obeys \
         none in software or its rate is not known",
        |r| r.info().pause_response.map_or(Value::Null, count),
    ),
    col("rx_packets", Count, "RX_OK", "data frames received", |r| count(r.port().stats.rx_packets)),
    col("rx_bps", Rate, "RX_BPS", "bit/s received, without FCS", |r| rate(r.rates().rx_bps)),
    col("rx_pps", Rate, "", "frames/s received", |r| rate(r.rates().rx_pps)),
    col(
        "rx_utilisation",
        Share,
        "RX_UTIL",
        "share of the line rate received, with FCS, preamble and gap",
        |r| share(r.rates().rx_utilisation),
    ),
    col(
        "rx_bytes",
        Count,
        "",
        "bytes received, without FCS; of a frame longer than a buffer of its driver's ring (net_af_packet) what fits there",
        |r| count(r.port().stats.rx_bytes),
    ),
    col("nic_rx_errors", Count, "RX_ERR", "frames received with an error, by the driver", |r| {
        count(r.port().nic.rx_errors)
    }),
    col("rx_drops", Count, "RX_DRP", "frames dropped on the way in", |r| r.drops(false)),
    col("nic_missed", Count, "RX_OVR", "frames lost for lack of a receive descriptor, by the driver", |r| {
        count(r.port().nic.rx_missed)
    }),
    col("nic_no_mbuf", Count, "", "receptions without memory, by the driver", |r| {
        count(r.port().nic.rx_no_mbuf)
    }),
    col("tx_packets", Count, "TX_OK", "data frames the driver has taken", |r| {
        count(r.port().stats.tx_packets)
    }),
    col("tx_bps", Rate, "TX_BPS", "bit/s sent, without FCS", |r| rate(r.rates().tx_bps)),
    col("tx_pps", Rate, "", "frames/s sent", |r| rate(r.rates().tx_pps)),
    col("tx_utilisation", Share, "TX_UTIL", "share of the line rate sent", |r| {
        share(r.rates().tx_utilisation)
    }),
    col("tx_bytes", Count, "", "bytes sent, without FCS", |r| count(r.port().stats.tx_bytes)),
    col("nic_tx_errors", Count, "TX_ERR", "frames that could not be sent, by the driver", |r| {
        count(r.port().nic.tx_errors)
    }),
    col("tx_drops", Count, "TX_DRP", "frames dropped on the way out", |r| r.drops(true)),
    col(
        "lossless_drops",
        Count,
        "LOSSLESS",
        "frames of lossless classes lost here, in and out; not those of the watchdog and of the operator",
        |r| count(r.port().stats.lossless_drops()),
    ),
    col(
        "lossless_drops_watchdog",
        Count,
        "",
        "frames of lossless classes that the watchdog dropped here",
        |r| count(r.port().stats.lossless_drops_watchdog()),
    ),
    col(
        "lossless_drops_operator",
        Count,
        "",
        "frames of lossless classes lost here because a port was switched off or the run ended",
        |r| count(r.port().stats.lossless_drops_operator()),
    ),
    col(
        "lossless_drops_possible",
        Count,
        "",
        "frames that the driver lost, if the port has lossless classes: perhaps of one",
        |r| count(r.snapshot.possible_at(r.port)),
    ),
    col(
        "copies",
        Count,
        "",
        "copies made of frames received here, and for mirrors of frames sent here",
        |r| count(r.port().stats.copies),
    ),
    col("mirrored_packets", Count, "", "those of them that were made for mirrors", |r| {
        count(r.port().stats.mirrored)
    }),
    col("recorded_packets", Count, "", "frames received or sent here that mirrors gave to files", |r| {
        count(r.port().stats.recorded)
    }),
    col("flooded", Count, "", "frames flooded for want of a destination", |r| count(r.port().stats.flooded)),
    col("malformed_l3", Count, "", "frames forwarded although their IP header is malformed", |r| {
        count(r.port().stats.malformed_l3)
    }),
    col(
        "checksums_completed",
        Count,
        "",
        "frames whose checksum a host had left to hardware, given one",
        |r| count(r.port().stats.checksums_completed),
    ),
    col("rx_control", Count, "", "MAC control frames received", |r| count(r.port().stats.rx_control)),
    col("tx_control", Count, "", "MAC control frames sent", |r| count(r.port().stats.tx_control)),
    col("pfc_rx_frames", Count, "", "PFC frames received", |r| count(r.port().gauges.pfc_rx_frames)),
    col("pfc_tx_frames", Count, "", "PFC frames sent", |r| count(r.port().gauges.pfc_tx_frames)),
    col("tx_control_no_memory", Count, "", "PFC frames that had to wait for memory", |r| {
        count(r.port().stats.tx_control_no_memory)
    }),
    col(
        "invalid_control",
        Count,
        "INVALID_CTRL",
        "MAC control frames received that are neither PAUSE nor PFC, or malformed",
        |r| count(r.port().gauges.invalid_control),
    ),
    col("pause_frames", Count, "", "802.3x PAUSE frames received", |r| count(r.port().gauges.pause_frames)),
];
