//! The inputs that fuzzing has found, and well-formed ones of each kind, through every reader: none panics, hangs or gives a
//! NaN. `make fuzz` looks for more.

#![cfg(all(feature = "onnx", feature = "parquet", feature = "serve"))]
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unreachable_pub)]

#[path = "../../offspan/tests/common/mod.rs"]
mod common;
#[path = "../../../fuzz/src/made.rs"]
mod made;
#[path = "../../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/src/targets.rs"]
mod targets;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use offspan::MethodSpec;
use rayon::prelude::*;

/// Changes of each well-formed input that are tried besides.
const CHANGES: u64 = 50;
/// The same of each input that is made, of which there are many.
const CHANGES_OF_MADE: u64 = 10;
/// Methods whose plans are made: they need nothing but rows.
const PLANNED: [&str; 4] = ["pca", "residual", "neco-ratio", "knn"];

fn inputs(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions").join(target);
    let entries = std::fs::read_dir(&folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Hands an input and changes of it to a reader; those that it does not survive.
fn faults(target: &targets::Target, name: &str, bytes: &[u8], changes: u64) -> Vec<String> {
    let changed = (0..changes).filter_map(|seed| match target.is_document {
        true => mutate::mutated(bytes, seed),
        false => Some(mutate::with_changed_bytes(bytes, seed)),
    });
    std::iter::once(bytes.to_vec())
        .chain(changed)
        .enumerate()
        .filter(|(_, input)| catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err())
        .map(|(number, _)| format!("{}: {name}, change {number}", target.name))
        .collect()
}

#[test]
fn every_reader_survives_what_was_found_and_what_is_like_it() {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for target in targets::TARGETS {
        let files = inputs(target.name);
        tried += usize::from(!files.is_empty());
        for file in files {
            let bytes = std::fs::read(&file).unwrap();
            wrong.extend(faults(target, &file.display().to_string(), &bytes, CHANGES));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried >= 17, "inputs for {tried} readers only");
}

#[test]
fn detectors_of_every_method_and_every_document_can_be_changed_without_harm() {
    let mut all = Vec::new();
    let mut put = |target: &str, name: &str, bytes: &[u8]| {
        all.push((targets::named(target).unwrap(), name.to_owned(), bytes.to_vec()));
    };
    for (name, spec) in common::every_method() {
        made::detector(&name, &spec, &mut put);
    }
    for name in PLANNED {
        made::plans(name, &MethodSpec::named(name).unwrap(), &mut put);
    }
    made::documents(&mut put);
    let wrong: Vec<String> = all
        .par_iter()
        .flat_map_iter(|(target, name, bytes)| faults(target, name, bytes, CHANGES_OF_MADE))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let made: BTreeSet<&str> = all.iter().map(|(target, ..)| target.name).collect();
    let documents = targets::TARGETS.iter().filter(|target| target.is_document);
    // Those of other programs are kept.
    let missing: Vec<&str> = documents
        .map(|target| target.name)
        .filter(|name| *name != "safetensors" && !made.contains(name))
        .collect();
    assert!(missing.is_empty(), "nothing is made for {missing:?}");
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
