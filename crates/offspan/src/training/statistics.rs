//! What baselines want to know of the training rows, gathered together in one pass.
//!
//! Methods name their needs before the fit; several methods fitted together share one walk over the
//! rows. Memory is what the summaries take (m² for a covariance, classes·m for class means), never
//! a copy of the rows. Exact percentiles take passes of their own (see `quantiles`).

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ndarray::{Array1, Array2, ArrayView2, Axis};
use rayon::prelude::*;

use crate::numeric::rank_update::PackedRows;
use crate::numeric::vector::{contiguous, contiguous_mut};
use crate::span::moments::Moments;
use crate::span::preprocess::normalise;
use crate::training::Training;
use crate::training::logits::{LogitSource, Need, energy, predicted, softmax};
use crate::training::part::{Field, Part, check_part_width, number};
use crate::training::quantiles;
use crate::training::sums::{ChannelSums, ClassSums, class_of};
pub(crate) use crate::training::sums::{Channels, ClassMeans};
use crate::{Error, Result};

/// What a method wants to know of the training rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Needs {
    /// Mean and covariance of z.
    pub(crate) moments: bool,
    /// Mean and covariance of ẑ.
    pub(crate) unit_moments: bool,
    /// Mean and variance of each channel.
    pub(crate) channels: bool,
    /// Mean of z over the rows of each label.
    pub(crate) classes: bool,
    /// Mean of ẑ over the rows of each label.
    pub(crate) unit_classes: bool,
    /// Mean of z over the rows of each label that the network recognises.
    pub(crate) recognised: bool,
    /// Mean of z over the rows for which the network predicts each class.
    pub(crate) predicted: bool,
    /// Mean of softmax(l) over the rows for which the network predicts each class.
    pub(crate) probabilities: bool,
    /// Mean of l over the rows of each label that the network recognises.
    pub(crate) recognised_logits: bool,
    /// Mean of the largest logit.
    pub(crate) largest_logit: bool,
    /// Mean of the logit that belongs to the label.
    pub(crate) labelled_logit: bool,
    /// Mean of logsumexp(l).
    pub(crate) energy: bool,
    /// Percentiles (0 to 100) of all entries.
    pub(crate) percentiles: Vec<f64>,
    /// Quantiles (0 to 1) of each channel.
    pub(crate) channel_quantiles: Vec<f64>,
}

impl Needs {
    /// Both needs together.
    pub(crate) fn and(mut self, other: &Needs) -> Needs {
        self.moments |= other.moments;
        self.unit_moments |= other.unit_moments;
        self.channels |= other.channels;
        self.classes |= other.classes;
        self.unit_classes |= other.unit_classes;
        self.recognised |= other.recognised;
        self.predicted |= other.predicted;
        self.probabilities |= other.probabilities;
        self.recognised_logits |= other.recognised_logits;
        self.largest_logit |= other.largest_logit;
        self.labelled_logit |= other.labelled_logit;
        self.energy |= other.energy;
        let add = |list: &mut Vec<f64>, more: &[f64]| {
            for value in more {
                if !list.contains(value) {
                    list.push(*value);
                }
            }
        };
        add(&mut self.percentiles, &other.percentiles);
        add(&mut self.channel_quantiles, &other.channel_quantiles);
        self
    }

    /// Whether nothing is needed from a walk over the rows themselves.
    pub(crate) fn no_walk(&self) -> bool {
        let lists = Needs {
            percentiles: self.percentiles.clone(),
            channel_quantiles: self.channel_quantiles.clone(),
            ..Needs::default()
        };
        *self == lists
    }

    fn labels(&self) -> bool {
        self.classes
            || self.unit_classes
            || self.recognised
            || self.recognised_logits
            || self.labelled_logit
    }

    fn logits(&self) -> bool {
        self.recognised
            || self.predicted
            || self.probabilities
            || self.recognised_logits
            || self.largest_logit
            || self.labelled_logit
            || self.energy
    }

    /// Fails, before any work, unless the training set has what the needs ask for.
    pub(crate) fn check(&self, who: &str, training: &Training<'_>) -> Result<()> {
        if self.labels() {
            training.labels(who)?;
        }
        if self.logits() {
            LogitSource::of(training.data, training.head, None, Need::Method(who))?;
        }
        Ok(())
    }
}

/// What was gathered. Asking for what was not needed is a mistake of the caller.
pub(crate) struct Statistics {
    pub(crate) rows: u64,
    pub(crate) fingerprint: u64,
    moments: Option<Moments>,
    unit_moments: Option<Moments>,
    channels: Option<Channels>,
    classes: Option<ClassMeans>,
    unit_classes: Option<ClassMeans>,
    recognised: Option<ClassMeans>,
    predicted: Option<ClassMeans>,
    probabilities: Option<ClassMeans>,
    recognised_logits: Option<ClassMeans>,
    largest_logit: Option<f64>,
    labelled_logit: Option<f64>,
    energy: Option<f64>,
    percentiles: Vec<(f64, f64)>,
    channel_quantiles: Vec<(f64, Array1<f64>)>,
    /// What a method has found and another may ask for.
    shared: Mutex<BTreeMap<String, Box<dyn Any + Send>>>,
}

macro_rules! getter {
    ($($name:ident: $type:ty),* $(,)?) => {$(
        pub(crate) fn $name(&self) -> &$type {
            self.$name.as_ref().unwrap_or_else(|| unreachable!("asked for in the method's needs"))
        }
    )*};
}

impl Statistics {
    getter!(
        moments: Moments,
        unit_moments: Moments,
        channels: Channels,
        classes: ClassMeans,
        unit_classes: ClassMeans,
        recognised: ClassMeans,
        predicted: ClassMeans,
        probabilities: ClassMeans,
        recognised_logits: ClassMeans,
        largest_logit: f64,
        labelled_logit: f64,
        energy: f64,
    );

    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        let found = self.percentiles.iter().find(|(p, _)| *p == percent);
        found.map_or_else(|| unreachable!("asked for in the method's needs"), |(_, value)| *value)
    }

    pub(crate) fn channel_quantile(&self, quantile: f64) -> &Array1<f64> {
        let found = self.channel_quantiles.iter().find(|(q, _)| *q == quantile);
        found.map_or_else(|| unreachable!("asked for in the method's needs"), |(_, value)| value)
    }

    /// What methods share on these rows, found when it is first asked for under this name.
    pub(crate) fn once<T: Clone + Send + 'static>(
        &self,
        name: &str,
        find: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = shared.get(name).and_then(|found| found.downcast_ref::<T>()) {
            return Ok(found.clone());
        }
        let found = find()?;
        shared.insert(name.to_owned(), Box::new(found.clone()));
        Ok(found)
    }

    /// Walks over the rows once for all that can be summed up, and a few times more for quantiles.
    pub(crate) fn gather(training: &Training<'_>, needs: &Needs) -> Result<Self> {
        let mut statistics = Self::summed(training, needs)?;
        if !needs.percentiles.is_empty() {
            let asked = &needs.percentiles;
            let found = quantiles::percentiles(training, asked)?;
            statistics.percentiles = asked.iter().copied().zip(found).collect();
        }
        if !needs.channel_quantiles.is_empty() {
            let asked = &needs.channel_quantiles;
            let found = quantiles::channel_quantiles(training, asked)?;
            statistics.channel_quantiles = asked.iter().copied().zip(found).collect();
        }
        Ok(statistics)
    }

    fn summed(training: &Training<'_>, needs: &Needs) -> Result<Self> {
        let (mut part, rows) = if needs.no_walk() {
            (Part::default(), training.rows()? as u64)
        } else {
            let mut part = training.pass(STAGE, || walk(training, needs))?;
            let rows: Vec<u64> = part.take("rows")?;
            (part, rows.first().copied().unwrap_or(0))
        };
        let moments: Option<Moments> = part.take_optional("moments")?;
        let unit_moments: Option<Moments> = part.take_optional("unit moments")?;
        if moments.iter().chain(&unit_moments).any(|moments| !moments.is_finite()) {
            return Err(Error::TooLarge { what: training.data.name.clone(), single: false });
        }
        let width = training.data.width();
        for moments in moments.iter().chain(&unit_moments) {
            check_part_width(moments.width(), width)?;
        }
        let mut sums = |name: &str| -> Result<Option<ClassMeans>> {
            Ok(part.take_optional::<ClassSums>(name)?.map(ClassSums::means))
        };
        let (probabilities, recognised_logits) = (sums("probabilities")?, sums("right logits")?);
        let mut classes = |name: &str| -> Result<Option<ClassMeans>> {
            let found = sums(name)?;
            found.iter().try_for_each(|found| check_part_width(found.means.ncols(), width))?;
            Ok(found)
        };
        let (by_label, unit_classes) = (classes("classes")?, classes("unit classes")?);
        let (recognised, predicted) = (classes("recognised")?, classes("predicted")?);
        let mut mean = |name: &str| -> Result<Option<f64>> {
            let sum = part.take_optional::<f64>(name)?;
            Ok(sum.map(|sum| sum / (rows as f64).max(1.0)))
        };
        Ok(Statistics {
            rows,
            moments,
            unit_moments,
            classes: by_label,
            unit_classes,
            recognised,
            predicted,
            probabilities,
            recognised_logits,
            largest_logit: mean("largest logits")?,
            labelled_logit: mean("labelled logits")?,
            energy: mean("energies")?,
            channels: part.take_optional::<ChannelSums>("channels")?.map(ChannelSums::channels),
            fingerprint: part.take_optional("fingerprint")?.unwrap_or(0),
            percentiles: Vec::new(),
            channel_quantiles: Vec::new(),
            shared: Mutex::default(),
        })
    }
}

const STAGE: &str = "statistics of the training rows";

/// All that can be summed up of the rows at hand.
fn walk(training: &Training<'_>, needs: &Needs) -> Result<Part> {
    let width = training.data.width();
    let mut packed = PackedRows::<f64>::default();
    let mut moments = needs.moments.then(|| Moments::new(width));
    let mut unit_moments = needs.unit_moments.then(|| Moments::new(width));
    let mut channels = needs.channels.then(|| ChannelSums::new(width));
    let class_sums = |needed: bool| needed.then(|| ClassSums::new(width));
    let mut classes = class_sums(needs.classes);
    let mut unit_classes = class_sums(needs.unit_classes);
    let mut rows = 0;
    let labels = if needs.labels() { Some(training.labels("this method")?) } else { None };
    let logits = if needs.logits() {
        let need = Need::Method("this method");
        Some(LogitSource::of(training.data, training.head, None, need)?)
    } else {
        None
    };
    let mut of_logits =
        logits.as_ref().map(|source| LogitSums::new(needs, width, source.classes()));
    let unit_needed = needs.unit_moments || needs.unit_classes;
    let visit = |numbers: &[usize], z: ArrayView2<'_, f64>| {
        rows += numbers.len() as u64;
        let labels = labels.map(|labels| labels_of(labels, numbers)).transpose()?;
        if let Some(moments) = &mut moments {
            moments.update_in(z, &mut packed)?;
        }
        if let Some(channels) = &mut channels {
            channels.add(z);
        }
        let add_classes = |sums: &mut Option<ClassSums>, rows: ArrayView2<'_, f64>| {
            let (Some(sums), Some(labels)) = (sums, &labels) else { return Ok(()) };
            let mut pairs = labels.iter().zip(rows.rows());
            pairs.try_for_each(|(&label, row)| sums.add(label, contiguous(&row)))
        };
        add_classes(&mut classes, z)?;
        if unit_needed {
            let unit = unit_rows(training, numbers, z)?;
            if let Some(moments) = &mut unit_moments {
                moments.update_in(unit.view(), &mut packed)?;
            }
            add_classes(&mut unit_classes, unit.view())?;
        }
        if let (Some(source), Some(sums)) = (&logits, &mut of_logits) {
            let which = |index: usize| format!("{}, row {}", training.data.name, numbers[index]);
            sums.add(&source.gather(numbers)?, z, labels.as_deref(), which)?;
        }
        Ok(())
    };
    let fingerprint = training.for_each_chunk(STAGE, visit)?;
    let part = Part::default()
        .with("rows", Field::Counts(vec![rows]))
        .with("fingerprint", Field::Hash(fingerprint))
        .with_optional("moments", moments.map(Field::Moments))
        .with_optional("unit moments", unit_moments.map(Field::Moments))
        .with_optional("channels", channels.map(Field::Channels))
        .with_optional("classes", classes.map(Field::Classes))
        .with_optional("unit classes", unit_classes.map(Field::Classes));
    Ok(match of_logits {
        Some(sums) => sums.put_into(part),
        None => part,
    })
}

/// What can be summed up of logits, and of rows by what the network makes of them.
struct LogitSums {
    recognised: Option<ClassSums>,
    predicted: Option<ClassSums>,
    probabilities: Option<ClassSums>,
    recognised_logits: Option<ClassSums>,
    largest: f64,
    labelled: Option<f64>,
    energy: Option<f64>,
}

impl LogitSums {
    fn new(needs: &Needs, width: usize, classes: usize) -> Self {
        let sums = |needed: bool, width: usize| needed.then(|| ClassSums::new(width));
        LogitSums {
            recognised: sums(needs.recognised, width),
            predicted: sums(needs.predicted, width),
            probabilities: sums(needs.probabilities, classes),
            recognised_logits: sums(needs.recognised_logits, classes),
            largest: 0.0,
            labelled: needs.labelled_logit.then_some(0.0),
            energy: needs.energy.then_some(0.0),
        }
    }

    fn add(
        &mut self,
        logits: &Array2<f64>,
        z: ArrayView2<'_, f64>,
        labels: Option<&[i64]>,
        which: impl Fn(usize) -> String,
    ) -> Result<()> {
        let mut p = vec![0.0; logits.ncols()];
        for (index, (row, logits)) in z.rows().into_iter().zip(logits.rows()).enumerate() {
            let (row, logits) = (contiguous(&row), contiguous(&logits));
            let class = predicted(logits);
            self.largest += logits[class];
            if let Some(sum) = &mut self.energy {
                *sum += energy(logits, 1.0);
            }
            if let Some(sums) = &mut self.predicted {
                sums.add(class as i64, row)?;
            }
            if let Some(sums) = &mut self.probabilities {
                p.copy_from_slice(logits);
                softmax(&mut p);
                sums.add(class as i64, &p)?;
            }
            let Some(&label) = labels.and_then(|labels| labels.get(index)) else { continue };
            if let Some(sum) = &mut self.labelled {
                *sum += logits[class_of(label, logits.len(), || which(index))?];
            }
            if label != class as i64 {
                continue;
            }
            for (sums, row) in [(&mut self.recognised, row), (&mut self.recognised_logits, logits)]
            {
                sums.iter_mut().try_for_each(|sums| sums.add(label, row))?;
            }
        }
        Ok(())
    }

    fn put_into(self, part: Part) -> Part {
        part.with_optional("recognised", self.recognised.map(Field::Classes))
            .with_optional("predicted", self.predicted.map(Field::Classes))
            .with_optional("probabilities", self.probabilities.map(Field::Classes))
            .with_optional("right logits", self.recognised_logits.map(Field::Classes))
            .with("largest logits", number(self.largest))
            .with_optional("labelled logits", self.labelled.map(number))
            .with_optional("energies", self.energy.map(number))
    }
}

/// Labels of these rows (ascending numbers).
pub(crate) fn labels_of(labels: &crate::io::Labels, rows: &[usize]) -> Result<Vec<i64>> {
    let mut out = Vec::with_capacity(rows.len());
    for (run, _) in crate::training::runs(rows) {
        out.extend(labels.read(run)?);
    }
    Ok(out)
}

fn unit_rows(
    training: &Training<'_>,
    numbers: &[usize],
    z: ArrayView2<'_, f64>,
) -> Result<Array2<f64>> {
    let mut unit = z.to_owned();
    let zero = unit
        .axis_iter_mut(Axis(0))
        .into_par_iter()
        .map(|mut row| normalise(contiguous_mut(&mut row)))
        .collect::<Vec<bool>>()
        .iter()
        .position(|has_direction| !has_direction);
    match zero {
        None => Ok(unit),
        Some(row) => Err(training.data.zero_row(numbers[row])),
    }
}
