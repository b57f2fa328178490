//! Ranks by chance: Friedman's test, and the critical difference of Nemenyi (Demšar, 2006).

use offspan::random_order;

use super::Friedman;

/// The level of the tests.
pub(super) const LEVEL: f64 = 0.05;
/// Random permutations behind a p-value.
const PERMUTATIONS: u32 = 2000;

/// Friedman's test, corrected for ties (Conover, 1999). Its statistic follows no known law where cases are few and methods many, so the
/// p-value comes from random permutations of the ranks within each case.
pub(super) fn friedman(ranks: &[Vec<f64>], seed: u64) -> Friedman {
    let methods = ranks.first().map_or(0, Vec::len);
    let observed = spread(ranks.iter().map(Vec::as_slice), methods);
    let mut reached = 0;
    for number in 0..PERMUTATIONS {
        let permuted: Vec<Vec<f64>> = ranks
            .iter()
            .enumerate()
            .map(|(case, ranks)| {
                // A seed for each case of each permutation, far from those of others.
                let place = u64::from(number) * ranks.len().max(1) as u64 * 1_000_003 + case as u64;
                random_order(methods, seed ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                    .into_iter()
                    .map(|at| ranks[at])
                    .collect()
            })
            .collect();
        // A hair's breadth for sums in another order.
        let found = spread(permuted.iter().map(Vec::as_slice), methods);
        reached += u32::from(found >= observed * (1.0 - 1e-12));
    }
    let (k, n) = (methods as f64, ranks.len() as f64);
    // The squares of the ranks in all cases: N k (k² − 1) / 12 without ties, less with them.
    let middle = (k + 1.0) / 2.0;
    let squares: f64 = ranks.iter().flatten().map(|rank| (rank - middle).powi(2)).sum();
    let chi_square = if squares > 0.0 { (k - 1.0) * n * n * observed / squares } else { 0.0 };
    Friedman {
        chi_square,
        p_value: f64::from(reached + 1) / f64::from(PERMUTATIONS + 1),
        permutations: PERMUTATIONS,
    }
}

/// Σ (mean rank − (k + 1)/2)² over methods.
fn spread<'a>(cases: impl Iterator<Item = &'a [f64]>, methods: usize) -> f64 {
    let mut sums = vec![0.0; methods];
    let mut count = 0.0;
    for ranks in cases {
        sums.iter_mut().zip(ranks).for_each(|(sum, rank)| *sum += rank);
        count += 1.0;
    }
    let middle = (methods as f64 + 1.0) / 2.0;
    sums.iter().map(|sum| (sum / count - middle).powi(2)).sum()
}

/// How far mean ranks of `methods` over `cases` lie apart by chance at most, with probability 1 − level:
/// q √(k (k + 1) / (6 N)), q being the quantile of the studentised range over √2.
pub(super) fn critical_difference(methods: usize, cases: usize) -> f64 {
    let (k, n) = (methods as f64, cases as f64);
    let q = range_quantile(methods, 1.0 - LEVEL) / std::f64::consts::SQRT_2;
    q * (k * (k + 1.0) / (6.0 * n)).sqrt()
}

/// The quantile of the range of `count` standard normal numbers.
fn range_quantile(count: usize, probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, 20.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if range_probability(count, middle) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// P(range ≤ w) = k ∫ φ(z) (Φ(z) − Φ(z − w))^(k−1) dz, by Simpson's rule: z is the largest number.
fn range_probability(count: usize, w: f64) -> f64 {
    const STEPS: usize = 800;
    const FROM: f64 = -8.0;
    const TO: f64 = 8.0;
    let width = (TO - FROM) / STEPS as f64;
    let density = |z: f64| (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let below = |z: f64| 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
    let others = i32::try_from(count.saturating_sub(1)).unwrap_or(i32::MAX);
    let term = |z: f64| density(z) * (below(z) - below(z - w)).powi(others);
    let sum: f64 = (0..=STEPS)
        .map(|step| {
            let weight = match step {
                0 | STEPS => 1.0,
                odd if odd % 2 == 1 => 4.0,
                _ => 2.0,
            };
            weight * term(FROM + step as f64 * width)
        })
        .sum();
    count as f64 * sum * width / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_demsars_table() {
        // Table 5 a: q at 0.05 for 2 to 10 methods; three digits, some cut off and not rounded.
        let table = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164];
        for (methods, expected) in (2..).zip(table) {
            let q = range_quantile(methods, 0.95) / std::f64::consts::SQRT_2;
            assert!((q - expected).abs() < 1e-3, "{methods}: {q}");
        }
    }

    #[test]
    fn demsars_example_has_his_critical_difference() {
        // Four classifiers on 14 sets: 2.569 √(4·5 / (6·14)) = 1.25.
        assert!((critical_difference(4, 14) - 1.25).abs() < 0.005);
    }

    #[test]
    fn the_same_order_everywhere_is_no_chance_and_opposite_ones_are() {
        let same = vec![vec![1.0, 2.0, 3.0, 4.0]; 5];
        let found = friedman(&same, 0);
        // All cases agree: χ² = N (k − 1).
        assert!((found.chi_square - 15.0).abs() < 1e-12 && found.p_value < 0.002, "{found:?}");
        let opposite = [vec![1.0, 2.0, 3.0], vec![3.0, 2.0, 1.0]];
        let found = friedman(&opposite, 0);
        assert_eq!((found.chi_square, found.p_value), (0.0, 1.0));
        let tied = friedman(&[vec![2.0; 3], vec![2.0; 3]], 0);
        assert_eq!((tied.chi_square, tied.p_value), (0.0, 1.0), "nothing differs anywhere");
    }

    #[test]
    fn ties_are_corrected_for() {
        // Agreement that could not be greater is N (k − 1), whatever is tied in it.
        let found = friedman(&vec![vec![1.0, 2.5, 2.5, 4.0]; 5], 0);
        assert!((found.chi_square - 15.0).abs() < 1e-12, "{found:?}");
        // By hand: sums of ranks 6.5, 6.5, 11; (12 / 48 · 205.5 − 48) / (1 − 24 / 96) = 4.5.
        let ranks =
            [vec![1.5, 1.5, 3.0], vec![1.0, 2.5, 2.5], vec![1.5, 1.5, 3.0], vec![2.5, 1.0, 2.5]];
        let found = friedman(&ranks, 0);
        assert!((found.chi_square - 4.5).abs() < 1e-12, "{found:?}");
    }
}
