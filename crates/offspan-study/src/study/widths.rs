//! Kernel widths for rows of any length.

use ndarray::Array2;
use offspan::io::Dataset;

use crate::Result;
use crate::portrait::sample;
use crate::words::three_digits;

/// Training rows whose distances are looked at.
const ROWS: usize = 500;

/// What is typical of the training rows, as they are and at unit length.
pub(super) struct Widths {
    squared: Pair,
    absolute: Pair,
    squared_norm: f64,
}

/// Of the rows as they are, and of the rows at unit length.
struct Pair {
    raw: f64,
    unit: f64,
}

impl Widths {
    pub(super) fn of(train: &Dataset<'_>, seed: u64) -> Result<Self> {
        let raw = sample(train, ROWS, seed)?;
        let mut unit = raw.clone();
        let mut squared_norm = 0.0;
        for mut row in unit.rows_mut() {
            let squared = row.dot(&row);
            squared_norm += squared / raw.nrows() as f64;
            if squared > 0.0 {
                row /= squared.sqrt();
            }
        }
        let pair = |of: fn(f64) -> f64| Pair { raw: median(&raw, of), unit: median(&unit, of) };
        Ok(Widths { squared: pair(|x| x * x), absolute: pair(f64::abs), squared_norm })
    }

    /// The γ with which a Gaussian kernel of rows as they are has, at their median distance, the
    /// value that it has with this γ at unit length.
    pub(super) fn gaussian(&self, gamma: f64) -> f64 {
        self.squared.transfer(gamma)
    }

    /// The same for the Laplacian kernel.
    pub(super) fn laplacian(&self, gamma: f64) -> f64 {
        self.absolute.transfer(gamma)
    }

    /// The constant of the polynomial kernel that weighs as much beside products of rows as they are
    /// as 1 does at unit length.
    pub(super) fn coef0(&self) -> f64 {
        three_digits(self.squared_norm)
    }
}

impl Pair {
    fn transfer(&self, gamma: f64) -> f64 {
        // Rows that are all the same leave nothing to compare.
        if self.raw > 0.0 { three_digits(gamma * self.unit / self.raw) } else { gamma }
    }
}

/// The median, over all pairs of rows, of the sum of `of` their differences.
fn median(rows: &Array2<f64>, of: fn(f64) -> f64) -> f64 {
    let mut distances = Vec::with_capacity(rows.nrows() * rows.nrows() / 2);
    for (index, a) in rows.rows().into_iter().enumerate() {
        for b in rows.rows().into_iter().skip(index + 1) {
            distances.push(a.iter().zip(b).map(|(x, y)| of(x - y)).sum::<f64>());
        }
    }
    distances.sort_by(f64::total_cmp);
    distances.get(distances.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn a_kernel_keeps_its_value_at_the_median_distance() {
        let rows = array![[3.0f64, 0.0], [0.0, 3.0], [-3.0, 0.0]];
        let data = Dataset::new("rows", rows.view());
        let widths = Widths::of(&data, 0).unwrap();
        // All rows have length 3: squared distances are 9 times those at unit length.
        assert_eq!(widths.gaussian(1.0), three_digits(1.0 / 9.0));
        assert_eq!(widths.laplacian(0.3), 0.1);
        assert_eq!(widths.coef0(), 9.0);
    }
}
