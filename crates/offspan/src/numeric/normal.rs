//! The normal distribution: tail, quantile and logarithm, as far as intervals, tests and `auto` need them.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// The chance that a standard normal exceeds `x`.
pub(crate) fn upper_tail(x: f64) -> f64 {
    0.5 * libm::erfc(x * FRAC_1_SQRT_2)
}

/// ln Φ(x), to full precision at both ends.
pub(crate) fn log_cdf(x: f64) -> f64 {
    if x > 0.0 {
        libm::log1p(-upper_tail(x))
    } else if x > -20.0 {
        libm::log(upper_tail(-x))
    } else {
        // Φ(x) = φ(x)/|x| · (1 − 1/x² + 3/x⁴ − 15/x⁶ + …), below 1e-13 of itself after five terms.
        let y = 1.0 / (x * x);
        let series = -y * (1.0 - 3.0 * y * (1.0 - 5.0 * y * (1.0 - 7.0 * y)));
        -0.5 * x * x - libm::log(-x) - 0.5 * libm::log(2.0 * PI) + libm::log1p(series)
    }
}

/// How many standard errors an interval of the given level reaches to each side: 1.96 for 0.95.
///
/// The `z` with `upper_tail(z) = (1 - level) / 2`, for `level` in `(0, 1)`.
pub(crate) fn two_sided_z(level: f64) -> f64 {
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
    use std::f64::consts::TAU;

    use super::*;

    /// `∫_x^∞ φ` by Simpson's rule.
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
    fn the_tail_equals_the_integral() {
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

    #[test]
    fn the_log_of_the_normal_distribution_is_exact_at_both_ends() {
        // scipy.special.log_ndtr
        for (x, expected) in [
            (-100.0, -5_005.524_208_694_205),
            (-20.000_001, -203.917_175_420_850_87),
            (-19.999_999, -203.917_135_321_344_7),
            (-5.0, -15.064_998_393_988_726),
            (0.0, -std::f64::consts::LN_2),
            (5.0, -2.866_516_129_637_636e-7),
            (10.0, -7.619_853_024_160_527e-24),
        ] {
            let got = log_cdf(x);
            assert!((got / expected - 1.0).abs() < 1e-10, "{x}: {got} {expected}");
        }
    }
}
