//! All studies and the comparison of methods, in one page laid out like the paper.

use std::path::PathBuf;

use offspan::{Detector, FitOptions, MethodOptions};
use offspan_report::page::{Block, Page, Table};
use serde_json::json;

use super::findings::Findings;
use super::run::Run;
use super::runner::{Row, Runner};
use super::theirs::theirs;
use super::{approximation, cost, kernels, layers, learned, sampling, sensitivity};
use crate::evaluation::{
    Evaluations, LeftOut, MethodResult, comparison, document, evaluate_detector, reasons_against,
};
use crate::folder::{Album, Folder, made_by};
use crate::portrait::Portrait;
use crate::report::{facts, lead, portrait_sections, section};
use crate::{Result, StudyError};

/// Does every study and writes each one's files, and `paper.html` with all of them. The first runner
/// is of the pack in question, the others of more layers of its network.
pub(super) fn study(
    runners: &[Runner<'_>],
    published: Option<&Table>,
    folder: &Folder,
) -> Result<PathBuf> {
    let runner = &runners[0];
    let methods = every_method(runner)?;
    // All runs at once, so that what they need to know of the rows is gathered once and the time left
    // is that of all.
    let mut runs: Vec<Run> = methods.runs.clone();
    runs.extend(kernels::runs(runner)?);
    runs.extend(sampling::runs());
    runs.extend(sensitivity::runs(runner));
    runs.extend(learned::runs(runner));
    runs.extend(layers::runs(runner));
    runner.run(runs)?;

    let compared = methods.compare(runner)?;
    let portrait = portrait(runner, &compared)?;
    let studies = [
        kernels::study(runner)?,
        sampling::study(runner)?,
        sensitivity::study(runner)?,
        approximation::study(runner)?,
        cost::study(runner)?,
        learned::study(runner)?,
        layers::study(runners)?,
    ];
    let mut album = Album::default();
    let mut sections = vec![facts(&portrait), compared.findings.section.clone()];
    sections.extend(portrait_sections(&portrait, &mut album)?);
    folder.plots(&album)?;
    compared.findings.write(folder, runner.pack)?;
    for findings in &studies {
        findings.write(folder, runner.pack)?;
        sections.push(findings.section.clone());
    }
    sections.push(theirs(published));
    let mut lead = lead(&portrait);
    lead.push(format!(
        "This page shows {} in detail, the best of the kernel PCA methods here, and then repeats the \
         studies of the kernel PCA paper with this network's own features.",
        portrait.method
    ));
    let title = format!("Kernel PCA for out-of-distribution detection on {}", runner.pack);
    folder.page("paper.html", &Page { title, lead, sections, made_by: made_by() })
}

/// Every method that these rows allow.
struct Methods {
    runs: Vec<Run>,
    without: Vec<LeftOut>,
}

/// The comparison of methods.
struct Compared {
    results: Vec<(Run, MethodResult)>,
    findings: Findings,
}

fn every_method(runner: &Runner<'_>) -> Result<Methods> {
    let all = MethodOptions::default().methods(&["all"])?;
    let reasons = reasons_against(&all, &runner.sets)?;
    let mut methods = Methods { runs: Vec::new(), without: Vec::new() };
    for ((method, _), reason) in all.into_iter().zip(reasons) {
        match reason {
            Some(reason) => methods.without.push(LeftOut { method, reason, named: false }),
            None => methods.runs.push(runner.landmarks_for(Run::new(&method, &[&method]))),
        }
    }
    Ok(methods)
}

impl Methods {
    fn compare(self, runner: &Runner<'_>) -> Result<Compared> {
        let mut evaluations = Evaluations { without: self.without, ..Evaluations::default() };
        let mut results = Vec::new();
        for (run, row) in self.runs.iter().zip(runner.run(self.runs.clone())?) {
            let Row { outcome, .. } = row;
            match outcome {
                Ok(result) => {
                    evaluations.results.push(result.clone());
                    results.push((run.clone(), result));
                }
                Err(reason) => {
                    let method = run.method.clone();
                    evaluations.without.push(LeftOut { method, reason, named: false });
                }
            }
        }
        let table = comparison(&evaluations.results, &runner.options);
        let text = "Every method of the paper's comparison that these features allow, best average first, \
                    each with its public defaults. FPR: share of strangers that pass, lower is better; \
                    AUROC and AUPR: higher is better.";
        let mut blocks = vec![Block::Text(text.to_owned()), Block::Table(table.clone())];
        if !evaluations.without.is_empty() {
            let cells =
                |left: &LeftOut| vec![left.method.as_str().into(), left.reason.as_str().into()];
            let without = Table {
                header: ["method", "why it did not run"].map(str::to_owned).to_vec(),
                rows: evaluations.without.iter().map(cells).collect(),
                ..Table::default()
            };
            let title = "Methods that these features do not allow".to_owned();
            blocks.push(Block::Folded(title, vec![Block::Table(without)]));
        }
        let json = document(runner.pack, &evaluations, &runner.options);
        let findings = Findings {
            name: "methods",
            section: section("Comparison of methods", blocks),
            album: Album::default(),
            table,
            json,
        };
        Ok(Compared { results, findings })
    }
}

/// A close look at the best of the kernel PCA methods.
fn portrait(runner: &Runner<'_>, compared: &Compared) -> Result<Portrait> {
    let of_the_paper = |(run, _): &&(Run, MethodResult)| run.method.starts_with("kpca-");
    let best = compared
        .results
        .iter()
        .filter(of_the_paper)
        .min_by(|a, b| a.1.average.fpr.total_cmp(&b.1.average.fpr));
    let Some((run, result)) = best else {
        return Err(StudyError::Setup("no kernel PCA method has a result on this pack".to_owned()));
    };
    runner.remember("portrait", json!(result.params), || {
        let (sets, observer) = (&runner.sets, runner.observer);
        let fit = FitOptions { hold_out: 0.0, observer, ..FitOptions::default() };
        let spec = runner.completed(run.clone()).spec()?;
        let detector = Detector::fit(&spec, sets.train, sets.head, &fit)?;
        let (result, scored) =
            evaluate_detector(detector, &run.method, None, sets, &runner.options, observer)?;
        Portrait::of(runner.pack, sets, &result, &scored, &runner.options, observer)
    })
}

/// A table of published figures from comma-separated text: a header, then rows.
pub(super) fn published_table(text: &str) -> Result<Table> {
    let rows: Vec<Vec<String>> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.split(',').map(|cell| cell.trim().trim_matches('"').to_owned()).collect())
        .collect();
    let Some((header, rows)) = rows.split_first() else {
        return Err(StudyError::Setup(
            "published figures: expected a header and rows, got nothing".to_owned(),
        ));
    };
    if let Some((index, row)) = rows.iter().enumerate().find(|(_, row)| row.len() != header.len()) {
        return Err(StudyError::Setup(format!(
            "published figures: row {} has {} cells; expected {}, as the header",
            index + 1,
            row.len(),
            header.len()
        )));
    }
    Ok(Table {
        caption: "theirs, on their data".to_owned(),
        header: header.clone(),
        rows: rows.iter().map(|row| row.iter().cloned().map(Into::into).collect()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_figures_must_be_a_table() {
        let table = published_table("method,FPR\nKNN,1.5\n\n\"KPCA\", 2\n").unwrap();
        assert_eq!(
            table.markdown(),
            "| method | FPR |\n| --- | --- |\n| KNN | 1.5 |\n| KPCA | 2 |\n"
        );
        let error = |text: &str| published_table(text).map(|_| ()).unwrap_err().to_string();
        assert!(error(" \n").ends_with("got nothing"));
        assert_eq!(
            error("a,b\n1,2\n3\n"),
            "published figures: row 2 has 1 cells; expected 2, as the header"
        );
    }
}
