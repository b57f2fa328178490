//! Count, mean and scatter of rows: a summary that can be merged, saved and resumed.

use std::ops::Range;
use std::path::Path;

use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use crate::io::{Bytes, Content, Format, TensorFile, TensorWriter, write_bytes};
use crate::numeric::rank_update::{BATCH, PackedRows, RankUpdate, tile_side};
use crate::numeric::vector::{contiguous, contiguous_mut};
use crate::{Error, Real, Result};

/// n, Σx/n and Σ(x − mean)(x − mean)ᵀ of the rows seen so far.
///
/// Merging two summaries (Chan, Golub & LeVeque) gives the summary of all their rows, up to
/// rounding, whatever the partition.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    count: u64,
    mean: Array1<f64>,
    /// Only the lower triangle is kept up to date.
    scatter: Array2<f64>,
}

impl Moments {
    /// The summary of no rows of this width.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Moments { count: 0, mean: Array1::zeros(width), scatter: Array2::zeros((width, width)) }
    }

    /// Number of rows seen.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Width of the rows.
    #[must_use]
    pub fn width(&self) -> usize {
        self.mean.len()
    }

    /// Mean of the rows.
    #[must_use]
    pub fn mean(&self) -> &Array1<f64> {
        &self.mean
    }

    /// Whether no product has left the range of its arithmetic.
    pub(crate) fn is_finite(&self) -> bool {
        self.mean.iter().chain(&self.scatter).all(|x| x.is_finite())
    }

    /// Covariance, dividing by n.
    #[must_use]
    pub fn covariance(&self) -> Array2<f64> {
        self.clone().into_covariance()
    }

    /// The same, without a second matrix in memory.
    pub(crate) fn into_covariance(self) -> Array2<f64> {
        let mut covariance = self.scatter;
        let (count, width) = (self.count.max(1) as f64, self.mean.len());
        // In small squares: a column alone would touch a page per number.
        const SIDE: usize = 32;
        for (top, left) in (0..width)
            .step_by(SIDE)
            .flat_map(|top| (0..=top).step_by(SIDE).map(move |left| (top, left)))
        {
            for i in top..(top + SIDE).min(width) {
                for j in left..(left + SIDE).min(i + 1) {
                    let value = covariance[[i, j]] / count;
                    covariance[[i, j]] = value;
                    covariance[[j, i]] = value;
                }
            }
        }
        covariance
    }

    /// Adds rows, with products in the rows' own precision and sums in `f64`.
    ///
    /// # Errors
    /// If the width differs.
    pub fn update<T: Real>(&mut self, rows: ArrayView2<'_, T>) -> Result<()> {
        self.update_in(rows, &mut PackedRows::<T>::default())
    }

    /// Adds rows, with the given way and memory to multiply.
    pub(crate) fn update_in<T: Real>(
        &mut self,
        rows: ArrayView2<'_, T>,
        packed: &mut impl RankUpdate,
    ) -> Result<()> {
        self.check_width(rows.ncols())?;
        if rows.nrows() == 0 {
            return Ok(());
        }
        let mean = packed.means(rows);
        let added = rows.nrows() as u64;
        let shift = self.shift(&mean, added);
        // Σ (x − c)(x − c)ᵀ is too much by n (mean − c)(mean − c)ᵀ.
        let centre = packed.centre(&mean);
        let off = Shift { delta: &mean - &centre, weight: -(added as f64) };
        for (number, batch) in rows.axis_chunks_iter(Axis(0), BATCH).enumerate() {
            packed.pack(batch, contiguous(&centre));
            self.for_each_tile(|tile, rows_of, columns_of| {
                if number == 0 {
                    shift.add_to(tile, rows_of.clone(), columns_of.clone());
                    if centre != mean {
                        off.add_to(tile, rows_of.clone(), columns_of.clone());
                    }
                }
                packed.add_to(tile, rows_of, columns_of);
            });
        }
        self.move_mean(&mean, added);
        Ok(())
    }

    /// Adds the rows that another summary has seen.
    ///
    /// # Errors
    /// If the width differs.
    pub fn merge(&mut self, other: &Moments) -> Result<()> {
        self.check_width(other.width())?;
        if other.count == 0 {
            return Ok(());
        }
        let shift = self.shift(&other.mean, other.count);
        self.for_each_tile(|tile, rows_of, columns_of| {
            *tile += &other.scatter.slice(s![rows_of.clone(), columns_of.clone()]);
            shift.add_to(tile, rows_of, columns_of);
        });
        self.move_mean(&other.mean, other.count);
        Ok(())
    }

    fn check_width(&self, got: usize) -> Result<()> {
        if got == self.width() {
            return Ok(());
        }
        Err(Error::shape(
            "rows for these moments",
            format!("{} columns", self.width()),
            format!("{got} columns"),
        ))
    }

    /// The rank-one term that joins two groups of rows with different means.
    fn shift(&self, mean: &Array1<f64>, count: u64) -> Shift {
        let (ours, theirs) = (self.count as f64, count as f64);
        Shift { delta: mean - &self.mean, weight: ours * theirs / (ours + theirs) }
    }

    fn move_mean(&mut self, mean: &Array1<f64>, count: u64) {
        self.count += count;
        let share = count as f64 / self.count as f64;
        self.mean.zip_mut_with(mean, |ours, theirs| *ours += share * (theirs - *ours));
    }

    /// Runs over the tiles of the lower triangle in parallel.
    fn for_each_tile(
        &mut self,
        work: impl Fn(&mut ArrayViewMut2<'_, f64>, Range<usize>, Range<usize>) + Sync,
    ) {
        let (width, side) = (self.width(), tile_side());
        let range = |tile: usize| tile * side..((tile + 1) * side).min(width);
        let tiles: Vec<_> = self
            .scatter
            .axis_chunks_iter_mut(Axis(0), side)
            .enumerate()
            .flat_map(|(i, strip)| {
                let mut strip = Some(strip);
                let mut tiles = Vec::with_capacity(i + 1);
                for j in 0..=i {
                    let Some(rest) = strip.take() else { break };
                    let (tile, rest) = rest.split_at(Axis(1), range(j).len());
                    tiles.push((tile, i, j));
                    strip = Some(rest);
                }
                tiles
            })
            .collect();
        tiles.into_par_iter().for_each(|(mut tile, i, j)| work(&mut tile, range(i), range(j)));
    }

    /// The summary as bytes (a safetensors file).
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = TensorWriter::default();
        self.write_tensors(&mut writer);
        writer.to_bytes(&FORMAT, serde_json::json!(self.header()))
    }

    /// Saves the summary.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        write_bytes(path, &self.to_bytes())
    }

    /// Loads a summary.
    ///
    /// # Errors
    /// If the file cannot be read or is no such summary.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::from_bytes_of(path, Bytes::open(path)?)
    }

    /// The summary that [`Moments::to_bytes`] wrote.
    ///
    /// # Errors
    /// If the bytes are no such summary.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::from_bytes_of(Path::new("moments"), Bytes::Memory(bytes.into()))
    }

    fn from_bytes_of(path: &Path, bytes: Bytes) -> Result<Self> {
        let file = TensorFile::from_bytes(path, bytes)?;
        let header: Header = file.document(&FORMAT)?;
        Self::read_tensors(&file, header.count)
    }

    fn header(&self) -> Header {
        Header { version: FORMAT.version, count: self.count }
    }

    pub(crate) fn write_tensors<'a>(&'a self, writer: &mut TensorWriter<'a>) {
        writer.array1("mean", &self.mean);
        writer.array2("scatter", &self.scatter);
    }

    /// Puts the summary into a file of many, the triangle without the zeros above it.
    pub(crate) fn write_packed<'a>(&'a self, name: &str, writer: &mut TensorWriter<'a>) {
        let width = self.width();
        let mut triangle = Vec::with_capacity(width * (width + 1) / 2);
        for (row, numbers) in self.scatter.rows().into_iter().enumerate() {
            triangle.extend(numbers.iter().take(row + 1));
        }
        writer.array1(format!("{name}.mean"), &self.mean);
        writer.owned(format!("{name}.triangle"), Array1::from(triangle).insert_axis(Axis(1)));
    }

    /// What [`Moments::write_packed`] wrote.
    pub(crate) fn read_packed(name: &str, file: &TensorFile, count: u64) -> Result<Self> {
        let mean = Array1::from(file.scores(&format!("{name}.mean"))?);
        let width = mean.len();
        let packed = format!("{name}.triangle");
        let triangle = file.table(&packed, (Some(width * (width + 1) / 2), 1))?;
        let mut scatter = Array2::zeros((width, width));
        let mut rest = contiguous(&triangle);
        for (row, mut numbers) in scatter.rows_mut().into_iter().enumerate() {
            let (these, others) = rest.split_at(row + 1);
            contiguous_mut(&mut numbers)[..=row].copy_from_slice(these);
            rest = others;
        }
        Ok(Moments { count, mean, scatter })
    }

    pub(crate) fn read_tensors(file: &TensorFile, count: u64) -> Result<Self> {
        let (mean, scatter) = (file.array1("mean")?, file.array2("scatter")?);
        let width = mean.len();
        if scatter.dim() != (width, width) {
            return Err(Error::shape(
                file.label("scatter"),
                format!("[{width}, {width}]"),
                format!("{:?}", scatter.shape()),
            ));
        }
        Ok(Moments { count, mean, scatter })
    }
}

/// 1 had no checksum.
const FORMAT: Format =
    Format { content: Content::Moments, version: 2, oldest: 1, if_older: "sum up the rows again" };

#[derive(serde::Serialize, serde::Deserialize)]
struct Header {
    version: u32,
    count: u64,
}

struct Shift {
    delta: Array1<f64>,
    weight: f64,
}

impl Shift {
    fn add_to(&self, tile: &mut ArrayViewMut2<'_, f64>, rows: Range<usize>, columns: Range<usize>) {
        if self.weight == 0.0 {
            return;
        }
        for (mut row, &d) in tile.rows_mut().into_iter().zip(&self.delta.slice(s![rows])) {
            row.scaled_add(self.weight * d, &self.delta.slice(s![columns.clone()]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: usize, width: usize) -> Array2<f64> {
        Array2::from_shape_fn((n, width), |(i, j)| {
            100.0 + ((i * 37 + j * 11 + i * j * 5) % 41) as f64 / 41.0
        })
    }

    fn direct(x: &Array2<f64>) -> (Array1<f64>, Array2<f64>) {
        let mean = x.mean_axis(Axis(0)).unwrap();
        let c = x - &mean;
        (mean, c.t().dot(&c) / x.nrows() as f64)
    }

    fn assert_close(moments: &Moments, x: &Array2<f64>, tolerance: f64) {
        let (mean, covariance) = direct(x);
        assert_eq!(moments.count() as usize, x.nrows());
        assert!(moments.mean().abs_diff_eq_all(&mean, 100.0 * tolerance));
        assert!(moments.covariance().abs_diff_eq_all(&covariance, tolerance));
    }

    trait AbsDiff {
        fn abs_diff_eq_all(&self, other: &Self, tolerance: f64) -> bool;
    }

    impl<D: ndarray::Dimension> AbsDiff for ndarray::Array<f64, D> {
        fn abs_diff_eq_all(&self, other: &Self, tolerance: f64) -> bool {
            self.iter().zip(other).all(|(a, b)| (a - b).abs() <= tolerance)
        }
    }

    #[test]
    fn equal_the_definition_across_tiles_and_updates() {
        let x = rows(700, tile_side() + 37);
        let mut moments = Moments::new(x.ncols());
        for block in x.axis_chunks_iter(Axis(0), 123) {
            moments.update(block).unwrap();
        }
        assert_close(&moments, &x, 1e-13);
    }

    #[test]
    fn merging_any_partition_equals_one_pass() {
        let x = rows(300, 20);
        let of = |range: Range<usize>| {
            let mut m = Moments::new(20);
            m.update(x.slice(s![range, ..])).unwrap();
            m
        };
        let mut merged = of(120..300);
        merged.merge(&of(0..1)).unwrap();
        merged.merge(&Moments::new(20)).unwrap();
        merged.merge(&of(1..120)).unwrap();
        assert_close(&merged, &x, 1e-13);
    }

    #[test]
    fn single_precision_keeps_a_large_mean_out_of_the_products() {
        let x = rows(2000, 8);
        let mut moments = Moments::new(8);
        moments.update(x.mapv(|v| v as f32).view()).unwrap();
        // f32 at 100 resolves 8e-6; products of centred values must not do worse.
        assert_close(&moments, &x, 1e-5);
    }

    #[test]
    fn do_not_depend_on_the_number_of_threads() {
        let x = rows(900, 600).mapv(|v| v as f32);
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut m = Moments::new(600);
                m.update(x.view()).unwrap();
                m.to_bytes()
            })
        };
        assert_eq!(with(1), with(2));
    }

    #[test]
    fn other_widths_are_refused() {
        let mut moments = Moments::new(3);
        assert!(moments.update(rows(2, 4).view()).is_err());
        assert!(moments.merge(&Moments::new(4)).is_err());
    }
}
