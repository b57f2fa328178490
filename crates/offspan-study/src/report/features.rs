//! The features themselves: their lengths, and how much of their variance the subspace holds.

use offspan_report::page::{Block, Section};
use offspan_report::plot::{Curve, Histograms, Lines, PointMark, Set};

use super::ORDINARY;
use crate::folder::Album;
use crate::portrait::{Portrait, SetPortrait, Spectrum};
use crate::words::{grouped, share};

pub(super) fn section(portrait: &Portrait, album: &mut Album) -> Section {
    let sets = |of: &dyn Fn(&f64) -> f64| {
        let values = |set: &SetPortrait| set.norms.iter().map(of).collect();
        let mut sets = vec![Set::new(ORDINARY, values(&portrait.test))];
        sets.extend(portrait.ood.iter().map(|(set, _)| Set::new(set.name.clone(), values(set))));
        sets
    };
    let all = portrait.ood.iter().map(|(set, _)| set).chain([&portrait.test]);
    let zero = all.flat_map(|set| &set.norms).filter(|norm| **norm == 0.0).count();
    let before = Histograms {
        title: lengths(portrait),
        x_label: "length of a sample's features, ‖z‖".to_owned(),
        sets: sets(&|norm| *norm),
        ..Histograms::default()
    };
    let after = Histograms {
        title: match zero {
            0 => "After the cosine map every length is 1: directions are left".to_owned(),
            zero => format!(
                "After the cosine map lengths are 1, but for {zero} rows without a direction"
            ),
        },
        x_label: "length after z / ‖z‖".to_owned(),
        sets: sets(&|norm| if *norm > 0.0 { 1.0 } else { 0.0 }),
        ..Histograms::default()
    };
    let text = "OoD rows often have shorter features than ordinary samples, but not always, and a score \
                that rests on length alone goes wrong where they have not. The cosine map takes the \
                length away.";
    let mut blocks = vec![
        Block::Text(text.to_owned()),
        album.show(vec![
            ("norms".to_owned(), before.into(), String::new()),
            ("norms-cosine".to_owned(), after.into(), String::new()),
        ]),
    ];
    if !portrait.spectra.is_empty() {
        let plots = portrait.spectra.iter().enumerate().map(|(number, spectrum)| {
            let name =
                if number == 0 { "variance".to_owned() } else { format!("variance-{number}") };
            (name, explained_variance(spectrum).into(), String::new())
        });
        blocks.push(album.show(plots.collect()));
    }
    super::section("Features", blocks)
}

/// What there is to see of the lengths.
fn lengths(portrait: &Portrait) -> String {
    let median = |set: &SetPortrait| {
        let mut norms = set.norms.clone();
        norms.sort_by(f64::total_cmp);
        norms.get(norms.len() / 2).copied().unwrap_or(0.0)
    };
    let ordinary = median(&portrait.test);
    let shorter = portrait.ood.iter().filter(|(set, _)| median(set) < ordinary).count();
    match portrait.ood.len() {
        sets if shorter == sets => "OoD rows have shorter features here".to_owned(),
        _ if shorter == 0 => "OoD rows do not have shorter features here".to_owned(),
        sets => format!("OoD rows have shorter features in {shorter} of {sets} sets"),
    }
}

fn explained_variance(spectrum: &Spectrum) -> Lines {
    let points = spectrum.shares.iter().enumerate();
    Lines {
        title: format!(
            "{} of {} directions hold {} of the variance",
            grouped(spectrum.components),
            grouped(spectrum.dimensions),
            share(spectrum.explained)
        ),
        x_label: "directions kept".to_owned(),
        y_label: "share of the variance".to_owned(),
        y_range: Some((0.0, 1.0)),
        curves: vec![Curve::new(
            "explained variance",
            points.map(|(index, &share)| (index as f64 + 1.0, share)).collect(),
        )],
        marks: vec![PointMark {
            x: spectrum.components as f64,
            y: spectrum.explained,
            label: format!("q = {}", spectrum.components),
        }],
        ..Lines::default()
    }
}
