//! Planes through clusters of rows: how far a row lies off the nearest of them. A cheap stand-in for the
//! tangent planes of a bank of training rows.

use ndarray::{Array1, Array2, ArrayView2, Axis, s};

use crate::graph::{Builder, Op, Value};
use crate::io::TensorWriter;
use crate::methods::model::Stored;
use crate::numeric::clusters::clusters;
use crate::numeric::linalg;
use crate::numeric::product::weights::Weights;
use crate::numeric::vector::{contiguous, dot, products, sum_of_squares};
use crate::{Real, Result};

/// Clusters at most, and the fewest rows that one should have.
const MOST_PLANES: usize = 128;
const ROWS_PER_PLANE: usize = 10;
/// Directions of a plane at most, and rows that each of them takes.
const DIRECTIONS: usize = 8;
const ROWS_PER_DIRECTION: usize = 2;
/// Variances below this share of the largest are rounding.
const ROUNDING: f64 = 1e-10;
/// Planes that are looked at, those with the nearest centres: more change nothing.
const NEAREST: usize = 4;

/// Centres of clusters, with the leading directions of each.
#[derive(Debug, Clone)]
pub(super) struct Planes<T> {
    /// One centre a row, packed for products with many rows.
    centres: Weights<T>,
    lengths: Vec<f64>,
    /// [`DIRECTIONS`] rows for each centre; rows of zeros where a plane has fewer.
    directions: Array2<T>,
    /// Each direction's product with its centre.
    offsets: Vec<f64>,
}

impl<T: Real> Planes<T> {
    pub(super) fn fit(rows: ArrayView2<'_, f64>, seed: u64) -> Result<Self> {
        let count = (rows.nrows() / ROWS_PER_PLANE).clamp(1, MOST_PLANES);
        let (centres, nearest) = clusters(rows, count, seed);
        let mut directions = Array2::zeros((centres.nrows() * DIRECTIONS, rows.ncols()));
        for (cluster, centre) in centres.rows().into_iter().enumerate() {
            let members: Vec<usize> =
                (0..rows.nrows()).filter(|&row| nearest[row] == cluster).collect();
            let members = rows.select(Axis(0), &members) - centre;
            let leading = leading_directions(&members)?;
            let first = cluster * DIRECTIONS;
            directions.slice_mut(s![first..first + leading.nrows(), ..]).assign(&leading);
        }
        Ok(Self::new(centres.mapv(T::from_double), directions.mapv(T::from_double)))
    }

    fn new(centres: Array2<T>, directions: Array2<T>) -> Self {
        let lengths =
            centres.rows().into_iter().map(|row| sum_of_squares(contiguous(&row))).collect();
        let offset = |(index, direction): (usize, ndarray::ArrayView1<'_, T>)| {
            dot(contiguous(&direction), contiguous(&centres.row(index / DIRECTIONS)))
        };
        let offsets = directions.rows().into_iter().enumerate().map(offset).collect();
        Planes { centres: Weights::new(centres), lengths, directions, offsets }
    }

    /// Squared distances of rows to the nearest plane.
    pub(super) fn squared_distances(&self, rows: ArrayView2<'_, T>, out: &mut [f64]) {
        let count = self.lengths.len();
        let mut products = Array2::from_elem((rows.nrows(), count), T::default());
        self.centres.product(rows, products.view_mut());
        for ((out, row), products) in out.iter_mut().zip(rows.rows()).zip(products.rows()) {
            let row = contiguous(&row);
            let length = sum_of_squares(row);
            let distance = |(length_of_centre, product): (&f64, &T)| {
                length_of_centre - 2.0 * product.to_double() + length
            };
            let distances = self.lengths.iter().zip(products).map(distance);
            let nearest = smallest(distances);
            let nearest = nearest.iter().filter(|(distance, _)| distance.is_finite());
            let nearest = nearest.map(|&(distance, centre)| distance - self.within(row, centre));
            *out = nearest.fold(f64::INFINITY, f64::min).max(0.0);
        }
    }

    /// The part of a row's squared distance to a centre that lies in its plane.
    fn within(&self, row: &[T], centre: usize) -> f64 {
        let first = centre * DIRECTIONS;
        let numbers = first * row.len()..(first + DIRECTIONS) * row.len();
        let mut along = [T::default(); DIRECTIONS];
        products(row, &contiguous(&self.directions)[numbers], &mut along);
        let offsets = &self.offsets[first..first + DIRECTIONS];
        along.iter().zip(offsets).map(|(along, offset)| (along.to_double() - offset).powi(2)).sum()
    }

    /// Squared distances of rows to the nearest plane within a graph, [N]; the distance to a plane is the length of
    /// what its directions leave.
    pub(super) fn graph(&self, rows: Value, builder: &mut Builder<'_>) -> Value {
        let (count, width) = self.centres.matrix().dim();
        let nearest = NEAREST.min(count);
        let centres = self.centres.matrix();
        let products = builder.linear("centres_across", rows, centres.view());
        let products = builder.times(products, -2.0);
        let lengths = builder.vector("lengths", &Array1::from(self.lengths.clone()));
        let distances = builder.add(products, lengths);
        let (_, places) = builder.top_k(distances, nearest, false);
        let centres = builder.owned("centres", centres.clone());
        let centres = builder.rows_at(centres, places);
        let rows = builder.reshape(rows, &[1, width]);
        let gaps = builder.sub(rows, centres);
        let gaps = builder.reshape(gaps, &[nearest, 1, width]);
        let directions = builder.cube("directions", self.directions.view(), DIRECTIONS);
        let directions = builder.rows_at(directions, places);
        let across = builder.node(Op::Transpose { order: vec![0, 1, 3, 2] }, &[directions]);
        let along = builder.matmul(gaps, across);
        let within = builder.matmul(along, directions);
        let left = builder.sub(gaps, within);
        let left = builder.reshape(left, &[nearest, width]);
        let squared = builder.squared_length(left);
        builder.node(Op::ReduceMin { axis: 1, keep: false }, &[squared])
    }

    pub(super) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        writer.array2(format!("{prefix}centres"), self.centres.matrix());
        writer.array2(format!("{prefix}directions"), &self.directions);
    }

    pub(super) fn read(name: &str, width: usize, stored: Stored<'_>) -> Result<Self> {
        let centres: Array2<T> = stored.matrix(&format!("{name}centres"), None, width)?;
        let rows = Some(centres.nrows() * DIRECTIONS);
        let directions = stored.matrix(&format!("{name}directions"), rows, width)?;
        Ok(Self::new(centres, directions))
    }
}

/// The [`NEAREST`] smallest numbers and their places; infinite ones where there are fewer. Of equal numbers the
/// first one counts.
fn smallest(numbers: impl Iterator<Item = f64>) -> [(f64, usize); NEAREST] {
    let mut best = [(f64::INFINITY, 0); NEAREST];
    for (place, number) in numbers.enumerate() {
        if number < best[NEAREST - 1].0 {
            let mut at = NEAREST - 1;
            while at > 0 && number < best[at - 1].0 {
                best[at] = best[at - 1];
                at -= 1;
            }
            best[at] = (number, place);
        }
    }
    best
}

/// The leading principal directions of centred rows, one a row.
fn leading_directions(rows: &Array2<f64>) -> Result<Array2<f64>> {
    let (count, width) = rows.dim();
    if count < 2 {
        return Ok(Array2::zeros((0, width)));
    }
    // With fewer rows than channels, the products of rows have the same eigenvalues.
    let products = if count >= width {
        linalg::product(rows.t(), rows.view())
    } else {
        linalg::product(rows.view(), rows.t())
    };
    let eigen = linalg::symmetric_eigen(products.view())?;
    let wanted = (count / ROWS_PER_DIRECTION).clamp(1, DIRECTIONS);
    // Rounding has no direction.
    let floor = ROUNDING * eigen.values[0];
    let kept = eigen.values.iter().take(wanted).take_while(|value| **value > floor).count();
    let vectors = eigen.vectors.slice(s![..kept, ..]);
    if count >= width {
        return Ok(vectors.to_owned());
    }
    let mut directions = linalg::product(vectors, rows.view());
    for (mut direction, value) in directions.rows_mut().into_iter().zip(&eigen.values) {
        direction /= value.sqrt();
    }
    Ok(directions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::random::{Random, Stream};

    /// Rows on two planes of two directions, far apart.
    fn on_two_planes(random: &mut Random) -> Array2<f64> {
        let mut rows = Array2::zeros((400, 7));
        for (number, mut row) in rows.rows_mut().into_iter().enumerate() {
            let (first, at) = if number % 2 == 0 { (0, 50.0) } else { (3, -50.0) };
            row[6] = at;
            row[first] = random.normal();
            row[first + 1] = random.normal();
        }
        rows
    }

    #[test]
    fn a_row_on_a_plane_has_no_distance_and_one_beside_it_has_its_own() {
        let mut random = Random::new(1, Stream::Synthetic);
        let rows = on_two_planes(&mut random);
        let planes = Planes::<f64>::fit(rows.view(), 0).unwrap();
        let mut new = rows.slice(s![..4, ..]).to_owned();
        let mut out = vec![9.0; 4];
        planes.squared_distances(new.view(), &mut out);
        assert!(out.iter().all(|distance| *distance < 1e-9), "{out:?}");
        new.column_mut(2).fill(3.0);
        planes.squared_distances(new.view(), &mut out);
        assert!(out.iter().all(|distance| (distance - 9.0).abs() < 1e-9), "{out:?}");
        let single = Planes::<f32>::fit(rows.view(), 0).unwrap();
        let mut rough = vec![0.0; 4];
        single.squared_distances(new.mapv(|x| x as f32).view(), &mut rough);
        assert!(rough.iter().all(|distance| (distance - 9.0).abs() < 1e-2), "{rough:?}");
    }

    #[test]
    fn the_smallest_are_found_and_ties_go_to_the_first() {
        let numbers = [5.0, 1.0, 7.0, 1.0, 9.0, 0.5, 1.0, 6.0];
        let found = smallest(numbers.into_iter());
        assert_eq!(found, [(0.5, 5), (1.0, 1), (1.0, 3), (1.0, 6)]);
        assert_eq!(smallest([2.0, 1.0].into_iter())[..2], [(1.0, 1), (2.0, 0)]);
        assert_eq!(smallest([2.0].into_iter())[1].0, f64::INFINITY);
    }

    #[test]
    fn fewer_rows_than_channels_have_the_same_directions() {
        let mut random = Random::new(2, Stream::Synthetic);
        let rows =
            Array2::from_shape_fn((30, 40), |(_, column)| random.normal() * (column as f64).exp2());
        let few = leading_directions(&rows).unwrap();
        let whole = linalg::symmetric_eigen(linalg::product(rows.t(), rows.view()).view()).unwrap();
        for (a, b) in few.rows().into_iter().zip(whole.vectors.rows()) {
            assert!((a.dot(&b).abs() - 1.0).abs() < 1e-9);
        }
        assert_eq!(few.nrows(), DIRECTIONS);
    }
}
