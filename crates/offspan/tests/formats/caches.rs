//! The feature caches of the paper's authors are packs: the same rows give the same scores.

use std::path::Path;

use ndarray::Array2;
use offspan::io::{Dataset, ElementType, Pack, RawLayout};
use offspan::{Detector, Fusion, Kernel, KpcaParams, MapParams, MethodSpec, Residual, Sampling};
use safetensors::Dtype;

use crate::assert_reads;
use crate::common::*;

const ROWS: [(&str, usize, u64); 5] = [
    ("train_in", 90, 1),
    ("val_in", 20, 2),
    ("SUN_out", 12, 3),
    ("iSUN_out", 9, 4),
    ("v1.5_out", 7, 5),
];
const LAYOUT: RawLayout = RawLayout { element: ElementType::F64, width: WIDTH };

/// Numbers that need all digits of an f64.
fn rows_of(rows: usize, seed: u64) -> Array2<f64> {
    features(rows, WIDTH, seed).mapv(|x| f64::from(x) + 1e-9 / 3.0)
}

/// A folder as the authors' ImageNet script leaves it: rows of float64 without header.
fn headerless(folder: &Path) {
    for (stem, rows, seed) in ROWS {
        put(folder, &format!("{stem}.mmap"), le_f64(&rows_of(rows, seed)));
    }
}

/// A folder as their CIFAR-10 script leaves it: `np.save(path, features.T)`, which NumPy writes in
/// Fortran order, because the transpose of rows lies in memory so.
fn transposed(folder: &Path) {
    for (stem, rows, seed) in ROWS {
        let shape = format!("({WIDTH}, {rows})");
        let bytes = npy(1, "<f8", true, &shape, &le_f64(&rows_of(rows, seed)));
        put(folder, &format!("{stem}.npy"), bytes);
    }
}

/// The same rows as an ordinary pack.
fn ordinary(folder: &Path) {
    for (stem, rows, seed) in ROWS {
        let name = match stem.strip_suffix("_out") {
            Some(set) => format!("ood/{set}.safetensors"),
            None if stem == "train_in" => "train.safetensors".to_owned(),
            None => "test.safetensors".to_owned(),
        };
        let table = (Dtype::F64, vec![rows, WIDTH], le_f64(&rows_of(rows, seed)));
        put(folder, &name, tensors(&Tensors::from([("features".to_owned(), table)]), None));
    }
}

fn put_head(folder: &Path) {
    let head = head(WIDTH);
    let (weight, bias) = (head.weight(), head.bias());
    let parts = Tensors::from([
        ("weight".to_owned(), (Dtype::F64, weight.shape().to_vec(), le_f64(weight))),
        ("bias".to_owned(), (Dtype::F64, vec![bias.len()], le_f64(bias))),
    ]);
    put(folder, "head.safetensors", tensors(&parts, None));
}

fn splits(pack: &Pack) -> impl Iterator<Item = &Dataset<'static>> {
    std::iter::once(&pack.train).chain(&pack.test).chain(&pack.ood)
}

/// The scores of every split, by methods that read the rows once, twice, and with the head.
fn all_scores(pack: &Pack) -> Vec<(String, Vec<u64>)> {
    let gaussian = Kernel::Gaussian { gamma: 0.9 };
    let low_energy = MapParams::Nystrom {
        landmarks: 20,
        sampling: Sampling::LowEnergy,
        floor: offspan::map::EigenFloor::default(),
    };
    let nystrom = KpcaParams { map: low_energy, ..nystrom(gaussian, 20, Residual::Plain) };
    let fused = KpcaParams { fusion: Some(Fusion::EnergyRatio), ..nystrom.clone() };
    let mut all = Vec::new();
    for spec in [pca(), nystrom, fused].map(MethodSpec::Kpca).into_iter().chain([knn(3)]) {
        let detector = Detector::fit(&spec, &pack.train, pack.head.as_ref(), &whole_fit()).unwrap();
        for split in splits(pack) {
            let scores = detector.score_dataset(split, &offspan::Silent).unwrap();
            all.push((split.name().to_owned(), bits(&scores)));
        }
    }
    all
}

#[test]
fn both_kinds_of_cache_score_as_the_same_rows_in_a_pack() {
    let folder = tempfile::tempdir().unwrap();
    let [raw, npy, usual] = ["raw", "npy", "usual"].map(|name| folder.path().join(name));
    headerless(&raw);
    transposed(&npy);
    ordinary(&usual);
    for folder in [&raw, &npy, &usual] {
        put_head(folder);
    }
    let expected = all_scores(&Pack::open(&usual).unwrap());
    assert_eq!(expected.len(), 4 * ROWS.len());
    assert_eq!(
        all_scores(&Pack::open_with(&raw, Some(LAYOUT)).unwrap()),
        expected,
        "without header"
    );
    assert_eq!(all_scores(&Pack::open(&npy).unwrap()), expected, "transposed");
}

#[test]
fn a_cache_gives_its_splits_by_their_names_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("ce");
    for (write, layout) in [(headerless as fn(&Path), Some(LAYOUT)), (transposed, None)] {
        write(&folder);
        put(&folder, "_out.txt", "no set, like everything that is called otherwise");
        put(&folder, "scores.npy", []);
        let pack = Pack::open_with(&folder, layout).unwrap();
        assert_eq!(pack.name, "ce");
        assert_eq!(pack.head, None);
        let names: Vec<&str> = splits(&pack).map(|split| split.name()).collect();
        assert_eq!(names, ["train", "test", "SUN", "iSUN", "v1.5"]);
        for (split, (stem, rows, seed)) in splits(&pack).zip(ROWS) {
            let mut read = Array2::zeros((rows, WIDTH));
            assert_eq!((split.rows(), split.width()), read.dim(), "{stem}");
            split.features().read_f64(0, read.view_mut()).unwrap();
            assert_eq!(read, rows_of(rows, seed), "{stem}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn a_transposed_cache_may_lie_in_either_order_and_in_other_types() {
    let folder = tempfile::tempdir().unwrap();
    let rows = crate::exact_rows(23, 5);
    for (element, descr) in
        [(ElementType::F16, "<f2"), (ElementType::F32, "<f4"), (ElementType::F64, "<f8")]
    {
        for fortran in [false, true] {
            let data = if fortran {
                crate::encode(element, &rows)
            } else {
                crate::encode(element, rows.t().iter())
            };
            put(folder.path(), "train_in.npy", npy(1, descr, fortran, "(5, 23)", &data));
            let pack = Pack::open(folder.path()).unwrap();
            assert_reads(pack.train.features(), &rows, &format!("{descr} fortran {fortran}"));
            assert!(pack.test.is_none() && pack.ood.is_empty());
        }
    }
}

#[test]
fn class_labels_beside_a_cache_belong_to_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    headerless(folder);
    let labels = |rows: u8| npy(1, "|u1", false, &format!("({rows},)"), &Vec::from_iter(0..rows));
    put(folder, "train_labels.npy", labels(90));
    let pack = Pack::open_with(folder, Some(LAYOUT)).unwrap();
    assert_eq!(pack.train.labels().unwrap().read(88..90).unwrap(), [88, 89]);
    assert!(pack.test.unwrap().labels().is_none());
    put(folder, "val_labels.npy", labels(20));
    let pack = Pack::open_with(folder, Some(LAYOUT)).unwrap();
    assert_eq!(pack.test.unwrap().labels().unwrap().len(), 20);
    put(folder, "val_labels.npy", labels(19));
    assert_told(
        folder,
        Some(LAYOUT),
        "labels: expected shape 20 rows, as many as the features of test, got 19 rows",
    );
}

/// Fails unless opening the folder gives exactly this sentence, `{dir}` standing for the folder.
fn assert_told(folder: &Path, layout: Option<RawLayout>, sentence: &str) {
    let error = Pack::open_with(folder, layout).err().expect(sentence).to_string();
    assert_eq!(error, sentence.replace("{dir}", &folder.display().to_string()));
}

#[test]
fn rows_without_header_need_a_layout_that_the_message_shows() {
    let folder = tempfile::tempdir().unwrap();
    headerless(folder.path());
    assert_told(
        folder.path(),
        None,
        "{dir}/train_in.mmap needs its type and width: it has no header that tells type and width; \
         the authors' caches are f64:2048 (ResNet50), f64:1280 (MobileNetV2) or f64:768 (ViT-B/16)",
    );
}

#[test]
fn a_layout_needs_rows_without_header() {
    let folder = tempfile::tempdir().unwrap();
    for (name, write) in [
        ("empty", (|folder| std::fs::create_dir_all(folder).unwrap()) as fn(&Path)),
        ("pack", ordinary),
        ("npy", transposed),
    ] {
        let folder = folder.path().join(name);
        write(&folder);
        assert_told(
            &folder,
            Some(LAYOUT),
            "raw: expected a folder with files without header (train_in.mmap, val_in.mmap, \
             NAME_out.mmap), got {dir}, which has none",
        );
    }
}

#[test]
fn half_a_row_at_the_end_of_any_cached_file_is_told() {
    for (stem, rows, seed) in ROWS {
        let folder = tempfile::tempdir().unwrap();
        headerless(folder.path());
        let bytes = le_f64(&rows_of(rows, seed));
        put(folder.path(), &format!("{stem}.mmap"), &bytes[..bytes.len() - 8]);
        let sentence = format!(
            "{{dir}}/{stem}.mmap: not a whole number of rows: {} bytes is no multiple of 88, the \
             size of a row of 11 f64 numbers",
            bytes.len() - 8
        );
        assert_told(folder.path(), Some(LAYOUT), &sentence);
    }
}

#[test]
fn a_cache_of_two_kinds_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    headerless(folder.path());
    put(folder.path(), "SUN_out.npy", npy(1, "<f8", true, "(11, 1)", &[0; 88]));
    let sentence = "{dir}: not a folder of cached features: it has both SUN_out.mmap and \
                    SUN_out.npy; expected either .mmap or .npy throughout";
    assert_told(folder.path(), Some(LAYOUT), sentence);
    assert_told(folder.path(), None, sentence);
}

#[test]
fn a_cache_without_training_rows_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    headerless(folder.path());
    std::fs::remove_file(folder.path().join("train_in.mmap")).unwrap();
    assert_told(
        folder.path(),
        Some(LAYOUT),
        "{dir}: not a folder of cached features: it has SUN_out.mmap but no train_in.mmap",
    );
}

#[test]
fn a_pack_that_is_a_cache_as_well_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    ordinary(folder.path());
    headerless(folder.path());
    let sentence = "{dir}: not a pack folder: it has both train.safetensors and train_in.mmap; \
                    expected one of them";
    assert_told(folder.path(), Some(LAYOUT), sentence);
    assert_told(folder.path(), None, sentence);
    // Other files are the user's own business.
    std::fs::remove_file(folder.path().join("train_in.mmap")).unwrap();
    assert_eq!(Pack::open(folder.path()).unwrap().ood.len(), 3);
}

#[test]
fn rows_that_are_not_transposed_are_told() {
    let folder = tempfile::tempdir().unwrap();
    for (stem, rows) in [("train_in", 9), ("val_in", 4), ("SUN_out", 9)] {
        put(folder.path(), &format!("{stem}.npy"), npy_f32(features(rows, 3, 1).view()));
    }
    assert_told(
        folder.path(),
        None,
        "{dir}/train_in.npy: expected shape [columns, rows], as the authors' scripts save it, got \
         [9, 3], as many columns as in every other file, which looks like [rows, columns]: call \
         such files train.npy, test.npy and ood/NAME.npy",
    );
}

#[test]
fn cached_sets_and_heads_of_another_width_are_told() {
    let folder = tempfile::tempdir().unwrap();
    transposed(folder.path());
    put(folder.path(), "SUN_out.npy", npy(1, "<f8", true, "(10, 1)", &[0; 80]));
    let name = folder.path().canonicalize().unwrap();
    let name = name.file_name().unwrap().to_string_lossy();
    assert_told(
        folder.path(),
        None,
        &format!("SUN of pack {name}: expected shape 11 columns, as in train, got 10 columns"),
    );
    let other = tempfile::tempdir().unwrap();
    put(other.path(), "train_in.mmap", [0; 80]);
    put_head(other.path());
    assert_told(
        other.path(),
        Some(RawLayout { element: ElementType::F64, width: 5 }),
        "the head's weight: expected shape [classes, 5], the width of the features, got [4, 11]",
    );
}
