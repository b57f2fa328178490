//! How many landmarks there must be: twice as many are tried until the order of the scores stays.

use ndarray::ArrayView1;

use crate::Result;

/// The first number tried, and the largest.
const FEWEST: usize = 256;
const MOST: usize = 2048;
/// Rank correlation of two sets of scores that order rows alike.
const ALIKE: f64 = 0.99;

/// Numbers of landmarks to try on so many rows, ascending; the last is all rows where they are few.
pub(super) fn sizes(rows: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(FEWEST), |&size| Some(2 * size));
    let mut sizes: Vec<usize> = doubled.take_while(|&size| size <= MOST.min(rows)).collect();
    if rows < MOST && sizes.last() != Some(&rows) {
        sizes.push(rows);
    }
    sizes
}

/// Fits with more and more landmarks until the scores of rows that no fit has seen keep their order;
/// `fit` gives a model and those scores.
pub(super) fn enough<M>(
    rows: usize,
    mut fit: impl FnMut(usize) -> Result<(M, Vec<f64>)>,
) -> Result<Option<M>> {
    let mut last: Option<(M, Vec<f64>)> = None;
    for size in sizes(rows) {
        let (model, scores) = fit(size)?;
        let settled = last.as_ref().is_some_and(|(_, before)| {
            rank_correlation(before.as_slice().into(), scores.as_slice().into()) >= ALIKE
        });
        last = Some((model, scores));
        if settled {
            break;
        }
    }
    Ok(last.map(|(model, _)| model))
}

/// Spearman's rank correlation; 1 where either side has one value only.
fn rank_correlation(a: ArrayView1<'_, f64>, b: ArrayView1<'_, f64>) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let middle = (a.len() as f64 - 1.0) / 2.0;
    let product = |x: &[f64], y: &[f64]| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - middle) * (y - middle)).sum()
    };
    let scale = (product(&a, &a) * product(&b, &b)).sqrt();
    if scale > 0.0 { product(&a, &b) / scale } else { 1.0 }
}

/// Ranks from 0 on; equal values share the mean of theirs.
fn ranks(values: ArrayView1<'_, f64>) -> Vec<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn sizes_double_and_end_with_the_rows() {
        assert_eq!(sizes(1_000_000), [256, 512, 1024, 2048]);
        assert_eq!(sizes(2048), [256, 512, 1024, 2048]);
        assert_eq!(sizes(1500), [256, 512, 1024, 1500]);
        assert_eq!(sizes(100), [100]);
        assert_eq!(sizes(256), [256]);
    }

    #[test]
    fn the_search_ends_when_the_order_stays() {
        let mut tried = Vec::new();
        let found = enough(5000, |size| {
            tried.push(size);
            // The order turns round once, then stays.
            let sign = if size < 512 { -1.0 } else { 1.0 };
            Ok((size, (0..50).map(|i| sign * f64::from(i)).collect()))
        });
        assert_eq!((found.unwrap(), tried), (Some(1024), vec![256, 512, 1024]));
    }

    #[test]
    fn rank_correlation_is_spearmans() {
        let rising = array![1.0, 2.0, 3.0, 4.0];
        let of = |other: [f64; 4]| {
            rank_correlation(rising.view(), array![other[0], other[1], other[2], other[3]].view())
        };
        assert_eq!(of([10.0, 20.0, 30.0, 1e9]), 1.0);
        assert_eq!(of([4.0, 3.0, 2.0, 1.0]), -1.0);
        // scipy.stats.spearmanr([1, 2, 3, 4], [2, 1, 1, 5])
        assert!((of([2.0, 1.0, 1.0, 5.0]) - 0.316_227_766_016_837_94).abs() < 1e-12);
        assert_eq!(of([7.0; 4]), 1.0);
    }
}
