//! Link aggregation groups (802.1AX): ports that are one to the forwarding table.
//!
//! Stations behind a LAG are known at its first port, whichever they were seen at. A frame for one leaves by one member,
//! chosen by a hash of its flow ([`crate::parse::HashFields`]); so does the one copy that a LAG gets of what is flooded.
//! Everything else is a member's own: priority groups, queues, pauses, marks, counters.
//!
//! A member whose link is lost, or that LACP takes out ([`LagMember`]), leaves the hash: its flows are divided among the others, and those of the others stay where
//! they are. When it comes back they return.

use crate::parse::HashFields;
use crate::portset::PortSet;
use crate::types::PortId;
use arrayvec::ArrayVec;

/// Most ports of a LAG.
pub const MAX_MEMBERS: usize = 16;

/// A LAG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LagParams {
    /// Its ports: 1 to [`MAX_MEMBERS`], of one format and VLAN membership, in no other LAG.
    pub members: PortSet,
    /// What tells flows apart.
    pub fields: HashFields,
}

/// What a port of a LAG carries where LACP says that (802.1AX: the mux machine).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagMember {
    /// Nothing but frames of the link itself.
    Detached,
    /// What it receives.
    Collecting,
    /// What it receives, and what is sent by it.
    Distributing,
}

/// A LAG as the switch uses it.
#[derive(Clone, Debug)]
pub(crate) struct Lag {
    members: ArrayVec<PortId, MAX_MEMBERS>,
    /// Those of them that frames can leave by.
    up: ArrayVec<PortId, MAX_MEMBERS>,
    pub fields: HashFields,
}

impl Lag {
    /// Whose link is up.
    pub fn up(&self) -> &[PortId] {
        &self.up
    }

    /// The member for frames of this hash. `None`: no link is up.
    #[inline]
    pub fn member(&self, hash: u64) -> Option<PortId> {
        let one_of =
            |ports: &[PortId], bits: u64| ports.get(((bits * ports.len() as u64) >> 32) as usize).copied();
        let first = one_of(&self.members, hash >> 32)?;
        if self.up.contains(&first) { Some(first) } else { one_of(&self.up, hash & 0xffff_ffff) }
    }
}

/// The LAGs of a switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lags {
    lags: Vec<Lag>,
    /// Which of them each port is in; empty where there are none.
    of_port: Vec<Option<u8>>,
    /// Makes the hashes of this switch others than those of the next one.
    pub seed: u64,
}

impl Lags {
    /// Of a switch with so many ports, all up. Ports that there are not, and those of an earlier LAG, are in none.
    pub fn new(params: &[LagParams], ports: usize, seed: u64) -> Self {
        if params.is_empty() {
            return Self { seed, ..Self::default() };
        }
        let mut of_port = vec![None; ports];
        let lag = |(number, lag): (usize, &LagParams)| {
            let free = |port: &PortId| of_port.get(port.index()) == Some(&None);
            let members: ArrayVec<_, MAX_MEMBERS> =
                lag.members.iter().filter(free).take(MAX_MEMBERS).collect();
            for port in &members {
                of_port[port.index()] = Some(number as u8);
            }
            Lag { up: members.clone(), members, fields: lag.fields }
        };
        let lags = params.iter().take(usize::from(u8::MAX)).enumerate().map(lag).collect();
        Self { lags, of_port, seed }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.lags.is_empty()
    }

    /// That of a port, if it is in one.
    #[inline]
    pub fn of(&self, port: PortId) -> Option<&Lag> {
        let number = (*self.of_port.get(port.index())?)?;
        self.lags.get(usize::from(number))
    }

    /// The port at which stations behind this one are known.
    pub fn fdb_port(&self, port: PortId) -> PortId {
        self.of(port).and_then(|lag| lag.members.first().copied()).unwrap_or(port)
    }

    /// Notes anew which links are up.
    pub fn set_up(&mut self, is_up: impl Fn(PortId) -> bool) {
        for lag in &mut self.lags {
            lag.up = lag.members.iter().copied().filter(|port| is_up(*port)).collect();
        }
    }

    /// Of each LAG with ports in a set one member remains, which `member` says, or the first if it says none; of the one that
    /// `input` is in, none.
    pub fn one_of_each(
        &self,
        input: PortId,
        ports: PortSet,
        member: impl Fn(&Lag) -> Option<PortId>,
    ) -> PortSet {
        let mut left = ports;
        for lag in &self.lags {
            let any = lag.members.iter().fold(false, |any, port| left.remove(*port) | any);
            if any && !lag.members.contains(&input) {
                let one = member(lag).or_else(|| lag.members.first().copied());
                left = left.union(&one.into_iter().collect());
            }
        }
        left
    }

    /// Some ports and, of each LAG with one of them, all members.
    pub fn whole(&self, ports: PortSet) -> PortSet {
        let lags = self.lags.iter().map(|lag| lag.members.iter().copied().collect::<PortSet>());
        let of_lags = lags.filter(|members| !members.intersection(&ports).is_empty());
        of_lags.fold(ports, |all, members| all.union(&members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn lags() -> Lags {
        let lag = |ports: &[u16]| LagParams {
            members: ports.iter().copied().map(PortId).collect(),
            fields: HashFields::L4,
        };
        Lags::new(&[lag(&[1, 2, 3, 5]), lag(&[3, 4, 300])], 6, 7)
    }

    #[test]
    fn each_port_is_in_one_lag_and_its_stations_at_the_first_member() {
        let lags = lags();
        assert_eq!([0, 1, 2, 3, 4, 5, 9].map(|p| lags.fdb_port(PortId(p)).0), [0, 1, 1, 1, 4, 1, 9]);
        assert!(lags.of(PortId(0)).is_none() && lags.of(PortId(999)).is_none());
        let all: PortSet = (0..6).map(PortId).collect();
        let left = |input| lags.one_of_each(PortId(input), all, |lag| lag.up().last().copied());
        assert!(left(0).iter().eq([0, 4, 5].map(PortId)));
        assert!(left(2).iter().eq([0, 4].map(PortId)));
        assert!(left(4).iter().eq([0, 5].map(PortId)), "{:?}", left(4));
        assert!(lags.whole([0, 2].map(PortId).into_iter().collect()).iter().eq([0, 1, 2, 3, 5].map(PortId)));
    }

    #[test]
    fn only_the_flows_of_a_lost_member_move_and_they_come_back() {
        let (mut lags, mut rng) = (lags(), Rng::new(8));
        let hashes: Vec<u64> = (0..4000).map(|_| rng.next_u64()).collect();
        let members = |lags: &Lags| -> Vec<PortId> {
            hashes.iter().map(|hash| lags.of(PortId(1)).unwrap().member(*hash).unwrap()).collect()
        };
        let before = members(&lags);
        lags.set_up(|port| port.0 != 2);
        let after = members(&lags);
        let mut moved = [0u32; 6];
        for (was, is) in before.iter().zip(&after) {
            assert!(was == is || was.0 == 2, "{was:?} {is:?}");
            moved[is.index()] += u32::from(was != is);
        }
        // A thousand, in three parts; five standard deviations are 75.
        assert!([1, 3, 5].iter().all(|port| moved[*port as usize].abs_diff(333) < 100), "{moved:?}");
        lags.set_up(|_| true);
        assert_eq!(members(&lags), before);
        lags.set_up(|_| false);
        assert_eq!(lags.of(PortId(1)).unwrap().member(5), None);
    }
}
