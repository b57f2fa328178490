//! Writes well-formed inputs for every target: `seeds FOLDER`. What cannot be made here comes from the tests' files.

use std::path::{Path, PathBuf};

use offspan_fuzz::targets::{self, TARGETS, named};

#[path = "../../../crates/offspan/tests/common/mod.rs"]
mod common;
#[path = "../made.rs"]
mod made;

use common::*;

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("usage: seeds FOLDER"));
    for target in TARGETS {
        std::fs::create_dir_all(folder.join(target.name)).expect("a folder");
    }
    let mut put = |target: &str, name: &str, bytes: &[u8]| {
        // It may be left out of this build.
        if named(target).is_none() {
            return;
        }
        let name: String =
            name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        std::fs::write(folder.join(target).join(name), bytes).expect("a file");
    };
    let train = features(60, WIDTH, 1);
    for (name, spec) in every_method() {
        made::detector(&name, &spec, &mut put);
        put("json", &name, serde_json::json!(spec).to_string().as_bytes());
        put("parameters", &name, format!("{}\ngamma=0.5\nseed=3", spec.method()).as_bytes());
        made::plans(&name, &spec, &mut put);
    }
    for option in offspan::OPTIONS {
        let text = format!("{}\n{}={}", "kpca-nys", option.name(), option.default);
        put("parameters", option.name(), text.as_bytes());
    }
    let npy = npy_f32(train.view());
    put("npy", "rows", &npy);
    put("csv", "npy", &npy);
    put("csv", "text", b"a,b\n1.5,-2\n3,\"4e3\"\n");
    put("scores", "text", b"row,score,p_value,decision\n0,1.5,0.2,in\n1,-inf,0.1,out\n");
    put("scores", "rows", b"1\n2\n30\n");
    put("json", "eval", br#"{"schema":"offspan.eval/1","pack":"x","results":[]}"#);
    put("pack-toml", "pack", b"name = \"x\"\nnear = [\"a\"]\n[model]\nname = \"net\"\nhash = \"00\"\nclasses = [\"a\", \"b\"]\n");
    safetensors_seeds(&put);
    made::documents(&mut put);
    #[cfg(feature = "onnx")]
    onnx_seeds(&put);
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    for folder in ["offspan-arrow/tests/files", "offspan-cli/tests/conversions"] {
        for entry in std::fs::read_dir(crates.join(folder)).expect("test files").flatten() {
            let path = entry.path();
            let target = match path.extension().and_then(|e| e.to_str()) {
                Some("npz") => "npz",
                Some("parquet") => "parquet",
                Some("arrow" | "feather") => "arrow",
                Some("pt" | "pth") => "torch",
                _ => continue,
            };
            let name = entry.file_name().to_string_lossy().into_owned();
            put(target, &name, &std::fs::read(path).expect("a test file"));
        }
    }
}

fn safetensors_seeds(put: &impl Fn(&str, &str, &[u8])) {
    use safetensors::Dtype;
    let rows = features(6, 3, 1);
    let labels: Vec<u8> = (0..6i64).flat_map(i64::to_le_bytes).collect();
    let parts = Tensors::from([
        ("features".to_owned(), (Dtype::F32, vec![6, 3], le_f32(&rows))),
        ("logits".to_owned(), f32_tensor(&[6, 4], 0.5)),
        ("labels".to_owned(), (Dtype::I64, vec![6], labels)),
        ("thumbnails".to_owned(), (Dtype::U8, vec![6, 2, 2, 3], vec![7; 72])),
    ]);
    put("safetensors", "split", &tensors(&parts, None));
    let head = Tensors::from([
        ("weight".to_owned(), f32_tensor(&[4, 3], 0.1)),
        ("bias".to_owned(), f32_tensor(&[4], 0.2)),
    ]);
    put("safetensors", "head", &tensors(&head, None));
}

#[cfg(feature = "onnx")]
fn onnx_seeds(put: &impl Fn(&str, &str, &[u8])) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.onnx");
    let train = features(60, WIDTH, 1);
    for name in ["pca", "knn", "energy", "vim"] {
        let spec = offspan::MethodSpec::named(name).expect("a method");
        let detector = fit(&spec, train.view()).expect("a detector");
        if let Ok(model) = offspan_onnx::export(&detector) {
            offspan_onnx::save(&model, &path).expect("a file");
            put("onnx", name, &std::fs::read(&path).expect("a file"));
        }
    }
}
