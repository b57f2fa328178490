//! The energy score T·logsumexp(l/T) (Liu et al. 2020).

use crate::Result;
use crate::energy::{EnergySource, Need};
use crate::io::{Dataset, Head};

/// Nothing is fitted; the last layer is kept for rows that come without logits.
#[derive(Debug, Clone)]
pub(crate) struct EnergyModel {
    pub(crate) temperature: f64,
    pub(crate) head: Option<Head>,
}

impl EnergyModel {
    pub(super) fn source<'a>(&'a self, data: &'a Dataset<'_>) -> Result<EnergySource<'a>> {
        EnergySource::of(data, self.head.as_ref(), None, Need::Score("the energy score"))
    }

    pub(super) fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        self.source(data)?.read_at(start, out, self.temperature)
    }
}
