//! Small pictures of the samples, for reports: mapped, and read only when one is looked at.

use std::ops::Range;

use super::Bytes;

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
}

/// The picture of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thumbnail<'a> {
    /// Pixels per line.
    pub width: usize,
    /// Lines.
    pub height: usize,
    /// 1 (grey) or 3 (red, green, blue).
    pub channels: usize,
    /// height × width × channels bytes, line by line from the top.
    pub pixels: &'a [u8],
}

impl Thumbnails {
    pub(super) fn get(&self, row: usize) -> Option<Thumbnail<'_>> {
        if row >= self.rows {
            return None;
        }
        let size = self.height * self.width * self.channels;
        let all = self.bytes.as_slice().get(self.data.clone())?;
        Some(Thumbnail {
            width: self.width,
            height: self.height,
            channels: self.channels,
            pixels: all.get(row * size..(row + 1) * size)?,
        })
    }
}
