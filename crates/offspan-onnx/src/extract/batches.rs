//! Inputs in batches, prepared on other threads while the network is busy with the last ones.

use std::ops::Range;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;

use rayon::prelude::*;

use crate::data::{Data, Inputs};
use crate::image::prepare::{Prepared, Preparer};
use crate::input_error::{InputError, InputResult};

/// Batches that wait for the network, at most. Together with the one it works on and the one that is being made, this is all
/// that is in memory.
const WAITING: usize = 1;

/// Some items, those that could be read and those that could not.
pub(super) struct Batch {
    pub(super) items: Range<usize>,
    /// The item and its input.
    pub(super) rows: Vec<(usize, Prepared)>,
    pub(super) failures: Vec<(usize, InputError)>,
}

/// What turns items into inputs.
pub(super) enum Maker<'a> {
    Images(&'a Preparer),
    Arrays,
}

/// Starts to prepare the items from `start` on.
pub(super) fn batches<'scope>(
    scope: &'scope Scope<'scope, '_>,
    data: &'scope Data,
    maker: Maker<'scope>,
    start: usize,
    size: usize,
) -> Receiver<InputResult<Batch>> {
    let (sender, receiver) = sync_channel(WAITING);
    scope.spawn(move || {
        for first in (start..data.rows()).step_by(size) {
            let items = first..(first + size).min(data.rows());
            let batch = make(data, &maker, items);
            let last = batch.is_err();
            // Nobody listens any more: the run has ended.
            if sender.send(batch).is_err() || last {
                return;
            }
        }
    });
    receiver
}

fn make(data: &Data, maker: &Maker<'_>, items: Range<usize>) -> InputResult<Batch> {
    let mut batch = Batch { items: items.clone(), rows: Vec::new(), failures: Vec::new() };
    match (&data.inputs, maker) {
        (Inputs::Images(images), Maker::Images(preparer)) => {
            let prepared: Vec<InputResult<Prepared>> =
                images[items.clone()].par_iter().map(|path| preparer.image(path)).collect();
            for (item, result) in items.zip(prepared) {
                match result {
                    Ok(row) => batch.rows.push((item, row)),
                    Err(error) => batch.failures.push((item, error)),
                }
            }
        }
        (Inputs::Arrays(array), _) => {
            let width: usize = array.shape.iter().product();
            let mut numbers = vec![0.0; items.len() * width];
            Inputs::read_array(array, items.start, &mut numbers)?;
            let rows = numbers.chunks_exact(width);
            batch.rows = items
                .zip(rows)
                .map(|(item, row)| {
                    (item, Prepared { shape: array.shape.clone(), numbers: row.to_vec() })
                })
                .collect();
        }
        (Inputs::Images(_), Maker::Arrays) => unreachable!("images have a preparer"),
    }
    Ok(batch)
}
