//! GradNorm (Huang et al. 2021): ‖z‖₁ · Σ_c |C·p_c − 1|, the closed form of the L1 norm of the last
//! layer's gradient of the divergence between softmax and uniform.

use super::model::{Scorer, Stored, logits_of, rows_of, write_head};
use crate::Result;
use crate::io::{Dataset, Head, TensorWriter};
use crate::training::Training;
use crate::training::logits::{LogitSource, Need, softmax};

const NAME: &str = "gradnorm";

/// The last layer is kept for rows that come without logits.
#[derive(Debug, Clone)]
pub(crate) struct GradNorm {
    head: Option<Head>,
}

impl GradNorm {
    pub(super) fn fit(training: &Training<'_>) -> Result<Self> {
        LogitSource::of(training.data, training.head, None, Need::Method(NAME))?;
        Ok(GradNorm { head: training.head.map(Head::without_block) })
    }

    pub(super) fn read(stored: Stored<'_>) -> Result<Self> {
        Ok(GradNorm { head: stored.head()? })
    }
}

impl Scorer for GradNorm {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        logits_of(NAME, data, self.head.as_ref()).map(drop)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let z = rows_of(&*data.features, start, out.len())?;
        let mut logits = logits_of(NAME, data, self.head.as_ref())?.logits(start, out.len())?;
        let classes = logits.ncols() as f64;
        for ((out, z), mut logits) in out.iter_mut().zip(z.rows()).zip(logits.rows_mut()) {
            softmax(crate::numeric::vector::contiguous_mut(&mut logits));
            let length: f64 = z.iter().map(|x| x.abs()).sum();
            *out = length * logits.iter().map(|p| (classes * p - 1.0).abs()).sum::<f64>();
        }
        Ok(())
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        write_head(self.head.as_ref(), prefix, writer);
    }
}
