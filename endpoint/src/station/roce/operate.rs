//! Looking at queue pairs of a station while it runs, and changing how they react to congestion (CC-015, CC-024).

use super::{Connection, Rate, Station};
use crate::dcqcn::access::{self, AccessError};
use crate::dcqcn::firmware::{Dcqcn, DcqcnError, RateController};
use crate::dcqcn::registers::Register;
use crate::dcqcn::scheme::UNLIMITED;
use crate::dcqcn::trace::Trace;
use crate::roce::wire::Qpn;
use thiserror::Error;
use weir_dataplane::types::Nanos;

/// Why an order is refused. Nothing is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OrderError {
    /// No such queue pair.
    #[error("there is no queue pair {}", .0.0)]
    NoQueuePair(Qpn),
    /// Its rate is fixed.
    #[error("queue pair {} has a fixed rate: set [dcqcn] parameters in the host's file", .0.0)]
    Fixed(Qpn),
    /// What does not fit.
    #[error(transparent)]
    Dcqcn(#[from] DcqcnError),
    /// An address, or what is to stand there.
    #[error(transparent)]
    Access(AccessError),
}

/// What queue pairs are to do otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A queue pair reacts in another way: [`Station::configure`].
    Configure(Qpn, Rate),
    /// Address of a register and what is to stand there: [`Station::write`].
    Write(u64, u64),
}

impl Station {
    fn pair(&self, qpn: Qpn) -> Option<&Connection> {
        self.pairs.iter().find(|pair| pair.qpn == qpn)
    }

    fn pair_of(&self, qpn: Qpn) -> Result<usize, OrderError> {
        self.pairs.iter().position(|pair| pair.qpn == qpn).ok_or(OrderError::NoQueuePair(qpn))
    }

    fn control_of(&mut self, qpn: Qpn) -> Result<(usize, &mut RateController), OrderError> {
        let at = self.pair_of(qpn)?;
        Ok((at, self.pairs[at].control.as_mut().ok_or(OrderError::Fixed(qpn))?))
    }

    /// How a queue pair reacts to congestion now; `None`: it has a fixed rate, or is not there.
    pub fn dcqcn(&self, qpn: Qpn) -> Option<&Dcqcn> {
        Some(self.pair(qpn)?.control.as_ref()?.settings())
    }

    /// The registers of a queue pair at `now`, with their addresses.
    pub fn registers(&self, qpn: Qpn, now: Nanos) -> Vec<(Register, u64, u32)> {
        let at = self.pair_of(qpn).ok();
        let Some((at, control)) = at.and_then(|at| Some((at, self.pairs[at].control.as_ref()?))) else {
            return Vec::new();
        };
        let row = |register: Register| {
            Some((register, register.address(at as u64 + 1)?, control.read(register, now)))
        };
        Register::ALL.into_iter().filter_map(row).collect()
    }

    /// The rate that a queue pair was made with: at most, or always, bits/s; `None`: it is not there.
    pub fn highest_rate(&self, qpn: Qpn) -> Option<u64> {
        Some(match self.pair(qpn)?.config.rate {
            Rate::Fixed(rate) => rate,
            Rate::Dcqcn(dcqcn) => dcqcn.params.max_rate,
        })
    }

    /// The target of a queue pair's rate, bits/s, at least that; `None`: it has a fixed rate, or is not there.
    pub fn target(&self, qpn: Qpn) -> Option<u64> {
        Some(self.pair(qpn)?.control.as_ref()?.target())
    }

    /// Has a queue pair react in another way from `now` on, or not at all. A fixed rate ends its record; what reacts after one
    /// begins as a new queue pair does.
    ///
    /// # Errors
    /// No such queue pair, or what does not fit; nothing is changed.
    pub fn configure(&mut self, qpn: Qpn, rate: &Rate, now: Nanos) -> Result<(), OrderError> {
        let at = self.pair_of(qpn)?;
        let pair = &mut self.pairs[at];
        match (rate, &mut pair.control) {
            (Rate::Dcqcn(dcqcn), Some(control)) => control.configure(dcqcn, now)?,
            (Rate::Dcqcn(dcqcn), none) => *none = Some(RateController::new(dcqcn, now)?),
            (Rate::Fixed(rate), control) => {
                *control = None;
                self.hca.set_rate(qpn, *rate);
                self.hca.set_outstanding(qpn, UNLIMITED);
            }
        }
        self.apply_rate(at);
        Ok(())
    }

    /// Whether these changes can be made, one after the other.
    ///
    /// # Errors
    /// The place of the first one that is refused, and why.
    pub fn can(&self, changes: &[Change], now: Nanos) -> Result<(), (usize, OrderError)> {
        let settings_of = |pair: &Connection| pair.control.as_ref().map(|control| *control.settings());
        let mut settings: Vec<_> = self.pairs.iter().map(settings_of).collect();
        let change =
            |(place, change)| self.try_on(&mut settings, change, now).map_err(|error| (place, error));
        changes.iter().enumerate().try_for_each(change)
    }

    /// A change to what queue pairs are told, by which they do not go.
    fn try_on(&self, settings: &mut [Option<Dcqcn>], change: &Change, now: Nanos) -> Result<(), OrderError> {
        let fits = |at: usize, dcqcn: &Dcqcn| match &self.pairs[at].control {
            Some(control) => control.can_configure(dcqcn, now),
            None => RateController::new(dcqcn, now).map(drop),
        };
        match *change {
            Change::Configure(qpn, rate) => {
                let at = self.pair_of(qpn)?;
                settings[at] = match rate {
                    Rate::Fixed(_) => None,
                    Rate::Dcqcn(dcqcn) => Some(dcqcn),
                };
                settings[at].iter().try_for_each(|dcqcn| fits(at, dcqcn))?;
            }
            Change::Write(address, value) => {
                if access::tell(settings, address, value).map_err(|error| self.named(error))? {
                    let told = settings.iter().enumerate();
                    told.filter_map(|(at, dcqcn)| Some((at, dcqcn.as_ref()?)))
                        .try_for_each(|(at, dcqcn)| fits(at, dcqcn))?;
                }
            }
        }
        Ok(())
    }

    /// Sets the least time between two CNPs that a queue pair answers marks with, ns.
    ///
    /// # Errors
    /// No such queue pair.
    pub fn set_cnp_interval(&mut self, qpn: Qpn, interval: Nanos) -> Result<(), OrderError> {
        let at = self.pair_of(qpn)?;
        self.pairs[at].config.cnp_interval = interval;
        self.hca.set_cnp_interval(qpn, interval);
        Ok(())
    }

    /// Least time between two CNPs of a queue pair, ns; `None`: it is not there.
    pub fn cnp_interval(&self, qpn: Qpn) -> Option<Nanos> {
        self.hca.cnp_interval(qpn)
    }

    /// Reads the register at an address; one that is shared as the first queue pair has it.
    ///
    /// # Errors
    /// Nothing stands there.
    pub fn read(&self, address: u64, now: Nanos) -> Result<u64, OrderError> {
        let controls: Vec<_> = self.pairs.iter().map(|pair| pair.control.as_ref()).collect();
        access::read(&controls, address, now).map_err(|error| self.named(error))
    }

    /// Writes the register at an address, for all queue pairs if they share it.
    ///
    /// # Errors
    /// Nothing stands there, or what does not fit.
    pub fn write(&mut self, address: u64, value: u64, now: Nanos) -> Result<(), OrderError> {
        let mut controls: Vec<_> = self.pairs.iter_mut().map(|pair| pair.control.as_mut()).collect();
        access::write(&mut controls, address, value, now).map_err(|error| self.named(error))?;
        (0..self.pairs.len()).for_each(|at| self.apply_rate(at));
        Ok(())
    }

    /// The same with the number of the queue pair.
    fn named(&self, error: AccessError) -> OrderError {
        match error {
            AccessError::Fixed(at) => OrderError::Fixed(self.pairs[at].qpn),
            other => OrderError::Access(other),
        }
    }

    /// Starts to record what moves the rate of a queue pair, from an empty trace, or stops (CC-021).
    ///
    /// # Errors
    /// No such queue pair, or one with a fixed rate.
    pub fn record(&mut self, qpn: Qpn, on: bool) -> Result<(), OrderError> {
        let (_, control) = self.control_of(qpn)?;
        match on {
            true => control.start_trace(),
            false => control.stop_trace(),
        }
        Ok(())
    }

    /// What was recorded of a queue pair.
    pub fn trace(&self, qpn: Qpn) -> Option<&Trace> {
        self.pair(qpn)?.control.as_ref()?.trace()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dcqcn::reaction_point::Params;
    use crate::dcqcn::registers::{At, GlobalRegister, MASK_BIT, TIMER_START_BIT};
    use crate::dcqcn::scheme::{Outstanding, Scheme};
    use crate::station::roce::tests::{config, pair};
    use crate::station::roce::{PairConfig, Remote};

    const LINE: u64 = 100_000_000_000;

    /// Three queue pairs: two that react, one that does not.
    fn station() -> (Station, [Qpn; 3]) {
        let mut station = Station::new(config(0));
        let dcqcn = Dcqcn {
            outstanding: Outstanding::adapter(300_000),
            firmware_period: 10_000,
            ..Dcqcn::plain(Params { cut_period: 50_000, ..Params::paper(LINE) })
        };
        let mut nth = 0;
        let qpns = [Rate::Dcqcn(dcqcn), Rate::Fixed(LINE), Rate::Dcqcn(dcqcn)].map(|rate| {
            let memory = Remote::of_pair(nth);
            nth += 1;
            station.add(PairConfig { rate, memory, ..pair(1, 0x11) }).unwrap()
        });
        (station, qpns)
    }

    #[test]
    fn cc015_cc016_registers_of_a_queue_pair_are_read_and_written() {
        let (mut station, [first, fixed, third]) = station();
        let address = |register: Register, nth| register.address(nth).unwrap();
        assert_eq!(station.read(address(Register::Rate, 1), 0), Ok(12_800 << 16 | 12_800));
        station.write(address(Register::Rate, 3), 6_400 << 16 | 3_200, 0).unwrap();
        station.write(address(Register::Alpha, 3), 0x3ff, 0).unwrap();
        for (register, value) in [(Register::TimeAndByteCount, 2 << 16 | 3), (Register::ByteCounter, 100)] {
            station.write(address(register, 3), value, 0).unwrap();
            assert_eq!(station.read(address(register, 3), 0), Ok(value));
        }
        let shown: Vec<u32> = station.registers(third, 0).iter().map(|(.., value)| *value).collect();
        assert_eq!(shown, [0, 6_400 << 16 | 3_200, 0x3ff, 100, 2 << 16 | 3, 3_200, 0]);
        assert_eq!(station.hca.rate(third), Some(25_000_000_000), "and is kept to");
        assert_eq!(station.hca.rate(first), Some(LINE), "its own alone");
        // Below the line rate the timer is started by hand (CC-017).
        assert_eq!(station.next_event(0), None);
        station.write(0x40_0200, TIMER_START_BIT, 0).unwrap();
        assert!(station.next_event(0).is_some());
        station.write(0x40_0000, MASK_BIT, 0).unwrap();
        assert_eq!((station.read(0x40_0000, 0), station.read(0x40_0200, 0)), (Ok(MASK_BIT), Ok(0)));
        assert_eq!(station.read(address(Register::Rate, 2), 0), Err(OrderError::Fixed(fixed)));
        for wrong in [address(Register::Rate, 4), 0x20_0208, 0x60_0038] {
            assert_eq!(station.write(wrong, 1, 0), Err(OrderError::Access(AccessError::Address(wrong))));
        }
        for (register, value) in [
            (address(Register::Rate, 1), 1 << 32),
            (address(Register::Alpha, 1), 0x400),
            (address(Register::CcRate, 1), 1 << 16),
            (0x40_0000, 1),
            (GlobalRegister::Alpha as u64, 1 << 16),
            (GlobalRegister::Increase as u64, 1 << 51),
            (GlobalRegister::CnpTimer as u64, 1 << 32),
        ] {
            let before = station.read(register, 0);
            let wide = At::address(register).unwrap().bits();
            let refused = OrderError::Access(AccessError::Wide(register, value, wide));
            assert_eq!(
                (station.write(register, value, 0), station.read(register, 0)),
                (Err(refused), before)
            );
        }
    }

    #[test]
    fn cc024_what_queue_pairs_share_is_set_at_run_time_for_all_or_none() {
        let (mut station, [first, _, third]) = station();
        let slow = Params { max_rate: LINE / 10, initial_rate: LINE / 10, ..Params::paper(LINE / 10) };
        let slow = Rate::Dcqcn(Dcqcn { params: slow, ..*station.dcqcn(third).unwrap() });
        station.configure(third, &slow, 0).unwrap();
        assert_eq!(station.hca.rate(third), Some(LINE / 10));
        station.write(GlobalRegister::Alpha as u64, 77, 0).unwrap();
        let of = |station: &Station, qpn| *station.dcqcn(qpn).unwrap();
        assert_eq!(of(&station, first).params.alpha_period, 77_000);
        assert_eq!(
            (of(&station, third).params.alpha_period, of(&station, third).params.max_rate),
            (77_000, LINE / 10)
        );
        let control = Scheme::FirmwareRate.enable_bits() | 4;
        station.write(GlobalRegister::Control as u64, control, 0).unwrap();
        assert_eq!(station.read(GlobalRegister::Control as u64, 0), Ok(control));
        assert_eq!(station.hca.rate(first), Some(LINE), "the rate goes on");
        let before = of(&station, first);
        assert!(station.write(GlobalRegister::Alpha as u64, 0, 0).is_err());
        assert!(station.write(GlobalRegister::Control as u64, 1 << 24, 0).is_err());
        assert_eq!(of(&station, first), before);
    }

    #[test]
    fn cc024_reactions_are_switched_off_and_on() {
        let (mut station, [first, fixed, _]) = station();
        let held = *station.dcqcn(first).unwrap();
        let slow = Rate::Dcqcn(Dcqcn {
            params: Params { max_rate: LINE / 2, initial_rate: LINE / 2, ..held.params },
            ..held
        });
        station.configure(first, &slow, 0).unwrap();
        assert_eq!(station.highest_rate(first), Some(LINE), "whatever bounds it now");
        station.configure(first, &Rate::Dcqcn(held), 0).unwrap();
        let address = Register::Rate.address(1).unwrap();
        station.write(address, 6_400 << 16 | 3_200, 0).unwrap();
        assert_eq!((station.hca.rate(first), station.target(first)), (Some(LINE / 4), Some(LINE / 2)));
        let most = station.highest_rate(first).unwrap();
        station.configure(first, &Rate::Fixed(most), 0).unwrap();
        assert_eq!(
            (station.hca.rate(first), station.dcqcn(first), station.target(first)),
            (Some(LINE), None, None)
        );
        assert_eq!(station.read(address, 0), Err(OrderError::Fixed(first)));
        let most = station.highest_rate(fixed).unwrap();
        let slow = Params { initial_rate: most / 2, ..held.params };
        station.configure(fixed, &Rate::Dcqcn(Dcqcn { params: slow, ..held }), 0).unwrap();
        assert_eq!((station.hca.rate(fixed), station.highest_rate(fixed)), (Some(LINE / 2), Some(LINE)));
        let none = Rate::Dcqcn(Dcqcn { firmware_period: 0, ..held });
        assert!(station.configure(first, &none, 0).is_err() && station.dcqcn(first).is_none());
    }

    /// What can be done is known before it is, of queue pairs that react and of those that do not.
    #[test]
    fn orders_are_looked_at_without_a_change() {
        let (mut station, [first, fixed, _]) = station();
        let held = *station.dcqcn(first).unwrap();
        let [low, high] = [LINE / 2, 2 * LINE]
            .map(|min_rate| Rate::Dcqcn(Dcqcn { params: Params { min_rate, ..held.params }, ..held }));
        for qpn in [first, fixed] {
            let before = station.dcqcn(qpn).copied();
            assert_eq!(station.can(&[Change::Configure(qpn, low)], 0), Ok(()));
            let (place, refused) = station.can(&[Change::Configure(qpn, high)], 0).unwrap_err();
            assert_eq!((place, station.dcqcn(qpn).copied()), (0, before));
            assert_eq!(station.configure(qpn, &high, 0), Err(refused));
        }
        let nobody = [Change::Configure(first, low), Change::Configure(Qpn(99), low)];
        assert_eq!(station.can(&nobody, 0), Err((1, OrderError::NoQueuePair(Qpn(99)))));
        let rate = Register::Rate.address(1).unwrap();
        let before = station.read(rate, 0);
        assert_eq!(station.can(&[Change::Write(rate, 0x64_0032)], 0), Ok(()));
        assert_eq!(station.read(rate, 0), before);
        let (_, refused) = station.can(&[Change::Write(rate, 1 << 32)], 0).unwrap_err();
        assert_eq!(station.write(rate, 1 << 32, 0), Err(refused));
        // Each on top of those before it.
        let slow = Change::Write(GlobalRegister::Increase as u64, 1000 << 32 | 1280 << 16 | 300);
        assert_eq!(station.can(&[slow, Change::Write(rate, 0x64_0032)], 0), Ok(()));
        assert!(matches!(
            station.can(&[Change::Configure(first, low), slow], 0),
            Err((1, OrderError::Access(_)))
        ));
        let off = Change::Configure(first, Rate::Fixed(LINE));
        assert_eq!(station.can(&[off, Change::Write(rate, 0)], 0), Err((1, OrderError::Fixed(first))));
        assert_eq!(station.dcqcn(first), Some(&held));
    }

    #[test]
    fn cc021_a_trace_is_started_and_stopped() {
        let (mut station, [first, fixed, _]) = station();
        assert!(station.trace(first).is_none());
        station.record(first, true).unwrap();
        assert!(station.trace(first).unwrap().is_running());
        station.record(first, false).unwrap();
        let trace = station.trace(first).unwrap();
        assert!(!trace.is_running() && trace.initial().current == LINE);
        assert_eq!(station.record(fixed, true), Err(OrderError::Fixed(fixed)));
        assert_eq!(station.record(Qpn(9), true), Err(OrderError::NoQueuePair(Qpn(9))));
    }
}
