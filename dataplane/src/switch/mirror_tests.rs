use super::super::tests::{assert_conserved, frame, params, receive, transmit};
use super::super::{Change, PortParams, SwitchParams};
use super::*;
use crate::ecn::{MarkAt, ONE_Q32, Wred};
use crate::frame::OwnedFrame;
use crate::mmu::Limit;
use crate::vlan::PortVlans;

const EVERYBODY: u64 = 0xffff_ffff_ffff - 0x0200_0000_0000;
/// Where the copies go.
const MONITOR: PortId = PortId(3);

fn set(ports: &[u16]) -> PortSet {
    ports.iter().copied().map(PortId).collect()
}

fn mirror(rx: &[u16], tx: &[u16]) -> MirrorParams {
    MirrorParams {
        rx: set(rx),
        tx: set(tx),
        filter: Filter::default(),
        to: MirrorTo::Port { port: MONITOR, queue: 0 },
    }
}

/// Four ports; station n is behind port n, and nothing is flooded to the monitor.
fn mirrored(mirrors: Vec<MirrorParams>) -> SwitchParams {
    let mut params = params(4);
    let key = |port: &PortParams, n: u64| port.profile.key(0x0200_0000_0000 + n, 0);
    params.stations = (0..4).map(|n| (key(&params.ports[0], n), PortId(n as u16))).collect();
    params.mmu.mirror = 10_000;
    params.mirrors = mirrors;
    params
}

fn switch(mirrors: Vec<MirrorParams>) -> Switch<OwnedFrame> {
    Switch::new(mirrored(mirrors)).unwrap()
}

fn sent(s: &mut Switch<OwnedFrame>, out: u16) -> Vec<Vec<u8>> {
    transmit(s, out, 5).frames
}

fn lost(s: &Switch<OwnedFrame>, port: u16, reason: DropReason) -> u64 {
    s.stats(PortId(port)).drops.0[reason as usize]
}

/// What waits in the pools of their own is told.
#[test]
fn bytes_in_use_by_cnps_and_copies_are_told() {
    let mut params = mirrored(vec![mirror(&[0], &[])]);
    params.mmu.control = 10_000;
    params.ports.iter_mut().for_each(|port| port.control_pool = true);
    let mut s = Switch::<OwnedFrame>::new(params).unwrap();
    let used = |s: &Switch<OwnedFrame>| {
        let mut block = crate::stats::LoopStats::default();
        s.fill_loop_stats(&mut block);
        (block.control_used, block.mirror_used)
    };
    // UDP to port 4791, BTH of opcode 0x81: a CNP of 100 bytes.
    let mut cnp = frame(1, 2, 0, 100).bytes().to_vec();
    (cnp[16], cnp[17], cnp[23]) = (0, 86, 17);
    cnp[34..42].copy_from_slice(&[0xc0, 0, 0x12, 0xb7, 0, 66, 0, 0]);
    cnp[42] = 0x81;
    receive(&mut s, 1, [OwnedFrame::new(cnp), frame(1, 2, 0, 300)], 0);
    receive(&mut s, 0, [frame(0, 1, 0, 200)], 0);
    let copies = used(&s).1;
    assert!(used(&s).0 == 100 && copies >= 200, "{:?}", used(&s));
    (0..4).for_each(|out| drop(sent(&mut s, out)));
    s.tick(1);
    assert_eq!(used(&s), (0, 0));
}

#[test]
fn received_frames_are_copied_as_they_came_and_once() {
    let mut s = switch(vec![mirror(&[0], &[])]);
    for round in 0..3 {
        let burst: Vec<_> = (0..5).map(|n| frame(0, 1 + n % 2, 0, 100 + n as usize)).collect();
        receive(&mut s, 0, burst.clone(), 0);
        receive(&mut s, 1, [frame(1, 2, 0, 300)], 0);
        let seen = sent(&mut s, 3);
        assert_eq!(seen, burst.iter().map(|f| f.bytes().to_vec()).collect::<Vec<_>>(), "round {round}");
        assert_eq!((sent(&mut s, 1).len(), sent(&mut s, 2).len()), (3, 3));
        assert_conserved(&s);
    }
    let stats = s.stats(PortId(0));
    assert_eq!((stats.rx_packets, stats.copies, stats.mirrored), (15, 15, 15));
    assert_eq!((s.held(), s.admission().held_bytes()), (0, 0));
}

/// Sent frames are copied when they are taken to be sent, with the mark they leave with, and not again when the wire is full.
#[test]
fn sent_frames_are_copied_as_they_leave_and_once() {
    let mut params = mirrored(vec![mirror(&[], &[1])]);
    params.ports[1].mark[0] = Some(Wred { kmin: 0, kmax: 0, pmax: ONE_Q32, at: MarkAt::Dequeue });
    let mut s = Switch::new(params).unwrap();
    receive(&mut s, 0, (0..4).map(|n| frame(0, 1, 0, 100 + n)), 0);
    receive(&mut s, 2, [frame(2, 0, 0, 400)], 0);
    assert_eq!(sent(&mut s, 3).len(), 0, "nothing has left yet");
    // A wire that takes one at a time.
    let mut out = Vec::new();
    for _ in 0..4 {
        let mut wire = super::super::tests::Tap::of(1);
        s.transmit(PortId(1), BURST, 5, &mut wire);
        out.extend(wire.frames);
        assert_conserved(&s);
    }
    assert_eq!(sent(&mut s, 3), out);
    assert!(out.iter().any(|bytes| bytes[15] & 3 == 3), "a mark was made");
    assert_eq!(s.stats(PortId(1)).mirrored, 4);
    assert_conserved(&s);
}

#[test]
fn a_mirror_of_both_ways_has_each_frame_twice_and_its_filter_chooses() {
    let filter = Filter { dscp: Some(26), ..Filter::default() };
    let mut s = switch(vec![MirrorParams { filter, ..mirror(&[0, 1], &[0, 1]) }]);
    receive(&mut s, 0, [frame(0, 1, 26, 100), frame(0, 1, 0, 101), frame(0, 2, 26, 102)], 0);
    sent(&mut s, 1);
    let lens: Vec<_> = sent(&mut s, 3).iter().map(Vec::len).collect();
    // Of the two inputs in turns: what port 0 received, and what port 1 sent between.
    assert_eq!(lens, [100, 100, 102]);
    assert_conserved(&s);
}

#[test]
fn what_is_lost_is_copied_too_but_no_control_frame_and_none_that_is_cut() {
    let mut s = switch(vec![mirror(&[0], &[])]);
    let mut pause = vec![0; 60];
    pause[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 1]);
    pause[12..16].copy_from_slice(&[0x88, 0x08, 1, 1]);
    let same_port = frame(1, 0, 0, 100);
    receive(&mut s, 0, [OwnedFrame::new(pause), same_port.clone(), OwnedFrame::new([1; 9])], 0);
    assert_eq!(sent(&mut s, 3), [same_port.bytes()]);
    assert_eq!(lost(&s, 0, DropReason::LookupSamePort), 1);
    assert_conserved(&s);
}

/// A slow monitor: its queue and the group of mirrors fill up, and nobody else has less for it.
#[test]
fn copies_take_nothing_from_others_and_pause_nobody() {
    let run = |mirrors: Vec<MirrorParams>| {
        let mut params = mirrored(mirrors);
        params.mmu.pgs.iter_mut().for_each(|pg| {
            (pg.lossless, pg.headroom, pg.limit) = (true, 2_000, Limit::dynamic(0).unwrap());
        });
        params.mmu.total = 150_000;
        let mut s = Switch::new(params).unwrap();
        for _ in 0..40 {
            receive(&mut s, 0, (0..8).map(|_| frame(0, 1, 0, 1000)), 0);
            sent(&mut s, 1);
            receive(&mut s, 2, [frame(2, 0, 0, 500)], 0);
            assert_conserved(&s);
        }
        let groups: Vec<_> = (0..3).map(|port| s.gauges(PortId(port), 0)).collect();
        let of = |g: &crate::stats::PortGauges| (g.pg_used, g.pg_limit, g.pg_shared_peak, g.tx_pauses);
        let groups: Vec<_> = groups.iter().map(of).collect();
        (groups, lost(&s, 0, DropReason::MirrorNoRoom), s.stats(PortId(0)).mirrored, s)
    };
    let (plain, none, _, _) = run(Vec::new());
    let (with, no_room, mirrored, mut s) = run(vec![mirror(&[0], &[])]);
    assert_eq!((plain, none), (with, 0));
    // 10000 bytes of copies wait, the others were lost.
    assert_eq!((mirrored, no_room), (320, 310));
    assert_eq!(s.stats(PortId(0)).lossless_drops(), 0);
    assert_eq!(sent(&mut s, 3).len(), 10);
    sent(&mut s, 0);
    assert_eq!((s.held(), s.admission().held_bytes()), (0, 0));
    assert_conserved(&s);
}

#[test]
fn a_copy_that_cannot_go_is_lost_by_name() {
    let mut params = mirrored(vec![mirror(&[0], &[])]);
    params.ports[3].mtu = 200;
    params.mmu.queues[24].limit = Limit::fixed(150);
    let mut s = Switch::new(params).unwrap();
    receive(&mut s, 0, [frame(0, 1, 0, 300), frame(0, 1, 0, 100), frame(0, 1, 0, 100)], 0);
    assert_eq!(lost(&s, 0, DropReason::MirrorTooLong), 1);
    assert_eq!(lost(&s, 0, DropReason::MirrorNoRoom), 1);
    s.set_link(MONITOR, false, 1);
    receive(&mut s, 0, [frame(0, 1, 0, 100)], 1);
    assert_eq!(lost(&s, 0, DropReason::MirrorPortDown), 2, "one that waited there, and one that came later");
    assert_eq!(sent(&mut s, 1).len(), 4);
    assert_conserved(&s);
    s.drain();
    receive(&mut s, 0, [frame(0, 1, 0, 100)], 1);
    assert_eq!(s.stats(PortId(0)).mirrored, 4, "at the end of a run nothing is copied");
}

/// The copy has the tag the frame came with, whatever it leaves with.
#[test]
fn a_frame_that_gets_another_tag_is_not_changed_in_its_copy() {
    let mut params = mirrored(vec![mirror(&[0], &[2])]);
    let vlans = |native| Some(PortVlans { native, members: [10].into_iter().collect() });
    for (port, native) in params.ports.iter_mut().zip([Some(10), None, None, None]) {
        port.vlans = vlans(native);
    }
    let mut s = Switch::new(params).unwrap();
    let plain = frame(0, EVERYBODY, 0, 100);
    receive(&mut s, 0, [plain.clone()], 0);
    let tagged = sent(&mut s, 2).remove(0);
    assert_eq!((tagged.len(), &tagged[12..14]), (104, &[0x81, 0][..]));
    // The copy of what came, the flooded one that is a member's, and the copy of what port 2 sent.
    let mut seen = sent(&mut s, 3);
    assert_eq!(seen.remove(0), plain.bytes());
    assert_eq!(seen, [tagged.clone(), tagged]);
    assert_conserved(&s);
}

#[test]
fn mirrors_come_and_go_while_the_switch_runs() {
    let (none, one) = (mirrored(Vec::new()), mirrored(vec![mirror(&[0], &[])]));
    let mut s = Switch::<OwnedFrame>::new(none.clone()).unwrap();
    let mut go = |from: &SwitchParams, to: &SwitchParams| {
        s.apply(&mut Change::between(from, to).unwrap(), 0).unwrap();
        receive(&mut s, 0, [frame(0, 1, 0, 100)], 0);
        let seen = sent(&mut s, 3).len();
        assert_conserved(&s);
        seen
    };
    assert_eq!([go(&none, &one), go(&one, &none), go(&none, &one)], [1, 0, 1]);
}

/// Ports 0 and 1 are one lcore's, 2 and 3, the monitor, another's: copies cross, and nothing is lost count of.
#[test]
fn copies_cross_between_lcores() {
    for tx_per_lcore in [false, true] {
        let mut params = mirrored(vec![mirror(&[0, 2], &[1, 2])]);
        for (at, port) in params.ports.iter_mut().enumerate() {
            (port.shard, port.tx_per_lcore) = (u8::from(at >= 2), tx_per_lcore);
        }
        let shards = Switch::<OwnedFrame>::sharded(&params, 2).unwrap();
        let [mut a, mut b]: [_; 2] = shards.try_into().unwrap();
        let mut seen = vec![0; 4];
        for now in 0..30 {
            if now < 10 {
                receive(&mut a, 0, [frame(0, 1, 0, 100), frame(0, 2, 0, 200)], now);
                receive(&mut b, 2, [frame(2, 1, 0, 300)], now);
            }
            for s in [&mut a, &mut b] {
                s.tick(now);
                for port in (0..4).map(PortId) {
                    let mut wire = super::super::tests::Tap::of(BURST);
                    if s.owns(port) {
                        s.transmit(port, BURST, now, &mut wire);
                    } else {
                        s.transmit_granted(port, BURST, now, &mut wire);
                    }
                    seen[port.index()] += wire.frames.len();
                }
                assert_conserved(s);
            }
        }
        // Ten of each: received by 0 (two) and 2, sent by 1 (two) and 2.
        assert_eq!(seen, [0, 20, 10, 60], "a queue for each lcore: {tx_per_lcore}");
        let mut all = a.conservation();
        all.add(&b.conservation());
        assert_eq!((all.error(), all.held, all.copies, all.dropped), (0, 0, 60, 0));
        let mirrored = |s: &Switch<OwnedFrame>| -> u64 {
            (0..4).map(PortId).filter(|port| s.owns(*port)).map(|port| s.stats(port).mirrored).sum()
        };
        assert_eq!(mirrored(&a) + mirrored(&b), 60);
        // Everything that was charged is given back.
        for now in 30..34 {
            a.tick(now);
            b.tick(now);
        }
        assert_eq!(a.admission().held_bytes() + b.admission().held_bytes(), 0);
    }
}

const NUMBER: u64 = 77;

/// A mirror to a reader that keeps so many bytes.
fn read(rx: &[u16], tx: &[u16], bytes: u32) -> MirrorParams {
    MirrorParams { to: MirrorTo::Reader { number: NUMBER, bytes }, ..mirror(rx, tx) }
}

#[test]
fn a_reader_gets_what_is_received_and_sent_and_the_switch_holds_no_copy() {
    let mut params = mirrored(vec![read(&[0], &[1], 90)]);
    // No room for copies is needed.
    params.mmu.mirror = 0;
    let mut s = Switch::new(params).unwrap();
    let mut reader = s.read_mirrors();
    let burst: Vec<_> = (0..5).map(|n| frame(0, 1, 0, 70 + 10 * n as usize)).collect();
    receive(&mut s, 0, burst.clone(), 3);
    let out = sent(&mut s, 1);
    assert_eq!((out.len(), sent(&mut s, 3).len()), (5, 0));
    let mut bytes = Vec::new();
    let mut heads = Vec::new();
    while let Some(head) = reader.peek() {
        assert_eq!(reader.next_into(&mut bytes), Some(head));
        heads.push(head);
    }
    assert_eq!(heads.len(), 10);
    let mut at = 0;
    for (i, head) in heads.iter().enumerate() {
        let (frame, port) = if i < 5 { (burst[i].bytes(), PortId(0)) } else { (&out[i - 5][..], PortId(1)) };
        let kept = frame.len().min(90);
        assert_eq!(
            (head.mirror, head.port, head.sent, head.len as usize),
            (NUMBER, port, i >= 5, frame.len())
        );
        assert_eq!((head.at, head.kept as usize), (if i < 5 { 3 } else { 5 }, kept));
        assert_eq!(bytes[at..at + kept], frame[..kept]);
        at += kept;
    }
    assert_eq!(at, bytes.len());
    let stats = s.stats(PortId(0));
    assert_eq!((stats.recorded, stats.copies, stats.mirrored), (5, 0, 0));
    assert_eq!(s.stats(PortId(1)).recorded, 5);
    assert_conserved(&s);
}

/// Nobody waits for a reader: what does not fit is lost by name, and what comes when there is room again is whole.
#[test]
fn what_a_reader_does_not_take_is_lost_by_name() {
    let mut s = switch(vec![read(&[0], &[], 16_384)]);
    // Nobody reads yet.
    receive(&mut s, 0, [frame(0, 1, 0, 100)], 0);
    assert_eq!(lost(&s, 0, DropReason::MirrorFileNoRoom), 1);
    let mut reader = s.read_mirrors();
    let mut given = 1;
    while lost(&s, 0, DropReason::MirrorFileNoRoom) < 11 {
        receive(&mut s, 0, [frame(0, 1, 0, 1000)], 0);
        sent(&mut s, 1);
        given += 1;
        assert!(given < 40_000, "the ring has an end");
    }
    let recorded = s.stats(PortId(0)).recorded;
    assert_eq!(recorded + 11, given);
    let mut bytes = Vec::new();
    for _ in 0..recorded {
        bytes.clear();
        let head = reader.next_into(&mut bytes).unwrap();
        assert_eq!((head.len, bytes.len()), (1000, 1000));
    }
    assert_eq!(reader.peek(), None);
    receive(&mut s, 0, [frame(0, 1, 0, 200)], 9);
    bytes.clear();
    assert_eq!(reader.next_into(&mut bytes).map(|head| head.at), Some(9));
    assert_eq!(bytes, frame(0, 1, 0, 200).bytes());
    let stats = s.stats(PortId(0));
    assert_eq!((stats.copies, stats.mirrored, s.stats(PortId(1)).drops.0.iter().sum::<u64>()), (11, 11, 0));
    assert_conserved(&s);
}
