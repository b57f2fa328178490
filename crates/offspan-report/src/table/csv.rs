//! Tables as comma-separated values, for programs: numbers only, no marks.

use super::{Cell, Table};

impl Table {
    /// The table as comma-separated values.
    ///
    /// A number, its standard deviation and the ends of its interval are cells of their own, or no reader
    /// would take them for numbers.
    #[must_use]
    pub fn csv(&self) -> String {
        let has = |column: usize, part: fn(&Cell) -> bool| {
            self.rows.iter().any(|row| row.get(column).is_some_and(part))
        };
        let parts: Vec<(bool, bool)> = (0..self.header.len())
            .map(|at| {
                (has(at, |cell| cell.spread.is_some()), has(at, |cell| cell.interval.is_some()))
            })
            .collect();
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let mut header = Vec::new();
        for (heading, (spread, interval)) in self.header.iter().zip(&parts) {
            let name = heading.line();
            header.push(quoted(&name));
            header.extend(spread.then(|| quoted(&format!("{name} sd"))));
            if *interval {
                header.extend(["low", "high"].map(|end| quoted(&format!("{name} {end}"))));
            }
        }
        let mut text = line(header);
        for row in &self.rows {
            let mut cells = Vec::new();
            for (cell, (spread, interval)) in row.iter().zip(&parts) {
                cells.push(quoted(&cell.text));
                cells.extend(spread.then(|| quoted(cell.spread.as_deref().unwrap_or_default())));
                if *interval {
                    let ends = cell.interval.clone().unwrap_or_default();
                    cells.extend(ends.map(|end| quoted(&end)));
                }
            }
            text += &line(cells);
        }
        text
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::example;

    #[test]
    fn numbers_spreads_and_ends_have_cells_of_their_own() {
        assert_eq!(
            example().csv(),
            "method,q,far_1 FPR95,far_1 FPR95 low,far_1 FPR95 high,far_1 AUROC,all FPR95,all FPR95 sd,all AUROC\n\
             knn | react,–,4.65,4,5,98.15,5.00,0.10,99.00\n\
             \"\"\"pca\"\", plain\",24,5.86,,,98.36,6.00,,98.00\n"
        );
    }
}
