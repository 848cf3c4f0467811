//! Hosts at the far ends of in-process rings, closed loop: one thread for all of them.

use super::{rclink, roce};
use crate::host::{Seat, Shared, work};
use crate::run::FarEnd;
use crate::run::io::DpdkWire;
use anyhow::{Result, anyhow};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_config::{Config, HostProtocol, LabFlow, LabPattern, PortConfig, PortRate, Trust};
use weir_dataplane::types::{Mac, PortId};
use weir_dpdk::{Clock, Mempool};
use weir_endpoint::station::{ConnectionReport, Station, StationReport};

/// Rate of hosts on ports without one, bit/s.
const UNSHAPED: u64 = 1_000_000_000;

/// Time without the processor that a host makes up for, ns.
pub const SLACK: u64 = 200_000;

/// A pause of the loop when no host had anything to do.
const REST: Duration = Duration::from_micros(50);

/// What one host has under way at most, by time and by bytes: enough to fill a buffer where nobody backs off.
const IN_FLIGHT_MS: u64 = 40;
const MIN_IN_FLIGHT: u64 = 256 << 10;
const MAX_IN_FLIGHT: u64 = 2 << 20;

/// Bytes a host on a link of this rate has under way at most.
pub fn in_flight(link: u64) -> u64 {
    (link / 8_000).saturating_mul(IN_FLIGHT_MS).clamp(MIN_IN_FLIGHT, MAX_IN_FLIGHT)
}

/// How many times slower rate control runs here than on an adapter. A CNP every 50 us and an increase every 55 us
/// suit a machine that looks at its wire all the time; these hosts are threads that look once in a
/// millisecond when the machine is busy, and between two looks would forget every CNP. Increases are larger by
/// as much, so a rate recovers as fast as ever.
pub const SLOWER: u64 = 20;

/// Longer than a full buffer takes to leave at the rate of a lab, ns.
pub const ACK_TIMEOUT: u64 = 4096 << 16;

/// How long the last messages may take to be acknowledged.
const DRAIN: Duration = Duration::from_secs(20);

/// How long frames on their way through the switch may take.
const ON_THE_WAY: Duration = Duration::from_millis(200);

/// How hosts behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manners {
    /// They ignore PFC and CNPs.
    pub deaf: bool,
    /// They ignore CNPs.
    pub no_dcqcn: bool,
    /// They record what moves their rates.
    pub trace: bool,
    /// What they speak.
    pub protocol: HostProtocol,
}

impl Manners {
    /// Senders slow down when frames are marked.
    pub fn back_off(&self) -> bool {
        !self.deaf && !self.no_dcqcn
    }
}

/// The hosts of a lab, running.
#[derive(Debug)]
pub struct Hosts {
    shared: Arc<Shared>,
    thread: JoinHandle<Vec<Seat>>,
    flows: Vec<Flow>,
}

/// What frames say of their class, each in its field, if they have that.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    pub pcp: Option<u8>,
    pub dscp: Option<u8>,
    pub tc: Option<u8>,
}

impl Marks {
    /// The class in which a switch has frames with these that come in by `port`: by the first of what that trusts.
    pub fn class_at(&self, port: &PortConfig) -> u8 {
        let PortConfig { maps, trust, default_tc, .. } = port;
        let by = |source: &Trust| match source {
            Trust::Pcp => self.pcp.map(|pcp| maps.pcp_to_tc[usize::from(pcp)]),
            Trust::Dscp => self.dscp.map(|dscp| maps.dscp_to_tc[usize::from(dscp)]),
            Trust::Tc => self.tc.map(|tc| maps.dscp_to_tc[usize::from(tc)]),
            Trust::Port => Some(*default_tc),
        };
        trust.iter().find_map(by).unwrap_or(*default_tc)
    }
}

/// One flow: a connection, and which of the two ends sends.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Port whose host sends.
    pub from: usize,
    /// Port whose host receives.
    pub to: usize,
    /// Traffic class of its frames.
    pub class: u8,
    /// Number of its queue pair at the sender and at the receiver.
    pub qpns: [u32; 2],
}

/// What one flow came to.
#[derive(Clone, Debug)]
pub struct FlowResult {
    /// Port whose host sent.
    pub from: usize,
    /// Port whose host received.
    pub to: usize,
    /// Traffic class of its frames.
    pub class: u8,
    /// The sender's end.
    pub sent: ConnectionReport,
    /// The receiver's end.
    pub received: ConnectionReport,
}

/// What all hosts came to.
#[derive(Clone, Debug, Default)]
pub struct HostResults {
    /// By flow.
    pub flows: Vec<FlowResult>,
    /// By port.
    pub hosts: Vec<StationReport>,
    /// What moved the rates, as CSV.
    pub trace: String,
}

/// Addresses of the host on a port.
pub fn address(port: usize) -> (Mac, Ipv4Addr) {
    let mac = Mac::from_u64(0x0200_0000_0100 + port as u64);
    (mac, Ipv4Addr::new(10, 0, (port >> 8) as u8, port as u8 + 1))
}

/// Rate of the host on a port, bits/s.
pub fn link_rate(config: &Config, port: usize) -> u64 {
    match config.ports[port].rate {
        PortRate::Fixed(bps) => bps,
        PortRate::Unlimited | PortRate::Link => UNSHAPED,
    }
}

/// The flows of a lab: those listed, or those of its pattern.
pub fn flows(config: &Config) -> Vec<LabFlow> {
    if !config.lab.flows.is_empty() {
        return config.lab.flows.clone();
    }
    let n = config.ports.len();
    let pairs: Vec<(usize, usize)> = match config.lab.pattern {
        LabPattern::Incast => (1..n).map(|from| (from, 0)).collect(),
        LabPattern::AllToAll => {
            (0..n).flat_map(|a| (0..n).map(move |b| (a, b))).filter(|(a, b)| a != b).collect()
        }
    };
    let share =
        if config.lab.pattern == LabPattern::AllToAll { (n as u64).saturating_sub(1).max(1) } else { 1 };
    let flow = |(from, to): (usize, usize)| LabFlow {
        from: PortId(from as u16),
        to: PortId(to as u16),
        rate: Some(link_rate(config, from) / 1_000_000 * u64::from(config.lab.load) / share),
        frame_bytes: config.lab.frame_bytes,
        dscp: config.lab.dscp,
        pcp: None,
        vlan: None,
    };
    pairs.into_iter().map(flow).collect()
}

impl Hosts {
    /// Starts the hosts on the far ends of the ports.
    ///
    /// # Errors
    /// A flow that cannot be, or no thread.
    pub fn start(
        config: &Config,
        far: Vec<FarEnd>,
        pool: Mempool,
        clock: Clock,
        manners: Manners,
    ) -> Result<Self> {
        let (stations, flows) = match manners.protocol {
            HostProtocol::Roce => roce::make(config, manners)?,
            HostProtocol::RcLink => rclink::make(config, manners)?,
        };
        let seat = |(station, far): (Station, FarEnd)| {
            Seat::new(station, far.rx, DpdkWire::new(far.tx, pool.clone(), None))
        };
        let seats: Vec<Seat> = stations.into_iter().zip(far).map(seat).collect();
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("hosts".into())
            .spawn(move || work(seats, &pool, &clock, REST, &seen, None))?;
        Ok(Self { shared, thread, flows })
    }

    /// Sends no new messages, waits until those under way are acknowledged, and then for the frames on their
    /// way through the switch.
    pub fn stop_sending(&self) {
        self.shared.stop_sending();
        wait(DRAIN, || self.shared.is_done());
        self.shared.freeze();
        wait(DRAIN, || self.shared.is_frozen());
        std::thread::sleep(ON_THE_WAY);
    }

    /// Ends the hosts and says what they came to.
    ///
    /// # Errors
    /// The hosts' thread panicked.
    pub fn finish(self, now: u64) -> Result<HostResults> {
        self.shared.end();
        let seats = self.thread.join().map_err(|_| anyhow!("the hosts panicked: please report it"))?;
        let end = |port: usize, qpn: u32| seats[port].station.pairs().find(|pair| pair.number == qpn);
        let result = |flow: &Flow| {
            let Flow { from, to, class, qpns } = *flow;
            Some(FlowResult { from, to, class, sent: end(from, qpns[0])?, received: end(to, qpns[1])? })
        };
        Ok(HostResults {
            flows: self.flows.iter().filter_map(result).collect(),
            hosts: seats.iter().map(|seat| seat.station.report(now)).collect(),
            trace: crate::host::trace(&seats),
        })
    }
}

/// Waits until something is so, at most this long.
fn wait(most: Duration, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + most;
    while !is_so() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
#[path = "../../../config/tests/configuration/walk.rs"]
mod keys;

#[cfg(test)]
mod tests {
    use super::keys::{Case, Observed, Shown, walk, with};
    use super::*;
    use weir_config::{load, schema};

    /// Hosts and flows of the lab this file describes.
    fn observe(text: &str) -> Observed {
        let config = match load("t.toml", text) {
            Ok(loaded) => loaded.config,
            Err(found) => return Err(format!("{found:?}")),
        };
        let manners = Manners { deaf: false, no_dcqcn: false, trace: false, protocol: config.lab.hosts };
        let made = match manners.protocol {
            HostProtocol::Roce => roce::make(&config, manners),
            HostProtocol::RcLink => rclink::make(&config, manners),
        };
        made.map(|made| format!("{:?} {:?} {made:?}", manners.protocol, flows(&config)))
            .map_err(|e| e.to_string())
    }

    /// By what the port trusts first of what frames have, a tag or none.
    #[test]
    fn the_class_of_a_flow_is_that_in_which_its_switch_has_it() {
        let class = |flow: &str, port: &str| {
            let ports: String = (0..2)
                .map(|n| format!("[[port]]\nname = \"p{n}\"\ndevice = \"ring\"\nrate = \"1G\"\n{port}"))
                .collect();
            let text = format!(
                "[qos]\npreset = \"roce-lossless\"\n{ports}[[lab.flow]]\nfrom = \"p0\"\nto = \"p1\"\n{flow}"
            );
            let config = load("t.toml", &text).unwrap_or_else(|found| panic!("{found:?}")).config;
            let manners = Manners { deaf: false, no_dcqcn: false, trace: false, protocol: config.lab.hosts };
            roce::make(&config, manners).unwrap().1[0].class
        };
        assert_eq!(class("pcp = 3\nvlan = 7\ndscp = 0\n", ""), 0);
        assert_eq!(class("pcp = 0\nvlan = 7\n", ""), 3);
        assert_eq!(class("", "trust = \"pcp\"\n"), 0);
        assert_eq!(class("pcp = 3\nvlan = 7\n", "trust = \"pcp\"\n"), 3);
        assert_eq!(class("", "trust = \"port\"\ndefault_tc = 6\n"), 6);
    }

    #[test]
    fn every_key_of_the_lab_has_an_effect() {
        let port = |n| format!("[[port]]\nname = \"p{n}\"\ndevice = \"ring\"\nrate = \"1G\"\n");
        let base: String = (0..3).map(port).collect();
        let flow = format!("{base}[lab]\n[[lab.flow]]\nfrom = \"p0\"\nto = \"p1\"\n");
        let case = |table: &'static str, key: &'static str, one: &str, other: &str| {
            let text = if table == "[lab]" { &base } else { &flow };
            Case {
                table,
                key,
                shown: Shown::Differs(with(text, table, key, one), with(text, table, key, other)),
            }
        };
        let lab = |key, one, other| case("[lab]", key, one, other);
        let of_flow = |key, one, other| case("[[lab.flow]]", key, one, other);
        let cases = [
            lab("pattern", "\"all_to_all\"", "\"incast\""),
            lab("load", "\"90%\"", "\"50%\""),
            lab("frame_bytes", "1082", "2106"),
            lab("dscp", "26", "8"),
            lab("dcqcn", "\"paper\"", "\"off\""),
            lab("hosts", "\"rocev2\"", "\"rclink\""),
            lab("flow", "[]", "[{ from = \"p0\", to = \"p1\" }]"),
            of_flow("from", "\"p0\"", "\"p2\""),
            of_flow("to", "\"p1\"", "\"p2\""),
            of_flow("rate", "\"1G\"", "\"500M\""),
            of_flow("frame_bytes", "1082", "2106"),
            of_flow("dscp", "26", "8"),
            of_flow("pcp", "3", "4"),
            of_flow("vlan", "", "7"),
        ];
        let tables: Vec<_> = schema::ALL
            .iter()
            .copied()
            .filter(|t| t.path.trim_start_matches('[').starts_with("lab"))
            .collect();
        let wrong = walk(&tables, &cases, observe);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
