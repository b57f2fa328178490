//! The studies of the kernel PCA paper, on the user's own pack.
//!
//! Every study is made of runs, each of which is what `offspan eval` does with certain flags. Results
//! are kept in the folder of the study as soon as they are there, named after the method, its
//! parameters and the values of the rows: a study that was stopped goes on where it was, and one that
//! is repeated computes only what changed.

mod approximation;
mod cache;
mod cost;
mod findings;
mod kernels;
mod layers;
mod learned;
mod paper;
mod ranking;
mod run;
mod runner;
mod sampling;
mod sensitivity;
mod theirs;
mod widths;

use std::path::{Path, PathBuf};

use offspan::Observer;
use offspan::io::Pack;
use offspan::metrics::EvalOptions;
use offspan_report::page::Table;
use offspan_report::table::Format;

use crate::evaluation::{OwnMethod, Sets};
use crate::folder::Folder;
use crate::{Result, StudyError};

pub(crate) use run::Run;
pub use theirs::published_table;

use runner::Runner;

/// Which study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Study {
    /// Kernels and approximations, each with and without the cosine map.
    Kernels,
    /// Landmarks and residuals.
    Sampling,
    /// One parameter at a time, and γ against the explained variance.
    Sensitivity,
    /// Packs of several layers of one network.
    Layers,
    /// Approximated residuals against exact ones.
    Approximation,
    /// Time and storage of a score.
    Cost,
    /// With and without learnable kernels.
    Learned,
    /// All of them and every method, in one page.
    Paper,
}

/// What a study is made with.
pub struct Settings<'a> {
    /// Flags and values for every method that takes them.
    pub common: Vec<(String, String)>,
    /// How scores are judged.
    pub options: EvalOptions,
    /// Figures of the paper to put beside.
    pub published: Option<Table>,
    /// Methods of the user's own in the comparison of methods, which `paper` has.
    pub own: &'a [&'a dyn OwnMethod],
    /// Who watches.
    pub observer: &'a dyn Observer,
}

/// Makes a study of a pack and writes it into a folder, which is made where it is missing. More than
/// one pack are layers of one network, the first of which is the one in question. Returns where the
/// page is.
///
/// # Errors
/// If a pack has not what a study needs, a file cannot be written, or the observer asks to stop.
pub fn make(
    study: Study,
    packs: &[Pack],
    folder: &Path,
    settings: &Settings<'_>,
) -> Result<PathBuf> {
    if packs.is_empty() {
        return Err(StudyError::Setup("a study needs a pack".to_owned()));
    }
    let uses_layers = matches!(study, Study::Layers | Study::Paper);
    if packs.len() > 1 && !uses_layers {
        return Err(StudyError::Setup(format!(
            "this study looks at one pack; got {}",
            packs.iter().map(|pack| pack.name.as_str()).collect::<Vec<_>>().join(", ")
        )));
    }
    if let Some((flag, _)) = settings.common.iter().find(|(flag, _)| !study.uses(flag)) {
        return Err(StudyError::Setup(format!(
            "{flag} has no meaning for this study, which sets it itself"
        )));
    }
    if let (false, Some(own)) = (study == Study::Paper, settings.own.first()) {
        return Err(StudyError::Setup(format!(
            "{} has no meaning for this study, which compares no methods; paper does",
            own.name()
        )));
    }
    let sets = packs.iter().map(Sets::of).collect::<Result<Vec<_>>>()?;
    let folder = Folder::make(folder)?;
    let page = find_out(study, packs, &sets, &folder, settings);
    page.map_err(|error| match error {
        StudyError::Library(offspan::Error::Interrupted { .. }) => {
            let cache = folder.join("cache");
            let hint = format!(
                "; what was done is kept in {}, run the same command to go on",
                cache.display()
            );
            offspan::Error::Interrupted { hint }.into()
        }
        other => other,
    })
}

fn find_out(
    study: Study,
    packs: &[Pack],
    sets: &[Sets<'_>],
    folder: &Folder,
    settings: &Settings<'_>,
) -> Result<PathBuf> {
    let names = distinct_names(packs);
    let runners = names
        .iter()
        .zip(sets)
        .map(|(name, sets)| {
            let Settings { common, options, observer, .. } = settings;
            Runner::new(name, *sets, *options, common, folder, *observer)
        })
        .collect::<Result<Vec<_>>>()?;
    let runner = &runners[0];
    let findings = match study {
        Study::Kernels => kernels::study(runner),
        Study::Sampling => sampling::study(runner),
        Study::Sensitivity => sensitivity::study(runner),
        Study::Layers => layers::study(&runners),
        Study::Approximation => approximation::study(runner),
        Study::Cost => cost::study(runner),
        Study::Learned => learned::study(runner),
        Study::Paper => {
            return paper::study(&runners, settings.own, settings.published.as_ref(), folder);
        }
    }?;
    findings.write(folder, runner.pack)
}

impl Study {
    /// Every study by its name.
    const NAMES: [(&'static str, Study); 8] = [
        ("kernels", Study::Kernels),
        ("sampling", Study::Sampling),
        ("sensitivity", Study::Sensitivity),
        ("layers", Study::Layers),
        ("approximation", Study::Approximation),
        ("cost", Study::Cost),
        ("learned", Study::Learned),
        ("paper", Study::Paper),
    ];

    /// The study of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, study)| *study).ok_or_else(|| {
            let known: Vec<&str> = Self::NAMES.iter().map(|(known, _)| *known).collect();
            StudyError::Setup(format!("study: expected one of {}, got {name}", known.join(", ")))
        })
    }

    /// The files that it writes into its folder, without plots and kept results.
    #[must_use]
    pub fn files(self) -> Vec<String> {
        let alone = [self.table_name()];
        let names: &[&str] = match self {
            Study::Paper => &[
                "paper",
                "methods",
                "kernels",
                "sampling",
                "sensitivity",
                "layers",
                "approximation",
                "cost",
                "learned",
            ],
            _ => &alone,
        };
        let extensions = ["html", "md", "csv", "tex", "json"];
        let of = |name: &&str| extensions.map(|extension| format!("{name}.{extension}"));
        names.iter().flat_map(of).collect()
    }

    /// The name of its table, or of its first one.
    fn table_name(self) -> &'static str {
        match self {
            Study::Kernels => "kernels",
            Study::Sampling => "sampling",
            Study::Sensitivity => "sensitivity",
            Study::Layers => "layers",
            Study::Approximation => "approximation",
            Study::Cost => "cost",
            Study::Learned => "learned",
            Study::Paper => "methods",
        }
    }

    /// The file with its table in this format; none for text.
    #[must_use]
    pub fn file(self, format: Format) -> Option<String> {
        let ending = match format {
            Format::Text => return None,
            Format::Markdown => "md",
            Format::Csv => "csv",
            Format::Latex => "tex",
            Format::Json => "json",
            Format::Html => "html",
        };
        Some(format!("{}.{ending}", self.table_name()))
    }

    /// Whether a flag for all methods changes anything in this study.
    fn uses(self, flag: &str) -> bool {
        match self {
            Study::Approximation => ["--gamma", "--preset", "--seed"].contains(&flag),
            Study::Sampling => !["--sampling", "--residual"].contains(&flag),
            _ => true,
        }
    }
}

/// The packs' names, with numbers where several have the same.
fn distinct_names(packs: &[Pack]) -> Vec<String> {
    let name = |(index, pack): (usize, &Pack)| {
        let others = packs.iter().filter(|other| other.name == pack.name).count();
        if others > 1 { format!("{} ({})", pack.name, index + 1) } else { pack.name.clone() }
    };
    packs.iter().enumerate().map(name).collect()
}
