//! Some rows of a whole that is elsewhere, under the numbers that they have there.

use std::ops::Range;
use std::sync::Arc;

use ndarray::ArrayViewMut2;

use super::{Dataset, FeatureSource};
use crate::{Error, Result};

/// Which rows of the whole are at hand.
#[derive(Debug, Clone)]
pub(crate) enum AtHand {
    /// Consecutive ones.
    Run(Range<usize>),
    /// These, in ascending order.
    Only(Arc<[usize]>),
}

impl AtHand {
    /// None of them.
    pub(crate) const NONE: AtHand = AtHand::Run(0..0);

    /// Where consecutive rows of the whole lie among those at hand.
    pub(super) fn place(&self, rows: Range<usize>, what: &str) -> Result<Range<usize>> {
        let first = match self {
            _ if rows.is_empty() => Some(0),
            AtHand::Run(run) if run.start <= rows.start && rows.end <= run.end => {
                Some(rows.start - run.start)
            }
            AtHand::Run(_) => None,
            AtHand::Only(numbers) => numbers.binary_search(&rows.start).ok().filter(|&first| {
                numbers.get(first + rows.len() - 1).is_some_and(|&last| last + 1 == rows.end)
            }),
        };
        let length = rows.len();
        first
            .map(|first| first..first + length)
            .ok_or_else(|| Error::NotAtHand { what: what.to_owned(), row: rows.start })
    }
}

/// Rows at hand that answer to their numbers in the whole.
struct Placed<'a> {
    rows: Box<dyn FeatureSource + 'a>,
    at_hand: AtHand,
    total: usize,
}

impl FeatureSource for Placed<'_> {
    fn rows(&self) -> usize {
        self.total
    }

    fn width(&self) -> usize {
        self.rows.width()
    }

    fn name(&self) -> &str {
        self.rows.name()
    }

    fn read_f32(&self, start: usize, out: ArrayViewMut2<'_, f32>) -> Result<()> {
        let place = self.at_hand.place(start..start + out.nrows(), self.name())?;
        self.rows.read_f32(place.start, out)
    }

    fn read_f64(&self, start: usize, out: ArrayViewMut2<'_, f64>) -> Result<()> {
        let place = self.at_hand.place(start..start + out.nrows(), self.name())?;
        self.rows.read_f64(place.start, out)
    }
}

/// A source of this width without rows.
struct NoRows(usize);

impl FeatureSource for NoRows {
    fn rows(&self) -> usize {
        0
    }

    fn width(&self) -> usize {
        self.0
    }

    fn name(&self) -> &str {
        "rows elsewhere"
    }

    fn read_f32(&self, _: usize, _: ArrayViewMut2<'_, f32>) -> Result<()> {
        Ok(())
    }

    fn read_f64(&self, _: usize, _: ArrayViewMut2<'_, f64>) -> Result<()> {
        Ok(())
    }
}

impl<'a> Dataset<'a> {
    /// The same rows as some of `total`, under their numbers there.
    pub(crate) fn placed(self, at_hand: &AtHand, total: usize) -> Self {
        let place = |rows: Box<dyn FeatureSource + 'a>| -> Box<dyn FeatureSource + 'a> {
            Box::new(Placed { rows, at_hand: at_hand.clone(), total })
        };
        let mut placed = Dataset::new(self.name, place(self.features));
        placed.logits = self.logits.map(place);
        placed.labels = self.labels.map(|labels| labels.placed(at_hand.clone(), total));
        placed
    }

    /// What is known of rows that are elsewhere: their number and width, how many logits there are, and
    /// whether there are labels.
    pub(crate) fn elsewhere(
        name: &str,
        (rows, width): (usize, usize),
        logits: Option<usize>,
        labels: bool,
    ) -> Dataset<'static> {
        let mut data = Dataset::new(name, NoRows(width));
        data.logits = logits.map(|classes| Box::new(NoRows(classes)) as Box<dyn FeatureSource>);
        data.labels = labels.then(|| super::Labels::from(&[][..]));
        data.placed(&AtHand::NONE, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Labels, read_rows};

    #[test]
    fn rows_answer_to_their_numbers_in_the_whole() {
        let x = ndarray::array![[1.0], [2.0], [3.0]];
        let data = Dataset::new("x", x.view()).with_labels(Labels::from(&[7, 8, 9][..])).unwrap();
        let run = data.placed(&AtHand::Run(10..13), 100);
        assert_eq!(run.rows(), 100);
        assert_eq!(
            read_rows::<f64>(&*run.features, 11..13).unwrap(),
            ndarray::array![[2.0], [3.0]]
        );
        assert_eq!(run.labels.as_ref().unwrap().read(12..13).unwrap(), [9]);
        assert!(read_rows::<f64>(&*run.features, 12..14).is_err());
        assert!(run.labels.as_ref().unwrap().read(9..10).is_err());

        let only = AtHand::Only([4, 5, 90].into());
        let some = Dataset::new("x", x.view()).placed(&only, 100);
        assert_eq!(read_rows::<f64>(&*some.features, 4..6).unwrap(), ndarray::array![[1.0], [2.0]]);
        assert_eq!(read_rows::<f64>(&*some.features, 90..91).unwrap(), ndarray::array![[3.0]]);
        assert!(read_rows::<f64>(&*some.features, 5..7).is_err());
    }

    #[test]
    fn rows_elsewhere_have_shapes_and_no_numbers() {
        let data = Dataset::elsewhere("far", (1000, 8), Some(10), true);
        assert_eq!((data.rows(), data.width()), (1000, 8));
        assert_eq!(data.logits.as_ref().unwrap().width(), 10);
        assert_eq!(data.labels.as_ref().unwrap().len(), 1000);
        let error = read_rows::<f64>(&*data.features, 3..4).unwrap_err();
        assert!(matches!(error, Error::NotAtHand { row: 3, .. }), "{error}");
    }
}
