//! What baselines want to know of the training rows, gathered together in one pass.
//!
//! Methods name their needs before the fit; several methods fitted together share one walk over the
//! rows. Memory is what the summaries take (m² for a covariance, classes·m for class means), never
//! a copy of the rows. Exact percentiles take passes of their own (see `quantiles`).

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis};
use rayon::prelude::*;

use crate::numeric::rank_update::PackedRows;
use crate::numeric::vector::{contiguous, contiguous_mut};
use crate::span::moments::Moments;
use crate::span::preprocess::normalise;
use crate::training::Training;
use crate::training::logits::{LogitSource, Need, predicted};
use crate::training::quantiles;
use crate::{Error, Result};

/// Numbers that class means may take, at most (2 GiB).
const MOST_CLASS_NUMBERS: usize = 1 << 28;

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
    /// Mean of the largest logit.
    pub(crate) largest_logit: bool,
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
        self.largest_logit |= other.largest_logit;
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
        self.classes || self.unit_classes || self.recognised
    }

    fn logits(&self) -> bool {
        self.recognised || self.largest_logit
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

/// Means over the rows of each label, sorted by label.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClassMeans {
    pub(crate) labels: Vec<i64>,
    pub(crate) counts: Vec<u64>,
    pub(crate) means: Array2<f64>,
}

impl ClassMeans {
    /// The mean of a class by its number in the last layer.
    pub(crate) fn of(&self, class: usize) -> Option<ArrayView1<'_, f64>> {
        let index = self.labels.binary_search(&(class as i64)).ok()?;
        Some(self.means.row(index))
    }

    /// One row per class of a last layer with this many; zeros for classes without rows.
    pub(crate) fn by_class(&self, classes: usize, what: &str) -> Result<Array2<f64>> {
        if let Some(label) = self.labels.iter().find(|label| !(0..classes as i64).contains(*label))
        {
            return Err(Error::shape(
                format!("labels of {what}"),
                format!("classes from 0 to {}, as in the last layer", classes - 1),
                format!("label {label}"),
            ));
        }
        let mut means = Array2::zeros((classes, self.means.ncols()));
        for (class, mut row) in means.rows_mut().into_iter().enumerate() {
            if let Some(mean) = self.of(class) {
                row.assign(&mean);
            }
        }
        Ok(means)
    }
}

/// Σz and count per label.
#[derive(Default)]
struct ClassSums(BTreeMap<i64, (u64, Array1<f64>)>);

impl ClassSums {
    fn add(&mut self, label: i64, row: &[f64]) -> Result<()> {
        if !self.0.contains_key(&label) && (self.0.len() + 1) * row.len() > MOST_CLASS_NUMBERS {
            return Err(Error::shape(
                "labels",
                format!("at most {} classes at this width", MOST_CLASS_NUMBERS / row.len().max(1)),
                "more",
            ));
        }
        let (count, sum) = self.0.entry(label).or_insert_with(|| (0, Array1::zeros(row.len())));
        *count += 1;
        sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        Ok(())
    }

    fn means(self, width: usize) -> ClassMeans {
        let mut means = Array2::zeros((self.0.len(), width));
        for (mut row, (count, sum)) in means.rows_mut().into_iter().zip(self.0.values()) {
            row.assign(&(sum / *count as f64));
        }
        ClassMeans {
            labels: self.0.keys().copied().collect(),
            counts: self.0.values().map(|(count, _)| *count).collect(),
            means,
        }
    }
}

/// Mean and variance of each channel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Channels {
    pub(crate) mean: Array1<f64>,
    pub(crate) variance: Array1<f64>,
}

/// Running mean and sum of squared deviations of each channel (Chan's rule per chunk).
struct ChannelSums {
    count: f64,
    mean: Array1<f64>,
    squares: Array1<f64>,
}

impl ChannelSums {
    fn add(&mut self, rows: ArrayView2<'_, f64>) {
        let Some(mean) = rows.mean_axis(Axis(0)) else { return };
        let mut squares = Array1::zeros(mean.len());
        for row in rows.rows() {
            ndarray::Zip::from(&mut squares)
                .and(&row)
                .and(&mean)
                .for_each(|sum, x, mean| *sum += (x - mean) * (x - mean));
        }
        let added = rows.nrows() as f64;
        let total = self.count + added;
        let delta = &mean - &self.mean;
        self.squares += &(squares + &delta * &delta * (self.count * added / total));
        self.mean += &(delta * (added / total));
        self.count = total;
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
    largest_logit: Option<f64>,
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
        largest_logit: f64,
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
        let mut statistics = Self::walk(training, needs)?;
        let features = &*training.data.features;
        let keep = |row| training.hold_out.keeps(row);
        if !needs.percentiles.is_empty() {
            let asked = &needs.percentiles;
            let found = quantiles::percentiles(features, &keep, asked, training.observer)?;
            statistics.percentiles = asked.iter().copied().zip(found).collect();
        }
        if !needs.channel_quantiles.is_empty() {
            let asked = &needs.channel_quantiles;
            let found = quantiles::channel_quantiles(features, &keep, asked, training.observer)?;
            statistics.channel_quantiles = asked.iter().copied().zip(found).collect();
        }
        Ok(statistics)
    }

    fn walk(training: &Training<'_>, needs: &Needs) -> Result<Self> {
        let width = training.data.width();
        let mut packed = PackedRows::<f64>::default();
        let mut moments = needs.moments.then(|| Moments::new(width));
        let mut unit_moments = needs.unit_moments.then(|| Moments::new(width));
        let mut channels = needs.channels.then(|| ChannelSums {
            count: 0.0,
            mean: Array1::zeros(width),
            squares: Array1::zeros(width),
        });
        let mut classes = needs.classes.then(ClassSums::default);
        let mut unit_classes = needs.unit_classes.then(ClassSums::default);
        let mut recognised = needs.recognised.then(ClassSums::default);
        let mut largest_logits = 0.0;
        let mut rows = 0;
        let labels = if needs.labels() { Some(training.labels("this method")?) } else { None };
        let logits = if needs.logits() {
            let need = Need::Method("this method");
            Some(LogitSource::of(training.data, training.head, None, need)?)
        } else {
            None
        };
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
            if let Some(source) = &logits {
                let logits = source.gather(numbers)?;
                for (index, (row, logits)) in z.rows().into_iter().zip(logits.rows()).enumerate() {
                    let logits = contiguous(&logits);
                    let class = predicted(logits);
                    largest_logits += logits[class];
                    if let (Some(sums), Some(labels)) = (&mut recognised, &labels)
                        && labels[index] == class as i64
                    {
                        sums.add(labels[index], contiguous(&row))?;
                    }
                }
            }
            Ok(())
        };
        let fingerprint = if needs.no_walk() {
            rows = training.rows() as u64;
            0
        } else {
            training.for_each_chunk("statistics of the training rows", visit)?
        };
        if moments.iter().chain(&unit_moments).any(|moments| !moments.is_finite()) {
            return Err(Error::TooLarge { what: training.data.name.clone(), single: false });
        }
        Ok(Statistics {
            rows,
            fingerprint,
            moments,
            unit_moments,
            channels: channels.map(|sums| Channels {
                mean: sums.mean,
                variance: sums.squares / sums.count.max(1.0),
            }),
            classes: classes.map(|sums| sums.means(width)),
            unit_classes: unit_classes.map(|sums| sums.means(width)),
            recognised: recognised.map(|sums| sums.means(width)),
            largest_logit: logits.map(|_| largest_logits / (rows as f64).max(1.0)),
            percentiles: Vec::new(),
            channel_quantiles: Vec::new(),
            shared: Mutex::default(),
        })
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
