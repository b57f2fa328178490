//! Counters, histograms, and how Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters by a label.
#[derive(Debug)]
pub(crate) struct Counters<K>(Mutex<BTreeMap<K, u64>>);

impl<K> Default for Counters<K> {
    fn default() -> Self {
        Counters(Mutex::default())
    }
}

impl<K: Ord + Clone> Counters<K> {
    pub(crate) fn add(&self, key: K) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default() += 1;
    }

    pub(crate) fn all(&self) -> Vec<(K, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(key, count)| (key.clone(), *count)).collect()
    }
}

/// How often values lay up to each bound.
#[derive(Debug)]
pub(crate) struct Histogram {
    /// Ascending.
    bounds: Vec<f64>,
    /// One more than bounds.
    counts: Vec<AtomicU64>,
    /// The bits of a sum.
    sum: AtomicU64,
}

impl Histogram {
    pub(crate) fn new(bounds: Vec<f64>) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum: AtomicU64::new(0f64.to_bits()) }
    }

    pub(crate) fn add(&self, value: f64) {
        self.add_all(std::iter::once(value));
    }

    pub(crate) fn add_all(&self, values: impl Iterator<Item = f64>) {
        let mut sum = 0.0;
        for value in values {
            let place = self.bounds.partition_point(|&bound| bound < value);
            self.counts[place].fetch_add(1, Ordering::Relaxed);
            // An infinite score would make the sum useless for ever.
            sum += if value.is_finite() { value } else { 0.0 };
        }
        let add = |bits: u64| Some((f64::from_bits(bits) + sum).to_bits());
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    pub(crate) fn bounds(&self) -> &[f64] {
        &self.bounds
    }

    /// How many values lie in each part.
    pub(crate) fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    pub(crate) fn sum(&self) -> f64 {
        f64::from_bits(self.sum.load(Ordering::Relaxed))
    }
}

/// The value below which a share of the counted values lies, as far as bounds tell; none without values.
pub(crate) fn quantile(bounds: &[f64], counts: &[u64], share: f64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return None;
    }
    let wanted = share * total as f64;
    let mut below = 0.0;
    for (place, &count) in counts.iter().enumerate() {
        let here = count as f64;
        if here > 0.0 && below + here >= wanted {
            let low = if place == 0 { 0.0 } else { bounds[place - 1] };
            let high = bounds.get(place).copied().unwrap_or(low);
            return Some(low + (high - low) * (wanted - below) / here);
        }
        below += here;
    }
    bounds.last().copied()
}

/// Times from 50 µs to 30 s.
pub(crate) fn time_bounds() -> Vec<f64> {
    vec![
        0.00005, 0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005,
        0.0075, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0,
    ]
}

/// Powers of two up to the largest batch.
pub(crate) fn batch_bounds(largest: usize) -> Vec<f64> {
    let powers = std::iter::successors(Some(1usize), |rows| rows.checked_mul(2));
    powers.take_while(|rows| *rows < 2 * largest).map(|rows| rows as f64).collect()
}

/// Metrics as text, family by family.
#[derive(Default)]
pub(crate) struct Exposition {
    text: String,
}

/// Labels of a sample.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Exposition {
    /// Begins a family.
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    pub(crate) fn sample(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        self.text.push_str(name);
        if !labels.is_empty() {
            self.text.push('{');
            for (k, (label, value)) in labels.iter().enumerate() {
                let comma = if k == 0 { "" } else { "," };
                let _ = write!(self.text, "{comma}{label}=\"{}\"", escaped(value));
            }
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {}", number(value));
    }

    pub(crate) fn histogram(&mut self, name: &str, labels: Labels<'_>, histogram: &Histogram) {
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        let ends = histogram.bounds.iter().copied().chain([f64::INFINITY]);
        for (end, count) in ends.zip(histogram.counts()) {
            below += count;
            let end = number(end);
            let labels: Vec<(&str, &str)> =
                labels.iter().copied().chain([("le", end.as_str())]).collect();
            self.sample(&bucket, &labels, below as f64);
        }
        self.sample(&format!("{name}_sum"), labels, histogram.sum());
        self.sample(&format!("{name}_count"), labels, below as f64);
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}

fn number(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_up_to_each_bound() {
        let histogram = Histogram::new(vec![1.0, 2.0]);
        histogram.add_all([0.5, 1.0, 1.5, 9.0, f64::NEG_INFINITY].into_iter());
        assert_eq!(histogram.counts(), [3, 1, 1]);
        let mut text = Exposition::default();
        text.family("x_seconds", "histogram", "Times.");
        text.histogram("x_seconds", &[("model", "a\"b")], &histogram);
        assert_eq!(
            text.finish(),
            "# HELP x_seconds Times.\n# TYPE x_seconds histogram\n\
             x_seconds_bucket{model=\"a\\\"b\",le=\"1\"} 3\n\
             x_seconds_bucket{model=\"a\\\"b\",le=\"2\"} 4\n\
             x_seconds_bucket{model=\"a\\\"b\",le=\"+Inf\"} 5\n\
             x_seconds_sum{model=\"a\\\"b\"} 12\nx_seconds_count{model=\"a\\\"b\"} 5\n"
        );
    }

    #[test]
    fn quantiles_lie_between_the_bounds_around_them() {
        let bounds = [1.0, 2.0, 4.0];
        assert_eq!(quantile(&bounds, &[0, 0, 0, 0], 0.5), None);
        assert_eq!(quantile(&bounds, &[0, 10, 0, 0], 0.5), Some(1.5));
        assert_eq!(quantile(&bounds, &[5, 0, 5, 0], 0.9), Some(3.6));
        assert_eq!(quantile(&bounds, &[0, 0, 0, 3], 0.5), Some(4.0));
        assert_eq!(batch_bounds(1000).last(), Some(&1024.0));
    }
}
