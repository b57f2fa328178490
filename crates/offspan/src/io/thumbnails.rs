//! Small pictures of the samples, for reports: read only when one is looked at.

use std::ops::Range;
use std::path::Path;

use super::Bytes;
use crate::{Error, Result};

/// The longest side of a thumbnail: more is no thumbnail, and would fill a report.
pub const LARGEST_THUMBNAIL: usize = 256;

/// One picture per row, all of one size.
#[derive(Debug, Clone)]
pub(crate) struct Thumbnails {
    pub(super) bytes: Bytes,
    /// Where in `bytes` the pixels lie; its length is rows · height · width · channels.
    pub(super) data: Range<usize>,
    pub(super) rows: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) channels: usize,
    pub(super) name: String,
}

/// The picture of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thumbnail {
    /// Pixels per line.
    pub width: usize,
    /// Lines.
    pub height: usize,
    /// 1 (grey) or 3 (red, green, blue).
    pub channels: usize,
    /// height × width × channels bytes, line by line from the top.
    pub pixels: Vec<u8>,
}

impl Thumbnails {
    pub(super) fn get(&self, row: usize) -> Result<Option<Thumbnail>> {
        if row >= self.rows {
            return Ok(None);
        }
        let &Thumbnails { width, height, channels, .. } = self;
        let size = height * width * channels;
        let start = self.data.start + row * size;
        let pixels = self
            .bytes
            .copy(start..start + size)
            .map_err(Error::io("read", Path::new(&self.name)))?;
        Ok(Some(Thumbnail { width, height, channels, pixels }))
    }
}
