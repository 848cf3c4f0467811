//! Folds of k payloads into one, element by element.
//!
//! # Contract
//!
//! - Inputs are folded from the left in the order given: `((i0 op i1) op i2) op ...`. The engine gives them in rank order,
//!   whatever the order they came in, so a result is the same to the bit each time, and a host can check it.
//! - Integers wrap. [`Flags::OVERFLOW`] says that a step of a sum or product left the range of the type, the final
//!   value may be back in it.
//! - `f32` and `f64` are IEEE 754, rounded to nearest even at each step, without fused multiply-add, subnormals kept.
//! - `f16` and `bf16` are widened to `f32`, folded there and rounded once, to nearest even, at the end. What is too large
//!   for the type becomes infinite then.
//! - A NaN anywhere makes the element NaN, in minima and maxima too; it is written as the canonical quiet NaN (sign
//!   clear, first bit of the fraction set). -0 is below +0.
//! - [`Flags::NAN`] and [`Flags::INFINITE`] say what the result holds.
//! - With one input the result is that input, its NaNs made canonical.
//!
//! [`Kernels::best`] chooses at run time; every kernel gives the same bits (`avx2_agrees_with_portable`).

mod element;
mod portable;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod simd;
mod step;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What is done to two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobOperator")]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // The names say it.
pub enum Operator {
    Sum,
    Min,
    Max,
    Prod,
    And,
    Or,
    Xor,
}

impl Operator {
    /// All of them.
    pub const ALL: [Self; 7] = [Self::Sum, Self::Min, Self::Max, Self::Prod, Self::And, Self::Or, Self::Xor];

    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Prod => "prod",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
        }
    }
}

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobDataType")]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum DataType {
    U32,
    I32,
    I64,
    F32,
    F64,
    F16,
    Bf16,
}

impl DataType {
    /// All of them.
    pub const ALL: [Self; 7] = [Self::U32, Self::I32, Self::I64, Self::F32, Self::F64, Self::F16, Self::Bf16];

    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether it has an exponent.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::F16 | Self::Bf16)
    }
}

/// Order of the bytes of an element in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobByteOrder")]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum ByteOrder {
    Big,
    Little,
}

impl ByteOrder {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Big, Self::Little];

    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Big => "big",
            Self::Little => "little",
        }
    }
}

/// A fold that exists: bits of floats are not combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fold {
    operator: Operator,
    data_type: DataType,
    order: ByteOrder,
}

impl Fold {
    /// `None`: a bit operation on floats.
    pub const fn new(operator: Operator, data_type: DataType, order: ByteOrder) -> Option<Self> {
        let bits = matches!(operator, Operator::And | Operator::Or | Operator::Xor);
        if bits && data_type.is_float() { None } else { Some(Self { operator, data_type, order }) }
    }

    /// Every fold there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let pairs = DataType::ALL.into_iter().flat_map(|t| Operator::ALL.map(|o| (t, o)));
        pairs.flat_map(move |(t, o)| {
            ByteOrder::ALL.into_iter().filter_map(move |order| Self::new(o, t, order))
        })
    }

    /// What is done.
    pub const fn operator(self) -> Operator {
        self.operator
    }

    /// To what.
    pub const fn data_type(self) -> DataType {
        self.data_type
    }

    /// In which order the bytes stand.
    pub const fn order(self) -> ByteOrder {
        self.order
    }
}

/// What a fold met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// An integer left the range of its type on the way.
    pub const OVERFLOW: Self = Self(1);
    /// The result holds a NaN.
    pub const NAN: Self = Self(2);
    /// The result holds an infinite number.
    pub const INFINITE: Self = Self(4);

    /// The bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// From bits; those that mean nothing are cleared.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }

    /// Whether all of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags if `condition` holds, else none.
    const fn when(self, condition: bool) -> Self {
        if condition { self } else { Self(0) }
    }
}

impl std::ops::BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The payloads do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("inputs and output are of one length, whole elements, and there is at least one input")]
pub struct Misfit;

/// Which instructions fold.
#[derive(Clone, Copy, Debug)]
pub struct Kernels(Set);

#[derive(Clone, Copy, Debug)]
enum Set {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(simd::Avx2),
}

impl Kernels {
    /// Those every machine has.
    pub const PORTABLE: Self = Self(Set::Portable);

    /// The fastest this machine has.
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = simd::Avx2::detect() {
            return Self(Set::Avx2(avx2));
        }
        Self::PORTABLE
    }

    /// A name for reports.
    pub fn name(self) -> &'static str {
        match self.0 {
            Set::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2(_) => "avx2",
        }
    }

    /// Folds `inputs` into `out`, all of one length in bytes, a multiple of the element's.
    pub fn fold(self, fold: Fold, inputs: &[&[u8]], out: &mut [u8]) -> Result<Flags, Misfit> {
        let whole = out.len().is_multiple_of(fold.data_type.bytes());
        if inputs.is_empty() || !whole || inputs.iter().any(|input| input.len() != out.len()) {
            return Err(Misfit);
        }
        Ok(match self.0 {
            Set::Portable => portable::dispatch(portable::Portable, fold, inputs, out),
            #[cfg(target_arch = "x86_64")]
            Set::Avx2(avx2) => portable::dispatch(avx2, fold, inputs, out),
        })
    }
}
