//! The shallow autoencoder as a method: −‖z − d(e(z))‖².

use std::sync::Arc;

use super::{Autoencoder, AutoencoderParams, train};
use crate::Result;
use crate::graph::{Builder, Value};
use crate::io::{Dataset, TensorWriter, read_rows};
use crate::methods::learn::learned_kpca::found;
use crate::methods::method::{Entry, Fit, LEARNED, Method, from_known};
use crate::methods::model::{Found, Model, RowValues, Scorer, Stored};
use crate::methods::option::{OptionInfo, Options, SEED, option};
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};

const HIDDEN: OptionInfo = option("hidden", "N", "autoencoder: units between features and code");
const CODE: OptionInfo = option("code", "N", "autoencoder: length of the code");
const EPOCHS: OptionInfo = option("epochs", "N", "autoencoder: passes over the rows, at most");

impl Method for AutoencoderParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: "autoencoder",
            summary: "reconstruction error of a shallow autoencoder, trained until rows held aside stop improving",
            needs: "features only",
            source: LEARNED,
            parity: "gradients against differences; no reference for the weights exists",
            default: Self::default(),
        }]
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add_or(&HIDDEN, &mut self.hidden, "half the width")?;
        options.add_or(&CODE, &mut self.code, "a quarter of the width")?;
        options.add(&EPOCHS, &mut self.most_epochs)?;
        options.add(&SEED, &mut self.seed).map(drop)
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        Ok(Arc::new(AutoencoderParams::check(self.clone())?))
    }
}

impl Fit for AutoencoderParams {
    fn needs(&self) -> Needs {
        Needs { channels: true, ..Needs::default() }
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let (autoencoder, report) = train(self, training, known.channels())?;
        let found = found([
            ("epochs", report.epochs as f64),
            ("error of rows held aside", report.best_error),
            ("stopped by the rule", f64::from(u8::from(report.stopped_by_rule))),
        ]);
        Ok(from_known(self, known, Reconstruction { autoencoder, found }))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let autoencoder = Autoencoder::read(stored.file, stored.prefix, stored.width)?;
        Ok(Arc::new(Reconstruction { autoencoder, found: stored.found.clone() }))
    }
}

/// A trained autoencoder; −‖z − d(e(z))‖².
#[derive(Debug, Clone)]
struct Reconstruction {
    autoencoder: Autoencoder,
    found: Found,
}

impl Scorer for Reconstruction {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let rows = read_rows::<f32>(&*data.features, start..start + out.len())?;
        self.autoencoder.squared_errors(rows.view(), out);
        out.iter_mut().for_each(|error| {
            *error = if error.is_finite() { -*error } else { f64::NEG_INFINITY };
        });
        Ok(())
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        let error = self.autoencoder.squared_error_graph(rows.features, builder);
        Ok(builder.neg(error))
    }

    fn found(&self) -> Found {
        self.found.clone()
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.autoencoder.write(prefix, writer);
    }
}
