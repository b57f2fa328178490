//! Training rows divided into rows to fit on, rows to keep and rows to refuse.

use ndarray::{Array2, ArrayView1, Axis};
use offspan::io::{Dataset, FeatureSource, Head, Labels, OwnedRows, read_rows};
use offspan::{random_order, uniform_rows};

use super::{Criterion, Settings};
use crate::evaluation::Sets;
use crate::{Result, StudyError};

/// Of the in-distribution rows, one of so many is kept out of the fit.
const TEST_EVERY: usize = 4;
/// One class of so many is left out.
const ONE_CLASS_OF: usize = 5;
/// A network that tells fewer classes apart has none to spare.
const FEWEST_CLASSES: usize = 3;
/// Fewer rows than this show nothing.
const FEWEST_ROWS: usize = 100;

/// One division.
pub(super) struct Trial<'a> {
    pub(super) train: Dataset<'static>,
    test: Dataset<'static>,
    ood_rows: Vec<Dataset<'static>>,
    given: &'a [Dataset<'a>],
    pub(super) head: Option<Head>,
}

impl Trial<'_> {
    pub(super) fn sets(&self) -> Sets<'_> {
        let ood = if self.given.is_empty() { &self.ood_rows } else { self.given };
        Sets::new(&self.train, &self.test, ood, self.head.as_ref())
    }
}

/// What the candidates are judged by, the number of rows used, and the divisions.
pub(super) fn make<'a>(
    train: &Dataset<'_>,
    head: Option<&Head>,
    settings: &Settings<'a>,
) -> Result<(Criterion, usize, Vec<Trial<'a>>)> {
    let rows = train.rows().min(settings.rows);
    if rows < FEWEST_ROWS {
        return Err(StudyError::Library(offspan::Error::TooFewRows {
            what: format!("tuning on {}", train.name()),
            expected: FEWEST_ROWS,
            got: rows,
        }));
    }
    settings.observer.begin("rows to compare with", 0);
    let sample = Sample::of(train, head, rows, settings.seed)?;
    if !settings.validate.is_empty() {
        for given in settings.validate {
            if given.width() != train.width() {
                return Err(StudyError::Setup(format!(
                    "{}: expected {} columns, as the training rows have, got {}",
                    given.name(),
                    train.width(),
                    given.width()
                )));
            }
        }
        let all: Vec<usize> = (0..rows).collect();
        let trial = sample.divided(&all, settings.seed, Vec::new())?;
        let trial = Trial { given: settings.validate, ..trial };
        return Ok((Criterion::Given, rows, vec![trial]));
    }
    let seed_of = |number: usize| settings.seed.wrapping_add(number as u64);
    match &sample.classes {
        Some((classes, known)) if known.len() >= FEWEST_CLASSES => {
            let count = (known.len() / ONE_CLASS_OF).max(1);
            let trials = (0..settings.trials).map(|trial| {
                let out = (trial * count..(trial + 1) * count).map(|position| {
                    // Each class is left out as often as any other, in another order each time round.
                    let order = random_order(known.len(), seed_of(position / known.len()));
                    known[order[position % known.len()]]
                });
                sample.without_classes(classes, &out.collect::<Vec<_>>(), seed_of(trial))
            });
            Ok((Criterion::LeftOutClasses, rows, trials.collect::<Result<_>>()?))
        }
        _ => {
            if sample.logits.is_some() && sample.head.is_none() {
                settings.observer.note(
                    "rows mixed from two rows have no logits unless the last layer is given (--head \
                     FILE): settings are compared without logits",
                );
            }
            let trials = (0..settings.trials).map(|trial| sample.with_mixed_rows(seed_of(trial)));
            Ok((Criterion::MixedRows, rows, trials.collect::<Result<_>>()?))
        }
    }
}

/// Some of the training rows with what belongs to them.
struct Sample {
    name: String,
    features: Array2<f32>,
    logits: Option<Array2<f32>>,
    labels: Option<Vec<i64>>,
    head: Option<Head>,
    /// The class of each row, and the classes that there are.
    classes: Option<(Vec<usize>, Vec<usize>)>,
}

impl Sample {
    fn of(train: &Dataset<'_>, head: Option<&Head>, count: usize, seed: u64) -> Result<Self> {
        let rows = uniform_rows(train.rows(), count, seed)?;
        let gather = |source: &dyn FeatureSource| -> Result<Array2<f32>> {
            let mut out = Array2::zeros((rows.len(), source.width()));
            for (i, &row) in rows.iter().enumerate() {
                out.row_mut(i).assign(&read_rows::<f32>(source, row..row + 1)?.row(0));
            }
            Ok(out)
        };
        let features = gather(train.features())?;
        let logits = train.logits().map(gather).transpose()?;
        let labels = train
            .labels()
            .as_ref()
            .map(|labels| -> Result<Vec<i64>> {
                let read = |&row: &usize| Ok(labels.read(row..row + 1)?[0]);
                rows.iter().map(read).collect()
            })
            .transpose()?;
        let outputs = match (&logits, head) {
            (Some(logits), _) => Some(logits.clone()),
            (None, Some(head)) => Some(outputs_of(head, &features)),
            (None, None) => None,
        };
        let classes = match (&labels, outputs) {
            (Some(labels), _) if labels.iter().all(|&label| label >= 0) => {
                Some(labels.iter().map(|&label| label as usize).collect::<Vec<_>>())
            }
            (_, Some(outputs)) => Some(outputs.rows().into_iter().map(largest).collect()),
            _ => None,
        };
        let outputs = logits.as_ref().map(Array2::ncols).or(head.map(Head::classes));
        if let (Some(outputs), Some(largest)) =
            (outputs, classes.as_ref().and_then(|classes: &Vec<usize>| classes.iter().max()))
            && *largest >= outputs
        {
            let what = format!(
                "labels of {}: expected numbers below {outputs}, the outputs of the network, got {largest}",
                train.name()
            );
            return Err(StudyError::Setup(what));
        }
        let classes = classes.map(|classes| {
            let mut known = classes.clone();
            known.sort_unstable();
            known.dedup();
            (classes, known)
        });
        let head = head.cloned();
        Ok(Sample { name: train.name().to_owned(), features, logits, labels, head, classes })
    }

    /// These rows as in-distribution ones, some for the fit and some not, beside OoD rows.
    fn divided<'a>(
        &self,
        rows: &[usize],
        seed: u64,
        ood_rows: Vec<Dataset<'static>>,
    ) -> Result<Trial<'a>> {
        let (test, train) = division(rows, seed);
        Ok(Trial {
            train: self.rows(&train)?,
            test: self.rows(&test)?,
            ood_rows,
            given: &[],
            head: self.head.clone(),
        })
    }

    fn rows(&self, rows: &[usize]) -> Result<Dataset<'static>> {
        let take = |from: &Array2<f32>| OwnedRows(from.select(Axis(0), rows));
        let mut data = Dataset::new(self.name.clone(), take(&self.features));
        if let Some(logits) = &self.logits {
            data = data.with_logits(take(logits))?;
        }
        if let Some(labels) = &self.labels {
            let labels: Vec<i64> = rows.iter().map(|&row| labels[row]).collect();
            data = data.with_labels(Labels::from(labels.as_slice()))?;
        }
        Ok(data)
    }

    /// The rows of these classes as OoD rows, to a network that has no output for them.
    fn without_classes<'a>(
        &self,
        classes: &[usize],
        out: &[usize],
        seed: u64,
    ) -> Result<Trial<'a>> {
        let (ood_rows, rows): (Vec<usize>, Vec<usize>) =
            (0..classes.len()).partition(|&row| out.contains(&classes[row]));
        let kept = |count: usize| -> Vec<usize> {
            (0..count).filter(|class| !out.contains(class)).collect()
        };
        let new_number =
            |label: i64| label - out.iter().filter(|&&class| (class as i64) < label).count() as i64;
        let network = Sample {
            name: self.name.clone(),
            features: self.features.clone(),
            logits: self.logits.as_ref().map(|l| l.select(Axis(1), &kept(l.ncols()))),
            labels: self.labels.as_ref().map(|l| l.iter().map(|&l| new_number(l)).collect()),
            head: self
                .head
                .as_ref()
                .map(|head| {
                    let kept = kept(head.classes());
                    Head::new(
                        head.weight().select(Axis(0), &kept),
                        head.bias().select(Axis(0), &kept),
                    )
                })
                .transpose()?,
            classes: None,
        };
        let ood_rows = vec![network.rows(&ood_rows)?];
        network.divided(&rows, seed, ood_rows)
    }

    /// OoD rows of which each channel comes from one of two rows.
    fn with_mixed_rows<'a>(&self, seed: u64) -> Result<Trial<'a>> {
        let count = self.features.nrows();
        // Outputs of mixed rows take the last layer; without it, nobody may see outputs.
        let plain = Sample {
            name: self.name.clone(),
            features: self.features.clone(),
            logits: None,
            labels: self.labels.clone(),
            head: self.head.clone(),
            classes: None,
        };
        let all: Vec<usize> = (0..count).collect();
        // Of rows that the fit does not see either: others would be known to it by halves.
        let (parents, _) = division(&all, seed);
        let channels = self.features.ncols();
        let mut mixed = Array2::zeros((parents.len(), channels));
        for (i, mut row) in mixed.rows_mut().into_iter().enumerate() {
            let pair = [parents[i], parents[(i + 1) % parents.len()]];
            // Another half of the channels for each row.
            let order = random_order(channels, seed.wrapping_add(i as u64));
            for (rank, channel) in order.into_iter().enumerate() {
                row[channel] = self.features[[pair[rank % 2], channel]];
            }
        }
        plain.divided(&all, seed, vec![Dataset::new("mixed rows", OwnedRows(mixed))])
    }
}

/// Rows to test on and rows to fit on, in a random order: rows often come sorted or in turns.
fn division(rows: &[usize], seed: u64) -> (Vec<usize>, Vec<usize>) {
    let order = random_order(rows.len(), seed);
    let (test, train) = order.split_at(rows.len().div_ceil(TEST_EVERY));
    let pick = |part: &[usize]| part.iter().map(|&position| rows[position]).collect();
    (pick(test), pick(train))
}

/// The network's outputs.
fn outputs_of(head: &Head, features: &Array2<f32>) -> Array2<f32> {
    let outputs = features.mapv(f64::from).dot(&head.weight().t()) + head.bias();
    outputs.mapv(|output| output as f32)
}

/// The class with the largest output.
fn largest(outputs: ArrayView1<'_, f32>) -> usize {
    let better = |best: usize, (class, &output): (usize, &f32)| {
        if output > outputs[best] { class } else { best }
    };
    outputs.iter().enumerate().fold(0, better)
}

#[cfg(test)]
mod tests {
    use super::*;
    use offspan::Silent;

    const ROWS: usize = 400;
    const CLASSES: usize = 10;

    fn settings(trials: usize) -> Settings<'static> {
        Settings {
            methods: Vec::new(),
            values: Vec::new(),
            rows: 1000,
            trials,
            seed: 3,
            validate: &[],
            observer: &Silent,
        }
    }

    /// Row i is of class i mod 10, which its features, logits and label all tell.
    fn train() -> (Dataset<'static>, Head) {
        let features = Array2::from_shape_fn((ROWS, CLASSES), |(i, j)| {
            if i % CLASSES == j { 5.0 } else { (i / CLASSES) as f32 / 100.0 }
        });
        let labels: Vec<i64> = (0..ROWS).map(|i| (i % CLASSES) as i64).collect();
        let head = Head::new(Array2::eye(CLASSES), ndarray::Array1::zeros(CLASSES)).unwrap();
        let data = Dataset::new("train", OwnedRows(features.clone()))
            .with_logits(OwnedRows(features))
            .unwrap()
            .with_labels(Labels::from(labels.as_slice()))
            .unwrap();
        (data, head)
    }

    #[test]
    fn left_out_classes_leave_the_rows_and_the_outputs() {
        let (data, head) = train();
        let (criterion, rows, trials) = make(&data, Some(&head), &settings(5)).unwrap();
        assert_eq!((criterion, rows, trials.len()), (Criterion::LeftOutClasses, ROWS, 5));
        let mut out = Vec::new();
        for trial in &trials {
            let sets = trial.sets();
            assert_eq!(sets.train.rows() + sets.test.rows(), 320);
            assert_eq!(sets.ood[0].rows(), 80);
            assert_eq!(sets.head.unwrap().classes(), 8);
            assert_eq!(sets.train.logits().unwrap().width(), 8);
            // A kept row's own output is the largest, under its new number.
            let logits: Array2<f32> = read_rows(sets.train.logits().unwrap(), 0..1).unwrap();
            let label = sets.train.labels().unwrap().read(0..1).unwrap()[0];
            assert_eq!(largest(logits.row(0)) as i64, label);
            // OoD rows have none of their own.
            let logits = sets.ood[0].logits().unwrap();
            let logits: Array2<f32> = read_rows(logits, 0..80).unwrap();
            assert!(logits.iter().all(|&output| output < 5.0));
            let features: Array2<f32> = read_rows(sets.ood[0].features(), 0..80).unwrap();
            out.extend(features.rows().into_iter().map(largest));
        }
        out.sort_unstable();
        out.dedup();
        assert_eq!(out.len(), CLASSES, "each class is left out once");
    }

    #[test]
    fn classes_that_come_in_turns_are_on_both_sides_and_no_trial_repeats() {
        let (data, head) = train();
        let (_, _, trials) = make(&data, Some(&head), &settings(15)).unwrap();
        let labels =
            |data: &Dataset<'_>| data.labels().unwrap().read(0..data.rows()).unwrap().to_vec();
        let classes = |data: &Dataset<'_>| {
            let mut labels = labels(data);
            labels.sort_unstable();
            labels.dedup();
            labels.len()
        };
        for (i, trial) in trials.iter().enumerate() {
            assert_eq!((classes(&trial.train), classes(&trial.test)), (8, 8));
            assert!(trials[..i].iter().all(|other| labels(&other.test) != labels(&trial.test)));
        }
    }

    #[test]
    fn labels_beyond_the_outputs_are_refused() {
        let (data, _) = train();
        let few = Head::new(Array2::eye(CLASSES), ndarray::Array1::zeros(CLASSES)).unwrap();
        let features: Array2<f32> = read_rows(data.features(), 0..ROWS).unwrap();
        let labels: Vec<i64> = (0..ROWS).map(|i| 100 + (i % CLASSES) as i64).collect();
        let data = Dataset::new("train", OwnedRows(features));
        let data = data.with_labels(Labels::from(labels.as_slice())).unwrap();
        let error = make(&data, Some(&few), &settings(2)).err().unwrap().to_string();
        assert!(error.contains("below 10") && error.contains("109"), "{error}");
    }

    #[test]
    fn without_classes_ood_rows_are_mixed_from_two_rows() {
        let (data, _) = train();
        let features: Array2<f32> = read_rows(data.features(), 0..ROWS).unwrap();
        let plain = Dataset::new("train", OwnedRows(features));
        let (criterion, _, trials) = make(&plain, None, &settings(2)).unwrap();
        assert_eq!((criterion, trials.len()), (Criterion::MixedRows, 2));
        let ood_rows: Array2<f32> = read_rows(trials[0].sets().ood[0].features(), 0..100).unwrap();
        let peaks = |row: ArrayView1<'_, f32>| row.iter().filter(|&&value| value == 5.0).count();
        assert!(ood_rows.rows().into_iter().any(|row| peaks(row) != 1));
    }

    #[test]
    fn given_ood_rows_are_used_as_they_are_and_few_rows_refused() {
        let (data, head) = train();
        let (given, _) = train();
        let given = [given];
        let settings = Settings { validate: &given, ..settings(5) };
        let (criterion, _, trials) = make(&data, Some(&head), &settings).unwrap();
        assert_eq!((criterion, trials.len()), (Criterion::Given, 1));
        assert_eq!(trials[0].sets().ood[0].rows(), ROWS);
        assert_eq!(trials[0].sets().test.rows(), ROWS / TEST_EVERY);
        let few = Dataset::new("few", OwnedRows(Array2::<f32>::ones((99, 2))));
        assert!(make(&few, None, &settings).is_err());
    }
}
