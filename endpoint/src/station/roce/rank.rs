//! A connection to an engine that sums: contributions out, sums in.

use super::config::SLOTS;
use crate::station::report::Progress;
use std::fmt;
use weir_dataplane::types::Nanos;

/// What a rank contributes, and what the sums are: whoever knows the operation knows that.
///
/// All ranks end with the same round: one that is to stop says so in its contributions, the sum tells everybody.
pub trait Collective: fmt::Debug + Send {
    /// Writes the contribution to a round, all of `out`. `stop`: this rank wants to end.
    fn contribute(&mut self, round: u64, stop: bool, out: &mut [u8]);

    /// The immediate data of a contribution by RDMA WRITE, which says what it is.
    fn word(&self) -> u32;

    /// Looks at a message from the engine, the sum of a round unless it says otherwise.
    fn judge(&mut self, round: u64, message: &[u8], imm: Option<u32>) -> Judgement;
}

/// How sums come to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Results {
    /// By SEND, into receive buffers.
    Sent,
    /// By RDMA WRITE, a packet each, to the memory of its connection: packet n, from 0, to place n modulo as many as there are. The
    /// last of a sum has immediate data.
    Written,
}

/// Why there will be no more sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The engine says so, with this word.
    Told(u32),
    /// A sum came in this way, which is not the one that was agreed on.
    Came(Results),
}

/// What a message from the engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The sum of this round, and all ranks go on.
    Right,
    /// The sum of this round, and a rank wants to end.
    Last,
    /// Not the sum of this round.
    Wrong,
    /// There will be no more sums.
    Over,
}

/// How far a rank is.
#[derive(Debug)]
pub(super) struct Rank {
    collective: Box<dyn Collective>,
    results: Results,
    /// Rounds it may be ahead of the last sum.
    ahead: u64,
    /// Sums that came.
    answered: u64,
    stop: bool,
    /// Rounds there are, once that is known.
    rounds: Option<u64>,
    /// There will be no more sums.
    pub ended: Option<Ended>,
}

impl Rank {
    pub fn new(collective: Box<dyn Collective>, results: Results, ahead: u64, rounds: Option<u64>) -> Self {
        let ahead = ahead.clamp(1, SLOTS);
        Self { collective, results, ahead, answered: 0, stop: false, rounds, ended: None }
    }

    /// It asks the others to end.
    pub fn stop(&mut self) {
        self.stop = true;
    }

    /// The contribution to this round is due.
    pub fn may_post(&self, round: u64) -> bool {
        self.ended.is_none()
            && round.saturating_sub(self.answered) < self.ahead
            && self.rounds.is_none_or(|all| round < all)
    }

    /// Writes the contribution to a round; the word for a WRITE of it.
    pub fn contribute(&mut self, round: u64, out: &mut [u8]) -> u32 {
        self.collective.contribute(round, self.stop, out);
        self.collective.word()
    }

    /// Where a sum that is written lies among the messages of its memory.
    pub fn place(&self) -> u64 {
        self.answered % SLOTS
    }

    /// A message came from the engine, in this way.
    pub fn received(
        &mut self,
        came: Results,
        message: &[u8],
        imm: Option<u32>,
        progress: &mut Progress,
        now: Nanos,
    ) {
        let judgement = self.collective.judge(self.answered, message, imm);
        if judgement == Judgement::Over {
            self.ended = Some(Ended::Told(imm.unwrap_or(0)));
            return;
        }
        if came != self.results {
            self.ended = Some(Ended::Came(came));
            return;
        }
        if judgement == Judgement::Last {
            // Nobody is further ahead than this, whatever it allows itself.
            let last = self.answered + 1 + SLOTS;
            self.rounds = Some(self.rounds.map_or(last, |all| all.min(last)));
        }
        let content = (judgement != Judgement::Wrong).then_some(self.answered);
        progress.look(content, &mut self.answered, message.len() as u32, false, now);
    }

    /// All rounds have their sum, or will have none.
    pub fn is_done(&self) -> bool {
        self.ended.is_some() || self.rounds.is_some_and(|all| self.answered >= all)
    }
}
