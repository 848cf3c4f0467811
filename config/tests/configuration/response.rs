//! What leaves by a port after a pause has come in is no more than the number its peer's headroom is to count with, and in the
//! worst case little less: on one lcore and on two, with transmit rings of any length, frames of any, and looks as late as
//! planned.

use std::collections::VecDeque;
use weir_config::runtime::{Device, switch_params};
use weir_dataplane::frame::{Frame, OwnedFrame};
use weir_dataplane::pfc::frame::PfcFrame;
use weir_dataplane::pfc::response::{Paused, response};
use weir_dataplane::rng::Rng;
use weir_dataplane::switch::{Switch, Wire};
use weir_dataplane::turn::Platform;
use weir_dataplane::types::{BURST, Burst, Mac, Nanos, PortId, wire_bytes};

const RATE: u64 = 100_000_000_000;
const GAP: Nanos = 10_000;
const MTU: usize = 1518;
const IN: PortId = PortId(0);
const OUT: PortId = PortId(1);

/// The wire of a port and the transmit rings it takes frames from in turn, one of each lcore.
struct Nic {
    descriptors: usize,
    rings: Vec<VecDeque<u64>>,
    next: usize,
    free_at: Nanos,
    /// When a frame began to leave, and its bytes.
    log: Vec<(Nanos, u64)>,
}

impl Nic {
    /// What leaves until `now`. A byte takes 80 ps, frames less than a ns in all too little.
    fn advance(&mut self, now: Nanos) {
        while self.free_at < now
            && let Some(ring) = (0..self.rings.len())
                .map(|i| (self.next + i) % self.rings.len())
                .find(|ring| !self.rings[*ring].is_empty())
        {
            let bytes = self.rings[ring].pop_front().unwrap();
            self.next = ring + 1;
            self.log.push((self.free_at, bytes));
            self.free_at += bytes * 8_000_000_000 / RATE;
        }
        self.free_at = self.free_at.max(now);
    }
}

struct Queue<'a>(&'a mut Nic, usize);

impl Wire<OwnedFrame> for Queue<'_> {
    fn send(&mut self, frames: &mut Burst<OwnedFrame>) -> usize {
        let ring = &mut self.0.rings[self.1];
        let n = frames.len().min(self.0.descriptors - ring.len());
        ring.extend(frames.drain(..n).map(|frame| wire_bytes(frame.len() as u64)));
        n
    }

    fn send_control(&mut self, _: &[u8]) -> bool {
        true
    }
}

fn frame(len: usize) -> OwnedFrame {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0x81, 0, 3 << 5, 0, 0x88, 0xb5];
    bytes.resize(len, 0);
    OwnedFrame::new(bytes)
}

/// What is tried: lcores, frames of a transmit ring, lengths of frames, and how late each lcore may be.
#[derive(Clone, Copy, Debug)]
struct Case {
    shards: usize,
    descriptors: usize,
    lens: [usize; 2],
    late: bool,
}

/// Bytes that leave after a pause at a moment that `rng` chooses.
fn leaves(case: Case, rng: &mut Rng) -> u64 {
    let Case { shards, descriptors, lens, late } = case;
    let text = "[qos]\npreset = \"roce-lossless\"\ntrust = [\"pcp\"]\n[buffer]\nsize = \"64MiB\"\nframes = 20000\n\
         [pfc]\npoll_gap = \"10us\"\n[port_defaults]\nmtu = 1518\nrate = \"100G\"\n\
         [[port]]\nname = \"in\"\ndevice = \"net_null0\"\n[[port]]\nname = \"out\"\ndevice = \"net_null1\"\n\
         [[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"out\"\n";
    let config = weir_config::load("t.toml", text).unwrap_or_else(|e| panic!("{e:?}")).config;
    let device = |i: usize| Device {
        shard: (i % shards) as u8,
        tx_per_lcore: shards > 1,
        pfc: true,
        ..Device::default()
    };
    let params = switch_params(&config, &[0, 1].map(device), shards).unwrap();
    let mut switches = Switch::<OwnedFrame>::sharded(&params, shards).unwrap();
    let rings = vec![VecDeque::new(); shards];
    let mut nic = Nic { descriptors, rings, next: 0, free_at: 0, log: Vec::new() };
    let (mut below, mut pause) = ({ |n: u64| u64::from(rng.next_u32()) % n }, None);
    // When each lcore looked at what came last, and when it looks at that and at what may leave.
    let mut looked = vec![0; shards];
    let mut due: Vec<[Nanos; 2]> = vec![[GAP, 2 * GAP - 1]; shards];
    let stall = if late && shards > 1 { 20 * GAP } else { 0 };
    let paused_in = 30 * GAP + below(4 * GAP);
    let mut told = false;
    loop {
        let (shard, phase) =
            (0..2 * shards).map(|i| (i / 2, i % 2)).min_by_key(|(s, phase)| due[*s][*phase]).unwrap();
        let now = due[shard][phase];
        if now > paused_in + 25 * GAP {
            break;
        }
        nic.advance(now);
        if phase == 0 {
            if shard == 0 && !told {
                let held = switches.iter().map(Switch::held).sum::<u64>() as usize;
                for _ in 0..(4000usize.saturating_sub(held) / BURST).min(4) {
                    let burst = Burst::from_iter((0..BURST).map(|_| frame(lens[below(2) as usize])));
                    switches[0].receive(IN, &mut { burst }, now);
                }
            }
            if shard == OUT.index() % shards && !told && now >= paused_in {
                told = true;
                let frame = PfcFrame::uniform(1 << 3, 0xffff).encode(Mac::from_u64(2));
                switches[shard].receive(OUT, &mut Burst::from_iter([OwnedFrame::new(frame)]), now);
                pause = Some(paused_in);
            }
            switches[shard].tick(now);
            looked[shard] = std::mem::replace(&mut due[shard][0], Nanos::MAX);
        } else {
            let mut wire = Queue(&mut nic, shard);
            for _ in 0..2 {
                if shard == OUT.index() % shards {
                    switches[shard].transmit(OUT, BURST, now, &mut wire);
                } else {
                    switches[shard].transmit_granted(OUT, BURST, now, &mut wire);
                }
            }
            // The next turn begins at once; each look of a kind comes within a gap, but of an lcore that is taken away.
            let begin = now + 1;
            let until = looked[shard] + GAP;
            let next = if late { until } else { begin + below(until.saturating_sub(begin) + 1) };
            let stalled = shard == 0 && stall > 0 && begin < paused_in && begin + stall > paused_in;
            let next = next.max(begin) + if stalled { stall } else { 0 };
            due[shard] = [next, if late { next + GAP - 1 } else { next + 1 + below(GAP - 1) }];
        }
    }
    let since = pause.expect("it was told");
    nic.log.iter().filter(|(at, _)| *at >= since).map(|(_, bytes)| bytes).sum()
}

fn number(shards: usize, descriptors: usize) -> u64 {
    let port = Paused {
        rate: RATE,
        mtu: MTU as u32,
        turns: Platform::Polled.turns(2 / shards, GAP),
        tx_descriptors: descriptors as u32,
        tx_per_lcore: shards > 1,
    };
    response(&port).iter().map(|term| term.bytes).sum()
}

#[test]
fn no_more_leaves_after_a_pause_than_the_peer_is_told() {
    let rng = &mut Rng::new(7);
    for shards in [1, 2] {
        let mut share = 0;
        for descriptors in [32, 256] {
            let most = number(shards, descriptors);
            for lens in [[MTU, MTU], [60, MTU], [60, 60], [700, 900]] {
                for late in [false, true] {
                    for _ in 0..4 {
                        let case = Case { shards, descriptors, lens, late };
                        let left = leaves(case, rng);

                        assert!(left <= most, "{case:?}: {left} of {most}");
                        share = share.max(100 * left / most);
                    }
                }
            }
        }
        assert!(share >= [90, 60][shards - 1], "{shards} lcores: {share} % of the number at most");
    }
}
