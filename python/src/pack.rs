//! Packs: opened, converted, and methods compared on them, those of the library and the caller's own.

use std::path::{Path, PathBuf};

use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2};
use offspan::io::{Conversion, Dataset, Head, Pack, SetGroup, read_rows};
use offspan_study::StudyError;
use offspan_study::evaluation::{ReadAs, Sets};
use pyo3::prelude::*;

use crate::arrays::{Given, head_of};
use crate::errors::{exception, input_error};
use crate::gate::work;

/// Features, logits and labels as Python gave them.
type GivenSplit<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);
/// The same as arrays for Python.
type Arrays<'py> = (
    Bound<'py, PyArray2<f32>>,
    Option<Bound<'py, PyArray2<f32>>>,
    Option<Bound<'py, PyArray1<i64>>>,
);
/// The last layer as arrays.
type HeadArrays<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);

/// Splits of a pack by their names.
type Named<T> = Vec<(String, T)>;

/// Name, splits with their numbers of rows, and the last layer.
type Opened<'py> = (String, Vec<(String, usize)>, Option<HeadArrays<'py>>);

/// Arrays of a pack, borrowed from Python: name, splits by their names, last layer.
pub(crate) struct GivenPack<'py> {
    name: String,
    splits: Named<Given<'py>>,
    shifted: Named<Given<'py>>,
    head: Option<Head>,
}

impl<'py> GivenPack<'py> {
    fn new(given: &Bound<'py, PyAny>) -> PyResult<Self> {
        let (name, splits, shifted, head): (
            String,
            Named<GivenSplit<'py>>,
            Named<GivenSplit<'py>>,
            Option<Bound<'py, PyAny>>,
        ) = given.extract()?;
        let rows = |(name, (features, logits, labels)): (String, GivenSplit<'py>)| {
            let rows = Given::new("the rows", &features, logits.as_ref(), labels.as_ref(), None)?;
            Ok((name, rows))
        };
        let splits = splits.into_iter().map(rows).collect::<PyResult<_>>()?;
        let shifted = shifted.into_iter().map(rows).collect::<PyResult<_>>()?;
        Ok(GivenPack { name, splits, shifted, head: head.as_ref().map(head_of).transpose()? })
    }
}

/// A pack in a folder, or one of arrays.
pub(crate) enum AnyPack<'py> {
    Folder(PathBuf, ReadAs),
    Arrays(GivenPack<'py>),
}

impl<'py> AnyPack<'py> {
    pub(crate) fn new(given: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(folder) = given.extract::<PathBuf>() {
            return Ok(AnyPack::Folder(folder, ReadAs::default()));
        }
        if let Ok((folder, raw, columns)) = given.extract() {
            return Ok(AnyPack::Folder(folder, ReadAs { raw, columns }));
        }
        Ok(AnyPack::Arrays(GivenPack::new(given)?))
    }

    /// Opens files; arrays stay where they are.
    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<OpenPack<'_>> {
        match self {
            AnyPack::Folder(folder, read) => {
                Ok(OpenPack::Folder(Box::new(opened(py, folder, read)?)))
            }
            AnyPack::Arrays(given) => {
                let mut sets = Vec::new();
                for (name, split) in given.splits.iter().chain(&given.shifted) {
                    sets.push(split.rows(py)?.named(name.clone()));
                }
                let width = sets.first().map_or(0, Dataset::width);
                if let Some(other) = sets.iter().find(|set| set.width() != width) {
                    let (name, got) = (other.name(), other.width());
                    let text = format!("{name}: expected {width} columns, as in train, got {got}");
                    return Err(input_error(py, text));
                }
                let shifted = sets.split_off(given.splits.len());
                let ood = sets.split_off(2.min(sets.len()));
                let (Some(test), Some(train)) = (sets.pop(), sets.pop()) else {
                    return Err(input_error(py, "a pack: expected train and test"));
                };
                Ok(OpenPack::Arrays(Box::new(OpenArrays {
                    name: given.name.clone(),
                    train,
                    test,
                    groups: SetGroup::by_names(ood.iter().map(Dataset::name)),
                    ood,
                    shifted,
                    head: given.head.clone(),
                })))
            }
        }
    }
}

/// A pack folder, read in this way.
fn opened(py: Python<'_>, folder: &Path, read: &ReadAs) -> PyResult<Pack> {
    let reading = read.reading().map_err(|error| input_error(py, error.to_string()))?;
    Pack::open_with(folder, reading).map_err(|error| exception(py, &error))
}

/// The rows of a pack.
pub(crate) enum OpenPack<'a> {
    Folder(Box<Pack>),
    Arrays(Box<OpenArrays<'a>>),
}

/// The rows of a pack of arrays, and its last layer.
pub(crate) struct OpenArrays<'a> {
    name: String,
    train: Dataset<'a>,
    test: Dataset<'a>,
    ood: Vec<Dataset<'a>>,
    shifted: Vec<Dataset<'a>>,
    groups: Vec<SetGroup>,
    head: Option<Head>,
}

impl<'a> OpenPack<'a> {
    pub(crate) fn name(&self) -> &str {
        match self {
            OpenPack::Folder(pack) => &pack.name,
            OpenPack::Arrays(pack) => &pack.name,
        }
    }

    /// Clusters in place of classes, if so many are asked for.
    pub(crate) fn pseudo_labelled(
        self,
        py: Python<'_>,
        clusters: Option<usize>,
        seed: u64,
    ) -> PyResult<Self> {
        let Some(clusters) = clusters else { return Ok(self) };
        let label = |train: Dataset<'a>| {
            work(py, None, |observer| offspan::with_pseudo_labels(train, clusters, seed, observer))
        };
        match self {
            OpenPack::Folder(pack) => work(py, None, |observer| {
                pack.with_train(|train| {
                    offspan::with_pseudo_labels(train, clusters, seed, observer)
                })
            })
            .map(|pack| OpenPack::Folder(Box::new(pack))),
            OpenPack::Arrays(pack) => {
                let train = label(pack.train)?;
                Ok(OpenPack::Arrays(Box::new(OpenArrays { train, ..*pack })))
            }
        }
    }

    /// What an evaluation needs.
    pub(crate) fn sets(&self, full_spectrum: bool) -> Result<Sets<'_>, StudyError> {
        match self {
            OpenPack::Folder(pack) if full_spectrum => Sets::full_spectrum(pack),
            OpenPack::Folder(pack) => Sets::of(pack),
            OpenPack::Arrays(pack) if full_spectrum && pack.shifted.is_empty() => {
                let text = "full_spectrum: expected a pack with shifted rows, got one without any";
                Err(StudyError::Setup(text.to_owned()))
            }
            OpenPack::Arrays(pack) => {
                let OpenArrays { train, test, ood, shifted, groups, head, .. } = pack.as_ref();
                let sets = Sets { groups, ..Sets::new(train, test, ood, head.as_ref()) };
                Ok(if full_spectrum { Sets { shifted, ..sets } } else { sets })
            }
        }
    }
}

/// Name, splits with their numbers of rows, and the last layer of a pack folder.
#[pyfunction]
#[pyo3(signature = (folder, raw, columns))]
pub(crate) fn open_pack<'py>(
    py: Python<'py>,
    folder: PathBuf,
    raw: Option<String>,
    columns: Vec<String>,
) -> PyResult<Opened<'py>> {
    let pack = opened(py, &folder, &ReadAs { raw, columns })?;
    let rows = |set: &Dataset<'_>| (set.name().to_owned(), set.rows());
    let mut sets = vec![("train".to_owned(), pack.train.rows())];
    sets.extend(pack.test.iter().map(|test| ("test".to_owned(), test.rows())));
    sets.extend(pack.ood.iter().map(rows));
    let arrays = |head: &Head| {
        (head.weight().to_owned().into_pyarray(py), head.bias().to_owned().into_pyarray(py))
    };
    Ok((pack.name.clone(), sets, pack.head.as_ref().map(arrays)))
}

/// Features, logits and labels of a split of a pack folder, in memory.
#[pyfunction]
#[pyo3(signature = (folder, raw, columns, name))]
pub(crate) fn read_split<'py>(
    py: Python<'py>,
    folder: PathBuf,
    raw: Option<String>,
    columns: Vec<String>,
    name: &str,
) -> PyResult<Arrays<'py>> {
    let failed = |error: offspan::Error| exception(py, &error);
    let pack = opened(py, &folder, &ReadAs { raw, columns })?;
    let split = match name {
        "train" => Some(&pack.train),
        "test" => pack.test.as_ref(),
        other => pack.ood.iter().find(|set| set.name() == other),
    };
    let split = split.ok_or_else(|| input_error(py, format!("{}: no split {name}", pack.name)))?;
    let (features, logits) = arrays(split).map_err(failed)?;
    let labels = split.labels().map(|labels| labels.read(0..labels.len())).transpose();
    Ok((
        features.into_pyarray(py),
        logits.map(|logits| logits.into_pyarray(py)),
        labels.map_err(failed)?.map(|labels| labels.into_pyarray(py)),
    ))
}

/// Writes a pack folder from files of other programs.
#[pyfunction]
#[pyo3(signature = (folder, source, train, test, calibrate, head, class_vectors, *, ood, temperature, unknown, unit, dtype, raw=None, columns=Vec::new(), progress=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn convert_pack(
    py: Python<'_>,
    folder: PathBuf,
    source: Option<PathBuf>,
    train: Option<PathBuf>,
    test: Option<PathBuf>,
    calibrate: Option<PathBuf>,
    head: Option<PathBuf>,
    class_vectors: Option<PathBuf>,
    ood: Vec<(String, PathBuf)>,
    temperature: Option<f64>,
    unknown: Option<String>,
    unit: bool,
    dtype: Option<&str>,
    raw: Option<String>,
    columns: Vec<String>,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let element = dtype
        .map(|text| text.parse().map_err(|error| input_error(py, format!("dtype: {error}"))))
        .transpose()?;
    let read = ReadAs { raw, columns };
    let reading = read.reading().map_err(|error| input_error(py, error.to_string()))?;
    let conversion = Conversion {
        source,
        train,
        test,
        calibrate,
        ood,
        head,
        class_vectors,
        temperature,
        unknown,
        unit,
        element,
        reading,
    };
    work(py, progress.as_ref(), |observer| conversion.write(&folder, observer)).map(drop)
}

/// Labels from clusters of the rows.
#[pyfunction]
pub(crate) fn pseudo_labels<'py>(
    py: Python<'py>,
    features: &Bound<'py, PyAny>,
    clusters: usize,
    seed: u64,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let given = Given::new("the rows", features, None, None, None)?;
    let rows = given.rows(py)?;
    let labels = work(py, None, |observer| {
        offspan::pseudo_labels(&rows, clusters, seed, observer)?.read(0..rows.rows())
    })?;
    Ok(labels.into_pyarray(py))
}

/// A last layer of cosines.
#[pyfunction]
pub(crate) fn cosine_head<'py>(
    py: Python<'py>,
    vectors: PyReadonlyArray2<'_, f64>,
    temperature: f64,
) -> PyResult<HeadArrays<'py>> {
    let head = Head::of_cosines(vectors.as_array().to_owned(), temperature)
        .map_err(|error| exception(py, &error))?;
    Ok((head.weight().to_owned().into_pyarray(py), head.bias().to_owned().into_pyarray(py)))
}

/// Features and logits in memory.
pub(crate) fn arrays(
    data: &Dataset<'_>,
) -> offspan::Result<(ndarray::Array2<f32>, Option<ndarray::Array2<f32>>)> {
    let features = read_rows(data.features(), 0..data.rows())?;
    let logits = data.logits().map(|logits| read_rows(logits, 0..data.rows())).transpose()?;
    Ok((features, logits))
}
