//! The normal distribution: tail and quantile, as far as intervals and tests need them.

use std::f64::consts::TAU;

/// Where the series gives way to the continued fraction: each is accurate to a few ulps of the
/// tail on its side, and both converge in the fixed number of terms below.
const SERIES_END: f64 = 2.0;

/// Terms that bring either expansion to full double precision for every argument it is used for.
const TERMS: u32 = 100;

/// The chance that a standard normal exceeds `x`, for `x >= 0`.
///
/// Up to 2 by `1/2 - φ(x) Σ_k x^(2k+1) / (1·3·5⋯(2k+1))`; beyond, where that difference would lose
/// its digits, by Laplace's continued fraction `φ(x) / (x + 1/(x + 2/(x + 3/(x + ⋯))))`.
pub(super) fn upper_tail(x: f64) -> f64 {
    let density = (-x * x / 2.0).exp() / TAU.sqrt();
    if x < SERIES_END {
        let (mut term, mut sum) = (x, x);
        for k in 1..TERMS {
            term *= x * x / f64::from(2 * k + 1);
            sum += term;
        }
        0.5 - density * sum
    } else {
        let fraction = (1..TERMS).rev().fold(x, |inner, k| x + f64::from(k) / inner);
        density / fraction
    }
}

/// How many standard errors an interval of the given level reaches to each side: 1.96 for 0.95.
///
/// The `z` with `upper_tail(z) = (1 - level) / 2`, for `level` in `(0, 1)`.
pub(super) fn two_sided_z(level: f64) -> f64 {
    let tail = (1.0 - level) / 2.0;
    // The largest level under 1 is 2^-53 short of it, which is z = 8.3. Plain bisection: it runs
    // once per interval, and it cannot miss.
    let (mut low, mut high) = (0.0_f64, 10.0_f64);
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if upper_tail(middle) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `∫_x^∞ φ` by Simpson's rule, which knows nothing of either expansion.
    fn tail_by_quadrature(x: f64) -> f64 {
        let steps = 20_000_u32;
        let h = 12.0 / f64::from(steps);
        let density = |t: f64| (-t * t / 2.0).exp() / TAU.sqrt();
        let weighted = |i: u32| {
            let weight = if i == 0 || i == steps { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
            weight * density(x + h * f64::from(i))
        };
        (0..=steps).map(weighted).sum::<f64>() * h / 3.0
    }

    #[test]
    fn the_tail_equals_the_integral_on_both_sides_of_the_switch() {
        for x in [0.0, 0.3, 1.0, 1.5, 1.999_999, 2.0, 2.5, 4.0, 5.5, 9.0] {
            let (got, expected) = (upper_tail(x), tail_by_quadrature(x));
            assert!((got / expected - 1.0).abs() < 1e-11, "x = {x}: {got} against {expected}");
        }
    }

    #[test]
    fn the_far_tail_fades_to_zero_without_noise() {
        assert!(upper_tail(30.0) > 0.0 && upper_tail(30.0) < 1e-190);
        assert_eq!(upper_tail(f64::MAX), 0.0);
        assert_eq!(upper_tail(0.0), 0.5);
    }

    #[test]
    fn known_quantiles() {
        assert!((two_sided_z(0.95) - 1.959_963_984_540_054).abs() < 1e-12);
        assert!((two_sided_z(0.99) - 2.575_829_303_548_901).abs() < 1e-12);
        assert!((two_sided_z(0.5) - 0.674_489_750_196_081_7).abs() < 1e-12);
    }

    #[test]
    fn the_quantile_undoes_the_tail_up_to_the_last_level_under_one() {
        for level in [1e-9, 0.1, 0.9, 0.999_999, 1.0 - f64::EPSILON / 2.0] {
            let tail = (1.0 - level) / 2.0;
            assert!((upper_tail(two_sided_z(level)) / tail - 1.0).abs() < 1e-9, "level {level}");
        }
    }
}
