//! Malformed frames: only ever counted.

use crate::support::frames::{plain, read_pcap, tagged, write_pcap};
use crate::support::namespace::Namespace;
use crate::support::program::{Summary, Switch};
use crate::support::wire::Socket;
use crate::support::{need, wait_for};
use std::collections::HashMap;
use std::path::Path;
use weir_dataplane::types::Mac;

fn mac(n: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, n])
}

/// A RoCEv2 frame's headers over a little payload: Ethernet, 802.1Q, IPv4, UDP, BTH.
fn roce() -> Vec<u8> {
    let mut frame = plain(mac(1), mac(0), 14, 0);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame.extend([0x45, 26 << 2 | 2, 0, 60, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0xc0, 0x00, 0x12, 0xb7, 0, 40, 0, 0]);
    frame.extend([0x04, 0x40, 0xff, 0xff, 0, 0, 0, 7, 0x80, 0, 0, 1]);
    frame.extend([0xa5; 20]);
    tagged(frame, &[(0x8100, 3 << 13 | 7)])
}

/// PFC as 802.1Q 36.2.1 has it, padded to 60 bytes.
fn pfc() -> Vec<u8> {
    let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 0x01, 0x01, 0, 8];
    frame.extend([0xff; 16]);
    frame.resize(60, 0);
    frame
}

/// What is wrong with them, and the frames. None may change where a good frame goes, nor stop one.
fn hostile() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for (name, whole) in [
        ("roce", roce()),
        ("qinq", tagged(roce(), &[(0x88a8, 100)])),
        ("pfc", pfc()),
        ("ipv6", {
            let mut f = plain(mac(1), mac(0), 80, 0);
            f[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
            f
        }),
    ] {
        all.extend((0..whole.len()).map(|cut| (format!("{name} cut at {cut}"), whole[..cut].to_vec())));
    }
    // The IPv4 header starts behind Ethernet header and tag.
    const IP: usize = 18;
    for value in 0..=255 {
        let mut frame = roce();
        frame[IP] = value;
        all.push((format!("version and IHL {value:02x}"), frame));
    }
    for total in [0_u16, 1, 19, 20, 27, 28, 59, 61, 1500, 65_535] {
        let mut frame = roce();
        frame[IP + 2..IP + 4].copy_from_slice(&total.to_be_bytes());
        all.push((format!("IPv4 total length {total}"), frame));
    }
    for length in [0_u16, 1, 7, 8, 19, 41, 65_535] {
        let mut frame = roce();
        frame[IP + 24..IP + 26].copy_from_slice(&length.to_be_bytes());
        all.push((format!("UDP length {length}"), frame));
    }
    for opcode in 0..=0x0200_u16 {
        let mut frame = pfc();
        frame[14..16].copy_from_slice(&opcode.to_be_bytes());
        // Real pauses would do what they say.
        if opcode != 0x0101 && opcode != 0x0001 {
            all.push((format!("MAC control opcode {opcode:04x}"), frame));
        }
    }
    let deep: Vec<(u16, u16)> = (0..10).map(|i| ([0x8100, 0x88a8, 0x9100][i % 3], i as u16)).collect();
    all.push(("ten tags".to_owned(), tagged(roce(), &deep)));
    all.push(("nothing but tags".to_owned(), tagged(plain(mac(1), mac(0), 12, 0), &deep)));
    all.push(("group source".to_owned(), plain(mac(1), Mac([3, 0, 0, 0, 0, 1]), 60, 0)));
    all.push(("all ones".to_owned(), vec![0xff; 60]));
    all.push(("all zeros".to_owned(), vec![0; 60]));
    for last in 0..16 {
        all.push((
            format!("reserved address {last}"),
            plain(Mac([1, 0x80, 0xc2, 0, 0, last]), mac(0), 60, 0),
        ));
    }
    all
}

/// Every frame of a capture through a switch on files: no root, no timing, the same each time.
fn through_files(folder: &Path, frames: &[Vec<u8>], rate: &str) -> (Vec<Vec<u8>>, Summary, String) {
    let (input, output) = (folder.join("in.pcap"), folder.join("out.pcap"));
    write_pcap(&input, frames, 1);
    let config = format!(
        "[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"16MiB\"\nframes = 16384\n\
         [port_defaults]\nrate = {rate:?}\nmtu = 1518\n\
         [[port]]\nname = \"in\"\ndevice = \"net_pcap0,rx_pcap={}\"\n\
         [[port]]\nname = \"out\"\ndevice = \"net_pcap1,tx_pcap={}\"\n",
        input.display(),
        output.display()
    );
    let mut switch = Switch::start(&config);
    // The last frame is one that passes; it is there when all others are through.
    let last = frames.last().expect("frames");
    wait_for("the last frame", || {
        assert!(!switch.program().has_ended(), "the switch died: {}", switch.program().stderr());
        read_pcap(&output).contains(last).then_some(())
    });
    let (ended, summary) = switch.interrupt();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let seen = read_pcap(&output);
    (seen, summary, ended.stdout)
}

#[test]
fn malformed_frames_are_counted_and_nothing_else() {
    let good = plain(mac(1), mac(0), 100, 77);
    let bad = hostile();
    let frames: Vec<Vec<u8>> = bad.iter().map(|(_, frame)| frame.clone()).chain([good]).collect();
    let folder = tempfile::tempdir().unwrap();
    let (seen, summary, said) = through_files(folder.path(), &frames, "10G");
    // What passes has passed unchanged, each frame once; all else has a counter.
    let mut sent: HashMap<&[u8], usize> = HashMap::new();
    for frame in &frames {
        *sent.entry(frame).or_default() += 1;
    }
    for frame in &seen {
        let left = sent.get_mut(&frame[..]).filter(|left| **left > 0);
        *left.unwrap_or_else(|| panic!("a frame came out that did not go in: {frame:02x?}")) -= 1;
    }
    let forwarded = seen.len() as u64;
    assert_eq!(summary.port("out", "tx_packets"), forwarded);
    let (received, control) = (summary.port("in", "rx_packets"), summary.port("in", "rx_control"));
    println!(
        "{} frames, {forwarded} forwarded, control {control}, drops {:?}",
        frames.len(),
        summary.all_drops()
    );
    assert_eq!(received, forwarded + summary.total("dropped"));
    assert_eq!(received + control, frames.len() as u64);
    for (reason, least) in [
        ("parse.too_short", 4 * 14),
        ("parse.truncated_vlan", 8),
        ("parse.group_source", 1),
        ("control.reserved_address", 13),
    ] {
        assert!(summary.drops(reason) >= least, "{reason}: {:?}", summary.all_drops());
    }
    assert!(summary.port("in", "malformed_l3") >= 200, "{:#}", summary.0);
    assert_eq!(summary.port("in", "invalid_control"), control);
    let line = said.lines().find(|line| line.starts_with("swallowed")).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(
        line.split_whitespace().take(3).collect::<Vec<_>>(),
        ["swallowed", &control.to_string(), "invalid_control"]
    );
    assert!(control >= 500, "{:#}", summary.0);
    assert_eq!(summary.port("in", "pfc_rx"), 0, "no cut pause was obeyed");
    assert_eq!(summary.port("in", "paused_ns"), 0);
}

/// The same over a real interface.
#[test]
fn malformed_frames_over_an_interface() {
    let ns = need!(Namespace::new());
    let mut config = "[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"16MiB\"\nframes = 16384\n[port_defaults]\nrate = \"10G\"\nmtu = 1518\n".to_owned();
    for i in 0..2 {
        need!(ns.veth(&format!("w{i}"), &format!("h{i}"), 1500));
        config += &format!(
            "[[port]]\nname = \"p{i}\"\ndevice = \"net_af_packet{i},iface=w{i},blocksz=65536,framesz=2048,framecnt=8192\"\n"
        );
    }
    let switch = Switch::start_in(&ns, &config);
    let h0 = Socket::open(&ns, "h0");
    // The kernel neither sends what has no header nor delivers a tag that is not whole.
    let passes =
        |frame: &Vec<u8>| frame.len() >= 20 || (frame.len() >= 14 && ![0x81, 0x88].contains(&frame[12]));
    let bad: Vec<_> = hostile().into_iter().map(|(_, frame)| frame).filter(passes).collect();
    for frame in &bad {
        h0.send(frame);
    }
    let h1 = Socket::open(&ns, "h1");
    let good = plain(mac(1), mac(0), 100, 77);
    let mut buffer = [0; 2048];
    wait_for("a good frame", || {
        h0.send(&good);
        std::thread::sleep(std::time::Duration::from_millis(5));
        std::iter::from_fn(|| h1.receive(&mut buffer).map(<[u8]>::to_vec))
            .any(|frame| frame == good)
            .then_some(())
    });
    let summary = switch.stop();
    println!("{} frames, drops {:?}", bad.len(), summary.all_drops());
    let (received, missed) = (summary.port("p0", "rx_packets"), summary.port("p0", "nic_missed"));
    let sent = ns.counts("h0").tx_packets;
    assert_eq!(received + summary.port("p0", "rx_control") + missed, sent, "{:#}", summary.0);
    assert_eq!(summary.port("p0", "paused_ns"), 0);
}
