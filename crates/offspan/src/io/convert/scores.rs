//! Score files of other programs as a folder of scores, one file for each set.

use std::path::{Path, PathBuf};

use super::source::check_set_name;
use super::{check_new, create_folder_of, in_new_folder};
use crate::io::{read_scores, write_npy_f64};
use crate::{Error, Result};

/// Writes `test.npy` and `NAME.npy` for each set into a new folder, from files of scores: OpenOOD's `.npz`, one-dimensional
/// `.npy`, or `.csv` with a column `score`. Returns the names with their numbers of rows.
///
/// # Errors
/// If a file has no scores, or cannot be read or written.
pub fn convert_scores(
    test: &Path,
    ood: &[(String, PathBuf)],
    folder: impl AsRef<Path>,
) -> Result<Vec<(String, usize)>> {
    let folder = folder.as_ref();
    check_new(folder)?;
    let mut sets: Vec<(&str, Vec<f64>)> = vec![("test", scores(test)?)];
    for (name, path) in ood {
        check_set_name(name)?;
        if sets.iter().any(|(other, _)| other == name) {
            return Err(Error::parameter(
                "ood",
                "a name of its own for each set",
                format!("{name} twice"),
            ));
        }
        sets.push((name, scores(path)?));
    }
    in_new_folder(folder, |folder| {
        sets.iter().try_for_each(|(name, scores)| {
            let path = folder.join(format!("{name}.npy"));
            create_folder_of(&path)?;
            write_npy_f64(path, scores)
        })
    })?;
    Ok(sets.into_iter().map(|(name, scores)| (name.to_owned(), scores.len())).collect())
}

fn scores(path: &Path) -> Result<Vec<f64>> {
    read_scores(path)?.ok_or_else(|| {
        Error::malformed(
            path,
            "a file of scores",
            "expected one-dimensional .npy, .npz with `conf` or `scores`, or .csv with a column `score`",
        )
    })
}
