//! Arguments about models, and about the images that they are run over.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use offspan_onnx::{
    Channels, Engine, ExtractOptions, FeatureTensor, Interpolation, Layout, Maps, OnError,
    PreprocessChoice, Preset, Size, SplitName, Steps,
};

use crate::args::{FORCE, JsonArgs};

/// What is done to images.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Images")]
pub(crate) struct PreprocessArgs {
    /// What a library does by default: torchvision, timm, keras or none; the flags below override it
    /// [default: torchvision]
    #[arg(long, value_name = "PRESET")]
    preprocess: Option<Preset>,

    /// Resize the shorter side to N pixels, or both to HxW; none leaves images as they are
    #[arg(long, value_name = "N|HxW|none")]
    size: Option<Size>,

    /// Then keep the middle N x N or H x W pixels; none keeps all
    #[arg(long, value_name = "N|HxW|none")]
    crop: Option<Size>,

    /// How pixels are computed anew: bilinear, bicubic, lanczos or nearest
    #[arg(long, value_name = "HOW")]
    interpolation: Option<Interpolation>,

    /// Colours in the order that the network wants: rgb, bgr or gray
    #[arg(long, value_name = "ORDER")]
    channel_order: Option<Channels>,

    /// What bytes are multiplied with, as in 1/255
    #[arg(long, value_name = "FACTOR", value_parser = fraction)]
    scale: Option<f64>,

    /// What is then subtracted: one number, or one per channel
    #[arg(long, value_name = "X[,X,X]", value_delimiter = ',', allow_negative_numbers = true)]
    mean: Option<Vec<f64>>,

    /// What the rest is divided by: one number, or one per channel
    #[arg(long, value_name = "X[,X,X]", value_delimiter = ',')]
    std: Option<Vec<f64>>,

    /// The order of the network's input, nchw or nhwc, where its shape does not tell
    #[arg(long, value_name = "ORDER")]
    layout: Option<Layout>,
}

/// A number, or one over another.
fn fraction(text: &str) -> Result<f64, String> {
    let number = |text: &str| {
        text.trim().parse::<f64>().map_err(|_| format!("expected a number, as in 1/255, got `{text}`"))
    };
    match text.split_once('/') {
        Some((above, below)) => Ok(number(above)? / number(below)?),
        None => number(text),
    }
}

impl PreprocessArgs {
    fn choice(&self) -> PreprocessChoice {
        PreprocessChoice {
            preset: self.preprocess,
            size: self.size,
            crop: self.crop,
            interpolation: self.interpolation,
            channels: self.channel_order,
            scale: self.scale,
            mean: self.mean.clone(),
            std: self.std.clone(),
        }
    }

    fn is_default(&self) -> bool {
        self.choice().is_default() && self.layout.is_none()
    }

    /// Whether the usual preset was taken because none was named.
    pub(crate) fn took_usual_preset(&self) -> bool {
        self.preprocess.is_none()
    }
}

/// How a model is run.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Model")]
pub(crate) struct RunArgs {
    /// Rows at a time, for models that take any number [default: 16]
    #[arg(long, value_name = "ROWS")]
    batch: Option<NonZeroUsize>,

    /// What to do with an image that cannot be used: stop, or skip it and name it at the end
    #[arg(long, value_name = "WHAT", default_value_t = OnError::Stop)]
    pub(crate) on_error: OnError,

    /// What runs the model: rten, or ort where the program was built with it
    #[arg(long, value_name = "ENGINE", default_value_t = Engine::Rten)]
    engine: Engine,
}

impl RunArgs {
    fn is_default(&self) -> bool {
        self.batch.is_none() && self.on_error == OnError::Stop && self.engine == Engine::Rten
    }

    fn options(&self, steps: Steps) -> ExtractOptions {
        let mut options = ExtractOptions::default();
        options.steps = steps;
        options.batch = self.batch;
        options.on_error = self.on_error;
        options.engine = self.engine;
        options
    }
}

/// Which values of a model are taken.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Model")]
pub(crate) struct ValueArgs {
    /// The value to take as features, with how it is pooled (avg, max, cls or none) [default: what enters
    /// the last linear layer]
    #[arg(long, value_name = "NAME[:POOL]")]
    feature_tensor: Vec<FeatureTensor>,

    /// Also keep the maps whose averages the features are, for rank-feat; =NAME for another value
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    maps: Option<String>,
}

impl ValueArgs {
    fn is_default(&self) -> bool {
        self.feature_tensor.is_empty() && self.maps.is_none()
    }

    fn set(&self, options: &mut ExtractOptions) {
        options.feature_tensors.clone_from(&self.feature_tensor);
        options.maps = match self.maps.as_deref() {
            None => Maps::No,
            Some("") => Maps::Find,
            Some(name) => Maps::Named(name.to_owned()),
        };
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  offspan extract model.onnx train-images/ -o my-pack             a folder for each class, or images alone
  offspan extract model.onnx all/ -o my-pack                      all/train, all/test, all/val, all/ood/NAME
  offspan extract model.onnx list.txt --split test -o my-pack     paths, and class numbers behind them
  offspan extract model.onnx inputs.npy --split ood/noise -o my-pack
  offspan extract model.onnx images/ --preprocess timm --size 232 -o my-pack
  offspan extract model.onnx images/ --feature-tensor early=/layer1/Relu_output_0:avg \\
      --feature-tensor late=/layer4/Relu_output_0:avg -o layers   two packs, layers/early and layers/late

The features are what enters the model's last linear layer. Images are resized, cropped and scaled as
--preprocess and the flags say; this is printed, and kept in pack.toml and in every detector that is
fitted to the pack. A run that was killed goes on with --resume.")]
pub(crate) struct ExtractArgs {
    /// An ONNX model
    #[arg(value_name = "MODEL.onnx")]
    pub(crate) model: PathBuf,

    /// A folder of images (sub-folders are classes) or of train, test, val and ood/NAME; a list of images; or an
    /// array of inputs (.npy, .safetensors)
    #[arg(value_name = "DATA")]
    pub(crate) data: PathBuf,

    /// The pack folder; splits that are there stay
    #[arg(short, long, value_name = "PACK")]
    pub(crate) output: PathBuf,

    /// The part of the pack that the data are: train, test, calibrate or ood/NAME [default: train, or what sub-folders
    /// called so say]
    #[arg(long, value_name = "SPLIT")]
    pub(crate) split: Option<SplitName>,

    /// Class labels of the rows (whole numbers), where the data have none
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,

    /// Keep features and maps in f16, or in f32
    #[arg(long = "type", value_name = "TYPE", default_value = "f32", value_parser = ["f16", "f32"])]
    pub(crate) element: String,

    /// Go on with a run that was not finished
    #[arg(long)]
    pub(crate) resume: bool,

    #[arg(long, help = FORCE)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) json: JsonArgs,

    #[command(flatten)]
    values: ValueArgs,

    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) preprocess: PreprocessArgs,
}

impl ExtractArgs {
    pub(crate) fn options(&self) -> ExtractOptions {
        let mut options = self.run.options(Steps::Chosen(self.preprocess.choice()));
        options.layout = self.preprocess.layout;
        options.resume = self.resume;
        options.force = self.force;
        options.half_precision = self.element == "f16";
        self.values.set(&mut options);
        options
    }
}

/// What `fit` takes behind a model.
#[derive(Args, Clone, Default)]
pub(crate) struct FitModelArgs {
    #[command(flatten)]
    values: ValueArgs,

    #[command(flatten)]
    pub(crate) run: RunArgs,

    #[command(flatten)]
    pub(crate) preprocess: PreprocessArgs,
}

impl FitModelArgs {
    /// Whether nothing was said.
    pub(crate) fn is_default(&self) -> bool {
        self.values.is_default() && self.run.is_default() && self.preprocess.is_default()
    }

    pub(crate) fn options(&self) -> ExtractOptions {
        let mut options = self.run.options(Steps::Chosen(self.preprocess.choice()));
        options.layout = self.preprocess.layout;
        self.values.set(&mut options);
        options
    }

    /// How many values were named.
    pub(crate) fn layers(&self) -> usize {
        self.values.feature_tensor.len()
    }
}

/// What `score` takes for models.
#[derive(Args, Clone, Default)]
pub(crate) struct ScoreModelArgs {
    /// The model that the detector was fitted with; rows to score are then images or arrays that it is run
    /// over, in the same way
    #[arg(long, value_name = "MODEL.onnx", help_heading = "Model")]
    pub(crate) model: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) run: RunArgs,
}

impl ScoreModelArgs {
    /// A flag that means nothing without a model.
    pub(crate) fn is_idle(&self) -> bool {
        self.model.is_none() && !self.run.is_default()
    }

    pub(crate) fn options(&self) -> ExtractOptions {
        self.run.options(Steps::AsFitted)
    }
}
