//! Residuals of approximated kernel PCA against those of the full kernel matrix, as M grows.

use ndarray::Array2;
use offspan::io::{Dataset, OwnedRows};
use offspan::metrics::auroc;
use offspan::{Detector, FitOptions, MethodOptions};
use offspan_report::page::{Block, Table};
use offspan_report::plot::{Curve, Lines, Plot, Reference, Scale};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::findings::Findings;
use super::runner::Runner;
use crate::folder::Album;
use crate::portrait::sample;
use crate::report::section;
use crate::words::{grouped, percent};
use crate::{Result, StudyError};

/// Training rows of the full kernel matrix, rows in and rows out.
const TRAIN: usize = 2000;
const IN: usize = 1000;
const OUT: usize = 1000;
const SIZES: &[usize] = &[64, 128, 256, 512, 1024, 2000];
/// Share of the variance that the exact subspace keeps; the others keep as many directions.
const RATIO: f64 = 0.7;
/// The same kernel for all.
const GAMMA: f64 = 1.0;

/// A way to approximate the kernel.
struct Way {
    name: &'static str,
    method: &'static str,
    size: &'static str,
    residual: Option<&'static str>,
}

const WAYS: &[Way] = &[
    Way { name: "random features", method: "kpca-rff", size: "features", residual: None },
    Way { name: "Nyström, plain", method: "kpca-nys", size: "landmarks", residual: Some("plain") },
    Way {
        name: "Nyström, complete",
        method: "kpca-nys",
        size: "landmarks",
        residual: Some("complete"),
    },
];

/// All that was measured.
#[derive(Serialize, Deserialize)]
struct Measured {
    /// Why points are missing.
    reasons: Vec<String>,
    components: usize,
    train: usize,
    exact_in: f64,
    exact_out: f64,
    exact_auroc: f64,
    points: Vec<Point>,
}

/// One approximation of one size.
#[derive(Serialize, Deserialize)]
struct Point {
    way: String,
    size: usize,
    /// Mean of |e − e_exact| / e_exact.
    error_in: f64,
    error_out: f64,
    /// Mean residual.
    mean_in: f64,
    mean_out: f64,
    auroc: f64,
}

pub(super) fn study(runner: &Runner<'_>) -> Result<Findings> {
    let gamma = runner.common_gamma("kpca-nys").unwrap_or(GAMMA);
    let seed = runner.options.seed;
    let parameters = json!({
        "gamma": gamma, "ratio": RATIO, "train": TRAIN, "in": IN, "out": OUT, "sizes": SIZES,
        "seed": seed,
    });
    let measured = runner.remember("approximation", parameters, || measure(runner, gamma, seed))?;
    Ok(findings(&measured))
}

fn measure(runner: &Runner<'_>, gamma: f64, seed: u64) -> Result<Measured> {
    let sets = &runner.sets;
    let owned = |rows: Array2<f64>, name: &str| Dataset::new(name, OwnedRows(rows));
    let train = owned(sample(sets.train, TRAIN, seed)?, "train");
    let inside = owned(sample(sets.test, IN, seed)?, "test");
    let each = (OUT / sets.ood.len()).max(1);
    let parts = sets.ood.iter().map(|set| sample(set, each, seed)).collect::<Result<Vec<_>>>()?;
    let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
    let outside = ndarray::concatenate(ndarray::Axis(0), &views)
        .unwrap_or_else(|_| unreachable!("the sets of a pack have the same width"));
    let outside = owned(outside, "OoD rows");
    let fit = |method: &str, flags: &[(&str, String)]| -> Result<Detector> {
        let mut options = MethodOptions::default();
        for (flag, value) in flags {
            options.set(flag, value)?;
        }
        let fit =
            FitOptions { hold_out: Some(0.0), observer: runner.observer, ..FitOptions::default() };
        Ok(Detector::fit(&options.method(method)?, &train, None, &fit)?)
    };
    let residuals = |detector: &Detector| -> Result<(Vec<f64>, Vec<f64>)> {
        let of = |data| {
            Ok::<_, offspan::Error>(
                detector.score_dataset(data, runner.observer)?.iter().map(|score| -score).collect(),
            )
        };
        Ok((of(&inside)?, of(&outside)?))
    };
    let common = [("gamma", gamma.to_string()), ("seed", seed.to_string())];
    let exact = fit("kpca-exact", &[common[0].clone(), ("explained-variance", RATIO.to_string())])?;
    let components = exact.kpca_summaries().first().map_or(1, |summary| summary.components);
    let (exact_in, exact_out) = residuals(&exact)?;
    let (mut points, mut reasons) = (Vec::new(), Vec::new());
    for &size in SIZES.iter().filter(|&&size| size > components && size <= train.rows()) {
        for way in WAYS {
            let mut given = common.to_vec();
            given.push((way.size, size.to_string()));
            given.push(("components", components.to_string()));
            if let Some(residual) = way.residual {
                given.push(("sampling", "uniform".to_owned()));
                given.push(("residual", residual.to_owned()));
            }
            let (inside, outside) = match fit(way.method, &given) {
                Ok(detector) => residuals(&detector)?,
                Err(error) if error.ends_all() => return Err(error),
                Err(error) => {
                    reasons.push(format!("{}, M = {size}: {error}", way.name));
                    continue;
                }
            };
            points.push(Point {
                way: way.name.to_owned(),
                size,
                error_in: error(&inside, &exact_in),
                error_out: error(&outside, &exact_out),
                mean_in: mean(&inside),
                mean_out: mean(&outside),
                auroc: ranks(&inside, &outside)?,
            });
        }
    }
    if points.is_empty() {
        let reason = reasons.first().cloned().unwrap_or_else(|| {
            format!("it takes more than {components} of {} training rows", train.rows())
        });
        return Err(StudyError::Setup(format!("no approximation can be measured: {reason}")));
    }
    Ok(Measured {
        reasons,
        components,
        train: train.rows(),
        exact_in: mean(&exact_in),
        exact_out: mean(&exact_out),
        exact_auroc: ranks(&exact_in, &exact_out)?,
        points,
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Mean relative difference; rows that the exact subspace holds whole are left out.
fn error(values: &[f64], exact: &[f64]) -> f64 {
    let pairs = values.iter().zip(exact).filter(|(_, exact)| **exact > 0.0);
    mean(&pairs.map(|(value, exact)| (value - exact).abs() / exact).collect::<Vec<_>>())
}

/// AUROC from residuals, which are high for OoD rows.
fn ranks(inside: &[f64], outside: &[f64]) -> Result<f64> {
    let scores = |residuals: &[f64]| residuals.iter().map(|e| -e).collect::<Vec<_>>();
    Ok(auroc(&scores(inside), &scores(outside)).map_err(offspan::Error::from)?)
}

fn findings(measured: &Measured) -> Findings {
    let curve = |pick: fn(&Point) -> f64| -> Vec<Curve> {
        WAYS.iter()
            .map(|way| {
                let points = measured.points.iter().filter(|point| point.way == way.name);
                Curve::new(way.name, points.map(|point| (point.size as f64, pick(point))).collect())
            })
            .collect()
    };
    let lines = |title: &str, y_label: &str, curves, exact: Option<f64>| -> Plot {
        let at = |at| Reference::Horizontal { at, label: "exact".to_owned() };
        Lines {
            title: title.to_owned(),
            x_label: "random features or landmarks M".to_owned(),
            y_label: y_label.to_owned(),
            x_scale: Scale::Log,
            curves,
            references: exact.map(at).into_iter().collect(),
            ..Lines::default()
        }
        .into()
    };
    let mut album = Album::default();
    let plots = album.show(vec![
        (
            "approximation-error-in".to_owned(),
            lines(
                "Ordinary samples: how far residuals are from exact ones",
                "mean relative difference",
                curve(|point| point.error_in),
                None,
            ),
            String::new(),
        ),
        (
            "approximation-error-out".to_owned(),
            lines(
                "OoD rows: how far residuals are from exact ones",
                "mean relative difference",
                curve(|point| point.error_out),
                None,
            ),
            String::new(),
        ),
        (
            "approximation-mean-in".to_owned(),
            lines(
                "Ordinary samples: mean residual",
                "mean residual",
                curve(|point| point.mean_in),
                Some(measured.exact_in),
            ),
            String::new(),
        ),
        (
            "approximation-mean-out".to_owned(),
            lines(
                "OoD rows: mean residual",
                "mean residual",
                curve(|point| point.mean_out),
                Some(measured.exact_out),
            ),
            String::new(),
        ),
        (
            "approximation-auroc".to_owned(),
            lines(
                "How well OoD rows are told apart",
                "AUROC",
                curve(|point| point.auroc),
                Some(measured.exact_auroc),
            ),
            String::new(),
        ),
    ]);
    let header = [
        "approximation",
        "M",
        "error, ordinary",
        "error, OoD rows",
        "mean e, ordinary",
        "mean e, OoD rows",
        "AUROC",
    ];
    let mut rows = vec![vec![
        "exact".into(),
        measured.train.to_string().into(),
        "0".into(),
        "0".into(),
        format!("{:.4}", measured.exact_in).into(),
        format!("{:.4}", measured.exact_out).into(),
        percent(measured.exact_auroc).into(),
    ]];
    rows.extend(measured.points.iter().map(|point| {
        vec![
            point.way.as_str().into(),
            point.size.to_string().into(),
            format!("{:.4}", point.error_in).into(),
            format!("{:.4}", point.error_out).into(),
            format!("{:.4}", point.mean_in).into(),
            format!("{:.4}", point.mean_out).into(),
            percent(point.auroc).into(),
        ]
    }));
    let table = Table {
        caption: "errors relative to the exact residual; AUROC in percent".to_owned(),
        header: header.map(Into::into).to_vec(),
        rows,
        ..Table::default()
    };
    let text = format!(
        "Kernel PCA of {} training rows from their full kernel matrix, and by approximations of growing \
         size: the same kernel, {} directions each. The plain Nyström residual leaves out what its \
         landmarks cannot see, so it stays below the exact one until they see everything.",
        grouped(measured.train),
        measured.components
    );
    let mut blocks = vec![Block::Text(text)];
    blocks.extend(measured.reasons.iter().cloned().map(Block::Note));
    blocks.extend([plots, Block::Table(table.clone())]);
    let json = json!(measured);
    Findings {
        name: "approximation",
        section: section("Approximation", blocks),
        album,
        table,
        json,
    }
}
