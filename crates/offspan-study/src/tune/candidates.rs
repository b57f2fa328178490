//! Settings to compare, and what came of each.

use offspan::metrics::Average;
use offspan::{Detector, FitOptions};

use super::trials::Trial;
use super::{Candidate, Settings};
use crate::study::Run;
use crate::words::three_digits;
use crate::{Result, StudyError};

/// Multiples of the width that `auto` chooses, and numbers of landmarks, to compare it with.
const FACTORS: &[f64] = &[0.25, 0.5, 2.0, 4.0];
const LANDMARKS: &[usize] = &[256, 512, 1024, 2048];

/// More settings than this are a slip of the pen.
const MOST: usize = 1000;

/// All combinations of the values, for each method; a method's own where there are none.
pub(super) fn grid(settings: &Settings<'_>, trial: &Trial<'_>) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for method in &settings.methods {
        let plain = Run::new(method, &[]);
        if settings.values.is_empty() {
            runs.extend(own_grid(plain, settings, trial)?);
            continue;
        }
        let mut combined = vec![plain];
        for (flag, values) in &settings.values {
            combined = combined
                .iter()
                .flat_map(|run| values.iter().map(|value| run.clone().with(flag, value)))
                .collect();
            if combined.len() > MOST {
                let what = format!("expected at most {MOST} combinations, got more");
                return Err(StudyError::Setup(what));
            }
        }
        runs.extend(combined);
    }
    if settings.seed != 0 {
        if settings.values.iter().any(|(flag, _)| flag == "--seed") {
            let what = "--seed and --try seed=… exclude each other".to_owned();
            return Err(StudyError::Setup(what));
        }
        let seed = settings.seed.to_string();
        runs = runs.into_iter().map(|run| run.with("--seed", &seed)).collect();
    }
    Ok(runs)
}

fn own_grid(plain: Run, settings: &Settings<'_>, trial: &Trial<'_>) -> Result<Vec<Run>> {
    let each = |flag: &str, values: &[&str]| -> Vec<Run> {
        values.iter().map(|value| plain.clone().with(flag, value)).collect()
    };
    Ok(match plain.method.as_str() {
        // Its own choice comes first, then what is around it, one at a time.
        "auto" => {
            let found = auto_gamma(settings, trial)?;
            let widths = FACTORS.iter().map(|factor| three_digits(factor * found));
            let widths: Vec<Run> =
                widths.map(|gamma| plain.clone().with("--gamma", gamma)).collect();
            let rows = trial.train.rows();
            let sizes = LANDMARKS.iter().filter(|&&size| 2 * size <= rows);
            let sizes: Vec<Run> =
                sizes.map(|size| plain.clone().with("--landmarks", size)).collect();
            [vec![plain], widths, sizes].concat()
        }
        "kpca-nys" => each("--gamma", &["0.1", "0.3", "1", "3"])
            .into_iter()
            .flat_map(|run| {
                [("uniform", "complete"), ("low-energy", "plain")].map(|(sampling, residual)| {
                    run.clone().with("--sampling", sampling).with("--residual", residual)
                })
            })
            .collect(),
        "kpca-rff" => each("--gamma", &["0.5", "1", "2", "4"])
            .into_iter()
            .flat_map(|run| {
                ["0.5", "0.8", "0.9"].map(|r| run.clone().with("--explained-variance", r))
            })
            .collect(),
        "knn" => each("--neighbours", &["1", "10", "50", "200"]),
        _ => vec![plain],
    })
}

/// The width that `auto` would choose.
fn auto_gamma(settings: &Settings<'_>, trial: &Trial<'_>) -> Result<f64> {
    // Any number of landmarks will do.
    let landmarks = (trial.train.rows() / 4).clamp(1, 64);
    let auto = Run::new("auto", &[]).with("--seed", settings.seed);
    let spec = auto.with("--landmarks", landmarks).spec()?;
    let options =
        FitOptions { hold_out: Some(0.0), observer: settings.observer, ..FitOptions::default() };
    let detector = Detector::fit(&spec, &trial.train, trial.head.as_ref(), &options)?;
    Ok(detector.found().get("gamma").copied().unwrap_or(1.0))
}

/// What came of each setting, trial by trial.
pub(super) struct Candidates {
    candidates: Vec<Candidate>,
    rates: Vec<Vec<f64>>,
}

impl Candidates {
    pub(super) fn new(runs: &[Run]) -> Self {
        let candidate = |run: &Run| Candidate {
            method: run.method.clone(),
            flags: run.flags.clone(),
            command: run.command(),
            auroc: None,
            fpr: None,
            trials: Vec::new(),
            behind: None,
            failure: None,
        };
        Candidates {
            candidates: runs.iter().map(candidate).collect(),
            rates: vec![Vec::new(); runs.len()],
        }
    }

    pub(super) fn add(&mut self, index: usize, result: offspan::Result<Average>) {
        match result {
            Ok(average) => {
                self.candidates[index].trials.push(average.auroc);
                self.rates[index].push(average.fpr);
            }
            Err(error) => {
                self.candidates[index].failure.get_or_insert(error.to_string());
            }
        }
    }

    /// With means, and how far each is behind the best.
    pub(super) fn finish(mut self) -> Vec<Candidate> {
        for (candidate, rates) in self.candidates.iter_mut().zip(&self.rates) {
            if candidate.failure.is_none() {
                candidate.auroc = mean(&candidate.trials);
                candidate.fpr = mean(rates);
            }
        }
        let best = self
            .candidates
            .iter()
            .filter_map(|candidate| Some((candidate.auroc?, candidate.trials.clone())))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, best)) = best {
            for candidate in &mut self.candidates {
                if candidate.auroc.is_some() {
                    candidate.behind = Some(difference(&best, &candidate.trials));
                }
            }
        }
        self.candidates
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The mean of best − other over the trials, and its standard error.
fn difference(best: &[f64], other: &[f64]) -> (f64, f64) {
    let differences: Vec<f64> = best.iter().zip(other).map(|(a, b)| a - b).collect();
    let Some(middle) = mean(&differences) else { return (0.0, 0.0) };
    let squares: f64 = differences.iter().map(|d| (d - middle) * (d - middle)).sum();
    let freedom = (differences.len() - 1).max(1) as f64;
    (middle, (squares / freedom / differences.len() as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::choose;

    fn results(trials: &[&[f64]]) -> Vec<Candidate> {
        let runs: Vec<Run> = trials.iter().map(|_| Run::new("auto", &[])).collect();
        let mut all = Candidates::new(&runs);
        for (index, values) in trials.iter().enumerate() {
            for &auroc in *values {
                let average = Average { auroc, fpr: 1.0 - auroc, ..Average::default() };
                all.add(index, Ok(average));
            }
        }
        all.finish()
    }

    #[test]
    fn the_first_within_the_noise_of_the_best_is_chosen() {
        // The second is best by a hair and by chance; the third is far behind.
        let close = results(&[&[0.90, 0.94, 0.92], &[0.93, 0.92, 0.92], &[0.80, 0.81, 0.82]]);
        assert_eq!(choose(&close), Some(0));
        // Better in every trial by the same amount is no chance.
        let clear = results(&[&[0.90, 0.94, 0.92], &[0.92, 0.96, 0.94]]);
        assert_eq!(choose(&clear), Some(1));
        let (behind, error) = clear[0].behind.unwrap();
        assert!((behind - 0.02).abs() < 1e-12 && error < 1e-12);
    }

    #[test]
    fn a_candidate_that_failed_once_is_out() {
        let mut all = Candidates::new(&[Run::new("auto", &[]), Run::new("knn", &[])]);
        all.add(0, Ok(Average { auroc: 0.9, ..Average::default() }));
        all.add(0, Err(offspan::Error::NoVariance { what: "train".to_owned() }));
        all.add(1, Ok(Average { auroc: 0.5, ..Average::default() }));
        let all = all.finish();
        assert!(all[0].auroc.is_none() && all[0].failure.is_some());
        assert_eq!(choose(&all), Some(1));
    }
}
