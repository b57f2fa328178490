//! Parquet and Arrow: single files, and folders of part files as Spark, Dask and Ray write them.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use super::folder::{is_folder, read_dir, stem};
use crate::{Error, Result};

#[cfg(feature = "parquet")]
mod decode;
#[cfg(not(feature = "parquet"))]
#[path = "table/absent.rs"]
mod decode;

pub(super) use decode::{open_dataset, open_dataset_of, open_labels, open_matrix};

/// What the names of such files end in.
pub(super) const ENDINGS: [&str; 3] = ["parquet", "arrow", "feather"];

/// Whether a path leads to a table by its name, or is a folder of part files.
pub(super) fn is_table(path: &Path) -> bool {
    if path.is_dir() { is_parts(path) } else { has_ending(path) }
}

fn has_ending(path: &Path) -> bool {
    path.extension().is_some_and(|got| ENDINGS.iter().any(|known| got.eq_ignore_ascii_case(known)))
}

/// Whether a folder holds the parts of one dataset: its name is that of a table (`train.parquet`), or the name of
/// every table in it is that of a part: `part-0000.parquet`, `part.0.parquet`, `train-00000-of-00002.arrow`.
#[must_use]
pub fn is_parts(path: impl AsRef<Path>) -> bool {
    holds_parts(path.as_ref()).unwrap_or(false)
}

/// As [`is_parts`]; an error if there is a folder that cannot be read.
pub(super) fn holds_parts(path: &Path) -> Result<bool> {
    if !is_folder(path)? {
        return Ok(false);
    }
    let tables = tables_in(path)?;
    let is_part = |table: &PathBuf| is_part(&stem(table));
    Ok(has_ending(path) || !tables.is_empty() && tables.iter().all(is_part))
}

/// Of the paths in a folder, those of tables, in the order in which their rows follow one another. Files that begin
/// with `_` or `.` are notes of their writers.
#[must_use]
pub fn tables_among(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let is_note = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(['_', '.']))
    };
    paths.retain(|path| has_ending(path) && !is_note(path));
    paths.sort_by(|a, b| by_numbers(&stem(a), &stem(b)).then_with(|| a.cmp(b)));
    paths
}

/// Whether a name is that of a part.
fn is_part(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let begins = name
        .strip_prefix("part")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || "-._".contains(c)));
    let of = || {
        let (rest, all) = name.rsplit_once("-of-")?;
        Some(is_number(all) && is_number(rest.rsplit_once('-')?.1))
    };
    begins || of().unwrap_or(false)
}

/// The tables in a folder.
pub(super) fn tables_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in read_dir(folder).map_err(Error::io("read", folder))? {
        let path = entry.map_err(Error::io("read", folder))?.path();
        if !path.is_dir() {
            paths.push(path);
        }
    }
    Ok(tables_among(paths))
}

/// The files of a table in order: itself, or the parts in a folder.
#[cfg_attr(not(feature = "parquet"), allow(dead_code))]
fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let files = tables_in(path)?;
    if files.is_empty() {
        let reason = format!("it has no file that ends in .{}", ENDINGS.join(", ."));
        return Err(Error::malformed(path, "a folder of part files", reason));
    }
    Ok(files)
}

/// The order of names in which numbers count as such: Dask writes part.2 before part.10.
fn by_numbers(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    while let (Some(x), Some(y)) = (a.chars().next(), b.chars().next()) {
        let (order, cut_a, cut_b) = if x.is_ascii_digit() && y.is_ascii_digit() {
            let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
            let (cut_a, cut_b) = (digits(a), digits(b));
            let number = |text: &'_ str| text.trim_start_matches('0').to_owned();
            let (x, y) = (number(&a[..cut_a]), number(&b[..cut_b]));
            (x.len().cmp(&y.len()).then_with(|| x.cmp(&y)), cut_a, cut_b)
        } else {
            (x.cmp(&y), x.len_utf8(), y.len_utf8())
        };
        if order.is_ne() {
            return order;
        }
        (a, b) = (&a[cut_a..], &b[cut_b..]);
    }
    a.len().cmp(&b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_their_names_and_come_in_the_order_of_their_numbers() {
        for name in ["part-00000-ab12-c000.snappy", "part.0", "part_1", "part7", "x-00000-of-00002"]
        {
            assert!(is_part(name), "{name}");
        }
        for name in ["party", "part", "svhn", "a-of-b", "x-1-of-"] {
            assert!(!is_part(name), "{name}");
        }
        let mut names = ["part.10", "part.2", "part.0", "part.1", "part.02b", "part", "q"];
        names.sort_by(|a, b| by_numbers(a, b));
        assert_eq!(names, ["part", "part.0", "part.1", "part.2", "part.02b", "part.10", "q"]);
    }

    #[test]
    fn notes_of_writers_are_no_parts() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str| std::fs::write(folder.path().join(name), "").unwrap();
        assert!(!is_parts(folder.path()));
        for name in ["_SUCCESS", "_metadata.parquet", ".part-0.parquet.crc", "notes.txt"] {
            put(name);
        }
        assert!(!is_parts(folder.path()));
        for name in ["part-1.parquet", "part-0.parquet"] {
            put(name);
        }
        assert!(is_parts(folder.path()));
        let files: Vec<String> = files_of(folder.path()).unwrap().iter().map(|p| stem(p)).collect();
        assert_eq!(files, ["part-0", "part-1"]);
        put("svhn.parquet");
        assert!(!is_parts(folder.path()), "sets side by side");
    }
}
