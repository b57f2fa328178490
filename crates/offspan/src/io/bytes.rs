//! The bytes of a file, embedded in the program, or in memory.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::{Error, Result};

/// Read-only bytes that are cheap to share.
///
/// Files are never mapped into memory: a page of a mapped file that cannot be had, because the file has shrunk or its
/// disk fails, ends the process, and where a read fails there is an error to tell.
#[derive(Debug, Clone)]
pub(crate) enum Bytes {
    File(Arc<OpenFile>),
    Static(&'static [u8]),
    Memory(Arc<[u8]>),
}

/// A file that stays the same one if another takes its name.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: File,
    length: usize,
}

impl Bytes {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::of_file(File::open(path).map_err(Error::io("open", path))?, path)
    }

    /// The bytes of an open file; `path` names it in messages.
    pub(super) fn of_file(file: File, path: &Path) -> Result<Self> {
        let metadata = file.metadata().map_err(Error::io("read", path))?;
        if !metadata.is_file() {
            return Err(Error::malformed(path, "a regular file", "it is a folder or a device"));
        }
        let length = usize::try_from(metadata.len())
            .map_err(|_| Error::malformed(path, "a file", "it is larger than addresses reach"))?;
        Ok(Bytes::File(Arc::new(OpenFile { file, length })))
    }

    /// How many there are; of a file, how many there were when it was opened.
    pub(crate) fn len(&self) -> usize {
        match self {
            Bytes::File(open) => open.length,
            Bytes::Static(bytes) => bytes.len(),
            Bytes::Memory(bytes) => bytes.len(),
        }
    }

    /// Those in memory; none of a file.
    fn at_hand(&self) -> Option<&[u8]> {
        match self {
            Bytes::File(_) => None,
            Bytes::Static(bytes) => Some(bytes),
            Bytes::Memory(bytes) => Some(bytes),
        }
    }

    /// A copy of a range of the bytes, as far as there are so many.
    pub(crate) fn copy(&self, range: Range<usize>) -> std::io::Result<Vec<u8>> {
        let range = range.start.min(self.len())..range.end.min(self.len());
        let mut copy = vec![0; range.len()];
        self.read_into(range.start, &mut copy)?;
        Ok(copy)
    }

    /// A range of the bytes; those of a file are read into the buffer.
    pub(crate) fn read<'a>(
        &'a self,
        range: Range<usize>,
        buffer: &'a mut Vec<u8>,
    ) -> std::io::Result<&'a [u8]> {
        if let Some(bytes) = self.at_hand() {
            return Ok(&bytes[range]);
        }
        if buffer.len() < range.len() {
            buffer.resize(range.len(), 0);
        }
        let bytes = &mut buffer[..range.len()];
        self.read_into(range.start, bytes)?;
        Ok(bytes)
    }

    /// Fills `out` with the bytes from `start` on.
    pub(crate) fn read_into(&self, start: usize, out: &mut [u8]) -> std::io::Result<()> {
        match self {
            Bytes::File(open) => read_at(&open.file, start as u64, out),
            Bytes::Static(bytes) => {
                out.copy_from_slice(&bytes[start..start + out.len()]);
                Ok(())
            }
            Bytes::Memory(bytes) => {
                out.copy_from_slice(&bytes[start..start + out.len()]);
                Ok(())
            }
        }
    }

    /// A range of the bytes, one after the other.
    pub(super) fn reader(&self, range: Range<usize>) -> BytesReader<'_> {
        BytesReader { bytes: self, range }
    }

    /// Asks the system to read `range` from the file meanwhile.
    pub(crate) fn prefetch(&self, range: Range<usize>) {
        #[cfg(target_os = "linux")]
        if let Bytes::File(open) = self
            && let Some(length) = std::num::NonZeroU64::new(range.len() as u64)
        {
            use rustix::fs::{Advice, fadvise};
            // Only a hint: a refusal changes speed, not results.
            let _ = fadvise(&open.file, range.start as u64, Some(length), Advice::WillNeed);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = range;
    }
}

/// Reads some bytes in their order.
pub(super) struct BytesReader<'a> {
    bytes: &'a Bytes,
    range: Range<usize>,
}

impl Read for BytesReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = out.len().min(self.range.len());
        self.bytes.read_into(self.range.start, &mut out[..count])?;
        self.range.start += count;
        Ok(count)
    }
}

#[cfg(unix)]
fn read_at(file: &File, start: u64, out: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, start).map_err(in_words)
}

#[cfg(windows)]
fn read_at(file: &File, mut start: u64, mut out: &mut [u8]) -> std::io::Result<()> {
    while !out.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_read(file, out, start)?;
        if count == 0 {
            return Err(in_words(std::io::ErrorKind::UnexpectedEof.into()));
        }
        start += count as u64;
        out = &mut out[count..];
    }
    Ok(())
}

/// Sizes are checked when a file is opened, so one that ends too early has shrunk since.
fn in_words(error: std::io::Error) -> std::io::Error {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            std::io::Error::new(error.kind(), "the file has become shorter since it was opened")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_shrinks_is_an_error_wherever_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, [7; 10_000]).unwrap();
        let bytes = Bytes::open(&path).unwrap();
        assert_eq!(bytes.copy(9_990..20_000).unwrap(), [7; 10], "as far as there are so many");
        File::options().write(true).open(&path).unwrap().set_len(5_000).unwrap();
        assert_eq!(bytes.copy(0..5_000).unwrap().len(), 5_000);
        let mut all = Vec::new();
        let told = [
            bytes.copy(0..10_000).unwrap_err(),
            bytes.read(4_999..5_001, &mut all).unwrap_err(),
            bytes.reader(0..10_000).read_to_end(&mut Vec::new()).unwrap_err(),
        ];
        for error in told {
            assert_eq!(error.to_string(), "the file has become shorter since it was opened");
        }
    }

    #[test]
    fn another_file_of_the_same_name_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, "old").unwrap();
        let bytes = Bytes::open(&path).unwrap();
        super::super::write_bytes(&path, b"something new").unwrap();
        assert_eq!((bytes.len(), bytes.copy(0..3).unwrap()), (3, b"old".to_vec()));
    }
}
