//! NumPy arrays as rows of a dataset, without copies.

use std::ops::Range;
use std::path::{Path, PathBuf};

use half::f16;
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2};
use numpy::{
    PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
};
use offspan::io::{
    Dataset, FeatureSource, Head, Input, Labels, TrainingData, TrainingInputs, open_head,
    open_labels,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{exception, input_error};

/// A borrowed table of numbers of a type that the library reads.
pub(crate) enum Table<'py> {
    F16(PyReadonlyArray2<'py, f16>, bool),
    F32(PyReadonlyArray2<'py, f32>, bool),
    F64(PyReadonlyArray2<'py, f64>, bool),
}

impl<'py> Table<'py> {
    /// Borrows an array. `mapped` says that it is a view of a read-only mapped file.
    pub(crate) fn new(array: &Bound<'py, PyAny>, what: &str, mapped: bool) -> PyResult<Self> {
        let py = array.py();
        let untyped = array.cast::<PyUntypedArray>()?;
        if untyped.ndim() != 2 {
            let text = format!(
                "{what}: expected an array of two dimensions (rows, columns), got shape {:?}",
                untyped.shape()
            );
            return Err(input_error(py, text));
        }
        if let Ok(array) = array.extract::<PyReadonlyArray2<'py, f32>>() {
            return Ok(Table::F32(array, mapped));
        }
        if let Ok(array) = array.extract::<PyReadonlyArray2<'py, f64>>() {
            return Ok(Table::F64(array, mapped));
        }
        if let Ok(array) = array.extract::<PyReadonlyArray2<'py, f16>>() {
            return Ok(Table::F16(array, mapped));
        }
        let text = format!(
            "{what}: expected float16, float32 or float64 in the machine's byte order, got {}",
            untyped.dtype()
        );
        Err(input_error(py, text))
    }

    /// The rows, for threads that do not hold the interpreter.
    pub(crate) fn source<'a>(&'a self, name: &str) -> Box<dyn FeatureSource + 'a> {
        match self {
            Table::F16(array, mapped) => rows(array.as_array(), name, *mapped),
            Table::F32(array, mapped) => rows(array.as_array(), name, *mapped),
            Table::F64(array, mapped) => rows(array.as_array(), name, *mapped),
        }
    }
}

fn rows<'a, T>(view: ArrayView2<'a, T>, name: &str, mapped: bool) -> Box<dyn FeatureSource + 'a>
where
    T: Sync + 'a,
    ArrayView2<'a, T>: FeatureSource,
{
    Box::new(Named { rows: view, name: name.to_owned(), mapped })
}

/// An array with a name for messages.
struct Named<'a, T> {
    rows: ArrayView2<'a, T>,
    name: String,
    mapped: bool,
}

impl<'a, T: Sync> FeatureSource for Named<'a, T>
where
    ArrayView2<'a, T>: FeatureSource,
{
    fn rows(&self) -> usize {
        self.rows.nrows()
    }

    fn width(&self) -> usize {
        self.rows.ncols()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn read_f32(&self, start: usize, out: ArrayViewMut2<'_, f32>) -> offspan::Result<()> {
        let end = start + out.nrows();
        self.rows.read_f32(start, out)?;
        self.forget(start..end);
        Ok(())
    }

    fn read_f64(&self, start: usize, out: ArrayViewMut2<'_, f64>) -> offspan::Result<()> {
        let end = start + out.nrows();
        self.rows.read_f64(start, out)?;
        self.forget(start..end);
        Ok(())
    }
}

/// A page that is touched brings so many bytes around it into memory.
const BROUGHT_ALONG: usize = 64 << 10;

impl<T> Named<'_, T> {
    /// Lets memory go that reading these rows of a mapped file took.
    fn forget(&self, rows: Range<usize>) {
        if let (true, Some(numbers)) = (self.mapped, self.rows.as_slice()) {
            let (width, around) = (self.rows.ncols(), BROUGHT_ALONG / size_of::<T>());
            let start = (rows.start * width).saturating_sub(around);
            let end = (rows.end * width + around).min(numbers.len());
            forget_pages(&numbers[start..end]);
        }
    }
}

/// Drops the whole pages of part of a read-only mapped file from this process's memory; they come
/// back from the file when they are read again.
#[cfg(unix)]
#[allow(unsafe_code)]
fn forget_pages<T>(numbers: &[T]) {
    // SAFETY: asks for a constant of the system.
    let page = match usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }) {
        Ok(page) if page > 0 => page,
        _ => return,
    };
    let bytes = numbers.as_ptr_range();
    let start = (bytes.start as usize).next_multiple_of(page);
    let end = bytes.end as usize / page * page;
    if start < end {
        // SAFETY: the pages lie within a shared, read-only mapping of a file: a dropped one is read
        // from the file again, so no reader can see other bytes.
        let _ =
            unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
}

#[cfg(not(unix))]
fn forget_pages<T>(_: &[T]) {}

/// Features with all that belongs to them, as Python gave them.
pub(crate) struct Given<'py> {
    name: &'static str,
    features: Rows<'py>,
    logits: Option<Rows<'py>>,
    labels: Option<Labels>,
    extras: Vec<(String, Extra<'py>)>,
}

/// Rows in memory or in a file.
enum Rows<'py> {
    Table(Table<'py>),
    File(PathBuf),
}

impl<'py> Rows<'py> {
    fn new(given: &Bound<'py, PyAny>, what: &str) -> PyResult<Self> {
        if let Ok(path) = given.extract::<PathBuf>() {
            return Ok(Rows::File(path));
        }
        let mapped = is_read_only_map(given)?;
        Ok(Rows::Table(Table::new(given, what, mapped)?))
    }
}

/// Another tensor, row by row.
struct Extra<'py> {
    array: PyReadonlyArrayDyn<'py, f32>,
}

impl Extra<'_> {
    fn rows(&self, name: &str) -> offspan::Result<ArrayView2<'_, f32>> {
        let shape = self.array.shape();
        let bad = |reason: String| offspan::Error::BadOption { flag: "extras".to_owned(), reason };
        let Some((&rows, row)) = shape.split_first() else {
            return Err(bad(format!("{name}: expected rows, got a single number")));
        };
        let numbers = self.array.as_slice().map_err(|error| bad(format!("{name}: {error}")))?;
        ArrayView2::from_shape((rows, row.iter().product()), numbers)
            .map_err(|error| bad(format!("{name}: {error}")))
    }
}

/// Whether an array is, through views, part of a file that NumPy mapped for reading.
fn is_read_only_map(array: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = array.py();
    let memmap = py.import("numpy")?.getattr("memmap")?;
    if !array.is_instance(&memmap)? {
        return Ok(false);
    }
    Ok(array.getattr("mode")?.extract::<String>().is_ok_and(|mode| mode == "r"))
}

impl<'py> Given<'py> {
    pub(crate) fn new(
        name: &'static str,
        features: &Bound<'py, PyAny>,
        logits: Option<&Bound<'py, PyAny>>,
        labels: Option<&Bound<'py, PyAny>>,
        extras: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let mut given = Given {
            name,
            features: Rows::new(features, name)?,
            logits: logits.map(|logits| Rows::new(logits, "logits")).transpose()?,
            labels: labels.map(labels_of).transpose()?,
            extras: Vec::new(),
        };
        for (name, array) in extras.into_iter().flatten() {
            let array = array.extract::<PyReadonlyArrayDyn<'py, f32>>().map_err(|_| {
                input_error(array.py(), format!("extras: expected float32 arrays, got {array}"))
            })?;
            given.extras.push((name.extract()?, Extra { array }));
        }
        Ok(given)
    }

    /// Number of values, to tell short work from long; files count as long.
    pub(crate) fn size(&self) -> usize {
        match &self.features {
            Rows::Table(table) => {
                let rows = table.source("");
                rows.rows().saturating_mul(rows.width())
            }
            Rows::File(_) => usize::MAX,
        }
    }

    /// The rows, and what else a pack has if the features came as one.
    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<TrainingData<'_>> {
        self.data().map_err(|error| exception(py, &error))
    }

    /// The rows alone.
    pub(crate) fn rows(&self, py: Python<'_>) -> PyResult<Dataset<'_>> {
        self.open(py).map(|data| data.rows)
    }

    fn data(&self) -> offspan::Result<TrainingData<'_>> {
        let mut inputs = match &self.features {
            Rows::Table(table) => TrainingInputs::of_rows(self.name, table.source(self.name)),
            Rows::File(path) => TrainingInputs::of_path(path),
        };
        if let Some(logits) = &self.logits {
            inputs = inputs.logits(match logits {
                Rows::Table(table) => Input::Value(table.source("logits")),
                Rows::File(path) => Input::File(path.clone()),
            });
        }
        if let Some(labels) = &self.labels {
            inputs = inputs.labels(Input::Value(labels.clone()));
        }
        let mut data = inputs.open()?;
        for (name, extra) in &self.extras {
            let shape = &extra.array.shape()[1..];
            data.rows = data.rows.with_extra(name.clone(), extra.rows(name)?, shape)?;
        }
        Ok(data)
    }
}

fn labels_of(given: &Bound<'_, PyAny>) -> PyResult<Labels> {
    let py = given.py();
    if let Ok(path) = given.extract::<PathBuf>() {
        return open_labels(&path).map_err(|error| exception(py, &error));
    }
    let labels: PyReadonlyArray1<'_, i64> = given.extract().map_err(|_| {
        input_error(py, "labels: expected one whole number per row, as an array of one dimension")
    })?;
    let labels: Vec<i64> = labels.as_array().iter().copied().collect();
    Ok(Labels::from(&labels[..]))
}

/// The last layer: a pair of arrays, or the path of a file.
pub(crate) fn head_of(given: &Bound<'_, PyAny>) -> PyResult<Head> {
    let py = given.py();
    if let Ok(path) = given.extract::<PathBuf>() {
        return open_head(Path::new(&path)).map_err(|error| exception(py, &error));
    }
    let pair: (PyReadonlyArray2<'_, f64>, PyReadonlyArray1<'_, f64>) =
        given.extract().map_err(|_| {
            input_error(py, "head: expected (weight [classes, width], bias [classes]) or a path")
        })?;
    let weight: Array2<f64> = pair.0.as_array().to_owned();
    let bias: Array1<f64> = pair.1.as_array().to_owned();
    Head::new(weight, bias).map_err(|error| exception(py, &error))
}

/// A table in double precision.
pub(crate) fn doubles(given: &Bound<'_, PyAny>, what: &str) -> PyResult<Array2<f64>> {
    let table = Table::new(given, what, false)?;
    let source = table.source(what);
    let mut numbers = Array2::zeros((source.rows(), source.width()));
    source.read_f64(0, numbers.view_mut()).map_err(|error| exception(given.py(), &error))?;
    Ok(numbers)
}
