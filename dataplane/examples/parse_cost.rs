//! What reading a frame costs: parse, classify, look-up and learning, one burst after another.
//!
//! ```text
//! cargo run --release -p weir-dataplane --example parse_cost [GHz]
//! ```
//! Prints nanoseconds per frame of the best window out of many (the least disturbed one), and cycles
//! if the clock rate is given.

use std::hint::black_box;
use std::time::Instant;
use weir_dataplane::classify::{Classifier, Maps};
use weir_dataplane::fdb::{Fdb, Lookup};
use weir_dataplane::parse::{Kind, Profile, Variant};
use weir_dataplane::types::{BURST, PortId};

/// Frames per window.
const WINDOW: usize = 64 * 1024;
const WINDOWS: usize = 200;
const FRAMES: usize = 1024;
/// Length of a random walk over frames or stations: no branch predictor learns it by heart.
const WALK: usize = 1 << 20;

/// A sequence of small numbers without pattern (a linear congruential generator, high bits).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }
}

/// Best window of `work`, which handles the burst of steps of a walk that starts at its argument.
fn best(name: &str, ghz: Option<f64>, mut work: impl FnMut(usize) -> u64) {
    let mut least = f64::INFINITY;
    let mut at = 0;
    for _ in 0..WINDOWS {
        let start = Instant::now();
        let mut sum = 0;
        for _ in 0..WINDOW / BURST {
            sum += work(at);
            at = (at + BURST) % WALK;
        }
        black_box(sum);
        least = least.min(start.elapsed().as_secs_f64() * 1e9 / WINDOW as f64);
    }
    let cycles = ghz.map_or(String::new(), |ghz| format!("  {:6.1} cycles", least * ghz));
    println!("{name:<44} {least:6.2} ns{cycles}");
}

fn ipv4_frame(dst: u64, src: u64, roce: bool, tagged: bool, dice: &mut Dice) -> Vec<u8> {
    let mut frame = [&dst.to_be_bytes()[2..], &src.to_be_bytes()[2..]].concat();
    if tagged {
        frame.extend([0x81, 0, 0x60, 1]);
    }
    let port: u16 = if roce { 4791 } else { 9 };
    frame.extend([
        8,
        0,
        0x45,
        dice.below(256) as u8,
        0,
        40,
        0,
        0,
        0,
        0,
        64,
        17,
        0,
        0,
        10,
        0,
        0,
        1,
        10,
        0,
        0,
        2,
    ]);
    frame.extend([0xc0, 0]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 20, 0, 0]);
    frame.push([4, 4, 4, 4, 4, 4, 0x11, 0x81][dice.below(8)]);
    frame.resize(60, 0);
    frame
}

fn main() {
    let ghz = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let mut dice = Dice(7);
    let classifier =
        Classifier::new(&Maps { control_tc: Some(6), ..Maps::default() }, Profile::standard().trust())
            .expect("the default maps are valid");
    let mut frames_of = |roce, tagged| -> Vec<Vec<u8>> {
        let station = 0x0200_0000_0000;
        (0..FRAMES as u64)
            .map(|n| ipv4_frame(station + n, station + n / 2, roce, tagged, &mut dice))
            .collect()
    };
    let mixed = [frames_of(false, false), frames_of(true, false), frames_of(true, true)];
    let mixed = (0..FRAMES).map(|n| mixed[n % 3][n].clone()).collect();
    let cases = [
        ("standard, plain UDP", Profile::standard(), frames_of(false, false)),
        ("standard, RoCE, 1 in 4 control", Profile::standard(), frames_of(true, false)),
        ("standard, tagged RoCE", Profile::standard(), frames_of(true, true)),
        ("standard, any of these", Profile::standard(), mixed),
        ("afh_gen2_16b", Profile::afh_gen2_16b(Variant::Public), frames_of(true, false)),
        ("afh_lite", Profile::afh_lite(Variant::Public), frames_of(true, false)),
    ];
    let walk: Vec<u16> = (0..WALK).map(|_| dice.below(FRAMES) as u16).collect();
    for (name, profile, frames) in &cases {
        best(&format!("parse + classify: {name}"), ghz, |at| {
            let mut sum = 0;
            for &pick in &walk[at..at + BURST] {
                let frame = &frames[usize::from(pick)];
                if let Ok(parsed) = black_box(profile).parse(frame, frame.len()) {
                    let class = classifier.class(&parsed);
                    let data = u64::from(parsed.kind == Kind::Data);
                    sum +=
                        parsed.dst_key ^ parsed.src_key ^ u64::from(class.queue) ^ u64::from(class.pg) ^ data;
                }
            }
            sum
        });
    }
    for size in [1024usize, 16 * 1024, 128 * 1024] {
        let mut fdb = Fdb::new(size, 300, 99);
        fdb.set_learning(PortId(1), true, u32::MAX);
        let key = |n: usize| 1 << 60 | 0x0200_0000_0000 | n as u64;
        for n in 0..size {
            fdb.learn(key(n), PortId(1), 5);
        }
        // A long walk without pattern over all stations.
        let walk: Vec<u64> = (0..WALK).map(|_| key(dice.below(size))).collect();
        best(&format!("look-up, {size} stations"), ghz, |at| {
            let mut sum = 0;
            for &key in &walk[at..at + BURST] {
                if let Lookup::Port(port) = black_box(&fdb).lookup(key) {
                    sum += u64::from(port.0);
                }
            }
            sum
        });
        best(&format!("learn what is known, {size} stations"), ghz, |at| {
            let mut sum = 0;
            for &key in &walk[at..at + BURST] {
                sum += u64::from(
                    black_box(&mut fdb).learn(key, PortId(1), 5) == weir_dataplane::fdb::Learned::Known,
                );
            }
            sum
        });
    }
}
