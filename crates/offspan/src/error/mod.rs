//! What can go wrong, each as a sentence that says what was expected and what was got.

use std::path::{Path, PathBuf};

pub(crate) mod names;
pub(crate) mod wording;

use wording::{Named, Setting, as_flags};

/// Result with offspan's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong in offspan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted, as a verb: "open", "write", …
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's own reason.
        source: std::io::Error,
    },

    /// An environment variable has a value that cannot be.
    #[error("{name}: expected {expected}, got `{got}`")]
    Environment {
        /// The variable.
        name: &'static str,
        /// What it may be.
        expected: String,
        /// What it is.
        got: String,
    },

    /// A file is shorter or longer than its own header says.
    #[error("{}: {what}: expected {expected} bytes, got {got}; the file is truncated or damaged", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Which part.
        what: &'static str,
        /// Bytes needed.
        expected: u64,
        /// Bytes present.
        got: u64,
    },

    /// A file is not what its name or place says.
    #[error("{}: not {expected}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The format it should have.
        expected: &'static str,
        /// What is wrong with it.
        reason: String,
    },

    /// The file's element type is not one that can be read here.
    #[error("{}: {what} has element type {got}; expected {expected}", path.display())]
    ElementType {
        /// The file.
        path: PathBuf,
        /// Which array.
        what: String,
        /// Accepted types.
        expected: &'static str,
        /// The type found.
        got: String,
    },

    /// A named tensor is missing.
    #[error("{}: no tensor `{name}`; it has {have}", path.display())]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// What is there instead.
        have: String,
    },

    /// An array has the wrong shape.
    #[error("{what}: expected shape {expected}, got {got}")]
    Shape {
        /// Which array.
        what: String,
        /// The shape needed, in words.
        expected: String,
        /// The shape found.
        got: String,
    },

    /// A NaN or an infinity in data.
    #[error("{what}: row {row}, column {column} is {value}; every value must be finite{hint}")]
    NotFinite {
        /// Which array.
        what: String,
        /// Row, from 0.
        row: usize,
        /// Column, from 0.
        column: usize,
        /// The value.
        value: f64,
        /// More, where there is more to say.
        hint: String,
    },

    /// Finite numbers whose products leave the range of the arithmetic.
    #[error(
        "{what}: numbers too large for products in {}; scale the features down{}",
        if *single { "f32" } else { "f64" },
        if *single { format!(", or use {}", Setting("precision", "f64")) } else { String::new() }
    )]
    TooLarge {
        /// What overflowed.
        what: String,
        /// Whether products are in single precision.
        single: bool,
    },

    /// A zero row where a direction is needed.
    #[error(
        "{what}: row {row} is all zeros{after}; it has no direction for the cosine map (remove the row{hint})"
    )]
    ZeroRow {
        /// Which array.
        what: String,
        /// Row, from 0.
        row: usize,
        /// Says whether rectification made it so.
        after: &'static str,
        /// Another way out, where there is one.
        hint: String,
    },

    /// There are no rows, or too few.
    #[error("{what}: expected at least {expected} rows, got {got}")]
    TooFewRows {
        /// Which array.
        what: String,
        /// The least number that makes sense.
        expected: usize,
        /// Rows present.
        got: usize,
    },

    /// A parameter is out of its range, or does not go with another.
    #[error("{}: expected {expected}, got {got}", parameter_name(name))]
    Parameter {
        /// The parameter, in words joined by hyphens; programs see underscores.
        name: &'static str,
        /// What is accepted.
        expected: String,
        /// What was given.
        got: String,
    },

    /// There is no method of this name.
    #[error(
        "unknown method `{name}`; {}expected all, one of {}, or a score and a step joined by `+` (knn+react)",
        suggestion.map_or_else(String::new, |known| format!("did you mean {known}? ")),
        known.join(", ")
    )]
    UnknownMethod {
        /// The name.
        name: String,
        /// A method with a similar name.
        suggestion: Option<&'static str>,
        /// All names.
        known: Vec<&'static str>,
    },

    /// An option that a method does not take.
    #[error("{} has no meaning for {whom}; {hint}", Named(flag))]
    OptionWithoutMeaning {
        /// The option, in words joined by hyphens.
        flag: String,
        /// The methods.
        whom: String,
        /// What they take, or where that is told.
        hint: String,
    },

    /// An option that does not exist, does not go with another, or has a value that does not fit.
    #[error("{}: {reason}", Named(flag))]
    BadOption {
        /// The option, in words joined by hyphens; dashes in front do not matter.
        flag: String,
        /// What is wrong.
        reason: String,
    },

    /// A method needs an input that was not given.
    #[error("{who} needs {what}: {hint}")]
    MissingInput {
        /// The method or option.
        who: String,
        /// The missing input.
        what: &'static str,
        /// How to get it or do without.
        hint: String,
    },

    /// A row is asked for that is on another machine.
    #[error("{what}: row {row} is not at hand; a fit from parts sees its rows in passes only")]
    NotAtHand {
        /// Which array.
        what: String,
        /// Row, from 0.
        row: usize,
    },

    /// A fit from parts needs another pass over its rows before it can go on.
    #[error("the fit waits for a pass over its rows: {stage}")]
    Paused {
        /// What the pass finds.
        stage: String,
    },

    /// A plan was used in a way that it cannot be.
    #[error("{0}")]
    Plan(String),

    /// The requested share of variance leaves nothing to measure.
    #[error(
        "{ask} keeps all {dimensions} directions, so the plain residual of every row would be 0; ask for less, or use {}",
        Setting("residual", "complete")
    )]
    NoResidual {
        /// The request in words.
        ask: String,
        /// Directions there are.
        dimensions: usize,
    },

    /// The rows do not vary, so they span nothing.
    #[error("{what}: all rows are the same after preprocessing; a subspace needs variance")]
    NoVariance {
        /// Which array.
        what: String,
    },

    /// A matrix decomposition failed.
    #[error(transparent)]
    Decomposition(#[from] offspan_linalg::DecompositionError),

    /// A file was written by a version that this one does not know.
    #[error("{}: {what} of version {got}; this program reads version {expected}: {hint}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// What kind of file it is.
        what: &'static str,
        /// The versions that can be read.
        expected: String,
        /// The file's version.
        got: u32,
        /// What to do, or why.
        hint: &'static str,
    },

    /// The bytes of a file are not those that were written.
    #[error(
        "{}: {what} that is damaged: its bytes have the checksum {got}, and those that were written had \
         {expected}; restore it or make it again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What kind of file it is.
        what: &'static str,
        /// The checksum that it carries.
        expected: String,
        /// The checksum of its bytes.
        got: String,
    },

    /// A file is of another kind than the one that would take its place.
    #[error("{} is {found}, and {written} would take its place; choose another name", path.display())]
    OtherKind {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What would be written.
        written: String,
    },

    /// A fit whose numbers could not be read again.
    #[error(
        "{method}: the fit has left the range of numbers ({reason}); the features are too small, too large or too \
         much alike for this method"
    )]
    NotStorable {
        /// The method.
        method: String,
        /// What could not be read.
        reason: String,
    },

    /// A row whose score is no number.
    #[error(
        "{method}: the score of row {row} is not a number; the numbers of the detector leave the range that scores are \
         computed in, so it is damaged, or was made to be"
    )]
    NoScore {
        /// The method.
        method: String,
        /// Number of the row among those that were scored.
        row: usize,
    },

    /// A fit would take more memory than there is.
    #[error(
        "{method} needs about {} of memory for {rows} × {width} features, and this process may take {} more, by \
         {set_by}; give it more, or choose a smaller map, a smaller bank or another method",
        megabytes(*needed),
        megabytes(*available)
    )]
    Memory {
        /// The method.
        method: String,
        /// Rows of the training set.
        rows: usize,
        /// Width of its features.
        width: usize,
        /// Bytes at the peak of the fit.
        needed: u64,
        /// Bytes that can be had.
        available: u64,
        /// What sets the limit.
        set_by: &'static str,
    },

    /// Another process writes the same file.
    #[error(
        "{} is in use: {} is writing it; wait for it, or choose another name",
        path.display(),
        holder.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
    )]
    InUse {
        /// The file.
        path: PathBuf,
        /// The number of that process, if it is known.
        holder: Option<u32>,
    },

    /// A state that somebody else has saved since it was read.
    #[error(
        "{}: the state has changed since this monitor read or saved it: somebody else has saved rows there, which would \
         be lost; load it anew, or choose another name",
        path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
    },

    /// A checkpoint belongs to another fit.
    #[error("{}: cannot resume: {reason}; remove the file to start again", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What differs.
        reason: String,
    },

    /// The observer asked to stop.
    #[error("interrupted; no output was written{hint}")]
    Interrupted {
        /// Where progress is kept, if anywhere.
        hint: String,
    },

    /// A score that other runtimes cannot carry out.
    #[error("{method} cannot be exported: {reason}")]
    NotExportable {
        /// The method.
        method: String,
        /// Why.
        reason: String,
    },

    /// A metric could not be computed.
    #[error("{0}")]
    Metric(String),
}

/// Bytes in words.
fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}

/// What an error calls a parameter but no option sets: a whole method, a part of one, or what a file holds.
const NO_OPTIONS: [&str; 12] = [
    "calibration scores",
    "deviation",
    "false alarm",
    "low-dim",
    "map",
    "merge",
    "p-value",
    "rank",
    "rectification",
    "stored monitor",
    "supcon",
    "threshold",
];

/// A parameter's name, with dashes where a command line has asked for them.
fn parameter_name(name: &str) -> String {
    if name.starts_with("kpca") {
        // A method, which may not fit as a whole.
        return name.to_owned();
    }
    match (NO_OPTIONS.contains(&name), as_flags()) {
        (false, _) => Named(name).to_string(),
        (true, true) => name.to_owned(),
        (true, false) => name.replace('-', "_"),
    }
}

/// The results of parallel tasks in order, or the first task's error: which of several bad rows is
/// reported must not depend on which task fails first.
pub(crate) fn in_order<T>(results: Vec<Result<T>>) -> Result<Vec<T>> {
    results.into_iter().collect()
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    }

    pub(crate) fn malformed(
        path: &Path,
        expected: &'static str,
        reason: impl std::fmt::Display,
    ) -> Self {
        Error::Malformed { path: path.to_owned(), expected, reason: reason.to_string() }
    }

    pub(crate) fn parameter(
        name: &'static str,
        expected: impl Into<String>,
        got: impl std::fmt::Display,
    ) -> Self {
        Error::Parameter { name, expected: expected.into(), got: got.to_string() }
    }

    pub(crate) fn shape(
        what: impl Into<String>,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Self {
        Error::Shape { what: what.into(), expected: expected.into(), got: got.into() }
    }
}
