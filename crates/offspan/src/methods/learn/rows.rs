//! The rows that may be learned from, and how batches of them are read.

use ndarray::{Array2, Axis};
use rayon::prelude::*;

use crate::error::in_order;
use crate::methods::kpca::read_block;
use crate::numeric::random::{Random, Stream};
use crate::training::Training;
use crate::{Preprocess, Real, Result};

/// Rows that one task reads.
const PART: usize = 64;

/// The kept rows of a training set, by row number: 8 bytes a row.
pub(super) struct KeptRows(Vec<usize>);

impl KeptRows {
    pub(super) fn new(training: &Training<'_>) -> Self {
        KeptRows(training.kept())
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// A uniform sample without replacement, ascending; all rows if there are not as many.
    pub(super) fn sample(
        &self,
        count: usize,
        seed: u64,
        stream: Stream,
        number: u32,
    ) -> Vec<usize> {
        let count = count.min(self.0.len());
        let ranks = Random::numbered(seed, stream, number).sample(self.0.len() as u64, count);
        ranks.into_iter().map(|rank| self.0[rank as usize]).collect()
    }

    /// The kept rows without `aside`, which is ascending.
    pub(super) fn without(self, aside: &[usize]) -> Vec<usize> {
        let mut rows = self.0;
        rows.retain(|row| aside.binary_search(row).is_err());
        rows
    }
}

/// Reads rows (ascending, so that a file is read forwards) in parallel.
pub(super) fn read_batch<T: Real>(
    training: &Training<'_>,
    rows: &[usize],
    preprocess: Preprocess,
) -> Result<Array2<T>> {
    let mut batch = Array2::from_elem((rows.len(), training.data.width()), T::default());
    let parts = batch
        .axis_chunks_iter_mut(Axis(0), PART)
        .into_par_iter()
        .zip(rows.par_chunks(PART))
        .map(|(part, rows)| read_block(training.data, rows, preprocess, part))
        .collect();
    in_order(parts)?;
    Ok(batch)
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::Silent;
    use crate::io::Dataset;

    /// All rows, nobody watching.
    pub(in crate::methods::learn) fn training<'a>(data: &'a Dataset<'a>) -> Training<'a> {
        Training::new(data, None, &Silent)
    }

    /// What `work` gives with this many threads.
    pub(in crate::methods::learn) fn with_threads<R: Send>(
        threads: usize,
        work: impl FnOnce() -> R + Send,
    ) -> R {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::training;
    use super::*;
    use crate::io::Dataset;
    use crate::{Error, HoldOut};

    #[test]
    fn held_out_rows_are_never_sampled() {
        let features = Array2::<f32>::ones((300, 2));
        let data = Dataset::new("train", features.view());
        let hold_out = HoldOut::new(0.3, 5);
        let training = Training { hold_out, ..training(&data) };
        let kept = KeptRows::new(&training);
        let sample = kept.sample(50, 1, Stream::Batches, 0);
        assert!(sample.len() == 50 && sample.iter().all(|&row| hold_out.keeps(row)));
        assert_ne!(sample, kept.sample(50, 1, Stream::Batches, 1));
        let (count, rest) = (kept.count(), kept.without(&sample));
        assert_eq!(rest.len(), count - 50);
        assert!(rest.iter().all(|row| hold_out.keeps(*row) && !sample.contains(row)));
    }

    #[test]
    fn bad_rows_are_named_by_their_own_numbers() {
        let mut features = Array2::<f32>::ones((9, 2));
        features.row_mut(4).fill(0.0);
        features[[7, 1]] = f32::NAN;
        let data = Dataset::new("train", features.view());
        let preprocess = Preprocess { clip: None, cosine: true };
        let read = |rows: &[usize]| read_batch::<f64>(&training(&data), rows, preprocess);
        assert!(read(&[0, 3, 8]).is_ok());
        assert!(matches!(read(&[2, 4]), Err(Error::ZeroRow { row: 4, .. })));
        assert!(matches!(read(&[1, 7]), Err(Error::NotFinite { row: 7, column: 1, .. })));
    }
}
