//! Frames of several lcores.

use super::*;

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
    assert!(unknown(&found)["depth"] > 100, "{:?}", found.unknown);
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
