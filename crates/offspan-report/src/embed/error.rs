//! Why there is no picture, each as a sentence that says what was expected and what was got.

/// The fewest points that a picture can have.
pub(super) const FEWEST: usize = 4;

/// Why an embedding or its quality could not be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// Too few points to draw.
    #[error("a picture needs at least {FEWEST} points, got {got}")]
    TooFewPoints {
        /// How many there are.
        got: usize,
    },
    /// The distances are not a square matrix.
    #[error("the matrix of distances must be square, got {rows} rows and {columns} columns")]
    NotSquare {
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        columns: usize,
    },
    /// A NaN or an infinity.
    #[error("{what}: row {row}, column {column} is {value}; every value must be finite")]
    NotFinite {
        /// Which matrix.
        what: &'static str,
        /// Row, counted from 0.
        row: usize,
        /// Column, counted from 0.
        column: usize,
        /// The value found.
        value: f64,
    },
    /// A squared distance below zero by more than rounding.
    #[error(
        "the squared distance of rows {row} and {column} is {value}; \
         squared distances cannot be negative"
    )]
    Negative {
        /// Row, counted from 0.
        row: usize,
        /// Column, counted from 0.
        column: usize,
        /// The value found.
        value: f64,
    },
    /// A row that is away from itself by more than rounding.
    #[error("the squared distance of row {row} to itself is {value}; it must be 0")]
    NotZeroOnDiagonal {
        /// Row, counted from 0.
        row: usize,
        /// The value found.
        value: f64,
    },
    /// The distance depends on the direction by more than rounding.
    #[error(
        "the matrix of distances must be symmetric: rows {row} and {column} have {forth} one way \
         and {back} the other"
    )]
    NotSymmetric {
        /// Row, counted from 0.
        row: usize,
        /// Column, counted from 0.
        column: usize,
        /// The value at (row, column).
        forth: f64,
        /// The value at (column, row).
        back: f64,
    },
    /// The perplexity is no possible number of neighbours.
    #[error("the perplexity must be a finite number of at least 1 (30 is usual), got {got}")]
    Perplexity {
        /// What was asked for.
        got: f64,
    },
    /// A picture and its distances have different numbers of points.
    #[error("expected {expected} points, one for each row of the distances, got {got}")]
    PointCount {
        /// Rows of the distances.
        expected: usize,
        /// Points given.
        got: usize,
    },
    /// Trustworthiness is not defined for so many neighbours, or for none.
    #[error(
        "the number of neighbours must be at least 1 and below half of {points} points, got {got}"
    )]
    Neighbours {
        /// How many points there are.
        points: usize,
        /// What was asked for.
        got: usize,
    },
    /// The caller asked to stop.
    #[error("the picture was interrupted before it was finished")]
    Interrupted,
}
