//! Some rows of a dataset, as a dataset.

use std::sync::Arc;

use ndarray::{ArrayViewMut2, Axis};

use crate::Result;
use crate::io::{Dataset, FeatureSource, Labels};

/// Rows of a source, by their numbers.
struct Selected {
    source: Arc<dyn FeatureSource>,
    rows: Arc<[usize]>,
}

impl Selected {
    fn each(
        &self,
        start: usize,
        count: usize,
        mut read: impl FnMut(usize, usize) -> Result<()>,
    ) -> Result<()> {
        self.rows[start..start + count]
            .iter()
            .enumerate()
            .try_for_each(|(to, &from)| read(from, to))
    }
}

impl FeatureSource for Selected {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn width(&self) -> usize {
        self.source.width()
    }

    fn name(&self) -> &str {
        self.source.name()
    }

    fn read_f32(&self, start: usize, mut out: ArrayViewMut2<'_, f32>) -> Result<()> {
        self.each(start, out.nrows(), |from, to| {
            self.source
                .read_f32(from, out.view_mut().split_at(Axis(0), to).1.split_at(Axis(0), 1).0)
        })
    }

    fn read_f64(&self, start: usize, mut out: ArrayViewMut2<'_, f64>) -> Result<()> {
        self.each(start, out.nrows(), |from, to| {
            self.source
                .read_f64(from, out.view_mut().split_at(Axis(0), to).1.split_at(Axis(0), 1).0)
        })
    }
}

/// The rows whose labels are classes, and those whose labels are negative, which pytorch-ood and OpenOOD mean as
/// out-of-distribution. Logits go with the rows; the latter have no labels.
pub(super) fn by_sign(
    data: Dataset<'static>,
    labels: &[i64],
) -> Result<(Option<Dataset<'static>>, Option<Dataset<'static>>)> {
    let pick = |wanted: &dyn Fn(i64) -> bool| -> Arc<[usize]> {
        labels.iter().enumerate().filter(|(_, label)| wanted(**label)).map(|(row, _)| row).collect()
    };
    let (known, unknown) = (pick(&|label| label >= 0), pick(&|label| label < 0));
    let Dataset { name, features, logits, .. } = data;
    let features: Arc<dyn FeatureSource> = features.into();
    let logits: Option<Arc<dyn FeatureSource>> = logits.map(Into::into);
    let part = |rows: &Arc<[usize]>| -> Result<Option<Dataset<'static>>> {
        if rows.is_empty() {
            return Ok(None);
        }
        let select = |source: &Arc<dyn FeatureSource>| Selected {
            source: source.clone(),
            rows: rows.clone(),
        };
        let mut dataset = Dataset::new(name.clone(), select(&features));
        if let Some(logits) = &logits {
            dataset = dataset.with_logits(select(logits))?;
        }
        Ok(Some(dataset))
    };
    let classes: Vec<i64> = known.iter().map(|&row| labels[row]).collect();
    let known =
        part(&known)?.map(|dataset| dataset.with_labels(Labels::from(&classes[..]))).transpose()?;
    Ok((known, part(&unknown)?))
}
