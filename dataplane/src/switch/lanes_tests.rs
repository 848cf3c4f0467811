//! What leaves a queue in turns is what would leave it frame by frame, whoever waits for a turn.

use super::shard_bed::Bed;
use super::*;
use crate::ecn::{MarkAt, ONE_Q32, Wred};
use crate::egress::VoqOrder;
use crate::rng::Rng;

/// What a case is about, drawn from a seed.
struct Case {
    rng: Rng,
    inputs: u32,
    classes: u32,
    lens: &'static [usize],
    marks: bool,
    weighted: bool,
    order: VoqOrder,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut below = |n: u32| rng.next_u32() % n;
        let lens: &[usize] = [&[60][..], &[60, 60, 594, 1500], &[1500]][below(3) as usize];
        let (inputs, classes) = (1 + below(5), [1, 3][below(2) as usize]);
        let (marks, weighted) = (below(2) == 1, below(2) == 1 && classes > 1);
        let order = if below(3) == 0 { VoqOrder::Fifo } else { VoqOrder::Fair };
        Self { rng, inputs, classes, lens, marks, weighted, order }
    }

    fn below(&mut self, n: u32) -> u32 {
        self.rng.next_u32() % n
    }

    fn switch(&self) -> Switch<OwnedFrame> {
        let mut params = params(6);
        params.mmu = MmuParams::lossy(6, 32 << 20);
        params.frames = 20_000;
        params.voq = self.order;
        let wred = Wred { kmin: 4000, kmax: 60_000, pmax: ONE_Q32 / 2, at: MarkAt::Dequeue };
        for port in &mut params.ports {
            port.mark = [self.marks.then_some(wred); PRIORITIES];
            if self.weighted {
                port.queues = std::array::from_fn(weighted);
            }
        }
        let mut switch = Switch::new(params).unwrap();
        receive(&mut switch, 0, [frame(100, 200, 0, 60)], 1);
        (1..6).for_each(|out| drop(transmit(&mut switch, out, 1)));
        switch
    }

    /// Frames for the station behind the first port, and now and then one for all; with any ECN field.
    fn burst(&mut self, from: u32) -> Vec<OwnedFrame> {
        let n = [self.below(4), self.below(80)][self.below(2) as usize];
        let one = |_| {
            let to = if self.below(20) == 0 { 999 } else { 100 };
            let len = self.lens[self.below(self.lens.len() as u32) as usize];
            let mut frame = frame(from.into(), to, 8 * self.below(self.classes) as u8, len);
            frame.bytes_mut()[15] = frame.bytes()[15] & !3 | self.below(4) as u8;
            frame
        };
        (0..n).map(one).collect()
    }
}

/// Takes all, and remembers.
fn sent(switch: &mut Switch<OwnedFrame>, budget: usize, now: Nanos) -> Vec<Vec<u8>> {
    let mut tap = Tap::of(BURST);
    switch.transmit(PortId(0), budget, now, &mut tap);
    tap.frames
}

#[test]
fn what_leaves_in_turns_is_what_leaves_frame_by_frame() {
    let (mut in_turns, mut marked, mut ce) = (0, 0, 0);
    for seed in 0..300 {
        let mut case = Case::new(seed);
        let (mut together, mut single) = (case.switch(), case.switch());
        let mut now = 10;
        let mut gone: [Vec<Vec<u8>>; 2] = Default::default();
        // A turn is several frames, so weighted classes alternate otherwise: inputs that come later would find other queues.
        let steps = if case.weighted { 1 } else { 30 };
        for step in 0..steps {
            now += 1000;
            for input in 1..=case.inputs {
                let burst = case.burst(input);
                receive(&mut together, input as u16, burst.clone(), now);
                receive(&mut single, input as u16, burst, now);
            }
            let last = step == steps - 1;
            let budget = if last { BURST } else { case.below(200) as usize };
            loop {
                let some = sent(&mut together, budget, now);
                let count = some.len();
                gone[0].extend(some);
                gone[1].extend((0..count).flat_map(|_| sent(&mut single, 1, now)));
                if !last || count == 0 {
                    break;
                }
                in_turns += count;
            }
            assert_conserved(&together);
            let depths = |switch: &Switch<OwnedFrame>| {
                (0..PRIORITIES).map(|queue| switch.queues.bytes(PortId(0), queue)).collect::<Vec<_>>()
            };
            if !case.weighted {
                assert_eq!(depths(&together), depths(&single), "{seed}");
            }
        }
        if case.weighted {
            // They find other random numbers, where there is a choice.
            let class = |frame: &Vec<u8>| frame[15] >> 5;
            gone.iter_mut().for_each(|frames| frames.sort_by_key(class));
            if case.marks {
                for frame in gone.iter_mut().flatten() {
                    frame[15] &= !3;
                    frame[24..26].fill(0);
                }
            }
        }
        assert!(gone[0] == gone[1], "{seed}");
        for port in 0..6 {
            transmit(&mut together, port, now);
            transmit(&mut single, port, now);
        }
        let stats = [&together, &single].map(|switch| switch.stats(PortId(0)).clone());
        assert_eq!(stats[0].ecn_seen_ce, stats[1].ecn_seen_ce, "{seed}");
        if !(case.weighted && case.marks) {
            assert_eq!(format!("{:?}", stats[0]), format!("{:?}", stats[1]), "{seed}");
        }
        marked += stats[0].ecn_marked.iter().sum::<u64>();
        ce += stats[0].ecn_seen_ce.iter().sum::<u64>();
        assert_eq!((together.held(), together.admission().held_bytes()), (0, 0), "{seed}");
        assert_conserved(&together);
    }
    assert!(in_turns > 10_000 && marked > 1000 && ce > 10_000, "{in_turns} {marked} {ce}");
}

/// Drivers take a part of what several inputs have sent: what they took is accounted for, the rest leaves in order.
#[test]
fn a_driver_may_take_a_part_of_what_left_in_turns() {
    for seed in 0..100 {
        let mut case = Case { weighted: false, marks: false, ..Case::new(seed) };
        let (mut whole, mut parts) = (case.switch(), case.switch());
        let mut gone: [Vec<Vec<u8>>; 2] = Default::default();
        for now in 10..40 {
            for input in 1..=case.inputs {
                let burst = case.burst(input);
                receive(&mut whole, input as u16, burst.clone(), now);
                receive(&mut parts, input as u16, burst, now);
            }
            gone[0].extend(sent(&mut whole, BURST, now));
            let mut tap = Tap::of(case.below(60) as usize);
            parts.transmit(PortId(0), BURST, now, &mut tap);
            gone[1].extend(tap.frames);
            assert_conserved(&parts);
        }
        gone[0].extend(transmit(&mut whole, 0, 50).frames);
        gone[1].extend(transmit(&mut parts, 0, 50).frames);
        let by_class = |frames: &[Vec<u8>]| {
            let mut frames = frames.to_vec();
            frames.sort_by_key(|frame| frame[15] >> 5);
            frames
        };
        let [whole, parts] = gone.map(|frames| by_class(&frames));
        assert_eq!(whole.len(), parts.len(), "{seed}");
        if case.inputs == 1 {
            assert!(whole == parts, "{seed}");
        }
    }
}

/// Several inputs share a queue, and another lcore is to send what some of them received: frames that leave together are those, with
/// those marks, that leave one by one.
#[test]
fn what_others_send_leaves_together_as_one_by_one() {
    let (mut marked, mut all) = (0, 0);
    for seed in 0..200 {
        let mut case = Case::new(seed);
        let mut params = params(6);
        params.voq = case.order;
        let wred = Wred { kmin: 4000, kmax: 60_000, pmax: ONE_Q32 / 2, at: MarkAt::Dequeue };
        params.ports[1].mark = [case.marks.then_some(wred); PRIORITIES];
        let [mut together, mut single] = [(); 2].map(|()| Bed::new(params.clone(), 2, true));
        let mut number = 0u32;
        for step in 1..20 {
            let now = step * 1000;
            for input in [0, 2, 3, 4, 5].into_iter().take(1 + case.inputs as usize) {
                let mut burst = case.burst(u32::from(input));
                for frame in &mut burst {
                    number += 1;
                    let bytes = frame.bytes_mut();
                    bytes[..6].copy_from_slice(&host(2).0);
                    bytes[42..46].copy_from_slice(&number.to_be_bytes());
                }
                together.arrive(input, burst.clone(), now);
                burst.into_iter().for_each(|frame| single.arrive(input, [frame], now));
            }
            let [a, b] =
                [(&mut together, BURST), (&mut single, 1)].map(|(bed, budget)| bed.drain(budget, now));
            assert!(a == b, "{seed} {step}: {} and {} frames", a.len(), b.len());
            all += a.len();
        }
        let stats = [&mut together, &mut single].map(|bed| bed.owner().stats(PortId(1)).clone());
        assert_eq!(stats[0].ecn_seen_ce, stats[1].ecn_seen_ce, "{seed}");
        assert_eq!(stats[0].ecn_marked, stats[1].ecn_marked, "{seed}");
        marked += stats[0].ecn_marked.iter().sum::<u64>();
        for mut bed in [together, single] {
            bed.assert_empty();
            let queues = &bed.owner().queues;
            let left =
                |input| (0..PRIORITIES).map(move |queue| queues.bytes_from(PortId(input), PortId(1), queue));
            assert_eq!((0..6).flat_map(left).sum::<u64>(), 0, "{seed}: bytes by input");
        }
    }
    assert!(all > 100_000 && marked > 1000, "{all} {marked}");
}
