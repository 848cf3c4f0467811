//! What a switch says of itself: all of it follows from the configuration in force.

use super::dcbx::{Algorithm, Application, Ets, EtsConfiguration, Pfc};
use super::frame::{Id, Lldpdu};
use std::net::IpAddr;
use weir_config::{Config, LldpMode, PortConfig, SchedulerType, Trust, VERSION};
use weir_dataplane::types::{Mac, PRIORITIES};

/// Subtypes of identifiers (802.1AB tables 8-2 and 8-3).
const CHASSIS_MAC: u8 = 4;
const CHASSIS_LOCAL: u8 = 7;
const PORT_INTERFACE_NAME: u8 = 5;
/// Bit of the capability "bridge".
const BRIDGE: u16 = 1 << 2;
/// Bytes of the FCS, which a frame size has in 802.3 and not in weir.
const FCS: u16 = 4;

/// What a port says and does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Its name.
    pub name: String,
    /// Whether it receives and sends.
    pub mode: LldpMode,
    /// Source of its frames.
    pub mac: Mac,
    /// What it says.
    pub says: Lldpdu,
}

/// What a switch says and does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Between two frames of a port, ms.
    pub interval_ms: u64,
    /// By port.
    pub ports: Vec<PortSettings>,
}

impl Settings {
    /// Of a configuration, on devices with these addresses.
    pub fn of(config: &Config, devices: &[Mac]) -> Self {
        let macs = macs(config, devices);
        let chassis = match lowest(&macs) {
            Some(mac) => Id { subtype: CHASSIS_MAC, value: mac.0.to_vec() },
            None => Id { subtype: CHASSIS_LOCAL, value: config.name.clone().into_bytes() },
        };
        let seconds = config.lldp.interval.div_ceil(1_000_000_000);
        let ttl = u16::try_from(seconds * u64::from(config.lldp.hold) + 1).unwrap_or(u16::MAX);
        let port = |(port, mac): (&PortConfig, Mac)| PortSettings {
            name: port.name.clone(),
            mode: config.lldp_of(port),
            mac,
            says: Lldpdu {
                management: management_address(config),
                ..says(port, &chassis, ttl, &config.lldp.system_name)
            },
        };
        Self {
            interval_ms: config.lldp.interval / 1_000_000,
            ports: config.ports.iter().zip(macs).map(port).collect(),
        }
    }
}

/// Addresses of the ports of a configuration, on devices with these.
pub(crate) fn macs(config: &Config, devices: &[Mac]) -> Vec<Mac> {
    config.ports.iter().zip(devices).map(|(port, device)| port.mac.unwrap_or(*device)).collect()
}

/// One address for all ports, whichever of them somebody sees first.
pub(crate) fn lowest(macs: &[Mac]) -> Option<Mac> {
    macs.iter().filter(|mac| mac.to_u64() != 0).min_by_key(|mac| mac.to_u64()).copied()
}

/// Where others reach the management of the switch.
fn management_address(config: &Config) -> Option<IpAddr> {
    let reached = |ip: &IpAddr| !ip.is_loopback() && !ip.is_unspecified();
    let listens = config.mgmt.listen.map(|address| address.ip()).filter(reached);
    config.lldp.management_address.or(listens)
}

/// Frames of these DSCPs are lossless here, in this priority.
fn applications(port: &PortConfig) -> Vec<Application> {
    let lossless = lossless(port);
    let priority_of = |dscp: u8| {
        let group = port.maps.tc_to_pg[usize::from(port.maps.dscp_to_tc[usize::from(dscp)]) % PRIORITIES];
        (0..PRIORITIES as u8).find(|priority| {
            lossless >> priority & 1 == 1 && port.maps.pfc_to_pg[usize::from(*priority)] == group
        })
    };
    let of = |dscp: u8| {
        Some(Application { priority: priority_of(dscp)?, selector: Application::DSCP, protocol: dscp.into() })
    };
    (0..64).filter(|_| port.trust.contains(&Trust::Dscp)).filter_map(of).collect()
}

fn says(port: &PortConfig, chassis: &Id, ttl: u16, system_name: &str) -> Lldpdu {
    let id = Id { subtype: PORT_INTERFACE_NAME, value: port.name.clone().into_bytes() };
    let ets = ets(port);
    Lldpdu {
        // Arguments of a device are of no use to a neighbour, and may be paths.
        port_description: port.device.split(',').next().map(str::to_owned),
        system_name: Some(system_name.to_owned()),
        system_description: Some(format!("weir {VERSION}")),
        capabilities: Some((BRIDGE, BRIDGE)),
        ets: Some(EtsConfiguration { willing: false, credit_based: false, classes: 8, ets: ets.clone() }),
        ets_recommendation: Some(ets),
        pfc: Some(Pfc { willing: false, macsec_bypass: false, capability: 8, enable: lossless(port) }),
        applications: Some(applications(port)).filter(|all| !all.is_empty()),
        max_frame: Some(port.mtu + FCS),
        ..Lldpdu::new(chassis.clone(), id, ttl)
    }
}

/// Priorities that are lossless: with PFC, for a group that is.
fn lossless(port: &PortConfig) -> u8 {
    let is = |priority: &usize| {
        port.pfc.enable >> priority & 1 == 1
            && port.pgs[usize::from(port.maps.pfc_to_pg[*priority]) % PRIORITIES].lossless
    };
    (0..PRIORITIES).filter(is).fold(0, |mask, priority| mask | 1 << priority)
}

/// The queues as traffic classes. Weighted ones, of bytes or of frames, have shares that add up to 100.
fn ets(port: &PortConfig) -> Ets {
    let weight = |queue: usize| match port.queues[queue].scheduler.kind {
        SchedulerType::Strict => 0,
        SchedulerType::Dwrr | SchedulerType::Wrr => u64::from(port.queues[queue].scheduler.weight),
    };
    let weights: [u64; PRIORITIES] = std::array::from_fn(weight);
    Ets {
        class: port.maps.pfc_to_queue,
        bandwidth: shares(&weights),
        algorithm: port.queues.map(|queue| match queue.scheduler.kind {
            SchedulerType::Strict => Algorithm::Strict,
            SchedulerType::Dwrr | SchedulerType::Wrr => Algorithm::Ets,
        }),
    }
}

/// Percent of each, 100 together unless all weigh nothing: what rounding leaves goes to those that lost most by it.
fn shares(weights: &[u64; PRIORITIES]) -> [u8; PRIORITIES] {
    let sum = weights.iter().sum::<u64>();
    if sum == 0 {
        return [0; PRIORITIES];
    }
    let mut shares = weights.map(|weight| (weight * 100 / sum) as u8);
    let mut order: Vec<usize> = (0..PRIORITIES).collect();
    order.sort_by_key(|queue| std::cmp::Reverse(weights[*queue] * 100 % sum));
    let left = 100 - shares.iter().map(|share| usize::from(*share)).sum::<usize>();
    order.into_iter().take(left).for_each(|queue| shares[queue] += 1);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `more` behind two ports.
    fn settings(more: &str) -> Settings {
        let text = format!(
            "[[port]]\nname = \"a\"\ndevice = \"net_af_packet0,iface=w0\"\nmtu = 1500\n\
             [[port]]\nname = \"b\"\ndevice = \"ring\"\nmac = \"02:00:00:00:00:01\"\nlldp = \"receive\"\n{more}"
        );
        let config =
            weir_config::load("t.toml", &text).unwrap_or_else(|found| panic!("{found:?}\n{text}")).config;
        Settings::of(&config, &[Mac([2, 0, 0, 0, 0, 9]), Mac::default()])
    }

    #[test]
    fn what_is_sent_follows_from_the_configuration() {
        let off = settings("");
        assert_eq!(off.ports.iter().map(|port| port.mode).collect::<Vec<_>>(), [LldpMode::Off; 2]);
        // enable, interval, hold, system_name
        let on =
            settings("[lldp]\nenable = true\ninterval = \"1500ms\"\nhold = 3\nsystem_name = \"leaf7\"\n");
        let [a, b] = &on.ports[..] else { panic!() };
        assert_eq!((on.interval_ms, a.mode, b.mode), (1500, LldpMode::Both, LldpMode::Receive));
        assert_eq!((a.mac, b.mac), (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1])));
        assert_eq!((a.says.ttl, a.says.system_name.as_deref()), (7, Some("leaf7")));
        assert_eq!(settings("[lldp]\ninterval = \"3600s\"\nhold = 100\n").ports[0].says.ttl, 65535);
        assert_eq!(a.says.chassis, Id { subtype: 4, value: vec![2, 0, 0, 0, 0, 1] });
        assert_eq!((&a.says.chassis, &b.says.port.value[..]), (&b.says.chassis, &b"b"[..]));
        assert_eq!(a.says.port_description.as_deref(), Some("net_af_packet0"));
        assert_eq!((a.says.max_frame, b.says.max_frame), (Some(1504), Some(9220)));
    }

    #[test]
    fn where_it_is_managed_is_sent_where_others_can_reach_it() {
        let sent = |more: &str| settings(&format!("[lldp]\nenable = true\n{more}")).ports[0].says.management;
        assert_eq!(sent(""), None, "loopback");
        assert_eq!(sent("management_address = \"10.0.0.9\"\n"), Some(IpAddr::from([10, 0, 0, 9])));
        let reached = "[mgmt]\nlisten = \"192.0.2.1:9470\"\ntoken_file = \"/t\"\n";
        assert_eq!(sent(reached), Some(IpAddr::from([192, 0, 2, 1])));
    }

    #[test]
    fn dscps_that_are_lossless_are_applications_of_their_priority() {
        let told = |more: &str| settings(more).ports[0].says.applications.clone();
        assert_eq!(told(""), None);
        let roce = told("[qos]\npreset = \"roce-lossless\"\n").unwrap();
        assert_eq!(roce, [Application { priority: 3, selector: Application::DSCP, protocol: 26 }]);
        assert_eq!(roce[0].selector_word(), "dscp");
        let two = "[qos]\npreset = \"roce-lossless\"\n[qos.dscp_to_tc]\n26 = 3\n27 = 3\n";
        assert_eq!(told(two).unwrap().iter().map(|one| one.protocol).collect::<Vec<_>>(), [26, 27]);
    }

    /// Rings have no address.
    #[test]
    fn a_switch_has_the_lowest_address_there_is_or_its_name() {
        let text = "[switch]\nname = \"s\"\n[[port]]\nname = \"a\"\ndevice = \"ring\"\n\
            [[port]]\nname = \"b\"\ndevice = \"ring\"\n";
        let config = weir_config::load("t.toml", text).unwrap().config;
        let chassis = |devices: [Mac; 2]| Settings::of(&config, &devices).ports[0].says.chassis.clone();
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        assert_eq!(chassis([Mac::default(), mac]), Id { subtype: 4, value: mac.0.to_vec() });
        assert_eq!(chassis([Mac::default(); 2]), Id { subtype: 7, value: b"s".to_vec() });
    }

    #[test]
    fn lossless_classes_and_the_scheduler_are_pfc_and_ets() {
        let says = |more: &str| settings(more).ports[0].says.clone();
        let plain = says("");
        assert_eq!(plain.pfc.unwrap().enable, 0);
        let ets = plain.ets.unwrap();
        assert!(!ets.willing && ets.ets.bandwidth.iter().map(|share| u32::from(*share)).sum::<u32>() == 100);
        let lossless =
            says("[qos]\npreset = \"roce-lossless\"\n[port_defaults.pfc]\nenable = [3, 5]\ntx = false\n");
        // Priority 5 has PFC, but its group may lose frames.
        let pfc = lossless.pfc.unwrap();
        assert!(!pfc.willing && pfc.capability == 8);
        assert_eq!(pfc.enable & 1 << 3, 1 << 3, "{pfc:?}");
        assert_eq!(pfc.enable & 1 << 5, 0, "{pfc:?}");
        let scheduled = says(
            "[[scheduler]]\nname = \"s\"\ntype = \"STRICT\"\n[[scheduler]]\nname = \"w\"\nweight = 2\n\
             [[scheduler]]\nname = \"f\"\ntype = \"WRR\"\nweight = 1\n\
             [[queue]]\nqueues = \"0-6\"\nscheduler = \"s\"\n[[queue]]\nqueues = 3\nscheduler = \"w\"\n\
             [[queue]]\nqueues = 7\nscheduler = \"f\"\n[qos]\npfc_to_queue = { \"1\" = 3 }\n",
        );
        let ets = scheduled.ets.unwrap().ets;
        assert_eq!(ets.bandwidth, [0, 0, 0, 67, 0, 0, 0, 33]);
        assert_eq!(ets.of_priority(1), (Algorithm::Ets, 67));
        assert_eq!((ets.of_priority(0), ets.of_priority(7)), ((Algorithm::Strict, 0), (Algorithm::Ets, 33)));
        assert_eq!(scheduled.ets_recommendation, Some(ets));
    }

    #[test]
    fn shares_add_up() {
        assert_eq!(shares(&[0; 8]), [0; 8]);
        assert_eq!(shares(&[1; 8]), [13, 13, 13, 13, 12, 12, 12, 12]);
        assert_eq!(shares(&[1, 0, 0, 1, 1, 0, 0, 0]), [34, 0, 0, 33, 33, 0, 0, 0]);
        let mut rng = weir_dataplane::rng::Rng::new(1);
        for _ in 0..1000 {
            let weights = std::array::from_fn(|_| u64::from(rng.next_u32() % 101));
            let sum: u32 = shares(&weights).iter().map(|share| u32::from(*share)).sum();
            assert_eq!(sum, if weights == [0; 8] { 0 } else { 100 });
        }
    }
}
