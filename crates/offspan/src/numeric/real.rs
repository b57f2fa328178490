//! The two element types of the arithmetic: `f32` for speed, `f64` for reference.

use std::fmt::{Debug, Display};
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

use ndarray::ArrayViewMut2;
use serde::{Deserialize, Serialize};

use crate::error::names::names;

/// The precision of rows, maps and projections. Moments, eigenproblems and all that is derived
/// from them are `f64` in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// Single precision: fast, scores within 1e-4 of `f64`.
    #[default]
    F32,
    /// Double precision: about half the speed and twice the file; agrees with a plain `f64`
    /// computation to 1e-6 and better.
    F64,
}

names!(Precision { F32 "f32", F64 "f64", });

/// `f32` or `f64`; sealed, because files and kernels know just these two.
pub trait Real:
    Copy
    + Debug
    + Display
    + Default
    + PartialOrd
    + Send
    + Sync
    + bytemuck::Pod
    + realfft::FftNum
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + ndarray::ScalarOperand
    + sealed::Sealed
{
    /// This type as a [`Precision`].
    const PRECISION: Precision;
    /// Rounds a double.
    fn from_double(value: f64) -> Self;
    /// Widens to a double.
    fn to_double(self) -> f64;
    /// `self` is neither NaN nor infinite.
    fn is_finite_number(self) -> bool;
    /// Absolute value.
    fn magnitude(self) -> Self;
    /// Integer power.
    fn power(self, exponent: i32) -> Self;
    /// self·factor + sum, rounded once.
    fn fused(self, factor: Self, sum: Self) -> Self;
    /// cos(x) for |x| ≤ 1e5.
    fn cosine(self) -> Self;
    /// exp(x) − 1 for x ≤ 0.
    fn exp_minus_one(self) -> Self;
    /// exp(x) for x ≤ 0.
    fn exponential(self) -> Self;
    /// In-place Walsh–Hadamard transform without scaling; the length is a power of two.
    fn walsh_hadamard(x: &mut [Self]);
    /// The numbers as little-endian bytes.
    fn little_endian(values: &[Self]) -> Vec<u8>;
    /// The same rows, with the type that they have.
    fn typed(rows: ArrayViewMut2<'_, Self>) -> Typed<'_>;
}

/// Rows of one of the two types.
#[derive(Debug)]
pub enum Typed<'a> {
    /// In single precision.
    F32(ArrayViewMut2<'a, f32>),
    /// In double precision.
    F64(ArrayViewMut2<'a, f64>),
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

macro_rules! real {
    ($type:ident, $variant:ident, $math:ident, $hadamard:ident) => {
        impl Real for $type {
            const PRECISION: Precision = Precision::$variant;

            #[inline]
            fn from_double(value: f64) -> Self {
                value as $type
            }

            #[inline]
            fn to_double(self) -> f64 {
                f64::from(self)
            }

            #[inline]
            fn is_finite_number(self) -> bool {
                self.is_finite()
            }

            #[inline]
            fn magnitude(self) -> Self {
                self.abs()
            }

            #[inline]
            fn power(self, exponent: i32) -> Self {
                self.powi(exponent)
            }

            #[inline(always)]
            fn fused(self, factor: Self, sum: Self) -> Self {
                self.mul_add(factor, sum)
            }

            #[inline(always)]
            fn cosine(self) -> Self {
                crate::numeric::math::$math::cosine(self)
            }

            #[inline(always)]
            fn exp_minus_one(self) -> Self {
                crate::numeric::math::$math::exp_minus_one(self)
            }

            #[inline(always)]
            fn exponential(self) -> Self {
                crate::numeric::math::$math::exponential(self)
            }

            fn walsh_hadamard(x: &mut [Self]) {
                crate::numeric::hadamard::$hadamard(x);
            }

            fn little_endian(values: &[Self]) -> Vec<u8> {
                values.iter().flat_map(|value| value.to_le_bytes()).collect()
            }

            fn typed(rows: ArrayViewMut2<'_, Self>) -> Typed<'_> {
                Typed::$variant(rows)
            }
        }
    };
}

real!(f32, F32, single, single_transform);
real!(f64, F64, double, transform);
