//! Products whose rows do not know of each other: a row of the result has the same bits alone and among
//! others, on any thread and with any instruction set.
//!
//! | layer | file | |
//! |---|---|---|
//! | 1 | `fixed_kernel` | the instructions that multiply 16-bit integers |
//! | 2 | `panels` | a matrix packed once, in the order in which an inner loop reads it |
//! | 3 | `fixed_rows` | rows and matrix as 16-bit integers with a scale each |
//! | 4 | `weights` | a matrix that rows are multiplied with again and again, in the arithmetic it asks for |
//!
//! `unpacked` multiplies two matrices once. Fits, whose sums need no such promise, use `linalg`.

pub(crate) mod fixed_kernel;
pub(crate) mod fixed_rows;
pub(crate) mod panels;
pub(crate) mod unpacked;
pub(crate) mod weights;
