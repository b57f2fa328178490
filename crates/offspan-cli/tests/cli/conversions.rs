//! Features of other programs become packs. The files are those of `tools/make_conversions.py`.

use std::path::{Path, PathBuf};

use ndarray::{Array2, s};
use offspan::io::open_dataset;

use crate::util::{Place, matrix, npy_f32, read_scores};

const ROWS: usize = 40;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conversions").join(name)
}

/// The rows that the files hold.
fn value(rows: usize, width: usize, shift: f32) -> Array2<f32> {
    Array2::from_shape_fn((rows, width), |(i, j)| {
        ((i * 31 + j * 17 + i * j) % 101) as f32 / 8.0 - 5.0 + shift
    })
}

/// A line with `FILES` for the folder of the files.
fn line(text: &str) -> String {
    text.replace("FILES", file("").to_str().unwrap().trim_end_matches('/'))
}

fn labels(path: &Path) -> Option<Vec<i64>> {
    let dataset = open_dataset(path, None).unwrap();
    dataset.labels().map(|labels| labels.read(0..labels.len()).unwrap())
}

fn classes(rows: usize) -> Vec<i64> {
    (0..rows as i64).map(|row| row % 3).collect()
}

#[test]
fn tensors_of_pytorch_become_splits_whatever_they_are_kept_in() {
    for name in ["buffer.pt", "single.pth", "columns.pt"] {
        let place = Place::new();
        place.run(&line(&format!("convert --train FILES/{name} -o pack"))).fine();
        let path = place.path("pack/train.safetensors");
        assert_eq!(matrix(&path, "features"), value(ROWS, 6, 0.0), "{name}");
        if name == "buffer.pt" {
            assert_eq!(matrix(&path, "logits"), value(ROWS, 3, 0.0));
            assert_eq!(labels(&path), Some(classes(ROWS)));
        }
    }
    let refused = |name: &str| {
        Place::new().run(&line(&format!("convert --train FILES/{name} -o pack"))).refused()
    };
    assert!(
        refused("old.pt").contains("files from before PyTorch 1.6 must be loaded and saved again")
    );
    assert!(refused("scattered.pt").contains("save tensor.contiguous()"));
}

#[test]
fn rows_with_negative_labels_are_out_of_distribution_when_asked() {
    let place = Place::new();
    let told =
        place.run(&line("convert --train FILES/buffer.pt --test FILES/tuple.pt -o pack")).refused();
    assert!(told.contains("10 negative ones") && told.contains("--unknown NAME"), "{told}");
    assert!(place.files().is_empty(), "nothing was begun");
    place
        .run(&line("convert --train FILES/buffer.pt --test FILES/tuple.pt --unknown new -o pack"))
        .fine();
    let all = value(ROWS, 6, 0.0);
    let known: Vec<usize> = (0..ROWS).filter(|row| row % 4 != 3).collect();
    let unknown: Vec<usize> = (0..ROWS).filter(|row| row % 4 == 3).collect();
    let test = place.path("pack/test.safetensors");
    assert_eq!(matrix(&test, "features"), all.select(ndarray::Axis(0), &known));
    assert_eq!(labels(&test).unwrap(), known.iter().map(|row| *row as i64 % 3).collect::<Vec<_>>());
    let new = place.path("pack/ood/new.safetensors");
    assert_eq!(matrix(&new, "features"), all.select(ndarray::Axis(0), &unknown));
    assert_eq!(labels(&new), None);
    place.run("eval pack --method pca,knn -k 3").fine();
    let told = place.run(&line("convert --train FILES/buffer.pt --unknown new -o other")).refused();
    assert!(told.contains("rows with negative labels to go to it, got none for new"), "{told}");
}

#[test]
fn files_of_openood_become_a_pack_and_a_folder_of_scores() {
    let place = Place::new();
    let flags = "--train FILES/id_train.npz --test FILES/id_train.npz --ood near/far=FILES/far.npz --type f16";
    place.run(&line(&format!("convert {flags} -o pack"))).fine();
    assert_eq!(matrix(&place.path("pack/train.safetensors"), "features"), value(ROWS, 6, 0.0));
    let far = place.path("pack/ood/near/far.safetensors");
    assert_eq!((matrix(&far, "features"), labels(&far)), (value(10, 6, 3.0), None));
    let told = place
        .run(&line("convert --scores --test FILES/scores-id.npz --ood far=FILES/scores-far.npz -o scores --json"))
        .json();
    assert_eq!(told["sets"], serde_json::json!([["test", 40], ["far", 10]]));
    let test = read_scores(&place.read("scores/test.npy"));
    let expected: Vec<f64> =
        value(ROWS, 6, 0.0).slice(s![.., 0]).iter().map(|x| f64::from(*x)).collect();
    assert_eq!(test, expected);
    let told = place.run(&line("convert --scores --test FILES/id_train.npz -o other")).refused();
    assert!(told.contains("not a file of scores"), "{told}");
}

#[cfg(feature = "parquet")]
#[test]
fn hugging_face_datasets_become_packs_by_the_names_of_their_splits() {
    let place = Place::new();
    let columns = "--columns embedding --columns labels=label";
    let told = place.run(&line(&format!("convert FILES/saved {columns} -o pack"))).fine();
    assert!(!told.contains("left out"), "{told}");
    for (split, rows, shift) in
        [("train", 40, 0.0), ("test", 40, 0.5), ("calibrate", 20, 0.25), ("ood/oos", 10, 3.0)]
    {
        let path = place.path(&format!("pack/{split}.safetensors"));
        assert_eq!(matrix(&path, "features"), value(rows, 6, shift), "{split}");
        assert_eq!(labels(&path), Some(classes(rows)), "{split}");
    }
    place.run("eval pack --method mahalanobis").fine();
    // Named splits only.
    let flags = "--train train --test validation --ood out=oos";
    let told = place.run(&line(&format!("convert FILES/saved {columns} {flags} -o named"))).fine();
    assert!(told.contains("left out: test"), "{told}");
    assert_eq!(matrix(&place.path("named/test.safetensors"), "features"), value(20, 6, 0.25));
    assert!(place.has("named/ood/out.safetensors") && !place.has("named/calibrate.safetensors"));
    // As the hub keeps them, in several files.
    place.run(&line(&format!("convert FILES/hub {columns} -o hub"))).fine();
    assert_eq!(matrix(&place.path("hub/train.safetensors"), "features"), value(40, 6, 0.0));
    assert_eq!(matrix(&place.path("hub/test.safetensors"), "features"), value(40, 6, 0.5));
}

#[test]
fn caches_of_the_authors_and_packs_become_packs() {
    let place = Place::new();
    std::fs::create_dir(place.path("cache")).unwrap();
    let doubles = |rows: &Array2<f32>| -> Vec<u8> {
        rows.iter().flat_map(|x| f64::from(*x).to_le_bytes()).collect()
    };
    place.write("cache/train_in.mmap", doubles(&value(ROWS, 6, 0.0)));
    place.write("cache/val_in.mmap", doubles(&value(20, 6, 0.5)));
    place.write("cache/SUN_out.mmap", doubles(&value(10, 6, 3.0)));
    assert!(place.run("convert cache -o pack").refused().contains("--raw TYPE:WIDTH"));
    place.run("convert cache --raw f64:6 --type f64 -o pack").fine();
    for method in ["pca", "knn -k 3"] {
        let json = |line: String| {
            let mut found = place.run(&line).json();
            found["results"][0]["sets"].take()
        };
        let before = json(format!("eval cache --raw f64:6 --method {method} --json"));
        assert_eq!(before, json(format!("eval pack --method {method} --json")), "{method}");
    }
    // A pack with everything stays what it is.
    place.run("convert PACK -o copy").fine();
    let eval = |pack: &str| {
        let mut found = place
            .run(&format!("eval {pack} --method vim,mahalanobis,kpca-nys --landmarks 64 --json"))
            .json();
        found["results"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .map(|result| result["sets"].take())
            .collect::<Vec<_>>()
    };
    assert_eq!(eval("PACK"), eval("copy"));
}

#[test]
fn class_vectors_become_a_last_layer_of_cosines() {
    let place = Place::new();
    let (rows, texts) = (value(ROWS, 6, 0.0), value(3, 6, 1.0));
    place.write("rows.npy", npy_f32(&rows));
    place.write("texts.npy", npy_f32(&texts));
    let flags = "--train rows.npy --test rows.npy --ood a=rows.npy --class-vectors texts.npy";
    place.run(&format!("convert {flags} --temperature 0.5 --type f64 -o pack")).fine();
    place.run("fit pack --method msp --hold-out 0 -o net").fine();
    place.run("score net pack/test.safetensors -o scores.npy").fine();
    let unit = |rows: &Array2<f32>| {
        let mut rows = rows.mapv(f64::from);
        for mut row in rows.rows_mut() {
            let length = row.dot(&row).sqrt();
            row /= length;
        }
        rows
    };
    let cosines = unit(&rows).dot(&unit(&texts).t()) / 0.5;
    let mcm = cosines.rows().into_iter().map(|row| {
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        row.iter().map(|x| x.exp() / sum).fold(0.0, f64::max)
    });
    for (ours, formula) in read_scores(&place.read("scores.npy")).into_iter().zip(mcm) {
        assert!((ours - formula).abs() < 1e-6, "{ours} {formula}");
    }
    let refused =
        |flags: &str| place.run(&format!("convert --train rows.npy {flags} -o other")).refused();
    assert!(refused("--class-vectors texts.npy --temperature 0").contains("a number above 0"));
    place.write("narrow.npy", npy_f32(&value(3, 5, 1.0)));
    assert!(refused("--class-vectors narrow.npy").contains("the width of the features"));
}

#[test]
fn nothing_is_replaced_and_nothing_half_written() {
    let place = Place::new();
    place.write("rows.npy", npy_f32(&value(ROWS, 6, 0.0)));
    place.write("wide.npy", npy_f32(&value(ROWS, 7, 0.0)));
    place.write("large.npy", npy_f32(&(value(ROWS, 6, 0.0) * 1e5)));
    let refused = |line: &str| place.run(line).refused();
    assert!(refused("convert -o pack").contains("training rows"));
    assert!(
        refused("convert --train rows.npy --ood a=wide.npy -o pack")
            .contains("6 columns, as in train")
    );
    assert!(
        refused("convert --train rows.npy --ood ../a=rows.npy -o pack")
            .contains("NAME or GROUP/NAME")
    );
    assert!(
        refused("convert --train rows.npy --ood =rows.npy -o pack").contains("expected NAME=FILE")
    );
    assert!(refused("convert --train large.npy --type f16 -o pack").contains("too large for f16"));
    let twice = "convert --train rows.npy --ood a=rows.npy --ood a=rows.npy -o pack";
    assert!(refused(twice).contains("a twice"));
    assert!(!place.has("pack") && place.partials().is_empty());
    place.run("convert --train rows.npy -o pack").fine();
    let before = place.read("pack/train.safetensors");
    assert!(refused("convert --train wide.npy -o pack").contains("there already and not empty"));
    assert!(place.read("pack/train.safetensors") == before);
    let opened = open_dataset(place.path("pack/train.safetensors"), None).unwrap();
    assert_eq!(opened.features().width(), 6);
}

#[test]
fn a_set_does_not_take_the_place_of_a_shifted_one() {
    let place = Place::new();
    place.small_pack("pack", 100, 40);
    place.write("pack/pack.toml", "shifted = [\"digits\"]\n");
    let line = "convert pack --ood digits=pack/ood/textures.safetensors -o new";
    let message = place.run(line).refused();
    assert!(message.contains("digits twice"), "{message}");
    assert!(!place.has("new"));
}
