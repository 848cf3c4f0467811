//! The invariant CRC by carry-less multiplication, the one place of this crate with `unsafe`. Its portable twin is
//! [`super::head`]; tests compare them.
//!
//! A register of 128 bits is moved over the bytes behind it by multiplying its halves with powers of x modulo the polynomial
//! (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009). Zeros in front
//! of a register that is zero change nothing, so blocks are counted back from the end and what the first of them
//! holds of the Ethernet header is masked to zero: no byte is copied, none is left over.

use super::{IPV4, IPV6, LRH_REGISTER, MASKED, Masks};
use std::arch::x86_64::{
    __m128i, __m256i, _mm_and_si128, _mm_clmulepi64_si128, _mm_extract_epi32, _mm_or_si128, _mm_set_epi64x,
    _mm_srli_si128, _mm_xor_si128, _mm256_broadcastsi128_si256, _mm256_castsi256_si128,
    _mm256_clmulepi64_epi128, _mm256_extracti128_si256, _mm256_set_m128i, _mm256_xor_si256,
};
use std::sync::atomic::{AtomicU8, Ordering};

/// What the machine has, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Clmul {
    /// Multiplies 128 bits at a time.
    Narrow = 2,
    /// 256.
    Wide = 3,
}

/// CRC-32 as in Ethernet, without the highest power, bits reflected.
const POLYNOMIAL: u32 = 0xedb8_8320;
/// The polynomial with its highest power, and the quotient of x^64 by it, both of 33 bits and reflected.
const P: i64 = (POLYNOMIAL as i64) << 1 | 1;
const U: i64 = quotient();

/// x^n modulo the polynomial, reflected, one bit further to the left: products of reflected numbers come out one
/// bit to the right.
const fn power(n: u32) -> i64 {
    let mut rest = 1u32 << 31;
    let mut i = 0;
    while i < n {
        rest = rest >> 1 ^ if rest & 1 == 1 { POLYNOMIAL } else { 0 };
        i += 1;
    }
    (rest as i64) << 1
}

const fn quotient() -> i64 {
    // Long division of x^64: each step's carry is a bit of the quotient, from the highest.
    let (mut rest, mut quotient, mut i) = (1u32 << 31, 0i64, 0);
    while i < 64 {
        let carry = rest & 1;
        if i >= 31 {
            quotient |= (carry as i64) << (i - 31);
        }
        rest = rest >> 1 ^ if carry == 1 { POLYNOMIAL } else { 0 };
        i += 1;
    }
    quotient
}

/// Moves both halves of a register by so many bits: the lower half, which is ahead, by 64 more, of which 32 are the CRC's own.
const fn over(bits: u32) -> (i64, i64) {
    (power(bits + 32), power(bits - 32))
}

const OVER_ONE: (i64, i64) = over(128);
const OVER_TWO: (i64, i64) = over(2 * 128);
const OVER_FOUR: (i64, i64) = over(4 * 128);
const OVER_EIGHT: (i64, i64) = over(8 * 128);

const BLOCK: usize = 16;
/// Blocks in a round of the wide loop.
const ROUND: usize = 8;

impl Clmul {
    /// The fastest there is.
    #[inline]
    pub fn detect() -> Option<Self> {
        const NONE: u8 = 1;
        /// Zero: not looked for yet.
        static FOUND: AtomicU8 = AtomicU8::new(0);
        match FOUND.load(Ordering::Relaxed) {
            3 => Some(Self::Wide),
            2 => Some(Self::Narrow),
            NONE => None,
            _ => {
                let best = Self::all().last();
                FOUND.store(best.map_or(NONE, |best| best as u8), Ordering::Relaxed);
                best
            }
        }
    }

    /// All there are.
    #[cold]
    pub fn all() -> impl Iterator<Item = Self> {
        let narrow = is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("sse4.1");
        let wide = narrow && is_x86_feature_detected!("vpclmulqdq") && is_x86_feature_detected!("avx2");
        narrow.then_some(Self::Narrow).into_iter().chain(wide.then_some(Self::Wide))
    }

    /// CRC of the packet in `frame[ip..end]` as [`super::head`] has it. `None`: too little lies in front of it, or it is not
    /// one.
    #[inline]
    pub fn icrc(self, frame: &[u8], ip: usize, end: usize) -> Option<u32> {
        let masks = Masks::of(*frame.get(ip)?)?;
        let ones = &ONES[usize::from(masks.least > IPV4.least)];
        let len = end.checked_sub(ip).filter(|&len| len >= masks.least)?;
        let pad = len.wrapping_neg() % BLOCK;
        let (blocks, _) = frame.get(ip.checked_sub(pad)?..end)?.as_chunks::<BLOCK>();
        Some(match self {
            // SAFETY: a value of Self comes from `all`, which found the features.
            Self::Wide if blocks.len() >= 2 * ROUND => unsafe { wide(blocks, ones, pad) },
            // SAFETY: as above.
            _ => unsafe { narrow(blocks, ones, pad) },
        })
    }
}

#[inline(always)]
fn load(block: &[u8; BLOCK]) -> __m128i {
    // SAFETY: arrays and vectors of one size may be read as each other, all bit patterns are valid.
    unsafe { std::mem::transmute::<[u8; BLOCK], __m128i>(*block) }
}

/// What is laid over the first blocks, [`FIRST`] at most: of what lies in front of the packet a block, then the packet.
type Overlay = [u8; BLOCK + FIRST * BLOCK];

/// Blocks that may hold what is masked.
const FIRST: usize = (BLOCK - 1 + MASKED).div_ceil(BLOCK);

/// `bytes` over the packet, `front` before it and `rest` behind them.
const fn overlay(front: u8, bytes: &[u8], rest: u8) -> Overlay {
    let mut all = [rest; size_of::<Overlay>()];
    let mut i = 0;
    while i < BLOCK + bytes.len() {
        all[i] = if i < BLOCK { front } else { bytes[i - BLOCK] };
        i += 1;
    }
    all
}

static PACKET: Overlay = overlay(0, &[], 0xff);
static REGISTER: Overlay = overlay(0, &LRH_REGISTER.to_le_bytes(), 0);
static ONES: [Overlay; 2] = [overlay(0, &IPV4.ones, 0), overlay(0, &IPV6.ones, 0)];

/// Block `at`, one of the first, masked; `pad` bytes of block 0 are none of the packet's.
#[inline]
#[target_feature(enable = "sse4.1")]
fn masked(blocks: &[[u8; BLOCK]], ones: &Overlay, pad: usize, at: usize) -> __m128i {
    let over = |overlay: &Overlay| {
        let part = overlay.get(BLOCK - pad + at * BLOCK..).and_then(|rest| rest.first_chunk::<BLOCK>());
        load(part.unwrap_or(&[0; BLOCK]))
    };
    let block = _mm_or_si128(load(&blocks[at]), over(ones));
    match at {
        0 => _mm_xor_si128(_mm_and_si128(block, over(&PACKET)), over(&REGISTER)),
        1 => _mm_xor_si128(block, over(&REGISTER)),
        _ => block,
    }
}

/// `register` moved over what `(low, high)` says, and what is there added.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn step(register: __m128i, (low, high): (i64, i64), there: __m128i) -> __m128i {
    let powers = _mm_set_epi64x(high, low);
    let (low, high) =
        (_mm_clmulepi64_si128::<0x00>(register, powers), _mm_clmulepi64_si128::<0x11>(register, powers));
    _mm_xor_si128(_mm_xor_si128(low, high), there)
}

#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1,avx2,vpclmulqdq")]
fn wide_step(register: __m256i, (low, high): (i64, i64), there: __m256i) -> __m256i {
    let powers = _mm256_broadcastsi128_si256(_mm_set_epi64x(high, low));
    let low = _mm256_clmulepi64_epi128::<0x00>(register, powers);
    let high = _mm256_clmulepi64_epi128::<0x11>(register, powers);
    _mm256_xor_si256(_mm256_xor_si256(low, high), there)
}

#[target_feature(enable = "pclmulqdq,sse4.1")]
fn narrow(blocks: &[[u8; BLOCK]], ones: &Overlay, pad: usize) -> u32 {
    let first = |at| masked(blocks, ones, pad, at);
    let mut register = first(0);
    let rest;
    if let Some((_, behind)) = blocks.split_at_checked(2 * 4) {
        // Four registers at a time, so that none waits for another.
        let mut four = [register, first(1), first(2), first(3)];
        let second = [first(4), load(&blocks[5]), load(&blocks[6]), load(&blocks[7])];
        four.iter_mut().zip(second).for_each(|(one, there)| *one = step(*one, OVER_FOUR, there));
        let (rounds, left) = behind.as_chunks::<4>();
        for round in rounds {
            four.iter_mut().zip(round).for_each(|(one, there)| *one = step(*one, OVER_FOUR, load(there)));
        }
        register = four[1..].iter().fold(four[0], |one, next| step(one, OVER_ONE, *next));
        rest = left;
    } else {
        for at in 1..blocks.len().min(FIRST) {
            register = step(register, OVER_ONE, first(at));
        }
        rest = blocks.get(FIRST..).unwrap_or_default();
    }
    reduce(rest.iter().fold(register, |one, next| step(one, OVER_ONE, load(next))))
}

#[target_feature(enable = "pclmulqdq,sse4.1,avx2,vpclmulqdq")]
fn wide(blocks: &[[u8; BLOCK]], ones: &Overlay, pad: usize) -> u32 {
    let first = |at| masked(blocks, ones, pad, at);
    let pair = |two: &[[u8; BLOCK]; 2]| _mm256_set_m128i(load(&two[1]), load(&two[0]));
    let (pairs, odd) = blocks.as_chunks::<2>();
    let mut four = [
        _mm256_set_m128i(first(1), first(0)),
        _mm256_set_m128i(first(3), first(2)),
        _mm256_set_m128i(load(&blocks[5]), first(4)),
        pair(&pairs[3]),
    ];
    let (rounds, left) = pairs[4..].as_chunks::<4>();
    for round in rounds {
        for i in 0..4 {
            four[i] = wide_step(four[i], OVER_EIGHT, pair(&round[i]));
        }
    }
    let mut two = four[0];
    for next in &four[1..] {
        two = wide_step(two, OVER_TWO, *next);
    }
    for next in left {
        two = wide_step(two, OVER_TWO, pair(next));
    }
    let mut register = step(_mm256_castsi256_si128(two), OVER_ONE, _mm256_extracti128_si256::<1>(two));
    for block in odd {
        register = step(register, OVER_ONE, load(block));
    }
    reduce(register)
}

/// The CRC that a register of 128 bits stands for.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn reduce(register: __m128i) -> u32 {
    let low = _mm_set_epi64x(0, 0xffff_ffff);
    let x = _mm_xor_si128(
        _mm_clmulepi64_si128::<0x00>(register, _mm_set_epi64x(0, const { power(128 - 32) })),
        _mm_srli_si128::<8>(register),
    );
    let x = _mm_xor_si128(
        _mm_clmulepi64_si128::<0x00>(_mm_and_si128(x, low), _mm_set_epi64x(0, const { power(64) })),
        _mm_srli_si128::<4>(x),
    );
    // Barrett: the quotient times the polynomial is what is left out.
    let quotient = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(x, low), _mm_set_epi64x(0, U));
    let product = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(quotient, low), _mm_set_epi64x(0, P));
    !(_mm_extract_epi32::<1>(_mm_xor_si128(x, product)) as u32)
}
