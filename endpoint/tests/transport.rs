//! Delivery over a link that loses and repeats frames: retransmission, timers, what is given up.

#[path = "support/pair.rs"]
mod pair;

use pair::{BASE, Faults, Host, Net, address, connect, deliver, pair};
use proptest::prelude::*;
use weir_dataplane::types::Nanos;
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::frame::Frame;
use weir_endpoint::roce::qp::Path;
use weir_endpoint::roce::verbs::{PostError, SendOp, SendWr, Status};
use weir_endpoint::roce::wire::{Aeth, Bth, Extensions, Nak, Opcode, Packet, Qpn, Syndrome};

#[test]
fn a_lossy_link_delivers_every_message_once_in_order_across_the_psn_wrap() {
    let faults = Faults { lost: 5, twice: 3, marked: 0 };
    for seed in 0..8 {
        let net = deliver(seed, faults, 16, 1024, 120);
        let c = net.hosts[0].hca.counters();
        assert!(c.tx_retransmitted > 0 && c.rx_duplicates > 0 && c.rx_out_of_sequence > 0);
    }
}

#[test]
fn a_clean_link_needs_no_packet_twice() {
    let net = deliver(1, Faults::default(), 64, 4096, 120);
    for host in &net.hosts {
        let c = host.hca.counters();
        assert_eq!((c.tx_retransmitted, c.rx_duplicates, c.rx_out_of_sequence, c.timeouts), (0, 0, 0, 0));
        assert!(c.tx_data > 150);
    }
}

#[test]
fn same_seed_same_run_to_the_last_counter() {
    let run = || deliver(42, Faults { lost: 8, twice: 2, marked: 10 }, 8, 256, 60);
    let (one, two) = (run(), run());
    assert_eq!(one.now, two.now);
    assert_eq!(one.hosts[0].hca.counters(), two.hosts[0].hca.counters());
    assert_eq!(one.hosts[1].hca.counters(), two.hosts[1].hca.counters());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_window_mtu_and_fault_rate_delivers(
        seed: u64, lost in 0u64..12, twice in 0u64..10, marked in 0u64..30,
        window in 1u32..70, mtu in prop::sample::select(vec![256u16, 512, 1024, 2048, 4096]),
    ) {
        deliver(seed, Faults { lost, twice, marked }, window, mtu, 24);
    }

    /// Whatever arrives from the peer's address, with a right ICRC, nothing panics and no byte is
    /// written outside the receive buffers.
    #[test]
    fn hostile_peers_end_in_counters(packets in prop::collection::vec(
        (any::<u8>(), 0u32..4, any::<u8>(), 0u64..64, 0u32..64, 0usize..40), 1..40)
    ) {
        let [mut a, mut b] = pair(|c| c.mtu = 256);
        for i in 0..4 {
            b.recv(i, 100, 64);
        }
        b.send(1, SendOp::Send, 0, 600);
        let rkey = b.mr.rkey;
        a.send(9, SendOp::Send, 0, 0);
        let bytes = a.hca.poll_transmit(0).unwrap().bytes.to_vec();
        for (now, (opcode, ahead, syndrome, va, len, payload)) in packets.into_iter().enumerate() {
            let opcode = Opcode(opcode);
            let Some(layout) = opcode.layout() else { continue };
            let _ = b.hca.poll_transmit(now as Nanos);
            let mut frame = Frame::parse(&bytes).unwrap();
            let data = vec![0xaa; payload];
            frame.packet.bth.opcode = opcode;
            frame.packet.bth.psn = Psn::new(0xff_fff0 + ahead);
            frame.packet.ext = Extensions {
                deth: layout.deth.then_some(weir_endpoint::roce::wire::Deth { qkey: 0, src_qp: Qpn(1) }),
                reth: layout.reth.then_some(weir_endpoint::roce::wire::Reth { va: BASE + 100 + va, rkey, len }),
                aeth: layout.aeth.then_some(Aeth { syndrome, msn: 0 }),
                imm: layout.imm.then_some(5),
            };
            frame.packet.payload = &data;
            let mut out = Vec::new();
            frame.emit(&mut out);
            b.hca.handle_frame(&out, now as Nanos);
        }
        prop_assert!(b.bytes(0, 100).iter().chain(b.bytes(228, 1000)).all(|&byte| byte == 0));
    }
}

/// A frame of the peer with any bytes from its BTH on, sealed with a right ICRC.
#[test]
fn fuzz_sealed_packets_never_panic() {
    let [mut a, _] = pair(|_| {});
    a.send(1, SendOp::Send, 0, 0);
    let header = a.hca.poll_transmit(0).unwrap().bytes[..42].to_vec();
    bolero::check!().for_each(|packet: &[u8]| {
        let [_, mut b] = pair(|_| {});
        b.recv(0, 0, 64);
        b.send(0, SendOp::Send, 0, 3000);
        let _ = b.hca.poll_transmit(0);
        let len = packet.len().min(5000);
        let mut frame = [&header, &packet[..len]].concat();
        let (ip, udp) = (20 + 8 + len + 4, 8 + len + 4);
        frame[16..18].copy_from_slice(&(ip as u16).to_be_bytes());
        frame[38..40].copy_from_slice(&(udp as u16).to_be_bytes());
        frame[24..26].fill(0);
        let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        frame[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
        let crc = weir_endpoint::roce::icrc::icrc(&frame[14..]).unwrap_or_default();
        frame.extend(crc);
        b.hca.handle_frame(&frame, 0);
        let c = b.hca.counters();
        assert_eq!(c.rx_not_roce + c.rx_bad_icrc * u64::from(len >= 12), 0, "the seal is right");
        while b.hca.poll_transmit(0).is_some() {}
    });
}

/// A hand-made answer from host 2 to host 1.
fn answer(a: &mut Host, psn: u32, syndrome: Syndrome, now: Nanos) {
    let mut out = Vec::new();
    let path = Path::new(address(2), address(1), a.qpn);
    let mut probe = Host::new(16, |_| {});
    probe.hca.connect(probe.qpn, path).unwrap();
    probe.send(0, SendOp::Send, 0, 0);
    let bytes = probe.hca.poll_transmit(0).unwrap().bytes.to_vec();
    let outer = Frame::parse(&bytes).unwrap().outer;
    let ext =
        Extensions { aeth: Some(Aeth { syndrome: syndrome.encode(), msn: 0 }), ..Extensions::default() };
    let bth = Bth::new(Opcode::RC_ACK, a.qpn, Psn::new(psn));
    Frame { outer, packet: Packet { bth, ext, payload: &[] } }.emit(&mut out);
    a.hca.handle_frame(&out, now);
}

/// Section 5 of the vectors: the wire order of a Linux host with window 8 across the PSN wrap.
#[test]
fn go_back_n_across_the_wrap_in_the_order_seen_on_the_wire() {
    let mut a = Host::new(64, |c| {
        c.window = 8;
        c.rate = u64::MAX;
        c.ack_timeout = 1_000_000;
    });
    let mut path = Path::new(address(1), address(2), Qpn(0x100));
    path.send_psn = Psn::new(0xff_fff0);
    a.hca.connect(a.qpn, path).unwrap();
    for i in 0..64 {
        a.send(i, SendOp::Send, 0, 16);
    }
    const ACK: Syndrome = Syndrome::ACK_NO_CREDITS;
    const NAK: Syndrome = Syndrome::Nak(Nak::Sequence);
    let mut wire: Vec<u32> = Vec::new();
    let psns = |sent: Vec<(Opcode, u32, bool, usize)>| sent.into_iter().map(|p| p.1).collect::<Vec<_>>();
    wire.extend(psns(a.sent(0)));
    assert_eq!(a.hca.next_timeout(), Some(1_000_000));
    a.hca.handle_timeout(999_999);
    assert_eq!(psns(a.sent(999_999)), []);
    a.hca.handle_timeout(1_000_000);
    wire.extend(psns(a.sent(1_000_000)));
    answer(&mut a, 0xff_fff1, NAK, 1_100_000);
    wire.extend(psns(a.sent(1_100_000)));
    answer(&mut a, 0xff_fff8, ACK, 1_200_000);
    wire.extend(psns(a.sent(1_200_000)));
    answer(&mut a, 0x00_0000, ACK, 1_300_000);
    for _ in 0..6 {
        wire.push(a.sent_one(1_300_000).unwrap().1);
    }
    answer(&mut a, 0x00_0005, NAK, 1_400_000);
    for _ in 0..2 {
        wire.push(a.sent_one(1_400_000).unwrap().1);
    }
    let seen = "fffff0 fffff1 fffff2 fffff3 fffff4 fffff5 fffff6 fffff7 fffff0 fffff1 fffff2 fffff3 fffff4 \
        fffff5 fffff6 fffff7 fffff1 fffff2 fffff3 fffff4 fffff5 fffff6 fffff7 fffff8 fffff9 fffffa fffffb \
        fffffc fffffd fffffe ffffff 000000 000001 000002 000003 000004 000005 000006 000005 000006";
    let wire: Vec<String> = wire.iter().map(|psn| format!("{psn:06x}")).collect();
    assert_eq!(wire.join(" "), seen);
    // fffff0 to 000004 were acknowledged, cumulatively: 21 sends are complete.
    assert_eq!(a.completions().iter().map(|c| c.wr_id).collect::<Vec<_>>(), (0..21).collect::<Vec<_>>());
}

#[test]
fn a_receiver_that_is_not_ready_is_waited_for_as_long_as_it_asks() {
    let [mut a, b] = pair(|c| c.min_rnr_timer = 14);
    a.fill(0, b"late");
    a.send(1, SendOp::Send, 0, 4);
    a.send(2, SendOp::Send, 0, 4);
    let mut net = Net::new([a, b], Faults::default(), 0);
    // Up to the RNR NAK: the first packet arrives at 1 us, its answer at 2 us.
    for now in [0, 1000, 2000] {
        net.now = now;
        while let Some(entry) = net.flight.first_entry().filter(|e| e.key().0 <= now) {
            let (to, bytes) = entry.remove();
            net.hosts[to].hca.handle_frame(&bytes, now);
        }
        net.transmit();
    }
    assert_eq!(net.hosts[0].hca.next_timeout(), Some(2000 + 1_280_000));
    assert_eq!(net.hosts[1].hca.counters().rx_rnr, 1);
    // The packet behind the refused one is silence, not a gap to be named.
    assert_eq!(net.hosts[1].hca.counters().tx_nak_sequence, 0);
    net.hosts[1].recv(8, 100, 4);
    net.hosts[1].recv(9, 200, 4);
    net.run();
    assert_eq!(net.hosts[1].bytes(200, 4), b"late");
    assert!(net.hosts[0].completions().iter().all(|c| c.status == Status::Success));
}

#[test]
fn retries_are_bounded() {
    // A receiver that never posts a buffer.
    let [mut a, b] = pair(|c| c.rnr_retry = 3);
    a.send(1, SendOp::Send, 0, 4);
    let mut net = Net::new([a, b], Faults::default(), 0);
    net.run();
    assert_eq!(net.hosts[0].completions()[0].status, Status::RnrRetryExceeded);
    assert_eq!(net.hosts[1].hca.counters().rx_rnr, 4);

    // A link that is cut: one transmission and `retry_cnt` more.
    let [mut a, b] = pair(|c| {
        c.retry_cnt = 5;
        c.ack_timeout = 10_000;
    });
    a.send(1, SendOp::Send, 0, 4);
    a.send(2, SendOp::Send, 0, 4);
    let mut net = Net::new([a, b], Faults { lost: 100, ..Faults::default() }, 0);
    net.run();
    let [a, _] = &mut net.hosts;
    let status: Vec<Status> = a.completions().iter().map(|c| c.status).collect();
    assert_eq!(status, [Status::RetryExceeded, Status::Flushed]);
    assert_eq!((a.hca.counters().tx_data, a.hca.counters().timeouts), (12, 6));
}

#[test]
fn a_failed_pair_works_again_after_a_reset() {
    let [mut a, mut b] = pair(|c| {
        c.retry_cnt = 0;
        c.ack_timeout = 10_000;
    });
    a.send(1, SendOp::Send, 0, 4);
    assert_eq!(a.sent(0).len(), 1); // and it is lost
    a.hca.handle_timeout(20_000);
    assert_eq!(a.completions()[0].status, Status::RetryExceeded);
    a.hca.reset(a.qpn).unwrap();
    b.hca.reset(b.qpn).unwrap();
    assert_eq!(a.hca.poll_event(), None);
    let sge = a.sge(0, 4);
    let wr = SendWr { wr_id: 2, op: SendOp::Send, sge };
    assert_eq!(a.hca.post_send(a.qpn, wr), Err(PostError::NotReady));
    connect(&mut a, &mut b, 7, 9);
    b.recv(1, 0, 4);
    a.send(2, SendOp::Send, 0, 4);
    let mut net = Net::new([a, b], Faults::default(), 0);
    net.run();
    let done = net.hosts[0].completions();
    assert_eq!((done[0].wr_id, done[0].status), (2, Status::Success));
}

/// A slow flow asks late: the clock starts with the question, and the oldest one counts.
#[test]
fn the_clock_starts_with_the_oldest_packet_that_asked() {
    let [mut a, _] = pair(|c| {
        c.rate = 10_000_000; // 884.8 us a packet
        c.ack_timeout = 1_500_000;
        c.window = 8; // asks at every fourth packet
    });
    a.send(1, SendOp::Send, 0, 9 * 1024);
    let mut asked = Vec::new();
    let mut now = 0;
    loop {
        a.hca.handle_timeout(now);
        if a.hca.counters().timeouts > 0 {
            break;
        }
        match a.sent_one(now) {
            Some((_, _, true, _)) => asked.push(now),
            Some(_) => {}
            None => now = a.hca.next_timeout().unwrap(),
        }
    }
    assert_eq!(asked, [3 * 884_800]);
    assert_eq!(now, 3 * 884_800 + 1_500_000);
}

#[test]
fn an_answer_about_a_packet_never_sent_is_ignored() {
    let [mut a, _] = pair(|c| c.window = 2);
    for i in 0..3 {
        a.send(i, SendOp::Send, 0, 4);
    }
    while a.hca.counters().tx_data < 2 {
        let now = a.hca.next_timeout().unwrap();
        a.sent(now);
    }
    for syndrome in [Syndrome::ACK_NO_CREDITS, Syndrome::Nak(Nak::Sequence), Syndrome::Rnr(1)] {
        answer(&mut a, 0xff_fff2, syndrome, 1000);
        answer(&mut a, 0x7f_fff0, syndrome, 1000);
    }
    assert_eq!((a.completions(), a.sent(1000)), (vec![], vec![]));
    answer(&mut a, 0xff_fff1, Syndrome::ACK_NO_CREDITS, 1000);
    assert_eq!(a.completions().len(), 2);
}

#[test]
fn a_nak_that_arrives_twice_costs_one_retry() {
    let [mut a, _] = pair(|c| c.retry_cnt = 1);
    a.send(0, SendOp::Send, 0, 4);
    assert_eq!(a.sent(0).len(), 1);
    answer(&mut a, 0xff_fff0, Syndrome::Nak(Nak::Sequence), 1000);
    answer(&mut a, 0xff_fff0, Syndrome::Nak(Nak::Sequence), 1001);
    assert_eq!(a.completions(), []);
    assert_eq!(a.sent(1001).len(), 1);
    answer(&mut a, 0xff_fff0, Syndrome::Nak(Nak::Sequence), 2000);
    assert_eq!(a.completions()[0].status, Status::RetryExceeded);
}

#[test]
fn a_late_ack_after_a_step_back_spares_the_packets_it_names() {
    let [mut a, _] = pair(|c| {
        c.rate = u64::MAX;
        c.ack_timeout = 1000;
    });
    for i in 0..4 {
        a.send(i, SendOp::Send, 0, 4);
    }
    assert_eq!(a.sent(0).len(), 4);
    a.hca.handle_timeout(1000);
    answer(&mut a, 0xff_fff2, Syndrome::ACK_NO_CREDITS, 1000);
    assert_eq!(a.sent(1000).iter().map(|p| p.1).collect::<Vec<_>>(), [0xff_fff3]);
}

#[test]
fn cc003_work_requests_in_flight_are_limited_and_a_masked_pair_is_silent() {
    let [mut a, b] = pair(|config| config.rate = u64::MAX);
    let op = SendOp::Write { va: BASE, rkey: b.mr.rkey };
    (0..20).for_each(|n| a.send(n, op, 0, 2000));
    a.hca.set_outstanding(a.qpn, 0);
    assert_eq!((a.sent(0), a.hca.next_timeout()), (vec![], None));
    a.hca.set_outstanding(a.qpn, 8);
    // Two packets each.
    assert_eq!(a.sent(1).len(), 16);
    // Three requests are acknowledged, so three more may go.
    answer(&mut a, 0xff_fff0 + 5, Syndrome::ACK_NO_CREDITS, 2);
    assert_eq!(a.sent(3).len(), 6);
    a.hca.set_outstanding(a.qpn, u32::MAX);
    assert_eq!(a.sent(4).len(), 40 - 22);
}
