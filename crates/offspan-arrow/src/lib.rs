//! Tables of numbers from Parquet and Arrow files, batch after batch.
//!
//! [`choice`] says which columns hold features, logits and labels; that is all without the feature `files`, which
//! Python's package uses for tables that other libraries read. With it, `TableFile` opens a file, known by its first
//! bytes, tells its columns as [`Field`]s, and hands the numbers of the chosen ones to writers, row by row and
//! little-endian. That is how the library keeps them in a temporary file: rows are then to be had in any order, as
//! fits need them.
//!
//! What a file declares is checked against its size before memory is asked for.

pub mod choice;
mod field;
#[cfg(feature = "files")]
mod ipc;
#[cfg(feature = "files")]
mod numbers;
#[cfg(feature = "files")]
mod parquet_file;
mod problem;
#[cfg(feature = "files")]
mod table;

pub use field::{Element, Field, Kind};
#[cfg(feature = "files")]
pub use numbers::{Target, Wanted};
pub use problem::Problem;
#[cfg(feature = "files")]
pub use table::TableFile;

// Numbers are written as they lie in memory, and readers take them for little-endian.
#[cfg(all(feature = "files", not(target_endian = "little")))]
compile_error!(
    "tables are read on little-endian machines only; build without the feature `parquet`"
);
