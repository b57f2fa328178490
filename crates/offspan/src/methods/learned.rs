//! Detectors with something learned from labels or rows before the score: the shallow autoencoder,
//! and kernel PCA with features or a width that were learned (see `learn`).

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::model::{Found, ModelSummary, Scorer, Stored};
use crate::io::{Dataset, TensorWriter, read_finite};
use crate::methods::kpca::{self, Clip, KpcaModel, KpcaParams, MapParams};
use crate::methods::learn::{
    Autoencoder, AutoencoderParams, DkgpParams, RffOptParams, learn_gamma, select, train,
};
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Error, Kernel, Result};

/// Kernel PCA with a γ learned by a Gaussian-process classifier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DkgpKpcaParams {
    /// The search for γ.
    pub search: DkgpParams,
    /// The kernel PCA that γ is put into: gaussian, after the cosine map.
    pub kpca: KpcaParams,
}

impl DkgpKpcaParams {
    pub(super) fn check(self) -> Result<Self> {
        let Kernel::Gaussian { .. } = self.kpca.kernel else {
            let got = self.kpca.kernel.name();
            return Err(Error::parameter("kernel", "gaussian, whose γ is learned", got));
        };
        if !self.kpca.cosine {
            let expected = "on: γ is learned on unit vectors";
            return Err(Error::parameter("cosine", expected, "off"));
        }
        if !matches!(self.kpca.map, MapParams::Fourier { .. } | MapParams::Nystrom { .. }) {
            let expected = "random features or landmarks";
            return Err(Error::parameter("map", expected, self.kpca.method()));
        }
        Ok(DkgpKpcaParams {
            search: self.search.check()?,
            kpca: self.kpca.check()?.params().clone(),
        })
    }

    pub(super) fn name(&self) -> &'static str {
        match self.kpca.map {
            MapParams::Fourier { .. } => "dkgp-rff",
            _ => "dkgp-nys",
        }
    }

    fn with_gamma(&self, gamma: f64) -> KpcaParams {
        KpcaParams { kernel: Kernel::Gaussian { gamma }, ..self.kpca.clone() }
    }
}

/// A trained autoencoder; −‖z − d(e(z))‖².
#[derive(Debug, Clone)]
pub(crate) struct Reconstruction {
    autoencoder: Autoencoder,
    found: Found,
}

impl Reconstruction {
    pub(super) fn fit(
        params: &AutoencoderParams,
        training: &Training<'_>,
        known: &Statistics,
    ) -> Result<Self> {
        let (autoencoder, report) = train(params, training, known.channels())?;
        let found = found([
            ("epochs", report.epochs as f64),
            ("error of rows held aside", report.best_error),
            ("stopped by the rule", f64::from(u8::from(report.stopped_by_rule))),
        ]);
        Ok(Reconstruction { autoencoder, found })
    }

    pub(super) fn read(stored: Stored<'_>) -> Result<Self> {
        let autoencoder = Autoencoder::read(stored.file, stored.prefix, stored.width)?;
        Ok(Reconstruction { autoencoder, found: stored.found.clone() })
    }
}

impl Scorer for Reconstruction {
    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        let mut rows = Array2::<f32>::zeros((out.len(), data.width()));
        read_finite(&*data.features, start, rows.view_mut())?;
        self.autoencoder.squared_errors(rows.view(), out);
        out.iter_mut().for_each(|error| {
            *error = if error.is_finite() { -*error } else { f64::NEG_INFINITY };
        });
        Ok(())
    }

    fn found(&self) -> Found {
        self.found.clone()
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.autoencoder.write(prefix, writer);
    }
}

/// Kernel PCA with what was learned for it.
#[derive(Debug, Clone)]
pub(crate) struct LearnedKpca {
    model: KpcaModel,
    found: Found,
}

impl LearnedKpca {
    /// Random features chosen by the labels.
    pub(super) fn fit_rff_opt(
        params: &RffOptParams,
        training: &Training<'_>,
    ) -> Result<Fitted<Self>> {
        let selected = select(params, training)?;
        let MapParams::Fourier { draw, .. } = params.kpca.map else {
            unreachable!("the parameters were checked")
        };
        let map = MapParams::Fourier {
            features: selected.kept,
            draw,
            parts: Some(Box::new(selected.parts)),
        };
        let react = selected.clip.map(Clip::Value);
        let kpca = KpcaParams { map, react, ..params.kpca.clone() };
        let found = found([
            ("features drawn", selected.given as f64),
            ("features kept", selected.kept as f64),
        ]);
        let fitted = kpca::fit(&kpca.check()?, training)?;
        Ok(fitted.map(|model| LearnedKpca { model, found }))
    }

    /// A learned γ.
    pub(super) fn fit_dkgp(
        params: &DkgpKpcaParams,
        training: &Training<'_>,
        known: &Statistics,
    ) -> Result<Fitted<Self>> {
        let name = format!("gamma of {:?}", params.search);
        let learned = known.once(&name, || learn_gamma(&params.search, training))?;
        let found = found([
            ("gamma", learned.gamma),
            ("scale", learned.scale),
            ("elbo per row", learned.elbo_per_row),
            ("elbo per row at the start", learned.start_elbo_per_row),
            ("accuracy of the classifier", learned.accuracy),
            ("steps", learned.steps as f64),
            ("stopped by the rule", f64::from(u8::from(learned.stopped_by_rule))),
        ]);
        let fitted = kpca::fit(&params.with_gamma(learned.gamma).check()?, training)?;
        Ok(fitted.map(|model| LearnedKpca { model, found }))
    }

    pub(super) fn read_dkgp(
        params: &DkgpKpcaParams,
        summary: &crate::KpcaSummary,
        stored: Stored<'_>,
    ) -> Result<Self> {
        let kpca = params.with_gamma(stored.number("gamma")?).check()?.params().clone();
        Self::read(kpca, summary, stored)
    }

    pub(super) fn read(
        kpca: KpcaParams,
        summary: &crate::KpcaSummary,
        stored: Stored<'_>,
    ) -> Result<Self> {
        let Stored { file, prefix, found, width } = stored;
        let model = KpcaModel::read(file, prefix, kpca, summary.clone(), width)?;
        Ok(LearnedKpca { model, found: found.clone() })
    }
}

impl Scorer for LearnedKpca {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        self.model.check_inputs(data)
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        self.model.score(data, start, out)
    }

    fn summary(&self) -> ModelSummary {
        let kpca = self.model.summary().clone();
        ModelSummary::LearnedKpca { found: self.found.clone(), kpca }
    }

    fn found(&self) -> Found {
        self.found.clone()
    }

    fn kpca(&self) -> Vec<&KpcaModel> {
        vec![&self.model]
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.model.write(prefix, writer);
    }
}

fn found<const N: usize>(numbers: [(&str, f64); N]) -> Found {
    numbers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
