//! A switch for tests, of one shard or of two that are driven in turn: whose frames leave by a port of one of them.

use super::*;

/// Frames leave by port 1 and come in by the others. The last shard has ports 1 and 2, the first one the others.
pub(super) struct Bed {
    pub shards: Vec<Switch<OwnedFrame>>,
}

impl Bed {
    /// Who has received what leaves by port 1 sends it, if `tx_per_lcore`.
    pub fn new(params: SwitchParams, shards: usize, tx_per_lcore: bool) -> Self {
        let mut params = params;
        for (at, port) in params.ports.iter_mut().enumerate() {
            (port.shard, port.tx_per_lcore) = (if is_first(at) { 0 } else { shards as u8 - 1 }, tx_per_lcore);
        }
        params.mmu = MmuParams::lossy(params.ports.len(), 32 << 20);
        params.frames = 20_000;
        params.stations = vec![(Profile::standard().key(host(2).to_u64(), 0), PortId(1))];
        Self { shards: Switch::sharded(&params, shards).unwrap() }
    }

    /// The shard with port 1.
    pub fn owner(&mut self) -> &mut Switch<OwnedFrame> {
        self.shards.last_mut().unwrap()
    }

    /// Frames come in, and reach their queue.
    pub fn arrive(&mut self, port: u16, frames: impl IntoIterator<Item = OwnedFrame>, now: Nanos) {
        let switch = if is_first(port.into()) { &mut self.shards[0] } else { self.owner() };
        receive(switch, port, frames, now);
        self.shards.iter_mut().rev().for_each(|shard| shard.tick(now));
    }

    /// What leaves by port 1: `budget` frames at most of those that its owner sends.
    pub fn leave(&mut self, budget: usize, now: Nanos) -> Vec<Vec<u8>> {
        let mut wire = Tap::of(BURST);
        self.owner().transmit(PortId(1), budget, now, &mut wire);
        if self.shards.len() > 1 {
            self.shards[0].tick(now);
            while self.shards[0].transmit_granted(PortId(1), BURST, now, &mut wire) > 0 {}
            self.owner().tick(now);
        }
        wire.frames
    }

    /// All that waits leaves, `budget` frames at a time of those that the owner sends: in no particular order, as those that are sent
    /// elsewhere have one of their own.
    pub fn drain(&mut self, budget: usize, now: Nanos) -> Vec<Vec<u8>> {
        let mut left = Vec::new();
        while self.shards.iter().any(|shard| shard.held() > 0) {
            left.extend(self.leave(budget, now));
        }
        left.sort();
        left
    }

    pub fn assert_empty(&mut self) {
        let mut books = Conservation::default();
        self.shards.iter_mut().for_each(|shard| {
            shard.tick(Nanos::MAX / 2);
            books.add(&shard.conservation());
            assert_eq!((shard.admission().held_bytes(), shard.admission().queued_bytes()), (0, 0));
        });
        assert_eq!((books.error(), books.held), (0, 0), "{books:?}");
    }
}

/// A port is the first shard's.
fn is_first(port: usize) -> bool {
    !(1..=2).contains(&port)
}
