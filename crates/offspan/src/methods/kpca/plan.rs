//! A fitted detector compiled to the least arithmetic per row.
//!
//! With v the raw coordinates of a row, v̄ their training mean and d = v − v̄, every residual is one
//! of three forms, each with a single matrix P into which whitening and directions are folded:
//!
//! | form | e² | used for |
//! |---|---|---|
//! | projected | ‖P d‖² with P = U_pᵀA | plain residual |
//! | remainder | ‖d‖² − ‖P d‖² with P = U_qᵀ | plain residual where A = I and q is the smaller side |
//! | complete | k(z,z) − ‖μ‖² − 2 wᵀd − ‖P d‖² with P = U_qᵀA, w = Aᵀμ | complete residual, exact kernel PCA |
//!
//! The last one is k(z,z) − ‖Φ‖² + ‖U_pᵀ(Φ − μ)‖² expanded around μ: all its terms are of the size
//! of the variance, so a kernel whose values are all close to 1 loses no digits.
//!
//! Only ‖P d‖ is asked for, which no rotation changes: P is turned into a trapezoid, whose zeros are
//! neither read nor multiplied. With r rows in M columns that leaves out r/2M of the work.

use ndarray::{Array1, Array2, ArrayView2, Axis, s};

use crate::numeric::cache;
use crate::numeric::linalg;
use crate::numeric::vector::{self, contiguous, contiguous_mut};
use crate::span::map::{FeatureMap, RawMap};
use crate::span::preprocess::Preprocess;
use crate::span::subspace::Subspace;
use crate::{Kernel, Real};

use super::params::{Residual, ValidKpca};
use super::projection::Projection;

/// Below this share of unexplained variance ‖d‖² − ‖P d‖² would cancel too many `f32` digits.
const SMALLEST_REMAINDER: f64 = 1e-2;

/// Whether the residual follows from the directions that are kept, without the others.
pub(super) fn kept_suffice<T: Real>(
    params: &ValidKpca,
    map: &FeatureMap<T>,
    kept: usize,
    explained: f64,
) -> bool {
    match params.residual {
        Residual::Complete => true,
        Residual::Plain => {
            map.is_isometric()
                && kept < map.dimensions() - kept
                && 1.0 - explained >= SMALLEST_REMAINDER
        }
    }
}

/// How e² follows from P d.
#[derive(Debug, Clone)]
pub(super) enum Form<T> {
    Projected,
    Remainder,
    Complete { kernel: Kernel, constant: f64, weight: Array1<T> },
}

/// Everything that scoring a row needs.
#[derive(Debug, Clone)]
pub(super) struct Plan<T> {
    pub(super) preprocess: Preprocess,
    pub(super) raw: RawMap<T>,
    /// v̄, rounded to `T`.
    pub(super) centre: Array1<T>,
    /// P
    pub(super) projection: Projection<T>,
    /// P·(rounded v̄ − v̄): what the rounding of the centre would do to P d.
    pub(super) bias: Array1<f64>,
    pub(super) form: Form<T>,
}

impl<T: Real> Plan<T> {
    /// Folds map, moments and subspace together.
    pub(super) fn compile(
        preprocess: Preprocess,
        params: &ValidKpca,
        map: FeatureMap<T>,
        centre: &Array1<f64>,
        subspace: &Subspace,
    ) -> Self {
        let kept = subspace.kept;
        let fold = |directions: ArrayView2<'_, f64>| match &map.whitening {
            Some(a) => linalg::product(directions, a.view()),
            None => directions.to_owned(),
        };
        let kept_directions = || subspace.directions.slice(s![..kept, ..]);
        let (projection, form) = match params.residual {
            Residual::Complete => {
                let mean = &subspace.mean;
                let weight = match &map.whitening {
                    Some(a) => a.t().dot(mean),
                    None => mean.clone(),
                };
                let constant = mean.dot(mean);
                let weight = weight.mapv(T::from_double);
                let kernel = params.kernel;
                (fold(kept_directions()), Form::Complete { kernel, constant, weight })
            }
            Residual::Plain => {
                if kept_suffice(params, &map, kept, subspace.explained) {
                    (fold(kept_directions()), Form::Remainder)
                } else {
                    (fold(subspace.directions.slice(s![kept.., ..])), Form::Projected)
                }
            }
        };
        Self::new(preprocess, map.raw, centre, projection, form, 1.0 - subspace.explained)
    }

    /// A plan from its parts; `unexplained` is the share of the variance outside the subspace.
    pub(super) fn new(
        preprocess: Preprocess,
        raw: RawMap<T>,
        centre: &Array1<f64>,
        projection: Array2<f64>,
        form: Form<T>,
        unexplained: f64,
    ) -> Self {
        // Only the length of P d counts, so P may be turned until it has a triangle of zeros.
        let projection = &linalg::trapezoid(projection);
        let rounded = centre.mapv(T::from_double);
        let bias = projection.dot(&(rounded.mapv(Real::to_double) - centre));
        let projection = match form {
            Form::Remainder => Projection::of_remainder(projection, &raw, &rounded, unexplained),
            Form::Projected | Form::Complete { .. } => Projection::general(projection),
        };
        Plan { preprocess, raw, centre: rounded, projection, bias, form }
    }

    /// The same with all products in 16-bit fixed point, where they are behind a kernel in single
    /// precision.
    pub(super) fn in_fixed_point(&self) -> Option<Self> {
        let RawMap::Kernel(vector) = &self.raw else { return None };
        Some(Plan {
            preprocess: self.preprocess,
            raw: RawMap::Kernel(vector.in_fixed_point()?),
            centre: self.centre.clone(),
            projection: self.projection.in_fixed_point()?,
            bias: self.bias.clone(),
            form: self.form.clone(),
        })
    }

    /// Residuals e of unprocessed rows, on the calling thread. The first rows of the workspace hold
    /// them, and are used up. A row without direction, or too large for the arithmetic, gets an
    /// infinite residual.
    pub(super) fn residuals(&self, work: &mut Workspace<T>, out: &mut [f64]) {
        let n = out.len();
        let mut rows = work.rows.slice_mut(s![..n, ..]);
        let mut coordinates = work.coordinates.slice_mut(s![..n, ..]);
        let mut projected = work.projected.slice_mut(s![..n, ..]);
        let zero_rows = self.preprocess.apply(rows.view_mut());
        self.raw.apply(rows.view(), coordinates.view_mut());
        let centre = contiguous(&self.centre);
        for mut row in coordinates.rows_mut() {
            vector::subtract(contiguous_mut(&mut row), centre);
        }
        self.projection.product(coordinates.view(), projected.view_mut());
        let bias = contiguous(&self.bias);
        for (i, (out, t)) in out.iter_mut().zip(projected.rows()).enumerate() {
            let inside = vector::sum_of_squared_sums(contiguous(&t), bias);
            let d = coordinates.index_axis(Axis(0), i);
            let d = contiguous(&d);
            let squared = match &self.form {
                Form::Projected => inside,
                Form::Remainder => vector::sum_of_squares(d) - inside,
                Form::Complete { kernel, constant, weight } => {
                    let x = rows.index_axis(Axis(0), i);
                    let norm = vector::sum_of_squares(contiguous(&x));
                    let along = vector::dot(contiguous(weight), d);
                    kernel.diagonal(norm) - constant - 2.0 * along - inside
                }
            };
            // A row so large that its products overflow lies as far outside as a row can.
            *out = if squared.is_finite() { squared.max(0.0).sqrt() } else { f64::INFINITY };
        }
        for row in zero_rows {
            out[row] = f64::INFINITY;
        }
    }
}

impl<T: Real> Plan<T> {
    /// Rows that go from normalisation to score together: few enough that results of a product stay in
    /// the second cache, enough to share each read of the weights.
    pub(super) fn rows_at_once(&self) -> usize {
        // Whole groups of every inner loop.
        const STEP: usize = 12;
        let widest = self.raw.output().max(self.projection.directions()).max(1);
        let rows = cache::second_level() / 4 * 3 / (size_of::<T>() * widest);
        (rows / STEP * STEP).clamp(2 * STEP, 8 * STEP)
    }
}

/// Memory for the rows on their way, used again for every block.
pub(super) struct Workspace<T> {
    pub(super) rows: Array2<T>,
    coordinates: Array2<T>,
    projected: Array2<T>,
}

impl<T: Real> Workspace<T> {
    /// For blocks of at most this many rows.
    pub(super) fn new(plan: &Plan<T>, rows: usize, width: usize) -> Self {
        let zeros = |columns| Array2::from_elem((rows, columns), T::default());
        Workspace {
            rows: zeros(width),
            coordinates: zeros(plan.raw.output()),
            projected: zeros(plan.projection.directions()),
        }
    }
}
