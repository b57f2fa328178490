//! Are neighbours in the picture neighbours in truth?

use ndarray::ArrayView2;
use rayon::prelude::*;

use super::pairs::{Pairs, check_finite};
use super::{EmbedError, squared_distances};

/// Trustworthiness of a picture (Venna and Kaski, 2001): 1 if the k nearest points of every point in
/// the picture are among its k nearest by the given distances, and less the farther off they are.
///
/// T = 1 − 2/(n·k·(2n − 3k − 1)) · Σᵢ Σⱼ max(0, r(i, j) − k), over the k nearest points j of i in the
/// picture, with r(i, j) the rank of j by the given distances. Rows at equal distances share the
/// better rank; points at equal distances in the picture are taken in the order of the rows. A
/// random picture has about one half.
///
/// # Errors
/// The matrix is not one of squared distances of at least four points, the points are not as many
/// or not finite, or k is 0 or not below half their number.
pub fn trustworthiness(
    squared_distances_of_rows: ArrayView2<'_, f64>,
    points: ArrayView2<'_, f64>,
    k: usize,
) -> Result<f64, EmbedError> {
    let pairs = Pairs::check(squared_distances_of_rows)?;
    let n = pairs.points;
    if points.nrows() != n {
        return Err(EmbedError::PointCount { expected: n, got: points.nrows() });
    }
    check_finite("points", points)?;
    if k == 0 || 2 * k >= n {
        return Err(EmbedError::Neighbours { points: n, got: k });
    }
    let picture = squared_distances(points);
    let intrusion = |i: usize| -> usize {
        let (shown, truth) = (picture.row(i), pairs.row(i));
        let mut others: Vec<usize> = (0..n).filter(|&j| j != i).collect();
        let nearer = |&a: &usize, &b: &usize| shown[a].total_cmp(&shown[b]).then(a.cmp(&b));
        others.select_nth_unstable_by(k - 1, nearer);
        let rank = |j: usize| {
            let closer = truth.iter().filter(|&&distance| distance < truth[j]).count();
            // The point itself is closer than anything that is not at the same place.
            closer + usize::from(truth[j] == 0.0)
        };
        others[..k].iter().map(|&j| rank(j).saturating_sub(k)).sum()
    };
    // Whole numbers: their sum does not depend on the order.
    let intrusions: usize = (0..n).into_par_iter().map(intrusion).sum();
    Ok(1.0 - 2.0 * intrusions as f64 / (n as f64 * k as f64 * (2 * n - 3 * k - 1) as f64))
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, array};

    use super::*;

    #[test]
    fn hand_case() {
        // On the line 0, 1, 3, 7 the nearest are 1, 0, 1, 2. In the picture 0, 3, 1, 7 they are
        // 2, 2, 0, 1, with ranks 2, 2, 2, 2: one too many four times. T = 1 − 2/(4·1·4)·4.
        let line = array![[0.0], [1.0], [3.0], [7.0]];
        let picture = array![[0.0, 0.0], [3.0, 0.0], [1.0, 0.0], [7.0, 0.0]];
        let squared = squared_distances(line.view());
        assert_eq!(trustworthiness(squared.view(), picture.view(), 1), Ok(0.5));
    }

    #[test]
    fn equal_rows_share_the_better_rank() {
        let squared = Array2::zeros((6, 6));
        let picture = Array2::from_shape_fn((6, 2), |(i, j)| (i * i + j) as f64);
        assert_eq!(trustworthiness(squared.view(), picture.view(), 2), Ok(1.0));
    }

    #[test]
    fn faults_are_named() {
        let picture = Array2::from_shape_fn((6, 2), |(i, j)| (i * i + j) as f64);
        let squared = squared_distances(picture.view());
        let message = |points: &Array2<f64>, k| {
            trustworthiness(squared.view(), points.view(), k).unwrap_err().to_string()
        };
        let range = "the number of neighbours must be at least 1 and below half of 6 points, got";
        assert_eq!(message(&picture, 0), format!("{range} 0"));
        assert_eq!(message(&picture, 3), format!("{range} 3"));
        assert_eq!(
            message(&Array2::zeros((5, 2)), 1),
            "expected 6 points, one for each row of the distances, got 5"
        );
        let mut broken = picture.clone();
        broken[[1, 1]] = f64::NAN;
        assert_eq!(
            message(&broken, 1),
            "points: row 1, column 1 is NaN; every value must be finite"
        );
    }
}
