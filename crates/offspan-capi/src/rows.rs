//! Rows that lie in the caller's memory.

use ndarray::ArrayView2;
use offspan::io::{Dataset, FeatureSource};

use crate::failure::Failure;

/// Features and, where given, logits of the same rows, as C hands them over.
pub(crate) struct Given<T> {
    pub(crate) features: *const T,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) logits: *const T,
    pub(crate) classes: usize,
}

impl<T> Given<T> {
    /// The rows as the library takes them.
    ///
    /// # Safety
    /// Pointers that are not NULL point to as many numbers as the sizes say, which nobody changes for `'a`.
    pub(crate) unsafe fn dataset<'a>(&self) -> Result<Dataset<'a>, Failure>
    where
        ArrayView2<'a, T>: FeatureSource,
        T: 'a,
    {
        // SAFETY: the caller's promise.
        let features = unsafe { matrix("features", self.features, self.rows, self.width) }?;
        let data = Dataset::new("the rows to score", features);
        if self.logits.is_null() {
            if self.classes != 0 {
                let message =
                    format!("logits: expected a pointer beside {} classes, got NULL", self.classes);
                return Err(Failure::argument(message));
            }
            return Ok(data);
        }
        // SAFETY: the caller's promise.
        let logits = unsafe { matrix("logits", self.logits, self.rows, self.classes) }?;
        Ok(data.with_logits(logits)?)
    }
}

/// A table of numbers, row after row.
///
/// # Safety
/// `numbers` is NULL or points to `rows` × `columns` numbers, which nobody changes for `'a`.
unsafe fn matrix<'a, T>(
    what: &str,
    numbers: *const T,
    rows: usize,
    columns: usize,
) -> Result<ArrayView2<'a, T>, Failure> {
    if columns == 0 {
        return Err(Failure::argument(format!("{what}: expected at least one column, got 0")));
    }
    let count = rows
        .checked_mul(columns)
        .filter(|count| {
            count.checked_mul(size_of::<T>()).is_some_and(|size| size <= isize::MAX as usize)
        })
        .ok_or_else(|| {
            Failure::argument(format!(
                "{what}: {rows} rows of {columns} numbers are more than memory can hold"
            ))
        })?;
    let numbers = if count == 0 {
        &[]
    } else {
        check_pointer(what, numbers)?;
        // SAFETY: neither NULL nor misaligned, `count` numbers by the caller's promise, and no longer than `isize::MAX`.
        unsafe { std::slice::from_raw_parts(numbers, count) }
    };
    let view = ArrayView2::from_shape((rows, columns), numbers);
    view.map_err(|error| Failure::argument(format!("{what}: {error}")))
}

/// Fails unless a number can lie there.
pub(crate) fn check_pointer<T>(what: &str, pointer: *const T) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::argument(format!("{what}: expected a pointer, got NULL")));
    }
    if !pointer.is_aligned() {
        let message = format!(
            "{what}: expected a pointer aligned to {} bytes, got {pointer:p}",
            align_of::<T>()
        );
        return Err(Failure::argument(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small, so that Miri can follow it (`make sanitise`).
    #[test]
    fn rows_are_where_the_caller_has_them_and_wrong_sizes_are_told() {
        let numbers: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let given = |features: *const f32, rows, width| Given {
            features,
            rows,
            width,
            logits: std::ptr::null(),
            classes: 0,
        };
        // SAFETY: twelve numbers lie there, and stay as they are.
        let data = unsafe { given(numbers.as_ptr(), 3, 4).dataset() }.unwrap();
        assert_eq!((data.rows(), data.width()), (3, 4));
        let read = offspan::io::read_rows::<f64>(data.features(), 2..3).unwrap();
        assert_eq!(read, ndarray::array![[8.0, 9.0, 10.0, 11.0]]);
        let misaligned = numbers.as_ptr().wrapping_byte_add(1);
        for (pointer, rows, width) in [
            (std::ptr::null(), 3, 4),
            (misaligned, 1, 1),
            (numbers.as_ptr(), 3, 0),
            (numbers.as_ptr(), usize::MAX, 2),
            (numbers.as_ptr(), usize::MAX / 8, 4),
        ] {
            // SAFETY: no pointer is followed, which is what is tested.
            assert!(unsafe { given(pointer, rows, width).dataset() }.is_err());
        }
        // SAFETY: no numbers are asked for.
        let none = unsafe { given(std::ptr::null(), 0, 4).dataset() }.unwrap();
        assert_eq!(none.rows(), 0);
    }
}
