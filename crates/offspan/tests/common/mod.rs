//! What several test files need: rows, files byte by byte, and a list of every method.

// Each test file compiles its own copy and uses a part of it.
#![allow(dead_code, clippy::unwrap_used)]

mod noise;

pub(crate) use noise::Noise;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use ndarray::{Array1, Array2, ArrayView2};
use offspan::io::{Dataset, Head, Labels, LastBlock, OwnedRows};
use offspan::map::{Draw, EigenFloor};
use offspan::{
    AutoParams, AutoencoderParams, BankSize, Clip, Components, Detector, DkgpKpcaParams,
    DkgpParams, EnsembleParams, ExactForm, FitOptions, FourierParts, Fusion, Kernel, KnnParams,
    KpcaParams, LogitScore, MapParams, MethodSpec, NnGuideParams, Precision, Rectification,
    RectifiedParams, Residual, Result, RffOptParams, Sampling, Silent, SupconParams, TnnParams,
};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

/// Rows around a few centres, all entries positive: like the features of a network.
pub(crate) fn features(rows: usize, width: usize, seed: u64) -> Array2<f32> {
    let mut noise = Noise(seed);
    let centres = Array2::from_shape_simple_fn((3, width), || noise.next());
    Array2::from_shape_fn((rows, width), |(i, j)| {
        (0.05 + centres[[i % 3, j]] + 0.6 * noise.next()) as f32
    })
}

/// A last layer for four classes.
pub(crate) fn head(width: usize) -> Head {
    let mut noise = Noise(77);
    let weight = Array2::from_shape_simple_fn((4, width), || 2.0 * noise.next() - 1.0);
    let head = Head::new(weight, Array1::from(vec![0.1, -0.2, 0.3, 0.0])).unwrap();
    let block = LastBlock {
        weight: Array2::from_shape_simple_fn((width, 5), || 2.0 * noise.next() - 1.0),
        scale: Array1::from_elem(width, 0.9),
        shift: Array1::from_elem(width, 0.1),
    };
    head.with_block(block).unwrap()
}

/// The logits that [`head`] gives.
pub(crate) fn logits(features: ArrayView2<'_, f32>) -> Array2<f32> {
    let head = head(features.ncols());
    (features.mapv(f64::from).dot(&head.weight().t()) + head.bias()).mapv(|x| x as f32)
}

/// Frequencies and phases to give to a Fourier map.
pub(crate) fn fourier_parts(features: usize, width: usize) -> Box<FourierParts> {
    let mut noise = Noise(5);
    Box::new(FourierParts {
        frequencies: Array2::from_shape_simple_fn((features, width), || 4.0 * noise.next() - 2.0),
        phases: Array1::from_shape_simple_fn(features, || std::f64::consts::TAU * noise.next()),
        amplitudes: None,
    })
}

/// All rows go into the fit, and there is no threshold.
pub(crate) fn whole_fit() -> FitOptions<'static> {
    FitOptions { hold_out: Some(0.0), ..FitOptions::default() }
}

/// Fits to rows in memory, all of them, with logits and head at hand.
pub(crate) fn fit(spec: &MethodSpec, rows: ArrayView2<'_, f32>) -> Result<Detector> {
    fit_with(spec, rows, &whole_fit())
}

pub(crate) fn fit_with(
    spec: &MethodSpec,
    rows: ArrayView2<'_, f32>,
    options: &FitOptions<'_>,
) -> Result<Detector> {
    let data = whole_dataset("train", rows);
    Detector::fit(spec, &data, Some(&head(rows.ncols())), options)
}

/// Scores of rows in memory, with logits at hand.
pub(crate) fn scores(detector: &Detector, rows: ArrayView2<'_, f32>) -> Vec<f64> {
    detector.score_dataset(&whole_dataset("new", rows), &Silent).unwrap()
}

/// The same numbers, bit for bit: −0 is not 0.
pub(crate) fn bits(scores: &[f64]) -> Vec<u64> {
    scores.iter().map(|score| score.to_bits()).collect()
}

pub(crate) const KERNELS: [Kernel; 4] = [
    Kernel::Linear,
    Kernel::Gaussian { gamma: 0.9 },
    Kernel::Laplacian { gamma: 0.2 },
    Kernel::Polynomial { degree: 2, coef0: 1.0 },
];

pub(crate) fn nystrom(kernel: Kernel, landmarks: usize, residual: Residual) -> KpcaParams {
    KpcaParams {
        kernel,
        residual,
        components: Components::ExplainedVariance(0.8),
        ..KpcaParams::nystrom_uniform(landmarks)
    }
}

pub(crate) fn fourier(kernel: Kernel, features: usize, draw: Draw) -> KpcaParams {
    KpcaParams {
        kernel,
        map: MapParams::Fourier { features, draw, parts: None },
        components: Components::ExplainedVariance(0.8),
        ..KpcaParams::default()
    }
}

pub(crate) fn pca() -> KpcaParams {
    KpcaParams {
        kernel: Kernel::Linear,
        map: MapParams::Identity,
        components: Components::ExplainedVariance(0.6),
        ..KpcaParams::default()
    }
}

pub(crate) fn exact(kernel: Kernel, form: ExactForm) -> KpcaParams {
    KpcaParams {
        kernel,
        map: MapParams::Exact { form },
        components: Components::Fixed(3),
        ..KpcaParams::default()
    }
}

/// Every method in every form that reads or writes something of its own, by name. Features have to
/// be [`WIDTH`] wide, and there have to be at least 40 rows.
pub(crate) fn every_method() -> Vec<(String, MethodSpec)> {
    let mut all = core_methods();
    all.push(("auto".to_owned(), MethodSpec::Auto(AutoParams::default())));
    let half = BankSize::Share(0.5);
    let tnn = MethodSpec::Tnn(TnnParams { neighbours: 6, tangents: 2, bank: half, seed: 1 });
    all.push(("tnn".to_owned(), tnn));
    let nnguide = NnGuideParams { neighbours: 3, bank: half, seed: 1 };
    all.push(("nnguide".to_owned(), nnguide.into()));
    all.push(("knn-plus".to_owned(), SupconParams { score: Box::new(knn(3)) }.into()));
    let listed = offspan::CATALOGUE.iter().map(|method| method.name);
    for name in listed.filter(|name| !has_a_smaller_form(name)).chain(COMBINED) {
        all.push((name.to_owned(), MethodSpec::named(name).unwrap()));
    }
    let rff = |draw| fourier(Kernel::Gaussian { gamma: 0.9 }, 40, draw);
    let autoencoder = AutoencoderParams { most_epochs: 3, ..AutoencoderParams::default() };
    all.push(("autoencoder".to_owned(), MethodSpec::Autoencoder(autoencoder)));
    let rff_opt = RffOptParams { kpca: rff(Draw::Iid), rho: 1.0 };
    all.push(("rff-opt".to_owned(), MethodSpec::RffOpt(rff_opt)));
    for kpca in [rff(Draw::Structured), low_energy()] {
        let search = DkgpParams { inducing: 16, most_steps: 25, ..DkgpParams::default() };
        let name = format!("dkgp {}", kpca.method());
        all.push((name, MethodSpec::Dkgp(DkgpKpcaParams { search, kpca })));
    }
    let steps = vec![Rectification::named("scale").unwrap()];
    let score = Box::new(MethodSpec::Kpca(low_energy()));
    let after_scale = RectifiedParams { steps, score, raw_fit: false }.into();
    all.push(("nys after scale".to_owned(), after_scale));
    let MethodSpec::Rectified(react) = MethodSpec::named("reg-pca+react").unwrap() else {
        unreachable!("a combination")
    };
    let raw_fit = RectifiedParams { raw_fit: true, ..react }.into();
    all.push(("reg-pca+react fitted raw".to_owned(), raw_fit));
    all
}

/// Nyström with landmarks of low energy.
fn low_energy() -> KpcaParams {
    let map = MapParams::Nystrom {
        landmarks: 20,
        sampling: Sampling::LowEnergy,
        floor: EigenFloor::default(),
    };
    KpcaParams { map, ..nystrom(Kernel::Gaussian { gamma: 0.9 }, 20, Residual::Plain) }
}

/// Kernel PCA in every form, its ensemble, the energy and the nearest neighbours: methods that need
/// features and logits only.
pub(crate) fn core_methods() -> Vec<(String, MethodSpec)> {
    let gaussian = Kernel::Gaussian { gamma: 0.9 };
    let mut kpca = vec![
        ("pca".to_owned(), pca()),
        ("pca with more kept than not".to_owned(), {
            KpcaParams { components: Components::Fixed(WIDTH - 1), ..pca() }
        }),
        ("pca complete".to_owned(), KpcaParams { residual: Residual::Complete, ..pca() }),
        ("pca without cosine".to_owned(), KpcaParams { cosine: false, ..pca() }),
        ("rff laplacian".to_owned(), fourier(Kernel::Laplacian { gamma: 0.2 }, 40, Draw::Iid)),
        ("rff given parts".to_owned(), {
            let parts = Some(fourier_parts(40, WIDTH));
            let map = MapParams::Fourier { features: 40, draw: Draw::Iid, parts };
            KpcaParams { map, ..fourier(gaussian, 40, Draw::Iid) }
        }),
        ("rff in fixed point".to_owned(), {
            let components = Components::ExplainedVariance(0.4);
            let narrow = Kernel::Gaussian { gamma: 20.0 };
            KpcaParams { components, ..fourier(narrow, 80, Draw::Structured) }
        }),
        ("sketch".to_owned(), {
            let kernel = Kernel::Polynomial { degree: 2, coef0: 1.0 };
            let map = MapParams::TensorSketch { features: 33 };
            KpcaParams { map, ..nystrom(kernel, 1, Residual::Plain) }
        }),
    ];
    for draw in [Draw::Iid, Draw::Orthogonal, Draw::Structured] {
        kpca.push((format!("rff {}", draw.name()), fourier(gaussian, 40, draw)));
    }
    for kernel in KERNELS {
        for residual in [Residual::Plain, Residual::Complete] {
            let params = nystrom(kernel, 20, residual);
            kpca.push((format!("nys {} {residual:?}", kernel.name()), params));
        }
        for form in [ExactForm::Centred, ExactForm::Proposition2] {
            kpca.push((format!("exact {} {form:?}", kernel.name()), exact(kernel, form)));
        }
    }
    let low = low_energy();
    kpca.push(("nys low-energy".to_owned(), low.clone()));
    for fusion in [Fusion::EnergyProduct, Fusion::EnergyRatio] {
        kpca.push((format!("nys {fusion:?}"), KpcaParams { fusion: Some(fusion), ..low.clone() }));
        for (clip, name) in [(Clip::Value(0.9), "value"), (Clip::Percentile(80.0), "percentile")] {
            let params = KpcaParams { fusion: Some(fusion), react: Some(clip), ..low.clone() };
            kpca.push((format!("nys {fusion:?} react {name}"), params));
        }
    }
    let rff = fourier(gaussian, 40, Draw::Structured);
    kpca.push(("rff react".to_owned(), KpcaParams { react: Some(Clip::Percentile(90.0)), ..rff }));

    let mut all = Vec::new();
    for (name, params) in kpca {
        for precision in [Precision::F32, Precision::F64] {
            let spec = MethodSpec::Kpca(KpcaParams { precision, ..params.clone() });
            all.push((format!("{name} {precision}"), spec));
        }
    }
    all.push(("ensemble".to_owned(), ensemble()));
    all.push(("energy".to_owned(), energy(1.5)));
    all.push(("knn".to_owned(), knn(3)));
    all
}

/// Methods whose defaults are for more rows than a test has, or that appear in several forms: they are
/// listed with smaller numbers.
fn has_a_smaller_form(method: &str) -> bool {
    const SMALLER: [&str; 9] = [
        "auto",
        "pca",
        "energy",
        "knn",
        "tnn",
        "nnguide",
        "nnguide+react",
        "knn-plus",
        "autoencoder",
    ];
    SMALLER.contains(&method)
        || ["kpca-", "rff-", "dkgp-"].iter().any(|start| method.starts_with(start))
}

/// Scores after steps that the catalogue does not list.
const COMBINED: [&str; 9] = [
    "ssd+scale",
    "she+line",
    "vim+bats+react",
    "mahalanobis+dice",
    "dml+react",
    "rmds+bf-act",
    "max-logit+opt-fs",
    "klm+lts+react",
    "cadref+beta-norm",
];

pub(crate) fn knn(neighbours: usize) -> MethodSpec {
    KnnParams { neighbours, ..KnnParams::default() }.into()
}

pub(crate) fn energy(temperature: f64) -> MethodSpec {
    MethodSpec::Logit(LogitScore::Energy { temperature })
}

/// Everything that a method can ask for beside features: logits, labels and the tensors of specially
/// trained networks, all computed from the rows.
pub(crate) fn whole_dataset<'a>(name: &str, rows: ArrayView2<'a, f32>) -> Dataset<'a> {
    let labels: Vec<i64> = (0..rows.nrows() as i64).map(|row| row % 3).collect();
    let width = rows.ncols();
    // Different numbers for every tensor, each a function of its row alone.
    let made = |columns: usize, salt: f32| {
        Array2::from_shape_fn((rows.nrows(), columns), |(i, j)| {
            let x = rows[[i, j % width]] + 0.3 * rows[[i, (3 * j + 1) % width]];
            (x * salt + j as f32).sin() + 1.1
        })
    };
    let mut data = Dataset::new(name, rows)
        .with_logits(OwnedRows(logits(rows)))
        .unwrap()
        .with_labels(Labels::from(labels.as_slice()))
        .unwrap();
    for (name, shape) in [
        ("supcon", &[7][..]),
        ("focal_cosines", &[4]),
        ("centre_features", &[5]),
        ("godin_h", &[4]),
        ("csi_features", &[4, 6]),
        ("csi_shift_logits", &[4]),
        ("maps", &[width, 3, 2]),
        ("block_input", &[5, 3, 2]),
        ("block_shortcut", &[width, 3, 2]),
    ] {
        let columns = shape.iter().product();
        data = data.with_extra(name, OwnedRows(made(columns, name.len() as f32)), shape).unwrap();
    }
    data
}

/// Width of the features that [`every_method`] is made for; no power of two.
pub(crate) const WIDTH: usize = 11;

pub(crate) fn ensemble() -> MethodSpec {
    let gaussian = Kernel::Gaussian { gamma: 0.9 };
    MethodSpec::KpcaEnsemble(EnsembleParams {
        rff: fourier(gaussian, 40, Draw::Structured),
        nystrom: nystrom(gaussian, 20, Residual::Complete),
    })
}

/// A `.npy` file with this header text.
pub(crate) fn npy_with_header(version: u8, header: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    if version == 1 {
        bytes.extend((header.len() as u16).to_le_bytes());
    } else {
        bytes.extend((header.len() as u32).to_le_bytes());
    }
    bytes.extend(header);
    bytes.extend(data);
    bytes
}

/// A well-formed `.npy` file; `shape` as Python writes it.
pub(crate) fn npy(version: u8, descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let header =
        format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    npy_with_header(version, header.as_bytes(), data)
}

/// A `.npy` file of `f32` rows.
pub(crate) fn npy_f32(rows: ArrayView2<'_, f32>) -> Vec<u8> {
    npy(1, "<f4", false, &format!("({}, {})", rows.nrows(), rows.ncols()), &le_f32(rows.iter()))
}

pub(crate) fn le_f32<'a>(values: impl IntoIterator<Item = &'a f32>) -> Vec<u8> {
    values.into_iter().flat_map(|x| x.to_le_bytes()).collect()
}

pub(crate) fn le_f64<'a>(values: impl IntoIterator<Item = &'a f64>) -> Vec<u8> {
    values.into_iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// A safetensors file with this header text.
pub(crate) fn tensors_with_header(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

pub(crate) type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// One entry of [`Tensors`] with `f32` elements.
pub(crate) fn f32_tensor(shape: &[usize], value: f32) -> (Dtype, Vec<usize>, Vec<u8>) {
    let count = shape.iter().product();
    (Dtype::F32, shape.to_vec(), le_f32(&vec![value; count]))
}

/// A well-formed safetensors file.
pub(crate) fn tensors(parts: &Tensors, metadata: Option<HashMap<String, String>>) -> Vec<u8> {
    let views = parts.iter().map(|(name, (dtype, shape, data))| {
        (name, TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    safetensors::serialize(views, metadata).unwrap()
}

/// Writes a file and gives back its path.
pub(crate) fn put(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Changes the JSON document and the tensors of a file that offspan wrote; the checksum is made right
/// again where there is one.
pub(crate) fn alter(bytes: &[u8], change: impl FnOnce(&mut Value, &mut Tensors)) -> Vec<u8> {
    let (_, header) = SafeTensors::read_metadata(bytes).unwrap();
    let (key, json) = header.metadata().clone().unwrap().into_iter().next().unwrap();
    let mut json: Value = serde_json::from_str(&json).unwrap();
    let mut parts = SafeTensors::deserialize(bytes)
        .unwrap()
        .tensors()
        .into_iter()
        .map(|(name, view)| (name, (view.dtype(), view.shape().to_vec(), view.data().to_vec())))
        .collect();
    change(&mut json, &mut parts);
    let blank = format!("xxh3-128:{:032}", 0);
    if json.get("checksum").is_some() {
        json["checksum"] = blank.clone().into();
    }
    let mut bytes = tensors(&parts, Some(HashMap::from([(key, json.to_string())])));
    if let Some(at) = bytes.windows(blank.len()).position(|part| part == blank.as_bytes()) {
        let checksum = format!("xxh3-128:{:032x}", xxh3_128(&bytes));
        bytes[at..at + blank.len()].copy_from_slice(checksum.as_bytes());
    }
    bytes
}

/// The names in a folder, hidden ones too.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
