//! Classes for rows that have none: clusters of their directions.

use ndarray::{Array2, s};

use crate::io::observer::{Observer, check_interrupt};
use crate::io::{Dataset, Labels, gather, read_finite};
use crate::numeric::clusters::{centres, nearest_centres};
use crate::numeric::random::{Random, Stream};
use crate::numeric::vector::contiguous_mut;
use crate::span::preprocess::normalise;
use crate::{Error, Result};

/// Rows for each cluster that the centres are found with, and how many there are at least.
const ROWS_EACH: usize = 64;
const ROWS_TO_LEARN: usize = 8192;
/// Rows that are looked at together.
const CHUNK: usize = 4096;

/// Labels from clusters of the rows, for methods that need classes where nobody has named any: k-means of the rows scaled
/// to unit length, which is what embeddings are compared by. Clusters without rows are left out, so that labels are
/// 0, 1, 2, … without gaps. The same rows and seed give the same labels, whatever the number of threads.
///
/// # Errors
/// If there are fewer than two clusters, or fewer than two rows for each, a value is not finite, or the observer asks to
/// stop.
pub fn pseudo_labels(
    data: &Dataset<'_>,
    clusters: usize,
    seed: u64,
    observer: &dyn Observer,
) -> Result<Labels> {
    let rows = data.rows();
    if clusters < 2 || clusters > rows / 2 {
        let expected = format!("2 to {} clusters of {rows} rows, two rows each or more", rows / 2);
        return Err(Error::parameter("pseudo-labels", expected, clusters));
    }
    let mut random = Random::new(seed, Stream::Clusters);
    let learn = rows.min(ROWS_TO_LEARN.max(clusters.saturating_mul(ROWS_EACH)));
    let sample: Vec<usize> =
        random.sample(rows as u64, learn).into_iter().map(|row| row as usize).collect();
    observer.begin("clusters for pseudo-labels", rows as u64);
    let mut few = gather::<f64>(data.features(), &sample)?;
    to_unit(&mut few);
    let centres = centres(&few, clusters, &mut random);
    let mut nearest = Vec::with_capacity(rows);
    let mut block = Array2::<f64>::zeros((CHUNK.min(rows), data.width()));
    for start in (0..rows).step_by(CHUNK) {
        check_interrupt(observer)?;
        let count = CHUNK.min(rows - start);
        read_finite(data.features(), start, block.slice_mut(s![..count, ..]))?;
        to_unit(&mut block);
        nearest.extend(nearest_centres(block.slice(s![..count, ..]), &centres));
        observer.advance(count as u64);
    }
    Ok(Labels::from(&without_gaps(&nearest, centres.nrows())[..]))
}

/// The same rows with such labels.
///
/// # Errors
/// As [`pseudo_labels`], or if the rows have labels already.
pub fn with_pseudo_labels<'a>(
    data: Dataset<'a>,
    clusters: usize,
    seed: u64,
    observer: &dyn Observer,
) -> Result<Dataset<'a>> {
    if data.labels().is_some() {
        let got = format!("{}, which has labels of its own", data.name());
        return Err(Error::parameter("pseudo-labels", "rows without labels", got));
    }
    let labels = pseudo_labels(&data, clusters, seed, observer)?;
    data.with_labels(labels)
}

/// Rows without direction stay as they are.
fn to_unit(rows: &mut Array2<f64>) {
    for mut row in rows.rows_mut() {
        normalise(contiguous_mut(&mut row));
    }
}

/// Numbers of clusters without those that have no rows.
fn without_gaps(nearest: &[usize], clusters: usize) -> Vec<i64> {
    let mut used = vec![false; clusters];
    nearest.iter().for_each(|&cluster| used[cluster] = true);
    let numbers: Vec<i64> = used
        .iter()
        .scan(0, |next, used| {
            let number = *next;
            *next += i64::from(*used);
            Some(number)
        })
        .collect();
    nearest.iter().map(|&cluster| numbers[cluster]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    /// Three directions, of any length.
    fn heaps(rows: usize) -> Array2<f64> {
        Array2::from_shape_fn((rows, 3), |(row, column)| {
            let length = 1.0 + (row % 7) as f64;
            let noise = ((row * 31 + column * 17) % 11) as f64 / 100.0;
            length * (f64::from(u8::from(row % 3 == column)) + noise)
        })
    }

    #[test]
    fn directions_become_classes_whatever_their_lengths() {
        let rows = heaps(300);
        let data = Dataset::new("rows", rows.view());
        let labels = pseudo_labels(&data, 3, 7, &Silent).unwrap().read(0..300).unwrap();
        for row in 0..300 {
            assert_eq!(labels[row], labels[row % 3]);
        }
        let mut of_heaps = labels[..3].to_vec();
        of_heaps.sort_unstable();
        assert_eq!(of_heaps, [0, 1, 2]);
        let again = pseudo_labels(&data, 3, 7, &Silent).unwrap().read(0..300).unwrap();
        assert_eq!(labels, again);
    }

    #[test]
    fn equal_rows_are_one_class_and_too_many_clusters_are_refused() {
        let equal = Array2::<f64>::ones((9, 2));
        let data = Dataset::new("rows", equal.view());
        assert_eq!(pseudo_labels(&data, 4, 0, &Silent).unwrap().read(0..9).unwrap(), [0; 9]);
        for clusters in [0, 1, 5] {
            let error = pseudo_labels(&data, clusters, 0, &Silent).unwrap_err().to_string();
            assert!(error.contains("2 to 4 clusters of 9 rows"), "{error}");
        }
        assert_eq!(without_gaps(&[3, 0, 3], 5), [1, 0, 1]);
    }
}
