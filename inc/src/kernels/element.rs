//! How elements stand in memory, and as what they are folded.

use super::Flags;

/// Elements handled at a time: two AVX2 registers of 32-bit numbers. (With more, compilers keep the sums in memory.)
pub const LANES: usize = 16;

/// An element type, in blocks of [`LANES`]. A block handed in is at least that long.
pub trait Element {
    /// What it is folded as.
    type Wide: Copy + Default;
    /// Marks of special values met, per lane.
    type Special: Copy + Default;
    /// Bytes of one.
    const BYTES: usize;

    /// Reads a block.
    fn load<const BIG: bool>(block: &[u8]) -> [Self::Wide; LANES];

    /// Writes a block and marks what is special in it.
    fn store<const BIG: bool>(wide: [Self::Wide; LANES], block: &mut [u8], special: &mut Self::Special);

    /// What the marks mean, and whether the top bit of any `overflow` is set.
    fn flags(special: &Self::Special, overflow: &[Self::Wide; LANES]) -> Flags;
}

/// Unsigned number of `$bytes` bytes each from a block, in the order asked for.
macro_rules! read_block {
    ($block:expr, $bits:ty, $bytes:literal) => {{
        let whole = $block.first_chunk::<{ $bytes * LANES }>().unwrap_or(&[0; $bytes * LANES]);
        let (elements, _) = whole.as_chunks::<$bytes>();
        std::array::from_fn::<$bits, LANES, _>(|i| {
            let n = <$bits>::from_le_bytes(elements[i]);
            if BIG { n.swap_bytes() } else { n }
        })
    }};
}

macro_rules! write_block {
    ($numbers:expr, $block:expr, $bytes:literal) => {
        if let Some(whole) = $block.first_chunk_mut::<{ $bytes * LANES }>() {
            let (elements, _) = whole.as_chunks_mut::<$bytes>();
            for i in 0..LANES {
                let n = $numbers[i];
                elements[i] = if BIG { n.swap_bytes() } else { n }.to_le_bytes();
            }
        }
    };
}

macro_rules! integer {
    ($name:ident, $wide:ty, $bits:ty, $bytes:literal) => {
        pub struct $name;

        impl Element for $name {
            type Wide = $wide;
            type Special = ();
            const BYTES: usize = $bytes;

            #[inline(always)]
            fn load<const BIG: bool>(block: &[u8]) -> [$wide; LANES] {
                read_block!(block, $bits, $bytes).map(|n| n as $wide)
            }

            #[inline(always)]
            fn store<const BIG: bool>(wide: [$wide; LANES], block: &mut [u8], _: &mut ()) {
                write_block!(wide, block, $bytes);
            }

            #[inline(always)]
            fn flags(_: &(), overflow: &[$wide; LANES]) -> Flags {
                let all = overflow.iter().fold(0, |all, o| all | o);
                Flags::OVERFLOW.when(all >> (<$bits>::BITS - 1) != 0)
            }
        }
    };
}

integer!(U32, u32, u32, 4);
integer!(I32, i32, u32, 4);
integer!(I64, i64, u64, 8);

/// Lanes that were NaN, and lanes that were infinite.
#[derive(Clone, Copy, Default)]
pub struct Special<B> {
    pub nan: [B; LANES],
    pub infinite: [B; LANES],
}

/// `$widen` makes a block of bits a block of wide numbers, `$narrow` rounds it back. The bits of a NaN that `$narrow`
/// returns are not looked at.
macro_rules! float {
    ($name:ident, $wide:ty, $bits:ty, $bytes:literal, $infinite:literal, $nan:literal, $widen:expr, $narrow:expr) => {
        pub struct $name;

        impl Element for $name {
            type Wide = $wide;
            type Special = Special<$bits>;
            const BYTES: usize = $bytes;

            #[inline(always)]
            fn load<const BIG: bool>(block: &[u8]) -> [$wide; LANES] {
                $widen(read_block!(block, $bits, $bytes))
            }

            #[inline(always)]
            fn store<const BIG: bool>(wide: [$wide; LANES], block: &mut [u8], special: &mut Special<$bits>) {
                let mut bits: [$bits; LANES] = $narrow(wide);
                for i in 0..LANES {
                    let magnitude = bits[i] & <$bits>::MAX >> 1;
                    let is_nan = magnitude > $infinite;
                    bits[i] = if is_nan { $nan } else { bits[i] };
                    special.nan[i] |= <$bits>::from(is_nan);
                    special.infinite[i] |= <$bits>::from(magnitude == $infinite);
                }
                write_block!(bits, block, $bytes);
            }

            #[inline(always)]
            fn flags(special: &Special<$bits>, _: &[$wide; LANES]) -> Flags {
                let any = |marks: &[$bits; LANES]| marks.iter().any(|&m| m != 0);
                Flags::NAN.when(any(&special.nan)) | Flags::INFINITE.when(any(&special.infinite))
            }
        }
    };
}
pub(super) use {float, read_block, write_block};

float!(
    F32,
    f32,
    u32,
    4,
    0x7f80_0000,
    0x7fc0_0000,
    |b: [u32; LANES]| b.map(f32::from_bits),
    |w: [f32; LANES]| w.map(f32::to_bits)
);
float!(
    F64,
    f64,
    u64,
    8,
    0x7ff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    |b: [u64; LANES]| b.map(f64::from_bits),
    |w: [f64; LANES]| w.map(f64::to_bits)
);
float!(
    Bf16,
    f32,
    u16,
    2,
    0x7f80,
    0x7fc0,
    |b: [u16; LANES]| b.map(|bits| f32::from_bits(u32::from(bits) << 16)),
    |w: [f32; LANES]| w.map(narrow_bf16)
);
float!(
    F16,
    f32,
    u16,
    2,
    0x7c00,
    0x7e00,
    |b: [u16; LANES]| b.map(|bits| half::f16::from_bits(bits).to_f32_const()),
    |w: [f32; LANES]| w.map(|wide| half::f16::from_f32_const(wide).to_bits())
);

/// Round to nearest even: half of the last place is added, a little less if the last bit is even. A carry out of the
/// fraction goes to the exponent, out of the largest number to infinity.
#[inline(always)]
fn narrow_bf16(wide: f32) -> u16 {
    let bits = wide.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    (if wide.is_nan() { 0x7fc0 } else { rounded }) as u16
}
