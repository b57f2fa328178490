//! Counts of numbers in equal bins, and how far two histograms are apart.

/// Equal bins between two numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bins {
    pub(crate) low: f64,
    pub(crate) high: f64,
    count: usize,
}

impl Bins {
    pub(crate) fn new(low: f64, high: f64, count: usize) -> Self {
        Bins { low, high, count }
    }

    /// The bin of a number, the last one with its upper end; none outside.
    pub(crate) fn of(&self, x: f64) -> Option<usize> {
        if !(self.low..=self.high).contains(&x) {
            return None;
        }
        if self.low >= self.high {
            // All numbers are the same, and in the first.
            return Some(0);
        }
        let share = (x - self.low) / (self.high - self.low);
        let bin = ((share * self.count as f64) as usize).min(self.count - 1);
        // Rounding may put a number on the wrong side of an edge.
        if x < self.edge(bin) {
            Some(bin - 1)
        } else if bin + 1 < self.count && x >= self.edge(bin + 1) {
            Some(bin + 1)
        } else {
            Some(bin)
        }
    }

    fn edge(&self, bin: usize) -> f64 {
        let width = (self.high - self.low) / self.count as f64;
        if bin == 0 { self.low } else { self.low + bin as f64 * width }
    }

    /// How many of these numbers are in each bin; those outside are in none.
    pub(crate) fn counts<'a>(&self, numbers: impl Iterator<Item = &'a f64>) -> Vec<u64> {
        let mut counts = vec![0; self.count];
        numbers.filter_map(|x| self.of(*x)).for_each(|bin| counts[bin] += 1);
        counts
    }
}

/// The symmetric Kullback–Leibler divergence of two histograms, the first smoothed by the mean of `width`
/// bins with its ends repeated, after `epsilon` is added to both and both are brought to a sum of 1.
pub(crate) fn smoothed_divergence(
    shares: &[f64],
    typical: &[f64],
    width: usize,
    epsilon: f64,
) -> f64 {
    let last = shares.len() - 1;
    let before = (width - 1) / 2;
    let smoothed = (0..shares.len()).map(|bin| {
        let at = |place: usize| shares[(bin + place).saturating_sub(before).min(last)];
        (0..width).map(at).sum::<f64>() / width as f64 + epsilon
    });
    let smoothed: Vec<f64> = smoothed.collect();
    let whole: f64 = smoothed.iter().sum();
    let typical_whole: f64 = typical.iter().map(|share| share + epsilon).sum();
    let part = |(a, b): (&f64, &f64)| {
        let (a, b) = (a / whole, (b + epsilon) / typical_whole);
        (a - b) * (a / b).ln()
    };
    smoothed.iter().zip(typical).map(part).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_the_bin_whose_edges_it_lies_between() {
        let bins = Bins::new(-1.3, 2.9, 7);
        for i in 0..7 {
            assert_eq!(bins.of(bins.edge(i)), Some(i));
        }
        assert_eq!(bins.of(2.9), Some(6));
        assert_eq!(
            (bins.of(-1.300_001), bins.of(2.900_001), bins.of(f64::NAN)),
            (None, None, None)
        );
        assert_eq!(bins.counts([-1.3, 0.0, 5.0, 2.9].iter()), [1, 0, 1, 0, 0, 0, 1]);
        assert_eq!(Bins::new(2.0, 2.0, 4).of(2.0), Some(0));
    }

    #[test]
    fn divergence_by_hand_with_ends_repeated() {
        // Smoothed over two bins: [(1 + 0)/2, (0 + 3)/2, 3] of [1, 0, 3].
        let sum = 0.5 + 1.5 + 3.0 + 0.3;
        let a = [0.6 / sum, 1.6 / sum, 3.1 / sum];
        let b = [1.1 / 3.3, 1.1 / 3.3, 1.1 / 3.3];
        let expected: f64 = (0..3).map(|i| (a[i] - b[i]) * f64::ln(a[i] / b[i])).sum();
        let got = smoothed_divergence(&[1.0, 0.0, 3.0], &[1.0, 1.0, 1.0], 2, 0.1);
        assert!((got - expected).abs() < 1e-14);
        assert_eq!(smoothed_divergence(&[0.5, 0.5], &[0.5, 0.5], 1, 0.01), 0.0);
    }
}
