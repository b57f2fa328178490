//! safetensors files.

use std::path::Path;

use offspan::io::open_dataset;
use safetensors::Dtype;

use crate::common::{Tensors, f32_tensor, put, tensors, tensors_with_header};
use crate::{Case, HEADER, Told, check, open, told};

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
fn files() {
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
                told(open_dataset(&path, None).unwrap().labels().unwrap().read(0..1))
            },
            "{dir}/x.safetensors `labels`: expected shape labels below 2^63, got \
             18446744073709551615",
        ),
    ];
    check(cases);
}
