//! A fitted method: scores rows, and turns into tensors and back.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use ndarray::{Array1, Array2};
use serde::{Deserialize, Serialize};

use super::explained::{Explained, ScoreTerm};
use crate::graph::{Builder, Size, Value};
use crate::io::{Dataset, Head, TensorFile, TensorWriter};
use crate::methods::kpca::{EnsembleSummary, KpcaModel, KpcaSummary};
use crate::methods::rectify::StepSummary;
use crate::training::logits::{LogitSource, Need, head_graph};
use crate::{Error, Real, Result};

/// What a row is to a score within a graph.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowValues {
    /// [N, m].
    pub(crate) features: Value,
    /// [N, C], where they follow from steps before the score; else a score takes them from its own last layer,
    /// or asks for them.
    pub(crate) logits: Option<Value>,
}

/// A fitted method.
pub(crate) trait Scorer: Debug + Send + Sync {
    /// Fails unless `data` has all that scoring needs.
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        let _ = data;
        Ok(())
    }

    /// Tensors besides features and logits that a row must carry.
    fn extras(&self) -> &'static [&'static str] {
        &[]
    }

    /// Scores of rows from `start` on, on the calling thread.
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()>;

    /// The arithmetic of the score, [N], as a graph for other runtimes.
    ///
    /// The default says that there is none; a method whose arithmetic ONNX has overrides it.
    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let _ = (rows, builder);
        Err(not_exportable("its arithmetic has no operators in a graph"))
    }

    /// The parts of a joint score; none where there are no parts.
    fn terms(&self) -> Vec<ScoreTerm> {
        Vec::new()
    }

    /// What the parts of a joint score say of rows from `start` on; none where there are no parts.
    fn explain(&self, data: &Dataset<'_>, start: usize, count: usize) -> Result<Option<Explained>> {
        let _ = (data, start, count);
        Ok(None)
    }

    /// What a file keeps besides parameters and tensors.
    fn summary(&self) -> ModelSummary {
        ModelSummary::Baseline { found: self.found() }
    }

    /// Numbers that the fit found and that are worth telling; scoring may need them, too.
    fn found(&self) -> Found {
        Found::new()
    }

    /// The same without the numbers that belong to a part of a joint score.
    fn found_besides_terms(&self) -> Found {
        self.found()
    }

    /// The kernel PCA models inside.
    fn kpca(&self) -> Vec<&KpcaModel> {
        Vec::new()
    }

    /// Puts the model's tensors into a file, each under `prefix`.
    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>);
}

/// A fitted method; detectors that are copies of one another share it.
pub(crate) type Model = Arc<dyn Scorer>;

/// Numbers that a fit found, by name.
pub type Found = BTreeMap<String, f64>;

/// What a detector file keeps of a model besides its parameters and tensors.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "family", rename_all = "kebab-case")]
pub(crate) enum ModelSummary {
    Kpca(KpcaSummary),
    KpcaEnsemble(EnsembleSummary),
    Baseline { found: Found },
    LearnedKpca { found: Found, kpca: KpcaSummary },
    Rectified { steps: Vec<StepSummary>, score: Box<ModelSummary> },
}

/// The kinds of results, of which each method has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Results {
    Kpca,
    KpcaEnsemble,
    Baseline,
    LearnedKpca,
    Rectified,
}

impl ModelSummary {
    pub(crate) fn kind(&self) -> Results {
        match self {
            ModelSummary::Kpca(_) => Results::Kpca,
            ModelSummary::KpcaEnsemble(_) => Results::KpcaEnsemble,
            ModelSummary::Baseline { .. } => Results::Baseline,
            ModelSummary::LearnedKpca { .. } => Results::LearnedKpca,
            ModelSummary::Rectified { .. } => Results::Rectified,
        }
    }
}

/// Reads the tensors of one model in a detector file.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub(crate) file: &'a TensorFile,
    pub(crate) prefix: &'a str,
    pub(crate) summary: &'a ModelSummary,
    /// What the fit found, where the summary says so.
    pub(crate) found: &'a Found,
    /// Width of the features.
    pub(crate) width: usize,
}

static NOTHING: Found = Found::new();

impl<'a> Stored<'a> {
    pub(crate) fn new(
        file: &'a TensorFile,
        prefix: &'a str,
        summary: &'a ModelSummary,
        width: usize,
    ) -> Self {
        let found = match summary {
            ModelSummary::Baseline { found } | ModelSummary::LearnedKpca { found, .. } => found,
            ModelSummary::Kpca(_)
            | ModelSummary::KpcaEnsemble(_)
            | ModelSummary::Rectified { .. } => &NOTHING,
        };
        Stored { file, prefix, summary, found, width }
    }

    /// What a fit of kernel PCA left, alone or with something learned before it.
    pub(crate) fn kpca(&self) -> Result<&'a KpcaSummary> {
        match self.summary {
            ModelSummary::Kpca(kpca) | ModelSummary::LearnedKpca { kpca, .. } => Ok(kpca),
            _ => unreachable!("the kind of results was checked"),
        }
    }

    /// An array of this shape.
    pub(crate) fn matrix<T: Real>(
        &self,
        name: &str,
        rows: Option<usize>,
        columns: usize,
    ) -> Result<Array2<T>> {
        let array: Array2<T> = self.file.array2(&format!("{}{name}", self.prefix))?;
        let (expected_rows, got) = (rows.unwrap_or(array.nrows()), array.dim());
        if got != (expected_rows, columns) {
            return Err(Error::shape(
                format!("`{}{name}` of the detector", self.prefix),
                match rows {
                    Some(rows) => format!("[{rows}, {columns}]"),
                    None => format!("[any, {columns}]"),
                },
                format!("{:?}", array.shape()),
            ));
        }
        Ok(array)
    }

    /// An array of any shape.
    pub(crate) fn matrix_of_any<T: Real>(&self, name: &str) -> Result<Array2<T>> {
        self.file.array2(&format!("{}{name}", self.prefix))
    }

    /// A vector of this length.
    pub(crate) fn vector(&self, name: &str, length: usize) -> Result<Array1<f64>> {
        let array: Array1<f64> = self.file.array1(&format!("{}{name}", self.prefix))?;
        if array.len() != length {
            return Err(Error::shape(
                format!("`{}{name}` of the detector", self.prefix),
                format!("[{length}]"),
                format!("[{}]", array.len()),
            ));
        }
        Ok(array)
    }

    /// A number that the fit found.
    pub(crate) fn number(&self, name: &str) -> Result<f64> {
        let number = self.found.get(name).copied().filter(|number| number.is_finite());
        number.ok_or_else(|| {
            Error::shape("the detector", format!("a finite number `{name}`"), "none")
        })
    }

    pub(crate) fn head(&self) -> Result<Option<Head>> {
        Head::read_optional(self.file, self.prefix, self.width)
    }

    /// The last layer of a method that cannot do without.
    pub(crate) fn required_head(&self) -> Result<Head> {
        self.head()?.ok_or_else(|| Error::shape("the detector", "a last layer", "none"))
    }
}

/// A score that is a number: the worst one where the formula has none.
pub(crate) fn or_worst(score: f64) -> f64 {
    if score.is_nan() { f64::NEG_INFINITY } else { score }
}

/// Why a score has no graph; the detector adds the method's name.
pub(crate) fn not_exportable(reason: impl Into<String>) -> Error {
    Error::NotExportable { method: String::new(), reason: reason.into() }
}

/// Gives rows without direction the worst score there is.
pub(crate) fn put_last(zero_rows: Vec<usize>, out: &mut [f64]) {
    for row in zero_rows {
        out[row] = f64::NEG_INFINITY;
    }
}

/// Logits of the rows to score: their own, or those of the last layer that the detector keeps.
pub(crate) fn logits_of<'a>(
    who: &str,
    data: &'a Dataset<'_>,
    head: Option<&'a Head>,
) -> Result<LogitSource<'a>> {
    LogitSource::of(data, head, None, Need::Score(who))
}

/// The same within a graph: logits that steps before the score left, those of the last layer that the detector
/// keeps, or given ones, of so many classes if that is known.
pub(crate) fn logits_graph(
    rows: RowValues,
    head: Option<&Head>,
    classes: Option<usize>,
    builder: &mut Builder<'_>,
) -> Value {
    match (rows.logits, head) {
        (Some(logits), _) => logits,
        (None, Some(head)) => head_graph(head, rows.features, builder),
        (None, None) => builder.logits(classes),
    }
}

/// The number of classes within a graph; fails if it is left to who gives the logits, for scores that put the logits
/// in order.
pub(crate) fn known_classes(logits: Value, builder: &Builder<'_>) -> Result<usize> {
    match builder.shape(logits).last() {
        Some(Size::Fixed(classes)) => Ok(*classes),
        _ => Err(not_exportable(
            "the number of classes is not known, and the largest probabilities of all are asked for; fit it with \
             the last layer",
        )),
    }
}

/// The same, of as many classes as there were in training.
pub(crate) fn logits_of_classes<'a>(
    who: &str,
    data: &'a Dataset<'_>,
    head: Option<&'a Head>,
    classes: usize,
) -> Result<LogitSource<'a>> {
    let source = logits_of(who, data, head)?;
    if source.classes() == classes {
        return Ok(source);
    }
    Err(Error::shape(
        format!("logits of {}", data.name),
        format!("{classes} columns, as in training"),
        format!("{} columns", source.classes()),
    ))
}

pub(crate) fn write_head<'a>(head: Option<&'a Head>, prefix: &str, writer: &mut TensorWriter<'a>) {
    if let Some(head) = head {
        head.write(prefix, writer);
    }
}
