//! A RoCEv2 host of a fabric: flows of headers and, of workloads `inc_all_reduce`, ranks with payloads, behind one link.

use super::rank::{Rank, RankConfig};
use crate::fabric::sim_frame::{Body, SimFrame};
use weir_dataplane::frame::Frame;
use weir_dataplane::pfc::frame::is_mac_control;
use weir_dataplane::types::Nanos;
use weir_endpoint::flow::{Arrival, Nic, NicConfig};
use weir_endpoint::roce::hca::FIRST_QPN;

/// Where the destination queue pair is in a frame: Ethernet 14, IPv4 20, UDP 8, five bytes of BTH.
const DEST_QP: usize = 47;

/// A host.
#[derive(Debug)]
pub(in crate::fabric) struct RoceHost {
    pub nic: Nic,
    config: NicConfig,
    ranks: Vec<Rank>,
    /// Who is asked first for a frame: 0 the flows, then the ranks.
    turn: usize,
}

impl RoceHost {
    /// Without flows and ranks.
    pub fn new(config: NicConfig) -> Self {
        Self { nic: Nic::new(config), config, ranks: Vec::new(), turn: 0 }
    }

    /// One more rank, whose queue pair has the next number. `false`: a value that was not checked.
    pub fn join(&mut self, config: &RankConfig) -> bool {
        let rank = Rank::new(config, self.config.rate, self.config.obey);
        let made = rank.is_some();
        self.ranks.extend(rank);
        made
    }

    /// A rank.
    pub fn rank(&self, at: usize) -> Option<&Rank> {
        self.ranks.get(at)
    }

    /// It sends from now on.
    pub fn begin(&mut self, at: usize) {
        self.ranks.get_mut(at).into_iter().for_each(Rank::begin);
    }

    /// Its flows, if it has no ranks.
    #[inline]
    pub fn only_flows(&mut self) -> Option<&mut Nic> {
        self.ranks.is_empty().then_some(&mut self.nic)
    }

    pub fn handle_frame(&mut self, frame: &SimFrame, now: Nanos) -> Option<Arrival> {
        let bytes = frame.bytes();
        if frame.is_whole() {
            let qpn = bytes.get(DEST_QP..DEST_QP + 3)?;
            let at = u32::from_be_bytes([0, qpn[0], qpn[1], qpn[2]]).checked_sub(FIRST_QPN)?;
            return self.ranks.get_mut(at as usize)?.handle_frame(bytes, now);
        }
        if is_mac_control(bytes) {
            self.ranks.iter_mut().for_each(|rank| rank.handle_pause(bytes, now));
        }
        self.nic.handle_frame(bytes, frame.stamp(), now)
    }

    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Body> {
        let all = self.ranks.len() + 1;
        (0..all).find_map(|step| {
            let at = (self.turn + step) % all;
            let frame = match at.checked_sub(1) {
                None => self.nic.poll_transmit(now).map(Body::Headers),
                Some(rank) => self.ranks[rank].poll_transmit(now).map(Body::Whole),
            };
            self.turn = if frame.is_some() { at + 1 } else { self.turn };
            frame
        })
    }

    pub fn next_transmit(&mut self, now: Nanos) -> Option<Nanos> {
        if self.ranks.is_empty() {
            return self.nic.next_transmit(now);
        }
        let ranks = self.ranks.iter().filter_map(|rank| rank.next_transmit(now)).min();
        self.nic.next_transmit(now).into_iter().chain(ranks).min()
    }

    /// Nothing has happened since [`Self::next_transmit`] was asked last that lets it send sooner than that has said.
    #[inline]
    pub fn is_as_told(&self) -> bool {
        self.ranks.is_empty() && self.nic.is_as_told()
    }

    /// A failure that time has brought to a rank.
    pub fn take_late(&mut self) -> Option<Arrival> {
        self.ranks.iter_mut().find_map(Rank::take_late)
    }

    /// Frames for ranks that belong to nothing.
    pub fn unexpected(&self) -> u64 {
        self.ranks.iter().map(Rank::unexpected).sum()
    }
}
