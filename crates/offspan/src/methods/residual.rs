//! ViM's second term by itself, −‖Rᵀ(z − o)‖, and times the generalised entropy (GEN's paper), which is
//! negative, so that a flat softmax and a large residual both lower the score.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::generalised_entropy::GenParams;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method, check_count, from_known};
use super::model::{
    Found, Model, RowValues, Scorer, Stored, logits_graph, logits_of, or_worst, write_head,
};
use super::off_subspace::{HEAD_PRECISION, OffSubspace, dimensions_option};
use super::option::Options;
use crate::Result;
use crate::graph::{Builder, Value};
use crate::io::{Block, Dataset, Head, TensorWriter};
use crate::numeric::vector::contiguous_mut;
use crate::training::logits::softmax;
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};

const NAME: &str = "residual";
const WITH_GEN: &str = "gen-residual";

/// Parameters of the residual alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidualParams {
    /// D, the dimensions of the subspace; that of ViM where none is given.
    pub components: Option<usize>,
}

impl Method for ResidualParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: NAME,
            summary: "what lies off the main subspace, without the energy of vim",
            needs: "features and head",
            source: "Wang et al., ViM: Out-Of-Distribution with Virtual-logit Matching, 2022",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        dimensions_option(options, &mut self.components)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        check_count(self.components)?;
        Ok(Arc::new(*self))
    }
}

impl Fit for ResidualParams {
    fn uses_head(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { moments: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let head = training.head(NAME)?;
        let off = OffSubspace::fit(self.components, HEAD_PRECISION, head, known)?;
        Ok(from_known(self, known, Residual { off, with: None }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(Residual { off: OffSubspace::read(stored)?, with: None }))
    }
}

/// Parameters of the residual times the generalised entropy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct GenResidualParams {
    /// Those of the entropy.
    pub entropy: GenParams,
    /// D, the dimensions of the subspace; that of ViM where none is given.
    pub components: Option<usize>,
}

impl Method for GenResidualParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: WITH_GEN,
            summary: "generalised entropy times what lies off the main subspace",
            needs: "features and head",
            source: "Liu et al., GEN: Pushing the Limits of Softmax-Based Out-of-Distribution Detection, 2023",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        self.entropy.options(options)?;
        dimensions_option(options, &mut self.components)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        self.entropy.check()?;
        check_count(self.components)?;
        Ok(Arc::new(*self))
    }
}

impl Fit for GenResidualParams {
    fn uses_logits(&self) -> bool {
        true
    }

    fn uses_head(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { moments: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let head = training.head(WITH_GEN)?;
        let off = OffSubspace::fit(self.components, HEAD_PRECISION, head, known)?;
        let with = Some((self.entropy, head.without_block()));
        Ok(from_known(self, known, Residual { off, with }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let with = Some((self.entropy, stored.required_head()?));
        Ok(Arc::new(Residual { off: OffSubspace::read(stored)?, with }))
    }
}

/// The subspace, and the entropy with the last layer where it is a factor.
#[derive(Debug, Clone)]
struct Residual {
    off: OffSubspace,
    with: Option<(GenParams, Head)>,
}

impl Scorer for Residual {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        match &self.with {
            Some((_, head)) => logits_of(WITH_GEN, data, Some(head)).map(drop),
            None => Ok(()),
        }
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = Block::read(&*data.features, start, out.len())?;
        let lengths = self.off.lengths(z.view());
        let Some((entropy, head)) = &self.with else {
            out.iter_mut().zip(lengths).for_each(|(out, length)| *out = or_worst(-length));
            return Ok(());
        };
        let mut logits = logits_of(WITH_GEN, data, Some(head))?.logits(start, out.len())?;
        for ((out, mut row), length) in out.iter_mut().zip(logits.rows_mut()).zip(lengths) {
            let p = contiguous_mut(&mut row);
            softmax(p);
            *out = or_worst(entropy.of(p) * length);
        }
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let length = self.off.graph(rows.features, builder);
        let Some((entropy, head)) = &self.with else { return Ok(builder.neg(length)) };
        let logits = logits_graph(rows, Some(head), None, builder);
        let entropy = entropy.graph(logits, builder)?;
        Ok(builder.mul(entropy, length))
    }

    fn found(&self) -> Found {
        Found::from([("residual directions".to_owned(), self.off.count() as f64)])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.off.write(prefix, writer);
        write_head(self.with.as_ref().map(|(_, head)| head), prefix, writer);
    }
}
