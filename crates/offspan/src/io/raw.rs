//! Files without a header, such as `numpy.memmap` caches: the user declares type and width.

use std::fmt::{Display, Formatter};
use std::path::Path;
use std::str::FromStr;

use super::matrix::{ElementType, Matrix, Order};
use super::{Bytes, FeatureSource};
use crate::{Error, Result};

/// Element type and width of a headerless file, written `f64:2048`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawLayout {
    /// The element type.
    pub element: ElementType,
    /// Numbers per row.
    pub width: usize,
}

impl FromStr for RawLayout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (element, width) = text
            .split_once(':')
            .ok_or_else(|| format!("expected TYPE:WIDTH such as f64:2048, got `{text}`"))?;
        let width: usize = width
            .parse()
            .map_err(|_| format!("expected a width such as 2048 after the colon, got `{width}`"))?;
        if width == 0 {
            return Err("expected a width of at least 1, got 0".to_owned());
        }
        Ok(RawLayout { element: element.parse()?, width })
    }
}

impl Display for RawLayout {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.element, self.width)
    }
}

/// Opens a headerless little-endian file of whole rows.
pub(super) fn open(path: &Path, layout: RawLayout) -> Result<Matrix> {
    if layout.width == 0 {
        return Err(Error::parameter("--raw", "a width of at least 1", 0));
    }
    let bytes = Bytes::open(path)?;
    let length = bytes.len();
    let row = layout.element.size().checked_mul(layout.width).ok_or_else(|| {
        Error::parameter("--raw", "a width whose rows fit in memory", layout.width)
    })?;
    if !length.is_multiple_of(row) {
        return Err(Error::malformed(
            path,
            "a whole number of rows",
            format!(
                "{length} bytes is no multiple of {row}, the size of a row of {} {} numbers",
                layout.width, layout.element
            ),
        ));
    }
    let matrix = Matrix {
        bytes,
        data: 0..length,
        element: layout.element,
        rows: length / row,
        width: layout.width,
        order: Order::RowMajor,
        name: path.display().to_string(),
    };
    if matrix.rows() == 0 {
        return Err(Error::TooFewRows { what: matrix.name, expected: 1, got: 0 });
    }
    Ok(matrix)
}
