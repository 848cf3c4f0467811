//! A capture of a switch that is polled like one that runs, put through a switch in virtual time: the same, and with
//! another configuration different where that says.

mod compare;
mod depth;
mod file;
mod lookup;
mod mark;
mod order;
mod others;
mod phase;
mod verdict;

use super::*;
use std::ops::Range;
use weir_config::runtime::{Device, switch_params};
use weir_dataplane::frame::{Frame, OwnedFrame};
use weir_dataplane::switch::{Filter, Tap, TapOrder, Tapped, Wire};
use weir_dataplane::types::{BURST, Burst, Mac};
use weir_mgmt::admin::comment::only;
use weir_mgmt::admin::watch::Watch;
use weir_mgmt::api::documents::WatchLine;

/// Time between two polls of a port.
const TURN: Nanos = 1_000;
/// A frame takes ten turns of a port of 1 Gbit/s, with FCS, preamble and gap.
const FRAME_BYTES: usize = 1226;
/// Turns in which frames come.
const ROUNDS: u64 = 200;

struct Out;

impl Wire<OwnedFrame> for Out {
    fn send(&mut self, frames: &mut Burst<OwnedFrame>) -> usize {
        let all = frames.len();
        frames.clear();
        all
    }

    fn send_control(&mut self, _frame: &[u8]) -> bool {
        true
    }
}

/// Two ports. A lossless queue marks above 20 kB, without chance.
fn text() -> String {
    String::from(
        "[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"2MiB\"\n[[buffer.profile]]\nname = \"lossless\"\ndynamic_th = -5\n\
         [[wred]]\nname = \"roce\"\n\
         kmin = \"20KB\"\nkmax = \"20KB\"\npmax = \"100%\"\n[port_defaults]\nrate = \"1G\"\nmtu = 1600\n\
         [[port]]\nname = \"p0\"\ndevice = \"net_null0\"\n[[port]]\nname = \"p1\"\ndevice = \"net_null1\"\n",
    )
}

fn load(text: &str) -> Config {
    match weir_config::load("c.toml", text) {
        Ok(loaded) => loaded.config,
        Err(found) => panic!("{}", found.iter().map(ToString::to_string).collect::<String>()),
    }
}

fn frame(from: u8, to: u8, dscp: u8) -> OwnedFrame {
    let mut bytes = vec![0; FRAME_BYTES];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
    bytes[12..16].copy_from_slice(&[8, 0, 0x45, dscp << 2 | 2]);
    bytes[16..18].copy_from_slice(&(FRAME_BYTES as u16 - 14).to_be_bytes());
    bytes[22..24].copy_from_slice(&[64, 17]);
    OwnedFrame::new(bytes)
}

/// All frames that come to p0.
fn captured(config: &Config) -> Vec<u8> {
    watched(config, &json!({ "port": "p0", "count": 1_000_000, "bytes": 256 }))
}

/// What a worker with a tap on p0 sees: bursts of two classes, four times what p1 can carry. Written as `weir capture` does for this order.
fn watched(config: &Config, order: &Value) -> Vec<u8> {
    watched_for(config, order, (ROUNDS, 1, 0), |_, n| n % 2 == 0)
}

/// The same for so many turns, of which ports are looked at in every `nth` alone, and bursts but for the first come `late` turns later. `is_lossless`: the class of a frame, by the round of its
/// burst and its place there.
fn watched_for(
    config: &Config,
    order: &Value,
    turns: (u64, u64, u64),
    is_lossless: fn(u64, u64) -> bool,
) -> Vec<u8> {
    watched_but_for(0..0, config, order, turns, is_lossless)
}

/// The same of a worker that is off its core in these turns.
fn watched_but_for(
    off: Range<u64>,
    config: &Config,
    order: &Value,
    (rounds, nth, late): (u64, u64, u64),
    is_lossless: fn(u64, u64) -> bool,
) -> Vec<u8> {
    let watch = Watch::from_json(order.to_string().as_bytes()).unwrap();
    let device = |n| Device { mac: Mac([2, 0, 0, 0, 1, n]), pfc: true, ..Device::default() };
    let devices: Vec<Device> = (1..=config.ports.len() as u8).map(device).collect();
    let params = switch_params(config, &devices, 1).unwrap();
    let mut switch = Tapped::<OwnedFrame>::observed(params).unwrap();
    let mut burst: Burst<OwnedFrame> = [frame(1, 0, 0)].into_iter().collect();
    switch.receive(PortId(1), &mut burst, 1);
    let order = TapOrder {
        port: PortId(0),
        filter: watch.filter,
        count: watch.followed(),
        bytes: watch.bytes,
        drops: watch.drops,
    };
    let (tap, reader) = Tap::new(order);
    switch.arm(Some(Box::new(tap)));
    let ports = config.ports.iter().map(|port| PortInfo { name: port.name.clone(), ..PortInfo::default() });
    let info = SwitchInfo { ports: ports.collect(), ..SwitchInfo::default() };
    let watching = Watching {
        readers: vec![reader],
        engines: Vec::new(),
        anchor: (5_000_000_000, 0),
        held: Arc::default(),
    };
    let mut joiner = Joiner::new(watching, watch.count).only_marked(watch.marked);
    let only = only(&watch);
    let mut written = Vec::new();
    let mut capture = Capture::new(&mut written, "p0", 256, only.as_deref()).unwrap();
    let mut now = 1_000_000;
    let mut round = 0;
    while round < rounds || switch.held() > 0 {
        if off.contains(&round) {
            (now, round) = (now + TURN, round + 1);
            continue;
        }
        if round < rounds && (round == 0 || round % 10 == late) {
            // Classes in turn, so that a burst mixes them.
            let mut burst: Burst<OwnedFrame> =
                (0..8).map(|n| frame(0, 1, if is_lossless(round, n) { 26 } else { 0 })).collect();
            switch.receive(PortId(0), &mut burst, now);
        }
        switch.tick(now);
        for port in (0..config.ports.len() as u16).filter(|_| round % nth == 0) {
            while switch.transmit(PortId(port), BURST, now, &mut Out) > 0 {}
        }
        joiner.poll(&info).into_iter().try_for_each(|line| capture.note(line)).unwrap();
        (now, round) = (now + TURN, round + 1);
    }
    capture.finish(&joiner.foot("done")).unwrap();
    written
}

/// What a replay of `file` through `config` says.
fn again(file: &[u8], config: &Config) -> Result<Comparison> {
    let capture = CaptureFile::read(file)?;
    let port = followed(&capture, config, "c.toml")?;
    Ok(judge(config, &capture, port)?.1)
}

/// The same capture, whose file says that nothing came to the other ports.
fn of_all_ports(mut capture: CaptureFile, config: &Config) -> CaptureFile {
    capture.ports = config.ports.iter().map(|port| port.name.clone()).collect();
    capture
}

fn against(capture: &CaptureFile, config: &Config) -> Comparison {
    judge(config, capture, PortId(0)).unwrap().1
}

fn whats(found: &Comparison) -> BTreeSet<&'static str> {
    found.differences.iter().map(|difference| difference.what).collect()
}

/// The file with `from` in the comment of frame `number` replaced by `to`, of one length.
fn changed(file: &[u8], number: u64, from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let comment = format!("frame {number}; ");
    let at = file.windows(comment.len()).position(|w| w == comment.as_bytes()).unwrap();
    let there = at + file[at..].windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
    let mut changed = file.to_vec();
    changed[there..there + from.len()].copy_from_slice(to.as_bytes());
    changed
}

/// How often something was judged, and how often it could not be.
fn of(found: &Comparison, what: &str) -> (u64, u64) {
    found.compared.get(what).map_or((0, 0), |compared| (compared.judged, compared.lacking))
}

/// So many frames of a DSCP, so many us after the start of a turn.
type Frames = (usize, u64, u8);

/// What a capture of p0 has where the frames of `own` come to it in each of ten turns of `us`, and in every second one those of `others` to p2.
/// All are for p1.
fn beside_others(config: &Config, us: u64, own: &[Frames], others: Frames) -> (CaptureFile, Vec<Captured>) {
    let captured = |port: &str, us: u64, frame: &OwnedFrame| Captured {
        port: port.into(),
        unix_ns: 1_000_000_000 + us * 1000,
        bytes: frame.bytes()[..128].to_vec(),
        len: frame.len(),
        history: None,
    };
    let at_p1 = |port: &str, turn: u64, (count, after, dscp): Frames| {
        vec![captured(port, turn * us + after, &frame(0, 1, dscp)); count]
    };
    let ours: Vec<Captured> =
        (0..10).flat_map(|turn| own.iter().flat_map(move |these| at_p1("p0", turn, *these))).collect();
    let foreign: Vec<Captured> = (0..10).step_by(2).flat_map(|turn| at_p1("p2", turn, others)).collect();
    let mut all: Vec<&Captured> = foreign.iter().chain(&ours).collect();
    all.sort_by_key(|frame| frame.unix_ns);
    let file = CaptureFile::read(&play(config, &all, PortId(0)).unwrap()[..]).unwrap();
    assert_eq!((file.frames.len(), file.ports.len()), (ours.len(), 1));
    (file, foreign)
}

/// A frame of p0 or another port, so many us after the start.
fn at(port: &str, us: u64, frame: &OwnedFrame) -> Captured {
    let bytes = frame.bytes().iter().copied().take(128).collect();
    let unix_ns = 1_000_000_000 + us * 1000;
    Captured { port: port.into(), unix_ns, bytes, len: frame.len(), history: None }
}

/// What a capture of p0 has of these frames.
fn capture_of(config: &Config, frames: &[Captured]) -> CaptureFile {
    let mut all: Vec<&Captured> = frames.iter().collect();
    all.sort_by_key(|frame| frame.unix_ns);
    CaptureFile::read(&play(config, &all, PortId(0)).unwrap()[..]).unwrap()
}

/// How much of each kind could not be judged because of something else than frames.
fn unknown(found: &Comparison) -> BTreeMap<&'static str, u64> {
    found.unknown.values().flatten().map(|(what, count)| (*what, *count)).collect()
}

/// A limit that stands still in the lossy queue, and for the other class all the room there is.
fn full(limit: &str) -> String {
    text().replace("size = \"2MiB\"", "size = \"32MiB\"").replace("dynamic_th = -5", "dynamic_th = 7")
        + "[[buffer.profile]]\nname = \"egress_lossy\"\nstatic_th = \""
        + limit
        + "\"\n"
}
