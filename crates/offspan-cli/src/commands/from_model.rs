//! Models in place of feature files, for `fit` and `score`: the features go through a folder that is gone in the end.

use std::path::{Path, PathBuf};

use offspan::io::{Dataset, open_dataset};
use offspan::{Detector, ModelSource};
use offspan_onnx::{Data, Extractor, PackFile, SplitName, find_splits};
use tempfile::TempDir;

use super::extract::{about_model, report_in_words};
use crate::args::{FitArgs, ScoreArgs};
use crate::output::Failure;
use crate::progress::Progress;

/// Whether a path is a model by its name.
pub(crate) fn is_model(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx"))
}

/// A pack that a model gave, for the time of a fit.
pub(crate) struct ModelPack {
    folder: TempDir,
    pub(crate) source: ModelSource,
    /// What is to be said of it.
    pub(crate) words: String,
}

impl ModelPack {
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Features for rows that set the threshold.
    pub(crate) fn calibration(&self) -> PathBuf {
        SplitName::Calibrate.file(self.path())
    }
}

fn temporary_folder() -> Result<TempDir, Failure> {
    let folder = tempfile::Builder::new().prefix("offspan-").tempdir();
    folder.map_err(|error| Failure::Usage(format!("cannot create a temporary folder: {error}")))
}

/// Runs the model of a fit over its data; none if the fit has no model.
pub(crate) fn extract_for_fit(args: &FitArgs) -> Result<Option<ModelPack>, Failure> {
    let is_model = is_model(&args.data);
    let Some(inputs) = args.inputs.as_ref().filter(|_| is_model) else {
        return without_model(args, is_model).map(|()| None);
    };
    let of_files = &args.data_args;
    let other = [
        (of_files.logits.is_some(), "--logits"),
        (of_files.head.is_some(), "--head"),
        (!of_files.read.is_default(), "--raw and --columns"),
    ];
    if let Some((_, flags)) = other.iter().find(|(given, _)| *given) {
        let reason =
            format!("{flags}: expected feature files, got a model, which gives these itself");
        return Err(Failure::Usage(reason));
    }
    if args.model_args.layers() > 1 {
        return Err(Failure::Usage(
            "--feature-tensor: a detector has one; several are for `offspan extract`".to_owned(),
        ));
    }
    let mut extractor = Extractor::new(&args.data, args.model_args.options())?;
    let folder = temporary_folder()?;
    let mut words = String::new();
    let mut classes: Option<Vec<String>> = None;
    let given = args.calibrate.as_ref();
    for split in find_splits(inputs, None)? {
        let wanted = match split.name {
            SplitName::Train => true,
            SplitName::Calibrate => given.is_none() && args.hold_out.is_none(),
            // A fit has no use for them.
            SplitName::Test | SplitName::Ood(_) => false,
        };
        if !wanted {
            words += &format!("{}: not needed for a fit\n", split.name);
            continue;
        }
        let mut data = Data::open(&split.path, classes.as_deref())?;
        if let Some(labels) = of_files.labels.as_ref().filter(|_| split.name == SplitName::Train) {
            data = data.with_labels_of(labels)?;
        }
        classes = classes.or_else(|| data.classes().map(<[String]>::to_vec));
        words += &extract(&mut extractor, &data, folder.path(), &split.name)?;
    }
    if let Some(path) = given {
        let data = Data::open_flat(path)?.without_labels();
        words += &extract(&mut extractor, &data, folder.path(), &SplitName::Calibrate)?;
    }
    let words = about_model(&extractor, args.model_args.preprocess.took_usual_preset()) + &words;
    let (_, source) = extractor.sources().remove(0);
    Ok(Some(ModelPack { folder, source, words }))
}

fn extract(
    extractor: &mut Extractor,
    data: &Data,
    folder: &Path,
    split: &SplitName,
) -> Result<String, Failure> {
    let progress = Progress::default();
    let report = extractor.extract(data, folder, split, &progress)?;
    drop(progress);
    Ok(report_in_words(&split.to_string(), data.name(), &report))
}

/// Says what is there without a model, or lacks.
fn without_model(args: &FitArgs, is_model: bool) -> Result<(), Failure> {
    if is_model {
        return Err(Failure::Usage(format!(
            "{} is a model: expected what to run it over behind it, as in offspan fit {} train-images/ -o {}",
            args.data.display(),
            args.data.display(),
            args.output.as_deref().unwrap_or(Path::new("net.offspan")).display()
        )));
    }
    if let Some(inputs) = &args.inputs {
        return Err(Failure::Usage(format!(
            "{}: expected one pack or feature file, or a model (a name that ends in .onnx) and its data; got {} in front of it",
            inputs.display(),
            args.data.display()
        )));
    }
    if !args.model_args.is_default() {
        return Err(Failure::Usage(
            "flags of models and images have no meaning for features; they go with `fit MODEL.onnx DATA`".to_owned(),
        ));
    }
    Ok(())
}

/// The model that gave a pack's training rows their features, where the pack tells.
pub(crate) fn source_of_pack(path: &Path) -> Result<Option<ModelSource>, Failure> {
    if !path.is_dir() {
        return Ok(None);
    }
    let file = PackFile::read(path)?;
    // Other splits may have been added to training rows from elsewhere.
    if !file.has_split(&SplitName::Train.to_string()) {
        return Ok(None);
    }
    Ok(file.source(path)?)
}

/// Rows to score, by the model that the detector was fitted with.
pub(crate) struct ModelRows {
    /// Where the features are until they are scored.
    _folder: TempDir,
    pub(crate) datasets: Vec<Dataset<'static>>,
    /// The image or array of each row, with how many rows it has.
    pub(crate) names: Vec<(String, usize)>,
    /// Images that were skipped.
    pub(crate) skipped: Vec<String>,
}

/// Runs the detector's model over what is to be scored; none without a model.
pub(crate) fn extract_for_score(
    args: &ScoreArgs,
    detector: &Detector,
) -> Result<Option<ModelRows>, Failure> {
    let Some(model) = &args.model_args.model else {
        if args.model_args.is_idle() {
            return Err(Failure::Usage(
                "--batch, --on-error and --engine are for images; they go with --model MODEL.onnx"
                    .to_owned(),
            ));
        }
        return Ok(None);
    };
    if !args.logits.is_empty() || !args.read.is_default() {
        return Err(Failure::Usage(
            "--logits, --raw and --columns are for feature files; with --model the network gives all of it".to_owned(),
        ));
    }
    let Some(source) = &detector.info().source else {
        return Err(Failure::Usage(format!(
            "--model: {} does not say which model gave its features; fit it with `offspan fit MODEL.onnx DATA`, or to a \
             pack that `offspan extract` wrote",
            args.detector.display()
        )));
    };
    let mut extractor = Extractor::of_source(model, source, args.model_args.options())?;
    let folder = temporary_folder()?;
    let mut rows =
        ModelRows { _folder: folder, datasets: Vec::new(), names: Vec::new(), skipped: Vec::new() };
    for (index, path) in args.files.iter().enumerate() {
        let data = Data::open_flat(path)?.without_labels();
        let split = SplitName::Ood(index.to_string());
        let progress = Progress::default();
        let report = extractor.extract(&data, rows._folder.path(), &split, &progress)?;
        drop(progress);
        let features = open_dataset(&report.files[0], None)?.named(data.name());
        if data.is_images() {
            let kept = Extractor::kept_rows(&data, &report);
            rows.names.extend(kept.iter().map(|image| (image.display().to_string(), 1)));
        } else {
            rows.names.push((data.name().to_owned(), features.rows()));
        }
        let skipped = report.skipped.iter();
        rows.skipped.extend(
            skipped.map(|image| format!("skipped {}: {}", image.path.display(), image.reason)),
        );
        rows.datasets.push(features);
    }
    Ok(Some(rows))
}
