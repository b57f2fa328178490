//! What the command line accepts, with help that teaches.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use offspan::io::{ColumnChoice, ElementType, RawLayout, Reading};
use offspan::metrics::FprRule;
use offspan::{Preset, Promise, Residual, Sampling};
use offspan_report::table::Format;
use offspan_study::evaluation::ReadAs;

use crate::eval_args::{EvalArgs, RankArgs};
use crate::method_args::MethodArgs;
use crate::output::{Failure, Json};
use crate::progress::Progress;

/// One sentence for every command that writes files.
pub(crate) const FORCE: &str = "Replace files of another kind, too; an input is never replaced";

/// One sentence for every command that fits methods.
pub(crate) const PSEUDO_LABELS: &str = "Where training rows have no labels: K clusters of their directions stand in for \
                                        classes, so that methods which need classes run";

/// Tells how far a sample lies off the span of a network's own features.
///
/// offspan learns, from the features that a trained network gives for its own data, the subspace
/// that they fill, and scores new rows by how far they lie off it. Higher scores are more
/// in-distribution, everywhere.
#[derive(Parser)]
#[command(name = "offspan", version, max_term_width = 100)]
#[command(after_help = "\
First steps:
  offspan demo                                     see it work on embedded data
  offspan fit train.npy -o net.offspan             needs no parameters and no OoD data
  offspan fit model.onnx images/ -o net.offspan    the same from a classifier and its training images
  offspan score net.offspan new.npy                one line per row: score, p-value, in or out
  offspan eval PACK --method pca,kpca-nys,knn      compare methods on a pack folder
  offspan eval PACK --method all --report out/     the same as a page with pictures

For machines: --json prints one JSON document on stdout instead of words, and --json=FILE writes it to a
file beside the words, in every command that has results.

Exit codes: 0 fine, 1 the question was answered \"no\" (score --check, calibrate --check, monitor),
2 error, 130 interrupted, 143 terminated.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Threads to use; results do not depend on it [default: all cores]
    #[arg(long, global = true, value_name = "T")]
    pub(crate) threads: Option<NonZeroUsize>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the whole way on embedded data: fit, score, evaluate
    Demo(DemoArgs),
    /// Run an ONNX model over images or arrays and write a pack of its features
    #[cfg(feature = "onnx")]
    Extract(crate::model_args::ExtractArgs),
    /// Fit a detector to training features
    Fit(Box<FitArgs>),
    /// Score rows with a detector
    Score(ScoreArgs),
    /// Set a detector's threshold anew, or test whether later rows still fit it
    Calibrate(CalibrateArgs),
    /// Write a detector as an ONNX file, alone or behind the model that its features come from
    #[cfg(feature = "onnx")]
    Export(ExportArgs),
    /// Watch a stream of batches and say when its scores have moved
    Monitor(MonitorArgs),
    /// Serve detectors over REST and gRPC, with metrics, drift alarms and a live page
    #[cfg(feature = "serve")]
    Serve(Box<crate::serve_args::ServeArgs>),
    /// Fit methods on a pack and measure how well they tell OoD from InD
    Eval(Box<EvalArgs>),
    /// Rank methods over many packs: mean ranks, wins, regret, and a critical-difference diagram
    Rank(Box<RankArgs>),
    /// Compare settings of a method without any OoD data
    Tune(TuneArgs),
    /// Repeat the paper's studies on your own pack
    #[command(subcommand)]
    Study(StudyCommand),
    /// Turn features of other programs into a pack: OpenOOD, PyTorch, Hugging Face, the authors' caches
    Convert(ConvertArgs),
    /// Say what a detector, state, pack or feature file is
    Inspect(InspectArgs),
    /// List every method with what it needs, its parameters and defaults
    Methods(MethodsArgs),
    /// Write a synthetic feature file of any size, to try scale
    Synth(SynthArgs),
    /// Print shell completions
    Completions(CompletionsArgs),
    /// Print the manual page, or write one page per command
    Man(ManArgs),
}

/// Results for machines: one rule for every command.
#[derive(Args, Clone, Default)]
pub(crate) struct JsonArgs {
    /// Print JSON on stdout instead of words; =FILE: write it there, beside the words
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "-"
    )]
    json: Option<PathBuf>,
}

impl JsonArgs {
    pub(crate) fn target(&self) -> Json<'_> {
        Json::of(self.json.as_deref())
    }
}

/// How feature files are read, where they do not tell it themselves.
#[derive(Args, Clone, Default)]
pub(crate) struct ReadArgs {
    /// Type and width of files without header, such as f64:2048
    #[arg(long, value_name = "TYPE:WIDTH")]
    pub(crate) raw: Option<RawLayout>,

    /// Columns of Parquet and Arrow files: a list column, a prefix of numbered columns, a range (f0..f511), or names
    /// separated by commas; with logits= or labels= in front, those of logits or labels. May be given once for each
    /// [default: features, logits and labels, or the only columns that could be]
    #[arg(long, value_name = "[PART=]COLUMNS")]
    pub(crate) columns: Vec<String>,
}

impl ReadArgs {
    /// Whether nothing was said.
    pub(crate) fn is_default(&self) -> bool {
        self.raw.is_none() && self.columns.is_empty()
    }

    /// The same for a document, so that what was read can be read again.
    pub(crate) fn told(&self) -> ReadAs {
        ReadAs { raw: self.raw.map(|raw| raw.to_string()), columns: self.columns.clone() }
    }

    /// The same for the library, with progress while tables are decoded.
    pub(crate) fn reading(&self) -> Result<Reading, Failure> {
        let columns = ColumnChoice::parse(&self.columns)
            .map_err(|reason| Failure::Usage(format!("--columns: {reason}")))?;
        Ok(Reading::from(self.raw).columns(columns).observer(Arc::new(Progress::default())))
    }
}

/// What belongs to features that come as single files.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Data")]
pub(crate) struct DataArgs {
    /// Logits of the same rows, where the feature file has none
    #[arg(long, value_name = "FILE")]
    pub(crate) logits: Option<PathBuf>,

    /// Class labels of the same rows (whole numbers), where the feature file has none
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,

    /// The network's last layer: .safetensors with `weight` and `bias`, or weight.npy,bias.npy
    #[arg(long, value_name = "FILE")]
    pub(crate) head: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

impl DataArgs {
    /// The files that were given.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.logits, &self.labels, &self.head].into_iter().flatten()
    }
}

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Also write the embedded data as a pack folder, to go on with
    #[arg(long, value_name = "DIR")]
    pub(crate) write_pack: Option<PathBuf>,

    /// Write a report with pictures into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,

    #[arg(long, help = FORCE)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  offspan fit PACK -o net.offspan                          decides everything by itself
  offspan fit train.npy --logits train-logits.npy --head head.safetensors -o net.offspan
  offspan fit PACK --keep 0.99 --confidence 0.9 -o net.offspan
  offspan fit PACK --method kpca-nys --gamma 1 -o net.offspan
  offspan fit huge.npy --method kpca-rff --checkpoint fit.ckpt -o net.offspan
  offspan fit cache.mmap --raw f64:2048 --method kpca-rff -o net.offspan
  offspan fit train.parquet --columns embedding -o net.offspan
  offspan fit model.onnx train-images/ -o net.offspan      a classifier and its training images

Rows are read in chunks, so files may be larger than memory. A fit that is killed goes on from its
last checkpoint when the same command runs again, and ends with the same detector.")]
pub(crate) struct FitArgs {
    /// A pack folder (its `train`), a feature file (.npy, .npz, .safetensors, .parquet, .arrow, .feather), or a
    /// folder of part files (part-0000.parquet, …)
    #[arg(value_name = "PACK|FILE|MODEL.onnx")]
    pub(crate) data: PathBuf,

    /// Behind a model: what it is run over, as `offspan extract` takes it
    #[cfg(feature = "onnx")]
    #[arg(value_name = "DATA")]
    pub(crate) inputs: Option<PathBuf>,

    /// Where to write the detector
    #[arg(short, long, value_name = "DETECTOR", required_unless_present = "dry_run")]
    pub(crate) output: Option<PathBuf>,

    #[arg(long, help = FORCE)]
    pub(crate) force: bool,

    /// Write nothing, and tell what the fit would take: rows, passes over them, memory, and time, which is measured
    /// by fits to at most 3,000 of the rows. Exit code 1 if the memory is more than there is
    #[arg(long, conflicts_with_all = ["output", "force", "checkpoint"])]
    pub(crate) dry_run: bool,

    /// The method; `offspan methods` lists them
    #[arg(short, long, value_name = "NAME", default_value = "auto")]
    pub(crate) method: String,

    /// In-distribution rows to set the threshold with [default: `calibrate` or `val` of the pack, or
    /// held-out training rows]
    #[arg(long, value_name = "FILE", help_heading = "Threshold")]
    pub(crate) calibrate: Option<PathBuf>,

    /// Share of the training rows to hold out for the threshold; 0: no threshold [default: 0.05, or
    /// more of few rows]
    #[arg(long, value_name = "SHARE", help_heading = "Threshold")]
    pub(crate) hold_out: Option<f64>,

    /// Share of in-distribution rows that the threshold keeps at least
    #[arg(long, value_name = "SHARE", default_value_t = Promise::default().keep, help_heading = "Threshold")]
    pub(crate) keep: f64,

    /// Probability that at least --keep is really kept, over the choice of the rows that the threshold is
    /// set with
    #[arg(long, value_name = "SHARE", default_value_t = Promise::default().confidence, help_heading = "Threshold")]
    pub(crate) confidence: f64,

    #[arg(long, value_name = "K", help_heading = "Data", conflicts_with = "labels", help = PSEUDO_LABELS)]
    pub(crate) pseudo_labels: Option<usize>,

    /// Save progress here, and go on from here after a kill
    #[arg(long, value_name = "FILE", help_heading = "Long fits")]
    pub(crate) checkpoint: Option<PathBuf>,

    /// Least seconds between two saves
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, help_heading = "Long fits")]
    pub(crate) checkpoint_every: f64,

    #[command(flatten)]
    pub(crate) json: JsonArgs,

    #[command(flatten)]
    pub(crate) data_args: DataArgs,

    #[cfg(feature = "onnx")]
    #[command(flatten)]
    pub(crate) model_args: crate::model_args::FitModelArgs,

    #[command(flatten)]
    pub(crate) method_args: MethodArgs,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  offspan score net.offspan new.npy | head
  offspan score net.offspan new.npy -o scores.npy      one float64 per row
  offspan score net.offspan batch.npy --check          exit code 1 if a row is out
  offspan score net.offspan batch.npy --fdr 0.1        at most a tenth of the rows called out are in
  offspan score net.offspan monday.npy tuesday.npy     several files, named in a column of their own
  offspan score net.offspan my-pack/ood                every feature file in a folder
  my-program | offspan score net.offspan -             CSV or .npy on stdin
  offspan score net.offspan new-images/ --model model.onnx    images, by the model that the detector was fitted with

  offspan score net.offspan new.npy --explain          also what each term of the score says of each row

Rows of several files are one batch: --check asks for any of them, --fdr decides over all. A p-value says how unusual a row is: of in-distribution rows at most a share u has one of at most u. With --explain, the terms with a small p-value (p_TERM) and a large weight (`offspan inspect`) are why a row is out: a row's score is the sum of weight * ln p over the terms.")]
pub(crate) struct ScoreArgs {
    /// A detector from `offspan fit`
    pub(crate) detector: PathBuf,

    /// Rows to score: .npy, .npz, .safetensors, .parquet, .arrow or .feather files, folders of them, folders of part
    /// files, or - for CSV or .npy on stdin
    #[arg(required = true, value_name = "FILE|FOLDER|-")]
    pub(crate) files: Vec<PathBuf>,

    /// Write the scores: .npy (float64) or .csv [default: CSV to stdout]
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) output: Option<PathBuf>,

    #[arg(long, help = FORCE)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) json: JsonArgs,

    /// Exit with 1 if any row is out; needs a detector with a threshold
    #[arg(long)]
    pub(crate) check: bool,

    /// Decide by all p-values together (Benjamini-Hochberg), not by the threshold: of the rows that are
    /// called out, on average at most this share is in-distribution
    #[arg(long, value_name = "SHARE")]
    pub(crate) fdr: Option<f64>,

    /// Add the p-value of each term of the score (CSV: columns p_TERM; JSON: with weights, under
    /// `explain`); needs a detector whose score has terms, such as auto
    #[arg(long)]
    pub(crate) explain: bool,

    /// Logits of the same rows, one file for each file of rows in the same order, for detectors that
    /// use the energy
    #[arg(long, value_name = "FILE")]
    pub(crate) logits: Vec<PathBuf>,

    #[cfg(feature = "onnx")]
    #[command(flatten)]
    pub(crate) model_args: crate::model_args::ScoreModelArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  offspan calibrate net.offspan holdout.npy -o net.offspan       another set of rows
  offspan calibrate net.offspan --keep 0.99 -o strict.offspan    another promise, from the same rows
  offspan calibrate net.offspan today.npy --check                do today's rows still fit?

The rows must be in-distribution, and none that the fit has seen.")]
pub(crate) struct CalibrateArgs {
    /// A detector from `offspan fit`
    pub(crate) detector: PathBuf,

    /// In-distribution rows: a feature file [default: the scores that the detector keeps]
    pub(crate) file: Option<PathBuf>,

    /// Where to write the detector; may be the same file
    #[arg(short, long, value_name = "DETECTOR", conflicts_with = "check")]
    pub(crate) output: Option<PathBuf>,

    #[arg(long, requires = "output", help = FORCE)]
    pub(crate) force: bool,

    /// Share of in-distribution rows that the threshold keeps at least [default: as before, or 0.95]
    #[arg(long, value_name = "SHARE", conflicts_with = "check")]
    pub(crate) keep: Option<f64>,

    /// Probability that at least --keep is really kept [default: as before, or 0.95]
    #[arg(long, value_name = "SHARE", conflicts_with = "check")]
    pub(crate) confidence: Option<f64>,

    /// Change nothing, and test whether the rows fit the calibration; exit with 1 if not
    #[arg(long)]
    pub(crate) check: bool,

    /// --check: a p-value below this says that they do not [default: 0.01]
    #[arg(long, value_name = "P", requires = "check")]
    pub(crate) level: Option<f64>,

    #[command(flatten)]
    pub(crate) json: JsonArgs,

    /// Logits of the same rows, for detectors that use them
    #[arg(long, value_name = "FILE", requires = "file")]
    pub(crate) logits: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

#[cfg(feature = "onnx")]
#[derive(Args)]
#[command(after_help = "\
Examples:
  offspan export net.offspan -o net.onnx                             features in; score, is_ood, p_value out
  offspan export net.offspan --attach model.onnx -o guarded.onnx     the model with these outputs beside its own

The threshold is an input with a default: a caller may give another one. docs/export.md has the methods that can be
exported, and how closely the scores agree.")]
pub(crate) struct ExportArgs {
    /// A detector from `offspan fit`
    pub(crate) detector: PathBuf,

    /// Where to write the ONNX file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// A classifier to put the detector behind
    #[arg(long, value_name = "MODEL")]
    pub(crate) attach: Option<PathBuf>,

    /// The model's value that is the features, pooled by avg, max, cls or none [default: that of the fit; what enters its
    /// last linear layer]
    #[arg(long, value_name = "NAME[:POOL]", requires = "attach")]
    pub(crate) feature_tensor: Option<String>,

    /// Take another model than the one that the detector was fitted with
    #[arg(long, requires = "attach")]
    pub(crate) any_model: bool,

    #[arg(long, help = FORCE)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  offspan monitor net.offspan monday.npy tuesday.npy            features, in the order they came
  offspan monitor net.offspan scores.csv --batch 500            scores from `offspan score`
  offspan monitor net.offspan today.npy --state net.monitor     goes on where it was yesterday
  offspan monitor --state net.monitor --reset                   forgets the stream

A batch that the stream has had is named and not counted, so that a job can be repeated: rows are known
by their contents, or by --batch-id; the last 4096 batches are remembered. Runs with the same state wait
for one another (FILE.lock). `offspan inspect STATE` shows a state.

Two things are watched: the share of rows that are out, and the scores as a whole. Exit code 1 after
an alarm. Without a change the chance of ever an alarm, however long the stream, is at most
--false-alarm, as long as rows come independently of one another.")]
pub(crate) struct MonitorArgs {
    /// A detector from `offspan fit`, with a threshold
    #[arg(required_unless_present = "reset")]
    pub(crate) detector: Option<PathBuf>,

    /// Batches in order: feature files, or scores (one-dimensional .npy, or .csv with a column `score`)
    #[arg(required_unless_present = "reset", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// What a batch is known by, instead of its contents: one for each batch in the same order
    #[arg(long, value_name = "ID")]
    pub(crate) batch_id: Vec<String>,

    /// Count batches again that the stream has had
    #[arg(long)]
    pub(crate) again: bool,

    /// Logits of the same rows, one file for each batch in the same order, for detectors that use them
    #[arg(long, value_name = "FILE")]
    pub(crate) logits: Vec<PathBuf>,

    /// Chance of ever an alarm if nothing changes
    #[arg(long, value_name = "P", default_value_t = 0.01)]
    pub(crate) false_alarm: f64,

    /// Go on from this file where it exists, and save to it
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,

    /// Forget what the state knows: begin anew with the batches, or remove it where none are given
    #[arg(long, requires = "state")]
    pub(crate) reset: bool,

    /// Report after so many rows, not only after each file
    #[arg(long, value_name = "ROWS")]
    pub(crate) batch: Option<NonZeroUsize>,

    /// Seed of the random numbers that break ties
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) json: JsonArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// How a pack is read, and how scores of it are judged.
#[derive(Args)]
pub(crate) struct JudgeArgs {
    #[command(flatten)]
    pub(crate) read: ReadArgs,

    /// Share of in-distribution rows to keep when the false-positive rate is measured
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, help_heading = "Metrics")]
    pub(crate) tpr: f64,

    /// Rule for the false-positive rate: at-least, authors or ood-positive
    #[arg(long, value_name = "RULE", default_value_t = FprRule::AtLeast, help_heading = "Metrics")]
    pub(crate) fpr_rule: FprRule,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  offspan tune PACK                                             what auto chose, and what is around it
  offspan tune PACK --method kpca-nys -o out/                   a usual grid, with a plot
  offspan tune PACK --method kpca-nys --try gamma=0.1,0.3,1 --try sampling=uniform,low-energy
  offspan tune train.npy --validate ood.npy               judged by a set that you have

Without an OoD set, classes of the training rows stand in for one: a fit does not see some classes, the
network's outputs for them are taken away, and the better a setting tells their rows from rows of the
other classes, the better it is. Where classes are unknown, rows mixed from two rows stand in.")]
pub(crate) struct TuneArgs {
    /// A pack folder (its `train`), a feature file (.npy, .npz, .safetensors, .parquet, .arrow, .feather), or a
    /// folder of part files (part-0000.parquet, …)
    #[arg(value_name = "PACK|FILE")]
    pub(crate) data: PathBuf,

    /// Methods to compare, separated by commas
    #[arg(short, long, value_name = "NAME[,NAME…]", value_delimiter = ',', default_value = "auto")]
    pub(crate) method: Vec<String>,

    /// A flag of the method and the values to try, such as gamma=0.1,0.3,1; may be given several times,
    /// and all combinations are tried [default: a grid of the method's own]
    #[arg(long = "try", value_name = "FLAG=VALUE[,VALUE…]")]
    pub(crate) values: Vec<String>,

    /// Out-of-distribution sets to judge with, instead of stand-ins
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub(crate) validate: Vec<PathBuf>,

    /// Training rows to use, at most
    #[arg(long, value_name = "N", default_value_t = 6000)]
    pub(crate) rows: usize,

    /// How often other classes are left out
    #[arg(long, value_name = "N", default_value = "5")]
    pub(crate) trials: NonZeroUsize,

    /// Write a page with the plots into this folder
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    #[arg(long, requires = "output", help = FORCE)]
    pub(crate) force: bool,

    /// Seed of every random choice
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) json: JsonArgs,

    #[command(flatten)]
    pub(crate) data_args: DataArgs,
}

#[derive(Subcommand)]
#[command(after_help = "\
Every study writes into its folder a page (NAME.html), a table (NAME.md, NAME.csv), a document
(NAME.json) and plots (plots/). Results are kept there, too: a study that was stopped goes on where
it was, and a repeated one computes only what changed.")]
pub(crate) enum StudyCommand {
    /// Kernels and their approximations, each with and without the cosine map
    Kernels(StudyArgs),
    /// Landmarks: uniform, high-energy, low-energy; residual: plain, complete
    Sampling(StudyArgs),
    /// Explained variance, γ and M, one at a time, and γ against the explained variance
    Sensitivity(StudyArgs),
    /// Packs of several layers of one network side by side
    Layers(LayersArgs),
    /// Residuals of approximated kernel PCA against those of the full kernel matrix
    Approximation(StudyArgs),
    /// Time and storage of a score by nearest neighbours and by kernel PCA, on this machine
    Cost(StudyArgs),
    /// With and without learnable kernels
    Learned(StudyArgs),
    /// All of them and every method, in one page laid out like the paper
    Paper(PaperArgs),
}

#[derive(Args)]
pub(crate) struct StudyArgs {
    /// A pack folder
    pub(crate) pack: PathBuf,

    #[command(flatten)]
    pub(crate) options: StudyOptions,
}

#[derive(Args)]
pub(crate) struct LayersArgs {
    /// Pack folders, one for each layer
    #[arg(required = true, value_name = "PACK")]
    pub(crate) packs: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) options: StudyOptions,
}

#[derive(Args)]
pub(crate) struct PaperArgs {
    /// A pack folder; more of them are other layers of the same network
    #[arg(required = true, value_name = "PACK")]
    pub(crate) packs: Vec<PathBuf>,

    /// Figures of the paper to put beside, as comma-separated values with a header
    #[arg(long, value_name = "FILE")]
    pub(crate) published: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) options: StudyOptions,
}

/// What every study takes.
#[derive(Args)]
pub(crate) struct StudyOptions {
    /// The study's folder
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,

    #[arg(long, help = FORCE)]
    pub(crate) force: bool,

    /// Print the study's table on stdout, as it is in the folder: markdown, csv, latex (booktabs), json or html.
    /// That of `paper` is the comparison of methods [default: text, which says where the page is]
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Text, hide_default_value = true)]
    pub(crate) format: Format,

    #[command(flatten)]
    pub(crate) judge: JudgeArgs,

    /// Settings of the paper's authors for a network, such as imagenet-resnet50
    #[arg(long, value_name = "NETWORK", help_heading = "Where a study does not change it")]
    pub(crate) preset: Option<Preset>,

    /// Width γ of the Gaussian kernel
    #[arg(long, value_name = "G", help_heading = "Where a study does not change it")]
    pub(crate) gamma: Option<f64>,

    /// Share of the variance that the subspace keeps
    #[arg(long, value_name = "R", help_heading = "Where a study does not change it")]
    pub(crate) explained_variance: Option<f64>,

    /// Number of random features
    #[arg(long, value_name = "M", help_heading = "Where a study does not change it")]
    pub(crate) features: Option<usize>,

    /// Number of landmarks
    #[arg(long, value_name = "M", help_heading = "Where a study does not change it")]
    pub(crate) landmarks: Option<usize>,

    #[arg(long, value_name = "K", help = PSEUDO_LABELS)]
    pub(crate) pseudo_labels: Option<usize>,

    /// Which training rows become landmarks
    #[arg(long, value_name = "HOW", help_heading = "Where a study does not change it")]
    pub(crate) sampling: Option<Sampling>,

    /// Plain or complete residual
    #[arg(long, value_name = "WHICH", help_heading = "Where a study does not change it")]
    pub(crate) residual: Option<Residual>,

    /// Seed of every random choice
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
}

#[derive(Args)]
pub(crate) struct InspectArgs {
    /// A detector, the state of a monitor, a pack folder or a feature file
    #[arg(value_name = "DETECTOR|STATE|PACK|FILE")]
    pub(crate) path: PathBuf,

    #[command(flatten)]
    pub(crate) json: JsonArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

#[derive(Args)]
pub(crate) struct MethodsArgs {
    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

#[derive(Args)]
pub(crate) struct SynthArgs {
    /// Number of rows
    #[arg(long, value_name = "N")]
    pub(crate) rows: u64,

    /// Width of the features
    #[arg(long, value_name = "M")]
    pub(crate) width: usize,

    /// Number of classes
    #[arg(long, value_name = "C", default_value_t = 100)]
    pub(crate) classes: usize,

    /// Element type: f16, f32 or f64
    #[arg(long = "type", value_name = "TYPE", default_value_t = ElementType::F32)]
    pub(crate) element: ElementType,

    /// Seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Where to write the .npy file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,

    #[arg(long, help = FORCE)]
    pub(crate) force: bool,
}

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args)]
pub(crate) struct ManArgs {
    /// Write one page per command into this folder [default: the main page to stdout]
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  offspan convert --train id_train.npz --test id_test.npz --ood svhn=svhn.npz -o PACK    OpenOOD's features
  offspan convert --train train.pt --test test.pt --unknown unknown -o PACK              pytorch-ood's tensors
  offspan convert cache/ --raw f64:2048 --head head.safetensors -o PACK                  the authors' caches
  offspan convert dataset/ --columns embedding -o PACK                                   a Hugging Face dataset
  offspan convert --train images.npy --test test.npy --ood sun=sun.npy --class-vectors texts.npy -o PACK
  offspan convert --scores --test cifar10.npz --ood svhn=svhn.npz -o SCORES              OpenOOD's score files

Rows are read in chunks. The splits train, test and validation of a Hugging Face dataset become train, test and calibrate,
others become OoD sets, unless --train, --test, --calibrate and --ood name splits. Files of PyTorch are read
without running anything that is in them.")]
pub(crate) struct ConvertArgs {
    /// A pack, a folder of the authors' caches, or a folder of a Hugging Face dataset
    pub(crate) source: Option<PathBuf>,

    /// The folder of the new pack; it must not exist, or be empty
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,

    /// Training rows: .npy, .npz, .safetensors, .pt, Parquet or Arrow, a folder of part files, or a split of the source
    #[arg(long, value_name = "FILE|SPLIT")]
    pub(crate) train: Option<PathBuf>,

    /// In-distribution rows to judge with
    #[arg(long, value_name = "FILE|SPLIT")]
    pub(crate) test: Option<PathBuf>,

    /// In-distribution rows to set thresholds with
    #[arg(long, value_name = "FILE|SPLIT")]
    pub(crate) calibrate: Option<PathBuf>,

    /// An OoD set, which may be called near/NAME or far/NAME; may be given several times [default NAME: that of the file]
    #[arg(long, value_name = "[NAME=]FILE|SPLIT")]
    pub(crate) ood: Vec<String>,

    /// The network's last layer: .safetensors with `weight` and `bias`, or weight.npy,bias.npy
    #[arg(long, value_name = "FILE", conflicts_with = "class_vectors")]
    pub(crate) head: Option<PathBuf>,

    /// One vector per class, such as a text embedding of its name: the last layer becomes their cosines with the features,
    /// which are scaled to unit length. `msp` is then MCM
    #[arg(long, value_name = "FILE")]
    pub(crate) class_vectors: Option<PathBuf>,

    /// What cosines are divided by, such as 0.01 for CLIP's own probabilities [default: 1, as in MCM]
    #[arg(long, value_name = "T", requires = "class_vectors")]
    pub(crate) temperature: Option<f64>,

    /// Rows with negative labels are out-of-distribution, as in pytorch-ood and OpenOOD, and become this set
    #[arg(long, value_name = "NAME")]
    pub(crate) unknown: Option<String>,

    /// Scale each row to unit length
    #[arg(long)]
    pub(crate) unit: bool,

    /// Type of the features: f16, bf16, f32 or f64 [default: f32]
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) element: Option<ElementType>,

    /// The files are scores, such as OpenOOD's: write one .npy for each set, for `eval --scores NAME=DIR`
    #[arg(
        long,
        requires = "test",
        conflicts_with_all = [
            "source", "train", "calibrate", "head", "class_vectors", "unknown", "unit", "element", "raw", "columns"
        ]
    )]
    pub(crate) scores: bool,

    #[command(flatten)]
    pub(crate) json: JsonArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}
