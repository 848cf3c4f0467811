//! What crosses between lcores: frames for another lcore's ports, and news for its forwarding table.
//!
//! One pair of single-producer single-consumer rings per direction. A pack ring has a place for
//! every frame a shard can hold, so it cannot fill up; a news ring that is full only delays learning.

use crate::egress::Pack;
use crate::fdb::FdbEvent;
use rtrb::{Consumer, Producer, RingBuffer};

/// News that wait at most, per direction.
const NEWS: usize = 1024;

/// The four ends a shard holds towards one other shard.
#[derive(Debug)]
pub struct Peer<F> {
    pub(super) packs_to: Producer<Pack<F>>,
    pub(super) packs_from: Consumer<Pack<F>>,
    pub(super) news_to: Producer<FdbEvent>,
    pub(super) news_from: Consumer<FdbEvent>,
}

/// The rings between `shards` shards, each with room for `frames` packs: element `[a][b]` is what `a`
/// holds towards `b`; `None` towards itself.
#[allow(clippy::needless_range_loop, reason = "two rows are filled at once")]
pub fn peers<F>(shards: usize, frames: usize) -> Vec<Vec<Option<Peer<F>>>> {
    let mut all: Vec<Vec<Option<Peer<F>>>> =
        (0..shards).map(|_| (0..shards).map(|_| None).collect()).collect();
    for a in 0..shards {
        for b in a + 1..shards {
            let (packs_ab, packs_from_a) = RingBuffer::new(frames);
            let (packs_ba, packs_from_b) = RingBuffer::new(frames);
            let (news_ab, news_from_a) = RingBuffer::new(NEWS);
            let (news_ba, news_from_b) = RingBuffer::new(NEWS);
            all[a][b] = Some(Peer {
                packs_to: packs_ab,
                packs_from: packs_from_b,
                news_to: news_ab,
                news_from: news_from_b,
            });
            all[b][a] = Some(Peer {
                packs_to: packs_ba,
                packs_from: packs_from_a,
                news_to: news_ba,
                news_from: news_from_a,
            });
        }
    }
    all
}
