//! Any score on rectified rows.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::explained::{Explained, ScoreTerm};
use super::gradnorm::GradNormParams;
use super::kpca::KpcaModel;
use super::low_dim::LowDimParams;
use super::memory::FitSize;
use super::method::{Entry, Fit, GOLDEN_BASELINE, Method};
use super::model::{Found, Model, ModelSummary, Results, RowValues, Scorer, Stored};
use super::nnguide::NnGuideParams;
use super::option::{OptionInfo, Options, Route, option};
use super::rectify::params::{DiceParams, ReactParams};
use super::rectify::{Rectification, Rectifier};
use super::reg_pca::RegPcaParams;
use super::spec::{MethodSpec, ValidMethod};
use crate::graph::{Builder, Value};
use crate::io::{Dataset, TensorWriter};
use crate::training::statistics::{Needs, Statistics};
use crate::training::{Fitted, Training};
use crate::{Error, Result};

const RAW_FIT: OptionInfo = option(
    "raw-fit",
    "",
    "With a rectification: fit the score to rows as they are; only scoring sees rectified ones",
);
const PARTS: &str =
    "NumPy float64 on a fixture of our own; its parts also against float64 golden scores";

/// A score and the steps before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RectifiedParams {
    /// The steps in the order in which they act.
    pub steps: Vec<Rectification>,
    /// What is computed from rectified rows.
    pub score: Box<MethodSpec>,
    /// Whether the score is fitted to rows as they are, and only scoring sees rectified ones.
    pub raw_fit: bool,
}

impl RectifiedParams {
    /// Steps at their defaults, and a score after them.
    pub(super) fn new(mut steps: Vec<Rectification>, score: MethodSpec) -> Self {
        if let [Rectification::Dice(dice), Rectification::React(_)] = &mut steps[..] {
            *dice = DiceParams::WITH_REACT;
        }
        RectifiedParams { steps, score: Box::new(score), raw_fit: false }
    }
}

impl Method for RectifiedParams {
    fn entries() -> Vec<Entry<Self>> {
        let mut entries: Vec<Entry<Self>> = Rectification::list()
            .into_iter()
            .map(|Entry { name, summary, needs, source, parity, default }| {
                let default = RectifiedParams::new(vec![default], MethodSpec::ENERGY);
                Entry { name, summary, needs, source, parity, default }
            })
            .collect();
        let react = || Rectification::React(ReactParams::default());
        let after_react = |name, summary, needs, source, parity, score| {
            let default = RectifiedParams::new(vec![react()], score);
            Entry { name, summary, needs, source, parity, default }
        };
        let dice = Rectification::Dice(DiceParams::default());
        entries.push(Entry {
            name: "dice+react",
            summary: "DICE's weights on activations cut by ReAct, then the energy",
            needs: "features and head",
            source: "Sun & Li, DICE, 2022",
            parity: GOLDEN_BASELINE,
            default: RectifiedParams::new(vec![dice, react()], MethodSpec::ENERGY),
        });
        entries.push(after_react(
            "gradnorm+react",
            "gradnorm of activations cut by ReAct",
            "features and head",
            "a table row of the paper",
            PARTS,
            GradNormParams::default().into(),
        ));
        entries.push(after_react(
            "nnguide+react",
            "nnguide of activations cut by ReAct",
            "features and head",
            "Park et al., Nearest Neighbor Guidance, 2023",
            PARTS,
            NnGuideParams::default().into(),
        ));
        entries.push(after_react(
            "reg-pca+react",
            "reg-pca of activations cut by ReAct",
            "features and head",
            "Guan et al., Revisit PCA-based Technique, 2023",
            GOLDEN_BASELINE,
            RegPcaParams::default().into(),
        ));
        entries.push(after_react(
            "low-dim+react",
            "low-dim of activations cut by ReAct",
            "features, labels and head; classes² × width numbers of memory",
            "Wu et al., Low-Dimensional Gradient, 2024",
            PARTS,
            LowDimParams::default().into(),
        ));
        entries
    }

    fn name(&self) -> Cow<'static, str> {
        let mut names: Vec<Cow<'_, str>> = Vec::new();
        if *self.score != MethodSpec::ENERGY {
            names.push(self.score.method());
        }
        names.extend(self.steps.iter().map(|step| step.name().into()));
        Cow::Owned(names.join("+"))
    }

    fn options(&mut self, options: &mut Options<'_>) -> Result<()> {
        // What a step takes is not for the score: the `react` of `pca+react` is the step's.
        let steps = Options::names_of(|options| {
            self.steps.iter_mut().try_for_each(|step| step.options(options))
        });
        let taken: Vec<_> = steps.into_iter().map(|name| (name, Route::Nowhere)).collect();
        // The energy after a step alone is what such methods are, and needs no fit.
        let is_step_alone = *self.score == MethodSpec::ENERGY;
        if !is_step_alone {
            let score = self.score.params_mut();
            options.routed(&taken, |options| score.options(options))?;
        }
        self.steps.iter_mut().try_for_each(|step| step.options(options))?;
        if !is_step_alone {
            options.add(&RAW_FIT, &mut self.raw_fit)?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Arc<dyn Fit>> {
        self.steps.iter().try_for_each(Rectification::check)?;
        check_steps(&self.steps, &self.score)?;
        let score = self.score.check()?;
        *self.score = score.spec().clone();
        Ok(Arc::new(ValidRectified { steps: self.steps.clone(), score, raw_fit: self.raw_fit }))
    }

    fn map_size(&self) -> Option<usize> {
        self.score.map_size()
    }

    fn wants_non_negative(&self) -> bool {
        self.steps.iter().any(Rectification::wants_non_negative)
    }

    fn follows_steps(&self) -> bool {
        false
    }
}

/// Steps that go together, and a score that can follow them.
fn check_steps(steps: &[Rectification], score: &MethodSpec) -> Result<()> {
    if steps.is_empty() {
        return Err(Error::parameter("rectification", "at least one step", "none"));
    }
    if steps.iter().filter(|step| step.changes_head()).count() > 1 {
        return Err(Error::parameter(
            "rectification",
            "at most one step that changes the last layer (dice, line, lts)",
            steps.iter().map(Rectification::name).collect::<Vec<_>>().join("+"),
        ));
    }
    if !score.follows_steps() {
        return Err(Error::parameter(
            "rectification",
            "a score of pooled features or logits after it",
            score.method(),
        ));
    }
    Ok(())
}

#[derive(Debug)]
struct ValidRectified {
    steps: Vec<Rectification>,
    score: ValidMethod,
    raw_fit: bool,
}

impl Fit for ValidRectified {
    fn memory(&self, size: &FitSize) -> u64 {
        size.summed(&self.needs()).max(self.score.memory(size))
    }

    fn needs(&self) -> Needs {
        let first = self.steps.first().map(Rectification::needs).unwrap_or_default();
        if self.raw_fit { first.and(&self.score.needs()) } else { first }
    }

    fn check_inputs(&self, name: &str, training: &Training<'_>) -> Result<()> {
        self.steps.iter().try_for_each(|step| step.check_inputs(training))?;
        if self.score.uses_logits() || self.score.uses_head() || self.raw_fit {
            // Stored logits belong to features as they were.
            training.head(name)?;
        }
        self.score.check_inputs(training)
    }

    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Fitted<Model>> {
        let reads_logits =
            self.score.uses_logits() || self.score.uses_head() || self.score.prefers_head();
        for step in self.steps.iter().filter(|step| step.keeps_features() && !reads_logits) {
            let name = step.name();
            training.observer.note(&format!(
                "{name} changes logits alone, which {} does not read: scores are the same without {name}",
                self.score.spec().method()
            ));
        }
        let rectifier = Rectifier::fit(&self.steps, training, known)?;
        let fitted = if self.raw_fit {
            self.score.fit(training, known)?
        } else {
            let data = rectifier.dataset(training.data);
            // Logits come from the dataset; the last layer is stored twice only for a score that
            // multiplies by it on its own.
            let takes_head = self.score.uses_head() || self.score.prefers_head();
            let head = training.head.filter(|_| takes_head);
            if self.score.prefers_head() && head.is_none() && training.data.logits.is_some() {
                training.observer.note(
                    "the given logits belong to activations as they were, and there is no last \
                     layer to compute new ones: they are not used",
                );
            }
            let training = Training { head, ..training.on(&data) };
            self.score.fit(&training, &Statistics::gather(&training, &self.score.needs())?)?
        };
        Ok(fitted.map(|score| Arc::new(Rectified { rectifier, score }) as Model))
    }

    fn results(&self) -> Results {
        Results::Rectified
    }

    fn read(&self, stored: Stored<'_>) -> Result<Model> {
        let ModelSummary::Rectified { steps, score } = stored.summary else {
            unreachable!("the kind of results was checked")
        };
        let rectifier = Rectifier::read(&self.steps, steps, stored)?;
        let prefix = format!("{}{SCORE}", stored.prefix);
        let score = self.score.read(stored.file, &prefix, score, stored.width)?;
        Ok(Arc::new(Rectified { rectifier, score }))
    }
}

/// Prefix of the score's tensors.
const SCORE: &str = "score.";

/// Steps and the score that follows them.
#[derive(Debug, Clone)]
struct Rectified {
    rectifier: Rectifier,
    score: Model,
}

impl Scorer for Rectified {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        self.score.check_inputs(&self.rectifier.dataset(data))
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        self.score.score(&self.rectifier.dataset(data), start, out)
    }

    fn graph<'a>(&'a self, rows: RowValues, builder: &mut Builder<'a>) -> Result<Value> {
        self.score.graph(self.rectifier.graph(rows, builder), builder)
    }

    fn terms(&self) -> Vec<ScoreTerm> {
        self.score.terms()
    }

    fn explain(&self, data: &Dataset<'_>, start: usize, count: usize) -> Result<Option<Explained>> {
        self.score.explain(&self.rectifier.dataset(data), start, count)
    }

    fn summary(&self) -> ModelSummary {
        let score = Box::new(self.score.summary());
        ModelSummary::Rectified { steps: self.rectifier.summary(), score }
    }

    fn found(&self) -> Found {
        let mut found = self.score.found();
        found.extend(self.rectifier.found());
        found
    }

    fn found_besides_terms(&self) -> Found {
        let mut found = self.score.found_besides_terms();
        found.extend(self.rectifier.found());
        found
    }

    fn kpca(&self) -> Vec<&KpcaModel> {
        self.score.kpca()
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.rectifier.write(prefix, writer);
        self.score.write(&format!("{prefix}{SCORE}"), writer);
    }
}
