//! Random features chosen by the labels, as a method.

use std::sync::Arc;

use super::{RffOptParams, ValidRffOpt, select};
use crate::Result;
use crate::methods::kpca::{self, Clip, KpcaParams, MapParams};
use crate::methods::learn::learned_kpca::{LearnedKpca, found};
use crate::methods::method::{Entry, Fit, LEARNED, Method, from_walk};
use crate::methods::model::{Model, Results, Stored};
use crate::methods::option::{OptionInfo, Options, Route, option};
use crate::training::statistics::Statistics;
use crate::training::{Fitted, Training};

const RHO: OptionInfo =
    option("rho", "R", "rff-opt: how far the features' weights may go from uniform");

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
