//! From a model and its data to a pack: features, logits and labels, without a framework.

mod batches;
mod head_file;
mod network_rows;
mod options;
mod pack_file;
mod parts;
mod plan;
mod pool;
mod rows;
mod tensor_file;
mod walk;

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use offspan::{ModelSource, Observer};
use prost::Message;
use toml::Table;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::data::{Data, Inputs, SplitName};
use crate::image::prepare::Preparer;
use crate::image::{Layout, Preprocess};
use crate::input_error::{InputError, InputResult};
use crate::model::{ModelInput, OnnxModel, check_sizes, cut};
use crate::proto::ModelProto;
use crate::run::{Program, Runner, start};

pub use network_rows::NetworkRows;
pub use options::{ExtractOptions, OnError, Steps};
pub use pack_file::PackFile;
pub use parts::Skipped;
pub use plan::{FeatureTensor, Maps};

use parts::Parts;
use plan::{Layer, Plan};

/// Rows that a model which takes any number is given at a time.
const USUAL_BATCH: usize = 16;

/// A model that is ready to give features.
pub struct Extractor {
    model: OnnxModel,
    input: ModelInput,
    plan: Plan,
    /// The part of the model that gives what is wanted.
    wanted: ModelProto,
    /// The order of images, and so of maps.
    layout: Layout,
    options: ExtractOptions,
    runner: Box<dyn Runner>,
    /// Settled by the first images.
    preprocess: Option<Preprocess>,
}

/// What a run over a split gave.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SplitReport {
    /// Rows of features.
    pub rows: usize,
    /// Images without a row.
    pub skipped: Vec<Skipped>,
    /// Files in the folder that are no images.
    pub ignored: Vec<PathBuf>,
    /// Of rows with labels: the share whose label is the class with the largest logit.
    pub agreement: Option<f64>,
    /// Rows that an earlier run had done.
    pub resumed: usize,
    /// The split's files, one for each layer.
    pub files: Vec<PathBuf>,
}

impl Extractor {
    /// Opens a model and finds what is wanted in it.
    ///
    /// # Errors
    /// If it cannot be read or run, or has no such values.
    pub fn new(model: impl AsRef<Path>, options: ExtractOptions) -> InputResult<Self> {
        let model = OnnxModel::open(model)?;
        let plan = Plan::find(&model, &options.feature_tensors, &options.maps)?;
        Self::of_plan(model, plan, options, None)
    }

    /// Opens the model that gave a detector its features, to give more of them in the same way.
    ///
    /// # Errors
    /// If it is another model, or cannot be read or run.
    pub fn of_source(
        model: impl AsRef<Path>,
        source: &ModelSource,
        options: ExtractOptions,
    ) -> InputResult<Self> {
        let model = OnnxModel::open(model)?;
        if model.hash() != source.hash {
            return Err(model.wrong(format!(
                "another model than the one that the detector was fitted with ({}): expected {}, got {}; features of two \
                 networks cannot be compared",
                source.model,
                source.hash,
                model.hash()
            )));
        }
        let preprocess = source.preprocess.clone().map(|steps| {
            let steps: Preprocess = serde_json::from_value(steps.into()).map_err(|error| {
                model.wrong(format!("the detector's steps for images cannot be read: {error}"))
            })?;
            steps.check().map(|()| steps)
        });
        let plan = Plan::of_source(&model, source)?;
        Self::of_plan(model, plan, options, preprocess.transpose()?)
    }

    fn of_plan(
        model: OnnxModel,
        mut plan: Plan,
        options: ExtractOptions,
        preprocess: Option<Preprocess>,
    ) -> InputResult<Self> {
        let input = ModelInput::of(&model)?;
        let told = options.layout.or(preprocess.as_ref().map(|steps| steps.layout));
        // What are no images has no layout; maps of it are taken to have channels first.
        let layout =
            input.images(told).map_or(told.unwrap_or(Layout::Nchw), |images| images.layout);
        plan.find_channels(model.graph(), &input.name, layout);
        if let (Some(fixed), Some(asked)) = (input.fixed_rows(), options.batch)
            && fixed != asked.get()
        {
            return Err(InputError::setting(
                "batch",
                format!("{fixed} rows, the only number that the model takes"),
                asked,
            ));
        }
        let outputs = plan.outputs();
        let wanted = cut(model.proto(), &outputs);
        // An engine computes what is constant when it starts, so sizes are checked before.
        let rows = options.batch.map_or(USUAL_BATCH, NonZeroUsize::get);
        let mut sizes = input.sizes.clone();
        sizes[0] = Some(input.fixed_rows().unwrap_or(rows));
        check_sizes(&wanted, &input.name, &sizes).map_err(|reason| model.wrong(reason))?;
        let program = Program {
            model: wanted.encode_to_vec(),
            input: input.name.clone(),
            outputs,
            threads: rayon::current_num_threads(),
        };
        let runner = start(options.engine, program)?.map_err(|reason| model.wrong(reason))?;
        Ok(Extractor { model, input, plan, wanted, layout, options, runner, preprocess })
    }

    /// The model's version of operators, and the shape of its input in words.
    #[must_use]
    pub fn about(&self) -> (i64, String) {
        (self.model.opset(), self.input.in_words())
    }

    /// What is done to images, once some were seen.
    #[must_use]
    pub fn preprocess(&self) -> Option<&Preprocess> {
        self.preprocess.as_ref()
    }

    /// Where the features of each pack come from, with the name of its folder, empty where there is one pack only.
    #[must_use]
    pub fn sources(&self) -> Vec<(String, ModelSource)> {
        let source = |layer: &Layer| (layer.label.clone(), self.source(layer));
        self.plan.layers.iter().map(source).collect()
    }

    fn source(&self, layer: &Layer) -> ModelSource {
        let mut source = ModelSource::new(self.model.name(), self.model.hash(), &layer.tensor);
        source.pool = layer.pool.to_string();
        source.logit_tensor.clone_from(&self.plan.logits);
        source.map_tensor.clone_from(&self.plan.maps);
        source.preprocess =
            self.preprocess.as_ref().map(|steps| match serde_json::to_value(steps) {
                Ok(serde_json::Value::Object(fields)) => fields,
                _ => unreachable!("the steps are a struct of plain fields"),
            });
        source
    }

    /// Runs the model over data and writes a split of a pack, or of one pack for each layer in folders inside `pack`.
    /// The files appear when all rows are there; until then what is done lies beside them, for a run that goes on.
    ///
    /// # Errors
    /// If data do not fit the model, an image is bad and not to be skipped, a file cannot be written, or the observer
    /// asks to stop.
    pub fn extract(
        &mut self,
        data: &Data,
        pack: &Path,
        split: &SplitName,
        observer: &dyn Observer,
    ) -> InputResult<SplitReport> {
        let preparer = self.prepare(data)?;
        let folders = self.folders(pack);
        let described = self.describe(&folders, data)?;
        let mut parts = self.begin(data, pack, split, observer)?;
        let resumed = parts.state.rows;
        let walked = self.walk(data, preparer.as_ref(), &mut parts, observer);
        if let Err(error) = walked {
            let rows = parts.state.rows;
            // What is done is kept for --resume; that this fails as well is no news.
            let _ = if rows == 0 { parts.remove() } else { parts.save() };
            return Err(with_hint(error, rows));
        }
        if parts.state.rows == 0 {
            parts.remove()?;
            let reason = format!("none of the {} images could be used", data.rows());
            return Err(InputError::data(Path::new(&data.name), reason));
        }
        parts.save()?;
        let mut files = Vec::new();
        for ((layer, folder), mut about) in self.plan.layers.iter().zip(&folders).zip(described) {
            let file = split.file(folder);
            create_folder_of(&file)?;
            tensor_file::assemble(&file, rows::parts_of(layer, parts.parts()))?;
            if let Some(head) = self.plan.head_of(layer) {
                head_file::write(folder, head)?;
            }
            let classes = split.has_classes().then(|| data.classes()).flatten();
            let mut source = self.source(layer);
            // Arrays know nothing of the steps that other splits' images went through.
            if source.preprocess.is_none()
                && let Some(known) = about.source(folder)?
            {
                source.preprocess = known.preprocess;
            }
            about.add(&source, classes, &split.to_string(), self.split_table(data, &parts))?;
            about.write(folder)?;
            files.push(file);
        }
        let report = SplitReport {
            rows: parts.state.rows,
            skipped: parts.state.skipped.iter().map(|skipped| skipped.named(data)).collect(),
            ignored: data.ignored.clone(),
            agreement: (data.labels.is_some() && self.plan.logits.is_some())
                .then(|| parts.state.agreeing as f64 / parts.state.rows as f64),
            resumed,
            files,
        };
        parts.remove()?;
        Ok(report)
    }

    /// Fails if a split that is there already is not what a run over these data would give: another model, value or steps.
    ///
    /// # Errors
    /// If so, or if the pack cannot be read.
    pub fn check_finished(&mut self, data: &Data, pack: &Path) -> InputResult<()> {
        self.prepare(data)?;
        self.describe(&self.folders(pack), data).map(drop)
    }

    /// Whether a run over a split was begun and not finished: its rows lie beside the pack's files, which may be there as well.
    #[must_use]
    pub fn was_begun(pack: &Path, split: &SplitName) -> bool {
        Parts::exist(&parts_folder(pack, split))
    }

    /// The pack's folder for each layer.
    fn folders(&self, pack: &Path) -> Vec<PathBuf> {
        self.plan.layers.iter().map(|layer| pack.join(&layer.label)).collect()
    }

    /// Settles what is done to images, and checks that the model can take the data.
    fn prepare(&mut self, data: &Data) -> InputResult<Option<Preparer>> {
        match &data.inputs {
            Inputs::Images(_) => {
                let input =
                    self.input
                        .images(Some(self.layout).filter(|_| {
                            self.options.layout.is_some() || self.preprocess.is_some()
                        }))?;
                let steps = match &self.preprocess {
                    Some(steps) => steps.clone(),
                    None => match &self.options.steps {
                        Steps::Chosen(choice) => choice.resolve(input)?,
                        Steps::AsFitted => {
                            return Err(InputError::data(
                                Path::new(&data.name),
                                "the detector was fitted with arrays, so nothing is known of how images become the network's \
                                 inputs; give arrays (.npy, .safetensors)",
                            ));
                        }
                    },
                };
                steps.check_fits(input)?;
                let preparer = Preparer::new(&steps);
                self.preprocess = Some(steps);
                Ok(Some(preparer))
            }
            Inputs::Arrays(array) => {
                if let Steps::Chosen(choice) = &self.options.steps
                    && !choice.is_default()
                {
                    return Err(InputError::data(
                        Path::new(&data.name),
                        "--preprocess and its like are for images; arrays are given to the network as they are",
                    ));
                }
                let path = Path::new(&data.name);
                self.input
                    .check_row(&array.shape)
                    .map_err(|reason| InputError::data(path, reason))?;
                Ok(None)
            }
        }
    }

    /// What the packs say of themselves so far, after it was found to go with this model.
    fn describe(&self, folders: &[PathBuf], data: &Data) -> InputResult<Vec<PackFile>> {
        let mut all = Vec::new();
        for (layer, folder) in self.plan.layers.iter().zip(folders) {
            let file = PackFile::read(folder)?;
            if let Some(known) = file.source(folder)? {
                let mut source = self.source(layer);
                // Arrays say nothing of images, and images nothing of arrays.
                if !data.is_images() || known.preprocess.is_none() {
                    source.preprocess.clone_from(&known.preprocess);
                }
                if known != source {
                    return Err(InputError::data(
                        folder,
                        format!(
                            "the pack's other splits come from {} ({}) in another way; expected the same model, value and \
                             steps for all splits of a pack, got {} ({})",
                            known.model, known.feature_tensor, source.model, source.feature_tensor
                        ),
                    ));
                }
            }
            if let Some(head) = self.plan.head_of(layer).filter(|_| !self.options.force) {
                head_file::check(folder, head)?;
            }
            all.push(file);
        }
        Ok(all)
    }

    /// The files of this run: new ones, or those of an earlier run that is resumed.
    fn begin(
        &self,
        data: &Data,
        pack: &Path,
        split: &SplitName,
        observer: &dyn Observer,
    ) -> InputResult<Parts> {
        let folder = parts_folder(pack, split);
        let request = self.request(data);
        let every = self.options.save_every;
        match (Parts::exist(&folder), self.options.resume, self.options.force) {
            (true, true, _) => Parts::resume(&folder, &request, every),
            (true, false, false) => Err(InputError::data(
                &folder,
                "an extraction that was begun and not finished; --resume goes on with it, --force begins anew",
            )),
            (false, true, _) => {
                observer.note(&format!(
                    "nothing to resume for {split}: it is extracted from the beginning"
                ));
                Parts::begin(&folder, &request, every)
            }
            (_, false, _) => Parts::begin(&folder, &request, every),
        }
    }

    /// Hash of everything that decides what comes out.
    fn request(&self, data: &Data) -> String {
        let inputs = match &data.inputs {
            // By name: a bad image may be mended between two runs. Not every name is text.
            Inputs::Images(images) => {
                let mut names = Xxh3::new();
                for path in images {
                    names.update(path.as_os_str().as_encoded_bytes());
                    names.update(&[0]);
                }
                serde_json::json!([images.len(), format!("{:032x}", names.digest128())])
            }
            // A file that is changed between two runs is another one, whatever it is called.
            Inputs::Arrays(array) => {
                let stamp = stamp(Path::new(&data.name));
                serde_json::json!([data.name, stamp, data.rows(), array.shape])
            }
        };
        let sources: Vec<ModelSource> =
            self.sources().into_iter().map(|(_, source)| source).collect();
        let all = serde_json::json!([
            sources,
            inputs,
            data.labels,
            self.layout.to_string(),
            self.options.half_precision,
            self.options.on_error == OnError::Skip,
            self.options.engine.to_string(),
        ]);
        format!("xxh3-128:{:032x}", xxh3_128(all.to_string().as_bytes()))
    }

    fn split_table(&self, data: &Data, parts: &Parts) -> Table {
        let mut table = Table::new();
        table.insert("data".to_owned(), data.name.as_str().into());
        let count = |count: usize| toml::Value::Integer(i64::try_from(count).unwrap_or(i64::MAX));
        table.insert("rows".to_owned(), count(parts.state.rows));
        table.insert("skipped".to_owned(), count(parts.state.skipped.len()));
        table
    }

    /// The images or rows that gave a row, in their order.
    #[must_use]
    pub fn kept_rows(data: &Data, report: &SplitReport) -> Vec<PathBuf> {
        let skipped: HashSet<&PathBuf> =
            report.skipped.iter().map(|skipped| &skipped.path).collect();
        let all = (0..data.rows()).map(|row| data.row_name(row));
        all.filter(|path| !skipped.contains(path)).collect()
    }
}

/// Where the rows of a split lie until it is done.
fn parts_folder(pack: &Path, split: &SplitName) -> PathBuf {
    pack.join(format!(".extract-{}", split.to_string().replace('/', "-")))
}

/// Size and time of the last change of a file, in nanoseconds, as far as they can be had.
fn stamp(path: &Path) -> Option<(u64, Option<u64>)> {
    let about = std::fs::metadata(path).ok()?;
    let changed = about.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Some((about.len(), changed.and_then(|since| u64::try_from(since.as_nanos()).ok())))
}

/// Says that an interrupted run can go on.
fn with_hint(error: InputError, rows: usize) -> InputError {
    match error {
        InputError::Library(offspan::Error::Interrupted { .. }) => {
            let hint = format!("; {rows} rows are kept for --resume");
            offspan::Error::Interrupted { hint }.into()
        }
        other => other,
    }
}

fn create_folder_of(file: &Path) -> InputResult<()> {
    match file.parent() {
        Some(folder) => std::fs::create_dir_all(folder).map_err(InputError::io("create", folder)),
        None => Ok(()),
    }
}
