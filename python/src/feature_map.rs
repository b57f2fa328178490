//! Feature maps on their own: coordinates in which a kernel is nearly an inner product.

use ndarray::{Array2, Axis};
use numpy::IntoPyArray;
use offspan::io::{FeatureSource, read_rows};
use offspan::map::{EigenFloor, FloorRule, Fourier};
use offspan::{Error, Kernel, Precision, Real};
use pyo3::prelude::*;

use crate::arrays::{Table, doubles};
use crate::errors::exception;
use crate::gate::work;

/// A seeded uniform choice of `count` among `rows` rows; ascending row numbers.
#[pyfunction]
pub(crate) fn uniform_rows(
    py: Python<'_>,
    rows: usize,
    count: usize,
    seed: u64,
) -> PyResult<Vec<usize>> {
    offspan::uniform_rows(rows, count, seed).map_err(|error| exception(py, &error))
}

/// Rows that are mapped at once.
const BLOCK: usize = 4096;

enum Any {
    F32(offspan::map::FeatureMap<f32>),
    F64(offspan::map::FeatureMap<f64>),
}

/// A feature map.
#[pyclass(frozen, module = "offspan._internal")]
pub(crate) struct FeatureMap {
    inner: Any,
}

/// Text of an option, or why it does not fit.
fn parsed<T: std::str::FromStr<Err = String>>(flag: &str, text: &str) -> offspan::Result<T> {
    text.parse().map_err(|reason| Error::BadOption { flag: flag.to_owned(), reason })
}

fn precision(text: &str) -> offspan::Result<Precision> {
    parsed("precision", text)
}

#[pymethods]
impl FeatureMap {
    /// Random Fourier features of a gaussian or laplacian kernel.
    #[staticmethod]
    #[pyo3(signature = (width, features, *, kernel, gamma, draw, seed, precision))]
    #[allow(clippy::too_many_arguments)]
    fn random_fourier(
        py: Python<'_>,
        width: usize,
        features: usize,
        kernel: &str,
        gamma: f64,
        draw: &str,
        seed: u64,
        precision: &str,
    ) -> PyResult<Self> {
        let inner = work(py, None, |_| {
            let kernel = Kernel::named(kernel, gamma, 2, 1.0)?;
            let draw = parsed("draw", draw)?;
            Ok(match self::precision(precision)? {
                Precision::F32 => Any::F32(offspan::map::FeatureMap::fourier(Fourier::seeded(
                    kernel, draw, width, features, seed,
                )?)),
                Precision::F64 => Any::F64(offspan::map::FeatureMap::fourier(Fourier::seeded(
                    kernel, draw, width, features, seed,
                )?)),
            })
        })?;
        Ok(FeatureMap { inner })
    }

    /// Nyström coordinates with these landmarks.
    #[staticmethod]
    #[pyo3(signature = (landmarks, *, kernel, gamma, degree, coef0, rank_floor, precision))]
    #[allow(clippy::too_many_arguments)]
    fn nystrom(
        py: Python<'_>,
        landmarks: &Bound<'_, PyAny>,
        kernel: &str,
        gamma: f64,
        degree: u32,
        coef0: f64,
        rank_floor: f64,
        precision: &str,
    ) -> PyResult<Self> {
        let landmarks = doubles(landmarks, "landmarks")?;
        let inner = work(py, None, |_| {
            let kernel = Kernel::named(kernel, gamma, degree, coef0)?;
            let floor = EigenFloor { relative: rank_floor, rule: FloorRule::Drop };
            Ok(match self::precision(precision)? {
                Precision::F32 => {
                    let landmarks = landmarks.mapv(|x| x as f32);
                    Any::F32(offspan::map::FeatureMap::nystrom(kernel, landmarks, floor)?)
                }
                Precision::F64 => {
                    Any::F64(offspan::map::FeatureMap::nystrom(kernel, landmarks, floor)?)
                }
            })
        })?;
        Ok(FeatureMap { inner })
    }

    /// Coordinates of rows.
    fn transform<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let table = Table::new(rows, "rows for the feature map", false)?;
        let source = table.source("rows for the feature map");
        match &self.inner {
            Any::F32(map) => {
                Ok(work(py, None, |_| transform(map, &*source))?.into_pyarray(py).into_any())
            }
            Any::F64(map) => {
                Ok(work(py, None, |_| transform(map, &*source))?.into_pyarray(py).into_any())
            }
        }
    }

    /// Length of a row.
    #[getter]
    fn width(&self) -> usize {
        match &self.inner {
            Any::F32(map) => map.width(),
            Any::F64(map) => map.width(),
        }
    }

    /// Number of coordinates.
    #[getter]
    fn output(&self) -> usize {
        match &self.inner {
            Any::F32(map) => map.dimensions(),
            Any::F64(map) => map.dimensions(),
        }
    }
}

/// Block by block, so that besides the result little is held in memory.
fn transform<T: Real>(
    map: &offspan::map::FeatureMap<T>,
    source: &dyn FeatureSource,
) -> offspan::Result<Array2<T>> {
    let mut mapped = Array2::from_elem((source.rows(), map.dimensions()), T::default());
    for (index, mut block) in mapped.axis_chunks_iter_mut(Axis(0), BLOCK).enumerate() {
        let start = index * BLOCK;
        let rows = read_rows::<T>(source, start..start + block.nrows())?;
        block.zip_mut_with(&map.transform(rows.view())?, |to, &x| *to = T::from_double(x));
    }
    Ok(mapped)
}
