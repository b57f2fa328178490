//! cos, exp − 1 and exp over whole slices, vectorised for the instructions found at run time.
//!
//! Both are computed from exact range reductions and Taylor polynomials in the type's own precision,
//! with operations that every instruction set rounds alike, so that all give the same bits.

use crate::Real;
use crate::numeric::vector::{LANES, dispatch};

/// Beyond this the reduction by multiples of π would lose digits.
const LARGEST_ANGLE: f64 = 1e5;

/// x ← amplitude · cos(factor·x + phase). The cosine is within 2 ulp of 1 (`f64`) or 1.5 ulp of 1
/// (`f32`); the angle has the rounding of its type.
pub(crate) fn scaled_cosines<T: Real>(x: &mut [T], factor: T, phases: &[T], amplitude: T) {
    let largest = dispatch(
        #[inline(always)]
        || {
            // One maximum per lane: a single one would make each angle wait for the one before.
            let mut largest = [T::default(); LANES];
            for (x, phases) in x.chunks_mut(LANES).zip(phases.chunks(LANES)) {
                for ((x, &phase), largest) in x.iter_mut().zip(phases).zip(&mut largest) {
                    *x = factor * *x + phase;
                    let size = x.magnitude();
                    *largest = if size > *largest { size } else { *largest };
                }
            }
            largest
        },
    );
    let small = largest.iter().all(|size| size.to_double() <= LARGEST_ANGLE);
    if !small {
        x.iter_mut().for_each(|x| *x = amplitude * T::from_double(x.to_double().cos()));
        return;
    }
    dispatch(
        #[inline(always)]
        || {
            for x in x.iter_mut() {
                *x = amplitude * x.cosine();
            }
        },
    );
}

/// x ← exp(x) − 1 for x ≤ 0, with a relative error below 1e-15 (`f64`) or 1e-7 (`f32`).
pub(crate) fn exp_minus_one<T: Real>(x: &mut [T]) {
    dispatch(
        #[inline(always)]
        || {
            for x in x.iter_mut() {
                *x = x.exp_minus_one();
            }
        },
    );
}

/// The formulas in double precision.
pub(crate) mod double {
    use std::f64::consts::{FRAC_1_PI, LN_2, LOG2_E, PI};

    /// Adding this to |t| < 2^51 leaves the integer nearest to t in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 · 2^52

    /// The first 26 bits of π and of ln 2, so that products with small integers are exact, and the
    /// rest with what their `f64` values lack.
    const PI_HIGH: f64 = f64::from_bits(PI.to_bits() & !0x7ff_ffff);
    const PI_LOW: f64 = (PI - PI_HIGH) + 1.224_646_799_147_353_2e-16;
    const LN_2_HIGH: f64 = f64::from_bits(LN_2.to_bits() & !0x7ff_ffff);
    const LN_2_LOW: f64 = (LN_2 - LN_2_HIGH) + 2.319_046_813_846_299_6e-17;

    /// cos(x) = ±cos(r), r = x − nπ in [−π/2, π/2].
    #[inline(always)]
    pub(crate) fn cosine(x: f64) -> f64 {
        let rounded = x * FRAC_1_PI + ROUND;
        let n = rounded - ROUND;
        let r = (x - n * PI_HIGH) - n * PI_LOW;
        let r2 = r * r;
        // The first term left out is below 3e-18.
        let mut sum = COSINE[0];
        for &coefficient in &COSINE[1..] {
            sum = sum * r2 + coefficient;
        }
        // An odd n flips the sign.
        f64::from_bits(sum.to_bits() ^ (rounded.to_bits() << 63))
    }

    /// exp(x) − 1 = 2^k·(exp(r) − 1) + (2^k − 1), |r| ≤ ln(2)/2: for small x, k = 0 and no digit is
    /// lost.
    #[inline(always)]
    pub(crate) fn exp_minus_one(x: f64) -> f64 {
        let (power, small) = exponential_parts(x);
        power * small + (power - 1.0)
    }

    /// exp(x) for x ≤ 0; 0 becomes a number below 1e-300.
    #[inline(always)]
    pub(crate) fn exponential(x: f64) -> f64 {
        let (power, small) = exponential_parts(x);
        power * small + power
    }

    /// 2^k and exp(r) − 1.
    #[inline(always)]
    fn exponential_parts(x: f64) -> (f64, f64) {
        // Below, the power would leave the normal numbers; what is no number counts as far below.
        let x = if x > -700.0 { x } else { -700.0 };
        let rounded = x * LOG2_E + ROUND;
        let k = rounded - ROUND;
        let r = (x - k * LN_2_HIGH) - k * LN_2_LOW;
        // The first term left out is below 1e-17.
        let mut sum = EXPONENTIAL[0];
        for &coefficient in &EXPONENTIAL[1..] {
            sum = sum * r + coefficient;
        }
        let exponent = rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(1023);
        (f64::from_bits(exponent << 52), sum * r)
    }

    const COSINE: [f64; 12] = super::cosine_series();
    const EXPONENTIAL: [f64; 13] = super::exponential_series();
}

/// The formulas in single precision. Every step is a fused multiply-add, which all instruction sets
/// round alike; the products with the parts of π and ln 2 are exact in it.
pub(crate) mod single {
    use std::f32::consts::{FRAC_1_PI, LN_2, LOG2_E, PI};

    /// Adding this to |t| < 2^22 leaves the integer nearest to t in the low bits.
    const ROUND: f32 = 12_582_912.0; // 1.5 · 2^23

    const PI_LOW: f32 = (std::f64::consts::PI - PI as f64) as f32;
    const LN_2_LOW: f32 = (std::f64::consts::LN_2 - LN_2 as f64) as f32;

    /// As [`super::double::cosine`].
    #[inline(always)]
    pub(crate) fn cosine(x: f32) -> f32 {
        let rounded = x.mul_add(FRAC_1_PI, ROUND);
        let n = rounded - ROUND;
        let r = (-n).mul_add(PI_LOW, (-n).mul_add(PI, x));
        let r2 = r * r;
        // The first term left out is below 7e-9.
        let mut sum = COSINE[0];
        for &coefficient in &COSINE[1..] {
            sum = sum.mul_add(r2, coefficient);
        }
        f32::from_bits(sum.to_bits() ^ (rounded.to_bits() << 31))
    }

    /// As [`super::double::exp_minus_one`].
    #[inline(always)]
    pub(crate) fn exp_minus_one(x: f32) -> f32 {
        let (power, small) = exponential_parts(x);
        power.mul_add(small, power - 1.0)
    }

    /// As [`super::double::exponential`]; 0 becomes a number below 1e-37.
    #[inline(always)]
    pub(crate) fn exponential(x: f32) -> f32 {
        let (power, small) = exponential_parts(x);
        power.mul_add(small, power)
    }

    #[inline(always)]
    fn exponential_parts(x: f32) -> (f32, f32) {
        let x = if x > -87.0 { x } else { -87.0 };
        let rounded = x.mul_add(LOG2_E, ROUND);
        let k = rounded - ROUND;
        let r = (-k).mul_add(LN_2_LOW, (-k).mul_add(LN_2, x));
        // The first term left out is below 3e-8 of r·r/2.
        let mut sum = EXPONENTIAL[0];
        for &coefficient in &EXPONENTIAL[1..EXPONENTIAL.len() - 1] {
            sum = sum.mul_add(r, coefficient);
        }
        // The term of first order is added last and keeps its digits.
        let small = (r * r).mul_add(sum, r);
        let exponent = rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127);
        (f32::from_bits(exponent << 23), small)
    }

    const COSINE: [f32; 7] = rounded(super::cosine_series());
    const EXPONENTIAL: [f32; 8] = rounded(super::exponential_series());

    const fn rounded<const TERMS: usize>(series: [f64; TERMS]) -> [f32; TERMS] {
        let mut coefficients = [0.0; TERMS];
        let mut k = 0;
        while k < TERMS {
            coefficients[k] = series[k] as f32;
            k += 1;
        }
        coefficients
    }
}

/// (−1)^k/(2k)! from the last term down to k = 0.
const fn cosine_series<const TERMS: usize>() -> [f64; TERMS] {
    let mut coefficients = [0.0; TERMS];
    let (mut k, mut value) = (0, 1.0);
    while k < TERMS {
        coefficients[TERMS - 1 - k] = value;
        k += 1;
        value = -value / ((2 * k) as f64 * (2 * k - 1) as f64);
    }
    coefficients
}

/// 1/k! from the last term down to k = 1.
const fn exponential_series<const TERMS: usize>() -> [f64; TERMS] {
    let mut coefficients = [0.0; TERMS];
    let (mut k, mut value) = (1, 1.0);
    while k <= TERMS {
        coefficients[TERMS - k] = value;
        k += 1;
        value /= k as f64;
    }
    coefficients
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;

    /// Numbers of many sizes, both signs, dense near multiples of π/2.
    fn angles() -> Vec<f64> {
        let mut angles = vec![0.0, -0.0, 1e-300, 1e-8];
        for i in 0..20_000 {
            let i = f64::from(i);
            angles.push(i * 0.37 - 3000.0);
            angles.push((i - 10_000.0) * PI / 2.0 + (i % 7.0 - 3.0) * 1e-9);
            angles.push(10f64.powf(i / 20_000.0 * 5.0));
        }
        angles
    }

    #[test]
    fn cosine_is_accurate_over_the_whole_range() {
        let mut got = angles();
        let zeros = vec![0.0; got.len()];
        scaled_cosines(&mut got, 1.0, &zeros, 1.0);
        for (x, got) in angles().into_iter().zip(got) {
            assert!((got - x.cos()).abs() <= 4.5e-16, "{x}: {got} {}", x.cos());
        }
    }

    #[test]
    fn single_precision_cosine_is_accurate_over_the_whole_range() {
        for x in angles() {
            let mut got = [x as f32];
            scaled_cosines(&mut got, 1.0, &[0.0], 1.0);
            let exact = f64::from(x as f32).cos();
            assert!((f64::from(got[0]) - exact).abs() <= 1.8e-7, "{x}: {} {exact}", got[0]);
        }
    }

    #[test]
    fn huge_angles_fall_back_to_the_exact_reduction() {
        let mut x = [1e15, 2.0];
        scaled_cosines(&mut x, 1.0, &[0.0, 0.0], 2.0);
        assert_eq!(x, [2.0 * 1e15f64.cos(), 2.0 * 2f64.cos()]);
    }

    #[test]
    fn factor_phases_and_amplitude_are_applied() {
        let mut x = [0.1, 0.2, 0.3];
        scaled_cosines(&mut x, 2.0, &[1.0, 2.0, 3.0], 0.5);
        assert!((x[2] - 0.5 * 3.6f64.cos()).abs() < 1e-15);
    }

    #[test]
    fn exp_minus_one_is_accurate_from_tiny_to_minus_infinity() {
        let mut values = vec![0.0, -1e-300, -1e-20, -39.99, -40.0, -100.0, -1e300];
        values.extend((0..40_000).map(|i| -10f64.powf(f64::from(i) / 40_000.0 * 18.0 - 16.0)));
        let mut got = values.clone();
        exp_minus_one(&mut got);
        for (x, got) in values.iter().zip(&got) {
            let exact = x.exp_m1();
            assert!((got - exact).abs() <= 1e-15 * exact.abs(), "{x}: {got} {exact}");
        }
        for x in values {
            let mut got = [x as f32];
            exp_minus_one(&mut got);
            let exact = f64::from(x as f32).exp_m1();
            assert!((f64::from(got[0]) - exact).abs() <= 1e-7 * exact.abs() + 1e-45, "{x}");
        }
    }

    #[test]
    fn exponentials_are_accurate_down_to_the_smallest() {
        for i in 0..40_000 {
            let x = -f64::from(i) / 40_000.0 * 86.0;
            let error = (double::exponential(x) / x.exp() - 1.0).abs();
            assert!(error < 1e-15, "{x}: {error}");
            let x = x as f32;
            let exact = f64::from(x).exp();
            let error = (f64::from(single::exponential(x)) / exact - 1.0).abs();
            assert!(error < 2e-7, "{x}: {error}");
        }
        assert!(double::exponential(f64::NEG_INFINITY) < 1e-300);
        assert!(single::exponential(f32::NEG_INFINITY) < 1e-37);
        assert_eq!((double::exponential(0.0), single::exponential(0.0)), (1.0, 1.0));
    }
}
