//! ZIP archives whose files are stored as they are or deflated: NumPy's `.npz`, and what PyTorch saves.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
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
        let bytes = Bytes::open(path)?;
        let members = directory(&bytes, wanted).map_err(|broken| match broken {
            Broken::Unreadable(error) => Error::io("read", path)(error),
            Broken::Truncated => Error::malformed(path, what, NO_DIRECTORY),
            Broken::Wrong(reason) => Error::malformed(path, what, reason),
        })?;
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
        let whole = 0..bytes.len();
        Ok(Some((bytes, whole)))
    }

    /// A deflated file in a temporary file.
    fn inflated(&self, member: &Member, label: &Path) -> Result<Bytes> {
        let mut spill = Spill::new()?;
        // One byte more than declared tells that there are more.
        let data = self.bytes.reader(member.data.clone());
        let mut inflating =
            CrcReader::new(DeflateDecoder::new(data).take(member.size.saturating_add(1)));
        let mut piece = vec![0; 1 << 18];
        loop {
            check_interrupt(self.observer)?;
            let count = inflating.read(&mut piece).map_err(|error| match error.kind() {
                // What the decoder says of bytes that are wrong.
                ErrorKind::InvalidInput | ErrorKind::InvalidData => {
                    Error::malformed(label, "a deflated file", error)
                }
                _ => Error::io("read", label)(error),
            })?;
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

/// Why an archive cannot be used.
enum Broken {
    /// It ends where more must be, or has something else there.
    Truncated,
    /// The system did not give its bytes.
    Unreadable(std::io::Error),
    /// What else is wrong, in words.
    Wrong(String),
}

const NO_DIRECTORY: &str = "its directory is not where it should be; it is truncated or damaged";

/// Reads little-endian numbers of an archive, none of them beyond its end.
struct Cursor<'a> {
    bytes: &'a Bytes,
    at: usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    /// From a place on to the end of the archive.
    fn from(bytes: &'a Bytes, at: u64) -> Result<Self, Broken> {
        let at = usize::try_from(at).map_err(|_| Broken::Truncated)?;
        Ok(Cursor { bytes, at, end: bytes.len() })
    }

    /// The next bytes apart, to be read by themselves.
    fn part(&mut self, count: usize) -> Result<Cursor<'a>, Broken> {
        let at = self.at;
        self.skip(count)?;
        Ok(Cursor { bytes: self.bytes, at, end: self.at })
    }

    fn take(&mut self, count: usize) -> Result<Vec<u8>, Broken> {
        let part = self.part(count)?;
        self.bytes.copy(part.at..part.end).map_err(Broken::Unreadable)
    }

    fn number(&mut self, bytes: usize) -> Result<u64, Broken> {
        let part = self.take(bytes)?;
        Ok(part.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn skip(&mut self, count: usize) -> Result<(), Broken> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.end);
        self.at = end.ok_or(Broken::Truncated)?;
        Ok(())
    }

    fn left(&self) -> usize {
        self.end - self.at
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
    bytes: &Bytes,
    wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Member>, Broken> {
    let start = bytes.copy(0..4).map_err(Broken::Unreadable)?;
    if !start.starts_with(b"PK") {
        return Err(Broken::Wrong(format!("it starts with {start:02x?}, not with PK")));
    }
    let (count, start) = end_of_directory(bytes)?;
    let mut cursor = Cursor::from(bytes, start)?;
    let mut members = BTreeMap::new();
    for _ in 0..count {
        let entry = Entry::read(&mut cursor)?;
        if !wanted(&entry.name) {
            continue;
        }
        let member = entry.member(bytes).map_err(|broken| match broken {
            Broken::Wrong(reason) => Broken::Wrong(format!("`{}`: {reason}", entry.name)),
            other => other,
        })?;
        members.insert(entry.name, member);
    }
    Ok(members)
}

/// Number of entries and where they begin.
fn end_of_directory(bytes: &Bytes) -> Result<(u64, u64), Broken> {
    /// The record is last but for a comment, whose length has two bytes.
    const FARTHEST: usize = 22 + 0xffff;
    let from = bytes.len().saturating_sub(FARTHEST);
    let last = bytes.copy(from..bytes.len()).map_err(Broken::Unreadable)?;
    let end = last.windows(END.len()).rposition(|part| part == END).ok_or(Broken::Truncated)?;
    let end = (from + end) as u64;
    let mut cursor = Cursor::from(bytes, end + 10)?;
    let (mut count, _, mut start) = (cursor.number(2)?, cursor.number(4)?, cursor.number(4)?);
    if let Some(at) = end.checked_sub(20) {
        let mut cursor = Cursor::from(bytes, at)?;
        if cursor.take(4)? == LOCATOR_64 {
            cursor.skip(4)?;
            let mut cursor = Cursor::from(bytes, cursor.number(8)?)?;
            if cursor.take(4)? != END_64 {
                return Err(Broken::Truncated);
            }
            cursor.skip(28)?;
            (count, _, start) = (cursor.number(8)?, cursor.number(8)?, cursor.number(8)?);
        }
    }
    Ok((count, start))
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
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Broken> {
        if cursor.take(4)? != ENTRY {
            return Err(Broken::Truncated);
        }
        cursor.skip(4)?;
        let (flags, method) = (cursor.number(2)?, cursor.number(2)?);
        cursor.skip(4)?;
        let (checksum, packed, size) = (cursor.number(4)?, cursor.number(4)?, cursor.number(4)?);
        let (name, extra) = (cursor.number(2)? as usize, cursor.number(2)? as usize);
        let comment = cursor.number(2)? as usize;
        cursor.skip(8)?;
        let local = cursor.number(4)?;
        let name = String::from_utf8_lossy(&cursor.take(name)?).into_owned();
        let mut extra = cursor.part(extra)?;
        cursor.skip(comment)?;
        let mut entry = Entry { flags, method, checksum, packed, size, local, name };
        // Less than a field is padding.
        while extra.left() >= 4 {
            let (kind, length) = (extra.number(2)?, extra.number(2)? as usize);
            let mut field = extra.part(length)?;
            if kind == 1 {
                // Those that did not fit, in this order.
                for number in [&mut entry.size, &mut entry.packed, &mut entry.local] {
                    if *number == ELSEWHERE {
                        *number = field.number(8)?;
                    }
                }
            }
        }
        Ok(entry)
    }

    /// Where the file's bytes lie, after a look at what comes before them.
    fn member(&self, bytes: &Bytes) -> Result<Member, Broken> {
        let wrong = |reason: String| Err(Broken::Wrong(reason));
        let deflated = match self.method {
            _ if self.flags & 1 != 0 => return wrong("it is encrypted".to_owned()),
            0 => false,
            8 => true,
            other => {
                return wrong(format!("expected a stored or deflated file, got method {other}"));
            }
        };
        let data = match self.data(bytes) {
            Err(Broken::Truncated) => {
                return wrong(format!(
                    "its {} bytes are not in the archive; it is truncated or damaged",
                    self.packed
                ));
            }
            data => data?,
        };
        let most = if deflated { self.packed.saturating_mul(MOST_INFLATED) } else { self.packed };
        if self.size > most || !deflated && self.size != self.packed {
            return wrong(format!(
                "it declares {} bytes, which {} cannot hold",
                self.size, self.packed
            ));
        }
        Ok(Member { data, deflated, size: self.size, checksum: self.checksum as u32 })
    }

    fn data(&self, bytes: &Bytes) -> Result<Range<usize>, Broken> {
        let mut cursor = Cursor::from(bytes, self.local)?;
        if cursor.take(4)? != LOCAL {
            return Err(Broken::Truncated);
        }
        cursor.skip(22)?;
        let (name, extra) = (cursor.number(2)? as usize, cursor.number(2)? as usize);
        cursor.skip(name + extra)?;
        let start = cursor.at;
        cursor.skip(usize::try_from(self.packed).map_err(|_| Broken::Truncated)?)?;
        Ok(start..cursor.at)
    }
}
