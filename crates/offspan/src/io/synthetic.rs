//! Synthetic features of any size, for trying scale and for tests.

use std::io::{BufWriter, Seek, Write};

use crate::io::{ElementType, NpyWriter};
use crate::numeric::random::{Random, Stream};

/// Rows that look like a classifier's ReLU features: class centres, a low-dimensional spread
/// around them and some noise, cut at 0.
pub struct SyntheticFeatures {
    random: Random,
    centres: Vec<Vec<f32>>,
    directions: Vec<Vec<f32>>,
    width: usize,
}

impl SyntheticFeatures {
    /// Features of this width for this many classes.
    #[must_use]
    pub fn new(width: usize, classes: usize, seed: u64) -> Self {
        let mut random = Random::new(seed, Stream::Synthetic);
        let mut vectors = |count: usize, scale: f64| {
            (0..count)
                .map(|_| (0..width).map(|_| (scale * random.normal()) as f32).collect())
                .collect::<Vec<Vec<f32>>>()
        };
        let centres = vectors(classes.max(1), 1.0);
        let directions = vectors(16, 0.25);
        SyntheticFeatures { random, centres, directions, width }
    }

    /// Fills the next row.
    ///
    /// # Panics
    /// If the row does not have the declared width.
    pub fn next_row(&mut self, row: &mut [f32]) {
        assert_eq!(row.len(), self.width);
        let class = self.random.below(self.centres.len() as u64) as usize;
        row.copy_from_slice(&self.centres[class]);
        for direction in &self.directions {
            let amount = self.random.normal() as f32;
            row.iter_mut().zip(direction).for_each(|(x, d)| *x += amount * d);
        }
        for x in row.iter_mut() {
            // Cheap noise; its exact distribution does not matter here.
            *x += 0.4 * (self.random.uniform() as f32 - 0.5);
            *x = x.max(0.0);
        }
        // A ReLU row that is zero everywhere would have no direction.
        row[class % row.len()] += 1e-3;
    }

    /// Writes rows as a `.npy` file.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_npy(
        &mut self,
        out: impl Write + Seek,
        element: ElementType,
        rows: u64,
        mut after_row: impl FnMut(u64) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let mut writer =
            NpyWriter::new(BufWriter::with_capacity(1 << 20, out), element, self.width)?;
        let mut row = vec![0.0; self.width];
        for number in 0..rows {
            self.next_row(&mut row);
            writer.row(&row)?;
            after_row(number)?;
        }
        writer.finish()
    }
}
