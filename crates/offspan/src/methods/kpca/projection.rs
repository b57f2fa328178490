//! P, the matrix on which a row's coordinates are projected, in the cheapest arithmetic that keeps
//! the scores.

use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2};

use crate::io::{TensorFile, TensorWriter};
use crate::numeric::product::fixed_weights::FixedWeights;
use crate::numeric::product::weights::Weights;
use crate::numeric::vector::{contiguous, contiguous_mut};
use crate::span::map::RawMap;
use crate::{Error, Precision, Real, Result, WeightType};

/// From this share of unexplained variance on, e² = ‖d‖² − ‖P d‖² is large enough for P d in fixed
/// point: what that rounds is about 1e-5 of ‖P d‖², so that e keeps at least four and a half digits.
pub(super) const SMALLEST_FIXED_REMAINDER: f64 = 0.4;

#[derive(Debug, Clone)]
pub(super) enum Projection<T> {
    General(Weights<T>),
    /// For coordinates with a known bound, which is what random Fourier features are.
    Bounded(FixedWeights),
}

impl<T: Real> Projection<T> {
    pub(super) fn general(matrix: &Array2<f64>) -> Self {
        Projection::General(Weights::new(matrix.mapv(T::from_double)))
    }

    /// The projection of a remainder of which this share of the variance is unexplained.
    pub(super) fn of_remainder(
        matrix: &Array2<f64>,
        raw: &RawMap<T>,
        centre: &Array1<T>,
        unexplained: f64,
    ) -> Self {
        match bound(raw, centre) {
            Some(bound) if unexplained >= SMALLEST_FIXED_REMAINDER => {
                Projection::Bounded(FixedWeights::new(matrix.view(), bound))
            }
            _ => Self::general(matrix),
        }
    }

    /// The same in 16-bit fixed point; none in double precision.
    pub(super) fn in_fixed_point(&self) -> Option<Self> {
        match self {
            Projection::General(weights) => weights.in_fixed_point().map(Projection::General),
            Projection::Bounded(_) => Some(self.clone()),
        }
    }

    /// P, as its numbers are kept.
    pub(super) fn dequantised(&self) -> Array2<T> {
        match self {
            Projection::General(weights) => weights.matrix().clone(),
            Projection::Bounded(weights) => {
                let (numbers, scales) = weights.parts();
                let mut matrix = numbers.mapv(|number| T::from_double(f64::from(number)));
                for (mut row, &scale) in matrix.rows_mut().into_iter().zip(scales) {
                    row.mapv_inplace(|x| x * T::from_double(f64::from(scale)));
                }
                matrix
            }
        }
    }

    /// Rows of P.
    pub(super) fn directions(&self) -> usize {
        match self {
            Projection::General(weights) => weights.matrix().nrows(),
            Projection::Bounded(weights) => weights.parts().0.nrows(),
        }
    }

    /// out = x·Pᵀ; both row-major.
    pub(super) fn product(&self, x: ArrayView2<'_, T>, mut out: ArrayViewMut2<'_, T>) {
        match self {
            Projection::General(weights) => weights.product(x, out),
            Projection::Bounded(weights) => {
                let x = bytemuck::cast_slice(contiguous(&x));
                weights.product(x, bytemuck::cast_slice_mut(contiguous_mut(&mut out)));
            }
        }
    }

    /// The same with numbers that a type of weights can hold; fixed point is one already.
    pub(super) fn stored_as(&self, kept_as: WeightType) -> Self {
        match self {
            Projection::General(weights) => {
                let mut matrix = weights.matrix().clone();
                kept_as.round_all(&mut matrix);
                Projection::General(Weights::new(matrix))
            }
            Projection::Bounded(_) => self.clone(),
        }
    }

    pub(super) fn write<'a>(
        &'a self,
        prefix: &str,
        kept_as: WeightType,
        writer: &mut TensorWriter<'a>,
    ) {
        let name = format!("{prefix}projection");
        match self {
            Projection::General(weights) => writer.weights(name, weights.matrix(), kept_as),
            Projection::Bounded(weights) => {
                let (numbers, scales) = weights.parts();
                writer.whole_numbers(name, numbers);
                writer.array1(format!("{prefix}projection_scales"), scales);
            }
        }
    }

    /// Reads P of this shape.
    pub(super) fn read(
        file: &TensorFile,
        prefix: &str,
        raw: &RawMap<T>,
        centre: &Array1<T>,
        directions: usize,
    ) -> Result<Self> {
        let name = format!("{prefix}projection");
        let scales = format!("{prefix}projection_scales");
        let expect = |expected: &[usize], what: &str, got: &[usize]| {
            if expected == got {
                return Ok(());
            }
            let what = format!("`{what}` of the detector");
            Err(Error::shape(what, format!("{expected:?}"), format!("{got:?}")))
        };
        let shape = [directions, raw.output()];
        if !file.has(&scales) {
            let matrix: Array2<T> = file.array2(&name)?;
            expect(&shape, &name, matrix.shape())?;
            return Ok(Projection::General(Weights::new(matrix)));
        }
        let numbers = file.whole_numbers(&name)?;
        expect(&shape, &name, numbers.shape())?;
        let unit: Array1<f32> = file.array1(&scales)?;
        expect(&[directions], &scales, unit.shape())?;
        let bound = bound(raw, centre).filter(|_| FixedWeights::cannot_overflow(numbers.view()));
        let Some(bound) = bound else {
            return Err(Error::shape(
                format!("`{name}` of the detector"),
                "numbers whose sums stay within 32 bits, for random Fourier features in f32",
                "others",
            ));
        };
        Ok(Projection::Bounded(FixedWeights::from_parts(numbers, unit, bound)))
    }
}

/// The largest |d| that a centred coordinate can have, where that is known and the arithmetic is
/// `f32`.
fn bound<T: Real>(raw: &RawMap<T>, centre: &Array1<T>) -> Option<f32> {
    match raw {
        RawMap::Fourier(map) if T::PRECISION == Precision::F32 => {
            let farthest = centre.iter().fold(0.0f64, |m, x| m.max(x.to_double().abs()));
            map.amplitude().map(|amplitude| (amplitude.to_double() + farthest) as f32)
        }
        _ => None,
    }
}
