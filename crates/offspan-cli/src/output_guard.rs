//! Outputs cost no data: none takes the place of an input, or of a file of another kind.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use offspan::io::{Content, check_replaces, check_writable, has_header, is_pack};

use crate::output::Failure;

/// What a command reads, and whether it may replace files of another kind.
#[derive(Default)]
pub(crate) struct Guard {
    inputs: Vec<PathBuf>,
    force: bool,
    /// Whether the command has a flag `--force` to speak of.
    has_force: bool,
}

impl Guard {
    /// For a command that has a flag `--force`.
    pub(crate) fn new(force: bool) -> Self {
        Guard { force, has_force: true, ..Guard::default() }
    }

    /// Says that `--force` has nothing to act on.
    pub(crate) fn expects_output(&self, writes: bool, flags: &str) -> Result<(), Failure> {
        if self.force && !writes {
            return Err(Failure::Usage(format!("--force: nothing is written without {flags}")));
        }
        Ok(())
    }

    /// Adds inputs: files, folders of feature files, pack folders, or pairs of files with a comma between.
    pub(crate) fn reads(mut self, paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        for path in paths {
            let path = path.as_ref();
            let pair = path.to_str().and_then(|text| text.split_once(','));
            match pair {
                Some((first, second)) if !path.exists() => {
                    self.inputs.extend([first.into(), second.into()]);
                }
                _ if is_pack(path) => self.inputs.extend(files_of_pack(path)),
                _ if path.is_dir() => self.inputs.extend(data_files(path)),
                _ => self.inputs.push(path.to_owned()),
            }
        }
        self
    }

    /// Says, before any work, that a file cannot or must not be written.
    pub(crate) fn file(&self, path: &Path, written: Content) -> Result<(), Failure> {
        self.apart_from_inputs(path, written.name())?;
        check_writable(path)?;
        self.replaces(path, written)
    }

    /// As [`Guard::file`] for a folder and the files that will be written into it: pages (`.html`),
    /// documents (`.json`), and tables, which are taken for ours where there is a page of ours.
    pub(crate) fn folder(&self, folder: &Path, names: &[String]) -> Result<(), Failure> {
        let files: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
        let has_page = has_page(&files)?;
        for file in &files {
            self.apart_from_inputs(file, "a result")?;
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("html") => self.replaces(file, Content::Page)?,
                Some("json") => self.replaces(file, Content::Results)?,
                _ if has_page || self.force || !file.exists() => {}
                _ => {
                    return Err(Failure::Usage(format!(
                        "{} is there without a page of offspan, and a result would take its place; \
                         choose another folder (--force replaces it)",
                        file.display()
                    )));
                }
            }
        }
        Ok(())
    }

    /// As [`Guard::file`], for a file that replaces nothing: what was there may be somebody's data.
    pub(crate) fn new_file(&self, path: &Path, written: Content) -> Result<(), Failure> {
        self.file(path, written)?;
        let is_empty = |path: &Path| path.metadata().is_ok_and(|about| about.len() == 0);
        if self.force || !path.is_file() || is_empty(path) {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "{} is there already; choose another name (--force replaces it)",
            path.display()
        )))
    }

    /// Says that a file with other bytes is where these would be written.
    pub(crate) fn same_bytes(&self, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
        let is_other = || std::fs::read(path).map_or(true, |found| found != bytes);
        if self.force || !path.exists() || !is_other() {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "{} is there with other contents; choose another folder (--force replaces it)",
            path.display()
        )))
    }

    fn replaces(&self, path: &Path, written: Content) -> Result<(), Failure> {
        match check_replaces(path, written) {
            Err(offspan::Error::OtherKind { .. }) if self.force && can_be_forced(written) => Ok(()),
            Err(error @ offspan::Error::OtherKind { .. })
                if self.has_force && can_be_forced(written) =>
            {
                Err(Failure::Usage(format!("{error} (--force replaces it)")))
            }
            other => Ok(other?),
        }
    }

    fn apart_from_inputs(&self, output: &Path, written: &str) -> Result<(), Failure> {
        let Some(input) = self.inputs.iter().find(|input| same_file(input, output)) else {
            return Ok(());
        };
        let (output, input) = (output.display().to_string(), input.display().to_string());
        let link = if output == input { String::new() } else { format!(" ({input})") };
        Err(Failure::Usage(format!(
            "{output}{link} is one of the inputs, and {written} would take its place; choose another name \
             (an input is never replaced)"
        )))
    }
}

/// Whether one of the files is a page of ours. One that cannot be read is an error, and not a file of another kind.
fn has_page(files: &[PathBuf]) -> Result<bool, Failure> {
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "html")) {
        match Content::of(file) {
            Ok(Content::Page) => return Ok(true),
            Err(offspan::Error::Io { source, .. })
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
    }
    Ok(false)
}

/// States and checkpoints are read before they are written, so one of another kind is an error.
fn can_be_forced(written: Content) -> bool {
    !matches!(written, Content::Monitor | Content::Checkpoint)
}

/// Whether two paths lead to one file, be it through links.
pub(crate) fn same_file(one: &Path, other: &Path) -> bool {
    one.is_file() && identity(one).is_some_and(|known| identity(other) == Some(known))
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let metadata = path.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

/// The files of a pack that may be read: features and what belongs to them.
fn files_of_pack(folder: &Path) -> Vec<PathBuf> {
    let mut files = data_files(folder);
    let mut folders = vec![folder.join("ood"), folder.join("shifted")];
    while let Some(folder) = folders.pop() {
        files.extend(data_files(&folder));
        folders.extend(entries(&folder).filter(|path| path.is_dir() && !path.is_symlink()));
    }
    files
}

fn data_files(folder: &Path) -> Vec<PathBuf> {
    let is_data =
        |path: &PathBuf| has_header(path) || path.extension().is_some_and(|e| e == "mmap");
    entries(folder).filter(is_data).collect()
}

/// What a folder holds. One that cannot be read is for those to tell who read it.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}
