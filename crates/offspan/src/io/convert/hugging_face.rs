//! Folders of Hugging Face datasets: what `save_to_disk` leaves, and what a repository on the hub holds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::io::folder::{read_dir, stem};
use crate::io::table::{is_parts, tables_in};
use crate::{Error, Result};

/// The files of each split.
pub(super) type SplitFiles = BTreeMap<String, Vec<PathBuf>>;

#[derive(Deserialize)]
struct DatasetDict {
    splits: Vec<String>,
}

/// The splits of such a folder; none if it is another one.
pub(super) fn splits(folder: &Path) -> Result<Option<SplitFiles>> {
    let listing = folder.join("dataset_dict.json");
    if listing.is_file() {
        return saved(folder, &listing).map(Some);
    }
    if folder.join("ood").is_dir() {
        return Ok(None);
    }
    let data = folder.join("data");
    for place in [data.as_path(), folder] {
        if place.is_dir() {
            let splits = by_names(place)?;
            // A folder of tables of which none is a split is something else.
            if splits.keys().any(|name| role(name).is_some()) {
                return Ok(Some(splits));
            }
        }
    }
    Ok(None)
}

/// What `DatasetDict.save_to_disk` leaves: one folder for each split.
fn saved(folder: &Path, listing: &Path) -> Result<SplitFiles> {
    let malformed = |reason: String| Error::malformed(listing, "a list of splits", reason);
    let text = std::fs::read_to_string(listing).map_err(Error::io("read", listing))?;
    let dict: DatasetDict =
        serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
    let mut splits = SplitFiles::new();
    for name in dict.splits {
        // Names are names of folders in this one, not ways to other places.
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\']) {
            return Err(malformed(format!("expected names of folders, got `{name}`")));
        }
        let files = tables_in(&folder.join(&name))?;
        if files.is_empty() {
            return Err(malformed(format!("the folder of `{name}` has no Arrow file")));
        }
        splits.insert(name, files);
    }
    Ok(splits)
}

/// Tables called SPLIT.parquet or SPLIT-00000-of-00002.parquet, and folders of part files.
fn by_names(folder: &Path) -> Result<SplitFiles> {
    let mut splits = SplitFiles::new();
    for file in tables_in(folder)? {
        splits.entry(split_of(&stem(&file))).or_default().push(file);
    }
    for entry in read_dir(folder).map_err(Error::io("read", folder))? {
        let path = entry.map_err(Error::io("read", folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let numbered = |file: &PathBuf| stem(file).bytes().all(|byte| byte.is_ascii_digit());
        if path.is_dir() && !name.starts_with('.') {
            let files = tables_in(&path)?;
            if !files.is_empty() && (is_parts(&path) || files.iter().all(numbered)) {
                splits.entry(name).or_default().extend(files);
            }
        }
    }
    Ok(splits)
}

/// `train` of `train-00000-of-00002`.
fn split_of(name: &str) -> String {
    let cut = || {
        let (rest, count) = name.rsplit_once("-of-")?;
        let (split, number) = rest.rsplit_once('-')?;
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        (digits(count) && digits(number)).then(|| split.to_owned())
    };
    cut().unwrap_or_else(|| name.to_owned())
}

/// What a split is for in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Train,
    Test,
    Calibrate,
}

/// The role that a split's name tells; others are out-of-distribution sets.
pub(super) fn role(name: &str) -> Option<Role> {
    match name {
        "train" => Some(Role::Train),
        "test" => Some(Role::Test),
        "validation" | "valid" | "val" | "dev" | "calibrate" => Some(Role::Calibrate),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_found_in_every_layout() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let names = |place: &str| -> Vec<(String, usize)> {
            let found = splits(&folder.path().join(place)).unwrap().unwrap_or_default();
            found.into_iter().map(|(name, files)| (name, files.len())).collect()
        };
        put("saved/dataset_dict.json", r#"{"splits": ["train", "oos"]}"#);
        put("saved/train/data-00000-of-00002.arrow", "");
        put("saved/train/data-00001-of-00002.arrow", "");
        put("saved/oos/data-00000-of-00001.arrow", "");
        assert_eq!(names("saved"), [("oos".to_owned(), 1), ("train".to_owned(), 2)]);
        put("hub/data/train-00000-of-00002.parquet", "");
        put("hub/data/train-00001-of-00002.parquet", "");
        put("hub/data/test.parquet", "");
        assert_eq!(names("hub"), [("test".to_owned(), 1), ("train".to_owned(), 2)]);
        put("converted/train/0000.parquet", "");
        put("converted/oos/0000.parquet", "");
        assert_eq!(names("converted"), [("oos".to_owned(), 1), ("train".to_owned(), 1)]);
        put("other/notes.parquet", "");
        assert_eq!(names("other"), []);
        put("saved/dataset_dict.json", r#"{"splits": ["../hub"]}"#);
        let error = splits(&folder.path().join("saved")).unwrap_err().to_string();
        assert!(error.contains("expected names of folders, got `../hub`"), "{error}");
    }
}
