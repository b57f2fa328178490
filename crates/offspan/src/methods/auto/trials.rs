//! How well each term tells classes that it does not know from those that it knows.
//!
//! In each trial a fifth of the classes is left out: the fit does not see their rows, and the network's
//! outputs for them are taken away. What is left is fitted anew, on three quarters of the other rows;
//! the last quarter is the in-distribution side. Every class is left out once, so that it is not by chance
//! which ones are. Left-out classes cannot choose one term: the network knew them. But they can weigh several.

use ndarray::Axis;

use super::AutoParams;
use super::evidence::Evidence;
use super::sample::{Sample, without_gaps};
use super::term::Term;
use crate::Result;
use crate::io::observer::{Silent, check_interrupt};
use crate::io::{Dataset, Gathered, Head};
use crate::methods::kpca;
use crate::numeric::random::{Random, Stream};
use crate::numeric::ranks::share_of_larger;
use crate::training::Training;

/// Trials, each without other classes; fewer where there are fewer classes.
const TRIALS: usize = 5;
/// Fewer classes cannot spare one.
const FEWEST_CLASSES: usize = 3;
/// Rows of all trials' sides together, and how few say nothing.
const MOST_ROWS: usize = 4000;
const MOST_LEFT_OUT: usize = 1500;
const FEWEST_ROWS: usize = 20;
/// Landmarks of a trial: the order of the terms does not need more.
const MOST_LANDMARKS: usize = 256;

/// The mean AUROC of each term of `whole`, the evidence of a fit to all classes; none if there are too few
/// classes or rows.
pub(super) fn trials(
    params: &AutoParams,
    gamma: f64,
    training: &Training<'_>,
    sample: &Sample,
    whole: &Evidence,
) -> Result<Option<Vec<f64>>> {
    let terms = whole.terms();
    let classes = sample.count();
    if classes < FEWEST_CLASSES {
        return Ok(None);
    }
    let trials = TRIALS.min(classes);
    training.observer.begin("what each term is worth", trials as u64);
    let mut random = Random::new(params.seed, Stream::Trials);
    let mut order = |count: usize| -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        order
    };
    let mut members = order(sample.numbers.len());
    members.truncate(MOST_ROWS);
    let shuffled = order(classes);
    let mut sums = vec![0.0; terms.len()];
    let mut done = 0;
    for trial in 0..trials {
        check_interrupt(training.observer)?;
        let left_out: Vec<usize> = shuffled.iter().copied().skip(trial).step_by(trials).collect();
        let sides = Sides::of(sample, &members, &left_out);
        if let Some(found) = sides.judge(params, gamma, (training, whole), sample, &left_out)? {
            for (sum, term) in sums.iter_mut().zip(&terms) {
                let place = found.iter().find(|(other, _)| other == term);
                *sum += place.map_or(0.5, |(_, auroc)| *auroc);
            }
            done += 1;
        }
        training.observer.advance(1);
    }
    Ok((done > 0).then(|| sums.into_iter().map(|sum| sum / f64::from(done)).collect()))
}

/// The rows of a trial, by their place in the sample.
struct Sides {
    fit: Vec<usize>,
    inside: Vec<usize>,
    outside: Vec<usize>,
}

impl Sides {
    fn of(sample: &Sample, members: &[usize], left_out: &[usize]) -> Self {
        let (mut outside, known): (Vec<usize>, Vec<usize>) =
            members.iter().partition(|&&member| left_out.contains(&sample.classes[member]));
        outside.truncate(MOST_LEFT_OUT);
        let (inside, fit) = known.split_at(known.len() / 4);
        let ascending = |mut members: Vec<usize>| {
            members.sort_unstable();
            members
        };
        Sides {
            fit: ascending(fit.to_vec()),
            inside: ascending(inside.to_vec()),
            outside: ascending(outside),
        }
    }

    /// AUROC of each term that this trial has.
    fn judge(
        &self,
        params: &AutoParams,
        gamma: f64,
        (training, whole): (&Training<'_>, &Evidence),
        sample: &Sample,
        left_out: &[usize],
    ) -> Result<Option<Vec<(Term, f64)>>> {
        if [&self.inside, &self.outside].iter().any(|side| side.len() < FEWEST_ROWS) {
            return Ok(None);
        }
        let head = whole.energy.as_ref().and_then(|energy| energy.head());
        let kept = sample.outputs.as_ref().map(|outputs| {
            let gone: Vec<usize> = left_out.iter().map(|&class| outputs[class]).collect();
            let width = head.map(Head::classes);
            let count =
                width.or_else(|| training.data.logits.as_ref().map(|logits| logits.width()));
            (0..count.unwrap_or(0)).filter(|class| !gone.contains(class)).collect::<Vec<_>>()
        });
        let head = match (head, &kept) {
            (Some(head), Some(kept)) => Some(head.only(kept)?),
            _ => None,
        };
        let gathered = |members: &[usize]| -> Result<Gathered> {
            let numbers: Vec<usize> =
                members.iter().map(|&member| sample.numbers[member]).collect();
            let rows = Gathered::new(training.data, &numbers, &[])?;
            Ok(match (&head, &kept) {
                // Logits of the left-out classes would tell of them; the last layer gives the others.
                (Some(_), _) | (_, None) => rows.without_logits(),
                (None, Some(kept)) => rows.with_logits_of(kept),
            })
        };
        let (fit, inside, outside) =
            (gathered(&self.fit)?, gathered(&self.inside)?, gathered(&self.outside)?);
        let (fit, inside, outside) = (fit.dataset()?, inside.dataset()?, outside.dataset()?);
        let trial = Training::new(&fit, head.as_ref(), &Silent);
        let classes: Vec<usize> = self.fit.iter().map(|&member| sample.classes[member]).collect();
        let (classes, _) = without_gaps(&classes);
        let rows = Sample { numbers: (0..fit.rows()).collect(), classes, outputs: None };
        let landmarks =
            params.landmarks.unwrap_or(MOST_LANDMARKS).min(MOST_LANDMARKS).min(fit.rows());
        let rows = (&rows, whole.spaces.as_ref());
        let kpca = kpca::fit(&params.kpca(gamma, landmarks)?, &trial)?.model;
        let evidence = Evidence::fit(params, kpca, &trial, rows, &inside)?;
        let terms = evidence.terms();
        let columns = |data: &Dataset<'_>| -> Result<Vec<Vec<f64>>> {
            let mut read = evidence.read_all(data)?;
            for (&term, mut column) in terms.iter().zip(read.columns_mut()) {
                // Without its own output, a class that the network was trained with has next to no energy: rows of
                // no class keep more. What the other outputs say of it is what they would say of any row.
                if let (Term::Energy, Some(energy)) = (term, &evidence.energy) {
                    column.assign(&energy.confidences(data)?);
                }
            }
            Ok(read.axis_iter(Axis(1)).map(|column| column.to_vec()).collect())
        };
        let (inside, outside) = (columns(&inside)?, columns(&outside)?);
        let aurocs = inside.iter().zip(&outside).map(|(a, b)| share_of_larger(a, b).unwrap_or(0.5));
        Ok(Some(terms.iter().copied().zip(aurocs).collect()))
    }
}
