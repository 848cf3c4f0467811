//! RoCEv2 hosts of a lab.

use super::hosts::{ACK_TIMEOUT, Flow, Manners, Marks, SLACK, SLOWER, address, flows, in_flight, link_rate};
use crate::host::{SETTLE, rate_control};
use anyhow::{Context, Result};
use weir_config::host::HostDcqcn;
use weir_config::{Config, CongestionControl, LabFlow};
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::hca::FIRST_QPN;
use weir_endpoint::roce::qp::TrafficClass;
use weir_endpoint::roce::wire::Qpn;
use weir_endpoint::station::Station;
use weir_endpoint::station::roce::{
    self, Operation, PairConfig, Peer, Rate, Remote, SLOTS, StationConfig, Stream,
};

/// Ethernet, IPv4, UDP, BTH and ICRC: what a packet of a SEND has around its payload, and a tag more.
const HEADERS: u16 = 58;
const TAG: u16 = 4;

/// Makes one host per port, and both ends of every flow.
///
/// # Errors
/// A flow that no host can send.
pub fn make(config: &Config, manners: Manners) -> Result<(Vec<Station>, Vec<Flow>)> {
    let station = |port: usize| {
        let (mac, ip) = address(port);
        roce::Station::new(StationConfig {
            mac,
            ip: ip.into(),
            rate: link_rate(config, port),
            obey: if manners.deaf { 0 } else { config.ports[port].pfc.enable },
            slack: SLACK,
            settle: SETTLE,
            first_qpn: FIRST_QPN,
        })
    };
    let mut stations: Vec<roce::Station> = (0..config.ports.len()).map(station).collect();
    let all = flows(config);
    let mut taken = vec![0; stations.len()];
    let mut made = Vec::new();
    for (i, flow) in all.iter().enumerate() {
        let ends = [flow.from.index(), flow.to.index()];
        let qpns = ends.map(|port| {
            taken[port] += 1;
            FIRST_QPN + taken[port] - 1
        });
        let beside = all.iter().filter(|other| other.from == flow.from).count() as u64;
        let (class, pairs) = pairs(config, flow, beside, qpns, manners);
        for (port, pair) in ends.into_iter().zip(pairs) {
            stations[port].add(pair).with_context(|| format!("flow {} of the lab", i + 1))?;
        }
        made.push(Flow { from: ends[0], to: ends[1], class, qpns });
    }
    Ok((stations.into_iter().map(Station::from).collect(), made))
}

/// Both ends of a flow that shares its sender with `beside` flows, itself among them, and its class.
fn pairs(
    config: &Config,
    flow: &LabFlow,
    beside: u64,
    qpns: [u32; 2],
    manners: Manners,
) -> (u8, [PairConfig; 2]) {
    let (from, to) = (flow.from.index(), flow.to.index());
    let maps = &config.ports[from].maps;
    let marks = Marks { pcp: flow.vlan.map(|_| flow.pcp.unwrap_or(0)), dscp: Some(flow.dscp), tc: None };
    let class = marks.class_at(&config.ports[from]);
    // What a host calls its priority is what stands in its tag, if there is one.
    let priority = flow.vlan.and(flow.pcp).unwrap_or(class);
    let room = flow.frame_bytes - HEADERS - if flow.vlan.is_some() { TAG } else { 0 };
    let mtu = [4096, 2048, 1024, 512].into_iter().find(|mtu| *mtu <= room).unwrap_or(256);
    let link = link_rate(config, from);
    let rate = flow.rate.map_or(link, |rate| rate.clamp(1, link));
    // Whole packets, and at least four of them.
    let packets = (in_flight(link) / SLOTS / beside / u64::from(mtu)).max(4);
    let bytes = packets as u32 * u32::from(mtu);
    let parameters = if manners.back_off() { config.lab.dcqcn } else { CongestionControl::Off };
    let end = |peer: usize, qpn: u32, nth: u32| PairConfig {
        peer: Peer { ip: address(peer).1.into(), mac: None, qpn: Qpn(qpn) },
        send_psn: Psn::default(),
        recv_psn: Psn::default(),
        vlan: flow.vlan,
        data: TrafficClass::of_data(flow.dscp, priority),
        cnp: TrafficClass::of_cnps(48, if flow.vlan.is_some() { 6 } else { maps.dscp_to_tc[48] }),
        mtu,
        window: 1 << 14,
        ack_timeout: ACK_TIMEOUT,
        retries: u8::MAX,
        cnp_interval: 50_000 * SLOWER,
        rate: Rate::Fixed(link),
        receive_bytes: 0,
        memory: Remote::of_pair(nth),
        verify: true,
        expect: None,
        stream: None,
        trace: false,
    };
    let stream = Stream { operation: Operation::Send, bytes, messages: None, start: 0 };
    let control = slower(rate_control(&HostDcqcn::of(parameters), rate));
    let sender = PairConfig {
        stream: Some(stream),
        rate: control,
        trace: manners.trace,
        ..end(to, qpns[1], qpns[0] - FIRST_QPN)
    };
    (class, [sender, PairConfig { receive_bytes: bytes, ..end(from, qpns[0], qpns[1] - FIRST_QPN) }])
}

/// See [`SLOWER`].
fn slower(rate: Rate) -> Rate {
    let Rate::Dcqcn(mut dcqcn) = rate else { return rate };
    let params = &mut dcqcn.params;
    for period in [&mut params.alpha_period, &mut params.cut_period, &mut params.increase_period] {
        *period *= SLOWER;
    }
    for step in [&mut params.additive, &mut params.hyper] {
        *step = step.saturating_mul(SLOWER).min(params.max_rate);
    }
    dcqcn.outstanding.restore_after *= SLOWER;
    Rate::Dcqcn(dcqcn)
}
