//! Two ports for tests: one has a neighbour with PFC for one priority too many.

use super::agent::{Agent, LldpReading};
use super::dcbx::{Algorithm, Ets, EtsConfiguration, Pfc};
use super::frame::{Id, Lldpdu};
use super::settings::{PortSettings, Settings};
use weir_config::LldpMode;
use weir_dataplane::types::Mac;

/// What the port of this name says: PFC for priority 3, which has 30 percent.
pub fn says(name: &str) -> Lldpdu {
    let ets = Ets {
        class: [0, 1, 2, 3, 4, 5, 6, 7],
        bandwidth: [10, 10, 10, 30, 10, 10, 10, 10],
        algorithm: [Algorithm::Ets; 8],
    };
    Lldpdu {
        port_description: Some("ring".into()),
        system_name: Some("leaf1".into()),
        system_description: Some("weir".into()),
        capabilities: Some((4, 4)),
        ets: Some(EtsConfiguration { willing: false, credit_based: false, classes: 8, ets: ets.clone() }),
        ets_recommendation: Some(ets),
        pfc: Some(Pfc { willing: false, macsec_bypass: false, capability: 8, enable: 1 << 3 }),
        max_frame: Some(1518),
        ..Lldpdu::new(
            Id { subtype: 4, value: vec![2, 0, 0, 0, 0xff, 0] },
            Id { subtype: 5, value: name.into() },
            121,
        )
    }
}

/// What a host says that has PFC for these priorities.
pub fn host(number: u8, enable: u8) -> Lldpdu {
    let mut pdu = says("eth0");
    pdu.chassis.value[5] = number;
    pdu.system_name = Some(format!("host{number}"));
    pdu.pfc = Some(Pfc { willing: true, macsec_bypass: false, capability: 8, enable });
    pdu
}

/// What is configured.
pub fn settings() -> Settings {
    let port = |name: &str, mode| PortSettings {
        name: name.into(),
        mode,
        mac: Mac([2, 0, 0, 0, 0xff, 0]),
        says: says(name),
    };
    let ports = vec![port("p0", LldpMode::Both), port("p\"1\\", LldpMode::Receive)];
    Settings { interval_ms: 30_000, ports }
}

/// What is known at `n` times 100 ms.
pub fn reading(n: u64) -> LldpReading {
    let mut agent = Agent::new(settings());
    agent.receive(0, &host(7, 1 << 3 | 1 << 4).encode(Mac([2, 0, 0, 0, 0, 7])), 100);
    agent.receive(1, &[0; 60], 100);
    agent.reading(n * 100)
}
