//! Products whose rows do not know of each other: a row of the result has the same bits alone and among
//! others, on any thread and with any instruction set.
//!
//! | layer | file | |
//! |---|---|---|
//! | 1 | `panels` | a matrix packed once, in the order in which an inner loop reads it |
//! | 2 | `single_kernel`, `fixed_kernel` | that loop, for `f32` and for 16-bit integers, in each set of instructions |
//! | 3 | `fixed_weights`, `fixed_rows` | rows and matrix as 16-bit integers, with a scale for all or for each |
//! | 4 | `weights` | a matrix that rows are multiplied with again and again, in the arithmetic it asks for |
//!
//! `unpacked` multiplies two matrices once. Fits, whose sums need no such promise, use `linalg`.

mod fixed_kernel;
pub(crate) mod fixed_rows;
pub(crate) mod fixed_weights;
pub(crate) mod panels;
mod single_kernel;
pub(crate) mod unpacked;
pub(crate) mod weights;

/// A matrix whose numbers differ, for tests.
#[cfg(test)]
fn wave<T: crate::Real>(rows: usize, columns: usize, salt: usize) -> ndarray::Array2<T> {
    ndarray::Array2::from_shape_fn((rows, columns), |(i, j)| {
        T::from_double(((i * 7 + j * 13 + i * j + salt) % 23) as f64 / 23.0 - 0.4)
    })
}
