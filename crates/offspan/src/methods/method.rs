//! What a method is: parameters that can be given, and valid ones that can be fitted.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use super::memory::FitSize;
use super::model::{Model, Results, Scorer, Stored};
use super::option::Options;
use crate::training::logits::{LogitSource, Need};
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

/// A method under one of its names, with its defaults.
#[derive(Debug)]
pub(crate) struct Entry<P> {
    /// As users write it.
    pub(crate) name: &'static str,
    /// What it does, in a sentence.
    pub(crate) summary: &'static str,
    /// What a sample must carry.
    pub(crate) needs: &'static str,
    /// Where it comes from.
    pub(crate) source: &'static str,
    /// How it was checked.
    pub(crate) parity: &'static str,
    /// Its parameters where none are given.
    pub(crate) default: P,
}

pub(crate) const PAPER: &str =
    "Kernel PCA for Out-of-Distribution Detection: Non-Linear Kernel Selection and Approximation";
pub(crate) const LEARNED: &str = "the paper, appendix on learnable kernels";
pub(crate) const GOLDEN: &str = "float64 golden scores, within 1e-4 in f32 and 1e-6 in f64";
pub(crate) const GOLDEN_BASELINE: &str = "float64 golden scores, within 1e-4";
pub(crate) const OWN_FIXTURE: &str =
    "NumPy float64 on a fixture of our own; no public scores exist";

/// A method's parameters, as given.
pub(crate) trait Method: Debug {
    /// The method under each of its names.
    fn entries() -> Vec<Entry<Self>>
    where
        Self: Sized;

    /// The name that these parameters have, where the method has several.
    fn name(&self) -> Cow<'static, str>
    where
        Self: Sized,
    {
        Self::entries()[0].name.into()
    }

    /// Shows every parameter that has an option.
    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        let _ = options;
        Ok(())
    }

    /// The only way to a fit: checks the parameters, and settles those that follow from others.
    fn check(&mut self) -> Result<Arc<dyn Fit>>;

    /// M, the size of the largest feature map, if there is one and it is given.
    fn map_size(&self) -> Option<usize> {
        None
    }

    /// Whether the method was made for features that are never negative.
    fn wants_non_negative(&self) -> bool {
        false
    }

    /// Whether steps that rectify features can come before it.
    fn follows_steps(&self) -> bool {
        true
    }

    /// Why a fitted detector has no graph for other runtimes; none if it has one.
    fn not_exportable(&self) -> Option<&'static str> {
        None
    }

    /// What the names of its checkpoints end in, if its fit can be resumed.
    fn checkpoints(&self) -> Option<&'static [&'static str]> {
        None
    }
}

/// Valid parameters of a method.
pub(crate) trait Fit: Debug + Send + Sync {
    /// Whether a fit or a score reads logits, so that rectified rows need the last layer.
    fn uses_logits(&self) -> bool {
        false
    }

    /// Whether the last layer itself is needed, not only logits.
    fn uses_head(&self) -> bool {
        false
    }

    /// Whether it uses the last layer if there is one, and logits if there are any.
    fn prefers_head(&self) -> bool {
        false
    }

    /// What it wants to know of the training rows as they are.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Fails, before any work, unless the training set has all that the method, of this name, needs.
    fn check_inputs(&self, name: &str, training: &Training<'_>) -> Result<()> {
        check_common_inputs(self, name, training)
    }

    /// Bytes that a fit takes at its peak, about: of sums over rows by default.
    fn memory(&self, size: &FitSize) -> u64 {
        size.summed(&self.needs())
    }

    /// What kind of results a fit leaves.
    fn results(&self) -> Results {
        Results::Baseline
    }

    /// Fits the method to inputs that were checked; `known` is what it needs, or more.
    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>>;

    /// Reads a fitted model.
    fn read(&self, stored: Stored<'_>) -> Result<Model>;
}

/// The last layer, logits, and what a walk over the rows needs.
pub(crate) fn check_common_inputs<F: Fit + ?Sized>(
    fit: &F,
    name: &str,
    training: &Training<'_>,
) -> Result<()> {
    if fit.uses_head() {
        training.head(name)?;
    }
    if fit.uses_logits() {
        LogitSource::of(training.data, training.head, None, Need::Method(name))?;
    }
    fit.needs().check(name, training)
}

/// Fails if a number of directions was given and is 0.
pub(crate) fn check_count(components: Option<usize>) -> Result<()> {
    match components {
        Some(0) => Err(Error::parameter("components", "at least 1", 0)),
        _ => Ok(()),
    }
}

/// A model from what was known of the rows.
pub(crate) fn from_known<F: Fit + ?Sized>(
    fit: &F,
    known: &Statistics,
    model: impl Scorer + 'static,
) -> Fitted<Model> {
    // What identifies the rows must not depend on the methods that share the walk.
    let fingerprint = if fit.needs().no_walk() { 0 } else { known.fingerprint };
    Fitted { model: Arc::new(model), rows: known.rows, fingerprint }
}

/// A model that was fitted by walks of its own.
pub(crate) fn from_walk<M: Scorer + 'static>(fitted: Fitted<M>) -> Fitted<Model> {
    fitted.map(|model| Arc::new(model) as Model)
}
