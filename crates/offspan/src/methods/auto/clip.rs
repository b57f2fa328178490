//! Activations far from their channel's middle, cut before they reach the last layer.

use ndarray::{Array1, Array2};

use super::scale::median;

/// Share of the distance from the middle, summed over all activations, that is cut off.
const MASS: f64 = 0.1;

/// Each channel's median, and how far from it an activation may be.
#[derive(Debug, Clone)]
pub(super) struct CentredClip {
    pub(super) centre: Array1<f64>,
    pub(super) reach: f64,
}

impl CentredClip {
    /// From a sample of rows: the reach c with Σ(|z − centre| − c)₊ = MASS · Σ|z − centre|.
    pub(super) fn of(rows: &Array2<f64>) -> Self {
        let centre: Array1<f64> =
            rows.columns().into_iter().map(|channel| median(&mut channel.to_vec())).collect();
        let mut distances: Vec<f64> = (rows - &centre).mapv_into(f64::abs).into_iter().collect();
        distances.sort_by(|a, b| b.total_cmp(a));
        let total: f64 = distances.iter().sum();
        let mut above = 0.0;
        let mut reach = 0.0;
        for (count, &distance) in distances.iter().enumerate() {
            // What a cut at this distance would take from the larger ones.
            if above - count as f64 * distance >= MASS * total {
                reach = distance;
                break;
            }
            above += distance;
        }
        CentredClip { centre, reach }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn the_cut_takes_its_share() {
        let rows = Array2::from_shape_fn((101, 2), |(i, j)| f64::from(i as u32) * (1.0 + j as f64));
        let clip = CentredClip::of(&rows);
        assert_eq!(clip.centre, array![50.0, 100.0]);
        let total: f64 = (&rows - &clip.centre).iter().map(|x| x.abs()).sum();
        let cut: f64 = (&rows - &clip.centre).iter().map(|x| (x.abs() - clip.reach).max(0.0)).sum();
        assert!((cut / total - MASS).abs() < 0.01, "{}", cut / total);
    }
}
