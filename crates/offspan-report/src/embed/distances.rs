//! Squared Euclidean distances of all pairs of rows.

use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;

use super::lanes::dispatch;
use super::pairs::mirror_upper;

/// Rows per block: sixteen rows of 4096 numbers fit the second cache.
const BLOCK: usize = 16;
/// Sums that run side by side.
const LANES: usize = 16;

/// The squared Euclidean distance of every pair of rows: n × n, symmetric to the bit, zero on the
/// diagonal and never negative.
///
/// They are sums of squared differences, not the faster `a² + b² − 2ab`, so that near rows far from
/// the origin keep their digits: the relative error of each is at most about `d/16 + 20` roundings
/// (6e-14 for 4096 columns), and equal rows have distance 0. Values that overflow become infinite,
/// and a NaN stays one.
pub fn squared_distances(rows: ArrayView2<'_, f64>) -> Array2<f64> {
    let (n, width) = rows.dim();
    let mut out = vec![0.0; n * n];
    if width > 0 && n > 1 {
        let rows = rows.as_standard_layout();
        let data = rows.as_slice().unwrap_or_else(|| unreachable!("it was just laid out so"));
        let row = |i: usize| &data[i * width..(i + 1) * width];
        out.par_chunks_mut(BLOCK * n).enumerate().for_each(|(block, out)| {
            let first = block * BLOCK;
            for columns in (first..n).step_by(BLOCK) {
                for (i, out) in (first..).zip(out.chunks_exact_mut(n)) {
                    let (from, to) = (columns.max(i + 1), n.min(columns + BLOCK));
                    for (j, out) in (from..to).zip(out.iter_mut().skip(from)) {
                        *out = squared_distance(row(i), row(j));
                    }
                }
            }
        });
        mirror_upper(&mut out, n);
    }
    Array2::from_shape_fn((n, n), |(i, j)| out[i * n + j])
}

fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    dispatch(
        #[inline(always)]
        || {
            let mut lanes = [0.0; LANES];
            let (a_blocks, a_rest) = a.as_chunks::<LANES>();
            let (b_blocks, b_rest) = b.as_chunks::<LANES>();
            for (a, b) in a_blocks.iter().zip(b_blocks) {
                for lane in 0..LANES {
                    lanes[lane] += (a[lane] - b[lane]) * (a[lane] - b[lane]);
                }
            }
            for (lane, (a, b)) in lanes.iter_mut().zip(a_rest.iter().zip(b_rest)) {
                *lane += (a - b) * (a - b);
            }
            lanes.iter().sum()
        },
    )
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};

    use super::*;

    fn rows(n: usize, width: usize) -> Array2<f64> {
        Array2::from_shape_fn((n, width), |(i, j)| ((i * 31 + j * 17) as f64 * 0.37).sin())
    }

    #[test]
    fn every_pair_equals_the_definition_at_odd_sizes() {
        for (n, width) in [(1, 3), (2, 1), (5, 7), (17, 33), (50, 16), (33, 100)] {
            let rows = rows(n, width);
            let got = squared_distances(rows.view());
            for i in 0..n {
                for j in 0..n {
                    let exact: f64 = (&rows.row(i) - &rows.row(j)).mapv(|x| x * x).sum();
                    assert!((got[[i, j]] - exact).abs() <= 1e-14 * exact, "{n} {width} {i} {j}");
                    assert_eq!(got[[i, j]].to_bits(), got[[j, i]].to_bits());
                }
                assert_eq!(got[[i, i]], 0.0);
            }
        }
    }

    #[test]
    fn near_rows_far_from_the_origin_keep_their_digits() {
        let mut rows = Array2::from_elem((3, 8), 1e8);
        rows[[1, 0]] += 0.125;
        let got = squared_distances(rows.view());
        assert_eq!([got[[0, 1]], got[[0, 2]]], [0.015625, 0.0]);
    }

    #[test]
    fn layout_of_the_input_does_not_matter() {
        let rows = rows(20, 12);
        let turned = rows.t().as_standard_layout().into_owned();
        assert_eq!(squared_distances(rows.view()), squared_distances(turned.t()));
        let part = rows.slice(s![..;2, ..;3]);
        assert_eq!(squared_distances(part), squared_distances(part.to_owned().view()));
    }

    #[test]
    fn no_rows_and_no_columns_are_no_trouble() {
        assert_eq!(squared_distances(Array2::zeros((0, 3)).view()).dim(), (0, 0));
        assert_eq!(squared_distances(Array2::zeros((3, 0)).view()), Array2::zeros((3, 3)));
    }
}
