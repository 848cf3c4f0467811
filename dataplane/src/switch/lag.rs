//! Which member of a LAG ([`crate::lag`]) a frame leaves by.
//!
//! Where addresses are all that the hash looks at, the member is part of the decision about a kind of frame. Else the
//! decision says that there is one to be chosen, which begins no batch: the choice makes it a decision about a member, for
//! this frame. A switch without LAGs asks when a batch begins, and when nothing was decided about a frame.

use super::flow_cache::ForwardingDecision;
use super::receive::RxContext;
use super::{Observer, Switch};
use crate::frame::Frame;
use crate::lag::{Lag, Lags};
use crate::mmu::Admission;
use crate::portset::PortSet;
use crate::types::PortId;

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// The member of a LAG that a frame of `input` leaves by. `None`: no link is up.
    pub(super) fn member(&self, lag: &Lag, input: PortId, frame: &F) -> Option<PortId> {
        let profile = &self.ports.params(input.index()).profile;
        lag.member(profile.flow_hash(frame.bytes(), lag.fields, self.lags.seed))
    }

    /// The port a frame of `input` leaves by whose station is known at `out`.
    pub(super) fn leaves_by(&self, out: PortId, input: PortId, frame: &F) -> PortId {
        self.lags.of(out).and_then(|lag| self.member(lag, input, frame)).unwrap_or(out)
    }

    /// Those of some ports that get a copy of a frame: one of each LAG.
    #[cold]
    #[inline(never)]
    pub(super) fn one_of_each_lag(&self, input: PortId, ports: PortSet, frame: &F) -> PortSet {
        self.lags.one_of_each(input, ports, |lag| self.member(lag, input, frame))
    }

    /// Puts one frame to the group of the member it leaves by.
    #[inline(never)]
    pub(super) fn put_to_member(&mut self, rx: &mut RxContext, decision: ForwardingDecision, frame: F) {
        let member = self.leaves_by(decision.out(), rx.port, &frame);
        self.put(rx, decision.by(member), frame);
    }

    /// The link of a port went up or down. Where it is of a LAG, flows have moved.
    pub(super) fn note_lag_link(&mut self, port: PortId) {
        if self.lags.of(port).is_none() {
            return;
        }
        self.note_lag_links();
        if let Some(own) = self.ports.get_own_mut(port.index()) {
            own.stats.lag_changes += 1;
        }
    }

    pub(super) fn note_lag_links(&mut self) {
        let Self { lags, ports, .. } = self;
        lags.set_up(|port| ports.is_up(port));
    }

    /// Forgets the stations behind a port that went down, unless they are still behind others of its LAG.
    pub(super) fn forget_stations(&mut self, port: PortId) {
        if self.lags.of(port).is_none_or(|lag| lag.up().is_empty()) {
            self.fdb.flush_port(self.lags.fdb_port(port));
        }
    }

    /// Other LAGs from now on: `lags` gets those there were. Stations that are known at a port they may not be behind any
    /// more are forgotten.
    pub(super) fn change_lags(&mut self, lags: &mut Lags) {
        std::mem::swap(&mut self.lags, lags);
        self.note_lag_links();
        for id in self.ports.ids() {
            let (was, fdb_port) = (lags.fdb_port(id), self.lags.fdb_port(id));
            if was != fdb_port {
                self.fdb.flush_port(was);
            }
            if let Some(port) = self.ports.get_own_mut(id.index()) {
                port.fdb_port = fdb_port;
            }
        }
    }
}

#[cfg(test)]
#[path = "lag_tests.rs"]
mod tests;
