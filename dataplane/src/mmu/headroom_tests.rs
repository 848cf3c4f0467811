//! Published tables, DEV-26 and monotonicity.

use super::*;
use proptest::prelude::*;

const G: u64 = 1_000_000_000;

fn xoff(model: Model, input: &HeadroomInput) -> u64 {
    let h = headroom(model, input).unwrap();
    assert_eq!(h.xoff, h.terms.iter().map(|t| t.bytes).sum::<u64>(), "{model:?}: terms sum to xoff");
    h.xoff
}

#[test]
fn published_spectrum4_table_at_100g() {
    for (metres, want) in [(5, 113_664), (40, 126_976), (300, 225_280)] {
        let input = HeadroomInput::new(100 * G, metres, 9100, 1024);
        assert_eq!(xoff(Model::Sonic, &input), want, "{metres} m");
    }
    let h = headroom(Model::Sonic, &HeadroomInput::new(100 * G, 5, 9100, 1024)).unwrap();
    assert_eq!((h.xon, h.size), (19 * 1024, 113_664 + 19 * 1024));
}

#[test]
fn vendor_size_with_shared_pool_and_eight_lanes() {
    let mut input = HeadroomInput::new(100 * G, 5, 9100, 1024);
    input.shared_pool = true;
    assert_eq!(headroom(Model::Sonic, &input).unwrap().size, 19 * 1024);
    input.shared_pool = false;
    input.asic.eight_lanes = true;
    let h = headroom(Model::Sonic, &input).unwrap();
    assert_eq!((h.xon, h.size), (38 * 1024, 113_664 + 38 * 1024 + 9100));
}

/// The formula in floating point, written down a second time from the reference.
#[test]
fn vendor_formula_agrees_with_floating_point() {
    for rate in [10, 25, 40, 50, 100, 200, 400, 800] {
        for metres in [1u32, 5, 40, 300, 2000] {
            for p in [0u32, 1, 37, 50, 99, 100] {
                for cell in [80u32, 96, 128, 144, 192, 256] {
                    let mut i = HeadroomInput::new(rate * G, metres, 9100, 1024);
                    i.small_packet_percentage = p;
                    i.asic.cell_bytes = cell;
                    i.asic.gearbox_ns = 13;
                    let (r, c) = ((rate * G) as f64, f64::from(cell));
                    let worst = if cell > 128 { (c / 64.0).ceil() } else { (2.0 * c / (1.0 + c)).ceil() };
                    let pf = f64::from(p);
                    let share = 64.0 * pf / (64.0 * pf + 1024.0 * (100.0 - pf));
                    let occupancy = (1.0 - share) + share * worst;
                    let propagation = 9100.0
                        + 2.0 * f64::from(metres) * r / 198e6 / 8.0
                        + 2.0 * r * 13e-9 / 8.0
                        + 819.2
                        + peer_response_quanta(rate * G) as f64 * 64.0
                        + rate as f64 * 120.0 / 8.0;
                    let bytes = 1024.0 + propagation * occupancy;
                    // Floating point may stand on the other side of a KiB: look at both.
                    let kib = |b: f64| (b / 1024.0).ceil() as u64 * 1024;
                    let got = xoff(Model::Sonic, &i);
                    assert!(got == kib(bytes - 1e-3) || got == kib(bytes + 1e-3), "{i:?} {bytes}");
                }
            }
        }
    }
}

#[test]
fn dev26_ten_metres_of_cable_with_frames_of_1426_wire_bytes() {
    for (rate, want, kb) in [(100, 29_402, 294), (200, 34_428, 344), (400, 65_856, 659)] {
        let mut input = HeadroomInput::new(rate * G, 10, 1402, 1402);
        input.own = OwnTerms::WIRE_ONLY;
        assert_eq!(xoff(Model::Weir, &input), want);
        assert_eq!((want + 50) / 100, kb, "the figure printed in DEV-26");
    }
}

/// Reference 2.3: cable, response and two frames, nothing else, in KB with one decimal.
#[test]
fn lower_bound_row_of_the_reference() {
    let row = [(10, 5, 145), (25, 5, 154), (25, 300, 247), (100, 5, 360), (100, 300, 732)];
    for (rate, metres, want) in row.into_iter().chain([(400, 5, 706), (400, 300, 2196)]) {
        let mut i = HeadroomInput::new(rate * G, metres, 9100, 1024);
        i.small_packet_percentage = 0;
        i.asic.mac_phy_millibytes = 0;
        i.asic.tile_ns = 0;
        let h = headroom(Model::Sonic, &i).unwrap();
        let padding = h.terms.iter().find(|t| t.name == "round_up").unwrap().bytes;
        assert_eq!((h.xoff - padding + 50) / 100, want, "{rate}G {metres} m");
    }
}

/// The physical model adds to the lower bound only what it can name.
#[test]
fn own_terms_are_bytes_at_line_rate() {
    let mut i = HeadroomInput::new(100 * G, 5, 9100, 1024);
    i.own = OwnTerms::WIRE_ONLY;
    let wire = xoff(Model::Weir, &i);
    i.own.loop_turn = 20_000;
    assert_eq!(xoff(Model::Weir, &i) - wire, 250_000, "20 us at 100G");
    i.own.rx_ring = RxRing::Time(1_000);
    assert_eq!(xoff(Model::Weir, &i) - wire, 262_500);
    i.own.rx_ring = RxRing::Descriptors { count: 512, frame: 1024 };
    i.own.tx_ring = 240;
    i.own.crossing_frame = 1024;
    assert_eq!(xoff(Model::Weir, &i) - wire, 250_000 + 512 * 1048 + 3_000 + 1024);
}

/// A RoCE payload MTU is not a frame: 4096 bytes of payload are 4158 bytes with FCS, 4174 with a RETH.
#[test]
fn dev31_frames_are_compared_with_frames() {
    let frame = |headers: u32| 14 + 20 + 8 + 12 + headers + 4096 + 4;
    assert_eq!((frame(0) + 4, frame(16) + 4), (4158, 4174));
    let need = |lossless| xoff(Model::Weir, &HeadroomInput::new(100 * G, 5, 9100, lossless));
    assert_eq!(need(frame(16)) - need(4096), 2 * 74, "crossing and arriving frame, both too small");
}

/// Bytes admitted from the crossing frame on, event by event, at 8 Gbit/s where a byte takes 1 ns: the peer
/// sends frames of these lengths without a pause, the PFC frame meets the worst moment everywhere.
fn arrives_after_xoff(i: &HeadroomInput, quanta: u64, frames: &[u32]) -> u64 {
    let RxRing::Time(ring) = i.own.rx_ring else { panic!("time only") };
    let cable = 5 * u64::from(i.cable_m);
    // The first frame begins at 0. It is admitted when its last byte is here and the ring was polled.
    let admitted = wire_bytes(u64::from(frames[0])) + cable + ring;
    let leaves = admitted + i.own.loop_turn + i.own.tx_ring + wire_bytes(u64::from(i.mtu)) + 84;
    let stops = leaves + cable + quanta * 64;
    let (mut begin, mut bytes) = (0, 0);
    for &frame in frames.iter().cycle() {
        // A frame may begin up to and including the limit, and then it is sent to its end.
        if begin > stops {
            return bytes;
        }
        bytes += u64::from(frame);
        begin += wire_bytes(u64::from(frame));
    }
    unreachable!("cycle has no end")
}

#[test]
fn c12_without_the_crossing_frame_the_promise_breaks() {
    let mut i = HeadroomInput::new(8 * G, 100, 9000, 9000);
    i.peer = PeerResponse::Quanta(0);
    let need = arrives_after_xoff(&i, 0, &[9000]);
    assert!(need <= xoff(Model::Weir, &i));
    i.own.crossing_frame = 0;
    assert!(need > xoff(Model::Weir, &i));
}

#[test]
fn peer_response_between_and_beyond_the_rows() {
    assert_eq!(peer_response_quanta(100 * G), 394);
    assert_eq!(peer_response_quanta(60 * G), 394);
    assert_eq!(peer_response_quanta(1), 1);
    assert_eq!(peer_response_quanta(1_600 * G), 1_810);
}

#[test]
fn odd_numbers_are_refused_with_the_number() {
    let good = HeadroomInput::new(100 * G, 5, 9100, 1024);
    let refused = |change: fn(&mut HeadroomInput)| {
        let mut i = good;
        change(&mut i);
        headroom(Model::Weir, &i).unwrap_err()
    };
    assert_eq!(refused(|i| i.rate = 0), HeadroomError::Rate(0));
    assert_eq!(refused(|i| i.mtu = 0), HeadroomError::Frame { name: "mtu", bytes: 0 });
    assert_eq!(refused(|i| i.small_packet_percentage = 101), HeadroomError::Percentage(101));
    assert_eq!(refused(|i| i.peer = PeerResponse::Quanta(u64::MAX)), HeadroomError::TooLarge);
    assert_eq!(refused(|i| i.own.tx_ring = u64::MAX), HeadroomError::TooLarge);
    assert!(refused(|i| i.rate = 0).to_string().contains("needs a rate"));
}

proptest! {
    /// More of anything never needs less headroom, in either model.
    #[test]
    fn monotonic_in_every_input(
        rate in 0usize..8, metres in 0u32..100_000, mtu in 64u32..9500, lossless in 64u32..9500,
        quanta in 0u64..70_000, turn in 0u64..1_000_000, ring in 0u32..4096, p in 0u32..100,
        model in prop_oneof![Just(Model::Sonic), Just(Model::Weir)],
    ) {
        let rates = [1, 10, 25, 40, 50, 100, 200, 400, 800];
        let mut i = HeadroomInput::new(rates[rate] * G, metres, mtu, lossless);
        i.peer = PeerResponse::Quanta(quanta);
        i.small_packet_percentage = p;
        i.own.loop_turn = turn;
        i.own.rx_ring = RxRing::Descriptors { count: ring, frame: mtu };
        let base = xoff(model, &i);
        let changes: [fn(&mut HeadroomInput); 8] = [
            |i| i.cable_m += 1,
            |i| i.mtu += 1,
            |i| i.own.crossing_frame += 1,
            |i| i.peer = PeerResponse::Quanta(70_001),
            |i| i.own.loop_turn += 1,
            |i| i.own.rx_ring = RxRing::Descriptors { count: 4097, frame: 9500 },
            |i| i.own.tx_ring += 1,
            |i| i.small_packet_percentage += 1,
        ];
        for (n, change) in changes.into_iter().enumerate() {
            let mut more = i;
            change(&mut more);
            prop_assert!(xoff(model, &more) >= base, "change {n}");
        }
        i.rate = rates[rate + 1] * G;
        prop_assert!(xoff(model, &i) >= base, "rate");
        i.lossless_mtu += 1;
        i.small_packet_percentage = 0;
        let mut smaller = i;
        smaller.lossless_mtu -= 1;
        prop_assert!(xoff(model, &i) >= xoff(model, &smaller), "lossless_mtu");
    }

    /// C12: a peer that answers within N quanta never overruns the headroom computed for N, and not much is wasted:
    /// the bound is met to within one frame and the gaps between frames, which are not stored.
    #[test]
    fn c12_promise_holds_up_to_n_max(
        metres in 0u32..2_000, mtu in 60u32..9_200, n_max in 0u64..1_000, early in 0u64..1_000,
        turn in 0u64..20_000, ring in 0u64..20_000, tx in 0u64..20_000,
        frames in prop::collection::vec(60u32..4_200, 1..20),
    ) {
        let longest = *frames.iter().max().unwrap();
        let mut i = HeadroomInput::new(8 * G, metres, mtu, longest);
        i.peer = PeerResponse::Quanta(n_max);
        i.own.loop_turn = turn;
        i.own.rx_ring = RxRing::Time(ring);
        i.own.tx_ring = tx;
        let promise = xoff(Model::Weir, &i);
        let quanta = n_max.saturating_sub(early);
        prop_assert!(arrives_after_xoff(&i, quanta, &frames) <= promise);
        let most = arrives_after_xoff(&i, n_max, &[longest]);
        let gaps = (promise / wire_bytes(u64::from(longest)) + 1) * WIRE_OVERHEAD_BYTES;
        prop_assert!(most + wire_bytes(u64::from(longest)) + gaps >= promise, "{most} of {promise}");
    }

    /// Any numbers at all give an answer or an error, never an overflow.
    #[test]
    fn no_input_panics(
        rate: u64, cable_m: u32, mtu: u32, lossless: u16, quanta: u64, turn: u64, count: u32, frame: u32,
        cell: u16, millibytes: u32, ns: u32, p in 0u32..=100,
    ) {
        let mut i = HeadroomInput::new(rate % (MAX_RATE + 2), cable_m, mtu % 65_537, u32::from(lossless));
        i.peer = PeerResponse::Quanta(quanta);
        i.small_packet_percentage = p;
        i.own = OwnTerms {
            crossing_frame: mtu,
            rx_ring: RxRing::Descriptors { count, frame },
            loop_turn: turn,
            tx_ring: turn,
        };
        i.asic.cell_bytes = u32::from(cell);
        i.asic.mac_phy_millibytes = millibytes;
        i.asic.tile_ns = ns;
        i.asic.gearbox_ns = ns;
        for model in [Model::Sonic, Model::Weir] {
            if let Ok(h) = headroom(model, &i) {
                prop_assert_eq!(h.xoff, h.terms.iter().map(|t| t.bytes).sum::<u64>());
            }
        }
    }
}
