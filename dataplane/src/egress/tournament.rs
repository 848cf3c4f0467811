//! Which of eight queues has the smallest tag: a tournament tree, in which one path is played again when one tag moves.

use crate::types::PRIORITIES;
use std::hint::select_unpredictable;

const _: () = assert!(PRIORITIES == 8, "three rounds");

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tournament {
    /// Queues that take part, a bit each. 0: nothing was played, or what was played holds no longer.
    players: u8,
    /// Of queues 0 and 1, 2 and 3, 4 and 5, 6 and 7.
    pairs: [u8; PRIORITIES / 2],
    /// Of queues 0 to 3, 4 to 7.
    halves: [u8; PRIORITIES / 4],
    winner: u8,
    /// Tags come round: they are compared by how far ahead of this one they are.
    base: u64,
    ahead: [i64; PRIORITIES],
}

impl Tournament {
    /// The lowest of the queues in `players` (a bit each) whose tag is the smallest. `now` is the present time of all of them.
    #[inline(always)]
    pub fn winner(&mut self, players: u8, tags: &[u64; PRIORITIES], now: u64) -> usize {
        if self.players != players {
            self.play(players, tags, now);
        }
        usize::from(self.winner)
    }

    /// The tag of a queue has moved.
    #[inline(always)]
    pub fn moved(&mut self, queue: usize, tag: u64) {
        if self.players >> queue & 1 == 0 {
            return;
        }
        self.ahead[queue] = tag.wrapping_sub(self.base) as i64;
        self.play_pair(queue / 2);
        self.play_half(queue / 4);
        self.play_final();
    }

    /// Tags have moved, of any queue.
    pub fn forget(&mut self) {
        self.players = 0;
    }

    #[inline(always)]
    fn play(&mut self, players: u8, tags: &[u64; PRIORITIES], now: u64) {
        (self.players, self.base) = (players, now);
        for (queue, (ahead, tag)) in self.ahead.iter_mut().zip(tags).enumerate() {
            let plays = players >> queue & 1 == 1;
            *ahead = select_unpredictable(plays, tag.wrapping_sub(now) as i64, i64::MAX);
        }
        (0..self.pairs.len()).for_each(|pair| self.play_pair(pair));
        (0..self.halves.len()).for_each(|half| self.play_half(half));
        self.play_final();
    }

    #[inline(always)]
    fn play_pair(&mut self, pair: usize) {
        let low = 2 * pair as u8;
        self.pairs[pair] = self.better(low, low + 1);
    }

    #[inline(always)]
    fn play_half(&mut self, half: usize) {
        self.halves[half] = self.better(self.pairs[2 * half], self.pairs[2 * half + 1]);
    }

    #[inline(always)]
    fn play_final(&mut self) {
        self.winner = self.better(self.halves[0], self.halves[1]);
    }

    /// Which one that is nobody can guess, so this is no jump.
    #[inline(always)]
    fn better(&self, low: u8, high: u8) -> u8 {
        let ahead = |queue: u8| self.ahead[usize::from(queue) % PRIORITIES];
        select_unpredictable(ahead(high) < ahead(low), high, low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Whoever takes part, whatever moves, also where tags come round: the winner is who a look at all of them finds.
    #[test]
    fn the_winner_is_who_a_look_at_all_finds() {
        let mut rng = Rng::new(3);
        let mut below = |n: u32| rng.next_u32() % n;
        let mut tournament = Tournament::default();
        let mut now = u64::MAX - 40_000;
        let mut tags = [now; PRIORITIES];
        for _ in 0..20_000 {
            let players = 1 + below(255) as u8;
            for _ in 0..below(6) {
                let waits = (0..PRIORITIES).filter(|queue| players >> queue & 1 == 1);
                let want = waits.min_by_key(|queue| tags[*queue].wrapping_sub(now) as i64);
                let won = tournament.winner(players, &tags, now);
                assert_eq!(Some(won), want, "{players:08b} {tags:?}");
                now = tags[won];
                // Ties are frequent.
                tags[won] = tags[won].wrapping_add(u64::from(below(3)));
                tournament.moved(won, tags[won]);
            }
            if below(4) == 0 {
                tags[below(8) as usize] = now.wrapping_add(u64::from(below(5)));
                tournament.forget();
            }
        }
    }
}
