//! What a group of nodes holds of a fabric: its own hosts and switches, and what is known of flows.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

/// Values by number, some of which may be elsewhere.
#[derive(Debug)]
pub(super) struct Held<T>(Vec<Option<T>>);

impl<T> Held<T> {
    /// None of `count`.
    pub fn none(count: usize) -> Self {
        Self((0..count).map(|_| None).collect())
    }

    /// How many there are, here and elsewhere.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Number `at` is here.
    #[inline]
    pub fn holds(&self, at: usize) -> bool {
        self.0[at].is_some()
    }

    /// Those that are here.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    /// The same.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }

    /// Moves those that are in `other` here.
    pub fn take_all(&mut self, other: &mut Self) {
        for (here, there) in self.0.iter_mut().zip(&mut other.0) {
            *here = here.take().or(there.take());
        }
    }

    /// Moves those of `other` here whose numbers are `mine`.
    pub fn take_some(&mut self, other: &mut Self, mine: impl Fn(usize) -> bool) {
        let both = self.0.iter_mut().zip(&mut other.0).enumerate();
        both.filter(|(at, _)| mine(*at)).for_each(|(_, (here, there))| *here = there.take());
    }
}

impl<T> FromIterator<T> for Held<T> {
    fn from_iter<I: IntoIterator<Item = T>>(all: I) -> Self {
        Self(all.into_iter().map(Some).collect())
    }
}

impl<T> Index<usize> for Held<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        match &self.0[at] {
            Some(value) => value,
            None => elsewhere(at),
        }
    }
}

impl<T> IndexMut<usize> for Held<T> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut T {
        match &mut self.0[at] {
            Some(value) => value,
            None => elsewhere(at),
        }
    }
}

/// Every event is played where its node is.
#[cold]
fn elsewhere(at: usize) -> ! {
    unreachable!("number {at} is held by another group")
}

/// What is known of flows, by number. Groups note what is new beside what was known when the fabric fell into them.
#[derive(Debug)]
pub(super) struct Notes<T> {
    known: Arc<Vec<Option<T>>>,
    new: BTreeMap<u32, T>,
}

impl<T> Default for Notes<T> {
    fn default() -> Self {
        Self { known: Arc::default(), new: BTreeMap::new() }
    }
}

impl<T: Copy> Notes<T> {
    /// Nothing is known of `count`.
    pub fn none(count: usize) -> Self {
        Self { known: Arc::new(vec![None; count]), new: BTreeMap::new() }
    }

    /// What is known of `flow`.
    pub fn of(&self, flow: u32) -> Option<T> {
        self.new.get(&flow).copied().or(self.known[flow as usize])
    }

    /// From now on this is.
    pub fn note(&mut self, flow: u32, value: T) {
        match Arc::get_mut(&mut self.known) {
            Some(known) => known[flow as usize] = Some(value),
            None => {
                self.new.insert(flow, value);
            }
        }
    }

    /// The same, for a group.
    pub fn share(&self) -> Self {
        Self { known: Arc::clone(&self.known), new: BTreeMap::new() }
    }

    /// Takes over what all groups have noted, each of other flows.
    pub fn join(&mut self, groups: impl Iterator<Item = Self>) {
        let new: Vec<BTreeMap<u32, T>> = groups.map(|group| group.new).collect();
        new.into_iter().flatten().for_each(|(flow, value)| self.note(flow, value));
    }
}
