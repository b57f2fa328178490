//! Tables that are wider than a line: how wide they are, and where to cut them.

use super::super::{Cell, Heading, Table};

/// The line of a document of the class `article`, in points: few lines are shorter.
pub(super) const LINE: f64 = 345.0;
/// A column of words takes this share of a line at most; longer texts are broken into lines.
pub(super) const WORDS: f64 = 0.4;

/// Letters of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Letters {
    /// What LaTeX calls their size.
    pub(super) size: &'static str,
    /// Points of two digits: small letters are wider for their height.
    em: f64,
    /// Points on either side of a column.
    pub(super) gap: f64,
}

/// Those of the text.
pub(super) const USUAL: Letters = Letters { size: "", em: 10.0, gap: 6.0 };
/// Those of tables with many columns.
pub(super) const SMALL: Letters = Letters { size: "\\small", em: 9.25, gap: 4.0 };
/// Those of tables over pages, which cannot be scaled: the first that give the fewest parts.
pub(super) const OF_LONG_TABLES: [Letters; 3] = [
    SMALL,
    Letters { size: "\\footnotesize", em: 8.5, gap: 3.0 },
    Letters { size: "\\scriptsize", em: 7.97, gap: 2.5 },
];

impl Table {
    /// How wide the table is, in points: rather too much than too little, because LaTeX knows the
    /// letters and we do not.
    pub(super) fn latex_width(&self, letters: Letters) -> f64 {
        let mut widths: Vec<f64> = (0..self.header.len()).map(|at| self.column_ems(at)).collect();
        // What is wider than the columns below it widens the last of them.
        let mut at = 0;
        for (group, count) in self.groups() {
            let below = at..at + count;
            let gaps = 2.0 * letters.gap * (count as f64 - 1.0) / letters.em;
            let sum: f64 = widths[below.clone()].iter().sum();
            if let Some(last) = widths[below].last_mut() {
                *last += (ems(group) - sum - gaps).max(0.0);
            }
            at += count;
        }
        let most = |(at, width): (usize, &f64)| {
            let width = width * letters.em;
            if self.names_things(at) { width.min(WORDS * LINE) } else { width }
        };
        let gaps = 2.0 * letters.gap * widths.len() as f64;
        widths.iter().enumerate().map(most).sum::<f64>() + gaps
    }

    /// Whether a column of words is so wide that its texts must be broken into lines.
    pub(super) fn is_broken(&self, column: usize, letters: Letters) -> bool {
        self.names_things(column) && self.column_ems(column) * letters.em > WORDS * LINE
    }

    /// Whether a column has words; the first one names the rows, whatever it begins with.
    pub(super) fn names_things(&self, column: usize) -> bool {
        column == 0 || self.has_words(column)
    }

    fn column_ems(&self, column: usize) -> f64 {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(cell_ems);
        cells.fold(self.header.get(column).map_or(0.0, heading_ems), f64::max)
    }

    /// The table as tables of at most this width, cut between groups of columns where that is possible.
    /// Each begins with the columns that name the rows; the last has the notes.
    pub(super) fn parts(&self, letters: Letters, width: f64) -> Vec<Table> {
        let names = self.names(letters, width);
        let mut parts: Vec<Vec<usize>> = vec![(0..names).collect()];
        let is_too_wide = |columns: &[usize]| self.of(columns).latex_width(letters) > width;
        let mut at = 0;
        for (_, count) in self.groups() {
            let group: Vec<usize> = (at..at + count).filter(|&column| column >= names).collect();
            at += count;
            // A group that fills more than a line is cut as well.
            let whole: Vec<usize> = (0..names).chain(group.iter().copied()).collect();
            let pieces: Vec<&[usize]> =
                if is_too_wide(&whole) { group.chunks(1).collect() } else { vec![&group] };
            for piece in pieces {
                if let Some(last) = parts.last_mut() {
                    last.extend(piece);
                    if last.len() > names + piece.len() && is_too_wide(last) {
                        last.truncate(last.len() - piece.len());
                        parts.push((0..names).chain(piece.iter().copied()).collect());
                    }
                }
            }
        }
        let count = parts.len();
        let part = |(number, columns): (usize, &Vec<usize>)| {
            let mut table = self.of(columns);
            if count > 1 && !self.caption.is_empty() {
                table.caption = format!("{} ({} of {count})", self.caption, number + 1);
            }
            if number + 1 < count {
                table.notes.clear();
            }
            table
        };
        parts.iter().enumerate().map(part).collect()
    }

    /// How many columns name the rows: not more than leave room for others.
    fn names(&self, letters: Letters, width: f64) -> usize {
        let is_name = |&at: &usize| self.header[at].group.is_empty() && self.names_things(at);
        let leaves_room = |&at: &usize| {
            let names: Vec<usize> = (0..=at).collect();
            at == 0 || self.of(&names).latex_width(letters) < width / 2.0
        };
        (0..self.header.len()).take_while(is_name).take_while(leaves_room).count()
    }

    /// The same with these columns only.
    fn of(&self, columns: &[usize]) -> Table {
        let row = |row: &Vec<Cell>| columns.iter().filter_map(|&at| row.get(at).cloned()).collect();
        Table {
            caption: self.caption.clone(),
            header: columns.iter().filter_map(|&at| self.header.get(at).cloned()).collect(),
            rows: self.rows.iter().map(row).collect(),
            notes: self.notes.clone(),
        }
    }
}

fn heading_ems(heading: &Heading) -> f64 {
    ems(&heading.name) + heading.better.map_or(0.0, |_| 0.85)
}

fn cell_ems(cell: &Cell) -> f64 {
    // Deviations and intervals are set smaller.
    let spread = cell.spread.as_ref().map_or(0.0, |spread| 0.8 * ems(spread) + 0.9);
    let interval =
        cell.interval.as_ref().map_or(0.0, |[low, high]| 0.8 * (ems(low) + ems(high)) + 1.8);
    ems(&cell.text) + spread + interval + if cell.by_chance { 0.4 } else { 0.0 }
}

/// How wide a text is in the letters of LaTeX, about; digits may be bold.
fn ems(text: &str) -> f64 {
    let width = |letter: char| match letter {
        'm' | 'w' | 'M' | 'W' | '—' | '@' | '%' => 0.95,
        'i' | 'l' | 'j' | '.' | ',' | ':' | ';' | '\'' | '!' => 0.31,
        ' ' | '-' | '(' | ')' | 't' | 'f' | 'r' | 's' => 0.4,
        'A'..='Z' | '+' | '=' | '<' | '>' => 0.76,
        letter if letter.is_ascii() => 0.575,
        // Those that are told by their numbers are wide.
        letter if letter > '\u{2fff}' => 4.0,
        _ => 0.78,
    };
    text.chars().map(width).sum()
}
