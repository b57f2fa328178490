//! Kernel PCA with a learned γ, as a method.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{DkgpParams, learn_gamma};
use crate::methods::kpca::{self, KpcaParams, MapParams, ValidKpca};
use crate::methods::learn::learned_kpca::{LearnedKpca, found};
use crate::methods::method::{Entry, Fit, LEARNED, Method, from_walk};
use crate::methods::model::{Model, Results, Stored};
use crate::methods::option::{GAMMA, OptionInfo, Options, Route, SEED, option};
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};
use crate::{Error, Kernel, Result};

const INDUCING: OptionInfo = option("inducing", "N", "dkgp: inducing points of the classifier");
const STEPS: OptionInfo = option("steps", "N", "dkgp: steps of the search for γ, at most");

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
