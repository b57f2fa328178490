//! Labels as classes 0..C.

use std::collections::BTreeSet;

use crate::training::Training;
use crate::{Error, Result};

/// Labels read at a time.
const CHUNK: usize = 1 << 16;

/// More distinct labels than this are identifiers of some kind, not classes, and the tables of one
/// row per class would not fit memory.
const MOST_CLASSES: usize = 20_000;

/// The class of every row.
#[derive(Debug)]
pub(super) struct Classes {
    count: usize,
    of_rows: Vec<u32>,
}

impl Classes {
    /// Numbers the distinct labels of the kept rows in ascending order. Rows that are not kept have
    /// no class of their own and must not be asked for.
    pub(super) fn read(method: &str, training: &Training<'_>) -> Result<Self> {
        let labels = training.labels(method)?;
        let rows = training.data.rows();
        let chunks = || (0..rows).step_by(CHUNK).map(|start| start..(start + CHUNK).min(rows));
        let mut distinct = BTreeSet::new();
        for range in chunks() {
            let values = labels.read(range.clone())?;
            let kept = range.zip(values).filter(|&(row, _)| training.hold_out.keeps(row));
            distinct.extend(kept.map(|(_, value)| value));
            if distinct.len() > MOST_CLASSES {
                return Err(Error::parameter(
                    "labels",
                    format!("at most {MOST_CLASSES} classes for {method}"),
                    format!("more among the labels of {}", training.data.name),
                ));
            }
        }
        if distinct.len() < 2 {
            return Err(Error::MissingInput {
                who: method.to_owned(),
                what: "labels of at least two classes",
                hint: format!("those of {} are all the same", training.data.name),
            });
        }
        let values: Vec<i64> = distinct.into_iter().collect();
        let mut of_rows = Vec::with_capacity(rows);
        for range in chunks() {
            let class = |value| values.binary_search(&value).unwrap_or(usize::MAX) as u32;
            of_rows.extend(labels.read(range)?.into_iter().map(class));
        }
        Ok(Classes { count: values.len(), of_rows })
    }

    /// C
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The class of a kept row.
    pub(super) fn of(&self, row: usize) -> usize {
        self.of_rows[row] as usize
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::io::{Dataset, Labels};
    use crate::methods::learn::rows::testing::training;

    fn read(labels: Option<&[i64]>) -> Result<Classes> {
        let rows = Array2::<f32>::ones((5, 2));
        let mut data = Dataset::new("train", rows.view());
        data.labels = labels.map(Labels::from);
        Classes::read("rff-opt", &training(&data))
    }

    #[test]
    fn any_whole_numbers_become_classes_in_ascending_order() {
        let classes = read(Some(&[7, -3, 1 << 40, 7, -3])).unwrap();
        assert_eq!(classes.count(), 3);
        assert_eq!((0..5).map(|row| classes.of(row)).collect::<Vec<_>>(), [1, 0, 2, 1, 0]);
    }

    #[test]
    fn missing_or_single_labels_are_clear_errors() {
        assert_eq!(
            read(None).unwrap_err().to_string(),
            "rff-opt on train needs labels: store each row's class as whole numbers `labels` beside \
             `features`, or give them with labels="
        );
        assert_eq!(
            read(Some(&[4; 5])).unwrap_err().to_string(),
            "rff-opt needs labels of at least two classes: those of train are all the same"
        );
    }
}
