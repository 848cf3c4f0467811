//! Queues that drop early, or mark on arrival: what becomes of a frame does not depend on those it comes with, nor on whose lcore
//! received it, and as many are dropped as the law says.

use super::shard_bed::Bed;
use super::*;
use crate::ecn::{MarkAt, ONE_Q32, Wred};
use crate::rng::Rng;

/// One shard; two, of which the owner of a port sends all, or each what it has received.
const SHARDS: [(usize, bool); 3] = [(1, false), (2, false), (2, true)];

#[test]
fn frames_fare_together_as_one_by_one() {
    for (shards, tx_per_lcore) in SHARDS {
        let (mut lost, mut marked, mut some) = (0, 0, 0);
        for (seed, (drops, marks)) in
            [(true, false), (false, true), (true, true)].into_iter().cycle().take(60).enumerate()
        {
            let mut rng = Rng::new(seed as u64);
            let mut below = |n: u32| rng.next_u32() % n;
            // Begins to act at 20 000 bytes, and leaves nothing to chance above `kmax`.
            let kmax = [200_000, 30_000][seed % 2];
            let wred = Wred { kmin: 20_000, kmax, pmax: ONE_Q32 / 4, at: MarkAt::Enqueue };
            let mut params = params(3);
            for port in &mut params.ports {
                port.early_drop = [drops.then_some(wred); PRIORITIES];
                port.mark = [marks.then_some(wred); PRIORITIES];
            }
            let [mut together, mut single] = [(); 2].map(|()| Bed::new(params.clone(), shards, tx_per_lcore));
            for step in 1..60 {
                let now = step * 1000;
                let (port, len) = ([0, 0, 2][below(3) as usize], [64, 300, 1500][below(3) as usize]);
                let one = |ecn: u32| {
                    let mut frame = frame(1, 2, 0, len);
                    frame.bytes_mut()[15] = ecn as u8;
                    frame
                };
                let burst: Vec<OwnedFrame> = (0..below(80)).map(|_| one(below(3))).collect();
                together.arrive(port, burst.clone(), now);
                burst.into_iter().for_each(|frame| single.arrive(port, [frame], now));
                let budget = below(100) as usize;
                let [a, b] = [&mut together, &mut single].map(|bed| match tx_per_lcore {
                    false => bed.leave(budget, now),
                    true if budget < 30 => bed.drain(BURST, now),
                    true => Vec::new(),
                });
                assert!(a == b, "{shards} {seed} {step}");
                some += a.len();
            }
            let stats = [&mut together, &mut single].map(|bed| format!("{:?}", bed.owner().stats(PortId(1))));
            assert_eq!(stats[0], stats[1], "{shards} {seed}");
            let stats = together.owner().stats(PortId(1));
            lost += stats.drops.0.iter().sum::<u64>();
            marked += stats.ecn_marked.iter().sum::<u64>();
            for mut bed in [together, single] {
                bed.drain(BURST, 0);
                bed.assert_empty();
            }
        }
        assert!(lost > 1000 && marked > 1000 && some > 10_000, "{lost} {marked} {some}");
    }
}

/// Frames of one class that came together.
struct Arrived {
    class: usize,
    /// Bytes in the queue before.
    depth: u64,
    /// Number and length of each.
    frames: Vec<(usize, u64)>,
}

/// Drops as the law has them, and as they are.
#[derive(Clone, Copy, Debug, Default)]
struct Drops {
    dropped: u64,
    expected: f64,
    variance: f64,
}

impl Drops {
    fn note(&mut self, probability: f64, dropped: bool) {
        self.dropped += u64::from(dropped);
        self.expected += probability;
        self.variance += probability * (1.0 - probability);
    }

    fn add(&mut self, other: &Self) {
        self.dropped += other.dropped;
        self.expected += other.expected;
        self.variance += other.variance;
    }

    /// By how many standard deviations more are dropped than the law says.
    fn sigmas(&self) -> f64 {
        (self.dropped as f64 - self.expected) / self.variance.sqrt()
    }
}

const CLASSES: usize = 3;
const LAWS: [Wred; CLASSES] = [
    Wred { kmin: 2_000, kmax: 60_000, pmax: ONE_Q32, at: MarkAt::Dequeue },
    Wred { kmin: 20_000, kmax: 300_000, pmax: ONE_Q32 / 10, at: MarkAt::Dequeue },
    Wred { kmin: 0, kmax: 1_000_000, pmax: ONE_Q32 / 2, at: MarkAt::Dequeue },
];

/// `pmax * (depth - kmin) / (kmax - kmin)`.
fn probability(law: &Wred, depth: u64) -> f64 {
    match depth {
        _ if depth <= law.kmin => 0.0,
        _ if depth > law.kmax => 1.0,
        _ => law.pmax as f64 / ONE_Q32 as f64 * (depth - law.kmin) as f64 / (law.kmax - law.kmin) as f64,
    }
}

/// Bursts of up to `most` frames of all classes, some from each shard, at depths from none to above Kmax: what each class drops, in
/// that half of its frames that find less depth, and in the other one.
fn dropped((shards, tx_per_lcore): (usize, bool), most: u32, seed: u64) -> [[Drops; 2]; CLASSES] {
    const FRAMES: usize = 60_000;
    let mut params = params(3);
    params.seed = seed;
    (params.ports[1].rate, params.ports[1].burst) = (Some(10_000_000_000), 10_000);
    for (class, law) in LAWS.into_iter().enumerate() {
        params.ports[1].early_drop[class] = Some(law);
        params.ports[1].queues[class] =
            QueueSchedule { level: 0, discipline: Discipline::Dwrr(10), ..QueueSchedule::STRICT };
    }
    // Not the numbers that the switch draws.
    let mut rng = Rng::new(!params.seed);
    let mut below = |n: u32| rng.next_u32() % n;
    let (mut bed, mut arrived, mut left) = (Bed::new(params, shards, tx_per_lcore), Vec::new(), Vec::new());
    let note = |sent: Vec<Vec<u8>>, left: &mut Vec<bool>| {
        for frame in sent {
            let number = u32::from_be_bytes(*frame.last_chunk().unwrap()) as usize;
            assert!(!std::mem::replace(&mut left[number], true));
        }
    };
    let (mut now, mut load) = (0, 10);
    while left.len() < FRAMES {
        let port = [0, 0, 2][below(3) as usize];
        let mut burst: [Arrived; CLASSES] = std::array::from_fn(|class| {
            let depth = bed.owner().queues.bytes(PortId(1), class);
            Arrived { class, depth, frames: Vec::new() }
        });
        let (mut together, mut bits, count) = (Vec::new(), 0, 1 + below(most));
        for _ in 0..count {
            let (class, len) = (below(3), [64, 300, 64 + below(1400) as usize][below(3) as usize]);
            let mut bytes = frame(1, 2, 8 * class as u8, len).bytes().to_vec();
            bytes[len - 4..].copy_from_slice(&(left.len() as u32).to_be_bytes());
            burst[class as usize].frames.push((left.len(), len as u64));
            bits += 8 * len as u64;
            left.push(false);
            together.push(OwnedFrame::new(bytes));
        }
        bed.arrive(port, together, now);
        arrived.extend(burst);
        // For some time more comes than can leave, for some time less.
        if below(4000) < count {
            load = [10, 40, 80, 200][below(4) as usize];
        }
        now += bits / 10 * load / 100;
        note(bed.leave(BURST, now), &mut left);
    }
    while bed.shards.iter().any(|shard| shard.held() > 0) {
        now += 100_000;
        note(bed.leave(BURST, now), &mut left);
    }
    let drops = bed.owner().stats(PortId(1)).drops.clone();
    assert_eq!(drops.0[DropReason::EgressWred as usize], drops.total(), "no other drops");
    assert_eq!(drops.total() as usize, left.iter().filter(|left| !**left).count());
    bed.assert_empty();
    let mut counted = [[Drops::default(); 2]; CLASSES];
    for Arrived { class, depth, frames } in arrived {
        let (law, mut depth) = (&LAWS[class], depth);
        for (number, len) in frames {
            let deep = usize::from(depth > (law.kmin + law.kmax) / 3);
            counted[class][deep].note(probability(law, depth), !left[number]);
            depth += if left[number] { len } else { 0 };
        }
    }
    counted
}

/// Whatever the bursts and whoever received them: at the depth that a frame finds, with those before it, it is dropped as often as
/// the law says.
#[test]
fn as_many_are_dropped_early_as_the_law_says() {
    for (shards, tx_per_lcore) in SHARDS {
        let mut all = Drops::default();
        for (most, seed) in [(1, 1), (24, 2), (BURST as u32, 3)] {
            for (class, depths) in dropped((shards, tx_per_lcore), most, seed).iter().enumerate() {
                for (deep, drops) in depths.iter().enumerate() {
                    all.add(drops);
                    // As close as the normal distribution is an approximation at all.
                    let off = drops.sigmas();
                    assert!(
                        drops.variance < 20.0 || off.abs() < 3.5,
                        "{shards} {most} {class} {deep}: {off}"
                    );
                }
            }
        }
        assert!(all.variance > 10_000.0 && all.sigmas().abs() < 3.0, "{shards} {tx_per_lcore}: {all:?}");
    }
}
