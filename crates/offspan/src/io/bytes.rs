//! The bytes of a file: mapped, embedded in the program, or in memory.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::{Advice, Mmap, UncheckedAdvice};

use crate::{Error, Result};

/// Read-only bytes that are cheap to share.
#[derive(Debug, Clone)]
pub(crate) enum Bytes {
    Mapped(Arc<Mmap>),
    Static(&'static [u8]),
    Memory(Arc<[u8]>),
}

impl Bytes {
    #[allow(unsafe_code)]
    pub(crate) fn map(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let metadata = file.metadata().map_err(Error::io("read", path))?;
        if !metadata.is_file() {
            return Err(Error::malformed(path, "a regular file", "it is a folder or a device"));
        }
        if metadata.len() == 0 {
            return Ok(Bytes::Static(&[]));
        }
        // SAFETY: the mapping is read-only. Another process that truncates the file while it is
        // mapped ends this one with SIGBUS; readers of data files accept that, as NumPy's do.
        let map = unsafe { Mmap::map(&file) }.map_err(Error::io("map", path))?;
        // Only a hint: a refusal changes speed, not results.
        let _ = map.advise(Advice::Sequential);
        Ok(Bytes::Mapped(Arc::new(map)))
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Static(bytes) => bytes,
            Bytes::Memory(bytes) => bytes,
        }
    }

    /// Asks the system to read `range` from the file meanwhile.
    pub(crate) fn prefetch(&self, range: Range<usize>) {
        if let Bytes::Mapped(map) = self
            && range.start < range.end
        {
            // Only a hint: a refusal changes speed, not results.
            let _ = map.advise_range(Advice::WillNeed, range.start, range.end - range.start);
        }
    }

    /// Drops the pages of `range` from this process's memory; they come back from the file when
    /// they are read again.
    #[allow(unsafe_code)]
    pub(crate) fn release(&self, range: Range<usize>) {
        if let Bytes::Mapped(map) = self
            && range.start < range.end
            && range.end <= map.len()
        {
            // SAFETY: the mapping is a shared, read-only view of a file: a dropped page is read
            // from the file again, so no reader can see other bytes.
            let _ = unsafe {
                map.unchecked_advise_range(
                    UncheckedAdvice::DontNeed,
                    range.start,
                    range.end - range.start,
                )
            };
        }
    }
}
