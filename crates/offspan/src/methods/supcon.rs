//! The same scores on the features of a network trained with a contrastive loss (SupCon): KNN+ and
//! SSD+. Rows carry those features as a tensor of their own.

use super::model::{Found, Model, Scorer};
use crate::io::{Dataset, TensorWriter};
use crate::{Error, Result};

const SUPCON: &str = "supcon";
const HINT: &str = "store the features of a network trained with a contrastive loss (SupCon) as \
                    `supcon` [rows, width] beside `features`";

/// The rows with their SupCon features in place of the others.
pub(super) fn supcon_rows<'a>(who: &str, data: &'a Dataset<'_>) -> Result<Dataset<'a>> {
    let extra = data.extra(who, SUPCON, HINT)?;
    let mut rows = Dataset::new(data.name.clone(), &*extra.rows);
    rows.labels.clone_from(&data.labels);
    Ok(rows)
}

/// A method on the SupCon features of the rows.
#[derive(Debug, Clone)]
pub(crate) struct OnSupcon {
    pub(super) name: &'static str,
    pub(super) score: Model,
    pub(super) width: usize,
}

impl Scorer for OnSupcon {
    fn check_inputs(&self, data: &Dataset<'_>) -> Result<()> {
        let on = supcon_rows(self.name, data)?;
        if on.width() == self.width {
            return self.score.check_inputs(&on);
        }
        Err(Error::shape(
            format!("`{SUPCON}` of {}", data.name),
            format!("{} columns, as in training", self.width),
            format!("{} columns", on.width()),
        ))
    }

    fn extras(&self) -> &'static [&'static str] {
        &[SUPCON]
    }

    fn score(&self, data: &Dataset<'_>, start: usize, out: &mut [f64]) -> Result<()> {
        self.score.score(&supcon_rows(self.name, data)?, start, out)
    }

    fn found(&self) -> Found {
        let mut found = self.score.found();
        found.insert("supcon width".to_owned(), self.width as f64);
        found
    }

    fn write<'a>(&'a self, prefix: &str, writer: &mut TensorWriter<'a>) {
        self.score.write(prefix, writer);
    }
}
