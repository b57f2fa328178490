//! Which columns of a table hold what, and which files of a folder are a table: the rules of the library, for tables
//! that Python reads.

use std::path::PathBuf;

use offspan::io::{is_parts, tables_among};
use offspan_arrow::choice::{self, Numbers};
use offspan_arrow::{Element, Field, Kind, Problem};
use pyo3::prelude::*;

use crate::errors::input_error;

/// Whether numbers are a list in one column, their columns, and the bytes of the widest of them.
type Columns = (bool, Vec<usize>, usize);

/// A column: its name, what it holds (`list`, `float`, `integer` or `other`), bytes of a float, and its type in words.
type Given = (String, String, usize, String);

fn field((name, kind, bytes, shown): Given) -> Field {
    let element = match bytes {
        2 => Element::F16,
        4 => Element::F32,
        _ => Element::F64,
    };
    let kind = match kind.as_str() {
        "list" => Kind::List(element),
        "float" => Kind::Float(element),
        "integer" => Kind::Integer,
        _ => Kind::Other,
    };
    Field { name, kind, shown }
}

fn columns(numbers: &Numbers) -> Columns {
    let is_list = matches!(numbers, Numbers::List(..));
    (is_list, numbers.positions().to_vec(), numbers.element().size())
}

/// The columns of features, logits and labels; `what` names the table in messages.
#[pyfunction]
#[pyo3(signature = (what, fields, features=None, logits=None, labels=None))]
pub(crate) fn choose_columns(
    py: Python<'_>,
    what: &str,
    fields: Vec<Given>,
    features: Option<&str>,
    logits: Option<&str>,
    labels: Option<&str>,
) -> PyResult<(Columns, Option<Columns>, Option<usize>)> {
    let fields: Vec<Field> = fields.into_iter().map(field).collect();
    let chosen = choice::all(&fields, features, logits, labels)
        .map_err(|problem| choice_error(py, what, &problem))?;
    let logits = chosen.logits.as_ref().map(columns);
    Ok((columns(&chosen.features), logits, chosen.labels))
}

/// The columns of logits in a table of their own.
#[pyfunction]
pub(crate) fn choose_logits(py: Python<'_>, what: &str, fields: Vec<Given>) -> PyResult<Columns> {
    let fields: Vec<Field> = fields.into_iter().map(field).collect();
    let chosen = choice::only_logits(&fields);
    chosen.map(|found| columns(&found)).map_err(|problem| choice_error(py, what, &problem))
}

/// The column of labels in a table of their own.
#[pyfunction]
pub(crate) fn choose_labels(py: Python<'_>, what: &str, fields: Vec<Given>) -> PyResult<usize> {
    let fields: Vec<Field> = fields.into_iter().map(field).collect();
    choice::only_labels(&fields).map_err(|problem| choice_error(py, what, &problem))
}

fn choice_error(py: Python<'_>, what: &str, problem: &Problem) -> PyErr {
    input_error(py, format!("{what}: {problem}"))
}

/// The tables among paths, in the order of their rows.
#[pyfunction]
pub(crate) fn part_files(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    tables_among(paths)
}

/// Whether a folder holds the parts of one dataset.
#[pyfunction]
pub(crate) fn is_part_folder(path: PathBuf) -> bool {
    is_parts(path)
}
