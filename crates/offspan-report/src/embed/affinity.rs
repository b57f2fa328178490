//! How strongly t-SNE ties each pair of points: Gaussian neighbourhoods of equal perplexity.
//!
//! Point i has the neighbour j with chance p(j|i) ∝ exp(−βᵢ·dᵢⱼ²), where βᵢ is chosen such that the
//! entropy −Σ p·ln p is the logarithm of the perplexity. A pair's affinity is the mean of both ways,
//! Pᵢⱼ = (p(j|i) + p(i|j)) / 2n: symmetric, with sum 1.

use rayon::prelude::*;

use super::pairs::Pairs;

/// The entropy is met within this.
const TOLERANCE: f64 = 1e-10;
/// Newton needs about ten steps; neighbours at hugely different distances need some more.
const STEPS: usize = 100;
/// The largest change of ln β in the first step; it doubles while the answer is out of sight.
const STRIDE: f64 = 2.0;
/// β beyond exp of this would overflow; below it, its product with any distance is finite.
const LARGEST_LOG_BETA: f64 = 700.0;

/// P, row-major, with zeros on the diagonal.
pub(super) fn affinities(pairs: &Pairs, perplexity: f64) -> Vec<f64> {
    let n = pairs.points;
    let mut p = vec![0.0; n * n];
    p.par_chunks_mut(n).enumerate().for_each_init(Vec::new, |others, (i, out)| {
        let row = pairs.row(i);
        others.clear();
        others.extend(row[..i].iter().chain(&row[i + 1..]));
        neighbour_chances(others, perplexity);
        out[..i].copy_from_slice(&others[..i]);
        out[i + 1..].copy_from_slice(&others[i..]);
    });
    let half = 0.5 / n as f64;
    for i in 0..n {
        for j in 0..i {
            let affinity = (p[i * n + j] + p[j * n + i]) * half;
            (p[i * n + j], p[j * n + i]) = (affinity, affinity);
        }
    }
    p
}

/// Turns the squared distances to the other points into chances of the wanted perplexity. More
/// points at the smallest distance than that share the chances equally.
fn neighbour_chances(distances: &mut [f64], perplexity: f64) {
    let target = libm::log(perplexity);
    let nearest = distances.iter().copied().fold(f64::INFINITY, f64::min);
    // Only differences matter, and the largest chance cannot underflow.
    distances.iter_mut().for_each(|distance| *distance -= nearest);

    let mean = distances.iter().sum::<f64>() / distances.len() as f64;
    let mut log_beta = if mean > 0.0 { -libm::log(mean) } else { 0.0 };
    let (mut low, mut high, mut stride) = (f64::NEG_INFINITY, f64::INFINITY, STRIDE);
    let mut gaussian = Gaussian::new(distances, log_beta);
    for _ in 0..STEPS {
        let excess = gaussian.entropy - target;
        if excess.abs() <= TOLERANCE || (excess > 0.0 && gaussian.slope == 0.0) {
            break;
        }
        // The entropy falls with β.
        if excess > 0.0 {
            low = log_beta;
        } else {
            high = log_beta;
        }
        let newton = log_beta - excess / gaussian.slope;
        log_beta = if newton > low && newton < high && (newton - log_beta).abs() <= stride {
            newton
        } else if high - low <= 2.0 * stride {
            f64::midpoint(low, high)
        } else {
            stride *= 2.0;
            log_beta + (0.5 * stride).copysign(excess)
        };
        gaussian = Gaussian::new(distances, log_beta);
    }
    for distance in distances {
        *distance = libm::exp(-gaussian.beta * *distance) / gaussian.sum;
    }
}

/// A point's neighbourhood at one β.
struct Gaussian {
    beta: f64,
    /// Σ exp(−β·d).
    sum: f64,
    /// −Σ p·ln p.
    entropy: f64,
    /// Its derivative by ln β.
    slope: f64,
}

impl Gaussian {
    fn new(distances: &[f64], log_beta: f64) -> Self {
        let beta = libm::exp(log_beta.min(LARGEST_LOG_BETA));
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for distance in distances {
            let energy = beta * distance;
            let weight = libm::exp(-energy);
            sum += weight;
            first += weight * energy;
            second += weight * energy * energy;
        }
        let mean = first / sum;
        // dH/dβ = −β·Var(d), and d ln β = dβ/β.
        let slope = -(second / sum - mean * mean).max(0.0);
        Gaussian { beta, sum, entropy: libm::log(sum) + mean, slope }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::super::squared_distances;
    use super::*;

    fn entropy(chances: &[f64]) -> f64 {
        -chances.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum::<f64>()
    }

    fn rows(n: usize) -> Array2<f64> {
        Array2::from_shape_fn((n, 5), |(i, j)| {
            ((i * 31 + j * 17) as f64 * 0.37).sin() * 1.1f64.powi(i as i32)
        })
    }

    #[test]
    fn every_row_has_the_wanted_entropy() {
        // The last rows are a thousand times as far apart as the first.
        let pairs = Pairs::check(squared_distances(rows(80).view()).view()).unwrap();
        for perplexity in [1.5, 5.0, 26.0] {
            for i in 0..80 {
                let mut others = pairs.row(i).to_vec();
                others.remove(i);
                neighbour_chances(&mut others, perplexity);
                assert!((others.iter().sum::<f64>() - 1.0).abs() < 1e-13);
                assert!((entropy(&others) - perplexity.ln()).abs() < 1e-9, "{perplexity} {i}");
            }
        }
    }

    #[test]
    fn chances_are_gaussian_and_fall_with_the_distance() {
        let mut chances = vec![4.0, 1.0, 9.0, 2.0, 16.0, 3.0];
        neighbour_chances(&mut chances, 2.0);
        // ln p is a line in the squared distance.
        let beta = (chances[1] / chances[3]).ln();
        assert!(beta > 0.0);
        assert!(((chances[1] / chances[2]).ln() / 8.0 - beta).abs() < 1e-9);
        assert!(((chances[5] / chances[0]).ln() - beta).abs() < 1e-9);
    }

    #[test]
    fn affinities_are_symmetric_and_sum_to_one() {
        let pairs = Pairs::check(squared_distances(rows(50).view()).view()).unwrap();
        let p = affinities(&pairs, 10.0);
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-13);
        for i in 0..50 {
            assert_eq!(p[i * 50 + i], 0.0);
            for j in 0..50 {
                assert_eq!(p[i * 50 + j].to_bits(), p[j * 50 + i].to_bits());
            }
        }
    }

    #[test]
    fn more_equal_neighbours_than_the_perplexity_share_equally() {
        let mut chances = vec![0.0, 0.5, 0.0, 1.0, 0.0, 0.0];
        neighbour_chances(&mut chances, 2.0);
        assert_eq!(chances, [0.25, 0.0, 0.25, 0.0, 0.25, 0.25]);
        let mut chances = vec![0.0; 10];
        neighbour_chances(&mut chances, 3.0);
        assert!(chances.iter().all(|chance| (chance - 0.1).abs() < 1e-15));
        let mut chances = vec![1.0; 10];
        neighbour_chances(&mut chances, 3.0);
        assert!(chances.iter().all(|chance| (chance - 0.1).abs() < 1e-15));
    }

    #[test]
    fn hugely_different_distances_are_no_trouble() {
        let mut chances: Vec<f64> = (0..60).map(|i| 10f64.powi(-5 * i)).collect();
        neighbour_chances(&mut chances, 4.0);
        assert!((entropy(&chances) - 4f64.ln()).abs() < 1e-9, "{chances:?}");
        let mut chances = vec![0.0, 1e-300, 1e-300, 1e-300, 1.0, 1.0];
        neighbour_chances(&mut chances, 2.0);
        assert!(chances.iter().all(|chance| chance.is_finite()));
        assert!((chances.iter().sum::<f64>() - 1.0).abs() < 1e-14);
    }
}
