//! Snooping for tests: a VLAN in which somebody asks, and one in which nobody does.

use super::agent::{Asker, Counters, GroupReading, McastReading, VlanReading};
use weir_dataplane::multicast::IpVersion;
use weir_dataplane::types::PortId;

/// What is known at `n` times 100 ms.
pub fn reading(n: u64) -> McastReading {
    let port = PortId(0);
    let asked = VlanReading {
        vid: 10,
        version: IpVersion::V4,
        asker: Asker::Other { address: "10.0.0.1".parse().unwrap(), port },
        narrows: true,
        routers: [port].into_iter().collect(),
        groups: vec![GroupReading {
            group: "239.1.2.3".parse().unwrap(),
            members: vec![(PortId(1), 260_000 - n * 100)],
        }],
    };
    let own =
        VlanReading { version: IpVersion::V6, asker: Asker::Switch, groups: Vec::new(), ..asked.clone() };
    let unasked = VlanReading { vid: 20, asker: Asker::Nobody, narrows: false, ..own.clone() };
    let counters = Counters {
        queries: n,
        reports: n,
        hellos: n,
        other: n,
        malformed: [n, 0, n, 0, 0],
        refused: n,
        for_all: n,
        not_sent: n,
    };
    McastReading { vlans: vec![asked, own, unasked], ports: vec![counters; 2] }
}
