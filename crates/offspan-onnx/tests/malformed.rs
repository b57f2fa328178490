//! Models, images and lists that are damaged or made to harm: each is a sentence, none a panic, none takes more memory than a bound.

#![cfg(feature = "extract")]
#![allow(clippy::unwrap_used)]

#[path = "util/models.rs"]
mod models;

#[path = "malformed/images.rs"]
mod images;
#[path = "malformed/networks.rs"]
mod networks;

use std::path::PathBuf;

use offspan::Silent;
use offspan_onnx::proto::ModelProto;
use offspan_onnx::{Data, ExtractOptions, Extractor, PreprocessChoice, Preset, SplitName, Steps};
use tempfile::TempDir;

/// A folder with data for both networks of `models.rs`.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        let rows: Vec<u8> = models::numbers(18, 1).iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut array = b"\x93NUMPY\x01\x00".to_vec();
        let dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 6), }\n";
        array.extend((dict.len() as u16).to_le_bytes());
        array.extend(dict.as_bytes());
        array.extend(rows);
        place.write("x.npy", &array);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn extract(&self, model: &str, data: &str) -> Result<usize, String> {
        let words = |error: offspan_onnx::InputError| error.to_string();
        let mut options = ExtractOptions::default();
        let data = Data::open(&self.path(data), None).map_err(words)?;
        if data.is_images() {
            options.steps = Steps::Chosen(PreprocessChoice {
                preset: Some(Preset::Torchvision),
                ..PreprocessChoice::default()
            });
        }
        let mut extractor = Extractor::new(self.path(model), options).map_err(words)?;
        let pack = self.path("pack");
        let report = extractor.extract(&data, &pack, &SplitName::Train, &Silent).map_err(words)?;
        Ok(report.rows)
    }

    /// Runs bytes as a model; the message must have these words and be a sentence of one line.
    #[track_caller]
    fn model_is_refused(&self, bytes: &[u8], words: &[&str]) {
        self.write("model.onnx", bytes);
        check_sentence(self.extract("model.onnx", "x.npy"), words);
    }

    #[track_caller]
    fn refused(&self, model: &ModelProto, words: &[&str]) {
        self.model_is_refused(&models::bytes(model), words);
    }

    /// Runs a sound model over an image.
    #[track_caller]
    fn image_is_refused(&self, name: &str, bytes: &[u8], words: &[&str]) {
        self.write("network.onnx", &models::bytes(&models::network(-1)));
        self.write(name, bytes);
        check_sentence(self.extract("network.onnx", name), words);
        assert!(!self.path("pack/train.safetensors").exists());
    }
}

#[track_caller]
fn check_sentence(result: Result<usize, String>, words: &[&str]) {
    let message = result.expect_err("it was taken");
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
    assert!(message.len() < 1000 && !message.contains('\n'), "{message}");
    assert!(!message.contains("panicked"), "{message}");
}

#[test]
fn the_sound_ones_are_taken() {
    let place = Place::new();
    place.write("model.onnx", &models::bytes(&models::perceptron()));
    assert_eq!(place.extract("model.onnx", "x.npy"), Ok(3));
}
