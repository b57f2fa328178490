//! All terms of a detector: fitted together, and read together.

use ndarray::{Array2, Axis, s};
use rayon::prelude::*;

use super::energy::EnergyPart;
use super::products::Products;
use super::sample::Sample;
use super::spaces::Spaces;
use super::term::Term;
use super::{AutoParams, BLOCK, in_blocks, residuals};
use crate::error::in_order;
use crate::graph::{Builder, Value};
use crate::io::Dataset;
use crate::methods::kpca::KpcaModel;
use crate::methods::model::RowValues;
use crate::training::Training;
use crate::{Error, Result};

/// Terms that can be read of any row.
#[derive(Debug, Clone)]
pub(super) struct Evidence {
    pub(super) kpca: KpcaModel,
    pub(super) products: Products,
    pub(super) energy: Option<EnergyPart>,
    pub(super) spaces: Option<Spaces>,
    /// Whether the residual of the kernel PCA is a term.
    pub(super) span: bool,
}

impl Evidence {
    /// Fits every term that the data allow, besides the kernel PCA. `others` are rows that the fit does not
    /// see. Coordinates are those of `known`, or found anew.
    pub(super) fn fit(
        params: &AutoParams,
        kpca: KpcaModel,
        training: &Training<'_>,
        (sample, known): (&Sample, Option<&Spaces>),
        others: &Dataset<'_>,
    ) -> Result<Self> {
        let energy =
            EnergyPart::fit(training, &sample.numbers, others, (params.seed, params.precision))?;
        let spaces = match known {
            Some(known) => known.fit_others(training.data, sample, params.seed)?,
            None => Spaces::fit(params.precision, training.data, sample, params.seed)?,
        };
        let (kpca, products, _) = Products::cheapest(kpca, |kpca| {
            in_blocks(others, |data, start, out| residuals(kpca, data, start, out))
        })?;
        Ok(Evidence { kpca, products, energy, spaces: Some(spaces), span: true })
    }

    /// The terms that are there, in the order of the columns of [`Evidence::read`].
    pub(super) fn terms(&self) -> Vec<Term> {
        let mut terms = Vec::new();
        terms.extend(self.span.then_some(Term::Span));
        terms.extend(self.energy.iter().map(|_| Term::Energy));
        terms.extend(self.spaces.iter().flat_map(Spaces::terms));
        terms
    }

    /// The column of each of these terms in [`Evidence::read`].
    pub(super) fn columns(&self, terms: &[Term]) -> Vec<usize> {
        let there = self.terms();
        let place = |term: &Term| there.iter().position(|other| other == term);
        terms
            .iter()
            .map(|term| place(term).expect("the terms of a detector were checked"))
            .collect()
    }

    /// Drops what none of these terms needs. The kernel PCA stays, as it is what a detector tells of, but is
    /// no longer read.
    pub(super) fn keep_only(&mut self, terms: &[Term]) {
        self.span = terms.contains(&Term::Span);
        if !terms.contains(&Term::Energy) {
            self.energy = None;
        }
        self.spaces = self.spaces.take().and_then(|spaces| spaces.only(terms));
    }

    /// Fails unless all these terms can be read.
    pub(super) fn check_has(&self, terms: &[Term]) -> Result<()> {
        let there = self.terms();
        match terms.iter().find(|term| !there.contains(term)) {
            None => Ok(()),
            Some(term) => {
                Err(Error::shape("the detector", format!("what the term `{term}` needs"), "none"))
            }
        }
    }

    /// Every term of rows from `start` on, on the calling thread: one row a row, one term a column.
    pub(super) fn read(
        &self,
        data: &Dataset<'_>,
        start: usize,
        count: usize,
    ) -> Result<Array2<f64>> {
        let mut out = Array2::zeros((count, self.terms().len()));
        let mut numbers = vec![0.0; count];
        let mut column = 0;
        let mut put = |numbers: &[f64], out: &mut Array2<f64>| {
            out.column_mut(column).iter_mut().zip(numbers).for_each(|(out, number)| *out = *number);
            column += 1;
        };
        if self.span {
            self.kpca.score(data, start, &mut numbers)?;
            put(&numbers, &mut out);
        }
        if let Some(energy) = &self.energy {
            energy.read(data, start, &mut numbers)?;
            put(&numbers, &mut out);
        }
        if let Some(spaces) = &self.spaces {
            let first = out.ncols() - spaces.terms().len();
            out.slice_mut(s![.., first..]).assign(&spaces.read(data, start, count)?);
        }
        Ok(out)
    }

    /// Every term that is asked for within a graph, each [N].
    pub(super) fn graph(
        &self,
        rows: RowValues,
        builder: &mut Builder<'_>,
    ) -> Result<Vec<(Term, Value)>> {
        let mut found = Vec::new();
        if self.span {
            found.push((Term::Span, self.kpca.score_graph(rows, builder)?));
        }
        if let Some(energy) = &self.energy {
            found.push((Term::Energy, energy.graph(rows, builder)));
        }
        if let Some(spaces) = &self.spaces {
            found.extend(spaces.graph(rows.features, builder));
        }
        Ok(found)
    }

    /// Every term of all rows, on all threads.
    pub(super) fn read_all(&self, data: &Dataset<'_>) -> Result<Array2<f64>> {
        let mut out = Array2::zeros((data.rows(), self.terms().len()));
        let blocks = out
            .axis_chunks_iter_mut(Axis(0), BLOCK)
            .into_par_iter()
            .enumerate()
            .map(|(block, mut out)| {
                let read = self.read(data, block * BLOCK, out.nrows())?;
                out.assign(&read);
                Ok(())
            })
            .collect();
        in_order(blocks)?;
        Ok(out)
    }
}
