//! What a run over a split has found so far, on the disk: one file per tensor that grows row by row, and a note of how many rows
//! are safe. A run that ends early goes on from there.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use half::f16;
use offspan::io::write_text;
use serde::{Deserialize, Serialize, Serializer};

use super::tensor_file::Part;
use crate::data::Data;
use crate::input_error::{InputError, InputResult};

/// The note's file.
const STATE: &str = "state.json";
const VERSION: u32 = 2;

/// How numbers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kept {
    F16,
    F32,
    I64,
}

impl Kept {
    fn size(self) -> u64 {
        match self {
            Kept::F16 => 2,
            Kept::F32 => 4,
            Kept::I64 => 8,
        }
    }

    fn dtype(self) -> &'static str {
        match self {
            Kept::F16 => "F16",
            Kept::F32 => "F32",
            Kept::I64 => "I64",
        }
    }
}

/// A tensor that grows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kept: Kept,
    /// The shape of one row.
    pub(super) shape: Vec<usize>,
}

impl Column {
    fn row_bytes(&self) -> u64 {
        self.kept.size() * self.shape.iter().map(|&size| size as u64).product::<u64>()
    }
}

/// An image that gave no row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Skipped {
    /// Its file.
    #[serde(serialize_with = "in_letters")]
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// A path as text; bytes that are none are replaced.
fn in_letters<S: Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&path.to_string_lossy())
}

/// The number of an item that gave no row, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SkippedItem {
    pub(super) item: usize,
    pub(super) reason: String,
}

impl SkippedItem {
    pub(super) fn named(&self, data: &Data) -> Skipped {
        Skipped { path: data.row_name(self.item), reason: self.reason.clone() }
    }
}

/// How far a run is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    /// Hash of everything that decides what comes out.
    request: String,
    /// Items that are done, skipped ones included.
    pub(super) done: usize,
    /// Rows that are in the files.
    pub(super) rows: usize,
    /// The numbers of the items that gave these rows are all but the skipped ones.
    pub(super) skipped: Vec<SkippedItem>,
    /// Rows whose label is the class with the largest logit.
    pub(super) agreeing: usize,
    columns: Vec<Column>,
}

/// The files of a run.
pub(super) struct Parts {
    folder: PathBuf,
    files: Vec<BufWriter<File>>,
    pub(super) state: State,
    every: Duration,
    saved: Instant,
}

impl Parts {
    /// Whether a run has left something there.
    pub(super) fn exist(folder: &Path) -> bool {
        folder.join(STATE).exists()
    }

    /// Begins anew; what an earlier run left is gone.
    pub(super) fn begin(folder: &Path, request: &str, every: Duration) -> InputResult<Self> {
        if folder.exists() {
            std::fs::remove_dir_all(folder).map_err(InputError::io("remove", folder))?;
        }
        std::fs::create_dir_all(folder).map_err(InputError::io("create", folder))?;
        let state = State { version: VERSION, request: request.to_owned(), ..State::default() };
        let folder = folder.to_owned();
        Ok(Parts { folder, files: Vec::new(), state, every, saved: Instant::now() })
    }

    /// Goes on where an earlier run with the same request was.
    pub(super) fn resume(folder: &Path, request: &str, every: Duration) -> InputResult<Self> {
        let path = folder.join(STATE);
        let text = std::fs::read_to_string(&path).map_err(InputError::io("read", &path))?;
        let state: State = serde_json::from_str(&text).map_err(|error| {
            InputError::data(&path, format!("not the state of an extraction: {error}"))
        })?;
        if state.version != VERSION || state.request != request {
            return Err(InputError::data(
                folder,
                "cannot resume: this run is of another model, other data or other settings than the one that was begun \
                 here; the same command goes on with it, --force begins anew",
            ));
        }
        let mut files = Vec::new();
        for (index, column) in state.columns.iter().enumerate() {
            let path = part_path(folder, index);
            let mut file =
                File::options().write(true).open(&path).map_err(InputError::io("open", &path))?;
            let safe = column.row_bytes() * state.rows as u64;
            let got = file.metadata().map_err(InputError::io("read", &path))?.len();
            if got < safe {
                return Err(InputError::data(
                    &path,
                    format!("expected at least {safe} bytes, got {got}; --force begins anew"),
                ));
            }
            // What came after the last save may be half a row.
            file.set_len(safe).map_err(InputError::io("write", &path))?;
            file.seek(SeekFrom::End(0)).map_err(InputError::io("write", &path))?;
            files.push(BufWriter::new(file));
        }
        let folder = folder.to_owned();
        Ok(Parts { folder, files, state, every, saved: Instant::now() })
    }

    /// Adds rows: for each column its numbers. The first rows decide which columns there are.
    pub(super) fn append(
        &mut self,
        rows: usize,
        columns: Vec<(Column, Numbers)>,
    ) -> InputResult<()> {
        if self.state.columns.is_empty() {
            for (index, (column, _)) in columns.iter().enumerate() {
                let path = part_path(&self.folder, index);
                let file = File::create(&path).map_err(InputError::io("create", &path))?;
                self.files.push(BufWriter::new(file));
                self.state.columns.push(column.clone());
            }
        }
        for (index, (column, numbers)) in columns.iter().enumerate() {
            let known = self.state.columns.get(index);
            if known != Some(column) {
                return Err(InputError::data(
                    &self.folder,
                    format!(
                        "the network's outputs change their shape: expected `{}` of {:?} per row, got {:?}",
                        column.name,
                        known.map(|known| &known.shape),
                        column.shape
                    ),
                ));
            }
            let path = part_path(&self.folder, index);
            numbers
                .write(column.kept, &mut self.files[index])
                .map_err(InputError::io("write", &path))?;
        }
        self.state.rows += rows;
        Ok(())
    }

    /// Saves how far the run is, if the last time is long ago.
    pub(super) fn save_now_and_then(&mut self) -> InputResult<()> {
        if self.saved.elapsed() < self.every { Ok(()) } else { self.save() }
    }

    /// Saves how far the run is. The rows are on the disk before the note that counts them.
    pub(super) fn save(&mut self) -> InputResult<()> {
        for (index, file) in self.files.iter_mut().enumerate() {
            let path = part_path(&self.folder, index);
            file.flush()
                .and_then(|()| file.get_ref().sync_data())
                .map_err(InputError::io("write", &path))?;
        }
        let text = serde_json::to_string(&self.state)
            .unwrap_or_else(|_| unreachable!("the state has nothing that JSON has not"));
        write_text(self.folder.join(STATE), &text)?;
        self.saved = Instant::now();
        Ok(())
    }

    /// The columns as parts of a file.
    pub(super) fn parts(&self) -> Vec<Part> {
        let part = |(index, column): (usize, &Column)| Part {
            name: column.name.clone(),
            dtype: column.kept.dtype(),
            shape: [self.state.rows].into_iter().chain(column.shape.iter().copied()).collect(),
            bytes: column.row_bytes() * self.state.rows as u64,
            file: part_path(&self.folder, index),
        };
        self.state.columns.iter().enumerate().map(part).collect()
    }

    /// Removes the files, which are not needed any more.
    pub(super) fn remove(self) -> InputResult<()> {
        drop(self.files);
        std::fs::remove_dir_all(&self.folder).map_err(InputError::io("remove", &self.folder))
    }
}

fn part_path(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("{index}.part"))
}

/// Rows of a column.
pub(super) enum Numbers {
    Reals(Vec<f32>),
    Whole(Vec<i64>),
}

impl Numbers {
    fn write(&self, kept: Kept, file: &mut impl Write) -> std::io::Result<()> {
        match (self, kept) {
            (Numbers::Reals(reals), Kept::F16) => {
                reals.iter().try_for_each(|&x| file.write_all(&f16::from_f32(x).to_le_bytes()))
            }
            (Numbers::Reals(reals), _) => {
                reals.iter().try_for_each(|x| file.write_all(&x.to_le_bytes()))
            }
            (Numbers::Whole(whole), _) => {
                whole.iter().try_for_each(|x| file.write_all(&x.to_le_bytes()))
            }
        }
    }
}
