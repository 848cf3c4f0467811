//! A LAG of two ports for tests: one carries frames, the other one leads elsewhere.

use super::agent::{Counters, LacpReading, LagReading, MemberReading};
use super::frame::{PortInfo, State, SystemId};
use super::group::Why;
use super::port::{Mux, Receive};
use weir_dataplane::types::{Mac, PortId};

/// An end of a link.
pub fn info(system: u8, port: u16, state: u8) -> PortInfo {
    PortInfo {
        system: SystemId { priority: 65535, mac: Mac([2, 0, 0, 0, 0, system]) },
        key: 1,
        port_priority: 0x8000,
        port,
        state: State(state),
    }
}

/// What is known at `n` times 100 ms.
pub fn reading(n: u64) -> LacpReading {
    let counters = Counters { lacpdus: n, markers: n, malformed: n, unknown: n, not_sent: n };
    let one = MemberReading {
        port: PortId(0),
        actor: info(1, 1, 0x3f),
        partner: Some(info(2, 7, 0x3d)),
        receive: Receive::Current,
        mux: Mux::Distributing,
        why: Why::Sends,
        fallback: false,
        active: true,
        counters,
    };
    let other = MemberReading {
        port: PortId(1),
        actor: info(1, 2, 0x07),
        partner: Some(info(3, 8, 0x05)),
        mux: Mux::Detached,
        why: Why::OtherPartner,
        ..one
    };
    let partner = Some((info(2, 7, 0).system, 1));
    LacpReading { lags: vec![LagReading { name: "po1".into(), partner, members: vec![one, other] }] }
}
