//! What an evaluation finds.

use std::collections::BTreeMap;
use std::path::Path;

use offspan::io::SetGroup;
use offspan::metrics::{Average, Evaluation, RiskAreas};
use offspan::{Found, Preset};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::provenance::Provenance;
use super::statistics::{Compared, Lead, NotCompared};
use crate::Result;
use crate::fingerprint::file_fingerprint;

/// Results, and the methods that gave none.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Evaluations {
    /// In the order of the methods.
    pub results: Vec<MethodResult>,
    /// Why some are missing.
    pub without: Vec<LeftOut>,
    /// Groups of the sets; each result has their means.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<SetGroup>,
    /// Names of shifted sets whose rows count as in-distribution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub full_spectrum: Vec<String>,
    /// The share of in-distribution rows whose class the network predicts rightly, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Pairs of methods that were to be compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Compared>,
    /// Pairs of which one method has no result, or whose rows are too few for a test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_compared: Vec<NotCompared>,
    /// Whether the best method of each figure is better than the second by more than chance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leads: Vec<Lead>,
    /// Clusters that stood in for classes, where training rows have no labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pseudo_labels: Option<usize>,
    /// What it takes to repeat the evaluation, if somebody asked for it.
    #[serde(skip)]
    pub provenance: Option<Provenance>,
    /// The authors' settings that methods were asked for with: their rows of the paper are shown beside.
    #[serde(skip)]
    pub preset: Option<Preset>,
}

/// One method's results on a pack. With several seeds, figures are means over them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MethodResult {
    /// What it is called in tables.
    pub method: String,
    /// The method with its parameters; with several seeds, those of the first.
    pub params: Value,
    /// Of the fit; none for a detector that came as a file.
    pub fit: Option<FitFacts>,
    /// Of the scoring.
    pub score: ScoreFacts,
    /// By out-of-distribution set.
    pub sets: BTreeMap<String, Evaluation>,
    /// Over the sets.
    pub average: Average,
    /// Over the sets of each group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Average>,
    /// How well the score tells right predictions from wrong ones among in-distribution rows alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ind: Option<RiskAreas>,
    /// Every seed's figures, where there were several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<Seeds>,
    /// The file that the method came as, if it was not fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
}

/// The figures of several seeds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Seeds {
    /// Each seed's.
    pub runs: Vec<SeedRun>,
    /// Standard deviations over the seeds (divisor: their number less one).
    pub sd: Spread,
}

/// The figures of one seed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SeedRun {
    /// The seed.
    pub seed: u64,
    /// By out-of-distribution set.
    pub sets: BTreeMap<String, Evaluation>,
    /// Over the sets.
    pub average: Average,
    /// Over the sets of each group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Average>,
}

/// How much each figure differs from seed to seed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spread {
    /// By out-of-distribution set.
    pub sets: BTreeMap<String, Average>,
    /// Of the average over the sets.
    pub average: Average,
    /// Of the average over each group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Average>,
}

/// Where a method comes from that was not fitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The file or folder, as it was given.
    pub path: String,
    /// A hash of what is in it.
    pub hash: String,
}

impl Source {
    /// A file, with a hash of its bytes.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_file(path: &Path) -> Result<Self> {
        Ok(Source { path: path.display().to_string(), hash: file_fingerprint(path)? })
    }
}

/// What is to be told of a fit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FitFacts {
    /// Training rows.
    pub rows: u64,
    /// What it took.
    pub seconds: f64,
    /// Directions kept, q.
    pub components: Option<usize>,
    /// Numbers that the fit found.
    #[serde(default, skip_serializing_if = "Found::is_empty")]
    pub found: Found,
}

/// What is to be told of the scoring.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScoreFacts {
    /// Rows scored.
    pub rows: usize,
    /// What they took.
    pub seconds: f64,
}

/// A method without results.
#[derive(Debug, Clone, Serialize)]
pub struct LeftOut {
    /// The method.
    pub method: String,
    /// Why.
    pub reason: String,
    /// Whether the user asked for it by name, so that it is a failure.
    #[serde(skip)]
    pub named: bool,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Reasons of the library often begin with the method.
        if self.reason.starts_with(&self.method) {
            return f.write_str(&self.reason);
        }
        write!(f, "{}: {}", self.method, self.reason)
    }
}

/// What a figure is taken over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "over", content = "name")]
pub enum Over {
    /// The mean over all sets.
    Average,
    /// The mean over the sets of a group.
    Group(String),
    /// One set.
    Set(String),
}

impl Over {
    /// What to call it in tables.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Over::Average => "average",
            Over::Group(name) | Over::Set(name) => name,
        }
    }
}

impl Evaluations {
    /// Everything that figures are taken over: all sets, groups, each set.
    #[must_use]
    pub fn columns(&self) -> Vec<Over> {
        let mut columns = vec![Over::Average];
        columns.extend(self.groups.iter().map(|group| Over::Group(group.name.clone())));
        let sets = self.results.first().map(|first| first.sets.keys().cloned());
        columns.extend(sets.into_iter().flatten().map(Over::Set));
        columns
    }

    /// The result of this name.
    #[must_use]
    pub fn result(&self, method: &str) -> Option<&MethodResult> {
        self.results.iter().find(|result| result.method == method)
    }
}

impl MethodResult {
    /// The figures over these sets.
    #[must_use]
    pub fn figures(&self, over: &Over) -> Option<Average> {
        match over {
            Over::Average => Some(self.average),
            Over::Group(name) => self.groups.get(name).copied(),
            Over::Set(name) => self.sets.get(name).copied().map(Average::from),
        }
    }

    /// How much they differ from seed to seed, where there were several.
    #[must_use]
    pub fn spread(&self, over: &Over) -> Option<Average> {
        let sd = &self.seeds.as_ref()?.sd;
        match over {
            Over::Average => Some(sd.average),
            Over::Group(name) => sd.groups.get(name).copied(),
            Over::Set(name) => sd.sets.get(name).copied(),
        }
    }
}
