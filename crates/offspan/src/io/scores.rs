//! Files of scores, as `offspan score` writes them.

use std::path::Path;

use ndarray::Array2;

use super::{FeatureSource, npy};
use crate::{Error, Result};

const WHAT: &str = "a file of scores";

/// Scores from a one-dimensional `.npy` file, or from the column `score` of a `.csv` file; none if the
/// file is of another kind, such as features.
///
/// # Errors
/// If the file cannot be read, or a score in it is no number.
pub fn read_scores(path: &Path) -> Result<Option<Vec<f64>>> {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
    let scores = match extension.as_str() {
        "csv" => from_csv(path)?,
        "npy" => match npy::open_column(path)? {
            Some(column) => {
                let mut out = Array2::zeros((column.rows(), 1));
                column.read_f64(0, out.view_mut());
                out.into_iter().collect()
            }
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
    let text = std::fs::read_to_string(path).map_err(Error::io("read", path))?;
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let Some(column) = header.split(',').position(|name| name.trim() == "score") else {
        let reason = format!("its first line has no column `score`: {header}");
        return Err(Error::malformed(path, WHAT, reason));
    };
    let score = |(line, text): (usize, &str)| {
        let cell = text.split(',').nth(column).unwrap_or_default().trim();
        cell.parse().map_err(|_| {
            let reason = format!("line {}: expected a score, got `{cell}`", line + 2);
            Error::malformed(path, WHAT, reason)
        })
    };
    lines.enumerate().filter(|(_, text)| !text.trim().is_empty()).map(score).collect()
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
        assert_eq!(read_scores(&folder.path().join("features.safetensors")).unwrap(), None);
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
