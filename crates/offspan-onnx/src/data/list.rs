//! Lists of images: one path per line, and behind a tab, a comma or a space the class number.

use std::path::{Path, PathBuf};

use super::Data;
use crate::input_error::{InputError, InputResult};

/// Lists are read whole.
const LARGEST: u64 = 1 << 30;

/// Opens a list. Paths are relative to its folder; empty lines and those that begin with # do not count.
pub(super) fn open(path: &Path) -> InputResult<Data> {
    let size = std::fs::metadata(path).map_err(InputError::io("open", path))?.len();
    if size > LARGEST {
        let reason = format!("expected a list of at most {LARGEST} bytes, got {size}");
        return Err(InputError::data(path, reason));
    }
    let bytes = std::fs::read(path).map_err(InputError::io("read", path))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| InputError::data(path, "not a list of images: it is not text (UTF-8)"))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (image, label) = parts(line);
        if label.is_some() != (labels.len() == images.len()) && !images.is_empty() {
            return Err(InputError::data(
                path,
                format!(
                    "line {}: expected a class number on every line or on none, got {}",
                    number + 1,
                    if label.is_some() { "one after lines without" } else { "none after lines with one" }
                ),
            ));
        }
        if label.is_some_and(|label| label < 0) {
            return Err(InputError::data(
                path,
                format!("line {}: expected a class number from 0, got {}", number + 1, label.unwrap_or(0)),
            ));
        }
        images.push(folder.join(image));
        labels.extend(label);
    }
    if images.is_empty() {
        return Err(InputError::data(path, "the list has no lines with a path"));
    }
    let labels = (!labels.is_empty()).then_some(labels);
    Ok(Data { labels, ..Data::of_images(path, images) })
}

/// The path and the class number of a line.
fn parts(line: &str) -> (PathBuf, Option<i64>) {
    if let Some(at) = line.rfind(['\t', ',', ' '])
        && let Ok(label) = line[at + 1..].parse()
    {
        return (PathBuf::from(line[..at].trim_end_matches(['\t', ',', ' '])), Some(label));
    }
    (PathBuf::from(line), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_at_the_end_is_the_class() {
        let path = PathBuf::from;
        assert_eq!(parts("a/b.png"), (path("a/b.png"), None));
        assert_eq!(parts("a/b c.png 7"), (path("a/b c.png"), Some(7)));
        assert_eq!(parts("a,b.png, 12"), (path("a,b.png"), Some(12)));
        assert_eq!(parts("a.png\t0"), (path("a.png"), Some(0)));
        assert_eq!(parts("a photo.png"), (path("a photo.png"), None));
    }
}
