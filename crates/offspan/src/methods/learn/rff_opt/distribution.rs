//! The distribution over features that aligns best, within a ball around the uniform one.

/// Maximises vᵀq over q ≥ 0, Σq = 1, ‖q − 1/M‖² ≤ ρ/M, exactly.
///
/// Given Σq = 1 the last constraint says ‖q‖² ≤ (1 + ρ)/M. Where it binds, the optimality conditions
/// give q_n = (v_n − θ)₊/λ. With the k largest v active that is q = 1/k + (v − v̄_k)/λ, and λ follows
/// from the norm: λ² = S_k/((1 + ρ)/M − 1/k), S_k = Σ (v − v̄_k)² over the active ones. The smallest k
/// for which the next feature would get nothing is the right one: raising k while the next would get
/// something keeps the share of the one just added positive.
pub(super) fn best_distribution(alignment: &[f64], rho: f64) -> Vec<f64> {
    let features = alignment.len();
    let mut order: Vec<usize> = (0..features).collect();
    order.sort_by(|&a, &b| alignment[b].total_cmp(&alignment[a]).then(a.cmp(&b)));
    // Relative to the largest, so that nearly equal leaders keep their digits, and to the range, so
    // that squares do not leave that of f64.
    let (largest, smallest) = (alignment[order[0]], alignment[order[features - 1]]);
    let range = if largest > smallest { largest - smallest } else { 1.0 };
    let v: Vec<f64> = order.iter().map(|&n| (alignment[n] - largest) / range).collect();
    let tied = v.iter().take_while(|&&v| v == 0.0).count();
    // (1 + ρ)/M − 1/k, without cancellation.
    let room = |k: usize| (rho * k as f64 - (features - k) as f64) / (features * k) as f64;
    if room(tied) >= 0.0 {
        // The ball contains the even distribution over the maxima: nothing is better.
        return spread(&order, tied, |_| 1.0 / tied as f64);
    }
    // Welford's running mean and sum of squares.
    let (mut mean, mut scatter) = (0.0, 0.0);
    for k in 1..=features {
        let new = v[k - 1] - mean;
        mean += new / k as f64;
        scatter += new * (v[k - 1] - mean);
        if room(k) <= 0.0 {
            continue;
        }
        let lambda = (scatter / room(k)).sqrt();
        let threshold = mean - lambda / k as f64;
        if k == features || v[k] <= threshold {
            return spread(&order, k, |i| (1.0 / k as f64 + (v[i] - mean) / lambda).max(0.0));
        }
    }
    // ρ = 0: the ball is a point.
    spread(&order, features, |_| 1.0 / features as f64)
}

/// Puts the shares of the first `active` in order back to their places.
fn spread(order: &[usize], active: usize, share: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut q = vec![0.0; order.len()];
    (0..active).for_each(|i| q[order[i]] = share(i));
    q
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::{Random, Stream};

    fn random(features: usize, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed, Stream::Synthetic);
        (0..features).map(|_| random.normal().powi(2)).collect()
    }

    fn dot(v: &[f64], q: &[f64]) -> f64 {
        v.iter().zip(q).map(|(v, q)| v * q).sum()
    }

    fn check_feasible(q: &[f64], rho: f64) {
        let m = q.len() as f64;
        assert!(q.iter().all(|&q| q >= 0.0));
        assert!((q.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let distance: f64 = q.iter().map(|q| (q - 1.0 / m).powi(2)).sum();
        assert!(distance <= rho / m * (1.0 + 1e-9) + 1e-15, "{distance} {}", rho / m);
    }

    /// An independent solver: q ∝ (v − θ)₊ with θ found by bisection on the norm.
    fn by_bisection(v: &[f64], rho: f64) -> Vec<f64> {
        let q = |theta: f64| {
            let sum: f64 = v.iter().map(|v| (v - theta).max(0.0)).sum();
            v.iter().map(|v| (v - theta).max(0.0) / sum).collect::<Vec<_>>()
        };
        let norm = |theta: f64| q(theta).iter().map(|q| q * q).sum::<f64>();
        let largest = v.iter().copied().fold(f64::MIN, f64::max);
        let (mut low, mut high) = (-1e6, largest * (1.0 - 1e-14));
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if norm(middle) < (1.0 + rho) / v.len() as f64 { low = middle } else { high = middle }
        }
        q(low)
    }

    #[test]
    fn equals_a_bisection_on_random_problems() {
        for (seed, features) in [(1, 2), (2, 3), (3, 10), (4, 101), (5, 1000)] {
            for rho in [1e-3, 0.1, 0.5, 0.9, 2.0, 7.0] {
                let v = random(features, seed);
                let (got, expected) = (best_distribution(&v, rho), by_bisection(&v, rho));
                check_feasible(&got, rho);
                let worst =
                    got.iter().zip(&expected).fold(0.0f64, |w, (a, b)| w.max((a - b).abs()));
                assert!(worst < 1e-7, "M {features}, rho {rho}: {worst}");
                assert!(dot(&v, &got) >= dot(&v, &expected) - 1e-9);
            }
        }
    }

    #[test]
    fn optimality_conditions_hold() {
        for seed in 0..40 {
            let rho = 0.05 * 1.25f64.powi(seed as i32 % 20);
            let v = random(64, seed);
            let q = best_distribution(&v, rho);
            check_feasible(&q, rho);
            // v = θ + λq where q > 0, v ≤ θ elsewhere; two active features give θ and λ.
            let mut active: Vec<usize> = (0..64).filter(|&n| q[n] > 0.0).collect();
            active.sort_by(|&a, &b| q[a].total_cmp(&q[b]));
            let (first, last) = (active[0], active[active.len() - 1]);
            let lambda = (v[last] - v[first]) / (q[last] - q[first]);
            let theta = v[first] - lambda * q[first];
            assert!(lambda > 0.0);
            for n in 0..64 {
                let slack = v[n] - theta - lambda * q[n];
                assert!(if q[n] > 0.0 { slack.abs() < 1e-9 } else { slack <= 1e-9 }, "{slack}");
            }
        }
    }

    #[test]
    fn no_feasible_random_direction_does_better() {
        let v = random(30, 9);
        let best = best_distribution(&v, 0.4);
        for seed in 100..300 {
            // Mixtures of the optimum and another feasible point are feasible.
            let other = best_distribution(&random(30, seed), 0.4);
            assert!(dot(&v, &other) <= dot(&v, &best) + 1e-12);
        }
    }

    #[test]
    fn no_room_or_no_preference_gives_the_uniform_distribution() {
        let uniform = |q: Vec<f64>| q.iter().all(|q| (q - 0.2).abs() < 1e-15);
        assert!(uniform(best_distribution(&[3.0, 1.0, 4.0, 1.0, 5.0], 0.0)));
        assert!(uniform(best_distribution(&[2.5; 5], 0.7)));
        assert!(uniform(best_distribution(&[0.0; 5], 0.0)));
        assert_eq!(best_distribution(&[1.0], 0.0), [1.0]);
        assert_eq!(best_distribution(&[1.0], 3.0), [1.0]);
    }

    #[test]
    fn a_ball_around_everything_gives_the_maximum_alone() {
        assert_eq!(best_distribution(&[1.0, 3.0, 2.0], 2.0), [0.0, 1.0, 0.0]);
        assert_eq!(best_distribution(&[1.0, 3.0, 2.0], 100.0), [0.0, 1.0, 0.0]);
        // Tied maxima share evenly, also where the ball just reaches their face.
        assert_eq!(best_distribution(&[3.0, 1.0, 3.0, 2.0], 1.0), [0.5, 0.0, 0.5, 0.0]);
        assert_eq!(best_distribution(&[3.0, 1.0, 3.0, 2.0], 50.0), [0.5, 0.0, 0.5, 0.0]);
    }

    #[test]
    fn ties_anywhere_get_equal_shares() {
        let v = [5.0, 1.0, 5.0, 2.0, 2.0, 2.0, 1.0, 0.0];
        for rho in [0.01, 0.2, 0.6, 1.0, 1.9, 2.9] {
            let q = best_distribution(&v, rho);
            check_feasible(&q, rho);
            assert!((q[0] - q[2]).abs() < 1e-15 && (q[1] - q[6]).abs() < 1e-15);
            assert!((q[3] - q[4]).abs() < 1e-15 && (q[4] - q[5]).abs() < 1e-15);
        }
    }

    #[test]
    fn scale_and_shift_of_the_alignment_do_not_matter() {
        let v = random(50, 2);
        let other: Vec<f64> = v.iter().map(|v| 1e-200 * v + 3e-200).collect();
        let (a, b) = (best_distribution(&v, 0.8), best_distribution(&other, 0.8));
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-8));
    }
}
