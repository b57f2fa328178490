//! Files without header, paths, lists of rows, and values that are not numbers.

use std::path::{Path, PathBuf};

use half::{bf16, f16};
use ndarray::Array2;
use offspan::io::{
    Dataset, ElementType, RawLayout, open_dataset, open_head, open_matrix, read_index_list,
};
use offspan::map::EigenFloor;
use offspan::{
    Clip, Detector, ExactForm, FitOptions, Kernel, KpcaParams, MapParams, MethodSpec, Residual,
    Sampling,
};
use safetensors::Dtype;

use crate::common::{
    Tensors, exact, f32_tensor, features, fit, knn, le_f32, npy, nystrom, pca, put, tensors,
};
use crate::{Case, Told, check, fit_spec, open, told};

fn open_raw(folder: &Path, layout: &str, bytes: &[u8]) -> Told {
    told(open_dataset(put(folder, "x.mmap", bytes), Some(layout.parse().unwrap())))
}

fn layout(text: &str) -> Told {
    told(text.parse::<RawLayout>())
}

#[test]
fn files_without_header() {
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
            "raw: expected a width whose rows fit in memory, got 18446744073709551615",
        ),
        (
            "a width of 0, written in code",
            |d| {
                let layout = RawLayout { element: ElementType::F32, width: 0 };
                told(open_matrix(put(d, "x.mmap", []), "features", Some(layout)))
            },
            "raw: expected a width of at least 1, got 0",
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
    told(read_index_list(put(folder, name, bytes)))
}

#[test]
fn paths_and_lists() {
    let cases: &[Case] = &[
        (
            "missing .npy",
            |d| told(open_dataset(d.join("x.npy"), None)),
            "cannot open {dir}/x.npy: No such file or directory (os error 2)",
        ),
        (
            "missing .safetensors",
            |d| told(open_dataset(d.join("x.safetensors"), None)),
            "cannot open {dir}/x.safetensors: No such file or directory (os error 2)",
        ),
        (
            "missing, of unknown kind",
            |d| told(open_dataset(d.join("x.csv"), None)),
            "cannot open {dir}/x.csv: …not found…",
        ),
        (
            "unknown kind",
            |d| open(d, "x.csv", "1,2"),
            "{dir}/x.csv: not a feature file: expected a name that ends in .npy, .npz, …, \
             got `.csv` (a file without header can be given as an array or a memory \
             map)",
        ),
        (
            "no kind",
            |d| open(d, "features", "1,2"),
            "{dir}/features: not a feature file: expected a name that ends in …, got one \
             without extension (…)",
        ),
        ("a folder", |d| told(open_dataset(d, None)), "{dir}: not a feature file: it is a folder…"),
        (
            "a folder called .npy",
            |d| {
                std::fs::create_dir(d.join("x.npy")).unwrap();
                told(open_dataset(d.join("x.npy"), None))
            },
            "{dir}/x.npy: not a feature file: it is a folder",
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
            |d| told(read_index_list(d.join("rows.txt"))),
            "cannot read {dir}/rows.txt: No such file or directory (os error 2)",
        ),
    ];
    check(cases);
}

/// Fits PCA to a file and scores it.
fn fit_file(path: &Path) -> Told {
    fit_spec(&MethodSpec::Kpca(pca()), &open_dataset(path, None).unwrap(), None)
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
             must be finite, and this one is too large for f32 (use precision=\"f64\")",
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
                let spec = knn(1);
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
                told(open_head(put(d, "head.safetensors", tensors(&parts, None))))
            },
            "{dir}/head.safetensors `weight`: row 0, column 1 is NaN; every value must be finite",
        ),
    ];
    check(cases);
}
