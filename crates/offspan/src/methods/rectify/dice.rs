//! DICE: of the last layer's weights only those stay whose contribution mean(z)·w is over a
//! percentile of all contributions.

use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayView2};
use serde::{Deserialize, Serialize};

use super::step::{Step, StepParams, check_percent};
use crate::graph::{Builder, Value};
use crate::io::{Head, TensorWriter};
use crate::methods::method::{Entry, GOLDEN_BASELINE};
use crate::methods::option::{OptionInfo, Options, option};
use crate::methods::{Found, Stored};
use crate::numeric::percentile::quantile_of;
use crate::training::Training;
use crate::training::logits::{head_graph, head_logits};
use crate::training::statistics::{Needs, Statistics};
use crate::{Error, Result};

const SPARSITY: OptionInfo = option("sparsity", "P", "dice: percent of the weights that become 0");

/// Parameters of DICE.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DiceParams {
    /// Percent of the weights that become 0.
    pub sparsity: f64,
}

impl Default for DiceParams {
    fn default() -> Self {
        DiceParams { sparsity: 90.0 }
    }
}

impl DiceParams {
    /// Together with ReAct, DICE's authors leave most weights in.
    pub(crate) const WITH_REACT: DiceParams = DiceParams { sparsity: 10.0 };
}

impl StepParams for DiceParams {
    fn entry() -> Entry<Self> {
        Entry {
            name: "dice",
            summary: "only weights that contribute much stay, then the energy",
            needs: "features and head",
            source: "Sun & Li, DICE: Leveraging Sparsification for Out-of-Distribution Detection, 2022",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&SPARSITY, &mut self.sparsity).map(drop)
    }

    fn check(&self) -> Result<()> {
        check_percent("sparsity", self.sparsity)
    }

    fn changes_head(&self) -> bool {
        true
    }

    fn keeps_features(&self) -> bool {
        true
    }

    fn needs(&self) -> Needs {
        Needs { channels: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Arc<dyn Step>> {
        let head = training.head("dice")?;
        let mean = known.channels().mean.clone();
        let mut contributions: Vec<f64> = (&head.weight * &mean).iter().copied().collect();
        let threshold = quantile_of(&mut contributions, self.sparsity / 100.0);
        Ok(Arc::new(Dice::new(mean, threshold, head)))
    }

    fn read(&self, stored: Stored<'_>, head: Option<&Head>) -> Result<Arc<dyn Step>> {
        let head = head.ok_or_else(|| Error::shape("the detector", "a last layer", "none"))?;
        let mean = stored.vector("mean", stored.width)?;
        Ok(Arc::new(Dice::new(mean, stored.number("contribution threshold")?, head)))
    }
}

/// The mask, as what it follows from, and the masked last layer.
#[derive(Debug, Clone)]
struct Dice {
    mean: Array1<f64>,
    threshold: f64,
    head: Head,
    kept: usize,
}

impl Dice {
    fn new(mean: Array1<f64>, threshold: f64, head: &Head) -> Self {
        let contributions = &head.weight * &mean;
        let mut weight: Array2<f64> = head.weight.clone();
        weight.zip_mut_with(&contributions, |w, c| {
            if *c <= threshold {
                *w = 0.0;
            }
        });
        let kept = contributions.iter().filter(|c| **c > threshold).count();
        let head = Head { weight, bias: head.bias.clone(), block: None };
        Dice { mean, threshold, head, kept }
    }
}

impl Step for Dice {
    fn logits(&self, rows: ArrayView2<'_, f64>, _: Option<&[usize]>) -> Option<Array2<f64>> {
        Some(head_logits(&self.head, rows))
    }

    fn graph(&self, rows: Value, _: &mut Builder<'_>) -> (Value, Option<Value>) {
        (rows, None)
    }

    fn logits_graph(
        &self,
        rows: Value,
        _: Option<Value>,
        builder: &mut Builder<'_>,
    ) -> Option<Value> {
        Some(head_graph(&self.head, rows, builder))
    }

    fn found(&self) -> Found {
        Found::from([
            ("contribution threshold".to_owned(), self.threshold),
            ("weights kept".to_owned(), self.kept as f64),
        ])
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}mean"), &self.mean);
    }
}
