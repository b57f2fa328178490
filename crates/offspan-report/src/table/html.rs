//! Tables as part of a page.

use std::fmt::Write;

use super::Table;
use crate::plot::escape;

impl Table {
    /// The table as HTML, for a page with its style.
    #[must_use]
    pub fn html(&self) -> String {
        let mut html = String::from("<div class=\"table\"><table>\n");
        // Writing to a String cannot fail.
        let _ = self.write(&mut html);
        html + "</table></div>\n"
    }

    fn write(&self, html: &mut String) -> std::fmt::Result {
        if !self.caption.is_empty() {
            writeln!(html, "<caption>{}</caption>", escape(&self.caption))?;
        }
        let class = |column| if self.has_words(column) { " class=\"words\"" } else { "" };
        *html += "<thead>";
        if self.has_groups() {
            *html += "<tr class=\"groups\">";
            for (group, count) in self.groups() {
                if group.is_empty() {
                    *html += "<td></td>";
                } else {
                    write!(
                        html,
                        "<th scope=\"colgroup\" colspan=\"{count}\">{}</th>",
                        escape(group)
                    )?;
                }
            }
            *html += "</tr>\n";
        }
        *html += "<tr>";
        for (column, heading) in self.header.iter().enumerate() {
            let arrow =
                heading.better.map_or(String::new(), |better| format!(" {}", better.arrow()));
            write!(
                html,
                "<th scope=\"col\"{}>{}{arrow}</th>",
                class(column),
                escape(&heading.name)
            )?;
        }
        *html += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            *html += "<tr>";
            for (column, cell) in row.iter().enumerate() {
                let mut text = escape(&cell.text).into_owned();
                if let Some(spread) = &cell.spread {
                    write!(text, "&nbsp;±&nbsp;{}", escape(spread))?;
                }
                let mut text = match (cell.best, cell.second) {
                    (true, _) => format!("<strong>{text}</strong>"),
                    (false, true) => format!("<u>{text}</u>"),
                    (false, false) => text,
                };
                if cell.by_chance {
                    text += "<sup>†</sup>";
                }
                if let Some(range) = cell.range() {
                    write!(text, "<small>{}</small>", escape(&range))?;
                }
                match column {
                    0 => write!(html, "<th scope=\"row\">{text}</th>")?,
                    _ => write!(html, "<td{}>{text}</td>", class(column))?,
                }
            }
            *html += "</tr>\n";
        }
        *html += "</tbody>";
        if !self.notes.is_empty() {
            write!(html, "<tfoot><tr><td colspan=\"{}\">", self.header.len())?;
            let notes: Vec<String> =
                self.notes.iter().map(|note| escape(note).into_owned()).collect();
            write!(html, "{}</td></tr></tfoot>", notes.join("<br>"))?;
        }
        html.push('\n');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Table, example};

    #[test]
    fn cells_show_what_they_are() {
        let html = example().html();
        assert!(html.contains("<caption>a &lt; b &amp; 5 %</caption>"));
        assert!(html.contains("<th scope=\"colgroup\" colspan=\"2\">far_1</th>"));
        assert!(html.contains("<td><strong>4.65</strong><small>(4 – 5)</small></td>"));
        assert!(
            html.contains("<u>98.15</u>") && html.contains("<strong>99.00</strong><sup>†</sup>")
        );
        assert!(
            html.contains("5.00&nbsp;±&nbsp;0.10") && html.contains("† chance</td></tr></tfoot>")
        );
        let plain =
            Table { header: vec!["a".into()], rows: vec![vec!["b".into()]], ..Table::default() };
        assert!(!plain.html().contains("groups") && !plain.html().contains("tfoot"));
    }
}
