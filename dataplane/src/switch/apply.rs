//! Another configuration for a running switch: all of it between two bursts, or nothing.
//!
//! What is to change is made, checked and sized by another thread ([`Change`]); a shard swaps it in, so that what it
//! had goes back in the same value: nothing is allocated or freed on the way of a frame. Frames that are held
//! stay where they are and are released to where they were charged (A7, B15, E2, H11).

use super::handoff::most_in_flight_wire;
use super::params::{marking, vlans_of};
use super::tick::xon;
use super::{MirrorParams, Observer, PortParams, Switch, SwitchError, SwitchParams};
use crate::drops::DropReason;
use crate::fdb::{Fdb, FdbFull};
use crate::frame::Frame;
use crate::lag::{LagMember, Lags};
use crate::mmu::{Admission, Mmu, MmuError, MmuParams, PgIx};
use crate::pfc::bits;
use crate::pfc::generate::{Cause, Source};
use crate::pfc::watchdog::{Watchdog, WatchdogConfig};
use crate::portset::PortSet;
use crate::storm_control::Policers;
use crate::types::{Nanos, PRIORITIES, PortId};
use crate::vlan::Vlans;

/// The way from one set of parameters to another.
#[derive(Clone, Debug)]
pub struct Change {
    ports: Vec<PortParams>,
    mmu: MmuParams,
    watchdog: Option<WatchdogConfig>,
    vlans: Option<Vlans>,
    mirrors: Vec<MirrorParams>,
    lags: Lags,
    ageing: Option<Nanos>,
    /// Static keys that go.
    forget: Vec<u64>,
    /// Static entries that come or point elsewhere.
    stations: Vec<(u64, PortId)>,
    groups: Vec<(u64, PortSet)>,
}

/// Why there is no way between two sets of parameters while frames flow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The new ones make no switch.
    #[error(transparent)]
    Switch(#[from] SwitchError),
    /// What was made once stays.
    #[error("{0} cannot change while the switch runs")]
    Fixed(&'static str),
}

/// Why a shard is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The division of the buffer.
    #[error(transparent)]
    Mmu(#[from] MmuError),
    /// A static entry has no place beside those there are.
    #[error(transparent)]
    Fdb(#[from] FdbFull),
}

impl Change {
    /// From `old` to `new`.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn between(old: &SwitchParams, new: &SwitchParams) -> Result<Self, ChangeError> {
        let (a, b) = (&old.ports, &new.ports);
        let differ = |f: &dyn Fn(&PortParams, &PortParams) -> bool| a.iter().zip(b).any(|(a, b)| f(a, b));
        for (fixed, what) in [
            (a.len() != b.len(), "the number of ports"),
            (differ(&|a, b| a.shard != b.shard), "the lcore of a port"),
            (differ(&|a, b| a.tx_per_lcore != b.tx_per_lcore), "the transmit queues of a port"),
            (differ(&|a, b| a.mtu != b.mtu), "the mtu of a port"),
            (differ(&|a, b| a.profile.key_space() != b.profile.key_space()), "the format of a port"),
            (old.frames != new.frames, "the number of frames"),
            (old.fdb_capacity != new.fdb_capacity, "the capacity of the forwarding table"),
            (old.voq != new.voq, "the order within a queue"),
            (old.seed != new.seed, "the seed"),
            (old.mmu.cell_bytes != new.mmu.cell_bytes, "the size of a cell"),
            (old.mmu.least_charge != new.mmu.least_charge, "the least charge of a frame"),
        ] {
            if fixed {
                return Err(ChangeError::Fixed(what));
            }
        }
        new.mmu.shared().map_err(SwitchError::from)?;
        if new.mmu.ports() != a.len() {
            return Err(SwitchError::MmuPorts { mmu: new.mmu.ports(), ports: a.len() }.into());
        }
        let mut empty = Fdb::new(new.fdb_capacity, 0, new.seed);
        for (key, port) in &new.stations {
            empty.add_static(*key, *port).map_err(SwitchError::from)?;
        }
        for (key, ports) in &new.groups {
            empty.add_group(*key, *ports).map_err(SwitchError::from)?;
        }
        let keys = |params: &SwitchParams| -> Vec<u64> {
            let stations = params.stations.iter().map(|(key, _)| *key);
            stations.chain(params.groups.iter().map(|(key, _)| *key)).collect()
        };
        let mut stay = keys(new);
        stay.sort_unstable();
        Ok(Self {
            ports: new.ports.clone(),
            mmu: new.mmu.clone(),
            vlans: vlans_of(&new.ports),
            mirrors: new.mirrors.clone(),
            lags: Lags::new(&new.lags, new.ports.len(), new.seed),
            watchdog: new.watchdog,
            ageing: new.ageing,
            forget: keys(old).into_iter().filter(|key| stay.binary_search(key).is_err()).collect(),
            stations: new.stations.iter().filter(|s| !old.stations.contains(s)).copied().collect(),
            groups: new.groups.iter().filter(|g| !old.groups.contains(g)).copied().collect(),
        })
    }
}

impl<F: Frame, O: Observer> Switch<F, Mmu, O> {
    /// Goes over to what `change` says. Take a change once per shard: it comes back with what was there.
    ///
    /// # Errors
    /// [`ApplyError`]; the division of the buffer and all ports are as they were. Static entries that came with the
    /// change stay until the way back is applied.
    pub fn apply(&mut self, change: &mut Change, now: Nanos) -> Result<(), ApplyError> {
        for (key, port) in &change.stations {
            self.fdb.pin(|fdb| fdb.add_static(*key, *port), *key)?;
        }
        for (key, ports) in &change.groups {
            self.fdb.pin(|fdb| fdb.add_group(*key, *ports).map(|_| ()), *key)?;
        }
        self.admission.replace(&mut change.mmu)?;
        for key in &change.forget {
            self.fdb.remove(*key);
        }
        std::mem::swap(&mut self.vlans, &mut change.vlans);
        std::mem::swap(&mut self.mirrors, &mut change.mirrors);
        self.change_lags(&mut change.lags);
        self.ageing.change(change.ageing, now);
        self.fdb.set_ageing(self.ageing.ticks());
        for (i, params) in change.ports.iter_mut().enumerate() {
            self.apply_port(PortId(i as u16), params, now);
        }
        self.apply_watchdog(change.watchdog, now);
        for id in self.ports.ids() {
            self.note_slow_path_queues(id);
            if self.ports.is_own(id) {
                self.note_held(id, now);
                self.follow_link(id, now);
            }
        }
        self.go_on_flushing(now);
        // Decisions were made from what was there before.
        self.invalidate_decisions();
        Ok(())
    }

    fn apply_port(&mut self, id: PortId, new: &mut PortParams, now: Nanos) {
        self.fdb.set_learning(id, new.learning, new.learn_limit);
        if new.vlans != self.ports.params(id.index()).vlans {
            // What is known there may be in no VLAN of the port any more.
            self.fdb.flush_port(self.lags.fdb_port(id));
        }
        if let Some(port) = self.ports.remote_mut(id) {
            return std::mem::swap(&mut port.params, new);
        }
        let first = (id.index() * PRIORITIES) as u32;
        let xoff: [bool; PRIORITIES] =
            std::array::from_fn(|pg| self.admission.pg_view(PgIx(first + pg as u32)).xoff);
        let port = &mut self.ports[id.index()];
        std::mem::swap(&mut port.params, new);
        let (old, params) = (new, &port.params);
        if !old.lacp || !params.lacp {
            // What LACP has said holds no longer, or it has said nothing yet.
            port.member = LagMember::Detached;
        }
        if params.queues != old.queues || params.burst != old.burst {
            port.scheduler.reconfigure(&params.queues, params.burst);
        }
        if (params.rate, params.burst) != (old.rate, old.burst) {
            port.most_in_flight_wire = most_in_flight_wire(params);
            port.shaper = params.rate.map(|rate| crate::egress::Shaper::new(rate, params.burst));
        }
        (port.mark, port.mark_on_arrival, port.drops_early) = marking(params);
        if params.storm_control != old.storm_control {
            match (&mut port.policers, params.storm_control) {
                (Some(policers), Some(config)) => policers.change(config),
                (policers, config) => *policers = config.map(|config| Box::new(Policers::new(config))),
            }
        }
        if params.react != old.react {
            port.reaction.configure(params.react, now);
        }
        if params.generate != old.generate {
            port.generator.configure(params.generate, now);
        }
        // A group in Xoff pauses the priorities that fill it from now on, and no others.
        let (priorities, pg_queues) = (params.pg_priorities, params.pg_queues);
        for pg in (0..PRIORITIES).filter(|pg| xoff[*pg]) {
            for priority in bits(old.pg_priorities[pg] & !priorities[pg]) {
                let still =
                    (0..PRIORITIES).any(|other| xoff[other] && priorities[other] >> priority & 1 == 1);
                if !still {
                    self.ports[id.index()].generator.xon(priority, Source::Buffer);
                }
            }
            let cause = self.queues.fullest(id, pg_queues[pg]).map(Cause::from);
            for priority in bits(priorities[pg] & !old.pg_priorities[pg]) {
                self.ports[id.index()].generator.xoff(priority, Source::Buffer, cause);
            }
        }
        let Self { admission, ports, .. } = self;
        // A line that moved up may let groups go on at once.
        admission.resume_moved(&mut |pg| xon(ports, pg));
    }

    fn apply_watchdog(&mut self, config: Option<WatchdogConfig>, now: Nanos) {
        self.watch_at = 0;
        let Some(config) = config else {
            for id in self.ports.ids() {
                let Some(port) = self.ports.get_own_mut(id.index()) else { continue };
                port.watchdog = None;
                (port.storm_drop, port.storm_forward) = (0, 0);
            }
            return;
        };
        for id in self.ports.ids() {
            let Some(port) = self.ports.get_own_mut(id.index()) else { continue };
            let watchdog = port.watchdog.get_or_insert_with(|| Box::new(Watchdog::new(config, now)));
            let flush = watchdog.configure(config, now) | watchdog.drop_queues() & !port.storm_drop;
            port.storm_drop = watchdog.drop_queues();
            port.storm_forward = watchdog.forward_queues();
            for queue in bits(flush) {
                self.flush(id, queue, DropReason::WatchdogDrop);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::OwnedFrame;
    use crate::pfc::frame::PfcFrame;
    use crate::pfc::watchdog::Action;
    use crate::switch::tests::{assert_conserved, frame, receive, transmit};
    use crate::types::Mac;

    #[test]
    fn what_was_there_comes_back_and_brings_it_back() {
        let mut a = crate::switch::tests::params(4);
        a.ports[0].rate = Some(1_000_000_000);
        let mut b = a.clone();
        b.ports[0].rate = Some(2_000_000_000);
        b.mmu.total += 4096;
        b.ageing = Some(10_000_000_000);
        b.watchdog = Some(WatchdogConfig {
            queues: 1 << 3,
            poll: 100_000_000,
            detection: 200_000_000,
            restoration: 200_000_000,
            action: Action::Forward,
            recurrence: None,
            big_red_switch: false,
        });
        let mut switch = Switch::<OwnedFrame>::new(a.clone()).unwrap();
        let mut there = Change::between(&a, &b).unwrap();
        switch.apply(&mut there, 5).unwrap();
        assert_eq!(there.mmu, a.mmu);
        assert_eq!(switch.ports[0].shaper.unwrap().rate(), 2_000_000_000);
        let mut back = Change::between(&b, &a).unwrap();
        switch.apply(&mut back, 9).unwrap();
        assert_eq!((back.mmu, switch.ports[0].shaper.unwrap().rate()), (b.mmu, 1_000_000_000));
    }

    /// A port that is switched off is one without a link: what waited is dropped by name, and what comes all the same, too; the link
    /// may go and come meanwhile. With another lcore beside it, and from the start.
    #[test]
    fn a_port_is_switched_off_and_on_while_frames_flow() {
        const ONE: PortId = PortId(1);
        let on = crate::switch::tests::params(3);
        let mut off = on.clone();
        off.ports[1].admin_down = true;
        let lost = |s: &Switch<OwnedFrame>, reason: DropReason| s.stats(ONE).drops.0[reason as usize];
        let out = |s: &mut Switch<OwnedFrame>, port| transmit(s, port, 9).frames.len();
        for from_start in [false, true] {
            let mut s = Switch::<OwnedFrame>::new(if from_start { off.clone() } else { on.clone() }).unwrap();
            if !from_start {
                receive(&mut s, 1, [frame(2, 9, 0, 64)], 0);
                out(&mut s, 0);
                out(&mut s, 2);
                receive(&mut s, 0, (0..5).map(|_| frame(1, 2, 0, 64)), 0);
                s.apply(&mut Change::between(&on, &off).unwrap(), 5).unwrap();
                s.tick(5);
                assert_eq!(lost(&s, DropReason::EgressAdminDown), 5);
            }
            s.set_link(ONE, true, 6);
            receive(&mut s, 1, [frame(2, 1, 0, 64), frame(2, 9, 0, 900)], 7);
            assert_eq!((lost(&s, DropReason::IngressAdminDown), s.stats(ONE).lossless_drops()), (2, 0));
            // MAC control is no data, here as anywhere, and pauses nothing once the port is on again.
            let received = s.stats(ONE).rx_packets;
            receive(
                &mut s,
                1,
                [OwnedFrame::new(PfcFrame::uniform(0xff, u16::MAX).encode(Mac::from_u64(2)))],
                7,
            );
            assert_eq!((s.stats(ONE).rx_control, s.stats(ONE).rx_packets), (1, received));
            assert_eq!(lost(&s, DropReason::IngressAdminDown), 2);
            // Its stations are known no more.
            receive(&mut s, 0, [frame(1, 2, 0, 64)], 8);
            assert_eq!((out(&mut s, 1), out(&mut s, 2)), (0, 1));
            assert_conserved(&s);
            s.set_link(ONE, false, 10);
            s.apply(&mut Change::between(&off, &on).unwrap(), 11).unwrap();
            receive(&mut s, 0, [frame(1, 2, 0, 64)], 11);
            assert_eq!((out(&mut s, 1), out(&mut s, 2)), (0, 1), "there is no link either");
            s.set_link(ONE, true, 12);
            receive(&mut s, 1, [frame(2, 1, 0, 64)], 12);
            receive(&mut s, 0, [frame(1, 2, 0, 64)], 12);
            assert_eq!((out(&mut s, 0), out(&mut s, 1), out(&mut s, 2)), (1, 1, 0));
            assert_conserved(&s);
        }
    }

    #[test]
    fn other_lcores_hear_of_a_port_that_is_switched_off() {
        let mut on = crate::switch::tests::params(2);
        on.ports[1].shard = 1;
        let mut off = on.clone();
        off.ports[1].admin_down = true;
        let lookup =
            |s: &Switch<OwnedFrame>| s.stats(PortId(0)).drops.0[DropReason::LookupAdminDown as usize];
        for params in [&on, &off] {
            let shards = Switch::<OwnedFrame>::sharded(params, 2).unwrap();
            let [mut a, mut b]: [_; 2] = shards.try_into().unwrap();
            if params.ports[1].admin_down {
                b.tick(0);
                a.tick(0);
            } else {
                for s in [&mut a, &mut b] {
                    s.apply(&mut Change::between(&on, &off).unwrap(), 1).unwrap();
                }
                b.tick(1);
                a.tick(1);
            }
            receive(&mut a, 0, [frame(1, 2, 0, 64)], 2);
            assert_eq!(lookup(&a), 1, "{:?}", a.stats(PortId(0)).drops);
            for s in [&mut a, &mut b] {
                s.apply(&mut Change::between(&off, &on).unwrap(), 3).unwrap();
            }
            b.tick(3);
            a.tick(3);
            receive(&mut a, 0, [frame(1, 2, 0, 64)], 4);
            assert_eq!(lookup(&a), 1);
        }
    }
}
