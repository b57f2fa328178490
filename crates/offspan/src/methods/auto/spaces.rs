//! Both spaces in which classes and neighbourhoods are looked at: rows as they are, and unit vectors.

use ndarray::{Array2, ArrayView2, Axis, s};

use super::basis::{Basis, Coordinates};
use super::sample::Sample;
use super::space::{self, Space};
use super::term::{Rows, Term};
use crate::graph::{Builder, Value};
use crate::io::{Dataset, TensorWriter, gather, read_finite};
use crate::methods::model::{Found, Stored};
use crate::{Precision, Real, Result};

/// Rows read together.
const ROWS_AT_ONCE: usize = 1024;

/// Both spaces in the precision of scoring.
#[derive(Debug, Clone)]
pub(super) enum Spaces {
    F32(Pair<f32>),
    F64(Pair<f64>),
}

/// Both spaces over one basis; a space whose terms have no weight is left out.
#[derive(Debug, Clone)]
pub(super) struct Pair<T> {
    basis: Basis<T>,
    as_they_are: Option<Space<T>>,
    unit: Option<Space<T>>,
}

impl Spaces {
    pub(super) fn fit(
        precision: Precision,
        data: &Dataset<'_>,
        sample: &Sample,
        seed: u64,
    ) -> Result<Self> {
        let numbers = &sample.numbers;
        Ok(match precision {
            Precision::F32 => {
                Spaces::F32(Pair::fit(Basis::fit(data, numbers)?, data, sample, seed)?)
            }
            Precision::F64 => {
                Spaces::F64(Pair::fit(Basis::fit(data, numbers)?, data, sample, seed)?)
            }
        })
    }

    /// Other rows in the coordinates of these.
    pub(super) fn fit_others(
        &self,
        data: &Dataset<'_>,
        sample: &Sample,
        seed: u64,
    ) -> Result<Self> {
        Ok(match self {
            Spaces::F32(pair) => Spaces::F32(Pair::fit(pair.basis.clone(), data, sample, seed)?),
            Spaces::F64(pair) => Spaces::F64(Pair::fit(pair.basis.clone(), data, sample, seed)?),
        })
    }

    /// The terms that are there, in the order of the columns of [`Spaces::read`].
    pub(super) fn terms(&self) -> Vec<Term> {
        match self {
            Spaces::F32(pair) => pair.terms(),
            Spaces::F64(pair) => pair.terms(),
        }
    }

    /// The terms of rows from `start` on.
    pub(super) fn read(
        &self,
        data: &Dataset<'_>,
        start: usize,
        count: usize,
    ) -> Result<Array2<f64>> {
        match self {
            Spaces::F32(pair) => pair.read(data, start, count),
            Spaces::F64(pair) => pair.read(data, start, count),
        }
    }

    /// The terms that are asked for within a graph, each [N].
    pub(super) fn graph(&self, rows: Value, builder: &mut Builder<'_>) -> Vec<(Term, Value)> {
        match self {
            Spaces::F32(pair) => pair.graph(rows, builder),
            Spaces::F64(pair) => pair.graph(rows, builder),
        }
    }

    /// Without the spaces of which no term is in the list; none if none is left.
    pub(super) fn only(self, terms: &[Term]) -> Option<Self> {
        Some(match self {
            Spaces::F32(pair) => Spaces::F32(pair.only(terms)?),
            Spaces::F64(pair) => Spaces::F64(pair.only(terms)?),
        })
    }

    pub(super) fn tell(&self, found: &mut Found) {
        match self {
            Spaces::F32(pair) => pair.tell(found),
            Spaces::F64(pair) => pair.tell(found),
        }
    }

    pub(super) fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        match self {
            Spaces::F32(pair) => pair.write(prefix, writer),
            Spaces::F64(pair) => pair.write(prefix, writer),
        }
    }

    /// The spaces that these terms need; none if they need none.
    pub(super) fn read_from(
        precision: Precision,
        terms: &[Term],
        stored: Stored<'_>,
    ) -> Result<Option<Self>> {
        Ok(match precision {
            Precision::F32 => Pair::read_from(terms, stored)?.map(Spaces::F32),
            Precision::F64 => Pair::read_from(terms, stored)?.map(Spaces::F64),
        })
    }
}

/// What a space is called in a file.
fn name(rows: Rows) -> &'static str {
    match rows {
        Rows::AsTheyAre => "rows.",
        Rows::Unit => "unit.",
    }
}

fn rest_name(rows: Rows) -> String {
    format!("variance of the rest of {}", name(rows).trim_end_matches('.'))
}

impl<T: Real> Pair<T> {
    fn fit(basis: Basis<T>, data: &Dataset<'_>, sample: &Sample, seed: u64) -> Result<Self> {
        let mut rows = Coordinates::empty(basis.coordinates());
        for numbers in sample.numbers.chunks(ROWS_AT_ONCE) {
            let part: Array2<T> = gather(&*data.features, numbers)?;
            rows.append(&basis.of(part.view()));
        }
        let left = basis.left();
        let space = |rows: &Coordinates<f64>| Space::fit(rows, &sample.classes, left, seed);
        let as_they_are = Some(space(&rows)?);
        let unit = Some(space(&rows.unit())?);
        Ok(Pair { basis, as_they_are, unit })
    }

    fn spaces(&self) -> impl Iterator<Item = (Rows, &Space<T>)> {
        let both = [(Rows::AsTheyAre, &self.as_they_are), (Rows::Unit, &self.unit)];
        both.into_iter().filter_map(|(rows, space)| Some((rows, space.as_ref()?)))
    }

    fn terms(&self) -> Vec<Term> {
        self.spaces().flat_map(|(rows, _)| Term::of_space(rows)).collect()
    }

    fn read(&self, data: &Dataset<'_>, start: usize, count: usize) -> Result<Array2<f64>> {
        let mut rows = Array2::from_elem((count, data.width()), T::default());
        read_finite(&*data.features, start, rows.view_mut())?;
        Ok(self.of(rows.view()))
    }

    fn graph(&self, rows: Value, builder: &mut Builder<'_>) -> Vec<(Term, Value)> {
        let coordinates = self.basis.graph(rows, builder);
        let mut found = Vec::new();
        for (kind, space) in self.spaces() {
            let coordinates = match kind {
                Rows::AsTheyAre => coordinates,
                Rows::Unit => coordinates.unit(builder),
            };
            let terms = space.graph(coordinates, builder);
            for (term, value) in Term::of_space(kind).into_iter().zip(terms) {
                // A row without direction is like no other.
                found.extend(
                    value.map(|value| (term, builder.put_last(coordinates.is_zero, value))),
                );
            }
        }
        found
    }

    fn of(&self, rows: ArrayView2<'_, T>) -> Array2<f64> {
        let coordinates = self.basis.of(rows);
        let mut out = Array2::zeros((rows.nrows(), self.terms().len()));
        for (index, (kind, space)) in self.spaces().enumerate() {
            let terms = match kind {
                Rows::AsTheyAre => space.read(&coordinates),
                Rows::Unit => space.read(&coordinates.unit()),
            };
            let first = index * space::TERMS;
            out.slice_mut(s![.., first..first + space::TERMS]).assign(&terms);
        }
        // A row without direction is like no other.
        for (mut row, length) in out.axis_iter_mut(Axis(0)).zip(&coordinates.lengths) {
            if *length == 0.0 {
                row.fill(f64::NEG_INFINITY);
            }
        }
        out
    }

    fn only(self, terms: &[Term]) -> Option<Self> {
        let asked = |rows| Term::of_space(rows).map(|term| terms.contains(&term));
        let space = |space: Option<Space<T>>, rows| {
            let asked = asked(rows);
            space.filter(|_| asked.contains(&true)).map(|space| space.asked(asked))
        };
        let pair = Pair {
            as_they_are: space(self.as_they_are, Rows::AsTheyAre),
            unit: space(self.unit, Rows::Unit),
            basis: self.basis,
        };
        (pair.spaces().count() > 0).then_some(pair)
    }

    fn tell(&self, found: &mut Found) {
        for (rows, space) in self.spaces() {
            if let Some(variance) = space.rest_variance() {
                found.insert(rest_name(rows), variance);
            }
        }
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.basis.write(prefix, writer);
        for (rows, space) in self.spaces() {
            space.write(&format!("{prefix}{}", name(rows)), writer);
        }
    }

    fn read_from(terms: &[Term], stored: Stored<'_>) -> Result<Option<Self>> {
        let asked = |rows| Term::of_space(rows).map(|term| terms.contains(&term));
        let wanted = |rows| asked(rows).contains(&true);
        if !wanted(Rows::AsTheyAre) && !wanted(Rows::Unit) {
            return Ok(None);
        }
        let basis = Basis::<T>::read(stored)?;
        let read = |rows| -> Result<Option<Space<T>>> {
            if !wanted(rows) {
                return Ok(None);
            }
            let rest = match basis.left() {
                0 => None,
                _ => Some(stored.number(&rest_name(rows))?),
            };
            let space = Space::read_from(name(rows), (basis.coordinates(), rest), stored)?;
            Ok(Some(space.asked(asked(rows))))
        };
        let (as_they_are, unit) = (read(Rows::AsTheyAre)?, read(Rows::Unit)?);
        Ok(Some(Pair { basis, as_they_are, unit }))
    }
}
