//! Numbers that come compressed, written out once: rows are then to be had in any order, as from any other file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use super::Bytes;
use crate::{Error, Result};

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 20;

/// A file in the system's folder for temporary files (`TMPDIR`). It has no name, so that it is gone when the process
/// ends, however that comes about.
pub(super) struct Spill {
    out: BufWriter<File>,
    folder: PathBuf,
}

const ACTION: &str = "write a temporary copy in";

impl Spill {
    pub(super) fn new() -> Result<Self> {
        let folder = std::env::temp_dir();
        let file = tempfile::tempfile_in(&folder).map_err(Error::io(ACTION, &folder))?;
        Ok(Spill { out: BufWriter::with_capacity(BUFFER, file), folder })
    }

    /// Why something could not be written to it.
    pub(super) fn error(&self, error: std::io::Error) -> Error {
        Error::io(ACTION, &self.folder)(error)
    }

    /// All that was written.
    pub(super) fn finish(self) -> Result<Bytes> {
        let Spill { out, folder } = self;
        let file =
            out.into_inner().map_err(|error| Error::io(ACTION, &folder)(error.into_error()))?;
        Bytes::of_file(file, &folder)
    }
}

impl Write for Spill {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
