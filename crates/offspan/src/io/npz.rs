//! NumPy's `.npz`: a ZIP archive of `.npy` files, stored as they are or deflated.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use flate2::CrcReader;
use flate2::read::DeflateDecoder;

use super::matrix::Order;
use super::npy::NpyArray;
use super::observer::{Observer, check_interrupt};
use super::spill::Spill;
use super::{Bytes, Dataset, Labels, Matrix, labels, npy};
use crate::{Error, Result};

const WHAT: &str = "a .npz file";

/// What features, logits and labels are called; the second names are those of OpenOOD.
const FEATURES: [&str; 2] = ["features", "feat_list"];
const LOGITS: [&str; 2] = ["logits", "logit_list"];
const LABELS: [&str; 2] = ["labels", "label_list"];

/// An open archive. Arrays that are stored as they are stay in it; deflated ones are written to a temporary file when
/// they are opened.
pub(super) struct Npz<'a> {
    path: PathBuf,
    observer: &'a dyn Observer,
    bytes: Bytes,
    members: BTreeMap<String, Member>,
}

/// Where in the archive an array lies, and how.
#[derive(Debug)]
struct Member {
    data: Range<usize>,
    deflated: bool,
    /// Bytes when inflated.
    size: u64,
    checksum: u32,
}

impl<'a> Npz<'a> {
    /// `observer` may stop the work where an array has to be inflated.
    pub(super) fn open(path: &Path, observer: &'a dyn Observer) -> Result<Self> {
        let bytes = Bytes::open(path)?;
        let members = directory(&bytes).map_err(|broken| match broken {
            Broken::Unreadable(error) => Error::io("read", path)(error),
            Broken::Truncated => Error::malformed(path, WHAT, NO_DIRECTORY),
            Broken::Wrong(reason) => Error::malformed(path, WHAT, reason),
        })?;
        Ok(Npz { path: path.to_owned(), observer, bytes, members })
    }

    /// Features with the logits, labels and other tensors of the same rows.
    pub(super) fn dataset(&self) -> Result<Dataset<'static>> {
        let features = self.name_or_only(&FEATURES)?;
        let name = self.path.display().to_string();
        let mut dataset = Dataset::new(name, self.matrix(&features)?);
        if let Some(logits) = self.known(&LOGITS) {
            dataset = dataset.with_logits(self.matrix(logits)?)?;
        }
        if self.known(&LABELS).is_some() {
            dataset = dataset.with_labels(self.labels()?)?;
        }
        let taken = |name: &String| {
            *name == features || LOGITS.iter().chain(&LABELS).any(|known| name == known)
        };
        for name in self.members.keys().filter(|name| !taken(name)) {
            // An array of another length or type is something else and no business of ours.
            let Some(array) = self.floats(name)? else { continue };
            let shape = array.shape.clone();
            if array.order == Order::RowMajor
                && shape.first() == Some(&dataset.rows())
                && !shape.contains(&0)
            {
                let row: usize = shape[1..].iter().product();
                let array = NpyArray { shape: vec![shape[0], row], ..array };
                let rows = npy::matrix(&self.path, self.label(name), array)?;
                dataset = dataset.with_extra(name.clone(), rows, &shape[1..])?;
            }
        }
        Ok(dataset)
    }

    /// The array called `role`, or else the only two-dimensional one of floats.
    pub(super) fn matrix_or_only(&self, role: &str) -> Result<Matrix> {
        let name = match role {
            "features" => self.name_or_only(&FEATURES)?,
            "logits" => self.name_or_only(&LOGITS)?,
            other => self.name_or_only(&[other])?,
        };
        self.matrix(&name)
    }

    /// The class labels.
    pub(super) fn labels(&self) -> Result<Labels> {
        let name = self.known(&LABELS).ok_or_else(|| self.missing(LABELS[0]))?;
        labels::from_array(&self.path, self.label(name), self.array(name)?)
    }

    fn known<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|name| self.members.contains_key(*name))
    }

    fn name_or_only(&self, names: &[&str]) -> Result<String> {
        if let Some(name) = self.known(names) {
            return Ok(name.to_owned());
        }
        let mut tables = Vec::new();
        for name in self.members.keys() {
            if self.floats(name)?.is_some_and(|array| array.shape.len() == 2) {
                tables.push(name);
            }
        }
        match tables.as_slice() {
            [only] => Ok((*only).clone()),
            _ => Err(self.missing(names[0])),
        }
    }

    /// An array, if it holds floats.
    fn floats(&self, name: &str) -> Result<Option<NpyArray>> {
        match self.array(name) {
            Err(Error::ElementType { .. }) => Ok(None),
            array => Ok(Some(array?).filter(|array| array.float_type().is_some())),
        }
    }

    fn missing(&self, name: &str) -> Error {
        let names: Vec<String> = self.members.keys().map(|name| format!("`{name}`")).collect();
        let have = if names.is_empty() { "no arrays".to_owned() } else { names.join(", ") };
        Error::MissingTensor { path: self.path.clone(), name: name.to_owned(), have }
    }

    fn label(&self, name: &str) -> String {
        format!("{} `{name}`", self.path.display())
    }

    fn matrix(&self, name: &str) -> Result<Matrix> {
        npy::matrix(&self.path, self.label(name), self.array(name)?)
    }

    fn array(&self, name: &str) -> Result<NpyArray> {
        let member = self.members.get(name).ok_or_else(|| self.missing(name))?;
        let label = self.label(name);
        if !member.deflated {
            return npy::parse_bytes(Path::new(&label), self.bytes.clone(), member.data.clone());
        }
        let bytes = self.inflated(member, Path::new(&label))?;
        let whole = 0..bytes.len();
        npy::parse_bytes(Path::new(&label), bytes, whole)
    }

    /// A deflated array in a temporary file.
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
                    Error::malformed(label, "a deflated array", error)
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
            return Err(Error::malformed(label, "a deflated array", reason));
        }
        if inflating.crc().sum() != member.checksum {
            return Err(Error::malformed(label, "a deflated array", "its checksum is another one"));
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

/// The arrays of an archive by their names.
fn directory(bytes: &Bytes) -> Result<BTreeMap<String, Member>, Broken> {
    let start = bytes.copy(0..4).map_err(Broken::Unreadable)?;
    if !start.starts_with(b"PK") {
        return Err(Broken::Wrong(format!("it starts with {start:02x?}, not with PK")));
    }
    let (count, start) = end_of_directory(bytes)?;
    let mut cursor = Cursor::from(bytes, start)?;
    let mut members = BTreeMap::new();
    for _ in 0..count {
        let entry = Entry::read(&mut cursor)?;
        let Some(name) = entry.name.strip_suffix(".npy") else { continue };
        let member = entry.member(bytes).map_err(|broken| match broken {
            Broken::Wrong(reason) => Broken::Wrong(format!("`{name}`: {reason}")),
            other => other,
        })?;
        members.insert(name.to_owned(), member);
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
                return wrong(format!("expected a stored or deflated array, got method {other}"));
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
