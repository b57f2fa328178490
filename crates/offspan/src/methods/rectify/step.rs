//! What a step is: parameters that can be fitted, and a fitted step that acts on rows.

use std::fmt::Debug;
use std::sync::Arc;

use ndarray::{Array2, ArrayView2, ArrayViewMut2};

use crate::graph::{Builder, Value};
use crate::io::{Head, TensorWriter};
use crate::methods::method::Entry;
use crate::methods::option::Options;
use crate::methods::{Found, Stored};
use crate::numeric::vector::contiguous_mut;
use crate::training::Training;
use crate::training::statistics::{Needs, Statistics};
use crate::{Error, Result};

/// The parameters of a step.
pub(crate) trait StepParams {
    /// The step with its defaults.
    fn entry() -> Entry<Self>
    where
        Self: Sized;

    /// Shows every parameter that has an option.
    fn options(&mut self, options: &mut Options<'_>) -> Result<()>;

    /// Checks the parameters.
    fn check(&self) -> Result<()>;

    /// Whether the step changes the last layer, so that there can be only one of its kind.
    fn changes_head(&self) -> bool {
        false
    }

    /// Whether features stay as they are, so that only logits and the last layer change.
    fn keeps_features(&self) -> bool {
        false
    }

    /// Whether the step was made for features that are never negative.
    fn wants_non_negative(&self) -> bool {
        false
    }

    /// What the step wants to know of the training rows.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Fails, before any work, unless the training set has what the step, of this name, needs.
    fn check_inputs(&self, name: &str, training: &Training<'_>) -> Result<()> {
        self.needs().check(name, training)?;
        if self.changes_head() {
            training.head(name)?;
        }
        Ok(())
    }

    /// Fits the step to training rows that earlier steps have changed.
    fn fit(&self, training: &Training<'_>, known: &Statistics) -> Result<Arc<dyn Step>>;

    /// Reads a fitted step.
    fn read(&self, stored: Stored<'_>, head: Option<&Head>) -> Result<Arc<dyn Step>>;
}

/// A fitted step.
pub(crate) trait Step: Debug + Send + Sync {
    /// Changes rows in place; returns each row's predicted class where the step asks for it.
    fn apply(&self, mut rows: ArrayViewMut2<'_, f64>) -> Option<Vec<usize>> {
        for mut row in rows.rows_mut() {
            self.apply_to_row(contiguous_mut(&mut row));
        }
        None
    }

    /// Changes a row on its own.
    fn apply_to_row(&self, row: &mut [f64]) {
        let _ = row;
    }

    /// Logits of changed rows, where the step has a last layer of its own.
    fn logits(&self, rows: ArrayView2<'_, f64>, classes: Option<&[usize]>) -> Option<Array2<f64>> {
        let _ = (rows, classes);
        None
    }

    /// Changed rows within a graph and, where the step asks for it, each row's predicted class.
    fn graph(&self, rows: Value, builder: &mut Builder<'_>) -> (Value, Option<Value>);

    /// Logits of changed rows within a graph, where the step has a last layer of its own.
    fn logits_graph(
        &self,
        rows: Value,
        classes: Option<Value>,
        builder: &mut Builder<'_>,
    ) -> Option<Value> {
        let _ = (rows, classes, builder);
        None
    }

    /// Numbers that the fit found.
    fn found(&self) -> Found {
        Found::new()
    }

    /// Puts the step's tensors into a file.
    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        let _ = (prefix, writer);
    }
}

pub(super) fn check_percent(name: &'static str, value: f64) -> Result<()> {
    if (0.0..100.0).contains(&value) {
        return Ok(());
    }
    Err(Error::parameter(name, "a percentage from 0 to below 100", value))
}
