//! How well scores tell two sets apart.

use numpy::PyReadonlyArray1;
use offspan::metrics::{EvalOptions, FprRule, IntervalMethod};
use pyo3::prelude::*;

use crate::errors::{exception, input_error};
use crate::gate::work;

/// Every metric of a pair of sets, as JSON.
#[pyfunction]
#[pyo3(signature = (ind, ood, *, tpr, rule, interval, level, seed))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn evaluate(
    py: Python<'_>,
    ind: PyReadonlyArray1<'_, f64>,
    ood: PyReadonlyArray1<'_, f64>,
    tpr: f64,
    rule: &str,
    interval: Option<&str>,
    level: f64,
    seed: u64,
) -> PyResult<String> {
    let options = eval_options(py, tpr, rule, interval, level, seed)?;
    let (ind, ood) = (ind.as_array().to_vec(), ood.as_array().to_vec());
    let evaluation = work(py, None, |_| {
        offspan::metrics::evaluate(&ind, &ood, &options).map_err(offspan::Error::from)
    })?;
    Ok(serde_json::json!(evaluation).to_string())
}

/// How scores are judged, from what Python gave.
pub(crate) fn eval_options(
    py: Python<'_>,
    tpr: f64,
    rule: &str,
    interval: Option<&str>,
    level: f64,
    seed: u64,
) -> PyResult<EvalOptions> {
    let rule: FprRule =
        rule.parse().map_err(|error| input_error(py, format!("fpr_rule: {error}")))?;
    let interval: Option<IntervalMethod> = interval
        .map(|text| text.parse().map_err(|error| input_error(py, format!("interval: {error}"))))
        .transpose()?;
    let options = EvalOptions { tpr, rule, interval, level, seed };
    options.check().map_err(|error| exception(py, &error.into()))?;
    Ok(options)
}
