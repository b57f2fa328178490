//! Results on stdout, errors on stderr, and what the exit code says.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use offspan::io::{Content, write_text};
use offspan_report::table::aligned;
use offspan_study::StudyError;
use serde::Serialize;

use crate::interrupt;
use crate::output_guard::Guard;

/// Why a command did not finish.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library says why.
    Library(offspan::Error),
    /// The arguments do not go together.
    Usage(String),
    /// Stdout could not be written.
    Output(std::io::Error),
}

impl From<offspan::Error> for Failure {
    fn from(error: offspan::Error) -> Self {
        Failure::Library(error)
    }
}

impl From<StudyError> for Failure {
    fn from(error: StudyError) -> Self {
        match error {
            StudyError::Library(error) => Failure::Library(error),
            other => Failure::Usage(other.to_string()),
        }
    }
}

#[cfg(feature = "onnx")]
impl From<offspan_onnx::InputError> for Failure {
    fn from(error: offspan_onnx::InputError) -> Self {
        match error {
            offspan_onnx::InputError::Library(error) => Failure::Library(error),
            other => Failure::Usage(other.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Output(error)
    }
}

impl Failure {
    /// The reader stopped listening.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Failure::Output(e) if e.kind() == std::io::ErrorKind::BrokenPipe)
    }

    /// Prints the reason and gives the exit code: 2, or 130 after Ctrl-C and 143 after
    /// a request to terminate. A reader that stopped listening (`| head`) is no failure.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            _ if self.is_broken_pipe() => return ExitCode::SUCCESS,
            Failure::Output(error) => complain(&format!("cannot write to stdout: {error}")),
            Failure::Usage(text) => complain(text),
            Failure::Library(error) => complain(&error.to_string()),
        }
        match self {
            Failure::Library(offspan::Error::Interrupted { .. }) => {
                ExitCode::from(interrupt::exit_code())
            }
            _ => ExitCode::from(2),
        }
    }
}

/// Prints an error; a closed stderr leaves only the exit code to tell.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "error: {text}");
}

/// Tells something on stderr that is no error.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints text to stdout.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Prints a value as JSON to stdout.
fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&(json_text(value)? + "\n"))
}

/// Where results go as JSON, if anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Json<'a> {
    /// Words only.
    No,
    /// To stdout, instead of words.
    Stdout,
    /// To a file, beside the words.
    File(&'a Path),
}

impl<'a> Json<'a> {
    /// What the flag says; `-` is stdout.
    pub(crate) fn of(given: Option<&'a Path>) -> Self {
        match given {
            None => Json::No,
            Some(path) if path == Path::new("-") => Json::Stdout,
            Some(path) => Json::File(path),
        }
    }

    /// Fails if the file cannot or must not be written: before the work, not after it.
    pub(crate) fn check(self, guard: &Guard) -> Result<(), Failure> {
        match self {
            Json::File(path) => guard.file(path, Content::Results),
            Json::No | Json::Stdout => Ok(()),
        }
    }

    /// Whether a file will be written.
    pub(crate) fn is_file(self) -> bool {
        matches!(self, Json::File(_))
    }

    /// Whether stdout is the document's alone.
    pub(crate) fn is_stdout(self) -> bool {
        self == Json::Stdout
    }

    /// Says a line that belongs to the words, on stderr where stdout is the document's.
    pub(crate) fn mention(self, line: &str) -> Result<(), Failure> {
        match self.is_stdout() {
            true => {
                remark(line);
                Ok(())
            }
            false => print(&format!("{line}\n")),
        }
    }

    /// Writes the document where a file was asked for.
    pub(crate) fn write(self, document: &impl Serialize) -> Result<(), Failure> {
        match self {
            Json::File(path) => Ok(write_text(path, &(json_text(document)? + "\n"))?),
            Json::No | Json::Stdout => Ok(()),
        }
    }

    /// Tells a result: the document where it was asked for, words where stdout is free for them.
    pub(crate) fn tell<T: Serialize>(
        self,
        document: impl FnOnce() -> T,
        words: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        match self {
            Json::Stdout => return print_json(&document()),
            Json::File(_) => self.write(&document())?,
            Json::No => {}
        }
        print(&words())
    }
}

/// A value as indented JSON.
fn json_text(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value)
        .map_err(|error| Failure::Usage(format!("cannot write JSON: {error}")))
}

/// A table with left-aligned first column and right-aligned others.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Table { rows: vec![header.into_iter().map(Into::into).collect()] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&aligned(&self.rows))
    }
}

/// A fraction as percent with two digits.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{:.2}", 100.0 * fraction)
}

/// The size of a file.
pub(crate) fn size(bytes: u64) -> String {
    let rounded = |unit: f64| format!("{:.1}", bytes as f64 / unit);
    // 999,950 bytes would be 1000.0 kB.
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..999_950 => format!("{} kB", rounded(1e3)),
        999_950..999_950_000 => format!("{} MB", rounded(1e6)),
        _ => format!("{} GB", rounded(1e9)),
    }
}

/// Text as a cell of comma-separated values.
pub(crate) fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_unit_that_fits() {
        let sizes =
            [(12, "12 bytes"), (1_000, "1.0 kB"), (34_567, "34.6 kB"), (999_949, "999.9 kB")];
        let larger = [(999_950, "1.0 MB"), (1_420_232, "1.4 MB"), (2_500_000_000, "2.5 GB")];
        for (bytes, text) in sizes.into_iter().chain(larger) {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        let cells = ["a.npy", "a,b.npy", "say \"a\""].map(csv_cell);
        assert_eq!(cells, ["a.npy", "\"a,b.npy\"", "\"say \"\"a\"\"\""]);
    }
}
