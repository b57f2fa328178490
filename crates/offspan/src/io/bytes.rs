//! The bytes of a file, embedded in the program, or in memory.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::{Advice, Mmap};

use crate::{Error, Result};

/// Read-only bytes that are cheap to share.
#[derive(Debug, Clone)]
pub(crate) enum Bytes {
    Mapped(Arc<MappedFile>),
    Static(&'static [u8]),
    Memory(Arc<[u8]>),
}

/// A file, mapped for headers and small tensors. Rows are read from the file itself: that fails with an
/// error where a mapped page that cannot be had ends the process.
#[derive(Debug)]
pub(crate) struct MappedFile {
    file: File,
    map: Mmap,
}

impl Bytes {
    pub(crate) fn map(path: &Path) -> Result<Self> {
        Self::of_file(File::open(path).map_err(Error::io("open", path))?, path)
    }

    /// The bytes of an open file; `path` names it in messages.
    #[allow(unsafe_code)]
    pub(super) fn of_file(file: File, path: &Path) -> Result<Self> {
        let metadata = file.metadata().map_err(Error::io("read", path))?;
        if !metadata.is_file() {
            return Err(Error::malformed(path, "a regular file", "it is a folder or a device"));
        }
        if metadata.len() == 0 {
            return Ok(Bytes::Static(&[]));
        }
        // SAFETY: the mapping is read-only. Another process that truncates the file while its header
        // is read ends this one with SIGBUS; readers of data files accept that, as NumPy's do.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::io("map", path))?;
        Ok(Bytes::Mapped(Arc::new(MappedFile { file, map })))
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(mapped) => &mapped.map,
            Bytes::Static(bytes) => bytes,
            Bytes::Memory(bytes) => bytes,
        }
    }

    /// A range of the bytes; those of a file are read into the buffer.
    pub(crate) fn read<'a>(
        &'a self,
        range: Range<usize>,
        buffer: &'a mut Vec<u8>,
    ) -> std::io::Result<&'a [u8]> {
        if !matches!(self, Bytes::Mapped(_)) {
            return Ok(&self.as_slice()[range]);
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
        if let Bytes::Mapped(mapped) = self {
            return read_at(&mapped.file, start as u64, out);
        }
        out.copy_from_slice(&self.as_slice()[start..start + out.len()]);
        Ok(())
    }

    /// Asks the system to read `range` from the file meanwhile.
    pub(crate) fn prefetch(&self, range: Range<usize>) {
        if let Bytes::Mapped(mapped) = self
            && range.start < range.end
        {
            // Only a hint: a refusal changes speed, not results.
            let _ = mapped.map.advise_range(Advice::WillNeed, range.start, range.end - range.start);
        }
    }
}

#[cfg(unix)]
fn read_at(file: &File, start: u64, out: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, start)
}

#[cfg(windows)]
fn read_at(file: &File, mut start: u64, mut out: &mut [u8]) -> std::io::Result<()> {
    while !out.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_read(file, out, start)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        start += count as u64;
        out = &mut out[count..];
    }
    Ok(())
}
