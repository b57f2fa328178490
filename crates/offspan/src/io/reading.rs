//! How files are to be read, where they do not tell it themselves.

use std::path::Path;
use std::sync::Arc;

use super::observer::{Observer, Silent};
use super::{RawLayout, has_header, table};
use crate::{Error, Result};

/// What a reader is told beside a path.
///
/// ```
/// use offspan::io::{ColumnChoice, Reading};
///
/// let columns = ColumnChoice::parse(["embedding", "logits=out"])?;
/// let reading = Reading::default().columns(columns);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Default)]
pub struct Reading {
    pub(super) raw: Option<RawLayout>,
    pub(super) columns: ColumnChoice,
    observer: Option<Arc<dyn Observer + Send>>,
}

impl From<Option<RawLayout>> for Reading {
    fn from(raw: Option<RawLayout>) -> Self {
        Reading { raw, ..Reading::default() }
    }
}

impl Reading {
    /// Type and width of files without header.
    #[must_use]
    pub fn raw(self, raw: Option<RawLayout>) -> Self {
        Reading { raw, ..self }
    }

    /// Which columns of Parquet and Arrow files to read.
    #[must_use]
    pub fn columns(self, columns: ColumnChoice) -> Self {
        Reading { columns, ..self }
    }

    /// Who watches while tables are decoded, which happens when they are opened.
    #[must_use]
    pub fn observer(self, observer: Arc<dyn Observer + Send>) -> Self {
        Reading { observer: Some(observer), ..self }
    }

    /// The same without what a file has no use for: it is one of several that are read alike.
    #[must_use]
    pub fn suited_to(&self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let mut suited = self.clone();
        suited.raw = suited.raw.filter(|_| !has_header(path));
        if !table::is_table(path) {
            suited.columns = ColumnChoice::default();
        }
        suited
    }

    pub(super) fn watcher(&self) -> &dyn Observer {
        self.observer.as_deref().map_or(&Silent, |observer| observer)
    }

    /// Fails if columns were chosen of a file that has none.
    pub(super) fn check_no_columns(&self, got: impl std::fmt::Display) -> Result<()> {
        if self.columns == ColumnChoice::default() {
            return Ok(());
        }
        Err(Error::parameter("columns", "a Parquet or Arrow file to choose from", got))
    }
}

/// Which columns of a table hold what; where nothing is said, columns are found by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnChoice {
    /// Features: a column of lists, a prefix of numbered columns, a range of them (`f0..f511`), or names and ranges
    /// separated by commas.
    pub features: Option<String>,
    /// Logits, in the same way.
    pub logits: Option<String>,
    /// A column of class labels.
    pub labels: Option<String>,
}

impl ColumnChoice {
    /// Reads `COLUMNS` or `features=COLUMNS`, `logits=COLUMNS`, `labels=COLUMN`.
    ///
    /// # Errors
    /// If one of the three is given twice, or nothing is said of it.
    pub fn parse(words: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, String> {
        let mut choice = ColumnChoice::default();
        for word in words {
            let word = word.as_ref();
            let (role, columns) = match word.split_once('=') {
                Some((role @ ("features" | "logits" | "labels"), columns)) => (role, columns),
                _ => ("features", word),
            };
            let place = match role {
                "features" => &mut choice.features,
                "logits" => &mut choice.logits,
                _ => &mut choice.labels,
            };
            if columns.trim().is_empty() {
                return Err(format!("expected columns for {role}, got none"));
            }
            if let Some(first) = place.replace(columns.to_owned()) {
                return Err(format!(
                    "expected one choice for {role}, got `{first}` and `{columns}`"
                ));
            }
        }
        Ok(choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_names_its_part_or_means_features() {
        let choice = ColumnChoice::parse(["f0..f9", "labels=y", "logits=a=b"]).unwrap();
        assert_eq!(choice.features.as_deref(), Some("f0..f9"));
        assert_eq!(choice.logits.as_deref(), Some("a=b"));
        assert_eq!(choice.labels.as_deref(), Some("y"));
        assert_eq!(ColumnChoice::parse(["a=b"]).unwrap().features.as_deref(), Some("a=b"));
        let told = |words: &[&str]| ColumnChoice::parse(words).unwrap_err();
        assert_eq!(told(&["a", "features=b"]), "expected one choice for features, got `a` and `b`");
        assert_eq!(told(&["logits="]), "expected columns for logits, got none");
    }
}
