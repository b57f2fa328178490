//! What classes and neighbourhoods say of a row, in one space: rows as they are, or scaled to unit length.
//!
//! The covariance inside the classes, shrunk as its rows demand, turns coordinates y into t = A(y − ȳ), in
//! which all directions inside a class count alike. Four terms follow:
//!
//! - *relative*: −min_c ‖h − h_c‖² + Σ h_i²/(1 + λ_i), the Mahalanobis distance to the nearest class less
//!   that to all of them together. Both agree but in the at most C − 1 directions h of t in which class
//!   means differ, with variances λ, so nothing else has to be computed.
//! - *off the classes*: −‖t‖ outside of h, where only rows inside a class differ.
//! - *plane of t*, *plane of y*: distance to the nearest plane through a cluster of rows.

use ndarray::{Array1, Array2, ArrayView2, Axis, s};

use super::basis::{CoordinateValues, Coordinates};
use super::planes::Planes;
use crate::graph::{Builder, Op, Value};
use crate::io::TensorWriter;
use crate::methods::model::Stored;
use crate::numeric::linalg;
use crate::numeric::product::weights::Weights;
use crate::numeric::vector::{contiguous, sum_of_squares};
use crate::{Real, Result};

/// Directions in which class means are compared, at most.
const MOST_DISCRIMINANTS: usize = 64;
/// Directions whose variance is below this share of the largest are rounding.
const SMALLEST_VARIANCE: f64 = 1e-8;
/// Terms of a space.
pub(super) const TERMS: usize = 4;

/// A fitted space.
#[derive(Debug, Clone)]
pub(super) struct Space<T> {
    centre: Array1<T>,
    /// A.
    whitening: Weights<T>,
    /// The directions of h, for y − ȳ as A is.
    discriminants: Weights<T>,
    /// h_c, one class a row.
    means: Weights<T>,
    mean_lengths: Vec<f64>,
    /// 1/(1 + λ_i).
    factors: Array1<f64>,
    /// Variance of each dimension that the coordinates leave out; infinite if there is none.
    rest_variance: f64,
    white_planes: Planes<T>,
    planes: Planes<T>,
    /// Terms that are asked for; the others are not computed.
    asked: [bool; TERMS],
}

impl<T: Real> Space<T> {
    /// From rows, the class of each (from 0 on), and how many dimensions their coordinates leave out.
    pub(super) fn fit(
        rows: &Coordinates<f64>,
        classes: &[usize],
        left: usize,
        seed: u64,
    ) -> Result<Self> {
        let (count, width) = (rows.rows.nrows() as f64, rows.rows.ncols());
        let mean = rows.rows.mean_axis(Axis(0)).unwrap_or_default();
        // The centre as it is kept, so that the rest is fitted to what scoring will see.
        let centre = mean.mapv(T::from_double);
        let y = &rows.rows - &centre.mapv(Real::to_double);
        let (means, sizes) = class_means(&y, classes);
        let mut inside = y.clone();
        for (mut row, &class) in inside.rows_mut().into_iter().zip(classes) {
            row -= &means.row(class);
        }
        let Shrunk { variances, directions, shrinkage } = shrunk_covariance(&inside)?;
        let scales = variances.mapv(|variance| 1.0 / variance.sqrt());
        let whitening = &directions * &scales.insert_axis(Axis(1));
        let rest_variance = if left == 0 {
            f64::INFINITY
        } else {
            let typical = rows.rest.iter().sum::<f64>() / count / left as f64;
            let mean_variance = variances.sum() / width as f64;
            ((1.0 - shrinkage) * typical + shrinkage * mean_variance).max(f64::MIN_POSITIVE)
        };
        let white_means = linalg::product(means.view(), whitening.t());
        let shares = sizes.mapv(|size| (size / count).sqrt()).insert_axis(Axis(1));
        let weighted = &white_means * &shares;
        let between =
            linalg::symmetric_eigen(linalg::product(weighted.t(), weighted.view()).view())?;
        let floor = 1e-12 * between.values[0].max(f64::MIN_POSITIVE);
        let most = MOST_DISCRIMINANTS.min(means.nrows().saturating_sub(1).max(1));
        let kept = between.values.iter().take(most).take_while(|value| **value > floor).count();
        // One direction at least, also where classes do not differ: tensors of a file are not empty.
        let kept = kept.max(1);
        let of_white = between.vectors.slice(s![..kept, ..]);
        let factors = between.values[..kept].iter().map(|value| 1.0 / (1.0 + value)).collect();
        let discriminants = linalg::product(of_white, whitening.view());
        let white = linalg::product(y.view(), whitening.t());
        let means = linalg::product(white_means.view(), of_white.t());
        Ok(Self::new(Parts {
            centre,
            whitening: whitening.mapv(T::from_double),
            discriminants: discriminants.mapv(T::from_double),
            means: means.mapv(T::from_double),
            factors,
            rest_variance,
            white_planes: Planes::fit(white.view(), seed)?,
            planes: Planes::fit(y.view(), seed)?,
        }))
    }

    fn new(parts: Parts<T>) -> Self {
        let Parts {
            centre,
            whitening,
            discriminants,
            means,
            factors,
            rest_variance,
            white_planes,
            planes,
        } = parts;
        let mean_lengths =
            means.rows().into_iter().map(|row| sum_of_squares(contiguous(&row))).collect();
        Space {
            centre,
            whitening: Weights::new(whitening),
            discriminants: Weights::new(discriminants),
            means: Weights::new(means),
            mean_lengths,
            factors,
            rest_variance,
            white_planes,
            planes,
            asked: [true; TERMS],
        }
    }

    /// The same space, of which only some terms are asked for.
    pub(super) fn asked(self, asked: [bool; TERMS]) -> Self {
        Space { asked, ..self }
    }

    /// The terms of rows, one a column; larger for more in-distribution. Those that are not asked for are 0.
    pub(super) fn read(&self, rows: &Coordinates<T>) -> Array2<f64> {
        let [class, off_classes, white_plane, plane] = self.asked;
        let (count, width) = rows.rows.dim();
        let y = &rows.rows - &self.centre;
        let product = |needed: bool, weights: &Weights<T>, columns: usize| {
            let mut out = Array2::from_elem((count, columns), T::default());
            if needed {
                weights.product(y.view(), out.view_mut());
            }
            out
        };
        let white = product(off_classes || white_plane, &self.whitening, width);
        let discriminant = product(class || off_classes, &self.discriminants, self.factors.len());
        let mut terms = Array2::zeros((count, TERMS));
        if class {
            terms.column_mut(0).assign(&self.relative(discriminant.view()));
        }
        let mut squares: Vec<f64> = white
            .rows()
            .into_iter()
            .zip(discriminant.rows())
            .map(|(t, h)| sum_of_squares(contiguous(&t)) - sum_of_squares(contiguous(&h)))
            .collect();
        let mut put = |term: usize, squares: &[f64], unit_of_rest: f64| {
            let places = terms.column_mut(term).into_iter().zip(squares).zip(&rows.rest);
            places.for_each(|((term, square), rest)| {
                *term = -(square.max(0.0) + rest / unit_of_rest).sqrt();
            });
        };
        if off_classes {
            put(1, &squares, self.rest_variance);
        }
        if white_plane {
            self.white_planes.squared_distances(white.view(), &mut squares);
            put(2, &squares, self.rest_variance);
        }
        if plane {
            self.planes.squared_distances(y.view(), &mut squares);
            put(3, &squares, 1.0);
        }
        terms
    }

    /// The terms that are asked for within a graph, each [N].
    pub(super) fn graph(
        &self,
        rows: CoordinateValues,
        builder: &mut Builder<'_>,
    ) -> [Option<Value>; TERMS] {
        let [class, off_classes, white_plane, plane] = self.asked;
        let centre = builder.vector("space_centre", &self.centre);
        let y = builder.sub(rows.rows, centre);
        let white = (off_classes || white_plane)
            .then(|| builder.linear("whitening", y, self.whitening.matrix().view()));
        let mut terms = [None; TERMS];
        if class {
            let h = builder.linear("discriminants", y, self.discriminants.matrix().view());
            terms[0] = Some(self.relative_graph(h, builder));
        }
        let term = |squared: Value, unit_of_rest: f64, builder: &mut Builder<'_>| {
            let squared = match rows.rest {
                None => squared,
                Some(rest) => {
                    let rest = builder.as_row(rest);
                    let rest = builder.times(rest, unit_of_rest.sqrt().recip());
                    let rest = builder.square(rest);
                    builder.add(squared, rest)
                }
            };
            let distance = builder.sqrt(squared);
            builder.neg(distance)
        };
        if let Some(white) = white {
            if off_classes {
                // h lies in few directions of t: what they leave of t, and not a difference of two lengths.
                let matrix = builder.owned("class_directions", self.of_white());
                let across = builder.node(Op::Transpose { order: vec![1, 0] }, &[matrix]);
                let h = builder.matmul(white, across);
                let within = builder.matmul(h, matrix);
                let left = builder.sub(white, within);
                let squared = builder.squared_length(left);
                terms[1] = Some(term(squared, self.rest_variance, builder));
            }
            if white_plane {
                let squared = self.white_planes.graph(white, builder);
                terms[2] = Some(term(squared, self.rest_variance, builder));
            }
        }
        if plane {
            let squared = self.planes.graph(y, builder);
            terms[3] = Some(term(squared, 1.0, builder));
        }
        terms
    }

    /// The directions of h for t, one a row: those for y, less the whitening, whose rows are orthogonal.
    fn of_white(&self) -> Array2<f64> {
        let whitening = self.whitening.matrix().mapv(Real::to_double);
        let discriminants = self.discriminants.matrix().mapv(Real::to_double);
        let squares = whitening.rows().into_iter().map(|row| row.dot(&row));
        let squares = Array1::from_iter(squares);
        linalg::product(discriminants.view(), whitening.t()) / &squares
    }

    /// As [`Space::relative`]: where classes hardly differ, the distance to the nearest and that to all of them are nearly
    /// the same number, and only this form never takes their difference.
    fn relative_graph(&self, h: Value, builder: &mut Builder<'_>) -> Value {
        let products = builder.linear("means", h, self.means.matrix().view());
        let products = builder.times(products, 2.0);
        let lengths = builder.vector("mean_lengths", &Array1::from(self.mean_lengths.clone()));
        let brackets = builder.sub(products, lengths);
        let nearest = builder.largest(brackets);
        let factors = builder.vector("factors", &self.factors.mapv(|factor| factor - 1.0));
        let squares = builder.square(h);
        let together = builder.mul(squares, factors);
        let together = builder.sum(together);
        builder.add(nearest, together)
    }

    fn relative(&self, discriminant: ArrayView2<'_, T>) -> Array1<f64> {
        let mut products =
            Array2::from_elem((discriminant.nrows(), self.mean_lengths.len()), T::default());
        self.means.product(discriminant, products.view_mut());
        discriminant
            .rows()
            .into_iter()
            .zip(products.rows())
            .map(|(row, products)| {
                let lengths = products.iter().zip(&self.mean_lengths);
                // ‖h − h_c‖² = ‖h‖² − (2hᵀh_c − ‖h_c‖²): the nearest class has the largest bracket.
                let nearest = lengths
                    .map(|(product, length)| 2.0 * product.to_double() - length)
                    .fold(f64::NEG_INFINITY, f64::max);
                let together = row.iter().zip(&self.factors).map(|(h, factor)| {
                    let square = h.to_double() * h.to_double();
                    square * (factor - 1.0)
                });
                nearest + together.sum::<f64>()
            })
            .collect()
    }

    pub(super) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array1(format!("{prefix}centre"), &self.centre);
        writer.array2(format!("{prefix}whitening"), self.whitening.matrix());
        writer.array2(format!("{prefix}discriminants"), self.discriminants.matrix());
        writer.array2(format!("{prefix}means"), self.means.matrix());
        writer.array1(format!("{prefix}factors"), &self.factors);
        self.white_planes.write(&format!("{prefix}white."), writer);
        self.planes.write(&format!("{prefix}plain."), writer);
    }

    /// The variance of what the coordinates leave out, for the numbers of a file.
    pub(super) fn rest_variance(&self) -> Option<f64> {
        self.rest_variance.is_finite().then_some(self.rest_variance)
    }

    pub(super) fn read_from(
        name: &str,
        (width, rest_variance): (usize, Option<f64>),
        stored: Stored<'_>,
    ) -> Result<Self> {
        let means: Array2<T> = stored.matrix_of_any(&format!("{name}means"))?;
        let kept = means.ncols();
        let centre = stored.vector(&format!("{name}centre"), width)?;
        Ok(Self::new(Parts {
            centre: centre.mapv(T::from_double),
            whitening: stored.matrix(&format!("{name}whitening"), Some(width), width)?,
            discriminants: stored.matrix(&format!("{name}discriminants"), Some(kept), width)?,
            factors: stored.vector(&format!("{name}factors"), kept)?,
            means,
            rest_variance: rest_variance.unwrap_or(f64::INFINITY),
            white_planes: Planes::read(&format!("{name}white."), width, stored)?,
            planes: Planes::read(&format!("{name}plain."), width, stored)?,
        }))
    }
}

/// What a space is made of.
struct Parts<T> {
    centre: Array1<T>,
    whitening: Array2<T>,
    discriminants: Array2<T>,
    means: Array2<T>,
    factors: Array1<f64>,
    rest_variance: f64,
    white_planes: Planes<T>,
    planes: Planes<T>,
}

/// The mean of each class and its number of rows.
fn class_means(rows: &Array2<f64>, classes: &[usize]) -> (Array2<f64>, Array1<f64>) {
    let count = classes.iter().max().map_or(1, |largest| largest + 1);
    let mut means = Array2::zeros((count, rows.ncols()));
    let mut sizes = Array1::<f64>::zeros(count);
    for (row, &class) in rows.rows().into_iter().zip(classes) {
        let mut mean = means.row_mut(class);
        mean += &row;
        sizes[class] += 1.0;
    }
    means /= &sizes.mapv(|size| size.max(1.0)).insert_axis(Axis(1));
    (means, sizes)
}

/// A covariance whose variances were drawn towards their mean.
struct Shrunk {
    /// Descending.
    variances: Array1<f64>,
    /// One direction a row.
    directions: Array2<f64>,
    shrinkage: f64,
}

/// The covariance of centred rows, shrunk as Ledoit and Wolf (2004) do: the more the products of single
/// rows scatter around it, the more.
fn shrunk_covariance(rows: &Array2<f64>) -> Result<Shrunk> {
    let (count, width) = (rows.nrows() as f64, rows.ncols() as f64);
    let covariance = linalg::product(rows.t(), rows.view()) / count;
    let mean = covariance.diag().sum() / width;
    let squares = covariance.iter().map(|x| x * x).sum::<f64>();
    let spread = squares - width * mean * mean;
    let fourth: f64 =
        rows.rows().into_iter().map(|row| sum_of_squares(contiguous(&row)).powi(2)).sum();
    let noise = (fourth / count - squares) / count;
    let shrinkage = if spread > 0.0 { (noise / spread).clamp(0.0, 1.0) } else { 1.0 };
    let eigen = linalg::symmetric_eigen(covariance.view())?;
    let drawn = Array1::from_iter(
        eigen.values.iter().map(|value| (1.0 - shrinkage) * value + shrinkage * mean),
    );
    // Where the rows of each class are all alike, there is no scale: any will do.
    let largest = if drawn[0] > 0.0 { drawn[0] } else { 1.0 };
    let variances = drawn.mapv(|value| value.max(SMALLEST_VARIANCE * largest));
    Ok(Shrunk { variances, directions: eigen.vectors, shrinkage })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::{Random, Stream};

    const WIDTH: usize = 20;

    fn classes(count: usize) -> (Coordinates<f64>, Vec<usize>) {
        let mut random = Random::new(3, Stream::Synthetic);
        let classes: Vec<usize> = (0..count).map(|row| row % 3).collect();
        let rows = Array2::from_shape_fn((count, WIDTH), |(row, column)| {
            let mean = if column == row % 3 { 6.0 } else { 0.0 };
            mean + random.normal() * (1.0 + column as f64 / 4.0)
        });
        let rest = vec![0.0; count];
        let lengths = rows.rows().into_iter().map(|row| row.dot(&row).sqrt()).collect();
        (Coordinates { rows, rest, lengths }, classes)
    }

    #[test]
    fn the_relative_term_is_a_difference_of_two_mahalanobis_distances() {
        let (rows, classes) = classes(3000);
        let space = Space::<f64>::fit(&rows, &classes, 0, 0).unwrap();
        let whitening = space.whitening.matrix().clone();
        // Inside: AᵀA is the inverse covariance. Together: add what the class means spread.
        let inside = linalg::symmetric_eigen(whitening.t().dot(&whitening).view()).unwrap();
        let values = Array1::from_vec(inside.values).insert_axis(Axis(1));
        let inverse = inside.vectors.t().dot(&(&inside.vectors / &values));
        let y = &rows.rows - &space.centre;
        let (means, sizes) = class_means(&y, &classes);
        let weighted = &means * &sizes.mapv(|size| (size / 3000.0).sqrt()).insert_axis(Axis(1));
        let total = inverse + weighted.t().dot(&weighted);
        let lower = linalg::cholesky(total.view()).unwrap();
        let whole = linalg::lower_inverse(lower.view());
        let terms = space.read(&rows);
        for row in [0, 7, 2999] {
            let x = y.row(row);
            let distance = |matrix: &Array2<f64>, gap: Array1<f64>| {
                let projected = matrix.dot(&gap);
                projected.dot(&projected)
            };
            let nearest = means
                .rows()
                .into_iter()
                .map(|mean| distance(&whitening, &x - &mean))
                .fold(f64::INFINITY, f64::min);
            let expected = distance(&whole, x.to_owned()) - nearest;
            assert!((terms[[row, 0]] - expected).abs() < 1e-8, "{} {expected}", terms[[row, 0]]);
        }
    }

    #[test]
    fn single_precision_agrees_with_double() {
        let (rows, classes) = classes(600);
        let double = Space::<f64>::fit(&rows, &classes, 0, 0).unwrap();
        let single = Space::<f32>::fit(&rows, &classes, 0, 0).unwrap();
        let rough = Coordinates {
            rows: rows.rows.mapv(|x| x as f32),
            rest: rows.rest.clone(),
            lengths: rows.lengths.clone(),
        };
        let (a, b) = (double.read(&rows), single.read(&rough));
        // A square root magnifies what rounding leaves of a distance of 0, which is some 1e-6 of the row's
        // squared length of about 200.
        for (a, b) in a.iter().zip(&b).map(|(a, b)| (a * a.abs(), b * b.abs())) {
            assert!((a - b).abs() <= 1e-3 * (1.0 + a.abs()), "{a} {b}");
        }
    }

    #[test]
    fn few_rows_are_shrunk_more_than_many() {
        let shrinkage = |count| shrunk_covariance(&classes(count).0.rows).unwrap().shrinkage;
        let (few, many) = (shrinkage(10), shrinkage(3000));
        assert!(few > 10.0 * many && (0.0..=1.0).contains(&few), "{few} {many}");
    }

    #[test]
    fn rows_that_are_all_alike_leave_numbers_finite() {
        let rows = Array2::ones((50, 4));
        let rows = Coordinates { rows, rest: vec![0.0; 50], lengths: vec![2.0; 50] };
        let space = Space::<f32>::fit(&rows, &vec![0; 50], 0, 0).unwrap();
        let rows = Coordinates {
            rows: rows.rows.mapv(|x| x as f32),
            rest: rows.rest,
            lengths: rows.lengths,
        };
        let terms = space.read(&rows);
        assert!(terms.iter().all(|term| term.is_finite()), "{space:?} {terms}");
    }
}
