//! Nyström: the kernel seen through landmarks.

use std::collections::HashSet;
use std::ops::Range;

use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{FeatureMap, RawMap};
use crate::WeightType;
use crate::error::names::names;
use crate::graph::{Builder, Value};
use crate::numeric::extreme;
use crate::numeric::linalg;
use crate::numeric::vector::{self, contiguous, contiguous_mut};
use crate::span::kernel::Anchors;
use crate::{Error, Kernel, Precision, Real, Result};

/// Kernel values against landmarks.
#[derive(Debug, Clone)]
pub struct KernelVector<T> {
    kernel: Kernel,
    anchors: Anchors<T>,
}

impl<T: Real> KernelVector<T> {
    pub(crate) fn new(kernel: Kernel, rows: Array2<T>) -> Self {
        KernelVector { kernel, anchors: Anchors::new(kernel, rows) }
    }

    /// As [`KernelVector::parts`] gave them.
    pub(crate) fn from_parts(kernel: Kernel, rows: Array2<T>, origin: Option<Array1<T>>) -> Self {
        KernelVector { kernel, anchors: Anchors::from_parts(rows, origin) }
    }

    /// The same with landmarks that this type can hold: slightly moved, before anything is learnt.
    fn stored_as(self, weights: WeightType) -> Self {
        if weights.is_full() {
            return self;
        }
        let (rows, origin) = self.parts();
        let (mut rows, origin) = (rows.clone(), origin.cloned());
        weights.round_all(&mut rows);
        Self::from_parts(self.kernel, rows, origin)
    }

    /// The same with products in 16-bit fixed point; none in double precision.
    pub(crate) fn in_fixed_point(&self) -> Option<Self> {
        Some(KernelVector { kernel: self.kernel, anchors: self.anchors.in_fixed_point()? })
    }

    /// Length of x.
    #[must_use]
    pub fn input(&self) -> usize {
        self.anchors.width()
    }

    /// Number of landmarks.
    #[must_use]
    pub fn output(&self) -> usize {
        self.anchors.count()
    }

    pub(crate) fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Landmarks relative to an origin, and the origin if the kernel uses one.
    pub(crate) fn parts(&self) -> (&Array2<T>, Option<&Array1<T>>) {
        self.anchors.parts()
    }

    /// The same landmarks in double precision.
    fn widen(&self) -> KernelVector<f64> {
        let (rows, origin) = self.parts();
        let origin = origin.map(|origin| origin.mapv(Real::to_double));
        KernelVector::from_parts(self.kernel, rows.mapv(Real::to_double), origin)
    }

    pub(crate) fn graph(&self, x: Value, builder: &mut Builder<'_>) -> Value {
        self.kernel.block_graph(x, &self.anchors, builder)
    }

    pub(crate) fn apply(&self, x: ArrayView2<'_, T>, out: ArrayViewMut2<'_, T>) {
        self.kernel.block(x, &self.anchors, out);
    }
}

/// What to do with eigenvalues of the landmark kernel that are zero up to rounding.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EigenFloor {
    /// Eigenvalues at or under this share of the largest count as zero.
    pub relative: f64,
    /// What happens to them.
    pub rule: FloorRule,
}

impl Default for EigenFloor {
    fn default() -> Self {
        EigenFloor { relative: 1e-12, rule: FloorRule::Drop }
    }
}

impl EigenFloor {
    pub(crate) fn check(&self) -> Result<()> {
        if self.relative >= 0.0 && self.relative < 1.0 {
            return Ok(());
        }
        Err(Error::parameter("rank-floor", "a number in [0, 1)", self.relative))
    }
}

/// How eigenvalues under the floor are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FloorRule {
    /// Leave their directions out: they carry rounding noise only.
    #[default]
    Drop,
    /// Raise them to the floor, as public code does; the noise stays in, damped.
    Clamp,
}

names!(FloorRule { Drop "drop", Clamp "clamp", });

/// What the eigenvalues of the landmark kernel looked like and what was kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RankReport {
    /// Landmarks chosen.
    pub landmarks: usize,
    /// Landmarks that are not copies of another.
    pub distinct: usize,
    /// Dimensions of Φ.
    pub rank: usize,
    /// Smallest kept eigenvalue over the largest.
    pub smallest_kept: f64,
    /// Largest eigenvalue under the floor over the largest, if there is one.
    pub largest_under_floor: Option<f64>,
    /// The floor that was used.
    pub floor: EigenFloor,
}

/// The first of every group of equal rows, in order.
pub(crate) fn distinct_rows<T: Real>(rows: ArrayView2<'_, T>) -> Vec<usize> {
    let mut seen = HashSet::new();
    let bits = |row: ndarray::ArrayView1<'_, T>| {
        // + 0 turns −0 into 0, which is the same number.
        row.iter().map(|x| (x.to_double() + 0.0).to_bits()).collect::<Vec<_>>()
    };
    (0..rows.nrows()).filter(|&i| seen.insert(bits(rows.row(i)))).collect()
}

/// k(landmarks, landmarks) − offset in double precision, in parallel.
pub(crate) fn kernel_matrix(vector: &KernelVector<f64>) -> Array2<f64> {
    let n = vector.output();
    let mut matrix = Array2::zeros((n, n));
    let (rows, origin) = vector.parts();
    matrix
        .axis_chunks_iter_mut(Axis(0), 64)
        .into_par_iter()
        .zip(rows.axis_chunks_iter(Axis(0), 64))
        .for_each(|(out, rows)| match origin {
            Some(origin) => vector.apply((&rows + origin).view(), out),
            None => vector.apply(rows, out),
        });
    matrix
}

/// Rounding may move a landmark by this share of its length: twice what bf16 does to ordinary numbers.
const LARGEST_MOVE: f64 = 1.0 / 128.0;

/// Fails where landmarks are too large or too small for the type that they are kept in.
fn check_rounding<T: Real>(
    exact: &KernelVector<T>,
    rounded: &KernelVector<T>,
    weights: WeightType,
) -> Result<()> {
    let squares = |row: ndarray::ArrayView1<'_, T>| -> f64 {
        row.iter().map(|x| x.to_double().powi(2)).sum()
    };
    let (before, after) = (exact.parts().0, rounded.parts().0);
    for (before, after) in before.outer_iter().zip(after.outer_iter()) {
        let moved: f64 =
            before.iter().zip(after).map(|(a, b)| (a.to_double() - b.to_double()).powi(2)).sum();
        let within = moved <= LARGEST_MOVE.powi(2) * squares(before);
        if !within {
            return Err(Error::parameter(
                "weights",
                "a type in which the landmarks fit (bf16 has a larger range than f16, full has them \
                 as they are)",
                weights,
            ));
        }
    }
    Ok(())
}

pub(super) fn build<T: Real>(
    kernel: Kernel,
    landmarks: Array2<T>,
    floor: EigenFloor,
    weights: WeightType,
) -> Result<FeatureMap<T>> {
    kernel.check()?;
    floor.check()?;
    let chosen = landmarks.nrows();
    let landmarks = landmarks.select(Axis(0), &distinct_rows(landmarks.view()));
    if landmarks.is_empty() {
        return Err(Error::TooFewRows { what: "the landmarks".to_owned(), expected: 1, got: 0 });
    }
    let exact = KernelVector::new(kernel, landmarks);
    let vector = exact.clone().stored_as(weights);
    if !weights.is_full() {
        check_rounding(&exact, &vector, weights)?;
    }
    if !vector.anchors.is_finite() {
        let what = "squared norms of the landmarks".to_owned();
        return Err(Error::TooLarge { what, single: T::PRECISION == Precision::F32 });
    }
    let width = vector.input();
    // The whitening divides by roots of small eigenvalues, so K̃ and all that follows is f64.
    let wide = vector.widen();
    let mut gram = kernel_matrix(&wide);
    gram += kernel.offset();
    if !gram.iter().all(|k| k.is_finite()) {
        let what = "kernel values of the landmarks".to_owned();
        return Err(Error::TooLarge { what, single: false });
    }
    let (whitening, report) = whiten(gram, kernel, floor, chosen)?;
    // For the linear kernel Φ(x) = Λ̃^(−1/2)Ũᵀ·L·x is one well-conditioned matrix on x itself: take
    // it, and neither M kernel values nor their amplified rounding are ever computed.
    let (raw, whitening) = if kernel == Kernel::Linear {
        let on_rows = linalg::product(whitening.view(), wide.parts().0.view());
        (RawMap::Identity { width }, on_rows)
    } else {
        (RawMap::Kernel(vector), whitening)
    };
    Ok(FeatureMap { raw, whitening: Some(whitening), rank: Some(report) })
}

/// A with AᵀA = K̃⁻¹, as far as K̃ has a rank, and what was found of its eigenvalues.
///
/// Every such A gives the same residuals. Where no eigenvalue has to be left out or raised it is L⁻¹ of
/// K̃ = LLᵀ, which needs no eigenvectors.
fn whiten(
    gram: Array2<f64>,
    kernel: Kernel,
    floor: EigenFloor,
    landmarks: usize,
) -> Result<(Array2<f64>, RankReport)> {
    let distinct = gram.nrows();
    // Landmarks outnumber the dimensions of a linear kernel more often than not.
    if kernel != Kernel::Linear
        && let Some((whitening, smallest_kept)) = whiten_whole(&gram, floor)?
    {
        let report = RankReport {
            landmarks,
            distinct,
            rank: distinct,
            smallest_kept,
            largest_under_floor: None,
            floor,
        };
        return Ok((whitening, report));
    }
    let eigen = linalg::symmetric_eigen(gram.view())?;
    drop(gram);
    let largest = eigen.values[0];
    if largest <= 0.0 {
        return Err(Error::NoVariance { what: "the landmark kernel".to_owned() });
    }
    let cut = floor.relative * largest;
    let above = eigen.values.iter().take_while(|&&value| value > cut).count();
    let rank = match floor.rule {
        FloorRule::Drop => above,
        FloorRule::Clamp => distinct,
    };
    let mut whitening = eigen.vectors.slice(s![..rank, ..]).to_owned();
    for (mut row, &value) in whitening.rows_mut().into_iter().zip(&eigen.values) {
        row /= value.max(cut).max(f64::MIN_POSITIVE).sqrt();
    }
    let report = RankReport {
        landmarks,
        distinct,
        rank,
        smallest_kept: eigen.values[above - 1] / largest,
        largest_under_floor: eigen.values.get(above).map(|value| value / largest),
        floor,
    };
    Ok((whitening, report))
}

/// An eigenvalue that is within this factor of the floor is looked at more closely.
const NEAR_FLOOR: f64 = 2.0;

/// L⁻¹ of K̃ = LLᵀ and the smallest eigenvalue over the largest, if that is well above the floor.
fn whiten_whole(gram: &Array2<f64>, floor: EigenFloor) -> Result<Option<(Array2<f64>, f64)>> {
    let Ok(lower) = linalg::cholesky(gram.view()) else { return Ok(None) };
    let inverse = linalg::lower_inverse(lower.view());
    drop(lower);
    let n = gram.nrows();
    let Some(largest) = extreme::largest(n, |x| multiply(gram, x, |_| 0..n))? else {
        return Ok(None);
    };
    // The largest eigenvalue of K̃⁻¹ = L⁻ᵀL⁻¹.
    let turned = inverse.t().as_standard_layout().into_owned();
    let Some(reciprocal) = extreme::largest(n, |x| {
        let half = multiply(&inverse, x, |row| 0..row + 1);
        multiply(&turned, contiguous(&half), |row| row..n)
    })?
    else {
        return Ok(None);
    };
    let at_least = 1.0 / ((reciprocal.value + reciprocal.error) * (largest.value + largest.error));
    let share = 1.0 / (reciprocal.value * largest.value);
    Ok((at_least > NEAR_FLOOR * floor.relative).then_some((inverse, share)))
}

/// a·x, where row i of `a` has its numbers in these columns.
fn multiply(
    a: &Array2<f64>,
    x: &[f64],
    columns: impl Fn(usize) -> Range<usize> + Sync,
) -> Array1<f64> {
    const ROWS_PER_TASK: usize = 64;
    let mut out = Array1::zeros(a.nrows());
    let tasks = contiguous_mut(&mut out).par_chunks_mut(ROWS_PER_TASK);
    tasks.enumerate().for_each(|(task, out)| {
        for (i, out) in out.iter_mut().enumerate() {
            let row = task * ROWS_PER_TASK + i;
            let columns = columns(row);
            *out = vector::dot(&contiguous(&a.row(row))[columns.clone()], &x[columns]);
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: usize, width: usize) -> Array2<f64> {
        Array2::from_shape_fn((n, width), |(i, j)| {
            ((i * 37 + j * 11 + i * j * 5) % 41) as f64 / 41.0
        })
    }

    #[test]
    fn with_all_rows_as_landmarks_inner_products_are_exact() {
        for kernel in [
            Kernel::Linear,
            Kernel::Gaussian { gamma: 0.8 },
            Kernel::Laplacian { gamma: 0.3 },
            Kernel::Polynomial { degree: 2, coef0: 1.0 },
        ] {
            let x = rows(30, 7);
            let map = FeatureMap::nystrom(kernel, x.clone(), EigenFloor::default()).unwrap();
            let phi = map.transform(x.view()).unwrap();
            let mut gram = kernel_matrix(&KernelVector::new(kernel, x));
            gram += kernel.offset();
            let worst = (&phi.dot(&phi.t()) - &gram).iter().fold(0.0f64, |w, x| w.max(x.abs()));
            assert!(worst < 1e-9, "{kernel:?}: {worst}");
        }
    }

    #[test]
    fn duplicates_and_rank_deficiency_are_reported_and_harmless() {
        let x = rows(12, 4);
        let twice = ndarray::concatenate![Axis(0), x, x];
        let once = FeatureMap::nystrom(Kernel::Linear, x.clone(), EigenFloor::default()).unwrap();
        let map = FeatureMap::nystrom(Kernel::Linear, twice, EigenFloor::default()).unwrap();
        let report = map.rank_report().unwrap();
        assert_eq!((report.landmarks, report.distinct, report.rank), (24, 12, 4));
        assert!(report.largest_under_floor.unwrap().abs() < 1e-12);
        assert_eq!(map.transform(x.view()).unwrap(), once.transform(x.view()).unwrap());
    }

    #[test]
    fn with_and_without_eigenvectors_the_spectrum_is_reported_alike() {
        let x = Array2::from_shape_fn((80, 9), |(i, j)| {
            ((i * 37 + j * 11 + i * j * 5) % 97) as f64 / 97.0
        });
        let kernel = Kernel::Gaussian { gamma: 2.0 };
        let mut gram = kernel_matrix(&KernelVector::new(kernel, x));
        gram += kernel.offset();
        let values = linalg::symmetric_eigen(gram.view()).unwrap().values;
        let exact = values[79] / values[0];
        let (whitening, share) = whiten_whole(&gram, EigenFloor::default()).unwrap().unwrap();
        assert!((share / exact - 1.0).abs() < 1e-4, "{share} {exact}");
        let identity = whitening.dot(&gram).dot(&whitening.t());
        assert!((identity - Array2::<f64>::eye(80)).iter().all(|x| x.abs() < 1e-9));
        let near = EigenFloor { relative: exact, rule: FloorRule::Drop };
        assert!(whiten_whole(&gram, near).unwrap().is_none());
    }

    #[test]
    fn clamping_keeps_every_direction() {
        let floor = EigenFloor { relative: 1e-12, rule: FloorRule::Clamp };
        let map = FeatureMap::nystrom(Kernel::Linear, rows(12, 4), floor).unwrap();
        assert_eq!(map.dimensions(), 12);
    }
}
