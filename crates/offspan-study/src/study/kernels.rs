//! Kernels and their approximations, each with and without the cosine map.

use offspan_report::page::Block;

use super::findings::{Findings, beside_the_paper, check_some, document, failures, table};
use super::ranking::bars;
use super::run::Run;
use super::runner::{Row, Runner};
use super::widths::Widths;
use crate::Result;
use crate::folder::Album;
use crate::published::{PaperRow, paper_row};
use crate::report::section;

const LABELS: &[&str] = &["kernel", "cosine", "map"];

/// Widths of the kernels on rows of unit length: the defaults of the methods.
const GAUSSIAN_NYSTROM: f64 = 1.0;
const GAUSSIAN_RANDOM: f64 = 2.0;
const LAPLACIAN: f64 = 0.05;

/// The runs of the study. Without the cosine map, a kernel's width is such that it has the same value
/// at the median distance.
pub(super) fn runs(runner: &Runner<'_>) -> Result<Vec<Run>> {
    let widths = Widths::of(runner.sets.train, runner.options.seed)?;
    let mut runs = vec![
        Run::new("pca", &["linear", "no", "none"]).with("--no-cosine", ""),
        Run::new("pca", &["linear", "yes", "none"]),
    ];
    for (cosine, word) in [(false, "no"), (true, "yes")] {
        let run = |method: &str, kernel: &str, map: &str| {
            let run = Run::new(method, &[kernel, word, map]);
            if cosine { run } else { run.with("--no-cosine", "") }
        };
        let coef0 = if cosine { 1.0 } else { widths.coef0() };
        let gaussian = |method: &str, default: f64| {
            widths.gaussian(runner.common_gamma(method).unwrap_or(default))
        };
        let laplacian = if cosine { LAPLACIAN } else { widths.laplacian(LAPLACIAN) };
        runs.extend([
            run("kpca-nys", "linear", "Nyström").with("--kernel", "linear"),
            run("kpca-nys", "polynomial", "Nyström")
                .with("--kernel", "polynomial")
                .with("--coef0", coef0),
            run("kpca-sketch", "polynomial", "random").with("--coef0", coef0),
            run("kpca-nys", "laplacian", "Nyström")
                .with("--kernel", "laplacian")
                .with("--gamma", laplacian),
            run("kpca-rff", "laplacian", "random")
                .with("--kernel", "laplacian")
                .with("--gamma", laplacian),
        ]);
        // With the cosine map the study's own γ counts, if it has one.
        let mut nystrom = run("kpca-nys", "gaussian", "Nyström");
        let mut random = run("kpca-rff", "gaussian", "random");
        if !cosine {
            nystrom = nystrom.with("--gamma", gaussian("kpca-nys", GAUSSIAN_NYSTROM));
            random = random.with("--gamma", gaussian("kpca-rff", GAUSSIAN_RANDOM));
        }
        runs.extend([nystrom, random]);
    }
    Ok(runs)
}

pub(super) fn study(runner: &Runner<'_>) -> Result<Findings> {
    let rows = runner.run(runs(runner)?)?;
    check_some(&rows)?;
    let table = table(LABELS, &rows, &runner.options);
    let mut album = Album::default();
    let text = "Which kernel, how it is approximated (random features, Nyström with landmarks, or not at \
                all), and whether rows are scaled to unit length first. With the cosine map, kernels have \
                the width of this study or of their method; without it, the one that gives the same \
                kernel value at the median distance between training rows. Each line is what `offspan eval` \
                gives with the flags in its last column.";
    let mut blocks = vec![Block::Text(text.to_owned())];
    blocks.extend(failures(&rows));
    let shown: Vec<Row> = rows.iter().map(shown).collect();
    blocks.push(bars(&mut album, "kernels", &shown, &runner.options));
    blocks.push(Block::Table(table.clone()));
    blocks.extend(beside_the_paper(LABELS, runner, &rows, paper_line));
    let json = document(LABELS, &rows, &runner.options);
    Ok(Findings { name: "kernels", section: section("Kernels", blocks), album, table, json })
}

/// The paper's line for the same kernel and map.
fn paper_line(labels: &[String]) -> Option<PaperRow> {
    let [kernel, cosine, map] = labels else { return None };
    let cosine = cosine == "yes";
    let (kernel, variant) = match (kernel.as_str(), map.as_str()) {
        ("linear", "none") => (if cosine { "cosine" } else { "pca" }.to_owned(), ""),
        (kernel, map) => {
            let variant = if map == "Nyström" { "nystrom" } else { map };
            (if cosine { format!("cosine-{kernel}") } else { kernel.to_owned() }, variant)
        }
    };
    paper_row("kernels", "resnet50", &kernel, variant)
}

/// The kernel's whole name in one label: cosine gaussian.
fn shown(row: &Row) -> Row {
    let labels = match row.labels.as_slice() {
        [kernel, cosine, map] if cosine == "yes" => vec![format!("cosine {kernel}"), map.clone()],
        [kernel, _, map] => vec![kernel.clone(), map.clone()],
        labels => labels.to_vec(),
    };
    Row { labels, ..row.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_the_paper_has_its_line_here() {
        let maps = [("linear", "none"), ("polynomial", "Nyström"), ("polynomial", "random")]
            .into_iter()
            .chain([("laplacian", "Nyström"), ("laplacian", "random")])
            .chain([("gaussian", "Nyström"), ("gaussian", "random")]);
        let lines =
            maps.flat_map(|(kernel, map)| ["yes", "no"].map(|cosine| [kernel, cosine, map]));
        let found: Vec<String> = lines
            .map(|labels| paper_line(&labels.map(str::to_owned)).unwrap().average.pair())
            .collect();
        assert_eq!(found.len(), 14);
        assert_eq!(found[10], "38.15 / 91.02", "cosine gaussian by Nyström");
        let linear = ["linear", "yes", "Nyström"].map(str::to_owned);
        assert!(paper_line(&linear).is_none(), "the paper has none");
    }
}
