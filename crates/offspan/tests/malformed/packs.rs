//! Pack folders and last layers.

use std::path::Path;

use ndarray::{Array1, Array2};
use offspan::io::{Head, Pack, open_head};

use crate::common::{Tensors, f32_tensor, features, npy_f32, put, tensors, tensors_with_header};
use crate::{Case, Told, check, told};

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
fn folders_and_heads() {
    let cases: &[Case] = &[
        (
            "no train",
            |d| {
                put(d, "test.npy", npy_f32(features(6, 3, 1).view()));
                told(Pack::open(d))
            },
            "{dir}: not a pack folder: it has neither train.safetensors nor train.npy, nor …",
        ),
        ("missing folder", |d| told(Pack::open(d.join("nothing"))), "cannot open {dir}/nothing: …"),
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
                told(open_head(put(d, "head.safetensors", tensors(&parts, None))))
            },
            "{dir}/head.safetensors: no tensor `weight`; it has `bias` F32 [4]",
        ),
        (
            "head with a flat weight",
            |d| told(open_head(put(d, "head.safetensors", head_file(&[12], &[4])))),
            "{dir}/head.safetensors `weight`: expected shape [rows, columns], got [12]",
        ),
        (
            "head of no classes: every energy would be minus infinity",
            |d| told(open_head(put(d, "head.safetensors", head_file(&[0, 3], &[0])))),
            "{dir}/head.safetensors…weight…: expected shape at least one row and one column, got \
             [0, 3]",
        ),
        (
            "head of no classes, wider than memory",
            |d| {
                let header = r#"{"weight":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}}"#;
                told(open_head(put(d, "head.safetensors", tensors_with_header(header, &[]))))
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
