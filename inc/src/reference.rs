//! A rank that knows what comes: contributions that follow from rank and round, and the fold of all of them in the order of
//! the tree, against which every sum is held bit for bit.
//!
//! Integers have any bits. Floats have any sign and fraction, and exponents of -7 to 0: sums in another order are other
//! sums. The first two elements say the same, whether a rank goes on: 0, and 1 if it wants to end; the other way round where
//! 0 is what shows in the fold. So one element that is wrong is not taken for the wish to end.

use crate::immediate::{Immediate, Primitive, Status};
use crate::kernels::{ByteOrder, DataType, Flags, Fold, Kernels, Operator};
use crate::rendezvous::Shape;
use half::{bf16, f16};
use weir_endpoint::station::roce::{Collective, Judgement};

/// Step between words: odd, so that no two words of a vector are equal.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Elements that say whether a rank goes on, of a vector that has as many.
const FLAGS: usize = 2;

/// A bijection that spreads every bit (the finalizer of splitmix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Elements of floats from random bits: sign, exponent, fraction.
fn float(bits: u64, exponent: u32, fraction: u32) -> u64 {
    let bias = (1u64 << (exponent - 1)) - 1;
    let sign = bits >> 63;
    let power = bias - 7 + (bits >> 60 & 7);
    sign << (exponent + fraction) | power << fraction | bits >> 4 & ((1 << fraction) - 1)
}

/// One rank of an AllReduce.
#[derive(Debug)]
pub struct Reference {
    fold: Fold,
    rank: u16,
    tree: Shape,
    ranks: u16,
    bytes: usize,
}

impl Reference {
    /// Rank `rank` of those in `tree`, with vectors of so many bytes.
    pub fn new(fold: Fold, (rank, tree): (u16, Shape), bytes: usize) -> Self {
        let ranks = tree.ranks().len() as u16;
        Self { fold, rank, tree, ranks, bytes }
    }

    /// One element, little-endian, from 64 random bits.
    fn element(&self, bits: u64) -> u64 {
        match self.fold.data_type() {
            DataType::U32 | DataType::I32 | DataType::I64 => match self.fold.operator() {
                // Such that the fold of many is not the same each time.
                Operator::Prod => bits >> 1 | 1,
                Operator::And => bits | bits.rotate_left(21) | bits.rotate_left(42),
                Operator::Or => bits & bits.rotate_left(21) & bits.rotate_left(42),
                Operator::Sum | Operator::Min | Operator::Max | Operator::Xor => bits,
            },
            DataType::F32 => float(bits, 8, 23),
            DataType::F64 => float(bits, 11, 52),
            DataType::F16 => float(bits, 5, 10),
            DataType::Bf16 => float(bits, 8, 7),
        }
    }

    /// A flag of who goes on, or not.
    fn flag(&self, stop: bool) -> u64 {
        let quiet = matches!(self.fold.operator(), Operator::Min | Operator::Prod | Operator::And);
        match (stop != quiet, self.fold.data_type()) {
            (false, _) => 0,
            (true, DataType::U32 | DataType::I32 | DataType::I64) => 1,
            (true, DataType::F32) => 127 << 23,
            (true, DataType::F64) => 1023 << 52,
            (true, DataType::F16) => 15 << 10,
            (true, DataType::Bf16) => 127 << 7,
        }
    }

    /// How many bytes of a vector are flags.
    fn flag_bytes(&self) -> usize {
        (FLAGS * self.fold.data_type().bytes()).min(self.bytes)
    }

    /// Whether this is what the flags of some who want to end, among others, are folded to.
    fn says_stop(&self, flags: &[u8]) -> bool {
        let mut each = flags.chunks_exact(self.fold.data_type().bytes());
        let Some(first) = each.next() else { return false };
        let value = match self.fold.operator() {
            // Numbers of ranks: each is exact, or rounded to another one.
            Operator::Sum => (1.0..=f64::from(self.ranks)).contains(&self.number(first)),
            _ => self.bits(first) == self.flag(true),
        };
        value && each.all(|other| other == first)
    }

    /// The bits of one element.
    fn bits(&self, element: &[u8]) -> u64 {
        let wider = |bits: u64, byte: &u8| bits << 8 | u64::from(*byte);
        match self.fold.order() {
            ByteOrder::Big => element.iter().fold(0, wider),
            ByteOrder::Little => element.iter().rev().fold(0, wider),
        }
    }

    /// The value of one element.
    fn number(&self, element: &[u8]) -> f64 {
        let bits = self.bits(element);
        match self.fold.data_type() {
            DataType::U32 => f64::from(bits as u32),
            DataType::I32 => f64::from(bits as i32),
            DataType::I64 => bits as i64 as f64,
            DataType::F32 => f64::from(f32::from_bits(bits as u32)),
            DataType::F64 => f64::from_bits(bits),
            DataType::F16 => f16::from_bits(bits as u16).to_f64(),
            DataType::Bf16 => bf16::from_bits(bits as u16).to_f64(),
        }
    }

    fn write(&self, element: u64, out: &mut [u8]) {
        let little = element.to_le_bytes();
        out.copy_from_slice(&little[..out.len()]);
        if self.fold.order() == ByteOrder::Big {
            out.reverse();
        }
    }

    fn vector(&self, rank: u16, round: u64, stop: bool, out: &mut [u8]) {
        let mut word = mix(round << 16 | u64::from(rank));
        let bytes = self.fold.data_type().bytes();
        for element in out.chunks_exact_mut(bytes) {
            self.write(self.element(word), element);
            word = word.wrapping_add(STEP);
        }
        // Two ranks cancel one another in an exclusive or, but not in every round.
        let stop = stop && (self.fold.operator() != Operator::Xor || word >> 63 == 1);
        for flag in out.chunks_exact_mut(bytes).take(FLAGS) {
            self.write(self.flag(stop), flag);
        }
    }

    /// What an engine, or a rank, sends on if nobody wants to end.
    fn sum(&self, shape: &Shape, round: u64) -> (Vec<u8>, Flags) {
        let mut out = vec![0; self.bytes];
        match shape {
            Shape::Rank(rank) => {
                self.vector(*rank, round, false, &mut out);
                (out, Flags::default())
            }
            Shape::Engine(below) => {
                let parts: Vec<_> = below.iter().map(|below| self.sum(below, round)).collect();
                let inputs: Vec<&[u8]> = parts.iter().map(|(bytes, _)| bytes.as_slice()).collect();
                // Of one length, and at least one: checked when the tree was.
                let mut flags = Kernels::PORTABLE.fold(self.fold, &inputs, &mut out).unwrap_or_default();
                parts.iter().for_each(|(_, below)| flags |= *below);
                (out, flags)
            }
        }
    }
}

impl Collective for Reference {
    fn contribute(&mut self, round: u64, stop: bool, out: &mut [u8]) {
        self.vector(self.rank, round, stop, out);
    }

    fn word(&self) -> u32 {
        Primitive::AllReduce(self.fold).encode()
    }

    fn judge(&mut self, round: u64, message: &[u8], imm: Option<u32>) -> Judgement {
        let status = match imm.map(Immediate::decode) {
            Some(Some(Immediate::Failed(..))) => return Judgement::Over,
            Some(Some(Immediate::Status(status))) => Some(status),
            None => None,
            Some(_) => return Judgement::Wrong,
        };
        let (sum, flags) = self.sum(&self.tree, round);
        let stated = status.is_none_or(|told| told == Status { count: self.ranks, flags });
        if !stated || message.len() != sum.len() {
            return Judgement::Wrong;
        }
        let (said, content) = message.split_at(self.flag_bytes());
        let (go_on, expected) = sum.split_at(self.flag_bytes());
        match content == expected {
            true if said == go_on => Judgement::Right,
            true if self.says_stop(said) => Judgement::Last,
            _ => Judgement::Wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Shape {
        serde_json::from_str("[[0, 1, 2], 3, [4, 5]]").unwrap()
    }

    /// What the engines of the tree send, from contributions.
    fn folded(fold: Fold, shape: &Shape, vectors: &[Vec<u8>]) -> Vec<u8> {
        match shape {
            Shape::Rank(rank) => vectors[usize::from(*rank)].clone(),
            Shape::Engine(below) => {
                let parts: Vec<_> = below.iter().map(|below| folded(fold, below, vectors)).collect();
                let inputs: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
                let mut out = vec![0; inputs[0].len()];
                Kernels::best().fold(fold, &inputs, &mut out).unwrap();
                out
            }
        }
    }

    #[test]
    fn every_fold_is_known_and_a_changed_bit_is_seen() {
        for fold in Fold::all() {
            let mut ranks: Vec<_> = (0..6).map(|rank| Reference::new(fold, (rank, tree()), 240)).collect();
            for round in [0, 1, 1 << 40] {
                let mut vectors = vec![vec![0; 240]; 6];
                ranks.iter_mut().zip(&mut vectors).for_each(|(rank, out)| rank.contribute(round, false, out));
                let mut sum = folded(fold, &tree(), &vectors);
                assert_eq!(ranks[3].judge(round, &sum, None), Judgement::Right, "{fold:?}");
                assert_eq!(ranks[3].judge(round + 1, &sum, None), Judgement::Wrong, "{fold:?}");
                for at in [0, 1, 7, 100, 239] {
                    sum[at] ^= 8;
                    assert_eq!(ranks[3].judge(round, &sum, None), Judgement::Wrong, "{fold:?}, byte {at}");
                    sum[at] ^= 8;
                }
                let ends = {
                    let element = fold.data_type().bytes();
                    let stop = ranks[3].flag(true);
                    sum[..2 * element].chunks_exact_mut(element).for_each(|flag| ranks[3].write(stop, flag));
                    ranks[3].judge(round, &sum, None)
                };
                assert_eq!(ends, Judgement::Last, "{fold:?}");
                sum[0] ^= 0x40;
                assert_eq!(ranks[3].judge(round, &sum, None), Judgement::Wrong, "{fold:?}: two that differ");
                assert_eq!(ranks[3].judge(round, &sum[..5], None), Judgement::Wrong);
            }
        }
    }

    #[test]
    fn whoever_wants_to_end_is_heard_by_all() {
        for fold in Fold::all() {
            let mut ranks: Vec<_> = (0..6).map(|rank| Reference::new(fold, (rank, tree()), 64)).collect();
            let heard = (0..64).filter(|round| {
                let mut vectors = vec![vec![0; 64]; 6];
                for (at, out) in vectors.iter_mut().enumerate() {
                    ranks[at].contribute(*round, at == 1 || at == 4, out);
                }
                let sum = folded(fold, &tree(), &vectors);
                let judged: Vec<_> = ranks.iter_mut().map(|rank| rank.judge(*round, &sum, None)).collect();
                assert!(
                    judged.iter().all(|j| *j == judged[0] && *j != Judgement::Wrong),
                    "{fold:?} {judged:?}"
                );
                judged[0] == Judgement::Last
            });
            let heard = heard.count();
            let rarely = fold.operator() == Operator::Xor;
            assert!(heard == 64 || (rarely && heard > 8), "{fold:?}: {heard}");
        }
    }

    #[test]
    fn order_shows_in_sums_of_floats() {
        let sum = |tree: &str| {
            let fold = Fold::new(Operator::Sum, DataType::F32, ByteOrder::Little).unwrap();
            let one = Reference::new(fold, (0, serde_json::from_str(tree).unwrap()), 1024);
            one.sum(&one.tree, 5).0
        };
        assert_ne!(sum("[0, 1, 2, 3]"), sum("[[0, 1], [2, 3]]"));
    }

    #[test]
    fn what_a_sum_says_of_itself_is_held_against_it() {
        let fold = Fold::new(Operator::Sum, DataType::I32, ByteOrder::Little).unwrap();
        let mut rank = Reference::new(fold, (0, serde_json::from_str("[0, 1]").unwrap()), 1024);
        let (sum, flags) = rank.sum(&rank.tree, 7);
        let word = |count, flags| Some(Immediate::Status(Status { count, flags }).encode());
        assert_eq!(rank.judge(7, &sum, word(2, flags)), Judgement::Right);
        assert_eq!(rank.judge(7, &sum, word(1, flags)), Judgement::Wrong, "a rank is missing");
        assert_eq!(rank.judge(7, &sum, word(2, flags | Flags::NAN)), Judgement::Wrong);
        let failed = Immediate::Failed(crate::immediate::Failure::Aborted, 1).encode();
        assert_eq!(rank.judge(7, &[], Some(failed)), Judgement::Over);
        assert_eq!(rank.judge(7, &sum, Some(0xffff_1000)), Judgement::Wrong);
    }
}
