//! Arrays of any rank whose first axis are the rows: what a network is given.

use std::path::Path;

use super::matrix::{FileKind, Matrix, Order, file_kind};
use super::{Labels, TensorFile, npy};
use crate::{Error, Result};

/// Rows of one shape, and the labels that come with them.
#[non_exhaustive]
pub struct InputRows {
    /// One row of numbers per sample.
    pub rows: Matrix,
    /// The shape of one row.
    pub shape: Vec<usize>,
    /// Class labels of the same rows, where the file has them.
    pub labels: Option<Labels>,
}

/// Opens an array of floats of at least two dimensions: a `.npy` file in C order, or the tensor called `inputs`, or
/// else the only one of this kind, of a `.safetensors` file, with its `labels`.
///
/// # Errors
/// If the file cannot be read or is not such an array.
pub fn open_inputs(path: impl AsRef<Path>) -> Result<InputRows> {
    let path = path.as_ref();
    match file_kind(path)? {
        FileKind::Npy => from_npy(path),
        FileKind::SafeTensors => from_tensors(&TensorFile::open(path)?),
        FileKind::Npz | FileKind::Table => Err(Error::malformed(
            path,
            "an array of inputs",
            "expected a name that ends in .npy or .safetensors",
        )),
    }
}

fn from_npy(path: &Path) -> Result<InputRows> {
    let mut array = npy::parse(path)?;
    let shape = array.shape.clone();
    let wrong =
        |expected: &str| Error::shape(path.display().to_string(), expected, format!("{shape:?}"));
    let [rows, row @ ..] = &shape[..] else { return Err(wrong("[rows, …]")) };
    if row.is_empty() || shape.contains(&0) {
        return Err(wrong("[rows, …], none of them 0"));
    }
    if row.len() > 1 && array.order == Order::ColumnMajor {
        return Err(Error::malformed(
            path,
            "an array of inputs",
            "it is in Fortran order; save it in C order",
        ));
    }
    // The header was checked, so that the product is no more than the file's length.
    array.shape = vec![*rows, row.iter().product()];
    let rows = npy::matrix(path, path.display().to_string(), array)?;
    Ok(InputRows { rows, shape: row.to_vec(), labels: None })
}

fn from_tensors(file: &TensorFile) -> Result<InputRows> {
    const NAME: &str = "inputs";
    let mut candidates =
        file.float_names().filter(|name| file.shape(name).is_ok_and(|shape| shape.len() > 1));
    let name = match (file.has(NAME), candidates.next(), candidates.next()) {
        (false, Some(only), None) => only,
        _ => NAME,
    };
    let shape = file.shape(name)?;
    if shape.len() < 2 {
        return Err(Error::shape(file.label(name), "[rows, …]", format!("{shape:?}")));
    }
    let rows = file.rows_of(name)?;
    let labels = file.has("labels").then(|| file.labels("labels")).transpose()?;
    if let Some(labels) = &labels
        && labels.len() != shape[0]
    {
        return Err(Error::shape(
            file.label("labels"),
            format!("[{}], as many as rows", shape[0]),
            format!("[{}]", labels.len()),
        ));
    }
    Ok(InputRows { rows, shape: shape[1..].to_vec(), labels })
}
