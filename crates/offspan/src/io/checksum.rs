//! The checksum in files of ours. It is of all bytes of the file, with zeros in place of its own
//! digits, so that no altered byte goes unnoticed, wherever it is.

use std::io::Read;
use std::ops::Range;

use xxhash_rust::xxh3::Xxh3;

use super::Bytes;

const PREFIX: &str = "xxh3-128:";
const DIGITS: usize = 32;
/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// The key of the checksum in a file's JSON document.
pub(super) const FIELD: &str = "checksum";

/// What stands in the place of the checksum while it is computed.
pub(super) fn blank() -> String {
    format!("{PREFIX}{}", "0".repeat(DIGITS))
}

/// Puts the checksum where a file has a blank one. The first bytes, up to `header_end`, are its header.
pub(super) fn fill(bytes: &mut [u8], header_end: usize) {
    if let Some(place) = find(&bytes[..header_end], &blank()) {
        let mut hash = begun(&bytes[..header_end], &place);
        hash.update(&bytes[header_end..]);
        bytes[place].copy_from_slice(finished(&hash).as_bytes());
    }
}

/// The checksum that a file should have which says that it is `stored`; none if that is no checksum.
pub(super) fn expected(
    bytes: &Bytes,
    header_end: usize,
    stored: &str,
) -> std::io::Result<Option<String>> {
    let digits = stored.strip_prefix(PREFIX).unwrap_or_default();
    if digits.len() != DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Ok(None);
    }
    let header = bytes.copy(0..header_end)?;
    let Some(place) = find(&header, stored) else { return Ok(None) };
    let mut hash = begun(&header, &place);
    let mut rest = bytes.reader(header_end..bytes.len());
    let mut piece = vec![0; PIECE.min(bytes.len())];
    loop {
        match rest.read(&mut piece)? {
            0 => return Ok(Some(finished(&hash))),
            count => hash.update(&piece[..count]),
        }
    }
}

fn find(header: &[u8], text: &str) -> Option<Range<usize>> {
    let start = header.windows(text.len()).position(|part| part == text.as_bytes())?;
    Some(start..start + text.len())
}

/// The hash of a header that has its checksum at this place.
fn begun(header: &[u8], place: &Range<usize>) -> Xxh3 {
    let mut hash = Xxh3::new();
    hash.update(&header[..place.start]);
    hash.update(blank().as_bytes());
    hash.update(&header[place.end..]);
    hash
}

fn finished(hash: &Xxh3) -> String {
    format!("{PREFIX}{:032x}", hash.digest128())
}
