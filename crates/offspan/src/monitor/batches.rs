//! Which batches a stream has had, so that one that is given twice can be noticed.

use ndarray::Array2;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::Monitor;
use crate::Result;
use crate::io::observer::{Observer, check_interrupt};
use crate::io::{Dataset, FeatureSource};
use crate::numeric::vector::contiguous;

/// A monitor remembers so many batches, the last ones: eleven years of one a day.
pub const BATCHES_REMEMBERED: usize = 4096;

/// Rows hashed at a time.
const BLOCK: usize = 256;

/// A batch that a monitor has taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SeenBatch {
    /// What it is known by: a hash of its rows, or a name that was given to it.
    pub id: String,
    /// Its first row in the stream, from 0.
    pub row: usize,
    /// How many rows it had.
    pub rows: usize,
}

impl Monitor {
    /// The batch of this id, if it was taken and is not so long ago that it is forgotten.
    #[must_use]
    pub fn seen(&self, id: &str) -> Option<&SeenBatch> {
        self.seen.iter().find(|batch| batch.id == id)
    }

    /// The batches that it remembers, in the order of the stream.
    #[must_use]
    pub fn seen_batches(&self) -> &[SeenBatch] {
        &self.seen
    }

    /// Remembers the last `rows` rows as a batch of this id; the oldest batch of more than
    /// [`BATCHES_REMEMBERED`] is forgotten.
    pub fn remember(&mut self, id: String, rows: usize) {
        self.seen.retain(|batch| batch.id != id);
        self.seen.push(SeenBatch { id, row: self.rows.saturating_sub(rows), rows });
        let forgotten = self.seen.len().saturating_sub(BATCHES_REMEMBERED);
        self.seen.drain(..forgotten);
    }
}

/// The id of a batch of rows: a hash of its features and logits, whatever the kind of its file.
///
/// # Errors
/// If the observer asks to stop.
pub fn id_of_rows(batch: &Dataset<'_>, observer: &dyn Observer) -> Result<String> {
    let mut hash = Xxh3::new();
    hash_rows(&*batch.features, &mut hash, observer)?;
    if let Some(logits) = &batch.logits {
        hash_rows(&**logits, &mut hash, observer)?;
    }
    Ok(format!("rows xxh3-128:{:032x}", hash.digest128()))
}

/// The id of a batch of scores: a hash of them.
#[must_use]
pub fn id_of_scores(scores: &[f64]) -> String {
    let mut hash = Xxh3::new();
    hash.update(bytemuck::cast_slice(scores));
    format!("scores xxh3-128:{:032x}", hash.digest128())
}

/// The id of a batch that was given a name.
#[must_use]
pub fn id_of_name(name: &str) -> String {
    format!("name {name}")
}

fn hash_rows(rows: &dyn FeatureSource, hash: &mut Xxh3, observer: &dyn Observer) -> Result<()> {
    // Of one row of six numbers and two rows of three, the hashes differ.
    hash.update(&(rows.width() as u64).to_le_bytes());
    let mut block = Array2::<f64>::zeros((BLOCK, rows.width()));
    for start in (0..rows.rows()).step_by(BLOCK) {
        check_interrupt(observer)?;
        let count = BLOCK.min(rows.rows() - start);
        let mut part = block.slice_mut(ndarray::s![..count, ..]);
        rows.read_f64(start, part.view_mut())?;
        hash.update(bytemuck::cast_slice(contiguous(&part)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;
    use crate::io::observer::Silent;
    use crate::monitor::MonitorOptions;

    fn monitor() -> Monitor {
        let reference: Vec<f64> = (0..100).map(f64::from).collect();
        Monitor::new(&reference, MonitorOptions::new(0.95, 5.0)).unwrap()
    }

    #[test]
    fn rows_are_known_by_their_numbers_and_not_by_their_type() {
        let id = |rows: Array2<f32>| id_of_rows(&Dataset::new("x", rows.view()), &Silent).unwrap();
        let rows = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let wide = rows.mapv(f64::from);
        assert_eq!(id(rows.clone()), id_of_rows(&Dataset::new("y", wide.view()), &Silent).unwrap());
        assert_ne!(id(rows.clone()), id(rows.clone().into_shape_with_order((3, 2)).unwrap()));
        let with_logits = Dataset::new("x", rows.view()).with_logits(rows.view()).unwrap();
        assert_ne!(id(rows.clone()), id_of_rows(&with_logits, &Silent).unwrap());
        // More than one block.
        let mut many = Array2::<f32>::ones((600, 2));
        let before = id(many.clone());
        many[[599, 1]] = 2.0;
        assert_ne!(id(many), before);
    }

    #[test]
    fn a_monitor_remembers_the_last_batches_and_no_more() {
        let mut monitor = monitor();
        for number in 0..BATCHES_REMEMBERED + 2 {
            monitor.update(&[50.0]).unwrap();
            monitor.remember(id_of_name(&number.to_string()), 1);
        }
        assert_eq!(monitor.seen_batches().len(), BATCHES_REMEMBERED);
        assert_eq!(monitor.seen(&id_of_name("1")), None);
        let third = monitor.seen(&id_of_name("2")).unwrap();
        assert_eq!((third.row, third.rows), (2, 1));
        // Again: it is known by where it was last.
        monitor.update(&[50.0, 51.0]).unwrap();
        monitor.remember(id_of_name("2"), 2);
        assert_eq!(monitor.seen(&id_of_name("2")).unwrap().row, BATCHES_REMEMBERED + 2);
        assert_eq!(monitor.seen_batches().len(), BATCHES_REMEMBERED);
    }
}
