//! Fits from parts of the rows give the detector that a fit of all of them gives.

#![allow(clippy::unwrap_used)]

mod common;

use std::ops::Range;

use common::*;
use ndarray::{Array2, ArrayView2, s};
use offspan::io::{Dataset, Head, Labels, OwnedRows};
use offspan::{
    Detector, Error, FitOptions, FitPart, FitPlan, MethodSpec, Observer, PlanOptions, Promise,
    Result, Silent,
};

const ROWS: usize = 331;

/// Some rows with their logits and labels.
fn some(rows: ArrayView2<'_, f32>, range: Range<usize>) -> Dataset<'_> {
    let part = rows.slice_move(s![range.clone(), ..]);
    let labels: Vec<i64> = range.map(|row| row as i64 % 3).collect();
    Dataset::new("part", part)
        .with_logits(OwnedRows(logits(part)))
        .unwrap()
        .with_labels(Labels::from(labels.as_slice()))
        .unwrap()
}

/// Divisions of the rows: one part, three, seventeen of different sizes of which some are empty.
fn divisions() -> Vec<Vec<Range<usize>>> {
    let ends = |ends: &[usize]| -> Vec<Range<usize>> {
        let starts = std::iter::once(&0).chain(ends);
        starts.zip(ends).map(|(&start, &end)| start..end).collect()
    };
    let uneven = [1, 2, 2, 9, 30, 31, 100, 100, 101, 150, 160, 161, 200, 290, 300, 330, ROWS];
    vec![ends(&[ROWS]), ends(&[100, 110, ROWS]), ends(&uneven)]
}

/// A fit from parts that travel as bytes, as plans do, and are merged in an order of their own.
fn fit_from_parts(
    spec: &MethodSpec,
    rows: ArrayView2<'_, f32>,
    parts: &[Range<usize>],
    options: PlanOptions,
) -> Result<Detector> {
    let head = head(rows.ncols());
    let head = Head::new(head.weight().clone(), head.bias().clone()).unwrap();
    let mut plan = FitPlan::new(spec, Some(head), options)?;
    while plan.stage().is_some() {
        let sent = plan.to_bytes();
        let mut found = Vec::new();
        for range in parts {
            let plan = FitPlan::from_bytes(&sent)?;
            let part = plan.partial(&some(rows, range.clone()), range.start, &Silent)?;
            found.push(part.to_bytes());
        }
        // A tree: neighbours first, the last with the first.
        while found.len() > 1 {
            let last = found.pop().unwrap();
            let mut merged = FitPart::from_bytes(&last)?;
            merged.merge(&FitPart::from_bytes(&found.remove(0))?)?;
            found.push(merged.to_bytes());
        }
        plan = FitPlan::from_bytes(&sent)?;
        plan.advance(&FitPart::from_bytes(&found[0])?, &Silent)?;
    }
    FitPlan::from_bytes(&plan.to_bytes())?.finish()
}

/// Largest difference over the largest number; infinite ones must be the same.
fn gap(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let finite = |x: &&f64| x.is_finite();
    let size = a.iter().chain(b).filter(finite).fold(f64::MIN_POSITIVE, |m, x| m.max(x.abs()));
    a.iter().zip(b).fold(0.0, |m: f64, (a, b)| if a == b { m } else { m.max((a - b).abs() / size) })
}

/// Methods that keep rows or learn from them again and again.
fn needs_all_rows(name: &str) -> bool {
    [
        "exact",
        "given parts",
        "knn",
        "tnn",
        "nnguide",
        "autoencoder",
        "rff-opt",
        "dkgp",
        "trust",
        "lid",
        "relation",
        "actsub",
    ]
    .iter()
    .any(|part| name.contains(part))
}

/// Methods of networks that were trained for the purpose: plans carry no tensors of theirs.
fn needs_other_tensors(name: &str) -> bool {
    [
        "mcf",
        "mnc",
        "dml-plus",
        "godin",
        "csi",
        "knn-plus",
        "ssd-plus",
        "rank-feat",
        "rank-feat+rank-weight",
        "feature-norm",
        "davis-std",
        "davis-max",
    ]
    .contains(&name)
}

#[test]
fn every_method_that_sums_up_its_rows_can_be_fitted_from_parts() {
    let train = features(ROWS, WIDTH, 1);
    let new = features(60, WIDTH, 2);
    let head = head(WIDTH);
    let (mut fitted, mut refused) = (0, 0);
    let mut worst = Vec::new();
    for (name, spec) in every_method() {
        let hold_out = Some(0.2);
        let options = FitOptions { hold_out, ..FitOptions::default() };
        let data = some(train.view(), 0..ROWS);
        let head = Head::new(head.weight().clone(), head.bias().clone()).unwrap();
        let whole = Detector::fit(&spec, &data, Some(&head), &options);
        let plan = PlanOptions { hold_out, ..PlanOptions::default() };
        for parts in divisions() {
            let from_parts = fit_from_parts(&spec, train.view(), &parts, plan);
            let (whole, from_parts) = match (&whole, from_parts) {
                (Ok(whole), Ok(from_parts)) => (whole, from_parts),
                (Ok(_), Err(Error::Plan(_))) if needs_all_rows(&name) => {
                    refused += 1;
                    continue;
                }
                (Err(_), Err(_)) if needs_other_tensors(&name) || name == "gradorth" => continue,
                (Err(error), Err(other)) => {
                    assert_eq!(error.to_string(), other.to_string(), "{name}");
                    continue;
                }
                (Err(error), Ok(_)) => panic!("{name}: only the whole fit fails: {error}"),
                (Ok(_), Err(error)) => panic!("{name}: {} parts: {error}", parts.len()),
            };
            fitted += 1;
            let info = |detector: &Detector| detector.info().training.clone();
            assert_eq!(info(whole), info(&from_parts), "{name}");
            let (a, b) = (scores(whole, new.view()), scores(&from_parts, new.view()));
            // A whole number of rows in one part takes the same steps in the same order.
            let largest = if parts.len() == 1 { 0.0 } else { tolerance(&name) };
            if gap(&a, &b) > largest {
                worst.push(format!("{name}: {} parts: {:.1e}", parts.len(), gap(&a, &b)));
            }
            let threshold = |detector: &Detector| detector.threshold().unwrap().value;
            let thresholds = gap(&[threshold(whole)], &[threshold(&from_parts)]);
            if thresholds > 10.0 * largest {
                worst.push(format!("{name}: {} parts: thresholds {thresholds:.1e}", parts.len()));
            }
        }
    }
    assert!(worst.is_empty(), "{}", worst.join("\n"));
    assert!(fitted > 150 && refused > 20, "{fitted} fitted, {refused} refused");
}

/// Sums in another order differ in the last bits of `f64`. Weights in `f32` make more of it, and moments of
/// random features in `f32`, which are centred by the mean of some rows, still more.
fn tolerance(name: &str) -> f64 {
    let single = ["auto", "ensemble", "nys after scale"].contains(&name) || name.ends_with("f32");
    match (single, name.starts_with("rff") && name != "rff in fixed point f32") {
        (false, _) => 1e-9,
        (true, false) => 1e-6,
        (true, true) => 1e-5,
    }
}

/// A method that asks for several kinds of passes.
fn plan(method: &str) -> FitPlan {
    FitPlan::new(&MethodSpec::named(method).unwrap(), None, PlanOptions::default()).unwrap()
}

fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn rows_that_are_missing_doubled_or_of_another_shape_are_named() {
    let train = features(60, WIDTH, 1);
    let of = |range: Range<usize>| Dataset::new("part", train.slice(s![range, ..]));
    let mut plan = plan("pca");
    let first = plan.partial(&of(0..20), 0, &Silent).unwrap();
    assert_eq!(
        message(first.clone().merge(&plan.partial(&of(0..20), 10, &Silent).unwrap())),
        "rows 10 to 19 are in two parts: every row must be in one part of a pass"
    );
    let mut gap = first.clone();
    gap.merge(&plan.partial(&of(0..20), 30, &Silent).unwrap()).unwrap();
    assert_eq!(
        message(plan.advance(&gap, &Silent)),
        "rows 20 to 29 are in no part: merge the parts of all rows before the plan goes on"
    );
    let narrow = features(5, 4, 1);
    let narrow = plan.partial(&Dataset::new("narrow", narrow.view()), 20, &Silent).unwrap();
    assert_eq!(
        message(first.clone().merge(&narrow)),
        "rows 20 to 24: expected shape 11 features, no logits, no labels, as in other parts, got 4 \
         features, no logits, no labels"
    );
    let mut all = first.clone();
    all.merge(&plan.partial(&of(20..60), 20, &Silent).unwrap()).unwrap();
    plan.advance(&all, &Silent).unwrap();
    // The plan is at its second pass: parts of the first, of fewer and of more rows do not fit.
    assert_eq!(
        message(plan.advance(&all, &Silent)),
        "the part belongs to pass 1, and the plan is at pass 2"
    );
    let some = plan.partial(&of(0..59), 0, &Silent).unwrap();
    assert_eq!(
        message(plan.advance(&some, &Silent)),
        "rows 59 to 59 are in no part: merge the parts of all rows before the plan goes on"
    );
    assert_eq!(
        message(plan.partial(&of(0..30), 40, &Silent)),
        "rows 40 to 69 are given, and the first pass has seen 60 rows"
    );
    assert!(plan.clone().finish().is_err());
    // Nothing of this has harmed the plan.
    while plan.stage().is_some() {
        plan.advance(&plan.partial(&of(0..60), 0, &Silent).unwrap(), &Silent).unwrap();
    }
    assert!(plan.finish().is_ok());
}

#[test]
fn parts_of_another_plan_are_refused() {
    let train = features(60, WIDTH, 1);
    let data = Dataset::new("part", train.view());
    let part = plan("pca").partial(&data, 0, &Silent).unwrap();
    let mut other = plan("reg-pca");
    let expected = "the part belongs to another plan: its method, options or last layer differ";
    assert_eq!(message(other.advance(&part, &Silent)), expected);
    assert_eq!(message(part.clone().merge(&other.partial(&data, 60, &Silent).unwrap())), expected);
    let options = PlanOptions { seed: 1, ..PlanOptions::default() };
    let mut seeded = FitPlan::new(&MethodSpec::named("pca").unwrap(), None, options).unwrap();
    assert_eq!(message(seeded.advance(&part, &Silent)), expected);
    let mut bytes = part.to_bytes();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x20;
    assert!(FitPart::from_bytes(&bytes).is_err());
    assert!(FitPlan::from_bytes(&part.to_bytes()).is_err());
}

/// The first `passes` passes of a plan over these rows.
fn carried_out(mut plan: FitPlan, rows: &Array2<f32>, passes: usize) -> FitPlan {
    let data = Dataset::new("rows", rows.view());
    for _ in 0..passes {
        let part = plan.partial(&data, 0, &Silent).unwrap();
        plan.advance(&part, &Silent).unwrap();
    }
    plan
}

#[test]
fn a_part_of_the_same_plan_for_other_rows_is_refused() {
    let (ours, theirs) = (features(200, WIDTH, 1), features(200, WIDTH, 2));
    // What the passes before have found decides what the next one sums up.
    let mut plan = carried_out(plan("auto"), &ours, 3);
    let other = carried_out(self::plan("auto"), &theirs, 3);
    assert_eq!(plan.stage(), other.stage());
    let half = |rows| Dataset::new("half", ArrayView2::slice_move(rows, s![90.., ..]));
    let part = plan.partial(&half(ours.view()), 90, &Silent).unwrap();
    let wrong = other.partial(&Dataset::new("rows", theirs.slice(s![..90, ..])), 0, &Silent);
    let wrong = wrong.unwrap();
    let expected = "the part belongs to another fit with the same method and options: what its first 3 passes have \
                    found differs, so other rows or other parts were merged there";
    assert_eq!(message(part.clone().merge(&wrong)), expected);
    let whole = other.partial(&Dataset::new("rows", theirs.view()), 0, &Silent).unwrap();
    assert_eq!(message(plan.advance(&whole, &Silent)), expected);
    // As bytes, too.
    let sent = FitPlan::from_bytes(&plan.to_bytes()).unwrap();
    let right = sent.partial(&Dataset::new("rows", ours.slice(s![..90, ..])), 0, &Silent).unwrap();
    let mut all = FitPart::from_bytes(&part.to_bytes()).unwrap();
    all.merge(&right).unwrap();
    plan.advance(&all, &Silent).unwrap();
}

#[test]
fn copies_of_a_plan_go_on_with_rows_of_their_own() {
    let (ours, theirs) = (features(200, WIDTH, 1), features(200, WIDTH, 2));
    for method in ["auto", "pca"] {
        let begun = carried_out(plan(method), &ours, 1);
        // The copy goes first, and what it works out is its own.
        let copy = carried_out_to_the_end(begun.clone(), &theirs);
        let plan = carried_out_to_the_end(begun, &ours);
        for (detector, rows) in [(plan, &ours), (copy, &theirs)] {
            let alone = carried_out_to_the_end(self::plan(method), rows);
            assert_eq!(detector.to_bytes(), alone.to_bytes(), "{method}");
        }
    }
}

#[test]
fn a_step_that_fails_leaves_nothing_behind() {
    // All on a line: nothing is left beside it, so there are no residuals.
    let line = Array2::from_shape_fn((200, WIDTH), |(i, j)| ((i + 1) * (j + 1)) as f32);
    let rows = features(200, WIDTH, 1);
    let mut plan = carried_out(plan("pca"), &rows, 1);
    let wrong = plan.partial(&Dataset::new("line", line.view()), 0, &Silent).unwrap();
    plan.advance(&wrong, &Silent).unwrap_err();
    let alone = carried_out_to_the_end(self::plan("pca"), &rows);
    assert_eq!(carried_out_to_the_end(plan, &rows).to_bytes(), alone.to_bytes());
}

fn carried_out_to_the_end(plan: FitPlan, rows: &Array2<f32>) -> Detector {
    let mut plan = plan;
    while plan.stage().is_some() {
        plan = carried_out(plan, rows, 1);
    }
    plan.finish().unwrap()
}

#[test]
fn plans_and_parts_of_another_offspan_are_refused_in_words() {
    let train = features(60, WIDTH, 1);
    let data = Dataset::new("part", train.view());
    let mut plan = plan("pca");
    let here = env!("CARGO_PKG_VERSION");
    let sent = alter(&plan.to_bytes(), |json, _| json["made_by"] = "9.0.1".into());
    assert_eq!(
        message(FitPlan::from_bytes(&sent)),
        format!(
            "the plan was made by offspan 9.0.1, and this is offspan {here}: a fit needs the same version everywhere"
        )
    );
    let part = plan.partial(&data, 0, &Silent).unwrap();
    let other = alter(&part.to_bytes(), |json, _| json["about"]["of"]["made_by"] = "9.0.1".into());
    let other = FitPart::from_bytes(&other).unwrap();
    let expected = format!(
        "the part was made by offspan 9.0.1, and the fit is one of offspan {here}: a fit needs the same version \
         everywhere"
    );
    assert_eq!(message(part.clone().merge(&other)), expected);
    assert_eq!(message(plan.advance(&other, &Silent)), expected);
}

#[test]
fn plans_and_parts_of_another_version_are_refused_in_words() {
    let train = features(60, WIDTH, 1);
    let data = Dataset::new("part", train.view());
    let mut plan = plan("pca");
    plan.advance(&plan.partial(&data, 0, &Silent).unwrap(), &Silent).unwrap();
    let of_version =
        |bytes: &[u8], version: u32| alter(bytes, |json, _| json["version"] = version.into());
    let sent = plan.to_bytes();
    assert!(FitPlan::from_bytes(&alter(&sent, |_, _| ())).is_ok());
    assert_eq!(
        message(FitPlan::from_bytes(&of_version(&sent, 2))),
        "a plan of a fit: a plan of a fit of version 2; this program reads version 3: begin the fit again"
    );
    assert_eq!(
        message(FitPlan::from_bytes(&of_version(&sent, 4))),
        "a plan of a fit: a plan of a fit of version 4; this program reads version 3: a later offspan wrote it"
    );
    let part = plan.partial(&data, 0, &Silent).unwrap().to_bytes();
    assert!(FitPart::from_bytes(&alter(&part, |_, _| ())).is_ok());
    assert_eq!(
        message(FitPart::from_bytes(&of_version(&part, 3))),
        "a part of a fit: a part of a fit of version 3; this program reads version 2: a later offspan wrote it"
    );
}

#[test]
fn a_bad_row_is_named_by_its_number_among_all() {
    let mut train = features(60, WIDTH, 1);
    train[[47, 3]] = f32::NAN;
    let of = |range: Range<usize>| Dataset::new("part", train.slice(s![range, ..]));
    let mut plan = plan("pca");
    let mut all = plan.partial(&of(0..40), 0, &Silent).unwrap();
    all.merge(&plan.partial(&of(40..60), 40, &Silent).unwrap()).unwrap();
    plan.advance(&all, &Silent).unwrap();
    assert!(plan.partial(&of(0..40), 0, &Silent).is_ok());
    let error = message(plan.partial(&of(40..60), 40, &Silent));
    assert!(error.contains("row 47, column 3 is NaN"), "{error}");
}

#[test]
fn what_a_method_needs_is_asked_for_before_its_passes() {
    let train = features(60, WIDTH, 1);
    let data = Dataset::new("part", train.view());
    let beside = |what| format!("every part of the rows must have them ({what}=)");
    for (method, missing, hint) in [
        ("vim", "last layer", "head=".to_owned()),
        ("energy", "logits", beside("logits")),
        ("mahalanobis", "labels", beside("labels")),
    ] {
        let mut plan = plan(method);
        let part = plan.partial(&data, 0, &Silent).unwrap();
        let error = message(plan.advance(&part, &Silent));
        assert!(error.contains(missing) && error.ends_with(&hint), "{method}: {error}");
    }
    let mut plan = plan("knn");
    let part = plan.partial(&data, 0, &Silent).unwrap();
    let error = message(plan.advance(&part, &Silent));
    assert!(error.starts_with("knn reads its training rows again and again"), "{error}");
}

#[test]
fn the_same_partition_gives_the_same_bytes_again() {
    let train = features(200, WIDTH, 1);
    let data = Dataset::new("part", train.view());
    let mut plan = plan("auto");
    while plan.stage().is_some() {
        let part = plan.partial(&data, 0, &Silent).unwrap();
        let again = FitPlan::from_bytes(&plan.to_bytes()).unwrap();
        assert_eq!(part.to_bytes(), again.partial(&data, 0, &Silent).unwrap().to_bytes());
        plan.advance(&part, &Silent).unwrap();
    }
}

#[test]
fn notes_are_told_once() {
    struct Notes(std::sync::Mutex<Vec<String>>);
    impl Observer for Notes {
        fn note(&self, text: &str) {
            self.0.lock().unwrap().push(text.to_owned());
        }
    }
    let notes = Notes(Vec::new().into());
    let train = features(60, WIDTH, 1);
    let data = Dataset::new("part", train.view());
    let promise = Promise { keep: 0.999, confidence: 0.999 };
    let options = PlanOptions { promise, ..PlanOptions::default() };
    let mut plan = FitPlan::new(&MethodSpec::named("auto").unwrap(), None, options).unwrap();
    while plan.stage().is_some() {
        let part = plan.partial(&data, 0, &Silent).unwrap();
        plan.advance(&part, &notes).unwrap();
    }
    let notes = notes.0.into_inner().unwrap();
    let of_threshold = notes.iter().filter(|note| note.starts_with("no threshold")).count();
    assert_eq!(of_threshold, 1, "{notes:?}");
}

#[test]
fn parts_grow_with_the_map_and_not_with_the_rows() {
    let size = |rows: usize| {
        let train: Array2<f32> = features(rows, WIDTH, 1);
        let data = Dataset::new("part", train.view());
        let mut plan = plan("kpca-rff");
        let mut largest = 0;
        while plan.stage().is_some() {
            let part = plan.partial(&data, 0, &Silent).unwrap();
            largest = largest.max(part.to_bytes().len());
            plan.advance(&part, &Silent).unwrap();
        }
        largest
    };
    let (few, many) = (size(500), size(2000));
    assert!(many < few + few / 100, "{few} and {many} bytes");
}
