//! Sums over slices, compiled for several instruction sets and chosen at run time.
//!
//! The number of lanes is fixed, and with it the order of additions: the result does not depend on
//! the instruction set.

use std::array::from_fn;
use std::ops::{Add, Div, Mul, Sub};

/// Numbers that the loops take at once.
const LANES: usize = 4;

/// Runs a closure compiled for the best instructions that this processor has.
#[inline]
pub(super) fn dispatch<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

/// Several numbers under one operation. Spelled out like this, because the compiler finds no
/// vectors in loops with more than a few sums.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lanes([f64; LANES]);

impl Lanes {
    #[inline(always)]
    pub(super) fn splat(value: f64) -> Self {
        Lanes([value; LANES])
    }

    #[inline(always)]
    pub(super) fn sqrt(self) -> Self {
        Lanes(self.0.map(f64::sqrt))
    }
}

macro_rules! lanewise {
    ($($operator:ident $method:ident),*) => {$(
        impl $operator for Lanes {
            type Output = Lanes;

            #[inline(always)]
            fn $method(self, other: Lanes) -> Lanes {
                Lanes(from_fn(|lane| self.0[lane].$method(other.0[lane])))
            }
        }
    )*};
}
lanewise!(Add add, Sub sub, Mul mul, Div div);

/// K sums at once over the elements of three slices of one length. For use within [`dispatch`].
#[inline(always)]
pub(super) fn sums<const K: usize>(
    [a, b, c]: [&[f64]; 3],
    term: impl Fn(Lanes, Lanes, Lanes) -> [Lanes; K],
) -> [f64; K] {
    let mut sums = [Lanes::splat(0.0); K];
    let (a_blocks, a_rest) = a.as_chunks::<LANES>();
    let (b_blocks, b_rest) = b.as_chunks::<LANES>();
    let (c_blocks, c_rest) = c.as_chunks::<LANES>();
    for ((&a, &b), &c) in a_blocks.iter().zip(b_blocks).zip(c_blocks) {
        let terms = term(Lanes(a), Lanes(b), Lanes(c));
        sums = from_fn(|k| sums[k] + terms[k]);
    }
    let mut sums = totals(&sums);
    for ((&a, &b), &c) in a_rest.iter().zip(b_rest).zip(c_rest) {
        let terms = term(Lanes::splat(a), Lanes::splat(b), Lanes::splat(c));
        sums = from_fn(|k| sums[k] + terms[k].0[0]);
    }
    sums
}

/// The sums over lanes. Out of line: seen together with the loop, these few additions mislead the
/// compiler to put the K sums side by side in its vectors, instead of the lanes.
#[inline(never)]
fn totals<const K: usize>(sums: &[Lanes; K]) -> [f64; K] {
    from_fn(|k| sums[k].0.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_equal_the_definition_for_every_remainder() {
        for n in 0..40 {
            let a: Vec<f64> = (0..n).map(f64::from).collect();
            let b: Vec<f64> = (0..n).map(|i| f64::from(i) * 0.5 - 3.0).collect();
            let c: Vec<f64> = (0..n).map(|i| 2.0 - f64::from(i)).collect();
            let got = sums([&a, &b, &c], |a, b, c| [a * b, c]);
            let product: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            assert_eq!(got, [product, c.iter().sum()]);
        }
    }

    #[test]
    fn operations_act_on_each_lane() {
        let (a, b) = (Lanes(from_fn(|k| k as f64 + 1.0)), Lanes(from_fn(|k| 4.0 * k as f64 + 4.0)));
        let check = |got: Lanes, want: fn(f64) -> f64| {
            assert_eq!(got.0, from_fn::<f64, LANES, _>(|k| want(k as f64 + 1.0)));
        };
        check(a + b, |k| 5.0 * k);
        check(b - a, |k| 3.0 * k);
        check(a * b, |k| 4.0 * k * k);
        check(b / a, |_| 4.0);
        check((a * b).sqrt(), |k| 2.0 * k);
    }
}
