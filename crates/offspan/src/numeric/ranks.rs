//! Ranks, and how well a number tells two groups of rows apart.

/// Ranks from 0 on; equal values share the mean of theirs.
pub(crate) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]).then(i.cmp(&j)));
    let mut ranks = vec![0.0; values.len()];
    let mut done = 0;
    for equal in order.chunk_by(|&i, &j| values[i] == values[j]) {
        let rank = done as f64 + (equal.len() as f64 - 1.0) / 2.0;
        equal.iter().for_each(|&i| ranks[i] = rank);
        done += equal.len();
    }
    ranks
}

/// The share of pairs of which the first value is larger; equal ones count half. None without pairs.
pub(crate) fn share_of_larger(first: &[f64], second: &[f64]) -> Option<f64> {
    let pairs = first.len() * second.len();
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    let sum: f64 = ranks(&all)[..first.len()].iter().sum();
    let smallest = (first.len() * first.len().saturating_sub(1)) as f64 / 2.0;
    (pairs > 0).then(|| (sum - smallest) / pairs as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_a_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
    }

    #[test]
    fn the_share_counts_pairs() {
        let by_pairs = |a: &[f64], b: &[f64]| {
            let one =
                |x: f64, y: f64| f64::from(u8::from(x > y)) + 0.5 * f64::from(u8::from(x == y));
            a.iter().flat_map(|&x| b.iter().map(move |&y| one(x, y))).sum::<f64>()
                / (a.len() * b.len()) as f64
        };
        let (a, b) = ([1.0, 4.0, 4.0, f64::NEG_INFINITY], [4.0, 0.5, 3.0]);
        assert_eq!(share_of_larger(&a, &b), Some(by_pairs(&a, &b)));
        assert_eq!(share_of_larger(&[], &b), None);
    }
}
