//! Methods compared on a pack: those of the library, and the caller's own.

use std::cell::RefCell;
use std::path::PathBuf;

use numpy::{IntoPyArray, PyReadonlyArray1};
use offspan::Silent;
use offspan::io::{Dataset, Head, Pack, read_rows};
use offspan_study::StudyError;
use offspan_study::evaluation::{Evaluator, OwnDetector, OwnMethod, Sets, TableView, document};
use pyo3::prelude::*;

use crate::errors::{exception, input_error};
use crate::gate::work;
use crate::method::Method;
use crate::metrics::eval_options;

/// Fits and judges methods on a pack: the `offspan.eval/1` document as JSON, and a table as Markdown.
/// Each method has a name and is a `Method` or the caller's own, with `fit(features, logits, labels,
/// weight, bias)` and `score(features, logits)`.
#[pyfunction]
#[pyo3(signature = (pack, methods, *, tpr, rule, interval, level, seed, progress=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn evaluate_pack(
    py: Python<'_>,
    pack: PathBuf,
    methods: Vec<(String, Bound<'_, PyAny>)>,
    tpr: f64,
    rule: &str,
    interval: Option<&str>,
    level: f64,
    seed: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String)> {
    let options = eval_options(py, tpr, rule, interval, level, seed)?;
    let pack = Pack::open(&pack).map_err(|error| exception(py, &error))?;
    let sets = Sets::of(&pack).map_err(|error| study_exception(py, &error))?;
    let (mut known, mut own) = (Vec::new(), Vec::new());
    for (name, method) in &methods {
        match method.cast::<Method>() {
            Ok(method) => known.push((name.clone(), method.get().spec.clone())),
            Err(_) => own.push(Own::new(name, method)),
        }
    }
    let told = |error: StudyError| study_exception(py, &error);
    let mut evaluator = Evaluator::new(sets, options).map_err(told)?;
    if !known.is_empty() {
        work(py, progress.as_ref(), |observer| {
            Ok(evaluator.library(known, &|_| true, observer, |_, _| {}))
        })?
        .map_err(told)?;
    }
    for method in &own {
        evaluator.own(method, &Silent).map_err(told)?;
        if let Some(error) = method.raised.take() {
            return Err(error);
        }
    }
    let place = |name: &str| methods.iter().position(|(given, _)| given == name);
    evaluator.sort_by_key(|result| place(&result.method));
    let evaluations = evaluator.finish().map_err(told)?;
    let table = evaluations.table(&options, &TableView::report()).markdown();
    Ok((document(&pack.name, &evaluations, &options).to_string(), table))
}

fn study_exception(py: Python<'_>, error: &StudyError) -> PyErr {
    match error {
        StudyError::Library(error) => exception(py, error),
        other => input_error(py, other.to_string()),
    }
}

/// A Python object that fits and scores.
struct Own {
    name: String,
    object: Py<PyAny>,
    /// What it raised.
    raised: std::rc::Rc<RefCell<Option<PyErr>>>,
}

impl Own {
    fn new(name: &str, object: &Bound<'_, PyAny>) -> Self {
        let raised = std::rc::Rc::default();
        Own { name: name.to_owned(), object: object.clone().unbind(), raised }
    }

    /// Keeps what Python raised, and stops.
    fn keep<T>(&self, result: PyResult<T>) -> offspan::Result<T> {
        result.map_err(|error| {
            let told = error.to_string();
            self.raised.replace(Some(error));
            offspan::Error::Metric(told)
        })
    }
}

impl OwnMethod for Own {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn fit(
        &self,
        train: &Dataset<'_>,
        head: Option<&Head>,
    ) -> offspan::Result<Box<dyn OwnDetector>> {
        let (features, logits) = arrays(train)?;
        let labels = train.labels().map(|labels| labels.read(0..labels.len())).transpose()?;
        Python::attach(|py| {
            let weight = head.map(|head| head.weight().to_owned().into_pyarray(py));
            let bias = head.map(|head| head.bias().to_owned().into_pyarray(py));
            let fitted = self.object.call_method1(
                py,
                "fit",
                (
                    features.into_pyarray(py),
                    logits.map(|logits| logits.into_pyarray(py)),
                    labels.map(|labels| labels.into_pyarray(py)),
                    weight,
                    bias,
                ),
            );
            self.keep(fitted)?;
            let (name, object) = (self.name.clone(), self.object.clone_ref(py));
            Ok(Box::new(Own { name, object, raised: self.raised.clone() }) as Box<dyn OwnDetector>)
        })
    }
}

impl OwnDetector for Own {
    fn score(&self, rows: &Dataset<'_>) -> offspan::Result<Vec<f64>> {
        let (features, logits) = arrays(rows)?;
        Python::attach(|py| {
            let logits = logits.map(|logits| logits.into_pyarray(py));
            let scored = self.object.call_method1(py, "score", (features.into_pyarray(py), logits));
            let scores = self.keep(scored)?;
            let scores: PyResult<PyReadonlyArray1<'_, f64>> = scores.bind(py).extract();
            Ok(self.keep(scores)?.as_array().to_vec())
        })
    }
}

/// Features and logits in memory.
fn arrays(
    data: &Dataset<'_>,
) -> offspan::Result<(ndarray::Array2<f32>, Option<ndarray::Array2<f32>>)> {
    let features = read_rows(data.features(), 0..data.rows())?;
    let logits = data.logits().map(|logits| read_rows(logits, 0..data.rows())).transpose()?;
    Ok((features, logits))
}
