//! A file with columns, whatever its format.

use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use arrow_array::RecordBatch;

use crate::ipc::IpcFile;
use crate::parquet_file::ParquetFile;
use crate::{Field, Problem, Target, ipc, parquet_file};

/// An open Parquet or Arrow file.
pub struct TableFile {
    file: Format,
    fields: Vec<Field>,
}

enum Format {
    Parquet(ParquetFile),
    Arrow(IpcFile),
}

/// What `read` does with a batch: it gets rows before it and the batch.
pub(crate) type OnBatch<'a> = dyn FnMut(u64, &RecordBatch) -> Result<(), Problem> + 'a;

const WHAT: &str = "a Parquet or Arrow file";

impl TableFile {
    /// Opens a file, which is known by its first bytes: Parquet, or Arrow's file or stream format.
    ///
    /// # Errors
    /// If it cannot be read, or is no such file.
    pub fn open(file: File) -> Result<Self, Problem> {
        guarded(|| {
            let length = file.metadata().map_err(Problem::Read)?.len();
            let mut magic = [0; 8];
            let got = ipc::read_up_to(&file, &mut magic)?;
            let (schema, file) = match &magic[..got] {
                [] => return Err(Problem::malformed(WHAT, "it is empty")),
                start if start.starts_with(parquet_file::MAGIC) => {
                    let file = ParquetFile::open(file)?;
                    (file.schema(), Format::Parquet(file))
                }
                start if start.starts_with(parquet_file::ENCRYPTED) => {
                    return Err(Problem::malformed(WHAT, "it is encrypted"));
                }
                start if start.starts_with(b"FEA1") => {
                    let reason =
                        "it is of Feather version 1; write it again as version 2 or Parquet";
                    return Err(Problem::malformed(WHAT, reason));
                }
                start => {
                    let file = IpcFile::open(file, length, start)?;
                    (file.schema(), Format::Arrow(file))
                }
            };
            let fields = schema.fields().iter().map(|field| Field::of(field)).collect();
            Ok(TableFile { file, fields })
        })
    }

    /// Its columns.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// How many rows it says it has, where it says so.
    #[must_use]
    pub fn rows(&self) -> Option<u64> {
        match &self.file {
            Format::Parquet(file) => Some(file.rows()),
            Format::Arrow(_) => None,
        }
    }

    /// Hands all rows to the targets. `proceed` is told how many rows are done now and then, and says whether to
    /// go on. Gives the number of rows.
    ///
    /// # Errors
    /// If a row is null, has a list of another length or a number that is not finite; if the file is damaged; if a
    /// target cannot be written.
    pub fn read(
        &self,
        targets: &mut [Target<'_>],
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Result<u64, Problem> {
        let mut positions: Vec<usize> =
            targets.iter().flat_map(|target| target.wanted.positions()).copied().collect();
        positions.sort_unstable();
        positions.dedup();
        let mut rows = 0;
        let every: Vec<usize> = (0..self.fields.len()).collect();
        guarded(|| {
            let given = match self.file {
                Format::Parquet(_) => &positions,
                Format::Arrow(_) => &every,
            };
            let mut each = |start: u64, batch: &RecordBatch| {
                for target in &mut *targets {
                    target.append(batch, given, start)?;
                }
                let count = batch.num_rows() as u64;
                rows = start + count;
                if proceed(count) { Ok(()) } else { Err(Problem::Stopped) }
            };
            match &self.file {
                Format::Parquet(file) => file.each_batch(&positions, &mut each),
                Format::Arrow(file) => file.each_batch(&mut each),
            }
        })?;
        Ok(rows)
    }
}

thread_local! {
    /// Whether this thread is at work on a file.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// The last guard against damaged files: the crates that read them panic where footer and pages contradict one
/// another, which must neither end the program nor print more than the error.
fn guarded<T>(work: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                usual(panic);
            }
        }));
    });
    let before = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.unwrap_or_else(|_| {
        Err(Problem::malformed(WHAT, "its parts contradict one another; it is damaged"))
    })
}
