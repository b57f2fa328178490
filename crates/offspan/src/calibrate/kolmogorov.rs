//! The two-sample Kolmogorov–Smirnov test: the largest distance between two distribution functions.

/// Up to so many pairs of rows the chance is exact, in about a second at worst.
const MOST_PAIRS: u128 = 200_000_000;

/// Terms that bring the limiting series to full precision for every argument it is used for.
const TERMS: u32 = 100;

/// Below this argument the limiting law is 1 to the last bit but two, and its series slow.
const SERIES_START: f64 = 0.2;

/// The distance and its p-value: how likely two samples of these sizes from one distribution are
/// at least that far apart. Both samples in ascending order and not empty.
///
/// Exact for scores without ties; ties make the p-value larger than it need be. For more than
/// 2·10⁸ pairs of rows it is the limit for large samples. Below 0.1 that is too large as well, by
/// a few percent if both samples have thousands of rows, by more if one is small.
pub(super) fn two_sample(first: &[f64], second: &[f64]) -> (f64, f64) {
    let (n, m) = (first.len(), second.len());
    let pairs = n as u128 * m as u128;
    let gap = largest_gap(first, second);
    let distance = gap as f64 / pairs as f64;
    let p_value = if pairs <= MOST_PAIRS {
        // Both fit: the gap is at most the number of pairs.
        chance_exact(n, m, gap as usize)
    } else {
        chance_in_the_limit(n as f64, m as f64, distance)
    };
    (distance, p_value)
}

/// `n m` times the distance, in whole numbers: `max |i m - j n|`, where `i` and `j` rows of the two
/// samples are at most `x`, over all `x`.
fn largest_gap(first: &[f64], second: &[f64]) -> u128 {
    let (n, m) = (first.len() as u128, second.len() as u128);
    let (mut i, mut j, mut gap) = (0, 0, 0);
    // When one sample has ended, its function is 1 and the gap only closes.
    while let (Some(&a), Some(&b)) = (first.get(i), second.get(j)) {
        // Ties step together: between equal values there is no `x`.
        let x = a.min(b);
        i += first[i..].iter().take_while(|&&a| a <= x).count();
        j += second[j..].iter().take_while(|&&b| b <= x).count();
        gap = gap.max((i as u128 * m).abs_diff(j as u128 * n));
    }
    gap
}

/// `P(n m D >= gap)` for samples without ties.
///
/// All orders of the pooled rows are equally likely, and each is a path from (0, 0) to (n, m). The
/// chance `q(i, j)` that a path to (i, j) has left the band `|i m - j n| < gap` is 1 outside it and
/// within it, by the last step, `q(i, j) = i/(i+j) q(i-1, j) + j/(i+j) q(i, j-1)`. Only positive
/// numbers are added, so the smallest p-values keep their digits.
fn chance_exact(n: usize, m: usize, gap: usize) -> f64 {
    if gap == 0 {
        return 1.0;
    }
    let (n, m) = (n.max(m), n.min(m));
    // One row of q, of the shorter sample. What lies right of the band is 1 and not yet touched; what
    // lies left of it is never read again, because the band moves to the right.
    let mut row = vec![1.0; m + 1];
    row[..gap.div_ceil(n).min(m + 1)].fill(0.0);
    for i in 1..=n {
        let start = if i * m < gap { 0 } else { (i * m - gap) / n + 1 };
        let end = (i * m + gap).div_ceil(n).min(m + 1);
        let mut left = 1.0;
        for (j, q) in row.iter_mut().enumerate().take(end).skip(start) {
            let total = (i + j) as f64;
            left = i as f64 / total * *q + j as f64 / total * left;
            *q = left;
        }
    }
    row[m]
}

/// Kolmogorov's limit `2 Σ_k (-1)^(k-1) exp(-2 k² t²)` at `t = d √(nm / (n+m))`.
fn chance_in_the_limit(n: f64, m: f64, distance: f64) -> f64 {
    let t = distance * (n / (n + m) * m).sqrt();
    if t < SERIES_START {
        return 1.0;
    }
    let term = |k: u32| {
        let sign = if k.is_multiple_of(2) { -1.0 } else { 1.0 };
        sign * (-2.0 * (f64::from(k) * t).powi(2)).exp()
    };
    (2.0 * (1..TERMS).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_close(got: f64, expected: f64, tolerance: f64) {
        assert!((got / expected - 1.0).abs() < tolerance, "{got:e} against {expected:e}");
    }

    #[track_caller]
    fn assert_two_sample(first: &[f64], second: &[f64], distance: f64, p_value: f64) {
        let got = two_sample(first, second);
        assert_close(got.0, distance, 1e-15);
        assert_close(got.1, p_value, 1e-12);
        // The test does not know which sample came first.
        let turned = two_sample(second, first);
        assert_eq!(turned.0, got.0);
        assert_close(turned.1, got.1, 1e-12);
    }

    /// The numbers of these tests are those of `scipy.stats.ks_2samp(method="exact")`.
    #[test]
    fn equals_scipy_without_ties() {
        let first = [0.1, 0.5, 0.7, 1.1, 1.4, 2.0, 2.2, 3.1];
        let second = [0.6, 1.5, 1.6, 2.1, 2.3, 2.4, 3.2, 3.3, 3.4, 4.0, 4.1];
        assert_two_sample(&first, &second, 0.534_090_909_090_909_1, 0.101_214_574_898_785_42);
    }

    #[test]
    fn equals_scipy_with_ties() {
        let first = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0];
        let second = [1.0, 1.0, 1.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0, 5.0];
        assert_two_sample(&first, &second, 0.4, 0.391_745_509_392_568_25);
    }

    #[test]
    fn equals_scipy_for_hundreds_of_rows() {
        let mut first: Vec<f64> =
            (0..300).map(|i| f64::from(i * i % 97) + f64::from(i) / 1000.0).collect();
        let mut second: Vec<f64> =
            (0..200).map(|i| f64::from(i * i * i % 89 + 10) + f64::from(i) / 1000.0).collect();
        first.sort_by(f64::total_cmp);
        second.sort_by(f64::total_cmp);
        assert_two_sample(&first, &second, 0.163_333_333_333_333_33, 0.003_020_282_497_631_377);
    }

    #[test]
    fn equals_scipy_where_the_p_value_is_tiny() {
        let first: Vec<f64> = (0..1000).map(f64::from).collect();
        let second: Vec<f64> = (0..600).map(|i| f64::from(i) + 400.5).collect();
        assert_two_sample(&first, &second, 0.401, 2.073_901_614_578_738_7e-54);
    }

    #[test]
    fn the_chance_equals_the_count_of_paths() {
        // Paths outside the band over all paths, counted in whole numbers of any size.
        for (n, m, gap, expected) in [
            (7, 5, 14, 0.638_888_888_888_888_8),
            (10, 10, 40, 0.417_523_652_817_770_5),
            (100, 60, 1500, 0.015_495_653_469_574_73),
            (200, 150, 5000, 0.015_368_263_329_474_295),
            (300, 7, 900, 0.116_446_202_635_154_69),
            (1000, 1, 900, 0.201_798_201_798_201_8),
            (50, 50, 2500, 1.982_330_604_283_667_8e-29),
            (400, 300, 60_000, 1.813_297_311_873_471_5e-39),
        ] {
            assert_close(chance_exact(n, m, gap), expected, 1e-12);
            assert_close(chance_exact(m, n, gap), expected, 1e-12);
        }
    }

    #[test]
    fn equal_samples_have_no_distance_and_separate_ones_all_of_it() {
        let infinite = [f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0];
        assert_eq!(two_sample(&infinite, &infinite), (0.0, 1.0));
        assert_eq!(two_sample(&[1.0], &[1.0]), (0.0, 1.0));
        assert_eq!(two_sample(&[1.0], &[2.0]), (1.0, 1.0));
        // Two of the C(6, 3) = 20 orders keep the samples apart.
        let (distance, p_value) = two_sample(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert_eq!(distance, 1.0);
        assert_close(p_value, 0.1, 1e-14);
    }

    #[test]
    fn the_limit_equals_scipy() {
        // scipy.special.kolmogorov
        let limit = chance_in_the_limit(14_000.0, 14_000.0, 0.01);
        assert_close(limit, 0.485_804_944_106_748, 1e-12);
        assert_close(chance_in_the_limit(1e6, 1e4, 0.0136), 0.051_331_843_672_538_645, 1e-12);
    }

    #[test]
    fn the_limit_is_near_the_exact_chance() {
        // Gaps are multiples of the sizes' common divisor.
        for (n, m, step) in [(2000, 2000, 2000), (2000, 1999, 1), (3000, 1000, 1000)] {
            for t in [1.0, 1.36, 2.0] {
                let root = ((n + m) as f64 / (n * m) as f64).sqrt();
                let gap = (t * root * (n * m / step) as f64).ceil() as usize * step;
                let exact = chance_exact(n, m, gap);
                let distance = gap as f64 / (n * m) as f64;
                let limit = chance_in_the_limit(n as f64, m as f64, distance);
                let ratio = limit / exact;
                assert!((0.9997..1.1).contains(&ratio), "n = {n}, m = {m}, t = {t}: {ratio}");
            }
        }
    }

    #[test]
    fn the_limit_takes_over_for_large_samples() {
        let first: Vec<f64> = (0..15_000).map(f64::from).collect();
        let second: Vec<f64> = first.iter().map(|x| x + 300.5).collect();
        let (distance, p_value) = two_sample(&first, &second);
        assert_close(distance, 301.0 / 15_000.0, 1e-14);
        assert_eq!(p_value, chance_in_the_limit(15_000.0, 15_000.0, distance));
        assert_eq!(two_sample(&first, &first), (0.0, 1.0));
    }
}
