//! The list of families. `port` is a name, `priority` also stands for the queue or group of that number.

use super::Samples::{Counters, Counts, Gauges, Histograms, Info};
use super::samples::*;
use super::{Family, Labels, Samples};
use crate::lacp::{MemberReading, Mux};
use crate::lldp::Differences;
use crate::lldp::agent::{Counters as LldpCounters, Neighbour, PortNeighbours};
use crate::mcast::agent::Counters as McastCounters;
use crate::mcast::frame::Malformed;
use crate::snapshot::{PortInfo, PortReading};
use crate::times::Part;
use weir_dataplane::drops::LosslessLoss;
use weir_dataplane::stats::Stage;
use weir_inc::drops::Drop;
use weir_inc::report::State;

const fn family(name: &'static str, help: &'static str, samples: Samples) -> Family {
    Family { name, help, samples }
}

/// Every family.
pub const ALL: &[Family] = &[
    family(
        "weir_build",
        "Versions",
        Info(|s| vec![("version", s.snapshot.info.version.clone()), ("dpdk", s.snapshot.info.dpdk.clone())]),
    ),
    family("weir_switch", "Name of the switch", Info(|s| vec![("name", s.snapshot.info.name.clone())])),
    family(
        "weir_uptime_seconds",
        "Time since the management thread came up",
        Gauges(|s| vec![(vec![], s.snapshot.uptime_ms as f64 / 1e3)]),
    ),
    family(
        "weir_forwarding",
        "1 while the switch forwards, 0 while it drains or stops",
        Gauges(|s| vec![(vec![], f64::from(s.snapshot.now.phase == crate::snapshot::Phase::Forward))]),
    ),
    family(
        "weir_port_up",
        "1 if the link is up",
        Gauges(|s| {
            let up =
                |(labels, _, p): (Labels, &PortInfo, &PortReading)| Some((labels, f64::from(p.link?.up)));
            ports(s).filter_map(up).collect()
        }),
    ),
    family(
        "weir_port_speed_bits_per_second",
        "Line rate, where there is one",
        Gauges(|s| ports(s).filter_map(|(labels, info, _)| Some((labels, info.rate? as f64))).collect()),
    ),
    family("weir_port_rx_packets", "Data frames received", Counts(|s| per_port(s, |p| p.stats.rx_packets))),
    family(
        "weir_port_rx_bytes",
        "Bytes received, without FCS",
        Counts(|s| per_port(s, |p| p.stats.rx_bytes)),
    ),
    family(
        "weir_port_tx_packets",
        "Data frames the driver has taken",
        Counts(|s| per_port(s, |p| p.stats.tx_packets)),
    ),
    family("weir_port_tx_bytes", "Bytes sent, without FCS", Counts(|s| per_port(s, |p| p.stats.tx_bytes))),
    family(
        "weir_port_copies_packets",
        "Copies made of frames received here for several ports, and for mirrors of those sent here, too",
        Counts(|s| per_port(s, |p| p.stats.copies)),
    ),
    family(
        "weir_port_flooded_packets",
        "Frames flooded for want of a destination",
        Counts(|s| per_port(s, |p| p.stats.flooded)),
    ),
    family(
        "weir_port_malformed_packets",
        "Frames forwarded although their IP header is malformed",
        Counts(|s| per_port(s, |p| p.stats.malformed_l3)),
    ),
    family(
        "weir_port_checksums_completed_packets",
        "Frames received whose checksum a host had left to hardware, and that were given one",
        Counts(|s| per_port(s, |p| p.stats.checksums_completed)),
    ),
    family(
        "weir_port_invalid_control_packets",
        "MAC control frames that are neither PAUSE nor PFC",
        Counts(|s| per_port(s, |p| p.gauges.invalid_control)),
    ),
    family(
        "weir_port_pause_packets",
        "802.3x PAUSE frames received",
        Counts(|s| per_port(s, |p| p.gauges.pause_frames)),
    ),
    family(
        "weir_port_nic_missed_packets",
        "Frames lost for lack of a receive descriptor, by the driver",
        Counts(|s| per_nic(s, |nic| nic.rx_missed)),
    ),
    family(
        "weir_port_nic_no_mbuf",
        "Receptions without memory, by the driver",
        Counts(|s| per_nic(s, |nic| nic.rx_no_mbuf)),
    ),
    family(
        "weir_port_nic_rx_errors",
        "Frames received with an error, by the driver",
        Counts(|s| per_nic(s, |nic| nic.rx_errors)),
    ),
    family(
        "weir_port_nic_tx_errors",
        "Frames that could not be sent, by the driver",
        Counts(|s| per_nic(s, |nic| nic.tx_errors)),
    ),
    family(
        "weir_queue_packets",
        "Frames sent, by queue",
        Counts(|s| lanes(s, |p, q| p.stats.queue_packets[q])),
    ),
    family("weir_queue_bytes", "Bytes sent, by queue", Counts(|s| lanes(s, |p, q| p.stats.queue_bytes[q]))),
    family(
        "weir_queue_drops_packets",
        "Frames refused or flushed at an egress queue",
        Counts(|s| lanes(s, |p, q| p.stats.queue_drops[q])),
    ),
    family(
        "weir_queue_depth_bytes",
        "Bytes an egress queue holds",
        Gauges(|s| gauges(s, |p, q| p.gauges.queue_bytes[q])),
    ),
    family(
        "weir_queue_depth_peak_bytes",
        "Most bytes an egress queue held since start",
        Gauges(|s| gauges(s, |p, q| p.gauges.queue_peak[q])),
    ),
    family(
        "weir_queue_limit_bytes",
        "Most bytes an egress queue may hold now, where it has a limit",
        Gauges(|s| limits(s, |p, q| p.gauges.queue_limit[q])),
    ),
    family(
        "weir_queue_paused",
        "1 while the peer has paused the queue",
        Gauges(|s| gauges(s, |p, q| p.gauges.paused_queues >> q & 1)),
    ),
    family(
        "weir_pg_packets",
        "Frames charged to a priority group",
        Counts(|s| lanes(s, |p, pg| p.stats.pg_packets[pg])),
    ),
    family(
        "weir_pg_drops_packets",
        "Frames refused at a priority group",
        Counts(|s| lanes(s, |p, pg| p.stats.pg_drops[pg])),
    ),
    family(
        "weir_pg_shared_bytes",
        "Bytes a priority group holds in the shared pool",
        Gauges(|s| gauges(s, |p, pg| p.gauges.pg_shared[pg])),
    ),
    family(
        "weir_pg_shared_peak_bytes",
        "Most shared bytes a priority group held since start",
        Gauges(|s| gauges(s, |p, pg| p.gauges.pg_shared_peak[pg])),
    ),
    family(
        "weir_pg_headroom_bytes",
        "Bytes a priority group holds in headroom",
        Gauges(|s| gauges(s, |p, pg| p.gauges.pg_headroom[pg])),
    ),
    family(
        "weir_pg_headroom_peak_bytes",
        "Most headroom a priority group held since start",
        Gauges(|s| gauges(s, |p, pg| p.gauges.pg_headroom_peak[pg])),
    ),
    family(
        "weir_pg_headroom_size_bytes",
        "Most bytes a lossless priority group may hold in headroom",
        Gauges(|s| {
            let lossless =
                |info: &PortInfo, pg: usize| (info.lossless >> pg & 1 == 1).then(|| info.headroom[pg] as f64);
            known(s, lossless)
        }),
    ),
    family(
        "weir_pg_xoff_threshold_bytes",
        "The moving Xoff line: most shared bytes a priority group may hold now",
        Gauges(|s| limits(s, |p, pg| p.gauges.pg_limit[pg])),
    ),
    family(
        "weir_pg_xon_threshold_bytes",
        "Where a priority group would resume now, in shared bytes as its Xoff line",
        Gauges(|s| limits(s, |p, pg| p.gauges.pg_xon[pg])),
    ),
    family(
        "weir_buffer_size_bytes",
        "Parts of the buffer",
        Gauges(|s| {
            let b = &s.snapshot.info.buffer;
            let parts = [
                ("reserved", b.reserved),
                ("shared", b.shared),
                ("headroom", b.headroom),
                ("control", b.control),
                ("mirrors", b.mirrors),
            ];
            parts.into_iter().map(|(part, n)| (vec![("part", part.to_owned())], n as f64)).collect()
        }),
    ),
    family(
        "weir_buffer_used_bytes",
        "Bytes in use, as workers see it",
        Gauges(|s| {
            let parts = |part: &str, bytes: u64| (vec![("part", part.to_owned())], bytes as f64);
            let seen = pools(s, &[("shared", |l| l.shared_used), ("headroom", |l| l.headroom_used)]);
            let own = [
                parts("control", s.snapshot.total(|l| l.control_used)),
                parts("mirrors", s.snapshot.total(|l| l.mirror_used)),
            ];
            seen.into_iter().chain(own).collect()
        }),
    ),
    family(
        "weir_buffer_peak_bytes",
        "Most bytes in use since start",
        Gauges(|s| pools(s, &[("shared", |l| l.shared_peak), ("headroom", |l| l.headroom_peak)])),
    ),
    family(
        "weir_priority_rx_packets",
        "Data frames received, by priority",
        Counts(|s| lanes(s, |p, i| p.stats.rx_priority_packets[i])),
    ),
    family(
        "weir_priority_rx_bytes",
        "Bytes received, without FCS, by priority",
        Counts(|s| lanes(s, |p, i| p.stats.rx_priority_bytes[i])),
    ),
    family(
        "weir_port_pfc_rx_packets",
        "PFC frames received",
        Counts(|s| per_port(s, |p| p.gauges.pfc_rx_frames)),
    ),
    family(
        "weir_port_pfc_tx_packets",
        "PFC frames sent",
        Counts(|s| per_port(s, |p| p.gauges.pfc_tx_frames)),
    ),
    family(
        "weir_pfc_frames",
        "Priorities paused or resumed by PFC frames; rx: by the peer, tx: by us",
        Counts(|s| {
            let kinds: [(&str, &str, Lane); 4] = [
                ("rx", "xoff", |p, i| p.gauges.pfc_rx_xoff[i]),
                ("rx", "xon", |p, i| p.gauges.pfc_rx_xon[i]),
                ("tx", "xoff", |p, i| p.gauges.pfc_tx_xoff[i]),
                ("tx", "xon", |p, i| p.gauges.pfc_tx_xon[i]),
            ];
            let one = |(direction, kind, get): (&str, &str, Lane)| {
                extended(lanes(s, get), &[("direction", direction), ("kind", kind)])
            };
            kinds.into_iter().flat_map(one).collect()
        }),
    ),
    family(
        "weir_pfc_paused_seconds",
        "Time paused; rx: the peer paused us, tx: we paused the peer",
        Counters(|s| {
            both(s, |p, i| p.gauges.rx_paused_ns[i], |p, i| p.gauges.tx_paused_ns[i])
                .into_iter()
                .map(|(labels, ns)| (labels, ns as f64 / 1e9))
                .collect()
        }),
    ),
    family(
        "weir_pfc_transitions",
        "Times a pause began; rx: the peer paused us, tx: we paused the peer",
        Counts(|s| both(s, |p, i| p.gauges.rx_pauses[i], |p, i| p.gauges.tx_pauses[i])),
    ),
    family(
        "weir_pfc_xoff",
        "1 while the peer is told to pause",
        Gauges(|s| gauges(s, |p, i| p.gauges.xoff_priorities >> i & 1)),
    ),
    family(
        "weir_pfc_storms",
        "Storms the watchdog has seen begin",
        Counts(|s| lanes(s, |p, q| p.gauges.storms_detected[q])),
    ),
    family(
        "weir_pfc_storms_restored",
        "Storms the watchdog has seen end",
        Counts(|s| lanes(s, |p, q| p.gauges.storms_restored[q])),
    ),
    family(
        "weir_pfc_storm",
        "1 while the watchdog sees a storm",
        Gauges(|s| gauges(s, |p, q| p.gauges.stormed_queues >> q & 1)),
    ),
    family(
        "weir_ecn_selected_packets",
        "Frames the marking law selected to be marked, markable or not; drops by WRED are weir_drops_total of egress.wred",
        Counts(|s| lanes(s, |p, q| p.stats.ecn_selected[q])),
    ),
    family(
        "weir_ecn_marked_packets",
        "Frames changed to CE here",
        Counts(|s| lanes(s, |p, q| p.stats.ecn_marked[q])),
    ),
    family(
        "weir_ecn_marked_bytes",
        "Bytes of frames changed to CE here",
        Counts(|s| lanes(s, |p, q| p.stats.ecn_marked_bytes[q])),
    ),
    family(
        "weir_ecn_no_memory_packets",
        "Frames selected that stayed unmarked for lack of memory for a private copy",
        Counts(|s| lanes(s, |p, q| p.stats.ecn_no_memory[q])),
    ),
    family(
        "weir_ecn_seen_ce_packets",
        "Frames that were CE already when they left",
        Counts(|s| lanes(s, |p, q| p.stats.ecn_seen_ce[q])),
    ),
    family(
        "weir_ecn_threshold_bytes",
        "Where marking begins (kmin) and is certain (kmax)",
        Gauges(|s| {
            let kmin = known(s, |info, q| info.marking[q].map(|m| m.kmin as f64));
            let kmax = known(s, |info, q| info.marking[q].map(|m| m.kmax as f64));
            let mut all = extended(kmin, &[("bound", "kmin")]);
            all.extend(extended(kmax, &[("bound", "kmax")]));
            all
        }),
    ),
    family(
        "weir_drops",
        "Frames lost, by stage and reason",
        Counts(|s| {
            let one = |(labels, _, p): (Labels, &PortInfo, &PortReading)| {
                by_reason(&labels, &p.stats.drops, |_| true)
            };
            ports(s).flat_map(one).collect()
        }),
    ),
    family(
        "weir_port_lldp_rx_packets",
        "LLDP frames received and given to management",
        Counts(|s| per_port(s, |p| p.stats.rx_lldp)),
    ),
    family("weir_port_lldp_tx_packets", "LLDP frames sent", Counts(|s| per_port(s, |p| p.stats.tx_lldp))),
    family(
        "weir_port_lacp_rx_packets",
        "Frames of LACP and other slow protocols received and given to management",
        Counts(|s| per_port(s, |p| p.stats.rx_lacp)),
    ),
    family("weir_port_lacp_tx_packets", "LACP frames sent", Counts(|s| per_port(s, |p| p.stats.tx_lacp))),
    family(
        "weir_port_lacp_discarded_packets",
        "Frames of slow protocols thrown away by management, by reason",
        Counts(|s| {
            let reasons = |(labels, member): (Labels, &MemberReading)| {
                let counters = &member.counters;
                let all = [("malformed", counters.malformed), ("unknown", counters.unknown)];
                all.map(|(reason, frames)| (extend(&labels, &[("reason", reason.to_owned())]), frames))
            };
            lacp(s).flat_map(reasons).collect()
        }),
    ),
    family(
        "weir_port_lacp_refused_packets",
        "LACP frames that could not be sent when they were due",
        Counts(|s| lacp(s).map(|(labels, member)| (labels, member.counters.not_sent)).collect()),
    ),
    family(
        "weir_port_mcast_rx_packets",
        "Frames of IGMP, MLD and PIM received in VLANs that are snooped and taken, by kind",
        Counts(|s| {
            let kinds = |(labels, counters): (Labels, &McastCounters)| {
                let McastCounters { queries, reports, hellos, other, .. } = *counters;
                let all = [("query", queries), ("report", reports), ("pim_hello", hellos), ("other", other)];
                all.map(|(kind, frames)| (extend(&labels, &[("kind", kind.to_owned())]), frames))
            };
            mcast_ports(s).flat_map(kinds).collect()
        }),
    ),
    family(
        "weir_port_mcast_discarded_packets",
        "Frames of IGMP, MLD and PIM of which nothing was made, by reason; all were forwarded",
        Counts(|s| {
            let reasons = |(labels, counters): (Labels, &McastCounters)| {
                let malformed = Malformed::ALL.map(|why| (why.word(), counters.malformed[why as usize]));
                malformed.map(|(reason, frames)| (extend(&labels, &[("reason", reason.to_owned())]), frames))
            };
            mcast_ports(s).flat_map(reasons).collect()
        }),
    ),
    family(
        "weir_port_mcast_read_packets",
        "Frames of IGMP, MLD and PIM received in VLANs that are snooped, and given to management, too",
        Counts(|s| per_port(s, |p| p.stats.rx_igmp)),
    ),
    family(
        "weir_port_mcast_unread_packets",
        "The same that came faster than management reads them; they were forwarded",
        Counts(|s| per_port(s, |p| p.stats.igmp_unread)),
    ),
    family(
        "weir_port_mcast_tx_packets",
        "Queries of IGMP and MLD sent by the switch itself",
        Counts(|s| per_port(s, |p| p.stats.tx_igmp)),
    ),
    family(
        "weir_port_mcast_not_sent_packets",
        "Queries that could not be sent when they were due",
        Counts(|s| mcast_ports(s).map(|(labels, counters)| (labels, counters.not_sent)).collect()),
    ),
    family(
        "weir_port_mcast_refused_groups",
        "Groups that hosts wanted to join, and for which there was no room",
        Counts(|s| mcast_ports(s).map(|(labels, counters)| (labels, counters.refused)).collect()),
    ),
    family(
        "weir_port_mcast_flooded_groups",
        "Groups that hosts joined whose frames are flooded anyway",
        Counts(|s| mcast_ports(s).map(|(labels, counters)| (labels, counters.for_all)).collect()),
    ),
    family(
        "weir_mcast_groups",
        "Groups that hosts have joined, in VLANs that are snooped",
        Gauges(|s| mcast_vlans(s, |vlan| vlan.groups.len() as f64)),
    ),
    family(
        "weir_mcast_narrowed",
        "Groups go to their members, and what nobody has joined to routers; else all are flooded",
        Gauges(|s| mcast_vlans(s, |vlan| f64::from(vlan.narrows))),
    ),
    family(
        "weir_mcast_router_ports",
        "Ports where routers are",
        Gauges(|s| mcast_vlans(s, |vlan| vlan.routers.len() as f64)),
    ),
    family(
        "weir_lag_member_collecting",
        "LACP has the member take frames",
        Gauges(|s| {
            let takes = |member: &MemberReading| f64::from(member.mux >= Mux::Collecting);
            lacp(s).map(|(labels, member)| (labels, takes(member))).collect()
        }),
    ),
    family(
        "weir_lag_member_distributing",
        "LACP has the member send frames",
        Gauges(|s| {
            let sends = |member: &MemberReading| f64::from(member.mux == Mux::Distributing);
            lacp(s).map(|(labels, member)| (labels, sends(member))).collect()
        }),
    ),
    family(
        "weir_port_lldp_discarded_packets",
        "LLDP frames thrown away by management, by reason",
        Counts(|s| {
            let reasons = |(labels, known): (Labels, &PortNeighbours)| {
                let LldpCounters { malformed, too_many, .. } = known.counters;
                let all = [("malformed", malformed), ("too_many_neighbours", too_many)];
                all.map(|(reason, frames)| (extend(&labels, &[("reason", reason.to_owned())]), frames))
            };
            lldp(s).flat_map(reasons).collect()
        }),
    ),
    family(
        "weir_port_lldp_discarded_tlvs",
        "TLVs thrown away, of LLDP frames that were taken",
        Counts(|s| lldp(s).map(|(labels, known)| (labels, known.counters.tlvs_discarded)).collect()),
    ),
    family(
        "weir_port_lldp_refused_packets",
        "LLDP frames that could not be sent when they were due",
        Counts(|s| lldp(s).map(|(labels, known)| (labels, known.counters.not_sent)).collect()),
    ),
    family(
        "weir_port_lldp_neighbours",
        "Stations that LLDP knows at the other end of the link",
        Gauges(|s| lldp(s).map(|(labels, known)| (labels, known.neighbours.len() as f64)).collect()),
    ),
    family(
        "weir_port_lldp_mismatches",
        "Neighbours whose PFC, ETS or frame size does not fit ours",
        Gauges(|s| {
            let reading = &s.snapshot.now.lldp;
            let ports = lldp(s).zip(&reading.settings.ports);
            let all = ports.flat_map(|((labels, known), settings)| {
                let fits = |n: &Neighbour| Differences::between(&settings.says, &n.says);
                let all: Vec<_> = known.neighbours.iter().map(fits).collect();
                let count = |what: &str, differs: fn(&Differences) -> bool| {
                    let labels = extend(&labels, &[("what", what.to_owned())]);
                    (labels, all.iter().filter(|one| differs(one)).count() as f64)
                };
                [
                    count("pfc", |d| d.pfc != 0),
                    count("ets", |d| d.ets != 0),
                    count("frame_size", |d| d.frame_size),
                ]
            });
            all.collect()
        }),
    ),
    family(
        "weir_port_recorded_packets",
        "Frames received or sent by a port that mirrors gave to files",
        Counts(|s| per_port(s, |p| p.stats.recorded)),
    ),
    family(
        "weir_mirror_file_packets",
        "Frames of mirrors written to files",
        Counts(|s| mirror_files(s, |f| f.frames)),
    ),
    family("weir_mirror_file_bytes", "Bytes of these files", Counts(|s| mirror_files(s, |f| f.bytes))),
    family("weir_mirror_files", "Files begun", Counts(|s| mirror_files(s, |f| f.files))),
    family(
        "weir_mirror_file_lost_packets",
        "Frames of mirrors that could not be written to files",
        Counts(|s| mirror_files(s, |f| f.lost)),
    ),
    family(
        "weir_tls_certificate_not_after_seconds",
        "When the certificate that is presented expires, seconds since 1970",
        Gauges(|s| {
            s.snapshot.credentials.validity.iter().map(|v| (Labels::new(), v.not_after as f64)).collect()
        }),
    ),
    family(
        "weir_flow_export_messages",
        "IPFIX messages with flows given to the network",
        Counts(|s| export(s, |e| e.messages)),
    ),
    family("weir_flow_export_records", "Data records in them", Counts(|s| export(s, |e| e.records))),
    family(
        "weir_flow_export_failed_messages",
        "IPFIX messages that could not be sent",
        Counts(|s| export(s, |e| e.failed)),
    ),
    family("weir_flow_export_lost_records", "Data records in these", Counts(|s| export(s, |e| e.lost))),
    family(
        "weir_flow_export_missed_seconds",
        "Seconds of flows that passed before management looked",
        Counts(|s| export(s, |e| e.missed_seconds)),
    ),
    family(
        "weir_lossless_drops_packets",
        "Frames of lossless classes received and not delivered, but for those of the watchdog and of the operator: an alarm",
        Counts(|s| {
            let one = |(labels, _, p): (Labels, &PortInfo, &PortReading)| {
                by_reason(&labels, &p.stats.lossless, |reason| reason.lossless() == LosslessLoss::Alarm)
            };
            ports(s).flat_map(one).collect()
        }),
    ),
    family(
        "weir_lossless_drops_watchdog_packets",
        "Frames of lossless classes that the watchdog dropped, as it was told to",
        Counts(|s| per_port(s, |p| p.stats.lossless_drops_watchdog())),
    ),
    family(
        "weir_lossless_drops_operator_packets",
        "Frames of lossless classes lost because a port was switched off or the run ended",
        Counts(|s| per_port(s, |p| p.stats.lossless_drops_operator())),
    ),
    family(
        "weir_lossless_drops_possible_packets",
        "Frames that the driver lost on a port with lossless classes: no class is known of them",
        Counts(|s| {
            ports(s).enumerate().map(|(i, (labels, ..))| (labels, s.snapshot.possible_at(i))).collect()
        }),
    ),
    family(
        "weir_conservation_error_packets",
        "Accounting error, frames; not 0: weir has lost count",
        Gauges(|s| vec![(vec![], s.snapshot.conservation_error() as f64)]),
    ),
    family("weir_held_packets", "Frames queued or staged", Gauges(|s| workers_f(s, |l| l.held))),
    family(
        "weir_residence_seconds",
        "Time from reception to the driver taking the frame; sum from bucket middles",
        Histograms(|s, each| {
            for (labels, _, p) in ports(s) {
                for (q, times) in p.latency.iter().enumerate() {
                    each(with(&labels, "priority", q), &times.part(Part::Residence))?;
                }
            }
            Ok(())
        }),
    ),
    family(
        "weir_queueing_seconds",
        "The part of the residence no pause is to blame for; queues that have sent; sum from bucket middles",
        Histograms(|s, each| part(s, Part::Queueing, each)),
    ),
    family(
        "weir_pause_seconds",
        "The part of the residence in which a received pause held the queue; queues that have sent; sum from bucket middles",
        Histograms(|s, each| part(s, Part::Pause, each)),
    ),
    family(
        "weir_pause_wait_seconds",
        "Sum of all pause parts, exact to the nanosecond",
        Counters(|s| {
            let one = |(labels, _, p): (Labels, &PortInfo, &PortReading)| {
                let by_queue = p.latency.iter().enumerate();
                by_queue
                    .map(|(q, t)| (with(&labels, "priority", q), t.pause_ns as f64 / 1e9))
                    .collect::<Vec<_>>()
            };
            ports(s).flat_map(one).collect()
        }),
    ),
    family("weir_lcore_turns", "Turns of the polling loop", Counts(|s| workers(s, |l| l.turns))),
    family("weir_lcore_busy_turns", "Turns that moved a frame", Counts(|s| workers(s, |l| l.busy_turns))),
    family(
        "weir_lcore_busy_seconds",
        "Time in turns that moved a frame",
        Counters(|s| {
            workers(s, |l| l.busy_ns).into_iter().map(|(labels, ns)| (labels, ns as f64 / 1e9)).collect()
        }),
    ),
    family(
        "weir_lcore_off_core_seconds",
        "Time for which the thread of a worker could run and its core did something else",
        Counters(|s| {
            let known = s.snapshot.now.off_core.iter().enumerate();
            known.filter_map(|(i, off)| Some((lcore(s, i), (*off)?.ns as f64 / 1e9))).collect()
        }),
    ),
    family(
        "weir_lcore_longest_turn_seconds",
        "Longest turn since start: the poll gap headroom has to cover",
        Gauges(|s| {
            workers_f(s, |l| l.longest_turn_ns).into_iter().map(|(labels, ns)| (labels, ns / 1e9)).collect()
        }),
    ),
    family(
        "weir_lcore_turn_seconds",
        "Lengths of turns; sum from bucket middles",
        Histograms(|s, each| {
            s.snapshot.now.loops.iter().enumerate().try_for_each(|(i, l)| each(lcore(s, i), &l.turn))
        }),
    ),
    family(
        "weir_lcore_stage_seconds",
        "Time of each stage in the turns that are timed: one of 128, if it moved a frame",
        Counters(|s| {
            let each = s.snapshot.now.loops.iter().enumerate();
            each.flat_map(|(i, l)| {
                Stage::ALL.map(|stage| {
                    let name = ("stage", stage.name().to_owned());
                    let labels = lcore(s, i).into_iter().chain([name]).collect();
                    (labels, l.stage_ns[stage as usize] as f64 / 1e9)
                })
            })
            .collect()
        }),
    ),
    family(
        "weir_lcore_timed_packets",
        "Frames of the turns that are timed",
        Counts(|s| {
            let mut all = extended(workers(s, |l| l.timed_received), &[("direction", "rx")]);
            all.extend(extended(workers(s, |l| l.timed_sent), &[("direction", "tx")]));
            all
        }),
    ),
    family("weir_fdb_entries", "Entries of a worker's table", Gauges(|s| workers_f(s, |l| l.fdb_entries))),
    family("weir_fdb_learned", "Addresses learned", Counts(|s| workers(s, |l| l.fdb_learned))),
    family(
        "weir_fdb_moved",
        "Addresses that appeared on another port than before",
        Counts(|s| workers(s, |l| l.fdb_moved)),
    ),
    family(
        "weir_fdb_aged",
        "Entries that aged out or went with their port",
        Counts(|s| workers(s, |l| l.fdb_aged)),
    ),
    family(
        "weir_fdb_refused",
        "Addresses not learned for want of room",
        Counts(|s| workers(s, |l| l.fdb_refused)),
    ),
    family(
        "weir_port_carried_bytes",
        "Bytes queued for a port, by the port they came in on",
        Counts(|s| {
            let name =
                |from: usize| s.snapshot.info.ports.get(from).map_or(String::new(), |p| p.name.clone());
            let one = |(labels, _, p): (Labels, &PortInfo, &PortReading)| {
                let some = p.carried.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
                some.map(|(from, bytes)| {
                    let labels = labels.iter().cloned().chain([("from", name(from))]).collect();
                    (labels, *bytes)
                })
                .collect::<Vec<_>>()
            };
            ports(s).flat_map(one).collect()
        }),
    ),
    family("weir_inc_jobs", "Jobs of an engine", Gauges(|s| engines(s, |e| e.jobs.len() as f64))),
    family("weir_inc_memory_bytes", "Bytes its jobs take", Gauges(|s| engines(s, |e| e.memory as f64))),
    family(
        "weir_inc_rx_packets",
        "Frames an engine was handed",
        Counts(|s| engines(s, |e| e.counters.received)),
    ),
    family("weir_inc_tx_packets", "Frames an engine has sent", Counts(|s| engines(s, |e| e.counters.sent))),
    family(
        "weir_inc_drops_packets",
        "Frames an engine has not used, by reason",
        Counts(|s| {
            let of = |(labels, drops): (Labels, [u64; Drop::ALL.len()])| {
                let one = |(reason, n)| (extend(&labels, &[("reason", Drop::name(reason).to_owned())]), n);
                Drop::ALL.into_iter().zip(drops).map(one).collect::<Vec<_>>()
            };
            engines(s, |e| e.counters.drops).into_iter().flat_map(of).collect()
        }),
    ),
    family("weir_inc_sums_packets", "Packets folded", Counts(|s| jobs(s, |j| j.counters.folded))),
    family("weir_inc_sums_bytes", "Payload bytes folded", Counts(|s| jobs(s, |j| j.counters.folded_bytes))),
    family(
        "weir_inc_partial_packets",
        "Packets that went out without a child",
        Counts(|s| jobs(s, |j| j.counters.partial)),
    ),
    family(
        "weir_inc_open_packets",
        "Packets that wait for a child",
        Gauges(|s| jobs(s, |j| j.open.0 as f64)),
    ),
    family(
        "weir_inc_waiting_seconds",
        "How long the oldest open packet has waited",
        Gauges(|s| jobs(s, |j| j.waiting.unwrap_or(0) as f64 / 1e9)),
    ),
    family(
        "weir_inc_failed",
        "1 if the job has failed",
        Gauges(|s| jobs(s, |j| f64::from(j.state != State::Running))),
    ),
    family(
        "weir_inc_lag_seconds",
        "How far a rank is behind the first to contribute, moving average",
        Gauges(|s| ranks(s, |p| p.lag.0 as f64 / 1e9)),
    ),
    family(
        "weir_inc_lag_peak_seconds",
        "The most a rank was behind",
        Gauges(|s| ranks(s, |p| p.lag.1 as f64 / 1e9)),
    ),
    family(
        "weir_inc_rnr",
        "Times a rank was told to wait (tx), or asked to wait (rx)",
        Counts(|s| {
            let mut all = extended(ranks(s, |p| p.counters.rnr_sent), &[("direction", "tx")]);
            all.extend(extended(ranks(s, |p| p.counters.rnr_received), &[("direction", "rx")]));
            all
        }),
    ),
    family(
        "weir_inc_retransmitted_packets",
        "Packets sent to a rank again",
        Counts(|s| ranks(s, |p| p.counters.retransmitted)),
    ),
    family(
        "weir_inc_timeouts",
        "Times a rank acknowledged nothing in time",
        Counts(|s| ranks(s, |p| p.counters.timeouts)),
    ),
    family("weir_inc_gaps", "Gaps in what a rank sent", Counts(|s| ranks(s, |p| p.counters.gaps))),
    family(
        "weir_poll_gap_planned_seconds",
        "Longest gap between two polls the headroom is planned for",
        Gauges(|s| vec![(vec![], s.snapshot.info.poll_gap as f64 / 1e9)]),
    ),
    family(
        "weir_http_requests",
        "Answers of the management thread, by status code",
        Counts(|s| s.own.answers.iter().map(|(code, n)| (vec![("code", code.to_string())], *n)).collect()),
    ),
    family(
        "weir_http_refused_connections",
        "Connections refused for want of room",
        Counts(|s| vec![(vec![], s.own.refused)]),
    ),
    family(
        "weir_http_malformed_requests",
        "Requests that were not HTTP",
        Counts(|s| vec![(vec![], s.own.malformed)]),
    ),
    family(
        "weir_http_slow_connections",
        "Connections closed because the client was too slow",
        Counts(|s| vec![(vec![], s.own.slow)]),
    ),
];
