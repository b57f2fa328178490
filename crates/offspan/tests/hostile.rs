//! Numbers that are finite and yet hard: every method gives scores, or a sentence. None gives a NaN, none panics, and what a
//! fit gives can be saved and read again.

#![allow(clippy::unwrap_used)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::*;
use ndarray::{Array1, Array2, ArrayView2, Axis, s};
use offspan::io::{Dataset, FeatureSource, Head, Labels, LastBlock, OwnedRows};
use offspan::{Detector, MethodSpec, Silent};
use rayon::prelude::*;

/// Rows to fit to and rows to score, with what belongs to them.
struct Situation {
    name: &'static str,
    train: Array2<f32>,
    new: Array2<f32>,
    labels: Vec<i64>,
    classes: usize,
}

const ROWS: usize = 60;

/// The situation in which every method must fit, and score all rows.
const PLAIN: &str = "nothing special";

impl Situation {
    /// Nothing special: it is changed into something that is.
    fn plain(name: &'static str) -> Self {
        let labels = (0..ROWS as i64).map(|row| row % 3).collect();
        let (train, new) = (features(ROWS, WIDTH, 1), features(12, WIDTH, 2));
        Situation { name, train, new, labels, classes: 4 }
    }

    /// All numbers changed, also those of the rows to score.
    fn all(name: &'static str, change: impl Fn((usize, usize), f32) -> f32) -> Self {
        let mut situation = Self::plain(name);
        for rows in [&mut situation.train, &mut situation.new] {
            rows.indexed_iter_mut().for_each(|(place, x)| *x = change(place, *x));
        }
        situation
    }

    /// One row of the training rows and one of the rows to score changed.
    fn one(name: &'static str, value: impl Fn(usize) -> f32) -> Self {
        let mut situation = Self::plain(name);
        for rows in [&mut situation.train, &mut situation.new] {
            rows.row_mut(5).iter_mut().enumerate().for_each(|(j, x)| *x = value(j));
        }
        situation
    }

    fn with_labels(name: &'static str, classes: usize, label: impl Fn(i64) -> i64) -> Self {
        let labels = (0..ROWS as i64).map(label).collect();
        Situation { labels, classes, ..Self::plain(name) }
    }

    fn rows(name: &'static str, rows: usize) -> Self {
        let mut situation = Self::plain(name);
        situation.train = situation.train.slice(s![..rows, ..]).to_owned();
        situation.labels.truncate(rows);
        situation
    }

    fn head(&self) -> Head {
        let mut noise = Noise(77);
        let weight = Array2::from_shape_simple_fn((self.classes, WIDTH), || noise.next() - 0.5);
        let bias = Array1::from_shape_fn(self.classes, |c| 0.1 * (c % 5) as f64);
        let block = LastBlock {
            weight: Array2::from_shape_simple_fn((WIDTH, 5), || 2.0 * noise.next() - 1.0),
            scale: Array1::from_elem(WIDTH, 0.9),
            shift: Array1::from_elem(WIDTH, 0.1),
        };
        Head::new(weight, bias).unwrap().with_block(block).unwrap()
    }

    /// Rows with everything that a method may ask for.
    fn dataset<'a>(&self, rows: &'a Array2<f32>, labels: &[i64]) -> Dataset<'a> {
        let head = self.head();
        let logits = rows.mapv(f64::from).dot(&head.weight().t()) + head.bias();
        // As a network in single precision would give them, cut where they leave its range.
        let logits = logits.mapv(|x| x.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32);
        let plain = whole_dataset("rows", rows.view());
        let mut data = Dataset::new("rows", rows.view())
            .with_logits(OwnedRows(logits))
            .unwrap()
            .with_labels(Labels::from(labels))
            .unwrap();
        for (name, extra) in plain.extras() {
            let mut values = Array2::zeros((rows.nrows(), extra.rows.width()));
            extra.rows.read_f32(0, values.view_mut()).unwrap();
            // They are made from the rows, whose numbers may be too large for that.
            values.mapv_inplace(|x: f32| if x.is_finite() { x } else { 3e38 });
            data = data.with_extra(name.clone(), OwnedRows(values), &extra.shape).unwrap();
        }
        data
    }
}

fn situations() -> Vec<Situation> {
    let mut all = vec![
        Situation::plain(PLAIN),
        Situation::all("all subnormal", |_, x| x * 1e-40),
        Situation::all("all at 1e38", |_, x| x * 1.5e38),
        Situation::all("all at -1e38", |_, x| x * -1.5e38),
        Situation::all("all at 1e19", |_, x| x * 1e19),
        Situation::all("all at 1e-20", |_, x| x * 1e-20),
        Situation::all("columns from 1e-30 to 1e30", |(_, j), x| x * 10f32.powi(6 * j as i32 - 30)),
        Situation::all("constant columns", |(_, j), x| match j % 3 {
            0 => 0.0,
            1 => 1.0,
            _ => x,
        }),
        Situation::all("rank 1", |(i, j), _| (1 + i) as f32 * (0.1 + j as f32)),
        Situation::all("two rows, many times", |(i, j), _| ((i % 2) * 3 + j) as f32 * 0.3 + 0.1),
        Situation::all("one row, many times", |(_, j), _| j as f32 * 0.3 + 0.1),
        Situation::all("zeros and a few ones", |(i, j), _| f32::from(u8::from(j == i % WIDTH))),
        Situation::one("a subnormal row", |_| 1e-42),
        Situation::one("a row at 1e38", |j| if j % 2 == 0 { 3e38 } else { -3e38 }),
        Situation::one("a row of zeros", |_| 0.0),
        Situation::one("a row of one huge number", |j| if j == 3 { 1e30 } else { 0.0 }),
        Situation::with_labels("one class", 4, |_| 0),
        Situation::with_labels("two classes", 2, |row| row % 2),
        Situation::with_labels("one logit", 1, |_| 0),
        Situation::with_labels("labels with gaps", 4, |row| [0, 3, 1][row as usize % 3]),
        Situation::with_labels("labels beyond the logits", 4, |row| {
            [0, 7, 1_000_000][row as usize % 3]
        }),
        Situation::with_labels("negative labels", 4, |row| row % 3 - 1),
        Situation::with_labels("a class of its own for each row", ROWS, |row| row),
        Situation::rows("as many rows as columns", WIDTH),
        Situation::rows("as many rows as landmarks", 20),
        Situation::rows("two rows", 2),
        Situation::rows("one row", 1),
    ];
    // Rows to score that lie where no training row is.
    let mut far = Situation::plain("new rows at 1e38 and in between");
    for (i, mut row) in far.new.axis_iter_mut(Axis(0)).enumerate() {
        row *= [1.0, 1e-45, 1e-30, 1e6, 1e12, 1e18, 1e25, 1e37, -1e37, -1.0, 0.0, 1e-38][i % 12];
    }
    all.push(far);
    all
}

/// What is wrong with a method in a situation, if anything is.
fn wrong(name: &str, spec: &MethodSpec, situation: &Situation) -> Option<String> {
    let told = |text: String| Some(format!("{name}, {}: {text}", situation.name));
    let fitted = catch_unwind(AssertUnwindSafe(|| {
        let head = situation.head();
        let train = situation.dataset(&situation.train, &situation.labels);
        let detector = Detector::fit(spec, &train, Some(&head), &whole_fit())?;
        let again = Detector::from_bytes(&detector.to_bytes());
        let labels = vec![0; situation.new.nrows()];
        let new = situation.dataset(&situation.new, &labels);
        let mut scores = vec![(detector.score_dataset(&train, &Silent), situation.train.view())];
        scores.push((detector.score_dataset(&new, &Silent), situation.new.view()));
        Ok::<_, offspan::Error>((
            again.map(drop),
            scores
                .into_iter()
                .map(|of| judged(name, of, situation.name == PLAIN))
                .collect::<Vec<_>>(),
        ))
    }));
    match fitted {
        Err(_) => told("it panicked".to_owned()),
        Ok(Err(error)) if error.to_string().is_empty() => told("an empty sentence".to_owned()),
        // Numbers with nothing special about them are no reason to refuse.
        Ok(Err(error)) if situation.name == PLAIN => told(error.to_string()),
        Ok(Err(_)) => None,
        Ok(Ok((Err(error), _))) => told(format!("what it saved cannot be read: {error}")),
        Ok(Ok((Ok(()), judged))) => judged.into_iter().flatten().next().and_then(told),
    }
}

/// Methods that divide by the distance to a row's own class, which is 0 for training rows, or by the spread of rows.
const MOST_INSIDE: [&str; 2] = ["trust", "mme"];

/// Scores are numbers. −∞ says that a row has no direction, or is further off than numbers reach.
fn judged(
    name: &str,
    (scores, rows): (offspan::Result<Vec<f64>>, ArrayView2<'_, f32>),
    must_succeed: bool,
) -> Option<String> {
    let scores = match scores {
        Ok(scores) => scores,
        Err(error) => return must_succeed.then(|| error.to_string()),
    };
    for (score, row) in scores.iter().zip(rows.outer_iter()) {
        let allowed = score.is_finite()
            || *score == f64::NEG_INFINITY
            || *score == f64::INFINITY && MOST_INSIDE.contains(&name);
        if !allowed {
            return Some(format!("a score of {score} for the row {row}"));
        }
    }
    None
}

#[test]
fn every_method_gives_scores_or_a_sentence_whatever_the_numbers() {
    let (methods, situations) = (every_method(), situations());
    let pairs: Vec<_> =
        methods.iter().flat_map(|method| situations.iter().map(move |s| (method, s))).collect();
    let faults: Vec<String> =
        pairs.par_iter().filter_map(|((name, spec), s)| wrong(name, spec, s)).collect();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), pairs.len(), faults.join("\n"));
}

/// The methods that know classes, with as many of them as ImageNet-21k has in its usual part.
#[test]
fn ten_thousand_classes_are_no_trouble() {
    let situation = Situation { classes: 10_000, ..Situation::plain("10,000 classes") };
    let faults: Vec<String> = offspan::CATALOGUE
        .par_iter()
        .filter_map(|method| {
            let spec = MethodSpec::named(method.name).unwrap();
            wrong(method.name, &spec, &situation)
        })
        .collect();
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}
