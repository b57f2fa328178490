//! Results in every format that they can be printed in.

use offspan::metrics::{Difference, EvalOptions, FprRule};
use offspan_report::page::{Block, Page, Section};
use offspan_report::table::{Cell, Format, Heading, Table};

use super::document::document;
use super::metric::Metric;
use super::result::Evaluations;
use super::statistics::Compared;
use super::table::{TableView, left_out};
use crate::folder::made_by;
use crate::published::preset_rows;
use crate::words::{percent, share};
use crate::{Result, StudyError};

impl Evaluations {
    /// The results in a format: a table with what belongs to it, or the document with everything.
    ///
    /// # Errors
    /// If comparisons were asked for and the format holds a single table.
    pub fn render(
        &self,
        pack: &str,
        options: &EvalOptions,
        view: &TableView,
        format: Format,
    ) -> Result<String> {
        let table = || {
            let mut table = self.table(options, view);
            table.caption = format!("Out-of-distribution detection on {pack}, in percent");
            table
        };
        // The rows of the paper that a preset reproduces are a table of their own, too.
        let beside = self
            .preset
            .as_ref()
            .and_then(|preset| preset_rows(pack, &self.results, preset, options));
        let comparisons = || {
            let compared = self.comparisons.iter().map(|compared| compared.table(options));
            compared.chain(beside.clone())
        };
        Ok(match format {
            Format::Text => self.words(&table(), comparisons(), options, view),
            Format::Json => serde_json::to_string_pretty(&document(pack, self, options))? + "\n",
            Format::Csv if !self.comparisons.is_empty() => {
                return Err(StudyError::Setup(
                    "CSV holds one table, and a comparison is another: expected a format such as json, \
                     markdown or latex"
                        .to_owned(),
                ));
            }
            Format::Csv => table().csv(),
            Format::Markdown => {
                let more = comparisons()
                    .map(|table| format!("\n{}\n\n{}", table.caption, table.markdown()));
                table().markdown() + &more.collect::<String>()
            }
            Format::Latex => {
                let more = comparisons().map(|table| format!("\n{}", table.latex()));
                table().latex() + &more.collect::<String>()
            }
            Format::Html => self.page(pack, table(), comparisons().collect(), options).html(),
        })
    }

    fn page(&self, pack: &str, table: Table, more: Vec<Table>, options: &EvalOptions) -> Page {
        let (rate, tpr) = (Metric::Fpr.label(options), share(options.tpr));
        let rule = match options.rule {
            FprRule::AtLeast => format!(
                "the share of out-of-distribution rows that pass a threshold which keeps at least {tpr} of \
                 in-distribution rows"
            ),
            FprRule::Authors => format!(
                "the share of out-of-distribution rows above the in-distribution score that {tpr} of these \
                 reach, by a rounded index, as the authors of the kernel PCA paper count"
            ),
            FprRule::OodPositive => format!(
                "the share of in-distribution rows that are refused by a threshold which refuses at least {tpr} \
                 of out-of-distribution rows, as OpenOOD counts"
            ),
        };
        let lead = format!(
            "{rate} is {rule}: lower is better. AUROC is the chance that an in-distribution row scores \
             higher than an out-of-distribution row: higher is better. Best in bold, second underlined.",
        );
        let mut blocks = vec![Block::Table(table)];
        blocks.extend(left_out(&self.without));
        let mut sections = vec![Section { title: "Methods".to_owned(), blocks }];
        if !more.is_empty() {
            let blocks = more.into_iter().map(Block::Table).collect();
            sections.push(Section { title: "Comparisons".to_owned(), blocks });
        }
        let title = format!("Methods on {pack}");
        Page { title, lead: vec![lead], sections, made_by: made_by() }
    }

    /// For people at a terminal.
    fn words(
        &self,
        table: &Table,
        more: impl Iterator<Item = Table>,
        options: &EvalOptions,
        view: &TableView,
    ) -> String {
        if self.results.is_empty() {
            return String::new();
        }
        let labels: Vec<String> = view.metrics.iter().map(|metric| metric.label(options)).collect();
        let directions: Vec<&str> = view
            .metrics
            .iter()
            .map(|metric| if metric.prefers(0.0, 1.0) { "lower" } else { "higher" })
            .collect();
        let mut text = format!(
            "{} in percent; {} is better\n\n{}",
            labels.join(" / "),
            directions.join(" / "),
            table.text()
        );
        for note in &table.notes {
            text += &format!("\n{note}\n");
        }
        if view.intervals {
            text += &self.intervals();
        }
        for table in more {
            text += &format!("\n{}\n\n{}", table.caption, table.text());
            for note in &table.notes {
                text += &format!("\n{note}\n");
            }
        }
        let without = self.without.iter().filter(|left_out| !left_out.named);
        let without: Vec<String> = without.map(|left_out| format!("  {left_out}\n")).collect();
        if !without.is_empty() {
            text += &format!("\nnot run:\n{}", without.concat());
        }
        text
    }

    /// The confidence intervals, if there are any.
    fn intervals(&self) -> String {
        let mut level = None;
        let mut rows = Vec::new();
        for result in &self.results {
            for (set, evaluation) in &result.sets {
                if let Some(intervals) = &evaluation.intervals {
                    level = Some(intervals.level);
                    rows.push(vec![
                        Cell::from(&result.method),
                        set.into(),
                        range(intervals.fpr).into(),
                        range(intervals.auroc).into(),
                    ]);
                }
            }
        }
        let header = ["method", "set", "FPR", "AUROC"].map(Heading::new).to_vec();
        let table = Table { header, rows, ..Table::default() };
        level.map_or_else(String::new, |level| {
            format!("\n{} % confidence intervals\n\n{}", 100.0 * level, table.text())
        })
    }
}

impl Compared {
    /// The differences as a table.
    #[must_use]
    pub fn table(&self, options: &EvalOptions) -> Table {
        let rate = Metric::Fpr.label(options);
        let level = format!("{} interval", share(self.bootstrap.level));
        let header = ["", &format!("Δ {rate}"), &level, "p", "Δ AUROC", &level, "p"];
        let cells = |found: &Difference| {
            let signed = |value: f64| format!("{:+.2}", 100.0 * value);
            let [low, high] = found.interval;
            [
                signed(found.difference),
                format!("{} – {}", signed(low), signed(high)),
                p_value(found.p_value),
            ]
        };
        let rows = self.differences.iter().map(|one| {
            let cells = cells(&one.fpr).into_iter().chain(cells(&one.auroc));
            std::iter::once(Cell::from(one.over.name())).chain(cells.map(Cell::from)).collect()
        });
        Table {
            caption: format!("{} minus {} on the same rows, in percent", self.first, self.second),
            header: header.map(Heading::new).to_vec(),
            rows: rows.collect(),
            notes: vec![format!(
                "{rate}: {} paired bootstrap resamples; AUROC: DeLong's test. p is two-sided, of one test; \
                 a few of many are small by chance.",
                self.bootstrap.resamples
            )],
        }
    }
}

/// A p-value as people write it.
fn p_value(p: f64) -> String {
    if p < 0.0001 { "< 0.0001".to_owned() } else { format!("{p:.4}") }
}

fn range([low, high]: [f64; 2]) -> String {
    format!("{} – {}", percent(low), percent(high))
}
