//! Where models lie: `name/version/net.offspan` in a folder, or a detector file alone. Names in requests never become paths.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::ServeError;

/// The version of a detector file that stands alone.
pub(crate) const ONLY_VERSION: u64 = 1;

/// Where models may be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Folder(PathBuf),
    File(PathBuf),
}

/// A version of a model on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) version: u64,
    /// The detector and the classifier in front of it, or why there is no detector.
    pub(super) files: Result<Files, String>,
}

/// The files of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) detector: PathBuf,
    pub(super) network: Option<PathBuf>,
}

/// Tells files from those that replaced them.
pub(super) type Fingerprint = Vec<(u64, u128, u64)>;

impl Files {
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let paths = std::iter::once(&self.detector).chain(&self.network);
        paths.filter_map(|path| path.metadata().ok()).map(|data| print_of(&data)).collect()
    }

    /// A sentence with the files' own names in place of their paths.
    pub(super) fn without_paths(&self, text: &str) -> String {
        let paths = std::iter::once(&self.detector).chain(&self.network);
        paths.fold(text.to_owned(), |text, path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let text = text.replace(&path.display().to_string(), &name);
            match path.parent().map(|folder| folder.display().to_string()) {
                Some(folder) if folder.len() > 1 => text.replace(&folder, "the model's folder"),
                _ => text,
            }
        })
    }
}

fn print_of(data: &Metadata) -> (u64, u128, u64) {
    let modified = data.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(data);
    #[cfg(not(unix))]
    let inode = 0;
    (data.len(), modified.map_or(0, |time| time.as_nanos()), inode)
}

impl Source {
    pub(super) fn of(path: &Path) -> Result<Self, ServeError> {
        let data = path.metadata().map_err(ServeError::io("open", path))?;
        Ok(if data.is_dir() { Source::Folder(path.into()) } else { Source::File(path.into()) })
    }

    /// The versions that are there now. Of other files nothing follows; `note` is told of them.
    pub(super) fn places(&self, note: &mut dyn FnMut(String)) -> std::io::Result<Vec<Place>> {
        let folder = match self {
            Source::File(path) => return Ok(vec![alone(path)]),
            Source::Folder(folder) => folder,
        };
        let mut places = Vec::new();
        for entry in sorted(folder)? {
            let Some(name) = name_of(&entry) else { continue };
            if entry.is_dir() {
                places.extend(versions(&name, &entry, note)?);
            } else if is(&entry, "offspan") {
                places.push(alone(&entry));
            } else {
                note(format!("{}: neither a model's folder nor a detector", entry.display()));
            }
        }
        Ok(places)
    }
}

fn alone(path: &Path) -> Place {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let files = if path.is_file() {
        Ok(Files { detector: path.to_owned(), network: None })
    } else {
        Err("its file is gone".to_owned())
    };
    Place { name, version: ONLY_VERSION, files }
}

fn versions(
    name: &str,
    folder: &Path,
    note: &mut dyn FnMut(String),
) -> std::io::Result<Vec<Place>> {
    let mut places = Vec::new();
    for entry in sorted(folder)? {
        let Some(number) = name_of(&entry) else { continue };
        // As Triton has it: numbers that begin with another digit than 0.
        let version = number.parse::<u64>().ok().filter(|v| *v > 0 && v.to_string() == number);
        match version.filter(|_| entry.is_dir()) {
            Some(version) => {
                places.push(Place { name: name.to_owned(), version, files: files_in(&entry)? });
            }
            None => note(format!("{}: expected a folder whose name is a version", entry.display())),
        }
    }
    Ok(places)
}

/// The one detector of a folder, and its classifier.
fn files_in(folder: &Path) -> std::io::Result<Result<Files, String>> {
    let mut by_kind: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    for entry in sorted(folder)? {
        for kind in ["offspan", "onnx"] {
            if is(&entry, kind) && entry.is_file() {
                by_kind.entry(kind).or_default().push(entry.clone());
            }
        }
    }
    let count = |kind| by_kind.get(kind).map_or(0, Vec::len);
    if count("offspan") != 1 || count("onnx") > 1 {
        return Ok(Err(format!(
            "expected one detector (.offspan) and at most one classifier (.onnx) in its folder, got {} and {}",
            count("offspan"),
            count("onnx")
        )));
    }
    let mut take = |kind| by_kind.get_mut(kind).and_then(Vec::pop);
    let network = take("onnx");
    Ok(take("offspan")
        .map(|detector| Files { detector, network })
        .ok_or_else(|| "its detector is gone".to_owned()))
}

/// Entries by name, so that results do not depend on the file system.
fn sorted(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = entries.collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// A name that is shown to the world; hidden files, such as those that Kubernetes puts beside mounted ones, have none.
fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    (!name.starts_with('.')).then(|| name.to_owned())
}

fn is(path: &Path, extension: &str) -> bool {
    name_of(path).is_some() && path.extension().is_some_and(|found| found == extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_read_as_triton_lays_them_out() {
        let folder = tempfile::tempdir().unwrap();
        let touch = |path: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"x").unwrap();
        };
        for path in [
            "net/1/net.offspan",
            "net/12/any.offspan",
            "net/12/classifier.onnx",
            "net/01/x.offspan",
            "net/readme.md",
            "two/3/a.offspan",
            "two/3/b.offspan",
            "alone.offspan",
            ".hidden/1/net.offspan",
            "notes.txt",
        ] {
            touch(path);
        }
        let mut notes = Vec::new();
        let source = Source::of(folder.path()).unwrap();
        let places = source.places(&mut |note| notes.push(note)).unwrap();
        let found: Vec<(&str, u64, bool)> =
            places.iter().map(|p| (p.name.as_str(), p.version, p.files.is_ok())).collect();
        assert_eq!(
            found,
            [("alone", 1, true), ("net", 1, true), ("net", 12, true), ("two", 3, false)]
        );
        assert!(places[2].files.as_ref().unwrap().network.is_some());
        assert_eq!(notes.len(), 3, "{notes:?}");
        let files = places[1].files.clone().unwrap();
        let text = format!("cannot open {}: no", files.detector.display());
        assert_eq!(files.without_paths(&text), "cannot open net.offspan: no");
        assert!(Source::of(&folder.path().join("missing")).is_err());
    }
}
