//! A capture of a switch that is polled like one that runs, put through a switch in virtual time: the same, and with
//! another configuration different where that says.

use super::*;
use weir_config::runtime::{Device, switch_params};
use weir_dataplane::frame::{Frame, OwnedFrame};
use weir_dataplane::switch::{Filter, Tap, TapOrder, Tapped, Wire};
use weir_dataplane::types::{BURST, Burst, Mac, Nanos};
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

#[test]
fn the_same_switch_does_the_same_and_what_was_changed_is_named() {
    let config = load(&text());
    let file = captured(&config);
    let said = String::from_utf8_lossy(&file);
    let count = |what: &str| said.matches(what).count();
    assert_eq!(count("; arrived p0; "), 160);
    assert!(count("Xoff is sent") > 0 && count("marked CE") > 20 && count("into headroom") > 5);
    let found = again(&file, &config).unwrap();
    assert_eq!((found.differences, found.other_depths), (Vec::new(), 0));

    let one = |number: u64, what, from: &str, to: &str| {
        let found = again(&changed(&file, number, from, to), &config).unwrap().differences;
        assert_eq!(
            found.iter().map(|d| (d.frame, d.what)).collect::<Vec<_>>(),
            [(number, what)],
            "{found:?}"
        );
    };
    one(5, "class", "pg 3 queue 3", "pg 3 queue 4");
    one(9, "lookup", "port p1;", "group 1;");
    one(3, "departure", "left p1 queue 3", "left p1 queue 5");
}

/// A port may put frames in a VLAN that they do not name.
#[test]
fn destinations_in_the_vlan_of_a_port_are_known() {
    for vlan in ["access = 10", "trunk = \"20\"\nvlan.native = 10"] {
        let config = load(&text().replace("mtu = 1600\n", &format!("mtu = 1600\nvlan.{vlan}\n")));
        let found = again(&captured(&config), &config).unwrap();
        assert_eq!((found.verdict(), found.differences), (Verdict::Pass, Vec::new()), "{vlan}");
    }
}

/// A station that moves is where each frame found it.
#[test]
fn destinations_that_move_are_where_each_frame_found_them() {
    let third = "[[port]]\nname = \"p2\"\ndevice = \"net_null2\"\n";
    let lag = "[[lag]]\nname = \"po1\"\nmembers = [\"p1\", \"p2\"]\nhash = \"l4\"\n";
    let config = load(&(text() + third));
    let mut capture = CaptureFile::read(&captured(&config)[..]).unwrap();
    // From p1 to p2 in the middle of a burst, and back.
    for history in capture.frames.iter_mut().filter_map(|frame| frame.history.as_mut()) {
        let moved = if (75..116).contains(&history.number) { "p2" } else { "p1" };
        history.lookup = format!("port {moved}");
    }
    let mut bursts: Vec<&Captured> = capture.frames.iter().collect();
    bursts.sort_by_key(|frame| (frame.unix_ns, frame.history.as_ref().map(|history| history.number)));
    let written = play(&config, &bursts, PortId(0)).unwrap();
    let moving = CaptureFile::read(&written[..]).unwrap();
    let by = |file: &CaptureFile, port: &str| {
        let left = file.frames.iter().filter_map(|frame| frame.history.as_ref());
        let left = left.filter(|h| h.departures.iter().any(|left| left.port == port));
        left.map(|h| h.number).collect::<BTreeSet<u64>>()
    };
    let moved = by(&moving, "p2");
    assert!(moved.iter().all(|number| (75..116).contains(number)) && moved.len() > 20, "{moved:?}");
    let found = again(&written, &config).unwrap();
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()));
    assert_eq!(of(&found, "lookup"), (160, 0));
    // Members of a LAG are one place: which of them a frame leaves by is its own matter.
    let lag = load(&(text() + third + lag));
    let written = play(&lag, &bursts, PortId(0)).unwrap();
    let member = CaptureFile::read(&written[..]).unwrap();
    assert!(by(&member, "p1").is_empty() != by(&member, "p2").is_empty(), "one flow goes by one member");
}

/// What a port filters because of its VLAN has a destination, too, which the capture says.
#[test]
fn destinations_of_filtered_frames_are_known() {
    let mut capture = CaptureFile::read(&captured(&load(&text()))[..]).unwrap();
    for frame in &mut capture.frames {
        frame.bytes.splice(12..12, [0x81, 0, 0, 20]);
        frame.len += 4;
    }
    let vlan = |port: usize, vid: u16| {
        let device = format!("device = \"net_null{port}\"\n");
        (device.clone(), format!("{device}vlan.access = {vid}\n"))
    };
    let config = [vlan(0, 10), vlan(1, 20)].iter().fold(text(), |text, (from, to)| text.replace(from, to));
    let config = load(&config);
    let filtered = play(&config, &capture.frames.iter().collect::<Vec<_>>(), PortId(0)).unwrap();
    let said = String::from_utf8_lossy(&filtered);
    assert_eq!(
        (said.matches("vlan.ingress_filtered").count(), said.matches("; port p1; ").count()),
        (160, 160)
    );
    let found = again(&filtered, &config).unwrap();
    assert_eq!((found.verdict(), found.differences), (Verdict::Pass, Vec::new()));
}

/// No partner speaks in a replay.
#[test]
fn members_of_a_lag_that_lacp_manages_are_up() {
    let lag = |more: &str| {
        let third = "[[port]]\nname = \"p2\"\ndevice = \"net_null2\"\n";
        load(&format!("{}{third}[[lag]]\nname = \"po1\"\nmembers = [\"p1\", \"p2\"]\n{more}", text()))
    };
    let file = captured(&lag(""));
    for mode in ["active", "passive"] {
        let found = again(&file, &lag(&format!("lacp = \"{mode}\"\n"))).unwrap();
        assert_eq!((found.verdict(), found.differences), (Verdict::Pass, Vec::new()), "{mode}");
    }
}

/// A live tap follows 256 at a time; a slower port has more of them waiting.
#[test]
fn however_many_frames_wait_each_is_told() {
    let fast = |rate: &str| full("8MB").replace("rate = \"1G\"", &format!("rate = \"{rate}\""));
    let order = json!({ "port": "p0", "count": 1_000_000, "bytes": 256 });
    let file = watched_for(&load(&fast("10G")), &order, (1000, 1, 0), |_, _| false);
    let found = again(&file, &load(&fast("1G"))).unwrap();
    let [was, is] = found.totals;
    assert_eq!((was.frames, is.frames, is.dropped), (800, 800, 0));
    let untold: Vec<_> = found.differences.iter().filter(|d| d.replayed == "nothing").collect();
    assert!(untold.is_empty(), "{untold:?}");
}

/// Years in which nothing comes cost no more than a moment; beyond all measure they are refused.
#[test]
fn gaps_between_frames_are_jumped_over() {
    let config = load(&text());
    let later = |ns: u64| {
        let mut capture = CaptureFile::read(&captured(&config)[..]).unwrap();
        capture.frames.iter_mut().skip(80).for_each(|frame| frame.unix_ns += ns);
        let port = followed(&capture, &config, "c.toml")?;
        judge(&config, &capture, port)
    };
    const HUNDRED_YEARS: u64 = 100 * 365 * 24 * 3600 * 1_000_000_000;
    let (written, found) = later(HUNDRED_YEARS).unwrap();
    assert_eq!((found.totals[1].frames, of(&found, "lookup")), (160, (160, 0)));
    assert!(found.differences.iter().all(|d| d.replayed != "nothing"), "{:?}", found.differences);
    let times: BTreeSet<u64> =
        CaptureFile::read(&written[..]).unwrap().frames.iter().map(|frame| frame.unix_ns).collect();
    assert!(times.last().unwrap() - times.first().unwrap() > HUNDRED_YEARS);
    let said = format!("{:#}", later(3 << 61).unwrap_err());
    assert!(
        said.contains("frame 81: it came 219 years after the first one, at most 146 are played"),
        "{said}"
    );
}

#[test]
fn another_configuration_shows_where_it_decides_otherwise() {
    let file = captured(&load(&text()));
    // Marks later, pauses earlier, and the other class first.
    let other = |from: &str, to: &str| whats(&again(&file, &load(&text().replace(from, to))).unwrap());
    assert_eq!(other("20KB", "100KB"), BTreeSet::from(["mark"]));
    assert!(other("dynamic_th = -5", "dynamic_th = -6").contains("pause"));
    let heavier = "[[scheduler]]\nname = \"roce\"\nweight = 100\n[port_defaults]";
    assert!(other("[port_defaults]", heavier).contains("order"));
}

/// Frames are marked by the depth they find.
fn on_arrival(kmin: &str) -> Config {
    load(&text().replace("pmax = ", "mark = \"enqueue\"\npmax = ").replace("20KB", kmin))
}

/// A difference tells the depth that decided, and how many were marked, paused and lost on either side.
#[test]
fn a_difference_of_marks_tells_the_depth_that_decided_and_totals_stand_beside_one_another() {
    let file = captured(&on_arrival("20KB"));
    let found = again(&file, &on_arrival("40KB")).unwrap();
    assert_eq!(whats(&found), BTreeSet::from(["mark"]));
    for difference in &found.differences {
        let depth = |text: &str, mark: &str| -> u64 {
            let rest = text.strip_prefix(mark).and_then(|rest| rest.strip_prefix(" at p1 with "));
            let depth = rest.and_then(|rest| rest.strip_suffix(" bytes in its queue when it came"));
            depth.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
        };
        let (was, is) = (depth(&difference.captured, "marked CE"), depth(&difference.replayed, "not marked"));
        assert!(was == is && (20_001..=40_000).contains(&was), "{difference:?}");
    }
    let [was, is] = found.totals;
    assert_eq!((was.frames, was.dropped, was.paused), (is.frames, is.dropped, is.paused));
    assert!(was.frames == 160 && was.paused > 0, "{was:?}");
    assert_eq!(was.marked - is.marked, found.differences.len() as u64);
    // With a lower limit more is lost.
    let found = again(
        &file,
        &load(
            &text()
                .replace("size = \"2MiB\"", "size = \"1MiB\"")
                .replace("dynamic_th = -5", "dynamic_th = -8"),
        ),
    );
    let [was, is] = found.unwrap().totals;
    assert!(was.dropped > 0 && is.dropped > was.dropped, "{was:?} {is:?}");
}

/// Of a queue of another lcore no file says how deep it was when a frame came.
#[test]
fn a_mark_by_a_depth_that_is_not_known_is_not_judged() {
    let mut capture = CaptureFile::read(&captured(&on_arrival("20KB"))[..]).unwrap();
    let histories = capture.frames.iter_mut().filter_map(|frame| frame.history.as_mut());
    let marked: u64 = histories.filter(|h| h.class == Some([3; 3])).map(|h| h.departures.len() as u64).sum();
    let unknown = |capture: &CaptureFile| {
        let found = judge(&on_arrival("40KB"), capture, PortId(0)).unwrap().1;
        (found.verdict(), found.unknown.values().flatten().map(|(what, n)| (*what, *n)).collect::<Vec<_>>())
    };
    assert_eq!(unknown(&capture), (Verdict::Fail, Vec::new()));
    capture.frames.iter_mut().filter_map(|frame| frame.history.as_mut()).for_each(|h| h.depth = None);
    assert_eq!(unknown(&capture), (Verdict::Pass, vec![("mark", marked)]));
}

/// How often something was judged, and how often it could not be.
fn of(found: &Comparison, what: &str) -> (u64, u64) {
    found.compared.get(what).map_or((0, 0), |compared| (compared.judged, compared.lacking))
}

/// The other class waits in the same buffer, frames that are not marked in the same queue.
#[test]
fn what_hangs_on_frames_that_a_capture_lacks_is_not_judged() {
    let config = load(&text());
    let whole = again(&captured(&config), &config).unwrap();
    assert_eq!(whole.compared.values().map(|n| n.lacking).sum::<u64>(), 0);
    // Some find no room.
    let (marks, _) = of(&whole, "mark");
    assert_eq!((of(&whole, "verdict"), of(&whole, "order")), ((160, 0), (marks, 0)));
    assert!(marks > 80);

    let marked = watched(&config, &json!({ "port": "p0", "count": 1000, "bytes": 256, "marked": true }));
    let found = again(&marked, &config).unwrap();
    let (judged, lacking) = of(&found, "mark");
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()));
    assert!(lacking > 20 && of(&found, "verdict") == (0, judged + lacking), "{judged} {lacking}");

    let dscp =
        watched(&config, &json!({ "port": "p0", "count": 1000, "bytes": 256, "filter": { "dscp": 26 } }));
    let found = again(&dscp, &config).unwrap();
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()));
    assert_eq!((of(&found, "class"), of(&found, "verdict")), ((80, 0), (0, 80)));
    let (in_order, lacking) = of(&found, "order");
    assert!(in_order > 40 && lacking == 0);

    // Without what it says of itself, as a file from before, and with all ports in it, it has differences, but for marks, which the depth
    // explains.
    for (file, says) in [(marked, "only frames of: marked"), (dscp, "only frames of: dscp 26")] {
        let at = file.windows(says.len()).position(|w| w == says.as_bytes()).unwrap();
        let silent = [&file[..at], b"all", &file[at + 3..]].concat();
        let mut capture = CaptureFile::read(&silent[..]).unwrap();
        capture.ports = config.ports.iter().map(|port| port.name.clone()).collect();
        let found = judge(&config, &capture, PortId(0)).unwrap().1;
        assert_eq!(found.differences.is_empty(), says.ends_with("marked"), "{says}: {:?}", found.differences);
        // What the frame itself decides is judged all the same.
        let other =
            load(&text().replace("\"roce-lossless\"\n", "\"roce-lossless\"\ndscp_to_tc = { \"26\" = 0 }\n"));
        assert!(whats(&again(&file, &other).unwrap()).contains("class"), "{says}");
    }
}

/// Only how frames are classified could be told: that is no proof of a switch.
#[test]
fn a_capture_of_which_nothing_can_be_judged_does_not_pass() {
    let known = text() + "[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p1\"\n";
    let config = load(&known);
    let mut file = captured(&config);
    for number in 1..=160 {
        file = changed(&file, number, "port p1;", "unknown;");
    }
    let found = again(&file, &config).unwrap();
    assert_eq!((found.learned_since, found.verdict()), (160, Verdict::Undecided));
}

#[test]
fn what_cannot_be_replayed_is_refused_with_what_to_do() {
    let config = load(&text());
    let file = captured(&config);
    let refused = |file: &[u8], config: &Config| format!("{:#}", again(file, config).unwrap_err());
    // In the middle of a block, behind a whole one, at once.
    let statistics = 12 + 12 + 12 + 12 + 4;
    for cut in [7, statistics, file.len() - 3] {
        let said = refused(&file[..file.len() - cut], &config);
        assert!(said.contains("cut short"), "{said}");
    }
    // As mergecap writes it, which says who it is: not known.
    assert!(refused(&file[..file.len() - statistics], &config).contains("reordercap and editcap leave"));
    let merged = [&file[..28], b"Mergecap", &file[36..file.len() - statistics]].concat();
    assert!(
        !CaptureFile::read(&merged[..]).unwrap().is_whole && CaptureFile::read(&file[..]).unwrap().is_whole
    );
    assert_eq!(again(&merged, &config).unwrap().verdict(), Verdict::Pass);
    assert!(refused(&merged[..merged.len() - 3], &config).contains("cut short after frame"));
    // Of either byte order, whole or not.
    for classic in [&b"\xd4\xc3\xb2\xa1 and more"[..], b"\xa1\xb2\x3c\x4d", b"\x34\xcd\xb2\xa1\x02"] {
        let said = refused(classic, &config);
        assert!(
            said.contains("a classic pcap file, not pcapng") && said.contains("as `weir capture` wrote it"),
            "{said}"
        );
    }
    assert!(refused(b"this is no capture at all, of any kind", &config).contains("not a pcapng file"));
    let renamed = load(&text().replace("\"p0\"", "\"q0\""));
    assert!(refused(&file, &renamed).contains("c.toml has no such port; it has q0, p1"));
    assert!(
        refused(&changed(&file, 8, "frame 8", "frame 9"), &config)
            .contains("frame 9: it is in the file twice")
    );
    assert!(
        refused(&changed(&file, 8, "frame 8; ", "frame 800"), &config).contains("frame 8: it is missing")
    );
    let end = || WatchLine::End { why: String::new(), frames: 0, on_their_way: 0, missed: 0 };
    let mut empty = Vec::new();
    Capture::new(&mut empty, "p0", 64, None).unwrap().finish(&end()).unwrap();
    assert!(refused(&empty, &config).contains("no frame has a comment of `weir capture`"));
    let mut drops = Vec::new();
    let mut capture = Capture::new(&mut drops, "p0", 64, None).unwrap();
    let lost = |len_bytes: u32, kept: usize| WatchLine::Lost {
        frame: 1,
        at_ns: 0,
        port: "p0".into(),
        len_bytes,
        bytes: "00".repeat(kept),
        stage: "parse".into(),
        reason: "parse.runt".into(),
        remedy: String::new(),
    };
    capture.note(lost(60, 60)).unwrap();
    capture.finish(&end()).unwrap();
    assert!(refused(&drops, &config).contains("capture without --drops"));
    let mut short = Vec::new();
    let mut capture = Capture::new(&mut short, "p0", 12, None).unwrap();
    capture.note(lost(900, 12)).unwrap();
    capture.finish(&end()).unwrap();
    assert!(
        refused(&short, &config).contains("12 of 900 bytes, too few for its headers; capture with --snaplen")
    );
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

/// Which queue is next is decided by the frames of all ports. Those that are not in the file show in their queue, by the time they take of the line,
/// or, where they had gone before, by no more than a turn.
#[test]
fn an_order_that_frames_of_other_ports_can_have_decided_is_not_judged() {
    let third = "[[port]]\nname = \"p2\"\ndevice = \"net_null2\"\n[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p1\"\n";
    let config = |rate: &str| load(&(text().replace("1G", rate).replace("2MiB", "32MiB") + third));
    let judged = |capture: &CaptureFile, rate: &str| judge(&config(rate), capture, PortId(0)).unwrap().1;
    let cases: [(&str, &str, u64, &[Frames], Frames); 4] = [
        ("in a queue with them", "100G", 100, &[(40, 5, 26), (40, 5, 0)], (38, 5, 0)),
        ("on the line", "1G", 1200, &[(20, 5, 0), (40, 200, 26), (20, 205, 0)], (30, 0, 48)),
        ("for less than a look", "1G", 100, &[(1, 5, 0), (1, 10, 48)], (2, 1, 48)),
        ("gone when they come", "1G", 100, &[(1, 50, 26), (1, 50, 0)], (1, 0, 0)),
    ];
    for (case, rate, us, own, others) in cases {
        let (mut alone, foreign) = beside_others(&config(rate), us, own, others);
        let all = alone.frames.len() as u64;
        let found = judged(&alone, rate);
        let (in_order, lacking) = of(&found, "order");
        assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()), "{case}");
        assert!(lacking > 0 && in_order + lacking == all, "{case}: {in_order} {lacking}");
        // If that is all there was, it is another order.
        alone.ports = config(rate).ports.iter().map(|port| port.name.clone()).collect();
        assert_eq!(whats(&judged(&alone, rate)), BTreeSet::from(["order"]), "{case}");
        // With all frames everything is judged.
        alone.frames.extend(foreign);
        let found = judged(&alone, rate);
        assert_eq!((found.verdict(), of(&found, "order")), (Verdict::Pass, (all, 0)), "{case}");
    }
    // None overtakes another one of its queue, whoever else is there.
    let (mut alone, _) = beside_others(&config("1G"), 100, &[(2, 1, 26), (2, 1, 0)], (2, 0, 0));
    let of_queue_0 = |frame: &Captured| frame.history.as_ref().is_some_and(|h| h.class == Some([0; 3]));
    let two: Vec<usize> = (0..40).filter(|at| of_queue_0(&alone.frames[*at])).skip(6).take(2).collect();
    alone.frames.swap(two[0], two[1]);
    assert_eq!(whats(&judged(&alone, "1G")), BTreeSet::from(["order"]));
}

/// What the buffer makes of a frame is a matter of the frames of all ports. Those that are not in the file take room: of what is shared by what is free
/// without a sign, of what stands still in a queue that was deeper.
#[test]
fn a_verdict_that_frames_of_other_ports_can_have_decided_is_not_judged() {
    let third = "[[port]]\nname = \"p2\"\ndevice = \"net_null2\"\n[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p1\"\n";
    let judged = |capture: &CaptureFile, config: &Config| judge(config, capture, PortId(0)).unwrap().1;
    let shared = text().replace("1G", "100G") + third;
    let still = full("30KB") + third;
    // A share of what is free that others have less of; a limit of a queue that others are in.
    let cases: [(&str, &str, u8, Frames); 2] =
        [("pause", &shared, 26, (200, 4, 0)), ("verdict", &still, 0, (10, 4, 0))];
    for (what, text, dscp, others) in cases {
        let config = load(text);
        let mut not_judged = 0;
        for count in (16..48).step_by(2) {
            let (mut alone, foreign) = beside_others(&config, 800, &[(count, 5, dscp)], others);
            let found = judged(&alone, &config);
            let (judged_alone, lacking) = of(&found, "verdict");
            assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()), "{what} {count}");
            assert_eq!(judged_alone + lacking, alone.frames.len() as u64, "{what} {count}");
            not_judged += lacking;
            // If that is all there was, it is a difference.
            alone.ports = config.ports.iter().map(|port| port.name.clone()).collect();
            let whole = judged(&alone, &config);
            assert_eq!(whats(&whole).contains(what), lacking > 0, "{what} {count}: {:?}", whole.differences);
            // With all frames everything is judged.
            alone.frames.extend(foreign);
            let found = judged(&alone, &config);
            let all = 10 * count as u64;
            assert_eq!((found.verdict(), of(&found, "verdict")), (Verdict::Pass, (all, 0)), "{what} {count}");
        }
        assert!(not_judged > 0, "{what}");
    }
    // Nobody makes room for a frame: what was taken, and is refused in the replay, is a difference, and so is a limit of a queue that was
    // full before, without a sign of others.
    let of_queue = |limit: &str| load(&(full(limit).replace("1G", "100G") + third));
    let (alone, _) = beside_others(&of_queue("30KB"), 200, &[(40, 5, 0)], (0, 4, 0));
    for limit in ["20KB", "40KB"] {
        let found = judged(&alone, &of_queue(limit));
        assert!(
            found.verdict() == Verdict::Fail && whats(&found).contains("verdict"),
            "{limit}: {:?}",
            found.compared
        );
    }
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

/// Nobody joins a group in a replay: where frames to it go is not known, nor what follows from that.
#[test]
fn frames_to_groups_that_hosts_had_joined_are_not_judged() {
    let ports = "[[port]]\nname = \"p2\"\ndevice = \"net_null2\"\n[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p1\"\n";
    let config = |more: &str| load(&(full("30KB") + ports + more));
    let joined = config("[[fdb.group]]\nmac = \"01:00:5e:01:02:03\"\nports = [\"p2\"]\n");
    let frames: Vec<Captured> = (0..300)
        .map(|n| {
            let mut bytes = frame(0, 1, 0).bytes().to_vec();
            if n % 3 == 0 {
                bytes[..6].copy_from_slice(&[1, 0, 0x5e, 1, 2, 3]);
            }
            at("p0", n * 6, &OwnedFrame::new(bytes))
        })
        .collect();
    let mut capture = capture_of(&joined, &frames);
    let judged = |capture: &CaptureFile, config: &Config| judge(config, capture, PortId(0)).unwrap().1;
    let snooping = config("[mcast_snooping]\nvlans = \"*\"\n");
    capture.ports = snooping.ports.iter().map(|port| port.name.clone()).collect();
    let found = judged(&capture, &snooping);
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()), "{:?}", found.totals);
    assert_eq!((unknown(&found)["lookup"], of(&found, "lookup")), (100, (200, 0)));
    // The others share their queue in the replay, which is full then.
    assert!(found.totals[1].dropped > 0 && unknown(&found)["verdict"] > 0, "{:?}", found.unknown);
    // Without snooping nobody joins.
    assert!(whats(&judged(&capture, &config(""))).contains("lookup"));
    // Where both know a group of that name, by where its frames went.
    for frame in &mut capture.frames {
        frame
            .history
            .iter_mut()
            .filter(|h| h.lookup.starts_with("group"))
            .for_each(|h| h.lookup = "multicast".into());
    }
    let found = judged(&capture, &snooping);
    assert_eq!(
        (found.verdict(), unknown(&found)["departure"] >= 100),
        (Verdict::Pass, true),
        "{:?}",
        found.unknown
    );
}

/// A capture of one port has no pauses that came to another one.
#[test]
fn losses_by_the_watchdog_of_a_port_whose_pauses_are_not_in_the_file_are_not_judged() {
    let config = load(
        &(text()
            + "[watchdog]\naction = \"drop\"\ndetection_time = \"100ms\"\nrestoration_time = \"100ms\"\n\
               [[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p1\"\n"),
    );
    let mut pause = vec![0; 60];
    pause[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 1]);
    pause[6..18].copy_from_slice(&[2, 0, 0, 0, 0, 1, 0x88, 8, 1, 1, 0, 1 << 3]);
    pause[24..26].copy_from_slice(&[0xff, 0xff]);
    let pause = OwnedFrame::new(pause);
    let pauses: Vec<Captured> = (0..30).map(|n| at("p1", n * 20_000, &pause)).collect();
    let own = (1..200).map(|n| at("p0", n * 5_000, &frame(0, 1, if n % 2 == 0 { 26 } else { 0 })));
    let frames: Vec<Captured> = pauses.iter().cloned().chain(own).collect();
    let mut capture = capture_of(&config, &frames);
    let judged = |capture: &CaptureFile| judge(&config, capture, PortId(0)).unwrap().1;
    let found = judged(&capture);
    let lost = found.totals[0].dropped;
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()));
    assert!(lost > 20 && unknown(&found).values().sum::<u64>() >= lost, "{lost} {:?}", found.unknown);
    assert!(found.losses.is_empty() && found.other_limit.is_none());
    // With them everything is judged; if the file says that none came, it is a difference.
    capture.ports.insert("p1".into());
    assert_eq!(judged(&capture).verdict(), Verdict::Fail);
    capture.frames.extend(pauses);
    let found = judged(&capture);
    assert_eq!(
        (found.verdict(), unknown(&found)),
        (Verdict::Pass, BTreeMap::new()),
        "{:?}",
        found.differences
    );
}

/// While the last frames of a count wait, others come behind them.
#[test]
fn marks_that_frames_behind_the_last_one_caused_are_not_judged() {
    let config = load(&text());
    let first = watched(&config, &json!({ "port": "p0", "count": 60, "bytes": 256 }));
    let found = again(&first, &config).unwrap();
    let (judged, lacking) = of(&found, "mark");
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()));
    assert!(judged > 20 && lacking > 2, "{judged} {lacking}");
    // Marked below Kmin, or not above Kmax: whatever came behind.
    for kmin in ["100KB", "5KB"] {
        let other = load(&text().replace("20KB", kmin));
        assert_eq!(whats(&again(&first, &other).unwrap()), BTreeSet::from(["mark"]), "{kmin}");
    }
}

/// With the frames of all ports a queue is as deep as it was, but for those before the first and behind the last: a port of another rate
/// shows by marks.
#[test]
fn marks_show_another_rate_where_the_file_has_all_ports() {
    let config = load(&text());
    let mut capture = CaptureFile::read(&captured(&config)[..]).unwrap();
    let played = |capture: &CaptureFile, rate: &str| {
        judge(&load(&text().replace("1G", rate)), capture, PortId(0)).unwrap().1
    };
    let marks = |found: &Comparison| found.differences.iter().filter(|d| d.what == "mark").count();
    let rates = ["1200M", "2G", "10G"];
    assert_eq!(rates.map(|rate| marks(&played(&capture, rate))), [0; 3]);
    capture.ports = config.ports.iter().map(|port| port.name.clone()).collect();
    assert_eq!(
        (played(&capture, "1G").verdict(), played(&capture, "1G").unknown),
        (Verdict::Pass, BTreeMap::new())
    );
    for rate in rates {
        let found = played(&capture, rate);
        assert_eq!(found.verdict(), Verdict::Fail, "{rate}");
        assert!(marks(&found) > 0, "{rate}: {:?} {:?}", found.unknown, found.compared);
    }
}

/// A limit that stands still in the lossy queue, and for the other class all the room there is.
fn full(limit: &str) -> String {
    text().replace("size = \"2MiB\"", "size = \"32MiB\"").replace("dynamic_th = -5", "dynamic_th = 7")
        + "[[buffer.profile]]\nname = \"egress_lossy\"\nstatic_th = \""
        + limit
        + "\"\n"
}

/// A capture of a switch that looks at its ports every so many us: a frame leaves up to that much later than in the replay. One in 32 is of the
/// lossless class, which has more than it needs.
fn looking_every(us: u64) -> Vec<u8> {
    let order = json!({ "port": "p0", "count": 1_000_000, "bytes": 256 });
    watched_for(&load(&full("30KB")), &order, (4000, us, 3), |round, n| round % 40 == 3 && n == 0)
}

/// The lcore that has the queue may be another one than that of the port the frame came to.
#[test]
fn a_frame_that_its_queue_refuses_is_lost_there_on_whatever_lcore() {
    let came = "frame 1; arrived p0; tc 0 pg 0 queue 0; port p1; ";
    let found = |captured: &str, lacks: bool| {
        let [was, is] = [captured, "dropped; stage egress, reason egress.wred"]
            .map(|told| FrameHistory::read(&format!("{came}{told}")).unwrap());
        compare(&load(&text()), &[was], &[is], &BTreeMap::new(), Lacks { own: lacks, ..Lacks::default() })
    };
    let refused =
        |reason: &str| format!("admitted; depth 0; lost at p1, stage egress, reason egress.{reason}");
    let same = found(&refused("wred"), false);
    assert_eq!((same.verdict(), same.differences), (Verdict::Pass, Vec::new()));
    assert_eq!(found(&refused("wred"), true).verdict(), Verdict::Undecided);
    let other = found(&refused("port_down"), false);
    assert!(other.differences.iter().any(|d| d.captured == "admitted"), "{:?}", other.differences);
}

/// Where a queue is full, a few microseconds decide which of two frames is dropped, and that is all that differs.
#[test]
fn a_difference_of_phase_at_a_full_queue_has_a_verdict_of_its_own() {
    let (file, config) = (looking_every(7), load(&full("30KB")));
    let found = again(&file, &config).unwrap();
    let some: Vec<_> = found.differences.iter().filter(|d| !d.phase).take(3).collect();
    let told = (&found.losses, &found.other_limit, some, found.totals);
    assert_eq!(found.verdict(), Verdict::SameTotals, "{told:?}");
    assert!(
        found.differences.iter().any(|d| d.what == "verdict") && found.differences.iter().all(|d| d.phase)
    );
    let [lost] = &found.losses[..] else { panic!("{:?}", found.losses) };
    assert_eq!((&*lost.port, lost.class), ("p1", [0, 0, 0]));
    let [was, is] = lost.frames;
    assert!(was > 1000 && was.abs_diff(is) <= 2, "{lost:?}");
    // Of one frame they are apart, in the twinkling of a turn.
    assert!((1..=2 * FRAME_BYTES as u64).contains(&lost.apart), "{lost:?}");
    // The switch that looks in time has nothing of it.
    let in_time = looking_every(1);
    assert_eq!(again(&in_time, &config).unwrap().verdict(), Verdict::Pass);
}

/// What is no phase is found beside one: a slower port, another limit, another class, other pauses.
#[test]
fn a_difference_of_phase_hides_no_other() {
    let file = looking_every(7);
    let against = |file: &[u8], text: &str| again(file, &load(text)).unwrap();
    // A port that is looked at less often than a frame takes loses time of its line, which adds up; so does a slower one.
    let lost_time = against(&looking_every(13), &full("30KB"));
    assert!(lost_time.differences.iter().all(|d| d.phase) && lost_time.verdict() == Verdict::Fail);
    let slower = against(&file, &full("30KB").replace("rate = \"1G\"", "rate = \"950M\""));
    assert_eq!(slower.verdict(), Verdict::Fail);
    assert!(slower.losses.iter().any(|lost| !lost.agree()), "{:?}", slower.losses);
    // One frame more or less in the queue, which moves no total.
    for limit in ["28KB", "31KB"] {
        let other = against(&file, &full(limit));
        assert!(other.losses.iter().all(Losses::agree), "{:?}", other.losses);
        assert_eq!(other.verdict(), Verdict::Fail, "{limit}");
        let found = other.other_limit.unwrap();
        assert!(found.to_string().starts_with("queue 0 of p1 has another limit: full it had"), "{found}");
        let [was, is] = found.deepest;
        let place = (&*found.port, found.queue, was, found.full);
        assert_eq!(place, ("p1", 0, 25 * FRAME_BYTES as u64, [true, true]));
        assert!(is == was - FRAME_BYTES as u64 || is == was + FRAME_BYTES as u64, "{limit}: {is}");
    }
    // Without a loss there is no depth of a full queue.
    let faster = against(&file, &full("30KB").replace("rate = \"1G\"", "rate = \"10G\""));
    assert_eq!(faster.verdict(), Verdict::Fail);
    let limit = faster.other_limit.unwrap();
    assert_eq!(limit.full, [true, false]);
    let told = limit.to_string();
    assert!(told.contains("was full with") && told.contains("never in the replay"), "{told}");
    // A limit that moves with what is free.
    let moving = against(&file, &full("30KB").replace("static_th = \"30KB\"", "dynamic_th = -8"));
    assert_eq!(moving.verdict(), Verdict::Fail);
    let fails = |found: Comparison, what: &str| {
        assert_eq!(found.verdict(), Verdict::Fail);
        assert!(found.differences.iter().any(|d| d.what == what && !d.phase), "{what}");
    };
    fails(against(&changed(&file, 5, "pg 3 queue 3", "pg 3 queue 4"), &full("30KB")), "class");
    fails(
        against(&file, &full("30KB").replace("dynamic_th = 7", "reserved = 0\nstatic_th = \"1KB\"")),
        "pause",
    );
}

/// A switch of two lcores: p0 is the first one's, p1 and p2 the second's, whose frames come 300 ns after those of p0, and reach the queue before
/// them. Three of four bursts of p0 meet one of p2. What p1 does with those of p0, and all frames of p2.
fn of_two_lcores(config: &Config) -> CaptureFile {
    let device = |n: u8| Device {
        mac: Mac([2, 0, 0, 0, 1, n]),
        pfc: true,
        shard: u8::from(n > 0),
        tx_per_lcore: true,
        ..Device::default()
    };
    let params = switch_params(config, &[0, 1, 2].map(device), 2).unwrap();
    let mut shards = Tapped::<OwnedFrame>::observed_shards(&params, 2).unwrap();
    let order =
        TapOrder { port: PortId(0), filter: Filter::default(), count: 1_000_000, bytes: 256, drops: false };
    let arm = |(shard, (tap, reader)): (&mut Tapped<OwnedFrame>, (Tap, _))| {
        shard.arm(Some(Box::new(tap)));
        reader
    };
    let readers: Vec<_> = shards.iter_mut().zip(Tap::for_workers(order, 2)).map(arm).collect();
    let ports = config.ports.iter().map(|port| PortInfo { name: port.name.clone(), ..PortInfo::default() });
    let info = SwitchInfo { ports: ports.collect(), ..SwitchInfo::default() };
    let anchor = (5_000_000_000, 0);
    let watching = Watching { readers, engines: Vec::new(), anchor, held: Arc::default() };
    let mut joiner = Joiner::new(watching, u64::MAX);
    let (mut written, mut others) = (Vec::new(), Vec::new());
    let mut capture = Capture::new(&mut written, "p0", 256, None).unwrap();
    capture.note(joiner.head()).unwrap();
    let mut now = 1_000_000;
    for round in 0.. {
        if round >= 4000 && shards.iter().all(|shard| shard.held() == 0) {
            break;
        }
        let burst =
            |from: u8, count: u8| (0..count).map(|_| frame(from, 1, 0)).collect::<Burst<OwnedFrame>>();
        if round == 0 {
            // The line is free when a turn of ten begins.
            shards[0].receive(PortId(0), &mut burst(0, 1), now);
        }
        if round < 4000 && round % 10 == 5 {
            shards[0].receive(PortId(0), &mut burst(0, 4), now);
            if round % 40 != 5 {
                let at = now + 300;
                shards[1].receive(PortId(2), &mut burst(2, 4), at);
                others.extend(burst(2, 4).iter().map(|frame| Captured {
                    port: "p2".into(),
                    unix_ns: anchor.0 + at,
                    bytes: frame.bytes()[..128].to_vec(),
                    len: frame.len(),
                    history: None,
                }));
            }
        }
        for shard in [1, 0] {
            shards[shard].tick(now + 400);
            for port in (0..3).map(PortId) {
                match (port.0 > 0) == (shard == 1) {
                    true => while shards[shard].transmit(port, BURST, now + 400, &mut Out) > 0 {},
                    false => while shards[shard].transmit_granted(port, BURST, now + 400, &mut Out) > 0 {},
                }
            }
            shards[shard].tick(now + 400);
        }
        joiner.poll(&info).into_iter().try_for_each(|line| capture.note(line)).unwrap();
        now += TURN;
    }
    capture.finish(&joiner.foot("done")).unwrap();
    let mut file = CaptureFile::read(&written[..]).unwrap();
    file.ports.extend(config.ports.iter().map(|port| port.name.clone()));
    file.frames.extend(others);
    file
}

/// Lossy queues hold so much; p2 is another lcore's than p0.
fn two_lcores(limit: &str) -> Config {
    load(
        &(full(limit)
            + "[[port]]\nname = \"p2\"\ndevice = \"net_null2\"\n\
               [[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p1\"\n"),
    )
}

/// Which of two frames finds room in a queue that lcores share is a matter of when each of them looks at the other's, which no file tells.
#[test]
fn losses_where_frames_of_several_lcores_met_are_not_judged() {
    let config = two_lcores("30KB");
    let mut file = of_two_lcores(&config);
    let judged = |file: &CaptureFile, limit: &str| judge(&two_lcores(limit), file, PortId(0)).unwrap().1;
    let found = judged(&file, "30KB");
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()), "{:?}", found.totals);
    let [was, is] = found.totals;
    assert!(was.dropped > is.dropped + 100, "{was:?} {is:?}");
    let (verdicts, _) = of(&found, "verdict");
    assert!(unknown(&found)["verdict"] > 100 && verdicts > 100, "{:?} {:?}", found.unknown, found.compared);
    // Another limit shows all the same: by what the queue held, and by what it held as it refused.
    let limit_is = |file: &CaptureFile, limit: &str| {
        let found = judged(file, limit);
        assert_eq!((found.verdict(), whats(&found)), (Verdict::Fail, BTreeSet::from(["limit"])), "{limit}");
        let difference = &found.differences[0];
        assert!(difference.captured.starts_with("queue 0 of p1 held "), "{difference:?}");
        assert!(difference.replayed.starts_with("its limit is "), "{difference:?}");
    };
    limit_is(&file, "20KB");
    limit_is(&file, "80KB");
    assert_eq!(whats(&judged(&changed_class(&file), "30KB")), BTreeSet::from(["class"]));
    // A capture of p0 alone lacks the frames that took the room.
    file.ports = BTreeSet::from(["p0".into()]);
    file.frames.retain(|frame| frame.port == "p0");
    let alone = judged(&file, "30KB");
    assert_eq!((alone.verdict(), &alone.differences), (Verdict::Pass, &Vec::new()));
    limit_is(&file, "20KB");
    limit_is(&file, "80KB");
}

/// The first frame in another queue.
fn changed_class(file: &CaptureFile) -> CaptureFile {
    let frames = file.frames.clone();
    let mut changed = CaptureFile { frames, ports: file.ports.clone(), ..*file };
    let history = changed.frames.iter_mut().find_map(|frame| frame.history.as_mut());
    history.unwrap().class = Some([0, 0, 1]);
    changed
}

/// A lossless group that stands still, of which so much is filled and empties again.
fn lossless(limit: &str) -> String {
    full("30KB").replace("dynamic_th = 7", &format!("reserved = 0\nstatic_th = \"{limit}\""))
}

/// A group is fuller as a burst comes where its port has not been looked at: an earlier frame of the burst brings it to Xoff.
#[test]
fn an_xoff_a_little_earlier_than_in_the_replay_is_of_phase() {
    let order = json!({ "port": "p0", "count": 1_000_000, "bytes": 256 });
    let file = watched_for(&load(&lossless("30KB")), &order, (8000, 7, 3), |round, _| round % 1000 < 60);
    let against = |limit: &str| again(&file, &load(&lossless(limit))).unwrap();
    let found = against("30KB");
    let pauses = |found: &Comparison, phase: bool| {
        found.differences.iter().filter(|d| d.what == "pause" && d.phase == phase).count()
    };
    assert_eq!(found.verdict(), Verdict::SameTotals, "{:?}", found.differences);
    assert!(
        pauses(&found, true) > 1 && found.totals[0].paused == found.totals[1].paused,
        "{:?}",
        found.totals
    );
    // Not so by more than a port sends between two looks, nor where the file shows that the line is another one.
    for limit in ["22KB", "38KB"] {
        let found = against(limit);
        assert!(found.verdict() == Verdict::Fail && pauses(&found, false) > 0, "{limit}");
    }
    let nearer = against("28KB");
    assert!(nearer.verdict() == Verdict::Fail && whats(&nearer).contains("limit"), "{:?}", whats(&nearer));
}
