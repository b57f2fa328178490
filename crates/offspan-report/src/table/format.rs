//! The formats that results can be printed in.

use std::fmt;
use std::str::FromStr;

/// A format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns for people at a terminal.
    Text,
    /// A Markdown table.
    Markdown,
    /// Comma-separated values.
    Csv,
    /// A LaTeX table, by booktabs.
    Latex,
    /// The document with everything.
    Json,
    /// A page that needs nothing else.
    Html,
}

/// A name that is no [`Format`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown format: expected {}, got `{got}`", Format::ALL.map(|format| format.name()).join(", "))]
pub struct UnknownFormat {
    /// The name as given.
    pub got: String,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 6] =
        [Format::Text, Format::Markdown, Format::Csv, Format::Latex, Format::Json, Format::Html];

    /// The name in flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Markdown => "markdown",
            Format::Csv => "csv",
            Format::Latex => "latex",
            Format::Json => "json",
            Format::Html => "html",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let known = Self::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| UnknownFormat { got: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_and_a_wrong_one_lists_them() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        let error = "tex".parse::<Format>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown format: expected text, markdown, csv, latex, json, html, got `tex`"
        );
    }
}
