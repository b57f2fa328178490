//! ZIP archives whose files are stored as they are or deflated: NumPy's `.npz`, and what PyTorch saves.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use flate2::CrcReader;
use flate2::read::DeflateDecoder;

use super::Bytes;
use super::observer::{Observer, check_interrupt};
use super::spill::Spill;
use crate::{Error, Result};

/// An open archive. Files that are stored as they are stay in it; deflated ones are written to a temporary file when
/// they are opened.
pub(super) struct Archive<'a> {
    pub(super) path: PathBuf,
    observer: &'a dyn Observer,
    bytes: Bytes,
    members: BTreeMap<String, Member>,
}

/// Where in the archive a file lies, and how.
#[derive(Debug)]
struct Member {
    data: Range<usize>,
    deflated: bool,
    /// Bytes when inflated.
    size: u64,
    checksum: u32,
}

impl<'a> Archive<'a> {
    /// Opens the files with wanted names; `what` is what the archive should be. `observer` may stop the work where a file
    /// has to be inflated.
    pub(super) fn open(
        path: &Path,
        what: &'static str,
        observer: &'a dyn Observer,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let bytes = Bytes::map(path)?;
        let members = directory(bytes.as_slice(), wanted)
            .map_err(|reason| Error::malformed(path, what, reason))?;
        Ok(Archive { path: path.to_owned(), observer, bytes, members })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Bytes with the place in them where a file lies; `label` is what to call it in messages. None if there is no such
    /// file.
    pub(super) fn file(&self, name: &str, label: &str) -> Result<Option<(Bytes, Range<usize>)>> {
        let Some(member) = self.members.get(name) else { return Ok(None) };
        if !member.deflated {
            return Ok(Some((self.bytes.clone(), member.data.clone())));
        }
        let bytes = self.inflated(member, Path::new(label))?;
        let whole = 0..bytes.as_slice().len();
        Ok(Some((bytes, whole)))
    }

    /// A deflated file in a temporary file.
    fn inflated(&self, member: &Member, label: &Path) -> Result<Bytes> {
        let mut spill = Spill::new()?;
        // One byte more than declared tells that there are more.
        let data = &self.bytes.as_slice()[member.data.clone()];
        let mut inflating =
            CrcReader::new(DeflateDecoder::new(data).take(member.size.saturating_add(1)));
        let mut piece = vec![0; 1 << 18];
        loop {
            check_interrupt(self.observer)?;
            let count = inflating
                .read(&mut piece)
                .map_err(|error| Error::malformed(label, "a deflated file", error))?;
            if count == 0 {
                break;
            }
            spill.write_all(&piece[..count]).map_err(|error| spill.error(error))?;
        }
        let got = inflating.get_ref().limit();
        let got = (member.size + 1).saturating_sub(got);
        if got != member.size {
            let reason = format!("expected {} bytes, got {got} or more", member.size);
            return Err(Error::malformed(label, "a deflated file", reason));
        }
        if inflating.crc().sum() != member.checksum {
            return Err(Error::malformed(label, "a deflated file", "its checksum is another one"));
        }
        spill.finish()
    }
}

/// Reads little-endian numbers of an archive, none of them beyond its end.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let part = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(part)
    }

    fn number(&mut self, bytes: usize) -> Option<u64> {
        let part = self.take(bytes)?;
        Some(part.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.take(count).map(drop)
    }
}

const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";
const ENTRY: &[u8] = b"PK\x01\x02";
const LOCAL: &[u8] = b"PK\x03\x04";
/// What stands in fields that are too small for their numbers, which are then elsewhere.
const ELSEWHERE: u64 = 0xffff_ffff;
/// Deflate makes nothing longer than so many times its input.
const MOST_INFLATED: u64 = 1032;

/// The wanted files of an archive by their names.
fn directory(
    bytes: &[u8],
    wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Member>, String> {
    if !bytes.starts_with(b"PK") {
        let start = &bytes[..bytes.len().min(4)];
        return Err(format!("it starts with {start:02x?}, not with PK"));
    }
    let truncated =
        || "its directory is not where it should be; it is truncated or damaged".to_owned();
    let (count, start) = end_of_directory(bytes).ok_or_else(truncated)?;
    let mut cursor = Cursor { bytes, at: usize::try_from(start).map_err(|_| truncated())? };
    let mut members = BTreeMap::new();
    for _ in 0..count {
        let entry = Entry::read(&mut cursor).ok_or_else(truncated)?;
        if !wanted(&entry.name) {
            continue;
        }
        let member = entry.member(bytes).map_err(|reason| format!("`{}`: {reason}", entry.name))?;
        members.insert(entry.name, member);
    }
    Ok(members)
}

/// Number of entries and where they begin.
fn end_of_directory(bytes: &[u8]) -> Option<(u64, u64)> {
    /// The record is last but for a comment, whose length has two bytes.
    const FARTHEST: usize = 22 + 0xffff;
    let from = bytes.len().saturating_sub(FARTHEST);
    let end = from + bytes[from..].windows(END.len()).rposition(|part| part == END)?;
    let mut cursor = Cursor { bytes, at: end + 10 };
    let (mut count, _, mut start) = (cursor.number(2)?, cursor.number(4)?, cursor.number(4)?);
    if let Some(at) = end.checked_sub(20)
        && bytes[at..].starts_with(LOCATOR_64)
    {
        let place = Cursor { bytes, at: at + 8 }.number(8)?;
        let mut cursor = Cursor { bytes, at: usize::try_from(place).ok()? };
        if cursor.take(4)? != END_64 {
            return None;
        }
        cursor.skip(28)?;
        (count, _, start) = (cursor.number(8)?, cursor.number(8)?, cursor.number(8)?);
    }
    Some((count, start))
}

/// A file as the directory describes it.
struct Entry {
    flags: u64,
    method: u64,
    checksum: u64,
    packed: u64,
    size: u64,
    local: u64,
    name: String,
}

impl Entry {
    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        if cursor.take(4)? != ENTRY {
            return None;
        }
        cursor.skip(4)?;
        let (flags, method) = (cursor.number(2)?, cursor.number(2)?);
        cursor.skip(4)?;
        let (checksum, packed, size) = (cursor.number(4)?, cursor.number(4)?, cursor.number(4)?);
        let (name, extra) = (cursor.number(2)? as usize, cursor.number(2)? as usize);
        let comment = cursor.number(2)? as usize;
        cursor.skip(8)?;
        let local = cursor.number(4)?;
        let name = String::from_utf8_lossy(cursor.take(name)?).into_owned();
        let mut extra = Cursor { bytes: cursor.take(extra)?, at: 0 };
        cursor.skip(comment)?;
        let mut entry = Entry { flags, method, checksum, packed, size, local, name };
        while let Some(kind) = extra.number(2) {
            let length = extra.number(2)? as usize;
            let mut field = Cursor { bytes: extra.take(length)?, at: 0 };
            if kind == 1 {
                // Those that did not fit, in this order.
                for number in [&mut entry.size, &mut entry.packed, &mut entry.local] {
                    if *number == ELSEWHERE {
                        *number = field.number(8)?;
                    }
                }
            }
        }
        Some(entry)
    }

    /// Where the file's bytes lie, after a look at what comes before them.
    fn member(&self, bytes: &[u8]) -> Result<Member, String> {
        let deflated = match self.method {
            _ if self.flags & 1 != 0 => return Err("it is encrypted".to_owned()),
            0 => false,
            8 => true,
            other => {
                return Err(format!("expected a stored or deflated file, got method {other}"));
            }
        };
        let data = self.data(bytes).ok_or_else(|| {
            format!("its {} bytes are not in the archive; it is truncated or damaged", self.packed)
        })?;
        let most = if deflated { self.packed.saturating_mul(MOST_INFLATED) } else { self.packed };
        if self.size > most || !deflated && self.size != self.packed {
            return Err(format!(
                "it declares {} bytes, which {} cannot hold",
                self.size, self.packed
            ));
        }
        Ok(Member { data, deflated, size: self.size, checksum: self.checksum as u32 })
    }

    fn data(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let mut cursor = Cursor { bytes, at: usize::try_from(self.local).ok()? };
        if cursor.take(4)? != LOCAL {
            return None;
        }
        cursor.skip(22)?;
        let (name, extra) = (cursor.number(2)? as usize, cursor.number(2)? as usize);
        cursor.skip(name + extra)?;
        let start = cursor.at;
        cursor.skip(usize::try_from(self.packed).ok()?)?;
        Some(start..cursor.at)
    }
}
