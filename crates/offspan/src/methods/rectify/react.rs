//! ReAct (Sun et al. 2021): min(z, c).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bounds::Bounds;
use super::step::{Step, StepParams};
use crate::Result;
use crate::io::Head;
use crate::methods::Stored;
use crate::methods::kpca::Clip;
use crate::methods::method::{Entry, GOLDEN_BASELINE};
use crate::methods::option::{Options, REACT};
use crate::training::Training;
use crate::training::statistics::{Needs, Statistics};

/// Parameters of ReAct.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ReactParams {
    /// c
    pub at: Clip,
}

impl StepParams for ReactParams {
    fn entry() -> Entry<Self> {
        Entry {
            name: "react",
            summary: "activations cut at a value, then the energy",
            needs: "features and head",
            source: "Sun et al., ReAct: Out-of-distribution Detection With Rectified Activations, 2021",
            parity: GOLDEN_BASELINE,
            default: Self::default(),
        }
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&REACT, &mut self.at).map(drop)
    }

    fn check(&self) -> Result<()> {
        self.at.check()
    }

    fn needs(&self) -> Needs {
        let percentiles = match self.at {
            Clip::Value(_) => Vec::new(),
            Clip::Percentile(percent) => vec![percent],
        };
        Needs { percentiles, ..Needs::default() }
    }

    fn fit(&self, _: &Training<'_>, known: &Statistics) -> Result<Arc<dyn Step>> {
        Ok(Arc::new(Bounds::Cap(match self.at {
            Clip::Value(value) => value,
            Clip::Percentile(percent) => known.percentile(percent),
        })))
    }

    fn read(&self, stored: Stored<'_>, _: Option<&Head>) -> Result<Arc<dyn Step>> {
        Ok(Arc::new(Bounds::Cap(stored.number("clip")?)))
    }
}
