//! What becomes of a frame in a queue that drops early, or marks on arrival, does not depend on those it comes with.

use super::*;
use crate::ecn::{MarkAt, ONE_Q32, Wred};
use crate::rng::Rng;

/// A queue that begins to act at 20 000 bytes, and leaves nothing to chance above `kmax`.
fn switch(drops: bool, marks: bool, kmax: u64) -> Switch<OwnedFrame> {
    let mut params = params(2);
    params.mmu = MmuParams::lossy(2, 32 << 20);
    params.frames = 20_000;
    let wred = Wred { kmin: 20_000, kmax, pmax: ONE_Q32 / 4, at: MarkAt::Enqueue };
    for port in &mut params.ports {
        port.early_drop = [drops.then_some(wred); PRIORITIES];
        port.mark = [marks.then_some(wred); PRIORITIES];
    }
    let mut switch = Switch::new(params).unwrap();
    receive(&mut switch, 1, [frame(2, 9, 0, 64)], 0);
    transmit(&mut switch, 0, 0);
    switch
}

#[test]
fn frames_fare_together_as_one_by_one() {
    let (mut lost, mut marked, mut some) = (0, 0, 0);
    for (seed, (drops, marks)) in
        [(true, false), (false, true), (true, true)].into_iter().cycle().take(60).enumerate()
    {
        let mut rng = Rng::new(seed as u64);
        let mut below = |n: u32| rng.next_u32() % n;
        let kmax = [200_000, 30_000][seed % 2];
        let (mut together, mut single) = (switch(drops, marks, kmax), switch(drops, marks, kmax));
        for step in 1..60 {
            let now = step * 1000;
            let len = [64, 300, 1500][below(3) as usize];
            let one = |ecn: u32| {
                let mut frame = frame(1, 2, 0, len);
                frame.bytes_mut()[15] = ecn as u8;
                frame
            };
            let burst: Vec<OwnedFrame> = (0..below(80)).map(|_| one(below(3))).collect();
            receive(&mut together, 0, burst.clone(), now);
            burst.into_iter().for_each(|frame| receive(&mut single, 0, [frame], now));
            let budget = below(100) as usize;
            let [a, b] = [&mut together, &mut single].map(|switch| {
                let mut tap = Tap::of(budget);
                switch.transmit(PortId(1), budget, now, &mut tap);
                tap.frames
            });
            assert!(a == b, "{seed} {step}");
            some += a.len();
        }
        let stats = [&together, &single].map(|switch| format!("{:?}", switch.stats(PortId(1))));
        assert_eq!(stats[0], stats[1], "{seed}");
        let stats = together.stats(PortId(1));
        lost += stats.drops.0.iter().sum::<u64>();
        marked += stats.ecn_marked.iter().sum::<u64>();
        [&together, &single].into_iter().for_each(assert_conserved);
    }
    assert!(lost > 1000 && marked > 1000 && some > 10_000, "{lost} {marked} {some}");
}
