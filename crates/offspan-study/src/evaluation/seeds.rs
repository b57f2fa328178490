//! Means and standard deviations over seeds.

use std::collections::BTreeMap;

use offspan::metrics::{Average, Evaluation};

use super::result::{MethodResult, SeedRun, Seeds, Spread};

impl MethodResult {
    /// The same with the means of these runs, and their spread. One run is not several.
    pub(super) fn over_seeds(mut self, runs: Vec<SeedRun>) -> Self {
        if runs.len() < 2 {
            return self;
        }
        let averages: Vec<Average> = runs.iter().map(|run| run.average).collect();
        let by_set: Vec<BTreeMap<String, Average>> = runs
            .iter()
            .map(|run| run.sets.iter().map(|(name, one)| (name.clone(), (*one).into())).collect())
            .collect();
        let by_group: Vec<BTreeMap<String, Average>> =
            runs.iter().map(|run| run.groups.clone()).collect();
        self.average = Average::combined(&averages, mean);
        self.groups = each(&by_group, mean);
        self.sets = each(&by_set, mean)
            .into_iter()
            .map(|(name, one)| (name, Evaluation::from(one)))
            .collect();
        let sd = Spread {
            sets: each(&by_set, deviation),
            average: Average::combined(&averages, deviation),
            groups: each(&by_group, deviation),
        };
        self.seeds = Some(Seeds { runs, sd });
        self
    }
}

/// Figures of the same name combined.
fn each(
    several: &[BTreeMap<String, Average>],
    combine: fn(&[f64]) -> f64,
) -> BTreeMap<String, Average> {
    let names = several.first().map(|first| first.keys()).into_iter().flatten();
    names
        .map(|name| {
            let same: Vec<Average> =
                several.iter().filter_map(|one| one.get(name).copied()).collect();
            (name.clone(), Average::combined(&same, combine))
        })
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// With divisor n − 1.
fn deviation(values: &[f64]) -> f64 {
    let middle = mean(values);
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use offspan::metrics::{EvalOptions, evaluate};
    use serde_json::Value;

    use super::super::result::ScoreFacts;
    use super::*;

    #[test]
    fn figures_become_means_with_their_deviation() {
        let run = |seed: u64, ood: f64| {
            let one = evaluate(&[1.0, 3.0], &[ood], &EvalOptions::default()).unwrap();
            let average = Average::from(one);
            SeedRun {
                seed,
                sets: BTreeMap::from([("far".to_owned(), one)]),
                average,
                groups: BTreeMap::new(),
            }
        };
        let result = MethodResult {
            method: "x".to_owned(),
            params: Value::Null,
            fit: None,
            score: ScoreFacts { rows: 3, seconds: 0.0 },
            sets: BTreeMap::new(),
            average: Average::default(),
            groups: BTreeMap::new(),
            ind: None,
            seeds: None,
            source: None,
        };
        // AUROC 1, 0.5 and 0.
        let runs = vec![run(0, 0.0), run(1, 2.0), run(2, 4.0)];
        let result = result.over_seeds(runs);
        assert_eq!((result.average.auroc, result.sets["far"].auroc), (0.5, 0.5));
        let seeds = result.seeds.as_ref().unwrap();
        assert_eq!((seeds.runs.len(), seeds.sd.average.auroc), (3, 0.5));
        let one = result.clone().over_seeds(vec![run(0, 0.0)]);
        assert_eq!(one.average.auroc, 0.5, "one run changes nothing");
    }
}
