//! Does the runs of studies, those of them that no earlier study did.

use std::collections::HashSet;
use std::time::Instant;

use offspan::metrics::EvalOptions;
use offspan::{MethodSpec, Observer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cache::Cache;
use super::run::{Run, setting};
use crate::Result;
use crate::evaluation::{MethodResult, Sets, fit_and_evaluate_each, in_a_pack};
use crate::fingerprint::fingerprint;
use crate::folder::Folder;
use crate::hook::Hook;
use crate::words::duration;

/// Landmarks of a method that is not told otherwise.
const LANDMARKS: usize = 1024;

/// A run with what came of it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// The first cells of its line.
    pub(super) labels: Vec<String>,
    /// What to give to `offspan eval PACK` to get the same numbers.
    pub(super) command: String,
    /// The result, or why there is none.
    pub(super) outcome: std::result::Result<MethodResult, String>,
}

/// Does runs on one pack.
pub(super) struct Runner<'a> {
    pub(super) pack: &'a str,
    pub(super) sets: Sets<'a>,
    pub(super) options: EvalOptions,
    pub(super) observer: &'a dyn Observer,
    common: &'a [(String, String)],
    cache: Cache,
    fingerprint: String,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        pack: &'a str,
        sets: Sets<'a>,
        options: EvalOptions,
        common: &'a [(String, String)],
        folder: &Folder,
        observer: &'a dyn Observer,
    ) -> Result<Self> {
        observer.begin("looking for changes in the pack", 0);
        let fingerprint = fingerprint(&sets)?;
        let cache = Cache::open(folder)?;
        Ok(Runner { pack, sets, options, observer, common, cache, fingerprint })
    }

    /// The results of runs, in their order. Each is kept as soon as it is there.
    pub(super) fn run(&self, runs: Vec<Run>) -> Result<Vec<Row>> {
        let runs: Vec<Run> = runs.into_iter().map(|run| self.completed(run)).collect();
        let specs: Vec<offspan::Result<MethodSpec>> = runs.iter().map(Run::spec).collect();
        self.compute(&runs, &specs)?;
        let row = |(run, spec): (Run, offspan::Result<MethodSpec>)| {
            let outcome = match spec {
                Ok(spec) => self.cache.get(&self.key(&spec)).unwrap_or_else(|| {
                    Err("its result was kept and cannot be read again".to_owned())
                }),
                Err(error) => Err(error.to_string()),
            };
            Row { command: run.command(), labels: run.labels, outcome }
        };
        Ok(runs.into_iter().zip(specs).map(row).collect())
    }

    /// What the study's flags say, if they do.
    pub(super) fn common(&self, flag: &str) -> Option<&str> {
        self.common.iter().find(|(name, _)| name == flag).map(|(_, value)| value.as_str())
    }

    /// The γ of a method in this study, if its flags say anything of it.
    pub(super) fn common_gamma(&self, method: &str) -> Option<f64> {
        let given = self.common("--gamma").and_then(|text| text.parse().ok());
        given.or_else(|| setting(self.common("--preset")?, method)?.gamma)
    }

    /// A run with the study's flags.
    pub(super) fn completed(&self, run: Run) -> Run {
        self.landmarks_for(run).on_top_of(self.common)
    }

    /// A run with landmarks that these rows allow: chosen without energies where there are none, and
    /// half of the rows where they are few.
    fn landmarks_for(&self, mut run: Run) -> Run {
        let energies = self.sets.train.logits().is_some() || self.sets.head.is_some();
        let by_energy = ["kpca-nys", "dkgp-nys"].contains(&run.method.as_str());
        let says = |flag: &str| run.flags.iter().any(|(own, _)| own == flag);
        let sampled = says("--sampling") || self.common("--sampling").is_some();
        let sized = says("--landmarks")
            || self.common("--landmarks").is_some()
            || self.common("--preset").is_some();
        if by_energy && !energies && !sampled {
            run = run.with("--sampling", "uniform");
        }
        let has_landmarks =
            by_energy || ["kpca-nys+react", "kpca-ensemble"].contains(&run.method.as_str());
        let rows = self.sets.train.rows();
        if has_landmarks && !sized && rows < LANDMARKS {
            run = run.with("--landmarks", (rows / 2).max(1));
        }
        run
    }

    /// Does the runs of which no result is kept.
    fn compute(&self, runs: &[Run], specs: &[offspan::Result<MethodSpec>]) -> Result<()> {
        let mut seen = HashSet::new();
        let (mut missing, mut names, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        for (run, spec) in runs.iter().zip(specs) {
            let Ok(spec) = spec else { continue };
            let key = self.key(spec);
            let known = self.cache.get::<std::result::Result<MethodResult, String>>(&key);
            if seen.insert(key.to_string()) && known.is_none() {
                missing.push(spec.clone());
                names.push(run.method.clone());
                labels.push(run.labels.join(" "));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let costs: Vec<f64> = missing.iter().map(|spec| self.cost(spec)).collect();
        let started = Instant::now();
        let hook = Hook {
            observer: self.observer,
            on_method: |observer: &dyn Observer, _: &str, number: usize, of: usize| {
                let (label, elapsed) = (&labels[number - 1], started.elapsed().as_secs_f64());
                let name = match seconds_left(&costs, number - 1, elapsed) {
                    Some(left) => {
                        format!("{label}, about {} left", duration(left.max(1.0).round()))
                    }
                    None => label.clone(),
                };
                observer.method(&name, number, of);
            },
        };
        let mut failure = None;
        let kept = fit_and_evaluate_each(
            &missing,
            &names,
            &self.sets,
            &self.options,
            &hook,
            |index, result| {
                // A file that could not be read says nothing of the method.
                if let Err(error @ offspan::Error::Io { .. }) = result {
                    return Err(error);
                }
                let outcome = result.map_err(|error| in_a_pack(error).to_string());
                if let Err(error) = self.cache.put(&self.key(&missing[index]), &outcome) {
                    failure.get_or_insert(error);
                }
                Ok(())
            },
        );
        kept.and(failure.map_or(Ok(()), Err))
    }

    /// A result that is no run: computed once for these parameters and this pack.
    pub(super) fn remember<T: Serialize + DeserializeOwned>(
        &self,
        what: &str,
        parameters: Value,
        compute: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let key = json!({ "what": what, "parameters": parameters, "pack": self.fingerprint });
        if let Some(known) = self.cache.get(&key) {
            return Ok(known);
        }
        let result = compute()?;
        self.cache.put(&key, &result)?;
        Ok(result)
    }

    fn key(&self, spec: &MethodSpec) -> Value {
        // Averages over groups are part of a result, and pack.toml may group the same rows anew.
        let groups = self.sets.groups;
        json!({ "spec": spec, "pack": self.fingerprint, "metrics": self.options, "groups": groups })
    }

    /// About how long a run will take beside others, in no unit.
    fn cost(&self, spec: &MethodSpec) -> f64 {
        let width = self.sets.train.width() as f64;
        let (train, scored) = (self.sets.train.rows() as f64, self.sets.scored_rows() as f64);
        match spec.method().as_ref() {
            "knn" | "tnn" => train * scored * width,
            "autoencoder" => 20.0 * train * width * width,
            name if name.starts_with("kpca-exact") => 10.0 * train.powi(3),
            _ => match spec.map_size().map(|size| size as f64) {
                Some(m) => train * m * (m + width) + 20.0 * m.powi(3) + scored * m * (m + width),
                None => (train + scored) * width * width / 4.0,
            },
        }
    }
}

/// The seconds that are left when `done` of the runs are done; unknown before the first.
fn seconds_left(costs: &[f64], done: usize, elapsed: f64) -> Option<f64> {
    let sum = |part: &[f64]| part.iter().sum::<f64>();
    (done > 0).then(|| elapsed * sum(&costs[done..]) / sum(&costs[..done]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_costs() {
        let costs = [1.0, 3.0, 4.0];
        let left = |done, elapsed| seconds_left(&costs, done, elapsed);
        assert_eq!([left(0, 5.0), left(1, 5.0), left(2, 20.0)], [None, Some(35.0), Some(20.0)]);
    }
}
