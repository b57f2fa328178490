//! Files of scores, as `offspan score` writes them.

use std::fs::File;
use std::path::Path;

use csv::ByteRecord;
use ndarray::Array2;

use super::npz::Npz;
use super::observer::Silent;
use super::stream::{csv_error, csv_reader, line_of, number, shown};
use super::{FeatureSource, npy};
use crate::{Error, Result};

const WHAT: &str = "a file of scores";

/// Scores from a one-dimensional `.npy` file, from the column `score` of a `.csv` file, or from `conf` or `scores` of a
/// `.npz` file, as OpenOOD writes it; none if the file is of another kind, such as features.
///
/// # Errors
/// If the file cannot be read, or a score in it is no number.
pub fn read_scores(path: impl AsRef<Path>) -> Result<Option<Vec<f64>>> {
    let path = path.as_ref();
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
    let scores = match extension.as_str() {
        "csv" => from_csv(path)?,
        "npy" => match npy::open_column(path)? {
            Some(column) => {
                let mut out = Array2::zeros((column.rows(), 1));
                column.read_f64(0, out.view_mut())?;
                out.into_iter().collect()
            }
            None => return Ok(None),
        },
        "npz" => match Npz::open(path, &Silent)?.scores()? {
            Some(scores) => scores,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    match scores.iter().position(|score| score.is_nan()) {
        Some(row) => Err(Error::malformed(path, WHAT, format!("the score of row {row} is NaN"))),
        None => Ok(Some(scores)),
    }
}

fn from_csv(path: &Path) -> Result<Vec<f64>> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    let mut reader = csv_reader(file);
    let mut record = ByteRecord::new();
    let mut next = |record: &mut ByteRecord| {
        reader.read_byte_record(record).map_err(|error| csv_error(path, error))
    };
    next(&mut record)?;
    let Some(column) = record.iter().position(|name| name == b"score") else {
        let names: Vec<_> = record.iter().map(String::from_utf8_lossy).collect();
        let reason = format!("its first line has no column `score`: {}", names.join(","));
        return Err(Error::malformed(path, WHAT, reason));
    };
    let mut scores = Vec::new();
    while next(&mut record)? {
        let cell = record.get(column).unwrap_or_default();
        scores.push(number(cell).ok_or_else(|| {
            let (line, got) = (line_of(&record), shown(cell));
            Error::malformed(path, WHAT, format!("line {line}: expected a score, got {got}"))
        })?);
    }
    Ok(scores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_score_writes() {
        let folder = tempfile::tempdir().unwrap();
        let npy = folder.path().join("scores.npy");
        crate::io::write_npy_f64(&npy, &[1.5, f64::NEG_INFINITY, -2.0]).unwrap();
        let expected = Some(vec![1.5, f64::NEG_INFINITY, -2.0]);
        assert_eq!(read_scores(&npy).unwrap(), expected);
        let csv = folder.path().join("scores.csv");
        std::fs::write(
            &csv,
            "row,score,p_value,decision\n0,1.5,0.2,in\n1,-inf,0.1,out\n2,-2,1,in\n",
        )
        .unwrap();
        assert_eq!(read_scores(&csv).unwrap(), expected);
        std::fs::write(&csv, "\"row, from 0\",\"score\"\n0,\"1.5\"\n\n1, -inf\n2,-2").unwrap();
        assert_eq!(read_scores(&csv).unwrap(), expected, "quotes belong to no cell");
        assert_eq!(read_scores(folder.path().join("features.safetensors")).unwrap(), None);
    }

    #[test]
    fn names_the_line_that_is_no_score() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let message = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_scores(&path).unwrap_err().to_string()
        };
        assert!(message("row,score\n0,1\n1,abc\n").contains("line 3: expected a score, got `abc`"));
        assert!(message("a,b\n1,2\n").contains("no column `score`"));
        assert!(message("score\nnan\n").contains("row 0 is NaN"));
        assert!(message("").contains("no column `score`"));
    }
}
