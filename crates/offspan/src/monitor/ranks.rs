//! An ordered bag of scores that tells how many lie below a value.

use std::ops::Range;

/// A bucket that reaches this is split in two. Larger buckets cost more to insert into, smaller
/// ones more to count over. A power of two, where the room that a vector grows to ends.
const LARGEST_BUCKET: usize = 2048;

/// Scores in ascending order (that of [`f64::total_cmp`]), each as often as it was inserted.
///
/// They lie in buckets: no bucket is empty, and none holds a value below one of an earlier bucket.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranks {
    buckets: Vec<Vec<f64>>,
    len: usize,
}

impl Ranks {
    /// A bag of values that are in ascending order.
    pub(super) fn from_sorted(values: &[f64]) -> Self {
        debug_assert!(values.is_sorted_by(|a, b| a.total_cmp(b).is_le()));
        // Half full, so that the first inserts do not split every bucket.
        let buckets = values.chunks(LARGEST_BUCKET / 2).map(<[f64]>::to_vec).collect();
        Ranks { buckets, len: values.len() }
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many values are below this one, and how many are equal to it.
    pub(super) fn count(&self, value: f64) -> (usize, usize) {
        let (first, before) = self.find(|other| other.total_cmp(&value).is_lt());
        let (last, up_to) = self.find(|other| other.total_cmp(&value).is_le());
        let below = self.rows_in(0..first) + before;
        // Ties may fill many buckets.
        let equal = self.rows_in(first..last) + up_to - before;
        (below, equal)
    }

    /// Adds a value.
    pub(super) fn insert(&mut self, value: f64) {
        self.len += 1;
        let (mut found, mut place) = self.find(|other| other.total_cmp(&value).is_lt());
        if found == self.buckets.len() {
            // Above all others: at the end of the last bucket.
            found = found.saturating_sub(1);
            place = self.buckets.last().map_or(0, Vec::len);
        }
        let Some(bucket) = self.buckets.get_mut(found) else {
            self.buckets.push(vec![value]);
            return;
        };
        bucket.insert(place, value);
        if bucket.len() >= LARGEST_BUCKET {
            let upper = bucket.split_off(LARGEST_BUCKET / 2);
            self.buckets.insert(found + 1, upper);
        }
    }

    /// All values, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = f64> {
        self.buckets.iter().flatten().copied()
    }

    /// Where a condition ends that only the first values fulfil: the bucket, and how many of its
    /// values fulfil the condition.
    fn find(&self, condition: impl Fn(&f64) -> bool) -> (usize, usize) {
        let ends_before = |bucket: &Vec<f64>| bucket.last().is_some_and(&condition);
        let found = self.buckets.partition_point(ends_before);
        (found, self.buckets.get(found).map_or(0, |bucket| bucket.partition_point(&condition)))
    }

    /// How many values some buckets hold.
    fn rows_in(&self, buckets: Range<usize>) -> usize {
        self.buckets[buckets].iter().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::uniform::uniform;

    /// Values with many ties and −∞ among them.
    fn values(count: usize) -> Vec<f64> {
        let value = |row| match uniform(3, row) {
            u if u < 0.1 => f64::NEG_INFINITY,
            u if u < 0.5 => (u * 20.0).floor(),
            u => u * 10.0,
        };
        (0..count as u64).map(value).collect()
    }

    fn agrees_with_sorted(ranks: &Ranks, sorted: &[f64]) {
        assert_eq!(ranks.len(), sorted.len());
        assert!(ranks.iter().eq(sorted.iter().copied()));
        let between = [f64::NEG_INFINITY, -1.0, 4.0, 4.5, 1e9, f64::INFINITY];
        for value in sorted.iter().step_by(97).copied().chain(between) {
            let below = sorted.iter().filter(|&&other| other < value).count();
            let equal = sorted.iter().filter(|&&other| other == value).count();
            assert_eq!(ranks.count(value), (below, equal), "{value}");
        }
    }

    #[test]
    fn counts_like_a_sorted_list_however_it_was_built() {
        for (at_once, inserted) in [(0, 0), (0, 1), (1, 0), (3000, 0), (0, 9000), (700, 9000)] {
            let mut sorted = values(at_once + inserted);
            sorted[..at_once].sort_by(f64::total_cmp);
            let mut ranks = Ranks::from_sorted(&sorted[..at_once]);
            sorted[at_once..].iter().for_each(|&value| ranks.insert(value));
            sorted.sort_by(f64::total_cmp);
            agrees_with_sorted(&ranks, &sorted);
        }
    }

    #[test]
    fn sorted_input_and_ties_alone_keep_the_buckets_small() {
        let ascending: Vec<f64> = (0..5000).map(f64::from).collect();
        let descending: Vec<f64> = ascending.iter().rev().copied().collect();
        for mut input in [ascending, descending, vec![1.0; 5000]] {
            let mut ranks = Ranks::default();
            input.iter().for_each(|&value| ranks.insert(value));
            assert!(ranks.buckets.iter().all(|b| !b.is_empty() && b.capacity() <= LARGEST_BUCKET));
            input.sort_by(f64::total_cmp);
            agrees_with_sorted(&ranks, &input);
        }
    }
}
