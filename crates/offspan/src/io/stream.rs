//! Rows from a stream, such as what another program prints: `.npy` or comma-separated numbers.

use std::io::Read;
use std::path::Path;

use csv::{ByteRecord, ReaderBuilder, Trim};
use ndarray::Array2;

use super::{Bytes, Dataset, OwnedRows, npy};
use crate::{Error, Result};

const WHAT: &str = "a .npy file or comma-separated numbers";

/// Reads rows from a stream and keeps them in memory: a `.npy` file, or comma-separated numbers, one
/// row per line and one feature per column. A first line in which nothing is a number has the names
/// of the columns; so has one that counts them (0,1,2, …), as pandas writes it.
///
/// # Errors
/// If the stream cannot be read, or holds something else.
pub fn read_dataset(name: &str, mut stream: impl Read) -> Result<Dataset<'static>> {
    let path = Path::new(name);
    let mut bytes = Vec::new();
    let failed = Error::io("read", path);
    stream.by_ref().take(npy::MAGIC.len() as u64).read_to_end(&mut bytes).map_err(failed)?;
    if bytes == npy::MAGIC {
        stream.read_to_end(&mut bytes).map_err(Error::io("read", path))?;
        return Ok(Dataset::new(name, npy::from_bytes(path, Bytes::Memory(bytes.into()))?));
    }
    let rows = read_csv(path, bytes.as_slice().chain(stream))?;
    Ok(Dataset::new(name, Named { name: name.to_owned(), rows: OwnedRows(rows) }))
}

/// A reader of comma-separated values whose lines may differ in length, so that we can say where.
pub(super) fn csv_reader<R: Read>(stream: R) -> csv::Reader<R> {
    ReaderBuilder::new().has_headers(false).flexible(true).trim(Trim::All).from_reader(stream)
}

/// Why a record could not be read.
pub(super) fn csv_error(path: &Path, error: csv::Error) -> Error {
    Error::io("read", path)(error.into())
}

/// The line, from 1, on which a record begins.
pub(super) fn line_of(record: &ByteRecord) -> u64 {
    record.position().map_or(0, csv::Position::line)
}

/// A cell as a message can show it.
pub(super) fn shown(cell: &[u8]) -> String {
    const LONGEST: usize = 40;
    let text = String::from_utf8_lossy(cell);
    let start: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().count() > LONGEST { format!("`{start}…`") } else { format!("`{start}`") }
}

/// A cell as a number.
pub(super) fn number(cell: &[u8]) -> Option<f64> {
    std::str::from_utf8(cell).ok()?.parse().ok()
}

fn read_csv(path: &Path, stream: impl Read) -> Result<Array2<f64>> {
    let mut reader = csv_reader(stream);
    let mut record = ByteRecord::new();
    let (mut numbers, mut width, mut rows) = (Vec::new(), None, 0);
    let mut first = true;
    while reader.read_byte_record(&mut record).map_err(|error| csv_error(path, error))? {
        let names = std::mem::take(&mut first) && is_header(&record);
        let expected = *width.get_or_insert(record.len());
        let line = line_of(&record);
        if record.len() != expected {
            let reason = format!(
                "row {rows} (line {line}) has {} cells; expected {expected}, as in the first line",
                record.len()
            );
            return Err(Error::malformed(path, WHAT, reason));
        }
        if names {
            // A stream of anything else has a first line without numbers as well.
            if record.iter().any(|cell| !is_text(cell)) {
                let reason = "the first line is neither numbers nor names of columns".to_owned();
                return Err(Error::malformed(path, WHAT, reason));
            }
            continue;
        }
        for (column, cell) in record.iter().enumerate() {
            numbers.push(number(cell).ok_or_else(|| {
                let got = shown(cell);
                let reason = format!(
                    "row {rows}, column {column} (line {line}): expected a number, got {got}"
                );
                Error::malformed(path, WHAT, reason)
            })?);
        }
        rows += 1;
    }
    if rows == 0 {
        return Err(Error::TooFewRows { what: path.display().to_string(), expected: 1, got: 0 });
    }
    let width = width.unwrap_or_default();
    Array2::from_shape_vec((rows, width), numbers)
        .map_err(|error| Error::malformed(path, WHAT, error.to_string()))
}

/// Whether a first line names the columns.
fn is_header(record: &ByteRecord) -> bool {
    let counts = |(column, cell): (usize, &[u8])| cell == column.to_string().as_bytes();
    record.iter().all(|cell| number(cell).is_none())
        || (record.len() > 1 && record.iter().enumerate().all(counts))
}

/// Whether a cell is text that a person could have written.
fn is_text(cell: &[u8]) -> bool {
    // In any encoding: names of columns need not be UTF-8.
    !cell.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t')
}

/// Rows in memory that know where they came from.
struct Named {
    name: String,
    rows: OwnedRows<f64>,
}

impl super::FeatureSource for Named {
    fn rows(&self) -> usize {
        self.rows.rows()
    }

    fn width(&self) -> usize {
        self.rows.width()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn read_f32(&self, start: usize, out: ndarray::ArrayViewMut2<'_, f32>) -> Result<()> {
        self.rows.read_f32(start, out)
    }

    fn read_f64(&self, start: usize, out: ndarray::ArrayViewMut2<'_, f64>) -> Result<()> {
        self.rows.read_f64(start, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::read_rows;

    fn rows(text: &str) -> Result<Array2<f64>> {
        let data = read_dataset("stdin", text.as_bytes())?;
        read_rows(&*data.features, 0..data.rows())
    }

    #[test]
    fn a_first_line_of_names_is_no_row() {
        let expected = ndarray::array![[1.5, -2.0], [3.0, 4e3]];
        for text in [
            "1.5,-2\n3,4e3\n",
            "a,b\n1.5,-2\n3,4e3",
            "\"a, left\",\"b\"\"\"\r\n\"1.5\", -2\r\n3,\"4e3\"\r\n",
            "0,1\n1.5,-2\n\n3,4e3\n",
            "\u{feff}x,y\n1.5,-2\n3,4e3\n",
        ] {
            assert_eq!(rows(text).unwrap(), expected, "{text}");
        }
        assert_eq!(rows("0\n1\n").unwrap(), ndarray::array![[0.0], [1.0]]);
    }

    #[test]
    fn what_is_no_table_of_numbers_is_refused_with_its_place() {
        let message = |text: &str| rows(text).unwrap_err().to_string();
        let all = [
            ("a,b\n1,2\n3,x\n", "row 1, column 1 (line 3): expected a number, got `x`"),
            ("a,b\n1,2\n3\n", "row 1 (line 3) has 1 cells; expected 2"),
            ("1,2\n3,\n", "row 1, column 1 (line 2): expected a number, got ``"),
            ("a,1\n1,2\n", "row 0, column 0 (line 1): expected a number, got `a`"),
            ("", "stdin"),
            ("a,b\n", "stdin"),
            ("\u{1f}\u{8b}\u{8}", "the first line is neither numbers nor names of columns"),
            ("1,2\nnan,3\n", "stdin: row 1, column 0 is NaN"),
        ];
        for (text, expected) in all {
            assert!(message(text).contains(expected), "{}", message(text));
        }
        assert!(read_dataset("stdin", &b"caf\xe9,b\n1,2\n"[..]).is_ok(), "names in Latin-1");
    }

    #[test]
    fn a_npy_stream_is_known_by_its_first_bytes() {
        let mut bytes = std::io::Cursor::new(Vec::new());
        let mut writer =
            crate::io::NpyWriter::new(&mut bytes, crate::io::ElementType::F32, 2).unwrap();
        writer.row(&[1.0, 2.0]).unwrap();
        writer.finish().unwrap();
        let bytes = bytes.into_inner();
        let data = read_dataset("stdin", bytes.as_slice()).unwrap();
        assert_eq!((data.rows(), data.width()), (1, 2));
        let cut = read_dataset("stdin", &bytes[..bytes.len() - 1]).map(drop);
        assert!(cut.unwrap_err().to_string().contains("truncated"));
    }
}
