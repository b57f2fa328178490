//! Tables as pyarrow, pandas and polars write them (`tools/make_tables.py`), and damaged ones.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use offspan_arrow::choice::{self, Chosen};
use offspan_arrow::{Element, Problem, TableFile, Target, Wanted};

const ROWS: usize = 120;
const WIDTH: usize = 6;
const CLASSES: usize = 3;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)
}

/// The number that `make_tables.py` puts here.
fn value(i: usize, j: usize) -> f64 {
    ((i * 31 + j * 17 + i * j) % 101) as f64 / 8.0 - 5.0
}

/// Everything in a table, as doubles.
#[derive(Debug, PartialEq)]
struct Read {
    features: Vec<f64>,
    logits: Option<Vec<f64>>,
    labels: Option<Vec<i64>>,
    rows: u64,
}

fn doubles(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|word| f64::from_le_bytes(word.try_into().unwrap())).collect()
}

fn read(file: File) -> Result<Read, Problem> {
    let table = TableFile::open(file)?;
    let Chosen { features, logits, labels } = choice::all(table.fields(), None, None, None)?;
    let (mut first, mut second, mut third) = (Vec::new(), Vec::new(), Vec::new());
    let (has_logits, has_labels) = (logits.is_some(), labels.is_some());
    let mut targets = vec![Target {
        width: features.width(),
        wanted: Wanted::Floats(features, Element::F64),
        finite: true,
        out: &mut first,
    }];
    if let Some(logits) = logits {
        let (width, wanted) = (logits.width(), Wanted::Floats(logits, Element::F64));
        targets.push(Target { wanted, width, finite: false, out: &mut second });
    }
    if let Some(labels) = labels {
        let wanted = Wanted::Integers(labels);
        targets.push(Target { wanted, width: None, finite: false, out: &mut third });
    }
    let rows = table.read(&mut targets, &mut |_| true)?;
    let whole = |bytes: &[u8]| {
        bytes.chunks_exact(8).map(|word| i64::from_le_bytes(word.try_into().unwrap())).collect()
    };
    Ok(Read {
        features: doubles(&first),
        logits: has_logits.then(|| doubles(&second)),
        labels: has_labels.then(|| whole(&third)),
        rows,
    })
}

const GOOD: [&str; 12] = [
    "fixed-snappy.parquet",
    "list-zstd.parquet",
    "large-gzip.parquet",
    "half-lz4.parquet",
    "plain.parquet",
    "numbered.parquet",
    "pandas.parquet",
    "polars.parquet",
    "file.arrow",
    "stream.arrow",
    "lz4.feather",
    "zstd.feather",
];

#[test]
fn every_format_gives_the_same_rows() {
    let table = |width: usize, of: fn(usize, usize) -> f64| {
        (0..ROWS * width).map(|at| of(at / width, at % width)).collect::<Vec<f64>>()
    };
    for name in GOOD {
        let got = read(File::open(path(name)).unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(got.rows, ROWS as u64, "{name}");
        assert_eq!(got.features, table(WIDTH, value), "{name}");
        let without = ["pandas.parquet", "polars.parquet"].contains(&name);
        let logits = table(CLASSES, |i, j| value(i, j) / 2.0);
        assert_eq!(got.logits, (!without).then_some(logits), "{name}");
        let labels: Vec<i64> = (0..ROWS).map(|i| (i % CLASSES) as i64).collect();
        assert_eq!(got.labels, (name != "pandas.parquet").then_some(labels), "{name}");
    }
}

#[test]
fn a_stop_is_heard_between_batches() {
    let table = TableFile::open(File::open(path("file.arrow")).unwrap()).unwrap();
    let features = choice::features(table.fields()).unwrap();
    let mut out = Vec::new();
    let wanted = Wanted::Floats(features, Element::F32);
    let mut targets = [Target { wanted, width: None, finite: true, out: &mut out }];
    let mut seen = 0;
    let stopped = table.read(&mut targets, &mut |rows| {
        seen += rows;
        false
    });
    assert!(matches!(stopped, Err(Problem::Stopped)));
    assert_eq!(seen, 50);
}

#[test]
fn what_cannot_be_used_is_told_with_its_column_and_row() {
    let cases = [
        ("null-row.parquet", "column `features`, row 2: it is null; expected numbers in every row"),
        ("null-number.parquet", "column `features`, row 3: number 1 of its list is null"),
        (
            "ragged.parquet",
            "column `features`, row 3: expected 6 numbers, as in the rows before, got 5",
        ),
        (
            "ragged.arrow",
            "column `features`, row 3: expected 6 numbers, as in the rows before, got 5",
        ),
        (
            "empty-lists.parquet",
            "column `features`, row 0: its list is empty; expected at least one number",
        ),
        ("nan.parquet", "column `features`, row 3: number 2 is NaN; every value must be finite"),
        (
            "text.parquet",
            "column `features` is text; expected float16, float32 or float64, or lists of them",
        ),
        ("integers.parquet", "column `features` is list of int64; expected float16"),
        ("gap.parquet", "no column of floats `f2`"),
        ("null-column.parquet", "column `f1`, row 1: it is null"),
        ("null-label.parquet", "column `labels`, row 1: it is null"),
        (
            "brotli.parquet",
            "column `features` is compressed with brotli; expected no compression, snappy",
        ),
        ("encrypted.parquet", "not a Parquet or Arrow file: it is encrypted"),
        ("encrypted-columns.parquet", "not a Parquet file: "),
    ];
    for (name, sentence) in cases {
        let told = read(File::open(path("bad").join(name)).unwrap()).unwrap_err().to_string();
        assert!(told.contains(sentence), "{name}: {told}");
    }
    let empty = read(File::open(path("bad/no-rows.parquet")).unwrap()).unwrap();
    assert_eq!((empty.rows, empty.features.len()), (0, 0));
}

fn of_bytes(bytes: &[u8]) -> Result<Read, Problem> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    read(file)
}

#[test]
fn other_files_are_told_apart() {
    let told = |bytes: &[u8]| of_bytes(bytes).unwrap_err().to_string();
    assert!(told(b"").contains("it is empty"));
    assert!(told(b"PAR").contains("it starts with [50, 41, 52], not with PAR1 or ARROW1"));
    assert!(told(b"PAR1").contains("not a Parquet file"));
    assert!(told(b"FEA1....").contains("Feather version 1"));
    assert!(told(b"ARROW1\0\0").contains("truncated or damaged"));
    assert!(told(b"\x93NUMPY\x01\0").contains("not with PAR1 or ARROW1"));
    assert!(told(&[0xff; 64]).contains("truncated or damaged"));
}

#[test]
fn truncated_files_are_refused() {
    for name in GOOD {
        let bytes = std::fs::read(path(name)).unwrap();
        for length in (0..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
            let cut = of_bytes(&bytes[..length]);
            // A stream has no end mark that it needs: cut between two messages, it is a shorter one.
            let shorter = name == "stream.arrow" && cut.as_ref().is_ok_and(|got| got.rows < 121);
            assert!(cut.is_err() || shorter, "{name} cut to {length}");
        }
    }
}

#[test]
fn altered_bytes_give_an_error_or_other_rows() {
    for name in GOOD {
        let bytes = std::fs::read(path(name)).unwrap();
        for at in (0..bytes.len()).step_by(13) {
            for change in [0x01, 0x80, 0xff] {
                let mut altered = bytes.clone();
                altered[at] ^= change;
                // Whatever comes of it, the program is still here.
                if let Ok(got) = of_bytes(&altered) {
                    assert!(got.features.len() < 100 * ROWS * WIDTH, "{name}, {at} ^ {change}");
                }
            }
        }
    }
}
