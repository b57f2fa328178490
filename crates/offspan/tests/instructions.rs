//! Every set of instructions gives the same bits. Each runs in a process of its own, because the choice is
//! made once (`OFFSPAN_INSTRUCTIONS`); a set that this processor does not have is reported as ignored.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use ndarray::{Array2, s};
use offspan::io::Dataset;
use offspan::map::Draw;
use offspan::{
    Components, Detector, FitOptions, Instructions, KnnParams, KpcaParams, MapParams, MethodSpec,
    Moments, Precision, Residual,
};

/// Names the folder of detectors that a child process shall score with.
const CHILD: &str = "OFFSPAN_TEST_DETECTORS";
const VARIABLE: &str = "OFFSPAN_INSTRUCTIONS";
/// No multiple of any vector, panel or group; larger than a block of terms.
const WIDTH: usize = 301;
const ROWS: usize = 700;
/// One row, a few, a group and a part of one, many.
const BATCHES: [usize; 6] = [1, 2, 5, 13, 50, 211];

fn rows(count: usize, salt: usize) -> Array2<f32> {
    Array2::from_shape_fn((count, WIDTH), |(i, j)| {
        let class = (i % 5 * 31 + j * 17) % 11;
        let noise = (i * 7919 + j * 104_729 + i * j * 31 + salt * 65_537) % 4093;
        class as f32 / 4.0 + noise as f32 / 4093.0
    })
}

/// Each inner loop is in at least one of these.
fn methods() -> BTreeMap<&'static str, MethodSpec> {
    let ratio = |ratio: f64| Components::ExplainedVariance(ratio);
    let complete = KpcaParams::nystrom_uniform(333);
    let nystrom = KpcaParams { residual: Residual::Plain, ..complete.clone() };
    let fourier = |draw| KpcaParams {
        map: MapParams::Fourier { features: 1100, draw, parts: None },
        components: ratio(0.5),
        residual: Residual::Plain,
        ..KpcaParams::default()
    };
    let kpca = MethodSpec::Kpca;
    BTreeMap::from([
        ("nystrom", kpca(KpcaParams { components: ratio(0.9), ..nystrom.clone() })),
        ("nystrom-wide", kpca(KpcaParams { components: ratio(0.6), ..nystrom.clone() })),
        ("nystrom-f64", kpca(KpcaParams { precision: Precision::F64, ..nystrom })),
        ("nystrom-complete", kpca(complete)),
        ("fourier-structured", kpca(fourier(Draw::Structured))),
        ("fourier-iid", kpca(fourier(Draw::Iid))),
        ("knn", MethodSpec::Knn(KnnParams::default())),
        ("auto", MethodSpec::Auto(Default::default())),
    ])
}

fn hexadecimal(bits: impl IntoIterator<Item = u64>) -> String {
    // A checksum would hide where the first difference is.
    bits.into_iter().map(|bits| format!("{bits:016x}")).collect::<Vec<_>>().join(" ")
}

/// Prints `name: bits` for everything that must not depend on the instructions.
fn child(folder: &Path) {
    println!("in use: {}", Instructions::in_use().unwrap());
    let held = rows(BATCHES.iter().sum(), 3);
    for name in methods().keys() {
        let detector = Detector::load(folder.join(name)).unwrap();
        let mut bits = Vec::new();
        let mut start = 0;
        for batch in BATCHES {
            let part = held.slice(s![start..start + batch, ..]);
            bits.extend(detector.score(part, None).unwrap().iter().map(|x| x.to_bits()));
            start += batch;
        }
        println!("{name}: {}", hexadecimal(bits));
    }
    // More than a batch of the update, and a width that leaves part of a tile.
    let x = rows(1500, 5);
    let mut single = Moments::new(WIDTH);
    single.update(x.view()).unwrap();
    let mut double = Moments::new(WIDTH);
    double.update(x.mapv(f64::from).view()).unwrap();
    for (name, moments) in [("moments-f32", single), ("moments-f64", double)] {
        let covariance = moments.covariance();
        println!("{name}: {}", hexadecimal(covariance.iter().map(|x| x.to_bits())));
    }
}

type Bits = BTreeMap<String, String>;

fn run_child(folder: &Path, set: &str) -> Result<Bits, Failed> {
    let done =
        Command::new(std::env::current_exe()?).env(CHILD, folder).env(VARIABLE, set).output()?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned().into());
    }
    let text = String::from_utf8(done.stdout)?;
    let split = |line: &str| line.split_once(": ").map(|(a, b)| (a.to_owned(), b.to_owned()));
    Ok(text.lines().filter_map(split).collect())
}

/// Detectors fitted once, and what portable code makes of them.
struct Expected {
    folder: tempfile::TempDir,
    bits: Result<Bits, Failed>,
}

impl Expected {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let train = rows(ROWS, 1);
        let data = Dataset::new("train", train.view());
        for (name, spec) in methods() {
            let detector = Detector::fit(&spec, &data, None, &FitOptions::default()).unwrap();
            detector.save(folder.path().join(name)).unwrap();
        }
        let bits = run_child(folder.path(), "portable");
        Expected { folder, bits }
    }
}

fn compare(expected: &Expected, set: Instructions) -> Result<Completion, Failed> {
    if !Instructions::available().contains(&set) {
        return Ok(Completion::ignored_with("this processor does not have them"));
    }
    let plain = expected.bits.clone()?;
    let mut got = run_child(expected.folder.path(), set.name())?;
    assert_eq!(got.remove("in use").as_deref(), Some(set.name()));
    assert_eq!(got.len() + 1, plain.len());
    for (name, bits) in got {
        assert!(bits == plain[&name], "{name} with {set} differs from portable code");
    }
    Ok(Completion::Completed)
}

fn a_set_that_does_not_exist_is_refused_where_work_begins() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let Err(error) = run_child(folder.path(), "avx9") else { return Err("it ran".into()) };
    let text = format!("{error:?}");
    assert!(text.contains("OFFSPAN_INSTRUCTIONS") && text.contains("avx9"), "{text}");
    Ok(())
}

fn main() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return child(Path::new(&folder));
    }
    let expected: Arc<OnceLock<Expected>> = Arc::default();
    let mut trials = vec![Trial::test(
        "a_set_that_does_not_exist_is_refused_where_work_begins",
        a_set_that_does_not_exist_is_refused_where_work_begins,
    )];
    for name in Instructions::NAMES.iter().skip(1) {
        let set: Instructions = name.parse().unwrap();
        let expected = Arc::clone(&expected);
        let title = format!("{}_gives_the_bits_of_portable_code", name.replace('-', "_"));
        trials.push(Trial::ignorable_test(title, move || {
            compare(expected.get_or_init(Expected::new), set)
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
