//! All studies and the comparison of methods, in one page laid out like the paper.

use std::path::PathBuf;

use offspan::{Detector, FitOptions, MethodOptions};
use offspan_report::page::{Block, Page, Section, Table};
use serde_json::json;

use super::findings::Findings;
use super::run::Run;
use super::runner::{Row, Runner};
use super::theirs::theirs;
use super::{approximation, cost, kernels, layers, learned, sampling, sensitivity};
use crate::evaluation::{
    Evaluations, Evaluator, LeftOut, MethodResult, OwnMethod, TableView, document,
    evaluate_detector, left_out, reasons_against,
};
use crate::fingerprint::thumbnails_fingerprint;
use crate::folder::{Album, Folder, made_by};
use crate::portrait::Portrait;
use crate::published::beside_blocks;
use crate::report::{facts, lead, portrait_sections, section};
use crate::{Result, StudyError};

/// Does every study and writes each one's files, and `paper.html` with all of them. The first runner
/// is of the pack in question, the others of more layers of its network.
pub(super) fn study(
    runners: &[Runner<'_>],
    own: &[&dyn OwnMethod],
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
    runs.extend(learned::runs());
    runs.extend(layers::runs(runner));
    runner.run(runs)?;

    let compared = methods.compare(runner, own)?;
    let mut sections = Vec::new();
    let mut words = Vec::new();
    match portrait(runner, &compared) {
        Ok(portrait) => {
            let mut album = Album::default();
            words = lead(&portrait);
            words.push(
                "Then it repeats the studies of the kernel PCA paper with this network's own features."
                    .to_owned(),
            );
            sections.extend([facts(&portrait), compared.findings.section.clone()]);
            sections.extend(portrait_sections(&portrait, &mut album)?);
            folder.plots(&album)?;
        }
        Err(error) if error.ends_all() => return Err(error),
        Err(error) => {
            sections.push(compared.findings.section.clone());
            sections.push(missing("A close look", &error));
        }
    }
    compared.findings.write(folder, runner.pack)?;
    for (title, findings) in [
        ("Kernels", kernels::study(runner)),
        ("Landmarks and residuals", sampling::study(runner)),
        ("Sensitivity", sensitivity::study(runner)),
        ("Approximation", approximation::study(runner)),
        ("Time and storage", cost::study(runner)),
        ("Learned kernels", learned::study(runner)),
        ("Layers", layers::study(runners)),
    ] {
        match findings {
            Ok(findings) => {
                findings.write(folder, runner.pack)?;
                sections.push(findings.section);
            }
            Err(error) if error.ends_all() => return Err(error),
            // One study that these rows do not allow does not take the others away.
            Err(error) => sections.push(missing(title, &error)),
        }
    }
    sections.push(theirs(published));
    let title = format!("Kernel PCA for out-of-distribution detection on {}", runner.pack);
    folder.page("paper.html", &Page { title, lead: words, sections, made_by: made_by() })
}

/// A section that says why it is empty.
fn missing(title: &str, error: &StudyError) -> Section {
    section(title, vec![Block::Note(format!("Not possible here: {error}"))])
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
            None => methods.runs.push(Run::new(&method, &[&method])),
        }
    }
    Ok(methods)
}

impl Methods {
    fn compare(self, runner: &Runner<'_>, own: &[&dyn OwnMethod]) -> Result<Compared> {
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
        let mut evaluator = Evaluator::new(runner.sets, runner.options)?;
        for method in own {
            evaluator.own(*method, runner.observer)?;
        }
        let of_user = evaluator.evaluations();
        evaluations.results.extend(of_user.results.iter().cloned());
        evaluations.without.extend(of_user.without.iter().cloned());
        evaluations.groups.clone_from(&of_user.groups);
        let table = evaluations.table(&runner.options, &TableView::report());
        let text = "Every method of the paper's comparison that these features allow, best average first, \
                    each with its public defaults. FPR: share of OoD rows that pass, lower is better; \
                    AUROC and AUPR-in: higher is better.";
        let mut blocks = vec![Block::Text(text.to_owned()), Block::Table(table.clone())];
        blocks.extend(left_out(&evaluations.without));
        let preset = runner.common("--preset").and_then(|name| name.parse().ok());
        blocks.extend(beside_blocks(
            runner.pack,
            &evaluations.results,
            preset.as_ref(),
            &runner.options,
        ));
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
    let candidates = compared.results.iter().filter(of_the_paper).count();
    let best = compared
        .results
        .iter()
        .filter(of_the_paper)
        .min_by(|a, b| a.1.average.fpr.total_cmp(&b.1.average.fpr));
    let Some((run, result)) = best else {
        return Err(StudyError::Setup("no kernel PCA method has a result on this pack".to_owned()));
    };
    let parameters = json!({
        "params": result.params,
        "metrics": runner.options,
        "pack": runner.pack,
        "thumbnails": thumbnails_fingerprint(&runner.sets)?,
        "candidates": candidates,
    });
    runner.remember("portrait", parameters, || {
        let (sets, observer) = (&runner.sets, runner.observer);
        let fit = FitOptions { hold_out: Some(0.0), observer, ..FitOptions::default() };
        let spec = runner.completed(run.clone()).spec()?;
        let detector = Detector::fit(&spec, sets.train, sets.head, &fit)?;
        let (result, scored) =
            evaluate_detector(detector, &run.method, sets, &runner.options, observer)?;
        let portrait =
            Portrait::of(runner.pack, sets, &result, &scored, &runner.options, observer)?;
        Ok(Portrait { best_of: Some(candidates), ..portrait })
    })
}
