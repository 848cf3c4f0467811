//! Stations behind one switch of the plainest kind: an output queue per station, marks, losses and pauses by
//! its depth. Stations are told apart by the last two bytes of their addresses.

use super::{Progress, Station};
use crate::checksum::ones_complement_sum;
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use weir_dataplane::pfc::frame::{Control, PfcFrame, decode};
use weir_dataplane::types::{Mac, Nanos, wire_bytes};

pub const RATE: u64 = 10_000_000_000;
pub const DELAY: Nanos = 1_000;
pub const SECOND: Nanos = 1_000_000_000;

pub fn mac(n: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, n as u8])
}

pub fn ip(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n as u8)
}

#[derive(Default)]
pub struct Queue {
    frames: VecDeque<Vec<u8>>,
    bytes: u64,
    free_at: Nanos,
    paused: bool,
}

#[derive(Clone, Copy)]
pub struct Limits {
    pub mark: u64,
    pub pause: u64,
    pub drop: u64,
    /// Every so many frames one is lost.
    pub lose: u64,
}

pub const OPEN: Limits = Limits { mark: u64::MAX, pause: u64::MAX, drop: u64::MAX, lose: u64::MAX };

pub struct Net {
    pub stations: Vec<Station>,
    queues: Vec<Queue>,
    /// (when, number) to (to the switch, station, frame).
    wires: BTreeMap<(Nanos, u64), (bool, usize, Vec<u8>)>,
    limits: Limits,
    paused: bool,
    count: u64,
    pub now: Nanos,
    pub deepest: u64,
    pub dropped: u64,
    /// Pauses each station has asked for.
    pub pfc_from: Vec<u64>,
}

impl Net {
    pub fn new<S: Into<Station>>(stations: Vec<S>, limits: Limits) -> Self {
        let stations: Vec<Station> = stations.into_iter().map(Into::into).collect();
        let queues = stations.iter().map(|_| Queue::default()).collect();
        let (wires, pfc_from) = (BTreeMap::new(), vec![0; stations.len()]);
        Self {
            stations,
            queues,
            wires,
            limits,
            paused: false,
            count: 0,
            now: 0,
            deepest: 0,
            dropped: 0,
            pfc_from,
        }
    }

    fn put(&mut self, at: Nanos, up: bool, station: usize, frame: Vec<u8>) {
        self.count += 1;
        self.wires.insert((at, self.count), (up, station, frame));
    }

    fn switch(&mut self, from: usize, frame: &[u8]) {
        if let Control::Pfc(pfc) = decode(frame) {
            self.queues[from].paused = pfc.time[3] > 0;
            self.pfc_from[from] += u64::from(pfc.time[3] > 0);
            return;
        }
        if self.count.is_multiple_of(self.limits.lose) {
            self.dropped += 1;
            return;
        }
        for to in (0..self.stations.len()).filter(|to| *to != from) {
            let queue = &mut self.queues[to];
            // Group bits of all formats.
            if (frame[0] | frame[6]) & 1 == 1 || frame[4..6] == mac(to).0[4..] {
                if queue.bytes + frame.len() as u64 > self.limits.drop {
                    self.dropped += 1;
                    continue;
                }
                queue.bytes += frame.len() as u64;
                queue.frames.push_back(frame.to_vec());
                self.deepest = self.deepest.max(queue.bytes);
            }
        }
        self.pause();
    }

    /// One pause for all senders, as deep as the deepest queue.
    fn pause(&mut self) {
        let deep = self.queues.iter().map(|queue| queue.bytes).max().unwrap_or(0);
        let quanta = match (self.paused, deep) {
            (false, deep) if deep > self.limits.pause => 0xffff,
            (true, deep) if deep < self.limits.pause / 2 => 0,
            _ => return,
        };
        self.paused = quanta > 0;
        let frame = PfcFrame::uniform(8, quanta).encode(mac(99)).to_vec();
        for to in 0..self.stations.len() {
            self.put(self.now + DELAY, false, to, frame.clone());
        }
    }

    /// Everything that happens now; the time of what comes next.
    fn turn(&mut self) -> Nanos {
        while let Some(entry) = self.wires.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (up, station, frame) = entry.remove();
            match up {
                true => self.switch(station, &frame),
                false => self.stations[station].handle_frame(&frame, self.now),
            }
        }
        for at in 0..self.stations.len() {
            while let Some(frame) = self.stations[at].poll_transmit(self.now) {
                let frame = frame.to_vec();
                let time = wire_bytes(frame.len() as u64) * 8 * SECOND / RATE;
                self.put(self.now + time + DELAY, true, at, frame);
            }
            if !self.queues[at].paused
                && self.queues[at].free_at <= self.now
                && let Some(mut frame) = self.queues[at].frames.pop_front()
            {
                let time = wire_bytes(frame.len() as u64) * 8 * SECOND / RATE;
                self.queues[at].bytes -= frame.len() as u64;
                self.queues[at].free_at = self.now + time;
                if self.queues[at].bytes > self.limits.mark {
                    mark(&mut frame);
                }
                self.put(self.now + time + DELAY, false, at, frame);
                self.pause();
            }
        }
        let now = self.now;
        let stations = self.stations.iter_mut().filter_map(|station| station.next_event(now));
        let wires = self.wires.keys().next().map(|(at, _)| *at);
        let queues = self
            .queues
            .iter()
            .filter(|queue| !queue.frames.is_empty() && !queue.paused)
            .map(|queue| queue.free_at);
        stations.chain(wires).chain(queues).min().unwrap_or(Nanos::MAX).max(self.now + 1)
    }

    /// Until all is done, or the time is up.
    pub fn run(&mut self, until: Nanos) -> bool {
        while self.now < until {
            let next = self.turn();
            if self.stations.iter().all(Station::is_done) {
                return true;
            }
            self.now = next;
        }
        false
    }

    pub fn progress(&self, station: usize) -> Vec<Progress> {
        self.stations[station].pairs().map(|pair| pair.progress).collect()
    }
}

/// Marks an ECT frame CE and mends the header checksum, as a switch does.
fn mark(frame: &mut [u8]) {
    let at = if frame[12..14] == [0x81, 0] { 18 } else { 14 };
    match (frame[at - 2], frame[at - 1]) {
        (0x08, 0) if frame[at + 1] & 3 != 0 => {
            frame[at + 1] |= 3;
            frame[at + 10..at + 12].fill(0);
            let checksum = !ones_complement_sum(&frame[at..at + 20]);
            frame[at + 10..at + 12].copy_from_slice(&checksum.to_be_bytes());
        }
        (0x86, 0xdd) if frame[at + 1] >> 4 & 3 != 0 => frame[at + 1] |= 0x30,
        _ => {}
    }
}
