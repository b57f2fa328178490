//! Fits whose rows are elsewhere: passes that others carry out, one after the other.
//!
//! A fit is a function that asks for passes over its rows ([`Training::pass`]) and computes with what they
//! find. With all rows at hand a pass is a call. Otherwise the fit begins anew each time: what earlier passes
//! found is known and handed out, and the first pass that nobody has carried out yet stops it
//! ([`Error::Paused`]). On a machine that has some of the rows, that pass is carried out on them first. So
//! one function is the fit on one machine and on thousands, and no method knows which.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use ndarray::{Array2, Axis};

use super::part::{ChosenRows, Field, Part};
use super::{HoldOut, Training};
use crate::io::{AtHand, Dataset, FeatureSource, Labels, OwnedRows, gather};
use crate::training::statistics::labels_of;
use crate::{Error, Real, Result};

/// What the passes of a fit have found, and the one that is next.
#[derive(Debug)]
pub(crate) struct Passes {
    state: Mutex<State>,
    /// Whether rows are at hand, so that the next pass is carried out on them.
    at_hand: bool,
    worked_out: Arc<WorkedOut>,
}

/// What several runs of a fit on one machine share.
#[derive(Debug, Default)]
pub(crate) struct WorkedOut {
    /// Decompositions and the like, in the order of asking.
    results: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
    /// Which of so many rows are held out by which choice: to find them takes a look at the number of each.
    held_out: Mutex<Vec<HeldOut>>,
}

#[derive(Debug, Clone)]
struct HeldOut {
    choice: HoldOut,
    /// How many rows there are to choose from.
    of: usize,
    rows: Arc<[usize]>,
}

impl WorkedOut {
    /// The rows that are held out, ascending.
    pub(crate) fn held_out(&self, hold_out: HoldOut, rows: usize) -> Arc<[usize]> {
        let mut all = self.held_out.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.iter().find(|known| known.choice == hold_out && known.of == rows) {
            return Arc::clone(&known.rows);
        }
        let found: Arc<[usize]> = hold_out.held_out(rows).collect();
        all.push(HeldOut { choice: hold_out, of: rows, rows: Arc::clone(&found) });
        found
    }

    /// The same choices of rows, and nothing else.
    pub(crate) fn choices(&self) -> Self {
        let all = self.held_out.lock().unwrap_or_else(PoisonError::into_inner);
        WorkedOut { results: Mutex::default(), held_out: Mutex::new(all.clone()) }
    }

    /// What was worked out so far, apart from what others will work out from now on: a plan that goes on with
    /// other rows comes to other results.
    pub(crate) fn apart(&self) -> Self {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner).clone();
        WorkedOut { results: Mutex::new(results), ..self.choices() }
    }
}

#[derive(Debug)]
struct State {
    /// What passes found, and what was settled between them, in the order of asking.
    known: Vec<Vec<u8>>,
    /// How many of these this run has asked for.
    asked: usize,
    /// How much of what was worked out it has asked for.
    shared: usize,
    /// What the next pass found here.
    found: Option<Part>,
}

impl Passes {
    pub(crate) fn new(known: Vec<Vec<u8>>, at_hand: bool, worked_out: Arc<WorkedOut>) -> Self {
        let state = Mutex::new(State { known, asked: 0, shared: 0, found: None });
        Passes { state, at_hand, worked_out }
    }

    /// All that is known by now.
    pub(crate) fn into_known(self) -> Vec<Vec<u8>> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).known
    }

    /// What the next pass found here, if it got so far.
    pub(crate) fn into_found(self) -> Option<Part> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).found
    }

    /// What is known at this place of the fit.
    fn known(&self) -> Result<Option<Part>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let place = state.asked;
        state.asked += 1;
        state.known.get(place).map(|bytes| Part::from_bytes(bytes).map(|read| read.0)).transpose()
    }

    fn pass(&self, stage: &str, walk: impl FnOnce() -> Result<Part>) -> Result<Part> {
        if let Some(known) = self.known()? {
            return Ok(known);
        }
        if self.at_hand {
            let found = walk()?;
            self.state.lock().unwrap_or_else(PoisonError::into_inner).found = Some(found);
        }
        Err(Error::Paused { stage: stage.to_owned() })
    }

    fn worked_out<T: Send + Sync + 'static>(
        &self,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let place = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.shared += 1;
            state.shared - 1
        };
        let all = || self.worked_out.results.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all().get(place).cloned().and_then(|found| found.downcast().ok()) {
            return Ok(found);
        }
        // Not locked meanwhile: a thread that waits for others of its pool may be handed another part of the
        // pass, and would wait for itself. Two that work at once find the same.
        let found = Arc::new(work()?);
        let mut all = all();
        if all.len() == place {
            all.push(found.clone());
        }
        Ok(found)
    }

    pub(super) fn held_out(&self, hold_out: HoldOut, rows: usize) -> Arc<[usize]> {
        self.worked_out.held_out(hold_out, rows)
    }

    fn settled(&self, decide: impl FnOnce() -> Result<Part>) -> Result<Part> {
        if let Some(known) = self.known()? {
            return Ok(known);
        }
        let part = decide()?;
        let bytes = part.to_bytes(serde_json::Value::Null);
        self.state.lock().unwrap_or_else(PoisonError::into_inner).known.push(bytes);
        Ok(part)
    }
}

impl<'a> Training<'a> {
    /// What a walk over the rows at hand finds, merged over all rows.
    pub(crate) fn pass(&self, stage: &str, walk: impl FnOnce() -> Result<Part>) -> Result<Part> {
        match self.passes {
            None => walk(),
            Some(passes) => passes.pass(stage, walk),
        }
    }

    /// What takes long and follows from what passes found. It must ask for no pass itself.
    pub(crate) fn worked_out<T: Send + Sync + 'static>(
        &self,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        match self.passes {
            None => work().map(Arc::new),
            Some(passes) => passes.worked_out(work),
        }
    }

    /// Matrices that follow from what passes found, and in whose coordinates the next pass sums up. The driver
    /// decides, and plans carry them: worked out on another kind of processor, a direction may have the other
    /// sign, and sums would not add up.
    pub(crate) fn settled_basis<const N: usize>(
        &self,
        decide: impl FnOnce() -> Result<[Array2<f64>; N]>,
    ) -> Result<[Array2<f64>; N]> {
        let Some(passes) = self.passes else { return decide() };
        let name = |number: usize| format!("basis {number}");
        let mut part = passes.settled(|| {
            let numbered = decide()?.into_iter().enumerate();
            Ok(numbered.fold(Part::default(), |part, (number, matrix)| {
                part.with(&name(number), Field::Sum(matrix))
            }))
        })?;
        let mut found = [const { None }; N];
        for (number, place) in found.iter_mut().enumerate() {
            *place = Some(part.take::<Array2<f64>>(&name(number))?);
        }
        Ok(found.map(|matrix| matrix.unwrap_or_else(|| unreachable!("each was taken"))))
    }

    /// Row numbers that follow from numbers alone. They are worth remembering: it takes a look at the number
    /// of every row to find them.
    pub(crate) fn settled_rows(
        &self,
        decide: impl FnOnce() -> Result<Vec<usize>>,
    ) -> Result<Vec<usize>> {
        let Some(passes) = self.passes else { return decide() };
        let mut part = passes.settled(|| {
            let numbers = decide()?.into_iter().map(|row| row as u64).collect();
            Ok(Part::default().with("rows", Field::Counts(numbers)))
        })?;
        Ok(part.take::<Vec<u64>>("rows")?.into_iter().map(|row| row as usize).collect())
    }

    /// The features of these rows (ascending numbers).
    pub(crate) fn gather<T: Real>(&self, rows: &[usize]) -> Result<Array2<T>> {
        let features = &*self.data.features;
        if self.passes.is_none() {
            return gather(features, rows);
        }
        let mut part = self.pass("chosen rows", || {
            Ok(Part::default().with("features", self.chosen(features, rows)?))
        })?;
        let found: ChosenRows = part.take("features")?;
        self.check_found(&found, rows)?;
        Ok(found.values.mapv(T::from_double))
    }

    /// These rows with their logits and labels, as a dataset in which they have the same numbers. It has
    /// all rows where all are at hand.
    pub(crate) fn bring(&self, rows: &[usize]) -> Result<Brought<'a>> {
        if self.passes.is_none() {
            return Ok(Brought::Here(self.data));
        }
        let data = self.data;
        let mut part = self.pass("chosen rows", || {
            let logits = data.logits.as_deref().map(|logits| self.chosen(logits, rows));
            let labels = data.labels.as_ref().map(|labels| {
                let here = self.among(rows);
                let bits = labels_of(labels, here)?.into_iter().map(i64::cast_unsigned);
                let numbers = here.iter().map(|&row| row as u64);
                Ok::<_, Error>(numbers.zip(bits).flat_map(|(row, label)| [row, label]).collect())
            });
            Ok(Part::default()
                .with("features", self.chosen(&*data.features, rows)?)
                .with_optional("logits", logits.transpose()?)
                .with_optional("labels", labels.transpose()?.map(Field::Pairs)))
        })?;
        let features: ChosenRows = part.take("features")?;
        self.check_found(&features, rows)?;
        let mut brought = Dataset::new(data.name.clone(), OwnedRows(features.values));
        if let Some(logits) = part.take_optional::<ChosenRows>("logits")? {
            brought = brought.with_logits(OwnedRows(logits.values))?;
        }
        if let Some(pairs) = part.take_optional::<Vec<u64>>("labels")? {
            let labels = pairs.chunks_exact(2).map(|pair| pair[1].cast_signed());
            brought = brought.with_labels(Labels::from(&labels.collect::<Vec<_>>()[..]))?;
        }
        let brought = brought.placed(&AtHand::Only(rows.into()), data.rows());
        Ok(Brought::Copied(Box::new(brought)))
    }

    /// One row of numbers for each of these rows, of which `read` is given some at a time.
    pub(crate) fn of_each(
        &self,
        stage: &str,
        rows: &[usize],
        width: usize,
        read: impl FnOnce(&[usize]) -> Result<Array2<f64>>,
    ) -> Result<Array2<f64>> {
        let mut part = self.pass(stage, || {
            let numbers = self.among(rows).to_vec();
            let values =
                if numbers.is_empty() { Array2::zeros((0, width)) } else { read(&numbers)? };
            Ok(Part::default().with("values", Field::Rows(ChosenRows { numbers, values })))
        })?;
        let found: ChosenRows = part.take("values")?;
        self.check_found(&found, rows)?;
        Ok(found.values)
    }

    /// Those of these rows (ascending numbers) that are at hand.
    fn among<'b>(&self, rows: &'b [usize]) -> &'b [usize] {
        let Range { start, end } = self.at_hand();
        let place = |limit: usize| rows.partition_point(|&row| row < limit);
        &rows[place(start)..place(end)]
    }

    fn chosen(&self, source: &dyn FeatureSource, rows: &[usize]) -> Result<Field> {
        let numbers = self.among(rows).to_vec();
        let values = gather(source, &numbers)?;
        Ok(Field::Rows(ChosenRows { numbers, values }))
    }

    /// Fails unless a pass brought the rows that were asked for.
    fn check_found(&self, found: &ChosenRows, rows: &[usize]) -> Result<()> {
        if found.numbers == rows && found.values.len_of(Axis(0)) == rows.len() {
            return Ok(());
        }
        Err(Error::Plan(format!(
            "a pass brought {} of the {} rows that it was to bring: parts are missing, or belong to \
             another fit",
            found.numbers.len(),
            rows.len()
        )))
    }
}

/// A dataset, ours or copied.
pub(crate) enum Brought<'a> {
    Here(&'a Dataset<'a>),
    Copied(Box<Dataset<'static>>),
}

impl Brought<'_> {
    pub(crate) fn data(&self) -> &Dataset<'_> {
        match self {
            Brought::Here(data) => data,
            Brought::Copied(data) => data,
        }
    }
}
