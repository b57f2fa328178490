//! Bad inputs: each must give an error that says what was expected and what was got, and must
//! neither panic nor leave anything behind.
//!
//! The tables pair a situation with the whole sentence it must give. In a sentence `{dir}` stands
//! for the folder of the case and `…` for any text.

#![allow(clippy::unwrap_used)]

mod common;

#[path = "malformed/checkpoints.rs"]
mod checkpoints;
#[path = "malformed/detectors.rs"]
mod detectors;
#[path = "malformed/fits.rs"]
mod fits;
#[path = "malformed/inputs.rs"]
mod inputs;
#[path = "malformed/npy.rs"]
mod npy;
#[path = "malformed/packs.rs"]
mod packs;
#[path = "malformed/parameters.rs"]
mod parameters;
#[path = "malformed/tensors.rs"]
mod tensors;
#[path = "malformed/writing.rs"]
mod writing;

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use common::{WIDTH, features, fit, nystrom, put, whole_fit};
use offspan::io::{Dataset, Head, open_dataset};
use offspan::{Detector, Kernel, MethodSpec, Residual};

/// What was said, if anything was.
type Told = Option<String>;

/// Name, situation, sentence.
type Case = (&'static str, fn(&Path) -> Told, &'static str);

/// The error, in the words that a user sees.
fn told<T, E: Display>(result: Result<T, E>) -> Told {
    result.err().map(|error| error.to_string())
}

/// Whether `text` is `pattern` with every `…` standing for something.
fn matches(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Tries every case in a folder of its own and tells of all that fail, not only of the first.
fn check(cases: &[Case]) {
    let mut wrong = Vec::new();
    for (name, make, sentence) in cases {
        let folder = tempfile::tempdir().unwrap();
        let expected = sentence.replace("{dir}", &folder.path().display().to_string());
        match catch_unwind(AssertUnwindSafe(|| make(folder.path()))) {
            Ok(Some(got)) if matches(&got, &expected) => {}
            Ok(Some(got)) => {
                wrong.push(format!("{name}\n  expected: {expected}\n  got:      {got}"));
            }
            Ok(None) => wrong.push(format!("{name}\n  expected: {expected}\n  got:      no error")),
            Err(_) => wrong.push(format!("{name}\n  expected: {expected}\n  got:      a panic")),
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn patterns_match_whole_sentences_only() {
    assert!(matches("a b c", "a b c") && matches("a b c", "a…c") && matches("a b c", "…b…"));
    assert!(!matches("a b c", "a b") && !matches("a b c", "b c") && !matches("a b c", "a…d…c"));
}

const GAUSSIAN: Kernel = Kernel::Gaussian { gamma: 1.0 };

/// The header of a well-formed safetensors file with eight bytes of data.
const HEADER: &str = r#"{"features":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#;

/// Opens a file of these bytes as a dataset.
fn open(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> Told {
    told(open_dataset(put(folder, name, bytes), None))
}

/// Fits to all rows of a dataset.
fn fit_spec(spec: &MethodSpec, data: &Dataset<'_>, head: Option<&Head>) -> Told {
    told(Detector::fit(spec, data, head, &whole_fit()))
}

/// A detector of sixty rows in memory.
fn detector(spec: &MethodSpec) -> Detector {
    fit(spec, features(60, WIDTH, 1).view()).unwrap()
}

/// Nyström with four components of twenty dimensions.
fn nys() -> MethodSpec {
    MethodSpec::Kpca(nystrom(GAUSSIAN, 20, Residual::Complete))
}
