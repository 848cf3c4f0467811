//! A set of ports: four words, no allocation.

use crate::types::{MAX_PORTS, PortId};

const WORDS: usize = MAX_PORTS / 64;

/// A set of [`PortId`] below [`MAX_PORTS`]: flood domains, multicast groups, ports of one format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PortSet([u64; WORDS]);

impl PortSet {
    /// The empty set.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// Adds `port`; `false` if it was there already or is no port (`>= MAX_PORTS`).
    pub fn insert(&mut self, port: PortId) -> bool {
        let Some(word) = self.0.get_mut(port.index() / 64) else { return false };
        let bit = 1 << (port.0 % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Takes `port` out; `false` if it was not there.
    pub fn remove(&mut self, port: PortId) -> bool {
        let Some(word) = self.0.get_mut(port.index() / 64) else { return false };
        let bit = 1 << (port.0 % 64);
        let there = *word & bit != 0;
        *word &= !bit;
        there
    }

    /// Whether `port` is in the set.
    #[inline]
    pub fn contains(&self, port: PortId) -> bool {
        self.0.get(port.index() / 64).is_some_and(|word| word >> (port.0 % 64) & 1 == 1)
    }

    /// The set without `port`: a flood never goes back where it came from.
    #[inline]
    #[must_use]
    pub fn without(mut self, port: PortId) -> Self {
        self.remove(port);
        self
    }

    /// Ports in both sets.
    #[inline]
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// Ports in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Number of ports in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// No port at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// The last port.
    pub fn last(&self) -> Option<PortId> {
        let (at, word) = self.0.iter().enumerate().rfind(|(_, word)| **word != 0)?;
        Some(PortId((at as u32 * 64 + word.ilog2()) as u16))
    }

    /// The ports in ascending order.
    #[inline]
    pub fn iter(&self) -> Ports {
        Ports { words: self.0, at: 0 }
    }
}

impl FromIterator<PortId> for PortSet {
    fn from_iter<I: IntoIterator<Item = PortId>>(ports: I) -> Self {
        let mut set = Self::EMPTY;
        for port in ports {
            set.insert(port);
        }
        set
    }
}

impl IntoIterator for PortSet {
    type Item = PortId;
    type IntoIter = Ports;

    fn into_iter(self) -> Ports {
        self.iter()
    }
}

/// Iterator over the ports of a [`PortSet`], ascending.
#[derive(Clone, Debug)]
pub struct Ports {
    words: [u64; WORDS],
    at: usize,
}

impl Iterator for Ports {
    type Item = PortId;

    #[inline]
    fn next(&mut self) -> Option<PortId> {
        while let Some(word) = self.words.get_mut(self.at) {
            if *word != 0 {
                let bit = word.trailing_zeros() as u16;
                *word &= *word - 1;
                return Some(PortId(self.at as u16 * 64 + bit));
            }
            self.at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_an_ordered_set(ops in proptest::collection::vec((0u16..300, any::<bool>()), 0..200)) {
            let (mut set, mut model) = (PortSet::EMPTY, BTreeSet::new());
            for (port, add) in ops {
                let real = usize::from(port) < MAX_PORTS;
                let (got, want) = if add {
                    (set.insert(PortId(port)), real && model.insert(port))
                } else {
                    (set.remove(PortId(port)), real && model.remove(&port))
                };
                prop_assert_eq!(got, want);
                prop_assert_eq!(set.contains(PortId(port)), model.contains(&port));
            }
            prop_assert_eq!(set.len(), model.len());
            prop_assert_eq!(set.is_empty(), model.is_empty());
            prop_assert!(set.iter().map(|p| p.0).eq(model.iter().copied()));
            prop_assert_eq!(set.into_iter().collect::<PortSet>(), set);
        }

        #[test]
        fn set_algebra_agrees_with_membership(a in proptest::collection::vec(0u16..256, 0..40),
                                              b in proptest::collection::vec(0u16..256, 0..40)) {
            let set = |v: &[u16]| v.iter().map(|&p| PortId(p)).collect::<PortSet>();
            let (x, y) = (set(&a), set(&b));
            for port in (0..256).map(PortId) {
                prop_assert_eq!(x.intersection(&y).contains(port), x.contains(port) && y.contains(port));
                prop_assert_eq!(x.union(&y).contains(port), x.contains(port) || y.contains(port));
                prop_assert!(!x.without(port).contains(port));
            }
        }
    }
}
