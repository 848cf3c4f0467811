//! From the file of a host to stations.

use super::rclink;
use anyhow::{Context, Result};
use weir_config::host::{HostConfig, HostDcqcn, HostPort, HostQp, HostRank, HostStream, HostTraffic};
use weir_config::{self as config, CongestionControl, DcqcnScheme, HostOperation};
use weir_dataplane::types::Nanos;
use weir_endpoint::dcqcn::firmware::{Dcqcn, FirmwareAlgorithm};
use weir_endpoint::dcqcn::reaction_point::Params;
use weir_endpoint::dcqcn::scheme::{Outstanding, Scheme};
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::qp::TrafficClass;
use weir_endpoint::roce::wire::Qpn;
use weir_endpoint::station::Station;
use weir_endpoint::station::roce::{
    self, Operation, PairConfig, Peer, Rate, Remote, Results, SLOTS, StationConfig, Stream,
};
use weir_inc::reference::Reference;
use weir_inc::remote::Memory;

/// From the answer of a peer to the first message to it: a switch looks at its links every 20 ms, and drops
/// what goes to one that is down.
pub const SETTLE: Nanos = 100_000_000;

/// One station per port, `rates[i]` being the rate of port i in bits/s.
///
/// # Errors
/// A connection that cannot be, by its place in the file.
pub fn stations(config: &HostConfig, rates: &[u64], trace: bool) -> Result<Vec<Station>> {
    match &config.traffic {
        HostTraffic::Roce { dcqcn, qps } => roce_stations(config, dcqcn, qps, rates, trace),
        HostTraffic::RcLink(link) => rclink::stations(config, link, rates),
    }
}

/// What does not fit, by the place of the connection in the file.
pub fn place(nth: usize) -> String {
    format!("connection {} of the file", nth + 1)
}

fn roce_stations(
    config: &HostConfig,
    dcqcn: &HostDcqcn,
    qps: &[HostQp],
    rates: &[u64],
    trace: bool,
) -> Result<Vec<Station>> {
    let station = |(port, rate): (&HostPort, &u64)| {
        roce::Station::new(StationConfig {
            mac: port.mac,
            ip: port.ip,
            rate: *rate,
            obey: port.port.pfc.enable,
            slack: config.slack,
            settle: SETTLE,
            first_qpn: port.first_qpn,
        })
    };
    let mut stations: Vec<_> = config.ports.iter().zip(rates).map(station).collect();
    for (i, qp) in qps.iter().enumerate() {
        let first = config.ports[qp.port].first_qpn;
        let pair = pair(qp, dcqcn, rates[qp.port], first, trace);
        let station = &mut stations[qp.port];
        let added = match &qp.rank {
            Some(HostRank { fold, rank, tree, write: _, write_results }) => {
                let bytes = pair.stream.map_or(0, |stream| stream.bytes as usize);
                let reference = Reference::new(*fold, (*rank, tree.clone()), bytes);
                let results = if *write_results { Results::Written } else { Results::Sent };
                station.add_rank(pair, Box::new(reference), results)
            }
            None => station.add(pair),
        };
        added.with_context(|| place(i))?;
    }
    Ok(stations.into_iter().map(Station::from).collect())
}

fn pair(qp: &HostQp, dcqcn: &HostDcqcn, link: u64, first_qpn: u32, trace: bool) -> PairConfig {
    // Field by field, so that none is read from the file and then forgotten. The port was found by whoever asks.
    let HostQp {
        port: _,
        qpn: _,
        peer_ip: ip,
        peer_mac: mac,
        peer_qpn,
        send_psn,
        recv_psn,
        vlan,
        priority,
        dscp,
        cnp_priority,
        cnp_dscp,
        mtu,
        window,
        ack_timeout,
        retries,
        rate,
        receive: _,
        memory_address: _,
        memory_key: _,
        verify,
        expect,
        stream,
        ref rank,
    } = *qp;
    let write = rank.as_ref().is_some_and(|rank| rank.write);
    PairConfig {
        peer: Peer { ip, mac, qpn: Qpn(peer_qpn) },
        send_psn: Psn::new(send_psn),
        recv_psn: Psn::new(recv_psn),
        vlan,
        data: TrafficClass::of_data(dscp, priority),
        cnp: TrafficClass::of_cnps(cnp_dscp, cnp_priority),
        mtu,
        window,
        ack_timeout,
        retries,
        cnp_interval: dcqcn.cnp_interval,
        rate: rate_control(dcqcn, rate.unwrap_or(link).min(link)),
        receive_bytes: receive_bytes(qp),
        memory: memory(qp, first_qpn),
        verify,
        expect,
        stream: stream.map(|stream| messages(&stream, write, peer_qpn, first_qpn)),
        trace,
    }
}

/// Room for one message: what is written is whole packets.
fn receive_bytes(qp: &HostQp) -> u32 {
    match qp.rank.as_ref().is_some_and(|rank| rank.write_results) {
        true => qp.receive.next_multiple_of(qp.mtu.into()),
        false => qp.receive,
    }
}

/// Where messages are taken in, and under which key.
fn memory(qp: &HostQp, first_qpn: u32) -> Remote {
    let usual = Remote::of_pair(qp.qpn - first_qpn);
    Remote { va: qp.memory_address.unwrap_or(usual.va), rkey: qp.memory_key.unwrap_or(usual.rkey) }
}

/// Where sums are written to, if they are: what an engine has to be told.
pub fn results_to(qp: &HostQp, first_qpn: u32) -> Option<Memory> {
    let Remote { va: addr, rkey } = memory(qp, first_qpn);
    let rank = qp.rank.as_ref().filter(|rank| rank.write_results);
    rank.map(|_| Memory { addr, rkey, len: SLOTS * u64::from(receive_bytes(qp)) })
}

/// The memory of a weir host follows from the place of the connection there; it is taken to count its
/// connections from where we do. That of an engine is what its job says. `write`: of a rank, by WRITE.
fn messages(stream: &HostStream, write: bool, peer_qpn: u32, first_qpn: u32) -> Stream {
    let usual = match stream.operation {
        HostOperation::AllReduce => Remote { va: 0, rkey: 0 },
        HostOperation::Send | HostOperation::Write => Remote::of_pair(peer_qpn.saturating_sub(first_qpn)),
    };
    let va = stream.remote_address.unwrap_or(usual.va);
    let remote = Remote { va, rkey: stream.remote_key.unwrap_or(usual.rkey) };
    Stream {
        operation: match stream.operation {
            HostOperation::AllReduce if write => Operation::Write(remote),
            HostOperation::Send | HostOperation::AllReduce => Operation::Send,
            HostOperation::Write => Operation::Write(remote),
        },
        bytes: stream.bytes,
        messages: stream.messages,
        start: stream.start,
    }
}

/// The words of the file for what decides: scheme and firmware's algorithm.
pub fn words(dcqcn: &Dcqcn) -> (&'static str, &'static str) {
    let scheme = match dcqcn.scheme {
        Scheme::Hardware => DcqcnScheme::Hardware,
        Scheme::FirmwareRate => DcqcnScheme::FirmwareRate,
        Scheme::Firmware => DcqcnScheme::Firmware,
    };
    let algorithm = match dcqcn.firmware_algorithm {
        FirmwareAlgorithm::Dcqcn => config::FirmwareAlgorithm::Dcqcn,
        FirmwareAlgorithm::Backoff => config::FirmwareAlgorithm::Backoff,
    };
    (scheme.word(), algorithm.word())
}

/// Rate control of a connection that sends at most `rate` bits/s.
pub fn rate_control(dcqcn: &HostDcqcn, rate: u64) -> Rate {
    preset(dcqcn.parameters, rate).map_or(Rate::Fixed(rate), |of| Rate::Dcqcn(laid_over(dcqcn, of)))
}

/// The same for a connection that reacts to congestion as `held` says, by keys or by registers: what no key in `named` is
/// about stays. `parameters` is about all that a preset has.
pub fn changed(dcqcn: &HostDcqcn, named: &toml::Table, held: Option<&Dcqcn>, rate: u64) -> Rate {
    let (Some(held), Some(preset)) = (held, preset(dcqcn.parameters, rate)) else {
        return rate_control(dcqcn, rate);
    };
    let names = |key| named.contains_key(key);
    let mut new = laid_over(dcqcn, if names("parameters") { preset } else { held.params });
    if !names("scheme") {
        new.scheme = held.scheme;
    }
    if !names("firmware_algorithm") {
        new.firmware_algorithm = held.firmware_algorithm;
    }
    if !names("firmware_period") {
        new.firmware_period = held.firmware_period;
    }
    if !names("outstanding") {
        new.outstanding.normal = held.outstanding.normal;
    }
    if !names("outstanding_after_cnp") {
        new.outstanding.reduced = held.outstanding.reduced;
    }
    if !names("restore_after") {
        new.outstanding.restore_after = held.outstanding.restore_after;
    }
    Rate::Dcqcn(new)
}

/// What unset keys are; `None`: the rate is fixed.
fn preset(parameters: CongestionControl, rate: u64) -> Option<Params> {
    match parameters {
        CongestionControl::Off => None,
        CongestionControl::Paper => Some(Params::paper(rate)),
        CongestionControl::Connectx => Some(Params::connectx(rate)),
    }
}

fn laid_over(dcqcn: &HostDcqcn, of: Params) -> Dcqcn {
    // All of it, too. The preset is there already, and the interval is the receiver's.
    let HostDcqcn {
        parameters: _,
        scheme,
        firmware_algorithm,
        firmware_period,
        initial_rate,
        gain,
        initial_alpha,
        rate_shift,
        alpha_period,
        cut_period,
        increase_period,
        byte_threshold,
        stages,
        additive,
        hyper,
        min_left_percent,
        first_cnp_rate,
        min_rate,
        cnp_interval: _,
        outstanding,
        outstanding_after_cnp,
        restore_after,
    } = *dcqcn;
    let params = Params {
        gain: gain.unwrap_or(of.gain),
        initial_alpha: initial_alpha.unwrap_or(of.initial_alpha),
        rate_shift: rate_shift.unwrap_or(of.rate_shift),
        alpha_period: alpha_period.unwrap_or(of.alpha_period),
        cut_period: cut_period.unwrap_or(of.cut_period),
        increase_period: increase_period.unwrap_or(of.increase_period),
        byte_threshold: byte_threshold.unwrap_or(of.byte_threshold),
        stages: stages.unwrap_or(of.stages),
        additive: additive.unwrap_or(of.additive),
        hyper: hyper.unwrap_or(of.hyper),
        min_left_percent: min_left_percent.unwrap_or(of.min_left_percent),
        first_cnp_rate: first_cnp_rate.or(of.first_cnp_rate),
        min_rate: min_rate.unwrap_or(of.min_rate),
        initial_rate: initial_rate.unwrap_or(of.initial_rate),
        ..of
    };
    let outstanding = Outstanding { normal: outstanding, reduced: outstanding_after_cnp, restore_after };
    let scheme = match scheme {
        DcqcnScheme::Hardware => Scheme::Hardware,
        DcqcnScheme::FirmwareRate => Scheme::FirmwareRate,
        DcqcnScheme::Firmware => Scheme::Firmware,
    };
    let firmware_algorithm = match firmware_algorithm {
        config::FirmwareAlgorithm::Dcqcn => FirmwareAlgorithm::Dcqcn,
        config::FirmwareAlgorithm::Backoff => FirmwareAlgorithm::Backoff,
    };
    Dcqcn { scheme, params, outstanding, firmware_algorithm, firmware_period }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 100_000_000_000;

    /// What `[dcqcn]` with these keys makes of `held`.
    fn set(keys: &str, held: &Dcqcn) -> Dcqcn {
        let named: toml::Table = keys.parse().unwrap();
        let file = format!(
            "[[port]]\nname = \"h\"\ndevice = \"net_null0\"\nmac = \"02:00:00:00:00:01\"\nip = \"10.0.0.1\"\n\
             [[qp]]\npeer_ip = \"10.0.0.2\"\npeer_qpn = 17\n[dcqcn]\n{keys}"
        );
        let loaded = config::host::load("host.toml", &file).unwrap();
        let HostTraffic::Roce { dcqcn, .. } = loaded.config.traffic else { unreachable!() };
        match changed(&dcqcn, &named, Some(held), RATE) {
            Rate::Dcqcn(dcqcn) => dcqcn,
            Rate::Fixed(_) => panic!("{keys}"),
        }
    }

    /// Registers and keys change the same settings, and neither takes back what the other has changed.
    #[test]
    fn a_key_changes_what_it_names_and_nothing_else() {
        let of = |parameters| match rate_control(&HostDcqcn::of(parameters), RATE) {
            Rate::Dcqcn(dcqcn) => dcqcn,
            Rate::Fixed(_) => unreachable!(),
        };
        let paper = of(CongestionControl::Paper);
        let held = Dcqcn {
            scheme: Scheme::FirmwareRate,
            params: Params {
                max_rate: RATE / 2,
                alpha_period: 99_000,
                byte_threshold: 64_000,
                ..paper.params
            },
            outstanding: Outstanding { normal: 12, reduced: 3, restore_after: 777_000 },
            firmware_algorithm: FirmwareAlgorithm::Backoff,
            firmware_period: 20_000,
        };
        assert_eq!(set("cnp_interval = \"1ms\"\n", &held), held);
        let gain = Params { gain: 8, ..held.params };
        assert_eq!(set("gain = 8\n", &held), Dcqcn { params: gain, ..held });
        let fewer = Outstanding { normal: 8, ..held.outstanding };
        assert_eq!(set("outstanding = 8\n", &held), Dcqcn { outstanding: fewer, ..held });
        assert_eq!(set("scheme = \"hardware\"\n", &held), Dcqcn { scheme: Scheme::Hardware, ..held });
        let connectx = of(CongestionControl::Connectx).params;
        assert_eq!(set("parameters = \"connectx\"\n", &held), Dcqcn { params: connectx, ..held });
    }
}
