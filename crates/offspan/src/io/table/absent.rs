//! In place of `decode.rs`, where the library was built without Parquet and Arrow.

use std::path::Path;

use crate::io::{Dataset, Labels, Matrix, Reading};
use crate::{Error, Result};

fn absent<T>(path: &Path) -> Result<T> {
    Err(Error::malformed(
        path,
        "a feature file that this build reads",
        "it is Parquet or Arrow, for which the library is built with its feature `parquet`",
    ))
}

pub(crate) fn open_dataset(path: &Path, _: &Reading) -> Result<Dataset<'static>> {
    absent(path)
}

pub(crate) fn open_matrix(path: &Path, _: &str) -> Result<Matrix> {
    absent(path)
}

pub(crate) fn open_labels(path: &Path) -> Result<Labels> {
    absent(path)
}

pub(crate) fn open_dataset_of(
    path: &Path,
    _: Vec<std::path::PathBuf>,
    _: &Reading,
) -> Result<Dataset<'static>> {
    absent(path)
}
