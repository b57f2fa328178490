//! DICE: of the last layer's weights only those stay whose contribution mean(z)·w is over a
//! percentile of all contributions.

use ndarray::{Array1, Array2};

use crate::io::{Head, TensorWriter};
use crate::methods::{Found, Stored};
use crate::numeric::percentile::quantile_of;
use crate::training::statistics::Statistics;
use crate::{Error, Result};

/// The mask, as what it follows from, and the masked last layer.
#[derive(Debug, Clone)]
pub(crate) struct Dice {
    mean: Array1<f64>,
    threshold: f64,
    pub(super) head: Head,
    kept: usize,
}

impl Dice {
    pub(super) fn fit(sparsity: f64, head: &Head, known: &Statistics) -> Self {
        let mean = known.channels().mean.clone();
        let mut contributions: Vec<f64> = (&head.weight * &mean).iter().copied().collect();
        let threshold = quantile_of(&mut contributions, sparsity / 100.0);
        Self::new(mean, threshold, head)
    }

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

    pub(super) fn read(stored: Stored<'_>, head: Option<&Head>) -> Result<Self> {
        let head = head.ok_or_else(|| Error::shape("the detector", "a last layer", "none"))?;
        let mean = stored.vector("mean", stored.width)?;
        Ok(Self::new(mean, stored.number("contribution threshold")?, head))
    }

    pub(super) fn found(&self) -> Found {
        Found::from([
            ("contribution threshold".to_owned(), self.threshold),
            ("weights kept".to_owned(), self.kept as f64),
        ])
    }

    pub(super) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}mean"), &self.mean);
    }
}
