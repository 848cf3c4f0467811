//! Where a neighbour's settings do not fit ours. What it does not speak of is no difference.

use super::dcbx::Algorithm;
use super::frame::Lldpdu;
use weir_dataplane::types::PRIORITIES;

/// Some count FCS and a VLAN tag into the size of a frame, others do not.
const FRAME_SLACK: u16 = 8;

/// What differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Priorities with PFC at one end only, a bit each.
    pub pfc: u8,
    /// Priorities that are scheduled otherwise, a bit each: another algorithm, or another share of the bandwidth by more than rounding.
    pub ets: u8,
    /// The longest frame differs by more than FCS and a VLAN tag.
    pub frame_size: bool,
}

impl Differences {
    /// Between what we say and what a neighbour says.
    pub fn between(ours: &Lldpdu, theirs: &Lldpdu) -> Self {
        let pfc = ours.pfc.zip(theirs.pfc).map_or(0, |(ours, theirs)| ours.enable ^ theirs.enable);
        let ets = ours.ets.as_ref().zip(theirs.ets.as_ref()).map_or(0, |(ours, theirs)| {
            let differs = |priority: &usize| {
                let ((one, share), (other, other_share)) =
                    (ours.ets.of_priority(*priority), theirs.ets.of_priority(*priority));
                one != other || one == Algorithm::Ets && share.abs_diff(other_share) > 1
            };
            (0..PRIORITIES).filter(differs).fold(0, |mask, priority| mask | 1 << priority)
        });
        let sizes = ours.max_frame.zip(theirs.max_frame);
        let frame_size = sizes.is_some_and(|(ours, theirs)| ours.abs_diff(theirs) > FRAME_SLACK);
        Self { pfc, ets, frame_size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lldp::dcbx::{EtsConfiguration, Pfc};
    use crate::lldp::fake;

    #[test]
    fn what_a_neighbour_does_not_say_differs_from_nothing() {
        let ours = fake::says("p0");
        assert_eq!(Differences::between(&ours, &ours), Differences::default());
        let silent = Lldpdu::new(ours.chassis.clone(), ours.port.clone(), 120);
        assert_eq!(Differences::between(&ours, &silent), Differences::default());
    }

    #[test]
    fn differences_are_told_by_priority() {
        let ours = fake::says("p0");
        let with = |change: &dyn Fn(&mut Lldpdu)| {
            let mut theirs = ours.clone();
            change(&mut theirs);
            Differences::between(&ours, &theirs)
        };
        let pfc = |pdu: &mut Lldpdu, enable| pdu.pfc = pdu.pfc.map(|pfc| Pfc { enable, ..pfc });
        assert_eq!(with(&|pdu| pfc(pdu, 1 << 3 | 1 << 4)), Differences { pfc: 1 << 4, ..Default::default() });
        assert_eq!(with(&|pdu| pfc(pdu, 0)).pfc, 1 << 3);
        let ets =
            |pdu: &mut Lldpdu, change: &dyn Fn(&mut EtsConfiguration)| change(pdu.ets.as_mut().unwrap());
        let share = |by: u8| with(&|pdu| ets(pdu, &|ets| ets.ets.bandwidth[3] += by)).ets;
        assert_eq!((share(1), share(2)), (0, 1 << 3));
        let strict = with(&|pdu| ets(pdu, &|ets| ets.ets.algorithm[7] = Algorithm::Strict));
        assert_eq!(strict.ets, 1 << 7);
        // The same for all priorities of a class, whatever number the class has.
        assert_eq!(with(&|pdu| ets(pdu, &|ets| ets.ets.class = [7, 6, 5, 4, 3, 2, 1, 0])).ets, 0b0001_1000);
        for (bytes, differs) in [(1518, false), (1510, false), (1526, false), (1509, true), (9216, true)] {
            assert_eq!(with(&|pdu| pdu.max_frame = Some(bytes)).frame_size, differs, "{bytes}");
        }
    }
}
