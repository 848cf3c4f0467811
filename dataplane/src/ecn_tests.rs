//! F1 to F9 on the marker alone, and the measured frequencies of the published model.

#[path = "../tests/harness/published.rs"]
mod published;

use super::*;
use crate::rng::Rng;
use proptest::prelude::*;

const SONIC: Wred = Wred { kmin: 1 << 20, kmax: 2 << 20, pmax: ONE_Q32 / 20, at: MarkAt::Dequeue };
const HPCC: Wred = Wred { kmin: 100_000, kmax: 400_000, pmax: ONE_Q32 / 5, ..SONIC };

fn marked(wred: &Wred, depth: u64, draws: u32, rng: &mut Rng) -> u32 {
    (0..draws).map(|_| u32::from(wred.decide(depth, rng.next_u32()))).sum()
}

/// |observed - n p| within three standard deviations.
fn within_three_sigma(observed: u32, draws: u32, p: f64) -> bool {
    let n = f64::from(draws);
    (f64::from(observed) - n * p).abs() <= 3.0 * (n * p * (1.0 - p)).sqrt()
}

#[test]
fn f1_below_kmin_nothing_is_marked() {
    for wred in [SONIC, HPCC] {
        for depth in [0, 1, wred.kmin / 2, wred.kmin - 1, wred.kmin] {
            assert!(!wred.decide(depth, 0), "the most eager random number at {depth}");
        }
    }
}

#[test]
fn f2_above_kmax_every_ect_frame_is_marked() {
    for wred in [SONIC, HPCC, Wred { pmax: 0, ..SONIC }] {
        for depth in [wred.kmax + 1, wred.kmax * 2, u64::MAX] {
            assert!(wred.decide(depth, u32::MAX), "the most reluctant random number at {depth}");
        }
    }
}

#[test]
fn f3_ramp_is_linear_up_to_pmax() {
    let mut rng = Rng::new(3);
    for wred in [SONIC, HPCC, Wred { pmax: ONE_Q32, ..HPCC }] {
        for point in 1..=10 {
            let depth = wred.kmin + (wred.kmax - wred.kmin) * point / 10;
            let p = wred.pmax as f64 / ONE_Q32 as f64 * point as f64 / 10.0;
            let seen = marked(&wred, depth, 20_000, &mut rng);
            assert!(within_three_sigma(seen, 20_000, p), "{wred:?} at {depth}: {seen} of 20000, p {p}");
        }
    }
}

/// The share of the 2^32 random values that mark is exactly the fraction, rounded up.
#[test]
fn f3_probability_is_exact() {
    let wred = Wred { kmin: 10, kmax: 17, pmax: ONE_Q32 / 3, ..SONIC };
    for depth in 11..=17 {
        let share = (wred.pmax * (depth - 10)).div_ceil(7);
        assert!(wred.decide(depth, (share - 1) as u32));
        assert!(!wred.decide(depth, share as u32));
    }
    assert!(Wred { pmax: ONE_Q32, ..wred }.decide(17, u32::MAX), "Pmax of one is certain at Kmax");
}

#[test]
fn f3_frequencies_of_the_published_model() {
    let Some(folder) = published::published("ns3-mmu") else { return };
    let path = folder.join("hpcc_ecn_mark_freq.csv");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut rng = Rng::new(1);
    let mut rows = 0;
    for line in text.lines().skip(1) {
        let f: Vec<f64> = line.split(',').map(|field| field.trim().parse().unwrap()).collect();
        let [kmin, kmax, pmax, depth, p, theirs, draws] = f[..] else { panic!("{line}") };
        let pmax = q32_from_millionths((pmax * 1e6).round() as u32);
        let wred = Wred { kmin: kmin as u64, kmax: kmax as u64, pmax, ..SONIC };
        let ours = marked(&wred, depth as u64, draws as u32, &mut rng);
        // The printed probability has eight decimals; both samples are binomial.
        assert!(within_three_sigma(ours, draws as u32, p), "{line}: {ours}");
        let sigma = (2.0 * draws * p * (1.0 - p)).sqrt();
        assert!((f64::from(ours) - theirs).abs() <= 4.0 * sigma, "{line}: {ours}");
        rows += 1;
    }
    assert!(rows >= 13, "{rows} rows");
}

#[test]
fn f4_step_marks_the_first_and_not_the_last() {
    let step = Wred { kmin: 5_000, kmax: 5_000, ..SONIC };
    let marks: Vec<bool> = (0..10).map(|sent| step.decide((9 - sent) * 1_000, 0)).collect();
    assert_eq!(marks, [true, true, true, true, false, false, false, false, false, false]);
}

#[test]
fn f6_code_points() {
    for codepoint in 0..=3u8 {
        let changed = codepoint == 1 || codepoint == 2;
        let after = if changed { 3 } else { codepoint };
        let mut ipv4 = ipv4_header(0, 0x1234, 0x68 | codepoint);
        assert_eq!(mark(&mut ipv4, EcnPlace::Ipv4(0)), changed, "{codepoint}");
        assert_eq!(ipv4[1], 0x68 | after);
        let mut ipv6 = [0u8; 40];
        (ipv6[0], ipv6[1]) = (0x66, 0x8f | codepoint << 4);
        assert_eq!(mark(&mut ipv6, EcnPlace::Ipv6(0)), changed);
        assert_eq!((ipv6[0], ipv6[1]), (0x66, 0x8f | after << 4));
        let mut afh = [0xfcu8 | codepoint];
        assert_eq!(mark(&mut afh, EcnPlace::Tc(0)), changed);
        assert_eq!(afh[0], 0xfc | after);
        let mut none = [codepoint];
        assert!(!mark(&mut none, EcnPlace::None));
        assert_eq!(none[0], codepoint);
    }
}

fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

fn set_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let checksum = !ones_complement_sum(header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

fn ipv4_header(options: usize, id: u16, tos: u8) -> Vec<u8> {
    let mut header = vec![1; 20 + 4 * options];
    header[0] = 0x45 + options as u8;
    header[1] = tos;
    header[4..6].copy_from_slice(&id.to_be_bytes());
    set_checksum(&mut header);
    header
}

#[test]
fn f8_checksum_corner_cases() {
    let mut seen = [0; 3];
    for id in 0..=u16::MAX {
        let before = ipv4_header(0, id, 0x02);
        let mut after = before.clone();
        assert!(mark(&mut after, EcnPlace::Ipv4(0)));
        assert_eq!(ones_complement_sum(&after), 0xffff, "id {id:04x}");
        seen[0] += u32::from(before[10..12] == [0, 0]);
        seen[1] += u32::from(after[10..12] == [0, 0]);
        if before[10..12] == [0, 0] {
            // The other zero of ones' complement is as valid on arrival.
            let mut other = before.clone();
            other[10..12].fill(0xff);
            assert!(mark(&mut other, EcnPlace::Ipv4(0)));
            assert_eq!(ones_complement_sum(&other), 0xffff);
            seen[2] += 1;
        }
    }
    assert!(seen.iter().all(|n| *n > 0), "each corner was met: {seen:?}");
}

#[test]
fn f9_behind_one_and_two_tags() {
    for at in [14u8, 18, 22] {
        let mut frame = vec![0xaa; usize::from(at)];
        frame.extend([0x60, 0x20, 0x12, 0x34]);
        let before = frame.clone();
        assert!(mark(&mut frame, EcnPlace::Ipv6(at)));
        let byte = usize::from(at) + 1;
        assert_eq!(frame[byte], 0x30);
        frame[byte] = before[byte];
        assert_eq!(frame, before, "the traffic class and nothing else");
    }
}

proptest! {
    /// F8: any header with any options behind any prefix: the checksum verifies afterwards, and only the two
    /// bits and the checksum differ.
    #[test]
    fn f8_ipv4_checksum_verifies_and_nothing_else_changes(
        mut header in prop::collection::vec(any::<u8>(), 60), options in 0usize..=10, at in 0u8..64,
        tail in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let len = 20 + 4 * options;
        header[0] = 0x45 + options as u8;
        set_checksum(&mut header[..len]);
        let at_byte = usize::from(at);
        let mut frame = vec![0x5a; at_byte];
        frame.extend(&header[..len]);
        frame.extend(&tail);
        let before = frame.clone();
        let ect = matches!(header[1] & 3, 1 | 2);
        prop_assert_eq!(mark(&mut frame, EcnPlace::Ipv4(at)), ect);
        prop_assert_eq!(ones_complement_sum(&frame[at_byte..at_byte + len]), 0xffff);
        let mut undone = frame.clone();
        if ect {
            prop_assert_eq!(frame[at_byte + 1], header[1] | 3);
            let mut fresh = frame[at_byte..at_byte + len].to_vec();
            set_checksum(&mut fresh);
            prop_assert_eq!(&fresh[..], &frame[at_byte..at_byte + len], "as if computed anew");
            undone[at_byte + 1] = before[at_byte + 1];
            undone[at_byte + 10..at_byte + 12].copy_from_slice(&before[at_byte + 10..at_byte + 12]);
        }
        prop_assert_eq!(undone, before);
    }

    /// A checksum that was wrong stays wrong: marking hides no corruption.
    #[test]
    fn f8_wrong_checksum_stays_wrong(id: u16, error in 1u16..0xffff) {
        let mut header = ipv4_header(0, id, 0x01);
        let good = u16::from_be_bytes([header[10], header[11]]);
        header[10..12].copy_from_slice(&(good ^ error).to_be_bytes());
        prop_assume!(ones_complement_sum(&header) != 0xffff);
        prop_assert!(mark(&mut header, EcnPlace::Ipv4(0)));
        prop_assert_ne!(ones_complement_sum(&header), 0xffff);
    }

    /// Any place in any bytes: no panic, and a frame too short for the header is left alone.
    #[test]
    fn mark_never_panics(mut frame in prop::collection::vec(any::<u8>(), 0..80), at: u8) {
        for place in [EcnPlace::Ipv4(at), EcnPlace::Ipv6(at), EcnPlace::Tc(at)] {
            let before = frame.clone();
            if !mark(&mut frame, place) {
                prop_assert_eq!(&frame, &before);
            }
        }
    }

    /// Deeper never marks less, for the same random number.
    #[test]
    fn decide_is_monotonic(kmin in 0u64..1 << 40, span in 0u64..1 << 40, pmax in 0..=ONE_Q32, depth: u64, random: u32) {
        let wred = Wred { kmin, kmax: kmin + span, pmax, ..SONIC };
        for depth in [depth, depth % (kmin + span + 2)] {
            prop_assert!(wred.decide(depth, random) <= wred.decide(depth.saturating_add(1), random));
        }
    }
}
