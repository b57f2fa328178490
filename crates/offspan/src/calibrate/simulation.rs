//! Simulations: whether the promises of this folder hold for draws from a known distribution.

use super::beta::tails;
use crate::numeric::random::mix;

use super::{FitCheck, benjamini_hochberg, largest_rank, p_value};

/// Numbers in turn, mixed: good enough to draw from.
struct Draws(u64);

impl Draws {
    /// Uniform in (0, 1).
    fn uniform(&mut self) -> f64 {
        let z = mix(self.0);
        self.0 = self.0.wrapping_add(1);
        ((z >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Normal around `mean`, by Box and Muller.
    fn normal(&mut self, mean: f64) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        mean + radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn normals(&mut self, count: usize, mean: f64) -> Vec<f64> {
        (0..count).map(|_| self.normal(mean)).collect()
    }
}

fn sorted(mut scores: Vec<f64>) -> Vec<f64> {
    scores.sort_by(f64::total_cmp);
    scores
}

/// `share` plus three standard errors of a share of so many draws.
fn with_room(share: f64, draws: usize) -> f64 {
    share + 3.0 * (share * (1.0 - share) / draws as f64).sqrt()
}

fn share_of(hits: usize, draws: usize) -> f64 {
    hits as f64 / draws as f64
}

#[test]
fn the_order_rule_keeps_its_promise_and_the_plain_percentile_does_not() {
    let (n, draws) = (1000, 2000);
    let rank = largest_rank(n, 0.95, 0.95).unwrap().unwrap();
    // The largest threshold that keeps 950 of the 1000 scores is the 51st of them.
    let plain = 51;
    let exact = |k: usize| tails(k as f64, (n - k + 1) as f64, 0.05).1;
    assert!(exact(rank) <= 0.05 && exact(rank + 1) > 0.05);

    let mut random = Draws(1);
    let (mut broken, mut broken_plain) = (0, 0);
    for _ in 0..draws {
        // Of uniform scores, a threshold refuses the share that it is.
        let scores = sorted((0..n).map(|_| random.uniform()).collect());
        broken += usize::from(scores[rank - 1] > 0.05);
        broken_plain += usize::from(scores[plain - 1] > 0.05);
    }
    let (broken, broken_plain) = (share_of(broken, draws), share_of(broken_plain, draws));
    assert!(broken <= with_room(0.05, draws), "{broken}");
    assert!(
        (broken - exact(rank)).abs() <= with_room(exact(rank), draws) - exact(rank),
        "{broken}"
    );
    assert!((0.4..0.65).contains(&broken_plain), "{broken_plain}");
}

#[test]
fn conformal_p_values_of_in_distribution_rows_are_uniform() {
    let (n, draws) = (99, 20_000);
    let mut random = Draws(2);
    let p: Vec<f64> = (0..draws)
        .map(|_| {
            let calibration = sorted((0..n).map(|_| random.uniform()).collect());
            p_value(&calibration, random.uniform())
        })
        .collect();
    for u in [0.005, 0.01, 0.05, 0.1, 0.255, 0.5, 0.9, 1.0] {
        let share = share_of(p.iter().filter(|&&p| p <= u).count(), draws);
        // P-values are hundredths, so between two of them the share stays at the lower one.
        let expected = (u * 100.0).floor() / 100.0;
        assert!(share <= with_room(u, draws), "P(p <= {u}) = {share}");
        let error = with_room(expected, draws) - expected;
        assert!((share - expected).abs() <= error, "P(p <= {u}) = {share}");
    }
}

#[test]
fn benjamini_hochberg_holds_its_level_when_the_calibration_is_shared() {
    let (draws, known, strange, level) = (1000, 80, 20, 0.1);
    let mut random = Draws(3);
    let mut wrong_shares = Vec::new();
    let mut found = 0;
    for _ in 0..draws {
        let calibration = sorted(random.normals(500, 0.0));
        let mut batch = random.normals(known, 0.0);
        batch.extend(random.normals(strange, -3.0));
        let p: Vec<f64> = batch.iter().map(|&score| p_value(&calibration, score)).collect();
        let flagged = benjamini_hochberg(&p, level).unwrap();
        let wrong = flagged[..known].iter().filter(|&&flag| flag).count();
        let right = flagged[known..].iter().filter(|&&flag| flag).count();
        wrong_shares.push(wrong as f64 / (wrong + right).max(1) as f64);
        found += right;
    }
    let mean = wrong_shares.iter().sum::<f64>() / draws as f64;
    let variance = wrong_shares.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws as f64;
    let error = (variance / draws as f64).sqrt();
    // Theory has the mean at the level times the share of known rows, but for the steps of p.
    assert!(mean <= level + 3.0 * error, "{mean} ± {error}");
    assert!((mean - 0.08).abs() < 3.0 * error + 0.01, "{mean} ± {error}");
    let power = share_of(found, draws * strange);
    assert!(power > 0.5, "{power}");
}

#[test]
fn the_fit_check_rarely_doubts_rows_that_fit() {
    let (n, rank, m, draws) = (200, 10, 150, 2000);
    let mut random = Draws(4);
    let mut small = [0; 3];
    for _ in 0..draws {
        let calibration = sorted(random.normals(n, 0.0));
        let check = FitCheck::new(&calibration, rank, &random.normals(m, 0.0)).unwrap();
        let p_values = [check.flagged_p_value, check.distance_p_value, check.p_value];
        for (count, p) in small.iter_mut().zip(p_values) {
            *count += usize::from(p <= 0.05);
        }
    }
    let shares = small.map(|count| share_of(count, draws));
    assert!(shares.iter().all(|&share| share <= with_room(0.05, draws)), "{shares:?}");
    // Exact tests of this size come near their level; a test that never doubts would be no test.
    assert!(shares.iter().all(|&share| share > 0.02), "{shares:?}");
}

#[test]
fn the_fit_check_finds_a_shift_by_half_a_standard_deviation() {
    let (n, m, draws) = (500, 500, 100);
    let rank = largest_rank(n, 0.95, 0.95).unwrap().unwrap();
    let mut random = Draws(5);
    let mut found = 0;
    for _ in 0..draws {
        let calibration = sorted(random.normals(n, 0.0));
        let check = FitCheck::new(&calibration, rank, &random.normals(m, -0.5)).unwrap();
        found += usize::from(check.p_value <= 0.05);
    }
    assert!(found >= 98, "{found} of {draws}");
}
