//! Seeded noise for what the data leave open.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What the noise is for: each use draws from a stream of its own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stream {
    Block = 1,
    SecondAxis = 2,
}

/// Draws uniform numbers of [−1, 1).
pub(super) fn uniform(seed: u64, stream: Stream) -> impl FnMut() -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream as u64);
    move || (rng.next_u64() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_fill_the_interval_and_streams_differ() {
        let mut draw = uniform(5, Stream::Block);
        let values: Vec<f64> = (0..4000).map(|_| draw()).collect();
        assert!(values.iter().all(|value| (-1.0..1.0).contains(value)));
        // The standard error of the mean is 0.009, that of the mean square 0.005.
        assert!(values.iter().sum::<f64>().abs() < 0.04 * 4000.0);
        let square = values.iter().map(|value| value * value).sum::<f64>() / 4000.0;
        assert!((square - 1.0 / 3.0).abs() < 0.02);
        assert_ne!(uniform(5, Stream::SecondAxis)(), values[0]);
        assert_ne!(uniform(6, Stream::Block)(), values[0]);
    }
}
