//! Kernels, and blocks of kernel values against a set of rows.

use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2};
use serde::{Deserialize, Serialize};

use crate::error::names::no_such_name;
use crate::graph::{Builder, Op, Value, product};
use crate::numeric::math;
use crate::numeric::product::weights::Weights;
use crate::numeric::vector::{self, contiguous, contiguous_mut};
use crate::{Error, Real, Result};

/// A positive-definite kernel k(a, b).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Kernel {
    /// aᵀb
    Linear,
    /// exp(−γ‖a − b‖²)
    Gaussian {
        /// γ, the inverse squared width.
        gamma: f64,
    },
    /// exp(−γ‖a − b‖₁)
    Laplacian {
        /// γ, the inverse width.
        gamma: f64,
    },
    /// (aᵀb + c)^d
    Polynomial {
        /// d
        degree: u32,
        /// c
        coef0: f64,
    },
}

impl Kernel {
    /// Every kernel's name.
    pub const NAMES: &'static [&'static str] = &["linear", "gaussian", "laplacian", "polynomial"];

    /// The kernel of a name, with those of the parameters that it has.
    ///
    /// # Errors
    /// If there is no such kernel.
    pub fn named(name: &str, gamma: f64, degree: u32, coef0: f64) -> Result<Self> {
        Ok(match name {
            "linear" => Kernel::Linear,
            "gaussian" => Kernel::Gaussian { gamma },
            "laplacian" => Kernel::Laplacian { gamma },
            "polynomial" => Kernel::Polynomial { degree, coef0 },
            _ => {
                let reason = no_such_name(Self::NAMES, name);
                return Err(Error::BadOption { flag: "kernel".to_owned(), reason });
            }
        })
    }

    /// The kernel's name as users write it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Kernel::Linear => "linear",
            Kernel::Gaussian { .. } => "gaussian",
            Kernel::Laplacian { .. } => "laplacian",
            Kernel::Polynomial { .. } => "polynomial",
        }
    }

    /// γ, if the kernel has one.
    pub(crate) fn gamma(&self) -> Option<f64> {
        match *self {
            Kernel::Gaussian { gamma } | Kernel::Laplacian { gamma } => Some(gamma),
            Kernel::Linear | Kernel::Polynomial { .. } => None,
        }
    }

    /// The same with another γ, if it has one.
    pub(crate) fn with_gamma(self, gamma: f64) -> Self {
        match self {
            Kernel::Gaussian { .. } => Kernel::Gaussian { gamma },
            Kernel::Laplacian { .. } => Kernel::Laplacian { gamma },
            Kernel::Linear | Kernel::Polynomial { .. } => self,
        }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// If γ is not positive and finite, the degree is 0 or above 16, or c is negative (the kernel
    /// would not be positive definite).
    pub fn check(&self) -> Result<()> {
        match *self {
            Kernel::Gaussian { gamma } | Kernel::Laplacian { gamma }
                if !(gamma > 0.0 && gamma.is_finite()) =>
            {
                Err(Error::parameter("gamma", "a number above 0", gamma))
            }
            Kernel::Polynomial { degree, .. } if !(1..=16).contains(&degree) => {
                Err(Error::parameter("degree", "a whole number from 1 to 16", degree))
            }
            Kernel::Polynomial { coef0, .. } if !(coef0 >= 0.0 && coef0.is_finite()) => {
                Err(Error::parameter("coef0", "a number of at least 0", coef0))
            }
            _ => Ok(()),
        }
    }

    /// k(x, x) of a row with this squared norm.
    #[must_use]
    pub fn diagonal(&self, squared_norm: f64) -> f64 {
        match *self {
            Kernel::Linear => squared_norm,
            Kernel::Gaussian { .. } | Kernel::Laplacian { .. } => 1.0,
            Kernel::Polynomial { degree, coef0 } => (squared_norm + coef0).powi(degree as i32),
        }
    }

    /// What [`Kernel::block`] leaves off: it gives k − offset. Values near 1 lose digits in `f32`,
    /// so those kernels carry k − 1.
    #[must_use]
    pub(crate) fn offset(&self) -> f64 {
        match self {
            Kernel::Gaussian { .. } | Kernel::Laplacian { .. } => 1.0,
            Kernel::Linear | Kernel::Polynomial { .. } => 0.0,
        }
    }

    /// out\[i, j\] = k(x_i, anchor_j) − offset, on the calling thread.
    pub(crate) fn block<T: Real>(
        &self,
        x: ArrayView2<'_, T>,
        anchors: &Anchors<T>,
        mut out: ArrayViewMut2<'_, T>,
    ) {
        if let Kernel::Laplacian { gamma } = *self {
            let gamma = T::from_double(-gamma);
            let rows = contiguous(anchors.rows.matrix());
            for (x, mut out) in x.rows().into_iter().zip(out.rows_mut()) {
                let (x, out) = (contiguous(&x), contiguous_mut(&mut out));
                vector::manhattan_distances(x, rows, out);
                out.iter_mut().for_each(|o| *o *= gamma);
                math::exp_minus_one(out);
            }
            return;
        }
        if let Kernel::Gaussian { gamma } = *self {
            return anchors.gaussian(x, out, T::from_double(-gamma));
        }
        anchors.rows.product(x, out.view_mut());
        if let Kernel::Polynomial { degree, coef0 } = *self {
            let coef0 = T::from_double(coef0);
            out.mapv_inplace(|dot| (dot + coef0).power(degree as i32));
        }
    }
}

/// Numbers that the differences to some anchors may take at a time, for each row: there is no product that gives
/// Manhattan distances.
const DIFFERENCES: usize = 1 << 18;

impl Kernel {
    /// The same as [`Kernel::block`] within a graph.
    pub(crate) fn block_graph<T: Real>(
        &self,
        x: Value,
        anchors: &Anchors<T>,
        builder: &mut Builder<'_>,
    ) -> Value {
        match *self {
            Kernel::Gaussian { gamma } => {
                let squared = anchors.squared_distances_graph(x, builder);
                let exponent = builder.times(squared, -gamma);
                builder.exp_minus_one(exponent)
            }
            Kernel::Laplacian { gamma } => {
                let distances = anchors.manhattan_graph(x, builder);
                let exponent = builder.times(distances, -gamma);
                builder.exp_minus_one(exponent)
            }
            Kernel::Linear => product(builder, "anchors", x, &anchors.rows),
            Kernel::Polynomial { degree, coef0 } => {
                let dot = product(builder, "anchors", x, &anchors.rows);
                let base = builder.plus(dot, coef0);
                (1..degree).fold(base, |power, _| builder.mul(power, base))
            }
        }
    }

    /// k(x, x) − constant of rows within a graph.
    pub(crate) fn diagonal_graph(
        &self,
        x: Value,
        constant: f64,
        builder: &mut Builder<'_>,
    ) -> Value {
        let diagonal = match *self {
            // Both are near 1: what is left of them must not be rounded before.
            Kernel::Gaussian { .. } | Kernel::Laplacian { .. } => {
                return builder.scalar(self.diagonal(0.0) - constant);
            }
            Kernel::Linear => builder.squared_length(x),
            Kernel::Polynomial { degree, coef0 } => {
                let squared = builder.squared_length(x);
                let base = builder.plus(squared, coef0);
                (1..degree).fold(base, |power, _| builder.mul(power, base))
            }
        };
        builder.plus(diagonal, -constant)
    }
}

/// The rows that kernel values are taken against: landmarks, or all training rows.
///
/// The gaussian kernel depends on differences only, so its anchors and rows are taken relative to
/// an origin in their midst: features of one network lie close together, and ‖a‖² + ‖b‖² − 2aᵀb
/// would cancel most of the digits that tell them apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Anchors<T> {
    /// Relative to `origin`, if there is one.
    rows: Weights<T>,
    origin: Option<Array1<T>>,
    squared_norms: Vec<T>,
}

impl<T: Real> Anchors<T> {
    /// Anchors for a kernel, with an origin if it can use one.
    pub(crate) fn new(kernel: Kernel, rows: Array2<T>) -> Self {
        if !matches!(kernel, Kernel::Gaussian { .. }) {
            return Self::from_parts(rows, None);
        }
        let count = rows.nrows().max(1) as f64;
        let origin = rows
            .columns()
            .into_iter()
            .map(|column| T::from_double(column.iter().map(|x| x.to_double()).sum::<f64>() / count))
            .collect::<Array1<T>>();
        Self::from_parts(rows - &origin, Some(origin))
    }

    /// Anchors as [`Anchors::parts`] gave them.
    pub(crate) fn from_parts(rows: Array2<T>, origin: Option<Array1<T>>) -> Self {
        let rows = Weights::new(rows);
        let squared_norms = rows
            .matrix()
            .rows()
            .into_iter()
            .map(|row| T::from_double(vector::sum_of_squares(contiguous(&row))))
            .collect();
        Anchors { rows, origin, squared_norms }
    }

    /// The same with products in 16-bit fixed point; none in double precision.
    pub(crate) fn in_fixed_point(&self) -> Option<Self> {
        let rows = self.rows.in_fixed_point()?;
        let (origin, squared_norms) = (self.origin.clone(), self.squared_norms.clone());
        Some(Anchors { rows, origin, squared_norms })
    }

    /// Rows relative to the origin, and the origin.
    pub(crate) fn parts(&self) -> (&Array2<T>, Option<&Array1<T>>) {
        (self.rows.matrix(), self.origin.as_ref())
    }

    /// Whether the squared norms fit their type.
    pub(crate) fn is_finite(&self) -> bool {
        self.squared_norms.iter().all(|norm| norm.is_finite_number())
    }

    pub(crate) fn count(&self) -> usize {
        self.rows.matrix().nrows()
    }

    pub(crate) fn width(&self) -> usize {
        self.rows.matrix().ncols()
    }

    fn squared_distances_graph(&self, x: Value, builder: &mut Builder<'_>) -> Value {
        let x = match &self.origin {
            Some(origin) => {
                let origin = builder.vector("origin", origin);
                builder.sub(x, origin)
            }
            None => x,
        };
        let dot = product(builder, "anchors", x, &self.rows);
        let dot = builder.times(dot, 2.0);
        let squares = builder.square(x);
        let norm = builder.sum_kept(squares);
        let norms = builder.vector("anchor_norms", &Array1::from(self.squared_norms.clone()));
        let norms = builder.add(norm, norms);
        let squared = builder.sub(norms, dot);
        builder.at_least(squared, 0.0)
    }

    fn manhattan_graph(&self, x: Value, builder: &mut Builder<'_>) -> Value {
        let rows = self.rows.matrix();
        let column = builder.reshape(x, &[1, rows.ncols()]);
        let at_once = (DIFFERENCES / rows.ncols().max(1)).max(1);
        let parts: Vec<Value> = rows
            .axis_chunks_iter(ndarray::Axis(0), at_once)
            .map(|part| {
                let part = builder.owned("anchors", part.to_owned());
                let difference = builder.sub(column, part);
                let sizes = builder.node(Op::Abs, &[difference]);
                builder.sum(sizes)
            })
            .collect();
        builder.joined(&parts)
    }

    /// out = exp(factor·‖x − anchor‖²) − 1.
    fn gaussian(&self, x: ArrayView2<'_, T>, mut out: ArrayViewMut2<'_, T>, factor: T) {
        let x = match &self.origin {
            Some(origin) => &x - origin,
            None => x.to_owned(),
        };
        self.rows.product(x.view(), out.view_mut());
        let two = T::from_double(2.0);
        for (x, mut out) in x.rows().into_iter().zip(out.rows_mut()) {
            let norm = T::from_double(vector::sum_of_squares(contiguous(&x)));
            let out = contiguous_mut(&mut out);
            vector::dispatch(
                #[inline(always)]
                || {
                    for (o, &anchor_norm) in out.iter_mut().zip(&self.squared_norms) {
                        let squared = norm + anchor_norm - two * *o;
                        // Rounding can make the distance of a row to itself negative. Where norms
                        // overflow, ∞ − ∞ is no number; it stays one and counts as far away.
                        *o = factor * if squared < T::default() { T::default() } else { squared };
                    }
                },
            );
            math::exp_minus_one(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    fn value(kernel: Kernel, a: [f64; 2], b: [f64; 2]) -> f64 {
        let mut out = Array2::zeros((1, 2));
        let anchors = Anchors::new(kernel, array![[b[0], b[1]], [7.0, 8.0]]);
        kernel.block(array![[a[0], a[1]]].view(), &anchors, out.view_mut());
        out[[0, 0]] + kernel.offset()
    }

    #[test]
    fn each_kernel_equals_its_formula() {
        let (a, b) = ([1.0, -2.0], [0.5, 3.0]);
        let close = |x: f64, y: f64| assert!((x - y).abs() < 1e-15, "{x} {y}");
        close(value(Kernel::Linear, a, b), -5.5);
        close(value(Kernel::Gaussian { gamma: 0.1 }, a, b), (-0.1f64 * 25.25).exp());
        close(value(Kernel::Laplacian { gamma: 0.1 }, a, b), (-0.1f64 * 5.5).exp());
        close(value(Kernel::Polynomial { degree: 3, coef0: 1.0 }, a, b), -91.125);
    }

    #[test]
    fn diagonal_is_the_kernel_of_a_row_with_itself() {
        let a = [0.3, -0.7];
        let squared_norm = 0.58;
        for kernel in [
            Kernel::Linear,
            Kernel::Gaussian { gamma: 2.0 },
            Kernel::Laplacian { gamma: 2.0 },
            Kernel::Polynomial { degree: 2, coef0: 0.5 },
        ] {
            assert!((value(kernel, a, a) - kernel.diagonal(squared_norm)).abs() < 1e-15);
        }
    }

    #[test]
    fn bad_parameters_are_refused() {
        for kernel in [
            Kernel::Gaussian { gamma: 0.0 },
            Kernel::Gaussian { gamma: f64::NAN },
            Kernel::Laplacian { gamma: -1.0 },
            Kernel::Polynomial { degree: 0, coef0: 1.0 },
            Kernel::Polynomial { degree: 2, coef0: -1.0 },
        ] {
            assert!(kernel.check().is_err(), "{kernel:?}");
        }
    }
}
