//! Logits that do not belong to their features are noticed where the last layer is known.

use ndarray::{Array2, Axis};
use offspan::io::read_vector;

use crate::util::{Place, demo_pack, matrix, npy_f32};

#[test]
fn a_fit_with_logits_of_other_rows_says_so_with_figures() {
    let place = Place::new();
    place.npy_head();
    let features = place.npy_of("rows.npy", "train.safetensors", "features");
    let weight = matrix(&demo_pack().join("head.safetensors"), "weight");
    let bias = read_vector(demo_pack().join("head.safetensors"), "bias").unwrap();
    let right = features.dot(&weight.t()) + bias.mapv(|x| x as f32);
    let order: Vec<usize> = (0..right.nrows()).rev().collect();
    place.write("right.npy", npy_f32(&right));
    place.write("wrong.npy", npy_f32(&right.select(Axis(0), &order)));
    let fit = |logits: &str| {
        place.run(&format!(
            "fit rows.npy --head weight.npy,bias.npy --logits {logits} -m energy -o net"
        ))
    };
    let ran = fit("wrong.npy");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("note: rows.npy: its logits do not belong to its features"),
        "{ran:?}"
    );
    assert!(
        ran.stderr.contains("in 64 rows") && ran.stderr.contains("root mean square"),
        "{ran:?}"
    );
    fit("right.npy").fine();
}

#[test]
fn every_set_of_an_evaluation_is_looked_at() {
    let place = Place::new();
    place.small_pack("pack", 200, 40);
    let path = place.path("pack").join("ood/digits.safetensors");
    let features = matrix(&path, "features");
    let logits =
        Array2::from_shape_fn((features.nrows(), 10), |(i, j)| ((i * 7 + j * 3) % 11) as f32);
    let arrays: Vec<(&str, &[usize], Vec<f32>)> = vec![
        ("features", features.shape(), features.iter().copied().collect()),
        ("logits", logits.shape(), logits.iter().copied().collect()),
    ];
    crate::util::write_safetensors(&path, &arrays);
    let ran = place.run("eval pack --method pca");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stderr.matches("do not belong").count(), 1, "{ran:?}");
    assert!(ran.stderr.contains("digits: its logits do not belong"), "{ran:?}");
}
