//! CSI (Tack et al. 2020): contrastive features of S shifted views (such as rotations) of each row.
//! Σ_S λ_S·max_i cos(z_S, z_iS)·‖z_S‖ over training rows i, with λ_S = 1/mean‖z_iS‖; plus, where the
//! shift classifier's logit of the true shift is given, Σ_S logit_S/mean(logit_S).

use std::sync::Arc;

use ndarray::{Array1, Array2, Axis, s};
use serde::{Deserialize, Serialize};

use super::bank::Bank;
use super::method::{Entry, Fit, Method, OWN_FIXTURE, from_known};
use super::model::{Found, Model, RowValues, Scorer, Stored};
use crate::graph::{Builder, Value};
use crate::io::observer::check_interrupt;
use crate::io::{Block, Dataset, Extra, TensorWriter, read_rows};
use crate::numeric::vector::{self, contiguous, contiguous_mut};
use crate::span::preprocess::normalise;
use crate::training::statistics::Statistics;
use crate::training::{BLOCK, Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "csi";
const FEATURES: &str = "csi_features";
const SHIFT_LOGITS: &str = "csi_shift_logits";
const HINT: &str = "store the contrastive features of each row's shifted views as `csi_features` \
                    [rows, views, width] beside `features`";

/// Parameters of CSI: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsiParams {}

impl Method for CsiParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "similarity to training rows over shifted views",
            needs: "`csi_features` [rows, views, width]: contrastive features of each view; `csi_shift_logits` [rows, views] where the network has a shift classifier; the file holds the bank (4 bytes × rows × views × width)",
            source: "Tack et al., CSI: Novelty Detection via Contrastive Learning on Distributionally Shifted Instances, 2020",
            parity: OWN_FIXTURE,
            default: Self::default(),
        }]
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }

    fn follows_steps(&self) -> bool {
        false
    }
}

impl Fit for CsiParams {
    fn check_inputs(&self, _: &str, training: &Training<'_>) -> Result<()> {
        let data = training.data;
        let (views, _) = shape(data)?;
        match data.extras.get(SHIFT_LOGITS) {
            Some(logits) => check_shift_logits(logits, views, data),
            None => Ok(()),
        }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        Ok(from_known(self, known, Csi::fit(training)?))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(Csi::read(stored)?))
    }
}

/// One bank per view.
#[derive(Debug, Clone)]
struct Csi {
    /// All views' banks under one another.
    banks: Array2<f32>,
    views: usize,
    /// λ_S of the similarities, then those of the shift logits, if there are any.
    weights: Array1<f64>,
}

impl Csi {
    fn fit(training: &Training<'_>) -> Result<Self> {
        let (views, width) = shape(training.data)?;
        let features = training.data.extra(NAME, FEATURES, HINT)?;
        let kept = training.kept();
        training.observer.begin("rows for the bank", kept.len() as u64);
        let mut banks = Array2::<f32>::zeros((views * kept.len(), width));
        let mut norms = Array1::<f64>::zeros(views);
        for (index, &row) in kept.iter().enumerate() {
            if index % BLOCK == 0 {
                check_interrupt(training.observer)?;
            }
            let numbers =
                read_rows::<f32>(&*features.rows, row..row + 1)?.into_raw_vec_and_offset().0;
            for (view, part) in numbers.chunks_exact(width).enumerate() {
                let mut target = banks.row_mut(view * kept.len() + index);
                let target = contiguous_mut(&mut target);
                target.copy_from_slice(part);
                norms[view] += vector::sum_of_squares(target).sqrt();
                if !normalise(target) {
                    let what = format!("`{FEATURES}` of {}", training.data.name);
                    return Err(Error::ZeroRow { what, row, after: "", hint: String::new() });
                }
            }
            training.observer.advance(1);
        }
        let mut weights = inverse_means(&norms, kept.len()).to_vec();
        if let Some(logits) = training.data.extras.get(SHIFT_LOGITS) {
            let mut sums = Array1::<f64>::zeros(views);
            for &row in &kept {
                sums += &Block::read(&*logits.rows, row, 1)?.row(0);
            }
            weights.extend(inverse_means(&sums, kept.len()));
        }
        Ok(Csi { banks, views, weights: weights.into() })
    }

    fn read(stored: Stored<'_>) -> Result<Self> {
        let banks: Array2<f32> = stored.file.array2(&format!("{}banks", stored.prefix))?;
        let views = stored.number("views")? as usize;
        let weights = stored.file.array1(&format!("{}weights", stored.prefix))?;
        let fits = views > 0
            && banks.nrows().is_multiple_of(views)
            && (weights.len() == views || weights.len() == 2 * views);
        if !fits {
            return Err(Error::shape(
                "`banks` and `weights` of the detector",
                format!("those of {views} views"),
                format!("{:?} and {:?}", banks.shape(), weights.shape()),
            ));
        }
        Ok(Csi { banks, views, weights })
    }

    fn shift_logits<'a, 'b>(&self, data: &'a Dataset<'b>) -> Result<Option<&'a Extra<'b>>> {
        if self.weights.len() == self.views {
            return Ok(None);
        }
        let hint = "the detector was fitted with `csi_shift_logits` [rows, views]; store them here, \
                    too";
        let logits = data.extra(NAME, SHIFT_LOGITS, hint)?;
        check_shift_logits(logits, self.views, data)?;
        Ok(Some(logits))
    }
}

fn check_shift_logits(logits: &Extra<'_>, views: usize, data: &Dataset<'_>) -> Result<()> {
    if logits.rows.width() == views {
        return Ok(());
    }
    Err(Error::shape(
        format!("`{SHIFT_LOGITS}` of {}", data.name),
        format!("[rows, {views}], one per view"),
        format!("[rows] × {:?}", logits.shape),
    ))
}

/// 1/mean of sums over rows; a view whose sum is 0 tells nothing and gets no weight.
fn inverse_means(sums: &Array1<f64>, rows: usize) -> Array1<f64> {
    sums.mapv(|sum| if sum == 0.0 { 0.0 } else { rows as f64 / sum })
}

/// Views and width of a dataset's contrastive features.
fn shape(data: &Dataset<'_>) -> Result<(usize, usize)> {
    let features = data.extra(NAME, FEATURES, HINT)?;
    match features.shape[..] {
        [views, width] => Ok((views, width)),
        _ => Err(Error::shape(
            format!("`{FEATURES}` of {}", data.name),
            "[rows, views, width]",
            format!("[rows] × {:?}", features.shape),
        )),
    }
}

impl Scorer for Csi {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        let got = shape(data)?;
        let expected = (self.views, self.banks.ncols());
        if got != expected {
            return Err(Error::shape(
                format!("`{FEATURES}` of {}", data.name),
                format!("[rows, {}, {}], as in training", expected.0, expected.1),
                format!("[rows, {}, {}]", got.0, got.1),
            ));
        }
        self.shift_logits(data).map(drop)
    }

    fn extras(&self) -> &'static [&'static str] {
        &[FEATURES, SHIFT_LOGITS]
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let features = data.extra(NAME, FEATURES, HINT)?;
        let width = self.banks.ncols();
        let rows = read_rows::<f32>(&*features.rows, start..start + out.len())?;
        out.fill(0.0);
        let bank_rows = self.banks.nrows() / self.views;
        for (view, bank) in self.banks.axis_chunks_iter(Axis(0), bank_rows).enumerate() {
            let mut queries = rows.slice(s![.., view * width..(view + 1) * width]).to_owned();
            let norms: Vec<f64> = queries
                .rows_mut()
                .into_iter()
                .map(|mut row| {
                    let row = contiguous_mut(&mut row);
                    let norm = vector::sum_of_squares(row).sqrt();
                    normalise(row);
                    norm
                })
                .collect();
            let nearest = Bank::nearest_in(bank, queries.view(), 1, None);
            for ((out, norm), nearest) in out.iter_mut().zip(norms).zip(nearest) {
                *out += self.weights[view] * f64::from(nearest.smallest()) * norm;
            }
        }
        if let Some(logits) = self.shift_logits(data)? {
            let logits = Block::read(&*logits.rows, start, out.len())?;
            let weights = self.weights.slice(s![self.views..]);
            for (out, logits) in out.iter_mut().zip(logits.rows()) {
                *out += contiguous(&logits).iter().zip(weights).map(|(l, w)| l * w).sum::<f64>();
            }
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let _ = rows;
        let width = self.banks.ncols();
        let features = builder.input(FEATURES, &[self.views, width]);
        let features = builder.reshape(features, &[self.views * width]);
        let bank_rows = self.banks.nrows() / self.views;
        let mut similarities = Vec::new();
        for (view, bank) in self.banks.axis_chunks_iter(Axis(0), bank_rows).enumerate() {
            let queries = builder.part(features, view * width, (view + 1) * width);
            let length = builder.length(queries);
            let (unit, _, _) = builder.unit_rows(queries);
            let products = builder.linear("bank", unit, bank);
            let nearest = builder.largest(products);
            let similarity = builder.mul(nearest, length);
            let similarity = builder.times(similarity, self.weights[view]);
            similarities.push(builder.as_column(similarity));
        }
        if self.weights.len() > self.views {
            let logits = builder.input(SHIFT_LOGITS, &[self.views]);
            let weights = self.weights.slice(s![self.views..]).to_owned();
            let weights = builder.vector("shift_weights", &weights);
            similarities.push(builder.mul(logits, weights));
        }
        let all = builder.joined(&similarities);
        Ok(builder.sum(all))
    }

    fn found(&self) -> Found {
        Found::from([
            ("views".to_owned(), self.views as f64),
            ("bank rows".to_owned(), self.banks.nrows() as f64),
            ("bank megabytes".to_owned(), (self.banks.len() * size_of::<f32>()) as f64 / 1e6),
        ])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}banks"), &self.banks);
        writer.array1(format!("{prefix}weights"), &self.weights);
    }
}
