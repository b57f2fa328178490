//! The way over all items: prepared, run, checked, kept.

use std::num::NonZeroUsize;
use std::thread;

use offspan::Observer;

use super::batches::{Batch, Maker, batches};
use super::parts::{Parts, SkippedItem};
use super::rows::Rows;
use super::{Extractor, OnError, USUAL_BATCH};
use crate::data::Data;
use crate::image::prepare::{Prepared, Preparer};
use crate::input_error::{InputError, InputResult};
use crate::model::check_sizes;

/// How far logits may be from what the last layer makes of the features, relative to the largest.
const TOLERANCE: f32 = 1e-3;

impl Extractor {
    /// Runs the model over all items that are not done yet.
    pub(super) fn walk(
        &mut self,
        data: &Data,
        preparer: Option<&Preparer>,
        parts: &mut Parts,
        observer: &dyn Observer,
    ) -> InputResult<()> {
        let rows = self.options.batch.map_or(USUAL_BATCH, NonZeroUsize::get);
        let size = self.input.fixed_rows().unwrap_or(rows);
        observer.begin(&format!("features of {}", data.name()), data.rows() as u64);
        observer.advance(parts.state.done as u64);
        thread::scope(|scope| {
            let maker = preparer.map_or(Maker::Arrays, Maker::Images);
            for batch in batches(scope, data, maker, parts.state.done, size) {
                if observer.interrupted() {
                    return Err(offspan::Error::Interrupted { hint: String::new() }.into());
                }
                let batch = batch?;
                let items = batch.items.clone();
                let (rows, agreeing) = (parts.state.rows, parts.state.agreeing);
                if let Err(error) = self.take(data, batch, size, parts) {
                    // Some rows of the batch may be in the files. A run that goes on takes all of them again.
                    (parts.state.rows, parts.state.agreeing) = (rows, agreeing);
                    return Err(error);
                }
                parts.state.done = items.end;
                parts.save_now_and_then()?;
                observer.advance(items.len() as u64);
            }
            Ok(())
        })
    }

    /// Runs the model over a batch and keeps its rows.
    fn take(
        &mut self,
        data: &Data,
        batch: Batch,
        size: usize,
        parts: &mut Parts,
    ) -> InputResult<()> {
        let Batch { rows, failures, .. } = batch;
        let mut failures = failures.into_iter();
        if self.options.on_error == OnError::Stop
            && let Some((_, error)) = failures.next()
        {
            return Err(error);
        }
        let mut skipped: Vec<(usize, String)> =
            failures.map(|(item, error)| (item, reason_of(&error))).collect();
        // Images that keep their own sizes come one by one where they differ.
        for group in rows.chunk_by(|a, b| a.1.shape == b.1.shape) {
            skipped.extend(self.run_group(data, group, size, parts)?);
        }
        skipped.sort_by_key(|(item, _)| *item);
        parts
            .state
            .skipped
            .extend(skipped.into_iter().map(|(item, reason)| SkippedItem { item, reason }));
        Ok(())
    }

    /// Runs the model over inputs of one shape; gives the items that turned out to be bad.
    fn run_group(
        &mut self,
        data: &Data,
        group: &[(usize, Prepared)],
        size: usize,
        parts: &mut Parts,
    ) -> InputResult<Vec<(usize, String)>> {
        let row = &group[0].1.shape;
        if let Err(reason) = self.input.check_row(row) {
            return self.refuse(data, group, &reason);
        }
        // A model of fixed size gets rows of zeros behind the last ones; what they give is dropped.
        let given = if self.input.fixed_rows().is_some() { size } else { group.len() };
        let shape: Vec<usize> = [given].into_iter().chain(row.iter().copied()).collect();
        let sizes: Vec<Option<usize>> = shape.iter().copied().map(Some).collect();
        check_sizes(&self.wanted, &self.input.name, &sizes)
            .map_err(|reason| self.model.wrong(reason))?;
        let mut numbers = Vec::with_capacity(shape.iter().product());
        group.iter().for_each(|(_, prepared)| numbers.extend(&prepared.numbers));
        numbers.resize(shape.iter().product(), 0.0);
        let outputs =
            self.runner.run(&shape, numbers).map_err(|reason| self.model.wrong(reason))?;
        let rows = Rows::of(&self.plan, outputs, self.layout, (given, group.len()))
            .map_err(|reason| self.model.wrong(reason))?;
        if parts.state.rows == 0 {
            self.check_head(&rows)?;
        }
        let (mut kept, mut bad) = (Vec::new(), Vec::new());
        for (index, (item, _)) in group.iter().enumerate() {
            match rows.not_finite(index) {
                None => kept.push(index),
                Some(value) => {
                    let reason =
                        format!("the network gives {value} for it; every feature must be finite");
                    if self.options.on_error == OnError::Stop {
                        return Err(InputError::data(&data.row_name(*item), reason));
                    }
                    bad.push((*item, reason));
                }
            }
        }
        let labels: Option<Vec<i64>> = data
            .labels
            .as_ref()
            .map(|labels| kept.iter().map(|&index| labels[group[index].0]).collect());
        if let Some(labels) = &labels {
            let decides = |(&index, &label): (&usize, &i64)| {
                rows.decision(index).is_some_and(|class| class as i64 == label)
            };
            parts.state.agreeing += kept.iter().zip(labels).filter(|pair| decides(*pair)).count();
        }
        if self.options.half_precision
            && let Some(value) = kept.iter().find_map(|&index| rows.beyond_half(index))
        {
            return Err(InputError::setting(
                "type",
                "f32",
                format!("f16, and the network gives {value}, beyond f16's 65504"),
            ));
        }
        if !kept.is_empty() {
            let columns = rows.columns(&self.plan, &kept, labels, self.options.half_precision);
            parts.append(kept.len(), columns)?;
        }
        Ok(bad)
    }

    /// Inputs that the model cannot take.
    fn refuse(
        &self,
        data: &Data,
        group: &[(usize, Prepared)],
        reason: &str,
    ) -> InputResult<Vec<(usize, String)>> {
        match self.options.on_error {
            OnError::Stop => Err(InputError::data(&data.row_name(group[0].0), reason)),
            OnError::Skip => Ok(group.iter().map(|(item, _)| (*item, reason.to_owned())).collect()),
        }
    }

    /// Fails if the logits are not what the last layer makes of the features: then it is not what it was taken for.
    fn check_head(&self, rows: &Rows) -> InputResult<()> {
        let Some(logits) = &rows.logits else { return Ok(()) };
        for (layer, features) in self.plan.layers.iter().zip(&rows.features) {
            let Some(head) = self.plan.head_of(layer) else { continue };
            let wrong = |reason: String| {
                self.model.wrong(format!(
                    "`{}` does not enter the last linear layer: {reason}",
                    layer.tensor
                ))
            };
            if features.shape[1] != head.width || logits.shape[1] != head.classes {
                return Err(wrong(format!(
                    "expected features and logits of {} and {}, got {} and {}",
                    head.width, head.classes, features.shape[1], logits.shape[1]
                )));
            }
            let row = &features.numbers[..head.width];
            let logits = &logits.numbers[..head.classes];
            let largest = logits.iter().fold(1.0_f32, |most, x| most.max(x.abs()));
            for (class, &logit) in logits.iter().enumerate() {
                let weight = &head.weight[class * head.width..(class + 1) * head.width];
                let sum: f64 =
                    weight.iter().zip(row).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                let expected = (sum + f64::from(head.bias[class])) as f32;
                if (expected - logit).abs() > TOLERANCE * largest {
                    return Err(wrong(format!(
                        "its logit of class {class} is {logit}, and weight and bias give {expected}"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Why an image was skipped, without its name.
fn reason_of(error: &InputError) -> String {
    match error {
        InputError::Image { reason, .. } | InputError::Data { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}
