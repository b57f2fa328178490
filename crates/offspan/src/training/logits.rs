//! Logits, stored or from features and the last layer, and what follows from them alone: energies
//! E = T·logsumexp(l/T) and probabilities.

use ndarray::{Array2, ArrayView2, ArrayViewMut2};

use crate::error::wording::{Data, Named, Setting};
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, FeatureSource, Head, read_rows};
use crate::numeric::vector::{self, contiguous_mut};
use crate::span::preprocess::clip_row;
use crate::{Error, Real, Result};

/// T·log Σ exp(l/T), with the maximum taken out first.
#[must_use]
pub fn energy<T: Real>(logits: &[T], temperature: f64) -> f64 {
    let Some(largest) = vector::largest(logits) else { return f64::NEG_INFINITY };
    let factor = T::from_double(1.0 / temperature);
    let sum = vector::sum_of_exponentials(logits, largest, factor);
    largest.to_double() + temperature * sum.ln()
}

/// Turns logits into softmax probabilities in place.
pub(crate) fn softmax(logits: &mut [f64]) {
    let largest = logits.iter().fold(f64::NEG_INFINITY, |m, &l| m.max(l));
    let mut sum = 0.0;
    for l in logits.iter_mut() {
        *l = (*l - largest).exp();
        sum += *l;
    }
    logits.iter_mut().for_each(|l| *l /= sum);
}

/// The class with the largest logit; the first of equals.
pub(crate) fn predicted(logits: &[f64]) -> usize {
    let mut best = 0;
    for (class, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = class;
        }
    }
    best
}

/// Whether the class of each row is predicted rightly, if labels are known and logits are stored or follow
/// from the last layer.
///
/// # Errors
/// If rows cannot be read, or the last layer is for rows of another width.
pub fn right_predictions(data: &Dataset<'_>, head: Option<&Head>) -> Result<Option<Vec<bool>>> {
    const ROWS: usize = 1024;
    let Some(labels) = data.labels() else { return Ok(None) };
    if data.logits.is_none() && head.is_none() {
        return Ok(None);
    }
    let source = LogitSource::of(data, head, None, Need::Method("accuracy"))?;
    let mut right = Vec::with_capacity(data.rows());
    for start in (0..data.rows()).step_by(ROWS) {
        let rows = ROWS.min(data.rows() - start);
        let logits = source.logits(start, rows)?;
        let labels = labels.read(start..start + rows)?;
        right.extend(logits.rows().into_iter().zip(labels).map(|(row, label)| {
            usize::try_from(label).is_ok_and(|label| label == predicted(vector::contiguous(&row)))
        }));
    }
    Ok(Some(right))
}

/// Where the logits of a dataset's rows come from.
pub(crate) enum LogitSource<'a> {
    /// Stored logits.
    Logits(&'a dyn FeatureSource),
    /// Features, clipped if asked, through the last layer.
    Head { features: &'a dyn FeatureSource, head: &'a Head, clip: Option<f64> },
}

impl<'a> LogitSource<'a> {
    /// Stored logits where they tell the truth, else the last layer; clipped features always go
    /// through the last layer.
    pub(crate) fn of(
        data: &'a Dataset<'_>,
        head: Option<&'a Head>,
        clip: Option<f64>,
        need: Need<'_>,
    ) -> Result<Self> {
        if let (None, Some(logits)) = (clip, &data.logits) {
            return Ok(LogitSource::Logits(&**logits));
        }
        let head = head.ok_or_else(|| missing(data, clip.is_some(), need))?;
        head.check_width(data.width())?;
        Ok(LogitSource::Head { features: &*data.features, head, clip })
    }

    /// Number of classes.
    pub(crate) fn classes(&self) -> usize {
        match self {
            LogitSource::Logits(logits) => logits.width(),
            LogitSource::Head { head, .. } => head.classes(),
        }
    }

    /// Energies (T = 1) of rows from `start` on.
    pub(crate) fn read(&self, start: usize, out: &mut [f64]) -> Result<()> {
        let logits = self.logits(start, out.len())?;
        for (o, row) in out.iter_mut().zip(logits.rows()) {
            *o = energy(vector::contiguous(&row), 1.0);
        }
        Ok(())
    }

    /// Logits of these rows (ascending numbers).
    pub(crate) fn gather(&self, rows: &[usize]) -> Result<Array2<f64>> {
        let mut out = Array2::zeros((rows.len(), self.classes()));
        for (run, done) in crate::training::runs(rows) {
            let part = self.logits(run.start, run.len())?;
            out.slice_mut(ndarray::s![done..done + run.len(), ..]).assign(&part);
        }
        Ok(out)
    }

    /// Logits of rows from `start` on, on the calling thread.
    pub(crate) fn logits(&self, start: usize, rows: usize) -> Result<Array2<f64>> {
        match self {
            LogitSource::Logits(logits) => read_rows(*logits, start..start + rows),
            LogitSource::Head { features, head, clip } => {
                let mut z = Block::read(*features, start, rows)?;
                if let Some(clip) = clip {
                    clip_row(contiguous_mut(&mut z), *clip);
                }
                Ok(head_logits(head, z.view()))
            }
        }
    }
}

/// W·z + b in double precision, on the calling thread.
pub(crate) fn head_logits(head: &Head, z: ArrayView2<'_, f64>) -> Array2<f64> {
    let mut logits = Array2::zeros((z.nrows(), head.classes()));
    head_logits_into(head, z, logits.view_mut());
    logits
}

pub(crate) fn head_logits_into(
    head: &Head,
    z: ArrayView2<'_, f64>,
    mut out: ArrayViewMut2<'_, f64>,
) {
    crate::numeric::product::unpacked::multiply(out.view_mut(), z, head.weight.t());
    out += &head.bias;
}

/// W·z + b within a graph.
pub(crate) fn head_graph(head: &Head, z: Value, builder: &mut Builder<'_>) -> Value {
    let product = builder.linear("head_weight", z, head.weight.view());
    let bias = builder.vector("head_bias", &head.bias);
    builder.add(product, bias)
}

/// Who asks for logits, and so which way out there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need<'a> {
    /// A fit of kernel PCA, for this purpose.
    Fit(&'a str),
    /// A fit of this method.
    Method(&'a str),
    /// Scoring with a fitted detector, for this purpose.
    Score(&'a str),
}

fn missing(data: &Dataset<'_>, clipped: bool, need: Need<'_>) -> Error {
    let (who, what, hint) = match (need, clipped) {
        (Need::Fit(who) | Need::Method(who), true) => (
            who,
            "the network's last layer",
            format!(
                "clipped activations change the logits, so the stored ones do not serve; give \
                 `weight` and `bias` in head.safetensors of the pack or with {}",
                Data("head")
            ),
        ),
        (Need::Fit(who), false) => (
            who,
            "logits",
            format!(
                "{}; to do without, use {} and no {}",
                logits_or_head(),
                Setting("sampling", "uniform"),
                Named("fuse")
            ),
        ),
        (Need::Method(who), false) => (who, "logits", logits_or_head()),
        (Need::Score(who), true) => (
            who,
            "the network's last layer",
            "the detector was fitted without one; fit it again with head.safetensors in the pack"
                .to_owned(),
        ),
        (Need::Score(who), false) => (
            who,
            "logits",
            format!(
                "store them as `logits` beside `features`, or give them with {}; a detector that \
                 was fitted with the last layer does without",
                Data("logits")
            ),
        ),
    };
    Error::MissingInput { who: format!("{who} on {}", data.name), what, hint }
}

fn logits_or_head() -> String {
    format!(
        "store them as `logits` beside `features`, or give them with {}, or give the last layer's \
         `weight` and `bias` with {}",
        Data("logits"),
        Data("head")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_logsumexp_and_survives_large_logits() {
        assert!((energy(&[1.0, 2.0], 1.0) - (1f64.exp() + 2f64.exp()).ln()).abs() < 1e-14);
        assert!((energy(&[1e4, 1e4], 1.0) - (1e4 + 2f64.ln())).abs() < 1e-9);
        assert!(
            (energy(&[1.0, 2.0], 10.0) - 10.0 * (0.1f64.exp() + 0.2f64.exp()).ln()).abs() < 1e-13
        );
    }

    #[test]
    fn stored_logits_and_head_agree() {
        let z = ndarray::array![[1.0, 2.0], [0.5, -1.0]];
        let head = Head::new(
            ndarray::array![[1.0, 0.0], [2.0, 1.0], [0.0, 1.0]],
            ndarray::array![0.1, 0.2, 0.3],
        )
        .unwrap();
        let logits = z.dot(&head.weight.t()) + &head.bias;
        let data = Dataset::new("z", z.view());
        let read = |source: LogitSource<'_>| {
            let mut out = [0.0; 2];
            source.read(0, &mut out).unwrap();
            out
        };
        let from_head = read(LogitSource::of(&data, Some(&head), None, Need::Fit("test")).unwrap());
        let with = Dataset::new("z", z.view()).with_logits(logits.view()).unwrap();
        let stored = read(LogitSource::of(&with, None, None, Need::Fit("test")).unwrap());
        assert!((from_head[0] - stored[0]).abs() < 1e-6 && (from_head[1] - stored[1]).abs() < 1e-6);
        assert!(LogitSource::of(&data, None, None, Need::Fit("test")).is_err());
        assert!(LogitSource::of(&with, None, Some(1.0), Need::Fit("test")).is_err());
    }
}
