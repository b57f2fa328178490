//! Fitted steps in a row, and a dataset seen through them.

use std::sync::Arc;

use ndarray::{Array2, ArrayView2, ArrayViewMut2};
use serde::{Deserialize, Serialize};

use super::spec::Rectification;
use super::step::Step;
use crate::graph::Builder;
use crate::io::{Dataset, FeatureSource, Head, TensorWriter};
use crate::methods::{Found, RowValues, Stored};
use crate::training::Training;
use crate::training::logits::{head_graph, head_logits_into};
use crate::training::statistics::Statistics;
use crate::{Error, Result};

/// What a file keeps of a step besides its parameters and tensors.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StepSummary {
    found: Found,
}

/// Fitted steps in the order in which they act, and the last layer that they feed.
#[derive(Debug, Clone)]
pub(crate) struct Rectifier {
    steps: Vec<Arc<dyn Step>>,
    head: Option<Head>,
}

impl Rectifier {
    pub(super) fn new(steps: Vec<Arc<dyn Step>>, head: Option<Head>) -> Self {
        Rectifier { steps, head }
    }

    /// Fits each step to rows that the earlier ones have changed. `known` is what the first step
    /// needs.
    pub(crate) fn fit(
        steps: &[Rectification],
        training: &Training<'_>,
        known: &Statistics,
    ) -> Result<Self> {
        let mut fitted = Rectifier::new(Vec::new(), training.head.map(Head::without_block));
        for (index, step) in steps.iter().enumerate() {
            let next = if index == 0 {
                step.fit(training, known)?
            } else {
                let data = fitted.dataset(training.data);
                let training = training.on(&data);
                step.fit(&training, &Statistics::gather(&training, &step.needs())?)?
            };
            fitted.steps.push(next);
        }
        Ok(fitted)
    }

    /// A dataset whose features are rectified and whose logits follow from them.
    pub(crate) fn dataset<'a>(&'a self, data: &'a Dataset<'_>) -> Dataset<'a> {
        let seen = |logits_of| Seen { rectifier: self, features: &*data.features, logits_of };
        let mut rectified = Dataset::new(data.name.clone(), seen(None));
        if let Some(head) = &self.head {
            rectified.logits = Some(Box::new(seen(Some(head))));
        }
        rectified.labels.clone_from(&data.labels);
        rectified
    }

    /// Rectifies rows in place; returns each row's predicted class where a step asked for it.
    fn apply(&self, mut z: ArrayViewMut2<'_, f64>) -> Option<Vec<usize>> {
        // A row with a NaN is left as it is, so that whoever reads it says so.
        if !z.iter().all(|x| x.is_finite()) {
            return None;
        }
        let mut classes = None;
        for step in &self.steps {
            classes = step.apply(z.view_mut()).or(classes);
        }
        classes
    }

    /// Logits of rectified rows.
    fn logits(
        &self,
        head: &Head,
        z: ArrayView2<'_, f64>,
        classes: Option<&[usize]>,
        mut out: ArrayViewMut2<'_, f64>,
    ) {
        match self.steps.iter().find_map(|step| step.logits(z, classes)) {
            Some(logits) => out.assign(&logits),
            None => head_logits_into(head, z, out),
        }
    }

    /// Rectified rows and their logits within a graph.
    pub(crate) fn graph(&self, rows: RowValues, builder: &mut Builder<'_>) -> RowValues {
        let (mut features, mut classes) = (rows.features, None);
        for step in &self.steps {
            let (changed, predicted) = step.graph(features, builder);
            (features, classes) = (changed, predicted.or(classes));
        }
        let logits = self.head.as_ref().map(|head| {
            let own =
                self.steps.iter().find_map(|step| step.logits_graph(features, classes, builder));
            own.unwrap_or_else(|| head_graph(head, features, builder))
        });
        RowValues { features, logits }
    }

    pub(crate) fn summary(&self) -> Vec<StepSummary> {
        self.steps.iter().map(|step| StepSummary { found: step.found() }).collect()
    }

    pub(crate) fn found(&self) -> Found {
        self.steps.iter().flat_map(|step| step.found()).collect()
    }

    pub(crate) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        if let Some(head) = &self.head {
            head.write(prefix, writer);
        }
        for (index, step) in self.steps.iter().enumerate() {
            step.write(&format!("{prefix}step{index}."), writer);
        }
    }

    pub(crate) fn read(
        specs: &[Rectification],
        summary: &[StepSummary],
        stored: Stored<'_>,
    ) -> Result<Self> {
        if specs.len() != summary.len() {
            return Err(Error::shape(
                "the detector",
                format!("results of {} steps", specs.len()),
                format!("of {}", summary.len()),
            ));
        }
        let head = stored.head()?;
        let mut steps = Vec::new();
        for (index, (spec, summary)) in specs.iter().zip(summary).enumerate() {
            let prefix = format!("{}step{index}.", stored.prefix);
            let stored = Stored { prefix: &prefix, found: &summary.found, ..stored };
            steps.push(spec.read(stored, head.as_ref())?);
        }
        Ok(Rectifier { steps, head })
    }
}

/// A dataset's features seen through the steps, or the logits that follow from them.
struct Seen<'a> {
    rectifier: &'a Rectifier,
    features: &'a dyn FeatureSource,
    /// The last layer, if its logits are asked for.
    logits_of: Option<&'a Head>,
}

impl FeatureSource for Seen<'_> {
    fn rows(&self) -> usize {
        self.features.rows()
    }

    fn width(&self) -> usize {
        self.logits_of.map_or(self.features.width(), Head::classes)
    }

    fn name(&self) -> &str {
        self.features.name()
    }

    fn read_f32(&self, start: usize, mut out: ArrayViewMut2<'_, f32>) -> Result<()> {
        let mut wide = Array2::zeros(out.dim());
        self.read_f64(start, wide.view_mut())?;
        out.zip_mut_with(&wide, |o, x| *o = *x as f32);
        Ok(())
    }

    fn read_f64(&self, start: usize, mut out: ArrayViewMut2<'_, f64>) -> Result<()> {
        let Some(head) = self.logits_of else {
            self.features.read_f64(start, out.view_mut())?;
            self.rectifier.apply(out);
            return Ok(());
        };
        let mut z = Array2::zeros((out.nrows(), self.features.width()));
        self.features.read_f64(start, z.view_mut())?;
        let classes = self.rectifier.apply(z.view_mut());
        self.rectifier.logits(head, z.view(), classes.as_deref(), out);
        Ok(())
    }

    fn origin(&self) -> Option<&dyn FeatureSource> {
        Some(self.features)
    }

    fn prefetch(&self, rows: std::ops::Range<usize>) {
        self.features.prefetch(rows);
    }
}
