//! Sums over the rows of each class and of each channel, that can be merged.

use std::collections::BTreeMap;

use ndarray::{Array1, Array2, ArrayView2, Axis};

use crate::{Error, Result};

/// Numbers that class means may take, at most (2 GiB).
const MOST_CLASS_NUMBERS: usize = 1 << 28;

/// Means over the rows of each label, sorted by label.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClassMeans {
    pub(crate) labels: Vec<i64>,
    pub(crate) counts: Vec<u64>,
    pub(crate) means: Array2<f64>,
}

impl ClassMeans {
    /// The mean of a class by its number in the last layer.
    pub(crate) fn of(&self, class: usize) -> Option<ndarray::ArrayView1<'_, f64>> {
        let index = self.labels.binary_search(&(class as i64)).ok()?;
        Some(self.means.row(index))
    }

    /// One row per class of a last layer with this many; zeros for classes without rows.
    pub(crate) fn by_class(&self, classes: usize, what: &str) -> Result<Array2<f64>> {
        self.labels
            .iter()
            .try_for_each(|&label| class_of(label, classes, || what.to_owned()).map(drop))?;
        let mut means = Array2::zeros((classes, self.means.ncols()));
        for (class, mut row) in means.rows_mut().into_iter().enumerate() {
            if let Some(mean) = self.of(class) {
                row.assign(&mean);
            }
        }
        Ok(means)
    }
}

/// The class of a last layer with so many that a label stands for; if there is none, the error says of what.
pub(crate) fn class_of(label: i64, classes: usize, what: impl FnOnce() -> String) -> Result<usize> {
    let class = usize::try_from(label).ok().filter(|class| *class < classes);
    class.ok_or_else(|| {
        Error::shape(
            format!("labels of {}", what()),
            format!("classes from 0 to {}, as in the last layer", classes.saturating_sub(1)),
            format!("label {label}"),
        )
    })
}

/// Σz and count per label.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClassSums {
    width: usize,
    sums: BTreeMap<i64, (u64, Array1<f64>)>,
}

impl ClassSums {
    pub(crate) fn new(width: usize) -> Self {
        ClassSums { width, sums: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, label: i64, row: &[f64]) -> Result<()> {
        self.add_sum(label, 1, row)
    }

    fn add_sum(&mut self, label: i64, rows: u64, added: &[f64]) -> Result<()> {
        if !self.sums.contains_key(&label)
            && (self.sums.len() + 1) * self.width > MOST_CLASS_NUMBERS
        {
            return Err(Error::shape(
                "labels",
                format!("at most {} classes at this width", MOST_CLASS_NUMBERS / self.width.max(1)),
                "more",
            ));
        }
        let new = || (0, Array1::zeros(self.width));
        let (count, sum) = self.sums.entry(label).or_insert_with(new);
        *count += rows;
        sum.iter_mut().zip(added).for_each(|(sum, x)| *sum += x);
        Ok(())
    }

    pub(super) fn merge(&mut self, other: &ClassSums) -> Result<()> {
        check_width(self.width, other.width)?;
        let mut sums = other.sums.iter();
        sums.try_for_each(|(&label, (count, sum))| match sum.as_slice() {
            Some(sum) => self.add_sum(label, *count, sum),
            None => unreachable!("sums lie together"),
        })
    }

    pub(crate) fn means(self) -> ClassMeans {
        let mut means = Array2::zeros((self.sums.len(), self.width));
        for (mut row, (count, sum)) in means.rows_mut().into_iter().zip(self.sums.values()) {
            row.assign(&(sum / *count as f64));
        }
        ClassMeans {
            labels: self.sums.keys().copied().collect(),
            counts: self.sums.values().map(|(count, _)| *count).collect(),
            means,
        }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The labels, as the bits of whole numbers without a sign.
    pub(super) fn labels(&self) -> Vec<u64> {
        self.sums.keys().map(|label| label.cast_unsigned()).collect()
    }

    pub(super) fn counts(&self) -> Vec<u64> {
        self.sums.values().map(|(count, _)| *count).collect()
    }

    pub(super) fn sums(&self) -> Array2<f64> {
        let mut sums = Array2::zeros((self.sums.len(), self.width));
        for (mut row, (_, sum)) in sums.rows_mut().into_iter().zip(self.sums.values()) {
            row.assign(sum);
        }
        sums
    }

    /// What [`ClassSums::labels`], [`ClassSums::counts`] and [`ClassSums::sums`] gave.
    pub(super) fn from_parts(
        labels: &[u64],
        counts: &[u64],
        sums: &Array2<f64>,
        width: usize,
    ) -> Option<Self> {
        if labels.len() != counts.len() || sums.dim() != (labels.len(), width) {
            return None;
        }
        let entries = labels.iter().zip(counts).zip(sums.rows());
        let sums = entries
            .map(|((label, count), sum)| (label.cast_signed(), (*count, sum.to_owned())))
            .collect();
        Some(ClassSums { width, sums })
    }
}

/// Mean and variance of each channel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Channels {
    pub(crate) mean: Array1<f64>,
    pub(crate) variance: Array1<f64>,
}

/// Running mean and sum of squared deviations of each channel (Chan's rule).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChannelSums {
    pub(super) count: u64,
    pub(super) mean: Array1<f64>,
    pub(super) squares: Array1<f64>,
}

impl ChannelSums {
    pub(crate) fn new(width: usize) -> Self {
        ChannelSums { count: 0, mean: Array1::zeros(width), squares: Array1::zeros(width) }
    }

    pub(crate) fn add(&mut self, rows: ArrayView2<'_, f64>) {
        let Some(mean) = rows.mean_axis(Axis(0)) else { return };
        let mut squares = Array1::zeros(mean.len());
        for row in rows.rows() {
            ndarray::Zip::from(&mut squares)
                .and(&row)
                .and(&mean)
                .for_each(|sum, x, mean| *sum += (x - mean) * (x - mean));
        }
        self.join(&ChannelSums { count: rows.nrows() as u64, mean, squares });
    }

    pub(super) fn merge(&mut self, other: &ChannelSums) -> Result<()> {
        check_width(self.mean.len(), other.mean.len())?;
        self.join(other);
        Ok(())
    }

    fn join(&mut self, other: &ChannelSums) {
        if other.count == 0 {
            return;
        }
        let (ours, theirs) = (self.count as f64, other.count as f64);
        let total = ours + theirs;
        let delta = &other.mean - &self.mean;
        self.squares += &(&other.squares + &(&delta * &delta * (ours * theirs / total)));
        self.mean += &(delta * (theirs / total));
        self.count += other.count;
    }

    pub(crate) fn channels(self) -> Channels {
        Channels { mean: self.mean, variance: self.squares / (self.count as f64).max(1.0) }
    }
}

fn check_width(expected: usize, got: usize) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    Err(Error::shape("a part of a fit", format!("sums of {expected} columns"), format!("of {got}")))
}
