//! Checkpoints of other fits, and damaged ones.

use std::path::Path;
use std::time::Duration;

use ndarray::Array2;
use offspan::{Checkpointing, ExactForm, FitOptions, KpcaParams, MethodSpec};
use serde_json::{Value, json};

use crate::common::{
    Tensors, WIDTH, alter, exact, f32_tensor, features, fit_with, knn, pca, put, whole_fit,
};
use crate::{Case, GAUSSIAN, Told, check, detector, nys, told};

/// A fit with a checkpoint in `folder`.
fn with_checkpoint(folder: &Path, params: KpcaParams, rows: &Array2<f32>) -> Told {
    let checkpoint = Checkpointing { path: folder.join("checkpoint"), every: Duration::ZERO };
    let options = FitOptions { checkpoint: Some(&checkpoint), ..whole_fit() };
    told(fit_with(&MethodSpec::Kpca(params), rows.view(), &options))
}

/// A checkpoint of PCA on forty rows, changed.
fn checkpoint(folder: &Path, change: fn(&mut Value, &mut Tensors)) {
    assert_eq!(with_checkpoint(folder, pca(), &features(40, WIDTH, 1)), None);
    let path = folder.join("checkpoint");
    std::fs::write(&path, alter(&std::fs::read(&path).unwrap(), change)).unwrap();
}

fn resume(folder: &Path, change: fn(&mut Value, &mut Tensors)) -> Told {
    checkpoint(folder, change);
    with_checkpoint(folder, pca(), &features(40, WIDTH, 1))
}

#[test]
fn files() {
    let cases: &[Case] = &[
        (
            "of other parameters",
            |d| {
                checkpoint(d, |_, _| {});
                with_checkpoint(d, KpcaParams { cosine: false, ..pca() }, &features(40, WIDTH, 1))
            },
            "{dir}/checkpoint: cannot resume: it was made with other parameters: …\"cosine\":true… \
             there, …\"cosine\":false… now; remove the file to start again",
        ),
        (
            "of another number of rows",
            |d| {
                checkpoint(d, |_, _| {});
                with_checkpoint(d, pca(), &features(41, WIDTH, 1))
            },
            "{dir}/checkpoint: cannot resume: it was made for 40 × 11 features, these are 41 × 11; \
             remove the file to start again",
        ),
        (
            "of other rows",
            |d| {
                checkpoint(d, |_, _| {});
                with_checkpoint(d, pca(), &features(40, WIDTH, 2))
            },
            "{dir}/checkpoint: cannot resume: rows 0 to 39 are not those that it has seen; remove \
             the file to start again",
        ),
        (
            "that held out other rows",
            |d| resume(d, |json, _| json["identity"]["hold_out"]["below"] = json!(1u64 << 60)),
            "{dir}/checkpoint: cannot resume: it held out other rows; remove the file to start \
             again",
        ),
        (
            "that is garbage",
            |d| {
                put(d, "checkpoint", "nonsense");
                with_checkpoint(d, pca(), &features(40, WIDTH, 1))
            },
            "{dir}/checkpoint: not a safetensors file: it declares a header of …",
        ),
        (
            "that is empty",
            |d| {
                put(d, "checkpoint", "");
                with_checkpoint(d, pca(), &features(40, WIDTH, 1))
            },
            "{dir}/checkpoint: its header: expected 8 bytes, got 0; the file is truncated or \
             damaged",
        ),
        (
            "that is a detector",
            |d| {
                put(d, "checkpoint", detector(&nys()).to_bytes());
                with_checkpoint(d, pca(), &features(40, WIDTH, 1))
            },
            "{dir}/checkpoint: not an offspan checkpoint: it has no offspan.checkpoint header",
        ),
        (
            "of a later version",
            |d| resume(d, |json, _| json["version"] = json!(4)),
            "{dir}/checkpoint: an offspan checkpoint of version 4; this program reads version 3: a later \
             offspan wrote it",
        ),
        (
            "of an earlier version",
            |d| resume(d, |json, _| json["version"] = json!(2)),
            "{dir}/checkpoint: an offspan checkpoint of version 2; this program reads version 3: remove the \
             file to start again",
        ),
        (
            "with another byte",
            |d| {
                checkpoint(d, |_, _| {});
                let path = d.join("checkpoint");
                let mut bytes = std::fs::read(&path).unwrap();
                *bytes.last_mut().unwrap() ^= 1;
                std::fs::write(&path, bytes).unwrap();
                with_checkpoint(d, pca(), &features(40, WIDTH, 1))
            },
            "{dir}/checkpoint: an offspan checkpoint that is damaged: …",
        ),
        (
            "with a row that is none",
            |d| resume(d, |json, _| json["next_row"] = json!(41)),
            "{dir}/checkpoint: not an offspan checkpoint: its rows are out of range",
        ),
        (
            "with moments of another width",
            |d| {
                resume(d, |_, tensors| {
                    tensors.insert("mean".into(), f32_tensor(&[3], 0.0));
                    tensors.insert("scatter".into(), f32_tensor(&[3, 3], 1.0));
                })
            },
            "{dir}/checkpoint: …11…3…",
        ),
        (
            "with the moments of fewer rows than it says",
            |d| resume(d, |json, _| json["count"] = json!(0)),
            "{dir}/checkpoint: …",
        ),
        (
            "in a missing folder",
            |d| with_checkpoint(&d.join("nothing"), pca(), &features(40, WIDTH, 1)),
            "cannot create a file for {dir}/nothing/checkpoint: No such file or directory…",
        ),
        (
            "for a method without a long pass",
            |d| {
                let checkpoint = Checkpointing { path: d.join("c"), every: Duration::ZERO };
                let options = FitOptions { checkpoint: Some(&checkpoint), ..whole_fit() };
                let rows = features(40, WIDTH, 1);
                told(fit_with(&knn(3), rows.view(), &options))
            },
            "checkpoint: expected …, got knn",
        ),
        (
            "for exact kernel PCA, which has no long pass either",
            |d| with_checkpoint(d, exact(GAUSSIAN, ExactForm::Centred), &features(40, WIDTH, 1)),
            "checkpoint: expected …, got kpca-exact",
        ),
    ];
    check(cases);
}
