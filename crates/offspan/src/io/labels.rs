//! Class labels: whole numbers of any width, read when they are needed.

use std::ops::Range;
use std::path::Path;

use super::matrix::{FileKind, file_kind};
use super::npz::Npz;
use super::observer::Silent;
use super::{AtHand, Bytes, TensorFile, npy, table};
use crate::{Error, Result};

/// One whole number per row.
#[derive(Debug, Clone)]
pub struct Labels {
    pub(super) bytes: Bytes,
    pub(super) data: Range<usize>,
    pub(super) integer: Integer,
    pub(super) name: String,
    /// Which rows of how many these are, if they are not all.
    pub(super) placed: Option<(AtHand, usize)>,
}

/// The integer types that labels may have on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Integer {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
}

impl Integer {
    pub(super) const NAMES: &'static str = "a whole-number type (int8 to int64, uint8 to uint64)";

    pub(super) fn size(self) -> usize {
        match self {
            Integer::I8 | Integer::U8 => 1,
            Integer::I16 | Integer::U16 => 2,
            Integer::I32 | Integer::U32 => 4,
            Integer::I64 | Integer::U64 => 8,
        }
    }

    fn signed(self) -> bool {
        matches!(self, Integer::I8 | Integer::I16 | Integer::I32 | Integer::I64)
    }

    fn from_npy(descr: &str) -> Option<Self> {
        Some(match descr {
            "|i1" => Integer::I8,
            "|u1" => Integer::U8,
            "<i2" => Integer::I16,
            "<u2" => Integer::U16,
            "<i4" => Integer::I32,
            "<u4" => Integer::U32,
            "<i8" => Integer::I64,
            "<u8" => Integer::U64,
            _ => return None,
        })
    }
}

impl From<&[i64]> for Labels {
    fn from(labels: &[i64]) -> Self {
        let bytes: Vec<u8> = labels.iter().flat_map(|label| label.to_le_bytes()).collect();
        let data = 0..bytes.len();
        let bytes = Bytes::Memory(bytes.into());
        Labels { bytes, data, integer: Integer::I64, name: "labels".to_owned(), placed: None }
    }
}

impl Labels {
    /// Number of labels.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.placed {
            Some((_, total)) => *total,
            None => self.data.len() / self.integer.size(),
        }
    }

    /// The same labels as those of some of `total` rows.
    pub(super) fn placed(self, at_hand: AtHand, total: usize) -> Self {
        Labels { placed: Some((at_hand, total)), ..self }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The labels of `rows`.
    ///
    /// # Errors
    /// If one does not fit an `i64`, or they cannot be read.
    ///
    /// # Panics
    /// If `rows` reaches past the end.
    pub fn read(&self, rows: Range<usize>) -> Result<Vec<i64>> {
        let size = self.integer.size();
        assert!(rows.end <= self.len(), "{} has {} labels", self.name, self.len());
        let rows = match &self.placed {
            Some((at_hand, _)) => at_hand.place(rows, &self.name)?,
            None => rows,
        };
        let at = |row: usize| self.data.start + row * size;
        let mut buffer = Vec::new();
        let bytes = self.bytes.read(at(rows.start)..at(rows.end), &mut buffer);
        bytes
            .map_err(Error::io("read", Path::new(&self.name)))?
            .chunks_exact(size)
            .map(|word| {
                // Sign-extend or zero-extend into eight bytes.
                let negative = self.integer.signed() && word[size - 1] & 0x80 != 0;
                let mut wide = [if negative { 0xff } else { 0 }; 8];
                wide[..size].copy_from_slice(word);
                if self.integer == Integer::U64 && wide[7] & 0x80 != 0 {
                    return Err(Error::shape(
                        &self.name,
                        "labels below 2^63",
                        u64::from_le_bytes(wide).to_string(),
                    ));
                }
                Ok(i64::from_le_bytes(wide))
            })
            .collect()
    }
}

/// Opens labels: one-dimensional integers in a `.npy` file, `labels` in a `.safetensors` or `.npz` file, or a
/// column of a Parquet or Arrow file.
///
/// # Errors
/// If the file cannot be read or is not such an array.
pub fn open_labels(path: impl AsRef<Path>) -> Result<Labels> {
    let path = path.as_ref();
    match file_kind(path)? {
        FileKind::Npy => open_npy(path),
        FileKind::Npz => Npz::open(path, &Silent)?.labels(),
        FileKind::SafeTensors => TensorFile::open(path)?.labels("labels"),
        FileKind::Table => table::open_labels(path),
    }
}

/// Opens a one-dimensional integer `.npy`.
pub(super) fn open_npy(path: &Path) -> Result<Labels> {
    from_array(path, path.display().to_string(), npy::parse(path)?)
}

/// A one-dimensional integer array; `name` is what to call it in messages.
pub(super) fn from_array(path: &Path, name: String, array: npy::NpyArray) -> Result<Labels> {
    let integer = Integer::from_npy(&array.descr).ok_or_else(|| Error::ElementType {
        path: path.to_owned(),
        what: "the array".to_owned(),
        expected: Integer::NAMES,
        got: array.descr.clone(),
    })?;
    if array.shape.len() != 1 {
        return Err(Error::shape(name, "[rows]", format!("{:?}", array.shape)));
    }
    Ok(Labels { bytes: array.bytes, data: array.data, integer, name, placed: None })
}
