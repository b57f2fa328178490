//! NumPy's `.npy`: versions 1 to 3, little-endian floats, C and Fortran order; and a writer.

use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

use ndarray::{Array1, Axis};

use super::matrix::{ElementType, Matrix, Order};
use super::{Bytes, write_bytes};
use crate::{Error, Result};

pub(super) const MAGIC: &[u8; 6] = b"\x93NUMPY";
const WHAT: &str = "a .npy file";
/// Far more than any header of a plain array needs.
const LONGEST_HEADER: usize = 1 << 20;

/// An array of any rank, as its header describes it.
pub(super) struct NpyArray {
    pub(super) bytes: Bytes,
    pub(super) data: Range<usize>,
    pub(super) descr: String,
    pub(super) order: Order,
    pub(super) shape: Vec<usize>,
}

impl NpyArray {
    /// Whether it is what `offspan score -o FILE.npy` writes.
    pub(super) fn is_scores(&self) -> bool {
        self.descr == "<f8" && self.shape.len() == 1
    }

    /// The type of floats, if it holds some that can be read.
    pub(super) fn float_type(&self) -> Option<ElementType> {
        float_type(&self.descr)
    }
}

/// Opens a two-dimensional float array.
pub(super) fn open(path: &Path) -> Result<Matrix> {
    from_bytes(path, Bytes::open(path)?)
}

/// A two-dimensional float array in the bytes of such a file.
pub(super) fn from_bytes(path: &Path, bytes: Bytes) -> Result<Matrix> {
    let whole = 0..bytes.len();
    matrix(path, path.display().to_string(), parse_bytes(path, bytes, whole)?)
}

/// An array as a table; `name` is what to call it in messages.
pub(super) fn matrix(path: &Path, name: String, array: NpyArray) -> Result<Matrix> {
    let element = array.float_type().ok_or_else(|| Error::ElementType {
        path: path.to_owned(),
        what: "the array".to_owned(),
        expected: "little-endian float16, float32 or float64",
        got: array.descr.clone(),
    })?;
    let [rows, width] = array.shape[..] else {
        return Err(Error::shape(name, "[rows, columns]", format!("{:?}", array.shape)));
    };
    if rows == 0 || width == 0 {
        return Err(Error::shape(
            name,
            "at least one row and one column",
            format!("{:?}", array.shape),
        ));
    }
    Ok(Matrix {
        bytes: array.bytes,
        data: array.data,
        element,
        rows,
        width,
        order: array.order,
        name,
    })
}

fn float_type(descr: &str) -> Option<ElementType> {
    match descr {
        "<f2" => Some(ElementType::F16),
        "<f4" => Some(ElementType::F32),
        "<f8" => Some(ElementType::F64),
        _ => None,
    }
}

/// Reads and checks the header; the data range is checked against the file's length.
pub(super) fn parse(path: &Path) -> Result<NpyArray> {
    let bytes = Bytes::open(path)?;
    let whole = 0..bytes.len();
    parse_bytes(path, bytes, whole)
}

/// As [`parse`], of such a file that lies in a part of `bytes`.
pub(super) fn parse_bytes(path: &Path, bytes: Bytes, part: Range<usize>) -> Result<NpyArray> {
    let (begin, end) = (part.start, part.end);
    let got = part.len();
    let truncated = |what, expected: usize| Error::Truncated {
        path: path.to_owned(),
        what,
        expected: expected as u64,
        got: got as u64,
    };
    let first = bytes.copy(begin..end.min(begin + 12)).map_err(Error::io("read", path))?;
    let all = first.as_slice();
    if got < 10 {
        return Err(truncated("its header", 10));
    }
    if &all[..6] != MAGIC {
        return Err(Error::malformed(
            path,
            WHAT,
            format!("it starts with {:02x?}, not with \\x93NUMPY", &all[..6]),
        ));
    }
    let (header_start, header_length) = match all[6] {
        1 => (10, usize::from(u16::from_le_bytes([all[8], all[9]]))),
        2 | 3 if got >= 12 => (12, u32::from_le_bytes([all[8], all[9], all[10], all[11]]) as usize),
        2 | 3 => return Err(truncated("its header", 12)),
        other => {
            return Err(Error::malformed(path, WHAT, format!("unknown format version {other}")));
        }
    };
    if header_length > LONGEST_HEADER {
        return Err(Error::malformed(
            path,
            WHAT,
            format!(
                "it declares a header of {header_length} bytes; at most {LONGEST_HEADER} make sense"
            ),
        ));
    }
    let data_start = header_start + header_length;
    if got < data_start {
        return Err(truncated("its header", data_start));
    }
    let header =
        bytes.copy(begin + header_start..begin + data_start).map_err(Error::io("read", path))?;
    let header = std::str::from_utf8(&header)
        .map_err(|_| Error::malformed(path, WHAT, "its header is not text"))?;
    let header = Header::parse(header).map_err(|reason| Error::malformed(path, WHAT, reason))?;

    let size = item_size(&header.descr).ok_or_else(|| Error::ElementType {
        path: path.to_owned(),
        what: "the array".to_owned(),
        expected: "a plain number type",
        got: header.descr.clone(),
    })?;
    let length = header
        .shape
        .iter()
        .try_fold(size, |total, &n| total.checked_mul(n))
        .and_then(|length| length.checked_add(data_start))
        .ok_or_else(|| {
            Error::malformed(path, WHAT, format!("its shape {:?} overflows", header.shape))
        })?;
    if got < length {
        return Err(truncated("its data", length));
    }
    if got > length {
        return Err(Error::malformed(
            path,
            WHAT,
            format!(
                "{} bytes follow the data that its shape {:?} describes",
                got - length,
                header.shape
            ),
        ));
    }
    let order = if header.fortran_order { Order::ColumnMajor } else { Order::RowMajor };
    Ok(NpyArray {
        bytes,
        data: begin + data_start..begin + length,
        descr: header.descr,
        order,
        shape: header.shape,
    })
}

/// Bytes of one item from a descriptor such as `<f4` or `|u1`.
fn item_size(descr: &str) -> Option<usize> {
    let kind_and_size = descr.strip_prefix(['<', '>', '|', '='])?;
    let size: usize = kind_and_size.get(1..)?.parse().ok()?;
    (kind_and_size.starts_with(['f', 'i', 'u', 'b']) && matches!(size, 1 | 2 | 4 | 8))
        .then_some(size)
}

struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    /// The header is a Python dict literal with three known keys.
    fn parse(text: &str) -> Result<Header, String> {
        let descr = value_of(text, "descr")?;
        let descr = descr
            .strip_prefix(['\'', '"'])
            .and_then(|rest| rest.split(['\'', '"']).next())
            .ok_or("its element type is structured; expected one plain number type")?
            .to_owned();
        let fortran = value_of(text, "fortran_order")?;
        let fortran_order = match fortran {
            _ if fortran.starts_with("True") => true,
            _ if fortran.starts_with("False") => false,
            _ => return Err("fortran_order is neither True nor False".to_owned()),
        };
        let tuple = value_of(text, "shape")?
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
            .ok_or("its shape is not a tuple")?
            .0;
        let shape = tuple
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| part.parse().map_err(|_| format!("its shape has `{part}`, not a size")))
            .collect::<Result<_, _>>()?;
        Ok(Header { descr, fortran_order, shape })
    }
}

fn value_of<'a>(text: &'a str, key: &str) -> Result<&'a str, String> {
    let missing = || format!("its header has no `{key}`");
    let at = text.find(&format!("'{key}'")).ok_or_else(missing)?;
    let rest = text[at + key.len() + 2..].trim_start();
    Ok(rest.strip_prefix(':').ok_or_else(missing)?.trim_start())
}

fn header(descr: &str, shape: &str) -> Vec<u8> {
    let mut dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // Magic, version, length and dict end on a multiple of 64, with a newline last.
    let unpadded = 10 + dict.len() + 1;
    dict.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    dict.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((dict.len() as u16).to_le_bytes());
    bytes.extend(dict.as_bytes());
    bytes
}

/// Writes one `f64` per row as a one-dimensional `.npy`.
///
/// # Errors
/// If the file cannot be written; then nothing is left behind.
pub fn write_npy_f64(path: impl AsRef<Path>, values: &[f64]) -> Result<()> {
    let mut bytes = header("<f8", &format!("({},)", values.len()));
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    write_bytes(path, &bytes)
}

/// Writes a two-dimensional `.npy` row by row, for files larger than memory.
pub struct NpyWriter<W: Write + Seek> {
    out: W,
    element: ElementType,
    width: usize,
    rows: usize,
}

impl<W: Write + Seek> NpyWriter<W> {
    /// Starts a file of `width` columns of `element` (not `Bf16`, which NumPy does not know).
    ///
    /// # Errors
    /// If `out` cannot be written or the type has no NumPy name.
    pub fn new(mut out: W, element: ElementType, width: usize) -> std::io::Result<Self> {
        out.write_all(&Self::header(element, width, 0)?)?;
        Ok(NpyWriter { out, element, width, rows: 0 })
    }

    fn header(element: ElementType, width: usize, rows: usize) -> std::io::Result<Vec<u8>> {
        let descr = match element {
            ElementType::F16 => "<f2",
            ElementType::F32 => "<f4",
            ElementType::F64 => "<f8",
            ElementType::Bf16 => {
                return Err(std::io::Error::other("NumPy has no bfloat16; use f16 or f32"));
            }
        };
        // The row count is padded so that the header's length does not depend on it.
        Ok(header(descr, &format!("({rows:>20}, {width})")))
    }

    /// Appends one row.
    ///
    /// # Errors
    /// If writing fails.
    ///
    /// # Panics
    /// If the row does not have the declared width.
    pub fn row(&mut self, row: &[f32]) -> std::io::Result<()> {
        assert_eq!(row.len(), self.width);
        let out = &mut self.out;
        for &value in row {
            match self.element {
                ElementType::F16 => out.write_all(&half::f16::from_f32(value).to_le_bytes()),
                ElementType::Bf16 => out.write_all(&half::bf16::from_f32(value).to_le_bytes()),
                ElementType::F32 => out.write_all(&value.to_le_bytes()),
                ElementType::F64 => out.write_all(&f64::from(value).to_le_bytes()),
            }?;
        }
        self.rows += 1;
        Ok(())
    }

    /// Writes the final row count.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(mut self) -> std::io::Result<()> {
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&Self::header(self.element, self.width, self.rows)?)?;
        self.out.flush()
    }
}

/// A one-dimensional float array, read whole.
pub(super) fn read_vector(path: &Path) -> Result<Array1<f64>> {
    let Some(column) = open_column(path)? else {
        let array = parse(path)?;
        return Err(Error::shape(
            path.display().to_string(),
            "one dimension of floats",
            format!("{} {:?}", array.descr, array.shape),
        ));
    };
    Ok(super::read_rows(&column, 0..column.rows)?.remove_axis(Axis(1)))
}

/// A one-dimensional float array as a column; none if the file holds something else.
pub(super) fn open_column(path: &Path) -> Result<Option<Matrix>> {
    let array = parse(path)?;
    let (Some(element), &[rows]) = (array.float_type(), &array.shape[..]) else {
        return Ok(None);
    };
    Ok(Some(Matrix {
        bytes: array.bytes,
        data: array.data,
        element,
        rows,
        width: 1,
        order: Order::RowMajor,
        name: path.display().to_string(),
    }))
}

/// Reads row numbers from a one-dimensional integer `.npy`, or from text with one number per line.
///
/// # Errors
/// If the file is neither.
pub fn read_index_list(path: impl AsRef<Path>) -> Result<Vec<u64>> {
    let path = path.as_ref();
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy")) {
        let labels = super::labels::open_npy(path)?;
        let values = labels.read(0..labels.len())?;
        return values
            .into_iter()
            .map(|value| {
                u64::try_from(value).map_err(|_| {
                    Error::malformed(path, "a list of row numbers", format!("it has {value}"))
                })
            })
            .collect();
    }
    let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
    text.split_whitespace()
        .map(|word| {
            word.parse().map_err(|_| {
                Error::malformed(path, "a list of row numbers", format!("it has `{word}`"))
            })
        })
        .collect()
}
