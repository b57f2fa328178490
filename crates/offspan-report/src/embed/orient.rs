//! One orientation for all pictures that are equal up to rotation and reflection.

use ndarray::Array2;

use super::plane::{Plane, centre};
use super::small_eigen::symmetric_eigen;

/// Relative differences below this come from rounding and decide nothing.
const UNDECIDED: f64 = 1e-9;

/// Centres the points, turns their principal axes onto the coordinate axes, and points the longer
/// tail of each axis to the positive side. Where the axes are equally long, the point farthest out
/// goes onto the first one; where the tails are equally long, the first point off the axis goes to
/// the positive side.
pub(super) fn orient(mut plane: Plane, scale: f64) -> Array2<f64> {
    let points = plane.len();
    let (x, y) = plane.axes_mut();
    centre(x);
    centre(y);
    let [cosine, sine] = first_axis(x, y);
    for (x, y) in x.iter_mut().zip(y.iter_mut()) {
        (*x, *y) = (cosine * *x + sine * *y, cosine * *y - sine * *x);
    }
    for axis in [x, y] {
        if points_backwards(axis) {
            axis.iter_mut().for_each(|value| *value = -*value);
        }
    }
    Array2::from_shape_fn((points, 2), |(i, axis)| plane.coordinates[axis * points + i] * scale)
}

/// The unit vector along which the points spread most.
fn first_axis(x: &[f64], y: &[f64]) -> [f64; 2] {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mixed = dot(x, y);
    let (values, vectors) = symmetric_eigen([[dot(x, x), mixed], [mixed, dot(y, y)]]);
    if values[0] - values[1] > UNDECIDED * values[0] {
        return [vectors[0][0], vectors[1][0]];
    }
    let far = x.iter().zip(y).map(|(x, y)| (x.hypot(*y), x, y));
    let far =
        far.reduce(|far, point| if point.0 > far.0 * (1.0 + UNDECIDED) { point } else { far });
    match far {
        Some((radius, x, y)) if radius > 0.0 => [x / radius, y / radius],
        _ => [1.0, 0.0],
    }
}

fn points_backwards(axis: &[f64]) -> bool {
    let skew: f64 = axis.iter().map(|value| value.powi(3)).sum();
    let size: f64 = axis.iter().map(|value| value.abs().powi(3)).sum();
    if skew.abs() > UNDECIDED * size {
        return skew < 0.0;
    }
    let largest = axis.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    axis.iter().find(|value| value.abs() > UNDECIDED * largest).is_some_and(|value| *value < 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plane(points: &[[f64; 2]]) -> Plane {
        let axis = |k: usize| points.iter().map(move |point| point[k]);
        Plane { coordinates: axis(0).chain(axis(1)).collect() }
    }

    fn turned(points: &[[f64; 2]], angle: f64, flip: f64) -> Plane {
        let (sine, cosine) = angle.sin_cos();
        let turn =
            |[x, y]: &[f64; 2]| [cosine * x - sine * y + 3.0, flip * (sine * x + cosine * y) - 7.0];
        plane(&points.iter().map(turn).collect::<Vec<_>>())
    }

    #[test]
    fn turned_moved_and_mirrored_pictures_become_one() {
        let uneven = [[0.0, 0.0], [5.0, 1.0], [2.0, -1.0], [9.0, 0.5], [1.0, 3.0]];
        let square = [[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]];
        let line = [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [7.0, 0.0]];
        for points in [&uneven[..], &square, &line] {
            let expected = orient(plane(points), 1.0);
            for step in 0..12 {
                for flip in [1.0, -1.0] {
                    let got = orient(turned(points, f64::from(step) * 0.7, flip), 1.0);
                    let error = (&got - &expected).mapv(f64::abs).into_iter().fold(0.0, f64::max);
                    assert!(error < 1e-12, "{step} {flip} {error}");
                }
            }
        }
    }

    #[test]
    fn the_first_axis_is_the_longer_one_and_its_long_tail_is_positive() {
        let got = orient(plane(&[[0.0, 0.0], [0.1, 1.0], [0.0, 2.0], [0.1, -9.0]]), 2.0);
        assert!(got.column(0).dot(&got.column(0)) > got.column(1).dot(&got.column(1)));
        assert!((got[[3, 0]] - 15.0).abs() < 0.1, "{got}");
        assert!(got.column(0).sum().abs() < 1e-12 && got.column(1).sum().abs() < 1e-12);
    }

    #[test]
    fn one_place_stays_one_place() {
        assert_eq!(orient(plane(&[[4.0, 4.0]; 5]), 1.0), Array2::<f64>::zeros((5, 2)));
    }
}
