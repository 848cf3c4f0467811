//! The fold itself, for any machine, and the way from a [`Fold`] to the one function that does it.

use super::element::{Bf16, Element, F16, F32, F64, I32, I64, LANES, U32};
use super::step::{And, Max, Min, Or, Prod, Step, Sum, Xor};
use super::{ByteOrder, DataType, Flags, Fold, Operator};

/// Longest block: [`LANES`] elements of 8 bytes.
const BLOCK: usize = 8 * LANES;

/// Folds `inputs` (at least one, all as long as `out`) block by block, so that sums stay in registers.
#[inline(always)]
pub fn fold<E: Element, S: Step<E::Wide>, const BIG: bool>(inputs: &[&[u8]], out: &mut [u8]) -> Flags {
    let Some((first, rest)) = inputs.split_first() else { return Flags::default() };
    let mut special = E::Special::default();
    let mut overflow = [E::Wide::default(); LANES];
    let bytes = E::BYTES * LANES;
    let end = out.len() - out.len() % bytes;
    for (n, out) in out.chunks_exact_mut(bytes).enumerate() {
        let block = n * bytes..(n + 1) * bytes;
        let mut sum = E::load::<BIG>(&first[block.clone()]);
        for input in rest {
            add::<E, S, BIG>(&mut sum, &input[block.clone()], &mut overflow);
        }
        E::store::<BIG>(sum, out, &mut special);
    }
    // The rest of the elements among zeros, which raise no flag.
    let tail = out.len() - end;
    if tail > 0 {
        let padded = |input: &[u8]| {
            let mut block = [0; BLOCK];
            block[..tail].copy_from_slice(&input[end..]);
            block
        };
        let mut sum = E::load::<BIG>(&padded(first));
        for input in rest {
            add::<E, S, BIG>(&mut sum, &padded(input), &mut overflow);
        }
        let mut block = [0; BLOCK];
        E::store::<BIG>(sum, &mut block, &mut special);
        out[end..].copy_from_slice(&block[..tail]);
    }
    E::flags(&special, &overflow)
}

#[inline(always)]
fn add<E: Element, S: Step<E::Wide>, const BIG: bool>(
    sum: &mut [E::Wide; LANES],
    block: &[u8],
    overflow: &mut [E::Wide; LANES],
) {
    let x = E::load::<BIG>(block);
    for i in 0..LANES {
        sum[i] = S::step(sum[i], x[i], &mut overflow[i]);
    }
}

/// Something that runs [`fold`], compiled for the instructions it may use.
pub trait Run: Copy {
    /// How it reads and writes binary16.
    type Half: Element<Wide = f32>;
    /// How it reads and writes bfloat16.
    type Brain: Element<Wide = f32>;

    /// Runs it.
    fn run<E: Element, S: Step<E::Wide>, const BIG: bool>(self, inputs: &[&[u8]], out: &mut [u8]) -> Flags;
}

/// For any machine.
#[derive(Clone, Copy)]
pub struct Portable;

impl Run for Portable {
    type Half = F16;
    type Brain = Bf16;

    fn run<E: Element, S: Step<E::Wide>, const BIG: bool>(self, inputs: &[&[u8]], out: &mut [u8]) -> Flags {
        fold::<E, S, BIG>(inputs, out)
    }
}

/// Calls the function for this fold.
pub fn dispatch<R: Run>(run: R, fold: Fold, inputs: &[&[u8]], out: &mut [u8]) -> Flags {
    match fold.data_type {
        DataType::U32 => integer::<R, U32>(run, fold, inputs, out),
        DataType::I32 => integer::<R, I32>(run, fold, inputs, out),
        DataType::I64 => integer::<R, I64>(run, fold, inputs, out),
        DataType::F32 => float::<R, F32>(run, fold, inputs, out),
        DataType::F64 => float::<R, F64>(run, fold, inputs, out),
        DataType::F16 => float::<R, R::Half>(run, fold, inputs, out),
        DataType::Bf16 => float::<R, R::Brain>(run, fold, inputs, out),
    }
}

fn integer<R: Run, E: Element>(run: R, fold: Fold, inputs: &[&[u8]], out: &mut [u8]) -> Flags
where
    And: Step<E::Wide>,
    Or: Step<E::Wide>,
    Xor: Step<E::Wide>,
    Sum: Step<E::Wide>,
    Min: Step<E::Wide>,
    Max: Step<E::Wide>,
    Prod: Step<E::Wide>,
{
    match fold.operator {
        Operator::And => ordered::<R, E, And>(run, fold.order, inputs, out),
        Operator::Or => ordered::<R, E, Or>(run, fold.order, inputs, out),
        Operator::Xor => ordered::<R, E, Xor>(run, fold.order, inputs, out),
        Operator::Sum | Operator::Min | Operator::Max | Operator::Prod => {
            float::<R, E>(run, fold, inputs, out)
        }
    }
}

/// What floats can do, and integers too.
fn float<R: Run, E: Element>(run: R, fold: Fold, inputs: &[&[u8]], out: &mut [u8]) -> Flags
where
    Sum: Step<E::Wide>,
    Min: Step<E::Wide>,
    Max: Step<E::Wide>,
    Prod: Step<E::Wide>,
{
    match fold.operator {
        Operator::Min => ordered::<R, E, Min>(run, fold.order, inputs, out),
        Operator::Max => ordered::<R, E, Max>(run, fold.order, inputs, out),
        Operator::Prod => ordered::<R, E, Prod>(run, fold.order, inputs, out),
        // `Fold::new` makes no bit operation on floats.
        Operator::Sum | Operator::And | Operator::Or | Operator::Xor => {
            ordered::<R, E, Sum>(run, fold.order, inputs, out)
        }
    }
}

fn ordered<R: Run, E: Element, S: Step<E::Wide>>(
    run: R,
    order: ByteOrder,
    inputs: &[&[u8]],
    out: &mut [u8],
) -> Flags {
    match order {
        ByteOrder::Big => run.run::<E, S, true>(inputs, out),
        ByteOrder::Little => run.run::<E, S, false>(inputs, out),
    }
}
