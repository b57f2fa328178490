//! Tables in plain text, for terminals.

use super::{Cell, Table};

impl Table {
    /// The table in aligned columns. Columns with a common heading become one, with strokes between their
    /// numbers.
    #[must_use]
    pub fn text(&self) -> String {
        let groups = self.groups();
        let mut lines = Vec::new();
        let mut at = 0;
        let mut header = Vec::new();
        for &(group, count) in &groups {
            header.push(if group.is_empty() {
                self.header[at].name.clone()
            } else {
                group.to_owned()
            });
            at += count;
        }
        lines.push(header);
        for row in &self.rows {
            let mut cells = row.iter();
            let joined = |count: usize, cells: &mut std::slice::Iter<'_, Cell>| {
                let words: Vec<String> = cells.by_ref().take(count).map(shown).collect();
                words.join(" / ")
            };
            lines.push(groups.iter().map(|&(_, count)| joined(count, &mut cells)).collect());
        }
        aligned(&lines)
    }
}

/// Intervals are left out, or lines would be too long.
fn shown(cell: &Cell) -> String {
    let mark = cell.mark();
    match &cell.spread {
        Some(spread) => format!("{}{mark} ± {spread}", cell.text),
        None => format!("{}{mark}", cell.text),
    }
}

/// Lines of cells in columns, the first of them at its left and the others at their right; a rule under the
/// first line.
#[must_use]
pub fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |line: &[String], column: usize| line.get(column).cloned().unwrap_or_default();
    let widest = |column: usize| {
        lines.iter().map(|line| cell(line, column).chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let mut words = format!("{:<1$}", cell(line, 0), widths.first().copied().unwrap_or(0));
        for (column, width) in widths.iter().enumerate().skip(1) {
            words += &format!("  {:>width$}", cell(line, column));
        }
        text += words.trim_end();
        text.push('\n');
        if index == 0 {
            let rule: usize = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1);
            text += &"-".repeat(rule);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn columns_of_one_group_are_one() {
        assert_eq!(
            example().text(),
            "method         q         far_1                   all\n\
             ----------------------------------------------------\n\
             knn | react    –  4.65 / 98.15  5.00 ± 0.10 / 99.00†\n\
             \"pca\", plain  24  5.86 / 98.36          6.00 / 98.00\n"
        );
    }

    #[test]
    fn short_lines_are_padded() {
        let lines = [vec!["method", "AUROC"], vec!["pca", "9.10"], vec!["kpca-nys"]];
        let lines = lines.map(|line| line.into_iter().map(str::to_owned).collect());
        assert_eq!(
            aligned(&lines),
            "method    AUROC\n---------------\npca        9.10\nkpca-nys\n"
        );
        assert_eq!(aligned(&[]), "");
    }
}
