//! Rows, labels, packs and last layers come out of files as they went in.

use std::io::Cursor;
use std::path::Path;
use std::sync::Mutex;

use crate::common::*;
use crate::{TYPES, assert_reads, encode, exact_rows};
use offspan::io::{
    Dataset, ElementType, Head, NpyWriter, Pack, RawLayout, open_dataset, open_head, open_labels,
    open_matrix, read_index_list, read_rows, write_npy_f64,
};
use offspan::{Detector, FitOptions, MethodOptions, MethodSpec, Observer};
use safetensors::Dtype;

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
        let matrix = open_matrix(put(folder.path(), "x.npy", bytes), "features", None).unwrap();
        assert_eq!(matrix.element_type(), element);
        assert_reads(&matrix, &rows, &element.to_string());
    }
    assert!(NpyWriter::new(Cursor::new(Vec::new()), ElementType::Bf16, 5).is_err());
}

#[test]
fn rows_of_a_file_that_is_cut_off_meanwhile_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let rows = exact_rows(5000, 4);
    let path = put(folder.path(), "x.npy", npy(1, "<f8", false, "(5000, 4)", &le_f64(&rows)));
    let matrix = open_matrix(&path, "features", None).unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(size / 2).unwrap();
    assert!(read_rows::<f64>(&matrix, 0..100).is_ok());
    let message = read_rows::<f64>(&matrix, 4900..5000).unwrap_err().to_string();
    assert!(message.contains("cannot read") && message.contains("x.npy"), "{message}");
    let data = Dataset::new("x", matrix);
    let options = FitOptions::default();
    assert!(Detector::fit(&MethodSpec::Kpca(pca()), &data, None, &options).is_err());
}

#[test]
fn labels_of_a_file_that_is_cut_off_meanwhile_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..5000i64).flat_map(i64::to_le_bytes).collect();
    let path = put(folder.path(), "y.npy", npy(1, "<i8", false, "(5000,)", &bytes));
    let labels = open_labels(&path).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(20_000).unwrap();
    assert_eq!(labels.read(7..9).unwrap(), [7, 8]);
    let message = labels.read(4990..5000).unwrap_err().to_string();
    assert!(message.contains("cannot read") && message.contains("y.npy"), "{message}");
}

#[test]
fn rows_of_many_pieces_are_converted_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let rows = exact_rows(9000, 7);
    for (element, _) in TYPES {
        let path = put(folder.path(), "x.bin", encode(element, &rows));
        let layout = RawLayout { element, width: 7 };
        let matrix = open_matrix(&path, "features", Some(layout)).unwrap();
        assert_reads(&matrix, &rows, &element.to_string());
        let narrow = read_rows::<f32>(&matrix, 0..9000).unwrap();
        assert_eq!(narrow.mapv(f64::from), rows, "{element}");
    }
}

#[test]
fn a_last_layer_may_have_its_columns_together() {
    let rows = features(60, WIDTH, 1);
    let by_rows = head(WIDTH);
    let weight = by_rows.weight().t().as_standard_layout().into_owned().reversed_axes();
    assert!(!weight.is_standard_layout());
    let by_columns = Head::new(weight, by_rows.bias().clone()).unwrap();
    for spec in ["dml", "vim", "energy", "react", "auto"] {
        let spec = MethodOptions::default().method(spec).unwrap();
        let scores = [&by_rows, &by_columns].map(|head| {
            let data = Dataset::new("train", rows.view());
            let options = FitOptions { hold_out: Some(0.0), ..FitOptions::default() };
            let detector = Detector::fit(&spec, &data, Some(head), &options).unwrap();
            detector.score(rows.view(), None).unwrap()
        });
        assert_eq!(scores[0], scores[1], "{}", spec.method());
    }
}

#[test]
fn auto_after_a_step_uses_the_last_layer_and_tells_where_it_cannot() {
    let rows = features(200, WIDTH, 1);
    let (logits, head) = (logits(rows.view()), head(WIDTH));
    let spec = MethodOptions::default().method("auto+react").unwrap();
    let fit = |with_head: bool| {
        let notes = Notes::default();
        let data = Dataset::new("train", rows.view()).with_logits(logits.view()).unwrap();
        let options = FitOptions { observer: &notes, ..FitOptions::default() };
        let detector = Detector::fit(&spec, &data, with_head.then_some(&head), &options).unwrap();
        (detector.found().contains_key("clip reach"), notes.0.into_inner().unwrap().join("\n"))
    };
    let (cuts, notes) = fit(true);
    assert!(cuts && !notes.contains("not used"), "{notes}");
    let (cuts, notes) = fit(false);
    assert!(
        !cuts && notes.contains("the given logits belong to activations as they were"),
        "{notes}"
    );
}

/// Keeps what it is told.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Observer for Notes {
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
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
    assert_reads(open_dataset(&path, None).unwrap().features(), &rows, "only table");

    // A tensor called `features` wins over any other.
    let other = (Dtype::F64, vec![1, 1], vec![0; 8]);
    let parts = Tensors::from([("a".to_owned(), other), ("features".to_owned(), table)]);
    let path = put(folder.path(), "y.safetensors", tensors(&parts, None));
    assert_reads(open_dataset(&path, None).unwrap().features(), &rows, "features");
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
        assert_reads(dataset.features(), &rows, &layout.to_string());
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
        let data = open_dataset(&path, None).unwrap();
        let labels = data.labels().unwrap();
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
    let block = head.block().unwrap();
    let parts = Tensors::from([
        ("weight".to_owned(), (Dtype::F64, vec![4, 3], le_f64(head.weight()))),
        ("bias".to_owned(), (Dtype::F64, vec![4], le_f64(head.bias()))),
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
    assert_reads(pack.train.features(), &features(30, 3, 1).mapv(f64::from), "train");
    assert_eq!(pack.train.logits().unwrap().width(), 4);
    assert_eq!(pack.train.labels().unwrap().read(28..30).unwrap(), [28, 29]);
    assert_reads(pack.test.unwrap().features(), &features(8, 3, 2).mapv(f64::from), "test");
    let sets: Vec<(&str, usize)> = pack.ood.iter().map(|set| (set.name(), set.rows())).collect();
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
    let weight =
        put(folder.path(), "w.npy", npy(1, "<f8", false, "(4, 3)", &le_f64(head.weight())));
    let bias = put(folder.path(), "b.npy", npy(1, "<f8", false, "(4,)", &le_f64(head.bias())));
    let both = format!("{},{}", weight.display(), bias.display());
    let from_npy = open_head(Path::new(&both)).unwrap();
    assert_eq!((from_npy.weight(), from_npy.bias()), (head.weight(), head.bias()));
    assert_eq!(open_head(folder.path().join("head.safetensors")).unwrap(), head);
}

#[test]
fn the_rust_page_states_the_version_of_ndarray_that_is_exported() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let manifest = read("Cargo.toml");
    let (_, rest) = manifest.split_once("\nndarray = { version = \"").unwrap();
    let (version, _) = rest.split_once('"').unwrap();
    assert!(read("docs/rust.md").contains(&format!("**ndarray {version}**")), "{version}");
    assert!(read("README.md").contains("(docs/rust.md)"));
    use offspan::ndarray::Array1 as Exported;
    assert_eq!(Exported::<f32>::zeros(3).len(), 3);
}
