//! Tables in LaTeX, by booktabs, ready to paste.

mod letters;
mod parts;

use std::fmt::Write;

use super::{Better, Cell, Heading, Table};
use letters::escaped;
use parts::{LINE, Letters, OF_LONG_TABLES, SMALL, USUAL, WORDS};

/// More rows than this do not fit on a page: the table may then break over pages.
const ROWS_OF_A_PAGE: usize = 45;
/// More columns than this do not fit into a line in letters of the usual size.
const COLUMNS_OF_A_LINE: usize = 7;
/// A table that is scaled to the line may be so many lines wide; else its letters would be too small to
/// read.
const MOST_SCALED: f64 = 1.7;

impl Table {
    /// The table in LaTeX: `booktabs`, best in bold, second underlined. The first line tells which
    /// packages the document must load.
    ///
    /// What is wider than a line is scaled to it, or cut between columns into several tables; what has
    /// more rows than a page breaks over pages.
    #[must_use]
    pub fn latex(&self) -> String {
        let is_long = self.rows.len() > ROWS_OF_A_PAGE;
        let of_float = if self.header.len() > COLUMNS_OF_A_LINE { SMALL } else { USUAL };
        let (letters, parts) = if is_long {
            // A table over several pages cannot be scaled.
            let parts = OF_LONG_TABLES.map(|letters| (letters, self.parts(letters, LINE)));
            let first_fewest = parts.into_iter().min_by_key(|(_, parts)| parts.len());
            first_fewest.unwrap_or_else(|| (SMALL, vec![self.clone()]))
        } else {
            (of_float, self.parts(of_float, MOST_SCALED * LINE))
        };
        let (mut text, mut packages) = (String::new(), vec!["booktabs"]);
        let mut load = |package: &'static str, is_needed: bool| {
            if is_needed && !packages.contains(&package) {
                packages.push(package);
            }
        };
        load("longtable", is_long);
        for part in &parts {
            let is_scaled = !is_long && part.latex_width(letters) > LINE;
            let alignment = part.alignment(letters);
            load("graphicx", is_scaled);
            load("array", alignment.contains('>'));
            // Writing to a String cannot fail.
            let _ = match is_long {
                true => part.write_long(&mut text, &alignment, letters),
                false => part.write_float(&mut text, &alignment, letters, is_scaled),
            };
        }
        let uses: String = packages.iter().map(|name| format!(" \\usepackage{{{name}}}")).collect();
        format!("%{uses}\n{text}")
    }

    fn alignment(&self, letters: Letters) -> String {
        let of = |at: usize| match self.names_things(at) {
            true if self.is_broken(at, letters) => {
                format!(">{{\\raggedright\\arraybackslash}}p{{{:.0}pt}}", WORDS * LINE)
            }
            true => "l".to_owned(),
            false => "r".to_owned(),
        };
        (0..self.header.len()).map(of).collect()
    }

    fn latex_caption(&self) -> Option<String> {
        (!self.caption.is_empty()).then(|| format!("\\caption{{{}}}", escaped(&self.caption)))
    }

    fn write_float(
        &self,
        text: &mut String,
        alignment: &str,
        letters: Letters,
        is_scaled: bool,
    ) -> std::fmt::Result {
        writeln!(text, "\\begin{{table}}\n\\centering")?;
        if let Some(caption) = self.latex_caption() {
            writeln!(text, "{caption}")?;
        }
        if letters != USUAL {
            writeln!(text, "{}\n\\setlength{{\\tabcolsep}}{{{}pt}}", letters.size, letters.gap)?;
        }
        if is_scaled {
            // Only if it needs to be: the width is known to LaTeX alone.
            writeln!(
                text,
                "\\resizebox{{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}}{{!}}{{%"
            )?;
        }
        writeln!(text, "\\begin{{tabular}}{{{alignment}}}\n\\toprule")?;
        self.write_head(text)?;
        writeln!(text, "\\midrule")?;
        self.write_rows(text, letters)?;
        writeln!(text, "\\bottomrule\n\\end{{tabular}}{}", if is_scaled { "}" } else { "" })?;
        for note in &self.notes {
            writeln!(text, "\\par\\smallskip{{\\footnotesize {}\\par}}", escaped(note))?;
        }
        writeln!(text, "\\end{{table}}")
    }

    fn write_long(&self, text: &mut String, alignment: &str, letters: Letters) -> std::fmt::Result {
        writeln!(text, "{{{}\n\\setlength{{\\tabcolsep}}{{{}pt}}", letters.size, letters.gap)?;
        writeln!(text, "\\begin{{longtable}}{{{alignment}}}")?;
        if let Some(caption) = self.latex_caption() {
            writeln!(text, "{caption}\\\\")?;
        }
        for end in ["\\endfirsthead", "\\endhead"] {
            writeln!(text, "\\toprule")?;
            self.write_head(text)?;
            writeln!(text, "\\midrule\n{end}")?;
        }
        writeln!(text, "\\bottomrule\n\\endfoot")?;
        self.write_rows(text, letters)?;
        writeln!(text, "\\end{{longtable}}")?;
        for note in &self.notes {
            writeln!(text, "{{\\footnotesize {}\\par}}", escaped(note))?;
        }
        writeln!(text, "}}")
    }

    fn write_head(&self, text: &mut String) -> std::fmt::Result {
        if self.has_groups() {
            let (mut names, mut rules, mut at) = (Vec::new(), String::new(), 1);
            for (group, count) in self.groups() {
                if group.is_empty() {
                    names.push(String::new());
                } else {
                    names.push(format!("\\multicolumn{{{count}}}{{c}}{{{}}}", escaped(group)));
                    write!(rules, "\\cmidrule(lr){{{at}-{}}}", at + count - 1)?;
                }
                at += count;
            }
            writeln!(text, "{} \\\\\n{rules}", names.join(" & "))?;
        }
        let name = |heading: &Heading| {
            let arrow = match heading.better {
                Some(Better::Lower) => " $\\downarrow$",
                Some(Better::Higher) => " $\\uparrow$",
                None => "",
            };
            escaped(&heading.name) + arrow
        };
        writeln!(text, "{} \\\\", self.header.iter().map(name).collect::<Vec<_>>().join(" & "))
    }

    fn write_rows(&self, text: &mut String, letters: Letters) -> std::fmt::Result {
        let broken: Vec<bool> =
            (0..self.header.len()).map(|at| self.is_broken(at, letters)).collect();
        let cell = |(at, cell): (usize, &Cell)| match broken.get(at) {
            // Names of methods have no spaces; LaTeX breaks them at strokes alone.
            Some(true) => [":", "+", "="].iter().fold(shown(cell), |text, end| {
                text.replace(end, &format!("{end}\\allowbreak{{}}"))
            }),
            _ => shown(cell),
        };
        for row in &self.rows {
            let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
            writeln!(text, "{} \\\\", cells.join(" & "))?;
        }
        Ok(())
    }
}

fn shown(cell: &Cell) -> String {
    let number = escaped(&cell.text);
    let mut text = match (cell.best, cell.second) {
        (true, _) => format!("\\textbf{{{number}}}"),
        (false, true) => format!("\\underline{{{number}}}"),
        (false, false) => number,
    };
    if cell.by_chance {
        text += "$^{\\dagger}$";
    }
    if let Some(spread) = &cell.spread {
        text += &format!("{{\\scriptsize$\\,\\pm\\,${}}}", escaped(spread));
    }
    if let Some([low, high]) = &cell.interval {
        text += &format!(" {{\\scriptsize({}--{})}}", escaped(low), escaped(high));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{Table, example};
    use super::*;

    #[test]
    fn a_table_is_booktabs_with_marks() {
        assert_eq!(
            example().latex(),
            r"% \usepackage{booktabs}
\begin{table}
\centering
\caption{a $<$ b \& 5 \%}
\begin{tabular}{lrrrrr}
\toprule
 &  & \multicolumn{2}{c}{far\_1} & \multicolumn{2}{c}{all} \\
\cmidrule(lr){3-4}\cmidrule(lr){5-6}
method & q & FPR95 $\downarrow$ & AUROC $\uparrow$ & FPR95 $\downarrow$ & AUROC $\uparrow$ \\
\midrule
knn $|$ react & -- & \textbf{4.65} {\scriptsize(4--5)} & \underline{98.15} & 5.00{\scriptsize$\,\pm\,$0.10} & \textbf{99.00}$^{\dagger}$ \\
{''}pca{''}, plain & 24 & 5.86 & 98.36 & 6.00 & 98.00 \\
\bottomrule
\end{tabular}
\par\smallskip{\footnotesize $\dagger$ chance\par}
\end{table}
"
        );
    }

    /// So many rows and columns, two of each group, after a column of names.
    fn table(rows: usize, columns: usize) -> Table {
        let of_group = |at: usize| Heading::new("FPR95").of(format!("far/set-{}", at / 2));
        let header =
            std::iter::once("method".into()).chain((1..columns).map(|at| of_group(at - 1)));
        let row = |at: usize| {
            let name = Cell::from(format!("knn:neighbours={at}"));
            std::iter::once(name).chain(vec![Cell::from("-98.15"); columns - 1]).collect()
        };
        Table {
            caption: "t".to_owned(),
            header: header.collect(),
            rows: (0..rows).map(row).collect(),
            notes: vec!["a note".to_owned()],
        }
    }

    fn balanced(text: &str) -> bool {
        text.matches('{').count() == text.matches('}').count()
    }

    #[test]
    fn wide_tables_are_scaled_and_long_ones_break_over_pages() {
        let wide = table(2, 13).latex();
        assert!(wide.starts_with("% \\usepackage{booktabs} \\usepackage{graphicx}\n"), "{wide}");
        assert_eq!(wide.matches("\\begin{table}").count(), 1);
        assert!(wide.contains("$-$98.15") && balanced(&wide));
        let long = table(46, 5).latex();
        assert!(long.starts_with("% \\usepackage{booktabs} \\usepackage{longtable}\n"), "{long}");
        assert_eq!(long.matches("\\begin{longtable}").count(), 1);
        assert!(!long.contains("\\begin{table}") && balanced(&long));
    }

    #[test]
    fn what_is_too_wide_to_be_scaled_is_cut_between_groups() {
        for (rows, environment) in [(60, "longtable"), (4, "table")] {
            let whole = table(rows, 29);
            let text = whole.latex();
            let parts = text.matches(&format!("\\begin{{{environment}}}")).count();
            assert!(parts > 1 && balanced(&text), "{text}");
            for part in 1..=parts {
                assert!(text.contains(&format!("\\caption{{t ({part} of {parts})}}")), "{text}");
            }
            assert_eq!(text.matches("a note").count(), 1, "below the last part");
            for group in 0..14 {
                // Once for the first page and once for the others.
                let heads = if rows == 60 { 2 } else { 1 };
                let name = format!("\\multicolumn{{2}}{{c}}{{far/set-{group}}}");
                assert_eq!(text.matches(&name).count(), heads, "{name}");
            }
            assert_eq!(text.matches("knn:neighbours=3 &").count(), parts, "each names its rows");
        }
    }

    #[test]
    fn long_words_are_broken_into_lines() {
        let name = "kpca-nys:gamma=0.3:landmarks=512:explained-variance=0.99+react";
        let table = Table {
            header: vec!["method".into(), "x".into()],
            rows: vec![vec![name.into(), "1".into()]],
            ..Table::default()
        };
        let text = table.latex();
        assert!(text.starts_with("% \\usepackage{booktabs} \\usepackage{array}\n"), "{text}");
        assert!(
            text.contains("p{138pt}r}") && text.contains("kpca-nys:\\allowbreak{}gamma"),
            "{text}"
        );
    }
}
