//! The same folds compiled for AVX2 and F16C, the one place of this crate with `unsafe`.
//!
//! Sums, minima and so on are the portable source, which the compiler turns into AVX2 instructions here, without FMA:
//! fused multiply-add is not among the features named, so it can not appear. Only binary16 is read and
//! written by instructions of its own.

use super::Flags;
use super::element::{Element, LANES, Special, float, read_block, write_block};
use super::portable::{Run, fold};
use super::step::Step;
use std::arch::x86_64::{__m128i, __m256, _MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph};

/// Proof that the machine has AVX2 and F16C.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// `None`: it has not.
    pub fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")).then_some(Self(()))
    }
}

impl Run for Avx2 {
    type Half = F16c;

    fn run<E: Element, S: Step<E::Wide>, const BIG: bool>(self, inputs: &[&[u8]], out: &mut [u8]) -> Flags {
        // SAFETY: a value of Self exists only after `detect` found both features.
        unsafe { compiled::<E, S, BIG>(inputs, out) }
    }
}

#[target_feature(enable = "avx2,f16c")]
fn compiled<E: Element, S: Step<E::Wide>, const BIG: bool>(inputs: &[&[u8]], out: &mut [u8]) -> Flags {
    fold::<E, S, BIG>(inputs, out)
}

// Binary16, eight numbers an instruction.
float!(F16c, f32, u16, 2, 0x7c00, 0x7e00, widen, narrow);

#[inline(always)]
fn widen(bits: [u16; LANES]) -> [f32; LANES] {
    let (eights, _) = bits.as_chunks::<8>();
    let mut wide = [0.0; LANES];
    for (eight, out) in eights.iter().zip(wide.as_chunks_mut::<8>().0) {
        // SAFETY: runs within `compiled` alone, since nothing but `Avx2` uses F16c; arrays and vectors of one size may be
        // read as each other, all bit patterns are valid.
        *out = unsafe {
            std::mem::transmute::<__m256, [f32; 8]>(_mm256_cvtph_ps(
                std::mem::transmute::<[u16; 8], __m128i>(*eight),
            ))
        };
    }
    wide
}

#[inline(always)]
fn narrow(wide: [f32; LANES]) -> [u16; LANES] {
    let (eights, _) = wide.as_chunks::<8>();
    let mut bits = [0; LANES];
    for (eight, out) in eights.iter().zip(bits.as_chunks_mut::<8>().0) {
        // SAFETY: as in `widen`.
        *out = unsafe {
            std::mem::transmute::<__m128i, [u16; 8]>(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(
                std::mem::transmute::<[f32; 8], __m256>(*eight),
            ))
        };
    }
    bits
}
