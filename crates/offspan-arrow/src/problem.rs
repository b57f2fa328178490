//! What can be wrong with a table; the caller knows the file's name.

#[cfg(feature = "files")]
use arrow_schema::ArrowError;
#[cfg(feature = "files")]
use parquet::errors::ParquetError;

use crate::Element;

/// Why a table cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The system refused to read the file.
    #[error("{0}")]
    Read(std::io::Error),

    /// The numbers could not be written where they were wanted.
    #[error("{0}")]
    Write(std::io::Error),

    /// The file is not what it should be.
    #[error("not {expected}: {reason}")]
    Malformed {
        /// The format it should have.
        expected: &'static str,
        /// What is wrong with it.
        reason: String,
    },

    /// A column of another type than the one that is needed.
    #[error("column `{column}` is {got}; expected {expected}")]
    Type {
        /// The column.
        column: String,
        /// Accepted types.
        expected: &'static str,
        /// The type found.
        got: String,
    },

    /// A row that cannot be used.
    #[error("column `{column}`, row {row}: {reason}")]
    Row {
        /// The column.
        column: String,
        /// Row of the file, from 0.
        row: u64,
        /// What is wrong with it.
        reason: String,
    },

    /// The columns that were asked for are not there.
    #[error("{0}")]
    Choice(String),

    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

impl Problem {
    /// What floats may be.
    pub(crate) const FLOATS: &'static str = Element::NAMES;
}

#[cfg(feature = "files")]
impl Problem {
    pub(crate) fn malformed(expected: &'static str, reason: impl ToString) -> Self {
        Problem::Malformed { expected, reason: reason.to_string() }
    }

    pub(crate) fn parquet(error: ParquetError) -> Self {
        let expected = crate::parquet_file::WHAT;
        match error {
            ParquetError::External(error) => match error.downcast::<std::io::Error>() {
                Ok(error) => Problem::Read(*error),
                Err(other) => Problem::malformed(expected, other),
            },
            ParquetError::EOF(reason) => {
                Problem::malformed(expected, format!("it is truncated or damaged: {reason}"))
            }
            ParquetError::General(reason) | ParquetError::NYI(reason) => {
                Problem::malformed(expected, reason)
            }
            other => Problem::malformed(expected, other),
        }
    }

    pub(crate) fn arrow(expected: &'static str, error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, error) => Problem::Read(error),
            ArrowError::ExternalError(error) => match error.downcast::<ParquetError>() {
                Ok(error) => Problem::parquet(*error),
                Err(other) => Problem::malformed(expected, other),
            },
            ArrowError::ParquetError(reason) | ArrowError::IpcError(reason) => {
                Problem::malformed(expected, reason)
            }
            other => Problem::malformed(expected, other),
        }
    }
}
