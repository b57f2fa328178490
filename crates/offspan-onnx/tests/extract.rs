//! Features of small networks: equal to what the formulas give, whatever the way they were asked for.

#![cfg(feature = "extract")]
#![allow(clippy::unwrap_used)]

#[path = "util/models.rs"]
mod models;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use image::{Rgb, RgbImage};
use models::*;
use offspan::io::{Dataset, Pack, open_dataset, open_head, read_rows};
use offspan::ndarray::Array2;
use offspan::{Observer, Silent};
use offspan_onnx::proto::{DataLocation, ModelProto, StringStringEntryProto};
use offspan_onnx::{
    Data, ExtractOptions, Extractor, Layout, Maps, OnError, PackFile, PreprocessChoice, Preset,
    SplitName, Steps, find_head, find_splits,
};
use tempfile::TempDir;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn model(&self, model: &ModelProto) -> PathBuf {
        let path = self.path("model.onnx");
        std::fs::write(&path, bytes(model)).unwrap();
        path
    }

    /// Rows of numbers as `.npy`.
    fn array(&self, name: &str, sizes: &[usize], values: &[f32]) -> PathBuf {
        let sizes: Vec<String> = sizes.iter().map(|size| format!("{size},")).collect();
        let dict = format!(
            "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}\n",
            sizes.join(" ")
        );
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((dict.len() as u16).to_le_bytes());
        file.extend(dict.as_bytes());
        file.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        let path = self.path(name);
        std::fs::write(&path, file).unwrap();
        path
    }

    /// An 8 × 8 image that is the same for the same seed.
    fn image(&self, name: &str, seed: u32) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        picture(seed).save(&path).unwrap();
        path
    }
}

fn picture(seed: u32) -> RgbImage {
    let byte = |x: u32, y: u32, c: u32| ((x * 37 + y * 91 + c * 53 + seed * 29) * 97 % 256) as u8;
    RgbImage::from_fn(8, 8, |x, y| Rgb([byte(x, y, 0), byte(x, y, 1), byte(x, y, 2)]))
}

/// The picture with its channels first, from 0 to 1.
fn planes(seed: u32) -> Vec<f32> {
    let picture = picture(seed);
    (0..3)
        .flat_map(|c| {
            picture.pixels().map(move |pixel| f32::from(pixel[c]) / 255.0).collect::<Vec<_>>()
        })
        .collect()
}

/// Images as they are, from 0 to 1.
fn plain_steps() -> Steps {
    Steps::Chosen(PreprocessChoice {
        preset: Some(Preset::None),
        scale: Some(1.0 / 255.0),
        ..PreprocessChoice::default()
    })
}

fn plain_options() -> ExtractOptions {
    let mut options = ExtractOptions::default();
    options.steps = plain_steps();
    options
}

fn rows(dataset: &Dataset<'_>) -> Array2<f64> {
    read_rows(dataset.features(), 0..dataset.rows()).unwrap()
}

fn logits(dataset: &Dataset<'_>) -> Array2<f64> {
    read_rows(dataset.logits().unwrap(), 0..dataset.rows()).unwrap()
}

#[track_caller]
fn near(got: impl IntoIterator<Item = f64>, expected: &[f64]) {
    let got: Vec<f64> = got.into_iter().collect();
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() <= 1e-5 * (1.0 + expected.abs()), "{got} and {expected}");
    }
}

#[test]
fn features_and_logits_of_a_perceptron_are_those_of_the_formula() {
    let place = Place::new();
    let inputs = numbers(6 * 37, 99);
    let data = Data::open(&place.array("x.npy", &[37, 6], &inputs), None).unwrap();
    let mut extractor =
        Extractor::new(place.model(&perceptron()), ExtractOptions::default()).unwrap();
    let pack = place.path("pack");
    let report = extractor.extract(&data, &pack, &SplitName::Train, &Silent).unwrap();
    assert_eq!((report.rows, report.resumed, report.agreement), (37, 0, None));
    let opened = Pack::open(&pack).unwrap();
    let (features, logits) = (rows(&opened.train), logits(&opened.train));
    assert_eq!((features.dim(), logits.dim()), ((37, 5), (37, 3)));
    for (row, input) in inputs.chunks(6).enumerate() {
        let (z, l) = perceptron_by_hand(input);
        near(features.row(row).to_vec(), &z);
        near(logits.row(row).to_vec(), &l);
    }
    let head = open_head(pack.join("head.safetensors")).unwrap();
    assert!(opened.head == Some(head));
    let source = PackFile::read(&pack).unwrap().source(&pack).unwrap().unwrap();
    assert_eq!((source.model.as_str(), source.feature_tensor.as_str()), ("model.onnx", "zd"));
    assert_eq!(source.logit_tensor.as_deref(), Some("logits"));
    assert!(source.hash.starts_with("xxh3-128:") && source.hash.len() == 41);
    let left: Vec<_> = std::fs::read_dir(&pack).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with('.')), "{left:?}");
}

/// Extracts three images and compares with the formula.
fn check_network(place: &Place, model: &ModelProto, options: ExtractOptions) {
    let images = place.path("images");
    let seeds = [1, 2, 3, 4, 5];
    for seed in seeds {
        place.image(&format!("images/{seed}.png"), seed);
    }
    let data = Data::open(&images, None).unwrap();
    let pack = place.path("pack");
    let with_maps = options.maps != Maps::No;
    let mut extractor = Extractor::new(place.model(model), options).unwrap();
    extractor.extract(&data, &pack, &SplitName::Test, &Silent).unwrap();
    let split = open_dataset(pack.join("test.safetensors"), None).unwrap();
    let (features, logits) = (rows(&split), logits(&split));
    for (row, seed) in seeds.into_iter().enumerate() {
        let (maps, z, l) = network_by_hand(&planes(seed));
        near(features.row(row).to_vec(), &z);
        near(logits.row(row).to_vec(), &l);
        if with_maps {
            let kept = &split.extras()["maps"];
            assert_eq!(kept.shape, [7, 8, 8]);
            let kept: Array2<f64> = read_rows(&*kept.rows, row..row + 1).unwrap();
            near(kept, &maps);
        }
    }
}

#[test]
fn a_convolutional_network_gives_the_formulas_features_and_maps() {
    let mut options = plain_options();
    options.maps = Maps::Find;
    options.batch = NonZeroUsize::new(2);
    check_network(&Place::new(), &network(-1), options);
}

#[test]
fn a_model_of_fixed_batch_gets_what_is_left_filled_up() {
    for rows in [1, 4] {
        check_network(&Place::new(), &network(rows), plain_options());
    }
}

#[test]
fn channels_may_be_last_and_the_shape_tells() {
    check_network(&Place::new(), &channels_last_network(), plain_options());
    let mut options = plain_options();
    options.layout = Some(Layout::Nhwc);
    check_network(&Place::new(), &channels_last_network(), options);
}

#[test]
fn maps_behind_convolutions_have_their_channels_first_whatever_the_images_have() {
    for wanted in [&[][..], &["maps:avg".parse().unwrap()]] {
        let mut options = plain_options();
        options.maps = Maps::Find;
        options.feature_tensors = wanted.to_vec();
        check_network(&Place::new(), &channels_last_network(), options);
    }
}

#[test]
fn weights_may_be_listed_as_inputs_too() {
    let mut model = network(-1);
    model.ir_version = Some(3);
    let graph = model.graph.as_mut().unwrap();
    let weights = graph.initializer.iter().map(|weight| value(weight.name(), &weight.dims));
    graph.input = weights.chain(graph.input.iter().cloned()).collect();
    check_network(&Place::new(), &model, plain_options());
}

#[test]
fn arrays_beside_images_leave_what_is_known_of_the_images() {
    let place = Place::new();
    place.image("images/1.png", 1);
    let path = place.model(&network(-1));
    let run = |data: Data, options: ExtractOptions, split: SplitName| {
        let mut extractor = Extractor::new(&path, options).unwrap();
        extractor.extract(&data, &place.path("pack"), &split, &Silent).unwrap();
    };
    run(Data::open(&place.path("images"), None).unwrap(), plain_options(), SplitName::Train);
    let array = place.array("x.npy", &[1, 3, 8, 8], &planes(1));
    run(Data::open(&array, None).unwrap(), ExtractOptions::default(), SplitName::Test);
    let source = PackFile::read(&place.path("pack")).unwrap();
    let source = source.source(&place.path("pack")).unwrap().unwrap();
    assert_eq!(source.preprocess.unwrap()["layout"], "nchw");
}

#[test]
fn other_versions_of_operators_run_too() {
    for version in [11, 13, 15, 18, 21] {
        let mut model = perceptron();
        model.opset_import[0].version = Some(version);
        let place = Place::new();
        let data = Data::open(&place.array("x.npy", &[2, 6], &numbers(12, 5)), None).unwrap();
        let mut extractor = Extractor::new(place.model(&model), ExtractOptions::default()).unwrap();
        extractor.extract(&data, &place.path("pack"), &SplitName::Train, &Silent).unwrap();
        let split = open_dataset(place.path("pack/train.safetensors"), None).unwrap();
        near(rows(&split).row(0).to_vec(), &perceptron_by_hand(&numbers(12, 5)[..6]).0);
    }
}

#[test]
fn a_mean_over_axes_is_read_as_every_version_writes_it() {
    for version in 11..=21 {
        let mut model = network(-1);
        model.opset_import[0].version = Some(version);
        let graph = model.graph.as_mut().unwrap();
        let mean = |inputs: &[&str]| with_int(node("ReduceMean", inputs, "pooled"), "keepdims", 1);
        if version < 18 {
            graph.node[4] = with_ints(mean(&["maps"]), "axes", &[2, 3]);
        } else {
            graph.node[4] = mean(&["maps", "axes"]);
            graph.initializer.push(whole("axes", &[2, 3]));
        }
        check_network(&Place::new(), &model, plain_options());
    }
}

#[test]
fn weights_may_lie_in_files_beside_the_model() {
    let place = Place::new();
    let mut model = network(-1);
    let mut data = vec![0_u8; 16];
    for (index, tensor) in model.graph.as_mut().unwrap().initializer.iter_mut().enumerate() {
        let raw = tensor.raw_data.take().unwrap();
        let here = ["", "./"][index % 2];
        let entry = |key: &str, value: String| StringStringEntryProto {
            key: Some(key.to_owned()),
            value: Some(value),
        };
        tensor.external_data = vec![
            entry("location", format!("{here}model.onnx.data")),
            entry("offset", data.len().to_string()),
            entry("length", raw.len().to_string()),
        ];
        tensor.data_location = Some(DataLocation::External as i32);
        data.extend(&raw);
    }
    std::fs::write(place.path("model.onnx.data"), &data).unwrap();
    check_network(&place, &model, plain_options());
    // The weights are part of the model's identity.
    let hash = |place: &Place| {
        let extractor = Extractor::new(place.path("model.onnx"), plain_options()).unwrap();
        extractor.sources()[0].1.hash.clone()
    };
    let before = hash(&place);
    data[20] ^= 1;
    std::fs::write(place.path("model.onnx.data"), &data).unwrap();
    assert_ne!(before, hash(&place));
}

#[test]
fn several_layers_become_packs_of_their_own_with_the_pooling_that_was_asked_for() {
    let place = Place::new();
    for seed in [1, 2] {
        place.image(&format!("images/{seed}.png"), seed);
    }
    let mut options = plain_options();
    options.feature_tensors = vec![
        "early=r1:max".parse().unwrap(),
        "late=maps:avg".parse().unwrap(),
        "all=pooled:none".parse().unwrap(),
    ];
    let data = Data::open(&place.path("images"), None).unwrap();
    let mut extractor = Extractor::new(place.model(&network(-1)), options).unwrap();
    let report = extractor.extract(&data, &place.path("out"), &SplitName::Train, &Silent).unwrap();
    assert_eq!(report.files.len(), 3);
    let open = |name: &str| {
        open_dataset(place.path(&format!("out/{name}/train.safetensors")), None).unwrap()
    };
    let (late, all, early) = (open("late"), open("all"), open("early"));
    assert_eq!((early.width(), late.width(), all.width()), (5, 7, 7));
    for (row, seed) in [1, 2].into_iter().enumerate() {
        let (_, z, l) = network_by_hand(&planes(seed));
        near(rows(&late).row(row).to_vec(), &z);
        near(rows(&all).row(row).to_vec(), &z);
        near(logits(&early).row(row).to_vec(), &l);
    }
    // Only what enters the last layer may be multiplied with it.
    assert!(!place.path("out/early/head.safetensors").exists());
}

#[test]
fn the_last_layer_is_found_in_all_its_forms() {
    let gemm = find_head(perceptron().graph.as_ref().unwrap()).unwrap();
    assert_eq!((gemm.features.as_str(), gemm.logits.as_str()), ("zd", "logits"));
    assert_eq!((gemm.classes, gemm.width), (3, 5));
    assert_eq!(gemm.weight, numbers(15, 3));

    // Not transposed, with factors, and the bias scaled.
    let mut model = perceptron();
    let graph = model.graph.as_mut().unwrap();
    graph.node[4].attribute.clear();
    let factor = |name: &str, value: f32| offspan_onnx::proto::AttributeProto {
        name: Some(name.to_owned()),
        f: Some(value),
        ..Default::default()
    };
    graph.node[4].attribute = vec![factor("alpha", 2.0), factor("beta", 0.5)];
    graph.initializer[2] = random("w2", &[5, 3], 3);
    let turned = find_head(graph).unwrap();
    assert_eq!(
        (turned.weight[0], turned.weight[1]),
        (2.0 * numbers(15, 3)[0], 2.0 * numbers(15, 3)[3])
    );
    assert_eq!(turned.bias[0], 0.5 * numbers(3, 4)[0]);

    // MatMul and Add, behind a softmax; the bias on either side, a cast between.
    let mut model = network(-1);
    let graph = model.graph.as_mut().unwrap();
    let product = find_head(graph).unwrap();
    assert_eq!((product.features.as_str(), product.logits.as_str()), ("flat", "logits"));
    assert_eq!((product.classes, product.width), (4, 7));
    assert_eq!(product.weight[1], numbers(28, 15)[4]);
    graph.node[7] = node("Add", &["b3", "cast"], "logits");
    graph.node.insert(7, with_int(node("Cast", &["product"], "cast"), "to", 1));
    assert_eq!(find_head(graph).unwrap(), product);
    // What changes no numbers may stand between them.
    for kind in ["Flatten", "Squeeze", "Identity"] {
        graph.node[7].op_type = Some(kind.to_owned());
        assert_eq!(find_head(graph).unwrap(), product, "{kind}");
    }

    // No linear layer at all.
    let mut model = network(-1);
    let graph = model.graph.as_mut().unwrap();
    graph.output = vec![value("maps", &[-1, 7, 8, 8])];
    let reason = find_head(graph).unwrap_err();
    assert!(reason.contains("expected a linear layer") && reason.contains("`Relu`"), "{reason}");
}

#[test]
fn folders_of_classes_give_labels_and_a_later_split_keeps_their_numbers() {
    let place = Place::new();
    for (name, seed) in [("a/cat/1", 1), ("a/cat/2", 2), ("a/dog/1", 3), ("b/dog/9", 4)] {
        place.image(&format!("{name}.png"), seed);
    }
    std::fs::write(place.path("a/cat/notes.md"), "x").unwrap();
    let model = place.model(&network(-1));
    let mut extractor = Extractor::new(model, plain_options()).unwrap();
    let pack = place.path("pack");
    let train = Data::open(&place.path("a"), None).unwrap();
    let report = extractor.extract(&train, &pack, &SplitName::Train, &Silent).unwrap();
    assert_eq!((report.rows, report.ignored.len()), (3, 1));
    assert!(report.agreement.is_some());
    let classes = PackFile::read(&pack).unwrap().classes().unwrap();
    assert_eq!(classes, ["cat", "dog"]);
    // Alone, `dog` would be class 0.
    let test = Data::open(&place.path("b"), Some(&classes)).unwrap();
    extractor.extract(&test, &pack, &SplitName::Test, &Silent).unwrap();
    let opened = Pack::open(&pack).unwrap();
    let labels = |data: &Dataset<'_>| data.labels().unwrap().read(0..data.rows()).unwrap();
    assert_eq!(labels(&opened.train), [0, 0, 1]);
    assert_eq!(labels(opened.test.as_ref().unwrap()), [1]);
    let unknown = Data::open(&place.path("a"), Some(&["cat".to_owned()])).err().unwrap();
    assert!(unknown.to_string().contains("`dog` is none of the 1 classes"), "{unknown}");
}

#[test]
fn lists_give_images_and_labels() {
    let place = Place::new();
    for seed in [1, 2] {
        place.image(&format!("images/{seed}.png"), seed);
    }
    std::fs::write(place.path("list.txt"), "# mine\nimages/2.png 7\n\nimages/1.png,3\n").unwrap();
    let data = Data::open(&place.path("list.txt"), None).unwrap();
    let mut extractor = Extractor::new(place.model(&network(-1)), plain_options()).unwrap();
    extractor.extract(&data, &place.path("pack"), &SplitName::Train, &Silent).unwrap();
    let split = open_dataset(place.path("pack/train.safetensors"), None).unwrap();
    assert_eq!(split.labels().unwrap().read(0..2).unwrap(), [7, 3]);
    near(rows(&split).row(0).to_vec(), &network_by_hand(&planes(2)).1);
}

#[test]
fn a_folder_of_parts_is_told_from_a_folder_of_classes() {
    let place = Place::new();
    for name in [
        "all/train/cat/1",
        "all/val/1",
        "all/ood/noise/deep/1",
        "classes/cat/1",
        "odd/train/1",
        "odd/cat/1",
    ] {
        place.image(&format!("{name}.png"), 1);
    }
    let names = |folder: &str, named: Option<&SplitName>| {
        let splits = find_splits(&place.path(folder), named)?;
        Ok::<_, offspan_onnx::InputError>(
            splits.into_iter().map(|split| split.name.to_string()).collect::<Vec<_>>(),
        )
    };
    assert_eq!(names("all", None).unwrap(), ["train", "calibrate", "ood/noise"]);
    assert_eq!(names("all", Some(&SplitName::Test)).unwrap(), ["test"]);
    assert_eq!(names("classes", None).unwrap(), ["train"]);
    let ambiguous = names("odd", None).unwrap_err().to_string();
    assert!(
        ambiguous.contains("`train` and also `cat`") && ambiguous.contains("--split train"),
        "{ambiguous}"
    );
    assert_eq!(names("odd", Some(&SplitName::Train)).unwrap(), ["train"]);
}

/// Counts rows, and asks to stop after some.
struct StopAfter {
    most: usize,
    seen: AtomicUsize,
}

impl Observer for StopAfter {
    fn advance(&self, steps: u64) {
        self.seen.fetch_add(steps as usize, Ordering::SeqCst);
    }

    fn interrupted(&self) -> bool {
        self.seen.load(Ordering::SeqCst) >= self.most
    }
}

fn array_of_rows(place: &Place, rows: usize) -> Data {
    Data::open(&place.array("x.npy", &[rows, 6], &numbers(6 * rows, 8)), None).unwrap()
}

#[test]
fn a_run_that_was_stopped_goes_on_and_ends_with_the_same_bytes() {
    let place = Place::new();
    let model = place.model(&perceptron());
    let data = array_of_rows(&place, 40);
    let options = |resume: bool| {
        let mut options = ExtractOptions::default();
        options.batch = NonZeroUsize::new(3);
        options.resume = resume;
        options.save_every = Duration::from_secs(3600);
        options
    };
    let run = |pack: &str, resume: bool, observer: &dyn Observer| {
        let mut extractor = Extractor::new(&model, options(resume)).unwrap();
        extractor.extract(&data, &place.path(pack), &SplitName::Train, observer)
    };
    run("whole", false, &Silent).unwrap();
    let stop = StopAfter { most: 10, seen: AtomicUsize::new(0) };
    let error = run("pack", false, &stop).err().unwrap();
    assert!(error.is_interrupt());
    assert_eq!(
        error.to_string(),
        "interrupted; no output was written; 12 rows are kept for --resume"
    );
    assert!(!place.path("pack/train.safetensors").exists());

    let again = run("pack", false, &Silent).err().unwrap().to_string();
    assert!(again.contains("begun and not finished; --resume goes on"), "{again}");
    // Half a row after the last save, as a kill leaves it.
    let part = place.path("pack/.extract-train/0.part");
    let mut torn = std::fs::read(&part).unwrap();
    torn.extend([1, 2, 3]);
    std::fs::write(&part, torn).unwrap();
    let report = run("pack", true, &Silent).unwrap();
    assert_eq!((report.rows, report.resumed), (40, 12));
    let bytes = |pack: &str| std::fs::read(place.path(pack).join("train.safetensors")).unwrap();
    assert!(bytes("pack") == bytes("whole"));
    assert!(!place.path("pack/.extract-train").exists());
}

#[test]
fn only_the_same_run_can_be_resumed() {
    let place = Place::new();
    let model = place.model(&perceptron());
    let data = array_of_rows(&place, 40);
    let stop = StopAfter { most: 10, seen: AtomicUsize::new(0) };
    let run = |options: ExtractOptions, observer: &dyn Observer| {
        let mut extractor = Extractor::new(&model, options).unwrap();
        extractor.extract(&data, &place.path("pack"), &SplitName::Train, observer)
    };
    let mut options = ExtractOptions::default();
    options.batch = NonZeroUsize::new(3);
    run(options.clone(), &stop).unwrap_err();
    options.resume = true;
    options.half_precision = true;
    let refused = run(options.clone(), &Silent).err().unwrap().to_string();
    assert!(
        refused.contains("cannot resume: this run is of another model, other data"),
        "{refused}"
    );
    options.resume = false;
    options.force = true;
    assert_eq!(run(options, &Silent).unwrap().resumed, 0);
}

#[test]
fn a_run_over_inputs_that_were_changed_is_not_resumed() {
    let place = Place::new();
    let model = place.model(&perceptron());
    let stop = StopAfter { most: 10, seen: AtomicUsize::new(0) };
    let mut options = ExtractOptions::default();
    options.batch = NonZeroUsize::new(3);
    let path = place.array("x.npy", &[40, 6], &numbers(240, 8));
    let run = |options: &ExtractOptions, observer: &dyn Observer| {
        let data = Data::open(&path, None).unwrap();
        let mut extractor = Extractor::new(&model, options.clone()).unwrap();
        extractor.extract(&data, &place.path("pack"), &SplitName::Train, observer)
    };
    run(&options, &stop).unwrap_err();
    // The same numbers, but a file that was written anew.
    options.resume = true;
    let file = std::fs::File::options().append(true).open(&path).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let refused = run(&options, &Silent).err().unwrap().to_string();
    assert!(
        refused.contains("cannot resume: this run is of another model, other data"),
        "{refused}"
    );
}

#[test]
fn bad_images_stop_a_run_or_are_named_and_skipped() {
    let place = Place::new();
    for seed in [1, 2, 3, 4] {
        place.image(&format!("images/{seed}.png"), seed);
    }
    std::fs::write(place.path("images/2.png"), "no image").unwrap();
    std::fs::write(place.path("images/4.png"), "").unwrap();
    let data = Data::open(&place.path("images"), None).unwrap();
    let model = place.model(&network(-1));
    let mut options = plain_options();
    let stopped = Extractor::new(&model, options.clone())
        .unwrap()
        .extract(&data, &place.path("pack"), &SplitName::Train, &Silent)
        .unwrap_err()
        .to_string();
    assert!(
        stopped.ends_with(
            "2.png: not an image that can be read; expected PNG, JPEG, WebP, BMP or GIF"
        ),
        "{stopped}"
    );
    assert!(!place.path("pack/train.safetensors").exists());

    options.on_error = OnError::Skip;
    let mut extractor = Extractor::new(&model, options).unwrap();
    let report = extractor.extract(&data, &place.path("pack"), &SplitName::Train, &Silent).unwrap();
    let skipped: Vec<String> = report
        .skipped
        .iter()
        .map(|s| s.path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!((report.rows, skipped), (2, vec!["2.png".to_owned(), "4.png".to_owned()]));
    let kept = Extractor::kept_rows(&data, &report);
    let names: Vec<_> = kept.iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["1.png", "3.png"]);
    let split = open_dataset(place.path("pack/train.safetensors"), None).unwrap();
    near(rows(&split).row(1).to_vec(), &network_by_hand(&planes(3)).1);
}

/// Images that keep their sizes, of which the third does not fit the network.
#[test]
fn rows_of_a_batch_that_failed_are_not_there_twice_when_the_run_goes_on() {
    let place = Place::new();
    for seed in 1..=4 {
        place.image(&format!("images/{seed}.png"), seed);
    }
    RgbImage::new(9, 9).save(place.path("images/4.png")).unwrap();
    let path = place.model(&network(-1));
    let mut options = plain_options();
    options.batch = NonZeroUsize::new(2);
    let run = |options: &ExtractOptions| {
        let data = Data::open(&place.path("images"), None).unwrap();
        let mut extractor = Extractor::new(&path, options.clone()).unwrap();
        extractor.extract(&data, &place.path("pack"), &SplitName::Train, &Silent)
    };
    let stopped = run(&options).unwrap_err().to_string();
    assert!(stopped.contains("4.png: expected rows of [3, 8, 8]"), "{stopped}");
    place.image("images/4.png", 4);
    options.resume = true;
    let report = run(&options).unwrap();
    assert_eq!((report.rows, report.resumed), (4, 2));
    let split = open_dataset(place.path("pack/train.safetensors"), None).unwrap();
    for seed in 1..=4 {
        near(rows(&split).row(seed as usize - 1).to_vec(), &network_by_hand(&planes(seed)).1);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn names_of_images_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt;

    let place = Place::new();
    place.image("images/1.png", 1);
    for name in [&b"\xff-good.png"[..], b"\xfe-bad.png"] {
        let path = place.path("images").join(std::ffi::OsStr::from_bytes(name));
        std::fs::copy(place.path("images/1.png"), &path).unwrap();
        if name.ends_with(b"bad.png") {
            std::fs::write(&path, "no image").unwrap();
        }
    }
    let data = Data::open(&place.path("images"), None).unwrap();
    let mut options = plain_options();
    options.on_error = OnError::Skip;
    let mut extractor = Extractor::new(place.model(&network(-1)), options).unwrap();
    let report = extractor.extract(&data, &place.path("pack"), &SplitName::Train, &Silent).unwrap();
    assert_eq!((report.rows, report.skipped.len()), (2, 1));
    let kept = Extractor::kept_rows(&data, &report);
    assert_eq!(kept[1].file_name().unwrap().as_bytes(), b"\xff-good.png");
    assert!(serde_json::to_string(&report.skipped).unwrap().contains("-bad.png"));
}

#[test]
fn a_last_layer_that_is_not_the_models_is_not_replaced() {
    let place = Place::new();
    std::fs::create_dir(place.path("pack")).unwrap();
    std::fs::write(place.path("pack/head.safetensors"), "somebody's").unwrap();
    let path = place.model(&perceptron());
    let data = array_of_rows(&place, 3);
    let mut options = ExtractOptions::default();
    let run = |options: &ExtractOptions| {
        let mut extractor = Extractor::new(&path, options.clone()).unwrap();
        extractor.extract(&data, &place.path("pack"), &SplitName::Train, &Silent)
    };
    let refused = run(&options).unwrap_err().to_string();
    assert!(refused.contains("last layer is another one than the model's"), "{refused}");
    assert_eq!(std::fs::read(place.path("pack/head.safetensors")).unwrap(), b"somebody's");
    options.force = true;
    run(&options).unwrap();
    assert!(open_head(place.path("pack/head.safetensors")).is_ok());
}

#[test]
fn numbers_that_half_precision_does_not_have_are_refused() {
    let place = Place::new();
    let inputs: Vec<f32> = numbers(12, 8).iter().map(|x| 1e6 * x).collect();
    let data = Data::open(&place.array("x.npy", &[2, 6], &inputs), None).unwrap();
    let mut options = ExtractOptions::default();
    options.half_precision = true;
    let mut extractor = Extractor::new(place.model(&perceptron()), options).unwrap();
    let refused = extractor.extract(&data, &place.path("pack"), &SplitName::Train, &Silent);
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.starts_with("--type: expected f32, got f16, and the network gives"),
        "{refused}"
    );
    assert!(!place.path("pack/train.safetensors").exists());
}

#[test]
fn images_of_any_size_are_resized_and_cropped_to_what_the_network_takes() {
    let place = Place::new();
    let wide = RgbImage::from_fn(30, 20, |x, _| Rgb([(8 * x) as u8, 100, 200]));
    std::fs::create_dir_all(place.path("images")).unwrap();
    for name in ["a.png", "b.bmp", "c.gif", "d.webp", "e.jpg"] {
        wide.save(place.path("images").join(name)).unwrap();
    }
    let data = Data::open(&place.path("images"), None).unwrap();
    let mut extractor =
        Extractor::new(place.model(&network(-1)), ExtractOptions::default()).unwrap();
    extractor.extract(&data, &place.path("pack"), &SplitName::Train, &Silent).unwrap();
    let steps = extractor.preprocess().unwrap().to_string();
    assert!(steps.starts_with("shorter side to 9 (bilinear), the middle 8 × 8,"), "{steps}");
    let split = open_dataset(place.path("pack/train.safetensors"), None).unwrap();
    let features = rows(&split);
    // All formats hold the same picture; JPEG and GIF lose a little.
    for row in 1..5 {
        let difference = (&features.row(row) - &features.row(0)).mapv(f64::abs);
        let largest = difference.fold(0.0_f64, |a, b| a.max(*b));
        assert!(largest < 0.2, "{row}: {largest}");
    }
    let same = |row: usize| features.row(row) == features.row(0);
    assert!(same(1) && same(3), "BMP and lossless WebP are the PNG's pixels");
}

#[test]
fn splits_of_one_pack_come_from_one_model_in_one_way() {
    let place = Place::new();
    place.image("images/1.png", 1);
    let data = Data::open(&place.path("images"), None).unwrap();
    let model = place.model(&network(-1));
    let run = |options: ExtractOptions, split: SplitName| {
        let mut extractor = Extractor::new(&model, options).unwrap();
        extractor.extract(&data, &place.path("pack"), &split, &Silent)
    };
    run(plain_options(), SplitName::Train).unwrap();
    run(plain_options(), SplitName::Ood("x".to_owned())).unwrap();
    let refused = run(ExtractOptions::default(), SplitName::Test).err().unwrap().to_string();
    assert!(refused.contains("the pack's other splits come from model.onnx"), "{refused}");
}

#[test]
fn half_precision_keeps_features_in_half_the_space() {
    let place = Place::new();
    let data = array_of_rows(&place, 16);
    let mut options = ExtractOptions::default();
    options.half_precision = true;
    let mut extractor = Extractor::new(place.model(&perceptron()), options).unwrap();
    extractor.extract(&data, &place.path("pack"), &SplitName::Train, &Silent).unwrap();
    let split = open_dataset(place.path("pack/train.safetensors"), None).unwrap();
    let expected = perceptron_by_hand(&numbers(96, 8)[..6]).0;
    for (got, expected) in rows(&split).row(0).iter().zip(&expected) {
        assert!((got - expected).abs() < 1e-3 * (1.0 + expected.abs()));
    }
}

#[test]
fn a_model_by_its_source_must_be_the_same_model() {
    let place = Place::new();
    let model = place.model(&perceptron());
    let extractor = Extractor::new(&model, ExtractOptions::default()).unwrap();
    let (_, source) = extractor.sources().remove(0);
    let mut options = ExtractOptions::default();
    options.steps = Steps::AsFitted;
    assert!(Extractor::of_source(&model, &source, options.clone()).is_ok());
    let mut other = perceptron();
    other.graph.as_mut().unwrap().initializer[0] = random("w1", &[5, 6], 77);
    let other = place.model(&other);
    let refused = Extractor::of_source(&other, &source, options).err().unwrap().to_string();
    assert!(
        refused.contains("another model than the one that the detector was fitted with"),
        "{refused}"
    );
}

#[test]
fn arrays_that_do_not_fit_and_flags_without_meaning_are_refused() {
    let place = Place::new();
    let model = place.model(&perceptron());
    let refused = |data: Data, options: ExtractOptions| {
        let mut extractor = Extractor::new(&model, options).unwrap();
        let result = extractor.extract(&data, &place.path("pack"), &SplitName::Train, &Silent);
        result.err().unwrap().to_string()
    };
    let narrow = || Data::open(&place.array("y.npy", &[3, 5], &numbers(15, 1)), None).unwrap();
    let text = refused(narrow(), ExtractOptions::default());
    assert!(
        text.ends_with("expected rows of [6], as the network's input `x` has, got [5]"),
        "{text}"
    );
    let text = refused(array_of_rows(&place, 3), plain_options());
    assert!(text.contains("--preprocess and its like are for images"), "{text}");
    place.image("images/1.png", 1);
    let images = Data::open(&place.path("images"), None).unwrap();
    let text = refused(images, ExtractOptions::default());
    assert!(text.contains("expected a model whose input has four dimensions"), "{text}");
    assert!(Path::new(&place.path("images")).exists());
}
