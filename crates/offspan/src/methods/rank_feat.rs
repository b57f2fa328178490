//! RankFeat (Song et al. 2022): the energy after the leading singular part σ₁u₁v₁ᵀ is taken out of
//! each un-pooled feature map (channels × positions). RankWeight takes the leading part out of the
//! weights of the last convolution as well, whose maps are computed anew.

use std::borrow::Cow;
use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayView2, Axis};
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, Method, OWN_FIXTURE, from_known};
use super::model::{Model, RowValues, Scorer, Stored, not_exportable};
use crate::graph::{Builder, Value};
use crate::io::{Dataset, Extra, Head, LastBlock, TensorWriter, read_rows};
use crate::numeric::linalg;
use crate::numeric::product::unpacked;
use crate::numeric::vector::contiguous;
use crate::training::logits::{energy, head_logits};
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Error, Result};

pub(super) const MAPS: &str = "maps";
const INPUT: &str = "block_input";
const SHORTCUT: &str = "block_shortcut";
pub(super) const HINT: &str = "store the last feature maps before pooling as `maps` [rows, channels, height, \
                    width] beside `features`";
const INPUT_HINT: &str = "store what enters the last 1×1 convolution as `block_input` [rows, channels, \
                          height, width] beside `features`";

/// Why there is no graph of it.
const NO_GRAPH: &str = "the leading part of a row's feature maps comes from eigenvectors, for which ONNX has no operator";

/// Parameters of RankFeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankFeatParams {
    /// Whether the last convolution's weights lose their leading part, too.
    pub rank_weight: bool,
}

impl Method for RankFeatParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![
            Entry {
                name: RankFeat::name(false),
                summary: "energy of feature maps without their leading singular part",
                needs: "head; un-pooled `maps` [rows, channels, height, width]",
                source: "Song et al., RankFeat: Rank-1 Feature Removal for Out-of-distribution Detection, 2022",
                parity: OWN_FIXTURE,
                default: RankFeatParams { rank_weight: false },
            },
            Entry {
                name: RankFeat::name(true),
                summary: "the same, and the last convolution loses the leading part of its weights, too",
                needs: "head with `block.weight`, `block.scale`, `block.shift`; `block_input` [rows, channels, height, width]; `block_shortcut` where the block has one",
                source: "Song et al., RankFeat & RankWeight, 2024",
                parity: OWN_FIXTURE,
                default: RankFeatParams { rank_weight: true },
            },
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        RankFeat::name(self.rank_weight).into()
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(*self))
    }

    fn not_exportable(&self) -> Option<&'static str> {
        Some(NO_GRAPH)
    }

    fn follows_steps(&self) -> bool {
        false
    }
}

impl Fit for RankFeatParams {
    fn uses_head(&self) -> bool {
        true
    }

    fn check_inputs(&self, _: &str, training: &Training<'_>) -> Result<()> {
        RankFeat::fit(self.rank_weight, training).map(drop)
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        Ok(from_known(self, known, RankFeat::fit(self.rank_weight, training)?))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let missing = |what: &str| Error::shape("the detector", what, "none");
        let mut head = stored.head()?.ok_or_else(|| missing("a last layer"))?;
        let block = head.block.take().map(|block| *block);
        if self.rank_weight && block.is_none() {
            return Err(missing("the last block"));
        }
        Ok(Arc::new(RankFeat { head, block }))
    }
}

/// The last layer and, for RankWeight, the block before it.
#[derive(Debug, Clone)]
struct RankFeat {
    head: Head,
    /// The last convolution without the leading part of its weights.
    block: Option<LastBlock>,
}

impl RankFeat {
    fn fit(rank_weight: bool, training: &Training<'_>) -> Result<Self> {
        let name = Self::name(rank_weight);
        let head = training.head(name)?;
        let block = if rank_weight {
            let block = head.block.as_deref().ok_or_else(|| Error::MissingInput {
                who: format!("{name} on {}", training.data.name),
                what: "the last block's weights",
                hint: "give `block.weight`, `block.scale` and `block.shift` in head.safetensors"
                    .to_owned(),
            })?;
            let weight = without_leading_part(block.weight.view())?;
            Some(LastBlock { weight, ..block.clone() })
        } else {
            None
        };
        let model = RankFeat { head: head.without_block(), block };
        model.check_inputs(training.data)?;
        Ok(model)
    }

    fn name(rank_weight: bool) -> &'static str {
        if rank_weight { "rank-feat+rank-weight" } else { "rank-feat" }
    }

    /// Un-pooled maps of one row: channels × positions.
    fn maps(&self, data: &Dataset<'_>, row: usize) -> Result<Array2<f64>> {
        let name = Self::name(self.block.is_some());
        let Some(block) = &self.block else {
            return one_map(data.extra(name, MAPS, HINT)?, row);
        };
        let input = one_map(data.extra(name, INPUT, INPUT_HINT)?, row)?;
        let mut maps = Array2::zeros((block.weight.nrows(), input.ncols()));
        unpacked::multiply(maps.view_mut(), block.weight.view(), input.view());
        maps *= &block.scale.view().insert_axis(Axis(1));
        maps += &block.shift.view().insert_axis(Axis(1));
        if let Some(shortcut) = data.extras.get(SHORTCUT) {
            maps += &one_map(shortcut, row)?;
        }
        maps.mapv_inplace(|x| x.max(0.0));
        Ok(maps)
    }
}

/// One row of a tensor as channels × positions.
fn one_map(extra: &Extra<'_>, row: usize) -> Result<Array2<f64>> {
    let numbers = read_rows::<f64>(&*extra.rows, row..row + 1)?;
    let positions = extra.shape[1..].iter().product();
    Ok(Array2::from_shape_vec((extra.shape[0], positions), numbers.into_raw_vec_and_offset().0)
        .unwrap_or_else(|_| unreachable!("the shape of the row")))
}

/// X − σ₁u₁v₁ᵀ, from the leading eigenvector of the smaller Gram matrix.
fn without_leading_part(x: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
    let (rows, columns) = x.dim();
    let tall = rows > columns;
    let gram = if tall { x.t().dot(&x) } else { x.dot(&x.t()) };
    let leading: Array1<f64> = linalg::symmetric_eigen(gram.view())?.vectors.row(0).to_owned();
    // With v₁: X − (X v₁)v₁ᵀ; with u₁: X − u₁(u₁ᵀX).
    let (left, right) =
        if tall { (x.dot(&leading), leading) } else { (leading.clone(), x.t().dot(&leading)) };
    let mut rest = x.to_owned();
    for (mut row, &factor) in rest.rows_mut().into_iter().zip(&left) {
        row.scaled_add(-factor, &right);
    }
    Ok(rest)
}

impl Scorer for RankFeat {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        let name = Self::name(self.block.is_some());
        let check = |what: &str, extra: &Extra<'_>, channels: usize| {
            if extra.shape.len() >= 2 && extra.shape[0] == channels {
                return Ok(());
            }
            Err(Error::shape(
                format!("`{what}` of {}", data.name),
                format!("[rows, {channels}, height, width]"),
                format!("[rows] × {:?}", extra.shape),
            ))
        };
        let channels = self.head.weight.ncols();
        match &self.block {
            None => check(MAPS, data.extra(name, MAPS, HINT)?, channels),
            Some(block) => {
                if block.weight.nrows() != channels {
                    return Err(Error::shape(
                        "`block.weight` of the head",
                        format!("{channels} rows, the width of the features"),
                        format!("{} rows", block.weight.nrows()),
                    ));
                }
                let input = data.extra(name, INPUT, INPUT_HINT)?;
                check(INPUT, input, block.weight.ncols())?;
                let Some(shortcut) = data.extras.get(SHORTCUT) else { return Ok(()) };
                check(SHORTCUT, shortcut, channels)?;
                if shortcut.shape[1..] == input.shape[1..] {
                    return Ok(());
                }
                Err(Error::shape(
                    format!("`{SHORTCUT}` of {}", data.name),
                    format!("maps of {:?}, as in `{INPUT}`", &input.shape[1..]),
                    format!("{:?}", &shortcut.shape[1..]),
                ))
            }
        }
    }

    fn extras(&self) -> &'static [&'static str] {
        if self.block.is_some() { &[INPUT, SHORTCUT] } else { &[MAPS] }
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let mut pooled = Array2::zeros((out.len(), self.head.weight.ncols()));
        for (row, mut pooled) in (start..).zip(pooled.rows_mut()) {
            let rest = without_leading_part(self.maps(data, row)?.view())?;
            if let Some(mean) = rest.mean_axis(Axis(1)) {
                pooled.assign(&mean);
            }
        }
        let logits = head_logits(&self.head, pooled.view());
        for (out, logits) in out.iter_mut().zip(logits.rows()) {
            *out = energy(contiguous(&logits), 1.0);
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let _ = (rows, builder);
        Err(not_exportable(NO_GRAPH))
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.head.write(prefix, writer);
        if let Some(block) = &self.block {
            block.write(prefix, writer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_out_the_leading_part_leaves_what_the_other_singular_values_make() {
        // X = 5·u₁v₁ᵀ + 2·u₂v₂ᵀ with orthonormal u and v.
        let (u1, u2) = ([0.6, 0.8, 0.0], [0.0, 0.0, 1.0]);
        let (v1, v2) = ([0.0, 1.0], [1.0, 0.0]);
        let x = Array2::from_shape_fn((3, 2), |(i, j)| 5.0 * u1[i] * v1[j] + 2.0 * u2[i] * v2[j]);
        let rest = Array2::from_shape_fn((3, 2), |(i, j)| 2.0 * u2[i] * v2[j]);
        for (x, rest) in [(x.view(), rest.view()), (x.t(), rest.t())] {
            let got = without_leading_part(x).unwrap();
            assert!((&got - &rest).iter().all(|d| d.abs() < 1e-12), "{got}");
        }
    }
}
