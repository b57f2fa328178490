//! What goes into a file comes out of it again, whatever the format: rows, labels, packs, moments,
//! detectors and checkpoints.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::Cursor;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::*;
use half::{bf16, f16};
use ndarray::{Array2, ArrayView2, Axis, ShapeBuilder, concatenate, s};
use offspan::io::{
    Dataset, ElementType, FeatureSource, NpyWriter, Pack, RawLayout, create_atomically,
    open_dataset, open_head, open_matrix, read_index_list, write_npy_f64,
};
use offspan::map::Draw;
use offspan::{
    CalibrationSource, Checkpointing, Clip, Components, Detector, Error, ExactForm, FitOptions,
    Kernel, KpcaParams, MapParams, MethodSpec, Moments, Observer, Precision, Residual, Silent,
    WeightType,
};
use safetensors::Dtype;

const TYPES: [(ElementType, Dtype); 4] = [
    (ElementType::F16, Dtype::F16),
    (ElementType::Bf16, Dtype::BF16),
    (ElementType::F32, Dtype::F32),
    (ElementType::F64, Dtype::F64),
];

/// Signed numbers that every element type holds exactly, with zeros and the smallest normal f16.
fn exact_rows(rows: usize, width: usize) -> Array2<f64> {
    Array2::from_shape_fn((rows, width), |(i, j)| match (i * width + j) % 9 {
        0 => 0.0,
        1 => 2f64.powi(-14),
        k => (k as f64 - 5.0) * 0.25 * 2f64.powi((i % 5) as i32),
    })
}

fn encode<'a>(element: ElementType, values: impl IntoIterator<Item = &'a f64>) -> Vec<u8> {
    values
        .into_iter()
        .flat_map(|&x| match element {
            ElementType::F16 => f16::from_f64(x).to_le_bytes().to_vec(),
            ElementType::Bf16 => bf16::from_f64(x).to_le_bytes().to_vec(),
            ElementType::F32 => (x as f32).to_le_bytes().to_vec(),
            ElementType::F64 => x.to_le_bytes().to_vec(),
        })
        .collect()
}

/// Fails unless the source gives exactly these rows: in both precisions, from the start and from
/// the middle, into memory that lies together and memory that does not.
fn assert_reads(source: &dyn FeatureSource, expected: &Array2<f64>, what: &str) {
    assert_eq!((source.rows(), source.width()), expected.dim(), "{what}");
    for start in [0, expected.nrows() / 2] {
        let part = expected.slice(s![start.., ..]);
        let mut wide = Array2::zeros(part.dim());
        source.read_f64(start, wide.view_mut());
        assert_eq!(wide, part, "{what}, f64 from row {start}");
        let mut narrow = Array2::zeros(part.dim().f());
        source.read_f32(start, narrow.view_mut());
        assert_eq!(narrow.mapv(f64::from), part, "{what}, f32 from row {start}");
    }
}

#[test]
fn rows_written_as_npy_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let rows = exact_rows(23, 5);
    for element in [ElementType::F16, ElementType::F32, ElementType::F64] {
        let mut bytes = Cursor::new(Vec::new());
        let mut writer = NpyWriter::new(&mut bytes, element, 5).unwrap();
        for row in rows.mapv(|x| x as f32).rows() {
            writer.row(row.as_slice().unwrap()).unwrap();
        }
        writer.finish().unwrap();
        let bytes = bytes.into_inner();
        let data = 23 * 5 * element.size();
        assert_eq!((bytes.len() - data) % 64, 0, "NumPy aligns the data to 64 bytes");
        assert_eq!(bytes[bytes.len() - data - 1], b'\n', "the header ends with a newline");
        let matrix = open_matrix(&put(folder.path(), "x.npy", bytes), "features", None).unwrap();
        assert_eq!(matrix.element_type(), element);
        assert_reads(&matrix, &rows, &element.to_string());
    }
    assert!(NpyWriter::new(Cursor::new(Vec::new()), ElementType::Bf16, 5).is_err());
}

#[test]
fn scores_written_as_npy_are_read_back_with_their_infinities() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scores.npy");
    let scores = [-1.5, f64::NEG_INFINITY, 0.1 + 0.2, -0.0];
    write_npy_f64(&path, &scores).unwrap();
    let bytes = std::fs::read(path).unwrap();
    assert!(bytes.starts_with(b"\x93NUMPY\x01\x00"));
    assert!(String::from_utf8_lossy(&bytes[10..128]).contains("'descr': '<f8'"));
    assert_eq!((&bytes[bytes.len() - 32..], (bytes.len() - 32) % 64), (&*le_f64(&scores), 0));
}

#[test]
fn npy_of_every_version_type_and_order_gives_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    // More rows than one conversion run, and neither side a multiple of anything.
    let rows = exact_rows(301, 7);
    for (element, descr) in
        [(ElementType::F16, "<f2"), (ElementType::F32, "<f4"), (ElementType::F64, "<f8")]
    {
        for version in [1, 2, 3] {
            for fortran in [false, true] {
                let data =
                    if fortran { encode(element, rows.t().iter()) } else { encode(element, &rows) };
                let bytes = npy(version, descr, fortran, "(301, 7)", &data);
                let path = put(folder.path(), "x.NPY", bytes);
                let what = format!("{descr} version {version} fortran {fortran}");
                assert_reads(&open_matrix(&path, "features", None).unwrap(), &rows, &what);
            }
        }
    }
}

#[test]
fn npy_headers_in_other_hands_are_understood() {
    let folder = tempfile::tempdir().unwrap();
    let rows = exact_rows(2, 3);
    for header in [
        "{'shape':(2,3),'fortran_order':False,'descr':'<f8'}",
        "{'descr': \"<f8\", 'fortran_order': False, 'shape': (2, 3,), }    \n",
        "{ 'fortran_order' : False , 'descr' : '<f8' , 'shape' : ( 2 , 3 ) }",
    ] {
        let bytes = npy_with_header(1, header.as_bytes(), &encode(ElementType::F64, &rows));
        let path = put(folder.path(), "x.npy", bytes);
        assert_reads(&open_matrix(&path, "features", None).unwrap(), &rows, header);
    }
}

#[test]
fn safetensors_of_every_type_are_read_at_any_alignment() {
    let folder = tempfile::tempdir().unwrap();
    let rows = exact_rows(33, 5);
    for (element, dtype) in TYPES {
        let data = encode(element, &rows);
        // The format allows blanks after the header, so the data can start anywhere.
        for blanks in 0..8 {
            let header = format!(
                r#"{{"features":{{"dtype":"{dtype}","shape":[33,5],"data_offsets":[0,{}]}}}}{}"#,
                data.len(),
                " ".repeat(blanks)
            );
            let path = put(folder.path(), "x.safetensors", tensors_with_header(&header, &data));
            let matrix = open_matrix(&path, "features", None).unwrap();
            assert_eq!(matrix.element_type(), element);
            assert_reads(&matrix, &rows, &format!("{dtype} with {blanks} blanks"));
        }
    }
}

#[test]
fn the_only_table_of_a_file_is_found_whatever_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let rows = exact_rows(4, 3);
    let table = (Dtype::F64, vec![4, 3], encode(ElementType::F64, &rows));
    let ids = (Dtype::I64, vec![4, 1], vec![0; 32]);
    let parts =
        Tensors::from([("penultimate".to_owned(), table.clone()), ("ids".to_owned(), ids.clone())]);
    let path = put(folder.path(), "x.safetensors", tensors(&parts, None));
    assert_reads(&*open_dataset(&path, None).unwrap().features, &rows, "only table");

    // A tensor called `features` wins over any other.
    let other = (Dtype::F64, vec![1, 1], vec![0; 8]);
    let parts = Tensors::from([("a".to_owned(), other), ("features".to_owned(), table)]);
    let path = put(folder.path(), "y.safetensors", tensors(&parts, None));
    assert_reads(&*open_dataset(&path, None).unwrap().features, &rows, "features");
}

#[test]
fn files_without_header_are_read_by_their_layout() {
    let folder = tempfile::tempdir().unwrap();
    let rows = exact_rows(9, 4);
    for (element, _) in TYPES {
        let layout = RawLayout { element, width: 4 };
        assert_eq!(layout.to_string().parse::<RawLayout>(), Ok(layout));
        let path = put(folder.path(), "x.mmap", encode(element, &rows));
        let dataset = open_dataset(&path, Some(layout)).unwrap();
        assert_reads(&*dataset.features, &rows, &layout.to_string());
    }
    assert_eq!("float64:4".parse(), Ok(RawLayout { element: ElementType::F64, width: 4 }));
}

/// Every integer type with its NumPy name, its largest value and its smallest, as bytes.
fn integers() -> Vec<(Dtype, &'static str, [i64; 2], Vec<u8>)> {
    macro_rules! of {
        ($($dtype:ident $type:ident $descr:literal),*) => {
            vec![$((
                Dtype::$dtype,
                $descr,
                [i64::try_from($type::MAX).unwrap_or(i64::MAX), i64::try_from($type::MIN).unwrap()],
                [$type::try_from(i64::MAX).unwrap_or($type::MAX), $type::MIN]
                    .iter()
                    .flat_map(|x| x.to_le_bytes())
                    .collect(),
            )),*]
        };
    }
    of![
        I8 i8 "|i1", U8 u8 "|u1", I16 i16 "<i2", U16 u16 "<u2",
        I32 i32 "<i4", U32 u32 "<u4", I64 i64 "<i8", U64 u64 "<u8"
    ]
}

#[test]
fn labels_of_every_integer_type_keep_their_largest_and_smallest() {
    let folder = tempfile::tempdir().unwrap();
    for (dtype, descr, expected, bytes) in integers() {
        let parts = Tensors::from([
            ("features".to_owned(), f32_tensor(&[2, 3], 1.0)),
            ("labels".to_owned(), (dtype, vec![2], bytes.clone())),
        ]);
        let path = put(folder.path(), "x.safetensors", tensors(&parts, None));
        let labels = open_dataset(&path, None).unwrap().labels.unwrap();
        assert_eq!((labels.len(), labels.is_empty()), (2, false));
        assert_eq!(labels.read(0..2).unwrap(), expected, "{dtype}");
        assert_eq!(labels.read(1..2).unwrap(), expected[1..], "{dtype}");

        let path = put(folder.path(), "rows.npy", npy(1, descr, false, "(2,)", &bytes));
        match (read_index_list(&path), u64::try_from(expected[1])) {
            (Ok(rows), Ok(0)) => assert_eq!(rows, [expected[0] as u64, 0], "{descr}"),
            (Err(_), Err(_)) => {}
            (got, _) => panic!("{descr}: {got:?}"),
        }
    }
    let path = put(folder.path(), "rows.txt", "3\n1\n\n18446744073709551615\n");
    assert_eq!(read_index_list(&path).unwrap(), [3, 1, u64::MAX]);
}

/// A pack: `train` with logits and labels, `test` and one set as `.npy`, another as safetensors.
fn write_pack(folder: &Path) {
    let train = features(30, 3, 1);
    let parts = [
        ("features", (Dtype::F32, vec![30, 3], le_f32(&train))),
        ("logits", (Dtype::F32, vec![30, 4], le_f32(&logits(train.view())))),
        ("labels", (Dtype::U8, vec![30], (0..30).collect())),
    ];
    let parts: Tensors = parts.map(|(name, part)| (name.to_owned(), part)).into();
    put(folder, "train.safetensors", tensors(&parts, None));
    put(folder, "test.npy", npy_f32(features(8, 3, 2).view()));
    put(folder, "ood/v1.5.npy", npy_f32(features(9, 3, 3).view()));
    let far = Tensors::from([("features".to_owned(), f32_tensor(&[10, 3], 2.0))]);
    put(folder, "ood/far.safetensors", tensors(&far, None));
    put(folder, "ood/README.md", "not a set");
    let head = head(3);
    let block = head.block.as_ref().unwrap();
    let parts = Tensors::from([
        ("weight".to_owned(), (Dtype::F64, vec![4, 3], le_f64(&head.weight))),
        ("bias".to_owned(), (Dtype::F64, vec![4], le_f64(&head.bias))),
        ("block.weight".to_owned(), (Dtype::F64, vec![3, 5], le_f64(&block.weight))),
        ("block.scale".to_owned(), (Dtype::F64, vec![3], le_f64(&block.scale))),
        ("block.shift".to_owned(), (Dtype::F64, vec![3], le_f64(&block.shift))),
    ]);
    put(folder, "head.safetensors", tensors(&parts, None));
}

#[test]
fn a_pack_gives_its_splits_in_order_with_what_they_carry() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("cifar10");
    write_pack(&folder);
    let pack = Pack::open(&folder).unwrap();
    assert_eq!(pack.name, "cifar10");
    assert_reads(&*pack.train.features, &features(30, 3, 1).mapv(f64::from), "train");
    assert_eq!(pack.train.logits.as_ref().unwrap().width(), 4);
    assert_eq!(pack.train.labels.as_ref().unwrap().read(28..30).unwrap(), [28, 29]);
    assert_reads(&*pack.test.unwrap().features, &features(8, 3, 2).mapv(f64::from), "test");
    let sets: Vec<(&str, usize)> =
        pack.ood.iter().map(|set| (set.name.as_str(), set.rows())).collect();
    assert_eq!(sets, [("far", 10), ("v1.5", 9)]);
    assert_eq!(pack.head.unwrap(), head(3));
}

#[test]
fn a_pack_may_lie_in_a_folder_with_a_comma_in_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("cifar10,densenet");
    write_pack(&folder);
    // `open_head` also takes two files as `weight.npy,bias.npy`.
    assert_eq!(Pack::open(&folder).unwrap().head.unwrap(), head(3));
}

#[test]
fn a_head_as_two_npy_files_equals_the_safetensors_one() {
    let folder = tempfile::tempdir().unwrap();
    write_pack(folder.path());
    let head = head(3);
    let weight = put(folder.path(), "w.npy", npy(1, "<f8", false, "(4, 3)", &le_f64(&head.weight)));
    let bias = put(folder.path(), "b.npy", npy(1, "<f8", false, "(4,)", &le_f64(&head.bias)));
    let both = format!("{},{}", weight.display(), bias.display());
    let from_npy = open_head(Path::new(&both)).unwrap();
    assert_eq!((&from_npy.weight, &from_npy.bias), (&head.weight, &head.bias));
    assert_eq!(open_head(&folder.path().join("head.safetensors")).unwrap(), head);
}

#[test]
fn every_detector_comes_back_with_the_same_bytes_and_the_same_scores() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.offspan");
    let (train, test) = (features(90, WIDTH, 1), features(300, WIDTH, 2));
    let options = FitOptions { hold_out: 0.4, ..FitOptions::default() };
    let mut wrong = Vec::new();
    for (name, spec) in every_method() {
        let fitted = fit_with(&spec, train.view(), &options).unwrap();
        fitted.save(&path).unwrap();
        assert!(Detector::is_detector(&path), "{name}");
        assert_eq!(std::fs::read(&path).unwrap(), fitted.to_bytes(), "{name}");
        let loaded = match Detector::load(&path) {
            Ok(loaded) => loaded,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        assert!(fitted.threshold().is_some(), "{name}");
        assert_eq!(loaded.threshold(), fitted.threshold(), "{name}");
        assert_eq!(loaded.info().training, fitted.info().training, "{name}");
        assert_eq!(loaded.kpca_summaries(), fitted.kpca_summaries(), "{name}");
        assert_eq!(loaded.eigenvalues(), fitted.eigenvalues(), "{name}");
        if loaded.to_bytes() != fitted.to_bytes() {
            wrong.push(format!("{name}: other bytes"));
        }
        let (before, after) = (scores(&fitted, test.view()), scores(&loaded, test.view()));
        if bits(&before) != bits(&after) {
            let gap = before.iter().zip(&after).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            wrong.push(format!("{name}: scores differ by up to {gap:e}"));
        }
    }
    assert_eq!(names_in(folder.path()), ["x.offspan"], "no partial files");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn given_frequencies_come_back_whatever_the_draw_and_kernel_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.offspan");
    let train = features(60, WIDTH, 1);
    // The draw is not used: the frequencies are there. So it must not forbid loading either.
    for (kernel, draw) in [
        (Kernel::Laplacian { gamma: 0.1 }, Draw::Structured),
        (Kernel::Laplacian { gamma: 0.1 }, Draw::Orthogonal),
        (Kernel::Gaussian { gamma: 0.1 }, Draw::Structured),
    ] {
        let parts = Some(fourier_parts(20, WIDTH));
        let map = MapParams::Fourier { features: 20, draw, parts };
        let spec = MethodSpec::Kpca(KpcaParams { map, ..fourier(kernel, 20, draw) });
        let fitted = fit(&spec, train.view()).unwrap();
        fitted.save(&path).unwrap();
        let loaded = Detector::load(&path).unwrap_or_else(|error| panic!("{draw:?}: {error}"));
        assert_eq!(scores(&loaded, train.view()), scores(&fitted, train.view()), "{draw:?}");
    }
}

#[test]
fn amplitudes_of_given_frequencies_count_and_survive_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.offspan");
    let train = features(100, WIDTH, 1);
    let kernel = Kernel::Gaussian { gamma: 0.1 };
    let with = |amplitude: Option<fn(usize) -> f64>| {
        let mut parts = fourier_parts(20, WIDTH);
        parts.amplitudes = amplitude.map(|amplitude| (0..20).map(amplitude).collect());
        let map = MapParams::Fourier { features: 20, draw: Draw::Iid, parts: Some(parts) };
        let spec = MethodSpec::Kpca(KpcaParams { map, ..fourier(kernel, 20, Draw::Iid) });
        fit(&spec, train.view()).unwrap()
    };
    let fitted = with(Some(|n| 0.1 + 0.02 * n as f64));
    fitted.save(&path).unwrap();
    let loaded = Detector::load(&path).unwrap();
    assert_eq!(scores(&loaded, train.view()), scores(&fitted, train.view()));
    assert_ne!(scores(&with(None), train.view()), scores(&fitted, train.view()));
    let uniform = scores(&with(Some(|_| (2.0f64 / 20.0).sqrt())), train.view());
    for (a, b) in scores(&with(None), train.view()).into_iter().zip(uniform) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}

#[test]
fn a_threshold_of_minus_infinity_survives_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.offspan");
    let train = features(60, WIDTH, 1);
    let zeros = Array2::<f32>::zeros((20, WIDTH));
    let calibrate = Dataset::new("zeros", zeros.view());
    let options = FitOptions { calibrate: Some(&calibrate), ..FitOptions::default() };
    let fitted = fit_with(&MethodSpec::Kpca(pca()), train.view(), &options).unwrap();
    fitted.save(&path).unwrap();
    let threshold = Detector::load(&path).unwrap().threshold().unwrap().clone();
    assert_eq!((threshold.value, threshold.rows), (f64::NEG_INFINITY, 20));
    assert_eq!(threshold.source, CalibrationSource::Given);
}

#[test]
fn moments_come_back_and_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("moments");
    let rows = features(50, 7, 1).mapv(f64::from);
    let mut moments = Moments::new(7);
    moments.update(rows.slice(s![..30, ..])).unwrap();
    moments.save(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), moments.to_bytes());
    let mut loaded = Moments::load(&path).unwrap();
    assert_eq!(loaded, moments);
    for moments in [&mut loaded, &mut moments] {
        moments.update(rows.slice(s![30.., ..])).unwrap();
    }
    assert_eq!(loaded.to_bytes(), moments.to_bytes());
    assert_eq!(loaded.count(), 50);

    Moments::new(4).save(&path).unwrap();
    assert_eq!(Moments::load(&path).unwrap(), Moments::new(4));
}

/// The detector's bytes from rows in this file.
fn detector_of(path: &Path, layout: Option<RawLayout>) -> Vec<u8> {
    let spec = MethodSpec::Kpca(nystrom(Kernel::Gaussian { gamma: 1.0 }, 20, Residual::Complete));
    let data = open_dataset(path, layout).unwrap();
    Detector::fit(&spec, &data, None, &FitOptions::default()).unwrap().to_bytes()
}

#[test]
fn the_same_rows_give_the_same_detector_from_any_container() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Values that f16 holds, so that every type has the same rows.
    let rows = features(700, 5, 1).mapv(|x| f64::from(f16::from_f32(x)));
    let reference = detector_of(
        &put(folder, "x.npy", npy(1, "<f4", false, "(700, 5)", &encode(ElementType::F32, &rows))),
        None,
    );
    for (element, dtype) in TYPES {
        if element == ElementType::Bf16 {
            continue;
        }
        let data = encode(element, &rows);
        let parts = Tensors::from([("features".to_owned(), (dtype, vec![700, 5], data.clone()))]);
        let path = put(folder, "x.safetensors", tensors(&parts, None));
        assert_eq!(detector_of(&path, None), reference, "{element} safetensors");
        let path = put(folder, "x.mmap", &data);
        let layout = RawLayout { element, width: 5 };
        assert_eq!(detector_of(&path, Some(layout)), reference, "{element} raw");
        let descr = format!("<f{}", element.size());
        let data = encode(element, rows.t().iter());
        let path = put(folder, "y.npy", npy(2, &descr, true, "(700, 5)", &data));
        assert_eq!(detector_of(&path, None), reference, "{element} Fortran order");
    }
    // And from memory, rows first, columns first and backwards.
    let spec = MethodSpec::Kpca(nystrom(Kernel::Gaussian { gamma: 1.0 }, 20, Residual::Complete));
    let of = |rows: ArrayView2<'_, f64>| {
        let data = Dataset::new("memory", rows);
        Detector::fit(&spec, &data, None, &FitOptions::default()).unwrap().to_bytes()
    };
    let by_columns = rows.t().as_standard_layout().into_owned();
    let backwards = rows.slice(s![..;-1, ..]).to_owned();
    assert_eq!(of(rows.view()), reference);
    assert_eq!(of(by_columns.t()), reference);
    assert_eq!(of(backwards.slice(s![..;-1, ..])), reference);
}

/// Asks to stop after so many reports of progress.
struct StopAfter {
    left: AtomicUsize,
}

impl StopAfter {
    fn new(reports: usize) -> Self {
        StopAfter { left: AtomicUsize::new(reports) }
    }
}

impl Observer for StopAfter {
    fn advance(&self, _: u64) {
        let _ = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
    }

    fn interrupted(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }
}

/// Keeps the reports of progress.
#[derive(Default)]
struct Reports(Mutex<Vec<u64>>);

impl Observer for Reports {
    fn advance(&self, steps: u64) {
        self.0.lock().unwrap().push(steps);
    }
}

/// Methods whose fit walks over no rows.
const AT_ONCE: [&str; 15] = [
    "energy",
    "msp",
    "max-logit",
    "odin",
    "gradnorm",
    "dml",
    "ash-b",
    "ash-p",
    "ash-s",
    "scale",
    "rank-feat",
    "rank-feat+rank-weight",
    "mcf",
    "mnc",
    "godin",
];

#[test]
fn every_method_stops_when_asked_to() {
    let train = features(300, WIDTH, 1);
    let stop = StopAfter::new(0);
    let mut deaf = Vec::new();
    for (name, spec) in every_method() {
        let options = FitOptions { hold_out: 0.0, observer: &stop, ..FitOptions::default() };
        match fit_with(&spec, train.view(), &options) {
            Err(Error::Interrupted { .. }) => {}
            // Nothing is computed in these fits.
            Ok(_) if AT_ONCE.contains(&name.as_str()) => {}
            Err(error) => deaf.push(format!("{name}: {error}")),
            Ok(_) => deaf.push(name.clone()),
        }
        let detector = fit(&spec, train.view()).unwrap();
        let data = whole_dataset("train", train.view());
        let told = detector.score_dataset(&data, &stop).unwrap_err().to_string();
        assert_eq!(told, "interrupted; no output was written", "{name}");
    }
    assert!(deaf.is_empty(), "these fits do not listen: {}", deaf.join(", "));
}

/// Methods with a long pass, on rows that are [`LONG`] many: three chunks.
fn methods_with_checkpoints() -> Vec<(&'static str, MethodSpec)> {
    let gaussian = Kernel::Gaussian { gamma: 1.0 };
    let polynomial = Kernel::Polynomial { degree: 2, coef0: 1.0 };
    let sketch = MapParams::TensorSketch { features: 12 };
    let parts = Some(fourier_parts(20, 4));
    let given = MapParams::Fourier { features: 20, draw: Draw::Iid, parts };
    let nys = nystrom(gaussian, 16, Residual::Complete);
    vec![
        ("pca", MethodSpec::Kpca(pca())),
        ("pca react", {
            MethodSpec::Kpca(KpcaParams { react: Some(Clip::Percentile(90.0)), ..pca() })
        }),
        ("rff", MethodSpec::Kpca(fourier(gaussian, 20, Draw::Structured))),
        ("rff given parts", {
            MethodSpec::Kpca(KpcaParams { map: given, ..fourier(gaussian, 20, Draw::Iid) })
        }),
        ("sketch", {
            MethodSpec::Kpca(KpcaParams { map: sketch, ..nystrom(polynomial, 1, Residual::Plain) })
        }),
        ("nys", MethodSpec::Kpca(nys)),
        ("ensemble", ensemble()),
    ]
}

const LONG: usize = 17_000;

#[test]
fn a_stopped_fit_goes_on_from_its_checkpoint_to_the_same_bytes() {
    let train = features(LONG, 4, 1);
    let mut wrong = Vec::new();
    for (name, spec) in methods_with_checkpoints() {
        let reference = fit_with(&spec, train.view(), &FitOptions::default()).unwrap().to_bytes();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint");
        let checkpoint = Checkpointing { path: path.clone(), every: Duration::ZERO };
        // Every run is stopped a little later than the one before, so it is stopped in every
        // stage, and in most of them with a checkpoint to go on from.
        let mut stops = 0;
        for reports in 0..60 {
            let observer = StopAfter::new(reports);
            let options = FitOptions {
                checkpoint: Some(&checkpoint),
                observer: &observer,
                ..FitOptions::default()
            };
            match fit_with(&spec, train.view(), &options) {
                Ok(detector) => {
                    if detector.to_bytes() != reference {
                        wrong.push(format!("{name}: other bytes after {stops} stops"));
                    }
                    detector.remove_checkpoints(&checkpoint).unwrap();
                    assert_eq!(names_in(folder.path()), [""; 0], "{name}");
                    break;
                }
                Err(Error::Interrupted { .. }) => stops += 1,
                Err(error) => {
                    wrong.push(format!("{name}: {error}"));
                    break;
                }
            }
        }
        if stops < 3 {
            wrong.push(format!("{name}: stopped {stops} times only"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_fingerprint_sees_every_training_row_and_their_order() {
    let exact = exact(Kernel::Linear, ExactForm::Centred);
    for (spec, rows) in
        [(MethodSpec::Kpca(pca()), LONG), (MethodSpec::Kpca(exact), 600), (knn(3), 600)]
    {
        let print = |rows: &Array2<f32>| {
            fit(&spec, rows.view()).unwrap().info().training.fingerprint.clone()
        };
        let train = features(rows, 4, 1);
        let mut prints = vec![print(&train)];
        assert_eq!(print(&train), prints[0]);
        // The first chunk, one in the middle, and the last.
        for row in [0, rows / 2, rows - 1] {
            let mut other = train.clone();
            other[[row, 3]] += 0.25;
            prints.push(print(&other));
        }
        prints.push(print(&concatenate![
            Axis(0),
            train.slice(s![rows / 2.., ..]),
            train.slice(s![..rows / 2, ..])
        ]));
        prints.sort();
        prints.dedup();
        assert_eq!(prints.len(), 5, "{}", spec.method());
    }
}

#[test]
fn a_stopped_fit_says_where_its_progress_is_and_leaves_nothing_else() {
    let train = features(LONG, 4, 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let checkpoint = Checkpointing { path: path.clone(), every: Duration::from_secs(3600) };
    let spec = MethodSpec::Kpca(pca());
    let stopped = |checkpoint| {
        // Where the pass stands and two chunks.
        let observer = StopAfter::new(3);
        let options = FitOptions { checkpoint, observer: &observer, ..whole_fit() };
        fit_with(&spec, train.view(), &options).unwrap_err().to_string()
    };
    assert_eq!(stopped(None), "interrupted; no output was written");
    assert_eq!(names_in(folder.path()), [""; 0]);
    let expected = format!(
        "interrupted; no output was written; progress up to row 16384 is in {}, run the same \
         command to go on",
        path.display()
    );
    assert_eq!(stopped(Some(&checkpoint)), expected);
    assert_eq!(names_in(folder.path()), ["checkpoint"]);

    // What is done is not done again.
    let observer = Reports::default();
    let options = FitOptions { checkpoint: Some(&checkpoint), observer: &observer, ..whole_fit() };
    fit_with(&spec, train.view(), &options).unwrap();
    assert_eq!(*observer.0.lock().unwrap(), [16_384, LONG as u64 - 16_384]);
}

#[test]
fn a_checkpoint_notices_other_frequencies() {
    let train = features(300, WIDTH, 1);
    let folder = tempfile::tempdir().unwrap();
    let checkpoint =
        Checkpointing { path: folder.path().join("checkpoint"), every: Duration::ZERO };
    let fit_parts = |scale: f64| {
        let mut parts = fourier_parts(20, WIDTH);
        parts.frequencies *= scale;
        let map = MapParams::Fourier { features: 20, draw: Draw::Iid, parts: Some(parts) };
        let kernel = Kernel::Gaussian { gamma: 1.0 };
        let spec = MethodSpec::Kpca(KpcaParams { map, ..fourier(kernel, 20, Draw::Iid) });
        let options = FitOptions { checkpoint: Some(&checkpoint), ..whole_fit() };
        fit_with(&spec, train.view(), &options).map(|detector| detector.to_bytes())
    };
    let first = fit_parts(1.0).unwrap();
    assert_eq!(fit_parts(1.0).unwrap(), first, "the same frequencies go on");
    let told = fit_parts(2.0).unwrap_err().to_string();
    assert!(told.contains("cannot resume") && told.contains("frequencies"), "{told}");
}

#[test]
fn a_file_is_replaced_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x.offspan", "old");
    let told = create_atomically(&path, |file| {
        use std::io::Write;
        file.write_all(b"half of the ne")?;
        Err(std::io::Error::other("the disk broke"))
    });
    let expected = format!("cannot write {}: the disk broke", path.display());
    assert_eq!(told.unwrap_err().to_string(), expected);
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(names_in(folder.path()), ["x.offspan"]);

    let train = features(40, WIDTH, 1);
    let detector = fit(&MethodSpec::Kpca(pca()), train.view()).unwrap();
    detector.save(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), detector.to_bytes());
    assert_eq!(names_in(folder.path()), ["x.offspan"]);
}

#[test]
#[cfg(unix)]
fn a_folder_that_cannot_be_written_keeps_the_old_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = put(folder.path(), "x", "old");
    let mode = |mode| std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode));
    mode(0o555).unwrap();
    // Root may write anywhere; then there is nothing to see here.
    if std::fs::write(folder.path().join("probe"), "").is_err() {
        let told = Moments::new(2).save(&path).unwrap_err().to_string();
        let expected = format!("cannot create a file for {}: Permission denied", path.display());
        assert!(told.starts_with(&expected), "{told}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }
    mode(0o755).unwrap();
}

#[test]
#[cfg(unix)]
fn a_link_keeps_pointing_where_it_does_and_new_files_have_ordinary_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let target = put(folder.path(), "target", "old");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    Moments::new(2).save(&link).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(Moments::load(&target).unwrap(), Moments::new(2));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
    let ordinary = put(folder.path(), "ordinary", "");
    assert_eq!(mode(&target), mode(&ordinary));
}

#[test]
#[cfg(unix)]
fn a_name_as_long_as_the_system_allows_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x".repeat(255));
    std::fs::write(&path, "").unwrap();
    Moments::new(2).save(&path).unwrap();
    assert_eq!(Moments::load(&path).unwrap(), Moments::new(2));
}

#[test]
fn scores_of_no_rows_are_none_and_of_many_rounds_are_in_order() {
    let train = features(100, WIDTH, 1);
    let detector = fit(&MethodSpec::Kpca(pca()), train.view()).unwrap();
    assert!(detector.score(features(0, WIDTH, 1).view(), None).unwrap().is_empty());
    // More rows than are scored in one round.
    let rows = features(8192 + 300, WIDTH, 2);
    let all = detector.score(rows.view(), None).unwrap();
    let data = Dataset::new("rows", rows.view());
    assert_eq!(detector.score_dataset(&data, &Silent).unwrap(), all.to_vec());
    let joined: Vec<f64> = rows
        .axis_chunks_iter(Axis(0), 256)
        .flat_map(|part| detector.score(part, None).unwrap().to_vec())
        .collect();
    assert_eq!(joined, all.to_vec());
    let shifted = concatenate![Axis(0), rows.slice(s![8000.., ..]), rows.slice(s![..8000, ..])];
    let shifted = detector.score(shifted.view(), None).unwrap();
    assert_eq!(shifted.slice(s![..492]), all.slice(s![8000..]));
}

#[test]
fn landmarks_of_16_bits_take_half_the_room_and_keep_the_scores() {
    let (train, test) = (features(400, WIDTH, 1), features(100, WIDTH, 2));
    let kernel = Kernel::Gaussian { gamma: 0.9 };
    let with = |weights| {
        let params = nystrom(kernel, 200, Residual::Complete);
        let params = KpcaParams { weights, ..params };
        fit_with(&MethodSpec::Kpca(params), train.view(), &FitOptions::default()).unwrap()
    };
    let (full, half) = (with(WeightType::Full), with(WeightType::F16));
    let (full_size, half_size) = (full.to_bytes().len(), half.to_bytes().len());
    // The document and the padding of the header differ by a few bytes.
    let saved = full_size - half_size;
    assert!(saved.abs_diff(2 * 200 * WIDTH) < 100, "{half_size} of {full_size} bytes");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half.offspan");
    half.save(&path).unwrap();
    let loaded = Detector::load(&path).unwrap();
    assert_eq!(loaded.to_bytes(), half.to_bytes());
    assert_eq!(scores(&loaded, test.view()), scores(&half, test.view()));
    let (full, half) = (scores(&full, test.view()), scores(&half, test.view()));
    for (full, half) in full.iter().zip(&half) {
        assert!((half / full - 1.0).abs() < 2e-3, "{half} {full}");
    }
}

#[test]
fn fixed_point_is_close_to_double_precision() {
    let (train, test) = (features(600, WIDTH, 1), features(200, WIDTH, 2));
    let kernel = Kernel::Gaussian { gamma: 20.0 };
    let with = |precision| {
        let params = fourier(kernel, 512, Draw::Structured);
        let components = Components::ExplainedVariance(0.5);
        let params = KpcaParams { precision, components, ..params };
        fit_with(&MethodSpec::Kpca(params), train.view(), &FitOptions::default()).unwrap()
    };
    let (fixed, double) = (with(Precision::F32), with(Precision::F64));
    let has_scales = |detector: &Detector| {
        let bytes = detector.to_bytes();
        bytes.windows(17).any(|name| name == b"projection_scales")
    };
    assert!(has_scales(&fixed) && !has_scales(&double));
    let (fixed, double) = (scores(&fixed, test.view()), scores(&double, test.view()));
    for (fixed, double) in fixed.iter().zip(&double) {
        assert!((fixed / double - 1.0).abs() < 5e-5, "{fixed} {double}");
    }
}
