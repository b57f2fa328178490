//! A table once, and as Markdown, CSV, LaTeX, HTML and plain text.
//!
//! Numbers are text by now: who makes the table knows their digits. What a cell is (best of its column,
//! second, within chance) is kept apart from its text, so that each format shows it in its own way.
//!
//! ```
//! use offspan_report::table::{Better, Cell, Heading, Table};
//!
//! let table = Table {
//!     header: vec!["method".into(), Heading::new("AUROC").of("svhn").better(Better::Higher)],
//!     rows: vec![
//!         vec!["pca".into(), Cell { best: true, ..Cell::from("98.36") }],
//!         vec!["knn".into(), Cell { second: true, ..Cell::from("98.15") }],
//!     ],
//!     ..Table::default()
//! };
//! assert!(table.latex().contains("\\textbf{98.36}"));
//! assert!(table.markdown().starts_with("| method | svhn AUROC ↑ |"));
//! ```

mod csv;
mod format;
mod html;
mod latex;
mod markdown;
mod text;

pub use format::{Format, UnknownFormat};
pub use text::aligned;

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Names of the columns.
    pub header: Vec<Heading>,
    /// Cells, row by row.
    pub rows: Vec<Vec<Cell>>,
    /// What is to be said below it, such as what its marks mean.
    pub notes: Vec<String>,
}

/// The name of a column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heading {
    /// What neighbouring columns have in common, such as the set that their numbers are of; empty if
    /// nothing.
    pub group: String,
    /// The column's own name.
    pub name: String,
    /// Which numbers are better.
    pub better: Option<Better>,
}

/// Which numbers of a column are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Lower ones.
    Lower,
    /// Higher ones.
    Higher,
}

/// A cell of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// The standard deviation, behind ±.
    pub spread: Option<String>,
    /// The ends of the interval around it.
    pub interval: Option<[String; 2]>,
    /// Whether it is the best of its column.
    pub best: bool,
    /// Whether it is the second best of its column.
    pub second: bool,
    /// Whether chance alone explains its lead over the second: marked with †.
    pub by_chance: bool,
}

impl Heading {
    /// A column that stands alone.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Heading { name: name.into(), ..Heading::default() }
    }

    /// The same as one of several columns under a common heading.
    #[must_use]
    pub fn of(self, group: impl Into<String>) -> Self {
        Heading { group: group.into(), ..self }
    }

    /// The same with a direction.
    #[must_use]
    pub fn better(self, better: Better) -> Self {
        Heading { better: Some(better), ..self }
    }

    /// Group and name in one line.
    #[must_use]
    pub fn line(&self) -> String {
        if self.group.is_empty() {
            self.name.clone()
        } else {
            format!("{} {}", self.group, self.name)
        }
    }
}

impl<T: Into<String>> From<T> for Heading {
    fn from(name: T) -> Self {
        Heading::new(name)
    }
}

impl Better {
    /// An arrow that points to what is better.
    #[must_use]
    pub fn arrow(self) -> &'static str {
        match self {
            Better::Lower => "↓",
            Better::Higher => "↑",
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell { text: text.into(), ..Cell::default() }
    }
}

impl Cell {
    /// The interval as people write it.
    fn range(&self) -> Option<String> {
        self.interval.as_ref().map(|[low, high]| format!("({low} – {high})"))
    }

    /// Everything in one line, without the mark.
    fn line(&self) -> String {
        let mut line = self.text.clone();
        if let Some(spread) = &self.spread {
            line += &format!(" ± {spread}");
        }
        if let Some(range) = self.range() {
            line += &format!(" {range}");
        }
        line
    }

    /// The mark behind the number.
    fn mark(&self) -> &'static str {
        if self.by_chance { "†" } else { "" }
    }
}

impl Table {
    /// Whether a column has words, which begin at its left, and not numbers, which end at its right.
    fn has_words(&self, column: usize) -> bool {
        let is_word = |cell: &Cell| cell.text.starts_with(|c: char| c.is_alphabetic());
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.clone().any(is_word) && cells.all(|cell| is_word(cell) || cell.text == "–")
    }

    /// Runs of columns with the same group: its name, and how many there are.
    fn groups(&self) -> Vec<(&str, usize)> {
        let mut groups: Vec<(&str, usize)> = Vec::new();
        for heading in &self.header {
            match groups.last_mut() {
                Some((group, count)) if !group.is_empty() && *group == heading.group => *count += 1,
                _ => groups.push((&heading.group, 1)),
            }
        }
        groups
    }

    /// Whether any columns have a common heading.
    fn has_groups(&self) -> bool {
        self.header.iter().any(|heading| !heading.group.is_empty())
    }
}

/// A table with everything that a format may show.
#[cfg(test)]
fn example() -> Table {
    let rate = |group: &str| Heading::new("FPR95").of(group).better(Better::Lower);
    let area = |group: &str| Heading::new("AUROC").of(group).better(Better::Higher);
    Table {
        caption: "a < b & 5 %".to_owned(),
        header: vec![
            "method".into(),
            "q".into(),
            rate("far_1"),
            area("far_1"),
            rate("all"),
            area("all"),
        ],
        rows: vec![
            vec![
                "knn | react".into(),
                "–".into(),
                Cell {
                    best: true,
                    interval: Some(["4".to_owned(), "5".to_owned()]),
                    ..Cell::from("4.65")
                },
                Cell { second: true, ..Cell::from("98.15") },
                Cell { spread: Some("0.10".to_owned()), ..Cell::from("5.00") },
                Cell { best: true, by_chance: true, ..Cell::from("99.00") },
            ],
            vec![
                "\"pca\", plain".into(),
                "24".into(),
                "5.86".into(),
                "98.36".into(),
                "6.00".into(),
                "98.00".into(),
            ],
        ],
        notes: vec!["† chance".to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_group_share_a_heading() {
        assert_eq!(example().groups(), [("", 1), ("", 1), ("far_1", 2), ("all", 2)]);
    }

    #[test]
    fn columns_of_words_are_told_from_columns_of_numbers() {
        let rows = vec![vec!["knn".into(), "24".into()], vec!["–".into(), "–".into()]];
        let table = Table { rows, ..Table::default() };
        assert!(table.has_words(0) && !table.has_words(1));
    }
}
