//! The incomplete beta function: the law of order statistics, and with it the binomial's tails.
//!
//! The textbook form subtracts log-gammas of the size of `a ln a`, which leaves nine digits at
//! `a = 10^6`. Here the large parts are cancelled on paper: what remains is Stirling's error term
//! and the deviance (Loader, "Fast and Accurate Computation of Binomial Probabilities", 2000).

use std::f64::consts::TAU;

/// Where Stirling's series is taken: its first omitted term is below 1e-17 from here on.
const SERIES_START: f64 = 16.0;

/// The continued fraction needs about the square root of the larger argument.
const MOST_TERMS: u32 = 1_000_000;

/// `(I_x(a, b), 1 - I_x(a, b))` for `a, b >= 1`. Both, because the small one of the two would not
/// survive a subtraction from 1.
pub(super) fn tails(a: f64, b: f64, x: f64) -> (f64, f64) {
    if x <= 0.0 {
        return (0.0, 1.0);
    }
    if x >= 1.0 {
        return (1.0, 0.0);
    }
    // x^a (1-x)^b / B(a, b)
    let front = a * b / (a + b) * ln_binomial(a, a + b, x).exp();
    let excess = (-(a + b)).mul_add(x, a);
    // The fraction converges fast on the near side of the mean only.
    if excess >= 0.0 {
        let lower = front / fraction(a, b, x, excess);
        (lower, 1.0 - lower)
    } else {
        let upper = front / fraction(b, a, 1.0 - x, -excess);
        (1.0 - upper, upper)
    }
}

/// The `x` with `I_x(a, b) = p`.
///
/// Plain bisection until no number lies between the ends: it runs once per interval, and it cannot
/// miss.
pub(super) fn quantile(a: f64, b: f64, p: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return middle;
        }
        if tails(a, b, middle).0 < p {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// The chance that at most `k` of `n` trials succeed, each with chance `p`; for `k < n`.
pub(super) fn binomial_at_most(n: usize, k: usize, p: f64) -> f64 {
    tails(k as f64 + 1.0, (n - k) as f64, p).1
}

/// The logarithm of `Γ(n+1) / (Γ(k+1) Γ(n-k+1)) p^k (1-p)^(n-k)`, for `0 <= k <= n`.
pub(super) fn ln_binomial(k: f64, n: f64, p: f64) -> f64 {
    let rest = n - k;
    if k == 0.0 {
        return n * (-p).ln_1p();
    }
    if rest == 0.0 {
        return n * p.ln();
    }
    // With one rounding: the deviances magnify an error of `n p` by the distance from the mean.
    let excess = (-n).mul_add(p, k);
    let stirling = stirling_error(n) - stirling_error(k) - stirling_error(rest);
    let deviances = deviance(k, n * p, excess) + deviance(rest, n * (1.0 - p), -excess);
    stirling - deviances - 0.5 * (TAU * k * (rest / n)).ln()
}

/// `k ln(k / mean) + mean - k`, where `excess` is `k - mean`.
fn deviance(k: f64, mean: f64, excess: f64) -> f64 {
    let ratio = -excess / (k + mean);
    if ratio.abs() > 0.5 {
        return k * (k / mean).ln() - excess;
    }
    // ln(mean / k) = 2 (r + r³/3 + r⁵/5 + ⋯) with r = (mean - k) / (mean + k). The first term and
    // `excess` together make `-excess r`.
    let square = ratio * ratio;
    let series = (1..28_u32).rev().fold(0.0, |sum, i| square * (sum + 1.0 / f64::from(2 * i + 1)));
    -excess * ratio - 2.0 * k * ratio * series
}

/// What Stirling's formula leaves of log-gamma: `ln Γ(z+1) - (z + 1/2) ln z + z - ln(2π)/2`.
fn stirling_error(z: f64) -> f64 {
    let (mut z, mut below) = (z, 0.0);
    while z < SERIES_START {
        below += (z + 0.5) * z.recip().ln_1p() - 1.0;
        z += 1.0;
    }
    let square = z * z;
    let inner = 1.0 / 1188.0 - 691.0 / 360_360.0 / square;
    let inner = 1.0 / 1260.0 - (1.0 / 1680.0 - inner / square) / square;
    below + (1.0 / 12.0 - (1.0 / 360.0 - inner / square) / square) / z
}

/// The continued fraction of ACM's Algorithm 708 (Didonato and Morris, 1992). Below the mean
/// `a / (a + b)` its leading terms are positive, so that nothing cancels. `excess` is `a - (a+b) x`.
fn fraction(a: f64, b: f64, x: f64, excess: f64) -> f64 {
    let mut value = a * (excess + 1.0) / (a + 1.0);
    // Lentz's method: ratios of successive numerators and of successive denominators.
    let (mut numerator, mut denominator) = (value, 0.0);
    for term in 1..MOST_TERMS {
        let i = f64::from(term);
        let odd = a + 2.0 * i - 1.0;
        let step = i * (b - i) * x / odd;
        let above = (a + i - 1.0) * (a + b + i - 1.0) * x / odd * step;
        let below = i + step + (a + i) * (excess + 1.0 + i * (2.0 - x)) / (odd + 2.0);
        denominator = 1.0 / (below + above * denominator);
        numerator = below + above / numerator;
        let change = numerator * denominator;
        value *= change;
        if (change - 1.0).abs() <= f64::EPSILON {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_close(got: f64, expected: f64, tolerance: f64) {
        assert!((got / expected - 1.0).abs() < tolerance, "{got:e} against {expected:e}");
    }

    /// `P(Bin(n, 1/4) <= k)` in whole numbers: `Σ C(n, j) 3^(n-j)` of `4^n`.
    fn at_most_of_quarters(n: u32, k: u32) -> f64 {
        let mut choose = 1_u128;
        let mut sum = 0_u128;
        for j in 0..=k {
            sum += choose * 3_u128.pow(n - j);
            choose = choose * u128::from(n - j) / u128::from(j + 1);
        }
        sum as f64 / 4_f64.powi(n as i32)
    }

    #[test]
    fn equals_binomial_sums_in_whole_numbers() {
        for n in [1, 2, 3, 7, 20, 60] {
            for k in 0..n {
                let got = binomial_at_most(n as usize, k as usize, 0.25);
                assert_close(got, at_most_of_quarters(n, k), 1e-13);
            }
        }
    }

    #[test]
    fn small_cases_are_polynomials() {
        for x in [1e-30, 1e-9, 0.1, 0.5, 0.9, 1.0 - 1e-12] {
            assert_close(tails(1.0, 1.0, x).0, x, 1e-13);
            assert_close(tails(2.0, 1.0, x).0, x * x, 1e-13);
            assert_close(tails(1.0, 3.0, x).1, (1.0 - x).powi(3), 1e-13);
            // a = 3/2, b = 1: x^a, with a gamma function of halves on the way.
            assert_close(tails(1.5, 1.0, x).0, x * x.sqrt(), 1e-13);
        }
        assert_eq!(tails(3.0, 4.0, 0.0), (0.0, 1.0));
        assert_eq!(tails(3.0, 4.0, 1.0), (1.0, 0.0));
    }

    /// The smaller tail, by sums of binomial terms in 50 digits; `scipy.special.betainc` and
    /// `betaincc` agree to 2e-12.
    const KNOWN_TAILS: [(f64, f64, f64, f64); 13] = [
        (50.0, 951.0, 0.05, 4.797_410_570_873_204_5e-1),
        (36.0, 965.0, 0.05, 1.421_995_791_160_688_6e-2),
        (1e6, 1e6, 0.5, 0.5),
        (1e6, 1e6, 0.4995, 7.864_957_758_090_163e-2),
        (1e6, 1e6, 0.49, 2.490_453_657_610_394_3e-176),
        (5e4, 950_001.0, 0.0495, 1.072_868_244_495_375_8e-2),
        (5e4, 950_001.0, 0.0505, 1.105_245_269_580_541_4e-2),
        (1e6, 1.0, 0.999_999, 3.678_792_572_210_664_6e-1),
        (500.0, 1e6, 0.0004, 8.495_987_597_648_68e-7),
        (5.0, 1e6, 1e-7, 7.667_878_974_659_957e-8),
        (1e6, 5.0, 0.999_999_9, 7.667_878_954_815_323e-8),
        (12_345.0, 54_321.0, 0.19, 7.190_430_405_399_444e-4),
        (12_345.0, 54_321.0, 0.17, 3.131_369_649_979_782e-25),
    ];

    #[test]
    fn known_tails_up_to_a_million_rows() {
        for (a, b, x, expected) in KNOWN_TAILS {
            let (lower, upper) = tails(a, b, x);
            assert_close(lower.min(upper), expected, 1e-13);
            assert!((lower + upper - 1.0).abs() < 1e-15, "{a}, {b}, {x}");
        }
    }

    #[test]
    fn known_quantiles() {
        // scipy.special.betaincinv
        for (a, b, p, expected) in [
            (950.0, 51.0, 0.025, 0.934_609_512_084_506_4),
            (51.0, 950.0, 0.025, 0.038_205_236_774_686_16),
            (1.0, 59.0, 0.05, 0.000_869_000_071_525_587_1),
            (1e6, 20.0, 0.005, 0.999_966_617_893_412_3),
            (5e5, 500_001.0, 0.975, 0.500_979_480_807_582_5),
            (3.0, 1e6, 1e-10, 8.436_097_185_194_516e-10),
        ] {
            assert_close(quantile(a, b, p), expected, 1e-13);
        }
    }

    #[test]
    fn the_quantile_undoes_the_lower_tail() {
        for (a, b) in [(1.0, 1.0), (2.0, 500.0), (36.0, 965.0), (1e5, 7.0)] {
            for p in [1e-12, 1e-3, 0.5, 0.975] {
                assert_close(tails(a, b, quantile(a, b, p)).0, p, 1e-9);
            }
        }
    }
}
