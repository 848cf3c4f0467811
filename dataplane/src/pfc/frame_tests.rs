//! C1, D4, D8, D11 on the codec; quanta arithmetic.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PORT: Mac = Mac([0x02, 0, 0, 0, 0, 0x11]);

#[test]
fn c1_frame_is_bit_exact() {
    let bytes = PfcFrame { enable: 0b0001_1000, time: [7, 7, 7, 0xffff, 0, 7, 7, 7] }.encode(PORT);
    let mut want = [0; 60];
    want[..18].copy_from_slice(&[
        0x01, 0x80, 0xc2, 0x00, 0x00, 0x01, 0x02, 0, 0, 0, 0, 0x11, 0x88, 0x08, 0x01, 0x01, 0x00, 0x18,
    ]);
    want[24..26].copy_from_slice(&[0xff, 0xff]);
    assert_eq!(bytes, want, "times only where the bit is set, zero padding");
}

#[test]
fn c1_pause_frame_is_bit_exact() {
    let bytes = PauseFrame { quanta: 0x1234 }.encode(PORT);
    assert_eq!(bytes[12..20], [0x88, 0x08, 0x00, 0x01, 0x12, 0x34, 0, 0]);
    assert!(bytes[18..].iter().all(|b| *b == 0));
    assert_eq!(decode(&bytes), Control::Pause(PauseFrame { quanta: 0x1234 }));
}

#[test]
fn d4_vector_zero_is_a_valid_frame_about_nobody() {
    let mut bytes = PfcFrame::default().encode(PORT);
    bytes[18..34].fill(0xff);
    assert_eq!(decode(&bytes), Control::Pfc(PfcFrame::default()), "times of clear bits are ignored");
}

#[test]
fn d11_zero_source_is_honoured() {
    let frame = PfcFrame::uniform(8, 100);
    assert_eq!(decode(&frame.encode(Mac([0; 6]))), Control::Pfc(frame));
}

#[test]
fn d11_odd_frames_are_invalid() {
    let good = PfcFrame::uniform(8, 100).encode(PORT);
    let changed = |at: usize, bytes: &[u8]| {
        let mut frame = good;
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        decode(&frame)
    };
    let invalid = Control::Invalid;
    assert_eq!(changed(0, &PORT.0), invalid(Invalid::Destination), "unicast to our own address");
    assert_eq!(changed(5, &[0x02]), invalid(Invalid::Destination));
    assert_eq!(changed(12, &[0x81, 0x00, 0x60, 0, 0x88, 0x08]), invalid(Invalid::Tagged));
    assert_eq!(changed(12, &[0x88, 0xa8]), invalid(Invalid::Tagged));
    assert_eq!(changed(12, &[0x08, 0x00]), invalid(Invalid::EtherType));
    for opcode in [0x0000u16, 0x0002, 0x0100, 0x0102, 0x0201, 0xffff] {
        assert_eq!(changed(14, &opcode.to_be_bytes()), invalid(Invalid::Opcode), "{opcode:04x}");
    }
    assert_eq!(changed(16, &[0x01]), invalid(Invalid::Vector));
    for len in 0..good.len() {
        assert_eq!(decode(&good[..len]), invalid(Invalid::TooShort), "{len} bytes");
    }
    let with_fcs = [&good[..], &[1, 2, 3, 4]].concat();
    assert_eq!(decode(&with_fcs), decode(&good), "a NIC that keeps the FCS");
}

#[test]
fn invalid_reasons_index_their_counters() {
    for (i, reason) in Invalid::ALL.iter().enumerate() {
        assert_eq!(*reason as usize, i, "{}", reason.name());
    }
}

#[test]
fn quanta_last_512_bit_times() {
    let g = 1_000_000_000;
    // Reference 4.1: the longest pause by speed.
    for (rate, ns) in [
        (1, 33_553_920),
        (10, 3_355_392),
        (25, 1_342_157),
        (40, 838_848),
        (100, 335_540),
        (400, 83_885),
        (800, 41_943),
    ] {
        assert_eq!(quanta_to_ns(MAX_QUANTA, rate * g), ns, "{rate}G");
        assert!(quanta_to_ns_floor(MAX_QUANTA, rate * g) <= ns);
    }
    assert_eq!(quanta_to_ns(1, 800 * g), 1, "0.64 ns is not earlier than it should be");
    assert_eq!(quanta_to_ns(0, g), 0);
    assert_eq!(ns_to_quanta(5_120, 100 * g), 1_000);
    assert_eq!(ns_to_quanta(5_121, 100 * g), 1_001);
    assert_eq!(ns_to_quanta(u64::MAX, u64::MAX), MAX_QUANTA);
    assert_eq!(quanta_to_ns(MAX_QUANTA, 0), 65_535 * 512 * 1_000_000_000);
}

#[test]
fn fuzz_decode_never_panics() {
    bolero::check!().for_each(|bytes: &[u8]| {
        if let Control::Pfc(frame) = decode(bytes) {
            assert_eq!(decode(&frame.encode(PORT)), Control::Pfc(frame));
        }
    });
}

/// Random bytes are never a MAC control frame: start from one. What is read is what the standard says of each byte.
#[test]
fn fuzz_damaged_frames_say_what_their_bytes_say() {
    let seen: [AtomicU64; 8] = std::array::from_fn(|_| AtomicU64::new(0));
    type Input = (bool, u8, [u16; 8], [(u8, u8); 3], u8);
    bolero::check!().with_iterations(40_000).with_type::<Input>().for_each(
        |&(pfc, enable, time, changes, cut)| {
            let mut bytes = match pfc {
                true => PfcFrame { enable, time }.encode(PORT).to_vec(),
                false => PauseFrame { quanta: time[0] }.encode(PORT).to_vec(),
            };
            bytes.extend([1, 2, 3, 4]);
            // As many bytes of the first twenty are changed as `cut` says; it may also cut the frame.
            for (at, value) in changes.iter().take(usize::from(cut) % 4) {
                bytes[usize::from(*at) % 20] = *value;
            }
            bytes.truncate(if cut < 32 { 64 - 2 * usize::from(cut % 8) } else { 64 });
            let of = |i: usize| u16::from(bytes[i]) * 256 + u16::from(bytes[i + 1]);
            let times = std::array::from_fn(|p| if bytes[17] >> p & 1 == 1 { of(18 + 2 * p) } else { 0 });
            let (nth, want) = if bytes.len() < 60 {
                (0, Control::Invalid(Invalid::TooShort))
            } else if bytes[..6] != [1, 0x80, 0xc2, 0, 0, 1] {
                (1, Control::Invalid(Invalid::Destination))
            } else if [0x8100, 0x88a8, 0x9100].contains(&of(12)) {
                (2, Control::Invalid(Invalid::Tagged))
            } else if of(12) != 0x8808 {
                (3, Control::Invalid(Invalid::EtherType))
            } else if of(14) == 1 {
                (4, Control::Pause(PauseFrame { quanta: of(16) }))
            } else if of(14) != 0x0101 {
                (5, Control::Invalid(Invalid::Opcode))
            } else if bytes[16] != 0 {
                (6, Control::Invalid(Invalid::Vector))
            } else {
                (7, Control::Pfc(PfcFrame { enable: bytes[17], time: times }))
            };
            assert_eq!(decode(&bytes), want, "{bytes:02x?}");
            seen[nth].fetch_add(1, Relaxed);
        },
    );
    // A tag needs two right bytes at once, which chance does not bring in so few tries.
    let often = |(nth, n): (usize, &AtomicU64)| nth == 2 || n.load(Relaxed) > 20;
    assert!(seen.iter().enumerate().all(often), "{seen:?}");
}

#[test]
fn fuzz_encode_decode_round_trip() {
    bolero::check!().with_type::<(u8, [u16; 8], u16, [u8; 6])>().for_each(
        |&(enable, mut time, quanta, source)| {
            let bytes = PfcFrame { enable, time }.encode(Mac(source));
            for (priority, t) in time.iter_mut().enumerate() {
                if enable & 1 << priority == 0 {
                    *t = 0;
                }
            }
            assert_eq!(decode(&bytes), Control::Pfc(PfcFrame { enable, time }));
            let pause = PauseFrame { quanta };
            assert_eq!(decode(&pause.encode(Mac(source))), Control::Pause(pause));
        },
    );
}

#[test]
fn fuzz_quanta_round_trip() {
    bolero::check!().with_type::<(u16, u64)>().for_each(|&(quanta, rate)| {
        let rate = rate.max(1);
        let ns = quanta_to_ns(quanta, rate);
        assert!(ns_to_quanta(ns, rate) >= quanta, "rounding up never asks for less");
        assert!(ns - quanta_to_ns_floor(quanta, rate) <= 1);
    });
}
