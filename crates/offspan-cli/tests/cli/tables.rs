//! Parquet, Arrow and `.npz` files wherever features are taken. The files are those of `tools/make_tables.py`.

use std::path::{Path, PathBuf};

use ndarray::Array2;

use crate::util::{Place, npy_f32};

const ROWS: usize = 120;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../offspan-arrow/tests/files").join(name)
}

/// The rows that are in every good file.
fn rows() -> Array2<f32> {
    Array2::from_shape_fn((ROWS, 6), |(i, j)| ((i * 31 + j * 17 + i * j) % 101) as f32 / 8.0 - 5.0)
}

/// A folder with copies of these files, and the rows as `rows.npy`.
fn place_with(names: &[&str]) -> Place {
    let place = Place::new();
    place.write("rows.npy", npy_f32(&rows()));
    for name in names {
        std::fs::copy(file(name), place.path(name)).unwrap();
    }
    place
}

fn copy_folder(name: &str, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(file(name)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Files of single precision that hold the rows.
const FILES: [&str; 11] = [
    "fixed-snappy.parquet",
    "list-zstd.parquet",
    "plain.parquet",
    "numbered.parquet",
    "pandas.parquet",
    "polars.parquet",
    "file.arrow",
    "stream.arrow",
    "lz4.feather",
    "openood.npz",
    "deflated.npz",
];

#[test]
fn the_same_rows_give_the_same_detector_and_scores_whatever_they_come_in() {
    let place = place_with(&FILES);
    copy_folder("spark", &place.path("spark"));
    place.run("fit rows.npy --method pca --components 3 --hold-out 0 -o net").fine();
    let scores = place.run("score net rows.npy").fine();
    for name in FILES.into_iter().chain(["spark"]) {
        place.run(&format!("fit {name} --method pca --components 3 --hold-out 0 -o other")).fine();
        assert_eq!(place.read("other"), place.read("net"), "{name}");
        assert_eq!(place.run(&format!("score net {name}")).fine(), scores, "{name}");
    }
}

#[test]
fn random_access_and_several_passes_give_the_same_detector() {
    let place = place_with(&["list-zstd.parquet", "deflated.npz"]);
    let json = place.run("inspect list-zstd.parquet --json").json();
    assert_eq!((&json["logits"], &json["classes"]), (&3.into(), &3.into()));
    // Landmarks are gathered by their numbers, and distances walk over the rows again.
    for method in ["kpca-nys --landmarks 32", "knn -k 3", "mahalanobis"] {
        place.run(&format!("fit list-zstd.parquet --method {method} --hold-out 0 -o table")).fine();
        place.run(&format!("fit deflated.npz --method {method} --hold-out 0 -o npz")).fine();
        assert_eq!(place.read("table"), place.read("npz"), "{method}");
    }
}

#[test]
fn a_result_tells_which_columns_it_read_and_is_repeated_with_them() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("pack/ood")).unwrap();
    for split in ["train", "test", "ood/far"] {
        std::fs::copy(file("numbered.parquet"), place.path(&format!("pack/{split}.parquet")))
            .unwrap();
    }
    place.run("eval pack --method knn -k 3 --columns f0..f3 --json=result.json").fine();
    let told = place.json("result.json")["provenance"].clone();
    assert_eq!(told["read"], serde_json::json!({ "columns": ["f0..f3"] }));
    assert_eq!(told["rows"]["train"]["width"], 4);
    assert!(place.run("eval --repeat result.json").fine().contains("All figures are identical."));
    // What is said beside counts: other columns are other rows.
    let ran = place.run("eval --repeat result.json --columns f0..f2");
    assert!(ran.code == Some(1) && ran.stdout.contains("NOT REPEATED"), "{ran:?}");
}

#[test]
fn columns_are_chosen_by_name_prefix_range_or_list() {
    let place = place_with(&["numbered.parquet", "list-zstd.parquet"]);
    place.run("fit rows.npy --method pca --components 3 --hold-out 0 -o net").fine();
    for columns in ["f", "f0..f5", "f0,f1,f2,f3,f4,f5", "f0..f2,f3..f5", "features=f"] {
        place
            .run(&format!("fit numbered.parquet --columns {columns} --method pca --components 3 --hold-out 0 -o other"))
            .fine();
        assert_eq!(place.read("other"), place.read("net"), "{columns}");
    }
    let json = place.run("inspect numbered.parquet --columns f0..f1 --json").json();
    assert_eq!(
        (&json["width"], &json["logits"], &json["classes"]),
        (&2.into(), &3.into(), &3.into())
    );
    let line = "inspect numbered.parquet --columns f --columns logits=f0..f3 --json";
    assert_eq!(place.run(line).json()["logits"], 4);
    let json = place.run("inspect list-zstd.parquet --columns logits --json").json();
    assert_eq!((&json["width"], &json["logits"]), (&3.into(), &serde_json::Value::Null));
    let refused = [
        ("numbered.parquet --columns g", "no column `g`; it has `name` (text), `f3` (float32)"),
        ("numbered.parquet --columns f0..f9", "no column of floats `f6`"),
        (
            "numbered.parquet --columns labels=name",
            "column `name` has element type text; expected whole",
        ),
        ("numbered.parquet --columns f --columns f", "expected one choice for features"),
        (
            "rows.npy --columns f",
            "--columns: expected a Parquet or Arrow file to choose from, got rows.npy",
        ),
    ];
    for (words, sentence) in refused {
        let told = place.run(&format!("fit {words} --hold-out 0 -o out")).refused();
        assert!(told.contains(sentence), "{words}: {told}");
    }
}

#[test]
fn logits_and_labels_may_be_tables_of_their_own() {
    let place = place_with(&["list-zstd.parquet", "polars.parquet"]);
    let line = "fit list-zstd.parquet --method energy --hold-out 0 -o whole";
    place.run(line).fine();
    place
        .run("fit rows.npy --logits list-zstd.parquet --method energy --hold-out 0 -o apart")
        .fine();
    assert_eq!(place.read("whole"), place.read("apart"));
    place.run("fit rows.npy --labels polars.parquet --method ssd --hold-out 0 -o labelled").fine();
}

#[test]
fn packs_may_be_of_tables() {
    let place = place_with(&[]);
    std::fs::create_dir_all(place.path("pack/ood/group")).unwrap();
    copy_folder("spark", &place.path("pack/train"));
    copy_folder("spark", &place.path("pack/ood/far.parquet"));
    for (name, to) in [
        ("file.arrow", "test.arrow"),
        ("zstd.feather", "val.feather"),
        ("openood.npz", "ood/a.npz"),
    ] {
        std::fs::copy(file(name), place.path("pack").join(to)).unwrap();
    }
    std::fs::copy(file("plain.parquet"), place.path("pack/ood/group/b.parquet")).unwrap();
    let json = place.run("eval pack --method pca --components 3 --json").json();
    let sets: Vec<&String> = json["results"][0]["sets"].as_object().unwrap().keys().collect();
    assert_eq!(sets, ["a", "far", "group/b"]);
    place.run("fit rows.npy --method pca --components 3 --calibrate pack/test.arrow -o net").fine();
    place.run("fit pack --method pca --components 3 -o of-pack").fine();
    assert_eq!(place.read("net"), place.read("of-pack"));
    let scored = place.run("score net pack/ood").fine();
    assert_eq!(scored.lines().count(), 1 + 3 * ROWS);
    assert!(scored.starts_with("file,row,score"), "sets side by side are several files");
}

#[test]
fn bad_tables_are_refused_in_one_sentence() {
    let place = Place::new();
    place.write("cut.parquet", &std::fs::read(file("plain.parquet")).unwrap()[..3000]);
    place.write("empty.parquet", "");
    place.write("text.arrow", "hello, world");
    let npz = std::fs::read(file("deflated.npz")).unwrap();
    place.write("cut.npz", &npz[..npz.len() - 30]);
    let mut altered = npz.clone();
    altered[80] ^= 0x55;
    place.write("altered.npz", altered);
    for entry in std::fs::read_dir(file("bad")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, place.path(path.file_name().unwrap().to_str().unwrap())).unwrap();
    }
    std::fs::create_dir(place.path("mixed")).unwrap();
    for (number, name) in ["plain.parquet", "polars.parquet"].into_iter().enumerate() {
        let to = place.path(&format!("mixed/part-{number}.parquet"));
        std::fs::copy(file(name), to).unwrap();
    }
    let cases = [
        ("cut.parquet", "cut.parquet: not a Parquet file: "),
        ("empty.parquet", "empty.parquet: not a Parquet or Arrow file: it is empty"),
        ("text.arrow", "text.arrow: not a Parquet or Arrow file: it starts with"),
        (
            "nan.parquet",
            "nan.parquet: not a table of numbers: column `features`, row 3: number 2 is NaN",
        ),
        ("no-rows.parquet", "no-rows.parquet: expected at least 1 rows, got 0"),
        (
            "null-row.parquet",
            "null-row.parquet: not a table of numbers: column `features`, row 2: it is null",
        ),
        ("integers.parquet", "column `features` has element type list of int64; expected float16"),
        ("gap.parquet", "no column of floats `f2`, between `f0` and `f3` (--columns chooses them)"),
        ("encrypted.parquet", "it is encrypted"),
        ("mixed", "part-1.parquet: not a part of one dataset: it has no column for mixed `logits`"),
        ("nothing.parquet", "cannot open nothing.parquet"),
        ("cut.npz", "cut.npz: not a .npz file: its directory is not where it should be"),
        ("altered.npz", "altered.npz"),
    ];
    for (name, sentence) in cases {
        let told = place
            .run(&format!("fit {name} --method pca --components 3 --hold-out 0 -o out"))
            .refused();
        assert!(told.contains(sentence), "{name}: {told}");
        assert!(!place.has("out"));
    }
}

#[cfg(unix)]
#[test]
fn no_copy_is_left_in_the_temporary_folder() {
    let place = place_with(&["list-zstd.parquet"]);
    std::fs::create_dir(place.path("tmp")).unwrap();
    let run = |line: &str, folder: &str| {
        let mut command = place.command(line);
        command.env("TMPDIR", place.path(folder));
        crate::util::Ran::new(line, command.output().unwrap())
    };
    run("fit list-zstd.parquet --method pca --components 3 --hold-out 0 -o net", "tmp").fine();
    std::fs::copy(file("bad/nan.parquet"), place.path("nan.parquet")).unwrap();
    run("fit nan.parquet --method pca --components 3 --hold-out 0 -o net2", "tmp").refused();
    assert_eq!(std::fs::read_dir(place.path("tmp")).unwrap().count(), 0);
    let told =
        run("fit list-zstd.parquet --method pca --components 3 --hold-out 0 -o net3", "missing")
            .refused();
    assert!(told.contains("cannot write a temporary copy in"), "{told}");
}
