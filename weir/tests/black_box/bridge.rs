//! Frames over `net_af_packet`: veth pairs in a namespace, raw sockets and `tcpreplay` on one side,
//! `tcpdump` on the other.

use crate::support::frames::{plain, tagged, write_pcap};
use crate::support::namespace::Namespace;
use crate::support::program::{Summary, Switch};
use crate::support::wire::{Capture, Socket, replay};
use crate::support::{need, tools, wait_for};
use std::time::Duration;
use tempfile::TempDir;
use weir_dataplane::types::Mac;

/// Largest frame of the switch, without FCS.
const MTU: u16 = 9216;

/// A switch whose ports `p0`, `p1`... are joined to interfaces `h0`, `h1`... of a namespace.
struct Rig {
    ns: Namespace,
    switch: Switch,
    captures: Vec<Capture>,
    folder: TempDir,
}

/// `ports` ports of this `mtu`, captures on all hosts.
fn rig(ports: usize, mtu: u16, more: &str) -> Result<Rig, String> {
    tools(&["tcpdump", "tcpreplay"])?;
    let ns = Namespace::new()?;
    let mut config = format!(
        "[buffer]\nsize = \"8MiB\"\nframes = 8192\n[port_defaults]\nrate = \"10G\"\nmtu = {mtu}\n{more}"
    );
    for i in 0..ports {
        ns.veth(&format!("w{i}"), &format!("h{i}"), u32::from(mtu))?;
        config += &format!("[[port]]\nname = \"p{i}\"\ndevice = \"net_af_packet{i},iface=w{i}\"\n");
    }
    let switch = Switch::start_in(&ns, &config);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let captures = (0..ports).map(|i| Capture::start(&ns, &format!("h{i}"), folder.path(), "")).collect();
    Ok(Rig { ns, switch, captures, folder })
}

impl Rig {
    fn socket(&self, host: usize) -> Socket {
        Socket::open(&self.ns, &format!("h{host}"))
    }

    /// What each host has seen when all is over, and the totals.
    fn stop(self) -> (Vec<Vec<Vec<u8>>>, Summary) {
        let summary = self.switch.stop();
        // What the switch has sent is in the captures' buffers; tcpdump empties them when it is told to end.
        let seen = self.captures.into_iter().map(Capture::stop).collect();
        (seen, summary)
    }
}

fn mac(n: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, n])
}

#[test]
fn a_stranger_is_flooded_to_and_an_acquaintance_is_not() {
    let rig = need!(rig(3, 1518, ""));
    let (h0, h1) = (rig.socket(0), rig.socket(1));
    let to_1 = plain(mac(1), mac(0), 100, 1);
    let to_0 = plain(mac(0), mac(1), 200, 2);
    let again = plain(mac(1), mac(0), 300, 3);
    let everybody = plain(Mac([0xff; 6]), mac(0), 64, 4);
    let group = plain(Mac([1, 0, 0x5e, 0, 0, 9]), mac(0), 64, 5);
    let hairpin = plain(mac(0), mac(7), 100, 6);
    // Nobody knows host 1: host 2 hears it too. The answer, and all that follows, is between the two.
    h0.send(&to_1);
    rig.captures[1].wait(1);
    h1.send(&to_0);
    rig.captures[0].wait(1);
    h0.send(&again);
    rig.captures[1].wait(2);
    for frame in [&everybody, &group, &hairpin] {
        h0.send(frame);
    }
    rig.captures[1].wait(4);
    rig.captures[2].wait(3);
    let (seen, summary) = rig.stop();
    assert_eq!(seen[0], [to_0]);
    assert_eq!(seen[1], [to_1.clone(), again, everybody.clone(), group.clone()]);
    assert_eq!(seen[2], [to_1, everybody, group]);
    assert_eq!(summary.port("p0", "flooded"), 1);
    assert_eq!(summary.all_drops(), ["lookup.same_port=1"]);
    assert_eq!(summary.total("copies"), 3);
}

/// Interfaces that the switch makes itself.
#[test]
fn taps_carry_frames_both_ways() {
    need!(tools(&["tcpdump"]));
    let ns = need!(Namespace::new());
    let mut config =
        "[buffer]\nsize = \"8MiB\"\nframes = 8192\n[port_defaults]\nrate = \"10G\"\nmtu = 1518\n".to_owned();
    for i in 0..2 {
        config += &format!("[[port]]\nname = \"p{i}\"\ndevice = \"net_tap{i},iface=t{i}\"\n");
    }
    let switch = Switch::start_in(&ns, &config);
    let folder = tempfile::tempdir().unwrap();
    let capture = |i: usize| Capture::start(&ns, &format!("t{i}"), folder.path(), "");
    let (captures, sockets) = ([0, 1].map(capture), [0, 1].map(|i| Socket::open(&ns, &format!("t{i}"))));
    // The kernel has things of its own to say on a new interface: only these count.
    for (from, to, frame) in [(0, 1, plain(mac(1), mac(0), 100, 1)), (1, 0, plain(mac(0), mac(1), 1400, 2))] {
        sockets[from].send(&frame);
        wait_for("the frame on the other side", || captures[to].seen().contains(&frame).then_some(()));
    }
    let summary = switch.stop();
    summary.is_conserved();
    assert!(summary.port("p0", "tx_packets") > 0 && summary.port("p1", "tx_packets") > 0);
}

/// IPv4 fragments, by the offset of their payload and whether more come.
fn fragment(id: u16, at: usize, payload: &[u8], more: bool) -> Vec<u8> {
    let mut frame = [&mac(1).0[..], &mac(0).0, &[0x08, 0x00]].concat();
    let mut header = [0x45, 0].to_vec();
    header.extend((20 + payload.len() as u16).to_be_bytes());
    header.extend(id.to_be_bytes());
    header.extend((u16::from(more) << 13 | (at / 8) as u16).to_be_bytes());
    header.extend([64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(header);
    frame.extend(payload);
    frame
}

/// DPDK's driver would have the kernel reassemble what it hands over: weir keeps it from that (`dpdk/src/port/fanout.rs`).
#[test]
fn fragments_of_ipv4_pass_as_they_came() {
    let rig = need!(rig(2, 1518, ""));
    let h0 = rig.socket(0);
    let payload: Vec<u8> = (0..2000).map(|i| i as u8).collect();
    let sent = [
        fragment(7, 0, &payload[..1480], true),
        // Of another datagram, whose end never comes.
        fragment(8, 0, &payload[..1480], true),
        fragment(7, 1480, &payload[1480..], false),
        plain(mac(1), mac(0), 100, 1),
    ];
    sent.iter().for_each(|frame| h0.send(frame));
    rig.captures[1].wait(sent.len());
    let (seen, summary) = rig.stop();
    assert_eq!(seen[1], sent);
    assert_eq!(summary.port("p0", "rx_packets"), sent.len() as u64);
}

/// Stations are known per VLAN; tags pass as they came.
#[test]
fn vlans_are_kept_apart_and_tags_are_kept() {
    let rig = need!(rig(3, 1518, ""));
    let (h0, h1) = (rig.socket(0), rig.socket(1));
    let vlan = |vid: u16, pcp: u16| (0x8100, pcp << 13 | vid);
    let hello = tagged(plain(mac(0), mac(1), 60, 0), &[vlan(10, 0)]);
    h1.send(&hello);
    rig.captures[0].wait(1);
    rig.captures[2].wait(1);
    let known = tagged(plain(mac(1), mac(0), 60, 1), &[vlan(10, 5)]);
    let other_vlan = tagged(plain(mac(1), mac(0), 60, 2), &[vlan(11, 0)]);
    let untagged = plain(mac(1), mac(0), 60, 3);
    let priority_tag = tagged(plain(mac(1), mac(0), 60, 4), &[vlan(0, 7)]);
    let double = tagged(plain(mac(1), mac(0), 60, 5), &[vlan(10, 1), vlan(99, 2)]);
    let sent = [known, other_vlan, untagged, priority_tag, double];
    sent.iter().for_each(|frame| h0.send(frame));
    rig.captures[1].wait(sent.len());
    rig.captures[2].wait(4);
    let (seen, summary) = rig.stop();
    // Each priority keeps its order; between them there is none.
    let sorted = |frames: &[Vec<u8>]| {
        let mut frames = frames.to_vec();
        frames.sort();
        frames
    };
    assert_eq!(sorted(&seen[1]), sorted(&sent));
    let flooded = [&[hello][..], &sent[1..4]].concat();
    assert_eq!(sorted(&seen[2]), sorted(&flooded), "only what VLAN 10 does not know");
    assert_eq!(summary.all_drops(), [""; 0]);
    assert_eq!(summary.port("p1", "tx_packets"), 5);
}

/// Every size from the shortest header to the longest frame, seen through another tool, unchanged.
#[test]
fn frames_of_all_sizes_arrive_byte_for_byte() {
    let rig = need!(rig(2, MTU, ""));
    let sizes = (14..=200).chain((201..1500).step_by(61)).chain(1500..=1530).chain((1960..=2100).step_by(3));
    let sizes: Vec<usize> = sizes.chain((2101..9100).step_by(487)).chain(9200..=usize::from(MTU)).collect();
    let frames: Vec<_> =
        sizes.iter().zip(0..).map(|(&bytes, seed)| plain(mac(1), mac(0), bytes, seed)).collect();
    let file = rig.folder.path().join("sizes.pcap");
    write_pcap(&file, &frames, 100);
    replay(&rig.ns, "h0", &file, &[]);
    rig.captures[1].wait(frames.len());
    // One byte more than the port allows, as long as the wire lets it pass, is counted as just that.
    let too_long = plain(mac(1), mac(0), usize::from(MTU) + 1, 9);
    rig.socket(0).send(&too_long);
    let (seen, summary) = rig.stop();
    for (frame, arrived) in frames.iter().zip(&seen[1]) {
        assert!(frame == arrived, "a frame of {} bytes arrived as one of {}", frame.len(), arrived.len());
    }
    assert_eq!(seen[1].len(), frames.len());
    assert_eq!(summary.all_drops(), ["parse.too_long=1"]);
    let bytes: usize = sizes.iter().sum();
    assert_eq!(summary.port("p1", "tx_bytes"), bytes as u64);
    assert_eq!(summary.port("p0", "rx_bytes"), (bytes + too_long.len()) as u64);
}

/// A million frames of `tcpreplay`, as fast as it sends them: each one arrives or is counted.
#[test]
fn a_million_frames_without_unexplained_loss() {
    const FRAMES: u64 = 1_000_000;
    const BATCH: u64 = 1000;
    need!(tools(&["tcpreplay"]));
    let ns = need!(Namespace::new());
    let mut config =
        "[buffer]\nsize = \"8MiB\"\nframes = 8192\n[port_defaults]\nrate = \"10G\"\nmtu = 1518\n".to_owned();
    for i in 0..2 {
        need!(ns.veth(&format!("w{i}"), &format!("h{i}"), 1500));
        // A deep ring: a worker that is held up for a moment loses nothing.
        config += &format!("[[port]]\nname = \"p{i}\"\n");
        config +=
            &format!("device = \"net_af_packet{i},iface=w{i},blocksz=65536,framesz=2048,framecnt=16384\"\n");
    }
    let switch = Switch::start_in(&ns, &config);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flood.pcap");
    let frames: Vec<_> = (0..BATCH as u32).map(|i| plain(mac(1), mac(0), 60, i)).collect();
    write_pcap(&file, &frames, 1);
    let loops = (FRAMES / BATCH).to_string();
    replay(&ns, "h0", &file, &["--pps", "100000", "--preload-pcap", "--loop", &loops]);
    let sent = ns.counts("h0").tx_packets;
    assert_eq!(sent, FRAMES, "tcpreplay sent them all");
    // The ring is empty, or was full: nothing more comes.
    let (mut last, mut looks) = (0, 0);
    wait_for("the last frame", || {
        std::thread::sleep(Duration::from_millis(100));
        let arrived = ns.counts("h1").rx_packets;
        looks = if arrived == last { looks + 1 } else { 0 };
        last = arrived;
        (arrived == FRAMES || looks == 50).then_some(())
    });
    let summary = switch.stop();
    let arrived = ns.counts("h1").rx_packets;
    let (received, missed) = (summary.port("p0", "rx_packets"), summary.port("p0", "nic_missed"));
    println!("sent {sent}, arrived {arrived}, missed by the ring {missed}, drops {:?}", summary.all_drops());
    assert_eq!(received + missed, sent, "what the ring did not take is counted");
    assert_eq!(summary.port("p1", "tx_packets"), arrived, "what the switch says it sent has arrived");
    assert_eq!(received, arrived + summary.total("dropped"));
    // How many frames miss the ring, or find the buffer full when a worker that was held up takes a ring full of them at
    // once, says how busy the machine was, not whether the switch is right.
    let dropped = summary.drops("ingress.shared_exceeded");
    assert_eq!(dropped, summary.total("dropped"), "dropped for nothing else: {:?}", summary.all_drops());
    assert!((missed + dropped) * 2 < sent, "most frames get through");
}

/// An interface that goes down and comes back: what comes meanwhile is lost by name, what comes later
/// arrives.
#[test]
fn a_link_that_goes_away_and_comes_back() {
    const MEANWHILE: u32 = 100;
    let mut rig = need!(rig(2, 1518, ""));
    let h0 = rig.socket(0);
    let frame = |seed| plain(mac(1), mac(0), 100, seed);
    h0.send(&frame(0));
    rig.captures[1].wait(1);
    let mut told = |times: usize, what: &str| {
        wait_for(what, || (rig.switch.program().stdout().matches(what).count() == times).then_some(()));
    };
    rig.ns.set("w1", "down");
    told(1, "port p1: link down");
    (1..=MEANWHILE).for_each(|seed| h0.send(&frame(seed)));
    let before = rig.ns.counts("h0").tx_packets;
    rig.ns.set("w1", "up");
    told(2, "port p1: link up");
    // The switch is told by the time others are, a turn of its loop later: sent until one passes.
    let mut seed = MEANWHILE;
    let mut passed = || {
        seed += 1;
        h0.send(&frame(seed));
        std::thread::sleep(Duration::from_millis(20));
        let seen = rig.captures[1].seen();
        assert!(!seen.contains(&frame(1)), "a frame of the time without link");
        seen.contains(&frame(seed)).then_some(())
    };
    wait_for("a frame after the link is back", &mut passed);
    let (_, summary) = rig.stop();
    println!("drops {:?}", summary.all_drops());
    assert_eq!(before, u64::from(MEANWHILE) + 1);
    assert_eq!(summary.port("p0", "rx_packets"), u64::from(seed) + 1);
    // A worker that is held up learns of the link later than whoever reads events: what it sends until then the driver loses.
    let lost = summary.drops("lookup.no_port") + summary.port("p1", "nic_errors");
    assert!(lost >= u64::from(MEANWHILE), "{lost}: {:?}", summary.all_drops());
}

/// Where mtu and interface clash nothing starts, and the message has both numbers.
#[test]
fn an_mtu_the_interface_cannot_carry() {
    let ns = need!(Namespace::new());
    need!(ns.veth("w0", "h0", 1500));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("switch.toml");
    for (device, mtu, remedy) in [
        ("net_af_packet0,iface=w0", 1519, "ip link set w0 mtu 1501"),
        ("net_af_packet0,iface=w0,framesz=1024,blocksz=4096", 1518, "framesz=2048,blocksz=4096"),
    ] {
        let port = format!("[[port]]\nname = \"a\"\ndevice = {device:?}\nmtu = {mtu}\nrate = \"1G\"\n");
        std::fs::write(&file, format!("[buffer]\nsize = \"2MiB\"\nframes = 4096\n{port}")).unwrap();
        let _turn = crate::support::program::turn();
        let mut command = ns.command(crate::support::program::WEIR);
        let ended = crate::support::program::Running::start(command.arg("run").arg(&file)).ended();
        assert_eq!(ended.code(), Some(2), "{ended:?}");
        assert!(ended.stderr.contains(remedy), "{}", ended.stderr);
    }
}
