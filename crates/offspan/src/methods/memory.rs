//! How much memory a fit takes, told before it begins: the arrays that are there at once at its peak. What is small
//! beside them is left out, so it is rather too little than too much.

use crate::methods::bank::BankSize;
use crate::span::map::Draw;
use crate::training::chunk_rows;
use crate::training::statistics::Needs;
use crate::{MapParams, Precision};

use super::kpca::ValidKpca;

/// Bytes of a number.
const SINGLE: u64 = 4;
const DOUBLE: u64 = 8;

/// What a fit works on, in numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FitSize {
    pub(crate) rows: usize,
    pub(crate) width: usize,
    /// Logits of a row, or classes of the last layer; 0 where neither is known.
    pub(crate) classes: usize,
}

impl FitSize {
    /// An array of this shape.
    pub(crate) fn array(rows: usize, columns: usize, bytes: u64) -> u64 {
        (rows as u64).saturating_mul(columns as u64).saturating_mul(bytes)
    }

    /// The rows that are looked at together, with what is made of each.
    fn chunk(&self, made: usize, bytes: u64) -> u64 {
        let rows = chunk_rows(self.width.max(made)).min(self.rows);
        Self::array(rows, self.width.saturating_add(made), bytes)
    }

    /// A walk that sums up what a method needs, and what follows from a covariance.
    pub(crate) fn summed(&self, needs: &Needs) -> u64 {
        let square = Self::array(self.width, self.width, DOUBLE);
        let of_classes = Self::array(self.classes, self.width, DOUBLE);
        let sums = [needs.classes, needs.unit_classes, needs.recognised, needs.predicted];
        let moments =
            [needs.moments, needs.unit_moments].into_iter().filter(|&asked| asked).count();
        let classes = sums.into_iter().filter(|&asked| asked).count();
        // The sums, and for one of them at a time a copy and its eigenvectors.
        let squares = if moments == 0 { 0 } else { moments as u64 + 2 };
        let walk = if needs.no_walk() { 0 } else { self.chunk(0, DOUBLE) };
        walk.saturating_add(square.saturating_mul(squares))
            .saturating_add(of_classes.saturating_mul(classes as u64))
    }

    /// A bank of unit rows.
    pub(crate) fn bank(&self, size: BankSize) -> u64 {
        Self::array(size.rows(self.rows), self.width, SINGLE)
    }

    /// A bank of rows as they are, which are searched without their mean.
    pub(crate) fn raw_bank(&self, size: BankSize) -> u64 {
        self.bank(size).saturating_mul(2)
    }

    /// Counts of each column in so many bins, of all rows and of some.
    pub(crate) fn counted(&self, bins: usize) -> u64 {
        Self::array(self.width, bins, DOUBLE).saturating_mul(2)
    }

    /// So many copies of a last layer, each changed in its own way.
    pub(crate) fn changed_heads(&self, copies: usize) -> u64 {
        Self::array(copies.saturating_mul(self.classes), self.width, DOUBLE)
    }

    /// Kernel PCA: the map, the moments of its coordinates, and their eigenvectors.
    pub(crate) fn kpca(&self, params: &ValidKpca) -> u64 {
        let bytes = match params.precision {
            Precision::F32 => SINGLE,
            Precision::F64 => DOUBLE,
        };
        let (coordinates, map) = match &params.map {
            MapParams::Identity => (self.width, 0),
            MapParams::Exact { .. } => {
                // The rows, their kernel matrix, a copy of it and its eigenvectors.
                let square = Self::array(self.rows, self.rows, DOUBLE);
                let rows = Self::array(self.rows, self.width, DOUBLE);
                return rows.saturating_add(square.saturating_mul(3));
            }
            MapParams::Fourier { features, draw, .. } => {
                let drawn = match draw {
                    Draw::Structured => 0,
                    Draw::Iid | Draw::Orthogonal => Self::array(*features, self.width, bytes),
                };
                (*features, drawn)
            }
            MapParams::TensorSketch { features } => (*features, 0),
            MapParams::Nystrom { landmarks, .. } => {
                let count = (*landmarks).min(self.rows);
                let rows = Self::array(count, self.width, bytes + DOUBLE);
                (count, rows.saturating_add(Self::array(count, count, DOUBLE)))
            }
        };
        // The moments, a copy of them and their eigenvectors.
        let squares = Self::array(coordinates, coordinates, DOUBLE).saturating_mul(3);
        map.saturating_add(squares).saturating_add(self.chunk(coordinates, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KpcaParams, MethodSpec};

    fn needed(spec: &MethodSpec, rows: usize, width: usize) -> u64 {
        spec.check().unwrap().memory(&FitSize { rows, width, classes: 1000 })
    }

    #[test]
    fn the_fit_that_the_readme_tells_of_takes_what_it_says() {
        let params = KpcaParams {
            map: MapParams::Fourier { features: 4096, draw: Draw::Structured, parts: None },
            ..KpcaParams::default()
        };
        let megabytes = needed(&MethodSpec::Kpca(params), 1_281_167, 2048) / 1_000_000;
        assert!((350..500).contains(&megabytes), "{megabytes} MB; measured: 420");
    }

    #[test]
    fn a_bank_grows_with_the_rows_and_sums_do_not() {
        let of = |name: &str, rows| needed(&MethodSpec::named(name).unwrap(), rows, 512);
        assert_eq!(of("knn", 200_000) - of("knn", 100_000), 100_000 * 512 * 4);
        assert_eq!(of("mahalanobis", 200_000), of("mahalanobis", 100_000));
        let react = of("knn+react", 100_000);
        assert!(react >= of("knn", 100_000), "a step takes nothing away");
        // No arithmetic overflows, whatever a file says.
        let _ = of("kpca-exact", usize::MAX);
    }
}
