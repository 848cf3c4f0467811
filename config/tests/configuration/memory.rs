//! Frames of every length and class at once: what the memory for frames is divided by is what it is made of, so nothing
//! that lossy classes send takes what lossless ones were promised.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use weir_config::Config;
use weir_config::runtime::{Device, switch_params};
use weir_dataplane::drops::DropReason;
use weir_dataplane::frame::{Frame, SizedFrames};
use weir_dataplane::pfc::frame::{Control, decode};
use weir_dataplane::rng::Rng;
use weir_dataplane::stats::PortStats;
use weir_dataplane::switch::{Switch, Wire};
use weir_dataplane::types::{BURST, Burst, Mac, Nanos, PortId};

const PORTS: usize = 4;
const LOSSLESS: u8 = 3;
/// ns between two looks of everybody.
const STEP: Nanos = 50_000;
/// Where frames for everybody go.
const ALL: u8 = 0xee;
/// Steps a host goes on sending after it was told to pause, and frames it sends in each.
const LATE: usize = 3;
const HAND: usize = 12;

/// A frame that takes an mbuf of a pool, as long as any handle to it is left.
#[derive(Clone, Debug)]
struct Pooled(Arc<InPool>);

#[derive(Debug)]
struct InPool {
    bytes: Vec<u8>,
    used: Arc<AtomicUsize>,
}

impl Pooled {
    fn new(bytes: Vec<u8>, used: &Arc<AtomicUsize>) -> Self {
        used.fetch_add(1, Relaxed);
        Self(Arc::new(InPool { bytes, used: Arc::clone(used) }))
    }
}

impl Drop for InPool {
    fn drop(&mut self) {
        self.used.fetch_sub(1, Relaxed);
    }
}

impl Frame for Pooled {
    type Row = SizedFrames<Self>;
    type Staged = Burst<Self>;

    fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        Arc::get_mut(&mut self.0).map_or(&mut [], |one| &mut one.bytes)
    }

    fn share(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn make_unique(&mut self) -> bool {
        if Arc::get_mut(&mut self.0).is_none() {
            *self = Self::new(self.0.bytes.clone(), &self.0.used);
        }
        true
    }
}

/// A host on a port: what it has received, and whether it may send.
#[derive(Default)]
struct Host {
    room: usize,
    paused: bool,
    /// What it was told in the steps it is behind.
    told: VecDeque<bool>,
    /// Numbers of the lossless frames it has received, by who sent them and to whom.
    received: BTreeMap<(u8, u8), Vec<u32>>,
    pauses: usize,
}

impl Wire<Pooled> for Host {
    fn send(&mut self, frames: &mut Burst<Pooled>) -> usize {
        let n = frames.len().min(self.room);
        for frame in frames.drain(..n) {
            let bytes = frame.bytes();
            if bytes.len() >= 22 && bytes[14] >> 5 == LOSSLESS {
                let number = u32::from_be_bytes([bytes[18], bytes[19], bytes[20], bytes[21]]);
                self.received.entry((bytes[11], bytes[5])).or_default().push(number);
            }
        }
        n
    }

    fn send_control(&mut self, frame: &[u8]) -> bool {
        let Control::Pfc(pfc) = decode(frame) else { panic!("no PFC frame") };
        if pfc.enable >> LOSSLESS & 1 == 1 {
            let paused = pfc.time[usize::from(LOSSLESS)] > 0;
            self.pauses += usize::from(paused && !self.paused);
            self.paused = paused;
        }
        true
    }
}

/// A tagged frame: of 18 bytes at least, unless it is cut.
fn frame(from: u8, to: u8, class: u8, number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x81, 0, class << 5, 0, 0x88, 0xb5];
    bytes.extend(number.to_be_bytes());
    bytes.resize(len, 0);
    bytes
}

struct Net {
    config: Config,
    shards: Vec<Switch<Pooled>>,
    hosts: Vec<Host>,
    used: Arc<AtomicUsize>,
    most_used: usize,
    sent: BTreeMap<(u8, u8), u32>,
    now: Nanos,
}

impl Net {
    fn new(shards: usize, tx_per_lcore: bool) -> Self {
        let mut text = "[qos]\npreset = \"roce-lossless\"\ntrust = [\"pcp\"]\n\
             pcp_to_tc = { \"0\" = 0, \"1\" = 1, \"2\" = 2, \"3\" = 3, \"4\" = 4, \"5\" = 5, \"6\" = 6, \"7\" = 7 }\n\
             [buffer]\nsize = \"8MiB\"\nframes = 4096\n\
             [[buffer.profile]]\nname = \"lossless\"\nxoff = \"512KiB\"\n[pfc]\npoll_gap = \"50us\"\n[port_defaults]\nrate = \"100G\"\n"
            .to_owned();
        for port in 0..PORTS {
            text += &format!("[[port]]\nname = \"p{port}\"\ndevice = \"ring\"\n");
        }
        let config = weir_config::load("test.toml", &text).unwrap_or_else(|found| panic!("{found:?}")).config;
        let device = |i: usize| Device {
            mac: Mac::from_u64(0x0200_0000_ff00 + i as u64),
            shard: (i % shards) as u8,
            pfc: true,
            tx_per_lcore,
            ..Device::default()
        };
        let devices: Vec<_> = (0..PORTS).map(device).collect();
        let params = switch_params(&config, &devices, shards).unwrap();
        let shards = Switch::sharded(&params, shards).unwrap();
        let mut net = Self {
            config,
            shards,
            hosts: (0..PORTS)
                .map(|_| Host { told: VecDeque::from([false; LATE]), ..Host::default() })
                .collect(),
            used: Arc::default(),
            most_used: 0,
            sent: BTreeMap::new(),
            now: 0,
        };
        for port in 0..PORTS {
            net.receive(port, vec![frame(port as u8, ALL, 0, 0, 64)]);
        }
        net.rest();
        net
    }

    fn receive(&mut self, port: usize, frames: Vec<Vec<u8>>) {
        let used = &self.used;
        let mut burst: Burst<_> = frames.into_iter().map(|bytes| Pooled::new(bytes, used)).collect();
        let shard = port % self.shards.len();
        self.shards[shard].receive(PortId(port as u16), &mut burst, self.now);
        self.most_used = self.most_used.max(self.used.load(Relaxed));
    }

    /// What a host sends in a step: as much of the lossless class as it may, and whatever it likes of the others.
    fn send(&mut self, port: usize, rng: &mut Rng) {
        let mut below = |n: usize| rng.next_u32() as usize % n;
        let host = &mut self.hosts[port];
        host.told.push_back(host.paused);
        let paused = host.told.pop_front() == Some(true);
        let mut burst = Vec::new();
        for _ in 0..if paused { 0 } else { below(HAND + 1) } {
            let to = [0, 0, 0, 1, 3, ALL][below(6)];
            let number = self.sent.entry((port as u8, to)).or_default();
            let len = if below(2) == 0 { 22 + below(50) } else { 22 + below(9216 - 21) };
            if usize::from(to) != port {
                burst.push(frame(port as u8, to, LOSSLESS, *number, len));
                *number += 1;
            }
        }
        // For a while they are runts alone.
        let longest = if (self.now / STEP / 50).is_multiple_of(2) { 64 } else { 9216 };
        for _ in 0..below(BURST - HAND) {
            let class = [0, 1, 2, 4, 5, 6, 7][below(7)];
            let to = [0, 0, 0, 1, 2, 3, ALL][below(7)];
            let len = 1 + below(longest);
            burst.insert(below(burst.len() + 1), frame(port as u8, to, class, 0, len));
        }
        self.receive(port, burst);
    }

    fn turn(&mut self, shard: usize) {
        for port in 0..PORTS {
            let own = port % self.shards.len() == shard;
            let (switch, host) = (&mut self.shards[shard], &mut self.hosts[port]);
            if own {
                switch.transmit(PortId(port as u16), BURST, self.now, host);
            } else {
                switch.transmit_granted(PortId(port as u16), BURST, self.now, host);
            }
        }
    }

    /// One step of everybody, with lcores that hear of each other seldom.
    fn step(&mut self, rng: &mut Rng) {
        self.now += STEP;
        for port in 0..PORTS {
            self.hosts[port].room = [8, 30, BURST, BURST][port];
            self.send(port, rng);
            let shard = rng.next_u32() as usize % self.shards.len();
            if rng.next_u32().is_multiple_of(2) {
                self.shards[shard].tick(self.now);
            }
        }
        (0..self.shards.len()).for_each(|shard| self.turn(shard));
    }

    /// Nobody sends until nothing is held.
    fn rest(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.room = BURST);
        for _ in 0..3000 {
            self.now += STEP;
            for shard in 0..self.shards.len() {
                self.shards[shard].tick(self.now);
                self.turn(shard);
            }
        }
        assert_eq!(self.used.load(Relaxed), 0, "frames are held that nobody knows of");
    }

    /// What each shard counted at its ports.
    fn stats(&self) -> impl Iterator<Item = &PortStats> {
        let ports = || (0..PORTS as u16).map(PortId);
        self.shards
            .iter()
            .flat_map(move |shard| ports().filter(|port| shard.owns(*port)).map(|port| shard.stats(port)))
    }

    fn drops(&self, reason: DropReason) -> u64 {
        self.stats().map(|stats| stats.drops.0[reason as usize]).sum()
    }

    fn lossless_drops(&self) -> u64 {
        let class = usize::from(LOSSLESS);
        self.stats().map(|stats| stats.pg_drops[class] + stats.queue_drops[class]).sum()
    }
}

fn at_random(tx_per_lcore: bool, seed: u64) {
    let rng = &mut Rng::new(seed);
    let mut net = Net::new(2, tx_per_lcore);
    for step in 0..400 {
        net.step(rng);
        assert_eq!(net.lossless_drops(), 0, "step {step}");
    }
    net.rest();
    for reason in [DropReason::IngressNoSlot, DropReason::IngressNoCopy, DropReason::HandoffFull] {
        assert_eq!(net.drops(reason), 0, "{}", reason.name());
    }
    // One burst is in hand before it is admitted.
    let frames = net.config.buffer.frames as usize;
    assert!(net.most_used <= frames + BURST, "{} mbufs in use, {frames} are promised", net.most_used);
    let refused = net.drops(DropReason::IngressShared) + net.drops(DropReason::IngressBufferFull);
    let lossy = refused + net.drops(DropReason::EgressQueueFull);
    let pauses: usize = net.hosts.iter().map(|host| host.pauses).sum();
    assert!(lossy > 10_000 && pauses > 10, "{lossy} lossy drops, {pauses} pauses: nothing was near a limit");
    for ((from, to), sent) in &net.sent {
        for host in (0..PORTS as u8).filter(|host| host != from && (to == host || *to == ALL)) {
            let received = net.hosts[usize::from(host)].received.get(&(*from, *to));
            let whole = received.is_some_and(|got| got.iter().copied().eq(0..*sent));
            assert!(whole || *sent == 0, "{from} to {to}: not all of {sent} came to {host}, in order");
        }
    }
}

#[test]
fn lossless_frames_of_any_length_survive_lossy_ones_of_any_length() {
    for seed in 0..2 {
        at_random(false, seed);
        at_random(true, 100 + seed);
    }
}

#[test]
fn runts_of_a_lossy_class_take_no_more_than_their_share() {
    let mut net = Net::new(1, false);
    let held = |net: &Net| net.shards[0].held();
    net.hosts[0].room = 0;
    for _ in 0..200 {
        net.receive(1, (0..BURST).map(|_| frame(1, 0, 0, 0, 18)).collect());
    }
    // By bytes alone all 51 200 would fit.
    let lossy = held(&net);
    let limit = net.shards[0].admission().pools().shared_size / u64::from(net.config.buffer.least_charge());
    assert!((1000..=limit).contains(&lossy), "{lossy} runts are held, {limit} fit the shared pool");
    for n in 0..100 {
        net.receive(2, vec![frame(2, 3, LOSSLESS, n, 800)]);
    }
    assert_eq!((held(&net), net.lossless_drops()), (lossy + 100, 0));
}
