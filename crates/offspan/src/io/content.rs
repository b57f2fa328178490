//! What a file is, told by what is in it and not by its name.

use std::fmt::{Display, Formatter};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::Value;

use super::{TensorFile, npy};
use crate::{Error, Result};

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// A fitted detector.
    Detector,
    /// The state of a monitor.
    Monitor,
    /// The progress of a fit.
    Checkpoint,
    /// Sums over rows.
    Moments,
    /// A fit whose rows come bit by bit.
    PartialFit,
    /// A fit by passes over rows that lie elsewhere.
    FitPlan,
    /// What a pass found on some of the rows.
    FitPart,
    /// A safetensors file of another program, such as features.
    Tensors,
    /// A `.npy` file of anything but scores, such as features.
    Array,
    /// Scores: a one-dimensional `.npy` file of float64, or comma-separated values with a column
    /// `score`.
    Scores,
    /// Results of a command as JSON.
    Results,
    /// A page of a report or a study.
    Page,
    /// A detector as an ONNX file, alone or behind a model.
    Onnx,
    /// No bytes.
    Empty,
    /// None of these.
    Other,
}

/// The kinds whose files are safetensors with a JSON document of ours.
const WITH_DOCUMENT: [Content; 7] = [
    Content::Detector,
    Content::Monitor,
    Content::Checkpoint,
    Content::Moments,
    Content::PartialFit,
    Content::FitPlan,
    Content::FitPart,
];

/// What the names of our metadata in ONNX files begin with.
pub const ONNX_METADATA: &str = "offspan.";
/// The first field of an ONNX file is the version of its format.
const ONNX_BEGINS: u8 = 0x08;
/// Metadata come last, and are no longer than this.
const ONNX_END: u64 = 1 << 16;

/// So much of the beginning tells text from other files.
const BEGINNING: usize = 4096;

impl Content {
    /// Looks at a file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let beginning = beginning_of(path)?;
        if beginning.is_empty() {
            return Ok(Content::Empty);
        }
        if beginning.starts_with(npy::MAGIC) {
            return match npy::parse(path) {
                Ok(array) if array.is_scores() => Ok(Content::Scores),
                Err(error @ Error::Io { .. }) => Err(error),
                _ => Ok(Content::Array),
            };
        }
        match TensorFile::open(path) {
            Ok(file) => {
                let has_document = |kind: &Content| file.metadata(kind.key()).is_some();
                return Ok(WITH_DOCUMENT
                    .into_iter()
                    .find(has_document)
                    .unwrap_or(Content::Tensors));
            }
            // A file that cannot be read is not one of another kind.
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(_) => {}
        }
        if beginning[0] == ONNX_BEGINS && is_our_onnx(path)? {
            return Ok(Content::Onnx);
        }
        let text = String::from_utf8_lossy(&beginning);
        let first_line = text.lines().next().unwrap_or_default();
        if text.starts_with("<!doctype html>") {
            return Ok(if is_our_page(path)? { Content::Page } else { Content::Other });
        }
        if text.starts_with('{') {
            return Ok(if has_our_schema(path)? { Content::Results } else { Content::Other });
        }
        let has_scores = first_line.split(',').any(|name| name.trim().trim_matches('"') == "score");
        Ok(if has_scores { Content::Scores } else { Content::Other })
    }

    /// The key of the JSON document in such a file's metadata.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Content::Detector => "offspan.detector",
            Content::Monitor => "offspan.monitor",
            Content::Checkpoint => "offspan.checkpoint",
            Content::Moments => "offspan.moments",
            Content::PartialFit => "offspan.partial-fit",
            Content::FitPlan => "offspan.fit-plan",
            Content::FitPart => "offspan.fit-part",
            _ => unreachable!("{self} has no document"),
        }
    }

    /// What to call such a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Content::Detector => "an offspan detector",
            Content::Monitor => "an offspan monitor",
            Content::Checkpoint => "an offspan checkpoint",
            Content::Moments => "a file of moments",
            Content::PartialFit => "a partial fit",
            Content::FitPlan => "a plan of a fit",
            Content::FitPart => "a part of a fit",
            Content::Tensors => "a safetensors file such as features",
            Content::Array => "a .npy file such as features",
            Content::Scores => "a file of scores",
            Content::Results => "a JSON document of offspan",
            Content::Page => "a page of offspan",
            Content::Onnx => "an ONNX file of offspan",
            Content::Empty => "an empty file",
            Content::Other => "a file of another kind",
        }
    }
}

impl Display for Content {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Says, before it is lost, that a file is of another kind than the one that would take its place. No
/// file, an empty one and a device are no loss.
///
/// # Errors
/// If it is of another kind, or cannot be read.
pub fn check_replaces(path: impl AsRef<Path>, written: Content) -> Result<()> {
    let path = path.as_ref();
    match path.metadata() {
        Ok(found) if found.is_file() => {}
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Err(Error::io("read", path)(error));
        }
        _ => return Ok(()),
    }
    let found = Content::of(path)?;
    if found == written || found == Content::Empty {
        return Ok(());
    }
    let (found, written) = (found.to_string(), written.to_string());
    Err(Error::OtherKind { path: path.to_owned(), found, written })
}

/// The checksum that a file of ours carries; none in files of earlier versions, which had none.
///
/// # Errors
/// If the file cannot be read, or is none of ours.
pub fn stored_checksum(path: impl AsRef<Path>) -> Result<Option<String>> {
    let path = path.as_ref();
    let file = TensorFile::open(path)?;
    let document = WITH_DOCUMENT.into_iter().find_map(|kind| file.metadata(kind.key()));
    let Some(document) = document else {
        return Err(Error::malformed(path, "a file of offspan", "it has no document of offspan"));
    };
    let json: Value = serde_json::from_str(document)
        .map_err(|error| Error::malformed(path, "a file of offspan", error))?;
    Ok(json[super::checksum::FIELD].as_str().map(str::to_owned))
}

fn beginning_of(path: &Path) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut beginning = Vec::with_capacity(BEGINNING);
    file.take(BEGINNING as u64).read_to_end(&mut beginning).map_err(Error::io("read", path))?;
    Ok(beginning)
}

/// What an ONNX file says of itself is at its end.
fn is_our_onnx(path: &Path) -> Result<bool> {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(ONNX_END)))?;
        let mut end = Vec::new();
        file.take(ONNX_END).read_to_end(&mut end)?;
        Ok(end)
    };
    let end: Vec<u8> = read().map_err(Error::io("read", path))?;
    let key = format!("{ONNX_METADATA}fingerprint");
    Ok(end.windows(key.len()).any(|part| part == key.as_bytes()))
}

fn is_our_page(path: &Path) -> Result<bool> {
    let page = std::fs::read(path).map_err(Error::io("read", path))?;
    let end = &page[page.len().saturating_sub(BEGINNING)..];
    Ok(String::from_utf8_lossy(end).contains("<footer>offspan "))
}

fn has_our_schema(path: &Path) -> Result<bool> {
    let text = std::fs::read(path).map_err(Error::io("read", path))?;
    let json: Option<Value> = serde_json::from_slice(&text).ok();
    let schema = json.as_ref().and_then(|json| json["schema"].as_str());
    Ok(schema.is_some_and(|schema| schema.starts_with("offspan.")))
}
