//! BFAct: a soft cut of large activations, z/√(1 + (z/t)^2n), as by a Butterworth filter, with t a percentile
//! of all training activations.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::step::{Step, StepParams, check_percent};
use crate::graph::{Builder, Value};
use crate::io::Head;
use crate::methods::method::{Entry, GOLDEN_BASELINE};
use crate::methods::option::{OptionInfo, Options, option};
use crate::methods::{Found, Stored};
use crate::training::Training;
use crate::training::statistics::{Needs, Statistics};
use crate::{Error, Result};

const ORDER: OptionInfo = option("order", "N", "bf-act: order of the filter");
const CUTOFF: OptionInfo = option(
    "cutoff",
    "P",
    "bf-act: percentile of the training activations at which they are cut softly",
);

/// Parameters of BFAct.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BfActParams {
    /// n
    pub order: u32,
    /// Percentile of all training activations that t is.
    pub cutoff: f64,
}

impl Default for BfActParams {
    fn default() -> Self {
        BfActParams { order: 2, cutoff: 95.0 }
    }
}

impl StepParams for BfActParams {
    fn entry() -> Entry<Self> {
        Entry {
            name: "bf-act",
            summary: "large activations cut softly, as by a Butterworth filter, then the energy",
            needs: "features and head",
            source: "Kong & Li, BFAct: Out-of-distribution Detection with Butterworth Filter Rectified Activations, 2023",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&ORDER, &mut self.order)?;
        options.add(&CUTOFF, &mut self.cutoff).map(drop)
    }

    fn check(&self) -> Result<()> {
        if !(1..=100).contains(&self.order) {
            return Err(Error::parameter("order", "from 1 to 100", self.order));
        }
        check_percent("cutoff", self.cutoff)
    }

    fn needs(&self) -> Needs {
        Needs { percentiles: vec![self.cutoff], ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Arc<dyn Step>> {
        let at = known.percentile(self.cutoff);
        if at <= 0.0 {
            return Err(Error::parameter(
                "cutoff",
                format!("a percentile of the activations of {} above 0", training.data.name),
                format!("{}, where they are {at}", self.cutoff),
            ));
        }
        Ok(Arc::new(BfAct { order: self.order, at }))
    }

    fn read(&self, stored: Stored<'_>, _: Option<&Head>) -> Result<Arc<dyn Step>> {
        let at = stored.number("cutoff")?;
        if at <= 0.0 {
            return Err(Error::shape("the detector", "a `cutoff` above 0", format!("{at}")));
        }
        Ok(Arc::new(BfAct { order: self.order, at }))
    }
}

/// n and t.
#[derive(Debug, Clone, Copy)]
struct BfAct {
    order: u32,
    at: f64,
}

impl Step for BfAct {
    fn apply_to_row(&self, row: &mut [f64]) {
        for x in row {
            let power = (*x / self.at).powi(2 * self.order as i32);
            // A power that overflows takes everything away.
            *x = if power.is_finite() { *x / (1.0 + power).sqrt() } else { 0.0 };
        }
    }

    fn graph(&self, rows: Value, builder: &mut Builder<'_>) -> (Value, Option<Value>) {
        let size = builder.abs(rows);
        let share = builder.times(size, 1.0 / self.at);
        // A power that overflows takes everything away here, too.
        let power = builder.power(share, f64::from(2 * self.order));
        let more = builder.plus(power, 1.0);
        let divisor = builder.sqrt(more);
        (builder.div(rows, divisor), None)
    }

    fn found(&self) -> Found {
        Found::from([("cutoff".to_owned(), self.at)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_stay_and_large_ones_vanish_with_their_sign() {
        let mut row = [1e-4, 2.0, -2.0, 1e200];
        BfAct { order: 2, at: 2.0 }.apply_to_row(&mut row);
        let expected = [1e-4, 2f64.sqrt(), -(2f64.sqrt()), 0.0];
        assert!(row.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{row:?}");
    }
}
