//! Do two methods differ by more than chance, on the mean over several `OoD` sets and several fits?
//!
//! Rows are what chance has drawn: `InD` rows, which all sets are compared with, and the rows of each
//! `OoD` set. Fits with several seeds are averaged, so that a method is what its fits give on average.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::bootstrap::{check_resamples, percentile_interval};
use super::compare::{check_paired, p_of, sample_variance};
use super::error::{IND, MetricError, OOD, check_level, check_scores, check_tpr};
use super::fpr::{kept, refused, refused_rounded};
use super::levels::{Levels, count, share};
use super::rule::FprRule;
use crate::numeric::normal::two_sided_z;
use crate::numeric::random::{Random, Stream};

/// Scores of one fit: of the `InD` rows, and of each `OoD` set.
#[derive(Debug, Clone, Copy)]
pub struct FitScores<'a> {
    /// Scores of the `InD` rows.
    pub ind: &'a [f64],
    /// Scores of each `OoD` set.
    pub ood: &'a [Vec<f64>],
}

/// How a figure of two methods differs on the same rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Difference {
    /// The first method's figure.
    pub first: f64,
    /// The second method's figure.
    pub second: f64,
    /// `first - second`.
    pub difference: f64,
    /// Confidence interval of the difference.
    pub interval: [f64; 2],
    /// Two-sided: how often a difference at least this large comes by chance from methods that are
    /// equally good.
    pub p_value: f64,
}

/// How FPRs are compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairedOptions {
    /// The true positive rate at which the FPR is taken, in `(0, 1]`.
    pub tpr: f64,
    /// Which threshold that is.
    pub rule: FprRule,
    /// How often rows are drawn anew.
    pub resamples: u32,
    /// The level of the intervals, in `(0, 1)`.
    pub level: f64,
    /// Where the random draws start.
    pub seed: u64,
}

impl Default for PairedOptions {
    fn default() -> Self {
        let (tpr, rule) = (0.95, FprRule::default());
        PairedOptions { tpr, rule, resamples: 2000, level: 0.95, seed: 0 }
    }
}

/// Compares AUROCs: for each column, which is a list of `OoD` sets, the mean over its sets and over the
/// fits of each method.
///
/// This is `DeLong`'s test with the placements of a row averaged over sets and fits:
/// `var = var(d10) / n + Σ_k var(d01_k) / (m_k K²)` with K sets in the column. For one set and one fit of
/// each it is [`delong_compare`](super::delong_compare).
///
/// # Errors
/// The fits have different rows, a set is empty, has fewer than 2 rows or a `NaN`, or the level is out of
/// its range.
pub fn compare_auroc(
    first: &[FitScores<'_>],
    second: &[FitScores<'_>],
    columns: &[Vec<usize>],
    level: f64,
) -> Result<Vec<Difference>, MetricError> {
    check_level(level)?;
    check_rows(first, second)?;
    let (a, b) = (Placements::of(first)?, Placements::of(second)?);
    let z = two_sided_z(level);
    let compared = columns.iter().map(|sets| {
        let (mut variance, sets_count) = (0.0, count(sets.len()));
        let mean = |of: &Placements| sets.iter().map(|&k| of.auroc[k]).sum::<f64>() / sets_count;
        let (auroc_a, auroc_b) = (mean(&a), mean(&b));
        let d10: Vec<f64> = (0..a.ind.first().map_or(0, Vec::len))
            .map(|row| {
                sets.iter().map(|&k| a.ind[k][row] - b.ind[k][row]).sum::<f64>() / sets_count
            })
            .collect();
        variance += sample_variance(&d10) / count(d10.len());
        for &k in sets {
            let d01: Vec<f64> = a.ood[k].iter().zip(&b.ood[k]).map(|(x, y)| x - y).collect();
            variance += sample_variance(&d01) / count(d01.len()) / (sets_count * sets_count);
        }
        let (difference, std_error) = (auroc_a - auroc_b, variance.sqrt());
        Difference {
            first: auroc_a,
            second: auroc_b,
            difference,
            interval: [difference - z * std_error, difference + z * std_error],
            p_value: p_of(difference, std_error),
        }
    });
    Ok(compared.collect())
}

/// Compares FPRs in the same way by a paired, stratified bootstrap: every resample draws `InD` rows and
/// rows of each set with replacement, the same for both methods and all fits.
///
/// The interval is that of percentiles; the p-value is twice the smaller share of resamples, with one
/// counted in, on either side of 0.
///
/// # Errors
/// The fits have different rows, a set is empty or has a `NaN`, or an option is out of its range.
pub fn compare_fpr(
    first: &[FitScores<'_>],
    second: &[FitScores<'_>],
    columns: &[Vec<usize>],
    options: &PairedOptions,
) -> Result<Vec<Difference>, MetricError> {
    check_tpr(options.tpr)?;
    check_level(options.level)?;
    check_resamples(options.resamples)?;
    check_rows(first, second)?;
    for fit in first.iter().chain(second) {
        check_scores(IND, fit.ind)?;
        fit.ood.iter().try_for_each(|set| check_scores(OOD, set))?;
    }
    let Some(one) = first.first() else { return Ok(Vec::new()) };
    let mut used: Vec<usize> = columns.iter().flatten().copied().collect();
    used.sort_unstable();
    used.dedup();
    let everything = Draw::everything(one, &used);
    let mean =
        |of: &[f64], sets: &[usize]| sets.iter().map(|&k| of[k]).sum::<f64>() / count(sets.len());
    let rates = |fits: &[FitScores<'_>], draw: &Draw| draw.rates(fits, options);
    let (a, b) = (rates(first, &everything), rates(second, &everything));
    // Each resample has a stream of the generator to itself, so the order of threads does not matter.
    let resampled: Vec<Vec<f64>> = (0..options.resamples)
        .into_par_iter()
        .map(|number| {
            let draw = Draw::with_replacement(one, &used, options.seed, number);
            let (a, b) = (rates(first, &draw), rates(second, &draw));
            columns.iter().map(|sets| mean(&a, sets) - mean(&b, sets)).collect()
        })
        .collect();
    let compared = columns.iter().enumerate().map(|(column, sets)| {
        let mut differences: Vec<f64> = resampled.iter().map(|found| found[column]).collect();
        let beyond = |is: fn(&f64) -> bool| differences.iter().filter(|d| is(d)).count() + 1;
        let smaller = beyond(|d| *d <= 0.0).min(beyond(|d| *d >= 0.0));
        let p_value = (2.0 * share(smaller, differences.len() + 1)).min(1.0);
        let (first, second) = (mean(&a, sets), mean(&b, sets));
        Difference {
            first,
            second,
            difference: first - second,
            interval: percentile_interval(&mut differences, options.level),
            p_value,
        }
    });
    Ok(compared.collect())
}

/// Refuses fits that did not score the same rows.
fn check_rows(first: &[FitScores<'_>], second: &[FitScores<'_>]) -> Result<(), MetricError> {
    let mut fits = first.iter().chain(second);
    let Some(one) = fits.next() else { return Err(MetricError::Empty { which: IND }) };
    if first.is_empty() || second.is_empty() {
        return Err(MetricError::Empty { which: IND });
    }
    for other in fits {
        check_paired(IND, one.ind, other.ind)?;
        if one.ood.len() != other.ood.len() {
            let (first, second) = (one.ood.len(), other.ood.len());
            return Err(MetricError::LengthMismatch { which: OOD, first, second });
        }
        one.ood.iter().zip(other.ood).try_for_each(|(a, b)| check_paired(OOD, a, b))?;
    }
    Ok(())
}

/// Placements of every row by set, and AUROCs, averaged over fits.
struct Placements {
    ind: Vec<Vec<f64>>,
    ood: Vec<Vec<f64>>,
    auroc: Vec<f64>,
}

impl Placements {
    fn of(fits: &[FitScores<'_>]) -> Result<Self, MetricError> {
        let sets = fits.first().map_or(0, |fit| fit.ood.len());
        let mut found = Placements { ind: Vec::new(), ood: Vec::new(), auroc: Vec::new() };
        let fits_count = count(fits.len());
        for k in 0..sets {
            let (mut ind, mut ood, mut auroc) = (Vec::new(), Vec::new(), 0.0);
            for fit in fits {
                let levels = Levels::merge(fit.ind, &fit.ood[k])?;
                levels.check_delong()?;
                let places = levels.placements();
                let place = |score: &f64| &places[levels.position(*score)];
                add(&mut ind, fit.ind.iter().map(|score| place(score).ind / fits_count));
                add(&mut ood, fit.ood[k].iter().map(|score| place(score).ood / fits_count));
                auroc += levels.auroc() / fits_count;
            }
            found.ind.push(ind);
            found.ood.push(ood);
            found.auroc.push(auroc);
        }
        Ok(found)
    }
}

/// Adds values to sums, which begin empty.
fn add(sums: &mut Vec<f64>, values: impl Iterator<Item = f64>) {
    if sums.is_empty() {
        sums.extend(values);
    } else {
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
}

/// Rows that were drawn: numbers of `InD` rows, and of rows of each set that is used.
struct Draw {
    ind: Vec<usize>,
    ood: Vec<Option<Vec<usize>>>,
}

impl Draw {
    fn everything(fit: &FitScores<'_>, used: &[usize]) -> Self {
        let ood = fit.ood.iter().enumerate();
        let ood = ood.map(|(k, set)| used.contains(&k).then(|| (0..set.len()).collect()));
        Draw { ind: (0..fit.ind.len()).collect(), ood: ood.collect() }
    }

    fn with_replacement(fit: &FitScores<'_>, used: &[usize], seed: u64, number: u32) -> Self {
        let mut random = Random::numbered(seed, Stream::PairedBootstrap, number);
        let mut draw = |rows: usize| -> Vec<usize> {
            (0..rows).map(|_| random.below(rows as u64) as usize).collect()
        };
        let ind = draw(fit.ind.len());
        let ood = fit.ood.iter().enumerate();
        let ood = ood.map(|(k, set)| used.contains(&k).then(|| draw(set.len()))).collect();
        Draw { ind, ood }
    }

    /// The FPR of each set on the drawn rows, averaged over fits; 0 for a set that is not used.
    fn rates(&self, fits: &[FitScores<'_>], options: &PairedOptions) -> Vec<f64> {
        let mut sums = vec![0.0; self.ood.len()];
        for fit in fits {
            // What a threshold from InD rows is, is the same for all sets.
            let place = match options.rule {
                FprRule::AtLeast => Some(refused(self.ind.len(), options.tpr)),
                FprRule::Authors => {
                    Some(refused_rounded(self.ind.len(), options.tpr).min(self.ind.len() - 1))
                }
                FprRule::OodPositive => None,
            };
            let threshold = place.map(|place| nth_of(fit.ind, &self.ind, place));
            for (k, rows) in self.ood.iter().enumerate() {
                let Some(rows) = rows else { continue };
                let (ind, ood) = (fit.ind, &fit.ood[k]);
                let passing = |scores: &[f64], rows: &[usize], passes: &dyn Fn(f64) -> bool| {
                    share(rows.iter().filter(|&&row| passes(scores[row])).count(), rows.len())
                };
                sums[k] += match (options.rule, threshold) {
                    (FprRule::AtLeast, Some(t)) => passing(ood, rows, &|score| score >= t),
                    (FprRule::Authors, Some(t)) => passing(ood, rows, &|score| score > t),
                    _ => {
                        let t = nth_of(ood, rows, kept(rows.len(), options.tpr) - 1);
                        passing(ind, &self.ind, &|score| score <= t)
                    }
                };
            }
        }
        let fits = count(fits.len());
        sums.into_iter().map(|sum| sum / fits).collect()
    }
}

/// The score in this place, from 0, when those of the drawn rows are sorted.
fn nth_of(scores: &[f64], rows: &[usize], place: usize) -> f64 {
    let mut drawn: Vec<f64> = rows.iter().map(|&row| scores[row]).collect();
    *drawn.select_nth_unstable_by(place, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::super::{delong_compare, fpr_at_tpr};
    use super::*;

    /// Scores of a method that sees a shift of this size.
    fn scores(rows: usize, shift: f64, number: u32) -> Vec<f64> {
        let mut random = Random::numbered(5, Stream::Trials, number);
        (0..rows).map(|_| random.normal() + shift).collect()
    }

    #[test]
    fn one_set_and_one_fit_is_delongs_test() {
        let (ind_a, ood_a) = (scores(60, 1.0, 1), vec![scores(40, 0.0, 2)]);
        let (ind_b, ood_b) = (scores(60, 0.5, 3), vec![scores(40, 0.0, 4)]);
        let a = [FitScores { ind: &ind_a, ood: &ood_a }];
        let b = [FitScores { ind: &ind_b, ood: &ood_b }];
        let got = compare_auroc(&a, &b, &[vec![0]], 0.95).unwrap()[0];
        let expected = delong_compare(&ind_a, &ood_a[0], &ind_b, &ood_b[0]).unwrap();
        assert!((got.p_value - expected.p_value).abs() < 1e-12);
        assert!((got.difference - expected.difference).abs() < 1e-12);
        let reach = (got.interval[1] - got.interval[0]) / 2.0;
        assert!((reach - 1.959_964 * expected.std_error).abs() < 1e-6);
    }

    #[test]
    fn rates_of_all_rows_are_those_of_the_metric() {
        let (ind, ood) = (scores(101, 1.0, 1), vec![scores(40, 0.0, 2), scores(7, 0.3, 3)]);
        let fit = [FitScores { ind: &ind, ood: &ood }];
        for rule in FprRule::ALL {
            let options = PairedOptions { rule, tpr: 0.9, ..PairedOptions::default() };
            let rates = Draw::everything(&fit[0], &[0, 1]).rates(&fit, &options);
            for (set, rate) in ood.iter().zip(rates) {
                assert_eq!(Ok(rate), fpr_at_tpr(&ind, set, 0.9, rule));
            }
        }
    }

    #[test]
    fn a_method_does_not_differ_from_itself_and_a_much_better_one_does() {
        let (ind, ood) = (scores(300, 2.0, 1), vec![scores(200, 0.0, 2), scores(100, 0.0, 3)]);
        let noise = (scores(300, 0.0, 4), vec![scores(200, 0.0, 5), scores(100, 0.0, 6)]);
        let good = [FitScores { ind: &ind, ood: &ood }];
        let bad = [FitScores { ind: &noise.0, ood: &noise.1 }];
        let columns = [vec![0], vec![1], vec![0, 1]];
        let options = PairedOptions { resamples: 200, ..PairedOptions::default() };
        for same in compare_fpr(&good, &good, &columns, &options).unwrap() {
            assert_eq!((same.difference, same.interval, same.p_value), (0.0, [0.0, 0.0], 1.0));
        }
        for same in compare_auroc(&good, &good, &columns, 0.95).unwrap() {
            assert_eq!((same.difference, same.p_value), (0.0, 1.0));
        }
        let other = compare_fpr(&good, &bad, &columns, &options).unwrap();
        assert!(other.iter().all(|found| found.p_value < 0.02 && found.interval[1] < 0.0));
        assert!((other[2].first - f64::midpoint(other[0].first, other[1].first)).abs() < 1e-12);
    }

    #[test]
    fn fits_are_averaged_before_they_are_compared() {
        let (ind, ood) = (scores(80, 1.0, 1), vec![scores(60, 0.0, 2)]);
        let (ind_2, ood_2) = (scores(80, 1.0, 3), vec![scores(60, 0.0, 4)]);
        let one = FitScores { ind: &ind, ood: &ood };
        let two = FitScores { ind: &ind_2, ood: &ood_2 };
        let options = PairedOptions { resamples: 50, ..PairedOptions::default() };
        let columns = [vec![0]];
        let auroc = compare_auroc(&[one, two], &[one], &columns, 0.95).unwrap()[0];
        let alone = compare_auroc(&[two], &[one], &columns, 0.95).unwrap()[0];
        assert!((auroc.difference - alone.difference / 2.0).abs() < 1e-12);
        let fpr = compare_fpr(&[one, two], &[one], &columns, &options).unwrap()[0];
        let alone = compare_fpr(&[two], &[one], &columns, &options).unwrap()[0];
        assert!((fpr.difference - alone.difference / 2.0).abs() < 1e-12);
    }

    #[test]
    fn under_the_null_small_p_values_are_rare() {
        // Two methods that are equally good, with independent errors: 200 tests at the 5 % level.
        let mut rejected = [0; 2];
        for trial in 0..200_u32 {
            let made = |shift, offset| scores(60, shift, 4 * trial + offset);
            let (ind_a, ood_a) = (made(1.0, 0), vec![made(0.0, 1)]);
            let (ind_b, ood_b) = (made(1.0, 2), vec![made(0.0, 3)]);
            let a = [FitScores { ind: &ind_a, ood: &ood_a }];
            let b = [FitScores { ind: &ind_b, ood: &ood_b }];
            let options = PairedOptions {
                resamples: 99,
                tpr: 0.8,
                seed: trial.into(),
                ..PairedOptions::default()
            };
            let columns = [vec![0]];
            let auroc = compare_auroc(&a, &b, &columns, 0.95).unwrap()[0].p_value;
            let fpr = compare_fpr(&a, &b, &columns, &options).unwrap()[0].p_value;
            rejected[0] += usize::from(auroc < 0.05);
            rejected[1] += usize::from(fpr < 0.05);
        }
        // 10 are expected; more than 22 come by chance once in 5,000.
        assert!(rejected.iter().all(|&count| count <= 22), "{rejected:?}");
    }

    #[test]
    fn other_rows_are_an_error() {
        let (ind, short) = (vec![1.0, 2.0], vec![1.0]);
        let (one, two) = (vec![vec![0.0, 1.0]], vec![vec![0.0, 1.0], vec![2.0, 1.0]]);
        let a = [FitScores { ind: &ind, ood: &one }];
        for b in [FitScores { ind: &short, ood: &one }, FitScores { ind: &ind, ood: &two }] {
            let error = compare_auroc(&a, &[b], &[vec![0]], 0.95).unwrap_err();
            assert!(matches!(error, MetricError::LengthMismatch { .. }), "{error}");
        }
        let error = compare_fpr(&a, &[], &[vec![0]], &PairedOptions::default()).unwrap_err();
        assert_eq!(error, MetricError::Empty { which: IND });
    }
}
