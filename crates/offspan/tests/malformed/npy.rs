//! `.npy` files.

use std::path::Path;

use crate::common::{npy, npy_with_header};
use crate::{Case, Told, check, open};

fn open_npy(folder: &Path, descr: &str, shape: &str, data: &[u8]) -> Told {
    open(folder, "x.npy", npy(1, descr, false, shape, data))
}

fn open_npy_header(folder: &Path, header: &[u8]) -> Told {
    open(folder, "x.npy", npy_with_header(1, header, &[0; 8]))
}

#[test]
fn files() {
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
