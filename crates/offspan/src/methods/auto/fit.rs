//! The fit of `auto`: which rows are set aside, how wide the kernel is, what each term is worth.

use ndarray::Array2;

use super::evidence::Evidence;
use super::joint::Joint;
use super::sample::{MOST_ROWS, Sample};
use super::scale::median;
use super::trials::trials;
use super::{Auto, AutoParams, sample};
use crate::io::Gathered;
use crate::methods::kpca;
use crate::training::{Fitted, Training};
use crate::{Error, Preprocess, Result};

/// Fewer rows say nothing of how scores spread.
const FEWEST_ROWS: usize = 2 * FEWEST_ASIDE;
/// Training rows set aside to see how terms spread: this share, within these bounds.
const ASIDE: f64 = 0.2;
const FEWEST_ASIDE: usize = 20;
pub(super) const MOST_ASIDE: usize = 3000;
/// Rows of the fit that are compared with those.
const ROWS_TO_COMPARE: usize = 1500;
/// Rows whose distances set γ.
const ROWS_FOR_WIDTH: usize = 500;
/// γ times the median squared distance.
pub(super) const WIDTH: f64 = 4.0;
/// Landmarks, if there are so many rows.
pub(super) const LANDMARKS: usize = 1024;

impl Auto {
    pub(super) fn fit(params: &AutoParams, training: &Training<'_>) -> Result<Fitted<Self>> {
        let rows = training.rows()?;
        if rows < FEWEST_ROWS {
            return Err(Error::TooFewRows {
                what: format!("auto on {}", training.data.name),
                expected: FEWEST_ROWS,
                got: rows,
            });
        }
        let count = ((ASIDE * rows as f64) as usize).max(FEWEST_ASIDE.min(rows / 2));
        let fitting = holding_out(training, count.min(MOST_ASIDE), params.seed);
        training.observer.begin("what the rows are like", 0);
        let gamma = match params.gamma {
            Some(gamma) => gamma,
            None => WIDTH / typical_distance(&fitting, params.seed)?,
        };
        let landmarks = params.landmarks.unwrap_or(LANDMARKS.min(fitting.rows()?));
        let kpca = kpca::fit(&params.kpca(gamma, landmarks)?, &fitting)?;
        let Fitted { model: kpca, rows, fingerprint } = kpca;
        // From here on, some rows say enough.
        let aside = training.settled_rows(|| {
            let aside = fitting.held_out();
            Ok(aside.iter().copied().filter(|&row| training.hold_out.keeps(row)).collect())
        })?;
        let looked_at = fitting.sample(MOST_ROWS, params.seed)?;
        let mut both = [&aside[..], &looked_at[..]].concat();
        both.sort_unstable();
        let brought = fitting.bring(&both)?;
        let fitting = fitting.brought(brought.data());
        let aside = Gathered::new(fitting.data, &aside, &[])?;
        let aside = aside.dataset()?;
        let looked_at = Sample::of(&fitting, looked_at, params.seed)?;
        let mut evidence = Evidence::fit(params, kpca, &fitting, (&looked_at, None), &aside)?;
        let terms = evidence.terms();
        let worth = trials(params, gamma, &fitting, &looked_at, &evidence)?;
        let seen = sample(&looked_at.numbers, ROWS_TO_COMPARE, params.seed)?;
        let seen = Gathered::new(fitting.data, &seen, &[])?;
        let seen = evidence.read_all(&seen.dataset()?)?;
        let unseen = evidence.read_all(&aside)?;
        let joint = Joint::of(&terms, unseen.view(), seen.view(), worth.as_deref());
        evidence.keep_only(&joint.terms());
        let worth = terms.into_iter().zip(worth.unwrap_or_default()).collect();
        let model = Auto { evidence, joint, worth, gamma, landmarks };
        Ok(Fitted { model, rows, fingerprint })
    }
}

/// The same fit without about so many more of its rows.
fn holding_out<'a>(training: &Training<'a>, count: usize, seed: u64) -> Training<'a> {
    let share = count as f64 / training.data.rows() as f64;
    Training { hold_out: training.hold_out.widened(share, seed), ..*training }
}

/// The median squared distance between unit vectors of training rows.
fn typical_distance(training: &Training<'_>, seed: u64) -> Result<f64> {
    let rows = training.sample(ROWS_FOR_WIDTH, seed)?;
    let mut unit: Array2<f64> = training.gather(&rows)?;
    let preprocess = Preprocess { clip: None, cosine: true };
    if let Some(&zero) = preprocess.apply(unit.view_mut()).first() {
        return Err(training.data.zero_row(rows[zero]));
    }
    let products = unit.dot(&unit.t());
    let mut distances = Vec::with_capacity(rows.len() * rows.len() / 2);
    for i in 0..rows.len() {
        distances.extend((i + 1..rows.len()).map(|j| (2.0 - 2.0 * products[[i, j]]).max(0.0)));
    }
    // Rows that are all alike leave any width to choose from.
    Ok(median(&mut distances).max(1e-6))
}
