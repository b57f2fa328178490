//! The checksum in files of ours. It is of all bytes of the file, with zeros in place of its own
//! digits, so that no altered byte goes unnoticed, wherever it is.

use std::ops::Range;

use xxhash_rust::xxh3::Xxh3;

const PREFIX: &str = "xxh3-128:";
const DIGITS: usize = 32;

/// The key of the checksum in a file's JSON document.
pub(super) const FIELD: &str = "checksum";

/// What stands in the place of the checksum while it is computed.
pub(super) fn blank() -> String {
    format!("{PREFIX}{}", "0".repeat(DIGITS))
}

/// Puts the checksum where a file has a blank one. The first bytes, up to `header_end`, are its header.
pub(super) fn fill(bytes: &mut [u8], header_end: usize) {
    if let Some(place) = find(&bytes[..header_end], &blank()) {
        let checksum = of(bytes, &place);
        bytes[place].copy_from_slice(checksum.as_bytes());
    }
}

/// The checksum that a file should have which says that it is `stored`; none if that is no checksum.
pub(super) fn expected(bytes: &[u8], header_end: usize, stored: &str) -> Option<String> {
    let digits = stored.strip_prefix(PREFIX)?;
    if digits.len() != DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    find(&bytes[..header_end], stored).map(|place| of(bytes, &place))
}

fn find(header: &[u8], text: &str) -> Option<Range<usize>> {
    let start = header.windows(text.len()).position(|part| part == text.as_bytes())?;
    Some(start..start + text.len())
}

fn of(bytes: &[u8], place: &Range<usize>) -> String {
    let mut hash = Xxh3::new();
    hash.update(&bytes[..place.start]);
    hash.update(blank().as_bytes());
    hash.update(&bytes[place.end..]);
    format!("{PREFIX}{:032x}", hash.digest128())
}
