//! Within one queue pair and direction nothing overtakes but CNPs: in every preset, on one shard and on two, with the frames of
//! a shard sent by itself or by the owner of the port, through pauses, full wires, changes of configuration and of links.

use std::collections::HashMap;
use weir_config::runtime::{Device, switch_params};
use weir_dataplane::frame::{Frame, OwnedFrame};
use weir_dataplane::pfc::frame::PfcFrame;
use weir_dataplane::rng::Rng;
use weir_dataplane::switch::{Change, Switch, SwitchParams, Wire};
use weir_dataplane::types::{BURST, Burst, Mac, Nanos, PortId};

const PORTS: u16 = 4;
/// Hosts 2n and 2n + 1 are behind port n.
const HOSTS: u64 = 8;
const PAIRS: u64 = 32;

/// What the frames of a preset look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// IPv4, UDP, BTH; classes by DSCP.
    Roce,
    /// 802.1Q, IPv4, UDP, RH; classes by PCP.
    RcLink,
    /// AFH_Lite: classes by traffic class, no transport header.
    Lite,
}

const PRESETS: [(&str, Look); 5] = [
    ("preset = \"roce-lossless\"", Look::Roce),
    ("preset = \"roce-semi-lossless\"", Look::Roce),
    ("preset = \"paxi-standard\"", Look::RcLink),
    ("preset = \"paxi-lite\"", Look::Lite),
    ("control_tc = 6", Look::Roce),
];

/// First byte of the transport header: WRITE, ACK or NAK, READ request and responses, atomic and its answer; last CNP.
const BTH: [u8; 9] = [0x0a, 0x11, 0x0c, 0x0d, 0x0e, 0x10, 0x13, 0x12, 0x81];
const RH: [u8; 9] = [0x00, 0x40, 0x01, 0x02, 0x03, 0x3f, 0xc0, 0x7f, 0x80];
const CNP: usize = 8;

/// One direction of one queue pair.
type Flow = (u64, bool);

fn ends((pair, back): Flow) -> (u64, u64) {
    let (a, b) = (pair % HOSTS, (pair + 1 + pair / HOSTS) % HOSTS);
    if back { (b, a) } else { (a, b) }
}

/// The frame at place `number` of a flow, or a CNP.
fn frame(look: Look, flow: Flow, kind: usize, number: u32, len: usize) -> Vec<u8> {
    let (from, to) = ends(flow);
    let mac = |host: u64| Mac::from_u64(0x0200_0000_0000 + host).0;
    // A queue pair has one class. CNPs have their own.
    let (dscp, channel) = match kind {
        CNP => (48, 5),
        _ => ([26, 26, 0, 48][flow.0 as usize % 4], [3, 4, 2, 1, 0, 6][flow.0 as usize % 6]),
    };
    let mut bytes = Vec::new();
    if look == Look::Lite {
        // Flags, then stations and the traffic class in their places; no group.
        bytes.extend([0, 0, 0, 0, 0, to as u8 + 1, channel << 2, 0, 0, 0, 0, from as u8 + 1]);
    } else {
        bytes.extend(mac(to).into_iter().chain(mac(from)));
        if look == Look::RcLink {
            bytes.extend([0x81, 0x00, channel << 5, 0]);
        }
        let total = (len - bytes.len() - 2) as u16;
        bytes.extend([0x08, 0x00, 0x45, dscp << 2 | 2]);
        bytes.extend(total.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from as u8, 10, 0, 0, to as u8]);
        bytes.extend([0xc0, 0, 0x12, 0xb7]);
        bytes.extend((total - 20).to_be_bytes());
        bytes.extend([0, 0, if look == Look::Roce { BTH[kind] } else { RH[kind] }]);
    }
    bytes.resize(len - 8, 0);
    bytes.extend([kind as u8, flow.0 as u8, u8::from(flow.1), 0]);
    bytes.extend(number.to_be_bytes());
    bytes
}

/// Where each flow stands: the number of the next frame, and of the last one that left, by port.
#[derive(Default)]
struct Flows {
    next: HashMap<Flow, u32>,
    left: HashMap<(Flow, u16), u32>,
    seen: u64,
    cnps: u64,
}

/// A port's wire: takes so many frames at a time, and looks at their order.
struct Line<'a> {
    port: u16,
    room: usize,
    flows: &'a mut Flows,
}

impl Wire<OwnedFrame> for Line<'_> {
    fn send(&mut self, frames: &mut Burst<OwnedFrame>) -> usize {
        let n = frames.len().min(self.room);
        for frame in frames.drain(..n) {
            let tail = &frame.bytes()[frame.len() - 8..];
            let (kind, flow) = (usize::from(tail[0]), (u64::from(tail[1]), tail[2] == 1));
            let number = u32::from_be_bytes(tail[4..].try_into().unwrap());
            if kind == CNP {
                self.flows.cnps += 1;
                continue;
            }
            self.flows.seen += 1;
            let last = self.flows.left.insert((flow, self.port), number);
            assert!(last.is_none_or(|last| last < number), "{flow:?}: {number} behind {last:?}, kind {kind}");
        }
        n
    }

    fn send_control(&mut self, _: &[u8]) -> bool {
        true
    }
}

fn params(qos: &str, more: &str, shards: usize, tx_per_lcore: bool) -> SwitchParams {
    let ports = (0..PORTS).map(|n| format!("[[port]]\nname = \"p{n}\"\ndevice = \"ring\"\nrate = \"10G\"\n"));
    let text = format!("[qos]\n{qos}\n[buffer]\nsize = \"40MiB\"\n{more}\n{}", ports.collect::<String>());
    let config = weir_config::load("order.toml", &text).unwrap_or_else(|e| panic!("{text}: {e:?}")).config;
    let device =
        |n: usize| Device { shard: (n % shards) as u8, tx_per_lcore, pfc: true, ..Device::default() };
    let devices: Vec<_> = (0..usize::from(PORTS)).map(device).collect();
    let mut params = switch_params(&config, &devices, shards).unwrap();
    params.frames = 4000;
    params
}

fn run((qos, look): (&str, Look), shards: usize, tx_per_lcore: bool, seed: u64) -> Flows {
    let rng = &mut Rng::new(seed);
    // The same classes in both; limits, weights of queues and ages differ.
    let slow = "[[scheduler]]\nname = \"slow\"\ntype = \"DWRR\"\npir = \"3G\"\n[[queue]]\nqueues = \"0-3\"\nscheduler = \"slow\"\n";
    let other = format!("[pfc]\npause_quanta = 1000\n{slow}");
    let mut both = ["", other.as_str()].map(|more| params(qos, more, shards, tx_per_lcore));
    both[1].ageing = Some(20_000);
    let mut switches = Switch::<OwnedFrame>::sharded(&both[0], shards).unwrap();
    let (mut flows, mut now, mut now_in_force): (_, Nanos, _) = (Flows::default(), 0, 0);
    let (mut up, mut room) = ([true; PORTS as usize], [BURST; PORTS as usize]);
    for step in 0..900 {
        now += u64::from(rng.next_u32() % 4000);
        let (port, shard) = (rng.next_u32() as usize % usize::from(PORTS), rng.next_u32() as usize % shards);
        let id = PortId(port as u16);
        match rng.next_u32() % 32 {
            0 => {
                up[port] = !up[port];
                switches[port % shards].set_link(id, up[port], now);
            }
            1 => {
                let there = 1 - now_in_force;
                for switch in &mut switches {
                    let mut change = Change::between(&both[now_in_force], &both[there]).unwrap();
                    switch.apply(&mut change, now).unwrap();
                }
                now_in_force = there;
            }
            2 => room[port] = [0, 1, 7, BURST][rng.next_u32() as usize % 4],
            3 => {
                let time = std::array::from_fn(|_| (rng.next_u32() % 200) as u16);
                let pause = PfcFrame { enable: rng.next_u32() as u8, time }.encode(Mac::from_u64(2));
                let mut burst = Burst::from_iter([OwnedFrame::new(pause)]);
                switches[port % shards].receive(id, &mut burst, now);
            }
            4..=14 => {
                let mut burst = Burst::new();
                for _ in 0..rng.next_u32() as usize % [6, 100, BURST][step % 3] {
                    let flow = (u64::from(rng.next_u32()) % PAIRS, rng.next_u32() % 2 == 1);
                    if ends(flow).0 / 2 != port as u64 {
                        continue;
                    }
                    let kind = rng.next_u32() as usize % BTH.len();
                    let next = flows.next.entry(flow).or_default();
                    *next += u32::from(kind != CNP);
                    let len = [80, 80, 80, 300, 1100][rng.next_u32() as usize % 5];
                    burst.push(OwnedFrame::new(frame(look, flow, kind, *next, len)));
                }
                switches[port % shards].receive(id, &mut burst, now);
            }
            _ => {
                switches[shard].tick(now);
                for port in 0..PORTS {
                    let mut line = Line { port, room: room[usize::from(port)], flows: &mut flows };
                    if usize::from(port) % shards == shard {
                        switches[shard].transmit(PortId(port), BURST, now, &mut line);
                    } else {
                        switches[shard].transmit_granted(PortId(port), BURST, now, &mut line);
                    }
                }
            }
        }
    }
    flows
}

#[test]
fn nothing_overtakes_within_a_queue_pair_but_cnps() {
    for (n, preset) in PRESETS.into_iter().enumerate() {
        for (shards, tx_per_lcore) in [(1, false), (2, false), (2, true)] {
            let (mut seen, mut cnps) = (0, 0);
            for seed in 0..3 {
                let flows = run(preset, shards, tx_per_lcore, seed + 10 * n as u64);
                seen += flows.seen;
                cnps += flows.cnps;
            }
            assert!(seen > 2000 && cnps > 100, "{preset:?}, {shards} shards: {seen} frames, {cnps} CNPs");
        }
    }
}
