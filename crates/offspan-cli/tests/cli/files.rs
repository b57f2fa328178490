//! Files that users bring: `.npy`, files without header, packs of `.npy`.

use serde_json::Value;

use crate::check_document;
use crate::util::{Place, f64_bytes, matrix, npy_f64, of_unlabelled};

#[test]
fn features_alone_cannot_be_sampled_by_energy_and_the_error_says_what_to_do() {
    let place = Place::new();
    let train = place.npy_of("train.npy", "train.safetensors", "features");
    place.npy_of("logits.npy", "train.safetensors", "logits");
    place.npy_head();
    place.write("train64.npy", npy_f64(&train));
    let before = place.files();
    let message = place.run("fit train.npy -m kpca-nys -o net").refused();
    for advice in ["--logits FILE", "--head FILE", "--sampling uniform"] {
        assert!(message.contains(advice), "{message}");
    }
    assert_eq!(place.files(), before);

    let fit = |flags: &str| {
        place.run(&format!("fit {flags} -m kpca-nys --landmarks 48 -o net")).fine();
        place.read("net")
    };
    fit("train.npy --sampling uniform --residual complete");
    let from_logits = fit("train.npy --logits logits.npy");
    assert_eq!(fit("PACK/train.safetensors"), from_logits, "the pack has the same logits");
    assert_eq!(fit("train64.npy --logits logits.npy"), from_logits, "f64 holds the same numbers");
    let from_head = fit("train.npy --head weight.npy,bias.npy");
    assert_eq!(fit("train.npy --head PACK/head.safetensors"), from_head);
    // The head goes into the detector, so that it can fuse and sample; scores come without logits.
    place.run("score net PACK/test.safetensors").fine();
}

#[test]
fn files_without_header_are_read_as_declared() {
    let place = Place::new();
    let train = place.npy_of("train.npy", "train.safetensors", "features");
    let test = place.npy_of("test.npy", "test.safetensors", "features");
    place.write("train.mmap", f64_bytes(&train));
    place.write("test.mmap", f64_bytes(&test));
    place.run("fit train.npy --method pca -o net").fine();
    place.run("fit train.mmap --raw f64:128 --method pca -o raw").fine();
    assert_eq!(place.read("raw"), place.read("net"));
    let scores = place.run("score net test.npy").fine();
    assert_eq!(place.run("score net test.mmap --raw f64:128").fine(), scores);
    let json = place.run("inspect train.mmap --raw f64:128 --json").json();
    assert_eq!((&json["rows"], &json["width"]), (&5000.into(), &128.into()));
    let message = place.run("inspect train.mmap").refused();
    assert!(message.contains("--raw f64:WIDTH"), "{message}");
    let message = place.run("fit train.mmap --raw f64:129 --method pca -o out").refused();
    assert!(message.contains("is no multiple of 1032"), "{message}");
}

#[test]
fn the_threshold_can_come_from_a_file_without_header_too() {
    let place = Place::new();
    let train = place.npy_of("train.npy", "train.safetensors", "features");
    let test = place.npy_of("test.npy", "test.safetensors", "features");
    place.write("train.mmap", f64_bytes(&train));
    place.write("test.mmap", f64_bytes(&test));
    place.run("fit train.npy --calibrate test.npy --method pca -o net").fine();
    let line = "fit train.mmap --raw f64:128 --calibrate test.mmap --method pca -o raw";
    place.run(line).fine();
    assert_eq!(place.read("raw"), place.read("net"));
}

#[test]
fn a_pack_may_be_of_npy_files() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("pack/ood")).unwrap();
    for name in ["train", "test", "ood/digits"] {
        place.npy_of(&format!("pack/{name}.npy"), &format!("{name}.safetensors"), "features");
    }
    let document = place.run("eval pack --method pca,knn --json -").json();
    check_document(&document, "pack", &["pca", "knn"], "fpr95");
    let reference = place.run("eval PACK --method pca,knn --json -").json();
    let digits = |document: &Value| document["results"][0]["sets"]["digits"].clone();
    assert_eq!(digits(&document), of_unlabelled(digits(&reference)));
    assert!(place.run("inspect pack").fine().contains("head: -"));
}

#[test]
fn the_authors_caches_give_what_the_same_rows_give_in_a_pack() {
    let place = Place::new();
    place.small_pack("pack", 300, 60);
    std::fs::create_dir(place.path("cache")).unwrap();
    for (split, name) in [("train", "train_in"), ("test", "val_in"), ("ood/digits", "Digits_out")] {
        let rows = matrix(&place.path(&format!("pack/{split}.safetensors")), "features");
        place.write(&format!("cache/{name}.mmap"), f64_bytes(&rows));
    }
    std::fs::copy(place.path("pack/head.safetensors"), place.path("cache/head.safetensors"))
        .unwrap();
    let flags = "--method kpca-nys --landmarks 32 --json -";
    let ours = place.run(&format!("eval pack {flags}")).json();
    let theirs = place.run(&format!("eval cache --raw f64:128 {flags}")).json();
    let ours = of_unlabelled(ours["results"][0]["sets"]["digits"].clone());
    assert_eq!(theirs["results"][0]["sets"]["Digits"], ours);
    place.run("fit cache --raw f64:128 --method pca -o net").fine();
    assert!(place.run("inspect cache --raw f64:128").fine().contains("ood/Digits"));
    place.run("study sampling cache --raw f64:128 --landmarks 32 -o out").fine();
    assert!(place.run("eval cache").refused().contains("--raw"));
    assert!(place.run("eval pack --raw f64:128").refused().contains("raw"));
}
