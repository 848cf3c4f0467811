//! In which VLANs groups are snooped, and what is sent there: all of it follows from the configuration in force.

use super::vlan::Rules;
use crate::lldp::settings::lowest;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use weir_config::Config;
use weir_dataplane::multicast::IpVersion;
use weir_dataplane::parse::key_space;
use weir_dataplane::switch::{PortParams, SwitchParams};
use weir_dataplane::turn::Platform;
use weir_dataplane::types::{Mac, PortId};

const MS: u64 = 1_000_000;

/// A port of a VLAN, by which queries are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanPort {
    /// Which.
    pub port: PortId,
    /// The VLAN is tagged there.
    pub tagged: bool,
}

/// A VLAN that is snooped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanSettings {
    /// Its id; 0: what has no tag.
    pub vid: u16,
    /// Its ports.
    pub ports: Vec<VlanPort>,
    /// Groups that are configured: they stay what they are.
    pub configured: BTreeSet<Mac>,
}

/// All VLANs that are snooped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// In their order.
    pub vlans: Vec<VlanSettings>,
    /// Of all of them.
    pub rules: Rules,
    /// Sources of queries, by version of IP.
    pub addresses: Vec<IpAddr>,
    /// Sources of frames, by port.
    pub macs: Vec<Mac>,
    /// The port at which what is behind each port is known.
    pub known_at: Vec<PortId>,
}

impl Settings {
    /// Of a configuration, and the parameters of the switch that were made from it.
    pub fn of(config: &Config, params: &SwitchParams) -> Self {
        let mcast = &config.mcast;
        let macs: Vec<Mac> = params.ports.iter().map(|port| port.mac).collect();
        let ports = |vid: u16| {
            let all = params.ports.iter().enumerate();
            let standard = all.filter(|(_, port)| port.profile.key_space() == key_space::STANDARD);
            let one = |(at, port): (usize, &PortParams)| {
                let vlans = port.vlans.as_ref();
                let is_member = vlans.map_or(vid == 0, |vlans| vlans.members.contains(vid));
                let tagged = vlans.is_some_and(|vlans| vlans.native != Some(vid));
                is_member.then_some(VlanPort { port: PortId(at as u16), tagged })
            };
            standard.filter_map(one).collect()
        };
        let configured = |vid: u16| {
            let of_vlan = config.fdb.groups.iter().filter(|group| group.vlan == vid);
            of_vlan.map(|group| Mac::from_u64(group.key)).collect()
        };
        // Nobody speaks IGMP in virtual time.
        let snooped = mcast.vlans.iter().filter(|_| config.platform == Platform::Polled);
        let vlan = |vid: &u16| VlanSettings { vid: *vid, ports: ports(*vid), configured: configured(*vid) };
        Self {
            vlans: snooped.map(vlan).collect(),
            rules: Rules {
                fast_leave: mcast.fast_leave,
                querier: mcast.querier,
                query_interval: mcast.query_interval / MS,
                response: mcast.query_response_interval / MS,
                max_groups: mcast.max_groups as usize,
                port_max_groups: mcast.port_max_groups as usize,
            },
            addresses: IpVersion::ALL
                .map(|version| match version {
                    IpVersion::V4 => mcast.querier_address.into(),
                    IpVersion::V6 => link_local(lowest(&macs).unwrap_or_default()).into(),
                })
                .into(),
            known_at: (0..config.ports.len()).map(|port| config.fdb_port(PortId(port as u16))).collect(),
            macs,
        }
    }
}

/// The address of a link that is made of a MAC address (RFC 4291 appendix A).
fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac.0;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::runtime::{Device, switch_params};

    const PORTS: &str = "[[port]]\nname = \"a\"\ndevice = \"net_null0\"\nvlan = { trunk = \"10,20\" }\n\
        [[port]]\nname = \"b\"\ndevice = \"net_null1\"\nvlan = { access = 10 }\n\
        [[port]]\nname = \"c\"\ndevice = \"net_null2\"\nvlan = { access = 10 }\n\
        [[lag]]\nname = \"po1\"\nmembers = [\"b\", \"c\"]\n";

    fn settings(text: &str) -> Settings {
        let config = weir_config::load("t.toml", text).unwrap().config;
        let device = |n: u64| Device { mac: Mac::from_u64(0x0200_0000_0000 + n), ..Device::default() };
        let params = switch_params(&config, &[7, 5, 6].map(device), 1).unwrap();
        Settings::of(&config, &params)
    }

    #[test]
    fn what_is_snooped_and_sent_follows_from_the_configuration() {
        assert!(settings(PORTS).vlans.is_empty(), "off unless it is asked for");
        let own = "[mcast_snooping]\nvlans = \"*\"\nfast_leave = true\nquerier = true\nquerier_address = \"10.0.0.1\"\n\
            query_interval = \"20s\"\nquery_response_interval = \"1s\"\nmax_groups = 9\nport_max_groups = 8\n";
        let group = "[[fdb.group]]\nmac = \"01:00:5e:01:01:01\"\nvlan = 10\nports = [\"a\", \"b\"]\n";
        let settings = settings(&format!("{PORTS}{own}{group}"));
        let [ten, twenty] = &settings.vlans[..] else { panic!("{settings:?}") };
        let port = |port, tagged| VlanPort { port: PortId(port), tagged };
        assert_eq!((ten.vid, &ten.ports), (10, &vec![port(0, true), port(1, false), port(2, false)]));
        assert_eq!((twenty.vid, &twenty.ports), (20, &vec![port(0, true)]));
        assert_eq!(ten.configured, [Mac::from_u64(0x0100_5e01_0101)].into_iter().collect());
        assert!(twenty.configured.is_empty());
        let rules = Rules {
            fast_leave: true,
            querier: true,
            query_interval: 20_000,
            response: 1_000,
            max_groups: 9,
            port_max_groups: 8,
        };
        assert_eq!(settings.rules, rules);
        let addresses: [IpAddr; 2] = ["10.0.0.1", "fe80::ff:fe00:5"].map(|text| text.parse().unwrap());
        assert_eq!(settings.addresses, addresses);
        assert_eq!(settings.known_at, [0, 1, 1].map(PortId));
    }

    #[test]
    fn without_vlans_what_has_no_tag_is_snooped() {
        let plain = PORTS.lines().filter(|line| !line.starts_with("vlan")).collect::<Vec<_>>().join("\n");
        let settings = settings(&format!("{plain}\n[mcast_snooping]\nvlans = \"*\"\n"));
        let vlans: Vec<_> = settings.vlans.iter().map(|vlan| (vlan.vid, vlan.ports.len())).collect();
        assert_eq!(vlans, [(0, 3)]);
        assert!(settings.vlans[0].ports.iter().all(|port| !port.tagged));
    }
}
