//! Where rows come from and files go to.
//!
//! A [`FeatureSource`] hands out rows in chunks, so nothing above it needs to know whether they
//! lie in memory or in a file larger than it. Readers check every size before they touch data, and
//! writers never leave a half-written file behind.

mod any_rank;
mod atomic;
mod block;
mod bytes;
mod cache;
mod checksum;
mod content;
mod convert;
mod dataset;
mod folder;
mod inputs;
mod labels;
mod lock;
mod matrix;
mod memory_limit;
mod npy;
mod npz;
pub(crate) mod observer;
mod pack;
mod pack_file;
mod placed;
mod raw;
mod reading;
mod scores;
mod spill;
mod stream;
mod synthetic;
mod table;
mod tensors;
mod thumbnails;
#[cfg(target_os = "linux")]
mod unnamed;
mod zip;

pub use any_rank::{InputRows, open_inputs};
pub use atomic::{check_writable, create_atomically, remove_if_exists, write_bytes, write_text};
pub(crate) use block::Block;
pub(crate) use bytes::Bytes;
pub use content::{Content, ONNX_METADATA, check_replaces, stored_checksum};
pub use convert::{Conversion, Converted, ConvertedSplit, convert_scores, name_of_set};
pub(crate) use dataset::Gathered;
pub use dataset::{Dataset, Extra, Head, LastBlock, open_dataset, open_head};
pub use folder::{feature_files, open_with_neighbours};
pub use inputs::{Input, Rows, TrainingData, TrainingInputs};
pub use labels::{Labels, open_labels};
pub use lock::FileLock;
pub use matrix::{ElementType, Matrix, has_header, open_matrix};
pub use memory_limit::{MemoryLimit, memory_limit};
pub use npy::{NpyWriter, read_index_list, write_npy_f64};
pub use pack::{Pack, is_pack};
pub use pack_file::SetGroup;
pub(crate) use placed::AtHand;
pub use raw::RawLayout;
pub use reading::{ColumnChoice, Reading};
pub use scores::read_scores;
pub use stream::read_dataset;
pub use synthetic::SyntheticFeatures;
pub use table::{is_parts, tables_among};
pub use tensors::read_vector;
pub(crate) use tensors::{Format, TensorFile, TensorWriter};
pub(crate) use thumbnails::Thumbnails;
pub use thumbnails::{LARGEST_THUMBNAIL, Thumbnail};

use std::ops::Range;

use half::f16;
use half::slice::HalfFloatSliceExt;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, s};

use crate::error::wording::Setting;
use crate::io::observer::{Observer, check_interrupt};
use crate::numeric::real::Typed;
use crate::numeric::vector::{self, contiguous};
use crate::{Error, Real, Result};

/// Rows of numbers that can be read in any order, from several threads at once.
///
/// Implemented for files ([`Matrix`]) and for `ndarray` views; [`OwnedRows`] takes arrays.
pub trait FeatureSource: Send + Sync {
    /// Number of rows.
    fn rows(&self) -> usize;
    /// Number of columns.
    fn width(&self) -> usize;
    /// What to call it in messages.
    fn name(&self) -> &str;
    /// Copies rows `start..start + out.nrows()` into `out`, rounding to `f32`.
    ///
    /// # Errors
    /// If the rows cannot be had, such as from a file that is gone.
    fn read_f32(&self, start: usize, out: ArrayViewMut2<'_, f32>) -> Result<()>;
    /// Copies rows `start..start + out.nrows()` into `out` as `f64`.
    ///
    /// # Errors
    /// As [`FeatureSource::read_f32`].
    fn read_f64(&self, start: usize, out: ArrayViewMut2<'_, f64>) -> Result<()>;
    /// What this is computed from, where it is: a value that is not finite is looked up there, so
    /// that the message names what the user can see.
    fn origin(&self) -> Option<&dyn FeatureSource> {
        None
    }
    /// Says that `rows` will be read next, so that they can be fetched meanwhile.
    fn prefetch(&self, rows: Range<usize>) {
        let _ = rows;
    }
}

macro_rules! delegating_source {
    ($pointer:ty) => {
        impl<S: FeatureSource + ?Sized> FeatureSource for $pointer {
            fn rows(&self) -> usize {
                (**self).rows()
            }

            fn width(&self) -> usize {
                (**self).width()
            }

            fn name(&self) -> &str {
                (**self).name()
            }

            fn read_f32(&self, start: usize, out: ArrayViewMut2<'_, f32>) -> Result<()> {
                (**self).read_f32(start, out)
            }

            fn read_f64(&self, start: usize, out: ArrayViewMut2<'_, f64>) -> Result<()> {
                (**self).read_f64(start, out)
            }

            fn origin(&self) -> Option<&dyn FeatureSource> {
                (**self).origin()
            }

            fn prefetch(&self, rows: Range<usize>) {
                (**self).prefetch(rows);
            }
        }
    };
}

delegating_source!(&S);
delegating_source!(Box<S>);

macro_rules! array_source {
    ($type:ident, $to_single:expr, $to_double:expr) => {
        impl FeatureSource for ArrayView2<'_, $type> {
            fn rows(&self) -> usize {
                self.nrows()
            }

            fn width(&self) -> usize {
                self.ncols()
            }

            fn name(&self) -> &str {
                "array"
            }

            fn read_f32(&self, start: usize, out: ArrayViewMut2<'_, f32>) -> Result<()> {
                $to_single(self.slice(s![start..start + out.nrows(), ..]), out);
                Ok(())
            }

            fn read_f64(&self, start: usize, out: ArrayViewMut2<'_, f64>) -> Result<()> {
                $to_double(self.slice(s![start..start + out.nrows(), ..]), out);
                Ok(())
            }
        }
    };
}

array_source!(f32, |rows, out| convert(rows, out, |x| x), |rows, out| convert(
    rows,
    out,
    f64::from
));
array_source!(f64, |rows, out| convert(rows, out, |x| x as f32), |rows, out| convert(
    rows,
    out,
    |x| x
));
array_source!(f16, halves, |rows, out| convert(rows, out, f64::from));

fn convert<A: Copy, B>(
    rows: ArrayView2<'_, A>,
    mut out: ArrayViewMut2<'_, B>,
    number: impl Fn(A) -> B,
) {
    out.zip_mut_with(&rows, |to, &x| *to = number(x));
}

/// Whole rows at once, for which processors have instructions.
fn halves(rows: ArrayView2<'_, f16>, mut out: ArrayViewMut2<'_, f32>) {
    for (mut to, from) in out.outer_iter_mut().zip(rows.outer_iter()) {
        match (to.as_slice_mut(), from.as_slice()) {
            (Some(to), Some(from)) => from.convert_to_f32_slice(to),
            _ => to.zip_mut_with(&from, |to, x| *to = x.to_f32()),
        }
    }
}

/// Rows that belong to the source. (An array itself cannot be one: its own `rows` means others.)
#[derive(Debug, Clone)]
pub struct OwnedRows<T>(pub Array2<T>);

impl<T: Real> FeatureSource for OwnedRows<T>
where
    for<'a> ArrayView2<'a, T>: FeatureSource,
{
    fn rows(&self) -> usize {
        self.0.nrows()
    }

    fn width(&self) -> usize {
        self.0.ncols()
    }

    fn name(&self) -> &str {
        "array"
    }

    fn read_f32(&self, start: usize, out: ArrayViewMut2<'_, f32>) -> Result<()> {
        self.0.view().read_f32(start, out)
    }

    fn read_f64(&self, start: usize, out: ArrayViewMut2<'_, f64>) -> Result<()> {
        self.0.view().read_f64(start, out)
    }
}

/// Reads rows and makes sure that every value is finite.
pub(crate) fn read_finite<T: Real>(
    source: &dyn FeatureSource,
    start: usize,
    mut out: ArrayViewMut2<'_, T>,
) -> Result<()> {
    match T::typed(out.view_mut()) {
        Typed::F32(out) => source.read_f32(start, out),
        Typed::F64(out) => source.read_f64(start, out),
    }?;
    for (i, row) in out.rows().into_iter().enumerate() {
        let finite = match row.as_slice() {
            Some(row) => vector::all_finite(row),
            None => row.iter().all(|x| x.is_finite_number()),
        };
        if finite {
            continue;
        }
        let mut column = row.iter().position(|x| !x.is_finite_number()).unwrap_or(0);
        let value_at = |source: &dyn FeatureSource| {
            let mut original = Array2::zeros((1, source.width()));
            source.read_f64(start + i, original.view_mut())?;
            Ok::<_, Error>(original)
        };
        let mut value = value_at(source)?[[0, column]];
        if let Some(origin) = source.origin() {
            let original = value_at(origin)?;
            if let Some(bad) = original.iter().position(|x| !x.is_finite()) {
                (column, value) = (bad, original[[0, bad]]);
            }
        }
        let hint = if value.is_finite() {
            format!(", and this one is too large for f32 (use {})", Setting("precision", "f64"))
        } else {
            String::new()
        };
        return Err(Error::NotFinite {
            what: source.name().to_owned(),
            row: start + i,
            column,
            value,
            hint,
        });
    }
    Ok(())
}

/// Copies some rows of a source.
///
/// # Errors
/// If a value is not finite.
pub fn read_rows<T: Real>(source: &dyn FeatureSource, rows: Range<usize>) -> Result<Array2<T>> {
    let mut copy = Array2::from_elem((rows.len(), source.width()), T::default());
    read_finite(source, rows.start, copy.view_mut())?;
    Ok(copy)
}

/// Calls `visit` with every row in order, as `f64`, after checking that it is finite.
///
/// # Errors
/// If a value is not finite, or the observer asks to stop.
pub fn for_each_row(
    data: &Dataset<'_>,
    observer: &dyn Observer,
    mut visit: impl FnMut(&[f64]),
) -> Result<()> {
    const BLOCK: usize = 256;
    let source = &*data.features;
    observer.begin(&format!("rows of {}", data.name), source.rows() as u64);
    let mut block = Array2::zeros((BLOCK, source.width()));
    for start in (0..source.rows()).step_by(BLOCK) {
        check_interrupt(observer)?;
        let count = BLOCK.min(source.rows() - start);
        let mut part = block.slice_mut(s![..count, ..]);
        read_finite(source, start, part.view_mut())?;
        part.rows().into_iter().for_each(|row| visit(contiguous(&row)));
        observer.advance(count as u64);
    }
    Ok(())
}

/// Copies rows together.
pub(crate) fn gather<T: Real>(source: &dyn FeatureSource, rows: &[usize]) -> Result<Array2<T>> {
    let mut out = Array2::from_elem((rows.len(), source.width()), T::default());
    for (i, &row) in rows.iter().enumerate() {
        read_finite(source, row, out.slice_mut(s![i..=i, ..]))?;
    }
    Ok(out)
}
