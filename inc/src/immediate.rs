//! The words that engines and hosts say in immediate data: which operation messages belong to, and how a result came about.
//!
//! Both are 32 bits, big-endian on the wire as all immediate data. The lowest bit tells them apart:
//!
//! ```text
//! operation  | rank 16 | primitive 2 | operator 2 | type 4 | little 1 | more 3 | all 1 | zero 2 | 0 |
//! status     | count or rank 16 | flags 8 | failure 7 | 1 |
//! ```
//!
//! `rank` is the root of a Reduce or Broadcast, 0xffff for all others. `primitive`: 0 AllReduce, 1 Reduce, 2 Broadcast, 3
//! ReduceScatter or, with `all`, AllGather. `operator`: 0 Barrier, 1 sum, 2 maximum, 3 minimum; it is 1, too, where `more` says
//! another one (1 product, 2 and, 3 or, 4 exclusive or), and where nothing is folded (Broadcast, AllGather). `type`: 0 i32, 1 f32,
//! 2 u32, 3 i64, 4 f64, 5 f16, 6 bf16; it is 0 and big-endian where nothing is folded. Each operation has one word: bits that would
//! say it otherwise are refused. With the low byte zero it is what the hosts of the public predecessor send (0xffff1000: sum of
//! big-endian i32 for all).

use crate::kernels::{ByteOrder, DataType, Flags, Fold, Operator};

/// `rank` of operations that concern all ranks alike.
pub const ALL_RANKS: u16 = 0xffff;

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Primitive {
    /// Everybody contributes, everybody gets the result.
    AllReduce(Fold),
    /// Everybody contributes, this rank gets the result.
    Reduce(Fold, u16),
    /// Everybody contributes, message m of the operation goes to rank m mod n.
    ReduceScatter(Fold),
    /// This rank contributes, everybody gets it; for each of its packets the others send an empty message.
    Broadcast(u16),
    /// Message m of the operation comes from rank m mod n, everybody gets it; the others send an empty one. A message is
    /// one packet.
    AllGather,
    /// Nobody contributes anything, everybody hears when all have come.
    Barrier,
}

/// Whom a packet comes from or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// All ranks.
    All,
    /// This one.
    Rank(u16),
}

impl Primitive {
    /// Who contributes bytes to message `index` of the operation, among `ranks`.
    pub fn source(self, index: u64, ranks: u16) -> Who {
        match self {
            Self::Broadcast(root) => Who::Rank(root),
            Self::AllGather => Who::Rank((index % u64::from(ranks.max(1))) as u16),
            _ => Who::All,
        }
    }

    /// Who gets the result of message `index`.
    pub fn target(self, index: u64, ranks: u16) -> Who {
        match self {
            Self::Reduce(_, root) => Who::Rank(root),
            Self::ReduceScatter(_) => Who::Rank((index % u64::from(ranks.max(1))) as u16),
            _ => Who::All,
        }
    }

    /// How contributions become a result; `None` where they are only passed on.
    pub fn fold(self) -> Option<Fold> {
        match self {
            Self::AllReduce(fold) | Self::Reduce(fold, _) | Self::ReduceScatter(fold) => Some(fold),
            Self::Broadcast(_) | Self::AllGather | Self::Barrier => None,
        }
    }

    /// A rank it names is one of `ranks`.
    pub fn names_ranks_below(self, ranks: u16) -> bool {
        match self {
            Self::Reduce(_, root) | Self::Broadcast(root) => root < ranks,
            _ => true,
        }
    }

    /// The word.
    pub fn encode(self) -> u32 {
        let (primitive, root, all) = match self {
            Self::AllReduce(_) | Self::Barrier => (0, ALL_RANKS, 0),
            Self::Reduce(_, root) => (1, root, 0),
            Self::Broadcast(root) => (2, root, 0),
            Self::ReduceScatter(_) => (3, ALL_RANKS, 0),
            Self::AllGather => (3, ALL_RANKS, 1),
        };
        let (operator, more) = match self.fold().map(Fold::operator) {
            None if self == Self::Barrier => (0, 0),
            None | Some(Operator::Sum) => (1, 0),
            Some(Operator::Max) => (2, 0),
            Some(Operator::Min) => (3, 0),
            Some(Operator::Prod) => (1, 1),
            Some(Operator::And) => (1, 2),
            Some(Operator::Or) => (1, 3),
            Some(Operator::Xor) => (1, 4),
        };
        let (data_type, little) = self.fold().map_or((0, 0), |fold| {
            let data_type = TYPES.iter().position(|&t| t == fold.data_type()).unwrap_or(0);
            (data_type as u32, u32::from(fold.order() == ByteOrder::Little))
        });
        u32::from(root) << 16
            | primitive << 14
            | operator << 12
            | data_type << 8
            | little << 7
            | more << 4
            | all << 3
    }

    /// `None`: no operation, or one with bits set that mean nothing.
    pub fn decode(word: u32) -> Option<Self> {
        let field = |shift: u32, bits: u32| word >> shift & ((1 << bits) - 1);
        let root = (word >> 16) as u16;
        let operator = match (field(12, 2), field(4, 3)) {
            (0, _) => return (word == Self::Barrier.encode()).then_some(Self::Barrier),
            (1, 0) => Operator::Sum,
            (2, 0) => Operator::Max,
            (3, 0) => Operator::Min,
            (1, 1) => Operator::Prod,
            (1, 2) => Operator::And,
            (1, 3) => Operator::Or,
            (1, 4) => Operator::Xor,
            _ => return None,
        };
        let order = if field(7, 1) == 1 { ByteOrder::Little } else { ByteOrder::Big };
        let fold = Fold::new(operator, *TYPES.get(field(8, 4) as usize)?, order)?;
        let operation = match (field(14, 2), field(3, 1)) {
            (0, 0) => Self::AllReduce(fold),
            (1, 0) => Self::Reduce(fold, root),
            (2, 0) => Self::Broadcast(root),
            (3, 0) => Self::ReduceScatter(fold),
            (3, 1) => Self::AllGather,
            _ => return None,
        };
        // One operation, one word: what ranks say is compared.
        (operation.encode() == word).then_some(operation)
    }
}

/// The types by number.
const TYPES: [DataType; 7] = [
    DataType::I32,
    DataType::F32,
    DataType::U32,
    DataType::I64,
    DataType::F64,
    DataType::F16,
    DataType::Bf16,
];

/// Why a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// It acknowledged nothing after all retries.
    Unreachable,
    /// It sent another operation, length or place in a message than the others.
    Mismatch,
    /// It sent what no rank may send.
    Protocol,
    /// It came later than the job allows.
    Straggler,
    /// It refused a result, its queue pair has failed.
    Refused,
    /// It said so itself.
    Aborted,
    /// The operator ended the job.
    Stopped,
}

impl Failure {
    /// All, by their number minus one.
    pub const ALL: [Self; 7] = [
        Self::Unreachable,
        Self::Mismatch,
        Self::Protocol,
        Self::Straggler,
        Self::Refused,
        Self::Aborted,
        Self::Stopped,
    ];

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Mismatch => "mismatch",
            Self::Protocol => "protocol",
            Self::Straggler => "straggler",
            Self::Refused => "refused",
            Self::Aborted => "aborted",
            Self::Stopped => "stopped",
        }
    }
}

/// What a result says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Ranks whose contributions are in every packet of the message.
    pub count: u16,
    /// What the fold met.
    pub flags: Flags,
}

/// A word of immediate data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Immediate {
    /// Which operation.
    Operation(Primitive),
    /// How a result came about.
    Status(Status),
    /// The job has failed because of this rank ([`ALL_RANKS`]: nobody in particular).
    Failed(Failure, u16),
}

impl Immediate {
    /// The word.
    pub fn encode(self) -> u32 {
        match self {
            Self::Operation(operation) => operation.encode(),
            Self::Status(Status { count, flags }) => {
                u32::from(count) << 16 | u32::from(flags.bits()) << 8 | 1
            }
            Self::Failed(failure, rank) => u32::from(rank) << 16 | (failure as u32 + 1) << 1 | 1,
        }
    }

    /// `None`: none of these.
    pub fn decode(word: u32) -> Option<Self> {
        if word & 1 == 0 {
            return Primitive::decode(word).map(Self::Operation);
        }
        let (high, flags) = ((word >> 16) as u16, (word >> 8) as u8);
        match (word >> 1 & 0x7f) as usize {
            0 => {
                let status = Status { count: high, flags: Flags::from_bits(flags) };
                (status.flags.bits() == flags).then_some(Self::Status(status))
            }
            n => Failure::ALL.get(n - 1).filter(|_| flags == 0).map(|&f| Self::Failed(f, high)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_one_word() {
        let folds = || Fold::all();
        let folded = folds()
            .flat_map(|f| [Primitive::AllReduce(f), Primitive::Reduce(f, 7), Primitive::ReduceScatter(f)]);
        let all: Vec<Primitive> =
            folded.chain([Primitive::Broadcast(3), Primitive::AllGather, Primitive::Barrier]).collect();
        let words: std::collections::BTreeSet<u32> = all.iter().map(|p| p.encode()).collect();
        assert_eq!(words.len(), all.len());
        for operation in all {
            assert_eq!(Primitive::decode(operation.encode()), Some(operation));
            assert_eq!(Immediate::decode(operation.encode()), Some(Immediate::Operation(operation)));
        }
    }

    /// Rows of the documentation: a word, and the operation as a job names it.
    #[test]
    fn words_are_what_the_documentation_says() {
        let docs = include_str!("../../docs/inc.md");
        let rows = docs
            .lines()
            .filter_map(|line| line.strip_prefix("| `0x")?.strip_suffix("` |")?.split_once("` | `"));
        let mut said = Vec::new();
        for (word, operation) in rows {
            let operation: crate::spec::Operation = serde_json::from_str(operation).unwrap();
            let word = u32::from_str_radix(word, 16).unwrap();
            let primitive = operation.primitive().unwrap();
            assert_eq!((primitive.encode(), Primitive::decode(word)), (word, Some(primitive)), "{word:#x}");
            said.push(operation);
        }
        let every: Vec<_> = Fold::all().map(|fold| fold.operator()).collect();
        assert!(every.iter().all(|operator| said.iter().any(|o| o.operator == Some(*operator))));
        use crate::spec::Kind::{AllGather, AllReduce, Barrier, Broadcast, Reduce, ReduceScatter};
        for kind in [AllReduce, Reduce, ReduceScatter, Broadcast, AllGather, Barrier] {
            assert!(said.iter().any(|operation| operation.kind == kind), "{kind:?}");
        }
    }

    #[test]
    fn words_mean_something_or_nothing() {
        for word in (0..=u32::MAX).step_by(0x1001).chain(0..0x2_0000).chain(0xffff_0000..=u32::MAX) {
            assert!(Immediate::decode(word).is_none_or(|i| i.encode() == word), "{word:#x}");
        }
        let sum = Fold::new(Operator::Sum, DataType::I32, ByteOrder::Big).unwrap();
        assert_eq!(Primitive::decode(0xffff_1000), Some(Primitive::AllReduce(sum)), "as in vector B4");
        for failure in Failure::ALL {
            let word = Immediate::Failed(failure, 5).encode();
            assert_eq!(Immediate::decode(word), Some(Immediate::Failed(failure, 5)));
        }
    }
}
