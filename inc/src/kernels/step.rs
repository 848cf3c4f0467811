//! One step of a fold, for one pair of numbers. Written without branches, so that compilers make vectors of it.

/// `acc op x`. An overflow sets the top bit of `overflow`, which is otherwise left alone.
pub trait Step<W> {
    fn step(acc: W, x: W, overflow: &mut W) -> W;
}

pub struct Sum;
pub struct Min;
pub struct Max;
pub struct Prod;
pub struct And;
pub struct Or;
pub struct Xor;

macro_rules! step {
    ($operator:ty, $wide:ty, |$acc:ident, $x:ident, $overflow:pat_param| $body:expr) => {
        impl Step<$wide> for $operator {
            #[inline(always)]
            fn step($acc: $wide, $x: $wide, $overflow: &mut $wide) -> $wide {
                $body
            }
        }
    };
}

macro_rules! integer {
    ($wide:ty, |$acc:ident, $x:ident, $sum:ident| $carry:expr) => {
        step!(Sum, $wide, |$acc, $x, overflow| {
            let $sum = $acc.wrapping_add($x);
            *overflow |= $carry;
            $sum
        });
        step!(Prod, $wide, |acc, x, overflow| {
            let (product, over) = acc.overflowing_mul(x);
            *overflow |= (over as $wide) << (<$wide>::BITS - 1);
            product
        });
        step!(Min, $wide, |acc, x, _| acc.min(x));
        step!(Max, $wide, |acc, x, _| acc.max(x));
        step!(And, $wide, |acc, x, _| acc & x);
        step!(Or, $wide, |acc, x, _| acc | x);
        step!(Xor, $wide, |acc, x, _| acc ^ x);
    };
}

// The carry out of the top bit; of signed numbers, a sign that differs from those of both terms.
integer!(u32, |acc, x, sum| (acc & x) | ((acc | x) & !sum));
integer!(i32, |acc, x, sum| (acc ^ sum) & (x ^ sum));
integer!(i64, |acc, x, sum| (acc ^ sum) & (x ^ sum));

macro_rules! float {
    ($wide:ty) => {
        step!(Sum, $wide, |acc, x, _| acc + x);
        step!(Prod, $wide, |acc, x, _| acc * x);
        // Equal numbers have equal bits, but for zeros: one minus sign makes the least negative, two the greatest.
        step!(Min, $wide, |acc, x, _| {
            let equal = <$wide>::from_bits(acc.to_bits() | x.to_bits());
            let less = if acc < x { acc } else { x };
            let least = if acc == x { equal } else { less };
            if acc.is_nan() | x.is_nan() { <$wide>::NAN } else { least }
        });
        step!(Max, $wide, |acc, x, _| {
            let equal = <$wide>::from_bits(acc.to_bits() & x.to_bits());
            let more = if acc > x { acc } else { x };
            let greatest = if acc == x { equal } else { more };
            if acc.is_nan() | x.is_nan() { <$wide>::NAN } else { greatest }
        });
    };
}

float!(f32);
float!(f64);
