//! Bad inputs: each must give an error that says what was expected and what was got, and must
//! neither panic nor leave anything behind.
//!
//! The tables pair a situation with the whole sentence it must give. In a sentence `{dir}` stands
//! for the folder of the case and `…` for any text.

#![allow(clippy::unwrap_used)]

mod common;

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::*;
use half::{bf16, f16};
use ndarray::{Array1, Array2, array};
use offspan::io::{
    Dataset, ElementType, FeatureSource, Head, Pack, RawLayout, check_writable, open_dataset,
    open_head, open_matrix, read_index_list, write_npy_f64,
};
use offspan::map::{Draw, EigenFloor};
use offspan::{
    Checkpointing, Clip, Components, Detector, EnsembleParams, ExactForm, FitOptions, Fusion,
    Kernel, KpcaParams, MapParams, MethodSpec, Moments, Residual, Sampling,
};
use safetensors::Dtype;
use serde_json::json;

/// What was said, if anything was.
type Told = Option<String>;

/// Name, situation, sentence.
type Case = (&'static str, fn(&Path) -> Told, &'static str);

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
            Ok(Some(got)) => wrong.push(format!("{name}\n  expected: {expected}\n  got:      {got}")),
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

fn open(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> Told {
    told(open_dataset(&put(folder, name, bytes), None))
}

fn open_npy(folder: &Path, descr: &str, shape: &str, data: &[u8]) -> Told {
    open(folder, "x.npy", npy(1, descr, false, shape, data))
}

fn open_npy_header(folder: &Path, header: &[u8]) -> Told {
    open(folder, "x.npy", npy_with_header(1, header, &[0; 8]))
}

#[test]
fn npy_files() {
    let cases: &[Case] = &[
        (
            "empty",
            |d| open(d, "x.npy", []),
            "{dir}/x.npy: its header: expected 10 bytes, got 0; the file is truncated or damaged",
        ),
        (
            "cut in the magic",
            |d| open(d, "x.npy", b"\x93NUM"),
            "{dir}/x.npy: its header: expected 10 bytes, got 4; the file is truncated or damaged",
        ),
        (
            "cut in the header's length",
            |d| open(d, "x.npy", b"\x93NUMPY\x02\x00\x10\x00\x00"),
            "{dir}/x.npy: its header: expected 12 bytes, got 11; the file is truncated or damaged",
        ),
        (
            "cut in the header",
            |d| open(d, "x.npy", &npy(1, "<f4", false, "(1, 2)", &[0; 8])[..40]),
            "{dir}/x.npy: its header: expected 70 bytes, got 40; the file is truncated or damaged",
        ),
        (
            "cut in the data",
            |d| open_npy(d, "<f4", "(3, 2)", &[0; 23]),
            "{dir}/x.npy: its data: expected 94 bytes, got 93; the file is truncated or damaged",
        ),
        (
            "bytes after the data",
            |d| open_npy(d, "<f4", "(3, 2)", &[0; 27]),
            "{dir}/x.npy: not a .npy file: 3 bytes follow the data that its shape [3, 2] describes",
        ),
        (
            "wrong magic",
            |d| open(d, "x.npy", b"PK\x03\x04 a zip archive"),
            "{dir}/x.npy: not a .npy file: it starts with [50, 4b, 03, 04, 20, 61], not with \
             \\x93NUMPY",
        ),
        (
            "unknown version",
            |d| open(d, "x.npy", npy(4, "<f4", false, "(1, 2)", &[0; 8])),
            "{dir}/x.npy: not a .npy file: unknown format version 4",
        ),
        (
            "absurd header length",
            |d| open(d, "x.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'"),
            "{dir}/x.npy: not a .npy file: it declares a header of 4294967295 bytes; at most \
             1048576 make sense",
        ),
        (
            "header is not text",
            |d| open_npy_header(d, b"{'descr': '\xff\xfe'}"),
            "{dir}/x.npy: not a .npy file: its header is not text",
        ),
        (
            "header is empty",
            |d| open_npy_header(d, b""),
            "{dir}/x.npy: not a .npy file: its header has no `descr`",
        ),
        (
            "no descr",
            |d| open_npy_header(d, b"{'fortran_order': False, 'shape': (1, 2)}"),
            "{dir}/x.npy: not a .npy file: its header has no `descr`",
        ),
        (
            "no fortran_order",
            |d| open_npy_header(d, b"{'descr': '<f4', 'shape': (1, 2)}"),
            "{dir}/x.npy: not a .npy file: its header has no `fortran_order`",
        ),
        (
            "no shape",
            |d| open_npy_header(d, b"{'descr': '<f4', 'fortran_order': False}"),
            "{dir}/x.npy: not a .npy file: its header has no `shape`",
        ),
        (
            "fortran_order is a number",
            |d| open_npy_header(d, b"{'descr': '<f4', 'fortran_order': 1, 'shape': (1, 2)}"),
            "{dir}/x.npy: not a .npy file: fortran_order is neither True nor False",
        ),
        (
            "shape is a list",
            |d| open_npy_header(d, b"{'descr': '<f4', 'fortran_order': False, 'shape': [1, 2]}"),
            "{dir}/x.npy: not a .npy file: its shape is not a tuple",
        ),
        (
            "shape does not end",
            |d| open_npy_header(d, b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2"),
            "{dir}/x.npy: not a .npy file: its shape is not a tuple",
        ),
        (
            "negative size",
            |d| open_npy(d, "<f4", "(-1, 2)", &[0; 8]),
            "{dir}/x.npy: not a .npy file: its shape has `-1`, not a size",
        ),
        (
            "structured type",
            |d| {
                let header = b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 2)}";
                open_npy_header(d, header)
            },
            "{dir}/x.npy: not a .npy file: its element type is structured; expected one plain \
             number type",
        ),
        (
            "pickled objects",
            |d| open_npy(d, "|O", "(1, 2)", &[0; 8]),
            "{dir}/x.npy: the array has element type |O; expected …",
        ),
        (
            "text",
            |d| open_npy(d, "<U2", "(1, 1)", &[0; 8]),
            "{dir}/x.npy: the array has element type <U2; expected …",
        ),
        (
            "complex numbers",
            |d| open_npy(d, "<c8", "(1, 1)", &[0; 8]),
            "{dir}/x.npy: the array has element type <c8; expected …",
        ),
        (
            "type beyond ASCII",
            |d| open_npy(d, "<é", "(1, 1)", &[0; 8]),
            "{dir}/x.npy: the array has element type <é; expected …",
        ),
        (
            "big-endian",
            |d| open_npy(d, ">f4", "(1, 2)", &[0; 8]),
            "{dir}/x.npy: the array has element type >f4; expected little-endian float16, float32 \
             or float64",
        ),
        (
            "whole numbers",
            |d| open_npy(d, "<i4", "(1, 2)", &[0; 8]),
            "{dir}/x.npy: the array has element type <i4; expected little-endian float16, float32 \
             or float64",
        ),
        (
            "shape overflows",
            |d| open_npy(d, "<f4", "(4294967296, 4294967296)", &[0; 8]),
            "{dir}/x.npy: not a .npy file: its shape [4294967296, 4294967296] overflows",
        ),
        (
            "a size overflows",
            |d| open_npy(d, "<f4", "(99999999999999999999, 1)", &[0; 8]),
            "{dir}/x.npy: not a .npy file: its shape has `99999999999999999999`, not a size",
        ),
        (
            "more rows than any disk has",
            |d| open_npy(d, "<f4", "(1000000000000000, 2)", &[0; 8]),
            "{dir}/x.npy: its data: expected 8000000000000084 bytes, got 92; the file is truncated \
             or damaged",
        ),
        (
            "no dimensions",
            |d| open_npy(d, "<f4", "()", &[0; 4]),
            "{dir}/x.npy: expected shape [rows, columns], got []",
        ),
        (
            "one dimension",
            |d| open_npy(d, "<f4", "(2,)", &[0; 8]),
            "{dir}/x.npy: expected shape [rows, columns], got [2]",
        ),
        (
            "three dimensions",
            |d| open_npy(d, "<f4", "(1, 2, 1)", &[0; 8]),
            "{dir}/x.npy: expected shape [rows, columns], got [1, 2, 1]",
        ),
        (
            "no rows",
            |d| open_npy(d, "<f4", "(0, 2)", &[]),
            "{dir}/x.npy: expected shape at least one row and one column, got [0, 2]",
        ),
        (
            "no columns",
            |d| open_npy(d, "<f4", "(2, 0)", &[]),
            "{dir}/x.npy: expected shape at least one row and one column, got [2, 0]",
        ),
    ];
    check(cases);
}

const HEADER: &str = r#"{"features":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#;

fn open_header(folder: &Path, header: &str, data: &[u8]) -> Told {
    open(folder, "x.safetensors", tensors_with_header(header, data))
}

fn open_tensors(folder: &Path, parts: &[(&str, Dtype, &[usize])]) -> Told {
    let zeros = |dtype: Dtype, shape: &[usize]| {
        (dtype, shape.to_vec(), vec![0; shape.iter().product::<usize>() * dtype.bitsize() / 8])
    };
    let parts: Tensors = parts
        .iter()
        .map(|&(name, dtype, shape)| (name.to_owned(), zeros(dtype, shape)))
        .collect();
    open(folder, "x.safetensors", tensors(&parts, None))
}

#[test]
fn safetensors_files() {
    let cases: &[Case] = &[
        (
            "empty",
            |d| open(d, "x.safetensors", []),
            "{dir}/x.safetensors: its header: expected 8 bytes, got 0; the file is truncated or \
             damaged",
        ),
        (
            "cut in the header's length",
            |d| open(d, "x.safetensors", [9, 0, 0, 0, 0, 0, 0]),
            "{dir}/x.safetensors: its header: expected 8 bytes, got 7; the file is truncated or \
             damaged",
        ),
        (
            "cut in the header",
            |d| open(d, "x.safetensors", &tensors_with_header(HEADER, &[0; 8])[..30]),
            "{dir}/x.safetensors: its header: expected 71 bytes, got 30; the file is truncated or \
             damaged",
        ),
        (
            "header longer than memory",
            |d| open(d, "x.safetensors", u64::MAX.to_le_bytes()),
            "{dir}/x.safetensors: not a safetensors file: it declares a header of \
             18446744073709551615 bytes; at most 100000000 are allowed",
        ),
        (
            "header of more than 100 MB",
            |d| open(d, "x.safetensors", 100_000_001u64.to_le_bytes()),
            "{dir}/x.safetensors: not a safetensors file: it declares a header of 100000001 \
             bytes; at most 100000000 are allowed",
        ),
        (
            "header is not text",
            |d| open(d, "x.safetensors", b"\x02\0\0\0\0\0\0\0\xff\xff"),
            "{dir}/x.safetensors: not a safetensors file: invalid UTF-8 in header: …",
        ),
        (
            "header is not JSON",
            |d| open_header(d, "{features}", &[]),
            "{dir}/x.safetensors: not a safetensors file: invalid JSON in header: … line 1 column 2",
        ),
        (
            "unknown element type",
            |d| open_header(d, &HEADER.replace("F32", "F33"), &[0; 8]),
            "{dir}/x.safetensors: not a safetensors file: invalid JSON in header: …F33…",
        ),
        (
            "offsets overlap",
            |d| {
                let b = r#","b":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]}}"#;
                open_header(d, &HEADER.replace("]}}", &format!("]}}{b}")), &[0; 12])
            },
            "{dir}/x.safetensors: not a safetensors file: invalid offset for tensor `b`",
        ),
        (
            "a hole between tensors",
            |d| {
                let b = r#","b":{"dtype":"F32","shape":[1,2],"data_offsets":[12,20]}}"#;
                open_header(d, &HEADER.replace("]}}", &format!("]}}{b}")), &[0; 20])
            },
            "{dir}/x.safetensors: not a safetensors file: invalid offset for tensor `b`",
        ),
        (
            "offsets run backwards",
            |d| open_header(d, &HEADER.replace("[0,8]", "[8,0]"), &[0; 8]),
            "{dir}/x.safetensors: not a safetensors file: invalid offset for tensor `features`",
        ),
        (
            "offsets do not suit the shape",
            |d| open_header(d, &HEADER.replace("[1,2]", "[1,3]"), &[0; 8]),
            "{dir}/x.safetensors: not a safetensors file: invalid shape, data type, or offset for \
             tensor",
        ),
        (
            "shape overflows",
            |d| open_header(d, &HEADER.replace("[1,2]", "[4294967296,4294967296]"), &[0; 8]),
            "{dir}/x.safetensors: not a safetensors file: overflow computing buffer size from \
             shape and/or element type",
        ),
        (
            "cut in the data",
            |d| open_header(d, HEADER, &[0; 7]),
            "{dir}/x.safetensors: its data: expected 79 bytes, got 78; the file is truncated or \
             damaged",
        ),
        (
            "bytes after the data",
            |d| open_header(d, HEADER, &[0; 9]),
            "{dir}/x.safetensors: not a safetensors file: bytes follow the data that its header \
             describes",
        ),
        (
            "no tensors",
            |d| open_header(d, "{}", &[]),
            "{dir}/x.safetensors: no tensor `features`; it has no tensors",
        ),
        (
            "no `features` and two that could be",
            |d| open_tensors(d, &[("a", Dtype::F32, &[3, 2]), ("b", Dtype::F16, &[3, 4])]),
            "{dir}/x.safetensors: no tensor `features`; it has `a` F32 [3, 2], `b` F16 [3, 4]",
        ),
        (
            "no `features` and none that could be",
            |d| open_tensors(d, &[("ids", Dtype::I64, &[3, 2]), ("mean", Dtype::F32, &[4])]),
            "{dir}/x.safetensors: no tensor `features`; it has `ids` I64 [3, 2], `mean` F32 [4]",
        ),
        (
            "whole numbers",
            |d| open_tensors(d, &[("features", Dtype::I64, &[3, 2])]),
            "{dir}/x.safetensors: `features` has element type I64; expected f16, bf16, f32 or f64",
        ),
        (
            "eight-bit floats",
            |d| open_tensors(d, &[("features", Dtype::F8_E4M3, &[3, 2])]),
            "{dir}/x.safetensors: `features` has element type F8_E4M3; expected f16, bf16, f32 or \
             f64",
        ),
        (
            "one dimension",
            |d| open_tensors(d, &[("features", Dtype::F32, &[3])]),
            "{dir}/x.safetensors `features`: expected shape [rows, columns], got [3]",
        ),
        (
            "four dimensions: maps that nobody pooled",
            |d| open_tensors(d, &[("features", Dtype::F32, &[3, 2, 7, 7])]),
            "{dir}/x.safetensors `features`: expected shape [rows, columns], got [3, 2, 7, 7]",
        ),
        (
            "no rows",
            |d| open_tensors(d, &[("features", Dtype::F32, &[0, 2])]),
            "{dir}/x.safetensors `features`: expected shape at least one row and one column, got \
             [0, 2]",
        ),
        (
            "no columns, and more rows than memory",
            |d| {
                let header = HEADER.replace("[1,2]", "[18446744073709551615,0]");
                open_header(d, &header.replace("[0,8]", "[0,0]"), &[])
            },
            "{dir}/x.safetensors `features`: expected shape at least one row and one column, got \
             [18446744073709551615, 0]",
        ),
        (
            "fewer logits than features",
            |d| {
                let logits = ("logits", Dtype::F32, &[2usize, 4][..]);
                open_tensors(d, &[("features", Dtype::F32, &[3, 2]), logits])
            },
            "{dir}/x.safetensors `logits`: expected shape 3 rows, as many as the features of \
             {dir}/x.safetensors, got 2 rows",
        ),
        (
            "logits with one dimension",
            |d| {
                let logits = ("logits", Dtype::F32, &[3usize][..]);
                open_tensors(d, &[("features", Dtype::F32, &[3, 2]), logits])
            },
            "{dir}/x.safetensors `logits`: expected shape [rows, columns], got [3]",
        ),
        (
            "more labels than features",
            |d| {
                let labels = ("labels", Dtype::I64, &[4usize][..]);
                open_tensors(d, &[("features", Dtype::F32, &[3, 2]), labels])
            },
            "labels: expected shape 3 rows, as many as the features of {dir}/x.safetensors, got 4 \
             rows",
        ),
        (
            "labels that are floats",
            |d| {
                let labels = ("labels", Dtype::F32, &[3usize][..]);
                open_tensors(d, &[("features", Dtype::F32, &[3, 2]), labels])
            },
            "{dir}/x.safetensors: `labels` has element type F32; expected a whole-number type \
             (int8 to int64, uint8 to uint64)",
        ),
        (
            "labels that are one-hot",
            |d| {
                let labels = ("labels", Dtype::U8, &[3usize, 10][..]);
                open_tensors(d, &[("features", Dtype::F32, &[3, 2]), labels])
            },
            "{dir}/x.safetensors `labels`: expected shape [rows], got [3, 10]",
        ),
        (
            "a label that no i64 holds",
            |d| {
                let label = (Dtype::U64, vec![1], u64::MAX.to_le_bytes().to_vec());
                let parts = [("features", f32_tensor(&[1, 2], 0.0)), ("labels", label)];
                let parts: Tensors = parts.map(|(name, part)| (name.to_owned(), part)).into();
                let path = put(d, "x.safetensors", tensors(&parts, None));
                told(open_dataset(&path, None).unwrap().labels.unwrap().read(0..1))
            },
            "{dir}/x.safetensors `labels`: expected shape labels below 2^63, got \
             18446744073709551615",
        ),
    ];
    check(cases);
}

fn open_raw(folder: &Path, layout: &str, bytes: &[u8]) -> Told {
    told(open_dataset(&put(folder, "x.mmap", bytes), Some(layout.parse().unwrap())))
}

fn layout(text: &str) -> Told {
    told(text.parse::<RawLayout>())
}

#[test]
fn raw_files() {
    let cases: &[Case] = &[
        (
            "half a row at the end",
            |d| open_raw(d, "f64:4", &[0; 80]),
            "{dir}/x.mmap: not a whole number of rows: 80 bytes is no multiple of 32, the size of \
             a row of 4 f64 numbers",
        ),
        (
            "shorter than a row",
            |d| open_raw(d, "f16:100", &[0; 12]),
            "{dir}/x.mmap: not a whole number of rows: 12 bytes is no multiple of 200, the size \
             of a row of 100 f16 numbers",
        ),
        (
            "empty",
            |d| open_raw(d, "f32:3", &[]),
            "{dir}/x.mmap: expected at least 1 rows, got 0",
        ),
        (
            "a width that overflows",
            |d| open_raw(d, "f64:18446744073709551615", &[0; 8]),
            "--raw: expected a width whose rows fit in memory, got 18446744073709551615",
        ),
        (
            "a width of 0, written in code",
            |d| {
                let layout = RawLayout { element: ElementType::F32, width: 0 };
                told(open_matrix(&put(d, "x.mmap", []), "features", Some(layout)))
            },
            "--raw: expected a width of at least 1, got 0",
        ),
        (
            "a folder",
            |d| told(open_dataset(d, Some("f32:3".parse().unwrap()))),
            "{dir}: not a regular file: it is a folder or a device",
        ),
        ("no colon", |_| layout("f64"), "expected TYPE:WIDTH such as f64:2048, got `f64`"),
        ("no width", |_| layout("f64:"), "expected a width such as 2048 after the colon, got ``"),
        (
            "width is a word",
            |_| layout("f64:wide"),
            "expected a width such as 2048 after the colon, got `wide`",
        ),
        (
            "negative width",
            |_| layout("f64:-3"),
            "expected a width such as 2048 after the colon, got `-3`",
        ),
        ("width 0", |_| layout("f64:0"), "expected a width of at least 1, got 0"),
        ("unknown type", |_| layout("i8:4"), "expected f16, bf16, f32 or f64, got `i8`"),
    ];
    check(cases);
}

fn index_list(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> Told {
    told(read_index_list(&put(folder, name, bytes)))
}

#[test]
fn paths_and_lists() {
    let cases: &[Case] = &[
        (
            "missing .npy",
            |d| told(open_dataset(&d.join("x.npy"), None)),
            "cannot open {dir}/x.npy: No such file or directory (os error 2)",
        ),
        (
            "missing .safetensors",
            |d| told(open_dataset(&d.join("x.safetensors"), None)),
            "cannot open {dir}/x.safetensors: No such file or directory (os error 2)",
        ),
        (
            "missing, of unknown kind",
            |d| told(open_dataset(&d.join("x.csv"), None)),
            "cannot open {dir}/x.csv: …not found…",
        ),
        (
            "unknown kind",
            |d| open(d, "x.csv", "1,2"),
            "{dir}/x.csv: not a feature file: expected a name that ends in .npy or .safetensors, \
             got `.csv` (for a file without header, say --raw f64:WIDTH)",
        ),
        (
            "no kind",
            |d| open(d, "features", "1,2"),
            "{dir}/features: not a feature file: expected a name that ends in .npy or \
             .safetensors, got one without extension (…)",
        ),
        (
            "a folder",
            |d| told(open_dataset(d, None)),
            "{dir}: not a feature file: it is a folder…",
        ),
        (
            "a folder called .npy",
            |d| {
                std::fs::create_dir(d.join("x.npy")).unwrap();
                told(open_dataset(&d.join("x.npy"), None))
            },
            "{dir}/x.npy: not a regular file: it is a folder or a device",
        ),
        (
            "rows with a word among them",
            |d| index_list(d, "rows.txt", "1\n2\nthree\n"),
            "{dir}/rows.txt: not a list of row numbers: it has `three`",
        ),
        (
            "negative rows in text",
            |d| index_list(d, "rows.txt", "1 -2"),
            "{dir}/rows.txt: not a list of row numbers: it has `-2`",
        ),
        (
            "negative rows in .npy",
            |d| index_list(d, "rows.npy", npy(1, "<i8", false, "(1,)", &[255; 8])),
            "{dir}/rows.npy: not a list of row numbers: it has -1",
        ),
        (
            "rows that are floats",
            |d| index_list(d, "rows.npy", npy(1, "<f8", false, "(1,)", &[0; 8])),
            "{dir}/rows.npy: the array has element type <f8; expected a whole-number type (int8 \
             to int64, uint8 to uint64)",
        ),
        (
            "rows in two dimensions",
            |d| index_list(d, "rows.npy", npy(1, "<i8", false, "(1, 1)", &[0; 8])),
            "{dir}/rows.npy: expected shape [rows], got [1, 1]",
        ),
        (
            "missing rows",
            |d| told(read_index_list(&d.join("rows.txt"))),
            "cannot read {dir}/rows.txt: No such file or directory (os error 2)",
        ),
    ];
    check(cases);
}

/// Fits PCA to a file and scores it.
fn fit_file(path: &Path) -> Told {
    fit_spec(&MethodSpec::Kpca(pca()), &open_dataset(path, None).unwrap(), None)
}

fn fit_spec(spec: &MethodSpec, data: &Dataset<'_>, head: Option<&Head>) -> Told {
    told(Detector::fit(spec, data, head, &whole_fit()))
}

/// A `.npy` of six rows and three columns with one entry replaced.
fn with_bad_entry(folder: &Path, descr: &str, at: usize, entry: &[u8]) -> PathBuf {
    let encode = |i: usize| match descr {
        "<f2" => f16::from_f32(i as f32).to_le_bytes().to_vec(),
        "<f4" => (i as f32).to_le_bytes().to_vec(),
        _ => (i as f64).to_le_bytes().to_vec(),
    };
    let data: Vec<u8> =
        (0..18).flat_map(|i| if i == at { entry.to_vec() } else { encode(i) }).collect();
    put(folder, "x.npy", npy(1, descr, false, "(6, 3)", &data))
}

/// Features, and logits of which one is not a number.
fn bad_logits(folder: &Path, spec: &MethodSpec) -> Told {
    let mut logits = Array2::<f32>::zeros((6, 4));
    logits[[5, 2]] = f32::NAN;
    let rows = features(6, 3, 1);
    let parts = [
        ("features", (Dtype::F32, vec![6, 3], le_f32(&rows))),
        ("logits", (Dtype::F32, vec![6, 4], le_f32(&logits))),
    ];
    let parts: Tensors = parts.map(|(name, part)| (name.to_owned(), part)).into();
    let path = put(folder, "x.safetensors", tensors(&parts, None));
    fit_spec(spec, &open_dataset(&path, None).unwrap(), None)
}

#[test]
fn values_that_are_not_numbers() {
    let cases: &[Case] = &[
        (
            "NaN in f32",
            |d| fit_file(&with_bad_entry(d, "<f4", 13, &f32::NAN.to_le_bytes())),
            "{dir}/x.npy: row 4, column 1 is NaN; every value must be finite",
        ),
        (
            "infinity in f64",
            |d| fit_file(&with_bad_entry(d, "<f8", 17, &f64::INFINITY.to_le_bytes())),
            "{dir}/x.npy: row 5, column 2 is inf; every value must be finite",
        ),
        (
            "minus infinity in f16",
            |d| fit_file(&with_bad_entry(d, "<f2", 0, &f16::NEG_INFINITY.to_le_bytes())),
            "{dir}/x.npy: row 0, column 0 is -inf; every value must be finite",
        ),
        (
            "NaN in bf16",
            |d| {
                let data = [bf16::ONE, bf16::ONE, bf16::NAN, bf16::ONE];
                let data = data.iter().flat_map(|x| x.to_le_bytes()).collect();
                let parts = Tensors::from([("z".to_owned(), (Dtype::BF16, vec![2, 2], data))]);
                fit_file(&put(d, "x.safetensors", tensors(&parts, None)))
            },
            "{dir}/x.safetensors `z`: row 1, column 0 is NaN; every value must be finite",
        ),
        (
            "too large for f32",
            |d| fit_file(&with_bad_entry(d, "<f8", 4, &1e39f64.to_le_bytes())),
            "{dir}/x.npy: row 1, column 1 is 1000000000000000000000000000000000000000; every value \
             must be finite, and this one is too large for f32 (use --precision f64)",
        ),
        (
            "NaN found by the percentile of ReAct",
            |d| {
                let path = with_bad_entry(d, "<f4", 7, &f32::NAN.to_le_bytes());
                let params = KpcaParams { react: Some(Clip::Percentile(90.0)), ..pca() };
                fit_spec(&MethodSpec::Kpca(params), &open_dataset(&path, None).unwrap(), None)
            },
            "{dir}/x.npy: row 2, column 1 is NaN; every value must be finite",
        ),
        (
            "NaN among the landmarks",
            |d| {
                let path = with_bad_entry(d, "<f4", 16, &f32::NAN.to_le_bytes());
                let params = nystrom(Kernel::Gaussian { gamma: 1.0 }, 6, Residual::Complete);
                fit_spec(&MethodSpec::Kpca(params), &open_dataset(&path, None).unwrap(), None)
            },
            "{dir}/x.npy: row 5, column 1 is NaN; every value must be finite",
        ),
        (
            "NaN in rows for exact kernel PCA",
            |d| {
                let path = with_bad_entry(d, "<f4", 16, &f32::NAN.to_le_bytes());
                let params = exact(Kernel::Linear, ExactForm::Centred);
                fit_spec(&MethodSpec::Kpca(params), &open_dataset(&path, None).unwrap(), None)
            },
            "{dir}/x.npy: row 5, column 1 is NaN; every value must be finite",
        ),
        (
            "NaN in the bank of neighbours",
            |d| {
                let path = with_bad_entry(d, "<f4", 16, &f32::NAN.to_le_bytes());
                let spec = MethodSpec::Knn { neighbours: 1 };
                fit_spec(&spec, &open_dataset(&path, None).unwrap(), None)
            },
            "{dir}/x.npy: row 5, column 1 is NaN; every value must be finite",
        ),
        (
            "NaN in the 300th row of those to score",
            |_| {
                let mut rows = features(301, 3, 1);
                let detector = fit(&MethodSpec::Kpca(pca()), rows.view()).unwrap();
                rows[[299, 2]] = f32::NAN;
                told(detector.score(rows.view(), None))
            },
            "…: row 299, column 2 is NaN; every value must be finite",
        ),
        (
            "NaN in a held-out row",
            |_| {
                let mut rows = features(601, 3, 1);
                let held_out = offspan::HoldOut::new(0.05, 0).held_out(601).last().unwrap();
                rows[[held_out, 0]] = f32::NAN;
                let data = Dataset::new("train", rows.view());
                let spec = MethodSpec::Kpca(pca());
                let told = told(Detector::fit(&spec, &data, None, &FitOptions::default()));
                assert!(told.as_ref().unwrap().contains(&format!(": row {held_out}, column 0")));
                told
            },
            "…is NaN; every value must be finite",
        ),
        (
            "NaN in the logits that choose landmarks",
            |d| bad_logits(d, &MethodSpec::Kpca(KpcaParams {
                map: MapParams::Nystrom {
                    landmarks: 2,
                    sampling: Sampling::LowEnergy,
                    floor: EigenFloor::default(),
                },
                ..KpcaParams::default()
            })),
            "{dir}/x.safetensors `logits`: row 5, column 2 is NaN; every value must be finite",
        ),
        (
            "NaN in the last layer",
            |d| {
                let weight = (Dtype::F32, vec![1, 2], le_f32(&[1.0, f32::NAN]));
                let parts = Tensors::from([
                    ("weight".to_owned(), weight),
                    ("bias".to_owned(), f32_tensor(&[1], 0.0)),
                ]);
                told(open_head(&put(d, "head.safetensors", tensors(&parts, None))))
            },
            "{dir}/head.safetensors `weight`: row 0, column 1 is NaN; every value must be finite",
        ),
    ];
    check(cases);
}
