//! Completion queues.

use super::verbs::Completion;
use std::collections::VecDeque;

/// Index of a completion queue of one HCA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CqId(pub(super) usize);

/// A bounded queue of completions. One that finds it full is lost and counted: size it for all work
/// requests that can end between two polls.
#[derive(Debug)]
pub(super) struct Cq {
    entries: VecDeque<Completion>,
    depth: usize,
    pub overruns: u64,
}

impl Cq {
    pub fn new(depth: usize) -> Self {
        Self { entries: VecDeque::with_capacity(depth), depth, overruns: 0 }
    }

    /// It has room for so many from now on, and for those it has.
    pub fn resize(&mut self, depth: usize) {
        self.entries.reserve(depth.saturating_sub(self.entries.len()));
        self.depth = depth;
    }

    pub fn push(&mut self, completion: Completion) {
        if self.entries.len() < self.depth {
            self.entries.push_back(completion);
        } else {
            self.overruns += 1;
        }
    }

    pub fn poll(&mut self) -> Option<Completion> {
        self.entries.pop_front()
    }
}
