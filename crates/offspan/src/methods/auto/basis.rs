//! Coordinates of rows for the terms that look at classes and neighbourhoods: the channels themselves,
//! or, where there are many, the leading directions, with what they leave as one number.

use ndarray::{Array2, ArrayView2, Axis, s};

use crate::graph::{Builder, Op, Value};
use crate::io::{Dataset, TensorWriter, gather};
use crate::methods::model::Stored;
use crate::numeric::product::weights::Weights;
use crate::numeric::vector::{contiguous, contiguous_mut, scale, sum_of_squares};
use crate::numeric::{lanczos, linalg};
use crate::span::preprocess::Preprocess;
use crate::{Moments, Real, Result};

/// Coordinates at most: whitening costs their square.
const MOST: usize = 128;
/// Channels from which on the leading directions are found without the others.
const WIDE: usize = 8 * MOST;
/// Rows read together.
const ROWS_AT_ONCE: usize = 1024;
/// Share of a row's squared length under which a difference of squared lengths has lost too many digits.
const SMALL_REST: f64 = 1.0 / 16.0;

/// Leading directions of rows of unit length; none where all channels are kept.
#[derive(Debug, Clone)]
pub(super) struct Basis<T> {
    directions: Option<Directions<T>>,
    width: usize,
}

/// Orthonormal directions, and the way back from coordinates to channels.
#[derive(Debug, Clone)]
struct Directions<T> {
    /// [coordinates, channels].
    forth: Weights<T>,
    /// The transpose.
    back: Weights<T>,
}

impl<T: Real> Directions<T> {
    fn new(matrix: Array2<T>) -> Self {
        let back = Weights::new(matrix.t().to_owned());
        Directions { forth: Weights::new(matrix), back }
    }

    /// Squared length of what the coordinates leave of each of these rows, taken of the rest itself.
    fn explicit_rest(&self, rows: ArrayView2<'_, T>, coordinates: ArrayView2<'_, T>) -> Vec<f64> {
        let mut within = Array2::from_elem(rows.dim(), T::default());
        self.back.product(coordinates, within.view_mut());
        within.zip_mut_with(&rows, |within, &row| *within = row - *within);
        squared_lengths(within.view())
    }
}

fn squared_lengths<T: Real>(rows: ArrayView2<'_, T>) -> Vec<f64> {
    rows.rows().into_iter().map(|row| sum_of_squares(contiguous(&row))).collect()
}

/// Rows in coordinates.
#[derive(Debug, Clone)]
pub(super) struct Coordinates<T> {
    pub(super) rows: Array2<T>,
    /// Squared length of what the coordinates leave of each row.
    pub(super) rest: Vec<f64>,
    /// Length of each row.
    pub(super) lengths: Vec<f64>,
}

/// The same within a graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct CoordinateValues {
    /// [N, coordinates].
    pub(super) rows: Value,
    /// Length of what the coordinates leave of each row, [N, 1]; none if they leave nothing.
    pub(super) rest: Option<Value>,
    /// [N, 1]; 1 for rows without direction.
    lengths: Value,
    /// [N, 1].
    pub(super) is_zero: Value,
}

impl CoordinateValues {
    /// The same rows scaled to unit length.
    pub(super) fn unit(self, builder: &mut Builder<'_>) -> Self {
        let rows = builder.div(self.rows, self.lengths);
        let rest = self.rest.map(|rest| builder.div(rest, self.lengths));
        CoordinateValues { rows, rest, ..self }
    }
}

impl<T: Real> Basis<T> {
    /// From these rows (ascending numbers).
    pub(super) fn fit(data: &Dataset<'_>, rows: &[usize]) -> Result<Self> {
        let width = data.width();
        if width <= MOST {
            return Ok(Basis { directions: None, width });
        }
        let mut moments = Moments::new(width);
        for numbers in rows.chunks(ROWS_AT_ONCE) {
            let mut unit: Array2<f64> = gather(&*data.features, numbers)?;
            let preprocess = Preprocess { clip: None, cosine: true };
            if let Some(&zero) = preprocess.apply(unit.view_mut()).first() {
                return Err(data.zero_row(numbers[zero]));
            }
            moments.update(unit.view())?;
        }
        // Around zero and not around the mean: the rows' length must come out of coordinates and rest.
        let mean = moments.mean().view().insert_axis(Axis(1));
        let second = moments.covariance() + linalg::product(mean, mean.t());
        // Where only the first of many are wanted, they cost a fraction of all.
        let leading = if width >= WIDE {
            lanczos::leading_eigen(second.view(), |_| Some(MOST))?
        } else {
            None
        };
        let eigen = match leading {
            Some(eigen) => eigen,
            None => linalg::symmetric_eigen(second.view())?,
        };
        let directions = eigen.vectors.slice(s![..MOST, ..]).mapv(T::from_double);
        Ok(Basis { directions: Some(Directions::new(directions)), width })
    }

    /// Number of coordinates.
    pub(super) fn coordinates(&self) -> usize {
        self.width.min(MOST)
    }

    /// Dimensions that the coordinates leave out.
    pub(super) fn left(&self) -> usize {
        self.width - self.coordinates()
    }

    /// Rows as they are in coordinates.
    pub(super) fn of(&self, rows: ArrayView2<'_, T>) -> Coordinates<T> {
        let lengths = squared_lengths(rows);
        let root = |squares: &[f64]| squares.iter().map(|square| square.sqrt()).collect();
        let Some(directions) = &self.directions else {
            let rest = vec![0.0; lengths.len()];
            return Coordinates { rows: rows.to_owned(), rest, lengths: root(&lengths) };
        };
        let mut out = Array2::from_elem((rows.nrows(), MOST), T::default());
        directions.forth.product(rows, out.view_mut());
        let within = squared_lengths(out.view());
        let mut rest: Vec<f64> =
            lengths.iter().zip(within).map(|(all, within)| (all - within).max(0.0)).collect();
        let small: Vec<usize> =
            (0..rest.len()).filter(|&row| rest[row] < SMALL_REST * lengths[row]).collect();
        if !small.is_empty() {
            let (rows, out) = (rows.select(Axis(0), &small), out.select(Axis(0), &small));
            let exact = directions.explicit_rest(rows.view(), out.view());
            small.into_iter().zip(exact).for_each(|(row, exact)| rest[row] = exact);
        }
        Coordinates { rows: out, rest, lengths: root(&lengths) }
    }

    /// Rows in coordinates within a graph.
    pub(super) fn graph(&self, rows: Value, builder: &mut Builder<'_>) -> CoordinateValues {
        let (_, lengths, is_zero) = builder.unit_rows(rows);
        let Some(directions) = &self.directions else {
            return CoordinateValues { rows, rest: None, lengths, is_zero };
        };
        let matrix = builder.owned("basis", directions.forth.matrix().clone());
        let across = builder.node(Op::Transpose { order: vec![1, 0] }, &[matrix]);
        let coordinates = builder.matmul(rows, across);
        // What is left of the row itself: a difference of two squared lengths has lost its digits.
        let within = builder.matmul(coordinates, matrix);
        let left = builder.sub(rows, within);
        let rest = builder.length(left);
        let rest = Some(builder.as_column(rest));
        CoordinateValues { rows: coordinates, rest, lengths, is_zero }
    }

    pub(super) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        if let Some(directions) = &self.directions {
            writer.array2(format!("{prefix}basis"), directions.forth.matrix());
        }
    }

    pub(super) fn read(stored: Stored<'_>) -> Result<Self> {
        let width = stored.width;
        if width <= MOST {
            return Ok(Basis { directions: None, width });
        }
        let directions = stored.matrix("basis", Some(MOST), width)?;
        Ok(Basis { directions: Some(Directions::new(directions)), width })
    }
}

impl<T: Real> Coordinates<T> {
    /// The same rows scaled to unit length; one without direction stays as it is.
    pub(super) fn unit(&self) -> Self {
        let mut unit = self.clone();
        let lengths = self.lengths.iter().zip(&mut unit.rest);
        for ((length, rest), mut row) in lengths.zip(unit.rows.rows_mut()) {
            if *length > 0.0 {
                scale(contiguous_mut(&mut row), 1.0 / length);
                *rest /= length * length;
            }
        }
        unit
    }
}

impl Coordinates<f64> {
    /// No rows yet.
    pub(super) fn empty(coordinates: usize) -> Self {
        let rows = Array2::zeros((0, coordinates));
        Coordinates { rows, rest: Vec::new(), lengths: Vec::new() }
    }

    /// Adds rows.
    pub(super) fn append<T: Real>(&mut self, more: &Coordinates<T>) {
        let rows = more.rows.mapv(Real::to_double);
        self.rows.append(Axis(0), rows.view()).expect("rows of one basis are equally wide");
        self.rest.extend(&more.rest);
        self.lengths.extend(&more.lengths);
    }
}
