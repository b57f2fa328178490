//! Results on stdout, errors on stderr, and what the exit code says.

use std::io::Write;
use std::process::ExitCode;

use offspan_study::StudyError;
use serde::Serialize;

use crate::interrupt;

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
    /// a request to terminate. A reader that stopped
    /// listening (`| head`) is no failure.
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
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&(json_text(value)? + "\n"))
}

/// A value as indented JSON.
pub(crate) fn json_text(value: &impl Serialize) -> Result<String, Failure> {
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
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
        let widest = |column: usize| {
            self.rows.iter().map(|row| cell(row, column).chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = format!("{:<1$}", cell(row, 0), widths[0]);
            for (column, width) in widths.iter().enumerate().skip(1) {
                line += &format!("  {:>width$}", cell(row, column));
            }
            writeln!(f, "{}", line.trim_end())?;
            if index == 0 {
                let rule: usize = widths.iter().sum::<usize>() + 2 * (columns - 1);
                writeln!(f, "{}", "-".repeat(rule))?;
            }
        }
        Ok(())
    }
}

/// A fraction as percent with two digits.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{:.2}", 100.0 * fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align_and_pad_short_rows() {
        let mut table = Table::new(["method", "AUROC"]);
        table.row(["pca", "9.10"]);
        table.row(["kpca-nys"]);
        assert_eq!(
            table.to_string(),
            "method    AUROC\n---------------\npca        9.10\nkpca-nys\n"
        );
    }
}
