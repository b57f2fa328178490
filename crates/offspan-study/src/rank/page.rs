//! A ranking as a table, a figure and one page.

use std::path::{Path, PathBuf};

use offspan_report::page::{Block, Page};
use offspan_report::plot::{Plot, Ranks};
use offspan_report::table::{Better, Cell, Heading, Table};
use serde_json::{Value, json};

use super::{Cases, Ranked, Ranking};
use crate::Result;
use crate::folder::{Album, Folder, made_by};
use crate::report::section;
use crate::words::{percent, share};

/// The files of a ranking, without its plots.
#[must_use]
pub fn files() -> Vec<String> {
    ["html", "md", "csv", "tex", "json"].map(|ending| format!("rank.{ending}")).to_vec()
}

/// Writes page, table, document and figure; returns where the page is. The figure shows the `top` best.
///
/// # Errors
/// If a file cannot be written.
pub fn write(folder: &Path, ranking: &Ranking, top: usize) -> Result<PathBuf> {
    let folder = Folder::make(folder)?;
    let (page, album) = ranking.page_and_album(top);
    let table = ranking.table();
    folder.plots(&album)?;
    folder.text("rank.md", &table.markdown())?;
    folder.text("rank.csv", &table.csv())?;
    folder.text("rank.tex", &table.latex())?;
    folder.json("rank.json", &ranking.document())?;
    folder.page("rank.html", &page)
}

impl Ranking {
    /// The ranking for machines.
    #[must_use]
    pub fn document(&self) -> Value {
        let mut document = json!(self);
        document["schema"] = json!("offspan.rank/1");
        document
    }

    /// Every method, best first.
    #[must_use]
    pub fn table(&self) -> Table {
        let lower = |name: &str| Heading::new(name).better(Better::Lower);
        let better = self.better;
        let mut header = vec![
            Heading::new("method"),
            lower("mean rank"),
            Heading::new("wins").better(Better::Higher),
            lower("mean regret"),
            lower("worst regret"),
        ];
        let of_case = |case: &String| Heading::new(case).of(&self.label).better(better);
        header.extend(self.cases.iter().map(of_case));
        let digits = |value: f64| format!("{value:.2}");
        let mut columns: Vec<Vec<Cell>> = vec![
            marked(self, Better::Lower, |one| one.mean_rank, digits),
            marked(self, Better::Higher, |one| one.wins as f64, |value| format!("{value:.0}")),
            marked(self, Better::Lower, |one| one.mean_regret, percent),
            marked(self, Better::Lower, |one| one.worst_regret, percent),
        ];
        columns.extend(
            (0..self.cases.len()).map(|at| marked(self, better, |one| one.values[at], percent)),
        );
        let row = |(at, one): (usize, &Ranked)| {
            let cells = columns.iter().map(|column| column[at].clone());
            std::iter::once(Cell::from(&one.method)).chain(cells).collect()
        };
        let rows = self.methods.iter().enumerate().map(row).collect();
        Table { caption: self.caption(), header, rows, notes: vec![self.chance()] }
    }

    /// Whether any methods differ by more than chance.
    fn is_decided(&self) -> bool {
        self.friedman.p_value < self.level
    }

    /// What the page says first: a winner only if chance does not explain the ranks.
    fn lead(&self) -> String {
        let best = &self.methods[0];
        if !self.is_decided() {
            return format!(
                "No difference between the {} methods is more than chance (Friedman's test, p = {:.2}): none is the \
                 best. {} the lowest mean rank, {:.2}.",
                self.methods.len(),
                self.friedman.p_value,
                self.first_have(self.methods.len()),
                best.mean_rank
            );
        }
        let within = |one: &&Ranked| one.mean_rank - best.mean_rank <= self.critical_difference;
        let first = self.first(self.methods.len());
        if first.len() > 1 {
            let as_good = self.methods.iter().filter(within).count() - first.len();
            return format!(
                "{} the best mean rank, {:.2} among {} methods; {as_good} more are within the critical difference of it.",
                self.first_have(self.methods.len()),
                best.mean_rank,
                self.methods.len()
            );
        }
        let as_good = self.methods.iter().skip(1).filter(within).count();
        let others = match as_good {
            0 => "no other method is within the critical difference of it".to_owned(),
            1 => "1 other method is within the critical difference of it".to_owned(),
            count => format!("{count} other methods are within the critical difference of it"),
        };
        format!(
            "{} has the best mean rank, {:.2} among {} methods, and is {} points of {} behind the best method of each \
             case on average, {} at worst; {others}.",
            best.method,
            best.mean_rank,
            self.methods.len(),
            percent(best.mean_regret),
            self.label,
            percent(best.worst_regret)
        )
    }

    /// The methods of the lowest mean rank, among so many of the best: more than one, where they share it.
    fn first(&self, among: usize) -> Vec<&str> {
        let lowest = self.methods[0].mean_rank;
        let shown = self.methods.iter().take(among);
        #[allow(
            clippy::float_cmp,
            reason = "ranks are whole or half numbers, and their sums exact"
        )]
        shown.filter(|one| one.mean_rank == lowest).map(|one| one.method.as_str()).collect()
    }

    /// These as the subject of a sentence.
    fn first_have(&self, among: usize) -> String {
        match self.first(among)[..] {
            [one] => format!("{one} has"),
            [ref others @ .., last] => format!("{} and {last} have", others.join(", ")),
            [] => unreachable!("a ranking has methods"),
        }
    }

    fn caption(&self) -> String {
        format!(
            "{} methods ranked by {} over {} {}; {} and regret in percent",
            self.methods.len(),
            self.label,
            self.cases.len(),
            self.unit(),
            self.label
        )
    }

    /// What the cases are called.
    fn unit(&self) -> &'static str {
        match self.over {
            Cases::Packs => "packs",
            Cases::Sets => "sets",
        }
    }

    /// What chance alone can do.
    fn chance(&self) -> String {
        format!(
            "Mean ranks that differ by less than {:.2} may differ by chance (Nemenyi's critical difference at the \
             {} level); Friedman's test, corrected for ties: χ² = {:.1}, p = {:.4} by {} permutations.",
            self.critical_difference,
            share(self.level),
            self.friedman.chi_square,
            self.friedman.p_value,
            self.friedman.permutations
        )
    }

    /// The critical-difference diagram of the `top` best methods.
    #[must_use]
    pub fn diagram(&self, top: usize) -> Plot {
        let shown = self.methods.iter().take(top);
        let entries: Vec<(String, f64)> =
            shown.map(|one| (one.method.clone(), one.mean_rank)).collect();
        let ranked = format!("by {} over {} {}", self.label, self.cases.len(), self.unit());
        let title = match self.is_decided() {
            true => format!("{} the best mean rank {ranked}", self.first_have(top)),
            false => format!("Mean ranks {ranked}: no difference is more than chance"),
        };
        let mut note = format!(
            "Bars join methods that do not differ by more than chance ({} level, Nemenyi).",
            share(self.level)
        );
        if entries.len() < self.methods.len() {
            note += &format!(
                " The {} best of {}, ranked among all of them.",
                entries.len(),
                self.methods.len()
            );
        }
        Ranks {
            title,
            entries,
            difference: self.critical_difference,
            notes: vec![note],
            ..Ranks::default()
        }
        .into()
    }

    /// The whole page.
    #[must_use]
    pub fn page(&self, top: usize) -> Page {
        self.page_and_album(top).0
    }

    fn page_and_album(&self, top: usize) -> (Page, Album) {
        let mut album = Album::default();
        let figure =
            album.show(vec![("critical-difference".to_owned(), self.diagram(top), String::new())]);
        let mut reading = "In each case the best method has rank 1; equal figures share a rank. Regret is how far a \
                       method is behind the best one of a case, wins are the cases in which none is better. The \
                       critical difference grows with the number of methods: compare few to see more."
            .to_owned();
        if self.over == Cases::Sets {
            reading += " Sets of one pack share their in-distribution rows, so that tests over sets call too many \
                        differences real.";
        }
        let mut blocks = vec![Block::Text(reading), Block::Text(self.chance()), figure];
        let table = Table { notes: Vec::new(), ..self.table() };
        blocks.push(Block::Table(table));
        if !self.left_out.is_empty() {
            let rows = self
                .left_out
                .iter()
                .map(|one| vec![Cell::from(&one.method), Cell::from(&one.reason)]);
            let table = Table {
                header: ["method", "why it is not ranked"].map(Heading::new).to_vec(),
                rows: rows.collect(),
                ..Table::default()
            };
            let title = "Methods without a figure in every case".to_owned();
            blocks.push(Block::Folded(title, vec![Block::Table(table)]));
        }
        let lead = self.lead();
        let page = Page {
            title: format!("Methods ranked over {}", self.cases.join(", ")),
            lead: vec![lead],
            sections: vec![section("Ranking", blocks)],
            made_by: made_by(),
        };
        (page, album)
    }
}

/// A column of numbers, the best and the second standing out.
fn marked(
    ranking: &Ranking,
    better: Better,
    value: impl Fn(&Ranked) -> f64,
    text: impl Fn(f64) -> String,
) -> Vec<Cell> {
    let values: Vec<f64> = ranking.methods.iter().map(value).collect();
    let beats = |a: f64, b: f64| match better {
        Better::Lower => a < b,
        Better::Higher => a > b,
    };
    let best_of = |values: &mut dyn Iterator<Item = f64>| {
        values.reduce(|a, b| if beats(b, a) { b } else { a })
    };
    let best = best_of(&mut values.iter().copied());
    let second =
        best.and_then(|best| best_of(&mut values.iter().copied().filter(|v| beats(best, *v))));
    values
        .iter()
        .map(|&value| Cell {
            best: best == Some(value),
            second: second == Some(value),
            ..Cell::from(text(value))
        })
        .collect()
}
