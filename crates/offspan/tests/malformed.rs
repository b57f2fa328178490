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
use ndarray::{Array1, Array2};
use offspan::io::{
    Dataset, ElementType, Head, Pack, RawLayout, check_writable, open_dataset, open_head,
    open_matrix, read_index_list, write_npy_f64,
};
use offspan::map::{Draw, EigenFloor};
use offspan::{
    Checkpointing, Clip, Components, Detector, EnsembleParams, ExactForm, FitOptions, Fusion,
    Kernel, KpcaParams, MapParams, MethodSpec, Moments, Residual, Sampling,
};
use safetensors::Dtype;
use serde_json::{Value, json};

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
            Ok(Some(got)) => {
                wrong.push(format!("{name}\n  expected: {expected}\n  got:      {got}"))
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
            "{dir}/x.npy: its data: expected 8000000000000085 bytes, got 93; the file is truncated \
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
    let parts: Tensors =
        parts.iter().map(|&(name, dtype, shape)| (name.to_owned(), zeros(dtype, shape))).collect();
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
        ("empty", |d| open_raw(d, "f32:3", &[]), "{dir}/x.mmap: expected at least 1 rows, got 0"),
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
        ("a folder", |d| told(open_dataset(d, None)), "{dir}: not a feature file: it is a folder…"),
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
            |d| {
                bad_logits(
                    d,
                    &MethodSpec::Kpca(KpcaParams {
                        map: MapParams::Nystrom {
                            landmarks: 2,
                            sampling: Sampling::LowEnergy,
                            floor: EigenFloor::default(),
                        },
                        ..KpcaParams::default()
                    }),
                )
            },
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

/// A pack whose `train` has three columns, with more files in it.
fn pack(folder: &Path, files: &[(&str, Vec<u8>)]) -> Told {
    put(folder, "train.npy", npy_f32(features(6, 3, 1).view()));
    for (name, bytes) in files {
        put(folder, name, bytes);
    }
    told(Pack::open(folder))
}

/// A last layer of zeros.
fn head_file(weight: &[usize], bias: &[usize]) -> Vec<u8> {
    let parts = [("weight", f32_tensor(weight, 0.0)), ("bias", f32_tensor(bias, 0.0))];
    tensors(&parts.map(|(name, part)| (name.to_owned(), part)).into(), None)
}

#[test]
fn packs_and_heads() {
    let cases: &[Case] = &[
        (
            "no train",
            |d| {
                put(d, "test.npy", npy_f32(features(6, 3, 1).view()));
                told(Pack::open(d))
            },
            "{dir}: not a pack folder: it has neither train.safetensors nor train.npy",
        ),
        (
            "missing folder",
            |d| told(Pack::open(&d.join("nothing"))),
            "cannot open {dir}/nothing: …",
        ),
        (
            "damaged split",
            |d| pack(d, &[("test.safetensors", vec![1; 20])]),
            "{dir}/test.safetensors: not a safetensors file: …",
        ),
        (
            "damaged out-of-distribution set",
            |d| pack(d, &[("ood/far.npy", b"\x93NUMPY".to_vec())]),
            "{dir}/ood/far.npy: its header: expected 10 bytes, got 6; the file is truncated or \
             damaged",
        ),
        (
            "out-of-distribution set of another width",
            |d| pack(d, &[("ood/far.npy", npy_f32(features(6, 4, 1).view()))]),
            "far of pack …: expected shape 3 columns, as in train, got 4 columns",
        ),
        (
            "test of another width",
            |d| pack(d, &[("test.npy", npy_f32(features(6, 2, 1).view()))]),
            "test of pack …: expected shape 3 columns, as in train, got 2 columns",
        ),
        (
            "head of another width",
            |d| pack(d, &[("head.safetensors", head_file(&[4, 2], &[4]))]),
            "the head's weight: expected shape [classes, 3], the width of the features, got [4, 2]",
        ),
        (
            "head whose parts do not fit, by file",
            |d| pack(d, &[("head.safetensors", head_file(&[4, 3], &[5]))]),
            "{dir}/head.safetensors…bias…: expected shape [4], one number per row of its weight, \
             got [5]",
        ),
        (
            "head whose parts do not fit, in memory",
            |_| told(Head::new(Array2::zeros((4, 3)), Array1::zeros(5))),
            "the head's bias: expected shape [4], one number per row of its weight, got [5]",
        ),
        (
            "head without weight",
            |d| {
                let parts = Tensors::from([("bias".to_owned(), f32_tensor(&[4], 0.0))]);
                told(open_head(&put(d, "head.safetensors", tensors(&parts, None))))
            },
            "{dir}/head.safetensors: no tensor `weight`; it has `bias` F32 [4]",
        ),
        (
            "head with a flat weight",
            |d| told(open_head(&put(d, "head.safetensors", head_file(&[12], &[4])))),
            "{dir}/head.safetensors `weight`: expected shape [rows, columns], got [12]",
        ),
        (
            "head of no classes: every energy would be minus infinity",
            |d| told(open_head(&put(d, "head.safetensors", head_file(&[0, 3], &[0])))),
            "{dir}/head.safetensors…weight…: expected shape at least one row and one column, got \
             [0, 3]",
        ),
        (
            "head of no classes, wider than memory",
            |d| {
                let header = r#"{"weight":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}}"#;
                told(open_head(&put(d, "head.safetensors", tensors_with_header(header, &[]))))
            },
            "{dir}/head.safetensors…weight…: expected shape …, got [0, 18446744073709551615]",
        ),
        (
            "head as two .npy files of which one is missing",
            |d| {
                let weight = put(d, "w.npy", npy_f32(features(4, 3, 1).view()));
                told(open_head(Path::new(&format!("{},{}/b.npy", weight.display(), d.display()))))
            },
            "cannot open {dir}/b.npy: No such file or directory (os error 2)",
        ),
        (
            "head with a bias in two dimensions",
            |d| {
                let weight = put(d, "w.npy", npy_f32(features(4, 3, 1).view()));
                let bias = put(d, "b.npy", npy_f32(features(4, 1, 1).view()));
                let both = format!("{},{}", weight.display(), bias.display());
                told(open_head(Path::new(&both)))
            },
            "{dir}/b.npy: expected shape one dimension of floats, got <f4 [4, 1]",
        ),
    ];
    check(cases);
}

/// Checks parameters that differ from others in one thing.
fn checked(params: KpcaParams) -> Told {
    told(params.check())
}

fn kernel(kernel: Kernel) -> Told {
    checked(KpcaParams { kernel, ..KpcaParams::default() })
}

fn components(components: Components) -> Told {
    checked(KpcaParams { components, ..KpcaParams::default() })
}

fn react(clip: Clip) -> Told {
    checked(KpcaParams { react: Some(clip), ..KpcaParams::default() })
}

const GAUSSIAN: Kernel = Kernel::Gaussian { gamma: 1.0 };

#[test]
fn parameters() {
    let cases: &[Case] = &[
        (
            "gamma 0",
            |_| kernel(Kernel::Gaussian { gamma: 0.0 }),
            "gamma: expected a number above 0, got 0",
        ),
        (
            "gamma NaN",
            |_| kernel(Kernel::Laplacian { gamma: f64::NAN }),
            "gamma: expected a number above 0, got NaN",
        ),
        (
            "gamma infinite",
            |_| kernel(Kernel::Gaussian { gamma: f64::INFINITY }),
            "gamma: expected a number above 0, got inf",
        ),
        (
            "degree 0",
            |_| kernel(Kernel::Polynomial { degree: 0, coef0: 1.0 }),
            "degree: expected a whole number from 1 to 16, got 0",
        ),
        (
            "degree 17",
            |_| kernel(Kernel::Polynomial { degree: 17, coef0: 1.0 }),
            "degree: expected a whole number from 1 to 16, got 17",
        ),
        (
            "coef0 negative",
            |_| kernel(Kernel::Polynomial { degree: 2, coef0: -0.5 }),
            "coef0: expected a number of at least 0, got -0.5",
        ),
        (
            "coef0 NaN",
            |_| kernel(Kernel::Polynomial { degree: 2, coef0: f64::NAN }),
            "coef0: expected a number of at least 0, got NaN",
        ),
        (
            "ratio 0",
            |_| components(Components::ExplainedVariance(0.0)),
            "explained-variance: expected a share in (0, 1], got 0",
        ),
        (
            "ratio 1.5",
            |_| components(Components::ExplainedVariance(1.5)),
            "explained-variance: expected a share in (0, 1], got 1.5",
        ),
        (
            "ratio NaN",
            |_| components(Components::ExplainedVariance(f64::NAN)),
            "explained-variance: expected a share in (0, 1], got NaN",
        ),
        (
            "0 components",
            |_| components(Components::Fixed(0)),
            "components: expected at least 1, got 0",
        ),
        (
            "clip at NaN",
            |_| react(Clip::Value(f64::NAN)),
            "react: expected a finite value, got NaN",
        ),
        (
            "clip at a percentile above 100",
            |_| react(Clip::Percentile(101.0)),
            "react: expected a percentile from p0 to p100, got 101",
        ),
        (
            "clip at a NaN percentile",
            |_| react(Clip::Percentile(f64::NAN)),
            "react: expected a percentile from p0 to p100, got NaN",
        ),
        (
            "clip in words",
            |_| told("most".parse::<Clip>()),
            "expected a value such as 1.0 or a percentile such as p90, got `most`",
        ),
        (
            "pca with the gaussian kernel",
            |_| checked(KpcaParams { kernel: GAUSSIAN, ..pca() }),
            "kernel: expected linear for pca (other kernels: kpca-nys, kpca-rff, kpca-sketch, \
             kpca-exact), got gaussian",
        ),
        (
            "random features of the polynomial kernel",
            |_| checked(fourier(Kernel::Polynomial { degree: 2, coef0: 1.0 }, 8, Draw::Iid)),
            "kernel: expected gaussian or laplacian for kpca-rff (polynomial: kpca-sketch; linear: \
             pca), got polynomial",
        ),
        (
            "orthogonal features of the laplacian kernel",
            |_| checked(fourier(Kernel::Laplacian { gamma: 1.0 }, 8, Draw::Orthogonal)),
            "draw: expected iid for the laplacian kernel (its frequencies are Cauchy per \
             coordinate, which no rotation preserves), got orthogonal",
        ),
        (
            "no random features",
            |_| checked(fourier(GAUSSIAN, 0, Draw::Iid)),
            "features: expected at least 1, got 0",
        ),
        (
            "tensor sketch of the gaussian kernel",
            |_| {
                let map = MapParams::TensorSketch { features: 8 };
                checked(KpcaParams { map, ..KpcaParams::default() })
            },
            "kernel: expected polynomial for kpca-sketch (gaussian and laplacian: kpca-rff), got \
             gaussian",
        ),
        (
            "complete residual of random features",
            |_| {
                let residual = Residual::Complete;
                checked(KpcaParams { residual, ..fourier(GAUSSIAN, 8, Draw::Iid) })
            },
            "residual: expected plain for random features (they meet k(z,z) only on average, so \
             what they miss of it is noise), got complete",
        ),
        (
            "no landmarks",
            |_| checked(nystrom(GAUSSIAN, 0, Residual::Plain)),
            "landmarks: expected at least 1, got 0",
        ),
        (
            "rank floor NaN",
            |_| {
                let floor = EigenFloor { relative: f64::NAN, ..EigenFloor::default() };
                let sampling = Sampling::Uniform;
                let map = MapParams::Nystrom { landmarks: 8, sampling, floor };
                checked(KpcaParams { map, ..KpcaParams::default() })
            },
            "rank-floor: expected a number in [0, 1), got NaN",
        ),
    ];
    check(cases);
}

/// Fits to forty rows in memory that carry neither logits nor a head.
fn fit_params(params: KpcaParams) -> Told {
    fit_rows(params, features(40, WIDTH, 1))
}

fn fit_rows(params: KpcaParams, rows: Array2<f32>) -> Told {
    fit_spec(&MethodSpec::Kpca(params), &Dataset::new("train", rows.view()), None)
}

fn with_options(options: &FitOptions<'_>) -> Told {
    told(fit_with(&MethodSpec::Kpca(pca()), features(40, WIDTH, 1).view(), options))
}

/// Nyström with these rows as landmarks.
fn given(rows: &[u64]) -> KpcaParams {
    let sampling = Sampling::Given(rows.to_vec());
    let map =
        MapParams::Nystrom { landmarks: rows.len().max(1), sampling, floor: EigenFloor::default() };
    KpcaParams { map, ..nystrom(GAUSSIAN, 1, Residual::Complete) }
}

fn low_energy() -> KpcaParams {
    let sampling = Sampling::LowEnergy;
    let map = MapParams::Nystrom { landmarks: 8, sampling, floor: EigenFloor::default() };
    KpcaParams { map, ..nystrom(GAUSSIAN, 1, Residual::Complete) }
}

#[test]
fn fits() {
    let cases: &[Case] = &[
        (
            "a zero row",
            |_| {
                let mut rows = features(40, WIDTH, 1);
                rows.row_mut(33).fill(0.0);
                fit_rows(pca(), rows)
            },
            "train: row 33 is all zeros; it has no direction for the cosine map (remove the row, \
             or fit with --no-cosine)",
        ),
        (
            "a zero row among the landmarks",
            |_| {
                let mut rows = features(40, WIDTH, 1);
                rows.row_mut(7).fill(-0.0);
                fit_rows(given(&[3, 7]), rows)
            },
            "train: row 7 is all zeros; it has no direction for the cosine map (remove the row, or \
             fit with --no-cosine)",
        ),
        (
            "a row that clipping makes zero",
            |_| {
                let params = KpcaParams { react: Some(Clip::Value(0.0)), ..pca() };
                fit_params(params)
            },
            "train: row 0 is all zeros after clipping; it has no direction for the cosine map \
             (remove the row, or fit with --no-cosine)",
        ),
        (
            "a zero row in the bank of neighbours",
            |_| {
                let spec = MethodSpec::Knn { neighbours: 2 };
                let rows = Array2::<f32>::zeros((3, 2));
                fit_spec(&spec, &Dataset::new("train", rows.view()), None)
            },
            "train: row 0 is all zeros; it has no direction…",
        ),
        (
            "one row",
            |_| fit_rows(pca(), features(1, WIDTH, 1)),
            "train: expected at least 2 rows, got 1",
        ),
        (
            "no rows",
            |_| fit_rows(pca(), features(0, WIDTH, 1)),
            "train: expected at least 2 rows, got 0",
        ),
        (
            "no rows for neighbours",
            |_| {
                let rows = features(0, WIDTH, 1);
                let spec = MethodSpec::Knn { neighbours: 1 };
                fit_spec(&spec, &Dataset::new("train", rows.view()), None)
            },
            "train: expected at least …rows, got 0",
        ),
        (
            "more landmarks than rows",
            |_| fit_params(nystrom(GAUSSIAN, 41, Residual::Plain)),
            "landmarks: expected from 1 to 40, the training rows used for the fit, got 41",
        ),
        (
            "a landmark that is no row",
            |_| fit_params(given(&[1, 40])),
            "landmark-rows: expected row numbers from 0 to 39, got 40",
        ),
        (
            "a landmark far beyond",
            |_| fit_params(given(&[u64::MAX])),
            "landmark-rows: expected row numbers from 0 to 39, got 18446744073709551615",
        ),
        (
            "a landmark that is held out",
            |_| {
                let rows = features(40, WIDTH, 1);
                let options = FitOptions { hold_out: 0.9, ..FitOptions::default() };
                let all: Vec<u64> = (0..4).collect();
                told(fit_with(&MethodSpec::Kpca(given(&all)), rows.view(), &options))
            },
            "landmark-rows: expected rows that are not held out for the threshold (use --hold-out \
             0 or --calibrate), got …",
        ),
        (
            "an empty list of landmarks",
            |_| fit_params(given(&[])),
            "the landmarks: expected at least 1 rows, got 0",
        ),
        (
            "more components than dimensions",
            |_| fit_params(KpcaParams { components: Components::Fixed(WIDTH + 1), ..pca() }),
            "components: expected at most 11, the dimensions of the feature map, got 12",
        ),
        (
            "more components than the kernel matrix has",
            |_| {
                let params = exact(GAUSSIAN, ExactForm::Centred);
                fit_params(KpcaParams { components: Components::Fixed(40), ..params })
            },
            "components: expected at most 39, the rank of the kernel matrix, got 40 (40 \
             components)",
        ),
        (
            "all components, so that nothing is left",
            |_| fit_params(KpcaParams { components: Components::Fixed(WIDTH), ..pca() }),
            "11 components keeps all 11 directions, so the plain residual of every row would be 0; \
             ask for less, or use --residual complete",
        ),
        (
            "all variance, so that nothing is left",
            |_| fit_params(KpcaParams { components: Components::ExplainedVariance(1.0), ..pca() }),
            "explained variance 1 keeps all 11 directions, so the plain residual of every row \
             would be 0; ask for less, or use --residual complete",
        ),
        (
            "low-energy landmarks without logits",
            |_| fit_params(low_energy()),
            "low-energy sampling of landmarks on train needs logits: store them as `logits` beside \
             `features`, or give them with --logits FILE, or give the last layer's `weight` and \
             `bias` with --head FILE; to do without, use --sampling uniform and no --fuse",
        ),
        (
            "fusion without logits",
            |_| fit_params(KpcaParams { fusion: Some(Fusion::EnergyRatio), ..pca() }),
            "fusion with the energy score on train needs logits: store them…--head FILE…",
        ),
        (
            "fusion of clipped features without the last layer",
            |_| {
                let rows = features(40, WIDTH, 1);
                let logits = logits(rows.view());
                let data = Dataset::new("train", rows.view()).with_logits(logits.view()).unwrap();
                let (fusion, react) = (Some(Fusion::EnergyProduct), Some(Clip::Value(1.0)));
                fit_spec(&MethodSpec::Kpca(KpcaParams { fusion, react, ..pca() }), &data, None)
            },
            "fusion with the energy score on train needs the network's last layer: clipped \
             activations change the logits, so the stored ones do not serve; give `weight` and \
             `bias` in head.safetensors of the pack or with --head FILE",
        ),
        (
            "logits for other rows",
            |_| {
                let (rows, logits) = (features(40, WIDTH, 1), Array2::<f32>::zeros((39, 4)));
                told(Dataset::new("train", rows.view()).with_logits(logits.view()))
            },
            "…: expected shape 40 rows, as many as the features of train, got 39 rows",
        ),
        (
            "a head for other features",
            |_| {
                let rows = features(40, WIDTH, 1);
                let data = Dataset::new("train", rows.view());
                fit_spec(&MethodSpec::Kpca(pca()), &data, Some(&head(WIDTH + 1)))
            },
            "the head's weight: expected shape [classes, 11], the width of the features, got \
             [4, 12]",
        ),
        (
            "frequencies for other features",
            |_| {
                let parts = Some(fourier_parts(8, WIDTH - 1));
                let map = MapParams::Fourier { features: 8, draw: Draw::Iid, parts };
                fit_params(KpcaParams { map, ..fourier(GAUSSIAN, 8, Draw::Iid) })
            },
            "the given frequencies: expected shape 11 columns, the width of the features, got 10 \
             columns",
        ),
        (
            "fewer phases than frequencies",
            |_| {
                let mut parts = fourier_parts(8, WIDTH);
                parts.phases = Array1::zeros(7);
                let map = MapParams::Fourier { features: 8, draw: Draw::Iid, parts: Some(parts) };
                fit_params(KpcaParams { map, ..fourier(GAUSSIAN, 8, Draw::Iid) })
            },
            "the phases: expected shape [8], one per frequency, and at least one, got [7]",
        ),
        (
            "frequencies that are not numbers",
            |_| {
                let mut parts = fourier_parts(8, WIDTH);
                parts.frequencies[[2, 3]] = f64::NAN;
                let map = MapParams::Fourier { features: 8, draw: Draw::Iid, parts: Some(parts) };
                fit_params(KpcaParams { map, ..fourier(GAUSSIAN, 8, Draw::Iid) })
            },
            "the given frequencies: row 2, column 3 is NaN; every value must be finite",
        ),
        (
            "more neighbours than rows",
            |_| told(fit(&MethodSpec::Knn { neighbours: 41 }, features(40, WIDTH, 1).view())),
            "neighbours: expected from 1 to 40, the training rows used for the fit, got 41",
        ),
        (
            "no neighbours",
            |_| told(fit(&MethodSpec::Knn { neighbours: 0 }, features(40, WIDTH, 1).view())),
            "neighbours: expected from 1 to 40, the training rows used for the fit, got 0",
        ),
        (
            "temperature 0",
            |_| told(fit(&MethodSpec::Energy { temperature: 0.0 }, features(40, 3, 1).view())),
            "temperature: expected a number above 0, got 0",
        ),
        (
            "temperature NaN",
            |_| told(fit(&MethodSpec::Energy { temperature: f64::NAN }, features(40, 3, 1).view())),
            "temperature: expected a number above 0, got NaN",
        ),
        (
            "energy without logits",
            |_| {
                let rows = features(40, WIDTH, 1);
                let data = Dataset::new("train", rows.view());
                fit_spec(&MethodSpec::Energy { temperature: 1.0 }, &data, None)
            },
            "the energy score on train needs logits: …--logits FILE…",
        ),
        (
            "everything held out",
            |_| with_options(&FitOptions { hold_out: 1.0, ..FitOptions::default() }),
            "hold-out: expected a share in [0, 1), got 1",
        ),
        (
            "less than nothing held out",
            |_| with_options(&FitOptions { hold_out: -0.1, ..FitOptions::default() }),
            "hold-out: expected a share in [0, 1), got -0.1",
        ),
        (
            "hold-out NaN",
            |_| with_options(&FitOptions { hold_out: f64::NAN, ..FitOptions::default() }),
            "hold-out: expected a share in [0, 1), got NaN",
        ),
        (
            "a threshold that keeps nothing",
            |_| with_options(&FitOptions { keep: 0.0, ..FitOptions::default() }),
            "keep: expected a share in (0, 1], got 0",
        ),
        (
            "too few rows to set the threshold with",
            |_| {
                let rows = features(19, WIDTH, 1);
                let calibrate = Dataset::new("calibration", rows.view());
                let calibrate = Some(&calibrate);
                with_options(&FitOptions { calibrate, ..FitOptions::default() })
            },
            "rows to set the threshold with: expected at least 20 rows, got 19",
        ),
        (
            "rows of another width to set the threshold with",
            |_| {
                let rows = features(40, WIDTH + 1, 1);
                let calibrate = Dataset::new("calibration", rows.view());
                let calibrate = Some(&calibrate);
                with_options(&FitOptions { calibrate, ..FitOptions::default() })
            },
            "…: expected shape 11 columns, as in the detector's training rows, got 12 columns",
        ),
        (
            "an ensemble of two Nyström members",
            |_| {
                let member = nystrom(GAUSSIAN, 8, Residual::Complete);
                let params = EnsembleParams { rff: member.clone(), nystrom: member };
                told(fit(&MethodSpec::KpcaEnsemble(params), features(40, WIDTH, 1).view()))
            },
            "kpca-ensemble: expected a kpca-rff and a kpca-nys member, got kpca-nys and kpca-nys",
        ),
        (
            "a kernel matrix of more rows than memory is for",
            |_| fit_rows(exact(GAUSSIAN, ExactForm::Centred), Array2::ones((20_001, 1))),
            "kpca-exact: expected at most 20000 rows, because it takes an N×N matrix (use \
             kpca-nys, or fewer rows), got 20001 rows",
        ),
        (
            "landmark kernel values beyond f64",
            |_| {
                let kernel = Kernel::Polynomial { degree: 16, coef0: 1.0 };
                let params = nystrom(kernel, 8, Residual::Complete);
                let rows = features(40, WIDTH, 1) * 1e20;
                fit_rows(KpcaParams { cosine: false, ..params }, rows)
            },
            "…too large…",
        ),
        (
            "kernel values beyond f64",
            |_| {
                let params =
                    exact(Kernel::Polynomial { degree: 16, coef0: 1.0 }, ExactForm::Centred);
                let rows = features(40, WIDTH, 1) * 1e20;
                fit_rows(KpcaParams { cosine: false, ..params }, rows)
            },
            "…too large…",
        ),
        (
            "kernel values beyond f32",
            |_| {
                let kernel = Kernel::Polynomial { degree: 4, coef0: 1.0 };
                let params = nystrom(kernel, 8, Residual::Complete);
                let rows = features(40, WIDTH, 1) * 1e10;
                fit_rows(KpcaParams { cosine: false, ..params }, rows)
            },
            "…too large…",
        ),
    ];
    check(cases);
}

#[test]
fn rows_that_are_all_the_same_span_nothing_whatever_the_method() {
    let rows = Array2::from_shape_fn((60, WIDTH), |(_, j)| 0.3 + j as f32);
    for (name, spec) in every_method() {
        // Proposition 2 does not centre, and neighbours and energies need no variance.
        if ["Proposition2", "knn", "energy"].iter().any(|part| name.contains(part)) {
            continue;
        }
        // Twenty equal landmarks are one, so the kernel may also have no direction left over.
        let told = told(fit(&spec, rows.view())).unwrap_or_else(|| panic!("{name}: no error"));
        let expected =
            "train: all rows are the same after preprocessing; a subspace needs variance";
        assert_eq!(told, expected, "{name}");
    }
}

#[test]
fn features_without_columns_are_an_error_for_every_method() {
    let rows = Array2::<f32>::zeros((60, 0));
    let mut wrong = Vec::new();
    for (name, spec) in every_method() {
        // It does not look at the features where logits are stored.
        if name == "energy" {
            continue;
        }
        for cosine in [true, false] {
            let spec = match spec.clone() {
                MethodSpec::Kpca(params) => MethodSpec::Kpca(KpcaParams { cosine, ..params }),
                other => other,
            };
            let fitted = catch_unwind(|| told(fit_spec_without_columns(&spec, &rows)));
            match fitted {
                Ok(Some(told)) if matches(&told, "train: expected shape …column…") => {}
                Ok(got) => wrong.push(format!("{name}, cosine {cosine}: {got:?}")),
                Err(_) => wrong.push(format!("{name}, cosine {cosine}: a panic")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn fit_spec_without_columns(spec: &MethodSpec, rows: &Array2<f32>) -> offspan::Result<Detector> {
    let logits = Array2::<f32>::zeros((rows.nrows(), 4));
    let data = Dataset::new("train", rows.view()).with_logits(logits.view())?;
    Detector::fit(spec, &data, Some(&head(0)), &whole_fit())
}

#[test]
fn a_row_without_direction_scores_minus_infinity_and_is_no_error() {
    let train = features(60, WIDTH, 1);
    let mut rows = features(5, WIDTH, 2);
    rows.row_mut(3).fill(0.0);
    for (name, spec) in every_method() {
        if name == "energy" || name.contains("without cosine") {
            continue;
        }
        let scores = scores(&fit(&spec, train.view()).unwrap(), rows.view());
        assert_eq!(scores[3], f64::NEG_INFINITY, "{name}");
        assert!((0..5).all(|i| i == 3 || scores[i].is_finite()), "{name}: {scores:?}");
    }
}

fn detector(spec: &MethodSpec) -> Detector {
    fit(spec, features(60, WIDTH, 1).view()).unwrap()
}

/// Saves a detector with its document or tensors changed, and loads it.
fn load(folder: &Path, spec: MethodSpec, change: fn(&mut Value, &mut Tensors)) -> Told {
    let bytes = alter(&detector(&spec).to_bytes(), change);
    told(Detector::load(&put(folder, "x.offspan", bytes)))
}

fn nys() -> MethodSpec {
    MethodSpec::Kpca(nystrom(GAUSSIAN, 20, Residual::Complete))
}

fn rff() -> MethodSpec {
    MethodSpec::Kpca(fourier(GAUSSIAN, 40, Draw::Structured))
}

fn load_bytes(folder: &Path, bytes: &[u8]) -> Told {
    told(Detector::load(&put(folder, "x.offspan", bytes)))
}

#[test]
fn detector_files() {
    let cases: &[Case] = &[
        (
            "missing",
            |d| told(Detector::load(&d.join("x.offspan"))),
            "cannot open {dir}/x.offspan: No such file or directory (os error 2)",
        ),
        (
            "a folder",
            |d| told(Detector::load(d)),
            "{dir}: not a regular file: it is a folder or a device",
        ),
        (
            "a feature file",
            |d| load_bytes(d, &tensors_with_header(HEADER, &[0; 8])),
            "{dir}/x.offspan: not an offspan detector: it has no offspan.detector header \
             (detectors come from `offspan fit`)",
        ),
        (
            "a .npy file",
            |d| load_bytes(d, &npy_f32(features(4, 2, 1).view())),
            "{dir}/x.offspan: not a safetensors file: it declares a header of …",
        ),
        (
            "a file of moments",
            |d| load_bytes(d, &Moments::new(3).to_bytes()),
            "{dir}/x.offspan: not an offspan detector: it has no offspan.detector header \
             (detectors come from `offspan fit`)",
        ),
        (
            "last byte missing",
            |d| {
                let bytes = detector(&nys()).to_bytes();
                load_bytes(d, &bytes[..bytes.len() - 1])
            },
            "{dir}/x.offspan: its data: expected … bytes, got …; the file is truncated or damaged",
        ),
        (
            "a later version",
            |d| {
                load(d, nys(), |json, _| {
                    json["version"] = json!(2);
                    json["spec"] = json!("in a form of the future");
                })
            },
            "{dir}/x.offspan: format version 2; this version reads detector version 1",
        ),
        (
            "no version",
            |d| load(d, nys(), |json, _| *json = json!({})),
            "{dir}/x.offspan: not an offspan detector: missing field `version` at line 1 column 2",
        ),
        (
            "nothing but a version",
            |d| load(d, nys(), |json, _| *json = json!({"version": 1})),
            "{dir}/x.offspan: not an offspan detector: missing field `method`…",
        ),
        (
            "unknown kernel",
            |d| load(d, nys(), |json, _| json["spec"]["kernel"]["name"] = json!("sigmoid")),
            "{dir}/x.offspan: not an offspan detector: unknown variant `sigmoid`, expected one of \
             `linear`, `gaussian`, `laplacian`, `polynomial`…",
        ),
        (
            "a parameter out of range",
            |d| load(d, nys(), |json, _| json["spec"]["kernel"]["gamma"] = json!(-1)),
            "{dir}/x.offspan: not an offspan detector: gamma: expected a number above 0, got -1",
        ),
        (
            "parameters of another method",
            |d| {
                load(d, nys(), |json, _| {
                    json["spec"] = json!({"family": "knn", "neighbours": 3});
                })
            },
            "{dir}/x.offspan: not an offspan detector: the detector: expected shape the results of \
             a knn fit, got those of another method",
        ),
        (
            "parameters of another map",
            |d| load(d, nys(), |json, _| json["spec"]["map"] = json!({"kind": "identity"})),
            "{dir}/x.offspan: not an offspan detector: kernel: expected linear for pca (other \
             kernels: kpca-nys, kpca-rff, kpca-sketch, kpca-exact), got gaussian",
        ),
        (
            "a name that is not that of its method",
            |d| load(d, nys(), |json, _| json["method"] = json!("pca")),
            "{dir}/x.offspan: not an offspan detector: …pca…kpca-nys…",
        ),
        (
            "no projection",
            |d| load(d, nys(), |_, tensors| drop(tensors.remove("projection"))),
            "{dir}/x.offspan: not an offspan detector: …no tensor `projection`; it has `bias` F64 \
             [4], `centre` F32 [20], …",
        ),
        (
            "no bank",
            |d| {
                let spec = MethodSpec::Knn { neighbours: 3 };
                load(d, spec, |_, tensors| drop(tensors.remove("bank")))
            },
            "{dir}/x.offspan: not an offspan detector: …no tensor `bank`; it has no tensors",
        ),
        (
            "half a last layer",
            |d| {
                let spec = MethodSpec::Energy { temperature: 1.0 };
                load(d, spec, |_, tensors| drop(tensors.remove("head.bias")))
            },
            "{dir}/x.offspan: not an offspan detector: …no tensor `head.bias`; it has …",
        ),
        (
            "centre of another length",
            |d| load(d, nys(), |_, t| drop(t.insert("centre".into(), f32_tensor(&[19], 0.0)))),
            "{dir}/x.offspan: not an offspan detector: `centre` of the detector: expected shape \
             [20], got [19]",
        ),
        (
            "projection of another width",
            |d| {
                load(d, nys(), |_, t| {
                    drop(t.insert("projection".into(), f32_tensor(&[4, 21], 0.0)))
                })
            },
            "{dir}/x.offspan: not an offspan detector: `projection` of the detector: expected \
             shape [4, 20], got [4, 21]",
        ),
        (
            "fewer directions than components",
            |d| {
                load(d, nys(), |_, tensors| {
                    tensors.insert("projection".into(), f32_tensor(&[2, 20], 0.0));
                    tensors.insert("bias".into(), f32_tensor(&[2], 0.0));
                })
            },
            "{dir}/x.offspan: not an offspan detector: `projection` of the detector: expected \
             shape [4, 20], got [2, 20]",
        ),
        (
            "no directions, wider than memory",
            |d| {
                let wide = (Dtype::F32, vec![0, usize::MAX], Vec::new());
                let bytes = alter(&detector(&nys()).to_bytes(), |_, tensors| {
                    tensors.insert("projection".into(), wide);
                });
                load_bytes(d, &bytes)
            },
            "{dir}/x.offspan: not an offspan detector: `projection`…: expected shape …, got \
             [0, 18446744073709551615]",
        ),
        (
            "a number too few in the bias",
            |d| load(d, nys(), |_, t| drop(t.insert("bias".into(), f32_tensor(&[3], 0.0)))),
            "{dir}/x.offspan: not an offspan detector: `bias` of the detector: expected shape [4], \
             got [3]",
        ),
        (
            "a weight of another length",
            |d| load(d, nys(), |_, t| drop(t.insert("weight".into(), f32_tensor(&[1], 0.0)))),
            "{dir}/x.offspan: not an offspan detector: `weight` of the detector: expected shape \
             [20], got [1]",
        ),
        (
            "landmarks of another width",
            |d| {
                load(d, nys(), |_, t| {
                    drop(t.insert("landmarks".into(), f32_tensor(&[20, 12], 0.0)))
                })
            },
            "{dir}/x.offspan: not an offspan detector: `landmarks` of the detector: expected shape \
             [20, 11], got [20, 12]",
        ),
        (
            "eigenvalues of another length",
            |d| load(d, nys(), |_, t| drop(t.insert("eigenvalues".into(), f32_tensor(&[5], 0.0)))),
            "{dir}/x.offspan: not an offspan detector: `eigenvalues` of the detector: expected \
             shape [20] with 4 components, got [5]",
        ),
        (
            "a member's tensor of another shape",
            |d| {
                load(d, ensemble(), |_, t| drop(t.insert("rff.bias".into(), f32_tensor(&[3], 0.0))))
            },
            "{dir}/x.offspan: not an offspan detector: `rff.bias` of the detector: expected shape \
             [4], got [3]",
        ),
        (
            "a tensor of two dimensions that should have one",
            |d| load(d, nys(), |_, t| drop(t.insert("centre".into(), f32_tensor(&[20, 1], 0.0)))),
            "{dir}/x.offspan: not an offspan detector: …`centre`: expected shape [length], got \
             [20, 1]",
        ),
        (
            "a tensor with NaN",
            |d| load(d, nys(), |_, t| drop(t.insert("centre".into(), f32_tensor(&[20], f32::NAN)))),
            "{dir}/x.offspan: not an offspan detector: …`centre`: row 0, column 0 is NaN; every \
             value must be finite",
        ),
        (
            "a tensor of whole numbers",
            |d| {
                let centre = (Dtype::I32, vec![20], vec![0; 80]);
                let bytes = alter(&detector(&nys()).to_bytes(), |_, tensors| {
                    tensors.insert("centre".into(), centre);
                });
                load_bytes(d, &bytes)
            },
            "{dir}/x.offspan: not an offspan detector: …`centre` has element type I32; expected \
             f16, bf16, f32 or f64",
        ),
        (
            "more random features than memory",
            |d| load(d, rff(), |json, _| json["spec"]["map"]["features"] = json!(u64::MAX)),
            "{dir}/x.offspan: not an offspan detector: `centre` of the detector: expected shape \
             [18446744073709551615], got [40]",
        ),
        (
            "rows wider than memory",
            |d| load(d, rff(), |json, _| json["training"]["width"] = json!(u64::MAX)),
            "{dir}/x.offspan: not an offspan detector: …",
        ),
        (
            "rows of another width",
            |d| load(d, nys(), |json, _| json["training"]["width"] = json!(12)),
            "{dir}/x.offspan: not an offspan detector: `…` of the detector: expected shape …12…, \
             got …11…",
        ),
        (
            "rows without width",
            |d| load(d, rff(), |json, _| json["training"]["width"] = json!(0)),
            "{dir}/x.offspan: not an offspan detector: …",
        ),
        (
            "temperature 0",
            |d| {
                let spec = MethodSpec::Energy { temperature: 1.0 };
                load(d, spec, |json, _| json["spec"]["temperature"] = json!(0))
            },
            "{dir}/x.offspan: not an offspan detector: temperature: expected a number above 0, got \
             0",
        ),
        (
            "an ensemble with a parameter out of range",
            |d| {
                load(d, ensemble(), |json, _| {
                    json["spec"]["nystrom"]["kernel"]["gamma"] = json!(-1);
                })
            },
            "{dir}/x.offspan: not an offspan detector: gamma: expected a number above 0, got -1",
        ),
        (
            "an ensemble that divides by zero",
            |d| {
                load(d, ensemble(), |json, _| {
                    json["results"]["standards"][0]["deviation"] = json!(0);
                })
            },
            "{dir}/x.offspan: not an offspan detector: …deviation…",
        ),
        (
            "more neighbours than the bank has",
            |d| {
                let spec = MethodSpec::Knn { neighbours: 3 };
                load(d, spec, |json, _| json["spec"]["neighbours"] = json!(61))
            },
            "{dir}/x.offspan: not an offspan detector: `bank` of the detector: expected shape [at \
             least 61, 11], got [60, 11]",
        ),
        (
            "a bank whose rows are not of unit length: their products overflow",
            |d| {
                let spec = MethodSpec::Knn { neighbours: 3 };
                let bytes = alter(&detector(&spec).to_bytes(), |_, tensors| {
                    let signs = (0..WIDTH).map(|j| if j % 2 == 0 { f32::MAX } else { f32::MIN });
                    let row: Vec<f32> = signs.collect();
                    tensors.insert(
                        "bank".into(),
                        (Dtype::F32, vec![60, WIDTH], le_f32(&row.repeat(60))),
                    );
                });
                let path = put(d, "x.offspan", bytes);
                told(
                    Detector::load(&path)
                        .and_then(|detector| detector.score(Array2::ones((1, WIDTH)).view(), None)),
                )
            },
            "{dir}/x.offspan: not an offspan detector: `bank`…unit length…",
        ),
    ];
    check(cases);
}

#[test]
fn moments_files() {
    let cases: &[Case] = &[
        (
            "a feature file",
            |d| told(Moments::load(&put(d, "m", tensors_with_header(HEADER, &[0; 8])))),
            "{dir}/m: not a file of moments: it has no offspan.moments header",
        ),
        (
            "a later version",
            |d| {
                let bytes =
                    alter(&Moments::new(3).to_bytes(), |json, _| json["version"] = json!(9));
                told(Moments::load(&put(d, "m", bytes)))
            },
            "{dir}/m: format version 9; this version reads version 1",
        ),
        (
            "scatter of another shape",
            |d| {
                let bytes = alter(&Moments::new(3).to_bytes(), |_, tensors| {
                    tensors.insert("scatter".into(), f32_tensor(&[3, 2], 0.0));
                });
                told(Moments::load(&put(d, "m", bytes)))
            },
            "{dir}/m…`scatter`…: expected shape [3, 3], got [3, 2]",
        ),
        (
            "no scatter",
            |d| {
                let bytes = alter(&Moments::new(3).to_bytes(), |_, t| drop(t.remove("scatter")));
                told(Moments::load(&put(d, "m", bytes)))
            },
            "{dir}/m: no tensor `scatter`; it has `mean` F64 [3]",
        ),
        (
            "rows of another width",
            |_| told(Moments::new(3).update(features(2, 4, 1).view())),
            "rows for these moments: expected shape 3 columns, got 4 columns",
        ),
        (
            "moments of another width",
            |_| told(Moments::new(3).merge(&Moments::new(4))),
            "rows for these moments: expected shape 3 columns, got 4 columns",
        ),
    ];
    check(cases);
}

#[test]
fn rows_to_score() {
    let cases: &[Case] = &[
        (
            "of another width",
            |_| told(detector(&nys()).score(features(3, WIDTH + 1, 2).view(), None)),
            "…: expected shape 11 columns, as in the detector's training rows, got 12 columns",
        ),
        (
            "from a file of another width",
            |d| {
                let path = put(d, "x.npy", npy_f32(features(3, 2, 1).view()));
                let data = open_dataset(&path, None).unwrap();
                told(detector(&nys()).score_dataset(&data, &offspan::Silent))
            },
            "{dir}/x.npy: expected shape 11 columns, as in the detector's training rows, got 2 \
             columns",
        ),
        (
            "with logits of other rows",
            |_| {
                let logits = Array2::<f32>::zeros((2, 4));
                told(detector(&nys()).score(features(3, WIDTH, 2).view(), Some(logits.view())))
            },
            "…: expected shape 3 rows, as many as the features of rows to score, got 2 rows",
        ),
        (
            "without the logits of a fused score",
            |_| {
                let rows = features(40, WIDTH, 1);
                let logits = logits(rows.view());
                let data = Dataset::new("train", rows.view()).with_logits(logits.view()).unwrap();
                let params = KpcaParams { fusion: Some(Fusion::EnergyProduct), ..pca() };
                let spec = MethodSpec::Kpca(params);
                let detector = Detector::fit(&spec, &data, None, &whole_fit()).unwrap();
                told(detector.score(rows.view(), None))
            },
            "fusion with the energy score on rows to score needs logits: …",
        ),
    ];
    check(cases);
}

/// A fit with a checkpoint in `folder`.
fn with_checkpoint(folder: &Path, params: KpcaParams, rows: &Array2<f32>) -> Told {
    let checkpoint = Checkpointing { path: folder.join("checkpoint"), every: Duration::ZERO };
    let options = FitOptions { checkpoint: Some(&checkpoint), ..whole_fit() };
    told(fit_with(&MethodSpec::Kpca(params), rows.view(), &options))
}

/// A checkpoint of PCA on forty rows, changed.
fn checkpoint(folder: &Path, change: fn(&mut Value, &mut Tensors)) {
    assert_eq!(with_checkpoint(folder, pca(), &features(40, WIDTH, 1)), None);
    let path = folder.join("checkpoint");
    std::fs::write(&path, alter(&std::fs::read(&path).unwrap(), change)).unwrap();
}

fn resume(folder: &Path, change: fn(&mut Value, &mut Tensors)) -> Told {
    checkpoint(folder, change);
    with_checkpoint(folder, pca(), &features(40, WIDTH, 1))
}

#[test]
fn checkpoint_files() {
    let cases: &[Case] = &[
        (
            "of other parameters",
            |d| {
                checkpoint(d, |_, _| {});
                with_checkpoint(d, KpcaParams { cosine: false, ..pca() }, &features(40, WIDTH, 1))
            },
            "{dir}/checkpoint: cannot resume: it was made with other parameters: …\"cosine\":true… \
             there, …\"cosine\":false… now; remove the file to start again",
        ),
        (
            "of another number of rows",
            |d| {
                checkpoint(d, |_, _| {});
                with_checkpoint(d, pca(), &features(41, WIDTH, 1))
            },
            "{dir}/checkpoint: cannot resume: it was made for 40 × 11 features, these are 41 × 11; \
             remove the file to start again",
        ),
        (
            "of other rows",
            |d| {
                checkpoint(d, |_, _| {});
                with_checkpoint(d, pca(), &features(40, WIDTH, 2))
            },
            "{dir}/checkpoint: cannot resume: rows 0 to 39 are not those that it has seen; remove \
             the file to start again",
        ),
        (
            "that held out other rows",
            |d| resume(d, |json, _| json["identity"]["hold_out"]["below"] = json!(1u64 << 60)),
            "{dir}/checkpoint: cannot resume: it held out other rows; remove the file to start \
             again",
        ),
        (
            "that is garbage",
            |d| {
                put(d, "checkpoint", "nonsense");
                with_checkpoint(d, pca(), &features(40, WIDTH, 1))
            },
            "{dir}/checkpoint: not a safetensors file: it declares a header of …",
        ),
        (
            "that is empty",
            |d| {
                put(d, "checkpoint", "");
                with_checkpoint(d, pca(), &features(40, WIDTH, 1))
            },
            "{dir}/checkpoint: its header: expected 8 bytes, got 0; the file is truncated or \
             damaged",
        ),
        (
            "that is a detector",
            |d| {
                put(d, "checkpoint", detector(&nys()).to_bytes());
                with_checkpoint(d, pca(), &features(40, WIDTH, 1))
            },
            "{dir}/checkpoint: not an offspan checkpoint: it has no offspan.checkpoint header",
        ),
        (
            "of a later version",
            |d| resume(d, |json, _| json["version"] = json!(2)),
            "{dir}/checkpoint: format version 2; this version reads checkpoint version 1",
        ),
        (
            "with a row that is none",
            |d| resume(d, |json, _| json["next_row"] = json!(41)),
            "{dir}/checkpoint: not an offspan checkpoint: its rows are out of range",
        ),
        (
            "with moments of another width",
            |d| {
                resume(d, |_, tensors| {
                    tensors.insert("mean".into(), f32_tensor(&[3], 0.0));
                    tensors.insert("scatter".into(), f32_tensor(&[3, 3], 1.0));
                })
            },
            "{dir}/checkpoint: …11…3…",
        ),
        (
            "with the moments of fewer rows than it says",
            |d| resume(d, |json, _| json["count"] = json!(0)),
            "{dir}/checkpoint: …",
        ),
        (
            "in a missing folder",
            |d| with_checkpoint(&d.join("nothing"), pca(), &features(40, WIDTH, 1)),
            "cannot create a file for {dir}/nothing/checkpoint: No such file or directory…",
        ),
        (
            "for a method without a long pass",
            |d| {
                let checkpoint = Checkpointing { path: d.join("c"), every: Duration::ZERO };
                let options = FitOptions { checkpoint: Some(&checkpoint), ..whole_fit() };
                let rows = features(40, WIDTH, 1);
                told(fit_with(&MethodSpec::Knn { neighbours: 3 }, rows.view(), &options))
            },
            "checkpoint: expected a kernel PCA method (this one has no long pass to resume), got \
             knn",
        ),
        (
            "for exact kernel PCA, which has no long pass either",
            |d| with_checkpoint(d, exact(GAUSSIAN, ExactForm::Centred), &features(40, WIDTH, 1)),
            "checkpoint: expected …, got kpca-exact",
        ),
    ];
    check(cases);
}

#[test]
fn places_that_cannot_be_written() {
    let cases: &[Case] = &[
        (
            "a detector in a missing folder",
            |d| told(detector(&nys()).save(&d.join("no/x.offspan"))),
            "cannot create a file for {dir}/no/x.offspan: No such file or directory…",
        ),
        (
            "scores in a missing folder",
            |d| told(write_npy_f64(&d.join("no/x.npy"), &[1.0])),
            "cannot create a file for {dir}/no/x.npy: No such file or directory…",
        ),
        (
            "moments in place of a folder",
            |d| told(Moments::new(2).save(d)),
            "cannot write {dir}: Is a directory (os error 21)",
        ),
        ("asked of a folder", |d| told(check_writable(d)), "cannot write {dir}: is a directory"),
        (
            "asked of a missing folder",
            |d| told(check_writable(&d.join("no/x"))),
            "cannot create a file for {dir}/no/x: No such file or directory…",
        ),
        (
            "asked of a place below a file",
            |d| {
                put(d, "file", "");
                told(check_writable(&d.join("file/x")))
            },
            "cannot create a file for {dir}/file/x: Not a directory…",
        ),
    ];
    check(cases);
}

#[test]
fn asking_whether_a_place_can_be_written_leaves_nothing_there() {
    let folder = tempfile::tempdir().unwrap();
    check_writable(&folder.path().join("x")).unwrap();
    put(folder.path(), "old", "kept");
    check_writable(&folder.path().join("old")).unwrap();
    assert_eq!(names_in(folder.path()), ["old"]);
    assert_eq!(std::fs::read(folder.path().join("old")).unwrap(), b"kept");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().join("full");
    std::os::unix::fs::symlink("/dev/full", &full).unwrap();
    let expected =
        format!("cannot write {}: No space left on device (os error 28)", full.display());
    // Short and long files: a short one stays in the buffer until the end.
    for told in [
        told(detector(&nys()).save(&full)),
        told(Moments::new(200).save(&full)),
        told(write_npy_f64(&full, &[1.0])),
        told(write_npy_f64(&full, &[1.0; 10_000])),
    ] {
        assert_eq!(told.as_deref(), Some(&*expected));
    }
    assert_eq!(names_in(folder.path()), ["full"]);
}
