//! Methods that are Python objects.

use std::cell::RefCell;
use std::rc::Rc;

use numpy::{IntoPyArray, PyReadonlyArray1};
use offspan::io::{Dataset, Head};
use offspan_study::evaluation::{OwnDetector, OwnMethod};
use pyo3::prelude::*;

use crate::pack::arrays;

/// A Python object with `fit(features, logits, labels, weight, bias)` and `score(features, logits, name)`; where it has
/// them, `with_seed(seed)` gives the same with a seed, and `learns` tells whether `fit` does anything.
pub(crate) struct Own {
    name: String,
    object: Py<PyAny>,
    learns: bool,
    /// What it raised.
    raised: Rc<RefCell<Option<PyErr>>>,
}

impl Own {
    pub(crate) fn new(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let learns = match object.getattr_opt("learns")? {
            Some(learns) => learns.extract()?,
            None => true,
        };
        let object = object.clone().unbind();
        Ok(Own { name: name.to_owned(), object, learns, raised: Rc::default() })
    }

    /// What the object raised, if it did.
    pub(crate) fn raised(&self) -> Option<PyErr> {
        self.raised.take()
    }

    fn again(&self, object: Py<PyAny>) -> Self {
        Own { name: self.name.clone(), object, learns: self.learns, raised: self.raised.clone() }
    }

    /// Keeps what Python raised, and stops.
    fn keep<T>(&self, result: PyResult<T>) -> offspan::Result<T> {
        result.map_err(|error| {
            let told = error.to_string();
            self.raised.replace(Some(error));
            offspan::Error::Metric(told)
        })
    }

    fn seeded(&self, py: Python<'_>, seed: u64) -> PyResult<Option<Py<PyAny>>> {
        match self.object.bind(py).getattr_opt("with_seed")? {
            Some(with_seed) => {
                let seeded = with_seed.call1((seed,))?;
                Ok((!seeded.is_none()).then(|| seeded.unbind()))
            }
            None => Ok(None),
        }
    }
}

impl OwnMethod for Own {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn learns(&self) -> bool {
        self.learns
    }

    fn with_seed(&self, seed: u64) -> Option<Box<dyn OwnMethod>> {
        let seeded = Python::attach(|py| self.keep(self.seeded(py, seed)).ok().flatten())?;
        Some(Box::new(self.again(seeded)))
    }

    fn fit(
        &self,
        train: &Dataset<'_>,
        head: Option<&Head>,
    ) -> offspan::Result<Box<dyn OwnDetector>> {
        // What learns nothing does not need the rows in memory.
        if self.learns {
            let (features, logits) = arrays(train)?;
            let labels = train.labels().map(|labels| labels.read(0..labels.len())).transpose()?;
            Python::attach(|py| {
                let fitted = self.object.call_method1(
                    py,
                    "fit",
                    (
                        features.into_pyarray(py),
                        logits.map(|logits| logits.into_pyarray(py)),
                        labels.map(|labels| labels.into_pyarray(py)),
                        head.map(|head| head.weight().to_owned().into_pyarray(py)),
                        head.map(|head| head.bias().to_owned().into_pyarray(py)),
                    ),
                );
                self.keep(fitted).map(drop)
            })?;
        }
        Python::attach(|py| {
            Ok(Box::new(self.again(self.object.clone_ref(py))) as Box<dyn OwnDetector>)
        })
    }
}

impl OwnDetector for Own {
    fn score(&self, rows: &Dataset<'_>) -> offspan::Result<Vec<f64>> {
        let (features, logits) = arrays(rows)?;
        Python::attach(|py| {
            let logits = logits.map(|logits| logits.into_pyarray(py));
            let given = (features.into_pyarray(py), logits, rows.name());
            let scores = self.keep(self.object.call_method1(py, "score", given))?;
            let scores: PyResult<PyReadonlyArray1<'_, f64>> = scores.bind(py).extract();
            Ok(self.keep(scores)?.as_array().to_vec())
        })
    }
}
