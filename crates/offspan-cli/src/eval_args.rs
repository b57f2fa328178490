//! What `offspan eval` accepts.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use offspan::metrics::{EvalOptions, IntervalMethod};
use offspan::split_methods;
use offspan_report::table::Format;
use offspan_study::evaluation::{Metric, TableView};

use crate::args::{FORCE, JsonArgs, JudgeArgs, PSEUDO_LABELS};
use crate::method_args::MethodArgs;
use crate::output::Failure;

#[derive(Args)]
#[command(after_help = "\
Examples:
  offspan eval PACK --method all
  offspan eval PACK --method pca,kpca-rff,kpca-nys,energy,knn
  offspan eval PACK --method knn:neighbours=10,kpca-nys:gamma=0.3:landmarks=512    flags of one method
  offspan eval PACK --method knn+react,msp+ash-s         a score after a rectification
  offspan eval PACK --method kpca-rff,knn --seeds 5      mean ± standard deviation over 5 seeds
  offspan eval PACK --compare knn,vim                    is the difference more than chance?
  offspan eval PACK --method all --format latex          a table to paste into a paper
  offspan eval PACK --method kpca-nys --gamma 0.5 --json=result.json
  offspan eval --repeat result.json                      do the figures come out again?
  offspan eval PACK --detector net.offspan --ci delong
  offspan eval PACK --method knn,vim --scores theirs=scores/       scores of any other program in the same table
  offspan eval PACK --method kpca-nys,knn,energy --report out/    a page to send to a colleague

A pack is a folder with train, test and ood/NAME or ood/GROUP/NAME and, where known, the last layer:
.safetensors with features, logits and labels, and head.safetensors; or NAME.npy, NAME-logits.npy and
NAME-labels.npy, and head-weight.npy and head-bias.npy; or NAME.parquet, NAME.arrow or NAME.npz. Methods are fitted on train, nothing held out for a threshold; test is the
in-distribution side. Groups of sets, such as near and far ones (folders in ood/, or lists in pack.toml), have
averages of their own.

Where the best method of a column is not better than the second by more than chance, its number has a †.")]
#[command(override_usage = "offspan eval [OPTIONS] <PACK>")]
pub(crate) struct EvalArgs {
    // In `eval --json PACK` the folder looks like the value of the flag; `eval::pack` sets that right.
    /// A pack folder
    #[arg(required_unless_present_any = ["json", "repeat"])]
    pub(crate) pack: Option<PathBuf>,

    /// Methods to fit and compare, separated by commas; `all` for every one that the pack allows. Flags of
    /// one method stand behind its name: knn:neighbours=10 [default: auto]
    #[arg(short, long, value_name = "NAME[:FLAG=VALUE…][,NAME…]")]
    pub(crate) method: Vec<String>,

    /// Saved detectors to evaluate as they are
    #[arg(long, value_name = "DETECTOR", value_delimiter = ',')]
    pub(crate) detector: Vec<PathBuf>,

    /// Scores of another program to judge with the others: DIR has test.npy, and SET.npy for each OoD set (one number
    /// per row, higher is more in-distribution; .csv with a column `score` and OpenOOD's .npz, too); may be given
    /// several times
    #[arg(long, value_name = "NAME=DIR")]
    pub(crate) scores: Vec<String>,

    #[arg(long, value_name = "K", help = PSEUDO_LABELS)]
    pub(crate) pseudo_labels: Option<usize>,

    // Older than the rule, so FILE may also stand behind a space.
    /// Print JSON on stdout instead of the table; with a file: write it there, beside the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,

    /// Print the results as text, markdown, csv, latex (booktabs), json or html
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Text)]
    pub(crate) format: Format,

    /// Write a report with pictures into this folder: one page that needs nothing else, and its plots as
    /// SVG and PNG. It shows the first method, or the best one with `all`
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,

    #[arg(long, help = FORCE)]
    pub(crate) force: bool,

    /// Do again what this document of `eval --json` tells, with the methods, seeds and metrics in it, and say
    /// whether the figures agree; exit with 1 if not
    #[arg(long, value_name = "RESULT", conflicts_with_all = [
        "method", "detector", "scores", "pseudo_labels", "report", "seeds", "compare", "ci", "tpr", "fpr_rule", "full_spectrum", "metrics", "format",
    ])]
    pub(crate) repeat: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) judge: JudgeArgs,

    /// Confidence intervals: delong, bootstrap or bootstrap:N [default: none; with --report delong]
    #[arg(long, value_name = "METHOD", help_heading = "Metrics")]
    pub(crate) ci: Option<IntervalMethod>,

    /// Figures that tables show, separated by commas: fpr95 (by --fpr-rule), fpr95-at-least, fpr95-authors,
    /// fpr95-ood-positive, auroc, aupr-in, aupr-out, detection-error; and where labels are known aurc, augrc, oscr
    /// [default: fpr95,auroc]
    #[arg(long, value_name = "NAME[,NAME…]", value_delimiter = ',', help_heading = "Metrics")]
    pub(crate) metrics: Vec<String>,

    /// Fit methods with random choices with so many seeds, from --seed on: mean ± standard deviation
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Statistics")]
    pub(crate) seeds: usize,

    /// Two methods to compare on the same rows: DeLong's test for AUROC, a paired bootstrap for the
    /// false-positive rate; may be given several times
    #[arg(long, value_name = "A,B", help_heading = "Statistics")]
    pub(crate) compare: Vec<String>,

    /// Count the pack's shifted rows (shifted/NAME, or `shifted` in pack.toml) as in-distribution
    #[arg(long, conflicts_with = "report", help_heading = "Statistics")]
    pub(crate) full_spectrum: bool,

    #[command(flatten)]
    pub(crate) method_args: MethodArgs,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  offspan rank packs/*/ -o out/                        every method on every pack, one page
  offspan rank packs/*/ --method auto,knn,vim,energy   few methods: smaller differences are real
  offspan rank a.json b.json c.json                    documents of `offspan eval --json`
  offspan rank packs/*/ --seeds 5                      by means over five seeds
  offspan rank packs/*/ --by fpr95 --format latex      a table to paste into a paper

With -o, the document of every pack is written there, too (results/PACK.json), so that a ranking can be made
again, or with more packs, without any fit.")]
pub(crate) struct RankArgs {
    /// Pack folders, or documents of `offspan eval --json`
    #[arg(required = true, value_name = "PACK|RESULT")]
    pub(crate) packs: Vec<PathBuf>,

    /// Methods to rank, separated by commas, as in `offspan eval` [default: all]
    #[arg(short, long, value_name = "NAME[:FLAG=VALUE…][,NAME…]")]
    pub(crate) method: Vec<String>,

    #[arg(long, value_name = "K", help = PSEUDO_LABELS)]
    pub(crate) pseudo_labels: Option<usize>,

    /// Fit methods with random choices with so many seeds, from --seed on, and rank them by their means
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Statistics")]
    pub(crate) seeds: usize,

    /// Count the packs' shifted rows (shifted/NAME, or `shifted` in pack.toml) as in-distribution
    #[arg(long, help_heading = "Statistics")]
    pub(crate) full_spectrum: bool,

    /// The figure that ranks follow from: auroc, fpr95 or another of `offspan eval --metrics`
    #[arg(long, value_name = "METRIC", default_value = "auroc")]
    pub(crate) by: String,

    /// What is one case: packs, by the mean over their sets, or sets
    #[arg(long, value_name = "WHAT", default_value = "packs", value_parser = ["packs", "sets"])]
    pub(crate) over: String,

    /// Methods that the diagram shows, at most
    #[arg(long, value_name = "N", default_value = "20")]
    pub(crate) show: NonZeroUsize,

    /// Write a page with the diagram, and the table in every format, into this folder
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    #[arg(long, help = FORCE)]
    pub(crate) force: bool,

    /// Print the ranking as text, markdown, csv, latex (booktabs), json or html
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Text)]
    pub(crate) format: Format,

    #[command(flatten)]
    pub(crate) json: JsonArgs,

    #[command(flatten)]
    pub(crate) judge: JudgeArgs,

    #[command(flatten)]
    pub(crate) method_args: MethodArgs,
}

impl RankArgs {
    /// Whether anything was said of how packs are evaluated, which documents tell themselves.
    pub(crate) fn has_evaluation(&self) -> bool {
        !self.method.is_empty()
            || self.pseudo_labels.is_some()
            || self.seeds != 1
            || self.full_spectrum
    }

    /// The methods by their names.
    pub(crate) fn methods(&self) -> Vec<String> {
        match self.method.is_empty() {
            true => vec!["all".to_owned()],
            false => self.method.iter().flat_map(|list| split_methods(list)).collect(),
        }
    }
}

impl EvalArgs {
    /// The pairs of methods to compare.
    pub(crate) fn pairs(&self) -> Result<Vec<[String; 2]>, Failure> {
        let pair = |text: &String| {
            <[String; 2]>::try_from(split_methods(text))
                .ok()
                .filter(|[first, second]| first != second)
                .ok_or_else(|| {
                    Failure::Usage(format!(
                        "--compare: expected two methods such as knn,pca, got {text}"
                    ))
                })
        };
        self.compare.iter().map(pair).collect()
    }

    /// The methods by their names, with those that are to be compared.
    pub(crate) fn methods(&self, pairs: &[[String; 2]]) -> Vec<String> {
        let mut names: Vec<String> =
            self.method.iter().flat_map(|list| split_methods(list)).collect();
        let all = names.iter().any(|name| name == "all");
        let mut detectors: Vec<String> =
            self.detector.iter().map(|path| detector_name(path)).collect();
        detectors
            .extend(self.scores.iter().filter_map(|text| Some(text.split_once('=')?.0.into())));
        for name in pairs.iter().flatten() {
            let of_all = all && offspan::CATALOGUE.iter().any(|known| known.name == name);
            if !of_all && !names.contains(name) && !detectors.contains(name) {
                names.push(name.clone());
            }
        }
        if names.is_empty() && detectors.is_empty() {
            names.push("auto".to_owned());
        }
        names
    }

    /// Names and folders of scores of other programs.
    pub(crate) fn score_folders(&self) -> Result<Vec<(&str, PathBuf)>, Failure> {
        let mut folders: Vec<(&str, PathBuf)> = Vec::new();
        for text in &self.scores {
            let (name, folder) = text
                .split_once('=')
                .filter(|(name, folder)| !name.is_empty() && !folder.is_empty())
                .ok_or_else(|| {
                    Failure::Usage(format!("--scores: expected NAME=DIR, got `{text}`"))
                })?;
            if folders.iter().any(|(other, _)| *other == name) {
                return Err(Failure::Usage(format!(
                    "--scores: expected different names, got {name} twice"
                )));
            }
            folders.push((name, folder.into()));
        }
        Ok(folders)
    }

    /// What tables show.
    pub(crate) fn view(&self, options: &EvalOptions) -> Result<TableView, Failure> {
        let mut view = TableView { intervals: self.ci.is_some(), ..TableView::default() };
        view.costs = matches!(self.format, Format::Text | Format::Csv);
        if !self.metrics.is_empty() {
            let metrics = self.metrics.iter().map(|name| Metric::named(name.trim(), options));
            view.metrics = metrics
                .collect::<Result<_, _>>()
                .map_err(|error| Failure::Usage(format!("--metrics: {error}")))?;
        }
        Ok(view)
    }
}

/// What a saved detector is called in tables.
pub(crate) fn detector_name(path: &std::path::Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
