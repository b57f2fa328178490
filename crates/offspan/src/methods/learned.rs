//! Detectors with something learned from labels or rows before the score: the shallow autoencoder,
//! and kernel PCA with features or a width that were learned (see `learn`).

use std::borrow::Cow;
use std::sync::Arc;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use super::kpca::{self, Clip, KpcaModel, KpcaParams, MapParams, ValidKpca};
use super::learn::{
    Autoencoder, AutoencoderParams, DkgpParams, RffOptParams, ValidRffOpt, learn_gamma, select,
    train,
};
use super::method::{Entry, Fit, LEARNED, Method, from_known, from_walk};
use super::model::{Found, Model, ModelSummary, Results, Scorer, Stored};
use super::option::{GAMMA, OptionInfo, Options, Route, SEED, option};
use crate::io::{Dataset, TensorWriter, read_finite};
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};
use crate::{Error, Kernel, Result};

const HIDDEN: OptionInfo = option("hidden", "N", "autoencoder: units between features and code");
const CODE: OptionInfo = option("code", "N", "autoencoder: length of the code");
const EPOCHS: OptionInfo = option("epochs", "N", "autoencoder: passes over the rows, at most");
const RHO: OptionInfo =
    option("rho", "R", "rff-opt: how far the features' weights may go from uniform");
const INDUCING: OptionInfo = option("inducing", "N", "dkgp: inducing points of the classifier");
const STEPS: OptionInfo = option("steps", "N", "dkgp: steps of the search for γ, at most");

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

    fn name(&self) -> Cow<'static, str> {
        "autoencoder".into()
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

impl Method for RffOptParams {
    fn entries() -> Vec<Entry<Self>> {
        vec![Entry {
            name: "rff-opt",
            summary: "kpca-rff on the random features that agree with the labels",
            needs: "features and labels",
            source: LEARNED,
            parity: "its optimum against a slow solver and the conditions of optimality",
            default: Self::default(),
        }]
    }

    fn name(&self) -> Cow<'static, str> {
        "rff-opt".into()
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        options.add(&RHO, &mut self.rho)?;
        let drawn = [("frequencies", Route::Nowhere)];
        options.routed(&drawn, |options| self.kpca.options(options))
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        let valid = RffOptParams::check(self.clone())?;
        self.kpca = valid.kpca.params().clone();
        Ok(Arc::new(valid))
    }

    fn map_size(&self) -> Option<usize> {
        self.kpca.map.size()
    }
}

impl Fit for ValidRffOpt {
    fn results(&self) -> Results {
        Results::LearnedKpca
    }

    fn uses_logits(&self) -> bool {
        self.kpca.uses_energy()
    }

    fn check_inputs(&self, name: &str, training: &Training<'_>) -> Result<()> {
        training.labels(name)?;
        kpca::check_inputs(&self.kpca, training)
    }

    fn fit(&self, training: &Training<'_>, _: &Statistics) -> Result<Fitted<Model>> {
        let selected = select(self, training)?;
        let map = MapParams::Fourier {
            features: selected.kept,
            draw: self.draw,
            parts: Some(Box::new(selected.parts)),
        };
        let react = selected.clip.map(Clip::Value);
        let kpca = KpcaParams { map, react, ..self.kpca.params().clone() };
        let found = found([
            ("features drawn", selected.given as f64),
            ("features kept", selected.kept as f64),
        ]);
        let fitted = kpca::fit(&kpca.check()?, training)?;
        Ok(from_walk(fitted.map(|model| LearnedKpca { model, found })))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        Ok(Arc::new(LearnedKpca::read(&self.kpca, stored)?))
    }
}

/// Kernel PCA with a γ learned by a Gaussian-process classifier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DkgpKpcaParams {
    /// The search for γ.
    pub search: DkgpParams,
    /// The kernel PCA that γ is put into: gaussian, after the cosine map.
    pub kpca: KpcaParams,
}

impl DkgpKpcaParams {
    fn name(&self) -> &'static str {
        match self.kpca.map {
            MapParams::Fourier { .. } => "dkgp-rff",
            _ => "dkgp-nys",
        }
    }
}

impl Method for DkgpKpcaParams {
    fn entries() -> Vec<Entry<Self>> {
        let entry = |name, summary, needs, kpca| Entry {
            name,
            summary,
            needs,
            source: LEARNED,
            parity: "gradients against differences; no reference for γ exists",
            default: DkgpKpcaParams { search: DkgpParams::default(), kpca },
        };
        vec![
            entry(
                "dkgp-rff",
                "kpca-rff with a γ learned by a sparse variational Gaussian-process classifier",
                "features and labels",
                KpcaParams::fourier(),
            ),
            entry(
                "dkgp-nys",
                "kpca-nys with a γ learned by a sparse variational Gaussian-process classifier",
                "features and labels; logits or head for low-energy and high-energy sampling",
                KpcaParams::default(),
            ),
        ]
    }

    fn name(&self) -> Cow<'static, str> {
        DkgpKpcaParams::name(self).into()
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        let words = format!("{}: where the search starts", self.search.start_gamma);
        options.add_said(&GAMMA, &mut self.search.start_gamma, words)?;
        options.add(&INDUCING, &mut self.search.inducing)?;
        options.add(&STEPS, &mut self.search.most_steps)?;
        options.add(&SEED, &mut self.search.seed)?;
        // γ is learned for one kernel, on unit vectors.
        let fixed = [
            ("kernel", Route::Nowhere),
            ("degree", Route::Nowhere),
            ("coef0", Route::Nowhere),
            ("no-cosine", Route::Nowhere),
            ("frequencies", Route::Nowhere),
        ];
        options.routed(&fixed, |options| self.kpca.options(options))
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
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
        let search = self.search.clone().check()?;
        let kpca = self.kpca.clone().check()?;
        self.kpca = kpca.params().clone();
        Ok(Arc::new(ValidDkgp { search, kpca }))
    }

    fn map_size(&self) -> Option<usize> {
        self.kpca.map.size()
    }
}

#[derive(Debug)]
struct ValidDkgp {
    search: DkgpParams,
    kpca: ValidKpca,
}

impl Fit for ValidDkgp {
    fn results(&self) -> Results {
        Results::LearnedKpca
    }

    fn uses_logits(&self) -> bool {
        self.kpca.uses_energy()
    }

    fn check_inputs(&self, name: &str, training: &Training<'_>) -> Result<()> {
        training.labels(name)?;
        kpca::check_inputs(&self.kpca, training)
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let name = format!("gamma of {:?}", self.search);
        let learned = known.once(&name, || learn_gamma(&self.search, training))?;
        let found = found([
            ("gamma", learned.gamma),
            ("scale", learned.scale),
            ("elbo per row", learned.elbo_per_row),
            ("elbo per row at the start", learned.start_elbo_per_row),
            ("accuracy of the classifier", learned.accuracy),
            ("steps", learned.steps as f64),
            ("stopped by the rule", f64::from(u8::from(learned.stopped_by_rule))),
        ]);
        let fitted = kpca::fit(&self.kpca.with_gamma(learned.gamma)?, training)?;
        Ok(from_walk(fitted.map(|model| LearnedKpca { model, found })))
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let kpca = self.kpca.with_gamma(stored.number("gamma")?)?;
        Ok(Arc::new(LearnedKpca::read(&kpca, stored)?))
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
struct LearnedKpca {
    model: KpcaModel,
    found: Found,
}

impl LearnedKpca {
    fn read(kpca: &ValidKpca, stored: Stored<'_>) -> Result<Self> {
        let model = KpcaModel::read(kpca, stored.kpca()?, stored)?;
        Ok(LearnedKpca { model, found: stored.found.clone() })
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
