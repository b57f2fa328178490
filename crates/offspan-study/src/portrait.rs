//! Everything that is to be seen of one method on one pack, as data: a page can be drawn from it
//! again without the pack.

use ndarray::{Array2, Axis, concatenate};
use offspan::io::{Dataset, for_each_row, read_rows};
use offspan::metrics::{EvalOptions, Evaluation, FprRule, threshold_at_tpr};
use offspan::{Detector, Explained, ExplainedTerm, Observer, uniform_rows};
use offspan_report::embed::{EmbedError, Mds, Tsne, squared_distances};
use offspan_report::page;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::evaluation::{MethodResult, Scored, Sets};
use crate::numbers::{many, one};
use crate::{Result, StudyError};

/// One method on one pack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Portrait {
    /// The pack's name.
    pub pack: String,
    /// What the method is called in tables.
    pub method: String,
    /// The method with its parameters.
    pub params: Value,
    /// Rows of the fit.
    pub train_rows: u64,
    /// Width of the features.
    pub width: usize,
    /// Share of test rows that the threshold keeps.
    pub keep: f64,
    /// The lowest score that is kept.
    #[serde(with = "one")]
    pub threshold: f64,
    /// How the false-positive rates of the table take their threshold, where it is not this one.
    pub other_rule: Option<String>,
    /// Among how many methods this one was the best, if it was chosen by that.
    pub best_of: Option<usize>,
    /// In-distribution test rows.
    pub test: SetPortrait,
    /// Out-of-distribution sets, each with how well it is told apart.
    pub ood: Vec<(SetPortrait, Evaluation)>,
    /// What each kernel PCA of the method learnt.
    pub spectra: Vec<Spectrum>,
    /// The terms of the score, the heaviest first; none where it has no parts.
    #[serde(default)]
    pub terms: Vec<TermPortrait>,
    /// Pictures of a sample of the rows.
    pub pictures: Vec<Picture>,
    /// Why pictures are missing.
    pub no_pictures: Vec<String>,
}

/// The rows of one set.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetPortrait {
    /// Its name.
    pub name: String,
    /// Score of each row.
    #[serde(with = "many")]
    pub scores: Vec<f64>,
    /// Length of each row's features.
    pub norms: Vec<f64>,
    /// Rows with the highest and the lowest scores, which have a picture.
    pub thumbnails: Vec<Thumbnail>,
    /// What speaks loudest against the rows with the lowest scores, if the score has terms.
    #[serde(default)]
    pub loudest: Vec<Loudest>,
}

/// One term of a joint score.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TermPortrait {
    /// Its name.
    pub name: String,
    /// Its share in the score.
    pub weight: f64,
    /// The median of its p-values on the test rows.
    pub test: f64,
    /// The same for each out-of-distribution set.
    pub ood: Vec<f64>,
}

/// The term that speaks loudest against a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Loudest {
    /// The row.
    pub row: usize,
    /// The term's name.
    pub term: String,
    /// Its p-value.
    pub p_value: f64,
}

/// The picture of one row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Thumbnail {
    /// The row.
    pub row: usize,
    /// `data:image/png;base64,…`
    pub data_uri: String,
}

/// How much of the variance the first directions hold.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spectrum {
    /// Directions kept, q.
    pub components: usize,
    /// Dimensions of the feature map.
    pub dimensions: usize,
    /// Share of the variance that the kept ones hold.
    pub explained: f64,
    /// Share that the first 1, 2, … directions hold, as far as they are known.
    pub shares: Vec<f64>,
}

/// Rows in two dimensions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Picture {
    /// `t-SNE` or `MDS`.
    pub kind: String,
    /// `z` for the features themselves, `phi` for the kernel's feature space.
    pub space: String,
    /// Points by set, the test rows first.
    pub groups: Vec<(String, Vec<(f64, f64)>)>,
}

/// In-distribution rows in a picture, and rows of all other sets together.
const ROWS_IN: usize = 500;
const ROWS_OUT: usize = 500;

/// Rows at each end of the scores that are shown.
pub(crate) const EXTREMES: usize = 8;

impl Portrait {
    /// Looks at a method's scores of a pack, and at the rows behind them.
    ///
    /// # Errors
    /// If rows cannot be read, or the observer asks to stop.
    pub fn of(
        pack: &str,
        sets: &Sets<'_>,
        result: &MethodResult,
        scored: &Scored,
        options: &EvalOptions,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let threshold = threshold_at_tpr(&scored.ind, options.tpr).map_err(offspan::Error::from)?;
        let detector = scored.detector.as_ref();
        let explain = |data: &Dataset<'_>| match detector {
            Some(detector) => detector.explain(data, observer),
            None => Ok(None),
        };
        let mut explained = vec![explain(sets.test)?];
        let test = SetPortrait::of(sets.test, &scored.ind, explained[0].as_ref(), observer)?;
        let mut ood = Vec::new();
        for (set, scores) in sets.ood.iter().zip(&scored.ood) {
            let said = explain(set)?;
            let portrait = SetPortrait::of(set, scores, said.as_ref(), observer)?;
            ood.push((portrait, result.sets[set.name()]));
            explained.push(said);
        }
        let explained: Vec<Explained> = explained.into_iter().flatten().collect();
        let (pictures, no_pictures) = pictures(sets, detector, options.seed, observer)?;
        let training = detector.map(|detector| &detector.info().training);
        Ok(Portrait {
            pack: pack.to_owned(),
            method: result.method.clone(),
            params: detector.map_or_else(|| result.params.clone(), |one| json!(one.info().spec)),
            train_rows: training.map_or(sets.train.rows() as u64, |training| training.rows),
            width: training.map_or(sets.train.width(), |training| training.width),
            keep: options.tpr,
            threshold,
            other_rule: (options.rule != FprRule::default()).then(|| options.rule.to_string()),
            best_of: None,
            test,
            ood,
            spectra: detector.map_or_else(Vec::new, spectra),
            terms: terms(&explained),
            pictures,
            no_pictures,
        })
    }
}

impl SetPortrait {
    /// The share of rows that a threshold keeps.
    pub(crate) fn kept_by(&self, threshold: f64) -> f64 {
        let kept = self.scores.iter().filter(|&&score| score >= threshold).count();
        kept as f64 / self.scores.len() as f64
    }

    fn of(
        data: &Dataset<'_>,
        scores: &[f64],
        explained: Option<&Explained>,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let mut norms = Vec::with_capacity(data.rows());
        for_each_row(data, observer, |row| {
            norms.push(row.iter().map(|x| x * x).sum::<f64>().sqrt());
        })?;
        Ok(SetPortrait {
            name: data.name().to_owned(),
            scores: scores.to_vec(),
            norms,
            thumbnails: thumbnails(data, scores)?,
            loudest: explained.map_or_else(Vec::new, |explained| loudest(scores, explained)),
        })
    }
}

/// Pictures of the rows at both ends of the scores, where the pack has them.
fn thumbnails(data: &Dataset<'_>, scores: &[f64]) -> Result<Vec<Thumbnail>> {
    let ranked = ranked(scores);
    let (low, high) = (ranked.iter().take(EXTREMES), ranked.iter().rev().take(EXTREMES));
    let mut thumbnails: Vec<Thumbnail> = Vec::new();
    for &row in low.chain(high) {
        let known = thumbnails.iter().any(|thumbnail| thumbnail.row == row);
        let Some(pixels) = data.thumbnail(row)?.filter(|_| !known) else { continue };
        let size = (pixels.width, pixels.height);
        let picture =
            page::Picture::from_pixels(size, pixels.channels, &pixels.pixels, String::new())
                .map_err(|source| StudyError::Picture {
                    plot: format!("row {row} of {}", data.name()),
                    source,
                })?;
        thumbnails.push(Thumbnail { row, data_uri: picture.data_uri });
    }
    Ok(thumbnails)
}

/// What speaks loudest against the rows with the lowest scores.
fn loudest(scores: &[f64], explained: &Explained) -> Vec<Loudest> {
    let lowest = ranked(scores).into_iter().take(EXTREMES);
    let of = |row: usize| {
        let term = explained.loudest(row)?;
        let p_value = term.log_p_values[row].exp();
        Some(Loudest { row, term: term.name.clone(), p_value })
    };
    lowest.filter_map(of).collect()
}

/// The terms of a score, the heaviest first, from what they say of the test rows and of each other set.
fn terms(explained: &[Explained]) -> Vec<TermPortrait> {
    let Some((test, ood)) = explained.split_first() else { return Vec::new() };
    let of = |(number, term): (usize, &ExplainedTerm)| TermPortrait {
        name: term.name.clone(),
        weight: term.weight,
        test: median(term),
        ood: ood.iter().map(|set| median(&set.terms[number])).collect(),
    };
    let mut terms: Vec<TermPortrait> = test.terms.iter().enumerate().map(of).collect();
    terms.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    terms
}

/// The median of a term's p-values, the upper one of two. A set without rows has no figures, and so no
/// portrait.
fn median(term: &ExplainedTerm) -> f64 {
    let mut p_values: Vec<f64> = term.p_values().collect();
    p_values.sort_by(f64::total_cmp);
    p_values[p_values.len() / 2]
}

/// Rows from the lowest score to the highest; equal ones in their order.
pub(crate) fn ranked(scores: &[f64]) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..scores.len()).collect();
    rows.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]).then(a.cmp(&b)));
    rows
}

fn spectra(detector: &Detector) -> Vec<Spectrum> {
    let eigenvalues = detector.eigenvalues();
    let pairs = detector.kpca_summaries().into_iter().zip(eigenvalues);
    pairs
        .map(|(summary, eigenvalues)| {
            let kept: f64 = eigenvalues.iter().take(summary.components).sum();
            let total = kept / summary.explained_variance;
            let shares = eigenvalues.iter().scan(0.0, |sum, value| {
                *sum += value;
                Some(*sum / total)
            });
            Spectrum {
                components: summary.components,
                dimensions: summary.dimensions,
                explained: summary.explained_variance,
                shares: shares.collect(),
            }
        })
        .collect()
}

/// Pictures of a sample of the rows, and the reasons why some cannot be made.
fn pictures(
    sets: &Sets<'_>,
    detector: Option<&Detector>,
    seed: u64,
    observer: &dyn Observer,
) -> Result<(Vec<Picture>, Vec<String>)> {
    let each = (ROWS_OUT / sets.ood.len().max(1)).max(1);
    let mut names = vec![sets.test.name().to_owned()];
    let mut parts = vec![sample(sets.test, ROWS_IN, seed)?];
    for set in sets.ood {
        names.push(set.name().to_owned());
        parts.push(sample(set, each, seed)?);
    }
    let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
    let rows = concatenate(Axis(0), &views)
        .unwrap_or_else(|_| unreachable!("the sets of a pack have the same width"));
    let mut spaces = vec![("z", squared_distances(rows.view()))];
    let of_kernel = detector.and_then(|detector| detector.feature_space_distances(rows));
    spaces.extend(of_kernel.map(|distances| ("phi", distances)));
    let (mut pictures, mut without) = (Vec::new(), Vec::new());
    for (space, distances) in &spaces {
        for kind in ["t-SNE", "MDS"] {
            let progress = |done: usize, of: usize| {
                if done == 0 {
                    observer.begin(&format!("{kind} of rows in {space}"), of as u64);
                }
                observer.advance(1);
                !observer.interrupted()
            };
            let embedded = match kind {
                "t-SNE" => Tsne { seed, ..Tsne::default() }.fit(distances.view(), &progress),
                _ => Mds { seed, ..Mds::default() }.fit(distances.view(), &progress),
            };
            match embedded {
                Ok(embedding) => {
                    let mut points =
                        embedding.points.rows().into_iter().map(|row| (row[0], row[1]));
                    let groups = names.iter().zip(&parts).map(|(name, part)| {
                        (name.clone(), points.by_ref().take(part.nrows()).collect())
                    });
                    let groups = groups.collect();
                    pictures.push(Picture { kind: kind.into(), space: (*space).into(), groups });
                }
                Err(EmbedError::Interrupted) => {
                    return Err(offspan::Error::Interrupted { hint: String::new() }.into());
                }
                Err(error) => without.push(format!("No {kind} picture of {space}: {error}.")),
            }
        }
    }
    Ok((pictures, without))
}

/// A seeded sample of the rows, in their order.
pub(crate) fn sample(data: &Dataset<'_>, count: usize, seed: u64) -> Result<Array2<f64>> {
    let count = count.min(data.rows());
    let mut rows = Array2::zeros((count, data.width()));
    if count > 0 {
        for (mut to, row) in rows.outer_iter_mut().zip(uniform_rows(data.rows(), count, seed)?) {
            to.assign(&read_rows::<f64>(data.features(), row..row + 1)?.row(0));
        }
    }
    Ok(rows)
}
