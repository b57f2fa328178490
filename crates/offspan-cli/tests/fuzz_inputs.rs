//! The inputs that fuzzing has found, and well-formed ones of each kind, through every reader: none panics, hangs or gives a
//! NaN. `make fuzz` looks for more.

#![cfg(all(feature = "onnx", feature = "parquet"))]
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

#[path = "../../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/src/targets.rs"]
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Changes of each well-formed input that are tried besides.
const CHANGES: u64 = 100;

fn inputs(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions").join(target);
    let entries = std::fs::read_dir(&folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_reader_survives_what_was_found_and_what_is_like_it() {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for target in targets::TARGETS {
        let files = inputs(target.name);
        tried += usize::from(!files.is_empty());
        for file in files {
            let bytes = std::fs::read(&file).unwrap();
            let changed = (0..CHANGES).filter(|_| target.is_document);
            let changed = changed.filter_map(|seed| mutate::mutated(&bytes, seed));
            for (number, input) in std::iter::once(bytes.clone()).chain(changed).enumerate() {
                if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
                    wrong.push(format!("{}, change {number}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried >= 12, "inputs for {tried} readers only");
}

#[test]
fn a_repaired_file_has_the_checksum_of_its_bytes() {
    let file = &inputs("monitor")[0];
    let bytes = std::fs::read(file).unwrap();
    assert!(targets::named("monitor").is_some() && targets::named("nothing").is_none());
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert_ne!(mutate::repaired(&damaged), damaged, "the checksum follows the bytes");
    let whole = mutate::repaired(&bytes);
    assert_eq!(mutate::repaired(&whole), whole);
}
