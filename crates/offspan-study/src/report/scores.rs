//! The scores of ordinary samples and OoD rows, and what every other threshold would do.

use offspan::metrics::{pr_curve, roc_curve};
use offspan_report::page::{Block, Section};
use offspan_report::plot::{
    Curve, Histograms, Lines, Plot, PointMark, Reference, Set, Side, Threshold,
};

use super::ORDINARY;
use crate::Result;
use crate::folder::Album;
use crate::portrait::Portrait;
use crate::words::{file_name, share};

pub(super) fn section(portrait: &Portrait, album: &mut Album) -> Result<Section> {
    let kept = share(portrait.keep);
    let ordinary = &portrait.test.scores;
    let (mut histograms, mut roc, mut pr, mut marks) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (set, _) in &portrait.ood {
        let passing = set.kept_by(portrait.threshold);
        let plot = Histograms {
            title: format!("{} of {} pass as ordinary", share(passing), set.name),
            x_label: "score (higher: more like the training data)".to_owned(),
            sets: vec![
                Set::new(ORDINARY, ordinary.clone()),
                Set::new(set.name.clone(), set.scores.clone()),
            ],
            thresholds: vec![Threshold { at: portrait.threshold, label: format!("keeps {kept}") }],
            ood_side: Some(Side::Below),
            ..Histograms::default()
        };
        histograms.push((format!("scores-{}", file_name(&set.name)), plot.into(), String::new()));
        let metric = offspan::Error::from;
        let name = set.name.clone();
        roc.push(Curve::new(name.clone(), roc_curve(ordinary, &set.scores).map_err(metric)?));
        pr.push(Curve::new(name, pr_curve(ordinary, &set.scores).map_err(metric)?));
        let y = portrait.test.kept_by(portrait.threshold);
        marks.push(PointMark { x: passing, y, label: String::new() });
    }
    let roc = Lines {
        title: "What every other threshold would let pass".to_owned(),
        x_label: "OoD rows that pass (FPR)".to_owned(),
        y_label: "ordinary samples kept (TPR)".to_owned(),
        x_range: Some((0.0, 1.0)),
        y_range: Some((0.0, 1.0)),
        curves: roc,
        references: vec![
            Reference::Diagonal { label: "chance".to_owned() },
            Reference::Horizontal { at: portrait.keep, label: format!("keeps {kept}") },
        ],
        marks,
        ..Lines::default()
    };
    let pr = Lines {
        title: "How pure the accepted samples are".to_owned(),
        x_label: "ordinary samples kept (recall)".to_owned(),
        y_label: "ordinary among accepted (precision)".to_owned(),
        x_range: Some((0.0, 1.0)),
        y_range: Some((0.0, 1.0)),
        curves: pr,
        ..Lines::default()
    };
    let curves: Vec<(String, Plot, String)> = vec![
        ("roc".to_owned(), roc.into(), "Rings: the threshold of this page.".to_owned()),
        (
            "pr".to_owned(),
            pr.into(),
            "Depends on how many OoD rows there are: here as many as each set has.".to_owned(),
        ),
    ];
    let text = format!(
        "Where the two shapes overlap, no threshold can tell them apart. Samples on the shaded side are \
         called OoD by {}.",
        portrait.method
    );
    Ok(super::section(
        "Scores and the threshold",
        vec![Block::Text(text), album.show(histograms), album.show(curves)],
    ))
}
