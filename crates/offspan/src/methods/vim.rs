//! ViM (Wang et al. 2022): E(l) − α‖Rᵀ(z − o)‖ with o = −W⁺b, R the directions beyond the D leading
//! ones of the second moment of z − o (about o, not about the mean), and α = mean(max l) over
//! mean‖Rᵀ(z − o)‖ of the training rows.

use std::sync::Arc;

use ndarray::ArrayView2;
use serde::{Deserialize, Serialize};

use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, check_count, from_known};
use super::model::{Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of, write_head};
use super::off_subspace::{HEAD_PRECISION, OffSubspace, dimensions_option};
use super::option::{OptionInfo, Options, option};
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const NAME: &str = "vim";
const HEAD_FLOOR: OptionInfo = option(
    "head-floor",
    "EPS",
    "vim: precision of the last layer's weights; directions at its rounding level are left out",
);

/// Parameters of ViM.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct VimParams {
    /// D, the dimensions of the subspace; the public code's choice by width where none is given.
    pub components: Option<usize>,
    /// Precision of the last layer: singular values at its rounding level are left out.
    pub head_floor: f64,
}

impl Default for VimParams {
    fn default() -> Self {
        VimParams { components: None, head_floor: HEAD_PRECISION }
    }
}

impl Method for VimParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "energy minus the scaled residual of a subspace",
            needs: "features and head",
            source: "Wang et al., ViM: Out-Of-Distribution with Virtual-logit Matching, 2022",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        dimensions_option(options, &mut self.components)?;
        let words = "2^-23: the last layer is known to f32 precision";
        options.add_said(&HEAD_FLOOR, &mut self.head_floor, words).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        check_count(self.components)?;
        if !(0.0..1.0).contains(&self.head_floor) {
            return Err(Error::parameter("head-floor", "a share in [0, 1)", self.head_floor));
        }
        Ok(Arc::new(*self))
    }
}

impl Fit for VimParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn uses_head(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { moments: true, largest_logit: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        Ok(from_known(self, known, Vim::fit(*self, NAME, training, known)?))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(Vim::read(stored)?))
    }
}

/// Virtual-logit matching.
#[derive(Debug, Clone)]
pub(super) struct Vim {
    off: OffSubspace,
    alpha: f64,
    head: Head,
}

impl Vim {
    pub(super) fn fit(
        params: VimParams,
        who: &str,
        training: &Training<'_>,
        known: &Statistics,
    ) -> Result<Self> {
        let head = training.head(who)?;
        let VimParams { components, head_floor } = params;
        let off = training.worked_out(|| OffSubspace::fit(components, head_floor, head, known))?;
        let off = Arc::unwrap_or_clone(off);
        let mean = off.mean_length(training)?;
        if mean <= 0.0 {
            return Err(Error::NoVariance { what: training.data.name.clone() });
        }
        let alpha = known.largest_logit() / mean;
        Ok(Vim { off, alpha, head: head.without_block() })
    }

    pub(super) fn read(stored: Stored<'_>) -> Result<Self> {
        let off = OffSubspace::read(stored)?;
        Ok(Vim { off, alpha: stored.number("alpha")?, head: stored.required_head()? })
    }

    /// α‖Rᵀ(z − o)‖ of each row.
    pub(super) fn virtual_logits(&self, z: ArrayView2<'_, f64>) -> Vec<f64> {
        self.off.lengths(z).into_iter().map(|length| self.alpha * length).collect()
    }

    /// The same within a graph.
    pub(super) fn virtual_logit_graph<'a>(&'a self, z: Value, builder: &mut Builder<'a>) -> Value {
        let residual = self.off.graph(z, builder);
        builder.times(residual, self.alpha)
    }

    pub(super) fn head(&self) -> &Head {
        &self.head
    }
}

impl Scorer for Vim {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of(NAME, data, Some(&self.head)).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        logits_of(NAME, data, Some(&self.head))?.read(start, out)?;
        for (out, virtual_logit) in out.iter_mut().zip(self.virtual_logits(z.view())) {
            *out -= virtual_logit;
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let logits = logits_graph(rows, Some(&self.head), None, builder);
        let energy = builder.log_sum_exp(logits, 1.0);
        let residual = self.virtual_logit_graph(rows.features, builder);
        Ok(builder.sub(energy, residual))
    }

    fn found(&self) -> Found {
        Found::from([
            ("alpha".to_owned(), self.alpha),
            ("residual directions".to_owned(), self.off.count() as f64),
        ])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.off.write(prefix, writer);
        write_head(Some(&self.head), prefix, writer);
    }
}
