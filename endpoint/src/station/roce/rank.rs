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

    /// Looks at a message from the engine, the sum of a round unless it says otherwise.
    fn judge(&mut self, round: u64, message: &[u8], imm: Option<u32>) -> Judgement;
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
    /// Rounds it may be ahead of the last sum.
    ahead: u64,
    /// Sums that came.
    answered: u64,
    stop: bool,
    /// Rounds there are, once that is known.
    rounds: Option<u64>,
    /// The word that ended the job.
    pub told: Option<u32>,
}

impl Rank {
    pub fn new(collective: Box<dyn Collective>, ahead: u64, rounds: Option<u64>) -> Self {
        let ahead = ahead.clamp(1, SLOTS);
        Self { collective, ahead, answered: 0, stop: false, rounds, told: None }
    }

    /// It asks the others to end.
    pub fn stop(&mut self) {
        self.stop = true;
    }

    /// The contribution to this round is due.
    pub fn may_post(&self, round: u64) -> bool {
        self.told.is_none()
            && round.saturating_sub(self.answered) < self.ahead
            && self.rounds.is_none_or(|all| round < all)
    }

    pub fn contribute(&mut self, round: u64, out: &mut [u8]) {
        self.collective.contribute(round, self.stop, out);
    }

    /// A message came from the engine.
    pub fn received(&mut self, message: &[u8], imm: Option<u32>, progress: &mut Progress, now: Nanos) {
        let judgement = self.collective.judge(self.answered, message, imm);
        if judgement == Judgement::Over {
            self.told = imm.or(Some(0));
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
        self.told.is_some() || self.rounds.is_some_and(|all| self.answered >= all)
    }
}
