//! z/‖z‖^β: between rows as they are (β = 0) and unit vectors (β = 1).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::step::{Step, StepParams};
use crate::graph::{Builder, Value};
use crate::io::Head;
use crate::methods::Stored;
use crate::methods::method::{Entry, OWN_FIXTURE};
use crate::methods::option::{OptionInfo, Options, option};
use crate::numeric::vector;
use crate::training::Training;
use crate::training::statistics::Statistics;
use crate::{Error, Result};

pub(crate) const BETA: OptionInfo =
    option("beta", "B", "beta-norm, beta-mahalanobis: power of the norm by which rows are divided");

/// Parameters of the normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BetaNormParams {
    /// β
    pub beta: f64,
}

impl Default for BetaNormParams {
    fn default() -> Self {
        BetaNormParams { beta: 0.5 }
    }
}

impl StepParams for BetaNormParams {
    fn entry() -> Entry<Self> {
        Entry {
            name: "beta-norm",
            summary: "rows divided by a power of their norm, then the energy",
            needs: "features and head",
            source: "arXiv 2510.15202, 2025",
            parity: OWN_FIXTURE,
            default: Self::default(),
        }
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&BETA, &mut self.beta).map(drop)
    }

    fn check(&self) -> Result<()> {
        if (0.0..=1.0).contains(&self.beta) {
            return Ok(());
        }
        Err(Error::parameter("beta", "a number from 0 to 1", self.beta))
    }

    fn fit(&self, _: &Training<'_>, _: &Statistics) -> Result<Arc<dyn Step>> {
        Ok(Arc::new(*self))
    }

    fn read(&self, _: Stored<'_>, _: Option<&Head>) -> Result<Arc<dyn Step>> {
        Ok(Arc::new(*self))
    }
}

impl Step for BetaNormParams {
    fn apply_to_row(&self, row: &mut [f64]) {
        let norm = vector::sum_of_squares(row).sqrt();
        // A row of zeros stays one: below β = 1 that is the limit, too.
        if norm > 0.0 && norm.is_finite() {
            vector::scale(row, norm.powf(-self.beta));
        }
    }

    fn graph(&self, rows: Value, builder: &mut Builder<'_>) -> (Value, Option<Value>) {
        let (unit, length, _) = builder.unit_rows(rows);
        let power = builder.power(length, 1.0 - self.beta);
        (builder.mul(unit, power), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_rows_as_they_are_to_unit_vectors() {
        for (beta, expected) in
            [(0.0, [3.0, 4.0]), (0.5, [3.0 / 5f64.sqrt(), 4.0 / 5f64.sqrt()]), (1.0, [0.6, 0.8])]
        {
            let mut row = [3.0, 4.0];
            BetaNormParams { beta }.apply_to_row(&mut row);
            assert!((row[0] - expected[0]).abs() < 1e-15 && (row[1] - expected[1]).abs() < 1e-15);
        }
        let mut zero = [0.0, 0.0];
        BetaNormParams { beta: 1.0 }.apply_to_row(&mut zero);
        assert_eq!(zero, [0.0, 0.0]);
    }
}
