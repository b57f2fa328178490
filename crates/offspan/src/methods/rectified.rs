//! Any score on rectified rows.

use super::model::{Found, Model, ModelSummary, Scorer};
use crate::Result;
use crate::io::{Dataset, TensorWriter};
use crate::methods::kpca::KpcaModel;
use crate::methods::rectify::Rectifier;

/// Prefix of the score's tensors.
pub(super) const SCORE: &str = "score.";

/// Steps and the score that follows them.
#[derive(Debug, Clone)]
pub(crate) struct Rectified {
    pub(super) rectifier: Rectifier,
    pub(super) score: Model,
}

impl Scorer for Rectified {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        self.score.check_inputs(&self.rectifier.dataset(data))
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        self.score.score(&self.rectifier.dataset(data), start, out)
    }

    fn summary(&self) -> ModelSummary {
        let score = Box::new(self.score.summary());
        ModelSummary::Rectified { steps: self.rectifier.summary(), score }
    }

    fn found(&self) -> Found {
        let mut found = self.score.found();
        found.extend(self.rectifier.found());
        found
    }

    fn kpca(&self) -> Vec<&KpcaModel> {
        self.score.kpca()
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.rectifier.write(prefix, writer);
        self.score.write(&format!("{prefix}{SCORE}"), writer);
    }
}
