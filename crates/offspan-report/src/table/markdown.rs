//! Tables in Markdown.

use super::{Cell, Heading, Table};

impl Table {
    /// The table in Markdown, best cells in bold, second ones underlined.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let plain = |text: &str| text.replace('|', "\\|").replace('<', "&lt;");
        let name = |heading: &Heading| match heading.better {
            Some(better) => format!("{} {}", plain(&heading.line()), better.arrow()),
            None => plain(&heading.line()),
        };
        let mut text = line(self.header.iter().map(name).collect());
        text += &line(self.header.iter().map(|_| "---".to_owned()).collect());
        for row in &self.rows {
            let cell = |cell: &Cell| {
                let text = plain(&cell.line());
                let text = match (cell.best, cell.second) {
                    (true, _) => format!("**{text}**"),
                    (false, true) => format!("<ins>{text}</ins>"),
                    (false, false) => text,
                };
                text + cell.mark()
            };
            text += &line(row.iter().map(cell).collect());
        }
        for note in &self.notes {
            text += &format!("\n{}\n", plain(note));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::example;

    #[test]
    fn markdown_marks_best_and_second() {
        assert_eq!(
            example().markdown(),
            "| method | q | far_1 FPR95 ↓ | far_1 AUROC ↑ | all FPR95 ↓ | all AUROC ↑ |\n\
             | --- | --- | --- | --- | --- | --- |\n\
             | knn \\| react | – | **4.65 (4 – 5)** | <ins>98.15</ins> | 5.00 ± 0.10 | **99.00**† |\n\
             | \"pca\", plain | 24 | 5.86 | 98.36 | 6.00 | 98.00 |\n\n† chance\n"
        );
    }
}
