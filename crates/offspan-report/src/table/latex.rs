//! Tables in LaTeX, by booktabs, ready to paste.

use std::fmt::Write;

use super::{Better, Cell, Heading, Table};

/// More rows than this do not fit on a page: the table may then break over pages.
const ROWS_OF_A_PAGE: usize = 45;
/// More columns than this do not fit into a line in letters of the usual size.
const COLUMNS_OF_A_LINE: usize = 7;
/// More columns than this do not fit in small letters either: the table is scaled to the line.
const SMALL_COLUMNS_OF_A_LINE: usize = 11;

impl Table {
    /// The table in LaTeX: `booktabs`, best in bold, second underlined. The first line tells which
    /// packages the document must load.
    #[must_use]
    pub fn latex(&self) -> String {
        let columns = self.header.len();
        let is_long = self.rows.len() > ROWS_OF_A_PAGE;
        // A deviation or an interval takes the room of another column.
        let has_more = |cell: &Cell| cell.spread.is_some() || cell.interval.is_some();
        let widest = |row: &Vec<Cell>| row.len() + row.iter().filter(|cell| has_more(cell)).count();
        let room = self.rows.iter().map(widest).max().unwrap_or(columns);
        let is_scaled = room > SMALL_COLUMNS_OF_A_LINE && !is_long;
        let mut packages = vec!["booktabs"];
        packages.extend(is_long.then_some("longtable"));
        packages.extend(is_scaled.then_some("graphicx"));
        let uses: String = packages.iter().map(|name| format!(" \\usepackage{{{name}}}")).collect();
        let alignment: String =
            (0..columns).map(|at| if at == 0 || self.has_words(at) { 'l' } else { 'r' }).collect();
        let caption = if self.caption.is_empty() {
            String::new()
        } else {
            format!("\\caption{{{}}}", escaped(&self.caption))
        };
        let mut text = format!("%{uses}\n");
        // Writing to a String cannot fail.
        let _ = match is_long {
            true => self.write_long(&mut text, &alignment, &caption),
            false => self.write_float(&mut text, &alignment, &caption, is_scaled),
        };
        text
    }

    fn write_float(
        &self,
        text: &mut String,
        alignment: &str,
        caption: &str,
        is_scaled: bool,
    ) -> std::fmt::Result {
        writeln!(text, "\\begin{{table}}\n\\centering")?;
        if !caption.is_empty() {
            writeln!(text, "{caption}")?;
        }
        if self.header.len() > COLUMNS_OF_A_LINE {
            writeln!(text, "\\small\n\\setlength{{\\tabcolsep}}{{4pt}}")?;
        }
        if is_scaled {
            writeln!(text, "\\resizebox{{\\linewidth}}{{!}}{{%")?;
        }
        writeln!(text, "\\begin{{tabular}}{{{alignment}}}\n\\toprule")?;
        self.write_head(text)?;
        writeln!(text, "\\midrule")?;
        self.write_rows(text)?;
        writeln!(text, "\\bottomrule\n\\end{{tabular}}{}", if is_scaled { "}" } else { "" })?;
        for note in &self.notes {
            writeln!(text, "\\par\\smallskip{{\\footnotesize {}\\par}}", escaped(note))?;
        }
        writeln!(text, "\\end{{table}}")
    }

    fn write_long(&self, text: &mut String, alignment: &str, caption: &str) -> std::fmt::Result {
        writeln!(text, "{{\\small\n\\setlength{{\\tabcolsep}}{{3pt}}")?;
        writeln!(text, "\\begin{{longtable}}{{{alignment}}}")?;
        if !caption.is_empty() {
            writeln!(text, "{caption}\\\\")?;
        }
        for end in ["\\endfirsthead", "\\endhead"] {
            writeln!(text, "\\toprule")?;
            self.write_head(text)?;
            writeln!(text, "\\midrule\n{end}")?;
        }
        writeln!(text, "\\bottomrule\n\\endfoot")?;
        self.write_rows(text)?;
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

    fn write_rows(&self, text: &mut String) -> std::fmt::Result {
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(shown).collect();
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

/// Text that LaTeX sets as it is.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                out.push('\\');
                out.push(letter);
            }
            '\\' => out += "\\textbackslash{}",
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '<' => out += "$<$",
            '>' => out += "$>$",
            '|' => out += "$|$",
            '"' => out += "\\textquotedbl{}",
            '–' => out += "--",
            '−' => out += "$-$",
            '±' => out += "$\\pm$",
            '×' => out += "$\\times$",
            '·' => out += "$\\cdot$",
            '≈' => out += "$\\approx$",
            '≤' => out += "$\\le$",
            '≥' => out += "$\\ge$",
            '†' => out += "$\\dagger$",
            'µ' | 'μ' => out += "$\\mu$",
            'γ' => out += "$\\gamma$",
            'σ' => out += "$\\sigma$",
            'Φ' => out += "$\\Phi$",
            'Δ' => out += "$\\Delta$",
            'χ' => out += "$\\chi$",
            '²' => out += "$^2$",
            '→' => out += "$\\to$",
            '√' => out += "$\\surd$",
            '∞' => out += "$\\infty$",
            '…' => out += "\\dots{}",
            '\u{a0}' => out.push('~'),
            '\n' | '\r' | '\t' => out.push(' '),
            other => out.push(other),
        }
    }
    out
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
\textquotedbl{}pca\textquotedbl{}, plain & 24 & 5.86 & 98.36 & 6.00 & 98.00 \\
\bottomrule
\end{tabular}
\par\smallskip{\footnotesize $\dagger$ chance\par}
\end{table}
"
        );
    }

    #[test]
    fn wide_tables_are_scaled_and_long_ones_break_over_pages() {
        let table = |rows: usize, columns: usize| Table {
            header: vec![Heading::new("x"); columns],
            rows: vec![vec![Cell::from("1"); columns]; rows],
            ..Table::default()
        };
        let wide = table(2, 12).latex();
        assert!(wide.starts_with("% \\usepackage{booktabs} \\usepackage{graphicx}\n"));
        assert_eq!(wide.matches('{').count(), wide.matches('}').count());
        let long = table(46, 12).latex();
        assert!(long.starts_with("% \\usepackage{booktabs} \\usepackage{longtable}\n"));
        assert!(long.contains("\\begin{longtable}") && !long.contains("\\begin{table}"));
        assert_eq!(long.matches('{').count(), long.matches('}').count());
    }

    #[test]
    fn what_users_name_cannot_become_a_command() {
        assert_eq!(
            escaped("\\input{x}_#1~^"),
            "\\textbackslash{}input\\{x\\}\\_\\#1\\textasciitilde{}\\textasciicircum{}"
        );
    }
}
