//! RC Link hosts from their file.

use super::build::place;
use anyhow::{Context, Result};
use std::net::{IpAddr, Ipv4Addr};
use weir_config::host::{
    HostBackoff, HostConfig, HostPort, HostRcLink, HostRcQp, RcClass, RcFlowControl, RcFormat, RcOctets,
    RcType, RcWindow,
};
use weir_dataplane::parse::Variant;
use weir_endpoint::congestion::backoff::BackoffParams;
use weir_endpoint::rclink::Reliability;
use weir_endpoint::rclink::cbfc::CreditConfig;
use weir_endpoint::rclink::cc_window::Window;
use weir_endpoint::rclink::class::{Class, ClassMap};
use weir_endpoint::rclink::endpoint::{EndpointConfig, FlowControl};
use weir_endpoint::rclink::frame::{self, Codec, Format};
use weir_endpoint::rclink::watermark::PauseWatermarks;
use weir_endpoint::station::Station;
use weir_endpoint::station::rclink::{self, PairConfig, Route, StationConfig, Stream};

/// Raises from nothing to the full rate, and how far below it a cut may go at most.
const STEPS: u64 = 100;

/// One station per port, `rates[i]` being the rate of port i in bits/s.
pub fn stations(config: &HostConfig, link: &HostRcLink, rates: &[u64]) -> Result<Vec<Station>> {
    let station = |(port, rate): (&HostPort, &u64)| {
        rclink::Station::new(StationConfig {
            endpoint: endpoint_config(link, port, *rate),
            slack: config.slack,
            read_rate: link.read_rate,
        })
    };
    let mut stations = config.ports.iter().zip(rates).map(station).collect::<Result<Vec<_>, _>>()?;
    for (i, qp) in link.qps.iter().enumerate() {
        let pair = pair(qp, link.backoff, rates[qp.port]);
        stations[qp.port].add(pair).with_context(|| place(i))?;
    }
    Ok(stations.into_iter().map(Station::from).collect())
}

fn endpoint_config(link: &HostRcLink, port: &HostPort, rate: u64) -> EndpointConfig {
    let variant = match link.octets {
        RcOctets::Public => Variant::Public,
        RcOctets::RcLink => Variant::RcLink,
    };
    let format = match link.format {
        RcFormat::Standard => Format::Standard,
        RcFormat::AfhGen1 => Format::AfhGen1,
        RcFormat::AfhGen2 => Format::AfhGen2(variant),
        RcFormat::AfhLite => Format::AfhLite(variant),
    };
    let flow_control = match link.flow_control {
        RcFlowControl::Pfc => FlowControl::Pfc { priorities: port.port.pfc.enable },
        RcFlowControl::Cbfc => {
            let credits = CreditConfig {
                size: link.credit_bytes,
                overhead: 4,
                limit: link.credits,
                report_every: link.credit_report,
            };
            FlowControl::Cbfc { credits, interval: link.credit_interval }
        }
    };
    let p = &link.priorities;
    let marks = PauseWatermarks::unicast(rate, link.round_trip);
    EndpointConfig {
        codec: Codec { format, crc: link.crc, udp_checksum: link.udp_checksum },
        station: frame::Station { mac: port.mac, ip: v4(port.ip) },
        vlan: link.vlan,
        classes: ClassMap {
            raw: p.raw,
            multicast: p.multicast,
            response: p.response,
            request: p.request,
            ack: p.ack,
            cnp: p.cnp,
        },
        flow_control,
        rate,
        request: marks,
        response: marks,
        multicast: PauseWatermarks::multicast(rate, link.round_trip),
        cnp_merge: link.cnp_merge,
        ecn: link.ecn,
        retransmit: link.reliable,
    }
}

/// Formats with IP have IPv4, as their file was told.
fn v4(ip: IpAddr) -> Ipv4Addr {
    match ip {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

fn pair(qp: &HostRcQp, backoff: Option<HostBackoff>, link: u64) -> PairConfig {
    let rate = qp.rate.unwrap_or(link).min(link);
    let class = match qp.class {
        RcClass::Request0 => Class::Request(0),
        RcClass::Request1 => Class::Request(1),
        RcClass::Request2 => Class::Request(2),
        RcClass::Request3 => Class::Request(3),
        RcClass::Response => Class::Response,
    };
    let stream =
        |s: weir_config::host::HostRcStream| Stream { bytes: s.bytes, messages: s.messages, start: s.start };
    let pair = PairConfig {
        peer: frame::Station { mac: qp.peer_mac, ip: qp.peer_ip },
        route: match qp.kind {
            RcType::Type1 => Route::Qp { peer_qp: qp.peer_qp, class },
            RcType::Type2 => Route::Multicast,
            RcType::Type3 => Route::Raw,
        },
        pkey: qp.pkey,
        reliability: Reliability {
            window: qp.window,
            ack_every: qp.ack_every,
            ack_timeout: qp.ack_timeout,
            retries: Some(qp.retries),
        },
        window: match qp.cc_window {
            RcWindow::Us4 => Window::Us4,
            RcWindow::Us8 => Window::Us8,
            RcWindow::Us16 => Window::Us16,
            RcWindow::Us32 => Window::Us32,
            RcWindow::Us65 => Window::Us65,
        },
        rate,
        backoff: None,
        expect: qp.expect,
        stream: qp.stream.map(stream),
    };
    let params = |b: HostBackoff| back_off(&pair, b.cut_period, b.raise_period, b.raise, b.min_rate);
    PairConfig { backoff: backoff.map(params), ..pair }
}

/// The back-off of a connection: periods in ns, rates in bits/s, a share of that of the connection unless given.
pub fn back_off(
    pair: &PairConfig,
    cut_period: u64,
    raise_period: u64,
    raise: Option<u64>,
    min_rate: Option<u64>,
) -> BackoffParams {
    let bytes = |rate: Option<u64>| {
        u64::from(PairConfig { rate: rate.unwrap_or(pair.rate / STEPS).min(pair.rate), ..*pair }.threshold())
    };
    BackoffParams { least: bytes(min_rate), cut_period, raise_period, raise: bytes(raise) }
}
