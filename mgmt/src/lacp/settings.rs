//! What a switch is to the partners of its LAGs: all of it follows from the configuration in force.

use super::frame::{PortInfo, State, SystemId};
use super::group::GroupSettings;
use super::port::PortSettings;
use crate::lldp::settings::{lowest, macs};
use weir_config::{Config, LagConfig, LagLacp};
use weir_dataplane::types::{Mac, PortId};

/// Priority of every port: where there is one aggregator all of them may be used.
const PORT_PRIORITY: u16 = 0x8000;

/// A LAG that speaks LACP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LagSettings {
    /// Its name.
    pub name: String,
    /// Its ports, in order.
    pub members: Vec<PortId>,
    /// Of all of them.
    pub group: GroupSettings,
    /// Of each.
    pub ports: Vec<PortSettings>,
    /// Sources of their frames.
    pub macs: Vec<Mac>,
}

/// All LAGs that speak LACP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// In the order of the configuration.
    pub lags: Vec<LagSettings>,
}

impl Settings {
    /// Of a configuration, on devices with these addresses.
    pub fn of(config: &Config, devices: &[Mac]) -> Self {
        let macs = macs(config, devices);
        let mac = config.lacp.system_id.or(lowest(&macs)).unwrap_or_else(|| of_name(&config.name));
        let system = SystemId { priority: config.lacp.system_priority, mac };
        let lag = |lag: &LagConfig| {
            let lacp = lag.lacp.filter(|_| config.speaks_lacp(lag))?;
            Some(of_lag(lag, lacp, system, &macs))
        };
        Self { lags: config.lags.iter().filter_map(lag).collect() }
    }
}

fn of_lag(lag: &LagConfig, lacp: LagLacp, system: SystemId, macs: &[Mac]) -> LagSettings {
    let port = |port: &PortId| PortSettings {
        actor: PortInfo {
            system,
            key: lacp.key,
            port_priority: PORT_PRIORITY,
            // 0 is none.
            port: port.0 + 1,
            state: State::default(),
        },
        active: lacp.active,
        fast: lacp.fast,
    };
    LagSettings {
        name: lag.name.clone(),
        members: lag.members.clone(),
        group: GroupSettings { min_links: lacp.min_links.into(), fallback: lacp.fallback },
        ports: lag.members.iter().map(port).collect(),
        macs: lag.members.iter().map(|port| macs[port.index()]).collect(),
    }
}

/// A locally administered address for a switch whose ports have none (FNV-1a).
fn of_name(name: &str) -> Mac {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let [.., b, c, d, e, f] = hash.to_be_bytes();
    Mac([2, b, c, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(more: &str, devices: &[Mac]) -> Settings {
        let port = |name: &str| format!("[[port]]\nname = \"{name}\"\ndevice = \"ring\"\n");
        let text = format!("[switch]\nname = \"leaf\"\n{}{more}", ["a", "b", "c", "d"].map(port).concat());
        let config =
            weir_config::load("t.toml", &text).unwrap_or_else(|found| panic!("{found:?}\n{text}")).config;
        Settings::of(&config, devices)
    }

    #[test]
    fn what_is_said_follows_from_the_configuration() {
        let macs = [7, 5, 6, 9].map(|n| Mac([2, 0, 0, 0, 0, n]));
        let lag = |keys: &str| format!("[[lag]]\nname = \"po12\"\nmembers = [\"c\", \"a\"]\n{keys}\n");
        assert_eq!(settings(&lag(""), &macs), Settings::default());
        let plain = settings(&lag("lacp = \"active\""), &macs);
        let [one] = &plain.lags[..] else { panic!("{plain:?}") };
        assert_eq!((one.name.as_str(), &one.members[..]), ("po12", &[PortId(2), PortId(0)][..]));
        assert_eq!(one.macs, [macs[2], macs[0]]);
        assert_eq!(one.group, GroupSettings { min_links: 1, fallback: false });
        let [c, a] = one.ports[..] else { panic!() };
        assert_eq!((c.active, c.fast, c.actor.port, a.actor.port), (true, false, 3, 1));
        // One address for all ports, whichever are of a LAG.
        let system = SystemId { priority: 65535, mac: macs[1] };
        assert_eq!((c.actor.system, c.actor.key, a.actor.key), (system, 12, 12));
        // lacp, lacp_rate, min_links, fallback, lacp_key, system_priority, system_id
        let keys = "lacp = \"passive\"\nlacp_rate = \"fast\"\nmin_links = 2\nlacp_key = 3\n\
            [lacp]\nsystem_priority = 4\nsystem_id = \"02:00:00:00:00:aa\"\n";
        let other = settings(&lag(keys), &macs);
        let port = other.lags[0].ports[0];
        assert_eq!(other.lags[0].group, GroupSettings { min_links: 2, fallback: false });
        assert_eq!((port.active, port.fast, port.actor.key), (false, true, 3));
        let system = SystemId { priority: 4, mac: Mac([2, 0, 0, 0, 0, 0xaa]) };
        assert_eq!(port.actor.system, system);
        assert!(settings(&lag("lacp = \"active\"\nfallback = true"), &macs).lags[0].group.fallback);
    }

    #[test]
    fn a_switch_whose_ports_have_no_address_has_one_made_of_its_name() {
        let of = |name: &str| {
            let lag = "[[lag]]\nname = \"l\"\nmembers = \"a\"\nlacp = \"active\"\n";
            let text =
                format!("[switch]\nname = \"{name}\"\n[[port]]\nname = \"a\"\ndevice = \"ring\"\n{lag}");
            let config = weir_config::load("t.toml", &text).unwrap().config;
            Settings::of(&config, &[Mac::default()]).lags[0].ports[0].actor.system.mac
        };
        assert_eq!((of("one"), of("one").0[0]), (of("one"), 2));
        assert_ne!(of("one"), of("other"));
    }
}
