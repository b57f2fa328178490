//! safetensors files: named arrays behind a JSON header.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

use ndarray::{Array1, Array2};
use safetensors::tensor::{Metadata, TensorView};
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::labels::{Integer, Labels};
use super::matrix::{ElementType, FileKind, Matrix, Order, file_kind};
use super::{
    Bytes, Content, FeatureSource, LARGEST_THUMBNAIL, Thumbnails, checksum, npy, write_bytes,
};
use crate::{Error, Real, Result, WeightType};

const WHAT: &str = "a safetensors file";

/// A kind of file of ours: tensors and a JSON document with a version and a checksum.
pub(crate) struct Format {
    pub(crate) content: Content,
    /// The version that is written.
    pub(crate) version: u32,
    /// The oldest version that can be read. Versions before the one that is written had no checksum.
    pub(crate) oldest: u32,
    /// What to do with a file that is older still.
    pub(crate) if_older: &'static str,
}

impl Format {
    /// Fails unless files of this version can be read.
    fn check_version(&self, path: &Path, got: u32) -> Result<()> {
        if (self.oldest..=self.version).contains(&got) {
            return Ok(());
        }
        Err(Error::Version {
            path: path.to_owned(),
            what: self.content.name(),
            expected: if self.oldest == self.version {
                self.version.to_string()
            } else {
                format!("{} to {}", self.oldest, self.version)
            },
            got,
            hint: if got < self.oldest { self.if_older } else { "a later offspan wrote it" },
        })
    }
}

/// An open safetensors file with its header checked against its length.
#[derive(Debug)]
pub(crate) struct TensorFile {
    path: PathBuf,
    bytes: Bytes,
    /// Where the header ends and the data begin.
    header_end: usize,
    tensors: BTreeMap<String, Tensor>,
    metadata: HashMap<String, String>,
}

#[derive(Debug, Clone)]
struct Tensor {
    dtype: Dtype,
    shape: Vec<usize>,
    data: Range<usize>,
}

impl TensorFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::from_bytes(path, Bytes::open(path)?)
    }

    /// `path` only names the bytes in messages.
    pub(crate) fn from_bytes(path: &Path, bytes: Bytes) -> Result<Self> {
        let header = header_of(&bytes).map_err(Error::io("read", path))?;
        if header.starts_with(npy::MAGIC) {
            return Err(Error::malformed(path, WHAT, "it is a .npy file"));
        }
        let parsed = parse_header(&header, bytes.len())
            .map_err(|error| explain(path, &header, bytes.len(), error))?;
        let start = header.len();
        let tensors = parsed
            .tensors()
            .into_iter()
            .map(|(name, info)| {
                let (from, to) = info.data_offsets;
                let data = start + from..start + to;
                (name, Tensor { dtype: info.dtype, shape: info.shape.clone(), data })
            })
            .collect();
        let metadata = parsed.metadata().clone().unwrap_or_default();
        Ok(TensorFile { path: path.to_owned(), bytes, header_end: start, tensors, metadata })
    }

    pub(crate) fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// The JSON document of one of our files, after its version and its checksum were found right.
    pub(crate) fn document<D: DeserializeOwned>(&self, format: &Format) -> Result<D> {
        #[derive(serde::Deserialize)]
        struct Known {
            version: u32,
            checksum: Option<String>,
        }
        let what = format.content.name();
        let malformed = |reason: String| Error::malformed(&self.path, what, reason);
        let key = format.content.key();
        let json =
            self.metadata(key).ok_or_else(|| malformed(format!("it has no {key} header")))?;
        let known: Known =
            serde_json::from_str(json).map_err(|error| malformed(error.to_string()))?;
        format.check_version(&self.path, known.version)?;
        match known.checksum {
            // Whatever the version says: it may be what was altered.
            Some(stored) => self.verify(what, &stored)?,
            None if known.version < format.version => {}
            None => {
                return Err(malformed(format!(
                    "it has no checksum, and files of version {} have one",
                    known.version
                )));
            }
        }
        serde_json::from_str(json).map_err(|error| malformed(error.to_string()))
    }

    /// Fails unless the checksum of all bytes is the stored one.
    fn verify(&self, what: &'static str, stored: &str) -> Result<()> {
        let got = checksum::expected(&self.bytes, self.header_end, stored)
            .map_err(Error::io("read", &self.path))?;
        let Some(got) = got else {
            let reason = format!("expected a checksum of xxh3-128: and 32 digits, got {stored}");
            return Err(Error::malformed(&self.path, what, reason));
        };
        if got == stored {
            return Ok(());
        }
        Err(Error::Damaged { path: self.path.clone(), what, expected: stored.to_owned(), got })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Names, types and shapes, for descriptions.
    pub(crate) fn listing(&self) -> String {
        if self.tensors.is_empty() {
            return "no tensors".to_owned();
        }
        let list: Vec<String> = self
            .tensors
            .iter()
            .map(|(name, tensor)| format!("`{name}` {} {:?}", tensor.dtype, tensor.shape))
            .collect();
        list.join(", ")
    }

    fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.tensors.get(name).ok_or_else(|| Error::MissingTensor {
            path: self.path.clone(),
            name: name.to_owned(),
            have: self.listing(),
        })
    }

    /// What to call a tensor in messages.
    pub(crate) fn label(&self, name: &str) -> String {
        format!("{} `{name}`", self.path.display())
    }

    fn element_type(&self, name: &str, tensor: &Tensor) -> Result<ElementType> {
        element_type(tensor.dtype).ok_or_else(|| Error::ElementType {
            path: self.path.clone(),
            what: format!("`{name}`"),
            expected: ElementType::NAMES,
            got: tensor.dtype.to_string(),
        })
    }

    /// Names of the float tensors.
    pub(crate) fn float_names(&self) -> impl Iterator<Item = &str> {
        let floats = self.tensors.iter().filter(|(_, tensor)| element_type(tensor.dtype).is_some());
        floats.map(|(name, _)| name.as_str())
    }

    pub(crate) fn shape(&self, name: &str) -> Result<&[usize]> {
        Ok(&self.tensor(name)?.shape)
    }

    /// A two-dimensional tensor with at least one row and column.
    pub(crate) fn matrix(&self, name: &str) -> Result<Matrix> {
        let shape = &self.tensor(name)?.shape;
        if shape.len() != 2 {
            return Err(Error::shape(self.label(name), "[rows, columns]", format!("{shape:?}")));
        }
        self.rows_of(name)
    }

    /// A tensor of any rank as one row of numbers per entry of its first axis.
    pub(crate) fn rows_of(&self, name: &str) -> Result<Matrix> {
        let tensor = self.tensor(name)?;
        let element = self.element_type(name, tensor)?;
        let (rows, width) = match tensor.shape.split_first() {
            Some((&rows, rest)) => (rows, rest.iter().product()),
            None => (0, 0),
        };
        if rows == 0 || width == 0 {
            return Err(Error::shape(
                self.label(name),
                "at least one row and one column",
                format!("{:?}", tensor.shape),
            ));
        }
        Ok(Matrix {
            bytes: self.bytes.clone(),
            data: tensor.data.clone(),
            element,
            rows,
            width,
            order: Order::RowMajor,
            name: self.label(name),
        })
    }

    /// The tensor called `name`, or else the file's only two-dimensional float tensor.
    pub(crate) fn matrix_or_only(&self, name: &str) -> Result<Matrix> {
        if !self.has(name) {
            let mut candidates = self
                .tensors
                .iter()
                .filter(|(_, t)| t.shape.len() == 2 && element_type(t.dtype).is_some());
            if let (Some((only, _)), None) = (candidates.next(), candidates.next()) {
                return self.matrix(only);
            }
        }
        self.matrix(name)
    }

    /// A one-dimensional integer tensor.
    pub(crate) fn labels(&self, name: &str) -> Result<Labels> {
        let tensor = self.tensor(name)?;
        let integer = match tensor.dtype {
            Dtype::I8 => Integer::I8,
            Dtype::U8 => Integer::U8,
            Dtype::I16 => Integer::I16,
            Dtype::U16 => Integer::U16,
            Dtype::I32 => Integer::I32,
            Dtype::U32 => Integer::U32,
            Dtype::I64 => Integer::I64,
            Dtype::U64 => Integer::U64,
            other => {
                return Err(Error::ElementType {
                    path: self.path.clone(),
                    what: format!("`{name}`"),
                    expected: Integer::NAMES,
                    got: other.to_string(),
                });
            }
        };
        if tensor.shape.len() != 1 {
            return Err(Error::shape(self.label(name), "[rows]", format!("{:?}", tensor.shape)));
        }
        Ok(Labels {
            bytes: self.bytes.clone(),
            data: tensor.data.clone(),
            integer,
            name: self.label(name),
            placed: None,
        })
    }

    /// Bytes [rows, height, width] (grey) or [rows, height, width, 3] (red, green, blue).
    pub(super) fn thumbnails(&self, name: &str) -> Result<Thumbnails> {
        let tensor = self.tensor(name)?;
        if tensor.dtype != Dtype::U8 {
            return Err(Error::ElementType {
                path: self.path.clone(),
                what: format!("`{name}`"),
                expected: "U8",
                got: tensor.dtype.to_string(),
            });
        }
        let sides = 1..=LARGEST_THUMBNAIL;
        let parts = match tensor.shape[..] {
            [rows, height, width] => Some((rows, height, width, 1)),
            [rows, height, width, channels @ 3] => Some((rows, height, width, channels)),
            _ => None,
        };
        let fits = |parts: &(usize, usize, usize, usize)| {
            sides.contains(&parts.1) && sides.contains(&parts.2)
        };
        let Some((rows, height, width, channels)) = parts.filter(fits) else {
            return Err(Error::shape(
                self.label(name),
                format!(
                    "[rows, height, width] or [rows, height, width, 3] with sides from 1 to \
                     {LARGEST_THUMBNAIL}"
                ),
                format!("{:?}", tensor.shape),
            ));
        };
        let (bytes, data) = (self.bytes.clone(), tensor.data.clone());
        let name = self.label(name);
        Ok(Thumbnails { bytes, data, rows, height, width, channels, name })
    }

    /// A two-dimensional tensor, read whole.
    pub(crate) fn array2<T: Real>(&self, name: &str) -> Result<Array2<T>> {
        let matrix = self.matrix(name)?;
        super::read_rows(&matrix, 0..matrix.rows)
    }

    /// A two-dimensional tensor of 16-bit integers, read whole.
    pub(crate) fn whole_numbers(&self, name: &str) -> Result<Array2<i16>> {
        let tensor = self.tensor(name)?;
        if tensor.dtype != Dtype::I16 {
            return Err(Error::ElementType {
                path: self.path.clone(),
                what: format!("`{name}`"),
                expected: "I16",
                got: tensor.dtype.to_string(),
            });
        }
        let bytes = self.bytes_of(tensor)?;
        let numbers = bytes.as_chunks::<2>().0.iter().map(|&pair| i16::from_le_bytes(pair));
        let wrong =
            || Error::shape(self.label(name), "[rows, columns]", format!("{:?}", tensor.shape));
        let &[rows, columns] = &tensor.shape[..] else { return Err(wrong()) };
        Array2::from_shape_vec((rows, columns), numbers.collect()).map_err(|_| wrong())
    }

    /// A one-dimensional tensor, read whole.
    pub(crate) fn array1<T: Real>(&self, name: &str) -> Result<Array1<T>> {
        let column = self.column(name)?;
        Ok(super::read_rows(&column, 0..column.rows())?.remove_axis(ndarray::Axis(1)))
    }

    /// A one-dimensional tensor of scores, which may be infinite.
    pub(crate) fn scores(&self, name: &str) -> Result<Vec<f64>> {
        let column = self.column(name)?;
        let mut out = Array2::zeros((column.rows(), 1));
        column.read_f64(0, out.view_mut())?;
        Ok(out.into_iter().collect())
    }

    /// A two-dimensional tensor of this shape, which may have no rows and numbers that are not finite.
    pub(crate) fn table(
        &self,
        name: &str,
        (rows, columns): (Option<usize>, usize),
    ) -> Result<Array2<f64>> {
        let shape = &self.tensor(name)?.shape;
        let fits = shape.len() == 2 && shape[1] == columns && rows.is_none_or(|n| n == shape[0]);
        if !fits {
            let rows = rows.map_or_else(|| "rows".to_owned(), |rows| rows.to_string());
            let expected = format!("[{rows}, {columns}]");
            return Err(Error::shape(self.label(name), expected, format!("{shape:?}")));
        }
        let mut out = Array2::zeros((shape[0], columns));
        if !out.is_empty() {
            self.rows_of(name)?.read_f64(0, out.view_mut())?;
        }
        Ok(out)
    }

    /// A one-dimensional tensor of whole numbers.
    pub(crate) fn counts(&self, name: &str) -> Result<Vec<u64>> {
        let tensor = self.tensor(name)?;
        let bytes = self.bytes_of(tensor)?;
        match tensor.dtype {
            Dtype::U64 => {
                Ok(bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect())
            }
            Dtype::U32 => {
                let words = bytes.as_chunks().0.iter();
                Ok(words.map(|&word| u64::from(u32::from_le_bytes(word))).collect())
            }
            other => Err(Error::ElementType {
                path: self.path.clone(),
                what: format!("`{name}`"),
                expected: "U32 or U64",
                got: other.to_string(),
            }),
        }
    }

    /// A tensor of bytes.
    pub(crate) fn raw_bytes(&self, name: &str) -> Result<Vec<u8>> {
        self.bytes_of(self.tensor(name)?)
    }

    fn bytes_of(&self, tensor: &Tensor) -> Result<Vec<u8>> {
        self.bytes.copy(tensor.data.clone()).map_err(Error::io("read", &self.path))
    }

    fn column(&self, name: &str) -> Result<Matrix> {
        let tensor = self.tensor(name)?;
        let &[length] = &tensor.shape[..] else {
            return Err(Error::shape(self.label(name), "[length]", format!("{:?}", tensor.shape)));
        };
        Ok(Matrix {
            bytes: self.bytes.clone(),
            data: tensor.data.clone(),
            element: self.element_type(name, tensor)?,
            rows: length,
            width: 1,
            order: Order::RowMajor,
            name: self.label(name),
        })
    }
}

/// A one-dimensional float array, read whole: a tensor of a `.safetensors` file, or a `.npy` file.
///
/// # Errors
/// If the file cannot be read or is not such an array.
pub fn read_vector(path: impl AsRef<Path>, tensor: &str) -> Result<Array1<f64>> {
    let path = path.as_ref();
    match file_kind(path)? {
        FileKind::Npy => npy::read_vector(path),
        FileKind::SafeTensors => TensorFile::open(path)?.array1(tensor),
        FileKind::Npz | FileKind::Table => {
            Err(Error::malformed(path, "a .npy or .safetensors file", "its name says so"))
        }
    }
}

fn element_type(dtype: Dtype) -> Option<ElementType> {
    match dtype {
        Dtype::F16 => Some(ElementType::F16),
        Dtype::BF16 => Some(ElementType::Bf16),
        Dtype::F32 => Some(ElementType::F32),
        Dtype::F64 => Some(ElementType::F64),
        _ => None,
    }
}

/// No header is longer; the crate has the same limit.
const LONGEST_HEADER: u64 = 100_000_000;

/// The length of the header and the header itself, as far as the file has so much.
fn header_of(bytes: &Bytes) -> std::io::Result<Vec<u8>> {
    let first = bytes.copy(0..8)?;
    let Ok(declared) = first.as_slice().try_into().map(u64::from_le_bytes) else {
        return Ok(first);
    };
    if declared > LONGEST_HEADER {
        return Ok(first);
    }
    bytes.copy(0..8 + declared as usize)
}

/// What a header says, after a look at whether it is right for a file of this length.
fn parse_header(header: &[u8], length: usize) -> Result<Metadata, SafeTensorError> {
    match SafeTensors::read_metadata(header) {
        Ok((_, parsed)) if header.len() == length => return Ok(parsed),
        // All is right with the header, and the data are not behind it: they are still in the file.
        Ok(_) | Err(SafeTensorError::MetadataIncompleteBuffer) => {}
        Err(error) => return Err(error),
    }
    let parsed: Metadata = serde_json::from_slice(&header[8..])
        .map_err(SafeTensorError::InvalidHeaderDeserialization)?;
    match header.len().checked_add(parsed.data_len()) {
        Some(end) if end == length => Ok(parsed),
        _ => Err(SafeTensorError::MetadataIncompleteBuffer),
    }
}

/// Turns the crate's error into one that says what was expected and got.
fn explain(path: &Path, bytes: &[u8], length: usize, error: SafeTensorError) -> Error {
    let length = length as u64;
    let truncated =
        |what, expected| Error::Truncated { path: path.to_owned(), what, expected, got: length };
    let declared =
        bytes.get(..8).and_then(|head| head.try_into().ok()).map_or(0, u64::from_le_bytes);
    match error {
        SafeTensorError::HeaderTooSmall => truncated("its header", 8),
        SafeTensorError::HeaderTooLarge => Error::malformed(
            path,
            WHAT,
            format!("it declares a header of {declared} bytes; at most 100000000 are allowed"),
        ),
        SafeTensorError::InvalidHeaderLength => truncated("its header", declared.saturating_add(8)),
        SafeTensorError::MetadataIncompleteBuffer => {
            match declared.checked_add(8).zip(data_end(bytes, declared)) {
                Some((start, end)) if start.saturating_add(end) > length => {
                    truncated("its data", start.saturating_add(end))
                }
                _ => {
                    Error::malformed(path, WHAT, "bytes follow the data that its header describes")
                }
            }
        }
        other => Error::malformed(path, WHAT, other),
    }
}

/// Where the header says that the last tensor ends.
fn data_end(bytes: &[u8], header: u64) -> Option<u64> {
    let header = bytes.get(8..usize::try_from(header).ok()?.checked_add(8)?)?;
    let json: Value = serde_json::from_slice(header).ok()?;
    json.as_object()?.values().filter_map(|info| info.get("data_offsets")?.get(1)?.as_u64()).max()
}

/// Collects tensors and one JSON document, and writes them as a safetensors file.
#[derive(Default)]
pub(crate) struct TensorWriter<'a> {
    tensors: BTreeMap<String, Entry<'a>>,
}

struct Entry<'a> {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Cow<'a, [u8]>,
}

impl<'a> TensorWriter<'a> {
    pub(crate) fn array2<T: Real>(&mut self, name: impl Into<String>, array: &'a Array2<T>) {
        let shape = array.shape().to_vec();
        self.insert(name.into(), shape, array.as_slice(), || array.iter().copied().collect());
    }

    pub(crate) fn array1<T: Real>(&mut self, name: impl Into<String>, array: &'a Array1<T>) {
        let shape = array.shape().to_vec();
        self.insert(name.into(), shape, array.as_slice(), || array.to_vec());
    }

    /// An array kept in single precision where that loses nothing, as most came from such a file.
    pub(crate) fn shortest(&mut self, name: impl Into<String>, array: &'a Array2<f64>) {
        if array.iter().any(|&x| f64::from(x as f32) != x) {
            return self.array2(name, array);
        }
        let (name, shape) = (name.into(), array.shape().to_vec());
        let singles: Vec<f32> = array.iter().map(|&x| x as f32).collect();
        let bytes = Cow::Owned(f32::little_endian(&singles));
        self.tensors.insert(name, Entry { dtype: Dtype::F32, shape, bytes });
    }

    /// An array kept in 16-bit floats, or as it is.
    pub(crate) fn weights<T: Real>(
        &mut self,
        name: impl Into<String>,
        array: &'a Array2<T>,
        kept_as: WeightType,
    ) {
        let Some(bytes) = kept_as.halves(array) else { return self.array2(name, array) };
        let dtype = if kept_as == WeightType::Bf16 { Dtype::BF16 } else { Dtype::F16 };
        let (shape, bytes) = (array.shape().to_vec(), Cow::Owned(bytes));
        self.tensors.insert(name.into(), Entry { dtype, shape, bytes });
    }

    pub(crate) fn whole_numbers(&mut self, name: impl Into<String>, array: &'a Array2<i16>) {
        let bytes = match array.as_slice() {
            Some(slice) if cfg!(target_endian = "little") => {
                Cow::Borrowed(bytemuck::cast_slice(slice))
            }
            _ => Cow::Owned(array.iter().flat_map(|x| x.to_le_bytes()).collect()),
        };
        let shape = array.shape().to_vec();
        self.tensors.insert(name.into(), Entry { dtype: Dtype::I16, shape, bytes });
    }

    /// An array that nobody else keeps.
    pub(crate) fn owned(&mut self, name: impl Into<String>, array: Array2<f64>) {
        let shape = array.shape().to_vec();
        let numbers: Vec<f64> = array.iter().copied().collect();
        let bytes = Cow::Owned(f64::little_endian(&numbers));
        self.tensors.insert(name.into(), Entry { dtype: Dtype::F64, shape, bytes });
    }

    /// Whole numbers, in half the space where they allow it.
    pub(crate) fn counts(&mut self, name: impl Into<String>, counts: &[u64]) {
        let small: Option<Vec<u32>> = counts.iter().map(|&n| u32::try_from(n).ok()).collect();
        let (dtype, bytes) = match small {
            Some(small) => (Dtype::U32, small.iter().flat_map(|n| n.to_le_bytes()).collect()),
            None => (Dtype::U64, counts.iter().flat_map(|n| n.to_le_bytes()).collect()),
        };
        let bytes = Cow::Owned(bytes);
        self.tensors.insert(name.into(), Entry { dtype, shape: vec![counts.len()], bytes });
    }

    /// Bytes of another file.
    pub(crate) fn raw_bytes(&mut self, name: impl Into<String>, bytes: &'a [u8]) {
        let entry =
            Entry { dtype: Dtype::U8, shape: vec![bytes.len()], bytes: Cow::Borrowed(bytes) };
        self.tensors.insert(name.into(), entry);
    }

    fn insert<T: Real>(
        &mut self,
        name: String,
        shape: Vec<usize>,
        slice: Option<&'a [T]>,
        copy: impl FnOnce() -> Vec<T>,
    ) {
        let dtype = match ElementType::of::<T>() {
            ElementType::F64 => Dtype::F64,
            _ => Dtype::F32,
        };
        let bytes = match slice {
            // The format is little-endian, and so is memory here: no copy.
            Some(slice) if cfg!(target_endian = "little") => {
                Cow::Borrowed(bytemuck::cast_slice(slice))
            }
            _ => Cow::Owned(T::little_endian(&copy())),
        };
        self.tensors.insert(name, Entry { dtype, shape, bytes });
    }

    /// Whether a tensor is empty or has a number that is not finite, which most readers refuse.
    pub(crate) fn has_odd_numbers(&self) -> bool {
        self.tensors.values().any(|Entry { dtype, bytes, .. }| match dtype {
            _ if bytes.is_empty() => true,
            Dtype::F64 => {
                bytes.as_chunks().0.iter().any(|&word| !f64::from_le_bytes(word).is_finite())
            }
            Dtype::F32 => {
                bytes.as_chunks().0.iter().any(|&word| !f32::from_le_bytes(word).is_finite())
            }
            _ => false,
        })
    }

    /// The bytes of a file of this kind, with its JSON document, to which the checksum is added.
    pub(crate) fn to_bytes(&self, format: &Format, mut document: Value) -> Vec<u8> {
        document[checksum::FIELD] = checksum::blank().into();
        let views = self.tensors.iter().map(|(name, Entry { dtype, shape, bytes })| {
            let view = TensorView::new(*dtype, shape.clone(), bytes)
                .unwrap_or_else(|_| unreachable!("the shape is the array's own"));
            (name, view)
        });
        let metadata = HashMap::from([(format.content.key().to_owned(), document.to_string())]);
        let mut bytes = safetensors::serialize(views, Some(metadata))
            .unwrap_or_else(|_| unreachable!("all parts were checked when they were added"));
        let data: usize = self.tensors.values().map(|entry| entry.bytes.len()).sum();
        let header_end = bytes.len() - data;
        checksum::fill(&mut bytes, header_end);
        bytes
    }

    pub(crate) fn write(&self, path: &Path, format: &Format, document: Value) -> Result<()> {
        write_bytes(path, &self.to_bytes(format, document))
    }
}
