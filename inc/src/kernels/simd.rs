//! The same folds compiled for AVX2 and F16C, the one place of this crate with `unsafe`.
//!
//! Sums, minima and so on are the portable source, which the compiler turns into AVX2 instructions here, without FMA:
//! fused multiply-add is not among the features named, so it can not appear. Only the two types of 16 bits are read and
//! written by instructions of their own.

use super::Flags;
use super::element::{Element, LANES, Special, float, read_block, write_block};
use super::portable::{Run, fold};
use super::step::Step;
use std::arch::x86_64::{
    __m128i, __m256, __m256i, _CMP_UNORD_Q, _MM_FROUND_TO_NEAREST_INT, _mm_packus_epi32, _mm256_add_epi32,
    _mm256_and_si256, _mm256_blendv_epi8, _mm256_castps_si256, _mm256_castsi256_si128, _mm256_cmp_ps,
    _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_extracti128_si256, _mm256_set1_epi32,
    _mm256_slli_epi32, _mm256_srli_epi32,
};

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
    type Brain = WideBf16;

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

// bfloat16: the upper half of a binary32. Rounding is that of `element::narrow_bf16`.
float!(WideBf16, f32, u16, 2, 0x7f80, 0x7fc0, widen_bf16, narrow_bf16);

#[inline(always)]
fn widen_bf16(bits: [u16; LANES]) -> [f32; LANES] {
    let (eights, _) = bits.as_chunks::<8>();
    let mut wide = [0.0; LANES];
    for (eight, out) in eights.iter().zip(wide.as_chunks_mut::<8>().0) {
        // SAFETY: as in `widen`.
        *out = unsafe {
            let eight = _mm256_cvtepu16_epi32(std::mem::transmute::<[u16; 8], __m128i>(*eight));
            std::mem::transmute::<__m256i, [f32; 8]>(_mm256_slli_epi32::<16>(eight))
        };
    }
    wide
}

#[inline(always)]
fn narrow_bf16(wide: [f32; LANES]) -> [u16; LANES] {
    let (eights, _) = wide.as_chunks::<8>();
    let mut bits = [0; LANES];
    for (eight, out) in eights.iter().zip(bits.as_chunks_mut::<8>().0) {
        // SAFETY: as in `widen`.
        *out = unsafe {
            let wide = std::mem::transmute::<[f32; 8], __m256>(*eight);
            let all = _mm256_castps_si256(wide);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(all), _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(all, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(wide, wide));
            let high = _mm256_srli_epi32::<16>(rounded);
            let high = _mm256_blendv_epi8(high, _mm256_set1_epi32(0x7fc0), nan);
            let packed = _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256::<1>(high));
            std::mem::transmute::<__m128i, [u16; 8]>(packed)
        };
    }
    bits
}
