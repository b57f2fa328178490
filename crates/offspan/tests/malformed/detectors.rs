//! Files of detectors and of moments, and rows that do not suit a detector.

use std::path::Path;

use ndarray::Array2;
use offspan::io::{Dataset, open_dataset};
use offspan::map::Draw;
use offspan::{
    AutoParams, Components, Detector, Fusion, Kernel, KpcaParams, MethodSpec, Moments, Precision,
};
use safetensors::Dtype;
use serde_json::{Value, json};

use crate::common::{
    Tensors, WIDTH, alter, energy, ensemble, f32_tensor, features, fourier, knn, le_f32, logits,
    npy_f32, pca, put, tensors_with_header, whole_fit,
};
use crate::{Case, GAUSSIAN, HEADER, Told, check, detector, nys, told};

/// Random features of which half of the variance is kept: projected in fixed point.
fn fixed() -> MethodSpec {
    let components = Components::ExplainedVariance(0.4);
    let narrow = Kernel::Gaussian { gamma: 20.0 };
    MethodSpec::Kpca(KpcaParams { components, ..fourier(narrow, 80, Draw::Structured) })
}

/// Saves a detector with its document or tensors changed, and loads it.
fn load(folder: &Path, spec: MethodSpec, change: fn(&mut Value, &mut Tensors)) -> Told {
    let bytes = alter(&detector(&spec).to_bytes(), change);
    told(Detector::load(put(folder, "x.offspan", bytes)))
}

fn rff() -> MethodSpec {
    MethodSpec::Kpca(fourier(GAUSSIAN, 40, Draw::Structured))
}

fn load_bytes(folder: &Path, bytes: &[u8]) -> Told {
    told(Detector::load(put(folder, "x.offspan", bytes)))
}

#[test]
fn files() {
    let cases: &[Case] = &[
        (
            "missing",
            |d| told(Detector::load(d.join("x.offspan"))),
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
            "{dir}/x.offspan: not an offspan detector: it has no offspan.detector header",
        ),
        (
            "a .npy file",
            |d| load_bytes(d, &npy_f32(features(4, 2, 1).view())),
            "{dir}/x.offspan: not a safetensors file: it is a .npy file",
        ),
        (
            "a file of moments",
            |d| load_bytes(d, &Moments::new(3).to_bytes()),
            "{dir}/x.offspan: not an offspan detector: it has no offspan.detector header",
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
                    json["version"] = json!(4);
                    json["spec"] = json!("in a form of the future");
                })
            },
            "{dir}/x.offspan: an offspan detector of version 4; this program reads version 1 to 3: a \
             later offspan wrote it",
        ),
        (
            "a version before the first",
            |d| load(d, nys(), |json, _| *json = json!({"version": 0, "method": "kpca-nys"})),
            "{dir}/x.offspan: an offspan detector of version 0; this program reads version 1 to 3: fit \
             again",
        ),
        (
            "the first version without its method",
            |d| load(d, nys(), |json, _| *json = json!({"version": 1, "method": "kpca-nys"})),
            "{dir}/x.offspan: not an offspan detector: missing field `spec`",
        ),
        (
            "without a checksum",
            |d| {
                load(d, nys(), |json, _| {
                    drop(json.as_object_mut().unwrap().remove("checksum"));
                })
            },
            "{dir}/x.offspan: not an offspan detector: it has no checksum, and files of version 3 have \
             one",
        ),
        (
            "with a checksum that is none",
            |d| {
                let mut bytes = detector(&nys()).to_bytes();
                let at = bytes.windows(9).position(|part| part == b"xxh3-128:").unwrap();
                bytes[at] = b'y';
                load_bytes(d, &bytes)
            },
            "{dir}/x.offspan: not an offspan detector: expected a checksum of xxh3-128: and 32 digits, \
             got yxh3-128:…",
        ),
        (
            "with another byte in its data",
            |d| {
                let mut bytes = detector(&nys()).to_bytes();
                *bytes.last_mut().unwrap() ^= 1;
                load_bytes(d, &bytes)
            },
            "{dir}/x.offspan: an offspan detector that is damaged: its bytes have the checksum \
             xxh3-128:…, and those that were written had xxh3-128:…; restore it or make it again",
        ),
        (
            "that says it is of the version before, which had no checksum",
            |d| {
                let bytes = detector(&nys()).to_bytes();
                let mut bytes = alter(&bytes, |json, _| json["version"] = json!(2));
                *bytes.last_mut().unwrap() ^= 1;
                load_bytes(d, &bytes)
            },
            "{dir}/x.offspan: an offspan detector that is damaged: …",
        ),
        (
            "no version",
            |d| load(d, nys(), |json, _| *json = json!({})),
            "{dir}/x.offspan: not an offspan detector: missing field `version` at line 1 column 2",
        ),
        (
            "nothing but a version",
            |d| load(d, nys(), |json, _| *json = json!({"version": 2})),
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
                    json["method"] = json!("knn");
                    json["spec"] = json!({"family": "knn", "neighbours": 3, "bank": {"share": 1.0}, "seed": 0});
                })
            },
            "{dir}/x.offspan: not an offspan detector: the detector: expected shape the results of \
             a knn fit, got those of another method",
        ),
        (
            "parameters of another map",
            |d| {
                load(d, nys(), |json, _| {
                    json["method"] = json!("pca");
                    json["spec"]["map"] = json!({"kind": "identity"});
                })
            },
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
                let spec = knn(3);
                load(d, spec, |_, tensors| drop(tensors.remove("bank")))
            },
            "{dir}/x.offspan: not an offspan detector: …no tensor `bank`; it has no tensors",
        ),
        (
            "half a last layer",
            |d| {
                let spec = energy(1.0);
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
                    drop(t.insert("projection".into(), f32_tensor(&[4, 21], 0.0)));
                })
            },
            "{dir}/x.offspan: not an offspan detector: `projection` of the detector: expected \
             shape [4, 20], got [4, 21]",
        ),
        (
            "fixed point that could overflow",
            |d| {
                load(d, fixed(), |_, tensors| {
                    let (dtype, shape, bytes) = &tensors["projection"];
                    let largest = i16::MAX.to_le_bytes().repeat(bytes.len() / 2);
                    let altered = (*dtype, shape.clone(), largest);
                    tensors.insert("projection".into(), altered);
                })
            },
            "{dir}/x.offspan: not an offspan detector: `projection` of the detector: expected \
             shape numbers whose sums stay within 32 bits, …",
        ),
        (
            "fixed point as floats",
            |d| {
                load(d, fixed(), |_, tensors| {
                    let shape = tensors["projection"].1.clone();
                    tensors.insert("projection".into(), f32_tensor(&shape, 0.0));
                })
            },
            "{dir}/x.offspan: not an offspan detector: …`projection`…F32…",
        ),
        (
            "a scale too few",
            |d| {
                load(d, fixed(), |_, t| {
                    drop(t.insert("projection_scales".into(), f32_tensor(&[1], 1.0)));
                })
            },
            "{dir}/x.offspan: not an offspan detector: `projection_scales` of the detector: \
             expected shape […], got [1]",
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
            "{dir}/x.offspan: not an offspan detector: …`projection`…: expected shape …, got \
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
                    drop(t.insert("landmarks".into(), f32_tensor(&[20, 12], 0.0)));
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
                let spec = energy(1.0);
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
            "products of a width that does not exist",
            |d| {
                let spec = MethodSpec::Auto(AutoParams::default());
                load(d, spec, |json, _| {
                    json["results"]["found"]["bits of products"] = json!(8);
                })
            },
            "{dir}/x.offspan: not an offspan detector: bits of products: expected 16, got 8",
        ),
        (
            "products in 16 bits in double precision",
            |d| {
                let spec = MethodSpec::Auto(AutoParams {
                    precision: Precision::F64,
                    ..AutoParams::default()
                });
                load(d, spec, |json, _| {
                    json["results"]["found"]["bits of products"] = json!(16);
                })
            },
            "{dir}/x.offspan: not an offspan detector: bits of products: expected none, because the \
             precision is not single, got 16",
        ),
        (
            "more neighbours than the bank has",
            |d| {
                let spec = knn(3);
                load(d, spec, |json, _| json["spec"]["neighbours"] = json!(61))
            },
            "{dir}/x.offspan: not an offspan detector: `bank` of the detector: expected shape [at \
             least 61, 11], got [60, 11]",
        ),
        (
            "a bank whose rows are not of unit length: their products overflow",
            |d| {
                let spec = knn(3);
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
fn moments() {
    let cases: &[Case] = &[
        (
            "a feature file",
            |d| told(Moments::load(put(d, "m", tensors_with_header(HEADER, &[0; 8])))),
            "{dir}/m: not a file of moments: it has no offspan.moments header",
        ),
        (
            "a later version",
            |d| {
                let bytes =
                    alter(&Moments::new(3).to_bytes(), |json, _| json["version"] = json!(9));
                told(Moments::load(put(d, "m", bytes)))
            },
            "{dir}/m: a file of moments of version 9; this program reads version 1 to 2: a later offspan \
             wrote it",
        ),
        (
            "scatter of another shape",
            |d| {
                let bytes = alter(&Moments::new(3).to_bytes(), |_, tensors| {
                    tensors.insert("scatter".into(), f32_tensor(&[3, 2], 0.0));
                });
                told(Moments::load(put(d, "m", bytes)))
            },
            "{dir}/m…`scatter`…: expected shape [3, 3], got [3, 2]",
        ),
        (
            "no scatter",
            |d| {
                let bytes = alter(&Moments::new(3).to_bytes(), |_, t| drop(t.remove("scatter")));
                told(Moments::load(put(d, "m", bytes)))
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
