//! The kernels against folds written down naively, against each other, and at the edges of their types.

use super::*;
use half::{bf16, f16};
use proptest::prelude::*;

fn elements<const N: usize>(bytes: &[u8], order: ByteOrder) -> Vec<[u8; N]> {
    let whole = bytes.chunks_exact(N).map(|c| <[u8; N]>::try_from(c).unwrap());
    whole
        .map(|mut e| {
            if order == ByteOrder::Big {
                e.reverse();
            }
            e
        })
        .collect()
}

/// A fold of one element: values of all inputs in, result and overflow out.
trait Reference: Sized {
    fn fold(operator: Operator, values: &[Self]) -> (Self, bool);
}

macro_rules! integer {
    ($t:ty, $wide:ty) => {
        impl Reference for $t {
            fn fold(operator: Operator, values: &[Self]) -> (Self, bool) {
                values[1..].iter().fold((values[0], false), |(a, over), &x| {
                    let exact = |wide: $wide| (wide as $t, over || <$t>::try_from(wide).is_err());
                    match operator {
                        Operator::Sum => exact(<$wide>::from(a) + <$wide>::from(x)),
                        Operator::Prod => exact(<$wide>::from(a) * <$wide>::from(x)),
                        Operator::Min => (if x < a { x } else { a }, over),
                        Operator::Max => (if x > a { x } else { a }, over),
                        Operator::And => (a & x, over),
                        Operator::Or => (a | x, over),
                        Operator::Xor => (a ^ x, over),
                    }
                })
            }
        }
    };
}
integer!(u32, u64);
integer!(i32, i64);
integer!(i64, i128);

macro_rules! float {
    ($t:ty) => {
        impl Reference for $t {
            fn fold(operator: Operator, values: &[Self]) -> (Self, bool) {
                let result = values[1..].iter().fold(values[0], |a, &x| match operator {
                    Operator::Sum => a + x,
                    Operator::Prod => a * x,
                    _ if a.is_nan() || x.is_nan() => <$t>::NAN,
                    Operator::Min => {
                        if a.total_cmp(&x).is_lt() {
                            a
                        } else {
                            x
                        }
                    }
                    _ => {
                        if a.total_cmp(&x).is_gt() {
                            a
                        } else {
                            x
                        }
                    }
                });
                (result, false)
            }
        }
    };
}
float!(f32);
float!(f64);

/// Result and flags, element by element, by the letter of the contract.
fn reference(fold: Fold, inputs: &[&[u8]]) -> (Vec<u8>, Flags) {
    macro_rules! each {
        ($n:literal, $t:ty, $read:expr, $write:expr) => {{
            let columns: Vec<Vec<[u8; $n]>> = inputs.iter().map(|i| elements(i, fold.order)).collect();
            let mut out = Vec::new();
            let mut flags = Flags::default();
            for e in 0..columns[0].len() {
                let values: Vec<$t> = columns.iter().map(|c| $read(c[e])).collect();
                let (result, over) = Reference::fold(fold.operator, &values);
                let (bytes, special): ([u8; $n], Flags) = $write(result);
                flags |= special | Flags::OVERFLOW.when(over);
                out.extend(elements::<$n>(&bytes, fold.order)[0]);
            }
            (out, flags)
        }};
    }
    macro_rules! special {
        ($value:expr, $nan:expr) => {{
            let v = $value;
            let flags = Flags::NAN.when(v.is_nan()) | Flags::INFINITE.when(v.is_infinite());
            (if v.is_nan() { $nan.to_le_bytes() } else { v.to_le_bytes() }, flags)
        }};
    }
    match fold.data_type {
        DataType::U32 => each!(4, u32, u32::from_le_bytes, |r: u32| (r.to_le_bytes(), Flags(0))),
        DataType::I32 => each!(4, i32, i32::from_le_bytes, |r: i32| (r.to_le_bytes(), Flags(0))),
        DataType::I64 => each!(8, i64, i64::from_le_bytes, |r: i64| (r.to_le_bytes(), Flags(0))),
        DataType::F32 => each!(4, f32, f32::from_le_bytes, |r: f32| special!(r, 0x7fc0_0000u32)),
        DataType::F64 => each!(8, f64, f64::from_le_bytes, |r: f64| special!(r, 0x7ff8_0000_0000_0000u64)),
        DataType::F16 => each!(2, f32, |b| f16::from_le_bytes(b).to_f32(), |r: f32| {
            special!(f16::from_f32(r), 0x7e00u16)
        }),
        DataType::Bf16 => each!(2, f32, |b| bf16::from_le_bytes(b).to_f32(), |r: f32| {
            special!(bf16::from_f32(r), 0x7fc0u16)
        }),
    }
}

/// Bytes of elements, the odd ones among them (zeros, infinities, NaNs, subnormals, extremes) more often than chance
/// would have it: a byte is repeated often.
fn payload(elements: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        3 => any::<u8>(),
        2 => prop::sample::select(vec![0u8, 0, 0x80, 0xff, 0x7f, 0x7c, 0xfc, 0xf0, 0x01, 0x3f, 0x3c]),
    ];
    prop::collection::vec(byte, elements * 8)
}

fn inputs() -> impl Strategy<Value = Vec<Vec<u8>>> {
    (1usize..40, 1usize..9).prop_flat_map(|(elements, k)| prop::collection::vec(payload(elements), k))
}

/// All folds. Miri has no instructions for binary16, and the crate `half` has nothing else where they are enabled.
fn folds() -> impl Iterator<Item = Fold> {
    Fold::all().filter(|fold| !cfg!(miri) || fold.data_type != DataType::F16)
}

fn check_all(payloads: &[Vec<u8>], kernels: Kernels) {
    for fold in folds() {
        // 2-byte and 4-byte types get odd numbers of elements, too.
        let len = payloads[0].len() - fold.data_type.bytes() % 8;
        let inputs: Vec<&[u8]> = payloads.iter().map(|p| &p[..len]).collect();
        let mut out = vec![0xaa; len];
        let flags = kernels.fold(fold, &inputs, &mut out).unwrap();
        let (expected, expected_flags) = reference(fold, &inputs);
        assert_eq!(out, expected, "{fold:?} by {} kernels", kernels.name());
        assert_eq!(flags, expected_flags, "{fold:?} by {} kernels", kernels.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 40 }))]

    #[test]
    fn portable_agrees_with_the_reference(payloads in inputs()) {
        check_all(&payloads, Kernels::PORTABLE);
    }

    /// On a machine without AVX2 this compares the portable kernels with themselves.
    #[test]
    fn avx2_agrees_with_portable(payloads in inputs()) {
        for fold in folds() {
            let inputs: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
            let [mut a, mut b] = [vec![1; inputs[0].len()], vec![2; inputs[0].len()]];
            let portable = Kernels::PORTABLE.fold(fold, &inputs, &mut a);
            let best = Kernels::best().fold(fold, &inputs, &mut b);
            prop_assert_eq!(portable, best, "{:?}", fold);
            prop_assert_eq!(a, b, "{:?}", fold);
        }
    }
}

#[test]
fn best_agrees_with_the_reference_on_a_whole_packet_of_64_children() {
    let mut n = 1u32;
    let mut byte = || {
        n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (n >> 24) as u8
    };
    let payloads: Vec<Vec<u8>> = (0..64).map(|_| (0..1024).map(|_| byte()).collect()).collect();
    check_all(&payloads, Kernels::best());
}

/// All 65536 binary16 and bfloat16 numbers, one by one and beside a zero, by both kernels.
#[test]
fn every_16_bit_float_is_read_and_written_alike() {
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let zeros = vec![0; all.len()];
    for data_type in [DataType::F16, DataType::Bf16] {
        let fold = Fold::new(Operator::Sum, data_type, ByteOrder::Little).unwrap();
        for inputs in [&[&all[..]][..], &[&all, &zeros]] {
            let (expected, flags) = reference(fold, inputs);
            for kernels in [Kernels::PORTABLE, Kernels::best()] {
                let mut out = vec![0; all.len()];
                assert_eq!(kernels.fold(fold, inputs, &mut out), Ok(flags));
                assert_eq!(out, expected, "{data_type:?} {}", kernels.name());
            }
        }
    }
}

#[test]
fn dev76_overflow_nan_and_infinity_are_told() {
    let run = |data_type, operator, inputs: &[&[u8]]| {
        let fold = Fold::new(operator, data_type, ByteOrder::Little).unwrap();
        let mut out = vec![0; inputs[0].len()];
        let flags = Kernels::best().fold(fold, inputs, &mut out).unwrap();
        (out, flags)
    };
    let sum = |data_type, inputs: &[&[u8]]| run(data_type, Operator::Sum, inputs);
    let i = |n: i32| n.to_le_bytes();
    let f = |x: f32| x.to_le_bytes();
    assert_eq!(sum(DataType::I32, &[&i(i32::MAX), &i(1)]), (i(i32::MIN).to_vec(), Flags::OVERFLOW));
    assert_eq!(
        sum(DataType::I32, &[&i(i32::MAX), &i(1), &i(-1)]),
        (i(i32::MAX).to_vec(), Flags::OVERFLOW),
        "back in range, but the way led outside"
    );
    assert_eq!(sum(DataType::I32, &[&i(i32::MAX), &i(-1), &i(1)]), (i(i32::MAX).to_vec(), Flags(0)));
    assert_eq!(sum(DataType::U32, &[&i(-1), &i(1)]), (i(0).to_vec(), Flags::OVERFLOW));
    assert_eq!(sum(DataType::F32, &[&f(f32::MAX), &f(f32::MAX)]).1, Flags::INFINITE);
    let canonical = 0x7fc0_0000u32.to_le_bytes().to_vec();
    assert_eq!(sum(DataType::F32, &[&f(f32::INFINITY), &f(f32::NEG_INFINITY)]), (canonical, Flags::NAN));
    let half = |x: f32| f16::from_f32(x).to_le_bytes();
    assert_eq!(sum(DataType::F16, &[&half(65504.0), &half(65504.0)]).1, Flags::INFINITE);
    // Widened and rounded once: each step rounded to bfloat16 would lose both small terms.
    let b = |x: f32| bf16::from_f32(x).to_le_bytes();
    assert_eq!(sum(DataType::Bf16, &[&b(256.0), &b(1.0), &b(1.0)]).0, b(258.0));
    let zeros = run(DataType::F32, Operator::Min, &[&f(0.0), &f(-0.0)]).0;
    assert_eq!(zeros, f(-0.0));
    assert_eq!(run(DataType::F32, Operator::Max, &[&f(-0.0), &f(0.0)]).0, f(0.0));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let fold = Fold::new(Operator::Sum, DataType::U32, ByteOrder::Big).unwrap();
    let best = Kernels::best();
    assert_eq!(best.fold(fold, &[], &mut []), Err(Misfit));
    assert_eq!(best.fold(fold, &[&[0; 4], &[0; 8]], &mut [0; 4]), Err(Misfit));
    assert_eq!(best.fold(fold, &[&[0; 6]], &mut [0; 6]), Err(Misfit));
    assert_eq!(best.fold(fold, &[&[], &[]], &mut []), Ok(Flags(0)));
    assert!(Fold::new(Operator::Xor, DataType::F32, ByteOrder::Big).is_none());
    assert_eq!(Fold::all().count(), 2 * (3 * 7 + 4 * 4));
}
