//! A matrix that rows are multiplied with again and again, in one of three arithmetics.

use ndarray::{Array2, ArrayRef2, ArrayView2, ArrayViewMut2};

use crate::numeric::product::fixed_rows::{self, RowScaled};
use crate::numeric::product::panels::Packed;
use crate::numeric::product::unpacked;
use crate::numeric::vector::{contiguous, contiguous_mut};
use crate::{Precision, Real};

/// A matrix that rows are multiplied with again and again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Weights<T> {
    matrix: Array2<T>,
    arithmetic: Arithmetic,
}

/// How products are computed.
#[derive(Debug, Clone, PartialEq)]
enum Arithmetic {
    /// The general product: double precision is for reference.
    Double,
    Single(Packed<f32>),
    Fixed(RowScaled),
}

impl<T: Real> Weights<T> {
    /// Row j of the matrix gives column j of the result.
    pub(crate) fn new(matrix: Array2<T>) -> Self {
        let matrix = matrix.as_standard_layout().into_owned();
        let arithmetic = match T::PRECISION {
            Precision::F32 => Arithmetic::Single(Packed::new(matrix.dim(), as_single(&matrix))),
            Precision::F64 => Arithmetic::Double,
        };
        Weights { matrix, arithmetic }
    }

    /// The same with products in 16-bit fixed point; none in double precision.
    pub(crate) fn in_fixed_point(&self) -> Option<Self> {
        (T::PRECISION == Precision::F32).then(|| {
            let numbers = as_single(&self.matrix);
            let arithmetic = Arithmetic::Fixed(RowScaled::new(self.matrix.dim(), numbers));
            Weights { matrix: self.matrix.clone(), arithmetic }
        })
    }

    pub(crate) fn matrix(&self) -> &Array2<T> {
        &self.matrix
    }

    /// The matrix as its 16-bit numbers have it, if products are in fixed point.
    pub(crate) fn rounded(&self) -> Option<Array2<f32>> {
        let Arithmetic::Fixed(_) = &self.arithmetic else { return None };
        let (numbers, scales) = fixed_rows::rounded(self.matrix.dim(), as_single(&self.matrix));
        let depth = self.matrix.ncols().max(1);
        let worth = |(index, number): (usize, &i16)| f32::from(*number) * scales[index / depth];
        let numbers = numbers.iter().enumerate().map(worth).collect();
        Array2::from_shape_vec(self.matrix.dim(), numbers).ok()
    }

    /// out = x·Wᵀ; both row-major.
    pub(crate) fn product(&self, x: ArrayView2<'_, T>, mut out: ArrayViewMut2<'_, T>) {
        let x = x.as_standard_layout();
        match &self.arithmetic {
            Arithmetic::Double => unpacked::multiply(out, x.view(), self.matrix.t()),
            Arithmetic::Single(packed) => {
                packed.product(as_single(&x), bytemuck::cast_slice_mut(contiguous_mut(&mut out)));
            }
            Arithmetic::Fixed(scaled) => {
                scaled.product(as_single(&x), bytemuck::cast_slice_mut(contiguous_mut(&mut out)));
            }
        }
    }
}

/// The same numbers, for a type that is known to be `f32`.
fn as_single<T: Real>(numbers: &ArrayRef2<T>) -> &[f32] {
    bytemuck::cast_slice(contiguous(numbers))
}

#[cfg(test)]
mod tests {
    use ndarray::s;

    use super::super::wave;
    use super::*;

    #[test]
    fn equals_the_definition_on_odd_shapes() {
        for (n, depth, width) in [
            (1, 1, 1),
            (1, 300, 70),
            (2, 5, 17),
            (7, 257, 16),
            (8, 256, 33),
            (9, 600, 1100),
            (13, 40, 5),
        ] {
            let (x, b) = (wave::<f32>(n, depth, 1), wave::<f32>(width, depth, 2));
            let mut out = Array2::from_elem((n, width), 9.0);
            Weights::new(b.clone()).product(x.view(), out.view_mut());
            let exact = x.mapv(f64::from).dot(&b.mapv(f64::from).t());
            for (got, expected) in out.iter().zip(&exact) {
                assert!((f64::from(*got) - expected).abs() < 1e-5 * (depth as f64).sqrt());
            }
            let mut double = Array2::zeros((n, width));
            let weights = Weights::new(b.mapv(f64::from));
            weights.product(x.mapv(f64::from).view(), double.view_mut());
            assert!((double - exact).iter().all(|difference| difference.abs() < 1e-11));
        }
    }

    #[test]
    fn a_row_has_the_same_bits_whatever_the_others_and_the_threads() {
        let (x, b) = (wave::<f32>(40, 513, 1), wave::<f32>(1300, 513, 2));
        let weights = Weights::new(b);
        let product = |from: usize, to: usize| {
            let mut out = Array2::zeros((to - from, 1300));
            weights.product(x.slice(s![from..to, ..]), out.view_mut());
            out
        };
        let whole = product(0, 40);
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for (from, to) in [(0, 1), (5, 6), (3, 5), (0, 7), (10, 33), (1, 40)] {
                let part = pool.install(|| product(from, to));
                assert_eq!(part, whole.slice(s![from..to, ..]), "{from}..{to}");
            }
        }
    }
}
