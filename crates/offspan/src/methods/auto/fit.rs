//! The decisions of `auto`: which rows are set aside, how wide the kernel is, how many landmarks.

use ndarray::{Array1, Array2, ArrayView1};

use super::energy::EnergyPart;
use super::joint::Joint;
use super::products::Products;
use super::scale::median;
use super::{Auto, AutoParams, in_blocks, residuals, sample, size};
use crate::io::{Dataset, Gathered, gather};
use crate::methods::kpca::{self, KpcaModel};
use crate::training::{Fitted, Training};
use crate::{Error, Preprocess, Result};

/// Fewer rows say nothing of how scores spread.
const FEWEST_ROWS: usize = 2 * FEWEST_ASIDE;
/// Training rows set aside to see how scores spread: this share, within these bounds.
const ASIDE: f64 = 0.2;
const FEWEST_ASIDE: usize = 20;
const MOST_ASIDE: usize = 3000;
/// Rows whose distances set γ.
const ROWS_FOR_WIDTH: usize = 500;
/// γ times the median squared distance: with an energy beside the residual, and alone.
pub(super) const WIDTH: f64 = 0.5;
pub(super) const WIDTH_ALONE: f64 = 4.0;
/// Rows that are enough to learn how many landmarks there must be.
const ROWS_FOR_SIZE: usize = 8192;

impl Auto {
    pub(super) fn fit(params: &AutoParams, training: &Training<'_>) -> Result<Fitted<Self>> {
        let rows = training.rows();
        if rows < FEWEST_ROWS {
            return Err(Error::TooFewRows {
                what: format!("auto on {}", training.data.name),
                expected: FEWEST_ROWS,
                got: rows,
            });
        }
        let count = ((ASIDE * rows as f64) as usize).max(FEWEST_ASIDE.min(rows / 2));
        let fitting = holding_out(training, count.min(MOST_ASIDE), params.seed);
        let aside = fitting.hold_out.held_out(training.data.rows());
        let aside: Vec<usize> = aside.filter(|&row| training.hold_out.keeps(row)).collect();
        let kept = fitting.kept();
        training.observer.begin("what the rows are like", 0);
        let aside = Gathered::new(training.data, &aside, &[])?;
        let aside = aside.dataset()?;
        let others = Others::new(&fitting, &kept, &aside, params)?;
        let gamma = match params.gamma {
            Some(gamma) => gamma,
            None => others.width() / typical_distance(&fitting, &kept, params.seed)?,
        };
        let fit = |training: &Training<'_>, landmarks: usize| -> Result<(Fitted<Auto>, Vec<f64>)> {
            let fitted = kpca::fit(&params.kpca(gamma, landmarks)?, training)?;
            let Fitted { model, rows, fingerprint } = fitted;
            let (kpca, products, residuals) =
                Products::cheapest(model, |kpca| others.residuals(kpca))?;
            let joint = others.joint(residuals.view());
            let scores = others.scores(&joint, residuals.view());
            let energy = others.energy.clone();
            let model = Auto { kpca, products, energy, joint, gamma, landmarks };
            Ok((Fitted { model, rows, fingerprint }, scores))
        };
        if let Some(landmarks) = params.landmarks {
            return fit(&fitting, landmarks).map(|(fitted, _)| fitted);
        }
        // Trials are short and leave the checkpoint to the fit that follows.
        let few = kept.len() <= ROWS_FOR_SIZE;
        let trial = Training { checkpoint: None, ..fitting };
        let trial =
            if few { trial } else { holding_out(&trial, kept.len() - ROWS_FOR_SIZE, params.seed) };
        let found = size::enough(trial.rows(), |landmarks| fit(&trial, landmarks))?;
        match found {
            Some(fitted) if few && training.checkpoint.is_none() => Ok(fitted),
            Some(fitted) => fit(&fitting, fitted.model.landmarks).map(|(fitted, _)| fitted),
            None => unreachable!("there are rows, so something was tried"),
        }
    }
}

/// Rows that the fit does not see, with what the network says of them.
struct Others<'a> {
    rows: &'a Dataset<'a>,
    energy: Option<EnergyPart>,
    energies: Option<Array1<f64>>,
}

impl<'a> Others<'a> {
    fn new(
        fitting: &Training<'_>,
        kept: &[usize],
        rows: &'a Dataset<'a>,
        params: &AutoParams,
    ) -> Result<Self> {
        let energy = EnergyPart::fit(fitting, kept, rows, (params.seed, params.precision))?;
        let energies = energy.as_ref().map(|energy| energy.of_all(rows)).transpose()?;
        Ok(Others { rows, energy, energies })
    }

    fn width(&self) -> f64 {
        if self.energy.is_some() { WIDTH } else { WIDTH_ALONE }
    }

    fn residuals(&self, kpca: &KpcaModel) -> Result<Array1<f64>> {
        in_blocks(self.rows, |data, start, out| residuals(kpca, data, start, out))
    }

    fn joint(&self, residuals: ArrayView1<'_, f64>) -> Joint {
        Joint::of(residuals, self.energies.as_ref().map(|energies| energies.view()))
    }

    fn scores(&self, joint: &Joint, residuals: ArrayView1<'_, f64>) -> Vec<f64> {
        let energy = |row: usize| self.energies.as_ref().map(|energies| energies[row]);
        residuals.iter().enumerate().map(|(row, &e)| joint.score(e, energy(row))).collect()
    }
}

/// The same fit without about so many more of its rows.
fn holding_out<'a>(training: &Training<'a>, count: usize, seed: u64) -> Training<'a> {
    let share = count as f64 / training.data.rows() as f64;
    Training { hold_out: training.hold_out.widened(share, seed), ..*training }
}

/// The median squared distance between unit vectors of training rows.
fn typical_distance(training: &Training<'_>, kept: &[usize], seed: u64) -> Result<f64> {
    let rows = sample(kept, ROWS_FOR_WIDTH, seed)?;
    let mut unit: Array2<f64> = gather(&*training.data.features, &rows)?;
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
