//! Feature files in a folder, with the logits and labels that lie beside them.

use std::fs::ReadDir;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::matrix::{ENDINGS, FileKind};
use super::table::holds_parts;
use super::{Dataset, Reading, has_header, open_dataset, open_labels, open_matrix, table};
use crate::{Error, Result};

/// The feature files in a folder and in the folders inside it, in the order of their names: every one that is not
/// hidden, except logits and labels of another file (`NAME-logits.npy`, `NAME-labels.npy`). A folder of part files
/// counts as one file.
///
/// # Errors
/// If a folder cannot be read, a folder inside it has no feature file or holds further folders, or
/// logits or labels belong to no file.
pub fn feature_files(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
    let folder = folder.as_ref();
    let (mut files, folders) = entries(folder)?;
    for inner in folders {
        let (more, deeper) = entries(&inner)?;
        let wrong = |reason| Err(Error::malformed(&inner, "a folder of feature files", reason));
        if let Some(deeper) = deeper.first() {
            return wrong(format!(
                "it has the folder {}; expected files that end in {ENDINGS}",
                deeper.display()
            ));
        }
        if more.is_empty() {
            return wrong(format!("it has no file that ends in {ENDINGS}"));
        }
        files.extend(more);
    }
    files.sort();
    Ok(files)
}

/// Opens a feature file of a folder: `NAME-logits.npy` and `NAME-labels.npy` beside it belong to its
/// rows.
///
/// # Errors
/// If a file is malformed, does not have as many rows, or holds what the feature file has itself.
pub fn open_with_neighbours(
    path: impl AsRef<Path>,
    reading: impl Into<Reading>,
) -> Result<Dataset<'static>> {
    let path = path.as_ref();
    let mut dataset = open_dataset(path, reading)?;
    let beside = |what: &str| {
        let neighbour = path.with_file_name(format!("{}-{what}.npy", stem(path)));
        Ok::<_, Error>(is_there(&neighbour)?.then_some(neighbour))
    };
    let only = |neighbour: &Path, known: bool| match known {
        true => Err(Error::malformed(
            neighbour,
            "needed",
            format!("{} has its own; expected one of the two", path.display()),
        )),
        false => Ok(()),
    };
    if let Some(logits) = beside("logits")? {
        only(&logits, dataset.logits.is_some())?;
        dataset = dataset.with_logits(open_matrix(&logits, "logits", None)?)?;
    }
    if let Some(labels) = beside("labels")? {
        only(&labels, dataset.labels.is_some())?;
        dataset = dataset.with_labels(open_labels(&labels)?)?;
    }
    Ok(dataset)
}

/// Feature files and folders in a folder.
fn entries(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in read_dir(folder).map_err(Error::io("read", folder))? {
        let path = entry.map_err(Error::io("read", folder))?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            continue;
        }
        match is_folder(&path)? {
            true if holds_parts(&path)? => files.push(path),
            true => folders.push(path),
            false if has_header(&path) && !is_neighbour(&path)? => files.push(path),
            false => {}
        }
    }
    // Which of them a message names is not left to chance.
    folders.sort();
    Ok((files, folders))
}

/// Whether a file holds logits or labels of another one.
fn is_neighbour(path: &Path) -> Result<bool> {
    let stem = stem(path);
    let owner = ["logits", "labels"].into_iter().find_map(|what| {
        let owner = stem.strip_suffix(what)?.strip_suffix('-')?;
        Some((owner.to_owned(), what)).filter(|(owner, _)| !owner.is_empty())
    });
    let is_npy = matches!(FileKind::of(path), Some(FileKind::Npy));
    let Some((owner, what)) = owner.filter(|_| is_npy) else { return Ok(false) };
    if split_path(&path.with_file_name(&owner))?.is_some() {
        return Ok(true);
    }
    Err(Error::malformed(
        path,
        "a feature file",
        format!("by its name it holds {what}, and {owner}.npy is not beside it"),
    ))
}

/// The feature file of this name without its extension, or the folder of part files, if one exists.
pub(super) fn split_path(stem: &Path) -> Result<Option<PathBuf>> {
    // Not `with_extension`: a set may be called `v1.5`.
    let with = |extension: &&str| PathBuf::from(format!("{}.{extension}", stem.display()));
    let others = ["safetensors", "npy", "npz"];
    for path in others.iter().chain(&table::ENDINGS).map(with) {
        if is_there(&path)? {
            return Ok(Some(path));
        }
    }
    Ok(holds_parts(stem)?.then(|| stem.to_owned()))
}

/// What lies in a folder. The system may ask to open it again, as a file, and the standard library does so for files only.
pub(super) fn read_dir(folder: &Path) -> std::io::Result<ReadDir> {
    loop {
        match std::fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Whether something has this name, be it a link that leads nowhere. What cannot be looked at is not taken for absent: rows
/// would be judged without the logits, labels or last layer that belong to them.
pub(super) fn is_there(path: &Path) -> Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(Error::io("open", path)(error)),
    }
}

/// Whether a folder has this name. What cannot be looked at is not taken for something else.
pub(super) fn is_folder(path: &Path) -> Result<bool> {
    match path.metadata() {
        Ok(found) => Ok(found.is_dir()),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(Error::io("open", path)(error)),
    }
}

fn is_absence(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// A file's name without its extension.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
