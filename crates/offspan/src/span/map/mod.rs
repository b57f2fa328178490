//! Feature maps Φ: coordinates in which the kernel is (nearly) an inner product.
//!
//! A map has two parts. [`RawMap`] turns a preprocessed row into raw coordinates v: the row itself,
//! random features, or kernel values against landmarks. An optional whitening matrix A turns those
//! into Φ = A·v. Fits and scores work on v; A is folded into the projection afterwards, so the
//! product with A is never computed per row.

mod fourier;
mod fourier_parts;
mod nystrom;
mod tensor_sketch;

pub use fourier::{Draw, Fourier};
pub use fourier_parts::FourierParts;
pub(crate) use nystrom::kernel_matrix;
pub use nystrom::{EigenFloor, FloorRule, KernelVector, RankReport};
pub use tensor_sketch::TensorSketch;

use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis};
use rayon::prelude::*;

use crate::graph::{Builder, Value};
use crate::numeric::linalg;
use crate::{Error, Kernel, Real, Result, WeightType};

/// Rows that one task maps.
const BLOCK: usize = 256;

/// Raw coordinates v(x) of a preprocessed row x.
#[derive(Debug, Clone)]
pub enum RawMap<T> {
    /// v = x
    Identity {
        /// Length of x.
        width: usize,
    },
    /// Random Fourier features.
    Fourier(Fourier<T>),
    /// Tensor sketch of a polynomial kernel.
    TensorSketch(TensorSketch<T>),
    /// Kernel values against landmarks, less the kernel's constant part.
    Kernel(KernelVector<T>),
}

impl<T: Real> RawMap<T> {
    /// Length of x.
    #[must_use]
    pub fn input(&self) -> usize {
        match self {
            RawMap::Identity { width } => *width,
            RawMap::Fourier(map) => map.input(),
            RawMap::TensorSketch(map) => map.input(),
            RawMap::Kernel(map) => map.input(),
        }
    }

    /// Length of v.
    #[must_use]
    pub fn output(&self) -> usize {
        match self {
            RawMap::Identity { width } => *width,
            RawMap::Fourier(map) => map.output(),
            RawMap::TensorSketch(map) => map.output(),
            RawMap::Kernel(map) => map.output(),
        }
    }

    /// Whether v is kernel values.
    pub(crate) fn is_kernel(&self) -> bool {
        matches!(self, RawMap::Kernel(_))
    }

    /// What has to be added to every v to get true coordinates.
    pub(crate) fn offset(&self) -> f64 {
        match self {
            RawMap::Kernel(map) => map.kernel().offset(),
            _ => 0.0,
        }
    }

    /// Maps rows, on the calling thread. Both views are row-major.
    pub(crate) fn apply(&self, x: ArrayView2<'_, T>, mut out: ArrayViewMut2<'_, T>) {
        match self {
            RawMap::Identity { .. } => out.assign(&x),
            RawMap::Fourier(map) => map.apply(x, out),
            RawMap::TensorSketch(map) => map.apply(x, out),
            RawMap::Kernel(map) => map.apply(x, out),
        }
    }
}

impl<T: Real> RawMap<T> {
    /// The same within a graph.
    pub(crate) fn graph(&self, x: Value, builder: &mut Builder<'_>) -> Value {
        match self {
            RawMap::Identity { .. } => x,
            RawMap::Fourier(map) => map.graph(x, builder),
            RawMap::TensorSketch(map) => map.graph(x, builder),
            RawMap::Kernel(map) => map.graph(x, builder),
        }
    }
}

/// A feature map: raw coordinates and, for Nyström, the whitening that follows.
#[derive(Debug, Clone)]
pub struct FeatureMap<T> {
    pub(crate) raw: RawMap<T>,
    /// A, one row per dimension of Φ.
    pub(crate) whitening: Option<Array2<f64>>,
    pub(crate) rank: Option<RankReport>,
}

impl<T: Real> FeatureMap<T> {
    /// Φ(x) = x
    #[must_use]
    pub fn identity(width: usize) -> Self {
        FeatureMap { raw: RawMap::Identity { width }, whitening: None, rank: None }
    }

    /// Random Fourier features.
    #[must_use]
    pub fn fourier(map: Fourier<T>) -> Self {
        FeatureMap { raw: RawMap::Fourier(map), whitening: None, rank: None }
    }

    /// Tensor sketch.
    #[must_use]
    pub fn tensor_sketch(map: TensorSketch<T>) -> Self {
        FeatureMap { raw: RawMap::TensorSketch(map), whitening: None, rank: None }
    }

    /// Nyström: Φ(x) = Λ̃^(−1/2) Ũᵀ k(x, landmarks), with K̃ = k(landmarks, landmarks) = Ũ Λ̃ Ũᵀ.
    /// The landmarks are preprocessed rows; equal ones are taken once.
    ///
    /// # Errors
    /// If there are no landmarks, the kernel's parameters are bad or the eigensolver fails.
    pub fn nystrom(kernel: Kernel, landmarks: Array2<T>, floor: EigenFloor) -> Result<Self> {
        nystrom::build(kernel, landmarks, floor, WeightType::Full)
    }

    /// The same, with landmarks that a type of weights can hold.
    pub(crate) fn nystrom_stored(
        kernel: Kernel,
        landmarks: Array2<T>,
        floor: EigenFloor,
        weights: WeightType,
    ) -> Result<Self> {
        nystrom::build(kernel, landmarks, floor, weights)
    }

    /// Length of a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.raw.input()
    }

    /// Dimensions of Φ.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.whitening.as_ref().map_or(self.raw.output(), Array2::nrows)
    }

    /// How the eigenvalues of the landmark kernel were treated; Nyström only.
    #[must_use]
    pub fn rank_report(&self) -> Option<&RankReport> {
        self.rank.as_ref()
    }

    /// Whether ‖Φ(x) − Φ(y)‖ = ‖v(x) − v(y)‖.
    pub(crate) fn is_isometric(&self) -> bool {
        self.whitening.is_none()
    }

    /// Φ of preprocessed rows.
    ///
    /// # Errors
    /// If the rows do not have the map's width.
    pub fn transform(&self, rows: ArrayView2<'_, T>) -> Result<Array2<f64>> {
        if rows.ncols() != self.raw.input() {
            return Err(Error::shape(
                "rows for the feature map",
                format!("{} columns", self.raw.input()),
                format!("{} columns", rows.ncols()),
            ));
        }
        let rows = rows.as_standard_layout();
        let mut v = Array2::from_elem((rows.nrows(), self.raw.output()), T::default());
        v.axis_chunks_iter_mut(Axis(0), BLOCK)
            .into_par_iter()
            .zip(rows.axis_chunks_iter(Axis(0), BLOCK))
            .for_each(|(v, rows)| self.raw.apply(rows, v));
        let v = v.mapv(|x| x.to_double() + self.raw.offset());
        Ok(self.whiten(v))
    }

    fn whiten(&self, v: Array2<f64>) -> Array2<f64> {
        match &self.whitening {
            Some(a) => linalg::product(v.view(), a.t()),
            None => v,
        }
    }

    /// Φ of one vector of true coordinates.
    pub(crate) fn whiten_one(&self, v: Array1<f64>) -> Array1<f64> {
        self.whiten(v.insert_axis(Axis(0))).remove_axis(Axis(0))
    }
}
