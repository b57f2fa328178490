//! A table of numbers inside a file, converted row by row as it is read.

use std::cell::RefCell;
use std::fmt::{Display, Formatter};
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use ndarray::{ArrayView1, ArrayViewMut2};
use serde::{Deserialize, Serialize};

use super::folder::is_there;
use super::observer::Silent;
use super::{Bytes, FeatureSource, RawLayout, npy, npz, raw, table, tensors};
use crate::error::wording::as_flags;
use crate::{Error, Precision, Real, Result};

/// The element types that features and logits may have on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementType {
    /// IEEE half precision.
    F16,
    /// The upper half of an `f32`.
    Bf16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

impl ElementType {
    pub(crate) const NAMES: &'static str = "f16, bf16, f32 or f64";

    /// The type of a number.
    #[must_use]
    pub fn of<T: Real>() -> Self {
        match T::PRECISION {
            Precision::F32 => ElementType::F32,
            Precision::F64 => ElementType::F64,
        }
    }

    /// Bytes of one element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            ElementType::F16 | ElementType::Bf16 => 2,
            ElementType::F32 => 4,
            ElementType::F64 => 8,
        }
    }
}

impl Display for ElementType {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ElementType::F16 => "f16",
            ElementType::Bf16 => "bf16",
            ElementType::F32 => "f32",
            ElementType::F64 => "f64",
        })
    }
}

impl FromStr for ElementType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "f16" | "float16" => Ok(ElementType::F16),
            "bf16" | "bfloat16" => Ok(ElementType::Bf16),
            "f32" | "float32" => Ok(ElementType::F32),
            "f64" | "float64" => Ok(ElementType::F64),
            _ => Err(format!("expected {}, got `{text}`", ElementType::NAMES)),
        }
    }
}

/// Whether rows or columns lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    RowMajor,
    ColumnMajor,
}

/// A rows × width table inside a file.
#[derive(Debug, Clone)]
pub struct Matrix {
    pub(crate) bytes: Bytes,
    /// Where in `bytes` the elements lie; its length is rows · width · element size.
    pub(crate) data: Range<usize>,
    pub(crate) element: ElementType,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) order: Order,
    pub(crate) name: String,
}

impl Matrix {
    /// The element type on disk.
    #[must_use]
    pub fn element_type(&self) -> ElementType {
        self.element
    }

    /// The same numbers with rows and columns exchanged; nothing moves.
    pub(super) fn transposed(self) -> Self {
        let order = match self.order {
            Order::RowMajor => Order::ColumnMajor,
            Order::ColumnMajor => Order::RowMajor,
        };
        Matrix { rows: self.width, width: self.rows, order, ..self }
    }

    fn read_with<T: Real + Pod>(
        &self,
        start: usize,
        mut out: ArrayViewMut2<'_, T>,
        convert: impl Fn(&[u8], &mut [T]),
    ) -> Result<()> {
        let rows = out.nrows();
        let size = self.element.size();
        let as_stored = self.element == ElementType::of::<T>() && cfg!(target_endian = "little");
        let read = |first: usize, out: &mut [T]| {
            let mut from = self.data.start + first * size;
            let done = if as_stored {
                self.bytes.read_into(from, bytemuck::cast_slice_mut(out))
            } else {
                out.chunks_mut(PIECE / size).try_for_each(|out| {
                    let range = from..from + out.len() * size;
                    from = range.end;
                    BUFFER.with_borrow_mut(|buffer| {
                        convert(self.bytes.read(range, buffer)?, out);
                        Ok(())
                    })
                })
            };
            done.map_err(Error::io("read", Path::new(&self.name)))
        };
        match (self.order, out.as_slice_mut()) {
            (Order::RowMajor, Some(all)) => read(start * self.width, all),
            (Order::RowMajor, None) => {
                let mut run = vec![T::default(); self.width];
                out.rows_mut().into_iter().enumerate().try_for_each(|(i, mut row)| {
                    read((start + i) * self.width, &mut run)?;
                    row.assign(&ArrayView1::from(&run));
                    Ok(())
                })
            }
            (Order::ColumnMajor, _) => {
                let mut run = vec![T::default(); rows];
                out.columns_mut().into_iter().enumerate().try_for_each(|(j, mut column)| {
                    read(j * self.rows + start, &mut run)?;
                    column.assign(&ArrayView1::from(&run));
                    Ok(())
                })
            }
        }
    }
}

/// Bytes of a file that are read at a time where they must be converted.
const PIECE: usize = 1 << 20;

thread_local! {
    /// A thread's memory for such bytes: new memory would have to be cleared for every read.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Halves widened at a time, through a buffer: tensors in a file need not be aligned.
const RUN: usize = 512;

fn halves<H: Copy + Default, T>(
    bytes: &[u8],
    out: &mut [T],
    from_bits: impl Fn(u16) -> H,
    widen: impl Fn(&[H], &mut [T]),
) {
    let mut buffer = [H::default(); RUN];
    for (bytes, out) in bytes.chunks(RUN * size_of::<u16>()).zip(out.chunks_mut(RUN)) {
        let run = &mut buffer[..out.len()];
        words(bytes, run, |word| from_bits(u16::from_le_bytes(word)));
        widen(run, out);
    }
}

fn words<const N: usize, T>(bytes: &[u8], out: &mut [T], from: impl Fn([u8; N]) -> T) {
    for (o, word) in out.iter_mut().zip(bytes.chunks_exact(N)) {
        let mut array = [0; N];
        array.copy_from_slice(word);
        *o = from(array);
    }
}

impl FeatureSource for Matrix {
    fn rows(&self) -> usize {
        self.rows
    }

    fn width(&self) -> usize {
        self.width
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn read_f32(&self, start: usize, out: ArrayViewMut2<'_, f32>) -> Result<()> {
        self.read_with(start, out, |bytes, out| match self.element {
            ElementType::F16 => {
                halves(bytes, out, f16::from_bits, |run, out| run.convert_to_f32_slice(out));
            }
            ElementType::Bf16 => {
                halves(bytes, out, bf16::from_bits, |run, out| run.convert_to_f32_slice(out));
            }
            ElementType::F32 => words(bytes, out, f32::from_le_bytes),
            ElementType::F64 => words(bytes, out, |word| f64::from_le_bytes(word) as f32),
        })
    }

    fn read_f64(&self, start: usize, out: ArrayViewMut2<'_, f64>) -> Result<()> {
        self.read_with(start, out, |bytes, out| match self.element {
            ElementType::F16 => {
                halves(bytes, out, f16::from_bits, |run, out| run.convert_to_f64_slice(out));
            }
            ElementType::Bf16 => {
                halves(bytes, out, bf16::from_bits, |run, out| run.convert_to_f64_slice(out));
            }
            ElementType::F32 => words(bytes, out, |word| f64::from(f32::from_le_bytes(word))),
            ElementType::F64 => words(bytes, out, f64::from_le_bytes),
        })
    }

    fn prefetch(&self, rows: Range<usize>) {
        // A piece of every column is too scattered to ask for.
        if self.order == Order::RowMajor {
            let at = |row: usize| {
                self.data.start + row.min(self.rows) * self.width * self.element.size()
            };
            self.bytes.prefetch(at(rows.start)..at(rows.end));
        }
    }
}

/// Opens the table in a `.npy` file, a `.safetensors` or `.npz` file (the tensor called `tensor`, or the only
/// two-dimensional one), a Parquet or Arrow file or, with `layout`, a file without header.
///
/// # Errors
/// If the file cannot be read or is not such a table.
pub fn open_matrix(
    path: impl AsRef<Path>,
    tensor: &str,
    layout: Option<RawLayout>,
) -> Result<Matrix> {
    let path = path.as_ref();
    if let Some(layout) = layout {
        return raw::open(path, layout);
    }
    match file_kind(path)? {
        FileKind::Npy => npy::open(path),
        FileKind::Npz => npz::Npz::open(path, &Silent)?.matrix_or_only(tensor),
        FileKind::SafeTensors => tensors::TensorFile::open(path)?.matrix_or_only(tensor),
        FileKind::Table => table::open_matrix(path, tensor),
    }
}

/// Whether a file's name says that it carries its own header.
#[must_use]
pub fn has_header(path: impl AsRef<Path>) -> bool {
    FileKind::of(path.as_ref()).is_some()
}

/// The file formats that carry their own header.
pub(crate) enum FileKind {
    Npy,
    Npz,
    SafeTensors,
    /// Parquet or Arrow.
    Table,
}

impl FileKind {
    /// The kind that a name tells.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "npy" => Some(FileKind::Npy),
            "npz" => Some(FileKind::Npz),
            "safetensors" => Some(FileKind::SafeTensors),
            other => table::ENDINGS.contains(&other).then_some(FileKind::Table),
        }
    }
}

/// What the names of feature files end in, in words.
pub(super) const ENDINGS: &str = ".npy, .npz, .safetensors, .parquet, .arrow or .feather";

pub(crate) fn file_kind(path: &Path) -> Result<FileKind> {
    if path.is_dir() {
        if table::is_parts(path) {
            return Ok(FileKind::Table);
        }
        return Err(Error::malformed(path, "a feature file", "it is a folder"));
    }
    if let Some(kind) = FileKind::of(path) {
        return Ok(kind);
    }
    if !is_there(path)? {
        return Err(Error::io("open", path)(std::io::ErrorKind::NotFound.into()));
    }
    let got = match path.extension().and_then(|e| e.to_str()) {
        Some(extension) if !extension.is_empty() => format!("`.{extension}`"),
        _ => "one without extension".to_owned(),
    };
    Err(Error::malformed(
        path,
        "a feature file",
        format!(
            "expected a name that ends in {ENDINGS}, got {got} ({})",
            if as_flags() {
                "for a file without header, say --raw f64:WIDTH"
            } else {
                "a file without header can be given as an array or a memory map"
            }
        ),
    ))
}
