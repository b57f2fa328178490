//! Seeded randomness that is the same on every machine.
//!
//! Each use draws from its own ChaCha stream, so adding a use never shifts another. The transforms
//! go through `libm`, because the platform's logarithm and cosine may differ in the last bit.

use std::f64::consts::TAU;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What a stream of random numbers is for. The numbers are part of the file format: detectors
/// regenerate their random features from the seed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    Frequencies = 1,
    Phases = 2,
    Signs = 3,
    Sketch = 4,
    Landmarks = 5,
    Bootstrap = 6,
    Synthetic = 7,
    Autoencoder = 8,
    Inducing = 9,
    Batches = 10,
    Evaluation = 11,
    Bank = 12,
    Krylov = 13,
    Clusters = 14,
    Trials = 15,
    Heads = 16,
    PairedBootstrap = 17,
}

/// A seeded generator with the few distributions that offspan needs.
pub(crate) struct Random {
    rng: ChaCha8Rng,
    spare_normal: Option<f64>,
}

impl Random {
    pub(crate) fn new(seed: u64, stream: Stream) -> Self {
        Self::numbered(seed, stream, 0)
    }

    /// One of many independent streams for the same use.
    pub(crate) fn numbered(seed: u64, stream: Stream, number: u32) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(u64::from(number) << 32 | stream as u64);
        Random { rng, spare_normal: None }
    }

    /// Uniform on [0, 1) with 53 bits.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform on 0..bound without bias (Lemire's method).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        loop {
            let wide = u128::from(self.rng.next_u64()) * u128::from(bound);
            let low = wide as u64;
            // The remainder is the exact test; comparing with the bound settles nearly all draws.
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return (wide >> 64) as u64;
            }
        }
    }

    /// ±1 with equal chance.
    pub(crate) fn sign(&mut self) -> f64 {
        if self.rng.next_u32() & 1 == 0 { 1.0 } else { -1.0 }
    }

    /// Standard normal (Box–Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare_normal.take() {
            return spare;
        }
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform()));
        let (sine, cosine) = libm::sincos(TAU * self.uniform());
        self.spare_normal = Some(radius * sine);
        radius * cosine
    }

    /// Standard Cauchy (inverse distribution function).
    pub(crate) fn cauchy(&mut self) -> f64 {
        libm::tan(std::f64::consts::PI * (self.uniform() - 0.5))
    }

    /// `count` distinct numbers of 0..bound in ascending order, each subset equally likely
    /// (Floyd's algorithm: memory for the sample only).
    pub(crate) fn sample(&mut self, bound: u64, count: usize) -> Vec<u64> {
        debug_assert!(count as u64 <= bound);
        let mut chosen = std::collections::BTreeSet::new();
        for top in bound - count as u64..bound {
            let pick = self.below(top + 1);
            if !chosen.insert(pick) {
                chosen.insert(top);
            }
        }
        chosen.into_iter().collect()
    }
}

/// The numbers below `count` in a seeded random order.
#[must_use]
pub fn random_order(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_cached_key(|&number| mix(seed ^ mix(number as u64)));
    order
}

/// The finaliser of SplitMix64: every bit of the input reaches every bit of the output.
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_pinned_because_detector_files_rely_on_them() {
        let mut random = Random::new(7, Stream::Frequencies);
        let got: Vec<String> = (0..3).map(|_| format!("{:.12}", random.normal())).collect();
        assert_eq!(got, ["3.106882642828", "0.176884405892", "-1.574340145616"]);
    }

    #[test]
    fn streams_of_one_seed_differ() {
        let first = |stream| Random::new(1, stream).uniform();
        assert_ne!(first(Stream::Frequencies), first(Stream::Phases));
    }

    #[test]
    fn normal_and_cauchy_have_their_quantiles() {
        let mut random = Random::new(3, Stream::Frequencies);
        let n = 40_000;
        let inside = (0..n).filter(|_| random.normal().abs() < 0.674_489_75).count();
        assert!((inside as f64 / n as f64 - 0.5).abs() < 0.01);
        let inside = (0..n).filter(|_| random.cauchy().abs() < 1.0).count();
        assert!((inside as f64 / n as f64 - 0.5).abs() < 0.01);
    }

    #[test]
    fn sample_gives_distinct_sorted_numbers_and_everything_when_asked() {
        let mut random = Random::new(3, Stream::Landmarks);
        let sample = random.sample(1000, 100);
        assert!(sample.windows(2).all(|w| w[0] < w[1]) && sample[99] < 1000);
        assert_eq!(random.sample(5, 5), [0, 1, 2, 3, 4]);
        assert!(random.sample(5, 0).is_empty());
    }
}
